//! What is built in may be shipped: the licences and bans of `deny.toml`, read without any tool.
//!
//! The large crates that are built in two versions are named, since each costs its time twice.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};

use super::metadata::{Metadata, Package};
use super::{Findings, Rule, Tree};

pub const RULE: Rule = Rule {
    name: "licences",
    about: "every library has a licence that deny.toml allows, and none is banned there",
    check,
};

const LIST: &str = "deny.toml";

/// Crates that take long to build: a second version of one is worth a look.
const LARGE: &[&str] = &[
    "h2",
    "hyper",
    "jiff",
    "nom",
    "quick-xml",
    "rand",
    "regex-automata",
    "ring",
    "rustls",
    "syn",
    "time",
    "tokio",
    "winnow",
    "zip",
];

/// What `deny.toml` says, as far as it is read here.
#[derive(Default, Debug)]
struct List {
    allowed: Vec<String>,
    /// Package and its licence, where the package does not say it itself.
    clarified: Vec<(String, String)>,
    banned: Vec<(String, String)>,
}

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let file = tree.files.iter().find(|file| file.path == LIST);
    let list = parse(&file.with_context(|| format!("no {LIST}"))?.text);
    if list.allowed.is_empty() {
        bail!("{LIST} allows no licence: is it written otherwise now?");
    }
    Ok(judge(&Metadata::read_all()?, &list))
}

/// The licences of packages that do not say it themselves, by their names.
///
/// # Errors
/// If the list cannot be read.
pub fn clarified() -> anyhow::Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(LIST).context(LIST)?;
    Ok(parse(&text).clarified)
}

/// The lines of the tables that are read here, as cargo-deny's own examples write them.
fn parse(text: &str) -> List {
    let mut list = List::default();
    let (mut table, mut key, mut name) = (String::new(), String::new(), String::new());
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']).to_owned();
            key.clear();
            continue;
        }
        if let Some((left, _)) = line.split_once('=')
            && !line.starts_with(['"', '{'])
        {
            key = left.trim().to_owned();
        }
        let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        match (table.as_str(), key.as_str(), quoted.as_slice()) {
            ("licenses", "allow", words) => {
                list.allowed
                    .extend(words.iter().map(|word| (*word).to_owned()));
            }
            ("licenses.clarify", "name", [word]) => name = (*word).to_owned(),
            ("licenses.clarify", "expression", [word]) => {
                list.clarified.push((name.clone(), (*word).to_owned()));
            }
            ("bans", "deny", [name, reason]) => {
                list.banned.push(((*name).to_owned(), (*reason).to_owned()));
            }
            _ => {}
        }
    }
    list
}

fn judge(metadata: &Metadata, list: &List) -> Findings {
    let mut findings = Findings::default();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        versions
            .entry(&package.name)
            .or_default()
            .push(&package.version);
        if let Some(fault) = fault(package, list) {
            findings.fault(format!("{} {}: {fault}", package.name, package.version));
        }
    }
    for name in LARGE {
        if let Some(versions) = versions.get(name).filter(|versions| versions.len() > 1) {
            findings.note(format!(
                "built {} times: {name} {}",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    findings
}

fn fault(package: &Package, list: &List) -> Option<String> {
    let named = |all: &'_ [(String, String)]| {
        let found = all.iter().find(|(name, _)| *name == package.name);
        found.map(|(_, text)| text.clone())
    };
    if let Some(reason) = named(&list.banned) {
        return Some(format!("banned: {reason}"));
    }
    let Some(expression) = named(&list.clarified).or_else(|| package.license.clone()) else {
        return Some(format!(
            "names no licence: look it up, and clarify it in {LIST}"
        ));
    };
    (!is_allowed(&expression, &list.allowed))
        .then(|| format!("'{expression}' is not allowed by {LIST}"))
}

/// Whether an SPDX expression can be met by the allowed licences. `/` is an old way to write OR.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&words, &mut at, allowed) && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut is_met = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        is_met |= both(words, at, allowed);
    }
    is_met
}

fn both(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut is_met = single(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        is_met &= single(words, at, allowed);
    }
    is_met
}

fn single(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let is_met = either(words, at, allowed);
        *at += 1;
        return is_met;
    }
    let mut name = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!(
            "{word} WITH {}",
            words.get(*at + 1).copied().unwrap_or_default()
        );
        *at += 2;
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\n\
        [[licenses.clarify]]\nname = \"silent\"\nexpression = \"ISC\"\n\
        [bans]\nmultiple-versions = \"warn\"\ndeny = [\n  { name = \"openssl\", reason = \"one is enough\" },\n]\n";

    fn faults(name: &str, license: Option<&str>) -> Vec<String> {
        let package = Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(str::to_owned),
            ..Package::default()
        };
        let metadata = Metadata {
            packages: vec![package],
        };
        judge(&metadata, &parse(TEXT)).faults
    }

    #[test]
    fn a_licence_that_is_not_listed_is_found() {
        assert_eq!(
            faults("x", Some("GPL-3.0-only")),
            ["x 1.0.0: 'GPL-3.0-only' is not allowed by deny.toml"]
        );
        assert_eq!(faults("x", Some("MIT AND GPL-3.0-only")).len(), 1);
        assert_eq!(faults("x", None).len(), 1);
    }

    #[test]
    fn expressions_are_met_by_one_of_their_choices() {
        for expression in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "Apache-2.0/MIT",
            "(GPL-2.0 OR MIT) AND ISC",
        ] {
            assert!(faults("x", Some(expression)).is_empty(), "{expression}");
        }
        assert!(faults("silent", None).is_empty());
    }

    #[test]
    fn a_banned_library_is_found() {
        assert_eq!(
            faults("openssl", Some("MIT")),
            ["openssl 1.0.0: banned: one is enough"]
        );
    }

    #[test]
    fn two_versions_of_a_large_library_are_named() {
        let version = |version: &str| Package {
            name: "tokio".into(),
            version: version.into(),
            license: Some("MIT".into()),
            ..Package::default()
        };
        let metadata = Metadata {
            packages: vec![version("1.0.0"), version("2.0.0")],
        };
        let notes = judge(&metadata, &parse(TEXT)).notes;
        assert_eq!(notes, ["built 2 times: tokio 1.0.0, 2.0.0"]);
    }
}
