//! Common misspellings, in prose, comments, messages and names.
//!
//! A short list of our own: it needs no tool to be installed, gives the same answer everywhere, and a
//! word that is right in this project is never on it.

use std::collections::HashMap;

use super::{Findings, Rule, Tree};

pub const RULE: Rule = Rule {
    name: "spelling",
    about: "no word of misspellings.txt",
    check,
};

/// A line each: the misspelling, `->`, the word.
const LIST: &str = include_str!("misspellings.txt");

/// Files that have to name misspellings.
const SELF: &str = "xtask/src/tidy/";

/// Ends of paths, with the words that are meant there: examples of mistakes, and names that others gave.
const MEANT: &[(&str, &str)] = &[
    ("codes/check/names.rs", "lenght"),
    ("tests/rulings.txt", "managment"),
];

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let words: HashMap<&str, &str> = LIST
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .collect();
    for file in tree
        .files
        .iter()
        .filter(|file| !file.path.starts_with(SELF))
    {
        for (number, line) in file.lines() {
            for word in line.split(|c: char| !c.is_ascii_alphabetic()) {
                let small = word.to_ascii_lowercase();
                let is_meant =
                    |(end, meant): &(&str, &str)| file.path.ends_with(end) && *meant == small;
                if let Some(right) = words.get(small.as_str())
                    && !MEANT.iter().any(is_meant)
                {
                    findings.fault(format!("{}:{number}: '{word}': write {right}", file.path));
                }
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_found_in_prose_and_names() {
        let tree = Tree::of(&[
            ("README.md", "what it does\nRecieve events"),
            ("crates/a/src/b.rs", "let seperate_rows = 1;"),
        ]);
        let faults = check(&tree).unwrap().faults;
        assert_eq!(
            faults,
            [
                "README.md:2: 'Recieve': write receive",
                "crates/a/src/b.rs:1: 'seperate': write separate"
            ]
        );
    }

    #[test]
    fn the_list_is_sorted_and_no_word_stands_on_both_sides() {
        let pairs: Vec<(&str, &str)> = LIST.lines().filter_map(|l| l.split_once(" -> ")).collect();
        assert_eq!(pairs.len(), LIST.lines().count());
        assert!(pairs.is_sorted());
        let both = pairs
            .iter()
            .find(|(_, right)| pairs.iter().any(|(wrong, _)| wrong == right));
        assert_eq!(both, None);
    }
}
