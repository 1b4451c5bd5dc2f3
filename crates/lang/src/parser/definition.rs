//! The app, its definitions and partitions.

use std::collections::HashMap;

use event::Type;

use super::layout::Mark;
use super::recover::List;
use super::{Parse, Parser, Reported};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::suggest::nearest;
use crate::token::{Keyword, Sign, TokenKind};

const ATTRIBUTES: List = List {
    item: "an attribute",
    open: Sign::OpenParen,
    close: Sign::CloseParen,
    many: true,
};

const DEFINITION_KINDS: &[Keyword] = &[
    Keyword::Stream,
    Keyword::Table,
    Keyword::Window,
    Keyword::Trigger,
    Keyword::Function,
    Keyword::Aggregation,
];

impl Parser<'_> {
    pub(super) fn app(&mut self) -> App {
        let mut app = App::default();
        while self.is_app_annotation() {
            self.mark(Mark::Definition);
            match self.attempt(Self::app_annotation) {
                Ok(annotation) => app.annotations.push(annotation),
                Err(Reported) => self.skip_until(|_| false),
            }
        }
        if !app.annotations.is_empty() {
            self.mark(Mark::Query);
        }
        let mut first_query: Option<Span> = None;
        let mut definitions = 0u32;
        while self.peek() != TokenKind::End {
            if self.is(Sign::Semicolon) {
                self.stray_semicolon();
                continue;
            }
            let before = self.at;
            let element = self.element();
            let complete = element.is_some();
            if let Some(element) = element {
                match element_span(&element) {
                    (span, true) => {
                        definitions += 1;
                        if let Some(query) = first_query {
                            self.late_definition(span, query);
                        }
                    }
                    (span, false) => {
                        first_query.get_or_insert(span);
                    }
                }
                app.elements.push(element);
            }
            if self.at == before {
                self.bump();
            }
            self.element_end(complete);
        }
        let has_errors = self
            .diagnostics
            .iter()
            .any(|d| d.severity == crate::diagnostic::Severity::Error);
        // One that only holds the document of an API serves that; Siddhi has no such app.
        let is_document = app.elements.is_empty()
            && app
                .annotations
                .iter()
                .any(|annotation| annotation.is("asyncAPI"));
        if definitions == 0 && !has_errors && !is_document {
            self.no_definition(first_query);
        }
        app
    }

    fn no_definition(&mut self, first_query: Option<Span>) {
        let span = first_query.map_or(Span::new(0, 0), |s| Span::new(s.start, s.start));
        let message = "an app needs at least one definition".to_owned();
        let report = fault::error("E0121", span, message, "no definition before this point")
            .help("add one: define stream Name (attribute type, …);");
        self.report(report);
    }

    fn late_definition(&mut self, span: Span, query: Span) {
        let message = "a definition after the first query".to_owned();
        let line = Span::new(query.start, query.start + 4);
        let report = fault::error("E0122", span, message, "too late")
            .related(line, "the first query or partition")
            .help("move all definitions before the first query");
        self.report(report);
    }

    pub(super) fn stray_semicolon(&mut self) {
        let span = self.bump().span;
        let message = "a ';' that ends nothing".to_owned();
        self.report(fault::error("E0131", span, message, "one too many").fix(span, ""));
    }

    /// How the element that starts here, with its annotations, stands on the page.
    fn element_mark(&self) -> Mark {
        if self.layout.is_none() {
            return Mark::Definition;
        }
        // The first of these words outside of brackets tells.
        let mut depth = 0i32;
        for token in &self.tokens[self.at..] {
            match token.kind {
                TokenKind::Sign(Sign::OpenParen) => depth += 1,
                TokenKind::Sign(Sign::CloseParen) => depth -= 1,
                TokenKind::Keyword(Keyword::Define) if depth == 0 => return Mark::Definition,
                TokenKind::Keyword(Keyword::From | Keyword::Partition) if depth == 0 => {
                    return Mark::Query;
                }
                _ => {}
            }
        }
        Mark::Definition
    }

    /// Expects `;` or the end of the text behind an element.
    fn element_end(&mut self, complete: bool) {
        if self.eat(Sign::Semicolon) {
            return;
        }
        if self.peek() == TokenKind::End {
            self.mark(Mark::Semicolon);
            return;
        }
        if self.starts_element(0) || self.is_misspelt_start() || self.is_bare_annotation() {
            // Behind something not understood it is not known what is missing.
            if complete {
                self.missing_semicolon();
            }
            return;
        }
        self.unexpected_after_element();
        self.skip_element();
        self.eat(Sign::Semicolon);
    }

    pub(super) fn missing_semicolon(&mut self) {
        let gap = self.gap();
        if self.diagnostics.last().is_some_and(|last| last.span == gap) {
            // Whatever is missing here as well was reported.
            return;
        }
        let message = format!("';' is missing before {}", self.found());
        self.report(fault::error("E0111", gap, message, "';' belongs here").fix(gap, ";"));
    }

    pub(super) fn unexpected_after_element(&mut self) {
        let token = self.token(0);
        let report = match token.kind {
            TokenKind::Sign(sign @ (Sign::CloseParen | Sign::CloseBracket)) => {
                let text = sign.text();
                let message = format!("'{text}' closes nothing");
                fault::error("E0113", token.span, message, "nothing is open here")
                    .fix(token.span, "")
            }
            _ => {
                let message = format!("expected ';', found {}", self.found());
                fault::error("E0110", token.span, message, "not understood from here on")
            }
        };
        self.report(report);
    }

    /// Whether the next words look like a misspelt `define stream`, `from` or `partition with`.
    pub(super) fn is_misspelt_start(&self) -> bool {
        if !self.starts_line(0) {
            return false;
        }
        let definition =
            matches!(self.peek_at(1), TokenKind::Keyword(k) if DEFINITION_KINDS.contains(&k));
        (definition && self.is_misspelt(0, Keyword::Define))
            || (self.is_misspelt(0, Keyword::From) && self.peek_at(1).is_name())
            || (self.is_misspelt(0, Keyword::Partition)
                && self.peek_at(1) == TokenKind::Keyword(Keyword::With))
    }

    /// One definition, query or partition with its annotations.
    fn element(&mut self) -> Option<Element> {
        self.mark(self.element_mark());
        let annotations = self.annotations();
        self.element_body(annotations)
    }

    fn element_body(&mut self, mut annotations: Vec<Annotation>) -> Option<Element> {
        loop {
            match self.peek() {
                TokenKind::Keyword(Keyword::Define) => {
                    self.started = true;
                    return self.definition(annotations);
                }
                TokenKind::Keyword(Keyword::From) => {
                    self.started = true;
                    return self.query(annotations).map(Element::Query);
                }
                TokenKind::Keyword(Keyword::Partition) => {
                    self.started = true;
                    return self.partition(annotations).map(Element::Partition);
                }
                _ if !annotations.is_empty() && self.eat_extra_close() => {}
                _ if self.is_bare_annotation() => self.bare_annotation(),
                _ => return self.misspelt_element(annotations),
            }
            annotations.extend(self.annotations());
        }
    }

    /// Whether an annotation seems to begin here whose `@` is missing.
    fn is_bare_annotation(&self) -> bool {
        let app = self.is_keyword(Keyword::App) && self.peek_at(1).is(Sign::Colon);
        let other = self.peek() == TokenKind::Name && self.peek_at(1).is(Sign::OpenParen);
        self.starts_line(0) && (app || other)
    }

    fn bare_annotation(&mut self) {
        let start = self.span();
        let gap = Span::new(start.start, start.start);
        let message = format!("'@' is missing before {}", self.found());
        let report = fault::error("E0112", start, message, "an annotation begins with '@'");
        self.report(report.fix(gap, "@"));
        if self.eat_keyword(Keyword::App) {
            self.bump();
        }
        let parsed = self
            .name("the name of an annotation")
            .and_then(|name| self.annotation_body(start, name));
        if parsed.is_err() {
            self.skip_until(|p| p.starts_clause(0));
        }
    }

    /// An element whose first word is not a keyword: perhaps it is misspelt.
    fn misspelt_element(&mut self, annotations: Vec<Annotation>) -> Option<Element> {
        let second = self.peek_at(1);
        if matches!(second, TokenKind::Keyword(k) if DEFINITION_KINDS.contains(&k))
            && self.is_misspelt(0, Keyword::Define)
        {
            return self.definition(annotations);
        }
        if second == TokenKind::Keyword(Keyword::With) && self.is_misspelt(0, Keyword::Partition) {
            return self.partition(annotations).map(Element::Partition);
        }
        let may_name = second.is_name() || second.is(Sign::Hash) || second.is(Sign::OpenParen);
        let is_for = self.is_keyword(Keyword::For);
        if may_name && (is_for || self.is_misspelt(0, Keyword::From)) {
            return self.query(annotations).map(Element::Query);
        }
        let report = self.no_element(&annotations);
        let is_query = report.code == "E0127";
        self.report(report);
        self.skip_element();
        // The `from` of `select … from …` begins no new element.
        while is_query && self.is_keyword(Keyword::From) && !self.starts_line(0) {
            self.bump();
            self.skip_element();
        }
        None
    }

    pub(super) fn no_element(&self, annotations: &[Annotation]) -> crate::diagnostic::Diagnostic {
        let span = self.span();
        let found = self.found();
        if let (TokenKind::End, Some(last)) = (self.peek(), annotations.last()) {
            let message = format!("nothing follows the annotation '@{}'", last.name.text);
            return fault::error("E0124", last.span, message, "belongs to nothing")
                .help("an annotation must be followed by a definition, a query or a partition");
        }
        let word = self.token_text(self.token(0)).to_ascii_lowercase();
        let message = match word.as_str() {
            "select" | "insert" | "update" | "delete" => {
                let message = format!("a query cannot start with '{word}'");
                return fault::error("E0127", span, message, "'from …' is missing before this")
                    .help("queries are written: from Stream select … insert into Target;");
            }
            "create" => "'create' is not used, things are defined".to_owned(),
            "stream" | "table" | "window" | "trigger" | "function" | "aggregation" => {
                let gap = Span::new(span.start, span.start);
                let message = format!("'define' is missing before '{word}'");
                return fault::error("E0110", span, message, "a definition starts with 'define'")
                    .fix(gap, "define ");
            }
            "end" => "'end' closes nothing, no partition is open".to_owned(),
            _ => format!("expected a definition, a query or a partition, found {found}"),
        };
        fault::error("E0110", span, message, "no element starts like this")
            .help("an element starts with 'define', 'from' or 'partition', or with an annotation")
    }

    // ---- definitions ----

    pub(super) fn definition(&mut self, annotations: Vec<Annotation>) -> Option<Element> {
        let element = self.attempt(|p| p.definition_body(annotations.clone()));
        match element {
            Ok(element) => Some(element),
            Err(Reported) => {
                self.skip_element();
                None
            }
        }
    }

    fn definition_body(&mut self, annotations: Vec<Annotation>) -> Parse<Element> {
        let start = annotations.first().map_or(self.span(), |a| a.span);
        self.expect_keyword(Keyword::Define)?;
        let kind = match self.peek() {
            TokenKind::Keyword(kind) if DEFINITION_KINDS.contains(&kind) => {
                self.bump();
                kind
            }
            _ => self.definition_kind()?,
        };
        match kind {
            Keyword::Trigger | Keyword::Function => {
                if let Some(first) = annotations.first() {
                    let what = kind.text();
                    let message = format!("a {what} takes no annotations");
                    let label = format!("not allowed before a {what}");
                    self.report(fault::error("E0124", first.span, message, &label));
                }
                if kind == Keyword::Trigger {
                    self.trigger(annotations, start)
                } else {
                    self.function(annotations, start)
                }
            }
            Keyword::Aggregation => self.aggregation(annotations, start),
            _ => self.schema_definition(kind, annotations, start),
        }
    }

    /// The kind is misspelt or missing.
    fn definition_kind(&mut self) -> Parse<Keyword> {
        for &kind in DEFINITION_KINDS {
            if self.peek_at(1).is_name() && self.eat_misspelt(kind) {
                return Ok(kind);
            }
        }
        let what = "'stream', 'table', 'window', 'trigger', 'function' or 'aggregation'";
        Err(self.expected(what))
    }

    fn schema_definition(
        &mut self,
        kind: Keyword,
        annotations: Vec<Annotation>,
        start: Span,
    ) -> Parse<Element> {
        let name = self.stream_name(&format!("the name of the {}", kind.text()))?;
        let attributes = self.attributes(kind, &name.name)?;
        if kind == Keyword::Window {
            let window = self.call("the window's function, such as length(5)")?;
            let output = if self.eat_keyword(Keyword::Output) {
                Some(self.event_type()?)
            } else {
                None
            };
            let span = self.since(start);
            return Ok(Element::Window(WindowDef {
                annotations,
                name,
                attributes,
                window,
                output,
                span,
            }));
        }
        let span = self.since(start);
        Ok(match kind {
            Keyword::Table => Element::Table(TableDef {
                annotations,
                name,
                attributes,
                span,
            }),
            _ => Element::Stream(StreamDef {
                annotations,
                name,
                attributes,
                span,
            }),
        })
    }

    fn attributes(&mut self, kind: Keyword, owner: &Name) -> Parse<Vec<Attribute>> {
        let open = self.span();
        let is_open = self.is(Sign::OpenParen);
        self.expect(Sign::OpenParen);
        let is_type =
            |kind| matches!(kind, TokenKind::Keyword(k) if Type::from_name(k.text()).is_some());
        if !is_open && is_type(self.peek()) && !is_type(self.peek_at(1)) {
            // `define stream Sa int, …`: the first attribute grew together with the name.
            self.bump();
            self.eat(Sign::Comma);
        }
        let attributes = self.list(ATTRIBUTES, open, Self::attribute)?;
        let mut names: HashMap<&str, Span> = HashMap::new();
        for attribute in &attributes {
            let name = &attribute.name;
            self.null_is_a_name |= name.text.eq_ignore_ascii_case("null");
            if let Some(first) = names.insert(&name.text, name.span) {
                let kind = kind.text();
                let message = format!(
                    "{kind} '{}' has two attributes named '{}'",
                    owner.text, name.text
                );
                let report = fault::error("E0129", name.span, message, "named a second time")
                    .related(first, "first named here")
                    .help("give one of them another name");
                self.report(report);
            }
        }
        Ok(attributes)
    }

    fn attribute(&mut self) -> Parse<Attribute> {
        let name = self.name("the name of an attribute")?;
        let token = self.token(0);
        let ty = match token.kind {
            TokenKind::Keyword(keyword) => Type::from_name(keyword.text()),
            _ => None,
        };
        match ty {
            Some(ty) => {
                self.bump();
                Ok(Attribute {
                    name,
                    ty,
                    ty_span: token.span,
                })
            }
            None => {
                let reported = self.not_a_type(&name);
                if self.peek().is_name() && !self.at_boundary() {
                    self.bump();
                }
                Err(reported)
            }
        }
    }

    /// Types that people know from elsewhere.
    fn known_elsewhere(word: &str) -> Option<&'static str> {
        Some(match word {
            "integer" | "int32" | "short" | "byte" | "smallint" | "i32" => "int",
            "bigint" | "int64" | "timestamp" | "datetime" | "date" | "time" | "i64" => "long",
            "varchar" | "text" | "char" | "str" | "uuid" => "string",
            "boolean" | "bit" => "bool",
            "number" | "decimal" | "numeric" | "real" | "float64" | "f64" => "double",
            "float32" | "f32" => "float",
            "any" | "map" | "list" | "json" | "array" => "object",
            _ => return None,
        })
    }

    fn not_a_type(&mut self, name: &Name) -> Reported {
        let token = self.token(0);
        let owner = &name.text;
        if !token.kind.is_name() || self.at_boundary() {
            let gap = self.gap();
            let message = format!("the type of the attribute '{owner}' is missing");
            let report = fault::error("E0115", gap, message, "a type belongs here");
            return self.report(report.help(TYPES));
        }
        let word = self.token_text(token);
        let message = format!("'{word}' is not a type");
        let report = fault::error("E0115", token.span, message, "not a type");
        let types = Type::ALL.map(Type::name);
        let meant = Self::known_elsewhere(&word.to_ascii_lowercase())
            .or_else(|| nearest(word, types.iter().copied()));
        let report = match meant {
            Some(meant) => report
                .help(format!("did you mean '{meant}'?"))
                .fix(token.span, meant),
            None => report.help(TYPES),
        };
        self.report(report)
    }

    fn trigger(&mut self, annotations: Vec<Annotation>, start: Span) -> Parse<Element> {
        let name = self.plain_name("the name of a trigger")?;
        self.expect_keyword(Keyword::At)?;
        let at = if self.eat_keyword(Keyword::Every) {
            TriggerAt::Every(self.time()?)
        } else if let TokenKind::String(_) = self.peek() {
            let token = self.bump();
            TriggerAt::Text(self.text_of(token))
        } else {
            return Err(
                self.expected("'every' and a time, 'start', or a cron expression in quotes")
            );
        };
        Ok(Element::Trigger(TriggerDef {
            annotations,
            name,
            at,
            span: self.since(start),
        }))
    }

    fn function(&mut self, annotations: Vec<Annotation>, start: Span) -> Parse<Element> {
        let name = self.plain_name("the name of a function")?;
        self.expect(Sign::OpenBracket);
        let language = self.plain_name("the name of a script language")?;
        self.expect(Sign::CloseBracket);
        self.expect_keyword(Keyword::Return)?;
        let token = self.token(0);
        let returns = match token.kind {
            TokenKind::Keyword(keyword) => Type::from_name(keyword.text()),
            _ => None,
        };
        let Some(returns) = returns else {
            return Err(self.not_a_type(&name));
        };
        self.bump();
        let body = self.token(0);
        if body.kind != TokenKind::Script {
            return Err(self.expected("the body of the function in braces"));
        }
        self.bump();
        let written = self.token_text(body);
        let inner = written.strip_prefix('{').unwrap_or(written);
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let body = Text {
            text: inner.to_owned(),
            span: body.span,
        };
        let span = self.since(start);
        Ok(Element::Function(FunctionDef {
            annotations,
            name,
            language,
            returns,
            body,
            span,
        }))
    }

    fn aggregation(&mut self, annotations: Vec<Annotation>, start: Span) -> Parse<Element> {
        let name = self.plain_name("the name of an aggregation")?;
        self.mark(Mark::Indent);
        self.mark(Mark::Line);
        self.expect_keyword(Keyword::From)?;
        let input = self.single_input()?;
        let selector = self.aggregation_selector()?;
        self.mark(Mark::Line);
        self.expect_keyword(Keyword::Aggregate)?;
        let by = if self.eat_keyword(Keyword::By) {
            Some(self.attribute_reference("the attribute with the time")?)
        } else {
            None
        };
        self.expect_keyword(Keyword::Every)?;
        let durations = self.durations()?;
        self.mark(Mark::Dedent);
        let span = self.since(start);
        Ok(Element::Aggregation(AggregationDef {
            annotations,
            name,
            input,
            selector,
            by,
            durations,
            span,
        }))
    }

    fn durations(&mut self) -> Parse<Durations> {
        let first = self.duration()?;
        if self.eat(Sign::Ellipsis) {
            return Ok(Durations::Range(first, self.duration()?));
        }
        let mut list = vec![first];
        while self.eat(Sign::Comma) {
            list.push(self.duration()?);
        }
        Ok(Durations::List(list))
    }

    fn duration(&mut self) -> Parse<Spanned<Duration>> {
        let token = self.token(0);
        let value = match token.kind {
            TokenKind::Keyword(Keyword::Seconds) => Duration::Seconds,
            TokenKind::Keyword(Keyword::Minutes) => Duration::Minutes,
            TokenKind::Keyword(Keyword::Hours) => Duration::Hours,
            TokenKind::Keyword(Keyword::Days) => Duration::Days,
            TokenKind::Keyword(Keyword::Months) => Duration::Months,
            TokenKind::Keyword(Keyword::Years) => Duration::Years,
            TokenKind::Keyword(Keyword::Weeks) => {
                let message = "an aggregation has no granularity of weeks".to_owned();
                let report = fault::error("E0145", token.span, message, "not available");
                self.report(report.help("use days or months"));
                Duration::Weeks
            }
            _ => return Err(self.expected("a granularity: sec, min, hour, day, month or year")),
        };
        self.bump();
        Ok(Spanned {
            value,
            span: token.span,
        })
    }
}

const TYPES: &str = "types are string, int, long, float, double, bool and object";

/// The span of an element and whether it is a definition.
fn element_span(element: &Element) -> (Span, bool) {
    match element {
        Element::Stream(d) => (d.span, true),
        Element::Table(d) => (d.span, true),
        Element::Window(d) => (d.span, true),
        Element::Trigger(d) => (d.span, true),
        Element::Function(d) => (d.span, true),
        Element::Aggregation(d) => (d.span, true),
        Element::Query(q) => (q.span, false),
        Element::Partition(p) => (p.span, false),
    }
}
