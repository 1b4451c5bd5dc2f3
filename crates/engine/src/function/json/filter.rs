//! Filters of JSON paths: `?(@.price > 10 && @.name =~ /a.*/i)`.

use std::cmp::Ordering;

use event::{Object, Value};

use super::path::Path;
use crate::function::java_regex::JavaRegex;
use crate::function::number::{parse_integer, parse_real};

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub enum Filter {
    Or(Vec<Filter>),
    And(Vec<Filter>),
    Not(Box<Filter>),
    Exists(Operand),
    Compare(Operand, Operator, Operand),
    Matches(Operand, JavaRegex),
}

#[derive(Debug)]
pub enum Operand {
    /// Below the element.
    Here(Path),
    /// Below the root.
    Root(Path),
    Literal(Value),
    List(Vec<Value>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
    Contains,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessEqual),
    (">=", Operator::GreaterEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("nin ", Operator::NotIn),
    ("in ", Operator::In),
    ("contains ", Operator::Contains),
];

impl Filter {
    pub fn accepts(&self, element: &Value, root: &Value) -> Result<bool, String> {
        Ok(match self {
            Filter::Or(parts) => {
                for part in parts {
                    if part.accepts(element, root)? {
                        return Ok(true);
                    }
                }
                false
            }
            Filter::And(parts) => {
                for part in parts {
                    if !part.accepts(element, root)? {
                        return Ok(false);
                    }
                }
                true
            }
            Filter::Not(inner) => !inner.accepts(element, root)?,
            Filter::Exists(operand) => operand.value(element, root)?.is_some(),
            Filter::Matches(operand, regex) => match operand.value(element, root)? {
                Some(Value::Str(text)) => regex.is_match(&text)?,
                _ => false,
            },
            Filter::Compare(left, operator, right) => {
                let (left, right) = (left.value(element, root)?, right.value(element, root)?);
                match (left, right) {
                    (Some(left), Some(right)) => operator.holds(&left, &right),
                    // What is not there differs from everything and is nothing else.
                    _ => *operator == Operator::NotEqual,
                }
            }
        })
    }
}

impl Operand {
    fn value(&self, element: &Value, root: &Value) -> Result<Option<Value>, String> {
        match self {
            Operand::Here(path) => path.read(element),
            Operand::Root(path) => path.read(root),
            Operand::Literal(value) => Ok(Some(value.clone())),
            Operand::List(values) => {
                let list = event::value::Shared::new(values.clone());
                Ok(Some(Value::Object(Object::List(list))))
            }
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = order(left, right);
        match self {
            Operator::Equal => equal(left, right),
            Operator::NotEqual => !equal(left, right),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Operator::In => contains(right, left),
            Operator::NotIn => !contains(right, left),
            Operator::Contains => contains(left, right),
        }
    }
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left.to_double(), right.to_double()) {
        (Some(a), Some(b)) => a == b,
        _ => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Str(a), Value::Str(b)) => Some(a.encode_utf16().cmp(b.encode_utf16())),
        _ => left.to_double()?.partial_cmp(&right.to_double()?),
    }
}

fn contains(container: &Value, value: &Value) -> bool {
    match (container, value) {
        (Value::Object(Object::List(list)), value) => list.lock().iter().any(|v| equal(v, value)),
        (Value::Str(text), Value::Str(part)) => text.contains(&**part),
        _ => false,
    }
}

/// Reads `?( … )]`; returns the filter and what stands behind the bracket.
pub fn parse_filter<'a>(text: &'a str, whole: &str) -> Result<(Filter, &'a str), String> {
    let mut parser = Parser { rest: text, whole };
    parser.expect("?")?;
    parser.expect("(")?;
    let filter = parser.or(0)?;
    parser.expect(")")?;
    parser.expect("]")?;
    Ok((filter, parser.rest))
}

struct Parser<'a, 'b> {
    rest: &'a str,
    whole: &'b str,
}

impl Parser<'_, '_> {
    fn wrong(&self) -> String {
        format!(
            "the filter in the JSON path '{}' cannot be read",
            self.whole
        )
    }

    fn accept(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn or(&mut self, depth: usize) -> Result<Filter, String> {
        let mut parts = vec![self.and(depth)?];
        while self.accept("||") {
            parts.push(self.and(depth)?);
        }
        Ok(Filter::Or(parts))
    }

    fn and(&mut self, depth: usize) -> Result<Filter, String> {
        let mut parts = vec![self.term(depth)?];
        while self.accept("&&") {
            parts.push(self.term(depth)?);
        }
        Ok(Filter::And(parts))
    }

    fn term(&mut self, depth: usize) -> Result<Filter, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong());
        }
        if self.accept("!") {
            return Ok(Filter::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.accept("(") {
            let inner = self.or(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let left = self.operand()?;
        if self.accept("=~") {
            return Ok(Filter::Matches(left, self.regex()?));
        }
        for (token, operator) in OPERATORS {
            if self.accept(token) {
                return Ok(Filter::Compare(left, *operator, self.operand()?));
            }
        }
        Ok(Filter::Exists(left))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next().ok_or_else(|| self.wrong())?;
        match first {
            '@' | '$' => {
                let length = path_length(self.rest);
                let (path, rest) = self.rest.split_at(length);
                self.rest = rest;
                let path = Path::new(path)?;
                Ok(if first == '@' {
                    Operand::Here(path)
                } else {
                    Operand::Root(path)
                })
            }
            '[' => {
                self.accept("[");
                let mut values = Vec::new();
                while !self.accept("]") {
                    values.push(self.literal()?);
                    self.accept(",");
                }
                Ok(Operand::List(values))
            }
            _ => self.literal().map(Operand::Literal),
        }
    }

    fn literal(&mut self) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        if let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let end = self.rest[1..].find(quote).ok_or_else(|| self.wrong())? + 1;
            let text = Value::str(&self.rest[1..end]);
            self.rest = &self.rest[end + 1..];
            return Ok(text);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        match word {
            "null" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            word => parse_integer(word)
                .map(Value::Long)
                .or_else(|| parse_real(word).map(Value::Double))
                .ok_or_else(|| self.wrong()),
        }
    }

    /// `/pattern/flags`, or a quoted pattern; the whole text must match.
    fn regex(&mut self) -> Result<JavaRegex, String> {
        self.rest = self.rest.trim_start();
        if !self.rest.starts_with('/') {
            return match self.literal()? {
                Value::Str(pattern) => JavaRegex::whole(&pattern),
                _ => Err(self.wrong()),
            };
        }
        let end = self.rest[1..].find('/').ok_or_else(|| self.wrong())? + 1;
        let pattern = self.rest[1..end].to_owned();
        self.rest = &self.rest[end + 1..];
        let flags = if self.accept("i") { "(?i)" } else { "" };
        JavaRegex::whole(&format!("{flags}{pattern}"))
    }
}

/// How far a path inside a filter reaches: brackets belong to it, blanks and operators do not.
fn path_length(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' if depth == 0 => return at,
            ']' | ')' => depth -= 1,
            ' ' | '=' | '!' | '<' | '>' | '&' | '|' | ',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}
