//! Reading: `within … per …` of joins and on-demand queries.

use std::ops;

use event::{Batch, Chunks, Column, ColumnBuilder, Object, Times, Type, Value};
use plan::{AggregationId, AggregationRead, Expr};

use super::calendar::{duration_named, range_of, start_of, time_of};
use super::cells::Cells;
use super::{Aggregation, BucketRange, NEVER, average, times_of};
use crate::component::EvalContext;
use crate::error::Error;
use crate::expr::{Expression, Inputs, Layout};
use crate::step::{ReadAggregations, Step};
use crate::table::ConditionContext;

/// Column of `AGG_TIMESTAMP`.
const TIME: usize = 0;

/// `within … per …`, seen from an event.
pub(crate) struct RangeOf {
    start: Expression,
    end: Option<Expression>,
    per: Expression,
    is_partitioned: bool,
}

/// What is read for the rows of a batch.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Different contents, one behind the other in `columns`.
    pub parts: Vec<Batch>,
    /// For each row of the batch its part, and where that begins in `columns`.
    pub of_row: Vec<(usize, u32)>,
    pub columns: Vec<Column>,
}

impl RangeOf {
    pub fn new(
        within: Option<&(Expr, Option<Expr>)>,
        per: Option<&Expr>,
        is_partitioned: bool,
        event: &Layout,
        context: &mut ConditionContext<'_>,
    ) -> Result<Option<RangeOf>, Error> {
        let (Some((start, end)), Some(per)) = (within, per) else {
            return Ok(None);
        };
        Ok(Some(RangeOf {
            start: context.expression(start, event)?,
            end: end
                .as_ref()
                .map(|end| context.expression(end, event))
                .transpose()?,
            per: context.expression(per, event)?,
            is_partitioned,
        }))
    }

    /// The range that each row asks for. A row whose range makes no sense fails.
    pub fn ranges(
        &mut self,
        (aggregations, id): (&dyn ReadAggregations, AggregationId),
        inputs: &Inputs<'_>,
        context: &mut EvalContext<'_>,
    ) -> Vec<Option<BucketRange>> {
        let start = self.start.column(inputs, context);
        let end = self.end.as_mut().map(|end| end.column(inputs, context));
        let per = self.per.column(inputs, context);
        let mut ranges = Vec::with_capacity(inputs.rows);
        for row in 0..inputs.rows {
            let end = end.as_ref().map(|end| end.value(row));
            let (start, per) = (start.value(row), per.value(row));
            let range = aggregations.range(id, &start, end.as_ref(), &per);
            let range = range.map(|range| BucketRange {
                is_partitioned: self.is_partitioned,
                ..range
            });
            ranges.push(range.map_err(|message| context.fail(row, message)).ok());
        }
        ranges
    }
}

impl Contents {
    /// Reads what each row asks for; the same is read once.
    pub fn read(
        id: AggregationId,
        ranges: &[Option<BucketRange>],
        step: &mut Step<'_>,
    ) -> Result<Contents, String> {
        let aggregations = step.take_aggregations();
        let contents = Contents::read_from((&mut *aggregations, id), ranges, step);
        step.aggregations = Some(aggregations);
        contents
    }

    fn read_from(
        (aggregations, id): (&mut dyn ReadAggregations, AggregationId),
        ranges: &[Option<BucketRange>],
        step: &mut Step<'_>,
    ) -> Result<Contents, String> {
        let mut contents = Contents::default();
        let mut known: Vec<(BucketRange, u32)> = Vec::new();
        let mut rows = 0;
        for range in ranges.iter().flatten() {
            let at = known.iter().position(|(r, _)| r == range);
            let at = match at {
                Some(at) => at,
                None => {
                    let part = aggregations.read(id, *range, step)?;
                    known.push((*range, rows));
                    rows += part.len as u32;
                    contents.parts.push(part);
                    known.len() - 1
                }
            };
            contents.of_row.push((at, known[at].1));
        }
        let width = aggregations.width(id);
        contents.columns = (0..width)
            .map(|column| {
                let parts = contents.parts.iter().map(|p| p.columns[column].clone());
                Column::concat(&parts.collect::<Vec<_>>())
            })
            .collect();
        Ok(contents)
    }
}

impl ReadAggregations for Vec<Aggregation> {
    fn range(
        &self,
        aggregation: AggregationId,
        start: &Value,
        end: Option<&Value>,
        per: &Value,
    ) -> Result<BucketRange, String> {
        self[aggregation].range(start, end, per)
    }

    fn width(&self, aggregation: AggregationId) -> usize {
        self[aggregation].schema.attributes.len()
    }

    fn read(
        &mut self,
        aggregation: AggregationId,
        range: BucketRange,
        step: &mut Step<'_>,
    ) -> Result<Batch, String> {
        self[aggregation].read(range, step)
    }
}

impl Aggregation {
    fn range(
        &self,
        start: &Value,
        end: Option<&Value>,
        per: &Value,
    ) -> Result<BucketRange, String> {
        let per = per.as_str().unwrap_or("null");
        let duration = duration_named(per).ok_or_else(|| {
            format!(
                "'{per}' is not a duration: 'per' takes seconds, minutes, hours, days, months or \
                 years"
            )
        })?;
        let level = self.levels.iter().position(|l| l.duration == duration);
        let level =
            level.ok_or_else(|| format!("aggregation '{}' does not keep {per}", self.name))?;
        let (start, end) = match end {
            Some(end) => (time_of(start)?, time_of(end)?),
            None => range_of(start.as_str().unwrap_or("null"))?,
        };
        if start >= end {
            return Err(format!(
                "'within' needs a start before its end, but {start} is not before {end}"
            ));
        }
        Ok(BucketRange {
            start,
            end,
            level,
            is_partitioned: false,
        })
    }

    /// Closed and open buckets of a range, as rows of the aggregation.
    fn read(&mut self, range: BucketRange, step: &mut Step<'_>) -> Result<Batch, String> {
        let now = step.now;
        self.is_dirty = true;
        self.rebuild(step, now);
        self.catch_up(step);
        self.arm(step);
        if let Some(message) = self.trouble.take() {
            return Err(message);
        }
        let lacks_open = step.environment.compat && range.is_partitioned;
        let keep = &self.levels[range.level].keep;
        let closed = keep.rows(&self.shape, range.start, range.end, step)?;
        let rows = if self.is_sharded {
            let parts = self.finer_tables(range, step)?;
            self.together(range.level, std::iter::once(closed).chain(parts))
        } else if self.by.is_some() {
            let open = (0..=range.level).rev();
            let open = open
                .filter(|_| !lacks_open)
                .map(|level| self.open_rows(level, range))
                .collect::<Vec<_>>();
            self.together(range.level, std::iter::once(closed).chain(open))
        } else {
            let open = match lacks_open {
                true => Cells::new(&self.shape).rows(NEVER),
                false => self.open_bucket(range),
            };
            match step.environment.compat && self.is_empty_bucket_read(range) {
                true => join_rows(&[closed, open, self.empty_row()]),
                false => join_rows(&[closed, open]),
            }
        };
        Ok(self.selected(&rows, now))
    }

    /// With shards open buckets are those of all: they are read from the tables of finer durations.
    fn finer_tables(
        &self,
        range: BucketRange,
        step: &mut Step<'_>,
    ) -> Result<Vec<Vec<Column>>, String> {
        let mut parts = Vec::new();
        for level in 0..range.level {
            let longer = self.levels[level + 1].duration;
            let open = start_of(step.now, longer, &self.zone);
            let columns = if self.by.is_some() {
                let keep = &self.levels[level].keep;
                keep.rows(&self.shape, range.start, range.end, step)?
            } else {
                let keep = &self.levels[level].keep;
                keep.rows(&self.shape, open, i64::MAX, step)?
            };
            parts.push(rows_from(&columns, 0, open, i64::MAX));
        }
        Ok(parts)
    }

    /// Rows of an open bucket whose event time lies in the range.
    fn open_rows(&self, level: usize, range: BucketRange) -> Vec<Column> {
        let this = &self.levels[level];
        let columns = this.cells.rows(this.bucket);
        match self.shape.event_time {
            Some(time) => rows_from(&columns, time, range.start, range.end),
            None => columns,
        }
    }

    /// The open bucket of a duration, with what is still in those of finer ones
    /// (`IncrementalDataAggregator`).
    fn open_bucket(&self, range: BucketRange) -> Vec<Column> {
        let levels = &self.levels[..=range.level];
        let mut cells = Cells::new(&self.shape);
        let oldest = self.oldest(range);
        if (range.start..range.end).contains(&oldest) {
            for level in levels.iter().rev().filter(|l| !l.cells.is_empty()) {
                let columns = level.cells.rows(level.bucket);
                let rows = columns.first().map_or(0, Column::len);
                cells.add(&self.shape.args(&columns), 0..rows, &[]);
            }
        }
        cells.rows_read(oldest)
    }

    /// Where the open bucket of a range begins.
    fn oldest(&self, range: BucketRange) -> i64 {
        let levels = self.levels[..=range.level].iter().rev();
        let begun = levels.map(|level| level.start).find(|&s| s != NEVER);
        begun.unwrap_or(NEVER)
    }

    /// With compat: whether Siddhi makes a row of the open bucket though it is empty. It does so
    /// without groups, once there was an event, where the bucket is asked for, and looks for the
    /// row at the time 0.
    fn is_empty_bucket_read(&self, range: BucketRange) -> bool {
        let levels = &self.levels[..=range.level];
        !self.shape.has_keys()
            && (range.is_partitioned || levels.iter().all(|level| level.cells.is_empty()))
            && self.levels[0].start != NEVER
            && [self.oldest(range), 0]
                .iter()
                .all(|time| (range.start..range.end).contains(time))
    }

    /// Whether a column of the tables holds sets.
    fn is_set(&self, column: usize) -> bool {
        let mut reads = self.reads.iter();
        reads.any(|read| matches!(read, AggregationRead::SizeOfSet(at) if *at == column))
    }

    /// A row of nulls, and of empty sets, at the time 0.
    fn empty_row(&self) -> Vec<Column> {
        let types = self.shape.types().into_iter().enumerate();
        types
            .map(|(column, ty)| match column {
                TIME => Column::longs_from(vec![0]),
                _ if self.is_set(column) => built(ty, 1, |_| {
                    Value::Object(Object::Set(event::value::Shared::default()))
                }),
                _ => built(ty, 1, |_| Value::Null),
            })
            .collect()
    }

    /// Puts together rows of one bucket and group (`OutOfOrderEventsDataAggregator`).
    fn together(&self, level: usize, parts: impl Iterator<Item = Vec<Column>>) -> Vec<Column> {
        let time = self.shape.event_time.unwrap_or(0);
        let mut buckets: Vec<(i64, Cells)> = Vec::new();
        for columns in parts {
            let rows = columns.first().map_or(0, Column::len);
            let args = self.shape.args(&columns);
            let starts = self.starts(level, &times_of(&columns[time]));
            if self.by.is_some() {
                if buckets.is_empty() {
                    buckets.push((self.levels[level].start, Cells::new(&self.shape)));
                }
                buckets[0].1.add(&args, 0..rows, &starts);
                continue;
            }
            for (row, &start) in starts.iter().enumerate() {
                let at = buckets.iter().position(|(s, _)| *s == start);
                let at = at.unwrap_or_else(|| {
                    buckets.push((start, Cells::new(&self.shape)));
                    buckets.len() - 1
                });
                buckets[at].1.add(&args, row..row + 1, &[]);
            }
        }
        let parts: Vec<_> = buckets
            .iter()
            .map(|(start, cells)| cells.rows(*start))
            .collect();
        match parts.is_empty() {
            true => Cells::new(&self.shape).rows(NEVER),
            false => join_rows(&parts),
        }
    }

    /// The attributes of the aggregation, made of the columns of its tables.
    fn selected(&self, rows: &[Column], now: i64) -> Batch {
        let len = rows.first().map_or(0, Column::len);
        let attributes = self.reads.iter().zip(&self.schema.attributes);
        let columns = attributes
            .map(|(read, attribute)| match *read {
                AggregationRead::Column(at) => rows[at].clone(),
                AggregationRead::Average { sum, count } => {
                    let values = |row| average(&rows[sum].value(row), &rows[count].value(row));
                    built(attribute.ty, len, values)
                }
                AggregationRead::SizeOfSet(at) => {
                    built(Type::Int, len, |row| match rows[at].value(row) {
                        Value::Object(Object::Set(set)) => Value::Int(set.lock().len() as i32),
                        _ => Value::Null,
                    })
                }
            })
            .collect();
        Batch::new(columns, len, Times::Same(now), Chunks::One, now)
    }
}

fn built(ty: Type, rows: usize, value: impl Fn(usize) -> Value) -> Column {
    let mut builder = ColumnBuilder::with_capacity(ty, rows);
    (0..rows).for_each(|row| builder.push(&value(row)));
    builder.finish()
}

/// Rows whose time in a column lies in a range.
fn rows_from(columns: &[Column], column: usize, start: i64, end: i64) -> Vec<Column> {
    let range: ops::Range<i64> = start..end;
    let times = times_of(&columns[column]);
    let rows: Vec<u32> = (0..times.len() as u32)
        .filter(|&row| range.contains(&times[row as usize]))
        .collect();
    columns.iter().map(|c| c.gather(&rows)).collect()
}

fn join_rows(parts: &[Vec<Column>]) -> Vec<Column> {
    let width = parts.first().map_or(0, Vec::len);
    (0..width)
        .map(|column| {
            let parts: Vec<Column> = parts.iter().map(|p| p[column].clone()).collect();
            Column::concat(&parts)
        })
        .collect()
}
