//! Apps hear what the gateway does, on streams of its own names.

use serde_json::Value as Json;

use crate::broker::Apps;
use crate::network::gateway::Server;
use crate::network::{Got, Reader, Stub, curl, eventually, free_port, ok};

const APP: &str = "@app:name('Watch')
define stream gw_connections (change string, api string, topic string, protocol string, lasted long, time long);
define stream gw_presence (change string, topic string, present long, user string);
define stream gw_throttled (api string, topic string, quota string, peer string, reset long);
define stream gw_deliveries (outcome string, topic string, callback string, attempt int, status int, cause string);
@sink(type='sse-server', api='watch', topic='/seen/{what}', history.events='100', @map(type='json'))
define stream Seen (what string, text string, number long);
from gw_connections[api != 'watch/1.0.0']
select 'connections' as what, str:concat(change, ' ', topic, ' ', protocol) as text, ifThenElse(lasted is null, -1L, 1L) as number
insert into Seen;
from gw_presence[not(str:contains(topic, '/seen/'))]
select 'presence' as what, str:concat(change, ' ', topic) as text, present as number insert into Seen;
from gw_throttled select 'throttled' as what, str:concat(api, ' ', topic, ' ', quota, ' ', peer) as text, reset as number insert into Seen;
from gw_deliveries select 'deliveries' as what, str:concat(outcome, ' ', topic) as text, convert(attempt, 'long') as number insert into Seen;
";

const DOCUMENT: &str = "asyncapi: 2.6.0
info: { title: Rooms, version: '1' }
channels: { '/rooms/{room}': { subscribe: {}, publish: {} }, /busy: { subscribe: {}, publish: {} } }
x-headwater:
  protocols: [ sse, websub ]
  plans: { Small: { topic: { events: 2/day } } }
  websub: { callback-networks: [ '127.0.0.1' ] }
";

fn confirming(got: &Got) -> String {
    let line = got.head.lines().next().unwrap_or_default();
    let challenge = line.split("hub.challenge=").nth(1);
    ok(challenge.map_or("", |rest| rest.split(['&', ' ']).next().unwrap_or_default()))
}

/// Texts and numbers of what was seen.
fn seen(reader: &Reader) -> Vec<(String, i64)> {
    let events = reader.data();
    let events = events
        .iter()
        .filter_map(|data| serde_json::from_str::<Json>(data).ok());
    let pair = |event: Json| {
        let event = &event["event"];
        Some((
            event["text"].as_str()?.to_owned(),
            event["number"].as_i64()?,
        ))
    };
    events.filter_map(pair).collect()
}

#[test]
fn an_app_hears_who_comes_and_goes_what_is_delivered_and_what_has_no_room() {
    let callback = Stub::start(free_port(), confirming);
    let server = Server::start(&[("watch.siddhi", APP), ("rooms.yaml", DOCUMENT)]);
    let watch = |what: &str| {
        let url = server.url(&format!("/watch/seen/{what}"));
        Reader::open(server.apps.path(what), &[&url])
    };
    let all = ["connections", "presence", "throttled", "deliveries"].map(watch);
    let [connections, presence, throttled, deliveries] = &all;
    let expect = |reader: &Reader, events: &[(&str, i64)]| {
        let events: Vec<(String, i64)> = events
            .iter()
            .map(|(text, n)| ((*text).to_owned(), *n))
            .collect();
        eventually("what the app has heard", || seen(reader) == events);
    };
    let room = server.url("/rooms/1/rooms/a");
    let first = Reader::open(server.apps.path("first"), &[&room]);
    expect(connections, &[("opened /rooms/a sse", -1)]);
    let second = Reader::open(server.apps.path("second"), &[&room]);
    expect(presence, &[("joined /rooms/a", 1), ("joined /rooms/a", 2)]);
    drop(first);
    expect(
        presence,
        &[
            ("joined /rooms/a", 1),
            ("joined /rooms/a", 2),
            ("left /rooms/a", 1),
        ],
    );
    drop(second);
    let opened = ("opened /rooms/a sse", -1);
    let closed = ("closed /rooms/a sse", 1);
    expect(connections, &[opened, opened, closed, closed]);
    // A callback, and then a plan without room.
    let base = server.url("/rooms/1");
    let form = format!(
        "hub.callback=http://127.0.0.1:{}/c&hub.mode=subscribe&hub.topic=/busy",
        callback.port
    );
    assert_eq!(curl(&["-d", &form, &base]).0, "202");
    server.run.err_has("subscription changed", 1);
    let busy = server.url("/rooms/1/busy");
    assert_eq!(curl(&["--data-binary", "x", &busy]).0, "202");
    expect(deliveries, &[("delivered /busy", 1)]);
    eventually("no room", || {
        curl(&["--data-binary", "x", &busy]).0 == "429"
    });
    eventually("what had no room", || !seen(throttled).is_empty());
    let (text, reset) = seen(throttled).remove(0);
    assert_eq!(
        text,
        "Rooms/1 /busy the limit of 2/day events for each topic is reached 127.0.0.1"
    );
    assert!(reset > 1_700_000_000_000, "{reset}");
    server.run.stop();
}

#[test]
fn attributes_that_no_event_has_are_named() {
    let apps = Apps::new(free_port(), 0);
    let app = apps.write("app", "@app:name('A')\ndefine stream gw_presence (presnt long, change int);\nfrom gw_presence select * insert into Out;\n", "");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["check", &app])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        said.contains("events of the gateway for stream 'gw_presence' have no 'presnt'")
            && said.contains("did you mean 'present'?"),
        "{said}"
    );
    assert!(said.contains("attribute 'change' of stream 'gw_presence' is a int, and events of the gateway have a string"), "{said}");
    // An app that feeds such a stream itself has it for itself.
    let own = apps.write("own", "@app:name('B')\ndefine stream In (a int);\ndefine stream gw_presence (b int);\nfrom In select a as b insert into gw_presence;\n", "");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["check", &own])
        .output()
        .expect("it runs");
    assert!(output.status.success());
}
