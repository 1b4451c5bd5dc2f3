//! `headwater new`: each template is formatted, and the commands of its README.md do what it says.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;

use super::run_page;
use crate::network::{free_port, text};

fn headwater(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .current_dir(dir)
        .output()
        .expect("the binary starts")
}

fn names() -> Vec<String> {
    let output = headwater(&["new", "--json"], Path::new("."));
    let list: Json = serde_json::from_slice(&output.stdout).expect("one document");
    let templates = list["templates"].as_array().expect("a list").iter();
    let names = templates.filter_map(|t| t["name"].as_str().map(str::to_owned));
    names.collect()
}

/// Ports that templates listen on.
const PORTS: [&str; 2] = ["8280", "8281"];

#[track_caller]
fn try_out(name: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let made = headwater(&["new", name, "here"], dir.path());
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let said = text(&made.stdout);
    assert!(said.contains("  cd here\n  headwater check .\n"), "{said}");
    let dir = dir.path().join("here");
    let formatted = headwater(&["fmt", "--check", "."], &dir);
    assert_eq!(
        formatted.status.code(),
        Some(0),
        "{}",
        text(&formatted.stderr)
    );
    let made = fs::read_to_string(dir.join("README.md")).expect("every template has one");
    assert!(!made.contains("<!--"), "{made}");
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    fs::copy(
        templates.join(name).join("README.md"),
        dir.join("README.md"),
    )
    .expect("it is there");
    // Tests run beside each other: each gets ports of its own.
    let ports = PORTS.map(|port| (port, free_port().to_string()));
    for entry in fs::read_dir(&dir).expect("it is there") {
        let path = entry.expect("an entry").path();
        let mut content = fs::read_to_string(&path).expect("it is text");
        for (port, free) in &ports {
            content = content.replace(port, free);
        }
        fs::write(&path, content).expect("it can be written");
    }
    let page = fs::read_to_string(dir.join("README.md")).expect("every template has one");
    run_page(name, &page, &dir);
}

#[test]
fn each_template_runs_as_its_readme_says() {
    let names = names();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        try_out(&name);
    }
}

#[test]
fn templates_are_listed_and_never_overwrite() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let list = headwater(&["new"], dir.path());
    assert_eq!(list.status.code(), Some(0));
    let listed = text(&list.stdout);
    assert_eq!(listed.lines().count(), names().len(), "{listed}");
    assert!(listed.contains("file-etl  "), "{listed}");

    assert_eq!(
        headwater(&["new", "windows"], dir.path()).status.code(),
        Some(0)
    );
    let file = dir.path().join("windows/windows.siddhi");
    fs::write(&file, "mine").expect("it is there");
    let again = headwater(&["new", "windows"], dir.path());
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is not overwritten"));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "mine");

    let unknown = headwater(&["new", "window"], dir.path());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean 'windows'?"));
}
