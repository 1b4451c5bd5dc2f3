//! What a client may take of a listener: time, memory, places.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::broker::Apps;
use crate::network::{Running, curl, eventually, free_port};

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
