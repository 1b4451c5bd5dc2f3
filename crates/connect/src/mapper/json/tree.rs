//! The strict parser: text to a tree that borrows from it. The reference for everything faster.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use event::value::Shared;
use event::{Object, Value};
use javatext::json_path::{self, Scalar};

use super::write_string;

/// Nesting of objects and lists.
pub(in crate::mapper) const DEPTH_MAX: usize = 256;

/// Values in one tree.
const NODES_MAX: usize = 4 << 20;

#[derive(Clone, PartialEq, Debug)]
pub(in crate::mapper) enum Node<'a> {
    Null,
    Bool(bool),
    /// As written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// All entries in their order, repeated keys included; the last of a key counts.
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::mapper) struct Fault {
    pub byte: usize,
    pub what: &'static str,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no valid JSON at byte {}: {}", self.byte, self.what)
    }
}

impl<'a> Node<'a> {
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self {
            Node::Map(entries) => entries.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Is it a number with a point or an exponent?
    pub fn is_real(number: &str) -> bool {
        number.contains(['.', 'e', 'E'])
    }

    /// Appends compact JSON, numbers as they are written.
    pub fn write(&self, out: &mut String) {
        self.write_as(out, Style::Written);
    }

    /// Appends compact JSON in one of the styles of the libraries that Siddhi uses.
    pub fn write_as(&self, out: &mut String, style: Style) {
        match self {
            Node::Null => out.push_str("null"),
            Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Node::Number(text) if style == Style::Written => out.push_str(text),
            Node::Number(text) => out.push_str(&number_text(text)),
            Node::Text(text) => style.write_string(out, text),
            Node::List(list) => {
                out.push('[');
                for (i, node) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    node.write_as(out, style);
                }
                out.push(']');
            }
            Node::Map(entries) => {
                out.push('{');
                for (i, (key, node)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    style.write_string(out, key);
                    out.push(':');
                    node.write_as(out, style);
                }
                out.push('}');
            }
        }
    }

    /// As the value of an OBJECT attribute: numbers are int, long or double, by their text.
    pub fn to_value(&self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Number(text) => number_value(text),
            Node::Text(text) => Value::str(text),
            Node::List(list) => Value::Object(Object::List(Shared::new(
                list.iter().map(Node::to_value).collect(),
            ))),
            Node::Map(entries) => {
                // A key given twice keeps its first place and its last value.
                let mut places: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
                let mut map: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
                for (key, node) in entries {
                    let value = node.to_value();
                    match places.entry(key) {
                        Entry::Occupied(place) => map[*place.get()].1 = value,
                        Entry::Vacant(place) => {
                            place.insert(map.len());
                            map.push((Value::str(key), value));
                        }
                    }
                }
                Value::Object(Object::Map(Shared::new(map)))
            }
        }
    }
}

impl json_path::Node for &Node<'_> {
    fn scalar(&self) -> Scalar {
        match self {
            Node::Null => Scalar::Null,
            Node::Bool(value) => Scalar::Bool(*value),
            Node::Number(text) => {
                let number = fast_float2::parse(text.as_bytes()).unwrap_or(f64::NAN);
                Scalar::Number(number, number_text(text).into_owned())
            }
            Node::Text(text) => Scalar::Text(text.clone().into_owned()),
            Node::List(list) => Scalar::List(list.iter().map(|node| node.scalar()).collect()),
            Node::Map(entries) => {
                let entries = entries.iter();
                Scalar::Object(
                    entries
                        .map(|(key, node)| (key.clone().into_owned(), node.scalar()))
                        .collect(),
                )
            }
        }
    }

    fn size(&self) -> Option<usize> {
        match self {
            Node::List(list) => Some(list.len()),
            Node::Map(entries) => Some(entries.len()),
            _ => None,
        }
    }

    fn is_object(&self) -> bool {
        matches!(self, Node::Map(_))
    }

    fn member(&self, name: &str) -> Option<Self> {
        self.get(name)
    }

    fn element(&self, index: usize) -> Option<Self> {
        match self {
            Node::List(list) => list.get(index),
            _ => None,
        }
    }

    fn children(&self) -> Vec<Self> {
        match self {
            Node::List(list) => list.iter().collect(),
            Node::Map(entries) => entries.iter().map(|(_, node)| node).collect(),
            _ => Vec::new(),
        }
    }
}

/// How values are written as JSON text again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::mapper) enum Style {
    /// Numbers keep the text they had.
    Written,
    /// Numbers in Java's form.
    Java,
    /// The same, and `<`, `>`, `&`, `=` and `'` escaped, as Gson does by default.
    Gson,
    /// The same as `Java`, and `/` and rare blanks escaped, as json-smart does.
    Smart,
}

impl Style {
    fn write_string(self, out: &mut String, text: &str) {
        use std::fmt::Write;

        let escapes = |c: char| match self {
            Style::Written | Style::Java => false,
            Style::Gson => matches!(c, '<' | '>' | '&' | '=' | '\''),
            Style::Smart => matches!(c, '/' | '\u{7f}'..='\u{9f}' | '\u{2000}'..='\u{20ff}'),
        };
        if !text.contains(escapes) {
            return write_string(out, text);
        }
        let mut quoted = String::with_capacity(text.len() + 2);
        write_string(&mut quoted, text);
        for c in quoted.chars() {
            match c {
                '/' if self == Style::Smart => out.push_str("\\/"),
                c if escapes(c) && self == Style::Smart => {
                    write!(out, "\\u{:04X}", c as u32).expect("writing to a string cannot fail");
                }
                c if escapes(c) => {
                    write!(out, "\\u{:04x}", c as u32).expect("writing to a string cannot fail");
                }
                c => out.push(c),
            }
        }
    }
}

/// Longest real number that Java reads as a double; longer ones keep all their digits.
const DOUBLE_LEN_MAX: usize = 18;

/// A number as Java prints it once it is read.
pub(super) fn number_text(text: &str) -> Cow<'_, str> {
    let keeps_digits = text.len() > DOUBLE_LEN_MAX && !text.contains(['e', 'E']);
    match text {
        "-0" => Cow::Borrowed("0"),
        _ if !Node::is_real(text) || keeps_digits => Cow::Borrowed(text),
        _ => {
            let number = fast_float2::parse(text).unwrap_or(f64::NAN);
            Cow::Owned(event::text::to_text(&Value::Double(number)))
        }
    }
}

fn number_value(text: &str) -> Value {
    let real = || Value::Double(fast_float2::parse(text).unwrap_or(f64::NAN));
    if Node::is_real(text) {
        return real();
    }
    match text.parse::<i64>() {
        Ok(long) => i32::try_from(long).map_or(Value::Long(long), Value::Int),
        Err(_) => real(),
    }
}

/// Reads a whole document.
pub(in crate::mapper) fn parse(text: &str) -> Result<Node<'_>, Fault> {
    let mut parser = Parser::new(text);
    parser.skip_blanks();
    let node = parser.value(0)?;
    parser.skip_blanks();
    if parser.at < text.len() {
        return Err(parser.fault("unexpected text after the document"));
    }
    Ok(node)
}

/// Checks a whole document without keeping it.
pub(super) fn validate(text: &str) -> Result<(), Fault> {
    let mut parser = Parser::new(text);
    parser.is_dry = true;
    parser.skip_blanks();
    parser.value(0)?;
    parser.skip_blanks();
    if parser.at < text.len() {
        return Err(parser.fault("unexpected text after the document"));
    }
    Ok(())
}

/// The elements of a valid document that is a list, one at a time.
pub(super) struct Elements<'a> {
    parser: Parser<'a>,
}

impl<'a> Elements<'a> {
    /// `None` where the text does not begin with `[`.
    pub fn new(text: &'a str) -> Option<Elements<'a>> {
        let mut parser = Parser::new(text);
        parser.skip_blanks();
        (parser.peek() == Some(b'[')).then(|| {
            parser.at += 1;
            Elements { parser }
        })
    }

    /// The next element with its text.
    pub fn next_element(&mut self) -> Option<Result<(&'a str, Node<'a>), Fault>> {
        let parser = &mut self.parser;
        parser.skip_blanks();
        match parser.peek() {
            Some(b',') => parser.at += 1,
            Some(b']') | None => return None,
            Some(_) => {}
        }
        parser.skip_blanks();
        let start = parser.at;
        parser.nodes = 0;
        Some(
            parser
                .value(1)
                .map(|node| (&parser.text[start..parser.at], node)),
        )
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: usize,
    /// Nothing is kept.
    is_dry: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        Parser {
            text,
            bytes: text.as_bytes(),
            at: 0,
            nodes: 0,
            is_dry: false,
        }
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault {
            byte: self.at,
            what,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, Fault> {
        if depth > DEPTH_MAX {
            return Err(self.fault("it nests too deep"));
        }
        if !self.is_dry {
            self.nodes += 1;
            if self.nodes > NODES_MAX {
                return Err(self.fault("it has too many values"));
            }
        }
        match self.peek() {
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Node::Text(self.string()?)),
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'n') => self.word("null", Node::Null),
            Some(b'-' | b'0'..=b'9') => {
                let start = self.at;
                let (end, _) =
                    number(self.bytes, start).ok_or_else(|| self.fault("a number is malformed"))?;
                self.at = end;
                Ok(Node::Number(Cow::Borrowed(&self.text[start..end])))
            }
            Some(_) => Err(self.fault("a value is expected")),
            None => Err(self.fault("the text ends where a value is expected")),
        }
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Result<Node<'a>, Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.fault("a value is expected"));
        }
        self.at += word.len();
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Node<'a>, Fault> {
        self.at += 1;
        let mut list = Vec::new();
        self.skip_blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::List(list));
        }
        loop {
            self.skip_blanks();
            let node = self.value(depth + 1)?;
            if !self.is_dry {
                list.push(node);
            }
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::List(list));
                }
                _ => return Err(self.fault("',' or ']' is expected")),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Node<'a>, Fault> {
        self.at += 1;
        let mut entries = Vec::new();
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Map(entries));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.fault("a name in quotes is expected"));
            }
            let key = self.string()?;
            self.skip_blanks();
            if self.peek() != Some(b':') {
                return Err(self.fault("':' is expected"));
            }
            self.at += 1;
            self.skip_blanks();
            let node = self.value(depth + 1)?;
            if !self.is_dry {
                entries.push((key, node));
            }
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Map(entries));
                }
                _ => return Err(self.fault("',' or '}' is expected")),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let text = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Cow::Borrowed(text));
                }
                Some(b'\\') => return self.escaped(start),
                Some(0..=0x1f) => {
                    return Err(self.fault("unescaped control character in a string"));
                }
                Some(_) => self.at += 1,
                None => return Err(self.fault("a string is never closed")),
            }
        }
    }

    /// The rest of a string that has an escape at the current place.
    fn escaped(&mut self, start: usize) -> Result<Cow<'a, str>, Fault> {
        let mut out = self.text[start..self.at].to_owned();
        loop {
            let from = self.at;
            while !matches!(self.peek(), Some(b'"' | b'\\' | 0..=0x1f) | None) {
                self.at += 1;
            }
            out.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    out.push(c);
                }
                Some(_) => {
                    return Err(self.fault("unescaped control character in a string"));
                }
                None => return Err(self.fault("a string is never closed")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.fault("an escape is unknown")),
        };
        self.at += 1;
        Ok(c)
    }

    /// Four hexadecimal digits, or a surrogate pair. A lone surrogate, which Java would keep, cannot
    /// be written in UTF-8 and becomes U+FFFD.
    fn unicode(&mut self) -> Result<char, Fault> {
        let high = self.hex()?;
        if !(0xd800..0xe000).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or('\u{fffd}'));
        }
        if high < 0xdc00 && self.bytes.get(self.at..self.at + 2) == Some(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.at = back;
        }
        Ok('\u{fffd}')
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = self.bytes.get(self.at..self.at + 4).unwrap_or(&[]);
        let mut code = 0;
        for &digit in digits {
            let digit = char::from(digit)
                .to_digit(16)
                .ok_or_else(|| self.fault("an escape needs four hexadecimal digits"))?;
            code = code * 16 + digit;
        }
        if digits.len() < 4 {
            return Err(self.fault("an escape needs four hexadecimal digits"));
        }
        self.at += 4;
        Ok(code)
    }
}

/// The end of the number at `at`, and whether it has a point or an exponent; `None` where JSON knows
/// no such number.
#[inline]
pub(super) fn number(bytes: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let digits = |mut at: usize| {
        let start = at;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > start).then_some(at)
    };
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match bytes.get(at) {
        Some(b'0') => at + 1,
        _ => digits(at)?,
    };
    let mut is_real = false;
    if bytes.get(at) == Some(&b'.') {
        is_real = true;
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        is_real = true;
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some((at, is_real))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let mut out = String::new();
        match parse(text) {
            Ok(node) => node.write(&mut out),
            Err(fault) => out = format!("{}: {}", fault.byte, fault.what),
        }
        assert_eq!(out, expect, "{text:?}");
        assert_eq!(validate(text).is_ok(), parse(text).is_ok(), "{text:?}");
    }

    #[test]
    fn documents() {
        check(
            r#" {"a" : [1, 2.50,-0e+1],"b":{"c":null}} "#,
            r#"{"a":[1,2.50,-0e+1],"b":{"c":null}}"#,
        );
        check(r#""\u00e9\ud83d\ude00\/\n""#, "\"é😀/\\n\"");
        check(r#""\ud83dx""#, "\"\u{fffd}x\"");
        check("[]", "[]");
        check("{}", "{}");
        check("true", "true");
    }

    #[test]
    fn what_is_no_json() {
        for bad in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "{'a':1}",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "nul",
            "NaN",
            "[1 2]",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"",
            "1 2",
            "// c\n1",
            "\u{feff}1",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
            assert!(validate(bad).is_err(), "{bad:?}");
        }
        let deep = "[".repeat(10_000);
        assert_eq!(parse(&deep).map_err(|f| f.what), Err("it nests too deep"));
    }
}
