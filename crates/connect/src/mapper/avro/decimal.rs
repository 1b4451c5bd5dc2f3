//! Decimals: whole numbers as bytes of two's complement, highest first, and the position of their
//! point.

/// Digits that a decimal may have.
const DIGITS_MAX: usize = 38;

/// The number as text, `-12.30` for -1230 with scale 2; `None` where it has more than 38 digits.
pub(super) fn text(bytes: &[u8], scale: usize) -> Option<String> {
    if bytes.len() > size_of::<i128>() || scale > DIGITS_MAX {
        return None;
    }
    let fill = match bytes.first() {
        Some(first) if *first >= 0x80 => 0xff,
        _ => 0,
    };
    let mut whole = [fill; size_of::<i128>()];
    whole[size_of::<i128>() - bytes.len()..].copy_from_slice(bytes);
    let number = i128::from_be_bytes(whole);
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
    let (before, behind) = digits.split_at(digits.len() - scale);
    let sign = if number < 0 { "-" } else { "" };
    Some(match behind {
        "" => format!("{sign}{before}"),
        _ => format!("{sign}{before}.{behind}"),
    })
}

/// The shortest bytes of a number written as `-12.3`, `1.23E1`; `None` where it is not a number, has more
/// than 38 digits, or more behind its point than the scale.
pub(super) fn bytes(text: &str, scale: usize) -> Option<Vec<u8>> {
    let (text, exponent) = match text.split_once(['e', 'E']) {
        Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (before, behind) = text.split_once('.').unwrap_or((text, ""));
    let mut digits = format!("{before}{behind}");
    if digits.is_empty() || digits.len() > 4096 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // How far the point has to go to the right.
    let shift =
        i64::try_from(scale).ok()? - i64::try_from(behind.len()).ok()? + i64::from(exponent);
    if shift < 0 {
        let cut = usize::try_from(-shift).ok()?.min(digits.len());
        let kept = digits.len() - cut;
        if digits[kept..].bytes().any(|b| b != b'0') {
            return None;
        }
        digits.truncate(kept);
    } else if digits.bytes().any(|b| b != b'0') {
        let zeros = usize::try_from(shift).ok().filter(|z| *z <= DIGITS_MAX)?;
        digits.extend(std::iter::repeat_n('0', zeros));
    }
    let digits = digits.trim_start_matches('0');
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let number = match digits {
        "" => 0,
        digits => digits.parse::<i128>().ok()? * sign,
    };
    let whole = number.to_be_bytes();
    // Bytes that only repeat the sign are left out, but for the last.
    let fill = if number < 0 { 0xff } else { 0 };
    let is_needed = |i: usize| {
        whole[i] != fill
            || (whole
                .get(i + 1)
                .is_none_or(|next| (next ^ fill) & 0x80 != 0))
    };
    let first = (0..whole.len()).find(|&i| is_needed(i))?;
    Some(whole[first..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_there_and_back() {
        fn check(written: &str, scale: usize, expect: &[u8], read: &str) {
            assert_eq!(bytes(written, scale).as_deref(), Some(expect), "{written}");
            assert_eq!(text(expect, scale).as_deref(), Some(read), "{written}");
        }
        check("0", 0, &[0], "0");
        check("1", 0, &[1], "1");
        check("-1", 0, &[0xff], "-1");
        check("127", 0, &[0x7f], "127");
        check("128", 0, &[0, 0x80], "128");
        check("-128", 0, &[0x80], "-128");
        check("-129", 0, &[0xff, 0x7f], "-129");
        check("12.34", 2, &[0x04, 0xd2], "12.34");
        check("-12.3", 2, &[0xfb, 0x32], "-12.30");
        check("1.23E1", 2, &[0x04, 0xce], "12.30");
        check("5e-2", 2, &[5], "0.05");
        check("1.0", 0, &[1], "1");
        check("0.000", 1, &[0], "0.0");
        check("0e-30", 1, &[0], "0.0");
    }

    #[test]
    fn what_does_not_fit_is_none() {
        for (written, scale) in [
            ("1.234", 2),
            ("1e-3", 2),
            ("1e99", 0),
            ("", 0),
            (".", 0),
            ("x", 0),
            ("NaN", 0),
            ("1e", 0),
            ("123456789012345678901234567890123456789", 0),
        ] {
            assert_eq!(bytes(written, scale), None, "{written}");
        }
        assert_eq!(text(&[1; 17], 0), None);
        assert_eq!(text(&[], 3).as_deref(), Some("0.000"));
    }
}
