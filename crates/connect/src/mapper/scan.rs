//! Searches in bytes, eight at a time, for texts too short for a call of `memchr` to pay.
//!
//! Plain arithmetic on words; no `unsafe`.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;
const LOWS: u64 = !TOPS;

/// Marks the first byte that is zero; marks above it may be wrong.
#[inline]
fn first_zero(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & TOPS
}

/// Marks exactly the bytes that are zero.
#[inline]
fn zeros(word: u64) -> u64 {
    !(((word & LOWS) + LOWS) | word | LOWS)
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(
        word.try_into().expect("the slice has eight bytes"),
    ))
}

/// Index of the first byte from `at` on that is a control character (below blank) or one of `stops`.
#[inline]
pub fn first_stop<const N: usize>(bytes: &[u8], mut at: usize, stops: [u8; N]) -> Option<usize> {
    while let Some(word) = word_at(bytes, at) {
        let mut found = word.wrapping_sub(ONES * u64::from(b' ')) & !word & TOPS;
        for stop in stops {
            found |= first_zero(word ^ (ONES * u64::from(stop)));
        }
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    let len = rest
        .iter()
        .position(|byte| *byte < b' ' || stops.contains(byte))?;
    Some(at + len)
}

/// Appends the index of each `mark` to `found`; false, with some of them, where one of `stops` stands
/// in the bytes. No mark or stop is 0.
#[inline]
pub fn all_marks<const N: usize>(
    bytes: &[u8],
    mark: u8,
    stops: [u8; N],
    found: &mut Vec<u32>,
) -> bool {
    let mut take = |word: u64, at: usize| {
        let stopped = stops
            .iter()
            .fold(0, |all, &stop| all | zeros(word ^ (ONES * u64::from(stop))));
        let mut marks = zeros(word ^ (ONES * u64::from(mark)));
        while marks != 0 {
            found.push((at + marks.trailing_zeros() as usize / 8) as u32);
            marks &= marks - 1;
        }
        stopped == 0
    };
    let mut at = 0;
    while let Some(word) = word_at(bytes, at) {
        if !take(word, at) {
            return false;
        }
        at += 8;
    }
    // The rest as a word that ends in zeros.
    let rest = &bytes[at..];
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    take(u64::from_le_bytes(word), at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_find_what_bytes_find(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), Just(b'|'), Just(b'"'), Just(b'"' + 1), Just(b'"' - 1), Just(b' ')
        ], 0..40), at in 0usize..10) {
            let expect = bytes.iter().enumerate().skip(at)
                .find(|(_, b)| **b < b' ' || matches!(b, b'"' | b'|')).map(|(i, _)| i);
            prop_assert_eq!(first_stop(&bytes, at, [b'"', b'|']), expect);

            let mut found = Vec::new();
            let is_free = all_marks(&bytes, b'|', [b'"', b'\n'], &mut found);
            prop_assert_eq!(is_free, !bytes.iter().any(|b| matches!(b, b'"' | b'\n')));
            if is_free {
                let marks: Vec<u32> = (0..bytes.len() as u32).filter(|&i| bytes[i as usize] == b'|').collect();
                prop_assert_eq!(found, marks);
            }
        }
    }
}
