//! Indexes and lengths as Java counts them: in UTF-16 units.

/// `String.length()`.
pub fn len(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.encode_utf16().count()
    }
}

/// `String.substring(begin, end)`; `None` where the places are out of range. Half of a surrogate
/// pair becomes the replacement character.
pub fn substring(text: &str, begin: i64, end: i64) -> Option<String> {
    if begin < 0 || end < begin || end > len(text) as i64 {
        return None;
    }
    let (begin, end) = (begin as usize, end as usize);
    if text.is_ascii() {
        return Some(text[begin..end].to_owned());
    }
    let units: Vec<u16> = text.encode_utf16().skip(begin).take(end - begin).collect();
    Some(String::from_utf16_lossy(&units))
}

/// Where a byte stands, in units.
pub fn unit_of(text: &str, byte: usize) -> usize {
    len(&text[..byte])
}

/// The byte at which a unit begins, at most the length of the text.
pub fn byte_of(text: &str, unit: usize) -> usize {
    if text.is_ascii() {
        return unit.min(text.len());
    }
    let mut units = 0;
    for (byte, c) in text.char_indices() {
        if units >= unit {
            return byte;
        }
        units += c.len_utf16();
    }
    text.len()
}

/// `String.compareTo`: the difference of the first units that differ, or of the lengths.
pub fn compare(a: &str, b: &str) -> i32 {
    let differing = a.encode_utf16().zip(b.encode_utf16()).find(|(x, y)| x != y);
    match differing {
        Some((x, y)) => i32::from(x) - i32::from(y),
        None => len(a) as i32 - len(b) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_units() {
        assert_eq!((len("abc"), len("é"), len("a😀")), (3, 1, 3));
        assert_eq!(substring("a😀b", 3, 4).as_deref(), Some("b"));
        assert_eq!(substring("abc", 1, 2).as_deref(), Some("b"));
        assert_eq!(substring("abc", 1, 4), None);
        assert_eq!(substring("abc", -1, 2), None);
        assert_eq!(
            (unit_of("😀b", 4), byte_of("😀b", 2), byte_of("ab", 9)),
            (2, 4, 2)
        );
        assert_eq!(
            (compare("a", "c"), compare("ab", "a"), compare("a", "a")),
            (-2, 1, 0)
        );
    }
}
