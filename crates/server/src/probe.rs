//! `check --connect`: can what the apps name be reached?
//!
//! Looks at folders and files and opens databases that are there; makes nothing and moves nothing.

use std::path::Path;

use connect::file::uri::local_path;
use lang::plan::{Plan, Transport};

use crate::deployment::LoadedApp;

/// What cannot be reached, one line each.
pub fn unreached(apps: &[LoadedApp]) -> Vec<String> {
    apps.iter()
        .filter_map(|app| app.plan.as_ref())
        .flat_map(plan)
        .collect()
}

fn plan(plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for stream in &plan.streams {
        let name = stream.display_name();
        for source in stream.sources.iter().filter(|s| s.ty == "file") {
            if let Err(cause) = file_source(source) {
                found.push(format!("{}/{name}: source 'file': {cause}", plan.name));
            }
        }
        for sink in stream.sinks.iter().filter(|s| s.ty == "file") {
            if let Err(cause) = file_sink(sink) {
                found.push(format!("{}/{name}: sink 'file': {cause}", plan.name));
            }
        }
    }
    for table in &plan.tables {
        let url = table.store.as_ref().and_then(|s| s.option("jdbc.url"));
        if let Some(path) = url.and_then(|u| u.strip_prefix("jdbc:sqlite:"))
            && let Err(cause) = writable_below(Path::new(path))
        {
            let name = &table.schema.name;
            found.push(format!("{}/{name}: store 'rdbms': {cause}", plan.name));
        }
    }
    found
}

fn file_source(source: &Transport) -> Result<(), String> {
    for option in ["dir.uri", "file.uri"] {
        let Some(uri) = source.option(option) else {
            continue;
        };
        let path = local_path(uri).map_err(|e| e.to_string())?;
        let is_there = if option == "dir.uri" {
            path.is_dir()
        } else {
            std::fs::File::open(&path).is_ok()
        };
        if !is_there {
            return Err(format!(
                "'{}' of option '{option}' cannot be read",
                path.display()
            ));
        }
    }
    Ok(())
}

fn file_sink(sink: &Transport) -> Result<(), String> {
    match sink.option("file.uri") {
        Some(uri) if !uri.contains("{{") => {
            writable_below(&local_path(uri).map_err(|e| e.to_string())?)
        }
        _ => Ok(()),
    }
}

/// The file, or the nearest folder above it that exists, may be written.
fn writable_below(path: &Path) -> Result<(), String> {
    let existing = path.ancestors().find(|p| p.exists());
    let existing = match existing {
        Some(existing) => existing,
        // A bare name: the current directory.
        None => Path::new("."),
    };
    let refused = |cause: String| format!("'{}' cannot be written: {cause}", path.display());
    if existing.is_file() {
        let opened = std::fs::File::options().append(true).open(existing);
        return opened.map(drop).map_err(|e| refused(e.to_string()));
    }
    let permissions = std::fs::metadata(existing).map_err(|e| refused(e.to_string()))?;
    if permissions.permissions().readonly() {
        return Err(refused(format!("'{}' is read-only", existing.display())));
    }
    Ok(())
}

/// Bytes that a file source finds at its start, for the progress bar; 0 where that is not known.
pub(crate) fn bytes_waiting(source: &Transport) -> u64 {
    let is_followed = source.option("tailing").is_none_or(|t| t != "false");
    if source.ty != "file" || is_followed {
        return 0;
    }
    let path = |option: &str| source.option(option).and_then(|uri| local_path(uri).ok());
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    if let Some(file) = path("file.uri") {
        return size(&file);
    }
    let Some(entries) = path("dir.uri").and_then(|dir| std::fs::read_dir(dir).ok()) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.is_file())
        .map(|p| size(&p))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_a_folder_that_is_there_can_be_written() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(writable_below(&dir.path().join("new/deep/file")), Ok(()));
        assert_eq!(writable_below(Path::new("bare-name")), Ok(()));
    }
}
