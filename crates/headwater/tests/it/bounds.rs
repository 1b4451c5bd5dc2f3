//! What a client may take of a listener: time, memory, places.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::broker::Apps;
use crate::network::{Gate, Running, curl, eventually, free_port};

const APP: &str = "@app:name('Bounds')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', {options}, @map(type='json'))
define stream In (n long);
@sink(type='log', prefix='got')
define stream Out (n long);
from In select * insert into Out;
";

struct Listener {
    _apps: Apps,
    port: u16,
    run: Running,
}

fn listen(options: &str, args: &[&str]) -> Listener {
    let apps = Apps::new(free_port(), 1);
    let app = apps.write("app", APP, options);
    let mut all = vec![app.as_str()];
    all.extend(args);
    Listener {
        port: apps.port(),
        run: Running::connected(&all, 1),
        _apps: apps,
    }
}

impl Listener {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/in", self.port)
    }

    /// A request that has begun.
    fn begin(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let head = format!("POST /in HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).expect("it reads");
        stream
    }

    fn takes(&self, n: u32) {
        let (status, _) = curl(&["-d", &format!("{{\"n\":{n}}}"), &self.url()]);
        assert_eq!(status, "200");
    }
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok();
    answer
}

#[test]
fn a_body_that_does_not_come_is_answered_408() {
    let listener = listen("body.idle.timeout='300', body.timeout='900'", &[]);
    let half: Vec<TcpStream> = (0..20)
        .map(|_| listener.begin("Content-Length: 9", "{"))
        .collect();
    for stream in half {
        let answer = answer(stream);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(answer.contains("nothing came for 300 ms"), "{answer}");
    }
    // A byte now and then is not enough.
    let mut drip = listener.begin("Content-Length: 9999", "{");
    let mut read = drip.try_clone().expect("a descriptor");
    let reading = std::thread::spawn(move || {
        let mut answer = String::new();
        read.read_to_string(&mut answer).ok();
        answer
    });
    let mut sent = Instant::now();
    eventually("the answer", || {
        if sent.elapsed() > Duration::from_millis(100) {
            sent = Instant::now();
            drip.write_all(b" ").ok();
        }
        reading.is_finished()
    });
    let answer = reading.join().expect("no panic");
    assert!(answer.contains("not complete after 900 ms"), "{answer}");
    listener.run.err_has("refusing request with 408", 1);
    listener.takes(1);
    listener.run.out_has("got", 1);
    assert_eq!(listener.run.stop().0, Some(0));
}

#[test]
fn a_body_larger_than_the_budget_is_refused_and_the_others_are_read_one_by_one() {
    let http = format!("127.0.0.1:{}", free_port());
    // A quarter of it is for bodies: 1 MiB.
    let listener = listen("", &["--memory-limit", "4MB", "--http", &http]);
    let metric = |name: &str| {
        let (_, text) = curl(&[&format!("http://{http}/metrics")]);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<u64>().ok())
    };
    let large = listener.begin("Content-Length: 2000000", "{");
    let refused = answer(large);
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    listener
        .run
        .err_has("larger than a quarter of --memory-limit", 1);
    assert_eq!(metric("headwater_arriving_refused_total"), Some(1));

    let body = format!("{{\"n\":1{}}}", " ".repeat(900_000));
    let length = format!("Content-Length: {}", body.len());
    let (first, last) = body.split_at(800_000);
    let gate = Gate::default();
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let mut stream = listener.begin(&length, "");
            let (gate, first, last) = (gate.clone(), first.to_owned(), last.to_owned());
            std::thread::spawn(move || {
                stream.write_all(first.as_bytes()).expect("it reads");
                gate.pass();
                stream.write_all(last.as_bytes()).expect("it reads");
                let mut line = [0; 12];
                stream.read_exact(&mut line).expect("an answer");
                String::from_utf8_lossy(&line).into_owned()
            })
        })
        .collect();
    eventually("most of them wait", || {
        metric("headwater_arriving_waiting").is_some_and(|waiting| waiting >= 4)
    });
    let held = metric("headwater_arriving_bytes").expect("a number");
    assert!(held <= 2 << 20, "{held}");
    gate.open();
    for client in clients {
        assert_eq!(client.join().expect("no panic"), "HTTP/1.1 200");
    }
    eventually("all is given back", || {
        metric("headwater_arriving_bytes") == Some(0)
    });
    listener.takes(2);
    assert_eq!(listener.run.stop().0, Some(0));
}

#[test]
fn rows_that_wait_for_their_app_are_of_the_budget_and_the_next_bodies_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("out.db");
    let lock = rusqlite::Connection::open(&database).expect("opens");
    let apps = Apps::new(free_port(), 1);
    let app = APP.replace(
        "from In select *",
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:{options}')\ndefine table T (n long);\n\
         from In select n insert into T;\nfrom In select *",
    );
    let app = app.replace("in', {options},", "in',");
    let app = apps.write("app", &app, database.to_str().expect("UTF-8"));
    let http = format!("127.0.0.1:{}", free_port());
    let listener = Listener {
        port: apps.port(),
        run: Running::connected(&[&app, "--memory-limit", "4MB", "--http", &http], 1),
        _apps: apps,
    };
    let metric = |name: &str| {
        let (_, text) = curl(&[&format!("http://{http}/metrics")]);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<u64>().ok())
    };
    // The app waits to write to its table, and its source for the app.
    lock.execute_batch("begin exclusive").expect("locks");
    let body = format!("{{\"event\":{{\"n\":1}}{}}}", " ".repeat(600_000));
    let length = format!("Content-Length: {}", body.len());
    let clients: Vec<_> = (0..12).map(|_| listener.begin(&length, "")).collect();
    std::thread::scope(|scope| {
        let body = &body;
        let answers: Vec<_> = clients
            .into_iter()
            .map(|mut stream| {
                scope.spawn(move || {
                    stream.write_all(body.as_bytes()).expect("it reads");
                    let mut line = [0; 12];
                    stream.read_exact(&mut line).expect("an answer");
                    String::from_utf8_lossy(&line).into_owned()
                })
            })
            .collect();
        eventually("most of them wait", || {
            metric("headwater_arriving_waiting").is_some_and(|waiting| waiting >= 9)
        });
        let held = metric("headwater_arriving_bytes").expect("a number");
        assert!(held <= 2 << 20, "{held}");
        lock.execute_batch("commit").expect("unlocks");
        for answer in answers {
            assert_eq!(answer.join().expect("no panic"), "HTTP/1.1 200");
        }
    });
    eventually("all is given back", || {
        metric("headwater_arriving_bytes") == Some(0)
    });
    listener.run.out_has("got", 12);
    assert_eq!(listener.run.stop().0, Some(0));
}

#[test]
fn pages_of_other_origins_are_refused() {
    let evil = "Origin: http://evil.example";
    let preflight = |listener: &Listener| {
        let args = ["-i", "-X", "OPTIONS", "-H", evil, &listener.url()];
        let (_, answer) = curl(&args);
        answer.to_ascii_lowercase()
    };
    let leave = "access-control-allow-origin: http://evil.example";
    let listener = listen("", &[]);
    assert!(!preflight(&listener).contains("access-control-allow-origin"));
    let two = answer(listener.begin("Host: other\r\nContent-Length: 0\r\nConnection: close", ""));
    assert!(two.starts_with("HTTP/1.1 400 "), "{two}");
    listener.takes(1);
    drop(listener);
    let listener = listen("allowed.origins='http://evil.example'", &[]);
    assert!(preflight(&listener).contains(leave));
}

#[test]
fn a_page_may_not_open_a_websocket_unless_it_may() {
    for (options, origin, status) in [
        ("", "http://evil.example", "403"),
        ("", "", "101"),
        (
            "allowed.origins='http://evil.example'",
            "http://evil.example",
            "101",
        ),
    ] {
        let apps = Apps::new(free_port(), 1);
        let app = apps.write("ws", SOCKETS, options);
        let run = Running::connected(&[&app], 1);
        let mut stream = TcpStream::connect(("127.0.0.1", apps.port())).expect("it listens");
        let origin = match origin {
            "" => String::new(),
            origin => format!("Origin: {origin}\r\n"),
        };
        let head = format!(
            "GET / HTTP/1.1\r\nHost: h\r\n{origin}Connection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut line = [0; 12];
        stream.read_exact(&mut line).expect("an answer");
        let answered = String::from_utf8_lossy(&line);
        assert!(answered.ends_with(status), "{options}: {answered}");
        drop(stream);
        run.stop();
    }
}

const SOCKETS: &str = "@app:name('Sockets')
@source(type='websocket-server', host='127.0.0.1', port='{port}', {options}, @map(type='json'))
define stream In (n long);
@sink(type='log', prefix='got')
define stream Out (n long);
from In select * insert into Out;
";

#[test]
fn a_listener_that_is_open_to_the_world_is_named() {
    let apps = Apps::new(free_port(), 1);
    let app = APP.replace("127.0.0.1", "0.0.0.0");
    let run = Running::connected(&[&apps.write("app", &app, "")], 1);
    run.err_has("listening on all addresses without authentication", 1);
    assert!(run.err().contains("source=\"Bounds/In\""), "{}", run.err());
    run.stop();
}
