//! WebSocket between our binary and the library that Python programs speak it with.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use crate::broker::{Apps, errors, key_file};
use crate::kit::Subject;
use crate::network::script::Script;
use crate::network::{NOTICED, Running, eventually, free_port, number};

// row: sink websocket | websockets {websockets} of Python, and our websocket-server source
// n/a bad: a sink reads no payload

// row: sink websocket-server | websockets {websockets} of Python
// n/a resume: it sends to those who are there: nothing is kept for who comes later
// n/a bad: a sink reads no payload
// n/a login: its options know no login

// row: source websocket | websockets {websockets} of Python
// n/a resume: the protocol keeps nothing for who is away
// n/a error: `on.error` belongs to sinks

// row: source websocket-server | websockets {websockets} of Python, and our websocket sink
// n/a resume: the protocol keeps nothing for who is away
// n/a login: its options know no login
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "websocket",
    source: "type='websocket-server', host='127.0.0.1', port='{port}'",
    sink: "type='websocket', url='ws://127.0.0.1:{port}/{topic}'",
    asks_for_life: true,
    ..Subject::PLAIN
};

/// Says what it gets, and sends to all clients what it is told; what it is told to greet with, to each
/// that comes from then on. Arguments: port, seconds for a message, sub-protocol, certificate and key,
/// `user:password`.
const SERVER: &str = r#"
import asyncio, base64, http, ssl, sys
import websockets
port, pause, protocol, certificate, login = sys.argv[1:6]
clients = set()
greeting = []
async def serve(socket, path):
    headers = socket.request_headers
    print("open", path, headers.get("X-Key"), socket.subprotocol, flush=True)
    print("extensions", ",".join(extension.name for extension in socket.extensions), flush=True)
    clients.add(socket)
    try:
        for text in greeting:
            await socket.send(text)
        async for message in socket:
            if float(pause):
                await asyncio.sleep(float(pause))
            kind = "text" if isinstance(message, str) else "bytes"
            print(kind + ":" + (message if kind == "text" else message.hex()), flush=True)
    except websockets.ConnectionClosed:
        pass
    clients.discard(socket)
    print("closed", socket.close_code, flush=True)
async def admit(path, headers):
    expect = "Basic " + base64.b64encode(login.encode()).decode()
    if login and headers.get("Authorization") != expect:
        return http.HTTPStatus.UNAUTHORIZED, [], b""
async def main():
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    protocols = [protocol] if protocol else None
    async with websockets.serve(serve, "127.0.0.1", int(port), ssl=context, subprotocols=protocols,
                                process_request=admit, ping_interval=None, max_size=None):
        print("listening", flush=True)
        loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "greet":
                greeting.append(rest)
            if word == "rows":
                for n in range(int(rest)):
                    for client in list(clients):
                        await client.send(f"{n},row {n} é\n")
                continue
            for client in list(clients):
                if word == "text":
                    await client.send(rest)
                elif word == "bytes":
                    await client.send(bytes.fromhex(rest))
                elif word == "long":
                    await client.send("x" * int(rest))
                elif word == "close":
                    await client.close(4001, rest)
asyncio.run(main())
"#;

/// Sends what it is told and says what it gets. Arguments: URL, sub-protocols, certificate to trust,
/// seconds for a message.
const CLIENT: &str = r#"
import asyncio, ssl, sys
import websockets
url, protocols, trusted, pause = sys.argv[1:5]
async def main():
    context = None
    if trusted:
        context = ssl.create_default_context(cafile=trusted)
        context.check_hostname = False
    names = protocols.split(",") if protocols else None
    async with websockets.connect(url, ssl=context, subprotocols=names, ping_interval=None,
                                  max_size=None) as socket:
        print("open", socket.subprotocol, flush=True)
        print("extensions", ",".join(extension.name for extension in socket.extensions), flush=True)
        async def read():
            try:
                async for message in socket:
                    if float(pause):
                        await asyncio.sleep(float(pause))
                    kind = "text" if isinstance(message, str) else "bytes"
                    print(kind + ":" + (message if kind == "text" else message.hex()), flush=True)
            except websockets.ConnectionClosed:
                pass
            print("closed", socket.close_code, flush=True)
        reading = asyncio.create_task(read())
        loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            word, _, rest = line.rstrip("\n").partition(" ")
            try:
                if word == "text":
                    await socket.send(rest)
                elif word == "bytes":
                    await socket.send(bytes.fromhex(rest))
                elif word == "parts":
                    await socket.send(rest.split("|"))
                elif word == "close":
                    await socket.close()
            except websockets.ConnectionClosed:
                pass
asyncio.run(main())
"#;

struct Options<'a> {
    pause: &'a str,
    protocol: &'a str,
    certificate: &'a str,
    login: &'a str,
}

const PLAIN: Options<'_> = Options {
    pause: "0",
    protocol: "",
    certificate: "",
    login: "",
};

fn server(port: u16, options: &Options<'_>) -> Option<Script> {
    let port = port.to_string();
    let args = [
        port.as_str(),
        options.pause,
        options.protocol,
        options.certificate,
        options.login,
    ];
    let script = Script::start_or_skip("websockets", SERVER, &args)?;
    script.has("listening", 1);
    Some(script)
}

/// So many rows to send, and a server for them.
fn with_server(rows: u64, options: &Options<'_>) -> Option<(Apps, Script)> {
    let apps = Apps::new(free_port(), rows);
    let peer = server(apps.port(), options)?;
    Some((apps, peer))
}

fn client(url: &str, protocols: &str, trusted: &str) -> Option<Script> {
    Script::start_or_skip("websockets", CLIENT, &[url, protocols, trusted, "0"])
}

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='websocket', url='ws://127.0.0.1:{port}/in', on.error='WAIT', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='websocket', url='ws://127.0.0.1:{port}/out', {options}, @map(type='csv'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const SERVER_RECEIVER: &str = "@app:name('Receiver')
@source(type='websocket-server', host='127.0.0.1', port='{port}', {options}, @map(type='json'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const SERVER_SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='websocket-server', host='127.0.0.1', port='{port}', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

fn sender(apps: &Apps, options: &str, tailing: bool) -> String {
    let app = SENDER.replace("{tailing}", if tailing { "true" } else { "false" });
    apps.write("sender", &app, options)
}

/// A receiver without options of its own, connected.
fn receiving(apps: &Apps, app: &str) -> Running {
    Running::connected(&[&apps.write("receiver", app, "")], 1)
}

/// Adds rows to what a sender reads.
fn append(apps: &Apps, rows: &str) {
    let mut file = std::fs::File::options()
        .append(true)
        .open(apps.path("in.csv"))
        .expect("it is there");
    file.write_all(rows.as_bytes()).expect("there is room");
}

// shows: sink websocket open, order
// shows: source websocket open, order
#[test]
fn a_server_gets_and_gives_every_row_in_order() {
    const ROWS: u64 = 5_000;
    let options = Options {
        protocol: "v2.rows",
        ..PLAIN
    };
    let Some((apps, mut peer)) = with_server(ROWS, &options) else {
        return;
    };
    let own = "headers=\"'X-Key: seven'\", sub.protocol='v1.rows, v2.rows'";
    let run = Running::start(&[&sender(&apps, own, false), "--until-done"]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), ROWS);
    peer.has("open /in seven v2.rows", 1);
    // The run has ended: what it has counted was confirmed, and its connection was closed in order.
    peer.has("closed 1000", 1);
    let rows: Vec<&str> = apps.rows.lines().collect();
    assert_eq!(peer.lines("text:"), rows);

    let receiving = apps.write("receiver", RECEIVER, own);
    let run = Running::connected(&[&receiving], 1);
    peer.has("open /out seven v2.rows", 1);
    peer.say(&format!("rows {ROWS}"));
    eventually("all rows", || apps.received().len() >= apps.rows.len());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    peer.has("closed 1001", 1);
    apps.check();
}

// shows: sink websocket open
#[test]
fn frames_are_text_or_binary_as_the_mapper_makes_them() {
    let Some((apps, mut peer)) = with_server(1, &PLAIN) else {
        return;
    };
    let binary = SENDER.replace("{tailing}", "false").replace(
        "on.error='WAIT', {options}, @map(type='csv')",
        "@map(type='binary')",
    );
    let run = Running::start(&[&apps.write("binary", &binary, ""), "--until-done"]);
    assert_eq!(run.end().0, Some(0));
    peer.has("bytes:", 1);
    let bytes = peer.lines("bytes:").remove(0);
    let back = RECEIVER.replace(
        "@map(type='csv'))\ndefine stream In",
        "@map(type='binary'))\ndefine stream In",
    );
    let run = Running::connected(&[&apps.write("back", &back, "")], 1);
    peer.has("open /out", 1);
    peer.say(&format!("bytes {bytes}"));
    eventually("the row", || apps.received() == apps.rows);
    run.stop();
    // What reads text takes it from binary frames as well.
    let run = receiving(&apps, RECEIVER);
    peer.has("open /out", 2);
    peer.say("bytes 372c78");
    eventually("the other row", || apps.received().ends_with("7,x\n"));
    run.stop();
}

// shows: source websocket-server open, bad
#[test]
fn clients_on_any_path_are_read_and_a_bad_payload_hurts_no_neighbour() {
    let apps = Apps::new(free_port(), 1);
    let own = "sub.protocol='b,a'";
    let receiving = apps.write("receiver", SERVER_RECEIVER, own);
    let state = apps.path("state");
    let run = Running::connected(&[&receiving, "--state", &state], 1);
    let base = format!("ws://127.0.0.1:{}", apps.port());
    let Some(mut one) = client(&format!("{base}/any/path?x=1"), "a,c", "") else {
        return;
    };
    let mut other = client(&base, "", "").expect("the first was there");
    one.has("open a", 1);
    other.has("open None", 1);
    one.say("text {\"event\":{\"n\":1,\"text\":\"a\"}}");
    one.say("text this is not JSON");
    one.say("parts {\"event\":{\"n\":2,|\"text\":\"é\"}}");
    one.say("bytes 7b226576656e74223a7b226e223a332c2274657874223a2263227d7d");
    eventually("three rows", || apps.received().lines().count() >= 3);
    // What is not a frame ends its connection, and no other.
    let mut raw = TcpStream::connect(("127.0.0.1", apps.port())).expect("it listens");
    raw.write_all(b"this is not a handshake\r\n\r\n")
        .expect("it reads");
    run.err_has("websocket handshake failed", 1);
    let mut raw = handshaken(apps.port());
    raw.write_all(b"\x81\x82\x00\x00\x00\x00\xff\xfe")
        .expect("it reads");
    run.err_has("websocket client disconnected", 1);
    let mut told = [0; 4];
    raw.read_exact(&mut told).expect("it answers");
    assert_eq!(told, [0x88, 2, 0x03, 0xef], "a close that says 1007");
    let mut raw = handshaken(apps.port());
    let head = [
        &b"\x81\xff"[..],
        &((64_u64 << 20) + 1).to_be_bytes(),
        &[0; 4],
    ]
    .concat();
    raw.write_all(&head).expect("it reads");
    let mut told = [0; 4];
    raw.read_exact(&mut told).expect("it answers");
    assert_eq!(told, [0x88, 2, 0x03, 0xf1], "a close that says 1009");
    run.err_has("a message is longer than", 1);
    other.say("text {\"event\":{\"n\":4,\"text\":\"d\"}}");
    eventually("the last row", || apps.received().lines().count() >= 4);
    let (code, summary) = run.stop();
    // The published one leaves its connections open.
    other.has("closed 1001", 1);
    assert_eq!(code, Some(4), "one payload was rejected: {summary}");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    assert_eq!(apps.received(), "1,a\n2,é\n3,c\n4,d\n");
    assert!(errors(&state).contains("this is not JSON"));
}

/// A connection behind its handshake.
fn handshaken(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("it answers");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    stream
}

// rules: S1, S2
#[test]
fn messages_are_compressed_where_both_sides_want_it() {
    const ROWS: u64 = 500;
    let Some((apps, peer)) = with_server(ROWS, &PLAIN) else {
        return;
    };
    for options in ["compression='true'", ""] {
        let run = Running::start(&[&sender(&apps, options, false), "--until-done"]);
        let (code, summary) = run.end();
        assert_eq!(code, Some(0), "{summary}");
    }
    assert_eq!(peer.lines("extensions "), ["permessage-deflate", ""]);
    let rows: Vec<&str> = apps.rows.lines().collect();
    assert_eq!(peer.lines("text:"), [rows.clone(), rows].concat());
    drop(peer);

    let receiving = apps.write("receiver", SERVER_RECEIVER, "compression='true'");
    let run = Running::connected(&[&receiving], 1);
    let url = format!("ws://127.0.0.1:{}/in", apps.port());
    let mut client = client(&url, "", "").expect("the server was there");
    client.has("extensions permessage-deflate", 1);
    let long = "say it again, ".repeat(500);
    client.say(&format!(
        "text {{\"event\":{{\"n\":1,\"text\":\"{long}\"}}}}"
    ));
    eventually("the row", || apps.received() == format!("1,\"{long}\"\n"));
    // One that does not offer it is let in as well.
    let mut plain = handshaken(apps.port());
    plain
        .write_all(b"\xc1\x80\x00\x00\x00\x00")
        .expect("it reads");
    let mut told = [0; 4];
    plain.read_exact(&mut told).expect("it answers");
    assert_eq!(told, [0x88, 2, 0x03, 0xea], "a close that says 1002");
    run.stop();

    let sending = apps.write("sending", SERVER_SENDER, "compression='true'");
    let run = Running::connected(&[&sending], 1);
    let client = self::client(&url, "", "").expect("the server was there");
    client.has("extensions permessage-deflate", 1);
    let long = "again and ".repeat(500) + "again";
    append(&apps, &format!("1,{long}\n"));
    client.has(&format!("text:1,{long}"), 1);
    run.stop();
}

// shows: sink websocket-server open, order
#[test]
fn a_server_sink_sends_to_all_who_are_connected() {
    let apps = Apps::new(free_port(), 0);
    let sending = apps.write("sender", SERVER_SENDER, "sub.protocol='rows'");
    let run = Running::connected(&[&sending], 1);
    let url = format!("ws://127.0.0.1:{}/rows", apps.port());
    append(&apps, "0,nobody\n");
    run.err_has("no websocket client is connected", 1);
    let Some(one) = client(&url, "rows", "") else {
        return;
    };
    one.has("open rows", 1);
    append(&apps, "1,a\n");
    one.has("text:1,a", 1);
    let mut two = client(&url, "", "").expect("the first was there");
    two.has("open None", 1);
    append(&apps, "2,b\n");
    two.has("text:2,b", 1);
    // What a client says is for nobody.
    two.say("text hello");
    two.say("close");
    two.has("closed 1000", 1);
    let rows: String = (3..2_000).map(|n| format!("{n},row {n}\n")).collect();
    append(&apps, &rows);
    one.has("text:1999,row 1999", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    one.has("closed 1000", 1);
    let expect = format!("1,a\n2,b\n{rows}");
    assert_eq!(one.lines("text:"), expect.lines().collect::<Vec<_>>());
    assert_eq!(two.lines("text:"), ["2,b"]);
}

// shows: sink websocket resume
// shows: source websocket lost
#[test]
fn a_server_that_restarts_gets_all_and_is_read_again() {
    const BEFORE: usize = 15_000;
    let Some((apps, peer)) = with_server(20_000, &PLAIN) else {
        return;
    };
    apps.hold_back(BEFORE);
    let receiver = receiving(&apps, RECEIVER);
    let run = Running::connected(&[&sender(&apps, "", true)], 1);
    peer.has("text:", 100);
    drop(peer);
    run.err_has("sink lost its connection; reconnecting", 1);
    receiver.err_has("source lost its connection", 1);
    apps.add_rest(BEFORE);
    let mut peer = server(apps.port(), &PLAIN).expect("the first was there");
    peer.has(&format!("text:{}\n", apps.last_row()), 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    let found = peer.lines("text:");
    let rows: Vec<&str> = apps.rows.lines().collect();
    // What the first had not confirmed comes first, then the rest in its order.
    assert!(!found.is_empty() && found == rows[rows.len() - found.len()..]);
    receiver.err_has("source is ready", 2);
    peer.say("text 1,after");
    eventually("the row", || apps.received() == "1,after\n");
    // A close in order is said, with its words, and connected again.
    peer.say("close go home");
    receiver.err_has("4001 go home", 1);
    receiver.err_has("source is ready", 3);
    receiver.stop();
}

// shows: sink websocket lost
// shows: sink websocket-server lost
// shows: source websocket lost
// shows: source websocket-server lost
#[test]
fn a_silent_peer_is_lost_within_five_seconds() {
    let Some((apps, peer)) = with_server(1, &PLAIN) else {
        return;
    };
    let receiver = receiving(&apps, RECEIVER);
    let run = Running::connected(&[&sender(&apps, "", true)], 1);
    peer.has("text:0,", 1);
    peer.freeze();
    let frozen = Instant::now();
    receiver.err_has("source lost its connection", 1);
    run.err_has("sink lost its connection; reconnecting", 1);
    let silent = frozen.elapsed();
    assert!(silent < NOTICED, "{silent:?}");
    peer.thaw();
    receiver.err_has("source is ready", 2);
    run.stop();
    receiver.stop();

    // And a client of our own listeners.
    let (to, from) = (Apps::new(free_port(), 0), Apps::new(free_port(), 0));
    let source = receiving(&to, SERVER_RECEIVER);
    let sink = Running::connected(&[&from.write("sender", SERVER_SENDER, "")], 1);
    let clients = [to.port(), from.port()].map(|port| {
        client(&format!("ws://127.0.0.1:{port}"), "", "").expect("the library is there")
    });
    for client in &clients {
        client.has("open None", 1);
        client.freeze();
    }
    let frozen = Instant::now();
    source.err_has("websocket client disconnected", 1);
    sink.err_has("sink lost its connection; reconnecting", 1);
    let silent = frozen.elapsed();
    assert!(silent < NOTICED, "{silent:?}");
    source.stop();
    sink.stop();
}

// shows: sink websocket slow
#[test]
fn a_peer_that_reads_slowly_gets_everything_once() {
    let options = Options {
        pause: "0.01",
        ..PLAIN
    };
    let Some((apps, peer)) = with_server(1_500, &options) else {
        return;
    };
    let run = Running::start(&[&sender(&apps, "", false), "--until-done"]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    let rows: Vec<&str> = apps.rows.lines().collect();
    peer.has("closed 1000", 1);
    assert_eq!(peer.lines("text:"), rows);
}

// shows: sink websocket-server slow
#[test]
fn a_client_that_reads_slowly_holds_the_sink_up_and_gets_everything_once() {
    let apps = Apps::new(free_port(), 0);
    let run = Running::connected(&[&apps.write("sender", SERVER_SENDER, "")], 1);
    append(&apps, "0,nobody\n");
    run.err_has("no websocket client is connected", 1);
    let url = format!("ws://127.0.0.1:{}", apps.port());
    let args = [url.as_str(), "", "", "0.005"];
    let Some(slow) = Script::start_or_skip("websockets", CLIENT, &args) else {
        return;
    };
    slow.has("open None", 1);
    let rows: String = (1..=1_500).map(|n| format!("{n},row {n}\n")).collect();
    append(&apps, &rows);
    slow.has("text:1,", 1);
    // It stops only when the client has it all.
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    slow.has("closed 1000", 1);
    assert_eq!(slow.lines("text:"), rows.lines().collect::<Vec<_>>());
}

/// Its destination is away at first.
const STUCK: &str = "@app:name('Stuck')
@source(type='websocket', url='ws://127.0.0.1:{port}/out', @map(type='csv'))
define stream In (n long, text string);
@sink(type='websocket', url='ws://127.0.0.1:{options}/far', on.error='WAIT', @map(type='json'))
define stream Out (n long, text string);
from In select * insert into Out;
";

// shows: source websocket slow
#[test]
fn a_full_app_is_felt_by_its_server_and_nothing_is_lost() {
    // More than its queues hold.
    let Some((apps, mut peer)) = with_server(60_000, &PLAIN) else {
        return;
    };
    let far_port = free_port();
    let run = Running::connected(&[&apps.write("stuck", STUCK, &far_port.to_string())], 1);
    peer.has("open /out", 1);
    peer.say("rows 60000");
    run.err_has("cannot connect sink", 2);
    let far = SERVER_RECEIVER.replace("{port}", &far_port.to_string());
    let far = Running::connected(&[&apps.write("far", &far, "")], 1);
    eventually("all rows", || apps.received().len() >= apps.rows.len());
    assert!(!run.err().contains("source lost"), "{}", run.err());
    run.stop();
    far.stop();
    apps.check();
}

// shows: sink websocket-server reload
// shows: source websocket reload
#[test]
fn a_reload_takes_what_was_sent_and_connects_again() {
    let Some((apps, mut peer)) = with_server(300, &PLAIN) else {
        return;
    };
    let receiving = apps.write("receiver", RECEIVER, "");
    let run = Running::connected(&[&receiving], 1);
    peer.has("open /out", 1);
    let rows: Vec<String> = apps.rows.lines().map(str::to_owned).collect();
    for (i, block) in rows.chunks(100).enumerate() {
        for row in block {
            peer.say(&format!("text {row}"));
        }
        // The last of them is on its way at the least when it stops.
        eventually("some rows", || apps.received().lines().count() > i * 100);
        let edited = RECEIVER.replace("'Receiver')", &format!("'Receiver') -- edit {i}"));
        apps.write("receiver", &edited, "");
        eventually("the block", || {
            apps.received().lines().count() == (i + 1) * 100
        });
        run.reload();
        peer.has("closed 1001", i + 1);
        peer.has("open /out", i + 2);
    }
    run.stop();
    apps.check();

    let other = Apps::new(free_port(), 0);
    let run = Running::connected(&[&other.write("sender", SERVER_SENDER, "")], 1);
    append(&other, "0,nobody\n");
    run.err_has("no websocket client is connected", 1);
    let url = format!("ws://127.0.0.1:{}", other.port());
    let before = client(&url, "", "").expect("the library is there");
    before.has("open None", 1);
    append(&other, "1,before\n");
    before.has("text:1,before", 1);
    let edited = SERVER_SENDER.replace("'Sender')", "'Sender') -- edited");
    other.write("sender", &edited, "");
    run.reload();
    before.has("closed 1000", 1);
    run.err_has("apps reloaded change", 1);
    append(&other, "2,nobody\n");
    run.err_has("no websocket client is connected", 2);
    let after = client(&url, "", "").expect("the library is there");
    after.has("open None", 1);
    append(&other, "3,after\n");
    after.has("text:3,after", 1);
    run.stop();
}

// shows: source websocket bad
#[test]
fn a_payload_of_a_server_that_cannot_be_read_is_kept() {
    let Some((apps, mut peer)) = with_server(0, &PLAIN) else {
        return;
    };
    let state = apps.path("state");
    let receiving = apps.write("receiver", RECEIVER, "");
    let run = Running::connected(&[&receiving, "--state", &state], 1);
    peer.has("open /out", 1);
    for row in ["1,a", "no number,b", "3,c"] {
        peer.say(&format!("text {row}"));
    }
    eventually("the neighbours", || apps.received() == "1,a\n3,c\n");
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert!(errors(&state).contains("no number"));
}

// shows: source websocket-server open
// shows: sink websocket-server error
#[test]
fn a_port_that_is_taken_is_waited_for_or_goes_by_on_error() {
    let apps = Apps::new(free_port(), 3);
    let taken = TcpListener::bind(("127.0.0.1", apps.port())).expect("it is free");
    let sending = SERVER_SENDER.replace("tailing='true'", "tailing='false'");
    let logged = apps.write("sender", &sending, "on.error='LOG'");
    let state = apps.path("state");
    let run = Running::start(&[&logged, "--until-done", "--state", &state]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 3);
    assert_eq!(errors(&state).matches("row ").count(), 3);
    let run = Running::start(&[&apps.write("receiver", SERVER_RECEIVER, "")]);
    run.err_has("cannot connect source", 1);
    drop(taken);
    run.err_has("source is ready", 1);
    run.stop();
}

// shows: sink websocket open
// shows: source websocket open
#[test]
fn an_idle_connection_is_closed_and_opened_where_it_is_needed() {
    let Some((apps, mut peer)) = with_server(1, &PLAIN) else {
        return;
    };
    let run = Running::connected(&[&sender(&apps, "idle.timeout='300'", true)], 1);
    peer.has("text:0,", 1);
    peer.has("closed 1000", 1);
    append(&apps, "1,after\n");
    peer.has("text:1,after", 1);
    assert!(!run.err().contains("lost its connection"), "{}", run.err());
    run.stop();

    let receiving = apps.write("receiver", RECEIVER, "idle.timeout='300'");
    let run = Running::connected(&[&receiving], 1);
    run.err_has("no message passed for 300 ms (idle.timeout)", 1);
    run.err_has("source is ready", 2);
    // Whichever connection is the next: this one may be idle before the server hears of it.
    peer.say("greet 2,there");
    eventually("the row", || apps.received().starts_with("2,there\n"));
    run.stop();

    let other = Apps::new(free_port(), 0);
    let receiving = other.write("receiver", SERVER_RECEIVER, "idle.timeout='300'");
    let run = Running::connected(&[&receiving], 1);
    let url = format!("ws://127.0.0.1:{}", other.port());
    let client = client(&url, "", "").expect("the library is there");
    client.has("closed 1000", 1);
    run.stop();
}

// shows: sink websocket tls
// shows: sink websocket-server tls
// shows: source websocket tls
// shows: source websocket-server tls
#[test]
fn tls_both_ways_with_java_key_stores() {
    let pem = key_file("server.pem");
    let p12 = key_file("server.p12");
    let options = Options {
        certificate: &pem,
        ..PLAIN
    };
    let Some((apps, peer)) = with_server(5, &options) else {
        return;
    };
    let secure = |app: &str| app.replace("ws://127.0.0.1", "wss://localhost");
    let trust = format!("truststore.path='{p12}', truststore.password='wso2carbon'");
    let sending = SENDER.replace("{tailing}", "false");
    let sending = apps.write("sender", &secure(&sending), &trust);
    let run = Running::start(&[&sending, "--until-done"]);
    assert_eq!(run.end().0, Some(0));
    peer.has("text:4,", 1);
    let strange = Running::start(&[&apps.write("strange", &secure(RECEIVER), "")]);
    strange.err_has("certificate", 1);
    strange.stop();

    let other = Apps::new(free_port(), 0);
    let own = format!("tls.enabled='true', keystore.path='{p12}', keystore.password='wso2carbon'");
    let run = Running::connected(&[&other.write("receiver", SERVER_RECEIVER, &own)], 1);
    let url = format!("wss://127.0.0.1:{}", other.port());
    let mut trusting = client(&url, "", &pem).expect("the library is there");
    trusting.has("open None", 1);
    trusting.say("text {\"event\":{\"n\":1,\"text\":\"a\"}}");
    eventually("the row", || other.received() == "1,a\n");
    run.stop();
    let sink = Apps::new(other.port(), 0);
    let run = Running::connected(&[&sink.write("sender", SERVER_SENDER, &own)], 1);
    append(&sink, "0,nobody\n");
    run.err_has("no websocket client is connected", 1);
    let trusting = client(&url, "", &pem).expect("the library is there");
    trusting.has("open None", 1);
    append(&sink, "1,a\n");
    trusting.has("text:1,a", 1);
    run.stop();
}

// shows: sink websocket login
// shows: source websocket login
#[test]
fn only_who_proves_who_he_is_is_let_in() {
    let options = Options {
        login: "anna:geheim-17",
        ..PLAIN
    };
    let Some((apps, peer)) = with_server(3, &options) else {
        return;
    };
    let wrong = "headers=\"'Authorization: Basic geheim-18'\"";
    let refused = Running::start(&[&apps.write("refused", RECEIVER, wrong)]);
    refused.err_has("the handshake was answered 401", 1);
    let app = SENDER
        .replace("{tailing}", "false")
        .replace("ws://", "ws://anna:geheim-17@");
    let run = Running::start(&[&apps.write("sender", &app, ""), "--until-done"]);
    let (code, _) = run.end();
    assert_eq!(code, Some(0));
    peer.has("text:2,", 1);
    let said = format!("{}{}", refused.err(), refused.out());
    assert!(!said.contains("geheim"), "{said}");
    refused.stop();
}
