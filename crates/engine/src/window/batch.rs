//! `batch()`: each chunk as it came in.

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

pub struct BatchWindow;

static SPEC: FunctionSpec = runs(
    window(
        "batch",
        "Each chunk as it came in.",
        &[
            Overload::new(&[]),
            Overload::new(&[
                param("chunk.length", Types::INT, "Cuts larger chunks; 0: never.").constant(),
            ]),
        ],
    ),
    "define stream S (symbol string, price double);
from S#window.batch() select symbol, sum(price) as total insert into Out;
---
send S @0 [A 1.0; B 2.0]
send S @100 C 3.0
expect Out B 3.0
expect Out C 3.0
",
);

impl Window for BatchWindow {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let length = if setup.args.is_empty() {
            0
        } else {
            super::count(setup.args, 0, "batch")?
        };
        if let Some(event::Value::Int(..0)) = setup.args.first().and_then(|a| a.constant.as_ref()) {
            return Err(Refused(
                "the chunk length of window 'batch' must not be below zero".into(),
            ));
        }
        let rule = Chunkwise {
            length,
            forgets: setup.is_partitioned && !setup.expired_wanted && !setup.is_searched,
            keeping: Keeping {
                // Without EXPIRED rows nothing is kept, not even for joins.
                keeps: setup.expired_wanted,
                ..Keeping::new(setup)
            },
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Chunkwise {
    /// Longer chunks are cut; 0: never.
    length: usize,
    /// Each chunk is as the first. In a partition, where nobody asks for EXPIRED rows, Siddhi loses
    /// the state of a key after each chunk (`WindowState.canDestroy` fails), so aggregates go on.
    forgets: bool,
    keeping: Keeping,
}

struct State {
    rows: Collect,
    /// The next chunk is not the first: it drops what the one before has left in the aggregates.
    resets: bool,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            rows: Collect::new(types),
            resets: false,
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.resets);
        self.rows.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        Ok(State {
            resets: reader.bool()?,
            rows: Collect::restore(types, reader)?,
        })
    }
}

impl Rule for Chunkwise {
    type State = State;

    fn is_fallible(&self) -> bool {
        false
    }

    fn delay_min(&self) -> i64 {
        i64::MAX
    }

    /// `[E…, R, C…]` per chunk, the first time without RESET (`BatchWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let source = out.source(batch);
        for chunk in 0..batch.chunk_count() {
            let (rows, clock) = (batch.chunk(chunk), batch.clock_at(chunk));
            if rows.is_empty() {
                continue;
            }
            state.resets &= !self.forgets;
            state.rows.expire(self.keeping, clock, out);
            if self.keeping.keeps {
                state.rows.current.append(batch, rows.clone());
                state.rows.pass_by();
            }
            let length = if self.length == 0 {
                rows.len()
            } else {
                self.length
            };
            for start in rows.clone().step_by(length) {
                if std::mem::replace(&mut state.resets, true) {
                    out.reset(clock);
                }
                out.current(source, start..rows.end.min(start + length));
                out.end_chunk(clock);
            }
        }
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        self.keeping.keeps.then(|| state.rows.searched())
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_chunk_expires_when_the_next_comes() {
        check(
            &Case::new("batch", &[]),
            "[1 2]@0 3@5 [4 5]@6",
            "C1@0 C2@0 | E1@5 E2@5 R C3@5 | E3@6 R C4@6 C5@6",
        );
        check(
            &Case::new("batch", &[]).without_expired(),
            "[1 2]@0 3@5 [4 5]@6",
            "C1@0 C2@0 | R C3@5 | R C4@6 C5@6",
        );
    }

    #[test]
    fn longer_chunks_are_cut() {
        check(
            &Case::new("batch", &[int(2)]),
            "[1 2 3]@0 [4 5]@6",
            "C1@0 C2@0 | R C3@0 | E1@6 E2@6 E3@6 R C4@6 C5@6",
        );
    }

    #[test]
    fn content_is_found_only_where_it_expires() {
        check_content(&Case::new("batch", &[]), "[1 2]@0 [3 4]@5", "3 4", 0);
        check_content(
            &Case::new("batch", &[]).without_expired().searched(),
            "1@0",
            "",
            0,
        );
        assert!(Case::new("batch", &[int(-1)]).is_refused());
    }
}
