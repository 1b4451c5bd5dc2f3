//! Reads the table of connectors and cases from the tests themselves.
//!
//! Three kinds of comments make it. A row, beside what a technology is described by:
//!
//! ```text
//! // row: sink mqtt | mosquitto
//! // n/a bad: a sink reads no payload
//! ```
//!
//! names connectors as the catalog has them, and their server (a recipe of `servers`, or words, in which a
//! name in braces gets its version). Where a connector has a row per server, the row ends in `@server`. A
//! line `n/a` says why a case is none. Above a test, or a case of a kit,
//!
//! ```text
//! // shows: source cdc@mariadb+mysql open, order
//! ```
//!
//! says which cells it fills. In a case of a kit `*` is each name that a list of the kit (`mqtt: reload
//! slow;`) has the case for: a technology, whose connectors are those of its description, or a server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use super::CASES;

#[derive(Default)]
pub struct Cell {
    /// All of them show it: `crate::module::function`.
    pub tests: Vec<String>,
    /// The case is none for this connector, and why.
    pub none: Option<String>,
}

pub struct Row {
    /// `kind name`, as the catalog has them.
    pub connectors: Vec<String>,
    /// Tells one row of a connector from another.
    id: String,
    /// The recipe of the server, or what is on the other side in its place.
    pub server: String,
    /// In the order of [`CASES`].
    pub cells: [Cell; CASES.len()],
}

impl Row {
    pub fn name(&self) -> String {
        self.connectors.join(", ")
    }

    pub fn tests(&self) -> impl Iterator<Item = &str> {
        let tests = self.cells.iter().flat_map(|cell| &cell.tests);
        tests.map(String::as_str)
    }

    fn has(&self, connector: &str) -> bool {
        self.connectors.iter().any(|known| known == connector)
    }

    /// Is it one of this kind on that server?
    fn is_on(&self, kind: &str, server: &str) -> bool {
        let is_of_kind = |c: &String| c.split(' ').next() == Some(kind);
        self.id == server && self.connectors.iter().any(is_of_kind)
    }
}

/// The rows that a test shows something of. A kit's name that no connector has is that of a server.
fn meant<'a>(rows: &'a mut [Row], target: &'a Target) -> impl Iterator<Item = &'a mut Row> {
    let is_named = rows.iter().any(|row| row.has(&target.connector));
    let (kind, name) = target.connector.split_once(' ').unwrap_or_default();
    rows.iter_mut().filter(move |row| match is_named {
        true => {
            row.has(&target.connector) && (target.ids.is_empty() || target.ids.contains(&row.id))
        }
        false => target.is_of_kit && row.is_on(kind, name),
    })
}

/// What a test shows something of.
#[derive(Clone, Debug)]
struct Target {
    connector: String,
    ids: Vec<String>,
    /// Its name stood for `*`.
    is_of_kit: bool,
}

/// A test that shows a case.
struct Shown {
    test: String,
    target: Target,
    case: usize,
}

/// One file of tests, and where it lies among the modules.
pub(crate) struct Source {
    /// `crate::module`, as tests are named.
    pub module: String,
    pub path: PathBuf,
    pub text: String,
}

/// The rows that the tests of all crates make, sorted by name.
///
/// # Errors
/// A comment that is none of these, or a cell that has tests and a reason, or neither.
pub fn rows(crates: &Path) -> anyhow::Result<Vec<Row>> {
    let sources = sources(crates)?;
    let mut rows = Vec::new();
    let mut shown = Vec::new();
    for source in &sources {
        read(source, &sources, &mut rows, &mut shown)
            .with_context(|| format!("in {}", source.path.display()))?;
    }
    for one in &shown {
        let mut is_used = false;
        for row in meant(&mut rows, &one.target) {
            row.cells[one.case].tests.push(one.test.clone());
            is_used = true;
        }
        ensure!(is_used, "{}: no row is {:?}", one.test, one.target);
    }
    for row in &mut rows {
        let (name, id) = (row.name(), &row.id);
        for (cell, case) in row.cells.iter_mut().zip(CASES) {
            cell.tests.sort();
            cell.tests.dedup();
            let is_shown = !cell.tests.is_empty();
            ensure!(
                is_shown != cell.none.is_some(),
                "{name}@{id}, {case}: write what shows it ('shows'), or why it is none ('n/a')"
            );
        }
    }
    rows.sort_by(|a, b| (&a.connectors, &a.id).cmp(&(&b.connectors, &b.id)));
    Ok(rows)
}

/// All Rust files of crates, with their modules.
/// All sources below a folder, with the names of their modules as tests have them.
pub(crate) fn sources(crates: &Path) -> anyhow::Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![crates.to_owned()];
    while let Some(folder) = folders.pop() {
        let what = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(what)? {
            let path = entry.with_context(what)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).with_context(what)?;
                let module = module(crates, &path);
                found.push(Source { module, path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// `crates/headwater/tests/it/kafka/mod.rs` is `headwater::kafka`.
fn module(crates: &Path, path: &Path) -> String {
    let below = path.strip_prefix(crates).unwrap_or(path).with_extension("");
    let parts = below.iter().map(|part| part.to_string_lossy());
    let parts = parts.enumerate().filter(|(at, part)| {
        let is_root = matches!(part.as_ref(), "mod" | "lib" | "main");
        let is_place = *at == 1 || *at == 2 && part == "it";
        !is_root && !is_place
    });
    let parts: Vec<String> = parts.map(|(_, part)| part.into_owned()).collect();
    parts.join("::")
}

/// Rows and what tests show, of one file.
fn read(
    source: &Source,
    all: &[Source],
    rows: &mut Vec<Row>,
    shown: &mut Vec<Shown>,
) -> anyhow::Result<()> {
    let mut pending: Vec<(String, String)> = Vec::new();
    // Unit tests lie in a module of their file.
    let mut inner = String::new();
    for line in source.text.lines() {
        if let Some(name) = line.strip_prefix("mod ").and_then(|l| l.strip_suffix(" {")) {
            inner = format!("::{name}");
        } else if line == "}" {
            inner.clear();
        }
        let line = line.trim();
        if let Some(row) = line.strip_prefix("// row: ") {
            rows.push(new_row(row)?);
        } else if let Some(none) = line.strip_prefix("// n/a ") {
            let (case, why) = none.split_once(": ").context("write 'n/a CASE: why'")?;
            let row = rows.last_mut().context("'n/a' belongs below a 'row'")?;
            row.cells[case_of(case)?].none = Some(why.to_owned());
        } else if let Some(shows) = line.strip_prefix("// shows: ") {
            let mut words = shows.splitn(3, ' ');
            let (Some(kind), Some(name), Some(cases)) = (words.next(), words.next(), words.next())
            else {
                bail!("write 'shows: KIND NAME CASE, CASE' in place of '{shows}'");
            };
            pending.push((format!("{kind} {name}"), cases.to_owned()));
        } else if let Some(name) = function(line) {
            for (target, cases) in pending.drain(..) {
                let module = format!("{}{inner}", source.module);
                add(source, all, (&module, name), (&target, &cases), shown)?;
            }
        }
    }
    ensure!(pending.is_empty(), "'shows' belongs above a test");
    Ok(())
}

pub(crate) fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    line.strip_prefix("fn ")?.split('(').next()
}

fn new_row(text: &str) -> anyhow::Result<Row> {
    let (connectors, server) = text
        .split_once(" | ")
        .context("write 'row: KIND NAME, KIND NAME | server'")?;
    let (connectors, id) = connectors.split_once('@').unwrap_or((connectors, server));
    Ok(Row {
        connectors: connectors.split(", ").map(str::to_owned).collect(),
        id: id.to_owned(),
        server: server.to_owned(),
        cells: Default::default(),
    })
}

fn case_of(id: &str) -> anyhow::Result<usize> {
    let at = super::CASE_IDS.iter().position(|known| *known == id.trim());
    at.with_context(|| format!("no case is '{id}': {}", super::CASE_IDS.join(", ")))
}

/// What a function shows: itself, or in each of the kit's modules that has it.
fn add(
    source: &Source,
    all: &[Source],
    (module, name): (&str, &str),
    (target, cases): (&str, &str),
    shown: &mut Vec<Shown>,
) -> anyhow::Result<()> {
    let lists = lists(source, all, name);
    let (connector, ids) = target.split_once('@').unwrap_or((target, ""));
    for case in cases.split(", ") {
        let case = case_of(case)?;
        let mut push = |test: String, connector: String, ids: &str, is_of_kit: bool| {
            let ids = ids.split('+').filter(|id| !id.is_empty());
            let target = Target {
                connector,
                ids: ids.map(str::to_owned).collect(),
                is_of_kit,
            };
            shown.push(Shown { test, target, case });
        };
        if lists.is_empty() {
            ensure!(!target.contains('*'), "'*' in '{target}' belongs to a kit");
            push(
                format!("{module}::{name}"),
                connector.to_owned(),
                ids,
                false,
            );
        }
        for list in &lists {
            let test = format!("{}::{}::{name}", list.module, list.name);
            let connector = match connector.strip_suffix(" *") {
                Some(kind) => format!("{kind} {}", described(all, list, kind)),
                None => connector.to_owned(),
            };
            let ids = ids.replace('*', &list.name);
            push(test, connector, &ids, target.ends_with(" *"));
        }
    }
    Ok(())
}

/// A line of a kit: `mqtt at crate::mqtt::KIT: away bad;`.
struct List {
    /// Module of the kit.
    module: String,
    name: String,
    /// File of the description, as a module below the crate.
    description: Option<String>,
}

/// The lines of a kit that have this case, in its own file or in that of the kit above it.
fn lists(source: &Source, all: &[Source], case: &str) -> Vec<List> {
    let above = source
        .module
        .rsplit_once("::")
        .map_or("", |(above, _)| above);
    let is_cases = source.path.ends_with("cases.rs");
    let module = if is_cases { above } else { &source.module };
    let mut found = Vec::new();
    for kit in all.iter().filter(|kit| kit.module == module) {
        for line in kit.text.lines() {
            let line = line.strip_prefix("    ").and_then(|l| l.strip_suffix(';'));
            let Some((head, cases)) = line.and_then(|line| line.rsplit_once(": ")) else {
                continue;
            };
            let mut head = head.split(' ');
            let Some(name) = head.next().filter(|name| is_word(name)) else {
                continue;
            };
            let description = match (head.next(), head.next(), head.next()) {
                (None, ..) => None,
                (Some("at" | "is"), Some(path), None) => Some(path),
                _ => continue,
            };
            if cases.split(' ').all(is_word) && cases.split(' ').any(|one| one == case) {
                let path = description.and_then(|path| path.strip_prefix("crate::"));
                let path = path.and_then(|path| path.rsplit_once("::"));
                found.push(List {
                    module: module.to_owned(),
                    name: name.to_owned(),
                    description: path.map(|(module, _)| module.to_owned()),
                });
            }
        }
    }
    found
}

fn is_word(text: &str) -> bool {
    // `wso2event`, too.
    let mut chars = text.chars();
    !text.is_empty() && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// The name that the source or sink of a description has, else that of the list.
fn described(all: &[Source], list: &List, kind: &str) -> String {
    let package = list.module.split("::").next().unwrap_or_default();
    let module = list.description.as_ref().map(|d| format!("{package}::{d}"));
    let found = module.and_then(|module| {
        let file = all.iter().find(|source| source.module == module)?;
        let (_, description) = file.text.split_once("pub const KIT:")?;
        let (_, option) = description.split_once(&format!("    {kind}: \"type='"))?;
        Some(option.split('\'').next()?.to_owned())
    });
    found.unwrap_or_else(|| list.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            module: module(Path::new("crates"), Path::new(path)),
            path: path.into(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn modules_are_named_as_tests_are() {
        for (path, name) in [
            ("crates/headwater/tests/it/main.rs", "headwater"),
            ("crates/headwater/tests/it/kafka/mod.rs", "headwater::kafka"),
            (
                "crates/headwater/tests/it/kit/cases.rs",
                "headwater::kit::cases",
            ),
            ("crates/connectors/tests/cdc/main.rs", "connectors::cdc"),
            (
                "crates/connectors/src/file/tests.rs",
                "connectors::file::tests",
            ),
        ] {
            assert_eq!(module(Path::new("crates"), Path::new(path)), name);
        }
    }

    #[test]
    fn a_case_of_a_kit_is_a_test_of_each_technology_that_has_it() {
        let all = [
            source(
                "crates/headwater/tests/it/kit/mod.rs",
                "kit! {\n    mqtt at crate::mqtt::KIT: away slow;\n    web at crate::web::KIT: slow;\n}\n",
            ),
            source(
                "crates/headwater/tests/it/kit/cases.rs",
                "// shows: source * slow\npub fn slow(\n// shows: sink * error\npub fn away(\n",
            ),
            source(
                "crates/headwater/tests/it/web.rs",
                "pub const KIT: Subject = Subject {\n    source: \"type='web-server', a='b'\",\n",
            ),
        ];
        let (mut rows, mut shown) = (Vec::new(), Vec::new());
        read(&all[1], &all, &mut rows, &mut shown).unwrap();
        let found: Vec<(&str, &str, usize)> = shown
            .iter()
            .map(|s| (s.test.as_str(), s.target.connector.as_str(), s.case))
            .collect();
        assert_eq!(
            found,
            [
                ("headwater::kit::mqtt::slow", "source mqtt", 4),
                ("headwater::kit::web::slow", "source web-server", 4),
                ("headwater::kit::mqtt::away", "sink mqtt", 9),
            ]
        );
    }

    #[test]
    fn rows_have_reasons_and_tests_of_modules_in_files() {
        let text = "// row: sink a, source b@one | a server of the test\n// n/a bad: it reads none\n\
                    mod tests {\n    // shows: sink a@one open, order\n    #[test]\n    fn it_opens() {\n";
        let all = [source("crates/connect/src/x.rs", text)];
        let (mut rows, mut shown) = (Vec::new(), Vec::new());
        read(&all[0], &all, &mut rows, &mut shown).unwrap();
        assert_eq!(rows[0].name(), "sink a, source b");
        assert_eq!(rows[0].cells[5].none.as_deref(), Some("it reads none"));
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0].test, "connect::x::tests::it_opens");
        assert_eq!(meant(&mut rows, &shown[0].target).count(), 1);
        assert!(
            read(
                &source("crates/x/src/y.rs", "// n/a sleep: x\n"),
                &all,
                &mut rows,
                &mut shown
            )
            .is_err()
        );
    }
}
