//! A checkpoint: all actions that count at a version, in one Parquet file.
//!
//! Actions are JSON everywhere else, so they become arrays here and JSON again. Columns that other
//! writers add (statistics as structs, sidecars) are passed over.

use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, ListBuilder, MapBuilder, MapFieldNames,
    StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Map, Value as Json};

use crate::error::Error;

/// The shape of a field of an action.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Int,
    Long,
    Bool,
    /// Texts by text.
    Map,
    /// Texts.
    List,
    Struct(&'static [(&'static str, Kind)]),
}

/// The columns of a checkpoint.
const ACTIONS: &[(&str, Kind)] = &[
    (
        "protocol",
        Kind::Struct(&[
            ("minReaderVersion", Kind::Int),
            ("minWriterVersion", Kind::Int),
        ]),
    ),
    (
        "metaData",
        Kind::Struct(&[
            ("id", Kind::Text),
            ("name", Kind::Text),
            ("description", Kind::Text),
            (
                "format",
                Kind::Struct(&[("provider", Kind::Text), ("options", Kind::Map)]),
            ),
            ("schemaString", Kind::Text),
            ("partitionColumns", Kind::List),
            ("configuration", Kind::Map),
            ("createdTime", Kind::Long),
        ]),
    ),
    (
        "txn",
        Kind::Struct(&[
            ("appId", Kind::Text),
            ("version", Kind::Long),
            ("lastUpdated", Kind::Long),
        ]),
    ),
    (
        "add",
        Kind::Struct(&[
            ("path", Kind::Text),
            ("partitionValues", Kind::Map),
            ("size", Kind::Long),
            ("modificationTime", Kind::Long),
            ("dataChange", Kind::Bool),
            ("stats", Kind::Text),
            ("tags", Kind::Map),
        ]),
    ),
    (
        "remove",
        Kind::Struct(&[
            ("path", Kind::Text),
            ("deletionTimestamp", Kind::Long),
            ("dataChange", Kind::Bool),
        ]),
    ),
];

/// One value a row; null where the row has none.
fn array(kind: Kind, values: &[&Json]) -> ArrayRef {
    match kind {
        Kind::Text => {
            let mut builder = StringBuilder::new();
            values
                .iter()
                .for_each(|value| builder.append_option(value.as_str()));
            Arc::new(builder.finish())
        }
        Kind::Int => {
            let mut builder = Int32Builder::new();
            let of = |value: &Json| value.as_i64().and_then(|v| i32::try_from(v).ok());
            values
                .iter()
                .for_each(|value| builder.append_option(of(value)));
            Arc::new(builder.finish())
        }
        Kind::Long => {
            let mut builder = Int64Builder::new();
            values
                .iter()
                .for_each(|value| builder.append_option(value.as_i64()));
            Arc::new(builder.finish())
        }
        Kind::Bool => {
            let mut builder = BooleanBuilder::new();
            values
                .iter()
                .for_each(|value| builder.append_option(value.as_bool()));
            Arc::new(builder.finish())
        }
        Kind::List => {
            let mut builder = ListBuilder::new(StringBuilder::new()).with_field(Field::new(
                "element",
                DataType::Utf8,
                true,
            ));
            for value in values {
                let texts = value.as_array();
                for text in texts.into_iter().flatten() {
                    builder.values().append_option(text.as_str());
                }
                builder.append(texts.is_some());
            }
            Arc::new(builder.finish())
        }
        Kind::Map => Arc::new(map(values)),
        Kind::Struct(fields) => Arc::new(structure(fields, values)),
    }
}

fn map(values: &[&Json]) -> arrow_array::MapArray {
    let names = MapFieldNames {
        entry: "key_value".to_owned(),
        key: "key".to_owned(),
        value: "value".to_owned(),
    };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for value in values {
        let entries = value.as_object();
        for (key, value) in entries.into_iter().flatten() {
            builder.keys().append_value(key);
            builder.values().append_option(value.as_str());
        }
        builder
            .append(entries.is_some())
            .expect("as many keys as values were appended");
    }
    builder.finish()
}

fn structure(fields: &'static [(&'static str, Kind)], values: &[&Json]) -> StructArray {
    let arrays: Vec<ArrayRef> = fields
        .iter()
        .map(|(name, kind)| {
            let of: Vec<&Json> = values
                .iter()
                .map(|value| value.get(name).unwrap_or(&Json::Null))
                .collect();
            array(*kind, &of)
        })
        .collect();
    let named = fields.iter().zip(&arrays);
    let schema: Fields = named
        .map(|((name, _), array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let is_there: Vec<bool> = values.iter().map(|value| value.is_object()).collect();
    StructArray::new(schema, arrays, Some(NullBuffer::from(is_there)))
}

/// The bytes of a checkpoint.
pub(super) fn write(actions: &[Json]) -> Result<Vec<u8>, String> {
    let arrays: Vec<(&str, ArrayRef)> = ACTIONS
        .iter()
        .map(|(name, kind)| {
            let of: Vec<&Json> = actions
                .iter()
                .map(|action| action.get(name).unwrap_or(&Json::Null))
                .collect();
            (*name, array(*kind, &of))
        })
        .collect();
    let fields: Vec<Field> = arrays
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = arrays.into_iter().map(|(_, array)| array).collect();
    let text = |cause: &dyn std::error::Error| cause.to_string();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|cause| text(&cause))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer =
        ArrowWriter::try_new(Vec::new(), schema, Some(properties)).map_err(|cause| text(&cause))?;
    writer.write(&batch).map_err(|cause| text(&cause))?;
    writer.into_inner().map_err(|cause| text(&cause))
}

/// The actions of a checkpoint of ours or of another writer.
///
/// # Errors
/// It is damaged.
pub(super) fn read(path: &Path, bytes: Vec<u8>) -> Result<Vec<Json>, Error> {
    // The reader of Parquet panics on some damage, as where the parts of a map have different lengths.
    let read = catch_unwind(|| actions(path, bytes));
    read.unwrap_or_else(|_| {
        Err(Error::damaged(
            path,
            "the reader of Parquet gave up on it".to_owned(),
        ))
    })
}

fn actions(path: &Path, bytes: Vec<u8>) -> Result<Vec<Json>, Error> {
    let failed = |cause: &dyn std::error::Error| Error::damaged(path, cause.to_string());
    // Without the schema of Arrow, whose decoder panics on one that is damaged; that of Parquet says all.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::from(bytes), options)
            .map_err(|cause| failed(&cause))?;
    let reader = builder.build().map_err(|cause| failed(&cause))?;
    let mut actions = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|cause| failed(&cause))?;
        for row in 0..batch.num_rows() {
            for (name, _) in ACTIONS {
                let Some(column) = batch.column_by_name(name) else {
                    continue;
                };
                let value = json(column.as_ref(), row);
                if !value.is_null() {
                    let mut action = Map::new();
                    action.insert((*name).to_owned(), value);
                    actions.push(Json::Object(action));
                }
            }
        }
    }
    Ok(actions)
}

/// A value as JSON; null for what no action has.
fn json(array: &dyn Array, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Utf8 => Json::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Json::from(array.as_string::<i64>().value(row)),
        DataType::Boolean => Json::from(array.as_boolean().value(row)),
        DataType::Int32 => Json::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Json::from(array.as_primitive::<Int64Type>().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let pairs = fields.iter().zip(columns);
            let pairs =
                pairs.map(|(field, column)| (field.name().clone(), json(column.as_ref(), row)));
            Json::Object(pairs.filter(|(_, value)| !value.is_null()).collect())
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(row);
            (0..values.len())
                .map(|at| json(values.as_ref(), at))
                .collect()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pairs = (0..entries.len()).filter_map(|at| {
                let key = json(keys.as_ref(), at).as_str()?.to_owned();
                Some((key, json(values.as_ref(), at)))
            });
            Json::Object(pairs.collect())
        }
        _ => Json::Null,
    }
}
