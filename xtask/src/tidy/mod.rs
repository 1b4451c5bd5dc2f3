//! `cargo xtask tidy [RULE…]`: the rules of the house that a program can check.
//!
//! One file a rule and one line in [`RULES`]. A rule reads the tracked files and what cargo knows
//! about the packages; it changes nothing, asks no network and runs in about a second. Every rule has
//! tests that hand it what it must refuse.

mod clocks;
mod code;
mod cycles;
mod directions;
mod licences;
pub mod metadata;
mod places;
mod sizes;
mod slices;
mod spelling;
mod words;

pub use self::licences::clarified;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

struct Rule {
    name: &'static str,
    /// What holds where the rule finds nothing.
    about: &'static str,
    check: fn(&Tree) -> anyhow::Result<Findings>,
}

/// Sorted by name.
const RULES: &[Rule] = &[
    clocks::RULE,
    cycles::RULE,
    directions::RULE,
    licences::RULE,
    places::RULE,
    sizes::RULE,
    slices::RULE,
    spelling::RULE,
    words::RULE,
];

/// What a rule has to say.
#[derive(Default, Debug)]
struct Findings {
    /// Each with its place, and what to do.
    faults: Vec<String>,
    /// Figures that are printed also where nothing is wrong.
    notes: Vec<String>,
}

impl Findings {
    fn fault(&mut self, text: String) {
        self.faults.push(text);
    }

    fn note(&mut self, text: String) {
        self.notes.push(text);
    }
}

/// A tracked file.
#[derive(Clone, Debug)]
struct File {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate's folder and the path under its `src`, of a source file of a crate.
    fn source(&self) -> Option<(&str, &str)> {
        let rest = self.path.strip_prefix("crates/")?;
        let (name, path) = rest.split_once("/src/")?;
        (!name.contains('/')).then_some((name, path))
    }

    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

/// The files that git tracks, without those that are no text.
#[derive(Default, Debug)]
struct Tree {
    files: Vec<File>,
}

impl Tree {
    fn read() -> anyhow::Result<Tree> {
        // New files count as well: they will be tracked.
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .output()
            .context("git is needed to list the files")?;
        ensure!(
            output.status.success(),
            "git does not list the files: is this a clone?"
        );
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&output.stdout).split('\0') {
            // What is deleted and not yet committed is listed as well.
            if !path.is_empty()
                && Path::new(path).is_file()
                && let Ok(text) = String::from_utf8(std::fs::read(path)?)
            {
                files.push(File {
                    path: path.to_owned(),
                    text,
                });
            }
        }
        Ok(Tree { files })
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// A tree that a test writes down.
    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        });
        Tree {
            files: files.collect(),
        }
    }
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    if let Some(unknown) = args
        .iter()
        .find(|arg| !RULES.iter().any(|r| r.name == **arg))
    {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        bail!("no rule '{unknown}': there is {}", names.join(", "));
    }
    let tree = Tree::read()?;
    let (mut passed, mut failed) = (0, 0);
    for rule in RULES
        .iter()
        .filter(|r| args.is_empty() || args.iter().any(|a| a == r.name))
    {
        let findings = (rule.check)(&tree).with_context(|| format!("rule '{}'", rule.name))?;
        let word = if findings.faults.is_empty() {
            passed += 1;
            "passed"
        } else {
            failed += 1;
            "FAILED"
        };
        println!("{word}  {:<12}{}", rule.name, rule.about);
        for line in findings.notes.iter().chain(&findings.faults) {
            println!("        {line}");
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_and_have_names_of_their_own() {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn a_rule_that_is_not_known_is_refused() {
        let error = run(&["nothing".into()]).unwrap_err();
        assert!(error.to_string().contains("no rule 'nothing'"));
    }
}
