//! Templates of `@payload` and of options that depend on the event: text with `{{attribute}}`.
//!
//! Values are written in Java's text forms without any escaping; white space inside the braces is
//! part of the name; the back-ticks around a template without any white space are removed
//! (`connectors.md` 1.4; Siddhi's `TemplateBuilder`).

use event::{Batch, Schema};

use crate::error::Error;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
    /// Bytes of the literal parts, to reserve room once.
    literal: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Attribute(usize),
}

impl Template {
    /// `component` is named in the error for an unknown attribute.
    pub fn new(text: &str, schema: &Schema, component: &str) -> Result<Template, Error> {
        let mut parts = Vec::new();
        let mut rest = unquote(text);
        while let Some((before, name, after)) = next_placeholder(rest) {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let index = schema.index_of(name).ok_or_else(|| {
                Error::refused(
                    component,
                    format!(
                        "stream '{}' has no attribute '{name}', which a template uses; use one of \
                         {}",
                        schema.name,
                        names(schema)
                    ),
                )
            })?;
            parts.push(Part::Attribute(index));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        let literal = parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.len(),
                Part::Attribute(_) => 16,
            })
            .sum();
        Ok(Template { parts, literal })
    }

    /// Does the text hold a placeholder?
    pub fn is_template(text: &str) -> bool {
        next_placeholder(text).is_some()
    }

    /// The text, where it does not depend on the event.
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Attributes it names, in its order.
    pub fn attributes(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().filter_map(|part| match part {
            Part::Attribute(index) => Some(*index),
            Part::Text(_) => None,
        })
    }

    /// Appends the text for a row; `null` stands for null.
    pub fn write(&self, out: &mut String, batch: &Batch, row: usize, null: &str) {
        self.write_with(out, batch, row, |_| null);
    }

    /// As [`Template::write`], with what stands for null in each of its places.
    pub fn write_each(&self, out: &mut String, batch: &Batch, row: usize, nulls: &[&str]) {
        self.write_with(out, batch, row, |place| nulls[place]);
    }

    #[inline]
    fn write_with<'n>(
        &self,
        out: &mut String,
        batch: &Batch,
        row: usize,
        null: impl Fn(usize) -> &'n str,
    ) {
        out.reserve(self.literal);
        let mut place = 0;
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Attribute(index) => {
                    let column = &batch.columns[*index];
                    if column.is_null(row) {
                        out.push_str(null(place));
                    } else {
                        crate::mapper::write_value(out, column, row);
                    }
                    place += 1;
                }
            }
        }
    }

    /// Does each of its places, in a template of JSON, stand within a string?
    pub fn placeholders_in_quotes(&self) -> Vec<bool> {
        let (mut places, mut is_quoted, mut is_escaped) = (Vec::new(), false, false);
        for part in &self.parts {
            match part {
                Part::Attribute(_) => {
                    places.push(is_quoted);
                    is_escaped = false;
                }
                Part::Text(text) => {
                    for c in text.chars() {
                        match c {
                            _ if is_escaped => is_escaped = false,
                            '\\' => is_escaped = is_quoted,
                            '"' => is_quoted = !is_quoted,
                            _ => {}
                        }
                    }
                }
            }
        }
        places
    }
}

/// Text before `{{name}}`, the name, the text behind. A name has no brace in it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let open = from + found;
        let inner = &text[open + 2..];
        let end = inner.find(['{', '}']).unwrap_or(inner.len());
        if end > 0 && inner[end..].starts_with("}}") {
            return Some((&text[..open], &inner[..end], &inner[end + 2..]));
        }
        from = open + 1;
    }
    None
}

/// Without the back-ticks around it, where it has no white space.
fn unquote(text: &str) -> &str {
    text.strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'))
        .filter(|inner| !inner.contains(char::is_whitespace))
        .unwrap_or(text)
}

/// `'a', 'b'`, for messages.
pub fn names(schema: &Schema) -> String {
    let quoted: Vec<String> = schema
        .attributes
        .iter()
        .map(|attribute| format!("'{}'", attribute.name))
        .collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper::testing::{batch, schema};
    use event::Value;

    const ATTRIBUTES: &str = "symbol string, price double, data string";

    fn check(text: &str, expect: &str) {
        let template = Template::new(text, &schema(ATTRIBUTES), "a test").expect(text);
        let row: &[Value] = &["W".into(), Value::Double(20.0), Value::Null];
        let mut out = String::new();
        template.write(&mut out, &batch(ATTRIBUTES, &[row]), 0, "null");
        assert_eq!(out, expect, "{text}");
    }

    #[test]
    fn values_take_the_place_of_their_names() {
        check("{\"data\":{{data}} }", "{\"data\":null }");
        check("{{symbol}}{{price}}", "W20.0");
        check("{{{symbol}}}", "{W}");
        check("a {{ b", "a {{ b");
        check("{{}} {x}", "{{}} {x}");
        check("", "");
    }

    #[test]
    fn back_ticks_around_a_template_without_white_space_are_removed() {
        check("`{{symbol}}`", "W");
        check("`{`{{symbol}}`}`", "{`W`}");
        check("`a`b`", "a`b");
        check("``", "");
        check("`a b`", "`a b`");
        check("`{{symbol}}` ", "`W` ");
        check("x`{{symbol}}`", "x`W`");
    }

    #[test]
    fn places_within_strings_are_known() {
        fn check(text: &str, expect: &[bool]) {
            let template = Template::new(text, &schema(ATTRIBUTES), "a test").expect(text);
            assert_eq!(template.placeholders_in_quotes(), expect, "{text}");
        }
        check(r#"{"a":"{{symbol}}","b":{{price}}}"#, &[true, false]);
        check(r#"{"a\"":{{price}},"b":"x\\{{symbol}}"}"#, &[false, true]);
        check("{{symbol}}", &[false]);
    }

    #[test]
    fn names_are_matched_as_they_are_written() {
        for bad in ["{{nope}}", "{{ symbol}}", "{{Symbol}}"] {
            assert!(
                Template::new(bad, &schema(ATTRIBUTES), "a test").is_err(),
                "{bad}"
            );
        }
        let constant = Template::new("`x`", &schema(ATTRIBUTES), "a test").expect("no names");
        assert_eq!(constant.constant(), Some("x"));
        assert!(Template::is_template("a{{b}}") && !Template::is_template("a{{b"));
    }
}
