use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::server::StopHandle;

/// Those of a server without apps.
fn services() -> Services {
    Services {
        metrics: Arc::default(),
        scripts: Scripts::new(Asker::new(catalog::full(), None), ""),
        asker: Asker::new(catalog::full(), None),
        feeds: Feeds::new(None, Registry::EMPTY),
        taps: crate::tap::Taps::default(),
        liveness: Liveness::default(),
        errors: ErrorStore::new(Default::default(), false, Hidden::default()),
        registry: Registry::EMPTY,
        backups: crate::backups::Backups::default(),
        deployer: Deployer::new(StopHandle::default()).0,
        process: Process::begin(),
        sql: sql::Sql::absent("there is no event store"),
        analytics: analytics::Analytics::absent("there is no event store"),
        store: store::StoreUpkeep::absent("there is no event store"),
        hidden: Hidden::default(),
        gateway: None,
    }
}

fn options(address: &str) -> HttpOptions {
    HttpOptions {
        address: address.parse().expect("an address"),
        hosts: vec!["metrics.example".to_owned()],
        is_insecure: false,
        tls: None,
        users: None,
        has_open_metrics: false,
        audit: None,
    }
}

fn start(limits: Limits) -> Http {
    let door = Door::new(None, None).expect("no users");
    serve_within(&options("127.0.0.1:0"), door, services(), limits).expect("a free port")
}

/// Sends it as it is, and reads until the server closes.
fn ask(http: &Http, request: &str) -> String {
    let mut stream = TcpStream::connect(http.address()).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    // What it did not read of a request may break the connection behind the answer.
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(answer).expect("a text"),
    }
}

fn get(http: &Http, path: &str) -> String {
    let headers = "Host: localhost\r\nConnection: close";
    ask(http, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n\r\n"))
}

#[track_caller]
fn check(answer: &str, status: u16, part: &str) {
    let line = format!("HTTP/1.1 {status} ");
    assert!(
        answer.starts_with(&line) && answer.contains(part),
        "{answer}"
    );
}

#[test]
fn metrics_and_readiness_are_served() {
    let http = start(Limits::default());
    let metrics = get(&http, "/metrics");
    check(&metrics, 200, "# TYPE headwater_build_info gauge");
    assert!(get(&http, "/ready").ends_with("ready\n"));
    check(&get(&http, "/"), 404, "there is GET /metrics, GET /ready, ");
    let head = "Host: localhost\r\nConnection: close\r\n\r\n";
    check(
        &ask(&http, &format!("POST /ready HTTP/1.1\r\n{head}")),
        405,
        "use GET",
    );
    let put = format!("PUT /stores/query/ HTTP/1.1\r\n{head}");
    check(&ask(&http, &put), 405, "use POST");
    assert!(ask(&http, &put).contains("\r\nallow: POST\r\n"));
    let head = ask(&http, &format!("HEAD /ready HTTP/1.1\r\n{head}"));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"));
    let door = Door::new(None, None).expect("no users");
    let taken = serve(&options(&http.address().to_string()), door, services());
    assert!(matches!(taken, Err(Error::Listen { .. })));
}

#[test]
fn the_name_of_an_app_is_any_segment_of_a_path() {
    let http = start(Limits::default());
    for (segment, name) in [
        ("Shop", "Shop"),
        ("a%20%2F%C3%A4", "a /ä"),
        ("statistics", "statistics"),
    ] {
        let message = format!("there is no app '{name}'");
        let path = format!("/siddhi-apps/{segment}/statistics");
        check(&get(&http, &path), 404, &message);
        check(&get(&http, &format!("{path}/")), 404, &message);
    }
    check(
        &get(&http, "/siddhi-apps/statistics"),
        200,
        r#"{"apps":[]}"#,
    );
    check(
        &get(&http, "/siddhi-appsX/statistics"),
        404,
        "there is GET /metrics",
    );
}

#[test]
fn requests_that_pages_of_others_send_are_refused() {
    let http = start(Limits::default());
    let port = http.address().port();
    let send = |headers: &str| {
        let body = r#"{"query":" "}"#;
        let headers = headers.replace("{port}", &port.to_string());
        let length = body.len();
        ask(
            &http,
            &format!(
                "POST /stores/query HTTP/1.1\r\n{headers}\r\nContent-Length: {length}\r\nConnection: \
                 close\r\n\r\n{body}"
            ),
        )
    };
    let json = "Content-Type: application/json";
    for headers in [
        "Host: localhost",
        "Host: LOCALHOST:{port}",
        "Host: 127.0.0.1:{port}",
        "Host: [::1]:{port}",
        "Host: metrics.example",
        "Host: localhost:{port}\r\nOrigin: http://localhost:{port}",
        "Host: metrics.example\r\nOrigin: https://metrics.example",
        "Host: localhost\r\nContent-Type: Application/JSON; charset=utf-8",
    ] {
        let types = if headers.contains("Content-Type") {
            "X: y"
        } else {
            json
        };
        check(
            &send(&format!("{headers}\r\n{types}")),
            400,
            "the query is empty",
        );
    }
    for (headers, part) in [
        (
            "Host: evil.example",
            "'evil.example' is not a name of this server",
        ),
        ("Host: 10.1.2.3:{port}", "is not a name of this server"),
        (
            "Host: localhost@evil.example",
            "is not a name of this server",
        ),
        (
            "Host: localhost\r\nOrigin: https://evil.example",
            "a page of 'https://evil.example'",
        ),
        (
            "Host: localhost:{port}\r\nOrigin: http://localhost:1",
            "a page of",
        ),
        ("Host: localhost\r\nOrigin: null", "a page of 'null'"),
    ] {
        check(&send(&format!("{headers}\r\n{json}")), 403, part);
    }
    let two = format!("Host: localhost\r\nHost: localhost\r\n{json}");
    check(&send(&two), 400, "names two hosts");
    for kind in [
        "X: y",
        "Content-Type: text/plain",
        "Content-Type: application/jsonp",
    ] {
        let answer = send(&format!("Host: localhost\r\n{kind}"));
        check(&answer, 415, "Content-Type: application/json");
    }
    let absolute =
        "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    check(&ask(&http, absolute), 403, "evil.example");
}

#[test]
fn beyond_loopback_it_listens_only_if_that_is_allowed() {
    for (address, is_insecure, is_taken) in [
        ("127.0.0.1:0", false, true),
        ("[::1]:0", false, true),
        ("0.0.0.0:0", false, false),
        ("10.0.0.1:0", false, false),
        ("[::]:0", false, false),
        ("0.0.0.0:0", true, true),
    ] {
        let options = HttpOptions {
            is_insecure,
            ..options(address)
        };
        match options.check() {
            Ok(()) => assert!(is_taken, "{address}"),
            Err(error) => {
                assert!(!is_taken && error.exit_code() == 2, "{address}");
                assert!(error.to_string().contains("--insecure"), "{error}");
            }
        }
    }
}

#[test]
fn heads_and_bodies_are_bounded() {
    let http = start(Limits {
        head_bytes: 8192,
        ..Limits::default()
    });
    let long = "x".repeat(9000);
    let head = "Host: localhost\r\nConnection: close\r\n\r\n";
    check(
        &ask(&http, &format!("GET /{long} HTTP/1.1\r\n{head}")),
        431,
        "",
    );
    check(
        &ask(&http, &format!("GET / HTTP/1.1\r\nX: {long}\r\n{head}")),
        431,
        "",
    );
    let many = "X: y\r\n".repeat(200);
    check(
        &ask(&http, &format!("GET / HTTP/1.1\r\n{many}{head}")),
        431,
        "",
    );
    let big = "POST /stores/query HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n";
    let body = "x".repeat(1_048_577);
    check(
        &ask(&http, &format!("{big}{head}{body}")),
        413,
        "at most 1048576 bytes",
    );
}

#[test]
fn on_a_full_listener_who_sends_nothing_gives_way_to_who_asks() {
    let http = start(Limits {
        connections: 2,
        ..Limits::default()
    });
    let connect = || TcpStream::connect(http.address()).expect("it listens");
    let mut begun = [connect(), connect()];
    // One has sent nothing, the other half a body.
    let half = "POST /stores/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 9\r\n\r\n{";
    begun[1].write_all(half.as_bytes()).expect("it is taken");
    let mut third = connect();
    write!(third, "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is held");
    let mut answer = [0; 12];
    third.read_exact(&mut answer).expect("it is answered");
    assert_eq!(&answer, b"HTTP/1.1 200");
    let ended = begun.iter_mut().any(|stream| {
        let read = stream.read(&mut answer);
        matches!(read, Ok(0)) || read.is_err()
    });
    assert!(ended, "they hold their places");
}

#[test]
fn two_thousand_half_heads_are_closed_and_others_are_answered() {
    let http = start(Limits {
        head: Duration::from_millis(100),
        ..Limits::default()
    });
    let began = Instant::now();
    let mut half: Vec<TcpStream> = Vec::new();
    for n in 0..2000 {
        let mut stream = TcpStream::connect(http.address()).expect("it listens");
        stream.write_all(b"GET /me").ok();
        half.push(stream);
        if n % 400 == 399 {
            // No more descriptors than a process is given as a rule.
            for stream in &mut half {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).ok();
                assert!(rest.is_empty(), "a half head is not answered");
            }
            half.clear();
        }
    }
    check(&get(&http, "/ready"), 200, "ready");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "they were closed in time"
    );
}

#[test]
fn a_stop_waits_for_no_connection_that_asks_nothing() {
    let http = start(Limits::default());
    let mut idle = TcpStream::connect(http.address()).expect("it listens");
    write!(idle, "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).expect("it is answered");
    let began = Instant::now();
    drop(http);
    assert!(began.elapsed() < Duration::from_secs(4), "it did not wait");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("it is closed");
    idle.shutdown(Shutdown::Both).ok();
}
