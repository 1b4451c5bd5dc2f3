//! The one place that reads clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, as the clock on the wall says; it may jump.
pub fn wall_millis() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Milliseconds since 1970 as text, in UTC: `2026-01-31T09:00:00.000Z`; the number itself where no
/// calendar has it.
pub fn timestamp(millis: i64) -> String {
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => millis.to_string(),
    }
}

/// Is there a time zone of this name?
pub fn is_zone(name: &str) -> bool {
    jiff::tz::TimeZone::get(name).is_ok()
}

/// `2026-01-31T12:00:00.5Z`; the number itself where it is not a time.
pub fn utc_text(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |t| t.to_string())
}

/// A wall clock that never goes back and does not jump with the machine's: it starts at the wall
/// time and runs with the monotonic clock, so that windows fire once whatever is done to the clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    wall_at_start: i64,
}

impl Clock {
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            wall_at_start: wall_millis(),
        }
    }

    pub fn now(&self) -> i64 {
        let passed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_at_start.saturating_add(passed)
    }

    /// When this clock will show `millis`.
    pub fn instant_of(&self, millis: i64) -> Instant {
        let ahead = millis.saturating_sub(self.wall_at_start).max(0);
        self.start + std::time::Duration::from_millis(ahead.unsigned_abs())
    }
}
