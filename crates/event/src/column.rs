//! Typed vectors with an optional null mask.

// Twin: column/one.rs (a column of one row); keep both in step.

mod builder;
mod inline_value;
mod scalar_ref;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::selection::retain_rows;
pub use crate::strings::StrView;
use crate::strings::Strings;
use crate::types::Type;
use crate::value::Value;
pub use builder::ColumnBuilder;
use inline_value::{InlineValue, one_of};
pub use scalar_ref::ScalarRef;

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

/// As `Arc::get_mut`, which locks the count of weak references for a moment: a column that is written
/// row by row would spend more on that than on the values.
#[inline]
fn own_mut(data: &mut Arc<Data>) -> Option<&mut Data> {
    if Arc::strong_count(data) != 1 {
        return None;
    }
    // Whoever has given the vector up before has done with it.
    fence(Ordering::Acquire);
    // SAFETY: a vector never leaves this module but inside its column, and nobody makes a weak
    // reference to one: the only reference there is, is borrowed here alone.
    #[allow(unsafe_code)]
    Some(unsafe { &mut *Arc::as_ptr(data).cast_mut() })
}

/// A vector of which less than one in so many rows is left is written anew: it would keep room that
/// nobody counts.
pub(crate) const RETAINED_SHARE: usize = 2;

impl Data {
    fn retain(&mut self, rows: &[u32]) {
        match &mut self.values {
            Values::Bool(v) => retain_rows(v, rows),
            Values::Int(v) => retain_rows(v, rows),
            Values::Long(v) => retain_rows(v, rows),
            Values::Float(v) => retain_rows(v, rows),
            Values::Double(v) => retain_rows(v, rows),
            Values::Str(v) => v.retain(rows),
            Values::Any(v) => {
                for (to, &row) in rows.iter().enumerate() {
                    v.swap(to, row as usize);
                }
                v.truncate(rows.len());
            }
        }
        if let Some(nulls) = &mut self.nulls {
            retain_rows(nulls, rows);
            if !nulls.contains(&true) {
                self.nulls = None;
            }
        }
    }
}

/// A range of rows of a shared vector, or a single row that lies in the column itself. Cloning and
/// slicing copy no vector.
///
/// Events that arrive singly are columns of one row. Such a column has no vector and so asks
/// nothing of the allocator, wherever it is made, cut or picked.
#[derive(Clone, Debug)]
pub struct Column(Rep);

#[derive(Clone, Debug)]
enum Rep {
    Many {
        data: Arc<Data>,
        offset: usize,
        len: usize,
    },
    One(InlineValue),
    /// Null; what lies there is a placeholder.
    Null(InlineValue),
}

/// Events that arrive singly are many columns.
const _: () = assert!(size_of::<Column>() == 4 * size_of::<u64>());

impl Rep {
    fn whole(data: Arc<Data>) -> Rep {
        let len = data.values.len();
        Rep::Many {
            data,
            offset: 0,
            len,
        }
    }
}

/// The null marks of a single row.
static NULL: [bool; 1] = [true];

impl Values {
    fn view(&self, rows: Range<usize>) -> View<'_> {
        match self {
            Values::Bool(v) => View::Bool(&v[rows]),
            Values::Int(v) => View::Int(&v[rows]),
            Values::Long(v) => View::Long(&v[rows]),
            Values::Float(v) => View::Float(&v[rows]),
            Values::Double(v) => View::Double(&v[rows]),
            Values::Str(v) => View::Str(v.view(rows)),
            Values::Any(v) => View::Any(&v[rows]),
        }
    }
}

impl Column {
    /// `nulls`, where given, has one entry per row, true for null.
    pub fn new(values: Values, nulls: Option<Vec<bool>>) -> Column {
        let len = values.len();
        debug_assert!(nulls.as_ref().is_none_or(|n| n.len() == len));
        let nulls = nulls.filter(|n| n.contains(&true) && !matches!(values, Values::Any(_)));
        if len == 1
            && let Some(value) = values.view(0..1).one(0)
        {
            return Column::alone(value, nulls.is_some());
        }
        Column::many(Data { values, nulls })
    }

    #[inline(always)]
    fn alone(value: InlineValue, is_null: bool) -> Column {
        Column(if is_null {
            Rep::Null(value)
        } else {
            Rep::One(value)
        })
    }

    /// A null that stands for a column that is put in its place later.
    #[inline(always)]
    pub const fn later() -> Column {
        Column(Rep::Null(InlineValue::LATER))
    }

    fn many(data: Data) -> Column {
        Column(Rep::whole(Arc::new(data)))
    }

    pub fn longs_from(values: Vec<i64>) -> Column {
        Column::new(Values::Long(values), None)
    }

    /// One value for `len` rows.
    pub fn constant(ty: Type, value: &Value, len: usize) -> Column {
        if len == 1
            && let Some((value, is_null)) = one_of(ty, value)
        {
            return Column::alone(value, is_null);
        }
        let mut builder = ColumnBuilder::with_capacity(ty, len);
        builder.push_repeated(value, len);
        builder.finish()
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Rep::Many { len, .. } => *len,
            Rep::One(_) | Rep::Null(_) => 1,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn slice(&self, start: usize, len: usize) -> Column {
        debug_assert!(start + len <= self.len());
        if len == 1
            && let Some(value) = self.view().one(start)
        {
            return Column::alone(value, self.is_null(start));
        }
        let (data, offset) = match &self.0 {
            Rep::Many { data, offset, .. } => (Arc::clone(data), offset + start),
            Rep::One(value) | Rep::Null(value) => {
                let values = value.into_values();
                (
                    Arc::new(Data {
                        values,
                        nulls: None,
                    }),
                    start,
                )
            }
        };
        Column(Rep::Many { data, offset, len })
    }

    /// The same rows of the same vector?
    pub fn is_same(&self, other: &Column) -> bool {
        match (&self.0, &other.0) {
            (
                Rep::Many { data, offset, len },
                Rep::Many {
                    data: other,
                    offset: at,
                    len: rows,
                },
            ) => Arc::ptr_eq(data, other) && (offset, len) == (at, rows),
            // A row that lies in its column is what it holds.
            (Rep::One(value), Rep::One(other)) | (Rep::Null(value), Rep::Null(other)) => {
                value.is_same(other)
            }
            _ => false,
        }
    }

    /// Heap bytes of the shared vector, its share of other readers counted in full.
    pub fn bytes(&self) -> usize {
        let Rep::Many { data, .. } = &self.0 else {
            return self.weight();
        };
        let rows = match &data.values {
            Values::Bool(v) => v.len(),
            Values::Int(v) => size_of_val(v.as_slice()),
            Values::Long(v) => size_of_val(v.as_slice()),
            Values::Float(v) => size_of_val(v.as_slice()),
            Values::Double(v) => size_of_val(v.as_slice()),
            Values::Str(v) => v.heap_bytes(),
            Values::Any(v) => size_of_val(v.as_slice()),
        };
        rows + data.nulls.as_ref().map_or(0, Vec::len)
    }

    /// Heap bytes of the vector behind the column, shared or not; none for a row that lies in it.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Rep::Many { .. } => size_of::<Data>() + self.bytes(),
            Rep::One(_) | Rep::Null(_) => 0,
        }
    }

    /// A row that holds nothing of the vector in which it lies.
    pub fn own_row(&self, row: usize) -> Column {
        if let Some(value) = self.view().one(row) {
            return Column::alone(value, self.is_null(row));
        }
        let mut builder = ColumnBuilder::like(self, 1);
        builder.extend(self, row..row + 1);
        builder.finish()
    }

    /// Bytes of these rows alone, whoever else shares the vector: what they cost in a queue. Lists
    /// and maps behind OBJECT values are counted by their handles.
    pub fn weight(&self) -> usize {
        match self.view() {
            View::Bool(v) => v.len(),
            View::Int(v) => size_of_val(v),
            View::Float(v) => size_of_val(v),
            View::Long(v) => size_of_val(v),
            View::Double(v) => size_of_val(v),
            View::Str(texts) => texts.weight(),
            View::Any(values) => values
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
        match &self.0 {
            Rep::Many { data, offset, len } => {
                let nulls = data.nulls.as_deref();
                nulls.map(|n| &n[*offset..offset + len])
            }
            Rep::One(_) => None,
            Rep::Null(_) => Some(&NULL),
        }
    }

    pub fn is_null(&self, row: usize) -> bool {
        match &self.0 {
            Rep::One(_) => false,
            Rep::Null(_) => true,
            Rep::Many { data, offset, .. } => match &data.values {
                Values::Any(v) => v[offset + row].is_null(),
                _ => data.nulls.as_ref().is_some_and(|n| n[offset + row]),
            },
        }
    }

    /// Does it hold values of any type?
    #[inline]
    pub fn is_any(&self) -> bool {
        matches!(&self.0, Rep::Many { data, .. } if matches!(data.values, Values::Any(_)))
    }

    /// The shape of the vector, to choose a typed loop once per batch.
    #[inline]
    pub fn view(&self) -> View<'_> {
        match &self.0 {
            Rep::Many { data, offset, len } => data.values.view(*offset..offset + len),
            Rep::One(value) | Rep::Null(value) => value.view(),
        }
    }

    pub fn value(&self, row: usize) -> Value {
        if self.is_null(row) {
            return Value::Null;
        }
        self.view().value(row)
    }

    /// The rows of a BOOL column without nulls, taken over where nobody else holds the vector.
    pub fn into_bools(self) -> Result<Vec<bool>, Column> {
        if self.nulls().is_some() || !matches!(self.view(), View::Bool(_)) {
            return Err(self);
        }
        let rows = match self.0 {
            Rep::Many { data, offset, len } => match Arc::try_unwrap(data) {
                Ok(Data {
                    values: Values::Bool(mut all),
                    ..
                }) => {
                    all.truncate(offset + len);
                    all.drain(..offset);
                    return Ok(all);
                }
                Ok(data) => Column::many(data).slice(offset, len),
                Err(data) => Column(Rep::Many { data, offset, len }),
            },
            one => Column(one),
        };
        match rows.view() {
            View::Bool(all) => Ok(all.to_vec()),
            _ => Err(rows),
        }
    }

    /// Rows picked by index, in that order.
    pub fn gather(&self, rows: &[u32]) -> Column {
        fn pick<T: Copy>(from: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&r| from[r as usize]).collect()
        }
        if let [row] = rows {
            return self.slice(*row as usize, 1);
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

    /// Keeps the rows with these numbers, which ascend. A vector that is nobody else's is made shorter
    /// where it lies, unless so little of it is left that it had better be given back.
    pub fn retain(&mut self, rows: &[u32]) {
        let is_worth_it = rows.len() > 1 && rows.len() >= self.len() / RETAINED_SHARE;
        match &mut self.0 {
            Rep::Many { data, offset, len }
                if is_worth_it && *offset == 0 && *len == data.values.len() =>
            {
                if let Some(data) = own_mut(data) {
                    data.retain(rows);
                    *len = rows.len();
                    return;
                }
            }
            _ => {}
        }
        *self = self.gather(rows);
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
        let len = self.len();
        let data = self.make_own();
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
        let rows = self.len();
        let data = self.make_own();
        let is_null = from.is_null(from_row);
        macro_rules! copy {
            ($($kind:ident)*) => {
                match (&mut data.values, from.view()) {
                    $((Values::$kind(to), View::$kind(v)) => {
                        to[row] = v[from_row];
                        true
                    })*
                    (Values::Str(to), View::Str(v)) => {
                        to.set_from(row, &v, from_row);
                        true
                    }
                    _ => false,
                }
            };
        }
        if !copy!(Bool Int Long Float Double) {
            self.set(row, &from.value(from_row));
        } else if is_null {
            data.nulls.get_or_insert_with(|| vec![false; rows])[row] = true;
        } else if let Some(nulls) = &mut data.nulls {
            nulls[row] = false;
        }
    }

    /// Overwrites many rows, each of `places` with that of `rows` in another column, under the same
    /// rules as [`Column::set`]. The column grows to `len` rows first where it is shorter; what is
    /// there then and not overwritten is a null or a placeholder.
    pub fn scatter(&mut self, places: &[u32], from: &Column, rows: &[u32], len: usize) {
        fn put<T: Copy + Default>(
            to: &mut Vec<T>,
            pairs: impl Iterator<Item = (usize, usize)>,
            from: &[T],
            len: usize,
        ) {
            if to.len() < len {
                to.resize(len, T::default());
            }
            for (place, row) in pairs {
                to[place] = from[row];
            }
        }
        let pairs = || {
            let pairs = places.iter().zip(rows);
            pairs.map(|(&place, &row)| (place as usize, row as usize))
        };
        let before = self.len();
        let data = self.make_own();
        let is_plain = data.nulls.is_none() && from.nulls().is_none();
        match (&mut data.values, from.view()) {
            (Values::Bool(to), View::Bool(v)) if is_plain => put(to, pairs(), v, len),
            (Values::Int(to), View::Int(v)) if is_plain => put(to, pairs(), v, len),
            (Values::Long(to), View::Long(v)) if is_plain => put(to, pairs(), v, len),
            (Values::Float(to), View::Float(v)) if is_plain => put(to, pairs(), v, len),
            (Values::Double(to), View::Double(v)) if is_plain => put(to, pairs(), v, len),
            (Values::Str(to), View::Str(v)) if is_plain => to.scatter(pairs(), &v, len),
            (values, _) => {
                let ty = values.view(0..0).ty();
                if let Some(more) = len.checked_sub(before) {
                    self.append(&Column::constant(ty, &Value::Null, more), 0..more);
                }
                pairs().for_each(|(place, row)| self.set_from(place, from, row));
                return;
            }
        }
        if let Rep::Many { len: rows, .. } = &mut self.0 {
            *rows = before.max(len);
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
        let data = self.make_own();
        data.nulls.is_none().then_some(data)
    }

    /// Appends rows of another column in place, under the same rules as [`Column::set`]; long
    /// texts are copied.
    pub fn append(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        let before = self.len();
        let data = self.make_own();
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
        if let Rep::Many { len, .. } = &mut self.0 {
            *len = before + rows.len();
        }
    }

    /// The vector, made this column's own and no longer than its rows.
    fn make_own(&mut self) -> &mut Data {
        let is_own = match &self.0 {
            Rep::Many { data, offset, len } => {
                // Nobody has a weak reference: one owner is the only one there can be.
                *offset == 0 && *len == data.values.len() && Arc::strong_count(data) == 1
            }
            Rep::One(_) | Rep::Null(_) => false,
        };
        if !is_own {
            *self = Column::many(self.copied());
        }
        match &mut self.0 {
            Rep::Many { data, .. } => own_mut(data).expect("the vector was made this column's own"),
            Rep::One(_) | Rep::Null(_) => {
                unreachable!("a row of its own was just given a vector")
            }
        }
    }

    /// A vector of these rows alone.
    fn copied(&self) -> Data {
        match &self.0 {
            Rep::One(value) | Rep::Null(value) => Data {
                values: value.into_values(),
                nulls: self.nulls().map(<[bool]>::to_vec),
            },
            Rep::Many { len, .. } => {
                let mut builder = ColumnBuilder::like(self, *len);
                builder.extend(self, 0..*len);
                builder.into_data()
            }
        }
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
        let kind = std::mem::discriminant(&first.view());
        let same = parts
            .iter()
            .all(|p| std::mem::discriminant(&p.view()) == kind);
        if !same {
            let all = parts
                .iter()
                .flat_map(|p| (0..p.len()).map(|r| p.value(r)))
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
            View::Str(_) => Values::Str(Strings::concat(parts.iter().filter_map(
                |p| match p.view() {
                    View::Str(texts) => Some(texts),
                    _ => None,
                },
            ))),
        };
        let nulls = parts.iter().any(|p| p.nulls().is_some()).then(|| {
            let mut all = Vec::with_capacity(len);
            for part in parts {
                match part.nulls() {
                    Some(n) => all.extend_from_slice(n),
                    None => all.resize(all.len() + part.len(), false),
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
    /// The type of the vector; OBJECT for `Any`.
    pub fn ty(&self) -> Type {
        match self {
            View::Bool(_) => Type::Bool,
            View::Int(_) => Type::Int,
            View::Long(_) => Type::Long,
            View::Float(_) => Type::Float,
            View::Double(_) => Type::Double,
            View::Str(_) => Type::String,
            View::Any(_) => Type::Object,
        }
    }

    /// What lies at a row; under a null mark that is a placeholder.
    pub(crate) fn value(&self, row: usize) -> Value {
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
    fn rows_are_kept_where_they_lie_as_they_are_elsewhere() {
        let long = Value::str("a text that lies outside its view");
        let types = [
            (Type::Bool, [Value::Bool(true), Value::Bool(false)]),
            (Type::Int, [Value::Int(1), Value::Int(2)]),
            (Type::Long, [Value::Long(1), Value::Long(2)]),
            (Type::Float, [Value::Float(0.5), Value::Null]),
            (Type::Double, [Value::Double(0.25), Value::Null]),
            (Type::String, [Value::str("short"), long.clone()]),
            (Type::Object, [Value::Int(1), long]),
        ];
        let picks: [&[u32]; 6] = [&[], &[3], &[0, 2], &[1, 3, 5], &[0, 1, 2, 3, 4, 5], &[4, 5]];
        for (ty, values) in types {
            let mut builder = ColumnBuilder::new(ty);
            (0..6).for_each(|row| builder.push(&values[row % 2]));
            let whole = builder.finish();
            for rows in picks {
                let expect: Vec<Value> =
                    rows.iter().map(|&row| whole.value(row as usize)).collect();
                // Its own, shared, and a part of one.
                let own = Column(Rep::whole(Arc::new(whole.copied())));
                let part = Column::concat(&[whole.slice(2, 1), whole.clone()]).slice(1, 6);
                for mut column in [own, whole.clone(), part] {
                    column.retain(rows);
                    let kept: Vec<Value> = (0..column.len()).map(|r| column.value(r)).collect();
                    assert_eq!(kept, expect);
                    let has_null = expect.contains(&Value::Null) && ty != Type::Object;
                    assert_eq!(column.nulls().is_some(), has_null);
                }
            }
            let unchanged: Vec<Value> = (0..6).map(|row| whole.value(row)).collect();
            assert_eq!(unchanged[..2], values);
        }
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
    fn rows_are_put_into_many_places() {
        let long = "a text that lies outside its view";
        for (ty, a, b) in [
            (Type::Long, Value::Long(1), Value::Long(2)),
            (Type::String, Value::str("a"), Value::str(long)),
            (Type::Object, Value::Int(1), Value::str(long)),
            (Type::Double, Value::Double(0.5), Value::Null),
        ] {
            let mut column = Column::constant(ty, &a, 2);
            let mut from = Column::constant(ty, &b, 2);
            from.set(0, &a);
            column.scatter(&[1, 3, 2], &from, &[1, 0, 1], 4);
            let values: Vec<Value> = (0..4).map(|row| column.value(row)).collect();
            assert_eq!(values, [a.clone(), b.clone(), b.clone(), a.clone()]);
            column.scatter(
                &[0],
                &Column::constant(Type::Int, &Value::Int(7), 1),
                &[0],
                4,
            );
            assert_eq!((column.value(0), column.len()), (Value::Int(7), 4));
        }
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
