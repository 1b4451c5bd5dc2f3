//! Patterns (`->`) and sequences (`,`).
//!
//! The grammar of Siddhi spells out which combinations of `every`, `not … for` and parentheses may
//! stand where. Here one grammar covers them all; what Siddhi cannot run is refused by the checker
//! with its reason.

use super::layout::Mark;
use super::recover::List;
use super::{Parse, Parser, Reported};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, TokenKind};

const GROUP: List = List {
    item: "a pattern",
    open: Sign::OpenParen,
    close: Sign::CloseParen,
    many: false,
};

impl Parser<'_> {
    pub(super) fn pattern(&mut self, kind: PatternKind) -> Parse<PatternInput> {
        let start = self.span();
        let root = self.chain(kind)?;
        self.mark(Mark::Soft);
        let within = if self.eat_keyword(Keyword::Within) {
            Some(self.time()?)
        } else {
            None
        };
        self.check_absent(&root, false);
        Ok(PatternInput {
            kind,
            root,
            within,
            span: self.since(start),
        })
    }

    fn chain(&mut self, kind: PatternKind) -> Parse<PatternElement> {
        let start = self.span();
        let separator = match kind {
            PatternKind::Pattern => Sign::Arrow,
            PatternKind::Sequence => Sign::Comma,
        };
        // `every` at the start of a sequence belongs to all of it.
        let every = (kind == PatternKind::Sequence && self.is_every()).then(|| self.bump().span);
        let mut elements = vec![self.element_of_chain(kind)?];
        loop {
            if self.is(separator) {
                // An arrow begins the new line, a comma ends the old one.
                if separator == Sign::Arrow {
                    self.mark(Mark::Soft);
                }
                self.bump();
                if separator == Sign::Comma {
                    self.mark(Mark::Soft);
                }
                elements.push(self.element_of_chain(kind)?);
                continue;
            }
            let other = match kind {
                PatternKind::Pattern => Sign::Comma,
                PatternKind::Sequence => Sign::Arrow,
            };
            if !self.is(other) {
                break;
            }
            let message = "'->' and ',' cannot be mixed in one pattern".to_owned();
            let label = format!("the pattern was begun with '{}'", separator.text());
            let report = fault::error("E0141", self.span(), message, &label)
                .help("'->' makes a pattern, ',' a sequence: use one of them");
            return Err(self.report(report));
        }
        let span = self.since(start);
        let chain = if elements.len() == 1 {
            elements.remove(0)
        } else {
            PatternElement::Chain(elements, span)
        };
        Ok(match every {
            Some(_) => PatternElement::Every(Box::new(chain), span),
            None => chain,
        })
    }

    fn is_every(&self) -> bool {
        self.is_keyword(Keyword::Every) && self.is_pattern_word(0)
    }

    fn element_of_chain(&mut self, kind: PatternKind) -> Parse<PatternElement> {
        let start = self.span();
        if self.is_every() {
            if kind == PatternKind::Sequence {
                let message = "'every' is only allowed at the start of a sequence".to_owned();
                let report = fault::error("E0141", start, message, "not at the start");
                self.report(report.fix(start, ""));
            }
            self.bump();
            let element = self.nested(|p| p.atom_or_group(kind))?;
            return Ok(PatternElement::Every(Box::new(element), self.since(start)));
        }
        self.atom_or_group(kind)
    }

    fn atom_or_group(&mut self, kind: PatternKind) -> Parse<PatternElement> {
        if !self.is(Sign::OpenParen) {
            return self.logical(kind);
        }
        let open = self.bump().span;
        self.open_group();
        let group = self.nested(|p| p.chain(kind))?;
        self.close_group();
        self.close(GROUP, open)?;
        Ok(group)
    }

    /// One element, or two joined by `and` or `or`.
    fn logical(&mut self, kind: PatternKind) -> Parse<PatternElement> {
        let start = self.span();
        let left = self.atom(kind)?;
        let op = if self.eat_keyword(Keyword::And) {
            LogicalOp::And
        } else if self.eat_keyword(Keyword::Or) {
            LogicalOp::Or
        } else {
            return Ok(left);
        };
        self.refuse_count(&left);
        let right = self.atom(kind)?;
        self.refuse_count(&right);
        let (left, right) = (Box::new(left), Box::new(right));
        if self.is_keyword(Keyword::And) || self.is_keyword(Keyword::Or) {
            let message = "only two elements can be joined by 'and' or 'or'".to_owned();
            let report = fault::error("E0141", self.span(), message, "the third");
            return Err(self.report(report));
        }
        Ok(PatternElement::Logical {
            left,
            op,
            right,
            span: self.since(start),
        })
    }

    fn refuse_count(&mut self, element: &PatternElement) {
        if let PatternElement::Count { span, .. } = element {
            let message = "an element of 'and' or 'or' cannot be counted".to_owned();
            self.report(fault::error("E0141", *span, message, "counted"));
        }
    }

    fn atom(&mut self, kind: PatternKind) -> Parse<PatternElement> {
        if self.is_keyword(Keyword::Not) && self.is_pattern_word(0) {
            return self.absent();
        }
        let start = self.span();
        let reference = if self.peek().is_name() && self.peek_at(1).is(Sign::Assign) {
            let name = self.name("the name of an event")?;
            self.mark(Mark::Tight);
            self.bump();
            self.mark(Mark::Tight);
            Some(name)
        } else {
            None
        };
        let stream = self.pattern_input_stream()?;
        let stream = PatternStream {
            reference,
            stream,
            span: self.since(start),
        };
        self.count(kind, stream, start)
    }

    fn pattern_input_stream(&mut self) -> Parse<SingleInput> {
        let start = self.span();
        let stream = self.stream_name("the name of a stream")?;
        let handlers = self.handlers(false)?;
        Ok(SingleInput {
            stream,
            handlers,
            alias: None,
            span: self.since(start),
        })
    }

    fn absent(&mut self) -> Parse<PatternElement> {
        let start = self.bump().span;
        let stream = self.pattern_input_stream()?;
        let wait = if self.eat_keyword(Keyword::For) {
            Some(self.time()?)
        } else {
            None
        };
        Ok(PatternElement::Absent {
            stream,
            wait,
            span: self.since(start),
        })
    }

    /// `<2:5>`, `*`, `+`, `?` behind an element.
    fn count(
        &mut self,
        kind: PatternKind,
        stream: PatternStream,
        start: Span,
    ) -> Parse<PatternElement> {
        let (min, max) = match self.peek() {
            TokenKind::Sign(Sign::Less) => {
                self.mark(Mark::Tight);
                self.bump();
                self.mark(Mark::Tight);
                self.bounds()?
            }
            TokenKind::Sign(sign @ (Sign::Star | Sign::Plus | Sign::Question)) => {
                let (min, max, written) = match sign {
                    Sign::Star => (0, None, "<0:>"),
                    Sign::Plus => (1, None, "<1:>"),
                    _ => (0, Some(1), "<0:1>"),
                };
                if kind == PatternKind::Pattern {
                    let text = sign.text();
                    let message = format!("'{text}' counts only in sequences");
                    let report = fault::error("E0141", self.span(), message, "not in a pattern")
                        .help(format!("write {written}"))
                        .fix(self.span(), written);
                    self.report(report);
                }
                self.mark(Mark::Tight);
                self.bump();
                (min, max)
            }
            _ => return Ok(PatternElement::Stream(stream)),
        };
        Ok(PatternElement::Count {
            stream,
            min,
            max,
            span: self.since(start),
        })
    }

    /// `2:5>`, `2:>`, `:5>` or `2>`.
    fn bounds(&mut self) -> Parse<(u32, Option<u32>)> {
        let min = if self.peek() == TokenKind::Int {
            Some(self.small_int()?)
        } else {
            None
        };
        let bounds = if self.eat(Sign::Colon) {
            let max = if self.peek() == TokenKind::Int {
                Some(self.small_int()?)
            } else {
                None
            };
            if min.is_none() && max.is_none() {
                return Err(self.expected("a whole number"));
            }
            (min.unwrap_or(0), max)
        } else {
            match min {
                Some(min) => (min, Some(min)),
                None => return Err(self.expected("a count such as 2 or 2:5")),
            }
        };
        self.mark(Mark::Tight);
        if !self.eat(Sign::Greater) {
            return Err(self.expected("'>'"));
        }
        Ok(bounds)
    }

    /// `not S` must say for how long, but for a side of `and` whose other side is a stream.
    fn check_absent(&mut self, element: &PatternElement, may_wait_for_ever: bool) {
        match element {
            PatternElement::Every(inner, _) => self.check_absent(inner, false),
            PatternElement::Chain(elements, _) => {
                for element in elements {
                    self.check_absent(element, false);
                }
            }
            PatternElement::Logical {
                left, op, right, ..
            } => {
                let is_stream = |e: &PatternElement| matches!(e, PatternElement::Stream(_));
                let and = *op == LogicalOp::And;
                self.check_absent(left, and && is_stream(right));
                self.check_absent(right, and && is_stream(left));
            }
            PatternElement::Absent {
                stream,
                wait: None,
                span,
            } if !may_wait_for_ever => {
                let name = &stream.stream.name.text;
                let message = format!("'not {name}' does not say for how long");
                let end = Span::new(span.end, span.end);
                let report = fault::error("E0134", *span, message, "'for …' is missing")
                    .help(format!(
                        "write not {name} for 5 sec, or not {name} and another stream"
                    ))
                    .fix(end, " for 1 sec");
                let Reported = self.report(report);
            }
            _ => {}
        }
    }
}
