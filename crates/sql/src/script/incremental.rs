//! Tables of which a script reads what has come since it was run the last time.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// `incrementalParams`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Incremental {
    pub id: String,
    pub unit: Option<Unit>,
    /// Units that are read once more.
    pub buffer: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl Unit {
    pub fn of(name: &str) -> Option<Unit> {
        Some(match name.to_uppercase().as_str() {
            "YEAR" => Unit::Year,
            "MONTH" => Unit::Month,
            "DAY" => Unit::Day,
            "HOUR" => Unit::Hour,
            "MINUTE" => Unit::Minute,
            "SECOND" => Unit::Second,
            _ => return None,
        })
    }
}

impl Incremental {
    /// The first time that is read, where `last` was the last of the run before.
    pub fn start(&self, last: i64, zone: &TimeZone) -> i64 {
        let Some(unit) = self.unit else {
            return last.saturating_add(1);
        };
        let begin = || -> Option<i64> {
            let at = Timestamp::from_millisecond(last)
                .ok()?
                .to_zoned(zone.clone())
                .datetime();
            let floor = floor(at, unit)?;
            let back = i64::from(self.buffer);
            let back = match unit {
                Unit::Year => Span::new().try_years(back),
                Unit::Month => Span::new().try_months(back),
                Unit::Day => Span::new().try_days(back),
                Unit::Hour => Span::new().try_hours(back),
                Unit::Minute => Span::new().try_minutes(back),
                Unit::Second => Span::new().try_seconds(back),
            };
            let back = back.ok()?;
            let begin = floor.checked_sub(back).ok()?.to_zoned(zone.clone()).ok()?;
            Some(begin.timestamp().as_millisecond())
        };
        // A time before the first that a calendar knows: all of it.
        begin().unwrap_or(i64::MIN)
    }
}

fn floor(at: DateTime, unit: Unit) -> Option<DateTime> {
    let (month, day) = match unit {
        Unit::Year => (1, 1),
        Unit::Month => (at.month(), 1),
        _ => (at.month(), at.day()),
    };
    let (hour, minute, second) = match unit {
        Unit::Year | Unit::Month | Unit::Day => (0, 0, 0),
        Unit::Hour => (at.hour(), 0, 0),
        Unit::Minute => (at.hour(), at.minute(), 0),
        Unit::Second => (at.hour(), at.minute(), at.second()),
    };
    DateTime::new(at.year(), month, day, hour, minute, second, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_some_units_before_the_last() {
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        let millis = |text: &str| {
            let zoned: DateTime = text.parse().expect("a time");
            zoned
                .to_zoned(zone.clone())
                .expect("there")
                .timestamp()
                .as_millisecond()
        };
        let last = millis("2026-03-29T14:35:06.789");
        for (unit, buffer, expect) in [
            ("YEAR", 1, "2025-01-01T00:00:00"),
            ("month", 2, "2026-01-01T00:00:00"),
            ("DAY", 1, "2026-03-28T00:00:00"),
            ("HOUR", 0, "2026-03-29T14:00:00"),
            ("MINUTE", 36, "2026-03-29T13:59:00"),
            ("SECOND", 1, "2026-03-29T14:35:05"),
        ] {
            let incremental = Incremental {
                id: "i".into(),
                unit: Unit::of(unit),
                buffer,
            };
            assert_eq!(incremental.start(last, &zone), millis(expect), "{unit}");
        }
        let plain = Incremental {
            id: "i".into(),
            unit: None,
            buffer: 1,
        };
        assert_eq!(plain.start(last, &zone), last + 1);
    }
}
