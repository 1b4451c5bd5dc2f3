//! The page of faults: what shows each of its rows, and what came of it when it was last run.
//!
//! `cargo xtask faults R06` runs what row R06 names: cases and pairs here, tests by cargo. With `--record` what
//! came of a case or pair is written to [`RECORDS`], and the last two columns of the page are made from that
//! file; tests pass at each commit, or `./test` does not. Never: a result that was typed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::cargo::cargo;

/// Package and folder of this program, whose tests are named as well.
const XTASK: &str = "xtask";

const PAGE: &str = "docs/internals/faults.md";
const RECORDS: &str = "docs/internals/faults.tsv";
/// In front of the table of pairs, which is made as a whole.
const PAIRS_BEGIN: &str = "<!-- made by cargo xtask faults --record -->\n";
/// Cells of a row that are written by hand: ID, fault, what shows it, what is not shown.
const CELLS_OWN: usize = 4;
/// What stands for all pairs in a cell.
const EACH_PAIR: &str = "each pair of ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Something that a row names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    Case(String),
    EachPair,
    /// A part of `cargo xtask long`: it takes hours, so a row does not run it.
    Long(String),
    Test {
        /// Arguments of `cargo test`.
        target: Vec<String>,
        filter: String,
    },
}

#[derive(Debug)]
pub struct Row {
    pub id: String,
    pub parts: Vec<Part>,
}

impl Row {
    /// Parts that `cargo xtask faults ID` runs.
    pub fn run_here(&self) -> impl Iterator<Item = &Part> {
        let is_here = |part: &&Part| !matches!(part, Part::Long(_));
        self.parts.iter().filter(is_here)
    }
}

/// What came of a case or pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub is_passed: bool,
    pub date: String,
    pub commit: String,
    pub machine: String,
    pub seconds: u64,
    pub figures: String,
}

pub type Records = BTreeMap<String, Record>;

/// Cells of a line of the table, where it is a row with an ID.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix("| ")?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let id = cells.first()?;
    (is_id(&id.to_lowercase()) && id.len() > 1 && cells.len() >= CELLS_OWN).then_some(cells)
}

/// `r06`, or `r` for all of them.
pub fn is_id(name: &str) -> bool {
    name.strip_prefix(['r', 's'])
        .is_some_and(|number| number.len() <= 2 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The rows of the page.
///
/// # Errors
/// If the page cannot be read, or names a test that is nowhere.
pub fn rows() -> anyhow::Result<Vec<Row>> {
    let page = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let mut sources = Vec::new();
    for folder in ["crates", XTASK] {
        read_sources(&root().join(folder), &mut sources)?;
    }
    let rows = page.lines().filter_map(cells).map(|cells| {
        let parts = parts(cells[2], &sources).with_context(|| format!("row {}", cells[0]))?;
        Ok(Row {
            id: cells[0].to_owned(),
            parts,
        })
    });
    rows.collect()
}

fn read_sources(folder: &Path, sources: &mut Vec<(PathBuf, String)>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(&path, sources)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path)?;
            sources.push((path, text));
        }
    }
    Ok(())
}

fn parts(cell: &str, sources: &[(PathBuf, String)]) -> anyhow::Result<Vec<Part>> {
    let mut parts = Vec::new();
    if cell.contains(EACH_PAIR) {
        parts.push(Part::EachPair);
    }
    for quoted in cell.split('`').skip(1).step_by(2) {
        if let Some(case) = quoted.strip_prefix("faults ") {
            parts.push(Part::Case(case.to_owned()));
        } else if let Some(part) = quoted.strip_prefix("long ") {
            parts.push(Part::Long(part.to_owned()));
        } else if quoted.contains("::") || quoted.matches('_').count() > 3 {
            parts.push(test(quoted, sources)?);
        }
    }
    Ok(parts)
}

/// A test: by its path in the program `it`, or by its function's name anywhere.
fn test(name: &str, sources: &[(PathBuf, String)]) -> anyhow::Result<Part> {
    let function = name.rsplit("::").next().unwrap_or(name);
    let heads = [format!("fn {function}("), format!("fn {function}<")];
    let is_there = |text: &str| heads.iter().any(|head| text.contains(head.as_str()));
    let found = sources.iter().find(|(_, text)| is_there(text));
    let (path, _) = found.with_context(|| format!("there is no test '{name}'"))?;
    let filter = name.strip_prefix("it::").unwrap_or(name).to_owned();
    let Ok(path) = path.strip_prefix(root().join("crates")) else {
        let target = [XTASK, "--bin", XTASK].map(str::to_owned).to_vec();
        return Ok(Part::Test { target, filter });
    };
    let mut folders = path.iter().map(|part| part.to_string_lossy().into_owned());
    let (folder, below, third) = (folders.next(), folders.next(), folders.next());
    let folder = folder.unwrap_or_default();
    let target = match (below.as_deref(), folder.as_str()) {
        _ if name.contains("::") => ["headwater", "--test", "it"].map(str::to_owned).to_vec(),
        (Some("tests"), _) => {
            let program = third.unwrap_or_default();
            let program = program.trim_end_matches(".rs").to_owned();
            vec![package(&folder), "--test".to_owned(), program]
        }
        (_, "headwater") => ["headwater", "--bin", "headwater"]
            .map(str::to_owned)
            .to_vec(),
        _ => vec![package(&folder), "--lib".to_owned()],
    };
    Ok(Part::Test { target, filter })
}

fn package(folder: &str) -> String {
    match folder {
        "headwater" => "headwater".to_owned(),
        folder => format!("headwater-{folder}"),
    }
}

/// Runs the tests of a row; how many of its names passed.
///
/// # Errors
/// If cargo cannot be started.
pub fn run_tests(row: &Row) -> anyhow::Result<usize> {
    let mut programs: BTreeMap<&[String], Vec<&str>> = BTreeMap::new();
    for part in &row.parts {
        if let Part::Test { target, filter } = part {
            programs.entry(target).or_default().push(filter);
        }
    }
    let mut passed = 0;
    for (target, filters) in programs {
        let target = target.iter().map(String::as_str);
        let args = ["test", "--quiet", "--package"].into_iter().chain(target);
        let args: Vec<&str> = args.chain(["--"]).chain(filters.iter().copied()).collect();
        let output = cargo(&args).output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = text.lines().filter_map(|line| {
            let count = line.strip_prefix("test result: ok. ")?;
            count.split(' ').next()?.parse::<usize>().ok()
        });
        // One name may be a part of others.
        let is_passed = output.status.success() && count.sum::<usize>() >= filters.len();
        let said = if is_passed { "passed" } else { "FAILED" };
        println!("{said}  cargo {}", args.join(" "));
        match is_passed {
            true => passed += filters.len(),
            false => println!("{text}{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    Ok(passed)
}

// ---- what came of it ----

fn said_by(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(args).output();
    let output = output.with_context(|| format!("cannot start '{program}'"))?;
    ensure!(
        output.status.success(),
        "'{program} {}' failed",
        args.join(" ")
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn machine() -> anyhow::Result<String> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kilobytes = memory
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok());
    Ok(format!(
        "{} cores, {} GB, {}",
        std::thread::available_parallelism()?,
        kilobytes.context("no size of memory")? >> 20,
        said_by("uname", &["-sm"])?
    ))
}

impl Record {
    /// Of this moment, commit and machine.
    ///
    /// # Errors
    /// If git, the system's clock or its memory cannot be asked.
    pub fn now(is_passed: bool, took: Duration, figures: &str) -> anyhow::Result<Record> {
        let is_changed = !said_by("git", &["status", "--porcelain", "--", "crates"])?.is_empty();
        let commit = said_by("git", &["rev-parse", "--short", "HEAD"])?;
        Ok(Record {
            is_passed,
            date: said_by("date", &["-u", "+%F"])?,
            commit: commit + if is_changed { " and changes" } else { "" },
            machine: machine()?,
            seconds: took.as_secs(),
            figures: figures.to_owned(),
        })
    }

    fn outcome(&self) -> &'static str {
        match self.is_passed {
            true => "passed",
            false => "FAILED",
        }
    }

    fn line(&self, name: &str) -> String {
        let (outcome, seconds) = (self.outcome(), self.seconds.to_string());
        let fields = [
            name,
            outcome,
            &self.date,
            &self.commit,
            &self.machine,
            &seconds,
            &self.figures,
        ];
        fields.join("\t") + "\n"
    }

    fn parse(line: &str) -> Option<(String, Record)> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, outcome, date, commit, machine, seconds, figures] = fields[..] else {
            return None;
        };
        let record = Record {
            is_passed: outcome == "passed",
            date: date.to_owned(),
            commit: commit.to_owned(),
            machine: machine.to_owned(),
            seconds: seconds.parse().ok()?,
            figures: figures.to_owned(),
        };
        Some((name.to_owned(), record))
    }

    fn cell(&self) -> String {
        let figures = match self.figures.as_str() {
            "" => String::new(),
            figures => format!(", {figures}"),
        };
        let (outcome, date, commit) = (self.outcome(), &self.date, &self.commit);
        format!("{outcome}{figures} ({date}, `{commit}`)")
    }
}

/// What was recorded, by name of the case or pair.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub fn records() -> anyhow::Result<Records> {
    let text = fs::read_to_string(root().join(RECORDS)).unwrap_or_default();
    let lines = text.lines().map(|line| {
        Record::parse(line).with_context(|| format!("{RECORDS}: not a record: {line}"))
    });
    lines.collect()
}

/// Adds records to those of before, and writes the page anew.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(new: Records, pairs: &[&str]) -> anyhow::Result<()> {
    let mut all = records()?;
    all.extend(new);
    let lines: String = all.iter().map(|(name, record)| record.line(name)).collect();
    fs::write(root().join(RECORDS), lines)?;
    let page = fs::read_to_string(root().join(PAGE))?;
    fs::write(
        root().join(PAGE),
        with_results(&page, &rows()?, &all, pairs),
    )?;
    Ok(())
}

/// The page with its last two columns, and its table of pairs, as they are recorded.
fn with_results(page: &str, rows: &[Row], records: &Records, pairs: &[&str]) -> String {
    let own = page.split(PAIRS_BEGIN).next().unwrap_or(page);
    let mut text = String::new();
    for line in own.lines() {
        let row = cells(line).and_then(|cells| {
            let row = rows.iter().find(|row| row.id == cells[0])?;
            Some((row, cells))
        });
        let Some((row, cells)) = row else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let own: Vec<&str> = cells[..CELLS_OWN].to_vec();
        let (command, result) = (row.command(), row.result(records, pairs));
        let all = [own.as_slice(), &[&command, &result]].concat().join(" | ");
        writeln!(text, "| {} |", all.replace("|  |", "| |")).ok();
    }
    text.push_str(PAIRS_BEGIN);
    text.push_str("\n| Pair | Command | Result |\n|---|---|---|\n");
    for pair in pairs {
        let result = cell(pair, records);
        writeln!(
            text,
            "| {pair} | `cargo xtask faults '{pair}' --long` | {result} |"
        )
        .ok();
    }
    text
}

/// What came of a case or pair.
fn cell(name: &str, records: &Records) -> String {
    records
        .get(name)
        .map_or_else(|| "not recorded".to_owned(), Record::cell)
}

impl Row {
    /// What runs the row.
    fn command(&self) -> String {
        let here = self.run_here().next();
        let here = here.map(|_| format!("`cargo xtask faults {}`", self.id));
        let longs = self.parts.iter().filter_map(|part| match part {
            Part::Long(name) => Some(format!("`cargo xtask long {name}`")),
            _ => None,
        });
        let all: Vec<String> = here.into_iter().chain(longs).collect();
        match all.is_empty() {
            true => "none".to_owned(),
            false => all.join(", "),
        }
    }

    fn result(&self, records: &Records, pairs: &[&str]) -> String {
        let is_test = |part: &&Part| matches!(part, Part::Test { .. });
        let tests = match self.parts.iter().filter(is_test).count() {
            0 => None,
            1 => Some("a test passes in `./test`".to_owned()),
            count => Some(format!("{count} tests pass in `./test`")),
        };
        let cases = self.parts.iter().filter_map(|part| match part {
            Part::Case(name) => Some(format!("*{name}*: {}", cell(name, records))),
            Part::EachPair => Some(of_pairs(records, pairs)),
            _ => None,
        });
        let all: Vec<String> = tests.into_iter().chain(cases).collect();
        match (all.is_empty(), self.parts.is_empty()) {
            (false, _) => all.join("; "),
            (true, true) => "excepted".to_owned(),
            (true, false) => "not recorded: it takes hours".to_owned(),
        }
    }
}

/// Of all pairs; their figures are a table of their own.
fn of_pairs(records: &Records, pairs: &[&str]) -> String {
    let known: Vec<&Record> = pairs.iter().filter_map(|pair| records.get(*pair)).collect();
    let passed = known.iter().filter(|record| record.is_passed).count();
    format!(
        "pairs: {passed} of {} passed that are recorded, {} are not",
        known.len(),
        pairs.len() - known.len()
    )
}

#[cfg(test)]
mod tests {
    use super::super::pairs::PAIRS;
    use super::*;

    #[test]
    fn the_page_has_a_result_for_each_row_and_says_what_is_recorded() {
        let page = fs::read_to_string(root().join(PAGE)).expect("it is there");
        let (rows, records) = (rows().expect("rows"), records().expect("records"));
        let pairs: Vec<&str> = PAIRS.iter().map(|pair| pair.name).collect();
        let made = with_results(&page, &rows, &records, &pairs);
        assert!(made == page, "run cargo xtask faults CASE --record");
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let all = (1..=36).map(|n| format!("R{n:02}"));
        let all: Vec<String> = all.chain((1..=26).map(|n| format!("S{n:02}"))).collect();
        assert_eq!(ids, all, "no row is missing, and they are in order");
        for row in &rows {
            let is_excepted = page.contains(&format!("| {} | ", row.id))
                && row.result(&records, &pairs) == "excepted";
            assert_eq!(row.parts.is_empty(), is_excepted, "{}", row.id);
            for part in &row.parts {
                if let Part::Case(name) = part {
                    let has_failed = records.get(name).is_some_and(|record| !record.is_passed);
                    assert!(!has_failed, "'{name}' has failed");
                }
            }
        }
    }

    #[test]
    fn a_record_comes_back_from_its_line() {
        let record = Record {
            is_passed: false,
            date: "2026-01-31".to_owned(),
            commit: "abc".to_owned(),
            machine: "2 cores".to_owned(),
            seconds: 7,
            figures: "lost 1, doubled 0".to_owned(),
        };
        let line = record.line("a -> b");
        let (name, back) = Record::parse(line.trim_end()).expect("a record");
        assert_eq!((name.as_str(), &back), ("a -> b", &record));
        assert_eq!(back.cell(), "FAILED, lost 1, doubled 0 (2026-01-31, `abc`)");
    }
}
