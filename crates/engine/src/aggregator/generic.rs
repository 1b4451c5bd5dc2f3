//! Aggregators over any values, row by row: groups that hold texts, lists or maps.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::{ColumnBuilder, Value};

use super::states::{GroupState, GroupStates, each_row};
use crate::component::{Aggregate, EvalContext, Group, Scan};

/// What one group holds. The default is the empty group.
pub trait GenericState: GroupState {
    /// Settings known when the plan is made.
    type Settings: Send + 'static;
    /// Siddhi fails where the last value leaves.
    const FAILS_EMPTY: bool = false;

    /// An error fails the row and leaves the state alone.
    fn add(&mut self, args: &[Value], settings: &Self::Settings) -> Result<(), String>;
    fn remove(&mut self, args: &[Value], settings: &Self::Settings) -> Result<(), String>;
    fn value(&self, args: &[Value], settings: &Self::Settings) -> Result<Value, String>;

    /// Would an event leave that never came? Nothing happens then; in Siddhi it fails.
    fn lacks(&self, _args: &[Value]) -> bool {
        false
    }
}

/// Why a row fails with `@app:compat('siddhi-5.1')`, which leaves without having come: a join gives
/// rows that it never gave before.
pub const NEVER_CAME: &str = "an event leaves that never came";

/// The same, where Siddhi fails because the last value has left.
const NONE_LEFT: &str = "there is no value left";

pub struct Values<F: GenericState> {
    groups: GroupStates<F>,
    settings: F::Settings,
    args: Vec<Value>,
}

impl<F: GenericState> Values<F> {
    pub fn new(settings: F::Settings) -> Values<F> {
        Values {
            groups: GroupStates::default(),
            settings,
            args: Vec::new(),
        }
    }
}

impl<F: GenericState> Aggregate for Values<F> {
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        each_row(scan, |group, row, is_expired| {
            self.args.clear();
            let row = scan.start + row;
            self.args.extend(scan.args.iter().map(|a| a.value(row)));
            let state = self.groups.states.at(group);
            let before = state.bytes();
            let changed = if is_expired && context.environment.compat && state.lacks(&self.args) {
                Err(NEVER_CAME.to_owned())
            } else if is_expired {
                state.remove(&self.args, &self.settings)
            } else {
                state.add(&self.args, &self.settings)
            };
            self.groups.total.change(before, state.bytes());
            let is_lost = F::FAILS_EMPTY && is_expired && context.environment.compat;
            let value = changed.and_then(|()| match is_lost && state.is_empty() {
                true => Err(NONE_LEFT.to_owned()),
                false => state.value(&self.args, &self.settings),
            });
            match value {
                Ok(value) => out.push(&value),
                Err(reason) => {
                    context.fail(row, reason);
                    out.push_null();
                }
            }
        });
    }

    fn clear(&mut self, group: Group) {
        self.groups.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.groups.is_empty(group)
    }

    fn release(&mut self, groups: Range<Group>) {
        self.groups.release(groups);
    }

    fn bytes(&self) -> usize {
        self.groups.bytes()
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        self.groups.save(group, writer);
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.groups.restore(group, reader)
    }
}

/// Values and how often each is there, in the order in which they first came (a `LinkedHashMap` of
/// counts).
#[derive(Default)]
pub struct Counted {
    entries: Vec<(Value, u64)>,
    /// Bytes of the values beside themselves.
    beside: usize,
}

impl Counted {
    pub fn add(&mut self, value: Value) {
        match self.entries.iter_mut().find(|(v, _)| *v == value) {
            Some((_, count)) => *count += 1,
            None => {
                self.beside += value.heap_bytes();
                self.entries.push((value, 1));
            }
        }
    }

    /// What was never added may leave: nothing happens.
    pub fn remove(&mut self, value: &Value) {
        if let Some(at) = self.entries.iter().position(|(v, _)| v == value) {
            self.entries[at].1 -= 1;
            if self.entries[at].1 == 0 {
                self.beside -= self.entries.remove(at).0.heap_bytes();
            }
        }
    }

    pub fn lacks(&self, value: &Value) -> bool {
        self.entries.iter().all(|(v, _)| v != value)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Value, u64)>() + self.beside
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
        let mut counted = Counted::default();
        for _ in 0..count {
            let (value, count) = (reader.value()?, reader.u64()?);
            counted.beside += value.heap_bytes();
            counted.entries.push((value, count));
        }
        Ok(counted)
    }
}
