//! `unique:timeLengthBatch(key, T, n)`: batches of T or of n keys, whichever is first.

use super::super::key::KeyParts;
use super::super::per_key::{PerKey, Rule, Stored};
use super::super::pool::Visit;
use super::super::store::RowTypes;
use super::batch::collect;
use super::params::*;
use super::time_batch::{Period, Timed};
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct TimeLengthBatch;

static SPEC: FunctionSpec = runs(
    window(
        "timeLengthBatch",
        "Batches of T or of n keys, whichever is first.",
        &[
            Overload::new(&[KEY, TIME, LENGTH]),
            Overload::new(&[KEY, TIME, START, LENGTH]),
        ],
    ),
    "define stream S (ip string, n int);
from S#window.unique:timeLengthBatch(ip, 1 sec, 2) select sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 A 2
send S @200 B 3
expect Out 5
",
);

const NAME: &str = "unique:timeLengthBatch";

impl Window for TimeLengthBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let args = setup.args;
        let start = match args.len() {
            4 => Some(super::super::millis(args, 2, NAME)?),
            _ => None,
        };
        let rule = Bounded {
            key: KeyParts::of_arguments(&args[..1]),
            period: Period::new(super::super::millis(args, 1, NAME)?, start, NAME)?,
            length: super::super::count(args, args.len() - 1, NAME)?,
            expired_wanted: setup.expired_wanted,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Bounded {
    key: KeyParts,
    period: Period,
    length: usize,
    expired_wanted: bool,
}

struct State {
    timed: Timed,
    /// A full batch has left: all that comes until the boundary is dropped.
    is_done: bool,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            timed: Timed::new(types),
            is_done: false,
        }
    }

    fn bytes(&self) -> usize {
        self.timed.bytes()
    }

    fn save(&self, types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.is_done);
        self.timed.save(types, writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        Ok(State {
            is_done: reader.bool()?,
            timed: Timed::restore(types, reader)?,
        })
    }
}

impl Rule for Bounded {
    type State = State;

    /// Once full, a batch leaves at once, and whatever comes before the boundary, or crosses it, is
    /// dropped (`UniqueTimeLengthBatchWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Timed { rows, next } = &mut state.timed;
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            let is_over = self.period.passes(next, clock, context);
            if state.is_done {
                state.is_done = !is_over;
                continue;
            }
            let mut visit = Visit::of_batch(&mut rows.pool, batch, out);
            let all = (batch, batch.chunk(chunk));
            let pending = (&mut rows.keys, &mut visit);
            collect(pending, &mut self.key, all, false, Some(self.length));
            visit.finish();
            state.is_done = rows.keys.len() == self.length;
            if is_over || state.is_done {
                rows.flush(clock, out);
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
        let is_over = self
            .period
            .passes(&mut state.timed.next, context.now, context);
        if is_over && !std::mem::take(&mut state.is_done) {
            state.timed.rows.flush(context.now, out);
        }
    }

    /// The batch before.
    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        Some(Held::from(state.timed.rows.previous_rows()))
    }

    fn held(&self, state: &State) -> usize {
        state.timed.rows.held(self.expired_wanted)
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_full_batch_closes_the_window_until_the_boundary() {
        check(
            &Case::new("unique:timeLengthBatch", &[t(), long(100), int(2)]),
            "1~7@0 2~7@10 3~8@20 4~9@30 tick@150 5~7@160 tick@999",
            "C2@20 C3@20 | E2@200 E3@200 R C5@200 | E5@300",
        );
    }
}
