//! Which dense numbers have changed since the state was last saved.
//!
//! A bit per number, and only while somebody saves by increments: before [`DirtyBits::begin`] a mark
//! costs one branch. More may be marked than has changed, never less.

use std::ops::Range;

const BITS: usize = u64::BITS as usize;

#[derive(Debug, Default)]
pub(crate) struct DirtyBits {
    /// `None`: marks are not kept.
    words: Option<Vec<u64>>,
    is_any: bool,
}

impl DirtyBits {
    /// Nothing is dirty from here on, and marks are kept.
    pub fn begin(&mut self) {
        match &mut self.words {
            Some(words) if !self.is_any => debug_assert!(words.iter().all(|&word| word == 0)),
            // As long as it was: the next marks ask for no memory.
            Some(words) => words.fill(0),
            None => self.words = Some(Vec::new()),
        }
        self.is_any = false;
    }

    /// Marks are not kept any more.
    pub fn end(&mut self) {
        *self = DirtyBits::default();
    }

    #[inline(always)]
    pub fn mark(&mut self, number: u32) {
        if let Some(words) = &mut self.words {
            self.is_any = true;
            set(words, number);
        }
    }

    #[inline]
    pub fn mark_each(&mut self, numbers: &[u32]) {
        if let Some(words) = &mut self.words {
            self.is_any |= !numbers.is_empty();
            numbers.iter().for_each(|&number| set(words, number));
        }
    }

    pub fn mark_range(&mut self, numbers: Range<u32>) {
        if let Some(words) = &mut self.words {
            self.is_any |= !numbers.is_empty();
            numbers.for_each(|number| set(words, number));
        }
    }

    pub fn is_any(&self) -> bool {
        self.is_any
    }

    /// Are marks not kept?
    pub fn is_off(&self) -> bool {
        self.words.is_none()
    }

    /// The dirty numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.words.as_deref().unwrap_or(&[]);
        let used = words.iter().zip(0u32..).filter(|(word, _)| **word != 0);
        used.flat_map(|(&word, at)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at * u64::BITS + bit)
            })
        })
    }

    /// How many numbers of a range, which begins and ends at a multiple of 64, are dirty here or in
    /// `other`.
    pub fn count_with(&self, other: &DirtyBits, range: Range<u32>) -> u32 {
        let range = range.start as usize / BITS..range.end as usize / BITS;
        range
            .map(|at| (self.word(at) | other.word(at)).count_ones())
            .sum()
    }

    /// Is a number of such a range dirty?
    pub fn is_any_in(&self, range: Range<u32>) -> bool {
        let mut range = range.start as usize / BITS..range.end as usize / BITS;
        range.any(|at| self.word(at) != 0)
    }

    /// The dirty numbers of such a range, ascending.
    pub fn iter_in(&self, range: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        range.filter(|&number| {
            self.word(number as usize / BITS) >> (number as usize % BITS) & 1 != 0
        })
    }

    /// Takes over the marks of another in such a range.
    pub fn add(&mut self, other: &DirtyBits, range: Range<u32>) {
        for number in other.iter_in(range) {
            self.mark(number);
        }
    }

    /// No number of such a range is dirty any more.
    pub fn clear(&mut self, range: Range<u32>) {
        let words = self.words.iter_mut().flatten();
        let of_range = words.skip(range.start as usize / BITS);
        of_range.take(range.len() / BITS).for_each(|word| *word = 0);
    }

    fn word(&self, at: usize) -> u64 {
        let words = self.words.as_deref().unwrap_or(&[]);
        words.get(at).copied().unwrap_or(0)
    }
}

#[inline(always)]
fn set(words: &mut Vec<u64>, number: u32) {
    let (at, bit) = (number as usize / BITS, 1 << (number as usize % BITS));
    match words.get_mut(at) {
        Some(word) => *word |= bit,
        None => grow(words, at, bit),
    }
}

#[cold]
fn grow(words: &mut Vec<u64>, at: usize, bit: u64) {
    words.resize(at + 1, 0);
    words[at] = bit;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_from_the_beginning_on_and_come_in_order() {
        let mut dirty = DirtyBits::default();
        dirty.mark(3);
        assert!(!dirty.is_any());
        dirty.begin();
        dirty.mark(700);
        dirty.mark_each(&[64, 3, 3, 63]);
        dirty.mark_range(128..130);
        let all: Vec<u32> = dirty.iter().collect();
        assert_eq!(all, [3, 63, 64, 128, 129, 700]);
        dirty.begin();
        assert_eq!((dirty.is_any(), dirty.iter().count()), (false, 0));
        dirty.mark(5);
        dirty.end();
        dirty.mark(6);
        assert_eq!((dirty.is_any(), dirty.iter().count()), (false, 0));
    }

    #[test]
    fn ranges_are_counted_taken_over_and_cleared() {
        let (mut one, mut other) = (DirtyBits::default(), DirtyBits::default());
        one.begin();
        other.begin();
        one.mark_each(&[1, 64, 127, 128]);
        other.mark_each(&[64, 65, 4000]);
        assert_eq!(one.count_with(&other, 64..128), 3);
        assert_eq!(one.iter_in(64..128).collect::<Vec<_>>(), [64, 127]);
        assert!(other.is_any_in(64..128) && !other.is_any_in(128..192));
        one.add(&other, 64..128);
        one.clear(128..192);
        assert_eq!(one.iter().collect::<Vec<_>>(), [1, 64, 65, 127]);
    }
}
