//! Metrics, logs and traces of a real server, as a collector with the official messages reads them.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::network::{Stub, curl, eventually, free_port, ok};
use serde_json::Value as Json;

const SHOP: &str = "@app:name('Shop') @app:statistics('true')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, number int);
define table Kept (item string, number int);
@sink(type='http', publisher.url='{url}', @map(type='json'))
define stream Out (item string, number int);
from Sales select item, number insert into Out;
from Sales select item, number insert into Kept;
";

/// A server that pushes, ended when dropped.
struct Pushing {
    child: std::process::Child,
    sales: String,
    http: String,
    log: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Pushing {
    fn start(collector: &str, out: &str) -> Pushing {
        let dir = tempfile::tempdir().expect("a folder");
        let (port, http) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let app = SHOP
            .replace("{port}", &port.to_string())
            .replace("{url}", out);
        let path = dir.path().join("shop.siddhi");
        fs::write(&path, app).expect("the folder can be written");
        let log = dir.path().join("log");
        let err = fs::File::create(&log).expect("the folder can be written");
        let child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("run")
            .arg(&path)
            .args(["--http", &http, "--otlp", collector, "--otlp-sample", "1"])
            .args(["--state-interval", "100ms", "--state"])
            .arg(dir.path().join("state"))
            .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k1")
            .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
            .env_remove("HEADWATER_LOG")
            .stdout(Stdio::null())
            .stderr(err)
            .spawn()
            .expect("the binary starts");
        let sales = format!("http://127.0.0.1:{port}/in");
        let pushing = Pushing {
            child,
            sales,
            http: format!("http://{http}"),
            log,
            _dir: dir,
        };
        eventually("it takes events", || {
            curl(&["-d", r#"{"item":"tea","number":1}"#, &pushing.sales]).0 == "200"
        });
        pushing
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("it is text")
    }

    /// Stops in order; the exit code.
    fn stop(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill runs").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What the collector has got of one kind.
fn got(collector: &str, kind: &str) -> Vec<Json> {
    let (_, body) = curl(&[&format!("{collector}/v1/{kind}")]);
    serde_json::from_str(&body).expect("JSON")
}

/// All parts of a kind: metrics, records or spans.
fn parts(requests: &[Json], [of_resource, of_scope, part]: [&str; 3]) -> Vec<Json> {
    let list = |json: &Json, key: &str| json[key].as_array().cloned().unwrap_or_default();
    let resources = requests
        .iter()
        .flat_map(|request| list(request, of_resource));
    let scopes = resources.flat_map(|resource| list(&resource, of_scope));
    scopes.flat_map(|scope| list(&scope, part)).collect()
}

fn attribute<'j>(json: &'j Json, key: &str) -> Option<&'j str> {
    let mut attributes = json["attributes"].as_array()?.iter();
    attributes.find(|a| a["key"] == key)?["value"]["stringValue"].as_str()
}

#[test]
fn a_collector_gets_metrics_logs_and_traces_when_the_server_stops_at_the_latest() {
    let Some(collector) = testservers::shared("otlp") else {
        return;
    };
    let url = collector.endpoint();
    let stub = Stub::start(0, |_| ok(""));
    let mut server = Pushing::start(&url, &format!("http://127.0.0.1:{}/out", stub.port));
    stub.wait_for(1);
    let query = r#"{"query":"from Kept select item"}"#;
    let (status, body) = curl(&["--json", query, &format!("{}/stores/query", server.http)]);
    assert_eq!(status, "200", "{body}");
    assert_eq!(server.stop(), Some(0), "{}", server.log());

    let requests = got(&url, "metrics");
    let last = requests.last().expect("a push at the end");
    assert_eq!(last["key"], "k1");
    let resource = &last["resourceMetrics"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), Some("headwater"));
    assert_eq!(attribute(resource, "deployment.environment"), Some("test"));
    assert!(attribute(resource, "host.name").is_some(), "{resource}");
    let metrics = parts(&requests, ["resourceMetrics", "scopeMetrics", "metrics"]);
    let metric = |name: &str| metrics.iter().rfind(|m| m["name"] == name).expect(name);
    let events = &metric("headwater_source_events_total")["sum"];
    assert_eq!(events["isMonotonic"], true);
    assert_eq!(
        events["aggregationTemporality"],
        "AGGREGATION_TEMPORALITY_CUMULATIVE"
    );
    let point = &events["dataPoints"][0];
    assert_eq!(attribute(point, "stream"), Some("Sales"));
    assert!(
        point["asDouble"].as_f64().is_some_and(|n| n >= 1.0),
        "{point}"
    );
    assert!(metric("process_resident_memory_bytes")["gauge"].is_object());
    let times = &metric("headwater_query_seconds")["histogram"]["dataPoints"][0];
    assert_eq!(
        times["bucketCounts"].as_array().map(Vec::len),
        Some(14),
        "{times}"
    );

    let records = parts(
        &got(&url, "logs"),
        ["resourceLogs", "scopeLogs", "logRecords"],
    );
    let ready = records
        .iter()
        .find(|r| r["body"]["stringValue"] == "source is ready");
    let ready = ready.expect("the log of the start");
    assert_eq!(ready["severityText"], "INFO");
    assert_eq!(attribute(ready, "app"), Some("Shop"));
    assert_eq!(attribute(ready, "stream"), Some("Sales"));

    let spans = parts(
        &got(&url, "traces"),
        ["resourceSpans", "scopeSpans", "spans"],
    );
    let span = |name: &str| spans.iter().find(|s| s["name"] == name).expect(name);
    for name in ["checkpoint", "query", "batch"] {
        assert_eq!(attribute(span(name), "app"), Some("Shop"), "{name}");
    }
    let batch = span("batch");
    for name in ["process", "publish"] {
        let part = spans
            .iter()
            .find(|s| s["name"] == name && s["traceId"] == batch["traceId"]);
        let part = part.expect(name);
        assert_eq!(part["parentSpanId"], batch["spanId"], "{name}");
        let nanos = |json: &Json, key: &str| -> u64 {
            json[key]
                .as_str()
                .and_then(|n| n.parse().ok())
                .expect("nanoseconds")
        };
        assert!(
            nanos(part, "startTimeUnixNano") >= nanos(batch, "startTimeUnixNano"),
            "{part} {batch}"
        );
    }
}

#[test]
fn a_collector_that_is_away_is_named_once_and_holds_nobody_up() {
    let stub = Stub::start(0, |_| ok(""));
    let mut server = Pushing::start(
        "http://127.0.0.1:1",
        &format!("http://127.0.0.1:{}/out", stub.port),
    );
    let begun = Instant::now();
    for _ in 0..50 {
        assert_eq!(
            curl(&["-d", r#"{"item":"tea","number":1}"#, &server.sales]).0,
            "200"
        );
    }
    stub.wait_for(50);
    assert!(begun.elapsed().as_secs() < 60);
    eventually("it is said", || {
        server.log().contains("cannot reach OTLP collector")
    });
    assert_eq!(server.stop(), Some(0), "{}", server.log());
    assert_eq!(
        server.log().matches("OTLP collector").count(),
        1,
        "{}",
        server.log()
    );
}
