//! The repository works on every machine: no path of one machine, no registry of one network.

use super::{Findings, Rule, Tree};

pub const RULE: Rule = Rule {
    name: "places",
    about: "no absolute path of a machine and no registry of a network",
    check,
};

/// Folders under which one person or one machine keeps its files.
const FOLDERS: &[&str] = &["/home/", "/root/", "/Users/", "/work/", "C:\\Users\\"];

/// Paths that belong to somebody else's text: those of the published apps.
const PUBLISHED: &[&str] = &["/Users/wso2/", "/home/wso2"];

/// Settings that name a registry, by which a build would depend on a network.
const SETTINGS: &[&str] = &[
    "index-url",
    "replace-with",
    "PIP_INDEX_URL",
    "registry-index",
];

/// Words of hosts that serve packages.
const HOSTS: &[&str] = &[
    "registry.",
    "artifactory",
    "nexus.",
    "mirror.",
    "pypi.",
    "npmjs",
];

/// This file has to name them.
const SELF: &str = "xtask/src/tidy/places.rs";

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for file in tree.files.iter().filter(|file| file.path != SELF) {
        for (number, line) in file.lines() {
            if let Some(what) = machine_path(line).or_else(|| registry(line)) {
                findings.fault(format!("{}:{number}: {what}", file.path));
            }
        }
    }
    Ok(findings)
}

fn machine_path(line: &str) -> Option<String> {
    let mut line = line.to_owned();
    for published in PUBLISHED {
        line = line.replace(published, "");
    }
    FOLDERS.iter().find_map(|folder| {
        let at = line.find(folder)?;
        // `target/root/` and `…/home/` are parts of other paths.
        let before = line[..at].chars().next_back();
        let is_absolute = before.is_none_or(|c| !c.is_alphanumeric() && !"._-}".contains(c));
        is_absolute.then(|| format!("'{folder}…' is a path of one machine: write a relative path"))
    })
}

fn registry(line: &str) -> Option<String> {
    let setting = SETTINGS.iter().find(|setting| line.contains(**setting));
    let host = line.split("://").skip(1).find_map(|rest| {
        let host = rest.split(['/', '"', '\'', ' ', ':']).next()?;
        HOSTS.iter().find(|word| host.contains(**word))
    });
    setting
        .or(host)
        .map(|what| format!("'{what}' names a registry: the build works with any"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(line: &str) -> Vec<String> {
        check(&Tree::of(&[("docs/a.md", line)])).unwrap().faults
    }

    #[test]
    fn a_path_of_a_machine_is_found() {
        let found = faults("first\nsee /home/someone/headwater/README.md");
        assert!(found[0].starts_with("docs/a.md:2: '/home/…'"), "{found:?}");
        assert_eq!(faults("file:/root/x.csv").len(), 1);
    }

    #[test]
    fn a_path_of_the_published_apps_and_a_relative_one_are_none() {
        assert!(faults("file:/Users/wso2/demo/a.csv, target/root/x, $HOME/y").is_empty());
    }

    #[test]
    fn a_registry_is_found() {
        assert_eq!(faults("replace-with = \"other\"").len(), 1);
        assert_eq!(
            faults("pip --index https://pypi.example.org/simple x").len(),
            1
        );
        assert!(faults("registry+https://github.com/rust-lang/crates.io-index").is_empty());
    }
}
