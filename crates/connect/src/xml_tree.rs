//! XML of a bounded length as a tree: settings, scripts and what else people write by hand.
//!
//! Promises: an error names its line; elements lie at most [`DEPTH_MAX`] deep in each other. Never: an entity that the
//! document declares, or a file that it names.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Elements in each other.
const DEPTH_MAX: usize = 64;

/// An element. Names are without a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Element {
    /// In lower case.
    pub name: String,
    /// As it is written.
    pub given: String,
    /// The line on which its text begins.
    pub line: usize,
    /// Its own text, with CDATA and references put in.
    pub text: String,
    pub children: Vec<Element>,
    attributes: Vec<(String, String)>,
}

impl Element {
    /// The root of a document, which may begin with a byte order mark.
    ///
    /// # Errors
    /// It is not XML, in words with its line.
    pub fn read(xml: &str) -> Result<Element, String> {
        let xml = xml.trim_start_matches('\u{feff}');
        let mut reader = Reader::from_str(xml);
        // What is open; the first stands for the document.
        let mut open = vec![Element::default()];
        loop {
            let event = reader.read_event().map_err(|cause| {
                let line = line_of(xml, reader.error_position());
                format!("line {line}: this is not XML: {cause}")
            })?;
            let line = || line_of(xml, reader.buffer_position());
            let innermost = open.len() - 1;
            match event {
                Event::Start(start) if open.len() > DEPTH_MAX => {
                    let name = start.local_name().into_inner().to_lowercase();
                    return Err(format!(
                        "line {}: element '{name}' is nested deeper than {DEPTH_MAX}",
                        line()
                    ));
                }
                Event::Start(start) => open.push(element(&start, line())?),
                Event::Empty(start) => open[innermost].children.push(element(&start, line())?),
                Event::End(_) => {
                    if let (Some(done), Some(parent)) = (open.pop(), open.last_mut()) {
                        parent.children.push(done);
                    }
                }
                Event::Text(data) => open[innermost].text.push_str(&data.xml10_content()),
                Event::CData(data) => open[innermost].text.push_str(&data.xml10_content()),
                Event::GeneralRef(reference) => {
                    let character = match reference.resolve_char_ref() {
                        Ok(Some(character)) => character,
                        _ => named(&reference.into_inner())
                            .map_err(|message| format!("line {}: {message}", line()))?,
                    };
                    open[innermost].text.push(character);
                }
                Event::Eof => break,
                _ => {}
            }
        }
        if let [_, .., innermost] = open.as_slice() {
            return Err(format!("element '{}' has no end", innermost.name));
        }
        let roots = open.pop().map(|document| document.children);
        match roots.and_then(|roots| roots.into_iter().next()) {
            Some(root) => Ok(root),
            None => Err("there is no element".to_owned()),
        }
    }

    /// The first child of this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The children of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of this name, without the space around it; empty where there is none.
    pub fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.trim())
    }

    /// An attribute, by its name in lower case and without a prefix; empty where there is none.
    pub fn attribute(&self, name: &str) -> &str {
        let mut found = self.attributes.iter().filter(|(known, _)| known == name);
        found.next().map_or("", |(_, value)| value.trim())
    }

    /// The element of this name: this one, or the first below it.
    pub fn find(&self, name: &str) -> Option<&Element> {
        if self.name == name {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(name))
    }
}

fn element(start: &BytesStart<'_>, line: usize) -> Result<Element, String> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let not_xml =
            |cause: &dyn std::fmt::Display| format!("line {line}: this is not XML: {cause}");
        let attribute = attribute.map_err(|cause| not_xml(&cause))?;
        let name = attribute.key.local_name().into_inner().to_lowercase();
        let value = quick_xml::escape::unescape(&attribute.value);
        let value = value.map_err(|cause| not_xml(&cause))?.into_owned();
        attributes.push((name, value));
    }
    let given = start.local_name().into_inner().to_string();
    Ok(Element {
        name: given.to_lowercase(),
        given,
        line,
        attributes,
        ..Element::default()
    })
}

/// The five entities that XML has of itself.
fn named(entity: &str) -> Result<char, String> {
    Ok(match entity {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        other => return Err(format!("'&{other};' is not known in XML")),
    })
}

fn line_of(text: &str, at: u64) -> usize {
    let at = usize::try_from(at).unwrap_or(text.len());
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_a_tree() {
        let root = Element::read(
            "\u{feff}<?xml version=\"1.0\"?>\n<!-- <a/> -->\n<p:A Key='1 &lt; 2'>\n<b>x &gt; &#38;<![CDATA[<y>]]></b>\n\
             <b k=\"v\"/><C>\n</C></p:A>",
        );
        let root = root.expect("it is XML");
        assert_eq!((root.name.as_str(), root.line), ("a", 3));
        assert_eq!(root.attribute("key"), "1 < 2");
        assert_eq!(root.text_of("b"), "x > &<y>");
        assert_eq!(root.child("b").map(|b| b.line), Some(4));
        let keys: Vec<&str> = root.all("b").map(|b| b.attribute("k")).collect();
        assert_eq!(keys, ["", "v"]);
        assert_eq!(root.find("c").map(|c| c.line), Some(5));
        assert!(root.find("d").is_none() && root.text_of("d").is_empty());
    }

    #[test]
    fn what_is_no_document_is_said_with_its_line() {
        for (xml, says) in [
            ("", "there is no element"),
            ("<a>\n<b></a>", "line 2: this is not XML"),
            ("<a>\n<b>", "element 'b' has no end"),
            ("<a>\n&nbsp;</a>", "line 2: '&nbsp;' is not known"),
            ("<a>\n<b c='1' c='2'/></a>", "line 2: this is not XML"),
            (&"<a>".repeat(100), "nested deeper than 64"),
        ] {
            let refused = Element::read(xml).expect_err(says);
            assert!(refused.contains(says), "{says}: {refused}");
        }
    }
}
