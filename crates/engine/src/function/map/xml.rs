//! Maps from XML and XML from maps.

use event::text::{to_text, write_value};
use event::value::Shared;
use event::{Object, Value};
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::function::java_map::{self, Entries};
use crate::function::number::{parse_integer, parse_real};

/// Deepest nesting that is read or written.
const DEPTH_MAX: usize = 60;

/// An element that is being read.
#[derive(Default)]
struct Element {
    name: String,
    text: String,
    children: Entries,
    has_children: bool,
}

/// The children of the root; the last of equal names wins.
pub fn parse(xml: &str) -> Result<Entries, String> {
    let unreadable =
        |reason: &dyn std::fmt::Display| format!("the XML text cannot be read: {reason}");
    let mut reader = Reader::from_str(xml);
    let mut open: Vec<Element> = Vec::new();
    loop {
        let event = reader.read_event().map_err(|e| unreadable(&e))?;
        let name_of = |name: quick_xml::name::QName<'_>| AsRef::<str>::as_ref(&name).to_owned();
        let closed = match event {
            Event::Start(tag) => {
                if open.len() >= DEPTH_MAX {
                    return Err(format!("the XML text nests deeper than {DEPTH_MAX}"));
                }
                open.push(Element {
                    name: name_of(tag.name()),
                    ..Element::default()
                });
                None
            }
            Event::Empty(tag) => Some(Element {
                name: name_of(tag.name()),
                ..Element::default()
            }),
            Event::End(_) => open.pop(),
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text.xml10_content());
                }
                None
            }
            Event::CData(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
                None
            }
            Event::GeneralRef(reference) => {
                let name: &str = &reference;
                let resolved = match reference.resolve_char_ref() {
                    Ok(Some(c)) => Some(c.to_string()),
                    _ => quick_xml::escape::resolve_predefined_entity(name).map(str::to_owned),
                };
                let resolved =
                    resolved.ok_or_else(|| unreadable(&format!("entity '{name}' is not known")))?;
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&resolved);
                }
                None
            }
            Event::Eof => return Err(unreadable(&"it ends early")),
            _ => None,
        };
        let Some(element) = closed else {
            continue;
        };
        match open.last_mut() {
            Some(parent) => {
                parent.has_children = true;
                let value = if element.has_children {
                    Value::Object(Object::Map(Shared::new(element.children)))
                } else {
                    value_of(&element.text)
                };
                java_map::put(&mut parent.children, Value::str(&element.name), value);
            }
            None => return Ok(element.children),
        }
    }
}

/// `true` and `false` become BOOL, numbers LONG or DOUBLE.
fn value_of(text: &str) -> Value {
    match text {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Some(v) = parse_integer(text) {
        return Value::Long(v);
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    match parse_real::<f64>(text).filter(|_| is_number) {
        // A DOUBLE without a fraction reads back as LONG, as Java's NumberFormat has it.
        Some(v) if v.fract() == 0.0 && v.abs() < 9.0e18 => Value::Long(v as i64),
        Some(v) => Value::Double(v),
        None => Value::str(text),
    }
}

/// An element for each entry, nothing escaped; a null value is an error.
pub fn write(entries: &Entries) -> Result<String, String> {
    let mut out = String::new();
    write_entries(&mut out, entries, 0)?;
    Ok(out)
}

fn write_entries(out: &mut String, entries: &Entries, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("the map nests deeper than {DEPTH_MAX}"));
    }
    for (key, value) in entries {
        let key = to_text(key);
        out.push_str(&format!("<{key}>"));
        match value {
            Value::Null => return Err(format!("the value of key '{key}' is null")),
            Value::Object(Object::Map(map)) => {
                let inner = map.lock().clone();
                write_entries(out, &inner, depth + 1)?;
            }
            other => write_value(out, other),
        }
        out.push_str(&format!("</{key}>"));
    }
    Ok(())
}
