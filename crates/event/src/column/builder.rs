//! Columns being built, row by row or a range at a time.

use std::sync::Arc;

use super::{Column, Data, Rep, ScalarRef, Values, View};
use crate::strings::StrBuilder;
use crate::types::Type;
use crate::value::Value;

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
        #[inline(always)]
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

    /// Does it build rows of this type? One that was given a value of another type does not.
    pub fn is_of(&self, ty: Type) -> bool {
        ty == match &self.rows {
            Rows::Bool(_) => Type::Bool,
            Rows::Int(_) => Type::Int,
            Rows::Long(_) => Type::Long,
            Rows::Float(_) => Type::Float,
            Rows::Double(_) => Type::Double,
            Rows::Str(_) => Type::String,
            Rows::Any(_) => Type::Object,
        }
    }

    /// A builder for rows of the same vector type as a column's.
    pub fn like(column: &Column, rows: usize) -> ColumnBuilder {
        ColumnBuilder::with_capacity(column.view().ty(), rows)
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
        let is_whole = match &column.0 {
            Rep::Many { data, offset, len } => *offset == 0 && *len == data.values.len(),
            Rep::One(_) | Rep::Null(_) => false,
        };
        let data = match column.0 {
            Rep::Many { data, .. } if is_whole => {
                Arc::try_unwrap(data).unwrap_or_else(|data| Column(Rep::whole(data)).copied())
            }
            rows => Column(rows).copied(),
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

    typed_push!(push_bool, Bool, bool);
    typed_push!(push_int, Int, i32);
    typed_push!(push_long, Long, i64);
    typed_push!(push_float, Float, f32);
    typed_push!(push_double, Double, f64);

    /// As [`ColumnBuilder::push_long`], of many values.
    #[inline]
    pub fn extend_long(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        match &mut self.rows {
            Rows::Long(to) if self.nulls.is_none() => to.extend(values),
            _ => values.for_each(|value| self.push_long(value)),
        }
    }

    /// As [`ColumnBuilder::push`].
    #[inline(always)]
    pub fn push_single(&mut self, value: ScalarRef<'_>) {
        match value {
            ScalarRef::Null => self.push_null(),
            ScalarRef::Bool(v) => self.push_bool(v),
            ScalarRef::Int(v) => self.push_int(v),
            ScalarRef::Long(v) => self.push_long(v),
            ScalarRef::Float(v) => self.push_float(v),
            ScalarRef::Double(v) => self.push_double(v),
            ScalarRef::Text(v) => self.push_str(v),
        }
    }

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

    /// Appends the only row of a column.
    #[inline]
    pub fn push_only(&mut self, from: &Column) {
        if let Rep::One(value) = &from.0
            && self.nulls.is_none()
        {
            match (&mut self.rows, value.view()) {
                (Rows::Bool(to), View::Bool(v)) => return to.push(v[0]),
                (Rows::Int(to), View::Int(v)) => return to.push(v[0]),
                (Rows::Long(to), View::Long(v)) => return to.push(v[0]),
                (Rows::Float(to), View::Float(v)) => return to.push(v[0]),
                (Rows::Double(to), View::Double(v)) => return to.push(v[0]),
                (Rows::Str(to), View::Str(v)) => return to.push_first(&v),
                _ => {}
            }
        }
        self.extend(from, 0..1);
    }

    /// Appends rows of a column.
    pub fn extend(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        if let (Rows::Str(to), View::Str(texts)) = (&mut self.rows, from.view()) {
            let before = to.len();
            to.extend_from(&texts, rows.clone());
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

    /// Appends rows picked by index of a column without nulls; false, and nothing is appended, where
    /// the builder has nulls or is of another type.
    pub(crate) fn extend_picked(&mut self, from: &View<'_>, rows: &[u32]) -> bool {
        if self.nulls.is_some() {
            return false;
        }
        macro_rules! copy {
            ($($kind:ident)*) => {
                match (&mut self.rows, from) {
                    $((Rows::$kind(to), View::$kind(v)) => {
                        to.extend(rows.iter().map(|&row| v[row as usize]));
                        true
                    })*
                    (Rows::Str(to), View::Str(texts)) => {
                        to.extend_picked(texts, rows);
                        true
                    }
                    _ => false,
                }
            };
        }
        copy!(Bool Int Long Float Double)
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
        let Data { values, nulls } = self.into_data();
        Column::new(values, nulls)
    }

    /// The rows so far as a column; the builder is empty then. A single row is copied and the
    /// vector stays, so that a builder that is used again and again asks nothing of the allocator.
    pub fn take(&mut self) -> Column {
        if self.len() == 1
            && let Some(value) = self.view().one(0)
        {
            let is_null = self.nulls.take().is_some_and(|nulls| nulls[0]);
            self.truncate(0);
            return Column::alone(value, is_null);
        }
        let empty = match &self.rows {
            Rows::Bool(_) => Rows::Bool(Vec::new()),
            Rows::Int(_) => Rows::Int(Vec::new()),
            Rows::Long(_) => Rows::Long(Vec::new()),
            Rows::Float(_) => Rows::Float(Vec::new()),
            Rows::Double(_) => Rows::Double(Vec::new()),
            Rows::Str(_) => Rows::Str(StrBuilder::default()),
            Rows::Any(_) => Rows::Any(Vec::new()),
        };
        let rows = std::mem::replace(&mut self.rows, empty);
        let nulls = self.nulls.take();
        ColumnBuilder { rows, nulls }.finish()
    }

    pub(super) fn into_data(self) -> Data {
        let values = match self.rows {
            Rows::Bool(v) => Values::Bool(v),
            Rows::Int(v) => Values::Int(v),
            Rows::Long(v) => Values::Long(v),
            Rows::Float(v) => Values::Float(v),
            Rows::Double(v) => Values::Double(v),
            Rows::Str(v) => Values::Str(v.finish()),
            Rows::Any(v) => Values::Any(v),
        };
        let nulls = self.nulls;
        Data { values, nulls }
    }
}
