//! The level of statistics of a real server: shown and changed over HTTP and by `headwater statistics`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::network::{Running, curl, eventually, free_port, post_all};
use serde_json::Value as Json;

const SHOP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, number int);
define table Kept (item string, number int);
@sink(type='log', prefix='{prefix}') define stream Sums (total long);
@info(name='sum') from Sales select sum(number) as total insert into Sums;
from Sales select item, number insert into Kept;
";

const MEASURED: &str = "@app:name('Measured') @app:statistics(interval='3600')
define stream S (n int); from S select n insert into T;
";

struct Place {
    dir: tempfile::TempDir,
    run: Running,
    /// Where sales are posted, and where the server is asked.
    sales: String,
    url: String,
}

fn write(dir: &Path, port: u16, prefix: &str) {
    let shop = SHOP
        .replace("{port}", &port.to_string())
        .replace("{prefix}", prefix);
    fs::write(dir.join("shop.siddhi"), shop).expect("the folder can be written");
    fs::write(dir.join("measured.siddhi"), MEASURED).expect("the folder can be written");
}

fn start() -> (Place, u16) {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, http) = (free_port(), free_port());
    write(dir.path(), port, "first");
    let apps = dir.path().display().to_string();
    let run = Running::connected(&[&apps, "--http", &format!("127.0.0.1:{http}")], 1);
    let place = Place {
        dir,
        run,
        sales: format!("http://127.0.0.1:{port}/in"),
        url: format!("http://127.0.0.1:{http}"),
    };
    (place, port)
}

/// Exit code, standard output and standard error.
fn headwater(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .output()
        .expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

impl Place {
    fn statistics(&self, more: &[&str]) -> (Option<i32>, String, String) {
        let args = ["statistics", "--url", &self.url];
        headwater(&[&args, more].concat())
    }

    fn shop(&self) -> Json {
        let (status, body) = curl(&[&format!("{}/siddhi-apps/Shop/statistics", self.url)]);
        assert_eq!(status, "200", "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn put(&self, path: &str, body: &str) -> (String, String) {
        let url = format!("{}/siddhi-apps{path}/statistics", self.url);
        curl(&["-X", "PUT", "--json", body, &url])
    }

    fn post(&self, count: usize) {
        let sale = r#"{"item":"tea","number":1}"#.to_owned();
        let statuses = post_all(&self.sales, vec![sale; count]);
        assert!(statuses.iter().all(|status| *status == 200));
    }

    #[track_caller]
    fn kept(&self, count: usize) {
        let ask = "from Kept select count() as n";
        let answer = headwater(&["query", ask, "--url", &self.url, "--app", "Shop"]);
        let last = answer.1.lines().last();
        assert_eq!(last, Some(count.to_string().as_str()), "{}", answer.2);
    }
}

/// A number of a reading, 0 where it is not told.
fn number(app: &Json, name: &str, what: &str) -> u64 {
    let mut readings = app["readings"].as_array().expect("a list").iter();
    let found = readings.find(|reading| reading["name"] == name);
    found
        .and_then(|reading| reading[what].as_u64())
        .unwrap_or(0)
}

// covers: 653
#[test]
fn the_level_is_changed_while_events_come_and_stays_over_a_reload() {
    let (place, port) = start();
    place.post(3);
    let shop = place.shop();
    assert_eq!(shop["level"], "OFF");
    assert_eq!(shop["statsEnable"], false);
    assert_eq!(shop["readings"], serde_json::json!([]));
    let (code, out, err) = place.statistics(&["Measured"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("Measured: BASIC\n  Streams.S."), "{out}");

    std::thread::scope(|scope| {
        let posting = scope.spawn(|| place.post(200));
        while !posting.is_finished() {
            for level in ["OFF", "BASIC", "DETAIL"] {
                let (status, body) = place.put("/Shop", &format!(r#"{{"level":"{level}"}}"#));
                assert_eq!(status, "200", "{body}");
                assert!(body.contains(&format!(r#""level":"{level}""#)), "{body}");
            }
        }
    });
    place.kept(203);

    let (code, out, err) = place.statistics(&["Shop", "--level", "detail"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("Shop: DETAIL\n"), "{out}");
    place.post(5);
    eventually("all is measured", || {
        let shop = place.shop();
        number(&shop, "Sources.Sales.http.throughput", "count") == 208
            && number(&shop, "SourceMappers.Sales.http.json.latency", "timed") > 0
            && number(&shop, "SinkMappers.Sums.log.passThrough.latency", "timed") > 0
            && number(&shop, "Queries.sum.latency", "timed") > 0
            && number(&shop, "Tables.Kept.memory", "bytes") > 0
    });
    let (_, page) = curl(&[&format!("{}/metrics", place.url)]);
    for part in [
        r#"headwater_source_mapper_seconds_count{app="Shop",stream="Sales",type="http.json"} "#,
        r#"headwater_sink_mapper_seconds_sum{app="Shop",stream="Sums",type="log.passThrough"} "#,
        r#"headwater_memory_bytes{app="Shop",kind="table",name="Kept"} "#,
        r#"headwater_query_events_total{app="Measured","#,
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(
        !page.contains(r#"headwater_memory_bytes{app="Measured""#),
        "{page}"
    );

    write(place.dir.path(), port, "second");
    place.run.reload();
    place.run.err_has("source is ready", 2);
    place.post(1);
    place.run.out_has("second : ", 1);
    place.kept(209);
    assert_eq!(place.shop()["level"], "DETAIL");

    let (status, body) = place.put("", r#"{"statsEnable":false}"#);
    assert_eq!(status, "200", "{body}");
    let (code, out, _) = place.statistics(&[]);
    assert_eq!(code, Some(0));
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["Measured: OFF", "Shop: OFF"]);
    place.run.stop();
}

// covers: 653
#[test]
fn what_is_no_level_or_no_app_is_refused_and_changes_nothing() {
    let (place, _) = start();
    let long = format!(r#"{{"level":"{}"}}"#, "x".repeat(2000));
    for (path, body, status, part) in [
        (
            "/Shop",
            r#"{"level":"ALL"}"#,
            "400",
            "write OFF, BASIC or DETAIL",
        ),
        ("/Shop", "nonsense", "400", "the body is not JSON"),
        ("/Shop", "{}", "400", "the body has no level"),
        ("", r#"{"level":"ALL"}"#, "400", "there is no level 'ALL'"),
        ("/Shop", &long, "413", "a level is at most 1024 bytes"),
        (
            "/Nope",
            r#"{"level":"OFF"}"#,
            "404",
            "there is no app 'Nope'; running: '",
        ),
    ] {
        let (got, text) = place.put(path, body);
        assert_eq!(got, status, "{text}");
        assert!(text.contains(part), "{part} in {text}");
    }
    let url = format!("{}/siddhi-apps/Shop/statistics", place.url);
    assert_eq!(curl(&["--json", r#"{"level":"OFF"}"#, &url]).0, "405");
    let (code, out, err) = place.statistics(&["Nope", "--level", "off"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("there is no app 'Nope'"), "{err}");
    let (code, out, _) = place.statistics(&["Nope", "--json"]);
    let json: Json = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &json["code"]), (Some(1), &serde_json::json!(404)));
    let (code, _, err) = place.statistics(&["--level", "much"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("write OFF, BASIC or DETAIL"), "{err}");
    let (code, out, _) = place.statistics(&["--json"]);
    let json: Json = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &json["version"]), (Some(0), &serde_json::json!(1)));
    assert_eq!(json["apps"].as_array().map(Vec::len), Some(2));
    assert_eq!(place.shop()["level"], "OFF");
    let (code, ..) = headwater(&["statistics", "--url", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(3));
    place.run.stop();
}
