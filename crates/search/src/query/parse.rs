//! Reads Lucene's classic syntax: `title:fox AND (text:"quick fox"~2 OR -year:[1990 TO 2000})^2`.
//!
//! Promises: it never panics and takes time that is linear in the text; what is not a query is an error with its
//! place. As in Lucene, `a AND b OR c` is `+a +b c`, and a group that only excludes has no results.

use super::{Bound, Clause, Closeness, Node, Occur, Piece, Placed, QueryError, Test};

/// Bytes of a query.
pub(crate) const TEXT_MAX: usize = 64 << 10;

/// Groups inside each other.
pub(crate) const DEPTH_MAX: usize = 50;

/// Clauses of a query, as in Lucene.
pub(crate) const CLAUSES_MAX: usize = 1024;

/// Characters that may stand between the words of a phrase.
const SLOP_MAX: u32 = 10_000;

/// Characters that end a term unless a backslash stands before them.
const SPECIAL: &[char] = &[
    '!', '(', ')', ':', '^', '[', ']', '"', '{', '}', '~', '*', '?', '\\', '+', '-', '&', '|',
];

/// Reads a query. An empty one means all.
///
/// # Errors
/// What is wrong, and where.
pub(crate) fn parse(text: &str) -> Result<Node, QueryError> {
    if text.len() > TEXT_MAX {
        return Err(QueryError {
            message: format!("it has more than {TEXT_MAX} bytes"),
            place: None,
        });
    }
    let mut parser = Parser {
        text: text.chars().collect(),
        at: 0,
        clauses: 0,
    };
    parser.skip_space();
    if parser.peek().is_none() {
        return Ok(Node::All);
    }
    let node = parser.group(None, 0)?;
    match parser.peek() {
        None => Ok(node),
        Some(c) => Err(parser.wrong(format!("'{c}' closes nothing"))),
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    clauses: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn ahead(&self, by: usize) -> Option<char> {
        self.text.get(self.at + by).copied()
    }

    fn take(&mut self, c: char) -> bool {
        let is_there = self.peek() == Some(c);
        self.at += usize::from(is_there);
        is_there
    }

    fn take_word(&mut self, word: &str) -> bool {
        let len = word.chars().count();
        let is_there = word
            .chars()
            .enumerate()
            .all(|(by, c)| self.ahead(by) == Some(c));
        // A word ends where its letters do; signs do not need that.
        let ends = !word.ends_with(char::is_alphabetic)
            || self
                .ahead(len)
                .is_none_or(|c| is_space(c) || "()".contains(c));
        if is_there && ends {
            self.at += len;
        }
        is_there && ends
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn wrong(&self, message: impl Into<String>) -> QueryError {
        QueryError::new(message, self.at..self.at + 1)
    }

    /// Clauses up to the end or a closing parenthesis.
    fn group(&mut self, field: Option<&Placed>, depth: usize) -> Result<Node, QueryError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!(
                "its groups are nested deeper than {DEPTH_MAX} levels"
            )));
        }
        let mut clauses: Vec<Clause> = Vec::new();
        loop {
            self.skip_space();
            if self.peek().is_none_or(|c| c == ')') {
                break;
            }
            let place = self.at;
            let is_and = self.take_word("AND") || self.take_word("&&");
            let is_or = !is_and && (self.take_word("OR") || self.take_word("||"));
            if (is_and || is_or) && clauses.is_empty() {
                return Err(QueryError::new(
                    "a clause must stand before 'AND' and 'OR'",
                    place..self.at,
                ));
            }
            self.skip_space();
            let occur = self.modifier();
            self.skip_space();
            if self.peek().is_none_or(|c| c == ')') {
                return Err(self.wrong("it ends where a clause is expected"));
            }
            let (node, boost) = self.clause(field, depth)?;
            self.clauses += 1;
            if self.clauses > CLAUSES_MAX {
                return Err(QueryError::new(
                    format!("it has more than {CLAUSES_MAX} clauses"),
                    place..self.at,
                ));
            }
            // Lucene's rules: AND makes the clause before it required, too.
            if is_and
                && let Some(before) = clauses.last_mut()
                && before.occur == Occur::Should
            {
                before.occur = Occur::Must;
            }
            let occur = match occur {
                Some(occur) => occur,
                None if is_and => Occur::Must,
                None => Occur::Should,
            };
            clauses.push(Clause { occur, node, boost });
        }
        if clauses.is_empty() {
            return Err(self.wrong("a group is empty"));
        }
        Ok(Node::Group(clauses))
    }

    fn modifier(&mut self) -> Option<Occur> {
        if self.take_word("NOT") || self.take('!') || self.take('-') {
            return Some(Occur::Not);
        }
        self.take('+').then_some(Occur::Must)
    }

    fn clause(&mut self, field: Option<&Placed>, depth: usize) -> Result<(Node, f32), QueryError> {
        let own = self.field()?;
        let field = own.as_ref().or(field);
        self.skip_space();
        let node = if self.take('(') {
            let node = self.group(field, depth + 1)?;
            if !self.take(')') {
                return Err(self.wrong("a group is not closed: ')' is missing"));
            }
            node
        } else {
            let begin = self.at;
            let test = self.test(own.is_some())?;
            let place = begin..self.at;
            match field {
                Some(field) if field.text == "*" => match test {
                    Test::Exists => Node::All,
                    _ => return Err(QueryError::new("behind '*:' stands '*' alone", place)),
                },
                Some(field) => Node::Field {
                    field: field.clone(),
                    test,
                    place,
                },
                None => {
                    return Err(QueryError::new(
                        "a term must have a field: write 'column:term'",
                        place,
                    ));
                }
            }
        };
        let mut boost = 1.0;
        if self.take('^') {
            let place = self.at;
            let number = self.number();
            boost = number.parse().unwrap_or(f32::NAN);
            if !(boost.is_finite() && boost >= 0.0) {
                return Err(QueryError::new(
                    "behind '^' stands a number, such as '^2'",
                    place..self.at,
                ));
            }
        }
        Ok((node, boost))
    }

    /// `name:`, if one stands here.
    fn field(&mut self) -> Result<Option<Placed>, QueryError> {
        let begin = self.at;
        if self.peek() == Some('*') && self.ahead(1) == Some(':') {
            self.at += 2;
            return Ok(Some(Placed {
                text: "*".to_owned(),
                place: begin..begin + 1,
            }));
        }
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => text.push(self.escaped()?),
                '-' | '+' if !text.is_empty() => {
                    text.push(c);
                    self.at += 1;
                }
                _ if is_space(c) || SPECIAL.contains(&c) => break,
                _ => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        let end = self.at;
        self.skip_space();
        if !text.is_empty() && self.take(':') {
            return Ok(Some(Placed {
                text,
                place: begin..end,
            }));
        }
        self.at = begin;
        Ok(None)
    }

    fn test(&mut self, is_behind_field: bool) -> Result<Test, QueryError> {
        match self.peek() {
            Some('"') => self.phrase(),
            Some('[' | '{') => self.range(),
            _ => self.term(is_behind_field),
        }
    }

    fn phrase(&mut self) -> Result<Test, QueryError> {
        let text = self.quoted()?;
        let mut slop = 0;
        if self.take('~') {
            let place = self.at;
            let number: f64 = match self.number().as_str() {
                "" => 0.0,
                number => number.parse().unwrap_or(f64::NAN),
            };
            if !(0.0..=f64::from(SLOP_MAX)).contains(&number) {
                return Err(QueryError::new(
                    format!("behind the '~' of a phrase stands a whole number up to {SLOP_MAX}"),
                    place..self.at,
                ));
            }
            slop = number as u32;
        }
        Ok(Test::Phrase { text, slop })
    }

    /// A text in quotes, without them.
    fn quoted(&mut self) -> Result<String, QueryError> {
        let begin = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => {
                    return Err(QueryError::new(
                        "a quoted text is not closed: '\"' is missing",
                        begin..begin + 1,
                    ));
                }
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => text.push(self.escaped()?),
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn range(&mut self) -> Result<Test, QueryError> {
        let begin = self.at;
        let includes = self.peek() == Some('[');
        self.at += 1;
        let from = self.end(includes)?;
        self.skip_space();
        if !self.take_word("TO") {
            return Err(self.wrong("a range is '[a TO b]': 'TO' is missing"));
        }
        let place = self.at;
        // Whether the end is meant is said behind it.
        let to = self.end(true)?;
        self.skip_space();
        let includes = self.take(']');
        if !includes && !self.take('}') {
            return Err(QueryError::new(
                "a range is not closed: ']' or '}' is missing",
                begin..place,
            ));
        }
        let to = match to {
            Bound::Included(text) if !includes => Bound::Excluded(text),
            to => to,
        };
        Ok(Test::Range { from, to })
    }

    /// One end of a range.
    fn end(&mut self, includes: bool) -> Result<Bound, QueryError> {
        self.skip_space();
        let is_quoted = self.peek() == Some('"');
        let mut text = String::new();
        let mut is_escaped = false;
        if is_quoted {
            text = self.quoted()?;
        } else {
            while let Some(c) = self.peek() {
                match c {
                    '\\' => {
                        is_escaped = true;
                        text.push(self.escaped()?);
                    }
                    ']' | '}' => break,
                    _ if is_space(c) => break,
                    _ => {
                        text.push(c);
                        self.at += 1;
                    }
                }
            }
            if text.is_empty() {
                return Err(
                    self.wrong("a range has an end that is missing: write '*' for an open one")
                );
            }
        }
        Ok(match text.as_str() {
            "*" if !is_quoted && !is_escaped => Bound::Open,
            _ if includes => Bound::Included(text),
            _ => Bound::Excluded(text),
        })
    }

    fn term(&mut self, is_behind_field: bool) -> Result<Test, QueryError> {
        let begin = self.at;
        let mut pieces = Vec::new();
        let mut is_pattern = false;
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    pieces.push(Piece::Char(self.escaped()?));
                    continue;
                }
                '*' => {
                    is_pattern = true;
                    pieces.push(Piece::Many);
                }
                '?' => {
                    is_pattern = true;
                    pieces.push(Piece::One);
                }
                // `n:-5`, and within a word.
                '-' | '+' if !pieces.is_empty() || is_behind_field => pieces.push(Piece::Char(c)),
                '&' | '|' if self.ahead(1) != Some(c) => pieces.push(Piece::Char(c)),
                '/' if pieces.is_empty() => {
                    return Err(self.wrong(
                        "regular expressions are not answered: write '\\/' for a slash, or a pattern with '*' and '?'",
                    ));
                }
                ':' => {
                    return Err(
                        self.wrong("a ':' too many: write '\\:' where it belongs to the term")
                    );
                }
                _ if is_space(c) || SPECIAL.contains(&c) => break,
                _ => pieces.push(Piece::Char(c)),
            }
            self.at += 1;
        }
        if pieces.is_empty() {
            let found = self
                .peek()
                .map_or("the end".to_owned(), |c| format!("'{c}'"));
            return Err(self.wrong(format!("{found} stands where a term is expected")));
        }
        let text = || -> String {
            let chars = pieces.iter().filter_map(|piece| match piece {
                Piece::Char(c) => Some(*c),
                Piece::One | Piece::Many => None,
            });
            chars.collect()
        };
        let place = begin..self.at;
        if is_pattern {
            return match pieces.as_slice() {
                [Piece::Many] => Ok(Test::Exists),
                [Piece::Char(_), ..] => Ok(Test::Wildcard(pieces)),
                _ => Err(QueryError::new(
                    "a term cannot begin with '*' or '?'",
                    place,
                )),
            };
        }
        let text = text();
        if !self.take('~') {
            return Ok(Test::Term(text));
        }
        self.closeness(text, begin)
    }

    fn closeness(&mut self, text: String, begin: usize) -> Result<Test, QueryError> {
        let closeness = match self.number().as_str() {
            "" | "2" | "2.0" => Closeness::Edits(2),
            "0" => Closeness::Edits(0),
            "1" => Closeness::Edits(1),
            number => match number.parse::<f32>() {
                Ok(part) if (0.0..1.0).contains(&part) => Closeness::Similarity(part),
                _ => {
                    return Err(QueryError::new(
                        "behind the '~' of a word stands 0, 1 or 2, or a similarity below 1",
                        begin..self.at,
                    ));
                }
            },
        };
        Ok(Test::Fuzzy { text, closeness })
    }

    fn number(&mut self) -> String {
        let digits = |c: &char| c.is_ascii_digit() || *c == '.';
        let number: String = self.text[self.at..]
            .iter()
            .take_while(|c| digits(c))
            .collect();
        self.at += number.len();
        number
    }

    /// A backslash with what it stands before.
    fn escaped(&mut self) -> Result<char, QueryError> {
        let begin = self.at;
        self.at += 1;
        let wrong = |parser: &Parser, message| Err(QueryError::new(message, begin..parser.at));
        let Some(c) = self.peek() else {
            return wrong(self, "a '\\' stands at the end");
        };
        self.at += 1;
        let is_hex = |c: &char| c.is_ascii_hexdigit();
        let hex: String = self.text[self.at..]
            .iter()
            .take(4)
            .take_while(|c| is_hex(c))
            .collect();
        if c != 'u' || hex.is_empty() {
            return Ok(c);
        }
        let code = u32::from_str_radix(&hex, 16)
            .ok()
            .filter(|_| hex.len() == 4);
        match code.and_then(char::from_u32) {
            Some(c) => {
                self.at += 4;
                Ok(c)
            }
            None => wrong(self, "'\\u' needs four hexadecimal digits of a character"),
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn range(begin: usize, end: usize) -> Range<usize> {
        begin..end
    }

    /// As Lucene writes queries, with `MatchAll` for all.
    fn shown(node: &Node) -> String {
        match node {
            Node::All => "*:*".to_owned(),
            Node::Field { field, test, .. } => format!("{}:{}", field.text, shown_test(test)),
            Node::Group(clauses) => {
                let clauses: Vec<String> = clauses
                    .iter()
                    .map(|clause| {
                        let sign = match clause.occur {
                            Occur::Must => "+",
                            Occur::Should => "",
                            Occur::Not => "-",
                        };
                        let inner = match &clause.node {
                            group @ Node::Group(_) => format!("({})", shown(group)),
                            node => shown(node),
                        };
                        let boost = match clause.boost {
                            1.0 => String::new(),
                            boost => format!("^{boost}"),
                        };
                        format!("{sign}{inner}{boost}")
                    })
                    .collect();
                clauses.join(" ")
            }
        }
    }

    fn shown_test(test: &Test) -> String {
        let end = |bound: &Bound| match bound {
            Bound::Open => "*".to_owned(),
            Bound::Included(text) | Bound::Excluded(text) => text.clone(),
        };
        match test {
            Test::Term(text) => text.clone(),
            Test::Phrase { text, slop: 0 } => format!("\"{text}\""),
            Test::Phrase { text, slop } => format!("\"{text}\"~{slop}"),
            Test::Wildcard(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Char(c) => *c,
                    Piece::One => '?',
                    Piece::Many => '*',
                })
                .collect(),
            Test::Fuzzy { text, closeness } => match closeness {
                Closeness::Edits(edits) => format!("{text}~{edits}"),
                Closeness::Similarity(part) => format!("{text}~{part}"),
            },
            Test::Range { from, to } => format!(
                "{}{} TO {}{}",
                if matches!(from, Bound::Excluded(_)) {
                    '{'
                } else {
                    '['
                },
                end(from),
                end(to),
                if matches!(to, Bound::Excluded(_)) {
                    '}'
                } else {
                    ']'
                },
            ),
            Test::Exists => "*".to_owned(),
        }
    }

    #[test]
    fn queries_are_read_as_lucene_reads_them() {
        for (text, expect) in [
            ("", "*:*"),
            (" \t", "*:*"),
            ("*:*", "*:*"),
            ("a:x", "a:x"),
            ("a:x b:y", "a:x b:y"),
            ("a:x AND b:y", "+a:x +b:y"),
            ("a:x && b:y", "+a:x +b:y"),
            ("a:x OR b:y", "a:x b:y"),
            ("a:x || b:y", "a:x b:y"),
            ("a:x AND b:y OR c:z", "+a:x +b:y c:z"),
            ("a:x OR b:y AND c:z", "a:x +b:y +c:z"),
            ("a:x AND NOT b:y", "+a:x -b:y"),
            ("a:x AND !b:y", "+a:x -b:y"),
            ("NOT a:x", "-a:x"),
            ("+a:x -b:y c:z", "+a:x -b:y c:z"),
            ("(a:x OR b:y) AND c:z", "+(a:x b:y) +c:z"),
            ("a:(x y)", "(a:x a:y)"),
            ("a:(x AND (y OR b:z))", "(+a:x +(a:y b:z))"),
            ("a:\"x y\"", "a:\"x y\""),
            ("a:\"x y\"~3", "a:\"x y\"~3"),
            ("a:\"x \\\" y\"", "a:\"x \" y\""),
            ("a:te?t*", "a:te?t*"),
            ("a:*", "a:*"),
            ("a:roam~", "a:roam~2"),
            ("a:roam~1", "a:roam~1"),
            ("a:roam~0.8", "a:roam~0.8"),
            ("a:[x TO y]", "a:[x TO y]"),
            ("a:{x TO y}", "a:{x TO y}"),
            ("a:[x TO y}", "a:[x TO y}"),
            ("a:{* TO \"y z\"]", "a:[* TO y z]"),
            ("a:[-5 TO *]", "a:[-5 TO *]"),
            ("a:x^2.5 b:y", "a:x^2.5 b:y"),
            ("(a:x b:y)^4", "(a:x b:y)^4"),
            ("a:-5", "a:-5"),
            ("a:x-y+z", "a:x-y+z"),
            ("a:\\(1\\+1\\)\\:2", "a:(1+1):2"),
            ("a:\\u0041b", "a:Ab"),
            ("a : x", "a:x"),
            ("a:AND", "a:AND"),
            ("a:ANDROID OR a:NOTE", "a:ANDROID a:NOTE"),
            ("a\\ b:x", "a b:x"),
            ("a:R&D", "a:R&D"),
            ("a:x/y", "a:x/y"),
        ] {
            let node = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(shown(&node), expect, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, says, place) in [
            ("fox", "a term must have a field", range(0, 3)),
            ("a:x fox", "a term must have a field", range(4, 7)),
            ("a:", "the end stands where a term", range(2, 3)),
            ("(a:x", "')' is missing", range(4, 5)),
            ("a:x)", "closes nothing", range(3, 4)),
            ("()", "group is empty", range(1, 2)),
            ("a:()", "group is empty", range(3, 4)),
            ("a:\"x", "'\"' is missing", range(2, 3)),
            ("a:[x y]", "'TO' is missing", range(5, 6)),
            ("a:[x TO y", "']' or '}' is missing", range(2, 7)),
            ("a:[ TO y]", "'TO' is missing", range(7, 8)),
            ("AND a:x", "before 'AND' and 'OR'", range(0, 3)),
            ("a:x AND", "ends where a clause", range(7, 8)),
            ("a:x +", "ends where a clause", range(5, 6)),
            ("a:*x", "cannot begin with '*'", range(2, 4)),
            ("a:?x", "cannot begin with '*'", range(2, 4)),
            ("a:b:c", "a ':' too many", range(3, 4)),
            ("a:/x.*/", "regular expressions", range(2, 3)),
            ("a:x^", "behind '^'", range(4, 4)),
            ("a:x~3", "0, 1 or 2", range(2, 5)),
            ("a:\"x y\"~z", "a term must have a field", range(8, 9)),
            ("a:\"x y\"~99999", "whole number up to 10000", range(8, 13)),
            ("a:x\\", "at the end", range(3, 4)),
            ("a:\\u00", "four hexadecimal digits", range(2, 4)),
            ("*:x", "behind '*:'", range(2, 3)),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.message.contains(says), "{text}: {error}");
            assert_eq!(error.place, Some(place), "{text}: {error}");
        }
    }

    #[test]
    fn a_query_has_bounds() {
        let deep = format!("{}a:x{}", "(".repeat(60), ")".repeat(60));
        let many = "a:x ".repeat(CLAUSES_MAX + 1);
        let long = format!("a:{}", "x".repeat(TEXT_MAX));
        for (text, says) in [
            (deep, "nested deeper"),
            (many, "1024 clauses"),
            (long, "bytes"),
        ] {
            let error = parse(&text).expect_err("too much");
            assert!(error.message.contains(says), "{error}");
        }
    }
}
