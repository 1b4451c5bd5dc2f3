//! The event store: rows that are kept, in open files, in a folder of the server.
//!
//! ```text
//! store.json                  version and id
//! incremental.json            up to where incremental scripts have read
//! definitions/NAME.json       which columns of a table are searched
//! lock                        held by the process that writes
//! log/00000001.log            what was written since the tables' files were
//! tables/NAME/_delta_log/     a plain Delta log
//! tables/NAME/part-….parquet  its files
//! ```
//!
//! A write goes into the [`log`] and into memory, and counts with its commit, which ends with an fsync.
//! Rows that are old or many become Parquet files, named by the Delta log together with the number of
//! the last commit whose rows they hold, so that a restart reads the log from there.
//!
//! Promises: what was committed is found after any crash, once; a reader sees whole commits in order;
//! nothing that is damaged is served: it is said with its file and rows. Memory is bounded (64 MB of rows
//! for a table, twice that while files are written; what a question finds, 256 MB).
//!
//! Never: two processes that write; deletion vectors, so that every reader of Delta can read the files.
//!
//! Without the feature `history` only the [`spec`] is here, for builds that name what they lack.

pub mod spec;

#[cfg(feature = "history")]
pub mod batch;
#[cfg(feature = "history")]
mod change;
#[cfg(feature = "history")]
mod clock;
#[cfg(feature = "history")]
mod condition;
#[cfg(feature = "history")]
pub mod connector;
#[cfg(feature = "history")]
pub mod definition;
#[cfg(feature = "history")]
mod delta;
#[cfg(feature = "history")]
pub mod error;
#[cfg(feature = "history")]
mod file;
#[cfg(feature = "history")]
pub mod indexing;
#[cfg(feature = "history")]
mod key;
#[cfg(feature = "history")]
mod layer;
#[cfg(feature = "history")]
mod layout;
#[cfg(feature = "history")]
mod load;
#[cfg(feature = "history")]
mod log;
#[cfg(feature = "history")]
pub mod marks;
#[cfg(feature = "history")]
mod paths;
#[cfg(feature = "history")]
pub mod reader;
#[cfg(feature = "history")]
pub mod rows;
#[cfg(feature = "history")]
pub mod scan;
#[cfg(feature = "history")]
mod store;
#[cfg(feature = "history")]
mod table;
#[cfg(feature = "history")]
pub mod upkeep;

#[cfg(feature = "history")]
pub use connector::EVENT_STORE;
#[cfg(feature = "history")]
pub use store::EventStore;

use plan::spec::ConnectorSpec;

/// The specs of the store, also where this build lacks it.
pub fn specs() -> impl Iterator<Item = &'static ConnectorSpec> {
    spec::CONNECTORS.iter()
}

#[cfg(all(test, feature = "history"))]
mod tests;
