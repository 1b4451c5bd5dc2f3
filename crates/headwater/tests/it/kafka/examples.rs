//! The examples that have topics, as they lie in `examples`.

use std::ops::Range;
use std::path::Path;

use serde_json::Value as Json;

use super::exactly_once::fed_with;
use super::{broker, consume, end_of, kcat, produce, received};
use crate::network::{Running, Stub, curl, durable_and_not_current, eventually, free_port, ok};

fn example(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join(name).display().to_string()
}

#[test]
fn tenants_share_topics_and_each_has_its_own_back() {
    let Some(broker) = broker() else { return };
    let tell = |what: &str, tenant: Option<&str>, items: &[&str]| {
        let topic = format!("folio.ALL.circulation.check-{what}");
        let header = tenant.map(|tenant| format!("x-okapi-tenant={tenant}"));
        let mut args = vec!["-P", "-t", &topic, "-p", "0"];
        args.extend(header.iter().flat_map(|header| ["-H", header]));
        let lines: String = items
            .iter()
            .map(|item| format!("{{\"itemId\":\"{item}\"}}\n"))
            .collect();
        kcat(broker, &args, &lines);
    };
    tell("out", Some("diku"), &["a", "b"]);
    tell("out", Some("college"), &["a"]);
    tell("in", Some("diku"), &["c"]);
    tell("in", None, &["z"]);
    let places = format!("localhost:9092={}", broker.endpoint());
    let app = example("tenants/tenants.siddhi");
    let run = Running::start(&[&app, "--replace", &places, "--until-done"]);
    run.out_has("data=[folio.ALL.circulation.check-in, z]", 1);
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    let loans = |tenant: &str| -> Vec<(String, String, u64)> {
        let topic = format!("folio.{tenant}.circulation.loans");
        let records = consume(broker, &topic, "%k %s\n");
        let read = |record: &String| {
            let (key, value) = record.split_once(' ')?;
            let value: Json = serde_json::from_str(value).ok()?;
            assert_eq!(value["item"], key, "{record}");
            let text = |name: &str| value[name].as_str().map(str::to_owned);
            Some((text("item")?, text("move")?, value["number"].as_u64()?))
        };
        let mut loans: Vec<_> = records.iter().filter_map(read).collect();
        loans.sort_by_key(|loan| loan.2);
        loans
    };
    assert_eq!(loans("college"), [("a".into(), "out".into(), 1)]);
    let diku = loans("diku");
    let numbers: Vec<u64> = diku.iter().map(|loan| loan.2).collect();
    assert_eq!(numbers, [1, 2, 3], "it counts for itself: {diku:?}");
    let out: Vec<&str> = diku
        .iter()
        .filter(|loan| loan.1 == "out")
        .map(|loan| &*loan.0)
        .collect();
    assert_eq!(out, ["a", "b"], "in the order of their topic: {diku:?}");
}

#[test]
fn requests_become_records_and_records_become_requests() {
    let Some(broker) = broker() else { return };
    produce(broker, "orders", 0, ["an old order".to_owned()]);
    produce(broker, "returns", 0, ["an old return".to_owned()]);
    let port = free_port();
    // It is away at first: what is for it waits.
    let service = free_port();
    let places = [
        format!("localhost:9092={}", broker.endpoint()),
        format!("0.0.0.0:8290=127.0.0.1:{port}"),
        format!("localhost:8080=127.0.0.1:{service}"),
    ];
    let app = example("esb/esb.siddhi");
    let mut args = vec![app.as_str()];
    args.extend(places.iter().flat_map(|place| ["--replace", place]));
    let run = Running::connected(&args, 2);
    let url = format!("http://127.0.0.1:{port}/publish");
    for (topic, key) in [("orders", "k1"), ("returns", "k2"), ("others", "k3")] {
        let (topic, key) = (format!("x-topic: {topic}"), format!("x-key: {key}"));
        let body = "two pears, \"ripe\"";
        let (status, _) = curl(&["-H", &topic, "-H", &key, "--data-binary", body, &url]);
        assert_eq!(status, "200");
    }
    run.err_has("cannot connect sink", 1);
    let stub = Stub::start(service, |_| ok(""));
    let got = stub.wait_for(4);
    let has = |topic: &str, key: &str, body: &str| {
        got.iter().any(|one| {
            one.has(&format!("X-Topic: {topic}"))
                && one.has(&format!("X-Key: {key}"))
                && one.body == body
        })
    };
    assert!(has("orders", "null", "an old order"), "{got:?}");
    assert!(has("returns", "null", "an old return"), "{got:?}");
    assert!(has("orders", "k1", "two pears, \"ripe\""), "{got:?}");
    assert!(has("returns", "k2", "two pears, \"ripe\""), "{got:?}");
    eventually("the topic that nobody reads has its record", || {
        consume(broker, "others", "%k %s\n") == ["k3 two pears, \"ripe\""]
    });
    assert_eq!(run.stop().0, Some(0));
}

#[test]
fn each_payment_counts_once_whenever_the_run_is_killed() {
    let Some(broker) = broker() else { return };
    let payments = |range: Range<u32>| {
        range.map(|n| {
            let account = n % 100;
            format!("{{\"id\":\"p{n}\",\"account\":\"a{account}\",\"cents\":1}}")
        })
    };
    // Of transactions that are committed, as kcat reads where it is not told otherwise.
    let counted = || received(broker, "balances").len() as u64;
    let dir = tempfile::tempdir().expect("a folder");
    let state = dir.path().join("state");
    let places = format!("localhost:9092={}", broker.endpoint());
    let app = example("balances/balances.siddhi");
    let args = [
        &app,
        "--replace",
        &places,
        "--state",
        &state.display().to_string(),
        "--state-interval",
        "50ms",
    ];
    // Killed when some are counted and the next are about to be, while others are still paid.
    let paid = fed_with(broker, "payments", 30_000, payments, || {
        let run = Running::start(&args);
        eventually("some are counted", || counted() > 0);
        durable_and_not_current(&state.join("Balances"), || false);
        run.kill();
        let before = counted();
        let is_more = || end_of(broker, "payments") > before;
        eventually("some are paid and not counted", is_more);
    });
    let (code, summary) = Running::start(&[&args[..], &["--until-done"]].concat()).end();
    assert_eq!(code, Some(0), "{summary}");
    let committed = ["-X", "isolation.level=read_committed"];
    let read = [
        &["-C", "-t", "balances", "-o", "beginning", "-e"],
        &committed[..],
    ]
    .concat();
    let text = kcat(broker, &read, "");
    let mut balances: Vec<u64> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter_map(|record| record["balance"].as_u64())
        .collect();
    balances.sort_unstable();
    let expect: Vec<u64> = (0..u64::from(paid)).map(|n| n / 100 + 1).collect();
    assert!(balances == expect, "{} of {paid}", balances.len());
}
