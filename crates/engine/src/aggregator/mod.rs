//! Aggregators: running values per group, with removal.
//!
//! A CURRENT row adds, an EXPIRED row removes, and each row gets the value of its group behind it.
//! The order of float operations is the order of the rows, as in Siddhi. An aggregator whose values
//! are numbers is a [`running::Running`] value: what one group holds, and how a number enters and
//! leaves it.
//!
//! A new aggregator is one file here and one line in [`AGGREGATORS`].

mod average;
mod count;
mod distinct_count;
mod extreme;
mod forever;
mod logical;
mod running;
mod standard_deviation;
mod states;
mod sum;
#[cfg(test)]
mod testing;
mod union_set;

use crate::component::Aggregator;

/// Sorted by full name.
pub const AGGREGATORS: &[&dyn Aggregator] = &[
    &logical::AND,
    &average::Average,
    &count::Count,
    &distinct_count::DistinctCount,
    &extreme::MAX,
    &forever::MAX_FOREVER,
    &extreme::MIN,
    &forever::MIN_FOREVER,
    &logical::OR,
    &standard_deviation::StandardDeviation,
    &sum::Sum,
    &union_set::UnionSet,
];
