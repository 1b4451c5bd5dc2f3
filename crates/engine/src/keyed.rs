//! State of one place in an app, per partition key.

use crate::component::Key;

/// State by dense key number. Numbers are given back with [`Keyed::remove`] and used again, so the
/// table stays as long as the most keys that ever lived at once.
#[derive(Debug)]
pub struct Keyed<S> {
    slots: Vec<Option<S>>,
}

impl<S> Default for Keyed<S> {
    fn default() -> Self {
        Keyed { slots: Vec::new() }
    }
}

impl<S> Keyed<S> {
    pub fn get(&self, key: Key) -> Option<&S> {
        self.slots.get(key as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.slots.get_mut(key as usize)?.as_mut()
    }

    /// The state of a key, begun where there is none.
    pub fn entry(&mut self, key: Key, begin: impl FnOnce() -> S) -> &mut S {
        let index = key as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index].get_or_insert_with(begin)
    }

    pub fn set(&mut self, key: Key, state: S) {
        self.remove(key);
        self.entry(key, || state);
    }

    /// Takes the state out; what was there may be put back with [`Keyed::set`].
    pub fn take(&mut self, key: Key) -> Option<S> {
        self.slots.get_mut(key as usize)?.take()
    }

    pub fn remove(&mut self, key: Key) {
        self.take(key);
    }
}
