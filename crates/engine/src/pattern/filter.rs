//! The filter of a stream of the pattern.
//!
//! What looks at the arriving event alone is computed once per batch. The rest is computed for one
//! event and all partial matches it may join at once.

use event::{Batch, Column, Times};
use plan::{Expr, ExprKind, Handler};

use super::index::Equation;
use super::partials::{Arrival, Captures};
use super::states::StateGraph;
use super::view::{Place, Seen, Views};
use crate::component::{EvalContext, Failure, Groups};
use crate::error::Error;
use crate::expr::{COMPUTED, Compiler, Expression, Inputs, Layout, ROW, Site};
use crate::query::compute_sites;
use crate::step::Step;
use crate::table::ConditionContext;

pub(super) struct StateFilter {
    /// Conditions on the event alone that cannot fail, but for an OBJECT.
    own: Option<Expression>,
    /// No value at all can make them fail.
    is_own_sure: bool,
    rest: Option<Rest>,
    /// An equation with an earlier event, and the rest without it.
    equation: Option<Equation>,
    residual: Option<Rest>,
    /// All of it, for batches whose columns hold values of other types than declared: there the
    /// conditions on the event alone may fail too, and only where they are asked.
    whole: Option<Rest>,
}

struct Rest {
    sites: Vec<Site>,
    condition: Expression,
    views: Views,
    /// Attributes of the stream.
    width: usize,
    /// The timestamp of the partial match is asked for.
    reads_time: bool,
    /// It has parts that may fail for a value although their types are right.
    may_surprise: bool,
}

/// What of a filter is asked for an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Rest,
    /// The rest of those that the index has found.
    Residual,
    Whole,
}

impl StateFilter {
    pub fn new(
        pattern: &plan::Pattern,
        reference: usize,
        graph: &StateGraph,
        context: &mut ConditionContext<'_>,
    ) -> Result<StateFilter, Error> {
        let mut conditions = Vec::new();
        for handler in &pattern.references[reference].handlers {
            match handler {
                Handler::Filter(expr) => conjuncts(expr, &mut conditions),
                Handler::Function(call) => {
                    return Err(Error::unsupported(
                        "a stream function in a pattern",
                        call.span,
                    ));
                }
                Handler::Window(call) => {
                    return Err(Error::unsupported("a window in a pattern", call.span));
                }
            }
        }
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        let mut is_own_sure = true;
        for &condition in &conditions {
            let is_own = is_own(condition, reference)
                && !compile(condition, pattern, reference, context)?.is_fallible();
            is_own_sure &= !is_own || is_sure(condition);
            if is_own { &mut own } else { &mut rest }.push(condition);
        }
        let mut residual = rest.clone();
        let equation = residual
            .iter()
            .enumerate()
            .find_map(|(at, c)| Some((at, Equation::new(c, reference, pattern, graph)?)))
            .map(|(at, equation)| {
                residual.remove(at);
                equation
            });
        let rest = Rest::new(&rest, pattern, reference, graph, context)?;
        // A filter that may fail asks every partial match.
        let is_sure = rest.as_ref().is_some_and(|r| !r.is_fallible());
        let equation = equation.filter(|_| is_sure);
        let residual = match equation {
            Some(_) => Rest::new(&residual, pattern, reference, graph, context)?,
            None => None,
        };
        let whole = match own.is_empty() {
            true => None,
            false => Rest::new(&conditions, pattern, reference, graph, context)?,
        };
        let own = all_of(&own)
            .map(|expr| compile(&expr, pattern, reference, context))
            .transpose()?;
        Ok(StateFilter {
            own,
            is_own_sure,
            rest,
            equation,
            residual,
            whole,
        })
    }

    /// The views that the filter reads.
    pub fn views(&self) -> impl Iterator<Item = &Views> {
        let parts = [&self.rest, &self.residual, &self.whole]
            .into_iter()
            .flatten();
        parts.map(|rest| &rest.views)
    }

    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let parts = [&self.rest, &self.residual, &self.whole]
            .into_iter()
            .flatten();
        self.own.iter().chain(parts.map(|rest| &rest.condition))
    }

    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        let parts = [&mut self.rest, &mut self.residual, &mut self.whole]
            .into_iter()
            .flatten();
        self.own
            .iter_mut()
            .chain(parts.map(|rest| &mut rest.condition))
    }

    /// May it fail once partial matches have moved?
    pub fn is_fallible(&self) -> bool {
        self.rest.as_ref().is_some_and(Rest::is_fallible)
    }

    /// Can no event of the declared types make it fail?
    pub fn is_sure(&self) -> bool {
        self.is_own_sure && !self.is_fallible()
    }

    /// The equation that an index may answer.
    pub fn equation(&self) -> Option<Equation> {
        self.equation
    }

    /// For each row whether the conditions on the event alone hold; false if there are none. A
    /// value of an OBJECT may make a row fail all the same.
    pub fn own_mask(
        &mut self,
        batch: &Batch,
        step: &mut Step<'_>,
        mask: &mut Vec<bool>,
    ) -> Result<bool, Failure> {
        let Some(own) = self.own.as_mut() else {
            return Ok(false);
        };
        let mut failures = Vec::new();
        let mut context = step.evaluation(batch, &mut failures);
        own.mask_into(&Inputs::of(&batch.columns, batch.len), &mut context, mask);
        match failures.into_iter().min_by_key(|f| f.row) {
            Some(failure) => Err(failure),
            None => Ok(true),
        }
    }

    /// Does the part depend on the partial match, or may it fail?
    pub fn asks(&self, part: Part) -> bool {
        self.part(part).is_some()
    }

    fn part(&self, part: Part) -> Option<&Rest> {
        match part {
            Part::Residual => self.residual.as_ref(),
            Part::Whole if self.whole.is_some() => self.whole.as_ref(),
            Part::Rest | Part::Whole => self.rest.as_ref(),
        }
    }

    /// The views of a part, in the order in which `test` wants their columns.
    pub fn views_of(&self, part: Part) -> &[super::view::View] {
        self.part(part).map_or(&[], |rest| &rest.views.all)
    }

    /// For each partial match whether the event may join it. `seen` has one list per view;
    /// `times` the timestamps of the partial matches.
    pub fn test(
        &mut self,
        part: Part,
        arrival: &Arrival<'_>,
        seen: &[Vec<Seen>],
        times: &[i64],
        captures: &[Captures],
        step: &mut Step<'_>,
    ) -> (Vec<bool>, Vec<Failure>) {
        let rows = times.len();
        let mut failures = Vec::new();
        let rest = match part {
            Part::Residual => self.residual.as_mut(),
            Part::Whole if self.whole.is_some() => self.whole.as_mut(),
            Part::Rest | Part::Whole => self.rest.as_mut(),
        };
        let Some(rest) = rest else {
            return (vec![true; rows], failures);
        };
        let mut columns = rest.own_columns(arrival, rows);
        for (view, seen) in rest.views.all.iter().zip(seen) {
            let captures = &captures[view.state];
            view.gather(seen, captures, Some(arrival.batch), &mut columns);
        }
        let times = if rest.reads_time {
            Times::per_row(times.to_vec())
        } else {
            Times::Same(arrival.time)
        };
        let mut computed: Vec<Column> = Vec::new();
        if !rest.sites.is_empty() {
            let batch = Batch::new(
                columns.clone(),
                rows,
                times.clone(),
                event::Chunks::One,
                step.now,
            );
            computed = compute_sites(&mut rest.sites, &batch, Groups::One(0), step, &mut failures);
        }
        let inputs = Inputs::of(&columns, rows).with(COMPUTED, &computed);
        let mut context = EvalContext::new(
            step.now,
            step.wall,
            &times,
            step.environment,
            step.seed,
            &mut failures,
        );
        let mask = rest.condition.mask(&inputs, &mut context);
        (mask, failures)
    }
}

impl Rest {
    fn is_fallible(&self) -> bool {
        self.condition.is_fallible() || !self.sites.is_empty() || self.may_surprise
    }

    fn new(
        conditions: &[&Expr],
        pattern: &plan::Pattern,
        reference: usize,
        graph: &StateGraph,
        context: &mut ConditionContext<'_>,
    ) -> Result<Option<Rest>, Error> {
        let Some(condition) = all_of(conditions) else {
            return Ok(None);
        };
        let mut views = Views::default();
        let rewritten = views.rewrite(&condition, Place::Filter(reference), pattern, graph);
        let width = pattern.references[reference].schema.attributes.len();
        let own = Layout::whole(reference as plan::InputId, ROW, width);
        let mut sites = Vec::new();
        let condition = Compiler {
            layout: views.layout(own, width),
            sites: &mut sites,
            tracks: false,
            tables: context,
        }
        .compile(&rewritten)?;
        Ok(Some(Rest {
            sites,
            condition,
            views,
            width,
            reads_time: reads_time(&rewritten),
            may_surprise: !is_sure(&rewritten),
        }))
    }

    /// The event, once for each partial match.
    fn own_columns(&self, arrival: &Arrival<'_>, rows: usize) -> Vec<Column> {
        let own = &arrival.batch.columns[..self.width];
        if rows == 1 {
            return own.iter().map(|c| c.slice(arrival.row, 1)).collect();
        }
        let repeated = vec![arrival.row as u32; rows];
        let reads_all = !self.sites.is_empty();
        let reads = |index: usize| {
            let mut uses = self.condition.uses.iter();
            reads_all || uses.any(|s| s.part == ROW && usize::from(s.index) == index)
        };
        own.iter()
            .enumerate()
            .map(|(at, column)| match reads(at) {
                true => column.gather(&repeated),
                // Not looked at.
                false => column.clone(),
            })
            .collect()
    }
}

fn compile(
    condition: &Expr,
    pattern: &plan::Pattern,
    reference: usize,
    context: &mut ConditionContext<'_>,
) -> Result<Expression, Error> {
    let width = pattern.references[reference].schema.attributes.len();
    let layout = Layout::whole(reference as plan::InputId, ROW, width);
    context.expression(condition, &layout)
}

fn conjuncts<'e>(expr: &'e Expr, to: &mut Vec<&'e Expr>) {
    match &expr.kind {
        ExprKind::And(left, right) => {
            conjuncts(left, to);
            conjuncts(right, to);
        }
        _ => to.push(expr),
    }
}

fn all_of(conditions: &[&Expr]) -> Option<Expr> {
    let mut conditions = conditions.iter();
    let first = (*conditions.next()?).clone();
    Some(conditions.fold(first, |all, &next| Expr {
        ty: event::Type::Bool,
        span: all.span.to(next.span),
        kind: ExprKind::And(Box::new(all), Box::new(next.clone())),
    }))
}

/// Does it look at the arriving event alone?
fn is_own(expr: &Expr, reference: usize) -> bool {
    match &expr.kind {
        ExprKind::Constant(_) => true,
        ExprKind::Attribute { input, index, .. } => {
            usize::from(*input) == reference && index.is_none()
        }
        ExprKind::IsNoEvent { .. } | ExprKind::In { .. } | ExprKind::Aggregate { .. } => false,
        ExprKind::Call {
            name, args, event, ..
        } => {
            event.is_none() && name != "eventTimestamp" && args.iter().all(|a| is_own(a, reference))
        }
        ExprKind::Script { args, .. } => args.iter().all(|a| is_own(a, reference)),
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => is_own(a, reference) && is_own(b, reference),
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => is_own(inner, reference),
    }
}

fn reads_time(expr: &Expr) -> bool {
    let mut found = false;
    crate::expr::calls_of(expr, &mut |name| found |= name == "eventTimestamp");
    found
}

/// Can no value make it fail? An OBJECT holds anything, and so does the result of a function that
/// does not convert.
pub(crate) fn is_sure(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Constant(_) | ExprKind::IsNoEvent { .. } => true,
        ExprKind::Attribute { .. } => expr.ty != event::Type::Object,
        ExprKind::Call { .. } | ExprKind::Script { .. } | ExprKind::In { .. } => false,
        ExprKind::Aggregate { args, .. } => args.iter().all(is_sure),
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => is_sure(a) && is_sure(b),
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => is_sure(inner),
    }
}
