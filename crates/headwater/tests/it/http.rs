//! HTTP against real clients and servers: `curl`, raw connections, and stubs that answer as told.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::kit::Subject;
use crate::network::{
    NOTICED, Running, Stub, curl, eventually, free_port, number, ok, post_all, published,
};

// row: sink http | our http source, and a server of the test
// n/a bad: a sink reads no payload

// row: source http | curl {curl}, and our http sink
// n/a lost: a client that goes away is no loss to a listener
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "http",
    source: "type='http', receiver.url='http://127.0.0.1:{port}/in'",
    sink: "type='http', publisher.url='http://127.0.0.1:{port}/in'",
    ordered: ", max.pool.active.connections='1'",
    ..Subject::PLAIN
};

const HTTP_SOURCE: &str = "@App:name('HttpSource')
@source(type='http', worker.count='20', receiver.url='http://172.31.2.99:8081/service', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='log')
define stream HttpSourceThroughputStream(count long);
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into HttpSourceThroughputStream;
";

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("the folder can be written");
    path.display().to_string()
}

fn sweets(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|i| format!("{{\"name\":\"n{i}\",\"amount\":{i}.5}}"))
}

// shows: source http bad, login
// shows: sink http login
#[test]
fn the_published_source_takes_what_curl_posts_and_says_no_as_siddhi_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = published(dir.path(), "HttpSource.siddhi", HTTP_SOURCE);
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/service");
    let set = format!("SweetProductionStream.source.receiver.url={url}");
    let run = Running::connected(&[&app.display().to_string(), "--set", &set], 1);
    let event = r#"{"name":"a","amount":1.5}"#;
    let batch = format!("[{event},{event},{event}]");
    for (args, status) in [
        (&["-d", event, &url][..], "200"),
        (&["-d", &batch, &url], "200"),
        (&["-d", "nonsense", &url], "200"),
        (
            &["-H", "Transfer-Encoding: chunked", "-d", event, &url],
            "200",
        ),
        (&[&url], "405"),
        (&["-X", "POST", &url], "405"),
        (&["-d", event, &format!("{url}/more")], "404"),
        (&["-d", event, &format!("{url}?a=b")], "200"),
    ] {
        assert_eq!(curl(args).0, status, "{args:?}");
    }
    let preflight = |origin: &str| {
        let origin = format!("Origin: {origin}");
        let (status, answer) = curl(&["-i", "-X", "OPTIONS", "-H", &origin, &url]);
        assert_eq!(status, "200");
        assert!(answer.contains("access-control-allow-methods: POST"));
        answer.contains(&format!("access-control-allow-{}", origin.to_lowercase()))
    };
    assert!(preflight(&format!("http://127.0.0.1:{port}")), "its own");
    assert!(!preflight("http://x"));
    let statuses = post_all(&url, sweets(0..2000));
    assert!(statuses.iter().all(|s| *s == 200));
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one request was rejected");
    let of = |what| number(&summary, "sources", "SweetProductionStream", what);
    assert_eq!((of("events"), of("rejected")), (2006, 1));
}

const ORDERED: &str = "@app:name('Ordered')
@source(type='http', receiver.url='http://127.0.0.1:{port}/a', worker.count='20', @map(type='json', @attributes(n='$.n', q='trp:_q', h='trp:x-test', to='trp:TO', method='trp:HTTP_METHOD')))
define stream A (n long, q string, h string, to string, method string);
@source(type='http', receiver.url='http://127.0.0.1:{port}//b', @map(type='text', fail.on.missing.attribute='false', regex.A='(.*)', @attributes(line='A[1]')))
define stream B (line string);
@sink(type='file', file.uri='file:{dir}/a.csv', @map(type='csv'))
define stream OutA (n long, q string, h string, to string, method string);
@sink(type='log', prefix='B')
define stream OutB (line string);
from A select * insert into OutA;
from B select * insert into OutB;
";

/// Also where nothing of a request could be read, and bytes of it are left.
// shows: source http bad
#[test]
fn every_refusal_reaches_the_client() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let text = format!(
        "@app:name('Refusals')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
"
    );
    let app = write(dir.path(), "app.siddhi", &text);
    let run = Running::connected(&[&app], 1);
    let many: String = (0..150).map(|n| format!("X-{n}: {n}\r\n")).collect();
    let (long, path) = ("x".repeat(2 << 20), "x".repeat(70_000));
    for (request, status) in [
        (format!("POST /in HTTP/1.1\r\nHost: a\r\n{many}\r\n"), "431"),
        (format!("POST /in HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), "431"),
        (format!("POST /{path} HTTP/1.1\r\nHost: a\r\n\r\n"), "414"),
        (
            "POST /in HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".into(),
            "400",
        ),
        (
            "POST /in HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n".into(),
            "400",
        ),
        ("nonsense\r\n\r\n".into(), "400"),
        (
            "POST /in HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nab".into(),
            "413",
        ),
    ] {
        let mut line = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        line.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
        // It may be refused before all is written.
        line.write_all(request.as_bytes()).ok();
        let mut answer = [0; 12];
        let read = line.read_exact(&mut answer);
        let shown: String = request.chars().take(60).collect();
        assert!(read.is_ok(), "{shown}: {read:?}");
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer, format!("HTTP/1.1 {status}"), "{shown}");
    }
    run.stop();
}

fn two_sources(dir: &Path) -> (String, u16) {
    let port = free_port();
    let text = ORDERED
        .replace("{port}", &port.to_string())
        .replace("{dir}", &dir.display().to_string());
    (write(dir, "two.siddhi", &text), port)
}

// shows: source http open, order
#[test]
fn two_sources_share_a_port_keep_order_and_a_stop_frees_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (app, port) = two_sources(dir.path());
    let a = format!("http://127.0.0.1:{port}/a?q=1%202");
    for round in 0..2u32 {
        let run = Running::connected(&[&app], 2);
        let bodies = (round * 3000..(round + 1) * 3000).map(|n| format!("{{\"n\":{n}}}"));
        // A header that is asked for and not sent is a missing property.
        let statuses = post_all(&a, bodies);
        assert!(statuses.iter().all(|s| *s == 200));
        let json = format!("{{\"n\":{round}}}");
        assert_eq!(curl(&["-H", "X-Test: yes", "-d", &json, &a]).0, "200");
        let b = format!("http://127.0.0.1:{port}//b");
        assert_eq!(curl(&["--path-as-is", "-d", "hello", &b]).0, "200");
        run.out_has("data=[hello]", 1);
        let (_, summary) = run.stop();
        assert_eq!(number(&summary, "sources", "A", "rejected"), 3000);
        assert_eq!(number(&summary, "sources", "A", "events"), 1);
    }
    let rows = fs::read_to_string(dir.path().join("a.csv")).expect("rows");
    assert_eq!(
        rows,
        "0,1 2,yes,/a?q=1%202,POST\n1,1 2,yes,/a?q=1%202,POST\n"
    );
}

#[test]
fn two_sources_on_one_route_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (app, port) = two_sources(dir.path());
    let set = format!("B.source.receiver.url=http://127.0.0.1:{port}/a");
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_headwater"));
    let output = run
        .args(["run", &app, "--set", &set])
        .output()
        .expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("at path '/a'; give each its own path"),
        "{text}"
    );
    assert_ne!(output.status.code(), Some(0));
}

// shows: source http resume
#[test]
fn with_state_an_answer_means_that_a_crash_loses_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/x");
    let text = format!(
        "@app:name('Counting')
@source(type='http', receiver.url='{url}', @map(type='json'))
define stream S (n long);
@sink(type='log', prefix='total')
define stream T (sum long, count long);
from S select sum(n) as sum, count() as count insert into T;
"
    );
    let app = write(dir.path(), "app.siddhi", &text);
    let state = dir.path().join("state").display().to_string();
    let args = [app.as_str(), "--state", state.as_str()];
    let run = Running::connected(&args, 1);
    let statuses = post_all(&url, (1..=20).map(|n| format!("{{\"n\":{n}}}")));
    assert_eq!(statuses, [200; 20]);
    run.kill();
    let run = Running::connected(&args, 1);
    assert_eq!(post_all(&url, ["{\"n\":1000}".to_owned()]), [200]);
    run.out_has("data=[1210, 21]", 1);
    run.stop();
}

const SERVICE: &str = "@app:name('Service')
@source(type='http-service', source.id='s', connection.timeout='{timeout}', receiver.url='http://127.0.0.1:{port}/s', @map(type='json', @attributes(id='trp:messageId', name='$.name', code='$.code')))
define stream Requests (id string, name string, code string);
@sink(type='http-service-response', source.id='s', message.id='{{id}}', status.code='{{code}}', headers=\"'X-Name:{{name}}','Content-Type:text/x'\", @map(type='json', @payload('{\"hello\":\"{{name}}\"}')))
define stream Responses (id string, name string, code string);
from Requests[name != 'nobody'] select * insert into Responses;
";

// shows: sink http-response open
#[test]
fn a_service_answers_each_request_with_its_own_response() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let text = SERVICE.replace("{port}", &port.to_string());
    let with_timeout = |millis: &str| {
        let text = text.replace("{timeout}", millis);
        Running::connected(&[&write(dir.path(), "app.siddhi", &text)], 1)
    };
    let run = with_timeout("60000");
    let url = format!("http://127.0.0.1:{port}/s");
    let (status, answer) = curl(&["-i", "-d", r#"{"name":"bob","code":"201"}"#, &url]);
    assert_eq!(status, "201");
    for part in ["x-name: bob", "content-type: text/x", r#"{"hello":"bob"}"#] {
        assert!(answer.contains(part), "{answer}");
    }
    let clients: Vec<_> = (0..8)
        .map(|i| {
            let url = url.clone();
            std::thread::spawn(move || {
                let body = format!(r#"{{"name":"n{i}","code":"200"}}"#);
                for _ in 0..10 {
                    let (status, answer) = curl(&["-d", &body, &url]);
                    assert_eq!(
                        (status.as_str(), answer),
                        ("200", format!(r#"{{"hello":"n{i}"}}"#))
                    );
                }
            })
        })
        .collect();
    clients
        .into_iter()
        .for_each(|c| c.join().expect("no panic"));
    run.stop();
    let run = with_timeout("300");
    let late = curl(&["-d", r#"{"name":"nobody","code":"200"}"#, &url]);
    assert_eq!(late.0, "504");
    run.stop();
}

const REQUEST_RESPONSE: &str = "@App:name('HttpRequestResponse')
@source(type='http', receiver.url='http://172.31.2.99:8081/service', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='http-request', sink.id='production-request', publisher.url='http://172.17.0.1:8688//netty_echo_server', @map(type='json'))
define stream HttpRequestStream (batchNumber double, lowTotal double);
@source(type='http-response', sink.id='production-request', http.status.code='200', @map(type='json'))
define stream HttpResponseStream(batchNumber double, lowTotal double);
from SweetProductionStream select 1D as batchNumber, 1200D as lowTotal insert into HttpRequestStream;
";

// shows: sink http-call open
#[test]
fn the_published_pair_gets_every_response_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = published(dir.path(), "HttpRequestResponse.siddhi", REQUEST_RESPONSE);
    let echo = Stub::start(0, |got| ok(&got.body));
    let port = free_port();
    let replaces = [
        format!("172.31.2.99:8081=127.0.0.1:{port}"),
        format!("172.17.0.1:8688=127.0.0.1:{}", echo.port),
    ];
    let run = Running::connected(
        &[
            &app.display().to_string(),
            "--replace",
            &replaces[0],
            "--replace",
            &replaces[1],
        ],
        2,
    );
    let statuses = post_all(&format!("http://127.0.0.1:{port}/service"), sweets(0..3000));
    assert!(statuses.iter().all(|s| *s == 200));
    let got = echo.wait_for(3000);
    for one in &got {
        assert!(
            one.head
                .starts_with("POST //netty_echo_server HTTP/1.1\r\n"),
            "{}",
            one.head
        );
        assert_eq!(
            one.body,
            r#"{"event":{"batchNumber":1.0,"lowTotal":1200.0}}"#
        );
        assert!(one.has("content-type: application/json"), "{}", one.head);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(
        number(&summary, "sinks", "HttpRequestStream", "events"),
        3000
    );
    assert_eq!(
        number(&summary, "sources", "HttpResponseStream", "events"),
        3000
    );
}

const SENDER: &str = "@app:name('Sender')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long, path string, method string);
@sink(type='http', publisher.url='http://127.0.0.1:{to}/base/{{path}}', method='{{method}}', headers=\"'X-N:{{n}}'\", {options} @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, path string, method string);
from In select * insert into Out;
";

fn sender(dir: &Path, to: u16, options: &str) -> (String, String) {
    let port = free_port();
    let text = SENDER
        .replace("{port}", &port.to_string())
        .replace("{to}", &to.to_string())
        .replace("{options}", options);
    let url = format!("http://127.0.0.1:{port}/in");
    (write(dir, "sender.siddhi", &text), url)
}

fn event(n: u32, method: &str) -> String {
    format!(r#"{{"n":{n},"path":"p{n}","method":"{method}"}}"#)
}

// shows: sink http open
#[test]
fn method_headers_and_url_follow_from_the_event() {
    let dir = tempfile::tempdir().expect("a folder");
    let stub = Stub::start(0, |_| ok(""));
    let options = "basic.auth.username='u', basic.auth.password='planted', chunk.disabled='true', \
                   max.pool.active.connections='1',";
    let (app, url) = sender(dir.path(), stub.port, options);
    let run = Running::connected(&[&app], 1);
    for (n, method) in [(1, "POST"), (2, "PUT"), (3, "GET")] {
        assert_eq!(curl(&["-d", &event(n, method), &url]).0, "200");
    }
    let got = stub.wait_for(3);
    for ((one, n), (method, body)) in
        got.iter()
            .zip(1..)
            .zip([("POST", r#"{"n":1}"#), ("PUT", r#"{"n":2}"#), ("GET", "")])
    {
        let line = format!("{method} /base/p{n} HTTP/1.1\r\n");
        assert!(one.head.starts_with(&line), "{}", one.head);
        assert_eq!(one.body, body);
        assert!(one.has(&format!("x-n: {n}")) && one.has("authorization: Basic dTpwbGFudGVk"));
        let is_sized = one.head.to_lowercase().contains("content-length");
        assert!(is_sized || body.is_empty(), "{}", one.head);
    }
    let (said, err) = (run.out(), run.err());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0));
    assert_eq!(number(&summary, "sinks", "Out", "events"), 3);
    assert!(!format!("{said}{err}{summary}").contains("planted"));
}

// covers: 626
// shows: sink http resume, error
#[test]
fn a_peer_that_is_away_is_waited_for_and_gets_everything() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let text = format!(
        "@app:name('Waiting')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='http', publisher.url='http://127.0.0.1:TO/out', on.error='WAIT', @map(type='json', @payload('{{{{n}}}}')))
define stream Out (n long);
from In select * insert into Out;
"
    );
    let stub = Stub::start(0, |_| ok(""));
    let to = stub.port;
    let app = write(
        dir.path(),
        "app.siddhi",
        &text.replace("TO", &to.to_string()),
    );
    let url = format!("http://127.0.0.1:{port}/in");
    let run = Running::connected(&[&app], 1);
    let send = |range: std::ops::Range<u32>| {
        let statuses = post_all(&url, range.map(|n| format!("{{\"n\":{n}}}")));
        assert!(statuses.iter().all(|s| *s == 200));
    };
    send(0..100);
    let all: Vec<String> = stub.wait_for(100).into_iter().map(|g| g.body).collect();
    drop(stub);
    send(100..200);
    run.err_has("cannot connect sink", 1);
    let stub = Stub::start(to, |_| ok(""));
    send(200..300);
    // A request whose answer went down with the peer is sent again: once or twice, each is there.
    let numbers = || {
        let again = stub.got().into_iter().map(|got| got.body);
        let numbers = all.iter().cloned().chain(again);
        let mut numbers: Vec<u32> = numbers.map(|n| n.parse().expect("a number")).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    eventually("all requests", || numbers().len() == 300);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 300);
    assert_eq!(numbers(), (0..300).collect::<Vec<_>>());
}

// shows: sink http lost
#[test]
fn a_peer_that_was_away_gets_the_next_event_after_it_is_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, to) = (free_port(), free_port());
    let text = format!(
        "@app:name('Away')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='http', publisher.url='http://127.0.0.1:{to}/out', @map(type='json', @payload('{{{{n}}}}')))
define stream Out (n long);
from In select * insert into Out;
"
    );
    let app = write(dir.path(), "app.siddhi", &text);
    let run = Running::connected(&[&app], 1);
    run.err_has("requests will still be attempted", 1);
    let url = format!("http://127.0.0.1:{port}/in");
    let send = |n: u32| assert_eq!(curl(&["-d", &format!("{{\"n\":{n}}}"), &url]).0, "200");
    send(1);
    run.err_has("events were not delivered", 1);
    let stub = Stub::start(to, |_| ok(""));
    let back = Instant::now();
    send(2);
    send(3);
    let mut bodies: Vec<String> = stub.wait_for(2).into_iter().map(|g| g.body).collect();
    let waited = back.elapsed();
    assert!(waited < NOTICED, "{waited:?}");
    bodies.sort();
    assert_eq!(bodies, ["2", "3"]);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4));
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1);
}

// shows: sink http error
#[test]
fn what_cannot_be_sent_goes_to_the_fault_stream_or_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, closed) = (free_port(), free_port());
    let text = format!(
        "@app:name('Faults')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@OnError(action='STREAM')
@sink(type='http', publisher.url='http://127.0.0.1:{closed}/out', on.error='STREAM', @map(type='json'))
define stream Faulty (n long);
@sink(type='http', publisher.url='http://127.0.0.1:{closed}/log', on.error='LOG', @map(type='json'))
define stream Logged (n long);
@sink(type='log', prefix='fault')
define stream Seen (n long);
from In select * insert into Faulty;
from In select * insert into Logged;
from !Faulty select n insert into Seen;
"
    );
    let app = write(dir.path(), "app.siddhi", &text);
    let run = Running::connected(&[&app], 1);
    let url = format!("http://127.0.0.1:{port}/in");
    assert_eq!(curl(&["-d", r#"{"n":7}"#, &url]).0, "200");
    run.out_has("fault : Event", 1);
    run.err_has("events were not delivered", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4));
    assert_eq!(number(&summary, "sinks", "Logged", "failed"), 1);
}

const OAUTH: &str = "@app:name('OAuth')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='http', publisher.url='http://127.0.0.1:{to}/out', consumer.key='key', consumer.secret='planted', token.url='http://127.0.0.1:{to}/token', @map(type='json', @payload('{{n}}')))
define stream Out (n long);
from In select * insert into Out;
";

// shows: sink http login
#[test]
fn a_token_is_obtained_kept_and_renewed() {
    let dir = tempfile::tempdir().expect("a folder");
    let count = std::sync::atomic::AtomicU32::new(0);
    let stub = Stub::start(0, move |got| {
        if got.head.starts_with("POST /token") {
            assert!(
                got.has("authorization: Basic a2V5OnBsYW50ZWQ="),
                "{}",
                got.head
            );
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            return ok(&format!(
                r#"{{"access_token":"t{number}","refresh_token":"r"}}"#
            ));
        }
        // The first token is soon refused.
        match got.has("authorization: Bearer t0") && got.body == "2" {
            true => "HTTP/1.1 401 no\r\nContent-Length: 0\r\n\r\n".to_owned(),
            false => ok(""),
        }
    });
    let port = free_port();
    let text = OAUTH
        .replace("{port}", &port.to_string())
        .replace("{to}", &stub.port.to_string());
    let run = Running::connected(&[&write(dir.path(), "app.siddhi", &text)], 1);
    let url = format!("http://127.0.0.1:{port}/in");
    let statuses = post_all(&url, (1..=3).map(|n| format!("{{\"n\":{n}}}")));
    assert_eq!(statuses, [200; 3]);
    let got = stub.wait_for(6);
    let lines: Vec<String> = got
        .iter()
        .map(|g| {
            format!(
                "{} {}",
                &g.head[..g.head.find(" HTTP").unwrap_or(0)],
                g.body
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "POST /token grant_type=client_credentials&scope=default",
            "POST /out 1",
            "POST /out 2",
            "POST /token grant_type=refresh_token&refresh_token=r&scope=default",
            "POST /out 2",
            "POST /out 3",
        ]
    );
    let said = format!("{}{}", run.out(), run.err());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert!(!said.contains("planted") && !said.contains("t0"), "{said}");
}

// shows: sink http login
#[test]
fn a_proxy_is_asked_with_the_whole_url() {
    let dir = tempfile::tempdir().expect("a folder");
    let proxy = Stub::start(0, |_| ok(""));
    let options = format!(
        "proxy.host='127.0.0.1', proxy.port='{}', proxy.username='u', proxy.password='p',",
        proxy.port
    );
    let (app, url) = sender(dir.path(), 1, &options);
    let run = Running::connected(&[&app], 1);
    assert_eq!(curl(&["-d", &event(1, "POST"), &url]).0, "200");
    let got = proxy.wait_for(1);
    assert!(
        got[0]
            .head
            .starts_with("POST http://127.0.0.1:1/base/p1 HTTP/1.1\r\n")
    );
    assert!(got[0].has("proxy-authorization: Basic dTpw"));
    run.stop();
}

const SECURE: &str = "@app:name('Secure')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='http', publisher.url='https://localhost:{tls}/in', https.truststore.file='{keys}/server.p12', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Trusting (n long);
@sink(type='http', publisher.url='https://localhost:{tls}/in', ssl.verification.disabled='true', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Blind (n long);
@sink(type='http', publisher.url='https://localhost:{tls}/in', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Strange (n long);
from In select n + 1000 as n insert into Trusting;
from In select n + 2000 as n insert into Blind;
from In select n + 3000 as n insert into Strange;
";

const BEHIND: &str = "@app:name('Behind')
@source(type='http', receiver.url='https://localhost:{tls}/in', ssl.configurations=\"'sslEnabledProtocols:TLSv1.2,TLSv1.3'\", @map(type='json'))
define stream Behind (n long);
@sink(type='log', prefix='behind')
define stream Seen (n long);
from Behind select n insert into Seen;
";

// shows: sink http tls
// shows: source http tls
#[test]
fn tls_with_java_key_stores_as_they_are() {
    let dir = tempfile::tempdir().expect("a folder");
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../connect/src/net/testdata");
    let keys = keys.display().to_string();
    let (port, tls) = (free_port(), free_port());
    let placed = |text: &str| {
        text.replace("{port}", &port.to_string())
            .replace("{tls}", &tls.to_string())
            .replace("{keys}", &keys)
    };
    let config = format!(
        "siddhi:\n  extensions:\n    - extension:\n        name: http\n        namespace: source\n        \
         properties:\n          keyStoreLocation: {keys}/server.jks\n          keyStorePassword: wso2carbon\n          \
         keyPassword: secret12\n"
    );
    let config = write(dir.path(), "deployment.yaml", &config);
    let behind = write(dir.path(), "behind.siddhi", &placed(BEHIND));
    let behind = Running::connected(&[&behind, "--config", &config], 1);
    let app = write(dir.path(), "app.siddhi", &placed(SECURE));
    let run = Running::connected(&[&app], 1);
    let secure = format!("https://localhost:{tls}/in");
    let trust = format!("{keys}/server.pem");
    assert_eq!(
        curl(&["--cacert", &trust, "-d", r#"{"n":1}"#, &secure]).0,
        "200"
    );
    assert_eq!(curl(&["-d", r#"{"n":2}"#, &secure]).0, "000");
    let plain = format!("http://localhost:{tls}/in");
    assert_ne!(curl(&["-d", r#"{"n":3}"#, &plain]).0, "200");
    assert_eq!(
        curl(&["-d", r#"{"n":4}"#, &format!("http://127.0.0.1:{port}/in")]).0,
        "200"
    );
    for n in [1, 1004, 2004] {
        behind.out_has(&format!("data=[{n}]"), 1);
    }
    run.err_has("events were not delivered", 1);
    let (_, summary) = run.stop();
    let (_, received) = behind.stop();
    assert_eq!(number(&received, "sources", "Behind", "events"), 3);
    assert_eq!(number(&summary, "sinks", "Strange", "failed"), 1);
}
