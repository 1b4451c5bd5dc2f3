//! Text to tokens.
//!
//! Promises: takes any text, in time linear in its length; what is not a token is reported and left
//! out, or kept as [`TokenKind::Stray`] where leaving it out would join its neighbours. Comments
//! are kept beside the tokens, for the formatter.

use crate::diagnostic::{Diagnostic, Fix};
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, Token, TokenKind, unit_rank};

/// Everything in a text but its white space.
#[derive(Default, Debug)]
pub struct Lexed {
    /// Ends with one token of kind [`TokenKind::End`].
    pub tokens: Vec<Token>,
    /// `-- …` without the line end and `/* … */`, in order.
    pub comments: Vec<Span>,
    pub diagnostics: Vec<Diagnostic>,
    /// Lines whose quotes do not pair: whatever else is found on them follows from that.
    pub broken: Vec<Span>,
}

/// How often an unclosed script body is searched for its end; each search may read all the text.
const SCRIPT_SEARCHES_MAX: u32 = 8;

/// How many stray characters are reported one by one.
const STRAY_REPORTS_MAX: u32 = 20;

pub fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        out: Lexed::default(),
        failed: 0,
        strays: 0,
    };
    if text.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8();
    }
    while lexer.at < lexer.bytes.len() {
        lexer.step();
    }
    let end = text.len() as u32;
    lexer.out.tokens.push(Token {
        kind: TokenKind::End,
        span: Span::new(end, end),
    });
    lexer.out
}

/// The `'` on the current line of a script body.
#[derive(Default)]
struct SingleQuotes {
    seen: u32,
    /// Where the last one of the line stands, once somebody asked.
    last: Option<usize>,
}

struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    out: Lexed,
    /// Script bodies without an end so far.
    failed: u32,
    strays: u32,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        let span = Span::new(self.at as u32, end as u32);
        self.out.tokens.push(Token { kind, span });
        self.at = end;
    }

    fn step(&mut self) {
        let byte = self.bytes[self.at];
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b => self.at += 1,
            b'-' if self.peek(1) == b'-' => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'/' if self.peek(1) == b'/' => self.slash_comment(),
            b'"' if self.peek(1) == b'"' && self.peek(2) == b'"' => self.long_string(),
            b'"' | b'\'' => self.string(byte),
            b'`' => self.quoted_name(),
            b'{' => self.script(),
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            _ if is_word_start(byte) => self.word(),
            _ => self.sign(byte),
        }
    }

    fn word(&mut self) {
        let mut end = self.at + 1;
        while end < self.bytes.len() && is_word(self.bytes[end]) {
            end += 1;
        }
        let kind = match Keyword::from_word(&self.text[self.at..end]) {
            Some(keyword) => TokenKind::Keyword(keyword),
            None => TokenKind::Name,
        };
        self.push(kind, end);
    }

    fn sign(&mut self, byte: u8) {
        use Sign::*;
        let (sign, len) = match (byte, self.peek(1), self.peek(2)) {
            (b'.', b'.', b'.') => (Ellipsis, 3),
            (b'<', b'=', _) => (LessEqual, 2),
            (b'>', b'=', _) => (GreaterEqual, 2),
            (b'=', b'=', _) => (Equal, 2),
            (b'!', b'=', _) => (NotEqual, 2),
            (b'-', b'>', _) => (Arrow, 2),
            (b':', ..) => (Colon, 1),
            (b';', ..) => (Semicolon, 1),
            (b'.', ..) => (Dot, 1),
            (b'(', ..) => (OpenParen, 1),
            (b')', ..) => (CloseParen, 1),
            (b'[', ..) => (OpenBracket, 1),
            (b']', ..) => (CloseBracket, 1),
            (b',', ..) => (Comma, 1),
            (b'=', ..) => (Assign, 1),
            (b'*', ..) => (Star, 1),
            (b'+', ..) => (Plus, 1),
            (b'?', ..) => (Question, 1),
            (b'-', ..) => (Minus, 1),
            (b'/', ..) => (Slash, 1),
            (b'%', ..) => (Percent, 1),
            (b'<', ..) => (Less, 1),
            (b'>', ..) => (Greater, 1),
            (b'@', ..) => (At, 1),
            (b'#', ..) => (Hash, 1),
            (b'!', ..) => (Bang, 1),
            _ => return self.stray(),
        };
        self.push(TokenKind::Sign(sign), self.at + len);
    }

    // ---- comments ----

    fn line_end(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        from + rest
            .iter()
            .position(|b| matches!(b, b'\n' | b'\r'))
            .unwrap_or(rest.len())
    }

    fn line_comment(&mut self) {
        let end = self.line_end(self.at);
        self.out
            .comments
            .push(Span::new(self.at as u32, end as u32));
        self.at = end;
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let end = match self.text[start + 2..].find("*/") {
            Some(len) => start + 2 + len + 2,
            None => {
                let span = Span::new(start as u32, start as u32 + 2);
                self.out.diagnostics.push(fault::comment_not_closed(span));
                self.bytes.len()
            }
        };
        self.out.comments.push(Span::new(start as u32, end as u32));
        self.at = end;
    }

    /// `//` opens no comment; to take it for one keeps the rest of the text readable.
    fn slash_comment(&mut self) {
        let end = self.line_end(self.at);
        let span = Span::new(self.at as u32, self.at as u32 + 2);
        self.out.diagnostics.push(fault::slash_comment(span));
        self.at = end;
    }

    // ---- strings and quoted names ----

    /// The value may hold the other quote (Siddhi refuses `"` inside `'…'`); there are no escapes.
    fn string(&mut self, quote: u8) {
        let start = self.at;
        let mut at = start + 1;
        let mut control = None;
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'\n' | b'\r' => break,
                _ if byte == quote => {
                    if let Some(place) = control {
                        self.out.diagnostics.push(fault::control_in_string(place));
                    }
                    return self.push(TokenKind::String(1), at + 1);
                }
                0..=0x1f => {
                    control.get_or_insert(Span::new(at as u32, at as u32 + 1));
                }
                _ => {}
            }
            at += 1;
        }
        self.string_not_closed(start, at, quote);
    }

    fn string_not_closed(&mut self, start: usize, line_end: usize, quote: u8) {
        let line_start = self.bytes[..start]
            .iter()
            .rposition(|b| matches!(b, b'\n' | b'\r'));
        let line_start = line_start.map_or(0, |i| i + 1);
        let line = Span::new(line_start as u32, line_end as u32);
        let span = Span::new(start as u32, line_end as u32);
        // One report for a line is enough.
        if self
            .out
            .broken
            .last()
            .is_none_or(|last| last.end < line.start)
        {
            let report = fault::string_not_closed(span, quote as char);
            self.out.diagnostics.push(report);
            self.out.broken.push(line);
        }
        self.push(TokenKind::String(0), line_end);
    }

    fn long_string(&mut self) {
        let start = self.at;
        match self.text[start + 3..].find("\"\"\"") {
            Some(len) => self.push(TokenKind::String(3), start + 3 + len + 3),
            None => {
                let span = Span::new(start as u32, start as u32 + 3);
                self.out
                    .diagnostics
                    .push(fault::long_string_not_closed(span));
                // All of the rest is taken for the string.
                self.out
                    .broken
                    .push(Span::new(start as u32, self.bytes.len() as u32));
                self.push(TokenKind::String(0), self.bytes.len());
            }
        }
    }

    fn quoted_name(&mut self) {
        let start = self.at;
        let end = self.line_end(start);
        match self.text[start + 1..end].find('`') {
            Some(len) => self.push(TokenKind::QuotedName, start + 1 + len + 1),
            None => {
                // The name is taken to end where a plain name would.
                let mut stop = start + 1;
                while stop < self.bytes.len() && is_word(self.bytes[stop]) {
                    stop += 1;
                }
                let span = Span::new(start as u32, stop as u32);
                self.out
                    .diagnostics
                    .push(fault::quoted_name_not_closed(span));
                self.at += 1;
                if stop > self.at {
                    self.push(TokenKind::Name, stop);
                }
            }
        }
    }

    // ---- numbers ----

    fn digits(&self, mut at: usize) -> usize {
        while self.bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    }

    /// `e`, an optional sign and digits.
    fn exponent(&self, at: usize) -> Option<usize> {
        if !matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            return None;
        }
        let signed = matches!(self.bytes.get(at + 1), Some(b'+' | b'-'));
        let digits = at + 1 + usize::from(signed);
        let end = self.digits(digits);
        (end > digits).then_some(end)
    }

    fn number(&mut self) {
        let start = self.at;
        let whole = self.digits(start);
        let (kind, end) = self.number_end(whole);
        if self.bytes.get(end).copied().is_some_and(is_word) {
            return self.number_glued(start, end);
        }
        self.push(kind, end);
    }

    /// The longest number whose digits before the dot end at `whole`.
    fn number_end(&self, whole: usize) -> (TokenKind, usize) {
        let suffix = |at: usize| match self.bytes.get(at) {
            Some(b'f' | b'F') => Some(TokenKind::Float),
            Some(b'd' | b'D') => Some(TokenKind::Double),
            _ => None,
        };
        let dot = self.bytes.get(whole) == Some(&b'.');
        let fraction = if dot { self.digits(whole + 1) } else { whole };
        let has_fraction = dot && fraction > whole + 1;
        if let Some(end) = self.exponent(fraction) {
            return suffix(end).map_or((TokenKind::Double, end), |kind| (kind, end + 1));
        }
        if let Some(kind) = suffix(fraction) {
            return (kind, fraction + 1);
        }
        if has_fraction {
            return (TokenKind::Double, fraction);
        }
        match self.bytes.get(whole) {
            Some(b'l' | b'L') => (TokenKind::Long, whole + 1),
            _ => (TokenKind::Int, whole),
        }
    }

    /// A number with letters right behind it: `5sec` is two words, `5day` and `0x1f` are none.
    fn number_glued(&mut self, start: usize, end: usize) {
        let whole = self.digits(start);
        let mut stop = end;
        while self.bytes.get(stop).copied().is_some_and(is_word) {
            stop += 1;
        }
        if end == whole {
            // `2min` is two tokens in Siddhi too.
            return self.push(TokenKind::Int, whole);
        }
        let unit = &self.text[whole..stop];
        let span = Span::new(start as u32, stop as u32);
        let is_unit = Keyword::from_word(unit).is_some_and(|k| unit_rank(k).is_some());
        if is_unit {
            let fix = Fix {
                span,
                replacement: format!("{} {unit}", &self.text[start..whole]),
            };
            self.out
                .diagnostics
                .push(fault::number_glued_unit(span, fix));
            self.push(TokenKind::Int, whole);
        } else {
            self.out
                .diagnostics
                .push(fault::number_malformed(span, &self.text[start..stop]));
            self.push(TokenKind::Double, stop);
        }
    }

    // ---- script bodies ----

    fn script(&mut self) {
        if self.failed < SCRIPT_SEARCHES_MAX {
            if let Some(end) = self.script_end() {
                return self.push(TokenKind::Script, end);
            }
            self.failed += 1;
            let after_type = matches!(
                self.out.tokens.last().map(|t| t.kind),
                Some(TokenKind::Keyword(_) | TokenKind::Name)
            );
            if after_type {
                let span = Span::new(self.at as u32, self.at as u32 + 1);
                self.out.diagnostics.push(fault::script_not_closed(span));
                let end = self.next_element(self.at + 1);
                let body = self.text[self.at..end].trim_end();
                let end = self.at + body.strip_suffix(';').unwrap_or(body).len();
                return self.push(TokenKind::Script, end);
            }
        }
        self.stray();
    }

    /// Where the body that opens here ends: braces inside `"…"` and after `//` do not count. A
    /// quote without a partner on its line is an ordinary character, and `//` inside `'…'` opens
    /// no comment.
    fn script_end(&self) -> Option<usize> {
        let mut depth = 0u32;
        let mut at = self.at;
        let mut quotes = SingleQuotes::default();
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                b'\n' | b'\r' => quotes = SingleQuotes::default(),
                b'\'' => quotes.seen += 1,
                b'"' => {
                    if let Some(close) = self.on_this_line(at + 1, b'"') {
                        at = close;
                    }
                }
                b'/' if self.bytes.get(at + 1) == Some(&b'/') => {
                    if !self.inside_single_quotes(&mut quotes, at) {
                        at = self.line_end(at);
                        continue;
                    }
                    at += 1;
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn on_this_line(&self, from: usize, wanted: u8) -> Option<usize> {
        let stop = |b: &u8| *b == wanted || matches!(b, b'\n' | b'\r');
        let found = from + self.bytes[from..].iter().position(stop)?;
        (self.bytes[found] == wanted).then_some(found)
    }

    /// Whether an odd number of `'` stands before `at` on its line and one behind it.
    fn inside_single_quotes(&self, quotes: &mut SingleQuotes, at: usize) -> bool {
        if quotes.seen.is_multiple_of(2) {
            return false;
        }
        let last = *quotes.last.get_or_insert_with(|| {
            let line = &self.bytes[at..self.line_end(at)];
            line.iter().rposition(|b| *b == b'\'').map_or(0, |i| at + i)
        });
        last > at
    }

    /// The end of the line before the next one that begins like a definition or a query.
    fn next_element(&self, from: usize) -> usize {
        let mut at = self.line_end(from);
        while at < self.bytes.len() {
            let line = self.text[at..self.line_end(at + 1)].trim_start();
            let word = line
                .split(|c: char| !c.is_ascii_alphanumeric())
                .next()
                .unwrap_or("");
            if line.starts_with('@')
                || ["define", "from", "partition"]
                    .iter()
                    .any(|w| word.eq_ignore_ascii_case(w))
            {
                return at;
            }
            at = self.line_end(at + 1);
        }
        self.bytes.len()
    }

    // ---- the rest ----

    /// `&&`, `&`, `||` or `|`: reported, and read as `and` and `or`.
    fn symbol_operator(&self) -> Option<(usize, &'static str, Keyword)> {
        let (word, keyword) = match self.peek(0) {
            b'&' => ("and", Keyword::And),
            b'|' => ("or", Keyword::Or),
            _ => return None,
        };
        let len = 1 + usize::from(self.peek(1) == self.peek(0));
        Some((len, word, keyword))
    }

    fn stray(&mut self) {
        let found = self.text[self.at..].chars().next().unwrap_or('\u{fffd}');
        let end = self.at + found.len_utf8();
        let span = Span::new(self.at as u32, end as u32);
        if let Some((len, word, keyword)) = self.symbol_operator() {
            let span = Span::new(self.at as u32, (self.at + len) as u32);
            let report = fault::symbol_operator(span, span.text(self.text), word);
            self.out.diagnostics.push(report);
            return self.push(TokenKind::Keyword(keyword), self.at + len);
        }
        let is_quote = matches!(found, '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}');
        if is_quote
            && self
                .out
                .broken
                .last()
                .is_none_or(|last| last.end < self.at as u32)
        {
            // A string was meant: the quotes of this line cannot be paired.
            self.out
                .broken
                .push(Span::new(self.at as u32, self.line_end(self.at) as u32));
        }
        self.strays += 1;
        if self.strays <= STRAY_REPORTS_MAX {
            self.out
                .diagnostics
                .push(fault::stray_character(span, found));
        }
        if found.is_whitespace() || found.is_control() || found == '\u{feff}' {
            self.at = end;
        } else {
            self.push(TokenKind::Stray, end);
        }
    }
}
