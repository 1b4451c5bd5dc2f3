//! What computes results gets the time as an argument: it reads no clock.

use super::{Findings, Rule, Tree, code};

pub const RULE: Rule = Rule {
    name: "clocks",
    about: "no clock is read in the engine, the language and what both work on",
    check,
};

/// Crates in which time arrives as an argument.
const CRATES: &[&str] = &[
    "event", "javatext", "lang", "plan", "check", "catalog", "engine",
];

const READINGS: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "Zoned::now",
    "Timestamp::now",
    "UNIX_EPOCH.elapsed",
];

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for file in tree.rust() {
        let is_pure = file
            .source()
            .is_some_and(|(name, _)| CRATES.contains(&name));
        if !is_pure {
            continue;
        }
        for (at, line) in code::code(&file.text).lines().enumerate() {
            for reading in READINGS.iter().filter(|reading| line.contains(**reading)) {
                findings.fault(format!(
                    "{}:{}: {reading}: take the time as an argument (`now` of `App::step`)",
                    file.path,
                    at + 1
                ));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_the_engine_is_found_and_one_in_the_server_is_not() {
        let text = "fn f() {\n    let now = std::time::Instant::now();\n}\n";
        let tree = Tree::of(&[
            ("crates/engine/src/window/time.rs", text),
            ("crates/server/src/lib.rs", text),
        ]);
        let faults = check(&tree).unwrap().faults;
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("crates/engine/src/window/time.rs:2: Instant::now"));
    }

    #[test]
    fn a_comment_reads_no_clock() {
        let tree = Tree::of(&[("crates/lang/src/a.rs", "// as Instant::now() would\n")]);
        assert!(check(&tree).unwrap().faults.is_empty());
    }
}
