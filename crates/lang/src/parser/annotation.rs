//! `@app:name('x')` and `@source(type='file', @map(type='csv'))`.

use super::layout::Mark;
use super::recover::List;
use super::{Parse, Parser};
use crate::ast::{Annotation, AnnotationElement, Name, Text};
use crate::diagnostic::{Diagnostic, Severity};
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, Token, TokenKind};

const ANNOTATION_LIST: List = List {
    item: "an option",
    open: Sign::OpenParen,
    close: Sign::CloseParen,
    many: true,
};

enum Item {
    Element(AnnotationElement),
    Annotation(Annotation),
    /// A bare name, reported and left out.
    Nothing,
}

impl Parser<'_> {
    pub(super) fn is_app_annotation(&self) -> bool {
        self.is(Sign::At)
            && self.peek_at(1) == TokenKind::Keyword(Keyword::App)
            && self.peek_at(2).is(Sign::Colon)
    }

    /// `@app:name(…)`; the name is the part after `app:`.
    pub(super) fn app_annotation(&mut self) -> Parse<Annotation> {
        let start = self.bump().span;
        self.bump();
        self.bump();
        let name = self.name("the name of an app annotation")?;
        let annotation = self.annotation_body(start, name)?;
        for nested in &annotation.annotations {
            let message = "annotations of the app hold no other annotations".to_owned();
            self.report(fault::error(
                "E0124",
                nested.span,
                message,
                "not allowed here",
            ));
        }
        Ok(annotation)
    }

    /// All annotations in front of an element.
    pub(super) fn annotations(&mut self) -> Vec<Annotation> {
        let mut annotations = Vec::new();
        while self.is(Sign::At) {
            if self.is_app_annotation() {
                let span = self.span().to(self.token(3).span);
                if self.app_annotation().is_ok() && (self.started || self.diagnostics.is_empty()) {
                    let message = "an annotation of the app must be at its start".to_owned();
                    let report = fault::error("E0123", span, message, "too late");
                    self.report(report.help("move it before the first definition"));
                }
            } else {
                match self.attempt(Self::annotation) {
                    Ok(annotation) => {
                        // What stands on a line with unpaired quotes is not what was meant.
                        if !self.is_broken(annotation.span) {
                            annotations.push(annotation);
                        }
                        self.mark(Mark::Line);
                    }
                    Err(_) => self.skip_until(|p| p.starts_clause(0)),
                }
            }
        }
        annotations
    }

    fn is_broken(&self, span: Span) -> bool {
        let first = self.broken.partition_point(|line| line.end < span.start);
        self.broken
            .get(first)
            .is_some_and(|line| line.start < span.end)
    }

    fn annotation(&mut self) -> Parse<Annotation> {
        let start = self.bump().span;
        let name = self.name("the name of an annotation")?;
        self.annotation_body(start, name)
    }

    pub(super) fn annotation_body(&mut self, start: Span, name: Name) -> Parse<Annotation> {
        let mut elements = Vec::new();
        let mut annotations = Vec::new();
        if self.is(Sign::OpenParen) || self.list_without_open(&name) {
            self.mark(Mark::Tight);
            let open = self.span();
            self.eat(Sign::OpenParen);
            let items = self.list(ANNOTATION_LIST, open, |p| p.nested(Self::annotation_item))?;
            for item in items {
                match item {
                    Item::Element(element) => elements.push(element),
                    Item::Annotation(annotation) => annotations.push(annotation),
                    Item::Nothing => {}
                }
            }
        }
        Ok(Annotation {
            name,
            elements,
            annotations,
            span: self.since(start),
        })
    }

    /// `@sink type='log')` or `@sinktype='log')`: the bracket is missing, and is reported here.
    fn list_without_open(&mut self, name: &Name) -> bool {
        let same_line = !self.starts_line(0);
        let glued = self.is(Sign::Assign);
        let follows = matches!(self.peek(), TokenKind::String(1 | 3))
            || (self.peek().is_name() && self.peek_at(1).is(Sign::Assign));
        if !same_line || !(glued || follows) {
            return false;
        }
        let gap = self.gap();
        let message = format!("'(' is missing in the annotation '@{}'", name.text);
        let label = "put the options between '(' and ')'";
        let mut report = fault::error("E0112", gap, message, label);
        if !glued {
            report = report.fix(gap, "(");
        }
        self.report(report);
        self.eat(Sign::Assign);
        true
    }

    fn annotation_item(&mut self) -> Parse<Item> {
        if self.is(Sign::At) {
            return self.annotation().map(Item::Annotation);
        }
        let first = self.token(0);
        let key = match first.kind {
            TokenKind::String(_) if self.peek_at(1).is(Sign::Assign) => {
                self.bump();
                let text = self.text_of(first);
                Name {
                    text: text.text,
                    span: text.span,
                }
            }
            TokenKind::String(_) => {
                self.bump();
                let element = AnnotationElement {
                    key: None,
                    value: self.text_of(first),
                };
                return Ok(Item::Element(element));
            }
            kind if kind.is_name() && !(self.strict && self.starts_clause(0)) => {
                self.option_key()?
            }
            _ => return Err(self.not_a_string(first)),
        };
        if self.is(Sign::Assign) {
            self.mark(Mark::Tight);
            self.bump();
            self.mark(Mark::Tight);
            let value = self.token(0);
            if !matches!(value.kind, TokenKind::String(_)) {
                return Err(self.not_a_string(value));
            }
            self.bump();
            let element = AnnotationElement {
                key: Some(key),
                value: self.text_of(value),
            };
            return Ok(Item::Element(element));
        }
        match self.peek() {
            TokenKind::Sign(Sign::Comma | Sign::CloseParen) => {
                self.report(bare_name(&key));
                Ok(Item::Nothing)
            }
            TokenKind::String(_) => {
                let gap = self.gap();
                let message = format!("'=' is missing after the option '{}'", key.text);
                let report = fault::error("E0112", gap, message, "'=' belongs here").fix(gap, "=");
                self.report(report);
                let value = self.bump();
                let element = AnnotationElement {
                    key: Some(key),
                    value: self.text_of(value),
                };
                Ok(Item::Element(element))
            }
            _ => Err(self.unexpected("'=' and a string")),
        }
    }

    /// `name`, `a.b`, `a-b`, `a:b`: one key, whatever space stands in it.
    fn option_key(&mut self) -> Parse<Name> {
        let first = self.bump();
        let mut name = self.name_of(first);
        while let TokenKind::Sign(sign @ (Sign::Dot | Sign::Minus | Sign::Colon)) = self.peek() {
            self.mark(Mark::Tight);
            self.bump();
            self.mark(Mark::Tight);
            let part = self.name("the rest of the option's name")?;
            name.text.push_str(sign.text());
            name.text.push_str(&part.text);
            name.span = name.span.to(part.span);
        }
        Ok(name)
    }

    /// A string token's text without its quotes.
    pub(super) fn text_of(&self, token: Token) -> Text {
        let text = self.token_text(token);
        let inner = match token.kind {
            TokenKind::String(quotes) if quotes > 0 => {
                let quotes = usize::from(quotes);
                &text[quotes..text.len() - quotes]
            }
            // Not closed, and reported by the lexer.
            _ => text.trim_start_matches(['"', '\'']),
        };
        Text {
            text: inner.to_owned(),
            span: token.span,
        }
    }

    fn not_a_string(&mut self, token: Token) -> super::Reported {
        let found = self.describe(token);
        let written = self.token_text(token);
        let report = fault::error(
            "E0125",
            token.span,
            format!("the value of an option must be a string, found {found}"),
            "not a string",
        );
        let is_word = token.kind.is_name()
            || matches!(
                token.kind,
                TokenKind::Int | TokenKind::Long | TokenKind::Float | TokenKind::Double
            );
        let report = if is_word {
            report
                .help("put the value between quotes")
                .fix(token.span, format!("'{written}'"))
        } else {
            report.help("options are written key='value'")
        };
        self.report(report)
    }
}

/// Siddhi refuses this; published apps have it, so it is read over (`connectors.md` 1.1).
fn bare_name(key: &Name) -> Diagnostic {
    let message = format!(
        "'{}' has no value in an annotation and is ignored",
        key.text
    );
    let mut report = fault::error(
        "W0101",
        key.span,
        message,
        "neither a string nor key='value'",
    )
    .help("remove it, or write key='value'");
    report.severity = Severity::Warning;
    report
}
