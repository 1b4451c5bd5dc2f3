//! `frequent(n, …)`: the newest event of the n keys that are most frequent (Misra-Gries).

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

pub struct Frequent;

static SPEC: FunctionSpec = runs(
    window(
        "frequent",
        "Events of the n most frequent keys (deprecated).",
        &[
            Overload::new(&[param("event.count", Types::INT, "How many keys.").constant()]),
            Overload::repeating(
                &[
                    param("event.count", Types::INT, "How many keys.").constant(),
                    param("attribute", Types::BASIC, "Part of the key."),
                ],
                1,
            ),
        ],
    ),
    "define stream S (symbol string, price double);
from S#window.frequent(1, symbol) select symbol, price insert all events into Out;
---
send S @0 A 1.0
send S @100 A 2.0
send S @200 B 3.0
send S @300 C 4.0
expect Out A 1.0
expect Out A 2.0
expect Out [A 2.0; C 4.0]
",
);

impl Window for Frequent {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let rule = MostFrequent {
            count: super::count(setup.args, 0, "frequent")?,
            key: if setup.args.len() > 1 {
                KeyParts::of_arguments(&setup.args[1..])
            } else {
                KeyParts::of_columns(setup.selected)
            },
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct MostFrequent {
    count: usize,
    key: KeyParts,
}

/// The newest event of a key, and how often the key has come.
struct Counted {
    slot: Slot,
    count: u32,
}

impl Placed for Counted {
    fn slot(&self) -> Slot {
        self.slot
    }
}

struct State {
    pool: Pool,
    keys: KeyMap<Counted>,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            keys: KeyMap::default(),
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.keys.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.rows(&self.pool.rows(self.keys.iter().map(|(_, c)| c.slot)));
        self.keys.save(writer, |counted, w| w.u32(counted.count));
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let rows = reader.rows(types, 0)?;
        let mut slot = 0;
        let keys = KeyMap::restore(reader, |r| {
            slot += 1;
            let count = r.u32()?.max(1);
            Ok(Counted {
                slot: slot - 1,
                count,
            })
        })?;
        super::expect_rows(rows.len, keys.len())?;
        Ok(State {
            pool: Pool::of(types, rows),
            keys,
        })
    }
}

impl MostFrequent {
    /// All counters go down by one; keys at zero leave.
    fn count_down(
        keys: &mut KeyMap<Counted>,
        visit: &mut Visit<'_>,
        clock: i64,
        out: &mut Emission,
    ) {
        keys.values_mut().for_each(|counted| counted.count -= 1);
        keys.expire(|counted| counted.count == 0, visit, clock, out);
    }
}

impl Rule for MostFrequent {
    type State = State;

    /// `[E…, C]` or nothing per event; the event that another of its key replaces does not expire
    /// (`FrequentWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State { pool, keys } = state;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                let key = self.key.joined(batch, row);
                if let Some(counted) = keys.get_mut(key) {
                    counted.count = counted.count.saturating_add(1);
                    let old = std::mem::replace(&mut counted.slot, visit.add(row));
                    visit.remove(old);
                    visit.pass(row, out);
                    continue;
                }
                if keys.len() >= self.count {
                    Self::count_down(keys, &mut visit, clock, out);
                }
                if keys.len() < self.count {
                    let slot = visit.add(row);
                    keys.insert(key, Counted { slot, count: 1 });
                    visit.pass(row, out);
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
    fn a_new_key_takes_a_slot_only_when_one_gets_free() {
        check(
            &Case::new("frequent", &[int(2), v()]),
            "1@0 2@1 1@2 3@3 4@4 [5 6]@5",
            "C1@0 | C2@1 | C1@2 | E2@3 C3@3 | E1@4 E3@4 C4@4 | C5@5 E4@5 E5@5 C6@5",
        );
    }

    #[test]
    fn a_replaced_event_is_found_no_longer() {
        let case = Case::new("frequent", &[int(2), t()]);
        check_content(&case, "1~5@0 2~5@1 3~6@2", "2 3", 0);
    }
}
