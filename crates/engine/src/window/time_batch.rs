//! `timeBatch(T)`: batches of T milliseconds.

use super::collect::{Collect, Keeping};
use super::store::{RowTypes, row_types};
use crate::component::*;
use crate::emission::Emission;
use crate::keyed::Keyed;
use crate::spec::runs;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};
use lang::catalog::functions::windows::FUNCTIONS as KNOWN;
use lang::spec::FunctionSpec;

pub struct TimeBatch;

static SPEC: FunctionSpec = runs(
    KNOWN,
    "timeBatch",
    "define stream S (symbol string, price double);
from S#window.timeBatch(1 sec) select count() as n, sum(price) as total insert into Out;
---
send S @0 A 1.0
send S @400 B 2.0
advance @1000
expect Out 2 3.0
",
);

impl Window for TimeBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let millis = super::millis(setup.args, 0, "timeBatch")?;
        if millis <= 0 {
            // Siddhi accepts it and then never gets past the first boundary.
            return Err(Refused("window 'timeBatch' needs a time above zero".into()));
        }
        let (mut start, mut streams) = (None, false);
        for (index, argument) in setup.args.iter().enumerate().skip(1) {
            if argument.ty == event::Type::Bool {
                streams = super::flag(setup.args, index, "timeBatch")?;
            } else {
                start = Some(super::millis(setup.args, index, "timeBatch")?);
            }
        }
        Ok(Box::new(Operator {
            millis,
            start,
            streams,
            keeping: Keeping::new(setup),
            types: row_types(setup.schema),
            keys: Keyed::default(),
        }))
    }
}

struct Operator {
    millis: i64,
    /// Boundaries are congruent to it; else the first event fixes them.
    start: Option<i64>,
    /// Events pass at once; only their expiry comes in batches.
    streams: bool,
    keeping: Keeping,
    types: RowTypes,
    keys: Keyed<State>,
}

struct State {
    rows: Collect,
    /// The next boundary. It belongs to the key (in Siddhi all keys of a partition share one, so
    /// that only one of them is flushed by the timer).
    boundary: i64,
    /// Where events pass at once: some did since the last boundary.
    passed: bool,
}

impl Operator {
    fn first_boundary(&self, now: i64) -> i64 {
        let elapsed = self
            .start
            .map_or(0, |start| now.wrapping_sub(start) % self.millis);
        now.saturating_add(self.millis - elapsed)
    }

    fn flush(&mut self, key: Key, now: i64, context: &mut WindowContext<'_>, out: &mut Emission) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        state.boundary = state.boundary.saturating_add(self.millis);
        context.notify(state.boundary);
        if self.streams {
            if !state.rows.current.is_empty() {
                let passed = state.rows.current.take();
                state.rows.previous.push(passed);
            }
            state.rows.expire(self.keeping, now, out);
            if std::mem::take(&mut state.passed) {
                out.reset();
            }
        } else {
            state.rows.flush(self.keeping, now, out);
        }
        out.end_chunk(now);
    }
}

impl WindowOperator for Operator {
    /// An event that finds the boundary passed still counts into the old batch
    /// (`TimeBatchWindowProcessor`).
    fn process(
        &mut self,
        key: Key,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        if batch.len == 0 {
            return;
        }
        let source = out.source(batch);
        for (chunks, clock) in super::clock_runs(batch) {
            let boundary = self.first_boundary(clock);
            let state = self.keys.entry(key, || {
                context.notify(boundary);
                State {
                    rows: Collect::new(&self.types),
                    boundary,
                    passed: false,
                }
            });
            // Within one clock only the first chunks can find the boundary passed.
            let mut chunk = chunks.start;
            let mut next = state.boundary;
            while chunk < chunks.end && clock >= next {
                next = next.saturating_add(self.millis);
                chunk += 1;
            }
            for late in chunks.start..chunk {
                let rows = batch.chunk(late);
                if self.streams {
                    out.current(source, rows.clone());
                }
                self.take(key, batch, rows);
                self.flush(key, clock, context, out);
            }
            if chunk < chunks.end {
                let rows = super::rows_of(batch, &(chunk..chunks.end));
                self.take(key, batch, rows);
                if self.streams {
                    super::pass_chunks(batch, source, chunk..chunks.end, clock, out);
                }
            }
        }
    }

    fn alarm(&mut self, key: Key, _: i64, context: &mut WindowContext<'_>, out: &mut Emission) {
        let passed = |s: &State| context.now >= s.boundary;
        if self.keys.get(key).is_some_and(passed) {
            self.flush(key, context.now, context, out);
        }
    }

    /// The batch before; where events pass at once, the batch so far.
    fn content(&self, key: Key) -> Option<Batch> {
        let state = self.keys.get(key).filter(|_| self.keeping.keeps)?;
        Some(if self.streams {
            state.rows.current.copy()
        } else {
            state.rows.content(&self.types)
        })
    }

    fn held(&self, key: Key) -> usize {
        self.keys.get(key).map_or(0, |state| {
            let current = if self.streams && !self.keeping.emits_expired {
                0
            } else {
                state.rows.current.len()
            };
            let expired = if self.keeping.emits_expired {
                state.rows.previous_len()
            } else {
                0
            };
            current + expired
        })
    }

    fn bytes(&self, key: Key) -> usize {
        self.keys.get(key).map_or(0, |s| s.rows.bytes())
    }

    fn remove(&mut self, key: Key) {
        self.keys.remove(key);
    }

    fn save(&self, key: Key, writer: &mut Writer) {
        let Some(state) = self.keys.get(key) else {
            return writer.u8(0);
        };
        writer.u8(1);
        writer.i64(state.boundary);
        writer.bool(state.passed);
        state.rows.save(&self.types, writer);
    }

    fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        if super::saved_version(reader, 1)? == 0 {
            return Ok(());
        }
        let state = State {
            boundary: reader.i64()?,
            passed: reader.bool()?,
            rows: Collect::restore(&self.types, reader)?,
        };
        self.keys.set(key, state);
        Ok(())
    }
}

impl Operator {
    /// Rows enter the batch.
    fn take(&mut self, key: Key, batch: &Batch, rows: std::ops::Range<usize>) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        state.passed |= !rows.is_empty();
        if !self.streams || self.keeping.keeps {
            state.rows.current.append(batch, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    fn case() -> Case {
        Case::new("timeBatch", &[long(1000)])
    }

    #[test]
    fn batches_are_flushed_by_the_timer() {
        check(
            &case(),
            "1@1000 2@1200 3@2100 tick@9000",
            "R C1@1000 C2@1200 | E1@3000 E2@3000 R C3@2100 | E3@4000",
        );
        check(
            &case().without_expired(),
            "1@1000 2@1200 3@2100 tick@9000",
            "R C1@1000 C2@1200 | R C3@2100",
        );
    }

    #[test]
    fn a_chunk_is_not_cut_and_an_event_at_the_boundary_is_new() {
        check(
            &case(),
            "1@1000 [2 3]@2000 tick@3000",
            "R C1@1000 | E1@3000 R C2@2000 C3@2000",
        );
    }

    #[test]
    fn a_start_time_aligns_the_boundaries() {
        check(
            &Case::new("timeBatch", &[long(1000), int(300)]),
            "1@1000 2@1290 3@1300 tick@3000",
            "R C1@1000 C2@1290 | E1@2300 E2@2300 R C3@1300",
        );
    }

    #[test]
    fn in_playback_a_jump_passes_several_boundaries() {
        check(
            &case().in_playback(),
            "1@1000 2@4500 tick@9000",
            "R C1@1000 | E1@4500 | R C2@4500 | E2@9000",
        );
    }

    #[test]
    fn streaming_events_pass_at_once() {
        let case = || Case::new("timeBatch", &[long(1000), int(0), bool(true)]);
        check(
            &case(),
            "1@1000 [2 3]@1200 tick@5000",
            "C1@1000 | C2@1200 C3@1200 | E1@2000 E2@2000 E3@2000 R",
        );
        let case = || Case::new("timeBatch", &[long(1000), bool(true)]);
        check(&case().without_expired(), "1@1000 tick@5000", "C1@1000 | R");
        check_content(&case().searched(), "1@1000 2@1100", "1 2", 2);
        check_content(&case().without_expired(), "1@1000 2@1100", "", 0);
    }

    #[test]
    fn joins_find_the_batch_before() {
        let searched = || case().without_expired().searched();
        check_content(&searched(), "1@1000 2@2500 3@3500", "2", 1);
        check_content(&searched().compat(), "1@1000 2@2500 3@3500", "1 2", 1);
        check_content(&case(), "1@1000 2@2500", "1", 2);
    }

    #[test]
    fn a_time_of_zero_is_refused() {
        assert!(Case::new("timeBatch", &[long(0)]).is_refused());
    }
}
