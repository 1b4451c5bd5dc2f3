//! `lossyFrequent(support, error, …)`: events of keys that make up a share of all (lossy counting).

use super::held::Held;
use super::key::KeyParts;
use super::key_map::{KeyMap, Placed};
use super::params::*;
use super::per_key::{PerKey, Rule, Stored};
use super::pool::{Pool, Slot, Visit};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct LossyFrequent;

const SUPPORT: Param = param(
    "support.threshold",
    Types::DOUBLE,
    "Share of all events, 0 to 1.",
)
.constant();
const ERROR_BOUND: Param = param(
    "error.bound",
    Types::DOUBLE,
    "Error allowed; a tenth of the share is usual.",
)
.constant();

static SPEC: FunctionSpec = runs(
    window(
        "lossyFrequent",
        "Events of keys above a share (deprecated).",
        // Siddhi declares the form without an error as well, and then fails to make the window.
        &[
            Overload::new(&[SUPPORT, ERROR_BOUND]),
            Overload::repeating(
                &[
                    SUPPORT,
                    ERROR_BOUND,
                    param("attribute", Types::BASIC, "Part of the key."),
                ],
                1,
            ),
        ],
    ),
    "define stream S (symbol string, price double);
from S#window.lossyFrequent(0.5, 0.1, symbol) select symbol, price insert into Out;
---
send S @0 A 1.0
send S @100 B 2.0
send S @200 C 3.0
send S @300 A 4.0
expect Out A 1.0
expect Out B 2.0
expect Out A 4.0
",
);

impl Window for LossyFrequent {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let share = |at: usize| {
            let constant = setup.args.get(at).and_then(|a| a.constant.as_ref());
            constant.and_then(event::Value::to_double)
        };
        let (Some(support), Some(error)) = (share(0), share(1)) else {
            return Err(Refused(
                "window 'lossyFrequent' needs both its share and its error".into(),
            ));
        };
        let rule = AboveShare {
            share: support - error,
            width: (1.0 / error).ceil(),
            key: if setup.args.len() > 2 {
                KeyParts::of_arguments(&setup.args[2..])
            } else {
                KeyParts::of_columns(setup.selected)
            },
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct AboveShare {
    share: f64,
    /// Events of a bucket.
    width: f64,
    key: KeyParts,
}

/// The newest event of a key, how often the key has come, and the bucket before its first.
struct Counted {
    slot: Slot,
    count: i32,
    bucket: i32,
}

impl Placed for Counted {
    fn slot(&self) -> Slot {
        self.slot
    }
}

struct State {
    pool: Pool,
    keys: KeyMap<Counted>,
    total: i32,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            keys: KeyMap::default(),
            total: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.keys.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.i64(i64::from(self.total));
        writer.rows(&self.pool.rows(self.keys.iter().map(|(_, c)| c.slot)));
        self.keys.save(writer, |counted, w| {
            w.u32(counted.count as u32);
            w.u32(counted.bucket as u32);
        });
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let total = reader.i64()? as i32;
        let rows = reader.rows(types, 0)?;
        let mut slot = 0;
        let keys = KeyMap::restore(reader, |r| {
            slot += 1;
            Ok(Counted {
                slot: slot - 1,
                count: r.u32()? as i32,
                bucket: r.u32()? as i32,
            })
        })?;
        super::expect_rows(rows.len, keys.len())?;
        Ok(State {
            pool: Pool::of(types, rows),
            keys,
            total,
        })
    }
}

impl AboveShare {
    /// The bucket of the newest of `total` events.
    fn bucket(&self, total: i32) -> f64 {
        if total == 1 {
            1.0
        } else {
            (f64::from(total) / self.width).ceil()
        }
    }

    /// At the end of a bucket keys that were too rare leave.
    fn prune(
        keys: &mut KeyMap<Counted>,
        bucket: f64,
        visit: &mut Visit<'_>,
        clock: i64,
        out: &mut Emission,
    ) {
        let is_rare = |c: &Counted| f64::from(c.count.wrapping_add(c.bucket)) <= bucket;
        keys.expire(is_rare, visit, clock, out);
    }
}

impl Rule for AboveShare {
    type State = State;

    /// `[C, E…]` or less per event (`LossyFrequentWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State { pool, keys, total } = state;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                *total = total.wrapping_add(1);
                let bucket = self.bucket(*total);
                let key = self.key.joined(batch, row);
                let slot = visit.add(row);
                let count = match keys.get_mut(key) {
                    Some(counted) => {
                        counted.count = counted.count.wrapping_add(1);
                        visit.remove(std::mem::replace(&mut counted.slot, slot));
                        counted.count
                    }
                    None => {
                        let counted = Counted {
                            slot,
                            count: 1,
                            bucket: (bucket as i32).wrapping_sub(1),
                        };
                        keys.insert(key, counted);
                        1
                    }
                };
                if f64::from(count) >= self.share * f64::from(*total) {
                    visit.pass(row, out);
                }
                if f64::from(*total) % self.width == 0.0 {
                    Self::prune(keys, bucket, &mut visit, clock, out);
                }
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        Some(state.pool.rows_by_text_hash(&state.keys))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn rare_keys_are_swallowed_and_leave_at_the_end_of_a_bucket() {
        let case = Case::new("lossyFrequent", &[double(0.5), double(0.25), v()]);
        check(
            &case,
            "1@0 1@1 1@2 1@3 1@4 2@5 1@6 3@7",
            "C1@0 | C1@1 | C1@2 | C1@3 | C1@4 | C1@6 | E2@7 E3@7",
        );
        check_content(&case, "1@0 2@1", "1 2", 0);
    }

    #[test]
    fn it_needs_an_error() {
        assert!(Case::new("lossyFrequent", &[double(0.5)]).is_refused());
    }
}
