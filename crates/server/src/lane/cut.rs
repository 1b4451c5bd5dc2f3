//! When a lane makes a cut, and what it puts into it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Batch;
use event::codec::Writer;
use plan::StreamId;

use super::{Cutter, Lane, Letter, Saved};
use crate::backoff::Backoff;
use crate::cut::{Cut, Phase};
use crate::keeper::{Job, wait_for_room};
use crate::queue::Taken;
use crate::report::chain;
use crate::sink::Parcel;
use crate::state::Spool;
use crate::store::Database;

/// Without state: how long writes are gathered into one transaction while nobody waits.
const GATHER: Duration = Duration::from_millis(200);

/// Shortest time between two cuts that somebody waits for.
const GAP: Duration = Duration::from_millis(20);

/// How often what the apps hold is counted for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Counting takes at most one of so many parts of the time.
const COUNT_SHARE: u32 = 50;

/// Bytes of writes at which a cut is made early. What a store or sink has not committed is kept, in a
/// database's cache and to be done again, so this and not the interval bounds its memory.
pub(super) const WRITTEN_MAX: usize = 16 << 20;

/// Bytes of a whole snapshot up to which the next one is whole too: so many take no time.
const WHOLE_MAX: u64 = 16 << 10;

/// Cuts behind the last whole snapshot after which the lane writes one, because nobody else has: as
/// many as a start can open files for. Putting changes together begins at a quarter of it, so there
/// is time for that also where cuts follow each other as fast as they may.
const CHANGES_MAX: u64 = 256;

/// How the snapshots of a run follow each other: a whole one, then changes. A cut that is given up
/// ends the run of its lane, so each is made over one that is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Chain {
    /// Epoch and bytes of the last whole one; epoch 0 before the first.
    whole: (u64, u64),
    /// Bytes of the last changes.
    changes: u64,
}

impl Chain {
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
            *self = Chain {
                whole: (epoch, bytes),
                changes: 0,
            };
        }
    }
}

impl Cutter {
    pub(super) fn next_count(&self) -> Instant {
        self.counted + COUNT_EVERY.max(COUNT_SHARE * self.count_took)
    }

    /// Rows of this many bytes were handed to a store.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        self.is_wanted |= self.written >= WRITTEN_MAX;
    }
}

/// Nobody makes the cut durable any more: who has its mark is let go.
fn given_up(cut: &Cut, error: &str) -> String {
    cut.set_phase(Phase::GivenUp);
    error.to_owned()
}

impl Lane {
    /// When the next cut is to be made, if any.
    pub(super) fn next_cut(&self) -> Option<Instant> {
        let cutter = &self.cutter;
        if cutter.in_flight || !cutter.is_dirty && cutter.effects.is_empty() {
            return None;
        }
        let pause = if cutter.is_wanted {
            GAP
        } else if cutter.state.is_some() {
            cutter.interval
        } else {
            GATHER
        };
        // A large state is not written without a pause: at most half of the time goes into it.
        Some(cutter.last + pause.min(cutter.interval).max(cutter.took))
    }

    pub(super) fn is_cut_due(&self) -> bool {
        self.next_cut().is_some_and(|at| at <= Instant::now())
    }

    /// Makes a cut: state and positions as they are, a mark down every queue.
    pub(super) fn cut(&mut self) -> Result<(), String> {
        self.cutter.epoch += 1;
        let epoch = self.cutter.epoch;
        let snapshot = self.saved(epoch)?;
        let acknowledged = self
            .sources
            .iter_mut()
            .filter(|s| s.sequence > s.covered)
            .map(|s| {
                s.covered = s.sequence;
                (Arc::clone(&s.mailbox), s.sequence)
            })
            .collect();
        if self.cutter.next_count() <= Instant::now() {
            self.count();
        }
        self.effects_barrier(epoch);
        self.lines.flush();
        let stores = self.store_boxes.len() + usize::from(!self.databases.is_empty());
        let sinks = self.sink_boxes.len() - self.sinks_that_commit;
        let cut = Arc::new(Cut::new(epoch, sinks, stores + self.sinks_that_commit));
        self.mark(&cut).map_err(|error| given_up(&cut, error))?;
        self.cutter.in_flight = true;
        self.cutter.is_dirty = false;
        self.cutter.is_wanted = false;
        self.cutter.written = 0;
        self.cutter.last = Instant::now();
        let job = Job {
            cut: Arc::clone(&cut),
            snapshot,
            acknowledged,
            effects: std::mem::take(&mut self.cutter.effects),
            answers: std::mem::take(&mut self.asked.unsaved),
        };
        self.cutter
            .jobs
            .send(job)
            .map_err(|_| given_up(&cut, "the keeper of its state has stopped"))?;
        self.commit_inline(&cut)
    }

    /// Sends a mark down every queue.
    fn mark(&self, cut: &Arc<Cut>) -> Result<(), &'static str> {
        for outbox in &self.sink_boxes {
            outbox
                .push_always(Parcel::Mark(Arc::clone(cut)))
                .map_err(|_| "a sink has stopped")?;
        }
        for outbox in &self.store_boxes {
            outbox
                .push_always(Parcel::Mark(Arc::clone(cut)))
                .map_err(|_| "a store has stopped")?;
        }
        Ok(())
    }

    /// Stores that queries read are written by the steps to come, so the lane waits for the commit.
    fn commit_inline(&mut self, cut: &Cut) -> Result<(), String> {
        if self.databases.is_empty() {
            return Ok(());
        }
        cut.flushed();
        if cut.wait_durable() != Phase::Durable {
            return Err("its snapshot could not be written".to_owned());
        }
        for database in &mut self.databases {
            if let Err(message) = database.commit(cut.epoch) {
                cut.set_phase(Phase::GivenUp);
                return Err(message);
            }
        }
        cut.committed();
        Ok(())
    }

    /// Counts what the apps hold. It looks at every partition key, so it is not done at every cut.
    pub(super) fn count(&mut self) {
        let begun = Instant::now();
        let queued = self.inbox.held().rows as u64;
        let waiting = self.waiting();
        for (app, waiting) in self.apps.iter_mut().zip(waiting) {
            app.count();
            app.metrics.queued.set(queued);
            for (stream, rows) in app.streams.iter().zip(waiting) {
                stream.queued.set(rows);
            }
        }
        self.cutter.counted = Instant::now();
        self.cutter.count_took = self.cutter.counted - begun;
        self.cutter.is_counted = true;
    }

    /// Rows that wait for the lane, by app and stream.
    fn waiting(&self) -> Vec<Vec<u64>> {
        let apps = self.apps.iter();
        let mut waiting: Vec<Vec<u64>> = apps.map(|app| vec![0; app.streams.len()]).collect();
        let mut add = |app: usize, stream: StreamId, rows: &Batch| {
            if let Some(all) = waiting.get_mut(app).and_then(|app| app.get_mut(stream)) {
                *all += rows.len as u64;
            }
        };
        self.inbox.each(|letter| match letter {
            Letter::Post(post) => {
                if let (Some(rows), Some(source)) = (&post.batch, self.sources.get(post.source)) {
                    add(source.app, source.stream, rows);
                }
            }
            Letter::Fault {
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

    /// The last cut of a run: everything that was taken is in it.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.wait_for_cut()?;
        if self.cutter.is_dirty || !self.cutter.effects.is_empty() {
            self.cut()?;
            self.wait_for_cut()?;
        }
        self.count();
        self.databases.iter_mut().for_each(Database::close);
        Ok(())
    }

    fn wait_for_cut(&mut self) -> Result<(), String> {
        while self.cutter.in_flight {
            if let Some(failure) = self.health.failure() {
                return Err(failure);
            }
            let look_again = Instant::now() + GATHER;
            match self.inbox.take(Some(look_again)) {
                Taken::Item(letter) => self.handle(letter)?,
                Taken::Late => {}
                Taken::Closed => return Ok(()),
            }
        }
        Ok(())
    }

    /// What the apps take along into another lane of this process, after the last cut; `None` where
    /// the state directory has it.
    pub(super) fn hand_over(&self) -> Option<Saved> {
        if self.cutter.state.is_some() {
            return None;
        }
        let mut writer = Writer::default();
        self.snapshot(&mut writer, false);
        Some(Saved::read(writer.bytes).expect("what was just written can be read"))
    }

    /// The state of the group in a spool, or what of it has changed since the last cut; `None`
    /// without state. A long one goes to the disk as it is written: while that has no room,
    /// everything waits.
    fn saved(&mut self, epoch: u64) -> Result<Option<Spool>, String> {
        let Some(state) = self.cutter.state.clone() else {
            return Ok(None);
        };
        let is_marked = !self.apps.iter().any(|app| app.engine.must_be_saved_whole());
        let goes_on = is_marked && self.cutter.chain.goes_on(epoch, state.composed());
        let before = goes_on.then_some(epoch - 1);
        let mut backoff = Backoff::default();
        loop {
            let spool = state.spool(epoch, before);
            let mut writer = Writer::streaming(Box::new(spool.clone()));
            self.snapshot(&mut writer, before.is_some());
            let Err(error) = writer.finish() else {
                self.apps.iter_mut().for_each(|app| app.engine.mark_saved());
                self.cutter.chain.add(epoch, spool.len(), before.is_some());
                return Ok(Some(spool));
            };
            spool.discard();
            let cause = chain(&error);
            wait_for_room(&cause, &mut backoff, &self.health)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_for_stores_call_for_a_cut() {
        let now = Instant::now();
        let mut cutter = Cutter {
            jobs: std::sync::mpsc::sync_channel(1).0,
            state: None,
            interval: Duration::from_secs(5),
            epoch: 0,
            last: now,
            took: Duration::ZERO,
            counted: now,
            count_took: Duration::ZERO,
            is_counted: true,
            in_flight: false,
            is_wanted: false,
            is_dirty: true,
            written: 0,
            effects: Vec::new(),
            chain: Chain::default(),
        };
        cutter.wrote(WRITTEN_MAX - 1);
        assert!(!cutter.is_wanted);
        cutter.wrote(1);
        assert!(cutter.is_wanted);
    }
}
