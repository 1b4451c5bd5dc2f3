//! Windows: which rows are current, which expire, and when.
//!
//! A window takes CURRENT rows chunk by chunk and emits an ordered program of CURRENT and EXPIRED
//! rows, RESET marks and chunk ends. It never reads a clock and never evaluates an expression. A
//! deadline is computed from a row's timestamp; what is due is decided by the clock of the chunk.
//!
//! A new window is one file here and one line in [`WINDOWS`].

mod batch;
mod collect;
mod content;
mod cron;
mod delay;
mod expression;
mod expression_batch;
mod external_time;
mod external_time_batch;
mod frequent;
mod key;
mod key_map;
mod length;
mod length_batch;
mod linked;
mod lossy_frequent;
mod params;
mod per_key;
mod pool;
mod session;
mod slide;
mod sort;
mod stored;
#[cfg(test)]
mod testing;
mod time;
mod time_batch;
mod time_length;
mod timed;
mod unique;

pub(crate) use pool::{Pool, Slot, Visit};
pub(crate) use stored::{Stored, StoredKeys};

use std::ops::Range;

use crate::component::{Argument, Refused, Window};
use crate::emission::Emission;
pub(crate) use crate::kept::RowTypes;
use crate::kept::{held, index, store};
use event::codec::Error as StateError;
use event::column::View;
use event::{Batch, Chunks, Clock, Column, Value};

/// The first of `time`, `time + period`, … behind `now`; a period is above zero.
pub(crate) fn first_after(now: i64, time: i64, period: i64) -> i64 {
    if time > now {
        return time;
    }
    let periods = now.saturating_sub(time) / period.max(1);
    let passed = periods.saturating_add(1).saturating_mul(period);
    time.saturating_add(passed)
}

/// Sorted by name.
pub const WINDOWS: &[&dyn Window] = &[
    &batch::BatchWindow,
    &cron::CronWindow,
    &delay::Delay,
    &expression::ExpressionWindow,
    &expression_batch::ExpressionBatch,
    &external_time::ExternalTime,
    &external_time_batch::ExternalTimeBatch,
    &frequent::Frequent,
    &length::Length,
    &length_batch::LengthBatch,
    &lossy_frequent::LossyFrequent,
    &session::SessionWindow,
    &sort::Sort,
    &time::Time,
    &time_batch::TimeBatch,
    &time_length::TimeLength,
    &unique::EVER,
    &unique::ExternalTimeBatch,
    &unique::FIRST,
    &unique::FirstLengthBatch,
    &unique::FirstTimeBatch,
    &unique::Length,
    &unique::LengthBatch,
    &unique::Time,
    &unique::TimeBatch,
    &unique::TimeLengthBatch,
];

/// A length of time, in milliseconds.
fn millis(args: &[Argument], index: usize, window: &str) -> Result<i64, Refused> {
    args.get(index)
        .and_then(Argument::constant_long)
        .ok_or_else(|| refused(window, index, "a constant int, long or time"))
}

/// A number of events; what is below zero counts as zero.
fn count(args: &[Argument], index: usize, window: &str) -> Result<usize, Refused> {
    match args.get(index).and_then(|a| a.constant.as_ref()) {
        Some(Value::Int(n)) => Ok(usize::try_from(*n).unwrap_or(0)),
        _ => Err(refused(window, index, "a constant int")),
    }
}

fn flag(args: &[Argument], index: usize, window: &str) -> Result<bool, Refused> {
    match args.get(index).and_then(|a| a.constant.as_ref()) {
        Some(Value::Bool(b)) => Ok(*b),
        _ => Err(refused(window, index, "a constant bool")),
    }
}

/// The index of a LONG attribute.
fn long_attribute(args: &[Argument], index: usize, window: &str) -> Result<usize, Refused> {
    args.get(index)
        .filter(|a| a.ty == event::Type::Long)
        .and_then(|a| a.attribute)
        .ok_or_else(|| refused(window, index, "a long attribute"))
}

fn refused(window: &str, index: usize, wanted: &str) -> Refused {
    Refused(format!(
        "argument {} of window '{window}' must be {wanted}",
        index + 1
    ))
}

/// A saved state has a row for each of so many entries.
fn expect_rows(rows: usize, entries: usize) -> Result<(), StateError> {
    if rows == entries {
        return Ok(());
    }
    Err(StateError::Mismatch(format!(
        "{rows} rows for {entries} entries"
    )))
}

/// The value of a time attribute; null or another class fails, as Java's cast to long does.
fn stamp_of(column: &Column, row: usize) -> Option<i64> {
    match column.view() {
        View::Long(values) if !column.is_null(row) => Some(values[row]),
        View::Any(values) => match values[row] {
            Value::Long(stamp) => Some(stamp),
            _ => None,
        },
        _ => None,
    }
}

/// Ranges of chunks that are processed at one clock, in order.
fn clock_runs(batch: &Batch) -> impl Iterator<Item = (Range<usize>, i64)> + '_ {
    let count = batch.chunk_count();
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == count {
            return None;
        }
        let (start, clock) = (at, batch.clock_at(at));
        at = match batch.clock {
            Clock::Same(_) => count,
            Clock::PerChunk(_) => (start + 1..count)
                .find(|&chunk| batch.clock_at(chunk) != clock)
                .unwrap_or(count),
        };
        Some((start..at, clock))
    })
}

/// Rows of a range of chunks.
fn rows_of(batch: &Batch, chunks: &Range<usize>) -> Range<usize> {
    batch.chunk(chunks.start).start..batch.chunk(chunks.end - 1).end
}

/// Emits chunks of one clock as they are.
fn pass_chunks(batch: &Batch, source: u32, chunks: Range<usize>, clock: i64, out: &mut Emission) {
    if batch.chunks == Chunks::EachRow {
        out.current(source, chunks.clone());
        return out.end_chunks(chunks.len(), 1, clock);
    }
    for chunk in chunks {
        out.current(source, batch.chunk(chunk));
        out.end_chunk(clock);
    }
}
