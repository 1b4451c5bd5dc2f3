//! Writing JSON as Gson does.

use std::fmt::Write;

use event::text::{to_text, write_double, write_float};
use event::value::Shared;
use event::{Object, Value};

use super::tape::Place;

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

/// As Gson writes what was read.
pub fn write_place(out: &mut String, place: Place<'_>) -> Result<(), String> {
    if let Some(text) = place.as_text() {
        write_text(out, text, Style::Gson);
    } else if let Some(members) = place.members() {
        out.push('{');
        for (number, (name, value)) in members.enumerate() {
            if number > 0 {
                out.push(',');
            }
            write_text(out, name, Style::Gson);
            out.push(':');
            write_place(out, value)?;
        }
        out.push('}');
    } else if let Some(elements) = place.elements() {
        out.push('[');
        for (number, element) in elements.enumerate() {
            if number > 0 {
                out.push(',');
            }
            write_place(out, element)?;
        }
        out.push(']');
    } else {
        write_json(out, &place.scalar_value(), Style::Gson, 0)?;
    }
    Ok(())
}

/// `depth` is that of what it is in.
pub fn write_json(
    out: &mut String,
    value: &Value,
    style: Style,
    depth: usize,
) -> Result<(), String> {
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
        Value::Object(Object::Map(map)) => write_map(out, map, style, depth)?,
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

/// What is in it is written while it is locked, but for what may hold it again.
fn write_map(
    out: &mut String,
    map: &Shared<Vec<(Value, Value)>>,
    style: Style,
    depth: usize,
) -> Result<(), String> {
    out.push('{');
    let (mut next, mut is_first) = (0, true);
    loop {
        let entries = map.lock();
        let mut inner = None;
        for (key, value) in entries.iter().skip(next) {
            next += 1;
            if style == Style::Plain && value.is_null() {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            match (key, value) {
                (Value::Object(_), _) | (_, Value::Object(_)) => {
                    inner = Some((key.clone(), value.clone()));
                    break;
                }
                _ => write_member(out, key, value, style, depth)?,
            }
        }
        drop(entries);
        match inner {
            None => break,
            Some((key, value)) => write_member(out, &key, &value, style, depth)?,
        }
    }
    out.push('}');
    Ok(())
}

fn write_member(
    out: &mut String,
    key: &Value,
    value: &Value,
    style: Style,
    depth: usize,
) -> Result<(), String> {
    match key {
        Value::Str(name) => write_text(out, name, style),
        other => write_text(out, &to_text(other), style),
    }
    out.push(':');
    write_json(out, value, style, depth + 1)
}

/// Bytes that are not written as they are, in one of the styles at least. Of U+2028 and U+2029 it is the first.
static IS_LOOKED_AT: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        bytes[byte] = true;
        byte += 1;
    }
    let others = *b"\"\\/<>&='\xe2";
    let mut at = 0;
    while at < others.len() {
        bytes[others[at] as usize] = true;
        at += 1;
    }
    bytes
};

pub fn write_text(out: &mut String, text: &str, style: Style) {
    out.reserve(text.len() + 2);
    out.push('"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !IS_LOOKED_AT[usize::from(byte)] {
            continue;
        }
        let (short, length) = match byte {
            b'"' => ("\\\"", 1),
            b'\\' => ("\\\\", 1),
            b'\t' => ("\\t", 1),
            b'\n' => ("\\n", 1),
            b'\r' => ("\\r", 1),
            b'\x08' => ("\\b", 1),
            b'\x0c' => ("\\f", 1),
            b'/' if style == Style::Plain && bytes[..at].ends_with(b"<") => ("\\/", 1),
            b'/' if style == Style::Smart => ("\\/", 1),
            b'<' | b'>' | b'&' | b'=' | b'\'' if style == Style::Gson => ("", 1),
            0xe2 if matches!(bytes[at..], [_, 0x80, 0xa8 | 0xa9, ..]) => ("", 3),
            byte if byte < b' ' => ("", 1),
            _ => continue,
        };
        out.push_str(&text[written..at]);
        written = at + length;
        match short {
            "" => text[at..written].chars().for_each(|c| escape(out, c)),
            short => out.push_str(short),
        }
    }
    out.push_str(&text[written..]);
    out.push('"');
}

fn escape(out: &mut String, c: char) {
    write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
}
