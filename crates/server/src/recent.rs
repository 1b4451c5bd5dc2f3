//! Rates: what a number that only grows has grown by over the last seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a rate looks back.
const RATE_OVER: Duration = Duration::from_secs(10);

/// Readings that are kept: one per second.
const READINGS_MAX: usize = 12;

/// A number as it was at times of the last seconds.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<(Instant, u64)>>);

impl Recent {
    /// It stands at `value`.
    pub fn mark(&self, now: Instant, value: u64) {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while readings.len() >= READINGS_MAX {
            readings.pop_front();
        }
        readings.push_back((now, value));
    }

    /// By how much it has grown per second; 0 before it was marked.
    pub fn rate(&self, now: Instant, value: u64) -> f64 {
        let readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |(at, _): &&(Instant, u64)| now.saturating_duration_since(*at) <= RATE_OVER;
        let Some(&(at, before)) = readings.iter().find(is_recent) else {
            return 0.0;
        };
        let seconds = now.saturating_duration_since(at).as_secs_f64();
        if seconds < 0.001 {
            return 0.0;
        }
        value.saturating_sub(before) as f64 / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_looks_back_ten_seconds() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let recent = Recent::default();
        assert_eq!(recent.rate(start, 5), 0.0);
        recent.mark(start, 0);
        assert_eq!(recent.rate(at(2), 10), 5.0);
        for second in 1..30 {
            recent.mark(at(second), second * 10);
        }
        assert_eq!(recent.rate(at(30), 300), 10.0);
        // Nobody has looked for long.
        assert_eq!(recent.rate(at(60), 900), 0.0);
        // A counter that was put back.
        assert_eq!(recent.rate(at(31), 0), 0.0);
    }
}
