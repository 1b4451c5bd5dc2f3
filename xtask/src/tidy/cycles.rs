//! Modules that need each other lie in one folder.
//!
//! A module is a file; it needs another if it imports it or names it by `crate::…` or `super::…`. What
//! a `mod.rs` hands on (`pub use`) or lists in a slice is no need of its own: who imports the name
//! needs the module that it comes from. Modules that reach each other form a cycle. Inside one folder it
//! is nobody's business; one that spans two folders (or files) at the top of a crate is bounded: who reads
//! one of its modules has to read all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Rule, Tree, code};

pub const RULE: Rule = Rule {
    name: "cycles",
    about: "no import cycle across the folders of a crate is larger than allowed",
    check,
};

/// Modules of the largest cycle that spans folders, in any crate.
const MODULES_MAX: usize = 3;

type Graph = BTreeMap<String, BTreeSet<String>>;

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for file in tree.rust() {
        if let Some((name, path)) = file.source() {
            crates.entry(name).or_default().push((path, &file.text));
        }
    }
    for (name, files) in crates {
        let cycle = largest_across(&graph(&files));
        let size = cycle.len();
        let list = cycle.join(", ");
        match size {
            0 => {}
            1..=MODULES_MAX => findings.note(format!("{name}: {size} ({list})")),
            _ => findings.fault(format!(
                "{name}: {size} modules reach each other across folders, {MODULES_MAX} may: {list}"
            )),
        }
    }
    Ok(findings)
}

/// What each module needs.
fn graph(files: &[(&str, &str)]) -> Graph {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let mut only_tests: BTreeSet<String> = BTreeSet::new();
    for (path, text) in files {
        let module = module(path);
        let (code, tests) = code::shipped(text);
        only_tests.extend(tests.into_iter().map(|child| join(&module, &child)));
        sources.insert(module, code);
    }
    let is_test = |module: &String| {
        let mut parents = std::iter::successors(Some(module.as_str()), |m| parent(m));
        parents.any(|m| only_tests.contains(m))
    };
    sources.retain(|module, _| !is_test(module));
    let modules = Modules {
        handed: sources
            .iter()
            .map(|(module, code)| (module.clone(), handed_on(code)))
            .collect(),
    };
    let mut graph = Graph::new();
    for (module, code) in &sources {
        let mut needs = BTreeSet::new();
        for path in paths(code) {
            let Some(target) = modules.resolve(module, &path.segments, HOPS_MAX) else {
                continue;
            };
            let is_own = target == *module;
            let is_listed = path.by != By::Import && is_below(&target, module);
            if !is_own && !is_listed && path.by != By::HandingOn {
                needs.insert(target);
            }
        }
        graph.insert(module.clone(), needs);
    }
    graph
}

/// `query/mod.rs` and `query.rs` are `query`; the root is the empty name.
fn module(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = match path {
        "lib" | "main" => "",
        _ => path.strip_suffix("/mod").unwrap_or(path),
    };
    path.replace('/', "::")
}

fn join(module: &str, child: &str) -> String {
    match module {
        "" => child.to_owned(),
        _ => format!("{module}::{child}"),
    }
}

fn is_below(module: &str, above: &str) -> bool {
    above.is_empty()
        || module
            .strip_prefix(above)
            .is_some_and(|rest| rest.starts_with("::"))
}

fn parent(module: &str) -> Option<&str> {
    match module.rsplit_once("::") {
        Some((parent, _)) => Some(parent),
        None => (!module.is_empty()).then_some(""),
    }
}

/// A path that is named somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    segments: Vec<String>,
    by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// `use …`
    Import,
    /// `pub use …`
    HandingOn,
    /// A path in the code.
    Path,
}

/// All paths of a text that may be those of modules.
fn paths(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let follows_path = at > 0 && tokens[at - 1] == "::";
        // `pub(in crate::a)` says who sees a name, and needs nothing.
        let is_visibility = at > 2 && tokens[at - 3..at] == ["pub", "(", "in"];
        match tokens[at] {
            "use" => {
                let by = match at > 0 && matches!(tokens[at - 1], "pub" | ")") {
                    true => By::HandingOn,
                    false => By::Import,
                };
                let mut all = Vec::new();
                at = use_tree(&tokens, at + 1, &mut Vec::new(), &mut all);
                found.extend(all.into_iter().map(|segments| Named { segments, by }));
            }
            "crate" | "super" | "self" if !follows_path && !is_visibility => {
                let mut segments = Vec::new();
                while at < tokens.len() {
                    segments.push(tokens[at].to_owned());
                    if tokens.get(at + 1) != Some(&"::") {
                        break;
                    }
                    at += 2;
                }
                at += 1;
                if segments.len() > 1 {
                    found.push(Named {
                        segments,
                        by: By::Path,
                    });
                }
            }
            _ => at += 1,
        }
    }
    found
}

/// Reads `a::{b, c::*, d as e}` and gives the place of what follows.
fn use_tree(
    tokens: &[&str],
    mut at: usize,
    prefix: &mut Vec<String>,
    all: &mut Vec<Vec<String>>,
) -> usize {
    let depth = prefix.len();
    while at < tokens.len() {
        match tokens[at] {
            "::" => at += 1,
            "{" => {
                at += 1;
                while at < tokens.len() && !matches!(tokens[at], "}" | ";") {
                    // A comma, or what ends the tree: each turn goes on.
                    at = match tokens[at] {
                        "," => at + 1,
                        _ => use_tree(tokens, at, prefix, all),
                    };
                }
                prefix.truncate(depth);
                return at + 1;
            }
            "," | ";" | "}" => break,
            "as" => at += 2,
            // The bounds of a type, as in `impl Fn() + use<'_>`: no import.
            "<" => return at,
            segment => {
                prefix.push(segment.to_owned());
                at += 1;
            }
        }
    }
    all.push(prefix.clone());
    prefix.truncate(depth);
    at
}

fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let width = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..width]);
        }
        rest = &rest[width..];
    }
    tokens
}

/// Names that a module hands on, with the paths they come from.
fn handed_on(code: &str) -> BTreeMap<String, Vec<String>> {
    let handed = paths(code).into_iter();
    let handed = handed.filter(|path| path.by == By::HandingOn);
    handed
        .filter_map(|path| Some((path.segments.last()?.clone(), path.segments)))
        .collect()
}

/// Modules through which a name may be handed on.
const HOPS_MAX: usize = 4;

struct Modules {
    /// Each module, with what it hands on.
    handed: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Modules {
    fn knows(&self, module: &str) -> bool {
        self.handed.contains_key(module)
    }

    /// The module that a path leads to; none if it leads out of the crate.
    fn resolve(&self, module: &str, segments: &[String], hops: usize) -> Option<String> {
        let mut at = module.to_owned();
        let mut rest = segments;
        match rest.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|s| s == "super") {
                    at = parent(&at)?.to_owned();
                    rest = &rest[1..];
                }
            }
            child if self.knows(&join(module, child)) => {}
            _ => return None,
        }
        for segment in rest {
            let next = join(&at, segment);
            if self.knows(&next) {
                at = next;
                continue;
            }
            let handed = self.handed.get(&at).and_then(|names| names.get(segment));
            return match handed {
                Some(path) if hops > 0 => self.resolve(&at, path, hops - 1).or(Some(at.clone())),
                _ => Some(at),
            };
        }
        Some(at)
    }
}

/// The largest set of modules that reach each other and lie in more than one folder.
fn largest_across(graph: &Graph) -> Vec<String> {
    let folder = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let across = cycles(graph).into_iter().filter(|cycle| {
        let folders: BTreeSet<String> = cycle.iter().map(|m| folder(m)).collect();
        folders.len() > 1
    });
    let mut largest = across.max_by_key(Vec::len).unwrap_or_default();
    for module in &mut largest {
        if module.is_empty() {
            *module = "lib".to_owned();
        }
    }
    largest.sort();
    largest
}

/// All sets of at least two modules that reach each other.
fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|module| (module.as_str(), reach(graph, module)))
        .collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut cycles = Vec::new();
    for (&module, reaches) in &reached {
        if done.contains(module) || !reaches.contains(module) {
            continue;
        }
        let cycle: Vec<String> = reaches
            .iter()
            .filter(|other| {
                reached
                    .get(**other)
                    .is_some_and(|back| back.contains(module))
            })
            .map(|other| (*other).to_owned())
            .collect();
        done.extend(
            reaches
                .iter()
                .filter(|other| cycle.iter().any(|m| m == **other)),
        );
        cycles.push(cycle);
    }
    cycles
}

fn reach<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(module) = open.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(files: &[(&str, &str)]) -> Vec<String> {
        largest_across(&graph(files))
    }

    #[test]
    fn a_cycle_of_four_folders_is_a_fault() {
        let tree = Tree::of(&[
            ("crates/query/src/a/mod.rs", "use crate::b::{c, D};"),
            ("crates/query/src/b/mod.rs", "fn f() { crate::c::g() }"),
            ("crates/query/src/c.rs", "use super::d::E;"),
            ("crates/query/src/d.rs", "use crate::{a, x::y as z};"),
        ]);
        let faults = check(&tree).unwrap().faults;
        assert_eq!(
            faults,
            ["query: 4 modules reach each other across folders, 3 may: a, b, c, d"]
        );
    }

    #[test]
    fn a_cycle_inside_a_folder_and_one_of_tests_count_for_nothing() {
        let inside = [
            ("http/a.rs", "use super::b;"),
            ("http/b.rs", "use super::a;"),
        ];
        assert!(cycle(&inside).is_empty());
        let tests = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "#[cfg(test)]\nmod tests { use crate::a; }"),
        ];
        assert!(cycle(&tests).is_empty());
    }

    #[test]
    fn what_looks_like_an_import_is_read_to_its_end() {
        let code = "fn f() -> impl Fn() + use<'_, T> { x } use a::{b as c, d::*,}; use {;";
        let found: Vec<String> = paths(code).iter().map(|p| p.segments.join("::")).collect();
        assert!(found.contains(&"a::b".to_owned()) && found.contains(&"a::d::*".to_owned()));
    }

    #[test]
    fn who_sees_a_name_is_no_need() {
        let files = [
            ("a/mod.rs", "use crate::b;"),
            ("b.rs", "pub(in crate::a) fn f() {}"),
        ];
        assert!(cycle(&files).is_empty());
        let needs = [
            ("a/mod.rs", "use crate::b;"),
            ("b.rs", "fn f() { for x in crate::a::all() {} }"),
        ];
        assert_eq!(cycle(&needs), ["a", "b"]);
    }

    #[test]
    fn what_the_root_hands_on_leads_to_where_it_is() {
        let files = [
            ("lib.rs", "pub use error::Error;\nmod a; mod error;"),
            ("a.rs", "use crate::Error;"),
            ("error.rs", "use crate::a::A;"),
        ];
        assert_eq!(cycle(&files), ["a", "error"]);
    }
}
