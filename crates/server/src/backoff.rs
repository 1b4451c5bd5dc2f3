//! How long to wait before trying again.

use std::time::Duration;

use connect::retry::jittered;

pub(crate) use connect::retry::{LogThrottle, Reminder, RetrySchedule, seconds};

/// Siddhi's `BackoffRetryCounter`: 5 s at first, 5 min at most, back to 5 s after a success; with
/// jitter, which makes a pause shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    tries: usize,
    second: Duration,
}

const SECONDS: [u32; 8] = [5, 10, 15, 30, 60, 60, 120, 300];

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::with_second(Duration::from_secs(1))
    }
}

impl Backoff {
    /// In tests a second is as short as they like.
    pub fn with_second(second: Duration) -> Backoff {
        Backoff { tries: 0, second }
    }

    /// The pause before the next try.
    pub fn next_pause(&mut self) -> Duration {
        let seconds = SECONDS[self.tries.min(SECONDS.len() - 1)];
        self.tries += 1;
        jittered(self.second * seconds)
    }

    pub fn succeeded(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 630
    #[test]
    fn pauses_grow_to_five_minutes_and_start_again() {
        let mut backoff = Backoff::default();
        for step in [5, 10, 15, 30, 60, 60, 120, 300, 300, 300] {
            let (pause, step) = (backoff.next_pause(), Duration::from_secs(step));
            assert!(step - step / 5 <= pause && pause <= step, "{pause:?}");
        }
        backoff.succeeded();
        assert!(backoff.next_pause() <= Duration::from_secs(5));
    }
}
