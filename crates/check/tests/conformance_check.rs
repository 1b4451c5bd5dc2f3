//! Parses and checks every app of the reference material: what Siddhi creates is accepted, what it
//! refuses is refused. Skipped, with a word, where the material is not there.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it counted"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use headwater_check::{CheckConfig, check, check_on_demand};
use lang::diagnostic::{Diagnostic, Kind, Severity};
use serde_json::Value;

/// The reference material, or `None` with a word that the test is skipped.
fn shared() -> Option<PathBuf> {
    let root = match std::env::var_os("HEADWATER_SHARED") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    if root.join("conformance").is_dir() {
        return Some(root);
    }
    println!("skipped: no reference material at '{}'", root.display());
    None
}

fn diagnose(text: &str, config: &CheckConfig) -> Vec<Diagnostic> {
    let (substituted, mut diagnostics) = lang::substitute(text, &|_| Some("5".to_owned()));
    let parsed = lang::parse(&substituted.text);
    let config = CheckConfig {
        syntax_faults: parsed
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(|d| d.span)
            .collect(),
        ..config.clone()
    };
    diagnostics.extend(parsed.diagnostics);
    diagnostics.extend(check(&parsed.app, &catalog::full(), &config).diagnostics);
    diagnostics.retain(|d| d.severity == Severity::Error);
    diagnostics
}

fn shown(diagnostics: &[Diagnostic], text: &str) -> String {
    diagnostics
        .iter()
        .map(|d| {
            format!(
                "    {} {} | {:?} | {}\n",
                d.code,
                d.message,
                d.span.text(text),
                d.label
            )
        })
        .collect()
}

/// What the configuration of a case holds for the checker.
fn config_of(case: &Value) -> CheckConfig {
    let mut config = CheckConfig {
        properties: Some(BTreeMap::new()),
        ..CheckConfig::default()
    };
    let maps = |key: &str| case["config"][key].as_object().cloned().unwrap_or_default();
    for (name, value) in maps("properties") {
        config
            .properties
            .get_or_insert_default()
            .insert(name, value.as_str().unwrap_or_default().to_owned());
    }
    for (name, value) in maps("systems") {
        // `test1.type`: the block and its key.
        if let Some((block, key)) = name.split_once('.') {
            let pair = (
                key.to_owned(),
                value.as_str().unwrap_or_default().to_owned(),
            );
            config
                .deployed
                .refs
                .entry(block.to_owned())
                .or_default()
                .push(pair);
        }
    }
    config
}

/// All recorded cases with the names of their files.
fn cases(root: &Path) -> Vec<(String, Value)> {
    let folders = [root.join("conformance"), root.join("conformance/extra")];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|d| fs::read_dir(d).unwrap())
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().display().to_string();
        for line in fs::read_to_string(&file).unwrap().lines() {
            cases.push((name.clone(), serde_json::from_str(line).unwrap()));
        }
    }
    cases
}

#[test]
fn recorded_cases() {
    let Some(root) = shared() else { return };
    let mut disagreements = Vec::new();
    let mut agreed = 0;
    for (file, case) in cases(&root) {
        let Some(text) = case["app"].as_str() else {
            continue;
        };
        let errors = diagnose(text, &config_of(&case));
        let is_refused = case["expected"]["status"] == "create-error";
        // Extensions of the reference's own tests are not there.
        let group = case["group"].as_str().unwrap_or_default();
        let needs = case.get("needs").is_some() || group.starts_with("needs_");
        let own: Vec<Diagnostic> = errors
            .iter()
            .filter(|d| !(needs && d.kind == Kind::Unsupported))
            .cloned()
            .collect();
        if is_refused != errors.is_empty() || (!is_refused && own.is_empty()) {
            agreed += 1;
            if std::env::var_os("SHOW_REFUSALS").is_some() && is_refused {
                println!(
                    "{}\n  {}\n{}",
                    case["id"],
                    case["expected"]["error"]["message"]
                        .as_str()
                        .unwrap_or_default(),
                    shown(&errors, text)
                );
            }
            continue;
        }
        disagreements.push(format!(
            "{} {}\n  {}\n{}    {}\n",
            file,
            case["id"],
            text.replace('\n', " "),
            shown(&errors, text),
            case["expected"]["error"]["message"]
                .as_str()
                .unwrap_or_default(),
        ));
    }
    println!("{agreed} agree, {} do not", disagreements.len());
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

/// On-demand queries of the cases: those that Siddhi refuses are refused.
#[test]
fn recorded_queries() {
    let Some(root) = shared() else { return };
    let mut disagreements = Vec::new();
    let catalog = catalog::full();
    for (file, case) in cases(&root) {
        let Some(text) = case["app"].as_str() else {
            continue;
        };
        let checked = check(&lang::parse(text).app, &catalog, &config_of(&case));
        let Some(plan) = checked.plan else { continue };
        for (step, query) in case["steps"].as_array().into_iter().flatten().enumerate() {
            let Some(query) = query["query"].as_str() else {
                continue;
            };
            let answers = case["expected"]["answers"].as_array();
            let Some(answer) = answers.into_iter().flatten().find(|a| a["step"] == step) else {
                continue;
            };
            let (parsed, mut found) = lang::parse_on_demand(query);
            if let Some(parsed) = parsed {
                found.extend(check_on_demand(&parsed, &plan, &catalog).diagnostics);
            }
            found.retain(|d| d.severity == Severity::Error);
            if answer.get("error").is_some_and(|e| !e.is_null()) == found.is_empty() {
                disagreements.push(format!(
                    "{file} {}\n  {query}\n{}    {}\n",
                    case["id"],
                    shown(&found, query),
                    answer["error"]["message"]
                ));
            }
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

#[test]
fn published_apps() {
    let Some(root) = shared() else { return };
    let mut apps: Vec<(String, String)> = Vec::new();
    for line in fs::read_to_string(root.join("realapps/apps.jsonl"))
        .unwrap()
        .lines()
    {
        let app: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| app[key].as_str().unwrap_or_default().to_owned();
        apps.push((text("name"), text("text")));
    }
    for entry in fs::read_dir(root.join("apps")).unwrap() {
        let path = entry.unwrap().path();
        apps.push((
            path.display().to_string(),
            fs::read_to_string(&path).unwrap(),
        ));
    }
    let mut disagreements = Vec::new();
    let mut unsupported = 0;
    for (name, text) in apps {
        let mut errors = diagnose(&text, &CheckConfig::default());
        unsupported += usize::from(errors.iter().any(|d| d.kind == Kind::Unsupported));
        if std::env::var_os("SHOW_REFUSALS").is_some() {
            for d in errors.iter().filter(|d| d.kind == Kind::Unsupported) {
                println!("{name}: {} {}", d.message, d.span.text(&text));
            }
        }
        errors.retain(|d| d.kind != Kind::Unsupported);
        if !errors.is_empty() {
            disagreements.push(format!("{name}\n{}", shown(&errors, &text)));
        }
    }
    println!("{unsupported} apps name a component that is not supported");
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

/// Apps with words left out, doubled, exchanged and cut short are checked without a panic, and never
/// give a plan together with an error.
#[test]
fn broken_apps() {
    let Some(root) = shared() else { return };
    let catalog = catalog::full();
    let mut seed = 1u64;
    let mut below = |n: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n.max(1)
    };
    let texts: Vec<String> = cases(&root)
        .iter()
        .filter_map(|(_, c)| Some(c["app"].as_str()?.to_owned()))
        .collect();
    for text in texts.iter().step_by(3) {
        let words: Vec<&str> = text
            .split_inclusive([' ', '\n', '(', ')', ',', ';'])
            .collect();
        for _ in 0..4 {
            let mut words = words.clone();
            let (at, last) = (below(words.len()), words.len() - 1);
            match below(4) {
                0 => drop(words.remove(at)),
                1 => words.insert(at, words[below(words.len())]),
                2 => words.swap(at, last),
                _ => words.truncate(at),
            }
            let broken = words.concat();
            let parsed = lang::parse(&broken);
            let faults = parsed
                .diagnostics
                .iter()
                .filter(|d| d.severity == Severity::Error);
            let config = CheckConfig {
                syntax_faults: faults.map(|d| d.span).collect(),
                ..CheckConfig::default()
            };
            let is_parsed = config.syntax_faults.is_empty();
            let checked = check(&parsed.app, &catalog, &config);
            let is_faulty = checked
                .diagnostics
                .iter()
                .any(|d| d.severity == Severity::Error);
            assert_eq!(checked.plan.is_some(), is_parsed && !is_faulty, "{broken}");
        }
    }
}
