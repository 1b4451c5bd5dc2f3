//! The pages of `headwater explain E0123`: the failing example of each gives its code, and the
//! fixed one is clean.

use headwater_check::codes::{CODES, CodePage, Example};
use headwater_check::{CheckConfig, ScriptFault, check, check_on_demand, fix};
use lang::diagnostic::{Diagnostic, Severity};

/// What on-demand queries of examples are asked of.
const APP: &str = "define stream S (a int); define table T (a int); \
    define table Table (a int); define table U (a int);";

fn config(diagnostics: &[Diagnostic]) -> CheckConfig {
    CheckConfig {
        properties: Some(std::collections::BTreeMap::new()),
        // Stands for the script language, which is not part of this crate.
        script_fault: Some(|body| {
            body.contains("= ;").then(|| ScriptFault {
                line: 0,
                message: "unexpected token".to_owned(),
            })
        }),
        syntax_faults: diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(|d| d.span)
            .collect(),
        ..CheckConfig::default()
    }
}

/// Pages whose examples are apps or queries; documents are judged by the crate that reads them.
fn judged() -> impl Iterator<Item = &'static CodePage> {
    CODES
        .iter()
        .filter(|page| page.example != Example::Document)
}

fn diagnose(
    page: &CodePage,
    text: &str,
    variable: Option<&str>,
) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let catalog = catalog::full();
    match page.example {
        Example::App => {
            let (substituted, mut found) = lang::substitute(text, &|_| variable.map(str::to_owned));
            let parsed = lang::parse(&substituted.text);
            found.extend(parsed.diagnostics);
            // What depends on the configuration of the server is told only where it is known.
            let mut config = config(&found);
            if page.code == "W0715" {
                config.properties = None;
            }
            (found, check(&parsed.app, &catalog, &config).diagnostics)
        }
        Example::OnDemand => {
            let app = check(&lang::parse(APP).app, &catalog, &CheckConfig::default());
            let (query, found) = lang::parse_on_demand(text);
            let plan = app.plan.expect("the app is right");
            let checked = query
                .map(|q| check_on_demand(&q, &plan, &catalog).diagnostics)
                .unwrap_or_default();
            (found, checked)
        }
        Example::Document => (Vec::new(), Vec::new()),
    }
}

/// What is known but does not run: without an engine beside it, nothing does.
fn is_pending(d: &Diagnostic) -> bool {
    d.code == "W0902"
}

fn shown(diagnostics: &[Diagnostic], text: &str) -> String {
    diagnostics
        .iter()
        .map(|d| format!("  {} {} | {}\n", d.code, d.message, d.span.text(text)))
        .collect()
}

#[test]
fn examples_of_every_code() {
    let mut wrong = Vec::new();
    for page in judged() {
        let (parsed, checked) = diagnose(page, page.failing, None);
        if !parsed.iter().chain(&checked).any(|d| d.code == page.code) {
            wrong.push(format!("{} is not given by\n{}\n", page.code, page.failing));
        }
        let all: Vec<Diagnostic> = parsed.into_iter().chain(checked).collect();
        let others: Vec<Diagnostic> = all
            .into_iter()
            .filter(|d| d.code != page.code && !is_pending(d))
            .collect();
        if !others.is_empty() {
            let shown = shown(&others, page.failing);
            wrong.push(format!(
                "{}: noise from\n{}\n{shown}",
                page.code, page.failing
            ));
        }
        let (mut left, checked) = diagnose(page, page.fixed, Some("data"));
        left.extend(checked);
        left.retain(|d| !is_pending(d));
        if !left.is_empty() {
            let shown = shown(&left, page.fixed);
            wrong.push(format!(
                "{} is not clean when fixed\n{}\n{shown}",
                page.code, page.fixed
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A fix repairs what it is given for: the code is gone, and no error comes in its place.
#[test]
fn fixes_of_every_code() {
    let mut wrong = Vec::new();
    for page in judged() {
        let (parsed, checked) = diagnose(page, page.failing, None);
        let all: Vec<Diagnostic> = parsed.into_iter().chain(checked).collect();
        let Some(fix) = all
            .iter()
            .filter(|d| d.code == page.code)
            .find_map(|d| d.fix.clone())
        else {
            continue;
        };
        let (start, end) = (fix.span.start as usize, fix.span.end as usize);
        let mut mended = page.failing.to_owned();
        mended.replace_range(start..end, &fix.replacement);
        let before = all.iter().filter(|d| d.code == page.code).count();
        let (mut left, checked) = diagnose(page, &mended, None);
        left.extend(checked);
        left.retain(|d| !is_pending(d));
        let same = left.iter().filter(|d| d.code == page.code).count();
        let others = left
            .iter()
            .any(|d| d.code != page.code && d.severity == Severity::Error);
        if same >= before || others {
            let shown = shown(&left, &mended);
            wrong.push(format!("{}: the fix makes\n{mended}\n{shown}", page.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `check --fix` leaves no error in the example of a code that has a fix.
#[test]
fn fixed_examples_have_no_error() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in CODES.iter().filter(|page| page.example == Example::App) {
        let judge = |text: &str| {
            let (parsed, checked) = diagnose(page, text, None);
            parsed.into_iter().chain(checked).collect::<Vec<_>>()
        };
        let is_error = |d: &Diagnostic| d.severity == Severity::Error;
        let found = judge(page.failing);
        if !found.iter().any(|d| is_error(d) && d.fix.is_some()) {
            continue;
        }
        count += 1;
        let after = fix::apply(page.failing, &judge).map(|fixed| fixed.text);
        let left = judge(after.as_deref().unwrap_or(page.failing));
        if left.iter().any(is_error) {
            wrong.push(format!("{}: {after:?}", page.code));
        }
    }
    assert!(count >= 40, "{count} codes have a fix");
    assert!(
        wrong.is_empty(),
        "{} of {count}: {}",
        wrong.len(),
        wrong.join("\n")
    );
}
