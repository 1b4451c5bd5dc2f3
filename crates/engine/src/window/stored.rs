//! The states of a place by partition key: measured, saved and given back.

use event::codec::{Error as StateError, Reader, Writer};

use super::store::{Queue, RowTypes};
use crate::component::Key;
use crate::keyed::Keyed;

/// State of one key.
pub trait Stored: Send + Sized {
    fn new(types: &RowTypes) -> Self;

    /// On the heap.
    fn bytes(&self) -> usize;

    /// Its rows, where they lie in a queue; [`Stored::save`] leaves out the closed segments then.
    fn queue(&self) -> Option<&Queue> {
        None
    }

    fn queue_mut(&mut self) -> Option<&mut Queue> {
        None
    }

    fn save(&self, types: &RowTypes, writer: &mut Writer);

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Self, StateError>;
}

/// The states of all keys of a window or a stream processor.
pub struct StoredKeys<S> {
    types: RowTypes,
    keys: Keyed<S>,
}

/// Version of the saved state of a key; 0 stands for none.
const VERSION: u8 = 1;

impl<S: Stored> StoredKeys<S> {
    pub fn new(types: RowTypes) -> StoredKeys<S> {
        StoredKeys {
            types,
            keys: Keyed::default(),
        }
    }

    /// The state of a key, begun where there is none.
    #[inline]
    pub fn entry(&mut self, key: Key) -> &mut S {
        self.keys.entry(key, || S::new(&self.types))
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&S> {
        self.keys.get(key)
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.keys.get_mut(key)
    }

    pub fn remove(&mut self, key: Key) {
        self.keys.remove(key);
    }

    pub fn bytes(&self, key: Key) -> usize {
        self.keys.get(key).map_or(0, Stored::bytes)
    }

    pub fn save(&self, key: Key, writer: &mut Writer) {
        match self.keys.get(key) {
            None => writer.u8(0),
            Some(state) => {
                writer.u8(VERSION);
                state.save(&self.types, writer);
            }
        }
    }

    pub fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        match reader.u8()? {
            0 => Ok(()),
            VERSION => {
                let state = S::restore(&self.types, reader)?;
                self.keys.set(key, state);
                Ok(())
            }
            version => Err(StateError::Mismatch(format!(
                "a state by key of version {version}, at most {VERSION} is known"
            ))),
        }
    }
}
