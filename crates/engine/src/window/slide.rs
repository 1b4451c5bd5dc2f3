//! One batch passing through a sliding window.
//!
//! Rows that arrive and expire within the batch are named from the batch itself; only what is
//! still held behind its last row is copied into the window's storage. So a batch costs one copy
//! per held row and none for the rest, whatever its chunks.

use event::{Batch, Chunks};

use super::store::{Queue, due_of};
use crate::emission::Emission;

/// The rows in a window are those of its queue, then those of the batch from `gone` to `row`.
pub struct Slide<'a> {
    queue: &'a mut Queue,
    batch: &'a Batch,
    /// Number of the batch in the emission.
    source: u32,
    /// Rows of the batch that have expired again.
    gone: usize,
    /// The next row to arrive.
    row: usize,
    /// Its chunk.
    chunk: usize,
}

impl<'a> Slide<'a> {
    /// Begins at a chunk of the batch.
    pub fn new(
        queue: &'a mut Queue,
        batch: &'a Batch,
        chunk: usize,
        out: &mut Emission,
    ) -> Slide<'a> {
        let row = if chunk < batch.chunk_count() {
            batch.chunk(chunk).start
        } else {
            batch.len
        };
        Slide {
            source: out.source(batch),
            queue,
            batch,
            gone: row,
            row,
            chunk,
        }
    }

    /// The next row to arrive, `None` behind the last.
    pub fn next(&self) -> Option<usize> {
        (self.row < self.batch.len).then_some(self.row)
    }

    /// Rows in the window.
    pub fn len(&self) -> usize {
        self.queue.len() + self.row - self.gone
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The clock at which the next row arrives.
    pub fn clock(&mut self) -> i64 {
        self.skip_empty_chunks();
        self.batch.clock_at(self.chunk)
    }

    /// Rows that arrive at the same clock as the next one, that one included.
    pub fn rows_at_clock(&mut self) -> usize {
        self.skip_empty_chunks();
        if let event::Clock::Same(_) = self.batch.clock {
            return self.batch.len - self.row;
        }
        let clock = self.batch.clock_at(self.chunk);
        let mut last = self.chunk;
        while last + 1 < self.batch.chunk_count() && self.batch.clock_at(last + 1) == clock {
            last += 1;
        }
        self.batch.chunk(last).end - self.row
    }

    /// How many rows from the oldest on have a timestamp of `limit` or before, up to the first that
    /// has not.
    pub fn due(&self, limit: i64) -> usize {
        let due = self.queue.due(limit);
        if due < self.queue.len() {
            return due;
        }
        due + due_of(&self.batch.times, self.gone..self.row, limit).0
    }

    /// The oldest `count` rows leave: stamped with `time`, as EXPIRED or as CURRENT.
    fn leave(&mut self, count: usize, is_expired: bool, time: i64, out: &mut Emission) {
        let stored = count.min(self.queue.len());
        self.queue.take(stored, |segment, rows| {
            let source = out.source(segment);
            out.push(source, rows, is_expired, Some(time));
        });
        let rest = count - stored;
        out.push(
            self.source,
            self.gone..self.gone + rest,
            is_expired,
            Some(time),
        );
        self.gone += rest;
    }

    /// The oldest `count` rows expire in front of the next one.
    pub fn expire(&mut self, count: usize, time: i64, out: &mut Emission) {
        self.leave(count, true, time, out);
    }

    /// The oldest `count` rows come out of a delay in place of the next one.
    pub fn release(&mut self, count: usize, time: i64, out: &mut Emission) {
        self.leave(count, false, time, out);
    }

    /// The next `count` rows arrive and are emitted as CURRENT.
    pub fn arrive(&mut self, count: usize, out: &mut Emission) {
        let before = out.rows();
        out.current(self.source, self.row..self.row + count);
        self.close_chunks(count, before, 1, out);
    }

    /// The next `count` rows arrive without being emitted.
    pub fn wait(&mut self, count: usize, out: &mut Emission) {
        let before = out.rows();
        self.close_chunks(count, before, 0, out);
    }

    /// The next `count` rows, all of one clock, arrive in a full window: each is emitted as
    /// CURRENT, and in front of it the oldest row as EXPIRED.
    pub fn displace(&mut self, count: usize, time: i64, out: &mut Emission) {
        let before = out.rows();
        let mut row = self.row;
        let stored = count.min(self.queue.len());
        let current = self.source;
        self.queue.take(stored, |segment, rows| {
            let source = out.source(segment);
            out.pairs((source, rows.start), (current, row), rows.len(), time);
            row += rows.len();
        });
        let rest = count - stored;
        out.pairs((current, self.gone), (current, row), rest, time);
        self.gone += rest;
        self.close_chunks(count, before, 2, out);
    }

    /// The next row is emitted but never in the window: `[C, E, R]`.
    pub fn appear(&mut self, time: i64, out: &mut Emission) {
        out.current(self.source, self.row..self.row + 1);
        out.expired(self.source, self.row..self.row + 1, time);
        out.reset(time);
        self.pass_by(out);
    }

    /// The next row is emitted as CURRENT and not kept.
    pub fn pass(&mut self, out: &mut Emission) {
        out.current(self.source, self.row..self.row + 1);
        self.pass_by(out);
    }

    /// Steps over the next row of a window that holds nothing.
    fn pass_by(&mut self, out: &mut Emission) {
        debug_assert!(self.is_empty());
        let end = out.rows();
        self.close_chunks(1, end, 0, out);
        self.gone = self.row;
    }

    /// Counts `count` rows as arrived and ends the chunks they complete. Each of them emitted
    /// `emitted` rows, the first of which is row `before` of the emission.
    fn close_chunks(&mut self, count: usize, before: usize, emitted: usize, out: &mut Emission) {
        let first = self.row;
        self.row += count;
        if matches!((&self.batch.chunks, &self.batch.clock),
            (Chunks::EachRow, event::Clock::Same(_)) if emitted > 0)
        {
            out.end_chunks(count, emitted, self.batch.clock_at(self.chunk));
            self.chunk += count;
            return;
        }
        while self.chunk < self.batch.chunk_count() {
            let end = self.batch.chunk(self.chunk).end;
            if end > self.row {
                break;
            }
            let end = before + (end.max(first) - first) * emitted;
            out.end_chunk_at(end, self.batch.clock_at(self.chunk));
            self.chunk += 1;
        }
    }

    fn skip_empty_chunks(&mut self) {
        while self.chunk + 1 < self.batch.chunk_count()
            && self.batch.chunk(self.chunk).end <= self.row
        {
            self.chunk += 1;
        }
    }

    /// The chunk of the next row fails: nothing of it leaves, its rows so far stay in the window.
    /// Returns the number of the chunk behind it, where the batch goes on.
    pub fn fail(mut self, out: &mut Emission) -> usize {
        self.skip_empty_chunks();
        out.abandon_chunk();
        let next = self.chunk + 1;
        self.keep();
        next
    }

    /// Copies what is still in the window.
    pub fn keep(self) {
        self.queue.append(self.batch, self.gone..self.row);
    }
}
