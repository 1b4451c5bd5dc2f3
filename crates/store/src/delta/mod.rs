//! The log of a table: plain Delta, reader version 1 and writer version 2, which Spark, delta-rs, DuckDB,
//! Polars and others read.
//!
//! Written by hand: of the crate `delta_kernel` 0.30.1 the feature for Arrow 59 turns on the clients of
//! S3, Azure and HTTP of `object_store` with reqwest and a second TLS (54 packages), and without it the
//! evaluation of expressions would be ours to write. Everything that the store needs of a table goes
//! through [`TableLog`], so that the kernel can take its place.
//!
//! Promises: a commit is there whole or not at all, and none takes the place of another's; files are
//! named after they last. A commit of ours carries a checksum of its actions, a checkpoint one of its
//! bytes, and what does not fit is an error. Never: deletion vectors, partitions, column mapping; a
//! listing of the folder on the way of a commit.

mod checkpoint;
mod history;
mod local;
mod snapshot;
mod stats;

pub use history::Version;
pub use local::Vacuumed;
pub(crate) use local::{DeltaLog, GRACE};
pub(crate) use snapshot::Snapshot;
pub(crate) use stats::Stats;

use std::sync::Arc;

use crate::error::Error;
use crate::key::Key;

/// A file of a table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Add {
    /// Name below the folder of the table.
    pub path: String,
    pub size: u64,
    /// When it was written, milliseconds since 1970.
    pub time: i64,
    pub stats: Stats,
    /// First and last key, where its rows are in the order of their keys.
    pub range: Option<(Key, Key)>,
    /// Columns in whose order its rows are, if they are not in that of their insertion or of the key.
    pub cluster: Vec<usize>,
    /// Of all its bytes.
    pub crc: Option<u32>,
}

/// What an application has put into a table: up to its own number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Txn {
    pub app: String,
    pub version: i64,
}

/// What is known of a table is changed by this alone.
pub(crate) trait TableLog {
    /// The newest version.
    fn snapshot(&self) -> Result<Arc<Snapshot>, Error>;

    /// Adds files to a version, takes files out, or both, in one commit.
    ///
    /// # Errors
    /// [`Error::Conflict`]: there is a newer version than `base`; nothing was changed.
    fn overwrite(
        &self,
        base: &Snapshot,
        adds: &[Add],
        removes: &[String],
        txn: Option<&Txn>,
    ) -> Result<Arc<Snapshot>, Error>;

    /// Takes rows out of a version: files as a whole, and files in whose place others come that lack these rows.
    /// `predicate` says which rows, for readers of the log.
    ///
    /// # Errors
    /// As [`TableLog::overwrite`].
    fn delete(
        &self,
        base: &Snapshot,
        adds: &[Add],
        removes: &[String],
        predicate: &str,
    ) -> Result<Arc<Snapshot>, Error>;

    /// Puts files in the place of others that hold the same rows.
    ///
    /// # Errors
    /// As [`TableLog::overwrite`].
    fn rearrange(
        &self,
        base: &Snapshot,
        adds: &[Add],
        removes: &[String],
    ) -> Result<Arc<Snapshot>, Error>;
}

#[cfg(test)]
mod tests;
