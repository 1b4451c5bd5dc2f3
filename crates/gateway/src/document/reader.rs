//! What readers of a document share: faults, references, values of a kind.

use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;
use lang::suggest::nearest;

use super::tree::{Key, Node, Value};
use check::codes::api as code;

/// References that follow each other.
const HOPS_MAX: usize = 16;

/// A finding of a code; its kind and severity are those of the code.
pub(super) fn fault(
    code: &'static str,
    message: impl Into<String>,
    span: Span,
    label: impl Into<String>,
) -> Diagnostic {
    Diagnostic {
        code,
        severity: match code.starts_with('W') {
            true => Severity::Warning,
            false => Severity::Error,
        },
        kind: match code {
            code::SYNTAX => Kind::Syntax,
            code::UNKNOWN_NAME | code::REFERENCE | code::TWICE => Kind::Name,
            code::NOT_YET | code::VERSION => Kind::Unsupported,
            _ => Kind::Option,
        },
        message: message.into(),
        span,
        label: label.into(),
        related: Vec::new(),
        help: None,
        fix: None,
    }
}

/// A document that is being read, with what is wrong with it.
pub(super) struct Reader<'d> {
    pub root: &'d Node,
    text: &'d str,
    pub found: Vec<Diagnostic>,
}

impl<'d> Reader<'d> {
    pub fn new(root: &'d Node, text: &'d str) -> Reader<'d> {
        Reader {
            root,
            text,
            found: Vec::new(),
        }
    }

    pub fn say(&mut self, fault: Diagnostic) {
        self.found.push(fault);
    }

    /// A value as it is written, where it is short.
    pub fn written(&self, node: &Node) -> String {
        match &node.value {
            Value::Scalar { .. } => format!("'{}'", node.text().unwrap_or("null")),
            _ => match node.span.text(self.text).trim() {
                text if text.len() <= 40 && !text.contains('\n') => text.to_owned(),
                _ => node.kind().to_owned(),
            },
        }
    }

    /// A value is of another kind than its key needs.
    pub fn wrong(&mut self, name: &str, node: &Node, wanted: &str) {
        let said = format!("'{name}' is {}, not {wanted}", self.written(node));
        self.say(fault(
            code::BAD_VALUE,
            said,
            node.span,
            format!("write {wanted}"),
        ));
    }

    /// Follows the reference that stands here, if one does, and those behind it.
    pub fn resolve(&mut self, node: &'d Node) -> Option<&'d Node> {
        let mut at = node;
        for _ in 0..HOPS_MAX {
            let Some(reference) = at.get("$ref") else {
                return Some(at);
            };
            let text = reference.text().unwrap_or_default();
            let Some(pointer) = text.strip_prefix('#') else {
                let said = format!("the reference '{text}' leads out of the document");
                let fault = fault(code::REFERENCE, said, reference.span, "not followed");
                self.say(fault.help("put what it names into the document, as '#/components/…'"));
                return None;
            };
            match self.pointed(pointer, reference.span) {
                Some(next) => at = next,
                None => return None,
            }
        }
        let said = "references lead to each other".to_owned();
        self.say(fault(
            code::REFERENCE,
            said,
            node.span,
            "this leads back here",
        ));
        None
    }

    /// The value at a JSON pointer.
    fn pointed(&mut self, pointer: &str, span: Span) -> Option<&'d Node> {
        let mut at = self.root;
        for part in pointer.split('/').skip(1) {
            let name = connect::url::decode(&part.replace('+', "%2B"));
            let name = name.replace("~1", "/").replace("~0", "~");
            let next = match &at.value {
                Value::List(items) => name.parse::<usize>().ok().and_then(|n| items.get(n)),
                _ => at.get(&name),
            };
            let Some(next) = next else {
                let said =
                    format!("the reference '#{pointer}' leads nowhere: there is no '{name}'");
                let names = at.entries().iter().map(|(key, _)| key.name.as_str());
                let fault = fault(code::REFERENCE, said, span, "leads nowhere");
                self.say(match nearest(&name, names) {
                    Some(near) => fault.help(format!("did you mean '{near}'?")),
                    None => fault,
                });
                return None;
            };
            at = next;
        }
        Some(at)
    }

    /// The map of a key, empty where there is none.
    pub fn map(&mut self, within: &'d Node, name: &str) -> &'d [(Key, Node)] {
        let Some(node) = within.get(name).filter(|node| !node.is_null()) else {
            return &[];
        };
        let Some(node) = self.resolve(node) else {
            return &[];
        };
        if !node.is_map() {
            self.wrong(name, node, "a map");
        }
        node.entries()
    }

    /// The list of a key, empty where there is none; one value alone is a list of one.
    pub fn list(&mut self, within: &'d Node, name: &str) -> Vec<&'d Node> {
        match within.get(name).filter(|node| !node.is_null()) {
            None => Vec::new(),
            Some(node) => match &node.value {
                Value::List(items) => items.iter().collect(),
                Value::Scalar { .. } => vec![node],
                Value::Map(_) => {
                    self.wrong(name, node, "a list");
                    Vec::new()
                }
            },
        }
    }

    /// The texts of a list.
    pub fn texts(&mut self, within: &'d Node, name: &str) -> Vec<(&'d str, Span)> {
        let mut texts = Vec::new();
        for node in self.list(within, name) {
            match node.text() {
                Some(text) => texts.push((text, node.span)),
                None => self.wrong(name, node, "a list of texts"),
            }
        }
        texts
    }

    /// The text of a key.
    pub fn text(&mut self, within: &'d Node, name: &str) -> Option<(&'d str, Span)> {
        let node = within.get(name).filter(|node| !node.is_null())?;
        match node.text() {
            Some(text) => Some((text, node.span)),
            None => {
                self.wrong(name, node, "a text");
                None
            }
        }
    }

    /// As [`Reader::text`], of a key that there must be.
    pub fn needed(&mut self, within: &'d Node, name: &str, of: &str) -> Option<(&'d str, Span)> {
        if within.get(name).is_none_or(Node::is_null) {
            let said = format!("{of} has no '{name}'");
            let start = within.span.start;
            let end = self.text.ceil_char_boundary(start as usize + 1);
            let at = Span::new(start, end as u32);
            self.say(fault(code::MISSING, said, at, format!("add '{name}' here")));
            return None;
        }
        self.text(within, name)
    }

    /// The value of a key as `parse` reads it.
    pub fn parsed<T>(
        &mut self,
        within: &'d Node,
        name: &str,
        wanted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let node = within.get(name).filter(|node| !node.is_null())?;
        let value = node.text().and_then(parse);
        if value.is_none() {
            self.wrong(name, node, wanted);
        }
        value
    }

    /// A key that nobody knows, with the nearest of those that there are.
    pub fn unknown(&mut self, key: &Key, of: &str, known: &[&str]) {
        let said = format!("{of} has no key '{}'", key.name);
        let found = fault(code::UNKNOWN_KEY, said, key.span, "unknown");
        let near = nearest(&key.name, known.iter().copied());
        self.say(match near {
            Some(_) => found.did_you_mean(key.span, near),
            None => found.help(format!("there is {}", known.join(", "))),
        });
    }

    /// A name that is none of those that there are.
    pub fn unknown_name(&mut self, said: String, span: Span, name: &str, known: &[&str]) {
        let found = fault(code::UNKNOWN_NAME, said, span, "there is none");
        let near = nearest(name, known.iter().copied());
        self.say(match near {
            Some(near) => found.help(format!("did you mean '{near}'?")),
            None if known.is_empty() => found,
            None => found.help(format!("there is {}", known.join(", "))),
        });
    }
}
