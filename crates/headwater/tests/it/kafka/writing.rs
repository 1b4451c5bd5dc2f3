//! The sink: where records go, and in which form.

use std::collections::BTreeMap;

use super::{Case, SINGLE, broker, consume, events, kcat, produce, reader, received};
use crate::network::{Running, number};

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
    long_test!();
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
