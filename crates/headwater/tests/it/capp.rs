//! CApps of WSO2 DAS at the commands: what runs is on the page `docs/capps.md`, here is what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use crate::network::text;

const ARTIFACTS: &str = "<artifacts><artifact name=\"Shop\"/></artifacts>";

const STREAM: &str = r#"{"name":"org.shop","payloadData":[{"name":"item","type":"STRING"}]}"#;

/// A script whose second statement names no table; the place is that of its file.
const WRONG: &str =
    "<Analytics><Name>wrong</Name>\n<Script>\n  SELECT 1;\n  SELEC 2;\n</Script></Analytics>";

const SCRIPT: &str = "<Analytics><Name>right</Name><Script>SELECT 1;</Script></Analytics>";

/// A folder with a CApp of these files.
fn place(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let all = [&[("artifacts.xml", ARTIFACTS)], files].concat();
    for (name, text) in &all {
        let path = dir.path().join("capp").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    // Python's standard library has the command that makes a zip of folders.
    let zipped = Command::new("python3")
        .args(["-m", "zipfile", "-c", "../shop.car"])
        .args(
            all.iter()
                .map(|(name, _)| name.split('/').next().expect("a name")),
        )
        .current_dir(dir.path().join("capp"))
        .status()
        .expect("python3 starts");
    assert!(zipped.success());
    dir
}

fn headwater(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(args).current_dir(dir);
    command.output().expect("headwater starts")
}

#[track_caller]
fn refused(dir: &Path, args: &[&str], code: i32, part: &str) {
    let output = headwater(dir, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(part), "{part}: {said}");
}

#[test]
fn what_a_capp_cannot_do_is_said() {
    let place = place(&[("s/s.json", STREAM), ("a/script.xml", WRONG)]);
    let dir = place.path();
    for args in [
        &["check", "shop.car"][..],
        &["run", "shop.car", "--store", "data"],
    ] {
        refused(dir, args, 1, "a/script.xml:4:3");
    }
    refused(
        dir,
        &["run", "shop.car"],
        2,
        "'a/script.xml' of a CApp works on an event store: give --store DIR",
    );
    let until_done = ["run", "shop.car", "--store", "data", "--until-done"];
    refused(dir, &until_done, 2, "leave --until-done out");
    // What would write an app over the CApp does not.
    let before = fs::read(dir.join("shop.car")).expect("a file");
    for args in [&["fmt", "shop.car"][..], &["check", "shop.car", "--fix"]] {
        refused(dir, args, 2, "'shop.car' is a CApp and is not changed");
    }
    assert!(fs::read(dir.join("shop.car")).expect("a file") == before);
}

#[test]
fn a_capp_becomes_files() {
    let place = place(&[
        ("s/s.json", STREAM),
        ("a/script.xml", SCRIPT),
        ("p/publisher.xml", "<eventPublisher name=\"log\"/>"),
    ]);
    let dir = place.path();
    let output = headwater(dir, &["import", "shop.car", "--output", "shop", "--json"]);
    let document: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        document["files"],
        json!(["shop/Shop.siddhi", "shop/scripts/script.xml"])
    );
    assert_eq!(document["app"], Json::Null);
    let note = document["notes"][0].as_str().expect("a note");
    assert!(
        note.starts_with("p/publisher.xml is not taken over"),
        "{note}"
    );
    let app = fs::read_to_string(dir.join("shop/Shop.siddhi")).expect("a file");
    assert_eq!(
        app,
        "@app:name('Shop')\n\ndefine stream org_shop (`item` string);\n"
    );
    assert_eq!(
        fs::read_to_string(dir.join("shop/scripts/script.xml")).expect("a file"),
        SCRIPT
    );
    refused(
        dir,
        &["import", "shop.car", "--output", "shop"],
        1,
        "cannot write 'shop/Shop.siddhi'",
    );
}
