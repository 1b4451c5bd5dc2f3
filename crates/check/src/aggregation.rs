//! Incremental aggregations (`AggregationParser`), and the `per` of reading them.

use event::Type;

use crate::Checker;
use crate::aggregation_columns::{self, Parts};
use crate::annotations::{find, value};
use crate::codes::check as code;
use crate::names::{Entry, Named, Shape};
use crate::query::{Reads, nothing};
use crate::report::{error, list, warning};
use crate::rulings::RETENTION_KEPT;
use crate::scope::{Input, Scope};
use lang::ast::{self, Annotation, Duration, Durations};
use lang::diagnostic::Kind;
use lang::quantity::first_time_text;
use lang::span::Span;
use plan::{AggregationId, Constant, Expr, ExprKind};

const ALL: [Duration; 6] = [
    Duration::Seconds,
    Duration::Minutes,
    Duration::Hours,
    Duration::Days,
    Duration::Months,
    Duration::Years,
];

/// The least retention in milliseconds that purging allows for a duration (9.3 of the reference).
fn least_retention(duration: Duration) -> i64 {
    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    match duration {
        Duration::Seconds => 2 * MINUTE,
        Duration::Minutes => 2 * HOUR,
        Duration::Hours => 25 * HOUR,
        Duration::Days => 32 * DAY,
        Duration::Weeks | Duration::Months => 13 * 30 * DAY,
        Duration::Years => 0,
    }
}

fn name_of(duration: Duration) -> &'static str {
    match duration {
        Duration::Seconds => "seconds",
        Duration::Minutes => "minutes",
        Duration::Hours => "hours",
        Duration::Days => "days",
        Duration::Weeks => "weeks",
        Duration::Months => "months",
        Duration::Years => "years",
    }
}

pub(super) fn duration_named(text: &str) -> Option<Duration> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "sec" | "second" | "seconds" => Duration::Seconds,
        "min" | "minute" | "minutes" => Duration::Minutes,
        "hour" | "hours" => Duration::Hours,
        "day" | "days" => Duration::Days,
        "month" | "months" => Duration::Months,
        "year" | "years" => Duration::Years,
        _ => return None,
    })
}

impl Checker<'_> {
    pub(super) fn aggregation(&mut self, def: &ast::AggregationDef) {
        let (input, row) = self.single(&def.input, Reads::Aggregation);
        let scope = Scope::one(row.clone(), "the aggregation");
        self.once_each(
            &def.annotations,
            &["store", "purge", "partitionbyid", "primarykey"],
        );
        let (selector, selected) = self.selector(&def.selector, &scope, "");
        self.plain_aggregates(&selector);
        let by = def.by.as_ref().and_then(|by| self.aggregate_by(by, &row));
        let durations = self.durations(&def.durations);
        self.shared_by_id(def);
        if let Some(purge) = find(&def.annotations, "purge") {
            self.aggregation_purge(purge, &durations);
        }
        if let Some(key) = find(&def.annotations, "primarykey") {
            let span = key.span;
            self.report(
                error(
                    code::ANNOTATION_HERE,
                    Kind::Option,
                    span,
                    "an aggregation takes no '@PrimaryKey'",
                    "its key is the time and what it groups by",
                )
                .help("remove it")
                .fix(span, ""),
            );
        }
        let mut shape = Shape::new(&def.name.text);
        shape.push("AGG_TIMESTAMP", Some(Type::Long), def.name.span);
        shape.fields.extend(selected.fields);
        shape.is_open = selected.is_open;
        let id = self.aggregation_shapes.len();
        if let Some(first) = self.names.get(&def.name.text) {
            self.report(
                error(
                    code::NAME_TAKEN,
                    Kind::Name,
                    def.name.span,
                    format!(
                        "'{}' is already defined as {}",
                        def.name.text,
                        first.named.with_article()
                    ),
                    "this name is taken",
                )
                .related(first.span, "first defined here")
                .help("give one of them another name"),
            );
        } else {
            let entry = Entry {
                named: Named::Aggregation(id),
                span: def.name.span,
            };
            self.names.insert(&def.name.text, entry);
        }
        let store = self.store(&def.annotations);
        let shard = self.shard_of(def);
        let (columns, reads) = aggregation_columns::columns(&Parts {
            selector: &selector,
            row: &aggregation_columns::row_of(input.as_ref()),
            by: by.as_ref(),
            is_sharded: shard.is_some(),
        });
        let tables = self.aggregation_tables(def, &durations, &columns, store.as_ref());
        self.plan.aggregations.push(plan::Aggregation {
            name: def.name.text.clone(),
            input: input.unwrap_or_else(nothing),
            purge: self.aggregation_retention(def, &durations),
            zone: self.property("aggTimeZone").unwrap_or_default().to_owned(),
            selector,
            by,
            durations,
            tables,
            columns,
            reads,
            shard,
            schema: shape.schema(),
            store,
            annotations: def.annotations.clone(),
            span: def.name.span,
        });
        self.aggregation_shapes.push(shape);
    }

    /// Only some aggregators can be kept by durations, and only over plain attributes.
    fn plain_aggregates(&mut self, selector: &plan::Selector) {
        let mut found = Vec::new();
        for (expr, _) in &selector.items {
            aggregates(expr, &mut found, 0);
        }
        for (name, args, span) in found {
            let takes_none = name == "count";
            if !["sum", "count", "avg", "min", "max", "distinctCount"].contains(&name) {
                self.report(
                    error(
                        code::AGGREGATOR_IN_AGGREGATION,
                        Kind::Type,
                        span,
                        format!("aggregator '{name}' cannot be kept by durations"),
                        "not in an aggregation",
                    )
                    .help("aggregations keep sum, count, avg, min, max and distinctCount"),
                );
            } else if let Some(arg) = args
                .iter()
                .find(|a| !matches!(a.kind, ExprKind::Attribute { .. }))
            {
                self.report(
                    error(
                        code::AGGREGATE_OF_EXPRESSION,
                        Kind::Type,
                        arg.span,
                        format!("'{name}' in an aggregation takes a plain attribute"),
                        "not a plain attribute",
                    )
                    .help("compute the value in a query first, and aggregate its output stream"),
                );
            } else if args.is_empty() && !takes_none {
                self.report(
                    error(
                        code::WRONG_ARGUMENTS,
                        Kind::Type,
                        span,
                        format!("'{name}' needs an attribute"),
                        "nothing to aggregate",
                    )
                    .help(format!("write {name}(…) with an attribute of the stream")),
                );
            }
        }
    }

    fn aggregate_by(&mut self, by: &ast::AttributeRef, row: &Input) -> Option<Expr> {
        let scope = Scope {
            takes_aggregators: false,
            ..Scope::one(row.clone(), "aggregate by")
        };
        let checked = self.attribute(by, &scope)?;
        if matches!(checked.ty, Type::Long | Type::String) {
            return Some(checked);
        }
        self.report(
            error(
                code::AGGREGATE_BY,
                Kind::Type,
                by.span,
                format!(
                    "'aggregate by' needs a time, but '{}' is {}",
                    by.name.text, checked.ty
                ),
                format!("{}, where a long or a string is needed", checked.ty),
            )
            .help("give milliseconds as a long, or a text such as '2024-06-05 12:30:00'"),
        );
        None
    }

    fn durations(&mut self, durations: &Durations) -> Vec<Duration> {
        let listed: Vec<&ast::Spanned<Duration>> = match durations {
            Durations::Range(from, to) => vec![from, to],
            Durations::List(list) => list.iter().collect(),
        };
        let mut fine = Vec::new();
        // The parser has reported weeks.
        fine.extend(
            listed
                .iter()
                .map(|d| d.value)
                .filter(|d| *d != Duration::Weeks),
        );
        if let (Durations::Range(from, to), true) = (durations, fine.len() == 2) {
            if from.value > to.value {
                self.report(
                    error(
                        code::DURATIONS_REVERSED,
                        Kind::Type,
                        from.span.to(to.span),
                        format!(
                            "{} are longer than {}",
                            name_of(from.value),
                            name_of(to.value)
                        ),
                        "the longer one comes first",
                    )
                    .help("write the shorter duration first, as in 'every sec ... year'"),
                );
                return Vec::new();
            }
            return ALL
                .into_iter()
                .filter(|d| (from.value..=to.value).contains(d))
                .collect();
        }
        fine.sort_unstable();
        fine.dedup();
        fine
    }

    /// `@PartitionById` needs the `shardId` of this server.
    fn shared_by_id(&mut self, def: &ast::AggregationDef) {
        let properties = self.config.properties.as_ref();
        let property = |name: &str| properties.and_then(|p| p.get(name));
        let configured = property("partitionById").is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let annotation = find(&def.annotations, "partitionbyid");
        // Siddhi asks for the id whatever 'enable' says.
        let span = match annotation {
            Some(annotation) => annotation.span,
            None if configured => def.name.span,
            None => return,
        };
        if property("shardId").is_some() {
            return;
        }
        let message = "'@PartitionById' needs the property 'shardId' of the configuration";
        let (label, help) = (
            "no 'shardId' is configured",
            "set 'shardId' in the deployment file, or remove the annotation",
        );
        self.report(match properties {
            Some(_) => error(code::NO_SHARD_ID, Kind::Option, span, message, label).help(help),
            None => {
                let label = "is it configured?";
                warning(code::SHARD_ID_UNKNOWN, Kind::Option, span, message, label).help(help)
            }
        });
    }

    fn aggregation_purge(&mut self, purge: &Annotation, durations: &[Duration]) {
        let texts = [value(purge, "enable"), value(purge, "interval")];
        if let Some(text) = texts[0]
            && !["true", "false"]
                .iter()
                .any(|v| text.text.eq_ignore_ascii_case(v))
        {
            self.report(
                error(
                    code::BAD_VALUE,
                    Kind::Option,
                    text.span,
                    format!("'enable' of '@purge' cannot be '{}'", text.text),
                    "neither 'true' nor 'false'",
                )
                .help("write 'true' or 'false'"),
            );
        }
        if let Some(text) = texts[1] {
            self.purge_time(text);
        }
        let Some(retention) = purge.nested("retentionPeriod") else {
            return;
        };
        for element in &retention.elements {
            let Some(key) = &element.key else { continue };
            let Some(duration) = duration_named(&key.text) else {
                self.report(
                    error(
                        code::RETENTION,
                        Kind::Option,
                        key.span,
                        format!("'{}' is not a duration of an aggregation", key.text),
                        "no such duration",
                    )
                    .help("the durations are sec, min, hours, days, months and years"),
                );
                continue;
            };
            if !durations.is_empty() && !durations.contains(&duration) {
                self.report(
                    error(
                        code::RETENTION,
                        Kind::Option,
                        key.span,
                        format!(
                            "{} cannot be purged: the aggregation does not keep them",
                            name_of(duration)
                        ),
                        "not one of its durations",
                    )
                    .help("remove it, or aggregate by this duration too"),
                );
                continue;
            }
            if element.value.text.trim().eq_ignore_ascii_case("all") {
                continue;
            }
            let Some(kept) = self.purge_time(&element.value) else {
                continue;
            };
            if kept < least_retention(duration) {
                self.report(
                    error(
                        code::RETENTION,
                        Kind::Option,
                        element.value.span,
                        format!(
                            "{} must be kept longer than '{}'",
                            name_of(duration),
                            element.value.text
                        ),
                        format!("at least {} s", least_retention(duration) / 1000),
                    )
                    .help("keep them as long as the next longer duration needs them"),
                );
            }
            let rolls_up = duration.longer().is_some_and(|d| durations.contains(&d));
            if !rolls_up && !texts[0].is_some_and(|t| t.text.eq_ignore_ascii_case("false")) {
                self.ruled(&RETENTION_KEPT, element.value.span);
            }
        }
    }

    fn purge_time(&mut self, text: &ast::Text) -> Option<i64> {
        let millis = first_time_text(&text.text);
        if millis.is_none() {
            self.report(
                error(
                    code::BAD_VALUE,
                    Kind::Option,
                    text.span,
                    format!("'{}' is not a time", text.text),
                    "not a time",
                )
                .help("write a number and a unit (sec, min, hours, days, months, years), or 'all'"),
            );
        }
        millis
    }

    /// `per 'days'`: one of the durations of the aggregation.
    pub(super) fn per_value(&mut self, id: AggregationId, per: &Expr, span: Span) {
        let ExprKind::Constant(Constant::String(text)) = &per.kind else {
            if per.ty != Type::String {
                self.report(
                    error(
                        code::PER_VALUE,
                        Kind::Type,
                        span,
                        format!("'per' needs the name of a duration, but this is {}", per.ty),
                        "not a text",
                    )
                    .help(
                        "write one of 'seconds', 'minutes', 'hours', 'days', 'months' and 'years'",
                    ),
                );
            }
            return;
        };
        let kept = self.plan.aggregations[id].durations.clone();
        let names: Vec<&str> = kept.iter().map(|d| name_of(*d)).collect();
        let place = self.plan.aggregations[id].span;
        let help = format!("it keeps {}", list(names, 6));
        let (d, label) = match duration_named(text) {
            None => (format!("'{text}' is not a duration"), "no such duration"),
            Some(duration) if !kept.is_empty() && !kept.contains(&duration) => (
                format!("the aggregation does not keep {}", text.trim()),
                "not one of its durations",
            ),
            Some(_) => return,
        };
        // Siddhi finds out that a duration is not kept when the first event asks for it.
        let is_late = duration_named(text).is_some() && !self.is_on_demand;
        let d = match is_late {
            true => warning(code::PER_NOT_KEPT, Kind::Type, span, d, label),
            false => error(code::PER_VALUE, Kind::Type, span, d, label),
        };
        self.report(d.related(place, "defined here").help(help));
    }
}

/// Aggregators in an expression, with their arguments.
fn aggregates<'e>(e: &'e Expr, into: &mut Vec<(&'e str, &'e [Expr], Span)>, depth: u32) {
    if depth > 600 {
        return;
    }
    match &e.kind {
        ExprKind::Aggregate { name, args } => into.push((name, args, e.span)),
        ExprKind::Arithmetic(_, l, r)
        | ExprKind::Compare(_, l, r)
        | ExprKind::And(l, r)
        | ExprKind::Or(l, r) => {
            aggregates(l, into, depth + 1);
            aggregates(r, into, depth + 1);
        }
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => aggregates(inner, into, depth + 1),
        ExprKind::Call { args, .. } | ExprKind::Script { args, .. } => {
            for arg in args {
                aggregates(arg, into, depth + 1);
            }
        }
        _ => {}
    }
}
