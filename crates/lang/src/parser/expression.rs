//! Expressions, literals, times, calls and references.
//!
//! Operators are read by precedence climbing: a chain of operators of one level is a loop, so only
//! parentheses, calls and `not` recurse, and those are counted.

use super::layout::Mark;
use super::recover::List;
use super::{EXPRESSION_DEPTH_MAX, Parse, Parser};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, Token, TokenKind, UNITS, unit_rank};

const ARGUMENTS: List = List {
    item: "an argument",
    open: Sign::OpenParen,
    close: Sign::CloseParen,
    many: true,
};
const PARENTHESES: List = List {
    item: "an expression",
    open: Sign::OpenParen,
    close: Sign::CloseParen,
    many: false,
};

/// Binding strength, weakest first. `not` binds tighter than all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    In,
    Equality,
    Order,
    Sum,
    Product,
    Tightest,
}

impl Level {
    /// The level that the right side of a left-associative operator must have.
    fn above(self) -> Level {
        match self {
            Level::Or => Level::And,
            Level::And => Level::In,
            Level::In => Level::Equality,
            Level::Equality => Level::Order,
            Level::Order => Level::Sum,
            Level::Sum => Level::Product,
            Level::Product | Level::Tightest => Level::Tightest,
        }
    }
}

fn operator(kind: TokenKind) -> Option<(Level, BinaryOp)> {
    Some(match kind {
        TokenKind::Keyword(Keyword::Or) => (Level::Or, BinaryOp::Or),
        TokenKind::Keyword(Keyword::And) => (Level::And, BinaryOp::And),
        TokenKind::Sign(Sign::Equal) => (Level::Equality, BinaryOp::Equal),
        TokenKind::Sign(Sign::NotEqual) => (Level::Equality, BinaryOp::NotEqual),
        TokenKind::Sign(Sign::Less) => (Level::Order, BinaryOp::Less),
        TokenKind::Sign(Sign::LessEqual) => (Level::Order, BinaryOp::LessEqual),
        TokenKind::Sign(Sign::Greater) => (Level::Order, BinaryOp::Greater),
        TokenKind::Sign(Sign::GreaterEqual) => (Level::Order, BinaryOp::GreaterEqual),
        TokenKind::Sign(Sign::Plus) => (Level::Sum, BinaryOp::Add),
        TokenKind::Sign(Sign::Minus) => (Level::Sum, BinaryOp::Subtract),
        TokenKind::Sign(Sign::Star) => (Level::Product, BinaryOp::Multiply),
        TokenKind::Sign(Sign::Slash) => (Level::Product, BinaryOp::Divide),
        TokenKind::Sign(Sign::Percent) => (Level::Product, BinaryOp::Modulo),
        _ => return None,
    })
}

/// An expression and how deep its tree is.
struct Deep {
    expr: Expr,
    depth: u32,
}

impl Deep {
    fn leaf(kind: ExprKind, span: Span) -> Deep {
        Deep {
            expr: Expr { kind, span },
            depth: 1,
        }
    }
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parse<Expr> {
        self.open_group();
        let parsed = self.climb(Level::Or).map(|deep| deep.expr);
        self.close_group();
        parsed
    }

    fn climb(&mut self, least: Level) -> Parse<Deep> {
        let mut left = self.operand()?;
        loop {
            if self.is_keyword(Keyword::In) && Level::In >= least {
                self.bump();
                let table = self.name("the name of a table")?;
                let table = StreamName {
                    span: table.span,
                    name: table,
                    kind: StreamKind::Plain,
                };
                let span = left.expr.span.to(table.span);
                let depth = self.deeper(left.depth, span)?;
                let kind = ExprKind::In(Box::new(left.expr), table);
                left = Deep {
                    expr: Expr { kind, span },
                    depth,
                };
                continue;
            }
            let Some((level, op)) = self.operator(least) else {
                return Ok(left);
            };
            let right = self.climb(level.above())?;
            let span = left.expr.span.to(right.expr.span);
            let depth = self.deeper(left.depth.max(right.depth), span)?;
            let kind = ExprKind::Binary(op, Box::new(left.expr), Box::new(right.expr));
            left = Deep {
                expr: Expr { kind, span },
                depth,
            };
        }
    }

    /// Takes the next operator if it binds at least as tight as `least`.
    fn operator(&mut self, least: Level) -> Option<(Level, BinaryOp)> {
        let first = self.token(0);
        let second = self.token(1);
        let signs = match (first.kind, second.kind) {
            (TokenKind::Sign(a), TokenKind::Sign(b)) if first.span.end == second.span.start => {
                (a, Some(b))
            }
            (TokenKind::Sign(a), _) => (a, None),
            _ => (Sign::Semicolon, None),
        };
        // Comparisons of other languages are reported and taken for ours.
        let foreign = match signs {
            (Sign::Assign, Some(Sign::Less)) => Some(("=<", "<=", BinaryOp::LessEqual)),
            (Sign::Assign, Some(Sign::Greater)) => Some(("=>", ">=", BinaryOp::GreaterEqual)),
            (Sign::Less, Some(Sign::Greater)) => Some(("<>", "!=", BinaryOp::NotEqual)),
            (Sign::Equal, Some(Sign::Assign)) => Some(("===", "==", BinaryOp::Equal)),
            (Sign::NotEqual, Some(Sign::Assign)) => Some(("!==", "!=", BinaryOp::NotEqual)),
            (Sign::Assign, _) => Some(("=", "==", BinaryOp::Equal)),
            _ => None,
        };
        let Some((written, right, op)) = foreign else {
            let found = operator(first.kind).filter(|(level, _)| *level >= least)?;
            if found.0 <= Level::And {
                self.mark(Mark::Soft);
            }
            self.bump();
            return Some(found);
        };
        let level = match op {
            BinaryOp::Equal | BinaryOp::NotEqual => Level::Equality,
            _ => Level::Order,
        };
        if level < least {
            return None;
        }
        self.bump();
        let (code, span) = if written == "=" {
            ("E0117", first.span)
        } else {
            self.bump();
            ("E0118", first.span.to(second.span))
        };
        let message = format!("'{written}' is not a comparison");
        let report = fault::error(code, span, message, "not an operator of SiddhiQL")
            .help(format!("write {right}"))
            .fix(span, right);
        self.report(report);
        Some((level, op))
    }

    fn deeper(&mut self, depth: u32, span: Span) -> Parse<u32> {
        if depth < EXPRESSION_DEPTH_MAX {
            return Ok(depth + 1);
        }
        let message =
            format!("an expression has more than {EXPRESSION_DEPTH_MAX} operators in a chain");
        let report = fault::error("E0136", span, message, "too long")
            .help("split it, or look the values up in a table with 'in'");
        Err(self.report(report))
    }

    fn operand(&mut self) -> Parse<Deep> {
        let token = self.token(0);
        match token.kind {
            TokenKind::Sign(Sign::OpenParen) => self.nested(Self::parenthesised),
            TokenKind::Keyword(Keyword::Not) if self.operand_follows() => self.nested(Self::not),
            TokenKind::Keyword(Keyword::True | Keyword::False) if !self.reference_follows() => {
                self.bump();
                let value = token.kind == TokenKind::Keyword(Keyword::True);
                self.no_null_check(token.span)?;
                Ok(Deep::leaf(
                    ExprKind::Literal(Literal::Bool(value)),
                    token.span,
                ))
            }
            TokenKind::Sign(Sign::Minus | Sign::Plus) => self.nested(Self::signed),
            TokenKind::Int | TokenKind::Long | TokenKind::Float | TokenKind::Double => {
                self.number(token.span, false)
            }
            TokenKind::String(_) => {
                self.bump();
                let text = self.text_of(token).text;
                self.no_null_check(token.span)?;
                Ok(Deep::leaf(
                    ExprKind::Literal(Literal::String(text)),
                    token.span,
                ))
            }
            TokenKind::Sign(Sign::Bang) if !self.is_fault_reference() => self.nested(Self::bang),
            TokenKind::Sign(Sign::Hash | Sign::Bang) => self.reference_or_call(),
            kind if kind.is_name() => self.reference_or_call(),
            TokenKind::Sign(Sign::Star) => {
                let message = "'*' is not allowed here".to_owned();
                let report = fault::error("E0128", token.span, message, "not a value")
                    .help("'*' must be alone: select *, or f(*)");
                Err(self.report(report))
            }
            _ => Err(self.expected("a value")),
        }
    }

    fn parenthesised(&mut self) -> Parse<Deep> {
        let open = self.bump().span;
        self.open_group();
        let inner = self.climb(Level::Or)?;
        self.close_group();
        self.close(PARENTHESES, open)?;
        let span = self.since(open);
        if self.is_keyword(Keyword::Is) {
            self.no_null_check(span)?;
        }
        let expr = Expr {
            kind: inner.expr.kind,
            span,
        };
        Ok(Deep {
            expr,
            depth: inner.depth,
        })
    }

    fn not(&mut self) -> Parse<Deep> {
        let start = self.bump().span;
        let inner = self.operand()?;
        let span = start.to(inner.expr.span);
        let depth = self.deeper(inner.depth, span)?;
        let kind = ExprKind::Not(Box::new(inner.expr));
        Ok(Deep {
            expr: Expr { kind, span },
            depth,
        })
    }

    /// Whether the token behind `not` begins an operand; else `not` is an attribute's name.
    fn operand_follows(&self) -> bool {
        match self.peek_at(1) {
            // Words that may follow an attribute's name, but for `not in.a` and `not of(x)`.
            TokenKind::Keyword(
                Keyword::As | Keyword::Is | Keyword::And | Keyword::Or | Keyword::In | Keyword::Of,
            ) => matches!(
                self.peek_at(2),
                TokenKind::Sign(Sign::Dot | Sign::OpenParen)
            ),
            TokenKind::Keyword(_) => !self.starts_clause(1),
            TokenKind::Name | TokenKind::QuotedName => true,
            TokenKind::Int | TokenKind::Long | TokenKind::Float | TokenKind::Double => true,
            TokenKind::String(_) => true,
            TokenKind::Sign(Sign::Minus | Sign::Plus) => false,
            TokenKind::Sign(sign) => matches!(sign, Sign::OpenParen | Sign::Hash | Sign::Bang),
            _ => false,
        }
    }

    /// Whether `true` or `false` is a name here: `true.x`, `true(…)`, `true is null`.
    fn reference_follows(&self) -> bool {
        matches!(
            self.peek_at(1),
            TokenKind::Sign(Sign::Dot | Sign::OpenParen | Sign::OpenBracket | Sign::Colon)
                | TokenKind::Keyword(Keyword::Is)
        )
    }

    /// `is null` behind something that is neither an attribute, an event nor a call.
    fn no_null_check(&mut self, span: Span) -> Parse<()> {
        if !self.is_keyword(Keyword::Is) {
            return Ok(());
        }
        let message = "'is null' applies only to an attribute, an event or a call".to_owned();
        let report = fault::error("E0149", span, message, "neither of them")
            .help("remove the parentheses, or put the value into an attribute first");
        Err(self.report(report))
    }

    // ---- literals ----

    /// `+` or `-` in front of a number; nothing else has a sign.
    fn signed(&mut self) -> Parse<Deep> {
        let sign = self.token(0);
        let is_number = matches!(
            self.peek_at(1),
            TokenKind::Int | TokenKind::Long | TokenKind::Float | TokenKind::Double
        );
        if is_number {
            self.bump();
            self.mark(Mark::Tight);
            return self.number(sign.span, sign.kind.is(Sign::Minus));
        }
        let message = format!(
            "'{}' is only allowed before a number",
            self.token_text(sign)
        );
        let report = fault::error("E0132", sign.span, message, "no number follows");
        let report = if sign.kind.is(Sign::Minus) {
            report.help("write 0 - x").fix(sign.span, "0 - ")
        } else {
            report.help("remove it").fix(sign.span, "")
        };
        self.report(report);
        self.bump();
        self.operand()
    }

    /// The number that comes next; `start` is the span of its sign, if it has one.
    fn number(&mut self, start: Span, negative: bool) -> Parse<Deep> {
        let token = self.token(0);
        let signed = start != token.span;
        let has_unit = match self.peek_at(1) {
            TokenKind::Keyword(keyword) => unit_rank(keyword).is_some(),
            TokenKind::Name => !self.starts_line(1) && self.misspelt_unit(1).is_some(),
            _ => false,
        };
        if token.kind == TokenKind::Int && has_unit {
            if signed {
                let message = "a time has no sign".to_owned();
                self.report(fault::error("E0133", start, message, "remove this").fix(start, ""));
            }
            let time = self.time()?;
            self.no_null_check(time.span)?;
            return Ok(Deep::leaf(ExprKind::Time(time), time.span));
        }
        self.bump();
        let span = start.to(token.span);
        self.no_null_check(span)?;
        let literal = self.number_value(token, span, negative);
        Ok(Deep::leaf(
            literal.map_or(ExprKind::Error, ExprKind::Literal),
            span,
        ))
    }

    fn number_value(&mut self, token: Token, span: Span, negative: bool) -> Option<Literal> {
        let text = self.token_text(token);
        let sign = if negative { "-" } else { "" };
        let digits = text.trim_end_matches(['l', 'L', 'f', 'F', 'd', 'D']);
        let value = format!("{sign}{digits}");
        let literal = match token.kind {
            TokenKind::Int => value.parse().ok().map(Literal::Int),
            TokenKind::Long => value.parse().ok().map(Literal::Long),
            TokenKind::Float => value.parse().ok().map(Literal::Float),
            _ => value.parse().ok().map(Literal::Double),
        };
        if literal.is_none() && matches!(token.kind, TokenKind::Int | TokenKind::Long) {
            self.report(fault::number_range(
                token.kind == TokenKind::Int,
                &value,
                span,
            ));
        }
        literal
    }

    /// `1 hour 30 min`, in milliseconds.
    pub(super) fn time(&mut self) -> Parse<TimeSpan> {
        let start = self.span();
        let mut millis = 0i64;
        let mut last_rank = None;
        while self.peek() == TokenKind::Int {
            let amount = self.token(0);
            let Some(rank) = self.unit_at(1) else {
                if last_rank.is_some() {
                    break;
                }
                return Err(self.unit_missing(amount));
            };
            if last_rank.is_some_and(|last| rank <= last) {
                let span = amount.span.to(self.token(1).span);
                let message = "the parts of a time go from the largest unit to the smallest";
                let report = fault::error("E0133", span, message.to_owned(), "out of order");
                self.report(report);
            }
            self.bump();
            self.bump();
            let value = self.token_text(amount).parse::<i64>().ok();
            let part = value.and_then(|v| v.checked_mul(UNITS[rank].1));
            match part.and_then(|part| millis.checked_add(part)) {
                Some(sum) => millis = sum,
                None => {
                    let message = "the time is too long".to_owned();
                    let label = "more than a long holds, in milliseconds";
                    self.report(fault::error("E0105", amount.span, message, label));
                }
            }
            last_rank = Some(rank);
        }
        if last_rank.is_none() {
            return Err(self.expected("a time such as 5 sec"));
        }
        Ok(TimeSpan {
            millis,
            span: self.since(start),
        })
    }

    fn unit_at(&mut self, ahead: usize) -> Option<usize> {
        match self.peek_at(ahead) {
            TokenKind::Keyword(keyword) => unit_rank(keyword),
            TokenKind::Name => {
                let meant = self.misspelt_unit(ahead)?;
                let token = self.token(ahead);
                self.report_misspelt(token, meant);
                unit_rank(meant)
            }
            _ => None,
        }
    }

    /// The unit that a name means: an abbreviation from elsewhere, or nearly one of ours.
    fn misspelt_unit(&self, ahead: usize) -> Option<Keyword> {
        let word = self.token_text(self.token(ahead)).to_ascii_lowercase();
        Some(match word.as_str() {
            "s" | "secs" => Keyword::Seconds,
            "m" | "mins" => Keyword::Minutes,
            "h" | "hr" | "hrs" => Keyword::Hours,
            "d" => Keyword::Days,
            "ms" | "msec" | "millis" | "milli" => Keyword::Milliseconds,
            _ => {
                UNITS
                    .iter()
                    .find(|(unit, _)| self.is_misspelt(ahead, *unit))?
                    .0
            }
        })
    }

    fn unit_missing(&mut self, amount: Token) -> super::Reported {
        let number = self.token_text(amount);
        let message = format!("the time {number} has no unit");
        let end = Span::new(amount.span.end, amount.span.end);
        let report = fault::error("E0133", amount.span, message, "seconds, minutes?")
            .help(format!(
                "write {number} sec, or another unit: millisec, min, hour, day, week, month, year"
            ))
            .fix(end, " sec");
        let reported = self.report(report);
        self.bump();
        reported
    }

    // ---- references and calls ----

    fn is_fault_reference(&self) -> bool {
        self.peek_at(1).is_name()
            && matches!(
                self.peek_at(2),
                TokenKind::Sign(Sign::Dot | Sign::OpenBracket | Sign::Hash)
                    | TokenKind::Keyword(Keyword::Is)
            )
    }

    /// `!x` in the sense of other languages.
    fn bang(&mut self) -> Parse<Deep> {
        let span = self.bump().span;
        let message = "'!' does not negate a condition".to_owned();
        let report = fault::error("E0119", span, message, "not an operator of SiddhiQL")
            .help("write 'not'")
            .fix(span, "not ");
        self.report(report);
        self.operand()
    }

    /// `name`, `name(…)`, `ns:name(…)`, `S.a`, `S[1].a`, `#S.a`, and each with `is null`.
    fn reference_or_call(&mut self) -> Parse<Deep> {
        let start = self.span();
        let first = self.peek();
        let is_call = first.is_name()
            && (self.peek_at(1).is(Sign::OpenParen)
                || (self.peek_at(1).is(Sign::Colon)
                    && self.peek_at(2).is_name()
                    && (self.peek_at(3).is(Sign::OpenParen)
                        || matches!(self.peek_at(3), TokenKind::String(_)))));
        if is_call && !(self.strict && self.starts_clause(0)) {
            let call = self.nested(|p| p.call("a function"))?;
            let is_null = self.is_null()?;
            let span = self.since(start);
            let kind = if is_null {
                ExprKind::IsNull(NullTarget::Call(call))
            } else {
                ExprKind::Call(call)
            };
            return Ok(Deep::leaf(kind, span));
        }
        self.reference()
    }

    fn reference(&mut self) -> Parse<Deep> {
        let start = self.span();
        let quoted = self.peek() == TokenKind::QuotedName;
        let stream = self.stream_reference("a value")?;
        let is_plain = stream.stream.kind == StreamKind::Plain && stream.index.is_none();
        let (stream, inner) = self.inner_reference(stream)?;
        if self.is(Sign::Dot) {
            self.bump();
            let attribute = self.qualified(stream, inner, start)?;
            let is_null = self.is_null()?;
            let span = self.since(start);
            let kind = if is_null {
                ExprKind::IsNull(NullTarget::Attribute(attribute))
            } else {
                ExprKind::Attribute(attribute)
            };
            return Ok(Deep::leaf(kind, span));
        }
        if inner.is_some() {
            return Err(self.expected("'.' and the name of an attribute"));
        }
        if self.is_null()? {
            let kind = ExprKind::IsNull(NullTarget::Reference(stream));
            return Ok(Deep::leaf(kind, self.since(start)));
        }
        if !is_plain {
            return Err(self.expected("'.' and the name of an attribute"));
        }
        let name = stream.stream.name;
        if !quoted && name.text.eq_ignore_ascii_case("null") {
            self.null_value(name.span);
        }
        let span = name.span;
        let attribute = AttributeRef {
            stream: None,
            inner: None,
            name,
            span,
        };
        Ok(Deep::leaf(ExprKind::Attribute(attribute), span))
    }

    /// `[#|!]Name[index]`.
    fn stream_reference(&mut self, what: &str) -> Parse<StreamRef> {
        let start = self.span();
        let stream = self.stream_name(what)?;
        let index = if self.is(Sign::OpenBracket) {
            Some(self.index()?)
        } else {
            None
        };
        Ok(StreamRef {
            stream,
            index,
            span: self.since(start),
        })
    }

    fn inner_reference(&mut self, stream: StreamRef) -> Parse<(StreamRef, Option<StreamRef>)> {
        let follows = self.is(Sign::Hash)
            && self.peek_at(1).is_name()
            && matches!(
                self.peek_at(2),
                TokenKind::Sign(Sign::Dot | Sign::OpenBracket)
            );
        if !follows {
            return Ok((stream, None));
        }
        self.mark(Mark::Tight);
        let inner = self.stream_reference("the name of an inner stream")?;
        Ok((stream, Some(inner)))
    }

    fn qualified(
        &mut self,
        stream: StreamRef,
        inner: Option<StreamRef>,
        start: Span,
    ) -> Parse<AttributeRef> {
        if self.is(Sign::Star) {
            let message = "'*' cannot follow the name of a stream".to_owned();
            let report = fault::error("E0128", self.span(), message, "not an attribute")
                .help("write select * for all attributes, or name them");
            self.report(report);
            self.bump();
            return Err(super::Reported);
        }
        let name = self.name("the name of an attribute")?;
        Ok(AttributeRef {
            stream: Some(stream),
            inner,
            name,
            span: self.since(start),
        })
    }

    /// An attribute where no other expression may stand.
    pub(super) fn attribute_reference(&mut self, what: &str) -> Parse<AttributeRef> {
        let start = self.span();
        if !matches!(self.peek(), TokenKind::Sign(Sign::Hash | Sign::Bang))
            && !self.peek().is_name()
        {
            return Err(self.expected(what));
        }
        let stream = self.stream_reference(what)?;
        let is_plain = stream.stream.kind == StreamKind::Plain && stream.index.is_none();
        let (stream, inner) = self.inner_reference(stream)?;
        if self.eat(Sign::Dot) {
            return self.qualified(stream, inner, start);
        }
        if !is_plain || inner.is_some() {
            return Err(self.expected("'.' and the name of an attribute"));
        }
        let name = stream.stream.name;
        Ok(AttributeRef {
            stream: None,
            inner: None,
            span: name.span,
            name,
        })
    }

    /// `[2]`, `[last]`, `[last - 1]`.
    fn index(&mut self) -> Parse<Index> {
        let open = self.bump().span;
        let index = if self.eat_keyword(Keyword::Last) {
            if self.eat(Sign::Minus) {
                Index::Last(self.small_int()?)
            } else {
                Index::Last(0)
            }
        } else if self.peek() == TokenKind::Int {
            Index::At(self.small_int()?)
        } else {
            return Err(self.expected("an index such as 0, last or last - 1"));
        };
        let brackets = List {
            item: "an index",
            open: Sign::OpenBracket,
            close: Sign::CloseBracket,
            many: false,
        };
        self.close(brackets, open)?;
        Ok(index)
    }

    /// An INT that counts something.
    pub(super) fn small_int(&mut self) -> Parse<u32> {
        let token = self.token(0);
        if token.kind != TokenKind::Int {
            return Err(self.expected("a whole number"));
        }
        let text = self.token_text(token);
        match text.parse::<i32>() {
            Ok(value) => {
                self.bump();
                Ok(value.unsigned_abs())
            }
            Err(_) => {
                let report = fault::number_range(true, text, token.span);
                Err(self.report(report))
            }
        }
    }

    fn is_null(&mut self) -> Parse<bool> {
        if !self.eat_keyword(Keyword::Is) {
            return Ok(false);
        }
        if self.eat_keyword(Keyword::Null) {
            return Ok(true);
        }
        if self.is_keyword(Keyword::Not) && self.peek_at(1) == TokenKind::Keyword(Keyword::Null) {
            let span = self.span().to(self.token(1).span);
            let message = "'is not null' is not an operator".to_owned();
            let report = fault::error("E0149", span, message, "only 'is null' exists")
                .help("write not (x is null)");
            self.report(report);
            self.bump();
            self.bump();
            return Ok(true);
        }
        Err(self.expected("'null'"))
    }

    /// `null` in the place of a value: there is no such literal.
    fn null_value(&mut self, span: Span) {
        let message = "there is no value 'null'".to_owned();
        let report = fault::error("E0120", span, message, "read as the name of an attribute")
            .help("write 'x is null' to test for it, 'not (x is null)' for the contrary");
        if self.nulls.len() < super::ERRORS_MAX {
            self.nulls.push(report);
        }
    }

    /// `[ns:]name(args)`.
    pub(super) fn call(&mut self, what: &str) -> Parse<Call> {
        let start = self.span();
        let mut name = self.name(what)?;
        let mut namespace = None;
        if self.eat(Sign::Colon) {
            namespace = Some(name);
            name = self.name("the name of a function")?;
        }
        let open = self.span();
        if !self.is(Sign::OpenParen) {
            let gap = self.gap();
            let message = format!("'(' is missing after '{}'", name.text);
            let report = fault::error("E0112", gap, message, "the arguments belong here")
                .help(format!("write {}(…)", name.text));
            let reported = self.report(report);
            // A text can only be the first argument.
            if !matches!(self.peek(), TokenKind::String(_)) {
                return Err(reported);
            }
        } else {
            self.mark(Mark::Tight);
            self.bump();
        }
        let args = self.arguments(open)?;
        Ok(Call {
            namespace,
            name,
            args,
            span: self.since(start),
        })
    }

    fn arguments(&mut self, open: Span) -> Parse<Args> {
        if self.eat(Sign::CloseParen) {
            return Ok(Args::List(Vec::new()));
        }
        if self.is(Sign::Star) && !self.peek_at(1).is(Sign::Comma) {
            let star = self.bump().span;
            self.close(ARGUMENTS, open)?;
            return Ok(Args::All(star));
        }
        self.list(ARGUMENTS, open, Self::expression).map(Args::List)
    }
}
