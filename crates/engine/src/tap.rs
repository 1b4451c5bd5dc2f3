//! Taps: somebody looks at the rows of a running app.
//!
//! A tap stands at a stream, at what a named window emits, or behind a query. Promises: it changes
//! nothing that the app does, gives or saves; it copies no more rows than it was last allowed
//! ([`Tap::allow`]) and evaluates its condition no longer than it may ([`Tap::rest`]), so that whoever
//! holds the clock bounds what it costs; a batch that it does not look at costs it one addition. Where
//! there is no tap, a junction asks one flag a batch, and the fast path nothing: a stream with a tap is
//! none of its streams.
//!
//! Never: I/O, a clock, or a row that the app still holds. What was picked is a copy.

use event::{Batch, Chunks, Schema};
use plan::{Expr, Plan, QueryId, StreamId};

use crate::component::{AppEnvironment, EvalContext};
use crate::error::Error;
use crate::expr::{Expression, Inputs, Layout, ROW, RowRoom};
use crate::stamp::stamped;
use crate::step::Step;
use crate::table::ConditionContext;

/// The row that a condition sees is input 0.
const INPUT: u16 = 0;

/// Rows from which on every evaluation is timed, and how seldom a smaller one is: then it counts for
/// so many.
const MANY: usize = 64;
const ONE_IN: u64 = 16;

/// Where a tap looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapPoint {
    /// What a stream takes, or by its junction what a named window emits.
    Stream(StreamId),
    /// What a query emits, before it is written or inserted.
    Query(QueryId),
}

/// What a tap has seen since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TapCounts {
    /// Rows that passed.
    pub seen: u64,
    /// Rows that passed while the tap did not look.
    pub unexamined: u64,
    /// Rows that were looked at and fit the condition.
    pub matched: u64,
    /// Rows of them that were picked.
    pub picked: u64,
    /// Rows on which the condition failed; they do not fit.
    pub failed: u64,
}

/// A look at the rows that pass a place.
pub struct Tap {
    pub(crate) id: u64,
    condition: Option<Expression>,
    room: RowRoom,
    /// Of random numbers in the condition: those of the app are its own.
    seed: u64,
    rows_left: usize,
    is_resting: bool,
    counts: TapCounts,
    /// Times at which the condition was evaluated, and for how long, nanoseconds.
    calls: u64,
    nanos: u64,
    picked: Vec<Batch>,
}

/// The moment at which rows pass.
pub(crate) struct Moment<'a> {
    pub now: i64,
    pub wall: i64,
    pub environment: &'a AppEnvironment,
}

impl Tap {
    /// A tap on rows of a schema, with a condition that was checked against it. It may not pick
    /// anything yet.
    ///
    /// # Errors
    /// If the condition asks for something else than a row.
    pub fn new(
        id: u64,
        plan: &Plan,
        schema: &Schema,
        condition: Option<&Expr>,
    ) -> Result<Tap, Error> {
        let mut context = ConditionContext::new(&plan.tables);
        let row = Layout::whole(INPUT, ROW, schema.attributes.len());
        let condition = condition.map(|expr| context.expression(expr, &row));
        Ok(Tap {
            id,
            condition: condition.transpose()?,
            room: RowRoom::default(),
            seed: id,
            rows_left: 0,
            is_resting: false,
            counts: TapCounts::default(),
            calls: 0,
            nanos: 0,
            picked: Vec::new(),
        })
    }

    /// How many rows it may pick from here on.
    pub fn allow(&mut self, rows: usize) {
        self.rows_left = rows;
    }

    /// Rows that it may still pick.
    pub fn rows_left(&self) -> usize {
        self.rows_left
    }

    /// Looks at nothing from here on, or goes on looking.
    pub fn rest(&mut self, is_resting: bool) {
        self.is_resting = is_resting;
    }

    /// How long it has evaluated its condition, nanoseconds by the host's stopwatch; estimated from a
    /// part of the calls.
    pub fn nanos(&self) -> u64 {
        self.nanos
    }

    pub fn counts(&self) -> TapCounts {
        self.counts
    }

    /// What was picked since it was last asked, in order.
    pub fn take(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.picked)
    }

    /// Rows pass.
    pub(crate) fn look(
        &mut self,
        batch: &Batch,
        moment: &Moment<'_>,
        nanos: &mut dyn FnMut() -> u64,
    ) {
        self.counts.seen += batch.len as u64;
        if self.rows_left == 0 || self.is_resting && self.condition.is_some() {
            self.counts.unexamined += batch.len as u64;
            return;
        }
        let Some(condition) = &mut self.condition else {
            self.counts.matched += batch.len as u64;
            let rows: Vec<u32> = (0..batch.len.min(self.rows_left) as u32).collect();
            return self.pick(batch, &rows, moment);
        };
        self.calls += 1;
        let weight = match batch.len {
            MANY.. => 1,
            _ if self.calls % ONE_IN == 1 => ONE_IN,
            _ => 0,
        };
        let begun = (weight > 0).then(&mut *nanos);
        let mut failures = Vec::new();
        let context = &mut EvalContext::new(
            moment.now,
            moment.wall,
            &batch.times,
            moment.environment,
            &mut self.seed,
            &mut failures,
        );
        let inputs = Inputs::of(&batch.columns, batch.len);
        let mut rows: Vec<u32> = match condition.holds(&inputs) {
            Some(holds) => (0..u32::from(holds)).collect(),
            None => condition.rows(&inputs, context, &mut self.room).to_vec(),
        };
        if !failures.is_empty() {
            failures.sort_by_key(|f| f.row);
            failures.dedup_by_key(|f| f.row);
            let is_failed = |row: &u32| failures.binary_search_by_key(row, |f| f.row).is_ok();
            rows.retain(|row| !is_failed(row));
            self.counts.failed += failures.len() as u64;
        }
        if let Some(begun) = begun {
            let took = nanos().saturating_sub(begun);
            self.nanos = self.nanos.saturating_add(took.saturating_mul(weight));
        }
        self.counts.matched += rows.len() as u64;
        rows.truncate(self.rows_left);
        self.pick(batch, &rows, moment);
    }

    fn pick(&mut self, batch: &Batch, rows: &[u32], moment: &Moment<'_>) {
        if rows.is_empty() {
            return;
        }
        self.rows_left -= rows.len();
        self.counts.picked += rows.len() as u64;
        let columns = batch.columns.iter().map(|c| c.gather(rows)).collect();
        let times = batch.times.gather(rows);
        let picked = Batch::new(columns, rows.len(), times, Chunks::One, moment.now);
        // Rows of a source have no time yet.
        let mut picked = stamped(picked, moment.now, moment.wall);
        let expired = batch.expired.as_ref();
        picked.expired = expired.map(|e| rows.iter().map(|&row| e[row as usize]).collect());
        self.picked.push(picked);
    }
}

/// Rows pass all taps of a place.
#[cold]
pub(crate) fn look_all(
    taps: &mut [Tap],
    batch: &Batch,
    moment: &Moment<'_>,
    nanos: &mut dyn FnMut() -> u64,
) {
    for tap in taps {
        tap.look(batch, moment, nanos);
    }
}

/// Rows that a query emits pass its taps.
#[cold]
pub(crate) fn pass(taps: &mut [Tap], batch: &Batch, step: &mut Step<'_>) {
    let moment = Moment {
        now: step.now,
        wall: step.wall,
        environment: step.environment,
    };
    let host = &mut *step.host;
    look_all(taps, batch, &moment, &mut || host.nanos());
}
