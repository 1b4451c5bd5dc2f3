//! What every store must do when its server is slow, away or replaced, whatever its technology: a store is
//! a description and a line of `stores!`, its cases are tests (`kit::stores::mariadb::slow`).

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use crate::broker::{Apps, errors};
use crate::network::{NOTICED, Running, Throttle, eventually};
use testservers::Order;

/// A store as it describes itself: its table is each case's own.
pub struct Kept {
    server: &'static str,
    /// `{port}` is that of the server.
    store: &'static str,
    /// Numbers of all rows of a table, by the server's own client.
    rows: fn(u16, &str) -> Vec<u64>,
    /// What its URL says so that the certificate is verified, and who is trusted. `None`: its TLS has
    /// tests of its own, or there is no option for it.
    tls: Option<[&'static str; 2]>,
}

/// What a run may take at most, in bytes, while the server takes rows slowly. All rows are more than
/// that, and what may wait is less; 75 MB are pages of the program itself, as tests build it.
const MEMORY_MAX: u64 = 200_000_000;

const MARIADB: Kept = Kept {
    server: "mariadb",
    store: "type='rdbms', jdbc.url='jdbc:mariadb://127.0.0.1:{port}/headwater?user=headwater&password=headwater', field.length='text:5000'",
    rows: |port, table| numbers(testservers::sql("mariadb", port, &rows_of(table))),
    tls: Some(["&sslMode=VERIFY_IDENTITY", "&serverSslCert="]),
};

const MYSQL: Kept = Kept {
    server: "mysql",
    store: "type='rdbms', jdbc.url='jdbc:mysql://127.0.0.1:{port}/headwater?user=headwater&password=headwater', field.length='text:5000'",
    rows: |port, table| numbers(testservers::sql("mysql", port, &rows_of(table))),
    tls: Some(["&sslMode=VERIFY_IDENTITY", "&serverSslCert="]),
};

const POSTGRES: Kept = Kept {
    server: "postgres",
    store: "type='rdbms', jdbc.url='jdbc:postgresql://127.0.0.1:{port}/headwater?user=headwater&password=headwater', field.length='text:5000'",
    rows: |port, table| numbers(testservers::sql("postgres", port, &rows_of(table))),
    tls: Some(["&sslmode=verify-full", "&sslrootcert="]),
};

const MONGODB: Kept = Kept {
    server: "mongodb",
    store: "type='mongodb', mongodb.uri='mongodb://127.0.0.1:{port}/headwater'",
    rows: |port, table| {
        let script = format!("for r in d.{table}.find({{}}, {{'n': 1}}): print(r['n'])");
        numbers(testservers::run(&mut pymongo(port, &script)))
    },
    tls: None,
};

const REDIS: Kept = Kept {
    server: "redis",
    store: "type='redis', nodes='127.0.0.1:{port}'",
    rows: |port, table| {
        let (port, keys) = (port.to_string(), format!("{table}:*"));
        let output = Command::new("redis-cli")
            .args(["-p", &port, "--scan", "--pattern", &keys])
            .output();
        let output = output.expect("the client starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |key: &str| key.rsplit(':').next().and_then(|n| n.parse().ok());
        sorted(text.lines().filter_map(number).collect())
    },
    tls: None,
};

macro_rules! stores {
    ($($name:ident is $description:ident: $($case:ident)*;)*) => {
        $(mod $name {
            $(#[test] fn $case() {
                if crate::kit::is_due(stringify!($name), stringify!($case)) {
                    super::$case(&super::$description);
                }
            })*
        })*
        const LISTED: &[(&Kept, &[&str])] = &[$((&$description, &[$(stringify!($case)),*])),*];
    };
}

stores! {
    mariadb is MARIADB: away reload silent slow tls;
    mongodb is MONGODB: away reload silent slow;
    mysql is MYSQL: away reload silent slow tls;
    postgres is POSTGRES: away reload silent slow tls;
    redis is REDIS: away reload silent slow;
}

#[test]
fn each_store_is_asked_for_every_case_that_it_has_a_hook_for() {
    for (kept, listed) in LISTED {
        let all = ["away", "reload", "silent", "slow", "tls"];
        let due = all
            .iter()
            .filter(|case| **case != "tls" || kept.tls.is_some());
        assert!(due.eq(listed.iter()), "{}", kept.server);
    }
}

/// A script of Python in which `d` is the database.
fn pymongo(port: u16, script: &str) -> Command {
    let mut client = testservers::pymongo().expect("the server is installed");
    client.arg("-c").arg(format!(
        "import pymongo
d = pymongo.MongoClient('127.0.0.1', {port}, serverSelectionTimeoutMS=5000).headwater
{script}"
    ));
    client
}

fn rows_of(table: &str) -> String {
    format!("SELECT n FROM {table}")
}

/// What a client prints; none while there is no table.
fn numbers(said: Result<String, testservers::Error>) -> Vec<u64> {
    let text = said.unwrap_or_default();
    sorted(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

const APP: &str = "@app:name('Keeper{table}') -- {note}
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.polling.interval='50', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@store({store}, on.error='{policy}') @PrimaryKey('n')
define table {table} (n long, text string);
from In select n, text insert into {table};
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
            ("table", "Kept"),
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

/// Bytes of each row, and how fast the server takes them.
const ROW_BYTES: usize = 5_000;
const ROWS: u64 = 41_000;
const BYTES_PER_SECOND: u64 = 40 << 20;

/// A server that takes rows slowly holds the app, and gets all.
// shows: store * slow
fn slow(kept: &Kept) {
    let Some(server) = testservers::shared(kept.server) else {
        return;
    };
    let text = "x".repeat(ROW_BYTES);
    let rows: String = (0..ROWS).map(|n| format!("{n},{text}\n")).collect();
    assert!(rows.len() as u64 > MEMORY_MAX);
    let apps = Apps::new(server.port(), 0);
    fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
    let throttle = Throttle::start(0, server.port(), BYTES_PER_SECOND);
    let fill = [("tailing", "false"), ("table", "KeptSlow")];
    let app = kept.write(&apps, throttle.port, &fill);
    let begun = Instant::now();
    let (code, summary) = Running::start(&[&app, "--until-done"]).end();
    let took = begun.elapsed();
    assert_eq!(code, Some(0), "{summary}");
    let passed = throttle.passed();
    assert!(passed >= rows.len() as u64, "{passed} bytes");
    assert!(took >= throttle.least(), "{took:?}");
    let memory = summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
    eprintln!("{memory} bytes, {took:?}");
    assert!(memory < MEMORY_MAX, "{memory} bytes");
    let found = (kept.rows)(server.port(), "KeptSlow");
    assert_eq!(found, (0..ROWS).collect::<Vec<_>>());
}

/// A silent server is lost within five seconds, and used again when it answers.
// shows: store * lost
fn silent(kept: &Kept) {
    let Some(server) = testservers::lent(kept.server) else {
        return;
    };
    const TABLE: &str = "KeptSilent";
    let port = server.port();
    let apps = Apps::new(port, 1);
    let run = Running::connected(&[&kept.write(&apps, port, &[("table", TABLE)])], 1);
    eventually("the first row", || (kept.rows)(port, TABLE) == [0]);
    server.freeze();
    let since = Instant::now();
    append(&apps, 1..2);
    let said = || run.err().matches("ERROR").count() > 0;
    eventually("it is said", said);
    let lost_after = since.elapsed();
    assert!(lost_after < NOTICED, "{lost_after:?}");
    server.thaw();
    append(&apps, 2..3);
    eventually("all rows", || (kept.rows)(port, TABLE) == [0, 1, 2]);
    assert_eq!(run.stop().0, Some(0));
}

/// Reloads while rows are kept keep each once.
// shows: store * reload
fn reload(kept: &Kept) {
    let Some(server) = testservers::shared(kept.server) else {
        return;
    };
    const TABLE: &str = "KeptReload";
    let port = server.port();
    let apps = Apps::new(port, 0);
    let run = Running::connected(&[&kept.write(&apps, port, &[("table", TABLE)])], 1);
    for block in 0..5 {
        append(&apps, block * 100..(block + 1) * 100);
        let note = format!("edit {block}");
        kept.write(&apps, port, &[("note", &note), ("table", TABLE)]);
        run.reload();
        run.err_has("apps reloaded change", block as usize + 1);
    }
    let all: Vec<u64> = (0..500).collect();
    eventually("all rows", || (kept.rows)(port, TABLE).len() >= all.len());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!((kept.rows)(port, TABLE), all);
    let failed = &summary["apps"][0]["tables"][0]["failed"];
    assert_eq!(failed, 0, "{summary}");
}

/// What becomes of rows while a store is away follows `on.error`.
// shows: store * error
fn away(kept: &Kept) {
    let Some(mut server) = testservers::lent(kept.server) else {
        return;
    };
    let port = server.port();
    for (policy, rows) in [
        ("RETRY", &[0, 1, 2][..]),
        ("LOG", &[0, 2]),
        ("STORE", &[0, 2]),
    ] {
        let table = format!("Kept{policy}");
        let found = || (kept.rows)(port, &table);
        let apps = Apps::new(port, 1);
        let app = kept.write(&apps, port, &[("policy", policy), ("table", &table)]);
        let state = apps.path("state");
        let run = Running::connected(&[&app, "--state", &state, "--state-interval", "50ms"], 1);
        eventually("the first row", || found() == [0]);
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
        eventually("the last row", || found().contains(&2));
        eventually("all rows", || found().len() == rows.len());
        let (code, summary) = run.stop();
        assert_eq!(found(), rows, "{policy}: {summary}");
        let expect = Some(if lost > 0 { 4 } else { 0 });
        assert_eq!(code, expect, "{policy}: {summary}");
        let failed = &summary["apps"][0]["tables"][0]["failed"];
        assert_eq!(*failed, lost, "{policy}: {summary}");
    }
}

const CHANGES: &str = "@app:name('Changes')
@source(type='cdc', url='{url}', username='headwater', password='headwater', table.name='{table}', operation='insert', @map(type='keyvalue'))
define stream In (n long, text string);
@sink(type='log', prefix='in')
define stream Seen (n long, text string);
from In select * insert into Seen;
";

/// TLS for tables and for changes: whom the properties of the URL trust.
// shows: store * tls
// shows: source cdc@* tls
fn tls(kept: &Kept) {
    let (name, Some([verified, trust])) = (kept.server, kept.tls) else {
        return;
    };
    let pem = crate::broker::key_file("server.pem");
    let Some(server) = Order::new().with("tls", &pem).start_or_skip(name) else {
        return;
    };
    let port = server.port();
    let url = kept.store.split('\'').nth(3).expect("a URL");
    let url = url
        .replace("127.0.0.1", "localhost")
        .replace("{port}", &port.to_string())
        + verified;
    let trusting = format!("{url}{trust}{pem}");
    let apps = Apps::new(port, 10);
    let app = |url: &str| {
        let store = format!("type='rdbms', jdbc.url='{url}'");
        kept.write(&apps, 0, &[("tailing", "false"), ("store", &store)])
    };
    let (code, summary) = Running::start(&[&app(&trusting), "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!((kept.rows)(port, "Kept").len(), 10);
    // Nobody has signed it but itself.
    let run = Running::start(&[&app(&url)]);
    run.err_has("certificate", 1);
    drop(run);
    let changes = |url: &str| {
        let table = if name == "postgres" { "kept" } else { "Kept" };
        let app = CHANGES.replace("{url}", url).replace("{table}", table);
        apps.write("changes", &app, "")
    };
    let run = Running::connected(&[&changes(&trusting)], 1);
    fs::write(apps.path("in.csv"), "77,late\n").expect("the folder can be written");
    let (code, _) = Running::start(&[&app(&trusting), "--until-done"]).end();
    assert_eq!(code, Some(0));
    run.out_has("data=[77, late]", 1);
    run.stop();
    let run = Running::start(&[&changes(&url)]);
    run.err_has("certificate", 1);
}

// shows: store rdbms@sqlite reload, error
#[test]
fn a_database_in_a_file_is_reloaded_and_waited_for_as_on_error_says() {
    let apps = Apps::new(0, 0);
    let path = apps.path("kept.db");
    let store = format!(
        "type='rdbms', jdbc.url='jdbc:sqlite:{path}', username='', password='', jdbc.driver.name='org.sqlite.JDBC'"
    );
    let kept = &MARIADB;
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
        run.err_has("apps reloaded change", block as usize + 1);
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
