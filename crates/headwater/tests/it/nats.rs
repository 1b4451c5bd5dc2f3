//! NATS against a real server, core and JetStream.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::broker::Apps;
use crate::kit::{Login, Order, Restart, Silent, Subject, Tls};
use crate::network::{Running, eventually, number};

// row: sink nats | nats
// n/a bad: a sink reads no payload

// row: source nats | nats
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "nats",
    server: Some("nats"),
    source: "type='nats', bootstrap.servers='nats://127.0.0.1:{port}', destination='{topic}', streaming.cluster.id='c', durable.name='{topic}'{login}{tls}",
    sink: "type='nats', server.urls='nats://127.0.0.1:{port}', destination='{topic}', streaming.cluster.id='c'{login}{tls}",
    asks_for_life: true,
    // Without a stream: what was sent is there, and has perhaps not been read yet.
    order: &[Order {
        without: [
            ", streaming.cluster.id='c', durable.name='{topic}'",
            ", streaming.cluster.id='c'",
        ],
        more: "",
        rows: 20_000,
        stop_takes_all: true,
    }],
    restart: Some(Restart {
        is_killed: true,
        source: ", client.id='reader.1'",
        sink: "",
        before: 50_000,
        rows: 60_000,
        is_once: true,
    }),
    killed: Some((
        &[("", ""), ("durable.name='{topic}'", "client.id='{topic}'")],
        30_000,
    )),
    login: &[
        Login {
            server: ("user", "anna:geheim-17"),
            right: [", auth.type='user', username='anna', password='geheim-17'"; 2],
            wrong: ", auth.type='user', username='anna', password='geheim-18'",
            refused: "Authorization Violation",
        },
        Login {
            server: ("token", "geheim-19"),
            right: [", auth.type='token', token='geheim-19'"; 2],
            wrong: ", auth.type='token', token='geheim-20'",
            refused: "Authorization Violation",
        },
    ],
    tls: Some(Tls {
        server: &["tls", "verify"],
        url: ("127.0.0.1", "localhost"),
        trusting: ", auth.type='tls', truststore.file='{keys}/server.p12', truststore.password='wso2carbon', client.verify='true', keystore.file='{keys}/server.p12', keystore.password='wso2carbon'",
        strange: ", auth.type='tls'",
        deployment: &[],
        clear: Some("the server asks for TLS"),
    }),
    silent: Some(Silent {
        source: "",
        is_asked: false,
    }),
    ..Subject::PLAIN
};

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

/// What JetStream answers.
fn jetstream(port: u16, what: &str) -> Json {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let asked = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answers.{port} 1\r\nPUB $JS.API.{what} answers.{port} 2\r\n{{}}\r\n"
    );
    stream.write_all(asked.as_bytes()).expect("it reads");
    let lines = BufReader::new(stream).lines();
    let mut lines = lines.map(|line| line.expect("it answers"));
    let answer = lines.find(|line| line.starts_with('{'));
    serde_json::from_str(&answer.expect("an answer")).expect("JSON")
}

const STREAMING: &str = "streaming.cluster.id='test-cluster'";

/// The place of a source without state is that of its consumer, whatever becomes of that.
// shows: source nats resume
#[test]
fn a_durable_place_outlives_its_consumer() {
    let Some(server) = testservers::shared("nats") else {
        return;
    };
    let port = server.port();
    let apps = Apps::new(port, 0);
    let options = format!("{STREAMING}, durable.name='kept'");
    let receiving = RECEIVER.replace("rows.all", "rows.kept");
    let receiving = apps.write("receiver", &receiving, &options);
    let start = || Running::connected(&[&receiving], 1);
    let mut expect = String::new();
    let mut one_more = |n: u32| {
        let row = format!("{n},row");
        publish(port, &[("rows.kept", &row)]);
        expect.push_str(&format!("{row}\n"));
        eventually("one row more", || apps.received().len() >= expect.len());
        assert_eq!(apps.received(), expect);
    };
    let consumer = "rows_kept.kept";
    let created = || {
        let info = jetstream(port, &format!("CONSUMER.INFO.{consumer}"));
        info["created"].as_str().expect("it is there").to_owned()
    };
    let delete = || {
        let deleted = jetstream(port, &format!("CONSUMER.DELETE.{consumer}"));
        // It is gone also where the server was still writing its folder.
        let is_busy = deleted["error"]["description"].as_str();
        let is_busy = is_busy.is_some_and(|said| said.contains("directory not empty"));
        assert!(deleted["success"] == true || is_busy, "{deleted}");
    };
    let receiver = start();
    one_more(0);
    receiver.stop();
    // Left in order, it is the same one.
    let first = created();
    let receiver = start();
    one_more(1);
    assert_eq!(created(), first);
    // It goes while it is read, and while its reader stops.
    delete();
    receiver.err_has("source is ready", 2);
    one_more(2);
    receiver.freeze();
    delete();
    receiver.stops();
    receiver.thaw();
    receiver.end();
    let receiver = start();
    one_more(3);
    receiver.stop();
}

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

// shows: source nats open
#[test]
fn a_group_shares_the_messages() {
    let Some(server) = testservers::shared("nats") else {
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

// shows: source nats resume
#[test]
fn a_source_begins_where_it_is_told_and_counts_as_the_stream_does() {
    let Some(server) = testservers::shared("nats") else {
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
    messages[1].1 = "this is not JSON";
    publish(server.port(), &messages);
    run.out_has("data=[4, 4]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one message was rejected");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    assert_eq!(number(&summary, "sources", "In", "events"), 3);
    let errors = crate::broker::errors(&state);
    assert!(errors.contains("sequenceNumber 2"), "{errors}");
    assert!(errors.contains("this is not JSON"), "{errors}");

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
from In select n, ifThenElse(n == 1L, 'no subject', ifThenElse(n == 2L, 'kept', 'other.x')) as subject insert into Out;
";

// shows: sink nats open
#[test]
fn subjects_follow_from_the_event_and_each_gets_its_stream() {
    let Some(server) = testservers::shared("nats") else {
        return;
    };
    let apps = Apps::new(server.port(), 4);
    let keeping = apps.write("keeper", KEEPER, STREAMING);
    let state = apps.path("state");
    let keeper = Running::start(&[&keeping, "--until-done", "--state", &state]);
    keeper.err_has("created a stream for the subject", 2);
    let (code, summary) = keeper.end();
    assert_eq!(code, Some(4), "one subject was none");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 3);
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1);
    assert!(crate::broker::errors(&state).contains("is not a subject"));
    for (subject, seen) in [
        ("kept", ["data=[2, 1]", ""]),
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

// shows: source nats lost
#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let apps = Apps::new(port, 1);
    let options =
        "optional.configuration='io.nats.client.timeout:1000, io.nats.client.noecho:true'";
    let run = Running::start(&[&apps.write("receiver", RECEIVER, options)]);
    run.err_has("did not complete the login in time", 1);
    assert!(run.err().contains("noecho"));
    run.stop();
}

/// A process that stood still for longer than a server may be silent has not lost it: it has not asked, nor
/// read what came. Without a stream the server would keep nothing for one that connects anew.
// shows: source nats lost
#[test]
fn a_source_that_stood_still_has_not_lost_its_server() {
    const STOOD: Duration = Duration::from_secs(5);
    const WATCHED: Duration = Duration::from_secs(1);
    let Some(server) = testservers::shared("nats") else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    let app = |name: &str| {
        let text = COUNTED.replace("Counted", name);
        apps.write(
            name,
            &text.replace("'counted'", &format!("'stood.{name}'")),
            "",
        )
    };
    // To one of them nothing is sent at all.
    let run = Running::connected(&[&app("busy"), &app("quiet")], 2);
    run.freeze();
    publish(server.port(), &[("stood.busy", "{\"n\":1}")]);
    let frozen = Instant::now();
    eventually("the time", || frozen.elapsed() >= STOOD);
    run.thaw();
    let thawed = Instant::now();
    run.out_has("data=[1, 1]", 1);
    eventually("some looks at the servers", || thawed.elapsed() >= WATCHED);
    assert!(!run.err().contains("lost its connection"), "{}", run.err());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}
