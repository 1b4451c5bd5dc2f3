//! Java's text forms of values: what users see in logs, payloads, templates and group keys.

use std::fmt::Write;

use crate::value::{Object, Value};

/// Appends `Double.toString(value)`: shortest round-trip digits, a decimal point always, and
/// `d.dddE±n` below 1.0E-3 and from 1.0E7 on.
pub fn write_double(out: &mut String, value: f64) {
    if let Some((digits, places)) = short_decimal(value) {
        return write_short(out, value < 0.0, digits, places);
    }
    write_double_slow(out, value);
}

fn write_double_slow(out: &mut String, value: f64) {
    write_java(
        out,
        value,
        value.is_nan(),
        value.is_infinite(),
        format_args!("{:e}", value.abs()),
        format_args!("{:.1e}", value.abs()),
    )
}

const POWERS: [f64; 5] = [1.0, 10.0, 100.0, 1000.0, 10000.0];

/// The digits of a number in the plain range that needs at most four decimal places, and how many
/// it needs. The quotient is rounded once, so where it gives the number back, these are digits that
/// read back as it, and without zeros at the end there are none that are shorter.
fn short_decimal(value: f64) -> Option<(u64, usize)> {
    let size = value.abs();
    if !(1e-3..1e7).contains(&size) {
        return None;
    }
    POWERS.iter().enumerate().find_map(|(places, power)| {
        let scaled = size * power;
        let digits = scaled as u64;
        (digits as f64 == scaled && scaled / power == size).then_some((digits, places))
    })
}

fn write_short(out: &mut String, is_negative: bool, digits: u64, places: usize) {
    // There is always one place behind the point.
    let (mut rest, mut places) = match places {
        0 => (digits * 10, 1),
        places => (digits, places),
    };
    while places > 1 && rest.is_multiple_of(10) {
        rest /= 10;
        places -= 1;
    }
    let mut text = [0; 24];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        let written = text.len() - at;
        if written == places {
            at -= 1;
            text[at] = b'.';
        }
        // A digit must stand before the point.
        if rest == 0 && written > places + 1 {
            break;
        }
    }
    if is_negative {
        out.push('-');
    }
    out.extend(text[at..].iter().map(|&byte| char::from(byte)));
}

/// Appends `Float.toString(value)`.
pub fn write_float(out: &mut String, value: f32) {
    let wide = f64::from(value);
    write_java(
        out,
        wide,
        value.is_nan(),
        value.is_infinite(),
        format_args!("{:e}", value.abs()),
        format_args!("{:.1e}", value.abs()),
    )
}

fn write_java(
    out: &mut String,
    value: f64,
    is_nan: bool,
    is_infinite: bool,
    scientific: std::fmt::Arguments<'_>,
    two_digits: std::fmt::Arguments<'_>,
) {
    if is_nan {
        return out.push_str("NaN");
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    if is_infinite {
        return out.push_str("Infinity");
    }
    if value == 0.0 {
        return out.push_str("0.0");
    }
    // Rust's `{:e}` gives the shortest digits that read back as the same number: `1.234e5`.
    let mut shortest = String::with_capacity(24);
    write!(shortest, "{scientific}").expect("writing to a string cannot fail");
    let (mantissa, exponent) = shortest
        .split_once('e')
        .expect("the scientific form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    // Java always gives two digits, and where one is enough to read the number back it takes the
    // nearest of two: 4.9E-324.
    if mantissa.len() == 1 && value.abs() < f64::from(f32::MIN_POSITIVE) {
        write!(out, "{two_digits}").expect("writing to a string cannot fail");
        let e = out.rfind('e').expect("the scientific form has an exponent");
        out.replace_range(e..=e, "E");
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if (-3..7).contains(&exponent) {
        write_plain(out, &digits, exponent);
    } else {
        let rest = if digits.len() > 1 { &digits[1..] } else { "0" };
        write!(out, "{}.{rest}E{exponent}", &digits[..1]).expect("writing to a string cannot fail");
    }
}

fn write_plain(out: &mut String, digits: &str, exponent: i32) {
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.push_str(digits);
        (digits.len()..whole).for_each(|_| out.push('0'));
        out.push_str(".0");
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

/// Appends Java's `String.valueOf(value)`.
pub fn write_value(out: &mut String, value: &Value) {
    let written = match value {
        Value::Null => return out.push_str("null"),
        Value::Bool(v) => write!(out, "{v}"),
        Value::Int(v) => write!(out, "{v}"),
        Value::Long(v) => write!(out, "{v}"),
        Value::Float(v) => return write_float(out, *v),
        Value::Double(v) => return write_double(out, *v),
        Value::Str(v) => return out.push_str(v),
        Value::Object(v) => return write_object(out, v, 0),
    };
    written.expect("writing to a string cannot fail");
}

/// Nesting at which the text of a list or map is cut.
const DEPTH_MAX: usize = 64;

fn write_object(out: &mut String, object: &Object, depth: usize) {
    if depth > DEPTH_MAX {
        return out.push('…');
    }
    match object {
        Object::List(list) => write_list(out, &list.lock(), depth),
        Object::Set(set) => write_list(out, &set.lock(), depth),
        Object::Array(array) => write_list(out, array, depth),
        Object::Map(map) => {
            out.push('{');
            for (i, (key, value)) in map.lock().iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_nested(out, key, depth);
                out.push('=');
                write_nested(out, value, depth);
            }
            out.push('}');
        }
        Object::Bytes(bytes) => {
            write!(out, "byte[{}]", bytes.len()).expect("writing to a string cannot fail");
        }
        Object::Error(message) => out.push_str(message),
    }
}

fn write_list(out: &mut String, values: &[Value], depth: usize) {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_nested(out, value, depth);
    }
    out.push(']');
}

fn write_nested(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(object) => write_object(out, object, depth + 1),
        plain => write_value(out, plain),
    }
}

/// Java's `String.valueOf(value)`.
pub fn to_text(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// Java's `String.hashCode()`: over UTF-16 units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    if text.is_ascii() {
        return text.bytes().fold(0i32, |h, byte| {
            h.wrapping_mul(31).wrapping_add(i32::from(byte))
        });
    }
    text.encode_utf16().fold(0i32, |h, unit| {
        h.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, text: &str) {
        assert_eq!(to_text(&Value::Double(value)), text);
    }

    #[test]
    fn doubles_as_java_prints_them() {
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(20.0, "20.0");
        check(55.6, "55.6");
        check(0.001, "0.001");
        check(0.00099, "9.9E-4");
        check(9_999_999.0, "9999999.0");
        check(1.0e7, "1.0E7");
        check(1.0e10, "1.0E10");
        check(123_456_789.125, "1.23456789125E8");
        check(0.05, "0.05");
        check(-1234.5, "-1234.5");
        check(f64::MIN_POSITIVE, "2.2250738585072014E-308");
        check(f64::from_bits(1), "4.9E-324");
        check(2e-300, "2.0E-300");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-Infinity");
        assert_eq!(to_text(&Value::Float(55.6)), "55.6");
        assert_eq!(to_text(&Value::Float(1.0e10)), "1.0E10");
    }

    #[test]
    fn the_short_way_writes_what_the_long_way_writes() {
        // A walk over sizes, places and neighbours of short decimals.
        let mut seed = 1u64;
        for _ in 0..200_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let digits = (seed >> 20) % 10u64.pow((seed >> 8) as u32 % 13);
            let value = digits as f64 / 10f64.powi((seed >> 4) as i32 % 8);
            for value in [
                value,
                -value,
                f64::from_bits(value.to_bits() + 1),
                f64::from_bits(seed),
            ] {
                let (mut short, mut long) = (String::new(), String::new());
                write_double(&mut short, value);
                write_double_slow(&mut long, value);
                assert_eq!(short, long, "{value:e}");
            }
        }
    }

    #[test]
    fn hashes_as_java_does() {
        assert_eq!(java_hash("hello"), 99_162_322);
        assert_eq!(java_hash(""), 0);
    }
}
