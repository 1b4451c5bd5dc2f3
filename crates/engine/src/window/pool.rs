//! Rows that leave in any order, in columns of the window's own.
//!
//! A row is known by its slot. Within one call rows are named where they came in, in the batch;
//! only what is still held behind it is copied, all rows of the call at once. Segments whose rows
//! have left are dropped, sparse ones are joined with the next, so that a row is copied a few times
//! at most (the logarithm of how many are held) and the rest of the memory is given back.

use std::collections::HashMap;
use std::ops::Range;

use event::{Batch, Chunks, Column, ColumnBuilder, TimesBuilder};

use super::held::Held;
use super::key_map::{KeyMap, Placed};
use super::store::{RowTypes, batch_bytes};
use crate::emission::Emission;

/// Number of a held row; reused once the row has left.
pub type Slot = u32;

/// No slot, or the row of a segment that has left.
const NONE: Slot = Slot::MAX;

/// In place of a segment: the row is still in the batch of this call.
const PENDING: u32 = u32::MAX;

/// A segment with fewer live rows than one in so many is copied.
const SPARSE: usize = 4;

#[derive(Clone, Copy)]
struct Place {
    segment: u32,
    row: u32,
    holders: u32,
}

struct Segment {
    batch: Batch,
    /// The slot of each row.
    owners: Vec<Slot>,
    live: usize,
}

pub struct Pool {
    types: RowTypes,
    /// By number; `None` where one was given back.
    segments: Vec<Option<Segment>>,
    /// Numbers of the segments, oldest rows first.
    order: Vec<u32>,
    places: Vec<Place>,
    free: Vec<Slot>,
}

impl Pool {
    pub fn new(types: &RowTypes) -> Pool {
        Pool {
            types: RowTypes::clone(types),
            segments: Vec::new(),
            order: Vec::new(),
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The rows of a batch, in slots of the same numbers.
    pub fn of(types: &RowTypes, batch: Batch) -> Pool {
        let mut pool = Pool::new(types);
        pool.places = (0..batch.len as u32)
            .map(|row| Place {
                segment: 0,
                row,
                holders: 1,
            })
            .collect();
        let owners = (0..batch.len as Slot).collect();
        pool.keep(batch, owners);
        pool
    }

    /// All rows leave.
    pub fn clear(&mut self) {
        *self = Pool::new(&self.types);
    }

    /// Rows of a restored pool are held as often as they are named.
    pub fn hold(&mut self, slots: impl Iterator<Item = Slot>) {
        self.places.iter_mut().for_each(|place| place.holders = 0);
        slots.for_each(|slot| self.places[slot as usize].holders += 1);
    }

    pub fn share(&mut self, slot: Slot) {
        self.places[slot as usize].holders += 1;
    }

    pub fn bytes(&self) -> usize {
        let segment = |s: &Segment| batch_bytes(&s.batch) + size_of_val(&s.owners[..]);
        self.segments.iter().flatten().map(segment).sum::<usize>()
            + size_of_val(&self.places[..])
            + size_of_val(&self.free[..])
    }

    /// The rows of all keys, in the order of Java's map.
    pub fn rows_by_text_hash<V: Placed>(&self, keys: &KeyMap<V>) -> Held<'static> {
        let kept = keys.by_text_hash().into_iter();
        Held::from(self.rows(kept.map(|(_, value)| value.slot())))
    }

    /// Copies of rows, as one chunk.
    pub fn rows(&self, slots: impl Iterator<Item = Slot>) -> Batch {
        let mut rows = Copied::new(&self.types);
        for slot in slots {
            let (segment, row) = self.stored(slot);
            rows.push(&segment.batch, row);
        }
        rows.finish()
    }

    /// Where a row that was kept by an earlier call stands.
    fn stored(&self, slot: Slot) -> (&Segment, usize) {
        let place = self.places[slot as usize];
        let segment = self.segments[place.segment as usize]
            .as_ref()
            .expect("a segment lives as long as one of its rows");
        (segment, place.row as usize)
    }

    /// Takes the newest rows.
    fn keep(&mut self, batch: Batch, owners: Vec<Slot>) {
        if !owners.is_empty() {
            let number = self.push_segment(batch, owners);
            self.order.push(number);
        }
    }

    /// Takes rows that all are held; the caller puts the segment's number into the order.
    fn push_segment(&mut self, batch: Batch, owners: Vec<Slot>) -> u32 {
        let live = owners.len();
        let at = match self.segments.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.segments.push(None);
                self.segments.len() - 1
            }
        };
        for (row, &owner) in owners.iter().enumerate() {
            let place = &mut self.places[owner as usize];
            (place.segment, place.row) = (at as u32, row as u32);
        }
        self.segments[at] = Some(Segment {
            batch,
            owners,
            live,
        });
        at as u32
    }

    /// Drops empty segments, joins the newest with those in front that are not much larger, and
    /// copies sparse ones.
    fn tidy(&mut self) {
        let segments = &mut self.segments;
        self.order.retain(|&at| {
            let is_live = segments[at as usize].as_ref().is_some_and(|s| s.live > 0);
            if !is_live {
                segments[at as usize] = None;
            }
            is_live
        });
        let (mut first, mut behind) = (self.order.len(), 0);
        while first > 0 && (behind == 0 || self.segment(first - 1).live <= 2 * behind) {
            first -= 1;
            behind += self.segment(first).live;
        }
        if self.order.len() - first > 1 {
            self.join(first..self.order.len());
        }
        for at in 0..self.order.len() {
            let segment = self.segment(at);
            if SPARSE * segment.live < segment.batch.len {
                self.join(at..at + 1);
            }
        }
    }

    /// A segment by its place in the order.
    fn segment(&self, at: usize) -> &Segment {
        let segment = self.segments[self.order[at] as usize].as_ref();
        segment.expect("the order names segments that are there")
    }

    /// Copies the live rows of neighbouring segments into one in their place.
    fn join(&mut self, range: Range<usize>) {
        let at = range.start;
        let parts: Vec<Segment> = self
            .order
            .drain(range)
            .filter_map(|number| self.segments[number as usize].take())
            .collect();
        let mut rows = Copied::new(&self.types);
        let mut owners = Vec::new();
        for segment in &parts {
            for (row, &owner) in segment.owners.iter().enumerate() {
                if owner != NONE {
                    rows.push(&segment.batch, row);
                    owners.push(owner);
                }
            }
        }
        let number = self.push_segment(rows.finish(), owners);
        self.order.insert(at, number);
    }
}

/// One call of a window that holds rows in a pool.
pub struct Visit<'a> {
    pool: &'a mut Pool,
    /// The rows that come in, and their number in the emission; none for a timer.
    batch: Option<(&'a Batch, u32)>,
    arrived: Vec<(Slot, u32)>,
    /// Segments that are known to the emission, with their numbers there.
    sources: Vec<(u32, u32)>,
}

impl<'a> Visit<'a> {
    pub fn of_batch(pool: &'a mut Pool, batch: &'a Batch, out: &mut Emission) -> Visit<'a> {
        let source = out.source(batch);
        Visit {
            batch: Some((batch, source)),
            ..Visit::of_timer(pool)
        }
    }

    pub fn of_timer(pool: &'a mut Pool) -> Visit<'a> {
        Visit {
            pool,
            batch: None,
            arrived: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// A row of the batch is held from now on.
    pub fn add(&mut self, row: usize) -> Slot {
        let place = Place {
            segment: PENDING,
            row: row as u32,
            holders: 1,
        };
        let slot = match self.pool.free.pop() {
            Some(slot) => {
                self.pool.places[slot as usize] = place;
                slot
            }
            None => {
                self.pool.places.push(place);
                self.pool.places.len() as Slot - 1
            }
        };
        self.arrived.push((slot, row as u32));
        slot
    }

    /// A row is held once more: it takes one more [`Visit::remove`] until it leaves.
    pub fn share(&mut self, slot: Slot) {
        self.pool.share(slot);
    }

    /// A row is held once less, and leaves with the last time.
    pub fn remove(&mut self, slot: Slot) {
        let place = &mut self.pool.places[slot as usize];
        place.holders -= 1;
        if place.holders > 0 {
            return;
        }
        let place = *place;
        if place.segment != PENDING
            && let Some(segment) = &mut self.pool.segments[place.segment as usize]
        {
            segment.owners[place.row as usize] = NONE;
            segment.live -= 1;
        }
        self.pool.places[slot as usize] = Place {
            segment: PENDING,
            row: u32::MAX,
            holders: 0,
        };
        self.pool.free.push(slot);
    }

    /// Names a held row in the emission; `time` absent: with its own timestamp.
    pub fn emit(&mut self, slot: Slot, expired: bool, time: Option<i64>, out: &mut Emission) {
        let place = self.pool.places[slot as usize];
        let row = place.row as usize;
        let source = match (place.segment, self.batch) {
            (PENDING, Some((_, source))) => source,
            _ => self.source(place.segment, out),
        };
        out.push(source, row..row + 1, expired, time);
    }

    /// A row of the batch passes as CURRENT.
    pub fn pass(&self, row: usize, out: &mut Emission) {
        if let Some((_, source)) = self.batch {
            out.current(source, row..row + 1);
        }
    }

    fn source(&mut self, segment: u32, out: &mut Emission) -> u32 {
        if let Some((_, source)) = self.sources.iter().find(|(s, _)| *s == segment) {
            return *source;
        }
        let stored = self.pool.segments[segment as usize].as_ref();
        let stored = stored.expect("a segment lives as long as one of its rows");
        let source = out.source(&stored.batch);
        self.sources.push((segment, source));
        source
    }

    /// Where the values of a held row stand.
    pub fn place(&self, slot: Slot) -> (&Batch, usize) {
        let place = self.pool.places[slot as usize];
        match (place.segment, self.batch) {
            (PENDING, Some((batch, _))) => (batch, place.row as usize),
            _ => {
                let (segment, row) = self.pool.stored(slot);
                (&segment.batch, row)
            }
        }
    }

    pub fn time(&self, slot: Slot) -> i64 {
        let (batch, row) = self.place(slot);
        batch.times.at(row)
    }

    /// Are timestamps and values of two rows the same (Siddhi's `StreamEvent.equals`)?
    pub fn are_equal(&self, a: Slot, b: Slot) -> bool {
        if a == b {
            return true;
        }
        let ((left, l), (right, r)) = (self.place(a), self.place(b));
        let same = |(x, y): (&Column, &Column)| x.value(l) == y.value(r);
        left.times.at(l) == right.times.at(r) && left.columns.iter().zip(&right.columns).all(same)
    }

    /// Copies what is still held of the batch.
    pub fn finish(self) {
        let Some((batch, _)) = self.batch else {
            return self.pool.tidy();
        };
        let mut rows = Copied::new(&self.pool.types);
        let mut owners = Vec::new();
        for (slot, row) in self.arrived {
            let place = self.pool.places[slot as usize];
            if (place.segment, place.row) == (PENDING, row) {
                rows.push(batch, row as usize);
                owners.push(slot);
            }
        }
        self.pool.keep(rows.finish(), owners);
        self.pool.tidy();
    }
}

/// Rows of a saved state: which slots, and under which number each.
#[derive(Default)]
pub struct SavedRows {
    slots: Vec<Slot>,
    numbers: HashMap<Slot, u32>,
}

impl SavedRows {
    pub fn push(&mut self, slot: Slot) {
        let next = self.slots.len() as u32;
        self.numbers.entry(slot).or_insert_with(|| {
            self.slots.push(slot);
            next
        });
    }

    pub fn extend(&mut self, slots: impl Iterator<Item = Slot>) {
        slots.for_each(|slot| self.push(slot));
    }

    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied()
    }

    pub fn number(&self, slot: Slot) -> u32 {
        self.numbers.get(&slot).copied().unwrap_or(0)
    }
}

/// Rows copied one by one, a run of neighbours at a time.
struct Copied<'b> {
    columns: Vec<ColumnBuilder>,
    times: TimesBuilder,
    run: Option<(&'b Batch, usize, usize)>,
}

impl<'b> Copied<'b> {
    fn new(types: &RowTypes) -> Copied<'b> {
        Copied {
            columns: types.iter().map(|&ty| ColumnBuilder::new(ty)).collect(),
            times: TimesBuilder::default(),
            run: None,
        }
    }

    fn push(&mut self, batch: &'b Batch, row: usize) {
        match &mut self.run {
            Some((of, _, end)) if std::ptr::eq(*of, batch) && *end == row => *end += 1,
            _ => {
                self.flush();
                self.run = Some((batch, row, row + 1));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((batch, start, end)) = self.run.take() {
            for (builder, column) in self.columns.iter_mut().zip(&batch.columns) {
                builder.extend(column, start..end);
            }
            self.times.extend(&batch.times, start..end);
        }
    }

    fn finish(mut self) -> Batch {
        self.flush();
        let len = self.times.len();
        let columns = self
            .columns
            .into_iter()
            .map(ColumnBuilder::finish)
            .collect();
        Batch::new(columns, len, self.times.finish(0), Chunks::One, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Schema, Type, Value};

    /// Holds and drops rows at random for a while, in batches of `each`, beside a plain map.
    fn exercise(each: usize) {
        let schema = Schema {
            name: "S".into(),
            attributes: vec![Attribute {
                name: "a".into(),
                ty: Type::Long,
            }],
        };
        let types = super::super::store::row_types(&schema);
        let mut pool = Pool::new(&types);
        let mut held: Vec<(Slot, i64)> = Vec::new();
        let mut random = 7u64;
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) as usize % below
        };
        for round in 0..3000i64 / each as i64 {
            let rows: Vec<_> = (0..each as i64)
                .map(|i| (round, vec![Value::Long(round * 1000 + i)]))
                .collect();
            let batch = Batch::from_rows(&schema, &rows, Chunks::EachRow, 0);
            let mut out = Emission::default();
            let mut visit = Visit::of_batch(&mut pool, &batch, &mut out);
            for row in 0..each {
                held.push((visit.add(row), round * 1000 + row as i64));
                if held.len() > 40 || next(3) == 0 {
                    let (slot, value) = held.swap_remove(next(held.len()));
                    let (from, at) = visit.place(slot);
                    assert_eq!(from.columns[0].value(at), Value::Long(value));
                    assert_eq!(visit.time(slot), value / 1000);
                    visit.emit(slot, true, None, &mut out);
                    visit.remove(slot);
                }
            }
            visit.finish();
            let content = pool.rows(held.iter().map(|(slot, _)| *slot));
            for (row, (_, value)) in held.iter().enumerate() {
                assert_eq!(content.columns[0].value(row), Value::Long(*value));
            }
            let stored: usize = (0..pool.order.len())
                .map(|s| pool.segment(s).batch.len)
                .sum();
            assert!(
                stored <= SPARSE * held.len() + each,
                "{stored} for {}",
                held.len()
            );
            assert!(pool.order.len() < 9, "{} segments", pool.order.len());
        }
    }

    #[test]
    fn rows_are_found_by_slot_while_segments_come_and_go() {
        exercise(1);
        exercise(7);
        exercise(100);
    }
}
