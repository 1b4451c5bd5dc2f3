//! `cargo xtask connectors`: what each connector was seen to do, case by case.
//!
//! The table ([`rows::ROWS`]) names for every connector and case the tests that show it, or why the
//! case is none. The command runs those tests, against the real servers, and prints what came of each
//! cell with the server's name and version. A connector that runs and has no row, a test that is not
//! there and a server that cannot be had are failures.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use catalog::connectors;
use plan::spec::{ConnectorKind, Status};
use serde_json::json;

use crate::cargo;
use rows::{CASES, Cell, ROWS, Row};

/// What came of a cell.
#[derive(Clone, PartialEq, Eq)]
enum Verdict {
    Passed(usize),
    DoesNotApply,
    Failed(String),
}

/// `[NAME] [--json]`: the rows whose connectors have the text in their names.
pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let is_json = args.iter().any(|arg| arg == "--json");
    let wanted = args.iter().find(|arg| !arg.starts_with("--"));
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| wanted.is_none_or(|name| row.connectors.iter().any(|c| c.contains(name))))
        .collect();
    anyhow::ensure!(
        !rows.is_empty(),
        "no row has '{}'",
        wanted.map_or("", |w| w)
    );
    let tests: BTreeSet<&str> = rows.iter().flat_map(|row| row.tests()).collect();
    let outcomes = run_tests(&tests)?;
    let mut servers: BTreeMap<&str, String> = BTreeMap::new();
    for row in &rows {
        servers
            .entry(row.server)
            .or_insert_with(|| version(row.server));
    }
    let mut failed = without_row(wanted.is_none());
    let mut passed = 0;
    let mut lines = Vec::new();
    for row in &rows {
        let verdicts: Vec<Verdict> = row.cells.iter().map(|c| judge(c, &outcomes)).collect();
        for (verdict, case) in verdicts.iter().zip(CASES) {
            match verdict {
                Verdict::Failed(why) => failed.push(format!("{}, {case}: {why}", row.name())),
                _ => passed += 1,
            }
        }
        lines.push((row, verdicts));
    }
    if is_json {
        println!("{}", document(&lines, &servers));
    } else {
        print_table(&lines, &servers);
        failed.iter().for_each(|why| println!("failed: {why}"));
    }
    println!("{passed} passed, {} failed", failed.len());
    Ok(failed.is_empty())
}

/// Connectors that run and that no row names, and the other way round.
fn without_row(is_asked: bool) -> Vec<String> {
    if !is_asked {
        return Vec::new();
    }
    let transports = [
        ConnectorKind::Source,
        ConnectorKind::Sink,
        ConnectorKind::Store,
    ];
    let running: BTreeSet<String> = connectors::all()
        .filter(|spec| spec.status == Status::Runs && transports.contains(&spec.kind))
        .map(|spec| format!("{} {}", spec.kind.name(), spec.name))
        .collect();
    let named: BTreeSet<String> = ROWS
        .iter()
        .flat_map(|row| row.connectors)
        .map(|name| (*name).to_owned())
        .collect();
    let missing = running
        .difference(&named)
        .map(|n| format!("{n}: it runs and has no row"));
    let gone = named
        .difference(&running)
        .map(|n| format!("{n}: it has a row and does not run"));
    missing.chain(gone).collect()
}

/// Which tests passed, by their paths.
fn run_tests(tests: &BTreeSet<&'static str>) -> anyhow::Result<BTreeMap<String, bool>> {
    let mut by_target: BTreeMap<TestTarget, Vec<&str>> = BTreeMap::new();
    for test in tests {
        let target = TestTarget::of(test);
        by_target.entry(target).or_default().push(test);
    }
    let executables = build_tests()?;
    let mut outcomes = BTreeMap::new();
    for (target, tests) in by_target {
        let prefix = target.prefix();
        let executable = executables.get(&target);
        let executable = executable.with_context(|| format!("there are no tests of {prefix}"))?;
        let names = tests
            .iter()
            .filter_map(|test| test.strip_prefix(prefix.as_str()));
        let output = Command::new(executable)
            .current_dir(Path::new("crates").join(&target.package))
            .args(["--exact", "--test-threads", "2", "--format", "pretty"])
            .args(names)
            .env("HEADWATER_SERVERS", "required")
            .output()
            .with_context(|| format!("cannot start {}", executable.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let said = text.lines().filter_map(|line| line.strip_prefix("test "));
        let before = outcomes.len();
        for (name, outcome) in said.filter_map(|line| line.split_once(" ... ")) {
            outcomes.insert(format!("{prefix}{name}"), outcome.starts_with("ok"));
        }
        let ran = outcomes.len() - before;
        eprintln!("{target}: {ran} of {} tests ran", tests.len());
        if ran == 0 {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
        // What those said that failed.
        if let Some((_, failures)) = text.split_once("\nfailures:\n") {
            eprintln!("{failures}");
        }
    }
    Ok(outcomes)
}

/// A file of tests of a crate, or the unit tests of its library.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TestTarget {
    /// Its folder below `crates`.
    package: String,
    /// `None`: the library.
    file: Option<String>,
}

impl TestTarget {
    /// That of a test named as in [`rows`].
    fn of(test: &str) -> TestTarget {
        let mut parts = test.splitn(3, "::").map(str::to_owned);
        TestTarget {
            package: parts.next().unwrap_or_default(),
            file: parts.next().filter(|_| !test.contains("::tests::")),
        }
    }

    /// What stands before a test's own name.
    fn prefix(&self) -> String {
        let file = self.file.as_ref().map(|file| format!("{file}::"));
        format!("{}::{}", self.package, file.unwrap_or_default())
    }
}

impl fmt::Display for TestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}::{file}", self.package),
            None => write!(f, "{} (unit tests)", self.package),
        }
    }
}

/// The programs of all tests. The whole workspace is built, so that what the test command has built
/// is taken as it is: a crate alone would be built anew, with fewer features of its dependencies.
fn build_tests() -> anyhow::Result<BTreeMap<TestTarget, PathBuf>> {
    let built = cargo::build(&["test", "--workspace", "--quiet", "--no-run"])?;
    let executables = built.iter().filter_map(|message| {
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let file = match message["target"]["kind"][0].as_str()? {
            "test" => Some(message["target"]["name"].as_str()?.to_owned()),
            "lib" => None,
            _ => return None,
        };
        let package = folder.file_name()?.to_str()?.to_owned();
        let executable = PathBuf::from(message["executable"].as_str()?);
        Some((TestTarget { package, file }, executable))
    });
    Ok(executables.collect())
}

fn judge(cell: &Cell, outcomes: &BTreeMap<String, bool>) -> Verdict {
    match cell {
        Cell::No(_) => Verdict::DoesNotApply,
        Cell::Tests(tests) => {
            let bad = tests.iter().find_map(|test| match outcomes.get(*test) {
                Some(true) => None,
                Some(false) => Some(format!("{test} failed")),
                None => Some(format!("there is no test {test}")),
            });
            bad.map_or(Verdict::Passed(tests.len()), Verdict::Failed)
        }
    }
}

/// What the server calls itself, with its version; what stands in its place, with its own.
fn version(server: &str) -> String {
    if let Some(recipe) = servers::SERVERS.iter().find(|s| s.name() == server) {
        return servers::install(*recipe).unwrap_or_else(|error| format!("no {server}: {error}"));
    }
    // That of the system, for which its packages bring modules.
    const PYTHON: &str = "/usr/bin/python3";
    let module = |name: &str| {
        let script = format!("import {name}; print({name}.__version__)");
        servers::version_line(PYTHON, &["-c", &script])
    };
    let second_word = |line: String| line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut text = server.to_owned();
    for peer in ["curl", "grpcio", "python", "sqlite", "websockets"] {
        let place = format!("{{{peer}}}");
        if !text.contains(&place) {
            continue;
        }
        let version = match peer {
            "curl" => servers::version_line("curl", &["--version"]).map(second_word),
            "grpcio" => module("grpc"),
            "python" => servers::version_line(PYTHON, &["--version"]).map(second_word),
            "sqlite" => Ok(rusqlite::version().to_owned()),
            module_name => module(module_name),
        };
        let version = version.unwrap_or_else(|error| format!("({error})"));
        text = text.replace(&place, &version);
    }
    text
}

fn print_table(lines: &[(&&Row, Vec<Verdict>)], servers: &BTreeMap<&str, String>) {
    let text = |verdict: &Verdict| match verdict {
        Verdict::Passed(_) => "passed",
        Verdict::DoesNotApply => "n/a",
        Verdict::Failed(_) => "FAILED",
    };
    let widest = lines.iter().map(|(row, _)| row.name().len()).max();
    let width = widest.unwrap_or_default();
    let heads: Vec<String> = CASES.iter().map(|case| format!("{case:<14}")).collect();
    println!("{:width$}  {} server", "", heads.join(" "));
    for (row, verdicts) in lines {
        let cells: Vec<String> = verdicts
            .iter()
            .map(|v| format!("{:<14}", text(v)))
            .collect();
        println!(
            "{:<width$}  {} {}",
            row.name(),
            cells.join(" "),
            servers[row.server]
        );
    }
    println!();
    for (row, _) in lines {
        for (cell, case) in row.cells.iter().zip(CASES) {
            if let Cell::No(reason) = cell {
                println!("n/a: {}, {case}: {reason}", row.name());
            }
        }
    }
}

fn document(
    lines: &[(&&Row, Vec<Verdict>)],
    servers: &BTreeMap<&str, String>,
) -> serde_json::Value {
    let rows = lines.iter().map(|(row, verdicts)| {
        let cells = row.cells.iter().zip(verdicts).zip(CASES);
        let cells = cells.map(|((cell, verdict), case)| {
            let (outcome, more) = match (verdict, cell) {
                (Verdict::Passed(_), Cell::Tests(tests)) => ("passed", json!(tests)),
                (Verdict::Failed(why), _) => ("failed", json!(why)),
                (_, Cell::No(reason)) => ("does not apply", json!(reason)),
                _ => ("", json!(null)),
            };
            json!({"case": case, "outcome": outcome, "by": more})
        });
        json!({
            "connectors": row.connectors,
            "server": servers[row.server],
            "cells": cells.collect::<Vec<_>>(),
        })
    });
    json!({"version": 1, "rows": rows.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    /// All Rust text of a crate.
    fn text_of(crate_folder: &Path) -> String {
        let mut text = String::new();
        let mut folders: Vec<PathBuf> = vec![crate_folder.join("src"), crate_folder.join("tests")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    text.push_str(&fs::read_to_string(path).unwrap());
                }
            }
        }
        text
    }

    #[test]
    fn every_connector_that_runs_has_a_row_and_every_test_is_there() {
        assert_eq!(without_row(true), Vec::<String>::new());
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        for test in ROWS.iter().flat_map(Row::tests) {
            let (package, _) = test.split_once("::").unwrap();
            let (_, name) = test.rsplit_once("::").unwrap();
            let text = texts
                .entry(package)
                .or_insert_with(|| text_of(&crates.join(package)));
            assert!(text.contains(&format!("fn {name}(")), "{test}");
        }
    }
}
