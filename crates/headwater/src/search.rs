//! Search over the event store, handed to the server and to SQL; or what to say in a build without it.

#[cfg(feature = "search")]
mod with;
#[cfg(not(feature = "search"))]
mod without;

#[cfg(feature = "search")]
pub use with::{Searching, of_server};
#[cfg(not(feature = "search"))]
pub use without::{Searching, of_server};

/// What a server without a store says.
const NO_STORE: &str = "the server has no event store: run it with --store DIR";
