//! Aggregators, `in` and effect functions: computed before the expression that holds them.

use event::{Batch, Column, ColumnBuilder, Reset, Type};

use crate::component::{EvalContext, Failure, Group, Groups, Scan};
use crate::expr::{COMPUTED, Inputs, Site};
use crate::step::Step;
use crate::table::Condition;

/// The rows that sites are computed for.
pub(super) struct SiteRows<'a> {
    pub batch: &'a Batch,
    pub groups: Groups<'a>,
    /// All groups of the partition key, which a RESET clears.
    pub reset_groups: &'a [Group],
}

/// Computes the sites of an expression that stands elsewhere than in a query's own clauses.
pub(crate) fn compute_sites(
    sites: &mut [Site],
    batch: &Batch,
    groups: Groups<'_>,
    step: &mut Step<'_>,
    failures: &mut Vec<Failure>,
) -> Vec<Column> {
    let rows = SiteRows {
        batch,
        groups,
        reset_groups: &[],
    };
    compute(sites, &rows, step, failures)
}

/// Computes sites in order. Failures are appended; the columns are as long as the batch.
pub(super) fn compute(
    sites: &mut [Site],
    rows: &SiteRows<'_>,
    step: &mut Step<'_>,
    failures: &mut Vec<Failure>,
) -> Vec<Column> {
    let mut computed = Vec::with_capacity(sites.len());
    compute_into(sites, rows, step, failures, &mut computed);
    computed
}

/// The same into a vector, which is empty.
pub(super) fn compute_into(
    sites: &mut [Site],
    rows: &SiteRows<'_>,
    step: &mut Step<'_>,
    failures: &mut Vec<Failure>,
    computed: &mut Vec<Column>,
) {
    for site in sites {
        let column = compute_one(site, computed, rows, step, failures);
        computed.push(column);
    }
}

pub(super) fn compute_one(
    site: &mut Site,
    computed: &[Column],
    rows: &SiteRows<'_>,
    step: &mut Step<'_>,
    failures: &mut Vec<Failure>,
) -> Column {
    let batch = rows.batch;
    let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
    let now = step.now;
    let mut context = EvalContext::new(
        now,
        step.wall,
        &batch.times,
        step.environment,
        step.seed,
        failures,
    );
    match site {
        Site::Aggregate(site) => {
            site.begin(batch.len);
            let sound = context.failures();
            let args = site.args.iter_mut();
            let args = args.map(|a| a.column(&inputs, &mut context));
            site.columns.extend(args);
            // Siddhi computes the arguments first: no aggregator meets the row in which one fails.
            let len = context.sound_rows(sound, batch.len);
            let resets: &[Reset] = batch.resets.as_deref().unwrap_or(&[]);
            let mut start = 0;
            let ends = resets.iter().map(|r| (r.row as usize, true));
            for (end, is_reset) in ends.chain([(batch.len, false)]) {
                let reached = end.min(len);
                if reached > start {
                    let scan = Scan {
                        args: &site.columns,
                        start,
                        end: reached,
                        groups: rows.groups,
                        expired: batch.expired.as_deref(),
                    };
                    site.aggregate.scan(&scan, &mut context, &mut site.values);
                }
                start = reached;
                if is_reset && end <= len {
                    rows.reset_groups
                        .iter()
                        .for_each(|&g| site.aggregate.clear(g));
                }
            }
            site.columns.clear();
            (len..batch.len).for_each(|_| site.values.push_null());
            site.values.take()
        }
        Site::Probe(site) => match &mut site.condition {
            Condition::Memory(condition) => {
                let prepared = condition.prepare(&inputs, &mut context);
                let table = step.tables.memory(site.table);
                let mut found = Vec::new();
                let answers = (0..batch.len)
                    .map(|row| {
                        found.clear();
                        condition.find(&prepared, table, &inputs, row, &mut context, &mut found);
                        !found.is_empty()
                    })
                    .collect();
                Column::new(event::Values::Bool(answers), None)
            }
            Condition::External {
                operation,
                parameters,
            } => {
                let parameters: Vec<Column> = parameters
                    .iter_mut()
                    .map(|p| p.column(&inputs, &mut context))
                    .collect();
                match step.host.contains(*operation, &parameters, batch.len) {
                    Ok(answers) => Column::new(event::Values::Bool(answers), None),
                    Err(error) => {
                        context.fail(error.row, error.message);
                        Column::new(event::Values::Bool(vec![false; batch.len]), None)
                    }
                }
            }
        },
        Site::Effect(site) => {
            let args: Vec<Column> = site
                .args
                .iter_mut()
                .map(|a| a.column(&inputs, &mut context))
                .collect();
            let called = step.host.call(&site.name, &args, batch.len);
            match called.map(|c| c.columns.into_iter().next()) {
                Ok(Some(column)) if column.len() == batch.len => column,
                Ok(_) => {
                    context.fail(0, format!("function '{}' gave no value", site.name));
                    nulls(batch.len)
                }
                Err(error) => {
                    context.fail(error.row, error.message);
                    nulls(batch.len)
                }
            }
        }
    }
}

/// Aggregators that fail neither on a null nor on a value of another kind; the last fails with compat
/// where an event leaves that never came.
pub(super) const SURE: [&str; 9] = [
    "sum",
    "count",
    "avg",
    "min",
    "max",
    "minForever",
    "maxForever",
    "stdDev",
    "distinctCount",
];

/// Does it hold an aggregator that is none of these?
pub(super) fn has_aggregator_beside(expr: &plan::Expr, sure: &[&str]) -> bool {
    match &expr.kind {
        plan::ExprKind::Aggregate { name, .. } => !sure.contains(&name.as_str()),
        plan::ExprKind::Arithmetic(_, a, b)
        | plan::ExprKind::Compare(_, a, b)
        | plan::ExprKind::And(a, b)
        | plan::ExprKind::Or(a, b) => {
            has_aggregator_beside(a, sure) || has_aggregator_beside(b, sure)
        }
        plan::ExprKind::Not(a) | plan::ExprKind::IsNull(a) => has_aggregator_beside(a, sure),
        plan::ExprKind::Call { args, .. } => args.iter().any(|a| has_aggregator_beside(a, sure)),
        _ => false,
    }
}

fn nulls(rows: usize) -> Column {
    let mut builder = ColumnBuilder::new(Type::Bool);
    (0..rows).for_each(|_| builder.push_null());
    builder.finish()
}
