//! The rows of an answer as bytes, part by part.
//!
//! JSON is `{"details":[…],"records":[[…],…]}`, as of an on-demand query; NDJSON an object for each row. Numbers
//! that JSON does not have (NaN, infinity) are texts.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use serde_json::{Map, Value as Json, json};

use crate::error::Error;

/// Rows of a group in Parquet: what is held back until it is full is bounded by them.
const GROUP_ROWS: usize = 64 << 10;

/// What an answer is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Json,
    Ndjson,
    Csv,
    /// A stream of Arrow IPC.
    Arrow,
    Parquet,
}

/// Writes one answer.
pub(crate) struct Encoder {
    schema: SchemaRef,
    out: Vec<u8>,
    writer: Writer,
}

enum Writer {
    Json { is_first: bool },
    Ndjson,
    Csv,
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

impl Encoder {
    pub fn new(format: Format, schema: &SchemaRef) -> Result<Encoder, Error> {
        let mut out = Vec::new();
        let names = || schema.fields().iter().map(|field| field.name().clone());
        let writer = match format {
            Format::Json => {
                let details: Json = schema
                    .fields()
                    .iter()
                    .map(|field| json!({ "name": field.name(), "dataType": ty(field.data_type()) }))
                    .collect();
                out.extend_from_slice(format!("{{\"details\":{details},\"records\":[").as_bytes());
                Writer::Json { is_first: true }
            }
            Format::Ndjson => Writer::Ndjson,
            Format::Csv => {
                csv_line(&mut out, names().map(Some));
                Writer::Csv
            }
            Format::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), schema);
                Writer::Arrow(Box::new(writer.map_err(failed)?))
            }
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .build();
                let schema = Arc::clone(schema);
                let writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties));
                Writer::Parquet(Box::new(writer.map_err(failed)?))
            }
        };
        Ok(Encoder {
            schema: Arc::clone(schema),
            out,
            writer,
        })
    }

    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let out = &mut self.out;
        match &mut self.writer {
            Writer::Arrow(writer) => return writer.write(batch).map_err(failed),
            Writer::Parquet(writer) => return writer.write(batch).map_err(failed),
            Writer::Json { is_first } => {
                for row in 0..batch.num_rows() {
                    let separator = if *is_first { "\n" } else { ",\n" };
                    *is_first = false;
                    let values: Json = batch.columns().iter().map(|c| value(c, row)).collect();
                    out.extend_from_slice(format!("{separator}{values}").as_bytes());
                }
            }
            Writer::Ndjson => {
                let fields = self.schema.fields();
                for row in 0..batch.num_rows() {
                    let values = batch.columns().iter().map(|column| value(column, row));
                    let names = fields.iter().map(|field| field.name().clone());
                    let line: Map<String, Json> = names.zip(values).collect();
                    out.extend_from_slice(format!("{}\n", Json::Object(line)).as_bytes());
                }
            }
            Writer::Csv => {
                for row in 0..batch.num_rows() {
                    let columns = batch.columns().iter();
                    csv_line(out, columns.map(|column| text(column, row)));
                }
            }
        }
        Ok(())
    }

    /// Bytes that wait to be taken.
    pub fn len(&mut self) -> usize {
        match &mut self.writer {
            Writer::Arrow(writer) => writer.get_mut().len(),
            Writer::Parquet(writer) => writer.inner_mut().len(),
            _ => self.out.len(),
        }
    }

    /// They end with a row.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.writer {
            Writer::Arrow(writer) => writer.get_mut(),
            Writer::Parquet(writer) => writer.inner_mut(),
            _ => &mut self.out,
        })
    }

    /// What is still to be written.
    pub fn end(mut self) -> Result<Vec<u8>, Error> {
        match self.writer {
            Writer::Json { .. } => self.out.extend_from_slice(b"]}\n"),
            Writer::Arrow(writer) => self.out = writer.into_inner().map_err(failed)?,
            Writer::Parquet(writer) => self.out = writer.into_inner().map_err(failed)?,
            Writer::Ndjson | Writer::Csv => {}
        }
        Ok(self.out)
    }
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::Failed(format!("the answer cannot be written: {cause}"))
}

/// Null is nothing at all, and an empty text is two quotes.
fn csv_line(out: &mut Vec<u8>, cells: impl Iterator<Item = Option<String>>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match cell {
            None => {}
            Some(cell) if cell.is_empty() || cell.contains([',', '"', '\n', '\r']) => {
                out.extend_from_slice(format!("\"{}\"", cell.replace('"', "\"\"")).as_bytes());
            }
            Some(cell) => out.extend_from_slice(cell.as_bytes()),
        }
    }
    out.push(b'\n');
}

/// Types of apps by their names there.
fn ty(ty: &DataType) -> String {
    match ty {
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "LONG".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOL".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".to_owned(),
        DataType::Binary => "OBJECT".to_owned(),
        other => other.to_string().to_uppercase(),
    }
}

fn text(array: &dyn Array, row: usize) -> Option<String> {
    match value(array, row) {
        Json::Null => None,
        Json::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn value(array: &dyn Array, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    macro_rules! number {
        ($ty:ty) => {
            Json::from(array.as_primitive::<$ty>().value(row))
        };
    }
    match array.data_type() {
        DataType::Null => Json::Null,
        DataType::Boolean => Json::from(array.as_boolean().value(row)),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            // The shortest digits of the float, not those of the double it would become.
            real(value.to_string().parse().unwrap_or(f64::from(value)))
        }
        DataType::Float64 => real(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Json::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Json::from(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Json::from(array.as_string_view().value(row)),
        // Objects of a table are JSON, unless they are bytes.
        DataType::Binary => match std::str::from_utf8(array.as_binary::<i32>().value(row)) {
            Ok(text) => Json::from(text),
            Err(_) => formatted(array, row),
        },
        _ => formatted(array, row),
    }
}

fn real(value: f64) -> Json {
    serde_json::Number::from_f64(value).map_or_else(|| Json::from(value.to_string()), Json::Number)
}

fn formatted(array: &dyn Array, row: usize) -> Json {
    let options = FormatOptions::default();
    match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => Json::from(formatter.value(row).to_string()),
        Err(error) => Json::from(error.to_string()),
    }
}
