//! What somebody who operates a server sees and relies on: its log, its exit code, what it does while
//! a peer is away, how long a stop takes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::network::{Running, curl, eventually, free_port, piped, text};

/// A server whose standard error is read line by line.
struct Server {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    port: u16,
    _dir: tempfile::TempDir,
}

const APP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Orders (id string, amount double);
@sink(type='log')
define stream Seen (id string, amount double);
from Orders select id, amount insert into Seen;
";

impl Server {
    fn start(args: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let app = dir.path().join("shop.siddhi");
        fs::write(&app, APP.replace("{port}", &port.to_string())).expect("it can be written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("run")
            .arg(app)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .env("TZ", "")
            .env_remove("HEADWATER_LOG")
            .spawn()
            .expect("the binary starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        Server {
            child,
            errors,
            port,
            _dir: dir,
        }
    }

    /// The next line of the log that has this text.
    fn line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.errors.read_line(&mut line).expect("it is text");
            assert!(read > 0, "the log ended before '{text}'");
            if line.contains(text) {
                return line;
            }
        }
    }

    fn post(&self, body: &str) -> String {
        curl(&["-d", body, &format!("http://127.0.0.1:{}/in", self.port)]).0
    }

    fn listens(&self) {
        eventually("it listens", || self.post("{bad") == "200");
    }

    /// Stops in order; exit code, and what is left of the log.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill runs").success());
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("it is text");
        (self.child.wait().expect("it ends").code(), rest)
    }
}

#[test]
fn a_server_that_is_stopped_exits_with_0_whatever_it_has_rejected() {
    let mut server = Server::start(&["-q"]);
    server.listens();
    let line = server.line("event rejected");
    assert!(line.contains("app=\"Shop\" stream=\"Orders\""), "{line}");
    let (code, rest) = server.stop();
    assert_eq!(code, Some(0), "{rest}");
    assert!(!rest.contains("INFO"), "{rest}");
}

#[test]
fn the_start_is_told_with_each_part_and_its_address() {
    let mut server = Server::start(&["--http", "127.0.0.1:0"]);
    let said = |line: &str, parts: &[&str]| {
        for part in parts {
            assert!(line.contains(part), "{part}: {line}");
        }
    };
    said(&server.line("starting app"), &["app=\"Shop\"", "sources=1"]);
    server.line("state is not saved");
    let url = format!("url=\"http://127.0.0.1:{}/in\"", server.port);
    let line = server.line("source is ready");
    said(&line, &["INFO", "app=\"Shop\"", "stream=\"Orders\"", &url]);
    server.line("ready in ");
    let (code, rest) = server.stop();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("stopping on SIGTERM"), "{rest}");
}

#[test]
fn each_line_of_the_log_is_an_object_where_json_is_asked_for() {
    let mut server = Server::start(&["--log-format", "json"]);
    server.listens();
    let line = server.line("event rejected");
    let object: Json = serde_json::from_str(&line).expect("an object");
    assert_eq!(object["level"], "warn");
    assert_eq!(object["app"], "Shop");
    assert_eq!(object["stream"], "Orders");
    let time = object["time"].as_str().expect("a time");
    assert!(time.ends_with('Z') && time.contains('T'), "{time}");
    let (code, rest) = server.stop();
    assert_eq!(code, Some(0));
    for line in rest.lines() {
        serde_json::from_str::<Json>(line).expect("an object");
    }
}

#[test]
fn a_client_may_hear_what_is_wrong_with_its_event() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let app = APP
        .replace("{port}", &port.to_string())
        .replace("/in',", "/in', answer.rejected='true',");
    let path = dir.path().join("shop.siddhi");
    fs::write(&path, app).expect("it can be written");
    let path = path.display().to_string();
    let state = dir.path().join("state").display().to_string();
    for args in [&[path.as_str()][..], &[path.as_str(), "--state", &state]] {
        let run = Running::connected(args, 1);
        let url = format!("http://127.0.0.1:{port}/in");
        let good = r#"{"event":{"id":"a","amount":1.5}}"#;
        assert_eq!(curl(&["-d", good, &url]).0, "200");
        let (status, answer) = curl(&["-d", r#"{"event":{"id":"a","amount":"much"}}"#, &url]);
        assert_eq!(status, "400", "{answer}");
        assert!(answer.contains("attribute 'amount'"), "{answer}");
        run.err_has("event rejected app=\"Shop\" stream=\"Orders\"", 1);
        run.stop();
    }
}

/// Runs the binary; exit code and what it said.
fn said(args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let output = piped(command.args(args), input.as_bytes());
    (output.status.code(), text(&output.stderr))
}

#[test]
fn what_check_can_know_it_says_and_run_says_the_same() {
    let source = |options: &str| {
        format!(
            "@app:name('Base') @source(type='http', {options}, @map(type='json')) \
             define stream S (a int); from S select a insert into Out;"
        )
    };
    let store =
        "@store(type='rdbms', jdbc.url='jdbc:postgrsql://u:secret@h/d') define table T (a int);";
    let cases = [
        (
            source("reciever.url='http://h:8099/in'"),
            "did you mean 'receiver.url'?",
        ),
        (
            source("receiver.url='htp://h:8099/in'"),
            "did you mean 'http://'?",
        ),
        (
            source("receiver.url='http://h:99999/in'"),
            "a number from 0 to 65535",
        ),
        (store.to_owned(), "did you mean 'jdbc:postgresql:'?"),
    ];
    for (app, expect) in &cases {
        for command in [&["check", "-"][..], &["run", "-", "--until-done"]] {
            let (code, text) = said(command, app);
            assert_eq!(code, Some(1), "{text}");
            assert!(text.contains(expect), "{text}");
        }
    }
    // As Siddhi.
    let (code, text) = said(&["check", "-", "--lenient"], &cases[0].0);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no errors: Base; 1 warning"), "{text}");
}

#[test]
fn a_listener_that_names_no_address_is_told_before_it_runs() {
    let app = "@app:name('Base') @source(type='http', @map(type='json')) define stream S (a int);
        @source(type='tcp', @map(type='binary')) define stream T (a int);
        @source(type='http', receiver.url='http://127.0.0.1:8099/in', @map(type='json')) define stream U (a int);
        from S select a insert into Out;";
    let (code, text) = said(&["check", "-"], app);
    assert_eq!(code, Some(0), "{text}");
    for address in [
        "Base/S: source 'http' does not say where it listens: it will be http://0.0.0.0:8280/Base/S",
        "tcp://0.0.0.0:9892/Base/T",
    ] {
        assert!(text.contains(address), "{text}");
    }
    assert!(!text.contains("8099"), "{text}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = dir.path().join("deployment.yaml");
    let text = "siddhi: {extensions: [{extension: {name: http, namespace: source, properties: {defaultHost: 127.0.0.1, defaultHttpPort: 8281}}}]}";
    fs::write(&config, text).expect("it can be written");
    let config = config.display().to_string();
    let (code, text) = said(&["check", "-", "--config", &config], app);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("http://127.0.0.1:8281/Base/S"), "{text}");
}

#[test]
fn two_apps_of_one_name_and_options_that_nobody_has_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["a.siddhi", "b.siddhi"] {
        let app = APP.replace("{port}", "8099");
        fs::write(dir.path().join(name), app).expect("it can be written");
    }
    let folder = dir.path().display().to_string();
    let (code, text) = said(&["check", &folder], "");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("two apps have the name 'Shop'"), "{text}");
    let app = dir.path().join("a.siddhi").display().to_string();
    let misspelt = [
        "run",
        &app,
        "--set",
        "Orders.source.reciever.url=http://h:1/",
    ];
    let (code, text) = said(&misspelt, "");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("did you mean 'receiver.url'?"), "{text}");
    let unlike = ["check", &app, "--set", "Orders.source.colour=red"];
    let (code, text) = said(&unlike, "");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("has no option 'colour'"), "{text}");
}

#[test]
fn windows_and_functions_have_their_pages() {
    let printed = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(args)
            .output();
        let output = output.expect("the binary starts");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = printed(&["explain", "timeBatch"]);
    assert!(page.contains("window #window.timeBatch"), "{page}");
    let page = printed(&["connectors", "str:concat"]);
    assert!(page.contains("function str:concat"), "{page}");
    // A name may be that of several.
    let page = printed(&["connectors", "file"]);
    assert!(
        page.contains("source file") && page.contains("sink file"),
        "{page}"
    );
    let (code, text) = said(&["explain", "lenghtBatch"], "");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("did you mean 'lengthBatch'?"), "{text}");
}

const TO_KAFKA: &str = "@app:name('Pipe')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
@sink(type='kafka', bootstrap.servers='127.0.0.1:{far}', topic='t', @map(type='json'))
define stream Orders (id string, amount double);
";

fn to_kafka(dir: &Path, port: u16) -> PathBuf {
    let text = TO_KAFKA
        .replace("{port}", &port.to_string())
        .replace("{far}", &free_port().to_string());
    let path = dir.join("pipe.siddhi");
    fs::write(&path, text).expect("it can be written");
    path
}

/// Clock ticks (10 ms) that a process has run for.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> u64 {
        let field = fields.next().and_then(|field| field.parse().ok());
        field.expect("a number")
    };
    next() + next()
}

#[test]
fn a_broker_that_is_away_costs_no_processor_time_no_client_and_no_slow_stop() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (port, http) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let app = to_kafka(dir.path(), port).display().to_string();
    let state = dir.path().join("state").display().to_string();
    let args = [&app, "--state", &state, "--http", &http, "--grace", "5s"];
    let run = Running::connected(&args, 1);
    run.err_has("cannot connect sink app=\"Pipe\" stream=\"Orders\"", 1);
    let url = format!("http://127.0.0.1:{port}/in");
    let event = r#"{"event":{"id":"a","amount":1.5}}"#;
    let (status, answer) = curl(&["-i", "-d", event, &url]);
    assert_eq!(status, "503", "{answer}");
    assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
    let (begun, before) = (Instant::now(), ticks(run.pid()));
    let (status, answer) = curl(&[&format!("http://{http}/ready")]);
    assert_eq!(status, "503", "{answer}");
    assert!(
        answer.contains("sink 'Orders' (kafka) of app 'Pipe'"),
        "{answer}"
    );
    run.err_has("sink is still without a connection", 2);
    let (took, used) = (begun.elapsed(), ticks(run.pid()) - before);
    // It burned 57 ticks of a hundred.
    let most = took.as_millis() as u64 / 10 * 5 / 100;
    assert!(used <= most.max(5), "{used} ticks in {took:?}");
    let stopped = Instant::now();
    let (code, summary) = run.stop();
    assert!(
        stopped.elapsed() < Duration::from_secs(6),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(code, Some(4), "undelivered, not failed: {summary}");
}
