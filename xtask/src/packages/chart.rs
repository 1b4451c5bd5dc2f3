//! The chart for Kubernetes, as helm judges it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::Outcome;
use super::deb::takes;
use super::root::is_installed;
use crate::cargo::target_folder;
use crate::dist::{Release, helm, output};

/// Module and version of helm, for `go install`.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.19.0";

/// Settings that switch on what is off by default.
const EVERYTHING: &[&str] = &[
    "access.insecure=true",
    "existingApps=shop",
    "serviceMonitor.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.operators.matchLabels.team=operators",
    "appPorts[0].name=orders",
    "appPorts[0].port=8280",
    "persistence.storageClass=fast",
    "env[0].name=DB_PASSWORD",
    "env[0].value=x",
    "deployment.siddhi.properties.a=b",
];

pub fn judged(release: &Release) -> anyhow::Result<Outcome> {
    let Some(program) = program()? else {
        return Ok(Outcome::Skipped(
            "neither 'helm' nor 'go' to build it is installed".into(),
        ));
    };
    let chart = helm::make(release)?;
    let run = |args: &[&str]| output(Command::new(&program).args(args));
    let path = chart.to_str().context("a path with an odd name")?;
    let mut everything = Vec::new();
    EVERYTHING
        .iter()
        .for_each(|set| everything.extend(["--set", set]));
    run(&[&["lint", "--strict", path][..], &everything].concat())?;
    run(&["lint", "--strict", path])?;
    // As it is, anyone could come in: whoever installs it has to say that he wants that.
    let open = run(&["template", "shop", path]);
    ensure!(
        open.is_err(),
        "a server without logins is installed unasked"
    );
    let least = [
        "--set",
        "access.insecure=true",
        "--set",
        "apps.a\\.siddhi=x",
    ];
    let plain = run(&[&["template", "shop", path][..], &least].concat())?;
    ensure!(
        kinds(&plain)
            == [
                "ConfigMap",
                "ConfigMap",
                "Service",
                "Service",
                "ServiceAccount",
                "StatefulSet"
            ]
            .map(str::to_owned),
        "{:?}",
        kinds(&plain)
    );
    let all = run(&[&["template", "shop", path][..], &everything].concat())?;
    for kind in ["NetworkPolicy", "ServiceMonitor"] {
        ensure!(kinds(&all).iter().any(|one| one == kind), "no {kind}");
    }
    for line in [
        "terminationGracePeriodSeconds: 30",
        "path: /health",
        "path: /ready",
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "storageClassName: \"fast\"",
    ] {
        ensure!(all.contains(line), "the rendered chart has no '{line}'");
    }
    takes(release, &arguments(&all))?;
    let image = format!("image: \"headwater:{}\"", release.version);
    ensure!(all.contains(&image), "the rendered chart has no '{image}'");
    // What the schema of the settings does not know is a mistake.
    let wrong = [
        &["template", "shop", path, "--set", "grace=5"][..],
        &everything,
    ]
    .concat();
    let wrong = run(&wrong);
    ensure!(wrong.is_err(), "an unknown setting is taken");
    Ok(Outcome::Passed)
}

/// What the chart starts the program with.
fn arguments(text: &str) -> Vec<String> {
    let behind = text
        .lines()
        .skip_while(|line| line.trim() != "args:")
        .skip(1);
    let words = behind.map_while(|line| line.trim().strip_prefix("- "));
    words
        .map(|word| word.trim_matches('"').to_owned())
        .collect()
}

/// The kinds of objects in what helm renders, sorted.
fn kinds(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("kind: "));
    let mut kinds: Vec<String> = lines.map(str::to_owned).collect();
    kinds.sort();
    kinds
}

/// helm, built once by go where it is not installed.
fn program() -> anyhow::Result<Option<PathBuf>> {
    if is_installed("helm") {
        return Ok(Some("helm".into()));
    }
    let folder = std::path::absolute(target_folder().join("packages-tools"))?;
    let program = folder.join("helm");
    if program.is_file() {
        return Ok(Some(program));
    }
    if !is_installed("go") {
        return Ok(None);
    }
    println!("building {HELM}");
    output(
        Command::new("go")
            .args(["install", HELM])
            .env("GOBIN", &folder),
    )?;
    Ok(Some(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_where_the_list_ends() {
        let text = "  command: x\n  args:\n    - run\n    - \"a\"\n  ports:\n    - name: b\n";
        assert_eq!(arguments(text), ["run", "a"]);
    }
}
