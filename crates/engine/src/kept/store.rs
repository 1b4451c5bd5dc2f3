//! Rows that a window keeps, in columns of its own.
//!
//! Rows are appended a range at a time, never one heap object each. A row costs what its columns
//! take: 16 bytes for a text (and its bytes, where it is longer than 12 and differs from the one
//! before), the width of a number, and next to nothing for its timestamp, which is stored once per
//! run of equal ones. What leaves is named by range and shared, not copied.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use event::codec::{Error as StateError, Part, Reader, Writer};
use event::{Batch, Cells, Chunks, Column, ColumnBuilder, Schema, Times, TimesBuilder, Type};

use super::index::Indexes;
use crate::snapshot_format::{Extent, Id, List};

/// Types of the rows of a window, shared by its keys.
pub type RowTypes = Arc<[Type]>;

pub fn row_types(schema: &Schema) -> RowTypes {
    schema.attributes.iter().map(|a| a.ty).collect()
}

/// Rows from which on the columns grow by shares of their own: a vector that grows lies in memory
/// twice while it is copied, and if all columns did so at one row, all rows would.
const LARGE_ROWS: usize = 64 * 1024;

/// Where fewer rows than this come first, room is made for no more, however many there were the last
/// time: there may be a collection for each of many keys, and after a burst few come.
const LIKELY_MAX: usize = 64;

/// Rows being collected: a builder per column.
#[derive(Debug)]
pub struct Rows {
    types: RowTypes,
    columns: Vec<ColumnBuilder>,
    times: TimesBuilder,
    /// Rows that there were when they were last handed over: as many are likely to come again.
    likely: usize,
}

impl Rows {
    pub fn new(types: &RowTypes) -> Rows {
        Rows {
            types: Arc::clone(types),
            columns: Vec::new(),
            times: TimesBuilder::default(),
            likely: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.times.len()
    }

    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The timestamp of the first row.
    pub fn first_time(&self) -> Option<i64> {
        (!self.is_empty()).then(|| self.times.at(0))
    }

    pub fn append(&mut self, batch: &Batch, rows: Range<usize>) {
        self.append_with(batch, rows, None);
    }

    /// As `append`, with one LONG column replaced by a constant.
    pub fn append_with(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        replace: Option<(usize, i64)>,
    ) {
        if rows.is_empty() {
            return;
        }
        if self.columns.is_empty() {
            let likely = match rows.len() {
                0..LIKELY_MAX => self.likely.min(LIKELY_MAX),
                _ => self.likely,
            };
            self.columns = self
                .types
                .iter()
                .map(|&ty| ColumnBuilder::with_capacity(ty, likely))
                .collect();
        }
        let is_large = self.times.len() >= LARGE_ROWS;
        let width = self.columns.len() as f64;
        for (i, (builder, column)) in self.columns.iter_mut().zip(&batch.columns).enumerate() {
            if is_large {
                builder.reserve(rows.len(), 0.5 + 0.5 * i as f64 / width);
            }
            match replace {
                Some((replaced, value)) if replaced == i => {
                    (0..rows.len()).for_each(|_| builder.push_long(value));
                }
                _ => builder.extend(column, rows.clone()),
            }
        }
        self.times.extend(&batch.times, rows);
    }

    /// As `append`, of a batch of one row.
    #[inline]
    fn append_only(&mut self, batch: &Batch) {
        if self.columns.is_empty() || self.times.len() >= LARGE_ROWS {
            return self.append(batch, 0..1);
        }
        for (builder, column) in self.columns.iter_mut().zip(&batch.columns) {
            builder.push_only(column);
        }
        self.times.extend(&batch.times, 0..1);
    }

    /// Hands the rows over as one chunk and starts anew; nothing is copied.
    pub fn take(&mut self) -> Batch {
        self.likely = self.len().min(SEGMENT_ROWS);
        let columns = std::mem::take(&mut self.columns);
        finished(&self.types, columns, std::mem::take(&mut self.times))
    }

    /// The rows as they are, copied.
    pub fn copy(&self) -> Batch {
        finished(&self.types, self.columns.clone(), self.times.clone())
    }

    /// One column as it is.
    fn part(&self, index: usize) -> Option<Part<'_>> {
        self.columns.get(index).map(Part::Builder)
    }

    pub fn save(&self, writer: &mut Writer) {
        let times = self.times.clone().finish(0);
        let columns = (0..self.types.len()).map(|i| self.part(i).into_iter().collect());
        writer.rows_of(self.len(), &times, None, columns);
    }

    pub fn bytes(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::bytes).sum::<usize>() + self.times.bytes()
    }

    pub fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Rows, StateError> {
        let batch = reader.rows(types, 0)?;
        let mut times = TimesBuilder::default();
        times.extend(&batch.times, 0..batch.len);
        Ok(Rows {
            types: Arc::clone(types),
            columns: batch
                .into_parts()
                .columns
                .into_iter()
                .map(ColumnBuilder::behind)
                .collect(),
            times,
            likely: 0,
        })
    }
}

fn finished(types: &[Type], mut columns: Vec<ColumnBuilder>, times: TimesBuilder) -> Batch {
    if columns.is_empty() {
        columns = types.iter().map(|&ty| ColumnBuilder::new(ty)).collect();
    }
    let len = times.len();
    let columns = columns.into_iter().map(ColumnBuilder::finish).collect();
    Batch::new(columns, len, times.finish(0), Chunks::One, 0)
}

/// Batches one behind the other as one; a single one is shared.
pub fn joined(types: &[Type], parts: &[(Batch, Range<usize>)]) -> Batch {
    if let [(batch, rows)] = parts
        && *rows == (0..batch.len)
    {
        return batch.clone();
    }
    let columns = (0..types.len())
        .map(|i| {
            let slices: Vec<Column> = parts
                .iter()
                .map(|(batch, rows)| batch.columns[i].slice(rows.start, rows.len()))
                .collect();
            Column::concat(&slices)
        })
        .collect();
    let mut times = TimesBuilder::default();
    for (batch, rows) in parts {
        times.extend(&batch.times, rows.clone());
    }
    Batch::new(columns, times.len(), times.finish(0), Chunks::One, 0)
}

/// Rows at which the open segment of a queue is closed, so that expired rows give memory back soon.
const SEGMENT_ROWS: usize = 4096;

/// Rows that leave in the order in which they came: closed segments and an open one.
#[derive(Debug)]
pub struct Queue {
    segments: VecDeque<Batch>,
    /// Rows of the first segment that have left.
    head: usize,
    open: Rows,
    len: usize,
    /// Rows that have left since the queue was made: the number of its oldest row.
    gone: u64,
    /// A segment whose last row has left by [`Queue::take_one`], until it has been looked at.
    spent: Option<Batch>,
    indexes: Indexes,
    /// Segments that were closed and are gone: the number of the first one that is there.
    segments_gone: u64,
    /// Closed segments before this number are in the last saved state.
    segments_saved: u64,
    /// While it is restored: what its segments are to add up to.
    owed: Option<Owed>,
}

#[derive(Clone, Copy, Debug)]
struct Owed {
    head: usize,
    len: usize,
}

/// The values of one attribute of a queue; of which part the last one was is remembered.
pub struct Attribute<'a> {
    queue: &'a Queue,
    column: usize,
    last: Cell<Option<(usize, Cells<'a>)>>,
}

impl<'a> Attribute<'a> {
    /// Where a value lies; rows are counted from the oldest.
    #[inline(always)]
    pub fn cell(&self, row: usize) -> (Cells<'a>, usize) {
        let (part, at) = self.queue.place(row);
        if let Some((last, cells)) = self.last.get()
            && last == part
        {
            return (cells, at);
        }
        let cells = self.queue.part_cells(part, self.column);
        self.last.set(Some((part, cells)));
        (cells, at)
    }
}

impl Queue {
    pub fn new(types: &RowTypes) -> Queue {
        Queue {
            segments: VecDeque::new(),
            head: 0,
            open: Rows::new(types),
            len: 0,
            gone: 0,
            spent: None,
            indexes: Indexes::default(),
            segments_gone: 0,
            segments_saved: 0,
            owed: None,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn append(&mut self, batch: &Batch, rows: Range<usize>) {
        self.len += rows.len();
        let mut at = rows.start;
        while at < rows.end {
            let end = rows.end.min(at + SEGMENT_ROWS - self.open.len());
            self.open.append(batch, at..end);
            if self.open.len() == SEGMENT_ROWS {
                self.segments.push_back(self.open.take());
            }
            at = end;
        }
    }

    /// As [`Queue::append`], of a batch of one row.
    #[inline]
    pub fn append_only(&mut self, batch: &Batch) {
        self.len += 1;
        self.open.append_only(batch);
        if self.open.len() == SEGMENT_ROWS {
            self.segments.push_back(self.open.take());
        }
    }

    /// The oldest `count` rows leave, named by segment and range.
    pub fn take(&mut self, count: usize, mut each: impl FnMut(&Batch, Range<usize>)) {
        debug_assert!(count <= self.len);
        self.spent = None;
        self.len -= count;
        self.gone += count as u64;
        let mut left = count;
        while left > 0 {
            if self.segments.is_empty() {
                self.segments.push_back(self.open.take());
            }
            let segment = &self.segments[0];
            let end = segment.len.min(self.head + left);
            each(segment, self.head..end);
            left -= end - self.head;
            self.head = end;
            if self.head == segment.len {
                self.segments.pop_front();
                self.segments_gone += 1;
                self.head = 0;
            }
        }
    }

    /// The oldest row leaves; [`Queue::left`] shows it. False, and nothing has happened, where it
    /// has values of another type than declared.
    pub fn take_one(&mut self) -> bool {
        self.spent = None;
        if self.segments.is_empty() {
            self.segments.push_back(self.open.take());
        }
        let segment = &self.segments[0];
        if !is_typed(&segment.columns, &self.open.types) {
            return false;
        }
        self.len -= 1;
        self.gone += 1;
        self.head += 1;
        if self.head == segment.len {
            self.spent = self.segments.pop_front();
            self.segments_gone += 1;
            self.head = 0;
        }
        true
    }

    /// The row that [`Queue::take_one`] has taken, and the rows among which it lies.
    pub fn left(&self) -> Option<(&Batch, usize)> {
        match &self.spent {
            Some(spent) => Some((spent, spent.len - 1)),
            None => Some((self.segments.front()?, self.head.checked_sub(1)?)),
        }
    }

    /// Has the batch no values of other types than the queue's?
    pub fn is_typed(&self, batch: &Batch) -> bool {
        is_typed(&batch.columns, &self.open.types)
    }

    /// How many rows from the oldest on have a timestamp of `limit` or before, up to the first that
    /// has not.
    pub fn due(&self, limit: i64) -> usize {
        let mut due = 0;
        let mut head = self.head;
        for segment in &self.segments {
            let (count, all) = due_of(&segment.times, head..segment.len, limit);
            due += count;
            if !all {
                return due;
            }
            head = 0;
        }
        due + self.open.times.leading(|time| time <= limit)
    }

    /// All rows, oldest first.
    pub fn content(&self) -> Batch {
        let mut parts = Vec::with_capacity(self.segments.len() + 1);
        let mut head = self.head;
        for segment in &self.segments {
            parts.push((segment.clone(), head..segment.len));
            head = 0;
        }
        if !self.open.is_empty() || parts.is_empty() {
            let open = self.open.copy();
            let len = open.len;
            parts.push((open, 0..len));
        }
        joined(&self.open.types, &parts)
    }

    /// Number of attributes.
    pub fn width(&self) -> usize {
        self.open.types.len()
    }

    pub fn gone(&self) -> u64 {
        self.gone
    }

    pub fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Segment and place of a row, counted from the oldest; the open one is behind the last. All
    /// closed segments but the first are full.
    #[inline]
    fn place(&self, row: usize) -> (usize, usize) {
        let first = self.segments.front().map_or(0, |s| s.len - self.head);
        if row < first {
            return (0, self.head + row);
        }
        let Some(behind) = self.segments.len().checked_sub(1) else {
            return (0, row);
        };
        let (segment, at) = ((row - first) / SEGMENT_ROWS, (row - first) % SEGMENT_ROWS);
        if segment < behind {
            (1 + segment, at)
        } else {
            (1 + behind, row - first - behind * SEGMENT_ROWS)
        }
    }

    /// The timestamp of a row, counted from the oldest.
    pub fn time(&self, row: usize) -> i64 {
        let (part, at) = self.place(row);
        match self.segments.get(part) {
            Some(segment) => segment.times.at(at),
            None => self.open.times.at(at),
        }
    }

    /// Where a value lies; rows are counted from the oldest.
    #[inline]
    pub fn cell(&self, column: usize, row: usize) -> (Cells<'_>, usize) {
        let (part, at) = self.place(row);
        (self.part_cells(part, column), at)
    }

    /// Where the values of one attribute lie.
    pub fn attribute(&self, column: usize) -> Attribute<'_> {
        Attribute {
            queue: self,
            column,
            last: Cell::new(None),
        }
    }

    /// Are all values of an attribute of one type?
    pub fn is_of_one_type(&self, column: usize) -> bool {
        let closed = self.segments.iter().map(|s| &s.columns[column]);
        let open = self.open.columns.get(column).map(Cells::from);
        let of_closed = closed.map(Cells::from);
        of_closed
            .chain(open)
            .all(|cells| cells.ty() != Type::Object)
    }

    /// One attribute of some rows; [`Column::NO_ROW`] gives null.
    pub fn gather(&self, column: usize, rows: &[u32]) -> Column {
        let ty = self.open.types[column];
        if let [row] = rows
            && *row != Column::NO_ROW
        {
            let (cells, at) = self.cell(column, *row as usize);
            if let Some(one) = cells.single(at).and_then(|one| one.column(ty)) {
                return one;
            }
        }
        let mut builder = ColumnBuilder::with_capacity(ty, rows.len());
        // Rows of one part are taken together.
        let (mut part, mut places) = (usize::MAX, Vec::with_capacity(rows.len()));
        let take = |part: usize, places: &mut Vec<u32>, builder: &mut ColumnBuilder| {
            if !places.is_empty() {
                builder.push_cells(&self.part_cells(part, column), places);
                places.clear();
            }
        };
        for &row in rows {
            if row == Column::NO_ROW {
                take(part, &mut places, &mut builder);
                builder.push_null();
                continue;
            }
            let (next, at) = self.place(row as usize);
            if next != part {
                take(part, &mut places, &mut builder);
                part = next;
            }
            places.push(at as u32);
        }
        take(part, &mut places, &mut builder);
        builder.finish()
    }

    fn part_cells(&self, part: usize, column: usize) -> Cells<'_> {
        match self.segments.get(part) {
            Some(segment) => Cells::from(&segment.columns[column]),
            None => Cells::from(&self.open.columns[column]),
        }
    }

    /// Rows of each part, oldest first: the closed segments and the open one.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        let closed = self.segments.iter().enumerate();
        let closed = closed.map(|(at, s)| if at == 0 { s.len - self.head } else { s.len });
        closed.chain((!self.open.is_empty()).then(|| self.open.len()))
    }

    /// One attribute of a part; that of the open segment is copied.
    pub fn part_column(&self, part: usize, column: usize) -> Column {
        match self.segments.get(part) {
            Some(segment) if part == 0 => {
                segment.columns[column].slice(self.head, segment.len - self.head)
            }
            Some(segment) => segment.columns[column].clone(),
            None => self.open.columns[column].clone().finish(),
        }
    }

    pub fn bytes(&self) -> usize {
        let closed = self.segments.iter().chain(&self.spent);
        closed.map(batch_bytes).sum::<usize>() + self.open.bytes() + self.indexes.bytes()
    }

    /// All but the closed segments, which are saved beside it: they never change.
    pub fn save(&self, writer: &mut Writer) {
        writer.count(self.head);
        writer.count(self.len);
        self.open.save(writer);
    }

    /// The closed segments, those that are new or all of them; `id` gives their numbers in the list
    /// from those in the queue.
    pub(crate) fn save_segments(
        &self,
        list: &mut List<'_>,
        extent: Extent,
        id: impl Fn(u64) -> Id,
    ) {
        let first = match extent {
            Extent::All => self.segments_gone,
            Extent::Changes => {
                // Of a queue that is new another one may have been saved under these numbers.
                let end = match self.segments_saved {
                    0 => u64::MAX,
                    _ => self.segments_gone,
                };
                list.gone(id(0)..id(end));
                self.segments_saved.max(self.segments_gone)
            }
        };
        for (number, segment) in (self.segments_gone..).zip(&self.segments) {
            if number >= first {
                list.entry(id(number), |w| w.rows(segment));
            }
        }
    }

    /// What was just saved is known to be.
    pub fn mark_saved(&mut self) {
        self.segments_saved = self.segments_gone + self.segments.len() as u64;
    }

    /// Reads what [`Queue::save`] has written; [`Queue::take_back`] adds the segments.
    pub fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Queue, StateError> {
        // No counts of bytes that follow.
        let mut number = || {
            reader
                .u64()
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
        };
        let owed = Owed {
            head: number()?,
            len: number()?,
        };
        let open = Rows::restore(types, reader)?;
        if open.len() >= SEGMENT_ROWS {
            return Err(StateError::Mismatch("too many rows in a segment".into()));
        }
        Ok(Queue {
            len: open.len(),
            open,
            owed: Some(owed),
            ..Queue::new(types)
        })
    }

    /// The next segment of a queue that is restored.
    pub fn take_back(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let segment = reader.rows(&self.open.types, 0)?;
        if self.segments.is_empty() {
            self.head = self.owed.map_or(0, |owed| owed.head);
        }
        let is_sound = match self.segments.is_empty() {
            true => self.head < segment.len && segment.len <= SEGMENT_ROWS,
            false => segment.len == SEGMENT_ROWS,
        };
        if !is_sound {
            self.head = 0;
            let what = format!("a segment of {} rows", segment.len);
            return Err(StateError::Mismatch(what));
        }
        self.len += match self.segments.is_empty() {
            true => segment.len - self.head,
            false => segment.len,
        };
        self.segments.push_back(segment);
        Ok(())
    }

    /// All segments have been taken back.
    pub fn be_whole(&mut self) -> Result<(), StateError> {
        match self.owed.take() {
            Some(owed) if owed.len != self.len => Err(StateError::Mismatch(format!(
                "{} rows, expected {}",
                self.len, owed.len
            ))),
            _ => Ok(()),
        }
    }

    /// Rows when all segments have been taken back.
    pub fn len_saved(&self) -> usize {
        self.owed.map_or(self.len, |owed| owed.len)
    }
}

fn is_typed(columns: &[Column], types: &[Type]) -> bool {
    let mut columns = columns.iter().zip(types);
    columns.all(|(column, &ty)| !column.is_any() || ty == Type::Object)
}

/// Leading rows of a range that are due, and whether all are.
pub fn due_of(times: &Times, rows: Range<usize>, limit: i64) -> (usize, bool) {
    let mut due = 0;
    for (count, time) in times.runs(rows.clone()) {
        if time > limit {
            return (due, false);
        }
        due += count;
    }
    (due, true)
}

pub fn batch_bytes(batch: &Batch) -> usize {
    let times = match &batch.times {
        Times::Same(_) => 0,
        Times::PerRow(times, _) => size_of_val(&times[..]),
        Times::Runs(runs, _) => size_of_val(&runs[..]),
    };
    batch.columns.iter().map(Column::bytes).sum::<usize>() + times
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Value};

    fn rows(texts: &[(&str, &str)], times: &[i64]) -> (RowTypes, Batch) {
        let attribute = |name: &str| Attribute {
            name: name.into(),
            ty: Type::String,
        };
        let schema = Schema {
            name: "S".into(),
            attributes: vec![attribute("a"), attribute("b")],
        };
        let rows: Vec<_> = texts
            .iter()
            .zip(times)
            .map(|((a, b), &t)| (t, vec![Value::str(a), Value::str(b)]))
            .collect();
        let batch = Batch::from_rows(&schema, &rows, Chunks::EachRow, 0);
        (row_types(&schema), batch)
    }

    #[test]
    fn rows_leave_in_the_order_in_which_they_came() {
        let (types, batch) = rows(&[("a", "1"), ("b", "2"), ("c", "3")], &[10, 10, 20]);
        let mut queue = Queue::new(&types);
        let mut seen = Vec::new();
        let mut next = 0;
        for round in 0..3 * SEGMENT_ROWS {
            queue.append(&batch, 0..3);
            let count = round % 4;
            queue.take(count.min(queue.len()), |segment, range| {
                seen.extend(range.map(|r| segment.columns[1].value(r)));
            });
            if round % 997 == 0 {
                assert_eq!(queue.content().len, queue.len());
            }
        }
        for value in seen {
            assert_eq!(value, Value::str(["1", "2", "3"][next % 3]));
            next += 1;
        }
    }

    #[test]
    fn due_rows_stop_at_the_first_that_is_not() {
        let (types, batch) = rows(&[("a", ""), ("b", ""), ("c", "")], &[10, 30, 20]);
        let mut queue = Queue::new(&types);
        queue.append(&batch, 0..3);
        let due = |queue: &Queue| [9, 10, 25, 30].map(|limit| queue.due(limit));
        assert_eq!(due(&queue), [0, 1, 1, 3]);
        queue.take(1, |_, _| {});
        queue.append(&batch, 0..1);
        assert_eq!(due(&queue), [0, 0, 0, 3]);
    }

    #[test]
    fn a_held_row_of_four_texts_and_three_numbers_costs_88_bytes() {
        let types = [Type::String, Type::Double, Type::String, Type::String];
        let types = [&types[..], &[Type::Long, Type::Long, Type::String]].concat();
        let attributes = types.iter().enumerate().map(|(i, &ty)| Attribute {
            name: format!("a{i}"),
            ty,
        });
        let schema = Schema {
            name: "S".into(),
            attributes: attributes.collect(),
        };
        let row = vec![
            Value::str("0001"),
            Value::Double(1.0),
            Value::str("/some/where/a/long/path/to/a/file.csv"),
            Value::str("test"),
            Value::Long(1),
            Value::Long(2),
            Value::str("false"),
        ];
        let batch: Vec<_> = (0..1024).map(|_| (7, row.clone())).collect();
        let batch = Batch::from_rows(&schema, &batch, Chunks::EachRow, 0);
        let mut held = Rows::new(&row_types(&schema));
        (0..100).for_each(|_| held.append(&batch, 0..1024));
        assert!(held.bytes() / held.len() <= 88, "{}", held.bytes());
    }
}
