//! The messages of operations, with the schemas of their payloads.

use std::collections::HashMap;

use lang::span::Span;
use serde_json::{Map, Value as Json};

use super::reader::{Reader, fault};
use super::tree::Node;
use crate::model::{Content, Message};
use crate::schema::{Defect, Schema, bundle};
use check::codes::api as code;

/// Messages of one operation.
const MESSAGES_MAX: usize = 100;

/// Schemas that messages share, as they are found.
pub(super) struct Messages {
    /// The whole document, which references are into.
    document: Json,
    shared: Map<String, Json>,
    /// Names of shared schemas by the references to them.
    names: HashMap<String, String>,
    /// Of messages that do not say it.
    content: Option<String>,
}

impl Messages {
    pub fn new(reader: &mut Reader<'_>) -> Messages {
        let content = reader.text(reader.root, "defaultContentType");
        Messages {
            document: reader.root.to_json(),
            shared: Map::new(),
            names: HashMap::new(),
            content: content.map(|(text, _)| text.to_owned()),
        }
    }

    pub fn shared(self) -> Map<String, Json> {
        self.shared
    }

    /// Those of an operation of 2.x: one, or one of several.
    pub fn of_operation<'d>(
        &mut self,
        reader: &mut Reader<'d>,
        operation: &'d Node,
        role: &str,
    ) -> Vec<Message> {
        let Some(said) = operation.get("message") else {
            return Vec::new();
        };
        let all = match said.get("oneOf") {
            Some(all) => all.items(),
            None => std::slice::from_ref(said),
        };
        let mut messages: Vec<Message> = Vec::new();
        for (at, one) in all.iter().take(MESSAGES_MAX).enumerate() {
            let own = match at {
                0 => role.to_owned(),
                at => format!("{role}-{}", at + 1),
            };
            let name = last_of_reference(one);
            let Some(node) = reader.resolve(one) else {
                continue;
            };
            let name = reader
                .text(node, "name")
                .map(|(name, _)| name.to_owned())
                .or(name)
                .filter(|name| messages.iter().all(|other| other.name != *name));
            messages.extend(self.message(reader, node, name.unwrap_or(own)));
        }
        messages
    }

    /// Those of an operation of 3.x: all of its channel, or those that it names of them.
    pub fn of_channel<'d>(
        &mut self,
        reader: &mut Reader<'d>,
        channel: &'d Node,
        operation: &'d Node,
    ) -> Vec<Message> {
        let all = reader.map(channel, "messages");
        let mut known: Vec<(&str, &'d Node)> = Vec::new();
        for (key, node) in all.iter().take(MESSAGES_MAX) {
            known.extend(reader.resolve(node).map(|node| (key.name.as_str(), node)));
        }
        if let Some(named) = operation.get("messages") {
            let mut chosen = Vec::new();
            for one in named.items() {
                let Some(node) = reader.resolve(one) else {
                    continue;
                };
                let mut all = known.iter();
                match all.find(|(_, own)| std::ptr::eq(*own, node)) {
                    Some(found) => chosen.push(*found),
                    None => {
                        let said = "the message is none of the channel of its operation";
                        reader.say(fault(code::REFERENCE, said, one.span, "of another channel"));
                    }
                }
            }
            known = chosen;
        }
        let messages = known.into_iter();
        messages
            .filter_map(|(name, node)| self.message(reader, node, name.to_owned()))
            .collect()
    }

    /// `None`: something is wrong with it, and was said.
    fn message<'d>(
        &mut self,
        reader: &mut Reader<'d>,
        node: &'d Node,
        name: String,
    ) -> Option<Message> {
        let said = reader.text(node, "contentType");
        let span = said.map(|(_, span)| span);
        let kind = said
            .map(|(text, _)| text.to_owned())
            .or_else(|| self.content.clone());
        let kind = kind.unwrap_or_else(|| "application/json".to_owned());
        let content = content_of(&kind);
        let mut payload = node.get("payload").filter(|payload| !payload.is_null());
        let mut format = reader.text(node, "schemaFormat");
        if let Some(inner) = payload.and_then(|payload| payload.get("schema"))
            && let Some(said) = payload.and_then(|payload| payload.get("schemaFormat"))
        {
            format = said.text().map(|text| (text, said.span));
            payload = Some(inner);
        }
        let free = |content| Message {
            name: name.clone(),
            content,
            schema: None,
        };
        let Some(payload) = payload else {
            return Some(free(content.unwrap_or_default()));
        };
        if let Some((text, span)) = format.filter(|(text, _)| !is_json_schema(text)) {
            let said = format!("schemas of the format '{text}' are not checked");
            reader.say(fault(
                code::WITHOUT_EFFECT,
                said,
                span,
                "any payload is taken",
            ));
            return Some(free(content.unwrap_or_default()));
        }
        let Some(content) = content else {
            let said = format!("payloads of type '{kind}' are not checked");
            let at = span.unwrap_or(payload.span);
            reader.say(fault(
                code::WITHOUT_EFFECT,
                said,
                at,
                "any payload is taken",
            ));
            return Some(free(Content::default()));
        };
        let mut read = || {
            let own = bundle(
                &self.document,
                &payload.to_json(),
                &mut self.shared,
                &mut self.names,
            )?;
            Schema::new(own, &self.shared)
        };
        match read() {
            Ok(schema) => Some(Message {
                name,
                content,
                schema: Some(schema),
            }),
            Err(defect) => {
                say(reader, payload, &name, &defect);
                None
            }
        }
    }
}

/// Says what is wrong with a schema, as near to it as can be.
fn say(reader: &mut Reader<'_>, payload: &Node, name: &str, defect: &Defect) {
    if let Some(reference) = &defect.reference {
        let root = reader.root;
        let span = reference_span(payload, reference).or_else(|| reference_span(root, reference));
        let span = span.unwrap_or(payload.span);
        let found = fault(code::REFERENCE, defect.cause.clone(), span, "not followed");
        reader.say(found.help("put what it names into the document, as '#/components/schemas/…'"));
        return;
    }
    let said = format!(
        "the schema of message '{name}' is wrong at '{}': {}",
        defect.place, defect.cause
    );
    let at = match defect.place.strip_prefix("#/components/") {
        Some(_) => reader.root,
        None => payload,
    };
    let span = place_span(at, &defect.place).unwrap_or(payload.span);
    reader.say(fault(code::BAD_VALUE, said, span, "no schema"));
}

/// Where a JSON pointer leads.
fn place_span(mut at: &Node, place: &str) -> Option<Span> {
    for part in place.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        at = match name.parse::<usize>() {
            Ok(number) if !at.is_map() => at.items().get(number)?,
            _ => at.get(&name)?,
        };
    }
    Some(at.span)
}

/// Where a reference stands.
fn reference_span(within: &Node, text: &str) -> Option<Span> {
    let mut left = vec![within];
    while let Some(node) = left.pop() {
        if let Some(found) = node.get("$ref").filter(|found| found.text() == Some(text)) {
            return Some(found.span);
        }
        left.extend(node.items());
        left.extend(node.entries().iter().map(|(_, node)| node));
    }
    None
}

/// `Tick` of `#/components/messages/Tick`.
fn last_of_reference(node: &Node) -> Option<String> {
    let reference = node.get("$ref")?.text()?;
    reference.rsplit('/').next().map(str::to_owned)
}

/// What bytes of a content type are; `None`: neither JSON nor text.
fn content_of(kind: &str) -> Option<Content> {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    match kind.as_str() {
        "application/json" | "text/json" => Some(Content::Json),
        _ if kind.ends_with("+json") => Some(Content::Json),
        _ if kind.starts_with("text/") => Some(Content::Text),
        _ => None,
    }
}

/// Is it JSON Schema, which AsyncAPI's own format is an extension of?
fn is_json_schema(format: &str) -> bool {
    let own = ["application/vnd.aai.asyncapi", "application/schema+"];
    own.iter().any(|own| format.starts_with(own))
}
