//! The two clients that read: the same tests with both, and what tells them apart.

use std::process::Command;

use super::{Case, SINGLE, broker, events, kcat, reader};
use crate::network::Running;

/// Set where sources read by client `rdkafka`.
pub const OTHER: &str = "HEADWATER_TEST_OTHER_KAFKA_CLIENT";

/// Where the tests are that have sources.
const OF_SOURCES: [&str; 6] = [
    "kafka::clients::",
    "kafka::examples::",
    "kafka::exactly_once::",
    "kafka::failures::",
    "kafka::reading::",
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
        .args(OF_SOURCES)
        .args(["--test-threads", "2"])
        .env(OTHER, "1")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("kafka::reading::"), "{said}");
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
        let app = std::fs::read_to_string(&case.app).expect("it was written");
        for (turn, client) in (0..).zip(["headwater", "rdkafka", "headwater"]) {
            super::produce(broker, &topic, 0, events(turn * 100..turn * 100 + 100));
            let by = format!("client='{client}'");
            let text = app.replace(&format!("client='{}'", super::client()), &by);
            std::fs::write(&case.app, text).expect("the folder can be written");
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

#[test]
fn explain_says_which_client_reads_and_why() {
    let explained = |options: &str| {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("App.siddhi");
        let text = format!(
            "@source(type='kafka', bootstrap.servers='b:1', topic.list='t', group.id='g', \
             threading.option='single.thread'{options}, @map(type='json'))\n\
             define stream S (n int);\n@sink(type='log') define stream L (n int);\n\
             from S select n insert into L;\n"
        );
        std::fs::write(&path, text).expect("the folder can be written");
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("explain")
            .arg(&path)
            .output();
        String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
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
