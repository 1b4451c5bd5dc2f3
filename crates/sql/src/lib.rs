//! SQL over the tables of an event store, by DataFusion.
//!
//! A statement sees each table at one version: its files, which DataFusion reads itself, and the rows of the log
//! that no file holds yet. Names of tables and columns are found without case.
//!
//! Batch scripts of WSO2 DAS are such statements, and others that put what they select into tables of the store.
//!
//! Promises: a statement reads no other file; it ends at its limits of memory, disk, time and rows; an error in it is
//! reported with its place. A statement alone changes nothing; one of a script changes its table at once or not at
//! all. Never: a damaged file that is served.

#[cfg(feature = "flight")]
mod batches;
mod bounds;
mod convert;
mod encode;
mod engine;
mod error;
#[cfg(feature = "flight")]
pub mod flight;
mod giving_way;
mod memory;
mod names;
pub mod postgres;
mod progress;
mod script;
mod search;
mod statement;
mod table;
mod version;

pub use encode::Format;
pub use engine::{Answer, Block, Engine, Limits, Question};
pub use error::Error;
pub use progress::Progress;
pub use script::{
    Call, Outcome, Outcomes, Run, Script, ScriptError, StreamWriter, Streams, UserFunction,
};
pub use search::{EachFound, TableSearch};

#[cfg(test)]
mod tests;
