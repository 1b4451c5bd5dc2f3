//! Events that others send: signed webhooks, and topics that follow a topic of another hub.

use connect::net::websub::Digest;

use crate::network::gateway::Server;
use crate::network::{Got, Reader, Stub, curl, eventually, free_port};

const DOCUMENT: &str = "asyncapi: 2.6.0
info: { title: Hooks, version: '1' }
channels:
  /github: { publish: {}, subscribe: {} }
  /events: { publish: {}, subscribe: {} }
x-headwater:
  protocols: [ sse, ws ]
  topics:
    /github: { webhook: { from: github, secret: [ 'older', \"It's a Secret to Everybody\" ] } }
    /events: { webhook: { from: cloudevents } }
";

#[test]
fn a_webhook_counts_with_its_signature_and_once() {
    let server = Server::start(&[("hooks.yaml", DOCUMENT)]);
    let url = server.url("/hooks/github");
    let heard = Reader::open(server.apps.path("heard"), &[&url]);
    // The example of GitHub's documentation.
    let signature = "X-Hub-Signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let post = |body: &str, headers: &[&str]| {
        let mut args = vec!["--data-binary", body, url.as_str()];
        headers
            .iter()
            .for_each(|header| args.extend(["-H", header]));
        curl(&args).0
    };
    assert_eq!(post("Hello, World!", &[]), "401");
    assert_eq!(post("Hello, world!", &[signature]), "401");
    let id = "X-GitHub-Delivery: 1";
    for _ in 0..2 {
        assert_eq!(post("Hello, World!", &[signature, id]), "202");
    }
    assert_eq!(
        post("Hello, World!", &[signature, "X-GitHub-Delivery: 2"]),
        "202"
    );
    eventually("two events", || {
        heard.data() == ["Hello, World!", "Hello, World!"]
    });
    let (_, metrics) = curl(&[&format!("http://127.0.0.1:{}/metrics", server.http)]);
    assert!(
        metrics.contains("headwater_gateway_repeated_total 1\n"),
        "{metrics}"
    );
    server.run.err_has("event of a webhook refused", 1);
    // Who asks whether CloudEvents may be sent is answered, and a page of another origin as ever.
    let events = server.url("/hooks/events");
    let (status, head) = curl(&[
        "-i",
        "-X",
        "OPTIONS",
        "-H",
        "WebHook-Request-Origin: sender.example",
        "-H",
        "WebHook-Request-Rate: 120",
        &events,
    ]);
    let head = head.to_ascii_lowercase();
    assert!(
        status == "200"
            && head.contains("webhook-allowed-origin: sender.example")
            && head.contains("webhook-allowed-rate: 120"),
        "{head}"
    );
    let event =
        "{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/s\",\"type\":\"t\",\"data\":1}";
    let all = Reader::open(server.apps.path("all"), &[&events]);
    for _ in 0..2 {
        let kind = "Content-Type: application/cloudevents+json";
        assert_eq!(
            curl(&["-H", kind, "--data-binary", event, &events]).0,
            "202"
        );
    }
    assert_eq!(
        curl(&[
            "-H",
            "ce-id: 8",
            "-H",
            "ce-source: /s",
            "--data-binary",
            "x",
            &events
        ])
        .0,
        "202"
    );
    eventually("each once", || all.data() == [event, "x"]);
    // The secret is in no export.
    let (code, exported, notes) = server.command(&["export", "hooks"]);
    assert!(
        code == Some(0) && notes.contains("topic '/github' is left out"),
        "{notes}"
    );
    assert!(
        !exported.contains("Everybody") && exported.contains("from: github"),
        "{exported}"
    );
    server.run.stop();
}

const HUB: &str = "asyncapi: 2.6.0
info: { title: News, version: '1' }
channels: { /a: { publish: {}, subscribe: {} } }
x-headwater: { protocols: [ sse, websub ], websub: { callback-networks: [ '127.0.0.1' ] } }
";

fn follower(topic: &str, port: u16) -> String {
    format!(
        "asyncapi: 2.6.0\ninfo: {{ title: Copy, version: '1' }}\nchannels: {{ /all: {{ subscribe: {{}} }} }}\n\
         x-headwater: {{ topics: {{ /all: {{ follow: {{ topic: '{topic}', callback: 'http://127.0.0.1:{port}', networks: [ '127.0.0.1' ] }} }} }} }}\n"
    )
}

// rules: W21
#[test]
fn a_topic_follows_one_of_our_hub() {
    let hub = Server::start(&[("news.yaml", HUB)]);
    let topic = hub.url("/news/1/a");
    let apps = crate::broker::Apps::new(free_port(), 0);
    let document = follower(&topic, apps.port());
    let copy = Server::at(apps, &[("copy.yaml", &document)]);
    copy.run.err_has("follows a topic of another hub", 1);
    let heard = Reader::open(copy.apps.path("heard"), &[&copy.url("/copy/all")]);
    for text in ["one", "two"] {
        assert_eq!(curl(&["--data-binary", text, &topic]).0, "202");
    }
    eventually("what the hub was given", || heard.data() == ["one", "two"]);
    copy.run.stop();
    hub.run.stop();
}

/// A page that names its hub, and a hub that says yes.
fn page(got: &Got, port: u16) -> String {
    if got.head.starts_with("POST ") {
        return "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned();
    }
    let body = format!(
        "<html><head><link rel=hub href='http://127.0.0.1:{port}/hub'><link rel=self href='http://127.0.0.1:{port}/page?a=1&amp;b=2'></head></html>"
    );
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

// rules: W21
#[test]
fn a_hub_of_a_page_is_found_and_only_its_own_word_counts() {
    let port = free_port();
    let stub = Stub::start(port, move |got| page(got, port));
    let apps = crate::broker::Apps::new(free_port(), 0);
    let document = follower(&format!("http://127.0.0.1:{port}/page"), apps.port());
    let copy = Server::at(apps, &[("copy.yaml", &document)]);
    let asked = || {
        stub.got()
            .into_iter()
            .find(|got| got.head.starts_with("POST /hub "))
    };
    eventually("the hub is asked", || asked().is_some());
    let form = asked().expect("it was asked").body;
    let of = |name: &str| {
        let pairs = connect::net::websub::parameters(&form);
        let found = pairs.into_iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value).expect("it is there")
    };
    let topic = format!("http://127.0.0.1:{port}/page?a=1&b=2");
    let url = copy.url("/copy/1/all");
    assert_eq!(
        (of("hub.mode"), of("hub.topic"), of("hub.callback")),
        ("subscribe".to_owned(), topic.clone(), url.clone())
    );
    let question = |topic: &str, mode: &str| {
        let topic = format!("hub.topic={topic}");
        let mode = format!("hub.mode={mode}");
        curl(&[
            "-G",
            "--data-urlencode",
            &topic,
            "-d",
            &mode,
            "-d",
            "hub.challenge=abc&hub.lease_seconds=60",
            &url,
        ])
    };
    assert_eq!(question("http://127.0.0.1/other", "subscribe").0, "404");
    assert_eq!(question(&topic, "unsubscribe").0, "404");
    assert_eq!(
        question(&topic, "subscribe"),
        ("200".to_owned(), "abc".to_owned())
    );
    let heard = Reader::open(copy.apps.path("heard"), &[&url]);
    let deliver = |secret: &str| {
        let key = Digest::Sha384.key(secret.as_bytes());
        let signature = Digest::Sha384
            .signature(&key, b"new")
            .expect("it is a value");
        let header = format!(
            "X-Hub-Signature: {}",
            signature.to_str().expect("it is text")
        );
        curl(&["-H", &header, "--data-binary", "new", &url]).0
    };
    assert_eq!(deliver("wrong"), "401");
    assert_eq!(deliver(&of("hub.secret")), "202");
    // Nobody else may publish.
    assert_eq!(curl(&["--data-binary", "x", &url]).0, "405");
    eventually("what the hub has signed", || heard.data() == ["new"]);
    copy.run.stop();
}
