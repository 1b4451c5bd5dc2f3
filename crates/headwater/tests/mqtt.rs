//! MQTT against a real Mosquitto.

mod broker;
mod network;

use std::net::TcpListener;
use std::process::Command;

use broker::Apps;
use network::{Running, eventually, number};
use servers::Order;

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='mqtt', url='tcp://127.0.0.1:{port}', topic='rows/all', on.error='WAIT', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='mqtt', url='tcp://127.0.0.1:{port}', topic='rows/#', {options}, @map(type='csv'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

#[test]
fn every_row_arrives_in_order_with_each_quality_of_service() {
    let Some(broker) = Order::new().start_or_skip("mosquitto") else {
        return;
    };
    for quality in 0..3 {
        let apps = Apps::new(broker.port(), 3_000);
        let options = format!("quality.of.service='{quality}'");
        let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, &options)], 1);
        let sender = Running::start(&[&apps.write("sender", SENDER, &options), "--until-done"]);
        let (code, summary) = sender.end();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sinks", "Out", "events"), 3_000);
        eventually("all rows", || apps.received().len() >= apps.rows.len());
        let (code, summary) = receiver.stop();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sources", "In", "events"), 3_000);
        apps.check();
    }
}

#[test]
fn a_broker_that_restarts_gets_and_gives_everything_once() {
    let Some(mut broker) = Order::new().start_or_skip("mosquitto") else {
        return;
    };
    const BEFORE: usize = 15_000;
    let apps = Apps::new(broker.port(), 20_000);
    apps.hold_back(BEFORE);
    let options = "quality.of.service='2', clean.session='false'";
    let receiving = apps.write("receiver", RECEIVER, &format!("{options}, client.id='in'"));
    let receiver = Running::connected(&[&receiving], 1);
    let following = SENDER.replace("tailing='false'", "tailing='true'");
    let sending = apps.write("sender", &following, &format!("{options}, client.id='out'"));
    let sender = Running::connected(&[&sending], 1);
    eventually("some rows", || !apps.received().is_empty());
    broker.stop();
    sender.err_has("sink has lost its connection", 1);
    receiver.err_has("source has lost its connection", 1);
    apps.add_rest(BEFORE);
    broker.restart().expect("it starts again");
    eventually("all rows", || apps.received().len() >= apps.rows.len());
    let (code, summary) = sender.stop();
    assert_eq!(code, Some(0), "{summary}");
    receiver.stop();
    apps.check();
}

#[test]
fn a_source_that_was_killed_goes_on_with_what_was_not_acknowledged() {
    let Some(broker) = Order::new().start_or_skip("mosquitto") else {
        return;
    };
    let apps = Apps::new(broker.port(), 10_000);
    let receiving = apps.write("receiver", RECEIVER, "clean.session='false'");
    let state = apps.path("state");
    let args = [
        receiving.as_str(),
        "--state",
        &state,
        "--state-interval",
        "100ms",
    ];
    let receiver = Running::connected(&args, 1);
    let sender = Running::start(&[
        &apps.write("sender", SENDER, "keep.alive='5'"),
        "--until-done",
    ]);
    eventually("some rows", || !apps.received().is_empty());
    receiver.kill();
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    let receiver = Running::connected(&args, 1);
    eventually("all rows", || {
        apps.received().trim_end().ends_with(apps.last_row())
    });
    receiver.stop();
    apps.check_at_least_once();
}

#[test]
fn a_broker_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let apps = Apps::new(port, 1);
    let receiving = apps.write("receiver", RECEIVER, "connection.timeout='1'");
    let run = Running::start(&[&receiving]);
    run.err_has("did not let us in in time", 1);
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

#[test]
fn topics_come_with_each_event_and_the_broker_keeps_what_it_is_told_to() {
    let Some(broker) = Order::new().start_or_skip("mosquitto") else {
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
    publish("plain/bad", "this is no JSON");
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
    let errors = broker::errors(&state);
    assert!(errors.contains("topic plain/bad"), "{errors}");
    assert!(errors.contains("this is no JSON"), "{errors}");
}

#[test]
fn only_who_has_the_password_is_let_in() {
    let order = Order::new().with("user", "anna:geheim-17");
    let Some(broker) = order.start_or_skip("mosquitto") else {
        return;
    };
    let apps = Apps::new(broker.port(), 5);
    let right = "username='anna', password='geheim-17'";
    let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, right)], 1);
    let sender = Running::start(&[&apps.write("sender", SENDER, right), "--until-done"]);
    assert_eq!(sender.end().0, Some(0));
    eventually("all rows", || apps.received() == apps.rows);
    let wrong = "username='anna', password='geheim-18'";
    let refused = Running::start(&[&apps.write("refused", RECEIVER, wrong)]);
    refused.err_has("not authorized", 1);
    for run in [refused, receiver] {
        let said = format!("{}{}", run.err(), run.out());
        assert!(!said.contains("geheim"), "{said}");
        run.stop();
    }
}

#[test]
fn tls_trusts_what_the_deployment_names() {
    let pem = broker::key_file("server.pem");
    let Some(broker) = Order::new().with("tls", &pem).start_or_skip("mosquitto") else {
        return;
    };
    let apps = Apps::new(broker.port(), 5);
    let secure = |app: &str| app.replace("tcp://127.0.0.1", "ssl://localhost");
    let store = broker::key_file("server.p12");
    let config = apps.deployment(
        &["source", "sink"]
            .map(|kind| (kind, "mqtt", vec![("trustStoreLocation", store.as_str())])),
    );
    let receiving = apps.write("receiver", &secure(RECEIVER), "keep.alive='5'");
    let sending = apps.write("sender", &secure(SENDER), "keep.alive='5'");
    let receiver = Running::connected(&[&receiving, "--config", &config], 1);
    let sender = Running::start(&[&sending, "--config", &config, "--until-done"]);
    assert_eq!(sender.end().0, Some(0));
    eventually("all rows", || apps.received() == apps.rows);
    receiver.stop();
    let strange = Running::start(&[&receiving]);
    strange.err_has("certificate", 1);
    strange.stop();
}
