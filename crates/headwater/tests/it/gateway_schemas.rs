//! Payloads that clients publish are compared with the schemas of their topic, by POST and by WebSocket.

use serde_json::Value as Json;

use crate::network::gateway::Server;
use crate::network::script::Script;
use crate::network::{Reader, curl, eventually};

const APP: &str = "@app:name('Orders')
define stream Strict (item string, amount int);
define stream Kept (item string, amount int);
define stream Free (item string, amount int);
@sink(type='sse-server', api='orders', topic='/all', history.events='100', @map(type='json'))
define stream Out (item string, amount int);
from Strict select * insert into Out;
from Kept select * insert into Out;
from Free select * insert into Out;
";

const DOCUMENT: &str = "asyncapi: 3.0.0
info: { title: Orders, version: 1.0.0 }
channels:
  strict: { address: /strict, messages: { order: { $ref: '#/components/messages/order' } } }
  kept: { address: /kept, messages: { order: { $ref: '#/components/messages/order' } } }
  free: { address: /free, messages: { order: { $ref: '#/components/messages/order' } } }
  chat: { address: /chat, messages: { line: { contentType: text/plain, payload: { type: string, maxLength: 5 } } } }
  all: { address: /all }
operations:
  a: { action: receive, channel: { $ref: '#/channels/strict' } }
  b: { action: receive, channel: { $ref: '#/channels/kept' } }
  c: { action: receive, channel: { $ref: '#/channels/free' } }
  d: { action: receive, channel: { $ref: '#/channels/chat' } }
  e: { action: send, channel: { $ref: '#/channels/chat' } }
  f: { action: send, channel: { $ref: '#/channels/all' } }
components:
  messages: { order: { payload: { $ref: '#/components/schemas/Order' } } }
  schemas:
    Order:
      type: object
      required: [ item, amount ]
      properties: { item: { type: string, pattern: '^[a-z]+$' }, amount: { type: integer, minimum: 1 } }
x-headwater:
  protocols: [ sse, ws ]
  topics:
    /strict: { stream: Orders/Strict }
    /kept: { stream: Orders/Kept, payloads: dead-letter }
    /free: { stream: Orders/Free, payloads: pass }
";

fn counter(server: &Server, name: &str) -> f64 {
    let (_, text) = curl(&[&format!("http://127.0.0.1:{}/metrics", server.http)]);
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok())
        .expect("it is counted")
}

// rules: A5
#[test]
fn what_fits_no_message_is_rejected_kept_or_passed_as_the_document_says() {
    let server = Server::start(&[("orders.siddhi", APP), ("orders.yaml", DOCUMENT)]);
    let post = |path: &str, body: &str| {
        let (status, said) = curl(&["--data-binary", body, &server.url(path)]);
        (status, said)
    };
    let heard = Reader::open(server.apps.path("heard"), &[&server.url("/orders/all")]);
    for (path, body) in [
        ("/orders/strict", "{\"item\":\"tea\",\"amount\":1}"),
        (
            "/orders/strict",
            "{\"event\":{\"item\":\"tea\",\"amount\":2}}",
        ),
        (
            "/orders/kept",
            "[{\"event\":{\"item\":\"tea\",\"amount\":3}},{\"item\":\"tea\",\"amount\":4}]",
        ),
        ("/orders/free", "{\"item\":\"TEA\",\"amount\":-5}"),
        ("/orders/chat", "short"),
    ] {
        assert_eq!(post(path, body).0, "202", "{path} {body}");
    }
    let amounts = || -> Vec<i64> {
        let events = heard.data();
        let events = events
            .iter()
            .filter_map(|data| serde_json::from_str::<Json>(data).ok());
        // What came as a list goes on as one.
        let events = events.flat_map(|event| match event {
            Json::Array(events) => events,
            event => vec![event],
        });
        events
            .filter_map(|event| event["event"]["amount"].as_i64())
            .collect()
    };
    eventually("what fits, and what is not looked at", || {
        amounts() == [1, 2, 3, 4, -5]
    });
    // The cause has a place, and no value of the payload.
    for (path, body, cause) in [
        (
            "/orders/strict",
            "{\"item\":\"Planted\",\"amount\":1}",
            "the payload is no message 'order': '/item' does not fit the pattern",
        ),
        (
            "/orders/strict",
            "{\"event\":{\"item\":\"tea\"}}",
            "it has no 'amount'",
        ),
        (
            "/orders/strict",
            "{\"item\":\"tea\",\"amount\":1.5}",
            "'/amount' is of type number, not integer",
        ),
        ("/orders/strict", "{\"item\":\"tea\",", "is no JSON"),
        (
            "/orders/chat",
            "too long",
            "the payload is no message 'line': it has 8 characters, more than 5",
        ),
    ] {
        let (status, said) = post(path, body);
        assert!(
            status == "400" && said.contains(cause) && !said.contains("Planted"),
            "{body}: {status} {said}"
        );
    }
    server
        .run
        .err_has("payload fits no message of its topic", 1);
    assert_eq!(
        counter(&server, "headwater_gateway_refused_total{cause=\"schema\"}"),
        5.0
    );
    // A dead letter is taken, and is among the rejected events of the app.
    assert_eq!(
        post("/orders/kept", "{\"item\":\"tea\",\"amount\":0}").0,
        "202"
    );
    assert_eq!(
        post("/orders/kept", "{\"item\":\"tea\",\"amount\":6}").0,
        "202"
    );
    eventually("the one behind it", || amounts().ends_with(&[6]));
    assert_eq!(
        counter(&server, "headwater_gateway_dead_letters_total"),
        1.0
    );
    let url = format!("http://127.0.0.1:{}/errors?app=Orders", server.http);
    eventually("the dead letter", || {
        let (_, listed) = curl(&[&url]);
        listed.contains("'/amount' is below the minimum") && listed.contains("Kept")
    });
    server.run.stop();
}

// rules: A5
#[test]
fn a_websocket_is_closed_that_sends_what_fits_no_message() {
    let server = Server::start(&[("orders.siddhi", APP), ("orders.yaml", DOCUMENT)]);
    let proxy = format!(
        "asyncapi: 2.6.0\ninfo: {{ title: Through, version: '1' }}\nchannels: {{ /chat: {{ subscribe: {{}}, publish: {{ message: {{ payload: {{ type: object }} }} }} }} }}\n\
         x-headwater: {{ protocols: [ ws ], topics: {{ /chat: {{ backend: 'ws://127.0.0.1:{}/orders/chat' }} }} }}\n",
        server.apps.port()
    );
    let front = Server::start(&[("through.yaml", &proxy)]);
    let of = |server: &Server, path: &str| server.url(path).replacen("http", "ws", 1);
    let (own, through) = (of(&server, "/orders/chat"), of(&front, "/through/chat"));
    let program = format!(
        "import asyncio, websockets\n\
         async def send(url, text):\n\
         \x20   async with websockets.connect(url) as line:\n\
         \x20       await line.send(text)\n\
         \x20       try:\n\
         \x20           while True: await line.recv()\n\
         \x20       except websockets.ConnectionClosed as end:\n\
         \x20           print('closed', end.rcvd.code, end.rcvd.reason, flush=True)\n\
         asyncio.run(send('{own}', 'too long'))\n\
         asyncio.run(send('{through}', '[1]'))\n"
    );
    let Some(script) = Script::start_or_skip("websockets", &program, &[]) else {
        return;
    };
    script.has(
        "closed 1007 the payload is no message 'line': it has 8 characters, more than 5",
        1,
    );
    script.has(
        "closed 1007 the payload is no message 'publish': it is of type array, not object",
        1,
    );
    front.run.stop();
    server.run.stop();
}
