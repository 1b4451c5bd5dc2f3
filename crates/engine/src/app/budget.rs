//! The memory that an app may take.
//!
//! An app with a budget takes no event from outside, and no trigger's, that reaches something which
//! grows (a window, groups, a pattern, a table that is inserted into, …) once what it holds has come to
//! the budget. Such an event is rejected with the reason and who holds how much; the clock goes on, so
//! that windows and purges make room, and events that reach nothing that grows (a filter, a delete)
//! are taken all the same.
//!
//! What is held is not counted for every event. Rows are weighed where they pass a stream, by what
//! they would take if each part that reads it kept them; when the weights since the last count have
//! come to the room that was left, or tables have got more than a few rows, there is another count.
//! Where weights were too low they are multiplied from then on. A batch that may be too much is taken
//! apart into its chunks; only one chunk can go beyond the budget, since what it takes is known when it
//! has been processed. Counts depend on the inputs alone, never on time that passes outside.

use event::{Batch, Column};
use plan::{From, Handler, Input, Output as PlanOutput, Plan, Query, QueryId, StreamId};

use crate::app::memory::Holder;
use crate::app::{App, Outside};
use crate::graph::streams_of;
use crate::output::{Output, RejectedRows};

/// The app is full when this share of its budget is left: a count for each of the last bytes would
/// cost more than they are worth.
const SLACK: usize = 256;

/// From this share of its budget on, in percent, an app should be spoken of.
pub const WARN_PERCENT: usize = 80;

/// Tables are counted again when they have got one row for so many that they had.
const TABLE_ROWS: u64 = 256;

/// A full app looks again whether there is room after so much time of its clock, milliseconds, and
/// one more for so many keys that a count looks at.
const LOOK_AGAIN: i64 = 100;
const KEYS_PER_MILLI: usize = 10_000;

/// What a row is taken to need beside its values, bytes: places in lists, its group, its key.
const WEIGHT_OF_ROW: usize = 96;

/// Parts that are named in the reason.
const NAMED_MAX: usize = 3;

/// How an app stands to its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BudgetState {
    pub limit: usize,
    /// As last counted.
    pub held: usize,
    /// Events are being refused.
    pub is_full: bool,
    /// Events refused since the app was made.
    pub refused: u64,
}

impl BudgetState {
    /// It should be spoken of.
    pub fn is_high(&self) -> bool {
        self.held >= warn_at(self.limit)
    }
}

const fn warn_at(limit: usize) -> usize {
    limit / 100 * WARN_PERCENT
}

pub(crate) struct Budget {
    limit: usize,
    held: usize,
    is_full: bool,
    refused: u64,
    /// Weight from which on there is another count.
    room: usize,
    /// Weight since the last count.
    weighed: usize,
    /// Rows that tables in memory had at the last count, and rows written into them until then.
    table_rows: u64,
    written: u64,
    /// What a unit of weight has been seen to take.
    factor: usize,
    counted_at: i64,
    /// Something that may have made room has happened since the last count.
    may_have_room: bool,
    /// By stream: the places that keep what passes, of those that read it and of all behind it.
    here: Vec<usize>,
    behind: Vec<usize>,
    names: Vec<(Holder, String)>,
}

impl Budget {
    /// That of a plan, or of whoever runs it: the smaller.
    pub fn of(plan: &Plan, memory_max: Option<usize>) -> Option<Budget> {
        let own = plan.options.memory_max;
        let own = own.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let limit = own.into_iter().chain(memory_max).min()?;
        Some(Budget::new(limit, plan))
    }

    /// `limit`: bytes. The first event brings about a count, since a restored state may be large.
    fn new(limit: usize, plan: &Plan) -> Budget {
        let ids = (0..plan.queries.len()).map(Holder::Query);
        let ids = ids.chain((0..plan.windows.len()).map(Holder::Window));
        let ids = ids.chain((0..plan.tables.len()).map(Holder::Table));
        let ids = ids.chain((0..plan.aggregations.len()).map(Holder::Aggregation));
        let ids = ids.chain((0..plan.partitions.len()).map(Holder::Partition));
        Budget {
            limit,
            held: 0,
            is_full: false,
            refused: 0,
            room: 0,
            weighed: 0,
            table_rows: 0,
            written: 0,
            factor: 1,
            counted_at: i64::MIN,
            may_have_room: false,
            here: junctions(plan).map(|at| places_at(plan, at)).collect(),
            behind: junctions(plan).map(|at| places_behind(plan, at)).collect(),
            names: ids.map(|id| (id, id.name(plan).to_owned())).collect(),
        }
    }

    /// Rows pass a stream.
    pub fn pass(&mut self, stream: StreamId, batch: &Batch) {
        let places = self.here[stream];
        if places > 0 {
            let weight = weight(batch, batch.len).saturating_mul(places);
            self.weighed = self.weighed.saturating_add(weight);
        }
    }

    /// What rows from outside will weigh as they are, at all places that they may come to.
    fn weight_ahead(&self, stream: StreamId, batch: &Batch, rows: usize) -> usize {
        weight(batch, rows).saturating_mul(self.behind[stream])
    }

    fn has_room(&self, weight: usize, written: u64) -> bool {
        let rows = written
            .saturating_sub(self.written)
            .saturating_mul(TABLE_ROWS);
        let total = self
            .weighed
            .saturating_add(weight)
            .saturating_mul(self.factor);
        !self.is_full && total <= self.room && (rows <= self.table_rows || rows == 0)
    }

    fn counted(&mut self, held: usize, tables: (u64, u64), now: i64) {
        (self.table_rows, self.written) = tables;
        let grown = held.saturating_sub(self.held);
        if let Some(seen) = grown.checked_div(self.weighed) {
            // At most as careless as before, and half as careful again.
            let seen = seen + 1;
            self.factor = seen.max(self.factor / 2).clamp(1, 1 << 20);
        }
        self.held = held;
        self.weighed = 0;
        self.counted_at = now;
        self.may_have_room = false;
        let room = self.limit.saturating_sub(held);
        let slack = self.limit / SLACK;
        self.is_full = room <= slack;
        // In halves, so that a weight that was too low is found out in time; and a count when it is
        // to be warned.
        let next = (room / 2).max(slack);
        let warning = warn_at(self.limit).saturating_sub(held);
        self.room = if warning > 0 { next.min(warning) } else { next };
    }

    fn looks_again(&self, now: i64, keys: usize) -> bool {
        let pause = LOOK_AGAIN + (keys / KEYS_PER_MILLI) as i64;
        self.may_have_room || now.saturating_sub(self.counted_at) >= pause
    }

    pub fn state(&self) -> BudgetState {
        BudgetState {
            limit: self.limit,
            held: self.held,
            is_full: self.is_full,
            refused: self.refused,
        }
    }

    /// `the state holds …`: what is held, and by whom most.
    fn reason(&self, held: impl Iterator<Item = (Holder, usize)>) -> String {
        let mut parts: Vec<(Holder, usize)> = held.filter(|(_, bytes)| *bytes > 0).collect();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let named: Vec<String> = parts
            .iter()
            .take(NAMED_MAX)
            .map(|(holder, bytes)| {
                let name = self.names.iter().find(|(h, _)| h == holder);
                let name = name.map_or_else(String::new, |(_, name)| format!(" '{name}'"));
                format!("{}{name} {}", holder.kind(), size_text(*bytes))
            })
            .collect();
        format!(
            "the app holds {} of its memory budget of {} ({}): let it keep less, or raise the limit",
            size_text(self.held),
            size_text(self.limit),
            named.join(", ")
        )
    }
}

/// `12.5 MB`, in units of 1024.
pub fn size_text(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["bytes", "KB", "MB", "GB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

impl App {
    /// How the app stands to its budget; `None` without one.
    pub fn budget(&self) -> Option<BudgetState> {
        self.budget.as_ref().map(Budget::state)
    }

    /// Rows may have been taken away.
    pub(crate) fn may_have_room(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.may_have_room = true;
        }
    }

    /// One root of the work stack, as far as the budget has room for it.
    #[inline(always)]
    pub(crate) fn root(&mut self, stream: StreamId, batch: Batch, outside: &mut Outside<'_>) {
        match &self.budget {
            None => self.root_taken(stream, batch, outside),
            Some(_) => self.root_within(stream, batch, outside),
        }
    }

    fn root_within(&mut self, stream: StreamId, batch: Batch, outside: &mut Outside<'_>) {
        let mut rest = batch;
        loop {
            let chunks = self.affordable(stream, &rest);
            if chunks == rest.chunk_count() {
                return self.root_taken(stream, rest, outside);
            }
            if chunks == 0 {
                return self.refuse(stream, rest, outside);
            }
            let taken = rest.slice_chunks(0..chunks);
            rest = rest.slice_chunks(chunks..rest.chunk_count());
            self.root_taken(stream, taken, outside);
        }
    }

    /// How many chunks there is room for; what they weigh is taken.
    fn affordable(&mut self, stream: StreamId, batch: &Batch) -> usize {
        let all = batch.chunk_count();
        let now = self.core.clock;
        let tables = self.table_rows_and_written();
        let Some(budget) = &mut self.budget else {
            return all;
        };
        if budget.behind[stream] == 0 {
            budget.may_have_room = true;
            return all;
        }
        let weight = budget.weight_ahead(stream, batch, batch.len);
        if budget.has_room(weight, tables.1) {
            return all;
        }
        let is_full = budget.is_full;
        let keys = self.keys_counted();
        let is_blind = |budget: &Budget| is_full && !budget.looks_again(now, keys);
        if self.budget.as_ref().is_some_and(is_blind) {
            return 0;
        }
        let held = self.bytes();
        let Some(budget) = &mut self.budget else {
            return all;
        };
        budget.counted(held, tables, now);
        if budget.is_full {
            return 0;
        }
        // One at least: what it will take is known behind it.
        let (mut chunks, mut rows) = (0, 0);
        while chunks < all {
            rows += batch.chunk(chunks).len();
            let weight = budget.weight_ahead(stream, batch, rows);
            if chunks > 0 && !budget.has_room(weight, tables.1) {
                break;
            }
            chunks += 1;
        }
        chunks
    }

    /// Rows in the tables in memory, and rows written into them since the app was made.
    fn table_rows_and_written(&self) -> (u64, u64) {
        let tables = &self.core.tables;
        tables.in_memory().fold((0, 0), |(rows, all), (id, table)| {
            let written = tables.written[id];
            (
                rows + table.len() as u64,
                all + written.inserted + written.updated,
            )
        })
    }

    fn refuse(&mut self, stream: StreamId, rows: Batch, outside: &mut Outside<'_>) {
        let cause = match &self.budget {
            Some(budget) => budget.reason(self.held()),
            None => return,
        };
        if let Some(budget) = &mut self.budget {
            budget.refused += rows.len as u64;
        }
        outside
            .out
            .items
            .push(Output::Rejected(Box::new(RejectedRows {
                stream: Some(stream),
                query: None,
                place: "memory budget".to_owned(),
                cause,
                rows,
                is_kept: true,
            })));
    }
}

/// Bytes that so many rows of a batch take in one place.
fn weight(batch: &Batch, rows: usize) -> usize {
    let all: usize = batch.columns.iter().map(Column::weight).sum();
    all / batch.len.max(1) * rows + rows * WEIGHT_OF_ROW
}

/// Streams, then what comes out of named windows.
fn junctions(plan: &Plan) -> std::ops::Range<StreamId> {
    0..plan.streams.len() + plan.windows.len()
}

/// Places that keep something of what passes a stream.
fn places_at(plan: &Plan, at: StreamId) -> usize {
    // What comes out of a named window is what has been put into it.
    let mut places = usize::from(at >= plan.streams.len());
    let aggregations = plan.aggregations.iter();
    places += aggregations
        .filter(|a| matches!(a.input.from, From::Stream(s) if s == at))
        .count();
    places
        + readers(plan, at)
            .map(|(id, query)| places_of(plan, id, query))
            .sum::<usize>()
}

/// The same of the stream and of all that it leads to.
fn places_behind(plan: &Plan, from: StreamId) -> usize {
    let mut seen = vec![false; junctions(plan).end];
    let mut open = vec![from];
    let mut places = 0;
    let links = crate::app::topic_links(plan);
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        places += places_at(plan, at);
        for (_, query) in readers(plan, at) {
            match query.output {
                PlanOutput::Stream(stream) => open.push(stream),
                PlanOutput::Window(window) => open.push(plan.junction_of(window)),
                _ => {}
            }
        }
        // An in-memory topic leads on inside the app.
        open.extend(links.iter().filter(|l| l.0 == at).map(|l| l.1));
    }
    places
}

fn readers(plan: &Plan, at: StreamId) -> impl Iterator<Item = (QueryId, &Query)> {
    let all = plan.queries.iter().enumerate();
    all.filter(move |(_, query)| streams_of(plan, query).iter().any(|(s, _)| *s == at))
}

/// Windows, stream functions (which may keep rows), pattern, groups and limiter of a query, the keys
/// of its partition, the table that it fills.
fn places_of(plan: &Plan, id: QueryId, query: &Query) -> usize {
    let of = |handlers: &[Handler]| {
        let keeps = handlers.iter().filter(|h| !matches!(h, Handler::Filter(_)));
        keeps.count()
    };
    let input = match &query.input {
        Input::Single(single) => of(&single.handlers),
        Input::Join(join) => of(&join.left.handlers) + of(&join.right.handlers),
        Input::Pattern(_) => 1,
    };
    let has_groups = !query.selector.group_by.is_empty() || query.partition.is_some();
    let own = input + usize::from(has_groups) + usize::from(query.rate.is_some());
    let keys = query.partition.is_some_and(|p| {
        // Once is enough for all its queries.
        plan.partitions[p].queries.first() == Some(&id)
    });
    let table = match query.output {
        PlanOutput::Table(table) | PlanOutput::UpdateOrInsert { table, .. } => {
            plan.tables[table].store.is_none()
        }
        _ => false,
    };
    own + usize::from(keys) + usize::from(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(text: &str) -> Plan {
        let app = lang::parse(text).app;
        let catalog = check::Catalog::new(crate::specs(), []);
        let config = check::CheckConfig::default();
        let checked = check::check(&app, &catalog, &config);
        checked.plan.expect("the app has no errors")
    }

    #[test]
    fn filters_and_deletes_keep_nothing() {
        let app = "define stream S (a int); define stream D (a int); define table T (a int);
            from S[a > 1] select a insert into Mid;
            from Mid#window.time(1 sec) select sum(a) as s insert into Out;
            from S select a insert into T;
            from D delete T on T.a == a;";
        let budget = Budget::new(1 << 20, &plan_of(app));
        assert_eq!(budget.behind[..4], [2, 0, 1, 0]);
        assert_eq!(budget.here[..4], [1, 0, 1, 0]);
    }

    #[test]
    fn a_weight_that_was_too_low_is_multiplied() {
        let plan = plan_of("define stream S (a int); from S select a insert into O;");
        let mut budget = Budget::new(1 << 20, &plan);
        budget.counted(0, (0, 0), 0);
        assert_eq!((budget.factor, budget.room), (1, 1 << 19));
        budget.weighed = 1_000;
        assert!(budget.has_room(1_000, 0) && !budget.has_room(1 << 20, 0));
        assert!(!budget.has_room(1_000, 1), "the tables have got a row");
        budget.counted(10_000, (0, 0), 0);
        assert_eq!(budget.factor, 11);
        budget.weighed = 1_000;
        budget.counted(10_000, (0, 0), 0);
        assert_eq!((budget.factor, budget.is_full), (5, false));
        budget.counted((1 << 20) - 4_096, (0, 0), 0);
        assert!(budget.is_full && budget.state().is_high());
    }

    #[test]
    fn sizes_are_read_at_a_glance() {
        for (bytes, text) in [(17, "17 bytes"), (1 << 20, "1.0 MB"), (1_600, "1.6 KB")] {
            assert_eq!(size_text(bytes), text);
        }
    }
}
