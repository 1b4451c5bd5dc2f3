//! RabbitMQ against a real broker.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::broker::Apps;
use crate::kit::{Login, Order, Restart, Silent, Subject, Tls};
use crate::network::{Running, eventually, number};

// row: sink rabbitmq | rabbitmq
// n/a bad: a sink reads no payload

// row: source rabbitmq | rabbitmq
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "rabbitmq",
    server: Some("rabbitmq"),
    source: "type='rabbitmq', uri='amqp://{login}@127.0.0.1:{port}', exchange.name='{topic}', exchange.type='direct', routing.key='{topic}', exchange.durable.enabled='true', heartbeat='30'{tls}, queue.name='{topic}', queue.durable.enabled='true', auto.ack='false'",
    sink: "type='rabbitmq', uri='amqp://{login}@127.0.0.1:{port}', exchange.name='{topic}', exchange.type='direct', routing.key='{topic}', exchange.durable.enabled='true'{tls}",
    anonymous: "guest:guest",
    order: &[
        // A queue of its own, which goes with it.
        Order {
            without: [
                ", queue.name='{topic}', queue.durable.enabled='true', auto.ack='false'",
                "",
            ],
            more: "",
            rows: 20_000,
            stop_takes_all: true,
        },
        Order {
            without: [", queue.name='{topic}', queue.durable.enabled='true'", ""],
            more: "",
            rows: 20_000,
            stop_takes_all: false,
        },
    ],
    restart: Some(Restart {
        is_killed: false,
        source: "",
        sink: ", delivery.mode='2'",
        before: 19_000,
        rows: 40_000,
        is_once: false,
    }),
    killed: Some((&[("", "")], 20_000)),
    login: &[Login {
        server: ("user", "anna:geheim-17"),
        right: ["anna:geheim%2d17", "anna:geheim-17"],
        wrong: "anna:geheim-18",
        refused: "ACCESS_REFUSED",
    }],
    tls: Some(Tls {
        server: &["tls"],
        url: ("@127.0.0.1", "@localhost"),
        trusting: ", tls.enabled='true', tls.version='TLSv1.2', tls.truststore.path='{keys}/server.p12', tls.truststore.password='wso2carbon'",
        strange: ", tls.enabled='true'",
        deployment: &[],
        clear: None,
    }),
    silent: Some(Silent {
        source: "",
        is_asked: false,
    }),
    ..Subject::PLAIN
};

/// The port of the broker that tests share.
fn shared() -> Option<u16> {
    testservers::shared("rabbitmq").map(testservers::Running::port)
}

fn amqp(program: &str, port: u16, args: &[&str]) -> Output {
    let server = format!("127.0.0.1:{port}");
    let output = Command::new(program)
        .args(["--server", &server])
        .args(args)
        .output();
    output.expect("amqp-tools are there")
}

fn publish(port: u16, exchange: &str, key: &str, args: &[&str], body: &str) {
    let fixed = ["-e", exchange, "-r", key, "-b", body];
    let output = amqp("amqp-publish", port, &[&fixed, args].concat());
    assert!(output.status.success(), "{output:?}");
}

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', on.error='WAIT', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', {options}, @map(type='csv'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

// shows: source rabbitmq lost
#[test]
fn a_port_that_speaks_something_else_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let apps = Apps::new(port, 1);
    let receiving = apps.write("receiver", RECEIVER, "exchange.name='x'");
    let run = Running::start(&[&receiving]);
    let (stream, _) = listener.accept().expect("it connects");
    std::io::Write::write_all(&mut &stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it reads");
    run.err_has("does not speak AMQP", 1);
    run.stop();
}

/// Longer than the client library bears silence.
const STANDSTILL: Duration = Duration::from_secs(7);

/// Messages of a queue that acknowledges itself are gone with its connection.
// shows: source rabbitmq lost
#[test]
fn a_machine_that_stood_still_has_not_lost_its_broker() {
    let Some(server) = testservers::lent("rabbitmq") else {
        return;
    };
    let apps = Apps::new(server.port(), 1);
    let receiving = apps.write("receiver", RECEIVER, "exchange.name='still'");
    let receiver = Running::connected(&[&receiving], 1);
    publish(server.port(), "still", "", &[], "0,before");
    eventually("the first row", || apps.received() == "0,before\n");
    server.freeze();
    receiver.freeze();
    let frozen = Instant::now();
    eventually("the time", || frozen.elapsed() >= STANDSTILL);
    // First who waits for a sign of life, so that there is none yet when it looks.
    receiver.thaw();
    server.thaw();
    publish(server.port(), "still", "", &[], "1,after");
    eventually("the row after", || apps.received() == "0,before\n1,after\n");
    let said = receiver.err();
    assert!(!said.contains("lost its connection"), "{said}");
    receiver.stop();
}

const PROPERTIES: &str = "@app:name('Properties')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', exchange.name='properties', exchange.type='headers', on.error='WAIT',
  headers=\"'kind:{{kind}}','more:a:b'\", priority='{{n}}', correlation.id='c{{n}}', message.id='m{{n}}',
  content.type='text/x', content.encoding='utf-8', reply.to='there', expiration='60000', timestamp='21/11/2026', user.id='guest', app.id='us',
  @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, kind string);
from In select n, ifThenElse(n % 2L == 0L, 'even', 'odd') as kind insert into Out;
";

const SEEN: &str = "@app:name('Seen')
@source(type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', exchange.name='properties', exchange.type='headers', headers=\"'kind:odd','x-match:all'\",
  @map(type='json', fail.on.missing.attribute='false', @attributes(n='n', kind='trp:kind', more='trp:more', ct='trp:content.type', ce='trp:content.encoding',
    mode='trp:delivery.mode', priority='trp:priority', correlation='trp:correlation.id', reply='trp:reply.to', expiration='trp:expiration', id='trp:message.id',
    at='trp:timestamp', ty='trp:type', user='trp:user.id', app='trp:app.id', exchange='trp:exchange.name', none='trp:none')))
define stream In (n long, kind string, more string, ct string, ce string, mode int, priority int, correlation string, reply string, expiration string, id string,
  at long, ty string, user string, app string, exchange string, none string);
@sink(type='log', prefix='in')
define stream Log (n long, kind string, more string, ct string, ce string, mode int, priority int, correlation string, reply string, expiration string, id string,
  at long, ty string, user string, app string, exchange string, none string);
from In select * insert into Log;
";

#[test]
fn properties_and_headers_go_out_and_come_in() {
    let Some(port) = shared() else { return };
    let apps = Apps::new(port, 4);
    let seen = Running::connected(&[&apps.write("seen", SEEN, "")], 1);
    let sender = Running::start(&[&apps.write("sender", PROPERTIES, ""), "--until-done"]);
    assert_eq!(sender.end().0, Some(0));
    for n in [1, 3] {
        let expect = format!(
            "data=[{n}, odd, a:b, text/x, utf-8, 1, {n}, c{n}, there, 60000, m{n}, 1795219200, \
             rabbitmq, guest, us, properties, null]"
        );
        seen.out_has(&expect, 1);
    }
    let out = seen.out();
    assert!(!out.contains("data=[2, even"), "{out}");
    seen.stop();
}

const ROUTED: &str = "@app:name('Routed')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', exchange.name='routed.{{to}}', exchange.type='topic', exchange.durable.enabled='{{lasts}}', routing.key='a.{{n}}', on.error='WAIT',
  @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, to string, lasts string);
from In select n, ifThenElse(n < 2L, 'x', 'y') as to, ifThenElse(n < 2L, 'true', 'false') as lasts insert into Out;
";

const TOPICS: &str = "@app:name('Topics')
@source(type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', exchange.type='topic', {options}, @map(type='json', @attributes(n='n', key='trp:routing.key')))
define stream In (n long, key string);
@sink(type='log', prefix='in')
define stream Log (n long, key string);
from In select * insert into Log;
";

// shows: sink rabbitmq open
#[test]
fn exchanges_follow_from_the_event_and_are_made_where_they_are_not() {
    let Some(port) = shared() else { return };
    let apps = Apps::new(port, 4);
    // One is there, the other is not.
    let options = "exchange.name='routed.x', exchange.durable.enabled='true', routing.key='a.*'";
    let state = apps.path("state");
    let first = apps.write("first", TOPICS, options);
    let run = Running::connected(&[&first, "--state", &state], 1);
    let routed = apps.write("routed", ROUTED, "");
    assert_eq!(Running::start(&[&routed, "--until-done"]).end().0, Some(0));
    run.out_has("data=[1, a.1]", 1);
    run.out_has("data=[0, a.0]", 1);
    let options = "exchange.name='routed.y', routing.key='#'";
    let other = Running::connected(&[&apps.write("other", TOPICS, options)], 1);
    assert_eq!(Running::start(&[&routed, "--until-done"]).end().0, Some(0));
    other.out_has("data=[3, a.3]", 1);
    other.out_has("data=[2, a.2]", 1);
    other.stop();
    // What is not JSON is kept with where it came from; its neighbours arrive.
    publish(port, "routed.x", "a.bad", &[], "this is not JSON");
    publish(port, "routed.x", "a.good", &[], "{\"n\":7}");
    run.out_has("data=[7, a.good]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one message was rejected");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    let errors = crate::broker::errors(&state);
    assert!(errors.contains("routing.key a.bad"), "{errors}");
    assert!(errors.contains("this is not JSON"), "{errors}");
}

// shows: source rabbitmq open
#[test]
fn queues_are_made_as_they_are_asked_for() {
    let Some(port) = shared() else { return };
    let apps = Apps::new(port, 5);
    let passing = "exchange.name='passing', exchange.autodelete.enabled='true'";
    let queue =
        "queue.name='passing', queue.exclusive.enabled='true', queue.autodelete.enabled='true'";
    let receiving = apps.write("receiver", RECEIVER, &format!("{passing}, {queue}"));
    let receiver = Running::connected(&[&receiving], 1);
    // Nobody else may use it.
    let second = Running::start(&[&receiving]);
    second.err_has("RESOURCE_LOCKED", 1);
    second.stop();
    publish(port, "passing", "", &[], "1,one");
    eventually("the row", || apps.received() == "1,one\n");
    receiver.stop();
    // Queue and exchange have gone with the last who used them.
    for args in [["-q", "passing"], ["-e", "passing"]] {
        let program = if args[0] == "-q" {
            "amqp-get"
        } else {
            "amqp-publish"
        };
        let rest: &[&str] = if args[0] == "-q" {
            &[]
        } else {
            &["-r", "x", "-b", "x"]
        };
        let output = amqp(program, port, &[&args, rest].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("NOT_FOUND"), "{args:?} {said}");
    }
    // The default exchange knows queues by their names.
    let default = "exchange.name='', queue.name='direct.one'";
    let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, default)], 1);
    let sending = apps.write(
        "sender",
        SENDER,
        "exchange.name='', routing.key='direct.one'",
    );
    assert_eq!(Running::start(&[&sending, "--until-done"]).end().0, Some(0));
    eventually("all rows", || apps.received().len() >= apps.rows.len() + 6);
    receiver.stop();
}
