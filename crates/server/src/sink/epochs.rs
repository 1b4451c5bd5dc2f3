//! Sinks that participate in epochs: what they publish between two checkpoints is one transaction,
//! which is committed with the checkpoint, like that of a store.
//!
//! Such a sink waits for its destination, regardless of `on.error`, and keeps what it has published
//! until the commit. What no checkpoint covers is never committed: a restart reads it again.

use connect::component::Epochs;

use super::{SinkSlot, SinkThread};
use crate::backoff::LogThrottle;
use crate::checkpoint::{Checkpoint, Phase};
use crate::report::chain;

impl SinkSlot {
    /// Its transaction is gone, and cannot be written again.
    pub(super) fn has_lost(&mut self) -> bool {
        self.sink.epochs().is_some_and(|epochs| epochs.has_lost())
    }
}

impl SinkThread {
    pub fn takes_part(&self) -> bool {
        self.slots.iter().any(|slot| slot.takes_part)
    }

    /// Everything before the barrier has been taken. Where a sink takes part, all that follows waits for
    /// the commit.
    pub(super) fn reach(&mut self, checkpoint: &Checkpoint) {
        let _held = checkpoint.abort_on_panic();
        self.flush();
        // What was replayed before has arrived, or has been given up.
        self.attempts.clear();
        let epoch = checkpoint.epoch;
        let key = self.store_key.clone();
        self.each_part(|epochs| epochs.precommit(epoch, key.as_bytes()));
        if self.is_cut_off {
            return self.abort(checkpoint);
        }
        checkpoint.flushed();
        if !self.takes_part() {
            return;
        }
        if checkpoint.wait_durable() == Phase::Durable {
            self.each_part(|epochs| epochs.commit(epoch, key.as_bytes()));
        } else {
            self.is_cut_off = true;
        }
        match self.is_cut_off {
            true => self.abort(checkpoint),
            false => checkpoint.committed(),
        }
    }

    fn abort(&mut self, checkpoint: &Checkpoint) {
        for slot in &mut self.slots {
            let aborted = slot.sink.epochs().map(|epochs| epochs.abort());
            if let Some(Err(error)) = aborted {
                let sink = slot.name();
                tracing::warn!(sink, cause = chain(&error), "rollback failed");
            }
        }
        checkpoint.set_phase(Phase::Aborted);
    }

    fn each_part(&mut self, mut work: impl FnMut(&mut dyn Epochs) -> Result<(), connect::Error>) {
        for slot in 0..self.slots.len() {
            self.insist(slot, &mut work);
            self.give_up_refused(slot);
        }
    }

    /// Tries until it works or the group ends.
    fn insist(
        &mut self,
        slot: usize,
        work: &mut impl FnMut(&mut dyn Epochs) -> Result<(), connect::Error>,
    ) {
        while !self.is_cut_off {
            let Some(epochs) = self.slots[slot].sink.epochs() else {
                return;
            };
            let Err(error) = work(epochs) else {
                self.slots[slot].backoff.succeeded();
                self.slots[slot].flush_throttle = LogThrottle::default();
                return;
            };
            if self.slots[slot].has_lost() || !error.is_unavailable() {
                return self.end(slot, chain(&error));
            }
            self.stumble(slot, &error, "commit to sink failed");
            match self.health.is_stopping() {
                true => self.cut_off(slot),
                false => self.wait_for(slot),
            }
        }
    }

    /// The group cannot go on.
    pub(super) fn end(&mut self, slot: usize, cause: String) {
        self.is_cut_off = true;
        self.health
            .fail(format!("sink '{}': {cause}", self.slots[slot].name()));
    }

    pub(super) fn say_uncommitted(&mut self) {
        let parts = self.slots.iter_mut().filter_map(|slot| slot.sink.epochs());
        self.uncommitted
            .set(parts.map(|epochs| epochs.held()).sum());
    }
}
