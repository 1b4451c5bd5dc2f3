//! The rows of a batch of keys: those being collected, and the batch before.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Clock, Times};

use super::super::key::KeyParts;
use super::super::key_map::KeyMap;
use super::super::per_key::Stored;
use super::super::pool::{Pool, Slot, Visit};
use super::super::store::{RowTypes, batch_bytes};
use crate::emission::Emission;

/// A pending row, and `hashCode` of its key.
pub struct Pending {
    slot: Slot,
    code: i32,
}

pub struct KeyBatch {
    pub pool: Pool,
    pub keys: KeyMap<Pending>,
    /// The batch before, stamped when it left.
    previous: Option<Batch>,
    /// A batch has left: the next has a RESET in front.
    resets: bool,
}

/// Adds the rows of a batch until `full` keys are pending; the row behind the last that was looked
/// at. Of a known key the newest row is kept, or with `keeps_first` the first.
pub fn collect(
    (keys, visit): (&mut KeyMap<Pending>, &mut Visit<'_>),
    key: &mut KeyParts,
    (batch, rows): (&Batch, std::ops::Range<usize>),
    keeps_first: bool,
    full: Option<usize>,
) -> usize {
    for row in rows.clone() {
        let (text, code) = key.hashed(batch, row);
        if !keeps_first || keys.get(text).is_none() {
            let slot = visit.add(row);
            if let Some(old) = keys.insert(text, Pending { slot, code }) {
                visit.remove(old.slot);
            }
        }
        if full == Some(keys.len()) {
            return row + 1;
        }
    }
    rows.end
}

impl KeyBatch {
    /// Pending rows in the order of the hash map.
    fn pending(&self) -> impl Iterator<Item = Slot> {
        let ordered = self.keys.in_hash_order(|_, p| p.code);
        let slots: Vec<Slot> = ordered.into_iter().map(|(_, p)| p.slot).collect();
        slots.into_iter()
    }

    /// `[E…, R, C…]`, all stamped with the clock: the batch before, and what is pending. The pending
    /// rows must have been kept by an earlier visit.
    pub fn flush(&mut self, clock: i64, out: &mut Emission) {
        if let Some(previous) = self.previous.take() {
            let source = out.source(&previous);
            out.expired(source, 0..previous.len, clock);
        }
        if !self.keys.is_empty() {
            if std::mem::replace(&mut self.resets, true) {
                out.reset(clock);
            }
            let mut rows = self.pool.rows(self.pending());
            rows.times = Times::Same(clock);
            rows.clock = Clock::Same(clock);
            let source = out.source(&rows);
            out.current(source, 0..rows.len);
            self.previous = Some(rows);
            self.keys.clear();
            self.pool.clear();
        }
        out.end_chunk(clock);
    }

    /// What is pending, for joins.
    pub fn pending_rows(&self) -> Batch {
        self.pool.rows(self.pending())
    }

    /// The batch before, for joins.
    pub fn previous_rows(&self) -> Batch {
        let none = || self.pool.rows(std::iter::empty());
        self.previous.clone().unwrap_or_else(none)
    }

    /// Rows that a timer would still emit.
    pub fn held(&self, expired_wanted: bool) -> usize {
        let previous = self.previous.as_ref().filter(|_| expired_wanted);
        self.keys.len() + previous.map_or(0, |p| p.len)
    }
}

impl Stored for KeyBatch {
    fn new(types: &RowTypes) -> KeyBatch {
        KeyBatch {
            pool: Pool::new(types),
            keys: KeyMap::default(),
            previous: None,
            resets: false,
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.keys.bytes() + self.previous.as_ref().map_or(0, batch_bytes)
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.resets);
        writer.rows(&self.pool.rows(self.keys.iter().map(|(_, p)| p.slot)));
        self.keys
            .save(writer, |pending, w| w.u32(pending.code as u32));
        writer.rows(&self.previous_rows());
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<KeyBatch, StateError> {
        let resets = reader.bool()?;
        let rows = reader.rows(types, 0)?;
        let mut next = 0;
        let keys = KeyMap::restore(reader, |r| {
            next += 1;
            Ok(Pending {
                slot: next - 1,
                code: r.u32()? as i32,
            })
        })?;
        super::super::expect_rows(rows.len, keys.len())?;
        let previous = reader.rows(types, 0)?;
        Ok(KeyBatch {
            pool: Pool::of(types, rows),
            keys,
            previous: (previous.len > 0).then_some(previous),
            resets,
        })
    }
}
