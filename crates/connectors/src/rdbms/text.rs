//! Texts as statements and bulk loads of more than one database take them.

/// Appends bytes as hexadecimal digits.
pub fn hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Copies a text, with something else in the place of some ASCII characters.
pub fn escaped(text: &str, out: &mut String, escape: impl Fn(u8) -> Option<&'static str>) {
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(instead) = escape(byte) {
            out.push_str(&text[start..at]);
            out.push_str(instead);
            start = at + 1;
        }
    }
    out.push_str(&text[start..]);
}

/// Bytes of hexadecimal digits in either case.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let [high, low] = pair else { return None };
        let digit = |c: u8| char::from(c).to_digit(16);
        Some((digit(*high)? * 16 + digit(*low)?) as u8)
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_digits_and_back() {
        let mut text = String::new();
        hex(&[0, 127, 255], &mut text);
        assert_eq!(text, "007fff");
        assert_eq!(unhex("007FfF"), Some(vec![0, 127, 255]));
        assert_eq!((unhex("0"), unhex("0g")), (None, None));
    }

    #[test]
    fn characters_are_replaced() {
        let mut out = String::new();
        escaped("a'ü'", &mut out, |byte| (byte == b'\'').then_some("''"));
        assert_eq!(out, "a''ü''");
    }
}
