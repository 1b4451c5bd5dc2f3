//! Where a real server stands: `headwater status`, `headwater top --once` and `/metrics`.

use std::fs;
use std::process::Command;

use crate::network::{Running, curl, eventually, free_port, text};
use serde_json::Value as Json;

const SHOP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
@source(type='http', receiver.url='http://127.0.0.1:{port}/other', @map(type='json'))
define stream Sales (item string, number int);
define table Kept (item string, number int);
@sink(type='log') define stream Sums (total long);
@info(name='sum') from Sales select sum(number) as total insert into Sums;
from Sales select item, number insert into Kept;
";

/// Its destination is away.
const PIPE: &str = "@app:name('Pipe')
@sink(type='tcp', url='tcp://127.0.0.1:1/x', @map(type='binary'))
define stream Out (n int);
define stream In (n int);
from In select n insert into Out;
";

/// Exit code, standard output and standard error.
fn headwater(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .output()
        .expect("the binary starts");
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

struct Place {
    run: Running,
    url: String,
    port: u16,
    dir: tempfile::TempDir,
}

fn start(apps: &[(&str, &str)]) -> Place {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, http) = (free_port(), free_port());
    for (name, app) in apps {
        let app = app.replace("{port}", &port.to_string());
        fs::write(dir.path().join(name), app).expect("the folder can be written");
    }
    let (app, state) = (
        dir.path().display().to_string(),
        dir.path().join("state").display().to_string(),
    );
    let http = format!("127.0.0.1:{http}");
    let run = Running::start(&[
        &app,
        "--http",
        &http,
        "--state",
        &state,
        "--state-interval",
        "100ms",
    ]);
    let url = format!("http://{http}");
    eventually("an answer", || curl(&[&format!("{url}/status")]).0 == "200");
    Place {
        run,
        url,
        port,
        dir,
    }
}

impl Place {
    fn status(&self, more: &[&str]) -> (Option<i32>, String, String) {
        headwater(&[&["status", "--url", &self.url], more].concat())
    }

    fn document(&self) -> Json {
        let (_, out, err) = self.status(&["--json"]);
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
    }

    fn post(&self, path: &str) {
        let url = format!("http://127.0.0.1:{}/{path}", self.port);
        let (status, body) = curl(&["-d", r#"{"item":"tea","number":1}"#, &url]);
        assert_eq!(status, "200", "{body}");
    }
}

#[test]
fn a_ready_server_shows_what_each_part_has_done() {
    let place = start(&[("shop.siddhi", SHOP)]);
    eventually("readiness", || {
        place.document()["apps"][0]["sources"][1]["state"] == "connected"
    });
    for path in ["in", "in", "other"] {
        place.post(path);
    }
    eventually("all is counted", || {
        let shop = &place.document()["apps"][0];
        shop["events"] == 3
            && shop["eventsPerSecond"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0)
            && shop["checkpoint"]["count"]
                .as_u64()
                .is_some_and(|count| count > 0)
            && shop["tables"][0]["rows"] == 3
            && shop["sinks"][0]["events"] == 3
    });
    let document = place.document();
    assert_eq!(document["version"], 1);
    assert_eq!(document["ready"], true);
    let shop = &document["apps"][0];
    let names = ["sources", "sinks", "tables"].map(|kind| shop[kind][0]["name"].clone());
    assert_eq!(names, ["Sales[1]", "Sums[1]", "Kept"]);
    assert_eq!(
        (&shop["sources"][0]["events"], &shop["sources"][1]["events"]),
        (&2.into(), &1.into())
    );
    let (code, out, err) = place.status(&["Shop"]);
    assert_eq!(code, Some(0), "{err}");
    for part in [
        ": ready, up ",
        "\nShop: ",
        "source Sales[2]  http",
        "connected",
        "; checkpoint ",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let (code, _, err) = place.status(&["Nope"]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("there is no app 'Nope'; running: 'Shop'"),
        "{err}"
    );
    // Two sources of one type are two samples; what nobody has is no family.
    let (_, page) = curl(&[&format!("{}/metrics", place.url)]);
    for line in [
        "headwater_source_events_total{app=\"Shop\",stream=\"Sales\",type=\"http\"} 2\n",
        "headwater_source_events_total{app=\"Shop\",stream=\"Sales\",type=\"http\",number=\"2\"} 1\n",
        "headwater_checkpoint_timestamp_seconds{app=\"Shop\"} ",
        "headwater_app_queue_ratio{app=\"Shop\"} 0\n",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert!(!page.contains("headwater_source_lag"), "{page}");
    assert!(place.dir.path().join("state").is_dir());
    place.run.stop();
    let (code, ..) = headwater(&["status", "--url", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(3));
}

#[test]
fn what_is_away_is_shown_with_its_cause_and_the_exit_code_says_it() {
    let place = start(&[("pipe.siddhi", PIPE), ("shop.siddhi", SHOP)]);
    eventually("the sink is away", || {
        place.document()["apps"][0]["sinks"][0]["nextTry"].is_string()
    });
    let sink = &place.document()["apps"][0]["sinks"][0];
    assert_eq!(sink["state"], "away");
    assert!(
        sink["cause"]
            .as_str()
            .is_some_and(|cause| cause.contains("refused")),
        "{sink}"
    );
    let (code, out, _) = place.status(&[]);
    assert_eq!(code, Some(1));
    assert!(out.contains(": not ready, up "), "{out}");
    assert!(out.contains("sink Out[1]  tcp  away since 20"), "{out}");
    assert!(out.contains("; next try 20"), "{out}");
    // `top` where there is no terminal: one table.
    let (code, out, err) = headwater(&["top", "--url", &place.url]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("NAME "), "{out}");
    for part in ["Pipe ", "  sink Out[1] ", "away: ", "  query sum\n"] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let (code, out, _) = headwater(&["top", "--json", "--url", &place.url]);
    let json: Json = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (code, &json["version"], &json["ready"]),
        (Some(0), &1.into(), &false.into())
    );
    // The other app is.
    eventually("readiness of the other app", || {
        place.status(&["Shop"]).0 == Some(0)
    });
    place.run.stops();
}
