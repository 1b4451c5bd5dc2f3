//! The rows of one open bucket: one per group, and with `aggregate by` one per group and bucket of
//! the event's own time.
//!
//! Rows have dense numbers; every column is a vector of running values. Nothing is allocated for an
//! event whose group is there already, and clearing keeps the memory.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use event::column::View;
use event::value::Shared;
use event::{Column, ColumnBuilder, Object, Type, Value};
use foldhash::fast::FixedState;
use hashbrown::{HashSet, HashTable};
use plan::{AggregationColumn, ColumnKind};

use crate::hash_order::hash_order;
use crate::key_text::for_each_key;

/// Seed of the hash of keys; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x3c6e_f372_fe94_f82b;

/// What the columns of an aggregation are.
#[derive(Debug)]
pub(super) struct Shape {
    pub columns: Vec<AggregationColumn>,
    pub shard: Value,
    keys: Vec<usize>,
    pub event_time: Option<usize>,
    last_time: Option<usize>,
}

impl Shape {
    pub fn new(columns: &[AggregationColumn], shard: Option<&str>) -> Shape {
        let place = |is_it: fn(&ColumnKind) -> bool| columns.iter().position(|c| is_it(&c.kind));
        Shape {
            shard: shard.map_or(Value::Null, Value::str),
            keys: (0..columns.len())
                .filter(|&c| matches!(columns[c].kind, ColumnKind::Key(_)))
                .collect(),
            event_time: place(|k| matches!(k, ColumnKind::EventTime)),
            last_time: place(|k| matches!(k, ColumnKind::LastEventTime)),
            columns: columns.to_vec(),
        }
    }

    /// Whether it is grouped.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    pub fn types(&self) -> Vec<Type> {
        self.columns.iter().map(|c| c.attribute.ty).collect()
    }

    /// Rows of a table as what is to be added.
    pub fn args(&self, columns: &[Column]) -> Vec<Arg> {
        columns.iter().cloned().map(Arg::Column).collect()
    }
}

/// What is added to a column, a value for each row.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Column(Column),
    /// An event counts as one.
    One,
    /// Values that become elements of a set.
    Elements(Column),
}

/// Distinct values in the order in which they came.
#[derive(Debug, Default)]
struct Distinct {
    order: Vec<Value>,
    index: HashSet<Value, FixedState>,
}

impl Distinct {
    fn add(&mut self, value: &Value) {
        if self.index.insert(value.clone()) {
            self.order.push(value.clone());
        }
    }
}

/// The values of one column, by row number.
#[derive(Debug)]
enum Cell {
    /// The bucket's own: its start, the shard, the start by the event's time.
    Fixed,
    Key(Column),
    Last(Vec<Value>),
    /// `None` as long as there was nothing but null.
    Long(Vec<Option<i64>>, fn(i64, i64) -> i64),
    Double(Vec<Option<f64>>, fn(f64, f64) -> f64),
    Set(Vec<Distinct>),
}

fn least(a: f64, b: f64) -> f64 {
    if a > b { b } else { a }
}

fn greatest(a: f64, b: f64) -> f64 {
    if a < b { b } else { a }
}

impl Cell {
    fn new(column: &AggregationColumn) -> Cell {
        let is_whole = matches!(column.attribute.ty, Type::Int | Type::Long);
        match &column.kind {
            ColumnKind::Time | ColumnKind::Shard | ColumnKind::EventTime => Cell::Fixed,
            ColumnKind::Key(_) => Cell::Key(ColumnBuilder::new(column.attribute.ty).finish()),
            ColumnKind::Last(_) => Cell::Last(Vec::new()),
            ColumnKind::LastEventTime => Cell::Long(Vec::new(), i64::max),
            ColumnKind::Sum(_) | ColumnKind::Count if is_whole => {
                Cell::Long(Vec::new(), i64::wrapping_add)
            }
            ColumnKind::Sum(_) | ColumnKind::Count => Cell::Double(Vec::new(), |a, b| a + b),
            ColumnKind::Min(_) if is_whole => Cell::Long(Vec::new(), i64::min),
            ColumnKind::Min(_) => Cell::Double(Vec::new(), least),
            ColumnKind::Max(_) if is_whole => Cell::Long(Vec::new(), i64::max),
            ColumnKind::Max(_) => Cell::Double(Vec::new(), greatest),
            ColumnKind::Set(_) => Cell::Set(Vec::new()),
        }
    }

    fn grow(&mut self, rows: usize) {
        match self {
            Cell::Fixed | Cell::Key(_) => {}
            Cell::Last(v) => v.resize(rows, Value::Null),
            Cell::Long(v, _) => v.resize(rows, None),
            Cell::Double(v, _) => v.resize(rows, None),
            Cell::Set(v) => v.resize_with(rows, Distinct::default),
        }
    }

    fn clear(&mut self, ty: Type) {
        match self {
            Cell::Fixed => {}
            Cell::Key(column) => *column = ColumnBuilder::new(ty).finish(),
            Cell::Last(v) => v.clear(),
            Cell::Long(v, _) => v.clear(),
            Cell::Double(v, _) => v.clear(),
            Cell::Set(v) => v.clear(),
        }
    }

    fn value(&self, row: usize, ty: Type) -> Value {
        match self {
            Cell::Fixed => Value::Null,
            Cell::Key(column) => column.value(row),
            Cell::Last(v) => v[row].clone(),
            Cell::Long(v, _) => v[row].map_or(Value::Null, |v| match ty {
                Type::Int => Value::Int(v as i32),
                _ => Value::Long(v),
            }),
            Cell::Double(v, _) => v[row].map_or(Value::Null, |v| match ty {
                Type::Float => Value::Float(v as f32),
                _ => Value::Double(v),
            }),
            Cell::Set(v) => Value::Object(Object::Set(Shared::new(v[row].order.clone()))),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Cell::Fixed => 0,
            Cell::Key(column) => column.bytes(),
            Cell::Last(v) => v.capacity() * size_of::<Value>(),
            Cell::Long(v, _) => v.capacity() * size_of::<Option<i64>>(),
            Cell::Double(v, _) => v.capacity() * size_of::<Option<f64>>(),
            Cell::Set(v) => {
                let elements: usize = v.iter().map(|s| s.order.capacity()).sum();
                v.capacity() * size_of::<Distinct>() + elements * 3 * size_of::<Value>()
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Cells {
    shape: Arc<Shape>,
    table: HashTable<u32>,
    /// Texts of the group keys, one behind the other, and where each ends.
    texts: String,
    ends: Vec<u32>,
    /// Start of the row's bucket by the event's own time; empty without `aggregate by`.
    event_starts: Vec<i64>,
    /// Event time of the last values.
    last_times: Vec<i64>,
    columns: Vec<Cell>,
    /// Row number of each row that is being added.
    numbers: Vec<u32>,
    /// Of each row number the newest of the rows being added, for last values; [`NONE`] for those
    /// that are not in `touched`.
    newest: Vec<u32>,
    dirty: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Cells {
    pub fn new(shape: &Arc<Shape>) -> Cells {
        Cells {
            columns: shape.columns.iter().map(Cell::new).collect(),
            shape: Arc::clone(shape),
            table: HashTable::new(),
            texts: String::new(),
            ends: Vec::new(),
            event_starts: Vec::new(),
            last_times: Vec::new(),
            numbers: Vec::new(),
            newest: Vec::new(),
            dirty: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn clear(&mut self) {
        self.table.clear();
        self.texts.clear();
        self.ends.clear();
        self.event_starts.clear();
        self.last_times.clear();
        for (cell, column) in self.columns.iter_mut().zip(&self.shape.columns) {
            cell.clear(column.attribute.ty);
        }
    }

    /// Adds rows. `starts`: for each of them the start of its bucket by the event's own time.
    pub fn add(&mut self, args: &[Arg], rows: Range<usize>, starts: &[i64]) {
        let first_new = self.len();
        let new = self.number(args, &rows, starts);
        for cell in &mut self.columns {
            cell.grow(self.ends.len());
        }
        self.last_times.resize(self.ends.len(), i64::MIN);
        self.pick_newest(args, &rows);
        let numbers = &self.numbers;
        for (cell, arg) in self.columns.iter_mut().zip(args) {
            match (cell, arg) {
                (Cell::Key(column), Arg::Column(arg)) => {
                    debug_assert_eq!(column.len(), first_new);
                    for &row in &new {
                        column.append(arg, row..row + 1);
                    }
                }
                (Cell::Last(values), Arg::Column(arg)) => {
                    for &number in &self.dirty {
                        let row = self.newest[number as usize];
                        values[number as usize] = arg.value(row as usize);
                    }
                }
                (Cell::Long(values, fold), Arg::One) => {
                    for &number in numbers {
                        let cell = &mut values[number as usize];
                        *cell = Some(cell.map_or(1, |v| fold(v, 1)));
                    }
                }
                (Cell::Long(values, fold), Arg::Column(arg)) => {
                    longs(arg, &rows, |at, value| {
                        let cell = &mut values[numbers[at] as usize];
                        *cell = Some(cell.map_or(value, |v| fold(v, value)));
                    });
                }
                (Cell::Double(values, fold), Arg::Column(arg)) => {
                    doubles(arg, &rows, |at, value| {
                        let cell = &mut values[numbers[at] as usize];
                        *cell = Some(cell.map_or(value, |v| fold(v, value)));
                    });
                }
                (Cell::Set(sets), Arg::Elements(arg)) => {
                    for (&number, row) in numbers.iter().zip(rows.clone()) {
                        sets[number as usize].add(&arg.value(row));
                    }
                }
                (Cell::Set(sets), Arg::Column(arg)) => {
                    for (&number, row) in numbers.iter().zip(rows.clone()) {
                        if let Value::Object(Object::Set(elements)) = arg.value(row) {
                            let set = &mut sets[number as usize];
                            elements.lock().iter().for_each(|e| set.add(e));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Gives each row its number; the rows that began a new one.
    fn number(&mut self, args: &[Arg], rows: &Range<usize>, starts: &[i64]) -> Vec<usize> {
        let keys: Vec<Column> = self
            .shape
            .keys
            .iter()
            .filter_map(|&key| match &args[key] {
                Arg::Column(column) => Some(column.slice(rows.start, rows.len())),
                _ => None,
            })
            .collect();
        let mut new = Vec::new();
        self.numbers.clear();
        let state = FixedState::with_seed(SEED);
        for_each_key(&keys, rows.len(), |at, text| {
            let start = starts.get(at).copied().unwrap_or(0);
            let (texts, ends, event_starts) = (&self.texts, &self.ends, &self.event_starts);
            let hash = state.hash_one((start, text));
            let is_it = |&number: &u32| {
                text_at(texts, ends, number as usize) == text
                    && event_starts
                        .get(number as usize)
                        .is_none_or(|s| *s == start)
            };
            if let Some(&number) = self.table.find(hash, is_it) {
                return self.numbers.push(number);
            }
            let number = self.ends.len() as u32;
            self.texts.push_str(text);
            self.ends.push(self.texts.len() as u32);
            if !starts.is_empty() {
                self.event_starts.push(start);
            }
            let (texts, ends, event_starts) = (&self.texts, &self.ends, &self.event_starts);
            self.table.insert_unique(hash, number, |&n| {
                let start = event_starts.get(n as usize).copied().unwrap_or(0);
                state.hash_one((start, text_at(texts, ends, n as usize)))
            });
            self.numbers.push(number);
            new.push(rows.start + at);
        });
        new
    }

    /// For last values: the newest of the rows being added, by the event's own time where that
    /// counts, else by arrival. An older one than is there already is passed over.
    fn pick_newest(&mut self, args: &[Arg], rows: &Range<usize>) {
        if !self.columns.iter().any(|c| matches!(c, Cell::Last(_))) {
            return;
        }
        for number in self.dirty.drain(..) {
            self.newest[number as usize] = NONE;
        }
        self.newest
            .resize(self.newest.len().max(self.ends.len()), NONE);
        let times = self.shape.last_time.map(|column| &args[column]);
        for (&number, row) in self.numbers.iter().zip(rows.clone()) {
            if let Some(Arg::Column(times)) = times {
                let time = times.value(row).to_long().unwrap_or(i64::MIN);
                let last = &mut self.last_times[number as usize];
                if time < *last {
                    continue;
                }
                *last = time;
            }
            let newest = &mut self.newest[number as usize];
            if *newest == NONE {
                self.dirty.push(number);
            }
            *newest = row as u32;
        }
    }

    /// Row numbers in the order in which Siddhi's map of groups gives them out.
    /// `tail` is what it puts behind the text of a group.
    fn order(&self, tail: &str) -> Vec<u32> {
        let texts: Vec<String> = (0..self.len())
            .map(|row| {
                let text = text_at(&self.texts, &self.ends, row);
                match self.event_starts.get(row) {
                    Some(start) if self.shape.keys.is_empty() => format!("{start}:-:{tail}"),
                    Some(start) => format!("{start}:-:{text}:-:{tail}"),
                    None => format!("{text}:-:{tail}"),
                }
            })
            .collect();
        let order = hash_order(texts.iter().map(String::as_str), texts.len());
        order.into_iter().map(|row| row as u32).collect()
    }

    /// The rows as those of a table.
    pub fn rows(&self, bucket: i64) -> Vec<Column> {
        self.rows_in(bucket, &self.order(""))
    }

    /// The same in the order in which open buckets are read.
    pub fn rows_read(&self, bucket: i64) -> Vec<Column> {
        self.rows_in(bucket, &self.order(&format!("-{bucket}")))
    }

    fn rows_in(&self, bucket: i64, order: &[u32]) -> Vec<Column> {
        let columns = self.columns.iter().zip(&self.shape.columns);
        columns
            .map(|(cell, column)| {
                let ty = column.attribute.ty;
                let mut builder = ColumnBuilder::with_capacity(ty, order.len());
                for &row in order {
                    let row = row as usize;
                    builder.push(&match column.kind {
                        ColumnKind::Time => Value::Long(bucket),
                        ColumnKind::Shard => self.shape.shard.clone(),
                        ColumnKind::EventTime => Value::Long(self.event_starts[row]),
                        _ => cell.value(row, ty),
                    });
                }
                builder.finish()
            })
            .collect()
    }

    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Cell::bytes).sum::<usize>()
            + self.texts.capacity()
            + self.ends.capacity() * 4
            + (self.event_starts.capacity() + self.last_times.capacity()) * 8
            + self.table.capacity() * 8
    }
}

fn text_at<'a>(texts: &'a str, ends: &[u32], row: usize) -> &'a str {
    let start = if row == 0 { 0 } else { ends[row - 1] as usize };
    &texts[start..ends[row] as usize]
}

/// Calls `take` with each row that has a value, numbered from the start of the range.
fn longs(column: &Column, rows: &Range<usize>, mut take: impl FnMut(usize, i64)) {
    match (column.view(), column.nulls()) {
        (View::Long(v), None) => {
            let values = v[rows.clone()].iter().enumerate();
            values.for_each(|(at, &value)| take(at, value));
        }
        (View::Int(v), None) => {
            let values = v[rows.clone()].iter().enumerate();
            values.for_each(|(at, &value)| take(at, i64::from(value)));
        }
        _ => {
            for (at, row) in rows.clone().enumerate() {
                if let Some(value) = column.value(row).to_long() {
                    take(at, value);
                }
            }
        }
    }
}

fn doubles(column: &Column, rows: &Range<usize>, mut take: impl FnMut(usize, f64)) {
    match (column.view(), column.nulls()) {
        (View::Double(v), None) => {
            let values = v[rows.clone()].iter().enumerate();
            values.for_each(|(at, &value)| take(at, value));
        }
        (View::Float(v), None) => {
            let values = v[rows.clone()].iter().enumerate();
            values.for_each(|(at, &value)| take(at, f64::from(value)));
        }
        _ => {
            for (at, row) in rows.clone().enumerate() {
                if let Some(value) = column.value(row).to_double() {
                    take(at, value);
                }
            }
        }
    }
}
