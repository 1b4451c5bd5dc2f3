//! Bytes for state on disk: little-endian, length-prefixed, explicit.
//!
//! A saved state is made of what these two types write, field by field, by the component that owns
//! it; in-memory types are never dumped. Every [`Reader`] call checks bounds: a torn or forged
//! file gives an [`Error`], never a panic or a huge allocation.

use std::sync::Arc;

use crate::batch::{Batch, Chunks};
use crate::column::{Column, ColumnBuilder, StrView, Values, View};
use crate::strings::{StrBuilder, Strings};
use crate::times::{Times, TimesBuilder};
use crate::types::Type;
use crate::value::{Object, Shared, Value};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("saved state ends early at byte {at}")]
    Short { at: usize },
    #[error("saved state has an unknown mark {mark} at byte {at}")]
    Mark { mark: u8, at: usize },
    #[error("saved state has text that is not UTF-8 at byte {at}")]
    Text { at: usize },
    #[error("saved state nests too deep at byte {at}")]
    Deep { at: usize },
    #[error("saved state does not fit the app: {0}")]
    Mismatch(String),
}

/// Nesting of lists and maps that is read back.
const DEPTH_MAX: usize = 64;

#[derive(Default, Debug)]
pub struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn u8(&mut self, v: u8) {
        self.bytes.push(v);
    }

    pub fn bool(&mut self, v: bool) {
        self.u8(u8::from(v));
    }

    pub fn u32(&mut self, v: u32) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }

    pub fn u64(&mut self, v: u64) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }

    pub fn i64(&mut self, v: i64) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }

    pub fn f64(&mut self, v: f64) {
        self.u64(v.to_bits());
    }

    pub fn count(&mut self, v: usize) {
        self.u64(v as u64);
    }

    pub fn blob(&mut self, v: &[u8]) {
        self.count(v.len());
        self.bytes.extend_from_slice(v);
    }

    pub fn str(&mut self, v: &str) {
        self.blob(v.as_bytes());
    }

    /// A part that its reader may skip or check as a whole.
    pub fn section(&mut self, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.blob(&inner.bytes);
    }

    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.u8(0),
            Value::Bool(v) => {
                self.u8(1);
                self.bool(*v);
            }
            Value::Int(v) => {
                self.u8(2);
                self.u32(*v as u32);
            }
            Value::Long(v) => {
                self.u8(3);
                self.i64(*v);
            }
            Value::Float(v) => {
                self.u8(4);
                self.u32(v.to_bits());
            }
            Value::Double(v) => {
                self.u8(5);
                self.f64(*v);
            }
            Value::Str(v) => {
                self.u8(6);
                self.str(v);
            }
            Value::Object(v) => self.object(v),
        }
    }

    fn object(&mut self, object: &Object) {
        match object {
            Object::List(v) => self.values(7, &v.lock()),
            Object::Set(v) => self.values(8, &v.lock()),
            Object::Array(v) => self.values(9, v),
            Object::Map(v) => {
                let map = v.lock();
                self.u8(10);
                self.count(map.len());
                for (key, value) in map.iter() {
                    self.value(key);
                    self.value(value);
                }
            }
            Object::Bytes(v) => {
                self.u8(11);
                self.blob(v);
            }
            Object::Error(v) => {
                self.u8(12);
                self.str(v);
            }
        }
    }

    fn values(&mut self, mark: u8, values: &[Value]) {
        self.u8(mark);
        self.count(values.len());
        values.iter().for_each(|v| self.value(v));
    }

    /// Typed vectors go as they lie; only what is of mixed types goes value by value.
    pub fn column(&mut self, column: &Column) {
        self.count(column.len());
        match column.view() {
            View::Any(values) => {
                self.u8(Shape::Any as u8);
                return values.iter().for_each(|v| self.value(v));
            }
            View::Bool(values) => {
                self.u8(Shape::Bool as u8);
                self.bools(values);
            }
            View::Int(values) => self.numbers(Shape::Int, values, |v| v.to_le_bytes()),
            View::Long(values) => self.numbers(Shape::Long, values, |v| v.to_le_bytes()),
            View::Float(values) => self.numbers(Shape::Float, values, |v| v.to_le_bytes()),
            View::Double(values) => self.numbers(Shape::Double, values, |v| v.to_le_bytes()),
            View::Str(texts) => {
                self.u8(Shape::Str as u8);
                self.texts(&texts);
            }
        }
        self.bool(column.nulls().is_some());
        if let Some(nulls) = column.nulls() {
            self.bools(nulls);
        }
    }

    fn bools(&mut self, values: &[bool]) {
        self.bytes.extend(values.iter().map(|&v| u8::from(v)));
    }

    fn numbers<T: Copy, const N: usize>(
        &mut self,
        shape: Shape,
        values: &[T],
        bytes: impl Fn(T) -> [u8; N],
    ) {
        self.u8(shape as u8);
        self.bytes.reserve(N * values.len());
        for &value in values {
            self.bytes.extend_from_slice(&bytes(value));
        }
    }

    /// Lengths, then the texts; one that repeats the one before has no bytes of its own.
    fn texts(&mut self, texts: &StrView<'_>) {
        let repeats = |row: usize| row > 0 && texts.rows_equal(row, texts, row - 1);
        for row in 0..texts.len() {
            let length = texts.get(row).len() as u32;
            self.u32(if repeats(row) { REPEATED } else { length });
        }
        for row in (0..texts.len()).filter(|&row| !repeats(row)) {
            self.bytes.extend_from_slice(texts.get(row).as_bytes());
        }
    }

    /// Rows, timestamps and kinds; chunk bounds and clocks are not kept by anything that is saved.
    pub fn rows(&mut self, batch: &Batch) {
        let columns = batch.columns.iter().cloned();
        self.rows_of(batch.len, &batch.times, batch.expired.as_deref(), columns);
    }

    /// As [`Writer::rows`], from columns that are made one by one, so that rows in another form never
    /// lie in memory twice as a whole.
    pub fn rows_of(
        &mut self,
        len: usize,
        times: &Times,
        expired: Option<&[bool]>,
        columns: impl ExactSizeIterator<Item = Column>,
    ) {
        self.count(len);
        let mut runs = TimesBuilder::default();
        runs.extend(times, 0..len);
        let times = runs.finish(0);
        let runs: Vec<_> = times.runs(0..len).collect();
        self.count(runs.len());
        for (count, time) in runs {
            self.u32(count as u32);
            self.i64(time);
        }
        self.bool(expired.is_some());
        if let Some(expired) = expired {
            self.bools(expired);
        }
        self.count(columns.len());
        columns.for_each(|c| self.column(&c));
    }
}

/// How the rows of a column are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Any = 0,
    Bool = 1,
    Int = 2,
    Long = 3,
    Float = 4,
    Double = 5,
    Str = 6,
}

/// Stands for the length of a text that is the one of the row before.
const REPEATED: u32 = u32::MAX;

#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let end = self
            .at
            .checked_add(count)
            .filter(|&e| e <= self.bytes.len());
        let Some(end) = end else {
            return Err(Error::Short { at: self.at });
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    pub fn bool(&mut self) -> Result<bool, Error> {
        Ok(self.u8()? != 0)
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, Error> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn f64(&mut self) -> Result<f64, Error> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// A count of things of at least one byte each, so never more than bytes are left.
    pub fn count(&mut self) -> Result<usize, Error> {
        let at = self.at;
        let count = self.u64()?;
        usize::try_from(count)
            .ok()
            .filter(|&c| c <= self.bytes.len() - self.at)
            .ok_or(Error::Short { at })
    }

    pub fn blob(&mut self) -> Result<&'a [u8], Error> {
        let count = self.count()?;
        self.take(count)
    }

    pub fn str(&mut self) -> Result<&'a str, Error> {
        let at = self.at;
        std::str::from_utf8(self.blob()?).map_err(|_| Error::Text { at })
    }

    pub fn section(&mut self) -> Result<Reader<'a>, Error> {
        Ok(Reader::new(self.blob()?))
    }

    pub fn value(&mut self) -> Result<Value, Error> {
        self.value_at(0)
    }

    fn value_at(&mut self, depth: usize) -> Result<Value, Error> {
        let at = self.at;
        if depth > DEPTH_MAX {
            return Err(Error::Deep { at });
        }
        Ok(match self.u8()? {
            0 => Value::Null,
            1 => Value::Bool(self.bool()?),
            2 => Value::Int(self.u32()? as i32),
            3 => Value::Long(self.i64()?),
            4 => Value::Float(f32::from_bits(self.u32()?)),
            5 => Value::Double(self.f64()?),
            6 => Value::str(self.str()?),
            7 => Value::Object(Object::List(Shared::new(self.values(depth)?))),
            8 => Value::Object(Object::Set(Shared::new(self.values(depth)?))),
            9 => Value::Object(Object::Array(self.values(depth)?.into())),
            10 => {
                let count = self.count()?;
                let mut map = Vec::with_capacity(count);
                for _ in 0..count {
                    map.push((self.value_at(depth + 1)?, self.value_at(depth + 1)?));
                }
                Value::Object(Object::Map(Shared::new(map)))
            }
            11 => Value::Object(Object::Bytes(Arc::from(self.blob()?))),
            12 => Value::Object(Object::Error(Arc::from(self.str()?))),
            mark => return Err(Error::Mark { mark, at }),
        })
    }

    fn values(&mut self, depth: usize) -> Result<Vec<Value>, Error> {
        let count = self.count()?;
        (0..count).map(|_| self.value_at(depth + 1)).collect()
    }

    pub fn column(&mut self, ty: Type) -> Result<Column, Error> {
        let count = self.rows_count()?;
        let at = self.at;
        let shape = self.u8()?;
        let values = match (shape, ty) {
            (0, _) => {
                let mut builder = ColumnBuilder::new(ty);
                for _ in 0..count {
                    builder.push(&self.value()?);
                }
                return Ok(builder.finish());
            }
            (1, Type::Bool) => Values::Bool(self.bools(count)?),
            (2, Type::Int) => Values::Int(self.numbers(count, i32::from_le_bytes)?),
            (3, Type::Long) => Values::Long(self.numbers(count, i64::from_le_bytes)?),
            (4, Type::Float) => Values::Float(self.numbers(count, f32::from_le_bytes)?),
            (5, Type::Double) => Values::Double(self.numbers(count, f64::from_le_bytes)?),
            (6, Type::String) => Values::Str(self.texts(count)?),
            (1..=6, _) => {
                return Err(Error::Mismatch(format!(
                    "a column is not of type {ty}, but of the kind {shape}"
                )));
            }
            (mark, _) => return Err(Error::Mark { mark, at }),
        };
        let nulls = if self.bool()? {
            Some(self.bools(count)?)
        } else {
            None
        };
        Ok(Column::new(values, nulls))
    }

    /// A number of rows, which need not take a byte each.
    fn rows_count(&mut self) -> Result<usize, Error> {
        let at = self.at;
        u32::try_from(self.u64()?)
            .map(|count| count as usize)
            .map_err(|_| Error::Short { at })
    }

    fn bools(&mut self, count: usize) -> Result<Vec<bool>, Error> {
        Ok(self.take(count)?.iter().map(|&b| b != 0).collect())
    }

    fn numbers<T, const N: usize>(
        &mut self,
        count: usize,
        number: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Error> {
        let bytes = self.take(count.saturating_mul(N))?;
        let (chunks, _) = bytes.as_chunks::<N>();
        Ok(chunks.iter().map(|&chunk| number(chunk)).collect())
    }

    fn texts(&mut self, count: usize) -> Result<Strings, Error> {
        let lengths = self.numbers(count, u32::from_le_bytes)?;
        let mut texts = StrBuilder::with_capacity(count);
        for length in lengths {
            if length == REPEATED {
                texts.repeat_last(1);
                continue;
            }
            let at = self.at;
            let text = std::str::from_utf8(self.take(length as usize)?);
            texts.push(text.map_err(|_| Error::Text { at })?);
        }
        if texts.len() != count {
            return Err(Error::Mismatch("a column begins with a repetition".into()));
        }
        Ok(texts.finish())
    }

    /// What [`Writer::rows`] wrote, as one chunk.
    pub fn rows(&mut self, types: &[Type], now: i64) -> Result<Batch, Error> {
        let count = self.rows_count()?;
        let mut times = TimesBuilder::default();
        for _ in 0..self.count()? {
            let (rows, time) = (self.u32()? as usize, self.i64()?);
            if rows > count - times.len() {
                return Err(Error::Mismatch("more timestamps than rows".into()));
            }
            times.push(rows, time);
        }
        if times.len() != count {
            return Err(Error::Mismatch("fewer timestamps than rows".into()));
        }
        let expired = if self.bool()? {
            self.bools(count)?
        } else {
            Vec::new()
        };
        let columns = self.count()?;
        if columns != types.len() {
            return Err(Error::Mismatch(format!(
                "{columns} columns, expected {}",
                types.len()
            )));
        }
        let columns = types
            .iter()
            .map(|&ty| self.column(ty))
            .collect::<Result<Vec<_>, _>>()?;
        if columns.iter().any(|c| c.len() != count) {
            return Err(Error::Mismatch("columns of different lengths".into()));
        }
        let mut batch = Batch::new(columns, count, times.finish(now), Chunks::One, now);
        batch.expired = expired.contains(&true).then(|| expired.into());
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Attribute, Schema};

    #[test]
    fn every_kind_of_value_comes_back() {
        let list = Object::List(Shared::new(vec![Value::Int(1), Value::Null]));
        let map = Object::Map(Shared::new(vec![(Value::str("k"), Value::Object(list))]));
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int(-7),
            Value::Long(i64::MIN),
            Value::Float(1.5),
            Value::Double(f64::NAN),
            Value::str("é"),
            Value::Object(map),
            Value::Object(Object::Error("boom".into())),
        ];
        let mut writer = Writer::default();
        values.iter().for_each(|v| writer.value(v));
        let mut reader = Reader::new(&writer.bytes);
        for value in &values {
            assert_eq!(reader.value().as_ref(), Ok(value));
        }
        assert!(reader.is_done());
        for cut in 0..writer.bytes.len() {
            let mut reader = Reader::new(&writer.bytes[..cut]);
            while reader.value().is_ok() {}
        }
    }

    #[test]
    fn rows_come_back_column_by_column() {
        let types = [
            Type::Bool,
            Type::Int,
            Type::Long,
            Type::Float,
            Type::Double,
            Type::String,
            Type::Object,
        ];
        let attributes = types.iter().map(|&ty| Attribute {
            name: ty.name().into(),
            ty,
        });
        let schema = Schema {
            name: "S".into(),
            attributes: attributes.collect(),
        };
        let long = "/a/path/that/is/longer/than/twelve/bytes";
        let row = |t: i64, text: &str, number: Value| {
            let values = [
                Value::Bool(true),
                number,
                Value::Long(t),
                Value::Float(0.5),
                Value::Double(-0.0),
            ];
            let mut values = values.to_vec();
            values.extend([Value::str(text), Value::str("any")]);
            (t, values)
        };
        let rows = [
            row(5, long, Value::Int(1)),
            row(5, long, Value::Null),
            row(6, "", Value::str("mixed")),
            (7, vec![Value::Null; 7]),
        ];
        for count in 0..=rows.len() {
            let mut batch = Batch::from_rows(&schema, &rows[..count], Chunks::One, 0);
            batch.expired = (count == 3).then(|| [false, true, false].into());
            let mut writer = Writer::default();
            writer.rows(&batch);
            let read = Reader::new(&writer.bytes).rows(&types, 0);
            let read = read.expect("what was written is read");
            for row in 0..count {
                assert_eq!(read.row(row), batch.row(row));
                assert_eq!(read.times.at(row), batch.times.at(row));
                assert_eq!(read.is_expired(row), batch.is_expired(row));
            }
            for cut in 0..writer.bytes.len() {
                assert!(Reader::new(&writer.bytes[..cut]).rows(&types, 0).is_err());
            }
        }
        let mut writer = Writer::default();
        writer.rows(&Batch::new(
            Vec::new(),
            1_000_000,
            Times::Same(3),
            Chunks::One,
            0,
        ));
        assert!(writer.bytes.len() < 64);
        let read = Reader::new(&writer.bytes).rows(&[], 0);
        assert_eq!(read.map(|batch| batch.len), Ok(1_000_000));
    }
}
