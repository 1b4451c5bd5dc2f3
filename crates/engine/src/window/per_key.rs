//! What every window has in common: a state per partition key, measured, saved and given back.
//!
//! A window is a [`Rule`] for the rows of one key; [`PerKey`] makes the operator of it.

use super::held::Held;
use super::store::{Queue, RowTypes, row_types};
pub use super::stored::Stored;
use super::stored::StoredKeys;
use crate::component::{Key, OneArrived, Sliding, WindowContext, WindowOperator, WindowSetup};
use crate::emission::Emission;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

/// What a window does with the rows of one key.
pub trait Rule: Send {
    type State: Stored;

    /// As [`WindowOperator::process`], for the state of the batch's key.
    fn process(
        &mut self,
        state: &mut Self::State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    );

    /// As [`WindowOperator::on_timer`]. Windows without deadlines have none.
    fn on_timer(
        &mut self,
        _state: &mut Self::State,
        _due: i64,
        _context: &mut WindowContext<'_>,
        _out: &mut Emission,
    ) {
    }

    /// Has the window something to do when the state of a key begins?
    fn starts(&self) -> bool {
        false
    }

    /// As [`WindowOperator::delay_min`].
    fn delay_min(&self) -> i64 {
        0
    }

    /// As [`Sliding::rows`], where such a window has `state`; without one it holds none. `None` where the
    /// window is no such one.
    fn sliding_rows(&self, _state: Option<&Self::State>) -> Option<usize> {
        None
    }

    /// As [`Sliding::slide_one`]: does a row leave?
    fn slide_one(
        &mut self,
        _state: &mut Self::State,
        _batch: &Batch,
        _context: &mut WindowContext<'_>,
    ) -> Option<bool> {
        None
    }

    /// As [`WindowOperator::start`].
    fn start(&mut self, _state: &mut Self::State, _context: &mut WindowContext<'_>) {}

    /// As [`WindowOperator::job_after`].
    fn job_after(&self, _after: i64) -> Option<i64> {
        None
    }

    /// As [`WindowOperator::follows_wall`].
    fn follows_wall(&self) -> bool {
        false
    }

    /// As [`WindowOperator::resets_as_next`].
    fn resets_as_next(&self) -> bool {
        false
    }

    /// As [`WindowOperator::is_fallible`].
    fn is_fallible(&self) -> bool {
        true
    }

    /// As [`WindowOperator::needed`].
    fn needed(&self) -> &[usize] {
        &[]
    }

    /// As [`WindowOperator::content`].
    fn content<'s>(&self, state: &'s Self::State) -> Option<Held<'s>>;

    /// Rows that a due timer would still emit.
    fn held(&self, _state: &Self::State) -> usize {
        0
    }
}

impl Stored for Queue {
    fn new(types: &RowTypes) -> Queue {
        Queue::new(types)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn queue(&self) -> Option<&Queue> {
        Some(self)
    }

    fn queue_mut(&mut self) -> Option<&mut Queue> {
        Some(self)
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        self.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Queue, StateError> {
        Queue::restore(types, reader)
    }
}

/// The operator of a window.
pub struct PerKey<R: Rule> {
    rule: R,
    keys: StoredKeys<R::State>,
}

impl<R: Rule + 'static> PerKey<R> {
    pub fn operator(setup: &WindowSetup<'_>, rule: R) -> Box<dyn WindowOperator> {
        Box::new(PerKey {
            rule,
            keys: StoredKeys::new(row_types(setup.schema)),
        })
    }
}

impl<R: Rule> WindowOperator for PerKey<R> {
    fn process(
        &mut self,
        key: Key,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let state = self.keys.entry(key);
        self.rule.process(state, batch, context, out);
    }

    fn on_timer(
        &mut self,
        key: Key,
        due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        if let Some(state) = self.keys.get_mut(key) {
            self.rule.on_timer(state, due, context, out);
        }
    }

    fn start(&mut self, key: Key, context: &mut WindowContext<'_>) {
        if self.rule.starts() {
            let state = self.keys.entry(key);
            self.rule.start(state, context);
        }
    }

    fn job_after(&self, after: i64) -> Option<i64> {
        self.rule.job_after(after)
    }

    fn follows_wall(&self) -> bool {
        self.rule.follows_wall()
    }

    fn resets_as_next(&self) -> bool {
        self.rule.resets_as_next()
    }

    fn is_fallible(&self) -> bool {
        self.rule.is_fallible()
    }

    fn needed(&self) -> &[usize] {
        self.rule.needed()
    }

    fn delay_min(&self) -> i64 {
        self.rule.delay_min()
    }

    fn content(&self, key: Key) -> Option<Held<'_>> {
        self.rule.content(self.keys.get(key)?)
    }

    fn held(&self, key: Key) -> usize {
        self.keys.get(key).map_or(0, |state| self.rule.held(state))
    }

    fn sliding(&mut self) -> Option<&mut dyn Sliding> {
        match self.rule.sliding_rows(None) {
            Some(_) => Some(self),
            None => None,
        }
    }

    fn bytes(&self, key: Key) -> usize {
        self.keys.bytes(key)
    }

    fn remove(&mut self, key: Key) {
        self.keys.remove(key);
    }

    fn queue(&self, key: Key) -> Option<&Queue> {
        self.keys.get(key)?.queue()
    }

    fn queue_mut(&mut self, key: Key) -> Option<&mut Queue> {
        self.keys.get_mut(key)?.queue_mut()
    }

    fn save(&self, key: Key, writer: &mut Writer) {
        self.keys.save(key, writer);
    }

    fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.keys.restore(key, reader)
    }
}

impl<R: Rule> Sliding for PerKey<R> {
    fn rows(&self, key: Key) -> usize {
        self.rule.sliding_rows(self.keys.get(key)).unwrap_or(0)
    }

    fn slide_one(
        &mut self,
        key: Key,
        batch: &Batch,
        context: &mut WindowContext<'_>,
    ) -> Option<OneArrived> {
        let state = self.keys.entry(key);
        let held = self.rule.sliding_rows(Some(&*state))?;
        let leaves = self.rule.slide_one(state, batch, context)?;
        Some(OneArrived { held, leaves })
    }
}
