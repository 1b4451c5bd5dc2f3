//! Replays of offsets.

use super::{Case, broker, events, produce};
use crate::network::Throttle;

// row: sink kafka-replay-request, source kafka-replay-response | kafka
// n/a resume: requests do not outlive the process
// n/a lost: brokers are watched as by kafka, see there
// n/a slow: records are fetched when there is room, as by kafka
// n/a reload: requests that wait end with their app
// n/a tls: it connects as kafka does, see there
// n/a login: it connects as kafka does, see there
// n/a error: a request that nobody serves goes there as any event does

const APP: &str = "@app:name('Replay')
@source(type='file', mode='LINE', file.uri='file:{dir}/wanted.csv', tailing='false', @map(type='csv'))
@sink(type='kafka-replay-request', sink.id='again', on.error='WAIT', @map(type='passThrough'))
define stream Wanted (topic string, partition string, first string, last string);
@source(type='kafka-replay-response', bootstrap.servers='{broker}', group.id='replays',
        threading.option='single.thread', sink.id='again', topic.list='replayed,nowhere',
        topic.offsets.map='replayed=7', seq.enabled='false',
        @map(type='json', @attributes(n='$.event.n', p='trp:partition', o='trp:offset')))
define stream S (n int, p int, o long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n int, p int, o long);
from S select * insert into Out;
";

// shows: sink kafka-replay-request open, order, bad
#[test]
fn what_is_asked_for_again_comes_again_and_nothing_else() {
    let Some(broker) = broker() else { return };
    produce(broker, "replayed", 1, events(0..3000));
    produce(broker, "other", 0, events(0..5));
    let case = Case::new(broker, APP);
    let wanted = "replayed,1,10,12\nreplayed,1,0,1999\nreplayed,1,11,11\nnowhere,7,0,9\n\
                  other,0,0,1\nreplayed,x,0,1\nreplayed,1,2998,5000\n";
    std::fs::write(case.dir.path().join("wanted.csv"), wanted).expect("written");
    let running = case.start();
    let ranges = [(10, 12), (0, 1999), (11, 11), (2998, 2999)];
    let expect: Vec<String> = ranges
        .into_iter()
        .flat_map(|(first, last)| first..=last)
        .map(|n| format!("{n},1,{n}"))
        .collect();
    crate::network::eventually("every record", || {
        case.lines("out.csv").len() >= expect.len()
    });
    let (_, summary) = running.stop();
    assert_eq!(case.lines("out.csv"), expect, "{summary}");
    let count = |kind, stream, what| crate::network::number(&summary, kind, stream, what);
    assert_eq!(count("sources", "S", "rejected"), 2, "{summary}");
    assert_eq!(count("sinks", "Wanted", "failed"), 1, "{summary}");
    assert_eq!(count("sinks", "Wanted", "events"), 6, "{summary}");
}

/// As by the source `kafka`: one that takes longer than a question is waited for is asked on.
#[test]
fn a_broker_that_answers_slowly_gives_again_what_is_asked_for() {
    // The first answer of a connection, which says what the broker can do, has five hundred.
    const BYTES_PER_SECOND: u64 = 80;
    let Some(broker) = broker() else { return };
    produce(broker, "replayed-slowly", 0, events(0..3));
    let slow = Throttle::of_answers(broker.port(), BYTES_PER_SECOND);
    let text = APP
        .replace("{broker}", &format!("127.0.0.1:{}", slow.port))
        .replace("replayed,nowhere", "replayed-slowly");
    let case = Case::new(broker, &text);
    let wanted = "replayed-slowly,0,1,2\n";
    std::fs::write(case.dir.path().join("wanted.csv"), wanted).expect("written");
    let run = case.start();
    run.err_has("has not answered for", 1);
    run.err_has("source is ready", 1);
    crate::network::eventually("every record", || case.lines("out.csv").len() >= 2);
    assert!(
        !run.err().contains("cannot connect source"),
        "{}",
        run.err()
    );
    run.stop();
    assert_eq!(case.lines("out.csv"), ["1,0,1", "2,0,2"]);
}
