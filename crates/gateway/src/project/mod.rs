//! Projects of WSO2 API Manager, as its `apictl export` writes them: streaming APIs (WebSocket, SSE, WebSub) become
//! documents.
//!
//! Promises: a project, whoever made it, is read within bounds; what cannot be kept is named. Never: a file written;
//! a secret in a message.

mod convert;
mod files;

use std::io;
use std::path::Path;

use crate::document::{Format, write};
use convert::Converted;
use files::PROJECT;
pub use files::{Files, Kind};

/// Why a project is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("cannot read '{path}'")]
    Io {
        path: String,
        #[source]
        cause: io::Error,
    },
    /// In words.
    #[error("{0}")]
    Refused(String),
}

/// Whose tokens count, where API Manager's own did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Issuer {
    /// The claim `iss`, `https://localhost:9443/oauth2/token` as a rule.
    pub issuer: Option<String>,
    /// Where its keys are; by default found by discovery.
    pub jwks: Option<String>,
}

/// A project as a document.
#[derive(Clone, PartialEq, Eq)]
pub struct Imported {
    /// Of the API.
    pub name: String,
    pub version: String,
    /// AsyncAPI 3.0, with the secret of the project, where it has one.
    pub document: String,
    pub has_secret: bool,
    /// What is not as it was, each with its name in the project.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imported")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

/// Could it be a project: a zip, or a folder with an `api.yaml`?
pub fn is_project(path: &Path) -> bool {
    let is_zip = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
    match path.is_dir() {
        true => ["api.yaml", "api.json"]
            .iter()
            .any(|name| path.join(name).is_file()),
        false => is_zip && path.is_file(),
    }
}

/// Reads a project, a zip or a folder.
///
/// # Errors
/// It cannot be read, is none of a streaming API, or is beyond the limits.
pub fn import(path: &Path, issuer: &Issuer) -> Result<Imported, ProjectError> {
    imported(&Files::read(path, &PROJECT)?, issuer)
}

/// As [`import`], of the bytes of a zip.
///
/// # Errors
/// As [`import`].
pub fn import_zip(bytes: &[u8], issuer: &Issuer) -> Result<Imported, ProjectError> {
    imported(&Files::of_zip(io::Cursor::new(bytes), &PROJECT)?, issuer)
}

/// As [`import`], of the text of an `api.yaml` alone.
///
/// # Errors
/// As [`import`].
#[cfg(any(test, feature = "testing"))]
pub fn import_text(api: &str, issuer: &Issuer) -> Result<Imported, ProjectError> {
    let mut files = Files::default();
    files.texts.insert("api.yaml".to_owned(), api.to_owned());
    imported(&files, issuer)
}

fn imported(files: &Files, issuer: &Issuer) -> Result<Imported, ProjectError> {
    let Converted { api, mut notes } = convert::convert(files, issuer)?;
    let written = write(&api, Format::Three, None).map_err(ProjectError::Refused)?;
    notes.extend(written.notes);
    Ok(Imported {
        has_secret: api.hub.receiver.is_some(),
        name: api.name,
        version: api.version,
        document: written.text,
        notes,
    })
}

#[cfg(test)]
mod tests;
