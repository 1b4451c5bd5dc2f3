//! Tokens to a syntax tree, by recursive descent with recovery.
//!
//! Promises: takes any text and never panics; time linear in the length of the text; depth of
//! recursion and of the tree bounded ([`NESTING_MAX`], [`EXPRESSION_DEPTH_MAX`]); several faults
//! reported at once. An accepted text (no error among the diagnostics) is one that Siddhi's own
//! grammar accepts, but for the rulings: the other quote inside a string, and a bare name in the
//! list of an annotation (a warning).
//!
//! Every keyword can be a name. A first attempt at each element reads the text that way; only
//! where that fails, a second attempt takes keywords that look like the start of a clause for
//! what they look like, so that messages point at the clause that is incomplete.
//!
//! Never: name resolution or types; those belong to the checker.

mod annotation;
mod definition;
mod expression;
#[cfg(test)]
mod fault_tests;
mod input;
pub(crate) mod layout;
mod on_demand;
mod partition;
mod pattern;
mod query;
mod recover;
#[cfg(test)]
mod tests;

use crate::ast::{App, Element, Name, OnDemandQuery, Query, StreamKind, StreamName};
use crate::diagnostic::{Diagnostic, Severity};
use crate::fault;
use crate::lexer::{Lexed, lex};
use crate::span::Span;
use crate::token::{Keyword, Sign, Token, TokenKind};
use layout::Layout;

/// How deep parentheses, calls, annotations and patterns may nest.
pub const NESTING_MAX: u32 = 64;

/// How deep the tree of one expression may be; a chain of n operators is n deep.
pub const EXPRESSION_DEPTH_MAX: u32 = 1_000;

/// Longer texts are refused; offsets have 32 bits.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// After this many errors the parser stops reporting; the rest would be noise.
const ERRORS_MAX: usize = 200;

/// The result of parsing an app. The tree has holes where there are errors.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Parsed {
    pub app: App,
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    pub fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error)
    }
}

/// Parses a whole application. `${NAME}` must have been substituted before, see
/// [`crate::substitute`].
pub fn parse(text: &str) -> Parsed {
    Parser::new(text).whole_app().0
}

/// Parses an app and notes how its tokens hang together.
pub(crate) fn parse_for_format(text: &str) -> (Parsed, Layout) {
    let mut parser = Parser::new(text);
    parser.layout = Some(Layout::default());
    parser.whole_app()
}

/// Parses one on-demand (store) query.
pub fn parse_on_demand(text: &str) -> (Option<OnDemandQuery>, Vec<Diagnostic>) {
    Parser::new(text).alone(Parser::on_demand)
}

/// Parses one query on its own, with or without a last `;`.
fn parse_query(text: &str) -> (Option<Query>, Vec<Diagnostic>) {
    Parser::new(text).alone(|p| {
        let annotations = p.annotations();
        p.query(annotations)
    })
}

/// Parses one expression on its own.
pub fn parse_expression(text: &str) -> (Option<crate::ast::Expr>, Vec<Diagnostic>) {
    Parser::new(text).alone(|p| p.expression().ok())
}

/// The entry points of Siddhi's compiler, which recorded cases name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    App,
    Stream,
    Table,
    Window,
    Trigger,
    Function,
    Aggregation,
    Partition,
    Query,
    OnDemandQuery,
    Time,
    Expression,
}

impl Entry {
    /// `parseQuery`, `parseStreamDefinition`, …, as methods of Siddhi's `SiddhiCompiler` are named.
    pub fn from_name(name: &str) -> Option<Entry> {
        Some(match name {
            "parse" => Entry::App,
            "parseStreamDefinition" => Entry::Stream,
            "parseTableDefinition" => Entry::Table,
            "parseWindowDefinition" => Entry::Window,
            "parseTriggerDefinition" => Entry::Trigger,
            "parseFunctionDefinition" => Entry::Function,
            "parseAggregationDefinition" => Entry::Aggregation,
            "parsePartition" => Entry::Partition,
            "parseQuery" => Entry::Query,
            "parseStoreQuery" | "parseOnDemandQuery" => Entry::OnDemandQuery,
            "parseTimeConstantDefinition" => Entry::Time,
            "parseExpression" => Entry::Expression,
            _ => return None,
        })
    }
}

/// The diagnostics of a text read as one thing alone.
pub fn parse_as(entry: Entry, text: &str) -> Vec<Diagnostic> {
    let parser = Parser::new(text);
    match entry {
        Entry::App => parse(text).diagnostics,
        Entry::Query => parse_query(text).1,
        Entry::OnDemandQuery => parse_on_demand(text).1,
        Entry::Expression => parse_expression(text).1,
        Entry::Time => parser.alone(|p| p.time().ok()).1,
        Entry::Partition => {
            parser
                .alone(|p| {
                    let annotations = p.annotations();
                    p.partition(annotations)
                })
                .1
        }
        Entry::Stream
        | Entry::Table
        | Entry::Window
        | Entry::Trigger
        | Entry::Function
        | Entry::Aggregation => {
            parser
                .alone(|p| {
                    let annotations = p.annotations();
                    let start = p.span();
                    let element = p.definition(annotations)?;
                    if !entry.matches(&element) {
                        let label = "not the kind of definition asked for";
                        let message = "this is another kind of definition".to_owned();
                        p.report(fault::error("E0110", start, message, label));
                    }
                    Some(element)
                })
                .1
        }
    }
}

impl Entry {
    fn matches(self, element: &Element) -> bool {
        matches!(
            (self, element),
            (Entry::Stream, Element::Stream(_))
                | (Entry::Table, Element::Table(_))
                | (Entry::Window, Element::Window(_))
                | (Entry::Trigger, Element::Trigger(_))
                | (Entry::Function, Element::Function(_))
                | (Entry::Aggregation, Element::Aggregation(_))
        )
    }
}

/// Says that a diagnostic was given for what could not be parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

pub(crate) type Parse<T> = Result<T, Reported>;

pub(crate) struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    /// Index of the next token.
    at: usize,
    diagnostics: Vec<Diagnostic>,
    broken: Vec<Span>,
    /// In a second attempt: keywords that look like the start of a clause are no names.
    strict: bool,
    nesting: u32,
    /// Reports of `null` as a value, kept back until it is known that nothing has that name.
    nulls: Vec<Diagnostic>,
    null_is_a_name: bool,
    /// The first definition, query or partition was reached.
    started: bool,
    /// What a formatter wants to know; not collected otherwise.
    layout: Option<Layout>,
}

/// A place to go back to.
struct Checkpoint {
    at: usize,
    diagnostics: usize,
    nulls: usize,
    marks: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parser<'t> {
        let too_long = text.len() > TEXT_BYTES_MAX;
        let Lexed {
            tokens,
            diagnostics,
            broken,
            ..
        } = lex(if too_long { "" } else { text });
        let mut parser = Parser {
            text,
            tokens,
            at: 0,
            diagnostics,
            broken,
            strict: false,
            nesting: 0,
            nulls: Vec::new(),
            null_is_a_name: false,
            started: false,
            layout: None,
        };
        if too_long {
            let message = format!("the text is longer than {} MiB", TEXT_BYTES_MAX >> 20);
            parser.report(fault::error("E0136", Span::new(0, 0), message, "too long"));
        }
        parser
    }

    fn whole_app(mut self) -> (Parsed, Layout) {
        let app = self.app();
        let nulls = std::mem::take(&mut self.nulls);
        if !self.null_is_a_name {
            self.diagnostics.extend(nulls);
        }
        let layout = self.layout.take().unwrap_or_default();
        (
            Parsed {
                app,
                diagnostics: self.finish(),
            },
            layout,
        )
    }

    /// Parses one thing that must be all of the text, but for a last `;`.
    fn alone<T>(
        mut self,
        parse: impl FnOnce(&mut Parser<'t>) -> Option<T>,
    ) -> (Option<T>, Vec<Diagnostic>) {
        let parsed = parse(&mut self);
        self.eat(Sign::Semicolon);
        if parsed.is_some() && self.peek() != TokenKind::End {
            self.unexpected("the end of the text");
        }
        (parsed, self.finish())
    }

    /// The diagnostics in the order of the text, without those that follow from a broken line.
    fn finish(mut self) -> Vec<Diagnostic> {
        let broken = std::mem::take(&mut self.broken);
        let follows = |d: &Diagnostic| {
            let index = broken.partition_point(|line| line.end < d.span.start);
            !matches!(d.code, "E0101" | "E0102")
                && broken
                    .get(index)
                    .is_some_and(|line| line.start <= d.span.start)
        };
        self.diagnostics.retain(|d| !follows(d));
        self.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        self.diagnostics
            .dedup_by(|b, a| a.span == b.span && a.code == b.code);
        self.diagnostics
    }

    // ---- looking ----

    fn token(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn peek(&self) -> TokenKind {
        self.token(0).kind
    }

    fn peek_at(&self, ahead: usize) -> TokenKind {
        self.token(ahead).kind
    }

    fn is(&self, sign: Sign) -> bool {
        self.peek().is(sign)
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.peek() == TokenKind::Keyword(keyword)
    }

    /// The span of the next token.
    fn span(&self) -> Span {
        self.token(0).span
    }

    /// The empty span right behind the last token: where something missing belongs.
    fn gap(&self) -> Span {
        match self.at.checked_sub(1) {
            Some(last) => {
                let end = self.tokens[last].span.end;
                Span::new(end, end)
            }
            None => Span::new(self.span().start, self.span().start),
        }
    }

    fn token_text(&self, token: Token) -> &'t str {
        token.span.text(self.text)
    }

    /// From a start to the end of the last token taken.
    fn since(&self, start: Span) -> Span {
        Span::new(start.start, self.gap().end.max(start.start))
    }

    // ---- taking ----

    fn bump(&mut self) -> Token {
        let token = self.token(0);
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, sign: Sign) -> bool {
        let found = self.is(sign);
        if found {
            self.bump();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.bump();
        }
        found
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            at: self.at,
            diagnostics: self.diagnostics.len(),
            nulls: self.nulls.len(),
            marks: self.layout.as_ref().map_or(0, |layout| layout.marks.len()),
        }
    }

    fn rewind(&mut self, to: &Checkpoint) {
        self.at = to.at;
        self.diagnostics.truncate(to.diagnostics);
        self.nulls.truncate(to.nulls);
        if let Some(layout) = &mut self.layout {
            layout.marks.truncate(to.marks);
        }
    }

    /// Parses, and where that gave an error parses again with clause keywords kept from being
    /// names: the second result and its reports count.
    fn attempt<T>(&mut self, mut parse: impl FnMut(&mut Parser<'t>) -> T) -> T {
        if self.strict {
            return parse(self);
        }
        let start = self.checkpoint();
        let parsed = parse(self);
        let failed = self.diagnostics[start.diagnostics..]
            .iter()
            .any(|d| d.severity == Severity::Error);
        if !failed {
            return parsed;
        }
        self.rewind(&start);
        self.strict = true;
        let parsed = parse(self);
        self.strict = false;
        parsed
    }

    /// Runs `parse` one level deeper, unless that is too deep.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Parser<'t>) -> Parse<T>) -> Parse<T> {
        self.nested_by(1, parse)
    }

    fn nested_by<T>(
        &mut self,
        levels: u32,
        parse: impl FnOnce(&mut Parser<'t>) -> Parse<T>,
    ) -> Parse<T> {
        if self.nesting + levels > NESTING_MAX {
            let message = format!("nested more than {NESTING_MAX} deep");
            let report = fault::error("E0136", self.span(), message, "one level too many");
            return Err(self.report(report.help("split it into several queries")));
        }
        self.nesting += levels;
        let parsed = parse(self);
        self.nesting -= levels;
        parsed
    }

    // ---- names ----

    fn name(&mut self, what: &str) -> Parse<Name> {
        let token = self.token(0);
        if !token.kind.is_name() || (self.strict && self.starts_clause(0)) {
            return Err(self.expected(what));
        }
        self.bump();
        Ok(self.name_of(token))
    }

    /// The name that a token writes, noted as a name for the formatter.
    fn name_of(&mut self, token: Token) -> Name {
        if let Some(layout) = &mut self.layout {
            layout.names.insert(token.span.start);
        }
        let text = self.token_text(token);
        let text = match token.kind {
            TokenKind::QuotedName => &text[1..text.len() - 1],
            _ => text,
        };
        Name {
            text: text.to_owned(),
            span: token.span,
        }
    }

    /// A name that may not be a keyword: of functions, languages, triggers and aggregations.
    fn plain_name(&mut self, what: &str) -> Parse<Name> {
        let token = self.token(0);
        if let TokenKind::Keyword(_) = token.kind
            && !(self.strict && self.starts_clause(0))
        {
            let word = self.token_text(token);
            let report = fault::error(
                "E0137",
                token.span,
                format!("the keyword '{word}' cannot be {what}"),
                "a keyword of the language",
            )
            .help("put the name between back-quotes, or choose another")
            .fix(token.span, format!("`{word}`"));
            self.report(report);
            self.bump();
            return Ok(self.name_of(token));
        }
        self.name(what)
    }

    /// `Name`, `#Name` or `!Name`.
    fn stream_name(&mut self, what: &str) -> Parse<StreamName> {
        let start = self.span();
        let kind = if self.eat(Sign::Hash) {
            StreamKind::Inner
        } else if self.eat(Sign::Bang) {
            StreamKind::Fault
        } else {
            StreamKind::Plain
        };
        let name = self.name(what)?;
        Ok(StreamName {
            name,
            kind,
            span: self.since(start),
        })
    }

    // ---- reporting ----

    /// Keeps a diagnostic, unless it is about a character that the lexer reported.
    fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if self.peek() == TokenKind::Stray {
            return Reported;
        }
        if self.diagnostics.len() < ERRORS_MAX {
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// The next token in the words of a reader.
    fn found(&self) -> String {
        self.describe(self.token(0))
    }

    fn describe(&self, token: Token) -> String {
        let text = self.token_text(token);
        let short: String = text.chars().take(30).collect();
        let short = if short.len() < text.len() {
            format!("{short}…")
        } else {
            short
        };
        match token.kind {
            TokenKind::Name | TokenKind::QuotedName => format!("the name '{short}'"),
            TokenKind::Keyword(_) => format!("'{short}'"),
            TokenKind::Int | TokenKind::Long | TokenKind::Float | TokenKind::Double => {
                format!("the number {short}")
            }
            TokenKind::String(_) => format!("the string {}", short.replace(['\n', '\r'], " ")),
            TokenKind::Script => "a body in braces".to_owned(),
            TokenKind::Sign(_) | TokenKind::Stray => format!("'{short}'"),
            TokenKind::End => "the end of the text".to_owned(),
        }
    }

    /// Something is missing here: reports it behind the last token when the next one stands on a
    /// later line or could not be meant for it, else at the next one.
    fn expected(&mut self, what: &str) -> Reported {
        let found = self.found();
        let at_gap = self.at > 0 && self.starts_line(0);
        let span = if at_gap { self.gap() } else { self.span() };
        let label = if at_gap {
            format!("expected {what} here")
        } else {
            format!("not {what}")
        };
        let message = format!("expected {what}, found {found}");
        self.report(fault::error("E0110", span, message, &label))
    }

    fn unexpected(&mut self, wanted: &str) -> Reported {
        let message = format!("expected {wanted}, found {}", self.found());
        let report = fault::error("E0110", self.span(), message, "not understood from here on");
        self.report(report)
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parse<()> {
        if self.eat_keyword(keyword) || self.eat_misspelt(keyword) {
            return Ok(());
        }
        Err(self.expected(&format!("'{}'", keyword.text())))
    }

    /// Takes a sign, or reports that it is missing and goes on as if it stood there.
    fn expect(&mut self, sign: Sign) {
        if !self.eat(sign) {
            let found = self.found();
            let text = sign.text();
            let message = format!("'{text}' is missing before {found}");
            let gap = self.gap();
            let report = fault::error("E0112", gap, message, &format!("'{text}' belongs here"));
            self.report(report.fix(gap, text));
        }
    }
}
