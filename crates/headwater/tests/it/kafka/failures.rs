//! Brokers that go and come back, and runs that are killed.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Case, broker, end_of, events, kcat, lent, produce, received};
use crate::network::{NOTICED, Running, Throttle, eventually, number};

const PIPE: &str = "@app:name('Pipe')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='pipe-in', group.id='pipe', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='pipe-out', partition.no='0', on.error='WAIT', @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
";

// shows: sink kafka order, lost
// shows: source kafka lost
#[test]
fn a_broker_that_is_killed_and_one_that_is_silent_are_named_and_nothing_is_lost() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    produce(&broker, "named-in", 0, events(0..500));
    let case = Case::new(&broker, &PIPE.replace("pipe", "named"));
    let run = case.start();
    eventually("the first arrive", || {
        received(&broker, "named-out").len() >= 500
    });
    // What was never there cannot be lost, and the records may have been faster than the sink's first look.
    run.err_has("sink is ready", 1);
    broker.kill();
    let gone = Instant::now();
    run.err_has("source lost its connection", 1);
    run.err_has("sink lost its connection; reconnecting", 1);
    assert!(gone.elapsed() < NOTICED, "{:?}", gone.elapsed());
    broker.restart().expect("the broker starts again");
    produce(&broker, "named-in", 0, events(500..1000));
    run.err_has("source is ready", 2);
    run.err_has("sink reconnected", 1);
    broker.freeze();
    let frozen = Instant::now();
    run.err_has("source lost its connection", 2);
    run.err_has("has not answered for", 2);
    assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
    broker.thaw();
    run.err_has("source is ready", 3);
    produce(&broker, "named-in", 0, events(1000..1500));
    eventually("all arrive", || {
        received(&broker, "named-out").len() >= 1500
    });
    assert_eq!(run.stop().0, Some(0));
    let expect: Vec<String> = (0..1500).map(|i| i.to_string()).collect();
    assert_eq!(received(&broker, "named-out"), expect);
}

const SLOW: &str = "@app:name('Slow')
@source(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic.list='slow-in', group.id='{group}', threading.option='single.thread', {partitions}@map(type='json'))
define stream S (n int);
@sink(type='log', prefix='in')
define stream Seen (n int);
from S select n insert into Seen;
";

/// One that takes longer than a question is waited for is asked on, by the same client: a new one would begin
/// with more questions, and be given up as well.
// shows: source kafka lost
#[test]
fn a_broker_that_answers_slowly_is_reached_all_the_same() {
    // The first answer of a connection, which says what the broker can do, has five hundred.
    const BYTES_PER_SECOND: u64 = 80;
    let Some(broker) = broker() else { return };
    produce(broker, "slow-in", 0, events(0..10));
    for (group, partitions) in [("slow-member", ""), ("slow", "partition.no.list='0', ")] {
        let slow = Throttle::of_answers(broker.port(), BYTES_PER_SECOND);
        let text = SLOW
            .replace("{port}", &slow.port.to_string())
            .replace("{group}", group)
            .replace("{partitions}", partitions);
        let case = Case::new(broker, &text);
        let run = case.start();
        run.err_has("has not answered for", 1);
        run.err_has("source is ready", 1);
        run.out_has("data=[9]", 1);
        assert!(!run.err().contains("cannot connect"), "{}", run.err());
        assert_eq!(run.stop().0, Some(0));
    }
}

// shows: sink kafka resume
#[test]
fn a_broker_that_is_not_there_is_waited_for() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    produce(&broker, "absent-in", 0, events(0..10));
    broker.stop();
    let case = Case::new(&broker, &PIPE.replace("pipe", "absent"));
    let run = case.start();
    run.err_has("cannot connect source", 1);
    broker.restart().expect("the broker starts again");
    eventually("all arrive", || received(&broker, "absent-out").len() >= 10);
    assert_eq!(run.stop().0, Some(0));
    let expect: Vec<String> = (0..10).map(|i| i.to_string()).collect();
    assert_eq!(received(&broker, "absent-out"), expect);
}

// shows: source kafka resume
#[test]
fn every_record_is_in_the_table_once_whenever_the_run_is_killed() {
    let Some(broker) = broker() else { return };
    for partition in 0..3 {
        let from = partition * 20_000;
        produce(broker, "once", partition, events(from..from + 20_000));
    }
    // The broker waits for a member that was killed as long as its session lasts.
    for options in [
        "optional.configuration='session.timeout.ms:2000',",
        "partition.no.list='0,1,2',",
    ] {
        let text = "@app:name('Once')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='once', group.id='{group}', threading.option='single.thread', {options} @map(type='json'))
define stream S (n int);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/out.db', username='', password='', jdbc.driver.name='org.sqlite.JDBC')
define table T (n int);
from S select * insert into T;
"
        .replace("{options}", options)
        .replace("{group}", &format!("once{}", options.len()));
        let case = Case::new(broker, &text);
        let path = |name: &str| case.dir.path().join(name);
        let state = path("state").display().to_string();
        let args = [
            case.app.as_str(),
            "--state",
            &state,
            "--state-interval",
            "50ms",
        ];
        for rows in [1, 10_000, 30_000] {
            let run = Running::start(&args);
            eventually("some rows are in the table", || {
                rows_of(&path("out.db"), "select count(*) from T") >= rows
            });
            run.kill();
        }
        let (code, summary) = Running::start(&[&args[..], &["--until-done"]].concat()).end();
        assert_eq!(code, Some(0), "{summary}");
        let count = |query: &str| rows_of(&path("out.db"), query);
        assert_eq!(count("select count(*) from T"), 60_000, "{options}");
        assert_eq!(
            count("select count(distinct n) from T"),
            60_000,
            "{options}"
        );
    }
}

/// A number out of a database; 0 while it is not there or busy.
fn rows_of(database: &Path, query: &str) -> i64 {
    rusqlite::Connection::open(database)
        .and_then(|database| database.query_row(query, [], |row| row.get(0)))
        .unwrap_or(0)
}

const MANY: u32 = 200_000;

#[test]
fn nothing_is_lost_doubled_or_moved_when_the_broker_is_killed_again_and_again() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    produce(&broker, "again-in", 0, events(0..MANY));
    let case = Case::new(&broker, &PIPE.replace("pipe", "again"));
    let run = case.start();
    for at in [1, 40_000, 100_000] {
        eventually("some arrive", || end_of(&broker, "again-out") >= at);
        broker.kill();
        broker.restart().expect("the broker starts again");
    }
    eventually("all arrive", || {
        end_of(&broker, "again-out") >= u64::from(MANY)
    });
    let run_said = run.err();
    assert_eq!(run.stop().0, Some(0));
    let found = kcat(
        &broker,
        &["-C", "-t", "again-out", "-p", "0", "-o", "beginning", "-e"],
        "",
    );
    let found: Result<Vec<u32>, _> = found
        .lines()
        .filter(|l| !l.is_empty())
        .map(str::parse)
        .collect();
    let found = found.expect("numbers");
    let moved = found.windows(2).position(|pair| pair[0] > pair[1]);
    assert_eq!(
        moved.map(|at| &found[at..(at + 3).min(found.len())]),
        None,
        "out of order behind record {moved:?}"
    );
    let mut sorted = found;
    sorted.sort_unstable();
    let expect: Vec<u32> = (0..MANY).collect();
    assert!(
        sorted == expect,
        "{} of {MANY} records: {run_said}",
        sorted.len()
    );
}

#[test]
fn a_run_stops_without_its_broker_and_goes_on_where_it_was() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    produce(&broker, "without-in", 0, events(0..100));
    let case = Case::new(&broker, &PIPE.replace("pipe", "without"));
    let state = case.dir.path().join("state").display().to_string();
    let args = [
        case.app.as_str(),
        "--state",
        &state,
        "--state-interval",
        "100ms",
    ];
    let run = Running::start(&args);
    eventually("the first arrive", || {
        received(&broker, "without-out").len() >= 100
    });
    produce(&broker, "without-in", 0, events(100..200));
    broker.kill();
    run.err_has("source lost its connection", 1);
    // No broker to wait for: it ends all the same, and says when something is left over.
    run.stop();
    broker.restart().expect("the broker starts again");
    produce(&broker, "without-in", 0, events(200..300));
    let (code, summary) = Running::start(&[&args[..], &["--until-done"]].concat()).end();
    assert_eq!(code, Some(0), "{summary}");
    let mut found = received(&broker, "without-out");
    // What was on its way when the broker died may stand twice, in its order.
    let mut seen = std::collections::HashSet::new();
    found.retain(|line| seen.insert(line.clone()));
    let expect: Vec<String> = (0..300).map(|i| i.to_string()).collect();
    assert_eq!(found, expect);
}

const IDLE: &str = "@app:name('Idle')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', @map(type='csv'))
define stream S (t string);
@sink(type='kafka', bootstrap.servers='{broker}', topic='idle', on.error='WAIT', @map(type='csv'))
define stream Constant (t string);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{{t}}', on.error='WAIT', @map(type='csv'))
define stream Dynamic (t string);
from S select * insert into Constant;
from S select * insert into Dynamic;
";

#[test]
fn a_sink_that_has_written_nothing_notices_that_its_broker_is_gone() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    let case = Case::new(&broker, IDLE);
    let input = case.dir.path().join("in.csv");
    fs::write(&input, "").expect("the folder can be written");
    let run = Running::connected(&[&case.app], 1);
    let lost = |times: usize| {
        let since = Instant::now();
        run.err_has("sink lost its connection; reconnecting", times);
        assert!(since.elapsed() < NOTICED, "{:?}", since.elapsed());
    };
    let answers = || kcat(&broker, &["-L"], "");
    eventually("the broker is there", || answers().contains("broker"));
    run.err_has("sink is ready", 2);
    broker.freeze();
    lost(2);
    broker.thaw();
    run.err_has("sink reconnected", 2);
    // Whether it answers is not asked by making topics.
    assert!(!answers().contains("idle"), "{}", answers());
    broker.kill();
    lost(4);
    broker.restart().expect("the broker starts again");
    run.err_has("sink reconnected", 4);
    fs::write(&input, "idle-other\n").expect("the folder can be written");
    eventually("both arrive", || {
        received(&broker, "idle").len() + received(&broker, "idle-other").len() == 2
    });
    assert_eq!(run.stop().0, Some(0));
}

const TRANSACTION: &str = "@app:name('Transaction')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', @map(type='csv'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='tx-{policy}', partition.no='0', on.error='{policy}', optional.configuration='transactional.id:of-{policy}', @map(type='csv'))
define stream Out (n int);
@sink(type='log')
define stream Handed (n int);
from S select * insert into Out;
from S select * insert into Handed;
";

#[test]
fn a_transaction_does_not_hold_up_a_stop_without_its_broker() {
    long_test!();
    for policy in ["LOG", "WAIT"] {
        let Some(mut broker) = lent() else { return };
        let topic = format!("tx-{policy}");
        let case = Case::new(&broker, &TRANSACTION.replace("{policy}", policy));
        let input = case.dir.path().join("in.csv");
        fs::write(&input, "1\n").expect("the folder can be written");
        let run = Running::connected(&[&case.app], 1);
        eventually("the first is written", || {
            received(&broker, &topic) == ["1"]
        });
        let committed = [
            "-C",
            "-t",
            &topic,
            "-o",
            "beginning",
            "-e",
            "-X",
            "isolation.level=read_committed",
        ];
        eventually("it is committed", || {
            kcat(&broker, &committed, "") == "1\n\n"
        });
        broker.kill();
        let mut file = fs::File::options()
            .append(true)
            .open(&input)
            .expect("it is there");
        writeln!(file, "2").expect("there is room");
        run.err_has("sink", 1);
        run.out_has("data=[2]", 1);
        let since = Instant::now();
        let (code, summary) = run.stop();
        let took = since.elapsed();
        assert!(took < Duration::from_secs(9), "{policy}: {took:?}");
        assert_eq!(code, Some(4), "{policy}: {summary}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), 1, "{summary}");
    }
}
