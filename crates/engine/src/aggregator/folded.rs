//! Aggregators over any values, row by row: groups that hold texts, lists or maps.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::{ColumnBuilder, Value};

use super::entries::Entries;
use super::states::{States, check_version, each_row};
use crate::component::{Aggregate, EvalContext, Group, Scan};

/// What one group holds. The default is the empty group.
pub trait Folded: Default + Send + 'static {
    /// Settings known when the plan is made.
    type Settings: Send + 'static;

    /// An error fails the row and leaves the state alone.
    fn add(&mut self, args: &[Value], settings: &Self::Settings) -> Result<(), String>;
    fn remove(&mut self, args: &[Value], settings: &Self::Settings) -> Result<(), String>;
    fn value(&self, args: &[Value], settings: &Self::Settings) -> Result<Value, String>;
    /// Values that the group holds.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn save(&self, writer: &mut Writer);
    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError>;
}

pub struct Values<F: Folded> {
    states: States<F>,
    entries: Entries,
    settings: F::Settings,
    args: Vec<Value>,
}

impl<F: Folded> Values<F> {
    pub fn new(settings: F::Settings) -> Values<F> {
        Values {
            states: States::default(),
            entries: Entries::default(),
            settings,
            args: Vec::new(),
        }
    }
}

impl<F: Folded> Aggregate for Values<F> {
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        each_row(scan, |group, row, is_expired| {
            self.args.clear();
            let row = scan.start + row;
            self.args.extend(scan.args.iter().map(|a| a.value(row)));
            let state = self.states.at(group);
            let before = state.len();
            let changed = if is_expired {
                state.remove(&self.args, &self.settings)
            } else {
                state.add(&self.args, &self.settings)
            };
            self.entries.change(before, state.len(), &self.args);
            match changed.and_then(|()| state.value(&self.args, &self.settings)) {
                Ok(value) => out.push(&value),
                Err(reason) => {
                    context.fail(row, reason);
                    out.push_null();
                }
            }
        });
    }

    fn clear(&mut self, group: Group) {
        let len = self.states.get(group).map_or(0, Folded::len);
        self.entries.change(len, 0, &[]);
        self.states.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.states.get(group).is_none_or(Folded::is_empty)
    }

    fn release(&mut self, groups: Range<Group>) {
        self.states.release(groups);
    }

    fn bytes(&self) -> usize {
        self.states.bytes() + self.entries.bytes(2 * size_of::<Value>())
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        writer.u8(1);
        match self.states.get(group) {
            Some(state) => state.save(writer),
            None => F::default().save(writer),
        }
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        check_version(reader, 1)?;
        let start = reader.position();
        let state = F::restore(reader)?;
        self.entries
            .restored(state.len(), reader.position() - start);
        *self.states.at(group) = state;
        Ok(())
    }
}

/// Values and how often each is there, in the order in which they first came (a `LinkedHashMap` of
/// counts).
#[derive(Default)]
pub struct Counted {
    entries: Vec<(Value, u64)>,
}

impl Counted {
    pub fn add(&mut self, value: Value) {
        match self.entries.iter_mut().find(|(v, _)| *v == value) {
            Some((_, count)) => *count += 1,
            None => self.entries.push((value, 1)),
        }
    }

    /// What was never added may leave: nothing happens.
    pub fn remove(&mut self, value: &Value) {
        if let Some(at) = self.entries.iter().position(|(v, _)| v == value) {
            self.entries[at].1 -= 1;
            if self.entries[at].1 == 0 {
                self.entries.remove(at);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Each value as often as it is there, or once.
    pub fn iter(&self, distinct: bool) -> impl Iterator<Item = &Value> {
        self.entries.iter().flat_map(move |(value, count)| {
            let times = if distinct { 1 } else { *count as usize };
            std::iter::repeat_n(value, times)
        })
    }

    pub fn save(&self, writer: &mut Writer) {
        writer.count(self.entries.len());
        for (value, count) in &self.entries {
            writer.value(value);
            writer.u64(*count);
        }
    }

    pub fn restore(reader: &mut Reader<'_>) -> Result<Counted, StateError> {
        let count = reader.count()?;
        let entries = (0..count).map(|_| Ok((reader.value()?, reader.u64()?)));
        Ok(Counted {
            entries: entries.collect::<Result<_, StateError>>()?,
        })
    }
}
