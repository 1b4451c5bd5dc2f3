//! Large bodies of many clients at once, under `--memory-limit`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::bench::{Bench, Scale};

const CLIENTS: usize = 12;
const CLIENTS_LONG: usize = 100;
const BODY_BYTES: usize = 60 << 20;
/// A quarter of it is for bodies: one of them fits.
const LIMIT_MB: u64 = 300;
/// What a process may have beyond its limit: the program itself and its threads.
const BEYOND_MB: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(20);

fn client(port: u16, body: &[u8]) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let head = format!(
        "POST /in HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    // One that is refused need not read the whole body.
    stream.write_all(body).ok();
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(String::from_utf8_lossy(&status[9..]).into_owned())
}

pub fn large_bodies(bench: &Bench) -> anyhow::Result<()> {
    let port = testservers::free_port()?;
    let app = format!(
        "@app:name('Large')\n\
         @source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))\n\
         define stream In (n long, text string);\n\
         @sink(type='log') define stream Out (length int);\n\
         from In select str:length(text) as length insert into Out;\n"
    );
    fs::write(bench.path("large.siddhi"), app)?;
    let mut child = Command::new(&bench.binary)
        .arg("run")
        .arg(bench.path("large.siddhi"))
        .args(["--memory-limit", &format!("{LIMIT_MB}MB")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(bench.path("log"))?)
        .spawn()
        .context("cannot start headwater")?;
    let played = play(bench, port, child.id());
    child.kill().ok();
    child.wait()?;
    let (answers, peak, now) = played?;
    let figures = format!(
        "{} clients with {} MB each, --memory-limit {LIMIT_MB}MB: peak {peak} MB, then {now} MB; {} taken, \
         {} asked to come again",
        answers.len(),
        BODY_BYTES >> 20,
        answers.iter().filter(|answer| *answer == "200").count(),
        answers.iter().filter(|answer| *answer == "503").count(),
    );
    println!("        {figures}");
    *bench.figures() = figures;
    let is_known = |answer: &String| answer == "200" || answer == "503";
    ensure!(answers.iter().all(is_known), "{answers:?}");
    ensure!(peak <= LIMIT_MB + BEYOND_MB, "{peak} MB");
    Ok(())
}

/// Answers, and memory in MB: the peak, and what is left.
fn play(bench: &Bench, port: u16, process: u32) -> anyhow::Result<(Vec<String>, u64, u64)> {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(began.elapsed() < PATIENCE, "it does not listen");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let count = match bench.scale {
        Scale::Long => CLIENTS_LONG,
        Scale::Short | Scale::Sample => CLIENTS,
    };
    let mut body = b"{\"event\":{\"n\":1,\"text\":\"".to_vec();
    body.resize(BODY_BYTES, b'x');
    body.extend_from_slice(b"\"}}");
    let answers: anyhow::Result<Vec<String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| client(port, &body)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().map_err(|_| anyhow::anyhow!("a panic"))?)
            .collect()
    });
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse::<u64>().ok())
    };
    let memory = of("VmHWM:").zip(of("VmRSS:"));
    let (peak, now) = memory.context("the process says nothing of its memory")?;
    Ok((answers?, peak >> 10, now >> 10))
}
