//! On-demand (store) queries, checked against the plan of a running app.

use event::Schema;

use crate::Catalog;
use crate::codes::check as code;
use crate::names::{Entry, Named, Shape};
use crate::report::error;
use crate::scope::{Input, Scope};
use crate::{CheckConfig, Checker};
use lang::ast::{self, Output, StreamKind};
use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;
use plan::{Expr, ExprKind, Find, From, OnDemand, Plan, Write};

/// The outcome of a check of one on-demand query.
#[derive(Clone, Debug)]
pub struct CheckedOnDemand {
    /// `None` if a diagnostic is an error.
    pub query: Option<OnDemand>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks one on-demand query against the app that is to answer it.
pub fn check_on_demand(
    query: &ast::OnDemandQuery,
    plan: &Plan,
    catalog: &Catalog,
) -> CheckedOnDemand {
    let config = CheckConfig::default();
    let mut checker = Checker::new(catalog, &config);
    checker.is_on_demand = true;
    checker.take_names(plan);
    let query = checker.on_demand(query);
    let mut diagnostics = checker.diagnostics;
    diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    let is_refused = diagnostics.iter().any(|d| d.severity == Severity::Error);
    CheckedOnDemand {
        query: query.filter(|_| !is_refused),
        diagnostics,
    }
}

/// The outcome of a check of a condition on rows.
#[derive(Clone, Debug)]
pub struct CheckedCondition {
    /// `None` if a diagnostic is an error.
    pub condition: Option<Expr>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a condition on rows with these attributes, which whoever looks at a running app asks for. It
/// sees a row and nothing else: no table, no aggregate, no function with effects and no script, which
/// could change what the app does.
pub fn check_condition(
    condition: &ast::Expr,
    row: &Schema,
    plan: &Plan,
    catalog: &Catalog,
) -> CheckedCondition {
    let config = CheckConfig::default();
    let mut checker = Checker::new(catalog, &config);
    checker.take_names(plan);
    let scope = Scope {
        takes_aggregators: false,
        takes_probes: false,
        ..Scope::one(
            Input::new(&row.name, StreamKind::Plain, shape_of(row)),
            "a condition on rows that pass",
        )
    };
    let checked = checker.condition(condition, &scope, "'where'");
    if let Some(script) = checked.as_ref().and_then(script_of) {
        checker.nothing_from_outside("a script function", &scope, script);
    }
    let mut diagnostics = checker.diagnostics;
    diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    let is_refused = diagnostics.iter().any(|d| d.severity == Severity::Error);
    CheckedCondition {
        condition: checked.filter(|_| !is_refused),
        diagnostics,
    }
}

/// Where an expression calls a script.
fn script_of(expr: &Expr) -> Option<Span> {
    match &expr.kind {
        ExprKind::Script { .. } => Some(expr.span),
        ExprKind::Call { args, .. } | ExprKind::Aggregate { args, .. } => {
            args.iter().find_map(script_of)
        }
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => script_of(a).or_else(|| script_of(b)),
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => script_of(inner),
        ExprKind::In { condition, .. } => script_of(condition),
        ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => None,
    }
}

fn shape_of(schema: &Schema) -> Shape {
    let mut shape = Shape::new(&schema.name);
    for attribute in &schema.attributes {
        shape.push(&attribute.name, Some(attribute.ty), Span::default());
    }
    shape
}

impl Checker<'_> {
    /// Makes the names of a checked app known again.
    fn take_names(&mut self, plan: &Plan) {
        self.plan = plan.clone();
        for (id, stream) in plan.streams.iter().enumerate() {
            self.stream_shapes.push(shape_of(&stream.schema));
            if matches!(
                stream.kind,
                plan::StreamKind::Plain | plan::StreamKind::Trigger
            ) {
                let entry = Entry {
                    named: Named::Stream(id),
                    span: Span::default(),
                };
                self.names.insert(&stream.schema.name, entry);
            }
        }
        for (id, table) in plan.tables.iter().enumerate() {
            self.table_shapes.push(shape_of(&table.schema));
            let entry = Entry {
                named: Named::Table(id),
                span: Span::default(),
            };
            self.names.insert(&table.schema.name, entry);
        }
        for (id, window) in plan.windows.iter().enumerate() {
            self.window_shapes.push(shape_of(&window.schema));
            let entry = Entry {
                named: Named::Window(id),
                span: Span::default(),
            };
            self.names.insert(&window.schema.name, entry);
        }
        for (id, aggregation) in plan.aggregations.iter().enumerate() {
            let schema = Schema {
                name: aggregation.name.clone(),
                ..aggregation.schema.clone()
            };
            self.aggregation_shapes.push(shape_of(&schema));
            let entry = Entry {
                named: Named::Aggregation(id),
                span: Span::default(),
            };
            self.names.insert(&aggregation.name, entry);
        }
        for (id, function) in plan.functions.iter().enumerate() {
            self.scripts
                .insert(function.name.clone(), (id, Span::default()));
        }
    }

    fn on_demand(&mut self, query: &ast::OnDemandQuery) -> Option<OnDemand> {
        match &query.from {
            Some(source) => self.find(query, source),
            None => self.write(query),
        }
    }

    /// `from T on … select …`.
    fn find(
        &mut self,
        query: &ast::OnDemandQuery,
        source: &ast::OnDemandSource,
    ) -> Option<OnDemand> {
        let text = source.name.name.text.as_str();
        let found = self
            .names
            .get(text)
            .filter(|_| source.name.kind == StreamKind::Plain);
        let from = match found.map(|e| e.named) {
            Some(Named::Table(id)) => Some(From::Table(id)),
            Some(Named::Window(id)) => Some(From::Window(id)),
            Some(Named::Aggregation(id)) => Some(From::Aggregation(id)),
            Some(Named::Stream(_)) => {
                self.report(
                    error(
                        code::NOT_A_STORE,
                        Kind::Name,
                        source.name.span,
                        format!("stream '{text}' keeps no events to ask for"),
                        "a stream",
                    )
                    .help("ask a table, a named window or an aggregation"),
                );
                None
            }
            None => {
                let names = self.names.of(|n| !matches!(n, Named::Stream(_)));
                let near = lang::suggest::nearest(text, names);
                self.report(
                    error(
                        code::UNKNOWN_STREAM,
                        Kind::Name,
                        source.name.span,
                        format!("there is no table, window or aggregation '{text}'"),
                        "not defined in the app",
                    )
                    .did_you_mean(source.name.span, near),
                );
                None
            }
        };
        let shape = match from {
            Some(From::Table(id)) => self.table_shapes[id].clone(),
            Some(From::Window(id)) => self.window_shapes[id].clone(),
            Some(From::Aggregation(id)) => self.aggregation_shapes[id].clone(),
            _ => Shape::open(text),
        };
        // An alias is accepted, but attributes keep the name of what is asked, as in Siddhi.
        let row = Input::new(text, StreamKind::Plain, shape);
        let scope = Scope {
            is_on_demand: true,
            ..Scope::one(row, "the select clause")
        };
        let on_scope = Scope {
            takes_aggregators: false,
            takes_probes: false,
            ..scope.at("the condition")
        };
        let on = source
            .on
            .as_ref()
            .map(|on| self.condition(on, &on_scope, "'on'"));
        let range = self.range(
            source.within.as_ref(),
            source.per.as_ref(),
            [from, from],
            source.name.span,
            &on_scope,
        );
        let (selector, _) = self.selector(&query.selector, &scope, "");
        let (within, per) = range?;
        let on = match on {
            Some(on) => Some(on?),
            None => None,
        };
        Some(OnDemand::Find(Box::new(Find {
            from: from?,
            on,
            within,
            per,
            selector,
        })))
    }

    /// `select … insert into T`, `delete T on …`, `update …`.
    fn write(&mut self, query: &ast::OnDemandQuery) -> Option<OnDemand> {
        let scope = Scope::nothing("the select clause");
        let (selector, selected) = self.selector(&query.selector, &scope, "");
        let span = query.selector.span;
        let output = match query.output.as_ref()? {
            Output::Insert { target, .. } => {
                let (id, entry) = self.table_named(target)?;
                self.check_same_row(entry, target, &selected, span);
                plan::Output::Table(id)
            }
            Output::Delete {
                table, on, span, ..
            } => self.delete(table, on.as_ref(), *span, &selected)?,
            Output::Update { table, set, on, .. } => {
                self.update(table, set, on, &selected, span, false)?
            }
            Output::UpdateOrInsert { table, set, on, .. } => {
                self.update(table, set, on, &selected, span, true)?
            }
            Output::Return { .. } => return None,
        };
        Some(OnDemand::Write(Box::new(Write { selector, output })))
    }
}
