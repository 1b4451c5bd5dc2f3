//! The source: what it reads, from where, and what it commits.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Case, SINGLE, broker, events, kcat, produce, reader, start};
use crate::network::{Running, eventually, number, published};

const HELLO: &str = "@App:name('HelloKafka')
@source(type='kafka', topic.list='kafka_topic', partition.no.list='0', threading.option='single.thread', group.id='group', bootstrap.servers='172.31.0.135:9092', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='log')
define stream KafkaSourceThroughputStream(count long);
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into KafkaSourceThroughputStream;
";

/// Of a broker of its own, which has just started: the coordinator of its first group still loads.
// shows: source kafka open
#[test]
fn the_published_app_counts_what_was_written() {
    let Some(broker) = &start() else { return };
    let sweets =
        (0..10_000).map(|i| format!("{{\"event\":{{\"name\":\"n{i}\",\"amount\":{i}.5}}}}"));
    produce(broker, "kafka_topic", 0, sweets);
    let dir = tempfile::tempdir().expect("a folder");
    let app = published(dir.path(), "HelloKafka.siddhi", HELLO);
    let set = format!(
        "SweetProductionStream.source.bootstrap.servers={}",
        broker.endpoint()
    );
    let run = Running::start(&[&app.display().to_string(), "--set", &set, "--until-done"]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    let of = |what| number(&summary, "sources", "SweetProductionStream", what);
    assert_eq!((of("events"), of("rejected")), (10_000, 0));
}

// shows: source kafka open
#[test]
fn every_way_of_threading_reads_everything_once() {
    let Some(broker) = broker() else { return };
    for partition in 0..3 {
        for (topic, first) in [("way-a", 0), ("way-b", 1000)] {
            let from = first + partition * 100;
            produce(broker, topic, partition, events(from..from + 100));
        }
    }
    for options in [
        "threading.option='single.thread'",
        "threading.option='topic.wise'",
        "threading.option='single.thread', partition.no.list='0,1,2'",
        "threading.option='topic.wise', partition.no.list='0, 1, 2'",
        "threading.option='partition.wise', partition.no.list='0,1,2'",
    ] {
        let group = format!("{options}, group.id='way{}'", options.len());
        let case = reader(broker, "way-a, way-b", &group);
        case.run();
        let lines = case.lines("out.csv");
        assert_eq!(lines.len(), 600, "{options}");
        let mut next: BTreeMap<String, u32> = BTreeMap::new();
        for line in &lines {
            let parts: Vec<&str> = line.split(',').collect();
            let partition = format!("{}/{}", parts[1], parts[2]);
            let offset = next.entry(partition).or_default();
            assert_eq!(parts[3], offset.to_string(), "{options}: {line}");
            *offset += 1;
        }
        assert_eq!(next.len(), 6, "{options}");
        let mut numbers = case.numbers("out.csv");
        numbers.sort_unstable();
        let expect: Vec<u32> = (0..300).chain(1000..1300).collect();
        assert_eq!(numbers, expect, "{options}");
    }
}

// shows: source kafka order
#[test]
fn a_source_starts_where_it_is_told() {
    let Some(broker) = broker() else { return };
    produce(broker, "starts", 0, events(0..10));
    let read = |options: &str| {
        let case = reader(broker, "starts", &format!("{SINGLE}, {options}"));
        case.run();
        case.numbers("out.csv")
    };
    let list = "partition.no.list='0'";
    let map = "topic.offsets.map='starts=7'";
    assert_eq!(read(&format!("group.id='s1', {list}, {map}")), [7, 8, 9]);
    let latest = "optional.configuration='auto.offset.reset:latest'";
    assert!(read(&format!("group.id='s2', {list}, {latest}")).is_empty());
    assert_eq!(read(&format!("group.id='s3', {list}")).len(), 10);
}

// shows: source kafka resume
#[test]
fn offsets_are_committed_as_the_app_says() {
    long_test!();
    let Some(broker) = broker() else { return };
    produce(broker, "commits", 1, events(0..50));
    for (group, options, again) in [
        ("c1", "enable.offsets.commit='true'", 0),
        ("c2", "enable.offsets.commit='false'", 50),
        ("c3", "optional.configuration='enable.auto.commit:false'", 0),
        (
            "c4",
            "enable.async.commit='false', optional.configuration='enable.auto.commit:false'",
            0,
        ),
        (
            "c5",
            "enable.offsets.commit='false', optional.configuration='enable.auto.commit:false'",
            50,
        ),
    ] {
        let read = || {
            let options = format!("{SINGLE}, group.id='{group}', {options}");
            let case = reader(broker, "commits", &options);
            case.run();
            case.lines("out.csv").len()
        };
        assert_eq!(read(), 50, "{options}");
        assert_eq!(read(), again, "{options}");
    }
}

#[test]
fn a_group_shares_partitions_out_and_repeats_nothing() {
    let Some(broker) = broker() else { return };
    let write = |from: u32| {
        for partition in 0..3 {
            let from = from + partition * 1000;
            produce(broker, "shared", partition, events(from..from + 1000));
        }
    };
    write(0);
    let options = format!("{SINGLE}, group.id='sharing'");
    let (one, two) = (
        reader(broker, "shared", &options),
        reader(broker, "shared", &options),
    );
    let first = one.start();
    eventually("the first member reads all", || {
        one.lines("out.csv").len() == 3000
    });
    let second = two.start();
    second.err_has("consumer group was rebalanced", 1);
    write(3000);
    eventually("both read all", || {
        one.lines("out.csv").len() + two.lines("out.csv").len() == 6000
    });
    assert!(!two.lines("out.csv").is_empty(), "the second has its share");
    // What the first has read it has committed: its successor goes on there.
    assert_eq!(first.stop().0, Some(0));
    write(6000);
    eventually("the second reads all that is left", || {
        one.lines("out.csv").len() + two.lines("out.csv").len() >= 9000
    });
    assert_eq!(second.stop().0, Some(0));
    let mut all = one.numbers("out.csv");
    all.extend(two.numbers("out.csv"));
    all.sort_unstable();
    assert_eq!(all, (0..9000).collect::<Vec<u32>>());
}

/// The session of a member lasts 30 s; one that has a name is not waited for.
// shows: source kafka resume
#[test]
fn a_member_that_is_killed_reads_on_within_seconds_and_repeats_nothing() {
    let Some(broker) = broker() else { return };
    let text = "@app:name('Back')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='back', group.id='back', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='file', file.uri='{dir}/out.csv', @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
";
    let case = Case::new(broker, text);
    let state = case.dir.path().join("state").display().to_string();
    let args = [&case.app, "--state", &state, "--state-interval", "50ms"];
    produce(broker, "back", 0, events(0..100));
    let mut run = Running::start(&args);
    for round in 1..=3 {
        eventually("all so far", || {
            case.lines("out.csv").len() >= round as usize * 100
        });
        run.kill();
        produce(broker, "back", 0, events(round * 100..round * 100 + 100));
        let killed = Instant::now();
        run = Running::start(&args);
        let last = format!("{}", round * 100 + 99);
        eventually("what came meanwhile", || {
            case.lines("out.csv").last() == Some(&last)
        });
        let waited = killed.elapsed();
        assert!(waited < Duration::from_secs(5), "round {round}: {waited:?}");
    }
    // Who comes with a copy of the state takes its place: the first stops and says why.
    let copy = case.dir.path().join("copy");
    let copied = Command::new("cp").arg("-a").arg(&state).arg(&copy).status();
    assert!(copied.expect("cp starts").success());
    let copy = copy.display().to_string();
    let second = Running::connected(&[&case.app, "--state", &copy], 1);
    run.err_has("source failed", 1);
    run.err_has("a state directory of its own", 1);
    run.stop();
    second.stop();
}

// shows: source kafka bad
#[test]
fn headers_are_properties_and_what_cannot_be_read_is_named() {
    let Some(broker) = broker() else { return };
    let send = |args: &[&str], text: &str| {
        let args = [&["-P", "-t", "odd", "-p", "2"], args].concat();
        kcat(broker, &args, text);
    };
    send(
        &["-H", "origin=here", "-k", "the-key"],
        "{\"event\":{\"n\":1}}\n",
    );
    send(&["-H", "origin=there", "-k", "the-key"], "nonsense\n");
    // No value: a tombstone.
    send(&["-H", "origin=x", "-Z", "-K", ":"], "gone:\n");
    send(
        &["-H", "origin=a", "-H", "origin=b"],
        "{\"event\":{\"n\":4}}\n",
    );
    let case = Case::new(
        broker,
        "@app:name('Odd')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='odd', group.id='odd', threading.option='single.thread', @map(type='json', @attributes(n='$.event.n', h='trp:origin', k='trp:key', c='trp:check.sum')))
define stream S (n int, h string, k string, c long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n int, h string, k string);
from S[c > 0L] select n, h, k insert into Out;
",
    );
    let run = Running::start(&[&case.app, "--until-done"]);
    run.err_has("topic 'odd' partition 2 offset 1", 1);
    let (code, summary) = run.end();
    assert_eq!(code, Some(4));
    assert_eq!(number(&summary, "sources", "S", "rejected"), 2);
    assert_eq!(case.lines("out.csv"), ["1,here,the-key", "4,b,null"]);
}
