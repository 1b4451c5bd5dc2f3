//! From Kafka to Kafka exactly once: runs and brokers that are killed at any moment, and what becomes
//! of a transaction that cannot be committed. An independent client reads committed records.

use std::fs;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use testservers::{Order, Running as Server};

use super::{Case, broker, end_of, events, has_open_transaction, lent, produce, tool};
use crate::network::{Running, durable_and_not_current, epochs, eventually, number};

const MANY: u32 = 200_000;

/// Of each record `n`, where it came and how many there were.
const PIPE: &str = "@app:name('Pipe')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{name}-in', group.id='{name}', threading.option='single.thread', partition.no.list='0', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{name}-out', partition.no='0', optional.configuration='transactional.id:{name}{options}', @map(type='csv'))
define stream Out (n int, c long);
{query}
";

const STATELESS: &str = "from S select n, n + 1L as c insert into Out;";
const STATEFUL: &str = "from S select n, count() as c insert into Out;";

fn line(n: u32) -> String {
    format!("{n},{}", n + 1)
}

/// An app with a state directory of its own.
struct Once {
    case: Case,
    interval: &'static str,
}

impl Once {
    fn new(broker: &Server, name: &str, query: &str, options: &str) -> Once {
        let text = PIPE
            .replace("{name}", name)
            .replace("{options}", options)
            .replace("{query}", query);
        Once {
            case: Case::new(broker, &text),
            interval: "100ms",
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.case.dir.path().join(name)
    }

    fn start_with(&self, more: &[&str]) -> Running {
        let state = self.path("state").display().to_string();
        let args = [
            &self.case.app,
            "--state",
            &state,
            "--state-interval",
            self.interval,
        ];
        Running::start(&[&args[..], more].concat())
    }

    fn start(&self) -> Running {
        self.start_with(&[])
    }

    /// Runs to the end of the input.
    #[track_caller]
    fn finish(&self) -> serde_json::Value {
        let run = self.start_with(&["--until-done"]);
        let (code, summary) = run.end();
        assert_eq!(code, Some(0), "{summary}");
        summary
    }
}

/// Lines of a topic's first partition that readers of committed records see, in order; none while there
/// is not a topic.
fn committed(broker: &Server, topic: &str) -> Vec<String> {
    let output = Command::new("kcat")
        .args(["-q", "-b", &broker.endpoint(), "-C", "-t", topic, "-p", "0"])
        .args(["-o", "beginning", "-e"])
        .args(["-X", "isolation.level=read_committed"])
        .output()
        .expect("kcat starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Each number once, in order.
#[track_caller]
fn check(broker: &Server, topic: &str, count: u32) {
    let found = committed(broker, topic);
    let expect = (0..count).map(line);
    let differs = expect.zip(&found).position(|(a, b)| a != *b);
    let around = differs.map(|at| &found[at.saturating_sub(2)..(at + 3).min(found.len())]);
    assert!(
        around.is_none() && found.len() == count as usize,
        "{} of {count} records, first difference at {differs:?}: {around:?}",
        found.len()
    );
}

/// Writes records for as long as the work lasts, behind the first ones; gives how many there are in all.
fn fed(broker: &Server, topic: &str, first: u32, work: impl FnOnce()) -> u32 {
    fed_with(broker, topic, first, events, work)
}

/// As [`fed`], with these lines.
pub fn fed_with<L: Iterator<Item = String>>(
    broker: &Server,
    topic: &str,
    first: u32,
    lines: impl Fn(Range<u32>) -> L + Sync,
    work: impl FnOnce(),
) -> u32 {
    const AT_ONCE: u32 = 500;
    produce(broker, topic, 0, lines(0..first));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let feeder = scope.spawn(|| {
            let mut count = first;
            while !is_done.load(Ordering::Relaxed) {
                produce(broker, topic, 0, lines(count..count + AT_ONCE));
                count += AT_ONCE;
            }
            count
        });
        let worked = std::panic::catch_unwind(AssertUnwindSafe(work));
        is_done.store(true, Ordering::Relaxed);
        let count = feeder.join().expect("no panic");
        worked.map_or_else(|panic| std::panic::resume_unwind(panic), |()| count)
    })
}

/// Kills a run twelve times: six times when some more has been written, six times as soon as a snapshot
/// is durable that is not current yet, which is while its transaction is committed.
fn kill_again_and_again(name: &str, query: &str) {
    let Some(broker) = broker() else { return };
    let once = Once::new(broker, name, query, "");
    let out = format!("{name}-out");
    let count = fed(broker, &format!("{name}-in"), MANY, || {
        for kill in 0..12 {
            let run = once.start();
            if kill % 2 == 0 {
                let before = end_of(broker, &out);
                eventually("more is written", || end_of(broker, &out) > before);
            } else {
                durable_and_not_current(&once.path("state/Pipe"), || false);
            }
            run.kill();
        }
    });
    once.finish();
    check(broker, &out, count);
}

#[test]
fn every_number_is_there_once_whenever_the_run_is_killed() {
    long_test!();
    kill_again_and_again("once", STATELESS);
}

#[test]
fn every_count_is_there_once_whenever_the_run_is_killed() {
    long_test!();
    kill_again_and_again("counted", STATEFUL);
}

// shows: sink kafka lost
#[test]
fn every_number_is_there_once_when_the_broker_is_killed() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    produce(&broker, "broken-in", 0, events(0..MANY));
    let case = Once::new(&broker, "broken", STATEFUL, "").case;
    let state = case.dir.path().join("state").display().to_string();
    let args = [&case.app, "--state", &state, "--state-interval", "100ms"];
    let run = Running::start(&args);
    for at in [1, 40_000, 100_000] {
        eventually("some arrive", || end_of(&broker, "broken-out") >= at);
        broker.kill();
        broker.restart().expect("the broker starts again");
    }
    eventually("the last is committed", || {
        committed(&broker, "broken-out").last() == Some(&line(MANY - 1))
    });
    assert_eq!(run.stop().0, Some(0));
    check(&broker, "broken-out", MANY);
}

/// Holds a run in the middle of a transaction: its records are written and not committed.
#[track_caller]
fn freeze_in_transaction(run: &Running, broker: &Server, topic: &str) {
    eventually("a transaction is open", || {
        run.freeze();
        let is_open = has_open_transaction(broker, topic) == Some(true);
        if !is_open {
            run.thaw();
        }
        is_open
    });
}

#[test]
fn what_a_killed_run_left_open_is_aborted_by_the_next() {
    let Some(broker) = broker() else { return };
    // The broker would wait for it for a quarter of an hour.
    let timeout = ",transaction.timeout.ms:900000";
    let once = Once::new(broker, "open", STATEFUL, timeout);
    let count = fed(broker, "open-in", 1000, || {
        let run = once.start();
        freeze_in_transaction(&run, broker, "open-out");
        run.kill();
    });
    once.finish();
    // No reader is held up by it.
    check(broker, "open-out", count);
}

#[test]
fn a_planned_stop_and_a_reload_repeat_nothing() {
    let Some(broker) = broker() else { return };
    produce(broker, "planned-in", 0, events(0..20_000));
    let once = Once::new(broker, "planned", STATEFUL, "");
    for rows in [1, 10_000] {
        let run = once.start();
        run.err_has("source is ready", 1);
        eventually("some arrive", || end_of(broker, "planned-out") >= rows);
        assert_eq!(run.stop().0, Some(0));
    }
    let run = once.start();
    run.err_has("source is ready", 1);
    let text = fs::read_to_string(&once.case.app).expect("the app is there");
    fs::write(&once.case.app, format!("{text}-- changed\n")).expect("it can be written");
    run.reload();
    run.err_has("continuing from saved state", 2);
    eventually("all arrive", || {
        committed(broker, "planned-out").len() >= 20_000
    });
    assert_eq!(run.stop().0, Some(0));
    check(broker, "planned-out", 20_000);
}

/// Two sinks commit one after the other: a crash in between leaves one of them an epoch ahead.
const TWO: &str = "@sink(type='kafka', bootstrap.servers='{broker}', topic='two-other', partition.no='0', optional.configuration='transactional.id:two-other', @map(type='csv'))
define stream Other (n int, c long);
from S select n, count() as c insert into Out;
from S select n, count() as c insert into Other;";

#[test]
fn two_sinks_miss_nothing_and_repeat_only_where_one_was_ahead() {
    long_test!();
    let Some(broker) = broker() else { return };
    let once = Once::new(broker, "two", TWO, "");
    let count = fed(broker, "two-in", 1000, || {
        for _ in 0..6 {
            let run = once.start();
            durable_and_not_current(&once.path("state/Pipe"), || false);
            run.kill();
        }
    });
    once.finish();
    let topics = ["two-out", "two-other"];
    for topic in topics {
        let mut next = 0;
        for found in committed(broker, topic) {
            let n = found.split(',').next().and_then(|n| n.parse().ok());
            let n: u32 = n.expect("a number");
            assert!(
                n <= next && found == line(n),
                "{topic}: {found} after {next}"
            );
            next = next.max(n + 1);
        }
        assert_eq!(next, count, "{topic}");
    }
    // Undisturbed, each has the rest once.
    let before = topics.map(|topic| committed(broker, topic).len());
    produce(broker, "two-in", 0, events(count..count + 10_000));
    once.finish();
    let after = topics.map(|topic| committed(broker, topic).len());
    assert_eq!(before.map(|count| count + 10_000), after);
}

#[test]
fn topics_that_depend_on_the_event_take_part() {
    let Some(broker) = broker() else { return };
    produce(broker, "fan-in", 0, events(0..20_000));
    let query = "@sink(type='kafka', bootstrap.servers='{broker}', topic='fan-{{t}}', partition.no='0', optional.configuration='transactional.id:fan-dynamic', @map(type='text', @payload('{{n}}')))
define stream Fan (t int, n int);
from S select n % 2 as t, n insert into Fan;";
    let once = Once::new(broker, "fan", query, "");
    let text = fs::read_to_string(&once.case.app).expect("the app is there");
    let without = |line: &&str| !line.contains("topic='fan-out'") && !line.contains("stream Out");
    let text: Vec<&str> = text.lines().filter(without).collect();
    fs::write(&once.case.app, text.join("\n")).expect("it can be written");
    for written in [1, 3_000, 6_000] {
        let run = once.start();
        eventually("more is written", || end_of(broker, "fan-0") >= written);
        run.kill();
    }
    once.finish();
    for rest in 0..2 {
        let expect: Vec<String> = (0..10_000).map(|n| (2 * n + rest).to_string()).collect();
        let found = committed(broker, &format!("fan-{rest}"));
        assert!(found == expect, "{} of 10000", found.len());
    }
}

#[test]
fn a_transaction_that_the_broker_gave_up_is_written_again() {
    long_test!();
    let order = Order::new().with(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "100",
    );
    if broker().is_none() {
        return;
    }
    let Some(broker) = order.start_or_skip("kafka") else {
        return;
    };
    let timeout = ",transaction.timeout.ms:10000";
    let once = Once::new(&broker, "late", STATEFUL, timeout);
    let count = fed(&broker, "late-in", 1000, || {
        let run = once.start();
        // A broker that does not say, as on a busy machine, has not given it up.
        let is_open = || has_open_transaction(&broker, "late-out");
        let count = || committed(&broker, "late-out").len();
        eventually("the broker gives a transaction up", || {
            freeze_in_transaction(&run, &broker, "late-out");
            let before = count();
            // A commit may have been on its way when the run was frozen.
            let was_open = is_open() == Some(true);
            eventually("the transaction is over", || is_open() == Some(false));
            let is_given_up = was_open && count() == before;
            run.thaw();
            is_given_up
        });
        run.err_has("writing its records again", 1);
        // A stop does not wait for a connection.
        let before = count();
        eventually("it goes on", || count() > before);
        assert_eq!(run.stop().0, Some(0));
    });
    once.finish();
    check(&broker, "late-out", count);
}

#[test]
fn a_producer_that_is_fenced_ends_its_apps_and_says_why() {
    let Some(broker) = broker() else { return };
    produce(broker, "fenced-in", 0, events(0..10));
    let first = Once::new(broker, "fenced", STATEFUL, "");
    let run = first.start();
    eventually("all are committed", || {
        committed(broker, "fenced-out").len() >= 10
    });
    let second = Once::new(broker, "fenced", STATEFUL, "");
    let other = second.start();
    other.err_has("source is ready", 1);
    produce(broker, "fenced-in", 0, events(10..20));
    run.err_has("has taken over transactional.id 'fenced'", 1);
    let (code, summary) = run.end();
    assert_ne!(code, Some(0), "{summary}");
    eventually("the other goes on", || {
        committed(broker, "fenced-out").len() >= 20
    });
    assert_eq!(other.stop().0, Some(0));
}

#[test]
fn an_interval_that_no_transaction_lasts_for_is_refused() {
    let Some(broker) = broker() else { return };
    let mut once = Once::new(broker, "long", STATEFUL, ",transaction.timeout.ms:60000");
    once.interval = "60s";
    let run = once.start();
    run.err_has("a transaction may last at most 60 s", 1);
    // Longer than the broker allows.
    once = Once::new(broker, "long", STATEFUL, ",transaction.timeout.ms:7200000");
    once.interval = "1h";
    let run = once.start();
    run.err_has("lower property 'transaction.timeout.ms'", 1);
}

#[test]
fn a_record_that_the_broker_will_not_take_is_kept_apart() {
    let Some(broker) = broker() else { return };
    let rows = (0..30).map(|n| {
        let partition = if n == 13 { 99 } else { 0 };
        format!("{{\"event\":{{\"n\":{n},\"p\":{partition}}}}}")
    });
    produce(broker, "apart-in", 0, rows);
    let once = Once::new(
        broker,
        "apart",
        "from S select n, n + 1L as c, p insert into Out;",
        "",
    );
    let text = fs::read_to_string(&once.case.app).expect("the app is there");
    let text = text
        .replace("S (n int)", "S (n int, p int)")
        .replace("c long)", "c long, p int)")
        .replace(
            "topic='apart-out', partition.no='0'",
            "topic='apart-out', partition.no='{{p}}'",
        )
        .replace(
            "@map(type='csv')",
            "@map(type='text', @payload('{{n}},{{c}}'))",
        );
    fs::write(&once.case.app, text).expect("it can be written");
    let (code, summary) = once.start_with(&["--until-done"]).end();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1, "{summary}");
    let expect: Vec<String> = (0..30).filter(|n| *n != 13).map(line).collect();
    assert_eq!(committed(broker, "apart-out"), expect);
}

#[test]
fn a_number_that_kafka_has_forgotten_is_said_and_nothing_comes_again() {
    let Some(broker) = broker() else { return };
    produce(broker, "forgotten-in", 0, events(0..100));
    let once = Once::new(broker, "forgotten", STATEFUL, "");
    once.finish();
    let class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
    let of_group = |what: &str| tool(broker, class, &[what, "--group", "headwater-forgotten"], "");
    // A broker answers a commit before the group has the number, which would then outlive the group.
    let [newest, _] = epochs(&once.path("state/Pipe"));
    eventually("the group has the last number", || {
        let described = of_group("--describe");
        let mut lines = described.lines().map(str::split_whitespace);
        let is_number = |number: &str| number.parse() == Ok(newest);
        lines.any(|mut line| {
            line.nth(1) == Some("forgotten-out") && line.nth(1).is_some_and(is_number)
        })
    });
    let said = of_group("--delete");
    assert!(said.contains("was successful"), "{said}");
    produce(broker, "forgotten-in", 0, events(100..200));
    let run = once.start_with(&["--until-done"]);
    run.err_has("has no epoch of this state directory", 1);
    assert_eq!(run.end().0, Some(0));
    check(broker, "forgotten-out", 200);
}
