//! When an executor makes a checkpoint, and what it puts into it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Batch;
use event::codec::Writer;
use plan::StreamId;

use super::{Checkpointer, Executor, ExecutorInput};
use crate::backoff::Backoff;
use crate::checkpoint::coordinator::{PendingCheckpoint, wait_for_room};
use crate::checkpoint::{Checkpoint, Phase};
use crate::queue::Taken;
use crate::report::chain;
use crate::sink::OutputItem;
use crate::state::{Saved, Spool};
use crate::store::Database;

/// Without state: how long writes are gathered into one transaction while nobody waits.
const GATHER: Duration = Duration::from_millis(200);

/// Shortest time between two checkpoints that somebody waits for.
const GAP: Duration = Duration::from_millis(20);

/// How often what the apps hold is counted for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Counting takes at most one of so many parts of the time.
const COUNT_SHARE: u32 = 50;

/// Bytes of writes at which a checkpoint is made early. What a store or sink has not committed is kept, in a
/// database's cache and to be done again, so this and not the interval bounds its memory.
pub(super) const WRITTEN_MAX: usize = 16 << 20;

/// Bytes of a whole snapshot up to which the next one is whole too: so many take no time.
const WHOLE_MAX: u64 = 16 << 10;

/// Checkpoints after the last whole snapshot after which the executor writes one, because nobody else has: as
/// many as a start can open files for. Compaction begins at a quarter of it, so there
/// is time for that also where checkpoints follow each other as fast as they may.
const CHANGES_MAX: u64 = 256;

/// How the snapshots of a run follow each other: a whole one, then changes. A checkpoint that is aborted
/// ends the run of its executor, so each is made over one that is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SnapshotLog {
    /// Epoch and bytes of the last whole one; epoch 0 before the first.
    whole: (u64, u64),
    /// Bytes of the last changes.
    changes: u64,
}

impl SnapshotLog {
    /// Is the snapshot of an epoch to have changes alone? `composed` is the newest epoch that was
    /// made whole since.
    fn goes_on(&self, epoch: u64, composed: u64) -> bool {
        let (begun, bytes) = self.whole;
        begun > 0
            && bytes > WHOLE_MAX
            && epoch - begun.max(composed) < CHANGES_MAX
            // What changes that much is no shorter by what has not.
            && self.changes <= bytes / 2
    }

    fn add(&mut self, epoch: u64, bytes: u64, are_changes: bool) {
        if are_changes {
            self.changes = bytes;
        } else {
            *self = SnapshotLog {
                whole: (epoch, bytes),
                changes: 0,
            };
        }
    }
}

impl Checkpointer {
    pub(super) fn next_count(&self) -> Instant {
        self.counted + COUNT_EVERY.max(COUNT_SHARE * self.count_took)
    }

    /// Rows of this many bytes were handed to a store.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        self.is_requested |= self.written >= WRITTEN_MAX;
    }
}

/// Nobody makes the checkpoint durable any more: who has its barrier is let go.
fn aborted(checkpoint: &Checkpoint, error: &str) -> String {
    checkpoint.set_phase(Phase::Aborted);
    error.to_owned()
}

impl Executor {
    /// When the next checkpoint is to be made, if any.
    pub(super) fn next_checkpoint(&self) -> Option<Instant> {
        let checkpointer = &self.checkpointer;
        if self.health.is_on_trial() {
            return None;
        }
        if checkpointer.in_flight || !checkpointer.is_dirty && checkpointer.effects.is_empty() {
            return None;
        }
        let pause = if checkpointer.is_requested {
            GAP
        } else if checkpointer.state.is_some() {
            checkpointer.interval
        } else {
            GATHER
        };
        // A large state is not written without a pause: at most half of the time goes into it.
        Some(checkpointer.last + pause.min(checkpointer.interval).max(checkpointer.took))
    }

    pub(super) fn is_checkpoint_due(&self) -> bool {
        self.next_checkpoint()
            .is_some_and(|at| at <= Instant::now())
    }

    /// Makes a checkpoint: state and positions as they are, a barrier down every queue.
    pub(super) fn checkpoint(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        self.checkpointer.epoch += 1;
        let epoch = self.checkpointer.epoch;
        let rejected_len = self.rejected.len();
        let snapshot = self.saved(epoch)?;
        let acknowledged = self
            .sources
            .iter_mut()
            .filter(|s| s.sequence > s.covered)
            .map(|s| {
                s.covered = s.sequence;
                (Arc::clone(&s.source_handle), s.sequence)
            })
            .collect();
        if self.checkpointer.next_count() <= Instant::now() {
            self.count();
        }
        self.effects_barrier(epoch);
        self.lines.flush();
        let stores = self.store_queues.len() + usize::from(!self.databases.is_empty());
        let sinks = self.sink_queues.len() - self.sinks_that_commit;
        let checkpoint = Arc::new(Checkpoint::new(
            epoch,
            sinks,
            stores + self.sinks_that_commit,
        ));
        self.send_barriers(&checkpoint)
            .map_err(|error| aborted(&checkpoint, error))?;
        self.checkpointer.in_flight = true;
        self.checkpointer.is_dirty = false;
        self.checkpointer.is_requested = false;
        self.checkpointer.written = 0;
        self.checkpointer.last = Instant::now();
        let pending = PendingCheckpoint {
            checkpoint: Arc::clone(&checkpoint),
            begun,
            snapshot,
            acknowledged,
            effects: std::mem::take(&mut self.checkpointer.effects),
            answers: std::mem::take(&mut self.asked.unsaved),
            replayed: std::mem::take(&mut self.replayed),
            rejected_len,
        };
        self.checkpointer
            .pending
            .send(pending)
            .map_err(|_| aborted(&checkpoint, "its checkpoint thread has stopped"))?;
        self.commit_inline(&checkpoint)
    }

    /// Sends a barrier down every queue.
    fn send_barriers(&self, checkpoint: &Arc<Checkpoint>) -> Result<(), &'static str> {
        for output_queue in &self.sink_queues {
            output_queue
                .push_always(OutputItem::Barrier(Arc::clone(checkpoint)))
                .map_err(|_| "a sink has stopped")?;
        }
        for output_queue in &self.store_queues {
            output_queue
                .push_always(OutputItem::Barrier(Arc::clone(checkpoint)))
                .map_err(|_| "a store has stopped")?;
        }
        Ok(())
    }

    /// Stores that queries read are written by the steps to come, so the executor waits for the commit.
    fn commit_inline(&mut self, checkpoint: &Checkpoint) -> Result<(), String> {
        if self.databases.is_empty() {
            return Ok(());
        }
        checkpoint.flushed();
        let pulse = &self.health.pulse;
        if pulse.waiting(|| checkpoint.wait_durable()) != Phase::Durable {
            return Err("its snapshot could not be written".to_owned());
        }
        for database in &mut self.databases {
            if let Err(message) = pulse.waiting(|| database.commit(checkpoint.epoch)) {
                checkpoint.set_phase(Phase::Aborted);
                return Err(message);
            }
        }
        checkpoint.committed();
        Ok(())
    }

    /// Counts what the apps hold. It looks at every partition key, so it is not done at every checkpoint.
    pub(super) fn count(&mut self) {
        let begun = Instant::now();
        let queued = self.input_queue.held().rows as u64;
        let fill = self.input_queue.fill();
        let waiting = self.waiting();
        for (app, waiting) in self.apps.iter_mut().zip(waiting) {
            app.count();
            app.metrics.queued.set(queued);
            app.metrics.queue_fill.set(fill);
            for (stream, rows) in app.streams.iter().zip(waiting) {
                stream.queued.set(rows);
            }
        }
        self.checkpointer.counted = Instant::now();
        self.checkpointer.count_took = self.checkpointer.counted - begun;
        self.checkpointer.is_counted = true;
    }

    /// Rows that wait for the executor, by app and stream.
    fn waiting(&self) -> Vec<Vec<u64>> {
        let apps = self.apps.iter();
        let mut waiting: Vec<Vec<u64>> = apps.map(|app| vec![0; app.streams.len()]).collect();
        let mut add = |app: usize, stream: StreamId, rows: &Batch| {
            if let Some(all) = waiting.get_mut(app).and_then(|app| app.get_mut(stream)) {
                *all += rows.len as u64;
            }
        };
        self.input_queue.each(|input| match input {
            ExecutorInput::SourceBatch(source_batch) => {
                if let (Some(rows), Some(source)) =
                    (&source_batch.batch, self.sources.get(source_batch.source))
                {
                    add(source.app, source.stream, rows);
                }
            }
            ExecutorInput::Fault {
                app,
                stream,
                rows: Some(rows),
                ..
            } => add(*app, *stream, rows),
            _ => {}
        });
        for (app, stream, rows) in &self.carried {
            add(*app, *stream, rows);
        }
        waiting
    }

    fn effects_barrier(&self, epoch: u64) {
        for journal in self.journals.iter() {
            journal.barrier(epoch);
        }
    }

    /// The last checkpoint of a run: everything that was taken is in it.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.wait_for_checkpoint()?;
        if self.checkpointer.is_dirty || !self.checkpointer.effects.is_empty() {
            self.checkpoint()?;
            self.wait_for_checkpoint()?;
        }
        self.count();
        self.databases.iter_mut().for_each(Database::close);
        Ok(())
    }

    /// Ends as if it had never run: nothing is saved, what stores and sinks have not committed is gone.
    pub(super) fn give_up(&mut self) {
        self.databases.iter_mut().for_each(Database::close);
    }

    fn wait_for_checkpoint(&mut self) -> Result<(), String> {
        while self.checkpointer.in_flight {
            self.health.pulse.beat();
            if let Some(failure) = self.health.failure() {
                return Err(failure);
            }
            let look_again = Instant::now() + GATHER;
            match self.input_queue.take(Some(look_again)) {
                Taken::Item(input) => self.handle(input)?,
                Taken::Late => {}
                Taken::Closed => return Ok(()),
            }
        }
        Ok(())
    }

    /// What the apps take along into another executor of this process, after the last checkpoint; `None` where
    /// the state directory has it.
    pub(super) fn hand_over(&self) -> Option<Saved> {
        if self.checkpointer.state.is_some() {
            return None;
        }
        let mut writer = Writer::default();
        self.snapshot(&mut writer, false);
        Some(Saved::read(writer.bytes).expect("what was just written can be read"))
    }

    /// The state of the group in a spool, or what of it has changed since the last checkpoint; `None`
    /// without state. A long one goes to the disk as it is written: while that has no room,
    /// everything waits.
    fn saved(&mut self, epoch: u64) -> Result<Option<Spool>, String> {
        let Some(state) = self.checkpointer.state.clone() else {
            return Ok(None);
        };
        let is_marked = !self.apps.iter().any(|app| app.engine.must_be_saved_whole());
        let goes_on = is_marked
            && self
                .checkpointer
                .snapshot_log
                .goes_on(epoch, state.composed());
        let before = goes_on.then_some(epoch - 1);
        let mut backoff = Backoff::default();
        loop {
            let spool = state.spool(epoch, before);
            let mut writer = Writer::streaming(Box::new(spool.clone()));
            self.snapshot(&mut writer, before.is_some());
            let Err(error) = writer.finish() else {
                self.apps.iter_mut().for_each(|app| app.engine.mark_saved());
                self.checkpointer
                    .snapshot_log
                    .add(epoch, spool.len(), before.is_some());
                return Ok(Some(spool));
            };
            spool.discard();
            let cause = chain(&error);
            let pulse = &self.health.pulse;
            pulse.waiting(|| wait_for_room(&cause, &mut backoff, &self.health))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_for_stores_call_for_a_checkpoint() {
        let now = Instant::now();
        let mut checkpointer = Checkpointer {
            pending: std::sync::mpsc::sync_channel(1).0,
            state: None,
            interval: Duration::from_secs(5),
            epoch: 0,
            last: now,
            took: Duration::ZERO,
            counted: now,
            count_took: Duration::ZERO,
            is_counted: true,
            in_flight: false,
            is_requested: false,
            is_dirty: true,
            written: 0,
            effects: Vec::new(),
            snapshot_log: SnapshotLog::default(),
        };
        checkpointer.wrote(WRITTEN_MAX - 1);
        assert!(!checkpointer.is_requested);
        checkpointer.wrote(1);
        assert!(checkpointer.is_requested);
    }
}
