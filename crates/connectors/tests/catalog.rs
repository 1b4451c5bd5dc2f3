//! The catalog tells the truth about what runs: what it says runs is there, what is there is said to
//! run, and every option of it names a test that exists.

use std::fs;
use std::path::{Path, PathBuf};

use headwater_connectors::{REGISTRY, specs};
use plan::spec::{ConnectorKind, ConnectorSpec, Status};

/// Topics inside the server are made by the server itself, `#log` is an output of the engine, and how a
/// sink is shared out belongs to no technology (`connect::distribution`).
fn is_made_elsewhere(spec: &ConnectorSpec) -> bool {
    spec.name == "inMemory"
        || spec.kind == ConnectorKind::Distribution
        || spec.kind == ConnectorKind::StreamFunction && spec.name == "log"
}

/// The specs of technologies and of mappers.
fn all() -> impl Iterator<Item = &'static ConnectorSpec> {
    specs().chain(connect::specs())
}

fn is_there(spec: &ConnectorSpec) -> bool {
    match spec.kind {
        ConnectorKind::SourceMapper | ConnectorKind::SinkMapper => {
            connect::mapper::MAPPERS.iter().any(|m| {
                m.specs()
                    .iter()
                    .any(|s| (s.kind, s.name) == (spec.kind, spec.name))
            })
        }
        ConnectorKind::StreamFunction | ConnectorKind::Function => {
            REGISTRY.effect(spec.name).is_some()
        }
        _ => REGISTRY.find(spec.kind, spec.name).is_some(),
    }
}

#[test]
fn what_runs_is_what_is_there() {
    let mut faults = Vec::new();
    for spec in all().filter(|s| !is_made_elsewhere(s)) {
        let says_runs = spec.status == Status::Runs;
        if says_runs != is_there(spec) {
            faults.push(format!(
                "{} '{}': {:?}",
                spec.kind.name(),
                spec.name,
                spec.status
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Is there a function of this name in the crate and module that the path names?
fn exists(test: &str) -> bool {
    let mut parts = test.split("::");
    let (Some(package), Some(name)) = (parts.next(), test.rsplit("::").next()) else {
        return false;
    };
    let module = parts.next().unwrap_or_default();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = match package {
        "xtask" => crates.join("../xtask"),
        _ => crates.join(package),
    };
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.iter().any(|path| {
        let is_of_module = path
            .strip_prefix(&root)
            .is_ok_and(|p| p.with_extension("").iter().any(|part| part == module));
        is_of_module
            && fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {name}(")))
    })
}

#[test]
fn every_option_of_what_runs_names_a_test() {
    let mut untested = Vec::new();
    let mut count = 0;
    for spec in all().filter(|s| s.status == Status::Runs) {
        for option in spec.all_options() {
            count += 1;
            let line = format!("{} {} {}", spec.kind.name(), spec.name, option.name);
            match option.test {
                "" => untested.push(line),
                test => assert!(exists(test), "{line}: no test '{test}'"),
            }
        }
    }
    assert!(count > 50, "there are such options");
    assert!(untested.is_empty(), "no test: {}", untested.join(", "));
}
