//! Avro to rows.
//!
//! A flat record goes straight from its bytes into the columns; everything else becomes a tree that is
//! mapped like a JSON document. Types are judged as JSON judges tokens.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use event::{ColumnBuilder, Object, Type, Value};

use super::decode::{Cursor, Fault, Number, latin};
use super::plan::{Plan, RecordStep, Step, StepId};
use super::registry::{Registry, SchemaId};
use super::shape::Shapes;
use super::{FRAME_LEN, MAGIC, Origin};
use crate::component::{Payload, SourceMapper, SourceMapperSetup};
use crate::error::Error;
use crate::mapper::json;
use crate::mapper::json::{Node, Style};
use crate::mapper::{Field, Fields, Options};
use crate::rows::{Properties, Rows};
use crate::scalar;

/// Schemas of the registry that are kept; with one more all are asked for again.
const SCHEMAS_MAX: usize = 1000;

/// Name of the record that may be put around an event.
const EVENT: &str = "event";

const REMEDY: &str = "send Avro binary data of the schema";

pub(super) struct Source {
    origin: Origin,
    /// The schema of the app, where it has one.
    reader: Option<Shapes>,
    /// How messages without a number of their schema are read.
    plain: Option<Compiled>,
    by_id: HashMap<SchemaId, Result<Arc<Compiled>, String>>,
    /// Filled in default mapping.
    fields: Option<Vec<Field>>,
    allows_null: bool,
    documents: json::Source,
}

/// A schema made ready for this stream.
struct Compiled {
    plan: Plan,
    /// The way of flat records, or why no event can come of such a message.
    direct: Direct,
}

enum Direct {
    /// Only by way of the tree.
    No,
    Fields(Flat),
    Refused(String),
}

struct Flat {
    /// In the order of the bytes, with the index of the field that each fills.
    steps: Vec<(StepId, Option<usize>)>,
    /// Fields that are not written.
    defaults: Vec<(usize, Node<'static>)>,
    /// Fields that the record does not have.
    missing: Vec<usize>,
}

impl Source {
    pub fn new(setup: &SourceMapperSetup<'_>) -> Result<Source, Error> {
        let options = Options::of_source(setup.mapping);
        let framed = options.bool("use.avro.deserializer");
        let (origin, reader) = Origin::new(&options, setup.schema, setup.around, framed)?;
        if framed && origin.registry.is_none() {
            return Err(options.refused(
                "option 'use.avro.deserializer' needs a registry: give its URL by 'schema.registry'",
            ));
        }
        let fields = Fields::of(setup.mapping, setup.schema);
        let allows_null = !options.bool("fail.on.missing.attribute");
        let mut source = Source {
            origin,
            reader,
            plain: None,
            by_id: HashMap::new(),
            fields: fields.is_default.then_some(fields.list),
            allows_null,
            documents: json::Source::new(setup)?,
        };
        if let (None, Some(reader)) = (&source.origin.registry, &source.reader) {
            source.plain = Some(source.compiled(reader));
        }
        Ok(source)
    }

    fn compiled(&self, writer: &Shapes) -> Compiled {
        let plan = Plan::new(writer, self.reader.as_ref().unwrap_or(writer));
        let direct = match (&self.fields, plan.get(plan.root)) {
            (Some(fields), Step::Record(record)) => direct(&plan, record, fields, self.allows_null),
            _ => Direct::No,
        };
        Compiled { plan, direct }
    }

    /// Asks the registry for what is not known yet.
    fn fetch(&mut self, message: Option<&[u8]>) -> Result<(), Error> {
        let Some(registry) = &mut self.origin.registry else {
            return Ok(());
        };
        if let (None, Some(id)) = (&self.reader, self.origin.id) {
            self.reader = Some(reader(registry, id)?);
        }
        let Some(Ok((id, _))) = message.map(unframed) else {
            return Ok(());
        };
        if self.by_id.contains_key(&id) {
            return Ok(());
        }
        let written = registry.schema(id)?;
        if self.by_id.len() >= SCHEMAS_MAX {
            self.by_id.clear();
        }
        let compiled = written.map(|shapes| Arc::new(self.compiled(&shapes)));
        self.by_id.insert(id, compiled);
        Ok(())
    }

    fn map_bytes(&mut self, bytes: &[u8], rows: &mut Rows) {
        if self.origin.registry.is_none() {
            if let Some(plain) = &self.plain {
                self.map_datum(plain, bytes, bytes, rows);
            }
            return;
        }
        let payload = Payload::Bytes(bytes);
        let (id, datum) = match unframed(bytes) {
            Ok(found) => found,
            Err(cause) => {
                let remedy = "send messages as serializers with a schema registry write them, or \
                              leave out 'schema.registry'";
                return rows.reject_message(payload, cause, remedy);
            }
        };
        // Usually known: whoever hands over messages asks before.
        if let Err(error) = self.fetch(Some(bytes)) {
            let cause = crate::error::chain(&error);
            return rows.reject_message(payload, cause, "let the registry be reached");
        }
        match self.by_id.get(&id).cloned() {
            Some(Ok(compiled)) => self.map_datum(&compiled, datum, bytes, rows),
            Some(Err(cause)) => {
                let remedy = "register the schema that the message was written with";
                // Asked again for the next: it may have been registered since.
                self.by_id.remove(&id);
                rows.reject_message(payload, cause, remedy);
            }
            None => {}
        }
    }

    fn map_datum(&self, compiled: &Compiled, datum: &[u8], message: &[u8], rows: &mut Rows) {
        let mut cursor = Cursor::new(datum);
        let outcome = match (&compiled.direct, &self.fields) {
            (Direct::Fields(flat), Some(fields)) => {
                let pushed = flat.push(&compiled.plan, &mut cursor, fields, rows);
                pushed.and_then(|()| {
                    ended(&cursor)?;
                    rows.commit_row();
                    Ok(())
                })
            }
            (Direct::Refused(cause), _) => Err(Cow::Borrowed(cause.as_str())),
            _ => cursor
                .node(&compiled.plan, compiled.plan.root, 0)
                .and_then(|document| {
                    ended(&cursor)?;
                    let mut text = String::new();
                    document.write(&mut text);
                    self.documents
                        .map_document(&document, Payload::Text(&text), rows);
                    Ok(())
                }),
        };
        if let Err(cause) = outcome {
            rows.reject_message(Payload::Bytes(message), cause, REMEDY);
        }
    }
}

/// The schema of the app, of which the registry must know.
pub(super) fn reader(registry: &mut Registry, id: SchemaId) -> Result<Shapes, Error> {
    registry
        .schema(id)?
        .map_err(|cause| registry.refused(cause))
}

fn ended(cursor: &Cursor<'_>) -> Result<(), Fault> {
    match cursor.left() {
        0 => Ok(()),
        left => Err(format!("{left} bytes follow the value").into()),
    }
}

/// The number of the schema, and the value.
fn unframed(bytes: &[u8]) -> Result<(SchemaId, &[u8]), &'static str> {
    match bytes.split_at_checked(FRAME_LEN) {
        Some(([MAGIC, a, b, c, d], datum)) => {
            Ok((SchemaId::from_be_bytes([*a, *b, *c, *d]), datum))
        }
        _ => Err("the message does not begin with the number of its schema"),
    }
}

/// How a record fills the fields of the stream.
fn direct(plan: &Plan, record: &RecordStep, fields: &[Field], allows_null: bool) -> Direct {
    let field_of = |name: &str| fields.iter().position(|field| field.name == name);
    let mut steps = Vec::with_capacity(record.fields.len());
    for (step, place) in &record.fields {
        let field = match place {
            None => None,
            Some(place) => {
                let name = &record.places[*place].0;
                let is_wrapper = name.eq_ignore_ascii_case(EVENT)
                    && matches!(plan.get(*step), Step::Record(_) | Step::Union(_));
                match field_of(name) {
                    Some(field) => Some(field),
                    None if is_wrapper => return Direct::No,
                    None => return Direct::Refused(unknown(name)),
                }
            }
        };
        steps.push((*step, field));
    }
    let mut defaults = Vec::new();
    for (name, default) in &record.places {
        let Some(default) = default else { continue };
        match field_of(name) {
            Some(field) => defaults.push((field, default.clone())),
            None => return Direct::Refused(unknown(name)),
        }
    }
    let is_there = |i: usize| {
        record
            .places
            .iter()
            .any(|(name, _)| *name == fields[i].name)
    };
    let missing: Vec<usize> = (0..fields.len()).filter(|&i| !is_there(i)).collect();
    if !missing.is_empty() && !allows_null {
        return Direct::Refused(format!(
            "the record has {} fields, the stream {} attributes: allow null by \
             fail.on.missing.attribute='false', or map them by @attributes",
            record.places.len(),
            fields.len()
        ));
    }
    Direct::Fields(Flat {
        steps,
        defaults,
        missing,
    })
}

fn unknown(name: &str) -> String {
    format!("the stream has no attribute '{name}': map the record by @attributes")
}

impl Flat {
    fn push(
        &self,
        plan: &Plan,
        cursor: &mut Cursor<'_>,
        fields: &[Field],
        rows: &mut Rows,
    ) -> Result<(), Fault> {
        let columns = rows.columns();
        for (step, field) in &self.steps {
            match field {
                Some(field) => {
                    let field = &fields[*field];
                    push(plan, *step, cursor, field, &mut columns[field.column])?;
                }
                None => {
                    cursor.node(plan, *step, 1)?;
                }
            }
        }
        for (field, node) in &self.defaults {
            let field = &fields[*field];
            push_node(node, field, &mut columns[field.column])?;
        }
        for field in &self.missing {
            columns[fields[*field].column].push_null();
        }
        Ok(())
    }
}

/// The value of a step as the value of an attribute.
#[inline]
fn push(
    plan: &Plan,
    step: StepId,
    cursor: &mut Cursor<'_>,
    field: &Field,
    column: &mut ColumnBuilder,
) -> Result<(), Fault> {
    let step = match plan.get(step) {
        Step::Union(branches) => cursor.branch(branches)?,
        _ => step,
    };
    match (plan.get(step), field.ty) {
        (Step::Null, _) => column.push_null(),
        (Step::Bool, Type::Bool) => column.push_bool(cursor.bool()?),
        (Step::Number { written, read }, _) => {
            push_number(cursor.number(*written, *read)?, field, column)?;
        }
        (Step::Text, Type::String) => column.push_str(cursor.text()?),
        (Step::Enum(symbols), Type::String) => column.push_str(cursor.symbol(symbols)?),
        (Step::Bytes, Type::String) => column.push_str(&latin(cursor.bytes()?)),
        (Step::Bytes, Type::Object) => column.push(&bytes(cursor.bytes()?)),
        (Step::Fixed(size), Type::Object) => column.push(&bytes(cursor.slice(*size)?)),
        _ => push_node(&cursor.node(plan, step, 1)?, field, column)?,
    }
    Ok(())
}

fn bytes(of: &[u8]) -> Value {
    Value::Object(Object::Bytes(Arc::from(of)))
}

#[inline]
fn push_number(number: Number, field: &Field, column: &mut ColumnBuilder) -> Result<(), Fault> {
    match (number, field.ty) {
        (Number::Int(v), Type::Int) => column.push_int(v),
        (Number::Int(v), Type::Long) => column.push_long(i64::from(v)),
        (Number::Long(v), Type::Long) => column.push_long(v),
        (Number::Long(v), Type::Int) => match i32::try_from(v) {
            Ok(v) => column.push_int(v),
            Err(_) => return Err(wrong(field, &v.to_string())),
        },
        (Number::Float(v), Type::Float) => column.push_float(v),
        (Number::Double(v), Type::Double) => column.push_double(v),
        (Number::Int(_) | Number::Long(_) | Number::Double(_), Type::Float)
        | (Number::Float(_), Type::Double) => {
            // By its digits, as a reader of the JSON text has it.
            scalar::push_text(column, field.ty, &number.text());
        }
        (_, Type::String) => column.push_str(&number.text()),
        (_, Type::Object) => column.push(&number.value()),
        _ => return Err(wrong(field, &number.text())),
    }
    Ok(())
}

/// What is no plain value of the attribute's type: parts as JSON text or objects.
fn push_node(node: &Node<'_>, field: &Field, column: &mut ColumnBuilder) -> Result<(), Fault> {
    match (node, field.ty) {
        (Node::Null, _) => column.push_null(),
        (Node::Bool(value), Type::Bool) => column.push_bool(*value),
        (Node::Text(text), Type::String) => column.push_str(text),
        (Node::Text(text), Type::Float | Type::Double)
            if matches!(&**text, "NaN" | "Infinity" | "-Infinity") =>
        {
            scalar::push_text(column, field.ty, text);
        }
        (Node::Number(text), Type::String) => column.push_str(text),
        (Node::Number(text), Type::Int | Type::Long) if !Node::is_real(text) => {
            if !scalar::push_text(column, field.ty, text) {
                return Err(wrong(field, text));
            }
        }
        (Node::Number(text), Type::Float) => {
            scalar::push_text(column, field.ty, text);
        }
        (Node::Number(text), Type::Double) if Node::is_real(text) => {
            scalar::push_text(column, field.ty, text);
        }
        (node, Type::String) => {
            let mut text = String::new();
            node.write_as(&mut text, Style::Java);
            column.push_str(&text);
        }
        (node, Type::Object) => column.push(&node.to_value()),
        (node, _) => {
            let mut text = String::new();
            node.write(&mut text);
            return Err(wrong(field, &text));
        }
    }
    Ok(())
}

#[cold]
fn wrong(field: &Field, text: &str) -> Fault {
    let shown: String = text.chars().take(100).collect();
    format!("attribute '{}': {shown} is no {}", field.name, field.ty).into()
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _: &Properties, rows: &mut Rows) {
        match payload {
            Payload::Bytes(bytes) => self.map_bytes(bytes, rows),
            Payload::Object(Value::Object(Object::Bytes(bytes))) => {
                let bytes = Arc::clone(bytes);
                self.map_bytes(&bytes, rows);
            }
            _ => rows.reject_message(payload, "the message is not binary data", REMEDY),
        }
    }

    fn ready(&mut self, message: Option<Payload<'_>>) -> Result<(), Error> {
        match message {
            _ if self.origin.registry.is_none() => Ok(()),
            None => self.fetch(None),
            Some(Payload::Bytes(bytes)) => self.fetch(Some(bytes)),
            Some(_) => Ok(()),
        }
    }

    fn allows_null(&self) -> bool {
        self.allows_null
    }
}
