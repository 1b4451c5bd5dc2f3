//! Aggregators: running values per group, with removal.
//!
//! A new aggregator is one file here and one line in [`AGGREGATORS`].

use crate::component::Aggregator;

/// Sorted by full name.
pub const AGGREGATORS: &[&dyn Aggregator] = &[];
