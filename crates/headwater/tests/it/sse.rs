//! Server-sent events: our source before a server in Python, our sink before curl, and both together.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use crate::broker::{Apps, errors, key_file};
use crate::network::script::Script;
use crate::network::{NOTICED, Reader, Running, curl, eventually, free_port, number};

// row: sink sse-server | curl {curl}, and our sse source
// n/a resume: it sends to those who are there: nothing is kept for who comes later
// n/a bad: a sink reads no payload
// n/a login: its options know no login

// row: source sse | http.server of Python {python}, and our sse-server sink
// n/a error: `on.error` belongs to sinks

/// Sends what it is told to all who hold `/events` open: a line is a piece of the stream as a literal of
/// Python. Arguments: port, `user:password`.
const SERVER: &str = r#"
import ast, base64, http.server, queue, sys, threading
port, login = sys.argv[1:3]
streams = []
# Whole lines, whichever thread says them: print writes a line and its end one after the other.
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *ignored):
        pass
    def do_GET(self):
        headers = self.headers
        say("asked", self.path, headers["Accept"], headers["X-Key"], headers["Last-Event-ID"])
        expect = "Basic " + base64.b64encode(login.encode()).decode()
        if login and headers["Authorization"] != expect:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path.startswith("/to/"):
            status, place = self.path[4:].split("/", 1)
            self.send_response(int(status))
            self.send_header("Location", place)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/nothing":
            self.send_response(204)
            self.end_headers()
            return
        kind = "text/html" if self.path == "/page" else "text/event-stream; charset=utf-8"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("X-Answer", "yes")
        self.send_header("Connection", "close")
        self.end_headers()
        pieces = queue.Queue()
        streams.append(pieces)
        say("open")
        try:
            while True:
                piece = pieces.get()
                if piece is None:
                    break
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            pass
        streams.remove(pieces)
        say("closed")
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
say("listening")
for line in sys.stdin:
    word, _, rest = line.rstrip("\n").partition(" ")
    for stream in list(streams):
        if word == "end":
            stream.put(None)
        elif word == "rows":
            for n in range(int(rest)):
                stream.put(f"id: {n}\ndata: {n},row {n} é\n\n".encode())
        else:
            stream.put(ast.literal_eval(rest).encode())
"#;

fn server(port: u16, login: &str) -> Option<Script> {
    let port = port.to_string();
    let script = Script::start_or_skip("http.server", SERVER, &[&port, login])?;
    script.has("listening", 1);
    Some(script)
}

const READER: &str = "@app:name('Reader')
@source(type='sse', receiver.url='http://127.0.0.1:{port}/events', {options}, @map(type='csv', @attributes(n='0', text='1', id='trp:id', kind='trp:event', answer='trp:X-Answer')))
define stream In (n long, text string, id string, kind string, answer string);
@sink(type='log', prefix='in')
define stream Seen (n long, text string, id string, kind string, answer string);
from In select * insert into Seen;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='sse', receiver.url='{url}', {options}, @map(type='csv'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='sse-server', server.url='{url}', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

fn receiver(apps: &Apps, options: &str) -> String {
    let url = format!("http://127.0.0.1:{}/events", apps.port());
    apps.write("receiver", &RECEIVER.replace("{url}", &url), options)
}

fn sender(apps: &Apps, options: &str) -> String {
    let url = format!("http://127.0.0.1:{}/events", apps.port());
    apps.write("sender", &SENDER.replace("{url}", &url), options)
}

/// Adds rows to what a sender reads.
fn append(apps: &Apps, rows: &str) {
    let mut file = std::fs::File::options()
        .append(true)
        .open(apps.path("in.csv"))
        .expect("it is there");
    file.write_all(rows.as_bytes()).expect("there is room");
}

/// Rows that a listener has heard: each ends with a line break, behind which is nothing.
fn heard(listener: &Reader) -> Vec<String> {
    let rows = listener.data().into_iter();
    rows.filter(|row| !row.is_empty()).collect()
}

// rules: E10
#[test]
fn redirects_are_followed_and_204_is_the_end() {
    let apps = Apps::new(free_port(), 0);
    let Some(mut peer) = server(apps.port(), "anna:geheim") else {
        return;
    };
    let own = format!("http://127.0.0.1:{}", apps.port());
    let asks = |name: &str, url: &str| {
        let app = READER.replace("http://127.0.0.1:{port}/events", url);
        apps.write(
            name,
            &app,
            "basic.auth.username='anna', basic.auth.password='geheim'",
        )
    };
    for (count, status) in (1..).zip([301, 302, 307, 308]) {
        let url = format!("{own}/to/{status}//events");
        let run = Running::connected(&[&asks("reader", &url)], 1);
        peer.has("open", count);
        peer.say(&format!(r#"text "data: {count},a\n\n""#));
        run.out_has(&format!("data=[{count}, a, , message, yes]"), 1);
        run.stop();
    }
    // Another server is not told the login.
    let other = format!("{own}/to/307/http://localhost:{}/events", apps.port());
    let run = Running::start(&[&asks("other", &other)]);
    run.err_has("it answered 401", 1);
    run.stop();
    let run = Running::start(&[&asks("see", &format!("{own}/to/303//events"))]);
    run.err_has("it answered 303", 1);
    run.stop();
    let run = Running::start(&[&asks("nothing", &format!("{own}/nothing"))]);
    run.err_has("it is not asked again", 1);
    run.stop();
    assert_eq!(peer.lines("asked /nothing").len(), 1);
}

// shows: source sse open, resume, lost, bad
// rules: E11
#[test]
fn events_are_read_as_they_are_and_asked_for_behind_the_last() {
    let apps = Apps::new(free_port(), 0);
    let Some(mut peer) = server(apps.port(), "") else {
        return;
    };
    let reading = apps.write("reader", READER, "headers=\"'X-Key: seven'\"");
    let state = apps.path("state");
    let args = [reading.as_str(), "--state", &state];
    let run = Running::connected(&args, 1);
    peer.has("asked /events text/event-stream seven None", 1);
    peer.has("open", 1);
    peer.say(r#"text ": hello\ndata: 1,a\n\nid: x7\nevent: add\ndata: 2,""#);
    peer.say(r#"text "\u00e9\n\ndata: no number,b\r\n\r\ndata: 3,c\n\n""#);
    run.out_has("data=[1, a, , message, yes]", 1);
    run.out_has("data=[2, é, x7, add, yes]", 1);
    run.out_has("data=[3, c, x7, message, yes]", 1);
    // A stream that ends, by itself or with its server, is said and asked for again.
    peer.say("end");
    run.err_has("the server has ended the stream", 1);
    peer.has("asked /events text/event-stream seven x7", 1);
    run.err_has("source is ready", 2);
    drop(peer);
    run.err_has("source lost its connection", 2);
    let mut peer = server(apps.port(), "").expect("Python is there");
    peer.has("seven x7", 1);
    peer.has("open", 1);
    run.err_has("source is ready", 3);
    peer.say(r#"text "id: x8\ndata: 4,d\n\n""#);
    run.out_has("data=[4, d, x8, message, yes]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one event was rejected: {summary}");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    assert!(errors(&state).contains("no number"));
    // Another process goes on behind what the state has.
    let run = Running::connected(&args, 1);
    peer.has("seven x8", 1);
    run.stop();
    let page = READER.replace("/events", "/page");
    let run = Running::start(&[&apps.write("page", &page, "")]);
    run.err_has("'text/html', which is not an event stream", 1);
    run.stop();
}

// shows: sink sse-server open, order
#[test]
fn all_who_hold_the_url_open_hear_every_payload() {
    let apps = Apps::new(free_port(), 0);
    let url = format!("http://127.0.0.1:{}/events", apps.port());
    let own = "headers=\"'Access-Control-Allow-Origin: *'\"";
    let run = Running::connected(&[&sender(&apps, own)], 1);
    append(&apps, "0,nobody\n");
    run.err_has("no client is connected; dropping events", 1);
    let mut one = Reader::open(apps.path("one"), &["-i", &url]);
    append(&apps, "1,a\n");
    eventually("the first row", || heard(&one) == ["1,a"]);
    let two = Reader::open(apps.path("two"), &[&url]);
    let rows: String = (2..3_000).map(|n| format!("{n},row {n} é\n")).collect();
    append(&apps, &rows);
    let all: Vec<&str> = rows.lines().collect();
    eventually("all rows", || {
        heard(&two) == all && heard(&one).len() == all.len() + 1
    });
    drop(two);
    let head = one.got().to_ascii_lowercase();
    for line in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "access-control-allow-origin: *",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!(curl(&["-d", "x", &url]).0, "405");
    assert_eq!(curl(&[&url.replace("/events", "/other")]).0, "404");
    append(&apps, "3000,last\n");
    eventually("the last row", || {
        heard(&one).ends_with(&["3000,last".to_owned()])
    });
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert!(one.ends(), "its stream ended in order");
}

// shows: source sse order, reload
// shows: sink sse-server reload
#[test]
fn a_source_hears_a_sink_in_order_and_both_are_reloaded() {
    let apps = Apps::new(free_port(), 0);
    let receiving = receiver(&apps, "");
    let sending = Running::connected(&[&sender(&apps, "")], 1);
    append(&apps, "-1,nobody\n");
    sending.err_has("no client is connected", 1);
    let receiving = Running::connected(&[&receiving], 1);
    let rows: String = (0..5_000).map(|n| format!("{n},row {n} é\n")).collect();
    append(&apps, &rows);
    eventually("all rows", || apps.received() == rows);
    receiver(&apps, "worker.count='2'");
    receiving.reload();
    receiving.err_has("apps reloaded change", 1);
    receiving.err_has("source is ready", 2);
    append(&apps, "5000,reloaded\n");
    eventually("a row more", || {
        apps.received().ends_with("5000,reloaded\n")
    });
    sender(&apps, "worker.count='2'");
    sending.reload();
    sending.err_has("apps reloaded change", 1);
    receiving.err_has("source lost its connection", 1);
    receiving.err_has("source is ready", 3);
    append(&apps, "5001,again\n");
    eventually("the last row", || apps.received().ends_with("5001,again\n"));
    receiving.stop();
    sending.stop();
    assert_eq!(apps.received().lines().count(), 5_002);
}

// shows: sink sse-server lost, slow
#[test]
fn a_client_that_reads_slowly_is_waited_for_and_one_that_reads_nothing_is_left() {
    // More than all buffers on the way hold.
    const ROWS: usize = 10_000;
    let apps = Apps::new(free_port(), 0);
    let url = format!("http://127.0.0.1:{}/events", apps.port());
    let run = Running::connected(&[&sender(&apps, "")], 1);
    append(&apps, "-1,nobody\n");
    run.err_has("no client is connected", 1);
    let mut deaf = TcpStream::connect(("127.0.0.1", apps.port())).expect("it listens");
    deaf.write_all(b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    let mut head = String::new();
    let mut answer = BufReader::new(deaf.try_clone().expect("another handle"));
    answer.read_line(&mut head).expect("it answers");
    assert!(head.contains("200"), "{head}");
    let mut slow = Reader::open(apps.path("slow"), &["--limit-rate", "20M", &url]);
    let text = "x".repeat(4_000);
    let rows: String = (0..ROWS).map(|n| format!("{n},{text}\n")).collect();
    append(&apps, &rows);
    run.err_has("disconnecting client: it has read nothing for 5 s", 1);
    eventually("all rows", || heard(&slow).len() == ROWS);
    assert_eq!(heard(&slow), rows.lines().collect::<Vec<_>>());
    run.stop();
    assert!(slow.ends());
    drop(answer);
    let mut rest = Vec::new();
    deaf.read_to_end(&mut rest).ok();
}

/// Takes requests on a port of its own, on which events may be heard as well.
const TAKER: &str = "@app:name('Taker')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='text', regex.A='(.*)', @attributes(text='A')))
define stream In (text string);
@sink(type='log', prefix='taken')
define stream Out (n int);
from In select 1 as n insert into Out;
";

#[test]
fn what_waits_for_a_client_is_bounded_on_a_connection_that_was_there_before_the_events() {
    // Some 120 MB.
    const ROWS: usize = 2_000;
    let apps = Apps::new(free_port(), 0);
    let quiet = SENDER.replace(
        "@sink(type='sse-server', server.url='{url}', {options}, @map(type='csv'))\n",
        "",
    );
    let sending = apps.write("sender", &quiet, "");
    let taking = apps.write("taker", TAKER, "");
    let run = Running::connected(&[&taking, &sending], 2);
    let mut deaf = TcpStream::connect(("127.0.0.1", apps.port())).expect("it listens");
    let mut answer = BufReader::new(deaf.try_clone().expect("another handle"));
    let mut ask = |request: &str| {
        deaf.write_all(request.as_bytes()).expect("it reads");
        let mut line = String::new();
        answer.read_line(&mut line).expect("it answers");
        assert!(line.contains("200"), "{line}");
        while line != "\r\n" {
            line.clear();
            answer.read_line(&mut line).expect("it answers");
        }
    };
    ask("POST /in HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na");
    run.out_has("taken", 1);
    sender(&apps, "");
    run.reload();
    run.err_has("apps reloaded change", 1);
    append(&apps, "-1,nobody\n");
    run.err_has("no client is connected", 1);
    ask("GET /events HTTP/1.1\r\nHost: h\r\n\r\n");
    let text = "x".repeat(60_000);
    let rows: String = (0..ROWS).map(|n| format!("{n},{text}\n")).collect();
    append(&apps, &rows);
    run.err_has("disconnecting client: it has read nothing for 5 s", 1);
    // What it was not given it never gets: its connection has ended.
    let mut rest = Vec::new();
    answer.read_to_end(&mut rest).ok();
    assert!(rest.len() < rows.len() / 2, "{} bytes", rest.len());
    run.stop();
}

#[test]
fn a_server_that_stands_still_is_noticed_and_one_that_has_nothing_to_say_is_not() {
    let apps = Apps::new(free_port(), 0);
    let sending = Running::connected(&[&sender(&apps, "")], 1);
    let receiving = Running::connected(&[&receiver(&apps, "")], 1);
    let other = Apps::new(free_port(), 0);
    let silent = server(other.port(), "");
    let hearing = silent
        .as_ref()
        .map(|_| Running::connected(&[&other.write("reader", READER, "")], 1));
    sending.freeze();
    let frozen = Instant::now();
    receiving.err_has("the server does not answer keep-alive pings", 1);
    // Two of its beats and a little; the rest is for a busy machine.
    assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
    if let (Some(mut silent), Some(hearing)) = (silent, hearing) {
        assert_eq!(
            hearing.err().matches("ERROR").count(),
            0,
            "{}",
            hearing.err()
        );
        silent.say("piece 'data: 7,late\\n\\n'");
        hearing.out_has("data=[7, late", 1);
        hearing.stop();
    }
    sending.thaw();
    receiving.err_has("source is ready", 2);
    append(&apps, "1,after\n");
    eventually("a row", || apps.received() == "1,after\n");
    receiving.stop();
    sending.stop();
}

/// Its destination is away at first.
const STUCK: &str = "@app:name('Stuck')
@source(type='sse', receiver.url='http://127.0.0.1:{port}/events', @map(type='csv'))
define stream In (n long, text string);
@sink(type='websocket', url='ws://127.0.0.1:{options}/far', on.error='WAIT', @map(type='json'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const FAR: &str = "@app:name('Far')
@source(type='websocket-server', host='127.0.0.1', port='{options}', @map(type='json'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

// shows: source sse slow
#[test]
fn a_full_app_is_felt_by_its_server_and_nothing_is_lost() {
    // More than its queues hold.
    let apps = Apps::new(free_port(), 60_000);
    let Some(mut peer) = server(apps.port(), "") else {
        return;
    };
    let far = free_port().to_string();
    let run = Running::connected(&[&apps.write("stuck", STUCK, &far)], 1);
    peer.has("open", 1);
    peer.say("rows 60000");
    run.err_has("cannot connect sink", 2);
    let far = Running::connected(&[&apps.write("far", FAR, &far)], 1);
    eventually("all rows", || apps.received().len() >= apps.rows.len());
    run.stop();
    far.stop();
    apps.check();
}

// shows: sink sse-server error
#[test]
fn a_port_that_is_taken_goes_by_on_error_and_a_path_only_once() {
    let apps = Apps::new(free_port(), 3);
    let taken = TcpListener::bind(("127.0.0.1", apps.port())).expect("it is free");
    let sending = sender(&apps, "on.error='LOG'");
    let text = std::fs::read_to_string(&sending).expect("it was written");
    let ended = text.replace("tailing='true'", "tailing='false'");
    std::fs::write(&sending, ended).expect("the folder can be written");
    let state = apps.path("state");
    let run = Running::start(&[&sending, "--until-done", "--state", &state]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 3);
    assert_eq!(errors(&state).matches("row ").count(), 3);
    drop(taken);
    let source = "@source(type='http', receiver.url='http://127.0.0.1:{port}/events', @map(type='json'))\n\
                  define stream Other (n long);\n";
    let both = text.replacen("@source", &format!("{source}@source"), 1);
    let refused = apps.write("both", &both, "");
    let run = Running::start(&[&refused]);
    run.err_has("another listens on port", 1);
}

// shows: sink sse-server tls
// shows: source sse tls, login
#[test]
fn tls_and_login_of_both_sides() {
    let apps = Apps::new(free_port(), 0);
    let (jks, p12) = (key_file("server.jks"), key_file("server.p12"));
    let properties = vec![
        ("keyStoreLocation", jks.as_str()),
        ("keyStorePassword", "wso2carbon"),
        ("keyPassword", "secret12"),
    ];
    let config = apps.deployment(&[("source", "http", properties)]);
    let url = format!("https://localhost:{}/events", apps.port());
    let sending = apps.write("sender", &SENDER.replace("{url}", &url), "");
    let sending = Running::connected(&[&sending, "--config", &config], 1);
    append(&apps, "0,nobody\n");
    sending.err_has("no client is connected", 1);
    let trust = format!("https.truststore.file='{p12}', https.truststore.password='wso2carbon'");
    let receiving = apps.write("receiver", &RECEIVER.replace("{url}", &url), &trust);
    let receiving = Running::connected(&[&receiving], 1);
    let strange = apps.write("strange", &RECEIVER.replace("{url}", &url), "");
    let strange = Running::start(&[&strange]);
    strange.err_has("certificate", 1);
    append(&apps, "1,a\n");
    eventually("the row", || apps.received() == "1,a\n");
    for run in [strange, receiving, sending] {
        run.stop();
    }

    let other = Apps::new(free_port(), 0);
    let Some(mut peer) = server(other.port(), "anna:geheim-17") else {
        return;
    };
    let login = |password| format!("basic.auth.username='anna', basic.auth.password='{password}'");
    let wrong = Running::start(&[&receiver(&other, &login("geheim-18"))]);
    wrong.err_has("it answered 401", 1);
    let said = format!("{}{}", wrong.err(), wrong.out());
    assert!(!said.contains("geheim"), "{said}");
    wrong.stop();
    let right = Running::connected(&[&receiver(&other, &login("geheim-17"))], 1);
    peer.has("open", 1);
    peer.say(r#"text "data: 1,a\n\n""#);
    eventually("the row", || other.received() == "1,a\n");
    right.stop();
}
