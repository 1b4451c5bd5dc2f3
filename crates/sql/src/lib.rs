//! SQL over the tables of an event store, by DataFusion.
//!
//! A statement sees each table at one version: its files, which DataFusion reads itself, and the rows of the log
//! that no file holds yet. Names of tables and columns are found without case.
//!
//! Promises: a statement changes nothing and reads no other file; it ends at its limits of memory, disk, time and
//! rows; an error in it is reported with its place. Never: a statement that writes; a damaged file that is served.

mod bounds;
mod encode;
mod engine;
mod error;
mod memory;
mod names;
mod statement;
mod table;

pub use encode::Format;
pub use engine::{Answer, Engine, Limits};
pub use error::Error;

#[cfg(test)]
mod tests;
