//! How long to wait before trying again.

use std::time::Duration;

use connect::retry::jittered;

pub(crate) use connect::retry::{LogThrottle, Reminder, RetrySchedule, seconds};

/// The pauses of one who tries again. A peer that is away is tried every few seconds, which costs next to
/// nothing and finds it soon after its return. Where trying has a price (a login that was refused; a full disk, for
/// which everything is written again), they are those of Siddhi's `BackoffRetryCounter`: 5 s at first, 5 min at
/// most. All have jitter, which makes a pause shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    away: RetrySchedule,
    tries_refused: usize,
    second: Duration,
}

const REFUSED_SECONDS: [u32; 8] = [5, 10, 15, 30, 60, 60, 120, 300];

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::with_second(Duration::from_secs(1))
    }
}

impl Backoff {
    /// In tests a second is as short as they like.
    pub fn with_second(second: Duration) -> Backoff {
        Backoff {
            away: RetrySchedule::waiting(),
            tries_refused: 0,
            second,
        }
    }

    /// The pause before the next try after this failure to connect.
    pub fn after(&mut self, error: &connect::Error) -> Duration {
        match error {
            connect::Error::Unavailable { .. } | connect::Error::Listen { .. } => self.away(),
            _ => self.refused(),
        }
    }

    /// The pause before the next try of a peer that cannot be reached.
    pub fn away(&mut self) -> Duration {
        self.away.next_pause().mul_f64(self.second.as_secs_f64())
    }

    /// The pause before the next try where it was refused.
    pub fn refused(&mut self) -> Duration {
        let last = REFUSED_SECONDS.len() - 1;
        let seconds = REFUSED_SECONDS[self.tries_refused.min(last)];
        self.tries_refused += 1;
        jittered(self.second * seconds)
    }

    pub fn succeeded(&mut self) {
        self.away.succeeded();
        self.tries_refused = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses are at most these, and at least four fifths of them.
    fn check(mut next: impl FnMut() -> Duration, seconds: &[f64]) {
        for seconds in seconds {
            let (pause, step) = (next(), Duration::from_secs_f64(*seconds));
            assert!(step - step / 5 <= pause && pause <= step, "{pause:?}");
        }
    }

    // covers: 630
    #[test]
    fn pauses_grow_to_their_bound_and_start_again() {
        let mut backoff = Backoff::default();
        let error = connect::Error::unavailable("peer", "connection refused");
        let away = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0, 4.0];
        check(|| backoff.after(&error), &away);
        let error = connect::Error::failed("logging in", "wrong password");
        let refused = [5.0, 10.0, 15.0, 30.0, 60.0, 60.0, 120.0, 300.0, 300.0];
        check(|| backoff.after(&error), &refused);
        backoff.succeeded();
        check(|| backoff.away(), &away[..2]);
        check(|| backoff.refused(), &refused[..2]);
    }
}
