//! On-demand queries that need nothing of an app but the rows of one table of a store: they are answered
//! beside it, on any thread.

use plan::{Expr, ExprKind, Find, From, OnDemand, Plan, Playback};

use super::{Answer, App, AskError, Setup};
use crate::component::AppEnvironment;
use crate::host::Host;
use crate::output::Outputs;

/// What an answer needs of its app beside the rows: what the app was when it was asked.
#[derive(Clone, Debug)]
pub struct Apart {
    environment: AppEnvironment,
    playback: Option<Playback>,
    clock: i64,
    wall: i64,
}

impl App {
    /// For a question that can be answered beside this app; `None` for one that changes something, or looks
    /// at what lies in the app's memory.
    pub fn apart(&self, plan: &Plan, query: &OnDemand, wall: i64) -> Option<Apart> {
        let find = asks_store(plan, query)?;
        let selector = &find.selector;
        let items = selector.items.iter().map(|(item, _)| item);
        let order = selector.order_by.iter().map(|(by, _)| by);
        let all = items.chain(&selector.group_by).chain(order);
        let mut all = all.chain(&find.on).chain(&selector.having);
        (self.core.is_started && all.all(needs_rows_alone)).then(|| Apart {
            environment: self.core.environment.clone(),
            playback: self.core.playback,
            clock: self.core.clock,
            wall: self.core.wall.max(wall),
        })
    }
}

/// The question, where it finds rows of a table that is kept outside.
pub fn asks_store<'q>(plan: &Plan, query: &'q OnDemand) -> Option<&'q Find> {
    let OnDemand::Find(find) = query else {
        return None;
    };
    match find.from {
        From::Table(table) if plan.tables[table].store.is_some() => Some(find),
        _ => None,
    }
}

fn needs_rows_alone(expr: &Expr) -> bool {
    let all = |args: &[Expr]| args.iter().all(needs_rows_alone);
    match &expr.kind {
        ExprKind::In { .. } => false,
        ExprKind::Call {
            args, is_effect, ..
        } => !is_effect && all(args),
        ExprKind::Script { args, .. } | ExprKind::Aggregate { args, .. } => all(args),
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => needs_rows_alone(a) && needs_rows_alone(b),
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => needs_rows_alone(inner),
        ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => true,
    }
}

impl Apart {
    /// Answers a query for which [`App::apart`] made this. `host` finds the rows; `seed` begins the sequence
    /// behind `UUID()` and random numbers.
    pub fn answer(
        self,
        plan: &Plan,
        query: &OnDemand,
        seed: u64,
        host: &mut dyn Host,
    ) -> Result<Answer, AskError> {
        // An app with the tables and functions alone: nothing of it is kept.
        let plan = Plan {
            name: plan.name.clone(),
            options: plan.options.clone(),
            tables: plan.tables.clone(),
            functions: plan.functions.clone(),
            conditions: plan.conditions.clone(),
            ..Plan::default()
        };
        let setup = Setup {
            environment: self.environment,
            seed,
            ..Setup::default()
        };
        let mut app = App::new(&plan, setup)?;
        app.core.is_started = true;
        (app.core.clock, app.core.playback) = (self.clock, self.playback);
        app.ask(&plan, query, self.wall, host, &mut Outputs::default())
    }
}
