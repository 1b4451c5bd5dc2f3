//! `expressionBatch(text)`: batches that end when a condition over them fails.

use std::cell::Cell;
use std::collections::VecDeque;

use super::content::{Current, Event, Kind, Text, View};
use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule, Stored};
use super::pool::{Pool, SavedRows, Slot, Visit};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Value};

pub struct ExpressionBatch;

const INCLUDE_TRIGGER: Param = param(
    "include.triggering.event",
    Types::BOOL,
    "The event that ends a batch belongs to it.",
);
const STREAM_CURRENT_DYNAMIC: Param =
    param("stream.current.event", Types::BOOL, "Events pass at once.");

static SPEC: FunctionSpec = runs(
    window(
        "expressionBatch",
        "Batches that end when a condition over them fails.",
        &[
            Overload::new(&[EXPRESSION]),
            Overload::new(&[EXPRESSION, INCLUDE_TRIGGER]),
            Overload::new(&[EXPRESSION, INCLUDE_TRIGGER, STREAM_CURRENT_DYNAMIC]),
        ],
    ),
    "define stream S (price double);
from S#window.expressionBatch('sum(price) < 10') select price insert into Out;
---
send S 5.0
send S 3.0
send S 9.0
expect Out [5.0; 3.0]
",
);

impl Window for ExpressionBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let text = Text::new(setup, "expressionBatch")?;
        let flag = |at: usize| match setup.args.get(at) {
            Some(Argument {
                constant: Some(Value::Bool(flag)),
                ..
            }) => (*flag, None),
            Some(argument) => (false, argument.attribute),
            None => (false, None),
        };
        let (includes, includes_by) = flag(1);
        let mut needed: Vec<usize> = text.attribute.into_iter().collect();
        needed.extend(includes_by);
        Ok(PerKey::operator(
            setup,
            UntilFalse {
                text,
                includes,
                includes_by,
                // Siddhi reads it only where it is a constant.
                streams: flag(2).0,
                forgets_searched: setup.environment.compat,
                needed,
            },
        ))
    }
}

struct UntilFalse {
    text: Text,
    /// The event that ends a batch belongs to it.
    includes: bool,
    /// A column that says so for each event.
    includes_by: Option<usize>,
    /// Events pass at once; only their expiry comes in batches.
    streams: bool,
    /// With compat: what a search has gone through never expires (ruling 79).
    forgets_searched: bool,
    needed: Vec<usize>,
}

/// A row, and the timestamp that it got since.
#[derive(Clone, Copy)]
struct Stamped {
    slot: Slot,
    time: Option<i64>,
}

struct State {
    pool: Pool,
    /// Being collected; where events pass at once, what a change of the condition has let expire.
    collected: VecDeque<Stamped>,
    /// The batch before; where events pass at once, the batch so far.
    passed: VecDeque<Stamped>,
    /// Collected rows that a search has gone through: Siddhi's queue then stands behind them, so that
    /// they leave with their own timestamps.
    searched: Cell<usize>,
    current: Current,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            collected: VecDeque::new(),
            passed: VecDeque::new(),
            searched: Cell::new(0),
            current: Current::default(),
        }
    }

    fn bytes(&self) -> usize {
        let rows = self.collected.len() + self.passed.len();
        self.pool.bytes() + rows * size_of::<Stamped>()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        let mut rows = SavedRows::default();
        rows.extend(self.collected.iter().chain(&self.passed).map(|s| s.slot));
        writer.rows(&self.pool.rows(rows.slots()));
        for list in [&self.collected, &self.passed] {
            writer.count(list.len());
            for stamped in list {
                writer.u32(rows.number(stamped.slot));
                writer.bool(stamped.time.is_some());
                writer.i64(stamped.time.unwrap_or_default());
            }
        }
        writer.u64(self.searched.get() as u64);
        self.current.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let rows = reader.rows(types, 0)?;
        let mut lists = [VecDeque::new(), VecDeque::new()];
        for list in &mut lists {
            for _ in 0..reader.count()? {
                let slot = reader.u32()?;
                if slot as usize >= rows.len {
                    return Err(StateError::Mismatch("a row that is not there".into()));
                }
                let has_time = reader.bool()?;
                let time = reader.i64()?;
                list.push_back(Stamped {
                    slot,
                    time: has_time.then_some(time),
                });
            }
        }
        let [collected, passed] = lists;
        let searched = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
        let mut pool = Pool::of(types, rows);
        pool.hold(collected.iter().chain(&passed).map(|s| s.slot));
        Ok(State {
            pool,
            collected,
            passed,
            searched: Cell::new(searched),
            current: Current::restore(reader)?,
        })
    }
}

/// One event's way into the window.
struct Entry<'a, 'v, 'c> {
    visit: &'a mut Visit<'v>,
    collected: &'a mut VecDeque<Stamped>,
    passed: &'a mut VecDeque<Stamped>,
    searched: &'a Cell<usize>,
    current: &'a mut Current,
    context: &'a mut WindowContext<'c>,
    clock: i64,
    row: usize,
    includes: bool,
    forgets_searched: bool,
}

impl Entry<'_, '_, '_> {
    fn event(&self, stamped: Stamped) -> Event {
        let (batch, row) = self.visit.place(stamped.slot);
        let event = Event::of(batch, row);
        Event {
            time: stamped.time.unwrap_or(event.time),
            ..event
        }
    }

    /// Evaluates with the event added; where it fails, the aggregators begin anew with it.
    fn holds(&mut self, new: Stamped, first: Option<Stamped>) -> bool {
        let newest = self.event(new);
        let oldest = first.map_or_else(|| newest.clone(), |first| self.event(first));
        let view = View {
            event: &newest,
            oldest: &oldest,
            newest: &newest,
        };
        let clocks = (self.clock, self.context.wall);
        let Some(condition) = &mut self.current.condition else {
            return true;
        };
        let failures = &mut self.context.failures;
        if condition.holds(Kind::Arrives, view, clocks, self.row, failures) {
            return true;
        }
        condition.holds(Kind::Reset, view, clocks, self.row, failures);
        condition.holds(Kind::Arrives, view, clocks, self.row, failures);
        false
    }

    /// Emits all rows of a list and lets them go.
    fn drain(
        visit: &mut Visit<'_>,
        list: &mut VecDeque<Stamped>,
        (expired, time): (bool, Option<i64>),
        out: &mut Emission,
    ) {
        for Stamped { slot, time: own } in list.drain(..) {
            visit.emit(slot, expired, time.or(own), out);
            visit.remove(slot);
        }
    }

    /// The event is collected; where the condition fails `[E…, C…]` leaves, each flush a chunk.
    fn collect(&mut self, new: Stamped, out: &mut Emission) {
        if self.holds(new, self.collected.front().copied()) {
            self.collected.push_back(new);
            return;
        }
        let clock = Some(self.clock);
        Self::drain(self.visit, self.passed, (true, clock), out);
        if self.collected.is_empty() {
            self.visit.emit(new.slot, true, clock, out);
            self.visit.emit(new.slot, false, clock, out);
            self.visit.remove(new.slot);
        } else {
            let searched = self.searched.take();
            for (at, stamped) in self.collected.drain(..).enumerate() {
                let is_searched = at < searched;
                let time = clock.filter(|_| !is_searched).or(stamped.time);
                self.visit.emit(stamped.slot, false, time, out);
                if is_searched && self.forgets_searched {
                    self.visit.remove(stamped.slot);
                } else {
                    self.passed.push_back(stamped);
                }
            }
            if self.includes {
                self.visit.emit(new.slot, false, new.time, out);
                self.passed.push_back(new);
            } else {
                self.collected.push_back(new);
            }
        }
        out.end_chunk(self.clock);
    }

    /// The event passes; where the condition fails the batch so far expires.
    fn stream(&mut self, new: Stamped, out: &mut Emission) {
        let clock = Some(self.clock);
        let holds = self.holds(new, self.passed.front().copied());
        Self::drain(self.visit, self.collected, (true, None), out);
        if holds {
            self.visit.emit(new.slot, false, None, out);
            self.passed.push_back(new);
        } else if self.passed.is_empty() {
            self.visit.emit(new.slot, true, clock, out);
            self.visit.emit(new.slot, false, clock, out);
            self.visit.remove(new.slot);
        } else if self.includes {
            self.visit.emit(new.slot, false, None, out);
            Self::drain(self.visit, self.passed, (true, clock), out);
            self.visit.emit(new.slot, true, clock, out);
            self.visit.remove(new.slot);
        } else {
            Self::drain(self.visit, self.passed, (true, clock), out);
            self.visit.emit(new.slot, false, None, out);
            self.passed.push_back(new);
        }
        out.end_chunk(self.clock);
    }

    /// An event that has passed enters anew, under another condition; what expires waits for the
    /// next event.
    fn stream_again(&mut self, old: Stamped) {
        let time = Some(self.clock);
        if self.holds(old, self.passed.front().copied()) {
            self.passed.push_back(old);
            return;
        }
        if self.passed.is_empty() {
            self.collected.push_back(old);
            return;
        }
        for stamped in self.passed.drain(..) {
            self.collected.push_back(Stamped { time, ..stamped });
        }
        if self.includes {
            self.collected.push_back(old);
        } else {
            self.passed.push_back(old);
        }
    }

    /// All stored events enter anew.
    fn enter_again(&mut self, streams: bool, out: &mut Emission) {
        if streams {
            for old in std::mem::take(self.passed) {
                self.stream_again(old);
            }
        } else {
            for old in std::mem::take(self.collected) {
                self.collect(old, out);
            }
        }
    }
}

impl Rule for UntilFalse {
    type State = State;

    /// `ExpressionBatchWindowProcessor`.
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State {
            pool,
            collected,
            passed,
            searched,
            current,
        } = state;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let (failures, before) = (context.failures.len(), out.chunks());
            for row in batch.chunk(chunk) {
                let changes = current.refresh(&self.text, batch, row);
                let by_event = self
                    .includes_by
                    .map(|column| batch.columns[column].value(row));
                let slot = visit.add(row);
                let new = Stamped { slot, time: None };
                let mut entry = Entry {
                    visit: &mut visit,
                    collected,
                    passed,
                    searched,
                    current,
                    context,
                    clock: batch.clock_at(chunk),
                    row,
                    includes: by_event.map_or(self.includes, |v| v == Value::Bool(true)),
                    forgets_searched: self.forgets_searched,
                };
                match changes {
                    Ok(true) => entry.enter_again(self.streams, out),
                    Ok(false) => {}
                    Err(message) => {
                        let row = row as u32;
                        entry.visit.remove(slot);
                        entry.context.failures.push(Failure { row, message });
                        break;
                    }
                }
                if self.streams {
                    entry.stream(new, out);
                } else {
                    entry.collect(new, out);
                }
            }
            if context.failures.len() > failures {
                out.abandon_from(before);
            }
        }
        visit.finish();
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    /// The events being collected; none where they pass at once.
    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        state.searched.set(state.collected.len());
        let collected = state.collected.iter().map(|s| s.slot);
        Some(Held::from(state.pool.rows(collected)))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_batch_ends_before_or_with_the_event_that_breaks_it() {
        check(
            &Case::new("expressionBatch", &[text("sum(v) < 10")]),
            "5@0 3@1 9@2 15@3",
            "C5@2 C3@2 | E5@3 E3@3 C9@3",
        );
        check(
            &Case::new("expressionBatch", &[text("sum(v) < 10"), bool(true)]),
            "5@0 3@1 9@2 15@3 1@4",
            "C5@2 C3@2 C9@2 | E5@3 E3@3 E9@3 E15@3 C15@3 | E1@4 C1@4",
        );
    }

    #[test]
    fn events_may_pass_at_once() {
        check(
            &Case::new(
                "expressionBatch",
                &[text("count() <= 2"), bool(false), bool(true)],
            ),
            "1@0 2@1 3@2 4@3",
            "C1@0 | C2@1 | E1@2 E2@2 C3@2 | C4@3",
        );
        check(
            &Case::new(
                "expressionBatch",
                &[text("count() <= 2"), bool(true), bool(true)],
            ),
            "1@0 2@1 3@2 4@3",
            "C1@0 | C2@1 | C3@2 E1@2 E2@2 E3@2 | C4@3",
        );
    }
}
