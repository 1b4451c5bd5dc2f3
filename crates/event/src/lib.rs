//! Batches, columns, kinds, schemas and strings: what travels between all other crates.
//!
//! A [`Batch`] is a physical unit made for speed; the [`Chunks`] inside it are the language's unit
//! and carry meaning. Columns are typed vectors behind `Arc`, so slicing a batch and handing one
//! column to several readers copies nothing.
//!
//! Never: I/O, clocks, or knowledge of queries and connectors. `unsafe` is allowed here only, for
//! strings known to be UTF-8 and for loops compiled for the processor at hand.

pub mod batch;
pub mod cells;
pub mod codec;
pub mod column;
pub mod record;
pub mod selection;
pub mod strings;
pub mod text;
pub mod times;
pub mod types;
pub mod value;

pub use batch::{Batch, BatchParts, Chunks, Clock, Reset};
pub use cells::Cells;
pub use column::{Column, ColumnBuilder, ScalarRef, Values};
pub use selection::picked;
pub use strings::{ShortText, StrBuilder, Strings};
pub use times::{Times, TimesBuilder};
pub use types::{Attribute, Schema, Type};
pub use value::{Object, Value, objects_changed};
