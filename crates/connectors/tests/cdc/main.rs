//! Changes of tables in real databases: every type, several operations, definitions that change in
//! between, restarts in the middle of a transaction, logs that are gone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gtid;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use connect::Error;
use connect::component::DATA_SOURCES;
use connect::component::{
    Connection, Connector, Environment, Finished, Payload, Room, Sequence, Setting, Signal, Source,
    SourceLink, SourceSetup, Waker,
};
use connect::rows::{Lines, Properties, Rejected};
use event::{Attribute, Schema, Type, Value};
use headwater_connectors::cdc::CDC;
use lang::span::Span;
use plan::{Mapping, Transport};
use testservers::{Order, Running};

/// Takes what a source reads, until it has `wanted` changes or nothing came for a while.
#[derive(Default)]
struct Taken {
    wanted: usize,
    mapped: Vec<String>,
    /// As many as the position covers.
    posted: usize,
    position: Vec<u8>,
    quiet: usize,
    /// A batch is full after so many.
    room: usize,
    now: i64,
    begin: Option<Instant>,
    /// Waits until it is stopped; 0: for ever.
    waits: usize,
    waited: usize,
    /// Goes on when nothing comes.
    is_endless: bool,
    /// Called with the number of changes so far.
    on_idle: Option<Box<dyn FnMut(usize) + Send>>,
}

struct Silent;

impl Waker for Silent {
    fn wake(&self) {}
}

impl SourceLink for Taken {
    fn map(&mut self, payload: Payload<'_>, properties: &Properties) -> Room {
        let Payload::Map(map) = payload else {
            panic!("changes are maps")
        };
        let pairs = map.iter().map(|(key, value)| {
            let value = match value {
                Value::Object(event::Object::Bytes(bytes)) => format!("{bytes:?}"),
                value => event::text::to_text(value).to_string(),
            };
            format!("{}={value}", event::text::to_text(key))
        });
        let pairs: Vec<String> = pairs.collect();
        let operation = event::text::to_text(properties.get("operation")).to_string();
        self.mapped
            .push(format!("{operation}: {}", pairs.join(" ")));
        self.quiet = 0;
        match self.room > 0 && self.mapped.len().is_multiple_of(self.room) {
            true => Room::Full,
            false => Room::More,
        }
    }

    fn map_lines(&mut self, _: &mut Lines<'_>, _: &Properties) -> Room {
        Room::More
    }

    fn end_of_input(&mut self) {}

    fn post(&mut self, position: &[u8]) -> Result<Sequence, Error> {
        // Once it has enough, whoever posts is stopped: what it has mapped since is lost.
        if self.wanted > 0 && self.posted >= self.wanted {
            return Err(Error::Stopped);
        }
        self.posted = self.mapped.len();
        self.position = position.to_vec();
        Ok(1)
    }

    fn wait(&mut self, timeout: Duration) -> Signal {
        self.now += timeout.as_millis() as i64;
        self.waited += 1;
        match self.waits > 0 && self.waited > self.waits {
            true => Signal::Stop,
            false => Signal::Timeout,
        }
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::new(Silent)
    }

    fn listen(&mut self, timeout: Duration, _: bool) -> Signal {
        self.wait(timeout)
    }

    fn idle(&mut self, pause: Duration) -> Signal {
        self.now += pause.as_millis() as i64;
        self.quiet += 1;
        if let Some(work) = &mut self.on_idle {
            work(self.mapped.len());
        }
        match self.quiet > 50 && !self.is_endless {
            true => Signal::End,
            false => Signal::Timeout,
        }
    }

    fn report(&mut self, _: Connection) {}

    fn reject(&mut self, rejected: Rejected) {
        panic!("{rejected:?}");
    }

    fn now(&self) -> i64 {
        self.now
            + self
                .begin
                .map_or(0, |begin| begin.elapsed().as_millis() as i64)
    }
}

fn source(
    url: &str,
    options: &[(&str, &str)],
    attributes: &[(&str, Type)],
    settings: &[Setting],
) -> Result<Box<dyn Source>, Error> {
    let mut all = vec![("url".to_owned(), url.to_owned())];
    all.extend(
        options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    all.retain(|(_, value)| !value.is_empty());
    let transport = Transport {
        ty: "cdc".into(),
        options: all,
        map: Mapping {
            ty: "keyvalue".into(),
            options: Vec::new(),
            attributes: Vec::new(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    };
    let attributes = attributes.iter().map(|(name, ty)| Attribute {
        name: (*name).into(),
        ty: *ty,
    });
    let schema = Schema {
        name: "S".into(),
        attributes: attributes.collect(),
    };
    let mut environment = Environment::new("A");
    environment.settings = Arc::from(settings);
    CDC.source(&SourceSetup {
        transport: &transport,
        schema: &schema,
        environment: &environment,
    })
}

fn run(source: &mut dyn Source, taken: &mut Taken) -> Result<Finished, Error> {
    taken.begin = Some(Instant::now());
    source.run(taken)
}

#[track_caller]
fn read(source: &mut dyn Source) -> Taken {
    let mut taken = Taken::default();
    let finished = run(source, &mut taken).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(finished, Finished::Ended);
    assert_eq!(taken.posted, taken.mapped.len());
    taken
}

fn chain(error: &dyn std::error::Error) -> String {
    connect::error::chain(error)
}

#[track_caller]
fn ask(server: &Running, sql: &str) {
    answer(server, sql);
}

/// What the database's own client prints.
#[track_caller]
fn answer(server: &Running, sql: &str) -> String {
    let name = match server.version().starts_with("Postgre") {
        false => "mariadb",
        true => "postgres",
    };
    testservers::sql(name, server.port(), sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

const LISTEN: [(&str, &str); 2] = [("table.name", "t"), ("operation", "insert,update,delete")];

// shows: source cdc@mariadb open, order, resume
#[test]
fn changes_of_mariadb_arrive_in_order_and_once() {
    check_changes("mariadb", Order::new());
}

// shows: source cdc@mysql open, order, resume
#[test]
fn changes_of_mysql_arrive_in_order_and_once() {
    check_changes("mysql", Order::new());
}

#[test]
fn compressed_changes_of_mariadb_arrive_in_order_and_once() {
    let order = Order::new().with("log-bin-compress", "ON");
    check_changes("mariadb", order.with("log-bin-compress-min-len", "10"));
}

#[test]
fn compressed_changes_of_mysql_arrive_in_order_and_once() {
    let order = Order::new().with("binlog-transaction-compression", "ON");
    check_changes("mysql", order);
}

fn check_changes(name: &str, order: Order) {
    let Some(server) = order.start_or_skip(name) else {
        return;
    };
    let url = server.endpoint();
    ask(
        &server,
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET utf8mb4);
         CREATE TABLE other (id INT PRIMARY KEY); INSERT INTO t VALUES (1, 'before')",
    );
    let mut first = source(&url, &LISTEN, &[], &[]).unwrap();
    let begin = read(first.as_mut());
    assert_eq!(
        begin.mapped,
        Vec::<String>::new(),
        "rows from before are not changes"
    );
    ask(
        &server,
        "INSERT INTO t VALUES (2, 'a'), (3, 'ü\u{1f980}'); INSERT INTO other VALUES (1);
         UPDATE t SET s = NULL WHERE id <= 2; DELETE FROM t WHERE id = 3;
         BEGIN; INSERT INTO t VALUES (99, 'x'); ROLLBACK;
         ALTER TABLE t ADD COLUMN n SMALLINT UNSIGNED DEFAULT 7;
         INSERT INTO t VALUES (4, 'b', 65535)",
    );
    let mut again = source(&url, &LISTEN, &[], &[]).unwrap();
    again.restore(&begin.position).unwrap();
    let error = run(again.as_mut(), &mut Taken::default()).unwrap_err();
    // What was logged before the definition changed cannot be told from the definition of now.
    assert!(chain(&error).contains("columns"), "{}", chain(&error));

    ask(&server, "CREATE TABLE u LIKE t");
    let listen = [("table.name", "u"), LISTEN[1]];
    let begin = read(source(&url, &listen, &[], &[]).unwrap().as_mut());
    let many: Vec<String> = (1000..1010).map(|n| format!("({n}, 'many', 0)")).collect();
    let sql = format!(
        "INSERT INTO u VALUES (2, 'a', 1), (3, 'ü\u{1f980}', 65535); INSERT INTO other VALUES (2);
         UPDATE u SET s = NULL WHERE id <= 2; DELETE FROM u WHERE id = 3;
         BEGIN; INSERT INTO u VALUES (99, 'x', 1); ROLLBACK;
         INSERT INTO u VALUES {}",
        many.join(", ")
    );
    ask(&server, &sql);
    let mut all = source(&url, &listen, &[], &[]).unwrap();
    all.restore(&begin.position).unwrap();
    let all = read(all.as_mut()).mapped;
    assert_eq!(
        all[..4],
        [
            "insert: id=2 before_id=0 s=a before_s= n=1 before_n=0",
            "insert: id=3 before_id=0 s=ü\u{1f980} before_s= n=65535 before_n=0",
            "update: id=2 before_id=2 s=null before_s=a n=1 before_n=1",
            "delete: id=0 before_id=3 s= before_s=ü\u{1f980} n=0 before_n=65535",
        ]
    );
    assert_eq!(all.len(), 14);
    // Stopped after any number of changes, it goes on behind exactly those that the position covers.
    for room in 1..=5 {
        let mut position = begin.position.clone();
        let mut seen: Vec<String> = Vec::new();
        loop {
            let mut part = source(&url, &listen, &[], &[]).unwrap();
            part.restore(&position).unwrap();
            let mut taken = Taken {
                wanted: room,
                room,
                ..Taken::default()
            };
            let ended = run(part.as_mut(), &mut taken);
            position.clone_from(&taken.position);
            seen.extend(taken.mapped.drain(..taken.posted));
            match ended {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, Error::Stopped), "{}", chain(&error)),
            }
        }
        assert_eq!(seen, all, "batches of {room}");
    }
    // A definition that changes while the log is read.
    let inserts = [("table.name", "u"), ("operation", "insert")];
    let mut live = source(&url, &inserts, &[], &[]).unwrap();
    // Each is done when so many changes have been read; taken from the end.
    let mut steps = vec![
        (1, "INSERT INTO u VALUES (5, 9)"),
        (1, "ALTER TABLE u DROP COLUMN s"),
        (0, "INSERT INTO u VALUES (6, 'c', 2)"),
    ];
    let server = Arc::new(server);
    let theirs = Arc::clone(&server);
    let mut taken = Taken {
        on_idle: Some(Box::new(move |read| {
            if let Some((_, sql)) = steps.pop_if(|(wanted, _)| read >= *wanted) {
                ask(&theirs, sql);
            }
        })),
        ..Taken::default()
    };
    run(live.as_mut(), &mut taken).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(taken.mapped, ["insert: id=6 s=c n=2", "insert: id=5 n=9"]);
}

// shows: source cdc@mariadb bad
#[test]
fn every_type_of_mariadb() {
    check_types("mariadb");
}

// shows: source cdc@mysql bad
#[test]
fn every_type_of_mysql() {
    check_types("mysql");
}

fn check_types(name: &str) {
    let Some(server) = Order::new().start_or_skip(name) else {
        return;
    };
    ask(
        &server,
        "CREATE TABLE t (a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT,
         f FLOAT, g DOUBLE, h DECIMAL(12,3), i BIT(1), j YEAR, k DATE, l DATETIME, m DATETIME(6),
         n TIMESTAMP NULL, o TIME, p ENUM('x','y'), q SET('x','y','z'), r CHAR(5), s TEXT,
         t VARBINARY(4), u BLOB, v JSON, w VARCHAR(5) CHARACTER SET latin1)",
    );
    let listen = [("table.name", "t"), ("operation", "insert")];
    let url = server.endpoint();
    let mut source = source(&url, &listen, &[], &[]).unwrap();
    read(source.as_mut());
    ask(
        &server,
        "SET time_zone='+00:00'; INSERT INTO t VALUES (-1, 65535, -8388608, 4294967295,
         9223372036854775807, 0.5, -2.5, -12.345, b'1', 2026, '1970-01-03', '1970-01-01 00:00:01',
         '1970-01-01 00:00:01.000002', '2026-01-02 03:04:05', '-01:00:00', 'y', 'x,z', 'ab', 'tü',
         x'00ff', x'01', '{\"a\":1}', 'é€'); INSERT INTO t () VALUES ()",
    );
    let mapped = read(source.as_mut()).mapped;
    assert_eq!(
        mapped[0],
        "insert: a=-1 b=65535 c=-8388608 d=4294967295 e=9223372036854775807 f=0.5 g=-2.5 h=-12.345 \
         i=true j=2026 k=2 l=1000 m=1000002 n=2026-01-02T03:04:05Z o=-3600000000 p=y q=x,z r=ab s=tü \
         t=[0, 255] u=[1] v={\"a\":1} w=é€"
    );
    assert!(
        mapped[1].starts_with("insert: a=null b=null"),
        "{}",
        mapped[1]
    );
}

// shows: source cdc@mariadb resume
#[test]
fn a_log_that_is_gone_is_said_with_its_remedy() {
    check_purged("mariadb");
    check_purged("mysql");
}

/// All logs but the last. One that a reader was given a moment ago stays for now.
fn throw_away_logs(server: &Running) {
    let patience = Instant::now() + Duration::from_secs(60);
    ask(server, "FLUSH BINARY LOGS");
    while answer(server, "SHOW BINARY LOGS").lines().count() > 1 {
        assert!(Instant::now() < patience, "a log is never let go");
        ask(server, "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY");
    }
}

fn check_purged(name: &str) {
    let Some(mut server) = Order::new().start_or_skip(name) else {
        return;
    };
    let url = server.endpoint();
    ask(&server, "CREATE TABLE t (id INT PRIMARY KEY)");
    let options = [LISTEN[0], LISTEN[1], ("database.server.id", "77")];
    let begin = read(source(&url, &options, &[], &[]).unwrap().as_mut());
    // A server that goes away is noticed, and gone on with.
    let mut lost = source(&url, &options, &[], &[]).unwrap();
    lost.restore(&begin.position).unwrap();
    server.stop();
    let since = Instant::now();
    let error = run(lost.as_mut(), &mut Taken::default()).unwrap_err();
    assert!(error.is_unavailable(), "{}", chain(&error));
    assert!(since.elapsed() < Duration::from_secs(5));
    server.restart().unwrap();
    ask(&server, "INSERT INTO t VALUES (1)");
    assert_eq!(read(lost.as_mut()).mapped.len(), 1);

    throw_away_logs(&server);
    let mut old = source(&url, &options, &[], &[]).unwrap();
    old.restore(&begin.position).unwrap();
    let error = run(old.as_mut(), &mut Taken::default()).unwrap_err();
    let said = chain(&error);
    assert!(!error.is_unavailable(), "{said}");
    assert!(
        said.contains("no longer has the log") && said.contains("expire_logs_days"),
        "{said}"
    );
}

const POLLED: [(&str, &str); 5] = [
    ("mode", "polling"),
    ("table.name", "p"),
    ("polling.column", "Id"),
    ("polling.interval", "0"),
    ("jdbc.driver.name", "any"),
];

#[test]
fn rows_beyond_the_last_are_polled_from_every_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let mut all: Vec<(Option<Running>, String)> =
        vec![(None, format!("jdbc:sqlite:{}", path.display()))];
    for name in ["mariadb", "postgres"] {
        if let Some(server) = Order::new().start_or_skip(name) {
            let url = server.endpoint();
            all.push((Some(server), url));
        }
    }
    for (server, url) in &all {
        let ask = |sql: &str| match server {
            Some(server) => ask(server, sql),
            None => {
                let run = Command::new("sqlite3")
                    .arg(&path)
                    .arg(sql)
                    .status()
                    .unwrap();
                assert!(run.success());
            }
        };
        ask("CREATE TABLE p (Id INT, Name VARCHAR(20), Price DECIMAL(9,2));");
        ask("INSERT INTO p VALUES (9, 'old', 1.5);");
        let types = [
            ("id", Type::Int),
            ("name", Type::String),
            ("price", Type::Double),
        ];
        let mut first = source(url, &POLLED, &types, &[]).unwrap();
        let begin = read(first.as_mut());
        assert!(begin.mapped.is_empty());
        ask("INSERT INTO p VALUES (10, 'it''s', 2.5), (11, NULL, 3.5);");
        let mut next = source(url, &POLLED, &types, &[]).unwrap();
        next.restore(&begin.position).unwrap();
        let taken = read(next.as_mut());
        let expect = [": id=10 name=it's price=2.5", ": id=11 name=null price=3.5"];
        let mapped: Vec<String> = taken
            .mapped
            .iter()
            .map(|line| line.replace("null: ", ": "))
            .collect();
        assert_eq!(mapped, expect, "{url}");
        assert!(read(next.as_mut()).mapped.is_empty());
    }
}

#[test]
fn a_gap_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let url = format!("jdbc:sqlite:{}", path.display());
    let ask = |sql: &str| {
        let run = Command::new("sqlite3")
            .arg(&path)
            .arg(sql)
            .status()
            .unwrap();
        assert!(run.success());
    };
    ask("CREATE TABLE p (Id INT); INSERT INTO p VALUES (1);");
    let wait = |timeout| {
        let mut options = POLLED.to_vec();
        options.push(("wait.on.missed.record", "true"));
        options.push(("missed.record.waiting.timeout", timeout));
        source(&url, &options, &[("id", Type::Int)], &[]).unwrap()
    };
    let mut patient = wait("-1");
    read(patient.as_mut());
    ask("INSERT INTO p VALUES (2), (4);");
    assert_eq!(read(patient.as_mut()).mapped, ["null: id=2"]);
    ask("INSERT INTO p VALUES (3);");
    assert_eq!(read(patient.as_mut()).mapped, ["null: id=3", "null: id=4"]);
    let mut hasty = wait("0");
    hasty.restore(b"poll 1\n4").unwrap();
    ask("INSERT INTO p VALUES (9);");
    assert_eq!(read(hasty.as_mut()).mapped, ["null: id=9"]);
}

#[test]
fn a_table_is_asked_at_the_times_of_an_expression() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let made = Command::new("sqlite3")
        .arg(&path)
        .arg("CREATE TABLE p (Id INT); INSERT INTO p VALUES (1), (2), (3);")
        .status();
    assert!(made.unwrap().success());
    let url = format!("jdbc:sqlite:{}", path.display());
    let open = |expression: &'static str| {
        let mut options = POLLED.to_vec();
        options.push(("cron.expression", expression));
        source(&url, &options, &[("id", Type::Int)], &[])
    };
    let mut timed = open("0/30 * * * * ?").unwrap();
    timed.restore(b"poll 1\n1").unwrap();
    let mut taken = Taken {
        waits: 2,
        ..Taken::default()
    };
    let finished = timed
        .run(&mut taken)
        .unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(finished, Finished::Stopped);
    assert_eq!(taken.mapped, ["null: id=2", "null: id=3"]);
    // The first question at 30 s, the second at 60 s.
    assert_eq!(taken.now, 60_000 + 30_000);
    let error = open("often").err().unwrap();
    assert!(
        chain(&error).contains("cron.expression"),
        "{}",
        chain(&error)
    );
}

#[test]
fn a_data_source_stands_for_the_login() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let made = Command::new("sqlite3")
        .arg(&path)
        .arg("CREATE TABLE p (Id INT);")
        .status();
    assert!(made.unwrap().success());
    let setting = Setting {
        namespace: DATA_SOURCES.into(),
        name: "SHOP".into(),
        key: "jdbc.url".into(),
        value: format!("jdbc:sqlite:{}", path.display()),
    };
    for option in ["datasource.name", "jndi.resource"] {
        let mut options = POLLED.to_vec();
        options.push((option, "SHOP"));
        let mut named = source("", &options, &[], std::slice::from_ref(&setting)).unwrap();
        read(named.as_mut());
        let error = source("", &options, &[], &[]).err().unwrap();
        assert!(chain(&error).contains("'SHOP'"), "{}", chain(&error));
    }
}

// ---- PostgreSQL ----

/// The source of a table, by a slot of its own.
fn postgres(url: &str, table: &str, slot: &str, operation: &str) -> Result<Box<dyn Source>, Error> {
    let properties = format!("slot.name={slot},publication.name=all_of_it");
    let options = [
        ("table.name", table),
        ("operation", operation),
        ("plugin.name", "pgoutput"),
        ("connector.properties", &properties),
    ];
    source(url, &options, &[], &[])
}

// shows: source cdc@postgres open, order
#[test]
fn changes_of_postgres_arrive_in_order_and_once() {
    let Some(server) = Order::new().start_or_skip("postgres") else {
        return;
    };
    let url = server.endpoint();
    let open = || postgres(&url, "t", "first", "insert,update,delete").unwrap();
    ask(
        &server,
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)); ALTER TABLE t REPLICA IDENTITY FULL;
         CREATE TABLE other (id INT PRIMARY KEY); INSERT INTO t VALUES (1, 'before')",
    );
    let begin = read(open().as_mut());
    assert_eq!(
        begin.mapped,
        Vec::<String>::new(),
        "rows from before are not changes"
    );
    // Each text is a transaction of its own.
    for sql in [
        "INSERT INTO t VALUES (2, 'a'), (3, 'ü\u{1f980}'); INSERT INTO other VALUES (1)",
        "UPDATE t SET s = NULL WHERE id <= 2",
        "DELETE FROM t WHERE id = 3",
        "BEGIN; INSERT INTO t VALUES (99, 'x'); ROLLBACK",
        "ALTER TABLE t ADD COLUMN n SMALLINT DEFAULT 7",
        "INSERT INTO t VALUES (4, 'b', -5)",
        "ALTER TABLE t RENAME COLUMN s TO text; ALTER TABLE t DROP COLUMN n",
        "INSERT INTO t SELECT i, 'many' FROM generate_series(1000, 1009) i",
        "TRUNCATE t",
    ] {
        ask(&server, sql);
    }
    let all = read(restored(open(), &begin).as_mut()).mapped;
    assert_eq!(
        all[..7],
        [
            "insert: id=2 before_id=0 s=a before_s=",
            "insert: id=3 before_id=0 s=ü\u{1f980} before_s=",
            "update: id=1 before_id=1 s=null before_s=before",
            "update: id=2 before_id=2 s=null before_s=a",
            "delete: id=0 before_id=3 s= before_s=ü\u{1f980}",
            "insert: id=4 before_id=0 s=b before_s= n=-5 before_n=0",
            "insert: id=1000 before_id=0 text=many before_text=",
        ]
    );
    assert_eq!(all.len(), 16);
}

/// A source that goes on behind what was taken.
fn restored(mut source: Box<dyn Source>, taken: &Taken) -> Box<dyn Source> {
    source.restore(&taken.position).unwrap();
    source
}

// shows: source cdc@postgres resume
#[test]
fn a_restart_goes_on_at_the_exact_change_of_postgres() {
    let Some(server) = Order::new().start_or_skip("postgres") else {
        return;
    };
    let url = server.endpoint();
    ask(&server, "CREATE TABLE t (id INT)");
    for room in 1..=5 {
        // A slot for each: what is acknowledged is forgotten.
        let slot = format!("s{room}");
        let open = || postgres(&url, "public.t", &slot, "insert").unwrap();
        let mut last = read(open().as_mut());
        let number = |line: &String| line.rsplit('=').next().unwrap().parse::<i32>().unwrap();
        for sql in [
            "INSERT INTO t SELECT generate_series(1, 7)",
            "INSERT INTO t SELECT generate_series(8, 9)",
            "INSERT INTO t SELECT generate_series(10, 13)",
        ] {
            ask(&server, sql);
        }
        let mut seen: Vec<i32> = Vec::new();
        loop {
            let mut taken = Taken {
                wanted: room,
                room,
                ..Taken::default()
            };
            let ended = run(restored(open(), &last).as_mut(), &mut taken);
            if !taken.position.is_empty() {
                last.position.clone_from(&taken.position);
            }
            seen.extend(taken.mapped[..taken.posted].iter().map(number));
            match ended {
                Ok(_) => break,
                Err(Error::Stopped) => {}
                // The server has not noticed yet that its last reader is gone.
                Err(error) => assert!(error.is_unavailable(), "{}", chain(&error)),
            }
        }
        assert_eq!(seen, (1..=13).collect::<Vec<i32>>(), "batches of {room}");
    }
}

// shows: source cdc@postgres bad
#[test]
fn every_type_of_postgres() {
    let Some(server) = Order::new().start_or_skip("postgres") else {
        return;
    };
    ask(
        &server,
        "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN age AS INT;
         CREATE TABLE t (a SMALLINT, b INT, c BIGINT, d REAL, e FLOAT8, f NUMERIC(12,3), g MONEY,
         h BOOL, i BIT, j BIT(10), k DATE, l TIMESTAMP, m TIMESTAMP(3), n TIMESTAMPTZ, o TIME,
         p TIME(0), q TIMETZ, r INTERVAL, s TEXT, t VARCHAR(9), u CHAR(5), v BYTEA, w JSONB, x UUID,
         y INET, z mood, aa age, ab INT[])",
    );
    let url = server.endpoint();
    let open = || postgres(&url, "t", "types", "insert").unwrap();
    let begin = read(open().as_mut());
    ask(
        &server,
        "SET timezone = '+03'; SET DateStyle = 'German'; INSERT INTO t VALUES (-32768, 2147483647,
         -9223372036854775808, 0.5, 'NaN', -12.345, '-1234.5', true, '1', '1000000001',
         '1970-01-03', '1970-01-01 00:00:01.000002', '1970-01-01 00:00:01.5',
         '2026-01-02 03:04:05+01', '01:00:00', '01:00:00', '01:00:00+02', '1 day 2 hours', 'tü''\\',
         'v', 'ab', '\\x00ff', '{\"a\": 1}', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '10.0.0.1',
         'glad', 7, '{1,NULL}'); INSERT INTO t DEFAULT VALUES",
    );
    let mapped = read(restored(open(), &begin).as_mut()).mapped;
    assert_eq!(
        mapped[0],
        "insert: a=-32768 b=2147483647 c=-9223372036854775808 d=0.5 e=NaN f=-12.345 g=-1234.5 h=true \
         i=true j=[1, 2] k=2 l=1000002 m=1500 n=2026-01-02T02:04:05Z o=3600000000 p=3600000 \
         q=23:00:00Z r=93600000000 s=tü'\\ t=v u=ab    v=[0, 255] w={\"a\": 1} \
         x=a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 y=10.0.0.1 z=glad aa=7 ab={1,NULL}"
    );
    assert!(
        mapped[1].starts_with("insert: a=null b=null"),
        "{}",
        mapped[1]
    );
}

#[test]
fn rows_before_their_change_and_long_values_that_the_log_of_postgres_does_not_repeat() {
    let Some(server) = Order::new().start_or_skip("postgres") else {
        return;
    };
    ask(
        &server,
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT); ALTER TABLE t ALTER s SET STORAGE EXTERNAL",
    );
    let url = server.endpoint();
    let open = || postgres(&url, "t", "olds", "update,delete").unwrap();
    let begin = read(open().as_mut());
    for sql in [
        "INSERT INTO t VALUES (1, 1, repeat('x', 9000)), (2, 2, 'b')",
        "UPDATE t SET n = 5 WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "UPDATE t SET n = 6",
    ] {
        ask(&server, sql);
    }
    let mapped = read(restored(open(), &begin).as_mut()).mapped;
    assert_eq!(
        mapped[..3],
        [
            "update: id=1 before_id=null n=5 before_n=null s=__debezium_unavailable_value before_s=null",
            "update: id=3 before_id=2 n=2 before_n=null s=b before_s=null",
            "delete: id=0 before_id=3 n=0 before_n=null s= before_s=null",
        ]
    );
    let whole = "x".repeat(9000);
    let expect = format!("update: id=1 before_id=1 n=6 before_n=5 s={whole} before_s={whole}");
    assert!(mapped[3] == expect, "{:.200}", mapped[3]);
}

// shows: source cdc@postgres resume
#[test]
fn what_a_slot_of_postgres_cannot_give_is_said_with_its_remedy() {
    let order = Order::new()
        .with("max_slot_wal_keep_size", "1MB")
        .with("max_wal_size", "32MB")
        .with("min_wal_size", "32MB");
    let Some(mut server) = order.start_or_skip("postgres") else {
        return;
    };
    let url = server.endpoint();
    ask(&server, "CREATE TABLE t (id INT PRIMARY KEY)");
    let open = |slot: &str| postgres(&url, "t", slot, "insert").unwrap();
    let begin = read(open("gone").as_mut());
    let check = |source: Box<dyn Source>, words: &[&str]| {
        let mut source = restored(source, &begin);
        let error = run(source.as_mut(), &mut Taken::default()).unwrap_err();
        let said = chain(&error);
        assert!(!error.is_unavailable(), "{said}");
        for words in words {
            assert!(said.contains(words), "{words}: {said}");
        }
    };

    // A server that goes away is noticed, and gone on with.
    let mut lost = restored(open("gone"), &begin);
    server.stop();
    let error = run(lost.as_mut(), &mut Taken::default()).unwrap_err();
    assert!(error.is_unavailable(), "{}", chain(&error));
    server.restart().unwrap();
    ask(&server, "INSERT INTO t VALUES (1)");
    assert_eq!(read(lost.as_mut()).mapped, ["insert: id=1"]);

    // One that says nothing any more is.
    let since = Instant::now();
    let server = Arc::new(server);
    let theirs = Arc::clone(&server);
    let mut taken = Taken {
        is_endless: true,
        on_idle: Some(Box::new(move |_| theirs.freeze())),
        ..Taken::default()
    };
    let error = run(lost.as_mut(), &mut taken).unwrap_err();
    server.thaw();
    assert!(error.is_unavailable(), "{}", chain(&error));
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );

    check(
        open("missing"),
        &["no longer has the replication slot", "saved state"],
    );
    // Read on by somebody else, without a state.
    ask(&server, "INSERT INTO t VALUES (2)");
    ask(
        &server,
        "SELECT pg_replication_slot_advance('gone', pg_current_wal_lsn())",
    );
    check(open("gone"), &["another client", "slot.name"]);
    // The server keeps no more than it was told to.
    read(open("short").as_mut());
    for _ in 0..4 {
        ask(
            &server,
            "INSERT INTO t SELECT i FROM generate_series(1000, 90000) i; DELETE FROM t; SELECT pg_switch_wal(); CHECKPOINT",
        );
    }
    check(
        open("short"),
        &["max_slot_wal_keep_size", "pg_drop_replication_slot"],
    );
    ask(
        &server,
        "SELECT pg_create_logical_replication_slot('other', 'test_decoding')",
    );
    check(open("other"), &["test_decoding", "slot.name"]);
}

// shows: source cdc@postgres open
#[test]
fn publications_of_postgres_are_made_as_debezium_makes_them() {
    let Some(server) = Order::new().start_or_skip("postgres") else {
        return;
    };
    let url = server.endpoint();
    ask(&server, "CREATE TABLE a (id INT); CREATE TABLE b (id INT)");
    let open = |table: &str, properties: &str| {
        let options = [
            ("table.name", table),
            ("operation", "insert"),
            ("connector.properties", properties),
        ];
        source(&url, &options, &[], &[])
    };
    let refused = |table: &str, properties: &str, words: &str| {
        let error = match open(table, properties) {
            Ok(mut source) => run(source.as_mut(), &mut Taken::default()).unwrap_err(),
            Err(error) => error,
        };
        assert!(chain(&error).contains(words), "{}", chain(&error));
    };
    let disabled = "publication.name=p,publication.autocreate.mode=disabled,slot.drop.on.stop=true";
    refused("a", disabled, "CREATE PUBLICATION");
    let filtered = "publication.name=p,publication.autocreate.mode=filtered,slot.drop.on.stop=true";
    read(open("a", filtered).unwrap().as_mut());
    refused("b", disabled, "ALTER PUBLICATION");
    read(open("b", filtered).unwrap().as_mut());
    read(open("a", disabled).unwrap().as_mut());
    // With no property at all: Debezium's names, and its slot stays.
    read(open("a", "").unwrap().as_mut());
    refused("a", "slot.name=Upper", "lower case");
    refused("a", "publication.autocreate.mode=often", "autocreate");
    refused("nowhere", "", "does not exist");
    let slots = answer(&server, "SELECT slot_name FROM pg_replication_slots");
    assert_eq!(slots, "debezium\n");
}
