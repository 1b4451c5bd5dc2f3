//! Rows as messages `DataRow`: values as PostgreSQL writes them, as text or binary.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp};

use super::{Column, Hide, TEXT};
use crate::error::Error;

const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const DATE: u32 = 1082;
const TIME: u32 = 1083;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;

/// PostgreSQL counts days and microseconds from the first day of 2000, Arrow from that of 1970.
const DAYS_TO_2000: i32 = 10_957;
const MICROS_TO_2000: i64 = 946_684_800_000_000;

/// Digits of PostgreSQL's numeric are to the base of 10,000.
const NUMERIC_DIGITS: usize = 4;

/// Digits of a decimal number of 64 bits without a sign.
const DIGITS_OF_64: u8 = 20;

/// The type as which values of Arrow's type are told, by number, and the bytes of one.
pub(super) fn oid(ty: &DataType) -> (u32, i16) {
    match ty {
        DataType::Boolean => (BOOL, 1),
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => (INT2, 2),
        DataType::UInt16 | DataType::Int32 => (INT4, 4),
        DataType::UInt32 | DataType::Int64 => (INT8, 8),
        DataType::Float16 | DataType::Float32 => (FLOAT4, 4),
        DataType::Float64 => (FLOAT8, 8),
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..) => (NUMERIC, -1),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => (BYTEA, -1),
        DataType::Date32 | DataType::Date64 => (DATE, 4),
        DataType::Time32(_) | DataType::Time64(_) => (TIME, 8),
        DataType::Timestamp(_, None) => (TIMESTAMP, 8),
        DataType::Timestamp(_, Some(_)) => (TIMESTAMPTZ, 8),
        DataType::Dictionary(_, values) => oid(values),
        // As it is shown elsewhere, too: lists, structures, intervals.
        _ => (TEXT, -1),
    }
}

/// The type of Arrow in which values of a type are written.
pub(super) fn arrow(oid: u32) -> DataType {
    match oid {
        BOOL => DataType::Boolean,
        INT2 => DataType::Int16,
        INT4 => DataType::Int32,
        INT8 => DataType::Int64,
        FLOAT4 => DataType::Float32,
        FLOAT8 => DataType::Float64,
        BYTEA => DataType::Binary,
        DATE => DataType::Date32,
        TIME => DataType::Time64(TimeUnit::Microsecond),
        TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        // The scale is that of what is to be written.
        NUMERIC => DataType::Decimal128(38, 0),
        _ => DataType::Utf8,
    }
}

/// Writes the rows of one answer.
pub(super) struct RowEncoder {
    columns: Vec<(u32, bool)>,
    hide: Hide,
}

impl RowEncoder {
    /// `formats`: none, one for all, or one for each; true is binary.
    pub fn new(columns: &[Column], formats: &[bool], hide: Hide) -> RowEncoder {
        let format = |at: usize| match formats {
            [] => false,
            [all] => *all,
            each => each.get(at).copied().unwrap_or(false),
        };
        let columns = columns.iter().enumerate();
        RowEncoder {
            columns: columns
                .map(|(at, column)| (column.oid, format(at)))
                .collect(),
            hide,
        }
    }

    /// Columns in the types in which they are written.
    pub fn fit(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, Error> {
        let columns = batch.columns().iter().zip(&self.columns);
        columns.map(|(array, (oid, _))| fit(array, *oid)).collect()
    }

    pub fn push(
        &mut self,
        columns: &[ArrayRef],
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        out.push(b'D');
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for (array, (oid, is_binary)) in columns.iter().zip(&self.columns) {
            if array.is_null(row) {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            match is_binary {
                true => binary(array, row, *oid, &self.hide, out)?,
                false => text(array, row, *oid, &self.hide, out)?,
            }
            patch(out, at, 4)?;
        }
        patch(out, begin, 0)
    }
}

/// Writes the length of what stands behind a place; `own`: its own bytes that do not count.
fn patch(out: &mut [u8], at: usize, own: usize) -> Result<(), Error> {
    let len = i32::try_from(out.len() - at - own);
    let len = len.map_err(|_| Error::Values("a row has more than 2 GB".to_owned()))?;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

fn fit(array: &ArrayRef, oid: u32) -> Result<ArrayRef, Error> {
    let failed = |cause: &dyn std::fmt::Display| Error::Values(cause.to_string());
    let to = match (oid, array.data_type()) {
        (NUMERIC, DataType::Decimal128(..)) => return Ok(array.clone()),
        (
            NUMERIC,
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale),
        ) => DataType::Decimal128(*precision, *scale),
        (NUMERIC, _) => DataType::Decimal128(DIGITS_OF_64, 0),
        (TEXT, ty) if !is_text(ty) => return formatted(array),
        _ => arrow(oid),
    };
    if *array.data_type() == to {
        return Ok(array.clone());
    }
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, &to, &strict).map_err(|error| failed(&error))
}

fn is_text(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

fn formatted(array: &ArrayRef) -> Result<ArrayRef, Error> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options);
    let formatter = formatter.map_err(|error| Error::Values(error.to_string()))?;
    let texts =
        (0..array.len()).map(|row| (!array.is_null(row)).then(|| formatter.value(row).to_string()));
    Ok(std::sync::Arc::new(
        texts.collect::<datafusion::arrow::array::StringArray>(),
    ))
}

fn shown(array: &ArrayRef, row: usize, hide: &Hide, out: &mut Vec<u8>) {
    let text = array.as_string::<i32>().value(row);
    match hide(text) {
        Some(text) => out.extend_from_slice(text.as_bytes()),
        None => out.extend_from_slice(text.as_bytes()),
    }
}

fn text(
    array: &ArrayRef,
    row: usize,
    oid: u32,
    hide: &Hide,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    macro_rules! value {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(row)
        };
    }
    let text = match oid {
        BOOL => {
            out.push(if array.as_boolean().value(row) {
                b't'
            } else {
                b'f'
            });
            return Ok(());
        }
        INT2 => value!(Int16Type).to_string(),
        INT4 => value!(Int32Type).to_string(),
        INT8 => value!(Int64Type).to_string(),
        FLOAT4 => {
            let value = value!(Float32Type);
            real(f64::from(value), &format!("{value:e}"))
        }
        FLOAT8 => {
            let value = value!(Float64Type);
            real(value, &format!("{value:e}"))
        }
        NUMERIC => array.as_primitive::<Decimal128Type>().value_as_string(row),
        BYTEA => {
            out.extend_from_slice(b"\\x");
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
            for byte in array.as_binary::<i32>().value(row) {
                out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
            return Ok(());
        }
        DATE => date(value!(Date32Type))?,
        TIME => time(value!(Time64MicrosecondType))?,
        TIMESTAMP => timestamp(value!(TimestampMicrosecondType), "")?,
        TIMESTAMPTZ => timestamp(value!(TimestampMicrosecondType), "+00")?,
        _ => {
            shown(array, row, hide, out);
            return Ok(());
        }
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn binary(
    array: &ArrayRef,
    row: usize,
    oid: u32,
    hide: &Hide,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    macro_rules! put {
        ($ty:ty) => {
            out.extend_from_slice(&array.as_primitive::<$ty>().value(row).to_be_bytes())
        };
    }
    let since_2000 = |value: i64| value.checked_sub(MICROS_TO_2000).ok_or_else(beyond);
    match oid {
        BOOL => out.push(u8::from(array.as_boolean().value(row))),
        INT2 => put!(Int16Type),
        INT4 => put!(Int32Type),
        INT8 => put!(Int64Type),
        FLOAT4 => put!(Float32Type),
        FLOAT8 => put!(Float64Type),
        TIME => put!(Time64MicrosecondType),
        NUMERIC => numeric(
            &array.as_primitive::<Decimal128Type>().value_as_string(row),
            out,
        ),
        BYTEA => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        DATE => {
            let days = array.as_primitive::<Date32Type>().value(row);
            let days = days.checked_sub(DAYS_TO_2000).ok_or_else(beyond)?;
            out.extend_from_slice(&days.to_be_bytes());
        }
        TIMESTAMP | TIMESTAMPTZ => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            out.extend_from_slice(&since_2000(micros)?.to_be_bytes());
        }
        _ => shown(array, row, hide, out),
    }
    Ok(())
}

/// The shortest digits, with an exponent where PostgreSQL has one. `scientific`: the same as Rust writes it.
fn real(value: f64, scientific: &str) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..15).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i32 + exponent;
    if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let point = point as usize;
    if digits.len() <= point {
        return format!("{sign}{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..point], &digits[point..])
}

fn beyond() -> Error {
    Error::Values("a time is outside of the years that can be written".to_owned())
}

fn day(date: Date) -> (String, &'static str) {
    // The year before the first is the first before Christ.
    let (year, era) = match date.year() {
        year @ 1.. => (i32::from(year), ""),
        year => (1 - i32::from(year), " BC"),
    };
    let day = format!("{year:04}-{:02}-{:02}", date.month(), date.day());
    (day, era)
}

fn date(days: i32) -> Result<String, Error> {
    let hours = SignedDuration::from_hours(i64::from(days) * 24);
    let date = Date::constant(1970, 1, 1).checked_add(hours);
    let (day, era) = day(date.map_err(|_| beyond())?);
    Ok(format!("{day}{era}"))
}

fn clock(time: Time) -> String {
    let text = format!(
        "{:02}:{:02}:{:02}",
        time.hour(),
        time.minute(),
        time.second()
    );
    match time.subsec_nanosecond() / 1000 {
        0 => text,
        micros => {
            let micros = format!("{micros:06}");
            format!("{text}.{}", micros.trim_end_matches('0'))
        }
    }
}

fn time(micros: i64) -> Result<String, Error> {
    let time = Time::midnight().checked_add(SignedDuration::from_micros(micros));
    Ok(clock(time.map_err(|_| beyond())?))
}

fn timestamp(micros: i64, zone: &str) -> Result<String, Error> {
    let at = Timestamp::from_microsecond(micros).map_err(|_| beyond())?;
    let at: DateTime = at.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    let (day, era) = day(at.date());
    Ok(format!("{day} {}{zone}{era}", clock(at.time())))
}

/// PostgreSQL's numeric: digits to the base of 10,000, the weight of the first, a sign, and digits behind the point.
fn numeric(text: &str, out: &mut Vec<u8>) {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let lead = (NUMERIC_DIGITS - whole.len() % NUMERIC_DIGITS) % NUMERIC_DIGITS;
    let trail = (NUMERIC_DIGITS - fraction.len() % NUMERIC_DIGITS) % NUMERIC_DIGITS;
    let digits = format!("{}{whole}{fraction}{}", "0".repeat(lead), "0".repeat(trail));
    let mut groups: Vec<u16> = digits
        .as_bytes()
        .chunks(NUMERIC_DIGITS)
        .map(|group| {
            group
                .iter()
                .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
        })
        .collect();
    let mut weight = ((whole.len() + lead) / NUMERIC_DIGITS) as i16 - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign: u16 = if is_negative && !groups.is_empty() {
        0x4000
    } else {
        0
    };
    out.extend_from_slice(&(groups.len() as u16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(fraction.len() as u16).to_be_bytes());
    groups
        .iter()
        .for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_numbers_are_written_as_postgresql_writes_them() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (123456.789, "123456.789"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(real(value, &format!("{value:e}")), want);
        }
        assert_eq!(real(f64::from(0.1_f32), &format!("{:e}", 0.1_f32)), "0.1");
    }

    #[test]
    fn times_are_written_as_iso_has_them() {
        let second = 1_000_000;
        for (micros, want) in [
            (0, "1970-01-01 00:00:00"),
            (1_500_000, "1970-01-01 00:00:01.5"),
            (-1, "1969-12-31 23:59:59.999999"),
            (951_782_400 * second, "2000-02-29 00:00:00"),
            (-62_135_596_801 * second, "0001-12-31 23:59:59 BC"),
        ] {
            assert_eq!(timestamp(micros, "").expect("in range"), want);
        }
        timestamp(i64::MAX, "").expect_err("beyond");
        assert_eq!(date(-1).expect("in range"), "1969-12-31");
        date(i32::MAX).expect_err("beyond");
        assert_eq!(time(86_399_000_001).expect("in range"), "23:59:59.000001");
    }

    #[test]
    fn numbers_have_digits_to_the_base_of_ten_thousand() {
        let of = |text: &str| {
            let mut out = Vec::new();
            numeric(text, &mut out);
            let words = out
                .chunks(2)
                .map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
            words.collect::<Vec<i16>>()
        };
        assert_eq!(of("0"), [0, 0, 0, 0]);
        assert_eq!(of("1"), [1, 0, 0, 0, 1]);
        assert_eq!(of("-12345.67"), [3, 1, 0x4000, 2, 1, 2345, 6700]);
        assert_eq!(of("0.0001"), [1, -1, 0, 4, 1]);
        assert_eq!(of("10000"), [1, 1, 0, 0, 1]);
        assert_eq!(of("0.00"), [0, 0, 0, 2]);
    }
}
