//! What every connector between two processes must do, whatever its technology. A new one is a line in
//! [`ALL`].

mod broker;
mod network;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use broker::{Apps, errors};
use network::{NOTICED, Running, Throttle, curl, eventually, free_port, number};
use servers::Order;

struct Technology {
    name: &'static str,
    /// A server between the two; without one the source listens.
    server: Option<&'static str>,
    source: &'static str,
    sink: &'static str,
    /// Options of a sink that otherwise waits long, whatever its `on.error`.
    impatient: &'static str,
}

/// `{port}` is that of the server or listener, `{topic}` is each test's own.
const ALL: &[Technology] = &[
    Technology {
        name: "grpc",
        server: None,
        source: "type='grpc', receiver.url='grpc://127.0.0.1:{port}/org.wso2.grpc.EventService/consume'",
        sink: "type='grpc', publisher.url='grpc://127.0.0.1:{port}/org.wso2.grpc.EventService/consume', headers=\"'stream.id:In'\"",
        impatient: "",
    },
    Technology {
        name: "http",
        server: None,
        source: "type='http', receiver.url='http://127.0.0.1:{port}/in'",
        sink: "type='http', publisher.url='http://127.0.0.1:{port}/in', max.pool.active.connections='1'",
        impatient: "",
    },
    Technology {
        name: "kafka",
        server: Some("kafka"),
        source: "type='kafka', bootstrap.servers='127.0.0.1:{port}', topic.list='{topic}', partition.no.list='0', group.id='{topic}', threading.option='single.thread'",
        sink: "type='kafka', bootstrap.servers='127.0.0.1:{port}', topic='{topic}', partition.no='0'",
        impatient: ", optional.configuration='delivery.timeout.ms:2000,request.timeout.ms:1000'",
    },
    Technology {
        name: "mqtt",
        server: Some("mosquitto"),
        source: "type='mqtt', url='tcp://127.0.0.1:{port}', topic='{topic}', client.id='in{topic}', clean.session='false', keep.alive='30'",
        sink: "type='mqtt', url='tcp://127.0.0.1:{port}', topic='{topic}', client.id='out{topic}', clean.session='false', keep.alive='30'",
        impatient: "",
    },
    Technology {
        name: "nats",
        server: Some("nats"),
        source: "type='nats', bootstrap.servers='nats://127.0.0.1:{port}', destination='{topic}', streaming.cluster.id='c', durable.name='{topic}'",
        sink: "type='nats', server.urls='nats://127.0.0.1:{port}', destination='{topic}', streaming.cluster.id='c'",
        impatient: "",
    },
    Technology {
        name: "rabbitmq",
        server: Some("rabbitmq"),
        source: "type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', exchange.name='{topic}', exchange.type='direct', routing.key='{topic}', queue.name='{topic}', queue.durable.enabled='true', exchange.durable.enabled='true', auto.ack='false', heartbeat='30'",
        sink: "type='rabbitmq', uri='amqp://guest:guest@127.0.0.1:{port}', exchange.name='{topic}', exchange.type='direct', routing.key='{topic}', exchange.durable.enabled='true'",
        impatient: "",
    },
    Technology {
        name: "tcp",
        server: None,
        source: "type='tcp', context='{topic}'",
        sink: "type='tcp', url='tcp://127.0.0.1:{port}/{topic}'",
        impatient: "",
    },
    Technology {
        name: "websocket",
        server: None,
        source: "type='websocket-server', host='127.0.0.1', port='{port}'",
        sink: "type='websocket', url='ws://127.0.0.1:{port}/{topic}'",
        impatient: "",
    },
];

const SENDER: &str = "@app:name('Sender') -- {note}
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@OnError(action='STREAM') @sink({sink}, on.error='{policy}', @map(type='{format}'{payload}))
define stream Out (n long, text string);
@sink(type='log', prefix='fault')
define stream Faults (n long, text string);
from In select * insert into Out;
from !Out select n, text insert into Faults;
";

const RECEIVER: &str = "@app:name('Receiver') -- {note}
@source({source}, @map(type='{format}'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

/// A technology within one test.
struct Between<'a> {
    technology: &'a Technology,
    topic: &'a str,
    port: u16,
}

impl Between<'_> {
    fn name(&self) -> &str {
        self.technology.name
    }

    fn sender(&self, apps: &Apps, fill: &[(&str, &str)]) -> String {
        apps.write("sender", &self.filled(SENDER, fill), "")
    }

    fn receiver(&self, apps: &Apps, fill: &[(&str, &str)]) -> String {
        apps.write("receiver", &self.filled(RECEIVER, fill), "")
    }

    /// With what is given, else the usual.
    fn filled(&self, app: &str, fill: &[(&str, &str)]) -> String {
        let usual = [
            ("note", "first"),
            ("tailing", "false"),
            ("policy", "WAIT"),
            ("format", "json"),
            ("payload", ""),
            ("source", self.technology.source),
            ("sink", self.technology.sink),
            ("topic", self.topic),
        ];
        let all = fill.iter().chain(&usual);
        all.fold(app.to_owned(), |app, (name, value)| {
            app.replace(&format!("{{{name}}}"), value)
        })
    }
}

/// Where a tcp source listens is said by the deployment.
fn deployment(apps: &Apps, port: u16) -> String {
    let port = port.to_string();
    apps.deployment(&[(
        "source",
        "tcp",
        vec![("host", "127.0.0.1"), ("port", &port)],
    )])
}

/// The server of a technology, for all tests; it ends with this process. `None` where there is none.
fn shared(name: &'static str) -> Option<u16> {
    static PORTS: Mutex<BTreeMap<&str, Option<u16>>> = Mutex::new(BTreeMap::new());
    // Never dropped, as statics are; the kernel ends them with the process.
    static RUNNING: Mutex<Vec<servers::Running>> = Mutex::new(Vec::new());
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    *ports.entry(name).or_insert_with(|| {
        let server = Order::new().start_or_skip(name)?;
        let port = server.port();
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.push(server);
        Some(port)
    })
}

/// With each technology whose server can be had.
fn with_each(topic: &str, work: impl Fn(&Between<'_>)) {
    for technology in ALL {
        eprintln!("{}", technology.name);
        let port = match technology.server {
            None => Some(free_port()),
            Some(name) => shared(name),
        };
        if let Some(port) = port {
            work(&Between {
                technology,
                topic,
                port,
            });
        }
    }
}

#[test]
fn reloads_on_both_sides_lose_nothing_and_keep_the_order() {
    with_each("reload", |between| {
        let apps = Apps::new(between.port, 1_000);
        let rows: Vec<&str> = apps.rows.lines().collect();
        let input = apps.path("in.csv");
        fs::write(&input, "").expect("the folder can be written");
        let receiving = between.receiver(&apps, &[]);
        let config = deployment(&apps, between.port);
        let receiver = Running::connected(&[&receiving, "--config", &config], 1);
        let tailing = ("tailing", "true");
        let sender = Running::connected(&[&between.sender(&apps, &[tailing])], 1);
        for (i, block) in rows.chunks(100).enumerate() {
            let mut file = fs::File::options()
                .append(true)
                .open(&input)
                .expect("it is there");
            writeln!(file, "{}", block.join("\n")).expect("there is room");
            let note = format!("edit {i}");
            between.receiver(&apps, &[("note", &note)]);
            receiver.reload();
            between.sender(&apps, &[("note", &note), tailing]);
            sender.reload();
            let times = i + 1;
            receiver.err_has("the apps were read again change", times);
            sender.err_has("the apps were read again change", times);
        }
        eventually("all rows", || {
            apps.received().trim_end().ends_with(apps.last_row())
        });
        sender.stop();
        receiver.stop();
        apps.check_at_least_once();
    });
}

/// Its destination is away at first.
const STUCK: &str = "@app:name('Stuck')
@source({source}, @map(type='json'))
define stream In (n long, text string);
@sink(type='tcp', url='tcp://127.0.0.1:{far}/far', on.error='WAIT', @map(type='binary'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const FAR: &str = "@app:name('Far')
@source(type='tcp', context='far', @map(type='binary'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

/// More bytes than lie between a stuck sink and its source: three queues of 16 MB, and as much at hand
/// in the threads between them. Long rows, so that few are enough where each is a call of its own; and no
/// two alike, which would lie there once.
const FULL_ROWS: u64 = 1_200;
const FULL_ROW_BYTES: usize = 64 << 10;

#[test]
fn an_app_that_takes_nothing_is_felt_by_the_other_side_and_nothing_is_lost() {
    let text = "x".repeat(FULL_ROW_BYTES);
    let rows: String = (0..FULL_ROWS).map(|n| format!("{n},{n}{text}\n")).collect();
    with_each("full", |between| {
        let name = between.name();
        let apps = Apps::new(between.port, 0);
        fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
        let (own, far) = (deployment(&apps, between.port), free_port());
        let stuck = between.filled(STUCK, &[("far", &far.to_string())]);
        let stuck = apps.write("stuck", &stuck, "");
        let metrics = format!("127.0.0.1:{}", free_port());
        let stuck = Running::connected(&[&stuck, "--config", &own, "--http", &metrics], 1);
        stuck.err_has("sink cannot be reached", 1);
        // Many connections, where there may be many.
        let sink = between
            .technology
            .sink
            .replace(", max.pool.active.connections='1'", "");
        let sender = between.sender(&apps, &[("sink", &sink)]);
        let sender = Running::start(&[&sender, "--until-done"]);
        // Everything between the two sinks fills up; then nothing moves.
        let (mut last, mut looks) = (0, 0);
        eventually("a halt", || {
            let now = events_taken(&metrics);
            looks = if now == last && now > 0 { looks + 1 } else { 0 };
            last = now;
            looks > 20
        });
        eprintln!("{name}: {last} of {FULL_ROWS} rows were taken in");
        assert!(last < FULL_ROWS, "{name}: {last} rows were taken in");
        let there = deployment(&apps, far);
        let far = Running::connected(&[&apps.write("far", FAR, ""), "--config", &there], 1);
        let out = apps.path("out.csv");
        eventually("all rows", || {
            fs::metadata(&out).is_ok_and(|out| out.len() >= rows.len() as u64)
        });
        let (code, summary) = sender.end();
        assert_eq!(code, Some(0), "{name}: {summary}");
        stuck.stop();
        far.stop();
        let received = apps.received();
        let mut rows: Vec<&str> = received.lines().collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len() as u64, FULL_ROWS, "{name}");
    });
}

/// What the one source of a run has taken in.
fn events_taken(metrics: &str) -> u64 {
    let text = curl(&[&format!("http://{metrics}/metrics")]).1;
    let line = |line: &&str| line.starts_with("headwater_source_events_total{");
    let found = text.lines().find(line).and_then(|l| l.rsplit(' ').next());
    found.and_then(|n| n.parse().ok()).unwrap_or_default()
}

#[test]
fn events_for_a_destination_that_is_away_go_where_on_error_says() {
    for technology in ALL {
        let between = &Between {
            technology,
            topic: "away",
            port: free_port(),
        };
        for (policy, failed, faults) in [("LOG", 3, 0), ("STREAM", 0, 3), ("STORE", 3, 0)] {
            let apps = Apps::new(between.port, 3);
            let sink = format!(
                "{}{}",
                between.technology.sink, between.technology.impatient
            );
            let sending = between.sender(&apps, &[("policy", policy), ("sink", &sink)]);
            let state = apps.path("state");
            let run = Running::start(&[&sending, "--until-done", "--state", &state]);
            let (code, summary) = run.end();
            let case = format!("{} {policy}: {summary}", between.name());
            assert_eq!(code, Some(if failed > 0 { 4 } else { 0 }), "{case}");
            assert_eq!(number(&summary, "sinks", "Out", "failed"), failed, "{case}");
            assert_eq!(number(&summary, "sinks", "Out", "events"), 0, "{case}");
            assert_eq!(
                number(&summary, "sinks", "Faults", "events"),
                faults,
                "{case}"
            );
            let kept = errors(&state).matches("row ").count() as u64;
            assert_eq!(kept, failed, "{case}: {}", errors(&state));
        }
    }
}

#[test]
fn a_payload_that_cannot_be_read_is_kept_and_its_neighbours_go_on() {
    with_each("bad", |between| {
        let apps = Apps::new(between.port, 3);
        let state = apps.path("state");
        let receiving = between.receiver(&apps, &[]);
        let config = deployment(&apps, between.port);
        let receiver = Running::connected(&[&receiving, "--config", &config, "--state", &state], 1);
        let input = "1,{\"event\":{\"n\":1,\"text\":\"a\"}}\n2,no JSON\n3,{\"event\":{\"n\":3,\"text\":\"c\"}}\n";
        let quoted: String = input
            .lines()
            .filter_map(|line| line.split_once(','))
            .map(|(n, text)| format!("{n},\"{}\"\n", text.replace('"', "\"\"")))
            .collect();
        fs::write(apps.path("in.csv"), quoted).expect("the folder can be written");
        let text = [
            ("format", "text"),
            ("payload", ", @payload('{{text}}')"),
            ("policy", "LOG"),
        ];
        let (_, sent) = Running::start(&[&between.sender(&apps, &text), "--until-done"]).end();
        let name = between.name();
        eprintln!("{name}: {sent}");
        eventually("the neighbours", || apps.received().lines().count() >= 2);
        let (code, summary) = receiver.stop();
        assert_eq!(code, Some(4), "{name}: {summary}");
        assert_eq!(
            number(&summary, "sources", "In", "rejected"),
            1,
            "{name}: {summary}"
        );
        assert_eq!(apps.received(), "1,a\n3,c\n", "{name}");
        let kept = errors(&state);
        assert!(kept.contains("no JSON"), "{name}: {kept}");
    });
}

#[test]
fn a_silent_server_is_lost_within_five_seconds() {
    for technology in ALL {
        let Some(name) = technology.server else {
            continue;
        };
        let Some(server) = Order::new().start_or_skip(name) else {
            continue;
        };
        let between = Between {
            technology,
            topic: "silent",
            port: server.port(),
        };
        let apps = Apps::new(between.port, 1);
        let receiver = Running::connected(&[&between.receiver(&apps, &[])], 1);
        // It has its input still before it, and so stays connected.
        let sender = between.sender(&apps, &[("tailing", "true")]);
        let sender = Running::connected(&[&sender], 1);
        eventually("the row", || apps.received() == apps.rows);
        server.freeze();
        let frozen = Instant::now();
        receiver.err_has("source has lost its connection", 1);
        sender.err_has("sink has lost its connection", 1);
        let silent = frozen.elapsed();
        assert!(silent < NOTICED, "{name}: {silent:?}");
        server.thaw();
        receiver.err_has("source is connected", 2);
        sender.stop();
        receiver.stop();
    }
}

/// Bytes of each row, and how fast the peer takes them.
const ROW_BYTES: usize = 200_000;
const ROWS: u64 = 800;
const BYTES_PER_SECOND: u64 = 25 << 20;

/// What a run may take at most: all rows are more than that, and what may wait is far less.
const MEMORY_MAX: u64 = 150_000_000;

#[test]
fn a_peer_that_takes_rows_slowly_holds_the_sender_and_gets_all() {
    let text = "x".repeat(ROW_BYTES);
    let rows: String = (0..ROWS).map(|n| format!("{n},{text}\n")).collect();
    assert!(rows.len() as u64 > MEMORY_MAX);
    with_each("slow", |between| {
        let name = between.name();
        let apps = Apps::new(between.port, 0);
        fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
        // Brokers of Kafka say themselves where they are.
        let own;
        let (throttle, far) = match name {
            "kafka" => {
                let port = free_port();
                let order = Order::new().with(
                    "advertised.listeners",
                    &format!("PLAINTEXT://127.0.0.1:{port}"),
                );
                let Some(broker) = order.start_or_skip("kafka") else {
                    return;
                };
                own = broker;
                let throttle = Throttle::start(port, own.port(), BYTES_PER_SECOND);
                (throttle, port)
            }
            _ => (
                Throttle::start(0, between.port, BYTES_PER_SECOND),
                between.port,
            ),
        };
        let port = |text: &str, port: u16| text.replace("{port}", &port.to_string());
        let source = port(between.technology.source, far);
        let sink = port(between.technology.sink, throttle.port);
        let csv = ("format", "csv");
        let receiving = between.receiver(&apps, &[("source", &source), csv]);
        let config = deployment(&apps, between.port);
        let receiver = Running::connected(&[&receiving, "--config", &config], 1);
        let sending = between.sender(&apps, &[("sink", &sink), csv]);
        let begun = Instant::now();
        let sender = Running::start(&[&sending, "--until-done"]);
        let (code, summary) = sender.end();
        let took = begun.elapsed();
        assert_eq!(code, Some(0), "{name}: {summary}");
        assert_eq!(number(&summary, "sinks", "Out", "events"), ROWS, "{name}");
        let least = Duration::from_secs(rows.len() as u64 / BYTES_PER_SECOND);
        assert!(took >= least, "{name}: {took:?}");
        let memory = summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
        eprintln!("{name}: {memory} bytes, {took:?}");
        assert!(memory < MEMORY_MAX, "{name}: {memory} bytes");
        eventually("all rows", || apps.received().len() >= rows.len());
        // Only now: a peer that does not answer may still have had rows in the kernel's buffers
        // when the sender was done.
        eventually("the throttle's count", || {
            throttle.passed() >= rows.len() as u64
        });
        receiver.stop();
        assert!(
            apps.received() == rows,
            "{name}: what came is not what was sent"
        );
    });
}

/// Technologies with questions for signs of life of their own.
const ASKING: [&str; 3] = ["mqtt", "nats", "websocket"];

/// One message takes longer than silence is borne, and nothing can come between its parts.
const LONG_BYTES: usize = 700_000;
const LONG_BYTES_PER_SECOND: u64 = 128 << 10;

#[test]
fn bytes_of_a_long_message_are_signs_of_life() {
    with_each("long", |between| {
        let name = between.name();
        if !ASKING.contains(&name) {
            return;
        }
        let apps = Apps::new(between.port, 0);
        let row = format!("1,{}\n", "x".repeat(LONG_BYTES));
        fs::write(apps.path("in.csv"), &row).expect("the folder can be written");
        let out = Throttle::start(0, between.port, LONG_BYTES_PER_SECOND);
        let back = Throttle::of_answers(between.port, LONG_BYTES_PER_SECOND);
        let port = |text: &str, port: u16| text.replace("{port}", &port.to_string());
        // Without a server the source listens, and reads slowly what is written slowly.
        let source = match between.technology.server {
            Some(_) => port(between.technology.source, back.port),
            None => port(between.technology.source, between.port),
        };
        let sink = port(between.technology.sink, out.port);
        let csv = ("format", "csv");
        let receiving = between.receiver(&apps, &[("source", &source), csv]);
        let receiver = Running::connected(&[&receiving], 1);
        let sending = between.sender(&apps, &[("sink", &sink), csv]);
        let sender = Running::start(&[&sending, "--until-done"]);
        eventually("the row", || apps.received().len() >= row.len());
        for run in [&sender, &receiver] {
            let said = run.err();
            assert!(!said.contains("has lost its connection"), "{name}: {said}");
        }
        let (code, summary) = sender.end();
        assert_eq!(code, Some(0), "{name}: {summary}");
        receiver.stop();
        assert!(apps.received() == row, "{name}: it came otherwise");
    });
}
