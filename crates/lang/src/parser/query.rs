//! Queries: their clauses from `select` on.

use super::layout::Mark;
use super::{Parse, Parser, Reported};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, TokenKind};

impl Parser<'_> {
    /// A query from `from` to its output. Clauses with faults are skipped one by one, so that all
    /// are looked at; the query is left out of the tree when its input or output is not known.
    pub(super) fn query(&mut self, annotations: Vec<Annotation>) -> Option<Query> {
        self.attempt(|p| p.query_body(annotations.clone()))
    }

    fn query_body(&mut self, annotations: Vec<Annotation>) -> Option<Query> {
        let start = annotations.first().map_or(self.span(), |a| a.span);
        if self.is_keyword(Keyword::For) {
            let token = self.bump();
            self.report_misspelt(token, Keyword::From);
        } else if !self.eat_keyword(Keyword::From) && !self.eat_misspelt(Keyword::From) {
            self.unexpected("'from'");
            self.skip_element();
            return None;
        }
        self.open_group();
        let input = self.input();
        self.close_group();
        self.next_clause(input.is_ok(), CLAUSES);
        let selector = self.selector();
        self.next_clause(selector.is_ok(), &CLAUSES[1..]);
        let rate = self.output_rate();
        self.next_clause(rate.is_ok(), &CLAUSES[2..]);
        let output = match self.output() {
            Ok(output) => output,
            Err(Reported) => {
                self.skip_element();
                return None;
            }
        };
        Some(Query {
            annotations,
            input: input.ok()?,
            selector: selector.unwrap_or_default(),
            rate: rate.unwrap_or_default(),
            output,
            span: self.since(start),
        })
    }

    /// Goes on to one of the clauses that may follow. Behind a complete clause one must begin right
    /// here, else that is reported.
    fn next_clause(&mut self, complete: bool, clauses: &[Keyword]) {
        if complete {
            let misspelt =
                clauses.iter().any(|k| self.is_misspelt(0, *k)) && !self.peek_at(1).is(Sign::Dot);
            if self.is_one_of(clauses) || misspelt {
                return;
            }
            let misplaced = self.is_one_of(MISPLACED);
            if self.at_boundary() && !misplaced {
                return;
            }
            let report = self.not_a_clause();
            self.report(report);
        }
        self.skip_until(|p| p.is_one_of(clauses));
    }

    fn is_one_of(&self, keywords: &[Keyword]) -> bool {
        matches!(self.peek(), TokenKind::Keyword(keyword) if keywords.contains(&keyword))
    }

    fn not_a_clause(&self) -> crate::diagnostic::Diagnostic {
        let token = self.token(0);
        let word = self.token_text(token).to_ascii_lowercase();
        let found = self.found();
        match (token.kind, word.as_str()) {
            (TokenKind::Name, "where") => {
                let message = "there is no 'where'".to_owned();
                fault::error("E0142", token.span, message, "not a clause of SiddhiQL").help(
                    "filter the input: from Stream[condition]; or the result: having condition",
                )
            }
            (TokenKind::Keyword(keyword), _) if MISPLACED.contains(&keyword) => {
                let message = format!("'{word}' is in the wrong place");
                fault::error("E0140", token.span, message, "out of order").help(ORDER)
            }
            (TokenKind::Sign(sign @ (Sign::CloseParen | Sign::CloseBracket)), _) => {
                let text = sign.text();
                let message = format!("'{text}' closes nothing");
                fault::error("E0113", token.span, message, "nothing is open here")
                    .fix(token.span, "")
            }
            _ => {
                let message = format!("expected the next clause of the query, found {found}");
                fault::error("E0110", token.span, message, "not understood from here on")
                    .help(ORDER)
            }
        }
    }

    // ---- select ----

    /// `select …` with all that belongs to it; the default when there is none.
    pub(super) fn selector(&mut self) -> Parse<Selector> {
        let mut selector = match self.select_list()? {
            Some(selector) => selector,
            None => {
                return Ok(Selector {
                    all: true,
                    ..Selector::default()
                });
            }
        };
        let start = selector.span;
        self.group_by(&mut selector)?;
        if self.is_keyword(Keyword::Having) {
            self.mark(Mark::Line);
            self.bump();
            selector.having = Some(self.expression()?);
        }
        if self.is_keyword(Keyword::Order) {
            self.mark(Mark::Line);
            self.bump();
            self.expect_keyword(Keyword::By)?;
            self.order_by(&mut selector)?;
        }
        if self.is_keyword(Keyword::Limit) {
            self.mark(Mark::Line);
            self.bump();
            selector.limit = Some(self.expression()?);
        }
        if self.is_keyword(Keyword::Offset) {
            self.mark(Mark::Line);
            self.bump();
            selector.offset = Some(self.expression()?);
        }
        selector.span = self.since(start);
        Ok(selector)
    }

    /// The `select … group by …` of an aggregation.
    pub(super) fn aggregation_selector(&mut self) -> Parse<Selector> {
        let Some(mut selector) = self.select_list()? else {
            return Err(self.expected("'select'"));
        };
        let start = selector.span;
        self.group_by(&mut selector)?;
        selector.span = self.since(start);
        Ok(selector)
    }

    fn select_list(&mut self) -> Parse<Option<Selector>> {
        let start = self.span();
        self.mark(Mark::Line);
        if !self.eat_keyword(Keyword::Select) {
            let misspelt = !self.peek_at(1).is(Sign::Dot) && self.eat_misspelt(Keyword::Select);
            if !misspelt {
                return Ok(None);
            }
        }
        let mut selector = Selector::default();
        if self.is(Sign::Star) {
            self.bump();
            selector.all = true;
            if self.is(Sign::Comma) {
                let message = "'*' already means all attributes".to_owned();
                let report = fault::error("E0128", self.span(), message, "nothing can follow '*'")
                    .help("write select *, or name every attribute");
                self.report(report);
                self.skip_until(|p| p.starts_clause(0));
            }
        } else {
            self.select_items(&mut selector)?;
        }
        selector.span = self.since(start);
        Ok(Some(selector))
    }

    fn select_items(&mut self, selector: &mut Selector) -> Parse<()> {
        self.open_group();
        loop {
            if self.at_boundary() && self.is_end_of_items() {
                return self.select_item_missing(selector);
            }
            self.mark(Mark::Soft);
            match self.select_item() {
                Ok(item) => selector.items.push(item),
                Err(Reported) => self.skip_until(|p| p.is(Sign::Comma) || p.starts_clause(0)),
            }
            if self.eat(Sign::Comma) {
                continue;
            }
            if self.item_follows() {
                self.missing_comma("an attribute");
                continue;
            }
            self.close_group();
            return Ok(());
        }
    }

    /// In the first attempt keywords are names as long as something of an item follows.
    fn is_end_of_items(&self) -> bool {
        self.strict || !self.peek().is_name()
    }

    fn select_item_missing(&mut self, selector: &Selector) -> Parse<()> {
        if selector.items.is_empty() {
            let gap = self.gap();
            let message = "'select' names no attribute".to_owned();
            let report = fault::error("E0130", gap, message, "attributes, or *, belong here");
            return Err(self.report(report));
        }
        let comma = self.tokens[self.at.saturating_sub(1)].span;
        let message = "an attribute is missing after ','".to_owned();
        let report = fault::error("E0135", comma, message, "nothing follows this comma")
            .help("remove the comma")
            .fix(comma, "");
        self.report(report);
        Ok(())
    }

    /// Whether another item follows without a comma.
    fn item_follows(&self) -> bool {
        match self.peek() {
            TokenKind::Name => {
                let misspelt = [
                    Keyword::Insert,
                    Keyword::Group,
                    Keyword::Having,
                    Keyword::Order,
                ]
                .into_iter()
                .chain([
                    Keyword::Output,
                    Keyword::Update,
                    Keyword::Delete,
                    Keyword::Limit,
                ])
                .any(|k| self.is_misspelt(0, k));
                let separated = matches!(
                    self.peek_at(1),
                    TokenKind::Sign(Sign::Comma | Sign::Dot | Sign::OpenParen | Sign::Colon)
                        | TokenKind::Keyword(Keyword::As)
                );
                separated || (!misspelt && self.starts_clause(1))
            }
            TokenKind::QuotedName | TokenKind::String(1 | 3) => true,
            _ => false,
        }
    }

    fn select_item(&mut self) -> Parse<SelectItem> {
        let start = self.span();
        let expr = self.expression()?;
        self.eat_extra_close();
        if self.eat_keyword(Keyword::As) {
            let alias = self.name("a name for the attribute")?;
            self.null_is_a_name |= alias.text.eq_ignore_ascii_case("null");
            return Ok(SelectItem {
                expr,
                alias: Some(alias),
                span: self.since(start),
            });
        }
        let span = self.since(start);
        // `(a)` is an expression, only `a` keeps its name.
        let in_brackets = span.text(self.text).starts_with('(');
        match expr.kind {
            ExprKind::Attribute(_) | ExprKind::Literal(_) if in_brackets => {
                self.missing_as(span);
                Ok(SelectItem {
                    expr,
                    alias: None,
                    span,
                })
            }
            ExprKind::Attribute(_) | ExprKind::Error => Ok(SelectItem {
                expr,
                alias: None,
                span,
            }),
            // Without 'as' the words are names of attributes.
            ExprKind::Literal(Literal::Bool(_)) => {
                let token = self.tokens[self.at - 1];
                let name = self.name_of(token);
                let reference = AttributeRef {
                    stream: None,
                    inner: None,
                    name,
                    span: expr.span,
                };
                let expr = Expr {
                    kind: ExprKind::Attribute(reference),
                    span: expr.span,
                };
                Ok(SelectItem {
                    expr,
                    alias: None,
                    span,
                })
            }
            _ => {
                self.missing_as(span);
                Ok(SelectItem {
                    expr,
                    alias: None,
                    span,
                })
            }
        }
    }

    fn missing_as(&mut self, span: Span) {
        let gap = self.gap();
        let next_is_name = self.peek() == TokenKind::Name && !self.starts_line(0);
        let report = if next_is_name {
            let name = self.token_text(self.token(0));
            let message = format!("'as' is missing before '{name}'");
            let report = fault::error("E0116", gap, message, "'as' belongs here")
                .related(span, "this value needs a name")
                .fix(gap, " as");
            self.bump();
            report
        } else {
            let message = "a calculated attribute has no name".to_owned();
            fault::error("E0116", span, message, "'as' and a name are missing")
                .help("write … as name; only a plain attribute keeps its own name")
                .fix(gap, " as result")
        };
        self.report(report);
    }

    // ---- group by, order by ----

    fn group_by(&mut self, selector: &mut Selector) -> Parse<()> {
        let misspelt = self.peek_at(1) == TokenKind::Keyword(Keyword::By)
            && !self.is_keyword(Keyword::Group)
            && self.is_misspelt(0, Keyword::Group);
        self.mark(Mark::Line);
        if misspelt {
            self.eat_misspelt(Keyword::Group);
        } else if !self.eat_keyword(Keyword::Group) {
            return Ok(());
        }
        self.expect_keyword(Keyword::By)?;
        self.open_group();
        loop {
            selector
                .group_by
                .push(self.attribute_reference("an attribute to group by")?);
            if !self.eat(Sign::Comma) {
                self.close_group();
                return self.no_call_behind_group();
            }
            self.mark(Mark::Soft);
        }
    }

    fn no_call_behind_group(&mut self) -> Parse<()> {
        if !self.is(Sign::OpenParen) && !self.is(Sign::Colon) {
            return Ok(());
        }
        let message = "'group by' and 'order by' take attributes, no calls".to_owned();
        let report = fault::error("E0139", self.span(), message, "a call")
            .help("calculate it in a query before this one");
        Err(self.report(report))
    }

    fn order_by(&mut self, selector: &mut Selector) -> Parse<()> {
        self.open_group();
        loop {
            let attribute = self.attribute_reference("an attribute to order by")?;
            self.no_call_behind_group()?;
            let descending = self.eat_keyword(Keyword::Desc);
            if !descending {
                self.eat_keyword(Keyword::Asc);
            }
            selector.order_by.push(OrderItem {
                attribute,
                descending,
            });
            if !self.eat(Sign::Comma) {
                self.close_group();
                return Ok(());
            }
            self.mark(Mark::Soft);
        }
    }

    // ---- output ----

    pub(super) fn output_rate(&mut self) -> Parse<Option<OutputRate>> {
        let start = self.span();
        self.mark(Mark::Line);
        if !self.eat_keyword(Keyword::Output) {
            let misspelt = matches!(
                self.peek_at(1),
                TokenKind::Keyword(
                    Keyword::All
                        | Keyword::First
                        | Keyword::Last
                        | Keyword::Snapshot
                        | Keyword::Every
                )
            ) && self.eat_misspelt(Keyword::Output);
            if !misspelt {
                return Ok(None);
            }
        }
        let kind = match self.peek() {
            TokenKind::Keyword(Keyword::All) => RateKind::All,
            TokenKind::Keyword(Keyword::First) => RateKind::First,
            TokenKind::Keyword(Keyword::Last) => RateKind::Last,
            TokenKind::Keyword(Keyword::Snapshot) => RateKind::Snapshot,
            _ => RateKind::All,
        };
        if !self.is_keyword(Keyword::Every) && !self.is_misspelt(0, Keyword::Every) {
            if !matches!(
                self.peek(),
                TokenKind::Keyword(
                    Keyword::All | Keyword::First | Keyword::Last | Keyword::Snapshot
                )
            ) {
                return Err(self.expected("'every', or 'all', 'first', 'last' or 'snapshot'"));
            }
            self.bump();
        }
        self.expect_keyword(Keyword::Every)?;
        let every = self.rate_every(kind)?;
        Ok(Some(OutputRate {
            kind,
            every,
            span: self.since(start),
        }))
    }

    fn rate_every(&mut self, kind: RateKind) -> Parse<RateEvery> {
        let token = self.token(0);
        let counts = token.kind == TokenKind::Int
            && (self.peek_at(1) == TokenKind::Keyword(Keyword::Events)
                || self.is_misspelt(1, Keyword::Events));
        if !counts {
            return self.time().map(RateEvery::Time);
        }
        let count = self.small_int()?;
        self.expect_keyword(Keyword::Events)?;
        if kind == RateKind::Snapshot {
            let message = "a snapshot is given by time, not by events".to_owned();
            let span = token.span.to(self.gap());
            let report = fault::error("E0133", span, message, "not a time");
            return Err(self.report(report.help("write output snapshot every 5 sec")));
        }
        Ok(RateEvery::Events(u64::from(count)))
    }

    fn output(&mut self) -> Parse<Output> {
        self.mark(Mark::Line);
        self.open_group();
        let output = self.output_body();
        self.close_group();
        output
    }

    fn output_body(&mut self) -> Parse<Output> {
        let start = self.span();
        match self.peek() {
            TokenKind::Keyword(Keyword::Insert) => self.insert(start),
            TokenKind::Keyword(Keyword::Delete) => self.delete(start),
            TokenKind::Keyword(Keyword::Update) => self.update(start),
            TokenKind::Keyword(Keyword::Return) => self.return_output(),
            TokenKind::Keyword(Keyword::Into) => {
                let before = Span::new(start.start, start.start);
                let message = "'insert' is missing before 'into'".to_owned();
                let report = fault::error("E0126", start, message, "'insert' belongs before this");
                self.report(report.fix(before, "insert "));
                self.insert_into(start, None)
            }
            _ if self.is_misspelt(0, Keyword::Insert) => self.insert(start),
            _ if self.is_misspelt(0, Keyword::Update) => self.update(start),
            _ if self.is_misspelt(0, Keyword::Delete) => self.delete(start),
            _ if self.is_misspelt(0, Keyword::Return) => {
                self.eat_misspelt(Keyword::Return);
                self.return_rest(start)
            }
            _ => Err(self.no_output()),
        }
    }

    fn no_output(&mut self) -> Reported {
        if self.behind_open_string() {
            return Reported;
        }
        let gap = self.gap();
        let at_end = self.at_boundary();
        let span = if at_end || self.starts_line(0) {
            gap
        } else {
            self.span()
        };
        let report = if at_end {
            let message = "a query does not say where its result goes".to_owned();
            fault::error("E0126", span, message, "'insert into …' is missing")
        } else {
            let message = format!(
                "expected 'insert into', 'update', 'delete' or 'return', found {}",
                self.found()
            );
            fault::error(
                "E0126",
                span,
                message,
                "the output of the query belongs here",
            )
        };
        self.report(report)
    }

    fn insert(&mut self, start: Span) -> Parse<Output> {
        self.expect_keyword(Keyword::Insert)?;
        let events = if self.is_keyword(Keyword::Into) || self.is_misspelt(0, Keyword::Into) {
            None
        } else if self.is_event_type() {
            Some(self.event_type()?)
        } else if self.peek().is_name() && !self.at_boundary() {
            let gap = self.gap();
            let message = format!("'into' is missing before {}", self.found());
            let report = fault::error("E0110", gap, message, "'into' belongs here");
            self.report(report.fix(gap, " into"));
            let target = self.stream_name("the name of a stream, table or window")?;
            return Ok(Output::Insert {
                target,
                events: None,
                span: self.since(start),
            });
        } else {
            None
        };
        self.insert_into(start, events)
    }

    fn insert_into(&mut self, start: Span, events: Option<EventType>) -> Parse<Output> {
        self.expect_keyword(Keyword::Into)?;
        let target = self.stream_name("the name of a stream, table or window")?;
        Ok(Output::Insert {
            target,
            events,
            span: self.since(start),
        })
    }

    fn delete(&mut self, start: Span) -> Parse<Output> {
        self.expect_keyword(Keyword::Delete)?;
        let table = self.stream_name("the name of a table")?;
        let events = self.for_events()?;
        self.mark(Mark::Soft);
        let on = if self.eat_keyword(Keyword::On) {
            Some(self.expression()?)
        } else {
            None
        };
        Ok(Output::Delete {
            table,
            events,
            on,
            span: self.since(start),
        })
    }

    /// `update T …` or `update or insert into T …`.
    pub(super) fn update(&mut self, start: Span) -> Parse<Output> {
        self.expect_keyword(Keyword::Update)?;
        // `update or …` updates a table named `or` unless the rest of the phrase follows.
        let or_insert = self.is_keyword(Keyword::Or)
            && (self.peek_at(1) == TokenKind::Keyword(Keyword::Insert)
                || self.is_misspelt(1, Keyword::Insert));
        if or_insert {
            self.bump();
            self.expect_keyword(Keyword::Insert)?;
            self.expect_keyword(Keyword::Into)?;
        }
        let table = self.stream_name("the name of a table")?;
        let events = self.for_events()?;
        let set = self.set_clause()?;
        self.mark(Mark::Soft);
        let on = self.update_on(&table)?;
        let span = self.since(start);
        Ok(if or_insert {
            Output::UpdateOrInsert {
                table,
                events,
                set,
                on,
                span,
            }
        } else {
            Output::Update {
                table,
                events,
                set,
                on,
                span,
            }
        })
    }

    fn update_on(&mut self, table: &StreamName) -> Parse<Expr> {
        if self.eat_keyword(Keyword::On) {
            return self.expression();
        }
        if !self.at_boundary() {
            return Err(self.expected("'on' and a condition"));
        }
        let gap = self.gap();
        let name = &table.name.text;
        let message = format!("an update of '{name}' does not say of which rows");
        let report = fault::error("E0146", gap, message, "'on' and a condition are missing")
            .help(format!("write on {name}.key == key"));
        self.report(report);
        Ok(Expr {
            kind: ExprKind::Error,
            span: gap,
        })
    }

    pub(super) fn set_clause(&mut self) -> Parse<Vec<SetItem>> {
        let mut items = Vec::new();
        if !self.is_keyword(Keyword::Set) {
            return Ok(items);
        }
        self.mark(Mark::Soft);
        self.bump();
        self.open_group();
        loop {
            let target = self.attribute_reference("an attribute of the table")?;
            if self.is(Sign::Equal) {
                let span = self.bump().span;
                let message = "'==' compares, it does not set".to_owned();
                let report = fault::error("E0117", span, message, "a comparison");
                self.report(report.help("write = to set an attribute").fix(span, "="));
            } else {
                self.expect(Sign::Assign);
            }
            let value = self.expression()?;
            items.push(SetItem { target, value });
            if !self.eat(Sign::Comma) {
                self.close_group();
                return Ok(items);
            }
            self.mark(Mark::Soft);
        }
    }

    pub(super) fn return_output(&mut self) -> Parse<Output> {
        self.mark(Mark::Line);
        let start = self.span();
        self.expect_keyword(Keyword::Return)?;
        self.return_rest(start)
    }

    fn return_rest(&mut self, start: Span) -> Parse<Output> {
        let events = if self.is_event_type() {
            Some(self.event_type()?)
        } else {
            None
        };
        Ok(Output::Return {
            events,
            span: self.since(start),
        })
    }

    fn for_events(&mut self) -> Parse<Option<EventType>> {
        if !self.eat_keyword(Keyword::For) {
            return Ok(None);
        }
        self.event_type().map(Some)
    }

    fn is_event_type(&self) -> bool {
        match self.peek() {
            TokenKind::Keyword(Keyword::Events) => true,
            TokenKind::Keyword(Keyword::All | Keyword::Expired | Keyword::Current) => {
                self.peek_at(1) == TokenKind::Keyword(Keyword::Events)
                    || self.is_misspelt(1, Keyword::Events)
                    || self.peek_at(1) == TokenKind::Keyword(Keyword::Into)
            }
            _ => false,
        }
    }

    pub(super) fn event_type(&mut self) -> Parse<EventType> {
        let events = match self.peek() {
            TokenKind::Keyword(Keyword::All) => EventType::All,
            TokenKind::Keyword(Keyword::Expired) => EventType::Expired,
            TokenKind::Keyword(Keyword::Current) => EventType::Current,
            TokenKind::Keyword(Keyword::Events) => {
                self.bump();
                return Ok(EventType::Current);
            }
            _ => {
                let what = "'all events', 'expired events' or 'current events'";
                return Err(self.expected(what));
            }
        };
        self.bump();
        self.expect_keyword(Keyword::Events)?;
        Ok(events)
    }
}

/// What may follow the input of a query; the first two are optional, in this order.
const CLAUSES: &[Keyword] = &[
    Keyword::Select,
    Keyword::Output,
    Keyword::Insert,
    Keyword::Delete,
    Keyword::Update,
    Keyword::Return,
];

/// Clauses that, where an output is expected, stand in the wrong place.
const MISPLACED: &[Keyword] = &[
    Keyword::Select,
    Keyword::Group,
    Keyword::Having,
    Keyword::Order,
    Keyword::Limit,
    Keyword::Offset,
    Keyword::Output,
];

const ORDER: &str = "the order is: from, select, group by, having, order by, limit, offset, \
                     output, and insert into, update, delete or return";
