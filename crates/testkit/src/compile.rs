//! From the text of a case or test to a plan.

use std::collections::BTreeMap;

use check::Catalog;
use check::validate::Deployed;
use check::{CheckConfig, check};
use lang::ast;
use lang::diagnostic::{Diagnostic, Severity};
use lang::parser::{Entry, parse_as};
use lang::substitute::APP_DIR;
use plan::{OnDemand, Plan};

use crate::case::{AppCase, Config};
use crate::event_store::EVENT_STORE;
use crate::mode::Mode;
use crate::outcome::Status;

/// The components of the caller, and the stores of tests.
pub fn with_stores(catalog: &Catalog) -> Catalog {
    crate::stores::SPECS
        .into_iter()
        .fold(catalog.clone(), Catalog::with_connector)
}

/// The plan of a recorded case, or how it ends without one.
pub fn plan(text: &str, case: &AppCase, catalog: &Catalog) -> Result<Plan, Status> {
    let plan = checked(text, catalog, &config(&case.config), &|_| None).map_err(|faults| {
        Status::Refused(
            faults
                .into_iter()
                .map(|d| format!("{} {}", d.code, d.message))
                .collect(),
        )
    })?;
    match plan.not_runnable.as_slice() {
        [] => Ok(plan),
        features => {
            let mut names: Vec<&str> = features.iter().map(|(name, _)| name.as_str()).collect();
            names.dedup();
            Err(Status::NotThereYet(names.join(", ")))
        }
    }
}

/// A plan as a test runs it: tables of external stores are kept in memory, those of the test kit's
/// own behind the interface of stores, and what does not run yet is named. Those of the event store are
/// kept there in the mode that is about it.
pub fn for_test(mut plan: Plan, mode: Mode) -> Result<Plan, String> {
    let is_kept = |ty: &str| match ty {
        EVENT_STORE => mode == Mode::EventStore,
        _ => crate::stores::is_of_tests(ty),
    };
    for table in &mut plan.tables {
        table.store = table.store.take().filter(|store| is_kept(&store.ty));
    }
    match plan.not_runnable.first() {
        None => Ok(plan),
        Some((name, _)) => Err(format!("{name} does not run yet")),
    }
}

/// What is known beside the app of a test.
pub fn test_config() -> CheckConfig {
    CheckConfig {
        script_fault: Some(script::fault),
        // What Siddhi passes over does not keep a recorded case from running.
        is_lenient: true,
        ..CheckConfig::default()
    }
}

/// Parses and checks; the errors, where there are any. `variables` has the values of `${NAME}`.
pub fn checked(
    text: &str,
    catalog: &Catalog,
    config: &CheckConfig,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Plan, Vec<Diagnostic>> {
    checked_as(text, catalog, config, variables, &|_| {})
}

/// As [`checked`], for an app that is changed between the two.
pub fn checked_as(
    text: &str,
    catalog: &Catalog,
    config: &CheckConfig,
    variables: &dyn Fn(&str) -> Option<String>,
    change: &dyn Fn(&mut ast::App),
) -> Result<Plan, Vec<Diagnostic>> {
    let is_error = |d: &Diagnostic| d.severity == Severity::Error;
    // No file is opened in a test.
    let variable = |name: &str| match name {
        APP_DIR => Some(".".to_owned()),
        name => variables(name),
    };
    let (text, faults) = lang::substitute(text, &variable);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut parsed = lang::parse(&text.text);
    if parsed.diagnostics.iter().any(is_error) {
        return Err(parsed.diagnostics.into_iter().filter(is_error).collect());
    }
    change(&mut parsed.app);
    let checked = check(&parsed.app, catalog, config);
    match checked.plan {
        Some(plan) => Ok(plan),
        None => Err(checked.diagnostics.into_iter().filter(is_error).collect()),
    }
}

/// An on-demand query, checked against the app that is to answer it; else its faults in words.
pub fn on_demand(text: &str, plan: &Plan, catalog: &Catalog) -> Result<OnDemand, String> {
    let words = |faults: Vec<Diagnostic>| -> String {
        let errors = faults.iter().filter(|d| d.severity == Severity::Error);
        let errors: Vec<String> = errors
            .map(|d| format!("{} {}", d.code, d.message))
            .collect();
        errors.join("; ")
    };
    let (query, faults) = lang::parser::parse_on_demand(text);
    let Some(query) = query.filter(|_| !faults.iter().any(|d| d.severity == Severity::Error))
    else {
        return Err(words(faults));
    };
    let checked = check::check_on_demand(&query, plan, catalog);
    checked.query.ok_or_else(|| words(checked.diagnostics))
}

/// The faults of a text by one of the entry points of Siddhi's compiler.
pub fn parse_entry(entry: &str, text: &str) -> Vec<String> {
    let Some(entry) = Entry::from_name(entry) else {
        return vec![format!("no entry point '{entry}'")];
    };
    parse_as(entry, text)
        .into_iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| d.message)
        .collect()
}

fn config(config: &Config) -> CheckConfig {
    let mut refs: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (key, value) in &config.systems {
        if let Some((name, option)) = key.split_once('.') {
            refs.entry(name.to_owned())
                .or_default()
                .push((option.to_owned(), value.clone()));
        }
    }
    CheckConfig {
        script_fault: Some(script::fault),
        deployed: Deployed {
            refs,
            ..Deployed::default()
        },
        properties: Some(config.properties.iter().cloned().collect()),
        // What Siddhi passes over does not keep a recorded case from running.
        is_lenient: true,
        ..CheckConfig::default()
    }
}
