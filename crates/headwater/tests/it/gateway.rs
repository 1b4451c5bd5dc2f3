//! The streaming gateway before clients that none of us wrote: curl, and the library that Python programs speak
//! WebSocket with.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::broker::{Apps, key_file};
use crate::network::script::Script;
use crate::network::{Reader, Running, curl, eventually, free_port, post_all};

/// An app whose connectors name topics.
const ATTACHED: &str = "@app:name('Ticks')
@source(type='websocket-server', api='ticks', topic='/in', @map(type='json'))
define stream Ticks (symbol string, price double);
@sink(type='sse-server', api='ticks', topic='/symbols/{symbol}', history.events='100', @map(type='json'))
@sink(type='websocket-server', api='ticks', topic='/symbols/{symbol}', @map(type='csv'))
define stream Out (symbol string, price double);
from Ticks select * insert into Out;
";

/// An app that knows nothing of topics, and a document that binds them to its streams.
const PLAIN: &str = "@app:name('Ticks')
define stream Ticks (sym string, price double);
from Ticks[price > 0.0] select * insert into Out;
";

const DOCUMENT: &str = "asyncapi: 3.0.0
info: { title: Ticks, version: 1.0.0 }
channels:
  in: { address: /in }
  by: { address: '/symbols/{symbol}' }
  chat: { address: /chat }
operations:
  put: { action: receive, channel: { $ref: '#/channels/in' } }
  get: { action: send, channel: { $ref: '#/channels/by' } }
  say: { action: receive, channel: { $ref: '#/channels/chat' } }
  hear: { action: send, channel: { $ref: '#/channels/chat' } }
x-headwater:
  context: /ticks
  topics:
    /in: { stream: Ticks/Ticks }
    /symbols/{symbol}: { stream: Ticks/Out, key: sym }
";

/// A topic whose publishers are heard.
const CHAT: &str = "asyncapi: 2.6.0
info: { title: Chat, version: 1.0.0 }
channels: { /chat: { subscribe: {}, publish: {} } }
";

/// A run with a gateway.
struct Gate {
    apps: Apps,
    run: Running,
}

impl Gate {
    fn start(apps: Apps, files: &[&str]) -> Gate {
        let address = format!("127.0.0.1:{}", apps.port());
        let mut args = files.to_vec();
        args.extend(["--gateway", &address]);
        let run = Running::start(&args);
        run.err_has("gateway is listening", 1);
        run.err_has("ready in", 1);
        Gate { apps, run }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.apps.port())
    }

    /// Holds a topic open, and writes what comes into the file of this name.
    fn hears(&self, name: &str, path: &str, args: &[&str]) -> Reader {
        let url = self.url(path);
        Reader::open(self.apps.path(name), &[args, &[url.as_str()]].concat())
    }

    #[track_caller]
    fn post(&self, path: &str, body: &str) -> String {
        let (status, said) = curl(&["--data-binary", body, &self.url(path)]);
        match status.as_str() {
            "202" => status,
            _ => format!("{status} {said}"),
        }
    }
}

fn tick(symbol: &str, price: &str) -> String {
    format!("{{\"event\":{{\"symbol\":\"{symbol}\",\"price\":{price}}}}}")
}

// rules: E13, E14, E15
#[test]
fn a_stream_is_heard_at_the_topics_of_its_connectors() {
    let apps = Apps::new(free_port(), 0);
    let app = apps.write("app", ATTACHED, "");
    let gate = Gate::start(apps, &[&app]);
    let a = gate.hears("a", "/ticks/1.0.0/symbols/A", &["-i"]);
    let mut short = gate.hears("short", "/ticks/symbols/A", &[]);
    for (symbol, price) in [("A", "1.5"), ("B", "2.5"), ("A", "3.5")] {
        assert_eq!(gate.post("/ticks/1.0.0/in", &tick(symbol, price)), "202");
    }
    let expect = [tick("A", "1.5"), tick("A", "3.5")];
    eventually("both events", || {
        a.data() == expect && short.data() == expect
    });
    let head = a.got().to_ascii_lowercase();
    for line in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "x-accel-buffering: no",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert!(!head.contains("content-length"), "{head}");
    // Who comes back gets what he has missed, and nothing twice.
    let last = a.of("id: ").pop().expect("events have ids");
    drop(a);
    for price in ["4.0", "5.0"] {
        assert_eq!(gate.post("/ticks/1.0.0/in", &tick("A", price)), "202");
    }
    let missed = [tick("A", "4.0"), tick("A", "5.0")];
    let id = format!("Last-Event-ID: {last}");
    let back = gate.hears("back", "/ticks/symbols/A", &["-H", &id]);
    eventually("what was missed", || back.data() == missed);
    let query = format!("/ticks/symbols/A?last-event-id={last}");
    let browser = gate.hears("browser", &query, &[]);
    eventually("what was missed", || browser.data() == missed);
    // An id of another time is a gap, and then all that is held.
    let id = "Last-Event-ID: 1kq2x9w4z7-3";
    let late = gate.hears("late", "/ticks/symbols/A", &["-H", id]);
    eventually("a gap", || late.data().len() == 5);
    assert_eq!(late.of("event: "), ["gap"]);
    assert!(
        late.data()[0].contains("\"missed\":null,\"earliest\":\""),
        "{:?}",
        late.data()
    );
    gate.run.stops();
    assert!(short.ends(), "the stream ends in order");
    let (code, _) = gate.run.end();
    assert_eq!(code, Some(0));
}

// rules: E16
#[test]
fn what_cannot_be_is_refused_with_its_cause() {
    let apps = Apps::new(free_port(), 0);
    let app = apps.write("app", ATTACHED, "");
    let gate = Gate::start(apps, &[&app]);
    let asked = |args: &[&str], path: &str| {
        let url = gate.url(path);
        let mut all = args.to_vec();
        all.push(&url);
        let (status, body) = curl(&all);
        format!("{status} {body}")
    };
    let unknown = asked(&[], "/ticks/1.0.0/symbol/A");
    assert!(
        unknown.starts_with("404") && unknown.contains("/symbols/{symbol}"),
        "{unknown}"
    );
    assert!(asked(&[], "/nothing").contains("there is no API"));
    assert!(asked(&["-X", "DELETE"], "/ticks/in").starts_with("405"));
    assert!(asked(&[], "/ticks/in").starts_with("405"));
    let json = "Accept: application/json";
    assert!(asked(&["-H", json], "/ticks/symbols/A").starts_with("406"));
    let page = "Origin: https://evil.example";
    assert!(asked(&["-H", page], "/ticks/symbols/A").starts_with("403"));
    assert!(asked(&["-I"], "/ticks/symbols/A").contains("text/event-stream"));
    let refused = gate.post("/ticks/in", "{\"event\":{\"symbol\":1");
    assert!(
        refused.starts_with("400") && refused.contains("rejected"),
        "{refused}"
    );
    let long = "x".repeat(2 << 20);
    std::fs::write(gate.apps.path("long"), long).expect("the folder can be written");
    let long = format!("@{}", gate.apps.path("long"));
    assert!(gate.post("/ticks/in", &long).starts_with("413"));
    // The neighbours go on.
    assert_eq!(gate.post("/ticks/in", &tick("A", "1.0")), "202");
    gate.run.stop();
}

#[test]
fn a_connector_with_an_api_needs_the_gateway() {
    let apps = Apps::new(free_port(), 0);
    let app = apps.write("app", ATTACHED, "");
    let run = Running::start(&[&app]);
    run.err_has("--gateway", 1);
    drop(run);
    let document = apps.path("ticks.yaml");
    std::fs::write(&document, DOCUMENT).expect("the folder can be written");
    let app = apps.write("plain", PLAIN, "");
    let run = Running::start(&[&app, &document]);
    run.err_has("say where it is served with --gateway", 1);
}

#[test]
fn a_document_binds_topics_to_streams_and_changes_while_connections_live() {
    let apps = Apps::new(free_port(), 0);
    let app = apps.write("app", PLAIN, "");
    let document = apps.path("ticks.yaml");
    std::fs::write(&document, DOCUMENT).expect("the folder can be written");
    let gate = Gate::start(apps, &[&app, &document]);
    let a = gate.hears("a", "/ticks/symbols/A", &[]);
    let chat = gate.hears("chat", "/ticks/chat", &[]);
    let put = |price: &str| {
        let event = format!("{{\"event\":{{\"sym\":\"A\",\"price\":{price}}}}}");
        assert_eq!(gate.post("/ticks/1.0.0/in", &event), "202");
        event
    };
    let mut expect = vec![put("1.5")];
    put("-1.0");
    expect.push(put("2.5"));
    eventually("both events", || a.data() == expect);
    // What is published to a topic of its own is what is heard.
    assert_eq!(gate.post("/ticks/chat", "hello\nyou"), "202");
    eventually("the lines", || chat.data() == ["hello", "you"]);
    // A document that is broken changes nothing.
    std::fs::write(
        &document,
        DOCUMENT.replace("/in: { stream", "/im: { stream"),
    )
    .expect("writable");
    gate.run.reload();
    gate.run.err_has("E1007", 1);
    gate.run.err_has("the running ones continue unchanged", 1);
    expect.push(put("3.5"));
    // One that is right does, and connections live on.
    let more = DOCUMENT.replace(
        "  chat: { address: /chat }",
        "  chat: { address: /chat }\n  new: { address: /new }",
    );
    let more = more.replace(
        "  say:",
        "  a: { action: receive, channel: { $ref: '#/channels/new' } }\n  b: { action: send, channel: { $ref: '#/channels/new' } }\n  say:",
    );
    std::fs::write(&document, &more).expect("writable");
    gate.run.reload();
    gate.run.err_has("APIs reloaded", 1);
    let mut new = gate.hears("new", "/ticks/new", &[]);
    assert_eq!(gate.post("/ticks/new", "x"), "202");
    eventually("the event", || new.data() == ["x"]);
    expect.push(put("4.5"));
    assert_eq!(gate.post("/ticks/chat", "still"), "202");
    eventually("the events", || {
        a.data() == expect && chat.data().last().is_some_and(|l| l == "still")
    });
    // The app itself is made anew under its readers.
    let edited = PLAIN.replace("price > 0.0", "price > 3.0");
    gate.apps.write("app", &edited, "");
    gate.run.reload();
    gate.run.err_has("apps reloaded", 1);
    put("2.5");
    expect.push(put("5.5"));
    eventually("the events", || a.data() == expect);
    // A topic that is gone ends its streams.
    std::fs::write(&document, DOCUMENT).expect("writable");
    gate.run.reload();
    eventually("the end", || new.of("event: ") == ["end"]);
    assert!(new.ends());
    gate.run.stop();
}

/// Speaks WebSocket as it is told: `open NAME URL`, `send NAME TEXT`, `bytes NAME HEX`, `close NAME CODE REASON`.
const CLIENT: &str = r#"
import asyncio, sys
import websockets
sockets = {}
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()
async def read(name, socket):
    try:
        async for message in socket:
            say(name, "got", message if isinstance(message, str) else message.hex())
    except websockets.ConnectionClosed:
        pass
    say(name, "closed", socket.close_code, socket.close_reason)
async def run():
    loop = asyncio.get_running_loop()
    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            return
        word, name, *rest = line.rstrip("\n").split(" ", 3)
        if word == "open":
            try:
                sockets[name] = await websockets.connect(rest[0])
                loop.create_task(read(name, sockets[name]))
                say(name, "open")
            except websockets.InvalidStatusCode as error:
                say(name, "status", error.status_code)
        elif word == "send":
            await sockets[name].send(" ".join(rest))
        elif word == "bytes":
            await sockets[name].send(bytes.fromhex(rest[0]))
        elif word == "close":
            await sockets[name].close(int(rest[0]), rest[1])
asyncio.run(run())
"#;

// rules: S3
#[test]
fn topics_speak_websocket() {
    let apps = Apps::new(free_port(), 0);
    let Some(mut client) = Script::start_or_skip("websockets", CLIENT, &[]) else {
        return;
    };
    let app = apps.write("app", ATTACHED, "");
    let gate = Gate::start(apps, &[&app]);
    let base = gate.url("/ticks/1.0.0").replace("http://", "ws://");
    client.say(&format!("open a {base}/symbols/A"));
    client.has("a open", 1);
    client.say(&format!("open in {base}/in"));
    client.has("in open", 1);
    for (symbol, price) in [("A", "1.5"), ("B", "2.5"), ("A", "3.5")] {
        client.say(&format!("send in {}", tick(symbol, price)));
    }
    client.has("a got A,1.5", 1);
    client.has("a got A,3.5", 1);
    assert_eq!(client.lines("a got ").len(), 2);
    // Who only hears may not publish, and is told so.
    client.say("send a hello");
    client.has("a closed 1008 nobody may publish to this topic", 1);
    client.say(&format!("open b {base}/nothing"));
    client.has("b status 404", 1);
    client.say(&format!("open c {base}/symbols/A"));
    client.has("c open", 1);
    // What is no handshake is refused before any upgrade (RFC 6455, 4.2).
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    for (version, key, expect) in [
        ("12", key, "426"),
        ("13", "Sec-WebSocket-Key: abc", "400"),
        ("13", "X-Key: none", "400"),
    ] {
        let version = format!("Sec-WebSocket-Version: {version}");
        let url = gate.url("/ticks/1.0.0/symbols/A");
        let upgrade = ["-H", "Connection: Upgrade", "-H", "Upgrade: websocket"];
        let mut args = upgrade.to_vec();
        args.extend(["-H", &version, "-H", key, &url]);
        assert_eq!(curl(&args).0, expect, "{version}, {key}");
    }
    gate.run.stops();
    client.has("c closed 1001 restart", 1);
    gate.run.end();
}

/// A backend: `/events` is a stream, whose pieces it is told (as literals of Python); `/old` refuses. Arguments: port.
const BACKEND: &str = r#"
import ast, http.server, queue, select, socket, sys, threading
streams = []
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *ignored):
        pass
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        say("posted", self.path, body.decode())
        self.send_response(201)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def do_GET(self):
        say("asked", self.path, self.headers["Last-Event-ID"], self.headers["X-Key"])
        if self.path.startswith("/old"):
            self.send_response(410)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        pieces = queue.Queue()
        streams.append(pieces)
        say("open")
        try:
            while True:
                try:
                    piece = pieces.get(timeout=0.05)
                except queue.Empty:
                    ready = select.select([self.connection], [], [], 0)[0]
                    if ready and not self.connection.recv(1, socket.MSG_PEEK):
                        break
                    continue
                if piece is None:
                    break
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            pass
        streams.remove(pieces)
        say("closed")
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
say("listening")
for line in sys.stdin:
    word, _, rest = line.rstrip("\n").partition(" ")
    for stream in list(streams):
        stream.put(None if word == "end" else ast.literal_eval(rest).encode())
"#;

const PROXY: &str = "asyncapi: 2.6.0
info: { title: Proxy, version: 1.0.0 }
channels:
  '/each/{name}': { subscribe: {}, publish: {} }
  /shared: { subscribe: {} }
  /old: { subscribe: {} }
  /away: { subscribe: {} }
x-headwater:
  heartbeat: 1s
  topics:
    /each/{name}: { backend: 'http://127.0.0.1:{backend}/events/{name}' }
    /shared: { backend: 'http://127.0.0.1:{backend}/events', upstream: shared }
    /old: { backend: 'http://127.0.0.1:{backend}/old' }
    /away: { backend: 'http://127.0.0.1:9/x' }
";

#[test]
fn a_document_alone_is_a_proxy_before_backends() {
    let apps = Apps::new(free_port(), 0);
    let port = free_port().to_string();
    let Some(mut backend) = Script::start_or_skip("http.server", BACKEND, &[&port]) else {
        return;
    };
    backend.has("listening", 1);
    let document = apps.path("proxy.yaml");
    std::fs::write(&document, PROXY.replace("{backend}", &port))
        .expect("the folder can be written");
    let gate = Gate::start(apps, &[&document]);
    let args = ["-H", "X-Key: seven", "-H", "Last-Event-ID: x1"];
    let each = gate.hears("each", "/proxy/each/a%2Fb", &args);
    backend.has("asked /events/a%2Fb x1 seven", 1);
    backend.has("open", 1);
    // Pieces that end anywhere, and each way to end a line.
    backend.say(r#"text "id: x2\r\nevent: add\r\nda""#);
    backend.say(r#"text "ta: one\r\n\r\ndata: two\rdata: lines\r\r""#);
    backend.say(r#"text "data: three\n\n""#);
    eventually("the events", || {
        each.data() == ["one", "two", "lines", "three"]
    });
    assert_eq!(
        (each.of("id: "), each.of("event: ")),
        (vec!["x2".to_owned()], vec!["add".to_owned()])
    );
    // A stream without events shows that it is there.
    eventually("a heartbeat", || each.got().matches(":\n\n").count() > 1);
    drop(each);
    backend.has("closed", 1);
    // What is published goes to the backend, and its answer comes back.
    let (status, body) = curl(&["--data-binary", "hello", &gate.url("/proxy/each/x")]);
    assert_eq!((status.as_str(), body.as_str()), ("201", "ok"));
    backend.has("posted /events/x hello", 1);
    let (status, _) = curl(&[&gate.url("/proxy/old")]);
    assert_eq!(status, "410");
    let (status, body) = curl(&[&gate.url("/proxy/away")]);
    assert_eq!(status, "502", "{body}");
    gate.run.stop();
}

// rules: E14
#[test]
fn one_connection_to_a_backend_serves_all_and_its_events_are_kept() {
    let apps = Apps::new(free_port(), 0);
    let port = free_port().to_string();
    let Some(mut backend) = Script::start_or_skip("http.server", BACKEND, &[&port]) else {
        return;
    };
    backend.has("listening", 1);
    let document = apps.path("proxy.yaml");
    std::fs::write(&document, PROXY.replace("{backend}", &port))
        .expect("the folder can be written");
    let gate = Gate::start(apps, &[&document]);
    let one = gate.hears("one", "/proxy/shared", &[]);
    let two = gate.hears("two", "/proxy/shared", &[]);
    backend.has("open", 1);
    backend.say(r#"text "data: 1\n\n""#);
    eventually("the event", || one.data() == ["1"] && two.data() == ["1"]);
    assert_eq!(backend.lines("asked ").len(), 1);
    // The backend knows nothing of ids: ours bring back what was missed.
    let id = format!("Last-Event-ID: {}", one.of("id: ")[0]);
    drop(one);
    backend.say(r#"text "data: 2\n\nevent: add\ndata: 3\n\n""#);
    eventually("the events", || two.data() == ["1", "2", "3"]);
    let back = gate.hears("back", "/proxy/shared", &["-H", &id]);
    eventually("what was missed", || back.data() == ["2", "3"]);
    assert_eq!(backend.lines("asked ").len(), 1);
    // A backend that was away cannot say what it sent meanwhile: that is a gap.
    backend.say("end");
    backend.has("asked ", 2);
    backend.has("open", 2);
    backend.say(r#"text "data: 4\n\n""#);
    eventually("the event", || {
        two.data().last().is_some_and(|last| last == "4")
    });
    assert_eq!(two.of("event: "), ["add", "gap"]);
    gate.run.stop();
}

/// A WebSocket backend that sends back what it gets, reversed; `close` closes with 4321. Arguments: port.
const ECHO: &str = r#"
import asyncio, sys
import websockets
async def serve(socket, path):
    print("open", path, socket.subprotocol, flush=True)
    try:
        async for message in socket:
            if message == "close":
                await socket.close(4321, "as you say")
            elif message == "die":
                socket.transport.abort()
            else:
                await socket.send(message[::-1])
    except websockets.ConnectionClosed:
        pass
    print("closed", socket.close_code, socket.close_reason, flush=True)
async def run():
    async with websockets.serve(serve, "127.0.0.1", int(sys.argv[1])):
        print("listening", flush=True)
        await asyncio.Future()
asyncio.run(run())
"#;

// rules: S4, S5, S8
#[test]
fn a_websocket_backend_is_spoken_with_through_the_gateway() {
    let apps = Apps::new(free_port(), 0);
    let port = free_port().to_string();
    let Some(backend) = Script::start_or_skip("websockets", ECHO, &[&port]) else {
        return;
    };
    backend.has("listening", 1);
    let mut client = Script::start_or_skip("websockets", CLIENT, &[]).expect("Python has it");
    let document = apps.path("proxy.yaml");
    let text = format!(
        "asyncapi: 2.6.0\ninfo: {{ title: Echo, version: '1' }}\n\
         channels: {{ /echo: {{ subscribe: {{}}, publish: {{}} }} }}\n\
         x-headwater: {{ protocols: [ ws ], message-max: 1kB, topics: {{ /echo: {{ backend: 'ws://127.0.0.1:{port}/back' }} }} }}\n"
    );
    std::fs::write(&document, text).expect("the folder can be written");
    let gate = Gate::start(apps, &[&document]);
    let url = gate.url("/echo/1/echo").replace("http://", "ws://");
    for name in ["a", "b", "c", "d", "e"] {
        client.say(&format!("open {name} {url}"));
        client.has(&format!("{name} open"), 1);
    }
    backend.has("open /back", 5);
    client.say("send a hello you");
    client.has("a got uoy olleh", 1);
    client.say("bytes a 010203");
    client.has("a got 030201", 1);
    // Codes and reasons go through, both ways.
    client.say("close a 4999 enough");
    backend.has("closed 4999 enough", 1);
    client.has("a closed 4999 enough", 1);
    client.say("send b close");
    client.has("b closed 4321 as you say", 1);
    // A backend that goes without a word is said to have gone.
    client.say("send c die");
    client.has("c closed 1011 the backend has gone", 1);
    client.say(&format!("send d {}", "x".repeat(2000)));
    client.has("d closed 1009", 1);
    backend.has("closed 1001 the client broke the protocol", 1);
    gate.run.stops();
    client.has("e closed 1001 restart", 1);
    gate.run.end();
}

#[test]
fn the_gateway_speaks_tls() {
    let apps = Apps::new(free_port(), 0);
    let app = apps.write("app", ATTACHED, "");
    let (cert, key) = (key_file("server.pem"), key_file("server.pem"));
    let address = format!("127.0.0.1:{}", apps.port());
    let args = [
        "--gateway",
        &address,
        "--gateway-cert",
        &cert,
        "--gateway-key",
        &key,
    ];
    let mut all = vec![app.as_str()];
    all.extend(args);
    let run = Running::start(&all);
    run.err_has("ready in", 1);
    let base = format!("https://{address}/ticks");
    let topic = format!("{base}/symbols/A");
    let hearer = Reader::open(apps.path("heard"), &["-k", &topic]);
    let (status, _) = curl(&[
        "-k",
        "--data-binary",
        &tick("A", "1.5"),
        &format!("{base}/in"),
    ]);
    assert_eq!(status, "202");
    eventually("the event", || hearer.data() == [tick("A", "1.5")]);
    // In the clear nobody is answered.
    let (status, _) = curl(&[&format!("http://{address}/ticks/symbols/A")]);
    assert_ne!(status, "200");
    run.stop();
}

#[test]
fn a_renewed_certificate_counts_at_a_reload() {
    let apps = Apps::new(free_port(), 0);
    let document = apps.path("ticks.yaml");
    std::fs::write(&document, CHAT).expect("it can be written");
    let (cert, key) = (apps.path("own.pem"), apps.path("own.key"));
    let renew = |name: &str| {
        let subject = format!("/CN={name}");
        let made = std::process::Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject,
            ])
            .args(["-keyout", &key, "-out", &cert])
            .output();
        assert!(made.expect("openssl is installed").status.success());
    };
    renew("one");
    let address = format!("127.0.0.1:{}", apps.port());
    let run = Running::start(&[
        &document,
        "--gateway",
        &address,
        "--gateway-cert",
        &cert,
        "--gateway-key",
        &key,
    ]);
    run.err_has("ready in", 1);
    let url = format!("https://{address}/chat/chat");
    let shown = || {
        let output = std::process::Command::new("curl")
            .args(["-skvI", &url])
            .output();
        String::from_utf8_lossy(&output.expect("curl is installed").stderr).into_owned()
    };
    assert!(shown().contains("CN=one"), "{}", shown());
    let hearer = Reader::open(apps.path("heard"), &["-k", &url]);
    renew("two");
    run.reload();
    eventually("the other certificate", || shown().contains("CN=two"));
    // Who is connected stays so, and what cannot be read changes nothing.
    std::fs::write(&cert, "none").expect("it can be written");
    run.reload();
    run.err_has("the one before stays", 1);
    assert!(shown().contains("CN=two"));
    assert_eq!(curl(&["-k", "-d", "hello", &url]).0, "202");
    eventually("the event", || hearer.data() == ["hello"]);
    run.stop();
}

/// A client that takes nothing costs its neighbours nothing, and is gone before long.
#[test]
fn a_client_that_reads_nothing_is_left_behind() {
    const EVENTS: usize = 400;
    let apps = Apps::new(free_port(), 0);
    let document = apps.path("chat.yaml");
    let text = "asyncapi: 2.6.0\ninfo: { title: Chat, version: '1' }\n\
                channels: { /chat: { subscribe: {}, publish: {} } }\n";
    std::fs::write(&document, text).expect("the folder can be written");
    let http = format!("127.0.0.1:{}", free_port());
    let gate = Gate::start(apps, &[&document, "--http", &http]);
    let mut stuck = TcpStream::connect(("127.0.0.1", gate.apps.port())).expect("it listens");
    write!(stuck, "GET /chat/chat HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut byte = [0; 64];
    let begun = stuck.read(&mut byte).expect("it answers");
    assert!(begun > 0);
    let healthy = gate.hears("healthy", "/chat/chat", &[]);
    let url = gate.url("/chat/chat");
    let body = |n: usize| format!("{n} {}", "x".repeat(32 << 10));
    let statuses = post_all(&url, (0..EVENTS).map(body));
    assert!(statuses.iter().all(|status| *status == 202), "{statuses:?}");
    eventually("all events", || healthy.data().len() == EVENTS);
    let numbers = healthy.data();
    let mut numbers = numbers
        .iter()
        .map(|data| data.split(' ').next().unwrap_or_default());
    assert!((0..EVENTS).all(|n| numbers.next() == Some(n.to_string().as_str())));
    // The system gives up who takes nothing; its place is free again.
    eventually("the end of the stuck client", || {
        let (_, page) = curl(&[&format!("http://{http}/metrics")]);
        page.contains("\nheadwater_gateway_sse_streams 1\n")
    });
    drop(stuck);
    gate.run.stop();
}
