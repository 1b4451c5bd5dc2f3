//! What queries, partitions, tables and named windows keep, as text: two texts are equal when the state saved
//! under the one can be taken back under the other.
//!
//! Filters, names of results, limits and destinations are left out: editing them changes what comes
//! out from now on, not what is kept.

use crate::text::{Names, call, expr, millis, pattern, source};
use crate::{
    AggregationId, Expr, ExprKind, Handler, Input, PartitionBy, PartitionId, Plan, Query, QueryId,
    RateEvery, Single, TableId, WindowId,
};

/// The state of one element.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// For people: `window length(5)`, `aggregate sum(price)`; empty where nothing is kept.
    pub parts: Vec<String>,
    /// Everything that its form depends on.
    pub shape: String,
}

impl State {
    fn part(&mut self, part: String) {
        self.shape.push_str(&part);
        self.shape.push('\n');
        self.parts.push(part);
    }

    fn hidden(&mut self, text: &str) {
        self.shape.push_str(text);
        self.shape.push('\n');
    }
}

/// What a query keeps.
pub fn query_state(plan: &Plan, id: QueryId) -> State {
    let query = &plan.queries[id];
    let mut state = State::default();
    match &query.input {
        Input::Single(single) => single_state(&mut state, plan, single),
        Input::Join(join) => {
            state.hidden(&format!("{:?} {:?}", join.kind, join.trigger));
            single_state(&mut state, plan, &join.left);
            single_state(&mut state, plan, &join.right);
        }
        Input::Pattern(input) => {
            let named: Vec<_> = input
                .references
                .iter()
                .map(|r| (r.name.as_str(), &r.schema))
                .collect();
            let text = pattern(input, &Names::new(plan, &named));
            for reference in &input.references {
                state.hidden(&format!("{:?}", reference.schema.attributes));
            }
            state.part(text);
        }
    }
    selector_state(&mut state, plan, query);
    if let Some(rate) = query.rate {
        let every = match rate.every {
            RateEvery::Events(count) => format!("{count} events"),
            RateEvery::Millis(time) => millis(time),
        };
        let kind = format!("{:?}", rate.kind).to_lowercase();
        state.part(format!("output {kind} every {every}"));
        state.hidden(&format!("{:?}", query.selector.schema.attributes));
    }
    state
}

fn single_state(state: &mut State, plan: &Plan, single: &Single) {
    let inputs = [("", &single.schema)];
    let inputs = Names::new(plan, &inputs);
    state.hidden(&source(plan, single.from));
    for handler in &single.handlers {
        match handler {
            Handler::Window(window) => {
                state.part(format!(
                    "window {}",
                    call(&window.name, &window.args, &inputs)
                ));
            }
            Handler::Filter(condition) => aggregates(state, condition, &inputs),
            Handler::Function(function) => {
                state.hidden(&function.name);
                for arg in &function.args {
                    aggregates(state, arg, &inputs);
                }
            }
        }
    }
}

fn selector_state(state: &mut State, plan: &Plan, query: &Query) {
    let named: Vec<_> = match &query.input {
        Input::Single(single) => vec![("", &single.schema)],
        Input::Join(join) => vec![("left", &join.left.schema), ("right", &join.right.schema)],
        Input::Pattern(input) => {
            let references = input.references.iter();
            references.map(|r| (r.name.as_str(), &r.schema)).collect()
        }
    };
    let inputs = Names::new(plan, &named);
    let selector = &query.selector;
    let before = state.parts.len();
    for (item, _) in &selector.items {
        aggregates(state, item, &inputs);
    }
    selector
        .having
        .iter()
        .for_each(|e| aggregates(state, e, &inputs));
    selector
        .order_by
        .iter()
        .for_each(|(e, _)| aggregates(state, e, &inputs));
    if state.parts.len() > before || query.rate.is_some() {
        let keys: Vec<String> = selector.group_by.iter().map(|e| expr(e, &inputs)).collect();
        state.hidden(&format!("group by {}", keys.join(", ")));
    }
    state.hidden(&format!("{:?}", query.events));
}

/// The calls of aggregators inside an expression, in order.
fn aggregates(state: &mut State, e: &Expr, inputs: &Names<'_>) {
    match &e.kind {
        ExprKind::Aggregate { .. } => state.part(format!("aggregate {}", expr(e, inputs))),
        ExprKind::Call { args, .. } | ExprKind::Script { args, .. } => {
            args.iter().for_each(|a| aggregates(state, a, inputs));
        }
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => {
            aggregates(state, a, inputs);
            aggregates(state, b, inputs);
        }
        ExprKind::Not(a) | ExprKind::IsNull(a) => aggregates(state, a, inputs),
        ExprKind::In { condition, .. } => aggregates(state, condition, inputs),
        ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => {}
    }
}

/// The keys of a partition.
pub fn partition_state(plan: &Plan, id: PartitionId) -> State {
    let mut state = State::default();
    let mut text = String::from("keys");
    for key in &plan.partitions[id].keys {
        let inputs = [("", plan.schema_of(key.from))];
        let inputs = Names::new(plan, &inputs);
        let name = source(plan, key.from);
        match &key.by {
            PartitionBy::Value(value) => {
                text.push_str(&format!(" {} of {name}", expr(value, &inputs)));
            }
            PartitionBy::Ranges(ranges) => {
                for (range, label) in ranges {
                    let range = expr(range, &inputs);
                    text.push_str(&format!(" {range} as {label} of {name}"));
                }
            }
        }
    }
    state.part(text);
    state
}

/// The open buckets of an aggregation.
pub fn aggregation_state(plan: &Plan, id: AggregationId) -> State {
    let aggregation = &plan.aggregations[id];
    let mut state = State::default();
    state.part("open buckets".to_owned());
    single_state(&mut state, plan, &aggregation.input);
    state.hidden(&format!("{:?} {}", aggregation.durations, aggregation.zone));
    for column in &aggregation.columns {
        let attribute = &column.attribute;
        state.hidden(&format!("{} {}", attribute.name, attribute.ty));
    }
    state
}

/// The rows of a named window.
pub fn window_state(plan: &Plan, id: WindowId) -> State {
    let window = &plan.windows[id];
    let mut state = State::default();
    let inputs = [("", &window.schema)];
    let text = call(
        &window.window.name,
        &window.window.args,
        &Names::new(plan, &inputs),
    );
    state.part(text);
    state.hidden(&format!("{:?}", window.output));
    for attribute in &window.schema.attributes {
        state.hidden(&format!("{} {}", attribute.name, attribute.ty));
    }
    state
}

/// The rows of a table in memory.
pub fn table_state(plan: &Plan, id: TableId) -> State {
    let table = &plan.tables[id];
    let mut state = State::default();
    state.part("rows".to_owned());
    for attribute in &table.schema.attributes {
        state.hidden(&format!("{} {}", attribute.name, attribute.ty));
    }
    state.hidden(&format!("primary key {:?}", table.primary_key));
    state
}
