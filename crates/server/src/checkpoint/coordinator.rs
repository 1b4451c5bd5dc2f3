//! The thread that makes the checkpoints of a group durable, one after the other, off the executor.
//!
//! The order is what makes a restart exact: (1) every sink and store has accepted everything before
//! the barrier; (2) the snapshot is written and synced; (3) the stores commit, with the epoch's
//! number in the same transaction; (4) the epoch is marked current; (5) files are moved by the
//! app's own calls and (6) the sources are told, which now move and delete theirs. A crash anywhere
//! leaves either epoch whole.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use connect::component::{Environment, Sequence};
use connect::effect::PendingEffect;
use connect::registry::Registry;
use event::{Batch, Chunks, Column, Times, Type};

use crate::activity::ActivityTracker;
use crate::backoff::{Backoff, seconds};
use crate::checkpoint::{Checkpoint, Phase};
use crate::error::Error;
use crate::executor::HeldAnswer;
use crate::executor::{ExecutorInput, InputQueue};
use crate::health::Health;
use crate::metrics::AppMetrics;
use crate::otlp::{Span, Tracer};
use crate::rejected::{Rejection, Replayed, SharedLog, Stage};
use crate::report::{chain, panic_text};
use crate::source::SourceHandle;
use crate::state::{Compactor, GroupState, Journals, Spool};

/// What the executor hands over.
pub(crate) struct PendingCheckpoint {
    pub checkpoint: Arc<Checkpoint>,
    pub begun: Instant,
    /// `None` without state.
    pub snapshot: Option<Spool>,
    /// Batches that the checkpoint covers.
    pub acknowledged: Vec<(Arc<SourceHandle>, Sequence)>,
    pub effects: Vec<PendingEffect>,
    /// To writes that the checkpoint covers.
    pub answers: Vec<HeldAnswer>,
    /// Rejected events that were replayed, and are covered by it.
    pub replayed: Replayed,
    /// Length of the log of rejected events in it.
    pub rejected_len: u64,
}

pub(crate) struct CheckpointCoordinator {
    pub pending: Receiver<PendingCheckpoint>,
    pub input_queue: Arc<InputQueue>,
    pub state: Option<GroupState>,
    /// Written to by the executor.
    pub rejected: SharedLog,
    /// Written to by sinks and stores.
    pub undelivered: SharedLog,
    pub environment: Environment,
    pub registry: Registry,
    pub journals: Journals,
    pub apps: Vec<Arc<AppMetrics>>,
    pub tracer: Option<Tracer>,
    pub activity: Arc<ActivityTracker>,
    pub health: Arc<Health>,
    /// The checkpoint that is being made durable.
    pub current: Option<Arc<Checkpoint>>,
    /// Effects of the snapshot that was restored: perhaps done, perhaps not.
    pub unfinished: Vec<PendingEffect>,
    pub compactor: Compactor,
}

impl CheckpointCoordinator {
    pub fn run(mut self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        if let Err(panic) = outcome {
            self.health.fail(format!(
                "checkpoint thread stopped by an internal error: {}",
                panic_text(panic.as_ref())
            ));
            // Whoever waits for a checkpoint is let go.
            let waiting = self.pending.try_iter().map(|pending| pending.checkpoint);
            for checkpoint in self.current.take().into_iter().chain(waiting) {
                checkpoint.set_phase(Phase::Aborted);
            }
        }
    }

    fn run_inner(&mut self) {
        let unfinished = std::mem::take(&mut self.unfinished);
        self.act(unfinished);
        while let Ok(pending) = self.pending.recv() {
            let checkpoint = Arc::clone(&pending.checkpoint);
            self.current = Some(Arc::clone(&checkpoint));
            let mut span = self.span();
            let took = self.keep(pending).unwrap_or_else(|message| {
                if let Some(span) = &mut span {
                    span.fail(&message);
                }
                checkpoint.set_phase(Phase::Aborted);
                self.health.fail(message);
                Duration::ZERO
            });
            // An executor that has gone waits for nothing.
            self.input_queue
                .push_always(ExecutorInput::CheckpointDone { took })
                .ok();
        }
    }

    /// Makes it durable; how long that took, once sinks and stores had taken what was before it.
    fn keep(&mut self, mut pending: PendingCheckpoint) -> Result<Duration, String> {
        let checkpoint = Arc::clone(&pending.checkpoint);
        if checkpoint.wait_flushed() == Phase::Aborted {
            return Err(self.aborted());
        }
        let begun = Instant::now();
        let mut lengths = [0; 2];
        if let Some(snapshot) = pending.snapshot.take() {
            let undelivered_len = until_done(&self.health, || self.try_write(&snapshot))?;
            lengths = [pending.rejected_len, undelivered_len];
            let bytes = snapshot.len();
            self.apps.iter().for_each(|app| app.saved_bytes.add(bytes));
        }
        checkpoint.set_phase(Phase::Durable);
        if checkpoint.wait_committed() == Phase::Aborted {
            return Err(self.aborted());
        }
        if let Some(state) = &self.state {
            let length = until_done(&self.health, || state.mark_current(checkpoint.epoch))?;
            self.compactor.look(state, checkpoint.epoch, length);
            for journal in self.journals.iter() {
                until_done(&self.health, || journal.checkpoint(checkpoint.epoch))?;
            }
            for app in &self.apps {
                app.snapshots.add(1);
                app.checkpoint_ms
                    .set(crate::clock::wall_millis().unsigned_abs());
                let took = pending.begun.elapsed().as_micros();
                app.checkpoint_micros
                    .set(u64::try_from(took).unwrap_or(u64::MAX));
                app.state_bytes.set(length.whole + length.changes);
            }
        }
        self.remove_replayed(lengths, &pending.replayed)?;
        self.act(pending.effects);
        for (source_handle, sequence) in &pending.acknowledged {
            source_handle.ack(*sequence);
        }
        pending.answers.into_iter().for_each(HeldAnswer::send);
        let dropped = self.rejected.take_dropped() + self.undelivered.take_dropped();
        if let Some(app) = self.apps.first().filter(|_| dropped > 0) {
            app.errors_dropped.add(dropped);
        }
        Ok(begun.elapsed())
    }

    /// The checkpoint is current: what was rejected before it can be removed from now on, and what was
    /// replayed before it is.
    /// Until that is done nothing goes on; a restart does it too.
    fn remove_replayed(&self, lengths: [u64; 2], replayed: &Replayed) -> Result<(), String> {
        let logs = [&self.rejected, &self.undelivered];
        for ((log, length), runs) in logs.into_iter().zip(lengths).zip(&replayed.0) {
            log.cover(length);
            until_done(&self.health, || log.remove(runs))?;
        }
        Ok(())
    }

    /// From the barriers on until everything is committed; `None` without a state directory, where nothing is
    /// saved.
    fn span(&self) -> Option<Span> {
        self.state.as_ref()?;
        let mut span = self.tracer.as_ref()?.span("checkpoint");
        span.set("app", self.health.name());
        Some(span)
    }

    fn aborted(&self) -> String {
        let failure = self.health.failure();
        failure.unwrap_or_else(|| "a sink or store has stopped".to_owned())
    }

    /// Gives the length of the log of undelivered events that is in it.
    fn try_write(&self, snapshot: &Spool) -> Result<u64, Error> {
        self.rejected.sync()?;
        let undelivered_len = self.undelivered.sync()?;
        snapshot.seal(undelivered_len)?;
        Ok(undelivered_len)
    }

    /// Does what apps have asked to be done to files. An effect that was done before a crash finds
    /// nothing left to do.
    fn act(&mut self, effects: Vec<PendingEffect>) {
        for effect in effects {
            let Some((_, functions)) = self.registry.effect(&effect.function) else {
                continue;
            };
            let result = functions.act(&effect, &self.environment.shared);
            if let Err(cause) = result {
                tracing::error!(function = effect.function, cause, "file function failed");
                if let Some(app) = self.apps.first() {
                    app.rejected.add(1);
                }
                self.undelivered.keep(Rejection {
                    time: crate::clock::wall_millis(),
                    app: effect.app.clone(),
                    stage: Stage::Function,
                    origin: effect.function.clone(),
                    place: format!("function '{}'", effect.function),
                    cause,
                    ..Rejection::of_rows(&arguments(&effect), &event::Schema::default())
                });
            }
            self.activity.record();
        }
    }
}

/// The arguments of a call as a row.
fn arguments(effect: &PendingEffect) -> Batch {
    let arguments = effect.arguments.iter();
    let columns = arguments.map(|value| Column::constant(Type::Object, value, 1));
    let time = Times::Same(crate::clock::wall_millis());
    Batch::new(columns.collect(), 1, time, Chunks::One, 0)
}

/// Tries until it is done: until then the stores wait, and with them everything. An error once the
/// group is to stop.
fn until_done<T, E: std::error::Error + 'static>(
    health: &Health,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, String> {
    let mut backoff = Backoff::default();
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) => wait_for_room(&chain(&error), &mut backoff, health)?,
        }
    }
}

/// Says that the state cannot be saved, and waits before it is tried again; an error once the group
/// is to stop.
pub(crate) fn wait_for_room(
    cause: &str,
    backoff: &mut Backoff,
    health: &Health,
) -> Result<(), String> {
    let pause = backoff.refused();
    tracing::error!(
        cause,
        again_in_seconds = seconds(pause),
        "cannot write checkpoint; processing is paused: free disk space or fix the directory"
    );
    if health.pause(pause) {
        return Err(cause.to_owned());
    }
    Ok(())
}
