//! Changes of tables in real databases, as a run of the binary reads them: servers that go away, an app
//! that takes nothing, reloads.

mod broker;
mod network;

use std::fs;
use std::time::Instant;

use broker::Apps;
use network::{NOTICED, Running, Switch, eventually, free_port, number};
use servers::{Order, Running as Server, sql as sql_of};

struct Database {
    name: &'static str,
    /// Rows from one number to another, in one statement.
    fill: fn(u64, u64) -> String,
}

const ALL: &[Database] = &[
    Database {
        name: "mariadb",
        fill: |from, to| {
            format!(
                "INSERT INTO t SELECT seq, 'row' FROM seq_{from}_to_{}",
                to - 1
            )
        },
    },
    Database {
        name: "mysql",
        fill: |from, to| {
            format!(
                "SET cte_max_recursion_depth = {to}; INSERT INTO t WITH RECURSIVE s (n) AS \
                 (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n, 'row' FROM s",
                to - 1
            )
        },
    },
    Database {
        name: "postgres",
        fill: |from, to| {
            format!(
                "INSERT INTO t SELECT n, 'row' FROM generate_series({from}, {}) n",
                to - 1
            )
        },
    },
];

#[track_caller]
fn ask(name: &str, port: u16, sql: &str) {
    sql_of(name, port, sql).unwrap_or_else(|error| panic!("{name}: {sql}: {error}"));
}

/// A database with a table, and the app that reads its changes.
struct Case<'a> {
    database: &'a Database,
    server: Server,
    apps: Apps,
}

const APP: &str = "@app:name('Changes') -- {note}
@source(type='cdc', url='{url}', username='headwater', password='headwater', table.name='t', operation='insert', @map(type='keyvalue'))
define stream In (id long, text string);
{sink}
define stream Out (id long, text string);
from In select * insert into Out;
";

const FILE: &str = "@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))";

impl Case<'_> {
    fn write(&self, note: &str, sink: &str) -> String {
        let app = APP
            .replace("{note}", note)
            .replace("{url}", &self.server.endpoint())
            .replace("{sink}", sink);
        self.apps.write("changes", &app, "")
    }

    fn ask(&self, sql: &str) {
        ask(self.database.name, self.server.port(), sql);
    }

    fn fill(&self, from: u64, to: u64) {
        self.ask(&(self.database.fill)(from, to));
    }

    fn received(&self) -> Vec<u64> {
        let text = self.apps.received();
        let number = |line: &str| line.split(',').next().and_then(|n| n.parse().ok());
        text.lines().filter_map(number).collect()
    }
}

fn with_each(work: impl Fn(Case<'_>)) {
    for database in ALL {
        eprintln!("{}", database.name);
        let Some(server) = Order::new().start_or_skip(database.name) else {
            continue;
        };
        let apps = Apps::new(server.port(), 0);
        let case = Case {
            database,
            server,
            apps,
        };
        case.ask("CREATE TABLE t (id BIGINT PRIMARY KEY, text VARCHAR(20))");
        work(case);
    }
}

#[test]
fn a_server_that_goes_away_while_it_is_read_is_named_and_gone_on_with() {
    with_each(|mut case| {
        let name = case.database.name;
        let state = case.apps.path("state");
        let app = case.write("first", FILE);
        let args = [app.as_str(), "--state", &state, "--state-interval", "100ms"];
        let run = Running::connected(&args, 1);
        case.fill(0, 1_000);
        eventually("the first rows", || case.received().len() >= 1_000);
        let faults = || run.err().matches("ERROR source").count();
        let before = faults();
        case.server.kill();
        let since = Instant::now();
        eventually("it is said", || faults() > before);
        let took = since.elapsed();
        assert!(took < NOTICED, "{name}: {took:?}");
        case.server.restart().expect("the server starts again");
        case.fill(1_000, 2_000);
        run.err_has("source is connected", 2);
        eventually("all rows", || case.received().len() >= 2_000);
        // One that takes connections and says nothing.
        let before = faults();
        case.server.freeze();
        let since = Instant::now();
        eventually("it is said", || faults() > before);
        let took = since.elapsed();
        assert!(took < NOTICED, "{name}: {took:?}");
        case.server.thaw();
        run.err_has("source is connected", 3);
        case.fill(2_000, 3_000);
        eventually("all rows", || case.received().len() >= 3_000);
        let (code, summary) = run.stop();
        assert_eq!(code, Some(0), "{name}: {summary}");
        assert_eq!(case.received(), (0..3_000).collect::<Vec<_>>(), "{name}");
    });
}

#[test]
fn only_who_has_the_password_reads_changes() {
    with_each(|case| {
        let name = case.database.name;
        let app = case.write("first", FILE);
        let right = Running::connected(&[&app], 1);
        case.fill(0, 10);
        eventually("the rows", || case.received().len() == 10);
        assert_eq!(right.stop().0, Some(0), "{name}");
        let text = fs::read_to_string(&app).expect("it is there");
        let wrong = text.replace("password='headwater'", "password='geheim-17'");
        let wrong = wrong.replace("password=headwater", "password=geheim-17");
        let wrong = Running::start(&[&case.apps.write("wrong", &wrong, "")]);
        // "(using password: YES)", "password authentication failed".
        wrong.err_has("password", 1);
        let said = format!("{}{}", wrong.err(), wrong.out());
        assert!(!said.contains("geheim"), "{name}: {said}");
        assert!(!said.contains("source is connected"), "{name}: {said}");
    });
}

/// More than the queues of an app hold.
const MANY: u64 = 400_000;

/// What a run may take at most while the app takes nothing.
const MEMORY_MAX: u64 = 200_000_000;

#[test]
fn an_app_that_takes_nothing_leaves_the_changes_where_they_are() {
    with_each(|case| {
        let name = case.database.name;
        let far = free_port();
        let sink = format!(
            "@sink(type='tcp', url='tcp://127.0.0.1:{far}/far', on.error='WAIT', @map(type='binary'))"
        );
        let run = Running::connected(&[&case.write("first", &sink)], 1);
        run.err_has("sink cannot be reached", 1);
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
        assert_eq!(code, Some(0), "{name}: {summary}");
        assert_eq!(number(&summary, "sources", "In", "events"), MANY, "{name}");
        let memory = summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
        eprintln!("{name}: {memory} bytes");
        assert!(memory < MEMORY_MAX, "{name}: {memory} bytes");
        receiver.stop();
        assert_eq!(case.received(), (0..MANY).collect::<Vec<_>>(), "{name}");
    });
}

#[test]
fn reloads_while_changes_come_lose_nothing_and_keep_the_order() {
    with_each(|case| {
        let name = case.database.name;
        let run = Running::connected(&[&case.write("first", FILE)], 1);
        for block in 0..5 {
            case.fill(block * 100, (block + 1) * 100);
            case.write(&format!("edit {block}"), FILE);
            run.reload();
            run.err_has("the apps were read again change", block as usize + 1);
        }
        eventually("all rows", || case.received().last() == Some(&499));
        let (code, summary) = run.stop();
        assert_eq!(code, Some(0), "{name}: {summary}");
        let mut seen = std::collections::HashSet::new();
        let mut received = case.received();
        received.retain(|n| seen.insert(*n));
        assert_eq!(received, (0..500).collect::<Vec<_>>(), "{name}");
    });
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
    run.err_has("ERROR source", 1);
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
    run.err_has("source is connected", 2);
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
