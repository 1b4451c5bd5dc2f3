//! Batches, columns, kinds, schemas and strings; nothing else.
pub mod types;
pub use types::{Attribute, Schema, Type};
