//! The cases of the kit. Above each: which cells of `cargo xtask connectors` it shows, `*` for each
//! technology that has the case.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use testservers::Order as ServerOrder;

use super::subject::{Between, Subject, replaced};
use crate::broker::{Apps, errors, key_file, resting_bytes};
use crate::network::{NOTICED, Running, Throttle, curl, eventually, free_port, number};

const RELOADED: &str = "apps reloaded change";

/// An app as `headwater run` is told of it.
fn args<'a>(app: &'a str, deployment: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let deployment = deployment.iter().map(String::as_str);
    let more = more.iter().copied();
    std::iter::once(app).chain(deployment).chain(more).collect()
}

fn append(apps: &Apps, lines: &str) {
    let file = fs::File::options().append(true).open(apps.path("in.csv"));
    writeln!(file.expect("it is there"), "{lines}").expect("there is room");
}

/// `{port}` in a text is this one.
fn at_port(text: &str, port: u16) -> String {
    text.replace("{port}", &port.to_string())
}

// shows: sink * open, order
// shows: source * open, order
pub fn order(technology: &Subject) {
    for (i, order) in technology.order.iter().enumerate() {
        let topic = format!("order{i}");
        let Some(between) = Between::shared(technology, &topic) else {
            return;
        };
        let apps = Apps::new(between.port, order.rows);
        let deployment = between.deployment(&apps);
        let [source, sink] = order.without;
        let source = replaced(technology.source, (source, ""));
        let sink = replaced(technology.sink, (sink, ""));
        let fill = [
            ("format", "csv"),
            ("more", order.more),
            ("source", &source),
            ("sink", &sink),
        ];
        let receiving = between.receiver(&apps, &fill);
        let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
        let sending = between.sender(&apps, &fill);
        let sender = Running::start(&args(&sending, &deployment, &["--until-done"]));
        let (code, summary) = sender.end();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sinks", "Out", "events"), order.rows);
        if !order.stop_takes_all {
            eventually("all rows", || apps.received().len() >= apps.rows.len());
        }
        let (code, summary) = receiver.stop();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sources", "In", "events"), order.rows);
        apps.check();
    }
}

// shows: sink * order, reload
// shows: source * order, reload
// shows: sink file reload
// shows: source file reload
pub fn reload(technology: &Subject) {
    let Some(between) = Between::shared(technology, "reload") else {
        return;
    };
    let apps = Apps::new(between.port, 1_000);
    let rows: Vec<&str> = apps.rows.lines().collect();
    fs::write(apps.path("in.csv"), "").expect("the folder can be written");
    let deployment = between.deployment(&apps);
    let receiving = between.receiver(&apps, &[]);
    let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
    let tailing = ("tailing", "true");
    let sending = between.sender(&apps, &[tailing]);
    let sender = Running::connected(&args(&sending, &deployment, &[]), 1);
    for (i, block) in rows.chunks(100).enumerate() {
        append(&apps, &block.join("\n"));
        let note = format!("edit {i}");
        between.receiver(&apps, &[("note", &note)]);
        receiver.reload();
        between.sender(&apps, &[("note", &note), tailing]);
        sender.reload();
        let times = i + 1;
        receiver.err_has(RELOADED, times);
        sender.err_has(RELOADED, times);
    }
    eventually("all rows", || {
        apps.received().trim_end().ends_with(apps.last_row())
    });
    sender.stop();
    receiver.stop();
    apps.check_at_least_once();
    if let Some(server) = between.server {
        (technology.afterwards)(server, between.topic);
    }
}

/// Its destination is away at first.
const STUCK: &str = "@app:name('Stuck')
@source({source}, @map(type='{format}'))
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

/// An app that takes nothing is felt by the other side, and nothing is lost.
// shows: source * slow
pub fn full(technology: &Subject) {
    let Some(between) = Between::shared(technology, "full") else {
        return;
    };
    let text = "x".repeat(FULL_ROW_BYTES);
    let rows: String = (0..FULL_ROWS).map(|n| format!("{n},{n}{text}\n")).collect();
    let apps = Apps::new(between.port, 0);
    fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
    let (own, far) = (between.deployment(&apps), free_port());
    let stuck = between.filled(STUCK, &[("far", &far.to_string())]);
    let stuck = apps.write("stuck", &stuck, "");
    let metrics = format!("127.0.0.1:{}", free_port());
    let stuck = Running::connected(&args(&stuck, &own, &["--http", &metrics]), 1);
    stuck.err_has("cannot connect sink", 1);
    // Many connections, where there may be many.
    let sender = between.sender(&apps, &[("ordered", "")]);
    let sender = Running::start(&[&sender, "--until-done"]);
    // Everything between the two sinks fills up; then nothing moves.
    let (mut last, mut looks) = (0, 0);
    eventually("a halt", || {
        let now = events_taken(&metrics);
        looks = if now == last && now > 0 { looks + 1 } else { 0 };
        last = now;
        looks > 20
    });
    eprintln!("{last} of {FULL_ROWS} rows were taken in");
    assert!(last < FULL_ROWS, "{last} rows were taken in");
    let port = far.to_string();
    let there = apps.deployment(&[(
        "source",
        "tcp",
        vec![("host", "127.0.0.1"), ("port", &port)],
    )]);
    let far = Running::connected(&[&apps.write("far", FAR, ""), "--config", &there], 1);
    let out = apps.path("out.csv");
    eventually("all rows", || {
        fs::metadata(&out).is_ok_and(|out| out.len() >= rows.len() as u64)
    });
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    stuck.stop();
    far.stop();
    let received = apps.received();
    let mut rows: Vec<&str> = received.lines().collect();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len() as u64, FULL_ROWS);
}

/// What the one source of a run has taken in.
fn events_taken(metrics: &str) -> u64 {
    let text = curl(&[&format!("http://{metrics}/metrics")]).1;
    let line = |line: &&str| line.starts_with("headwater_source_events_total{");
    let found = text.lines().find(line).and_then(|l| l.rsplit(' ').next());
    found.and_then(|n| n.parse().ok()).unwrap_or_default()
}

/// Events for a destination that is away go where `on.error` says.
// shows: sink * error
pub fn away(technology: &Subject) {
    let between = Between {
        technology,
        topic: "away",
        port: free_port(),
        server: None,
    };
    for (policy, failed, faults) in [("LOG", 3, 0), ("STREAM", 0, 3), ("STORE", 3, 0)] {
        let apps = Apps::new(between.port, 3);
        let deployment = between.deployment(&apps);
        let fill = [("policy", policy), ("more", technology.impatient)];
        let sending = between.sender(&apps, &fill);
        let state = apps.path("state");
        let more = ["--until-done", "--state", &state];
        let (code, summary) = Running::start(&args(&sending, &deployment, &more)).end();
        let case = format!("{policy}: {summary}");
        assert_eq!(code, Some(if failed > 0 { 4 } else { 0 }), "{case}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), failed, "{case}");
        assert_eq!(number(&summary, "sinks", "Out", "events"), 0, "{case}");
        let found = number(&summary, "sinks", "Faults", "events");
        assert_eq!(found, faults, "{case}");
        let kept = errors(&state).matches("row ").count() as u64;
        assert_eq!(kept, failed, "{case}: {}", errors(&state));
    }
}

/// A payload that cannot be read is kept, and its neighbours are taken.
// shows: source * bad
pub fn bad(technology: &Subject) {
    let Some(between) = Between::shared(technology, "bad") else {
        return;
    };
    let apps = Apps::new(between.port, 3);
    let state = apps.path("state");
    let deployment = between.deployment(&apps);
    let receiving = between.receiver(&apps, &[]);
    let receiver = Running::connected(&args(&receiving, &deployment, &["--state", &state]), 1);
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
    let sending = between.sender(&apps, &text);
    let (_, sent) = Running::start(&args(&sending, &deployment, &["--until-done"])).end();
    eprintln!("{sent}");
    eventually("the neighbours", || apps.received().lines().count() >= 2);
    let (code, summary) = receiver.stop();
    assert_eq!(code, Some(4), "{summary}");
    let rejected = number(&summary, "sources", "In", "rejected");
    assert_eq!(rejected, 1, "{summary}");
    assert_eq!(apps.received(), "1,a\n3,c\n");
    let kept = errors(&state);
    assert!(kept.contains("no JSON"), "{kept}");
    if let Some(server) = between.server {
        // What was rejected does not come again either.
        (technology.afterwards)(server, between.topic);
    }
}

/// A server that answers nothing is lost within five seconds.
// shows: sink * lost
// shows: source * lost
pub fn silent(technology: &Subject) {
    let (Some(name), Some(silent)) = (technology.server, &technology.silent) else {
        return;
    };
    let Some(server) = testservers::lent(name) else {
        return;
    };
    let between = Between::on(technology, "silent", &server);
    let apps = Apps::new(between.port, 1);
    let deployment = between.deployment(&apps);
    let receiving = between.receiver(&apps, &[("more", silent.source)]);
    let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
    // It has its input still before it, and so stays connected.
    let sending = between.sender(&apps, &[("tailing", "true")]);
    let sender = Running::connected(&args(&sending, &deployment, &[]), 1);
    eventually("the row", || apps.received() == apps.rows);
    server.freeze();
    let frozen = Instant::now();
    if silent.is_asked {
        append(&apps, "1,more");
    }
    receiver.err_has("source lost its connection", 1);
    sender.err_has("sink lost its connection; reconnecting", 1);
    let lost_after = frozen.elapsed();
    assert!(lost_after < NOTICED, "{lost_after:?}");
    server.thaw();
    receiver.err_has("source is ready", 2);
    if silent.is_asked {
        eventually("the other row", || apps.received().ends_with("1,more\n"));
    }
    sender.stop();
    receiver.stop();
}

/// A server that goes away and comes back gets and gives everything.
// shows: sink * resume, error
// shows: source * resume
pub fn restart(technology: &Subject) {
    let (Some(name), Some(restart)) = (technology.server, &technology.restart) else {
        return;
    };
    let Some(mut server) = testservers::lent(name) else {
        return;
    };
    let port = server.port();
    (technology.prepare)(&server, "restart");
    let between = Between {
        technology,
        topic: "restart",
        port,
        server: None,
    };
    let apps = Apps::new(port, restart.rows);
    apps.hold_back(restart.before);
    let deployment = between.deployment(&apps);
    let csv = ("format", "csv");
    let receiving = between.receiver(&apps, &[csv, ("more", restart.source)]);
    let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
    let fill = [csv, ("more", restart.sink), ("tailing", "true")];
    let sending = between.sender(&apps, &fill);
    let sender = Running::connected(&args(&sending, &deployment, &[]), 1);
    eventually("some rows", || !apps.received().is_empty());
    match restart.is_killed {
        true => server.kill(),
        false => server.stop(),
    }
    sender.err_has("sink lost its connection; reconnecting", 1);
    receiver.err_has("source lost its connection", 1);
    apps.add_rest(restart.before);
    server.restart().expect("it starts again");
    receiver.err_has("source is ready", 2);
    eventually("all rows", || {
        let received = apps.received();
        received.len() >= apps.rows.len() && received.trim_end().ends_with(apps.last_row())
    });
    let first = receiver.err();
    receiver.stop();
    // Shown where what follows fails.
    eprintln!("the first receiver: {first}\nthe server: {}", server.log());
    match restart.is_once {
        true => apps.check(),
        false => apps.check_at_least_once(),
    }
    // Its place is kept: there is nothing for it but what comes now.
    let before = apps.received();
    append(&apps, "-1,after");
    let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
    eventually("the one row after", || {
        apps.received().ends_with("-1,after\n")
    });
    receiver.stop();
    let said = sender.err();
    let (code, summary) = sender.stop();
    assert_eq!(code, Some(0), "{summary}");
    if restart.is_once {
        let received = apps.received();
        let after = received.strip_prefix(&before);
        let again = after.map(|rows| (rows.lines().count(), rows.lines().next()));
        assert!(
            after == Some("-1,after\n"),
            "only what came after the stop, but there are rows from {again:?} again; {summary}; the first \
             receiver: {first}; the sender: {said}"
        );
    }
}

/// A source that was killed goes on with what its state has not.
// shows: source * resume
pub fn killed(technology: &Subject) {
    let Some((changes, rows)) = technology.killed else {
        return;
    };
    for (i, change) in changes.iter().enumerate() {
        let topic = format!("killed{i}");
        let Some(between) = Between::shared(technology, &topic) else {
            return;
        };
        let apps = Apps::new(between.port, rows);
        let deployment = between.deployment(&apps);
        let source = replaced(technology.source, *change);
        let csv = ("format", "csv");
        let receiving = between.receiver(&apps, &[csv, ("source", &source)]);
        let state = apps.path("state");
        let more = ["--state", &state, "--state-interval", "100ms"];
        let receiving = args(&receiving, &deployment, &more);
        let receiver = Running::connected(&receiving, 1);
        let sending = between.sender(&apps, &[csv]);
        let sender = Running::start(&args(&sending, &deployment, &["--until-done"]));
        eventually("some rows", || !apps.received().is_empty());
        receiver.kill();
        let (code, summary) = sender.end();
        assert_eq!(code, Some(0), "{summary}");
        let receiver = Running::connected(&receiving, 1);
        eventually("all rows", || {
            apps.received().trim_end().ends_with(apps.last_row())
        });
        receiver.stop();
        apps.check_at_least_once();
    }
}

/// Only who proves who he is is let in, and no secret is shown.
// shows: sink * login
// shows: source * login
pub fn login(technology: &Subject) {
    for login in technology.login {
        let Some(name) = technology.server else {
            return;
        };
        let (key, value) = login.server;
        let Some(server) = ServerOrder::new().with(key, value).start_or_skip(name) else {
            return;
        };
        let between = Between::on(technology, "login", &server);
        let apps = Apps::new(between.port, 5);
        let [source, sink] = login.right;
        let csv = ("format", "csv");
        let receiving = between.receiver(&apps, &[csv, ("login", source)]);
        let receiver = Running::connected(&[&receiving], 1);
        let sending = between.sender(&apps, &[csv, ("login", sink)]);
        let sender = Running::start(&[&sending, "--until-done"]);
        assert_eq!(sender.end().0, Some(0));
        eventually("all rows", || apps.received() == apps.rows);
        let wrong = between.receiver(&apps, &[csv, ("login", login.wrong)]);
        let refused = Running::start(&[&wrong]);
        refused.err_has(login.refused, 1);
        // Not as one that is away: some servers lock an account after a number of tries.
        refused.err_has("cannot log in to", 1);
        for run in [refused, receiver] {
            let said = format!("{}{}", run.err(), run.out());
            assert!(!said.contains("geheim"), "{said}");
            run.stop();
        }
    }
}

/// TLS to whom is trusted, and to nobody else.
// shows: sink * tls
// shows: source * tls
pub fn tls(technology: &Subject) {
    let (Some(name), Some(tls)) = (technology.server, &technology.tls) else {
        return;
    };
    let pem = key_file("server.pem");
    let order = tls.server.iter();
    let order = order.fold(ServerOrder::new(), |order, key| order.with(key, &pem));
    let Some(server) = order.start_or_skip(name) else {
        return;
    };
    let between = Between::on(technology, "tls", &server);
    let apps = Apps::new(between.port, 5);
    let source = replaced(technology.source, tls.url);
    let sink = replaced(technology.sink, tls.url);
    let csv = ("format", "csv");
    let trusting = [
        csv,
        ("source", &source),
        ("sink", &sink),
        ("tls", tls.trusting),
    ];
    let port = |_: &str| between.port;
    let deployment = between.deployment_to(&apps, port, tls.deployment, tls.url);
    let receiving = between.receiver(&apps, &trusting);
    let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
    let sending = between.sender(&apps, &trusting);
    let sender = Running::start(&args(&sending, &deployment, &["--until-done"]));
    assert_eq!(sender.end().0, Some(0));
    eventually("all rows", || apps.received() == apps.rows);
    receiver.stop();
    // Nobody has signed it but itself.
    let strange = [
        csv,
        ("source", &source),
        ("sink", &sink),
        ("tls", tls.strange),
    ];
    let deployment = between.deployment_to(&apps, port, &[], tls.url);
    let receiving = between.receiver(&apps, &strange);
    let receiver = Running::start(&args(&receiving, &deployment, &[]));
    receiver.err_has("certificate", 1);
    receiver.stop();
    let sending = between.sender(&apps, &strange);
    let sender = Running::start(&args(&sending, &deployment, &[]));
    sender.err_has("certificate", 1);
    drop(sender);
    if let Some(said) = tls.clear {
        let clear = Running::start(&[&between.receiver(&apps, &[csv])]);
        clear.err_has(said, 1);
        clear.stop();
    }
}

/// What a run may take beyond one at rest, in bytes, while its rows wait: what may wait is far less.
const MEMORY_MAX: u64 = 100_000_000;

/// A peer that takes rows slowly holds the sender, and gets all.
// shows: sink * slow
pub fn slow(technology: &Subject) {
    let slow = &technology.slow;
    // Brokers of Kafka say themselves where they are, so that this one says it is the throttle.
    let own;
    let (between, throttle, far) = match technology.name {
        "kafka" => {
            let port = free_port();
            let listeners = format!("PLAINTEXT://127.0.0.1:{port}");
            let order = ServerOrder::new().with("advertised.listeners", &listeners);
            let Some(broker) = order.start_or_skip("kafka") else {
                return;
            };
            own = broker;
            let throttle = Throttle::start(port, own.port(), slow.bytes_per_second);
            (Between::on(technology, "slow", &own), throttle, port)
        }
        _ => {
            let Some(between) = Between::shared(technology, "slow") else {
                return;
            };
            let port = between.port;
            let throttle = Throttle::start(0, port, slow.bytes_per_second);
            (between, throttle, port)
        }
    };
    let text = "x".repeat(slow.row_bytes);
    let rows: String = (0..slow.rows).map(|n| format!("{n},{text}\n")).collect();
    let apps = Apps::new(between.port, 0);
    fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
    let source = at_port(technology.source, far);
    let sink = at_port(technology.sink, throttle.port);
    let csv = ("format", "csv");
    let port = |kind: &str| match kind {
        "sink" => throttle.port,
        _ => between.port,
    };
    let deployment = between.deployment_to(&apps, port, &[], ("", ""));
    let receiving = between.receiver(&apps, &[("source", &source), csv]);
    let receiver = Running::connected(&args(&receiving, &deployment, &[]), 1);
    let sending = between.sender(&apps, &[("sink", &sink), csv]);
    let begun = Instant::now();
    let sender = Running::start(&args(&sending, &deployment, &["--until-done"]));
    let (code, summary) = sender.end();
    let took = begun.elapsed();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), slow.rows);
    let least = Duration::from_secs(rows.len() as u64 / slow.bytes_per_second);
    assert!(took >= least, "{took:?}");
    let memory = summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
    eprintln!("{memory} bytes, {took:?}");
    assert!(memory < resting_bytes() + MEMORY_MAX, "{memory} bytes");
    eventually("all rows", || apps.received().len() >= rows.len());
    // Only now: a peer that does not answer may still have had rows in the kernel's buffers
    // when the sender was done.
    eventually("the throttle's count", || {
        throttle.passed() >= rows.len() as u64
    });
    receiver.stop();
    assert!(apps.received() == rows, "what came is not what was sent");
    if let Some(server) = between.server {
        (technology.afterwards)(server, between.topic);
    }
}

/// One message takes longer than silence is borne, and nothing can come between its parts.
const LONG_BYTES: usize = 700_000;
const LONG_BYTES_PER_SECOND: u64 = 128 << 10;

/// Bytes of a long message are signs of life.
// shows: sink * lost
// shows: source * lost
pub fn long(technology: &Subject) {
    let Some(between) = Between::shared(technology, "long") else {
        return;
    };
    let apps = Apps::new(between.port, 0);
    let row = format!("1,{}\n", "x".repeat(LONG_BYTES));
    fs::write(apps.path("in.csv"), &row).expect("the folder can be written");
    let out = Throttle::start(0, between.port, LONG_BYTES_PER_SECOND);
    let back = Throttle::of_answers(between.port, LONG_BYTES_PER_SECOND);
    // Without a server the source listens, and reads slowly what is written slowly.
    let source = match technology.server {
        Some(_) => at_port(technology.source, back.port),
        None => at_port(technology.source, between.port),
    };
    let sink = at_port(technology.sink, out.port);
    let csv = ("format", "csv");
    let receiving = between.receiver(&apps, &[("source", &source), csv]);
    let receiver = Running::connected(&[&receiving], 1);
    let sending = between.sender(&apps, &[("sink", &sink), csv]);
    let sender = Running::start(&[&sending, "--until-done"]);
    eventually("the row", || apps.received().len() >= row.len());
    for run in [&sender, &receiver] {
        let said = run.err();
        assert!(!said.contains("lost its connection"), "{said}");
    }
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    receiver.stop();
    assert!(apps.received() == row, "it came otherwise");
}
