//! `cargo xtask connectors`: what each connector was seen to do, case by case.
//!
//! The tests say which cells they show, and their files why a case is none ([`scan`]). The command runs
//! those tests, against the real servers, and prints what came of each cell with the server's name and
//! version; `--list` prints the cells and their tests alone. A connector that runs and has no row, a cell
//! without a test or a reason, and a server that cannot be had are failures.

pub(crate) mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use plan::spec::{ConnectorKind, Status};
use serde_json::json;

use crate::cargo;
use scan::{Cell, Row};

/// What every connector is asked for.
pub const CASES: [&str; 10] = [
    "open, close",
    "order",
    "resume",
    "lost peer",
    "slow peer",
    "bad payload",
    "reload",
    "TLS",
    "authentication",
    "on.error",
];

/// As comments of tests call them.
pub const CASE_IDS: [&str; CASES.len()] = [
    "open", "order", "resume", "lost", "slow", "bad", "reload", "tls", "login", "error",
];

/// What came of a cell.
#[derive(Clone, PartialEq, Eq)]
enum Verdict {
    Passed(usize),
    DoesNotApply,
    Failed(String),
}

/// `[NAME] [--json] [--list]`: the rows whose connectors have the text in their names.
pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let is_json = args.iter().any(|arg| arg == "--json");
    let wanted = args.iter().find(|arg| !arg.starts_with("--"));
    let all = scan::rows(Path::new("crates"))?;
    let rows: Vec<&Row> = all
        .iter()
        .filter(|row| wanted.is_none_or(|name| row.connectors.iter().any(|c| c.contains(name))))
        .collect();
    anyhow::ensure!(
        !rows.is_empty(),
        "no row has '{}'",
        wanted.map_or("", |w| w)
    );
    if args.iter().any(|arg| arg == "--list") {
        print_cells(&rows);
        return Ok(true);
    }
    let tests: BTreeSet<&str> = rows.iter().flat_map(|row| row.tests()).collect();
    let outcomes = run_tests(&tests)?;
    let mut servers: BTreeMap<&str, String> = BTreeMap::new();
    for row in &rows {
        servers
            .entry(&row.server)
            .or_insert_with(|| version(&row.server));
    }
    let mut failed = match wanted {
        None => without_row(&all),
        Some(_) => Vec::new(),
    };
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
fn without_row(rows: &[Row]) -> Vec<String> {
    let transports = [
        ConnectorKind::Source,
        ConnectorKind::Sink,
        ConnectorKind::Store,
    ];
    let running: BTreeSet<String> = catalog::connector_specs()
        .filter(|spec| spec.status == Status::Runs && transports.contains(&spec.kind))
        .map(|spec| format!("{} {}", spec.kind.name(), spec.name))
        .collect();
    let named = rows.iter().flat_map(|row| &row.connectors);
    let named: BTreeSet<String> = named.cloned().collect();
    let missing = running
        .difference(&named)
        .map(|n| format!("{n}: it runs and has no row"));
    let gone = named
        .difference(&running)
        .map(|n| format!("{n}: it has a row and does not run"));
    missing.chain(gone).collect()
}

/// Which tests passed, by their paths.
pub(crate) fn run_tests(tests: &BTreeSet<&str>) -> anyhow::Result<BTreeMap<String, bool>> {
    let programs = programs(&packages(tests))?;
    let mut by_program: BTreeMap<usize, Vec<(&str, String)>> = BTreeMap::new();
    for test in tests {
        // What is nowhere is told as the verdict of its cells.
        if let Some((at, name)) = programs
            .iter()
            .enumerate()
            .find_map(|(at, program)| Some((at, program.name_of(test)?)))
        {
            by_program.entry(at).or_default().push((test, name));
        }
    }
    let mut outcomes = BTreeMap::new();
    for (at, tests) in by_program {
        outcomes.extend(programs[at].run(&tests)?);
    }
    Ok(outcomes)
}

/// A program of tests of a crate.
struct Program {
    /// Folder of its crate below `crates`.
    package: String,
    /// `None`: the unit tests of the library.
    target: Option<String>,
    path: PathBuf,
    tests: BTreeSet<String>,
}

impl Program {
    /// What it calls a test that is named by crate and module. The name of a program that is one file
    /// of tests is part of that.
    fn name_of(&self, test: &str) -> Option<String> {
        let name = test
            .strip_prefix(self.package.as_str())?
            .strip_prefix("::")?;
        let short = self
            .target
            .as_ref()
            .and_then(|target| name.strip_prefix(target.as_str())?.strip_prefix("::"));
        let names = [Some(name), short].into_iter().flatten();
        let mut known = names.filter(|name| self.tests.contains(*name));
        known.next().map(str::to_owned)
    }

    /// Runs tests, named by crate and as it calls them.
    fn run(&self, tests: &[(&str, String)]) -> anyhow::Result<Vec<(String, bool)>> {
        let output = Command::new(&self.path)
            .current_dir(Path::new("crates").join(&self.package))
            .args(["--exact", "--test-threads", "2", "--format", "pretty"])
            .args(tests.iter().map(|(_, name)| name))
            .env("HEADWATER_SERVERS", "required")
            .output()
            .with_context(|| format!("cannot start {}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let said = text.lines().filter_map(|line| line.strip_prefix("test "));
        let said: BTreeMap<&str, bool> = said
            .filter_map(|line| line.split_once(" ... "))
            .map(|(name, outcome)| (name, outcome.starts_with("ok")))
            .collect();
        eprintln!("{self}: {} of {} tests ran", said.len(), tests.len());
        if said.is_empty() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
        // What those said that failed.
        if let Some((_, failures)) = text.split_once("\nfailures:\n") {
            eprintln!("{failures}");
        }
        let outcome = |(test, name): &(&str, String)| {
            let passed = said.get(name.as_str())?;
            Some(((*test).to_owned(), *passed))
        };
        Ok(tests.iter().filter_map(outcome).collect())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target.as_deref().unwrap_or("unit tests");
        write!(f, "{} ({target})", self.package)
    }
}

/// The crates of tests.
fn packages<'a>(tests: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    tests
        .iter()
        .filter_map(|test| test.split("::").next())
        .collect()
}

/// The programs of all tests of these crates. The whole workspace is built, so that what the test command
/// has built is taken as it is: a crate alone would be built anew, with fewer features of its dependencies.
fn programs(packages: &BTreeSet<&str>) -> anyhow::Result<Vec<Program>> {
    let built = cargo::build(&["test", "--workspace", "--quiet", "--no-run"])?;
    let mut programs = Vec::new();
    for message in &built {
        let of = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let (Some(manifest), Some(path)) =
            (of(&message["manifest_path"]), of(&message["executable"]))
        else {
            continue;
        };
        let target = match message["target"]["kind"][0].as_str() {
            Some("test") => of(&message["target"]["name"]),
            Some("lib") => None,
            _ => continue,
        };
        let folder = Path::new(&manifest).parent().and_then(Path::file_name);
        let package = folder.map(|name| name.to_string_lossy().into_owned());
        let Some(package) = package.filter(|name| packages.contains(name.as_str())) else {
            continue;
        };
        let output = Command::new(&path)
            .args(["--list", "--format", "terse"])
            .output()
            .with_context(|| format!("cannot start {path}"))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        programs.push(Program {
            package,
            target,
            tests: names.map(str::to_owned).collect(),
            path: path.into(),
        });
    }
    Ok(programs)
}

fn judge(cell: &Cell, outcomes: &BTreeMap<String, bool>) -> Verdict {
    if cell.none.is_some() {
        return Verdict::DoesNotApply;
    }
    let bad = cell.tests.iter().find_map(|test| match outcomes.get(test) {
        Some(true) => None,
        Some(false) => Some(format!("{test} failed")),
        None => Some(format!("there is no test {test}")),
    });
    bad.map_or(Verdict::Passed(cell.tests.len()), Verdict::Failed)
}

/// What the server calls itself, with its version; what stands in its place, with its own.
fn version(server: &str) -> String {
    if let Some(recipe) = testservers::SERVERS.iter().find(|s| s.name() == server) {
        return testservers::install(*recipe)
            .unwrap_or_else(|error| format!("no {server}: {error}"));
    }
    // That of the system, for which its packages bring modules.
    const PYTHON: &str = "/usr/bin/python3";
    let module = |name: &str| {
        let script = format!("import {name}; print({name}.__version__)");
        testservers::version_line(PYTHON, &["-c", &script])
    };
    let second_word = |line: String| line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut text = server.to_owned();
    for peer in ["curl", "grpcio", "python", "sqlite", "websockets"] {
        let place = format!("{{{peer}}}");
        if !text.contains(&place) {
            continue;
        }
        let version = match peer {
            "curl" => testservers::version_line("curl", &["--version"]).map(second_word),
            "grpcio" => module("grpc"),
            "python" => testservers::version_line(PYTHON, &["--version"]).map(second_word),
            "sqlite" => Ok(rusqlite::version().to_owned()),
            module_name => module(module_name),
        };
        let version = version.unwrap_or_else(|error| format!("({error})"));
        text = text.replace(&place, &version);
    }
    text
}

/// Each cell on a line, with its tests.
fn print_cells(rows: &[&Row]) {
    for row in rows {
        for (cell, case) in row.cells.iter().zip(CASES) {
            let tests = cell.tests.join(" ");
            let content = match &cell.none {
                Some(why) => format!("n/a: {why}"),
                None => tests,
            };
            println!("{} | {} | {case} | {content}", row.name(), row.server);
        }
    }
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
            servers[row.server.as_str()]
        );
    }
    println!();
    for (row, _) in lines {
        for (cell, case) in row.cells.iter().zip(CASES) {
            if let Some(reason) = &cell.none {
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
            let (outcome, more) = match verdict {
                Verdict::Passed(_) => ("passed", json!(cell.tests)),
                Verdict::Failed(why) => ("failed", json!(why)),
                Verdict::DoesNotApply => ("does not apply", json!(cell.none)),
            };
            json!({"case": case, "outcome": outcome, "by": more})
        });
        json!({
            "connectors": row.connectors,
            "server": servers[row.server.as_str()],
            "cells": cells.collect::<Vec<_>>(),
        })
    });
    json!({"version": 1, "rows": rows.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connector_that_runs_has_a_row_and_every_cell_a_test_or_a_reason() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let rows = scan::rows(&crates).unwrap();
        assert_eq!(without_row(&rows), Vec::<String>::new());
    }

    #[test]
    fn a_test_is_found_in_the_program_that_has_it() {
        let program = |target: Option<&str>, test: &str| Program {
            package: "connect".to_owned(),
            target: target.map(str::to_owned),
            path: PathBuf::new(),
            tests: BTreeSet::from([test.to_owned()]),
        };
        let unit = program(None, "file::tests::opens");
        assert_eq!(
            unit.name_of("connect::file::tests::opens").as_deref(),
            Some("file::tests::opens")
        );
        assert_eq!(unit.name_of("connect::file::tests::closes"), None);
        let own = program(Some("rdbms"), "values");
        assert_eq!(
            own.name_of("connect::rdbms::values").as_deref(),
            Some("values")
        );
        let it = program(Some("it"), "rdbms::values");
        assert_eq!(
            it.name_of("connect::rdbms::values").as_deref(),
            Some("rdbms::values")
        );
    }
}
