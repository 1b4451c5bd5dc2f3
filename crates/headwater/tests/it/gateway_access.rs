//! Who may use the APIs of a gateway, and how much: keys, tokens and plans, managed by the commands, before clients
//! that none of us wrote.

use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::network::gateway::Server;
use crate::network::script::Script;
use crate::network::{Reader, Stub, curl, eventually, free_port, ok};

/// A chat that needs a key or a token of the server's own issuer, and a backend that must not see them.
fn document(backend: u16) -> String {
    format!(
        "asyncapi: 3.0.0
info: {{ title: Chat, version: 1.0.0 }}
channels:
  room: {{ address: '/rooms/{{room}}' }}
  behind: {{ address: /behind }}
operations:
  say: {{ action: receive, channel: {{ $ref: '#/channels/room' }}, security: [ {{ $ref: '#/components/securitySchemes/jwt' }} ] }}
  hear: {{ action: send, channel: {{ $ref: '#/channels/room' }}, security: [ {{ $ref: '#/components/securitySchemes/jwt' }} ] }}
  order: {{ action: receive, channel: {{ $ref: '#/channels/behind' }}, security: [ {{ $ref: '#/components/securitySchemes/jwt' }} ] }}
components: {{ securitySchemes: {{ jwt: {{ type: oauth2, flows: {{}}, scopes: [ chat ] }} }} }}
x-headwater:
  protocols: [ sse, ws, http ]
  issuers: [ own ]
  plans: {{ Small: {{ events: 4/day }}, Large: {{ events: 50000/day, connections: 2 }} }}
  topics: {{ /behind: {{ backend: 'http://127.0.0.1:{backend}/orders?by=gateway' }} }}
"
    )
}

/// The chat's server.
fn chat(backend: u16) -> Server {
    Server::start(&[("chat.yaml", &document(backend))])
}

fn at(server: &Server, path: &str) -> String {
    server.url(&format!("/chat/1.0.0{path}"))
}

/// An application with a key for the scope.
fn new_key(server: &Server, app: &str) -> String {
    server.does(&["apps", "create", app, "--scope", "chat"]);
    server.does(&["keys", "create", "--app", app, "--scope", "chat"])
}

/// Status and body of a message that is published.
fn say(server: &Server, args: &[&str], room: &str) -> (String, String) {
    let url = at(server, &format!("/rooms/{room}"));
    curl(&[&["-i", "-d", "hello"], args, &[url.as_str()]].concat())
}

fn hears(server: &Server, name: &str, args: &[&str], room: &str) -> Reader {
    let url = at(server, &format!("/rooms/{room}"));
    let args = [&["-i"], args, &[url.as_str()]].concat();
    let reader = Reader::start(server.apps.path(name), &args);
    eventually("the stream", || {
        reader.got().contains("\n:\n") || reader.got().contains("429")
    });
    reader
}

/// What has come when the stream has ended.
fn ended(reader: &mut Reader) -> String {
    reader.ends();
    reader.got()
}

fn header(name: &str, value: &str) -> [String; 2] {
    ["-H".to_owned(), format!("{name}: {value}")]
}

// rules: E16, J9, J12
#[test]
fn a_key_opens_a_topic_and_nothing_behind_it_sees_the_key() {
    let backend = Stub::start(free_port(), |_| ok("taken"));
    let server = chat(backend.port);
    // Without one each says what is missing.
    let (status, said) = say(&server, &[], "a");
    assert_eq!(status, "401", "{said}");
    assert!(
        said.to_ascii_lowercase()
            .contains("www-authenticate: bearer realm=\"headwater\"\r\n"),
        "{said}"
    );
    assert!(
        said.contains("\"code\":900902") && said.contains("Authorization: Bearer TOKEN"),
        "{said}"
    );
    let (status, _) = curl(&["-H", "Accept: text/event-stream", &at(&server, "/rooms/a")]);
    assert_eq!(status, "401");
    let upgrade = [
        "-H",
        "Connection: upgrade",
        "-H",
        "Upgrade: websocket",
        "-H",
        "Sec-WebSocket-Version: 13",
        "-H",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let url = at(&server, "/rooms/a");
    let (status, _) = curl(&[&upgrade[..], &[url.as_str()]].concat());
    assert_eq!(status, "401", "before the upgrade");
    let key = new_key(&server, "shop");
    assert!(
        key.starts_with("hwk_") && key.lines().count() == 1,
        "the key alone"
    );
    // By each way that there is.
    let bearer = header("Authorization", &format!("Bearer {key}"));
    let in_header = header("apikey", &key);
    let cookie = header("Cookie", &format!("a=b; access_token={key}"));
    for args in [&bearer, &in_header, &cookie] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(
            say(&server, &args, "a").0,
            "202",
            "{}",
            args[1].split(':').next().unwrap_or_default()
        );
    }
    let (status, _) = curl(&[
        "-d",
        "x",
        &format!("{}?apikey={key}", at(&server, "/rooms/a")),
    ]);
    assert_eq!(status, "202");
    // The plan is the first of the API: four a day, whatever the way.
    let args: Vec<&str> = bearer.iter().map(String::as_str).collect();
    let (status, said) = say(&server, &args, "a");
    assert_eq!(status, "429", "{said}");
    let lower = said.to_ascii_lowercase();
    for part in [
        "retry-after: ",
        "ratelimit-limit: 4\r\n",
        "ratelimit-remaining: 0\r\n",
    ] {
        assert!(lower.contains(part), "{part}: {said}");
    }
    assert!(
        said.contains("4/day events for each subscription"),
        "{said}"
    );
    server.does(&[
        "subscriptions",
        "create",
        "--app",
        "shop",
        "--api",
        "Chat",
        "--plan",
        "Large",
    ]);
    let (status, said) = say(&server, &args, "a");
    assert!(
        status == "202"
            && said
                .to_ascii_lowercase()
                .contains("ratelimit-remaining: 49995\r\n"),
        "{said}"
    );
    // A backend gets what is meant for it.
    let url = format!("{}?apikey={key}&colour=red", at(&server, "/behind"));
    let all = [
        &args[..],
        &[
            "-H",
            "X-Other: kept",
            "-b",
            "c=d; access_token=t.t.t",
            "-d",
            "one",
            &url,
        ],
    ]
    .concat();
    let (status, said) = curl(&all);
    assert_eq!(status, "401", "two that differ: {said}");
    let all = [
        &args[..],
        &["-H", "X-Other: kept", "-b", "c=d", "-d", "one", &url],
    ]
    .concat();
    let (status, said) = curl(&all);
    assert_eq!((status.as_str(), said.as_str()), ("200", "taken"));
    let got = backend.wait_for(1).pop().expect("one request");
    assert!(
        got.head.starts_with("POST /orders?by=gateway&colour=red "),
        "{}",
        got.head
    );
    assert!(
        got.has("x-other: kept") && got.has("cookie: c=d"),
        "{}",
        got.head
    );
    assert!(
        !got.head.contains(&key) && !got.head.to_ascii_lowercase().contains("authorization"),
        "{}",
        got.head
    );
    // Nor is it in the log, in lists, or in the state.
    let quota: Json = serde_json::from_str(&server.does(&["quota", "--json"])).expect("JSON");
    assert_eq!(quota["items"][0]["used"], 6, "{quota}");
    let listed = server.does(&["keys"]) + &server.does(&["apps", "--json"]);
    let log = server.run.err();
    assert!(
        log.contains("cause=\"throttled\"") && log.contains("cause=\"missing\""),
        "{log}"
    );
    assert!(!log.contains(&key) && !listed.contains(&key));
    server.run.stop();
}

// rules: J10, J11
#[test]
fn streams_end_with_their_key_or_token_and_others_live_on() {
    let server = chat(1);
    let (shop, mut other) = (new_key(&server, "shop"), None);
    for app in ["shop", "other"] {
        if app == "other" {
            other = Some(new_key(&server, app));
        }
        server.does(&[
            "subscriptions",
            "create",
            "--app",
            app,
            "--api",
            "Chat",
            "--plan",
            "Large",
        ]);
    }
    let other = other.expect("made");
    let args = |key: &str| header("apikey", key);
    let strings = |args: &[String; 2]| args.clone();
    let (shop_args, other_args) = (strings(&args(&shop)), strings(&args(&other)));
    let shop_args: Vec<&str> = shop_args.iter().map(String::as_str).collect();
    let other_args: Vec<&str> = other_args.iter().map(String::as_str).collect();
    let mut revoked = hears(&server, "revoked", &shop_args, "a");
    let kept = hears(&server, "kept", &other_args, "a");
    // A plan of two connections has two.
    let second = hears(&server, "second", &shop_args, "a");
    let third = hears(&server, "third", &shop_args, "a");
    assert!(third.got().starts_with("HTTP/1.1 429"), "{}", third.got());
    drop((second, third));
    assert_eq!(say(&server, &other_args, "a").0, "202");
    eventually("the event", || {
        revoked.count("data: hello") == 1 && kept.count("data: hello") == 1
    });
    let id = shop.split('_').nth(1).expect("an id");
    server.does(&["keys", "revoke", id]);
    let got = ended(&mut revoked);
    assert!(
        got.contains("event: end\ndata: {\"reason\":\"revoked\"}\n"),
        "{got}"
    );
    assert_eq!(say(&server, &shop_args, "a").0, "401");
    // A token that expires, and one that is revoked.
    let token = server.does(&["tokens", "create", "--app", "other", "--expires", "2s"]);
    let bearer = header("Authorization", &format!("Bearer {token}"));
    let bearer: Vec<&str> = bearer.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let mut short = hears(&server, "short", &bearer, "a");
    let got = ended(&mut short);
    assert!(
        got.contains("event: end\ndata: {\"reason\":\"expired\"}\n"),
        "{got}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    let json = server.does(&["tokens", "create", "--app", "other", "--json"]);
    let made: Json = serde_json::from_str(&json).expect("JSON");
    let of = |name: &str| made[name].as_str().expect("a text").to_owned();
    let bearer = header("Authorization", &format!("Bearer {}", of("token")));
    let bearer: Vec<&str> = bearer.iter().map(String::as_str).collect();
    let mut long = hears(&server, "long", &bearer, "a");
    server.does(&["tokens", "revoke", "--jti", &of("jti")]);
    assert!(ended(&mut long).contains("\"reason\":\"revoked\""));
    assert_eq!(say(&server, &other_args, "a").0, "202");
    eventually("the event", || kept.count("data: hello") == 2);
    // What cannot be is said.
    for (args, part) in [
        (
            &["keys", "create", "--app", "shp"][..],
            "did you mean 'shop'?",
        ),
        (
            &["apps", "create", "shop"],
            "there is an application 'shop' already",
        ),
        (
            &["plans", "set", "P", "--events", "many"],
            "not a number in a time",
        ),
        (
            &[
                "subscriptions",
                "create",
                "--app",
                "shop",
                "--api",
                "Chat",
                "--plan",
                "Huge",
            ],
            "offers Small, Large",
        ),
        (&["keys", "revoke", "x"], "there is no key 'x'"),
    ] {
        let (code, out, err) = server.command(args);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{args:?}");
        assert!(err.contains(part), "{err}");
    }
    server.run.stop();
}

// rules: T2, T4, T6
#[test]
fn a_quota_is_exact_and_outlives_a_kill() {
    let mut server = chat(1);
    let key = new_key(&server, "shop");
    let args = header("apikey", &key);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    server.does(&["plans", "set", "Team", "--events", "10/day"]);
    server.does(&[
        "subscriptions",
        "create",
        "--app",
        "shop",
        "--api",
        "Chat",
        "--plan",
        "Team",
    ]);
    let mut let_through = 0;
    for _ in 0..3 {
        for _ in 0..4 {
            let_through += usize::from(say(&server, &args, "a").0 == "202");
        }
        server = server.crash();
    }
    assert_eq!(let_through, 10, "each is noted before it is used");
    assert_eq!(say(&server, &args, "a").0, "429");
    // A stream that has used its plan is told, and comes back behind what it got.
    let other = new_key(&server, "other");
    let other = header("apikey", &other);
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    server.does(&["plans", "set", "Wide", "--events", "100/day"]);
    let writer = new_key(&server, "writer");
    let writer = header("apikey", &writer);
    let writer: Vec<&str> = writer.iter().map(String::as_str).collect();
    server.does(&[
        "subscriptions",
        "create",
        "--app",
        "writer",
        "--api",
        "Chat",
        "--plan",
        "Wide",
    ]);
    let mut reader = hears(&server, "reader", &other, "b");
    for _ in 0..6 {
        assert_eq!(say(&server, &writer, "b").0, "202");
    }
    let got = ended(&mut reader);
    assert_eq!(reader.count("data: hello"), 4, "{got}");
    assert!(
        got.contains("event: throttled\ndata: {\"code\":900804"),
        "{got}"
    );
    assert!(got.contains("\nretry: "), "{got}");
    server.run.stop();
}

#[test]
fn the_own_issuer_gives_tokens_by_client_credentials() {
    let server = chat(1);
    let made = server.does(&["apps", "create", "shop", "--scope", "chat"]);
    let of = |name: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(name));
        line.expect("it is printed").trim().to_owned()
    };
    let login = format!("{}:{}", of("client "), of("secret "));
    let base = format!("http://127.0.0.1:{}", server.apps.port());
    let token_url = format!("{base}/token");
    let (status, said) = curl(&[
        "-i",
        "-u",
        &login,
        "-d",
        "grant_type=client_credentials",
        &token_url,
    ]);
    assert_eq!(status, "200", "{said}");
    assert!(
        said.to_ascii_lowercase()
            .contains("cache-control: no-store"),
        "{said}"
    );
    let body = said.rsplit("\r\n").next().unwrap_or_default();
    let json: Json = serde_json::from_str(body).expect("JSON");
    let token = json["access_token"].as_str().expect("a text").to_owned();
    let bearer = header("Authorization", &format!("Bearer {token}"));
    let bearer: Vec<&str> = bearer.iter().map(String::as_str).collect();
    assert_eq!(say(&server, &bearer, "a").0, "202");
    let (status, said) = curl(&[
        "-u",
        "x:y",
        "-d",
        "grant_type=client_credentials",
        &token_url,
    ]);
    assert!(status == "401" && said.contains("invalid_client"), "{said}");
    assert_eq!(curl(&[&token_url]).0, "405");
    let (status, keys) = curl(&[&format!("{base}/.well-known/jwks.json")]);
    assert!(
        status == "200" && keys.contains("\"crv\":\"P-256\"") && !keys.contains("\"d\""),
        "{keys}"
    );
    // The keys outlive the process, and with them the token.
    let server = server.crash();
    assert_eq!(say(&server, &bearer, "a").0, "202");
    let log = server.run.err();
    assert!(!log.contains(&token) && !log.contains(&of("secret ")));
    server.run.stop();
}

/// Hears a room until it is closed, with the token as subprotocol; then says how.
const SPEAKER: &str = r#"
import asyncio, sys, websockets
url, token, renewed = sys.argv[1:4]
async def main():
    async with websockets.connect(url, subprotocols=['bearer', token]) as ws:
        print('subprotocol', ws.subprotocol, flush=True)
        if renewed:
            await ws.send('{"authorization":"Bearer ' + renewed + '"}')
        await ws.send('hi')
        try:
            while True:
                print('got', await ws.recv(), flush=True)
        except websockets.ConnectionClosed as e:
            print('closed', e.code, e.reason, flush=True)
asyncio.run(main())
"#;

// rules: J9, J10, J11, S6
#[test]
fn a_websocket_carries_its_token_as_subprotocol_and_may_bring_another() {
    let server = chat(1);
    server.does(&["apps", "create", "shop", "--scope", "chat"]);
    server.does(&[
        "subscriptions",
        "create",
        "--app",
        "shop",
        "--api",
        "Chat",
        "--plan",
        "Large",
    ]);
    let token = |life: &str| server.does(&["tokens", "create", "--app", "shop", "--expires", life]);
    let url = at(&server, "/rooms/a").replace("http://", "ws://");
    let Some(short) = Script::start_or_skip("websockets", SPEAKER, &[&url, &token("2s"), ""])
    else {
        return;
    };
    short.has("subprotocol bearer", 1);
    short.has("got hi", 1);
    short.has("closed 4001 expired", 1);
    let renewing =
        Script::start_or_skip("websockets", SPEAKER, &[&url, &token("2s"), &token("1h")]);
    let renewing = renewing.expect("it was there");
    renewing.has("got hi", 1);
    let other = Script::start_or_skip("websockets", SPEAKER, &[&url, &token("4s"), ""])
        .expect("it was there");
    other.has("closed 4001 expired", 1);
    assert!(
        renewing.lines("closed").is_empty(),
        "its second token counts"
    );
    server.does(&["tokens", "revoke", "--app", "shop"]);
    renewing.has("closed 4001 revoked", 1);
    server.run.stop();
}

/// Says a word, waits for its echo, and goes on so until it is closed.
const ECHOER: &str = r#"
import asyncio, sys, websockets
url, token = sys.argv[1:3]
async def main():
    async with websockets.connect(url, subprotocols=['bearer', token]) as ws:
        try:
            for n in range(10):
                await ws.send(str(n))
                print('got', await ws.recv(), flush=True)
        except websockets.ConnectionClosed as e:
            print('closed', e.code, e.reason, flush=True)
asyncio.run(main())
"#;

/// A message and its echo are two of the four that the plan has.
// rules: T1, T6
#[test]
fn a_websocket_counts_each_message_in_both_directions() {
    let server = chat(1);
    server.does(&["apps", "create", "shop", "--scope", "chat"]);
    let token = server.does(&["tokens", "create", "--app", "shop"]);
    let url = at(&server, "/rooms/a").replace("http://", "ws://");
    let Some(client) = Script::start_or_skip("websockets", ECHOER, &[&url, &token]) else {
        return;
    };
    client.has("closed 4003 ", 1);
    assert_eq!(client.lines("got "), ["0", "1"]);
    server.run.stop();
}
