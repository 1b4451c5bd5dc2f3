//! The scenarios of `headwater bench` that need databases, with few events: each verifies what it
//! wrote by the databases' own clients.

use std::process::{Command, Stdio};

use serde_json::Value as Json;

/// The verified facts of the only run, or nothing where this machine lacks a server.
#[track_caller]
fn bench(name: &str, events: u64) -> Option<Json> {
    let scenario = bench::scenario::find(name).expect("a scenario");
    for server in scenario.servers() {
        if !testservers::is_there_or_skip(server) {
            return None;
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["bench", name, "--runs", "1", "--json"])
        .args(["--events", &events.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{name}: {said}");
    let report: Json = serde_json::from_slice(&output.stdout).expect("a report");
    Some(report["runs"][0]["verified"].clone())
}

#[test]
fn every_type_into_three_databases() {
    long_test!();
    let Some(verified) = bench("types", 3000) else {
        return;
    };
    for (fact, least) in [
        ("nulls_sqlite", 2900),
        ("strict_mariadb", 2900),
        ("nulls_postgres", 2900),
        ("strict_sqlite_rejected_i", 1),
        ("nulls_mariadb_rejected_d", 3),
        ("strict_postgres_rejected_s", 1),
    ] {
        assert!(verified[fact].as_u64() >= Some(least), "{fact}: {verified}");
    }
}

#[track_caller]
fn check_copier(name: &str) {
    if let Some(verified) = bench(name, 2000) {
        assert_eq!(verified["rows"], 2000, "{name}: {verified}");
    }
}

#[test]
fn the_published_copier_into_sqlite() {
    long_test!();
    check_copier("etl");
}

#[test]
fn the_published_copier_into_mariadb() {
    long_test!();
    check_copier("etl-mariadb");
}

#[test]
fn the_published_copier_into_postgres() {
    long_test!();
    check_copier("etl-postgres");
}

#[test]
fn orders_from_a_file_into_mariadb() {
    if let Some(verified) = bench("rdbms", 5000) {
        assert_eq!(verified["rows"], 5000, "{verified}");
    }
}

#[test]
fn orders_in_the_log_of_mariadb_are_sent_to_kafka() {
    long_test!();
    if let Some(verified) = bench("cdc", 2000) {
        assert_eq!(verified["changes"], 2000, "{verified}");
        assert!(verified["records"].as_u64() > Some(1000), "{verified}");
    }
}

#[test]
fn nodes_of_a_file_are_sent_to_kafka() {
    long_test!();
    if let Some(verified) = bench("xml-kafka", 2000) {
        assert_eq!(verified["records_same"], 2000, "{verified}");
    }
}

#[test]
fn events_of_a_topic_are_counted() {
    long_test!();
    if let Some(verified) = bench("kafka", 2000) {
        assert_eq!(verified["events"], 2000, "{verified}");
    }
}

#[test]
fn an_event_that_is_posted_comes_back_as_an_answer() {
    for name in ["http-request", "http-request-pipelined"] {
        if let Some(verified) = bench(name, 2000) {
            assert_eq!(verified["requests"], 2000, "{verified}");
            assert_eq!(verified["answered"], 2000, "{verified}");
        }
    }
}

#[test]
fn a_chain_of_three_apps_leads_from_a_topic_to_requests() {
    long_test!();
    if let Some(verified) = bench("kafka-http", 2000) {
        assert_eq!(verified["requests_of_different_events"], 2000, "{verified}");
    }
}

/// All loads, with few clients: each of them verifies what it heard.
#[test]
fn the_gateway_under_each_load() {
    long_test!();
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args([
            "bench", "gateway", "--quick", "--alone", "--runs", "1", "--json",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Json = serde_json::from_slice(&output.stdout).expect("a report");
    let cases = report["cases"].as_array().expect("cases");
    let figures = |case: &Json| case["servers"][0]["runs"][0].clone();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let (name, figures) = (&case["case"], figures(case));
        assert!(
            figures.as_object().is_some_and(|f| f.len() > 1),
            "{name}: {figures}"
        );
    }
    let failed = figures(&cases[7]);
    assert_eq!(failed["cells with an error"], 0.0, "{failed}");
}

/// All parts of the event store, with few events: each of them verifies counts, sums and rows.
#[test]
fn the_event_store_under_each_load() {
    long_test!();
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["bench", "store", "--quick", "--runs", "1", "--json"])
        .args(["--events", "20000"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Json = serde_json::from_slice(&output.stdout).expect("a report");
    let parts = report["parts"].as_array().expect("parts");
    assert_eq!(parts.len(), 8);
    for part in parts {
        for figure in part["figures"].as_array().expect("figures") {
            let ours = &figure["values"]["Headwater"][0];
            assert!(ours.as_f64().is_some_and(|value| value >= 0.0), "{part}");
        }
    }
}
