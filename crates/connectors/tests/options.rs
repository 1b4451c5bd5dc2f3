//! Defaults and ranges of options are in the specs alone: what code asks for by name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use connect::component::{Environment, SinkSetup, SourceSetup};
use connect::net::testing::{schema, transport};
use headwater_connectors::{REGISTRY, feature};
use lang::ast::Element;
use lang::parse;
use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType, Status};

/// The options that the example of a component writes.
fn example(spec: &ConnectorSpec) -> Vec<(String, String)> {
    let app = parse(spec.example).app;
    let streams = app.elements.iter().filter_map(|element| match element {
        Element::Stream(stream) => Some(stream),
        _ => None,
    });
    let annotation = streams
        .flat_map(|stream| &stream.annotations)
        .find(|a| a.value("type").is_some_and(|ty| ty.text == spec.name))
        .unwrap_or_else(|| panic!("the example of {} uses it", spec.name));
    let written = annotation.elements.iter().filter_map(|element| {
        let key = element.key.as_ref()?;
        Some((key.text.clone(), element.value.text.clone()))
    });
    written.filter(|(name, _)| name != "type").collect()
}

/// A value that the option may have, other than its default where it is a flag.
fn value(option: &OptionSpec) -> &'static str {
    match (option.ty, option.default) {
        (OptionType::Bool, "true") => "false",
        (OptionType::Bool, _) => "true",
        (OptionType::OneOf(values), _) => values[values.len() - 1],
        (_, "") => "1",
        (_, default) => default,
    }
}

/// Makes the component; only a panic matters.
fn make(spec: &ConnectorSpec, options: &[(String, String)]) {
    let connector = REGISTRY.find(spec.kind, spec.name).expect("it runs");
    let options: Vec<(&str, &str)> = options
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let (transport, schema) = (transport(spec.name, &options), schema());
    let environment = Environment::new("A");
    let (transport, schema, environment) = (&transport, &schema, &environment);
    if spec.kind == ConnectorKind::Source {
        let setup = SourceSetup {
            transport,
            schema,
            environment,
        };
        drop(connector.source(&setup));
    } else {
        let answers = Default::default();
        let setup = SinkSetup {
            transport,
            schema,
            dynamic: &[],
            table: None,
            answers: &answers,
            environment,
        };
        drop(connector.sink(&setup));
    }
}

/// A constructor that asks for the default of an option that its spec does not have panics.
#[test]
fn components_are_made_with_each_of_their_options() {
    let specs = REGISTRY.connectors.iter().flat_map(|c| c.specs());
    let transports = [ConnectorKind::Source, ConnectorKind::Sink];
    let runs = |spec: &&ConnectorSpec| {
        spec.status == Status::Runs && transports.contains(&spec.kind) && !spec.example.is_empty()
    };
    for spec in specs.filter(runs) {
        let written = example(spec);
        make(spec, &written);
        for option in spec.all_options().filter(|o| !o.name.ends_with('*')) {
            let mut options = written.clone();
            options.retain(|(name, _)| name != option.name);
            options.push((option.name.to_owned(), value(option).to_owned()));
            make(spec, &options);
        }
    }
}

/// The names that the sources of a file ask defaults for.
fn asked(path: &Path, names: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder of the sources") {
            asked(&entry.expect("an entry").path(), names);
        }
    } else if path.extension().is_some_and(|ending| ending == "rs") {
        let text = fs::read_to_string(path).expect("a source");
        let calls = [
            "number",
            "optional",
            "millis",
            "flag",
            "bool",
            "default",
            "text_or_default",
        ];
        // White space between the parts of a call is the choice of rustfmt.
        let text: String = text.split_whitespace().collect();
        for reader in ["settings.", "options."] {
            for part in text.split(reader).skip(1) {
                let Some((call, rest)) = part.split_once("(\"") else {
                    continue;
                };
                let call = call.split("::<").next().unwrap_or(call);
                if calls.contains(&call) {
                    let name = rest.split('"').next().expect("a name");
                    names.insert(name.to_owned());
                }
            }
        }
    }
}

fn missing(folder: &Path, specs: &[&ConnectorSpec], faults: &mut Vec<String>) -> usize {
    let mut names = BTreeSet::new();
    asked(folder, &mut names);
    for name in &names {
        if !specs.iter().any(|spec| spec.option(name).is_some()) {
            faults.push(format!("{}: '{name}'", folder.display()));
        }
    }
    names.len()
}

#[test]
fn names_that_code_asks_for_are_in_the_specs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    let mut count = 0;
    let all: Vec<&ConnectorSpec> = REGISTRY.connectors.iter().flat_map(|c| c.specs()).collect();
    let folders: BTreeSet<&str> = all.iter().map(|spec| feature(spec)).collect();
    for folder in folders {
        let of_folder = |spec: &&&ConnectorSpec| feature(spec) == folder;
        let specs: Vec<_> = all.iter().filter(of_folder).copied().collect();
        let path = root.join("src").join(folder);
        if path.is_dir() {
            count += missing(&path, &specs, &mut faults);
        }
    }
    for mapper in connect::mapper::MAPPERS {
        let specs: Vec<_> = mapper.specs().iter().collect();
        let name = specs[0].name.replace("passThrough", "pass_through");
        let path = root.join("../connect/src/mapper").join(name);
        let path = match path.is_dir() {
            true => path,
            false => path.with_extension("rs"),
        };
        count += missing(&path, &specs, &mut faults);
    }
    assert!(faults.is_empty(), "no spec has {}", faults.join(", "));
    assert!(count > 80, "only {count} names were found");
}

/// Each default is a value that `check` would let pass.
#[test]
fn defaults_are_in_their_ranges() {
    let specs = REGISTRY.connectors.iter().flat_map(|c| c.specs());
    for option in specs.flat_map(|spec| spec.all_options()) {
        let text = option.default;
        let is_read = text.is_empty()
            || match option.ty {
                OptionType::Bool => text == "true" || text == "false",
                OptionType::Int => text.parse::<i32>().is_ok(),
                OptionType::Long | OptionType::Millis | OptionType::Bytes => {
                    text.parse::<i64>().is_ok()
                }
                OptionType::Double => text.parse::<f64>().is_ok(),
                OptionType::OneOf(values) => values.iter().any(|v| v.eq_ignore_ascii_case(text)),
                _ => true,
            };
        assert!(
            is_read && option.has_in_range(text),
            "{}: '{text}'",
            option.name
        );
    }
}
