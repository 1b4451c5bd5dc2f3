//! JSON to rows.

use std::borrow::Cow;

use event::{ColumnBuilder, Type, Value};
use javatext::json_path::{Found, Item, Path};

use super::flat::Flat;
use super::tree::{self, Elements, Node, Style, number_text};
use crate::component::{Payload, SourceMapper, SourceMapperSetup};
use crate::error::Error;
use crate::mapper::{Field, Fields, Options};
use crate::rows::{Properties, Rows};
use crate::scalar;

/// Name of the object that may be put around an event.
pub(super) const EVENT: &str = "event";

pub(in crate::mapper) struct Source {
    way: Way,
    allows_null: bool,
    is_split: bool,
}

enum Way {
    Default {
        fields: Vec<Field>,
        flat: Flat,
    },
    Custom {
        enclosing: Path,
        fields: Vec<(Field, Path)>,
    },
}

/// Why an event is not taken, and what to do.
type Refusal = (Cow<'static, str>, &'static str);

/// What a refusal of one event of a list takes with it. In Siddhi a missing attribute drops the
/// event, a value that cannot be converted is an exception that drops the message.
enum Dropped {
    Event(Refusal),
    Message(Refusal),
}

const MISSING: &str = "send all attributes, or allow null by fail.on.missing.attribute='false'";
const NO_JSON: &str = "send strict JSON";

impl Source {
    pub fn new(setup: &SourceMapperSetup<'_>) -> Result<Source, Error> {
        let options = Options::of_source(setup.mapping);
        let allows_null = !options.bool("fail.on.missing.attribute");
        let fields = Fields::of(setup.mapping, setup.schema);
        let way = if fields.is_default {
            Way::Default {
                flat: Flat::new(&fields.list, allows_null),
                fields: fields.list,
            }
        } else {
            let path =
                |text: &str| Path::new(text).map_err(|error| options.refused(error.to_string()));
            Way::Custom {
                enclosing: path(options.text("enclosing.element").unwrap_or("$"))?,
                fields: fields
                    .list
                    .into_iter()
                    .map(|field| {
                        let path = path(&field.from)?;
                        Ok((field, path))
                    })
                    .collect::<Result<_, Error>>()?,
            }
        };
        Ok(Source {
            way,
            allows_null,
            // Avro maps through here and does not have these two options.
            is_split: options
                .text("event.grouping.enabled")
                .is_some_and(|text| !scalar::parse_bool(text)),
        })
    }

    fn map_text(&self, text: &str, rows: &mut Rows) {
        if let Way::Default { flat, .. } = &self.way {
            if flat.push(text, rows) {
                return;
            }
            rows.abort_row();
        }
        self.map_slowly(text, rows);
    }

    /// Without the short way.
    pub(super) fn map_slowly(&self, text: &str, rows: &mut Rows) {
        match &self.way {
            Way::Default { fields, .. } => match Elements::new(text) {
                Some(elements) => self.map_list(fields, text, elements, rows),
                None => self.map_single(fields, text, rows),
            },
            Way::Custom { enclosing, fields } => self.map_custom(enclosing, fields, text, rows),
        }
        if self.is_split {
            rows.split();
        }
    }

    /// Maps a document that was read from another format; `payload` is what is shown of it where it is
    /// rejected.
    #[cfg(feature = "avro")]
    pub fn map_document(&self, document: &Node<'_>, payload: Payload<'_>, rows: &mut Rows) {
        match (&self.way, document) {
            (Way::Custom { enclosing, fields }, _) => {
                self.push_elements(enclosing, fields, document, payload, rows);
            }
            (Way::Default { fields, .. }, Node::List(elements)) => {
                for element in elements {
                    match push_element(element, fields, self.allows_null, rows) {
                        Ok(()) => rows.commit_row(),
                        Err(Dropped::Event((cause, remedy))) => {
                            rows.reject_row(&text_of(element), cause, remedy);
                        }
                        Err(Dropped::Message((cause, remedy))) => {
                            return rows.reject_message(payload, cause, remedy);
                        }
                    }
                }
            }
            (Way::Default { fields, .. }, document) => {
                match push_single(document, fields, self.allows_null, rows) {
                    Ok(()) => rows.commit_row(),
                    Err((cause, remedy)) => rows.reject_message(payload, cause, remedy),
                }
            }
        }
    }

    fn map_single(&self, fields: &[Field], text: &str, rows: &mut Rows) {
        let outcome = tree::parse(text)
            .map_err(|fault| (fault.to_string().into(), NO_JSON))
            .and_then(|document| push_single(&document, fields, self.allows_null, rows));
        match outcome {
            Ok(()) => rows.commit_row(),
            Err((cause, remedy)) => rows.reject_message(Payload::Text(text), cause, remedy),
        }
    }

    fn map_list(&self, fields: &[Field], text: &str, mut elements: Elements<'_>, rows: &mut Rows) {
        // A document that breaks off takes all its events with it; hence it is read once before.
        if let Err(fault) = tree::validate(text) {
            return rows.reject_message(Payload::Text(text), fault.to_string(), NO_JSON);
        }
        while let Some(element) = elements.next_element() {
            let (part, node) = match element {
                Ok(element) => element,
                Err(fault) => {
                    return rows.reject_message(Payload::Text(text), fault.to_string(), NO_JSON);
                }
            };
            match push_element(&node, fields, self.allows_null, rows) {
                Ok(()) => rows.commit_row(),
                Err(Dropped::Event((cause, remedy))) => rows.reject_row(part, cause, remedy),
                Err(Dropped::Message((cause, remedy))) => {
                    return rows.reject_message(Payload::Text(text), cause, remedy);
                }
            }
        }
    }

    fn map_custom(&self, enclosing: &Path, fields: &[(Field, Path)], text: &str, rows: &mut Rows) {
        let document = match tree::parse(text) {
            Ok(document) => document,
            Err(fault) => {
                return rows.reject_message(Payload::Text(text), fault.to_string(), NO_JSON);
            }
        };
        self.push_elements(enclosing, fields, &document, Payload::Text(text), rows);
    }

    fn push_elements(
        &self,
        enclosing: &Path,
        fields: &[(Field, Path)],
        document: &Node<'_>,
        payload: Payload<'_>,
        rows: &mut Rows,
    ) {
        let elements: Vec<Cow<'_, Node<'_>>> = match enclosing.find(&document) {
            Ok(Found::One(Item::Node(Node::List(list)))) => {
                list.iter().map(Cow::Borrowed).collect()
            }
            Ok(Found::One(item)) => vec![node_of(item)],
            Ok(Found::Many(items)) => items.into_iter().map(node_of).collect(),
            Ok(Found::Nothing) | Err(_) => {
                return rows.reject_message(
                    payload,
                    "the document has no enclosing element",
                    "check option 'enclosing.element'",
                );
            }
        };
        for element in elements {
            match push_custom(&element, fields, self.allows_null, rows) {
                Ok(()) => rows.commit_row(),
                Err(Dropped::Event((cause, remedy))) => {
                    rows.reject_row(&text_of(&element), cause, remedy);
                }
                Err(Dropped::Message((cause, remedy))) => {
                    return rows.reject_message(payload, cause, remedy);
                }
            }
        }
    }
}

fn text_of(node: &Node<'_>) -> String {
    let mut text = String::new();
    node.write(&mut text);
    text
}

/// A single object, typed by its tokens (Siddhi's streaming path): unknown names are refused, and
/// what counts is how many names there are.
fn push_single(
    document: &Node<'_>,
    fields: &[Field],
    allows_null: bool,
    rows: &mut Rows,
) -> Result<(), Refusal> {
    let Node::Map(entries) = document else {
        return Err((
            "the document is neither an object nor a list".into(),
            "send an object",
        ));
    };
    // What stands behind the wrapped event counts as part of it.
    let (inner, rest) = match entries.split_first() {
        Some(((name, Node::Map(inner)), rest)) if name.eq_ignore_ascii_case(EVENT) => (inner, rest),
        _ => (entries, &[][..]),
    };
    let entries: Vec<_> = inner.iter().chain(rest).collect();
    if let Some((name, _)) = entries
        .iter()
        .find(|(name, _)| fields.iter().all(|f| f.name != *name))
    {
        return Err((
            format!("the stream has no attribute '{name}'").into(),
            "send attributes of the stream only, or map them by @attributes",
        ));
    }
    if entries.len() != fields.len() && !allows_null {
        let cause = format!(
            "the event has {} attributes, the stream {}",
            entries.len(),
            fields.len()
        );
        return Err((cause.into(), MISSING));
    }
    for field in fields {
        let column = &mut rows.columns()[field.column];
        let node = entries.iter().rev().find(|(name, _)| *name == field.name);
        match node {
            None => column.push_null(),
            Some((_, node)) => push_token(column, field, node)?,
        }
    }
    Ok(())
}

fn push_token(column: &mut ColumnBuilder, field: &Field, node: &Node<'_>) -> Result<(), Refusal> {
    match (field.ty, node) {
        (_, Node::Null) => column.push_null(),
        (Type::Bool, Node::Bool(value)) => column.push_bool(*value),
        (Type::Int | Type::Long, Node::Number(text)) if !Node::is_real(text) => {
            if !scalar::push_text(column, field.ty, text) {
                return Err(wrong(field, node));
            }
        }
        (Type::Double, Node::Number(text)) if Node::is_real(text) => {
            scalar::push_text(column, field.ty, text);
        }
        (Type::Float, Node::Number(text)) => {
            scalar::push_text(column, field.ty, text);
        }
        (Type::String, Node::Text(text)) => column.push_str(text),
        (Type::String, Node::Number(text)) => column.push_str(text),
        (Type::String, node) => {
            let mut text = String::new();
            node.write_as(&mut text, Style::Java);
            column.push_str(&text);
        }
        (Type::Object, node) => column.push(&object(node).ok_or_else(|| wrong(field, node))?),
        _ => return Err(wrong(field, node)),
    }
    Ok(())
}

/// A scalar in an OBJECT attribute is an int, a 32-bit float, a text or a bool.
fn object(node: &Node<'_>) -> Option<Value> {
    Some(match node {
        Node::Number(text) if Node::is_real(text) => Value::Float(scalar::parse_float(text)?),
        Node::Number(text) => Value::Int(scalar::parse_int(text)?),
        node => node.to_value(),
    })
}

fn wrong(field: &Field, node: &Node<'_>) -> Refusal {
    let mut text = String::new();
    node.write(&mut text);
    let remedy = match (field.ty, node) {
        (Type::Double, Node::Number(_)) => {
            "write a double with a decimal point (10.0), or map by @attributes, which reads any number"
        }
        _ => "send a value of the attribute's type",
    };
    (
        format!(
            "attribute '{}': {} is no {}",
            field.name,
            cut(&text),
            field.ty
        )
        .into(),
        remedy,
    )
}

fn cut(text: &str) -> &str {
    text.char_indices()
        .nth(100)
        .map_or(text, |(end, _)| &text[..end])
}

/// An element of a list, typed by the texts of its values; names that the stream does not have are
/// left alone.
fn push_element(
    element: &Node<'_>,
    fields: &[Field],
    allows_null: bool,
    rows: &mut Rows,
) -> Result<(), Dropped> {
    let (inner, is_wrapped) = match element.get(EVENT) {
        Some(inner @ Node::Map(_)) => (inner, true),
        _ => (element, false),
    };
    let Node::Map(entries) = inner else {
        return Err(Dropped::Message((
            "an element of the list is not an object".into(),
            "send objects",
        )));
    };
    if entries.len() < fields.len() && (!is_wrapped || !allows_null) {
        let cause = format!(
            "the event has {} attributes, the stream {}",
            entries.len(),
            fields.len()
        );
        return Err(Dropped::Event((cause.into(), MISSING)));
    }
    for field in fields {
        let column = &mut rows.columns()[field.column];
        match inner.get(&field.name) {
            None if !allows_null => {
                let cause = format!("attribute '{}' is missing", field.name);
                return Err(Dropped::Event((cause.into(), MISSING)));
            }
            None | Some(Node::Null) => column.push_null(),
            Some(node @ (Node::List(_) | Node::Map(_))) if field.ty == Type::Object => {
                column.push(&node.to_value());
            }
            Some(node @ (Node::List(_) | Node::Map(_))) => {
                return Err(Dropped::Message(wrong(field, node)));
            }
            Some(node) => {
                if !scalar::push_text(column, field.ty, &plain_text(node)) {
                    return Err(Dropped::Message(wrong(field, node)));
                }
            }
        }
    }
    Ok(())
}

/// The text of a scalar as it is written.
fn plain_text<'n>(node: &'n Node<'_>) -> Cow<'n, str> {
    match node {
        Node::Text(text) => Cow::Borrowed(text),
        Node::Number(text) => Cow::Borrowed(text),
        node => {
            let mut text = String::new();
            node.write(&mut text);
            Cow::Owned(text)
        }
    }
}

fn push_custom(
    element: &Node<'_>,
    fields: &[(Field, Path)],
    allows_null: bool,
    rows: &mut Rows,
) -> Result<(), Dropped> {
    for (field, path) in fields {
        let column = &mut rows.columns()[field.column];
        let found = path.find(&element).map_err(|error| {
            let cause = format!("attribute '{}': '{}': {error}", field.name, field.from);
            Dropped::Event((cause.into(), "write another path"))
        })?;
        let text = match &found {
            Found::Nothing if allows_null => {
                column.push_null();
                continue;
            }
            Found::Nothing => {
                let cause = format!("attribute '{}': '{}' finds nothing", field.name, field.from);
                return Err(Dropped::Event((cause.into(), MISSING)));
            }
            Found::One(Item::Null | Item::Node(Node::Null)) => {
                column.push_null();
                continue;
            }
            Found::One(Item::Node(node)) => java_text(node),
            Found::One(Item::Number(number)) => {
                Cow::Owned(event::text::to_text(&Value::Double(*number)))
            }
            Found::One(Item::Count(count)) => Cow::Owned(count.to_string()),
            Found::One(members @ Item::Members(_)) => {
                Cow::Owned(java_text(&node_of(members.clone())).into_owned())
            }
            Found::Many(nodes) => {
                let mut text = String::new();
                let list = Node::List(
                    nodes
                        .iter()
                        .cloned()
                        .map(|item| node_of(item).into_owned())
                        .collect(),
                );
                list.write_as(&mut text, Style::Smart);
                Cow::Owned(text)
            }
        };
        if !scalar::push_text(column, field.ty, &text) {
            let cause = format!(
                "attribute '{}': '{}' is no {}",
                field.name,
                cut(&text),
                field.ty
            );
            let refusal = (cause.into(), "send a value of the attribute's type");
            return Err(Dropped::Message(refusal));
        }
    }
    Ok(())
}

/// What a path found, as a value of the document.
fn node_of<'n, 'a>(item: Item<&'n Node<'a>>) -> Cow<'n, Node<'a>> {
    Cow::Owned(match item {
        Item::Node(node) => return Cow::Borrowed(node),
        Item::Members(members) => {
            let members = members.into_iter();
            Node::Map(
                members
                    .map(|(name, node)| (Cow::Owned(name), node.clone()))
                    .collect(),
            )
        }
        Item::Number(number) => Node::Number(event::text::to_text(&Value::Double(number)).into()),
        Item::Count(count) => Node::Number(count.to_string().into()),
        Item::Null => Node::Null,
    })
}

/// A value as Java prints it once it is read: an object by Gson, a list by json-smart.
fn java_text<'n>(node: &'n Node<'_>) -> Cow<'n, str> {
    let style = match node {
        Node::Number(text) => return number_text(text),
        Node::Map(_) => Style::Gson,
        Node::List(_) => Style::Smart,
        node => return plain_text(node),
    };
    let mut text = String::new();
    node.write_as(&mut text, style);
    Cow::Owned(text)
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _properties: &Properties, rows: &mut Rows) {
        match payload {
            Payload::Text(text) => self.map_text(text, rows),
            Payload::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.map_text(text, rows),
                Err(error) => rows.reject_message(payload, error.to_string(), "send UTF-8"),
            },
            Payload::Object(Value::Object(event::Object::Bytes(bytes))) => {
                let bytes = std::sync::Arc::clone(bytes);
                self.map(Payload::Bytes(&bytes), _properties, rows);
            }
            Payload::Object(Value::Str(text)) => self.map_text(text, rows),
            _ => rows.reject_message(
                payload,
                "the message is neither text nor bytes",
                "send text",
            ),
        }
    }

    fn allows_null(&self) -> bool {
        self.allows_null
    }
}
