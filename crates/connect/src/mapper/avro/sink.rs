//! Rows to Avro.

use event::column::View;
use event::{Batch, Column, Schema, Type};

use super::encode::{Encoder, node_of, write_bytes, write_long};
use super::registry::SchemaId;
use super::shape::{Record, Shape, ShapeId, Shapes};
use super::{MAGIC, Origin, kafka_flag};
use crate::component::{SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper::json;
use crate::mapper::json::Node;
use crate::mapper::{Options, write_value};
use crate::message::Messages;
use crate::rows::Rejected;
use crate::template::Template;

/// What Siddhi writes in the place of a null.
const UNDEFINED: &str = "undefined";

pub(super) struct Sink {
    component: String,
    origin: Origin,
    shapes: Option<Shapes>,
    /// Messages begin with the number of their schema.
    is_framed: bool,
    /// Under which the schema is registered where the app gives no number, and whether it may be.
    subject: Option<(String, bool)>,
    schema: Schema,
    template: Option<(Template, Vec<&'static str>)>,
    ready: Option<Ready>,
    /// Reused.
    text: String,
}

/// The schema compiled for the stream.
struct Ready {
    shapes: Shapes,
    /// The magic byte and the number, or nothing.
    frame: Vec<u8>,
    /// Of the record, in its order; unused with a template.
    fields: Vec<FieldForm>,
}

enum FieldForm {
    /// A field that no attribute fills.
    Constant(Vec<u8>),
    Column {
        column: usize,
        shape: ShapeId,
        /// The plain way for values of this type, behind the number of their branch in a union.
        plain: Option<(Plain, Vec<u8>)>,
    },
}

/// Pairs of an attribute's type and a type of Avro that need no tree.
#[derive(Clone, Copy)]
enum Plain {
    Bool,
    Int,
    Long,
    Float,
    Double,
    Text,
}

impl Sink {
    pub fn new(setup: &SinkMapperSetup<'_>) -> Result<Sink, Error> {
        let options = Options::of_sink(setup.mapping);
        let is_framed = options.bool("use.avro.serializer");
        let (mut origin, mut shapes) =
            Origin::new(&options, setup.schema, setup.around, is_framed)?;
        if origin.registry.is_some() && origin.id.is_none() && origin.text.is_none() {
            let text = super::shape::of_stream(setup.schema).map_err(|attribute| {
                options.refused(format!(
                    "attribute '{attribute}' is an OBJECT, which has no schema type: give \
                     'schema.def' or 'schema.id'"
                ))
            })?;
            tracing::warn!(
                stream = setup.schema.name,
                "no 'schema.def' or 'schema.id': deriving the schema from the stream's attributes"
            );
            shapes = Some(Shapes::parse(&text, &[]).map_err(|cause| options.refused(cause))?);
            origin.text = Some(text);
        }
        let subject = match is_framed && origin.id.is_none() {
            true => Some(subject(&options, &origin, setup.around)?),
            false => None,
        };
        let template = match options.payload(setup.schema)? {
            None => None,
            Some(text) => {
                let template = Template::new(text, setup.schema, &options.component)?;
                // Within quotes as Siddhi has it, else what a union with null takes.
                let nulls = template.placeholders_in_quotes().into_iter();
                let nulls = nulls.map(|quoted| if quoted { UNDEFINED } else { "null" });
                let nulls = nulls.collect();
                Some((template, nulls))
            }
        };
        let mut sink = Sink {
            component: options.component.clone(),
            origin,
            shapes,
            is_framed,
            subject,
            schema: setup.schema.clone(),
            template,
            ready: None,
            text: String::new(),
        };
        if let (Some(shapes), false) = (&sink.shapes, sink.is_framed) {
            sink.ready = Some(sink.compiled(shapes.clone(), None)?);
        }
        Ok(sink)
    }

    /// Asks the registry for what is needed before the first message.
    fn prepare(&mut self) -> Result<(), Error> {
        if self.ready.is_some() {
            return Ok(());
        }
        let registry = self.origin.registry.as_mut();
        let registry = registry.expect("what needs no registry is ready when it is made");
        let shapes = match (&self.shapes, self.origin.id) {
            (Some(shapes), _) => shapes.clone(),
            (None, Some(id)) => super::source::reader(registry, id)?,
            (None, None) => unreachable!("without a number the schema has a text"),
        };
        let id = match (&self.subject, &self.origin.text) {
            (Some((subject, registers)), Some(text)) => {
                Some(registry.id_of(subject, text, *registers)?)
            }
            _ => self.origin.id.filter(|_| self.is_framed),
        };
        self.ready = Some(self.compiled(shapes, id)?);
        Ok(())
    }

    fn compiled(&self, shapes: Shapes, id: Option<SchemaId>) -> Result<Ready, Error> {
        let refused = |cause: String| Error::refused(self.component.clone(), cause);
        let mut frame = Vec::new();
        if let Some(id) = id {
            frame.push(MAGIC);
            frame.extend_from_slice(&id.to_be_bytes());
        }
        let fields = match (&self.template, shapes.root()) {
            (Some(_), _) => Vec::new(),
            (None, Shape::Record(record)) => {
                forms(&shapes, record, &self.schema).map_err(refused)?
            }
            (None, _) => {
                let what = shapes.describe(shapes.root);
                let cause = format!("the schema is of type {what}: write @payload for it");
                return Err(refused(cause));
            }
        };
        Ok(Ready {
            shapes,
            frame,
            fields,
        })
    }
}

/// The subject of a schema is that of its topic, as Kafka's serializer names it.
fn subject(
    options: &Options<'_>,
    origin: &Origin,
    around: &[(String, String)],
) -> Result<(String, bool), Error> {
    if origin.registry.is_none() {
        return Err(options.refused(
            "option 'use.avro.serializer' needs a registry: give its URL by 'schema.registry', and \
             the number of the schema by 'schema.id'",
        ));
    }
    let topic = around.iter().find(|(name, _)| name == "topic");
    match topic {
        Some((_, topic)) if !Template::is_template(topic) => {
            let registers = kafka_flag(around, "auto.register.schemas", true);
            Ok((format!("{topic}-value"), registers))
        }
        _ => Err(options.refused("the number of the schema is not known: give it by 'schema.id'")),
    }
}

fn forms(shapes: &Shapes, record: &Record, schema: &Schema) -> Result<Vec<FieldForm>, String> {
    let unused = schema.attributes.iter().filter(|attribute| {
        let is_field = |name: &str| record.fields.iter().any(|field| field.name == name);
        !is_field(&attribute.name)
    });
    for attribute in unused {
        tracing::warn!(
            stream = schema.name,
            attribute = attribute.name,
            "the schema has no field for an attribute; omitting it from messages"
        );
    }
    let mut forms = Vec::with_capacity(record.fields.len());
    for field in &record.fields {
        forms.push(match schema.index_of(&field.name) {
            Some(column) => FieldForm::Column {
                column,
                shape: field.shape,
                plain: plain(shapes, field.shape, schema.attributes[column].ty),
            },
            None => {
                let mut bytes = Vec::new();
                Encoder::new(shapes)
                    .write_default(&mut bytes, field.shape, field.default.as_ref())
                    .map_err(|cause| {
                        format!(
                            "field '{}' of the schema is not an attribute of the stream: {cause}",
                            field.name
                        )
                    })?;
                FieldForm::Constant(bytes)
            }
        });
    }
    Ok(forms)
}

fn plain(shapes: &Shapes, shape: ShapeId, ty: Type) -> Option<(Plain, Vec<u8>)> {
    let of = |shape: &Shape| {
        Some(match (ty, shape) {
            (Type::Bool, Shape::Bool) => Plain::Bool,
            (Type::Int, Shape::Int | Shape::Long) => Plain::Int,
            (Type::Long, Shape::Long) => Plain::Long,
            (Type::Float, Shape::Float) => Plain::Float,
            (Type::Double, Shape::Double) => Plain::Double,
            (Type::String, Shape::Text) => Plain::Text,
            _ => return None,
        })
    };
    let Shape::Union(branches) = shapes.get(shape) else {
        return of(shapes.get(shape)).map(|plain| (plain, Vec::new()));
    };
    // The first branch that takes the value is the one to take.
    let takes = |branch: &Shape| !matches!(branch, Shape::Null);
    let at = branches.iter().position(|&b| takes(shapes.get(b)))?;
    let plain = of(shapes.get(branches[at]))?;
    let mut prefix = Vec::new();
    write_long(&mut prefix, at as i64);
    Some((plain, prefix))
}

impl Ready {
    fn write_row(&self, out: &mut Vec<u8>, batch: &Batch, row: usize) -> Result<(), String> {
        for (at, form) in self.fields.iter().enumerate() {
            match form {
                FieldForm::Constant(bytes) => out.extend_from_slice(bytes),
                FieldForm::Column {
                    column,
                    shape,
                    plain,
                } => {
                    let column = &batch.columns[*column];
                    match plain {
                        Some((plain, branch)) if !column.is_null(row) => {
                            out.extend_from_slice(branch);
                            write_plain(out, *plain, column, row);
                        }
                        _ => self
                            .write_value(out, *shape, column, row)
                            .map_err(|cause| format!("{}: {cause}", self.field_name(at)))?,
                    }
                }
            }
        }
        Ok(())
    }

    fn field_name(&self, at: usize) -> String {
        match self.shapes.root() {
            Shape::Record(record) => format!("field '{}'", record.fields[at].name),
            _ => String::new(),
        }
    }

    fn write_value(
        &self,
        out: &mut Vec<u8>,
        shape: ShapeId,
        column: &Column,
        row: usize,
    ) -> Result<(), String> {
        let mut encoder = Encoder::new(&self.shapes);
        let start = out.len();
        if !column.is_null(row) {
            return encoder.write(out, shape, &node_of(&column.value(row), 0), 0);
        }
        encoder.write(out, shape, &Node::Null, 0).or_else(|cause| {
            out.truncate(start);
            // A field of text that cannot be null has Siddhi's word for it.
            match self.shapes.get(shape) {
                Shape::Text => {
                    write_bytes(out, UNDEFINED.as_bytes());
                    Ok(())
                }
                _ => Err(cause),
            }
        })
    }

    /// What `text`, a document of JSON, says.
    fn write_document(&self, out: &mut Vec<u8>, text: &str) -> Result<(), String> {
        let document = json::parse(text).map_err(|fault| fault.to_string())?;
        Encoder::new(&self.shapes).write(out, self.shapes.root, &document, 0)
    }
}

#[inline]
fn write_plain(out: &mut Vec<u8>, plain: Plain, column: &Column, row: usize) {
    match (plain, column.view()) {
        (Plain::Bool, View::Bool(v)) => out.push(u8::from(v[row])),
        (Plain::Int, View::Int(v)) => write_long(out, i64::from(v[row])),
        (Plain::Long, View::Long(v)) => write_long(out, v[row]),
        (Plain::Float, View::Float(v)) => out.extend_from_slice(&v[row].to_le_bytes()),
        (Plain::Double, View::Double(v)) => out.extend_from_slice(&v[row].to_le_bytes()),
        (Plain::Text, View::Str(v)) => write_bytes(out, v.get(row).as_bytes()),
        _ => unreachable!("a column has the type of its attribute"),
    }
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        // Usually done: whoever sends asks before.
        let outcome = self.prepare();
        let Some(ready) = &self.ready else {
            let cause =
                outcome.map_or_else(|error| crate::error::chain(&error), |()| String::new());
            for &row in rows {
                let text = row_text(batch, row as usize);
                let remedy = "let the registry be reached";
                out.reject(Rejected::new(&text, cause.as_str(), remedy), &[row]);
            }
            return;
        };
        // Each event is a message of its own, as Siddhi has it.
        for row in rows {
            let bytes = out.bytes();
            let start = bytes.len();
            bytes.extend_from_slice(&ready.frame);
            let written = match &self.template {
                None => ready.write_row(bytes, batch, *row as usize),
                Some((template, nulls)) => {
                    self.text.clear();
                    template.write_each(&mut self.text, batch, *row as usize, nulls);
                    ready.write_document(bytes, &self.text)
                }
            };
            match written {
                Ok(()) => out.end_bytes(start, std::slice::from_ref(row)),
                Err(cause) => {
                    bytes.truncate(start);
                    let text = match &self.template {
                        Some(_) => self.text.clone(),
                        None => row_text(batch, *row as usize),
                    };
                    let remedy = "give the event values that the schema takes, or a union with null \
                                  to the field";
                    let rejected = Rejected::new(&text, cause, remedy);
                    out.reject(rejected, std::slice::from_ref(row));
                }
            }
        }
    }

    fn ready(&mut self) -> Result<(), Error> {
        self.prepare()
    }
}

fn row_text(batch: &Batch, row: usize) -> String {
    let mut text = String::new();
    for (at, column) in batch.columns.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        match column.is_null(row) {
            true => text.push_str("null"),
            false => write_value(&mut text, column, row),
        }
    }
    text
}
