//! `headwater gateway import`: a project of API Manager's as a document, without a server.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use gateway::project::{self, Imported, Issuer};
use serde_json::json;

use super::args::{GatewayArgs, ImportArgs};
use crate::output::Output;

pub(super) fn run(args: &GatewayArgs, wanted: &ImportArgs, output: &Output) -> anyhow::Result<u8> {
    let issuer = Issuer {
        issuer: wanted.issuer.clone(),
        jwks: wanted.jwks.clone(),
    };
    let imported = match project::import(&wanted.project, &issuer) {
        Ok(imported) => imported,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            let path = wanted.project.display();
            output.error(&format!(
                "project '{path}': {error}{}",
                cause.unwrap_or_default()
            ));
            return Ok(1);
        }
    };
    let file = wanted
        .output
        .as_deref()
        .map(|folder| write(folder, &imported));
    let file = file.transpose()?;
    if args.json {
        output.print_json(&json!({
            "version": 1, "name": imported.name, "apiVersion": imported.version, "file": file,
            "document": file.is_none().then_some(&imported.document), "notes": imported.notes,
        }))?;
        return Ok(0);
    }
    match file {
        Some(file) => output.print(&format!("{file}\n"))?,
        None => output.print(&imported.document)?,
    }
    for note in &imported.notes {
        output.say(&format!("note: {note}"));
    }
    Ok(0)
}

/// Writes the document, for its owner alone where it has a secret. One that is there stays.
fn write(folder: &Path, imported: &Imported) -> anyhow::Result<String> {
    let name = format!("{}-{}.yaml", imported.name, imported.version);
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    let path = folder.join(name.trim_start_matches('.'));
    let mode = if imported.has_secret { 0o600 } else { 0o644 };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make folder '{}'", folder.display()))?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&path);
    let written = file.and_then(|mut file| file.write_all(imported.document.as_bytes()));
    written.with_context(|| format!("cannot write '{}'", path.display()))?;
    Ok(path.display().to_string())
}
