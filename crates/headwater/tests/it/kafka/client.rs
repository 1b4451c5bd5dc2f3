//! The two clients that read and write: the same tests with both, and what tells them apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use super::{Case, SINGLE, broker, consume, events, kcat, lent, produce, reader, tool};
use crate::network::{Running, eventually};

/// Set where sources read and sinks write by client `rdkafka`.
pub const OTHER: &str = "HEADWATER_TEST_OTHER_KAFKA_CLIENT";

/// Where the tests are that have sources or sinks of which the client is open.
const OF_BOTH: [&str; 10] = [
    "kafka::clients::",
    "kafka::examples::",
    "kafka::exactly_once::",
    "kafka::failures::",
    "kafka::moves::",
    "kafka::reading::",
    "kafka::refused::",
    "kafka::security::",
    "kafka::writing::",
    "kit::kafka::",
];

/// All tests of this module and of the kit run with the own client; here once more with the other.
#[test]
fn every_test_passes_with_the_other_client_too() {
    long_test!();
    if std::env::var_os(OTHER).is_some() || broker().is_none() {
        return;
    }
    let own = std::env::current_exe().expect("a test is a program");
    let output = Command::new(own)
        .args(OF_BOTH)
        .args(["--test-threads", "2"])
        .env(OTHER, "1")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    for tests in ["kafka::reading::", "kafka::writing::"] {
        assert!(said.contains(tests), "{said}");
    }
}

// shows: source kafka open
#[test]
fn both_clients_read_the_same_rows_of_every_codec() {
    let Some(broker) = broker() else { return };
    const ROWS: u32 = 3000;
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("codec-{codec}");
        let lines: String = events(0..ROWS).map(|line| line + "\n").collect();
        let linger = ["-X", "linger.ms=50", "-X", "enable.idempotence=true"];
        let args = [
            &["-P", "-t", &topic, "-p", "1", "-z", codec, "-H", "h=v"],
            &linger[..],
        ]
        .concat();
        kcat(broker, &args, &lines);
        let read = |client: &str| {
            let text = "@app:name('Both')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{topic}', partition.no.list='0,1,2', group.id='{topic}-{client}', client='{client}', threading.option='single.thread', @map(type='json', @attributes(n='$.event.n', h='trp:h', o='trp:offset', t='trp:record.timestamp', k='trp:key', c='trp:check.sum')))
define stream S (n int, h string, o long, t long, k string, c long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n int, h string, o long, t long, k string, c long);
from S select * insert into Out;
";
            // The option stands elsewhere than where the others have it put.
            let text = text.replace("@source(type='kafka', b", "@source(type = 'kafka', b");
            let case = Case::new(
                broker,
                &text.replace("{topic}", &topic).replace("{client}", client),
            );
            case.run();
            case.lines("out.csv")
        };
        let own = read("headwater");
        assert_eq!(own.len(), ROWS as usize, "{codec}");
        assert!(own == read("rdkafka"), "{codec}");
    }
}

/// The records of each partition, in order.
fn by_partition(lines: Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines.into_iter().filter(|line| !line.is_empty()) {
        let (partition, record) = line.split_once(' ').expect("a partition");
        let records = all.entry(partition.to_owned()).or_default();
        records.push(record.to_owned());
    }
    all
}

// shows: sink kafka open
#[test]
fn both_clients_write_the_same_records_in_every_codec() {
    let Some(broker) = broker() else { return };
    const ROWS: u32 = 3000;
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let write = |client: &str| {
            let topic = format!("written-{codec}-{client}");
            let class = "org.apache.kafka.tools.TopicCommand";
            let made = ["--create", "--topic", &topic, "--partitions", "5"];
            tool(broker, class, &made, "");
            let text = "@app:name('Written')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', @map(type='csv'))
define stream S (n int, k string);
@sink(type='kafka', client='{client}', bootstrap.servers='{broker}', topic='{topic}', key='{{k}}', optional.configuration='compression.type:{codec},linger.ms:20,batch.size:20000', @map(type='json'))
define stream Out (n int, k string);
from S select * insert into Out;
";
            // The option stands elsewhere than where the others have it put.
            let text = text.replace("@sink(type='kafka', c", "@sink(type = 'kafka', c");
            let text = text
                .replace("{topic}", &topic)
                .replace("{client}", client)
                .replace("{codec}", codec);
            let case = Case::new(broker, &text);
            let mut input = String::new();
            for n in 0..ROWS {
                // Keys of every length, and what is not ASCII.
                let key = "kö".repeat((n % 13) as usize);
                writeln!(input, "{n},{key}{}", n % 71).expect("a string grows");
            }
            fs::write(case.dir.path().join("in.csv"), input).expect("the folder can be written");
            case.run();
            by_partition(consume(broker, &topic, "%p %k %s\n"))
        };
        let own = write("headwater");
        let count: usize = own.values().map(Vec::len).sum();
        assert_eq!((own.len(), count), (5, ROWS as usize), "{codec}");
        assert!(own == write("rdkafka"), "{codec}");
    }
}

#[test]
fn a_run_goes_on_with_the_state_that_the_other_client_has_saved() {
    let Some(broker) = broker() else { return };
    for partitions in ["", "partition.no.list='0', "] {
        let topic = format!("handed-{}", partitions.len());
        let case = reader(
            broker,
            &topic,
            &format!("{SINGLE}, {partitions}group.id='{topic}'"),
        );
        let state = case.dir.path().join("state").display().to_string();
        let app = fs::read_to_string(&case.app).expect("it was written");
        for (turn, client) in (0..).zip(["headwater", "rdkafka", "headwater"]) {
            produce(broker, &topic, 0, events(turn * 100..turn * 100 + 100));
            let by = format!("client='{client}'");
            let text = app.replace(&format!("client='{}'", super::client()), &by);
            fs::write(&case.app, text).expect("the folder can be written");
            let args = [case.app.as_str(), "--state", &state, "--until-done"];
            let (code, summary) = Running::start(&args).end();
            assert_eq!(code, Some(0), "{summary}");
            let mut numbers = case.numbers("out.csv");
            numbers.sort_unstable();
            assert_eq!(
                numbers,
                (0..turn * 100 + 100).collect::<Vec<u32>>(),
                "{by} {partitions}"
            );
        }
    }
}

/// A message of format v1, as brokers before Kafka 0.11 wrote them.
fn old_message(offset: u64, value: &str) -> Vec<u8> {
    let mut summed = vec![1, 0]; // magic, attributes
    summed.extend_from_slice(&1_400_000_000_000_i64.to_be_bytes());
    summed.extend_from_slice(&(-1i32).to_be_bytes()); // no key
    summed.extend_from_slice(&(value.len() as u32).to_be_bytes());
    summed.extend_from_slice(value.as_bytes());
    // CRC-32, bit by bit.
    let sum = !summed.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    });
    let mut message = offset.to_be_bytes().to_vec();
    message.extend_from_slice(&(summed.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(&sum.to_be_bytes());
    message.extend_from_slice(&summed);
    message
}

/// No broker writes them any more, so they are put behind the others in the file that the broker reads. (With
/// librdkafka 2.12 a source stops at them and says nothing.)
#[test]
fn messages_of_an_old_format_are_named_and_those_before_them_are_read() {
    long_test!();
    let Some(mut broker) = lent() else { return };
    produce(&broker, "old", 0, events(0..3));
    broker.stop();
    let log = broker.place().data().join("old-0/00000000000000000000.log");
    let mut segment = fs::OpenOptions::new();
    let mut segment = segment.append(true).open(&log).expect("the log is there");
    for (offset, event) in (3..6).zip(events(3..6)) {
        let message = old_message(offset, &event);
        std::io::Write::write_all(&mut segment, &message).expect("there is room");
    }
    drop(segment);
    broker.restart().expect("the broker starts again");
    let case = reader(&broker, "old", &format!("{SINGLE}, group.id='old'"));
    let app = fs::read_to_string(&case.app).expect("it was written");
    let by = format!("client='{}'", super::client());
    let app = app.replace(&by, "client='auto'");
    fs::write(&case.app, app).expect("the folder can be written");
    let run = case.start();
    run.err_has("messages of format v1 at offset 3", 1);
    eventually("those before are read", || case.lines("out.csv").len() == 3);
    run.stop();
    assert_eq!(case.numbers("out.csv"), [0, 1, 2]);
}

#[test]
fn explain_says_which_client_writes_and_why() {
    let explained = |options: &str| {
        let text = format!(
            "define stream S (n int);\n@sink(type='kafka', bootstrap.servers='b:1', \
             topic='t'{options}, @map(type='json'))\ndefine stream Out (n int);\n\
             from S select n insert into Out;\n"
        );
        explain(&text)
    };
    for (options, expect) in [
        ("", "written by client 'headwater' (it has all"),
        (
            ", optional.configuration='transactional.id:t'",
            "written by client 'rdkafka' (transactions are those of client 'rdkafka')",
        ),
        (
            ", client='rdkafka'",
            "written by client 'rdkafka' (option 'client' says so)",
        ),
    ] {
        let said = explained(options);
        assert!(said.contains(expect), "{said}");
    }
}

/// What `headwater explain` says of an app.
fn explain(text: &str) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("App.siddhi");
    fs::write(&path, text).expect("the folder can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .arg("explain")
        .arg(&path)
        .output();
    String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
}

#[test]
fn explain_says_which_client_reads_and_why() {
    let explained = |options: &str| {
        let text = format!(
            "@source(type='kafka', bootstrap.servers='b:1', topic.list='t', group.id='g', \
             threading.option='single.thread'{options}, @map(type='json'))\n\
             define stream S (n int);\n@sink(type='log') define stream L (n int);\n\
             from S select n insert into L;\n"
        );
        explain(&text)
    };
    let own = explained("");
    assert!(
        own.contains("read by client 'headwater' (it has all"),
        "{own}"
    );
    let other = explained(", optional.configuration='client.rack:here'");
    assert!(
        other.contains("read by client 'rdkafka' (property 'client.rack'"),
        "{other}"
    );
    let chosen = explained(", client='rdkafka'");
    assert!(
        chosen.contains("read by client 'rdkafka' (option 'client' says so)"),
        "{chosen}"
    );
}
