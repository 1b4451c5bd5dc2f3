//! Changes of tables in real databases, as a run of the binary reads them: servers that go away, an app
//! that takes nothing, reloads.

use std::fs;
use std::time::Instant;

use crate::broker::Apps;
use crate::network::{NOTICED, Running, Switch, eventually, free_port, number};
use testservers::{Order, Running as Server, sql as sql_of};

// row: source cdc@mariadb | mariadb
// n/a error: `on.error` belongs to sinks

// row: source cdc@mysql | mysql
// n/a error: `on.error` belongs to sinks

// row: source cdc@postgres | postgres
// n/a error: `on.error` belongs to sinks

struct Database {
    name: &'static str,
    /// Rows of a table from one number to another, in one statement.
    fill: fn(&str, u64, u64) -> String,
}

const MARIADB: Database = Database {
    name: "mariadb",
    fill: |table, from, to| {
        let last = to - 1;
        format!("INSERT INTO {table} SELECT seq, 'row' FROM seq_{from}_to_{last}")
    },
};

const MYSQL: Database = Database {
    name: "mysql",
    fill: |table, from, to| {
        let last = to - 1;
        format!(
            "SET cte_max_recursion_depth = {to}; INSERT INTO {table} WITH RECURSIVE s (n) AS \
             (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n, 'row' FROM s"
        )
    },
};

const POSTGRES: Database = Database {
    name: "postgres",
    fill: |table, from, to| {
        let last = to - 1;
        format!("INSERT INTO {table} SELECT n, 'row' FROM generate_series({from}, {last}) n")
    },
};

macro_rules! databases {
    ($($name:ident is $database:ident: $($case:ident)*;)*) => {
        $(mod $name {
            $(#[test] fn $case() { super::$case(&super::$database); })*
        })*
    };
}

databases! {
    mariadb is MARIADB: away full login reload;
    mysql is MYSQL: away full login reload;
    postgres is POSTGRES: away full login reload;
}

#[track_caller]
fn ask(name: &str, port: u16, sql: &str) {
    sql_of(name, port, sql).unwrap_or_else(|error| panic!("{name}: {sql}: {error}"));
}

/// A table of a database, and the app that reads its changes.
struct Case<'a> {
    database: &'a Database,
    table: &'static str,
    port: u16,
    url: String,
    apps: Apps,
}

const APP: &str = "@app:name('Changes') -- {note}
@source(type='cdc', url='{url}', username='headwater', password='headwater', table.name='{table}', operation='insert', connector.properties='slot.name={table},publication.name={table}', @map(type='keyvalue'))
define stream In (id long, text string);
{sink}
define stream Out (id long, text string);
from In select * insert into Out;
";

const FILE: &str = "@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))";

impl<'a> Case<'a> {
    fn new(database: &'a Database, server: &Server, table: &'static str) -> Case<'a> {
        let case = Case {
            database,
            table,
            port: server.port(),
            url: server.endpoint(),
            apps: Apps::new(server.port(), 0),
        };
        case.ask(&format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, text VARCHAR(20))"
        ));
        case
    }

    fn write(&self, note: &str, sink: &str) -> String {
        let app = APP
            .replace("{note}", note)
            .replace("{url}", &self.url)
            .replace("{table}", self.table)
            .replace("{sink}", sink);
        let app = match self.database.name {
            "postgres" => app,
            _ => without_slot(&app),
        };
        self.apps.write("changes", &app, "")
    }

    fn ask(&self, sql: &str) {
        ask(self.database.name, self.port, sql);
    }

    fn fill(&self, from: u64, to: u64) {
        self.ask(&(self.database.fill)(self.table, from, to));
    }

    fn received(&self) -> Vec<u64> {
        let text = self.apps.received();
        let number = |line: &str| line.split(',').next().and_then(|n| n.parse().ok());
        text.lines().filter_map(number).collect()
    }
}

/// Only PostgreSQL has slots, one for each who reads.
fn without_slot(app: &str) -> String {
    let (before, rest) = app
        .split_once(" connector.properties='")
        .expect("it is there");
    let (_, after) = rest.split_once("',").expect("it ends");
    format!("{before}{after}")
}

/// A server that goes away while it is read is named and read again.
// shows: source cdc@* lost
fn away(database: &Database) {
    let Some(mut server) = testservers::lent(database.name) else {
        return;
    };
    let case = Case::new(database, &server, "away_table");
    let state = case.apps.path("state");
    let app = case.write("first", FILE);
    let args = [app.as_str(), "--state", &state, "--state-interval", "100ms"];
    let run = Running::connected(&args, 1);
    case.fill(0, 500);
    eventually("the first rows", || case.received().len() >= 500);
    // One that was suspended itself has not lost its server.
    for _ in 0..20 {
        run.freeze();
        run.thaw();
    }
    run.freeze();
    let frozen = Instant::now();
    eventually("a pause as long as a server may be silent", || {
        frozen.elapsed() >= NOTICED
    });
    run.thaw();
    case.fill(500, 1_000);
    eventually("the rows after it", || case.received().len() >= 1_000);
    let ready = run.err().matches("source is ready").count();
    assert_eq!(ready, 1, "{}", run.err());
    let faults = || run.err().matches("ERROR").count();
    let before = faults();
    server.kill();
    let since = Instant::now();
    eventually("it is said", || faults() > before);
    let took = since.elapsed();
    assert!(took < NOTICED, "{took:?}");
    server.restart().expect("the server starts again");
    case.fill(1_000, 2_000);
    run.err_has("source is ready", 2);
    eventually("all rows", || case.received().len() >= 2_000);
    // One that takes connections and says nothing.
    let before = faults();
    server.freeze();
    let since = Instant::now();
    eventually("it is said", || faults() > before);
    let took = since.elapsed();
    assert!(took < NOTICED, "{took:?}");
    server.thaw();
    run.err_has("source is ready", 3);
    case.fill(2_000, 3_000);
    eventually("all rows", || case.received().len() >= 3_000);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(case.received(), (0..3_000).collect::<Vec<_>>());
}

/// Only who has the password reads changes.
// shows: source cdc@* login
fn login(database: &Database) {
    let Some(server) = testservers::shared(database.name) else {
        return;
    };
    let case = Case::new(database, server, "login_table");
    let app = case.write("first", FILE);
    let right = Running::connected(&[&app], 1);
    case.fill(0, 10);
    eventually("the rows", || case.received().len() == 10);
    assert_eq!(right.stop().0, Some(0));
    let text = fs::read_to_string(&app).expect("it is there");
    let wrong = text.replace("password='headwater'", "password='geheim-17'");
    let wrong = wrong.replace("password=headwater", "password=geheim-17");
    let wrong = Running::start(&[&case.apps.write("wrong", &wrong, "")]);
    // "(using password: YES)", "password authentication failed".
    wrong.err_has("password", 1);
    let said = format!("{}{}", wrong.err(), wrong.out());
    assert!(!said.contains("geheim"), "{said}");
    assert!(!said.contains("source is ready"), "{said}");
}

/// More than the queues of an app hold.
const MANY: u64 = 400_000;

/// What a run may take at most while the app takes nothing.
const MEMORY_MAX: u64 = 200_000_000;

/// An app that takes nothing leaves the changes where they are.
// shows: source cdc@* slow
fn full(database: &Database) {
    long_test!();
    let Some(server) = testservers::shared(database.name) else {
        return;
    };
    let case = Case::new(database, server, "full_table");
    let far = free_port();
    let sink = format!(
        "@sink(type='tcp', url='tcp://127.0.0.1:{far}/far', on.error='WAIT', @map(type='binary'))"
    );
    let run = Running::connected(&[&case.write("first", &sink)], 1);
    run.err_has("cannot connect sink", 1);
    case.fill(0, MANY);
    let receiver = "@app:name('Far')
@source(type='tcp', context='far', @map(type='binary'))
define stream In (id long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (id long, text string);
from In select * insert into Out;
";
    let port = far.to_string();
    let config = case.apps.deployment(&[(
        "source",
        "tcp",
        vec![("host", "127.0.0.1"), ("port", &port)],
    )]);
    let receiver = case.apps.write("far", receiver, "");
    let receiver = Running::connected(&[&receiver, "--config", &config], 1);
    eventually("all rows", || {
        case.apps.received().lines().count() as u64 >= MANY
    });
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "events"), MANY);
    let memory = summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
    eprintln!("{memory} bytes");
    assert!(memory < MEMORY_MAX, "{memory} bytes");
    receiver.stop();
    assert_eq!(case.received(), (0..MANY).collect::<Vec<_>>());
}

/// Reloads while changes come lose nothing and keep the order.
// shows: source cdc@* reload
fn reload(database: &Database) {
    let Some(server) = testservers::shared(database.name) else {
        return;
    };
    let case = Case::new(database, server, "reload_table");
    let run = Running::connected(&[&case.write("first", FILE)], 1);
    for block in 0..5 {
        case.fill(block * 100, (block + 1) * 100);
        case.write(&format!("edit {block}"), FILE);
        run.reload();
        run.err_has("apps reloaded change", block as usize + 1);
    }
    eventually("all rows", || case.received().last() == Some(&499));
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    let mut seen = std::collections::HashSet::new();
    let mut received = case.received();
    received.retain(|n| seen.insert(*n));
    assert_eq!(received, (0..500).collect::<Vec<_>>());
}

/// A log that was purged while nobody read it is a gap that is told; nothing behind it is taken for the
/// next change.
#[test]
fn a_log_that_was_purged_is_told_and_nothing_behind_it_is_read() {
    let Some(server) = Order::new().start_or_skip("mariadb") else {
        return;
    };
    let case = Case::new(&MARIADB, &server, "purged_table");
    let state = case.apps.path("state");
    let app = case.write("first", FILE);
    let args = [app.as_str(), "--state", &state, "--state-interval", "100ms"];
    let run = Running::connected(&args, 1);
    case.fill(0, 10);
    eventually("the first rows", || case.received().len() == 10);
    assert_eq!(run.stop().0, Some(0));
    case.fill(10, 20);
    case.ask("FLUSH BINARY LOGS");
    case.fill(20, 30);
    case.ask("FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY");
    case.fill(30, 40);
    let run = Running::start(&args);
    run.err_has("the server no longer has the log", 1);
    run.err_has("the changes in between are lost", 1);
    case.fill(40, 50);
    run.stops();
    let (code, _) = run.end();
    assert_ne!(code, Some(0), "it could not go on");
    assert_eq!(case.received(), (0..10).collect::<Vec<_>>());
}

/// A server, a replica of it whose logs have other names, and what asks them so.
struct Pair {
    name: &'static str,
    primary: Server,
    replica: Server,
}

impl Pair {
    fn start(name: &'static str, follow: &str) -> Option<Pair> {
        let primary = Order::new().start_or_skip(name)?;
        let replica = Order::new()
            .with("server-id", "2")
            .with("log-bin", "other")
            .with("relay-log", "relay")
            .with("log-slave-updates", "ON")
            .start_or_skip(name)?;
        let follow = follow.replace("{port}", &primary.port().to_string());
        ask(name, replica.port(), &follow);
        ask(
            name,
            primary.port(),
            "CREATE TABLE t (id BIGINT PRIMARY KEY, text VARCHAR(20))",
        );
        Some(Pair {
            name,
            primary,
            replica,
        })
    }

    /// Waits until the replica has what the primary has now.
    fn follows(&self) {
        let (done, wait) = match self.name {
            "mariadb" => ("SELECT @@gtid_binlog_pos", "MASTER_GTID_WAIT"),
            _ => ("SELECT @@gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
        };
        let done = sql_of(self.name, self.primary.port(), done).expect("it runs");
        let done = done.trim().replace("\\n", "");
        let waited = format!("SELECT {wait}('{done}', 60)");
        let waited = sql_of(self.name, self.replica.port(), &waited).expect("it runs");
        assert_eq!(waited.trim(), "0", "{done}");
    }

    /// All rows, as the client of the database reads them from the replica.
    fn rows(&self) -> Vec<u64> {
        let rows = sql_of(
            self.name,
            self.replica.port(),
            "SELECT id FROM t ORDER BY id",
        );
        let rows = rows.expect("it runs");
        rows.lines().map(|n| n.parse().expect("a number")).collect()
    }
}

/// Rows that one transaction of the writer brings: so many that reading breaks off within some.
const TRANSACTION: u64 = 500;

/// Writes transactions until its server is gone; the first number that it has not written.
fn write_until_gone(name: &'static str, port: u16, mut next: u64) -> u64 {
    loop {
        let rows = |from: u64, to: u64| {
            let rows: Vec<String> = (from..to).map(|n| format!("({n}, 'row')")).collect();
            format!("INSERT INTO t VALUES {};", rows.join(","))
        };
        let half = next + TRANSACTION / 2;
        let end = next + TRANSACTION;
        let sql = format!(
            "BEGIN; {} SAVEPOINT half; {} COMMIT",
            rows(next, half),
            rows(half, end)
        );
        if sql_of(name, port, &sql).is_err() {
            return next;
        }
        next = end;
    }
}

// shows: source cdc@mariadb resume
#[test]
fn a_replica_of_mariadb_takes_over_and_every_row_comes_once() {
    let follow = "RESET MASTER; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},
        MASTER_USER='headwater', MASTER_PASSWORD='headwater', MASTER_USE_GTID=slave_pos;
        START SLAVE";
    if let Some(pair) = Pair::start("mariadb", follow) {
        check_take_over(pair, "STOP SLAVE");
    }
}

#[test]
fn a_replica_of_mysql_takes_over_and_every_row_comes_once() {
    let follow = "RESET BINARY LOGS AND GTIDS; CHANGE REPLICATION SOURCE TO
        SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='headwater',
        SOURCE_PASSWORD='headwater', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1;
        START REPLICA";
    if let Some(pair) = Pair::start("mysql", follow) {
        check_take_over(pair, "STOP REPLICA");
    }
}

fn check_take_over(mut pair: Pair, stop: &str) {
    let (name, primary) = (pair.name, pair.primary.port());
    pair.follows();
    ask(
        name,
        pair.replica.port(),
        "FLUSH BINARY LOGS; FLUSH BINARY LOGS",
    );
    let switch = Switch::start(primary);
    let apps = Apps::new(switch.port, 0);
    let url = pair.primary.endpoint();
    let url = url.replace(&format!(":{primary}/"), &format!(":{}/", switch.port));
    let app = APP
        .replace("{note}", name)
        .replace("{url}", &url)
        .replace("{table}", "t")
        .replace("{sink}", FILE);
    let app = apps.write("changes", &app, "");
    let state = apps.path("state");
    let args = [app.as_str(), "--state", &state, "--state-interval", "100ms"];
    let run = Running::connected(&args, 1);
    let received = || {
        let text = apps.received();
        let number = |line: &str| line.split(',').next().and_then(|n| n.parse().ok());
        text.lines().filter_map(number).collect::<Vec<u64>>()
    };
    let writer = std::thread::spawn(move || write_until_gone(name, primary, 0));
    eventually("rows of the primary", || {
        received().len() as u64 > 4 * TRANSACTION
    });
    // What a server has not given to its replica is lost with it, whoever else has read it: reading
    // ends a moment before the server does. The writer goes on all the time.
    switch.lead(None);
    pair.follows();
    pair.primary.kill();
    let refused = writer.join().expect("no panic");
    assert!(refused > 4 * TRANSACTION);
    run.err_has("ERROR", 1);
    ask(name, pair.replica.port(), stop);
    let rows = pair.rows();
    let next = rows.last().map_or(0, |last| last + 1);
    let replica = pair.replica.port();
    let fill = |from: u64| {
        let rows: Vec<String> = (from..from + TRANSACTION)
            .map(|n| format!("({n}, 'row')"))
            .collect();
        ask(
            name,
            replica,
            &format!("INSERT INTO t VALUES {}", rows.join(",")),
        );
    };
    fill(next);
    switch.lead(Some(replica));
    run.err_has("source is ready", 2);
    fill(next + TRANSACTION);
    eventually("all rows", || received().len() >= pair.rows().len());
    // And once more, from what was saved.
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{name}: {summary}");
    fill(next + 2 * TRANSACTION);
    let run = Running::connected(&args, 1);
    fill(next + 3 * TRANSACTION);
    eventually("all rows", || received().len() >= pair.rows().len());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{name}: {summary}");
    let rows = pair.rows();
    assert_eq!(rows.len() as u64, next + 4 * TRANSACTION, "{name}");
    assert_eq!(received(), rows, "{name}");
}
