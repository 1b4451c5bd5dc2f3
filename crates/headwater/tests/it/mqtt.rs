//! MQTT against a real Mosquitto.

use std::net::TcpListener;
use std::process::Command;

use crate::broker::Apps;
use crate::kit::{Login, Order, Restart, Silent, Subject, Tls};
use crate::network::{Running, number};

// row: sink mqtt | mosquitto
// n/a bad: a sink reads no payload

// row: source mqtt | mosquitto
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "mqtt",
    server: Some("mosquitto"),
    source: "type='mqtt', url='tcp://127.0.0.1:{port}', topic='{topic}', client.id='in{topic}', clean.session='false', keep.alive='30'{login}",
    sink: "type='mqtt', url='tcp://127.0.0.1:{port}', topic='{topic}', client.id='out{topic}', clean.session='false', keep.alive='30'{login}",
    asks_for_life: true,
    order: &[
        quality(", quality.of.service='0'"),
        quality(", quality.of.service='1'"),
        quality(", quality.of.service='2'"),
    ],
    restart: Some(Restart {
        is_killed: false,
        source: ", quality.of.service='2'",
        sink: ", quality.of.service='2'",
        before: 15_000,
        rows: 20_000,
        is_once: true,
    }),
    killed: Some((&[("", "")], 10_000)),
    login: &[Login {
        server: ("user", "anna:geheim-17"),
        right: [", username='anna', password='geheim-17'"; 2],
        wrong: ", username='anna', password='geheim-18'",
        refused: "not authorized",
    }],
    tls: Some(Tls {
        server: &["tls"],
        url: ("tcp://127.0.0.1", "ssl://localhost"),
        trusting: "",
        strange: "",
        deployment: &[
            (
                "source",
                "mqtt",
                &[("trustStoreLocation", "{keys}/server.p12")],
            ),
            (
                "sink",
                "mqtt",
                &[("trustStoreLocation", "{keys}/server.p12")],
            ),
        ],
        clear: None,
    }),
    silent: Some(Silent {
        source: "",
        is_asked: false,
    }),
    ..Subject::PLAIN
};

const fn quality(more: &'static str) -> Order {
    Order {
        without: ["", ""],
        more,
        rows: 3_000,
        stop_takes_all: false,
    }
}

const RECEIVER: &str = "@app:name('Receiver')
@source(type='mqtt', url='tcp://127.0.0.1:{port}', topic='rows/#', {options}, @map(type='csv'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

// shows: source mqtt lost
#[test]
fn a_broker_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let apps = Apps::new(port, 1);
    let receiving = apps.write("receiver", RECEIVER, "connection.timeout='1'");
    let run = Running::start(&[&receiving]);
    run.err_has("did not complete the login in time", 1);
    run.stop();
}

const TOPICS: &str = "@app:name('Topics')
@source(type='mqtt', url='tcp://127.0.0.1:{port}', topic='plain/+, kept/#', @map(type='json', @attributes(n='n', topic='trp:topic')))
define stream In (n long, topic string);
@sink(type='log', prefix='in')
define stream Seen (n long, topic string);
from In select * insert into Seen;
";

const KEEPER: &str = "@app:name('Keeper')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='mqtt', url='tcp://127.0.0.1:{port}', topic='kept/{{n}}', message.retain='{{keep}}', quality.of.service='{{q}}', on.error='WAIT', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, keep string, q string);
from In select n, ifThenElse(n == 1L, 'true', 'false') as keep, convert(n % 3L, 'string') as q insert into Out;
";

// shows: sink mqtt open
#[test]
fn topics_come_with_each_event_and_the_broker_keeps_what_it_is_told_to() {
    let Some(broker) = testservers::shared("mosquitto") else {
        return;
    };
    let apps = Apps::new(broker.port(), 3);
    let keeper = Running::start(&[&apps.write("keeper", KEEPER, ""), "--until-done"]);
    assert_eq!(keeper.end().0, Some(0));
    let state = apps.path("state");
    let topics = apps.write("topics", TOPICS, "");
    let run = Running::connected(&[&topics, "--state", &state], 1);
    // Of the three only one was to be kept.
    run.out_has("data=[1, kept/1]", 1);
    let publish = |topic: &str, payload: &str| {
        let port = broker.port().to_string();
        let sent = Command::new("mosquitto_pub")
            .args(["-p", &port, "-q", "1", "-t", topic, "-m", payload])
            .status();
        assert!(sent.expect("mosquitto_pub runs").success());
    };
    publish("plain/a", r#"{"n":10}"#);
    publish("plain/bad", "this is not JSON");
    publish("other", r#"{"n":11}"#);
    publish("plain/b", r#"{"n":12}"#);
    run.out_has("data=[12, plain/b]", 1);
    let out = run.out();
    assert!(
        out.contains("data=[10, plain/a]") && !out.contains("data=[11"),
        "{out}"
    );
    assert!(
        !out.contains("data=[0, kept") && !out.contains("data=[2, kept"),
        "{out}"
    );
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one message was rejected");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    let errors = crate::broker::errors(&state);
    assert!(errors.contains("topic plain/bad"), "{errors}");
    assert!(errors.contains("this is not JSON"), "{errors}");
}
