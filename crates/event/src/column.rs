//! Typed vectors with an optional null mask.

use std::sync::Arc;

pub use crate::strings::StrView;
use crate::strings::{StrBuilder, Strings};
use crate::types::Type;
use crate::value::Value;

/// The vector behind a column. `Any` holds OBJECT values and values of another type than declared.
#[derive(Clone, Debug)]
pub enum Values {
    Bool(Vec<bool>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Str(Strings),
    Any(Vec<Value>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Bool(v) => v.len(),
            Values::Int(v) => v.len(),
            Values::Long(v) => v.len(),
            Values::Float(v) => v.len(),
            Values::Double(v) => v.len(),
            Values::Str(v) => v.len(),
            Values::Any(v) => v.len(),
        }
    }
}

#[derive(Debug)]
struct Data {
    values: Values,
    /// True where the row is null; absent when no row is. `Any` holds its nulls itself.
    nulls: Option<Vec<bool>>,
}

/// A range of rows of a shared vector. Cloning and slicing copy nothing.
#[derive(Clone, Debug)]
pub struct Column {
    data: Arc<Data>,
    offset: usize,
    len: usize,
}

impl Column {
    /// `nulls`, where given, has one entry per row, true for null.
    pub fn new(values: Values, nulls: Option<Vec<bool>>) -> Column {
        let len = values.len();
        debug_assert!(nulls.as_ref().is_none_or(|n| n.len() == len));
        let nulls = nulls.filter(|n| n.contains(&true) && !matches!(values, Values::Any(_)));
        Column {
            data: Arc::new(Data { values, nulls }),
            offset: 0,
            len,
        }
    }

    pub fn longs_from(values: Vec<i64>) -> Column {
        Column::new(Values::Long(values), None)
    }

    /// One value for `len` rows.
    pub fn constant(ty: Type, value: &Value, len: usize) -> Column {
        let mut builder = ColumnBuilder::with_capacity(ty, len);
        for _ in 0..len {
            builder.push(value);
        }
        builder.finish()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn slice(&self, start: usize, len: usize) -> Column {
        debug_assert!(start + len <= self.len);
        Column {
            data: Arc::clone(&self.data),
            offset: self.offset + start,
            len,
        }
    }

    /// The same rows of the same vector?
    pub fn is_same(&self, other: &Column) -> bool {
        Arc::ptr_eq(&self.data, &other.data) && (self.offset, self.len) == (other.offset, other.len)
    }

    /// Heap bytes of the shared vector, its share of other readers counted in full.
    pub fn bytes(&self) -> usize {
        let rows = match &self.data.values {
            Values::Bool(v) => v.len(),
            Values::Int(v) => size_of_val(v.as_slice()),
            Values::Long(v) => size_of_val(v.as_slice()),
            Values::Float(v) => size_of_val(v.as_slice()),
            Values::Double(v) => size_of_val(v.as_slice()),
            Values::Str(v) => v.heap_bytes(),
            Values::Any(v) => size_of_val(v.as_slice()),
        };
        rows + self.data.nulls.as_ref().map_or(0, Vec::len)
    }

    /// Bytes of these rows alone, whoever else shares the vector: what they cost in a queue. Lists
    /// and maps behind OBJECT values are counted by their handles.
    pub fn weight(&self) -> usize {
        let rows = self.offset..self.offset + self.len;
        match &self.data.values {
            Values::Bool(_) => self.len,
            Values::Int(_) | Values::Float(_) => 4 * self.len,
            Values::Long(_) | Values::Double(_) => 8 * self.len,
            Values::Str(texts) => texts.weight(rows),
            Values::Any(values) => values[rows]
                .iter()
                .map(|value| match value {
                    Value::Str(text) => size_of::<Value>() + text.len(),
                    _ => size_of::<Value>(),
                })
                .sum(),
        }
    }

    /// Null marks of these rows; `None` when none is null (or the column is `Any`).
    pub fn nulls(&self) -> Option<&[bool]> {
        self.data
            .nulls
            .as_deref()
            .map(|n| &n[self.offset..self.offset + self.len])
    }

    pub fn is_null(&self, row: usize) -> bool {
        match &self.data.values {
            Values::Any(v) => v[self.offset + row].is_null(),
            _ => self
                .data
                .nulls
                .as_ref()
                .is_some_and(|n| n[self.offset + row]),
        }
    }

    /// The shape of the vector, to choose a typed loop once per batch.
    pub fn view(&self) -> View<'_> {
        let range = self.offset..self.offset + self.len;
        match &self.data.values {
            Values::Bool(v) => View::Bool(&v[range]),
            Values::Int(v) => View::Int(&v[range]),
            Values::Long(v) => View::Long(&v[range]),
            Values::Float(v) => View::Float(&v[range]),
            Values::Double(v) => View::Double(&v[range]),
            Values::Str(v) => View::Str(v.view(range)),
            Values::Any(v) => View::Any(&v[range]),
        }
    }

    pub fn value(&self, row: usize) -> Value {
        let at = self.offset + row;
        if self.is_null(row) {
            return Value::Null;
        }
        match &self.data.values {
            Values::Bool(v) => Value::Bool(v[at]),
            Values::Int(v) => Value::Int(v[at]),
            Values::Long(v) => Value::Long(v[at]),
            Values::Float(v) => Value::Float(v[at]),
            Values::Double(v) => Value::Double(v[at]),
            Values::Str(v) => Value::str(v.get(at)),
            Values::Any(v) => v[at].clone(),
        }
    }

    /// The rows of a BOOL column without nulls, taken over where nobody else holds the vector.
    pub fn into_bools(self) -> Result<Vec<bool>, Column> {
        if self.data.nulls.is_some() || !matches!(self.data.values, Values::Bool(_)) {
            return Err(self);
        }
        let rows = self.offset..self.offset + self.len;
        Ok(match Arc::try_unwrap(self.data) {
            Ok(Data {
                values: Values::Bool(mut all),
                ..
            }) => {
                all.truncate(rows.end);
                all.drain(..rows.start);
                all
            }
            Ok(_) => unreachable!("the vector was just seen to be of BOOL"),
            Err(shared) => match &shared.values {
                Values::Bool(all) => all[rows].to_vec(),
                _ => unreachable!("the vector was just seen to be of BOOL"),
            },
        })
    }

    /// Rows picked by index, in that order.
    pub fn gather(&self, rows: &[u32]) -> Column {
        fn pick<T: Copy>(from: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&r| from[r as usize]).collect()
        }
        let values = match self.view() {
            View::Bool(v) => Values::Bool(pick(v, rows)),
            View::Int(v) => Values::Int(pick(v, rows)),
            View::Long(v) => Values::Long(pick(v, rows)),
            View::Float(v) => Values::Float(pick(v, rows)),
            View::Double(v) => Values::Double(pick(v, rows)),
            View::Str(v) => Values::Str(v.gather(rows)),
            View::Any(v) => Values::Any(rows.iter().map(|&r| v[r as usize].clone()).collect()),
        };
        Column::new(values, self.nulls().map(|n| pick(n, rows)))
    }

    /// Rows picked by index; [`Column::NO_ROW`] stands for a null.
    pub fn gather_padded(&self, rows: &[u32]) -> Column {
        if !rows.contains(&Column::NO_ROW) {
            return self.gather(rows);
        }
        let mut builder = ColumnBuilder::like(self, rows.len());
        for &row in rows {
            if row == Column::NO_ROW {
                builder.push_null();
            } else {
                builder.extend(self, row as usize..row as usize + 1);
            }
        }
        builder.finish()
    }

    /// No row at all, in [`Column::gather_padded`].
    pub const NO_ROW: u32 = u32::MAX;

    /// Overwrites one row. A vector that is shared is copied first; one that is not is changed in
    /// place. A value of another type turns the column into `Any`.
    pub fn set(&mut self, row: usize, value: &Value) {
        self.make_own();
        let len = self.len;
        let data = Arc::get_mut(&mut self.data).expect("the vector was made this column's own");
        let is_null = value.is_null();
        let fits = match (&mut data.values, value) {
            (Values::Any(v), x) => {
                v[row] = x.clone();
                return;
            }
            (_, Value::Null) => true,
            (Values::Bool(v), Value::Bool(x)) => {
                v[row] = *x;
                true
            }
            (Values::Int(v), Value::Int(x)) => {
                v[row] = *x;
                true
            }
            (Values::Long(v), Value::Long(x)) => {
                v[row] = *x;
                true
            }
            (Values::Float(v), Value::Float(x)) => {
                v[row] = *x;
                true
            }
            (Values::Double(v), Value::Double(x)) => {
                v[row] = *x;
                true
            }
            (Values::Str(v), Value::Str(x)) => {
                v.set(row, x);
                true
            }
            _ => false,
        };
        if !fits {
            let mut all: Vec<Value> = (0..len).map(|r| self.value(r)).collect();
            all[row] = value.clone();
            *self = Column::new(Values::Any(all), None);
        } else if is_null {
            data.nulls.get_or_insert_with(|| vec![false; len])[row] = true;
        } else if let Some(nulls) = &mut data.nulls {
            nulls[row] = false;
        }
    }

    /// Overwrites one row with a row of another column, under the same rules as [`Column::set`];
    /// between columns of one type nothing is allocated but for long texts.
    pub fn set_from(&mut self, row: usize, from: &Column, from_row: usize) {
        self.make_own();
        let data = Arc::get_mut(&mut self.data).expect("the vector was made this column's own");
        let is_null = from.is_null(from_row);
        macro_rules! copy {
            ($($kind:ident)*) => {
                match (&mut data.values, from.view()) {
                    $((Values::$kind(to), View::$kind(v)) => {
                        to[row] = v[from_row];
                        true
                    })*
                    (Values::Str(to), View::Str(v)) => {
                        to.set(row, v.get(from_row));
                        true
                    }
                    _ => false,
                }
            };
        }
        if !copy!(Bool Int Long Float Double) {
            self.set(row, &from.value(from_row));
        } else if is_null {
            let rows = self.len;
            data.nulls.get_or_insert_with(|| vec![false; rows])[row] = true;
        } else if let Some(nulls) = &mut data.nulls {
            nulls[row] = false;
        }
    }

    /// The values themselves, to be overwritten; `None` for another type and where a row is null.
    pub fn ints_mut(&mut self) -> Option<&mut [i32]> {
        match &mut self.without_nulls()?.values {
            Values::Int(values) => Some(values),
            _ => None,
        }
    }

    /// As [`Column::ints_mut`].
    pub fn longs_mut(&mut self) -> Option<&mut [i64]> {
        match &mut self.without_nulls()?.values {
            Values::Long(values) => Some(values),
            _ => None,
        }
    }

    /// As [`Column::ints_mut`].
    pub fn doubles_mut(&mut self) -> Option<&mut [f64]> {
        match &mut self.without_nulls()?.values {
            Values::Double(values) => Some(values),
            _ => None,
        }
    }

    fn without_nulls(&mut self) -> Option<&mut Data> {
        self.make_own();
        Arc::get_mut(&mut self.data).filter(|data| data.nulls.is_none())
    }

    /// Appends rows of another column in place, under the same rules as [`Column::set`]; long
    /// texts are copied.
    pub fn append(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        self.make_own();
        let before = self.len;
        let data = Arc::get_mut(&mut self.data).expect("the vector was made this column's own");
        macro_rules! copy {
            ($($kind:ident)*) => {
                match (&mut data.values, from.view()) {
                    $((Values::$kind(to), View::$kind(v)) => {
                        to.extend_from_slice(&v[rows.clone()]);
                        true
                    })*
                    (Values::Str(to), View::Str(v)) => {
                        to.append(&v, rows.clone());
                        true
                    }
                    _ => false,
                }
            };
        }
        let fits = copy!(Bool Int Long Float Double Any);
        if !fits {
            let mut all: Vec<Value> = (0..before).map(|r| self.value(r)).collect();
            all.extend(rows.map(|r| from.value(r)));
            *self = Column::new(Values::Any(all), None);
            return;
        }
        match (from.nulls(), &mut data.nulls) {
            (None, None) => {}
            (None, Some(nulls)) => nulls.resize(before + rows.len(), false),
            (Some(more), nulls) => nulls
                .get_or_insert_with(|| vec![false; before])
                .extend_from_slice(&more[rows.clone()]),
        }
        self.len += rows.len();
    }

    /// Makes the vector this column's own and no longer than its rows.
    fn make_own(&mut self) {
        let is_whole = self.offset == 0 && self.len == self.data.values.len();
        if is_whole && Arc::get_mut(&mut self.data).is_some() {
            return;
        }
        let mut builder = ColumnBuilder::like(self, self.len);
        builder.extend(self, 0..self.len);
        *self = builder.finish();
    }

    /// Columns one behind the other. Where their vectors differ in type the result is `Any`.
    /// A single part is handed on without a copy.
    pub fn concat(parts: &[Column]) -> Column {
        if let [one] = parts {
            return one.clone();
        }
        let len = parts.iter().map(Column::len).sum();
        let Some(first) = parts.first() else {
            return Column::new(Values::Any(Vec::new()), None);
        };
        let same = parts.iter().all(|p| {
            std::mem::discriminant(&p.data.values) == std::mem::discriminant(&first.data.values)
        });
        if !same {
            let all = parts
                .iter()
                .flat_map(|p| (0..p.len).map(|r| p.value(r)))
                .collect();
            return Column::new(Values::Any(all), None);
        }
        macro_rules! join {
            ($kind:ident) => {{
                let mut all = Vec::with_capacity(len);
                for part in parts {
                    if let View::$kind(v) = part.view() {
                        all.extend_from_slice(v);
                    }
                }
                Values::$kind(all)
            }};
        }
        let values = match first.view() {
            View::Bool(_) => join!(Bool),
            View::Int(_) => join!(Int),
            View::Long(_) => join!(Long),
            View::Float(_) => join!(Float),
            View::Double(_) => join!(Double),
            View::Any(_) => join!(Any),
            View::Str(_) => {
                Values::Str(Strings::concat(parts.iter().filter_map(
                    |p| match &p.data.values {
                        Values::Str(s) => Some((s, p.offset..p.offset + p.len)),
                        _ => None,
                    },
                )))
            }
        };
        let nulls = parts.iter().any(|p| p.nulls().is_some()).then(|| {
            let mut all = Vec::with_capacity(len);
            for part in parts {
                match part.nulls() {
                    Some(n) => all.extend_from_slice(n),
                    None => all.resize(all.len() + part.len, false),
                }
            }
            all
        });
        Column::new(values, nulls)
    }
}

/// A borrowed, typed look at a column.
#[derive(Clone, Copy)]
pub enum View<'a> {
    Bool(&'a [bool]),
    Int(&'a [i32]),
    Long(&'a [i64]),
    Float(&'a [f32]),
    Double(&'a [f64]),
    Str(StrView<'a>),
    Any(&'a [Value]),
}

impl View<'_> {
    /// What lies at a row; under a null mark that is a placeholder.
    fn value(&self, row: usize) -> Value {
        match self {
            View::Bool(v) => Value::Bool(v[row]),
            View::Int(v) => Value::Int(v[row]),
            View::Long(v) => Value::Long(v[row]),
            View::Float(v) => Value::Float(v[row]),
            View::Double(v) => Value::Double(v[row]),
            View::Str(v) => Value::str(v.get(row)),
            View::Any(v) => v[row].clone(),
        }
    }
}

/// Builds a column of a declared type row by row. A value of another type turns the column into
/// `Any`; nothing is converted.
#[derive(Clone, Debug)]
pub struct ColumnBuilder {
    rows: Rows,
    nulls: Option<Vec<bool>>,
}

#[derive(Clone, Debug)]
enum Rows {
    Bool(Vec<bool>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Str(StrBuilder),
    Any(Vec<Value>),
}

macro_rules! typed_push {
    ($name:ident, $kind:ident, $ty:ty) => {
        /// Appends a value of the builder's own type; a builder of another type takes it as `Any`.
        #[inline]
        pub fn $name(&mut self, value: $ty) {
            match &mut self.rows {
                Rows::$kind(v) => v.push(value),
                _ => return self.push(&Value::$kind(value)),
            }
            if let Some(nulls) = &mut self.nulls {
                nulls.push(false);
            }
        }
    };
}

impl ColumnBuilder {
    pub fn new(ty: Type) -> ColumnBuilder {
        ColumnBuilder::with_capacity(ty, 0)
    }

    pub fn with_capacity(ty: Type, rows: usize) -> ColumnBuilder {
        let rows = match ty {
            Type::Bool => Rows::Bool(Vec::with_capacity(rows)),
            Type::Int => Rows::Int(Vec::with_capacity(rows)),
            Type::Long => Rows::Long(Vec::with_capacity(rows)),
            Type::Float => Rows::Float(Vec::with_capacity(rows)),
            Type::Double => Rows::Double(Vec::with_capacity(rows)),
            Type::String => Rows::Str(StrBuilder::with_capacity(rows)),
            Type::Object => Rows::Any(Vec::with_capacity(rows)),
        };
        ColumnBuilder { rows, nulls: None }
    }

    /// A builder for rows of the same vector type as a column's.
    pub fn like(column: &Column, rows: usize) -> ColumnBuilder {
        ColumnBuilder::with_capacity(
            match column.view() {
                View::Bool(_) => Type::Bool,
                View::Int(_) => Type::Int,
                View::Long(_) => Type::Long,
                View::Float(_) => Type::Float,
                View::Double(_) => Type::Double,
                View::Str(_) => Type::String,
                View::Any(_) => Type::Object,
            },
            rows,
        )
    }

    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::Bool(v) => v.len(),
            Rows::Int(v) => v.len(),
            Rows::Long(v) => v.len(),
            Rows::Float(v) => v.len(),
            Rows::Double(v) => v.len(),
            Rows::Str(v) => v.len(),
            Rows::Any(v) => v.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows so far.
    pub fn view(&self) -> View<'_> {
        match &self.rows {
            Rows::Bool(v) => View::Bool(v),
            Rows::Int(v) => View::Int(v),
            Rows::Long(v) => View::Long(v),
            Rows::Float(v) => View::Float(v),
            Rows::Double(v) => View::Double(v),
            Rows::Str(v) => View::Str(v.view()),
            Rows::Any(v) => View::Any(v),
        }
    }

    /// Null marks of the rows so far; `None` when none was marked (or the builder is `Any`).
    pub fn nulls(&self) -> Option<&[bool]> {
        self.nulls.as_deref()
    }

    pub fn value(&self, row: usize) -> Value {
        if self.nulls.as_ref().is_some_and(|nulls| nulls[row]) {
            return Value::Null;
        }
        self.view().value(row)
    }

    /// A builder that goes on behind the rows of a column; the vector is taken over where nobody
    /// else reads it.
    pub fn behind(column: Column) -> ColumnBuilder {
        let is_whole = column.offset == 0 && column.len == column.data.values.len();
        let data = match Arc::try_unwrap(column.data) {
            Ok(data) if is_whole => data,
            Ok(data) => {
                return ColumnBuilder::copy_of(&Column {
                    data: Arc::new(data),
                    ..column
                });
            }
            Err(data) => return ColumnBuilder::copy_of(&Column { data, ..column }),
        };
        let rows = match data.values {
            Values::Bool(v) => Rows::Bool(v),
            Values::Int(v) => Rows::Int(v),
            Values::Long(v) => Rows::Long(v),
            Values::Float(v) => Rows::Float(v),
            Values::Double(v) => Rows::Double(v),
            Values::Str(v) => Rows::Str(StrBuilder::behind(v)),
            Values::Any(v) => Rows::Any(v),
        };
        ColumnBuilder {
            rows,
            nulls: data.nulls,
        }
    }

    fn copy_of(column: &Column) -> ColumnBuilder {
        let mut builder = ColumnBuilder::like(column, column.len);
        builder.extend(column, 0..column.len);
        builder
    }

    typed_push!(push_bool, Bool, bool);
    typed_push!(push_int, Int, i32);
    typed_push!(push_long, Long, i64);
    typed_push!(push_float, Float, f32);
    typed_push!(push_double, Double, f64);

    #[inline]
    pub fn push_str(&mut self, text: &str) {
        match &mut self.rows {
            Rows::Str(v) => v.push(text),
            _ => return self.push(&Value::str(text)),
        }
        if let Some(nulls) = &mut self.nulls {
            nulls.push(false);
        }
    }

    pub fn push_null(&mut self) {
        let len = self.len();
        match &mut self.rows {
            Rows::Any(v) => return v.push(Value::Null),
            Rows::Bool(v) => v.push(false),
            Rows::Int(v) => v.push(0),
            Rows::Long(v) => v.push(0),
            Rows::Float(v) => v.push(0.0),
            Rows::Double(v) => v.push(0.0),
            Rows::Str(v) => v.push_empty(),
        }
        self.nulls
            .get_or_insert_with(|| vec![false; len])
            .push(true);
    }

    pub fn push(&mut self, value: &Value) {
        match (&mut self.rows, value) {
            (_, Value::Null) => return self.push_null(),
            (Rows::Bool(v), Value::Bool(x)) => v.push(*x),
            (Rows::Int(v), Value::Int(x)) => v.push(*x),
            (Rows::Long(v), Value::Long(x)) => v.push(*x),
            (Rows::Float(v), Value::Float(x)) => v.push(*x),
            (Rows::Double(v), Value::Double(x)) => v.push(*x),
            (Rows::Str(v), Value::Str(x)) => v.push(x),
            (Rows::Any(v), x) => return v.push(x.clone()),
            (_, x) => {
                let mut all = self.take_as_any();
                all.push(x.clone());
                self.rows = Rows::Any(all);
                return;
            }
        }
        if let Some(nulls) = &mut self.nulls {
            nulls.push(false);
        }
    }

    /// Makes room for more rows. A vector that has to move for it gets room for `share` of all its
    /// rows beyond them.
    pub fn reserve(&mut self, rows: usize, share: f64) {
        fn room<T>(vector: &mut Vec<T>, rows: usize, share: f64) {
            if vector.capacity() - vector.len() < rows {
                let beyond = (share * (vector.len() + rows) as f64) as usize;
                vector.reserve_exact(rows + beyond);
            }
        }
        match &mut self.rows {
            Rows::Bool(v) => room(v, rows, share),
            Rows::Int(v) => room(v, rows, share),
            Rows::Long(v) => room(v, rows, share),
            Rows::Float(v) => room(v, rows, share),
            Rows::Double(v) => room(v, rows, share),
            Rows::Str(v) => v.reserve(rows, share),
            Rows::Any(v) => room(v, rows, share),
        }
    }

    /// Appends rows of a column.
    pub fn extend(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        if let (Rows::Str(to), Values::Str(strings)) = (&mut self.rows, &from.data.values) {
            let before = to.len();
            to.extend_from(
                strings,
                (from.offset + rows.start)..(from.offset + rows.end),
            );
            return self.extend_nulls(before, from, rows);
        }
        macro_rules! copy {
            ($($kind:ident)*) => {
                match (&mut self.rows, from.view()) {
                    $((Rows::$kind(to), View::$kind(v)) => {
                        let before = to.len();
                        to.extend_from_slice(&v[rows.clone()]);
                        return self.extend_nulls(before, from, rows);
                    })*
                    _ => {}
                }
            };
        }
        copy!(Bool Int Long Float Double);
        for row in rows {
            self.push(&from.value(row));
        }
    }

    /// Appends `count` pairs: a row of `a`, then a row of `b`. It is what a sliding window emits, an
    /// EXPIRED row in front of each CURRENT one.
    pub fn extend_alternating(
        &mut self,
        (a, a_start): (&Column, usize),
        (b, b_start): (&Column, usize),
        count: usize,
    ) {
        macro_rules! copy {
            ($($kind:ident)*) => {
                match (&mut self.rows, a.view(), b.view()) {
                    $((Rows::$kind(to), View::$kind(a), View::$kind(b))
                        if self.nulls.is_none() => {
                        let a = &a[a_start..a_start + count];
                        let b = &b[b_start..b_start + count];
                        let start = to.len();
                        to.resize(start + 2 * count, Default::default());
                        let pairs = to[start..].chunks_exact_mut(2);
                        for (pair, (&x, &y)) in pairs.zip(a.iter().zip(b)) {
                            (pair[0], pair[1]) = (x, y);
                        }
                        return;
                    })*
                    _ => {}
                }
            };
        }
        if a.nulls().is_none() && b.nulls().is_none() {
            copy!(Bool Int Long Float Double);
            if let (Rows::Str(to), View::Str(a), View::Str(b)) =
                (&mut self.rows, a.view(), b.view())
                && self.nulls.is_none()
                && to.extend_alternating((&a, a_start), (&b, b_start), count)
            {
                return;
            }
        }
        for i in 0..count {
            self.extend(a, a_start + i..a_start + i + 1);
            self.extend(b, b_start + i..b_start + i + 1);
        }
    }

    /// Heap bytes in use: what the rows take, not what is reserved.
    pub fn bytes(&self) -> usize {
        let rows = match &self.rows {
            Rows::Bool(v) => v.len(),
            Rows::Int(v) => size_of_val(v.as_slice()),
            Rows::Long(v) => size_of_val(v.as_slice()),
            Rows::Float(v) => size_of_val(v.as_slice()),
            Rows::Double(v) => size_of_val(v.as_slice()),
            Rows::Str(v) => v.bytes(),
            Rows::Any(v) => size_of_val(v.as_slice()),
        };
        rows + self.nulls.as_ref().map_or(0, Vec::len)
    }

    fn extend_nulls(&mut self, before: usize, from: &Column, rows: std::ops::Range<usize>) {
        match (from.nulls(), &mut self.nulls) {
            (None, None) => {}
            (None, Some(nulls)) => nulls.resize(nulls.len() + rows.len(), false),
            (Some(more), nulls) => {
                nulls
                    .get_or_insert_with(|| vec![false; before])
                    .extend_from_slice(&more[rows]);
            }
        }
    }

    /// One value `count` times.
    pub fn push_repeated(&mut self, value: &Value, count: usize) {
        if count == 0 {
            return;
        }
        self.push(value);
        if let (Rows::Str(texts), None) = (&mut self.rows, &self.nulls) {
            return texts.repeat_last(count - 1);
        }
        for _ in 1..count {
            self.push(value);
        }
    }

    /// Takes back the rows from `len` on. A column that turned to `Any` stays so.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.rows {
            Rows::Bool(v) => v.truncate(len),
            Rows::Int(v) => v.truncate(len),
            Rows::Long(v) => v.truncate(len),
            Rows::Float(v) => v.truncate(len),
            Rows::Double(v) => v.truncate(len),
            Rows::Str(v) => v.truncate(len),
            Rows::Any(v) => v.truncate(len),
        }
        if let Some(nulls) = &mut self.nulls {
            nulls.truncate(len);
        }
    }

    fn take_as_any(&mut self) -> Vec<Value> {
        let taken = std::mem::replace(&mut self.rows, Rows::Any(Vec::new()));
        let column = ColumnBuilder {
            rows: taken,
            nulls: self.nulls.take(),
        }
        .finish();
        (0..column.len()).map(|row| column.value(row)).collect()
    }

    pub fn finish(self) -> Column {
        let values = match self.rows {
            Rows::Bool(v) => Values::Bool(v),
            Rows::Int(v) => Values::Int(v),
            Rows::Long(v) => Values::Long(v),
            Rows::Float(v) => Values::Float(v),
            Rows::Double(v) => Values::Double(v),
            Rows::Str(v) => Values::Str(v.finish()),
            Rows::Any(v) => Values::Any(v),
        };
        Column::new(values, self.nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_type_travels_as_it_is() {
        let mut builder = ColumnBuilder::new(Type::Int);
        builder.push_int(1);
        builder.push_null();
        builder.push(&Value::str("x"));
        builder.push_int(2);
        let column = builder.finish();
        let values: Vec<Value> = (0..4).map(|row| column.value(row)).collect();
        assert_eq!(
            values,
            [Value::Int(1), Value::Null, Value::str("x"), Value::Int(2)]
        );
    }

    #[test]
    fn truncating_takes_rows_back() {
        let mut builder = ColumnBuilder::new(Type::String);
        builder.push_str("a text that is too long to lie inside its view");
        builder.push_null();
        builder.truncate(1);
        builder.push_str("b");
        builder.push_repeated(&Value::str("c"), 3);
        builder.truncate(4);
        builder.truncate(9);
        let column = builder.finish();
        let texts: Vec<Value> = (1..column.len()).map(|row| column.value(row)).collect();
        assert_eq!(texts, ["b".into(), "c".into(), "c".into()]);
    }

    #[test]
    fn slices_gathers_and_concats_keep_nulls() {
        let mut builder = ColumnBuilder::new(Type::Double);
        for v in [Some(1.0), None, Some(3.0), None] {
            builder.push(&v.map_or(Value::Null, Value::Double));
        }
        let column = builder.finish();
        let tail = column.slice(1, 3);
        assert_eq!(
            (tail.value(0), tail.value(1)),
            (Value::Null, Value::Double(3.0))
        );
        let picked = tail.gather(&[1, 0]);
        let joined = Column::concat(&[picked, column.slice(0, 1)]);
        let values: Vec<Value> = (0..3).map(|row| joined.value(row)).collect();
        assert_eq!(
            values,
            [Value::Double(3.0), Value::Null, Value::Double(1.0)]
        );
        let mut again = ColumnBuilder::new(Type::Double);
        again.extend(&joined, 0..2);
        assert_eq!(again.finish().value(1), Value::Null);
    }

    #[test]
    fn alternating_rows_come_in_pairs() {
        let column = |values: &[Option<i64>]| {
            let mut builder = ColumnBuilder::new(Type::Long);
            for v in values {
                builder.push(&v.map_or(Value::Null, Value::Long));
            }
            builder.finish()
        };
        for (a, b) in [
            (
                column(&[Some(0), Some(1), Some(2)]),
                column(&[Some(7), Some(8)]),
            ),
            (column(&[Some(0), Some(1), None]), column(&[Some(7), None])),
        ] {
            let mut builder = ColumnBuilder::new(Type::Long);
            builder.extend_alternating((&a, 1), (&b, 0), 2);
            let both = builder.finish();
            let values: Vec<Value> = (0..4).map(|row| both.value(row)).collect();
            assert_eq!(values, [a.value(1), b.value(0), a.value(2), b.value(1)]);
        }
    }

    #[test]
    fn a_column_is_changed_in_place_unless_it_is_shared() {
        let texts = ["short", "a text that lies outside its view"];
        let mut column = Column::new(Values::Str(texts.into_iter().collect()), None);
        let shared = column.clone();
        column.set(0, &Value::str("another text outside its view"));
        column.set(1, &Value::Null);
        column.append(&shared, 0..2);
        let values = |c: &Column| -> Vec<Value> { (0..c.len()).map(|r| c.value(r)).collect() };
        assert_eq!(
            values(&column),
            [
                Value::str("another text outside its view"),
                Value::Null,
                Value::str(texts[0]),
                Value::str(texts[1]),
            ]
        );
        assert_eq!(values(&shared), texts.map(Value::str));
        column.set(1, &Value::Int(7));
        assert_eq!(column.value(1), Value::Int(7));
        let padded = shared.gather_padded(&[1, Column::NO_ROW]);
        assert_eq!(values(&padded), [Value::str(texts[1]), Value::Null]);
    }

    #[test]
    fn a_column_weighs_what_its_own_rows_take() {
        let long = "x".repeat(100);
        let texts = ["short", &long, &long, &long[..50]].map(Value::str);
        let mut builder = ColumnBuilder::new(Type::String);
        texts.iter().for_each(|v| builder.push(v));
        let column = builder.finish();
        assert_eq!(column.weight(), 4 * 16 + 100 + 50);
        assert_eq!(column.slice(0, 1).weight(), 16);
        assert_eq!(column.slice(2, 2).weight(), 2 * 16 + 100 + 50);
        assert_eq!(Column::longs_from(vec![1, 2, 3]).slice(1, 2).weight(), 16);
        let mixed = Column::constant(Type::Object, &Value::str(&long), 2);
        assert_eq!(mixed.weight(), 2 * (size_of::<Value>() + 100));
    }
}
