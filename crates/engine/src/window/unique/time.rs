//! `unique:time(key, T)`: the newest row of each key in the last T.

use super::super::key::KeyParts;
use super::super::per_key::{PerKey, Rule, Stored};
use super::super::pool::{Slot, Visit};
use super::super::store::RowTypes;
use super::length::Listed;
use super::params::*;
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use crate::window::linked::Linked;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct Time;

static SPEC: FunctionSpec = runs(
    window(
        "time",
        "The newest event of each key in the last T.",
        &[Overload::new(&[KEY, TIME])],
    ),
    "define stream S (ip string, n int);
from S#window.unique:time(ip, 1 sec) select ip, n insert expired events into Out;
---
send S @0 A 1
send S @500 A 2
advance @1500
expect Out A 1
expect Out A 2
",
);

impl Window for Time {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let key = KeyParts::of_arguments(&setup.args[..1]);
        let rule = LiveKeys {
            needed: key.columns(),
            key,
            millis: super::super::millis(setup.args, 1, "unique:time")?,
            expired_wanted: setup.expired_wanted,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct LiveKeys {
    key: KeyParts,
    needed: Vec<usize>,
    millis: i64,
    expired_wanted: bool,
}

struct State {
    rows: Listed,
    /// The largest timestamp so far: only a larger one sets a deadline.
    latest: i64,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            rows: Listed::new(types),
            latest: i64::MIN,
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn save(&self, types: &RowTypes, writer: &mut Writer) {
        writer.i64(self.latest);
        self.rows.save(types, writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        Ok(State {
            latest: reader.i64()?,
            rows: Listed::restore(types, reader)?,
        })
    }
}

impl LiveKeys {
    /// The replaced row leaves, then whatever is due from the oldest on. While the replaced one is
    /// searched nothing else leaves, and where it is gone already nothing does.
    fn expire(
        &self,
        list: &mut Linked,
        mut old: Option<Slot>,
        clock: i64,
        visit: &mut Visit<'_>,
        out: &mut Emission,
    ) {
        list.reset();
        while let Some(slot) = list.walk() {
            if let Some(replaced) = old {
                if visit.are_equal(slot, replaced) {
                    list.remove();
                    visit.emit(replaced, true, Some(clock), out);
                    old = None;
                }
            } else if visit.time(slot).saturating_add(self.millis) <= clock {
                list.remove();
                visit.emit(slot, true, Some(clock), out);
                list.reset();
            } else {
                break;
            }
        }
        list.reset();
    }
}

impl Rule for LiveKeys {
    type State = State;

    /// `[E…, C]` per event (`UniqueTimeWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Listed { pool, keys, list } = &mut state.rows;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                let Some(key) = self.key.single(batch, row) else {
                    super::fail_key("time", row, context, out);
                    break;
                };
                let slot = visit.add(row);
                let old = keys.insert(key, slot);
                visit.share(slot);
                list.add(slot);
                let time = batch.times.at(row);
                if time > state.latest {
                    state.latest = time;
                    context.notify(time.saturating_add(self.millis));
                }
                self.expire(list, old, clock, &mut visit, out);
                old.into_iter().for_each(|old| visit.remove(old));
                visit.pass(row, out);
                list.sweep(|gone| visit.remove(gone));
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn on_timer(
        &mut self,
        state: &mut State,
        _due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Listed { pool, list, .. } = &mut state.rows;
        let mut visit = Visit::of_timer(pool);
        self.expire(list, None, context.now, &mut visit, out);
        list.sweep(|gone| visit.remove(gone));
        visit.finish();
        out.end_chunk(context.now);
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        Some(Held::from(state.rows.pool.rows(state.rows.list.slots())))
    }

    fn held(&self, state: &State) -> usize {
        if self.expired_wanted {
            state.rows.list.slots().count()
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_row_leaves_for_its_key_or_when_its_time_is_over() {
        let case = Case::new("unique:time", &[t(), long(100)]);
        check(
            &case,
            "1~7@0 2~8@50 3~7@60 tick@999",
            "C1@0 | C2@50 | E1@60 C3@60 | E2@150 | E3@160",
        );
        check_content(&case, "1~7@0 2~8@50 3~7@60", "2 3", 2);
    }

    #[test]
    fn a_key_that_expired_before_expires_nothing() {
        check(
            &Case::new("unique:time", &[t(), long(100)]),
            "1~7@0 tick@200 2~7@300 tick@999",
            "C1@0 | E1@100 | C2@300 | E2@400",
        );
    }
}
