//! The files of a table: Parquet, with a column for each attribute, and [`ID`] and [`TIMESTAMP`] before
//! them.
//!
//! Promises: a file is whole and lasts before the table names it; what has changed in one since it was
//! written is found when it is opened, by its length and its checksum. Memory is bounded by a row group
//! while writing, and by a batch while reading.

mod columns;
mod files;
mod read;
mod write;

pub(crate) use columns::{append, arrow_schema, record_batch};
pub(crate) use files::{Files, Prune};
pub(crate) use read::{Part, Parts};
pub(crate) use write::FileWriter;

#[cfg(test)]
mod tests;
