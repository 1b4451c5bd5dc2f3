//! Many rows handed over at once, with the chunks that the language sees inside.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use crate::column::Column;
use crate::selection::picked;
use crate::times::Times;
use crate::types::Schema;
use crate::value::Value;

/// Rows in columns, with their timestamps, kinds and chunk bounds.
///
/// Batch bounds are never observable; chunk bounds are, exactly as in Siddhi. A chunk lies in one
/// batch. Rows are CURRENT unless `expired` says otherwise; a RESET is a mark between rows, not a
/// row.
///
/// A batch is a handle, one word long: it goes through many hands on its way, and an event that
/// comes alone pays for each.
#[derive(Clone, Debug)]
pub struct Batch(Box<BatchParts>);

/// What a batch is made of; a [`Batch`] gives access to all of it.
#[derive(Clone, Debug)]
pub struct BatchParts {
    pub columns: Vec<Column>,
    pub len: usize,
    /// Event timestamps, milliseconds.
    pub times: Times,
    /// True where the row is EXPIRED; absent when all are CURRENT.
    pub expired: Option<Arc<[bool]>>,
    /// In order; `None` for none.
    pub resets: Option<Arc<[Reset]>>,
    pub chunks: Chunks,
    /// Ends of the inner chunks of a join (one per triggering event), in rows; a selector works on
    /// these, delivery on `chunks`.
    pub inner: Option<Arc<[u32]>>,
    pub clock: Clock,
}

/// "Drop all aggregate state" before row `row`, seen as part of chunk `chunk`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reset {
    pub chunk: u32,
    pub row: u32,
    /// The timestamp of the event that it is in Siddhi, milliseconds: a snapshot of the output looks
    /// at it.
    pub time: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunks {
    /// Every row is a chunk of its own: messages that arrived singly.
    EachRow,
    /// All rows are one chunk; with no rows, one empty chunk.
    One,
    /// Ends of the chunks in rows, ascending, equal for an empty chunk; the last is the length.
    Ends(Arc<[u32]>),
}

/// The application clock at which each chunk is processed; it never goes back from chunk to chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clock {
    Same(i64),
    PerChunk(Arc<[i64]>),
}

impl Deref for Batch {
    type Target = BatchParts;

    #[inline]
    fn deref(&self) -> &BatchParts {
        &self.0
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut BatchParts {
        &mut self.0
    }
}

impl From<BatchParts> for Batch {
    #[inline]
    fn from(parts: BatchParts) -> Batch {
        Batch(Box::new(parts))
    }
}

impl Batch {
    /// One chunk of CURRENT rows at one time.
    pub fn new(columns: Vec<Column>, len: usize, times: Times, chunks: Chunks, now: i64) -> Batch {
        debug_assert!(columns.iter().all(|c| c.len() == len));
        Batch::from(BatchParts {
            columns,
            len,
            times,
            expired: None,
            resets: None,
            chunks,
            inner: None,
            clock: Clock::Same(now),
        })
    }

    /// The same rows' timestamps, kinds and chunks with other columns.
    pub fn with_columns(&self, columns: Vec<Column>) -> Batch {
        debug_assert!(columns.iter().all(|c| c.len() == self.len));
        let BatchParts {
            len,
            times,
            expired,
            resets,
            chunks,
            inner,
            clock,
            ..
        } = &**self;
        Batch::from(BatchParts {
            columns,
            len: *len,
            times: times.clone(),
            expired: expired.clone(),
            resets: resets.clone(),
            chunks: chunks.clone(),
            inner: inner.clone(),
            clock: clock.clone(),
        })
    }

    /// Its parts, by value.
    pub fn into_parts(self) -> BatchParts {
        *self.0
    }

    /// No columns and no rows: room for what is to come.
    pub fn empty() -> Batch {
        Batch::new(Vec::new(), 0, Times::Same(0), Chunks::One, 0)
    }

    /// One chunk of CURRENT rows from values, for tests and slow paths.
    pub fn from_rows(
        schema: &Schema,
        rows: &[(i64, Vec<Value>)],
        chunks: Chunks,
        now: i64,
    ) -> Batch {
        let columns = schema
            .attributes
            .iter()
            .enumerate()
            .map(|(i, attribute)| {
                let mut builder = crate::column::ColumnBuilder::new(attribute.ty);
                for (_, row) in rows {
                    builder.push(row.get(i).unwrap_or(&Value::Null));
                }
                builder.finish()
            })
            .collect();
        let times = Times::per_row(rows.iter().map(|(t, _)| *t).collect());
        let times = if rows.is_empty() {
            Times::Same(now)
        } else {
            times
        };
        Batch::new(columns, rows.len(), times, chunks, now)
    }

    /// Are the rows and their timestamps those of the other, in shared memory?
    pub fn has_same_rows(&self, other: &Batch) -> bool {
        self.len == other.len
            && self.columns.len() == other.columns.len()
            && self.times.is_same(&other.times)
            && self
                .columns
                .iter()
                .zip(&other.columns)
                .all(|(a, b)| a.is_same(b))
    }

    pub fn is_expired(&self, row: usize) -> bool {
        self.expired.as_ref().is_some_and(|e| e[row])
    }

    pub fn chunk_count(&self) -> usize {
        match &self.chunks {
            Chunks::EachRow => self.len,
            Chunks::One => 1,
            Chunks::Ends(ends) => ends.len(),
        }
    }

    /// Rows of a chunk.
    pub fn chunk(&self, index: usize) -> Range<usize> {
        match &self.chunks {
            Chunks::EachRow => index..index + 1,
            Chunks::One => 0..self.len,
            Chunks::Ends(ends) => {
                let start = if index == 0 {
                    0
                } else {
                    ends[index - 1] as usize
                };
                start..ends[index] as usize
            }
        }
    }

    /// The chunk of a row.
    pub fn chunk_of(&self, row: usize) -> usize {
        match &self.chunks {
            Chunks::EachRow => row,
            Chunks::One => 0,
            Chunks::Ends(ends) => ends.partition_point(|&end| end as usize <= row),
        }
    }

    /// The clock of a chunk.
    pub fn clock_at(&self, chunk: usize) -> i64 {
        match &self.clock {
            Clock::Same(t) => *t,
            Clock::PerChunk(clocks) => clocks[chunk],
        }
    }

    /// All that belongs to a range of chunks, without copying columns.
    pub fn slice_chunks(&self, chunks: Range<usize>) -> Batch {
        if chunks.start == 0 && chunks.end == self.chunk_count() {
            return self.clone();
        }
        let start = self.chunk(chunks.start).start;
        let end = self.chunk(chunks.end - 1).end;
        let len = end - start;
        let ends = match &self.chunks {
            _ if chunks.len() == 1 => Chunks::One,
            Chunks::EachRow => Chunks::EachRow,
            Chunks::One => Chunks::One,
            Chunks::Ends(ends) => Chunks::Ends(
                ends[chunks.clone()]
                    .iter()
                    .map(|e| e - start as u32)
                    .collect(),
            ),
        };
        // Both ascend, and a batch that goes chunk by chunk is cut as often as it has chunks: none of
        // them looks at what belongs to all others.
        let resets = self.resets.as_ref().and_then(|resets| {
            let before = |chunk: usize| resets.partition_point(|r| (r.chunk as usize) < chunk);
            let mine = &resets[before(chunks.start)..before(chunks.end)];
            let mine = mine.iter().map(|r| Reset {
                chunk: r.chunk - chunks.start as u32,
                row: r.row - start as u32,
                time: r.time,
            });
            (mine.len() > 0).then(|| mine.collect())
        });
        let inner = self.inner.as_ref().map(|inner| {
            let until = |row: usize| inner.partition_point(|&e| e as usize <= row);
            let mine = &inner[until(start)..until(end)];
            mine.iter().map(|e| e - start as u32).collect()
        });
        Batch::from(BatchParts {
            columns: self.columns.iter().map(|c| c.slice(start, len)).collect(),
            len,
            times: self.times.slice(start),
            expired: self.expired.as_ref().map(|e| Arc::from(&e[start..end])),
            resets,
            chunks: ends,
            inner,
            clock: match &self.clock {
                Clock::Same(t) => Clock::Same(*t),
                Clock::PerChunk(clocks) => Clock::PerChunk(Arc::from(&clocks[chunks])),
            },
        })
    }

    /// The values of a row, for slow paths and tests.
    pub fn row(&self, row: usize) -> Vec<Value> {
        self.columns.iter().map(|c| c.value(row)).collect()
    }

    /// As [`Batch::filter`], taking over a batch of which everything is kept.
    pub fn retain(self, keep: &[bool]) -> Option<Batch> {
        debug_assert_eq!(keep.len(), self.len);
        if keep.iter().all(|&k| k) {
            return Some(self);
        }
        if self.len == 1 && self.resets.is_none() {
            return None;
        }
        self.filter(keep)
    }

    /// As [`Batch::retain`], of the rows with these numbers, which ascend.
    pub fn retain_rows(mut self, rows: &[u32]) -> Option<Batch> {
        if rows.len() == self.len {
            return Some(self);
        }
        if rows.is_empty() && self.resets.is_none() {
            return None;
        }
        // Of these nothing but rows can be lost.
        let is_even = matches!(
            (&self.chunks, &self.clock),
            (Chunks::EachRow | Chunks::One, Clock::Same(_))
        );
        if !is_even || self.expired.is_some() || self.resets.is_some() || self.inner.is_some() {
            let mut keep = vec![false; self.len];
            rows.iter().for_each(|&row| keep[row as usize] = true);
            return self.filter(&keep);
        }
        for column in &mut self.columns {
            column.retain(rows);
        }
        self.times.retain(rows);
        self.len = rows.len();
        Some(self)
    }

    /// Keeps the rows marked true. Chunks that lose all rows are gone, unless a RESET remains in
    /// them. Returns `None` when nothing is left.
    pub fn filter(&self, keep: &[bool]) -> Option<Batch> {
        debug_assert_eq!(keep.len(), self.len);
        let kept = picked(keep);
        if kept.len() == self.len {
            return Some(self.clone());
        }
        if kept.is_empty() && self.resets.is_none() {
            return None;
        }
        let (chunks, resets, clock) = self.filtered_chunks(keep);
        Some(Batch::from(BatchParts {
            columns: self.columns.iter().map(|c| c.gather(&kept)).collect(),
            len: kept.len(),
            times: self.times.gather(&kept),
            expired: self
                .expired
                .as_ref()
                .map(|e| kept.iter().map(|&r| e[r as usize]).collect::<Arc<[bool]>>())
                .filter(|e| e.contains(&true)),
            resets,
            chunks,
            inner: self.inner.as_ref().map(|inner| {
                let mut count = 0u32;
                let mut row = 0usize;
                let mut ends: Vec<u32> = Vec::with_capacity(inner.len());
                for &end in inner.iter() {
                    let before = count;
                    count += keep[row..end as usize].iter().filter(|&&k| k).count() as u32;
                    row = end as usize;
                    if count > before {
                        ends.push(count);
                    }
                }
                ends.into()
            }),
            clock,
        }))
    }

    fn filtered_chunks(&self, keep: &[bool]) -> (Chunks, Option<Arc<[Reset]>>, Clock) {
        match (&self.chunks, &self.clock, &self.resets) {
            (Chunks::EachRow, Clock::Same(t), None) => (Chunks::EachRow, None, Clock::Same(*t)),
            (Chunks::One, Clock::Same(t), None) => (Chunks::One, None, Clock::Same(*t)),
            _ => {
                let (mut ends, mut clocks, mut resets) = (Vec::new(), Vec::new(), Vec::new());
                let mut count = 0u32;
                let mut left = self.resets.iter().flat_map(|r| r.iter()).peekable();
                for chunk in 0..self.chunk_count() {
                    let range = self.chunk(chunk);
                    let before = resets.len();
                    while let Some(reset) = left.next_if(|r| r.chunk as usize == chunk) {
                        let kept_before = keep[range.start..reset.row as usize]
                            .iter()
                            .filter(|&&k| k)
                            .count();
                        resets.push(Reset {
                            chunk: ends.len() as u32,
                            row: count + kept_before as u32,
                            time: reset.time,
                        });
                    }
                    let kept = keep[range].iter().filter(|&&k| k).count() as u32;
                    if kept > 0 || resets.len() > before {
                        count += kept;
                        ends.push(count);
                        clocks.push(self.clock_at(chunk));
                    }
                }
                let clock = match &self.clock {
                    Clock::Same(t) => Clock::Same(*t),
                    Clock::PerChunk(_) => Clock::PerChunk(clocks.into()),
                };
                (
                    Chunks::Ends(ends.into()),
                    (!resets.is_empty()).then(|| resets.into()),
                    clock,
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Attribute, Type};

    fn longs(values: &[i64], chunks: Chunks) -> Batch {
        let schema = Schema {
            name: "S".into(),
            attributes: vec![Attribute {
                name: "a".into(),
                ty: Type::Long,
            }],
        };
        let rows: Vec<_> = values.iter().map(|&v| (v, vec![Value::Long(v)])).collect();
        Batch::from_rows(&schema, &rows, chunks, 0)
    }

    fn column(batch: &Batch) -> Vec<i64> {
        (0..batch.len)
            .filter_map(|r| batch.columns[0].value(r).to_long())
            .collect()
    }

    #[test]
    fn slicing_chunks_keeps_rows_times_and_ends() {
        let batch = longs(&[1, 2, 3, 4, 5], Chunks::Ends([2, 2, 4, 5].into()));
        let middle = batch.slice_chunks(1..3);
        assert_eq!(middle.chunks, Chunks::Ends([0, 2].into()));
        assert_eq!(column(&middle), [3, 4]);
        assert_eq!(middle.times.at(1), 4);
        assert_eq!(batch.slice_chunks(3..4).chunks, Chunks::One);
    }

    #[test]
    fn filtering_drops_empty_chunks_but_not_a_reset() {
        let mut batch = longs(&[1, 2, 3, 4], Chunks::Ends([2, 3, 4].into()));
        let keep = [false, false, false, true];
        let kept = batch.filter(&keep).expect("one row is left");
        assert_eq!(
            (kept.chunks.clone(), column(&kept)),
            (Chunks::Ends([1].into()), vec![4])
        );
        let reset = |chunk, row| Reset {
            chunk,
            row,
            time: 7,
        };
        batch.resets = Some([reset(1, 2)].into());
        let kept = batch.filter(&keep).expect("a row and a reset are left");
        assert_eq!(kept.chunks, Chunks::Ends([0, 1].into()));
        assert_eq!(kept.resets.as_deref(), Some(&[reset(0, 0)][..]));
        assert!(longs(&[1], Chunks::EachRow).filter(&[false]).is_none());
    }

    /// Chunks with a RESET, with several and without one, an empty one among them.
    #[test]
    fn each_chunk_keeps_its_own_resets_and_inner_ends() {
        let mut batch = longs(&[1, 2, 3, 4, 5], Chunks::Ends([1, 1, 3, 5].into()));
        let resets = [(0, 0), (1, 1), (1, 1), (3, 3), (3, 5)];
        let reset = |(chunk, row)| Reset {
            chunk,
            row,
            time: 0,
        };
        batch.resets = Some(resets.map(reset).into());
        batch.inner = Some([1, 2, 3, 5].into());
        let shown = |batch: &Batch| {
            let resets = batch.resets.as_deref().unwrap_or(&[]);
            let resets: Vec<_> = resets.iter().map(|r| (r.chunk, r.row)).collect();
            (resets, batch.inner.as_deref().unwrap_or(&[]).to_vec())
        };
        let each: Vec<_> = (0..4)
            .map(|c| shown(&batch.slice_chunks(c..c + 1)))
            .collect();
        assert_eq!(
            each,
            [
                (vec![(0, 0)], vec![1]),
                (vec![(0, 0), (0, 0)], vec![]),
                (vec![], vec![1, 2]),
                (vec![(0, 0), (0, 2)], vec![2]),
            ]
        );
        let two = batch.slice_chunks(1..3);
        assert_eq!(shown(&two), (vec![(0, 0), (0, 0)], vec![1, 2]));
        let kept = batch.filter(&[false, true, false, false, true]);
        let kept = kept.expect("two rows are left");
        assert_eq!(kept.chunks, Chunks::Ends([0, 0, 1, 2].into()));
        let resets = vec![(0, 0), (1, 0), (1, 0), (3, 1), (3, 2)];
        assert_eq!(shown(&kept), (resets, vec![1, 2]));
    }

    #[test]
    fn rows_are_kept_by_their_numbers_as_by_marks() {
        let ends = Chunks::Ends([1, 1, 4, 5].into());
        for chunks in [Chunks::EachRow, Chunks::One, ends] {
            for marks in 0..32 {
                let batch = longs(&[1, 2, 3, 4, 5], chunks.clone());
                let keep: Vec<bool> = (0..5).map(|row| marks >> row & 1 == 1).collect();
                let by_marks = batch.clone().retain(&keep);
                let by_rows = batch.retain_rows(&picked(&keep));
                let shown = |batch: Option<Batch>| {
                    batch.map(|b| (column(&b), b.chunks.clone(), b.times.at(0), b.len))
                };
                assert_eq!(shown(by_rows), shown(by_marks));
            }
        }
    }
}
