//! What cargo knows about the packages, without the network.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use crate::cargo::cargo;

#[derive(Default, Debug)]
pub struct Metadata {
    pub packages: Vec<Package>,
}

#[derive(Clone, Default, Debug)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// As the package says it: an SPDX expression.
    pub license: Option<String>,
    /// Sorted by name.
    pub features: Vec<String>,
    /// Packages that its library or program needs; not those of tests and build scripts.
    pub dependencies: Vec<String>,
    /// Comes from this repository.
    pub is_ours: bool,
}

impl Metadata {
    /// The packages of this repository.
    ///
    /// # Errors
    /// If cargo cannot read them.
    pub fn read() -> anyhow::Result<Metadata> {
        parse(&ask(&["--no-deps"])?)
    }

    /// With all that they are built from on this machine.
    ///
    /// # Errors
    /// If cargo has not fetched it yet.
    pub fn read_all() -> anyhow::Result<Metadata> {
        let output = Command::new("rustc").arg("-vV").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc does not say for which machine it builds")?;
        parse(&ask(&["--filter-platform", host])?)
    }

    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

fn ask(more: &[&str]) -> anyhow::Result<String> {
    let output = cargo(&["metadata", "--offline", "--format-version", "1"])
        .args(more)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: build first"
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn parse(text: &str) -> anyhow::Result<Metadata> {
    let json: Json = serde_json::from_str(text)?;
    // With dependencies, only those that are built here are named in `resolve`.
    let resolved: Option<Vec<&str>> = json["resolve"]["nodes"].as_array().map(|nodes| {
        nodes
            .iter()
            .filter_map(|node| node["id"].as_str())
            .collect()
    });
    let packages = json["packages"].as_array().context("no packages")?;
    let packages = packages.iter().filter(|package| {
        let id = package["id"].as_str().unwrap_or_default();
        resolved.as_ref().is_none_or(|ids| ids.contains(&id))
    });
    let mut packages: Vec<Package> = packages.map(package).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(Metadata { packages })
}

fn package(json: &Json) -> Package {
    let text = |key: &str| json[key].as_str().map(str::to_owned);
    let features = json["features"].as_object();
    let mut features: Vec<String> = features
        .into_iter()
        .flatten()
        .map(|(k, _)| k.clone())
        .collect();
    features.sort();
    let dependencies = json["dependencies"].as_array().into_iter().flatten();
    // `kind` is null where the library needs it.
    let dependencies = dependencies.filter(|dependency| dependency["kind"].is_null());
    Package {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        license: text("license"),
        features,
        dependencies: dependencies
            .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
            .collect(),
        is_ours: json["source"].is_null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_build_scripts_are_no_dependencies() {
        let text = r#"{"packages":[{"id":"a","name":"a","version":"1.0.0","license":"MIT","source":null,
            "features":{"b":[],"a":[]},"dependencies":[
            {"name":"x","kind":null},{"name":"y","kind":"dev"},{"name":"z","kind":"build"}]}]}"#;
        let metadata = parse(text).unwrap();
        let package = metadata.package("a").unwrap();
        assert_eq!(package.dependencies, ["x"]);
        assert_eq!(package.features, ["a", "b"]);
        assert!(package.is_ours);
    }
}
