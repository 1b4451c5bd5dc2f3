//! `timeBatch(T)`: batches of T milliseconds.

use super::held::Held;
use super::params::*;
use crate::spec::*;
use std::ops::Range;

use super::collect::{Collect, Keeping};
use super::per_key::{PerKey, Rule, Stored};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Clock};

pub struct TimeBatch;

const START: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
)
.constant();

static SPEC: FunctionSpec = runs(
    window(
        "timeBatch",
        "Batches of T.",
        &[
            Overload::new(&[TIME]),
            Overload::new(&[TIME, START]),
            Overload::new(&[TIME, STREAM_CURRENT]),
            Overload::new(&[TIME, START, STREAM_CURRENT]),
        ],
    ),
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
        let rule = Periodic {
            millis,
            start,
            streams,
            keeping: Keeping::new(setup),
            shared: setup.environment.compat.then_some(None),
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Periodic {
    millis: i64,
    /// Boundaries are congruent to it; else the first event fixes them.
    start: Option<i64>,
    /// Events pass at once; only their expiry comes in batches.
    streams: bool,
    keeping: Keeping,
    /// With compat: the next boundary of all keys, which is not saved. Only the key whose event has
    /// fixed it is flushed by the timer, and a restored window begins anew with its first timer
    /// (`TimeBatchWindowProcessor.nextEmitTime`, a field of the window).
    shared: Option<Option<i64>>,
}

struct State {
    rows: Collect,
    /// The next boundary, once an event has fixed one. It belongs to the key, but for compat.
    boundary: Option<i64>,
    /// Where events pass at once: some did since the last boundary.
    passed: bool,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            rows: Collect::new(types),
            boundary: None,
            passed: false,
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.boundary.is_some());
        writer.i64(self.boundary.unwrap_or_default());
        writer.bool(self.passed);
        self.rows.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let has_boundary = reader.bool()?;
        let boundary = reader.i64()?;
        Ok(State {
            boundary: has_boundary.then_some(boundary),
            passed: reader.bool()?,
            rows: Collect::restore(types, reader)?,
        })
    }
}

impl Periodic {
    fn boundary(&self, state: &State) -> Option<i64> {
        self.shared.unwrap_or(state.boundary)
    }

    /// The next boundary is known.
    fn set_boundary(&mut self, state: &mut State, next: i64, context: &mut WindowContext<'_>) {
        match &mut self.shared {
            Some(shared) => *shared = Some(next),
            None => state.boundary = Some(next),
        }
        context.notify(next);
    }

    fn first_boundary(&self, now: i64) -> i64 {
        let elapsed = self
            .start
            .map_or(0, |start| now.wrapping_sub(start) % self.millis);
        now.saturating_add(self.millis - elapsed)
    }

    /// The batch that ends at a boundary leaves.
    fn flush(
        &mut self,
        state: &mut State,
        boundary: i64,
        now: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        self.set_boundary(state, boundary.saturating_add(self.millis), context);
        // The RESET is a copy of the first event (`TimeBatchWindowProcessor`).
        let first = state.rows.current.first_time().unwrap_or(now);
        if self.streams {
            state.rows.pass_by();
            state.rows.expire(self.keeping, now, out);
            if std::mem::take(&mut state.passed) {
                out.reset(first);
            }
        } else {
            state.rows.flush(self.keeping, [now, first], out);
        }
        out.end_chunk(now);
    }

    /// A clock that has jumped over many boundaries passes those at which nothing would leave at
    /// once.
    fn skip_empty(&mut self, state: &mut State, context: &mut WindowContext<'_>) {
        let keeps_none = !state.rows.has_previous() || self.keeping.grows;
        let resets = self.streams && state.passed;
        let is_empty = state.rows.current.is_empty() && keeps_none && !resets;
        let passed = self.boundary(state).filter(|&b| context.now >= b);
        if let (Some(boundary), true) = (passed, is_empty) {
            let next = super::first_after(context.now, boundary, self.millis);
            self.set_boundary(state, next, context);
        }
    }

    /// Rows enter the batch.
    fn take(&self, state: &mut State, batch: &Batch, rows: Range<usize>) {
        state.passed |= !rows.is_empty();
        if !self.streams || self.keeping.keeps {
            state.rows.current.append(batch, rows);
        }
    }
}

impl Rule for Periodic {
    type State = State;

    fn is_fallible(&self) -> bool {
        false
    }

    fn resets_as_next(&self) -> bool {
        !self.streams
    }

    fn delay_min(&self) -> i64 {
        // Aligned to a start, the first boundary may be near.
        if self.start.is_some() { 0 } else { self.millis }
    }

    /// An event that finds the boundary passed still counts into the old batch
    /// (`TimeBatchWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        if batch.len == 0 {
            return;
        }
        if let Some(boundary) = self.boundary(state)
            && !self.streams
            && is_before(batch, boundary)
        {
            return self.take(state, batch, 0..batch.len);
        }
        let source = out.source(batch);
        for (chunks, clock) in super::clock_runs(batch) {
            let mut boundary = match self.boundary(state) {
                Some(boundary) => boundary,
                None => {
                    let first = self.first_boundary(clock);
                    self.set_boundary(state, first, context);
                    first
                }
            };
            // Within one clock only the first chunks can find the boundary passed.
            let mut chunk = chunks.start;
            while chunk < chunks.end && clock >= boundary {
                let rows = batch.chunk(chunk);
                if self.streams {
                    out.current(source, rows.clone());
                }
                self.take(state, batch, rows);
                self.flush(state, boundary, clock, context, out);
                boundary = boundary.saturating_add(self.millis);
                chunk += 1;
            }
            if chunk < chunks.end {
                let rows = super::rows_of(batch, &(chunk..chunks.end));
                self.take(state, batch, rows);
                if self.streams {
                    super::pass_chunks(batch, source, chunk..chunks.end, clock, out);
                }
            }
        }
    }

    fn on_timer(
        &mut self,
        state: &mut State,
        _due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        match self.boundary(state) {
            Some(boundary) if context.now >= boundary => {
                self.flush(state, boundary, context.now, context, out);
                self.skip_empty(state, context);
            }
            // The timer has been restored without the boundary.
            None if self.shared.is_some() => {
                self.set_boundary(state, self.first_boundary(context.now), context);
            }
            Some(_) | None => {}
        }
    }

    /// The batch before; where events pass at once, the batch so far.
    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        self.keeping.keeps.then(|| {
            if self.streams {
                Held::from(state.rows.so_far(self.keeping))
            } else {
                state.rows.searched()
            }
        })
    }

    fn held(&self, state: &State) -> usize {
        let passes = self.streams && !self.keeping.emits_expired;
        let current = if passes { 0 } else { state.rows.current.len() };
        if self.keeping.emits_expired {
            current + state.rows.previous_len()
        } else {
            current
        }
    }
}

/// Are all chunks processed before a boundary?
fn is_before(batch: &Batch, boundary: i64) -> bool {
    match &batch.clock {
        Clock::Same(clock) => *clock < boundary,
        Clock::PerChunk(clocks) => {
            debug_assert!(clocks.is_sorted(), "a clock went back");
            clocks.last().is_none_or(|&last| last < boundary)
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
    fn with_compat_all_keys_share_a_boundary_that_is_not_saved() {
        let events = "1@1000 2@1200 3@2100 tick@9000";
        // The timer is that of the first key, whose event has fixed the boundary.
        let [first, second] = emitted(&case().compat(), events, false);
        assert_eq!(
            first,
            "R C1@1000 C2@1200 | E1@3000 E2@3000 R C3@2100 | E3@4000"
        );
        assert_eq!(second, "");
        // The timer at 2000 finds no boundary behind a restore, and begins one.
        let [first, second] = emitted(&case().compat(), "1@1000 tick@2500 2@3000", true);
        assert_eq!((first.as_str(), second.as_str()), ("", ""));
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
        check_content(&case(), "1@1000 2@2500", "1", 2);
    }

    #[test]
    fn a_time_of_zero_is_refused() {
        assert!(Case::new("timeBatch", &[long(0)]).is_refused());
    }
}
