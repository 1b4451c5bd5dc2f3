//! `cargo xtask gateway`: the rules of the gateway's protocols by their numbers, and what their tests show.
//!
//! A test says above itself which rules it shows:
//!
//! ```text
//! // rules: E14, E15
//! ```
//!
//! The command runs those tests and prints what came of each rule; `--list` prints the rules and their tests alone. A
//! rule without a test is one that failed: it is said to be without, and nothing stands in for it. `autobahn` runs
//! another suite.

mod autobahn;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::ensure;
use serde_json::json;

use crate::connectors::run_tests;
use crate::connectors::scan::{function, sources};

/// Numbers and what they ask for, in a word or two.
const RULES: &[(&str, &str)] = &[
    ("E1", "UTF-8, one leading BOM is ignored"),
    ("E2", "lines end with CR, LF or CRLF, split anywhere"),
    ("E3", "comments are no events"),
    ("E4", "fields, names and the one space"),
    ("E5", "several data lines; empty data"),
    ("E6", "ids: NUL, empty, lasting"),
    ("E7", "retry has digits only"),
    ("E8", "an empty event is a message"),
    ("E9", "an unfinished block is discarded"),
    ("E10", "client: statuses, types, redirects"),
    ("E11", "client: Accept, no-store, Last-Event-ID"),
    ("E12", "server: line breaks in payloads and ids"),
    ("E13", "server: headers, and a first byte at once"),
    ("E14", "resume: each event once and in order, or a gap"),
    ("E15", "resume by query; the header wins"),
    ("E16", "CORS, tokens in cookie or query"),
    ("E17", "a restart spreads its clients"),
    ("W1", "POST of a form, 202"),
    ("W2", "secrets below 200 bytes"),
    ("W3", "unknown parameters are ignored"),
    ("W4", "what is missing or invalid is named"),
    ("W5", "202 before verification"),
    ("W6", "the question and its challenge"),
    ("W7", "the callback's own query stays"),
    ("W8", "what fails a verification"),
    ("W9", "a failed verification changes nothing"),
    ("W10", "subscribing again replaces"),
    ("W11", "unsubscribing is verified"),
    ("W12", "leases are finite and enforced"),
    ("W13", "denial"),
    ("W14", "deliveries: whole content, its type"),
    ("W15", "Link with hub and self"),
    ("W16", "X-Hub-Signature with a secret alone"),
    ("W17", "2xx, 410, redirects"),
    ("W18", "retries; later events are tried"),
    ("W19", "307 and 308 to another hub"),
    ("W20", "publishers: Link, publish, fat ping"),
    ("W21", "subscribers: discovery, signatures"),
    ("W22", "private addresses are refused, also behind a name"),
    ("W100", "hub case: subscribe, publish"),
    ("W101", "hub case: with a secret"),
    ("W102", "hub case: further parameters"),
    ("W103", "hub case: subscribe again"),
    ("W104", "hub case: unsubscribe"),
    ("W105", "hub case: plain text"),
    ("W106", "hub case: JSON"),
    ("S1", "framing, UTF-8, close codes, limits, deflate"),
    ("S2", "the client side"),
    ("S3", "handshake"),
    ("S4", "proxy: close codes, pings, fragments"),
    ("S5", "1009 to the sender, 1001 to the peer"),
    ("S6", "limit, expiry and revocation close"),
    ("S7", "WebSocket over HTTP/2"),
    ("S8", "who goes without a word frees both sides"),
    ("S9", "HTTP/2"),
    ("J1", "algorithms are pinned"),
    ("J2", "all algorithms"),
    ("J3", "exp, nbf, iss, aud, typ"),
    ("J4", "kid look-up, rotation, one fetch"),
    ("J5", "discovery"),
    ("J6", "keys that cannot be had"),
    ("J7", "hostile tokens"),
    ("J8", "scope and scp; API Manager's claims"),
    ("J9", "where a token is; stripped, in no log"),
    ("J10", "expiry ends a stream"),
    ("J11", "revocation ends a stream"),
    ("J12", "API keys"),
    ("A1", "all versions, YAML and JSON, references"),
    ("A2", "one API in both versions is one model"),
    ("A3", "protocols from servers and bindings"),
    ("A4", "export reads back as an equal model"),
    ("A5", "payload schemas"),
    ("T1", "WebSocket: each message counts"),
    ("T2", "SSE: each event counts"),
    ("T3", "WebSub: each event counts, subscriptions are capped"),
    ("T4", "exact, also over a crash"),
    ("T5", "calendar windows; what is left is told"),
    ("T6", "over the limit"),
    ("T7", "bytes, connections, attempts, sizes, duration"),
    ("T8", "in a cluster"),
];

/// Can the Autobahn test suite run here?
pub fn has_autobahn() -> bool {
    autobahn::python2().is_some()
}

/// `[E14|E] [--json] [--list]`: one rule, or those of a letter.
pub fn run(args: &[String]) -> anyhow::Result<bool> {
    if let Some(("autobahn", rest)) = args.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        return autobahn::run(rest);
    }
    let is = |flag: &str| args.iter().any(|arg| arg == flag);
    let wanted = args.iter().find(|arg| !arg.starts_with("--"));
    let is_wanted = |rule: &str| match wanted {
        None => true,
        Some(one) if one.chars().all(char::is_alphabetic) => rule
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .eq_ignore_ascii_case(one),
        Some(one) => rule.eq_ignore_ascii_case(one),
    };
    let shown = shown(Path::new("crates"))?;
    let rules: Vec<&(&str, &str)> = RULES.iter().filter(|(rule, _)| is_wanted(rule)).collect();
    ensure!(
        !rules.is_empty(),
        "there is no rule '{}'",
        wanted.map_or("", |one| one)
    );
    let none = BTreeSet::new();
    let tests_of = |rule: &str| shown.get(rule).unwrap_or(&none);
    if is("--list") {
        for (rule, about) in rules {
            let tests: Vec<&str> = tests_of(rule).iter().map(String::as_str).collect();
            println!("{rule:<5} {about:<52} {}", tests.join(" "));
        }
        return Ok(true);
    }
    let tests: BTreeSet<&str> = rules
        .iter()
        .flat_map(|(rule, _)| tests_of(rule))
        .map(String::as_str)
        .collect();
    let outcomes = match tests.is_empty() {
        true => BTreeMap::new(),
        false => run_tests(&tests)?,
    };
    let mut failed = 0;
    let mut lines = Vec::new();
    for (rule, about) in &rules {
        let verdict = judge(tests_of(rule), &outcomes);
        failed += usize::from(verdict != PASSED);
        lines.push((*rule, *about, verdict));
    }
    if is("--json") {
        let lines = lines.iter().map(|(rule, about, verdict)| {
            json!({ "rule": rule, "about": about, "verdict": verdict, "tests": tests_of(rule) })
        });
        println!(
            "{}",
            json!({ "version": 1, "rules": lines.collect::<Vec<_>>() })
        );
    } else {
        for (rule, about, verdict) in &lines {
            let tests: Vec<&str> = tests_of(rule).iter().map(String::as_str).collect();
            println!("{rule:<5} {about:<52} {verdict:<8} {}", tests.join(" "));
        }
    }
    println!("{} passed, {failed} failed", lines.len() - failed);
    Ok(failed == 0)
}

const PASSED: &str = "passed";

fn judge(tests: &BTreeSet<String>, outcomes: &BTreeMap<String, bool>) -> &'static str {
    if tests.is_empty() {
        return "no test";
    }
    let is_passed = |test: &String| outcomes.get(test) == Some(&true);
    if tests.iter().all(is_passed) {
        PASSED
    } else {
        "FAILED"
    }
}

/// The tests of each rule, as they say themselves.
fn shown(crates: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources(crates)? {
        for (rule, test) in markers(&source.module, &source.text) {
            let is_known = RULES.iter().any(|(known, _)| *known == rule);
            ensure!(
                is_known,
                "{}: there is no rule '{rule}'",
                source.path.display()
            );
            shown.entry(rule).or_default().insert(test);
        }
    }
    Ok(shown)
}

/// Rules and tests of one file.
fn markers(module: &str, text: &str) -> Vec<(String, String)> {
    let (mut found, mut pending) = (Vec::new(), Vec::new());
    // Unit tests lie in a module of their file.
    let mut inner = String::new();
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("mod ")
            .and_then(|line| line.strip_suffix(" {"))
        {
            inner = format!("::{name}");
        } else if line == "}" {
            inner.clear();
        }
        let line = line.trim();
        if let Some(rules) = line.strip_prefix("// rules: ") {
            pending.extend(rules.split(',').map(|rule| rule.trim().to_owned()));
        } else if let Some(name) = function(line).or(line.strip_prefix("async ").and_then(function))
        {
            let test = format!("{module}{inner}::{name}");
            found.extend(pending.drain(..).map(|rule| (rule, test.clone())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_belongs_to_the_test_below_it() {
        let text = "// rules: E1, E2\n#[test]\nfn one() {\n}\n\nmod tests {\n    // rules: T4\n    #[tokio::test]\n    \
                    async fn two() {\n    }\n    fn three() {\n    }\n}\n";
        let found = markers("gateway::ring", text);
        let found: Vec<String> = found
            .iter()
            .map(|(rule, test)| format!("{rule} {test}"))
            .collect();
        assert_eq!(
            found,
            [
                "E1 gateway::ring::one",
                "E2 gateway::ring::one",
                "T4 gateway::ring::tests::two"
            ]
        );
    }

    #[test]
    fn a_rule_without_a_test_has_not_passed() {
        let outcomes = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]);
        let of = |tests: &[&str]| {
            judge(
                &tests.iter().map(|one| (*one).to_owned()).collect(),
                &outcomes,
            )
        };
        assert_eq!(
            [of(&[]), of(&["a"]), of(&["a", "b"]), of(&["c"])],
            ["no test", PASSED, "FAILED", "FAILED"]
        );
    }
}
