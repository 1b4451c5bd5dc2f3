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

/// Milliseconds since 1970 of a time as people write it: `90s`, `15min`, `1h`, `7d` before `now`, a
/// timestamp (`2026-01-31T09:00:00Z`), a date or a date with a time in UTC, or the number itself.
pub fn parse_time(text: &str, now: i64) -> Option<i64> {
    const UNITS: [(&str, i64); 8] = [
        ("ms", 1),
        ("min", 60_000),
        ("sec", 1000),
        ("s", 1000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
        ("w", 7 * 86_400_000),
    ];
    let text = text.trim();
    if let Ok(millis) = text.parse::<i64>() {
        return Some(millis);
    }
    let ago = UNITS.iter().find_map(|(unit, millis)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some((number * *millis as f64) as i64)
    });
    if let Some(ago) = ago {
        return Some(now.saturating_sub(ago));
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_millisecond());
    }
    let utc = |time: jiff::civil::DateTime| time.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let time = text.parse::<jiff::civil::DateTime>().ok().and_then(utc)?;
    Some(time.timestamp().as_millisecond())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_as_people_write_them() {
        let now = 1_769_850_000_000; // 2026-01-31T09:00:00Z
        for (text, expect) in [
            ("1h", now - 3_600_000),
            ("1.5 h", now - 5_400_000),
            ("15min", now - 900_000),
            ("7d", now - 7 * 86_400_000),
            ("2026-01-31T09:00:00Z", now),
            ("2026-01-31T10:00:00+01:00", now),
            ("2026-01-31T09:00", now),
            ("2026-01-31", now - 9 * 3_600_000),
            ("1769850000000", now),
        ] {
            assert_eq!(parse_time(text, now), Some(expect), "{text}");
        }
        for text in ["", "soon", "h", "-1h", "2026-13-01"] {
            assert_eq!(parse_time(text, now), None, "{text}");
        }
    }
}
