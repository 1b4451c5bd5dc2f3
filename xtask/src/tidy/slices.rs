//! A component is one file and one line: the line of every file stands in the slice of its folder.
//!
//! The folder is where the slice is declared, so that it may be moved as a whole.

use super::{Findings, Rule, Tree, code};

pub const RULE: Rule = Rule {
    name: "slices",
    about: "every window, aggregator, mapper, connector … has its line in the slice of its folder",
    check,
};

struct Slice {
    /// Its declaration, up to the brackets.
    declaration: &'static str,
    /// What a file has that is a component.
    marks: &'static [&'static str],
}

const SLICES: &[Slice] = &[
    Slice {
        declaration: "const AGGREGATORS: &[&dyn Aggregator]",
        marks: &["Aggregator for"],
    },
    Slice {
        declaration: "const CONNECTORS: &[&dyn Connector]",
        marks: &["Connector for", ": Technology ="],
    },
    Slice {
        declaration: "const MAPPERS: &[&dyn Mapper]",
        marks: &["Mapper for"],
    },
    Slice {
        declaration: "const PROCESSORS: &[&dyn Processor]",
        marks: &["Processor for"],
    },
    Slice {
        declaration: "const SERVERS: &[&dyn Recipe]",
        marks: &["Recipe for"],
    },
    Slice {
        declaration: "const WINDOWS: &[&dyn Window]",
        marks: &["Window for"],
    },
];

/// Slices of functions, which the `mod.rs` above their folders puts together by these names.
const FUNCTIONS: &[&str] = &[
    "static ROWS: &[RowFunction]",
    "static COLUMNS: &[&dyn Function]",
];

/// Where functions lie, whatever the crate is called.
const FUNCTION_FOLDER: &str = "/src/function/";

/// Files that hold a type from which components are made, or one of tests.
const NOT_COMPONENTS: &[&str] = &[
    "component.rs",
    "each.rs",
    "memory.rs",
    "technology.rs",
    "testing.rs",
];

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let sources: Vec<(&str, String)> = tree
        .rust()
        .filter(|file| file.source().is_some())
        .map(|file| (file.path.as_str(), code::shipped(&file.text).0))
        .collect();
    for slice in SLICES {
        check_slice(slice, &sources, &mut findings);
    }
    check_functions(&sources, &mut findings);
    Ok(findings)
}

fn check_slice(slice: &Slice, sources: &[(&str, String)], findings: &mut Findings) {
    let declared = sources
        .iter()
        .find_map(|(path, code)| Some((*path, code.split_once(slice.declaration)?.1)));
    let Some((declared_in, rest)) = declared else {
        let declaration = slice.declaration;
        findings.fault(format!(
            "no '{declaration}': tell xtask/src/tidy/slices.rs where it is"
        ));
        return;
    };
    let entries = entries(rest);
    let folder = declared_in
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    let mut count = 0;
    for (path, code) in sources {
        let inside = path
            .strip_prefix(folder)
            .and_then(|path| path.strip_prefix('/'));
        let Some(inside) = inside.filter(|_| *path != declared_in) else {
            continue;
        };
        let name = inside.rsplit('/').next().unwrap_or_default();
        if NOT_COMPONENTS.contains(&name) || !is_component(slice, code) {
            continue;
        }
        count += 1;
        if !is_entered(inside, code, &entries) {
            let what = slice.declaration.trim_start_matches("const ");
            let what = what.split(':').next().unwrap_or_default();
            findings.fault(format!("{path}: has no line in {what} of {declared_in}"));
        }
    }
    if count == 0 {
        findings.fault(format!(
            "{declared_in}: no component was found in its folder"
        ));
    }
}

fn is_component(slice: &Slice, code: &str) -> bool {
    code.lines().any(|line| {
        let has = |mark: &&str| {
            // `Window for`, not `NamedWindow for`.
            let at = line.find(*mark);
            at.is_some_and(|at| {
                let before = line[..at].chars().next_back();
                mark.starts_with(':') || before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            })
        };
        let is_item = line.starts_with("impl") || line.starts_with("pub const");
        is_item && slice.marks.iter().any(has)
    })
}

/// `&unique::EVER`: its modules and its name.
struct Entry {
    modules: Vec<String>,
    name: String,
}

fn entries(rest: &str) -> Vec<Entry> {
    let Some(list) = rest
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once("];"))
    else {
        return Vec::new();
    };
    let entries = list.0.split('&').skip(1).filter_map(|entry| {
        let path: String = entry
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
            .collect();
        let mut modules: Vec<String> = path.split("::").map(str::to_owned).collect();
        let name = modules.pop()?;
        Some(Entry { modules, name })
    });
    entries.collect()
}

/// Whether an entry names the file's module, or a folder that hands on what the file declares.
fn is_entered(inside: &str, code: &str, entries: &[Entry]) -> bool {
    let module = inside.strip_suffix(".rs").unwrap_or(inside);
    let module = module.strip_suffix("/mod").unwrap_or(module);
    let module: Vec<&str> = module.split('/').collect();
    let declares = |name: &str| {
        let words: Vec<&str> = code::identifiers(code).map(|(_, word)| word).collect();
        let is_declared = |pair: &[&str]| {
            matches!(pair[0], "struct" | "enum" | "const" | "static") && pair[1] == name
        };
        words.windows(2).any(is_declared)
    };
    entries.iter().any(|entry| {
        let is_above = entry.modules.len() <= module.len()
            && entry.modules.iter().zip(&module).all(|(a, b)| a == b);
        is_above && (entry.modules.len() == module.len() || declares(&entry.name))
    })
}

fn check_functions(sources: &[(&str, String)], findings: &mut Findings) {
    let mut count = 0;
    for (path, code) in sources {
        let Some((crate_, inside)) = path.split_once(FUNCTION_FOLDER) else {
            continue;
        };
        let Some((folder, _)) = inside.split_once('/') else {
            continue;
        };
        let parent = format!("{crate_}{FUNCTION_FOLDER}mod.rs");
        let entered = sources.iter().find(|(path, _)| *path == parent);
        for declaration in FUNCTIONS.iter().filter(|d| code.contains(**d)) {
            count += 1;
            let name = declaration.trim_start_matches("static ").split(':').next();
            let entry = format!("{folder}::{}", name.unwrap_or_default());
            if !entered.is_some_and(|(_, code)| code.contains(&entry)) {
                findings.fault(format!("{path}: {parent} has no line {entry}"));
            }
        }
    }
    if count == 0 {
        findings.fault(format!("no function was found under {FUNCTION_FOLDER}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: &str = "mod time; mod unique;\npub const WINDOWS: &[&dyn Window] = &[\n    &time::Time,\n    #[cfg(feature = \"u\")]\n    &unique::Length,\n];\n";

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<(&str, String)> = files
            .iter()
            .map(|(path, text)| (*path, (*text).to_owned()))
            .collect();
        let mut findings = Findings::default();
        let windows = SLICES
            .iter()
            .find(|s| s.declaration.contains("WINDOWS"))
            .unwrap();
        check_slice(windows, &sources, &mut findings);
        findings.faults
    }

    #[test]
    fn a_window_without_its_line_is_found() {
        let found = faults(&[
            ("crates/engine/src/window/mod.rs", WINDOWS),
            (
                "crates/engine/src/window/time.rs",
                "impl Window for Time {}",
            ),
            (
                "crates/engine/src/window/unique/length.rs",
                "pub struct Length;\nimpl Window for Length {}",
            ),
            (
                "crates/engine/src/window/unique/time.rs",
                "pub struct Time;\nimpl Window for Time {}",
            ),
            (
                "crates/engine/src/window/sort.rs",
                "impl Window for Sort {}",
            ),
            (
                "crates/engine/src/window/held.rs",
                "impl Held {}\nimpl NamedWindow for X {}",
            ),
        ]);
        let lacking = ["unique/time.rs", "sort.rs"];
        assert_eq!(found.len(), 2, "{found:?}");
        for (found, file) in found.iter().zip(lacking) {
            assert!(found.starts_with(&format!("crates/engine/src/window/{file}: has no line")));
        }
    }

    #[test]
    fn a_slice_that_cannot_be_found_is_a_fault() {
        assert_eq!(faults(&[("crates/engine/src/lib.rs", "")]).len(), 1);
        assert_eq!(
            faults(&[("crates/engine/src/window/mod.rs", WINDOWS)]).len(),
            1
        );
    }

    #[test]
    fn a_folder_of_functions_without_its_line_is_found() {
        let files = [
            ("crates/engine/src/function/mod.rs", "[math::ROWS]"),
            (
                "crates/engine/src/function/math/mod.rs",
                "pub static ROWS: &[RowFunction] = &[];",
            ),
            (
                "crates/engine/src/function/geo/mod.rs",
                "pub static ROWS: &[RowFunction] = &[];",
            ),
        ];
        let sources: Vec<(&str, String)> = files
            .iter()
            .map(|(path, text)| (*path, (*text).to_owned()))
            .collect();
        let mut findings = Findings::default();
        check_functions(&sources, &mut findings);
        assert_eq!(findings.faults.len(), 1, "{findings:?}");
        assert!(findings.faults[0].contains("has no line geo::ROWS"));
    }
}
