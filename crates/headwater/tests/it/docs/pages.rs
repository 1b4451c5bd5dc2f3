//! The pages of `docs/` whose commands need no more than this machine.

use std::fs;
use std::path::Path;

use super::run_page;

#[track_caller]
fn page(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs").join(name)).expect("the page is there");
    let dir = tempfile::tempdir().expect("a temporary directory");
    run_page(name, &page, dir.path());
}

#[test]
fn the_tutorial() {
    page("tutorial.md");
}

#[test]
fn sql() {
    page("sql.md");
}

#[test]
fn gateway() {
    page("gateway.md");
}

#[test]
fn gateway_access() {
    page("gateway-access.md");
}

#[test]
fn search() {
    page("search.md");
}

#[test]
fn batch_scripts() {
    page("batch-scripts.md");
}

#[test]
fn capps() {
    page("capps.md");
}

#[test]
fn sending() {
    page("sending.md");
}
