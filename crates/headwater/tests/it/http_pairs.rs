//! Calls with their responses, and requests with their answers, when something goes wrong in between.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::broker::{Apps, errors};
use crate::network::{Gate, Running, Stub, curl, eventually, free_port, number, ok, post_all};

// row: sink http-call, sink http-request, source http-call-response, source http-response | a server of the test
// n/a order: responses come in the order in which they are given
// n/a resume: a response belongs to a request of this process

// row: sink http-response, sink http-service-response, source http-request, source http-service | curl {curl}
// n/a order: each response belongs to its request
// n/a resume: a request does not outlive its connection
// n/a error: a response whose request has gone has no destination

const CALLS: &str = "@app:name('Calls') -- {note}
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@OnError(action='STREAM')
@sink(type='http-call', sink.id='c', publisher.url='{url}', {options}, @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Ask (n long);
@source(type='http-call-response', sink.id='c', @map(type='json', @attributes(asked='trp:n', n='$.n')))
define stream Answer (asked long, n long);
@sink(type='log', prefix='answer')
define stream Seen (asked long, n long);
@sink(type='log', prefix='fault')
define stream Faults (n long);
from In select * insert into Ask;
from Answer select * insert into Seen;
from !Ask select n insert into Faults;
";

/// An app that asks for what is posted to it.
struct Calls {
    apps: Apps,
    to: String,
}

impl Calls {
    fn new(to: &str) -> Calls {
        Calls {
            apps: Apps::new(free_port(), 1),
            to: to.to_owned(),
        }
    }

    fn write(&self, note: &str, options: &str) -> String {
        let app = CALLS.replace("{note}", note).replace("{url}", &self.to);
        self.apps.write("calls", &app, options)
    }

    fn start(&self, options: &str) -> Running {
        Running::connected(&[&self.write("first", options)], 2)
    }

    /// Keeps what fails. What is posted is answered when what became of it is saved.
    fn start_with_state(&self, options: &str) -> Running {
        let app = self.write("first", options);
        Running::connected(&[&app, "--state", &self.state()], 2)
    }

    fn state(&self) -> String {
        self.apps.path("state")
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/in", self.apps.port())
    }

    fn send(&self, numbers: std::ops::RangeInclusive<u32>) {
        let bodies = numbers.map(|n| format!("{{\"n\":{n}}}"));
        let statuses = post_all(&self.url(), bodies);
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    }
}

fn of_stub(stub: &Stub) -> String {
    format!("http://127.0.0.1:{}/ask", stub.port)
}

/// `(failed, faults, kept)` of one event, by policy.
const POLICIES: [(&str, u64, u64, usize); 3] =
    [("LOG", 1, 0, 1), ("STREAM", 0, 1, 0), ("STORE", 1, 0, 1)];

// shows: sink http-call error
#[test]
fn a_call_whose_server_is_away_goes_where_on_error_says() {
    for (policy, failed, faults, kept) in POLICIES {
        let calls = Calls::new(&format!("http://127.0.0.1:{}/ask", free_port()));
        let run = calls.start_with_state(&format!("on.error='{policy}'"));
        calls.send(1..=1);
        let (_, summary) = run.stop();
        let of = |stream, what| number(&summary, "sinks", stream, what);
        assert_eq!(of("Ask", "failed"), failed, "{policy}: {summary}");
        assert_eq!(of("Faults", "events"), faults, "{policy}: {summary}");
        let errors = errors(&calls.state());
        assert_eq!(
            errors.matches("\"number\":").count(),
            kept,
            "{policy}: {errors}"
        );
    }
    // Who waits gets the answer when the server is there.
    let port = free_port();
    let calls = Calls::new(&format!("http://127.0.0.1:{port}/ask"));
    let run = calls.start("on.error='WAIT'");
    calls.send(1..=3);
    run.err_has("cannot connect sink", 1);
    let _stub = Stub::start(port, |got| ok(&got.body));
    for n in 1..=3 {
        run.out_has(&format!("data=[{n}, {n}]"), 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

// shows: sink http-call lost
#[test]
fn a_server_that_goes_away_before_its_response_is_named_and_asked_again_where_it_is_waited_for() {
    // It closes the connection instead of an answer.
    for (policy, failed, faults, _) in POLICIES {
        let stub = Stub::start(0, |got| match got.body.contains('2') {
            true => String::new(),
            false => ok(&got.body),
        });
        let calls = Calls::new(&of_stub(&stub));
        let run = calls.start(&format!(
            "on.error='{policy}', max.pool.active.connections='1'"
        ));
        calls.send(1..=3);
        for n in [1, 3] {
            run.out_has(&format!("data=[{n}, {n}]"), 1);
        }
        let (_, summary) = run.stop();
        let of = |stream, what| number(&summary, "sinks", stream, what);
        assert_eq!(of("Ask", "failed"), failed, "{policy}: {summary}");
        assert_eq!(of("Faults", "events"), faults, "{policy}: {summary}");
        assert_eq!(
            number(&summary, "sources", "Answer", "events"),
            2,
            "{policy}"
        );
    }
    let begun = std::sync::atomic::AtomicU32::new(0);
    let stub = Stub::start(0, move |got| {
        let is_first = begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        match is_first {
            true => String::new(),
            false => ok(&got.body),
        }
    });
    let calls = Calls::new(&of_stub(&stub));
    let run = calls.start("on.error='WAIT'");
    calls.send(1..=1);
    run.out_has("data=[1, 1]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

// shows: sink http-call slow
#[test]
fn a_server_that_answers_slowly_is_asked_so_much_at_once_and_no_more() {
    const CALLS_MADE: u32 = 400;
    let gate = Gate::default();
    let at_stub = gate.clone();
    let stub = Stub::start(0, move |got| {
        at_stub.pass();
        ok(&got.body)
    });
    let calls = Calls::new(&of_stub(&stub));
    let run = calls.start("socket.idle.timeout='60000'");
    calls.send(1..=CALLS_MADE);
    // A checkpoint waits for what is on its way, and lets nothing more go: those that it has caught go on.
    let mut caught = (0, Instant::now());
    eventually("it is busy", || {
        let waiting = gate.waiting();
        if caught.0 != waiting {
            caught = (waiting, Instant::now());
        } else if caught.1.elapsed() > Duration::from_secs(2) {
            gate.let_go();
        }
        waiting == 128
    });
    gate.open();
    stub.wait_for(CALLS_MADE as usize);
    run.out_has("answer : Event", CALLS_MADE as usize);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(gate.most(), 128);
    let answers = number(&summary, "sources", "Answer", "events");
    assert_eq!(answers, u64::from(CALLS_MADE));
}

// shows: sink http-call bad
#[test]
fn a_response_that_cannot_be_read_is_kept_and_its_neighbours_are_taken() {
    let stub = Stub::start(0, |got| match got.body.contains('2') {
        true => ok("no JSON"),
        false => ok(&got.body),
    });
    let calls = Calls::new(&of_stub(&stub));
    let run = calls.start_with_state("");
    calls.send(1..=3);
    for n in [1, 3] {
        run.out_has(&format!("data=[{n}, {n}]"), 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    let of = |what| number(&summary, "sources", "Answer", what);
    assert_eq!((of("events"), of("rejected")), (2, 1), "{summary}");
    let errors = errors(&calls.state());
    assert!(errors.contains("no JSON"), "{errors}");
}

// shows: sink http-call reload
#[test]
fn a_reload_between_request_and_response_waits_for_the_response() {
    let gate = Gate::default();
    let at_stub = gate.clone();
    let stub = Stub::start(0, move |got| {
        at_stub.pass();
        ok(&got.body)
    });
    let calls = Calls::new(&of_stub(&stub));
    let run = calls.start("");
    calls.send(1..=1);
    eventually("the request is there", || gate.waiting() == 1);
    calls.write("second", "");
    run.reload();
    run.err_has("reloading apps", 1);
    gate.open();
    run.err_has("apps reloaded change", 1);
    run.out_has("data=[1, 1]", 1);
    run.err_has("source is ready", 4);
    calls.send(2..=2);
    run.out_has("data=[2, 2]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

/// Requests wait in a table until somebody says go.
const SERVICE: &str = "@app:name('Service') -- {note}
@source(type='http-service', source.id='s', connection.timeout='{timeout}', receiver.url='{scheme}://0.0.0.0:{port}/s', basic.auth.enabled='{login}', @map(type='json', @attributes(id='trp:messageId', n='$.n')))
define stream Requests (id string, n long);
@source(type='http', receiver.url='{scheme}://0.0.0.0:{port}/go', @map(type='json'))
define stream Go (n long);
define table Held (id string, n long);
@sink(type='http-service-response', source.id='s', message.id='{{id}}', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Responses (id string, n long);
@sink(type='log', prefix='held')
define stream Seen (n long);
from Requests[n > 0L] select id, n insert into Held;
from Requests[n > 0L] select n insert into Seen;
from Requests[n == 0L] select id, n insert into Responses;
from Go join Held on Go.n == Held.n select Held.id as id, Held.n as n insert into Responses;
";

struct Service {
    apps: Apps,
    timeout: &'static str,
    scheme: &'static str,
    config: String,
}

impl Service {
    fn new(scheme: &'static str, timeout: &'static str) -> Service {
        let apps = Apps::new(free_port(), 1);
        let key = crate::broker::key_file("server.jks");
        let config = apps.deployment(&[(
            "source",
            "http",
            vec![
                ("keyStoreLocation", key.as_str()),
                ("keyStorePassword", "wso2carbon"),
                ("keyPassword", "secret12"),
                ("basic.auth.username", "anna"),
                ("basic.auth.password", "planted-17"),
            ],
        )]);
        Service {
            apps,
            timeout,
            scheme,
            config,
        }
    }

    fn write(&self, note: &str) -> String {
        let app = SERVICE
            .replace("{note}", note)
            .replace("{timeout}", self.timeout)
            .replace(
                "{login}",
                if self.scheme == "https" {
                    "true"
                } else {
                    "false"
                },
            )
            .replace("{scheme}", self.scheme);
        self.apps.write("service", &app, "")
    }

    fn start(&self) -> Running {
        let (app, state) = (self.write("first"), self.apps.path("state"));
        Running::connected(&[&app, "--config", &self.config, "--state", &state], 2)
    }

    fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}/{path}", self.scheme, self.apps.port())
    }

    /// Sends a request whose answer somebody else waits for.
    fn ask(&self, n: u32) -> std::thread::JoinHandle<(String, String)> {
        let url = self.url("s");
        std::thread::spawn(move || curl(&["-d", &format!("{{\"n\":{n}}}"), &url]))
    }

    fn go(&self, n: u32) {
        let go = curl(&["-d", &format!("{{\"n\":{n}}}"), &self.url("go")]);
        assert_eq!(go.0, "200");
    }

    /// Says go until the request is there and has its answer.
    fn answered(&self, n: u32) {
        let waiting = self.ask(n);
        eventually("the answer", || {
            self.go(n);
            waiting.is_finished()
        });
        let answer = waiting.join().expect("no panic");
        assert_eq!(answer, ("200".to_owned(), format!("{{\"n\":{n}}}")));
    }
}

// shows: sink http-response lost
#[test]
fn a_client_that_goes_away_before_its_response_hurts_nobody() {
    let service = Service::new("http", "60000");
    let run = service.start();
    let address = ("localhost", service.apps.port());
    let mut client = TcpStream::connect(address).expect("it listens");
    client
        .write_all(b"POST /s HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\"n\":7}")
        .expect("it reads");
    run.out_has("data=[7]", 1);
    drop(client);
    // The first answers may still find a connection whose end nobody has seen.
    eventually("it is missed", || {
        service.go(7);
        run.err().contains("no request with the id")
    });
    service.answered(8);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert!(
        number(&summary, "sinks", "Responses", "failed") >= 1,
        "{summary}"
    );
}

// shows: sink http-response slow
#[test]
fn a_response_that_comes_too_late_is_counted_and_the_client_has_been_told() {
    let service = Service::new("http", "3000");
    let run = service.start();
    let late = service.ask(1).join().expect("no panic");
    assert_eq!(late.0, "504");
    service.go(1);
    run.err_has("it was answered before, or too late", 1);
    assert_eq!(service.ask(0).join().expect("no panic").0, "200");
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(
        number(&summary, "sinks", "Responses", "failed"),
        1,
        "{summary}"
    );
}

// shows: sink http-response bad
#[test]
fn a_request_that_cannot_be_read_is_kept_and_its_neighbours_are_answered() {
    let service = Service::new("http", "3000");
    let run = service.start();
    let url = service.url("s");
    assert_eq!(service.ask(0).join().expect("no panic").0, "200");
    // Nobody will answer it.
    assert_eq!(curl(&["-d", "no JSON", &url]).0, "504");
    assert_eq!(service.ask(0).join().expect("no panic").0, "200");
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    let of = |what| number(&summary, "sources", "Requests", what);
    assert_eq!((of("events"), of("rejected")), (2, 1), "{summary}");
    let errors = errors(&service.apps.path("state"));
    assert!(errors.contains("no JSON"), "{errors}");
}

// shows: sink http-response reload
#[test]
fn a_reload_between_request_and_response_tells_the_client_and_serves_the_next() {
    let service = Service::new("http", "60000");
    let run = service.start();
    let held = service.ask(5);
    run.out_has("data=[5]", 1);
    service.write("second");
    run.reload();
    let (status, _) = held.join().expect("no panic");
    assert_eq!(status, "504");
    run.err_has("apps reloaded change", 1);
    service.answered(6);
    run.stop();
}

// shows: sink http-call tls, login
// shows: sink http-response tls, login
#[test]
fn calls_and_services_speak_tls_and_let_in_who_has_the_password() {
    let service = Service::new("https", "60000");
    let run = service.start();
    let pem = crate::broker::key_file("server.jks").replace("server.jks", "server.pem");
    let ask = |more: &[&str]| {
        let url = service.url("s");
        let args = [&["-d", "{\"n\":0}", &url], more].concat();
        curl(&args).0
    };
    let right = ["--cacert", &pem, "-u", "anna:planted-17"];
    assert_eq!(ask(&right), "200");
    assert_eq!(ask(&right[..2]), "401");
    assert_eq!(ask(&["--cacert", &pem, "-u", "anna:other"]), "401");
    assert_eq!(ask(&right[2..]), "000");
    // The same by a call of ours.
    let trust = format!(
        "https.truststore.file='{}', https.truststore.password='wso2carbon'",
        crate::broker::key_file("server.p12")
    );
    let login = "basic.auth.username='anna', basic.auth.password='planted-17'";
    let mut said = String::new();
    for (options, seen) in [
        (format!("{trust}, {login}"), "data=[0, 0]"),
        (trust.clone(), "dropping response: no source"),
        (
            format!("{trust}, {}", login.replace("17", "18")),
            "dropping response: no source",
        ),
        (login.to_owned(), "certificate"),
    ] {
        let calls = Calls::new(&service.url("s"));
        let caller = calls.start(&options);
        calls.send(0..=0);
        match seen.starts_with("data") {
            true => caller.out_has(seen, 1),
            false => caller.err_has(seen, 1),
        }
        said.push_str(&format!("{}{}", caller.out(), caller.err()));
        caller.stop();
    }
    said.push_str(&format!("{}{}", run.out(), run.err()));
    run.stop();
    assert!(!said.contains("planted"), "{said}");
}
