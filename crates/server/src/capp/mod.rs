//! CApps of WSO2 DAS (`.car`): their streams, receivers and event stores become a SiddhiQL app, their batch scripts and
//! purges are what they are, and what else is in them is named.
//!
//! Promises: a CApp, whoever made it, is read within the bounds of a zip (see [`Files`]); no text of it becomes more of
//! an app than a name or the value of an option; what is left out is said. Never: a file written.

mod app;
mod convert;
mod receiver;
mod write;

use std::path::{Path, PathBuf};

use gateway::project::{Files, Kind};

use crate::error::Error;

/// What a CApp becomes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capp {
    /// Of its `artifacts.xml`, as a name of an app.
    pub name: String,
    /// In SiddhiQL; `None`: it defines no stream.
    pub app: Option<String>,
    /// Batch scripts by the names of their files.
    pub scripts: Vec<(String, String)>,
    /// Purges, likewise.
    pub purges: Vec<(String, String)>,
    /// What is not as it was.
    pub notes: Vec<String>,
}

/// Files lie in the folders of their artifacts; what lies deeper belongs to a dashboard.
const KIND: Kind = Kind {
    what: "CApp of WSO2 DAS",
    marks: &["artifacts.xml"],
    is_read: |name| {
        let is_kind = |end: &str| name.to_ascii_lowercase().ends_with(end);
        name.matches('/').count() <= 1 && (is_kind(".xml") || is_kind(".json"))
    },
};

/// Is it a CApp, by its name?
pub fn is_capp(path: &Path) -> bool {
    let is_car = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("car"));
    is_car && path.is_file()
}

/// The CApps among arguments, and in those of them that are folders.
///
/// # Errors
/// A folder cannot be read.
pub fn find(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut capps = Vec::new();
    for argument in arguments {
        if is_capp(argument) {
            capps.push(argument.clone());
        } else if argument.is_dir() {
            let failed = Error::file("read folder", argument);
            let entries = std::fs::read_dir(argument).map_err(failed)?;
            let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
            let mut found: Vec<PathBuf> = paths.filter(|path| is_capp(path)).collect();
            found.sort();
            capps.extend(found);
        }
    }
    Ok(capps)
}

/// Reads a CApp.
///
/// # Errors
/// It cannot be read, is none, or a part of it that is taken over is wrong: [`Error::Refused`] with its place.
pub fn read(path: &Path) -> Result<Capp, Error> {
    let refused = |message: String| Error::Refused(format!("'{}': {message}", path.display()));
    let files = Files::read(path, &KIND).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        refused(format!("{error}{}", cause.unwrap_or_default()))
    })?;
    convert::convert(&files).map_err(refused)
}

#[cfg(test)]
mod tests;
