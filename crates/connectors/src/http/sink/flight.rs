//! The requests of a sink that are on their way, and the wait for room for one more.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use connect::error::Error;
use connect::net::Workers;

use super::super::dispatch::Load;
use super::{HttpSink, Job, Shared};

/// Of the requests that may be in flight, the part that has to be answered before a sink that waits for room goes
/// on: to wake its thread for each one costs more than the request.
const ROOM_PART: usize = 16;

/// How long it waits for that part.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// How long a sink that waits for its destination holds its thread while all requests wait to be sent
/// again.
const ENTER_LOOK: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Flight {
    pub load: Load,
    /// Threads that wait for a change. To notify costs a system call, even if nobody waits.
    waiting: usize,
    /// They are woken when so many requests or fewer are in flight.
    woken_at: usize,
    /// Those of the requests that wait to be sent again.
    pausing: usize,
    /// What has not arrived, and why; sent again by the next `connect` where it may yet.
    pub failed: Vec<(Job, Error)>,
    /// The peer has asked to be left alone until then.
    pub not_before: Option<Instant>,
}

/// One of the requests that wait to be sent again.
pub(super) struct Pausing<'a>(&'a Shared);

impl<'a> Pausing<'a> {
    pub fn new(shared: &'a Shared) -> Pausing<'a> {
        shared.change(|flight| flight.pausing += 1);
        Pausing(shared)
    }
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.0.change(|flight| flight.pausing -= 1);
    }
}

impl HttpSink {
    /// Waits until one more request may be on its way: none may overtake those that are kept. Which
    /// network thread sends it?
    pub(super) fn enter(&self, workers: &Workers) -> Result<usize, Error> {
        let threads = workers.handles().len();
        let entered = Instant::now();
        let deadline = self.max_wait.map(|wait| entered + wait);
        let room_at = self.in_flight_max - 1 - self.in_flight_max / ROOM_PART;
        let mut flight = self.shared.lock();
        while flight.load.total() >= self.in_flight_max {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if self.fails_when_full || left.is_some_and(|left| left.is_zero()) {
                let all = format!("all {} connections are in use", self.in_flight_max);
                return Err(Error::unavailable("a free connection", all));
            }
            if flight.pausing < self.in_flight_max {
                // Were the others to hang, there is room for one all the same.
                let look = left.map_or(ROOM_LOOK, |left| left.min(ROOM_LOOK));
                flight = self.shared.wait(flight, room_at, Some(look));
                continue;
            }
            if entered.elapsed() >= ENTER_LOOK {
                let cause = "earlier requests are waiting to be retried";
                return Err(Error::unavailable("a free connection", cause));
            }
            let look = left.map_or(ENTER_LOOK, |left| left.min(ENTER_LOOK));
            flight = self.shared.wait(flight, room_at, Some(look));
        }
        if self.shared.keeps_failed
            && let Some(error) = self.shared.lost(&flight)
        {
            return Err(error);
        }
        let thread = flight.load.enter(threads, self.in_flight_max);
        Ok(thread.unwrap_or_else(|| flight.load.enter_always(threads)))
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many requests or fewer are in flight, or one waits to be sent again, or is not sent
    /// again; it may also be woken earlier.
    pub(super) fn wait<'a>(
        &self,
        mut flight: MutexGuard<'a, Flight>,
        woken_at: usize,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, Flight> {
        // Of several that wait, the one that wants to be woken first counts.
        flight.woken_at = match flight.waiting {
            0 => woken_at,
            _ => flight.woken_at.max(woken_at),
        };
        flight.waiting += 1;
        let mut flight = match at_most {
            None => self
                .changed
                .wait(flight)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.changed
                    .wait_timeout(flight, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        flight.waiting -= 1;
        flight
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Flight)) {
        let mut flight = self.lock();
        let pausing = flight.pausing;
        change(&mut flight);
        let is_due = flight.load.total() <= flight.woken_at
            || flight.pausing != pausing
            || flight.pausing > 0;
        let is_awaited = flight.waiting > 0 && is_due;
        drop(flight);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// A request is no more on its way.
    pub(super) fn leave(&self, job: Job, thread: usize, sent: Result<(), Error>) {
        let failed = sent.err().map(|error| (job, error));
        self.change(|flight| {
            flight.load.leave(thread);
            flight.failed.extend(failed);
        });
    }
}
