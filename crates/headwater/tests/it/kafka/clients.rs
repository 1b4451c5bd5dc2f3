//! Java's client, by Kafka's own tools.

use super::{CONSUMER, Case, SINGLE, broker, java_produce, reader, tool};

// shows: sink kafka open
#[test]
fn the_console_tools_of_kafka_read_and_write_the_same() {
    let Some(broker) = broker() else { return };
    let input = "{\"event\":{\"n\":7}}\n{\"event\":{\"n\":8}}\n";
    java_produce(broker, "tools-in", &[], input);
    let text = "@app:name('Tools')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='tools-in', group.id='tools', threading.option='topic.wise', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='tools-out', key='k{{n}}', partition.no='0', optional.configuration='transactional.id:tools', @map(type='xml'))
define stream Out (n int);
from S select * insert into Out;
";
    Case::new(broker, text).run();
    let args = [
        "--topic=tools-out",
        "--from-beginning",
        "--max-messages=2",
        "--timeout-ms=30000",
        "--isolation-level=read_committed",
        "--property=print.key=true",
    ];
    let read = tool(broker, CONSUMER, &args, "");
    let mut lines: Vec<&str> = read.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{read}");
    for (line, n) in lines.iter().zip([7, 8]) {
        let expect = format!("k{n}\t<events><event><n>{n}</n></event></events>");
        assert_eq!(line.replace([' ', '\n'], ""), expect);
    }
}

#[test]
fn what_java_compresses_is_read_and_what_we_compress_is_read_by_java() {
    long_test!();
    let Some(broker) = broker() else { return };
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("java-{codec}");
        let lines: String = super::events(0..100).map(|line| line + "\n").collect();
        let written = format!("--compression-codec={codec}");
        java_produce(broker, &topic, &[&written], &lines);
        let case = Case::new(
            broker,
            &"@app:name('Codec')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{topic}', group.id='{topic}', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{topic}-out', partition.no='0', optional.configuration='compression.type:{codec},linger.ms:20', @map(type='csv', event.grouping.enabled='false'))
define stream Out (n int);
from S select * insert into Out;
"
            .replace("{topic}", &topic)
            .replace("{codec}", codec),
        );
        case.run();
        let out = format!("--topic={topic}-out");
        let args = [
            &out,
            "--from-beginning",
            "--max-messages=100",
            "--timeout-ms=30000",
        ];
        let read = tool(broker, CONSUMER, &args, "");
        let mut numbers: Vec<u32> = read.lines().filter_map(|line| line.parse().ok()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<u32>>(), "{codec}");
    }
}

#[test]
fn a_group_is_shared_with_java() {
    long_test!();
    let Some(broker) = broker() else { return };
    let lines: String = super::events(0..300).map(|line| line + "\n").collect();
    java_produce(broker, "java-group", &[], &lines);
    let case = reader(
        broker,
        "java-group",
        &format!("{SINGLE}, group.id='java-group'"),
    );
    case.run();
    assert_eq!(case.lines("out.csv").len(), 300);
    java_produce(broker, "java-group", &[], "{\"event\":{\"n\":300}}\n");
    // What we have committed Java does not read again. It reads from the beginning of a partition that had nothing to
    // commit, where this event may lie.
    let args = [
        "--topic=java-group",
        "--group=java-group",
        "--from-beginning",
        "--max-messages=1",
        "--timeout-ms=30000",
    ];
    assert_eq!(
        tool(broker, CONSUMER, &args, ""),
        "{\"event\":{\"n\":300}}\n"
    );
    // And the other way round.
    let again = reader(
        broker,
        "java-group",
        &format!("{SINGLE}, group.id='java-group'"),
    );
    again.run();
    assert!(again.lines("out.csv").is_empty());
}
