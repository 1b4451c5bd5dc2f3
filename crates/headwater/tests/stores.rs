//! What every store must do when its server is slow, away or replaced, whatever its technology.

mod broker;
mod network;

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use broker::{Apps, errors};
use network::{NOTICED, Running, Throttle, eventually};
use servers::{Order, Running as Server};

struct Kept {
    server: &'static str,
    /// `{port}` is that of the server.
    store: &'static str,
    /// Numbers of all rows, by the server's own client.
    rows: fn(u16) -> Vec<u64>,
}

/// What a run may take at most, in bytes, while the server takes rows slowly. All rows are more than
/// that, and what may wait is less.
const MEMORY_MAX: u64 = 150_000_000;

const ALL: &[Kept] = &[
    Kept {
        server: "mariadb",
        store: "type='rdbms', jdbc.url='jdbc:mariadb://127.0.0.1:{port}/headwater?user=headwater&password=headwater', field.length='text:5000'",
        rows: |port| numbers(servers::sql("mariadb", port, ROWS_KEPT)),
    },
    Kept {
        server: "mysql",
        store: "type='rdbms', jdbc.url='jdbc:mysql://127.0.0.1:{port}/headwater?user=headwater&password=headwater', field.length='text:5000'",
        rows: |port| numbers(servers::sql("mysql", port, ROWS_KEPT)),
    },
    Kept {
        server: "postgres",
        store: "type='rdbms', jdbc.url='jdbc:postgresql://127.0.0.1:{port}/headwater?user=headwater&password=headwater', field.length='text:5000'",
        rows: |port| numbers(servers::sql("postgres", port, ROWS_KEPT)),
    },
    Kept {
        server: "mongodb",
        store: "type='mongodb', mongodb.uri='mongodb://127.0.0.1:{port}/headwater'",
        rows: |port| {
            numbers(servers::run(&mut pymongo(
                port,
                "for r in d.Kept.find({}, {'n': 1}): print(r['n'])",
            )))
        },
    },
    Kept {
        server: "redis",
        store: "type='redis', nodes='127.0.0.1:{port}'",
        rows: |port| {
            let port = port.to_string();
            let keys = ["-p", &port, "--scan", "--pattern", "Kept:*"];
            let output = Command::new("redis-cli").args(keys).output();
            let output = output.expect("the client starts");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let number = |key: &str| key.rsplit(':').next().and_then(|n| n.parse().ok());
            sorted(text.lines().filter_map(number).collect())
        },
    },
];

/// A script of Python in which `d` is the database.
fn pymongo(port: u16, script: &str) -> Command {
    let mut client = servers::pymongo().expect("the server is installed");
    client.arg("-c").arg(format!(
        "import pymongo
d = pymongo.MongoClient('127.0.0.1', {port}, serverSelectionTimeoutMS=5000).headwater
{script}"
    ));
    client
}

const ROWS_KEPT: &str = "SELECT n FROM Kept";

/// What a client prints; none while there is no table.
fn numbers(said: Result<String, servers::Error>) -> Vec<u64> {
    let text = said.unwrap_or_default();
    sorted(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

const APP: &str = "@app:name('Keeper') -- {note}
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.polling.interval='50', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@store({store}, on.error='{policy}') @PrimaryKey('n')
define table Kept (n long, text string);
from In select n, text insert into Kept;
";

impl Kept {
    /// The app, with the store behind this port.
    fn write(&self, apps: &Apps, port: u16, fill: &[(&str, &str)]) -> String {
        let store = self.store.replace("{port}", &port.to_string());
        let usual = [
            ("note", "first"),
            ("tailing", "true"),
            ("policy", "RETRY"),
            ("store", store.as_str()),
        ];
        let all = fill.iter().chain(&usual);
        let app = all.fold(APP.to_owned(), |app, (name, value)| {
            app.replace(&format!("{{{name}}}"), value)
        });
        apps.write("keeper", &app, "")
    }
}

fn append(apps: &Apps, rows: std::ops::Range<u64>) {
    let text: String = rows.map(|n| format!("{n},row {n}\n")).collect();
    let mut file = fs::File::options()
        .append(true)
        .open(apps.path("in.csv"))
        .expect("it is there");
    file.write_all(text.as_bytes()).expect("there is room");
}

/// With each store whose server can be had.
fn with_each(work: impl Fn(&Kept, Server)) {
    for kept in ALL {
        eprintln!("{}", kept.server);
        if let Some(server) = Order::new().start_or_skip(kept.server) {
            work(kept, server);
        }
    }
}

/// Bytes of each row, and how fast the server takes them.
const ROW_BYTES: usize = 5_000;
const ROWS: u64 = 32_000;
const BYTES_PER_SECOND: u64 = 40 << 20;

#[test]
fn a_server_that_takes_rows_slowly_holds_the_app_and_gets_all() {
    let text = "x".repeat(ROW_BYTES);
    let rows: String = (0..ROWS).map(|n| format!("{n},{text}\n")).collect();
    assert!(rows.len() as u64 > MEMORY_MAX);
    with_each(|kept, server| {
        let name = kept.server;
        let apps = Apps::new(server.port(), 0);
        fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
        let throttle = Throttle::start(0, server.port(), BYTES_PER_SECOND);
        let app = kept.write(&apps, throttle.port, &[("tailing", "false")]);
        let begun = Instant::now();
        let (code, summary) = Running::start(&[&app, "--until-done"]).end();
        let took = begun.elapsed();
        assert_eq!(code, Some(0), "{name}: {summary}");
        let passed = throttle.passed();
        assert!(passed >= rows.len() as u64, "{name}: {passed} bytes");
        assert!(took >= throttle.least(), "{name}: {took:?}");
        let memory = summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
        eprintln!("{name}: {memory} bytes, {took:?}");
        assert!(memory < MEMORY_MAX, "{name}: {memory} bytes");
        assert_eq!((kept.rows)(server.port()), (0..ROWS).collect::<Vec<_>>());
    });
}

#[test]
fn a_silent_server_is_lost_within_five_seconds_and_gone_on_with() {
    with_each(|kept, server| {
        let name = kept.server;
        let apps = Apps::new(server.port(), 1);
        let run = Running::connected(&[&kept.write(&apps, server.port(), &[])], 1);
        eventually("the first row", || (kept.rows)(server.port()) == [0]);
        server.freeze();
        let since = Instant::now();
        append(&apps, 1..2);
        let said = || run.err().matches("ERROR").count() > 0;
        eventually("it is said", said);
        let silent = since.elapsed();
        assert!(silent < NOTICED, "{name}: {silent:?}");
        server.thaw();
        append(&apps, 2..3);
        eventually("all rows", || (kept.rows)(server.port()) == [0, 1, 2]);
        assert_eq!(run.stop().0, Some(0), "{name}");
    });
}

#[test]
fn reloads_while_rows_are_kept_keep_each_once() {
    with_each(|kept, server| {
        let apps = Apps::new(server.port(), 0);
        let run = Running::connected(&[&kept.write(&apps, server.port(), &[])], 1);
        for block in 0..5 {
            append(&apps, block * 100..(block + 1) * 100);
            let note = format!("edit {block}");
            kept.write(&apps, server.port(), &[("note", &note)]);
            run.reload();
            run.err_has("the apps were read again change", block as usize + 1);
        }
        let all: Vec<u64> = (0..500).collect();
        eventually("all rows", || (kept.rows)(server.port()).len() >= all.len());
        let (code, summary) = run.stop();
        assert_eq!(code, Some(0), "{}: {summary}", kept.server);
        assert_eq!((kept.rows)(server.port()), all, "{}", kept.server);
        let failed = &summary["apps"][0]["tables"][0]["failed"];
        assert_eq!(failed, 0, "{}: {summary}", kept.server);
    });
}

#[test]
fn what_becomes_of_rows_while_a_store_is_away_follows_on_error() {
    with_each(|kept, mut server| {
        for (policy, rows) in [
            ("RETRY", &[0, 1, 2][..]),
            ("LOG", &[0, 2]),
            ("STORE", &[0, 2]),
        ] {
            let case = format!("{} {policy}", kept.server);
            let apps = Apps::new(server.port(), 1);
            let policy = [("policy", policy)];
            let app = kept.write(&apps, server.port(), &policy);
            let state = apps.path("state");
            let run = Running::connected(&[&app, "--state", &state, "--state-interval", "50ms"], 1);
            eventually("the first row", || (kept.rows)(server.port()) == [0]);
            server.stop();
            append(&apps, 1..2);
            let lost = 3 - rows.len();
            match lost {
                0 => run.err_has("ERROR", 1),
                _ => eventually("it is given up", || {
                    errors(&state).matches("\"number\":").count() == lost
                }),
            }
            server.restart().expect("the server starts again");
            append(&apps, 2..3);
            eventually("the last row", || (kept.rows)(server.port()).contains(&2));
            eventually("all rows", || {
                (kept.rows)(server.port()).len() == rows.len()
            });
            let (code, summary) = run.stop();
            assert_eq!((kept.rows)(server.port()), rows, "{case}: {summary}");
            assert_eq!(
                code,
                Some(if lost > 0 { 4 } else { 0 }),
                "{case}: {summary}"
            );
            let failed = &summary["apps"][0]["tables"][0]["failed"];
            assert_eq!(*failed, lost, "{case}: {summary}");
            clear(kept.server, server.port());
        }
    });
}

/// Nothing of a case before is left.
fn clear(server: &str, port: u16) {
    let cleared = match server {
        "mariadb" | "mysql" => servers::sql(
            server,
            port,
            "DROP DATABASE headwater; CREATE DATABASE headwater",
        ),
        "postgres" => servers::sql(
            server,
            port,
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
        ),
        "mongodb" => servers::run(&mut pymongo(port, "d.client.drop_database('headwater')")),
        _ => servers::run(Command::new("redis-cli").args(["-p", &port.to_string(), "FLUSHALL"])),
    };
    cleared.unwrap_or_else(|error| panic!("{server}: {error}"));
}

/// TLS of all databases, for tables and for changes: whom the properties of the URL trust.
#[test]
fn a_database_is_reached_by_tls_where_its_certificate_is_trusted() {
    let pem = broker::key_file("server.pem");
    for (name, url, verified) in [
        (
            "mariadb",
            "jdbc:mariadb://localhost:{port}/headwater?user=headwater&password=headwater",
            "&sslMode=VERIFY_IDENTITY",
        ),
        (
            "mysql",
            "jdbc:mysql://localhost:{port}/headwater?user=headwater&password=headwater",
            "&sslMode=VERIFY_IDENTITY",
        ),
        (
            "postgres",
            "jdbc:postgresql://localhost:{port}/headwater?user=headwater&password=headwater",
            "&sslmode=verify-full",
        ),
    ] {
        let Some(server) = Order::new().with("tls", &pem).start_or_skip(name) else {
            continue;
        };
        let kept = ALL.iter().find(|kept| kept.server == name);
        let kept = kept.expect("it is in the table");
        let url = url.replace("{port}", &server.port().to_string()) + verified;
        let trusting = match name {
            "postgres" => format!("{url}&sslrootcert={pem}"),
            _ => format!("{url}&serverSslCert={pem}"),
        };
        let apps = Apps::new(server.port(), 10);
        let store = |url: &str| format!("type='rdbms', jdbc.url='{url}'");
        let app = |url: &str| {
            let store = store(url);
            kept.write(&apps, 0, &[("tailing", "false"), ("store", &store)])
        };
        let (code, summary) = Running::start(&[&app(&trusting), "--until-done"]).end();
        assert_eq!(code, Some(0), "{name}: {summary}");
        assert_eq!((kept.rows)(server.port()).len(), 10, "{name}");
        // Nobody has signed it but itself.
        let run = Running::start(&[&app(&url)]);
        run.err_has("certificate", 1);
        drop(run);
        let changes = |url: &str| {
            let app = "@app:name('Changes')
@source(type='cdc', url='{url}', username='headwater', password='headwater', table.name='{table}', operation='insert', @map(type='keyvalue'))
define stream In (n long, text string);
@sink(type='log', prefix='in')
define stream Seen (n long, text string);
from In select * insert into Seen;
";
            let table = if name == "postgres" { "kept" } else { "Kept" };
            let app = app.replace("{url}", url).replace("{table}", table);
            apps.write("changes", &app, "")
        };
        let run = Running::connected(&[&changes(&trusting)], 1);
        fs::write(apps.path("in.csv"), "77,late\n").expect("the folder can be written");
        let (code, _) = Running::start(&[&app(&trusting), "--until-done"]).end();
        assert_eq!(code, Some(0), "{name}");
        run.out_has("data=[77, late]", 1);
        run.stop();
        let run = Running::start(&[&changes(&url)]);
        run.err_has("certificate", 1);
    }
}

#[test]
fn a_database_in_a_file_is_reloaded_and_waited_for_as_on_error_says() {
    let apps = Apps::new(0, 0);
    let path = apps.path("kept.db");
    let store = format!(
        "type='rdbms', jdbc.url='jdbc:sqlite:{path}', username='', password='', jdbc.driver.name='org.sqlite.JDBC'"
    );
    let kept = &ALL[0];
    let write = |note: &str| kept.write(&apps, 0, &[("note", note), ("store", &store)]);
    let run = Running::connected(&[&write("first")], 1);
    let rows = || -> i64 {
        let database = rusqlite::Connection::open(&path).expect("it opens");
        let count = database.query_row("SELECT count(*) FROM Kept", [], |row| row.get(0));
        count.unwrap_or(0)
    };
    for block in 0..5 {
        append(&apps, block * 100..(block + 1) * 100);
        write(&format!("edit {block}"));
        run.reload();
        run.err_has("the apps were read again change", block as usize + 1);
    }
    eventually("all rows", || rows() == 500);
    // Another process has it for itself; `on.error` says to try again.
    let other = rusqlite::Connection::open(&path).expect("it opens");
    eventually("it is locked", || {
        other.execute_batch("BEGIN EXCLUSIVE").is_ok()
    });
    append(&apps, 500..600);
    run.err_has("locked", 1);
    other.execute_batch("COMMIT").expect("it is ours");
    eventually("all rows", || rows() == 600);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}
