//! Java's reading of numbers and its conversions between them.

/// `Integer.parseInt` and `Long.parseLong`: a sign and ASCII digits, nothing around them.
pub fn parse_integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// `Double.parseDouble` and `Float.parseFloat`: blanks around, `NaN`, `Infinity`, a suffix of
/// `f F d D`. Hexadecimal forms are not known.
pub fn parse_real<T: std::str::FromStr>(text: &str) -> Option<T> {
    let text = text.trim_matches(|c| c <= ' ');
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (&text[..1], rest),
        None => ("", text),
    };
    let number = match rest {
        "NaN" => "NaN",
        "Infinity" => "inf",
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
}
