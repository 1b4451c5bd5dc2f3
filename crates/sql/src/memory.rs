//! The memory that statements share.

use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::display::human_readable::human_readable_size;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// What a sort calls the memory in which it merges what it has spilled.
const SORT_MERGE: &str = "ExternalSorterMerge";

/// Bounded memory of which operators that can spill take half at most, each of them its fair share, and the
/// merges of sorts a quarter.
///
/// [`FairSpillPool`] alone lets those that spill have all of it, and then the first merge all that is free. Nothing
/// would be left for the merge beside it or for the one that reads both, and a sort would fail just when it is
/// larger than the memory.
#[derive(Debug)]
pub(crate) struct SharedPool {
    limit: usize,
    spilling: FairSpillPool,
    /// Bytes that the merge of one partition may take.
    merge_share: usize,
    /// Bytes of operators that cannot spill.
    others: Mutex<usize>,
}

/// Of `limit`, what one partition of a sort may take to merge: all of them together a quarter.
pub(crate) fn merge_share(limit: usize) -> usize {
    limit / 4 / std::thread::available_parallelism().map_or(1, usize::from)
}

impl SharedPool {
    pub fn new(limit: usize) -> SharedPool {
        SharedPool {
            limit,
            spilling: FairSpillPool::new(limit / 2),
            merge_share: merge_share(limit),
            others: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.spilling.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.spilling.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        match reservation.consumer().can_spill() {
            true => self.spilling.grow(reservation, additional),
            false => *self.lock() += additional,
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        match reservation.consumer().can_spill() {
            true => self.spilling.shrink(reservation, shrink),
            false => *self.lock() -= shrink,
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut others = self.lock();
        let taken = *others + self.spilling.reserved();
        let consumer = reservation.consumer();
        let mut free = self.limit.saturating_sub(taken);
        if consumer.name().starts_with(SORT_MERGE) {
            free = free.min(self.merge_share.saturating_sub(reservation.size()));
        }
        if additional > free {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} needs {} more, and {} of {} are free",
                consumer.name(),
                human_readable_size(additional),
                human_readable_size(free),
                human_readable_size(self.limit),
            )));
        }
        match consumer.can_spill() {
            true => self.spilling.try_grow(reservation, additional),
            false => {
                *others += additional;
                Ok(())
            }
        }
    }

    fn reserved(&self) -> usize {
        *self.lock() + self.spilling.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl Display for SharedPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}(limit: {})",
            self.name(),
            human_readable_size(self.limit)
        )
    }
}
