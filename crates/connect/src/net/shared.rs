//! A listener that several sources share: it exists while one of them runs.
//!
//! Promises: a source that stops loses nothing that was on its way to it. If all sources of the
//! listener stop, connections are told to end, and what they have sent is accepted first; if others
//! continue, the stopping source only waits a moment, because it does not own the connections.
//! During a reload the listener may be kept without a source, until one of the new ones runs.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Listening, Workers};

/// How long connections may take to end when the listener stops.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long connections that go on sending are heard when the listener stops: one that does not heed the
/// sign to end would hold the server for ever.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// How long a source that stops waits for the others of the listener to stop as well.
const OTHERS: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct SharedListener(Mutex<Sources>);

#[derive(Default)]
struct Sources {
    /// Those that run, and those of them that want to stop.
    running: usize,
    leaving: usize,
    kept: Kept,
    listening: Option<Listening>,
}

/// Does the listener go on without a source?
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kept {
    #[default]
    No,
    /// Apps are being made anew.
    Anew,
    /// They are made, and the first source that runs takes it over.
    Awaited,
}

impl SharedListener {
    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another source runs: listens, unless that is done already.
    pub fn enter<'a>(
        &'a self,
        workers: &'a Workers,
        listen: impl FnOnce() -> io::Result<Listening>,
    ) -> io::Result<Stay<'a>> {
        self.hold(listen)?;
        Ok(Stay {
            listener: self,
            workers,
            leaving_since: None,
        })
    }

    /// Somebody needs the listener until [`SharedListener::release`], whose connections he ends himself.
    pub fn hold(&self, listen: impl FnOnce() -> io::Result<Listening>) -> io::Result<()> {
        let mut sources = self.sources();
        if sources.listening.is_none() {
            sources.listening = Some(listen()?);
        }
        if sources.kept == Kept::Awaited {
            sources.kept = Kept::No;
        }
        sources.running += 1;
        Ok(())
    }

    /// Waits until the port is free, where nobody else needs it. False where connections had to be left
    /// that have not ended.
    pub fn release(&self, workers: &Workers, grace: Duration) -> bool {
        let mut sources = self.sources();
        sources.running -= 1;
        end_unused(sources, workers, grace)
    }

    /// Goes on without a source until [`SharedListener::made_anew`].
    pub fn keep(&self) {
        self.sources().kept = Kept::Anew;
    }

    pub fn is_kept(&self) -> bool {
        self.sources().kept == Kept::Anew
    }

    /// Is kept until one of the new sources runs; where `is_awaited` says that none will, connections get
    /// the sign to end and the port is free.
    pub fn made_anew(&self, workers: &Workers, is_awaited: bool) {
        let mut sources = self.sources();
        sources.kept = match is_awaited && sources.running == 0 {
            true => Kept::Awaited,
            false => Kept::No,
        };
        end_unused(sources, workers, Duration::ZERO);
    }

    /// The last source that was awaited has gone without having run.
    pub fn await_no_more(&self, workers: &Workers) {
        let mut sources = self.sources();
        if sources.kept == Kept::Awaited {
            sources.kept = Kept::No;
            end_unused(sources, workers, Duration::ZERO);
        }
    }
}

/// Ends a listener that nobody needs. False where connections had to be left that have not ended.
fn end_unused(mut sources: MutexGuard<'_, Sources>, workers: &Workers, grace: Duration) -> bool {
    if sources.running > 0 || sources.kept != Kept::No {
        return true;
    }
    let Some(listening) = sources.listening.take() else {
        return true;
    };
    drop(sources);
    matches!(workers.wait_for(listening.ended(grace)), Ok(true))
}

/// The time that one source listens.
pub struct Stay<'a> {
    listener: &'a SharedListener,
    workers: &'a Workers,
    leaving_since: Option<Instant>,
}

impl Stay<'_> {
    /// The source wants to stop: since when?
    fn leave(&mut self) -> Instant {
        if let Some(since) = self.leaving_since {
            return since;
        }
        let now = Instant::now();
        self.leaving_since = Some(now);
        let mut sources = self.listener.sources();
        sources.leaving += 1;
        if sources.leaving == sources.running
            && sources.kept != Kept::Anew
            && let Some(listening) = &sources.listening
        {
            listening.stop();
        }
        now
    }

    /// The source wants to stop: has everything come that was on its way?
    pub fn is_drained(&mut self) -> bool {
        let since = self.leave();
        self.is_all_there(since, since)
    }

    /// As [`Stay::is_drained`], where `heard` is when something came last: connections that still bring
    /// something are waited for, up to [`DRAIN_MAX`].
    pub fn is_drained_hearing(&mut self, heard: Instant) -> bool {
        let since = self.leave();
        since.elapsed() > DRAIN_MAX || self.is_all_there(since, heard.max(since))
    }

    fn is_all_there(&self, left: Instant, heard: Instant) -> bool {
        let sources = self.listener.sources();
        let Some(listening) = &sources.listening else {
            return true;
        };
        if listening.is_stopping() {
            return listening.is_drained() || heard.elapsed() > STOP_GRACE;
        }
        left.elapsed() > OTHERS
    }

    /// The source has stopped; the last one waits until the port is free. False where connections had
    /// to be left that have not ended.
    pub fn end(mut self, grace: Duration) -> bool {
        self.leave();
        self.listener.sources().leaving -= 1;
        self.listener.release(self.workers, grace)
    }
}
