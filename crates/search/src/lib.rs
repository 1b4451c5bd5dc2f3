//! Search over the tables of an event store: Lucene's classic syntax, facets, score functions, and what WSO2 DAS
//! answers at `/analytics`.
//!
//! ```text
//! query/      a text becomes a plan over the columns of a table
//! matcher.rs  the plan compared with a row
//! index/      the plan asked of an index, which is made beside the table
//! view.rs     both together at one version of the table
//! keeper.rs   the thread that keeps the indexes up to date
//! rest/       requests and answers of WSO2 DAS
//! ```
//!
//! Promises: a search sees what is committed when it begins, as SQL does, whatever the index has of it; the index is
//! derived data, which can be removed and is made again where it is damaged. A search ends at its limits of time,
//! rows and bytes. Never: a row that was deleted or replaced.

mod analyze;
mod error;
mod function;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod keeper;
mod matcher;
mod query;
mod rank;
pub mod rest;
mod search;
mod view;

pub use error::Error;
pub use query::QueryError;
pub use search::{Options, Search};

#[cfg(test)]
mod tests;
