//! The taps of an executor: what each may take, and what it has taken on its way to the client.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::{App, Tap, TapPoint};
use event::Batch;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{
    LOOK_SHARE, NewTap, Permit, QUEUE_BYTES_MAX, TapPlace, TapShared, UNREAD_MAX, bytes_of,
};

/// How often it is looked what a tap may take: not at every step of an executor.
const REFILL_EVERY: Duration = Duration::from_millis(10);

/// So much of its share a condition may take at once.
const LOOK_AT_ONCE: Duration = Duration::from_millis(2);

/// How many rows a tap may take: as many as come together in a second at once, and never more per second
/// on the whole.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    rate: f64,
    left: f64,
    /// What the tap was told.
    given: usize,
    at: Instant,
}

impl Allowance {
    fn new(rate: f64, now: Instant) -> Allowance {
        let left = rate.max(1.0);
        Allowance {
            rate,
            left,
            given: 0,
            at: now,
        }
    }

    /// `unused`: what is left of what was given. What may be taken from here on.
    fn refill(&mut self, unused: usize, now: Instant) -> usize {
        let used = self.given.saturating_sub(unused) as f64;
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left - used + since * self.rate).min(self.rate.max(1.0));
        self.at = now;
        self.given = self.left.max(0.0) as usize;
        self.given
    }
}

/// A tap that an executor serves.
pub(crate) struct OpenTap {
    pub id: u64,
    pub app: usize,
    place: TapPlace,
    /// One that looks outside of the engine.
    outside: Option<Tap>,
    allowance: Allowance,
    begun: Instant,
    out: mpsc::Sender<Batch>,
    shared: Arc<TapShared>,
    full_since: Option<Instant>,
    /// Another may be opened when this one is gone, whatever its client does.
    _permit: Permit,
}

impl OpenTap {
    pub fn new(new: NewTap, engine: &mut App, now: Instant) -> OpenTap {
        let mut tap = new.tap;
        let mut allowance = Allowance::new(new.rate, now);
        tap.allow(allowance.refill(0, now));
        let outside = match new.place {
            TapPlace::Inside(point) => {
                engine.add_tap(point, tap);
                None
            }
            TapPlace::Source { .. } | TapPlace::Sink { .. } => Some(tap),
        };
        OpenTap {
            id: new.id,
            app: new.app,
            place: new.place,
            outside,
            allowance,
            begun: now,
            out: new.out,
            shared: new.shared,
            full_since: None,
            _permit: new.permit,
        }
    }

    fn point(&self) -> Option<TapPoint> {
        match self.place {
            TapPlace::Inside(point) => Some(point),
            TapPlace::Source { .. } | TapPlace::Sink { .. } => None,
        }
    }

    /// The engine looks no more.
    pub fn remove_from(&self, engine: &mut App) {
        if let Some(point) = self.point() {
            engine.remove_tap(point, self.id);
        }
    }

    fn tap<'t>(
        outside: &'t mut Option<Tap>,
        point: Option<TapPoint>,
        id: u64,
        engine: &'t mut App,
    ) -> Option<&'t mut Tap> {
        match point {
            Some(point) => engine.tap_mut(point, id),
            None => outside.as_mut(),
        }
    }

    /// Tells the tap what it may take, if that is due.
    pub fn refill(&mut self, engine: &mut App, now: Instant) {
        if now.saturating_duration_since(self.allowance.at) < REFILL_EVERY {
            return;
        }
        let point = self.point();
        let Some(tap) = Self::tap(&mut self.outside, point, self.id, engine) else {
            return;
        };
        tap.allow(self.allowance.refill(tap.rows_left(), now));
        let share = now.saturating_duration_since(self.begun) / LOOK_SHARE + LOOK_AT_ONCE;
        tap.rest(u128::from(tap.nanos()) > share.as_nanos());
    }

    /// Rows pass a place outside of the engine.
    pub fn look(&mut self, place: TapPlace, batch: &Batch, engine: &App, wall: i64) {
        if self.place != place {
            return;
        }
        if let Some(tap) = &mut self.outside {
            let begun = self.begun;
            let mut nanos = move || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            engine.look(tap, batch, wall, &mut nanos);
        }
    }

    /// Hands on what was picked. False: the tap is to be closed.
    pub fn hand_on(&mut self, engine: &mut App) -> bool {
        let point = self.point();
        let Some(tap) = Self::tap(&mut self.outside, point, self.id, engine) else {
            return false;
        };
        self.shared.set(tap.counts());
        for batch in tap.take() {
            let bytes = bytes_of(&batch);
            let rows = batch.len as u64;
            // A row larger than the queue by itself is let in when it is empty.
            let queued = self.shared.queued.load(Ordering::Relaxed);
            let sent = if queued > 0 && queued + bytes > QUEUE_BYTES_MAX {
                Err(TrySendError::Full(batch))
            } else {
                self.shared.queued.fetch_add(bytes, Ordering::Relaxed);
                let sent = self.out.try_send(batch);
                if sent.is_err() {
                    self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
                }
                sent
            };
            match sent {
                Ok(()) => self.full_since = None,
                Err(TrySendError::Closed(_)) => return false,
                Err(TrySendError::Full(_)) => {
                    self.shared.unsent.fetch_add(rows, Ordering::Relaxed);
                    let since = *self.full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > UNREAD_MAX {
                        tracing::info!(
                            seconds = UNREAD_MAX.as_secs(),
                            "closing a tap: its client reads nothing"
                        );
                        self.shared.close(format!(
                            "the client has read nothing for {} s",
                            UNREAD_MAX.as_secs()
                        ));
                        return false;
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_allowed_by_rate_and_a_second_of_them_at_once() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut allowance = Allowance::new(100.0, start);
        assert_eq!(allowance.refill(0, start), 100);
        // All of them are used; a tenth of a second gives ten.
        assert_eq!(allowance.refill(0, at(100)), 10);
        assert_eq!(allowance.refill(10, at(100)), 10);
        // What is not used is kept for a second.
        assert_eq!(allowance.refill(10, at(9000)), 100);
        let mut seldom = Allowance::new(0.5, start);
        assert_eq!(seldom.refill(0, start), 1);
        assert_eq!(seldom.refill(0, at(1000)), 0);
        assert_eq!(seldom.refill(0, at(2000)), 1);
    }
}
