//! What stream processors with a state have in common.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column};

use crate::component::{Key, ProcessorOperator, ProcessorSetup, WindowContext};
use crate::window::{RowTypes, Stored, StoredKeys};

/// What a stream processor does with the rows of one key.
pub trait Rule: Send {
    type State: Stored;

    /// As [`ProcessorOperator::process`], for the state of the batch's key.
    fn process(
        &mut self,
        state: &mut Self::State,
        batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch>;

    /// As [`ProcessorOperator::on_timer`].
    fn on_timer(
        &mut self,
        _state: &mut Self::State,
        _due: i64,
        _context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        None
    }

    /// As [`ProcessorOperator::start`].
    fn start(&mut self, _state: &mut Self::State, _context: &mut WindowContext<'_>) {}

    /// Rows that a due timer would still emit.
    fn held(&self, _state: &Self::State) -> usize {
        0
    }
}

/// The operator of a stream processor with a state.
pub struct PerKey<R: Rule> {
    rule: R,
    keys: StoredKeys<R::State>,
}

impl<R: Rule + 'static> PerKey<R> {
    pub fn operator(setup: &ProcessorSetup<'_>, rule: R) -> Box<dyn ProcessorOperator> {
        Box::new(PerKey {
            rule,
            keys: StoredKeys::new(RowTypes::from(setup.types)),
        })
    }
}

impl<R: Rule> ProcessorOperator for PerKey<R> {
    fn process(
        &mut self,
        key: Key,
        batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let state = self.keys.entry(key);
        self.rule.process(state, batch, args, context)
    }

    fn on_timer(&mut self, key: Key, due: i64, context: &mut WindowContext<'_>) -> Option<Batch> {
        let state = self.keys.get_mut(key)?;
        self.rule.on_timer(state, due, context)
    }

    fn start(&mut self, key: Key, context: &mut WindowContext<'_>) {
        let state = self.keys.entry(key);
        self.rule.start(state, context);
    }

    fn has_state(&self) -> bool {
        true
    }

    fn held(&self, key: Key) -> usize {
        self.keys.get(key).map_or(0, |state| self.rule.held(state))
    }

    fn bytes(&self, key: Key) -> usize {
        self.keys.bytes(key)
    }

    fn remove(&mut self, key: Key) {
        self.keys.remove(key);
    }

    fn save(&self, key: Key, writer: &mut Writer) {
        self.keys.save(key, writer);
    }

    fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.keys.restore(key, reader)
    }
}
