//! An event meets the partial matches that wait at a state.

use super::filter::{Part, StateFilter};
use super::index::{Equation, Values};
use super::machine::{Machine, StateLists};
use super::partials::{Arrival, CURRENT, EventId, NONE, PartialId};
use super::states::{Kind, StateId};
use super::view::{Pick, Seen, View};
use crate::component::Failure;
use crate::step::Step;

/// Memory used again from event to event.
#[derive(Default, Debug)]
pub(super) struct Scratch {
    /// Partial matches that the event may join, each with its place in the list.
    candidates: Vec<(u32, PartialId)>,
    seen: Vec<Vec<Seen>>,
    times: Vec<i64>,
}

/// The event and what is known of it before any partial match is looked at.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    pub arrival: Arrival<'a>,
    pub part: Part,
    /// The conditions on the event alone hold.
    pub is_fit: bool,
}

impl Machine<'_> {
    /// Offers an event to the pending partial matches of a state, oldest first.
    pub fn offer(
        &mut self,
        id: StateId,
        offer: &Offer<'_>,
        filter: &mut StateFilter,
        scratch: &mut Scratch,
        step: &mut Step<'_>,
    ) -> Result<(), Failure> {
        let state = self.state(id);
        let kind = state.kind;
        let lists = &self.lists.states[id];
        if lists.pending.is_empty() || kind.is_absent() && !lists.is_active {
            return Ok(());
        }
        // A mark may be left of a count that needs no event; the next that looks takes it.
        let is_marked = self.store.returned[state.last];
        let is_idle_unless_fit = !self.graph.is_sequence && is_plain(kind);
        if !offer.is_fit && is_idle_unless_fit && !is_marked {
            return Ok(());
        }
        let (mut part, mut chain) = (offer.part, None);
        match (self.store.equations[id], filter.equation()) {
            (Some(equation), Some(_)) if offer.is_fit && part == Part::Rest => {
                part = Part::Residual;
                chain = self.find(id, equation, &offer.arrival, scratch);
            }
            _ => self.candidates(id, kind, scratch),
        }
        if scratch.candidates.is_empty() {
            self.tidy(id);
            return Ok(());
        }
        let (mut failure, mut mask) = (None, None);
        if !offer.is_fit {
            mask = Some(vec![false; scratch.candidates.len()]);
        } else if filter.asks(part) {
            self.see(id, kind, offer, filter.views_of(part), scratch);
            let captures = &self.store.captures;
            let (fits, failures) = filter.test(
                part,
                &offer.arrival,
                &scratch.seen,
                &scratch.times,
                captures,
                step,
            );
            mask = Some(fits);
            failure = failures.into_iter().min_by_key(|f| f.row);
        }
        for (at, &(place, partial)) in scratch.candidates.iter().enumerate() {
            if failure.as_ref().is_some_and(|f| f.row as usize == at) {
                break;
            }
            let fits = mask.as_ref().is_none_or(|mask| mask[at]);
            if !fits && is_idle_unless_fit && !is_marked {
                continue;
            }
            self.store.changed[id] = false;
            match kind {
                Kind::Stream | Kind::Absent { .. } => {
                    self.meet(id, place, partial, fits, &offer.arrival);
                }
                Kind::Count { min, max } => {
                    self.collect(id, (min, max), place, partial, fits, &offer.arrival);
                }
                Kind::Side { .. } => self.meet_side(id, place, partial, fits, &offer.arrival),
                Kind::AbsentSide { .. } => {
                    self.forbid(id, place, partial, fits, &offer.arrival);
                }
            }
        }
        if let Some(chain) = chain {
            let StateLists { pending, index, .. } = &mut self.lists.states[id];
            let left = scratch.candidates.iter();
            let left = left.filter(|(place, _)| pending.at(*place as usize).is_some());
            index.retain(
                chain,
                left.map(|&(_, partial)| partial),
                &mut self.store.links,
            );
        }
        self.tidy(id);
        failure.map_or(Ok(()), Err)
    }

    /// The candidates by the index, and the chain they are of.
    fn find(
        &self,
        id: StateId,
        equation: Equation,
        arrival: &Arrival<'_>,
        scratch: &mut Scratch,
    ) -> Option<u32> {
        scratch.candidates.clear();
        let sought = equation.of_event(&arrival.batch.columns, arrival.row)?;
        let values = Values::new(equation, &self.store.partials, &self.store.captures);
        let StateLists { pending, index, .. } = &self.lists.states[id];
        index.find(
            &sought,
            &values,
            &self.store.links,
            pending.first_place(),
            &mut scratch.candidates,
        )
    }

    /// Those of the list that look at the event; the others leave.
    fn candidates(&mut self, id: StateId, kind: Kind, scratch: &mut Scratch) {
        scratch.candidates.clear();
        let width = self.graph.states.len();
        for place in 0..self.lists.states[id].pending.places() {
            let Some(partial) = self.lists.states[id].pending.at(place) else {
                continue;
            };
            let has = |state: StateId| state < width && self.slot(partial, state) != NONE;
            let has_gone_on = match kind {
                // Siddhi looks at the next two states, the second for the other side of an `and`.
                Kind::Count { .. } => has(id + 1) || has(id + 2),
                Kind::Side { is_or, partner } | Kind::AbsentSide { is_or, partner, .. } => {
                    is_or && has(partner)
                }
                Kind::Stream | Kind::Absent { .. } => false,
            };
            if has_gone_on {
                self.drop_pending(id, place);
            } else {
                scratch.candidates.push((place as u32, partial));
            }
        }
    }

    /// Fills in what the filter's views find in each candidate.
    fn see(
        &self,
        id: StateId,
        kind: Kind,
        offer: &Offer<'_>,
        views: &[View],
        scratch: &mut Scratch,
    ) {
        let partials = &self.store.partials;
        scratch.times.clear();
        let times = scratch.candidates.iter().map(|&(_, p)| partials.time(p));
        scratch.times.extend(times);
        scratch.seen.resize_with(views.len(), Vec::new);
        for (view, seen) in views.iter().zip(&mut scratch.seen) {
            seen.clear();
            let is_own = view.state == id;
            // Of the own slot a filter sees what has been collected, and the event itself.
            let collects = matches!(kind, Kind::Count { .. });
            seen.extend(scratch.candidates.iter().map(|&(_, partial)| {
                let event = match is_own && !collects {
                    true => NONE,
                    false => partials.slot(partial, view.state),
                };
                Seen {
                    event,
                    row: offer.arrival.row as u32,
                    has_current: is_own && view.pick != Pick::List,
                }
            }));
        }
    }

    fn meet(
        &mut self,
        id: StateId,
        place: u32,
        partial: PartialId,
        fits: bool,
        arrival: &Arrival<'_>,
    ) {
        let is_absent = self.state(id).kind.is_absent();
        if fits && is_absent {
            self.set_slot(partial, id, CURRENT);
            self.broke_quiet(id, partial, arrival.time);
        } else if fits {
            let event = self.keep(id, arrival);
            self.set_slot(partial, id, event);
            self.took(id, partial, arrival.time);
        } else {
            self.set_slot(partial, id, NONE);
        }
        if self.take_returned(id) && !is_absent {
            self.complete(partial, arrival);
        }
        if self.store.changed[id] {
            self.drop_pending(id, place as usize);
        } else if self.graph.is_sequence {
            if !is_absent {
                self.drop_pending(id, place as usize);
            }
            if let Some(count) = self.state(id).restarts {
                self.restart(count);
            }
        }
    }

    fn collect(
        &mut self,
        id: StateId,
        (min, max): (u32, u32),
        place: u32,
        partial: PartialId,
        fits: bool,
        arrival: &Arrival<'_>,
    ) {
        if fits {
            let before = self.slot(partial, id);
            let event = self.store.captures[id].keep(arrival, before);
            self.set_slot(partial, id, event);
            self.collected(id, (min, max), partial, arrival.time);
        }
        if self.take_returned(id) {
            self.complete(partial, arrival);
        }
        if self.store.changed[id] || !fits && self.graph.is_sequence {
            self.drop_pending(id, place as usize);
        }
    }

    /// A counted state has taken one more event (`CountPostStateProcessor`).
    fn collected(&mut self, id: StateId, (min, max): (u32, u32), partial: PartialId, time: i64) {
        let count = self.store.captures[id].length(self.slot(partial, id));
        self.store.partials.set_time(partial, time);
        let state = self.state(id);
        if count < min {
            // Siddhi forgets a partial match below the minimum before the next event.
            if self.graph.is_sequence && !self.is_compat {
                self.add(id, partial);
            }
            return;
        }
        if self.graph.is_sequence && state.emits && !self.is_compat {
            // At the end of a sequence Siddhi collects and never emits; one that needs no event
            // has been emitted already.
            self.store.changed[id] = true;
            if count == min {
                self.min_reached(id, partial);
            }
            return;
        }
        if self.graph.is_sequence {
            if let Some(next) = state.next {
                self.add(next, partial);
            }
            if count != max {
                self.add(id, partial);
            }
        } else if count == min {
            self.min_reached(id, partial);
        }
        if count == max {
            self.store.changed[id] = true;
        }
    }

    fn meet_side(
        &mut self,
        id: StateId,
        place: u32,
        partial: PartialId,
        fits: bool,
        arrival: &Arrival<'_>,
    ) {
        if fits {
            let event = self.store.captures[id].keep(arrival, NONE);
            self.set_slot(partial, id, event);
            self.took_side(id, partial, arrival.time);
        } else {
            self.set_slot(partial, id, NONE);
        }
        if self.take_returned(id) {
            self.complete(partial, arrival);
        }
        if self.store.changed[id] || self.graph.is_sequence {
            self.drop_pending(id, place as usize);
        }
    }

    /// One side has its event (`LogicalPostStateProcessor`).
    fn took_side(&mut self, id: StateId, partial: PartialId, time: i64) {
        let state = self.state(id);
        let (last, Some(partner)) = (state.last, state.kind.partner()) else {
            return;
        };
        let is_or = state.kind.is_or();
        let may_proceed = is_or
            || match self.state(partner).kind {
                Kind::AbsentSide { .. } => self.may_proceed(partner, partial),
                _ => self.slot(partial, partner) != NONE,
            };
        if !may_proceed {
            self.store.changed[id] = true;
            return;
        }
        self.took(id, partial, time);
        // The left side of a pattern that is nothing else looks at the mark of the right one.
        // Siddhi sets it for `or` alone.
        let is_looked_at = last == partner && self.state(partner).emits;
        if is_looked_at && (is_or || !self.is_compat) {
            self.store.returned[partner] = true;
        }
    }

    /// May the other side of an `and` go on without the absent one
    /// (`AbsentLogicalPreStateProcessor.partnerCanProceed`)?
    fn may_proceed(&mut self, absent: StateId, partial: PartialId) -> bool {
        let state = self.state(absent);
        let has_every = state.every.is_some();
        let has_come = self.lists.states[absent].last > 0;
        if self.graph.is_sequence && !has_every && has_come {
            return false;
        }
        let is_filled = self.slot(partial, absent) != NONE;
        if state.kind.wait().is_some() {
            return is_filled;
        }
        if !has_every {
            return !is_filled;
        }
        if has_come {
            self.lists.states[absent].last = 0;
            self.begin_state(absent);
        }
        !has_come
    }

    /// The event that must not come has come (`AbsentStreamPostStateProcessor`).
    fn broke_quiet(&mut self, id: StateId, partial: PartialId, time: i64) {
        self.store.changed[id] = true;
        self.store.partials.set_time(partial, time);
        self.store.returned[id] = true;
        let state = self.state(id);
        let wait = state.kind.wait().unwrap_or_default();
        if state.is_start && state.every == Some(id) {
            self.add_every(id, partial);
        }
        self.wait_from(id, time, wait);
    }

    /// The same for a side (`AbsentLogicalPreStateProcessor.processAndReturn`).
    fn forbid(
        &mut self,
        id: StateId,
        place: u32,
        partial: PartialId,
        fits: bool,
        arrival: &Arrival<'_>,
    ) {
        let state = self.state(id);
        let (kind, has_every) = (state.kind, state.every.is_some());
        let is_or = kind.is_or();
        let is_sequence = self.graph.is_sequence;
        if fits {
            self.store.changed[id] = true;
            self.store.returned[id] = true;
            self.lists.states[id].last = arrival.time;
            // With a time of quiet the slot tells whether that has passed.
            let stays = kind.wait().is_none() && !(is_sequence && !is_or && has_every);
            if stays {
                let event: EventId = self.store.captures[id].keep(arrival, NONE);
                self.set_slot(partial, id, event);
            }
        }
        let mut is_gone = false;
        if self.take_returned(id) {
            is_gone = true;
            if let (true, Some(partner)) = (is_sequence, kind.partner())
                && let Some(at) = self.lists.states[partner].pending.place_of(partial)
            {
                self.drop_pending(partner, at);
                self.tidy(partner);
            }
        }
        if is_gone || !self.store.changed[id] && is_sequence {
            self.drop_pending(id, place as usize);
        }
    }
}

/// Nothing happens at all where the event does not fit, unless in a sequence.
const fn is_plain(kind: Kind) -> bool {
    // Sides and counts also drop what has gone on elsewhere.
    matches!(kind, Kind::Stream | Kind::Absent { .. })
}
