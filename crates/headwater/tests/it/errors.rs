//! `headwater errors` on running servers and state directories: rejected events are listed, edited,
//! replayed, purged and exported.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use crate::network::{Running, Stub, curl, eventually, free_port, ok, piped, post_all, text};

/// An http source, a table in SQLite, and what the test puts behind them.
const APP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long, amount {type});
@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/shop.db')
define table T (n long, amount string);
from In select n, convert(amount, 'string') as amount insert into T;
{more}";

struct Shop {
    dir: tempfile::TempDir,
    port: u16,
    http: String,
    has_state: bool,
    run: Option<Running>,
}

impl Shop {
    fn new(has_state: bool) -> Shop {
        Shop {
            dir: tempfile::tempdir().expect("a folder"),
            port: free_port(),
            http: format!("127.0.0.1:{}", free_port()),
            has_state,
            run: None,
        }
    }

    fn write(&self, ty: &str, more: &str) {
        let dir = self.dir.path().display().to_string();
        let text = APP
            .replace("{port}", &self.port.to_string())
            .replace("{dir}", &dir)
            .replace("{type}", ty)
            .replace("{more}", more);
        fs::write(self.dir.path().join("shop.siddhi"), text).expect("writes");
    }

    fn start(&mut self, more: &[&str]) {
        let app = self.dir.path().join("shop.siddhi").display().to_string();
        let state = self.state();
        let mut args = vec![app.as_str(), "--http", &self.http];
        if self.has_state {
            args.extend(["--state", &state]);
        }
        args.extend(more);
        self.run = Some(Running::connected(&args, 1));
        let url = format!("http://{}/ready", self.http);
        eventually("readiness", || !curl(&[&url]).1.is_empty());
    }

    fn state(&self) -> String {
        self.dir.path().join("state").display().to_string()
    }

    fn run(&self) -> &Running {
        self.run.as_ref().expect("it was started")
    }

    fn send(&self, bodies: &[&str]) {
        let url = format!("http://127.0.0.1:{}/in", self.port);
        post_all(&url, bodies.iter().map(|body| (*body).to_owned()));
    }

    fn reload(&self) {
        self.run().reload();
        self.run().err_has("apps reloaded", 1);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .arg("errors")
            .args(args)
            .env("HEADWATER_URL", format!("http://{}", self.http));
        command
    }

    /// Exit code, standard output, standard error.
    fn errors(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(args).stdin(Stdio::null()).output();
        let output = output.expect("the binary starts");
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    #[track_caller]
    fn says(&self, args: &[&str], code: i32, said: &str) {
        let (got, out, err) = self.errors(args);
        assert!(
            got == Some(code) && (out.contains(said) || err.contains(said)),
            "{args:?}: {got:?} {out} {err}"
        );
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Json {
        let (code, out, err) = self.errors(args);
        assert_eq!(code, Some(0), "{args:?}: {err}");
        serde_json::from_str(&out).expect("one document")
    }

    fn events(&self) -> Vec<Json> {
        let list = self.json(&["list", "--each", "--json"]);
        list["events"].as_array().expect("a list").clone()
    }

    /// Waits until so many are kept.
    fn kept(&self, count: u64) {
        eventually("rejected events", || {
            self.json(&["list", "--json"])["total"] == count
        });
    }

    fn rows(&self) -> Vec<String> {
        rows(
            &self.dir.path().join("shop.db"),
            "select n || ' ' || amount from T order by rowid",
        )
    }
}

fn rows(path: &Path, query: &str) -> Vec<String> {
    let database = rusqlite::Connection::open(path).expect("opens");
    database
        .busy_timeout(std::time::Duration::from_secs(60))
        .expect("a time");
    let mut query = database.prepare(query).expect("a query");
    let rows = query.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("texts")
}

const MUCH: &str = r#"{"event":{"n":1,"amount":"much"}}"#;

#[test]
fn what_was_rejected_is_replayed_through_the_mended_app() {
    for has_state in [true, false] {
        let mut shop = Shop::new(has_state);
        shop.write("int", "");
        shop.start(&[]);
        shop.send(&[
            MUCH,
            r#"{"event":{"n":2,"amount":5}}"#,
            r#"{"event":{"n":3,"amount":"more"}}"#,
        ]);
        shop.kept(2);
        let groups = shop.json(&["list", "--json"]);
        let group = &groups["groups"][0];
        assert_eq!(
            (&group["count"], &group["stage"]),
            (&json!(2), &json!("source"))
        );
        assert_eq!(
            (&group["origin"], &group["type"]),
            (&json!("In[1]"), &json!("http"))
        );
        shop.says(&["list"], 0, "2 rejected events of one cause");
        // As things are they would fail again.
        shop.says(
            &["replay", "--all", "--dry-run"],
            4,
            "of which 2 would fail again",
        );
        shop.write("string", "");
        shop.reload();
        shop.says(
            &["replay", "--all", "--dry-run"],
            0,
            "2 of 2 rejected events would be",
        );
        shop.says(
            &["replay", "--app", "Shop"],
            0,
            "2 of 2 rejected events replayed",
        );
        shop.says(&["list"], 0, "no rejected events");
        eventually("the rows", || shop.rows() == ["2 5", "1 much", "3 more"]);
        let (code, _) = shop.run.take().expect("it runs").stop();
        assert!(matches!(code, Some(0 | 4)), "{code:?}");
        if has_state {
            shop.says(&["list", &shop.state()], 0, "no rejected events");
            shop.start(&[]);
            assert_eq!(shop.rows().len(), 3, "nothing comes again");
            shop.says(&["list"], 0, "no rejected events");
        }
    }
}

#[test]
fn what_a_sink_could_not_deliver_goes_to_that_sink_alone() {
    for has_state in [true, false] {
        let mut shop = Shop::new(has_state);
        let to = free_port();
        let sink = format!(
            "@sink(type='http', publisher.url='http://127.0.0.1:{to}/out', on.error='STORE', \
             max.pool.active.connections='1', @map(type='json', @payload('{{{{n}}}}')))\n\
             define stream Out (n long);\nfrom In select n insert into Out;\n"
        );
        // Definitions stand before queries.
        let (definitions, query) = sink.split_once("from In").expect("a query");
        shop.write("int", "");
        let path = shop.dir.path().join("shop.siddhi");
        let app = fs::read_to_string(&path).expect("reads");
        let app = app.replacen("from In", &format!("{definitions}from In"), 1);
        fs::write(&path, format!("{app}from In{query}")).expect("writes");
        shop.start(&["--state-interval", "200ms"]);
        let bodies: Vec<String> = (1..=5)
            .map(|n| format!(r#"{{"event":{{"n":{n},"amount":1}}}}"#))
            .collect();
        shop.send(&bodies.iter().map(String::as_str).collect::<Vec<_>>());
        shop.kept(5);
        let events = shop.events();
        assert!(
            events
                .iter()
                .all(|e| e["stage"] == "sink" && e["origin"] == "Out[1]")
        );
        let first = events[0]["number"].to_string();
        shop.says(&["show", &first], 0, r#"{"n":1}"#);
        // While nobody listens they fail again: each has the number of its first try.
        shop.says(
            &["replay", "--all"],
            4,
            "5 of 5 rejected events replayed, of which 5 failed",
        );
        shop.kept(5);
        let again = shop.events();
        let earlier = |events: &[Json], name: &str| -> Vec<Json> {
            events.iter().map(|e| e[name].clone()).collect()
        };
        assert_eq!(earlier(&again, "earlier"), earlier(&events, "number"));
        assert!(again.iter().all(|e| e["attempts"] == 1), "{again:?}");
        assert!(
            again
                .iter()
                .all(|e| !events.iter().any(|old| old["number"] == e["number"]))
        );
        let stub = Stub::start(to, |_| ok(""));
        shop.says(
            &["replay", "--stage", "sink"],
            0,
            "5 of 5 rejected events replayed",
        );
        let got: Vec<String> = stub.wait_for(5).into_iter().map(|got| got.body).collect();
        assert_eq!(got, ["1", "2", "3", "4", "5"]);
        shop.says(&["list"], 0, "no rejected events");
        assert_eq!(shop.rows().len(), 5, "the queries have not seen them again");
        shop.run.take().expect("it runs").stop();
    }
}

#[test]
fn an_edited_payload_is_replayed_and_what_fails_again_names_what_it_was() {
    let mut shop = Shop::new(true);
    shop.write("int", "");
    shop.start(&[]);
    shop.send(&[MUCH, "no JSON"]);
    shop.kept(2);
    let numbers: Vec<String> = shop
        .events()
        .iter()
        .map(|e| e["number"].to_string())
        .collect();
    let edit = |args: &[&str], payload: &str| {
        let output = piped(&mut shop.command(args), payload.as_bytes());
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    // The app as it is now must take it.
    let bad = r#"{"event":{"n":1,"amount":"little"}}"#;
    let (code, said) = edit(&["edit", &numbers[0], "--payload", "-"], bad);
    assert!(
        code == Some(1) && said.contains("keeps its payload") && said.contains("--unchecked"),
        "{said}"
    );
    let (code, said) = edit(&["edit", &numbers[0], "--payload", "-", "--unchecked"], bad);
    assert_eq!(code, Some(0), "{said}");
    shop.says(&["show", &numbers[0]], 0, "little");
    shop.says(
        &["replay", &numbers[0]],
        4,
        "1 of 1 rejected events replayed, of which 1 failed again",
    );
    let events = shop.events();
    let again = events
        .iter()
        .find(|e| e["attempts"] == 1)
        .expect("it failed again");
    assert_eq!(again["earlier"].to_string(), numbers[0]);
    assert_eq!(events.len(), 2, "the old one is gone");
    // An editor that changes the text.
    let editor = shop.dir.path().join("editor");
    fs::write(&editor, "#!/bin/sh\nsed -i 's/\"little\"/7/' \"$1\"\n").expect("writes");
    Command::new("chmod")
        .arg("+x")
        .arg(&editor)
        .status()
        .expect("chmod runs");
    let number = again["number"].to_string();
    let edited = shop
        .command(&["edit", &number])
        .env_remove("VISUAL")
        .env("EDITOR", &editor)
        .output()
        .expect("the binary starts");
    assert!(edited.status.success(), "{}", text(&edited.stderr));
    // An edit outlives a restart, and can be taken back.
    edit(
        &["edit", &numbers[1], "--payload", "-"],
        r#"{"event":{"n":8,"amount":8}}"#,
    );
    shop.run.take().expect("it runs").stop();
    shop.says(&["list", "--each", &shop.state()], 0, "(edited)");
    shop.start(&[]);
    shop.says(
        &["edit", &numbers[1], "--discard"],
        0,
        "has the payload again that came",
    );
    shop.says(&["show", &numbers[1], "--raw"], 0, "no JSON");
    shop.says(&["replay", &number], 0, "1 of 1 rejected events replayed");
    eventually("the row", || shop.rows() == ["1 7"]);
    shop.says(&["replay", "12345"], 0, "0 of 0 rejected events");
    shop.says(&["show", "12345"], 1, "there is no rejected event 12345");
}

/// Each number is in the table once, whenever the server is killed.
#[test]
fn a_replay_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    const EVENTS: usize = 4000;
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::create_dir(dir.path().join("in")).expect("creates");
    let lines: String = (0..EVENTS).map(|n| format!("{n},x{n}\n")).collect();
    fs::write(dir.path().join("in/a.csv"), lines).expect("writes");
    let write = |ty: &str| {
        let app = format!(
            "@app:name('Copier')
@source(type='file', mode='line', dir.uri='file:{}', tailing='true', action.after.process='keep', @map(type='csv'))
define stream Lines (n long, v {ty});
@store(type='rdbms', jdbc.url='jdbc:sqlite:{}')
define table T (n long, v string);
from Lines select n, convert(v, 'string') as v insert into T;
",
            path("in"),
            path("out.db")
        );
        fs::write(dir.path().join("copier.siddhi"), app).expect("writes");
    };
    let http = format!("127.0.0.1:{}", free_port());
    let (app, state) = (path("copier.siddhi"), path("state"));
    let args = [
        app.as_str(),
        "--state",
        &state,
        "--state-interval",
        "50ms",
        "--http",
        &http,
    ];
    let errors = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .arg("errors")
            .args(args)
            .env("HEADWATER_URL", format!("http://{http}"));
        command
    };
    let total = || -> u64 {
        let output = errors(&["list", "--json"])
            .output()
            .expect("the binary starts");
        let list = serde_json::from_slice::<Json>(&output.stdout).unwrap_or_default();
        list["total"].as_u64().unwrap_or(u64::MAX)
    };
    write("int");
    let run = Running::start(&args);
    eventually("all are rejected", || total() == EVENTS as u64);
    run.stop();
    write("string");
    let count = || -> usize {
        let database = dir.path().join("out.db");
        let found = rows(&database, "select count(*) || '' from T");
        found[0].parse().expect("a number")
    };
    let database_is_there = || dir.path().join("out.db").exists();
    for kill in 1..=3 {
        let run = Running::start(&args);
        eventually("it answers", || total() != u64::MAX);
        let mut replay = errors(&["replay", "--all", "--rate", "20000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        eventually("some are there", || {
            database_is_there() && count() > kill * 500
        });
        run.kill();
        replay.wait().expect("it ends");
    }
    let run = Running::start(&args);
    eventually("it answers", || total() != u64::MAX);
    let output = errors(&["replay", "--all"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(total(), 0);
    let (_, summary) = run.stop();
    assert_eq!(summary["rejected"], 0);
    let database = dir.path().join("out.db");
    let found = rows(
        &database,
        "select count(*) || ' ' || count(distinct n) || ' ' || sum(n) from T",
    );
    let expect = format!("{EVENTS} {EVENTS} {}", EVENTS * (EVENTS - 1) / 2);
    assert_eq!(found, [expect]);
}

#[test]
fn events_are_chosen_by_filters_exported_and_purged() {
    let mut shop = Shop::new(true);
    shop.write("int", "");
    shop.start(&[]);
    shop.send(&["no JSON", MUCH, "=1+1,\"x\""]);
    shop.kept(3);
    let total = |args: &[&str]| {
        let args = [&["list", "--json"], args].concat();
        shop.json(&args)["total"].as_u64()
    };
    assert_eq!(
        total(&["--app", "Shop", "--stream", "In", "--stage", "source"]),
        Some(3)
    );
    assert_eq!(total(&["--stage", "sink"]), Some(0));
    assert_eq!(total(&["--cause", "JSON"]), Some(2));
    assert_eq!(total(&["--since", "1h"]), Some(3));
    assert_eq!(total(&["--until", "1h"]), Some(0));
    shop.says(&["list", "--stage", "window"], 2, "'stage' is 'window'");
    shop.says(&["list", "--since", "soon"], 2, "write how long ago");

    let file = shop.dir.path().join("errors.csv").display().to_string();
    shop.says(
        &["export", "--format", "csv", "-o", &file],
        0,
        "3 rejected events written",
    );
    let csv = fs::read_to_string(&file).expect("reads");
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(csv.contains("\"'=1+1,\"\"x\"\"\""), "no formula: {csv}");
    shop.says(&["export", "-o", &file], 1, "cannot create");
    let (_, raw, _) = shop.errors(&["export", "--format", "raw"]);
    assert_eq!(raw, format!("no JSON\n{MUCH}\n=1+1,\"x\"\n"));
    let (_, lines, _) = shop.errors(&["export", "--cause", "JSON"]);
    let first: Json = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["payload"], "no JSON");

    shop.says(&["purge", "--all"], 2, "--yes");
    shop.says(&["purge", "--yes"], 2, "say which events");
    shop.says(
        &["replay", &shop.state()],
        2,
        "only a running server can replay",
    );
    shop.says(
        &["purge", "--cause", "JSON", "--yes"],
        0,
        "2 rejected events removed",
    );
    shop.says(
        &["purge", "--older-than", "1d", "--yes"],
        0,
        "0 rejected events removed",
    );
    assert_eq!(total(&[]), Some(1));
    shop.run.take().expect("it runs").stop();
    let list = shop.json(&["list", "--json", &shop.state()]);
    assert_eq!((&list["total"], &list["missing"]), (&json!(1), &json!([])));
}

#[test]
fn clients_of_streaming_integrator_find_its_error_store() {
    let mut shop = Shop::new(true);
    shop.write("int", "");
    shop.start(&[]);
    shop.send(&[MUCH, "no JSON"]);
    shop.kept(2);
    let base = format!("http://{}/error-handler", shop.http);
    let get = |path: &str| -> Json {
        let (status, body) = curl(&[&format!("{base}{path}")]);
        assert_eq!(status, "200", "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    };
    let list = get("/erroneous-events?siddhiApp=Shop&limit=1&offset=0");
    let event = &list[0];
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert_eq!(
        [
            &event["siddhiAppName"],
            &event["streamName"],
            &event["errorType"],
            &event["errorOccurrence"]
        ],
        ["Shop", "In", "MAPPING", "BEFORE_SOURCE_MAPPING"]
    );
    assert_eq!(event["originalPayload"], MUCH);
    assert!(
        event["timestamp"].is_i64() && event["cause"].is_string(),
        "{event}"
    );
    assert_eq!(get("/erroneous-events?siddhiApp=Other"), json!([]));
    assert_eq!(
        get("/erroneous-events/count?siddhiApp=Shop"),
        json!({ "entriesCount": 2 })
    );
    let id = event["id"].to_string();
    assert_eq!(get(&format!("/erroneous-events/{id}"))["id"], event["id"]);
    let replay = format!(r#"[{{"id":{id},"event":"{{\"event\":{{\"n\":1,\"amount\":5}}}}"}}]"#);
    let (status, body) = curl(&["--json", &replay, &base]);
    assert_eq!(status, "200", "{body}");
    let body: Json = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (&body["success"], &body["replayed"]),
        (&json!(true), &json!(1))
    );
    eventually("the row", || shop.rows() == ["1 5"]);
    let (status, _) = curl(&[&format!("{base}/erroneous-events/{id}")]);
    assert_eq!(status, "404");
    let other = &get("/erroneous-events")[0]["id"];
    let (status, _) = curl(&["-X", "DELETE", &format!("{base}/erroneous-events/{other}")]);
    assert_eq!(status, "200");
    let (status, _) = curl(&["-X", "DELETE", &format!("{base}/erroneous-events")]);
    assert_eq!(status, "400", "it says neither app nor age");
    assert_eq!(get("/erroneous-events"), json!([]));
}

#[test]
fn an_event_that_fails_in_a_query_goes_into_its_stream() {
    let mut shop = Shop::new(true);
    let script = |body: &str| {
        format!(
            "@OnError(action='STORE')\ndefine stream Judged (n long);\n\
             define function judge[javascript] return long {{ {body} }};\n\
             from In select judge(n) as n insert into Seen;\n"
        )
    };
    let write = |shop: &Shop, body: &str| {
        shop.write("int", "");
        let path = shop.dir.path().join("shop.siddhi");
        let app = fs::read_to_string(&path).expect("reads");
        let judged = script(body);
        let (definitions, query) = judged.split_once("from In").expect("a query");
        let app = app.replacen("from In", &format!("{definitions}from In"), 1);
        fs::write(&path, format!("{app}from In{query}")).expect("writes");
    };
    write(&shop, "throw new Error('not today')");
    shop.start(&[]);
    shop.send(&[r#"{"event":{"n":41,"amount":1}}"#]);
    shop.kept(1);
    let event = &shop.events()[0];
    assert_eq!(
        (&event["stage"], &event["stream"]),
        (&json!("query"), &json!("In"))
    );
    assert_eq!(event["payload"], "{\"n\":41,\"amount\":1}\n");
    write(&shop, "return data[0]");
    shop.reload();
    let number = event["number"].to_string();
    let output = piped(
        &mut shop.command(&["edit", &number, "--payload", "-"]),
        br#"{"n":"x","amount":1}"#,
    );
    assert!(
        text(&output.stderr).contains("is no long"),
        "{}",
        text(&output.stderr)
    );
    shop.says(
        &["replay", "--stage", "query"],
        0,
        "1 of 1 rejected events replayed",
    );
    shop.says(&["list"], 0, "no rejected events");
    // Into the stream: all its queries have it.
    eventually("the row", || shop.rows() == ["41 1", "41 1"]);
}

#[test]
fn a_replay_can_be_slowed_down_and_stopped() {
    let mut shop = Shop::new(false);
    shop.write("int", "");
    shop.start(&[]);
    let bodies = vec![MUCH; 50];
    shop.send(&bodies);
    shop.kept(50);
    shop.write("string", "");
    shop.reload();
    let mut replay = shop
        .command(&["replay", "--all", "--rate", "5"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let rows = Arc::new(Mutex::new(0));
    let is_done = AtomicBool::new(false);
    eventually("some are there", || {
        let count = shop.rows().len();
        *rows.lock().expect("no panic") = count;
        is_done.store(count >= 50, Ordering::Relaxed);
        count > 0
    });
    assert!(
        !is_done.load(Ordering::Relaxed),
        "five a second take ten seconds"
    );
    shop.says(&["replay", "--all"], 1, "a replay or a purge is at work");
    shop.says(
        &["purge", "--all", "--yes"],
        1,
        "a replay or a purge is at work",
    );
    shop.says(&["replay", "--cancel"], 0, "then cancelled");
    assert!(replay.wait().expect("it ends").success());
    let left = shop.json(&["list", "--json"])["total"]
        .as_u64()
        .expect("a number");
    assert!(left > 0 && left < 50, "{left}");
    assert_eq!(shop.rows().len() as u64, 50 - left);
}

/// The example of `docs/errors.md`, as it stands there.
#[test]
fn the_example_of_the_page_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let blocks = |kind: &str| -> Vec<String> {
        let begin = format!("```{kind}\n");
        let parts = page.split(&begin).skip(1);
        let body = |part: &str| part.split("```").next().unwrap_or_default().to_owned();
        parts.map(body).collect()
    };
    let (port, http) = (free_port().to_string(), free_port().to_string());
    let dir = tempfile::tempdir().expect("a folder");
    let here = |text: &str| {
        let database = dir.path().join("shop.db").display().to_string();
        text.replace("8280", &port)
            .replace("9090", &http)
            .replace("sqlite:shop.db", &format!("sqlite:{database}"))
    };
    let app = here(&blocks("sql")[0]);
    let path = dir.path().join("shop.siddhi");
    fs::write(&path, &app).expect("writes");
    let state = dir.path().join("state").display().to_string();
    let address = format!("127.0.0.1:{http}");
    let run = Running::connected(
        &[
            &path.display().to_string(),
            "--state",
            &state,
            "--http",
            &address,
        ],
        1,
    );
    let play = |block: &str| {
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            let command = here(line.strip_prefix("$ ").expect("a command"));
            let bin = Path::new(env!("CARGO_BIN_EXE_headwater"));
            let paths = format!(
                "{}:{}",
                bin.parent().expect("a folder").display(),
                std::env::var("PATH").unwrap_or_default()
            );
            let output = Command::new("sh")
                .args(["-c", &command])
                .env("PATH", paths)
                .env("HEADWATER_URL", format!("http://{address}"))
                .output()
                .expect("sh runs");
            assert!(
                output.status.success(),
                "{command}: {}",
                text(&output.stderr)
            );
            let said = text(&output.stdout);
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                // Times are those of today.
                let words = line
                    .split_whitespace()
                    .filter(|word| !word.starts_with("2026-"));
                for word in words {
                    assert!(said.contains(word), "{command}: {word}: {said}");
                }
            }
        }
    };
    let console = blocks("console");
    play(&console[0]);
    let mended = app
        .replace("price int", "price double")
        .replace("convert(price, 'double') as price", "price");
    fs::write(&path, mended).expect("writes");
    run.reload();
    run.err_has("apps reloaded", 1);
    play(&console[1]);
    run.stop();
}
