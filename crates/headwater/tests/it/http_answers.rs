//! What the http sink makes of each answer: taken, to be sent again, refused.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::network::{Running, Stub, curl, eventually, free_port, number, ok, post_all};

const APP: &str = "@app:name('Answers') {app}
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@OnError(action='STREAM')
@sink(type='http', publisher.url='http://127.0.0.1:{to}/out', {options}, @map(type='json', @payload('{{n}}')))
define stream Out (n long);
@sink(type='log', prefix='fault')
define stream Seen (n long);
from In select * insert into Out;
from !Out select n insert into Seen;
";

const ORDERED: &str = "max.pool.active.connections='1'";

struct Sender {
    run: Running,
    url: String,
    metrics: String,
    _dir: tempfile::TempDir,
}

impl Sender {
    fn start(stub: &Stub, app: &str, options: &str) -> Sender {
        let dir = tempfile::tempdir().expect("a folder");
        let (port, http) = (free_port(), free_port());
        let text = APP
            .replace("{port}", &port.to_string())
            .replace("{to}", &stub.port.to_string())
            .replace("{app}", app)
            .replace("{options}", options);
        let path = dir.path().join("app.siddhi");
        fs::write(&path, text).expect("the folder can be written");
        let http = format!("127.0.0.1:{http}");
        let run = Running::connected(&[&path.display().to_string(), "--http", &http], 1);
        Sender {
            run,
            url: format!("http://127.0.0.1:{port}/in"),
            metrics: format!("http://{http}/metrics"),
            _dir: dir,
        }
    }

    fn send(&self, range: std::ops::Range<u32>) {
        let statuses = post_all(&self.url, range.map(|n| format!("{{\"n\":{n}}}")));
        assert!(statuses.iter().all(|status| *status == 200));
    }

    fn answers(&self, class: &str) -> u64 {
        let text = curl(&[&self.metrics]).1;
        let label = format!("type=\"http\",class=\"{class}\"}} ");
        let line = text
            .lines()
            .find_map(|line| line.split_once(label.as_str()))
            .unwrap_or_else(|| panic!("no answers of class {class} in {text}"));
        assert!(line.0.starts_with("headwater_sink_answers_total"));
        line.1.parse().expect("a number")
    }
}

fn status(line: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {line}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Answers every tenth request with the next of these, the others with 200.
fn every_tenth(answers: &'static [&'static str]) -> (Stub, &'static Mutex<Vec<u32>>) {
    let taken: &'static Mutex<Vec<u32>> = Box::leak(Box::default());
    let count = AtomicUsize::new(0);
    let stub = Stub::start(0, move |got| {
        let at = count.fetch_add(1, Ordering::SeqCst);
        if at % 10 == 3 {
            return status(answers[at / 10 % answers.len()], "not now");
        }
        taken
            .lock()
            .expect("no panic")
            .push(got.body.parse().expect("a number"));
        ok("")
    });
    (stub, taken)
}

// shows: sink http error
#[test]
fn a_sink_that_waits_sends_again_in_order_what_may_be_taken_later() {
    let (stub, taken) = every_tenth(&[
        "429 slow down",
        "500 oops",
        "503 busy\r\nRetry-After: 0",
        "408 late",
        "425 early",
    ]);
    let options = format!("{ORDERED}, on.error='WAIT'");
    let sender = Sender::start(&stub, "", &options);
    sender.send(0..90);
    eventually("all events", || taken.lock().expect("no panic").len() >= 90);
    assert_eq!(
        *taken.lock().expect("no panic"),
        (0..90).collect::<Vec<_>>()
    );
    eventually("all are counted", || sender.answers("accepted") == 90);
    assert!(sender.answers("retry") >= 9);
    assert_eq!(sender.answers("refused"), 0);
    let (code, summary) = sender.run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 90);
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 0);
}

// shows: sink http error
#[test]
fn what_is_refused_is_kept_with_the_answer_and_its_neighbours_go_on() {
    let stub = Stub::start(0, |got| match got.body.as_str() {
        "3" => status("422 Unprocessable", "no such number"),
        "5" => status("302 Found\r\nLocation: http://127.0.0.1:1/", ""),
        _ => ok(""),
    });
    let options = format!("{ORDERED}, on.error='WAIT'");
    let sender = Sender::start(&stub, "", &options);
    sender.send(0..10);
    stub.wait_for(10);
    sender
        .run
        .err_has("422 Unprocessable Entity: no such number", 1);
    sender.run.err_has("302 Found", 1);
    eventually("all are counted", || sender.answers("accepted") == 8);
    assert_eq!(sender.answers("refused"), 2);
    let (code, summary) = sender.run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 2);
    assert_eq!(number(&summary, "sinks", "Out", "events"), 8);
    assert_eq!(stub.got().len(), 10, "none is sent again");
}

// shows: sink http error
#[test]
fn what_nobody_waits_for_goes_where_on_error_says() {
    let stub = Stub::start(0, |_| status("503 busy", ""));
    let sender = Sender::start(&stub, "", "on.error='STREAM'");
    sender.send(7..8);
    sender.run.out_has("fault : Event", 1);
    sender.run.stop();
    for policy in ["LOG", "STORE"] {
        let sender = Sender::start(&stub, "", &format!("on.error='{policy}'"));
        sender.send(7..8);
        sender.run.err_has("events were not delivered", 1);
        let (code, summary) = sender.run.stop();
        assert_eq!(code, Some(4), "{policy}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), 1, "{policy}");
    }
}

// shows: sink http error
#[test]
fn a_peer_is_left_alone_for_as_long_as_it_asks() {
    for options in [ORDERED, "blocking.io='true'"] {
        let first: &'static Mutex<Option<Instant>> = Box::leak(Box::default());
        let pause: &'static Mutex<Option<Duration>> = Box::leak(Box::default());
        let stub = Stub::start(0, |_| {
            let mut first = first.lock().expect("no panic");
            match *first {
                None => {
                    *first = Some(Instant::now());
                    status("429 slow down\r\nRetry-After: 2", "")
                }
                Some(at) => {
                    *pause.lock().expect("no panic") = Some(at.elapsed());
                    ok("")
                }
            }
        });
        let sender = Sender::start(&stub, "", &format!("{options}, on.error='WAIT'"));
        sender.send(1..2);
        eventually("the event", || pause.lock().expect("no panic").is_some());
        let pause = pause.lock().expect("no panic").unwrap_or_default();
        assert!(pause >= Duration::from_millis(1990), "{options}: {pause:?}");
        assert_eq!(sender.run.stop().0, Some(0), "{options}");
    }
}

// shows: sink http error
#[test]
fn with_compat_any_answer_is_an_arrival() {
    let stub = Stub::start(0, |_| status("500 oops", ""));
    let sender = Sender::start(&stub, "@app:compat('siddhi-5.1')", "on.error='WAIT'");
    sender.send(0..3);
    stub.wait_for(3);
    let (code, summary) = sender.run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 3);
    assert_eq!(stub.got().len(), 3);
}

// shows: sink http slow
#[test]
fn a_stop_does_not_wait_for_a_peer_that_never_takes_anything() {
    let stub = Stub::start(0, |_| status("500 oops", ""));
    let sender = Sender::start(&stub, "", "on.error='WAIT'");
    sender.send(0..3);
    sender.run.err_has("retrying request", 1);
    let stopped = Instant::now();
    let (code, summary) = sender.run.stop();
    assert!(
        stopped.elapsed() < Duration::from_secs(8),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 3);
}

/// A disk without room, as a device that is full: nothing written to it stays.
const FULL: &str = "/dev/full";

// shows: sink file error
#[test]
fn a_full_disk_is_tried_in_pauses_and_logged_in_few_lines() {
    if !Path::new(FULL).exists() {
        return;
    }
    // A short event fails when it is flushed, a long one while it is written.
    for length in [1, 1 << 20] {
        let dir = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let text = format!(
            "@app:name('Full')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (t string);
@sink(type='file', file.uri='{FULL}', append='true', on.error='WAIT', @map(type='json'))
define stream Out (t string);
from In select * insert into Out;
"
        );
        let path = dir.path().join("app.siddhi");
        fs::write(&path, text).expect("the folder can be written");
        let state = dir.path().join("state").display().to_string();
        let app = path.display().to_string();
        let args = [&app, "--state", &state, "--state-interval", "100ms"];
        let run = Running::connected(&args, 1);
        let url = format!("http://127.0.0.1:{port}/in");
        let body = dir.path().join("body");
        fs::write(&body, format!("{{\"t\":\"{}\"}}", "x".repeat(length))).expect("there is room");
        let body = format!("@{}", body.display());
        // The answer comes with the checkpoint, which waits for the disk.
        let asked = std::thread::spawn(move || curl(&["-m", "5", "-d", &body, &url]).0);
        asked.join().expect("no panic");
        let tries = run.err().matches("write to sink failed").count();
        assert!(
            (1..=7).contains(&tries),
            "{length}: {tries} lines: {}",
            run.err()
        );
        run.stop();
    }
}
