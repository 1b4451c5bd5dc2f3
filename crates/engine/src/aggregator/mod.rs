//! Aggregators: running values per group, with removal.
//!
//! A CURRENT row adds, an EXPIRED row removes, and each row gets the value of its group behind it.
//! The order of float operations is the order of the rows, as in Siddhi. An aggregator whose values
//! are numbers is a [`running::Running`] value: what one group holds, and how a number enters and
//! leaves it. Those that hold texts, lists or maps are [`folded::GenericState`] values.
//!
//! A new aggregator is one file here and one line in [`AGGREGATORS`].

mod average;
mod count;
mod distinct_count;
mod extreme;
mod forever;
mod generic;
mod json_group;
mod list_collect;
mod logical;
mod map_collect;
mod math_percentile;
mod numeric;
mod params;
mod standard_deviation;
mod states;
mod str_group_concat;
mod sum;
#[cfg(test)]
mod testing;
mod union_set;
mod value_store;

use crate::component::Aggregator;

/// Sorted by full name.
pub const AGGREGATORS: &[&dyn Aggregator] = &[
    &logical::AND,
    &average::Average,
    &count::Count,
    &distinct_count::DistinctCount,
    &json_group::GROUP,
    &json_group::GROUP_AS_OBJECT,
    &list_collect::COLLECT,
    &list_collect::MERGE,
    &map_collect::COLLECT,
    &map_collect::MERGE,
    &math_percentile::Percentile,
    &extreme::MAX,
    &forever::MAX_FOREVER,
    &extreme::MIN,
    &forever::MIN_FOREVER,
    &logical::OR,
    &standard_deviation::StandardDeviation,
    &str_group_concat::GroupConcat,
    &sum::Sum,
    &union_set::UnionSet,
];
