//! What follows `from`: a stream with its handlers, a join, or the kind of input decided.

use std::ops::ControlFlow;

use super::layout::Mark;
use super::recover::List;
use super::{Parse, Parser};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, TokenKind};

const FILTER: List = List {
    item: "a condition",
    open: Sign::OpenBracket,
    close: Sign::CloseBracket,
    many: false,
};

/// How many levels of nesting a query inside a query counts for: it takes that much more stack.
const QUERY_NESTING: u32 = 8;

/// What kind of input the tokens behind `from` make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InputKind {
    Single,
    Join,
    Pattern,
    Sequence,
    Anonymous,
}

/// How far the look ahead over an input has come.
#[derive(Default)]
struct Scan {
    /// Open parentheses around parts of a pattern.
    depth: u32,
    /// Open brackets of filters and parentheses of calls: nothing in them counts.
    brackets: u32,
    /// The next word is a name, keyword or not.
    name_place: bool,
    forced: bool,
    /// `e = S`, `A and B`, `S<2>`, `S within …`: a pattern unless a comma or a join follows.
    names_events: bool,
}

impl Parser<'_> {
    /// Everything between `from` and the next clause.
    pub(super) fn input(&mut self) -> Parse<Input> {
        match self.input_kind() {
            InputKind::Single => {
                let single = self.single_input()?;
                if self.is_keyword(Keyword::As) {
                    self.alias_of_single(&single);
                }
                Ok(Input::Single(single))
            }
            InputKind::Join => self.join().map(|join| Input::Join(Box::new(join))),
            InputKind::Pattern => self.pattern(PatternKind::Pattern).map(Input::Pattern),
            InputKind::Sequence => self.pattern(PatternKind::Sequence).map(Input::Pattern),
            InputKind::Anonymous => self.nested_by(QUERY_NESTING, |p| {
                p.anonymous().map(|query| Input::Anonymous(Box::new(query)))
            }),
        }
    }

    /// Only inputs of joins have other names; the rest of the query is read all the same.
    fn alias_of_single(&mut self, single: &SingleInput) {
        let start = self.bump().span;
        let named = self.name("another name for the stream").is_ok();
        let span = self.since(start);
        if named {
            let name = &single.stream.name.text;
            let message = format!("'{name}' cannot be renamed in a query with one input");
            let report = fault::error("E0147", span, message, "only inputs of joins have aliases")
                .help(format!("refer to its attributes as a or {name}.a"))
                .fix(span, "");
            self.report(report);
        }
    }

    /// Reads ahead to the end of the `from` clause. A keyword in the place of a name is a name.
    fn input_kind(&self) -> InputKind {
        let mut ahead = 0;
        while self.peek_at(ahead).is(Sign::OpenParen) {
            ahead += 1;
        }
        if self.peek_at(ahead) == TokenKind::Keyword(Keyword::From)
            && (ahead > 0 || self.precedes_stream(ahead))
        {
            return InputKind::Anonymous;
        }
        let starts_pattern = ahead > 0 || self.is_pattern_word(0);
        let mut scan = Scan {
            name_place: true,
            ..Scan::default()
        };
        for ahead in 0.. {
            match self.scan(&mut scan, ahead) {
                ControlFlow::Continue(next_is_name) => {
                    scan.name_place = next_is_name;
                    // Behind these signs a word is always a name.
                    scan.forced = matches!(
                        self.peek_at(ahead),
                        TokenKind::Sign(Sign::Hash | Sign::Bang | Sign::Dot | Sign::Colon)
                    );
                }
                ControlFlow::Break(Some(kind)) => return kind,
                ControlFlow::Break(None) => break,
            }
        }
        if scan.names_events || starts_pattern {
            InputKind::Pattern
        } else {
            InputKind::Single
        }
    }

    /// One token of the look ahead: whether a name may follow it, or what is decided by it.
    fn scan(&self, scan: &mut Scan, ahead: usize) -> ControlFlow<Option<InputKind>, bool> {
        let kind = self.peek_at(ahead);
        let inside = scan.brackets > 0;
        let next_is_name = match kind {
            TokenKind::End | TokenKind::Sign(Sign::Semicolon) => return ControlFlow::Break(None),
            TokenKind::Sign(Sign::OpenBracket) => {
                scan.brackets += 1;
                false
            }
            TokenKind::Sign(Sign::CloseBracket) => {
                scan.brackets = scan.brackets.saturating_sub(1);
                false
            }
            // Arguments of a call.
            TokenKind::Sign(Sign::OpenParen) if inside || !scan.name_place => {
                scan.brackets += 1;
                false
            }
            TokenKind::Sign(Sign::CloseParen) if inside => {
                scan.brackets -= 1;
                false
            }
            _ if inside => false,
            TokenKind::Sign(Sign::OpenParen) => {
                scan.depth += 1;
                true
            }
            TokenKind::Sign(Sign::CloseParen) => match scan.depth.checked_sub(1) {
                Some(outer) => {
                    scan.depth = outer;
                    false
                }
                None => return ControlFlow::Break(None),
            },
            TokenKind::Sign(Sign::Arrow) => return ControlFlow::Break(Some(InputKind::Pattern)),
            TokenKind::Sign(Sign::Comma) => return ControlFlow::Break(Some(InputKind::Sequence)),
            TokenKind::Sign(Sign::Assign) => {
                scan.names_events = true;
                true
            }
            // The start of a count.
            TokenKind::Sign(Sign::Less) => {
                scan.names_events = true;
                false
            }
            TokenKind::Sign(Sign::Hash | Sign::Bang | Sign::Dot | Sign::Colon) => true,
            TokenKind::Keyword(keyword) => return self.scan_keyword(scan, keyword, ahead),
            _ if self.starts_line(ahead) && self.starts_element(ahead) => {
                return ControlFlow::Break(None);
            }
            // The commas behind a misspelt `select` make no sequence.
            TokenKind::Name if !scan.name_place && self.is_misspelt(ahead, Keyword::Select) => {
                return ControlFlow::Break(None);
            }
            _ => false,
        };
        ControlFlow::Continue(next_is_name)
    }

    fn scan_keyword(
        &self,
        scan: &mut Scan,
        keyword: Keyword,
        ahead: usize,
    ) -> ControlFlow<Option<InputKind>, bool> {
        if scan.name_place {
            let is_word = !scan.forced && self.is_pattern_word(ahead);
            let is_end = !is_word && self.starts_line(ahead) && self.starts_element(ahead);
            return if is_end {
                ControlFlow::Break(None)
            } else {
                ControlFlow::Continue(is_word)
            };
        }
        ControlFlow::Continue(match keyword {
            Keyword::Join | Keyword::Unidirectional => {
                return ControlFlow::Break(Some(InputKind::Join));
            }
            Keyword::And | Keyword::Or => {
                scan.names_events = true;
                true
            }
            Keyword::Within => {
                scan.names_events = true;
                false
            }
            Keyword::As => true,
            Keyword::Select
            | Keyword::Output
            | Keyword::Insert
            | Keyword::Delete
            | Keyword::Update
            | Keyword::Return
            | Keyword::Having
            | Keyword::Group => return ControlFlow::Break(None),
            _ if scan.depth == 0 && self.starts_element(ahead) => return ControlFlow::Break(None),
            _ => false,
        })
    }

    /// Whether `every` or `not` at this place is the word of the language and no stream's name.
    pub(super) fn is_pattern_word(&self, ahead: usize) -> bool {
        matches!(
            self.peek_at(ahead),
            TokenKind::Keyword(Keyword::Every | Keyword::Not)
        ) && self.precedes_stream(ahead)
    }

    /// Whether a stream or a bracket follows the keyword at this place; else it is a name itself.
    fn precedes_stream(&self, ahead: usize) -> bool {
        match self.peek_at(ahead + 1) {
            TokenKind::Sign(Sign::OpenParen) => true,
            TokenKind::Sign(Sign::Hash | Sign::Bang) => {
                self.peek_at(ahead + 2).is_name()
                    && !matches!(
                        self.peek_at(ahead + 3),
                        TokenKind::Sign(Sign::OpenParen | Sign::Dot | Sign::Colon)
                    )
            }
            TokenKind::Keyword(
                Keyword::Select
                | Keyword::Insert
                | Keyword::Output
                | Keyword::Delete
                | Keyword::Update
                | Keyword::Return
                | Keyword::And
                | Keyword::Or
                | Keyword::For
                | Keyword::Within
                | Keyword::As
                | Keyword::Join,
            ) => matches!(
                self.peek_at(ahead + 2),
                TokenKind::Sign(Sign::Assign | Sign::Arrow | Sign::OpenBracket | Sign::Comma)
            ),
            kind => kind.is_name(),
        }
    }

    // ---- one stream ----

    pub(super) fn single_input(&mut self) -> Parse<SingleInput> {
        let start = self.span();
        let stream = self.stream_name("the name of a stream")?;
        let handlers = self.handlers(true)?;
        Ok(SingleInput {
            stream,
            handlers,
            alias: None,
            span: self.since(start),
        })
    }

    /// Filters, stream functions and at most one window.
    pub(super) fn handlers(&mut self, window_allowed: bool) -> Parse<Vec<Handler>> {
        let mut handlers = Vec::new();
        let mut window: Option<Span> = None;
        loop {
            if self.is(Sign::Hash) {
                self.mark(Mark::Tight);
            }
            match self.peek() {
                TokenKind::Sign(Sign::OpenBracket) => handlers.push(self.filter()?),
                TokenKind::Sign(Sign::Hash) if self.peek_at(1).is(Sign::OpenBracket) => {
                    self.bump();
                    handlers.push(self.filter()?);
                }
                TokenKind::Sign(Sign::Hash)
                    if self.is_window(1)
                        || (self.is_misspelt(1, Keyword::Window)
                            && self.peek_at(2).is(Sign::Dot)) =>
                {
                    let start = self.bump().span;
                    if !self.eat_misspelt(Keyword::Window) {
                        self.bump();
                    }
                    self.bump();
                    let call = self.call("the name of a window, such as length(5)")?;
                    let span = self.since(start);
                    self.check_window(window_allowed, window, span);
                    window = Some(span);
                    handlers.push(Handler::Window(call));
                }
                TokenKind::Sign(Sign::Hash) => {
                    self.bump();
                    handlers.push(Handler::Function(
                        self.call("the name of a stream function")?,
                    ));
                }
                TokenKind::Sign(Sign::Dot) if self.is_window(1) => {
                    let span = self.span();
                    let message = "a window is attached by '#', not by '.'".to_owned();
                    let report = fault::error("E0110", span, message, "'#' belongs here");
                    return Err(self.report(report.fix(span, "#")));
                }
                _ => return Ok(handlers),
            }
        }
    }

    fn is_window(&self, ahead: usize) -> bool {
        self.peek_at(ahead) == TokenKind::Keyword(Keyword::Window)
            && self.peek_at(ahead + 1).is(Sign::Dot)
    }

    fn check_window(&mut self, allowed: bool, first: Option<Span>, span: Span) {
        let report = if !allowed {
            let message = "a pattern or sequence takes no windows".to_owned();
            fault::error("E0148", span, message, "not allowed here")
        } else if let Some(first) = first {
            let message = "a stream takes only one window".to_owned();
            fault::error("E0148", span, message, "the second window")
                .related(first, "the first window")
        } else {
            return;
        };
        self.report(report.help("put it into a separate query, and read that query's output"));
    }

    fn filter(&mut self) -> Parse<Handler> {
        let open = self.bump().span;
        if self.is(Sign::CloseBracket) {
            let message = "a filter holds no condition".to_owned();
            self.report(fault::error(
                "E0130",
                open.to(self.span()),
                message,
                "empty",
            ));
            self.bump();
            return Ok(Handler::Filter(Expr {
                kind: ExprKind::Error,
                span: self.since(open),
            }));
        }
        let condition = match self.expression() {
            Ok(condition) => condition,
            Err(reported) => {
                // Go on behind the filter when its end is in sight.
                let start = self.span();
                self.skip_until(|p| p.is(Sign::CloseBracket) || p.starts_clause(0));
                if !self.eat(Sign::CloseBracket) {
                    return Err(reported);
                }
                let span = self.since(start);
                return Ok(Handler::Filter(Expr {
                    kind: ExprKind::Error,
                    span,
                }));
            }
        };
        if self.close(FILTER, open).is_err() {
            self.skip_until(|p| p.is(Sign::CloseBracket) || p.starts_clause(0));
            if !self.eat(Sign::CloseBracket) {
                return Err(super::Reported);
            }
        }
        Ok(Handler::Filter(condition))
    }

    // ---- joins ----

    fn join(&mut self) -> Parse<JoinInput> {
        let start = self.span();
        let left = self.join_side()?;
        let left_triggers = self.eat_keyword(Keyword::Unidirectional);
        self.mark(Mark::Soft);
        let kind = self.join_kind()?;
        let right = self.join_side()?;
        let right_span = self.span();
        let right_triggers = self.eat_keyword(Keyword::Unidirectional);
        if left_triggers && right_triggers {
            let message = "only one side of a join can be unidirectional".to_owned();
            let report = fault::error("E0110", right_span, message, "the second one");
            self.report(report.fix(right_span, ""));
        }
        let trigger = match (left_triggers, right_triggers) {
            (true, _) => JoinTrigger::Left,
            (_, true) => JoinTrigger::Right,
            _ => JoinTrigger::Both,
        };
        self.mark(Mark::Soft);
        let on = if self.eat_keyword(Keyword::On) {
            Some(self.expression()?)
        } else {
            None
        };
        let (within, per) = self.within_per()?;
        let span = self.since(start);
        Ok(JoinInput {
            left,
            right,
            kind,
            trigger,
            on,
            within,
            per,
            span,
        })
    }

    fn join_side(&mut self) -> Parse<SingleInput> {
        let mut side = self.single_input()?;
        if let Some(late) = behind_window(&side.handlers) {
            let message = "in a join nothing may follow the window".to_owned();
            let report = fault::error("E0148", late, message, "after the window")
                .help("put the filter before the window, or into a separate query");
            self.report(report);
        }
        if self.eat_keyword(Keyword::As) {
            side.alias = Some(self.name("another name for the stream")?);
            side.span = side.span.to(self.gap());
        }
        if self.is(Sign::OpenBracket) || self.is(Sign::Hash) {
            let message = "filters and windows come before 'as'".to_owned();
            let report = fault::error("E0140", self.span(), message, "too late");
            return Err(self.report(report));
        }
        Ok(side)
    }

    fn join_kind(&mut self) -> Parse<JoinKind> {
        let start = self.span();
        let side = match self.peek() {
            TokenKind::Keyword(Keyword::Left) => Some(JoinKind::LeftOuter),
            TokenKind::Keyword(Keyword::Right) => Some(JoinKind::RightOuter),
            TokenKind::Keyword(Keyword::Full) => Some(JoinKind::FullOuter),
            _ => None,
        };
        if let Some(kind) = side {
            self.bump();
            if self.is_keyword(Keyword::Join) {
                let word = self.token_text(self.token(0)).to_owned();
                let gap = self.gap();
                let message = format!("'outer' is missing before '{word}'");
                let report = fault::error("E0138", gap, message, "'outer' belongs here");
                self.report(report.fix(gap, " outer"));
            } else {
                self.expect_keyword(Keyword::Outer)?;
            }
            self.expect_keyword(Keyword::Join)?;
            return Ok(kind);
        }
        if self.eat_keyword(Keyword::Outer) {
            let message = "an outer join needs a side".to_owned();
            let report = fault::error("E0138", start, message, "left, right or full?")
                .help("write left outer join, right outer join or full outer join");
            self.report(report);
            self.expect_keyword(Keyword::Join)?;
            return Ok(JoinKind::FullOuter);
        }
        self.eat_keyword(Keyword::Inner);
        self.expect_keyword(Keyword::Join)?;
        Ok(JoinKind::Inner)
    }

    /// `within a, b per c`, of joins with aggregations and on-demand queries.
    pub(super) fn within_per(&mut self) -> Parse<(Option<Within>, Option<Expr>)> {
        if !self.is_keyword(Keyword::Within) {
            return Ok((None, None));
        }
        self.mark(Mark::Soft);
        self.bump();
        let start = self.expression()?;
        let end = if self.eat(Sign::Comma) {
            Some(self.expression()?)
        } else {
            None
        };
        self.expect_keyword(Keyword::Per)?;
        let per = self.expression()?;
        Ok((Some(Within { start, end }), Some(per)))
    }

    // ---- queries as inputs ----

    /// `(from S … return)`; Siddhi parses it and refuses it later.
    fn anonymous(&mut self) -> Parse<Query> {
        if self.is(Sign::OpenParen) {
            let open = self.bump().span;
            self.mark(Mark::Indent);
            self.mark(Mark::Line);
            let query = self.nested_by(QUERY_NESTING, Self::anonymous)?;
            self.mark(Mark::Dedent);
            self.mark(Mark::Line);
            let brackets = List {
                item: "a query",
                open: Sign::OpenParen,
                close: Sign::CloseParen,
                many: false,
            };
            self.close(brackets, open)?;
            return Ok(query);
        }
        let start = self.span();
        self.expect_keyword(Keyword::From)?;
        let input = self.input()?;
        let selector = self.selector()?;
        let rate = self.output_rate()?;
        let output = self.return_output()?;
        Ok(Query {
            annotations: Vec::new(),
            input,
            selector,
            rate,
            output,
            span: self.since(start),
        })
    }
}

/// The first handler that stands behind a window.
fn behind_window(handlers: &[Handler]) -> Option<Span> {
    let window = handlers
        .iter()
        .position(|h| matches!(h, Handler::Window(_)))?;
    handlers.get(window + 1).map(|handler| match handler {
        Handler::Filter(condition) => condition.span,
        Handler::Function(call) | Handler::Window(call) => call.span,
    })
}
