//! `unique:timeBatch(key, T)` and `unique:firstTimeBatch(key, T)`: batches of T.

use super::super::key::KeyParts;
use super::super::per_key::{PerKey, Rule, Stored};
use super::super::pool::Visit;
use super::super::store::RowTypes;
use super::batch::{KeyBatch, collect};
use super::params::*;
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

/// The newest row of each key.
pub struct TimeBatch;

/// The first row of each key.
pub struct FirstTimeBatch;

const BY_TIME: &[Overload] = &[
    Overload::new(&[KEY, TIME]),
    Overload::new(&[KEY, TIME, START]),
];

static NEWEST: FunctionSpec = runs(
    window(
        "timeBatch",
        "Batches of T, the newest event of each key.",
        BY_TIME,
    ),
    "define stream S (ip string, n int);
from S#window.unique:timeBatch(ip, 1 sec) select sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 A 2
send S @200 B 3
advance @1000
expect Out 5
",
);

static FIRST: FunctionSpec = runs(
    window(
        "firstTimeBatch",
        "Batches of T, the first event of each key.",
        BY_TIME,
    ),
    "define stream S (ip string, n int);
from S#window.unique:firstTimeBatch(ip, 1 sec) select sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 A 2
send S @200 B 3
advance @1000
expect Out 4
",
);

impl Window for TimeBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &NEWEST
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        bind(setup, "unique:timeBatch", false)
    }
}

impl Window for FirstTimeBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &FIRST
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        bind(setup, "unique:firstTimeBatch", true)
    }
}

fn bind(
    setup: &WindowSetup<'_>,
    name: &str,
    keeps_first: bool,
) -> Result<Box<dyn WindowOperator>, Refused> {
    let start = match setup.args.len() {
        3 => Some(super::super::millis(setup.args, 2, name)?),
        _ => None,
    };
    let rule = Periodic {
        key: KeyParts::of_arguments(&setup.args[..1]),
        period: Period::new(super::super::millis(setup.args, 1, name)?, start, name)?,
        keeps_first,
        expired_wanted: setup.expired_wanted,
    };
    Ok(PerKey::operator(setup, rule))
}

struct Periodic {
    key: KeyParts,
    period: Period,
    keeps_first: bool,
    expired_wanted: bool,
}

/// Boundaries in time.
#[derive(Clone, Copy)]
pub(super) struct Period {
    millis: i64,
    /// Boundaries are congruent to it; else the first event fixes them.
    start: Option<i64>,
}

impl Period {
    pub fn new(millis: i64, start: Option<i64>, name: &str) -> Result<Period, Refused> {
        if millis <= 0 {
            return Err(Refused(format!("window '{name}' needs a time above zero")));
        }
        Ok(Period { millis, start })
    }

    /// The next boundary, fixed now if it was not; true: the clock has passed it, and the one
    /// behind it is next.
    pub fn passes(
        self,
        next: &mut Option<i64>,
        clock: i64,
        context: &mut WindowContext<'_>,
    ) -> bool {
        let boundary = *next.get_or_insert_with(|| {
            let start = self.start;
            let elapsed = start.map_or(0, |start| clock.wrapping_sub(start) % self.millis);
            let first = clock.saturating_add(self.millis - elapsed);
            context.notify(first);
            first
        });
        if clock < boundary {
            return false;
        }
        let behind = boundary.saturating_add(self.millis);
        *next = Some(behind);
        context.notify(behind);
        true
    }
}

/// A batch, and when it ends; each key of a partition has its own end.
pub(super) struct Timed {
    pub rows: KeyBatch,
    pub next: Option<i64>,
}

impl Stored for Timed {
    fn new(types: &RowTypes) -> Timed {
        Timed {
            rows: KeyBatch::new(types),
            next: None,
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn save(&self, types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.next.is_some());
        writer.i64(self.next.unwrap_or_default());
        self.rows.save(types, writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Timed, StateError> {
        let has_next = reader.bool()?;
        let next = reader.i64()?;
        Ok(Timed {
            next: has_next.then_some(next),
            rows: KeyBatch::restore(types, reader)?,
        })
    }
}

impl Rule for Periodic {
    type State = Timed;

    /// A chunk that finds the boundary passed counts into the old batch
    /// (`UniqueTimeBatchWindowProcessor`).
    fn process(
        &mut self,
        state: &mut Timed,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Timed { rows, next } = state;
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            let is_over = self.period.passes(next, clock, context);
            let mut visit = Visit::of_batch(&mut rows.pool, batch, out);
            let all = (batch, batch.chunk(chunk));
            collect(
                (&mut rows.keys, &mut visit),
                &mut self.key,
                all,
                self.keeps_first,
                None,
            );
            visit.finish();
            if is_over {
                rows.flush(clock, out);
            }
        }
    }

    fn on_timer(
        &mut self,
        state: &mut Timed,
        _due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        if self.period.passes(&mut state.next, context.now, context) {
            state.rows.flush(context.now, out);
        }
    }

    /// The batch before.
    fn content<'s>(&self, state: &'s Timed) -> Option<Held<'s>> {
        Some(Held::from(state.rows.previous_rows()))
    }

    fn held(&self, state: &Timed) -> usize {
        state.rows.held(self.expired_wanted)
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_batch_has_a_row_of_each_key() {
        let case = Case::new("unique:timeBatch", &[t(), long(100)]);
        check(
            &case,
            "1~7@0 2~7@10 3~8@20 4~8@110 tick@999",
            "C2@100 C3@100 | E2@200 E3@200 R C4@200 | E4@300",
        );
        check_content(&case, "1~7@0 2~8@10 3~8@120", "1 2", 3);
        check(
            &Case::new("unique:firstTimeBatch", &[t(), long(100), int(30)]),
            "1~7@100 2~7@110 3~8@120 tick@199",
            "C1@130 C3@130",
        );
    }

    #[test]
    fn a_time_of_zero_is_refused() {
        assert!(Case::new("unique:timeBatch", &[t(), long(0)]).is_refused());
    }
}
