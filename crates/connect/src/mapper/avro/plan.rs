//! What the bytes of one schema mean to a reader of another: Avro's schema resolution, done once.
//!
//! Without a schema of the reader the writer's is both, and the plan is what the bytes say.

use std::borrow::Cow;
use std::collections::HashMap;

use event::Value;
use serde_json::Value as Json;

use super::shape::{Names, Record, RecordField, Shape, ShapeId, Shapes};
use crate::mapper::json::Node;

pub(super) type StepId = usize;

/// How a datum is read, from its root.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
    pub root: StepId,
}

#[derive(Debug)]
pub(super) enum Step {
    Null,
    Bool,
    Number {
        written: Width,
        read: Width,
    },
    /// Length and bytes; each byte is a character.
    Bytes,
    /// Length and UTF-8.
    Text,
    Fixed(usize),
    Decimal {
        scale: usize,
        size: Option<usize>,
    },
    /// The symbols of the writer as the reader has them, or why it has not.
    Enum(Vec<Result<String, String>>),
    Array(StepId),
    Map(StepId),
    /// By the branches of the writer.
    Union(Vec<StepId>),
    Record(RecordStep),
    /// The reader has no place for such a value.
    Impossible(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    Int,
    Long,
    Float,
    Double,
}

#[derive(Debug)]
pub(super) struct RecordStep {
    /// In the order in which they are written, with the place each has for the reader.
    pub fields: Vec<(StepId, Option<usize>)>,
    /// The fields of the reader, with the value of those that are not written.
    pub places: Vec<(String, Option<Node<'static>>)>,
}

impl Plan {
    pub fn new(writer: &Shapes, reader: &Shapes) -> Plan {
        let mut resolver = Resolver {
            writer,
            reader,
            steps: Vec::with_capacity(writer.len()),
            known: HashMap::new(),
            known_skipped: HashMap::new(),
        };
        let root = resolver.resolve(writer.root, reader.root);
        Plan {
            steps: resolver.steps,
            root,
        }
    }

    pub fn get(&self, id: StepId) -> &Step {
        &self.steps[id]
    }
}

struct Resolver<'s> {
    writer: &'s Shapes,
    reader: &'s Shapes,
    steps: Vec<Step>,
    /// Pairs that have a step; those of a record before its fields have theirs.
    known: HashMap<(ShapeId, ShapeId), StepId>,
    /// The same for what is read and left out.
    known_skipped: HashMap<(ShapeId, ShapeId), StepId>,
}

impl Resolver<'_> {
    fn resolve(&mut self, written: ShapeId, read: ShapeId) -> StepId {
        let is_union = matches!(self.writer.get(written), Shape::Union(_));
        let read = match self.reader.get(read) {
            // A value of one type takes the branch that fits; a union is resolved branch by branch.
            Shape::Union(branches) if !is_union => match self.branch(written, branches) {
                Some(branch) => branch,
                None => {
                    let step = self.impossible(written, read);
                    self.steps.push(step);
                    return self.steps.len() - 1;
                }
            },
            _ => read,
        };
        if let Some(&known) = self.known.get(&(written, read)) {
            return known;
        }
        let id = self.steps.len();
        self.steps.push(Step::Null);
        self.known.insert((written, read), id);
        self.steps[id] = self.step(written, read);
        id
    }

    fn step(&mut self, written: ShapeId, read: ShapeId) -> Step {
        let (writer, reader) = (self.writer, self.reader);
        if let Shape::Union(branches) = writer.get(written) {
            return Step::Union(branches.iter().map(|&b| self.resolve(b, read)).collect());
        }
        match (writer.get(written), reader.get(read)) {
            (Shape::Null, Shape::Null) => Step::Null,
            (Shape::Bool, Shape::Bool) => Step::Bool,
            (Shape::Bytes | Shape::Text, Shape::Bytes) => Step::Bytes,
            (Shape::Bytes | Shape::Text, Shape::Text) => Step::Text,
            (Shape::Fixed(_, size), Shape::Fixed(_, same)) if size == same => Step::Fixed(*size),
            (Shape::Decimal { scale, size }, Shape::Decimal { .. } | Shape::Bytes)
            | (
                Shape::Bytes,
                Shape::Decimal {
                    scale,
                    size: size @ None,
                },
            ) => Step::Decimal {
                scale: *scale,
                size: *size,
            },
            (Shape::Enum(of), Shape::Enum(to)) => {
                let symbols = of.symbols.iter();
                let read = symbols.map(|symbol| match to.symbols.contains(symbol) {
                    true => Ok(symbol.clone()),
                    false => to.default.clone().ok_or_else(|| {
                        format!("enum '{}' of the reader has no '{symbol}'", to.names.name)
                    }),
                });
                Step::Enum(read.collect())
            }
            (Shape::Array(of), Shape::Array(to)) => Step::Array(self.resolve(*of, *to)),
            (Shape::Map(of), Shape::Map(to)) => Step::Map(self.resolve(*of, *to)),
            (Shape::Record(of), Shape::Record(to)) => self.record(of, to),
            (of, to) => match (width(of), width(to)) {
                (Some(written), Some(read)) if written as u8 <= read as u8 => {
                    Step::Number { written, read }
                }
                _ => self.impossible(written, read),
            },
        }
    }

    fn impossible(&self, written: ShapeId, read: ShapeId) -> Step {
        Step::Impossible(format!(
            "what is written as {} cannot be read as {}",
            self.writer.describe(written),
            self.reader.describe(read)
        ))
    }

    /// The branch of the reader for what is written: one of the same type and name, else of the same
    /// type, else one to which it can be widened.
    fn branch(&self, written: ShapeId, branches: &[ShapeId]) -> Option<ShapeId> {
        let of = self.writer.get(written);
        let first = |fits: &dyn Fn(&Shape) -> bool| {
            let found = branches.iter().find(|&&b| fits(self.reader.get(b)));
            found.copied()
        };
        first(&|to| is_same_kind(of, to) && are_named_alike(of, to))
            .or_else(|| first(&|to| is_same_kind(of, to)))
            .or_else(|| {
                first(&|to| match (width(of), width(to)) {
                    (Some(written), Some(read)) => written as u8 <= read as u8,
                    _ => matches!(
                        (of, to),
                        (Shape::Bytes, Shape::Text) | (Shape::Text, Shape::Bytes)
                    ),
                })
            })
    }

    fn record(&mut self, of: &Record, to: &Record) -> Step {
        let mut places: Vec<(String, Option<Node<'static>>)> = Vec::with_capacity(to.fields.len());
        let mut is_written = vec![false; to.fields.len()];
        let mut fields = Vec::with_capacity(of.fields.len());
        for field in &of.fields {
            let called = |f: &RecordField| f.name == field.name;
            let place = to.fields.iter().position(called).or_else(|| {
                let alias = |f: &RecordField| f.aliases.contains(&field.name);
                to.fields.iter().position(alias)
            });
            let place = place.filter(|place| !std::mem::replace(&mut is_written[*place], true));
            let step = match place {
                Some(place) => self.resolve(field.shape, to.fields[place].shape),
                None => self.skipped(field.shape),
            };
            fields.push((step, place));
        }
        for (field, is_written) in to.fields.iter().zip(is_written) {
            let value = match (&field.default, is_written) {
                (_, true) => None,
                (Some(default), _) => match default_node(self.reader, field.shape, default) {
                    Ok(node) => Some(node),
                    Err(cause) => return Step::Impossible(cause),
                },
                (None, _) => {
                    return Step::Impossible(format!(
                        "field '{}' is not written and has no default",
                        field.name
                    ));
                }
            };
            places.push((field.name.clone(), value));
        }
        Step::Record(RecordStep { fields, places })
    }

    /// Reads what the reader does not want, as the writer has it.
    fn skipped(&mut self, written: ShapeId) -> StepId {
        let reader = std::mem::replace(&mut self.reader, self.writer);
        std::mem::swap(&mut self.known, &mut self.known_skipped);
        let step = self.resolve(written, written);
        std::mem::swap(&mut self.known, &mut self.known_skipped);
        self.reader = reader;
        step
    }
}

fn width(shape: &Shape) -> Option<Width> {
    Some(match shape {
        Shape::Int => Width::Int,
        Shape::Long => Width::Long,
        Shape::Float => Width::Float,
        Shape::Double => Width::Double,
        _ => return None,
    })
}

fn is_same_kind(one: &Shape, other: &Shape) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

fn are_named_alike(one: &Shape, other: &Shape) -> bool {
    let names = |shape: &Shape| -> Option<Names> {
        match shape {
            Shape::Fixed(names, _) => Some(names.clone()),
            Shape::Enum(of) => Some(of.names.clone()),
            Shape::Record(of) => Some(of.names.clone()),
            _ => None,
        }
    };
    match (names(one), names(other)) {
        (Some(one), Some(other)) => one.name == other.name || other.aliases.contains(&one.name),
        _ => true,
    }
}

/// The default of a field as the value that it stands for.
///
/// # Errors
/// It is no value of its type.
pub(super) fn default_node(
    shapes: &Shapes,
    id: ShapeId,
    json: &Json,
) -> Result<Node<'static>, String> {
    let wrong = || format!("default {json} is no {}", shapes.describe(id));
    let number = |value: Value| Node::Number(Cow::Owned(event::text::to_text(&value)));
    Ok(match (shapes.get(id), json) {
        (Shape::Union(branches), json) => {
            let mut found = branches.iter().map(|&b| default_node(shapes, b, json));
            return found.find(Result::is_ok).unwrap_or_else(|| Err(wrong()));
        }
        (Shape::Null, Json::Null) => Node::Null,
        (Shape::Bool, Json::Bool(value)) => Node::Bool(*value),
        (Shape::Int | Shape::Long, Json::Number(value)) => {
            number(Value::Long(value.as_i64().ok_or_else(wrong)?))
        }
        (Shape::Float, Json::Number(value)) => {
            number(Value::Float(value.as_f64().ok_or_else(wrong)? as f32))
        }
        (Shape::Double, Json::Number(value)) => {
            number(Value::Double(value.as_f64().ok_or_else(wrong)?))
        }
        (Shape::Decimal { scale, .. }, Json::String(text)) => {
            let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
            let text = bytes.and_then(|bytes| super::decimal::text(&bytes, *scale));
            Node::Number(Cow::Owned(text.ok_or_else(wrong)?))
        }
        (Shape::Bytes | Shape::Text | Shape::Fixed(..), Json::String(text)) => {
            Node::Text(Cow::Owned(text.clone()))
        }
        (Shape::Enum(of), Json::String(text)) if of.symbols.contains(text) => {
            Node::Text(Cow::Owned(text.clone()))
        }
        (Shape::Array(of), Json::Array(list)) => {
            let nodes = list.iter().map(|json| default_node(shapes, *of, json));
            Node::List(nodes.collect::<Result<_, _>>()?)
        }
        (Shape::Map(of), Json::Object(map)) => {
            let nodes = map.iter().map(|(key, json)| {
                let node = default_node(shapes, *of, json)?;
                Ok((Cow::Owned(key.clone()), node))
            });
            Node::Map(nodes.collect::<Result<_, String>>()?)
        }
        (Shape::Record(of), Json::Object(map)) => {
            let nodes = of.fields.iter().map(|field| {
                let json = map.get(&field.name).or(field.default.as_ref());
                let node = default_node(shapes, field.shape, json.ok_or_else(wrong)?)?;
                Ok((Cow::Owned(field.name.clone()), node))
            });
            Node::Map(nodes.collect::<Result<_, String>>()?)
        }
        _ => return Err(wrong()),
    })
}
