//! Records that the client or the broker will not take, among others that it does: those arrive, once
//! and in their order, whichever way they are sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use testservers::Running as Server;

use super::{Case, broker, kcat, tool};
use crate::network::{Running, number};

const COUNT: u32 = 6_000;

/// The topic takes requests of 20 KB, the client sends records of 60 KB.
const LIMIT: &str = "max.message.bytes=20000";
const RECORD_MAX: usize = 60_000;

/// The last two of these stand where nothing comes behind them for a while.
const LONG: [(u32, usize); 5] = [
    (1_000, 25_000),
    (1_001, 50_000),
    (3_000, 90_000),
    (5_990, 30_000),
    (5_999, 21_000),
];

const APP: &str = "@app:name('Long')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', @map(type='csv'))
define stream S (n int, t string);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{topic}', on.error='{policy}', optional.configuration='max.request.size:60000,linger.ms:50{options}', @map(type='text', @payload('{{n}},{{t}}')))
define stream Out (n int, t string);
from S select * insert into Out;
";

fn bytes_of(n: u32) -> usize {
    let long = LONG.iter().find(|(other, _)| *other == n);
    long.map_or(100, |(_, bytes)| *bytes)
}

fn make_topic(broker: &Server, topic: &str) {
    let class = "org.apache.kafka.tools.TopicCommand";
    let args = [
        "--create",
        "--topic",
        topic,
        "--partitions",
        "1",
        "--config",
        LIMIT,
    ];
    tool(broker, class, &args, "");
}

/// Runs to the end of the input, gives what readers of committed records see, and how many events were
/// rejected for which cause where there is state.
#[track_caller]
fn written(
    broker: &Server,
    topic: &str,
    policy: &str,
    options: &str,
    has_state: bool,
) -> (Vec<u32>, BTreeMap<&'static str, usize>) {
    make_topic(broker, topic);
    let text = APP
        .replace("{topic}", topic)
        .replace("{policy}", policy)
        .replace("{options}", options);
    let case = Case::new(broker, &text);
    let mut input = String::new();
    for n in 0..COUNT {
        writeln!(input, "{n},{}", "x".repeat(bytes_of(n))).expect("a string grows");
    }
    fs::write(case.dir.path().join("in.csv"), input).expect("the folder can be written");
    let state = case.dir.path().join("state").display().to_string();
    let args = [&case.app, "--until-done", "--state", &state];
    let args = if has_state { &args[..] } else { &args[..2] };
    let run = Running::start(args);
    run.err_has("making them smaller", 1);
    run.out_has("\"type\":\"summary\"", 1);
    let said = run.err();
    let (code, summary) = run.end();
    assert_eq!(code, Some(4), "{summary}");
    let failed = number(&summary, "sinks", "Out", "failed");
    assert_eq!(failed, LONG.len() as u64, "{topic}: {summary} {said}");
    let args = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e"];
    let committed = ["-X", "isolation.level=read_committed", "-f", "%s\n"];
    let found = kcat(broker, &[&args[..], &committed].concat(), "");
    let first = |line: &str| line.split(',').next().and_then(|n| n.parse().ok());
    let found = found.lines().map(|line| first(line).expect("a number"));
    let mut causes = BTreeMap::new();
    if has_state {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["errors", "list", &state, "--each", "--limit", "0"])
            .output()
            .expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stdout);
        for cause in ["than the broker takes", "than the client sends"] {
            causes.insert(cause, said.matches(cause).count());
        }
    }
    (found.collect(), causes)
}

#[test]
fn records_that_are_too_long_are_rejected_alone_and_nothing_is_moved() {
    long_test!();
    let Some(broker) = broker() else { return };
    let is_long = |n: &u32| LONG.iter().any(|(other, _)| other == n);
    let expect: Vec<u32> = (0..COUNT).filter(|n| !is_long(n)).collect();
    for (topic, policy, options, has_state) in [
        ("long-plain", "LOG", "", false),
        ("long-waits", "WAIT", "", false),
        ("long-tx", "LOG", ",transactional.id:long-tx", false),
        (
            "long-tx-waits",
            "WAIT",
            ",transactional.id:long-wait",
            false,
        ),
        ("long-epochs", "LOG", ",transactional.id:long-epochs", true),
    ] {
        let (found, causes) = written(broker, topic, policy, options, has_state);
        let differs = expect.iter().zip(&found).position(|(a, b)| a != b);
        assert!(
            found == expect,
            "{topic}: {} of {} records, first difference at {differs:?}",
            found.len(),
            expect.len()
        );
        if has_state {
            let here = LONG.iter().filter(|(_, bytes)| *bytes > RECORD_MAX).count();
            let there = LONG.len() - here;
            let expect = [
                ("than the broker takes", there),
                ("than the client sends", here),
            ];
            assert_eq!(causes, BTreeMap::from(expect), "{topic}");
        }
    }
}
