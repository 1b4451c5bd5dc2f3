//! Where buckets begin and end, and what times `within` means.
//!
//! Seconds and minutes are cut by arithmetic, longer durations by the calendar of a zone (Siddhi's
//! `IncrementalTimeConverterUtil`).

use event::Value;
use jiff::tz::TimeZone;
use lang::ast::Duration;

use crate::function::time::calendar::{
    Fields, add, days_in_month, parse_offset, to_local, to_timestamp,
};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Start of the bucket that holds a time, milliseconds since 1970.
pub(super) fn start_of(time: i64, duration: Duration, zone: &TimeZone) -> i64 {
    match duration {
        Duration::Seconds => time - time % SECOND,
        Duration::Minutes => time - time % MINUTE,
        _ => in_zone(time, duration, zone),
    }
}

fn in_zone(time: i64, duration: Duration, zone: &TimeZone) -> i64 {
    let local = to_local(time, zone);
    if duration == Duration::Hours {
        // The offset of the time itself: an hour that is repeated keeps its two buckets.
        return local - local.rem_euclid(HOUR) - (local - time);
    }
    let mut fields = Fields::of(local - local.rem_euclid(DAY));
    match duration {
        Duration::Months => fields.day = 1,
        Duration::Years => (fields.month, fields.day) = (1, 1),
        _ => {}
    }
    to_timestamp(fields.local(), zone)
}

/// End of the bucket that holds a time, which is the start of the next.
pub(super) fn end_of(time: i64, duration: Duration, zone: &TimeZone) -> i64 {
    let start = start_of(time, duration, zone);
    let unit = match duration {
        Duration::Seconds => return start + SECOND,
        Duration::Minutes => return start + MINUTE,
        Duration::Hours => return start + HOUR,
        Duration::Days | Duration::Weeks => "DAY",
        Duration::Months => "MONTH",
        Duration::Years => "YEAR",
    };
    add(start, unit, 1, zone)
}

/// `per`: the name of a duration in any of its forms (Siddhi's `normalizeDuration`).
pub(super) fn duration_named(text: &str) -> Option<Duration> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "sec" | "second" | "seconds" => Duration::Seconds,
        "min" | "minute" | "minutes" => Duration::Minutes,
        "hour" | "hours" => Duration::Hours,
        "day" | "days" => Duration::Days,
        "month" | "months" => Duration::Months,
        "year" | "years" => Duration::Years,
        _ => return None,
    })
}

/// A time as LONG milliseconds, or as a text.
pub(super) fn time_of(value: &Value) -> Result<i64, String> {
    match value {
        Value::Long(time) => Ok(*time),
        Value::Int(time) => Ok(i64::from(*time)),
        Value::Str(text) => parse_time(text),
        _ => Err("there is no time".to_owned()),
    }
}

/// `yyyy-MM-dd HH:mm:ss`, in GMT or with an offset (`+05:30`) behind it.
pub(super) fn parse_time(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let wrong = || {
        format!(
            "'{text}' is not a time: write 'yyyy-MM-dd HH:mm:ss' in GMT, or the same and an offset \
             such as '+05:30'"
        )
    };
    let (local, offset) = split(text).ok_or_else(wrong)?;
    let bytes = local.as_bytes();
    let is_shaped = bytes.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        b' ' => byte.is_ascii_whitespace(),
        other => byte == other,
    });
    if !is_shaped {
        return Err(wrong());
    }
    let number = |at: usize, length: usize| local[at..at + length].parse::<i64>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2));
    let (hour, minute, second) = (number(11, 2), number(14, 2), number(17, 2));
    let is_right = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_right {
        return Err(wrong());
    }
    let days = crate::function::time::calendar::days_of(year, month, day);
    Ok(days * DAY + hour * HOUR + minute * MINUTE + second * SECOND - offset)
}

const SHAPE: &[u8; 19] = b"0000-00-00 00:00:00";

/// The local part and the offset in milliseconds of a text of 19 or 26 characters.
fn split(text: &str) -> Option<(&str, i64)> {
    if !text.is_ascii() {
        return None;
    }
    match text.len() {
        19 => Some((text, 0)),
        26 => {
            let (seconds, read) = parse_offset(&text[20..])?;
            let is_offset = read == 6 && text.as_bytes()[19].is_ascii_whitespace();
            is_offset.then(|| (&text[..19], seconds * SECOND))
        }
        _ => None,
    }
}

/// `2019-06-** **:**:**`: the first and the end of the times that a text with a tail of wildcards
/// means.
pub(super) fn range_of(text: &str) -> Result<(i64, i64), String> {
    /// The tail of wildcards, from the longest, and what begins the range there.
    const TAILS: [(&str, &str, Duration); 5] = [
        ("**-** **:**:**", "01-01 00:00:00", Duration::Years),
        ("** **:**:**", "01 00:00:00", Duration::Months),
        ("**:**:**", "00:00:00", Duration::Days),
        ("**:**", "00:00", Duration::Hours),
        ("**", "00", Duration::Minutes),
    ];
    let text = text.trim();
    let wrong = || {
        format!(
            "'{text}' is not a range of time: write 'yyyy-MM-dd HH:mm:ss', with '**' for any value \
             from one place to the end, such as '2024-06-** **:**:**'"
        )
    };
    let (local, offset) = split(text).ok_or_else(wrong)?;
    for (tail, first, duration) in TAILS {
        let Some(head) = local.strip_suffix(tail) else {
            continue;
        };
        if head.contains('*') {
            return Err(wrong());
        }
        let start = parse_time(&format!("{head}{first}")).map_err(|_| wrong())?;
        let end = end_of(start, duration, &TimeZone::UTC);
        return Ok((start - offset, end - offset));
    }
    let start = parse_time(text).map_err(|_| wrong())?;
    Ok((start, start + SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::time::calendar::zone;

    // covers: 296
    #[test]
    fn buckets_follow_the_calendar_of_the_zone() {
        let check = |name: &str, text: &str, duration, start: &str, end: &str| {
            let zone = zone(name).expect("a zone");
            let time = parse_time(text).expect("a time");
            let of = |text: &str| parse_time(text).expect("a time");
            assert_eq!(start_of(time, duration, &zone), of(start), "start {text}");
            assert_eq!(end_of(time, duration, &zone), of(end), "end {text}");
        };
        let (t, gmt) = ("2020-02-29 23:30:15", "GMT");
        check(gmt, t, Duration::Seconds, t, "2020-02-29 23:30:16");
        check(
            gmt,
            t,
            Duration::Hours,
            "2020-02-29 23:00:00",
            "2020-03-01 00:00:00",
        );
        check(
            gmt,
            t,
            Duration::Days,
            "2020-02-29 00:00:00",
            "2020-03-01 00:00:00",
        );
        check(
            gmt,
            t,
            Duration::Months,
            "2020-02-01 00:00:00",
            "2020-03-01 00:00:00",
        );
        check(
            gmt,
            t,
            Duration::Years,
            "2020-01-01 00:00:00",
            "2021-01-01 00:00:00",
        );
        let east = "2020-02-01 00:00:00 +08:00";
        let next = "2020-03-01 00:00:00 +08:00";
        check(
            "Asia/Singapore",
            "2020-02-29 15:30:15",
            Duration::Months,
            east,
            next,
        );
        let (half, hour) = ("2020-02-29 23:00:00 +05:30", "2020-03-01 00:00:00 +05:30");
        check(
            "Asia/Kolkata",
            "2020-02-29 23:30:15 +05:30",
            Duration::Hours,
            half,
            hour,
        );
    }

    #[test]
    fn wildcards_form_the_tail() {
        let check = |text: &str, start: &str, end: &str| {
            let of = |text: &str| parse_time(text).expect("a time");
            assert_eq!(range_of(text), Ok((of(start), of(end))), "{text}");
        };
        let new_year = "2020-01-01 00:00:00";
        check("2019-**-** **:**:**", "2019-01-01 00:00:00", new_year);
        check("2019-12-** **:**:**", "2019-12-01 00:00:00", new_year);
        check("2019-12-31 **:**:**", "2019-12-31 00:00:00", new_year);
        check("2019-12-31 23:**:**", "2019-12-31 23:00:00", new_year);
        check("2019-12-31 23:59:**", "2019-12-31 23:59:00", new_year);
        check("2019-12-31 23:59:59", "2019-12-31 23:59:59", new_year);
        check(
            "2019-12-31 23:**:** +05:00",
            "2019-12-31 18:00:00",
            "2019-12-31 19:00:00",
        );
        for text in [
            "2019-**-01 **:**:**",
            "2019-13-** **:**:**",
            "2019",
            "****-**-** **:**:**",
        ] {
            assert!(range_of(text).is_err(), "{text}");
        }
    }
}
