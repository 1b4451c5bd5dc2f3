//! Incremental aggregations: events are gathered in buckets of the finest duration, closed buckets
//! go into their table and on into the bucket of the next longer duration.
//!
//! Promises: what is read at any moment is what Siddhi reads, table rows and open buckets together;
//! an event costs one look-up of its group and one update per column, whatever the number of
//! durations. A bucket is closed by the application clock: by the event that comes after its end, or
//! by a timer, which is armed only while a bucket holds something.
//!
//! Never: events that arrive late are never left out. With `aggregate by` a bucket has a row for
//! each group and each bucket of the event's own time, which are put together when it is read.

mod calendar;
mod cells;
mod keep;
mod range;
mod read;
mod state;

use std::sync::Arc;

use event::{Batch, Column, Schema, Value};
use jiff::tz::TimeZone;
use lang::ast::Duration;
use plan::{AggregationPurge, AggregationRead, ColumnKind, Plan};

use crate::component::{AppEnvironment, Failure, Groups};
use crate::error::Error;
use crate::expr::{COMPUTED, Compiler, Expression, Inputs, Site};
use crate::query::{Chain, Place, Used, compute_sites};
use crate::step::{Broken, Step};
use crate::table::ConditionContext;
use crate::timers::{OperatorId, Owner, Timers};
use calendar::{end_of, start_of};
use cells::{Arg, Cells, Shape};
use keep::Keep;
pub(crate) use range::BucketRange;
pub(crate) use read::{Contents, RangeOf};

/// Row of the input of all expressions.
const INPUT: plan::InputId = 0;

pub(crate) struct Aggregation {
    pub name: String,
    chain: Chain,
    /// Running aggregators inside the expressions of last values.
    sites: Vec<Site>,
    args: Vec<Source>,
    by: Option<Expression>,
    zone: TimeZone,
    shape: Arc<Shape>,
    levels: Vec<Level>,
    reads: Vec<AggregationRead>,
    /// Of what is read.
    schema: Schema,
    /// Nothing comes through: with handlers in front Siddhi's `AggregationParser` links the last of
    /// them to nothing.
    is_cut_off: bool,
    is_sharded: bool,
    purge: Option<AggregationPurge>,
    purge_operator: Option<OperatorId>,
    /// Open buckets have been made again from what the store keeps.
    is_rebuilt: bool,
    /// Wall clock of the start, from which looks for what is to be purged are counted.
    purge_base: i64,
    is_purge_armed: bool,
    /// With compat: Siddhi has met rows that are not in the next longer duration, and purges no more.
    is_purge_halted: bool,
    /// Why a table could not be written, since the last report.
    trouble: Option<String>,
    /// Something may have changed since it was saved.
    pub is_dirty: bool,
}

/// Where the values of a column come from.
enum Source {
    Nothing,
    One,
    /// The event's own time.
    EventTime,
    Value(Expression),
    Elements(Expression),
}

/// One duration.
struct Level {
    duration: Duration,
    keep: Keep,
    operator: OperatorId,
    /// The timer is armed for the end of the bucket.
    is_armed: bool,
    cells: Cells,
    /// Start of the bucket that `cells` hold.
    bucket: i64,
    /// Start of the bucket of the last event or timer; -1 before the first.
    start: i64,
    /// End of that bucket.
    end: i64,
}

/// Before the first event, as Siddhi's `IncrementalExecutor` has it.
const NEVER: i64 = -1;

impl Aggregation {
    pub fn new(
        id: plan::AggregationId,
        plan: &Plan,
        environment: &AppEnvironment,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<Aggregation, Error> {
        let definition = &plan.aggregations[id];
        let mut used = Used::new(definition.input.schema.attributes.len());
        used.selector(&definition.selector, INPUT);
        definition.by.iter().for_each(|by| used.expr(by, INPUT));
        let place = Place {
            owner: Owner::Aggregation {
                aggregation: id,
                level: 0,
            },
            is_joined: false,
            is_partitioned: false,
            expired_wanted: false,
            is_searched: false,
            environment,
        };
        let (chain, layout) = Chain::new(&definition.input, INPUT, &used, place, timers, context)?;
        let mut sites = Vec::new();
        let mut compiler = Compiler {
            layout,
            sites: &mut sites,
            tracks: false,
            tables: context,
        };
        let args = definition
            .columns
            .iter()
            .map(|column| {
                Ok(match &column.kind {
                    ColumnKind::Time | ColumnKind::Shard | ColumnKind::EventTime => Source::Nothing,
                    ColumnKind::LastEventTime => Source::EventTime,
                    ColumnKind::Count => Source::One,
                    ColumnKind::Set(expr) => Source::Elements(compiler.compile(expr)?),
                    ColumnKind::Key(expr)
                    | ColumnKind::Last(expr)
                    | ColumnKind::Sum(expr)
                    | ColumnKind::Min(expr)
                    | ColumnKind::Max(expr) => Source::Value(compiler.compile(expr)?),
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let by = definition
            .by
            .as_ref()
            .map(|by| compiler.compile(by))
            .transpose()?;
        let zone = crate::function::time::calendar::zone(&definition.zone);
        let zone = zone.ok_or_else(|| Error::Refused {
            kind: "aggregation",
            name: definition.name.clone(),
            reason: format!("there is no time zone '{}'", definition.zone),
            span: definition.span,
        })?;
        let shape = Arc::new(Shape::new(&definition.columns, definition.shard.as_deref()));
        let levels = definition
            .durations
            .iter()
            .zip(&definition.tables)
            .enumerate()
            .map(|(level, (&duration, &table))| Level {
                duration,
                operator: timers.add_operator(Owner::Aggregation {
                    aggregation: id,
                    level,
                }),
                is_armed: false,
                keep: Keep::new(table, &shape, context),
                cells: Cells::new(&shape),
                bucket: NEVER,
                start: NEVER,
                end: NEVER,
            })
            .collect();
        Ok(Aggregation {
            name: definition.name.clone(),
            chain,
            sites,
            args,
            by,
            zone,
            levels,
            reads: definition.reads.clone(),
            schema: definition.schema.clone(),
            is_cut_off: environment.compat && !definition.input.handlers.is_empty(),
            is_sharded: definition.shard.is_some(),
            purge: definition.purge.clone(),
            purge_operator: definition
                .purge
                .as_ref()
                .map(|_| timers.add_operator(Owner::AggregationPurge { aggregation: id })),
            is_rebuilt: false,
            purge_base: 0,
            is_purge_armed: false,
            is_purge_halted: false,
            trouble: None,
            is_dirty: true,
            shape,
        })
    }

    /// Must rows come chunk by chunk, because [`Aggregation::prepare`] leaves traces even where it
    /// fails?
    pub fn wants_chunks(&self) -> bool {
        !self.sites.is_empty() || self.chain.has_effects_before()
    }

    /// Evaluates what an aggregation keeps of rows of the stream it reads; `None` where no row
    /// passes. A failure leaves everything as it was, unless it [wants chunks](Self::wants_chunks).
    pub fn prepare(
        &mut self,
        batch: Batch,
        step: &mut Step<'_>,
    ) -> Result<Option<Prepared>, Broken> {
        self.is_dirty = true;
        let rows = self.chain.process(batch, 0, step)?;
        let Some(rows) = rows.filter(|_| !self.is_cut_off) else {
            return Ok(None);
        };
        let mut failures = Vec::new();
        let (args, times) = self.evaluate(&rows, step, &mut failures);
        match failures.into_iter().min_by_key(|f| f.row) {
            Some(failure) => Err(Broken::at("aggregation".to_owned(), failure.message)),
            None => Ok(Some(Prepared { rows, args, times })),
        }
    }

    /// Adds rows to their buckets.
    pub fn take(&mut self, prepared: Prepared, step: &mut Step<'_>) -> Result<(), Broken> {
        self.is_dirty = true;
        let Prepared { rows, args, times } = prepared;
        let mut chunk = 0;
        while chunk < rows.chunk_count() {
            let clock = rows.clock_at(chunk);
            let start = rows.chunk(chunk).start;
            while chunk < rows.chunk_count() && rows.clock_at(chunk) == clock {
                chunk += 1;
            }
            let end = rows.chunk(chunk - 1).end;
            if start == end {
                continue;
            }
            self.rebuild(step, clock);
            self.arrive(0, clock, step);
            let starts = self.starts(0, times.get(start..end).unwrap_or(&[]));
            self.levels[0].cells.add(&args, start..end, &starts);
        }
        self.arm(step);
        self.settle()
    }

    /// The values of each column, and the event's own times.
    fn evaluate(
        &mut self,
        rows: &Batch,
        step: &mut Step<'_>,
        failures: &mut Vec<Failure>,
    ) -> (Vec<Arg>, Vec<i64>) {
        let computed = if self.sites.is_empty() {
            Vec::new()
        } else {
            // Siddhi never resets them, and has one for all groups.
            compute_sites(&mut self.sites, rows, Groups::One(0), step, failures)
        };
        let inputs = Inputs::of(&rows.columns, rows.len).with(COMPUTED, &computed);
        let mut context = step.evaluation(rows, failures);
        let mut times = Vec::new();
        if let Some(by) = &mut self.by {
            let column = by.column(&inputs, &mut context);
            times.reserve(rows.len);
            for row in 0..rows.len {
                times.push(match calendar::time_of(&column.value(row)) {
                    Ok(time) => time,
                    Err(message) => {
                        context.fail(row, message);
                        0
                    }
                });
            }
        }
        let args = self
            .args
            .iter_mut()
            .map(|arg| match arg {
                Source::Nothing | Source::One => Arg::One,
                Source::EventTime => Arg::Column(Column::longs_from(times.clone())),
                Source::Value(e) => Arg::Column(e.column(&inputs, &mut context)),
                Source::Elements(e) => Arg::Elements(e.column(&inputs, &mut context)),
            })
            .collect();
        (args, times)
    }

    /// Starts of the buckets of a level that hold these times.
    fn starts(&self, level: usize, times: &[i64]) -> Vec<i64> {
        let duration = self.levels[level].duration;
        // Neighbours mostly share their bucket.
        let (mut start, mut end) = (0, 0);
        let starts = times.iter().map(|&time| {
            if !(start..end).contains(&time) {
                start = start_of(time, duration, &self.zone);
                end = end_of(time, duration, &self.zone);
            }
            start
        });
        starts.collect()
    }

    /// An event or timer of this time comes to a level: buckets that ended before it are closed.
    fn arrive(&mut self, level: usize, time: i64, step: &mut Step<'_>) {
        let Some(this) = self.levels.get_mut(level) else {
            return;
        };
        this.start = start_of(time, this.duration, &self.zone);
        if time < this.end {
            return;
        }
        this.end = end_of(time, this.duration, &self.zone);
        let start = this.start;
        self.close(level, step);
        self.levels[level].bucket = start;
        self.arrive(level + 1, start, step);
    }

    /// The bucket goes into its table, and into that of the next longer duration.
    fn close(&mut self, level: usize, step: &mut Step<'_>) {
        let this = &mut self.levels[level];
        if this.cells.is_empty() {
            return;
        }
        let bucket = this.bucket;
        let columns = this.cells.rows(bucket);
        this.cells.clear();
        if let Err(message) = this.keep.insert(&columns, step) {
            self.trouble.get_or_insert(message);
        }
        self.arm_purge(step);
        self.take_rows(level + 1, bucket, &columns, step);
    }

    /// Rows of one bucket of the next finer duration come to a level.
    fn take_rows(&mut self, level: usize, time: i64, columns: &[Column], step: &mut Step<'_>) {
        if level >= self.levels.len() {
            return;
        }
        self.arrive(level, time, step);
        self.add_rows(level, columns);
    }

    fn add_rows(&mut self, level: usize, columns: &[Column]) {
        let rows = columns.first().map_or(0, Column::len);
        let starts = self.starts(level, &self.event_times(columns));
        let args = self.shape.args(columns);
        self.levels[level].cells.add(&args, 0..rows, &starts);
    }

    /// `AGG_EVENT_TIMESTAMP` of rows; nothing without `aggregate by`.
    fn event_times(&self, columns: &[Column]) -> Vec<i64> {
        self.shape
            .event_time
            .map_or_else(Vec::new, |at| times_of(&columns[at]))
    }

    /// The timer has come to the end of a bucket.
    pub fn on_timer(&mut self, level: usize, step: &mut Step<'_>) -> Result<(), Broken> {
        self.is_dirty = true;
        self.levels[level].is_armed = false;
        self.catch_up(step);
        self.arm(step);
        self.settle()
    }

    /// Siddhi's timer comes at every end of the finest bucket. Here it comes only where something
    /// is to be closed; what it would have done else is done when somebody looks.
    fn catch_up(&mut self, step: &mut Step<'_>) {
        let first = &self.levels[0];
        if first.start == NEVER && self.levels.iter().all(|l| l.cells.is_empty()) {
            return;
        }
        if step.now >= first.end {
            let time = start_of(step.now, first.duration, &self.zone);
            self.arrive(0, time, step);
        }
    }

    /// Arms the timers for the ends of buckets that hold something.
    fn arm(&mut self, step: &mut Step<'_>) {
        for level in &mut self.levels {
            if !level.is_armed && !level.cells.is_empty() {
                level.is_armed = true;
                step.timers.notify(level.operator, 0, level.end, step.now);
            }
        }
    }

    /// What went wrong with a table, once.
    fn settle(&mut self) -> Result<(), Broken> {
        match self.trouble.take() {
            Some(message) => Err(Broken::at("table of the aggregation".to_owned(), message)),
            None => Ok(()),
        }
    }

    /// Heap bytes of open buckets.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.cells.bytes()).sum()
    }
}

/// Rows with what an aggregation keeps of them.
pub(crate) struct Prepared {
    rows: Batch,
    args: Vec<Arg>,
    times: Vec<i64>,
}

fn times_of(column: &Column) -> Vec<i64> {
    (0..column.len())
        .map(|row| column.value(row).to_long().unwrap_or(0))
        .collect()
}

/// A value of a column of an open or closed bucket, as it is read.
fn average(sum: &Value, count: &Value) -> Value {
    match (sum, count) {
        // Integer division, and a LONG although DOUBLE is declared, as in Siddhi.
        (Value::Long(sum), Value::Long(count)) if *count != 0 => Value::Long(sum / count),
        (Value::Double(sum), Value::Long(count)) if *count != 0 => {
            Value::Double(sum / *count as f64)
        }
        _ => Value::Null,
    }
}
