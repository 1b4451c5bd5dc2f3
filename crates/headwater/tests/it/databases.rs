//! Databases as a run of the binary sees them.

use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use crate::network::{NOTICED, Running, durable_and_not_current, eventually, free_port, post_all};

// row: store rdbms@mariadb | mariadb

// row: store rdbms@mysql | mysql

// row: store rdbms@postgres | postgres

// row: store rdbms@sqlite | SQLite {sqlite} inside the process
// n/a tls: it works on no network
// n/a login: it works on no network

// row: store rdbms@sqlserver | no SQL Server, but a peer of the test
// n/a open: no server was there to try it: golden SQL alone
// n/a order: no server was there to try it: golden SQL alone
// n/a resume: no server was there to try it: golden SQL alone
// n/a reload: no server was there to try it: golden SQL alone
// n/a tls: no server was there to try it: golden SQL alone
// n/a login: no server was there to try it: golden SQL alone
// n/a error: no server was there to try it: golden SQL alone

// row: store rdbms@oracle | no Oracle, nor its client library
// n/a order: no server was there to try it: golden SQL alone
// n/a resume: no server was there to try it: golden SQL alone
// n/a slow: no server was there to try it: golden SQL alone
// n/a bad: no server was there to try it: golden SQL alone
// n/a reload: no server was there to try it: golden SQL alone
// n/a tls: no server was there to try it: golden SQL alone
// n/a login: no server was there to try it: golden SQL alone
// n/a error: no server was there to try it: golden SQL alone

macro_rules! databases {
    ($($name:ident: $($case:ident)*;)*) => {
        $(mod $name {
            $(#[test] fn $case() { super::$case(stringify!($name)); })*
        })*
    };
}

databases! {
    mariadb: checked killed reload silent;
    mysql: checked killed reload silent;
    postgres: checked killed reload silent;
}

/// Lines that the database's own client gives.
#[track_caller]
fn ask(name: &str, port: u16, sql: &str) -> String {
    testservers::sql(name, port, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A server that stands still is noticed and waited for.
// shows: store rdbms@* lost
fn silent(name: &str) {
    let Some(server) = testservers::lent(name) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let app = dir.path().join("app.siddhi");
    let url = server.endpoint();
    let text = format!(
        "@App:name('Stopped')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n int);
@store(type='rdbms', jdbc.url='{url}')
define table Stopped (n int);
from In select n insert into Stopped;
"
    );
    std::fs::write(&app, text).expect("the folder can be written");
    let app = app.display().to_string();
    let running = Running::connected(&[&app], 1);
    let post = |n: u32| {
        let body = format!("{{\"event\": {{\"n\": {n}}}}}");
        let url = format!("http://127.0.0.1:{port}/in");
        assert_eq!(post_all(&url, [body]), [200]);
    };
    post(1);
    server.freeze();
    let since = Instant::now();
    post(2);
    running.err_has("is not responding", 1);
    assert!(since.elapsed() < NOTICED, "{:?}", since.elapsed());
    server.thaw();
    running.err_has("is responding again", 1);
    let (code, _) = running.stop();
    assert_eq!(code, Some(0));
    let rows = ask(name, server.port(), "SELECT n FROM Stopped ORDER BY n");
    assert_eq!(rows, "1\n2\n");
}

/// Reloads while rows are written write each once.
// shows: store rdbms@* reload
fn reload(name: &str) {
    let Some(server) = testservers::shared(name) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (app, input) = (dir.path().join("app.siddhi"), dir.path().join("in.csv"));
    let write = |note: usize| {
        let text = format!(
            "@App:name('Reloaded') -- edit {note}
@source(type='file', mode='line', file.uri='file:{}', tailing='true', @map(type='csv'))
define stream In (n int);
@store(type='rdbms', jdbc.url='{}')
define table Reloaded (n int);
from In select n insert into Reloaded;
",
            input.display(),
            server.endpoint()
        );
        std::fs::write(&app, text).expect("the folder can be written");
    };
    write(0);
    std::fs::write(&input, "").expect("the folder can be written");
    let running = Running::connected(&[&app.display().to_string()], 1);
    for block in 0..10 {
        let rows: String = (0..100).map(|n| format!("{}\n", block * 100 + n)).collect();
        let mut file = std::fs::File::options().append(true).open(&input);
        let written = file.as_mut().map(|file| file.write_all(rows.as_bytes()));
        written.expect("it is there").expect("there is room");
        write(block + 1);
        running.reload();
        running.err_has("apps reloaded change", block + 1);
    }
    eventually("all rows", || {
        ask(name, server.port(), "SELECT count(*) FROM Reloaded") == "1000\n"
    });
    let (code, _) = running.stop();
    assert_eq!(code, Some(0));
    let rows = ask(name, server.port(), "SELECT n FROM Reloaded ORDER BY n");
    let expect: String = (0..1000).map(|n| format!("{n}\n")).collect();
    assert!(rows == expect, "{} rows", rows.lines().count());
}

const LINES: u32 = 300_000;

/// Every row is there once, whenever the run is killed.
fn killed(name: &str) {
    long_test!();
    let Some(server) = testservers::shared(name) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name);
    let text = format!(
        "@App:name('Killed')
@source(type='file', mode='line', file.uri='file:{}', tailing='false', action.after.process='keep', @map(type='csv'))
define stream In (n int);
@store(type='rdbms', jdbc.url='{}')
define table KilledRows (n int, c long);
from In select n, count() as c insert into KilledRows;
",
        path("in.csv").display(),
        server.endpoint()
    );
    std::fs::write(path("app.siddhi"), text).expect("the folder can be written");
    let rows: String = (0..LINES).map(|n| format!("{n}\n")).collect();
    std::fs::write(path("in.csv"), rows).expect("the folder can be written");
    let (app, state) = (path("app.siddhi"), path("state"));
    let args = [
        &app.display().to_string(),
        "--state",
        &state.display().to_string(),
        "--state-interval",
        "50ms",
    ];
    let written = || {
        let rows = testservers::sql(name, server.port(), "SELECT count(*) FROM KilledRows");
        let count = rows.ok().and_then(|rows| rows.trim().parse().ok());
        count.unwrap_or(0_u64)
    };
    let mut killed_midway = 0;
    for kill in 0..8 {
        let before = written();
        let run = Running::start(&args);
        match kill % 2 {
            0 => eventually("more is written", || {
                let count = written();
                count > before || count == u64::from(LINES)
            }),
            _ => durable_and_not_current(&state.join("Killed"), || written() == u64::from(LINES)),
        }
        run.kill();
        let count = written();
        killed_midway += u32::from(0 < count && count < u64::from(LINES));
    }
    assert!(killed_midway > 0, "more lines are needed");
    let (code, summary) = Running::start(&[&args[..], &["--until-done"]].concat()).end();
    assert_eq!(code, Some(0), "{summary}");
    let counts = ask(
        name,
        server.port(),
        "SELECT concat(count(*), ' ', count(DISTINCT n), ' ', count(DISTINCT c), ' ', max(c)) FROM KilledRows",
    );
    assert_eq!(
        counts,
        format!("{LINES} {LINES} {LINES} {LINES}\n"),
        "{name}"
    );
}

/// Exit code and findings of `check --connect`.
fn check(app: &std::path::Path) -> (Option<i32>, Vec<serde_json::Value>) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["check", "--connect", "--json"])
        .arg(app)
        .output()
        .expect("the binary starts");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    let findings = said["findings"].as_array().expect("a list").clone();
    (output.status.code(), findings)
}

/// `check --connect` compares tables with their definitions and dials what is named.
fn checked(name: &str) {
    let Some(server) = testservers::shared(name) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = dir.path().join("app.siddhi");
    let closed = free_port();
    let url = server.endpoint();
    let sql = "CREATE TABLE Checked (a INT, b VARCHAR(20), c SMALLINT)";
    ask(name, server.port(), sql);
    let text = |table: &str, endpoint: &str| {
        format!(
            "@App:name('Checked')
@source(type='cdc', url='{url}', table.name='Checked', operation='insert', @map(type='keyvalue'))
define stream In (a int, b string);
@sink(type='tcp', url='tcp://{endpoint}/x', @map(type='binary'))
define stream Out (a int, b string);
@store(type='rdbms', jdbc.url='{url}', table.name='Checked')
define table Checked ({table});
@store(type='rdbms', jdbc.url='{url}')
define table NotCheckedYet (a int);
from In select a, b insert into Out;
"
        )
    };
    let reachable = server.endpoint();
    let place = reachable.split('/').nth(2).expect("a place");
    std::fs::write(&app, text("a int, b string", place)).expect("it can be written");
    assert_eq!(check(&app), (Some(0), Vec::new()));
    let away = format!("127.0.0.1:{closed}");
    let other = text("a string, b string, c int, d bool", &away);
    std::fs::write(&app, other).expect("it can be written");
    let (code, findings) = check(&app);
    assert_eq!(code, Some(1), "{findings:?}");
    let said: Vec<(u64, bool, String)> = findings
        .iter()
        .map(|f| {
            let line = f["line"].as_u64().expect("a line");
            let message = f["message"].as_str().expect("words").to_owned();
            (line, f["reached"] == true, message)
        })
        .collect();
    let has = |line: u64, is_reached: bool, words: &str| {
        let is_there = said
            .iter()
            .any(|(l, r, m)| (*l, *r) == (line, is_reached) && m.contains(words));
        assert!(is_there, "{words}: {said:?}");
    };
    has(4, false, "option 'url'");
    has(6, true, "column 'a' of table 'Checked' is int");
    has(6, true, "column 'c' of table 'Checked' is smallint");
    has(6, true, "no column 'd'");
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(
        ask(name, server.port(), "SELECT count(*) FROM Checked"),
        "0\n"
    );
}

#[test]
fn check_names_a_database_that_is_away_and_no_secret() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = dir.path().join("app.siddhi");
    let closed = free_port();
    let text = format!(
        "@App:name('Away')
@store(type='rdbms', jdbc.url='jdbc:mysql://127.0.0.1:{closed}/d', username='u', password='s3cret')
define table T (a int);
define stream In (a int);
from In select a insert into T;
"
    );
    std::fs::write(&app, text).expect("it can be written");
    let (code, findings) = check(&app);
    assert_eq!((code, findings.len()), (Some(3), 1), "{findings:?}");
    assert!(!findings[0].to_string().contains("s3cret"), "{findings:?}");
}
