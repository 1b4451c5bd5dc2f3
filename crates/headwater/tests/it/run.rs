//! What an outsider may rely on: exit codes, streams, JSON shapes, signals.

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

// row: sink file | file system
// n/a slow: a write returns when it is done
// n/a bad: a sink reads no payload
// n/a tls: it works on no network
// n/a login: it works on no network

// row: sink inMemory, source inMemory | the process itself
// n/a resume: a topic carries nothing between two steps
// n/a lost: there is no other side
// n/a slow: a topic holds nothing
// n/a tls: it works on no network
// n/a login: it works on no network

// row: sink log | standard output
// n/a resume: what was printed was printed
// n/a lost: there is no other side
// n/a slow: a write returns when it is done
// n/a bad: a sink reads no payload
// n/a tls: it works on no network
// n/a login: it works on no network
// n/a error: it cannot be away

// row: source file | file system
// n/a slow: a file waits
// n/a tls: it works on no network
// n/a login: it works on no network
// n/a error: `on.error` belongs to sinks

/// A folder with apps and their files; `{dir}` in an app stands for it.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let text = text.replace("{dir}", &self.dir.path().display().to_string());
        fs::write(&path, text).expect("the folder can be written");
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

fn headwater(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(args).stdin(Stdio::null()).env("TZ", "");
    command
}

fn run(app: &Path, more: &[&str]) -> Output {
    headwater(&["run"])
        .arg(app)
        .args(more)
        .output()
        .expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn ended(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
}

fn summary(output: &Output) -> Json {
    let text = stdout(output);
    let last = text.lines().last().expect("a summary");
    serde_json::from_str(last).expect("the last line is JSON")
}

const READER: &str = "@app:name('Reader')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false',
    file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream Lines (id string, amount double);
@sink(type='log', prefix='seen')
define stream Seen (id string, amount double);
from Lines select id, amount insert into Seen;
";

// shows: sink file order
// shows: sink log order
#[test]
fn a_run_ends_with_its_input_and_says_what_it_did() {
    let place = Place::new();
    let app = place.write("app.siddhi", READER);
    place.write("in.csv", "a,1.5\nb,2.5\n");
    let output = run(&app, &["--until-done"]);
    ended(&output, 0);
    let text = stdout(&output);
    assert_eq!(text.matches("seen : Event{").count(), 2, "{text}");
    assert!(text.contains("data=[b, 2.5], isExpired=false}"), "{text}");
    assert!(text.contains("2 events"), "{text}");
}

#[test]
fn the_summary_has_its_shape() {
    let place = Place::new();
    let app = place.write("app.siddhi", READER);
    place.write("in.csv", "a,1.5\nb,much\nc,2.5\n");
    let output = run(&app, &["--until-done", "--json"]);
    ended(&output, 4);
    let summary = summary(&output);
    assert_eq!(summary["type"], "summary");
    for key in ["seconds", "first_event_ms", "peak_rss_bytes", "cpu_seconds"] {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    let app = &summary["apps"][0];
    assert_eq!(app["name"], "Reader");
    let source = &app["sources"][0];
    assert_eq!(source["stream"], "Lines");
    assert_eq!(
        (&source["events"], &source["rejected"]),
        (&2.into(), &1.into())
    );
    assert!(source["bytes"].as_u64().is_some_and(|b| b > 10), "{source}");
    assert_eq!(app["sinks"][0]["events"], 2);
    assert_eq!(app["held_in_windows"], 0);
    let first: Json = serde_json::from_str(stdout(&output).lines().next().expect("a line"))
        .expect("every line is JSON");
    assert_eq!(first["type"], "log");
}

// shows: source file bad
#[test]
fn rejected_events_are_kept_with_their_place() {
    let place = Place::new();
    let app = place.write("app.siddhi", READER);
    place.write("in.csv", "a,1.5\nb,much\nc,2.5\n");
    let state = place.path("state").display().to_string();
    ended(&run(&app, &["--until-done", "--state", &state]), 4);
    let list = headwater(&["errors", "list", &state, "--each", "--json"])
        .output()
        .expect("it runs");
    let list: Json = serde_json::from_slice(&list.stdout).expect("JSON");
    let event = &list["events"][0];
    assert_eq!(
        (&event["stream"], &event["payload"]),
        (&"Lines".into(), &"b,much".into())
    );
    assert!(
        event["place"]
            .as_str()
            .is_some_and(|p| p.ends_with("in.csv, line 2")),
        "{event}"
    );
    let show = headwater(&["errors", "show", "1", &state])
        .output()
        .expect("it runs");
    assert!(stdout(&show).contains("b,much"));
    // The file is not read again, and nothing is rejected twice.
    let again = run(&app, &["--until-done", "--json", "--state", &state]);
    ended(&again, 0);
    assert_eq!(summary(&again)["apps"][0]["sources"][0]["events"], 0);
}

// covers: 625, 627, 628
// shows: sink file error
#[test]
fn what_a_sink_cannot_deliver_goes_where_it_is_told() {
    let place = Place::new();
    place.write("in.csv", "a,1.5\nb,2.5\n");
    place.write("file", "");
    let with_policy = |policy: &str| {
        let sinks = "@OnError(action='STREAM')
@sink(type='file', file.uri='{dir}/file/below', on.error='POLICY', @map(type='csv'))
define stream Out (id string, amount double);
@sink(type='log', prefix='fault')
define stream Faults (id string, amount double);
from Lines select id, amount insert into Out;
from !Out select id, amount insert into Faults;
";
        let text = format!("{READER}{}", sinks.replace("POLICY", policy));
        // Definitions stand before queries.
        let (queries, rest) = ("from Lines select id, amount insert into Seen;\n", text);
        let app = place.write("app.siddhi", &rest.replacen(queries, "", 1));
        let state = place.path(policy).display().to_string();
        let output = run(&app, &["--until-done", "--state", &state]);
        let errors = headwater(&["errors", "list", &state, "--each", "--json"])
            .output()
            .expect("it runs");
        let errors: Json = serde_json::from_slice(&errors.stdout).expect("JSON");
        let kept = errors["events"].as_array().map_or(0, Vec::len);
        (stdout(&output).matches("fault : Event").count(), kept)
    };
    assert_eq!(with_policy("STREAM"), (2, 0));
    assert_eq!(with_policy("STORE"), (0, 2));
    assert_eq!(with_policy("LOG").0, 0);
}

// shows: sink inMemory error
#[test]
fn events_that_nobody_reads_are_counted() {
    let place = Place::new();
    place.write("in.csv", "a,1.5\nb,2.5\n");
    let with_sink = |sink: &str| {
        let text = READER.replace("type='log', prefix='seen'", sink);
        let app = place.write("app.siddhi", &text);
        run(&app, &["--until-done", "--json"])
    };
    let output = with_sink("type='inMemory', topic='nobody'");
    ended(&output, 4);
    assert!(
        stderr(&output).contains("has no subscribers"),
        "{}",
        stderr(&output)
    );
    assert_eq!(summary(&output)["apps"][0]["sinks"][0]["failed"], 2);
    for policy in ["STORE", "WAIT"] {
        let state = place.path(policy).display().to_string();
        let sink = format!("type='inMemory', topic='nobody', on.error='{policy}'");
        let text = READER.replace("type='log', prefix='seen'", &sink);
        let app = place.write("app.siddhi", &text);
        ended(&run(&app, &["--until-done", "--state", &state]), 4);
        let show = headwater(&["errors", "show", "1", &state]).output();
        let show = stdout(&show.expect("it runs"));
        assert!(
            show.contains(r#"{"id":"a","amount":1.5}"#) && show.contains("has no subscribers"),
            "{show}"
        );
    }
}

// shows: sink inMemory error
#[test]
fn events_that_nobody_reads_go_to_the_fault_stream() {
    let place = Place::new();
    place.write("in.csv", "a,1.5\nb,2.5\n");
    let sink = "type='inMemory', topic='{{id}}', on.error='STREAM', @map(type='passThrough')";
    let (head, query) = READER.split_once("from Lines").expect("a query");
    let head = head
        .replace("type='log', prefix='seen'", sink)
        .replace("@sink(", "@OnError(action='STREAM') @sink(");
    let app = place.write(
        "app.siddhi",
        &format!(
            "{head}@source(type='inMemory', topic='b') @sink(type='log', prefix='heard')
            define stream B (id string, amount double);
            @sink(type='log', prefix='fault') define stream Faults (id string, amount double);
            from Lines{query} from !Seen select id, amount insert into Faults;"
        ),
    );
    let output = run(&app, &["--until-done"]);
    ended(&output, 0);
    let lines = stdout(&output);
    assert_eq!(lines.matches("fault : Event").count(), 1, "{lines}");
    assert!(
        lines.contains("data=[a, 1.5]") && lines.contains("heard"),
        "{lines}"
    );
}

// shows: sink inMemory order
#[test]
fn a_topic_inside_an_app_is_read_depth_first() {
    let place = Place::new();
    place.write("in.csv", "a,1.5\nb,2.5\n");
    let (head, query) = READER.split_once("from Lines").expect("a query");
    let head = head.replace("type='log', prefix='seen'", "type='inMemory', topic='mid'");
    let app = place.write(
        "app.siddhi",
        &format!(
            "{head}@source(type='inMemory', topic='mid') define stream Mid (id string, amount double);
            @sink(type='log') define stream Out (by string, id string);
            from Lines{query}
            from Seen select 'query' as by, id insert into Out;
            from Mid select 'topic' as by, id insert into Out;"
        ),
    );
    let output = run(&app, &["--until-done", "--json"]);
    ended(&output, 0);
    let order: Vec<String> = stdout(&output)
        .lines()
        .filter_map(|line| Some(line.split_once("data=[")?.1.split_once(']')?.0.to_owned()))
        .collect();
    assert_eq!(order, ["query, a", "topic, a", "query, b", "topic, b"]);
    assert_eq!(summary(&output)["apps"][0]["sources"][1]["events"], 2);
}

#[test]
fn faults_of_use_are_told_from_faults_of_apps() {
    let place = Place::new();
    let app = place.write("app.siddhi", READER);
    place.write("in.csv", "a,1.5\n");
    let code = |args: &[&str]| run(&app, args).status.code();
    assert_eq!(code(&["--no-such-flag"]), Some(2));
    assert_eq!(code(&["--set", "Line.source.file.uri=x"]), Some(2));
    assert_eq!(code(&["--replace", "nowhere=x"]), Some(2));
    assert_eq!(code(&["--timezone", "Mars/Base"]), Some(2));
    assert_eq!(
        code(&["--until-done", "--set", "Lines.source.tailing=true"]),
        Some(2)
    );
    let hint = stderr(&run(&app, &["--set", "Line.source.file.uri=x"]));
    assert!(hint.contains("did you mean 'Lines'?"), "{hint}");
    let broken = place.write("broken.siddhi", "define stream S (a strin);");
    let output = run(&broken, &[]);
    ended(&output, 1);
    assert!(
        stderr(&output).contains("broken.siddhi:1:"),
        "{}",
        stderr(&output)
    );
    ended(&run(&place.path("missing.siddhi"), &[]), 1);
    let twin = place.write("twin.siddhi", READER);
    ended(&run(&app, &[&twin.display().to_string()]), 1);
}

#[test]
fn a_folder_that_is_missing_is_no_connection() {
    let place = Place::new();
    let app = place.write("app.siddhi", READER);
    let output = run(&app, &["--until-done"]);
    ended(&output, 3);
    assert!(stderr(&output).contains("in.csv"), "{}", stderr(&output));
}

// shows: sink inMemory open
#[test]
fn apps_are_chained_by_topics() {
    let place = Place::new();
    let first = place.write(
        "first.siddhi",
        "@app:name('First')
         @source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
         define stream Lines (id string, amount double);
         @sink(type='inMemory', topic='mid')
         define stream Mid (id string, amount double);
         from Lines[amount > 1.0] select id, amount insert into Mid;",
    );
    let second = place.write(
        "second.siddhi",
        "@app:name('Second')
         @source(type='inMemory', topic='mid')
         define stream In (id string, amount double);
         @sink(type='file', file.uri='{dir}/out.txt', @map(type='csv'))
         define stream Out (id string, total double);
         from In select id, sum(amount) as total insert into Out;",
    );
    place.write("in.csv", "a,1.5\nb,0.5\nc,2.5\n");
    let output = run(&first, &[&second.display().to_string(), "--until-done"]);
    ended(&output, 0);
    assert_eq!(place.read("out.txt").trim_end(), "a,1.5\nc,4.0");
}

/// The first line of a child's standard error that holds a text.
fn wait_for(from: &mut impl std::io::BufRead, text: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        let read = from.read_line(&mut line).expect("a pipe can be read");
        assert!(read > 0, "it ended without saying '{text}'");
        if line.contains(text) {
            return line;
        }
    }
}

fn terminate(child: &Child) {
    let status = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success());
}

// covers: 658
#[test]
fn a_signal_stops_in_order_and_says_what_windows_hold() {
    let place = Place::new();
    let app = place.write(
        "app.siddhi",
        "@app:name('Holder')
         @source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
         define stream Lines (id string);
         @sink(type='log', prefix='seen')
         define stream Seen (id string);
         from Lines select id insert into Seen;
         from Lines#window.timeBatch(1 hour) select id insert into Later;",
    );
    place.write("in.csv", "a\nb\nc\n");
    let mut child = headwater(&["run", "--json"])
        .arg(&app)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("standard output"));
    wait_for(&mut lines, "[c]");
    terminate(&child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("a pipe can be read");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{rest}");
    let summary: Json =
        serde_json::from_str(rest.lines().last().expect("a summary")).expect("JSON");
    assert_eq!(summary["apps"][0]["held_in_windows"], 3);
}

#[test]
fn metrics_and_readiness_are_served_while_it_runs() {
    let place = Place::new();
    let app = place.write("app.siddhi", READER);
    place.write("in.csv", "a,1.5\n");
    let mut child = headwater(&["run", "-v", "--http", "127.0.0.1:0"])
        .arg(&app)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut errors = BufReader::new(child.stderr.take().expect("standard error"));
    let line = wait_for(&mut errors, "HTTP server is listening");
    let address = line
        .trim()
        .rsplit('=')
        .next()
        .expect("an address")
        .to_owned();
    let mut lines = BufReader::new(child.stdout.take().expect("standard output"));
    wait_for(&mut lines, "data=[a, 1.5]");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let events = "headwater_source_events_total{app=\"Reader\",stream=\"Lines\",type=\"file\"} 1";
    // What the engine holds is counted once a second.
    let counted = "headwater_stream_events_total{app=\"Reader\",stream=\"Seen\",type=\"stream\"} 1";
    for count in [events, counted] {
        let until = Instant::now() + Duration::from_secs(60);
        while !get("/metrics").contains(count) {
            assert!(Instant::now() < until, "{}", get("/metrics"));
        }
    }
    assert!(get("/metrics").contains("headwater_app_memory_bytes{app=\"Reader\"}"));
    assert!(get("/ready").starts_with("HTTP/1.1 200"));
    terminate(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

// covers: 603, 624
#[test]
fn what_a_query_cannot_process_is_kept() {
    let place = Place::new();
    let app = place.write(
        "app.siddhi",
        "@app:name('Odd')
         @source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
         @OnError(action='STREAM')
         define stream Lines (id string);
         @sink(type='file', file.uri='{dir}/faults.txt', @map(type='text', @payload('{{id}}')))
         define stream Faults (id string);
         from Lines select time:dateFormat(id, 'yyyy', 'MM') as at insert into Good;
         from !Lines select id insert into Faults;",
    );
    place.write("in.csv", "x\n2026\n");
    let output = run(&app, &["--until-done"]);
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        stderr(&output)
    );
    assert_eq!(place.read("faults.txt").trim(), "x");
}

// covers: 243, 621
#[test]
fn a_deployment_file_gives_refs_data_sources_and_persistence() {
    let place = Place::new();
    let app = place.write(
        "app.siddhi",
        "@app:name('Configured')
         @source(ref='input', @map(type='csv'))
         define stream Lines (id string, amount double);
         @store(type='rdbms', datasource='SHOP')
         define table T (id string, amount double);
         @store(type='rdbms')
         define table U (id string, amount double);
         @store(type='rdbms', jndi.resource='jdbc/shop', table.name='V')
         define table W (id string, amount double);
         from Lines select id, amount insert into T;
         from Lines select id, amount insert into U;
         from Lines select id, amount insert into W;",
    );
    let config = place.write(
        "deployment.yaml",
        "wso2.carbon: {id: si}
siddhi:
  refs:
    - ref:
        name: input
        type: file
        properties:
          mode: line
          file.uri: 'file:${env:INPUT}'
          tailing: 'false'
          file.read.wait.timeout: 1
          action.after.process: keep
  extensions:
    - extension:
        name: rdbms
        namespace: store
        properties: {jdbc.url: 'jdbc:sqlite:{dir}/default.db'}
state.persistence:
  enabled: true
  config: {location: '{dir}/kept'}
wso2.datasources:
  dataSources:
    - name: SHOP
      jndiConfig: {name: jdbc/shop}
      definition:
        type: RDBMS
        configuration: {jdbcUrl: 'jdbc:sqlite:{dir}/shop.db', username: x, password: y}
",
    );
    let input = place.write("in.csv", "a,1.5\nb,2.5\n");
    let output = headwater(&["run", "--until-done", "--json", "--config"])
        .args([&config, &app])
        .env("INPUT", &input)
        .output()
        .expect("the binary starts");
    ended(&output, 0);
    for (table, database) in ["shop.db", "default.db", "shop.db"].iter().enumerate() {
        assert_eq!(summary(&output)["apps"][0]["tables"][table]["inserted"], 2);
        assert!(place.path(database).exists());
    }
    assert!(place.path("kept/Configured/current").exists());
    let said = stderr(&output);
    assert!(
        said.contains("wso2.carbon") && !said.contains("dataSources"),
        "{said}"
    );
}

#[test]
fn check_prints_its_document() {
    let place = Place::new();
    let app = place.write("app.siddhi", "define stream S (a strin);\n");
    let output = headwater(&["check", "--json"])
        .arg(&app)
        .output()
        .expect("it runs");
    ended(&output, 1);
    let document: Json = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(document["version"], 1);
    let app = &document["apps"][0];
    assert_eq!(
        (&app["accepted"], &app["runnable"]),
        (&false.into(), &false.into())
    );
    let diagnostic = &app["diagnostics"][0];
    for key in [
        "code",
        "severity",
        "kind",
        "message",
        "file",
        "line",
        "column",
        "end_line",
        "end_column",
        "label",
        "help",
        "fix",
    ] {
        assert!(diagnostic.get(key).is_some(), "{key}: {diagnostic}");
    }
    assert_eq!(diagnostic["line"], 1);
}

#[test]
fn fmt_rewrites_and_checks() {
    let place = Place::new();
    let app = place.write("app.siddhi", "define   stream S(a string);");
    let path = app.display().to_string();
    ended(
        &headwater(&["fmt", "--check", &path])
            .output()
            .expect("it runs"),
        1,
    );
    ended(&headwater(&["fmt", &path]).output().expect("it runs"), 0);
    ended(
        &headwater(&["fmt", "--check", &path])
            .output()
            .expect("it runs"),
        0,
    );
    assert!(
        place
            .read("app.siddhi")
            .contains("define stream S (a string);")
    );
}

#[test]
fn components_and_codes_are_explained() {
    let all = headwater(&["connectors", "--json"])
        .output()
        .expect("it runs");
    let all: Json = serde_json::from_slice(&all.stdout).expect("JSON");
    let all = all.as_array().expect("a list");
    assert!(all.len() >= 97, "{} components", all.len());
    for key in ["kind", "name", "origin", "status", "options"] {
        assert!(all.iter().all(|c| c.get(key).is_some()), "{key}");
    }
    let unknown = headwater(&["connectors", "kafak"])
        .output()
        .expect("it runs");
    ended(&unknown, 2);
    assert!(stderr(&unknown).contains("'kafka'"), "{}", stderr(&unknown));
    ended(
        &headwater(&["explain", "W0101"]).output().expect("it runs"),
        0,
    );
    ended(
        &headwater(&["explain", "E9876"]).output().expect("it runs"),
        2,
    );
    ended(&headwater(&["version"]).output().expect("it runs"), 0);
    let script = headwater(&["completions", "bash"])
        .output()
        .expect("it runs");
    assert!(stdout(&script).contains("headwater"));
}

#[test]
fn an_edited_app_says_what_it_keeps_and_drops() {
    let place = Place::new();
    let text = "@app:name('Sums')
@source(type='file', mode='line', dir.uri='file:{dir}/in', tailing='false',
    file.read.wait.timeout='1', action.after.process='delete', @map(type='csv'))
define stream Lines (id string, amount long);
@sink(type='log', prefix='sum')
define stream Seen (total long);
@info(name='sums') from Lines#window.length(100) select sum(amount) as total insert into Seen;
";
    fs::create_dir(place.path("in")).expect("the folder can be written");
    let state = place.path("state").display().to_string();
    let run_with = |text: &str, line: &str, more: &[&str]| {
        let app = place.write("app.siddhi", text);
        place.write("in/lines.csv", line);
        run(&app, &[&["--until-done", "--state", &state], more].concat())
    };
    ended(&run_with(text, "a,5\n", &[]), 0);
    let filtered = run_with(&text.replace("Lines#", "Lines[amount > 1]#"), "b,7\n", &[]);
    ended(&filtered, 0);
    assert!(stdout(&filtered).contains("[12]"), "{}", stdout(&filtered));
    assert!(
        !stderr(&filtered).contains("edited"),
        "{}",
        stderr(&filtered)
    );

    let longer = text.replace("length(100)", "length(200)");
    let refused = run_with(&longer, "c,1\n", &[]);
    ended(&refused, 1);
    let said = stderr(&refused);
    assert!(
        said.contains("query 'sums' (window length(100), aggregate sum(amount))"),
        "{said}"
    );
    assert!(said.contains("--drop-state"), "{said}");
    assert!(place.path("in/lines.csv").exists(), "nothing was deployed");

    let dropped = run_with(&longer, "c,1\n", &["--drop-state"]);
    ended(&dropped, 0);
    assert!(
        stderr(&dropped).contains("app was edited"),
        "{}",
        stderr(&dropped)
    );
    assert!(stdout(&dropped).contains("[1]"), "{}", stdout(&dropped));
    let sourceless = longer
        .replace("stream Lines (", "stream Other (")
        .replace("from Lines", "from Other");
    let refused = run_with(&sourceless, "d,1\n", &[]);
    ended(&refused, 1);
    assert!(
        stderr(&refused).contains("source 'Lines[1]'"),
        "{}",
        stderr(&refused)
    );
}

/// Files of saved state of an app, oldest first.
fn snapshots(place: &Place, app: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("state").join(app)).expect("a state directory");
    let files = entries.map(|entry| entry.expect("it can be read").path());
    let epoch = |path: &PathBuf| -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("snapshot-")?.parse().ok()
    };
    let mut snapshots: Vec<PathBuf> = files.filter(|path| epoch(path).is_some()).collect();
    snapshots.sort_by_key(epoch);
    snapshots
}

/// Changes the last bit of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("it can be read");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

#[test]
fn damaged_state_is_passed_over_aloud_or_refuses_the_start() {
    let place = Place::new();
    let text = "@app:name('Sums')
@source(type='file', mode='line', dir.uri='file:{dir}/in', tailing='false',
    file.read.wait.timeout='1', action.after.process='delete', @map(type='csv'))
define stream Lines (id string, amount long);
@sink(type='log', prefix='sum')
define stream Seen (total long);
from Lines#window.length(100) select sum(amount) as total insert into Seen;
";
    fs::create_dir(place.path("in")).expect("the folder can be written");
    let app = place.write("app.siddhi", text);
    let state = place.path("state").display().to_string();
    let run_with = |line: &str, more: &[&str]| {
        place.write("in/lines.csv", line);
        run(&app, &[&["--until-done", "--state", &state], more].concat())
    };
    ended(&run_with("a,5\n", &[]), 0);
    ended(&run_with("b,7\n", &[]), 0);

    // The one before it stands in for the newest.
    let damaged = snapshots(&place, "Sums").pop().expect("it was saved");
    flip(&damaged);
    let older = run_with("c,1\n", &[]);
    ended(&older, 0);
    let said = stderr(&older);
    // It may have been made when the second line was read, or before.
    let sums = stdout(&older);
    assert!(sums.contains("[6]") || sums.contains("[13]"), "{sums}");
    for part in [
        "continuing from an older one",
        &damaged.display().to_string(),
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }

    // Nothing stands in for all of them.
    let all = snapshots(&place, "Sums");
    all.iter()
        .filter(|path| **path != damaged)
        .for_each(|path| flip(path));
    let refused = run_with("d,2\n", &[]);
    ended(&refused, 1);
    assert!(place.path("in/lines.csv").exists(), "nothing was begun");
    let explained = headwater(&["explain", "--state", &state])
        .arg(&app)
        .output();
    let explained = explained.expect("it runs");
    ended(&explained, 1);
    for said in [stderr(&refused), stderr(&explained)] {
        for path in &all {
            let line = format!("--> {}: the checksum of its state is wrong", path.display());
            assert!(said.contains(&line), "{line} in {said}");
        }
        for part in [
            "would start empty",
            "lost would be: the read positions",
            "--drop-state",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }

    // Allowed, it begins empty, once.
    let dropped = run_with("d,2\n", &["--drop-state"]);
    ended(&dropped, 0);
    assert!(stdout(&dropped).contains("[2]"), "{}", stdout(&dropped));
    assert!(
        stderr(&dropped).contains("starting empty"),
        "{}",
        stderr(&dropped)
    );
    let next = run_with("e,3\n", &[]);
    ended(&next, 0);
    assert!(stdout(&next).contains("[5]"), "{}", stdout(&next));
}

#[test]
fn state_whose_rows_a_database_has_is_not_passed_over() {
    let place = Place::new();
    let text = "@app:name('Copier')
@source(type='file', mode='line', dir.uri='file:{dir}/in', tailing='false',
    file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream Lines (id string, amount long);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/out.db')
define table T (id string, amount long);
from Lines select id, amount insert into T;
";
    fs::create_dir(place.path("in")).expect("the folder can be written");
    let app = place.write("app.siddhi", text);
    let state = place.path("state").display().to_string();
    let run_with = |file: &str, more: &[&str]| {
        place.write(&format!("in/{file}.csv"), &format!("{file},1\n"));
        run(&app, &[&["--until-done", "--state", &state], more].concat())
    };
    let counts = || -> Vec<String> {
        let database = rusqlite::Connection::open(place.path("out.db")).expect("it opens");
        let query = "select id || ' ' || count(*) from T group by id order by id";
        let mut statement = database.prepare(query).expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("it runs");
        rows.map(|row| row.expect("a text")).collect()
    };
    ended(&run_with("a", &[]), 0);
    ended(&run_with("b", &[]), 0);
    assert_eq!(counts(), ["a 1", "b 1"]);
    let damaged = snapshots(&place, "Copier").pop().expect("it was saved");
    flip(&damaged);
    let refused = run_with("c", &[]);
    ended(&refused, 1);
    let said = stderr(&refused);
    for part in [
        "which the stores have committed, is unusable",
        &damaged.display().to_string(),
        "continue from epoch",
        "each row is written once",
        "--drop-state",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(counts(), ["a 1", "b 1"]);
    let allowed = run_with("c", &["--drop-state"]);
    ended(&allowed, 0);
    let said = stderr(&allowed);
    assert!(said.contains("continuing from epoch"), "{said}");
    let [a, b, c] = &counts()[..] else {
        panic!("{:?}", counts())
    };
    // The save before it may have been made when the second file was read, or before.
    assert_eq!([a.as_str(), c.as_str()], ["a 1", "c 1"]);
    assert!(["b 1", "b 2"].contains(&b.as_str()), "{b}");
    // From there on it needs no leave, and each is written once.
    let before = counts();
    ended(&run_with("d", &[]), 0);
    assert_eq!(counts(), [&before[..], &["d 1".to_owned()]].concat());

    // Begun empty, all is read again, and so it is said.
    snapshots(&place, "Copier")
        .iter()
        .for_each(|path| flip(path));
    ended(&run_with("e", &[]), 1);
    let empty = run_with("e", &["--drop-state"]);
    ended(&empty, 0);
    assert!(
        stderr(&empty).contains("rows may be duplicated"),
        "{}",
        stderr(&empty)
    );
    assert_eq!((&counts()[0][..], counts().len()), ("a 2", 5));
}
