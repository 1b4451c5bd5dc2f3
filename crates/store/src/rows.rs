//! Rows that somebody looks at: of a buffer or of a part of a file.

use event::column::View;
use event::{ColumnBuilder, Value};

/// Columns with the numbers and times of their rows.
pub(crate) struct Rows<'a> {
    pub columns: Vec<Cells<'a>>,
    pub ids: &'a [u64],
    pub times: &'a [i64],
}

/// The values of a column.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub view: View<'a>,
    nulls: Option<&'a [bool]>,
}

impl<'a> Cells<'a> {
    pub fn new(view: View<'a>, nulls: Option<&'a [bool]>) -> Cells<'a> {
        Cells { view, nulls }
    }

    pub fn of(builder: &'a ColumnBuilder) -> Cells<'a> {
        Cells::new(builder.view(), builder.nulls())
    }

    pub fn is_null(&self, row: usize) -> bool {
        match self.view {
            View::Any(values) => values[row].is_null(),
            _ => self.nulls.is_some_and(|nulls| nulls[row]),
        }
    }

    pub fn value(&self, row: usize) -> Value {
        if self.is_null(row) {
            return Value::Null;
        }
        match self.view {
            View::Bool(v) => Value::Bool(v[row]),
            View::Int(v) => Value::Int(v[row]),
            View::Long(v) => Value::Long(v[row]),
            View::Float(v) => Value::Float(v[row]),
            View::Double(v) => Value::Double(v[row]),
            View::Str(v) => Value::str(v.get(row)),
            View::Any(v) => v[row].clone(),
        }
    }

    /// Appends a row to a builder of the same type.
    pub fn push_to(&self, row: usize, builder: &mut ColumnBuilder) {
        if self.is_null(row) {
            return builder.push_null();
        }
        match self.view {
            View::Bool(v) => builder.push_bool(v[row]),
            View::Int(v) => builder.push_int(v[row]),
            View::Long(v) => builder.push_long(v[row]),
            View::Float(v) => builder.push_float(v[row]),
            View::Double(v) => builder.push_double(v[row]),
            View::Str(v) => builder.push_str(v.get(row)),
            View::Any(v) => builder.push(&v[row]),
        }
    }

    /// Bytes that a value takes beyond its place in the vector.
    pub fn weight(&self, row: usize) -> usize {
        match self.view {
            View::Str(v) => v.get(row).len(),
            View::Any(v) => v[row].heap_bytes(),
            _ => 0,
        }
    }
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn row(&self, row: usize) -> Vec<Value> {
        self.columns
            .iter()
            .map(|column| column.value(row))
            .collect()
    }
}
