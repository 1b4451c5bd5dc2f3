//! SQL over the event store, handed to the command and to the server; or what to say in a build without it.

#[cfg(feature = "sql")]
mod with;
#[cfg(not(feature = "sql"))]
mod without;

#[cfg(feature = "sql")]
pub use with::{Folder, of_server};
#[cfg(not(feature = "sql"))]
pub use without::{Folder, of_server};

/// What a server without a store says.
const NO_STORE: &str = "the server has no event store: run it with --store DIR";
