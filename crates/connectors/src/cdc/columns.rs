//! Columns of a table in MySQL and MariaDB, and values of the binary log as Debezium gives them.

use std::sync::Arc;

use event::{Object, Value};
use mysql::Value as Found;

/// How the values of a column are read.
#[derive(Clone, PartialEq, Debug)]
enum Kind {
    /// Bits of an integer that has a sign only by definition.
    Int {
        bits: u32,
        is_unsigned: bool,
    },
    Float,
    Double,
    Decimal,
    Bit {
        is_single: bool,
    },
    Year,
    Date,
    /// Fractions of a second that are kept.
    DateTime {
        precision: u32,
    },
    Timestamp,
    Time,
    Enum(Vec<String>),
    Set(Vec<String>),
    Text {
        is_latin: bool,
    },
    Bytes,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Column {
    pub name: Arc<str>,
    kind: Kind,
}

const DAY_MICROS: i64 = 86_400_000_000;

impl Column {
    /// From a row of `information_schema.columns`: name, `data_type`, `column_type`, character set.
    pub fn new(name: &str, data_type: &str, column_type: &str, charset: &str) -> Column {
        let whole = column_type.to_ascii_lowercase();
        let int = |bits| Kind::Int {
            bits,
            is_unsigned: whole.contains("unsigned"),
        };
        let kind = match data_type.to_ascii_lowercase().as_str() {
            "tinyint" => int(8),
            "smallint" => int(16),
            "mediumint" => int(24),
            "int" | "integer" => int(32),
            "bigint" => int(64),
            "float" => Kind::Float,
            "double" | "real" => Kind::Double,
            "decimal" | "numeric" => Kind::Decimal,
            "bit" => Kind::Bit {
                is_single: number(&whole).unwrap_or(1) == 1,
            },
            "year" => Kind::Year,
            "date" => Kind::Date,
            "datetime" => Kind::DateTime {
                precision: number(&whole).unwrap_or(0),
            },
            "timestamp" => Kind::Timestamp,
            "time" => Kind::Time,
            "enum" => Kind::Enum(choices(column_type)),
            "set" => Kind::Set(choices(column_type)),
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Bytes,
            "geometry" | "point" | "linestring" | "polygon" | "inet6" | "inet4" | "uuid"
            | "vector" => Kind::Bytes,
            _ => Kind::Text {
                is_latin: charset.eq_ignore_ascii_case("latin1"),
            },
        };
        Column {
            name: Arc::from(name),
            kind,
        }
    }

    /// What stands for a value that a change does not have.
    pub fn default(&self) -> Value {
        match &self.kind {
            Kind::Int { bits, is_unsigned } if is_long(*bits, *is_unsigned) => Value::Long(0),
            Kind::Int { .. } | Kind::Year | Kind::Date => Value::Int(0),
            Kind::Float => Value::Float(0.0),
            Kind::Double | Kind::Decimal => Value::Double(0.0),
            Kind::Bit { is_single: true } => Value::Bool(false),
            Kind::DateTime { .. } | Kind::Time => Value::Long(0),
            Kind::Timestamp | Kind::Enum(_) | Kind::Set(_) | Kind::Text { .. } => Value::str(""),
            Kind::Bit { .. } | Kind::Bytes => Value::Object(Object::Bytes(Arc::from([]))),
        }
    }

    /// A value of the log; `None` where it is not what the definition says.
    pub fn value(&self, found: &Found) -> Option<Value> {
        if matches!(found, Found::NULL) {
            return Some(Value::Null);
        }
        Some(match (&self.kind, found) {
            (Kind::Int { bits, is_unsigned }, found) => int(whole(found)?, *bits, *is_unsigned),
            (Kind::Float, Found::Float(v)) => Value::Float(*v),
            (Kind::Double, Found::Double(v)) => Value::Double(*v),
            (Kind::Decimal, found) => Value::Double(ascii(found)?.parse().ok()?),
            (Kind::Bit { is_single: true }, Found::Bytes(v)) => {
                Value::Bool(v.iter().any(|byte| *byte != 0))
            }
            (Kind::Bit { .. } | Kind::Bytes, Found::Bytes(v)) => {
                Value::Object(Object::Bytes(v.as_slice().into()))
            }
            (Kind::Year, found) => Value::Int(match ascii(found)?.parse().ok()? {
                // 1900 stands for the year 0000.
                1900 => 0,
                year => year,
            }),
            (Kind::Date, Found::Date(y, m, d, ..)) => match days(*y, *m, *d) {
                Some(days) => Value::Int(days as i32),
                None => Value::Null,
            },
            (Kind::DateTime { precision }, Found::Date(y, mo, d, h, mi, s, us)) => {
                let Some(days) = days(*y, *mo, *d) else {
                    return Some(Value::Null);
                };
                let micros = days * DAY_MICROS + micros(*h, *mi, *s, *us);
                Value::Long(if *precision > 3 {
                    micros
                } else {
                    micros.div_euclid(1000)
                })
            }
            (Kind::Timestamp, found) => timestamp(found)?,
            (Kind::Time, Found::Time(is_negative, days, h, m, s, us)) => {
                let length = i64::from(*days) * DAY_MICROS + micros(*h, *m, *s, *us);
                Value::Long(if *is_negative { -length } else { length })
            }
            (Kind::Enum(choices), found) => {
                let index = usize::try_from(whole(found)?).ok()?;
                // 0 is what a wrong value was stored as.
                Value::str(
                    index
                        .checked_sub(1)
                        .map_or(Some(""), |i| choices.get(i).map(String::as_str))?,
                )
            }
            (Kind::Set(choices), Found::Bytes(bits)) => {
                let is_set = |index: usize| {
                    bits.get(index / 8)
                        .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
                };
                let set = choices
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| is_set(*index));
                let names: Vec<&str> = set.map(|(_, name)| name.as_str()).collect();
                Value::str(&names.join(","))
            }
            (Kind::Text { is_latin: true }, Found::Bytes(bytes)) => Value::str(&latin(bytes)),
            (Kind::Text { .. }, Found::Bytes(bytes)) => Value::str(&String::from_utf8_lossy(bytes)),
            _ => return None,
        })
    }
}

const fn is_long(bits: u32, is_unsigned: bool) -> bool {
    bits == 64 || bits == 32 && is_unsigned
}

/// Whether there is a sign is in the definition, not in the log.
fn int(value: i64, bits: u32, is_unsigned: bool) -> Value {
    let above = 64 - bits;
    let value = match is_unsigned {
        true => ((value as u64) << above >> above) as i64,
        false => value << above >> above,
    };
    match is_long(bits, is_unsigned) {
        true => Value::Long(value),
        false => Value::Int(value as i32),
    }
}

fn whole(found: &Found) -> Option<i64> {
    match found {
        Found::Int(v) => Some(*v),
        // Beyond LONG it wraps, as Debezium's do.
        Found::UInt(v) => Some(*v as i64),
        _ => None,
    }
}

fn ascii(found: &Found) -> Option<&str> {
    match found {
        Found::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn micros(hour: u8, minute: u8, second: u8, micros: u32) -> i64 {
    ((i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second)) * 1_000_000
        + i64::from(micros)
}

/// Days since 1970; `None` for dates that are none (`0000-00-00`).
fn days(year: u16, month: u8, day: u8) -> Option<i64> {
    let date = jiff::civil::Date::new(year as i16, month as i8, day as i8).ok()?;
    let epoch = jiff::civil::Date::constant(1970, 1, 1);
    Some(i64::from((date - epoch).get_days()))
}

/// ISO text in UTC, as Debezium's `ZonedTimestamp`.
fn timestamp(found: &Found) -> Option<Value> {
    let (seconds, micros) = match found {
        Found::Int(seconds) => (*seconds, 0),
        found => {
            let text = ascii(found)?;
            let (seconds, micros) = text.split_once('.').unwrap_or((text, "0"));
            (seconds.parse().ok()?, micros.parse::<i32>().ok()?)
        }
    };
    if (seconds, micros) == (0, 0) {
        return Some(Value::Null);
    }
    let at = jiff::Timestamp::new(seconds, micros * 1000).ok()?;
    Some(Value::str(&at.to_string()))
}

/// Windows-1252, which MySQL calls latin1; the five bytes that have no character keep their number.
fn latin(bytes: &[u8]) -> String {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    let decoded = bytes.iter().map(|byte| match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        byte => char::from(*byte),
    });
    decoded.collect()
}

/// The first number in parentheses.
fn number(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once('(')?;
    rest.split([')', ',']).next()?.trim().parse().ok()
}

/// The texts of `enum('a','b''c')`.
fn choices(text: &str) -> Vec<String> {
    let mut choices = Vec::new();
    let mut open: Option<String> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (&mut open, c) {
            (None, '\'') => open = Some(String::new()),
            (Some(choice), '\'') if rest.peek() == Some(&'\'') => {
                rest.next();
                choice.push('\'');
            }
            (Some(_), '\'') => choices.extend(open.take()),
            (Some(choice), c) => choice.push(c),
            (None, _) => {}
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_log() {
        let check = |ty: &str, found: Found, expect: Value| {
            let data_type = ty.split(['(', ' ']).next().unwrap();
            let column = Column::new("c", data_type, ty, "latin1");
            assert_eq!(column.value(&found), Some(expect), "{ty} {found:?}");
        };
        let bytes = |text: &str| Found::Bytes(text.as_bytes().to_vec());
        check("tinyint(1)", Found::Int(-1), Value::Int(-1));
        check("tinyint(3) unsigned", Found::Int(-1), Value::Int(255));
        check("mediumint unsigned", Found::Int(-1), Value::Int(0xff_ffff));
        check("mediumint", Found::Int(0x80_0000), Value::Int(-0x80_0000));
        check("int(10) unsigned", Found::Int(-1), Value::Long(0xffff_ffff));
        check("bigint(20)", Found::Int(i64::MIN), Value::Long(i64::MIN));
        check("decimal(10,2)", bytes("-12.50"), Value::Double(-12.5));
        check("bit(1)", Found::Bytes(vec![1]), Value::Bool(true));
        check("year(4)", bytes("2026"), Value::Int(2026));
        check("date", Found::Date(1970, 1, 2, 0, 0, 0, 0), Value::Int(1));
        check("date", Found::Date(0, 0, 0, 0, 0, 0, 0), Value::Null);
        check(
            "datetime",
            Found::Date(1970, 1, 1, 0, 0, 1, 5000),
            Value::Long(1005),
        );
        check(
            "datetime(6)",
            Found::Date(1970, 1, 1, 0, 0, 1, 5),
            Value::Long(1_000_005),
        );
        check("timestamp", bytes("1"), Value::str("1970-01-01T00:00:01Z"));
        check(
            "time",
            Found::Time(true, 0, 0, 1, 0, 0),
            Value::Long(-60_000_000),
        );
        check("enum('a','b''c')", Found::Int(2), Value::str("b'c"));
        check("set('a','b','c')", Found::Bytes(vec![5]), Value::str("a,c"));
        check(
            "varchar(20)",
            Found::Bytes(vec![0xe9, 0x80]),
            Value::str("é€"),
        );
        check("text", Found::NULL, Value::Null);
    }
}
