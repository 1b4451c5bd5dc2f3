//! The bill of materials and the sums of a release.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use super::Outcome;
use super::root::is_installed;
use crate::cargo::target_folder;
use crate::dist::files::sha256_of;
use crate::dist::{Release, checksums, output, sbom};

/// Validates a document against the schemas of CycloneDX.
const VALIDATE: &str = "import sys\n\
from cyclonedx.schema import SchemaVersion\n\
from cyclonedx.validation.json import JsonStrictValidator\n\
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())\n\
sys.exit(str(error) if error else 0)\n";

pub fn judged(release: &Release) -> anyhow::Result<Outcome> {
    let path = sbom::make(release)?;
    let json: Json = serde_json::from_slice(&std::fs::read(&path)?)?;
    let components = json["components"].as_array().context("no components")?;
    for name in ["tokio", "librdkafka", "SQLite", "zlib"] {
        let is_named = components.iter().any(|component| component["name"] == name);
        ensure!(is_named, "'{name}' is not named");
    }
    for tool in ["cc", "divan", "proptest", "syn"] {
        let is_named = components.iter().any(|component| component["name"] == tool);
        ensure!(!is_named, "'{tool}' is named, which is not linked");
    }
    let is_named = components
        .iter()
        .any(|component| component["name"] == "OpenSSL");
    ensure!(
        is_named == release.is_published,
        "OpenSSL is linked in, or named, without the other"
    );
    println!("{} components", components.len());
    for component in components {
        let is_ours = component["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("headwater-"));
        ensure!(component["licenses"].is_array(), "no licence: {component}");
        let is_crate = component["purl"]
            .as_str()
            .is_some_and(|url| url.starts_with("pkg:cargo"));
        ensure!(
            !is_crate || is_ours || component["hashes"].is_array(),
            "no sum: {component}"
        );
    }
    if !is_installed("python3") {
        return Ok(Outcome::Skipped(
            "'python3' is not installed to validate it".into(),
        ));
    }
    let dir = tempfile::tempdir()?;
    let python = dir.path().join("bin/python");
    output(Command::new("python3").args(["-m", "venv"]).arg(dir.path()))?;
    let library = "cyclonedx-python-lib[json-validation]";
    let mut install = Command::new(&python);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        library,
    ]);
    if let Err(error) = output(&mut install) {
        return Ok(Outcome::Skipped(format!(
            "{library} cannot be installed: {error:#}"
        )));
    }
    output(Command::new(&python).args(["-c", VALIDATE]).arg(&path))?;
    Ok(Outcome::Passed)
}

/// The program that is built once more, from nothing, is the same byte for byte.
pub fn again(release: &Release) -> anyhow::Result<Outcome> {
    if !release.is_published {
        return Ok(Outcome::Skipped("the program was named, not built".into()));
    }
    // In the same folder, of which OpenSSL knows the name.
    let (built, first) = (
        target_folder().join("dist"),
        target_folder().join("dist-first"),
    );
    if first.is_dir() {
        std::fs::remove_dir_all(&first)?;
    }
    let before = sha256_of(&release.binary.path)?;
    std::fs::rename(&built, &first)?;
    let second = Release::new(&release.out, None)?;
    let after = sha256_of(&second.binary.path)?;
    ensure!(
        before == after,
        "first {before}, then {after}: both are kept in dist-first and dist"
    );
    std::fs::remove_dir_all(&first)?;
    println!("{before} twice");
    Ok(Outcome::Passed)
}

pub fn summed(release: &Release) -> anyhow::Result<Outcome> {
    if release.out.read_dir()?.next().is_none() {
        sbom::make(release)?;
    }
    let path = checksums(release)?;
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--strict"])
        .arg(path.file_name().context("a name")?);
    println!("{}", output(check.current_dir(&release.out))?);
    Ok(Outcome::Passed)
}
