//! Reading a path.

use super::filter::{Filter, Operand, Operator, Scalar};
use super::{Error, Function, Path, STEPS_MAX, Step};
use crate::regex::Regex;

pub(super) fn parse(text: &str) -> Result<Path, Error> {
    let text = text.trim();
    let mut reader = Reader {
        text,
        at: 0,
        is_in_filter: false,
    };
    let has_root = reader.eat("$") || reader.eat("@");
    if text.is_empty() {
        return Err(reader.wrong("there is no text"));
    }
    let path = reader.path(!has_root, 0)?;
    if reader.at < text.len() {
        return Err(reader.wrong("'.' or '[' is expected"));
    }
    Ok(path)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Operators and brackets end a name.
    is_in_filter: bool,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn wrong(&self, cause: impl Into<String>) -> Error {
        Error::Syntax {
            path: self.text.to_owned(),
            cause: cause.into(),
            at: self.at,
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The token, behind blanks.
    fn accept(&mut self, token: &str) -> bool {
        self.skip_blanks();
        self.eat(token)
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.accept(token) {
            Ok(())
        } else {
            Err(self.wrong(format!("'{token}' is expected")))
        }
    }

    /// The steps behind `$` or `@`; `starts_with_name` where neither stood there.
    fn path(&mut self, starts_with_name: bool, depth: usize) -> Result<Path, Error> {
        let mut path = Path {
            steps: Vec::new(),
            function: None,
        };
        if starts_with_name && !self.rest().starts_with(['.', '[']) {
            self.name(&mut path)?;
        }
        while path.function.is_none() {
            if path.steps.len() > STEPS_MAX || depth > STEPS_MAX {
                return Err(self.wrong("there are too many steps"));
            }
            if self.eat("..") {
                path.steps.push(Step::Deep);
                if !self.rest().starts_with('[') {
                    self.name(&mut path)?;
                }
            } else if self.eat(".") {
                if !self.rest().starts_with('[') {
                    self.name(&mut path)?;
                }
            } else if self.eat("[") {
                let step = self.bracket(depth)?;
                path.steps.push(step);
            } else {
                break;
            }
        }
        Ok(path)
    }

    /// A name, `*`, or a function.
    fn name(&mut self, path: &mut Path) -> Result<(), Error> {
        if self.eat("*") {
            path.steps.push(Step::All);
            return Ok(());
        }
        let ends = |c: char| {
            matches!(c, '.' | '[' | '(')
                || c.is_whitespace()
                || self.is_in_filter
                    && matches!(c, ')' | ']' | '=' | '!' | '<' | '>' | '~' | '&' | '|' | ',')
        };
        let length = self.rest().find(ends).unwrap_or(self.rest().len());
        let name = &self.rest()[..length];
        if name.is_empty() {
            return Err(self.wrong("a name is expected"));
        }
        let after = &self.rest()[length..];
        if after.starts_with('(') {
            let known = Function::ALL.iter().find(|(known, _)| *known == name);
            let Some((_, function)) = known else {
                let names: Vec<&str> = Function::ALL.iter().map(|(name, _)| *name).collect();
                return Err(self.wrong(format!(
                    "function '{name}()' is not known, use one of {}",
                    names.join(", ")
                )));
            };
            self.at += length + 1;
            if !self.eat(")") {
                return Err(self.wrong(format!("'{name}()' takes no arguments: ')' is expected")));
            }
            path.function = Some(*function);
            return Ok(());
        }
        self.at += length;
        path.steps.push(Step::Names(vec![name.to_owned()]));
        Ok(())
    }

    /// What stands behind `[`.
    fn bracket(&mut self, depth: usize) -> Result<Step, Error> {
        if self.accept("*") {
            self.expect("]")?;
            return Ok(Step::All);
        }
        if self.accept("?") {
            self.expect("(")?;
            let outer = std::mem::replace(&mut self.is_in_filter, true);
            let filter = self.any(depth + 1)?;
            self.is_in_filter = outer;
            self.expect(")")?;
            self.expect("]")?;
            return Ok(Step::Filter(filter));
        }
        if self.rest().starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            while self.accept(",") {
                self.skip_blanks();
                names.push(self.quoted()?);
            }
            self.expect("]")?;
            return Ok(Step::Names(names));
        }
        self.indexes()
    }

    fn indexes(&mut self) -> Result<Step, Error> {
        let first = self.integer();
        if self.accept(":") {
            let last = self.integer();
            // A step of a slice is read and has no effect.
            if self.accept(":") {
                self.integer();
            }
            self.expect("]")?;
            return Ok(Step::Slice(first, last));
        }
        let index = |found: Option<i64>, reader: &Reader<'_>| {
            found.ok_or_else(|| reader.wrong("an index, or a name in quotes, is expected"))
        };
        let mut indexes = vec![index(first, self)?];
        while self.accept(",") {
            let next = self.integer();
            indexes.push(index(next, self)?);
        }
        self.expect("]")?;
        Ok(Step::Indexes(indexes))
    }

    fn integer(&mut self) -> Option<i64> {
        self.skip_blanks();
        let rest = self.rest();
        let is_part = |c: char| c == '-' || c.is_ascii_digit();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let value = rest[..length].parse().ok()?;
        self.at += length;
        Some(value)
    }

    /// A text in quotes of either kind, with escapes.
    fn quoted(&mut self) -> Result<String, Error> {
        let rest = self.rest();
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(self.wrong("a quote is expected"));
        };
        let mut out = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.at += i + 1;
                    return Ok(out);
                }
                '\\' => out.extend(chars.next().map(|(_, c)| c)),
                c => out.push(c),
            }
        }
        Err(self.wrong("a quote is never closed"))
    }

    // ---- filters ----

    fn any(&mut self, depth: usize) -> Result<Filter, Error> {
        let mut parts = vec![self.all(depth)?];
        while self.accept("||") {
            parts.push(self.all(depth)?);
        }
        Ok(Filter::Or(parts))
    }

    fn all(&mut self, depth: usize) -> Result<Filter, Error> {
        let mut parts = vec![self.term(depth)?];
        while self.accept("&&") {
            parts.push(self.term(depth)?);
        }
        Ok(Filter::And(parts))
    }

    fn term(&mut self, depth: usize) -> Result<Filter, Error> {
        if depth > STEPS_MAX {
            return Err(self.wrong("the filter nests too deep"));
        }
        if self.accept("!") {
            return Ok(Filter::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.accept("(") {
            let inner = self.any(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let left = self.operand(depth)?;
        if self.accept("=~") {
            return Ok(Filter::Matches(left, self.regex()?));
        }
        let operator = Operator::ALL.iter().find(|(token, _)| self.eat(token));
        Ok(match operator {
            None => Filter::Exists(left),
            Some((_, operator)) => Filter::Compare(left, *operator, self.operand(depth)?),
        })
    }

    fn operand(&mut self, depth: usize) -> Result<Operand, Error> {
        self.skip_blanks();
        if self.eat("@") {
            return Ok(Operand::Here(self.path(false, depth + 1)?));
        }
        if self.eat("$") {
            return Ok(Operand::Root(self.path(false, depth + 1)?));
        }
        Ok(Operand::Literal(self.literal(depth)?))
    }

    fn literal(&mut self, depth: usize) -> Result<Scalar, Error> {
        self.skip_blanks();
        for (word, literal) in [
            ("null", Scalar::Null),
            ("true", Scalar::Bool(true)),
            ("false", Scalar::Bool(false)),
        ] {
            if self.eat(word) {
                return Ok(literal);
            }
        }
        if self.rest().starts_with(['\'', '"']) {
            return Ok(Scalar::Text(self.quoted()?));
        }
        if depth <= STEPS_MAX && self.eat("[") {
            let mut list = Vec::new();
            while !self.accept("]") {
                if !list.is_empty() {
                    self.expect(",")?;
                }
                list.push(self.literal(depth + 1)?);
            }
            return Ok(Scalar::List(list));
        }
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let number = word
            .parse()
            .map_err(|_| self.wrong("a value is expected"))?;
        self.at += word.len();
        Ok(Scalar::Number(number, word.to_owned()))
    }

    /// `/pattern/flags`, or a quoted pattern; the whole text has to match.
    fn regex(&mut self) -> Result<Regex, Error> {
        self.skip_blanks();
        if self.rest().starts_with(['\'', '"']) {
            return Ok(Regex::whole(&self.quoted()?)?);
        }
        self.expect("/")?;
        let Some((pattern, after)) = self.rest().split_once('/') else {
            return Err(self.wrong("a pattern is never closed"));
        };
        let flags = after.find(|c: char| !"idmsuxU".contains(c));
        let flags = &after[..flags.unwrap_or(after.len())];
        self.at += pattern.len() + 1 + flags.len();
        if flags.is_empty() {
            return Ok(Regex::whole(pattern)?);
        }
        Ok(Regex::whole(&format!("(?{flags}){pattern}"))?)
    }
}
