//! Whole batches at states where nothing but the plainest happens.
//!
//! In `every e1=A[…] -> e2=B[key == e1.key]` each event of A that fits begins a match of its own, and
//! each of B completes those that wait for its value. Event by event that is a walk through lists
//! that hold one partial match or none; here the events of a batch are kept at once, and what they
//! complete goes from its chain straight to the matches. Nothing of what a result can show is
//! different: the order of the partial matches, their times, and when they expire.

use event::{Batch, Times};

use super::Mask;
use super::filter::{Part, StateFilter};
use super::index::{Equation, Sought, Values};
use super::machine::Machine;
use super::partials::{Arrival, CURRENT, EventId, PartialId};
use super::states::{Kind, StateId};

impl Machine<'_> {
    /// Takes a batch at the only state that reads it; false, and nothing has happened, where it must
    /// be taken event by event.
    pub fn take_plain(
        &mut self,
        (id, input): (StateId, usize),
        batch: &Batch,
        mask: &Mask,
        filter: &StateFilter,
        room: &mut PlainRoom,
    ) -> bool {
        if self.graph.is_sequence || self.store.returned[self.state(id).last] {
            return false;
        }
        if let Some(next) = self.begins_plainly(id)
            && !filter.asks(Part::Rest)
        {
            return self.begin_all((id, next), batch, mask, room);
        }
        if self.ends_plainly(id)
            && self.graph.readers[input].delivers
            && filter.equation().is_some()
            && !filter.asks(Part::Residual)
        {
            return self.complete_all((id, input), batch, mask);
        }
        false
    }

    /// The state behind one at which each event begins a match that waits there.
    fn begins_plainly(&self, id: StateId) -> Option<StateId> {
        let state = self.state(id);
        let next = state.next?;
        let is_plain = state.kind == Kind::Stream
            && self.state(next).kind == Kind::Stream
            && state.is_start
            && state.every == Some(id)
            && !state.emits
            && state.restarts.is_none()
            && state.rearms.is_none();
        is_plain.then_some(next)
    }

    /// Does an event at this state complete a match, and nothing else?
    fn ends_plainly(&self, id: StateId) -> bool {
        let state = self.state(id);
        state.kind == Kind::Stream
            && state.emits
            && state.last == id
            && !state.is_start
            && state.next.is_none()
            && state.every.is_none()
            && state.restarts.is_none()
            && state.rearms.is_none()
            && self.store.equations[id].is_some()
    }

    fn begin_all(
        &mut self,
        (id, next): (StateId, StateId),
        batch: &Batch,
        mask: &Mask,
        room: &mut PlainRoom,
    ) -> bool {
        if self.graph.within.is_some() && !self.is_nothing_to_expire(batch) {
            return false;
        }
        self.update(id);
        // The one that each event takes, and leaves as it was.
        let pending = &self.lists.states[id].pending;
        let Some(waiting) = pending.front().filter(|_| pending.len() == 1) else {
            return false;
        };
        let is_blank = pending.at(0).is_some() && self.store.partials.is_blank(waiting);
        if !is_blank {
            return false;
        }
        let PlainRoom { rows, events } = room;
        rows.clear();
        rows.extend((0..batch.len as u32).filter(|&row| mask.lets_pass(row as usize)));
        events.clear();
        self.store.captures[id].keep_all(batch, rows, events);
        let mut time = None;
        for (&row, &event) in rows.iter().zip(&*events) {
            let at = batch.times.at(row as usize);
            let partial = self.store.partials.begun(id, event, at);
            self.push_begun(next, partial);
            time = Some(at);
        }
        // Siddhi's is a copy of the one that has just gone on.
        if let Some(time) = time {
            self.store.partials.set_time(waiting, time);
        }
        true
    }

    /// Can no partial match expire while the events of the batch arrive, those included that they
    /// begin?
    fn is_nothing_to_expire(&self, batch: &Batch) -> bool {
        let (mut earliest, mut latest) = (i64::MAX, i64::MIN);
        match &batch.times {
            Times::Same(time) => (earliest, latest) = (*time, *time),
            times => times.runs(0..batch.len).for_each(|(_, time)| {
                earliest = earliest.min(time);
                latest = latest.max(time);
            }),
        }
        let ends = [earliest, latest];
        let within = self.graph.within.unwrap_or(i64::MAX).unsigned_abs();
        if self.graph.only_start.is_none() || latest.abs_diff(earliest) > within {
            return false;
        }
        self.lists.states.iter().all(|lists| {
            let mut front = lists.pending.front().into_iter();
            front.all(|partial| ends.iter().all(|&end| !self.has_expired(partial, end)))
                && lists.is_new_within(within, ends)
        })
    }

    fn complete_all(&mut self, (id, input): (StateId, usize), batch: &Batch, mask: &Mask) -> bool {
        let Some(equation) = self.store.equations[id] else {
            return false;
        };
        let expires = self.graph.within.is_some();
        if !expires {
            self.update(id);
        }
        let keys = equation.of_events(&batch.columns);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                if expires {
                    self.stabilise(input, batch.times.at(row));
                }
                if let (true, Some(sought)) = (mask.lets_pass(row), keys.at(row)) {
                    self.complete_chain((id, equation), &sought, batch, row);
                }
            }
            self.matches.end_each(clock);
        }
        self.tidy(id);
        true
    }

    /// The event completes all partial matches of its value, oldest first.
    fn complete_chain(
        &mut self,
        (id, equation): (StateId, Equation),
        sought: &Sought<'_>,
        batch: &Batch,
        row: usize,
    ) {
        let values = || Values::new(equation, &self.store.partials, &self.store.captures);
        let index = &self.lists.states[id].index;
        let Some((chain, head)) = index.chain(sought, values) else {
            return;
        };
        let arrival = Arrival {
            batch,
            row,
            time: batch.times.at(row),
        };
        let mut at = Some(head);
        while let Some(partial) = at {
            at = self.store.links.behind(partial);
            let pending = &mut self.lists.states[id].pending;
            let place = self.store.links.place_of(partial, pending.first_place());
            let _ = pending.take(place as usize);
            self.finish(id, partial, &arrival);
        }
        self.lists.states[id].index.remove(chain);
    }

    /// A partial match that stands in no list any more is complete with the event.
    fn finish(&mut self, id: StateId, partial: PartialId, arrival: &Arrival<'_>) {
        let is_expired = self.store.partials.is_expired(partial);
        let slots = &mut self.matches.slots;
        let first = slots.len();
        if self.store.partials.take(partial, slots) {
            slots[first + id] = CURRENT;
            self.matches.rows.push(arrival.row as u32);
            self.matches.times.push(arrival.time);
            self.matches.expired.push(is_expired);
            return;
        }
        self.set_slot(partial, id, CURRENT);
        self.store.partials.set_time(partial, arrival.time);
        self.complete(partial, arrival);
        self.release(partial);
    }
}

/// Vectors that are filled for each batch, kept for the room they have taken.
#[derive(Default)]
pub(super) struct PlainRoom {
    rows: Vec<u32>,
    events: Vec<EventId>,
}
