//! Mustache templates over the attributes of an event: `{{x}}` escaped for HTML, `{{{x}}}` and
//! `{{&x}}` raw, sections `{{#x}}…{{/x}}`, inverted ones `{{^x}}…{{/x}}`, comments `{{! }}`.

use std::fmt::Write;

use event::{Batch, Object, Schema, Value};

/// Nesting of sections.
const DEPTH_MAX: usize = 32;

pub(super) struct Mustache {
    parts: Vec<Part>,
}

enum Part {
    Text(String),
    Value {
        name: Name,
        is_raw: bool,
    },
    Section {
        name: Name,
        is_inverted: bool,
        parts: Vec<Part>,
    },
}

struct Name {
    /// Index of the attribute, where it is one.
    attribute: Option<usize>,
    text: String,
}

impl Mustache {
    pub fn new(text: &str, schema: &Schema) -> Result<Mustache, String> {
        let mut rest = text;
        let parts = parse(&mut rest, schema, None, 0)?;
        Ok(Mustache { parts })
    }

    pub fn write(&self, out: &mut String, batch: &Batch, row: usize) {
        write_parts(&self.parts, out, batch, row, &[]);
    }
}

/// Reads up to the end of the section `open`, or of the text.
fn parse(
    rest: &mut &str,
    schema: &Schema,
    open: Option<&str>,
    depth: usize,
) -> Result<Vec<Part>, String> {
    if depth > DEPTH_MAX {
        return Err(format!(
            "sections of the template nest deeper than {DEPTH_MAX}"
        ));
    }
    let name = |text: &str| Name {
        attribute: schema.index_of(text),
        text: text.to_owned(),
    };
    let mut parts = Vec::new();
    loop {
        let Some((before, after)) = rest.split_once("{{") else {
            if let Some(open) = open {
                return Err(format!("section '{open}' of the template is never closed"));
            }
            parts.push(Part::Text((*rest).to_owned()));
            *rest = "";
            return Ok(parts);
        };
        parts.push(Part::Text(before.to_owned()));
        let close = if after.starts_with('{') { "}}}" } else { "}}" };
        let (tag, after) = after
            .split_once(close)
            .ok_or_else(|| format!("a tag of the template is not closed by '{close}'"))?;
        *rest = after;
        let inner = tag.get(1..).unwrap_or("").trim();
        match tag.chars().next() {
            Some('!') => {}
            Some('{' | '&') => parts.push(Part::Value {
                name: name(inner),
                is_raw: true,
            }),
            Some(kind @ ('#' | '^')) => {
                let section = parse(rest, schema, Some(inner), depth + 1)?;
                parts.push(Part::Section {
                    name: name(inner),
                    is_inverted: kind == '^',
                    parts: section,
                });
            }
            Some('/') if open == Some(inner) => return Ok(parts),
            Some('/') => return Err(format!("section '{inner}' is closed but not open")),
            _ => parts.push(Part::Value {
                name: name(tag.trim()),
                is_raw: false,
            }),
        }
    }
}

fn write_parts(parts: &[Part], out: &mut String, batch: &Batch, row: usize, scopes: &[&Value]) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Value { name, is_raw } => {
                let value = look_up(name, batch, row, scopes);
                if value.is_null() {
                    continue;
                }
                let text = event::text::to_text(&value);
                if *is_raw {
                    out.push_str(&text);
                } else {
                    escape(out, &text);
                }
            }
            Part::Section {
                name,
                is_inverted,
                parts,
            } => {
                let value = look_up(name, batch, row, scopes);
                let items = match &value {
                    Value::Null | Value::Bool(false) => Vec::new(),
                    Value::Object(Object::List(list)) => list.lock().clone(),
                    Value::Object(Object::Array(items)) => items.to_vec(),
                    other => vec![other.clone()],
                };
                if *is_inverted && items.is_empty() {
                    write_parts(parts, out, batch, row, scopes);
                } else if !is_inverted {
                    for item in &items {
                        let inner: Vec<&Value> = scopes.iter().copied().chain([item]).collect();
                        write_parts(parts, out, batch, row, &inner);
                    }
                }
            }
        }
    }
}

/// Innermost scope first, then the event.
fn look_up(name: &Name, batch: &Batch, row: usize, scopes: &[&Value]) -> Value {
    if name.text == "." {
        return scopes.last().map_or(Value::Null, |value| (*value).clone());
    }
    for scope in scopes.iter().rev() {
        if let Value::Object(Object::Map(map)) = scope
            && let Some((_, value)) = map
                .lock()
                .iter()
                .find(|(key, _)| key.as_str() == Some(&name.text))
        {
            return value.clone();
        }
    }
    name.attribute
        .map_or(Value::Null, |index| batch.columns[index].value(row))
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' => out.push_str("&#96;"),
            '=' => out.push_str("&#61;"),
            '\0'..='\u{1f}' => {
                write!(out, "&#{};", c as u32).expect("writing to a string cannot fail");
            }
            _ => out.push(c),
        }
    }
}
