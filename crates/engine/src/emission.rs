//! What an operator emits: an ordered program of rows, kinds, resets and chunk ends.

use std::sync::Arc;

use event::{Batch, Chunks, Clock, Column, ColumnBuilder, Reset, Times, Type};

/// Rows `start..end` of a source, emitted with one kind.
#[derive(Clone, Copy, Debug)]
struct Run {
    source: u32,
    start: u32,
    end: u32,
    expired: bool,
    /// `None`: the rows keep their timestamps.
    time: Option<i64>,
}

/// Collects runs of rows from several batches and makes one batch of them.
///
/// Rows are named, not copied, until [`Emission::finish`]; a program that is one whole batch is
/// handed on without a copy at all.
#[derive(Default, Debug)]
pub struct Emission {
    sources: Vec<Batch>,
    runs: Vec<Run>,
    rows: u32,
    resets: Vec<Reset>,
    ends: Vec<u32>,
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

    /// Makes a batch known; columns are shared, not copied.
    pub fn source(&mut self, batch: &Batch) -> u32 {
        self.sources.push(batch.clone());
        self.sources.len() as u32 - 1
    }

    /// Rows of a source as CURRENT, with their own timestamps.
    pub fn current(&mut self, source: u32, rows: std::ops::Range<usize>) {
        self.push(source, rows, false, None);
    }

    /// Rows of a source as EXPIRED, stamped with `time`.
    pub fn expired(&mut self, source: u32, rows: std::ops::Range<usize>, time: i64) {
        self.push(source, rows, true, Some(time));
    }

    /// Rows of a source with any kind; `time` absent: with their own timestamps.
    pub fn push(
        &mut self,
        source: u32,
        rows: std::ops::Range<usize>,
        expired: bool,
        time: Option<i64>,
    ) {
        if rows.is_empty() {
            return;
        }
        let run = Run {
            source,
            start: rows.start as u32,
            end: rows.end as u32,
            expired,
            time,
        };
        self.rows += run.end - run.start;
        if let Some(last) = self.runs.last_mut()
            && (last.source, last.end, last.expired, last.time)
                == (source, run.start, expired, time)
        {
            last.end = run.end;
        } else {
            self.runs.push(run);
        }
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
        let start = self.ends.last().copied().unwrap_or(0);
        let has_reset = self
            .resets
            .last()
            .is_some_and(|r| r.chunk as usize == self.ends.len());
        if self.rows > start || has_reset {
            self.ends.push(self.rows);
            self.clocks.push(clock);
        }
    }

    /// The emitted batch, `None` for nothing. `types` are those of the columns.
    pub fn finish(mut self, types: &[Type]) -> Option<Batch> {
        if self.ends.is_empty() {
            return None;
        }
        let columns = self.columns(types);
        let len = self.rows as usize;
        let expired = self.runs.iter().any(|r| r.expired).then(|| {
            let mut marks = Vec::with_capacity(len);
            for run in &self.runs {
                marks.resize(marks.len() + (run.end - run.start) as usize, run.expired);
            }
            Arc::from(marks)
        });
        let times = self.times();
        let chunks = match self.ends.as_slice() {
            [_] => Chunks::One,
            ends if ends.iter().enumerate().all(|(i, &e)| e == i as u32 + 1) => Chunks::EachRow,
            _ => Chunks::Ends(std::mem::take(&mut self.ends).into()),
        };
        let first = self.clocks[0];
        let clock = if self.clocks.iter().all(|&c| c == first) {
            Clock::Same(first)
        } else {
            Clock::PerChunk(self.clocks.into())
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

    fn columns(&self, types: &[Type]) -> Vec<Column> {
        if let [run] = self.runs.as_slice() {
            let source = &self.sources[run.source as usize];
            let (start, len) = (run.start as usize, (run.end - run.start) as usize);
            return source.columns.iter().map(|c| c.slice(start, len)).collect();
        }
        types
            .iter()
            .enumerate()
            .map(|(i, &ty)| {
                let mut builder = ColumnBuilder::with_capacity(ty, self.rows as usize);
                for run in &self.runs {
                    let column = &self.sources[run.source as usize].columns[i];
                    builder.extend(column, run.start as usize..run.end as usize);
                }
                builder.finish()
            })
            .collect()
    }

    fn times(&self) -> Times {
        if let [
            Run {
                time: None,
                source,
                start,
                ..
            },
        ] = self.runs.as_slice()
        {
            return match &self.sources[*source as usize].times {
                Times::Same(t) => Times::Same(*t),
                Times::PerRow(times, offset) => {
                    Times::PerRow(Arc::clone(times), offset + *start as usize)
                }
            };
        }
        let mut times = Vec::with_capacity(self.rows as usize);
        for run in &self.runs {
            let source = &self.sources[run.source as usize];
            match run.time {
                Some(t) => times.resize(times.len() + (run.end - run.start) as usize, t),
                None => times.extend((run.start..run.end).map(|r| source.times.at(r as usize))),
            }
        }
        if times.is_empty() {
            Times::Same(self.clocks[0])
        } else {
            Times::per_row(times)
        }
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
}
