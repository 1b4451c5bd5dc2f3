//! Quartz cron expressions: seconds, minutes, hours, day of month, month, day of week, and a year.
//!
//! All of Quartz's forms: lists, ranges, steps, names, `?`, `L`, `L-n`, `nW`, `LW`, `nL` and `n#k`.
//! Times that a change of the clock leaves out are passed over. The checker reads them to find faults;
//! triggers, cron windows and sources that wait for their time ask for the next one.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Days that are looked at for the next time; a rule that fits none of them never comes.
const DAYS_MAX: usize = 366 * 60;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: Days,
    months: u64,
    weekdays: Weekdays,
    /// First year, last year and step, each; empty for all.
    years: Vec<(i16, i16, i16)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Days {
    Any,
    Set(u64),
    /// So many days before the last.
    Last(i8),
    /// The working day nearest to this one; 0 for the last of the month.
    Working(i8),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Weekdays {
    Any,
    /// Bit 1 is Sunday.
    Set(u64),
    /// The last such day of the month.
    Last(i8),
    /// The n-th such day of the month.
    Nth(i8, i8),
}

const MONTHS: &[&str] = &[
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Cron {
    /// The error says what is wrong and where.
    pub fn parse(text: &str) -> Result<Cron, String> {
        let upper = text.trim().to_ascii_uppercase();
        let fields: Vec<&str> = upper.split_whitespace().collect();
        if !(6..=7).contains(&fields.len()) {
            return Err(format!(
                "cron expression '{text}' has {} fields: write seconds, minutes, hours, day of \
                 month, month, day of week, and optionally a year",
                fields.len()
            ));
        }
        let bad = |name: &str, field: &str| {
            format!("cron expression '{text}': '{field}' is not a valid {name}")
        };
        let set = |index: usize, name: &str, low, high, names: &[&str]| {
            set(fields[index], low, high, names).ok_or_else(|| bad(name, fields[index]))
        };
        let cron = Cron {
            seconds: set(0, "seconds", 0, 59, &[])?,
            minutes: set(1, "minutes", 0, 59, &[])?,
            hours: set(2, "hours", 0, 23, &[])?,
            days: days(fields[3]).ok_or_else(|| bad("day of month", fields[3]))?,
            months: set(4, "month", 1, 12, MONTHS)?,
            weekdays: weekdays(fields[5]).ok_or_else(|| bad("day of week", fields[5]))?,
            years: match fields.get(6) {
                Some(field) => years(field).ok_or_else(|| bad("year", field))?,
                None => Vec::new(),
            },
        };
        Ok(cron)
    }

    /// The first time after `after` (milliseconds since 1970) in a zone; `None` if there is none.
    pub fn next(&self, after: i64, zone: &TimeZone) -> Option<i64> {
        let start = Timestamp::from_millisecond(after)
            .ok()?
            .to_zoned(zone.clone())
            .datetime();
        let mut date = start.date();
        for _ in 0..DAYS_MAX {
            if self.fits(date)
                && let Some(millis) = self.first_in_day(date, after, start, zone)
            {
                return Some(millis);
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn first_in_day(
        &self,
        date: Date,
        after: i64,
        start: DateTime,
        zone: &TimeZone,
    ) -> Option<i64> {
        let first_hour = if date == start.date() {
            start.hour()
        } else {
            0
        };
        for hour in (first_hour..24).filter(|h| has(self.hours, *h)) {
            for minute in (0..60).filter(|m| has(self.minutes, *m)) {
                for second in (0..60).filter(|s| has(self.seconds, *s)) {
                    let time = date.at(hour, minute, second, 0);
                    let zoned = zone.to_ambiguous_zoned(time).compatible().ok()?;
                    let millis = zoned.timestamp().as_millisecond();
                    if zoned.datetime() == time && millis > after {
                        return Some(millis);
                    }
                }
            }
        }
        None
    }

    fn fits(&self, date: Date) -> bool {
        let year = date.year();
        let in_year = self.years.is_empty()
            || self
                .years
                .iter()
                .any(|&(from, to, step)| (from..=to).contains(&year) && (year - from) % step == 0);
        in_year && has(self.months, date.month()) && self.days.fit(date) && self.weekdays.fit(date)
    }
}

const fn has(set: u64, value: i8) -> bool {
    set & (1 << value) != 0
}

impl Days {
    fn fit(&self, date: Date) -> bool {
        let last = date.days_in_month();
        match *self {
            Days::Any => true,
            Days::Set(set) => has(set, date.day()),
            Days::Last(before) => date.day() == last - before,
            Days::Working(day) => {
                let wanted = if day == 0 { last } else { day.min(last) };
                nearest_working(date, wanted) == date.day()
            }
        }
    }
}

/// The working day nearest to a day of the month, without leaving the month.
fn nearest_working(date: Date, day: i8) -> i8 {
    let last = date.days_in_month();
    let Ok(wanted) = Date::new(date.year(), date.month(), day) else {
        return day;
    };
    match wanted.weekday() {
        Weekday::Saturday if day > 1 => day - 1,
        Weekday::Saturday => day + 2,
        Weekday::Sunday if day < last => day + 1,
        Weekday::Sunday => day - 2,
        _ => day,
    }
}

impl Weekdays {
    fn fit(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_one_offset();
        match *self {
            Weekdays::Any => true,
            Weekdays::Set(set) => has(set, weekday),
            Weekdays::Last(day) => weekday == day && date.day() + 7 > date.days_in_month(),
            Weekdays::Nth(day, nth) => weekday == day && (date.day() - 1) / 7 + 1 == nth,
        }
    }
}

fn number(text: &str, low: i8, high: i8, names: &[&str]) -> Option<i8> {
    let value = match names.iter().position(|name| *name == text) {
        Some(index) => index as i8 + 1,
        None => text.parse().ok()?,
    };
    (low..=high).contains(&value).then_some(value)
}

/// A list of values, ranges and steps as a set of bits. A range may go over the end (`FRI-MON`).
fn set(field: &str, low: i8, high: i8, names: &[&str]) -> Option<u64> {
    let mut bits = 0u64;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<i8>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let has_step = part.contains('/');
        let (from, to) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (low, high),
            Some((from, to)) => (
                number(from, low, high, names)?,
                number(to, low, high, names)?,
            ),
            None => {
                let from = number(range, low, high, names)?;
                (from, if has_step { high } else { from })
            }
        };
        let span = i16::from(high - low) + 1;
        let end = i16::from(to) + if to < from { span } else { 0 };
        let mut value = i16::from(from);
        while value <= end {
            let wrapped = if value > i16::from(high) {
                value - span
            } else {
                value
            };
            bits |= 1 << wrapped;
            value += i16::from(step);
        }
    }
    Some(bits)
}

fn days(field: &str) -> Option<Days> {
    match field {
        "*" | "?" => return Some(Days::Any),
        "L" => return Some(Days::Last(0)),
        "LW" => return Some(Days::Working(0)),
        _ => {}
    }
    if let Some(before) = field.strip_prefix("L-") {
        return number(before, 0, 30, &[]).map(Days::Last);
    }
    if let Some(day) = field.strip_suffix('W') {
        return number(day, 1, 31, &[]).map(Days::Working);
    }
    set(field, 1, 31, &[]).map(Days::Set)
}

fn weekdays(field: &str) -> Option<Weekdays> {
    match field {
        "*" | "?" => return Some(Weekdays::Any),
        "L" => return Some(Weekdays::Set(1 << 7)),
        _ => {}
    }
    if let Some((day, nth)) = field.split_once('#') {
        return Some(Weekdays::Nth(
            number(day, 1, 7, WEEKDAYS)?,
            number(nth, 1, 5, &[])?,
        ));
    }
    if let Some(day) = field.strip_suffix('L') {
        return number(day, 1, 7, WEEKDAYS).map(Weekdays::Last);
    }
    set(field, 1, 7, WEEKDAYS).map(Weekdays::Set)
}

fn years(field: &str) -> Option<Vec<(i16, i16, i16)>> {
    let year = |text: &str| {
        text.parse::<i16>()
            .ok()
            .filter(|y| (1970..=2199).contains(y))
    };
    if matches!(field, "*" | "?") {
        return Some(Vec::new());
    }
    field
        .split(',')
        .map(|part| {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
                None => (part, 1),
            };
            let (from, to) = match range.split_once('-') {
                _ if range == "*" => (1970, 2199),
                Some((from, to)) => (year(from)?, year(to)?),
                None if part.contains('/') => (year(range)?, 2199),
                None => (year(range)?, year(range)?),
            };
            Some((from, to, step))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next times in UTC after 2026-02-27 10:00:30, a Friday.
    fn check(expression: &str, expect: &[&str]) {
        let cron = Cron::parse(expression).unwrap();
        let mut at = "2026-02-27T10:00:30Z"
            .parse::<Timestamp>()
            .unwrap()
            .as_millisecond();
        for time in expect {
            at = cron.next(at, &TimeZone::UTC).unwrap();
            let text = Timestamp::from_millisecond(at).unwrap().to_string();
            assert_eq!(text, format!("{time}Z"), "{expression}");
        }
    }

    #[test]
    fn next_times() {
        check(
            "*/5 * * * * ?",
            &["2026-02-27T10:00:35", "2026-02-27T10:00:40"],
        );
        check(
            "0 0/30 8-10 ? * MON-FRI",
            &["2026-02-27T10:30:00", "2026-03-02T08:00:00"],
        );
        check(
            "0 0 12 L * ?",
            &["2026-02-28T12:00:00", "2026-03-31T12:00:00"],
        );
        check("0 0 12 L-2 * ?", &["2026-03-29T12:00:00"]);
        check(
            "0 0 12 LW * ?",
            &["2026-02-27T12:00:00", "2026-03-31T12:00:00"],
        );
        check(
            "0 0 12 1W * ?",
            &["2026-03-02T12:00:00", "2026-04-01T12:00:00"],
        );
        check(
            "0 0 12 ? * 6L",
            &["2026-02-27T12:00:00", "2026-03-27T12:00:00"],
        );
        check(
            "0 0 12 ? * TUE#2",
            &["2026-03-10T12:00:00", "2026-04-14T12:00:00"],
        );
        check("0 0 0 29 2 ?", &["2028-02-29T00:00:00"]);
        check(
            "0 0 0 1 JAN ? 2030-2031",
            &["2030-01-01T00:00:00", "2031-01-01T00:00:00"],
        );
        check(
            "0 0 0 ? * FRI-SUN",
            &["2026-02-28T00:00:00", "2026-03-01T00:00:00"],
        );
    }

    #[test]
    fn a_time_that_never_comes_and_one_that_cannot_be_read() {
        let never = Cron::parse("0 0 0 1 1 ? 2000").unwrap();
        assert_eq!(never.next(1_800_000_000_000, &TimeZone::UTC), None);
        for text in [
            "* * * * *",
            "60 * * * * ?",
            "0 0 0 32 * ?",
            "0 0 0 ? * MUN",
            "0 */0 * * * ?",
        ] {
            assert!(Cron::parse(text).is_err(), "{text}");
        }
    }
}
