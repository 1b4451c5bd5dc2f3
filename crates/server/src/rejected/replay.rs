//! Replays rejected events: each goes back to where it failed, in the app as it is now.
//!
//! A thread reads the events, has the mappers of their sources read payloads again (`prepare`), and hands
//! them to the executor of their app through its bounded queue, so that an app that is slow slows down
//! the replay. The executor takes one after the other. What fails again is rejected with the number that
//! the event had first and how often it was tried.
//!
//! Promises, under `--state`: an event is removed with the first checkpoint that has it, as the position
//! of a source is: a snapshot says which events it has in it ([`Replayed`]), and they are removed when
//! it is current, or at a restart from it. So a crash loses none and repeats none of the state and of
//! what takes part in epochs. Never: two replays at a time; an event sent to any other place than the one
//! where it failed.

pub(super) mod prepare;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use connect::effect::PendingEffect;
use connect::registry::Registry;
use event::Batch;
use event::codec::{Error as CodecError, Reader, Writer};
use plan::{StreamId, TableId};
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use super::removal::{Run, Runs};
use super::store::{Busy, Refusal};
use super::{ErrorStore, Filter, Rejection};
use crate::ask::{AskedApp, Asker};
use crate::executor::ExecutorInput;
use crate::queue::{Unpushed, Weight};
use crate::report::chain;
use prepare::{Prepared, Preparer};

/// Events and bytes that are handed over at once.
const BATCH_EVENTS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Events that are handed over and not saved yet: the snapshot lists them.
const UNSAVED_MAX: u64 = 128 << 10;

/// So many of them ask for a checkpoint.
const UNSAVED_ASKS: u64 = UNSAVED_MAX / 4;

/// Causes that are told apart of what was not replayed.
const CAUSES_MAX: usize = 100;

/// A thread waits so long at a time before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(250);

/// In a snapshot among the positions of sources: what was replayed. No stream has such a name.
pub(crate) const POSITION: &str = "replayed events";

/// What an event that is replayed was before.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The number that it had first.
    pub earlier: u64,
    /// How often it is tried, this time included.
    pub attempts: u32,
    /// Counts those that fail again.
    pub again: Arc<AtomicU64>,
}

impl Attempt {
    /// The event was rejected again.
    pub fn mark(&self, rejection: Rejection) -> Rejection {
        self.again.fetch_add(1, Ordering::Relaxed);
        Rejection {
            earlier: self.earlier,
            attempts: self.attempts,
            ..rejection
        }
    }
}

/// Where an event goes.
pub(crate) enum ReplayTo {
    /// Its mapper made nothing of it.
    Nowhere,
    Stream {
        stream: StreamId,
        rows: Batch,
    },
    /// To one sink of a stream alone.
    Sink {
        stream: StreamId,
        sink: usize,
        rows: Batch,
    },
    /// Rows are inserted into a table in a store.
    Table {
        table: TableId,
        rows: Batch,
    },
    Function(PendingEffect),
}

/// One event on its way back.
pub(crate) struct ReplayItem {
    /// The log that it is in, and its place there.
    pub log: usize,
    pub run: Run,
    pub is_first: bool,
    pub attempt: Attempt,
    pub to: ReplayTo,
    /// What its mapper has rejected again.
    pub rejected: Vec<Rejection>,
}

/// Events on their way to an executor.
pub(crate) struct ReplayBatch {
    /// Index of the app on its executor.
    pub app: usize,
    pub items: Vec<ReplayItem>,
    /// A checkpoint is to be made soon.
    pub is_waited_for: bool,
    /// Told when they are saved.
    pub reply: Sender<u64>,
}

/// Events that an executor has taken since the last checkpoint, by log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Replayed(pub [Runs; 2]);

impl Replayed {
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Runs::is_empty)
    }

    pub fn write(&self, writer: &mut Writer) {
        self.0.iter().for_each(|runs| runs.write(writer));
    }

    pub fn read(bytes: &[u8]) -> Result<Replayed, CodecError> {
        let mut reader = Reader::new(bytes);
        let first = Runs::read(&mut reader)?;
        Ok(Replayed([first, Runs::read(&mut reader)?]))
    }
}

/// What is to be replayed, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub filter: Filter,
    /// Events per second.
    pub rate: Option<f64>,
    /// Nothing is handed over: it is only looked what would be.
    pub is_dry_run: bool,
}

/// A replay at work or done.
pub struct Job {
    progress: Mutex<Progress>,
    /// Failed again.
    again: Arc<AtomicU64>,
    is_done: watch::Sender<bool>,
    is_cancelled: Mutex<bool>,
    cancelled: Condvar,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    number: u64,
    is_dry_run: bool,
    /// Events that are meant.
    total: u64,
    /// Handed over, or looked at in a dry run.
    sent: u64,
    /// Handed over and saved, and removed.
    replayed: u64,
    /// Not replayed, and why, with the number of one of them.
    skipped: BTreeMap<String, (u64, u64)>,
    /// Why it ended early.
    failure: Option<String>,
}

impl Job {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_done(&self) -> bool {
        *self.is_done.borrow()
    }

    pub fn cancel(&self) {
        *self.cancel_lock() = true;
        self.cancelled.notify_all();
    }

    fn cancel_lock(&self) -> MutexGuard<'_, bool> {
        self.is_cancelled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        *self.cancel_lock()
    }

    /// Waits for this long, unless it is cancelled.
    fn pause(&self, at_most: Duration) {
        let is_cancelled = self.cancel_lock();
        let waited = self
            .cancelled
            .wait_timeout_while(is_cancelled, at_most, |is_cancelled| !*is_cancelled);
        drop(waited);
    }

    /// Until it is done, or for this long.
    pub async fn wait(&self, at_most: Duration) {
        let mut done = self.is_done.subscribe();
        // The sender is this job itself, so it does not go.
        tokio::time::timeout(at_most, done.wait_for(|done| *done))
            .await
            .ok();
    }

    /// How far it is.
    pub fn json(&self) -> Json {
        let (is_done, is_cancelled) = (self.is_done(), self.is_cancelled());
        let progress = self.progress().clone();
        let state = match (is_done, &progress.failure, is_cancelled) {
            (false, ..) => "running",
            (_, Some(_), _) => "failed",
            (_, None, true) => "cancelled",
            (_, None, false) => "done",
        };
        let skipped: Vec<Json> = progress
            .skipped
            .iter()
            .map(|(cause, (count, example))| {
                json!({ "cause": cause, "count": count, "example": example })
            })
            .collect();
        json!({
            "id": progress.number,
            "state": state,
            "dry_run": progress.is_dry_run,
            "total": progress.total,
            "sent": progress.sent,
            "replayed": progress.replayed,
            "failed_again": self.again.load(Ordering::Relaxed),
            "skipped": skipped,
            "message": progress.failure,
        })
    }

    fn skip(&self, cause: &str, number: u64) {
        let mut progress = self.progress();
        let has_room = progress.skipped.len() < CAUSES_MAX;
        let cause = match has_room || progress.skipped.contains_key(cause) {
            true => cause,
            false => "other causes",
        };
        let entry = progress.skipped.entry(cause.to_owned());
        entry.or_insert((0, number)).0 += 1;
    }
}

impl ErrorStore {
    /// Begins to replay the events that a request means.
    ///
    /// # Errors
    /// [`Refusal::Busy`], or a file cannot be read.
    pub fn replay(
        &self,
        request: Request,
        asker: &Asker,
        registry: Registry,
    ) -> Result<Arc<Job>, Refusal> {
        let busy = self.begin()?;
        let number = self.job().map_or(0, |job| job.progress().number) + 1;
        let job = Arc::new(Job {
            progress: Mutex::new(Progress {
                number,
                is_dry_run: request.is_dry_run,
                ..Progress::default()
            }),
            again: Arc::default(),
            is_done: watch::Sender::new(false),
            is_cancelled: Mutex::new(false),
            cancelled: Condvar::new(),
        });
        self.set_job(Arc::clone(&job));
        let replay = Replay {
            store: self.clone(),
            asker: asker.clone(),
            job: Arc::clone(&job),
            request,
        };
        let spawned = std::thread::Builder::new()
            .name("replay".to_owned())
            .spawn(move || replay.run(registry, busy));
        match spawned {
            Ok(_) => Ok(job),
            Err(cause) => Err(Refusal::Failed(format!("cannot start a thread: {cause}"))),
        }
    }
}

struct Replay {
    store: ErrorStore,
    asker: Asker,
    job: Arc<Job>,
    request: Request,
}

/// What is being gathered for an app.
struct Gathered {
    app: AskedApp,
    items: Vec<ReplayItem>,
    weight: Weight,
}

impl Replay {
    fn run(self, registry: Registry, busy: Busy) {
        #[expect(
            clippy::disallowed_methods,
            reason = "no more answers than batches that were sent"
        )]
        let (reply, saved) = channel();
        let outcome = self.send_all(registry, reply, &saved);
        // Until each is saved, or its executor has gone.
        while let Ok(count) = saved.recv() {
            self.job.progress().replayed += count;
        }
        let mut progress = self.job.progress();
        if let Err(failure) = outcome {
            progress.failure = Some(failure);
        }
        let unsaved = progress.sent.saturating_sub(progress.replayed);
        if unsaved > 0 && !progress.is_dry_run && progress.failure.is_none() {
            progress.failure = Some(format!(
                "the app ended before {unsaved} of them were saved: they are still there, or are \
                 removed when it starts again from the state that has them"
            ));
        }
        let (replayed, again) = (progress.replayed, self.job.again.load(Ordering::Relaxed));
        let skipped: u64 = progress.skipped.values().map(|(count, _)| count).sum();
        let failure = progress.failure.clone();
        let is_dry_run = progress.is_dry_run;
        drop(progress);
        drop(busy);
        if !is_dry_run {
            tracing::info!(
                events = replayed,
                failed_again = again,
                skipped,
                cause = failure,
                "replay of rejected events ended"
            );
        }
        self.job.is_done.send_replace(true);
    }

    fn send_all(
        &self,
        registry: Registry,
        reply: Sender<u64>,
        saved: &Receiver<u64>,
    ) -> Result<(), String> {
        let said = |error: crate::error::Error| chain(&error);
        self.store.save(&self.asker);
        let filter = &self.request.filter;
        let mut walk = self.store.walk(false).map_err(said)?;
        while let Some(step) = walk.next().map_err(said)? {
            self.job.progress().total += u64::from(filter.takes(step.number, &step.view));
        }
        let mut preparer = Preparer::new(self.asker.clone(), registry);
        let mut gathered: Option<Gathered> = None;
        let begun = Instant::now();
        let mut walk = self.store.walk(true).map_err(said)?;
        let mut count = 0u64;
        while let Some(step) = walk.next().map_err(said)? {
            if !filter.takes(step.number, &step.view) {
                continue;
            }
            count += 1;
            if let Some(rate) = self.request.rate {
                let due = begun + Duration::from_secs_f64((count - 1) as f64 / rate);
                let pause = due.saturating_duration_since(Instant::now());
                if !pause.is_zero() {
                    self.hand_over(&mut gathered, &reply, saved, true)?;
                    self.job.pause(pause);
                }
            }
            if self.job.is_cancelled() {
                break;
            }
            let entry = step.entry().map_err(said)?;
            let Some(run) = step.run().filter(|_| !step.placed.is_fixed) else {
                let cause = "a version before has written it in a form that cannot be removed: \
                             export it, and send it again";
                self.job.skip(cause, step.number);
                continue;
            };
            let Prepared { app, to, rejected } = match preparer.prepare(&entry) {
                Ok(prepared) => prepared,
                Err(cause) => {
                    self.job.skip(&cause, step.number);
                    continue;
                }
            };
            if self.request.is_dry_run {
                self.job
                    .again
                    .fetch_add(u64::from(!rejected.is_empty()), Ordering::Relaxed);
                self.job.progress().sent += 1;
                continue;
            }
            let rejection = &entry.rejection;
            let bytes = rejection.payload.len();
            let attempt = Attempt {
                earlier: match rejection.earlier {
                    0 => entry.number,
                    earlier => earlier,
                },
                attempts: rejection.attempts + 1,
                again: Arc::clone(&self.job.again),
            };
            let item = ReplayItem {
                log: step.cursor.log,
                run,
                is_first: step.is_first(),
                attempt,
                to,
                rejected,
            };
            let is_other = gathered.as_ref().is_some_and(|g| g.app.name != app.name);
            if is_other {
                self.hand_over(&mut gathered, &reply, saved, false)?;
            }
            let all = gathered.get_or_insert_with(|| Gathered {
                app,
                items: Vec::new(),
                weight: Weight::default(),
            });
            all.items.push(item);
            all.weight.rows += 1;
            all.weight.bytes += bytes;
            if all.items.len() >= BATCH_EVENTS || all.weight.bytes >= BATCH_BYTES {
                self.hand_over(&mut gathered, &reply, saved, false)?;
            }
        }
        self.hand_over(&mut gathered, &reply, saved, true)?;
        drop(walk);
        // What was sent last waits for no interval.
        self.asker.request_saves();
        Ok(())
    }

    /// Waits for room: in the queue of the app, and among what is not saved yet.
    fn hand_over(
        &self,
        gathered: &mut Option<Gathered>,
        reply: &Sender<u64>,
        saved: &Receiver<u64>,
        is_waited_for: bool,
    ) -> Result<(), String> {
        let Some(Gathered { app, items, weight }) = gathered.take() else {
            return Ok(());
        };
        let count = items.len() as u64;
        let unsaved = self.await_room(saved)?;
        let batch = ReplayBatch {
            app: app.index,
            items,
            is_waited_for: is_waited_for || unsaved >= UNSAVED_ASKS,
            reply: reply.clone(),
        };
        let mut input = ExecutorInput::Replay(Box::new(batch));
        loop {
            let pushed = app
                .input_queue
                .push_until(input, weight, Instant::now() + LOOK);
            match pushed {
                Ok(()) => break,
                Err(Unpushed::Closed) => {
                    return Err(format!(
                        "app '{}' has ended or is being reloaded; what was replayed before is done: \
                         replay the rest again",
                        app.name
                    ));
                }
                Err(Unpushed::Late(_)) if self.job.is_cancelled() => return Ok(()),
                Err(Unpushed::Late(back)) => input = back,
            }
        }
        self.job.progress().sent += count;
        Ok(())
    }

    /// How many are handed over and not saved, once that is little enough.
    fn await_room(&self, saved: &Receiver<u64>) -> Result<u64, String> {
        loop {
            let unsaved = {
                let mut progress = self.job.progress();
                progress.replayed += saved.try_iter().sum::<u64>();
                // The answer may be faster than the count.
                progress.sent.saturating_sub(progress.replayed)
            };
            if unsaved < UNSAVED_MAX || self.job.is_cancelled() {
                return Ok(unsaved);
            }
            match saved.recv_timeout(LOOK) {
                Ok(count) => self.job.progress().replayed += count,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(unsaved),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replayed_is_kept_in_a_snapshot() {
        let mut replayed = Replayed::default();
        assert!(replayed.is_empty());
        let run = Run {
            at: 100,
            bytes: 20,
            number: 3,
            count: 1,
        };
        replayed.0[1].add(run, false);
        let mut writer = Writer::default();
        replayed.write(&mut writer);
        assert_eq!(Replayed::read(&writer.bytes), Ok(replayed));
        assert!(Replayed::read(&writer.bytes[1..]).is_err());
    }
}
