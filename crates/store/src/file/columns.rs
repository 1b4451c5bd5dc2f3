//! Rows as Arrow arrays, and back.
//!
//! Objects are bytes as they are, all others as JSON, as the store `rdbms` has them.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use connect::object;
use event::column::View;
use event::{Cells, ColumnBuilder, Object, Type, Value};

use crate::definition::{Definition, ID, TIMESTAMP};
use crate::rows::Rows;

/// The type of a column in files.
pub(crate) fn data_type(ty: Type) -> DataType {
    match ty {
        Type::String => DataType::Utf8,
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Bool => DataType::Boolean,
        Type::Object => DataType::Binary,
    }
}

/// The columns of a file, in their order.
pub(crate) fn arrow_schema(definition: &Definition) -> SchemaRef {
    let own = [ID, TIMESTAMP].map(|name| Field::new(name, DataType::Int64, true));
    let attributes = definition.schema.attributes.iter();
    let attributes = attributes.map(|a| Field::new(&a.name, data_type(a.ty), true));
    let fields: Vec<Field> = own.into_iter().chain(attributes).collect();
    Arc::new(ArrowSchema::new(fields))
}

/// Rows as a record batch of [`arrow_schema`].
pub(crate) fn record_batch(schema: &SchemaRef, rows: &Rows<'_>) -> Result<RecordBatch, String> {
    let ids = rows.ids.iter().map(|id| *id as i64);
    let own: [ArrayRef; 2] = [
        Arc::new(Int64Array::from_iter_values(ids)),
        Arc::new(Int64Array::from_iter_values(rows.times.iter().copied())),
    ];
    let columns = rows.columns.iter().map(|cells| array(cells, rows.len()));
    let arrays: Vec<ArrayRef> = own.into_iter().chain(columns).collect();
    RecordBatch::try_new(Arc::clone(schema), arrays).map_err(|cause| cause.to_string())
}

fn array(cells: &Cells<'_>, len: usize) -> ArrayRef {
    let nulls: Vec<bool> = (0..len).map(|row| !cells.is_null(row)).collect();
    let nulls = nulls.contains(&false).then(|| NullBuffer::from(nulls));
    match cells.view() {
        View::Bool(v) => Arc::new(BooleanArray::new(v.iter().copied().collect(), nulls)),
        View::Int(v) => Arc::new(Int32Array::new(v.to_vec().into(), nulls)),
        View::Long(v) => Arc::new(Int64Array::new(v.to_vec().into(), nulls)),
        View::Float(v) => Arc::new(Float32Array::new(v.to_vec().into(), nulls)),
        View::Double(v) => Arc::new(Float64Array::new(v.to_vec().into(), nulls)),
        View::Str(v) => {
            let mut builder = StringBuilder::with_capacity(len, v.weight());
            for row in 0..len {
                builder.append_option((!cells.is_null(row)).then(|| v.get(row)));
            }
            Arc::new(builder.finish())
        }
        View::Any(values) => {
            let mut builder = BinaryBuilder::new();
            for value in values {
                match value {
                    Value::Object(Object::Bytes(bytes)) => builder.append_value(bytes),
                    Value::Object(object) => builder.append_value(object::to_json(object)),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}

/// Appends an array of a file to a column; false where it has another type.
pub(crate) fn append(array: &dyn Array, ty: Type, builder: &mut ColumnBuilder) -> bool {
    let len = array.len();
    macro_rules! numbers {
        ($arrow:ty, $push:ident) => {{
            let Some(array) = array.as_primitive_opt::<$arrow>() else {
                return false;
            };
            for value in array {
                match value {
                    Some(value) => builder.$push(value),
                    None => builder.push_null(),
                }
            }
        }};
    }
    match ty {
        Type::Int => numbers!(Int32Type, push_int),
        Type::Long => numbers!(Int64Type, push_long),
        Type::Float => numbers!(Float32Type, push_float),
        Type::Double => numbers!(Float64Type, push_double),
        Type::Bool => {
            let Some(array) = array.as_boolean_opt() else {
                return false;
            };
            for value in array {
                match value {
                    Some(value) => builder.push_bool(value),
                    None => builder.push_null(),
                }
            }
        }
        Type::String => {
            let Some(array) = array.as_string_opt::<i32>() else {
                return false;
            };
            for row in 0..len {
                match array.is_null(row) {
                    true => builder.push_null(),
                    false => builder.push_str(array.value(row)),
                }
            }
        }
        Type::Object => {
            let Some(array) = array.as_binary_opt::<i32>() else {
                return false;
            };
            for row in 0..len {
                match array.is_null(row) {
                    true => builder.push_null(),
                    false => builder.push(&object::read(array.value(row))),
                }
            }
        }
    }
    true
}

/// Appends numbers of rows or times; a null of another writer is 0.
pub(super) fn append_longs(array: &dyn Array, out: &mut Vec<i64>) -> bool {
    let Some(array) = array.as_primitive_opt::<Int64Type>() else {
        return false;
    };
    out.extend(array.iter().map(Option::unwrap_or_default));
    true
}
