//! Replays rejected events: each goes back to where it failed, in the app as it is now.
//!
//! A thread reads the events, has the mappers of their sources read payloads again (`prepare`), and hands
//! them to the executor of their app through its bounded queue, so that an app that is slow slows down
//! the replay. The executor takes one after the other. What fails again is rejected with the number that
//! the event had first and how often it was tried.
//!
//! Promises, under `--state`: an event is removed with the first checkpoint that has it, as the position
//! of a source is: a snapshot says which events it has in it ([`crate::rejected::Replayed`]), and they are removed when
//! it is current, or at a restart from it. So a crash loses none and repeats none of the state and of
//! what takes part in epochs. Never: two replays at a time; an event sent to any other place than the one
//! where it failed.

mod prepare;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use connect::registry::Registry;

use crate::ask::{AskedApp, Asker};
use crate::executor::{ExecutorInput, ReplayBatch, ReplayItem};
use crate::queue::{Unpushed, Weight};
use crate::rejected::{Attempt, Busy, Entry, ErrorStore, Filter, Refusal, ReplayJob};
use crate::report::chain;
use prepare::{Prepared, Preparer};

/// Events and bytes that are handed over at once.
const BATCH_EVENTS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Events that are handed over and not saved yet: the snapshot lists them.
const UNSAVED_MAX: u64 = 128 << 10;

/// So many of them ask for a checkpoint.
const UNSAVED_ASKS: u64 = UNSAVED_MAX / 4;

/// A thread waits so long at a time before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(250);

/// What is to be replayed, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub filter: Filter,
    /// Events per second.
    pub rate: Option<f64>,
    /// Nothing is handed over: it is only looked what would be.
    pub is_dry_run: bool,
}

/// Begins to replay the events that a request means.
///
/// # Errors
/// [`Refusal::Busy`], or a file cannot be read.
pub(crate) fn start(
    store: &ErrorStore,
    request: Request,
    asker: &Asker,
    registry: Registry,
) -> Result<Arc<ReplayJob>, Refusal> {
    let busy = store.begin()?;
    let number = store.job().map_or(0, |job| job.progress().number) + 1;
    let job = Arc::new(ReplayJob::new(number, request.is_dry_run));
    store.set_job(Arc::clone(&job));
    let replay = Replay {
        store: store.clone(),
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

/// Would the app of an event, as it is now, take this payload in place of the one that it came with?
/// Where the app does not run, nobody can tell, and nothing is refused.
///
/// # Errors
/// There is no such event, or the payload does not fit, with the reason.
pub(crate) fn check_payload(
    store: &ErrorStore,
    number: u64,
    payload: &[u8],
    asker: &Asker,
    registry: Registry,
) -> Result<(), Refusal> {
    let entry = store.find(number)?.ok_or(Refusal::NoEvent(number))?;
    let edited = Entry {
        edited: Some(payload.to_vec()),
        is_edit_damaged: false,
        ..entry
    };
    let mut preparer = Preparer::new(asker.clone(), registry);
    preparer.check(&edited).map_err(Refusal::Payload)
}

struct Replay {
    store: ErrorStore,
    asker: Asker,
    job: Arc<ReplayJob>,
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
        self.job.finish();
    }

    fn send_all(
        &self,
        registry: Registry,
        reply: Sender<u64>,
        saved: &Receiver<u64>,
    ) -> Result<(), String> {
        let said = |error: crate::error::Error| chain(&error);
        self.store.save(|until| self.asker.save_all(until));
        let filter = &self.request.filter;
        let mut walk = self.store.walk(false).map_err(said)?;
        while let Some(step) = walk.next().map_err(said)? {
            self.job.progress().total += u64::from(step.is_taken_by(filter));
        }
        let mut preparer = Preparer::new(self.asker.clone(), registry);
        let mut gathered: Option<Gathered> = None;
        let begun = Instant::now();
        let mut walk = self.store.walk(true).map_err(said)?;
        let mut count = 0u64;
        while let Some(step) = walk.next().map_err(said)? {
            if !step.is_taken_by(filter) {
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
            let Some(run) = step.removable() else {
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
                log: step.log(),
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
