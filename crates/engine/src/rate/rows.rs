//! `output all|first|last every N events|t`: rows leave, or wait until they may.
//!
//! Counted limiters look at rows chunk by chunk; what one chunk lets out leaves as one chunk. Timed
//! ones let out what was collected (Siddhi's `*PerTimeOutputRateLimiter`).

use std::collections::{BTreeMap, HashMap};

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, BatchParts, Chunks, Clock, Column, Times, Type};
use lang::ast::RateKind;
use plan::{Rate, RateEvery};

use super::Name;
use crate::component::Key;
use crate::window::first_after;

pub(crate) struct RowLimiter {
    rate: Rate,
    has_groups: bool,
    keys: BTreeMap<Key, State>,
}

#[derive(Default)]
struct State {
    /// Rows seen in the round at hand (`all`, `last`, and `first` without groups).
    count: u64,
    /// Rows waiting, each a batch of one, with its group.
    waiting: Vec<(Name, Batch)>,
    /// `last` per group: where the row of each stands in `waiting`.
    places: HashMap<Name, usize>,
    /// `first` per group: rows seen since the one that left, or when it left.
    first: BTreeMap<Name, i64>,
    /// Heap bytes of what waits, beside its places in the list.
    waiting_bytes: usize,
    /// Bytes of the names in `first`.
    name_bytes: usize,
}

/// Heap bytes of a row that waits and of its group's name.
fn row_bytes(name: &Name, row: &Batch) -> usize {
    let columns = row.columns.capacity() * size_of::<Column>();
    let values = row.columns.iter().map(Column::heap_bytes).sum::<usize>();
    name.len() + size_of::<BatchParts>() + columns + values
}

impl RowLimiter {
    pub fn new(rate: Rate, has_groups: bool) -> RowLimiter {
        RowLimiter {
            rate,
            has_groups,
            keys: BTreeMap::new(),
        }
    }

    /// Lets rows out by a timer.
    pub fn is_timed(&self) -> bool {
        matches!(self.rate.every, RateEvery::Millis(_)) && self.rate.kind != RateKind::First
    }

    /// Of each group no more than its last row waits.
    fn keeps_last_of_groups(&self) -> bool {
        self.rate.kind == RateKind::Last && self.has_groups
    }

    /// The first deadline of a key.
    pub fn start(&mut self, key: Key, wall: i64) -> Option<i64> {
        self.keys.entry(key).or_default();
        match self.rate.every {
            RateEvery::Millis(t) if self.is_timed() => Some(wall + t),
            _ => None,
        }
    }

    /// Heap bytes; the nodes of trees are taken to be two thirds full.
    pub fn bytes(&self) -> usize {
        let states = self.keys.values();
        let keys = states.map(|s| {
            let places = s.waiting.capacity() * size_of::<(Name, Batch)>()
                + s.places.capacity() * size_of::<(Name, usize)>();
            let firsts = s.first.len() * size_of::<(Name, i64)>() * 3 / 2;
            let state = size_of::<(Key, State)>() * 3 / 2;
            state + places + s.waiting_bytes + firsts + s.name_bytes
        });
        keys.sum()
    }

    pub fn remove(&mut self, key: Key) {
        self.keys.remove(&key);
    }

    /// Takes what a query emits; `names` are the groups of the rows. Gives what leaves at once.
    pub fn process(
        &mut self,
        batch: Batch,
        names: Option<Vec<Name>>,
        key: Key,
        now: i64,
    ) -> Option<Batch> {
        let by_group = self.keeps_last_of_groups();
        // Rows are looked at one after the other, each once.
        let mut names = names.map(Vec::into_iter);
        let state = self.keys.entry(key).or_default();
        let mut out: Vec<Batch> = Vec::new();
        let mut ends: Vec<u32> = Vec::new();
        let mut resets = batch.resets.iter().flat_map(|r| r.iter()).peekable();
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            let range = batch.chunk(chunk);
            for row in range.start..=range.end {
                // A RESET counts as an event that may be the first, and is then seen by nobody.
                while resets
                    .next_if(|r| r.chunk as usize == chunk && r.row as usize <= row)
                    .is_some()
                {
                    if self.rate.kind == RateKind::First {
                        state.takes_first(Name::default(), self.rate.every, clock);
                    }
                }
                if row == range.end {
                    break;
                }
                let name = names.as_mut().and_then(Iterator::next);
                let name = name.unwrap_or_default();
                let one = || single(&batch, row, chunk);
                if self.rate.kind == RateKind::First {
                    if state.takes_first(name, self.rate.every, clock) {
                        out.push(one());
                    }
                    continue;
                }
                if by_group {
                    state.replace(name, one());
                } else {
                    if self.rate.kind == RateKind::Last {
                        drop(state.let_out());
                    }
                    state.push(name, one());
                }
                state.count += 1;
                if self.rate.every == RateEvery::Events(state.count) {
                    state.count = 0;
                    out.extend(state.let_out());
                }
            }
            if out.len() as u32 > ends.last().copied().unwrap_or(0) {
                ends.push(out.len() as u32);
            }
        }
        join_rows(out, Some(ends), now)
    }

    /// A deadline is due: what was collected, and the next deadline.
    pub fn on_timer(&mut self, key: Key, deadline: i64, now: i64) -> (Option<Batch>, i64) {
        let RateEvery::Millis(t) = self.rate.every else {
            return (None, deadline);
        };
        let state = self.keys.entry(key).or_default();
        state.count = 0;
        let rows: Vec<Batch> = state.let_out().collect();
        // Of the deadlines that the clock has jumped over only the first finds anything.
        let next = first_after(now, deadline.saturating_add(t), t);
        (join_rows(rows, None, now), next)
    }

    pub fn held(&self) -> usize {
        if self.is_timed() {
            self.keys.values().map(|s| s.waiting.len()).sum()
        } else {
            0
        }
    }

    pub fn save(&self, key: Key, writer: &mut Writer) {
        writer.u8(1);
        let none = State::default();
        let state = self.keys.get(&key).unwrap_or(&none);
        writer.u64(state.count);
        writer.count(state.first.len());
        for (name, at) in &state.first {
            writer.str(name);
            writer.i64(*at);
        }
        writer.count(state.waiting.len());
        for (name, row) in &state.waiting {
            writer.str(name);
            writer.rows(row);
        }
    }

    pub fn restore(
        &mut self,
        key: Key,
        reader: &mut Reader<'_>,
        types: &[Type],
    ) -> Result<(), StateError> {
        let mark = reader.u8()?;
        if mark != 1 {
            return Err(StateError::Mark { mark, at: 0 });
        }
        let mut state = State {
            count: reader.u64()?,
            ..State::default()
        };
        for _ in 0..reader.count()? {
            let name = Name::from(reader.str()?);
            state.name_bytes += name.len();
            state.first.insert(name, reader.i64()?);
        }
        for _ in 0..reader.count()? {
            let name = Name::from(reader.str()?);
            let row = reader.rows(types, 0)?;
            if self.keeps_last_of_groups() {
                state.replace(name, row);
            } else {
                state.push(name, row);
            }
        }
        self.keys.insert(key, state);
        Ok(())
    }
}

impl State {
    /// Is this the event of its group that leaves? Of every N events 1, N+1, 2N+1, … do; with N = 1
    /// only the very first (Siddhi's `FirstPerEventOutputRateLimiter` resets its counter only on
    /// the row after the first).
    fn takes_first(&mut self, name: Name, every: RateEvery, clock: i64) -> bool {
        match every {
            RateEvery::Events(every) => {
                self.meet_first(&name);
                let count = self.first.entry(name).or_insert(0);
                *count += 1;
                if *count > 1 && *count == every as i64 {
                    *count = 0;
                }
                *count == 1
            }
            RateEvery::Millis(time) => {
                let is_due = self.first.get(&name).is_none_or(|at| at + time <= clock);
                if is_due {
                    self.meet_first(&name);
                    self.first.insert(name, clock);
                }
                is_due
            }
        }
    }

    /// The row waits at the place of the one of its group that waits, or behind all others.
    fn replace(&mut self, name: Name, row: Batch) {
        match self.places.get(&name) {
            Some(&place) => {
                let slot = &mut self.waiting[place].1;
                self.waiting_bytes += row_bytes(&name, &row);
                self.waiting_bytes -= row_bytes(&name, slot);
                *slot = row;
            }
            None => {
                self.waiting_bytes += name.len();
                self.places.insert(name.clone(), self.waiting.len());
                self.push(name, row);
            }
        }
    }

    fn push(&mut self, name: Name, row: Batch) {
        self.waiting_bytes += row_bytes(&name, &row);
        self.waiting.push((name, row));
    }

    /// All rows that wait; the list is empty then.
    fn let_out(&mut self) -> impl Iterator<Item = Batch> + '_ {
        self.waiting_bytes = 0;
        self.places.clear();
        self.waiting.drain(..).map(|(_, row)| row)
    }

    /// The group is about to stand in `first`.
    fn meet_first(&mut self, name: &Name) {
        if !self.first.contains_key(name) {
            self.name_bytes += name.len();
        }
    }
}

/// A row by itself, which holds nothing of the batch.
fn single(batch: &Batch, row: usize, chunk: usize) -> Batch {
    let mut one = Batch::new(
        batch.columns.iter().map(|c| c.own_row(row)).collect(),
        1,
        Times::Same(batch.times.at(row)),
        Chunks::One,
        batch.clock_at(chunk),
    );
    one.expired = batch.is_expired(row).then(|| [true].into());
    one
}

/// Rows one behind the other, as one chunk or with ends.
fn join_rows(rows: Vec<Batch>, ends: Option<Vec<u32>>, now: i64) -> Option<Batch> {
    let first = rows.first()?;
    let columns = (0..first.columns.len())
        .map(|c| {
            let parts: Vec<Column> = rows.iter().map(|r| r.columns[c].clone()).collect();
            Column::concat(&parts)
        })
        .collect();
    let times = rows.iter().map(|r| r.times.at(0)).collect();
    let expired: Vec<bool> = rows.iter().map(|r| r.is_expired(0)).collect();
    let chunks = match ends {
        Some(ends) if ends.len() > 1 => Chunks::Ends(ends.into()),
        _ => Chunks::One,
    };
    let mut batch = Batch::new(columns, rows.len(), Times::per_row(times), chunks, now);
    batch.expired = expired.contains(&true).then(|| expired.into());
    batch.clock = Clock::Same(now);
    Some(batch)
}

#[cfg(test)]
mod tests {
    use event::{Attribute, Schema, Value};

    use super::*;

    fn schema() -> Schema {
        Schema {
            name: "S".into(),
            attributes: vec![Attribute {
                name: "a".into(),
                ty: Type::String,
            }],
        }
    }

    fn long_texts(rows: usize) -> Batch {
        let row = (0, vec![Value::str(&"x".repeat(10_000))]);
        Batch::from_rows(&schema(), &vec![row; rows], Chunks::EachRow, 0)
    }

    /// Also after the state was saved and restored, and anew when they have left.
    #[test]
    fn the_last_row_of_each_group_waits_where_its_first_did() {
        let rate = Rate {
            kind: RateKind::Last,
            every: RateEvery::Events(5),
        };
        let texts = |texts: &[&str]| {
            let rows: Vec<_> = texts.iter().map(|&t| (0, vec![Value::str(t)])).collect();
            Batch::from_rows(&schema(), &rows, Chunks::One, 0)
        };
        let names = |names: &str| Some(names.chars().map(|c| c.to_string().into()).collect());
        let mut limiter = RowLimiter::new(rate, true);
        let rows = texts(&["a1", "b1", "a2"]);
        assert!(limiter.process(rows, names("aba"), 0, 0).is_none());
        let mut saved = Writer::default();
        limiter.save(0, &mut saved);
        limiter = RowLimiter::new(rate, true);
        limiter
            .restore(0, &mut Reader::new(&saved.bytes), &[Type::String])
            .expect("what was saved is restored");
        for (rows, of, expect) in [
            (["c1", "b2"], "cb", vec!["a2", "b2", "c1"]),
            (["b3", "b4"], "bb", vec![]),
            (["b5", "a3"], "ba", vec![]),
            (["b6", "c2"], "bc", vec!["b6", "a3"]),
        ] {
            let out = limiter.process(texts(&rows), names(of), 0, 0);
            let values = |out: Batch| (0..out.len).map(|row| out.columns[0].value(row)).collect();
            let found: Vec<Value> = out.map_or_else(Vec::new, values);
            let expect: Vec<Value> = expect.into_iter().map(Value::str).collect();
            assert_eq!(found, expect);
        }
    }

    #[test]
    fn what_waits_is_counted_until_it_leaves() {
        let rate = Rate {
            kind: RateKind::All,
            every: RateEvery::Events(4),
        };
        let mut limiter = RowLimiter::new(rate, false);
        assert!(limiter.process(long_texts(3), None, 0, 0).is_none());
        // Each row holds its own text, and nothing of the batch that it came with.
        assert!((30_000..33_000).contains(&limiter.bytes()));
        assert!(limiter.process(long_texts(1), None, 0, 0).is_some());
        assert!(limiter.bytes() < 1_000);
    }
}
