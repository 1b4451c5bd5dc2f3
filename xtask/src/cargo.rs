//! Cargo, asked by a chore that cargo itself has started.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

/// Cargo as a person would call it. What the cargo around us has told of our own package is taken
/// away: a build script that reads it (that of `ring`) would run anew, and all that needs it with it.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args);
    for (name, _) in std::env::vars_os() {
        let is_ours = ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix));
        if is_ours {
            command.env_remove(name);
        }
    }
    command
}

/// Builds, and gives cargo's messages about the programs that came of it (see the format of
/// `--message-format json`, `compiler-artifact`).
pub fn build(args: &[&str]) -> anyhow::Result<Vec<Json>> {
    let output = cargo(args)
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "'cargo {}' failed", args.join(" "));
    let text = String::from_utf8(output.stdout)?;
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok());
    Ok(messages
        .filter(|message| message["executable"].is_string())
        .collect())
}

/// The program of this name among cargo's messages (those of `--message-format json`).
pub fn executable(messages: &[u8], name: &str) -> anyhow::Result<PathBuf> {
    let text = String::from_utf8_lossy(messages);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let path = messages
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    path.with_context(|| format!("cargo says not where it has put '{name}'"))
}

/// The folder that cargo builds in.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}
