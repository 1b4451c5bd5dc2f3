//! What stands between a stream and the selector: handlers, a window, handlers behind it.
//!
//! Only attributes that are used behind the window, or by its arguments, go into it.

use event::{Batch, Column, Schema, Type, Value};
use plan::{From, Handler};

use super::stage::{Stage, StagePlace};
use crate::component::{
    AppEnvironment, Argument, Failure, Key, OneArrived, WindowContext, WindowOperator, WindowSetup,
};
use crate::emission::Emission;
use crate::error::Error;
use crate::expr::{Compiler, EVENT_TIME, Expression, Inputs, Layout, ROW, argument, attributes_of};
use crate::kept::{Held, Queue};
use crate::step::{Broken, Step};
use crate::table::ConditionContext;
use crate::timers::{OperatorId, Owner, Timers};

/// How rows leave a chain, which decides what aggregators keep (Siddhi's `ProcessingMode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProcessingMode {
    Batch,
    Group,
    Slide,
}

impl ProcessingMode {
    /// Of a window by its name with its namespace. A named window that is read has none of its own.
    fn of_window(name: &str) -> ProcessingMode {
        match name {
            "batch" | "cron" => ProcessingMode::Batch,
            "session" => ProcessingMode::Group,
            _ if name.ends_with("Batch") => ProcessingMode::Batch,
            _ => ProcessingMode::Slide,
        }
    }

    /// That of both together.
    pub fn and(self, other: ProcessingMode) -> ProcessingMode {
        match (self, other) {
            (ProcessingMode::Batch, mode) | (mode, ProcessingMode::Batch) => mode,
            (a, b) if a == b => a,
            _ => ProcessingMode::Slide,
        }
    }
}

pub(crate) struct Chain {
    pub from: From,
    before: Vec<Stage>,
    window: Option<WindowStage>,
    after: Vec<Stage>,
    /// Types of the row that leaves the chain.
    pub types: Vec<Type>,
    /// Attributes of handlers that were left out, all null.
    adds: usize,
}

struct WindowStage {
    name: String,
    operator: Box<dyn WindowOperator>,
    id: OperatorId,
    /// Attributes that go in, in order.
    keep: Vec<usize>,
    /// Arguments that are neither constants nor attributes, computed into columns behind those.
    computed: Vec<Expression>,
    types: Vec<Type>,
    /// Name and type of each column that goes in, for the saved state.
    kept: String,
    /// Rows go in as they come: all attributes in their order, and nothing computed.
    takes_all: bool,
    /// Kept from batch to batch for the room they have taken.
    emission: Emission,
    deadlines: Vec<i64>,
    columns: Vec<Column>,
}

/// What a sliding window at the end of a chain has done.
pub(crate) enum Slid<'a> {
    One(SlidOne<'a>),
    Many(SlidMany<'a>),
}

/// One row has arrived.
pub(crate) struct SlidOne<'a> {
    /// The columns that go into the window.
    pub batch: Batch,
    /// Rows in the window before.
    pub held: usize,
    /// The row that has left for it, and the rows among which it lies.
    pub left: Option<(&'a Batch, usize)>,
}

/// A batch has passed, or a deadline.
pub(crate) struct SlidMany<'a> {
    /// Rows in the window before.
    pub held: usize,
    pub emission: &'a mut Emission,
    /// Types of the window's columns.
    pub types: &'a [Type],
    /// A batch without rows and columns, to be filled.
    pub spare: Batch,
}

impl SlidMany<'_> {
    /// The rows that have arrived. Where the window has done more than let rows come and go it is all
    /// of what it emits.
    fn into_arriving(self) -> Option<Batch> {
        let SlidMany {
            emission,
            types,
            spare,
            ..
        } = self;
        match emission.slide_steps(&mut Vec::new()) {
            None => emission.finish_into(types, spare),
            Some(arrivals) => {
                let rows = arrivals.map(|arrivals| emission.arriving(&arrivals, spare));
                emission.clear();
                rows
            }
        }
    }
}

/// The place of a chain in an app.
pub(crate) struct Place<'a> {
    /// Who is called when a deadline of the chain's window is due.
    pub owner: Owner,
    pub expired_wanted: bool,
    /// The other side of a join looks into the window.
    pub is_searched: bool,
    /// A side of a join.
    pub is_joined: bool,
    /// In a partition.
    pub is_partitioned: bool,
    pub environment: &'a AppEnvironment,
}

/// Attributes of one input that are used.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    attributes: Vec<bool>,
    /// Those that are selected as they are, in the order of the select clause.
    selected: Vec<usize>,
    /// The timestamps of its events are asked for by its name.
    pub times: bool,
}

impl Used {
    pub fn new(attributes: usize) -> Used {
        Used {
            attributes: vec![false; attributes],
            selected: Vec::new(),
            times: false,
        }
    }

    pub fn all(attributes: usize) -> Used {
        Used {
            attributes: vec![true; attributes],
            selected: (0..attributes).collect(),
            times: false,
        }
    }

    pub fn expr(&mut self, expr: &plan::Expr, input: plan::InputId) {
        attributes_of(expr, &mut |i, attribute| {
            self.times |= (i, attribute) == (input, EVENT_TIME);
            if i == input
                && let Some(used) = self.attributes.get_mut(attribute)
            {
                *used = true;
            }
        });
    }

    pub fn selector(&mut self, selector: &plan::Selector, input: plan::InputId) {
        for (expr, _) in &selector.items {
            self.expr(expr, input);
            if let plan::ExprKind::Attribute {
                input: of,
                attribute,
                ..
            } = expr.kind
                && of == input
                && !self.selected.contains(&attribute)
            {
                self.selected.push(attribute);
            }
        }
        selector.group_by.iter().for_each(|e| self.expr(e, input));
        selector.having.iter().for_each(|e| self.expr(e, input));
        selector
            .order_by
            .iter()
            .for_each(|(e, _)| self.expr(e, input));
    }
}

impl Chain {
    /// The chain and the layout of the row that leaves it, for expressions that see it as `input`.
    pub fn new(
        single: &plan::Single,
        input: plan::InputId,
        used: &Used,
        place: Place<'_>,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<(Chain, Layout), Error> {
        let (mut chain, kept) = Self::parts(single, used, place, timers, context)?;
        let layout =
            Layout::default().and_picked(input, ROW, 0, single.schema.attributes.len(), &kept);
        chain.types = kept
            .iter()
            .map(|&a| {
                single
                    .schema
                    .attributes
                    .get(a)
                    .map_or(Type::Object, |a| a.ty)
            })
            .collect();
        Ok((chain, layout))
    }

    /// Name and type of what the window keeps of each row; empty without a window.
    pub fn kept(&self) -> &str {
        self.window.as_ref().map_or("", |w| &w.kept)
    }

    /// The chain and, for each column of the row that leaves it, its attribute; a column that holds
    /// a window's argument has none (`usize::MAX`).
    pub fn parts(
        single: &plan::Single,
        used: &Used,
        place: Place<'_>,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<(Chain, Vec<usize>), Error> {
        let adds: usize = single
            .handlers
            .iter()
            .map(|h| match h {
                Handler::Function(call) => call.adds.len(),
                Handler::Filter(_) | Handler::Window(_) => 0,
            })
            .sum();
        let all = single.schema.attributes.len();
        let mut width = all - adds;
        let mut kept: Vec<usize> = (0..width).collect();
        let mut types: Vec<Type> = single.schema.attributes[..width]
            .iter()
            .map(|a| a.ty)
            .collect();
        let mut chain = Chain {
            from: single.from,
            before: Vec::new(),
            window: None,
            after: Vec::new(),
            types: Vec::new(),
            adds: 0,
        };
        for (at, handler) in single.handlers.iter().enumerate() {
            if place.is_joined && chain.reads_window() {
                // They are checked and then left out (Siddhi's `JoinInputStreamParser` puts its
                // `WindowWindowProcessor` in their place); what they would add is null.
                break;
            }
            if let Handler::Window(call) = handler
                && chain.window.is_none()
            {
                let mut used = used.clone();
                for later in &single.handlers[at + 1..] {
                    match later {
                        Handler::Filter(expr) => used.expr(expr, 0),
                        Handler::Function(call) => {
                            call.args.iter().for_each(|a| used.expr(a, 0));
                            // `#log` prints the whole event.
                            if call.name == "log" {
                                used.attributes.fill(true);
                            }
                        }
                        Handler::Window(_) => {}
                    }
                }
                let (stage, columns) =
                    WindowStage::new(call, single, &used, width, &place, timers, context)?;
                kept = columns;
                types.clone_from(&stage.types);
                chain.window = Some(stage);
                continue;
            }
            let layout = Layout::default().and_picked(0, ROW, 0, all, &kept);
            let stage_place = StagePlace {
                types: &types,
                keeps_state: true,
                is_partitioned: place.is_partitioned,
                environment: place.environment,
            };
            let mut stage = Stage::placed(handler, &layout, &stage_place, context)?;
            if let Some(processor) = stage.processor_mut().filter(|p| p.operator.has_state())
                && let Owner::Window { query, side } = place.owner
            {
                processor.id = Some(timers.add_operator(Owner::Stage {
                    query,
                    side,
                    stage: (chain.before.len() + chain.after.len()) as u16,
                }));
            }
            if let Handler::Function(call) = handler {
                types.extend(call.adds.iter().map(|a| a.ty));
                kept.extend(width..width + call.adds.len());
                width += call.adds.len();
            }
            if let Some(window) = &chain.window {
                if window.operator.resets_as_next() {
                    stage.drop_resets();
                }
                chain.after.push(stage);
            } else {
                chain.before.push(stage);
            }
        }
        kept.extend(width..all);
        chain.adds = all - width;
        Ok((chain, kept))
    }

    pub fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Rows come out of a window: one of the chain's own, or a named one.
    pub fn is_windowed(&self) -> bool {
        self.window.is_some() || self.reads_window()
    }

    pub fn reads_window(&self) -> bool {
        matches!(self.from, From::Window(_))
    }

    pub fn mode(&self) -> ProcessingMode {
        let window = self.window.as_ref();
        window.map_or(ProcessingMode::Batch, |w| {
            ProcessingMode::of_window(&w.name)
        })
    }

    pub fn has_effects_before(&self) -> bool {
        self.before.iter().any(Stage::has_effect)
    }

    /// A row may fail behind the window, which has taken it then.
    pub fn is_late_fallible(&self) -> bool {
        self.after.iter().any(|s| s.is_fallible() || s.has_effect())
            || self
                .window
                .as_ref()
                .is_some_and(|w| w.computed.iter().any(Expression::is_fallible))
    }

    /// The window needs values that a row may lack.
    pub fn needs_values(&self) -> bool {
        let window = self.window.as_ref();
        window.is_some_and(|w| !w.operator.needed().is_empty())
    }

    /// A row of the batch may lack a value that the window needs.
    pub fn may_lack(&self, batch: &Batch) -> bool {
        self.window.as_ref().is_some_and(|w| {
            w.operator.needed().iter().any(|&column| {
                let attribute = w.keep.get(column);
                let column = attribute.and_then(|&a| batch.columns.get(a));
                // What is computed on the way is not known yet.
                column.is_none_or(|c| c.nulls().is_some())
            })
        })
    }

    /// No row of declared types can fail in it.
    pub fn is_sure(&self) -> bool {
        let window = self.window.as_ref();
        let mut stages = self.stages();
        stages.all(|s| !s.is_fallible() && !s.has_effect() && s.sites().is_empty())
            && !self.is_late_fallible()
            && window.is_none_or(|w| !w.operator.is_fallible())
    }

    pub fn stages(&self) -> impl Iterator<Item = &Stage> {
        self.before.iter().chain(self.after.iter())
    }

    pub fn stages_mut(&mut self) -> impl Iterator<Item = &mut Stage> {
        self.before.iter_mut().chain(self.after.iter_mut())
    }

    pub fn start(&mut self, key: Key, step: &mut Step<'_>) {
        for stage in self.stages_mut() {
            stage.start(key, step);
        }
        let Some(window) = &mut self.window else {
            return;
        };
        let mut deadlines = Vec::new();
        let mut failures = Vec::new();
        let mut context = WindowContext {
            now: step.now,
            wall: step.wall,
            deadlines: &mut deadlines,
            failures: &mut failures,
        };
        window.operator.start(key, &mut context);
        window.notify(key, &deadlines, step);
    }

    pub fn remove(&mut self, key: Key, timers: &mut Timers) {
        for stage in self.stages_mut() {
            stage.remove(key, timers);
        }
        if let Some(window) = &mut self.window {
            window.operator.remove(key);
            // The job of all keys, which stands under one of them, goes on without it.
            if window.operator.job_after(0).is_none() {
                timers.forget(window.id, key);
            }
        }
    }

    /// Rows of a key that a due timer would still emit.
    pub fn held(&self, key: Key) -> usize {
        let window = self.window.as_ref().map_or(0, |w| w.operator.held(key));
        let stages = self.stages().filter_map(Stage::processor);
        window + stages.map(|s| s.operator.held(key)).sum::<usize>()
    }

    /// It has a window or a stream processor.
    pub fn has_state(&self) -> bool {
        self.window.is_some() || self.stages().any(|s| s.processor().is_some())
    }

    /// Heap bytes of a key's state in the window and the stream processors.
    pub fn bytes(&self, key: Key) -> usize {
        let window = self.window.as_ref().map_or(0, |w| w.operator.bytes(key));
        let stages = self.stages().filter_map(Stage::processor);
        window + stages.map(|s| s.operator.bytes(key)).sum::<usize>()
    }

    /// What a join finds in the window; `None` where there is none.
    pub fn content(&self, key: Key) -> Option<Held<'_>> {
        self.window.as_ref().and_then(|w| w.operator.content(key))
    }

    /// The window and its number among the timed operators.
    pub fn operator(&self) -> Option<(&str, &dyn WindowOperator, OperatorId)> {
        let window = self.window.as_ref()?;
        Some((&window.name, window.operator.as_ref(), window.id))
    }

    pub fn operator_mut(&mut self) -> Option<&mut Box<dyn WindowOperator>> {
        self.window.as_mut().map(|w| &mut w.operator)
    }

    #[inline]
    pub fn process(
        &mut self,
        batch: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let rows = self.in_front(batch, key, step)?;
        self.enter(rows, key, step)
    }

    /// As [`Chain::process`], of a chain that ends in a sliding window: the rows that arrive there,
    /// without those that leave for them.
    pub fn arrive(
        &mut self,
        batch: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let Some(batch) = self.in_front(batch, key, step)? else {
            return Ok(None);
        };
        let batch = self.widened(batch);
        Ok(match self.slide_in(batch, true, key, step)? {
            None => None,
            Some(Slid::One(one)) => Some(one.batch),
            Some(Slid::Many(many)) => many.into_arriving(),
        })
    }

    /// Through the stages in front of the window. Where that fails and the batch comes again, nothing
    /// has happened.
    #[inline(always)]
    fn in_front(
        &mut self,
        batch: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        if self.before.is_empty() {
            return Ok(Some(batch));
        }
        let outputs = step.out.items.len();
        let seed = *step.seed;
        let is_retried = batch.chunk_count() > 1;
        self.through(Some(batch), 0, key, step).inspect_err(|_| {
            if is_retried {
                step.out.items.truncate(outputs);
                *step.seed = seed;
            }
        })
    }

    /// With a null in each column that is added.
    #[inline(always)]
    fn widened(&self, batch: Batch) -> Batch {
        match self.adds {
            0 => batch,
            adds => widened(batch, adds),
        }
    }

    /// Through the stages in front of the window, from one on.
    #[inline(always)]
    fn through(
        &mut self,
        mut rows: Option<Batch>,
        from: usize,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        for stage in &mut self.before[from..] {
            let Some(batch) = rows else {
                return Ok(None);
            };
            rows = stage.run(batch, key, step)?;
        }
        Ok(rows)
    }

    /// Into the window, if there is one, and what comes out of it through the stages behind.
    #[inline(always)]
    fn enter(
        &mut self,
        rows: Option<Batch>,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let Some(batch) = rows else {
            return Ok(None);
        };
        let batch = self.widened(batch);
        match &mut self.window {
            None => Ok(Some(batch)),
            Some(window) => {
                let rows = window.process(batch, key, step)?;
                self.behind(rows, 0, key, step)
            }
        }
    }

    /// A deadline of a stage is due; `at` counts the stages in front of the window and behind it.
    pub fn stage_timer(
        &mut self,
        at: usize,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        match at.checked_sub(self.before.len()) {
            None => {
                let rows = self.before[at].on_timer(key, deadline, step)?;
                let rows = self.through(rows, at + 1, key, step)?;
                self.enter(rows, key, step)
            }
            Some(at) => {
                let rows = self.after[at].on_timer(key, deadline, step)?;
                self.behind(rows, at + 1, key, step)
            }
        }
    }

    pub fn on_timer(
        &mut self,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let Some(window) = &mut self.window else {
            return Ok(None);
        };
        let rows = window.on_timer(key, deadline, step)?;
        self.behind(rows, 0, key, step)
    }

    /// Does the chain end in a sliding window?
    pub fn slides(&mut self) -> bool {
        let window = self.window.as_mut();
        self.after.is_empty() && window.is_some_and(|w| w.operator.sliding().is_some())
    }

    /// As [`Chain::process`], of a chain that ends in a sliding window: what happens there is left
    /// for the caller to look at, and to clear. `by_one`: he can look at a row that arrives alone.
    pub fn slide(
        &mut self,
        batch: Batch,
        by_one: bool,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Slid<'_>>, Broken> {
        let Some(batch) = self.through(Some(batch), 0, key, step)? else {
            return Ok(None);
        };
        self.slide_in(batch, by_one, key, step)
    }

    /// Into the sliding window.
    fn slide_in(
        &mut self,
        mut batch: Batch,
        by_one: bool,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Slid<'_>>, Broken> {
        let Some(window) = &mut self.window else {
            return Ok(None);
        };
        window.keep_columns(&mut batch, step)?;
        let is_alone = batch.len == 1
            && batch.chunk_count() == 1
            && batch.expired.is_none()
            && batch.resets.is_none();
        if by_one
            && is_alone
            && let Some(OneArrived { held, leaves }) = window.take_one(&batch, key, step)
        {
            batch.inner = None;
            let queue = leaves.then(|| window.operator.queue(key)).flatten();
            let left = queue.and_then(Queue::left);
            return Ok(Some(Slid::One(SlidOne { batch, held, left })));
        }
        let held = window.operator.sliding().map_or(0, |s| s.rows(key));
        let spare = window.take(batch, key, step)?;
        Ok(Some(window.slid(held, spare)))
    }

    /// As [`Chain::on_timer`], of such a chain.
    pub fn slide_timer(
        &mut self,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Slid<'_>>, Broken> {
        let Some(window) = &mut self.window else {
            return Ok(None);
        };
        let held = window.operator.sliding().map_or(0, |s| s.rows(key));
        window.serve(key, deadline, step)?;
        Ok(Some(window.slid(held, Batch::empty())))
    }

    /// Through the stages behind the window, from one on.
    fn behind(
        &mut self,
        mut rows: Option<Batch>,
        from: usize,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        for stage in &mut self.after[from..] {
            let Some(batch) = rows else {
                return Ok(None);
            };
            rows = stage.run(batch, key, step)?;
        }
        Ok(rows)
    }
}

/// Rows with so many null columns behind the others.
fn widened(mut batch: Batch, adds: usize) -> Batch {
    let null = Column::constant(Type::Object, &Value::Null, batch.len);
    let width = batch.columns.len() + adds;
    batch.columns.resize(width, null);
    batch
}

impl WindowStage {
    fn new(
        call: &plan::WindowCall,
        single: &plan::Single,
        used: &Used,
        width: usize,
        place: &Place<'_>,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<(WindowStage, Vec<usize>), Error> {
        let found = crate::window::WINDOWS
            .iter()
            .find(|w| w.spec().full_name() == call.name);
        let window = found
            .ok_or_else(|| Error::unsupported(format!("window '{}'", call.name), call.span))?;
        let mut used = used.clone();
        let is_plain = |e: &plan::Expr| {
            matches!(
                e.kind,
                plan::ExprKind::Constant(_) | plan::ExprKind::Attribute { .. }
            )
        };
        for arg in call.args.iter().filter(|a| is_plain(a)) {
            used.expr(arg, 0);
        }
        // The condition in their text may name any attribute.
        if matches!(call.name.as_str(), "expression" | "expressionBatch") {
            used.attributes.fill(true);
        }
        let keep: Vec<usize> = (0..width).filter(|&a| used.attributes[a]).collect();
        let mut attributes: Vec<event::Attribute> = keep
            .iter()
            .map(|&a| single.schema.attributes[a].clone())
            .collect();
        let mut columns = keep.clone();
        let mut computed = Vec::new();
        let mut args: Vec<Argument> = Vec::new();
        let row = Layout::whole(0, ROW, width);
        for (at, arg) in call.args.iter().enumerate() {
            let mut known = argument(arg, &|_, attribute| {
                keep.iter().position(|&k| k == attribute)
            });
            if !is_plain(arg) {
                let mut sites = Vec::new();
                let expression = Compiler {
                    layout: row.clone(),
                    sites: &mut sites,
                    tracks: false,
                    tables: context,
                }
                .compile(arg)?;
                if !sites.is_empty() {
                    let what = "an aggregator or 'in' as argument of a window";
                    return Err(Error::unsupported(what, arg.span));
                }
                known.attribute = Some(attributes.len());
                attributes.push(event::Attribute {
                    name: format!("{} argument {}", call.name, at + 1),
                    ty: arg.ty,
                });
                columns.push(usize::MAX);
                computed.push(expression);
            }
            args.push(known);
        }
        let types: Vec<Type> = attributes.iter().map(|a| a.ty).collect();
        let kept: Vec<String> = attributes
            .iter()
            .map(|a| format!("{} {}", a.name, a.ty))
            .collect();
        let schema = Schema {
            name: single.schema.name.clone(),
            attributes,
        };
        let place_of = |attribute: &usize| keep.iter().position(|k| k == attribute);
        let selected: Vec<usize> = used.selected.iter().filter_map(place_of).collect();
        let operator = window
            .bind(&WindowSetup {
                args: &args,
                schema: &schema,
                selected: &selected,
                expired_wanted: place.expired_wanted,
                is_searched: place.is_searched,
                is_partitioned: place.is_partitioned,
                environment: place.environment,
            })
            .map_err(|reason| Error::Refused {
                kind: "window",
                name: call.name.clone(),
                reason: reason.0,
                span: call.span,
            })?;
        let takes_all = computed.is_empty() && keep.iter().copied().eq(0..width);
        let owner = match (place.owner, operator.job_after(0)) {
            (Owner::Window { query, side }, Some(_)) => Owner::Job { query, side },
            (owner, _) => owner,
        };
        let id = timers.add_operator(owner);
        if operator.follows_wall() {
            timers.follow_wall(id);
        }
        let stage = WindowStage {
            name: call.name.clone(),
            operator,
            id,
            keep,
            computed,
            types,
            kept: kept.join(", "),
            takes_all,
            emission: Emission::default(),
            deadlines: Vec::new(),
            columns: Vec::new(),
        };
        Ok((stage, columns))
    }

    fn notify(&self, key: Key, deadlines: &[i64], step: &mut Step<'_>) {
        let now = if self.operator.follows_wall() {
            step.wall
        } else {
            step.now
        };
        for &deadline in deadlines {
            step.timers.notify(self.id, key, deadline, now);
        }
    }

    fn process(
        &mut self,
        mut batch: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.keep_columns(&mut batch, step)?;
        let spare = self.take(batch, key, step)?;
        Ok(self.emission.finish_into(&self.types, spare))
    }

    fn on_timer(
        &mut self,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.serve(key, deadline, step)?;
        Ok(self.emission.finish(&self.types))
    }

    fn slid(&mut self, held: usize, spare: Batch) -> Slid<'_> {
        Slid::Many(SlidMany {
            held,
            emission: &mut self.emission,
            types: &self.types,
            spare,
        })
    }

    /// As [`Sliding::slide_one`](crate::component::Sliding::slide_one).
    fn take_one(&mut self, batch: &Batch, key: Key, step: &mut Step<'_>) -> Option<OneArrived> {
        let mut failures = Vec::new();
        let mut context = WindowContext {
            now: step.now,
            wall: step.wall,
            deadlines: &mut self.deadlines,
            failures: &mut failures,
        };
        let sliding = self.operator.sliding()?;
        let arrived = sliding.slide_one(key, batch, &mut context)?;
        if !self.deadlines.is_empty() {
            self.notify(key, &self.deadlines, step);
            self.deadlines.clear();
        }
        Some(arrived)
    }

    /// Puts the columns that the window needs into it; gives the batch back without its columns, to be filled again.
    fn take(&mut self, mut batch: Batch, key: Key, step: &mut Step<'_>) -> Result<Batch, Broken> {
        self.run(key, step, |operator, context, out| {
            operator.process(key, &batch, context, out);
        })?;
        batch.columns.clear();
        Ok(batch)
    }

    /// Only the columns that the window needs, and its arguments behind them.
    fn keep_columns(&mut self, batch: &mut Batch, step: &mut Step<'_>) -> Result<(), Broken> {
        if self.takes_all {
            return Ok(());
        }
        if self.computed.is_empty() {
            // They ascend: none is overwritten before it has moved.
            for (to, &from) in self.keep.iter().enumerate() {
                batch.columns.swap(to, from);
            }
            batch.columns.truncate(self.keep.len());
            return Ok(());
        }
        let mut columns = std::mem::take(&mut self.columns);
        columns.extend(self.keep.iter().map(|&c| batch.columns[c].clone()));
        let mut failures: Vec<Failure> = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        let mut context = step.evaluation(batch, &mut failures);
        let computed = self.computed.iter_mut();
        columns.extend(computed.map(|e| e.column(&inputs, &mut context)));
        self.check(failures)?;
        std::mem::swap(&mut batch.columns, &mut columns);
        columns.clear();
        self.columns = columns;
        Ok(())
    }

    fn serve(&mut self, key: Key, deadline: i64, step: &mut Step<'_>) -> Result<(), Broken> {
        self.run(key, step, |operator, context, out| {
            operator.on_timer(key, deadline, context, out);
        })
    }

    /// What the window emits is left in `emission`; nothing where it fails.
    fn run(
        &mut self,
        key: Key,
        step: &mut Step<'_>,
        call: impl FnOnce(&mut dyn WindowOperator, &mut WindowContext<'_>, &mut Emission),
    ) -> Result<(), Broken> {
        let mut deadlines = std::mem::take(&mut self.deadlines);
        let mut failures = Vec::new();
        self.emission.clear();
        let mut context = WindowContext {
            now: step.now,
            wall: step.wall,
            deadlines: &mut deadlines,
            failures: &mut failures,
        };
        call(self.operator.as_mut(), &mut context, &mut self.emission);
        self.notify(key, &deadlines, step);
        deadlines.clear();
        self.deadlines = deadlines;
        let checked = self.check(failures);
        if checked.is_err() {
            self.emission.clear();
        }
        checked
    }

    fn check(&self, failures: Vec<Failure>) -> Result<(), Broken> {
        match failures.into_iter().min_by_key(|f| f.row) {
            Some(failure) => {
                let place = format!("window '{}'", self.name);
                Err(Broken::at(place, failure.message))
            }
            None => Ok(()),
        }
    }
}
