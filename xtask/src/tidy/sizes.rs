//! A file is short enough to be read at once.

use super::{Findings, Rule, Tree};

pub const RULE: Rule = Rule {
    name: "sizes",
    about: "no source file has 1,000 lines or more",
    check,
};

const LINES_MAX: usize = 999;

/// Files that are data, one entry after the other.
const DATA: &[&str] = &["xtask/src/connectors/rows.rs"];

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for file in tree
        .rust()
        .filter(|file| !DATA.contains(&file.path.as_str()))
    {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            findings.fault(format!("{}: {lines} lines: split it", file.path));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_thousand_lines_is_found() {
        let (short, long) = ("\n".repeat(999), "\n".repeat(1000));
        let tree = Tree::of(&[
            ("crates/a/src/short.rs", &short),
            ("crates/a/src/long.rs", &long),
            ("docs/long.md", &long),
        ]);
        let faults = check(&tree).unwrap().faults;
        assert_eq!(faults, ["crates/a/src/long.rs: 1000 lines: split it"]);
    }
}
