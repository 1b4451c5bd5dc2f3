//! A query: handlers, window or join, selector, rate limit and output.
//!
//! [`Query::process`] takes a batch of the stream it reads and gives back what goes into the
//! stream it inserts into; tables it writes itself. The unit of failure is the chunk. A batch of
//! several chunks that fails leaves everything as it was, and the caller sends it again chunk by
//! chunk; where that cannot be promised, [`Query::wants_chunks`] asks for chunks from the start.

mod chain;
mod group;
mod order;
mod output;
mod reduce;
mod saved;
mod select;
mod site;
mod sliding;
mod stage;

pub(crate) use chain::{Chain, Place, ProcessingMode, Used};
pub(crate) use group::{Interner, intern_all};
pub(crate) use output::write_now;
pub(crate) use select::Selector;
pub(crate) use site::compute_sites;
pub(crate) use stage::Stage;

use std::collections::HashMap;

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Clock, Column, Schema, Type};
use lang::ast::EventType;
use plan::{Plan, QueryId};

use crate::component::{AppEnvironment, Evaluate, Key};
use crate::dirty::DirtyBits;
use crate::error::Error;
use crate::expr::{Expression, Site, calls_of};
use crate::join::Join;
use crate::named::NamedWindows;
use crate::output::Output;
use crate::pattern::Pattern;
use crate::rate::Limiter;
use crate::step::{Broken, Step};
use crate::table::{ConditionContext, TableWrite, Tables};
use crate::tap::{self, Tap};
use crate::timers::{OperatorId, Owner, Timers};
use chain::Slid;
use select::Selected;

pub(crate) struct Query {
    pub id: QueryId,
    pub name: String,
    pub partition: Option<plan::PartitionId>,
    input: Input,
    pub selector: Selector,
    /// Partition keys whose state has changed since it was saved.
    pub dirty: DirtyBits,
    pub limiter: Option<Limiter>,
    limiter_operator: Option<OperatorId>,
    pub output: plan::Output,
    write: Option<TableWrite>,
    /// Rows go into a named window that may refuse them.
    pub fills_fallible_window: bool,
    is_observed: bool,
    pub taps: Vec<Tap>,
    /// It is observed, or there are taps.
    is_watched: bool,
    /// An expression asks for the clock, of which a batch may carry several.
    reads_clock: bool,
    /// A column has held values of another type than declared: whatever comes may fail late.
    has_seen_mixed: bool,
    faults: Faults,
    /// Its aggregates can follow a sliding window step by step.
    slides: bool,
    /// Matches emitted one by one, until they are routed.
    delivered: Vec<Batch>,
}

/// Where rows of declared types may fail, found once.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// Somewhere.
    any: bool,
    /// Where a batch of several chunks could not be taken back.
    late: bool,
    /// A window needs values that a row may lack.
    lacks: bool,
    /// Nothing but rows of streams goes into the query, and into a table only what it takes:
    /// neither the host nor what others have written can make it fail.
    is_simple: bool,
}

enum Input {
    Single(Box<Chain>),
    Join(Box<Join>),
    Pattern(Box<Pattern>),
}

impl Query {
    pub fn new(
        id: QueryId,
        plan: &Plan,
        is_observed: bool,
        windows: &NamedWindows,
        environment: &AppEnvironment,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<Query, Error> {
        let query = &plan.queries[id];
        let expired_wanted = query.events != EventType::Current;
        // A pattern's selector sees the events of a match through views of its own.
        let mut rewritten = None;
        let (mut input, layout, mode) = match &query.input {
            plan::Input::Single(single) => {
                let mut used = chain::Used::new(single.schema.attributes.len());
                used.selector(&query.selector, 0);
                let (chain, layout) = Chain::new(
                    single,
                    0,
                    &used,
                    chain::Place {
                        owner: Owner::Window { query: id, side: 0 },
                        expired_wanted,
                        is_searched: false,
                        is_joined: false,
                        is_partitioned: query.partition.is_some(),
                        environment,
                    },
                    timers,
                    context,
                )?;
                let mode = chain.mode();
                (Input::Single(Box::new(chain)), layout, mode)
            }
            plan::Input::Join(join) => {
                let (join, layout) = Join::new(join, (plan, id), environment, timers, context)?;
                let mode = join.mode();
                (Input::Join(Box::new(join)), layout, mode)
            }
            plan::Input::Pattern(pattern) => {
                let select = &query.selector;
                let (pattern, select, layout) =
                    Pattern::new(pattern, select, id, environment, timers, context)?;
                rewritten = Some(select);
                (
                    Input::Pattern(Box::new(pattern)),
                    layout,
                    ProcessingMode::Batch,
                )
            }
        };
        // Elsewhere aggregators meet EXPIRED rows without having kept values.
        let tracks = expired_wanted || mode == ProcessingMode::Slide;
        let select = rewritten.as_ref().unwrap_or(&query.selector);
        let mut selector = Selector::new(select, &layout, query.events, tracks, context)?;
        if let Input::Join(join) = &mut input {
            join.fit_to(&selector);
        }
        let width = query.selector.items.len();
        let write = TableWrite::new(&query.output, width, context)?;
        let fills_fallible_window = match query.output {
            plan::Output::Window(window) => windows.get(window).is_fallible(),
            _ => false,
        };
        let limiter = Limiter::new(query, selector.types(), environment.compat);
        if query.partition.is_some() {
            selector.keep_by_group();
        }
        if environment.compat {
            selector.be_compat(select);
        }
        selector.is_unreduced = limiter.as_ref().is_some_and(Limiter::wants_each_row);
        selector.wants_names = limiter.is_some();
        let limiter_operator = limiter
            .as_ref()
            .filter(|l| l.is_timed())
            .map(|_| timers.add_operator(Owner::Limiter { query: id }));
        let mut query = Query {
            id,
            name: query.name.clone(),
            partition: query.partition,
            input,
            selector,
            dirty: DirtyBits::default(),
            limiter,
            limiter_operator,
            output: query.output.clone(),
            write,
            fills_fallible_window,
            is_observed,
            taps: Vec::new(),
            is_watched: is_observed,
            reads_clock: reads_clock(query),
            has_seen_mixed: false,
            faults: Faults::default(),
            slides: false,
            delivered: Vec::new(),
        };
        query.faults = query.find_faults();
        let input_slides = match &mut query.input {
            Input::Single(chain) => chain.slides(),
            _ => false,
        };
        query.slides = query.limiter.is_none() && query.selector.slides() && input_slides;
        query.selector.slides_by_one = query.selector.slides_by_one();
        Ok(query)
    }

    pub fn chains(&self) -> impl Iterator<Item = &Chain> {
        match &self.input {
            Input::Single(chain) => [Some(&**chain), None],
            Input::Join(join) => [Some(&join.sides[0]), Some(&join.sides[1])],
            Input::Pattern(_) => [None, None],
        }
        .into_iter()
        .flatten()
    }

    pub fn chains_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
        match &mut self.input {
            Input::Single(chain) => [Some(&mut **chain), None],
            Input::Join(join) => {
                let [left, right] = &mut join.sides;
                [Some(left), Some(right)]
            }
            Input::Pattern(_) => [None, None],
        }
        .into_iter()
        .flatten()
    }

    /// A part of it keeps a state for each partition key by itself.
    pub fn has_state_by_key(&self) -> bool {
        self.pattern().is_some() || self.chains().any(Chain::has_state)
    }

    pub fn pattern(&self) -> Option<&Pattern> {
        match &self.input {
            Input::Pattern(pattern) => Some(pattern),
            Input::Single(_) | Input::Join(_) => None,
        }
    }

    pub fn pattern_mut(&mut self) -> Option<&mut Pattern> {
        match &mut self.input {
            Input::Pattern(pattern) => Some(pattern),
            Input::Single(_) | Input::Join(_) => None,
        }
    }

    /// The two sides of the query read one stream.
    pub fn is_self_join(&self) -> bool {
        matches!(&self.input, Input::Join(join) if join.is_self_join())
    }

    /// Sides that rows are given to where a query joins what it reads with itself.
    pub fn self_join_triggers(&self) -> u16 {
        let is_windowed = matches!(&self.input, Input::Join(join) if join.sides[0].reads_window());
        if is_windowed { 1 } else { 2 }
    }

    /// No row of the batch can fail in the query.
    pub fn is_sure(&self, batch: &Batch, schema: &Schema) -> bool {
        !self.faults.any && !self.lacks(batch) && !self.has_seen_mixed && !is_mixed(batch, schema)
    }

    /// A batch that [`Query::notice`] has looked at will not be asked for again.
    #[inline]
    pub fn may_keep(&self) -> bool {
        !self.faults.any && self.faults.is_simple && !self.has_seen_mixed
    }

    /// A row lacks what a window needs.
    fn lacks(&self, batch: &Batch) -> bool {
        self.faults.lacks && self.chains().any(|c| c.may_lack(batch))
    }

    fn find_faults(&self) -> Faults {
        let stages_fail = self
            .chains()
            .flat_map(Chain::stages)
            .any(|s| s.is_fallible() || s.has_effect());
        let joins_fail = matches!(&self.input, Input::Join(join) if join.is_late_fallible())
            || self.pattern().is_some_and(Pattern::is_fallible);
        let writes_fail = self.write.as_ref().is_some_and(TableWrite::is_fallible);
        let any = stages_fail
            || joins_fail
            || self.selector.is_fallible()
            || self.chains().any(Chain::is_late_fallible)
            || self.fills_fallible_window
            || writes_fail;
        let input_late = match &self.input {
            Input::Single(chain) => {
                chain.has_effects_before()
                    || self.selector.is_late_fallible()
                    || chain.has_window()
                        && (chain.is_late_fallible() || self.selector.is_fallible())
            }
            Input::Join(join) => {
                join.sides.iter().any(Chain::has_effects_before)
                    || join.is_late_fallible()
                    || self.selector.is_fallible()
            }
            Input::Pattern(pattern) => pattern.is_fallible() || self.selector.is_fallible(),
        };
        let late =
            input_late || self.limiter.is_some() || self.fills_fallible_window || writes_fail;
        let is_simple = self.write.as_ref().is_none_or(TableWrite::is_sure)
            && self
                .selector
                .all_sites()
                .all(|s| matches!(s, Site::Aggregate(_)))
            && match &self.input {
                Input::Single(chain) => chain.is_sure(),
                Input::Pattern(pattern) => pattern.is_sure(),
                Input::Join(join) => join.is_sure(),
            };
        Faults {
            any,
            late,
            lacks: self.chains().any(Chain::needs_values),
            is_simple,
        }
    }

    /// Notices values of other types than declared.
    #[inline]
    pub fn notice(&mut self, batch: &Batch, schema: &Schema) {
        if batch.columns.iter().any(Column::is_any) {
            self.has_seen_mixed |= is_mixed(batch, schema);
        }
    }

    /// Must this batch come chunk by chunk?
    pub fn wants_chunks(&mut self, batch: &Batch, schema: &Schema, tables: &Tables) -> bool {
        self.notice(batch, schema);
        if self.has_seen_mixed || self.reads_clock && matches!(batch.clock, Clock::PerChunk(_)) {
            return true;
        }
        self.faults.late
            || self.lacks(batch)
            || self.write.as_ref().is_some_and(|w| tables.is_waited_for(w))
    }

    /// The state of a partition key begins; key 0 when the app starts.
    pub fn start(&mut self, key: Key, step: &mut Step<'_>) {
        self.dirty.mark(key);
        for chain in self.chains_mut() {
            chain.start(key, step);
        }
        if let Some(pattern) = self.pattern_mut() {
            pattern.start(key, step);
        }
        if let (Some(limiter), Some(operator)) = (&mut self.limiter, self.limiter_operator)
            && let Some(deadline) = limiter.start(key, step.wall)
        {
            step.timers.notify(operator, key, deadline, step.wall);
        }
    }

    /// The jobs that its windows have for all keys of a partition, as far as they are not armed.
    pub fn start_jobs(&self, timers: &mut Timers, wall: i64) {
        for (_, window, id) in self.chains().filter_map(Chain::operator) {
            if let Some(next) = window
                .job_after(wall)
                .filter(|_| !timers.has_deadline(id, 0))
            {
                timers.notify(id, 0, next, wall);
            }
        }
    }

    /// When the job of a window runs next behind `after`.
    pub fn job_after(&self, side: u16, after: i64) -> Option<i64> {
        let window = self.chains().nth(usize::from(side));
        window.and_then(Chain::operator)?.1.job_after(after)
    }

    pub fn remove(&mut self, key: Key, timers: &mut Timers) {
        self.dirty.mark(key);
        for chain in self.chains_mut() {
            chain.remove(key, timers);
        }
        if let Some(pattern) = self.pattern_mut() {
            pattern.remove(key, timers);
        }
        self.selector.remove(key);
        if let Some(limiter) = &mut self.limiter {
            limiter.remove(key);
        }
        if let Some(operator) = self.limiter_operator {
            timers.forget(operator, key);
        }
    }

    pub fn reads_clock(&self) -> bool {
        self.reads_clock
    }

    /// As [`crate::component::WindowOperator::delay_min`], of the window on a side.
    pub fn delay_min(&self, side: u16) -> i64 {
        let window = self.chains().nth(usize::from(side));
        let window = window.and_then(Chain::operator);
        window.map_or(0, |(_, window, _)| window.delay_min())
    }

    /// Whole pages of partition keys are gone, each removed before.
    pub fn release_keys(&mut self, keys: std::ops::Range<Key>) {
        self.selector.release_keys(keys);
    }

    #[inline]
    pub fn process(
        &mut self,
        batch: Batch,
        side: u16,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.dirty.mark(key);
        if self.slides {
            return self.slide(key, step, |chain, by_one, step| {
                chain.slide(batch, by_one, key, step)
            });
        }
        let rows = match &mut self.input {
            Input::Single(chain) => {
                let Some(mut rows) = chain.process(batch, key, step)? else {
                    return Ok(None);
                };
                if self.limiter.is_none() && self.selector.projects(&rows) {
                    self.selector.project(&mut rows, step)?;
                    return self.emit(rows, step);
                }
                Some(rows)
            }
            Input::Join(join) => {
                join.has_seen_mixed = self.has_seen_mixed;
                join.process(batch, side, key, step)?
            }
            Input::Pattern(pattern) => {
                let input = usize::from(side);
                let rows = pattern.process(batch, input, key, step)?;
                if !pattern.delivers_chunks(input) {
                    return self.select_each(rows, key, step);
                }
                rows
            }
        };
        self.select(rows, key, step)
    }

    /// Puts rows into a sliding window, or serves a deadline of it, and selects what arrives.
    fn slide(
        &mut self,
        key: Key,
        step: &mut Step<'_>,
        call: impl for<'a> FnOnce(
            &'a mut Chain,
            bool,
            &mut Step<'_>,
        ) -> Result<Option<Slid<'a>>, Broken>,
    ) -> Result<Option<Batch>, Broken> {
        let Input::Single(chain) = &mut self.input else {
            return Ok(None);
        };
        let slid = match call(chain, self.selector.slides_by_one, step) {
            Ok(Some(slid)) => slid,
            Ok(None) => return Ok(None),
            Err(broken) => {
                self.selector.lose_track(key);
                return Err(broken);
            }
        };
        let selected = match slid {
            Slid::One(slid) => self.selector.select_one(slid, key, step)?,
            Slid::Many(slid) => self.selector.select_sliding(slid, key, step)?,
        };
        match selected {
            Some(batch) => self.emit(batch, step),
            None => Ok(None),
        }
    }

    /// Selects matches that are delivered one by one: those before one that fails have left.
    fn select_each(
        &mut self,
        rows: Option<Batch>,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let is_sure = !self.pattern().is_some_and(Pattern::is_fallible)
            && !self.selector.is_fallible()
            && !self.has_seen_mixed;
        let rows = match rows {
            Some(rows) if !is_sure && rows.chunk_count() > 1 => rows,
            rows => return self.select(rows, key, step),
        };
        for chunk in 0..rows.chunk_count() {
            let one = self.select(Some(rows.slice_chunks(chunk..chunk + 1)), key, step)?;
            self.delivered.extend(one);
        }
        Ok(None)
    }

    /// Has something been emitted one by one?
    #[inline]
    pub fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// What has been emitted one by one, also where the call has failed then.
    pub fn take_delivered(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.delivered)
    }

    /// A deadline of a window is due.
    pub fn on_timer(
        &mut self,
        side: u16,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.dirty.mark(key);
        if self.slides {
            return self.slide(key, step, |chain, _, step| {
                chain.slide_timer(key, deadline, step)
            });
        }
        let rows = match &mut self.input {
            Input::Single(chain) => chain.on_timer(key, deadline, step)?,
            Input::Join(join) => join.on_timer(side, key, deadline, step)?,
            Input::Pattern(_) => None,
        };
        self.select(rows, key, step)
    }

    /// A deadline of an absent state of the pattern is due: the matches for [`Query::matched`], in
    /// parts that fail alone.
    pub fn quiet(
        &mut self,
        state: u16,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Vec<Batch> {
        self.dirty.mark(key);
        let Some(pattern) = self.pattern_mut() else {
            return Vec::new();
        };
        let rows = pattern.on_timer(usize::from(state), key, deadline, step);
        match rows {
            Some(rows) if pattern.is_fallible() => {
                let chunks = 0..rows.chunk_count();
                chunks.map(|at| rows.slice_chunks(at..at + 1)).collect()
            }
            rows => rows.into_iter().collect(),
        }
    }

    /// Matches that a time of quiet has completed.
    pub fn matched(
        &mut self,
        rows: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.dirty.mark(key);
        self.select(Some(rows), key, step)
    }

    /// A deadline of a stream processor is due: the side and the place of its stage.
    pub fn stage_timer(
        &mut self,
        (side, stage): (u16, u16),
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.dirty.mark(key);
        let at = usize::from(stage);
        let rows = match &mut self.input {
            Input::Single(chain) => chain.stage_timer(at, key, deadline, step)?,
            Input::Pattern(_) => None,
            Input::Join(join) => join.stage_timer((side, at), key, deadline, step)?,
        };
        self.select(rows, key, step)
    }

    /// A deadline of the rate limiter is due.
    pub fn limit_timer(
        &mut self,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.dirty.mark(key);
        let (Some(limiter), Some(operator)) = (&mut self.limiter, self.limiter_operator) else {
            return Ok(None);
        };
        let (rows, next) = limiter.on_timer(key, deadline, step.now);
        if let Some(next) = next {
            step.timers.notify(operator, key, next, step.now);
        }
        match rows {
            Some(batch) => self.emit(batch, step),
            None => Ok(None),
        }
    }

    fn select(
        &mut self,
        rows: Option<Batch>,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let Some(rows) = rows else {
            return Ok(None);
        };
        let selected = self.selector.select(rows, key, step)?;
        let Some(Selected { batch, names, .. }) = selected else {
            return Ok(None);
        };
        let Some(limiter) = &mut self.limiter else {
            return self.emit(batch, step);
        };
        let mut deadlines = Vec::new();
        let rows = limiter.process(batch, names, key, step.now, &mut deadlines);
        if let Some(operator) = self.limiter_operator {
            for deadline in deadlines {
                step.timers.notify(operator, key, deadline, step.now);
            }
        }
        match rows {
            Some(batch) => self.emit(batch, step),
            None => Ok(None),
        }
    }

    /// To callbacks, then to the table, or back to the caller for the stream.
    #[inline]
    fn emit(&mut self, batch: Batch, step: &mut Step<'_>) -> Result<Option<Batch>, Broken> {
        if self.is_watched {
            self.show(&batch, step);
        }
        let Some(batch) = output::delivered(batch) else {
            return Ok(None);
        };
        match &mut self.write {
            Some(write) => {
                output::write(write, &batch, self.id, step)?;
                Ok(None)
            }
            None => Ok(Some(batch)),
        }
    }

    /// To whoever looks at what it emits.
    #[cold]
    fn show(&mut self, batch: &Batch, step: &mut Step<'_>) {
        if self.is_observed {
            step.out.items.push(Output::Callback {
                query: self.id,
                batch: batch.clone(),
            });
        }
        tap::pass(&mut self.taps, batch, step);
    }

    /// A tap has come or gone.
    pub fn taps_changed(&mut self) {
        self.is_watched = self.is_observed || !self.taps.is_empty();
    }

    /// All expressions in a fixed order, for the saved state of their call sites.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let stages = self.chains().flat_map(Chain::stages);
        let staged = stages.flat_map(Stage::expressions);
        let matched = self.pattern().into_iter().flat_map(Pattern::expressions);
        staged.chain(matched).chain(self.selector.expressions())
    }

    /// Saves the functions that keep something, each by its name and its number among the calls of
    /// that name: most keep nothing, and an edit may add or take away such calls.
    pub fn save_calls(&self, writer: &mut Writer) {
        let mut calls = Vec::new();
        self.expressions().for_each(|e| e.root.calls(&mut calls));
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        let mut keeping = Vec::new();
        for (name, function) in calls {
            let next = numbers.entry(name).or_default();
            let number = std::mem::replace(next, *next + 1);
            let mut state = Writer::default();
            function.save(&mut state);
            if !state.bytes.is_empty() {
                keeping.push((name, number, state.bytes));
            }
        }
        writer.count(keeping.len());
        for (name, number, state) in keeping {
            writer.str(name);
            writer.u64(number);
            writer.blob(&state);
        }
    }

    pub fn restore_calls(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let mut saved: HashMap<(String, u64), Reader<'_>> = HashMap::new();
        for _ in 0..reader.count()? {
            let name = reader.str()?.to_owned();
            saved.insert((name, reader.u64()?), reader.section()?);
        }
        let mut numbers: HashMap<String, u64> = HashMap::new();
        let mut restore = |name: &str, function: &mut dyn Evaluate| {
            let next = numbers.entry(name.to_owned()).or_default();
            let number = std::mem::replace(next, *next + 1);
            match saved.get_mut(&(name.to_owned(), number)) {
                Some(state) => function.restore(state),
                None => Ok(()),
            }
        };
        for chain in self.chains_mut() {
            for stage in chain.stages_mut() {
                for expression in stage.expressions_mut() {
                    expression.root.each_call_mut(&mut restore)?;
                }
            }
        }
        if let Some(pattern) = self.pattern_mut() {
            for expression in pattern.expressions_mut() {
                expression.root.each_call_mut(&mut restore)?;
            }
        }
        for expression in self.selector.expressions_mut() {
            expression.root.each_call_mut(&mut restore)?;
        }
        Ok(())
    }
}

/// Does a column hold values of another type than declared?
fn is_mixed(batch: &Batch, schema: &Schema) -> bool {
    let mut columns = batch.columns.iter().zip(&schema.attributes);
    columns.any(|(c, a)| c.is_any() && a.ty != Type::Object)
}

/// Does an expression of the query ask for the clock?
fn reads_clock(query: &plan::Query) -> bool {
    let mut found = false;
    let mut look = |name: &str| {
        found |= name == "currentTimeMillis" || name.starts_with("time:");
    };
    let select = &query.selector;
    for (expr, _) in &select.items {
        calls_of(expr, &mut look);
    }
    if let Some(having) = &select.having {
        calls_of(having, &mut look);
    }
    let singles: Vec<&plan::Single> = match &query.input {
        plan::Input::Single(single) => vec![single],
        plan::Input::Join(join) => vec![&join.left, &join.right],
        plan::Input::Pattern(_) => Vec::new(),
    };
    let references = match &query.input {
        plan::Input::Pattern(pattern) => pattern.references.as_slice(),
        plan::Input::Single(_) | plan::Input::Join(_) => &[],
    };
    let handlers = singles.iter().flat_map(|s| &s.handlers);
    for handler in handlers.chain(references.iter().flat_map(|r| &r.handlers)) {
        match handler {
            plan::Handler::Filter(expr) => calls_of(expr, &mut look),
            plan::Handler::Function(call) => {
                call.args.iter().for_each(|a| calls_of(a, &mut look));
            }
            plan::Handler::Window(_) => {}
        }
    }
    found
}
