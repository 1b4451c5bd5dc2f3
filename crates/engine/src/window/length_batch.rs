//! `lengthBatch(n)`: batches of n events.

use super::collect::{Collect, Keeping};
use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule, Stored};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct LengthBatch;

static SPEC: FunctionSpec = runs(
    window(
        "lengthBatch",
        "Batches of n events.",
        &[
            Overload::new(&[LENGTH]),
            Overload::new(&[LENGTH, STREAM_CURRENT]),
        ],
    ),
    "define stream S (symbol string, price double);
from S#window.lengthBatch(2) select symbol, sum(price) as total insert into Out;
---
send S @0 A 1.0
send S @100 B 2.0
send S @200 C 3.0
send S @300 D 4.0
expect Out B 3.0
expect Out D 7.0
",
);

impl Window for LengthBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let streams = setup.args.len() > 1 && super::flag(setup.args, 1, "lengthBatch")?;
        let rule = Counted {
            length: super::count(setup.args, 0, "lengthBatch")?,
            streams,
            keeping: Keeping::new(setup),
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Counted {
    length: usize,
    /// Events pass at once; only their expiry comes in batches.
    streams: bool,
    keeping: Keeping,
}

struct State {
    rows: Collect,
    /// Events of the batch so far.
    count: usize,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            rows: Collect::new(types),
            count: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.count(self.count);
        self.rows.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        Ok(State {
            count: usize::try_from(reader.u64()?).unwrap_or(usize::MAX),
            rows: Collect::restore(types, reader)?,
        })
    }
}

impl Counted {
    /// Events are collected; each full batch is a chunk `[E…, R, C…]`.
    fn collect(
        state: &mut State,
        length: usize,
        keeping: Keeping,
        batch: &Batch,
        out: &mut Emission,
    ) {
        let mut row = 0;
        while row < batch.len {
            let end = batch.len.min(row + length.saturating_sub(state.count));
            state.rows.current.append(batch, row..end);
            state.count += end - row;
            row = end;
            if state.count >= length {
                let clock = batch.clock_at(batch.chunk_of(row - 1));
                state.rows.flush(keeping, [clock; 2], out);
                out.end_chunk(clock);
                state.count = 0;
            }
        }
    }

    /// Events pass, each a chunk of its own; the first of the next batch stands behind the expiry
    /// of the batch before.
    fn stream(
        state: &mut State,
        length: usize,
        keeping: Keeping,
        batch: &Batch,
        out: &mut Emission,
    ) {
        let source = out.source(batch);
        let mut row = 0;
        while row < batch.len {
            let clock = batch.clock_at(batch.chunk_of(row));
            if state.count >= length {
                state.rows.pass_by();
                state.rows.expire(keeping, clock, out);
                out.reset(clock);
                state.count = 0;
            }
            let end = batch.len.min(row + length.saturating_sub(state.count));
            let end = (row + 1..end)
                .find(|&r| batch.clock_at(batch.chunk_of(r)) != clock)
                .unwrap_or(end);
            out.current(source, row..end);
            out.end_chunks(end - row, 1, clock);
            if keeping.keeps {
                state.rows.current.append(batch, row..end);
            }
            state.count += end - row;
            row = end;
        }
    }

    /// `lengthBatch(0)`: `[C, E, R]` per event.
    fn appear(keeping: Keeping, batch: &Batch, out: &mut Emission) {
        let source = out.source(batch);
        for row in 0..batch.len {
            let clock = batch.clock_at(batch.chunk_of(row));
            out.current(source, row..row + 1);
            if keeping.emits_expired {
                out.expired(source, row..row + 1, clock);
            }
            out.reset(clock);
            out.end_chunk(clock);
        }
    }
}

impl Rule for Counted {
    type State = State;

    fn is_fallible(&self) -> bool {
        false
    }

    fn resets_as_next(&self) -> bool {
        self.length > 0 && !self.streams
    }

    fn delay_min(&self) -> i64 {
        i64::MAX
    }

    /// `LengthBatchWindowProcessor`.
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        match (self.length, self.streams) {
            (0, _) => Self::appear(self.keeping, batch, out),
            (length, true) => Self::stream(state, length, self.keeping, batch, out),
            (length, false) => Self::collect(state, length, self.keeping, batch, out),
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
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    fn case() -> Case {
        Case::new("lengthBatch", &[int(2)])
    }

    #[test]
    fn full_batches_expire_when_the_next_is_full() {
        check(
            &case(),
            "1@0 2@5 3@7 4@9",
            "R C1@0 C2@5 | E1@9 E2@9 R C3@7 C4@9",
        );
        check(
            &case().without_expired(),
            "1@0 2@5 3@7 4@9",
            "R C1@0 C2@5 | R C3@7 C4@9",
        );
    }

    #[test]
    fn one_chunk_may_fill_several_batches() {
        check(
            &case(),
            "1@0 [2 3 4 5 6]@5",
            "R C1@0 C2@5 | E1@5 E2@5 R C3@5 C4@5 | E3@5 E4@5 R C5@5 C6@5",
        );
    }

    #[test]
    fn length_zero() {
        let case = Case::new("lengthBatch", &[int(0)]);
        check(&case, "[1 2]@0", "C1@0 E1@0 R | C2@0 E2@0 R");
        check(&case.without_expired(), "1@0", "C1@0 R");
    }

    #[test]
    fn streaming_events_pass_at_once() {
        let case = || Case::new("lengthBatch", &[int(2), bool(true)]);
        check(
            &case(),
            "1@0 2@1 [3 4 5]@2",
            "C1@0 | C2@1 | E1@2 E2@2 R C3@2 | C4@2 | E3@2 E4@2 R C5@2",
        );
        check(
            &case().without_expired(),
            "1@0 2@1 3@2",
            "C1@0 | C2@1 | R C3@2",
        );
        check_content(&case().searched(), "1@0 2@1 3@2", "3", 0);
    }

    #[test]
    fn joins_find_the_batch_before() {
        check_content(&case(), "1@0 2@5 3@7", "1 2", 0);
        let searched = || case().without_expired().searched();
        check_content(&searched(), "1@0 2@5 3@7 4@8 5@9", "3 4", 0);
        check_content(&searched().compat(), "1@0 2@5 3@7 4@8 5@9", "1 2 3 4", 0);
        check_content(&case().without_expired(), "1@0 2@5", "", 0);
        let passing = || {
            let case = Case::new("lengthBatch", &[int(2), bool(true)]);
            case.without_expired().searched()
        };
        check_content(&passing(), "1@0 2@5 3@7", "3", 0);
        check_content(&passing().compat(), "1@0 2@5 3@7", "1 2 3", 0);
    }
}
