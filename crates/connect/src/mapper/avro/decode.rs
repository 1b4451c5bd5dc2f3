//! Bytes to values by a plan. The reference for what is faster.
//!
//! Promises: an end for any bytes, within a bound on values and depth that follows from their number.

use std::borrow::Cow;

use event::Value;

use super::decimal;
use super::plan::{Plan, Step, StepId, Width};
use crate::mapper::json::{DEPTH_MAX, Node};

/// Why bytes cannot be read.
pub(super) type Fault = Cow<'static, str>;

/// Values beside those that take a byte each: an array of nulls has as many as it says.
const FREE_VALUES: usize = 64 << 10;

const ENDS: Fault = Cow::Borrowed("the message ends within a value");

/// Takes values off the front of a message.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    values_left: usize,
}

/// A number in the width in which the reader has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
}

impl Number {
    pub fn value(self) -> Value {
        match self {
            Number::Int(v) => Value::Int(v),
            Number::Long(v) => Value::Long(v),
            Number::Float(v) => Value::Float(v),
            Number::Double(v) => Value::Double(v),
        }
    }

    /// As Java prints it.
    pub fn text(self) -> String {
        event::text::to_text(&self.value())
    }
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor {
            bytes,
            at: 0,
            values_left: bytes.len() + FREE_VALUES,
        }
    }

    /// Bytes that were not taken.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let taken = self.bytes[self.at..].first_chunk::<N>().ok_or(ENDS)?;
        self.at += N;
        Ok(*taken)
    }

    #[inline]
    pub fn slice(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let taken = self.bytes[self.at..].get(..len).ok_or(ENDS)?;
        self.at += len;
        Ok(taken)
    }

    /// A zigzag number of up to ten groups of seven bits, lowest first.
    #[inline]
    pub fn long(&mut self) -> Result<i64, Fault> {
        let (mut raw, mut shift) = (0u64, 0);
        loop {
            let [byte] = self.take()?;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth group has one bit that counts.
                if shift == 63 && byte > 1 {
                    return Err("a number is longer than 64 bits".into());
                }
                return Ok((raw >> 1) as i64 ^ -((raw & 1) as i64));
            }
            shift += 7;
            if shift > 63 {
                return Err("a number is longer than 64 bits".into());
            }
        }
    }

    #[inline]
    pub fn int(&mut self) -> Result<i32, Fault> {
        i32::try_from(self.long()?).map_err(|_| "an int is longer than 32 bits".into())
    }

    fn len(&mut self) -> Result<usize, Fault> {
        let len = self.long()?;
        usize::try_from(len).map_err(|_| "a length is negative".into())
    }

    pub fn bool(&mut self) -> Result<bool, Fault> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("a boolean is {other}").into()),
        }
    }

    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.len()?;
        self.slice(len)
    }

    #[inline]
    pub fn text(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a string is not UTF-8".into())
    }

    #[inline]
    pub fn number(&mut self, written: Width, read: Width) -> Result<Number, Fault> {
        let number = match written {
            Width::Int => Number::Int(self.int()?),
            Width::Long => Number::Long(self.long()?),
            Width::Float => Number::Float(f32::from_le_bytes(self.take()?)),
            Width::Double => Number::Double(f64::from_le_bytes(self.take()?)),
        };
        Ok(match (number, read) {
            (Number::Int(v), Width::Long) => Number::Long(i64::from(v)),
            (Number::Int(v), Width::Float) => Number::Float(v as f32),
            (Number::Int(v), Width::Double) => Number::Double(f64::from(v)),
            (Number::Long(v), Width::Float) => Number::Float(v as f32),
            (Number::Long(v), Width::Double) => Number::Double(v as f64),
            (Number::Float(v), Width::Double) => Number::Double(f64::from(v)),
            (same, _) => same,
        })
    }

    pub fn decimal(&mut self, scale: usize, size: Option<usize>) -> Result<String, Fault> {
        let bytes = match size {
            Some(size) => self.slice(size)?,
            None => self.bytes()?,
        };
        decimal::text(bytes, scale).ok_or(Fault::Borrowed("a decimal has more than 38 digits"))
    }

    pub fn symbol<'p>(&mut self, symbols: &'p [Result<String, String>]) -> Result<&'p str, Fault> {
        let at = self.int()?;
        let found = usize::try_from(at).ok().and_then(|at| symbols.get(at));
        match found {
            Some(Ok(symbol)) => Ok(symbol),
            Some(Err(cause)) => Err(cause.clone().into()),
            None => Err(format!("an enum has no symbol {at}").into()),
        }
    }

    #[inline]
    pub fn branch(&mut self, branches: &[StepId]) -> Result<StepId, Fault> {
        let at = self.long()?;
        let found = usize::try_from(at).ok().and_then(|at| branches.get(at));
        let absent = || Fault::Owned(format!("a union has no branch {at}"));
        found.copied().ok_or_else(absent)
    }

    fn note_value(&mut self) -> Result<(), Fault> {
        let left = self.values_left.checked_sub(1);
        self.values_left = left.ok_or(Fault::Borrowed("the message has too many values"))?;
        Ok(())
    }

    /// The number of items in the next block of an array or map; none at its end.
    fn block(&mut self) -> Result<usize, Fault> {
        let count = self.long()?;
        if count < 0 {
            // The bytes of the block, for who skips it.
            self.len()?;
        }
        usize::try_from(count.unsigned_abs()).map_err(|_| "an array is too long".into())
    }

    /// The value of a step as the tree that JSON is mapped from.
    pub fn node(&mut self, plan: &Plan, id: StepId, depth: usize) -> Result<Node<'a>, Fault> {
        if depth > DEPTH_MAX {
            return Err("the message nests too deep".into());
        }
        self.note_value()?;
        Ok(match plan.get(id) {
            Step::Null => Node::Null,
            Step::Bool => Node::Bool(self.bool()?),
            Step::Number { written, read } => number_node(self.number(*written, *read)?),
            Step::Bytes => Node::Text(latin(self.bytes()?)),
            Step::Text => Node::Text(Cow::Borrowed(self.text()?)),
            Step::Fixed(size) => Node::Text(latin(self.slice(*size)?)),
            Step::Decimal { scale, size } => Node::Number(Cow::Owned(self.decimal(*scale, *size)?)),
            Step::Enum(symbols) => Node::Text(Cow::Owned(self.symbol(symbols)?.to_owned())),
            Step::Array(of) => {
                let mut list = Vec::new();
                loop {
                    match self.block()? {
                        0 => break,
                        count => {
                            for _ in 0..count {
                                list.push(self.node(plan, *of, depth + 1)?);
                            }
                        }
                    }
                }
                Node::List(list)
            }
            Step::Map(of) => {
                let mut entries = Vec::new();
                loop {
                    match self.block()? {
                        0 => break,
                        count => {
                            for _ in 0..count {
                                let key = Cow::Borrowed(self.text()?);
                                entries.push((key, self.node(plan, *of, depth + 1)?));
                            }
                        }
                    }
                }
                Node::Map(entries)
            }
            Step::Union(branches) => {
                let branch = self.branch(branches)?;
                self.node(plan, branch, depth + 1)?
            }
            Step::Record(record) => {
                let mut found: Vec<Option<Node<'a>>> = Vec::new();
                found.resize_with(record.places.len(), || None);
                for (step, place) in &record.fields {
                    let node = self.node(plan, *step, depth + 1)?;
                    if let Some(place) = place {
                        found[*place] = Some(node);
                    }
                }
                let places = record.places.iter().zip(found);
                let entries = places.map(|((name, default), found)| {
                    let node = found.or_else(|| default.clone()).unwrap_or(Node::Null);
                    (Cow::Owned(name.clone()), node)
                });
                Node::Map(entries.collect())
            }
            Step::Impossible(cause) => return Err(cause.clone().into()),
        })
    }
}

/// What JSON has no number for is its name, as text.
pub(super) fn number_node(number: Number) -> Node<'static> {
    let text = Cow::Owned(number.text());
    match number {
        Number::Float(v) if !v.is_finite() => Node::Text(text),
        Number::Double(v) if !v.is_finite() => Node::Text(text),
        _ => Node::Number(text),
    }
}

/// A character a byte.
pub(super) fn latin(bytes: &[u8]) -> Cow<'_, str> {
    match bytes.is_ascii() {
        true => String::from_utf8_lossy(bytes),
        false => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}
