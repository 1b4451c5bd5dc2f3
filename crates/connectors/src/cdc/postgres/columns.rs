//! Columns of a table in PostgreSQL, and their values in the log as Debezium gives them.

use std::sync::Arc;

use event::{Object, Value};
use jiff::civil;

use super::pgoutput::Field;

/// What Debezium says for a long value that an update did not touch and the log does not repeat.
const UNAVAILABLE: &str = "__debezium_unavailable_value";

const SECOND_MICROS: i64 = 1_000_000;
const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;

/// Days of a month, on average, as Debezium counts them.
const MONTH_DAYS: f64 = 365.25 / 12.0;

/// How the text of a value is read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Bool,
    Int,
    Long,
    Float,
    Double,
    Money,
    Bytes,
    /// So many bits; one is a bool.
    Bits {
        is_single: bool,
    },
    Date,
    /// Fractions of a second that are kept: up to three make milliseconds, more make microseconds.
    Timestamp {
        precision: i32,
    },
    TimestampZone,
    Time {
        precision: i32,
    },
    TimeZone,
    Interval,
    /// Everything else as PostgreSQL writes it: texts, enumerations, JSON, UUIDs, addresses, arrays.
    Text,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub name: Arc<str>,
    kind: Kind,
}

impl Column {
    /// By the number of the type (`pg_type.oid`; a domain's is that of its base) and its modifier.
    pub fn new(name: &str, ty: u32, modifier: i32) -> Column {
        let precision = if modifier < 0 { 6 } else { modifier };
        let kind = match ty {
            16 => Kind::Bool,
            21 | 23 => Kind::Int,
            20 | 26 => Kind::Long,
            700 => Kind::Float,
            701 | 1700 => Kind::Double,
            790 => Kind::Money,
            17 => Kind::Bytes,
            1560 | 1562 => Kind::Bits {
                is_single: ty == 1560 && modifier == 1,
            },
            1082 => Kind::Date,
            1114 => Kind::Timestamp { precision },
            1184 => Kind::TimestampZone,
            1083 => Kind::Time { precision },
            1266 => Kind::TimeZone,
            1186 => Kind::Interval,
            _ => Kind::Text,
        };
        Column {
            name: Arc::from(name),
            kind,
        }
    }

    /// What stands for a value that a change does not have.
    pub fn default(&self) -> Value {
        match self.kind {
            Kind::Bool | Kind::Bits { is_single: true } => Value::Bool(false),
            Kind::Int | Kind::Date => Value::Int(0),
            Kind::Time { precision } if precision <= 3 => Value::Int(0),
            Kind::Long | Kind::Timestamp { .. } | Kind::Time { .. } | Kind::Interval => {
                Value::Long(0)
            }
            Kind::Float => Value::Float(0.0),
            Kind::Double | Kind::Money => Value::Double(0.0),
            Kind::Bytes | Kind::Bits { .. } => bytes(Vec::new()),
            Kind::TimestampZone | Kind::TimeZone | Kind::Text => Value::str(""),
        }
    }

    /// A value of the log; `None` where it is not what its type says.
    pub fn value(&self, field: Field<'_>) -> Option<Value> {
        let text = match field {
            Field::Null => return Some(Value::Null),
            Field::Unchanged => {
                return Some(match self.kind {
                    Kind::Text => Value::str(UNAVAILABLE),
                    Kind::Bytes => bytes(UNAVAILABLE.into()),
                    _ => Value::Null,
                });
            }
            Field::Text(text) => text,
        };
        Some(match self.kind {
            Kind::Bool => Value::Bool(text == "t"),
            Kind::Int => Value::Int(text.parse().ok()?),
            Kind::Long => Value::Long(text.parse().ok()?),
            Kind::Float => Value::Float(text.parse().ok()?),
            Kind::Double => Value::Double(text.parse().ok()?),
            Kind::Money => Value::Double(money(text)?),
            Kind::Bytes => bytes(crate::rdbms::text::unhex(text.strip_prefix("\\x")?)?),
            Kind::Bits { is_single: true } => Value::Bool(text == "1"),
            Kind::Bits { .. } => bytes(bits(text)?),
            Kind::Date => match day(text) {
                Some(days) => Value::Int(i32::try_from(days).ok()?),
                None => infinite(text)
                    .map(|is_past| Value::Int(if is_past { i32::MIN } else { i32::MAX }))?,
            },
            Kind::Timestamp { precision } => {
                let micros = match timestamp(text) {
                    Some(micros) => micros,
                    None => return infinite(text).map(endless),
                };
                Value::Long(match precision {
                    ..=3 => micros.div_euclid(1000),
                    _ => micros,
                })
            }
            Kind::TimestampZone => match infinite(text) {
                Some(_) => Value::str(text),
                None => {
                    let (place, offset) = zoned(text)?;
                    utc(timestamp(place)?.checked_sub(offset * SECOND_MICROS)?)?
                }
            },
            Kind::Time { precision } => {
                let micros = clock(text)?;
                match precision {
                    ..=3 => Value::Int((micros / 1000) as i32),
                    _ => Value::Long(micros),
                }
            }
            Kind::TimeZone => {
                let (place, offset) = zoned(text)?;
                let micros = clock(place)?.checked_sub(offset * SECOND_MICROS)?;
                let micros = micros.rem_euclid(DAY_MICROS);
                let at = civil::Time::midnight() + jiff::SignedDuration::from_micros(micros);
                Value::str(&format!("{at}Z"))
            }
            Kind::Interval => Value::Long(interval(text)?),
            Kind::Text => Value::str(text),
        })
    }
}

fn bytes(bytes: Vec<u8>) -> Value {
    Value::Object(Object::Bytes(bytes.into()))
}

/// `-infinity` is past.
fn infinite(text: &str) -> Option<bool> {
    match text {
        "infinity" => Some(false),
        "-infinity" => Some(true),
        _ => None,
    }
}

fn endless(is_past: bool) -> Value {
    Value::Long(if is_past { i64::MIN } else { i64::MAX })
}

/// `-$1,234.50`, as the locale C has it.
fn money(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|c| !matches!(c, '$' | ',')).collect();
    plain.parse().ok()
}

/// Bits as bytes, the lowest first, as Debezium has them.
fn bits(text: &str) -> Option<Vec<u8>> {
    let mut out = vec![0; text.len().div_ceil(8)];
    for (at, bit) in text.bytes().rev().enumerate() {
        match bit {
            b'1' => out[at / 8] |= 1 << (at % 8),
            b'0' => {}
            _ => return None,
        }
    }
    Some(out)
}

/// Beyond any year or hour that a server writes, and far from where days and microseconds overflow.
const PART_MAX: u64 = 1_000_000_000_000;

/// A number of a date, a time or an offset.
fn part(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.unsigned_abs() <= PART_MAX).then_some(number)
}

/// `2026-01-02`, `44-03-15 BC`: days since 1970.
fn day(text: &str) -> Option<i64> {
    let (text, is_before) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut parts = text.split('-');
    let (year, month) = (part(parts.next()?)?, part(parts.next()?)?);
    let day = part(parts.next()?)?;
    let year = if is_before { 1 - year } else { year };
    // Days from civil, with years that begin in March: dates reach beyond what calendars' crates know.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(era * 146_097 + days - 719_468)
}

/// `04:05:06.789`: microseconds of the day.
fn clock(text: &str) -> Option<i64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':').map(part);
    let (hours, minutes) = (parts.next()??, parts.next()??);
    let seconds = parts.next().unwrap_or(Some(0))?;
    let micros = part(&format!("{rest:0<6}"))?;
    let seconds = (hours * 60 + minutes) * 60 + seconds;
    seconds.checked_mul(SECOND_MICROS)?.checked_add(micros)
}

/// Microseconds since 1970.
fn timestamp(text: &str) -> Option<i64> {
    let (text, era) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let (date, time) = text.split_once(' ')?;
    let days = day(&format!("{date}{era}"))?;
    days.checked_mul(DAY_MICROS)?.checked_add(clock(time)?)
}

/// What stands before the offset, and the offset in seconds: `+02`, `-03:30`.
fn zoned(text: &str) -> Option<(&str, i64)> {
    let (text, is_before) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    if is_before {
        // A year before the first one cannot be written in ISO form.
        return None;
    }
    let at = text.rfind(['+', '-'])?;
    let (place, offset) = text.split_at(at);
    let (sign, digits) = offset.split_at(1);
    let mut parts = digits.split(':').map(part);
    let mut seconds = parts.next()?? * 3600;
    seconds += parts.next().unwrap_or(Some(0))? * 60;
    seconds += parts.next().unwrap_or(Some(0))?;
    if !(0..=DAY_MICROS / SECOND_MICROS).contains(&seconds) {
        return None;
    }
    Some((place, if sign == "-" { -seconds } else { seconds }))
}

/// ISO text in UTC, as Debezium's `ZonedTimestamp`.
fn utc(micros: i64) -> Option<Value> {
    let at = jiff::Timestamp::from_microsecond(micros).ok()?;
    Some(Value::str(&at.to_string()))
}

/// `1 year 2 mons -3 days 04:05:06.5`: microseconds, a month having its average length.
fn interval(text: &str) -> Option<i64> {
    let mut words = text.split(' ');
    let mut months = 0.0;
    let mut micros: i64 = 0;
    while let Some(word) = words.next() {
        if word.contains(':') {
            let (is_below, word) = match word.strip_prefix('-') {
                Some(word) => (true, word),
                None => (false, word.strip_prefix('+').unwrap_or(word)),
            };
            let time = clock(word)?;
            micros = match is_below {
                true => micros.checked_sub(time)?,
                false => micros.checked_add(time)?,
            };
            continue;
        }
        let number: i64 = word.parse().ok()?;
        match words.next()? {
            "year" | "years" => months += number as f64 * 12.0,
            "mon" | "mons" => months += number as f64,
            "day" | "days" => micros = micros.checked_add(number.checked_mul(DAY_MICROS)?)?,
            _ => return None,
        }
    }
    micros.checked_add((months * MONTH_DAYS * DAY_MICROS as f64) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ty: u32, modifier: i32, text: &str, expect: Value) {
        let found = Column::new("c", ty, modifier).value(Field::Text(text));
        let shown = |value: &Value| match value {
            Value::Object(Object::Bytes(bytes)) => format!("{bytes:?}"),
            value => format!("{value:?}"),
        };
        let found = found.as_ref().map(shown);
        assert_eq!(found, Some(shown(&expect)), "{ty} {text}");
    }

    #[test]
    fn values_of_the_log() {
        check(16, -1, "t", Value::Bool(true));
        check(21, -1, "-32768", Value::Int(-32768));
        check(20, -1, "9223372036854775807", Value::Long(i64::MAX));
        check(700, -1, "0.1", Value::Float(0.1));
        check(701, -1, "-Infinity", Value::Double(f64::NEG_INFINITY));
        check(1700, 655_366, "-12.50", Value::Double(-12.5));
        check(790, -1, "-$1,234.50", Value::Double(-1234.5));
        check(17, -1, "\\x00ff", bytes(vec![0, 255]));
        check(1560, 1, "1", Value::Bool(true));
        check(1560, 10, "1000000001", bytes(vec![1, 2]));
        check(25, -1, "ü", Value::str("ü"));
    }

    #[test]
    fn dates_and_times() {
        check(1082, -1, "1970-01-02", Value::Int(1));
        check(1082, -1, "2000-03-01", Value::Int(11_017));
        check(1082, -1, "0001-12-31 BC", Value::Int(-719_163));
        check(1082, -1, "infinity", Value::Int(i32::MAX));
        check(1114, 3, "1970-01-01 00:00:01.5", Value::Long(1500));
        check(
            1114,
            -1,
            "1970-01-01 00:00:01.000002",
            Value::Long(1_000_002),
        );
        check(1114, -1, "-infinity", Value::Long(i64::MIN));
        check(
            1184,
            -1,
            "2026-01-02 03:04:05.5+02",
            Value::str("2026-01-02T01:04:05.5Z"),
        );
        check(
            1184,
            -1,
            "2026-01-02 00:00:00-03:30",
            Value::str("2026-01-02T03:30:00Z"),
        );
        check(1083, 0, "01:00:00", Value::Int(3_600_000));
        check(1083, -1, "00:00:00.000001", Value::Long(1));
        check(1266, -1, "01:00:00+02", Value::str("23:00:00Z"));
        check(
            1186,
            -1,
            "1 day -00:00:01",
            Value::Long(DAY_MICROS - SECOND_MICROS),
        );
        check(1186, -1, "1 mon", Value::Long(2_629_800_000_000));
    }

    #[test]
    fn what_the_log_leaves_out() {
        let text = Column::new("c", 25, -1).value(Field::Unchanged);
        assert_eq!(text, Some(Value::str(UNAVAILABLE)));
        assert_eq!(
            Column::new("c", 25, -1).value(Field::Null),
            Some(Value::Null)
        );
        assert_eq!(Column::new("c", 23, -1).value(Field::Text("x")), None);
    }

    #[test]
    fn numbers_that_no_server_writes_are_no_values() {
        for (ty, text) in [
            (1083, "22207252220725:8:8"),
            (1083, "9223372036854775807:8"),
            (1083, "1:2:3.99999999999999999"),
            (1082, "9223372036854775807-1-1"),
            (1082, "1-9223372036854775807-1 BC"),
            (1114, "999999999999-1-1 1:1"),
            (1184, "2026-01-01 00:00:00+999999999999"),
            (1184, "999999999-01-01 00:00:00+1"),
            (1266, "2562047789:0+1"),
            (1186, "9223372036854775807 days"),
            (1186, "106751991 days 2562047788:0"),
        ] {
            let found = Column::new("c", ty, -1).value(Field::Text(text));
            assert_eq!(found, None, "{text}");
        }
    }
}
