//! State of one place in an app by dense number: of a partition key, or of a group.
//!
//! Numbers are given back and used again. Storage is in pages, each as long as the largest number
//! used in it asks for, so that one state costs one state; a page whose numbers are all given back
//! gives its memory back.

use std::ops::Range;

use crate::component::Key;

/// Numbers in a page.
pub const PAGE: usize = 1024;

/// The numbers of a page.
pub fn page_range(page: usize) -> Range<u32> {
    (page * PAGE) as u32..((page + 1) * PAGE) as u32
}

/// Values by dense number; one that was never touched is the default.
#[derive(Debug)]
pub struct Pages<T> {
    pages: Vec<Vec<T>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages { pages: Vec::new() }
    }
}

impl<T: Default> Pages<T> {
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.pages
            .get(number as usize / PAGE)?
            .get(number as usize % PAGE)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.pages
            .get_mut(number as usize / PAGE)?
            .get_mut(number as usize % PAGE)
    }

    /// The value of a number, begun where there is none.
    #[inline(always)]
    pub fn at(&mut self, number: u32) -> &mut T {
        let (page, slot) = (number as usize / PAGE, number as usize % PAGE);
        if self.pages.get(page).is_none_or(|p| slot >= p.len()) {
            self.grow(page, slot);
        }
        &mut self.pages[page][slot]
    }

    /// The values of the first page, as many as its largest number asks for.
    pub fn first_page(&mut self) -> Option<&mut [T]> {
        self.pages.first_mut().map(Vec::as_mut_slice)
    }

    #[cold]
    fn grow(&mut self, page: usize, slot: usize) {
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, Vec::new);
        }
        let page = &mut self.pages[page];
        if slot >= page.capacity() {
            // Doubling, but never beyond the page.
            let room = (slot + 1).next_power_of_two().clamp(4, PAGE);
            page.reserve_exact(room - page.len());
        }
        page.resize_with(slot + 1, T::default);
    }

    /// The numbers of the range, which are whole pages, are not in use any more.
    pub fn release(&mut self, numbers: Range<u32>) {
        for page in numbers.start as usize / PAGE..numbers.end as usize / PAGE {
            if let Some(page) = self.pages.get_mut(page) {
                *page = Vec::new();
            }
        }
        while self.pages.last().is_some_and(Vec::is_empty) {
            self.pages.pop();
        }
    }

    pub fn clear(&mut self) {
        self.pages = Vec::new();
    }

    /// Heap bytes, without what the values hold themselves.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.pages.iter().map(Vec::capacity).sum();
        rows * size_of::<T>() + self.pages.capacity() * size_of::<Vec<T>>()
    }
}

/// State by partition key.
#[derive(Debug)]
pub struct Keyed<S> {
    slots: Pages<Option<S>>,
    /// States in each page.
    used: Vec<u32>,
}

impl<S> Default for Keyed<S> {
    fn default() -> Self {
        Keyed {
            slots: Pages::default(),
            used: Vec::new(),
        }
    }
}

impl<S> Keyed<S> {
    #[inline]
    pub fn get(&self, key: Key) -> Option<&S> {
        self.slots.get(key)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.slots.get_mut(key)?.as_mut()
    }

    /// The state of a key, begun where there is none.
    #[inline]
    pub fn entry(&mut self, key: Key, begin: impl FnOnce() -> S) -> &mut S {
        let slot = self.slots.at(key);
        if slot.is_none() {
            let page = key as usize / PAGE;
            if page >= self.used.len() {
                self.used.resize(page + 1, 0);
            }
            self.used[page] += 1;
        }
        slot.get_or_insert_with(begin)
    }

    pub fn set(&mut self, key: Key, state: S) {
        self.take(key);
        self.entry(key, || state);
    }

    /// Takes the state out; what was there may be put back with [`Keyed::set`].
    pub fn take(&mut self, key: Key) -> Option<S> {
        let state = self.slots.get_mut(key)?.take();
        if state.is_some() {
            self.used[key as usize / PAGE] -= 1;
        }
        state
    }

    /// The key is gone.
    pub fn remove(&mut self, key: Key) {
        let page = key as usize / PAGE;
        if self.take(key).is_some() && self.used[page] == 0 {
            self.slots.release(page_range(page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_state_costs_one_state() {
        let mut one: Keyed<[u64; 100]> = Keyed::default();
        one.entry(0, || [0; 100]);
        assert!(one.slots.bytes() < 4 * 900);
        let mut many: Pages<u64> = Pages::default();
        (0..100_000).for_each(|n| *many.at(n) = u64::from(n));
        assert!(many.bytes() < 900_000);
        assert_eq!(many.get(99_999), Some(&99_999));
        assert_eq!(many.get(100_000), None);
    }

    #[test]
    fn an_empty_page_gives_its_memory_back() {
        let mut keyed: Keyed<u64> = Keyed::default();
        (0..10_000).for_each(|key| keyed.set(key, 7));
        let full = keyed.slots.bytes();
        (1_024..10_000).for_each(|key| keyed.remove(key));
        assert!(keyed.slots.bytes() < full / 8);
        assert_eq!((keyed.get(1_023), keyed.get(1_024)), (Some(&7), None));
        assert_eq!(keyed.take(5), Some(7));
        keyed.set(5, 8);
        assert_eq!(keyed.get(5), Some(&8));
    }
}
