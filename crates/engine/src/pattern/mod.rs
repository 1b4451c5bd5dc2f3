//! Patterns and sequences: partial matches over one or several streams.
//!
//! [`states`] lays the states out, [`machine`] moves partial matches between them event by event,
//! [`filter`] asks the filters, [`view`] makes columns of what was matched. Events are taken one by
//! one in the order of their chunks, so the bounds of a batch never show.
//!
//! Promises: state is kept per partition key; each match is a selector call of its own; nothing
//! expires by itself but through an event or the timer of an absent state.
//!
//! Never here: selecting, grouping and limiting, which are the query's.

mod advance;
mod filter;
mod index;
mod machine;
mod partials;
mod plain;
mod queue;
mod saved;
mod states;
mod timer;
mod view;

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Chunks, Clock, Column, Schema, Times, Type};
use plan::QueryId;

use crate::component::{AppEnvironment, Failure, Key};
use crate::error::Error;
use crate::expr::{Expression, Layout};
use crate::step::{Broken, Step};
use crate::table::ConditionContext;
use crate::timers::{OperatorId, Owner, Timers};
use advance::{Offer, Scratch};
pub(crate) use filter::is_sure;
use filter::{Part, StateFilter};
use index::Links;
use machine::{Lists, Machine, Matches, Store};
use partials::{Arrival, Captures, EventId, NONE, Partials};
use plain::PlainRoom;
use states::{StateGraph, StateId};
use view::{Place, Seen, Views};

pub(crate) struct Pattern {
    graph: StateGraph,
    /// For each state its filter, the name of its reference and the row it reads.
    filters: Vec<StateFilter>,
    names: Vec<String>,
    schemas: Vec<Schema>,
    /// What the selector reads.
    views: Views,
    store: Store,
    /// By number of the key; what is not begun is `None`.
    keys: Vec<Option<Box<Lists>>>,
    /// For each state its timed operator.
    absent_timers: Vec<Option<OperatorId>>,
    matches: Matches,
    deadlines: Vec<(StateId, i64)>,
    scratch: Scratch,
    room: Room,
    plain_room: PlainRoom,
    is_compat: bool,
    /// A row may fail where partial matches have moved already.
    is_fallible: bool,
}

/// The rows that the conditions of a state on the event alone let pass.
#[derive(Default)]
struct Mask {
    /// There are such conditions, and they have been asked.
    is_set: bool,
    rows: Vec<bool>,
}

impl Mask {
    fn lets_pass(&self, row: usize) -> bool {
        !self.is_set || self.rows[row]
    }
}

/// Vectors that are filled for each batch, kept for the room they have taken.
#[derive(Default)]
struct Room {
    /// Of each state that reads the batch the rows that its conditions let pass.
    masks: Vec<Mask>,
    columns: Vec<Column>,
    seen: Vec<Seen>,
    events: Vec<EventId>,
    rows: Vec<u32>,
}

impl Pattern {
    /// The pattern, the selector with the views of the partial match as inputs, and the layout of
    /// its row.
    pub fn new(
        pattern: &plan::Pattern,
        selector: &plan::Selector,
        query: QueryId,
        environment: &AppEnvironment,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<(Pattern, plan::Selector, Layout), Error> {
        let graph = StateGraph::new(pattern);
        let mut views = Views::default();
        let selector = rewritten(selector, pattern, &graph, &mut views);
        let layout = views.layout(Layout::default(), 0);
        let mut filters = Vec::with_capacity(graph.states.len());
        for state in &graph.states {
            filters.push(StateFilter::new(pattern, state.reference, &graph, context)?);
        }
        let captures = captures(pattern, &graph, &views, &filters);
        let is_fallible =
            !is_select_sure(&selector) || filters.iter().any(StateFilter::is_fallible);
        let width = graph.states.len();
        let equations = filters
            .iter()
            .enumerate()
            .map(|(state, filter)| filter.equation().filter(|_| graph.may_index(state)))
            .collect();
        let mut absent_timers = vec![None; width];
        for &state in &graph.absent_timers {
            let owner = Owner::Absent {
                query,
                state: state as u16,
            };
            absent_timers[state] = Some(timers.add_operator(owner));
        }
        let reference = |state: &states::State| &pattern.references[state.reference];
        let built = Pattern {
            names: graph
                .states
                .iter()
                .map(|s| reference(s).name.clone())
                .collect(),
            schemas: graph
                .states
                .iter()
                .map(|s| reference(s).schema.clone())
                .collect(),
            filters,
            views,
            store: Store {
                partials: Partials::new(width),
                captures,
                equations,
                links: Links::default(),
                returned: vec![false; width],
                changed: vec![false; width],
            },
            keys: Vec::new(),
            absent_timers,
            matches: Matches::default(),
            deadlines: Vec::new(),
            scratch: Scratch::default(),
            room: Room::default(),
            plain_room: PlainRoom::default(),
            is_compat: environment.compat,
            is_fallible,
            graph,
        };
        Ok((built, selector, layout))
    }

    /// A row may fail where partial matches have moved already.
    pub fn is_fallible(&self) -> bool {
        self.is_fallible
    }

    /// What a chunk of this input completes is delivered together; else each match by itself.
    pub fn delivers_chunks(&self, input: usize) -> bool {
        self.graph.readers[input].states.len() > 1
    }

    pub fn start(&mut self, key: Key, step: &mut Step<'_>) {
        let now = step.now;
        self.with(key, |machine| machine.begin(now));
        self.set_deadlines(key, step);
    }

    pub fn remove(&mut self, key: Key, timers: &mut Timers) {
        if self.keys.get(key as usize).is_some_and(Option::is_some) {
            self.with(key, |machine| machine.clear());
            self.keys[key as usize] = None;
        }
        for operator in self.absent_timers.iter().flatten() {
            timers.forget(*operator, key);
        }
    }

    /// Takes the rows of one input, event by event.
    pub fn process(
        &mut self,
        batch: Batch,
        input: usize,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let mut lists = self.take_lists(key);
        let result = self.take_all(&batch, input, &mut lists, step);
        self.keys[key as usize] = Some(lists);
        self.set_deadlines(key, step);
        let rows = self.batch(Some(batch), input);
        result.map(|()| rows)
    }

    /// Can no event of the declared types make it fail?
    pub fn is_sure(&self) -> bool {
        !self.is_fallible && self.filters.iter().all(StateFilter::is_sure)
    }

    fn take_all(
        &mut self,
        batch: &Batch,
        input: usize,
        lists: &mut Lists,
        step: &mut Step<'_>,
    ) -> Result<(), Broken> {
        let reader = &self.graph.readers[input];
        let is_one = reader.states.len() == 1;
        let columns = batch.columns.iter();
        let is_typed = reader.states.first().is_none_or(|&state| {
            let attributes = self.schemas[state].attributes.iter();
            columns
                .zip(attributes)
                .all(|(c, a)| partials::is_typed(c, a.ty))
        });
        let mut part = if is_typed { Part::Rest } else { Part::Whole };
        let masks = &mut self.room.masks;
        masks.resize_with(reader.states.len(), Mask::default);
        masks.iter_mut().for_each(|mask| mask.is_set = false);
        for (mask, &state) in masks.iter_mut().zip(&reader.states) {
            if part == Part::Whole {
                break;
            }
            match self.filters[state].own_mask(batch, step, &mut mask.rows) {
                Ok(is_set) => mask.is_set = is_set,
                // Nothing has moved yet: the chunks come again one by one.
                Err(failure) if batch.chunk_count() > 1 => {
                    return Err(broken(&self.names[state], failure));
                }
                // Only the partial matches that ask for it make it fail.
                Err(_) => part = Part::Whole,
            }
        }
        if part == Part::Whole {
            masks.iter_mut().for_each(|mask| mask.is_set = false);
        }
        if !is_typed {
            // Such values are compared one by one from now on.
            self.store.equations.fill(None);
        }
        let mut machine = Machine {
            graph: &self.graph,
            store: &mut self.store,
            lists,
            matches: &mut self.matches,
            deadlines: &mut self.deadlines,
            is_compat: self.is_compat,
        };
        if let ([state], [mask], Part::Rest) = (&*reader.states, &**masks, part) {
            let filter = &self.filters[*state];
            let place = (*state, input);
            if machine.take_plain(place, batch, mask, filter, &mut self.plain_room) {
                return Ok(());
            }
        }
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                let arrival = Arrival {
                    batch,
                    row,
                    time: batch.times.at(row),
                };
                machine.stabilise(input, arrival.time);
                // An event never meets what it has moved itself: the last state comes first.
                for (&state, mask) in reader.states.iter().zip(&*masks).rev() {
                    let offer = Offer {
                        arrival,
                        part,
                        is_fit: mask.lets_pass(row),
                    };
                    let before = machine.matches.len();
                    let filter = &mut self.filters[state];
                    let done = machine.offer(state, &offer, filter, &mut self.scratch, step);
                    if let Err(failure) = done {
                        machine.forget_matches(0);
                        return Err(broken(&self.names[state], failure));
                    }
                    if !reader.delivers {
                        machine.forget_matches(before);
                    } else if !is_one {
                        // What one event completes at one state is delivered together.
                        machine.matches.end_chunk(clock);
                    }
                }
                if is_one {
                    machine.matches.end_each(clock);
                }
            }
        }
        Ok(())
    }

    /// A deadline of an absent state is due.
    pub fn on_timer(
        &mut self,
        state: usize,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Option<Batch> {
        let now = step.now;
        self.with(key, |machine| machine.timer(state, deadline, now));
        self.set_deadlines(key, step);
        self.batch(None, 0)
    }

    fn take_lists(&mut self, key: Key) -> Box<Lists> {
        let at = key as usize;
        if self.keys.len() <= at {
            self.keys.resize_with(at + 1, || None);
        }
        let width = self.graph.states.len();
        self.keys[at]
            .take()
            .unwrap_or_else(|| Box::new(Lists::new(width)))
    }

    fn with<T>(&mut self, key: Key, work: impl FnOnce(&mut Machine<'_>) -> T) -> T {
        let mut lists = self.take_lists(key);
        let mut machine = Machine {
            graph: &self.graph,
            store: &mut self.store,
            lists: &mut lists,
            matches: &mut self.matches,
            deadlines: &mut self.deadlines,
            is_compat: self.is_compat,
        };
        let result = work(&mut machine);
        self.keys[key as usize] = Some(lists);
        result
    }

    fn set_deadlines(&mut self, key: Key, step: &mut Step<'_>) {
        for (state, time) in self.deadlines.drain(..) {
            if let Some(operator) = self.absent_timers[state] {
                step.timers.notify(operator, key, time, step.now);
            }
        }
    }

    /// The completed matches as rows for the selector, one inner chunk each; in the batch that they
    /// were found in, if it is given.
    fn batch(&mut self, from: Option<Batch>, input: usize) -> Option<Batch> {
        let matches = &mut self.matches;
        let len = matches.len();
        if len == 0 {
            return None;
        }
        debug_assert!(from.is_none() || input < self.graph.readers.len());
        let width = self.graph.states.len();
        let Room {
            columns,
            seen,
            events,
            rows,
            ..
        } = &mut self.room;
        for view in &self.views.all {
            seen.clear();
            let slots = matches.slots.iter().skip(view.state).step_by(width);
            seen.extend(slots.zip(&matches.rows).map(|(&event, &row)| Seen {
                event,
                row,
                has_current: false,
            }));
            let captures = &self.store.captures[view.state];
            view.gather_into(seen, captures, from.as_ref(), (events, rows), columns);
        }
        let is_each = matches.ends.len() == len;
        let first = matches.clocks[0];
        let mut batch = from.unwrap_or_else(Batch::empty);
        // What it had goes with the room, and comes back as room for the next.
        std::mem::swap(&mut batch.columns, columns);
        columns.clear();
        batch.len = len;
        batch.times = match matches.times.as_slice() {
            [one] => Times::Same(*one),
            times => Times::per_row(times.to_vec()),
        };
        let is_any_expired = matches.expired.contains(&true);
        batch.expired = is_any_expired.then(|| matches.expired.as_slice().into());
        batch.resets = None;
        (batch.chunks, batch.inner) = match is_each {
            true => (Chunks::EachRow, None),
            false => {
                let inner = (1..=len as u32).collect();
                (Chunks::Ends(matches.ends.as_slice().into()), Some(inner))
            }
        };
        batch.clock = match matches.clocks.iter().all(|&clock| clock == first) {
            true => Clock::Same(first),
            false => Clock::PerChunk(matches.clocks.as_slice().into()),
        };
        forget(matches, 0, &mut self.store.captures, width);
        Some(batch)
    }

    // ---- state ----

    pub fn save(&self, key: Key, writer: &mut Writer) {
        let lists = self.keys.get(key as usize).and_then(Option::as_ref);
        match lists {
            Some(lists) => {
                writer.bool(true);
                saved::save(&self.graph, &self.store, lists, writer);
            }
            None => writer.bool(false),
        }
    }

    pub fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        if !reader.bool()? {
            return Ok(());
        }
        let mut lists = self.take_lists(key);
        let result = saved::restore(&self.graph, &mut self.store, &mut lists, reader);
        self.keys[key as usize] = Some(lists);
        for state in 0..self.graph.states.len() {
            let equation = self.store.equations[state];
            if equation.is_some_and(|e| !self.store.captures[e.state].is_typed()) {
                self.store.equations[state] = None;
            }
            self.with(key, |machine| machine.settle(state));
        }
        result
    }

    /// Marks that belong to the query and to no key.
    pub fn save_marks(&self, writer: &mut Writer) {
        writer.count(self.store.returned.len());
        self.store.returned.iter().for_each(|&m| writer.bool(m));
    }

    pub fn restore_marks(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let states = self.store.returned.len();
        let count = reader.count()?;
        if count != states {
            return Err(StateError::Mismatch(format!(
                "a pattern of {count} states, expected {states}"
            )));
        }
        for mark in &mut self.store.returned {
            *mark = reader.bool()?;
        }
        Ok(())
    }

    /// The attributes kept of the events of each state, which a saved state depends on.
    pub fn kept(&self) -> String {
        let states = self.store.captures.iter();
        let lists: Vec<String> = states.map(|c| format!("{:?}", c.attributes)).collect();
        lists.join(" ")
    }

    /// Partial matches with an event that a timer may still emit.
    pub fn held(&self, key: Key) -> usize {
        let Some(lists) = self.keys.get(key as usize).and_then(Option::as_ref) else {
            return 0;
        };
        let width = self.graph.states.len();
        let partials = &self.store.partials;
        let has_event = |&p: &partials::PartialId| (0..width).any(|s| partials.slot(p, s) != NONE);
        let waiting = self.graph.states.iter().zip(&lists.states);
        waiting
            .filter(|(state, _)| state.emits && state.kind.wait().is_some())
            .map(|(_, lists)| {
                let all = lists.pending.iter().chain(lists.new.iter());
                all.filter(has_event).count()
            })
            .sum()
    }

    /// Heap bytes of a key's lists.
    pub fn bytes(&self, key: Key) -> usize {
        let Some(lists) = self.keys.get(key as usize).and_then(Option::as_ref) else {
            return 0;
        };
        lists.bytes()
    }

    /// Heap bytes of what all keys have together: events that are kept and partial matches.
    pub fn shared_bytes(&self) -> usize {
        let captures = self.store.captures.iter().map(Captures::bytes);
        captures.sum::<usize>() + self.store.partials.bytes()
    }

    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.filters.iter().flat_map(StateFilter::expressions)
    }

    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        self.filters
            .iter_mut()
            .flat_map(StateFilter::expressions_mut)
    }
}

/// What the pattern reads, each once, in the order of the text: the number of an input is its place
/// here.
pub(crate) fn inputs(pattern: &plan::Pattern) -> Vec<plan::From> {
    let mut inputs = Vec::new();
    for reference in &pattern.references {
        if !inputs.contains(&reference.from) {
            inputs.push(reference.from);
        }
    }
    inputs
}

fn broken(reference: &str, failure: Failure) -> Broken {
    Broken::at(format!("filter of '{reference}'"), failure.message)
}

/// Gives up matches from one on.
fn forget(matches: &mut Matches, from: usize, captures: &mut [Captures], width: usize) {
    for slots in matches.slots[from * width..].chunks_exact(width) {
        for (captures, &event) in captures.iter_mut().zip(slots) {
            captures.release(event);
        }
    }
    matches.slots.truncate(from * width);
    matches.rows.truncate(from);
    matches.times.truncate(from);
    matches.expired.truncate(from);
    let chunks = matches.ends.partition_point(|&end| end as usize <= from);
    matches.ends.truncate(if from == 0 { 0 } else { chunks });
    matches.clocks.truncate(matches.ends.len());
}

impl Machine<'_> {
    fn forget_matches(&mut self, from: usize) {
        let width = self.graph.states.len();
        forget(self.matches, from, &mut self.store.captures, width);
    }
}

/// The attributes that something reads of the kept events of each state.
fn captures(
    pattern: &plan::Pattern,
    graph: &StateGraph,
    views: &Views,
    filters: &[StateFilter],
) -> Vec<Captures> {
    let mut kept: Vec<Vec<usize>> = vec![Vec::new(); graph.states.len()];
    for views in filters.iter().flat_map(StateFilter::views).chain([views]) {
        views.kept(|state, attribute, _| {
            if !kept[state].contains(&attribute) {
                kept[state].push(attribute);
            }
        });
    }
    let states = graph.states.iter().zip(kept);
    states
        .map(|(state, attributes)| {
            let schema = &pattern.references[state.reference].schema;
            let types: Vec<Type> = attributes
                .iter()
                .map(|&a| schema.attributes[a].ty)
                .collect();
            Captures::new(attributes, types)
        })
        .collect()
}

fn is_select_sure(selector: &plan::Selector) -> bool {
    let is_plain = |expr: &plan::Expr| matches!(expr.kind, plan::ExprKind::Attribute { .. });
    let items = selector.items.iter().map(|(expr, _)| expr);
    let order = selector.order_by.iter().map(|(expr, _)| expr);
    let rest = selector.group_by.iter().chain(&selector.having);
    let mut all = items.chain(order).chain(rest);
    all.all(|expr| is_plain(expr) || filter::is_sure(expr))
}

fn rewritten(
    selector: &plan::Selector,
    pattern: &plan::Pattern,
    graph: &StateGraph,
    views: &mut Views,
) -> plan::Selector {
    let mut rewrite = |expr: &plan::Expr| views.rewrite(expr, Place::Select, pattern, graph);
    plan::Selector {
        items: selector
            .items
            .iter()
            .map(|(expr, name)| (rewrite(expr), name.clone()))
            .collect(),
        group_by: selector.group_by.iter().map(&mut rewrite).collect(),
        having: selector.having.as_ref().map(&mut rewrite),
        order_by: selector
            .order_by
            .iter()
            .map(|(expr, descending)| (rewrite(expr), *descending))
            .collect(),
        ..selector.clone()
    }
}
