//! Partitions: a batch is cut into runs of equal key, and each run goes to the queries inside with
//! the number of its key.
//!
//! Keys are texts; a row whose key is null is dropped and does not cut a run. A range partition
//! gives a row to every range that holds. A stream that is not in `with` goes chunk by chunk to each
//! live key, in the order in which the keys were first seen; with compat in that of Siddhi's hash set.

use std::borrow::Cow;
use std::ops::Range;

use event::codec::{Error as StateError, Writer};
use event::column::View;
use event::{Batch, BatchParts, Chunks, Clock, Times};
use plan::{PartitionBy, Plan, QueryId, StreamId};

use crate::component::{EvalContext, Key};
use crate::dirty::DirtyBits;
use crate::error::Error;
use crate::expr::{Expression, Inputs, Layout, ROW};
use crate::graph::{Graph, Receiver};
use crate::hash_order::hash_order;
use crate::key_text::for_each_key;
use crate::keyed::Pages;
use crate::query::{Interner, intern_all};
use crate::snapshot_format::{Extent, Fields, Id, List};
use crate::step::Step;
use crate::table::ConditionContext;

pub(crate) struct Partition {
    pub name: String,
    pub entrances: Vec<Entrance>,
    pub queries: Vec<QueryId>,
    pub keys: Interner,
    /// Keys whose state has begun, in the order in which they were first seen.
    pub live: Vec<Key>,
    /// By key: when it was last used.
    last_used: Pages<LastUsed>,
    /// By key: its place among those that were ever seen.
    seen_at: Pages<u32>,
    /// The next such place.
    seen: u32,
    /// Keys that were used, or are gone, since they were saved.
    dirty: DirtyBits,
    /// Idle period and interval, milliseconds.
    pub purge: Option<(i64, i64)>,
    /// Wall clock of the last use that [`Partition::purge_used_at`] was told of.
    told_at: i64,
}

/// A time, or [`LastUsed::NEVER`] where the state of the key has not begun.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LastUsed(i64);

impl LastUsed {
    const NEVER: LastUsed = LastUsed(i64::MIN);
}

impl Default for LastUsed {
    fn default() -> Self {
        LastUsed::NEVER
    }
}

/// A stream read inside.
pub(crate) struct Entrance {
    pub stream: StreamId,
    by: By,
    pub receivers: Vec<Receiver>,
    pub is_lockstep: bool,
}

enum By {
    Value(Expression),
    Ranges(Vec<(Expression, String)>),
    /// Not in `with`: to all live keys.
    Broadcast,
}

impl Partition {
    pub fn new(
        id: usize,
        plan: &Plan,
        graph: &Graph,
        context: &mut ConditionContext<'_>,
    ) -> Result<Partition, Error> {
        let partition = &plan.partitions[id];
        let mut entrances = Vec::new();
        for (stream, readers) in &graph.inside[id] {
            let width = plan.junction_schema(*stream).attributes.len();
            let layout = Layout::whole(0, ROW, width);
            let mut keys = partition.keys.iter();
            let key = keys.find(|k| plan.junction_read(k.from) == Some(*stream));
            let by = match key.map(|k| &k.by) {
                None => By::Broadcast,
                Some(PartitionBy::Value(expr)) => By::Value(context.expression(expr, &layout)?),
                Some(PartitionBy::Ranges(ranges)) => By::Ranges(
                    ranges
                        .iter()
                        .map(|(expr, name)| Ok((context.expression(expr, &layout)?, name.clone())))
                        .collect::<Result<_, Error>>()?,
                ),
            };
            entrances.push(Entrance {
                stream: *stream,
                by,
                receivers: readers.receivers.clone(),
                is_lockstep: readers.lockstep.is_some(),
            });
        }
        Ok(Partition {
            name: partition.name.clone(),
            entrances,
            queries: partition.queries.clone(),
            keys: Interner::default(),
            live: Vec::new(),
            last_used: Pages::default(),
            seen_at: Pages::default(),
            seen: 0,
            dirty: DirtyBits::default(),
            purge: partition.purge,
            told_at: i64::MIN,
        })
    }

    /// The runs of a batch in order, each with its key. A failure of the key's expression is that
    /// of the batch.
    pub fn runs(
        &mut self,
        entrance: usize,
        batch: &Batch,
        whole: bool,
        step: &mut Step<'_>,
    ) -> Result<Vec<(Key, Batch)>, String> {
        let entrance = &mut self.entrances[entrance];
        let mut failures = Vec::new();
        let mut context = EvalContext::new(
            step.now,
            step.wall,
            &batch.times,
            step.environment,
            step.seed,
            &mut failures,
        );
        let inputs = Inputs::of(&batch.columns, batch.len);
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        match &mut entrance.by {
            By::Broadcast if step.environment.compat => {
                return Ok(broadcast(batch, &self.live_as_hashed()));
            }
            By::Broadcast => return Ok(broadcast(batch, &self.live)),
            By::Value(expr) => {
                let column = expr.column(&inputs, &mut context);
                let names = &mut self.keys;
                let columns = std::slice::from_ref(&column);
                if column.nulls().is_none() && !matches!(column.view(), View::Any(_)) {
                    rows.extend(0..batch.len as u32);
                    intern_all(names, 0, columns, batch.len, &mut keys);
                } else {
                    for_each_key(columns, batch.len, |row, text| {
                        if !column.is_null(row) {
                            rows.push(row as u32);
                            keys.push(names.intern(0, text));
                        }
                    });
                }
            }
            By::Ranges(ranges) => {
                let masks: Vec<Vec<bool>> = ranges
                    .iter_mut()
                    .map(|(expr, _)| expr.mask(&inputs, &mut context))
                    .collect();
                for row in 0..batch.len {
                    for ((_, name), mask) in ranges.iter().zip(&masks) {
                        if mask[row] {
                            rows.push(row as u32);
                            keys.push(self.keys.intern(0, name));
                        }
                    }
                }
            }
        }
        if let Some(failure) = failures.into_iter().min_by_key(|f| f.row) {
            return Err(failure.message);
        }
        let whole = whole && !entrance.is_lockstep;
        Ok(cut(batch, &rows, &keys, whole))
    }

    /// The live keys in the order in which Siddhi gives a stream to all of them: that of a `HashSet`
    /// that is filled with them, which has places for one more.
    fn live_as_hashed(&self) -> Vec<Key> {
        let names = self.live.iter().map(|&key| match self.keys.name(key) {
            Some((_, name)) => name,
            None => Cow::Borrowed(""),
        });
        let names: Vec<_> = names.collect();
        let order = hash_order(names.iter().map(AsRef::as_ref), names.len() + 1);
        order.into_iter().map(|at| self.live[at]).collect()
    }

    /// The key gets rows; true if its state has to begin.
    pub fn touch(&mut self, key: Key, now: i64) -> bool {
        let now = LastUsed(now.max(i64::MIN + 1));
        let before = std::mem::replace(self.last_used.at(key), now);
        if before != now {
            self.dirty.mark(key);
        }
        if before != LastUsed::NEVER {
            return false;
        }
        if self.seen == u32::MAX {
            self.count_seen_anew();
        }
        self.live.push(key);
        *self.seen_at.at(key) = self.seen;
        self.seen += 1;
        true
    }

    /// Gives the live keys the first places, in their order.
    #[cold]
    fn count_seen_anew(&mut self) {
        self.seen = 0;
        for &key in &self.live {
            *self.seen_at.at(key) = self.seen;
            self.dirty.mark(key);
            self.seen += 1;
        }
    }

    /// Has the state of the key begun?
    pub fn is_live(&self, key: Key) -> bool {
        self.last_used
            .get(key)
            .is_some_and(|&used| used != LastUsed::NEVER)
    }

    /// A key is used at this time of the wall clock: the interval of looks at idle keys, where there
    /// is one and this time is a new one.
    pub fn purge_used_at(&mut self, wall: i64) -> Option<i64> {
        let (_, interval) = self.purge?;
        (std::mem::replace(&mut self.told_at, wall) != wall).then_some(interval.max(1))
    }

    /// Keys that have been idle for longer than the idle period, and whole pages of key numbers that are free
    /// then; they are forgotten here.
    pub fn take_idle(&mut self, now: i64) -> (Vec<Key>, Vec<Range<Key>>) {
        let Some((idle, _)) = self.purge else {
            return (Vec::new(), Vec::new());
        };
        let last_used = &self.last_used;
        let is_idle = |key: &Key| {
            // What has not begun is idle: its mark is the earliest time.
            let used = last_used.get(*key).copied().unwrap_or_default();
            used.0.saturating_add(idle) < now
        };
        let (gone, live): (Vec<Key>, Vec<Key>) = self.live.iter().partition(|key| is_idle(key));
        self.live = live;
        let mut pages = Vec::new();
        for &key in &gone {
            *self.last_used.at(key) = LastUsed::NEVER;
            self.dirty.mark(key);
            pages.extend(self.keys.give_back(key));
        }
        for page in &pages {
            self.last_used.release(page.clone());
            self.seen_at.release(page.clone());
        }
        (gone, pages)
    }

    pub fn forget_all(&mut self) {
        self.keys.clear();
        self.live.clear();
        self.last_used.clear();
        self.seen_at.clear();
        self.seen = 0;
        self.dirty.end();
        self.told_at = i64::MIN;
    }

    fn last_used(&self, key: Key) -> i64 {
        self.last_used.get(key).copied().unwrap_or_default().0
    }

    // ---- state ----

    pub fn is_dirty(&self) -> bool {
        self.dirty.is_any()
    }

    pub fn mark_saved(&mut self) {
        self.dirty.begin();
    }

    pub fn save(&self, writer: &mut Writer, extent: Extent) {
        let mut list = List::new(writer, extent);
        let keys = match extent {
            Extent::All => self.live_by_number(),
            Extent::Changes => self.dirty.iter().collect(),
        };
        for key in keys {
            if !self.is_live(key) {
                list.gone(Id::from(key)..Id::from(key) + 1);
                continue;
            }
            let name = self.keys.name(key);
            list.entry(Id::from(key), |w| {
                w.str(name.as_ref().map_or("", |(_, text)| text));
                w.i64(self.last_used(key));
                w.u32(self.seen_at.get(key).copied().unwrap_or(0));
            });
        }
        list.end();
    }

    /// Keys whose state has begun, in the order of their numbers.
    pub fn live_by_number(&self) -> Vec<Key> {
        let mut keys = self.live.clone();
        keys.sort_unstable();
        keys
    }

    pub fn restore(&mut self, fields: &mut Fields<'_>) -> Result<(), StateError> {
        let mut keys = Vec::new();
        let mut list = fields.list()?;
        while let Some((_, mut entry)) = list.next()? {
            let (text, last_used) = (entry.str()?, entry.i64()?);
            keys.push((entry.u32()?, text, last_used));
        }
        keys.sort_unstable_by_key(|(seen, ..)| *seen);
        for (_, text, last_used) in keys {
            let key = self.keys.intern(0, text);
            self.touch(key, last_used);
        }
        Ok(())
    }

    /// Heap bytes of keys and what is known of each.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
            + self.last_used.bytes()
            + self.seen_at.bytes()
            + size_of_val(&self.live[..])
    }
}

/// Each chunk to each live key.
fn broadcast(batch: &Batch, live: &[Key]) -> Vec<(Key, Batch)> {
    let chunks = 0..batch.chunk_count();
    chunks
        .flat_map(|chunk| {
            let one = batch.slice_chunks(chunk..chunk + 1);
            live.iter().map(move |&key| (key, one.clone()))
        })
        .collect()
}

/// Cuts the picked rows at chunk ends and where the key changes; with `whole`, neighbouring runs of
/// one key travel together, still as chunks of their own.
fn cut(batch: &Batch, rows: &[u32], keys: &[Key], whole: bool) -> Vec<(Key, Batch)> {
    let (mut ends, mut clocks, mut run_keys) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    for chunk in 0..batch.chunk_count() {
        let end = batch.chunk(chunk).end as u32;
        while at < rows.len() && rows[at] < end {
            let key = keys[at];
            while at < rows.len() && rows[at] < end && keys[at] == key {
                at += 1;
            }
            ends.push(at as u32);
            clocks.push(batch.clock_at(chunk));
            run_keys.push(key);
        }
    }
    if ends.is_empty() {
        return Vec::new();
    }
    let is_identity =
        rows.len() == batch.len && rows.iter().enumerate().all(|(i, &r)| i as u32 == r);
    let each_row = ends.iter().enumerate().all(|(i, &e)| e == i as u32 + 1);
    let picked = Batch::from(BatchParts {
        columns: if is_identity {
            batch.columns.clone()
        } else {
            batch.columns.iter().map(|c| c.gather(rows)).collect()
        },
        len: rows.len(),
        times: match &batch.times {
            Times::Same(t) => Times::Same(*t),
            times if is_identity => times.clone(),
            times => Times::per_row(rows.iter().map(|&r| times.at(r as usize)).collect()),
        },
        expired: batch
            .expired
            .as_ref()
            .map(|e| rows.iter().map(|&r| e[r as usize]).collect()),
        resets: None,
        chunks: if each_row {
            Chunks::EachRow
        } else {
            Chunks::Ends(ends.into())
        },
        inner: None,
        clock: match &batch.clock {
            Clock::Same(t) => Clock::Same(*t),
            Clock::PerChunk(_) => Clock::PerChunk(clocks.into()),
        },
    });
    let mut runs = Vec::new();
    let mut start = 0;
    while start < run_keys.len() {
        let mut end = start + 1;
        while whole && end < run_keys.len() && run_keys[end] == run_keys[start] {
            end += 1;
        }
        runs.push((run_keys[start], picked.slice_chunks(start..end)));
        start = end;
    }
    runs
}

/// Whether `with` names a key of the stream.
pub(crate) fn has_key_of(partition: &Partition, stream: StreamId) -> bool {
    let mut entrances = partition.entrances.iter();
    entrances.any(|e| e.stream == stream && !matches!(e.by, By::Broadcast))
}

/// Does any query of the partition read the stream?
pub(crate) fn entrance_of(partition: &Partition, stream: plan::StreamId) -> Option<usize> {
    partition.entrances.iter().position(|e| e.stream == stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Schema, Type, Value};

    fn runs(keys: &[Key], ends: &[u32], whole: bool) -> Vec<(Key, Vec<i64>, usize)> {
        let schema = Schema {
            name: "S".into(),
            attributes: vec![Attribute {
                name: "a".into(),
                ty: Type::Long,
            }],
        };
        let rows: Vec<_> = (0..keys.len() as i64)
            .map(|v| (v, vec![Value::Long(v)]))
            .collect();
        let batch = Batch::from_rows(&schema, &rows, Chunks::Ends(ends.into()), 0);
        let all: Vec<u32> = (0..keys.len() as u32).collect();
        cut(&batch, &all, keys, whole)
            .into_iter()
            .map(|(key, batch)| {
                let column = &batch.columns[0];
                let values = (0..batch.len).filter_map(|r| column.value(r).to_long());
                (key, values.collect(), batch.chunk_count())
            })
            .collect()
    }

    #[test]
    fn runs_end_where_the_key_or_the_chunk_does() {
        assert_eq!(
            runs(&[7, 7, 8, 7, 7], &[1, 5], false),
            [
                (7, vec![0], 1),
                (7, vec![1], 1),
                (8, vec![2], 1),
                (7, vec![3, 4], 1)
            ]
        );
        assert_eq!(
            runs(&[7, 7, 8, 7, 7], &[1, 5], true),
            [(7, vec![0, 1], 2), (8, vec![2], 1), (7, vec![3, 4], 1)]
        );
    }
}
