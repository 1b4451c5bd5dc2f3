//! Bytes for state on disk: little-endian, length-prefixed, explicit.
//!
//! A saved state is made of what these two types write, field by field, by the component that owns
//! it; in-memory types are never dumped. Every [`Reader`] call checks bounds: a torn or forged
//! file gives an [`Error`], never a panic or a huge allocation.

use std::fmt;
use std::io::{self, Write};
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

/// Bytes of the longest [`Writer::varint`].
const VARINT_MAX: usize = 128_usize.div_ceil(7);

/// Bytes that a writer gathers before it hands them on.
const BLOCK: usize = if cfg!(test) { 1 << 10 } else { 64 << 10 };

/// Collects bytes in memory, or hands them on block by block, so that a large state never lies in
/// memory a second time.
#[derive(Default)]
pub struct Writer {
    /// Everything written so far; of a stream only what has not been handed on.
    pub bytes: Vec<u8>,
    drain: Option<Drain>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer of {} bytes", self.bytes.len())
    }
}

/// Where full blocks go.
enum Drain {
    /// Nowhere: only their length is wanted.
    Count(u64),
    Stream {
        out: Box<dyn Write + Send>,
        written: u64,
        /// The first failure; nothing is written behind it.
        error: Option<io::Error>,
    },
}

impl Writer {
    /// Goes on in memory behind these bytes.
    pub fn behind(bytes: Vec<u8>) -> Writer {
        Writer { bytes, drain: None }
    }

    /// Hands on what is written; [`Writer::finish`] tells how that went.
    pub fn streaming(out: Box<dyn Write + Send>) -> Writer {
        Writer {
            bytes: Vec::with_capacity(2 * BLOCK),
            drain: Some(Drain::Stream {
                out,
                written: 0,
                error: None,
            }),
        }
    }

    /// How many bytes were written, in memory or handed on. Fails with what the stream failed with.
    pub fn finish(mut self) -> io::Result<u64> {
        self.hand_on();
        let left = self.bytes.len() as u64;
        match self.drain {
            None => Ok(left),
            Some(Drain::Count(count)) => Ok(count + left),
            Some(Drain::Stream { error, written, .. }) => error.map_or(Ok(written), Err),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.block_done();
    }

    fn block_done(&mut self) {
        if self.bytes.len() >= BLOCK {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        match &mut self.drain {
            None => return,
            Some(Drain::Count(count)) => *count += self.bytes.len() as u64,
            Some(Drain::Stream {
                out,
                written,
                error,
            }) => {
                *written += self.bytes.len() as u64;
                if error.is_none() {
                    *error = out.write_all(&self.bytes).err();
                }
            }
        }
        self.bytes.clear();
    }

    pub fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }

    pub fn bool(&mut self, v: bool) {
        self.u8(u8::from(v));
    }

    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }

    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }

    pub fn i64(&mut self, v: i64) {
        self.put(&v.to_le_bytes());
    }

    pub fn f64(&mut self, v: f64) {
        self.u64(v.to_bits());
    }

    pub fn count(&mut self, v: usize) {
        self.u64(v as u64);
    }

    /// Seven bits a byte, the lowest first: short where the number is small.
    pub fn varint(&mut self, mut v: u128) {
        let (mut bytes, mut len) = ([0; VARINT_MAX], 0);
        while v >= 0x80 {
            bytes[len] = v as u8 | 0x80;
            len += 1;
            v >>= 7;
        }
        bytes[len] = v as u8;
        self.put(&bytes[..=len]);
    }

    /// Bytes as they are, without their length.
    pub fn raw(&mut self, v: &[u8]) {
        self.put(v);
    }

    pub fn blob(&mut self, v: &[u8]) {
        self.count(v.len());
        self.put(v);
    }

    pub fn str(&mut self, v: &str) {
        self.blob(v.as_bytes());
    }

    fn counted(&self) -> u64 {
        match self.drain {
            Some(Drain::Count(count)) => count,
            _ => 0,
        }
    }

    /// A part that its reader may skip or check as a whole. Its length stands in front of it, so a
    /// stream writes a long one twice, the first time to learn its length: both times must give the
    /// same bytes.
    pub fn section(&mut self, write: impl Fn(&mut Writer)) {
        match self.drain {
            None | Some(Drain::Count(_)) => {
                let (at, handed_on) = (self.bytes.len(), self.counted());
                self.u64(0);
                write(self);
                // What was counted away is written again by a stream.
                if self.counted() == handed_on {
                    let length = (self.bytes.len() - at - size_of::<u64>()) as u64;
                    self.bytes[at..at + size_of::<u64>()].copy_from_slice(&length.to_le_bytes());
                }
            }
            Some(Drain::Stream { .. }) => {
                let mut first = Writer {
                    bytes: Vec::new(),
                    drain: Some(Drain::Count(0)),
                };
                write(&mut first);
                match first.drain {
                    Some(Drain::Count(0)) => self.blob(&first.bytes),
                    Some(Drain::Count(count)) => {
                        self.u64(count + first.bytes.len() as u64);
                        drop(first);
                        write(self);
                    }
                    _ => unreachable!("a writer that counts goes on counting"),
                }
            }
        }
    }

    /// As [`Writer::section`], for many short parts: the length takes a byte or two, and `room` is
    /// used for one after the other.
    pub fn entry(&mut self, room: &mut Vec<u8>, write: impl Fn(&mut Writer)) {
        let mut first = Writer {
            bytes: std::mem::take(room),
            drain: Some(Drain::Count(0)),
        };
        write(&mut first);
        let handed_on = first.counted();
        self.varint(u128::from(handed_on) + first.bytes.len() as u128);
        match handed_on {
            0 => self.put(&first.bytes),
            _ => write(self),
        }
        first.bytes.clear();
        *room = first.bytes;
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
        self.column_of(&[Part::Column(column.clone())]);
    }

    /// Parts that stand behind one another, as one column.
    fn column_of(&mut self, parts: &[Part<'_>]) {
        self.count(parts.iter().map(Part::len).sum());
        let filled = || parts.iter().filter(|part| part.len() > 0);
        let views: Vec<View<'_>> = filled().map(Part::view).collect();
        let shape = common_shape(&views);
        self.u8(shape as u8);
        match shape {
            Shape::Any => {
                for part in parts {
                    (0..part.len()).for_each(|row| self.value(&part.value(row)));
                }
                return;
            }
            Shape::Str => self.texts(&views),
            _ => views.iter().for_each(|view| self.typed(view)),
        }
        let has_nulls = parts.iter().any(|part| part.nulls().is_some());
        self.bool(has_nulls);
        if has_nulls {
            for part in parts {
                match part.nulls() {
                    Some(nulls) => self.bools(nulls),
                    None => (0..part.len()).for_each(|_| self.bool(false)),
                }
            }
        }
    }

    fn typed(&mut self, view: &View<'_>) {
        match view {
            View::Bool(values) => self.bools(values),
            View::Int(values) => self.numbers(values, |v| v.to_le_bytes()),
            View::Long(values) => self.numbers(values, |v| v.to_le_bytes()),
            View::Float(values) => self.numbers(values, |v| v.to_le_bytes()),
            View::Double(values) => self.numbers(values, |v| v.to_le_bytes()),
            View::Str(_) | View::Any(_) => {}
        }
    }

    /// Adds bytes that are only counted without making them.
    fn is_counted(&mut self, bytes: usize) -> bool {
        match &mut self.drain {
            Some(Drain::Count(count)) if bytes > BLOCK => {
                *count += bytes as u64;
                true
            }
            _ => false,
        }
    }

    fn bools(&mut self, values: &[bool]) {
        if self.is_counted(values.len()) {
            return;
        }
        for block in values.chunks(BLOCK) {
            self.bytes.extend(block.iter().map(|&v| u8::from(v)));
            self.block_done();
        }
    }

    fn numbers<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        if self.is_counted(size_of_val(values)) {
            return;
        }
        for block in values.chunks(BLOCK / N) {
            self.bytes.reserve(N * block.len());
            for &value in block {
                self.bytes.extend_from_slice(&bytes(value));
            }
            self.block_done();
        }
    }

    /// Lengths, then the texts; one that repeats the one before has no bytes of its own.
    fn texts(&mut self, parts: &[View<'_>]) {
        let parts = || {
            parts.iter().filter_map(|part| match part {
                View::Str(texts) => Some(*texts),
                _ => None,
            })
        };
        let repeats =
            |texts: &StrView<'_>, row: usize| row > 0 && texts.rows_equal(row, texts, row - 1);
        for texts in parts() {
            for row in 0..texts.len() {
                let length = texts.get(row).len() as u32;
                self.u32(if repeats(&texts, row) {
                    REPEATED
                } else {
                    length
                });
            }
        }
        for texts in parts() {
            for row in (0..texts.len()).filter(|&row| !repeats(&texts, row)) {
                self.put(texts.get(row).as_bytes());
            }
        }
    }

    /// Rows, timestamps and kinds; chunk bounds and clocks are not kept by anything that is saved.
    pub fn rows(&mut self, batch: &Batch) {
        let columns = batch
            .columns
            .iter()
            .map(|column| vec![Part::Column(column.clone())]);
        self.rows_of(batch.len, &batch.times, batch.expired.as_deref(), columns);
    }

    /// As [`Writer::rows`], each column in parts that stand behind one another; the parts of a
    /// column are asked for when it is written, so that they need not all be there at once.
    pub fn rows_of<'a>(
        &mut self,
        len: usize,
        times: &Times,
        expired: Option<&[bool]>,
        columns: impl ExactSizeIterator<Item = Vec<Part<'a>>>,
    ) {
        self.count(len);
        let mut runs = TimesBuilder::default();
        runs.extend(times, 0..len);
        let times = runs.finish(0);
        self.count(times.runs(0..len).count());
        for (count, time) in times.runs(0..len) {
            self.u32(count as u32);
            self.i64(time);
        }
        self.bool(expired.is_some());
        if let Some(expired) = expired {
            self.bools(expired);
        }
        self.count(columns.len());
        columns.for_each(|parts| self.column_of(&parts));
    }
}

/// Some of the rows of a column that is being written.
#[derive(Debug)]
pub enum Part<'a> {
    Column(Column),
    /// As far as it is built.
    Builder(&'a ColumnBuilder),
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Part::Column(column) => column.len(),
            Part::Builder(builder) => builder.len(),
        }
    }

    fn view(&self) -> View<'_> {
        match self {
            Part::Column(column) => column.view(),
            Part::Builder(builder) => builder.view(),
        }
    }

    fn nulls(&self) -> Option<&[bool]> {
        match self {
            Part::Column(column) => column.nulls(),
            Part::Builder(builder) => builder.nulls(),
        }
    }

    fn value(&self, row: usize) -> Value {
        match self {
            Part::Column(column) => column.value(row),
            Part::Builder(builder) => builder.value(row),
        }
    }
}

/// `Any` where parts differ.
fn common_shape(views: &[View<'_>]) -> Shape {
    let mut shapes = views.iter().map(|view| match view {
        View::Bool(_) => Shape::Bool,
        View::Int(_) => Shape::Int,
        View::Long(_) => Shape::Long,
        View::Float(_) => Shape::Float,
        View::Double(_) => Shape::Double,
        View::Str(_) => Shape::Str,
        View::Any(_) => Shape::Any,
    });
    let first = shapes.next().unwrap_or(Shape::Any);
    if shapes.all(|shape| shape == first) {
        first
    } else {
        Shape::Any
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

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
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

    /// What [`Writer::varint`] has written.
    pub fn varint(&mut self) -> Result<u128, Error> {
        let at = self.at;
        let mut v = 0;
        for shift in (0..VARINT_MAX).map(|i| 7 * i as u32) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break;
            }
            v |= bits << shift;
            if byte < 0x80 {
                return Ok(v);
            }
        }
        Err(Error::Mismatch(format!("a number too large at byte {at}")))
    }

    /// So many bytes as they are.
    pub fn raw(&mut self, count: u128) -> Result<&'a [u8], Error> {
        let at = self.at;
        let count = usize::try_from(count).map_err(|_| Error::Short { at })?;
        self.take(count)
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

    #[test]
    fn numbers_of_any_size_take_few_bytes() {
        for number in [0, 1, 127, 128, 16_384, u128::from(u64::MAX), u128::MAX] {
            let mut writer = Writer::default();
            writer.varint(number);
            let bits = (128 - number.leading_zeros()).max(1);
            assert_eq!(writer.bytes.len(), bits.div_ceil(7) as usize, "{number}");
            assert_eq!(Reader::new(&writer.bytes).varint(), Ok(number));
            for cut in 0..writer.bytes.len() {
                assert!(Reader::new(&writer.bytes[..cut]).varint().is_err());
            }
        }
        assert!(Reader::new(&[0xff; 19]).varint().is_err());
        assert!(Reader::new(&[0x80; 40]).varint().is_err());
    }

    /// Keeps what a stream handed on.
    #[derive(Clone, Default)]
    struct Kept(Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("one thread").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_gives_the_bytes_of_memory() {
        let rows = |count: i64| {
            let longs = Column::longs_from((0..count).collect());
            let texts: Vec<Value> = (0..count)
                .map(|i| Value::str(&format!("text number {} of a few", i / 3)))
                .collect();
            let mut builder = ColumnBuilder::new(Type::String);
            texts.iter().for_each(|v| builder.push(v));
            let columns = vec![longs, builder.finish()];
            Batch::new(columns, count as usize, Times::Same(3), Chunks::One, 0)
        };
        let (small, large) = (rows(10), rows(200));
        let write = |writer: &mut Writer| {
            writer.str("head");
            writer.section(|w| {
                w.section(|w| w.rows(&small));
                w.section(|w| w.section(|w| w.rows(&large)));
                w.section(|_| {});
            });
            writer.str("tail");
            writer.section(|w| {
                w.section(|w| w.rows(&small));
                w.section(|w| w.str("nested"));
            });
        };
        let mut memory = Writer::default();
        write(&mut memory);
        let kept = Kept::default();
        let mut stream = Writer::streaming(Box::new(kept.clone()));
        write(&mut stream);
        assert!(stream.bytes.len() < 2 * BLOCK);
        let length = stream.finish().expect("memory takes everything");
        assert_eq!(length, memory.bytes.len() as u64);
        assert_eq!(*kept.0.lock().expect("one thread"), memory.bytes);
    }

    #[test]
    fn what_a_stream_failed_with_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = Writer::streaming(Box::new(Full));
        (0..2 * BLOCK as u64 / 8).for_each(|i| writer.u64(i));
        let error = writer.finish().expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn parts_of_a_column_are_one_column() {
        let typed = |values: &[Value]| {
            let mut builder = ColumnBuilder::new(Type::String);
            values.iter().for_each(|v| builder.push(v));
            builder
        };
        let long = Value::str("a text that does not lie in its view");
        let first = typed(&[long.clone(), Value::Null, Value::str("b")]).finish();
        for last in [
            typed(&[long.clone(), long.clone()]),
            typed(&[Value::Int(1), Value::Null]),
            typed(&[]),
        ] {
            let mut writer = Writer::default();
            let parts = vec![Part::Column(first.slice(1, 2)), Part::Builder(&last)];
            let expected: Vec<Value> = (1..3)
                .map(|row| first.value(row))
                .chain((0..last.len()).map(|row| last.value(row)))
                .collect();
            let len = expected.len();
            writer.rows_of(len, &Times::Same(1), None, std::iter::once(parts));
            let read = Reader::new(&writer.bytes).rows(&[Type::String], 0);
            let read = read.expect("what was written is read");
            let found: Vec<Value> = (0..len).map(|row| read.columns[0].value(row)).collect();
            assert_eq!(found, expected);
            let mut on =
                ColumnBuilder::behind(read.into_parts().columns.into_iter().next().expect("one"));
            on.push(&long);
            assert_eq!((on.len(), on.value(len)), (len + 1, long.clone()));
        }
    }
}
