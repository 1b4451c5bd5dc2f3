//! What waits to be pushed: bounded, and nobody waits for room.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first that came go first; what comes when it is full is dropped and counted.
#[derive(Debug)]
pub(crate) struct Bounded<T> {
    state: Mutex<State<T>>,
    max: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    dropped: u64,
}

impl<T> Bounded<T> {
    pub fn new(max: usize) -> Bounded<T> {
        Bounded {
            state: Mutex::new(State {
                items: VecDeque::new(),
                dropped: 0,
            }),
            max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, item: T) {
        let mut state = self.lock();
        match state.items.len() < self.max {
            true => state.items.push_back(item),
            false => state.dropped += 1,
        }
    }

    /// Everything that waits.
    pub fn take(&self) -> Vec<T> {
        self.lock().items.drain(..).collect()
    }

    /// What was taken and could not be pushed waits again, in front, as far as there is room.
    pub fn put_back(&self, items: Vec<T>) {
        let mut state = self.lock();
        for item in items.into_iter().rev() {
            match state.items.len() < self.max {
                true => state.items.push_front(item),
                false => state.dropped += 1,
            }
        }
    }

    /// How many were dropped since it was last asked.
    pub fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.lock().dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let queue = Bounded::new(3);
        (0..5).for_each(|n| queue.push(n));
        assert_eq!(queue.take_dropped(), 2);
        let taken = queue.take();
        assert_eq!(taken, [0, 1, 2]);
        queue.push(7);
        queue.put_back(taken);
        // The oldest of what was put back has no room any more.
        assert_eq!(queue.take(), [1, 2, 7]);
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (1, 0));
    }
}
