//! NATS against a real server, core and JetStream.

mod broker;
mod network;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

use broker::Apps;
use network::{Running, eventually, number};
use servers::Order;

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='nats', server.urls='nats://localhost:{port}', destination='rows.all', on.error='WAIT', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='nats', bootstrap.servers='nats://localhost:{port}', destination='rows.all', {options}, @map(type='csv'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const STREAMING: &str = "streaming.cluster.id='test-cluster'";

/// Publishes as nobody of ours does, and waits until the server has it all.
fn publish(port: u16, messages: &[(&str, &str)]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut text = "CONNECT {\"verbose\":false}\r\n".to_owned();
    for (subject, payload) in messages {
        text.push_str(&format!("PUB {subject} {}\r\n{payload}\r\n", payload.len()));
    }
    text.push_str("PING\r\n");
    stream.write_all(text.as_bytes()).expect("it reads");
    let lines = BufReader::new(stream).lines();
    let mut lines = lines.map(|line| line.expect("it answers"));
    assert!(lines.any(|line| line == "PONG"));
}

#[test]
fn every_row_arrives_in_order_and_a_stop_takes_what_was_sent() {
    let Some(server) = Order::new().start_or_skip("nats") else {
        return;
    };
    let apps = Apps::new(server.port(), 20_000);
    let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, "")], 1);
    let sender = Running::start(&[&apps.write("sender", SENDER, ""), "--until-done"]);
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 20_000);
    // The server has all, and has perhaps not sent all yet.
    let (code, summary) = receiver.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "events"), 20_000);
    apps.check();
}

#[test]
fn a_server_that_restarts_gets_and_gives_everything_once() {
    let Some(mut server) = Order::new().start_or_skip("nats") else {
        return;
    };
    const BEFORE: usize = 50_000;
    let apps = Apps::new(server.port(), 60_000);
    apps.hold_back(BEFORE);
    let options = format!("{STREAMING}, durable.name='place', client.id='reader.1'");
    let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, &options)], 1);
    let following = SENDER.replace("tailing='false'", "tailing='true'");
    let sender = Running::connected(&[&apps.write("sender", &following, STREAMING)], 1);
    eventually("some rows", || !apps.received().is_empty());
    server.kill();
    sender.err_has("sink has lost its connection", 1);
    receiver.err_has("source has lost its connection", 1);
    apps.add_rest(BEFORE);
    server.restart().expect("it starts again");
    eventually("all rows", || apps.received().len() >= apps.rows.len());
    let (code, summary) = sender.stop();
    assert_eq!(code, Some(0), "{summary}");
    receiver.stop();
    apps.check();
    // Its place is kept: there is nothing more for it.
    publish(server.port(), &[("rows.all", "60000,after")]);
    let again = Running::connected(&[&apps.write("receiver", RECEIVER, &options)], 1);
    eventually("the one row after", || {
        apps.received().ends_with("60000,after\n")
    });
    again.stop();
    assert_eq!(apps.received(), format!("{}60000,after\n", apps.rows));
}

#[test]
fn a_source_that_was_killed_goes_on_with_what_its_state_has_not() {
    let Some(server) = Order::new().start_or_skip("nats") else {
        return;
    };
    for options in ["durable.name='d'", "client.id='c'"] {
        let apps = Apps::new(server.port(), 30_000);
        let subject = if options.starts_with('d') {
            "one"
        } else {
            "two"
        };
        let app = |app: &str| app.replace("rows.all", subject);
        let options = format!("{STREAMING}, {options}");
        let receiving = apps.write("receiver", &app(RECEIVER), &options);
        let state = apps.path("state");
        let args = [
            receiving.as_str(),
            "--state",
            &state,
            "--state-interval",
            "100ms",
        ];
        let receiver = Running::connected(&args, 1);
        let sending = apps.write("sender", &app(SENDER), STREAMING);
        let sender = Running::start(&[&sending, "--until-done"]);
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
}

#[test]
fn a_group_shares_the_messages() {
    let Some(server) = Order::new().start_or_skip("nats") else {
        return;
    };
    for (streaming, rows) in [("", 2_000), (STREAMING, 5_000)] {
        let apps = Apps::new(server.port(), rows);
        let options = format!("{streaming}, queue.group.name='workers'");
        let [one, two] = ["one", "two"].map(|name| {
            let app = RECEIVER.replace("out.csv", &format!("{name}.csv"));
            Running::connected(&[&apps.write(name, &app, &options)], 1)
        });
        let sending = apps.write("sender", SENDER, streaming);
        let sender = Running::start(&[&sending, "--until-done"]);
        assert_eq!(sender.end().0, Some(0));
        let all = || {
            let read = |name: &str| fs::read_to_string(apps.path(name)).unwrap_or_default();
            [read("one.csv"), read("two.csv")]
        };
        eventually("all rows", || {
            all().iter().map(|text| text.lines().count()).sum::<usize>() >= rows as usize
        });
        let counts = [one, two].map(|run| {
            let (code, summary) = run.stop();
            assert_eq!(code, Some(0), "{summary}");
            number(&summary, "sources", "In", "events")
        });
        assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
        let all = all().concat();
        let mut found: Vec<&str> = all.lines().collect();
        let mut expect: Vec<&str> = apps.rows.lines().collect();
        found.sort_unstable();
        expect.sort_unstable();
        assert!(found == expect, "{} rows", found.len());
    }
}

const COUNTED: &str = "@app:name('Counted')
@source(type='nats', server.urls='nats://localhost:{port}', destination='counted', {options}, @map(type='json', @attributes(n='n', at='trp:sequenceNumber')))
define stream In (n long, at long);
@sink(type='log', prefix='in')
define stream Seen (n long, at long);
from In select n, at insert into Seen;
";

#[test]
fn a_source_begins_where_it_is_told_and_counts_as_the_stream_does() {
    let Some(server) = Order::new().start_or_skip("nats") else {
        return;
    };
    let apps = Apps::new(server.port(), 1);
    let streaming = format!("{STREAMING}, ack.wait='1', durable.name='x'");
    let counted = apps.write("counted", COUNTED, &streaming);
    let state = apps.path("state");
    let run = Running::connected(&[&counted, "--state", &state], 1);
    let message = |n: u32| ("counted", format!("{{\"n\":{n}}}"));
    let messages: Vec<(&str, String)> = (1..=4).map(message).collect();
    let mut messages: Vec<(&str, &str)> = messages.iter().map(|(s, p)| (*s, p.as_str())).collect();
    messages[1].1 = "this is no JSON";
    publish(server.port(), &messages);
    run.out_has("data=[4, 4]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one message was rejected");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    assert_eq!(number(&summary, "sources", "In", "events"), 3);
    let errors = broker::errors(&state);
    assert!(errors.contains("sequenceNumber 2"), "{errors}");
    assert!(errors.contains("this is no JSON"), "{errors}");

    let from = format!("{STREAMING}, subscription.sequence='4'");
    let run = Running::connected(&[&apps.write("from", COUNTED, &from)], 1);
    publish(server.port(), &[("counted", "{\"n\":5}")]);
    run.out_has("data=[5, 5]", 1);
    let out = run.out();
    assert!(
        out.contains("data=[4, 4]") && !out.contains("data=[3, 3]"),
        "{out}"
    );
    run.stop();

    // Core NATS has no numbers: the source counts by itself.
    let run = Running::connected(&[&apps.write("core", COUNTED, "")], 1);
    publish(
        server.port(),
        &[("counted", "{\"n\":6}"), ("counted", "{\"n\":7}")],
    );
    run.out_has("data=[7, 2]", 1);
    run.stop();
}

const KEEPER: &str = "@app:name('Keeper')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='nats', server.urls='nats://localhost:{port}', destination='{{subject}}', on.error='WAIT', {options}, @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, subject string);
from In select n, ifThenElse(n == 1L, 'no subject', ifThenElse(n == 2L, 'counted', 'other.x')) as subject insert into Out;
";

#[test]
fn subjects_follow_from_the_event_and_each_gets_its_stream() {
    let Some(server) = Order::new().start_or_skip("nats") else {
        return;
    };
    let apps = Apps::new(server.port(), 4);
    let keeping = apps.write("keeper", KEEPER, STREAMING);
    let state = apps.path("state");
    let keeper = Running::start(&[&keeping, "--until-done", "--state", &state]);
    keeper.err_has("a stream was made for a subject", 2);
    let (code, summary) = keeper.end();
    assert_eq!(code, Some(4), "one subject was none");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 3);
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1);
    assert!(broker::errors(&state).contains("is no subject"));
    for (subject, seen) in [
        ("counted", ["data=[2, 1]", ""]),
        ("other.x", ["data=[0, 1]", "data=[3, 2]"]),
    ] {
        let app = COUNTED.replace("destination='counted'", &format!("destination='{subject}'"));
        let run = Running::connected(&[&apps.write("counted", &app, STREAMING)], 1);
        for text in seen {
            run.out_has(text, 1);
        }
        run.stop();
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let apps = Apps::new(port, 1);
    let options =
        "optional.configuration='io.nats.client.timeout:1000, io.nats.client.noecho:true'";
    let run = Running::start(&[&apps.write("receiver", RECEIVER, options)]);
    run.err_has("did not let us in in time", 1);
    assert!(run.err().contains("noecho"));
    run.stop();
}

#[test]
fn only_who_proves_who_he_is_is_let_in() {
    for (key, value, right, wrong) in [
        (
            "user",
            "anna:geheim-17",
            "auth.type='user', username='anna', password='geheim-17'",
            "auth.type='user', username='anna', password='geheim-18'",
        ),
        (
            "token",
            "geheim-19",
            "auth.type='token', token='geheim-19'",
            "auth.type='token', token='geheim-20'",
        ),
    ] {
        let Some(server) = Order::new().with(key, value).start_or_skip("nats") else {
            return;
        };
        let apps = Apps::new(server.port(), 5);
        let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, right)], 1);
        let sender = Running::start(&[&apps.write("sender", SENDER, right), "--until-done"]);
        assert_eq!(sender.end().0, Some(0));
        eventually("all rows", || apps.received() == apps.rows);
        let refused = Running::start(&[&apps.write("refused", RECEIVER, wrong)]);
        refused.err_has("Authorization Violation", 1);
        for run in [refused, receiver] {
            let said = format!("{}{}", run.err(), run.out());
            assert!(!said.contains("geheim"), "{said}");
            run.stop();
        }
    }
}

#[test]
fn tls_both_ways_with_the_key_stores_of_the_options() {
    let pem = broker::key_file("server.pem");
    let order = Order::new().with("tls", &pem).with("verify", &pem);
    let Some(server) = order.start_or_skip("nats") else {
        return;
    };
    let apps = Apps::new(server.port(), 5);
    let p12 = broker::key_file("server.p12");
    let whole = format!(
        "auth.type='tls', truststore.file='{p12}', truststore.password='wso2carbon', \
         client.verify='true', keystore.file='{p12}', keystore.password='wso2carbon'"
    );
    let receiver = Running::connected(&[&apps.write("receiver", RECEIVER, &whole)], 1);
    let sender = Running::start(&[&apps.write("sender", SENDER, &whole), "--until-done"]);
    assert_eq!(sender.end().0, Some(0));
    eventually("all rows", || apps.received() == apps.rows);
    receiver.stop();
    let unknown = "auth.type='tls'";
    let strange = Running::start(&[&apps.write("strange", RECEIVER, unknown)]);
    strange.err_has("certificate", 1);
    strange.stop();
    let clear = Running::start(&[&apps.write("clear", RECEIVER, "")]);
    clear.err_has("the server asks for TLS", 1);
    clear.stop();
}
