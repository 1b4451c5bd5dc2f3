//! The WebSub hub of the gateway, with curl as publisher and subscriber, and a callback that a kill does not cost
//! anything.

use std::sync::{Arc, Mutex};

use crate::network::gateway::Server;
use crate::network::{Got, Stub, curl, eventually, free_port, ok};

const DOCUMENT: &str = "asyncapi: 3.0.0
info: { title: News, version: 1.0.0 }
channels:
  topic: { address: '/topics/{topic}' }
operations:
  publish: { action: receive, channel: { $ref: '#/channels/topic' } }
  hear: { action: send, channel: { $ref: '#/channels/topic' } }
x-headwater:
  protocols: [ sse, websub ]
  websub: { digest: sha384, callback-networks: [ '127.0.0.1' ] }
";

/// Repeats a challenge, and takes everything else.
fn confirming(got: &Got) -> String {
    let line = got.head.lines().next().unwrap_or_default();
    let challenge = line.split("hub.challenge=").nth(1);
    ok(challenge.map_or("", |rest| rest.split(['&', ' ']).next().unwrap_or_default()))
}

fn deliveries(callback: &Stub) -> Vec<Got> {
    let got = callback.got();
    got.into_iter()
        .filter(|got| got.head.starts_with("POST "))
        .collect()
}

// rules: W1, W4, W14, W15, W16, W22, W101, W105, W106
#[test]
fn a_callback_gets_what_is_published_also_over_a_kill() {
    let callback = Stub::start(free_port(), confirming);
    let server = Server::start(&[("news.yaml", DOCUMENT)]);
    let base = server.url("/news/1.0.0");
    let topic = format!("{base}/topics/a");
    // A topic says where its hub is.
    let (status, head) = curl(&["-I", "-H", "Accept: text/event-stream", &topic]);
    assert_eq!(status, "200");
    assert!(
        head.contains(&format!("<{base}>; rel=\"hub\", <{topic}>; rel=\"self\"")),
        "{head}"
    );
    let own = format!("hub.callback=http://127.0.0.1:{}/c?x=1", callback.port);
    let named = format!("hub.topic={topic}");
    let form = [
        "--data-urlencode",
        &own,
        "--data-urlencode",
        &named,
        "-d",
        "hub.secret=s&foo=bar",
    ];
    let subscribe = [&form[..], &["-d", "hub.mode=subscribe", &base]].concat();
    let (status, said) = curl(&subscribe);
    assert_eq!((status.as_str(), said.as_str()), ("202", ""));
    server.run.err_has("subscription changed", 1);
    // What is wrong is said in plain text.
    let (status, said) = curl(&[&form[..], &["-d", "hub.mode=x", &base]].concat());
    assert!(
        status == "400" && said.contains("neither"),
        "{status} {said}"
    );
    let (status, _) = curl(&["-H", "Content-Type: application/json", "-d", "{}", &base]);
    assert_eq!(status, "415");
    let private = "hub.callback=http://10.0.0.1/&hub.mode=subscribe&hub.topic=/topics/a";
    assert_eq!(curl(&["-d", private, &base]).0, "403");
    assert_eq!(curl(&[&base]).0, "405");
    // Three kinds, each with its type, signed.
    for (kind, body) in [
        ("text/html", "<p>a"),
        ("text/plain", "b"),
        ("application/json", "{\"c\":1}"),
    ] {
        let kind = format!("Content-Type: {kind}");
        assert_eq!(curl(&["-H", &kind, "-d", body, &topic]).0, "202");
    }
    eventually("three events", || deliveries(&callback).len() == 3);
    let got = deliveries(&callback);
    let bodies: Vec<&str> = got.iter().map(|got| got.body.as_str()).collect();
    assert_eq!(bodies, ["<p>a", "b", "{\"c\":1}"]);
    assert!(got[0].has("content-type: text/html") && got[2].has("content-type: application/json"));
    assert!(
        got[0]
            .head
            .to_ascii_lowercase()
            .contains("x-hub-signature: sha384="),
        "{}",
        got[0].head
    );
    let port = callback.port;
    drop(callback);
    for number in 0..5 {
        assert_eq!(curl(&["-d", &format!("missed {number}"), &topic]).0, "202");
    }
    eventually("a pause", || {
        server.json(&["callbacks"])["items"][0]["due"].is_number()
    });
    let one = server.json(&["callbacks"])["items"][0].clone();
    assert_eq!(
        (&one["next"], &one["head"]),
        (&4.into(), &9.into()),
        "{one}"
    );
    // Both are back, and nothing is lost.
    let callback = Stub::start(port, confirming);
    let server = server.crash();
    eventually("what it missed", || deliveries(&callback).len() >= 5);
    let bodies: Vec<String> = deliveries(&callback)
        .into_iter()
        .map(|got| got.body)
        .collect();
    let missed: Vec<String> = (0..5).map(|number| format!("missed {number}")).collect();
    assert!(bodies.ends_with(&missed), "{bodies:?}");
    let id = one["id"].as_str().expect("an id");
    let said = server.does(&["deliveries", "replay", id, "--number", "8"]);
    assert_eq!(said, "events from 8 on are delivered once more");
    let count = bodies.len();
    eventually("the last once more", || {
        deliveries(&callback).len() == count + 1
    });
    let listed = server.does(&["deliveries"]);
    assert!(
        listed.contains("delivered") && listed.contains("away"),
        "{listed}"
    );
    server.run.stop();
}

const SITE: &str = "asyncapi: 2.6.0
info: { title: Site, version: '1' }
channels: { '/pages/{page}': { subscribe: {}, publish: {} }, /own: { subscribe: {}, publish: {} }, /read: { subscribe: {} } }
x-headwater:
  protocols: [ sse, websub ]
  websub: { callback-networks: [ '127.0.0.1' ] }
  topics: { '/pages/{page}': { backend: 'http://127.0.0.1:{port}/site/{page}' } }
";

// rules: W20
#[test]
fn a_topic_that_has_changed_is_fetched_and_delivered_where_it_is_new() {
    let content = Arc::new(Mutex::new(String::new()));
    let serving = Arc::clone(&content);
    let site = Stub::start(free_port(), move |got| {
        let content = serving.lock().expect("no panic").clone();
        let tag = format!("ETag: \"{}\"", content.len());
        if content.is_empty() {
            "HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n".to_owned()
        } else if got.has(&format!("if-none-match: \"{}\"", content.len())) {
            format!("HTTP/1.1 304 same\r\n{tag}\r\n\r\n")
        } else {
            let length = content.len();
            format!(
                "HTTP/1.1 200 OK\r\n{tag}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{content}"
            )
        }
    });
    let callback = Stub::start(free_port(), confirming);
    let document = SITE.replace("{port}", &site.port.to_string());
    let server = Server::start(&[("site.yaml", &document)]);
    let hub = server.url("/site/1");
    let topic = format!("{hub}/pages/a");
    let own = format!("hub.callback=http://127.0.0.1:{}/c", callback.port);
    let (status, _) = curl(&[
        "-d",
        &own,
        "-d",
        "hub.mode=subscribe&hub.topic=/pages/a",
        &hub,
    ]);
    assert_eq!(status, "202");
    server.run.err_has("subscription changed", 1);
    let publishes =
        |named: &str| curl(&["-d", "hub.mode=publish", "--data-urlencode", named, &hub]);
    let changes = |text: &str| text.clone_into(&mut content.lock().expect("no panic"));
    let url = format!("hub.url={topic}");
    changes("<p>one");
    assert_eq!(publishes(&url), ("202".to_owned(), String::new()));
    // The same is not delivered again, whether the site or the hub knows that.
    assert_eq!(publishes(&url).1, "it has not changed\n");
    changes("<p>three");
    assert_eq!(publishes("hub.topic=/pages/a").0, "202");
    eventually("both", || deliveries(&callback).len() == 2);
    let got = deliveries(&callback);
    assert_eq!(
        (got[0].body.as_str(), got[1].body.as_str()),
        ("<p>one", "<p>three")
    );
    assert!(got[1].has("content-type: text/html"), "{}", got[1].head);
    assert!(
        site.got()[1].has("if-none-match: \"6\""),
        "{}",
        site.got()[1].head
    );
    changes("");
    assert_eq!(publishes(&url).0, "502");
    server
        .run
        .err_has("cannot fetch a topic from its backend", 1);
    for (named, status) in [
        ("hub.topic=/nowhere", "404"),
        ("hub.topic=/own", "400"),
        ("hub.topic=/read", "403"),
        ("foo=bar", "400"),
    ] {
        assert_eq!(publishes(named).0, status, "{named}");
    }
    server.run.stop();
}

// rules: W19
#[test]
fn a_hub_that_has_moved_sends_subscribers_on() {
    let moved = "  websub: { moved: 'https://hub.example/b', callback-networks: [ '127.0.0.1' ] }";
    let document = DOCUMENT.replace(
        "  websub: { digest: sha384, callback-networks: [ '127.0.0.1' ] }",
        moved,
    );
    assert!(document.contains("moved"));
    let server = Server::start(&[("news.yaml", &document)]);
    let form = "hub.mode=subscribe&hub.topic=/topics/a&hub.callback=http://127.0.0.1:1/";
    let (status, head) = curl(&["-i", "-d", form, &server.url("/news/1.0.0")]);
    assert_eq!(status, "308");
    assert!(head.contains("location: https://hub.example/b"), "{head}");
    server.run.stop();
}
