//! The tables that hold closed buckets, their making again after a restart, and their purging.

use event::{Column, ColumnBuilder, Times, Type, Value};
use plan::store::{OperationId, OperationKind, Term, TermKind};
use plan::{CompareOp, TableId};

use super::calendar::{end_of, start_of};
use super::cells::Shape;
use super::{Aggregation, NEVER};
use crate::step::Step;
use crate::table::ConditionContext;

/// The table of one duration.
pub(super) struct Keep {
    pub table: TableId,
    /// `None`: it lies in memory.
    external: Option<External>,
}

/// Operations on a table that is kept outside.
struct External {
    /// By its key: a bucket that was written before a restart is written again as a whole.
    upsert: OperationId,
    /// Buckets from one start up to another.
    between: OperationId,
    /// Buckets of events before one time that begin before another.
    purge: OperationId,
}

/// Column of `AGG_TIMESTAMP`.
const TIME: usize = 0;

impl Keep {
    pub fn new(table: TableId, shape: &Shape, context: &mut ConditionContext<'_>) -> Keep {
        context.is_read[table] = true;
        if !context.is_external(table) {
            return Keep {
                table,
                external: None,
            };
        }
        let keys = context.tables[table].primary_key.clone();
        let types = shape.types();
        let parameters: Vec<Type> = types.clone();
        let equal = |column: usize| compare(CompareOp::Equal, column, column, types[column]);
        let on = keys.iter().map(|&column| equal(column)).reduce(and);
        let on = on.expect("AGG_TIMESTAMP is always part of the key");
        let set = (0..types.len())
            .filter(|column| !keys.contains(column))
            .map(|column| {
                let kind = TermKind::Parameter(column);
                let ty = types[column];
                (column, Term { ty, kind })
            })
            .collect();
        let event_time = shape.event_time.unwrap_or(TIME);
        let long = Type::Long;
        let between = and(
            compare(CompareOp::GreaterEqual, event_time, 0, long),
            compare(CompareOp::Less, event_time, 1, long),
        );
        let doomed = and(
            compare(CompareOp::Less, event_time, 0, long),
            compare(CompareOp::Less, TIME, 1, long),
        );
        let two = vec![long, long];
        let kind = OperationKind::UpdateOrInsert { set, on };
        let external = External {
            upsert: context.operation_on(table, kind, parameters),
            between: context.operation_on(
                table,
                OperationKind::Find { on: Some(between) },
                two.clone(),
            ),
            purge: context.operation_on(table, OperationKind::Delete { on: doomed }, two),
        };
        Keep {
            table,
            external: Some(external),
        }
    }

    pub fn is_external(&self) -> bool {
        self.external.is_some()
    }

    pub fn insert(&self, columns: &[Column], step: &mut Step<'_>) -> Result<(), String> {
        let rows = columns.first().map_or(0, Column::len);
        let Some(external) = &self.external else {
            // Keys are new: a bucket is closed once.
            step.tables.insert(self.table, columns, rows);
            return Ok(());
        };
        let written = step
            .host
            .write(external.upsert, columns, rows, &Times::Same(0));
        step.tables
            .count(self.table, written.map_err(|error| error.message)?);
        Ok(())
    }

    /// Rows whose time (the event's own, where there is one) lies in a range, in the order of the
    /// table.
    pub fn rows(
        &self,
        shape: &Shape,
        start: i64,
        end: i64,
        step: &mut Step<'_>,
    ) -> Result<Vec<Column>, String> {
        if let Some(external) = &self.external {
            let parameters = [start, end].map(|time| Column::longs_from(vec![time]));
            let found = step.host.find(external.between, &parameters, 1);
            let found = found.map_err(|error| error.message)?;
            if found.columns.len() == shape.columns.len() {
                return Ok(found.columns);
            }
            // Where there is no row, a store need not give columns.
            let empty = |ty| ColumnBuilder::new(ty).finish();
            return Ok(shape.types().into_iter().map(empty).collect());
        }
        let content = step.tables.memory(self.table).content(step.now);
        let times = &content.columns[shape.event_time.unwrap_or(TIME)];
        let rows: Vec<u32> = (0..content.len as u32)
            .filter(|&row| {
                let time = times.value(row as usize).to_long();
                time.is_some_and(|time| (start..end).contains(&time))
            })
            .collect();
        Ok(content.columns.iter().map(|c| c.gather(&rows)).collect())
    }

    /// Deletes buckets of events before `time` that begin before `bucket`; false if the table in
    /// memory is empty now.
    fn purge(
        &self,
        shape: &Shape,
        time: i64,
        bucket: i64,
        step: &mut Step<'_>,
    ) -> Result<bool, String> {
        if let Some(external) = &self.external {
            let parameters = [time, bucket].map(|time| Column::longs_from(vec![time]));
            let written = step
                .host
                .write(external.purge, &parameters, 1, &Times::Same(0));
            step.tables
                .count(self.table, written.map_err(|error| error.message)?);
            return Ok(true);
        }
        let column = shape.event_time.unwrap_or(TIME);
        let is_before = |value: &Value, time: i64| value.to_long().is_some_and(|t| t < time);
        step.tables.delete_where(self.table, |columns, row| {
            is_before(&columns[column].value(row), time)
                && is_before(&columns[TIME].value(row), bucket)
        });
        Ok(step.tables.memory(self.table).len() > 0)
    }
}

fn and(a: Term, b: Term) -> Term {
    Term {
        ty: Type::Bool,
        kind: TermKind::And(Box::new(a), Box::new(b)),
    }
}

/// A column of the table against a parameter.
fn compare(op: CompareOp, column: usize, parameter: usize, ty: Type) -> Term {
    let term = |kind| Box::new(Term { ty, kind });
    Term {
        ty: Type::Bool,
        kind: TermKind::Compare(
            op,
            term(TermKind::Column(column)),
            term(TermKind::Parameter(parameter)),
        ),
    }
}

impl Aggregation {
    /// Makes open buckets again from the closed ones of a store, once after the start: what the
    /// table of a duration holds behind the last bucket of the next longer one belongs into the
    /// open bucket of that (Siddhi's `IncrementalExecutorsInitialiser`).
    pub(super) fn rebuild(&mut self, step: &mut Step<'_>, now: i64) {
        if std::mem::replace(&mut self.is_rebuilt, true) {
            return;
        }
        if !self.levels.iter().any(|l| l.keep.is_external()) {
            return;
        }
        if let Err(message) = self.rebuild_levels(step, now) {
            self.trouble.get_or_insert(message);
            self.is_rebuilt = false;
        }
    }

    fn rebuild_levels(&mut self, step: &mut Step<'_>, now: i64) -> Result<(), String> {
        let last = self.levels.len() - 1;
        let mut from = i64::MIN;
        if last > 0 {
            let columns = self.closed_from(last, from, step)?;
            if let Some(newest) = newest_bucket(&columns) {
                from = end_of(newest, self.levels[last].duration, &self.zone);
            }
        }
        let current = start_of(now, self.levels[0].duration, &self.zone);
        for level in (0..=last).rev() {
            let columns = self.closed_from(level, from, step)?;
            let Some(newest) = newest_bucket(&columns) else {
                continue;
            };
            if level < last {
                // The bucket of this very moment is opened again instead of being added above.
                self.add_closed(
                    level + 1,
                    &columns,
                    if level == 0 { current } else { i64::MAX },
                    step,
                );
            }
            if level == 0 {
                self.reopen(&columns, current);
            }
            from = from.max(end_of(newest, self.levels[level].duration, &self.zone));
        }
        Ok(())
    }

    /// Closed buckets of a level that begin at `from` or later, by the clock of arrival, in order.
    fn closed_from(
        &self,
        level: usize,
        from: i64,
        step: &mut Step<'_>,
    ) -> Result<Vec<Column>, String> {
        let (keep, shape) = (&self.levels[level].keep, &self.shape);
        // The store is asked for no more than these; by their own time events may come in any order.
        let start = match shape.event_time {
            None => from,
            Some(_) => i64::MIN,
        };
        let columns = keep.rows(shape, start, i64::MAX, step)?;
        let times = super::times_of(&columns[TIME]);
        let own = shape
            .columns
            .iter()
            .position(|c| c.attribute.name == "SHARD_ID");
        let mut rows: Vec<u32> = (0..times.len() as u32)
            .filter(|&row| times[row as usize] >= from)
            .filter(|&row| own.is_none_or(|c| columns[c].value(row as usize) == shape.shard))
            .collect();
        rows.sort_by_key(|&row| times[row as usize]);
        Ok(columns.iter().map(|c| c.gather(&rows)).collect())
    }

    /// Adds rows that begin before `until`, bucket by bucket.
    fn add_closed(&mut self, level: usize, columns: &[Column], until: i64, step: &mut Step<'_>) {
        let times = super::times_of(&columns[TIME]);
        let mut start = 0;
        while start < times.len() && times[start] < until {
            let run = times[start..].iter().take_while(|&&t| t == times[start]);
            let end = start + run.count();
            let part: Vec<Column> = columns
                .iter()
                .map(|c| c.slice(start, end - start))
                .collect();
            self.take_rows(level, times[start], &part, step);
            start = end;
        }
    }

    fn reopen(&mut self, columns: &[Column], current: i64) {
        let times = super::times_of(&columns[TIME]);
        let first = times.iter().position(|&time| time >= current);
        let Some(first) = first else { return };
        let part: Vec<Column> = columns
            .iter()
            .map(|c| c.slice(first, times.len() - first))
            .collect();
        let level = &mut self.levels[0];
        level.bucket = current;
        level.start = current;
        level.end = end_of(current, level.duration, &self.zone);
        self.add_rows(0, &part);
    }

    // ---- purging ----

    /// Buckets are looked through at fixed times after the start, while there are any.
    pub(super) fn arm_purge(&mut self, step: &mut Step<'_>) {
        let (Some(purge), Some(operator)) = (&self.purge, self.purge_operator) else {
            return;
        };
        if self.is_purge_armed {
            return;
        }
        self.is_purge_armed = true;
        let passed = (step.wall - self.purge_base) / purge.interval;
        let next = self.purge_base + (passed + 1) * purge.interval;
        step.timers.notify(operator, 0, next, step.wall);
    }

    /// The app starts.
    pub fn start(&mut self, step: &mut Step<'_>) {
        self.is_dirty = true;
        self.purge_base = step.wall;
        if self.levels.iter().any(|l| l.keep.is_external()) {
            self.arm_purge(step);
        }
    }

    /// Deletes closed buckets that are older than they are to be kept. A bucket that is not yet
    /// part of a closed bucket of the next longer duration stays (Siddhi stops purging for good
    /// when it meets one).
    pub fn purge(&mut self, step: &mut Step<'_>) -> Result<(), crate::step::Broken> {
        self.is_dirty = true;
        self.is_purge_armed = false;
        let Some(purge) = self.purge.clone() else {
            return Ok(());
        };
        self.rebuild(step, step.now);
        let (mut is_left, mut purged_shorter) = (false, false);
        for (level, keep) in purge.keep.iter().enumerate() {
            let Some(keep) = keep else { continue };
            if step.environment.compat {
                match self.purges_as_siddhi(level, step.wall - keep, purged_shorter, step) {
                    Ok(purges) => purged_shorter = purges,
                    Err(message) => {
                        self.trouble.get_or_insert(message);
                        is_left = true;
                        continue;
                    }
                }
                if !purged_shorter {
                    is_left = true;
                    continue;
                }
            }
            let bucket = match self.levels.get(level + 1) {
                Some(longer) if longer.bucket == NEVER => continue,
                Some(longer) => longer.bucket,
                None => i64::MAX,
            };
            let table = &self.levels[level].keep;
            match table.purge(&self.shape, step.wall - keep, bucket, step) {
                Ok(has_rows) => is_left |= has_rows,
                Err(message) => {
                    self.trouble.get_or_insert(message);
                    is_left = true;
                }
            }
        }
        if is_left {
            self.arm_purge(step);
        }
        self.settle()
    }

    /// With compat: does Siddhi purge a duration of rows up to a time? It does where the next longer
    /// one of the aggregation has rows around the newest of them, there where the next longer one of
    /// the calendar would have them, and where it has none it never purges again. The longest it
    /// purges together with the one before it (`IncrementalDataPurger`, ruling 77).
    fn purges_as_siddhi(
        &mut self,
        level: usize,
        time: i64,
        purged_shorter: bool,
        step: &mut Step<'_>,
    ) -> Result<bool, String> {
        if self.is_purge_halted {
            return Ok(false);
        }
        let this = &self.levels[level];
        let Some(longer) = self.levels.get(level + 1) else {
            return Ok(purged_shorter);
        };
        let doomed = this.keep.rows(&self.shape, i64::MIN, time + 1, step)?;
        let times = super::times_of(&doomed[self.shape.event_time.unwrap_or(TIME)]);
        let Some(newest) = times.into_iter().max() else {
            return Ok(false);
        };
        let around = this.duration.longer().unwrap_or(this.duration);
        let start = super::calendar::start_of(newest, around, &self.zone);
        let end = end_of(newest, around, &self.zone);
        let found = longer.keep.rows(&self.shape, start, end + 1, step)?;
        self.is_purge_halted = found.first().is_none_or(Column::is_empty);
        Ok(!self.is_purge_halted)
    }
}

fn newest_bucket(columns: &[Column]) -> Option<i64> {
    super::times_of(&columns[TIME]).into_iter().max()
}
