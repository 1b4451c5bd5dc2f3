//! A queue between two threads, bounded in rows and bytes.
//!
//! Whoever brings data waits for room; control never waits. An item that is larger than the bounds
//! by itself is let in when the queue is empty, so that nothing can get stuck.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What an item counts against the bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Weight {
    pub rows: usize,
    pub bytes: usize,
}

pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    room: Condvar,
    bounds: Weight,
}

struct State<T> {
    items: VecDeque<(T, Weight)>,
    held: Weight,
    is_closed: bool,
    /// Threads that wait for an item, and for room. To notify costs a system call, even if nobody waits.
    takers: usize,
    pushers: usize,
}

/// The reader has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Closed;

/// Why an item was not appended.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Unpushed<T> {
    Closed,
    /// There was no room in time: here it is again.
    Late(T),
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Taken<T> {
    Item(T),
    /// Nothing came before the deadline.
    Late,
    /// Closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub fn new(bounds: Weight) -> Queue<T> {
        Queue {
            state: Mutex::new(State {
                items: VecDeque::new(),
                held: Weight::default(),
                is_closed: false,
                takers: 0,
                pushers: 0,
            }),
            filled: Condvar::new(),
            room: Condvar::new(),
            bounds,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, then appends.
    pub fn push(&self, item: T, weight: Weight) -> Result<(), Closed> {
        let mut state = self.lock();
        while !state.is_closed && !self.has_room(&state, weight) {
            state = self.wait_for_change(state, None);
        }
        self.append(state, item, weight)
    }

    /// As [`Queue::push`], until `deadline` at most.
    pub fn push_until(
        &self,
        item: T,
        weight: Weight,
        deadline: Instant,
    ) -> Result<(), Unpushed<T>> {
        let mut state = self.lock();
        while !state.is_closed && !self.has_room(&state, weight) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unpushed::Late(item));
            }
            state = self.wait_for_change(state, Some(left));
        }
        self.append(state, item, weight)
            .map_err(|Closed| Unpushed::Closed)
    }

    /// Waits for room until `deadline`; is there some? A closed queue has no room to wait for.
    pub fn wait_for_room(&self, weight: Weight, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !state.is_closed && !self.has_room(&state, weight) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait_for_change(state, Some(left));
        }
        true
    }

    /// Waits, `at_most` so long, until something was taken or the queue was closed.
    fn wait_for_change<'a>(
        &self,
        mut state: MutexGuard<'a, State<T>>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State<T>> {
        state.pushers += 1;
        let mut state = wait(&self.room, state, at_most);
        state.pushers -= 1;
        state
    }

    /// Appends whatever the bounds say: replies, failures, control.
    pub fn push_always(&self, item: T) -> Result<(), Closed> {
        self.append(self.lock(), item, Weight::default())
    }

    /// Appends whatever the bounds say, and counts against them: others wait the longer.
    pub fn push_past(&self, item: T, weight: Weight) -> Result<(), Closed> {
        self.append(self.lock(), item, weight)
    }

    fn append(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        item: T,
        weight: Weight,
    ) -> Result<(), Closed> {
        if state.is_closed {
            return Err(Closed);
        }
        state.held.rows += weight.rows;
        state.held.bytes += weight.bytes;
        state.items.push_back((item, weight));
        let is_awaited = state.takers > 0;
        drop(state);
        if is_awaited {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn has_room(&self, state: &State<T>, weight: Weight) -> bool {
        state.held == Weight::default()
            || state.held.rows + weight.rows <= self.bounds.rows
                && state.held.bytes + weight.bytes <= self.bounds.bytes
    }

    /// The next item, waited for until `deadline` (`None`: for ever).
    pub fn take(&self, deadline: Option<Instant>) -> Taken<T> {
        let mut state = self.lock();
        loop {
            if let Some((item, weight)) = state.items.pop_front() {
                state.held.rows -= weight.rows;
                state.held.bytes -= weight.bytes;
                let is_awaited = state.pushers > 0;
                drop(state);
                if is_awaited {
                    self.room.notify_all();
                }
                return Taken::Item(item);
            }
            if state.is_closed {
                return Taken::Closed;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Taken::Late;
            }
            state.takers += 1;
            state = wait(&self.filled, state, left);
            state.takers -= 1;
        }
    }

    /// The next item if one is there.
    pub fn take_now(&self) -> Option<T> {
        match self.take(Some(Instant::now())) {
            Taken::Item(item) => Some(item),
            Taken::Late | Taken::Closed => None,
        }
    }

    /// How full it is, of a thousand parts: by rows or bytes, whichever is more.
    pub fn fill(&self) -> u64 {
        let held = self.held();
        let part = |held: usize, bound: usize| held.saturating_mul(1000) / bound.max(1);
        let fill = part(held.rows, self.bounds.rows).max(part(held.bytes, self.bounds.bytes));
        fill.min(1000) as u64
    }

    /// What waits.
    pub fn held(&self) -> Weight {
        self.lock().held
    }

    /// Looks at all that waits, the first first; nothing is let in meanwhile.
    pub fn each(&self, look: impl FnMut(&T)) {
        let state = self.lock();
        state.items.iter().map(|(item, _)| item).for_each(look);
    }

    /// Nothing more is let in; what is there can still be taken.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
        self.room.notify_all();
    }
}

fn wait<'a, T>(
    changed: &Condvar,
    state: MutexGuard<'a, State<T>>,
    at_most: Option<Duration>,
) -> MutexGuard<'a, State<T>> {
    match at_most {
        None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        Some(left) => {
            changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn rows(rows: usize) -> Weight {
        Weight { rows, bytes: 0 }
    }

    fn queue() -> Queue<u32> {
        Queue::new(Weight {
            rows: 10,
            bytes: 100,
        })
    }

    #[test]
    fn a_writer_waits_for_room_and_control_does_not() {
        let queue = Arc::new(queue());
        queue.push(1, rows(10)).expect("open");
        let writer = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(3, rows(1))
        });
        queue.push_always(2).expect("open");
        assert_eq!(queue.take(None), Taken::Item(1));
        writer.join().expect("no panic").expect("open");
        assert_eq!(queue.take(None), Taken::Item(2));
        assert_eq!(queue.take(None), Taken::Item(3));
        assert_eq!(queue.take_now(), None);
    }

    #[test]
    fn a_writer_that_waits_too_long_gets_its_item_back() {
        let queue = queue();
        queue.push(1, rows(10)).expect("open");
        let late = queue.push_until(2, rows(1), Instant::now());
        assert_eq!(late, Err(Unpushed::Late(2)));
        assert_eq!(queue.take_now(), Some(1));
        assert_eq!(queue.push_until(2, rows(1), Instant::now()), Ok(()));
        queue.close();
        let closed = queue.push_until(3, rows(1), Instant::now());
        assert_eq!(closed, Err(Unpushed::Closed));
    }

    #[test]
    fn an_answer_goes_in_past_the_bounds_and_counts() {
        let queue = queue();
        queue.push(1, rows(10)).expect("open");
        queue.push_past(2, rows(5)).expect("open");
        assert_eq!(queue.held(), rows(15));
        let mut waiting = Vec::new();
        queue.each(|&item| waiting.push(item));
        assert_eq!(waiting, [1, 2]);
        assert_eq!(queue.take_now(), Some(1));
        assert_eq!(queue.held(), rows(5));
    }

    #[test]
    fn an_item_beyond_the_bounds_goes_in_alone() {
        let queue = queue();
        queue.push(1, rows(1000)).expect("the queue is empty");
        assert_eq!(queue.held(), rows(1000));
        assert_eq!(queue.take_now(), Some(1));
        assert_eq!(queue.held(), rows(0));
    }

    #[test]
    fn closing_lets_the_rest_out_and_nothing_in() {
        let queue = queue();
        queue.push(1, rows(1)).expect("open");
        queue.close();
        assert_eq!(queue.push(2, rows(1)), Err(Closed));
        assert_eq!(queue.take(None), Taken::Item(1));
        assert_eq!(queue.take(None), Taken::Closed);
        let late = super::tests::queue();
        assert_eq!(late.take(Some(Instant::now())), Taken::Late);
    }
}
