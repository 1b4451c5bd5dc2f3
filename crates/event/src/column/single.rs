//! The value of a row alone.

use super::{Column, One, Rep, View};
use crate::strings::{ShortText, StrView};
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
    pub fn column(self, ty: Type) -> Option<Column> {
        let value = match (ty, self) {
            (Type::Bool, Single::Bool(v)) => One::Bool(v),
            (Type::Int, Single::Int(v)) => One::Int(v),
            (Type::Long, Single::Long(v)) => One::Long(v),
            (Type::Float, Single::Float(v)) => One::Float(v),
            (Type::Double, Single::Double(v)) => One::Double(v),
            (Type::String, Single::Text(v)) => One::Str(ShortText::new(v)?),
            _ => return None,
        };
        Some(Column(Rep::One {
            value,
            is_null: false,
        }))
    }
}

impl Column {
    /// The value of the only row; `None` where there are others, or the column holds values of any
    /// type.
    #[inline]
    pub fn single(&self) -> Option<Single<'_>> {
        match &self.0 {
            Rep::One { is_null: true, .. } => Some(Single::Null),
            Rep::One { value, .. } => Some(match value {
                One::Bool(v) => Single::Bool(*v),
                One::Int(v) => Single::Int(*v),
                One::Long(v) => Single::Long(*v),
                One::Float(v) => Single::Float(*v),
                One::Double(v) => Single::Double(*v),
                One::Str(v) => Single::Text(StrView::of_short(v).get(0)),
            }),
            Rep::Many { len: 1, .. } => self.single_of_many(),
            Rep::Many { .. } => None,
        }
    }

    fn single_of_many(&self) -> Option<Single<'_>> {
        let value = match self.view() {
            View::Bool(v) => Single::Bool(v[0]),
            View::Int(v) => Single::Int(v[0]),
            View::Long(v) => Single::Long(v[0]),
            View::Float(v) => Single::Float(v[0]),
            View::Double(v) => Single::Double(v[0]),
            View::Str(v) => Single::Text(v.get(0)),
            View::Any(_) => return None,
        };
        Some(if self.is_null(0) { Single::Null } else { value })
    }
}
