//! What a window, aggregator or function is to the engine.
//!
//! Each kind is a `&dyn` constant in the slice of its folder's `mod.rs`. It carries its spec and
//! makes, for one place in an app, an operator that holds the state of that place for all
//! partition keys.
//!
//! Never here: clocks, threads, I/O. Time arrives in the contexts.

use std::ops::Range;

use crate::emission::{Emission, SlideStep};
use crate::kept::{Held, Queue};
use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, ColumnBuilder, ScalarRef, Schema, Times, Type, Value};
use jiff::tz::TimeZone;
use plan::spec::FunctionSpec;

/// Dense number of a partition key; 0 outside partitions. State of a place is kept per key.
pub type Key = u32;

/// Dense number of a (partition key, group key) pair of one query. Numbers are reused after
/// `remove`.
pub type Group = u32;

/// An argument as known when the plan is made.
#[derive(Clone, Debug)]
pub struct Argument {
    pub ty: Type,
    /// Its value, where it is a literal.
    pub constant: Option<Value>,
    /// Its index in the row, where it is a plain attribute.
    pub attribute: Option<usize>,
}

impl Argument {
    /// The value of an integral constant (INT, LONG, time).
    pub fn constant_long(&self) -> Option<i64> {
        match self.constant {
            Some(Value::Int(v)) => Some(i64::from(v)),
            Some(Value::Long(v)) => Some(v),
            _ => None,
        }
    }
}

/// A component refuses its arguments: a fault in the app, found when it is made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

// ---- scalar functions ----

/// A scalar function, by name in `function::FUNCTIONS`.
pub trait Function: Sync {
    fn spec(&self) -> &'static FunctionSpec;
    fn bind(&self, args: &[Argument]) -> Result<Box<dyn Evaluate>, Refused>;
}

/// One call site of a scalar function.
pub trait Evaluate: Send {
    /// One result per row. A row that fails is reported by [`EvalContext::fail`] and gets null.
    fn evaluate(&mut self, args: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column;

    /// May a row fail? If so, a right side of `and`, `or` or `ifThenElse` is evaluated only on the
    /// rows that need it.
    fn is_fallible(&self) -> bool {
        true
    }

    /// Call sites with state (`math:rand`) save it here.
    fn save(&self, _writer: &mut Writer) {}

    fn restore(&mut self, _reader: &mut Reader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

/// What an expression may ask of its surroundings.
pub struct EvalContext<'a> {
    /// Application clock, milliseconds.
    pub now: i64,
    /// Wall clock, milliseconds; differs from `now` in playback.
    pub wall: i64,
    /// Timestamps of the rows, for `eventTimestamp()`.
    pub times: &'a Times,
    /// Facts of the app that functions may ask for.
    pub environment: &'a AppEnvironment,
    /// State of the generator behind `UUID()`; part of the snapshot.
    pub seed: &'a mut u64,
    failures: &'a mut Vec<Failure>,
    /// Row of the whole batch for each row seen, while only some rows are evaluated.
    rows: Option<&'a [u32]>,
}

/// The first thing that went wrong in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub row: u32,
    pub message: String,
}

/// Facts of the app and its surroundings that never change while it runs.
#[derive(Clone, Debug, Default)]
pub struct AppEnvironment {
    pub app: String,
    /// IANA name of the zone that `time:*` functions use; empty for UTC.
    pub zone: String,
    /// `@app:compat('siddhi-5.1')`.
    pub compat: bool,
    /// Runs the app's script functions; without it an app that has some is refused.
    pub scripts: Option<&'static dyn crate::script::ScriptEngine>,
    /// How the texts of `expression` windows are read: as the plan says.
    pub conditions: plan::ContentConditions,
}

impl AppEnvironment {
    /// The zone by whose clock cron expressions are read; UTC where it has no known name.
    pub fn time_zone(&self) -> TimeZone {
        TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC)
    }
}

impl<'a> EvalContext<'a> {
    pub fn new(
        now: i64,
        wall: i64,
        times: &'a Times,
        environment: &'a AppEnvironment,
        seed: &'a mut u64,
        failures: &'a mut Vec<Failure>,
    ) -> EvalContext<'a> {
        EvalContext {
            now,
            wall,
            times,
            environment,
            seed,
            failures,
            rows: None,
        }
    }

    /// The row fails: its chunk will not leave the query.
    pub fn fail(&mut self, row: usize, message: impl Into<String>) {
        let row = self.rows.map_or(row as u32, |rows| rows[row]);
        self.failures.push(Failure {
            row,
            message: message.into(),
        });
    }

    /// Number of failures so far.
    pub(crate) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// Rows before the first that has failed since there were `from` failures.
    pub(crate) fn sound_rows(&self, from: usize, rows: usize) -> usize {
        let failed = self.failures[from..].iter().map(|f| f.row as usize);
        failed.min().unwrap_or(rows)
    }

    /// Adds to the messages of the failures from number `from` on.
    pub(crate) fn explain_failures(&mut self, from: usize, more: &str) {
        for failure in &mut self.failures[from..] {
            failure.message.push_str(more);
        }
    }

    /// Has this row of those being evaluated failed already?
    pub fn has_failed(&self, row: usize) -> bool {
        let row = self.whole_row(row);
        self.failures.iter().any(|f| f.row == row)
    }

    /// Timestamp of a row of those being evaluated.
    pub fn time(&self, row: usize) -> i64 {
        self.times
            .at(self.rows.map_or(row, |rows| rows[row] as usize))
    }

    /// The same surroundings for some rows of those being evaluated: `rows` are numbers in the
    /// whole batch.
    pub fn narrowed<'b>(&'b mut self, rows: &'b [u32]) -> EvalContext<'b> {
        EvalContext {
            now: self.now,
            wall: self.wall,
            times: self.times,
            environment: self.environment,
            seed: &mut *self.seed,
            failures: &mut *self.failures,
            rows: Some(rows),
        }
    }

    /// Number in the whole batch of a row of those being evaluated.
    pub fn whole_row(&self, row: usize) -> u32 {
        self.rows.map_or(row as u32, |rows| rows[row])
    }
}

// ---- aggregators ----

/// An aggregator, by name in `aggregator::AGGREGATORS`.
pub trait Aggregator: Sync {
    fn spec(&self) -> &'static FunctionSpec;

    /// `tracks`: values are kept where there is no inverse, so that what is left is known when one
    /// leaves. As in Siddhi they are not for EXPIRED rows of a `session` or of a named window where
    /// only CURRENT ones are asked for (`trackFutureStates`).
    fn bind(&self, args: &[Argument], tracks: bool) -> Result<Box<dyn Aggregate>, Refused>;
}

/// One occurrence of an aggregator in a query: its state for every group.
///
/// The order of float operations is the order of the rows: no re-association.
pub trait Aggregate: Send {
    /// For each row of the range: add it (CURRENT) or remove it (EXPIRED) in its group, then append
    /// the group's value to `out`. Groups not seen before start empty.
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder);

    /// Can it follow a sliding window by [`Aggregate::slide`]? Then a group that is empty holds
    /// nothing of any row that may still leave.
    fn slides(&self) -> bool {
        false
    }

    /// As [`Aggregate::scan`] over the rows that leave and arrive, in their order, with a value for
    /// each that arrives alone. Groups of which nothing may be left are appended to `emptied`.
    fn slide(
        &mut self,
        _scan: &SlideScan<'_>,
        _out: &mut ColumnBuilder,
        _emptied: &mut Vec<Group>,
    ) {
    }

    /// As [`Aggregate::slide`], of a row that arrives alone, after the one that leaves for it if one
    /// does: the value for the one that arrives.
    fn slide_one(
        &mut self,
        _left: Option<&SlideRow<'_>>,
        _arrived: &SlideRow<'_>,
        _emptied: &mut Vec<Group>,
    ) -> ScalarRef<'static> {
        unreachable!("an aggregator that slides does so by single rows as well")
    }

    /// It stands in a query with groups or in a partition: Siddhi gives the state of a group up with
    /// the row that leaves nothing of it (`PartitionStateHolder`), while that of a query without
    /// either stays.
    fn forget_empty(&mut self) {}

    /// Back to empty, on RESET and when a group number is given back.
    fn clear(&mut self, group: Group);

    /// Nothing is left of the group, so that its number may be given back (`canDestroy`).
    fn is_empty(&self, group: Group) -> bool;

    /// These numbers, whole pages of them, are all given back: their memory is not needed.
    fn release(&mut self, _groups: Range<Group>) {}

    /// Heap bytes of all groups, as far as they are known without looking into each.
    fn bytes(&self) -> usize {
        0
    }

    /// State of one group, versioned by the first byte.
    fn save(&self, group: Group, writer: &mut Writer);

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError>;
}

/// The rows of one scan.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    pub args: &'a [Column],
    pub start: usize,
    pub end: usize,
    pub groups: Groups<'a>,
    /// True where the row is EXPIRED.
    pub expired: Option<&'a [bool]>,
}

/// What happens in a sliding window.
#[derive(Clone, Copy)]
pub struct SlideScan<'a> {
    pub steps: &'a [SlideStep],
    pub leaving: SlideRows<'a>,
    pub arriving: SlideRows<'a>,
}

/// Rows on one side of a sliding window, in order.
#[derive(Clone, Copy)]
pub struct SlideRows<'a> {
    /// Of an aggregator with an argument; no column of mixed values.
    pub arg: Option<&'a Column>,
    pub groups: Groups<'a>,
}

/// One row on one side of a sliding window. What its argument is, is looked up where it lies: values
/// handed on by many hands cost more than what is done with them.
#[derive(Clone, Copy)]
pub struct SlideRow<'a> {
    pub group: Group,
    /// Of an aggregator with an argument, as in [`SlideRows`].
    pub arg: Option<&'a Column>,
    pub row: usize,
}

#[derive(Clone, Copy)]
pub enum Groups<'a> {
    One(Group),
    PerRow(&'a [Group]),
}

// ---- stream processors ----

/// A stream processor (`#ns:name(…)`), by name in `processor::PROCESSORS`.
pub trait Processor: Sync {
    fn spec(&self) -> &'static FunctionSpec;
    fn bind(&self, setup: &ProcessorSetup<'_>) -> Result<Box<dyn ProcessorOperator>, Refused>;
}

/// What a stream processor is told when the plan is made.
pub struct ProcessorSetup<'a> {
    pub args: &'a [Argument],
    /// Types of the row that comes in.
    pub types: &'a [event::Type],
    /// Types of the attributes that it adds behind them.
    pub adds: &'a [event::Type],
    /// It stands in a partition.
    pub is_partitioned: bool,
    pub environment: &'a AppEnvironment,
}

/// One stream processor of an app: its state, if it has any, for every partition key.
///
/// It takes chunks and gives chunks: rows may be dropped, multiplied, held back and put in another
/// order, and get the added attributes. What it gives has the columns that came in and, behind
/// them, those it adds.
pub trait ProcessorOperator: Send {
    /// Takes a batch of one key, rows CURRENT and EXPIRED, with a column per argument; `None` where
    /// nothing leaves. A row that fails is reported in `context.failures`.
    fn process(
        &mut self,
        key: Key,
        batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch>;

    /// A deadline is due; as [`WindowOperator::on_timer`].
    fn on_timer(
        &mut self,
        _key: Key,
        _due: i64,
        _context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        None
    }

    /// The state of a key begins; as [`WindowOperator::start`].
    fn start(&mut self, _key: Key, _context: &mut WindowContext<'_>) {}

    /// What a row gives depends on those before it.
    fn has_state(&self) -> bool {
        false
    }

    fn is_fallible(&self) -> bool {
        true
    }

    /// Rows that a due timer would still emit, for `held_in_windows`.
    fn held(&self, _key: Key) -> usize {
        0
    }

    /// Heap bytes of a key's state.
    fn bytes(&self, _key: Key) -> usize {
        0
    }

    fn remove(&mut self, _key: Key) {}

    /// State of one key, versioned by the first byte. Deadlines are saved by the engine.
    fn save(&self, _key: Key, _writer: &mut Writer) {}

    fn restore(&mut self, _key: Key, _reader: &mut Reader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

// ---- windows ----

/// A window, by name in `window::WINDOWS`.
pub trait Window: Sync {
    fn spec(&self) -> &'static FunctionSpec;
    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused>;
}

/// What a window is told when the plan is made.
pub struct WindowSetup<'a> {
    pub args: &'a [Argument],
    /// The rows it will see: only attributes used behind it or by its own arguments.
    pub schema: &'a Schema,
    /// Columns that the query selects as they are, in the order in which it does.
    pub selected: &'a [usize],
    /// EXPIRED rows are asked for: by the output clause, a join, or as a named window.
    pub expired_wanted: bool,
    /// Its content will be searched by a join or on demand.
    pub is_searched: bool,
    /// It has a state for each key of a partition.
    pub is_partitioned: bool,
    pub environment: &'a AppEnvironment,
}

/// One window of an app: its state for every partition key.
///
/// Rows that are kept are copied into storage of the window's own, so that they never pin a
/// decoder's buffers; emitted batches may share the window's storage.
pub trait WindowOperator: Send {
    /// Takes a batch of CURRENT rows of one key, chunk by chunk, and appends what it emits to
    /// `out`, a chunk per emission. Deadlines are set by [`WindowContext::notify`].
    fn process(
        &mut self,
        key: Key,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    );

    /// A deadline is due; `context.now` is the clock at which it is served, which in playback may
    /// be later than `due`.
    fn on_timer(&mut self, key: Key, due: i64, context: &mut WindowContext<'_>, out: &mut Emission);

    /// The state of a key begins: when the app starts, or when a partition key appears.
    fn start(&mut self, _key: Key, _context: &mut WindowContext<'_>) {}

    /// Where it stands in a partition and one job serves all keys, from the start of the app on: when
    /// the job runs next behind `after`. Such a window sets no deadlines.
    fn job_after(&self, _after: i64) -> Option<i64> {
        None
    }

    /// Its deadlines are times of the wall clock, in playback too.
    fn follows_wall(&self) -> bool {
        false
    }

    /// May a row fail in it?
    fn is_fallible(&self) -> bool {
        true
    }

    /// Columns that must not be null: a row in which one is fails, and its chunk with it.
    fn needed(&self) -> &[usize] {
        &[]
    }

    /// What a join or an on-demand query finds, in storage order; `None` where nothing is kept.
    fn content(&self, key: Key) -> Option<Held<'_>>;

    /// Rows that a due timer would still emit, for `held_in_windows`.
    fn held(&self, key: Key) -> usize;

    /// Is a RESET that it emits a copy of the CURRENT row behind it? Then a filter behind the window
    /// drops the two together, and aggregates go on over the end of the batch.
    fn resets_as_next(&self) -> bool {
        false
    }

    /// The window as one that emits every row once as CURRENT when it arrives, and later once as EXPIRED, in
    /// the order of arrival. `None` for any other, always.
    fn sliding(&mut self) -> Option<&mut dyn Sliding> {
        None
    }

    /// Heap bytes of a key's state.
    fn bytes(&self, key: Key) -> usize;

    /// Chunks of rows whose timestamps are not before the clock of the first of them set no
    /// deadline earlier than this many milliseconds behind that clock. In playback as many chunks
    /// travel in one batch; with 0 each is a batch of its own.
    fn delay_min(&self) -> i64 {
        0
    }

    fn remove(&mut self, key: Key);

    /// The rows of a key, where they lie in a queue. [`WindowOperator::save`] leaves out its closed
    /// segments, which are saved once and not each time the key has changed.
    fn queue(&self, _key: Key) -> Option<&Queue> {
        None
    }

    fn queue_mut(&mut self, _key: Key) -> Option<&mut Queue> {
        None
    }

    /// State of one key, versioned by the first byte. Deadlines are saved by the engine.
    fn save(&self, key: Key, writer: &mut Writer);

    fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError>;
}

/// A window through which each row slides once: what aggregators behind it can follow without its EXPIRED
/// rows.
pub trait Sliding {
    /// Rows between CURRENT and EXPIRED.
    fn rows(&self, key: Key) -> usize;

    /// As [`WindowOperator::process`], for a batch of one row that arrives while at most one leaves, which
    /// [`Queue::left`] of its queue then shows. `None`, and nothing has happened, where it is not so simple.
    fn slide_one(
        &mut self,
        key: Key,
        batch: &Batch,
        context: &mut WindowContext<'_>,
    ) -> Option<OneArrived>;
}

/// A row has arrived alone in a sliding window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneArrived {
    /// Rows in the window before.
    pub held: usize,
    /// One has left for it.
    pub leaves: bool,
}

/// The clock, and the one way to be called back.
pub struct WindowContext<'a> {
    /// Application clock of the call; a batch carries a clock per chunk ([`Batch::clock_at`]).
    pub now: i64,
    pub wall: i64,
    /// Deadlines set during the call; the engine arms one timer per window and key.
    pub deadlines: &'a mut Vec<i64>,
    pub failures: &'a mut Vec<Failure>,
}

impl WindowContext<'_> {
    /// Ask for [`WindowOperator::on_timer`] at `time`.
    pub fn notify(&mut self, time: i64) {
        self.deadlines.push(time);
    }
}
