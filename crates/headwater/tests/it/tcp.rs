//! Siddhi's frames over TCP between processes of our own, and against peers that misbehave.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use crate::kit::Subject;
use crate::network::{Running, curl, eventually, free_port, number};

// row: sink tcp | our tcp source, and a server of the test
// n/a bad: a sink reads no payload
// n/a tls: Siddhi's frames have no TLS
// n/a login: Siddhi's frames have no login

// row: source tcp | our tcp sink, and a client of the test
// n/a resume: Siddhi's frames carry no position
// n/a lost: a client that goes away is no loss to a listener
// n/a tls: Siddhi's frames have no TLS
// n/a login: Siddhi's frames have no login
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "tcp",
    source: "type='tcp', context='{topic}'",
    sink: "type='tcp', url='tcp://127.0.0.1:{port}/{topic}'",
    // Where a source listens is said by the deployment.
    deployment: &[(
        "source",
        "tcp",
        &[("host", "127.0.0.1"), ("port", "{port}")],
    )],
    ..Subject::PLAIN
};

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("the folder can be written");
    path.display().to_string()
}

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string, price double, flag bool, i int, f float);
@sink(type='tcp', url='tcp://127.0.0.1:{port}/Receiver/In', on.error='WAIT', sync='{sync}', @map(type='binary'))
define stream Out (n long, text string, price double, flag bool, i int, f float);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='tcp', @map(type='binary'))
define stream In (n long, text string, price double, flag bool, i int, f float);
@source(type='tcp', context='other', @map(type='binary'))
define stream Other (n long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string, price double, flag bool, i int, f float);
@sink(type='log', prefix='other')
define stream OutOther (n long);
from In select * insert into Out;
from Other select * insert into OutOther;
";

/// A sender and a receiver that are to exchange so many rows over one port.
struct Pair {
    dir: tempfile::TempDir,
    port: u16,
    rows: String,
    sender: String,
    receiver: String,
    config: String,
}

impl Pair {
    fn new(rows: u64, sync: bool) -> Pair {
        let dir = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut text = String::new();
        for n in 0..rows {
            let flag = n % 3 == 0;
            writeln!(text, "{n},t{n} é,{n}.5,{flag},{},{}.25", n % 7, n % 5).expect("it grows");
        }
        let fill = |app: &str| {
            app.replace("{dir}", &dir.path().display().to_string())
                .replace("{port}", &port.to_string())
                .replace("{sync}", &sync.to_string())
        };
        let config = format!(
            "siddhi:\n  extensions:\n    - extension:\n        name: tcp\n        namespace: source\n        \
             properties:\n          host: 127.0.0.1\n          port: '{port}'\n"
        );
        write(dir.path(), "in.csv", &text);
        Pair {
            port,
            rows: text,
            sender: write(dir.path(), "sender.siddhi", &fill(SENDER)),
            receiver: write(dir.path(), "receiver.siddhi", &fill(RECEIVER)),
            config: write(dir.path(), "deployment.yaml", &config),
            dir,
        }
    }

    fn receive(&self) -> Running {
        Running::connected(&[&self.receiver, "--config", &self.config], 2)
    }

    fn send(&self) -> Running {
        Running::start(&[&self.sender, "--until-done"])
    }

    /// The sender, which follows its file.
    fn following(&self) -> String {
        let text = fs::read_to_string(&self.sender).expect("the app");
        let text = text.replace("tailing='false'", "tailing='true'");
        write(self.dir.path(), "sender.siddhi", &text)
    }

    fn received(&self) -> String {
        fs::read_to_string(self.dir.path().join("out.csv")).unwrap_or_default()
    }

    #[track_caller]
    fn check(&self) {
        let (expect, found) = (&self.rows, self.received());
        let counts = (expect.lines().count(), found.lines().count());
        assert!(*expect == found, "{counts:?} rows sent and received differ");
    }
}

// shows: sink tcp open, order
// shows: source tcp open, order
#[test]
fn every_row_arrives_once_and_in_order() {
    for sync in [false, true] {
        let pair = Pair::new(if sync { 2_000 } else { 100_000 }, sync);
        let receiver = pair.receive();
        let (code, summary) = pair.send().end();
        assert_eq!(code, Some(0), "{summary}");
        let rows = pair.rows.lines().count();
        assert_eq!(number(&summary, "sinks", "Out", "events"), rows as u64);
        // What is on its way when the receiver is told to stop is taken first.
        let (code, summary) = receiver.stop();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sources", "In", "events"), rows as u64);
        pair.check();
    }
}

// shows: sink tcp resume, error
#[test]
fn a_receiver_that_is_stopped_and_started_again_misses_nothing() {
    let pair = Pair::new(400_000, false);
    let thirds: Vec<&str> = {
        let (first, rest) = pair.rows.split_at(line_at(&pair.rows, 130_000));
        let (second, third) = rest.split_at(line_at(rest, 130_000));
        vec![first, second, third]
    };
    let input = pair.dir.path().join("in.csv");
    fs::write(&input, thirds[0]).expect("the folder can be written");
    let sender = Running::connected(&[&pair.following()], 1);
    sender.err_has("cannot connect sink", 1);
    for (round, more) in (1..).zip(&thirds[1..]) {
        let receiver = pair.receive();
        let so_far = pair.received().len();
        eventually("more rows", || pair.received().len() > so_far);
        let mut file = fs::File::options().append(true).open(&input);
        let written = file.as_mut().map(|f| f.write_all(more.as_bytes()));
        written.expect("it is there").expect("there is room");
        let (code, summary) = receiver.stop();
        assert_eq!(code, Some(0), "{summary}");
        sender.err_has("sink lost its connection; reconnecting", round);
    }
    let receiver = pair.receive();
    eventually("all rows", || pair.received().len() >= pair.rows.len());
    let (code, summary) = sender.stop();
    assert_eq!(code, Some(0), "{summary}");
    receiver.stop();
    pair.check();
}

/// Where the line of this number begins.
fn line_at(text: &str, number: usize) -> usize {
    text.split_inclusive('\n').take(number).map(str::len).sum()
}

/// Reads a connection to its end; the rows in its frames.
fn rows_in(mut stream: TcpStream) -> u64 {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it is sent");
    let (mut rest, mut rows) = (bytes.as_slice(), 0);
    let int = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes")) as usize;
    while !rest.is_empty() {
        assert_eq!(rest[0], 2);
        let len = int(&rest[1..]);
        let mut frame = &rest[5..5 + len];
        for _ in 0..2 {
            frame = &frame[4 + int(frame)..];
        }
        assert_eq!(int(frame), frame.len() - 4);
        rows += int(&frame[4..]) as u64;
        rest = &rest[5 + len..];
    }
    rows
}

// shows: sink tcp slow
#[test]
fn a_peer_that_does_not_read_holds_the_sender_and_gets_all_in_the_end() {
    let pair = Pair::new(400_000, false);
    let listener = TcpListener::bind(("127.0.0.1", pair.port)).expect("a free port");
    let metrics = format!("127.0.0.1:{}", free_port());
    let sender = Running::start(&[&pair.sender, "--until-done", "--http", &metrics]);
    let (stream, _) = listener.accept().expect("it connects");
    // Everything between the file and the socket fills up; then nothing moves.
    let read = || {
        let text = curl(&[&format!("http://{metrics}/metrics")]).1;
        let line = |l: &&str| l.starts_with("headwater_source_events_total{");
        let found = text.lines().find(line).and_then(|l| l.rsplit(' ').next());
        found
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or_default()
    };
    let (mut last, mut looks) = (0, 0);
    eventually("a halt", || {
        let now = read();
        looks = if now == last && now > 0 { looks + 1 } else { 0 };
        last = now;
        looks > 20
    });
    assert!(last < 400_000, "{last} rows were taken in");
    assert_eq!(rows_in(stream), 400_000);
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    let peak = summary["peak_rss_bytes"].as_u64().expect("a number");
    assert!(peak < 300 << 20, "{peak} bytes");
}

// shows: sink tcp lost
#[test]
fn a_peer_that_goes_away_is_told_at_once_also_when_nothing_is_sent() {
    let pair = Pair::new(10, false);
    let listener = TcpListener::bind(("127.0.0.1", pair.port)).expect("a free port");
    let sender = Running::start(&[&pair.following()]);
    let (stream, _) = listener.accept().expect("it connects");
    drop(stream);
    sender.err_has("sink lost its connection; reconnecting", 1);
    sender.kill();
}

/// A frame of one event of one long.
fn frame(context: &str, n: i64) -> Vec<u8> {
    let mut data = 1u32.to_be_bytes().to_vec();
    data.extend_from_slice(&1_700_000_000_000i64.to_be_bytes());
    data.extend_from_slice(&n.to_be_bytes());
    let mut rest = Vec::new();
    for part in [b"session", context.as_bytes(), &data] {
        rest.extend_from_slice(&(part.len() as u32).to_be_bytes());
        rest.extend_from_slice(part);
    }
    let mut frame = vec![2];
    frame.extend_from_slice(&(rest.len() as u32).to_be_bytes());
    frame.extend_from_slice(&rest);
    frame
}

// shows: source tcp bad
#[test]
fn what_is_no_frame_or_for_nobody_is_told_and_hurts_no_one_else() {
    let pair = Pair::new(0, false);
    let receiver = pair.receive();
    let connect = || TcpStream::connect(("127.0.0.1", pair.port)).expect("it listens");
    let mut good = connect();
    good.write_all(&frame("other", 1)).expect("it reads");
    let mut bad = connect();
    bad.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
    // The connection is closed, not stalled; what was left unread may show as a reset.
    let mut answer = Vec::new();
    bad.read_to_end(&mut answer).ok();
    assert!(answer.is_empty());
    receiver.err_has("a frame begins with byte 71 instead of 2", 1);
    let mut lost = connect();
    lost.write_all(&frame("nobody", 1)).expect("it reads");
    lost.write_all(&frame("other", 2)).expect("it reads");
    receiver.err_has("no source has this context", 1);
    good.write_all(&frame("Receiver/In", 3)).expect("it reads");
    good.write_all(&frame("other", 4)).expect("it reads");
    for n in [1, 2, 4] {
        // The timestamp is that of the sender.
        receiver.out_has(&format!("timestamp=1700000000000, data=[{n}]"), 1);
    }
    let (code, summary) = receiver.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    assert_eq!(number(&summary, "sources", "Other", "events"), 3);
}

#[test]
fn a_reload_of_the_receiver_loses_nothing_that_senders_write_meanwhile() {
    const AGAIN: &str = "apps reloaded change";
    let pair = Pair::new(0, false);
    let receiver = pair.receive();
    let connect = || TcpStream::connect(("127.0.0.1", pair.port)).expect("it listens");
    let mut staying = connect();
    let (mut sent, mut reloads) = (0, 0);
    let mut next = || {
        sent += 1;
        frame("other", sent)
    };
    for _ in 0..5 {
        reloads += 1;
        let app = fs::read_to_string(&pair.receiver).expect("the app");
        write(
            pair.dir.path(),
            "receiver.siddhi",
            &format!("-- edit {reloads}\n{app}"),
        );
        receiver.reload();
        for _ in 0..50 {
            staying.write_all(&next()).expect("it stays open");
            // One that has gone before anybody may have seen it.
            connect()
                .write_all(&next())
                .expect("it listens all the time");
        }
        receiver.err_has(AGAIN, reloads);
    }
    // With another deployment it may listen elsewhere: senders see the end, and are read up to theirs.
    let config = fs::read_to_string(&pair.config).expect("the deployment");
    let config = format!("{config}          keep.alive: 'false'\n");
    write(pair.dir.path(), "deployment.yaml", &config);
    receiver.reload();
    let end = staying.read(&mut [0]).expect("it ends in order");
    assert_eq!(end, 0);
    staying.write_all(&next()).expect("it is read");
    drop(staying);
    receiver.err_has(AGAIN, reloads + 1);
    connect().write_all(&next()).expect("it listens again");
    for n in 1..=sent {
        receiver.out_has(&format!("data=[{n}]"), 1);
    }
    let said = receiver.err();
    assert!(!said.contains("dropping frames"), "{said}");
    receiver.stop();
}

#[test]
fn who_sends_to_an_app_that_is_taken_away_sees_the_end() {
    let pair = Pair::new(0, false);
    let other = "@app:name('Another')\n@sink(type='log') define stream S (n long);\n";
    let apps = pair.dir.path().join("apps");
    fs::create_dir(&apps).expect("the folder can be written");
    write(&apps, "another.siddhi", other);
    let app = fs::read_to_string(&pair.receiver).expect("the app");
    let app = write(&apps, "receiver.siddhi", &app);
    let folder = apps.display().to_string();
    let receiver = Running::connected(&[&folder, "--config", &pair.config], 2);
    let mut sender = TcpStream::connect(("127.0.0.1", pair.port)).expect("it listens");
    sender.write_all(&frame("other", 1)).expect("it reads");
    fs::remove_file(app).expect("it is there");
    write(&apps, "another.siddhi", &format!("-- edited\n{other}"));
    receiver.reload();
    let end = sender.read(&mut [0]).expect("it ends in order");
    assert_eq!(end, 0);
    drop(sender);
    receiver.out_has("data=[1]", 1);
    receiver.err_has("apps reloaded change", 1);
    assert!(TcpStream::connect(("127.0.0.1", pair.port)).is_err());
    receiver.stop();
}
