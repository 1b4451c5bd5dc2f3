//! The text of a document as a tree that knows where each value stands. YAML, and JSON, which is written in it.
//!
//! Promises: sizes and depths are bounded, also of what aliases stand for; a fault has its place. Recursion follows
//! the tree's depth, which is bounded.

use std::borrow::Cow;
use std::collections::HashMap;

use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::Value as Json;

use check::codes::api as code;

/// Longest document, in bytes.
pub(crate) const BYTES_MAX: usize = 4 << 20;

/// Values of a document, with what aliases stand for.
const NODES_MAX: usize = 100_000;

/// Levels of a document.
const DEPTH_MAX: usize = 64;

/// What is wrong with a document, so that it is not read on.
type Fault = Box<Diagnostic>;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub span: Span,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar {
        text: String,
        /// It was written without quotes, so it may be a number, a truth value or nothing.
        is_plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub name: String,
    pub span: Span,
}

impl Node {
    pub fn entries(&self) -> &[(Key, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entry(name).map(|(_, node)| node)
    }

    pub fn entry(&self, name: &str) -> Option<(&Key, &Node)> {
        let entries = self.entries().iter();
        let mut named = entries.filter(|(key, _)| key.name == name);
        named.next().map(|(key, node)| (key, node))
    }

    /// The text of a scalar that is not null, as it is written.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, is_plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    pub fn bool(&self) -> Option<bool> {
        match &self.value {
            Value::Scalar {
                text,
                is_plain: true,
            } => match text.as_str() {
                "true" | "True" | "TRUE" => Some(true),
                "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// As JSON has it; a plain scalar is a number or truth value where it can be one.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => Json::Null,
            Value::Scalar { text, is_plain } => {
                let number = || serde_json::from_str::<serde_json::Number>(text).ok();
                match (self.bool(), is_plain) {
                    (Some(is_true), _) => Json::Bool(is_true),
                    (None, true) => number().map_or_else(|| Json::from(&**text), Json::Number),
                    (None, false) => Json::from(&**text),
                }
            }
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                let entries = entries.iter();
                let entries = entries.map(|(key, node)| (key.name.clone(), node.to_json()));
                Json::Object(entries.collect())
            }
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => "nothing",
            Value::Scalar { .. } if self.bool().is_some() => "a truth value",
            Value::Scalar {
                text,
                is_plain: true,
            } if text.parse::<f64>().is_ok() => "a number",
            Value::Scalar { .. } => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Reads a document.
///
/// # Errors
/// It is no YAML, or larger or deeper than is read.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() > BYTES_MAX {
        let said = format!("the document has more than {BYTES_MAX} bytes");
        return Err(fault(&said, Span::new(0, 0), "too long"));
    }
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let offsets = Offsets::new(&text[start..], start);
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(&text[start..]);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, at) = event.map_err(|error| {
            let at = offsets.byte(error.marker().index());
            let end = text.ceil_char_boundary(at as usize + 1);
            let at = Span::new(at, end as u32);
            fault(
                &format!("the document is neither YAML nor JSON: {}", error.info()),
                at,
                "here",
            )
        })?;
        let span = offsets.span(&at);
        if matches!(event, Event::DocumentStart(_)) {
            documents += 1;
            if documents > 1 {
                let said = "there is more than one document in the file";
                return Err(fault(said, span, "another one begins here"));
            }
        }
        builder.take(event, span)?;
    }
    builder.root.ok_or_else(|| {
        let said = "the document is empty";
        fault(said, Span::new(0, 0), "nothing is here")
    })
}

fn fault(message: &str, span: Span, label: &str) -> Fault {
    Box::new(Diagnostic {
        code: code::SYNTAX,
        severity: Severity::Error,
        kind: Kind::Syntax,
        message: message.to_owned(),
        span,
        label: label.to_owned(),
        related: Vec::new(),
        help: None,
        fix: None,
    })
}

/// From characters, in which the parser counts, to bytes.
struct Offsets {
    start: u32,
    /// Of each character and of the end; `None` where a character is a byte.
    bytes: Option<Vec<u32>>,
    end: u32,
}

impl Offsets {
    fn new(text: &str, start: usize) -> Offsets {
        let all = || {
            let ends = std::iter::once(text.len());
            let starts = text.char_indices().map(|(at, _)| at);
            starts.chain(ends).map(|at| at as u32).collect()
        };
        Offsets {
            start: start as u32,
            bytes: (!text.is_ascii()).then(all),
            end: text.len() as u32,
        }
    }

    fn byte(&self, character: usize) -> u32 {
        let byte = match &self.bytes {
            Some(bytes) => bytes.get(character).copied().unwrap_or(self.end),
            None => (character as u32).min(self.end),
        };
        self.start + byte
    }

    fn span(&self, span: &saphyr_parser::Span) -> Span {
        let start = self.byte(span.start.index());
        Span::new(start, self.byte(span.end.index()).max(start))
    }
}

/// Puts values together as the parser names them.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    /// Complete values by the number of their anchor, with how many values each is.
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

/// A list or map that is not complete.
struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value is next.
    key: Option<Key>,
    /// Values before it.
    nodes_before: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain
                    && tag.as_deref().is_none_or(|tag| tag.suffix != "str");
                let value = Value::Scalar {
                    text: Cow::into_owned(text),
                    is_plain,
                };
                self.add(Node { span, value }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => self.begin(Value::List(Vec::new()), span, anchor),
            Event::MappingStart(anchor, _) => self.begin(Value::Map(Vec::new()), span, anchor),
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => {
                let Some((node, nodes)) = self.anchors.get(&anchor) else {
                    return Err(fault(
                        "an alias stands in the value that it stands for",
                        span,
                        "this would have no end",
                    ));
                };
                let nodes = *nodes;
                if self.nodes + nodes > NODES_MAX {
                    return Err(too_many(span));
                }
                let mut node = node.clone();
                node.span = span;
                self.add(node, 0, nodes)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, value: Value, span: Span, anchor: usize) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_MAX {
            let said = format!("the document is nested more than {DEPTH_MAX} levels deep");
            return Err(fault(&said, span, "too deep"));
        }
        self.open.push(Open {
            node: Node { span, value },
            anchor,
            key: None,
            nodes_before: self.nodes,
        });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let mut node = open.node;
        node.span = node.span.to(span);
        let inside = self.nodes - open.nodes_before;
        self.nodes = open.nodes_before;
        self.add(node, open.anchor, inside + 1)
    }

    /// Puts a complete value of so many values where it belongs.
    fn add(&mut self, node: Node, anchor: usize, nodes: usize) -> Result<(), Fault> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            return Err(too_many(node.span));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.value {
            Value::List(items) => items.push(node),
            Value::Map(entries) => match open.key.take() {
                None => open.key = Some(key(node)?),
                Some(key) => {
                    if let Some((first, _)) = entries.iter().find(|(own, _)| own.name == key.name) {
                        let said = format!("the key '{}' is written twice", key.name);
                        let fault = fault(&said, key.span, "again here");
                        return Err(Box::new(fault.related(first.span, "first written here")));
                    }
                    entries.push((key, node));
                }
            },
            Value::Scalar { .. } => {}
        }
        Ok(())
    }
}

fn key(node: Node) -> Result<Key, Fault> {
    match node.value {
        Value::Scalar { text, .. } => Ok(Key {
            name: text,
            span: node.span,
        }),
        _ => Err(fault("a key is no text", node.span, "write a name here")),
    }
}

fn too_many(span: Span) -> Fault {
    let said = format!("the document has more than {NODES_MAX} values");
    fault(&said, span, "here")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Scalar { text, .. } => text.clone(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(shown).collect();
                format!("[{}]", items.join(","))
            }
            Value::Map(entries) => {
                let one = |(key, node): &(Key, Node)| format!("{}={}", key.name, shown(node));
                let entries: Vec<String> = entries.iter().map(one).collect();
                format!("{{{}}}", entries.join(","))
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        match parse(text) {
            Ok(node) => assert_eq!(shown(&node), expect, "{text:?}"),
            Err(fault) => {
                assert!(
                    fault.message.contains(expect),
                    "{text:?}: {}",
                    fault.message
                );
            }
        }
    }

    #[test]
    fn yaml_and_json_are_read() {
        check("a: 1\nb: [x, 'y']\n", "{a=1,b=[x,y]}");
        check("{\"a\": 1,\n\t\"b\": [\"x\\/\", {}]}", "{a=1,b=[x/,{}]}");
        check("\u{feff}ä: ö\n", "{ä=ö}");
        check("a: &x {k: v}\nb: *x\n", "{a={k=v},b={k=v}}");
    }

    #[test]
    fn what_cannot_be_read_is_a_fault() {
        check("", "the document is empty");
        check("a: [1\n", "neither YAML nor JSON");
        check("a: 1\na: 2\n", "written twice");
        check("a: 1\n---\nb: 2\n", "more than one document");
        check("a: &x\n  b: *x\n", "an alias stands in the value");
        check(&format!("{}x", "- ".repeat(DEPTH_MAX + 1)), "levels deep");
        check(&"- x\n".repeat(NODES_MAX), "values");
    }

    #[test]
    fn aliases_are_counted_as_what_they_stand_for() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let before = n - 1;
            let aliases = vec![format!("*a{before}"); 10].join(", ");
            text.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        check(&text, "values");
    }

    #[test]
    fn a_value_knows_its_place_in_bytes() {
        let text = "ä: ö\nb: {c: 'dé'}\n";
        let root = parse(text).expect("it is YAML");
        let c = root.get("b").and_then(|b| b.get("c")).expect("it is there");
        assert_eq!(c.span.text(text), "'dé'");
        let (key, _) = root.entry("b").expect("it is there");
        assert_eq!(key.span.text(text), "b");
        let broken = parse("ö: 1\nb: [\n").expect_err("it is not complete");
        assert!(broken.span.start > 4);
    }

    #[test]
    fn quotes_make_a_text() {
        let root = parse("a: null\nb: 'null'\nc: true\nd: \"true\"\ne: 1.5\n").expect("YAML");
        let kind = |name| root.get(name).expect("it is there").kind();
        assert_eq!(kind("a"), "nothing");
        assert_eq!(kind("b"), "a text");
        assert_eq!(kind("c"), "a truth value");
        assert_eq!(kind("d"), "a text");
        assert_eq!(kind("e"), "a number");
    }
}
