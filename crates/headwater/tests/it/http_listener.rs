//! The listener of `--http`, where descriptors run out and where it may listen.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::network::{curl, eventually, free_port};

const APP: &str = "@app:name('Idle') define stream S (n int); define table T (n int);
from S select n insert into T;
";

/// What a process is let open; fewer than the connections that the listener takes.
const DESCRIPTORS: u32 = 96;

/// A run that ends with its test.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Hundredths of a second that a process has worked.
fn worked(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields = stat.rsplit(") ").next().expect("behind the name");
    let numbers = fields.split(' ').skip(11).take(2);
    numbers.map(|n| n.parse::<u64>().expect("a number")).sum()
}

#[test]
fn without_descriptors_it_waits_quietly_and_goes_on_when_there_are_some() {
    let dir = tempfile::tempdir().expect("a folder");
    let (app, log) = (dir.path().join("app.siddhi"), dir.path().join("log"));
    fs::write(&app, APP).expect("the folder can be written");
    let address = format!("127.0.0.1:{}", free_port());
    let limited = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    let run = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_headwater"), "run"])
        .arg(&app)
        .args(["--http", &address])
        .env("HEADWATER_LOG", "info")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).expect("the folder can be written"))
        .spawn();
    let run = Run(run.expect("a shell"));
    let ready = format!("http://{address}/ready");
    eventually("the listener", || curl(&[&ready]).0 == "200");

    let mut half: Vec<TcpStream> = Vec::new();
    for _ in 0..2 * DESCRIPTORS {
        let mut stream = TcpStream::connect(&address).expect("the system holds it");
        stream.write_all(b"GET /me").expect("the system holds it");
        half.push(stream);
    }
    let warnings = || {
        let text = fs::read_to_string(&log).expect("it can be read");
        text.matches("cannot accept HTTP connections").count()
    };
    eventually("a warning", || warnings() > 0);
    let (before, began) = (worked(run.0.id()), Instant::now());
    eventually("three warnings more", || warnings() > 3);
    let elapsed = began.elapsed();
    assert!(
        elapsed > Duration::from_secs(2),
        "one a second: {elapsed:?}"
    );
    let busy = worked(run.0.id()) - before;
    let share = u128::from(busy) * 1000 / elapsed.as_millis();
    assert!(
        share < 10,
        "it worked for {busy} of {} ms / 10",
        elapsed.as_millis()
    );

    drop(half);
    eventually("an answer", || curl(&[&ready]).0 == "200");
}

#[test]
fn beyond_loopback_it_listens_only_with_insecure() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = dir.path().join("app.siddhi");
    fs::write(&app, APP).expect("the folder can be written");
    let run = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("run")
            .arg(&app)
            .args(more)
            .output()
            .expect("the binary starts")
    };
    let refused = run(&["--http", "0.0.0.0:0"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    for part in ["0.0.0.0:0", "--insecure", "127.0.0.1"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(run(&["--insecure"]).status.code(), Some(2));
    let allowed = run(&["--http", "0.0.0.0:0", "--insecure", "--until-done"]);
    let text = String::from_utf8_lossy(&allowed.stderr).into_owned();
    assert_eq!(allowed.status.code(), Some(0), "{text}");
}
