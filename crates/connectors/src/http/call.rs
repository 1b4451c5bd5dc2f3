//! What an `http-call` does with the responses to its requests: the source that takes them, and files
//! that are downloaded.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use connect::component::SinkSetup;
use connect::error::Error;
use connect::net::request_reply::Calls;
use connect::option::Settings;

use super::HttpCalls;

/// What a call does with its response.
pub(super) struct Call {
    pub sink_id: String,
    pub calls: Arc<Calls>,
    /// Requests whose response has not been handed over.
    pub on_their_way: Arc<AtomicUsize>,
    /// Names of the stream's attributes, for `trp:` of the response.
    pub names: Vec<String>,
}

/// What the sink of a call (`http-call`) does with responses; `None` for sinks that publish.
///
/// # Errors
/// The option `sink.id` is missing.
pub(super) fn call(setup: &SinkSetup<'_>, settings: Settings<'_>) -> Result<Option<Call>, Error> {
    if matches!(setup.transport.ty.as_str(), "http" | "websubhub") {
        return Ok(None);
    }
    let sink_id = settings
        .text("sink.id")
        .ok_or_else(|| settings.refused("option 'sink.id' is missing"))?;
    Ok(Some(Call {
        sink_id: sink_id.to_owned(),
        on_their_way: setup
            .environment
            .shared
            .get::<HttpCalls>()
            .0
            .on_their_way(sink_id),
        calls: Arc::clone(&setup.environment.shared.get::<HttpCalls>().0),
        names: setup
            .schema
            .attributes
            .iter()
            .map(|attribute| attribute.name.clone())
            .collect(),
    }))
}

/// A path made of event data may not climb out of the directory that the option names.
pub(super) fn download_path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text.trim());
    let climbs = path
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    if text.trim().is_empty() || climbs {
        return Err(format!("'{text}' is not a path to download to"));
    }
    Ok(path.to_owned())
}

/// Writes a download, with the folders above it.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_stay_where_the_option_puts_them() {
        assert!(download_path("/a/b").is_ok());
        for bad in ["", "a/../../b"] {
            assert!(download_path(bad).is_err(), "{bad}");
        }
    }
}
