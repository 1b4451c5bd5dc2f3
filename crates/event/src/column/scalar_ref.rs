//! The value of a row alone.

use super::{Column, InlineValue, Rep, View};
use crate::strings::ShortText;
use crate::types::Type;
use crate::value::Value;

/// A value that lies where it was found. No OBJECT is one.
#[derive(Clone, Copy, Debug)]
pub enum ScalarRef<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Text(&'a str),
}

impl<'a> ScalarRef<'a> {
    /// `None` for an OBJECT.
    #[inline]
    pub fn of_value(value: &'a Value) -> Option<ScalarRef<'a>> {
        Some(match value {
            Value::Null => ScalarRef::Null,
            Value::Bool(v) => ScalarRef::Bool(*v),
            Value::Int(v) => ScalarRef::Int(*v),
            Value::Long(v) => ScalarRef::Long(*v),
            Value::Float(v) => ScalarRef::Float(*v),
            Value::Double(v) => ScalarRef::Double(*v),
            Value::Str(v) => ScalarRef::Text(v),
            Value::Object(_) => return None,
        })
    }

    pub fn value(self) -> Value {
        match self {
            ScalarRef::Null => Value::Null,
            ScalarRef::Bool(v) => Value::Bool(v),
            ScalarRef::Int(v) => Value::Int(v),
            ScalarRef::Long(v) => Value::Long(v),
            ScalarRef::Float(v) => Value::Float(v),
            ScalarRef::Double(v) => Value::Double(v),
            ScalarRef::Text(v) => Value::str(v),
        }
    }

    /// A column of this row; `None` where the value is not of the type, or needs the heap.
    #[inline]
    pub fn column(self, ty: Type) -> Option<Column> {
        match self {
            ScalarRef::Null => InlineValue::placeholder(ty).map(|value| Column(Rep::Null(value))),
            value => InlineValue::of(ty, value).map(|value| Column(Rep::One(value))),
        }
    }
}

impl Column {
    /// The value of the only row; `None` where there are others, or the column holds values of any
    /// type.
    #[inline]
    pub fn single(&self) -> Option<ScalarRef<'_>> {
        match &self.0 {
            Rep::One(value) => Some(value.single()),
            Rep::Null(_) => Some(ScalarRef::Null),
            Rep::Many { len: 1, .. } => self.single_of_many(),
            Rep::Many { .. } => None,
        }
    }

    /// The text of the only row, where it lies in the column; `None` for anything else.
    #[inline]
    pub fn only_text(&self) -> Option<ShortText> {
        match &self.0 {
            Rep::One(value) => match value.view() {
                View::Str(text) => text.short(0),
                _ => None,
            },
            Rep::Null(_) | Rep::Many { .. } => None,
        }
    }

    fn single_of_many(&self) -> Option<ScalarRef<'_>> {
        let value = self.view().single(0)?;
        Some(if self.is_null(0) {
            ScalarRef::Null
        } else {
            value
        })
    }
}

impl<'a> View<'a> {
    /// What lies at a row, which under a null mark is a placeholder; `None` where values of any type
    /// lie.
    #[inline(always)]
    pub(crate) fn single(&self, row: usize) -> Option<ScalarRef<'a>> {
        Some(match self {
            View::Bool(v) => ScalarRef::Bool(v[row]),
            View::Int(v) => ScalarRef::Int(v[row]),
            View::Long(v) => ScalarRef::Long(v[row]),
            View::Float(v) => ScalarRef::Float(v[row]),
            View::Double(v) => ScalarRef::Double(v[row]),
            View::Str(v) => ScalarRef::Text(v.get(row)),
            View::Any(_) => return None,
        })
    }
}
