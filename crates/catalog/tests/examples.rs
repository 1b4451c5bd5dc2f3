//! The examples of the catalog's specs are apps that are accepted.

use check::{CheckConfig, check};
use headwater_catalog::{connector_specs, full};
use lang::diagnostic::Severity;
use lang::parse;
use plan::spec::{ConnectorKind, ConnectorSpec, OptionStatus, Status};

/// The streams that the examples of stream functions and functions read.
const INPUTS: &str = "define stream Done (path string);
define stream Trades (symbol string, price double);
";

/// The example as a whole app.
fn app(spec: &ConnectorSpec) -> String {
    match spec.kind {
        ConnectorKind::StreamFunction => format!("{INPUTS}{}", spec.example),
        ConnectorKind::Function => {
            format!("{INPUTS}from Done select {} insert into Out;", spec.example)
        }
        _ => spec.example.to_owned(),
    }
}

#[test]
fn examples_are_accepted_and_use_what_they_show() {
    let catalog = full();
    let mut faults = Vec::new();
    for spec in connector_specs().filter(|c| !c.example.is_empty()) {
        let text = app(spec);
        let parsed = parse(&text);
        let checked = check(&parsed.app, &catalog, &CheckConfig::default());
        let all = parsed.diagnostics.iter().chain(&checked.diagnostics);
        for d in all.filter(|d| d.severity == Severity::Error || d.code.starts_with("W05")) {
            faults.push(format!(
                "{} {}: {} {}",
                spec.kind.name(),
                spec.name,
                d.code,
                d.message
            ));
        }
        if !text.contains(spec.name) {
            faults.push(format!("the example of {} does not use it", spec.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_component_has_an_example() {
    let without: Vec<&str> = connector_specs()
        .filter(|c| c.status == Status::Runs && c.example.is_empty())
        .map(|c| c.name)
        .collect();
    assert!(without.is_empty(), "no example: {}", without.join(", "));
}

/// The first annotation of the example that uses the component, with one option more.
fn with_option(spec: &ConnectorSpec, name: &str, value: &str) -> String {
    let text = app(spec);
    let ty = format!("type='{}'", spec.name);
    let more = format!("{ty}, {name}='{value}'");
    assert!(text.contains(&ty), "the example of {} uses it", spec.name);
    text.replacen(&ty, &more, 1)
}

#[test]
fn options_without_effect_are_named_in_a_warning() {
    let catalog = full();
    let mut count = 0;
    for spec in connector_specs().filter(|spec| spec.status == Status::Runs) {
        let ignored = |status| status == OptionStatus::Ignored;
        for option in spec.all_options().filter(|option| ignored(option.status)) {
            count += 1;
            let value = match option.default {
                "" => "1",
                default => default,
            };
            let text = with_option(spec, option.name, value);
            let parsed = parse(&text);
            let checked = check(&parsed.app, &catalog, &CheckConfig::default());
            let start = format!("option '{}' of ", option.name);
            let is_named = checked.diagnostics.iter().any(|found| {
                found.severity == Severity::Warning
                    && found.message.starts_with(&start)
                    && found.message.ends_with(" has no effect")
            });
            assert!(is_named, "{text}: {:?}", checked.diagnostics);
        }
    }
    assert!(count > 0, "there are such options");
}
