//! What an app holds in memory, part by part.
//!
//! Promises: a count costs a few additions for each part of the app, and more only where windows,
//! stream processors or patterns stand in a partition: there each live key is looked at. Buffers
//! count as what they take, not as what is in them. Never here: the resident set of the process, which
//! also has queues, connections and the program itself.

use plan::{AggregationId, PartitionId, Plan, QueryId, TableId, WindowId};

use crate::app::App;
use crate::query::Query;

/// A part of an app that keeps something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// Its windows, stream processors, pattern, groups and rate limiter.
    Query(QueryId),
    /// A named window.
    Window(WindowId),
    /// A table in memory.
    Table(TableId),
    /// Buckets that are open.
    Aggregation(AggregationId),
    /// Its keys.
    Partition(PartitionId),
    /// Deadlines that are set.
    Timers,
}

impl Holder {
    /// As a label: `query`, `window`, …
    pub const fn kind(self) -> &'static str {
        match self {
            Holder::Query(_) => "query",
            Holder::Window(_) => "window",
            Holder::Table(_) => "table",
            Holder::Aggregation(_) => "aggregation",
            Holder::Partition(_) => "partition",
            Holder::Timers => "timers",
        }
    }

    /// Its name in the app; empty for the timers.
    pub fn name(self, plan: &Plan) -> &str {
        match self {
            Holder::Query(id) => &plan.queries[id].name,
            Holder::Window(id) => &plan.windows[id].schema.name,
            Holder::Table(id) => &plan.tables[id].schema.name,
            Holder::Aggregation(id) => &plan.aggregations[id].name,
            Holder::Partition(id) => &plan.partitions[id].name,
            Holder::Timers => "",
        }
    }
}

impl App {
    /// Heap bytes of windows, groups, partition keys, tables and all else that outlives a step.
    pub fn bytes(&self) -> usize {
        self.held().map(|(_, bytes)| bytes).sum()
    }

    /// The same, part by part.
    pub fn held(&self) -> impl Iterator<Item = (Holder, usize)> + '_ {
        let queries = self.queries.iter().enumerate();
        let queries = queries.map(|(id, q)| (Holder::Query(id), self.bytes_of(q)));
        let windows = self.core.windows.iter().enumerate();
        let windows = windows.map(|(id, w)| (Holder::Window(id), w.bytes()));
        let tables = self.core.tables.in_memory();
        let tables = tables.map(|(id, t)| (Holder::Table(id), t.bytes()));
        let aggregations = self.core.aggregations.iter().enumerate();
        let aggregations = aggregations.map(|(id, a)| (Holder::Aggregation(id), a.bytes()));
        let partitions = self.partitions.iter().enumerate();
        let partitions = partitions.map(|(id, p)| (Holder::Partition(id), p.bytes()));
        let timers = (Holder::Timers, self.core.timers.bytes());
        queries
            .chain(windows)
            .chain(tables)
            .chain(aggregations)
            .chain(partitions)
            .chain([timers])
    }

    fn bytes_of(&self, query: &Query) -> usize {
        let limiter = query.limiter.as_ref().map_or(0, |l| l.bytes());
        let pattern = query.pattern().map_or(0, |p| p.shared_bytes());
        let shared = query.selector.bytes() + limiter + pattern;
        if !query.has_state_by_key() {
            return shared;
        }
        let own = |key| {
            let chains = query.chains().map(|c| c.bytes(key)).sum::<usize>();
            chains + query.pattern().map_or(0, |p| p.bytes(key))
        };
        let keyed: usize = match query.partition {
            None => own(0),
            Some(id) => self.partitions[id].live.iter().map(|&key| own(key)).sum(),
        };
        shared + keyed
    }

    /// Live keys that one count looks at.
    pub(crate) fn keys_counted(&self) -> usize {
        let keyed = self.queries.iter().filter(|q| q.has_state_by_key());
        keyed
            .map(|q| q.partition.map_or(1, |id| self.partitions[id].live.len()))
            .sum()
    }
}
