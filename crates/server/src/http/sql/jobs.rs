//! Statements that nobody waits for: they are answered in the background, and their results are kept for a while.
//!
//! Promises: jobs, the bytes of their results and the time for which they are kept are bounded; whoever is refused
//! because of that is told the bound. A job belongs to the user who began it, and others are not told that it is
//! there. Never: a job or a result that outlives the server.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value as Json, json};
use tokio::sync::{Semaphore, watch};

use super::kept::{self, Kept, Page};
use super::{SqlBlock, SqlEngine, SqlFormat, SqlProgress, SqlQuestion, SqlRefusal};
use crate::access::{Caller, Role};
use crate::clock;

/// Jobs that are known at a time, with those that have ended.
const JOBS_MAX: usize = 100;

/// Jobs that run at a time; others wait. Statements that somebody waits for have turns of their own.
const AT_ONCE: usize = 2;

/// Characters of a statement that are shown.
const SHOWN_MAX: usize = 1000;

/// What jobs may take.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// Bytes of all results.
    pub bytes: u64,
    /// For how long a job is known after its end.
    pub age: Duration,
}

impl Default for JobLimits {
    fn default() -> JobLimits {
        JobLimits {
            bytes: 1 << 30,
            age: Duration::from_secs(60 * 60),
        }
    }
}

/// The jobs of a server.
#[derive(Clone)]
pub(in crate::http) struct Jobs(Arc<Shared>);

struct Shared {
    limits: JobLimits,
    turns: Semaphore,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Oldest first.
    jobs: VecDeque<Arc<Job>>,
    /// Of the results of all of them.
    bytes: u64,
}

/// What a job is to do.
pub(in crate::http) struct Asked {
    pub sql: String,
    pub format: SqlFormat,
    /// The type of the result.
    pub kind: &'static str,
    pub page_rows: Option<NonZero<usize>>,
    /// Whose it is.
    pub caller: Caller,
    /// Says to a client why there is no result.
    pub explain: Box<dyn Fn(&SqlRefusal) -> (StatusCode, Json) + Send + Sync>,
}

/// One job.
pub(in crate::http) struct Job {
    id: String,
    owner: Option<Arc<str>>,
    /// The beginning of it.
    statement: String,
    kind: &'static str,
    asked: i64,
    stop: watch::Sender<bool>,
    /// Told of each change of [`Phase`].
    phase: watch::Sender<Phase>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    begun: Option<Instant>,
    /// When it ended, and how long it took.
    ended: Option<(i64, Duration)>,
    rows: u64,
    kept: Option<Kept>,
    /// Bytes that it has of [`Known::bytes`].
    held: u64,
    progress: Option<Arc<dyn SqlProgress>>,
    error: Option<(StatusCode, Json)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Running => "running",
            Phase::Done => "done",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
        }
    }

    fn is_end(self) -> bool {
        matches!(self, Phase::Done | Phase::Failed | Phase::Cancelled)
    }
}

/// Why a job was not begun.
pub(in crate::http) enum NotBegun {
    /// There are as many as there may be, and none has ended.
    TooMany(usize),
    /// There is no file for its result, or no number for its name.
    Failed(String),
}

/// A page of a result.
pub(in crate::http) enum Result {
    Page {
        page: Page,
        kind: &'static str,
        /// More may come behind it.
        has_next: bool,
    },
    /// It is not whole yet; so many are.
    NotYet(usize),
    /// There are so many and no more.
    Beyond(usize),
    Cancelled,
    Failed(StatusCode, Json),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jobs {
    pub fn new(limits: JobLimits) -> Jobs {
        Jobs(Arc::new(Shared {
            limits,
            turns: Semaphore::new(AT_ONCE),
            known: Mutex::default(),
        }))
    }

    pub fn age(&self) -> Duration {
        self.0.limits.age
    }

    /// Begins one, on the runtime of the server, with which it ends.
    pub fn begin(
        &self,
        engine: Arc<dyn SqlEngine>,
        asked: Asked,
    ) -> std::result::Result<Arc<Job>, NotBegun> {
        let failed = |cause: String| NotBegun::Failed(cause);
        let mut id = [0; 8];
        let filled = SystemRandom::new().fill(&mut id);
        filled.map_err(|_| failed("the system gives no random numbers".to_owned()))?;
        let kept = Kept::new()
            .map_err(|cause| failed(format!("there is no file for a result: {cause}")))?;
        let job = Arc::new(Job {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            owner: asked.caller.user.clone(),
            statement: asked.sql.trim().chars().take(SHOWN_MAX).collect(),
            kind: asked.kind,
            asked: clock::wall_millis(),
            stop: watch::Sender::new(false),
            phase: watch::Sender::new(Phase::Waiting),
            state: Mutex::new(State {
                kept: Some(kept),
                ..State::default()
            }),
        });
        let mut known = lock(&self.0.known);
        if known.jobs.len() >= JOBS_MAX && !known.remove_ended() {
            return Err(NotBegun::TooMany(JOBS_MAX));
        }
        known.jobs.push_back(Arc::clone(&job));
        drop(known);
        let (jobs, worker) = (self.clone(), Arc::clone(&job));
        tokio::task::spawn(async move {
            jobs.work(&worker, &*engine, asked).await;
            tokio::time::sleep(jobs.0.limits.age).await;
            lock(&jobs.0.known).remove(&worker);
        });
        Ok(job)
    }

    /// Those that a caller may see, oldest first.
    pub fn list(&self, caller: &Caller) -> Vec<Arc<Job>> {
        let known = lock(&self.0.known);
        let mine = known.jobs.iter().filter(|job| job.is_for(caller));
        mine.cloned().collect()
    }

    pub fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Job>> {
        let known = lock(&self.0.known);
        let mut found = known.jobs.iter().filter(|job| job.id == id);
        found.next().filter(|job| job.is_for(caller)).cloned()
    }

    /// Ends a job that runs, whose end can be looked at; forgets one that has ended. True: it is forgotten.
    pub fn end(&self, job: &Arc<Job>) -> bool {
        if job.phase.borrow().is_end() {
            lock(&self.0.known).remove(job);
            return true;
        }
        job.stop.send_replace(true);
        false
    }

    async fn work(&self, job: &Job, engine: &dyn SqlEngine, asked: Asked) {
        let mut stopped = job.stop.subscribe();
        let explain = asked.explain;
        let question = SqlQuestion {
            sql: asked.sql,
            format: asked.format,
            page_rows: asked.page_rows,
            is_job: true,
        };
        let worked = tokio::select! {
            biased;
            _ = stopped.wait_for(|is_stopped| *is_stopped) => None,
            answered = self.answer(job, engine, question) => Some(answered),
        };
        let (phase, error) = match worked {
            None => (Phase::Cancelled, None),
            Some(Ok(())) => (Phase::Done, None),
            Some(Err(refusal)) => {
                if let SqlRefusal::Failed(cause) = &refusal {
                    tracing::error!(job = job.id, cause, "a job in SQL has failed");
                }
                (Phase::Failed, Some(explain(&refusal)))
            }
        };
        let mut state = lock(&job.state);
        let took = state.begun.map(|begun| begun.elapsed());
        state.ended = Some((clock::wall_millis(), took.unwrap_or_default()));
        state.error = error;
        let freed = match phase {
            Phase::Done => 0,
            // What there is of it nobody can ask for.
            _ => {
                state.kept = None;
                std::mem::take(&mut state.held)
            }
        };
        drop(state);
        lock(&self.0.known).bytes -= freed;
        job.phase.send_replace(phase);
    }

    async fn answer(
        &self,
        job: &Job,
        engine: &dyn SqlEngine,
        question: SqlQuestion,
    ) -> std::result::Result<(), SqlRefusal> {
        let _turn = self.0.turns.acquire().await;
        job.phase.send_replace(Phase::Running);
        lock(&job.state).begun = Some(Instant::now());
        let mut answer = engine.ask(question);
        lock(&job.state).progress = Some(answer.progress());
        while let Some(block) = poll_fn(|context| answer.poll_block(context)).await {
            self.keep(job, block?).await?;
        }
        Ok(())
    }

    /// Puts a block into the file of its job.
    async fn keep(&self, job: &Job, block: SqlBlock) -> std::result::Result<(), SqlRefusal> {
        let SqlBlock {
            bytes,
            rows,
            ends_page,
        } = block;
        let failed = |cause: String| SqlRefusal::Failed(format!("cannot keep the result: {cause}"));
        let count = u32::try_from(bytes.len()).map_err(|error| failed(error.to_string()))?;
        self.reserve(u64::from(count))?;
        let file = {
            let mut state = lock(&job.state);
            state.held += u64::from(count);
            state.kept.as_ref().map(Kept::file)
        };
        let file = file.ok_or_else(|| failed("its file is gone".to_owned()))?;
        let written = tokio::task::spawn_blocking(move || kept::append(&file, &bytes)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        let mut state = lock(&job.state);
        state.rows += rows;
        if let Some(kept) = &mut state.kept {
            kept.noted(count, ends_page);
        }
        written.map_err(|cause| failed(cause.to_string()))
    }

    /// Makes room for more bytes of results, those of the oldest job that has ended first.
    fn reserve(&self, bytes: u64) -> std::result::Result<(), SqlRefusal> {
        let mut known = lock(&self.0.known);
        let limit = self.0.limits.bytes;
        while known.bytes + bytes > limit {
            if !known.remove_ended() {
                return Err(SqlRefusal::Rows(format!(
                    "the results of jobs may have {limit} bytes together, and this one does not fit: select fewer rows \
                     or columns, wait for other jobs, or allow more with --sql-jobs-size"
                )));
            }
        }
        known.bytes += bytes;
        Ok(())
    }
}

impl Known {
    /// Forgets the job that ended first of those that began first; false where none has ended.
    fn remove_ended(&mut self) -> bool {
        let ended = self.jobs.iter().find(|job| job.phase.borrow().is_end());
        let ended = ended.cloned();
        ended.inspect(|job| self.remove(job)).is_some()
    }

    fn remove(&mut self, job: &Arc<Job>) {
        let len = self.jobs.len();
        self.jobs.retain(|known| !Arc::ptr_eq(known, job));
        if self.jobs.len() < len {
            // Whoever reads a page of it just now keeps the file until he has it.
            self.bytes -= std::mem::take(&mut lock(&job.state).held);
        }
    }
}

impl Job {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Is it the caller's, or is he one who may do everything?
    fn is_for(&self, caller: &Caller) -> bool {
        caller.user == self.owner || caller.has(Role::Admin)
    }

    /// Waits until it has ended, so long at most.
    pub async fn ended_within(&self, time: Duration) {
        let mut phase = self.phase.subscribe();
        let ended = phase.wait_for(|phase| phase.is_end());
        // Whether it has is what the caller looks at next.
        tokio::time::timeout(time, ended).await.ok();
    }

    /// What is known of it.
    pub fn show(&self, age: Duration) -> Json {
        let phase = *self.phase.borrow();
        let state = lock(&self.state);
        let took = match (state.ended, state.begun) {
            (Some((_, took)), _) => took,
            (None, Some(begun)) => begun.elapsed(),
            (None, None) => Duration::ZERO,
        };
        let progress = state.progress.as_ref();
        let read = progress.map_or(0, |progress| progress.rows_read());
        let to_read = progress.and_then(|progress| progress.rows_to_read());
        let share = match (phase, to_read) {
            (Phase::Done, _) => Some(1.0),
            (Phase::Waiting, _) | (_, None) => None,
            (_, Some(0)) => Some(0.0),
            (_, Some(of)) => Some((read as f64 / of as f64).min(1.0)),
        };
        let expires = state
            .ended
            .map(|(at, _)| clock::utc_text(at.saturating_add(age.as_millis() as i64)));
        let kept = state.kept.as_ref();
        json!({
            "id": self.id,
            "state": phase.name(),
            "statement": self.statement,
            "user": self.owner.as_deref(),
            "started": clock::utc_text(self.asked),
            "millis": took.as_millis() as u64,
            "rows": state.rows,
            "bytes": kept.map_or(0, Kept::bytes),
            "pages": kept.map_or(0, |kept| kept.pages().len()),
            "type": self.kind,
            "rowsRead": read,
            "rowsToRead": to_read,
            "progress": share,
            "expires": expires,
            "error": state.error.as_ref().map(|(_, error)| error),
        })
    }

    /// A page of the result, from 0.
    pub fn page(&self, number: usize) -> Result {
        let phase = *self.phase.borrow();
        let state = lock(&self.state);
        if let Some((status, error)) = &state.error {
            return Result::Failed(*status, error.clone());
        }
        if phase == Phase::Cancelled {
            return Result::Cancelled;
        }
        let pages = state.kept.as_ref().map_or(&[][..], Kept::pages);
        match pages.get(number) {
            Some(page) => Result::Page {
                page: page.clone(),
                kind: self.kind,
                has_next: phase != Phase::Done || number + 1 < pages.len(),
            },
            None if phase == Phase::Done => Result::Beyond(pages.len()),
            None => Result::NotYet(pages.len()),
        }
    }
}

#[cfg(test)]
mod tests;
