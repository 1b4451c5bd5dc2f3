//! What the options of HTTP do, each seen from outside.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::broker::Apps;
use crate::network::{Gate, Running, Stub, curl, eventually, free_port, number, ok, post_all};

const SENDER: &str = "@app:name('Sender')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='http', publisher.url='{url}', {options}, @map(type='json', @payload('{{n}}')))
define stream Out (n long);
from In select * insert into Out;
";

const CALLER: &str = "@app:name('Caller')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='http-call', sink.id='c', publisher.url='{url}', {options}, @map(type='json', @payload('{{n}}')))
define stream Ask (n long);
@source(type='http-call-response', sink.id='c', {answer}, @map(type='text', fail.on.missing.attribute='false', regex.A='(.*)', @attributes(text='A[1]')))
define stream Answer (text string);
@sink(type='log', prefix='answer')
define stream Seen (text string);
from In select * insert into Ask;
from Answer select * insert into Seen;
";

/// An app that sends what is posted to it.
struct Sending {
    _apps: Apps,
    url: String,
    run: Running,
}

fn start(app: &str, to: &str, options: &str) -> Sending {
    let apps = Apps::new(free_port(), 1);
    let app = app.replace("{url}", to).replace("{answer}, ", "");
    let sources = app.matches("@source").count();
    let run = Running::connected(&[&apps.write("app", &app, options)], sources);
    Sending {
        url: format!("http://127.0.0.1:{}/in", apps.port()),
        _apps: apps,
        run,
    }
}

impl Sending {
    fn send(&self, numbers: std::ops::RangeInclusive<u32>) {
        let bodies = numbers.map(|n| format!("{{\"n\":{n}}}"));
        let statuses = post_all(&self.url, bodies);
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    }
}

fn to(port: u16) -> String {
    format!("http://127.0.0.1:{port}/out")
}

#[test]
fn a_pool_keeps_idle_connections_as_it_is_told() {
    // The first connection only asks whether somebody listens.
    for (options, connections) in [
        ("", 2),
        ("max.pool.idle.connections='0'", 4),
        ("min.evictable.idle.time='1'", 4),
    ] {
        let stub = Stub::start(0, |_| ok(""));
        // With one request at a time, the next begins when the connection has come back.
        let options = format!("max.pool.active.connections='1', {options}");
        let sending = start(SENDER, &to(stub.port), &options);
        for n in 1..=3 {
            let idle_since = Instant::now();
            eventually("some time", || {
                idle_since.elapsed() > Duration::from_millis(20)
            });
            sending.send(n..=n);
            stub.wait_for(n as usize);
        }
        assert_eq!(sending.run.stop().0, Some(0), "{options}");
        assert_eq!(stub.connections(), connections, "{options}");
    }
}

/// What a server has seen whose connections end with every fifth answer, which says so; what has come behind it
/// is not looked at.
#[derive(Default)]
struct Together {
    bodies: Vec<String>,
    /// Most requests that came at once.
    most: usize,
}

fn answer_five(mut stream: TcpStream, seen: &Mutex<Together>) {
    let (mut unread, mut count) = (String::new(), 0);
    loop {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).expect("bytes");
        if read == 0 {
            return;
        }
        unread += std::str::from_utf8(&bytes[..read]).expect("text");
        let mut together = 0;
        while let Some((head, rest)) = unread.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).expect("a length");
            let length = length.split("\r\n").next().expect("a line");
            let length: usize = length.parse().expect("a number");
            let Some(body) = rest.get(..length) else {
                break;
            };
            (count, together) = (count + 1, together + 1);
            let mut seen = seen.lock().expect("no panic");
            seen.bodies.push(body.to_owned());
            seen.most = seen.most.max(together);
            drop(seen);
            let close = if count == 5 {
                "Connection: close\r\n"
            } else {
                ""
            };
            let answer = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("written");
            if count == 5 {
                return;
            }
            unread = rest[length..].to_owned();
        }
    }
}

#[test]
fn requests_leave_together_where_the_server_takes_them_so() {
    const REQUESTS: u32 = 200;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = to(listener.local_addr().expect("an address").port());
    let seen = Arc::new(Mutex::new(Together::default()));
    // It ends with the process: a thread that waits for the next connection cannot be told.
    std::thread::spawn({
        let seen = Arc::clone(&seen);
        move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || answer_five(stream, &seen));
            }
        }
    });
    let options =
        "max.pipelined.requests='4', max.pool.active.connections='8', chunk.disabled='true'";
    let sending = start(SENDER, &url, options);
    sending.send(1..=REQUESTS);
    let count = || seen.lock().expect("no panic").bodies.len();
    eventually("all requests", || count() >= REQUESTS as usize);
    assert_eq!(sending.run.stop().0, Some(0));
    // Each once: what stood behind an answer that said close went again, by another connection.
    let mut seen = seen.lock().expect("no panic");
    seen.bodies
        .sort_by_key(|body| body.parse::<u32>().expect("a number"));
    let expect: Vec<String> = (1..=REQUESTS).map(|n| n.to_string()).collect();
    assert_eq!(seen.bodies, expect);
    assert!((2..=4).contains(&seen.most), "{}", seen.most);
}

#[test]
fn a_pool_that_is_full_fails_waits_or_grows() {
    let held = || {
        let gate = Gate::default();
        let at_stub = gate.clone();
        let stub = Stub::start(0, move |_| {
            at_stub.pass();
            ok("")
        });
        (gate, stub)
    };
    for options in [
        "exhausted.action='0'",
        "exhausted.action='1', max.wait.time='100'",
    ] {
        let (gate, stub) = held();
        let options = format!("max.pool.active.connections='1', {options}");
        let sending = start(SENDER, &to(stub.port), &options);
        sending.send(1..=1);
        eventually("the first is held", || gate.waiting() == 1);
        sending.send(2..=2);
        sending.run.err_has("all 1 connections are in use", 1);
        gate.open();
        let (code, summary) = sending.run.stop();
        assert_eq!(code, Some(4), "{options}: {summary}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), 1, "{options}");
        assert_eq!(stub.got().len(), 1, "{options}");
    }
    for (action, at_once) in [(1, 1), (2, 2)] {
        let (gate, stub) = held();
        let options = format!("max.pool.active.connections='1', exhausted.action='{action}'");
        let sending = start(SENDER, &to(stub.port), &options);
        sending.send(1..=2);
        eventually("they are held", || gate.waiting() == at_once);
        gate.open();
        stub.wait_for(2);
        assert_eq!(sending.run.stop().0, Some(0), "{action}");
        assert_eq!(gate.most(), at_once, "{action}");
    }
}

#[test]
fn a_server_that_is_silent_is_given_up_after_its_time() {
    for (options, cause) in [
        ("socket.idle.timeout='300'", "no answer within 300 ms"),
        (
            "client.bootstrap.configurations=\"'client.bootstrap.socket.timeout:1','client.bootstrap.nodelay:true'\"",
            "no answer within 1000 ms",
        ),
    ] {
        let gate = Gate::default();
        let at_stub = gate.clone();
        let stub = Stub::start(0, move |_| {
            at_stub.pass();
            ok("")
        });
        let sending = start(SENDER, &to(stub.port), options);
        sending.send(1..=1);
        sending.send(2..=2);
        sending.run.err_has(cause, 1);
        let (code, summary) = sending.run.stop();
        gate.open();
        assert_eq!(code, Some(4), "{options}: {summary}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), 2, "{options}");
    }
}

#[test]
fn a_call_that_blocks_waits_for_its_response() {
    for (blocking, at_once) in [(true, 1), (false, 2)] {
        let gate = Gate::default();
        let at_stub = gate.clone();
        let stub = Stub::start(0, move |got| {
            at_stub.pass();
            ok(&got.body)
        });
        let sending = start(CALLER, &to(stub.port), &format!("blocking.io='{blocking}'"));
        sending.send(1..=2);
        eventually("they are held", || gate.waiting() == at_once);
        gate.open();
        for n in 1..=2 {
            sending.run.out_has(&format!("data=[{n}]"), 1);
        }
        assert_eq!(sending.run.stop().0, Some(0));
        assert_eq!(gate.most(), at_once);
    }
}

#[test]
fn a_response_goes_to_a_file_where_it_is_told_to() {
    let stub = Stub::start(0, |got| ok(&format!("content {}", got.body)));
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("new").display().to_string();
    let options = format!("downloading.enabled='true', download.path='{path}/{{{{n}}}}.txt'");
    let sending = start(CALLER, &to(stub.port), &options);
    sending.send(1..=2);
    for n in 1..=2 {
        sending.run.out_has(&format!("data=[{path}/{n}.txt]"), 1);
        let content = fs::read_to_string(format!("{path}/{n}.txt")).expect("a file");
        assert_eq!(content, format!("content {n}"));
    }
    assert_eq!(sending.run.stop().0, Some(0));
}

#[test]
fn every_piece_of_a_response_is_a_message_where_it_is_streamed() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n";
    for (streamed, messages) in [
        ("true", &["data=[first]", "data=[second]"][..]),
        ("false", &["data=[firstsecond]"]),
    ] {
        let stub = Stub::start(0, move |_| answer.to_owned());
        let option = format!("allow.streaming.responses='{streamed}'");
        let app = CALLER.replace("{answer}", &option);
        let sending = start(&app, &to(stub.port), "");
        sending.send(1..=1);
        for message in messages {
            sending.run.out_has(message, 1);
        }
        let (code, summary) = sending.run.stop();
        assert_eq!(code, Some(0), "{summary}");
        let events = number(&summary, "sources", "Answer", "events");
        assert_eq!(events as usize, messages.len(), "{streamed}");
    }
}

const LISTENER: &str = "@app:name('Listener')
@source(type='http', receiver.url='{scheme}://0.0.0.0:{port}/in', {options}, @map(type='json'))
define stream In (n long);
@sink(type='log', prefix='in')
define stream Seen (n long);
from In select * insert into Seen;
";

fn listen(apps: &Apps, scheme: &str, options: &str, config: &str) -> Running {
    let app = apps.write("listener", &LISTENER.replace("{scheme}", scheme), options);
    Running::connected(&[&app, "--config", config], 1)
}

/// What an extension is told where nothing is to be told.
fn nothing(apps: &Apps) -> String {
    apps.deployment(&[("source", "http", vec![("defaultHost", "127.0.0.1")])])
}

#[test]
fn a_connection_without_requests_is_closed_after_its_time() {
    for (options, millis) in [
        ("socket.idle.timeout='300'", 300),
        (
            "server.bootstrap.configurations=\"'server.bootstrap.socket.timeout:1','server.bootstrap.socket.backlog:9'\"",
            1000,
        ),
    ] {
        let apps = Apps::new(free_port(), 1);
        let run = listen(&apps, "http", options, &nothing(&apps));
        let mut stream = TcpStream::connect(("127.0.0.1", apps.port())).expect("it listens");
        let since = Instant::now();
        stream
            .write_all(b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\"n\":1}")
            .expect("it reads");
        let mut answer = String::new();
        // Until the other side closes.
        stream.read_to_string(&mut answer).expect("text");
        let took = since.elapsed();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let limits = Duration::from_millis(millis)..Duration::from_millis(millis + 9_000);
        assert!(limits.contains(&took), "{options}: {took:?}");
        assert_eq!(run.stop().0, Some(0));
    }
}

#[test]
fn request_lines_and_headers_that_are_too_long_are_refused() {
    let options = "header.validation.configurations=\"'header.size.validation:true','header.validation.maximum.request.line:60',\
                   'header.validation.maximum.size:400','header.validation.reject.status.code:414','header.validation.reject.message:too long'\"";
    let apps = Apps::new(free_port(), 1);
    let run = listen(&apps, "http", options, &nothing(&apps));
    let url = format!("http://127.0.0.1:{}/in", apps.port());
    let long = "x".repeat(400);
    let (header, query) = (format!("X-Long: {long}"), format!("{url}?{long}"));
    for (args, status) in [
        (&["-d", "{\"n\":1}", &url][..], "200"),
        (&["-d", "{\"n\":2}", "-H", &header, &url], "414"),
        (&["-d", "{\"n\":3}", &query], "414"),
    ] {
        let (found, body) = curl(args);
        assert_eq!(found, status, "{args:?}");
        assert!(status == "200" || body == "too long", "{body}");
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "events"), 1);
}

#[test]
fn traffic_is_logged_where_it_is_asked_for() {
    for traced in [true, false] {
        let apps = Apps::new(free_port(), 1);
        let option = format!("trace.log.enabled='{traced}'");
        let run = listen(&apps, "http", &option, &nothing(&apps));
        let url = format!("http://127.0.0.1:{}/in", apps.port());
        assert_eq!(curl(&["-d", "{\"n\":4711}", &url]).0, "200");
        run.out_has("data=[4711]", 1);
        if traced {
            run.err_has("4711", 1);
        }
        let said = run.err();
        assert_eq!(run.stop().0, Some(0));
        assert_eq!(said.contains("4711"), traced, "{said}");
    }
}

/// A listener with a key of the tests, which lets in who has the same.
fn secure(apps: &Apps, options: &str) -> Running {
    let (key, trust) = (
        crate::broker::key_file("server.jks"),
        crate::broker::key_file("server.p12"),
    );
    let config = apps.deployment(&[(
        "source",
        "http",
        vec![
            ("keyStoreLocation", key.as_str()),
            ("keyStorePassword", "wso2carbon"),
            ("keyPassword", "secret12"),
            ("trustStoreLocation", trust.as_str()),
            ("trustStorePassword", "wso2carbon"),
        ],
    )]);
    listen(apps, "https", options, &config)
}

/// Sends an event to a listener over TLS: did it arrive?
fn arrives(listener: &Apps, host: &str, options: &str) -> bool {
    let trust = crate::broker::key_file("server.p12");
    let url = format!("https://{host}:{}/in", listener.port());
    let options = format!(
        "https.truststore.file='{trust}', https.truststore.password='wso2carbon', {options}"
    );
    let app = SENDER.replace("@payload('{{n}}')", "@payload('{\"n\":{{n}}}')");
    let sending = start(&app, &url, &options);
    sending.send(1..=1);
    let (_, summary) = sending.run.stop();
    number(&summary, "sinks", "Out", "failed") == 0
}

#[test]
fn a_client_shows_its_certificate_where_the_listener_asks_for_one() {
    let key = crate::broker::key_file("server.jks");
    let shown = format!(
        "https.keystore.file='{key}', https.keystore.password='wso2carbon', https.keystore.key.password='secret12'"
    );
    for (verify, without) in [("require", false), ("optional", true)] {
        let apps = Apps::new(free_port(), 1);
        let run = secure(&apps, &format!("ssl.verify.client='{verify}'"));
        assert!(arrives(&apps, "localhost", &shown), "{verify}");
        assert_eq!(arrives(&apps, "localhost", ""), without, "{verify}");
        let (_, summary) = run.stop();
        let events = number(&summary, "sources", "In", "events");
        assert_eq!(events, 1 + u64::from(without), "{verify}");
    }
    // A store that does not open, and a key that does not, are refused when the app begins.
    let apps = Apps::new(free_port(), 1);
    for (right, wrong, cause) in [
        (
            "https.keystore.password='wso2carbon'",
            "https.keystore.password='other'",
            "password",
        ),
        (
            "https.keystore.key.password='secret12'",
            "https.keystore.key.password='other'",
            "key",
        ),
    ] {
        let app = SENDER.replace("{url}", "https://localhost:1/in");
        let app = apps.write("wrong", &app, &shown.replace(right, wrong));
        let run = Running::start(&[&app]);
        run.err_has(cause, 1);
        drop(run);
    }
}

#[test]
fn the_name_in_a_certificate_is_compared_unless_it_is_not_to_be() {
    let apps = Apps::new(free_port(), 1);
    let run = secure(&apps, "");
    assert!(arrives(&apps, "localhost", ""));
    // The listener is there as well, and the certificate does not name it.
    assert!(!arrives(&apps, "127.0.0.2", ""));
    assert!(arrives(
        &apps,
        "127.0.0.2",
        "hostname.verification.enabled='false'"
    ));
    run.stop();
}

#[test]
fn both_sides_speak_the_protocol_that_they_are_told() {
    for (of_listener, of_client, is_possible) in [
        ("TLSv1.3", "TLSv1.3", true),
        ("TLSv1.3", "TLSv1.2", false),
        ("TLSv1.2", "TLSv1.2", true),
        ("TLSv1.2", "TLSv1.3", false),
    ] {
        let apps = Apps::new(free_port(), 1);
        let run = secure(&apps, &format!("ssl.protocol='{of_listener}'"));
        let client = format!("ssl.protocol='{of_client}'");
        let found = arrives(&apps, "localhost", &client);
        assert_eq!(found, is_possible, "{of_listener}, {of_client}");
        run.stop();
    }
}
