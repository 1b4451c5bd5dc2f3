//! What people see of a gateway that runs, and take out of it: its streams, its documents, a look at a topic.

use crate::network::gateway::Server;
use crate::network::{Reader, curl, eventually};

const APP: &str = "@app:name('Ticks')
define stream Ticks (sym string, price double);
@sink(type='sse-server', api='more', topic='/by/{s}', topic.s='{{sym}}', scopes='more:read', @map(type='json'))
define stream Out (sym string, price double);
from Ticks select * insert into Out;
";

const DOCUMENT: &str = "asyncapi: 3.0.0
info: { title: Ticks, version: 1.0.0 }
channels:
  in: { address: /in }
  by: { address: '/symbols/{symbol}' }
  chat: { address: /chat }
operations:
  put: { action: receive, channel: { $ref: '#/channels/in' } }
  get: { action: send, channel: { $ref: '#/channels/by' }, security: [ { $ref: '#/components/securitySchemes/jwt' } ] }
  say: { action: receive, channel: { $ref: '#/channels/chat' } }
  hear: { action: send, channel: { $ref: '#/channels/chat' } }
components: { securitySchemes: { jwt: { type: oauth2, flows: {}, scopes: [ 'ticks:read' ] } } }
x-headwater:
  issuers: [ own ]
  protocols: [ sse, ws, websub ]
  plans: { Team: { events: 2000/s, connections: 100 } }
  topics:
    /in: { stream: Ticks/Ticks }
    /symbols/{symbol}: { stream: Ticks/Out, key: sym, history: { events: 10, age: 15min }, slow: wait }
";

fn start(document: &str) -> Server {
    Server::start(&[("ticks.siddhi", APP), ("ticks.yaml", document)])
}

// rules: A4
#[test]
fn a_document_goes_to_an_app_and_back_and_is_the_same() {
    let server = start(DOCUMENT);
    let three = server.does(&["export", "ticks"]);
    let two = server.does(&["export", "Ticks/1.0.0", "--asyncapi", "2.6"]);
    assert!(three.starts_with("asyncapi: 3.0.0") && two.starts_with("asyncapi: 2.6.0"));
    let app = server.does(&["export", "Ticks", "--asyncapi", "siddhi"]);
    // That of connectors names their streams.
    let of_connectors = server.does(&["export", "more"]);
    assert!(
        of_connectors.contains("stream: Ticks/Out") && of_connectors.contains("key:\n      - sym"),
        "{of_connectors}"
    );
    let (code, _, err) = server.command(&["export", "nothing"]);
    assert!(
        code == Some(1) && err.contains("there is Ticks/1.0.0, more/1.0.0"),
        "{err}"
    );
    let address = format!("127.0.0.1:{}", server.apps.port());
    server.run.stop();
    for (name, text) in [
        ("three.yaml", &three),
        ("two.yaml", &two),
        ("within.siddhi", &app),
    ] {
        let again = Server::start(&[("ticks.siddhi", APP), (name, text)]);
        let own = format!("127.0.0.1:{}", again.apps.port());
        let said = again.does(&["export", "Ticks"]).replace(&own, &address);
        assert_eq!(said, three, "{name}");
        again.run.stop();
    }
}

#[test]
fn streams_that_are_open_are_listed_and_a_topic_is_tried() {
    let server = start(DOCUMENT);
    let chat = server.url("/ticks/1.0.0/chat");
    let hearer = Reader::open(server.apps.path("heard"), &[&chat]);
    let listed = server.json(&["connections"]);
    let one = &listed["items"][0];
    assert_eq!(listed["count"], 1, "{listed}");
    assert_eq!(
        (&one["api"], &one["topic"]),
        (&"Ticks/1.0.0".into(), &"/chat".into())
    );
    assert_eq!(
        (&one["protocol"], &one["user"]),
        (&"sse".into(), &serde_json::Value::Null)
    );
    let shown = server.does(&["connections"]);
    assert!(
        shown.starts_with("id  API") && shown.contains("/chat"),
        "{shown}"
    );
    drop(hearer);
    eventually("the end of the stream", || {
        server.json(&["connections"])["count"] == 0
    });
    // One that needs a token, heard by an application that lives as long as the command.
    let looks = std::thread::scope(|scope| {
        let looking = scope.spawn(|| server.does(&["try", "ticks", "/symbols/A", "--count", "2"]));
        eventually("the look", || server.json(&["connections"])["count"] == 1);
        let one = server.json(&["connections"])["items"][0].clone();
        assert!(
            one["application"]
                .as_str()
                .is_some_and(|name| name.starts_with("try-")),
            "{one}"
        );
        for price in ["1.0", "2.0"] {
            let event = format!("{{\"event\":{{\"sym\":\"A\",\"price\":{price}}}}}");
            assert_eq!(curl(&["-d", &event, &server.url("/ticks/in")]).0, "202");
        }
        looking.join().expect("it has ended")
    });
    assert_eq!(
        looks,
        "{\"event\":{\"sym\":\"A\",\"price\":1.0}}\n{\"event\":{\"sym\":\"A\",\"price\":2.0}}"
    );
    assert_eq!(server.json(&["apps"])["items"], serde_json::json!([]));
    for (topic, cause) in [
        ("/symbol/A", "there is /in, /symbols/{symbol}, /chat"),
        ("/in", "nobody may hear"),
    ] {
        let (code, _, err) = server.command(&["try", "ticks", topic]);
        assert!(code == Some(1) && err.contains(cause), "{topic}: {err}");
    }
    server.run.stop();
}

/// An app whose document is of no use runs as before; one that means the gateway is judged.
#[test]
fn a_document_within_an_app_is_judged_at_its_place() {
    let with = |document: &str| {
        format!(
            "@App:name('A')\n@App:asyncAPI(\"\"\"\n{document}\"\"\")\ndefine stream S (a int);\n"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let check = |text: &str| {
        let path = folder.path().join("a.siddhi");
        std::fs::write(&path, text).expect("it can be written");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_headwater"));
        let output = command.arg("check").arg(&path).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        (output.status.code(), said)
    };
    let (code, said) = check(&with(
        "asyncapi: 1.2.0\ninfo: { title: T, version: 1.0.0 }\nchannels: {}\n",
    ));
    assert!(
        code == Some(0) && said.contains("AsyncAPI 1.2.0 is not read"),
        "{said}"
    );
    let (code, said) = check(&with(
        "asyncapi: 3.0.0\ninfo: { title: T, version: 1.0.0 }\nchannels: { a: { address: /a } }\n\
         operations: { o: { action: send, channel: { $ref: '#/channels/a' } } }\n\
         x-headwater: { topics: { /a: { straem: A/S } } }\n",
    ));
    assert!(code == Some(1) && said.contains("a.siddhi:7:"), "{said}");
    assert!(said.contains("did you mean 'stream'?"), "{said}");
}
