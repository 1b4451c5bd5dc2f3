//! What an operator emits: an ordered program of rows, kinds, resets and chunk ends.

use std::ops::Range;
use std::sync::Arc;

use event::{Batch, Chunks, Clock, Column, ColumnBuilder, Reset, Times, TimesBuilder, Type};

/// A step of the program.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// Rows `start..end` of a source, emitted with one kind.
    Rows {
        source: u32,
        start: u32,
        end: u32,
        expired: bool,
        /// `None`: the rows keep their timestamps.
        time: Option<i64>,
    },
    /// `count` pairs of an EXPIRED row stamped with `time` and a CURRENT row, from two sources.
    Pairs {
        expired: (u32, u32),
        current: (u32, u32),
        count: u32,
        time: i64,
    },
}

impl Run {
    fn len(&self) -> u32 {
        match self {
            Run::Rows { start, end, .. } => end - start,
            Run::Pairs { count, .. } => 2 * count,
        }
    }

    /// Drops the last rows. Chunks never end inside a pair.
    fn shorten(&mut self, rows: u32) {
        match self {
            Run::Rows { end, .. } => *end -= rows,
            Run::Pairs { count, .. } => *count -= rows / 2,
        }
    }
}

/// Collects runs of rows from several batches and makes one batch of them.
///
/// Rows are named, not copied, until [`Emission::finish`]; a program that is one range of rows is
/// handed on without a copy at all.
#[derive(Default, Debug)]
pub struct Emission {
    sources: Vec<Batch>,
    runs: Vec<Run>,
    rows: u32,
    resets: Vec<Reset>,
    ends: Vec<u32>,
    /// One per chunk, or a single one while all chunks have the same.
    clocks: Vec<i64>,
}

impl Emission {
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.ends.is_empty() && self.resets.is_empty()
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Makes a batch known; columns are shared, not copied. One that was named a moment ago keeps
    /// its number.
    pub fn source(&mut self, batch: &Batch) -> u32 {
        let recent = self.sources.iter().enumerate().rev().take(2);
        for (number, source) in recent {
            if source.has_same_rows(batch) {
                return number as u32;
            }
        }
        self.sources.push(batch.clone());
        self.sources.len() as u32 - 1
    }

    /// Rows of a source as CURRENT, with their own timestamps.
    pub fn current(&mut self, source: u32, rows: Range<usize>) {
        self.push(source, rows, false, None);
    }

    /// Rows of a source as EXPIRED, stamped with `time`.
    pub fn expired(&mut self, source: u32, rows: Range<usize>, time: i64) {
        self.push(source, rows, true, Some(time));
    }

    /// Rows of a source with any kind; `time` absent: with their own timestamps.
    pub fn push(&mut self, source: u32, rows: Range<usize>, expired: bool, time: Option<i64>) {
        if rows.is_empty() {
            return;
        }
        let (start, end) = (rows.start as u32, rows.end as u32);
        self.rows += end - start;
        if let Some(Run::Rows {
            source: s,
            end: last_end,
            expired: e,
            time: t,
            ..
        }) = self.runs.last_mut()
            && (*s, *last_end, *e, *t) == (source, start, expired, time)
        {
            *last_end = end;
            return;
        }
        self.runs.push(Run::Rows {
            source,
            start,
            end,
            expired,
            time,
        });
    }

    /// `count` times an EXPIRED row, stamped with `time`, in front of a CURRENT one: rows of two
    /// sources from a row on.
    pub fn pairs(&mut self, expired: (u32, usize), current: (u32, usize), count: usize, time: i64) {
        if count == 0 {
            return;
        }
        self.rows += 2 * count as u32;
        self.runs.push(Run::Pairs {
            expired: (expired.0, expired.1 as u32),
            current: (current.0, current.1 as u32),
            count: count as u32,
            time,
        });
    }

    /// A RESET at this point of the open chunk.
    pub fn reset(&mut self) {
        self.resets.push(Reset {
            chunk: self.ends.len() as u32,
            row: self.rows,
        });
    }

    /// Ends the open chunk, which was processed at `clock`. A chunk without rows and without RESET
    /// is no chunk.
    pub fn end_chunk(&mut self, clock: i64) {
        self.end_chunk_at(self.rows(), clock);
    }

    /// Ends the open chunk at an earlier row: for programs whose chunk ends are known only after
    /// their rows are named. Rows behind it belong to the next chunk.
    pub fn end_chunk_at(&mut self, row: usize, clock: i64) {
        debug_assert!(row <= self.rows());
        let row = row as u32;
        let start = self.ends.last().copied().unwrap_or(0);
        let has_reset = self
            .resets
            .last()
            .is_some_and(|r| r.chunk as usize == self.ends.len());
        if row > start || has_reset {
            self.push_clock(clock);
            self.ends.push(row);
        }
    }

    /// The last `count * rows_each` rows are `count` chunks of equal length, all processed at
    /// `clock`. Rows in front of them that are in no chunk yet belong to the first.
    pub fn end_chunks(&mut self, count: usize, rows_each: usize, clock: i64) {
        if count == 0 || rows_each == 0 {
            return;
        }
        let first = self.rows() - count * rows_each;
        debug_assert!(first as u32 >= self.ends.last().copied().unwrap_or(0));
        self.end_chunk_at(first + rows_each, clock);
        if self.clocks.len() > 1 {
            let all = self.clocks.len() + count - 1;
            self.clocks.resize(all, clock);
        }
        let step = rows_each as u32;
        self.ends
            .extend((2..=count as u32).map(|i| first as u32 + i * step));
    }

    fn push_clock(&mut self, clock: i64) {
        match self.clocks.as_slice() {
            [first] if *first == clock => return,
            [first] => self.clocks = vec![*first; self.ends.len()],
            _ => {}
        }
        self.clocks.push(clock);
    }

    /// Chunks ended so far.
    pub fn chunks(&self) -> usize {
        self.ends.len()
    }

    /// Forgets the open chunk: a row of it failed, and nothing of it may leave.
    pub fn abandon_chunk(&mut self) {
        self.abandon_from(self.chunks());
    }

    /// Forgets all chunks from a number on, and the open one.
    pub fn abandon_from(&mut self, chunk: usize) {
        self.ends.truncate(chunk);
        if self.clocks.len() > 1 || chunk == 0 {
            self.clocks.truncate(chunk);
        }
        self.resets.retain(|r| (r.chunk as usize) < chunk);
        let keep = self.ends.last().copied().unwrap_or(0);
        while self.rows > keep {
            let excess = self.rows - keep;
            match self.runs.last_mut() {
                Some(last) if last.len() > excess => {
                    last.shorten(excess);
                    self.rows = keep;
                }
                Some(last) => {
                    self.rows -= last.len();
                    self.runs.pop();
                }
                None => break,
            }
        }
    }

    /// The emitted batch, `None` for nothing. `types` are those of the columns.
    pub fn finish(mut self, types: &[Type]) -> Option<Batch> {
        if self.ends.is_empty() {
            return None;
        }
        let len = self.rows as usize;
        let expired = self.expired_marks();
        let times = self.times();
        let columns = self.columns(types);
        let chunks = match self.ends.as_slice() {
            [_] => Chunks::One,
            ends if ends.len() == len && ends.iter().zip(1..).all(|(&e, i): (_, u32)| e == i) => {
                Chunks::EachRow
            }
            _ => Chunks::Ends(std::mem::take(&mut self.ends).into()),
        };
        let clock = match self.clocks.as_slice() {
            [one] => Clock::Same(*one),
            _ => Clock::PerChunk(std::mem::take(&mut self.clocks).into()),
        };
        Some(Batch {
            columns,
            len,
            times,
            expired,
            resets: (!self.resets.is_empty()).then(|| self.resets.into()),
            chunks,
            inner: None,
            clock,
        })
    }

    fn expired_marks(&self) -> Option<Arc<[bool]>> {
        let any = |run: &Run| matches!(run, Run::Rows { expired: true, .. } | Run::Pairs { .. });
        if !self.runs.iter().any(any) {
            return None;
        }
        let mut marks = Vec::with_capacity(self.rows as usize);
        for run in &self.runs {
            match run {
                Run::Rows { expired, .. } => {
                    marks.resize(marks.len() + run.len() as usize, *expired);
                }
                Run::Pairs { count, .. } => {
                    let start = marks.len();
                    marks.resize(start + 2 * *count as usize, false);
                    marks[start..].iter_mut().step_by(2).for_each(|m| *m = true);
                }
            }
        }
        Some(marks.into())
    }

    /// Takes the columns out of the sources one by one, so that memory held by nothing else is given
    /// back column by column while the copy grows.
    fn columns(&mut self, types: &[Type]) -> Vec<Column> {
        if let [
            Run::Rows {
                source, start, end, ..
            },
        ] = self.runs.as_slice()
        {
            let (start, len) = (*start as usize, (end - start) as usize);
            let source = std::mem::take(&mut self.sources[*source as usize].columns);
            if source.first().is_some_and(|c| start == 0 && c.len() == len) {
                return source;
            }
            return source.iter().map(|c| c.slice(start, len)).collect();
        }
        let mut sources: Vec<_> = self
            .sources
            .iter_mut()
            .map(|s| std::mem::take(&mut s.columns).into_iter())
            .collect();
        types
            .iter()
            .map(|&ty| {
                let columns: Vec<Option<Column>> = sources.iter_mut().map(Iterator::next).collect();
                let column = |source: u32| {
                    columns[source as usize]
                        .as_ref()
                        .expect("every source has the columns of the window")
                };
                let mut builder = ColumnBuilder::with_capacity(ty, self.rows as usize);
                for run in &self.runs {
                    match *run {
                        Run::Rows {
                            source, start, end, ..
                        } => builder.extend(column(source), start as usize..end as usize),
                        Run::Pairs {
                            expired: (e, e_start),
                            current: (c, c_start),
                            count,
                            ..
                        } => builder.extend_alternating(
                            (column(e), e_start as usize),
                            (column(c), c_start as usize),
                            count as usize,
                        ),
                    }
                }
                builder.finish()
            })
            .collect()
    }

    fn times(&self) -> Times {
        if let [
            Run::Rows {
                source,
                start,
                time: None,
                ..
            },
        ] = self.runs.as_slice()
        {
            return self.sources[*source as usize].times.slice(*start as usize);
        }
        if self.runs.iter().any(|run| matches!(run, Run::Pairs { .. })) {
            return self.times_in_turn();
        }
        let mut times = TimesBuilder::default();
        for run in &self.runs {
            if let Run::Rows {
                source,
                start,
                end,
                time,
                ..
            } = *run
            {
                match time {
                    Some(time) => times.push(run.len() as usize, time),
                    None => {
                        let source = &self.sources[source as usize].times;
                        times.extend(source, start as usize..end as usize);
                    }
                }
            }
        }
        times.finish(self.clocks[0])
    }

    /// Timestamps of a program in which two rows in turn seldom have the same.
    fn times_in_turn(&self) -> Times {
        let mut times: Vec<i64> = Vec::with_capacity(self.rows as usize);
        for run in &self.runs {
            match *run {
                Run::Rows {
                    source,
                    start,
                    end,
                    time,
                    ..
                } => {
                    let source = &self.sources[source as usize].times;
                    for (n, own) in source.runs(start as usize..end as usize) {
                        times.resize(times.len() + n, time.unwrap_or(own));
                    }
                }
                Run::Pairs {
                    current: (source, start),
                    count,
                    time,
                    ..
                } => {
                    let source = &self.sources[source as usize].times;
                    let mut at = times.len();
                    times.resize(at + 2 * count as usize, time);
                    for (n, own) in source.runs(start as usize..(start + count) as usize) {
                        let pairs = times[at..at + 2 * n].chunks_exact_mut(2);
                        pairs.for_each(|pair| pair[1] = own);
                        at += 2 * n;
                    }
                }
            }
        }
        Times::per_row(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Schema, Value};

    fn batch(values: &[i64]) -> Batch {
        let schema = Schema {
            name: "S".into(),
            attributes: vec![Attribute {
                name: "a".into(),
                ty: Type::Long,
            }],
        };
        let rows: Vec<_> = values.iter().map(|&v| (v, vec![Value::Long(v)])).collect();
        Batch::from_rows(&schema, &rows, Chunks::EachRow, 0)
    }

    #[test]
    fn a_program_of_runs_becomes_one_batch() {
        let mut emission = Emission::default();
        let old = emission.source(&batch(&[1, 2]));
        let new = emission.source(&batch(&[7, 8, 9]));
        emission.expired(old, 0..1, 50);
        emission.current(new, 0..1);
        emission.end_chunk(50);
        emission.end_chunk(55);
        emission.reset();
        emission.current(new, 1..2);
        emission.current(new, 2..3);
        emission.end_chunk(60);
        let out = emission.finish(&[Type::Long]).expect("rows were emitted");
        let rows: Vec<_> = (0..4)
            .map(|r| {
                (
                    out.columns[0].value(r).to_long(),
                    out.times.at(r),
                    out.is_expired(r),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (Some(1), 50, true),
                (Some(7), 7, false),
                (Some(8), 8, false),
                (Some(9), 9, false)
            ]
        );
        assert_eq!(out.chunks, Chunks::Ends([2, 4].into()));
        assert_eq!(
            out.resets.as_deref(),
            Some(&[Reset { chunk: 1, row: 2 }][..])
        );
        assert_eq!((out.clock_at(0), out.clock_at(1)), (50, 60));
    }

    fn shown(out: &Batch) -> Vec<(Option<i64>, i64, bool)> {
        (0..out.len)
            .map(|r| {
                let value = out.columns[0].value(r).to_long();
                (value, out.times.at(r), out.is_expired(r))
            })
            .collect()
    }

    #[test]
    fn pairs_put_an_expired_row_before_each_current_one() {
        let mut emission = Emission::default();
        let old = emission.source(&batch(&[1, 2, 3]));
        let new = emission.source(&batch(&[7, 8]));
        emission.pairs((old, 1), (new, 0), 2, 50);
        emission.end_chunk_at(2, 50);
        emission.end_chunk_at(4, 50);
        let out = emission.finish(&[Type::Long]).expect("rows were emitted");
        assert_eq!(
            shown(&out),
            [
                (Some(2), 50, true),
                (Some(7), 7, false),
                (Some(3), 50, true),
                (Some(8), 8, false)
            ]
        );
        assert_eq!(out.chunks, Chunks::Ends([2, 4].into()));
        assert_eq!(out.clock, Clock::Same(50));
    }

    #[test]
    fn an_abandoned_chunk_leaves_nothing() {
        let mut emission = Emission::default();
        let rows = emission.source(&batch(&[1, 2, 3]));
        emission.current(rows, 0..1);
        emission.end_chunk(5);
        emission.current(rows, 1..3);
        emission.reset();
        emission.abandon_chunk();
        let out = emission.finish(&[Type::Long]).expect("a row was emitted");
        assert_eq!((shown(&out), out.resets), (vec![(Some(1), 1, false)], None));
    }

    #[test]
    fn a_chunk_for_each_row_keeps_its_clock() {
        let mut emission = Emission::default();
        let rows = emission.source(&batch(&[1, 2, 3]));
        emission.current(rows, 0..2);
        emission.end_chunks(2, 1, 5);
        emission.current(rows, 2..3);
        emission.end_chunk(6);
        let out = emission.finish(&[Type::Long]).expect("rows were emitted");
        assert_eq!(out.chunks, Chunks::EachRow);
        assert_eq!(out.clock, Clock::PerChunk([5, 5, 6].into()));
    }
}
