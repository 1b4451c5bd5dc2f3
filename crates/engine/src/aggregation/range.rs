//! Which buckets of an aggregation are read.

/// The times that are asked for, `start <= time < end`, and the index of the duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BucketRange {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) level: usize,
    /// Asked for by a query of a partition. With compat it then finds no open bucket: Siddhi looks
    /// for it among the state of the key (`PartitionStateHolder`), where it has never been.
    pub(super) is_partitioned: bool,
}
