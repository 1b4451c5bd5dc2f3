//! Door A: AsyncAPI documents, which become APIs.
//!
//! Promises: all faults of a document at once, each at its place; what the gateway does not know below `x-headwater`
//! is a fault and not ignored. Never: a reference followed out of the document.

mod asyncapi;
mod export;
mod extension;
mod message;
mod quantity;
mod reader;
mod tree;

pub(crate) use export::write;
pub use export::{Exported, Format, export};
pub(crate) use quantity::duration;

use std::path::Path;

use lang::diagnostic::{Diagnostic, Severity};
use lang::span::Span;

use crate::model::Api;
use check::codes::api as code;
use reader::Reader;

/// A document, judged.
#[derive(Clone, Debug)]
pub struct Document {
    /// The title of its API, or the name of the file.
    pub name: String,
    pub diagnostics: Vec<Diagnostic>,
    /// `None` if a diagnostic is an error.
    pub api: Option<Api>,
    /// Where each topic is said to be bound to a stream, for faults that only the apps can tell.
    pub streams: Vec<StreamPlace>,
    /// Where its name stands.
    pub title: Span,
}

/// What a document says of a stream of an app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// The number of the topic in its API.
    pub topic: usize,
    /// Of `stream`.
    pub stream: Span,
    /// Of `key`, or else of the address.
    pub key: Span,
}

/// Is a text one of these documents? It says so at its top.
pub fn is_document(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return text.contains("\"asyncapi\"");
    }
    let is_it = |line: &str| {
        ["asyncapi:", "\"asyncapi\":", "'asyncapi':"]
            .iter()
            .any(|key| line.starts_with(key))
    };
    text.lines().any(is_it)
}

/// Could a file be one of these documents, by its name?
pub fn may_be_document(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|e| {
        ["yaml", "yml", "json"]
            .iter()
            .any(|own| e.eq_ignore_ascii_case(own))
    })
}

/// The value of a text in YAML or JSON, within the bounds of documents.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn yaml(text: &str) -> Result<serde_json::Value, String> {
    let root = tree::parse(text).map_err(|fault| fault.message)?;
    Ok(root.to_json())
}

/// Judges a document. `folder` is where it is, for files that it names.
pub fn read(text: &str, file: &str) -> Document {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy().into_owned();
    let root = match tree::parse(text) {
        Ok(root) => root,
        Err(fault) => {
            return Document {
                name: stem,
                diagnostics: vec![*fault],
                api: None,
                streams: Vec::new(),
                title: Span::default(),
            };
        }
    };
    let mut reader = Reader::new(&root, text);
    let read = asyncapi::read(&mut reader, file);
    let mut diagnostics = reader.found;
    diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    let has_errors = diagnostics.iter().any(|d| d.severity == Severity::Error);
    Document {
        name: read.title.map_or(stem, |(title, _)| title.to_owned()),
        diagnostics,
        api: read.api.filter(|_| !has_errors),
        streams: read.streams,
        title: read.title.map_or(Span::default(), |(_, span)| span),
    }
}

/// An API as far as a document says it, whatever else is wrong with that.
pub(crate) fn read_leniently(text: &str) -> Option<Api> {
    let root = tree::parse(text).ok()?;
    let mut reader = Reader::new(&root, text);
    asyncapi::read(&mut reader, "").api
}

/// Faults of documents that cannot be served beside each other: the number of the later one, and what is wrong.
pub fn conflicts(documents: &[(&str, &Document)]) -> Vec<(usize, Diagnostic)> {
    let mut found = Vec::new();
    for (at, (_, document)) in documents.iter().enumerate() {
        let Some(api) = &document.api else { continue };
        for (file, other) in &documents[..at] {
            let Some(first) = &other.api else { continue };
            let said = if first.is_called(&api.name, &api.version) {
                format!(
                    "there are two APIs '{}' of version {}",
                    api.name, api.version
                )
            } else if first.bases[0] == api.bases[0] {
                format!("two APIs are at '{}'", api.bases[0])
            } else {
                continue;
            };
            let fault = reader::fault(code::TWICE, said, document.title, "another one has it");
            found.push((
                at,
                fault.help(format!("the other is '{}' in {file}", first.name)),
            ));
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests;
