//! Text to values by Java's rules (`connectors-map.md` 10).

use event::{ColumnBuilder, Type, Value};

/// Java's `String.trim()`.
#[inline]
pub fn trim(text: &str) -> &str {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) if first <= b' ' || last <= b' ' => {
            text.trim_matches(|c| c <= ' ')
        }
        _ => text,
    }
}

/// `Boolean.parseBoolean`: never an error.
#[inline]
pub fn parse_bool(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// `Integer.parseInt`: sign, digits (also those of other scripts), range; no blanks.
#[inline]
pub fn parse_int(text: &str) -> Option<i32> {
    i32::try_from(parse_long(text)?).ok()
}

/// `Long.parseLong`.
#[inline]
pub fn parse_long(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (negative, digits) = match bytes.first()? {
        b'-' => (true, &bytes[1..]),
        b'+' => (false, &bytes[1..]),
        _ => (false, bytes),
    };
    if digits.is_empty() {
        return None;
    }
    // Eighteen digits cannot overflow.
    if digits.len() <= 18 {
        let mut value = 0i64;
        for &digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return parse_long_slow(text);
            }
            value = value * 10 + i64::from(digit);
        }
        return Some(if negative { -value } else { value });
    }
    parse_long_slow(text)
}

/// The reference: any length, and digits of other scripts as `Character.digit` reads them.
#[cold]
fn parse_long_slow(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for c in digits.chars() {
        let digit = i64::from(digit_of(c)?);
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// First digit of each run of ten decimal digits of the basic plane (Unicode category Nd), which
/// `Character.digit(char, 10)` knows.
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
];

fn digit_of(c: char) -> Option<u32> {
    let code = c as u32;
    ZEROS
        .iter()
        .find(|&&zero| (zero..zero + 10).contains(&code))
        .map(|zero| code - zero)
}

/// `Double.parseDouble`: blanks around, sign, decimal or hexadecimal with exponent, `NaN`,
/// `Infinity`, suffix `f F d D`.
#[inline]
pub fn parse_double(text: &str) -> Option<f64> {
    if let Some(value) = parse_plain_decimal(text.as_bytes()) {
        return Some(value);
    }
    java_real(
        text,
        |digits| fast_float2::parse::<f64, _>(digits).ok(),
        hex_double,
    )
}

/// `Float.parseFloat`: rounded once, from the decimal digits.
#[inline]
pub fn parse_float(text: &str) -> Option<f32> {
    java_real(
        text,
        |digits| fast_float2::parse::<f32, _>(digits).ok(),
        |hex| hex_double(hex).map(|wide| wide as f32),
    )
}

const POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Digits with at most one point, up to fifteen digits: both parts are exact doubles, and their
/// quotient is rounded once, so the result is the nearest double.
#[inline]
fn parse_plain_decimal(bytes: &[u8]) -> Option<f64> {
    let (negative, digits) = match bytes.first()? {
        b'-' => (true, &bytes[1..]),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut value = 0u64;
    let mut point = None;
    for (i, &byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else if byte == b'.' && point.is_none() {
            point = Some(i);
        } else {
            return None;
        }
    }
    let (count, fraction) = match point {
        Some(at) => (digits.len() - 1, digits.len() - 1 - at),
        None => (digits.len(), 0),
    };
    if count == 0 || count > 15 {
        return None;
    }
    let magnitude = value as f64 / POWERS[fraction];
    Some(if negative { -magnitude } else { magnitude })
}

/// What surrounds the digits of a Java floating-point literal.
#[cold]
fn java_real<T: std::ops::Neg<Output = T> + From<f32>>(
    text: &str,
    decimal: impl Fn(&str) -> Option<T>,
    hex: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let text = trim(text);
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = match rest {
        "NaN" => T::from(f32::NAN),
        "Infinity" => T::from(f32::INFINITY),
        _ => {
            let digits = rest.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(rest);
            if rest.starts_with("0x") || rest.starts_with("0X") {
                // In a hexadecimal number `d` and `f` are digits, except behind its exponent, which
                // it must have.
                hex(&digits[2..])?
            } else {
                let plain = digits
                    .bytes()
                    .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
                if !plain || digits.starts_with(['+', '-']) {
                    return None;
                }
                decimal(digits)?
            }
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `1.8p3` behind `0x`: up to sixteen significant hexadecimal digits are exact; more are refused.
fn hex_double(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for c in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(c.to_digit(16)?);
        if value >> 49 != 0 {
            return None;
        }
        value = value * 16 + digit;
    }
    let scale = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    Some(value as f64 * 2f64.powi(scale))
}

/// Appends the text as a value of the type; false (and nothing appended) when it is none.
#[inline]
pub fn push_text(column: &mut ColumnBuilder, ty: Type, text: &str) -> bool {
    match ty {
        Type::String => column.push_str(text),
        Type::Int => match parse_int(text) {
            Some(value) => column.push_int(value),
            None => return false,
        },
        Type::Long => match parse_long(text) {
            Some(value) => column.push_long(value),
            None => return false,
        },
        Type::Float => match parse_float(text) {
            Some(value) => column.push_float(value),
            None => return false,
        },
        Type::Double => match parse_double(text) {
            Some(value) => column.push_double(value),
            None => return false,
        },
        Type::Bool => column.push_bool(parse_bool(text)),
        Type::Object => column.push(&Value::str(text)),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_as_java_parses_them() {
        fn check(text: &str, expect: Option<i64>) {
            assert_eq!(parse_long(text), expect, "{text:?}");
            assert_eq!(parse_long_slow(text), expect, "{text:?}, slow");
        }
        check("0", Some(0));
        check("+7", Some(7));
        check("-007", Some(-7));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775808", None);
        check("000000000000000000000000000001", Some(1));
        check("١٢", Some(12));
        for bad in [
            "", "-", "+", " 1", "1 ", "1.0", "1L", "1e3", "--1", "0x1", "½",
        ] {
            check(bad, None);
        }
        assert_eq!(parse_int("2147483648"), None);
        assert_eq!(parse_int("-2147483648"), Some(i32::MIN));
    }

    #[test]
    fn real_numbers_as_java_parses_them() {
        fn check(text: &str, expect: Option<f64>) {
            let found = parse_double(text);
            let same = match (found, expect) {
                (Some(a), Some(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                (a, b) => a == b,
            };
            assert!(same, "{text:?}: {found:?}");
        }
        check("55.6", Some(55.6));
        check(" 1.5d ", Some(1.5));
        check("\t-.5F\n", Some(-0.5));
        check("5.", Some(5.0));
        check("+1e-3", Some(0.001));
        check("-0", Some(-0.0));
        check("1e400", Some(f64::INFINITY));
        check("NaN", Some(f64::NAN));
        check("-Infinity", Some(f64::NEG_INFINITY));
        check("0x1.8p1", Some(3.0));
        check("0X.8P0d", Some(0.5));
        check(
            "123456789012345678901234567890",
            Some(123456789012345678901234567890.0),
        );
        for bad in [
            "", " ", ".", "-", "inf", "nan", "infinity", "1.5x", "1,5", "1e", "0x1", "--1", "+-1",
            "1_0", "1dd",
        ] {
            check(bad, None);
        }
        assert_eq!(parse_float("55.6"), Some(55.6f32));
        assert_eq!(parse_float("16777217"), Some(16777216.0));
    }

    proptest::proptest! {
        #[test]
        fn the_short_way_of_decimals_is_exact(whole in 0u64..1_000_000_000, fraction in "[0-9]{0,6}", minus: bool) {
            let text = format!("{}{whole}.{fraction}", if minus { "-" } else { "" });
            let expect: f64 = text.trim_end_matches('.').parse().expect("a number");
            proptest::prop_assert_eq!(parse_double(&text).map(f64::to_bits), Some(expect.to_bits()));
        }

        #[test]
        fn whole_numbers_come_back(value: i64) {
            proptest::prop_assert_eq!(parse_long(&value.to_string()), Some(value));
        }

        #[test]
        fn any_text_is_a_number_or_none(text: String) {
            proptest::prop_assert_eq!(parse_long(&text), parse_long_slow(&text));
            parse_double(&text);
            parse_float(&text);
        }
    }
}
