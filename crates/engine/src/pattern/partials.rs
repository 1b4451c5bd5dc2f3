//! Partial matches, and the events that they hold.
//!
//! Both lie in slabs with dense numbers that are used again, for all partition keys of the query
//! together. A partial match is a slot per state; a slot is the number of an event kept for that
//! state, and what a counted state collects is a chain of them, latest first, which copies of the
//! partial match share. Only attributes that something reads later are kept.

use event::codec::{Error as StateError, Reader, Writer};
use event::column::View;
use event::{Batch, Column, ColumnBuilder, Type, Value};

use super::states::StateId;

pub(super) type PartialId = u32;

/// Number of a kept event, among those of its state.
pub(super) type EventId = u32;

/// A slot without an event.
pub(super) const NONE: EventId = EventId::MAX;

/// The event that is being taken right now. What only the output needs is read from its batch and
/// never kept.
pub(super) const CURRENT: EventId = EventId::MAX - 1;

/// Timestamp of a partial match that has taken nothing (Siddhi's `StateEvent`).
pub(super) const UNTIMED: i64 = -1;

/// An event of the stream, where it stands.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub batch: &'a Batch,
    pub row: usize,
    pub time: i64,
}

/// Events kept for one state.
#[derive(Debug)]
pub(super) struct Captures {
    /// Attributes of the stream that are kept, in the order of `columns`.
    pub attributes: Vec<usize>,
    types: Vec<Type>,
    columns: Vec<Column>,
    times: Vec<i64>,
    /// The event collected before; `NONE` for the first.
    before: Vec<EventId>,
    /// Length of the chain that ends here.
    lengths: Vec<u32>,
    /// Slots and later events that refer to it.
    owners: Vec<u32>,
    free: Vec<EventId>,
    /// Bytes at which the columns are written anew: overwritten long texts stay until then.
    bytes_max: usize,
    /// Events kept since the columns were looked at.
    kept: u32,
}

/// Columns with texts are written anew from this size on.
const BYTES_MIN: usize = 1 << 20;

/// Events after which the size of the columns is looked at.
const KEPT_MAX: u32 = 64;

impl Captures {
    pub fn new(attributes: Vec<usize>, types: Vec<Type>) -> Captures {
        Captures {
            columns: empty(&types),
            attributes,
            types,
            times: Vec::new(),
            before: Vec::new(),
            lengths: Vec::new(),
            owners: Vec::new(),
            free: Vec::new(),
            bytes_max: BYTES_MIN,
            kept: 0,
        }
    }

    /// Keeps an event behind `before`; it belongs to nobody yet.
    pub fn keep(&mut self, arrival: &Arrival<'_>, before: EventId) -> EventId {
        let id = self.place(arrival.time, before);
        for (column, &attribute) in self.columns.iter_mut().zip(&self.attributes) {
            let from = &arrival.batch.columns[attribute];
            put(column, id as usize, from, arrival.row);
        }
        self.kept += 1;
        if self.kept == KEPT_MAX {
            self.kept = 0;
            self.compact(id);
        }
        id
    }

    /// Keeps many events, each the first of a chain and in one slot; appends their numbers.
    pub fn keep_all(&mut self, batch: &Batch, rows: &[u32], events: &mut Vec<EventId>) {
        let first = events.len();
        for &row in rows {
            let id = self.place(batch.times.at(row as usize), NONE);
            self.owners[id as usize] = 1;
            events.push(id);
        }
        let len = self.times.len();
        for (column, &attribute) in self.columns.iter_mut().zip(&self.attributes) {
            column.scatter(&events[first..], &batch.columns[attribute], rows, len);
        }
        self.kept = self.kept.saturating_add(rows.len() as u32);
        if self.kept >= KEPT_MAX {
            self.kept = 0;
            self.compact(NONE);
        }
    }

    /// Writes columns anew that hold more texts of events given back than of others.
    fn compact(&mut self, newest: EventId) {
        let bytes = |columns: &[Column]| columns.iter().map(Column::bytes).sum::<usize>();
        if bytes(&self.columns) <= self.bytes_max {
            return;
        }
        for (column, &ty) in self.columns.iter_mut().zip(&self.types) {
            let null = Column::constant(ty, &Value::Null, 1);
            let mut fresh = ColumnBuilder::new(ty).finish();
            for (row, &owners) in self.owners.iter().enumerate() {
                if owners > 0 || row == newest as usize {
                    fresh.append(column, row..row + 1);
                } else {
                    fresh.append(&null, 0..1);
                }
            }
            *column = fresh;
        }
        self.bytes_max = BYTES_MIN.max(4 * bytes(&self.columns));
    }

    /// Keeps an event without values: that of a state whose time of quiet has passed.
    pub fn keep_blank(&mut self, before: EventId) -> EventId {
        let id = self.place(UNTIMED, before);
        for (column, &ty) in self.columns.iter_mut().zip(&self.types) {
            let null = Column::constant(ty, &Value::Null, 1);
            put(column, id as usize, &null, 0);
        }
        id
    }

    fn place(&mut self, time: i64, before: EventId) -> EventId {
        let length = self.length(before) + 1;
        self.own(before);
        match self.free.pop() {
            Some(id) => {
                let at = id as usize;
                self.times[at] = time;
                self.before[at] = before;
                self.lengths[at] = length;
                id
            }
            None => {
                self.times.push(time);
                self.before.push(before);
                self.lengths.push(length);
                self.owners.push(0);
                (self.times.len() - 1) as EventId
            }
        }
    }

    pub fn own(&mut self, id: EventId) {
        if id < CURRENT {
            self.owners[id as usize] += 1;
        }
    }

    pub fn release(&mut self, mut id: EventId) {
        while id < CURRENT {
            let owners = &mut self.owners[id as usize];
            *owners = owners.saturating_sub(1);
            if *owners > 0 {
                return;
            }
            self.free.push(id);
            id = std::mem::replace(&mut self.before[id as usize], NONE);
        }
    }

    /// Events in the chain that ends here.
    pub fn length(&self, id: EventId) -> u32 {
        if id < CURRENT {
            self.lengths[id as usize]
        } else {
            0
        }
    }

    pub fn time(&self, id: EventId) -> i64 {
        if id < CURRENT {
            self.times[id as usize]
        } else {
            UNTIMED
        }
    }

    /// Of a chain the first event, which is the one whose age `within` looks at.
    pub fn first(&self, mut id: EventId) -> EventId {
        while id < CURRENT && self.before[id as usize] != NONE {
            id = self.before[id as usize];
        }
        id
    }

    pub fn before(&self, id: EventId) -> EventId {
        if id < CURRENT {
            self.before[id as usize]
        } else {
            NONE
        }
    }

    /// The event so many steps before the last of a chain.
    pub fn back(&self, mut id: EventId, steps: u32) -> EventId {
        for _ in 0..steps {
            if id >= CURRENT {
                return NONE;
            }
            id = self.before[id as usize];
        }
        id
    }

    pub fn column(&self, at: usize) -> &Column {
        &self.columns[at]
    }

    /// All kept values have the types of their attributes.
    pub fn is_typed(&self) -> bool {
        let mut columns = self.columns.iter().zip(&self.types);
        columns.all(|(column, &ty)| is_typed(column, ty))
    }

    pub fn column_of(&self, attribute: usize) -> Option<usize> {
        self.attributes.iter().position(|&a| a == attribute)
    }

    /// Heap bytes of all events, those given back and not used again included.
    pub fn bytes(&self) -> usize {
        let numbers = size_of::<i64>() + 4 * size_of::<u32>();
        self.columns.iter().map(Column::bytes).sum::<usize>() + self.times.len() * numbers
    }

    /// The values of an event, for the slow paths.
    pub fn values(&self, id: EventId) -> impl Iterator<Item = Value> + '_ {
        self.columns.iter().map(move |c| c.value(id as usize))
    }

    pub fn save(&self, id: EventId, writer: &mut Writer) {
        writer.i64(self.time(id));
        self.values(id).for_each(|v| writer.value(&v));
    }

    pub fn restore(
        &mut self,
        before: EventId,
        reader: &mut Reader<'_>,
    ) -> Result<EventId, StateError> {
        let time = reader.i64()?;
        let id = self.place(time, before);
        for (column, &ty) in self.columns.iter_mut().zip(&self.types) {
            let value = reader.value()?;
            put(column, id as usize, &Column::constant(ty, &value, 1), 0);
        }
        Ok(id)
    }
}

fn empty(types: &[Type]) -> Vec<Column> {
    types
        .iter()
        .map(|&ty| ColumnBuilder::new(ty).finish())
        .collect()
}

/// Writes one row of a column that grows by one where the row is the next.
fn put(column: &mut Column, row: usize, from: &Column, from_row: usize) {
    if row == column.len() {
        column.append(from, from_row..from_row + 1);
    } else {
        column.set_from(row, from, from_row);
    }
}

/// Does the column hold values as its type says?
pub(super) fn is_typed(column: &Column, ty: Type) -> bool {
    ty == Type::Object || !matches!(column.view(), View::Any(_))
}

/// Partial matches of all keys.
#[derive(Debug, Default)]
pub(super) struct Partials {
    /// Slots of a partial match.
    pub width: usize,
    slots: Vec<EventId>,
    times: Vec<i64>,
    expired: Vec<bool>,
    /// Lists it stands in.
    owners: Vec<u32>,
    free: Vec<PartialId>,
}

impl Partials {
    pub fn new(width: usize) -> Partials {
        Partials {
            width,
            ..Partials::default()
        }
    }

    /// A partial match that has taken nothing and stands nowhere.
    pub fn fresh(&mut self) -> PartialId {
        match self.free.pop() {
            Some(id) => {
                self.times[id as usize] = UNTIMED;
                self.expired[id as usize] = false;
                id
            }
            None => {
                let slots = self.slots.len() + self.width;
                self.slots.resize(slots, NONE);
                self.times.push(UNTIMED);
                self.expired.push(false);
                self.owners.push(0);
                (self.times.len() - 1) as PartialId
            }
        }
    }

    /// A partial match that has taken one event, which is its own, and stands in one list.
    pub fn begun(&mut self, state: StateId, event: EventId, time: i64) -> PartialId {
        let id = self.fresh();
        let at = id as usize;
        self.slots[at * self.width + state] = event;
        self.times[at] = time;
        self.owners[at] = 1;
        id
    }

    /// Gives a partial match up that stands in one list only; its events go over to the caller, who
    /// finds them behind all others.
    pub fn take(&mut self, id: PartialId, events: &mut Vec<EventId>) -> bool {
        if self.owners[id as usize] != 1 {
            return false;
        }
        self.owners[id as usize] = 0;
        let start = id as usize * self.width;
        let slots = &mut self.slots[start..start + self.width];
        events.extend(slots.iter_mut().map(|slot| std::mem::replace(slot, NONE)));
        self.free.push(id);
        true
    }

    /// Has it taken no event?
    pub fn is_blank(&self, id: PartialId) -> bool {
        let start = id as usize * self.width;
        let slots = &self.slots[start..start + self.width];
        slots.iter().all(|&event| event == NONE)
    }

    /// A copy of the slots before `end`, and of those behind it that `keeps_behind` names.
    pub fn copy(
        &mut self,
        from: PartialId,
        captures: &mut [Captures],
        keeps: impl Fn(StateId) -> bool,
    ) -> PartialId {
        let id = self.fresh();
        self.times[id as usize] = self.times[from as usize];
        for (state, captures) in captures.iter_mut().enumerate() {
            if keeps(state) {
                let event = self.slot(from, state);
                captures.own(event);
                self.slots[id as usize * self.width + state] = event;
            }
        }
        id
    }

    pub fn slot(&self, id: PartialId, state: StateId) -> EventId {
        self.slots[id as usize * self.width + state]
    }

    /// Puts an event into a slot, in place of the one there.
    pub fn set_slot(
        &mut self,
        id: PartialId,
        state: StateId,
        event: EventId,
        captures: &mut [Captures],
    ) {
        let at = id as usize * self.width + state;
        captures[state].own(event);
        let old = std::mem::replace(&mut self.slots[at], event);
        captures[state].release(old);
    }

    pub fn time(&self, id: PartialId) -> i64 {
        self.times[id as usize]
    }

    pub fn set_time(&mut self, id: PartialId, time: i64) {
        self.times[id as usize] = time;
    }

    /// Marks it expired; true if it was not yet.
    pub fn expire(&mut self, id: PartialId) -> bool {
        !std::mem::replace(&mut self.expired[id as usize], true)
    }

    pub fn is_expired(&self, id: PartialId) -> bool {
        self.expired[id as usize]
    }

    pub fn own(&mut self, id: PartialId) {
        self.owners[id as usize] += 1;
    }

    /// It leaves a list; when it stands in none any more, its events are given back.
    pub fn release(&mut self, id: PartialId, captures: &mut [Captures]) {
        let owners = &mut self.owners[id as usize];
        *owners = owners.saturating_sub(1);
        if *owners > 0 {
            return;
        }
        let start = id as usize * self.width;
        for (state, captures) in captures.iter_mut().enumerate() {
            let event = std::mem::replace(&mut self.slots[start + state], NONE);
            captures.release(event);
        }
        self.free.push(id);
    }

    /// Heap bytes of all partial matches, those given back included.
    pub fn bytes(&self) -> usize {
        let one = self.width * size_of::<EventId>() + size_of::<i64>() + 2 * size_of::<u32>() + 1;
        self.times.len() * one
    }
}

#[cfg(test)]
mod tests {
    use event::{Chunks, Times};

    use super::*;

    fn text(n: usize) -> String {
        format!("{n} {}", "a long text ".repeat(20))
    }

    #[test]
    fn texts_of_events_given_back_do_not_pile_up() {
        let mut captures = Captures::new(vec![0], vec![Type::String]);
        let mut held: Vec<(usize, EventId)> = Vec::new();
        for n in 0..40_000 {
            let columns = vec![Column::constant(Type::String, &Value::str(&text(n)), 1)];
            let batch = Batch::new(columns, 1, Times::Same(0), Chunks::One, 0);
            let arrival = Arrival {
                batch: &batch,
                row: 0,
                time: 0,
            };
            let id = captures.keep(&arrival, NONE);
            captures.own(id);
            held.push((n, id));
            if held.len() > 100 {
                captures.release(held.remove(n % 100).1);
            }
        }
        assert!(captures.columns[0].bytes() < 8 * BYTES_MIN);
        for (n, id) in held {
            let kept: Vec<Value> = captures.values(id).collect();
            assert_eq!(kept[0].as_str(), Some(text(n).as_str()));
        }
    }

    #[test]
    fn a_chain_lives_as_long_as_its_last_event() {
        let mut captures = Captures::new(Vec::new(), Vec::new());
        let batch = Batch::new(Vec::new(), 3, Times::Same(5), Chunks::EachRow, 5);
        let mut last = NONE;
        for row in 0..3 {
            let arrival = Arrival {
                batch: &batch,
                row,
                time: row as i64,
            };
            last = captures.keep(&arrival, last);
        }
        captures.own(last);
        assert_eq!(
            (captures.length(last), captures.time(captures.first(last))),
            (3, 0)
        );
        assert_eq!(captures.time(captures.back(last, 1)), 1);
        captures.release(last);
        assert_eq!(captures.free.len(), 3);
    }
}
