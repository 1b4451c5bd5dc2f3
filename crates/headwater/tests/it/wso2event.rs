//! Events by databridge: the agent of WSO2's products as it is, and a client of the test that knows the bytes.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use testservers::{wso2_agent_config, wso2_agent_or_skip};

use crate::broker::{errors, key_file};
use crate::kit::Subject;
use crate::network::script::Script;
use crate::network::{Running, eventually, free_port, number};

// row: source wso2event | the agent of WSO2's products (Java), and a client of the test
// n/a lost: a client that goes away is no loss to a listener
// n/a error: `on.error` belongs to sinks

const APP: &str = "@app:name('Receiver')
@source(type='wso2event', wso2.stream.id='org.acme.in:2.0.0', @map(type='wso2event'))
define stream In (meta_m string, correlation_c string, i int, l long, f float, d double, b bool, t string, arbitrary_folder string);
@source(type='wso2event', ack='received', @map(type='wso2event'))
define stream Trades (symbol string, price double, n int);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (m string, c string, i int, l long, f float, d double, b bool, t string, folder string);
@sink(type='log', prefix='trade')
define stream Traded (symbol string, price double, n int);
from In select meta_m as m, correlation_c as c, i, l, f, d, b, t, arbitrary_folder as folder insert into Out;
from Trades select * insert into Traded;
";

/// A server of its own with the ports of databridge.
struct Place {
    dir: tempfile::TempDir,
    /// Of Thrift without TLS and with it, then of the binary protocol.
    ports: [u16; 4],
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let ports = [(); 4].map(|()| free_port());
        let receiver = |protocol, [tcp, tls]: [u16; 2]| {
            format!(
                "    - dataReceiver:\n        type: {protocol}\n        properties:\n          hostName: 127.0.0.1\n          \
                 tcpPort: '{tcp}'\n          sslPort: '{tls}'\n"
            )
        };
        let config = format!(
            "databridge.config:\n  keyStoreLocation: {}\n  keyStorePassword: wso2carbon\n  users:\n    - user:\n        \
             username: sensor\n        password: let-me-in\n  dataReceivers:\n{}{}",
            key_file("server.p12"),
            receiver("Thrift", [ports[0], ports[1]]),
            receiver("Binary", [ports[2], ports[3]])
        );
        let place = Place { dir, ports };
        place.write("deployment.yaml", &config);
        let dir = place.path("").trim_end_matches('/').to_owned();
        place.write("app.siddhi", &APP.replace("{dir}", &dir));
        place
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder can be written");
    }

    fn run(&self) -> Running {
        let (app, config, state) = (
            self.path("app.siddhi"),
            self.path("deployment.yaml"),
            self.path("state"),
        );
        Running::connected(&[&app, "--config", &config, "--state", &state], 2)
    }

    fn rows(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("out.csv")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The agent, with a publisher that has logged in.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Agent {
    fn start_or_skip(place: &Place, protocol: &str) -> Option<Agent> {
        let trust = key_file("server.p12");
        let mut command = wso2_agent_or_skip(&trust)?;
        place.write("agent.xml", &wso2_agent_config(&trust));
        let [events, login] = match protocol {
            "Thrift" => [place.ports[0], place.ports[1]],
            _ => [place.ports[2], place.ports[3]],
        };
        let mut child = command
            .args([
                protocol,
                &format!("tcp://127.0.0.1:{events}"),
                &format!("ssl://127.0.0.1:{login}"),
            ])
            .args(["sensor", "let-me-in", "org.acme.in:2.0.0"])
            .arg(place.path("agent.xml"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java starts");
        let mut agent = Agent {
            input: child.stdin.take(),
            out: BufReader::new(child.stdout.take().expect("piped")),
            child,
        };
        agent.said("logged in");
        Some(agent)
    }

    /// Reads on until it says so.
    #[track_caller]
    fn said(&mut self, expect: &str) {
        let mut all = String::new();
        while !all.lines().any(|line| line == expect) {
            let read = self.out.read_line(&mut all).expect("it speaks");
            assert!(read > 0, "the agent ended without '{expect}': {all}");
        }
    }

    #[track_caller]
    fn publish(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{line}").expect("it reads");
        self.said(&format!("published {line}"));
    }

    #[track_caller]
    fn end(mut self) {
        drop(self.input.take());
        self.said("ended");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that did not has waited for it.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The row of an event of the agent.
fn row(n: i64) -> String {
    let text = match n % 5 {
        0 => "null".to_owned(),
        _ => format!("t{n}"),
    };
    let eighth = n as f64 / 4.0;
    format!(
        "m{n},cé{},{n},{},{n}.5,{eighth:?},{},{text},f{}",
        n % 10,
        n * 1_000_000_007,
        n % 2 == 0,
        n % 3
    )
}

/// Publishes before, during and after a restart of ours; each event comes once. A null of INT or FLOAT is 0 by the
/// binary protocol, which cannot tell them apart.
fn comes_over_a_restart(protocol: &str, nulls: impl Fn(i64) -> String) {
    let place = Place::new();
    let run = place.run();
    let Some(mut agent) = Agent::start_or_skip(&place, protocol) else {
        return;
    };
    agent.publish("events 0 20000");
    eventually("the first events", || place.rows().len() >= 20_000);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "events"), 20_000);
    // They wait in the agent, which logs in again: its session has gone with the server.
    agent.publish("events 20000 25000");
    agent.publish("nulls 0 10");
    let run = place.run();
    agent.publish("events 25000 30000");
    eventually("all events", || place.rows().len() >= 30_010);
    agent.end();
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "events"), 10_010);
    let mut found = place.rows();
    let mut expect: Vec<String> = (0..30_000).map(row).collect();
    expect.extend((0..10).map(nulls));
    // Several threads of the agent publish.
    found.sort();
    expect.sort();
    let first = found
        .iter()
        .zip(&expect)
        .find(|(found, expect)| found != expect);
    assert_eq!((found.len(), first), (expect.len(), None));
}

// shows: source wso2event open, order, login, tls, resume
#[test]
fn every_type_comes_from_the_java_agent_over_a_restart() {
    comes_over_a_restart("Thrift", |n| {
        format!("m{n},null,null,null,null,null,null,null,null")
    });
}

#[test]
fn every_type_comes_from_the_java_agent_by_the_binary_protocol() {
    comes_over_a_restart("Binary", |n| {
        format!("m{n},null,0,null,0.0,null,null,null,null")
    });
}

/// The agent takes the end of a connection of this protocol for the answer that all is well, and would lose what
/// it has sent.
#[test]
fn a_connection_of_the_binary_protocol_is_reset_and_not_ended() {
    let place = Place::new();
    let stops: [fn(Running); 2] = [|run| drop(run.stop()), Running::kill];
    for stop in stops {
        let run = place.run();
        let mut line = TcpStream::connect(("127.0.0.1", place.ports[2])).expect("it listens");
        // Of a message of 100 bytes.
        line.write_all(b"\x02\0\0\0\x64").expect("it reads");
        stop(run);
        let end = line.read(&mut [0; 16]).expect_err("no answer");
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    }
}

// shows: source wso2event reload
#[test]
fn a_reload_ends_no_connection_and_loses_nothing() {
    let place = Place::new();
    let run = place.run();
    let Some(mut agent) = Agent::start_or_skip(&place, "Thrift") else {
        return;
    };
    let app = fs::read_to_string(place.path("app.siddhi")).expect("the app");
    for reload in 1..=3 {
        let begin = (reload - 1) * 5_000;
        place.write("app.siddhi", &format!("-- edit {reload}\n{app}"));
        run.reload();
        agent.publish(&format!("events {begin} {}", begin + 5_000));
        run.err_has("apps reloaded change", reload);
    }
    eventually("all events", || place.rows().len() >= 15_000);
    agent.end();
    let said = run.err();
    assert!(!said.contains("databridge connection"), "{said}");
    run.stop();
    let (mut found, mut expect) = (place.rows(), (0..15_000).map(row).collect::<Vec<String>>());
    found.sort();
    expect.sort();
    assert!(found == expect, "{} rows of {}", found.len(), expect.len());
}

/// Knows the bytes: prints what it is answered.
const CLIENT: &str = r#"
import socket, ssl, struct, sys
tcp, tls = int(sys.argv[1]), int(sys.argv[2])

def string(x):
    x = x.encode() if isinstance(x, str) else x
    return struct.pack('>i', len(x)) + x

def text(number, x):
    return b'\x0b' + struct.pack('>h', number) + string(x)

def items(number, ty, values):
    return b'\x0f' + struct.pack('>hBi', number, ty, len(values)) + b''.join(values)

def bundle(session, events, ints, longs, doubles, strings):
    pack = lambda form, values: [struct.pack(form, v) for v in values]
    return (b'\x0c\x00\x01' + text(1, session) + b'\x08\x00\x02' + struct.pack('>i', events) +
        items(3, 8, pack('>i', ints)) + items(4, 10, pack('>q', longs)) + items(5, 4, pack('>d', doubles)) +
        items(7, 11, [string(s) for s in strings]) + b'\x00')

class Line:
    def __init__(self, port, secure=False):
        self.socket = socket.create_connection(('127.0.0.1', port))
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)

    def read(self, count):
        found = b''
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            if not more:
                raise EOFError
            found += more
        return found

    def number(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def string(self):
        return self.read(self.number('>i')).decode()

    def value(self, ty):
        if ty == 2: return bool(self.read(1)[0])
        if ty == 8: return self.number('>i')
        if ty == 11: return self.string()
        return self.fields()

    def fields(self):
        found = {}
        while True:
            ty = self.read(1)[0]
            if ty == 0: return found
            number = self.number('>h')
            found[number] = self.value(ty)

    def call(self, name, *fields, pieces=False):
        message = struct.pack('>I', 0x80010001) + string(name) + struct.pack('>i', 7) + b''.join(fields) + b'\x00'
        step = 3 if pieces else len(message)
        for at in range(0, len(message), step):
            self.socket.sendall(message[at:at + step])
        version = self.number('>I')
        assert (self.string(), self.number('>i')) == (name, 7)
        return version & 0xff, self.fields()

def say(what, answer):
    print(what, answer, flush=True)

login, line = Line(tls, True), Line(tcp)
say('wrong:', login.call('connect', text(1, 'sensor'), text(2, 'admin')))
say('clear:', line.call('connect', text(1, 'sensor'), text(2, 'let-me-in')))
_, found = login.call('connect', text(1, 'sensor'), text(2, 'let-me-in'))
session = found[0]
say('find:', line.call('findStreamId', text(1, session), text(2, 'Trades'), text(3, '1.0.0')))
say('nothing:', line.call('findStreamId', text(1, session), text(2, 'Trades'), text(3, '3.0.0')))
define = lambda payload: "{'name':'Trades','payloadData':[%s]}" % payload
attribute = lambda name, ty: "{'name':'%s','type':'%s'}" % (name, ty)
right = ','.join([attribute('symbol', 'STRING'), attribute('price', 'DOUBLE'), attribute('n', 'INT')])
say('define:', line.call('defineStream', text(1, session), text(2, define(right))))
say('differs:', line.call('defineStream', text(1, session), text(2, define(right.replace('DOUBLE', 'FLOAT')))))
say('malformed:', line.call('defineStream', text(1, session), text(2, '{')))
say('other:', line.call('defineStream', text(1, session), text(2, "{'name':'Other'}")))
say('delete:', line.call('deleteStreamById', text(1, session), text(2, 'Trades:1.0.0')))
say('expired:', line.call('publish', bundle('nobody', 1, [1], [5], [1.5], ['Trades:1.0.0', 'A'])))
say('good:', line.call('publish', bundle(session, 2, [1, 2], [5, 6], [1.5, 2.5], ['Trades:1.0.0', 'A', 'Trades:1.0.0', 'B'])))
say('pieces:', line.call('publish', bundle(session, 1, [3], [7], [3.5], ['Trades:1.0.0', 'C']), pieces=True))
say('null:', line.call('publish', bundle(session, 2, [4], [8, 9], [4.5], ['Trades:1.0.0', 'D', '_null', '_null', 'Trades:1.0.0', 'E'])))
say('undefined:', line.call('publish', bundle(session, 1, [1], [5], [1.5], ['Trades:9.0.0', 'A'])))
say('short:', line.call('publish', bundle(session, 2, [1], [5, 6], [1.5, 2.5], ['Trades:1.0.0', 'A', 'Trades:1.0.0', 'B'])))
say('bytes:', line.call('publish', bundle(session, 1, [1], [5], [1.5], ['Trades:1.0.0', b'\xff'])))
say('again:', login.call('publish', bundle(session, 1, [5], [10], [5.5], ['Trades:1.0.0', 'F'])))
say('method:', line.call('destroy'))
say('left:', login.call('disconnect', text(1, session)))
say('gone:', line.call('publish', bundle(session, 1, [1], [5], [1.5], ['Trades:1.0.0', 'A'])))
"#;

// shows: source wso2event bad, login, slow
#[test]
fn what_clients_are_answered() {
    let place = Place::new();
    let run = place.run();
    let [tcp, tls, ..] = place.ports;
    let client = Script::start_or_skip("ssl", CLIENT, &[&tcp.to_string(), &tls.to_string()]);
    let Some(client) = client else { return };
    const VOID: &str = "(2, {})";
    const EXPIRED: &str = "(2, {2: {1: 'the session has ended or never was: log in again'}})";
    let there = "there are Trades:1.0.0, org.acme.in:2.0.0";
    for (what, answer) in [
        ("wrong", "(2, {1: {1: 'wrong user or password'}})"),
        (
            "clear",
            "(3, {1: \"Invalid method name: 'connect'\", 2: 1})",
        ),
        ("find", "(2, {0: 'Trades:1.0.0'})"),
        (
            "nothing",
            &format!("(2, {{1: {{1: \"no app takes stream 'Trades:3.0.0'; {there}\"}}}})"),
        ),
        ("define", "(2, {0: 'Trades:1.0.0'})"),
        (
            "differs",
            "(2, {1: {1: \"stream 'Trades:1.0.0' is another here: its payloadData has 'price double' where the other has 'price float'\"}})",
        ),
        ("malformed", "(2, {2: {1: 'the definition is not JSON"),
        (
            "other",
            &format!("(2, {{3: {{1: \"no app takes stream 'Other:1.0.0'; {there}\"}}}})"),
        ),
        ("delete", "(2, {0: False})"),
        ("expired", EXPIRED),
        ("good", VOID),
        ("pieces", VOID),
        ("null", VOID),
        (
            "undefined",
            &format!("(2, {{1: {{1: \"event 1: there is no stream 'Trades:9.0.0'; {there}\"}}}})"),
        ),
        (
            "short",
            "(2, {1: {1: \"event 2 of stream 'Trades:1.0.0': attribute 'n' (int) is missing, the list of ints has ended\"}})",
        ),
        (
            "bytes",
            "(2, {1: {1: \"event 1: attribute 'symbol': the text is not UTF-8",
        ),
        ("again", VOID),
        (
            "method",
            "(3, {1: \"Invalid method name: 'destroy'\", 2: 1})",
        ),
        ("left", VOID),
        ("gone", EXPIRED),
    ] {
        client.has(&format!("{what}: {answer}"), 1);
    }
    let mut stranger = TcpStream::connect(("127.0.0.1", tcp)).expect("it listens");
    stranger
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("it reads");
    // Closed, not stalled; what was left unread may show as a reset.
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).ok();
    assert!(answer.is_empty());
    run.err_has(
        "it does not begin as a message of Thrift's binary protocol",
        1,
    );
    for (time, data) in [
        (5, "A, 1.5, 1"),
        (6, "B, 2.5, 2"),
        (7, "C, 3.5, 3"),
        (8, "D, null, null"),
        (9, "E, 4.5, 4"),
        (10, "F, 5.5, 5"),
    ] {
        run.out_has(&format!("timestamp={time}, data=[{data}]"), 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sources", "Trades", "events"), 6);
    assert_eq!(number(&summary, "sources", "Trades", "rejected"), 3);
    let kept = errors(&place.path("state"));
    for cause in [
        "there is no stream 'Trades:9.0.0'",
        "attribute 'n' (int)",
        "attribute 'symbol'",
    ] {
        assert!(kept.contains(cause), "{kept}");
    }
}

// ---- the sink ----

pub const KIT: Subject = Subject {
    name: "wso2event",
    source: "type='wso2event', wso2.stream.id='{topic}:1.0.0'",
    sink: "type='wso2event', wso2.stream.id='{topic}:1.0.0', url='ssl://localhost:{port}', username='sensor', \
           password='let-me-in', truststore.file='{keys}/server.p12', truststore.password='wso2carbon'",
    // Where the source listens is said by the deployment.
    deployment: &[(
        "source",
        "wso2event",
        &[
            ("keyStoreLocation", "{keys}/server.p12"),
            ("keyStorePassword", "wso2carbon"),
            ("user.sensor", "let-me-in"),
            ("dataReceivers", "thrift"),
            ("thrift.hostName", "127.0.0.1"),
            ("thrift.tcpPort", "0"),
            ("thrift.sslPort", "{port}"),
        ],
    )],
    format: Some("wso2event"),
    ..Subject::PLAIN
};

// row: sink wso2event | our receiver, and that of WSO2's products (Java, Thrift)

/// Sends the rows of a file with every type.
const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', @map(type='csv', fail.on.unknown.attribute='false'))
define stream Rows (m string, c string, i int, l long, f float, d double, b bool, t string, folder string);
@sink(type='wso2event', url='{url}', username='{user}', password='{password}', wso2.stream.id='org.acme.in:2.0.0',
    truststore.file='{trust}', truststore.password='wso2carbon', {options},
    @map(type='wso2event', meta_m='m', correlation_c='c', i='i', l='l', f='f', d='d', b='b', t='t', arbitrary_folder='folder'))
define stream Sent (m string, c string, i int, l long, f float, d double, b bool, t string, folder string);
from Rows select * insert into Sent;
";

/// Writes an app that sends to receivers, and the rows that it reads.
fn sender(
    place: &Place,
    name: &str,
    url: &str,
    options: &str,
    rows: std::ops::Range<i64>,
) -> String {
    let line = |n| match n {
        13 => row(n).replace(",13,", ",null,") + "\n",
        n => row(n) + "\n",
    };
    let lines: String = rows.map(line).collect();
    let dir = place.path(name);
    fs::create_dir_all(&dir).expect("a folder");
    fs::write(format!("{dir}/in.csv"), lines).expect("written");
    let app = SENDER
        .replace("{dir}", &dir)
        .replace("{url}", url)
        .replace("{user}", "sensor")
        .replace("{password}", "let-me-in")
        .replace("{trust}", &key_file("server.p12"))
        .replace("{options}", options);
    let path = format!("{dir}/sender.siddhi");
    fs::write(&path, app).expect("written");
    path
}

// shows: sink wso2event open, order, login, tls, bad
#[test]
fn what_a_sink_sends_comes_to_our_source() {
    let place = Place::new();
    let run = place.run();
    let [thrift, thrift_tls, binary, binary_tls] = place.ports;
    let mut expect = Vec::new();
    for (at, (url, options, count)) in [
        (format!("tcp://localhost:{thrift}"), format!("auth.url='ssl://localhost:{thrift_tls}'"), 1_000),
        // Each row waits until the receiver has it safe.
        (format!("ssl://localhost:{thrift_tls}"), "mode='blocking'".to_owned(), 20),
        (
            format!("tcp://localhost:{binary}"),
            format!("auth.url='ssl://127.0.0.1:{binary_tls}', hostname.verification.enabled='false', protocol='binary'"),
            1_000,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let begin = at as i64 * 1_000;
        let app = sender(&place, &format!("s{at}"), &url, &options, begin..begin + count);
        let sending = Running::start(&[&app, "--until-done"]);
        let (code, summary) = sending.end();
        // Row 13 has a null that is no text: that alone is not sent.
        assert_eq!(code, Some(if at == 0 { 4 } else { 0 }), "{summary}");
        expect.extend((begin..begin + count).filter(|n| *n != 13).map(row));
        eventually("all rows", || place.rows().len() >= expect.len());
    }
    // By one connection they come in their order.
    let found = place.rows();
    let first = found
        .iter()
        .zip(&expect)
        .position(|(found, expect)| found != expect);
    assert!(
        found == expect,
        "{first:?}: {} rows of {}",
        found.len(),
        expect.len()
    );
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

// shows: sink wso2event lost, resume
#[test]
fn groups_fail_over_and_balance() {
    let (one, two) = (Place::new(), Place::new());
    let url = |at: &Place, login: bool| match login {
        true => format!("ssl://localhost:{}", at.ports[1]),
        false => format!("tcp://localhost:{}", at.ports[0]),
    };
    let both = |between: &str| {
        let list = |login| format!("{{{}{between}{}}}", url(&one, login), url(&two, login));
        (
            list(false),
            format!("auth.url='{}', timeout='5000'", list(true)),
        )
    };
    // The first is away at the beginning: the second gets all.
    let second = two.run();
    let (urls, options) = both("|");
    let app = sender(&two, "s0", &urls, &options, 100..600);
    let (code, summary) = Running::start(&[&app, "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    eventually("the rows of the first", || two.rows().len() >= 500);
    // It is lost while the sink sends to it: the rest goes to the first, and what was not answered comes again.
    let first = one.run();
    let app = sender(&one, "s1", &urls, &options, 100..20_100);
    let sending = Running::start(&[&app, "--until-done"]);
    eventually("some rows", || one.rows().len() > 500);
    first.kill();
    let (code, summary) = sending.end();
    assert_eq!(code, Some(0), "{summary}");
    let all = || -> std::collections::BTreeSet<String> {
        one.rows().into_iter().chain(two.rows()).collect()
    };
    let first = one.run();
    eventually("every row, by the one or the other", || {
        all().len() >= 20_000
    });
    assert!(two.rows().len() > 500);
    // Two that share the load, one of which goes and comes back.
    let before = [one.rows().len(), two.rows().len()];
    let (urls, options) = both(",");
    let app = sender(&one, "s2", &urls, &options, 100_000..110_000);
    let (code, summary) = Running::start(&[&app, "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    eventually("all rows, shared", || {
        one.rows().len() + two.rows().len() >= before[0] + before[1] + 10_000
    });
    assert!(one.rows().len() > before[0] && two.rows().len() > before[1]);
    let app = sender(&one, "s3", &urls, &options, 200_000..220_000);
    let sending = Running::start(&[&app, "--until-done"]);
    eventually("some more rows", || {
        one.rows().len() + two.rows().len() > before[0] + before[1] + 10_500
    });
    second.kill();
    let (code, summary) = sending.end();
    assert_eq!(code, Some(0), "{summary}");
    let second = two.run();
    eventually("every row once more", || {
        let found = all();
        (200_000..220_000).all(|n| found.contains(&row(n)))
    });
    first.stop();
    second.stop();
}

// shows: sink wso2event error, login
#[test]
fn a_sink_waits_for_a_receiver_and_judges_its_answers() {
    let place = Place::new();
    let url = format!("ssl://localhost:{}", place.ports[1]);
    // Nobody listens yet.
    let app = sender(&place, "s0", &url, "on.error='WAIT'", 100..400);
    let sending = Running::start(&[&app, "--until-done"]);
    sending.err_has("cannot connect sink", 1);
    let run = place.run();
    let (code, summary) = sending.end();
    assert_eq!(code, Some(0), "{summary}");
    eventually("all rows", || place.rows().len() >= 300);
    // A stream that nobody reads is refused, event by event, and its reason said.
    let app = sender(&place, "s1", &url, "on.error='LOG'", 0..3);
    let text = fs::read_to_string(&app).expect("the app");
    fs::write(
        &app,
        text.replace("org.acme.in:2.0.0", "org.acme.other:1.0.0"),
    )
    .expect("written");
    let sending = Running::start(&[&app, "--until-done"]);
    let (code, summary) = sending.end();
    assert_ne!(code, Some(0), "{summary}");
    // A wrong password is said, and nothing is sent.
    let app = sender(&place, "s2", &url, "on.error='WAIT'", 0..3);
    let text = fs::read_to_string(&app).expect("the app");
    fs::write(&app, text.replace("let-me-in", "guess")).expect("written");
    let sending = Running::start(&[&app]);
    eventually("the login is refused", || {
        sending.err().contains("password")
    });
    assert!(!sending.err().contains("guess"));
    sending.kill();
    assert_eq!(place.rows().len(), 300);
    run.stop();
}

/// The receiver of WSO2's products takes what the sink sends: it is told the stream, and hears every type.
#[test]
fn what_a_sink_sends_comes_to_the_java_receiver() {
    let place = Place::new();
    let [port, tls, ..] = place.ports;
    let Some(mut command) = testservers::wso2_receiver_or_skip(&key_file("server.p12")) else {
        return;
    };
    let mut child = command
        .args([&port.to_string(), &tls.to_string(), "sensor", "let-me-in"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("java starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("it speaks").expect("it is text");
    while next() != "listens" {}
    let url = format!("tcp://localhost:{port}");
    let options = format!("auth.url='ssl://localhost:{tls}'");
    let app = sender(&place, "s0", &url, &options, 1..1_001);
    let (code, summary) = Running::start(&[&app, "--until-done"]).end();
    assert_eq!(
        code,
        Some(4),
        "row 13 has a null that is no text: {summary}"
    );
    assert_eq!(next(), "defined org.acme.in:2.0.0");
    let line = |n: i64| {
        let text = match n % 5 {
            0 => "null".to_owned(),
            _ => format!("t{n}"),
        };
        format!(
            "event org.acme.in:2.0.0 | m{n} | cé{} | {n} {} {n}.5 {:?} {} {text} | {{folder=f{}}}",
            n % 10,
            n * 1_000_000_007,
            n as f64 / 4.0,
            n % 2 == 0,
            n % 3
        )
    };
    let mut expect: Vec<String> = (1..1_001).filter(|n| *n != 13).map(line).collect();
    let mut found: Vec<String> = expect.iter().map(|_| next()).collect();
    // Its workers take bundles side by side.
    expect.sort();
    found.sort();
    let first = found
        .iter()
        .zip(&expect)
        .find(|(found, expect)| found != expect);
    assert!(found == expect, "{first:?}");
    child.kill().expect("it runs");
    child.wait().expect("ended");
}
