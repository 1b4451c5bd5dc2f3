//! How long to wait before trying again.

use std::time::Duration;

/// Siddhi's `BackoffRetryCounter`: 5 s at first, 5 min at most, back to 5 s after a success.
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
        self.second * seconds
    }

    pub fn succeeded(&mut self) {
        self.tries = 0;
    }
}

/// Which of many equal reports are worth a line: the first few, then 10, 100, 1,000, …
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogThrottle {
    count: u64,
}

impl LogThrottle {
    const FIRST: u64 = 5;

    /// Counts one report; `Some(count)` if it is to be said.
    pub fn admit(&mut self) -> Option<u64> {
        self.count += 1;
        let is_power = self.count >= 10 && {
            let mut n = self.count;
            while n.is_multiple_of(10) {
                n /= 10;
            }
            n == 1
        };
        (self.count <= Self::FIRST || is_power).then_some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 630
    #[test]
    fn pauses_grow_to_five_minutes_and_start_again() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..10).map(|_| backoff.next_pause().as_secs()).collect();
        assert_eq!(pauses, [5, 10, 15, 30, 60, 60, 120, 300, 300, 300]);
        backoff.succeeded();
        assert_eq!(backoff.next_pause().as_secs(), 5);
    }

    #[test]
    fn few_of_many_reports_are_said() {
        let mut throttle = LogThrottle::default();
        let said: Vec<u64> = (0..2000).filter_map(|_| throttle.admit()).collect();
        assert_eq!(said, [1, 2, 3, 4, 5, 10, 100, 1000]);
    }
}
