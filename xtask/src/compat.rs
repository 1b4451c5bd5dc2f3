//! `cargo xtask compat`: writes `docs/reference/features.md` from the tests, and checks the numbers
//! in `COMPAT.md`.
//!
//! A text test names the features that it shows (`covers: 125, 534`), a test in Rust does so in a
//! comment above it. `tests/features.txt` names all features, in sections, and gives a reason for
//! each one that is not implemented. So the page cannot claim more than the tests show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use testkit::run::files;
use testkit::script::parse;

/// The page that is written.
const PAGE: &str = "docs/reference/features.md";
/// The names of all features.
const NAMES: &str = "tests/features.txt";
/// The page of deliberate differences, written by hand.
const DIFFERENCES: &str = "COMPAT.md";

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask compat` from the tests; do not edit. -->

# Features and the tests that show them

A feature counts as supported when a text test under `tests/` or a test in Rust names its number (`covers: 125`).
The expectations of text tests are what Siddhi 5.1 gives (`cargo xtask goldens` asks it), unless the row names a
difference; [COMPAT.md](../../COMPAT.md) explains each. The reference runner lacks a few extensions: json, unique, env,
unitconversion and the newer functions of str, map, list and time. Their tests, and those in Rust, follow the
documentation and the recorded cases.
";

/// What shows one feature.
#[derive(Default)]
struct Shown {
    /// File of the first test.
    first: Option<PathBuf>,
    count: usize,
    differs: Vec<String>,
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let check = match args {
        [] => false,
        [arg] if arg == "--check" => true,
        _ => bail!("usage: cargo xtask compat [--check]"),
    };
    let list = List::parse(&fs::read_to_string(NAMES).context(NAMES)?)?;
    let mut shown = shown(list.last)?;
    shown_in_rust(&list, &mut shown)?;
    let differences = fs::read_to_string(DIFFERENCES).context(DIFFERENCES)?;
    check_differences(&differences).context(DIFFERENCES)?;
    let new = page(&list, &shown)?;
    let is_current = fs::read_to_string(PAGE).is_ok_and(|old| old == new);
    if !check {
        fs::write(PAGE, new).context(PAGE)?;
    } else if !is_current {
        println!("{PAGE} is out of date: run cargo xtask compat");
    }
    let absent = list.features().filter(|f| f.absent.is_some()).count();
    println!(
        "{} of {} features are shown by a test, {absent} are not implemented",
        shown.len(),
        list.last
    );
    Ok(is_current || !check)
}

/// The contents of `tests/features.txt`.
struct List {
    /// Number of the last feature.
    last: u32,
    sections: Vec<Section>,
}

struct Section {
    title: String,
    features: Vec<Feature>,
}

struct Feature {
    number: u32,
    name: String,
    /// Why it is not implemented.
    absent: Option<String>,
}

impl List {
    fn parse(text: &str) -> anyhow::Result<List> {
        let mut list = List {
            last: 0,
            sections: Vec::new(),
        };
        for line in text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        {
            list.add(line)
                .with_context(|| format!("{NAMES}: '{line}'"))?;
        }
        Ok(list)
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        let feature = match fields[..] {
            ["section", title] => {
                self.sections.push(Section {
                    title: title.to_owned(),
                    features: Vec::new(),
                });
                return Ok(());
            }
            ["absent", number, name, why] => Feature {
                number: number.parse()?,
                name: name.to_owned(),
                absent: Some(why.to_owned()),
            },
            [number, name] => Feature {
                number: number.parse()?,
                name: name.to_owned(),
                absent: None,
            },
            _ => bail!(
                "expected 'section, title', 'number, name' or 'absent, number, name, reason', separated by tabs"
            ),
        };
        ensure!(
            feature.number == self.last + 1,
            "expected number {}: the numbers have no gaps",
            self.last + 1
        );
        self.last = feature.number;
        let section = self.sections.last_mut().context("no section before it")?;
        ensure!(
            section.features.iter().all(|f| f.name != feature.name),
            "section '{}' already has a feature of this name",
            section.title
        );
        section.features.push(feature);
        Ok(())
    }

    fn features(&self) -> impl Iterator<Item = &Feature> {
        self.sections.iter().flat_map(|s| &s.features)
    }
}

/// Checks the rows of the tables of differences: a ruling has one row, and no row is one of the
/// table of features, which once got in by a hand edit and stayed because nothing read this part.
fn check_differences(text: &str) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = line.strip_prefix("| ").and_then(|l| l.strip_suffix(" |")) else {
            continue;
        };
        let at = index + 1;
        ensure!(
            !cells.contains("](tests/"),
            "line {at}: a row of features, which belong in {PAGE}"
        );
        let ruling = cells.split(" | ").next().unwrap_or_default();
        let numbers = ruling.split(" (").next().unwrap_or_default();
        for number in numbers.split(", ") {
            if let Ok(number) = number.parse::<u32>() {
                ensure!(
                    seen.insert(number),
                    "line {at}: ruling {number} has two rows"
                );
                ensure!(
                    ruling.contains(" ("),
                    "line {at}: ruling {number} has no words: write '{number} (what it is about)'"
                );
            }
        }
    }
    Ok(())
}

/// Adds the tests in Rust: a comment `covers: 604, 605` above the test.
fn shown_in_rust(list: &List, all: &mut BTreeMap<u32, Shown>) -> anyhow::Result<()> {
    const MARK: &str = "// covers:";
    let mut files = Vec::new();
    rust_files(Path::new("crates"), &mut files)?;
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(numbers) = line.trim().strip_prefix(MARK) else {
                continue;
            };
            ensure!(
                lines.by_ref().take(3).any(is_function),
                "{}: '{line}' is not above a test",
                file.display()
            );
            for number in numbers.split(',').map(str::trim) {
                let number: u32 = number
                    .parse()
                    .with_context(|| format!("{}: '{line}'", file.display()))?;
                ensure!(
                    (1..=list.last).contains(&number),
                    "{}: there is no feature {number}",
                    file.display()
                );
                let shown = all.entry(number).or_default();
                shown.count += 1;
                shown.first.get_or_insert_with(|| file.clone());
            }
        }
    }
    Ok(())
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a function begins in this line.
fn is_function(line: &str) -> bool {
    let line = line.trim();
    let rest = line.strip_prefix("async ").unwrap_or(line);
    rest.starts_with("fn ")
}

fn shown(last: u32) -> anyhow::Result<BTreeMap<u32, Shown>> {
    let mut all: BTreeMap<u32, Shown> = BTreeMap::new();
    for file in files(&["tests".into()])? {
        let text = fs::read_to_string(&file)?;
        let name = file
            .file_stem()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        for script in parse(&text, &name).with_context(|| file.display().to_string())? {
            for number in script.about.covers {
                ensure!(
                    (1..=last).contains(&number),
                    "{}:{}: there is no feature {number}: the last is {last}",
                    file.display(),
                    script.line
                );
                let shown = all.entry(number).or_default();
                shown.count += 1;
                shown.first.get_or_insert_with(|| file.clone());
                shown.differs.extend(script.about.differs.clone());
            }
        }
    }
    Ok(all)
}

fn page(list: &List, all: &BTreeMap<u32, Shown>) -> anyhow::Result<String> {
    let mut out = INTRODUCTION.to_owned();
    for section in &list.sections {
        write!(
            out,
            "\n## {}\n\n| # | Feature | As in Siddhi | Shown by |\n|---|---|---|---|\n",
            section.title
        )?;
        for feature in &section.features {
            let (status, tests) = row(feature, all.get(&feature.number))?;
            let name = feature.name.replace('|', "\\|");
            writeln!(out, "| {} | {name} | {status} | {tests} |", feature.number)?;
        }
    }
    Ok(out)
}

/// Whether a feature is as in Siddhi, and the tests that show it.
fn row(feature: &Feature, shown: Option<&Shown>) -> anyhow::Result<(String, String)> {
    let shown = match (&feature.absent, shown) {
        (Some(_), Some(_)) => bail!(
            "{NAMES}: feature {} is listed as absent, and a test shows it",
            feature.number
        ),
        (Some(why), None) => return Ok((format!("not implemented: {why}"), String::new())),
        (None, None) => return Ok(("not shown by a test".to_owned(), String::new())),
        (None, Some(shown)) => shown,
    };
    let status = match shown.differs.first() {
        None => "yes".to_owned(),
        Some(why) => {
            let is_numbered = why.starts_with(|c: char| c.is_ascii_digit());
            let ruling = if is_numbered { "ruling " } else { "" };
            format!("except: {ruling}{}", why.replace('|', "\\|"))
        }
    };
    let first = shown.first.as_deref().map_or_else(String::new, link);
    Ok(match shown.count {
        1 => (status, first),
        count => (status, format!("{first}, {count} cases")),
    })
}

fn link(file: &Path) -> String {
    let path = file.to_string_lossy().replace('\\', "/");
    format!(
        "[{}](../../{path})",
        path.trim_start_matches("tests/").trim_end_matches(".test")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_numbers_without_gaps_and_distinct_names() {
        let list = List::parse("section\tTypes\n1\t`int`\nabsent\t2\t`blob`\tnot in Siddhi\n");
        assert_eq!(list.map(|l| l.last).ok(), Some(2));
        for wrong in [
            "1\t`int`",
            "section\tTypes\n2\t`int`",
            "section\tTypes\n1\t`int`\n2\t`int`",
            "section\tTypes\n1 `int`",
        ] {
            assert!(List::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_tables_of_differences_hold_each_ruling_once_and_no_features() {
        let good = "| 23, 25 (batches) | a | b | c | no |\n| 74 (`set`) | a | b | c | no |\n| | a | b | c | no |";
        assert!(check_differences(good).is_ok());
        for wrong in [
            "| 74 (`set`) | a | b | c | no |\n| 74 (`set`) | a | b | c | no |",
            "| 74 | a | b | c | no |",
            "| 74 (a filter) | yes | [query/clauses](tests/query/clauses.test) |",
        ] {
            assert!(check_differences(wrong).is_err(), "{wrong}");
        }
    }
}
