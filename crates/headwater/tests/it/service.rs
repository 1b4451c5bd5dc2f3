//! What a service manager hears of a server (`sd_notify(3)`): the test is the manager.

use std::fs;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::network::{curl, eventually, free_port};

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(120);

const APP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
@sink(type='log')
define stream Orders (id string);
";

/// The socket of a service manager, with no more messages in it than were taken.
struct Manager {
    socket: UnixDatagram,
    /// What `NOTIFY_SOCKET` is set to.
    name: String,
}

impl Manager {
    fn at_path(dir: &Path) -> Manager {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).expect("the folder can be written");
        Manager::of(socket, path.display().to_string())
    }

    fn at_abstract_name() -> Manager {
        let name = format!("headwater-test-{}-{}", std::process::id(), free_port());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let socket = UnixDatagram::bind_addr(&address).expect("a name of our own");
        Manager::of(socket, format!("@{name}"))
    }

    fn of(socket: UnixDatagram, name: String) -> Manager {
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        Manager { socket, name }
    }

    fn message(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a message in time");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// The next message that has this line, and those before it.
    fn wait_for(&self, line: &str) -> (String, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let message = self.message();
            if message.lines().any(|one| one.starts_with(line)) {
                return (message, before);
            }
            before.push(message);
        }
    }

    /// Takes what comes in this time.
    fn for_a_while(&self, time: Duration) -> Vec<String> {
        let until = Instant::now() + time;
        let mut all = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.socket.set_read_timeout(Some(left)).expect("not zero");
            let mut bytes = [0; 4096];
            if let Ok(length) = self.socket.recv(&mut bytes) {
                all.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            }
        }
        self.of_patience();
        all
    }

    fn of_patience(&self) {
        let set = self.socket.set_read_timeout(Some(PATIENCE));
        set.expect("not zero");
    }
}

struct Server {
    child: Child,
    port: u16,
    /// Holds the bodies of requests.
    dir: PathBuf,
}

impl Server {
    /// With a watchdog that looks every 100 ms.
    fn start(dir: &Path, app: &str, manager: &Manager, args: &[&str]) -> Server {
        let port = free_port();
        let path = dir.join("app.siddhi");
        fs::write(&path, app.replace("{port}", &port.to_string())).expect("it can be written");
        let child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("run")
            .arg(path)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .env("NOTIFY_SOCKET", &manager.name)
            .env("WATCHDOG_USEC", "300000")
            .env_remove("WATCHDOG_PID")
            .spawn()
            .expect("the binary starts");
        let dir = dir.to_owned();
        Server { child, port, dir }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn post(&self, body: &str) -> String {
        // Too long for an argument.
        let file = self.dir.join("body");
        fs::write(&file, body).expect("it can be written");
        let from = format!("@{}", file.display());
        let url = format!("http://127.0.0.1:{}/in", self.port);
        // Who is not answered soon is held back.
        curl(&["--max-time", "2", "--data-binary", &from, &url]).0
    }

    fn ends(mut self) -> Option<i32> {
        // What it still prints has to go somewhere.
        let mut rest = Vec::new();
        let mut out = self.child.stdout.take().expect("piped");
        out.read_to_end(&mut rest).expect("it can be read");
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn the_service_manager_hears_of_the_start_a_reload_and_the_stop() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let manager = Manager::at_path(dir.path());
    let http = format!("127.0.0.1:{}", free_port());
    let server = Server::start(dir.path(), APP, &manager, &["--http", &http]);
    let (first, _) = manager.wait_for("STATUS=starting");
    assert!(!first.contains("READY=1"), "{first}");
    let (ready, before) = manager.wait_for("READY=1");
    // What is ready answers at once.
    assert_eq!(server.post(r#"{"event":{"id":"a"}}"#), "200");
    assert_eq!(curl(&[&format!("http://{http}/ready")]).0, "200");
    assert!(ready.contains("STATUS=1 app runs"), "{ready}");
    assert!(!before.iter().any(|m| m.contains("WATCHDOG")), "{before:?}");
    manager.wait_for("WATCHDOG=1");
    manager.wait_for("WATCHDOG=1");

    server.signal("-HUP");
    let (reloading, _) = manager.wait_for("RELOADING=1");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let line = reloading
        .lines()
        .find_map(|l| l.strip_prefix("MONOTONIC_USEC="));
    let micros: i64 = line.expect("a time").parse().expect("a number");
    let ago = now.tv_sec * 1_000_000 + now.tv_nsec / 1000 - micros;
    assert!((0..60_000_000).contains(&ago), "{ago} us ago");
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");

    server.signal("-TERM");
    manager.wait_for("STOPPING=1");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn a_store_and_a_sink_that_are_away_are_told_apart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let manager = Manager::at_abstract_name();
    // A sink is connected again while the server runs.
    let app = "@app:name('Pipe') @source(type='http', receiver.url='http://127.0.0.1:{port}/in', \
        @map(type='json')) @sink(type='tcp', url='tcp://127.0.0.1:{far}/x', @map(type='json')) \
        define stream S (id string);"
        .replace("{far}", &free_port().to_string());
    let server = Server::start(dir.path(), &app, &manager, &[]);
    let (ready, _) = manager.wait_for("READY=1");
    let away = "away: sink 'S' (tcp) of app 'Pipe'";
    if !ready.contains(away) {
        manager.wait_for(&format!("STATUS=1 app runs; {away}"));
    }
    server.signal("-TERM");
    manager.wait_for("STOPPING=1");
    server.ends();

    // Without its store no app begins.
    let app = "@app:name('Kept') @source(type='http', receiver.url='http://127.0.0.1:{port}/in', \
        @map(type='json')) define stream S (id string); \
        @store(type='rdbms', jdbc.url='jdbc:postgresql://127.0.0.1:{far}/d', username='u', \
        password='p') define table T (id string); from S select id insert into T;"
        .replace("{far}", &free_port().to_string());
    let server = Server::start(dir.path(), &app, &manager, &[]);
    manager.wait_for("STATUS=starting");
    let heard = manager.for_a_while(Duration::from_secs(2));
    assert!(heard.is_empty(), "{heard:?}");
    server.signal("-TERM");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn the_watchdog_is_fed_only_while_the_apps_move() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let manager = Manager::at_path(dir.path());
    let mut server = Server::start(dir.path(), APP, &manager, &[]);
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    // Nobody reads what the log sink prints, so that its app stands still in the middle of a step.
    let long = format!(r#"{{"event":{{"id":"{}"}}}}"#, "x".repeat(1 << 20));
    server.post(&long);
    let alive = |heard: &[String]| heard.iter().any(|m| m.contains("WATCHDOG=1"));
    let until = Instant::now() + PATIENCE;
    while alive(&manager.for_a_while(Duration::from_secs(1))) {
        assert!(Instant::now() < until, "it is always alive");
    }
    assert!(!alive(&manager.for_a_while(Duration::from_secs(2))));

    let mut out = server.child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    manager.wait_for("WATCHDOG=1");
    server.signal("-TERM");
    manager.wait_for("STOPPING=1");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    let read = reader.join().expect("no panic");
    assert!(read.expect("it can be read") > 1 << 20);
}

#[test]
fn an_app_that_is_stuck_is_said_to_those_who_ask_for_health() {
    long_test!();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let manager = Manager::at_path(dir.path());
    let http = format!("127.0.0.1:{}", free_port());
    let mut server = Server::start(dir.path(), APP, &manager, &["--http", &http]);
    manager.wait_for("READY=1");
    let health = || curl(&[&format!("http://{http}/health")]);
    assert_eq!(
        health(),
        ("200".to_owned(), r#"{"status":"healthy"}"#.to_owned())
    );
    server.post(&format!(
        r#"{{"event":{{"id":"{}"}}}}"#,
        "x".repeat(1 << 20)
    ));
    eventually("it is stuck", || health().0 == "503");
    assert_eq!(health().1, r#"{"status":"unhealthy","stuck":["Shop"]}"#);
    let mut out = server.child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    eventually("it moves", || health().0 == "200");
    server.signal("-TERM");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    reader.join().expect("no panic").expect("it can be read");
}

#[test]
fn an_app_that_waits_for_its_sink_is_alive() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let manager = Manager::at_path(dir.path());
    let state = dir.path().join("state").display().to_string();
    let app = "@app:name('Pipe') @source(type='http', receiver.url='http://127.0.0.1:{port}/in', \
        @map(type='json')) @sink(type='tcp', url='tcp://127.0.0.1:{far}/x', on.error='WAIT', \
        @map(type='json')) define stream S (id string);"
        .replace("{far}", &free_port().to_string());
    let args = ["--state", &state, "--grace", "1s"];
    let server = Server::start(dir.path(), &app, &manager, &args);
    manager.wait_for("READY=1");
    // More than fits into the queue of the sink: the source is held back.
    let event = format!(r#"{{"event":{{"id":"{}"}}}}"#, "x".repeat(1 << 20));
    let began = Instant::now();
    while server.post(&event) == "200" {
        assert!(began.elapsed() < PATIENCE, "the queue has no end");
    }
    let heard = manager.for_a_while(Duration::from_secs(2));
    assert!(heard.iter().any(|m| m.contains("WATCHDOG=1")), "{heard:?}");
    // Not only what was sent before.
    manager.wait_for("WATCHDOG=1");
    server.signal("-TERM");
    assert_eq!(server.ends(), Some(0));
}
