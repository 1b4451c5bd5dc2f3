//! Values on their way into statements and out of results.

use event::column::View;
use event::{Attribute, Column, ColumnBuilder, Object, Type, Value};
use rusqlite::Statement;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::object;

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

    fn is_null(&self, row: usize) -> bool {
        match self.view {
            View::Any(values) => values[row].is_null(),
            _ => self.nulls.is_some_and(|nulls| nulls[row]),
        }
    }
}

/// Can the table take this row? The error names the column.
#[inline]
pub fn check_row(binders: &[Binder<'_>], row: usize) -> Result<(), String> {
    for binder in binders {
        if binder.nulls.is_none() && binder.length.is_none() && !matches!(binder.view, View::Any(_))
        {
            continue;
        }
        check_value(binder, row)?;
    }
    Ok(())
}

fn check_value(binder: &Binder<'_>, row: usize) -> Result<(), String> {
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
    if let (Some(length), View::Str(texts)) = (binder.length, &binder.view) {
        let text = texts.get(row);
        if text.len() > length as usize && text.chars().count() > length as usize {
            return Err(format!(
                "column '{name}' takes {length} characters, the text '{}…' is longer: raise option \
                 field.length",
                text.chars().take(40).collect::<String>()
            ));
        }
    }
    if let View::Any(values) = binder.view {
        let found = values[row].ty();
        if found != Some(binder.ty) {
            return Err(format!(
                "column '{name}' of type {} got '{}', which is of another type",
                binder.ty,
                event::text::to_text(&values[row])
            ));
        }
    }
    Ok(())
}

/// Binds a row to the parameters behind `offset`.
#[inline]
pub fn bind_row(
    statement: &mut Statement<'_>,
    binders: &[Binder<'_>],
    offset: usize,
    row: usize,
) -> rusqlite::Result<()> {
    for (index, binder) in binders.iter().enumerate() {
        let at = offset + index + 1;
        if binder.nulls.is_some_and(|nulls| nulls[row]) {
            statement.raw_bind_parameter(at, rusqlite::types::Null)?;
            continue;
        }
        match &binder.view {
            View::Bool(values) => statement.raw_bind_parameter(at, values[row])?,
            View::Int(values) => statement.raw_bind_parameter(at, values[row])?,
            View::Long(values) => statement.raw_bind_parameter(at, values[row])?,
            View::Float(values) => statement.raw_bind_parameter(at, f64::from(values[row]))?,
            View::Double(values) => statement.raw_bind_parameter(at, values[row])?,
            View::Str(texts) => statement.raw_bind_parameter(at, texts.get(row))?,
            View::Any(values) => bind_value(statement, at, &values[row])?,
        }
    }
    Ok(())
}

fn bind_value(statement: &mut Statement<'_>, at: usize, value: &Value) -> rusqlite::Result<()> {
    let output = match value {
        Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
        Value::Bool(v) => ToSqlOutput::from(*v),
        Value::Int(v) => ToSqlOutput::from(*v),
        Value::Long(v) => ToSqlOutput::from(*v),
        Value::Float(v) => ToSqlOutput::from(f64::from(*v)),
        Value::Double(v) => ToSqlOutput::from(*v),
        Value::Str(v) => ToSqlOutput::Borrowed(ValueRef::Text(v.as_bytes())),
        Value::Object(v) => ToSqlOutput::Owned(rusqlite::types::Value::Blob(object::to_json(v))),
    };
    statement.raw_bind_parameter(at, output)
}

/// Appends a value of a result. SQL NULL reads as 0, 0.0 or false in columns that are not text,
/// unless null is allowed (Siddhi's `RDBMSTableUtils`).
pub fn read_value(
    value: ValueRef<'_>,
    attribute: &Attribute,
    allows_null: bool,
    builder: &mut ColumnBuilder,
) -> Result<(), String> {
    let other = || {
        format!(
            "column '{}' holds {value:?}, which is no {}: correct the table, or declare another type",
            attribute.name, attribute.ty
        )
    };
    match (attribute.ty, value) {
        (Type::String | Type::Object, ValueRef::Null) => builder.push_null(),
        (_, ValueRef::Null) if allows_null => builder.push_null(),
        (Type::Bool, ValueRef::Null) => builder.push_bool(false),
        (Type::Int, ValueRef::Null) => builder.push_int(0),
        (Type::Long, ValueRef::Null) => builder.push_long(0),
        (Type::Float, ValueRef::Null) => builder.push_float(0.0),
        (Type::Double, ValueRef::Null) => builder.push_double(0.0),
        (Type::Bool, ValueRef::Integer(v)) => builder.push_bool(v != 0),
        (Type::Int, ValueRef::Integer(v)) => {
            builder.push_int(i32::try_from(v).map_err(|_| other())?);
        }
        (Type::Long, ValueRef::Integer(v)) => builder.push_long(v),
        (Type::Float, ValueRef::Integer(v)) => builder.push_float(v as f32),
        (Type::Double, ValueRef::Integer(v)) => builder.push_double(v as f64),
        (Type::Float, ValueRef::Real(v)) => builder.push_float(v as f32),
        (Type::Double, ValueRef::Real(v)) => builder.push_double(v),
        (Type::String, ValueRef::Text(v)) => builder.push_str(&String::from_utf8_lossy(v)),
        (Type::String, ValueRef::Integer(v)) => builder.push_str(&v.to_string()),
        (Type::String, ValueRef::Real(v)) => {
            builder.push_str(&event::text::to_text(&Value::Double(v)));
        }
        (Type::Object, ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => {
            builder.push(
                &object::from_json(bytes)
                    .unwrap_or_else(|| Value::Object(Object::Bytes(bytes.into()))),
            );
        }
        _ => return Err(other()),
    }
    Ok(())
}
