//! Reading JSON as json-smart's permissive mode does.
//!
//! Besides JSON it takes texts in single quotes, bare words as keys and texts, extra commas, and
//! anything behind the first value.

use event::value::Shared;
use event::{Object, Value};

use crate::function::java_map::{Entries, into_hash_order};
use crate::function::number::{parse_integer, parse_real};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 60;

/// What differs between the readers that Siddhi's extensions use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Members in the order of the text; whole numbers are INT or LONG.
    Linked,
    /// Members in the order of a hash map.
    Hashed,
    /// The same, with every whole number a LONG.
    HashedLongs,
    /// Gson's: every number is a DOUBLE.
    Doubles,
}

pub fn parse(text: &str, style: Style) -> Result<Value, String> {
    let mut parser = Parser { text, at: 0, style };
    parser.value(0)
}

struct Parser<'a> {
    text: &'a str,
    /// In bytes, always at the start of a character.
    at: usize,
    style: Style,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        self.at += blank;
        self.text[self.at..].chars().next()
    }

    fn ends_early<T>(&self) -> Result<T, String> {
        Err(format!("the JSON text ends early at byte {}", self.at))
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the JSON text nests deeper than {DEPTH_MAX}"));
        }
        match self.peek() {
            None => self.ends_early(),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some(quote @ ('"' | '\'')) => Ok(Value::str(&self.quoted(quote)?)),
            Some('}' | ']' | ':' | ',') => {
                Err(format!("the JSON text has no value at byte {}", self.at))
            }
            Some(_) => Ok(self.word()),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut entries = Entries::new();
        loop {
            let key = match self.peek() {
                None => return self.ends_early(),
                Some('}') => {
                    self.at += 1;
                    break;
                }
                Some(',') => {
                    self.at += 1;
                    continue;
                }
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                Some(_) => self.bare(&[':']).to_owned(),
            };
            if self.peek() != Some(':') {
                return Err(format!("the JSON text needs a ':' at byte {}", self.at));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            let key = Value::str(&key);
            match entries.iter_mut().find(|(k, _)| *k == key) {
                Some((_, old)) => *old = value,
                None => entries.push((key, value)),
            }
            match self.peek() {
                Some(',' | '}') => {}
                None => return self.ends_early(),
                Some(_) => return Err(format!("the JSON text needs a ',' at byte {}", self.at)),
            }
        }
        if matches!(self.style, Style::Hashed | Style::HashedLongs) {
            into_hash_order(&mut entries);
        }
        Ok(Value::Object(Object::Map(Shared::new(entries))))
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut values = Vec::new();
        loop {
            match self.peek() {
                None => return self.ends_early(),
                Some(']') => {
                    self.at += 1;
                    break;
                }
                Some(',') => {
                    self.at += 1;
                    continue;
                }
                Some(_) => values.push(self.value(depth + 1)?),
            }
            match self.peek() {
                Some(',' | ']') => {}
                None => return self.ends_early(),
                Some(_) => return Err(format!("the JSON text needs a ',' at byte {}", self.at)),
            }
        }
        Ok(Value::Object(Object::List(Shared::new(values))))
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.at += 1;
        let mut out = String::new();
        // Halves of a surrogate pair, which may come as two escapes.
        let mut units: Vec<u16> = Vec::new();
        loop {
            let Some(c) = self.text[self.at..].chars().next() else {
                return self.ends_early();
            };
            self.at += c.len_utf8();
            if c == '\\' {
                if let Some(unit) = self.escape(&mut out, &mut units)? {
                    units.push(unit);
                    continue;
                }
            } else {
                flush(&mut out, &mut units);
                if c == quote {
                    return Ok(out);
                }
                out.push(c);
            }
        }
    }

    /// An escape: its character goes to `out`, a `\u` gives its unit.
    fn escape(&mut self, out: &mut String, units: &mut Vec<u16>) -> Result<Option<u16>, String> {
        let Some(c) = self.text[self.at..].chars().next() else {
            return self.ends_early();
        };
        self.at += c.len_utf8();
        if c == 'u' {
            let digits = self.text.get(self.at..self.at + 4);
            let unit = digits.and_then(|d| u16::from_str_radix(d, 16).ok());
            self.at += 4;
            return match unit {
                Some(unit) => Ok(Some(unit)),
                None => Err(format!(
                    "a JSON escape at byte {} is not a character",
                    self.at - 6
                )),
            };
        }
        flush(out, units);
        out.push(match c {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'b' => '\u{8}',
            other => other,
        });
        Ok(None)
    }

    /// A run of characters up to a separator, without blanks around.
    fn bare(&mut self, stops: &[char]) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(stops).unwrap_or(rest.len());
        self.at += length;
        rest[..length].trim()
    }

    /// A bare value: a literal, a number or a text.
    fn word(&mut self) -> Value {
        let style = self.style;
        let word = self.bare(&[',', '}', ']']);
        match word {
            "null" => return Value::Null,
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            _ => {}
        }
        let starts_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if !starts_number || word.ends_with(['f', 'F', 'd', 'D']) {
            return Value::str(word);
        }
        if style != Style::Doubles {
            let int = parse_integer(word).filter(|_| style != Style::HashedLongs);
            if let Some(v) = int {
                return Value::Int(v);
            }
            if let Some(v) = parse_integer(word) {
                return Value::Long(v);
            }
        }
        parse_real(word).map_or_else(|| Value::str(word), Value::Double)
    }
}

fn flush(out: &mut String, units: &mut Vec<u16>) {
    if !units.is_empty() {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}
