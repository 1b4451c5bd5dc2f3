//! Values on their way into statements and out of results.

use std::borrow::Cow;

use event::column::View;
use event::{Attribute, Column, ColumnBuilder, Object, Type, Value};

use super::dialect::Limits;
use connect::object;

/// Characters of a value that an error shows.
const SHOWN_MAX: usize = 40;

/// A column of values for one parameter of a statement.
pub struct Binder<'a> {
    view: View<'a>,
    nulls: Option<&'a [bool]>,
    ty: Type,
    name: &'a str,
    /// Characters that a text may have.
    length: Option<u32>,
    may_be_null: bool,
}

/// One value for a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Text(&'a str),
    /// An object, as the bytes that stand for it.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Binder<'a> {
    /// Values for a column of the table.
    pub fn new(
        column: &'a Column,
        attribute: &'a Attribute,
        length: Option<u32>,
        may_be_null: bool,
    ) -> Binder<'a> {
        Binder {
            view: column.view(),
            nulls: column.nulls(),
            ty: attribute.ty,
            name: &attribute.name,
            length,
            may_be_null,
        }
    }

    /// Values for a condition or a new value.
    pub fn parameter(column: &'a Column, ty: Type) -> Binder<'a> {
        Binder {
            view: column.view(),
            nulls: column.nulls(),
            ty,
            name: "",
            length: None,
            may_be_null: true,
        }
    }

    pub fn ty(&self) -> Type {
        self.ty
    }

    /// The column's name; empty for a parameter.
    pub fn name(&self) -> &str {
        self.name
    }

    #[inline]
    pub fn cell(&self, row: usize) -> Cell<'a> {
        if self.nulls.is_some_and(|nulls| nulls[row]) {
            return Cell::Null;
        }
        match &self.view {
            View::Bool(values) => Cell::Bool(values[row]),
            View::Int(values) => Cell::Int(values[row]),
            View::Long(values) => Cell::Long(values[row]),
            View::Float(values) => Cell::Float(values[row]),
            View::Double(values) => Cell::Double(values[row]),
            View::Str(texts) => Cell::Text(texts.get(row)),
            View::Any(values) => match &values[row] {
                Value::Null => Cell::Null,
                Value::Bool(v) => Cell::Bool(*v),
                Value::Int(v) => Cell::Int(*v),
                Value::Long(v) => Cell::Long(*v),
                Value::Float(v) => Cell::Float(*v),
                Value::Double(v) => Cell::Double(*v),
                Value::Str(v) => Cell::Text(v),
                Value::Object(Object::Bytes(v)) => Cell::Bytes(Cow::Borrowed(v)),
                Value::Object(v) => Cell::Bytes(Cow::Owned(object::to_json(v))),
            },
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self.view {
            View::Any(values) => values[row].is_null(),
            _ => self.nulls.is_some_and(|nulls| nulls[row]),
        }
    }

    /// Could a row of this column be refused?
    fn needs_check(&self, limits: Limits) -> bool {
        let has_odd_values = match self.view {
            View::Any(_) => true,
            View::Float(_) | View::Double(_) => !limits.has_nan || !limits.has_infinity,
            View::Str(_) => !limits.has_nul,
            _ => false,
        };
        has_odd_values || self.length.is_some() || self.nulls.is_some() && !self.may_be_null
    }
}

/// Looks at rows before they are sent, for what the table or the database cannot hold.
pub struct Check<'b, 'a> {
    binders: Vec<&'b Binder<'a>>,
    limits: Limits,
}

impl<'b, 'a> Check<'b, 'a> {
    pub fn new(binders: &'b [Binder<'a>], limits: Limits) -> Check<'b, 'a> {
        Check {
            binders: binders.iter().filter(|b| b.needs_check(limits)).collect(),
            limits,
        }
    }

    /// Can the table take this row? The error names the column.
    #[inline]
    pub fn row(&self, row: usize) -> Result<(), String> {
        self.binders
            .iter()
            .try_for_each(|binder| check_value(binder, self.limits, row))
    }

    /// All rows in order; the error names the row, too.
    pub fn rows(&self, rows: usize) -> Result<(), String> {
        if self.binders.is_empty() {
            return Ok(());
        }
        (0..rows).try_for_each(|row| {
            self.row(row)
                .map_err(|cause| format!("row {}: {cause}", row + 1))
        })
    }
}

fn check_value(binder: &Binder<'_>, limits: Limits, row: usize) -> Result<(), String> {
    let name = binder.name;
    if binder.is_null(row) {
        return if binder.may_be_null {
            Ok(())
        } else {
            Err(format!(
                "column '{name}' got null: set option allow.null.values='true', or filter such \
                 events"
            ))
        };
    }
    match binder.view {
        View::Float(values) => check_real(name, f64::from(values[row]), limits),
        View::Double(values) => check_real(name, values[row], limits),
        View::Str(texts) => check_text(binder, texts.get(row), limits),
        View::Any(values) if values[row].ty() != Some(binder.ty) => Err(format!(
            "column '{name}' of type {} got '{}', which is of another type",
            binder.ty,
            shown(&event::text::to_text(&values[row]))
        )),
        View::Any(values) => match &values[row] {
            Value::Float(v) => check_real(name, f64::from(*v), limits),
            Value::Double(v) => check_real(name, *v, limits),
            Value::Str(v) => check_text(binder, v, limits),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_real(name: &str, value: f64, limits: Limits) -> Result<(), String> {
    let is_held = match value {
        v if v.is_nan() => limits.has_nan,
        v if v.is_infinite() => limits.has_infinity,
        _ => true,
    };
    if is_held {
        return Ok(());
    }
    Err(format!(
        "column '{name}' got {value:?}, which this database cannot hold: filter such events, or \
         store them as text"
    ))
}

fn check_text(binder: &Binder<'_>, text: &str, limits: Limits) -> Result<(), String> {
    let name = binder.name;
    if !limits.has_nul && memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(format!(
            "column '{name}' got a text with the character U+0000, which this database cannot \
             hold: take it out, or store an object"
        ));
    }
    match binder.length {
        Some(length) if text.len() > length as usize && text.chars().count() > length as usize => {
            Err(format!(
                "column '{name}' takes {length} characters, the text '{}…' is longer: raise option \
                 field.length",
                shown(text)
            ))
        }
        _ => Ok(()),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// A value of a result as a database gives it.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    Null,
    Integer(i64),
    /// Beyond the range of LONG.
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Appends a value of a result. SQL NULL reads as 0, 0.0 or false in columns that are not text,
/// unless null is allowed (Siddhi's `RDBMSTableUtils`). Texts are read as numbers where the attribute
/// is one: decimals and odd types arrive as text.
pub fn read_value(
    value: Raw<'_>,
    attribute: &Attribute,
    allows_null: bool,
    builder: &mut ColumnBuilder,
) -> Result<(), String> {
    let other = || {
        format!(
            "column '{}' holds '{}', which is no {}: correct the table, or declare another type",
            attribute.name,
            shown(&text(value)),
            attribute.ty
        )
    };
    match (attribute.ty, value) {
        (Type::String | Type::Object, Raw::Null) => builder.push_null(),
        (_, Raw::Null) if allows_null => builder.push_null(),
        (Type::Bool, Raw::Null) => builder.push_bool(false),
        (Type::Int, Raw::Null) => builder.push_int(0),
        (Type::Long, Raw::Null) => builder.push_long(0),
        (Type::Float, Raw::Null) => builder.push_float(0.0),
        (Type::Double, Raw::Null) => builder.push_double(0.0),
        (Type::Bool, value) => builder.push_bool(boolean(value).ok_or_else(other)?),
        (Type::Int, value) => {
            let int = long(value).and_then(|v| i32::try_from(v).ok());
            builder.push_int(int.ok_or_else(other)?);
        }
        (Type::Long, value) => builder.push_long(long(value).ok_or_else(other)?),
        (Type::Float, Raw::Float(v)) => builder.push_float(v),
        (Type::Float, Raw::Text(v)) => {
            builder.push_float(v.trim().parse().map_err(|_| other())?);
        }
        (Type::Float, value) => builder.push_float(double(value).ok_or_else(other)? as f32),
        (Type::Double, value) => builder.push_double(double(value).ok_or_else(other)?),
        (Type::String, value) => builder.push_str(&text(value)),
        (Type::Object, Raw::Bytes(v)) => builder.push(&object::read(v)),
        (Type::Object, Raw::Text(v)) => builder.push(&object::read(v.as_bytes())),
        (Type::Object, _) => return Err(other()),
    }
    Ok(())
}

/// What a result with too few columns is refused with.
pub fn too_few(found: usize, wanted: usize) -> String {
    format!("the result has {found} columns instead of {wanted}")
}

fn boolean(value: Raw<'_>) -> Option<bool> {
    match value {
        Raw::Integer(v) => Some(v != 0),
        Raw::Unsigned(v) => Some(v != 0),
        // A BIT column comes as bytes, which may be taken for a text.
        Raw::Bytes(v) => Some(v.iter().any(|byte| *byte != 0)),
        Raw::Text("t" | "true" | "TRUE" | "1" | "\u{1}") => Some(true),
        Raw::Text("f" | "false" | "FALSE" | "0" | "\0") => Some(false),
        _ => None,
    }
}

fn long(value: Raw<'_>) -> Option<i64> {
    match value {
        Raw::Integer(v) => Some(v),
        Raw::Text(v) => {
            let v = v.trim();
            // A decimal without a fraction.
            let whole = v.split_once('.').map_or(v, |(whole, fraction)| {
                match fraction.bytes().all(|b| b == b'0') {
                    true => whole,
                    false => v,
                }
            });
            whole.parse().ok()
        }
        _ => None,
    }
}

fn double(value: Raw<'_>) -> Option<f64> {
    match value {
        Raw::Integer(v) => Some(v as f64),
        Raw::Unsigned(v) => Some(v as f64),
        Raw::Float(v) => Some(f64::from(v)),
        Raw::Double(v) => Some(v),
        Raw::Text(v) => v.trim().parse().ok(),
        _ => None,
    }
}

fn text(value: Raw<'_>) -> Cow<'_, str> {
    match value {
        Raw::Null => Cow::Borrowed(""),
        Raw::Integer(v) => Cow::Owned(v.to_string()),
        Raw::Unsigned(v) => Cow::Owned(v.to_string()),
        Raw::Float(v) => Cow::Owned(event::text::to_text(&Value::Float(v)).to_string()),
        Raw::Double(v) => Cow::Owned(event::text::to_text(&Value::Double(v)).to_string()),
        Raw::Text(v) => Cow::Borrowed(v),
        Raw::Bytes(v) => String::from_utf8_lossy(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ty: Type, value: Raw<'_>, expect: Result<Value, ()>) {
        let attribute = Attribute {
            name: "a".into(),
            ty,
        };
        let mut builder = ColumnBuilder::new(ty);
        let read = read_value(value, &attribute, false, &mut builder);
        match expect {
            Ok(expect) => {
                assert_eq!(read, Ok(()), "{value:?}");
                assert_eq!(builder.finish().value(0), expect, "{value:?}");
            }
            Err(()) => assert!(read.is_err(), "{value:?}"),
        }
    }

    #[test]
    fn values_of_results() {
        check(Type::Int, Raw::Null, Ok(Value::Int(0)));
        check(Type::String, Raw::Null, Ok(Value::Null));
        check(Type::Int, Raw::Integer(1 << 40), Err(()));
        check(Type::Long, Raw::Text("12.000"), Ok(Value::Long(12)));
        check(Type::Long, Raw::Text("12.5"), Err(()));
        check(Type::Long, Raw::Unsigned(u64::MAX), Err(()));
        check(
            Type::Double,
            Raw::Text("-Infinity"),
            Ok(Value::Double(f64::NEG_INFINITY)),
        );
        check(Type::Double, Raw::Text("12.50"), Ok(Value::Double(12.5)));
        check(Type::Bool, Raw::Text("t"), Ok(Value::Bool(true)));
        check(Type::Bool, Raw::Bytes(b"\x01"), Ok(Value::Bool(true)));
        check(Type::String, Raw::Integer(7), Ok(Value::str("7")));
        check(Type::Float, Raw::Text("0.1"), Ok(Value::Float(0.1)));
    }
}
