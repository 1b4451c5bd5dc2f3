//! Writing JSON as Gson does.

use std::fmt::Write;

use event::text::{to_text, write_double, write_float};
use event::{Object, Value};

/// Deepest nesting that is written.
const DEPTH_MAX: usize = 256;

/// What differs between the writers that Siddhi's extensions use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// `< > & = '` are escaped; numbers in Java's form.
    Gson,
    /// `org.json`: `</` is escaped, numbers without zeros at the end, no entry for a null.
    Plain,
    /// json-smart: every `/` is escaped.
    Smart,
}

pub fn to_json(value: &Value, style: Style) -> Result<String, String> {
    let mut out = String::new();
    write_json(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_json(out: &mut String, value: &Value, style: Style, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("the value nests deeper than {DEPTH_MAX}"));
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
        Value::Int(v) => write!(out, "{v}").expect("writing to a string cannot fail"),
        Value::Long(v) => write!(out, "{v}").expect("writing to a string cannot fail"),
        Value::Float(v) if !v.is_finite() => return Err("JSON has no such number".into()),
        Value::Double(v) if !v.is_finite() => return Err("JSON has no such number".into()),
        Value::Float(v) => {
            write_float(out, *v);
            shorten(out, style);
        }
        Value::Double(v) => {
            write_double(out, *v);
            shorten(out, style);
        }
        Value::Str(text) => write_text(out, text, style),
        Value::Object(Object::List(list)) => {
            let values = list.copied();
            write_array(out, &values, style, depth)?;
        }
        Value::Object(Object::Set(set)) => {
            let values = set.copied();
            write_array(out, &values, style, depth)?;
        }
        Value::Object(Object::Array(values)) => write_array(out, values, style, depth)?,
        Value::Object(Object::Map(map)) => {
            let mut entries = map.copied();
            if style == Style::Plain {
                entries.retain(|(_, value)| !value.is_null());
            }
            out.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_text(out, &to_text(key), style);
                out.push(':');
                write_json(out, value, style, depth + 1)?;
            }
            out.push('}');
        }
        Value::Object(other) => write_text(out, &to_text(&Value::Object(other.clone())), style),
    }
    Ok(())
}

/// `org.json` drops `.0` and zeros behind the point.
fn shorten(out: &mut String, style: Style) {
    if style == Style::Plain && !out.ends_with('E') {
        let start = out.rfind([',', ':', '[']).map_or(0, |i| i + 1);
        if out[start..].contains('.') && !out[start..].contains('E') {
            let kept = out.trim_end_matches('0').trim_end_matches('.').len();
            out.truncate(kept);
        }
    }
}

fn write_array(
    out: &mut String,
    values: &[Value],
    style: Style,
    depth: usize,
) -> Result<(), String> {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_json(out, value, style, depth + 1)?;
    }
    out.push(']');
    Ok(())
}

fn write_text(out: &mut String, text: &str, style: Style) {
    out.push('"');
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '/' if style == Style::Plain && before == '<' => out.push_str("\\/"),
            '/' if style == Style::Smart => out.push_str("\\/"),
            '<' | '>' | '&' | '=' | '\'' if style == Style::Gson => escape(out, c),
            '\u{2028}' | '\u{2029}' => escape(out, c),
            c if c < ' ' => escape(out, c),
            c => out.push(c),
        }
        before = c;
    }
    out.push('"');
}

fn escape(out: &mut String, c: char) {
    write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
}
