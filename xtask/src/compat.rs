//! `cargo xtask compat`: writes the table of features in `COMPAT.md` from the text tests.
//!
//! A test says by `covers: 125, 534` which features it shows. `tests/features.txt` holds the number
//! of the last feature and our words for those that want other words than the name of their first
//! test. So the table cannot say more than the tests do.

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
    let (last, words) = words()?;
    let shown = shown(last)?;
    let made = table(last, &words, &shown);
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
    println!("{} of {last} features are shown by a test", shown.len());
    Ok(is_current || !check)
}

/// Number of the last feature, and words by number.
fn words() -> anyhow::Result<(u32, BTreeMap<u32, String>)> {
    let text = fs::read_to_string(WORDS).context(WORDS)?;
    let (mut last, mut words) = (0, BTreeMap::new());
    for line in text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
    {
        let (number, rest) = line
            .split_once('\t')
            .with_context(|| format!("{WORDS}: no tab in '{line}'"))?;
        if number == "last" {
            last = rest.parse()?;
            continue;
        }
        let number: u32 = number
            .parse()
            .with_context(|| format!("{WORDS}: '{line}'"))?;
        ensure!(
            words.insert(number, rest.to_owned()).is_none(),
            "{WORDS}: {number} twice"
        );
    }
    Ok((last, words))
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

fn table(last: u32, words: &BTreeMap<u32, String>, shown: &BTreeMap<u32, Shown>) -> String {
    let mut out = String::from("\n| # | Feature | As in Siddhi | Shown by |\n|---|---|---|---|\n");
    for (number, shown) in shown {
        let Some((file, name)) = &shown.first else {
            continue;
        };
        let words = words.get(number).unwrap_or(name).replace('|', "\\|");
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
    let missing: Vec<u32> = (1..=last).filter(|n| !shown.contains_key(n)).collect();
    line(
        &mut out,
        format_args!(
            "\nWithout a text test of their own: {}.\n",
            ranges(&missing)
        ),
    );
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
