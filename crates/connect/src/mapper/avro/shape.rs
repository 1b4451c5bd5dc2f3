//! Schemas as the decoder and the encoder walk them: types by number, names resolved.

use std::collections::HashMap;

use apache_avro::Schema;
use apache_avro::schema::{DecimalSchema, InnerDecimalSchema, UuidSchema};
use event::Type;
use serde_json::Value as Json;

/// Nesting of types in one schema, by definition and not by reference.
const DEPTH_MAX: usize = 128;

/// A schema with all types that it names.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    pub root: ShapeId,
}

pub(super) type ShapeId = usize;

/// What a value is on the wire. Logical types are their base types, as in Java without conversions;
/// a decimal alone keeps its scale, because nobody can read it without.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    Null,
    Bool,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    /// So many bytes, named.
    Fixed(Names, usize),
    /// A number without its point, `size` bytes long where that is fixed.
    Decimal {
        scale: usize,
        size: Option<usize>,
    },
    Enum(Enum),
    Array(ShapeId),
    Map(ShapeId),
    Union(Vec<ShapeId>),
    Record(Record),
}

/// The full name of a type and what else it was called.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Names {
    pub name: String,
    pub aliases: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Enum {
    pub names: Names,
    pub symbols: Vec<String>,
    pub default: Option<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Record {
    pub names: Names,
    pub fields: Vec<RecordField>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct RecordField {
    pub name: String,
    pub aliases: Vec<String>,
    pub shape: ShapeId,
    pub default: Option<Json>,
}

impl Shapes {
    /// Reads a schema and those that it refers to, each as JSON.
    pub fn parse(text: &str, referred: &[String]) -> Result<Shapes, String> {
        let (schema, others) =
            Schema::parse_str_with_list(text, referred).map_err(|error| error.to_string())?;
        let mut builder = Builder::default();
        // What is referred to first, so that its names are known; each may name those before it.
        let mut waiting: Vec<&Schema> = others.iter().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut fault = String::new();
            waiting.retain(|schema| {
                let mark = builder.all.len();
                let known = builder.names.clone();
                builder
                    .add(schema, 0)
                    .inspect_err(|cause| {
                        builder.all.truncate(mark);
                        builder.names = known;
                        fault.clone_from(cause);
                    })
                    .is_err()
            });
            if waiting.len() == before {
                return Err(fault);
            }
        }
        let root = builder.add(&schema, 0)?;
        Ok(Shapes {
            all: builder.all,
            root,
        })
    }

    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.all[id]
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn root(&self) -> &Shape {
        self.get(self.root)
    }

    /// The type as a reader knows it: `int`, `record 'a.B'`.
    pub fn describe(&self, id: ShapeId) -> String {
        match self.get(id) {
            Shape::Null => "null".to_owned(),
            Shape::Bool => "boolean".to_owned(),
            Shape::Int => "int".to_owned(),
            Shape::Long => "long".to_owned(),
            Shape::Float => "float".to_owned(),
            Shape::Double => "double".to_owned(),
            Shape::Bytes => "bytes".to_owned(),
            Shape::Text => "string".to_owned(),
            Shape::Decimal { scale, .. } => format!("decimal of scale {scale}"),
            Shape::Fixed(names, size) => format!("fixed '{}' of {size} bytes", names.name),
            Shape::Enum(of) => format!("enum '{}'", of.names.name),
            Shape::Array(_) => "array".to_owned(),
            Shape::Map(_) => "map".to_owned(),
            Shape::Union(_) => "union".to_owned(),
            Shape::Record(record) => format!("record '{}'", record.names.name),
        }
    }
}

#[derive(Default)]
struct Builder {
    all: Vec<Shape>,
    names: HashMap<String, ShapeId>,
}

impl Builder {
    fn push(&mut self, shape: Shape) -> ShapeId {
        self.all.push(shape);
        self.all.len() - 1
    }

    fn add(&mut self, schema: &Schema, depth: usize) -> Result<ShapeId, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the schema nests deeper than {DEPTH_MAX}"));
        }
        let shape = match schema {
            Schema::Null => Shape::Null,
            Schema::Boolean => Shape::Bool,
            Schema::Int | Schema::Date | Schema::TimeMillis => Shape::Int,
            Schema::Long
            | Schema::TimeMicros
            | Schema::TimestampMillis
            | Schema::TimestampMicros
            | Schema::TimestampNanos
            | Schema::LocalTimestampMillis
            | Schema::LocalTimestampMicros
            | Schema::LocalTimestampNanos => Shape::Long,
            Schema::Float => Shape::Float,
            Schema::Double => Shape::Double,
            Schema::Bytes | Schema::BigDecimal | Schema::Uuid(UuidSchema::Bytes) => Shape::Bytes,
            Schema::String | Schema::Uuid(UuidSchema::String) => Shape::Text,
            Schema::Fixed(fixed)
            | Schema::Duration(fixed)
            | Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                let names = names_of(schema);
                self.names.insert(names.name.clone(), self.all.len());
                Shape::Fixed(names, fixed.size)
            }
            Schema::Decimal(DecimalSchema { scale, inner, .. }) => {
                let size = match inner {
                    InnerDecimalSchema::Bytes => None,
                    InnerDecimalSchema::Fixed(fixed) => {
                        let name = fixed.name.fullname(None);
                        self.names.insert(name, self.all.len());
                        Some(fixed.size)
                    }
                };
                Shape::Decimal {
                    scale: *scale,
                    size,
                }
            }
            Schema::Enum(of) => {
                let names = names_of(schema);
                self.names.insert(names.name.clone(), self.all.len());
                Shape::Enum(Enum {
                    names,
                    symbols: of.symbols.clone(),
                    default: of.default.clone(),
                })
            }
            Schema::Array(of) => Shape::Array(self.add(&of.items, depth + 1)?),
            Schema::Map(of) => Shape::Map(self.add(&of.types, depth + 1)?),
            Schema::Union(of) => Shape::Union(
                of.variants()
                    .iter()
                    .map(|schema| self.add(schema, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
            Schema::Record(of) => {
                let names = names_of(schema);
                // Known before its fields are read: they may name it.
                let id = self.push(Shape::Null);
                self.names.insert(names.name.clone(), id);
                let mut fields = Vec::with_capacity(of.fields.len());
                for field in &of.fields {
                    fields.push(RecordField {
                        name: field.name.clone(),
                        aliases: field.aliases.clone(),
                        shape: self.add(&field.schema, depth + 1)?,
                        default: field.default.clone(),
                    });
                }
                self.all[id] = Shape::Record(Record { names, fields });
                return Ok(id);
            }
            Schema::Ref { name } => {
                let name = name.fullname(None);
                let known = self.names.get(&name).copied();
                return known.ok_or_else(|| format!("type '{name}' is not defined"));
            }
        };
        Ok(self.push(shape))
    }
}

fn names_of(schema: &Schema) -> Names {
    let aliases = schema.aliases().into_iter().flatten();
    Names {
        name: schema.name().map_or_else(String::new, |n| n.fullname(None)),
        aliases: aliases.map(|alias| alias.fullname(None)).collect(),
    }
}

/// The schema that a stream has by itself: a flat record of its attributes.
///
/// # Errors
/// The name of an attribute that has no type in Avro, or no name that Avro allows.
pub(super) fn of_stream(schema: &event::Schema) -> Result<String, String> {
    let mut fields = Vec::with_capacity(schema.attributes.len());
    for attribute in &schema.attributes {
        let ty = match attribute.ty {
            Type::Bool => "boolean",
            Type::Int => "int",
            Type::Long => "long",
            Type::Float => "float",
            Type::Double => "double",
            Type::String => "string",
            Type::Object => return Err(attribute.name.clone()),
        };
        fields.push(serde_json::json!({"name": attribute.name, "type": ty}));
    }
    let name = schema.name.trim_start_matches(['#', '!']);
    let record = serde_json::json!({"type": "record", "name": name, "fields": fields});
    Ok(record.to_string())
}
