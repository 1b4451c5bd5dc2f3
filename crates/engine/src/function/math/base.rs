//! Numbers in other bases and in their binary form.

use event::Value;

use crate::function::row::{Row, int, null_in_null_out, text, wrong};

/// Two's complement digits of INT and LONG.
fn digits(
    args: &[Value],
    of_int: fn(i32) -> String,
    of_long: fn(i64) -> String,
) -> Result<Value, String> {
    match &args[0] {
        Value::Null => Ok(Value::Null),
        Value::Int(v) => Ok(Value::str(&of_int(*v))),
        Value::Long(v) => Ok(Value::str(&of_long(*v))),
        other => Err(wrong(0, "an int or long", Some(other))),
    }
}

pub fn bin(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    digits(args, |v| format!("{v:b}"), |v| format!("{v:b}"))
}

pub fn oct(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    digits(args, |v| format!("{v:o}"), |v| format!("{v:o}"))
}

/// Two's complement for INT and LONG, Java's hexadecimal form for FLOAT and DOUBLE.
pub fn hex(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    match args[0] {
        Value::Float(v) => Ok(Value::str(&hex_float(v))),
        Value::Double(v) => Ok(Value::str(&hex_double(v))),
        _ => digits(args, |v| format!("{v:x}"), |v| format!("{v:x}")),
    }
}

/// `Double.toHexString`.
fn hex_double(value: f64) -> String {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as i32;
    hex_real(
        value,
        exponent,
        1023,
        format!("{:013x}", bits & ((1 << 52) - 1)),
    )
}

/// `Float.toHexString`.
fn hex_float(value: f32) -> String {
    let bits = value.to_bits();
    let exponent = (bits >> 23 & 0xFF) as i32;
    // 23 bits of fraction, in six digits of four bits each.
    hex_real(
        f64::from(value),
        exponent,
        127,
        format!("{:06x}", (bits & ((1 << 23) - 1)) << 1),
    )
}

fn hex_real(value: f64, exponent: i32, bias: i32, fraction: String) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0x0.0p0");
    }
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    if exponent == 0 {
        return format!("{sign}0x0.{fraction}p{}", 1 - bias);
    }
    format!("{sign}0x1.{fraction}p{}", exponent - bias)
}

/// `conv(text, from, to)`: 32-bit values.
pub fn conv(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let (s, from, to) = (text(args, 0)?, int(args, 1)?, int(args, 2)?);
    let base = |base: i32| {
        let base = u32::try_from(base).ok().filter(|b| (2..=36).contains(b));
        base.ok_or_else(|| "a base is from 2 to 36".to_owned())
    };
    let value = i32::from_str_radix(s, base(from)?)
        .map_err(|_| format!("'{s}' is not a number of base {from}"))?;
    Ok(Value::str(&in_base(value, base(to)?)))
}

fn in_base(value: i32, base: u32) -> String {
    let mut left = value.unsigned_abs();
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(left % base, base).expect("a remainder is a digit"));
        left /= base;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        digits.push('-');
    }
    digits.into_iter().rev().collect()
}

/// The exponent without its bias, of a float as of the double that it is.
pub fn get_exponent(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let value = super::number(args, 0)?;
    Ok(Value::Int((value.to_bits() >> 52 & 0x7FF) as i32 - 1023))
}
