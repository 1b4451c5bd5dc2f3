//! Tables in a real Redis.

use std::process::Command;

use crate::broker::Apps;
use crate::network::{Running, eventually, number};
use crate::table::Every;
use testservers::{Lent, Order};

// row: store redis | redis
// n/a tls: no option of the store names TLS

/// What `redis-cli` answers, its lines sorted.
fn redis(port: u16, args: &[&str]) -> Vec<String> {
    let output = Command::new("redis-cli")
        .args(["-p", &port.to_string()])
        .args(args)
        .output()
        .expect("redis-cli is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The server that one test at a time has, without what the one before has left.
fn lent() -> Option<Lent> {
    let server = testservers::lent("redis")?;
    redis(server.port(), &["FLUSHALL"]);
    Some(server)
}

const STORE: &str =
    "@store(type='redis', nodes='127.0.0.1:{port}', table.name='rec') @Index('parity')";

// shows: store redis open, order
#[test]
fn records_lie_as_siddhi_has_them_and_every_condition_works() {
    let Some(server) = lent() else {
        return;
    };
    for state in [false, true] {
        redis(server.port(), &["FLUSHALL"]);
        let every = Every {
            store: STORE,
            seen: "",
            more: "",
            last: "4, 4, seen, 2.0, true",
        };
        every.run(&Apps::new(server.port(), 5), state);
        let port = server.port();
        let expect = [
            "1", "0.5", "b", "changed", "d", "false", "n", "none", "parity", "text",
        ];
        let mut expect = expect.map(str::to_owned);
        expect.sort();
        assert_eq!(redis(port, &["HGETALL", "rec:1"]), expect);
        assert_eq!(redis(port, &["HGET", "rec:9", "d"]), ["1.0E10"]);
        assert_eq!(redis(port, &["EXISTS", "rec:3"]), ["0"]);
        assert_eq!(
            redis(port, &["SMEMBERS", "rec:parity:even"]),
            ["rec:0", "rec:2", "rec:4"]
        );
        assert_eq!(redis(port, &["SMEMBERS", "rec:parity:none"]), ["rec:1"]);
        assert_eq!(redis(port, &["SMEMBERS", "rec:parity:odd"]), ["rec:9"]);
    }
}

const FILLED: &str = "@app:name('Filled')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@store(type='redis', nodes='127.0.0.1:{port}') @PrimaryKey('n')
define table T (n long, text string);
@store(type='redis', nodes='127.0.0.1:{port}') @PrimaryKey('one')
define table Count (one string, count long);
from In select n, text insert into T;
from In select 'one' as one, 1L as count update or insert into Count set Count.count = Count.count + 1L on Count.one == one;
";

// shows: store redis resume
#[test]
fn a_run_that_was_killed_leaves_every_record_once() {
    let Some(mut server) = lent() else {
        return;
    };
    let port = server.port();
    let apps = Apps::new(port, 30_000);
    let filled = apps.write("filled", FILLED, "");
    let state = apps.path("state");
    let args = [
        filled.as_str(),
        "--until-done",
        "--state",
        &state,
        "--state-interval",
        "100ms",
    ];
    let run = Running::start(&args);
    eventually("some records", || redis(port, &["EXISTS", "T:10"]) == ["1"]);
    run.kill();
    let run = Running::start(&args);
    eventually("more records", || {
        redis(port, &["EXISTS", "T:15000"]) == ["1"]
    });
    // The server as well; it has every commit that it has answered.
    server.kill();
    server.restart().expect("it starts again");
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(redis(port, &["DBSIZE"]), [(30_000 + 1 + 1).to_string()]);
    assert_eq!(redis(port, &["HGET", "T:29999", "text"]), ["row 29999 é"]);
    assert_eq!(redis(port, &["HGET", "Count:one", "count"]), ["30000"]);
}

// shows: store redis bad
#[test]
fn what_cannot_be_kept_is_refused_and_its_neighbours_are_kept() {
    let Some(server) = lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 4);
    redis(server.port(), &["HSET", "T:2", "n", "2", "text", "mine"]);
    let filled = apps.write(
        "filled",
        &FILLED.replace(
            "select n, text insert into T",
            "select n, ifThenElse(n == 1L, convert(convert(text, 'long'), 'string'), text) as text insert into T",
        ),
        "",
    );
    let state = apps.path("state");
    let run = Running::start(&[&filled, "--until-done", "--state", &state]);
    let (_, summary) = run.end();
    let table = &summary["apps"][0]["tables"][0];
    assert_eq!(
        (&table["inserted"], &table["failed"]),
        (&2.into(), &2.into()),
        "{summary}"
    );
    let errors = crate::broker::errors(&state);
    for cause in [
        "a record with key 'T:2' already exists",
        "attribute 'text' is null",
    ] {
        assert!(errors.contains(cause), "{errors}");
    }
    let port = server.port();
    assert_eq!(redis(port, &["HGET", "T:2", "text"]), ["mine"]);
    assert_eq!(redis(port, &["EXISTS", "T:0", "T:1", "T:3"]), ["2"]);
}

const TIMED: &str = "@app:name('Timed')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@store(type='redis', nodes='127.0.0.1:{port}', {options}, ttl.seconds='1000') @PrimaryKey('n') @Index('text')
define table T (n long, text string);
from In select n, 'x' as text update or insert into T set T.text = text on T.n == n;
";

#[test]
fn records_go_when_their_time_is_over() {
    let Some(server) = lent() else {
        return;
    };
    let port = server.port();
    let apps = Apps::new(port, 1);
    let left = |key: &str| -> i64 {
        let left = redis(port, &["TTL", key]);
        left[0].parse().expect("a number")
    };
    let run = |options: &str| {
        let timed = apps.write("timed", TIMED, options);
        let (code, summary) = Running::start(&[&timed, "--until-done"]).end();
        assert_eq!(code, Some(0), "{summary}");
    };
    run("");
    assert!(left("T:0") > 900 && left("T:text:x") > 900);
    redis(port, &["EXPIRE", "T:0", "100"]);
    run("");
    assert!(left("T:0") <= 100, "an update does not renew by itself");
    run("ttl.on.update='true'");
    assert!(left("T:0") > 900);
    redis(port, &["EXPIRE", "T:0", "100"]);
    run("ttl.on.read='true'");
    assert!(left("T:0") > 900);
    let bad = apps.write("bad", &TIMED.replace("1000", "0"), "");
    let run = Running::start(&[&bad]);
    run.err_has("write a number of at least 1 seconds, or -1", 1);
}

// shows: store redis login
#[test]
fn only_who_has_the_password_is_let_in() {
    let order = Order::new().with("password", "geheim@17");
    let Some(server) = order.start_or_skip("redis") else {
        return;
    };
    let apps = Apps::new(server.port(), 2);
    let with = |nodes: &str, more: &str| {
        let options = format!("nodes='{nodes}'{more}");
        let app = FILLED.replace("nodes='127.0.0.1:{port}'", &options);
        apps.write("filled", &app, "")
    };
    let port = server.port();
    let right = [
        with(&format!("127.0.0.1:{port}@geheim@17"), ""),
        with(
            "nowhere:1@x",
            &format!(", host='127.0.0.1', port='{port}', password='geheim@17'"),
        ),
    ];
    let first = Running::start(&[&right[0], "--until-done"]).end();
    assert_eq!(first.0, Some(0), "{}", first.1);
    assert_eq!(number(&first.1, "sources", "In", "events"), 2);
    let again = with(
        "nowhere:1@x",
        &format!(", host='127.0.0.1', port='{port}', password='geheim@17', table.name='other'"),
    );
    assert_eq!(Running::start(&[&again, "--until-done"]).end().0, Some(0));
    assert_eq!(
        redis(port, &["-a", "geheim@17", "EXISTS", "other:1"]),
        ["1"]
    );
    let wrong = with(&format!("127.0.0.1:{port}@geheim-18"), "");
    let run = Running::start(&[&wrong]);
    run.err_has("cannot connect", 1);
    let said = format!("{}{}", run.err(), run.out());
    assert!(!said.contains("geheim"), "{said}");
    run.kill();
    let cluster = with("127.0.0.1:1", ", cluster.mode='true'");
    let run = Running::start(&[&cluster]);
    run.err_has("clusters are not supported", 1);
}
