//! The value of a row alone.

use super::{Column, One, Rep, View};
use crate::strings::ShortText;
use crate::types::Type;
use crate::value::Value;

/// A value that lies where it was found. No OBJECT is one.
#[derive(Clone, Copy, Debug)]
pub enum Single<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Text(&'a str),
}

impl<'a> Single<'a> {
    /// `None` for an OBJECT.
    #[inline]
    pub fn of_value(value: &'a Value) -> Option<Single<'a>> {
        Some(match value {
            Value::Null => Single::Null,
            Value::Bool(v) => Single::Bool(*v),
            Value::Int(v) => Single::Int(*v),
            Value::Long(v) => Single::Long(*v),
            Value::Float(v) => Single::Float(*v),
            Value::Double(v) => Single::Double(*v),
            Value::Str(v) => Single::Text(v),
            Value::Object(_) => return None,
        })
    }

    pub fn value(self) -> Value {
        match self {
            Single::Null => Value::Null,
            Single::Bool(v) => Value::Bool(v),
            Single::Int(v) => Value::Int(v),
            Single::Long(v) => Value::Long(v),
            Single::Float(v) => Value::Float(v),
            Single::Double(v) => Value::Double(v),
            Single::Text(v) => Value::str(v),
        }
    }

    /// A column of this row; `None` where the value is not of the type, or needs the heap.
    #[inline]
    pub fn column(self, ty: Type) -> Option<Column> {
        match self {
            Single::Null => One::placeholder(ty).map(|value| Column(Rep::Null(value))),
            value => One::of(ty, value).map(|value| Column(Rep::One(value))),
        }
    }
}

impl Column {
    /// The value of the only row; `None` where there are others, or the column holds values of any
    /// type.
    #[inline]
    pub fn single(&self) -> Option<Single<'_>> {
        match &self.0 {
            Rep::One(value) => Some(value.single()),
            Rep::Null(_) => Some(Single::Null),
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

    fn single_of_many(&self) -> Option<Single<'_>> {
        let value = self.view().single(0)?;
        Some(if self.is_null(0) { Single::Null } else { value })
    }
}

impl<'a> View<'a> {
    /// What lies at a row, which under a null mark is a placeholder; `None` where values of any type
    /// lie.
    #[inline(always)]
    pub(crate) fn single(&self, row: usize) -> Option<Single<'a>> {
        Some(match self {
            View::Bool(v) => Single::Bool(v[row]),
            View::Int(v) => Single::Int(v[row]),
            View::Long(v) => Single::Long(v[row]),
            View::Float(v) => Single::Float(v[row]),
            View::Double(v) => Single::Double(v[row]),
            View::Str(v) => Single::Text(v.get(row)),
            View::Any(_) => return None,
        })
    }
}
