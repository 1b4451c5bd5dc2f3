//! `output … every …`: what of a query's output leaves, and when.
//!
//! Timed limiters take their first deadline from the wall clock, when the app starts or the partition
//! key appears, and go on from it by the application clock: in playback nothing leaves before the
//! events' time has come to the wall's (Siddhi's `OutputRateLimiter.partitionCreated`).
//!
//! Never here: which rows a query emits; that is the selector's.

mod rows;
mod snapshot;

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Type};
use lang::ast::RateKind;
use plan::{Query, RateEvery};

use crate::component::Key;
use rows::RowLimiter;
use snapshot::SnapshotLimiter;

/// Text of a row's group; empty without `group by`.
type Name = Box<str>;

/// The limiter of a query, for all partition keys.
pub(crate) enum Limiter {
    Rows(RowLimiter),
    Snapshot(SnapshotLimiter),
}

impl Limiter {
    /// `types` are those of the rows that the query emits; `is_compat`, whether the app has
    /// `@app:compat('siddhi-5.1')`.
    pub fn new(query: &Query, types: Vec<Type>, is_compat: bool) -> Option<Limiter> {
        let rate = query.rate?;
        Some(match (rate.kind, rate.every) {
            (RateKind::Snapshot, RateEvery::Millis(period)) => {
                Limiter::Snapshot(SnapshotLimiter::new(query, period, types, is_compat))
            }
            _ => Limiter::Rows(RowLimiter::new(rate, !query.selector.group_by.is_empty())),
        })
    }

    /// Lets rows out by a timer.
    pub fn is_timed(&self) -> bool {
        match self {
            Limiter::Rows(limiter) => limiter.is_timed(),
            Limiter::Snapshot(_) => true,
        }
    }

    /// It wants every row of a chunk, and not only what the chunk leaves of a group.
    pub fn wants_each_row(&self) -> bool {
        matches!(self, Limiter::Snapshot(_))
    }

    /// The first deadline of a key.
    pub fn start(&mut self, key: Key, wall: i64) -> Option<i64> {
        match self {
            Limiter::Rows(limiter) => limiter.start(key, wall),
            Limiter::Snapshot(limiter) => Some(limiter.start(key, wall)),
        }
    }

    pub fn remove(&mut self, key: Key) {
        match self {
            Limiter::Rows(limiter) => limiter.remove(key),
            Limiter::Snapshot(limiter) => limiter.remove(key),
        }
    }

    /// Takes what a query emits; `names` are the groups of the rows. Gives what leaves at once;
    /// deadlines that arise are appended.
    pub fn process(
        &mut self,
        batch: Batch,
        names: Option<Vec<Name>>,
        key: Key,
        now: i64,
        deadlines: &mut Vec<i64>,
    ) -> Option<Batch> {
        match self {
            Limiter::Rows(limiter) => limiter.process(batch, names, key, now),
            Limiter::Snapshot(limiter) => limiter.process(&batch, names, key, now, deadlines),
        }
    }

    /// A deadline is due: what leaves, and the next deadline.
    pub fn on_timer(&mut self, key: Key, deadline: i64, now: i64) -> (Option<Batch>, Option<i64>) {
        match self {
            Limiter::Rows(limiter) => {
                let (rows, next) = limiter.on_timer(key, deadline, now);
                (rows, Some(next))
            }
            Limiter::Snapshot(limiter) => limiter.on_timer(key, deadline, now),
        }
    }

    /// Rows that a due timer would let out for the first time.
    pub fn held(&self) -> usize {
        match self {
            Limiter::Rows(limiter) => limiter.held(),
            Limiter::Snapshot(limiter) => limiter.held(),
        }
    }

    /// Heap bytes of all keys.
    pub fn bytes(&self) -> usize {
        match self {
            Limiter::Rows(limiter) => limiter.bytes(),
            Limiter::Snapshot(limiter) => limiter.bytes(),
        }
    }

    pub fn save(&self, key: Key, writer: &mut Writer) {
        match self {
            Limiter::Rows(limiter) => limiter.save(key, writer),
            Limiter::Snapshot(limiter) => limiter.save(key, writer),
        }
    }

    pub fn restore(
        &mut self,
        key: Key,
        reader: &mut Reader<'_>,
        types: &[Type],
    ) -> Result<(), StateError> {
        match self {
            Limiter::Rows(limiter) => limiter.restore(key, reader, types),
            Limiter::Snapshot(limiter) => limiter.restore(key, reader),
        }
    }
}
