//! Reading JSON as json-smart's permissive mode does.
//!
//! Besides JSON it takes texts in single quotes, bare words as keys and texts, extra commas, and
//! anything behind the first value.

use std::borrow::Cow;
use std::ops::Range;

use event::Value;
use memchr::memchr2;

use super::tape::{Item, Place, Tape};
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
    Tape::default().parse(text, style)
}

impl Tape {
    /// Reads a text, to look at it where it lies.
    pub fn read<'t>(&'t mut self, text: &'t str, style: Style) -> Result<Place<'t>, String> {
        let root = self.take(text, style)?;
        Ok(self.place(text, root))
    }

    /// The value of a text.
    pub fn parse(&mut self, text: &str, style: Style) -> Result<Value, String> {
        let root = self.take(text, style)?;
        Ok(self.value(text, root))
    }

    fn take(&mut self, text: &str, style: Style) -> Result<Item, String> {
        self.clear();
        if u32::try_from(text.len()).is_err() {
            return Err("the JSON text is larger than 4 GiB".into());
        }
        let mut parser = Parser {
            text,
            at: 0,
            style,
            tape: self,
        };
        parser.value(0)
    }
}

struct Parser<'a, 't> {
    text: &'a str,
    /// In bytes, always at the start of a character.
    at: usize,
    style: Style,
    tape: &'t mut Tape,
}

impl<'a> Parser<'a, '_> {
    fn peek(&mut self) -> Option<char> {
        let bytes = self.text.as_bytes();
        // Blanks beyond ASCII are for the rest of this function.
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\t'..=b'\r' | b' ' => self.at += 1,
                byte if byte.is_ascii() => return Some(char::from(byte)),
                _ => break,
            }
        }
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        self.at += blank;
        self.text[self.at..].chars().next()
    }

    fn ends_early<T>(&self) -> Result<T, String> {
        Err(format!("the JSON text ends early at byte {}", self.at))
    }

    fn value(&mut self, depth: usize) -> Result<Item, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the JSON text nests deeper than {DEPTH_MAX}"));
        }
        match self.peek() {
            None => self.ends_early(),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some(quote @ ('"' | '\'')) => {
                let text = self.quoted(quote as u8)?;
                Ok(Item::Text(self.tape.span(self.text, text)))
            }
            Some('}' | ']' | ':' | ',') => {
                Err(format!("the JSON text has no value at byte {}", self.at))
            }
            Some(_) => Ok(self.word()),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Item, String> {
        self.at += 1;
        let begun = self.tape.begin();
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
                Some(quote @ ('"' | '\'')) => self.quoted(quote as u8)?,
                Some(_) => Cow::Borrowed(self.bare(b":")),
            };
            if self.peek() != Some(':') {
                return Err(format!("the JSON text needs a ':' at byte {}", self.at));
            }
            self.at += 1;
            let name = self.tape.span(self.text, key);
            let value = self.value(depth + 1)?;
            self.tape.member(name, value);
            match self.peek() {
                Some(',' | '}') => {}
                None => return self.ends_early(),
                Some(_) => return Err(format!("the JSON text needs a ',' at byte {}", self.at)),
            }
        }
        let is_hashed = matches!(self.style, Style::Hashed | Style::HashedLongs);
        Ok(self.tape.end_map(begun, self.text, is_hashed))
    }

    fn array(&mut self, depth: usize) -> Result<Item, String> {
        self.at += 1;
        let begun = self.tape.begin();
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
                Some(_) => {
                    let element = self.value(depth + 1)?;
                    self.tape.element(element);
                }
            }
            match self.peek() {
                Some(',' | ']') => {}
                None => return self.ends_early(),
                Some(_) => return Err(format!("the JSON text needs a ',' at byte {}", self.at)),
            }
        }
        Ok(self.tape.end_list(begun))
    }

    /// A text in quotes: without escapes it is a part of the whole.
    fn quoted(&mut self, quote: u8) -> Result<Cow<'a, str>, String> {
        self.at += 1;
        let text = self.text;
        let run = self.run(quote)?;
        if run.1 == quote {
            return Ok(Cow::Borrowed(&text[run.0]));
        }
        let mut out = text[run.0].to_owned();
        // Halves of a surrogate pair, which may come as two escapes.
        let mut units: Vec<u16> = Vec::new();
        loop {
            if let Some(unit) = self.escape(&mut out, &mut units)? {
                units.push(unit);
            }
            let (run, end) = self.run(quote)?;
            if !run.is_empty() || end == quote {
                flush(&mut out, &mut units);
            }
            out.push_str(&text[run]);
            if end == quote {
                return Ok(Cow::Owned(out));
            }
        }
    }

    /// Passes over what is neither an escape nor the end, and the byte behind it, which is one of both.
    fn run(&mut self, quote: u8) -> Result<(Range<usize>, u8), String> {
        let rest = &self.text.as_bytes()[self.at..];
        let Some(length) = memchr2(quote, b'\\', rest) else {
            self.at = self.text.len();
            return self.ends_early();
        };
        let run = self.at..self.at + length;
        self.at = run.end + 1;
        Ok((run, rest[length]))
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
    fn bare(&mut self, stops: &[u8]) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.bytes().position(|byte| stops.contains(&byte));
        let length = length.unwrap_or(rest.len());
        self.at += length;
        rest[..length].trim()
    }

    /// A bare value: a literal, a number or a text.
    fn word(&mut self) -> Item {
        let style = self.style;
        let word = self.bare(b",}]");
        match word {
            "null" => return Item::Null,
            "true" => return Item::Bool(true),
            "false" => return Item::Bool(false),
            _ => {}
        }
        let starts_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if !starts_number || word.ends_with(['f', 'F', 'd', 'D']) {
            return self.text_item(word);
        }
        if style != Style::Doubles
            && let Some(long) = parse_integer::<i64>(word)
        {
            return match i32::try_from(long) {
                Ok(int) if style != Style::HashedLongs => Item::Int(int),
                _ => Item::Long(long),
            };
        }
        match parse_real(word) {
            Some(number) => Item::Double(number),
            None => self.text_item(word),
        }
    }

    fn text_item(&mut self, text: &'a str) -> Item {
        Item::Text(self.tape.span(self.text, Cow::Borrowed(text)))
    }
}

fn flush(out: &mut String, units: &mut Vec<u16>) {
    if !units.is_empty() {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}
