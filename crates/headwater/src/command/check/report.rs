//! The findings of `check` for other programs: SARIF 2.1.0 for code scanning, and the annotations of
//! GitHub's workflows.

use std::path::Path;

use check::codes::{self, CodePage};
use lang::diagnostic::{Diagnostic, Severity};
use lang::source::{LineIndex, Position};
use lang::span::Span;
use serde_json::{Value as Json, json};
use server::deployment::LoadedApp;
use server::probe::Finding;

/// The rule of what `--connect` finds, which has no code.
const CONNECT: &str = "connect";

/// The rule of two apps with one name.
const SAME_NAME: &str = "same-name";

/// What was found, in whatever format it is said.
pub struct Found<'a> {
    pub apps: &'a [LoadedApp],
    /// Apps of one name, in words.
    pub twins: &'a [String],
    pub findings: &'a [Finding],
}

/// A SARIF log with one run.
pub fn sarif(found: &Found) -> Json {
    let mut rules: Vec<&str> = Vec::new();
    let mut results = Vec::new();
    for app in found.apps {
        let lines = LineIndex::new(&app.text);
        for diagnostic in &app.diagnostics {
            let rule = index_of(&mut rules, diagnostic.code);
            results.push(result(diagnostic, app, &lines, rule));
        }
    }
    for finding in found.findings {
        let index = index_of(&mut rules, CONNECT);
        let text = connect_words(finding);
        let mut result = bare_result(CONNECT, index, "error", &text);
        result["locations"] = json!([{"physicalLocation": {
            "artifactLocation": {"uri": uri(&finding.file)},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }}]);
        results.push(result);
    }
    for twins in found.twins {
        let index = index_of(&mut rules, SAME_NAME);
        results.push(bare_result(SAME_NAME, index, "error", twins));
    }
    let rules: Vec<Json> = rules.into_iter().map(rule).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "headwater",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn index_of<'c>(rules: &mut Vec<&'c str>, code: &'c str) -> usize {
    let known = rules.iter().position(|known| *known == code);
    known.unwrap_or_else(|| {
        rules.push(code);
        rules.len() - 1
    })
}

fn rule(code: &str) -> Json {
    let about = |title: &str, help: &str| {
        json!({
            "id": code,
            "shortDescription": {"text": title},
            "help": {"text": help},
            "defaultConfiguration": {"level": "error"},
        })
    };
    match codes::page(code) {
        Some(page) => page_rule(page),
        None if code == SAME_NAME => about(
            "two apps have the same name",
            "Give one of them another @app:name.",
        ),
        None => about(
            "something that an app uses cannot be reached, or is not as the app expects it",
            "Start it or correct the option; `headwater check --connect` tries again.",
        ),
    }
}

fn page_rule(page: &CodePage) -> Json {
    let text = format!("{} {}", page.cause, page.fix);
    let markdown = format!(
        "{}\n\n{}\n\nThis is reported:\n\n```sql\n{}\n```\n\nThis is not:\n\n```sql\n{}\n```\n",
        page.cause, page.fix, page.failing, page.fixed
    );
    json!({
        "id": page.code,
        "shortDescription": {"text": page.title},
        "fullDescription": {"text": page.cause},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": page.severity().name()},
    })
}

fn bare_result(code: &str, rule: usize, level: &str, text: &str) -> Json {
    json!({"ruleId": code, "ruleIndex": rule, "level": level, "message": {"text": text}})
}

fn result(diagnostic: &Diagnostic, app: &LoadedApp, lines: &LineIndex, rule: usize) -> Json {
    let text = words(diagnostic);
    let level = diagnostic.severity.name();
    let mut result = bare_result(diagnostic.code, rule, level, &text);
    let at = |span: Span| {
        json!({
            "artifactLocation": {"uri": uri(&app.file)},
            "region": region(span, app, lines),
        })
    };
    result["locations"] = json!([{"physicalLocation": at(diagnostic.span)}]);
    if !diagnostic.related.is_empty() {
        let related = diagnostic.related.iter().zip(1..).map(|((span, label), id)| {
            json!({"id": id, "physicalLocation": at(*span), "message": {"text": label}})
        });
        result["relatedLocations"] = related.collect();
    }
    if let Some(fix) = &diagnostic.fix {
        result["fixes"] = json!([{
            "description": {"text": diagnostic.help.as_deref().unwrap_or("replace this")},
            "artifactChanges": [{
                "artifactLocation": {"uri": uri(&app.file)},
                "replacements": [{
                    "deletedRegion": region(fix.span, app, lines),
                    "insertedContent": {"text": fix.replacement},
                }],
            }],
        }]);
    }
    result
}

/// The end is the column behind the last one, as in SARIF.
fn region(span: Span, app: &LoadedApp, lines: &LineIndex) -> Json {
    let start = lines.position(&app.text, span.start);
    let end = lines.position(&app.text, span.end.max(span.start));
    json!({
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    })
}

fn words(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.clone();
    if let Some(help) = &diagnostic.help {
        text.push_str(&format!("; {help}"));
    }
    text
}

fn connect_words(finding: &Finding) -> String {
    let Finding {
        app,
        element,
        message,
        ..
    } = finding;
    let help = finding.help.iter().map(|help| format!("; {help}"));
    let help: String = help.collect();
    format!("{app}/{element}: {message}{help}")
}

/// A relative path stays one, so that it is found below the root of any checkout.
fn uri(file: &str) -> String {
    let path = Path::new(file);
    let shown = file.strip_prefix("./").unwrap_or(file);
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "" });
    for byte in shown.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// One workflow command for each finding: GitHub shows it at its line of the pull request.
pub fn github(found: &Found) -> String {
    let mut out = String::new();
    for app in found.apps {
        let lines = LineIndex::new(&app.text);
        for diagnostic in &app.diagnostics {
            let start = lines.position(&app.text, diagnostic.span.start);
            let end = lines.position(&app.text, diagnostic.span.end);
            let level = match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let place = place(&app.file, start, Some(end));
            let text = words(diagnostic);
            out.push_str(&command(level, &place, diagnostic.code, &text));
        }
    }
    for finding in found.findings {
        let start = Position {
            line: finding.line,
            column: finding.column,
        };
        let place = place(&finding.file, start, None);
        out.push_str(&command("error", &place, CONNECT, &connect_words(finding)));
    }
    for twins in found.twins {
        out.push_str(&command("error", "", SAME_NAME, twins));
    }
    out
}

fn place(file: &str, start: Position, end: Option<Position>) -> String {
    let mut text = format!(
        "file={},line={},col={},",
        property(file.strip_prefix("./").unwrap_or(file)),
        start.line,
        start.column
    );
    if let Some(end) = end.filter(|end| end.line == start.line && end.column > start.column) {
        text.push_str(&format!("endLine={},endColumn={},", end.line, end.column));
    }
    text
}

fn command(level: &str, place: &str, title: &str, text: &str) -> String {
    format!(
        "::{level} {place}title={}::{}\n",
        property(title),
        data(text)
    )
}

/// What would end a message, as GitHub writes it.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_references_of_a_uri() {
        assert_eq!(uri("./apps/a b.siddhi"), "apps/a%20b.siddhi");
        assert_eq!(uri("/srv/ä#.siddhi"), "file:///srv/%C3%A4%23.siddhi");
    }

    #[test]
    fn a_message_stays_one_workflow_command() {
        let line = command("error", "file=a%2Cb,line=1,", "E0101", "50 %\n::error::x");
        assert_eq!(
            line,
            "::error file=a%2Cb,line=1,title=E0101::50 %25%0A::error::x\n"
        );
    }
}
