//! One query: what it reads, its handlers, its rate, and where its rows go.

use crate::Checker;
use crate::codes::check as code;
use crate::names::{Entry, Named, Shape};
use crate::report::error;
use crate::scope::{Input, Scope};
use lang::ast::{self, EventType, Output, StreamKind};
use lang::diagnostic::Kind;
use lang::span::Span;
use lang::suggest::nearest;
use plan::{From, QueryId};

/// What the input of a query comes to.
pub(super) struct CheckedInput {
    /// `None` where a fault leaves nothing to run.
    pub plan: Option<plan::Input>,
    pub scope: Scope,
}

impl Checker<'_> {
    /// Checks a query and puts it into the plan; numbered by its place in it.
    pub(super) fn query(&mut self, query: &ast::Query) -> Option<QueryId> {
        let ordinal = format!("query_{}", self.plan.queries.len() + 1);
        let name = self.element_name(&query.annotations, ordinal);
        let input = self.input(&query.input);
        let (selector, selected) =
            self.selector(&query.selector, &input.scope, target(&query.output));
        let rate = query.rate.as_ref().map(|r| self.rate(r));
        let is_snapshot = rate.is_some_and(|r| r.kind == ast::RateKind::Snapshot);
        let events = self.event_type(&query.output, is_snapshot);
        let output = self.output(&query.output, &selected, select_span(query));
        let is_whole = input.plan.is_some()
            && output.is_some()
            && selector.items.len() == selector.schema.attributes.len()
            && selector.group_by.len() == query.selector.group_by.len()
            && selector.order_by.len() == query.selector.order_by.len()
            && selector.having.is_some() == query.selector.having.is_some();
        self.has_holes |= !is_whole;
        self.plan.queries.push(plan::Query {
            name,
            partition: self.partition,
            // A plan with such a gap is never handed out: the fault behind it was reported.
            input: input.plan.unwrap_or_else(|| plan::Input::Single(nothing())),
            selector,
            rate,
            output: output.unwrap_or(plan::Output::Return),
            events,
            span: query.span,
        });
        Some(self.plan.queries.len() - 1)
    }

    fn input(&mut self, input: &ast::Input) -> CheckedInput {
        match input {
            ast::Input::Single(single) => {
                let (plan, row) = self.single(single, Reads::Query);
                let scope = Scope::one(row, "the select clause");
                CheckedInput {
                    plan: plan.map(plan::Input::Single),
                    scope,
                }
            }
            ast::Input::Join(join) => self.join(join),
            ast::Input::Pattern(pattern) => self.pattern(pattern),
            ast::Input::Anonymous(inner) => {
                self.report(
                    error(
                        code::ANONYMOUS_INPUT,
                        Kind::Name,
                        inner.span,
                        "a query inside 'from (…)' cannot be read from",
                        "an inner query has no name to read it by",
                    )
                    .help("let the inner query insert into a stream, and read that stream"),
                );
                // Its own faults are worth telling all the same.
                let checked = self.input(&inner.input);
                self.selector(&inner.selector, &checked.scope, "");
                let row = Input::new("", StreamKind::Plain, Shape::open(""));
                CheckedInput {
                    plan: None,
                    scope: Scope::one(row, "the select clause"),
                }
            }
        }
    }

    /// A stream, named window, table or aggregation with its handlers. The row is open where the
    /// name is not known.
    pub(super) fn single(
        &mut self,
        single: &ast::SingleInput,
        reads: Reads,
    ) -> (Option<plan::Single>, Input) {
        let from = self.readable_name(&single.stream, reads);
        let mut shape = match from {
            Some(From::Stream(id)) => self.stream_shapes[id].clone(),
            Some(From::Window(id)) => self.window_shapes[id].clone(),
            Some(From::Table(id)) => self.table_shapes[id].clone(),
            Some(From::Aggregation(id)) => self.aggregation_shapes[id].clone(),
            None => Shape::open(&single.stream.name.text),
        };
        shape.name.clone_from(&single.stream.name.text);
        let (name, kind) = match &single.alias {
            Some(alias) => (alias.text.as_str(), StreamKind::Plain),
            None => (single.stream.name.text.as_str(), single.stream.kind),
        };
        let mut row = Input::new(name, kind, shape);
        // Handlers see the stream by its own name and by its alias alike: only one input is there.
        let handlers = self.handlers(&single.handlers, &mut row, from, reads);
        let plan = from.and_then(|from| {
            Some(plan::Single {
                from,
                handlers: handlers?,
                schema: row.shape.schema(),
            })
        });
        (plan, row)
    }

    /// Filters, stream functions and the window in order; `row` grows by what functions add.
    fn handlers(
        &mut self,
        handlers: &[ast::Handler],
        row: &mut Input,
        from: Option<From>,
        reads: Reads,
    ) -> Option<Vec<plan::Handler>> {
        let mut checked = Vec::new();
        let mut is_faulty = false;
        for handler in handlers {
            let scope = Scope::one(row.clone(), "the filter");
            let handler = match handler {
                ast::Handler::Filter(condition) => self
                    .condition(condition, &scope, "a filter")
                    .map(plan::Handler::Filter),
                ast::Handler::Function(call) => {
                    let scope = scope.at("the stream function");
                    let function = self.stream_function(call, &scope);
                    match &function {
                        Some(f) => {
                            for added in &f.adds {
                                row.shape.push(&added.name, Some(added.ty), call.span);
                            }
                        }
                        // What it would have added is not known.
                        None => row.shape.hide(),
                    }
                    function.map(plan::Handler::Function)
                }
                ast::Handler::Window(call) => {
                    self.window_is_allowed(call, from, reads);
                    self.window_call(call, &scope.at("the window"))
                        .map(plan::Handler::Window)
                }
            };
            match handler {
                Some(handler) => checked.push(handler),
                None => is_faulty = true,
            }
        }
        (!is_faulty).then_some(checked)
    }

    fn window_is_allowed(&mut self, call: &ast::Call, from: Option<From>, reads: Reads) {
        let what = match from {
            Some(From::Window(_)) => "a named window is a window already",
            Some(From::Table(_)) => "a table takes no window",
            Some(From::Aggregation(_)) => "an aggregation takes no window",
            Some(From::Stream(_)) | None => match reads {
                Reads::Pattern => "a stream of a pattern takes no window",
                Reads::Aggregation => "the input of an aggregation takes no window",
                _ => return,
            },
        };
        self.report(
            error(
                code::WINDOW_HERE,
                Kind::Type,
                call.span,
                what,
                "a window is not allowed here",
            )
            .help("remove the window, or put it on a stream of another query"),
        );
    }

    /// The stream, window, table or aggregation behind a name, if it can be read at this place.
    fn readable_name(&mut self, name: &ast::StreamName, reads: Reads) -> Option<From> {
        let text = name.name.text.as_str();
        let entry = match name.kind {
            StreamKind::Plain => self.names.get(text),
            StreamKind::Inner => {
                if self.partition.is_none() {
                    self.outside_partition(name);
                    return None;
                }
                self.inner_streams.get(text)
            }
            StreamKind::Fault => return self.fault_stream(name).map(From::Stream),
        };
        let Some(entry) = entry else {
            self.unknown_stream(name);
            return None;
        };
        let from = match entry.named {
            Named::Stream(id) => return Some(From::Stream(id)),
            Named::Window(id) => From::Window(id),
            Named::Table(id) => From::Table(id),
            Named::Aggregation(id) => From::Aggregation(id),
        };
        match (reads, from) {
            (Reads::Join, _) | (Reads::Query | Reads::Pattern, From::Window(_)) => Some(from),
            _ => {
                self.not_a_stream(name, entry, reads);
                None
            }
        }
    }

    fn not_a_stream(&mut self, name: &ast::StreamName, entry: Entry, reads: Reads) {
        let kind = entry.named.kind();
        let place = match reads {
            Reads::Pattern => "a pattern",
            Reads::Aggregation => "an aggregation",
            _ => "a query",
        };
        let help = match reads {
            Reads::Pattern | Reads::Aggregation => {
                format!(
                    "let a query read '{}' and insert into a stream",
                    name.name.text
                )
            }
            _ => format!(
                "join a stream with it, or ask '{}' with an on-demand query",
                name.name.text
            ),
        };
        self.report(
            error(
                code::NOT_A_STREAM,
                Kind::Name,
                name.span,
                format!("{place} cannot read {kind} '{}'", name.name.text),
                format!("this is {}", entry.named.with_article()),
            )
            .related(entry.span, "defined here")
            .help(help),
        );
    }

    pub(super) fn unknown_stream(&mut self, name: &ast::StreamName) {
        if self.is_full() {
            return;
        }
        let text = name.name.text.as_str();
        if name.kind == StreamKind::Plain
            && let Some(later) = self.made_later.get(text)
        {
            let later = *later;
            self.report(
                error(
                    code::USED_TOO_EARLY,
                    Kind::Name,
                    name.span,
                    format!("stream '{text}' is read before the query that makes it"),
                    "not there yet",
                )
                .related(later, "made by this insert")
                .help(format!("put that query first, or define stream '{text}'")),
            );
            return;
        }
        let known: Vec<&str> = match name.kind {
            StreamKind::Inner => self.inner_streams.of(|_| true).collect(),
            _ => {
                let mut names = Self::readable(&self.names);
                names.extend(self.made_later.keys().map(String::as_str));
                names.sort_unstable();
                names
            }
        };
        let near = nearest(text, known);
        if near.is_none() && self.lost_text {
            return;
        }
        let written = if name.kind == StreamKind::Inner {
            format!("#{text}")
        } else {
            text.to_owned()
        };
        let d = error(
            code::UNKNOWN_STREAM,
            Kind::Name,
            name.span,
            format!("stream '{written}' is not defined"),
            "no such stream",
        )
        .did_you_mean(name.name.span, near);
        let d = match (near, name.kind) {
            (None, StreamKind::Plain) if self.inner_streams.get(text).is_some() => d
                .help(format!("inside the partition it is written '#{text}'"))
                .fix(name.span, format!("#{text}")),
            (None, StreamKind::Plain) => d.help(format!("define it: define stream {text} (…);")),
            (None, _) => d.help(format!(
                "insert into '{written}' in an earlier query of the partition"
            )),
            _ => d,
        };
        self.report(d);
    }

    fn rate(&mut self, rate: &ast::OutputRate) -> plan::Rate {
        let every = match &rate.every {
            ast::RateEvery::Events(n) => plan::RateEvery::Events(*n),
            ast::RateEvery::Time(time) => plan::RateEvery::Millis(time.millis),
        };
        let is_positive = match every {
            plan::RateEvery::Events(n) => n > 0,
            plan::RateEvery::Millis(millis) => millis > 0,
        };
        if !is_positive {
            self.report(
                error(
                    code::BAD_VALUE,
                    Kind::Option,
                    rate.span,
                    "an output rate of zero lets nothing out",
                    "zero",
                )
                .help("write a number above zero"),
            );
        }
        plan::Rate {
            kind: rate.kind,
            every,
        }
    }

    fn event_type(&mut self, output: &Output, is_snapshot: bool) -> EventType {
        let (events, span) = match output {
            Output::Insert { events, span, .. }
            | Output::Delete { events, span, .. }
            | Output::Update { events, span, .. }
            | Output::UpdateOrInsert { events, span, .. }
            | Output::Return { events, span } => (*events, *span),
        };
        match events {
            None if is_snapshot => EventType::All,
            None => EventType::Current,
            Some(EventType::All) => EventType::All,
            Some(_) if is_snapshot => {
                self.report(
                    error(
                        code::SNAPSHOT_EVENTS,
                        Kind::Type,
                        span,
                        "'output snapshot' works on all events only",
                        "asks for a part of the events",
                    )
                    .help("write 'insert all events into …', or leave the kind of events out"),
                );
                EventType::All
            }
            Some(events) => events,
        }
    }

    fn output(
        &mut self,
        output: &Output,
        selected: &Shape,
        select_span: Span,
    ) -> Option<plan::Output> {
        match output {
            Output::Insert { target, .. } => self.insert_target(target, selected, select_span),
            Output::Return { .. } => Some(plan::Output::Return),
            Output::Delete {
                table, on, span, ..
            } => self.delete(table, on.as_ref(), *span, selected),
            Output::Update { table, set, on, .. } => {
                self.update(table, set, on, selected, select_span, false)
            }
            Output::UpdateOrInsert { table, set, on, .. } => {
                self.update(table, set, on, selected, select_span, true)
            }
        }
    }
}

/// Who reads a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reads {
    Query,
    Join,
    Pattern,
    Aggregation,
}

/// Stands in a plan that is never handed out.
pub(super) fn nothing() -> plan::Single {
    plan::Single {
        from: From::Stream(0),
        handlers: Vec::new(),
        schema: event::Schema::default(),
    }
}

/// What the selected row is inserted into, by name.
fn target(output: &Output) -> &str {
    match output {
        Output::Insert { target, .. } => &target.name.text,
        Output::Delete { table, .. }
        | Output::Update { table, .. }
        | Output::UpdateOrInsert { table, .. } => &table.name.text,
        Output::Return { .. } => "",
    }
}

/// The select clause, or the input of a query without one.
fn select_span(query: &ast::Query) -> Span {
    if query.selector.span.start < query.selector.span.end {
        return query.selector.span;
    }
    match &query.output {
        Output::Insert { target, .. } => target.span,
        Output::Delete { table, .. }
        | Output::Update { table, .. }
        | Output::UpdateOrInsert { table, .. } => table.span,
        Output::Return { span, .. } => *span,
    }
}
