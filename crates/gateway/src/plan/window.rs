//! Windows of the calendar, in UTC.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;

/// Units of one window at most.
const COUNT_MAX: u32 = 1000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Month,
}

impl Unit {
    /// Seconds, of all but the month.
    fn seconds(self) -> Option<i64> {
        match self {
            Unit::Second => Some(1),
            Unit::Minute => Some(60),
            Unit::Hour => Some(3600),
            Unit::Day => Some(86_400),
            Unit::Month => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Second => "s",
            Unit::Minute => "min",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Month => "month",
        }
    }

    /// Those of API Manager are among the names.
    fn parse(text: &str) -> Option<Unit> {
        Some(match text.to_ascii_lowercase().as_str() {
            "s" | "sec" | "second" | "seconds" => Unit::Second,
            "min" | "minute" | "minutes" => Unit::Minute,
            "h" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "month" | "months" => Unit::Month,
            _ => return None,
        })
    }
}

/// So many units that belong together: they begin with multiples of the count since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Window {
    unit: Unit,
    count: u32,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str(self.unit.name()),
            count => write!(f, "{count} {}", self.unit.name()),
        }
    }
}

impl Window {
    /// `None` for no units, or more than a thousand.
    pub fn new(count: u32, unit: Unit) -> Option<Window> {
        (1..=COUNT_MAX)
            .contains(&count)
            .then_some(Window { unit, count })
    }

    /// `day`, `5min`, `10 hours`.
    pub fn parse(text: &str) -> Option<Window> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (count, unit) = text.split_at(digits);
        let count = match count {
            "" => 1,
            count => count.parse().ok()?,
        };
        Window::new(count, Unit::parse(unit.trim())?)
    }

    pub fn unit(self) -> Unit {
        self.unit
    }

    /// Is it over before a machine that has failed can have started again?
    pub(super) fn is_short(self) -> bool {
        self.unit == Unit::Second && self.count == 1
    }

    /// The number of the window that a time is in; each has one more than the one before it.
    pub fn index(self, now: SystemTime) -> i64 {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let units = match self.unit.seconds() {
            Some(length) => seconds / length,
            None => months(seconds),
        };
        units / i64::from(self.count)
    }

    /// When the window of a number ends, which is when the next one begins.
    pub fn end(self, index: i64) -> SystemTime {
        let units = index
            .saturating_add(1)
            .saturating_mul(i64::from(self.count));
        let seconds = match self.unit.seconds() {
            Some(length) => units.saturating_mul(length),
            None => month_start(units),
        };
        let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }
}

/// Months since January 1970.
fn months(seconds: i64) -> i64 {
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    let day: Date = time.to_zoned(TimeZone::UTC).date();
    (i64::from(day.year()) - 1970) * 12 + i64::from(day.month()) - 1
}

/// When a month since January 1970 begins.
fn month_start(months: i64) -> i64 {
    let year = i16::try_from(1970 + months.div_euclid(12))
        .unwrap_or(9999)
        .min(9999);
    let month = i8::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
    let begin = date(year, month, 1).to_zoned(TimeZone::UTC);
    begin.map_or(i64::MAX, |begin| begin.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    // rules: T5
    #[test]
    fn windows_are_those_of_the_calendar() {
        let at = |text: &str| -> SystemTime { text.parse::<Timestamp>().expect("a time").into() };
        for (window, now, end) in [
            ("s", "2026-11-28T16:59:59.999Z", "2026-11-28T17:00:00Z"),
            ("min", "2026-11-28T16:59:00Z", "2026-11-28T17:00:00Z"),
            ("15 minutes", "2026-11-28T16:46:00Z", "2026-11-28T17:00:00Z"),
            ("hours", "2026-12-31T23:00:00Z", "2027-01-01T00:00:00Z"),
            ("day", "2028-02-28T23:59:59Z", "2028-02-29T00:00:00Z"),
            ("month", "2028-02-29T12:00:00Z", "2028-03-01T00:00:00Z"),
            ("Months", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
            ("3month", "2026-11-28T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("month", "1970-01-01T00:00:00Z", "1970-02-01T00:00:00Z"),
        ] {
            let window = Window::parse(window).expect("a window");
            let index = window.index(at(now));
            assert_eq!(window.end(index), at(end), "{window} {now}");
            // The next begins there, and this one has not ended just before.
            assert_eq!(window.index(at(end)), index + 1, "{window} {now}");
            assert_eq!(
                window.index(at(end) - Duration::from_nanos(1)),
                index,
                "{window} {now}"
            );
        }
    }

    #[test]
    fn a_window_is_read_or_refused() {
        for text in [
            "",
            "5",
            "0min",
            "1001s",
            "fortnight",
            "-1day",
            "1.5h",
            "min 5",
        ] {
            assert_eq!(Window::parse(text), None, "{text}");
        }
        let window = Window::parse("5 min").expect("a window");
        assert_eq!(window.to_string(), "5 min");
        assert_eq!(Window::parse(&window.to_string()), Some(window));
        // The end of time is no panic.
        let month = Window::parse("month").expect("a window");
        month.end(i64::MAX);
        month.end(200_000);
    }
}
