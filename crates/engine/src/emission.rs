//! What an operator emits: an ordered program of rows, kinds, resets and chunk ends.

use std::ops::Range;
use std::sync::Arc;

use event::{
    Batch, BatchParts, Chunks, Clock, Column, ColumnBuilder, Reset, Times, TimesBuilder, Type,
    Value,
};

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

    /// CURRENT rows among the first `rows`.
    fn currents(&self, rows: u32) -> u32 {
        match self {
            Run::Rows { expired: true, .. } => 0,
            Run::Rows { .. } => rows,
            Run::Pairs { .. } => rows / 2,
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

/// A batch whose rows are emitted.
#[derive(Debug)]
struct Source {
    /// Its first column.
    first: usize,
    width: usize,
    len: usize,
    times: Times,
}

/// A step of what a sliding window does: so many rows leave, then so many arrive; or one leaves
/// before each that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlideStep {
    pub leave: u32,
    pub arrive: u32,
    pub in_turn: bool,
}

/// The rows that arrive in a sliding window, all of one source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrivals {
    source: u32,
    rows: Range<u32>,
}

/// Collects runs of rows from several batches and makes one batch of them.
///
/// Rows are named, not copied, until [`Emission::finish`]; a program that is one range of rows is
/// handed on without a copy at all. It is empty again then, and keeps its vectors: whoever emits
/// again and again asks nothing of the allocator for it.
#[derive(Default, Debug)]
pub struct Emission {
    /// Columns of all sources, one source behind the other.
    columns: Vec<Column>,
    sources: Vec<Source>,
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
            if source.len == batch.len
                && source.width == batch.columns.len()
                && source.times.is_same(&batch.times)
                && self.columns[source.first..]
                    .iter()
                    .zip(&batch.columns)
                    .all(|(a, b)| a.is_same(b))
            {
                return number as u32;
            }
        }
        self.sources.push(Source {
            first: self.columns.len(),
            width: batch.columns.len(),
            len: batch.len,
            times: batch.times.clone(),
        });
        self.columns.extend_from_slice(&batch.columns);
        self.sources.len() as u32 - 1
    }

    fn column(&self, source: u32, index: usize) -> &Column {
        &self.columns[self.sources[source as usize].first + index]
    }

    /// Forgets everything but the room it takes.
    pub fn clear(&mut self) {
        self.columns.clear();
        self.sources.clear();
        self.runs.clear();
        self.rows = 0;
        self.resets.clear();
        self.ends.clear();
        self.clocks.clear();
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

    /// A RESET at this point of the open chunk, stamped with `time`.
    pub fn reset(&mut self, time: i64) {
        self.resets.push(Reset {
            chunk: self.ends.len() as u32,
            row: self.rows,
            time,
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
    pub fn finish(&mut self, types: &[Type]) -> Option<Batch> {
        if self.ends.is_empty() {
            self.clear();
            return None;
        }
        self.finish_into(types, Batch::empty())
    }

    /// The same, with an empty vector to put the columns into.
    pub fn finish_into(&mut self, types: &[Type], spare: Batch) -> Option<Batch> {
        let batch = self.batch(types, spare);
        self.clear();
        batch
    }

    fn batch(&mut self, types: &[Type], mut batch: Batch) -> Option<Batch> {
        let mut columns = std::mem::take(&mut batch.columns);
        if self.ends.is_empty() {
            return None;
        }
        let len = self.rows as usize;
        let expired = self.expired_marks();
        let times = self.times();
        self.put_columns(types, &mut columns);
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
        *batch = BatchParts {
            columns,
            len,
            times,
            expired,
            resets: (!self.resets.is_empty()).then(|| std::mem::take(&mut self.resets).into()),
            chunks,
            inner: None,
            clock,
        };
        Some(batch)
    }

    // ---- what a sliding window emits, for those who need no EXPIRED rows of it ----

    /// The steps, appended, and the rows that arrive, if any do; `None` where the program is not
    /// that of a sliding window: rows that arrive are of several sources or not in order, or there
    /// is a RESET.
    pub fn slide_steps(&self, steps: &mut Vec<SlideStep>) -> Option<Option<Arrivals>> {
        if !self.resets.is_empty() {
            return None;
        }
        let mut arrivals: Option<Arrivals> = None;
        let mut arrive = |source: u32, start: u32, count: u32| match &mut arrivals {
            None => {
                let rows = start..start + count;
                arrivals = Some(Arrivals { source, rows });
                true
            }
            Some(known) if (known.source, known.rows.end) == (source, start) => {
                known.rows.end += count;
                true
            }
            Some(_) => false,
        };
        for run in &self.runs {
            let (leave, is_one) = match *run {
                Run::Rows { expired: true, .. } => (run.len(), true),
                Run::Rows { time: Some(_), .. } => return None,
                Run::Rows { source, start, .. } => (0, arrive(source, start, run.len())),
                Run::Pairs { current, count, .. } => (count, arrive(current.0, current.1, count)),
            };
            if !is_one {
                return None;
            }
            match *run {
                Run::Rows { expired: false, .. } => match steps.last_mut() {
                    Some(step) if !step.in_turn && step.arrive == 0 => step.arrive = run.len(),
                    _ => steps.push(SlideStep {
                        leave: 0,
                        arrive: run.len(),
                        in_turn: false,
                    }),
                },
                Run::Rows { .. } => steps.push(SlideStep {
                    leave,
                    arrive: 0,
                    in_turn: false,
                }),
                Run::Pairs { count, .. } => steps.push(SlideStep {
                    leave,
                    arrive: count,
                    in_turn: true,
                }),
            }
        }
        Some(arrivals)
    }

    /// One column of the rows that leave, in order; `None` where none does.
    pub fn leaving(&self, index: usize, ty: Type) -> Option<Column> {
        let rows = |run: &Run| match *run {
            Run::Rows {
                source,
                start,
                end,
                expired: true,
                ..
            } => Some((source, start as usize..end as usize)),
            Run::Rows { .. } => None,
            Run::Pairs {
                expired: (source, start),
                count,
                ..
            } => Some((source, start as usize..(start + count) as usize)),
        };
        let mut parts = self.runs.iter().filter_map(rows);
        let (source, mut range) = parts.next()?;
        while let Some((next, more)) = parts.next() {
            if next == source && more.start == range.end {
                range.end = more.end;
                continue;
            }
            let mut builder = ColumnBuilder::with_capacity(ty, self.rows as usize);
            builder.extend(self.column(source, index), range);
            builder.extend(self.column(next, index), more);
            for (source, range) in parts {
                builder.extend(self.column(source, index), range);
            }
            return Some(builder.finish());
        }
        let column = self.column(source, index);
        Some(column.slice(range.start, range.len()))
    }

    /// Is this column of this type in every source?
    pub fn is_of(&self, index: usize, ty: Type) -> bool {
        let columns = self.sources.iter().map(|s| &self.columns[s.first + index]);
        columns.into_iter().all(|c| c.view().ty() == ty)
    }

    /// The rows that arrive as a batch of CURRENT rows, with the chunks that they are emitted in.
    /// `batch` has no columns; it is filled.
    pub fn arriving(&mut self, arrivals: &Arrivals, mut batch: Batch) -> Batch {
        let mut columns = std::mem::take(&mut batch.columns);
        let source = &self.sources[arrivals.source as usize];
        let (start, len) = (arrivals.rows.start as usize, arrivals.rows.len());
        let all = &self.columns[source.first..source.first + source.width];
        columns.extend(all.iter().map(|c| c.slice(start, len)));
        let times = source.times.slice(start);
        let (chunks, clock) = self.arriving_chunks(len);
        *batch = BatchParts {
            columns,
            len,
            times,
            expired: None,
            resets: None,
            chunks,
            inner: None,
            clock,
        };
        batch
    }

    /// Ends and clocks of the chunks in which CURRENT rows stand, counted in those.
    fn arriving_chunks(&mut self, len: usize) -> (Chunks, Clock) {
        let is_same = self.clocks.len() == 1;
        if let ([_], true) = (self.ends.as_slice(), is_same) {
            return (Chunks::One, Clock::Same(self.clocks[0]));
        }
        // A chunk for each row that arrives, with as many rows in each: as mostly.
        let each = match self.runs.first() {
            Some(Run::Pairs { .. }) => 2,
            _ => 1,
        };
        let is_even = |run: &Run| run.len() == each * run.currents(run.len());
        if is_same && self.ends.len() == len && self.runs.iter().all(is_even) {
            let mut all = self.ends.iter().zip(1..);
            if all.all(|(&end, chunk)| end == each * chunk) {
                return (Chunks::EachRow, Clock::Same(self.clocks[0]));
            }
        }
        let (mut ends, mut clocks) = (Vec::with_capacity(self.ends.len()), Vec::new());
        // Rows and CURRENT rows in front of the run at hand.
        let (mut rows, mut currents) = (0, 0);
        let mut runs = self.runs.iter().peekable();
        let mut is_each_row = true;
        for (chunk, &end) in self.ends.iter().enumerate() {
            while let Some(run) = runs.next_if(|run| rows + run.len() <= end) {
                rows += run.len();
                currents += run.currents(run.len());
            }
            let within = runs.peek().map_or(0, |run| run.currents(end - rows));
            let before = ends.last().copied().unwrap_or(0);
            if currents + within > before {
                ends.push(currents + within);
                is_each_row &= currents + within == before + 1;
                if !is_same {
                    clocks.push(self.clocks[chunk]);
                }
            }
        }
        let clock = if is_same {
            Clock::Same(self.clocks[0])
        } else {
            Clock::PerChunk(clocks.into())
        };
        let chunks = match ends.as_slice() {
            [_] => Chunks::One,
            _ if is_each_row && ends.len() == len => Chunks::EachRow,
            _ => Chunks::Ends(ends.into()),
        };
        (chunks, clock)
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
    fn put_columns(&mut self, types: &[Type], out: &mut Vec<Column>) {
        if let [
            Run::Rows {
                source, start, end, ..
            },
        ] = self.runs.as_slice()
        {
            let (start, len) = (*start as usize, (end - start) as usize);
            let Source { first, width, .. } = self.sources[*source as usize];
            let columns = &self.columns[first..first + width];
            return out.extend(columns.iter().map(|c| c.slice(start, len)));
        }
        for (index, &ty) in types.iter().enumerate() {
            let mut builder = ColumnBuilder::with_capacity(ty, self.rows as usize);
            for run in &self.runs {
                match *run {
                    Run::Rows {
                        source, start, end, ..
                    } => builder.extend(self.column(source, index), start as usize..end as usize),
                    Run::Pairs {
                        expired: (e, e_start),
                        current: (c, c_start),
                        count,
                        ..
                    } => builder.extend_alternating(
                        (self.column(e, index), e_start as usize),
                        (self.column(c, index), c_start as usize),
                        count as usize,
                    ),
                }
            }
            for source in &self.sources {
                let taken = Column::constant(Type::Bool, &Value::Null, 1);
                self.columns[source.first + index] = taken;
            }
            out.push(builder.finish());
        }
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

/// The rows alone: a chunk that was nothing but a RESET is gone with it.
#[inline]
pub(crate) fn without_resets(batch: Batch) -> Option<Batch> {
    match batch.resets {
        None => (batch.len > 0).then_some(batch),
        Some(_) => without_its_resets(batch),
    }
}

fn without_its_resets(mut batch: Batch) -> Option<Batch> {
    batch.resets = None;
    if batch.len == 0 {
        return None;
    }
    if let Chunks::Ends(ends) = &batch.chunks {
        let mut kept = Vec::with_capacity(ends.len());
        let mut clocks = Vec::with_capacity(ends.len());
        let mut last = 0;
        for (chunk, &end) in ends.iter().enumerate() {
            if end > last {
                kept.push(end);
                clocks.push(batch.clock_at(chunk));
            }
            last = end;
        }
        if let Clock::PerChunk(_) = batch.clock {
            batch.clock = Clock::PerChunk(clocks.into());
        }
        batch.chunks = Chunks::Ends(kept.into());
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Schema};

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
        emission.reset(60);
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
            Some(
                &[Reset {
                    chunk: 1,
                    row: 2,
                    time: 60
                }][..]
            )
        );
        assert_eq!((out.clock_at(0), out.clock_at(1)), (50, 60));
    }

    #[test]
    fn a_sliding_window_is_seen_as_steps() {
        let mut emission = Emission::default();
        let old = emission.source(&batch(&[1, 2, 3]));
        let new = emission.source(&batch(&[7, 8, 9]));
        emission.current(new, 0..1);
        emission.end_chunk(50);
        emission.pairs((old, 0), (new, 1), 1, 60);
        emission.end_chunk(60);
        emission.expired(old, 1..2, 65);
        emission.end_chunk(65);
        emission.expired(old, 2..3, 70);
        emission.expired(new, 0..1, 70);
        emission.current(new, 2..3);
        emission.end_chunk(70);
        let mut steps = Vec::new();
        let arrivals = emission.slide_steps(&mut steps).flatten();
        let arrivals = arrivals.expect("rows of one source arrive");
        let shown: Vec<_> = steps
            .iter()
            .map(|s| (s.leave, s.arrive, s.in_turn))
            .collect();
        assert_eq!(
            shown,
            [
                (0, 1, false),
                (1, 1, true),
                (1, 0, false),
                (1, 0, false),
                (1, 1, false)
            ]
        );
        let leaving = emission.leaving(0, Type::Long).expect("rows leave");
        let values: Vec<_> = (0..4).map(|row| leaving.value(row).to_long()).collect();
        assert_eq!(values, [Some(1), Some(2), Some(3), Some(7)]);
        let rows = emission.arriving(&arrivals, Batch::empty());
        assert_eq!(rows.chunks, Chunks::EachRow);
        assert_eq!(rows.clock, Clock::PerChunk([50, 60, 70].into()));
        assert_eq!(
            shown_rows(&rows),
            [(Some(7), 7), (Some(8), 8), (Some(9), 9)]
        );
    }

    fn shown_rows(out: &Batch) -> Vec<(Option<i64>, i64)> {
        let rows = shown(out).into_iter();
        rows.map(|(value, time, _)| (value, time)).collect()
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
        emission.reset(60);
        emission.abandon_chunk();
        let out = emission.finish(&[Type::Long]).expect("a row was emitted");
        assert_eq!(
            (shown(&out), &out.resets),
            (vec![(Some(1), 1, false)], &None)
        );
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
