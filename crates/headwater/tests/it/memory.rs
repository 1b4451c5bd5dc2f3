//! The memory that an app may take, and what the binary says about its inside.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let text = text.replace("{dir}", &self.0.path().display().to_string());
        fs::write(&path, text).expect("the folder can be written");
        path
    }
}

fn headwater() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.arg("run").stdin(Stdio::null()).env("TZ", "");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn summary(output: &Output) -> Json {
    let text = text(&output.stdout);
    let last = text.lines().last().expect("a summary");
    serde_json::from_str(last).expect("the last line is JSON")
}

const LINES: usize = 20_000;

/// Reads lines; `{head}` are annotations of the app and `{into}` is what becomes of them.
const READER: &str = "@app:name('{name}') {head}
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false',
    file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream Lines (id int, long string);
{into}";

fn reader(place: &Place, head: &str, name: &str, into: &str) -> PathBuf {
    let text = READER.replace("{head}", head).replace("{name}", name);
    let text = text.replace("{into}", into);
    place.write(&format!("{name}.siddhi"), &text)
}

fn lines(place: &Place) {
    let line = |n| format!("{n},{}{n}\n", "x".repeat(90));
    place.write("in.csv", &(0..LINES).map(line).collect::<String>());
}

const KEEPS: &str =
    "define table T (id int, long string); from Lines select id, long insert into T;";

fn app<'a>(summary: &'a Json, name: &str) -> &'a Json {
    let apps = summary["apps"].as_array().expect("a list of apps");
    let app = apps.iter().find(|app| app["name"] == name);
    app.expect("the app is in the summary")
}

#[test]
fn a_full_app_refuses_events_and_the_others_go_on() {
    let place = Place::new();
    lines(&place);
    let full = reader(&place, "@app:memory(limit='500 KB')", "Full", KEEPS);
    let other = reader(&place, "", "Other", KEEPS);
    let state = place.0.path().join("state");
    let output = headwater()
        .args([&full, &other])
        .args(["--until-done", "--json", "--state"])
        .arg(&state)
        .output()
        .expect("the binary starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let summary = summary(&output);
    let inserted = |name| {
        let tables = app(&summary, name)["tables"].clone();
        tables[0]["inserted"].as_u64().expect("a count")
    };
    assert_eq!(inserted("Other"), LINES as u64);
    let kept = inserted("Full");
    // A row takes some 120 bytes; one batch may go beyond.
    assert!((2_000..10_000).contains(&kept), "{kept}");
    for part in [
        "close to its memory budget",
        "of its memory budget of 500.0 KB (table 'T'",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let errors = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["errors", "list", "--each", "--json"])
        .arg(&state)
        .output()
        .expect("the binary starts");
    assert!(
        text(&errors.stdout).contains("memory budget"),
        "{}",
        text(&errors.stdout)
    );
}

#[test]
fn a_limit_of_the_command_line_holds_for_every_app() {
    let place = Place::new();
    lines(&place);
    let one = reader(&place, "", "One", KEEPS);
    let output = headwater()
        .arg(&one)
        .args(["--until-done", "--json", "--memory-limit", "500KB"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let config = place.write(
        "deployment.yaml",
        "siddhi:\n  properties:\n    memory.limit: 64 MB\n",
    );
    let with = |more: &[&str]| {
        let mut command = headwater();
        command
            .arg(&one)
            .args(["--until-done", "--config"])
            .arg(&config);
        command.args(more).output().expect("the binary starts")
    };
    assert_eq!(with(&[]).status.code(), Some(0));
    assert_eq!(with(&["--memory-limit", "500KB"]).status.code(), Some(4));
    assert_eq!(with(&["--memory-limit", "much"]).status.code(), Some(2));
}

#[test]
fn statistics_are_reported_on_the_console_and_served() {
    let place = Place::new();
    place.write("in.csv", "1,a\n2,b\n3,c\n");
    let app = reader(
        &place,
        "@app:statistics(reporter='console', interval='1', level='DETAIL', include='*Streams*,*Queries*')",
        "Counted",
        "@info(name='sum') from Lines#window.length(2) select sum(id) as s insert into Sums;",
    );
    let mut child = headwater()
        .arg(&app)
        .args(["-v", "--http", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut errors = std::io::BufReader::new(child.stderr.take().expect("standard error"));
    let line = wait_for(&mut errors, "HTTP server is listening");
    let address = line
        .trim()
        .rsplit('=')
        .next()
        .expect("an address")
        .to_owned();
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("standard output"));
    wait_for(&mut lines, "statistics of app 'Counted'");
    let name = "io.siddhi.SiddhiApps.Counted.Siddhi.";
    let line = wait_for(
        &mut lines,
        &format!("{name}Streams.Lines.throughput count=3 "),
    );
    assert!(line.contains("/s"), "{line}");
    wait_for(
        &mut lines,
        &format!("{name}Queries.sum.throughput count=3 "),
    );
    wait_for(&mut lines, &format!("{name}Queries.sum.latency timed="));
    wait_for(&mut lines, &format!("{name}Queries.sum.memory bytes="));
    let metrics = get(&address, "/metrics");
    for part in [
        "headwater_query_events_total{app=\"Counted\",query=\"sum\"} 3\n",
        "headwater_query_seconds_bucket{app=\"Counted\",query=\"sum\",le=\"+Inf\"}",
        "headwater_memory_bytes{app=\"Counted\",kind=\"query\",name=\"sum\"}",
        "headwater_app_memory_limit_bytes{app=\"Counted\"} 0\n",
    ] {
        assert!(metrics.contains(part), "{part} in {metrics}");
    }
    Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// The first line with these words.
fn wait_for(lines: &mut impl std::io::BufRead, words: &str) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        let read = lines.read_line(&mut line).expect("lines can be read");
        assert!(read > 0, "'{words}' did not come: {seen}");
        if line.contains(words) {
            return line;
        }
        seen.push_str(&line);
    }
}
