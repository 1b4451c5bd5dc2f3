//! Joins (`JoinInputStreamParser`).

use event::Type;

use crate::Checker;
use crate::codes::check as code;
use crate::query::{CheckedInput, Reads};
use crate::report::{error, warning};
use crate::scope::Scope;
use lang::ast::{self, JoinTrigger};
use lang::diagnostic::Kind;
use lang::span::Span;
use plan::spec::FunctionKind;
use plan::{Expr, From, Handler, Single};

impl Checker<'_> {
    pub(super) fn join(&mut self, join: &ast::JoinInput) -> CheckedInput {
        let (mut left, mut left_row) = self.single(&join.left, Reads::Join);
        let (mut right, mut right_row) = self.single(&join.right, Reads::Join);
        for (side, row) in [(&left, &mut left_row), (&right, &mut right_row)] {
            let side = side.as_ref();
            row.is_untimed =
                side.is_some_and(|s| matches!(s.from, From::Table(_) | From::Aggregation(_)));
        }
        self.same_alias(join);
        let scope = Scope::many(vec![left_row, right_row], "the select clause");
        if let (Some(left), Some(right)) = (&left, &right) {
            self.sides(join, left, right);
        }
        for single in [&mut left, &mut right].into_iter().flatten() {
            if matches!(single.from, From::Table(_) | From::Aggregation(_)) {
                single.handlers.clear();
            }
        }
        let on_scope = Scope {
            takes_aggregators: false,
            takes_probes: false,
            finds_rows: true,
            ..scope.at("the join condition")
        };
        let on = match &join.on {
            Some(on) => self.condition(on, &on_scope, "'on'").map(Some),
            None => Some(None),
        };
        let froms = [
            left.as_ref().map(|s| s.from),
            right.as_ref().map(|s| s.from),
        ];
        let range = self.range(
            join.within.as_ref(),
            join.per.as_ref(),
            froms,
            join.span,
            &on_scope,
        );
        let plan =
            left.zip(right)
                .zip(on)
                .zip(range)
                .map(|(((left, right), on), (within, per))| {
                    plan::Input::Join(Box::new(plan::Join {
                        left,
                        right,
                        kind: join.kind,
                        trigger: join.trigger,
                        on,
                        within,
                        per,
                    }))
                });
        CheckedInput { plan, scope }
    }

    fn same_alias(&mut self, join: &ast::JoinInput) {
        let (Some(left), Some(right)) = (&join.left.alias, &join.right.alias) else {
            return;
        };
        if left.text == right.text {
            self.report(
                warning(
                    code::REFERENCE_TAKEN,
                    Kind::Name,
                    right.span,
                    format!("both sides of the join are named '{}'", right.text),
                    "this name is taken",
                )
                .related(left.span, "first used here")
                .help("the name means the first of them: give the other one another"),
            );
        }
    }

    fn sides(&mut self, join: &ast::JoinInput, left: &Single, right: &Single) {
        let is_static = |s: &Single| matches!(s.from, From::Table(_) | From::Aggregation(_));
        if is_static(left) && is_static(right) {
            self.report(
                error(
                    code::STATIC_JOIN,
                    Kind::Type,
                    join.left.stream.span.to(join.right.stream.span),
                    "a join needs a stream or a window on one side",
                    "nothing here ever starts the join",
                )
                .help("join a stream with each of them, or ask with an on-demand query"),
            );
            return;
        }
        for (single, written, is_trigger) in [
            (left, &join.left, join.trigger == JoinTrigger::Left),
            (right, &join.right, join.trigger == JoinTrigger::Right),
        ] {
            if !is_static(single) {
                continue;
            }
            if is_trigger {
                self.report(
                    warning(
                        code::STATIC_TRIGGER,
                        Kind::Type,
                        written.stream.span,
                        format!(
                            "'{}' cannot start the join: it sends no events",
                            written.stream.name.text
                        ),
                        "marked 'unidirectional'",
                    )
                    .help("put 'unidirectional' after the other side, or leave it out"),
                );
            }
            for handler in &written.handlers {
                self.handler_on_table(handler, &written.stream.name.text);
            }
        }
        if join.trigger != JoinTrigger::Left {
            self.must_be_findable(left, &join.left);
        }
        if join.trigger != JoinTrigger::Right {
            self.must_be_findable(right, &join.right);
        }
    }

    /// Siddhi passes over a filter there; a function would add attributes that no row has.
    fn handler_on_table(&mut self, handler: &ast::Handler, table: &str) {
        let span = handler_span(handler);
        self.report(match handler {
            ast::Handler::Filter(_) => warning(
                code::FILTER_IGNORED,
                Kind::Type,
                span,
                format!("the filter of '{table}' has no effect in a join"),
                "passed over",
            )
            .help("put the condition into 'on'"),
            // Reported where the side itself was checked.
            ast::Handler::Window(_) => return,
            ast::Handler::Function(_) => error(
                code::HANDLER_ON_TABLE,
                Kind::Type,
                span,
                format!("'{table}' takes no function in a join"),
                "is not allowed here",
            )
            .help("the rows of a table are looked up, they do not pass by"),
        });
    }

    /// The other side looks rows up here.
    fn must_be_findable(&mut self, single: &Single, written: &ast::SingleInput) {
        let window = match single.from {
            From::Window(id) => Some(&self.plan.windows[id].window),
            _ => single.handlers.iter().find_map(|h| match h {
                Handler::Window(window) => Some(window),
                _ => None,
            }),
        };
        let Some(window) = window else { return };
        let name = window.name.clone();
        let (namespace, plain) = name.split_once(':').unwrap_or(("", &name));
        let catalog = self.catalog;
        let Some(spec) = catalog.function(FunctionKind::Window, namespace, plain) else {
            return;
        };
        if spec.findable {
            return;
        }
        self.report(
            warning(
                code::NOT_SEARCHABLE,
                Kind::Type,
                written.span,
                format!("the join finds nothing on this side: window '{name}' cannot be searched"),
                "no row is ever found here",
            )
            .help("use another window, or make this side 'unidirectional'"),
        );
    }

    /// `within … per …` belongs to an aggregation, and both belong together.
    pub(super) fn range(
        &mut self,
        within: Option<&ast::Within>,
        per: Option<&ast::Expr>,
        froms: [Option<From>; 2],
        span: Span,
        scope: &Scope,
    ) -> Option<(Option<(Expr, Option<Expr>)>, Option<Expr>)> {
        let aggregation = froms.into_iter().flatten().find_map(|f| match f {
            From::Aggregation(id) => Some(id),
            _ => None,
        });
        let is_unknown = froms.contains(&None);
        if within.is_none() && per.is_none() {
            if let Some(id) = aggregation {
                let name = self.plan.aggregations[id].name.clone();
                self.report(
                    error(
                        code::RANGE_MISSING,
                        Kind::Type,
                        span,
                        format!("aggregation '{name}' is read without a range of time"),
                        "'within … per …' is missing",
                    )
                    .help(
                        "say which time and which steps, as in: within '2024-**-** **:**:**' \
                     per 'days'",
                    ),
                );
                return None;
            }
            return Some((None, None));
        }
        if aggregation.is_none() && !is_unknown {
            let span = within
                .map(|w| w.start.span)
                .or(per.map(|p| p.span))
                .unwrap_or(span);
            self.report(
                error(
                    code::RANGE_HERE,
                    Kind::Type,
                    span,
                    "'within … per …' needs an aggregation on one side",
                    "neither side is an aggregation",
                )
                .help("leave it out; a window says how long events of a stream are kept"),
            );
            return None;
        }
        let start = within.map(|w| self.expr(&w.start, scope));
        let end = within
            .and_then(|w| w.end.as_ref())
            .map(|e| self.expr(e, scope));
        let checked_per = per.map(|p| self.expr(p, scope));
        let (Some(within), Some(per)) = (within, per) else {
            let missing = if within.is_none() { "within" } else { "per" };
            self.report(
                error(
                    code::RANGE_MISSING,
                    Kind::Type,
                    span,
                    format!("'within' and 'per' belong together, but '{missing}' is missing"),
                    format!("'{missing}' is missing"),
                )
                .help("write both: within … per …"),
            );
            return None;
        };
        let start = start.flatten();
        let end = match end {
            Some(end) => end.map(Some),
            None => Some(None),
        };
        let checked_per = checked_per.flatten();
        if let Some(start) = &start {
            self.within_value(start, within.end.is_none());
        }
        if let Some(Some(end)) = &end {
            self.within_value(end, false);
        }
        if let (Some(id), Some(checked)) = (aggregation, &checked_per) {
            self.per_value(id, checked, per.span);
        }
        Some((Some((start?, end?)), Some(checked_per?)))
    }

    fn within_value(&mut self, value: &Expr, is_alone: bool) {
        let is_fine = value.ty == Type::String || (!is_alone && value.ty == Type::Long);
        if !is_fine {
            let needed = if is_alone {
                "a text with wildcards"
            } else {
                "a long or a text"
            };
            self.report(
                error(
                    code::WITHIN_VALUE,
                    Kind::Type,
                    value.span,
                    format!("'within' needs {needed}"),
                    format!("{} here", value.ty),
                )
                .help("write two times, or one such as '2024-06-** **:**:**'"),
            );
        }
    }
}

pub(super) fn handler_span(handler: &ast::Handler) -> Span {
    match handler {
        ast::Handler::Filter(e) => e.span,
        ast::Handler::Function(c) | ast::Handler::Window(c) => c.span,
    }
}
