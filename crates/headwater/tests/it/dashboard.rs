//! The dashboard for Grafana asks for nothing that a server does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::network::{Running, curl, eventually, free_port};
use serde_json::Value as Json;

const APP: &str = "@app:name('Shop') @app:statistics('true')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, number int);
@source(type='file', file.uri='{dir}/in.csv', tailing='false', @map(type='csv'))
define stream Lines (item string);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/kept.db')
define table Kept (item string, number int);
@sink(type='http', publisher.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Again (item string, number int);
@info(name='again') from Sales[number > 100] select item, number insert into Again;
from Sales select item, number insert into Kept;
";

/// Of a broker that says how far it is, which is not here.
const NEEDS_A_BROKER: [&str; 1] = ["headwater_source_lag"];

fn dashboard() -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/headwater.json");
    let text = fs::read_to_string(path).expect("the dashboard is in the repository");
    serde_json::from_str(&text).expect("it is JSON")
}

/// All queries of its panels and variables.
fn queries(dashboard: &Json) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|p| p["targets"].as_array())
        .flatten();
    let asked = targets.map(|t| t["expr"].as_str().expect("a query").to_owned());
    let variables = dashboard["templating"]["list"]
        .as_array()
        .expect("variables");
    let variables = variables.iter().filter_map(|v| v["definition"].as_str());
    asked.chain(variables.map(str::to_owned)).collect()
}

/// The metrics of a query, each with the labels that it is asked by: those in its braces and those that
/// a `by (…)` of the query names.
fn metrics_of(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let labels_in = |text: &str| -> BTreeSet<String> {
        let labels = text
            .split(',')
            .map(|label| label.trim().split(['=', '!']).next());
        let labels = labels.flatten().map(|l| l.trim_end_matches('~').trim());
        labels
            .filter(|l| !l.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut by = BTreeSet::new();
    for part in query.split("by (").skip(1) {
        by.extend(labels_in(part.split(')').next().unwrap_or_default()));
    }
    let mut found = Vec::new();
    let mut rest = query;
    let next = |rest: &str| {
        ["headwater_", "process_"]
            .iter()
            .filter_map(|n| rest.find(n))
            .min()
    };
    while let Some(start) = next(rest) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let mut labels = by.clone();
        if let Some(matchers) = behind.strip_prefix('{') {
            labels.extend(labels_in(matchers.split('}').next().unwrap_or_default()));
        }
        found.push((name.to_owned(), labels));
        rest = behind;
    }
    found
}

/// The labels of each metric of a page.
fn labels_of(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).expect("a sample");
        let labels = all.entry(name.to_owned()).or_default();
        let rest = rest.rsplit_once('}').map_or("", |(labels, _)| labels);
        let names = rest.split("\",").filter_map(|pair| pair.split_once('='));
        labels.extend(names.map(|(name, _)| name.to_owned()));
    }
    all
}

#[test]
fn metrics_and_labels_of_a_query_are_found() {
    let found = metrics_of(
        "sum by (le, app) (rate(headwater_a_bucket{app=~\"$app\",job=\"x\"}[5m])) + process_b",
    );
    let labels = |names: &[&str]| {
        names
            .iter()
            .map(|n| (*n).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        found,
        [
            (
                "headwater_a_bucket".to_owned(),
                labels(&["app", "job", "le"])
            ),
            ("process_b".to_owned(), labels(&["app", "le"])),
        ]
    );
}

#[test]
fn every_panel_of_the_dashboard_asks_for_what_a_server_has() {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, http) = (free_port(), free_port());
    fs::write(dir.path().join("in.csv"), "tea\nmilk\n").expect("the folder can be written");
    let app = APP
        .replace("{port}", &port.to_string())
        .replace("{dir}", &dir.path().display().to_string());
    let path = dir.path().join("shop.siddhi");
    fs::write(&path, app).expect("the folder can be written");
    let state = dir.path().join("state").display().to_string();
    let (path, http) = (path.display().to_string(), format!("127.0.0.1:{http}"));
    let run = Running::start(&[
        &path,
        "--http",
        &http,
        "--state",
        &state,
        "--state-interval",
        "100ms",
    ]);
    let url = format!("http://{http}/metrics");
    let sale = r#"{"item":"tea","number":1}"#;
    eventually("a checkpoint", || {
        curl(&["-d", sale, &format!("http://127.0.0.1:{port}/in")]);
        curl(&[&url])
            .1
            .contains("headwater_checkpoint_timestamp_seconds{")
    });
    let (_, page) = curl(&[&url]);
    let known = labels_of(&page);
    // What Prometheus adds to every sample.
    let added = ["job", "instance"];
    let dashboard = dashboard();
    let queries = queries(&dashboard);
    assert!(queries.len() > 30, "{}", queries.len());
    for query in &queries {
        let metrics = metrics_of(query);
        assert!(!metrics.is_empty(), "no metric of ours in {query}");
        for (name, labels) in metrics {
            if NEEDS_A_BROKER.contains(&name.as_str()) {
                continue;
            }
            let Some(has) = known.get(&name) else {
                panic!("{query}: the server has no {name}\n{page}");
            };
            let missing: Vec<&String> = labels
                .iter()
                .filter(|label| !has.contains(*label) && !added.contains(&label.as_str()))
                .collect();
            assert!(
                missing.is_empty(),
                "{query}: {name} has no {missing:?}, but {has:?}"
            );
        }
    }
    // Each panel has a place of its own.
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|p| p["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    run.stop();
}
