//! `externalTimeBatch(t, T)`: batches of T milliseconds by an attribute.

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
use event::column::View;
use event::{Batch, Column};

pub struct ExternalTimeBatch;

/// A constant, or a LONG attribute: the value of the first event.
const START_OR_ATTRIBUTE: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
);
const TIMEOUT: Param = param(
    "timeout",
    Types::INT_LONG,
    "Flushes after so long without an event, in ms.",
)
.constant();
const REPLACE: Param = param(
    "replace.with.batchtime",
    Types::BOOL,
    "Writes the end of the batch into the timestamp.",
)
.constant();

static SPEC: FunctionSpec = runs(
    window(
        "externalTimeBatch",
        "Batches of T by an attribute.",
        &[
            Overload::new(&[TIMESTAMP, TIME]),
            Overload::new(&[TIMESTAMP, TIME, START_OR_ATTRIBUTE]),
            Overload::new(&[TIMESTAMP, TIME, START_OR_ATTRIBUTE, TIMEOUT]),
            Overload::new(&[TIMESTAMP, TIME, START_OR_ATTRIBUTE, TIMEOUT, REPLACE]),
        ],
    ),
    "define stream S (t long, price double);
from S#window.externalTimeBatch(t, 1 sec) select count() as n, sum(price) as total insert into Out;
---
send S 0 1.0
send S 500 2.0
send S 1000 3.0
expect Out 2 3.0
",
);

const NAME: &str = "externalTimeBatch";

impl Window for ExternalTimeBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let args = setup.args;
        let attribute = super::long_attribute(args, 0, NAME)?;
        let millis = super::millis(args, 1, NAME)?;
        if millis <= 0 {
            // Siddhi divides by it when the first batch ends.
            return Err(Refused(format!("window '{NAME}' needs a time above zero")));
        }
        let start = match args.get(2) {
            None => Start::FirstEvent,
            Some(argument) => match argument.constant_long() {
                Some(start) => Start::Constant(start),
                None => Start::Attribute(super::long_attribute(args, 2, NAME)?),
            },
        };
        let timeout = if args.len() > 3 {
            super::millis(args, 3, NAME)?
        } else {
            0
        };
        let replaces = args.len() > 4 && super::flag(args, 4, NAME)?;
        let rule = Periodic {
            attribute,
            needed: [attribute],
            millis,
            start,
            timeout: (timeout > 0).then_some(timeout),
            replaces,
            keeping: Keeping {
                grows: false,
                ..Keeping::new(setup)
            },
        };
        Ok(PerKey::operator(setup, rule))
    }
}

#[derive(Clone, Copy)]
enum Start {
    /// The first event's time is where the first batch begins.
    FirstEvent,
    Constant(i64),
    /// As `FirstEvent`, by another attribute of it.
    Attribute(usize),
}

struct Periodic {
    attribute: usize,
    needed: [usize; 1],
    millis: i64,
    start: Start,
    /// Longest time without a flush, by the clock.
    timeout: Option<i64>,
    /// The end of the batch is written into the time attribute.
    replaces: bool,
    keeping: Keeping,
}

struct State {
    rows: Collect,
    /// `None` until the first event.
    batch: Option<Timing>,
}

struct Timing {
    start: i64,
    /// End of the batch being collected.
    end: i64,
    /// The largest time seen.
    latest: i64,
    /// The newest deadline: an older one that comes due has been overtaken.
    scheduled: i64,
    /// The timeout has emitted a part of the batch already.
    flushed: bool,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            rows: Collect::new(types),
            batch: None,
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.batch.is_some());
        if let Some(batch) = &self.batch {
            for time in [batch.start, batch.end, batch.latest, batch.scheduled] {
                writer.i64(time);
            }
            writer.bool(batch.flushed);
        }
        self.rows.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let batch = if reader.bool()? {
            Some(Timing {
                start: reader.i64()?,
                end: reader.i64()?,
                latest: reader.i64()?,
                scheduled: reader.i64()?,
                flushed: reader.bool()?,
            })
        } else {
            None
        };
        let rows = Collect::restore(types, reader)?;
        Ok(State { rows, batch })
    }
}

impl Timing {
    /// A batch is complete: what the timeout has already emitted of it is emitted again, together
    /// with what has come since.
    fn complete(&mut self, rows: &mut Collect, keeping: Keeping, clock: i64, out: &mut Emission) {
        if std::mem::take(&mut self.flushed) {
            self.emit_again(rows, keeping, keeping.keeps, out);
        } else {
            rows.flush(keeping, [self.latest; 2], out);
        }
        out.end_chunk(clock);
    }

    /// `[E…, R, C…]` of a batch of which a part is out already: EXPIRED and CURRENT copies of that
    /// part, then the new rows (`ExternalTimeBatchWindowProcessor.appendToOutputChunk`).
    fn emit_again(&self, rows: &mut Collect, keeping: Keeping, keeps: bool, out: &mut Emission) {
        if rows.current.is_empty() {
            return;
        }
        if keeping.emits_expired {
            rows.emit_previous(true, Some(self.latest), out);
        }
        out.reset(self.latest);
        rows.emit_previous(false, None, out);
        rows.emit(keeps, out);
    }
}

impl Periodic {
    /// The next instant behind `time` that is a multiple of the length away from `start`.
    fn end_behind(&self, time: i64, start: i64) -> i64 {
        let elapsed = time.wrapping_sub(start) % self.millis;
        time.saturating_add(self.millis - elapsed)
    }

    /// The first batch, at the first event of a key; `None` where its time is missing.
    fn begin(&self, batch: &Batch, row: usize) -> Option<Timing> {
        let (start, end) = match self.start {
            Start::Constant(start) => {
                let first = super::stamp_of(&batch.columns[self.attribute], row)?;
                (start, self.end_behind(first, start))
            }
            Start::FirstEvent | Start::Attribute(_) => {
                let attribute = match self.start {
                    Start::Attribute(attribute) => attribute,
                    _ => self.attribute,
                };
                let start = super::stamp_of(&batch.columns[attribute], row)?;
                (start, start.saturating_add(self.millis))
            }
        };
        Some(Timing {
            start,
            end,
            latest: 0,
            scheduled: i64::MIN,
            flushed: false,
        })
    }

    fn schedule(&self, state: &mut Timing, clock: i64, context: &mut WindowContext<'_>) {
        if let Some(timeout) = self.timeout {
            state.scheduled = clock.saturating_add(timeout);
            context.notify(state.scheduled);
        }
    }

    /// Rows enter the batch that ends at `end`.
    fn append(&self, rows: &mut Collect, end: i64, batch: &Batch, range: Range<usize>) {
        let replace = self.replaces.then_some((self.attribute, end));
        rows.current.append_with(batch, range, replace);
    }
}

/// Walks over rows that lie before `end`. Stops at the first that does not, with its time, or at
/// one that has no time.
fn scan(column: &Column, rows: Range<usize>, end: i64, latest: &mut i64) -> (usize, Option<i64>) {
    let mut largest = *latest;
    let mut stop = (rows.end, None);
    match (column.view(), column.nulls()) {
        // The common case: one comparison and one maximum per row.
        (View::Long(times), None) => {
            for (row, &time) in rows.clone().zip(&times[rows]) {
                if time >= end {
                    stop = (row, Some(time));
                    break;
                }
                largest = largest.max(time);
            }
        }
        _ => {
            for row in rows {
                match super::stamp_of(column, row) {
                    Some(time) if time < end => largest = largest.max(time),
                    time => {
                        stop = (row, time);
                        break;
                    }
                }
            }
        }
    }
    *latest = largest;
    stop
}

fn fail(row: usize, context: &mut WindowContext<'_>) {
    context.failures.push(Failure {
        row: row as u32,
        message: format!("the time attribute of window '{NAME}' is null"),
    });
}

impl Rule for Periodic {
    type State = State;

    fn resets_as_next(&self) -> bool {
        self.timeout.is_none()
    }

    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State {
            rows,
            batch: current,
        } = state;
        let column = &batch.columns[self.attribute];
        // Rows up to `row` have been looked at, those up to `from` are in the window: chunk bounds
        // leave no trace where no batch ends.
        let (mut from, mut row) = (0, 0);
        // The chunk that flushed last, and the chunks emitted before it did.
        let mut flushing = (usize::MAX, 0);
        while row < batch.len {
            let begun = match current {
                Some(begun) => begun,
                None => match self.begin(batch, row) {
                    Some(mut begun) => {
                        let clock = batch.clock_at(batch.chunk_of(row));
                        self.schedule(&mut begun, clock, context);
                        current.insert(begun)
                    }
                    None => {
                        fail(row, context);
                        row = batch.chunk(batch.chunk_of(row)).end;
                        from = row;
                        continue;
                    }
                },
            };
            let (stop, time) = scan(column, row..batch.len, begun.end, &mut begun.latest);
            if stop == batch.len {
                break;
            }
            self.append(rows, begun.end, batch, from..stop);
            let chunk = batch.chunk_of(stop);
            let Some(time) = time else {
                if flushing.0 == chunk {
                    // What the chunk had flushed is lost with it.
                    out.abandon_from(flushing.1);
                }
                fail(stop, context);
                row = batch.chunk(chunk).end;
                from = row;
                continue;
            };
            if flushing.0 != chunk {
                flushing = (chunk, out.chunks());
            }
            let clock = batch.clock_at(chunk);
            begun.latest = begun.latest.max(time);
            begun.complete(rows, self.keeping, clock, out);
            begun.end = self.end_behind(begun.latest, begun.start);
            self.schedule(begun, clock, context);
            from = stop;
            row = stop + 1;
        }
        if let Some(begun) = current {
            self.append(rows, begun.end, batch, from..batch.len);
        }
    }

    /// The timeout: what has been collected is emitted early, and kept, in case more of the same
    /// batch comes.
    fn on_timer(
        &mut self,
        state: &mut State,
        due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State { rows, batch } = state;
        let Some(batch) = batch.as_mut().filter(|b| b.scheduled <= due) else {
            return;
        };
        if batch.flushed {
            batch.emit_again(rows, self.keeping, true, out);
        } else {
            let keeping = Keeping {
                keeps: true,
                ..self.keeping
            };
            rows.flush(keeping, [batch.latest; 2], out);
            batch.flushed = true;
        }
        out.end_chunk(context.now);
        self.schedule(batch, context.now, context);
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        self.keeping.keeps.then(|| state.rows.held())
    }

    /// Without a timeout nothing leaves unless an event comes.
    fn held(&self, state: &State) -> usize {
        self.timeout.map_or(0, |_| state.rows.current.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::component::Argument;
    use crate::window::testing::*;

    fn case(more: &[Argument]) -> Case {
        let mut args = vec![t(), long(100)];
        args.extend_from_slice(more);
        Case::new("externalTimeBatch", &args)
    }

    #[test]
    fn the_event_behind_the_end_flushes() {
        check(
            &case(&[]),
            "1~10@1 2~50@2 3~110@3 [4~90 5~330 6~340]@4 7~420@5",
            "R C1@1 C2@2 | E1@330 E2@330 R C3@3 C4@4 | E3@420 E4@420 R C5@4 C6@4",
        );
    }

    #[test]
    fn a_start_aligns_the_ends() {
        check(
            &case(&[int(0)]).without_expired(),
            "1~10@1 2~99@2 3~100@3 4~250@4",
            "R C1@1 C2@2 | R C3@3",
        );
        check(
            &case(&[t()]).without_expired(),
            "1~10@1 2~109@2 3~110@3 4~250@4",
            "R C1@1 C2@2 | R C3@3",
        );
    }

    #[test]
    fn the_timeout_flushes_early_and_the_batch_is_repeated() {
        let timed = || case(&[int(0), long(1000)]);
        check(
            &timed().without_expired(),
            "1~10@0 2~20@10 tick@1500 3~30@1600 4~140@1700 tick@3000",
            "R C1@0 C2@10 | R C1@0 C2@10 C3@1600 | R C4@1700",
        );
        check(
            &timed(),
            "1~10@0 2~20@10 tick@1500 3~30@1600 4~140@1700 tick@3000",
            "R C1@0 C2@10 | E1@140 E2@140 R C1@0 C2@10 C3@1600 | E1@140 E2@140 E3@140 R C4@1700",
        );
        check(
            &timed(),
            "1~10@0 tick@1500 2~20@1600 tick@2500",
            "R C1@0 | E1@20 R C1@0 C2@1600",
        );
        check_content(&timed(), "1~10@0 tick@1500 2~20@1600", "1", 1);
    }

    #[test]
    fn the_time_attribute_may_be_replaced() {
        check(
            &case(&[int(0), int(0), bool(true)])
                .without_expired()
                .showing_t(),
            "1~10@1 2~20@2 3~110@3 4~250@4",
            "R C1~100@1 C2~100@2 | R C3~200@3",
        );
    }

    #[test]
    fn a_null_fails_its_chunk_with_all_it_had_flushed() {
        check_failure(
            &case(&[]).without_expired(),
            "1~10@1 [2~120 3~-]@2 4~230@3",
            "the time attribute of window 'externalTimeBatch' is null",
            "R C2@2",
        );
        assert!(Case::new("externalTimeBatch", &[t(), long(0)]).is_refused());
    }
}
