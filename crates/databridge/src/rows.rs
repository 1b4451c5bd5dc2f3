//! Events of one stream one behind the other: what a door makes of a bundle of several streams, or with nulls, for
//! the mapper of each stream. No client sends it.
//!
//! Each event is its time (64 bits), then in the order of the wire a byte that is 0 for null, else the
//! value; then the number of entries of its map and their keys and values.

use event::Type;

use crate::bundle::Bundle;
use crate::reading::Placed;
use crate::stream::Layout;
use crate::thrift::{Front, write_string};

/// The first byte of such a message, which no bundle has.
pub const MARK: u8 = b'R';

/// A value on the wire.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    Null,
    Int(i32),
    Long(i64),
    /// FLOAT and DOUBLE.
    Double(f64),
    Bool(bool),
    /// Not looked at yet.
    Text(&'a [u8]),
}

/// Appends an event of a bundle.
pub fn write(
    into: &mut Vec<u8>,
    bundle: &Bundle<'_>,
    strings: &[&[u8]],
    event: &Placed,
    layout: &Layout,
    entries: &[(usize, &[u8], &[u8])],
) {
    let mut used = event.begin;
    let word = |of: &[u8], at: usize| -> [u8; 8] {
        let found = of.get(at * 8..).and_then(|rest| rest.first_chunk());
        found.copied().unwrap_or_default()
    };
    into.extend_from_slice(&word(bundle.longs, used.longs));
    used.longs += 1;
    used.strings += 1;
    let mut nulls = event.nulls.iter().copied().peekable();
    for (number, attribute) in layout.attributes.iter().enumerate() {
        if nulls.next_if_eq(&(number as u32)).is_some() {
            used.strings += 1;
            into.push(0);
            continue;
        }
        let place = match attribute.ty {
            Type::Int => &mut used.ints,
            Type::Long => &mut used.longs,
            Type::Float | Type::Double => &mut used.doubles,
            Type::Bool => &mut used.bools,
            Type::String | Type::Object => &mut used.strings,
        };
        let at = *place;
        *place += 1;
        if matches!(attribute.ty, Type::String | Type::Object) {
            match strings.get(at) {
                Some(text) if *text != crate::NULL => {
                    into.push(1);
                    write_string(into, text);
                }
                _ => into.push(0),
            }
            continue;
        }
        into.push(1);
        match attribute.ty {
            Type::Int => {
                into.extend_from_slice(bundle.ints.get(at * 4..at * 4 + 4).unwrap_or(&[0; 4]))
            }
            Type::Long => into.extend_from_slice(&word(bundle.longs, at)),
            Type::Float | Type::Double => into.extend_from_slice(&word(bundle.doubles, at)),
            _ => into.push(bundle.bools.get(at).copied().unwrap_or_default()),
        }
    }
    into.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    for (_, key, value) in entries {
        write_string(into, key);
        write_string(into, value);
    }
}

/// Appends a value of an event, in the order of the layout; its time comes before the first.
pub fn write_value(into: &mut Vec<u8>, value: Value<'_>) {
    into.push(u8::from(value != Value::Null));
    match value {
        Value::Null => {}
        Value::Int(v) => into.extend_from_slice(&v.to_be_bytes()),
        Value::Long(v) => into.extend_from_slice(&v.to_be_bytes()),
        Value::Double(v) => into.extend_from_slice(&v.to_be_bytes()),
        Value::Bool(v) => into.push(u8::from(v)),
        Value::Text(text) => write_string(into, text),
    }
}

/// Appends the map of an event, which ends it.
pub fn write_entries<'t>(
    into: &mut Vec<u8>,
    entries: impl ExactSizeIterator<Item = (&'t str, &'t str)>,
) {
    into.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    for (key, value) in entries {
        write_string(into, key.as_bytes());
        write_string(into, value.as_bytes());
    }
}

/// Events of a layout behind the mark.
pub struct Events<'a, 'l> {
    front: Front<'a>,
    layout: &'l Layout,
}

impl<'a, 'l> Events<'a, 'l> {
    pub fn new(bytes: &'a [u8], layout: &'l Layout) -> Events<'a, 'l> {
        Events {
            front: Front(bytes),
            layout,
        }
    }

    pub fn is_done(&self) -> bool {
        self.front.0.is_empty()
    }

    /// The next event: its time; `value` gets the number of each attribute and `entry` each key with its
    /// value. `None` where it is cut off.
    pub fn next(
        &mut self,
        mut value: impl FnMut(usize, Value<'a>),
        mut entry: impl FnMut(&'a [u8], &'a [u8]),
    ) -> Option<i64> {
        let front = &mut self.front;
        let time = i64::from_be_bytes(front.take()?);
        for (number, attribute) in self.layout.attributes.iter().enumerate() {
            let found = match (front.take()?, attribute.ty) {
                ([0], _) => Value::Null,
                (_, Type::Int) => Value::Int(i32::from_be_bytes(front.take()?)),
                (_, Type::Long) => Value::Long(i64::from_be_bytes(front.take()?)),
                (_, Type::Float | Type::Double) => Value::Double(f64::from_be_bytes(front.take()?)),
                (_, Type::Bool) => Value::Bool(front.take::<1>()? != [0]),
                (_, Type::String | Type::Object) => Value::Text(front.string()?),
            };
            value(number, found);
        }
        for _ in 0..front.count()? {
            entry(front.string()?, front.string()?);
        }
        Some(time)
    }
}
