//! Rows that come in while playback is on: their timestamps move the clock.
//!
//! What a chunk's timestamp makes due is served before the chunk. So a batch is cut where a timer
//! stands between two of its chunks, or could: neighbours travel together as long as nothing is due
//! among them and nothing they set can be.

use std::sync::Arc;

use event::{Batch, Chunks, Clock};
use plan::StreamId;

use crate::app::{App, Outside};
use crate::stamp::{UNSTAMPED, UNSTAMPED_SENT, is_stamped, stamped};
use crate::timers::Owner;

impl App {
    /// The clock of a chunk is the largest last timestamp so far.
    pub(crate) fn take_playback_batch(
        &mut self,
        stream: StreamId,
        batch: Batch,
        outside: &mut Outside<'_>,
    ) {
        let quiet = if batch.chunk_count() > 1
            && matches!(batch.clock, Clock::Same(_))
            && is_stamped(&batch)
        {
            self.quiet_for()
        } else {
            0
        };
        if matches!(batch.clock, Clock::Same(_)) {
            self.fire_by_wall(outside);
        }
        let count = batch.chunk_count();
        let mut chunk = 0;
        let mut rest = (count > 0).then_some(batch);
        while let Some(batch) = rest.take() {
            // Several clocks in one batch are those of the wall at which its chunks arrived.
            if let Clock::PerChunk(walls) = &batch.clock {
                self.core.wall = self.core.wall.max(walls[chunk]);
                self.fire_by_wall(outside);
            }
            match last_time(&batch, chunk) {
                None | Some(UNSTAMPED | UNSTAMPED_SENT) => {}
                Some(time) => {
                    let is_set = time >= self.core.clock;
                    self.advance_playback(time, outside);
                    if is_set {
                        self.clock_was_set();
                    }
                }
            }
            let (end, clocks) = self.quiet_chunks(&batch, chunk, quiet);
            let mut part = if (chunk, end) == (0, count) {
                batch
            } else {
                let part = batch.slice_chunks(chunk..end);
                rest = (end < count).then_some(batch);
                part
            };
            match clocks.last() {
                Some(&last) if last > self.core.clock => {
                    self.core.clock = last;
                    part.clock = Clock::PerChunk(clocks);
                }
                _ => part = stamped(part, self.core.clock, self.core.wall),
            }
            self.root(stream, part, outside);
            chunk = end;
        }
    }

    /// The end of the chunks that travel with this one, for which the clock has been moved, and the
    /// clock of each of them.
    fn quiet_chunks(&self, batch: &Batch, chunk: usize, quiet: i64) -> (usize, Arc<[i64]>) {
        let start = self.core.clock;
        let mut end = chunk + 1;
        if quiet <= 0 || end == batch.chunk_count() {
            return (end, Arc::default());
        }
        let rows = batch.chunk(chunk);
        if (rows.start..rows.end).any(|row| batch.times.at(row) < start) {
            return (end, Arc::default());
        }
        let limit = start.saturating_add(quiet).min(self.core.timers.earliest());
        // Events that come in the order of their timestamps: these are their clocks.
        if batch.chunks == Chunks::EachRow
            && let Some(times) = batch.times.each(chunk..batch.len)
            && times.is_sorted()
        {
            let count = times.partition_point(|&time| time < limit).max(1);
            return (chunk + count, times[..count].into());
        }
        let mut clock = start;
        let mut clocks = Vec::with_capacity(batch.chunk_count() - chunk);
        clocks.push(start);
        if batch.chunks == Chunks::EachRow {
            for (rows, time) in batch.times.runs(end..batch.len) {
                clock = clock.max(time);
                if clock >= limit || time < start {
                    break;
                }
                clocks.resize(clocks.len() + rows, clock);
            }
            return (chunk + clocks.len(), clocks.into());
        }
        while end < batch.chunk_count() {
            let rows = batch.chunk(end);
            let Some(last) = last_time(batch, end) else {
                break;
            };
            clock = clock.max(last);
            if clock >= limit || (rows.start..rows.end).any(|row| batch.times.at(row) < start) {
                break;
            }
            clocks.push(clock);
            end += 1;
        }
        (end, clocks.into())
    }

    /// For how long after a chunk no deadline can fall that the chunk, or one behind it, sets.
    fn quiet_for(&self) -> i64 {
        if self.queries.iter().any(|q| q.reads_clock()) {
            return 0;
        }
        let operators = 0..self.core.timers.operators();
        let of = |operator| match self.core.timers.owner(operator) {
            Owner::Window { query, side } => self.queries[query].delay_min(side),
            Owner::Trigger { .. } => i64::MAX,
            // Of the others it is not known.
            _ => 0,
        };
        operators.map(of).min().unwrap_or(i64::MAX)
    }
}

fn last_time(batch: &Batch, chunk: usize) -> Option<i64> {
    let rows = batch.chunk(chunk);
    (!rows.is_empty()).then(|| batch.times.at(rows.end - 1))
}
