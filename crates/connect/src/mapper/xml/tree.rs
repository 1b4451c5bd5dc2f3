//! A document as a tree, in an arena: elements in document order.
//!
//! Entities beyond the five of XML are refused, and so is whatever needs a document type; nothing is
//! ever fetched.

use std::borrow::Cow;
use std::ops::Range;

use quick_xml::XmlVersion;
use quick_xml::events::attributes::Attributes;
use quick_xml::events::{BytesStart, Event};

use super::is_name;

/// Nesting of elements.
const DEPTH_MAX: usize = 256;

/// Elements in a document.
const ELEMENTS_MAX: usize = 2 << 20;

/// Attributes of one element.
const ATTRIBUTES_MAX: usize = 256;

/// Bytes of a document type that is skipped.
const DOCTYPE_MAX: usize = 64 << 10;

/// Number of a namespace in [`Tree::namespaces`]; 0 is none.
pub(super) type Namespace = usize;

#[derive(Debug)]
pub(super) struct Tree<'a> {
    text: &'a str,
    pub elements: Vec<Element<'a>>,
    pub namespaces: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Element<'a> {
    /// Local name.
    pub name: &'a str,
    pub namespace: Namespace,
    pub attributes: Vec<Attribute<'a>>,
    pub parent: Option<usize>,
    pub children: Vec<usize>,
    /// Its own text, without that of its children.
    pub text: Cow<'a, str>,
    span: Range<usize>,
}

#[derive(Debug)]
pub(super) struct Attribute<'a> {
    pub name: &'a str,
    pub namespace: Namespace,
    pub value: Cow<'a, str>,
}

impl<'a> Tree<'a> {
    /// Reads a document with exactly one root element.
    pub fn new(text: &'a str) -> Result<Tree<'a>, String> {
        Tree::read(text, false)
    }

    /// Reads an element that was cut out of a document: prefixes may have been declared around it,
    /// and those that are not declared in it count as part of no namespace.
    pub fn fragment(text: &'a str) -> Result<Tree<'a>, String> {
        Tree::read(text, true)
    }

    fn read(text: &'a str, is_fragment: bool) -> Result<Tree<'a>, String> {
        // The reader skips a byte order mark without counting it in its positions.
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = quick_xml::Reader::from_str(text);
        let config = reader.config_mut();
        config.check_comments = true;
        let mut builder = Builder::new(text, is_fragment);
        loop {
            let start = reader.buffer_position() as usize;
            let event = reader.read_event().map_err(|error| {
                format!(
                    "no well-formed XML at byte {}: {error}",
                    reader.error_position()
                )
            })?;
            let end = reader.buffer_position() as usize;
            builder
                .take(event, start, end)
                .map_err(|what| format!("no well-formed XML at byte {start}: {what}"))?;
            if builder.is_done {
                return builder.finish();
            }
        }
    }

    /// The text of an element with its children, as it was written.
    pub fn source(&self, element: usize) -> &'a str {
        &self.text[self.elements[element].span.clone()]
    }

    pub fn namespace(&self, uri: &str) -> Option<Namespace> {
        self.namespaces.iter().position(|known| known == uri)
    }
}

struct Builder<'a> {
    tree: Tree<'a>,
    open: Vec<usize>,
    /// Prefixes in scope, innermost last, with the depth at which they were declared.
    prefixes: Vec<(&'a str, Namespace, usize)>,
    is_fragment: bool,
    is_done: bool,
}

type Outcome = Result<(), Cow<'static, str>>;

impl<'a> Builder<'a> {
    fn new(text: &'a str, is_fragment: bool) -> Builder<'a> {
        Builder {
            is_fragment,
            tree: Tree {
                text,
                elements: Vec::new(),
                namespaces: vec![
                    String::new(),
                    "http://www.w3.org/XML/1998/namespace".to_owned(),
                ],
            },
            open: Vec::new(),
            prefixes: vec![("xml", 1, 0)],
            is_done: false,
        }
    }

    fn take(&mut self, event: Event<'a>, start: usize, end: usize) -> Outcome {
        match event {
            Event::Start(tag) => self.start(&tag, start..end)?,
            Event::Empty(tag) => {
                self.start(&tag, start..end)?;
                self.end(end);
            }
            Event::End(_) => self.end(end),
            Event::Text(text) => self.text(match text.into_inner() {
                Cow::Borrowed(text) => normalized(text),
                Cow::Owned(text) => Cow::Owned(normalized(&text).into_owned()),
            })?,
            Event::CData(data) => {
                if self.open.is_empty() {
                    return Err("text outside the root element".into());
                }
                self.text(data.into_inner())?;
            }
            Event::GeneralRef(reference) => {
                let text = entity(&reference.into_inner())?;
                self.text(Cow::Owned(text.to_string()))?;
            }
            Event::DocType(text) => {
                if text.len() > DOCTYPE_MAX {
                    return Err("the document type is too long".into());
                }
                if !self.tree.elements.is_empty() {
                    return Err("document type after the root element".into());
                }
            }
            Event::Decl(_) if start > 0 => {
                return Err("the XML declaration is not at the start".into());
            }
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => self.is_done = true,
        }
        Ok(())
    }

    fn start(&mut self, tag: &BytesStart<'a>, span: Range<usize>) -> Outcome {
        if self.open.is_empty() && !self.tree.elements.is_empty() {
            return Err("a second root element begins".into());
        }
        if self.open.len() >= DEPTH_MAX {
            return Err("elements nest too deep".into());
        }
        if self.tree.elements.len() >= ELEMENTS_MAX {
            return Err("there are too many elements".into());
        }
        // The tag is a slice of the text, of which only the length of the name is taken here.
        let name_len = tag.name().as_ref().len();
        let qualified = &self.tree.text[span.start + 1..span.start + 1 + name_len];
        if !is_name(qualified) {
            return Err(format!("'{qualified}' is not a name").into());
        }
        let raw = &self.tree.text[span.clone()];
        let attributes = self.attributes(raw, name_len)?;
        let (prefix, name) = split(qualified);
        let element = Element {
            name,
            namespace: self.resolve(prefix, true)?,
            attributes,
            parent: self.open.last().copied(),
            children: Vec::new(),
            text: Cow::Borrowed(""),
            span,
        };
        let index = self.tree.elements.len();
        if let Some(parent) = element.parent {
            self.tree.elements[parent].children.push(index);
        }
        self.tree.elements.push(element);
        self.open.push(index);
        Ok(())
    }

    fn attributes(
        &mut self,
        tag: &'a str,
        name_len: usize,
    ) -> Result<Vec<Attribute<'a>>, Cow<'static, str>> {
        let depth = self.open.len() + 1;
        let mut list: Vec<(&'a str, Cow<'a, str>)> = Vec::new();
        check_blanks(tag)?;
        let inner = tag[1..].strip_suffix('>').unwrap_or(&tag[1..]);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        for attribute in Attributes::new(inner, name_len) {
            let attribute = attribute.map_err(|error| Cow::from(error.to_string()))?;
            let key = attribute.key.into_inner();
            if list.len() >= ATTRIBUTES_MAX {
                return Err("an element has too many attributes".into());
            }
            if !is_name(key) {
                return Err(format!("'{key}' is not a name").into());
            }
            if attribute.value.contains('<') {
                return Err("'<' in the value of an attribute".into());
            }
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| Cow::from(error.to_string()))?;
            list.push((key, value));
        }
        for (name, value) in &list {
            let prefix = match *name {
                "xmlns" => "",
                name => match name.strip_prefix("xmlns:") {
                    Some(prefix) => prefix,
                    None => continue,
                },
            };
            let namespace = self.intern(value);
            self.prefixes.push((prefix, namespace, depth));
        }
        list.into_iter()
            .filter(|(name, _)| *name != "xmlns" && !name.starts_with("xmlns:"))
            .map(|(qualified, value)| {
                let (prefix, name) = split(qualified);
                Ok(Attribute {
                    name,
                    namespace: self.resolve(prefix, false)?,
                    value,
                })
            })
            .collect()
    }

    fn intern(&mut self, uri: &str) -> Namespace {
        self.tree.namespace(uri).unwrap_or_else(|| {
            self.tree.namespaces.push(uri.to_owned());
            self.tree.namespaces.len() - 1
        })
    }

    fn resolve(&self, prefix: &str, is_element: bool) -> Result<Namespace, Cow<'static, str>> {
        if prefix.is_empty() && !is_element {
            return Ok(0);
        }
        let declared = self
            .prefixes
            .iter()
            .rev()
            .find(|(known, _, _)| *known == prefix)
            .map(|(_, namespace, _)| *namespace);
        match declared {
            Some(namespace) => Ok(namespace),
            None if prefix.is_empty() || self.is_fragment => Ok(0),
            None => Err(format!("prefix '{prefix}' is not declared").into()),
        }
    }

    fn end(&mut self, end: usize) {
        let depth = self.open.len();
        if let Some(index) = self.open.pop() {
            self.tree.elements[index].span.end = end;
        }
        while self
            .prefixes
            .last()
            .is_some_and(|(_, _, at)| *at >= depth && *at > 0)
        {
            self.prefixes.pop();
        }
    }

    fn text(&mut self, text: Cow<'a, str>) -> Outcome {
        let Some(&index) = self.open.last() else {
            let is_blank = text.chars().all(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            return if is_blank {
                Ok(())
            } else {
                Err("text outside the root element".into())
            };
        };
        let own = &mut self.tree.elements[index].text;
        if own.is_empty() {
            *own = text;
        } else {
            own.to_mut().push_str(&text);
        }
        Ok(())
    }

    fn finish(self) -> Result<Tree<'a>, String> {
        if let Some(&open) = self.open.last() {
            return Err(format!(
                "element '{}' is never closed",
                self.tree.elements[open].name
            ));
        }
        if self.tree.elements.is_empty() {
            return Err("there is no element".to_owned());
        }
        Ok(self.tree)
    }
}

fn split(qualified: &str) -> (&str, &str) {
    qualified.split_once(':').unwrap_or(("", qualified))
}

/// Attributes must be set apart by blanks, which the reader does not check.
fn check_blanks(raw: &str) -> Result<(), Cow<'static, str>> {
    let mut quote = None;
    let mut bytes = raw.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match quote {
            Some(open) if byte == open => {
                quote = None;
                if !matches!(
                    bytes.peek(),
                    None | Some(b' ' | b'\t' | b'\n' | b'\r' | b'/' | b'>')
                ) {
                    return Err("no space between two attributes".into());
                }
            }
            Some(_) => {}
            None if matches!(byte, b'"' | b'\'') => quote = Some(byte),
            None => {}
        }
    }
    Ok(())
}

/// Line ends as XML sees them: `\r\n` and `\r` are `\n`.
fn normalized(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn entity(name: &str) -> Result<char, Cow<'static, str>> {
    let code = match name {
        "amp" => return Ok('&'),
        "lt" => return Ok('<'),
        "gt" => return Ok('>'),
        "quot" => return Ok('"'),
        "apos" => return Ok('\''),
        _ => match name.strip_prefix("#x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => name
                .strip_prefix('#')
                .and_then(|digits| digits.parse().ok()),
        },
    };
    code.and_then(char::from_u32)
        .filter(|&c| c >= ' ' || matches!(c, '\t' | '\n' | '\r'))
        .ok_or_else(|| format!("entity '&{name};' is unknown").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&str, &str>) {
        let shown = Tree::new(text).map(|tree| {
            let mut out = String::new();
            for element in &tree.elements {
                out.push_str(&format!("{}#{}", element.name, element.namespace));
                for attribute in &element.attributes {
                    out.push_str(&format!(" {}={}", attribute.name, attribute.value));
                }
                out.push_str(&format!(" '{}';", element.text));
            }
            out
        });
        match (shown, expect) {
            (Ok(shown), Ok(expect)) => assert_eq!(shown, expect, "{text}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
            (shown, _) => panic!("{text}: {shown:?}"),
        }
    }

    #[test]
    fn documents() {
        check("\u{feff}<a>é</a>", Ok("a#0 'é';"));
        check("\u{feff}\u{feff}<é/>", Ok("é#0 '';"));
        check(
            "<?xml version=\"1.0\"?><!DOCTYPE a><a x='1 &lt;\n2'>t<!-- c --><b/>&amp;<![CDATA[<i>]]>\r\n</a>",
            Ok("a#0 x=1 < 2 't&<i>\n';b#0 '';"),
        );
        check(
            "<p:a xmlns:p='u' xmlns='v' p:k='1' k='2'><b xmlns=''/><p:c/></p:a>",
            Ok("a#2 k=1 k=2 '';b#0 '';c#2 '';"),
        );
        let tree = Tree::new("<a>x<b k='1'>y</b >z</a>").expect("it is well-formed");
        assert_eq!(tree.source(1), "<b k='1'>y</b >");
    }

    #[test]
    fn what_is_not_well_formed() {
        check("", Err("no element"));
        check("text", Err("outside"));
        check("<a>", Err("closed"));
        check("<a></b>", Err("byte"));
        check("<a/><b/>", Err("second root"));
        check("<a x=1/>", Err("byte"));
        check("<a x='1' x='2'/>", Err("byte"));
        check("<a x='1'y='2'/>", Err("space"));
        check("<p:a/>", Err("prefix 'p'"));
        check("<a p:x='1'/>", Err("prefix 'p'"));
        assert!(Tree::fragment("<p:a q:x='1'/>").is_ok());
        check("<a x='<'/>", Err("'<'"));
        check("<1/>", Err("not a name"));
        check("<a>&e;</a>", Err("entity"));
        check("<a x='&e;'/>", Err("byte"));
        check("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", Err("entity"));
        check(&"<a>".repeat(1000), Err("too deep"));
    }
}
