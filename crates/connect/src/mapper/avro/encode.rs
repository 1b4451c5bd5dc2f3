//! Values to bytes by a schema.

use event::Value;

use super::decimal;
use super::plan::default_node;
use super::shape::{Record, Shape, ShapeId, Shapes};
use crate::mapper::json::{DEPTH_MAX, Node};
use crate::scalar;

/// Values that are looked at for one message, branches of unions that do not fit included.
const TRIES_MAX: usize = 4 << 20;

/// Writes trees of values as a schema has them.
pub(super) struct Encoder<'s> {
    shapes: &'s Shapes,
    tries_left: usize,
}

/// Appends a zigzag number in groups of seven bits, lowest first.
#[inline]
pub(super) fn write_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline]
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

impl<'s> Encoder<'s> {
    pub fn new(shapes: &'s Shapes) -> Encoder<'s> {
        Encoder {
            shapes,
            tries_left: TRIES_MAX,
        }
    }

    /// Appends a value. After an error `out` has a part of it.
    ///
    /// # Errors
    /// Why the schema does not take it.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        id: ShapeId,
        node: &Node<'_>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err("it nests too deep".to_owned());
        }
        let left = self.tries_left.checked_sub(1);
        self.tries_left = left.ok_or("it has too many values")?;
        let shapes = self.shapes;
        let wrong = || {
            let mut text = String::new();
            node.write(&mut text);
            let shown: String = text.chars().take(100).collect();
            format!("{shown} is no {}", shapes.describe(id))
        };
        match (shapes.get(id), node) {
            (Shape::Union(branches), node) => return self.union(out, branches, node, depth),
            (Shape::Null, Node::Null) => {}
            (Shape::Bool, Node::Bool(value)) => out.push(u8::from(*value)),
            (Shape::Int, Node::Number(text)) => {
                let value = whole(text).and_then(|v| i32::try_from(v).ok());
                write_long(out, i64::from(value.ok_or_else(wrong)?));
            }
            (Shape::Long, Node::Number(text)) => write_long(out, whole(text).ok_or_else(wrong)?),
            (Shape::Float, Node::Number(text) | Node::Text(text)) if is_number(node) => {
                let value = scalar::parse_float(text).ok_or_else(wrong)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            (Shape::Double, Node::Number(text) | Node::Text(text)) if is_number(node) => {
                let value = scalar::parse_double(text).ok_or_else(wrong)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            (Shape::Text, Node::Text(text)) => write_bytes(out, text.as_bytes()),
            (Shape::Bytes, Node::Text(text)) => {
                write_bytes(out, &latin(text).ok_or_else(wrong)?);
            }
            (Shape::Fixed(_, size), Node::Text(text)) => {
                let bytes = latin(text).filter(|bytes| bytes.len() == *size);
                out.extend_from_slice(&bytes.ok_or_else(wrong)?);
            }
            (Shape::Decimal { scale, size }, Node::Number(text) | Node::Text(text)) => {
                let bytes = decimal::bytes(text, *scale).ok_or_else(wrong)?;
                match size {
                    None => write_bytes(out, &bytes),
                    Some(size) => {
                        let fill = size.checked_sub(bytes.len()).ok_or_else(wrong)?;
                        let sign = if bytes[0] >= 0x80 { 0xff } else { 0 };
                        out.extend(std::iter::repeat_n(sign, fill));
                        out.extend_from_slice(&bytes);
                    }
                }
            }
            (Shape::Enum(of), Node::Text(text)) => {
                let at = of.symbols.iter().position(|symbol| symbol == text);
                write_long(out, at.ok_or_else(wrong)? as i64);
            }
            (Shape::Array(of), Node::List(list)) => {
                if !list.is_empty() {
                    write_long(out, list.len() as i64);
                    for node in list {
                        self.write(out, *of, node, depth + 1)?;
                    }
                }
                out.push(0);
            }
            (Shape::Map(of), Node::Map(entries)) => {
                if !entries.is_empty() {
                    write_long(out, entries.len() as i64);
                    for (key, node) in entries {
                        write_bytes(out, key.as_bytes());
                        self.write(out, *of, node, depth + 1)?;
                    }
                }
                out.push(0);
            }
            (Shape::Record(record), Node::Map(_)) => self.record(out, record, node, depth)?,
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// The first branch that takes the value.
    fn union(
        &mut self,
        out: &mut Vec<u8>,
        branches: &[ShapeId],
        node: &Node<'_>,
        depth: usize,
    ) -> Result<(), String> {
        let start = out.len();
        let mut last = None;
        // A text may be the name of a number that JSON has none for; it is a text where it can be.
        let is_late = |branch: ShapeId| {
            matches!(
                (self.shapes.get(branch), node),
                (
                    Shape::Float | Shape::Double | Shape::Decimal { .. },
                    Node::Text(_)
                )
            )
        };
        let mut order: Vec<usize> = (0..branches.len()).collect();
        order.sort_by_key(|&at| is_late(branches[at]));
        for at in order {
            write_long(out, at as i64);
            match self.write(out, branches[at], node, depth + 1) {
                Ok(()) => return Ok(()),
                Err(cause) => {
                    out.truncate(start);
                    let is_plain_null = matches!(self.shapes.get(branches[at]), Shape::Null);
                    if !is_plain_null || last.is_none() {
                        last = Some(cause);
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| "a union has no branches".to_owned()))
    }

    fn record(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        node: &Node<'_>,
        depth: usize,
    ) -> Result<(), String> {
        for field in &record.fields {
            let found = node.get(&field.name);
            let written = match found {
                Some(node) => self.write(out, field.shape, node, depth + 1),
                None => self.write_default(out, field.shape, field.default.as_ref()),
            };
            written.map_err(|cause| format!("field '{}': {cause}", field.name))?;
        }
        Ok(())
    }

    /// A field that has no value: its default, else null where it may be.
    pub fn write_default(
        &mut self,
        out: &mut Vec<u8>,
        id: ShapeId,
        default: Option<&serde_json::Value>,
    ) -> Result<(), String> {
        let node = match default {
            Some(json) => default_node(self.shapes, id, json)?,
            None => Node::Null,
        };
        let written = self.write(out, id, &node, 0);
        written.map_err(|cause| match default {
            Some(_) => cause,
            None => "it has no value and no default".to_owned(),
        })
    }
}

/// A number, or the name of one that JSON has none for.
fn is_number(node: &Node<'_>) -> bool {
    match node {
        Node::Number(_) => true,
        Node::Text(text) => matches!(&**text, "NaN" | "Infinity" | "-Infinity"),
        _ => false,
    }
}

/// A number without a part behind its point.
fn whole(text: &str) -> Option<i64> {
    if !Node::is_real(text) {
        return text.parse().ok();
    }
    let value = scalar::parse_double(text)?;
    // The bounds are exact as doubles; the upper one is not a long any more.
    let fits = value.fract() == 0.0 && value >= i64::MIN as f64 && value < -(i64::MIN as f64);
    fits.then_some(value as i64)
}

/// A byte a character; `None` where one is none.
pub(super) fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

/// A value of an attribute as a tree.
pub(super) fn node_of(value: &Value, depth: usize) -> Node<'static> {
    use event::Object;

    let list =
        |values: &[Value]| Node::List(values.iter().map(|v| node_of(v, depth + 1)).collect());
    match value {
        Value::Null => Node::Null,
        _ if depth > DEPTH_MAX => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Str(text) => Node::Text(text.to_string().into()),
        Value::Int(_) | Value::Long(_) => Node::Number(event::text::to_text(value).into()),
        Value::Float(v) if v.is_finite() => Node::Number(event::text::to_text(value).into()),
        Value::Double(v) if v.is_finite() => Node::Number(event::text::to_text(value).into()),
        Value::Float(_) | Value::Double(_) => Node::Text(event::text::to_text(value).into()),
        Value::Object(Object::Map(map)) => {
            let map = map.lock();
            let entries = map.iter().map(|(key, value)| {
                let key = event::text::to_text(key);
                (key.into(), node_of(value, depth + 1))
            });
            Node::Map(entries.collect())
        }
        Value::Object(Object::List(values)) => list(&values.lock()),
        Value::Object(Object::Set(values)) => list(&values.lock()),
        Value::Object(Object::Array(values)) => list(values),
        Value::Object(Object::Bytes(bytes)) => {
            Node::Text(super::decode::latin(bytes).into_owned().into())
        }
        Value::Object(_) => Node::Text(event::text::to_text(value).into()),
    }
}
