//! The pages of `headwater explain`: each failing example gives its code, each fixed one does not.

use headwater_lang::catalog::Catalog;
use headwater_lang::check::{CheckConfig, check, check_on_demand};
use headwater_lang::codes::{CODES, CodePage, Example};
use headwater_lang::diagnostic::{Diagnostic, Severity};
use headwater_lang::{parse, parse_on_demand, substitute};

/// The app that on-demand queries are asked of.
const TABLES: &str = "define table Table (a int); define table U (a int);";

fn findings(example: Example, text: &str) -> Vec<Diagnostic> {
    let catalog = Catalog::new([]);
    let app = match example {
        Example::App => text,
        Example::OnDemand => TABLES,
    };
    let (substituted, mut found) =
        substitute(app, &|name| (name == "DATA_DIR").then(|| "in".to_owned()));
    let parsed = parse(&substituted.text);
    let config = CheckConfig {
        syntax_faults: parsed.diagnostics.iter().map(|d| d.span).collect(),
        ..CheckConfig::default()
    };
    let checked = check(&parsed.app, &catalog, &config);
    match example {
        Example::App => {
            found.extend(parsed.diagnostics);
            found.extend(checked.diagnostics);
        }
        Example::OnDemand => {
            let (query, diagnostics) = parse_on_demand(text);
            found.extend(diagnostics);
            if let (Some(query), Some(plan)) = (query, checked.plan) {
                found.extend(check_on_demand(&query, &plan, &catalog).diagnostics);
            }
        }
    }
    found
}

fn faults_of(page: &CodePage) -> Vec<String> {
    let mut faults = Vec::new();
    let codes = |text| -> Vec<&str> {
        findings(page.example, text)
            .iter()
            .map(|d| d.code)
            .collect()
    };
    let failing = codes(page.failing);
    if !failing.contains(&page.code) {
        faults.push(format!(
            "{}: the failing example gives {failing:?}",
            page.code
        ));
    }
    let fixed = findings(page.example, page.fixed);
    if let Some(left) = fixed.iter().find(|d| d.code == page.code) {
        faults.push(format!(
            "{}: the fixed example gives '{}'",
            page.code, left.message
        ));
    }
    // The examples of the grammar are not complete apps.
    let is_syntax = page.code[1..].starts_with("01");
    if let Some(other) = fixed
        .iter()
        .find(|d| d.severity == Severity::Error && !is_syntax)
    {
        faults.push(format!(
            "{}: the fixed example is refused: {} {}",
            page.code, other.code, other.message
        ));
    }
    faults
}

#[test]
fn examples_show_what_their_pages_say() {
    let faults: Vec<String> = CODES.iter().flat_map(faults_of).collect();
    println!("{} pages", CODES.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
