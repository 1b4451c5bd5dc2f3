//! What an aggregation keeps for each bucket: the attributes of its tables, and how the attributes
//! that are read are made of them (`AggregationParser`).

use event::{Attribute, Schema, Type};

use crate::Checker;
use crate::annotations::{find, value};
use crate::names::{Entry, Named, Shape};
use lang::ast::{self, Duration};
use lang::quantity::first_time_text;
use plan::{
    AggregationColumn, AggregationPurge, AggregationRead, ColumnKind, Expr, ExprKind, TableId,
};

/// `A_SECONDS`: the duration as Siddhi's tables are named after it.
pub(super) fn table_suffix(duration: Duration) -> &'static str {
    match duration {
        Duration::Seconds => "SECONDS",
        Duration::Minutes => "MINUTES",
        Duration::Hours => "HOURS",
        Duration::Days => "DAYS",
        Duration::Weeks => "WEEKS",
        Duration::Months => "MONTHS",
        Duration::Years => "YEARS",
    }
}

/// What the columns are made from.
pub(super) struct Parts<'a> {
    pub selector: &'a plan::Selector,
    /// The row behind the handlers.
    pub row: &'a Schema,
    pub by: Option<&'a Expr>,
    pub is_sharded: bool,
}

/// The columns of the tables, and for each attribute of the aggregation how it is read.
pub(super) fn columns(parts: &Parts<'_>) -> (Vec<AggregationColumn>, Vec<AggregationRead>) {
    let mut columns = vec![column("AGG_TIMESTAMP", Type::Long, ColumnKind::Time)];
    if parts.is_sharded {
        columns.push(column("SHARD_ID", Type::String, ColumnKind::Shard));
    }
    let mut reads = vec![AggregationRead::Column(0)];
    if parts.by.is_some() {
        reads[0] = AggregationRead::Column(columns.len());
        columns.push(column(
            "AGG_EVENT_TIMESTAMP",
            Type::Long,
            ColumnKind::EventTime,
        ));
    }
    let keys = columns.len();
    for key in &parts.selector.group_by {
        let name = attribute_name(key, parts.row);
        columns.push(column(&name, key.ty, ColumnKind::Key(key.clone())));
    }
    // Last values come before the sums, whatever the order in the text.
    let mut has_last = false;
    let mut last = Vec::new();
    for (expr, name) in &parts.selector.items {
        let is_aggregate = matches!(expr.kind, ExprKind::Aggregate { .. });
        let key = same_attribute(expr, &parts.selector.group_by);
        if is_aggregate || key.is_some() {
            continue;
        }
        has_last |= !matches!(expr.kind, ExprKind::Call { .. } | ExprKind::Script { .. });
        last.push((name.as_str(), columns.len()));
        columns.push(column(name, expr.ty, ColumnKind::Last(expr.clone())));
    }
    if parts.by.is_some() && has_last {
        columns.push(column(
            "AGG_LAST_EVENT_TIMESTAMP",
            Type::Long,
            ColumnKind::LastEventTime,
        ));
    }
    for (expr, name) in &parts.selector.items {
        let read = match &expr.kind {
            ExprKind::Aggregate { name, args } => base(&mut columns, name, args.first(), parts.row),
            _ => match same_attribute(expr, &parts.selector.group_by) {
                Some(key) => AggregationRead::Column(keys + key),
                None => {
                    let place = last.iter().find(|(n, _)| n == name);
                    AggregationRead::Column(place.map_or(0, |(_, at)| *at))
                }
            },
        };
        reads.push(read);
    }
    (columns, reads)
}

fn column(name: &str, ty: Type, kind: ColumnKind) -> AggregationColumn {
    AggregationColumn {
        attribute: Attribute {
            name: name.to_owned(),
            ty,
        },
        kind,
    }
}

/// The columns that an aggregator needs; those that are there already are shared.
fn base(
    columns: &mut Vec<AggregationColumn>,
    name: &str,
    arg: Option<&Expr>,
    row: &Schema,
) -> AggregationRead {
    let mut place = |name: String, ty: Type, kind: ColumnKind| {
        if let Some(at) = columns.iter().position(|c| c.attribute.name == name) {
            return at;
        }
        columns.push(column(&name, ty, kind));
        columns.len() - 1
    };
    let Some(arg) = arg.filter(|_| name != "count") else {
        return AggregationRead::Column(place("AGG_COUNT".into(), Type::Long, ColumnKind::Count));
    };
    let attribute = attribute_name(arg, row);
    let sum_type = match arg.ty {
        Type::Int | Type::Long => Type::Long,
        _ => Type::Double,
    };
    match name {
        "min" => {
            let kind = ColumnKind::Min(arg.clone());
            AggregationRead::Column(place(format!("AGG_MIN_{attribute}"), arg.ty, kind))
        }
        "max" => {
            let kind = ColumnKind::Max(arg.clone());
            AggregationRead::Column(place(format!("AGG_MAX_{attribute}"), arg.ty, kind))
        }
        "distinctCount" => {
            let kind = ColumnKind::Set(arg.clone());
            let at = place(format!("AGG_SET_{attribute}"), Type::Object, kind);
            AggregationRead::SizeOfSet(at)
        }
        _ => {
            let kind = ColumnKind::Sum(arg.clone());
            let sum = place(format!("AGG_SUM_{attribute}"), sum_type, kind);
            if name != "avg" {
                return AggregationRead::Column(sum);
            }
            let count = place("AGG_COUNT".into(), Type::Long, ColumnKind::Count);
            AggregationRead::Average { sum, count }
        }
    }
}

fn attribute_name(expr: &Expr, row: &Schema) -> String {
    match expr.kind {
        ExprKind::Attribute { attribute, .. } => row
            .attributes
            .get(attribute)
            .map_or_else(String::new, |a| a.name.clone()),
        _ => String::new(),
    }
}

fn same_attribute(expr: &Expr, keys: &[Expr]) -> Option<usize> {
    let ExprKind::Attribute { attribute, .. } = expr.kind else {
        return None;
    };
    keys.iter().position(
        |key| matches!(key.kind, ExprKind::Attribute { attribute: k, .. } if k == attribute),
    )
}

impl Checker<'_> {
    /// One table for each duration, by the names that Siddhi gives them; queries and on-demand
    /// queries may read them.
    pub(super) fn aggregation_tables(
        &mut self,
        def: &ast::AggregationDef,
        durations: &[Duration],
        columns: &[AggregationColumn],
        store: Option<&plan::Store>,
    ) -> Vec<TableId> {
        let primary_key: Vec<usize> = (0..columns.len())
            .filter(|&c| {
                matches!(
                    columns[c].kind,
                    ColumnKind::Time
                        | ColumnKind::Shard
                        | ColumnKind::EventTime
                        | ColumnKind::Key(_)
                )
            })
            .collect();
        durations
            .iter()
            .map(|&duration| {
                let name = format!("{}_{}", def.name.text, table_suffix(duration));
                let mut shape = Shape::new(&name);
                for column in columns {
                    let Attribute { name, ty } = &column.attribute;
                    shape.push(name, Some(*ty), def.name.span);
                }
                let id = self.plan.tables.len();
                if self.names.get(&name).is_none() {
                    let entry = Entry {
                        named: Named::Table(id),
                        span: def.name.span,
                    };
                    self.names.insert(&name, entry);
                }
                self.plan.tables.push(plan::Table {
                    schema: shape.schema(),
                    primary_key: primary_key.clone(),
                    indexes: Vec::new(),
                    index_details: Vec::new(),
                    store: store.cloned(),
                    span: def.name.span,
                });
                self.table_shapes.push(shape);
                id
            })
            .collect()
    }

    /// `@purge`, which is on unless it is switched off; periods as Siddhi's
    /// `IncrementalDataPurger` has them. It never comes to purge a duration that stands alone or is
    /// not followed by the next longer one, so that only a period that is written holds there.
    pub(super) fn aggregation_retention(
        &self,
        def: &ast::AggregationDef,
        durations: &[Duration],
    ) -> Option<AggregationPurge> {
        let purge = find(&def.annotations, "purge");
        let text = |name: &str| purge.and_then(|p| value(p, name)).map(|t| t.text.as_str());
        if text("enable").is_some_and(|t| t.eq_ignore_ascii_case("false")) {
            return None;
        }
        let periods = purge.and_then(|p| p.nested("retentionPeriod"));
        let mut neighbours = durations.windows(2);
        let rolls_up = durations.len() > 1 && neighbours.all(|w| w[0].longer() == Some(w[1]));
        let keep = durations
            .iter()
            .map(|&duration| {
                let given = periods.iter().flat_map(|p| &p.elements).find(|e| {
                    e.key.as_ref().is_some_and(|k| {
                        super::aggregation::duration_named(&k.text) == Some(duration)
                    })
                });
                match given {
                    Some(given) => first_time_text(&given.value.text),
                    None => default_retention(duration).filter(|_| rolls_up),
                }
            })
            .collect();
        Some(AggregationPurge {
            interval: text("interval")
                .and_then(first_time_text)
                .unwrap_or(15 * MINUTE),
            keep,
        })
    }

    /// The configuration's text of a property.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        let properties = self.config.properties.as_ref()?;
        properties.get(name).map(String::as_str)
    }

    /// `@PartitionById`, or the property that stands for it: the id of this shard.
    pub(super) fn shard_of(&self, def: &ast::AggregationDef) -> Option<String> {
        let is_true = |text: &str| text.eq_ignore_ascii_case("true");
        let annotated = find(&def.annotations, "partitionbyid")
            .is_some_and(|a| value(a, "enable").is_none_or(|t| is_true(&t.text)));
        let configured = self.property("partitionById").is_some_and(is_true);
        let shard = self.property("shardId")?;
        (annotated || configured).then(|| shard.to_owned())
    }
}

const MINUTE: i64 = 60_000;

fn default_retention(duration: Duration) -> Option<i64> {
    const DAY: i64 = 24 * 60 * MINUTE;
    match duration {
        Duration::Seconds => Some(2 * MINUTE),
        Duration::Minutes => Some(DAY),
        Duration::Hours => Some(30 * DAY),
        Duration::Days => Some(365 * DAY),
        Duration::Weeks | Duration::Months | Duration::Years => None,
    }
}

/// The row behind the handlers of an input that may be faulty.
pub(super) fn row_of(input: Option<&plan::Single>) -> Schema {
    input.map_or_else(|| Shape::new("").schema(), |single| single.schema.clone())
}
