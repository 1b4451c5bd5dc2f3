//! Values that an aggregator keeps, and what they take on the heap.
//!
//! Each collection knows its bytes at any time: what its buffer takes, full or not, and the texts. So a
//! count of an app's memory looks into no group.

use std::ops::Deref;

use event::Value;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// What all groups of an aggregator have on the heap beside their states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total(usize);

impl Total {
    /// A group had so much and has so much now.
    #[inline]
    pub fn change(&mut self, before: usize, after: usize) {
        self.0 = (self.0 + after).saturating_sub(before);
    }

    pub fn bytes(self) -> usize {
        self.0
    }
}

/// Values in an order.
#[derive(Default)]
pub struct ValueStore {
    values: Vec<Value>,
    beside: usize,
}

impl Deref for ValueStore {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.values
    }
}

impl ValueStore {
    pub fn push(&mut self, value: Value) {
        self.beside += value.heap_bytes();
        self.values.push(value);
    }

    pub fn remove(&mut self, at: usize) {
        self.beside -= self.values.remove(at).heap_bytes();
    }

    pub fn retain(&mut self, stays: impl Fn(&Value) -> bool) {
        let left = &mut self.beside;
        self.values.retain(|value| {
            let stays = stays(value);
            *left -= if stays { 0 } else { value.heap_bytes() };
            stays
        });
    }

    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Value>() + self.beside
    }
}

/// How often each value is there.
#[derive(Default)]
pub struct Tally {
    counts: HashMap<Value, u64, FixedState>,
    beside: usize,
}

impl Deref for Tally {
    type Target = HashMap<Value, u64, FixedState>;

    fn deref(&self) -> &HashMap<Value, u64, FixedState> {
        &self.counts
    }
}

impl Tally {
    /// Once more, or for the first time so often.
    pub fn add(&mut self, value: &Value, times: u64) {
        if let Some(count) = self.counts.get_mut(value) {
            *count += times;
            return;
        }
        self.beside += value.heap_bytes();
        self.counts.insert(value.clone(), times);
    }

    /// Once less; what was there but `least` times is given up. What is not there stays away.
    pub fn take(&mut self, value: &Value, least: u64) {
        let Some(count) = self.counts.get_mut(value) else {
            return;
        };
        *count -= 1;
        if *count < least {
            self.counts.remove(value);
            self.beside -= value.heap_bytes();
        }
    }

    pub fn bytes(&self) -> usize {
        self.counts.allocation_size() + self.beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_and_go() {
        let long = Value::str(&"x".repeat(1_000));
        assert_eq!(long.heap_bytes(), 1_016);
        let mut kept = ValueStore::default();
        kept.push(long.clone());
        kept.push(Value::Int(1));
        let (full, room) = (kept.bytes(), kept.values.capacity() * size_of::<Value>());
        assert_eq!(full, room + long.heap_bytes());
        kept.remove(0);
        assert_eq!(kept.bytes(), room);
        kept.push(long.clone());
        kept.retain(|v| *v == Value::Int(1));
        assert_eq!((kept.len(), kept.bytes()), (1, room));
    }

    #[test]
    fn a_value_is_counted_once() {
        let long = Value::str(&"x".repeat(1_000));
        let mut tally = Tally::default();
        assert_eq!(tally.bytes(), 0);
        tally.add(&long, 1);
        tally.add(&long, 1);
        assert_eq!((tally.len(), tally.beside), (1, long.heap_bytes()));
        tally.take(&long, 1);
        tally.take(&long, 1);
        tally.take(&long, 1);
        assert_eq!((tally.len(), tally.beside), (0, 0));
    }
}
