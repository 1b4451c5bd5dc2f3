//! Kafka against a real broker, with `kcat` and Kafka's own console tools as independent clients.
//!
//! Most tests share a broker; those that kill theirs have one of their own. Without Java or Maven's
//! jars the tests say so and are skipped.

mod network;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use network::{Running, eventually, number, published};
use servers::{Order, Running as Server};

/// Topics that come into being by being written to have so many partitions.
const PARTITIONS: &str = "3";

/// The broker that tests share; it ends with this process.
fn broker() -> Option<&'static Server> {
    static BROKER: OnceLock<Option<Server>> = OnceLock::new();
    BROKER.get_or_init(start).as_ref()
}

fn start() -> Option<Server> {
    if !servers::answers("kcat", &["-V"]) {
        eprintln!("skipped: there is no 'kcat'; apt-get install kcat brings it");
        return None;
    }
    Order::new()
        .with("num.partitions", PARTITIONS)
        .start_or_skip("kafka")
}

/// `kcat` with these arguments and this input; what it writes.
#[track_caller]
fn kcat(broker: &Server, args: &[&str], input: &str) -> String {
    let mut child = Command::new("kcat")
        .args(["-b", &broker.endpoint(), "-q"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kcat starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("kcat ends");
    writer.join().expect("no panic").expect("kcat reads");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes lines as records of a partition.
#[track_caller]
fn produce(broker: &Server, topic: &str, partition: u32, lines: impl IntoIterator<Item = String>) {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    kcat(
        broker,
        &["-P", "-t", topic, "-p", &partition.to_string()],
        &text,
    );
}

/// All records of a topic from the beginning, each as `format`.
#[track_caller]
fn consume(broker: &Server, topic: &str, format: &str) -> Vec<String> {
    let text = kcat(
        broker,
        &["-C", "-t", topic, "-o", "beginning", "-e", "-f", format],
        "",
    );
    text.lines().map(str::to_owned).collect()
}

/// The lines of all records of a topic; none while nobody has written to it.
#[track_caller]
fn received(broker: &Server, topic: &str) -> Vec<String> {
    if !kcat(broker, &["-L"], "").contains(&format!("topic \"{topic}\"")) {
        return Vec::new();
    }
    let mut lines = consume(broker, topic, "%s\n");
    lines.retain(|line| !line.is_empty());
    lines
}

fn events(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|i| format!("{{\"event\":{{\"n\":{i}}}}}"))
}

/// An app in a folder of its own; `{broker}` and `{dir}` in its text are filled in.
struct Case {
    dir: tempfile::TempDir,
    app: String,
}

impl Case {
    fn new(broker: &Server, text: &str) -> Case {
        let dir = tempfile::tempdir().expect("a folder");
        let text = text
            .replace("{broker}", &broker.endpoint())
            .replace("{dir}", &dir.path().display().to_string());
        let path = dir.path().join("App.siddhi");
        fs::write(&path, text).expect("the folder can be written");
        Case {
            app: path.display().to_string(),
            dir,
        }
    }

    /// Runs to the end of the input.
    #[track_caller]
    fn run(&self) -> serde_json::Value {
        let (code, summary) = Running::start(&[&self.app, "--until-done"]).end();
        assert_eq!(code, Some(0), "{summary}");
        summary
    }

    fn start(&self) -> Running {
        Running::start(&[&self.app])
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn numbers(&self, name: &str) -> Vec<u32> {
        let first = |line: &String| line.split(',').next().and_then(|n| n.parse().ok());
        self.lines(name)
            .iter()
            .map(|line| first(line).expect("a number"))
            .collect()
    }
}

/// Reads numbers of a topic into `out.csv`; `{options}` are those of the source.
fn reader(broker: &Server, topic: &str, options: &str) -> Case {
    let text = "@app:name('Reader')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{topic}', {options}, @map(type='json', @attributes(n='$.event.n', t='trp:topic', p='trp:partition', o='trp:offset')))
define stream S (n int, t string, p int, o long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n int, t string, p int, o long);
from S select * insert into Out;
";
    let text = text.replace("{topic}", topic).replace("{options}", options);
    Case::new(broker, &text)
}

const SINGLE: &str = "threading.option='single.thread'";

const HELLO: &str = "@App:name('HelloKafka')
@source(type='kafka', topic.list='kafka_topic', partition.no.list='0', threading.option='single.thread', group.id='group', bootstrap.servers='172.31.0.135:9092', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='log')
define stream KafkaSourceThroughputStream(count long);
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into KafkaSourceThroughputStream;
";

#[test]
fn the_published_app_counts_what_was_written() {
    let Some(broker) = broker() else { return };
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

#[test]
fn offsets_are_committed_as_the_app_says() {
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
    second.err_has("the group has shared its partitions out anew", 1);
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

#[test]
fn topic_partition_and_key_depend_on_the_event() {
    let Some(broker) = broker() else { return };
    let lines = (0..6).map(|i| {
        format!(
            "{{\"event\":{{\"n\":{i},\"t\":\"to-{}\",\"p\":{},\"k\":\"k{i}\"}}}}",
            i % 2,
            i % 3
        )
    });
    produce(broker, "from", 0, lines);
    let case = Case::new(
        broker,
        "@app:name('Dynamic')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='from', group.id='dynamic', threading.option='single.thread', @map(type='json'))
define stream S (n int, t string, p int, k string);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{{t}}', partition.no='{{p}}', key='{{k}}', @map(type='text', @payload('number {{n}}')))
define stream Out (n int, t string, p int, k string);
@sink(type='kafka', bootstrap.servers='{broker}', topic='to-hash', key='{{k}}', @map(type='csv'))
define stream Hashed (n int, k string);
from S select * insert into Out;
from S select n, k insert into Hashed;
",
    );
    case.run();
    let mut found = consume(broker, "to-0", "%p %k %s\n");
    found.extend(consume(broker, "to-1", "%p %k %s\n"));
    found.sort();
    let mut expect: Vec<String> = (0..6)
        .map(|i| format!("{} k{i} number {i}", i % 3))
        .collect();
    expect.sort();
    assert_eq!(found, expect);
    // Without a partition the key chooses it, as Java's client does (murmur2).
    let partition = |key: &str| (murmur2(key.as_bytes()) & 0x7fff_ffff) % 3;
    let mut hashed = consume(broker, "to-hash", "%p %k\n");
    hashed.sort();
    let mut expect: Vec<String> = (0..6)
        .map(|i| format!("{} k{i}", partition(&format!("k{i}"))))
        .collect();
    expect.sort();
    assert_eq!(hashed, expect);
}

/// `org.apache.kafka.common.utils.Utils.murmur2`, of keys shorter than four bytes.
fn murmur2(key: &[u8]) -> u32 {
    assert!(key.len() < 4, "the loop over whole words is left out");
    let m = 0x5bd1_e995_u32;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    for (index, byte) in key.iter().enumerate().rev() {
        hash ^= u32::from(*byte) << (8 * index);
    }
    hash = hash.wrapping_mul(m);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(m);
    hash ^ (hash >> 15)
}

#[test]
fn bytes_and_sequence_numbers_pass() {
    let Some(broker) = broker() else { return };
    produce(broker, "seq-in", 0, events(0..20));
    let case = Case::new(
        broker,
        "@app:name('Sequence')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='seq-in', group.id='seq', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='seq-text', partition.no='0', sequence.id='one', @map(type='json'))
@sink(type='kafka', bootstrap.servers='{broker}', topic='seq-bytes', partition.no='0', sequence.id='two', is.binary.message='true', @map(type='binary'))
define stream Out (n int);
from S select * insert into Out;
",
    );
    case.run();
    let written = consume(broker, "seq-text", "%s\n");
    assert_eq!(written.len(), 20);
    assert!(written[0].starts_with("one:"), "{}", written[0]);
    // Some of it again: it is dropped. A record without a header is rejected.
    produce(broker, "seq-text", 0, written[5..8].iter().cloned());
    produce(broker, "seq-text", 0, ["{\"event\":{\"n\":99}}".to_owned()]);
    let read = Case::new(
        broker,
        "@app:name('ReadSequence')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='seq-text', group.id='seq2', threading.option='single.thread', seq.enabled='true', @map(type='json'))
define stream T (n int);
@source(type='kafka', bootstrap.servers='{broker}', topic.list='seq-bytes', group.id='seq2', threading.option='single.thread', seq.enabled='true', is.binary.message='true', @map(type='binary'))
define stream B (n int);
@sink(type='file', file.uri='file:{dir}/text.csv', @map(type='csv'))
define stream OutT (n int);
@sink(type='file', file.uri='file:{dir}/bytes.csv', @map(type='csv'))
define stream OutB (n int);
from T select * insert into OutT;
from B select * insert into OutB;
",
    );
    let (code, summary) = Running::start(&[&read.app, "--until-done"]).end();
    assert_eq!(code, Some(4), "one record was rejected");
    let expect: Vec<u32> = (0..20).collect();
    assert_eq!(read.numbers("text.csv"), expect);
    assert_eq!(read.numbers("bytes.csv"), expect);
    assert_eq!(number(&summary, "sources", "T", "rejected"), 1);
}

#[test]
fn compressed_and_synchronous_records_arrive() {
    let Some(broker) = broker() else { return };
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let (from, to) = (format!("{codec}-in"), format!("{codec}-out"));
        let lines: String = events(0..200).map(|line| line + "\n").collect();
        kcat(broker, &["-P", "-t", &from, "-p", "0", "-z", codec], &lines);
        let text = "@app:name('Codec')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{from}', group.id='codec', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{to}', partition.no='1', is.synchronous='{sync}', optional.configuration='compression.type:{codec}', @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
"
        .replace("{from}", &from)
        .replace("{to}", &to)
        .replace("{sync}", if codec == "lz4" { "true" } else { "false" })
        .replace("{codec}", codec);
        Case::new(broker, &text).run();
        let found = received(broker, &to);
        let expect: Vec<String> = (0..200).map(|i: u32| i.to_string()).collect();
        assert_eq!(found, expect, "{codec}");
    }
}

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

#[test]
fn readers_of_committed_records_see_transactions_only() {
    let Some(broker) = broker() else { return };
    produce(broker, "tx-in", 0, events(0..100));
    let case = Case::new(
        broker,
        "@app:name('Transaction')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='tx-in', group.id='tx', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='tx-out', partition.no='0', optional.configuration='transactional.id:of-the-test', @map(type='json'))
define stream Out (n int);
from S select * insert into Out;
",
    );
    case.run();
    let text = kcat(
        broker,
        &[
            "-C",
            "-t",
            "tx-out",
            "-o",
            "beginning",
            "-e",
            "-f",
            "%s\n",
            "-X",
            "isolation.level=read_committed",
        ],
        "",
    );
    assert_eq!(text.lines().count(), 100);
    let committed = "optional.configuration='isolation.level:read_committed'";
    let read = reader(
        broker,
        "tx-out",
        &format!("{SINGLE}, group.id='tx2', {committed}"),
    );
    read.run();
    assert_eq!(read.numbers("out.csv"), (0..100).collect::<Vec<u32>>());
}

#[test]
fn destinations_share_records_out_by_key() {
    let Some(broker) = broker() else { return };
    produce(broker, "dist-in", 0, events(0..40));
    let case = Case::new(
        broker,
        "@app:name('Distribution')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='dist-in', group.id='dist', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='dist-out', @map(type='csv'), @distribution(strategy='partitioned', partitionKey='k', @destination(partition.no='0'), @destination(partition.no='1')))
define stream Out (n int, k string);
from S select n, ifThenElse(n % 2 == 0, 'even', 'odd') as k insert into Out;
",
    );
    case.run();
    let found = consume(broker, "dist-out", "%p,%s");
    let mut keys: BTreeMap<String, (String, u32)> = BTreeMap::new();
    for line in found.iter().filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = line.split(',').collect();
        let known = keys
            .entry(parts[2].to_owned())
            .or_insert_with(|| (parts[0].to_owned(), 0));
        assert_eq!(known.0, parts[0], "{line}");
        known.1 += 1;
    }
    let counts: Vec<u32> = keys.values().map(|(_, count)| *count).collect();
    assert_eq!(counts, [20, 20]);
}

const PIPE: &str = "@app:name('Pipe')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='pipe-in', group.id='pipe', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='pipe-out', partition.no='0', on.error='WAIT', @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
";

#[test]
fn a_broker_that_is_killed_and_one_that_is_silent_are_named_and_nothing_is_lost() {
    let Some(mut broker) = start() else { return };
    produce(&broker, "pipe-in", 0, events(0..500));
    let case = Case::new(&broker, PIPE);
    let run = case.start();
    run.err_has("source is connected", 1);
    broker.kill();
    run.err_has("source has lost its connection", 1);
    broker.restart().expect("the broker starts again");
    produce(&broker, "pipe-in", 0, events(500..1000));
    run.err_has("source is connected", 2);
    broker.freeze();
    run.err_has("has not answered for", 1);
    broker.thaw();
    run.err_has("source is connected", 3);
    produce(&broker, "pipe-in", 0, events(1000..1500));
    eventually("all arrive", || received(&broker, "pipe-out").len() >= 1500);
    assert_eq!(run.stop().0, Some(0));
    let expect: Vec<String> = (0..1500).map(|i| i.to_string()).collect();
    assert_eq!(received(&broker, "pipe-out"), expect);
}

#[test]
fn a_broker_that_is_not_there_is_waited_for() {
    let Some(mut broker) = start() else { return };
    produce(&broker, "pipe-in", 0, events(0..10));
    broker.stop();
    let case = Case::new(&broker, PIPE);
    let run = case.start();
    run.err_has("source cannot be reached", 1);
    broker.restart().expect("the broker starts again");
    eventually("all arrive", || received(&broker, "pipe-out").len() >= 10);
    assert_eq!(run.stop().0, Some(0));
    let expect: Vec<String> = (0..10).map(|i| i.to_string()).collect();
    assert_eq!(received(&broker, "pipe-out"), expect);
}

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

#[test]
fn the_console_tools_of_kafka_read_and_write_the_same() {
    let Some(broker) = broker() else { return };
    let tool = |class: &str, args: &[&str], input: &str| {
        let mut child = Command::new("java")
            .arg("-Xmx128m")
            .arg("-cp")
            .arg(broker.place().installed().join("lib/*"))
            .arg(class)
            .args(["--bootstrap-server", &broker.endpoint()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("java starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    tool(
        "kafka.tools.ConsoleProducer",
        &["--topic", "tools-in"],
        "{\"event\":{\"n\":7}}\n{\"event\":{\"n\":8}}\n",
    );
    let text = "@app:name('Tools')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='tools-in', group.id='tools', threading.option='topic.wise', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='tools-out', key='k{{n}}', partition.no='0', @map(type='xml'))
define stream Out (n int);
from S select * insert into Out;
";
    Case::new(broker, text).run();
    let read = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        &[
            "--topic",
            "tools-out",
            "--from-beginning",
            "--max-messages",
            "2",
            "--timeout-ms",
            "30000",
            "--property",
            "print.key=true",
        ],
        "",
    );
    let mut lines: Vec<&str> = read.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{read}");
    for (line, n) in lines.iter().zip([7, 8]) {
        let expect = format!("k{n}\t<events><event><n>{n}</n></event></events>");
        assert_eq!(line.replace([' ', '\n'], ""), expect);
    }
}
