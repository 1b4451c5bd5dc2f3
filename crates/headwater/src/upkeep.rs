//! Keeping house in the event store, in its folder or for a server; or what to say in a build without it.

#[cfg(feature = "history")]
mod order;
#[cfg(feature = "history")]
mod with;
#[cfg(not(feature = "history"))]
mod without;

use std::path::Path;

#[cfg(feature = "history")]
pub use with::{Place, PurgeFiles, copy};
#[cfg(not(feature = "history"))]
pub use without::{Place, PurgeFiles, copy};

/// What a server without a store says.
const NO_STORE: &str = "the server has no event store: run it with --store DIR";

/// # Errors
/// The folder is none of an event store.
pub fn check_folder(dir: &Path) -> anyhow::Result<()> {
    match dir.join("store.json").exists() {
        true => Ok(()),
        false => Err(server::Error::Usage(format!(
            "'{}' is not a folder of an event store: name that of 'headwater run --store'",
            dir.display()
        ))
        .into()),
    }
}
