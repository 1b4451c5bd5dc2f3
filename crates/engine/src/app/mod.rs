//! An app: plan, state, clocks and armed timers; nothing but [`App::step`] changes it.

mod aggregations;
mod apart;
mod budget;
mod fast_path;
mod junction;
mod memory;
mod named_windows;
mod on_demand;
mod playback;
mod playback_idle;
mod snapshot;
mod taps;
mod trigger;
mod work;

pub use apart::{Apart, asks_store};
pub use budget::{BudgetState, size_text};
pub use memory::Holder;
pub use on_demand::{Answer, AskError};
pub use snapshot::{
    Dropped, SavedElement, SavedTable, StateMatching, saved_elements, saved_table, state_len,
};
pub use work::{BOUNDS, QueryWork};

use std::collections::VecDeque;

use event::{Batch, Chunks, Clock, Schema};
use plan::store::Operation;
use plan::{OnError, Plan, Playback, QueryId, StreamId, StreamKind, Transport};

use crate::aggregation::Aggregation;
use crate::component::{AppEnvironment, Key};
use crate::error::Error;
use crate::graph::{Graph, Readers, Receiver};
use crate::host::{Host, WriteCounts};
use crate::named::NamedWindows;
use crate::output::Outputs;
use crate::partition::Partition;
use crate::query::Query;
use crate::stamp::stamped;
use crate::step::Step;
use crate::table::{ConditionContext, Tables};
use crate::tap::Tap;
use crate::timers::{OperatorId, Owner, Timers};
use crate::window::first_after;
use budget::Budget;
use fast_path::FastPath;
use junction::Task;
use snapshot::{Shapes, Unbegun};
use trigger::Triggers;
use work::WorkLog;

/// Series of looks at idle keys that a partition keeps at most; with more they would come so close
/// that no key is left to find.
const PURGE_SERIES_MAX: usize = 16;

/// What an app is told beside its plan.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub environment: AppEnvironment,
    /// Streams, and junctions of named windows, whose rows are wanted as [`crate::Output::Tap`].
    pub observed_streams: Vec<StreamId>,
    /// Queries whose callbacks are wanted as [`crate::Output::Callback`].
    pub observed_queries: Vec<QueryId>,
    /// Streams of this app that are linked by an in-memory topic, as [`topic_links`] finds them:
    /// from the stream with the sink to that with the source. The engine hands rows on itself,
    /// depth first as in Siddhi; whoever delivers [`crate::Output::Sink`] leaves those sources out.
    pub links: Vec<(StreamId, StreamId)>,
    /// On-demand queries will ask for tables: whatever is written to a store is done in the step.
    pub is_asked: bool,
    /// Passes every batch chunk by chunk, to prove that it makes no difference.
    pub lockstep: bool,
    /// Start of the sequence behind `UUID()` and random numbers.
    pub seed: u64,
    /// Bytes that the app may hold at most, also where `@app:memory` says more.
    pub memory_max: Option<usize>,
}

/// The closed set of things that can happen to an app.
#[derive(Clone, Debug)]
pub enum Input {
    /// The app begins; before it nothing is taken. Windows and limiters set their first deadlines.
    Start,
    /// Rows arrive from outside. Live, a batch whose clock is [`event::Clock::Same`] is processed
    /// at the step's `now`; one with a clock per chunk at those, timers due in between first. In
    /// playback the timestamps move the clock. A row stamped [`UNSTAMPED`] or [`UNSTAMPED_SENT`]
    /// takes a clock and moves none.
    Batch(StreamId, Batch),
    /// Time has passed and nothing else; in playback the clock moves to `now` if that is later.
    Tick,
    /// Playback is switched on or off.
    Playback(Option<Playback>),
}

/// One running app. See the crate's documentation for an example.
pub struct App {
    pub(crate) core: Core,
    pub(crate) queries: Vec<Query>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) triggers: Triggers,
    pub(crate) streams: Vec<Junction>,
    /// What waits at deferred streams until the root chunk is done.
    pub(crate) deferred: VecDeque<(StreamId, Batch)>,
    pub(crate) stack: Vec<Task>,
    /// Number of the last chunk handed to the receivers of a stream.
    pub(crate) delivery: u64,
    pub(crate) forced_lockstep: bool,
    pub(crate) rows_in: Vec<u64>,
    /// What the saved state of each element looks like.
    pub(crate) shapes: Shapes,
    pub(crate) unbegun: Unbegun,
    /// What changes is marked, so that it can be saved by itself.
    pub(crate) marks_changes: bool,
    /// How often objects had been changed in place when it was saved.
    pub(crate) objects_saved: u64,
    /// The memory it may take; `None`: no end.
    pub(crate) budget: Option<Budget>,
    /// What its queries have done, where somebody wants to know.
    pub(crate) work: WorkLog,
}

/// State that queries share.
pub(crate) struct Core {
    pub clock: i64,
    pub wall: i64,
    pub playback: Option<Playback>,
    /// Wall clock at which the events' clock was last set, for the idle time of playback.
    pub clock_set_at: i64,
    pub is_started: bool,
    pub steps: u64,
    pub seed: u64,
    pub environment: AppEnvironment,
    pub tables: Tables,
    pub windows: NamedWindows,
    pub aggregations: Vec<Aggregation>,
    pub timers: Timers,
}

/// A stream, or what a named window emits, and who reads it.
pub(crate) struct Junction {
    pub schema: Schema,
    name: String,
    pub receivers: Vec<Receiver>,
    pub lockstep: Option<String>,
    feeds_deferred: bool,
    pub has_sinks: bool,
    /// Streams that read an in-memory topic this one writes.
    pub linked: Vec<StreamId>,
    pub is_observed: bool,
    pub is_inner: bool,
    /// Who looks at its rows; mostly nobody.
    pub taps: Vec<Tap>,
    pub way: FastPath,
    pub on_error: OnError,
    /// `@async`: rows at which a chunk is cut, if any.
    pub deferred: Option<Option<u32>>,
}

/// What a step was given to reach the outside.
pub(crate) struct Outside<'a> {
    pub host: &'a mut dyn Host,
    pub out: &'a mut Outputs,
}

impl Junction {
    /// What nothing but queries reads and writes.
    fn new(name: String, schema: &Schema, readers: Readers) -> Junction {
        Junction {
            schema: schema.clone(),
            name,
            receivers: readers.receivers,
            lockstep: readers.lockstep,
            feeds_deferred: readers.feeds_deferred,
            has_sinks: false,
            linked: Vec::new(),
            is_observed: false,
            is_inner: false,
            taps: Vec::new(),
            way: FastPath::Fork,
            on_error: OnError::Log,
            deferred: None,
        }
    }
}

impl Core {
    /// The wall clock. Unless in playback it is the application clock, which within one input may
    /// pass through many times.
    pub(crate) fn wall(&self) -> i64 {
        match self.playback {
            Some(_) => self.wall,
            None => self.clock,
        }
    }

    pub(crate) fn step<'a>(&'a mut self, outside: &'a mut Outside<'_>) -> Step<'a> {
        Step {
            now: self.clock,
            wall: self.wall(),
            environment: &self.environment,
            seed: &mut self.seed,
            tables: &mut self.tables,
            windows: Some(&self.windows),
            aggregations: Some(&mut self.aggregations),
            timers: &mut self.timers,
            host: &mut *outside.host,
            out: &mut *outside.out,
        }
    }

    /// The named windows, which are about to change, and a step that does not look into them.
    pub(crate) fn windows_and_step<'a>(
        &'a mut self,
        outside: &'a mut Outside<'_>,
    ) -> (&'a mut NamedWindows, Step<'a>) {
        let step = Step {
            now: self.clock,
            wall: self.wall(),
            environment: &self.environment,
            seed: &mut self.seed,
            tables: &mut self.tables,
            windows: None,
            aggregations: Some(&mut self.aggregations),
            timers: &mut self.timers,
            host: &mut *outside.host,
            out: &mut *outside.out,
        };
        (&mut self.windows, step)
    }
}

impl App {
    /// Makes an app from a checked plan.
    pub fn new(plan: &Plan, setup: Setup) -> Result<App, Error> {
        refuse_missing(plan)?;
        let graph = Graph::new(plan, &setup.links);
        let mut context = ConditionContext::new(&plan.tables);
        context.functions = &plan.functions;
        context.scripts = setup.environment.scripts;
        let mut timers = Timers::default();
        let mut environment = setup.environment;
        environment.compat |= plan.options.compat;
        environment.conditions = plan.conditions.clone();
        if environment.app.is_empty() {
            environment.app.clone_from(&plan.name);
        }
        let is_compat = environment.compat;
        context.is_compat = is_compat;
        let windows = NamedWindows::new(plan, &environment, &mut timers, &mut context)?;
        let aggregations = (0..plan.aggregations.len())
            .map(|id| Aggregation::new(id, plan, &environment, &mut timers, &mut context))
            .collect::<Result<Vec<_>, _>>()?;
        let queries = (0..plan.queries.len())
            .map(|id| {
                let is_observed = setup.observed_queries.contains(&id);
                Query::new(
                    id,
                    plan,
                    is_observed,
                    &windows,
                    &environment,
                    &mut timers,
                    &mut context,
                )
            })
            .collect::<Result<Vec<_>, _>>()?;
        let partitions = (0..plan.partitions.len())
            .map(|id| {
                if plan.partitions[id].purge.is_some() {
                    timers.add_operator(Owner::Purge { partition: id });
                }
                Partition::new(id, plan, &graph, &mut context)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut readers = graph.streams.into_iter();
        let mut streams: Vec<Junction> = Vec::new();
        for (id, (stream, readers)) in plan.streams.iter().zip(readers.by_ref()).enumerate() {
            let links = setup.links.iter().filter(|link| link.0 == id);
            streams.push(Junction {
                has_sinks: !stream.sinks.is_empty(),
                linked: links.map(|link| link.1).collect(),
                is_observed: setup.observed_streams.contains(&id),
                is_inner: matches!(stream.kind, StreamKind::Inner(_)),
                on_error: stream.on_error,
                deferred: stream.deferred.map(|d| d.batch_size_max),
                ..Junction::new(stream.display_name(), &stream.schema, readers)
            });
        }
        for (id, (window, readers)) in plan.windows.iter().zip(readers).enumerate() {
            let schema = &window.schema;
            streams.push(Junction {
                is_observed: setup.observed_streams.contains(&plan.junction_of(id)),
                ..Junction::new(schema.name.clone(), schema, readers)
            });
        }
        let ConditionContext {
            operations,
            is_read,
            ..
        } = context;
        let is_read = is_read.into_iter().map(|r| r || setup.is_asked).collect();
        let triggers = Triggers::new(plan, &mut timers);
        let mut app = App {
            core: Core {
                clock: 0,
                wall: 0,
                playback: plan.options.playback,
                clock_set_at: 0,
                is_started: false,
                steps: 0,
                seed: setup.seed,
                environment,
                tables: Tables::new(&plan.tables, operations, is_read),
                windows,
                aggregations,
                timers,
            },
            queries,
            partitions,
            triggers,
            rows_in: vec![0; streams.len()],
            shapes: Shapes::of(plan),
            unbegun: Unbegun::default(),
            marks_changes: false,
            objects_saved: 0,
            budget: Budget::of(plan, setup.memory_max),
            work: WorkLog::new(plan.queries.len()),
            streams,
            deferred: VecDeque::new(),
            stack: Vec::new(),
            delivery: 0,
            // With compat a failure hides a chunk from the receivers behind.
            forced_lockstep: setup.lockstep || is_compat,
        };
        app.add_idle_timer();
        app.find_fast_paths();
        Ok(app)
    }

    /// Takes one input at application clock `now` and wall clock `wall` (milliseconds since 1970;
    /// the same but in playback). What leaves is appended to `out`.
    pub fn step(
        &mut self,
        now: i64,
        wall: i64,
        input: Input,
        host: &mut dyn Host,
        out: &mut Outputs,
    ) {
        self.core.steps = self.core.steps.wrapping_add(1);
        self.core.wall = self.core.wall.max(wall);
        let outside = &mut Outside { host, out };
        match input {
            Input::Start => self.start(now, outside),
            Input::Tick => self.advance(now, outside),
            Input::Playback(playback) => {
                // The switch itself moves no event clock.
                let now = if self.core.playback.is_some() {
                    self.core.clock
                } else {
                    now
                };
                self.advance(now, outside);
                // The event clock begins anew with the first event.
                if playback.is_some() && self.core.playback.is_none() {
                    self.core.clock = 0;
                }
                self.core.playback = playback;
                self.add_idle_timer();
            }
            Input::Batch(stream, batch) if self.core.is_started => {
                if self.core.playback.is_some() {
                    self.take_playback_batch(stream, batch, outside);
                } else {
                    self.take_live(stream, batch, now, outside);
                }
            }
            Input::Batch(..) => {}
        }
    }

    /// Is there something that [`Input::Start`] would begin?
    pub fn wants_start(&self) -> bool {
        !self.core.is_started || !self.unbegun.is_empty()
    }

    /// Begins what has not begun: everything the first time, and after a restore what had no state.
    fn start(&mut self, now: i64, outside: &mut Outside<'_>) {
        let mut unbegun = std::mem::take(&mut self.unbegun);
        let is_first = !std::mem::replace(&mut self.core.is_started, true);
        if is_first {
            unbegun = Unbegun {
                windows: (0..self.core.windows.iter().count()).collect(),
                aggregations: (0..self.core.aggregations.len()).collect(),
                queries: (0..self.queries.len()).collect(),
            };
        }
        // What fell due while nobody looked is served late, not in the past (Siddhi's schedulers
        // ask the clock when they run).
        if self.core.playback.is_none() || self.core.clock == 0 {
            self.core.clock = self.core.clock.max(now);
        }
        for id in unbegun.aggregations {
            self.start_aggregation(id, outside);
        }
        let (windows, step) = &mut self.core.windows_and_step(outside);
        windows.start(&unbegun.windows, step);
        for id in unbegun.queries {
            self.queries[id].start_jobs(&mut self.core.timers, self.core.wall);
            for key in self.keys_of(&self.queries[id]) {
                self.queries[id].start(key, &mut self.core.step(outside));
            }
        }
        // A state saved before there were such jobs has none.
        for query in &self.queries {
            query.start_jobs(&mut self.core.timers, self.core.wall);
        }
        self.start_triggers(is_first, outside);
    }

    // ---- clocks ----

    /// Moves the clock to `now`, with all timers on the way.
    #[inline(always)]
    fn advance(&mut self, now: i64, outside: &mut Outside<'_>) {
        if !self.core.is_started {
            return;
        }
        if self.core.playback.is_some() {
            return self.play_to(now, outside);
        }
        if self.core.timers.may_fire(now) {
            self.fire_live(now, outside);
        }
        self.set_live(now);
    }

    /// Playback: the events' clock moves, and what follows the wall clock fires.
    fn play_to(&mut self, now: i64, outside: &mut Outside<'_>) {
        let is_set = now > self.core.clock;
        self.advance_playback(now, outside);
        if is_set {
            self.clock_was_set();
        }
        self.fire_by_wall(outside);
    }

    /// Live: all timers up to `now`.
    #[cold]
    fn fire_live(&mut self, now: i64, outside: &mut Outside<'_>) {
        while let Some((time, operator, key)) = self.core.timers.fire(now) {
            self.set_live(time);
            let clock = self.core.clock;
            self.serve(operator, key, clock, outside);
        }
    }

    /// Live, both clocks are one; a batch may bring them further than its step began.
    #[inline]
    fn set_live(&mut self, now: i64) {
        self.core.clock = self.core.clock.max(now);
        self.core.wall = self.core.wall.max(self.core.clock);
    }

    /// Playback: what follows the wall clock.
    pub(crate) fn fire_by_wall(&mut self, outside: &mut Outside<'_>) {
        let wall = self.core.wall;
        while let Some((time, operator, key)) = self.core.timers.fire_wall(wall) {
            self.serve(operator, key, time, outside);
        }
    }

    pub(crate) fn advance_playback(&mut self, now: i64, outside: &mut Outside<'_>) {
        self.core.clock = self.core.clock.max(now);
        let clock = self.core.clock;
        for operator in 0..self.core.timers.operators() {
            for key in self.core.timers.fire_playback(operator, clock) {
                self.serve(operator, key, clock, outside);
            }
        }
    }

    /// Serves all due deadlines of a timer that fired, each with all its effects downstream.
    fn serve(&mut self, operator: OperatorId, key: Key, now: i64, outside: &mut Outside<'_>) {
        while let Some(due) = self.core.timers.next_deadline(operator, key, now) {
            let owner = self.core.timers.owner(operator);
            match owner {
                Owner::Window { query, .. }
                | Owner::Absent { query, .. }
                | Owner::Stage { query, .. }
                | Owner::Limiter { query } => {
                    self.query_timer(owner, query, key, due.deadline, outside);
                }
                Owner::Job { query, side } => {
                    let window = Owner::Window { query, side };
                    for key in self.keys_of(&self.queries[query]) {
                        self.query_timer(window, query, key, due.deadline, outside);
                    }
                    if let Some(next) = self.queries[query].job_after(side, due.deadline) {
                        self.core.timers.notify(operator, 0, next, now);
                    }
                }
                Owner::Purge { partition } => {
                    self.purge(partition, operator, due.deadline, now);
                }
                Owner::Trigger { trigger } => {
                    self.trigger_timer(trigger, due.deadline, now, outside);
                }
                Owner::Idle => {
                    self.idle_timer(due.deadline, outside);
                }
                Owner::Named { window } => {
                    self.window_timer(window, due.deadline, outside);
                    self.drain(outside);
                    self.drain_deferred(outside);
                }
                Owner::Aggregation { aggregation, level } => {
                    self.aggregation_timer(aggregation, Some(level), outside);
                }
                Owner::AggregationPurge { aggregation } => {
                    self.aggregation_timer(aggregation, None, outside);
                }
            }
        }
    }

    /// Serves a deadline of a part of a query.
    fn query_timer(
        &mut self,
        owner: Owner,
        query: QueryId,
        key: Key,
        deadline: i64,
        outside: &mut Outside<'_>,
    ) {
        if let Owner::Absent { state, .. } = owner {
            return self.absent_timer((query, state), key, deadline, outside);
        }
        let begun = self.work.begin_timer(query, outside.host);
        let step = &mut self.core.step(outside);
        let served = &mut self.queries[query];
        let result = match owner {
            Owner::Window { side, .. } => served.on_timer(side, key, deadline, step),
            Owner::Stage { side, stage, .. } => {
                served.stage_timer((side, stage), key, deadline, step)
            }
            Owner::Limiter { .. } => served.limit_timer(key, deadline, step),
            _ => Ok(None),
        };
        self.work.end(query, 0, begun, outside.host);
        match result {
            Ok(rows) => self.route(query, key, rows, 0),
            Err(broken) => self.report(query, None, broken, None, 0, outside),
        }
        self.drain(outside);
        self.drain_deferred(outside);
    }

    /// Serves a deadline of an absent state. Siddhi hands on each match by itself, so that one that
    /// fails takes none before it with it; those behind it are lost there.
    fn absent_timer(
        &mut self,
        (query, state): (QueryId, u16),
        key: Key,
        deadline: i64,
        outside: &mut Outside<'_>,
    ) {
        let step = &mut self.core.step(outside);
        for rows in self.queries[query].quiet(state, key, deadline, step) {
            let begun = self.work.begin_timer(query, outside.host);
            let step = &mut self.core.step(outside);
            let result = self.queries[query].matched(rows, key, step);
            self.work.end(query, 0, begun, outside.host);
            let has_failed = result.is_err();
            match result {
                Ok(rows) => self.route(query, key, rows, 0),
                Err(broken) => self.report(query, None, broken, None, 0, outside),
            }
            self.drain(outside);
            self.drain_deferred(outside);
            if has_failed && self.core.environment.compat {
                return;
            }
        }
    }

    /// A key has been used. Siddhi begins a series of looks at the keys with each event; one series
    /// for each place in the interval does the same, as far as anybody can tell.
    pub(crate) fn arm_purge(&mut self, partition: usize) {
        let wall = self.core.wall();
        let Some(interval) = self.partitions[partition].purge_used_at(wall) else {
            return;
        };
        let timers = &mut self.core.timers;
        let Some(operator) = timers.find(Owner::Purge { partition }) else {
            return;
        };
        let first = wall.saturating_add(interval);
        let mut series = 0;
        let is_known = timers.deadlines(operator, 0).any(|deadline| {
            series += 1;
            (first - deadline) % interval == 0
        });
        if !is_known && series < PURGE_SERIES_MAX {
            timers.notify(operator, 0, first, wall);
        }
    }

    /// Keys that have been idle go. Times that were missed while the app was down are not made up for.
    fn purge(&mut self, partition: usize, operator: OperatorId, deadline: i64, now: i64) {
        let Some((_, interval)) = self.partitions[partition].purge else {
            return;
        };
        let (gone, pages) = self.partitions[partition].take_idle(self.core.clock);
        for query in self.partitions[partition].queries.clone() {
            for &key in &gone {
                self.queries[query].remove(key, &mut self.core.timers);
            }
            for page in &pages {
                self.queries[query].release_keys(page.clone());
            }
        }
        let timers = &mut self.core.timers;
        let next = first_after(now, deadline.saturating_add(interval), interval);
        timers.notify(operator, 0, next, deadline);
    }

    // ---- rows from outside ----

    #[inline(always)]
    fn take_live(&mut self, stream: StreamId, batch: Batch, now: i64, outside: &mut Outside<'_>) {
        if let Clock::Same(_) = batch.clock {
            self.advance(now, outside);
            let clock = self.core.clock;
            return self.root(stream, stamped(batch, clock, clock), outside);
        }
        self.take_clocked(stream, batch, outside);
    }

    /// Live, each chunk at its own clock.
    fn take_clocked(&mut self, stream: StreamId, batch: Batch, outside: &mut Outside<'_>) {
        let Clock::PerChunk(clocks) = batch.clock.clone() else {
            return;
        };
        let mut start = 0;
        while start < clocks.len() {
            let clock = clocks[start];
            let same = clocks[start..].iter().take_while(|&&c| c == clock).count();
            self.advance(clock, outside);
            let clock = self.core.clock;
            let mut part = batch.slice_chunks(start..start + same);
            let mut end = start + same;
            // What an event of the past arms is due at once, before the chunk behind it.
            if same > 1 && is_back_dated(&part, clock) {
                end = start + 1;
                part = batch.slice_chunks(start..end);
            }
            let part = stamped(part, clock, clock);
            self.root(stream, part, outside);
            start = end;
        }
    }

    /// One root of the work stack for which there is room; deferred streams are drained behind it.
    #[inline]
    pub(crate) fn root_taken(&mut self, stream: StreamId, batch: Batch, outside: &mut Outside<'_>) {
        if self.streams[stream].feeds_deferred && batch.chunk_count() > 1 {
            for chunk in 0..batch.chunk_count() {
                self.root_taken(stream, batch.slice_chunks(chunk..chunk + 1), outside);
            }
            return;
        }
        if self.streams[stream].way == FastPath::Fork || batch.chunk_count() != 1 {
            self.enter(stream, batch, outside);
        } else {
            self.take_fast_path(stream, batch, outside);
        }
        self.drain(outside);
        self.drain_deferred(outside);
    }

    /// A deferred stream hands its rows on when the root chunk is done.
    #[inline]
    fn drain_deferred(&mut self, outside: &mut Outside<'_>) {
        while let Some((stream, batch)) = self.deferred.pop_front() {
            self.enter(stream, batch, outside);
            self.drain(outside);
        }
    }

    /// Hands rows to a stream without deferring them, cut where `@async` limits chunks.
    #[inline]
    fn enter(&mut self, stream: StreamId, batch: Batch, outside: &mut Outside<'_>) {
        let batch = match self.streams[stream].deferred {
            Some(Some(rows_max)) => cut_chunks(batch, rows_max as usize),
            _ => batch,
        };
        self.hand_out(stream, 0, batch, 0, outside);
    }

    // ---- questions ----

    /// When the next timer is due on the wall clock: the caller ticks then. In playback windows wait
    /// for events to move the clock and are not counted.
    pub fn next_timer(&self) -> Option<i64> {
        self.core.timers.next(self.core.playback.is_some())
    }

    /// The application clock.
    pub fn now(&self) -> i64 {
        self.core.clock
    }

    /// The number of steps taken, part of an output's identity.
    pub fn steps(&self) -> u64 {
        self.core.steps
    }

    /// What will be asked of external tables: compiled by the stores before [`Input::Start`].
    pub fn operations(&self) -> &[Operation] {
        &self.core.tables.operations
    }

    /// Rows written to each table since the app was made, in memory and by the host while steps ran.
    pub fn written(&self) -> &[WriteCounts] {
        &self.core.tables.written
    }

    /// Rows of a table in memory; `None` for an external one.
    pub fn table_rows(&self, table: plan::TableId) -> Option<usize> {
        let mut all = self.core.tables.in_memory();
        all.find(|(id, _)| *id == table).map(|(_, t)| t.len())
    }

    /// Content of a table in memory, in the order of insertion.
    pub fn table_content(&self, table: plan::TableId) -> Option<Batch> {
        let mut all = self.core.tables.in_memory();
        all.find(|(id, _)| *id == table)
            .map(|(_, t)| t.content(self.core.clock))
    }

    /// Streams that pass batches chunk by chunk, each with the reason.
    pub fn lockstep(&self) -> impl Iterator<Item = (StreamId, &str)> {
        let all = self.streams.iter().enumerate();
        all.filter_map(|(id, s)| Some((id, s.lockstep.as_deref()?)))
    }

    /// Rows that due timers would still emit.
    pub fn held_in_windows(&self) -> usize {
        let mut held = 0;
        for query in &self.queries {
            for key in self.keys_of(query) {
                held += query.chains().map(|c| c.held(key)).sum::<usize>();
                held += query.pattern().map_or(0, |p| p.held(key));
            }
            held += query.limiter.as_ref().map_or(0, |l| l.held());
        }
        held + self.core.windows.iter().map(|w| w.held()).sum::<usize>()
    }

    /// Partition keys with a state in a query.
    pub(crate) fn keys_of(&self, query: &Query) -> Vec<Key> {
        match query.partition {
            Some(partition) => self.partitions[partition].live.clone(),
            None => vec![0],
        }
    }

    /// Rows taken by each stream since the app was made, then those that came out of each named window.
    pub fn rows_in(&self) -> &[u64] {
        &self.rows_in
    }

    /// Name of a stream as written in the app.
    pub fn stream_name(&self, stream: StreamId) -> &str {
        &self.streams[stream].name
    }
}

/// Streams of a plan that an in-memory topic links: a sink with a fixed topic and a source of the
/// same, both without a mapping of their own.
pub fn topic_links(plan: &Plan) -> Vec<(StreamId, StreamId)> {
    let topics = |transports: &[Transport]| -> Vec<String> {
        let plain = transports.iter().filter(|t| {
            t.ty == "inMemory"
                && t.distribution.is_none()
                && t.map.ty.eq_ignore_ascii_case("passThrough")
                && t.map.attributes.is_empty()
                && t.map.payload.is_empty()
        });
        plain
            .filter_map(|t| t.option("topic"))
            .filter(|topic| !topic.contains("{{"))
            .map(str::to_owned)
            .collect()
    };
    let mut links = Vec::new();
    for (from, writer) in plan.streams.iter().enumerate() {
        for topic in topics(&writer.sinks) {
            for (to, reader) in plan.streams.iter().enumerate() {
                let fits = reader.schema.attributes.len() == writer.schema.attributes.len();
                if fits && topics(&reader.sources).contains(&topic) && !links.contains(&(from, to))
                {
                    links.push((from, to));
                }
            }
        }
    }
    links
}

/// What a plan may hold that does not run yet.
fn refuse_missing(plan: &Plan) -> Result<(), Error> {
    match plan.not_runnable.first() {
        Some((what, span)) => Err(Error::unsupported(what.clone(), *span)),
        None => Ok(()),
    }
}

/// Does a row bear a time before the clock?
fn is_back_dated(batch: &Batch, clock: i64) -> bool {
    let mut times = (0..batch.len).map(|row| batch.times.at(row));
    times.any(|time| time >= 0 && time < clock)
}

/// Cuts chunks longer than `rows_max`.
fn cut_chunks(mut batch: Batch, rows_max: usize) -> Batch {
    let longest = (0..batch.chunk_count()).map(|c| batch.chunk(c).len()).max();
    if rows_max == 0 || longest.unwrap_or(0) <= rows_max {
        return batch;
    }
    let (mut ends, mut clocks) = (Vec::new(), Vec::new());
    for chunk in 0..batch.chunk_count() {
        let range = batch.chunk(chunk);
        let mut at = range.start;
        while at < range.end {
            at = (at + rows_max).min(range.end);
            ends.push(at as u32);
            clocks.push(batch.clock_at(chunk));
        }
    }
    batch.chunks = Chunks::Ends(ends.into());
    if let Clock::PerChunk(_) = batch.clock {
        batch.clock = Clock::PerChunk(clocks.into());
    }
    batch
}
