//! `cargo xtask compat`: writes the table of features in `COMPAT.md` from the text tests.
//!
//! A text test says by `covers: 125, 534` which features it shows, a test in Rust by a comment of
//! these words above it. `tests/features.txt` holds the number of the last feature, our words for
//! those that want other words than the name of their first test, and those that are not there,
//! with the reason. So the table cannot say more than the tests do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use testkit::run::files;
use testkit::script::parse;

const PAGE: &str = "COMPAT.md";
const WORDS: &str = "tests/features.txt";

/// What stands between these lines is made here.
const BEGIN: &str =
    "<!-- features: made by `cargo xtask compat` from the text tests; do not edit -->";
const END: &str = "<!-- end of the features -->";

/// What shows one feature.
#[derive(Default)]
struct Shown {
    /// File and name of the first test.
    first: Option<(PathBuf, String)>,
    count: usize,
    differs: Vec<String>,
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let check = match args {
        [] => false,
        [arg] if arg == "--check" => true,
        _ => bail!("usage: cargo xtask compat [--check]"),
    };
    let list = List::read()?;
    let mut shown = shown(list.last)?;
    shown_in_rust(&list, &mut shown)?;
    if let Some((number, _)) = list.absent.iter().find(|(n, _)| shown.contains_key(n)) {
        bail!("{WORDS}: {number} is said not to be there, and a test shows it");
    }
    let made = table(&list, &shown);
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    let (before, rest) = page
        .split_once(BEGIN)
        .with_context(|| format!("{PAGE} has no line '{BEGIN}'"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{PAGE} has no line '{END}'"))?;
    let new = format!("{before}{BEGIN}\n{made}{END}{after}");
    let is_current = new == page;
    match check {
        true if !is_current => {
            println!("{PAGE} is not what the tests show: run cargo xtask compat")
        }
        true => {}
        false => fs::write(PAGE, new)?,
    }
    println!(
        "{} of {} features are shown by a test, {} are not there",
        shown.len(),
        list.last,
        list.absent.len()
    );
    Ok(is_current || !check)
}

/// What `tests/features.txt` says.
struct List {
    /// Number of the last feature.
    last: u32,
    words: BTreeMap<u32, String>,
    /// Name of what is not there, and why.
    absent: BTreeMap<u32, (String, String)>,
}

impl List {
    fn read() -> anyhow::Result<List> {
        let text = fs::read_to_string(WORDS).context(WORDS)?;
        let mut list = List {
            last: 0,
            words: BTreeMap::new(),
            absent: BTreeMap::new(),
        };
        for line in text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        {
            list.add(line)
                .with_context(|| format!("{WORDS}: '{line}'"))?;
        }
        Ok(list)
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        let is_new = match fields[..] {
            ["last", number] => {
                self.last = number.parse()?;
                true
            }
            ["absent", number, name, why] => {
                let both = (name.to_owned(), why.to_owned());
                self.absent.insert(number.parse()?, both).is_none()
            }
            [number, words] => {
                let words = words.to_owned();
                self.words.insert(number.parse()?, words).is_none()
            }
            _ => bail!("wants 'number, words' or 'absent, number, name, why', tabs in between"),
        };
        ensure!(is_new, "the number stands here twice");
        Ok(())
    }
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
            let name = lines
                .by_ref()
                .take(3)
                .find_map(test_name)
                .with_context(|| format!("{}: '{line}' is above no test", file.display()))?;
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
                shown
                    .first
                    .get_or_insert_with(|| (file.clone(), name.clone()));
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

/// The words that the name of a test function stands for.
fn test_name(line: &str) -> Option<String> {
    let line = line.trim();
    let rest = line.strip_prefix("async ").unwrap_or(line);
    let (name, _) = rest.strip_prefix("fn ")?.split_once('(')?;
    Some(name.replace('_', " "))
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
                shown
                    .first
                    .get_or_insert_with(|| (file.clone(), script.name.clone()));
                shown.differs.extend(script.about.differs.clone());
            }
        }
    }
    Ok(all)
}

fn table(list: &List, shown: &BTreeMap<u32, Shown>) -> String {
    let mut out = String::from("\n| # | Feature | As in Siddhi | Shown by |\n|---|---|---|---|\n");
    for (number, shown) in shown {
        let Some((file, name)) = &shown.first else {
            continue;
        };
        let words = list.words.get(number).unwrap_or(name).replace('|', "\\|");
        let differs = match shown.differs.first() {
            None => "yes".to_owned(),
            Some(why) => format!("but for: {why}"),
        };
        let tests = match shown.count {
            1 => link(file),
            count => format!("{}, {count} cases", link(file)),
        };
        line(
            &mut out,
            format_args!("| {number} | {words} | {differs} | {tests} |"),
        );
    }
    if !list.absent.is_empty() {
        line(
            &mut out,
            format_args!("\nNot there:\n\n| # | Feature | Why |\n|---|---|---|"),
        );
    }
    for (number, (name, why)) in &list.absent {
        line(&mut out, format_args!("| {number} | {name} | {why} |"));
    }
    let is_told = |n: &u32| shown.contains_key(n) || list.absent.contains_key(n);
    let missing: Vec<u32> = (1..=list.last).filter(|n| !is_told(n)).collect();
    if !missing.is_empty() {
        let missing = ranges(&missing);
        line(
            &mut out,
            format_args!("\nWithout a test of their own: {missing}."),
        );
    }
    out.push('\n');
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string cannot fail");
}

fn link(file: &Path) -> String {
    let path = file.to_string_lossy().replace('\\', "/");
    format!(
        "[{}]({path})",
        path.trim_start_matches("tests/").trim_end_matches(".test")
    )
}

/// `1-3, 7`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, to)) if *to + 1 == number => *to = number,
            _ => parts.push((number, number)),
        }
    }
    let text = |(from, to): &(u32, u32)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_together() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        assert_eq!(ranges(&[]), "");
    }
}
