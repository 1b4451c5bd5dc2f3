//! The parser over the reference material beside the repository, where that is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use headwater_lang::diagnostic::{Diagnostic, Severity};
use headwater_lang::format::format;
use headwater_lang::parser::{Entry, parse, parse_as, parse_on_demand};
use serde_json::Value;

/// The folder of the reference material; `None`, said on stderr, when it is absent.
fn shared() -> Option<PathBuf> {
    let root = std::env::var_os("HEADWATER_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    if root.is_dir() {
        return Some(root);
    }
    eprintln!("skipped: no reference material at {}", root.display());
    None
}

fn lines(path: PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn jsonl(folder: PathBuf) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    files.sort();
    files
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("")
}

fn errors(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| format!("{} {} at {:?}", d.code, d.message, d.span))
        .collect()
}

/// Collects what is wrong in many cases and fails once, with all of it.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn none(self) {
        assert!(
            self.0.is_empty(),
            "{} failed:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

#[test]
fn published_apps_parse() {
    let Some(shared) = shared() else { return };
    let mut failures = Failures::default();
    for entry in std::fs::read_dir(shared.join("apps")).unwrap() {
        let path = entry.unwrap().path();
        let parsed = parse(&std::fs::read_to_string(&path).unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if parsed.has_errors() {
            failures
                .0
                .push(format!("{name}: {:?}", errors(&parsed.diagnostics)));
        }
        let warnings: Vec<_> = parsed.diagnostics.iter().map(|d| d.code).collect();
        let expected: &[&str] = if name == "HttpRequestResponse.siddhi" {
            &["W0101"]
        } else {
            &[]
        };
        if warnings != expected {
            failures.0.push(format!("{name}: {warnings:?}"));
        }
    }
    failures.none();
}

#[test]
fn real_apps_parse() {
    let Some(shared) = shared() else { return };
    let mut failures = Failures::default();
    for app in lines(shared.join("realapps/apps.jsonl")) {
        let parsed = parse(text(&app, "text"));
        if !parsed.diagnostics.is_empty() {
            let found: Vec<_> = parsed
                .diagnostics
                .iter()
                .map(|d| (d.code, &d.message))
                .collect();
            failures
                .0
                .push(format!("{}: {found:?}", text(&app, "name")));
        }
    }
    failures.none();
}

/// A case is refused by the parser exactly where Siddhi's parser refuses it.
#[test]
fn recorded_cases_parse_as_in_siddhi() {
    let Some(shared) = shared() else { return };
    let mut failures = Failures::default();
    let mut seen = 0;
    for file in jsonl(shared.join("conformance")) {
        for case in lines(file) {
            seen += 1;
            let expected = &case["expected"];
            let refused = text(expected, "status") != "ok"
                && expected.to_string().contains("SiddhiParserException");
            let found = match case["parse"].as_str() {
                Some(entry) => {
                    let entry = Entry::from_name(entry).expect("a known entry point");
                    parse_as(entry, text(&case, "text"))
                }
                None => parse(text(&case, "app")).diagnostics,
            };
            let found = errors(&found);
            if refused == found.is_empty() {
                failures.0.push(format!(
                    "{}: refused {refused}, {found:?}",
                    text(&case, "id")
                ));
            }
            failures.0.extend(on_demand_faults(&case));
        }
    }
    assert!(seen > 1000);
    failures.none();
}

/// The on-demand queries of a case that are refused by only one of the two parsers.
fn on_demand_faults(case: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, step) in case["steps"].as_array().into_iter().flatten().enumerate() {
        let Some(query) = step["query"].as_str() else {
            continue;
        };
        let answers = case["expected"]["answers"].as_array();
        let answer = answers.into_iter().flatten().find(|a| a["step"] == index);
        let refused = answer.is_some_and(|a| a["error"].to_string().contains("ParserException"));
        let found = errors(&parse_on_demand(query).1);
        if refused == found.is_empty() {
            faults.push(format!(
                "{}: {query}: refused {refused}, {found:?}",
                text(case, "id")
            ));
        }
    }
    faults
}

/// Every app of the reference material, with its name.
fn all_apps(shared: &std::path::Path) -> Vec<(String, String)> {
    let mut apps = Vec::new();
    for entry in std::fs::read_dir(shared.join("apps")).unwrap() {
        let path = entry.unwrap().path();
        apps.push((
            path.display().to_string(),
            std::fs::read_to_string(&path).unwrap(),
        ));
    }
    for app in lines(shared.join("realapps/apps.jsonl")) {
        apps.push((text(&app, "name").to_owned(), text(&app, "text").to_owned()));
    }
    for folder in ["conformance", "conformance/extra", "conformance/wallclock"] {
        for file in jsonl(shared.join(folder)) {
            for case in lines(file) {
                if !text(&case, "app").is_empty() {
                    apps.push((text(&case, "id").to_owned(), text(&case, "app").to_owned()));
                }
            }
        }
    }
    apps.sort();
    apps
}

#[test]
fn formatting_keeps_meaning_and_comments() {
    let Some(shared) = shared() else { return };
    let mut failures = Failures::default();
    let mut formatted = 0;
    for (name, app) in all_apps(&shared) {
        let parsed = parse(&app);
        if parsed.has_errors() {
            assert!(format(&app).is_err(), "{name}");
            continue;
        }
        formatted += 1;
        let Ok(once) = format(&app) else {
            failures.0.push(format!("{name}: refused"));
            continue;
        };
        if format(&once).as_deref() != Ok(&once) {
            failures.0.push(format!(
                "{name}: not idempotent:\n{once}\n{:?}",
                format(&once)
            ));
        }
        let (mut before, mut after) = (parsed.app, parse(&once).app);
        before.strip_spans();
        after.strip_spans();
        if before != after {
            failures.0.push(format!("{name}: changed"));
        }
        if comments(&app) != comments(&once) {
            failures.0.push(format!("{name}: comments changed"));
        }
    }
    assert!(formatted > 2000, "{formatted}");
    failures.none();
}

/// The comments of a text, found by a reading of its own: strings are skipped, script bodies taken
/// as text.
fn comments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("--") {
            let len = rest.find('\n').unwrap_or(rest.len());
            found.push(rest[..len].trim_end().to_owned());
            len
        } else if rest.starts_with("/*") {
            let len = rest.find("*/").map_or(rest.len(), |i| i + 2);
            found.push(rest[..len].trim_end().to_owned());
            len
        } else if let Some(inner) = rest.strip_prefix("\"\"\"") {
            inner.find("\"\"\"").map_or(rest.len(), |i| i + 6)
        } else if c == '\'' || c == '"' || c == '`' {
            rest[1..].find(c).map_or(rest.len(), |i| i + 2)
        } else if c == '{' {
            rest.find('}').map_or(rest.len(), |i| i + 1)
        } else {
            c.len_utf8()
        };
        rest = &rest[len..];
    }
    found
}

/// Texts cut at every byte of every published app: no panic, and an end.
#[test]
fn cut_texts_are_parsed() {
    let Some(shared) = shared() else { return };
    for entry in std::fs::read_dir(shared.join("apps")).unwrap() {
        let app = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for end in (0..app.len()).filter(|end| app.is_char_boundary(*end)) {
            survives(&app[..end]);
        }
        for start in (0..app.len())
            .step_by(7)
            .filter(|start| app.is_char_boundary(*start))
        {
            survives(&app[start..]);
        }
    }
}

/// Words left out, doubled and swapped at random: no panic, and an end; what is still accepted can
/// be formatted.
#[test]
fn shuffled_texts_are_parsed() {
    let Some(shared) = shared() else { return };
    let apps = all_apps(&shared);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    for _ in 0..3_000 {
        let (_, app) = &apps[random(apps.len())];
        let mut words: Vec<&str> = app
            .split_inclusive(|c: char| !c.is_alphanumeric())
            .collect();
        for _ in 0..=random(4) {
            let (a, b) = (random(words.len()), random(words.len()));
            match random(3) {
                0 => drop(words.remove(a)),
                1 => words.insert(b, words[a]),
                _ => words.swap(a, b),
            }
            if words.is_empty() {
                break;
            }
        }
        survives(&words.concat());
    }
}

fn survives(text: &str) {
    let parsed = parse(text);
    let len = text.len() as u32;
    for diagnostic in &parsed.diagnostics {
        assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end <= len);
        if let Some(fix) = &diagnostic.fix {
            assert!(fix.span.end <= len);
        }
    }
    if !parsed.has_errors() {
        let once = format(text).expect("an accepted text is formatted");
        assert!(
            format(&once).as_deref() == Ok(once.as_str()),
            "not idempotent:\n{once}"
        );
    }
}
