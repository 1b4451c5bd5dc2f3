//! Java's reading of numbers and its conversions between them.

/// `Integer.parseInt` and `Long.parseLong`: a sign and ASCII digits, nothing around them.
pub fn parse_integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// `Double.parseDouble` and `Float.parseFloat`: blanks around, `NaN`, `Infinity`, a suffix of
/// `f F d D`, hexadecimal forms.
pub fn parse_real<T: Real>(text: &str) -> Option<T> {
    let text = text.trim_matches(|c| c <= ' ');
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (&text[..1], rest),
        None => ("", text),
    };
    let number = match rest {
        "NaN" => "NaN",
        "Infinity" => "inf",
        _ if rest.starts_with("0x") || rest.starts_with("0X") => {
            let value = hex_real::<T>(&rest[2..])?;
            return Some(T::from_parts(sign == "-", value));
        }
        _ => {
            let number = rest.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(rest);
            let allowed =
                |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
            let has_digit = number
                .bytes()
                .next()
                .is_some_and(|b| b.is_ascii_digit() || b == b'.');
            if !has_digit || !number.bytes().all(allowed) {
                return None;
            }
            number
        }
    };
    if number == "NaN" {
        return number.parse().ok();
    }
    format!("{sign}{number}").parse().ok()
}

/// FLOAT or DOUBLE: what reading a hexadecimal form has to know of it.
pub trait Real: std::str::FromStr {
    /// Bits of the significand, with the one that is not written.
    const SIGNIFICAND: u32;
    /// Exponent of the last bit of the smallest number.
    const EXPONENT_MIN: i32;

    /// `value` is one of this type already.
    fn from_parts(is_negative: bool, value: f64) -> Self;
}

impl Real for f64 {
    const SIGNIFICAND: u32 = 53;
    const EXPONENT_MIN: i32 = -1074;

    fn from_parts(is_negative: bool, value: f64) -> f64 {
        if is_negative { -value } else { value }
    }
}

impl Real for f32 {
    const SIGNIFICAND: u32 = 24;
    const EXPONENT_MIN: i32 = -149;

    fn from_parts(is_negative: bool, value: f64) -> f32 {
        let value = value as f32;
        if is_negative { -value } else { value }
    }
}

/// What stands behind `0x`: digits, perhaps a point, and the exponent of two that Java asks for,
/// rounded once to the nearest number of the type, to even where two are as near.
fn hex_real<T: Real>(text: &str) -> Option<f64> {
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut exponent = clamped_exponent(exponent)?;
    // Digits beyond what 128 bits hold only matter as something or nothing.
    let (mut bits, mut is_more) = (0u128, false);
    let places = [(whole, false), (fraction, true)];
    for (digit, is_fraction) in places
        .iter()
        .flat_map(|(part, is_fraction)| part.chars().map(move |c| (c, *is_fraction)))
    {
        let digit = digit.to_digit(16)?;
        if bits >> 120 == 0 {
            bits = bits << 4 | u128::from(digit);
            exponent -= if is_fraction { 4 } else { 0 };
        } else {
            is_more |= digit != 0;
            exponent += if is_fraction { 0 } else { 4 };
        }
    }
    if bits == 0 {
        return Some(0.0);
    }
    let length = 128 - bits.leading_zeros();
    let last =
        (exponent + i64::from(length) - i64::from(T::SIGNIFICAND)).max(i64::from(T::EXPONENT_MIN));
    let kept = match last - exponent {
        drop @ 1..=127 => {
            let (kept, rest, half) = (bits >> drop, bits & ((1 << drop) - 1), 1 << (drop - 1));
            let is_up = rest > half || rest == half && (is_more || kept & 1 == 1);
            kept + u128::from(is_up)
        }
        ..=0 => return Some(scaled(bits as f64, exponent, T::SIGNIFICAND)),
        _ => 0,
    };
    Some(scaled(kept as f64, last, T::SIGNIFICAND))
}

/// The exponent of a hexadecimal form, bounded far beyond where numbers end.
fn clamped_exponent(text: &str) -> Option<i64> {
    const BOUND: i64 = 1 << 40;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let bound = if text.starts_with('-') { -BOUND } else { BOUND };
    Some(text.parse().unwrap_or(bound).clamp(-BOUND, BOUND))
}

/// `value * 2^exponent`, exact where the result is a number of the type.
fn scaled(value: f64, exponent: i64, significand: u32) -> f64 {
    // In two steps, since 2^exponent alone may lie below the smallest number.
    let exponent = exponent.clamp(-2200, 2200) as i32;
    let first = exponent.clamp(-900, 900);
    let scaled = value * 2f64.powi(first) * 2f64.powi((exponent - first).clamp(-900, 900));
    if significand == f32::MANTISSA_DIGITS && scaled > f64::from(f32::MAX) {
        return f64::INFINITY;
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_as_java_reads_them() {
        let check =
            |text: &str, expect: Option<i32>| assert_eq!(parse_integer(text), expect, "{text:?}");
        check("12", Some(12));
        check("+12", Some(12));
        check("-2147483648", Some(i32::MIN));
        check("2147483648", None);
        check(" 1", None);
        check("1.0", None);
        check("", None);
        check("-", None);
    }

    #[test]
    fn reals_as_java_reads_them() {
        let check =
            |text: &str, expect: Option<f64>| assert_eq!(parse_real(text), expect, "{text:?}");
        check(" 1.5 ", Some(1.5));
        check("1e3", Some(1000.0));
        check("1.5f", Some(1.5));
        check(".5", Some(0.5));
        check("5.", Some(5.0));
        check("-Infinity", Some(f64::NEG_INFINITY));
        check("inf", None);
        check("nan", None);
        check("abc", None);
        check("", None);
        check("f", None);
        assert!(parse_real::<f64>("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn hexadecimal_reals_as_java_reads_them() {
        let check =
            |text: &str, expect: Option<f64>| assert_eq!(parse_real(text), expect, "{text:?}");
        check("0x1p3", Some(8.0));
        check("-0X1.8P-1", Some(-0.75));
        check("0x.8p1d", Some(1.0));
        check("0x1.fffffffffffffp1023", Some(f64::MAX));
        check("0x1p1024", Some(f64::INFINITY));
        check("0x1p-1074", Some(5e-324));
        check("0x1p-1075", Some(0.0));
        check("0x1.8p-1075", Some(5e-324));
        check("0x0.0000000000001p-1022", Some(5e-324));
        check("0x0p99999999999999999999", Some(0.0));
        check("0x1p-99999999999999999999", Some(0.0));
        // The half is rounded to even, anything more than the half up.
        check("0x1.00000000000008p0", Some(1.0));
        check("0x1.00000000000018p0", Some(1.0000000000000004));
        check(
            "0x1.000000000000080000000000000000000000001p0",
            Some(1.0000000000000002),
        );
        for wrong in ["0x1", "0xp1", "0x1.p", "0x1gp1", "0x1p+", "0x"] {
            check(wrong, None);
        }
        let check = |text: &str, expect: f32| assert_eq!(parse_real(text), Some(expect), "{text}");
        check("0x1p-149", 1e-45);
        check("0x1.fffffep127f", f32::MAX);
        check("0x1.ffffffp127", f32::INFINITY);
        check("0x1.000001p0", 1.0);
        check("0x1.000003p0", 1.000_000_2);
    }
}
