//! Rows on their way in: columns of one stream, built message by message.
//!
//! A message is all or nothing where its mapper says so, a row can be taken back, and the rows of a
//! message are one chunk (or a chunk each). Attributes mapped to transport properties (`trp:…`) are
//! filled here, a run at a time, so that a file name on every row costs next to nothing.

use std::sync::Arc;

use event::codec::Writer;
use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Type, Value};
use plan::Mapping;

use crate::component::Payload;
use crate::error::Error;
use crate::scalar;

/// Rows at which a batch is closed. A chunk stays whole, so a batch may be longer.
pub const BATCH_ROWS: usize = 1024;

/// Bytes of messages at which a batch is closed, whatever its rows.
pub const BATCH_BYTES: u64 = 4 << 20;

/// Rejected messages at which the rows must be taken.
const REJECTED_MAX: usize = 1024;

/// Reports that one message can leave.
const REJECTED_OF_MESSAGE_MAX: usize = 64 << 10;

/// Longest part of a rejected payload that is kept, in bytes.
pub const KEPT_MAX: usize = 64 << 20;

/// The timestamp of an event that has none of its own: it takes the clock at which its step begins.
pub const NO_TIME: i64 = -1;

/// Begin of an `@attributes` entry that names a transport property.
pub const PROPERTY_PREFIX: &str = "trp:";

// ---- transport properties ----

/// What a source knows of a message beside its payload. Names are fixed when the source is made;
/// a value that was not set is null.
#[derive(Clone, Debug)]
pub struct Properties {
    names: Arc<[Arc<str>]>,
    values: Vec<Value>,
}

impl Properties {
    pub fn none() -> Properties {
        Properties::new(&[])
    }

    pub fn new(names: &[&str]) -> Properties {
        Properties {
            names: names.iter().map(|name| Arc::from(*name)).collect(),
            values: vec![Value::Null; names.len()],
        }
    }

    /// Sets the property at an index of the names given to [`Properties::new`].
    pub fn set(&mut self, index: usize, value: Value) {
        self.values[index] = value;
    }

    /// Properties that are not known before (headers): the last of a name wins.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Properties {
        let (names, values): (Vec<Arc<str>>, Vec<Value>) = pairs
            .into_iter()
            .map(|(name, value)| (Arc::from(name), value))
            .unzip();
        Properties {
            names: names.into(),
            values,
        }
    }

    pub fn get(&self, name: &str) -> &Value {
        self.index(name).map_or(&Value::Null, |i| &self.values[i])
    }

    /// Those that are set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.names.iter().zip(&self.values);
        all.filter(|(_, value)| !matches!(value, Value::Null))
            .map(|(name, value)| (&**name, value))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().rposition(|n| **n == *name)
    }
}

// ---- rejected messages ----

/// Where in the input something stood. Lines count from 1, bytes from 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Place {
    pub line: Option<u64>,
    pub byte: Option<u64>,
}

/// What kind of payload was rejected, and so how it is mapped again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RejectedKind {
    #[default]
    Text,
    Bytes,
    Map,
    Object,
    Events,
}

/// A message, or an event of one, that could not be taken, with what a reader needs to put it right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// The payload as text, cut at [`KEPT_MAX`] bytes.
    pub payload: String,
    pub kind: RejectedKind,
    /// The payload as it came, where the text is not all of it: bytes that are no UTF-8, or values and
    /// rows as [`Writer`] saves them. Empty otherwise.
    pub original: Vec<u8>,
    /// Bytes of the payload before it was cut.
    pub payload_bytes: usize,
    /// Rows of the batch that a sink mapper could not write.
    pub rows: Box<[u32]>,
    pub place: Place,
    pub cause: String,
    /// What to do next.
    pub remedy: &'static str,
}

impl Rejected {
    pub fn new(payload: &str, cause: impl Into<String>, remedy: &'static str) -> Rejected {
        let mut end = payload.len().min(KEPT_MAX);
        while !payload.is_char_boundary(end) {
            end -= 1;
        }
        Rejected {
            payload: payload[..end].to_owned(),
            kind: RejectedKind::Text,
            original: Vec::new(),
            payload_bytes: payload.len(),
            rows: Box::default(),
            place: Place::default(),
            cause: cause.into(),
            remedy,
        }
    }

    /// The payload as text, whatever its class, and as it came.
    pub fn of(payload: Payload<'_>, cause: impl Into<String>, remedy: &'static str) -> Rejected {
        let mut writer = Writer::default();
        let (text, kind) = match payload {
            Payload::Text(text) => return Rejected::new(text, cause, remedy),
            Payload::Bytes(bytes) => {
                let rejected = match std::str::from_utf8(bytes) {
                    Ok(text) => Rejected::new(text, cause, remedy),
                    Err(_) => Rejected {
                        original: bytes[..bytes.len().min(KEPT_MAX)].to_vec(),
                        payload_bytes: bytes.len(),
                        ..Rejected::new(&lossy(bytes), cause, remedy)
                    },
                };
                return Rejected {
                    kind: RejectedKind::Bytes,
                    ..rejected
                };
            }
            Payload::Events(batch) => {
                writer.rows(batch);
                (format!("{} events", batch.len), RejectedKind::Events)
            }
            Payload::Map(entries) => {
                writer.count(entries.len());
                for (key, value) in entries {
                    writer.value(key);
                    writer.value(value);
                }
                (map_text(entries), RejectedKind::Map)
            }
            Payload::Object(value) => {
                writer.value(value);
                (event::text::to_text(value), RejectedKind::Object)
            }
        };
        Rejected {
            kind,
            original: writer.bytes,
            ..Rejected::new(&text, cause, remedy)
        }
    }

    /// With the rows of the batch that a sink mapper could not write.
    pub fn of_rows(self, rows: &[u32]) -> Rejected {
        Rejected {
            rows: rows.into(),
            ..self
        }
    }
}

/// For people; the bytes themselves are kept beside it.
fn lossy(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64 << 10;
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]).into_owned()
}

fn map_text(entries: &[(Value, Value)]) -> String {
    let mut text = String::from("{");
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        event::text::write_value(&mut text, key);
        text.push('=');
        event::text::write_value(&mut text, value);
    }
    text.push('}');
    text
}

// ---- rows ----

/// One attribute that is filled from a transport property.
struct FromProperty {
    column: usize,
    ty: Type,
    name: Arc<str>,
    /// Index of the name in the properties seen last.
    index: Option<usize>,
    raw: Value,
    /// `raw` as the attribute's type, or why it cannot be.
    value: Result<Value, String>,
    rows: ColumnBuilder,
}

/// Builds the batches of one stream.
pub struct Rows {
    schema: Arc<Schema>,
    columns: Vec<ColumnBuilder>,
    from_properties: Vec<FromProperty>,
    /// Names of the properties seen last, by identity.
    names: Arc<[Arc<str>]>,
    allows_null: bool,
    /// Complete rows.
    len: usize,
    /// First row of the open message.
    message: usize,
    message_bytes: usize,
    is_split: bool,
    /// Timestamps, from the first row that has one of its own.
    times: Vec<i64>,
    /// Ends of the chunks; empty while every chunk has one row.
    ends: Vec<u32>,
    bytes: u64,
    bytes_total: u64,
    place: Place,
    rejected: Vec<Rejected>,
    /// Rejected events without a report.
    unreported: u64,
}

impl Rows {
    /// Rows of a stream whose mapping may name transport properties.
    pub fn new(schema: &Schema, mapping: &Mapping, allows_null: bool) -> Rows {
        let from_properties = mapping
            .attributes
            .iter()
            .zip(&schema.attributes)
            .enumerate()
            .filter_map(|(column, (from, attribute))| {
                let name = from.trim().strip_prefix(PROPERTY_PREFIX)?.trim();
                Some(FromProperty {
                    column,
                    ty: attribute.ty,
                    name: Arc::from(name),
                    index: None,
                    raw: Value::Null,
                    value: scalar_or_missing(attribute.ty, name, &Value::Null, allows_null),
                    rows: ColumnBuilder::with_capacity(attribute.ty, BATCH_ROWS),
                })
            })
            .collect();
        Rows {
            columns: builders(schema),
            schema: Arc::new(schema.clone()),
            from_properties,
            names: Arc::from([]),
            allows_null,
            len: 0,
            message: 0,
            message_bytes: 0,
            is_split: false,
            times: Vec::new(),
            ends: Vec::new(),
            bytes: 0,
            bytes_total: 0,
            place: Place::default(),
            rejected: Vec::new(),
            unreported: 0,
        }
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Complete rows that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Must the rows be taken before the next message?
    pub fn is_full(&self) -> bool {
        self.len >= BATCH_ROWS || self.bytes >= BATCH_BYTES || self.rejected.len() >= REJECTED_MAX
    }

    /// Bytes of all messages so far.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    // ---- for the caller of a mapper ----

    /// The properties of the messages that follow.
    pub fn set_properties(&mut self, properties: &Properties) {
        if self.from_properties.is_empty() {
            return;
        }
        if !Arc::ptr_eq(&self.names, &properties.names) {
            self.names = Arc::clone(&properties.names);
            for from in &mut self.from_properties {
                from.index = properties.index(&from.name);
            }
        }
        for from in &mut self.from_properties {
            let raw = from.index.map_or(&Value::Null, |i| &properties.values[i]);
            if *raw != from.raw {
                from.fill(self.len);
                from.raw = raw.clone();
                from.value = scalar_or_missing(from.ty, &from.name, raw, self.allows_null);
            }
        }
    }

    /// A message of that many bytes begins.
    #[inline]
    pub fn begin_message(&mut self, bytes: usize) {
        self.message = self.len;
        self.message_bytes = bytes;
        self.is_split = false;
    }

    /// Where the message stands in its file or record.
    #[inline]
    pub fn set_place(&mut self, line: u64, byte: u64) {
        self.place = Place {
            line: Some(line),
            byte: Some(byte),
        };
    }

    /// The rows committed since [`Rows::begin_message`] are its chunk.
    #[inline]
    pub fn end_message(&mut self) {
        self.bytes += self.message_bytes as u64;
        self.bytes_total += self.message_bytes as u64;
        let added = self.len - self.message;
        if added == 0 {
            return;
        }
        if added > 1 || !self.ends.is_empty() {
            self.end_chunks(added);
        }
    }

    fn end_chunks(&mut self, added: usize) {
        if self.ends.is_empty() {
            if self.is_split || added == 1 {
                return;
            }
            self.ends.extend(1..=self.message as u32);
        }
        if self.is_split {
            self.ends.extend(self.message as u32 + 1..=self.len as u32);
        } else {
            self.ends.push(self.len as u32);
        }
    }

    /// Why no message with these properties can be taken: one that an attribute needs is missing or
    /// of no use.
    pub fn missing_property(&self) -> Option<&str> {
        self.from_properties
            .iter()
            .find_map(|from| from.value.as_ref().err().map(String::as_str))
    }

    /// The rows so far as one batch; `None` when there are none.
    pub fn take(&mut self) -> Option<Batch> {
        self.bytes = 0;
        if self.len == 0 {
            return None;
        }
        let len = self.len;
        for from in &mut self.from_properties {
            from.fill(len);
        }
        let builders = std::mem::replace(&mut self.columns, builders(&self.schema));
        let mut columns: Vec<Column> = builders.into_iter().map(ColumnBuilder::finish).collect();
        for from in &mut self.from_properties {
            let fresh = ColumnBuilder::with_capacity(from.ty, BATCH_ROWS);
            columns[from.column] = std::mem::replace(&mut from.rows, fresh).finish();
        }
        let times = if self.times.is_empty() {
            Times::Same(NO_TIME)
        } else {
            self.times.resize(len, NO_TIME);
            Times::per_row(std::mem::take(&mut self.times))
        };
        let chunks = if self.ends.is_empty() {
            Chunks::EachRow
        } else if self.ends.len() == 1 {
            self.ends.clear();
            Chunks::One
        } else {
            Chunks::Ends(std::mem::take(&mut self.ends).into())
        };
        self.len = 0;
        self.message = 0;
        Some(Batch::new(columns, len, times, chunks, NO_TIME))
    }

    /// What was rejected since the last call.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        self.unreported = 0;
        std::mem::take(&mut self.rejected)
    }

    // ---- for mappers ----

    /// The columns in the order of the stream's attributes. Each gets one value a row; those that are
    /// filled from transport properties may be left alone.
    #[inline]
    pub fn columns(&mut self) -> &mut [ColumnBuilder] {
        &mut self.columns
    }

    /// The timestamp of the open row; without it, the event has none of its own.
    pub fn set_time(&mut self, time: i64) {
        if time != NO_TIME || !self.times.is_empty() {
            self.times.resize(self.len, NO_TIME);
            self.times.push(time);
        }
    }

    #[inline]
    pub fn commit_row(&mut self) {
        self.len += 1;
    }

    /// Appends events column by column, with their timestamps and chunks. The batch has a column for
    /// each attribute, or more.
    pub fn extend_events(&mut self, batch: &Batch) {
        for (to, from) in self.columns.iter_mut().zip(&batch.columns) {
            to.extend(from, 0..batch.len);
        }
        if !matches!(batch.times, Times::Same(NO_TIME)) || !self.times.is_empty() {
            self.times.resize(self.len, NO_TIME);
            self.times
                .extend((0..batch.len).map(|row| batch.times.at(row)));
        }
        let before = self.len as u32;
        self.len += batch.len;
        let Chunks::EachRow = batch.chunks else {
            if self.ends.is_empty() {
                self.ends.extend(1..=before);
            }
            let chunks = (0..batch.chunk_count()).map(|chunk| batch.chunk(chunk));
            self.ends.extend(
                chunks
                    .filter(|c| !c.is_empty())
                    .map(|c| before + c.end as u32),
            );
            self.message = self.len;
            return;
        };
        self.split();
    }

    /// Takes back what was pushed since the last row.
    pub fn abort_row(&mut self) {
        let len = self.len;
        for column in &mut self.columns {
            column.truncate(len);
        }
        self.times.truncate(len);
    }

    /// Takes back all rows of the open message.
    pub fn abort_message(&mut self) {
        self.len = self.message;
        self.abort_row();
    }

    /// Each row of the open message is a chunk of its own.
    pub fn split(&mut self) {
        self.is_split = true;
    }

    /// The message is not taken; rows of it that were committed are taken back.
    #[cold]
    pub fn reject_message(
        &mut self,
        payload: Payload<'_>,
        cause: impl Into<String>,
        remedy: &'static str,
    ) {
        self.abort_message();
        self.push_rejected(Rejected::of(payload, cause, remedy));
    }

    /// The open row is not taken; the others of its message go on.
    #[cold]
    pub fn reject_row(&mut self, payload: &str, cause: impl Into<String>, remedy: &'static str) {
        self.abort_row();
        self.push_rejected(Rejected::new(payload, cause, remedy));
    }

    /// As [`Rows::reject_row`], where the part of the message that the row is of can be mapped alone.
    #[cold]
    pub fn reject_part(
        &mut self,
        payload: Payload<'_>,
        cause: impl Into<String>,
        remedy: &'static str,
    ) {
        self.abort_row();
        self.push_rejected(Rejected::of(payload, cause, remedy));
    }

    fn push_rejected(&mut self, mut rejected: Rejected) {
        rejected.place = self.place;
        // The caller drains at REJECTED_MAX between messages. One message can hold more; what is
        // beyond the second bound is told by the last report.
        if self.rejected.len() < REJECTED_OF_MESSAGE_MAX {
            self.rejected.push(rejected);
        } else if let Some(last) = self.rejected.last_mut() {
            self.unreported += 1;
            last.cause = format!(
                "{} more events of the message are rejected",
                self.unreported
            );
        }
    }
}

impl FromProperty {
    /// Brings the column up to `len` rows with the value so far.
    fn fill(&mut self, len: usize) {
        let count = len - self.rows.len();
        if let Ok(value) = &self.value {
            self.rows.push_repeated(value, count);
        }
    }
}

fn builders(schema: &Schema) -> Vec<ColumnBuilder> {
    schema
        .attributes
        .iter()
        .map(|attribute| ColumnBuilder::with_capacity(attribute.ty, BATCH_ROWS))
        .collect()
}

/// The value of a transport property as an attribute's type (`connectors.md` 1.3; Siddhi's
/// `InputEventHandler` and `AttributeConverter`).
fn scalar_or_missing(
    ty: Type,
    name: &str,
    raw: &Value,
    allows_null: bool,
) -> Result<Value, String> {
    if raw.is_null() {
        return if allows_null {
            Ok(Value::Null)
        } else {
            Err(format!("transport property '{name}' is missing"))
        };
    }
    let wrong = || {
        Err(format!(
            "transport property '{name}' is '{}', which is no {ty}",
            event::text::to_text(raw)
        ))
    };
    let from_text = |text: &str| match ty {
        Type::Bool => Some(Value::Bool(scalar::parse_bool(text))),
        Type::Int => scalar::parse_int(text).map(Value::Int),
        Type::Long => scalar::parse_long(text).map(Value::Long),
        Type::Float => scalar::parse_float(text).map(Value::Float),
        Type::Double => scalar::parse_double(text).map(Value::Double),
        Type::String | Type::Object => Some(Value::str(text)),
    };
    match (ty, raw) {
        (Type::Object, value) => Ok(value.clone()),
        (Type::String, value) => Ok(Value::str(&event::text::to_text(value))),
        (_, Value::Str(text)) => from_text(text).map_or_else(wrong, Ok),
        (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Long, Value::Long(_))
        | (Type::Float, Value::Float(_))
        | (Type::Double, Value::Double(_)) => Ok(raw.clone()),
        (Type::Long, Value::Int(v)) => Ok(Value::Long(i64::from(*v))),
        (Type::Double, Value::Float(v)) => Ok(Value::Double(f64::from(*v))),
        _ => wrong(),
    }
}

// ---- lines ----

/// The lines of a block of text as Siddhi's file source sees them: ended by `\n`, `\r\n` or `\r`,
/// trimmed of characters up to blank, empty ones left out (one of blanks only is a line without
/// text). The last line need not be ended.
pub struct Lines<'a> {
    block: &'a str,
    at: usize,
    start: usize,
    has_return: bool,
    /// Number of the line last given.
    line: u64,
    /// Byte of the input at which the block begins.
    base: u64,
}

impl<'a> Lines<'a> {
    /// `line`: lines of the input before the block; `base`: bytes before it. The block must not end
    /// between `\r` and `\n`.
    pub fn new(block: &'a str, line: u64, base: u64) -> Lines<'a> {
        Lines {
            block,
            at: 0,
            start: 0,
            has_return: memchr::memchr(b'\r', block.as_bytes()).is_some(),
            line,
            base,
        }
    }

    #[inline]
    pub fn next_line(&mut self) -> Option<&'a str> {
        let bytes = self.block.as_bytes();
        while self.at < bytes.len() {
            let rest = &bytes[self.at..];
            let found = if self.has_return {
                memchr::memchr2(b'\n', b'\r', rest)
            } else {
                memchr::memchr(b'\n', rest)
            };
            let len = found.unwrap_or(rest.len());
            self.start = self.at;
            self.at += len + 1;
            if rest.get(len..len + 2) == Some(b"\r\n") {
                self.at += 1;
            }
            self.line += 1;
            if len > 0 {
                return Some(scalar::trim(&self.block[self.start..self.start + len]));
            }
        }
        None
    }

    /// Number of the line last given, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Byte of the input at which the line last given begins.
    pub fn start(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Byte of the input behind the line last given.
    pub fn position(&self) -> u64 {
        self.base + self.at.min(self.block.len()) as u64
    }

    /// What is left of the block.
    pub fn rest(&self) -> &'a str {
        &self.block[self.at.min(self.block.len())..]
    }
}

/// Checks what common code relies on: a mapping names each attribute once.
pub fn check_mapping(schema: &Schema, mapping: &Mapping) -> Result<(), Error> {
    if mapping.attributes.is_empty() || mapping.attributes.len() == schema.attributes.len() {
        return Ok(());
    }
    Err(Error::refused(
        format!("source mapper '{}'", mapping.ty),
        format!(
            "stream '{}' has {} attributes, but @attributes maps {}; map each attribute once",
            schema.name,
            schema.attributes.len(),
            mapping.attributes.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper::testing::{mapping, schema, show, with_attributes};

    fn rows(attributes: &str, from: &[&str], allows_null: bool) -> Rows {
        let map = with_attributes(mapping("csv", &[]), from);
        Rows::new(&schema(attributes), &map, allows_null)
    }

    fn push(rows: &mut Rows, values: &[i32]) {
        rows.begin_message(1);
        for &value in values {
            rows.columns()[0].push_int(value);
            if value < 0 {
                rows.reject_row("negative", "too small", "send more");
            } else {
                rows.commit_row();
            }
        }
        rows.end_message();
    }

    #[test]
    fn a_message_is_a_chunk() {
        let mut rows = rows("a int", &[], false);
        push(&mut rows, &[1]);
        push(&mut rows, &[2]);
        assert_eq!(rows.take().map(|b| b.chunks.clone()), Some(Chunks::EachRow));
        for values in [&[1][..], &[2, -1, 3], &[], &[4]] {
            push(&mut rows, values);
        }
        assert_eq!(show(rows.take()), "1\n2; 3\n4");
        push(&mut rows, &[5, 6]);
        assert_eq!(rows.take().map(|b| b.chunks.clone()), Some(Chunks::One));
        assert_eq!(rows.take_rejected().len(), 1);
        assert!(rows.take().is_none());
    }

    #[test]
    fn a_message_can_be_taken_back_and_split() {
        let mut rows = rows("a int", &[], false);
        push(&mut rows, &[1, 2]);
        rows.begin_message(1);
        rows.columns()[0].push_int(3);
        rows.commit_row();
        rows.columns()[0].push_int(4);
        rows.reject_message(Payload::Text("x"), "no", "yes");
        rows.end_message();
        rows.begin_message(1);
        for value in [5, 6] {
            rows.columns()[0].push_int(value);
            rows.commit_row();
        }
        rows.split();
        rows.end_message();
        assert_eq!(show(rows.take()), "1; 2\n5\n6");
    }

    #[test]
    fn a_long_chunk_stays_whole_and_fills_the_batch() {
        let mut rows = rows("a int", &[], false);
        let values: Vec<i32> = (0..3000).collect();
        push(&mut rows, &values);
        assert!(rows.is_full());
        let batch = rows.take().expect("there are rows");
        assert_eq!((batch.len, batch.chunk_count()), (3000, 1));
        assert!(!rows.is_full());
    }

    #[test]
    fn reports_of_one_message_are_bounded_and_the_rest_is_told() {
        let mut rows = rows("a int", &[], false);
        push(&mut rows, &vec![-1; REJECTED_OF_MESSAGE_MAX + 7]);
        assert!(rows.is_full());
        let rejected = rows.take_rejected();
        assert_eq!(rejected.len(), REJECTED_OF_MESSAGE_MAX);
        assert!(
            rejected
                .last()
                .is_some_and(|last| last.cause.starts_with("7 more"))
        );
    }

    #[test]
    fn properties_are_converted_once_for_a_run() {
        let from = ["x", "trp:n", "trp:f"];
        let mut rows = rows("a int, n long, f double", &from, true);
        let mut properties = Properties::new(&["f", "n"]);
        for (f, n) in [
            (Value::Null, Value::Int(1)),
            (Value::str("1.5"), Value::Int(1)),
            (Value::Float(2.5), Value::str("7")),
        ] {
            properties.set(0, f);
            properties.set(1, n);
            rows.set_properties(&properties);
            assert_eq!(rows.missing_property(), None);
            push(&mut rows, &[0]);
            push(&mut rows, &[1]);
        }
        assert_eq!(
            show(rows.take()),
            "0 1 null\n1 1 null\n0 1 1.5\n1 1 1.5\n0 7 2.5\n1 7 2.5"
        );
        push(&mut rows, &[2]);
        assert_eq!(show(rows.take()), "2 7 2.5");
        // Other names, as of another file or request.
        rows.set_properties(&Properties::from_pairs([
            ("n", Value::str("9")),
            ("f", Value::str("x")),
        ]));
        assert!(
            rows.missing_property()
                .is_some_and(|cause| cause.contains("'x'"))
        );
    }

    #[test]
    fn lines_as_the_file_source_of_siddhi_sees_them() {
        fn check(text: &str, expect: &[(&str, u64, u64)]) {
            let mut lines = Lines::new(text, 10, 100);
            let mut found = Vec::new();
            while let Some(line) = lines.next_line() {
                found.push((line, lines.line() - 10, lines.start() - 100));
            }
            assert_eq!(found, expect, "{text:?}");
            assert_eq!(lines.position(), 100 + text.len() as u64);
        }
        check(
            "a\n b \r\n\r\n\rc",
            &[("a", 1, 0), ("b", 2, 2), ("c", 5, 10)],
        );
        check("a\n \n\n", &[("a", 1, 0), ("", 2, 2)]);
        check("", &[]);
        check("\n\n", &[]);
        check("é\u{a0}\t\n", &[("é\u{a0}", 1, 0)]);
    }

    #[test]
    fn long_payloads_are_cut_in_reports() {
        let text = "é".repeat(KEPT_MAX / 2 + 1);
        let rejected = Rejected::new(&format!("a{text}"), "too long", "cut it");
        assert!(rejected.payload.len() < KEPT_MAX && rejected.payload.ends_with('é'));
        assert_eq!(rejected.payload_bytes, KEPT_MAX + 3);
    }

    #[test]
    fn bytes_and_values_are_kept_as_they_came() {
        let bytes = Rejected::of(Payload::Bytes(b"\xff\x00a"), "no text", "send text");
        assert_eq!(bytes.kind, RejectedKind::Bytes);
        assert_eq!(
            (bytes.original.as_slice(), bytes.payload_bytes),
            (b"\xff\x00a".as_slice(), 3)
        );
        let text = Rejected::of(Payload::Bytes(b"abc"), "no number", "send one");
        assert_eq!(
            (text.payload.as_str(), text.original.as_slice()),
            ("abc", b"".as_slice())
        );
        let entries = [(Value::str("n"), Value::Long(7))];
        let map = Rejected::of(Payload::Map(&entries), "no string", "send one");
        assert_eq!(
            (map.payload.as_str(), map.kind),
            ("{n=7}", RejectedKind::Map)
        );
        let mut reader = event::codec::Reader::new(&map.original);
        assert_eq!(reader.count(), Ok(1));
        assert_eq!(reader.value(), Ok(Value::str("n")));
        assert_eq!(reader.value(), Ok(Value::Long(7)));
    }
}
