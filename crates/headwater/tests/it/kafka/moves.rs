//! Leaders that move, and connections that break while records are on their way: nothing is lost, doubled
//! or out of order.

use std::fmt::Write as _;
use std::fs;

use testservers::{Order, Running as Server};

use super::{Case, client, end_of, events, is_kcat_there, kcat, produce, tool};
use crate::network::{Running, Switch, eventually, free_port};

const COUNT: u32 = 60_000;

/// From the first partition of a topic to that of another, in order.
const PIPE: &str = "@app:name('Moves')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{topic}-in', group.id='{topic}', threading.option='single.thread', partition.no.list='0', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='{broker}', topic='{topic}-out', partition.no='0', on.error='WAIT'{options}, @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
";

/// Many small batches, several of them on their way at a time.
const SEVERAL: &str = ", optional.configuration='max.in.flight.requests.per.connection:5,batch.size:2000,linger.ms:0'";

/// Topics, and what their sinks are told. With several batches on their way librdkafka does not keep the order
/// of the first records of a partition.
fn cases() -> &'static [(&'static str, &'static str)] {
    let all = &[("one", ""), ("several", SEVERAL)];
    match client() {
        "headwater" => all,
        _ => &all[..1],
    }
}

/// A second broker of a broker's cluster.
fn second(first: &Server) -> Option<Server> {
    let voters = format!("1@127.0.0.1:{}", first.place().inner_port());
    Order::new()
        .with("process.roles", "broker")
        .with("node.id", "2")
        .with("listeners", "PLAINTEXT://127.0.0.1:{port}")
        .with("controller.quorum.voters", &voters)
        .start_or_skip("kafka")
}

fn make_topics(broker: &Server, topics: &[String]) {
    for topic in topics {
        let args = ["--create", "--topic", topic, "--replica-assignment", "1"];
        tool(broker, "org.apache.kafka.tools.TopicCommand", &args, "");
    }
}

/// Has the first partition of topics moved to a broker, and waits until that leads it.
fn lead(broker: &Server, case: &Case, topics: &[String], to: u32) {
    let mut moves = String::new();
    for topic in topics {
        let comma = if moves.is_empty() { "" } else { "," };
        write!(
            moves,
            "{comma}{{\"topic\":\"{topic}\",\"partition\":0,\"replicas\":[{to}]}}"
        )
        .expect("a string grows");
    }
    let path = case.dir.path().join("moves.json");
    let text = format!("{{\"version\":1,\"partitions\":[{moves}]}}");
    fs::write(&path, text).expect("the folder can be written");
    let path = path.display().to_string();
    let class = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";
    let args = ["--reassignment-json-file", &path, "--execute"];
    tool(broker, class, &args, "");
    eventually("the leaders have moved", || {
        topics.iter().all(|topic| {
            let said = kcat(broker, &["-L", "-t", topic], "");
            said.contains(&format!("partition 0, leader {to}"))
        })
    });
}

/// What stands in the first partition of a topic, which is to be all numbers in order.
#[track_caller]
fn check(broker: &Server, topic: &str, count: u32, said: &str) {
    let args = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e"];
    let found = kcat(broker, &args, "");
    let lines = found.lines().filter(|line| !line.is_empty());
    let found: Vec<u32> = lines.map(|line| line.parse().expect("a number")).collect();
    let expect: Vec<u32> = (0..count).collect();
    let differs = expect.iter().zip(&found).position(|(a, b)| a != b);
    assert!(
        found == expect,
        "{topic}: {} of {count} records, first difference at {differs:?}: {said}",
        found.len()
    );
}

// shows: sink kafka lost
#[test]
fn leaders_move_while_a_sink_writes_and_a_source_reads() {
    long_test!();
    if !is_kcat_there() {
        return;
    }
    let Some(first) = Order::new().start_or_skip("kafka") else {
        return;
    };
    let Some(_second) = second(&first) else {
        return;
    };
    for (topic, options) in cases() {
        let topics = [format!("{topic}-in"), format!("{topic}-out")];
        make_topics(&first, &topics);
        let text = PIPE.replace("{topic}", topic).replace("{options}", options);
        let case = Case::new(&first, &text);
        produce(&first, &topics[0], 0, events(0..COUNT));
        let run = case.start();
        let part = COUNT / 3;
        for (turn, to) in (1..).zip([2, 1]) {
            eventually("some are written", || end_of(&first, &topics[1]) > 0);
            lead(&first, &case, &topics, to);
            let more = COUNT + (turn - 1) * part..COUNT + turn * part;
            produce(&first, &topics[0], 0, events(more));
        }
        let count = COUNT + 2 * part;
        eventually("all are written", || {
            end_of(&first, &topics[1]) >= u64::from(count)
        });
        let said = run.err();
        assert_eq!(run.stop().0, Some(0), "{said}");
        check(&first, &topics[1], count, &said);
    }
}

/// A broker that calls itself by the port of a switch.
fn behind_a_switch() -> Option<(Server, Switch)> {
    let port = free_port();
    let switch = Switch::start(port);
    let advertised = format!("PLAINTEXT://127.0.0.1:{}", switch.port);
    let broker = Order::new()
        .port(port)
        .with("advertised.listeners", &advertised)
        .start_or_skip("kafka")?;
    Some((broker, switch))
}

/// Answers are lost with their connections; what is sent again under the same numbers is not taken twice.
// shows: sink kafka resume
#[test]
fn nothing_is_doubled_when_connections_break_while_records_are_on_their_way() {
    long_test!();
    const BREAKS: u32 = 25;
    if !is_kcat_there() {
        return;
    }
    let Some((broker, switch)) = behind_a_switch() else {
        return;
    };
    for (topic, options) in cases() {
        let topics = [format!("{topic}-in"), format!("{topic}-out")];
        make_topics(&broker, &topics);
        produce(&broker, &topics[0], 0, events(0..COUNT));
        let text = PIPE.replace("{topic}", topic).replace("{options}", options);
        let case = Case::new(&broker, &text);
        let run = Running::start(&[&case.app]);
        for turn in 1..=BREAKS {
            let least = u64::from(COUNT * turn / (2 * BREAKS));
            eventually("some more are written", || {
                end_of(&broker, &topics[1]) >= least
            });
            switch.lead(Some(broker.port()));
        }
        eventually("all are written", || {
            end_of(&broker, &topics[1]) >= u64::from(COUNT)
        });
        let said = run.err();
        assert_eq!(run.stop().0, Some(0), "{said}");
        check(&broker, &topics[1], COUNT, &said);
    }
}
