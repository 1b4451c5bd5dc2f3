//! Cells: the rows of a column where they lie, finished or still being built.

use crate::column::{Column, ColumnBuilder, ScalarRef, View};
use crate::types::Type;
use crate::value::Value;

/// A borrowed look at the rows of a [`Column`] or of a [`ColumnBuilder`].
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    view: View<'a>,
    nulls: Option<&'a [bool]>,
}

impl<'a> From<&'a Column> for Cells<'a> {
    fn from(column: &'a Column) -> Cells<'a> {
        Cells {
            view: column.view(),
            nulls: column.nulls(),
        }
    }
}

impl<'a> From<&'a ColumnBuilder> for Cells<'a> {
    fn from(builder: &'a ColumnBuilder) -> Cells<'a> {
        Cells {
            view: builder.view(),
            nulls: builder.nulls(),
        }
    }
}

impl<'a> Cells<'a> {
    pub fn view(&self) -> View<'a> {
        self.view
    }

    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        match (self.nulls, self.view) {
            (_, View::Any(values)) => values[row].is_null(),
            (nulls, _) => nulls.is_some_and(|nulls| nulls[row]),
        }
    }

    /// The value of a row, where it lies; `None` for an OBJECT.
    pub fn single(&self, row: usize) -> Option<ScalarRef<'a>> {
        if self.is_null(row) {
            return Some(ScalarRef::Null);
        }
        match self.view {
            View::Any(values) => ScalarRef::of_value(&values[row]),
            view => view.single(row),
        }
    }

    /// Is none of them null, and all of one type?
    pub fn is_plain(&self) -> bool {
        self.nulls.is_none() && !matches!(self.view, View::Any(_))
    }

    pub fn value(&self, row: usize) -> Value {
        if self.is_null(row) {
            return Value::Null;
        }
        self.view.value(row)
    }

    /// Bytes that the value of a row takes beyond its place in the vector.
    pub fn heap_bytes(&self, row: usize) -> usize {
        match self.view {
            View::Str(v) => v.get(row).len(),
            View::Any(v) => v[row].heap_bytes(),
            _ => 0,
        }
    }

    /// The type of the vector; OBJECT also where a value of another type than declared went in.
    pub fn ty(&self) -> Type {
        self.view.ty()
    }
}

impl ColumnBuilder {
    /// Appends cells picked by index; long texts are copied.
    pub fn push_cells(&mut self, cells: &Cells<'_>, rows: &[u32]) {
        if !(cells.is_plain() && self.extend_picked(&cells.view, rows)) {
            rows.iter()
                .for_each(|&row| self.push_cell(cells, row as usize));
        }
    }

    /// Appends one cell; long texts are copied.
    #[inline]
    pub fn push_cell(&mut self, cells: &Cells<'_>, row: usize) {
        if cells.is_null(row) {
            return self.push_null();
        }
        match cells.view {
            View::Bool(v) => self.push_bool(v[row]),
            View::Int(v) => self.push_int(v[row]),
            View::Long(v) => self.push_long(v[row]),
            View::Float(v) => self.push_float(v[row]),
            View::Double(v) => self.push_double(v[row]),
            View::Str(v) => self.push_str(v.get(row)),
            View::Any(v) => self.push(&v[row]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_columns_and_builders_are_copied_with_their_nulls() {
        let long = "a text of more than twelve bytes";
        let types = [
            (Type::Bool, Value::Bool(true)),
            (Type::Int, Value::Int(1)),
            (Type::Long, Value::Long(2)),
            (Type::Float, Value::Float(0.5)),
            (Type::Double, Value::Double(0.25)),
            (Type::String, Value::str(long)),
            (Type::Object, Value::Long(7)),
        ];
        for (ty, value) in types {
            let mut open = ColumnBuilder::new(ty);
            open.push(&value);
            open.push_null();
            let closed = open.clone().finish();
            for cells in [Cells::from(&open), Cells::from(&closed)] {
                assert_eq!(cells.ty(), ty);
                let mut copy = ColumnBuilder::new(ty);
                copy.push_cell(&cells, 1);
                copy.push_cell(&cells, 0);
                let copy = copy.finish();
                assert_eq!((copy.value(0), copy.value(1)), (Value::Null, value.clone()));
            }
            let mut full = ColumnBuilder::new(ty);
            full.push(&value);
            full.push(&value);
            for open in [&open, &full] {
                let cells = Cells::from(open);
                let mut copy = ColumnBuilder::new(ty);
                copy.push_cells(&cells, &[1, 0, 0]);
                let copy = copy.finish();
                let values: Vec<Value> = (0..3).map(|row| copy.value(row)).collect();
                assert_eq!(values, [cells.value(1), cells.value(0), cells.value(0)]);
                assert_eq!(cells.single(0).map(ScalarRef::value), Some(value.clone()));
            }
        }
    }
}
