//! Which rows of many: answers as bits or as marks, the numbers of the rows that they pick, and the values of
//! those rows.
//!
//! Whether a row passes is hard to guess for the processor, so nothing here branches on it. The loops
//! are compiled for x86-64 twice, once for the wide registers of AVX2; the processor at hand says
//! which is taken.

/// Rows whose bits lie in one word, the first in the lowest bit.
const WORD: usize = u64::BITS as usize;

/// Moves the rows with these numbers, which ascend, to the front; the others are gone.
pub(crate) fn retain_rows<T: Copy>(values: &mut Vec<T>, rows: &[u32]) {
    debug_assert!(
        rows.is_sorted_by(|a, b| a < b),
        "a row would be overwritten"
    );
    for (to, &row) in rows.iter().enumerate() {
        values[to] = values[row as usize];
    }
    values.truncate(rows.len());
}

/// Sets a bit for each of so many rows, and none for more.
pub fn set_bits(rows: usize, bits: &mut Vec<u64>) {
    bits.clear();
    bits.resize(rows.div_ceil(WORD), u64::MAX);
    if let (unused @ 1.., Some(last)) = (WORD * bits.len() - rows, bits.last_mut()) {
        *last >>= unused;
    }
}

/// Takes the bits of those rows away whose value does not pass the test.
#[inline]
pub fn keep_bits<T: Copy>(values: &[T], bits: &mut [u64], test: impl Fn(T) -> bool) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        #[allow(unsafe_code)]
        return unsafe { keep_bits_avx2(values, bits, test) };
    }
    keep_bits_anywhere(values, bits, test);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn keep_bits_avx2<T: Copy>(values: &[T], bits: &mut [u64], test: impl Fn(T) -> bool) {
    keep_bits_anywhere(values, bits, test);
}

#[inline(always)]
fn keep_bits_anywhere<T: Copy>(values: &[T], bits: &mut [u64], test: impl Fn(T) -> bool) {
    let (words, rest) = values.as_chunks::<WORD>();
    for (word, bits) in words.iter().zip(&mut *bits) {
        *bits &= word_of(word, &test);
    }
    if let (false, Some(bits)) = (rest.is_empty(), bits.get_mut(words.len())) {
        *bits &= word_of(rest, &test);
    }
}

/// The answers for at most 64 values; each in its place, one over the other, they are computed many
/// at a time.
#[inline(always)]
fn word_of<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> u64 {
    let mut word = 0;
    for (at, &value) in values.iter().enumerate() {
        word |= u64::from(test(value)) << at;
    }
    word
}

/// Numbers of the rows whose bits are set. `room` is only ever made longer.
pub fn picked_bits<'r>(bits: &[u64], room: &'r mut Vec<u32>) -> &'r [u32] {
    put_picked(bits.iter().copied(), room)
}

/// Numbers of the rows marked true. `room` is only ever made longer.
pub fn picked_marks<'r>(marks: &[bool], room: &'r mut Vec<u32>) -> &'r [u32] {
    let (words, rest) = marks.as_chunks::<WORD>();
    let words = words.iter().map(word_of_marks);
    let rest = (!rest.is_empty()).then(|| word_of(rest, |mark| mark));
    put_picked(words.chain(rest), room)
}

/// Numbers of the rows marked true.
pub fn picked(marks: &[bool]) -> Vec<u32> {
    let mut rows = Vec::new();
    let count = picked_marks(marks, &mut rows).len();
    rows.truncate(count);
    rows
}

#[inline(always)]
fn word_of_marks(marks: &[bool; WORD]) -> u64 {
    let (eights, _) = marks.as_chunks::<8>();
    let mut word = [0; 8];
    for (byte, eight) in word.iter_mut().zip(eights) {
        let marks = u64::from_le_bytes(eight.map(u8::from));
        // Puts the eight marks side by side into the highest byte.
        *byte = (marks.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    u64::from_le_bytes(word)
}

#[inline]
fn put_picked(words: impl Iterator<Item = u64>, room: &mut Vec<u32>) -> &[u32] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        #[allow(unsafe_code)]
        return unsafe { put_picked_avx2(words, room) };
    }
    put_picked_anywhere(words, room)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn put_picked_avx2(words: impl Iterator<Item = u64>, room: &mut Vec<u32>) -> &[u32] {
    put_picked_anywhere(words, room)
}

/// Eight rows are looked up at once.
#[inline(always)]
fn put_picked_anywhere(words: impl Iterator<Item = u64>, room: &mut Vec<u32>) -> &[u32] {
    let mut count = 0;
    for (word, first) in words.zip((0u32..).step_by(WORD)) {
        // Behind the last row picked there may be written what does not count.
        if room.len() < count + WORD {
            room.resize(count + WORD, 0);
        }
        for (bits, first) in word.to_le_bytes().into_iter().zip((first..).step_by(8)) {
            let picked = &PICKED[usize::from(bits)];
            let to = &mut room[count..count + 8];
            for (to, &place) in to.iter_mut().zip(&picked.places) {
                *to = first + u32::from(place);
            }
            count += usize::from(picked.count);
        }
    }
    &room[..count]
}

/// Which of eight rows are picked, and how many.
#[derive(Clone, Copy)]
struct Picked {
    places: [u8; 8],
    count: u8,
}

/// By their bits.
static PICKED: [Picked; 256] = {
    let mut all = [Picked {
        places: [0; 8],
        count: 0,
    }; 256];
    let mut bits = 0;
    while bits < all.len() {
        let mut row = 0;
        while row < 8 {
            if bits >> row & 1 == 1 {
                let picked = &mut all[bits];
                picked.places[picked.count as usize] = row;
                picked.count += 1;
            }
            row += 1;
        }
        bits += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_bits_pick_the_same_rows() {
        let mut room = Vec::new();
        for len in [0usize, 1, 7, 8, 9, 63, 64, 65, 130, 200] {
            for seed in 1..100usize {
                let values: Vec<usize> = (0..len).map(|row| (row + 3) * seed % 7).collect();
                let passes = |value: usize| value < 3 || seed.is_multiple_of(50);
                let marks: Vec<bool> = values.iter().map(|&value| passes(value)).collect();
                let expect: Vec<u32> = (0..len as u32).filter(|&r| marks[r as usize]).collect();
                assert_eq!(picked(&marks), expect);
                assert_eq!(picked_marks(&marks, &mut room), expect);
                let mut bits = vec![7; 2];
                set_bits(len, &mut bits);
                keep_bits(&values, &mut bits, passes);
                assert_eq!(picked_bits(&bits, &mut room), expect);
                keep_bits_anywhere(&values, &mut bits, |value| value != 1);
                let both = expect.into_iter().filter(|&row| values[row as usize] != 1);
                assert!(picked_bits(&bits, &mut room).iter().copied().eq(both));
            }
        }
    }

    #[test]
    fn bits_of_more_rows_than_there_are_stay_unset() {
        let mut bits = Vec::new();
        for rows in [0, 1, 63, 64, 65, 128] {
            set_bits(rows, &mut bits);
            let set: u32 = bits.iter().map(|word| word.count_ones()).sum();
            assert_eq!(set as usize, rows);
        }
    }
}
