//! Partial matches in the order in which they arrived.

use std::collections::VecDeque;

use super::partials::PartialId;

/// In place of a partial match that left.
const GONE: PartialId = PartialId::MAX;

/// An ordered list from whose middle much is taken: what leaves becomes a gap, gaps at the front
/// are dropped at once, and all of them when they are more than what is left.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: VecDeque<PartialId>,
    /// Entries that are no gaps.
    live: usize,
    /// Entries dropped at the front since the beginning.
    dropped: u64,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub fn len(&self) -> usize {
        self.live
    }

    /// Places, gaps included.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    pub fn at(&self, place: usize) -> Option<PartialId> {
        self.entries
            .get(place)
            .copied()
            .filter(|&partial| partial != GONE)
    }

    pub fn push(&mut self, partial: PartialId) {
        self.entries.push_back(partial);
        self.live += 1;
    }

    /// Leaves a gap; places stay as they are until [`Queue::tidy`].
    pub fn take(&mut self, place: usize) -> Option<PartialId> {
        let partial = self.at(place)?;
        self.entries[place] = GONE;
        self.live -= 1;
        Some(partial)
    }

    pub fn place_of(&self, partial: PartialId) -> Option<usize> {
        self.entries.iter().position(|&p| p == partial)
    }

    pub fn iter(&self) -> impl Iterator<Item = PartialId> + '_ {
        self.entries.iter().copied().filter(|&p| p != GONE)
    }

    pub fn front(&self) -> Option<PartialId> {
        self.entries.front().copied()
    }

    /// Drops gaps at the front, and all where they are too many: true if places have changed
    /// otherwise than by what [`Queue::first_place`] tells.
    pub fn tidy(&mut self) -> bool {
        while self.entries.front() == Some(&GONE) {
            self.entries.pop_front();
            self.dropped += 1;
        }
        let is_sparse = self.entries.len() > 2 * self.live + 32;
        if is_sparse {
            self.entries.retain(|&p| p != GONE);
        }
        is_sparse
    }

    /// Number of the first place, counted from the first ever.
    pub fn first_place(&self) -> u64 {
        self.dropped
    }

    /// All entries, in order; the list is empty then.
    pub fn drain(&mut self) -> impl Iterator<Item = PartialId> + '_ {
        self.live = 0;
        self.entries.drain(..).filter(|&p| p != GONE)
    }

    pub fn sort_by_key(&mut self, key: impl Fn(PartialId) -> i64) {
        self.entries.retain(|&p| p != GONE);
        self.entries
            .make_contiguous()
            .sort_by_key(|&partial| key(partial));
    }

    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<PartialId>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(entries: &[PartialId], taken: &[usize]) -> Queue {
        let mut queue = Queue::default();
        entries.iter().for_each(|&p| queue.push(p));
        for &place in taken {
            assert_eq!(queue.take(place), Some(entries[place]));
        }
        queue
    }

    #[test]
    fn what_is_taken_leaves_the_order_of_the_rest() {
        let mut queue = queue(&[7, 3, 9, 5], &[2]);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [7, 3, 5]);
        assert_eq!((queue.len(), queue.at(2), queue.at(3)), (3, None, Some(5)));
        queue.sort_by_key(i64::from);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [3, 5, 7]);
    }

    #[test]
    fn gaps_at_the_front_move_the_first_place() {
        let mut queue = queue(&[7, 3, 9, 5], &[0, 1]);
        assert!(!queue.tidy());
        assert_eq!((queue.first_place(), queue.front()), (2, Some(9)));
    }

    #[test]
    fn gaps_are_dropped_when_they_are_most() {
        let entries: Vec<PartialId> = (0..40).collect();
        let taken: Vec<usize> = (1..39).collect();
        let mut queue = queue(&entries, &taken);
        assert!(queue.tidy());
        assert_eq!(
            (queue.places(), queue.at(0), queue.at(1)),
            (2, Some(0), Some(39))
        );
    }
}
