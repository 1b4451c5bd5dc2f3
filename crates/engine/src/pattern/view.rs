//! What expressions see of a partial match: views of its slots, as columns.
//!
//! `e2[last]`, `e2[1]` and `e2` are three views of one slot. Expressions of the plan are rewritten
//! so that each view is an input of its own, and the columns they read are gathered for all partial
//! matches at once.

use event::{Column, ColumnBuilder, Object, Type, Value, Values, value::Shared};
use lang::ast::Index;
use plan::{Expr, ExprKind, InputId};

use super::partials::{CURRENT, Captures, EventId, NONE};
use super::states::{StateGraph, StateId};
use crate::expr::{Layout, ROW};

/// Views are numbered from here on, far above the streams of a pattern.
const FIRST_VIEW: InputId = 0x4000;

/// Which of the events of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick {
    At(u32),
    /// So many before the last.
    Last(u32),
    /// All of them, as lists of values.
    List,
}

/// One view and the columns that are read of it.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub state: StateId,
    pub pick: Pick,
    /// Attributes of the stream; one past the last is the event's timestamp.
    columns: Vec<usize>,
    types: Vec<Type>,
    has_presence: bool,
    /// Attributes of the stream.
    width: usize,
}

/// The views that some expressions use, in the order of their columns.
#[derive(Default)]
pub(super) struct Views {
    pub all: Vec<View>,
}

/// Where an expression stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The selector: the partial match is complete.
    Select,
    /// The filter of this reference, for an event that it may take.
    Filter(usize),
}

impl Views {
    fn view(&mut self, pattern: &plan::Pattern, state: StateId, input: usize, pick: Pick) -> usize {
        let found = self
            .all
            .iter()
            .position(|v| v.state == state && v.pick == pick);
        found.unwrap_or_else(|| {
            self.all.push(View {
                state,
                pick,
                columns: Vec::new(),
                types: Vec::new(),
                has_presence: false,
                width: pattern.references[input].schema.attributes.len(),
            });
            self.all.len() - 1
        })
    }

    /// The expression with each view as an input. Depth is bounded by the parser.
    pub fn rewrite(
        &mut self,
        expr: &Expr,
        place: Place,
        pattern: &plan::Pattern,
        graph: &StateGraph,
    ) -> Expr {
        let mut copy = expr.clone();
        self.rewrite_in(&mut copy, place, pattern, graph);
        copy
    }

    fn rewrite_in(
        &mut self,
        expr: &mut Expr,
        place: Place,
        pattern: &plan::Pattern,
        graph: &StateGraph,
    ) {
        let known = |input: InputId| usize::from(input) < pattern.references.len();
        match &mut expr.kind {
            ExprKind::Attribute {
                input,
                index,
                attribute,
            } if known(*input) => {
                let reference = usize::from(*input);
                if let Some(pick) = pick(pattern, reference, *index, place) {
                    let state = graph.of_reference[reference];
                    let view = self.view(pattern, state, reference, pick);
                    self.all[view].add(*attribute, expr.ty);
                    *input = FIRST_VIEW + view as InputId;
                    *index = None;
                }
            }
            ExprKind::IsNoEvent { input, index } if known(*input) => {
                let reference = usize::from(*input);
                // A counted element is there if it has taken an event at all.
                let pick = match pick(pattern, reference, *index, place) {
                    Some(Pick::List) => Some(Pick::At(0)),
                    other => other,
                };
                if let Some(pick) = pick {
                    let state = graph.of_reference[reference];
                    let view = self.view(pattern, state, reference, pick);
                    self.all[view].has_presence = true;
                    *input = FIRST_VIEW + view as InputId;
                    *index = None;
                }
            }
            ExprKind::Call {
                event: Some((input, index)),
                ..
            } if known(*input) => {
                let reference = usize::from(*input);
                let pick = match pick(pattern, reference, *index, place) {
                    Some(Pick::List) => Some(Pick::At(0)),
                    other => other,
                };
                if let Some(pick) = pick {
                    let state = graph.of_reference[reference];
                    let view = self.view(pattern, state, reference, pick);
                    let time = self.all[view].width;
                    self.all[view].add(time, Type::Long);
                    expr.kind = ExprKind::Attribute {
                        input: FIRST_VIEW + view as InputId,
                        index: None,
                        attribute: time,
                    };
                }
            }
            ExprKind::Call { args, .. }
            | ExprKind::Script { args, .. }
            | ExprKind::Aggregate { args, .. } => {
                for arg in args {
                    self.rewrite_in(arg, place, pattern, graph);
                }
            }
            ExprKind::Arithmetic(_, a, b)
            | ExprKind::Compare(_, a, b)
            | ExprKind::And(a, b)
            | ExprKind::Or(a, b) => {
                self.rewrite_in(a, place, pattern, graph);
                self.rewrite_in(b, place, pattern, graph);
            }
            ExprKind::Not(inner)
            | ExprKind::IsNull(inner)
            | ExprKind::In {
                condition: inner, ..
            } => self.rewrite_in(inner, place, pattern, graph),
            ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => {}
        }
    }

    /// Where the columns stand, behind `first` others.
    pub fn layout(&self, mut layout: Layout, first: usize) -> Layout {
        let mut at = first;
        for (number, view) in self.all.iter().enumerate() {
            let input = FIRST_VIEW + number as InputId;
            layout = layout.and_picked(input, ROW, at, view.width + 1, &view.columns);
            at += view.columns.len();
            if view.has_presence {
                layout = layout.and_presence(input, ROW, at);
                at += 1;
            }
        }
        layout
    }

    /// Tells which attributes of which state must be kept.
    pub fn kept(&self, mut keep: impl FnMut(StateId, usize, Type)) {
        for view in &self.all {
            for (&attribute, &ty) in view.columns.iter().zip(&view.types) {
                if attribute != view.width {
                    keep(view.state, attribute, ty);
                }
            }
        }
    }
}

/// `None` for the event being tested, in its own filter.
fn pick(
    pattern: &plan::Pattern,
    reference: usize,
    index: Option<Index>,
    place: Place,
) -> Option<Pick> {
    let is_own = place == Place::Filter(reference);
    Some(match index {
        // The last event collected before the one being tested.
        Some(Index::Last(n)) if is_own => Pick::Last(n + 1),
        Some(Index::Last(n)) => Pick::Last(n),
        Some(Index::At(n)) => Pick::At(n),
        None if is_own => return None,
        None if pattern.references[reference].is_counted && place == Place::Select => Pick::List,
        None => Pick::Last(0),
    })
}

/// A slot as a view finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub event: EventId,
    /// Row in the batch of the event being tested, which stands behind those in the slot.
    pub row: u32,
    pub has_current: bool,
}

impl View {
    fn add(&mut self, column: usize, ty: Type) {
        if !self.columns.contains(&column) {
            self.columns.push(column);
            self.types.push(ty);
        }
    }

    /// The event of a slot that the view picks: kept, `CURRENT`, or `NONE`.
    fn event(&self, seen: &Seen, captures: &Captures) -> EventId {
        if seen.event == CURRENT {
            return match self.pick {
                Pick::At(0) | Pick::Last(0) | Pick::List => CURRENT,
                _ => NONE,
            };
        }
        let kept = captures.length(seen.event);
        let length = kept + u32::from(seen.has_current);
        let at = match self.pick {
            Pick::At(n) => n,
            Pick::Last(n) if n < length => length - 1 - n,
            Pick::Last(_) => return NONE,
            Pick::List => 0,
        };
        if at >= length {
            NONE
        } else if at == kept {
            CURRENT
        } else {
            captures.back(seen.event, kept - 1 - at)
        }
    }

    /// Appends the columns of the view for some partial matches.
    pub fn gather(
        &self,
        seen: &[Seen],
        captures: &Captures,
        batch: Option<&event::Batch>,
        columns: &mut Vec<Column>,
    ) {
        let (events, rows) = (&mut Vec::new(), &mut Vec::new());
        self.gather_into(seen, captures, batch, (events, rows), columns);
    }

    /// The same with vectors to use again.
    pub fn gather_into(
        &self,
        seen: &[Seen],
        captures: &Captures,
        batch: Option<&event::Batch>,
        (events, rows): (&mut Vec<EventId>, &mut Vec<u32>),
        columns: &mut Vec<Column>,
    ) {
        if self.pick == Pick::List {
            for &attribute in &self.columns {
                columns.push(self.lists(seen, captures, batch, attribute));
            }
            if self.has_presence {
                let there = seen.iter().map(|s| s.event != NONE).collect();
                columns.push(Column::new(Values::Bool(there), None));
            }
            return;
        }
        events.clear();
        events.extend(seen.iter().map(|s| self.event(s, captures)));
        let currents = events.iter().filter(|&&e| e == CURRENT).count();
        for (&attribute, &ty) in self.columns.iter().zip(&self.types) {
            let column = if attribute == self.width {
                times(events, seen, captures, batch)
            } else if currents == events.len()
                && let Some(batch) = batch
            {
                rows.clear();
                rows.extend(seen.iter().map(|s| s.row));
                batch.columns[attribute].gather(rows)
            } else if let (0, Some(at)) = (currents, captures.column_of(attribute)) {
                // `NONE` is the mark of a missing row in both.
                captures.column(at).gather_padded(events)
            } else {
                mixed(events, seen, captures, batch, attribute, ty)
            };
            columns.push(column);
        }
        if self.has_presence {
            let there = events.iter().map(|&e| e != NONE).collect();
            columns.push(Column::new(Values::Bool(there), None));
        }
    }

    fn lists(
        &self,
        seen: &[Seen],
        captures: &Captures,
        batch: Option<&event::Batch>,
        attribute: usize,
    ) -> Column {
        let at = captures.column_of(attribute);
        let list = |seen: &Seen| {
            let mut values = Vec::new();
            if let (CURRENT, Some(batch)) = (seen.event, batch) {
                values.push(batch.columns[attribute].value(seen.row as usize));
            }
            let mut event = seen.event;
            while event < CURRENT {
                if let Some(at) = at {
                    values.push(captures.column(at).value(event as usize));
                }
                event = captures.before(event);
            }
            values.reverse();
            Value::Object(Object::List(Shared::new(values)))
        };
        Column::new(Values::Any(seen.iter().map(list).collect()), None)
    }
}

const _: () = assert!(NONE == Column::NO_ROW);

fn times(
    events: &[EventId],
    seen: &[Seen],
    captures: &Captures,
    batch: Option<&event::Batch>,
) -> Column {
    let mut times = ColumnBuilder::with_capacity(Type::Long, events.len());
    for (&event, seen) in events.iter().zip(seen) {
        match (event, batch) {
            (NONE, _) => times.push_null(),
            (CURRENT, Some(batch)) => times.push_long(batch.times.at(seen.row as usize)),
            _ => times.push_long(captures.time(event)),
        }
    }
    times.finish()
}

/// Some of the events are kept, some are in the batch.
fn mixed(
    events: &[EventId],
    seen: &[Seen],
    captures: &Captures,
    batch: Option<&event::Batch>,
    attribute: usize,
    ty: Type,
) -> Column {
    let at = captures.column_of(attribute);
    let mut values = ColumnBuilder::with_capacity(ty, events.len());
    for (&event, seen) in events.iter().zip(seen) {
        match (event, batch, at) {
            (CURRENT, Some(batch), _) => {
                let row = seen.row as usize;
                values.extend(&batch.columns[attribute], row..row + 1);
            }
            (event, _, Some(at)) if event < CURRENT => {
                let row = event as usize;
                values.extend(captures.column(at), row..row + 1);
            }
            _ => values.push_null(),
        }
    }
    values.finish()
}
