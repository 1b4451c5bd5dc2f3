//! Queues of SQS, on Moto, looked at by Amazon's own client.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::broker::{Apps, errors};
use crate::kit::{Silent, Slow, Subject, Tls};
use crate::network::{Running, eventually, free_port, number};

// row: sink sqs | s3
// n/a bad: a sink reads no payload

// row: source sqs | s3
// n/a slow: messages are asked for, and wait in the queue
// n/a error: `on.error` belongs to sinks

const ENDPOINT: (&str, &str) = ("endpoint", "http://127.0.0.1:{port}");

const TRUST: &[(&str, &str)] = &[
    ("trustStoreLocation", "{keys}/server.p12"),
    ("trustStorePassword", "wso2carbon"),
];

pub const KIT: Subject = Subject {
    name: "sqs",
    server: Some("s3"),
    source: "type='sqs', queue='{topic}.fifo', region='eu-west-1', access.key='us', secret.key='geheim-17', polling.interval='5', max.number.of.messages='10'",
    sink: "type='sqs', queue='{topic}.fifo', region='eu-west-1', access.key='us', secret.key='geheim-17', message.group.id='g', deduplication.id='{{n}}'",
    deployment: &[("source", "sqs", &[ENDPOINT]), ("sink", "sqs", &[ENDPOINT])],
    prepare: |server, topic| {
        let fifo = "Attributes={'FifoQueue': 'true'}";
        let make = format!("sqs.create_queue(QueueName='{topic}.fifo', {fifo})\n");
        asked(server, &make);
    },
    afterwards: |server, topic| assert_eq!(left(server, &format!("{topic}.fifo")), "0 0"),
    has_flow_control: false,
    // Long questions as well.
    silent: Some(Silent {
        source: ", wait.time='20'",
        is_asked: true,
    }),
    slow: Slow {
        rows: 60,
        row_bytes: 100_000,
        bytes_per_second: 2 << 20,
    },
    tls: Some(Tls {
        server: &["tls"],
        url: ("http://127.0.0.1", "https://localhost"),
        trusting: "",
        strange: "",
        deployment: &[("source", "sqs", TRUST), ("sink", "sqs", TRUST)],
        clear: None,
    }),
    ..Subject::PLAIN
};

const SENDER: &str = "@app:name('Sender') -- {note}
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.polling.interval='50', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='sqs', queue='rows.fifo', region='eu-west-1', {keys}, message.group.id='g', deduplication.id='{{n}}', on.error='{policy}', {options}, @map(type='json'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver') -- {note}
@source(type='sqs', queue='rows.fifo', region='eu-west-1', {keys}, polling.interval='5', max.number.of.messages='10', {options}, @map(type='json', @attributes(id='trp:MESSAGE_ID', n='$.event.n', text='$.event.text')))
define stream In (id string, n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In[str:length(id) > 10] select n, text insert into Out;
";

const KEYS: &str = "access.key='us', secret.key='geheim-17'";

/// What Amazon's client says; `sqs` is the client, `url` the queue.
fn asked(server: &testservers::Running, script: &str) -> String {
    let url =
        "def url(name='rows.fifo'):\n    return sqs.get_queue_url(QueueName=name)['QueueUrl']\n";
    crate::amazon::asked(server, "sqs", &format!("{url}{script}"))
}

/// A queue that keeps the order, and one that does not.
fn make(server: &testservers::Running) {
    asked(
        server,
        "sqs.create_queue(QueueName='rows.fifo', Attributes={'FifoQueue': 'true'})\n\
         sqs.create_queue(QueueName='rows')\n",
    );
}

/// Messages of a queue: those that can be seen, and those that somebody has.
fn left(server: &testservers::Running, queue: &str) -> String {
    let script = format!(
        "a = sqs.get_queue_attributes(QueueUrl=url('{queue}'), AttributeNames=['All'])['Attributes']\n\
         print(a['ApproximateNumberOfMessages'], a['ApproximateNumberOfMessagesNotVisible'])"
    );
    asked(server, &script).trim().to_owned()
}

fn deployment(apps: &Apps, url: &str) -> String {
    let own = || vec![("endpoint", url)];
    apps.deployment(&[("sink", "sqs", own()), ("source", "sqs", own())])
}

fn endpoint(apps: &Apps) -> String {
    deployment(apps, &format!("http://127.0.0.1:{}", apps.port()))
}

/// With what is given, else the usual.
fn filled(app: &str, fill: &[(&str, &str)]) -> String {
    let usual = [
        ("note", "first"),
        ("tailing", "false"),
        ("policy", "WAIT"),
        ("keys", KEYS),
    ];
    let all = fill.iter().chain(&usual);
    all.fold(app.to_owned(), |app, (name, value)| {
        app.replace(&format!("{{{name}}}"), value)
    })
}

fn sender(apps: &Apps, fill: &[(&str, &str)], options: &str) -> String {
    apps.write("sender", &filled(SENDER, fill), options)
}

fn receiver(apps: &Apps, fill: &[(&str, &str)], options: &str) -> String {
    apps.write("receiver", &filled(RECEIVER, fill), options)
}

fn start() -> Option<testservers::Lent> {
    let server = crate::amazon::lent()?;
    make(&server);
    Some(server)
}

// shows: sink sqs open, order
// shows: source sqs open, order
#[test]
fn every_row_arrives_in_order_and_is_deleted() {
    let Some(server) = start() else { return };
    let apps = Apps::new(server.port(), 200);
    let config = endpoint(&apps);
    // The one by its name, the other by its URL, which says where it is.
    let url = asked(&server, "print(url())");
    let own = RECEIVER.replace("'rows.fifo'", &format!("'{}'", url.trim()));
    let receiving = apps.write("receiver", &filled(&own, &[]), "");
    let sending = sender(&apps, &[], "");
    // What was sent before is dropped by its id.
    for _ in 0..2 {
        let sent = Running::start(&[&sending, "--config", &config, "--until-done"]);
        let (code, summary) = sent.end();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sinks", "Out", "events"), 200);
        assert_eq!(left(&server, "rows.fifo"), "200 0");
    }
    let receiver = Running::connected(&[&receiving], 1);
    eventually("all rows", || apps.received() == apps.rows);
    let (code, summary) = receiver.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(left(&server, "rows.fifo"), "0 0");
}

const PLAIN_SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='sqs', queue='rows', region='eu-west-1', access.key='us', secret.key='geheim-17', {options}, @map(type='text', @payload('{{text}}')))
define stream Out (n long, text string);
from In select * insert into Out;
";

const PLAIN_RECEIVER: &str = "@app:name('Receiver')
@source(type='sqs', queue='rows', region='eu-west-1', access.key='us', secret.key='geheim-17', polling.interval='20', {options}, @map(type='text', regex.A='(.*)', @attributes(text='A[1]')))
define stream In (text string);
@sink(type='log', prefix='row')
define stream Out (text string);
from In select * insert into Out;
";

#[test]
fn messages_wait_and_hide_as_the_options_say() {
    let Some(server) = start() else { return };
    let apps = Apps::new(server.port(), 3);
    let config = endpoint(&apps);
    let sending = apps.write("sender", PLAIN_SENDER, "delay.interval='3'");
    let (code, summary) = Running::start(&[&sending, "--config", &config, "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    let options = "wait.time='5', visibility.timeout='2', delete.messages='false', number.of.parallel.consumers='3'";
    let receiving = apps.write("receiver", PLAIN_RECEIVER, options);
    let asked = Instant::now();
    let receiver = Running::connected(&[&receiving, "--config", &config], 1);
    // Each again and again, because nobody deletes them.
    for text in ["row 0 é", "row 1 é", "row 2 é"] {
        receiver.out_has(&format!("data=[{text}]"), 2);
    }
    assert!(
        asked.elapsed() > Duration::from_secs(2),
        "they were hidden in between"
    );
    let (_, summary) = receiver.stop();
    assert_eq!(number(&summary, "sources", "In", "rejected"), 0);
    eventually("they are there", || left(&server, "rows") == "3 0");
    let receiving = apps.write("receiver", PLAIN_RECEIVER, "wait.time='1'");
    let receiver = Running::connected(&[&receiving, "--config", &config], 1);
    eventually("they are gone", || left(&server, "rows") == "0 0");
    receiver.stop();
}

#[test]
fn values_out_of_bounds_are_refused() {
    let apps = Apps::new(free_port(), 0);
    for (options, cause) in [
        ("max.number.of.messages='11'", "write a number from 1 to 10"),
        ("wait.time='21'", "write a number from -1 to 20"),
        (
            "visibility.timeout='43201'",
            "write a number from -1 to 43200",
        ),
        ("number.of.parallel.consumers='0'", "write a number from 1"),
    ] {
        let app = apps.write("receiver", PLAIN_RECEIVER, options);
        let run = Running::start(&[&app]);
        run.err_has(cause, 1);
        run.kill();
    }
}

/// The options of a user's keys.
fn options_of(key: &str, secret: &str) -> String {
    format!("access.key='{key}', secret.key='{secret}'")
}

// shows: sink sqs login
// shows: source sqs login
#[test]
fn only_who_has_the_keys_may_send_and_receive() {
    let Some(server) = start() else { return };
    let apps = Apps::new(server.port(), 20);
    let config = endpoint(&apps);
    let (key, secret) = crate::amazon::user(&server, "'sqs:*'");
    let keys = options_of(&key, &secret);
    let receiving = receiver(&apps, &[("keys", &keys)], "");
    let known = Running::connected(&[&receiving, "--config", &config], 1);
    let sending = sender(&apps, &[("keys", &keys)], "");
    let sent = Running::start(&[&sending, "--config", &config, "--until-done"]);
    assert_eq!(sent.end().0, Some(0));
    eventually("all rows", || apps.received() == apps.rows);
    assert_eq!(known.stop().0, Some(0));
    for wrong in [KEYS.to_owned(), options_of(&key, "geheim-17")] {
        let sending = sender(&apps, &[("keys", &wrong), ("policy", "LOG")], "");
        let strange = Running::start(&[&sending, "--config", &config, "--until-done"]);
        strange.err_has("the server answered 403", 1);
        let said = format!("{}{}", strange.err(), strange.out());
        assert!(
            !said.contains("geheim") && !said.contains(&secret),
            "{said}"
        );
        assert_eq!(strange.end().0, Some(4));
        let receiving = receiver(&apps, &[("keys", &wrong)], "");
        let strange = Running::start(&[&receiving, "--config", &config]);
        strange.err_has("the server answered 403", 1);
        strange.stop();
    }
}

#[test]
fn what_cannot_be_deleted_is_tried_again() {
    let Some(server) = start() else { return };
    let apps = Apps::new(server.port(), 1);
    let config = endpoint(&apps);
    let sending = sender(&apps, &[], "");
    let sent = Running::start(&[&sending, "--config", &config, "--until-done"]);
    assert_eq!(sent.end().0, Some(0));
    let actions = "'sqs:ReceiveMessage', 'sqs:GetQueueUrl', 'sqs:GetQueueAttributes'";
    let (key, secret) = crate::amazon::user(&server, actions);
    let keys = options_of(&key, &secret);
    let options = "delete.retry.interval='400', max.number.of.delete.retry.attempts='2'";
    let receiving = receiver(&apps, &[("keys", &keys)], options);
    let started = Instant::now();
    let run = Running::connected(&[&receiving, "--config", &config], 1);
    run.err_has(
        "cannot delete processed messages; the queue will deliver them again",
        1,
    );
    assert!(
        started.elapsed() > Duration::from_millis(800),
        "two tries more"
    );
    run.stop();
    apps.check_at_least_once();
}

// shows: sink sqs resume
// shows: source sqs resume
#[test]
fn a_server_that_was_away_gets_and_gives_every_row() {
    let Some(mut server) = crate::amazon::lent() else {
        return;
    };
    let port = server.port();
    server.stop();
    let apps = Apps::new(port, 100);
    let config = endpoint(&apps);
    let sending = sender(&apps, &[], "");
    let sender = Running::start(&[&sending, "--config", &config, "--until-done"]);
    sender.err_has("cannot connect sink", 1);
    server.restart().expect("it starts again");
    make(&server);
    let said = format!("{}{}", sender.err(), sender.out());
    assert!(!said.contains("geheim"), "{said}");
    assert_eq!(sender.end().0, Some(0));
    // What the first receiver leaves when it ends by force comes again to the second.
    let receiving = receiver(&apps, &[], "visibility.timeout='1'");
    let first = Running::connected(&[&receiving, "--config", &config], 1);
    eventually("some rows", || apps.received().lines().count() > 20);
    first.kill();
    let second = Running::connected(&[&receiving, "--config", &config], 1);
    // In what order those come, Moto does not say: their time may end while others are handed out.
    let sent: BTreeSet<&str> = apps.rows.lines().collect();
    eventually("all rows", || {
        apps.received().lines().collect::<BTreeSet<_>>() == sent
    });
    assert_eq!(second.stop().0, Some(0));
    assert_eq!(left(&server, "rows.fifo"), "0 0");
}

#[test]
fn a_message_that_the_queue_does_not_take_is_kept_and_its_neighbours_go_on() {
    let Some(server) = start() else { return };
    let apps = Apps::new(server.port(), 0);
    let long = "x".repeat(1_100_000);
    fs::write(apps.path("in.csv"), format!("0,a\n1,{long}\n2,c\n")).expect("there is room");
    let (config, state) = (endpoint(&apps), apps.path("state"));
    let sending = sender(&apps, &[], "");
    let args = [
        &sending,
        "--config",
        &config,
        "--until-done",
        "--state",
        &state,
    ];
    let (code, summary) = Running::start(&args).end();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1, "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 2, "{summary}");
    assert!(errors(&state).contains("BatchRequestTooLong"));
    assert_eq!(left(&server, "rows.fifo"), "2 0");
}
