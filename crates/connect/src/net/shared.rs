//! A listener that several sources have in common: it is there while one of them runs.
//!
//! Promises: a source that stops lets nothing go that was on its way to it. Where all sources of the
//! listener stop, connections get the sign to end and what they have sent is taken first; where
//! others go on, the source that stops only waits a moment, because connections are not its own.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Listening, Workers};

/// How long connections may take to end when the listener stops.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(5);

/// How long a source that stops waits for the others of the listener to stop as well.
const OTHERS: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct SharedListener(Mutex<Sources>);

#[derive(Default)]
struct Sources {
    /// Those that run, and those of them that want to stop.
    running: usize,
    leaving: usize,
    listening: Option<Listening>,
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
        sources.running += 1;
        Ok(())
    }

    /// Waits until the port is free, where nobody else needs it. False where connections had to be left
    /// that have not ended.
    pub fn release(&self, workers: &Workers, grace: Duration) -> bool {
        let mut sources = self.sources();
        sources.running -= 1;
        if sources.running > 0 {
            return true;
        }
        let Some(listening) = sources.listening.take() else {
            return true;
        };
        drop(sources);
        matches!(workers.wait_for(listening.ended(grace)), Ok(true))
    }
}

/// The time that one source listens.
pub(crate) struct Stay<'a> {
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
            && let Some(listening) = &sources.listening
        {
            listening.stop();
        }
        now
    }

    /// The source wants to stop: has everything come that was on its way?
    pub fn is_drained(&mut self) -> bool {
        let waited = self.leave().elapsed();
        let sources = self.listener.sources();
        let Some(listening) = &sources.listening else {
            return true;
        };
        if listening.is_stopping() {
            return listening.is_drained() || waited > STOP_GRACE;
        }
        waited > OTHERS
    }

    /// The source has stopped; the last one waits until the port is free. False where connections had
    /// to be left that have not ended.
    pub fn end(mut self, grace: Duration) -> bool {
        self.leave();
        self.listener.sources().leaving -= 1;
        self.listener.release(self.workers, grace)
    }
}
