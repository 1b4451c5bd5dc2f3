//! The machine: what an event does to the partial matches of one key.
//!
//! Each state has two lists: `pending` can match now, `new` arrived since and is not visible yet.
//! An event first lets partial matches expire, then moves `new` behind `pending` for the states
//! that read its stream, then visits those states last to first. That is the order of Siddhi's
//! receivers and of its `StreamPreStateProcessor` and its kin, step by step: which partial match
//! is where, and in which order, is visible in the results.

use super::index::{Equation, Index, Links, Values};
use super::partials::{Arrival, CURRENT, Captures, EventId, NONE, PartialId, Partials, UNTIMED};
use super::queue::Queue;
use super::states::{Kind, State, StateGraph, StateId};

/// The state of one partition key.
#[derive(Debug)]
pub(super) struct Lists {
    pub states: Vec<StateLists>,
}

#[derive(Debug)]
pub(super) struct StateLists {
    pub pending: Queue,
    /// The same by a value, where the filter has an equation.
    pub index: Index,
    pub new: Queue,
    /// When those in `new` began.
    ages: Ages,
    /// A first partial match has been made.
    pub has_begun: bool,
    /// Of an absent state without `every`: it has not fired yet.
    pub is_active: bool,
    /// Of an absent state: when its timer was last set for, or when the forbidden event came; 0 for
    /// never.
    pub last: i64,
    /// Of a count at the start of a sequence: it begins anew before the next event.
    pub restarts: bool,
}

/// Bounds of the times at which the partial matches of a list began, so that a list in which none
/// can have expired is not looked through for every event.
#[derive(Clone, Copy, Debug)]
struct Ages {
    oldest: i64,
    newest: i64,
    /// The list has them in ascending order.
    is_ascending: bool,
}

impl Default for Ages {
    fn default() -> Ages {
        Ages {
            oldest: i64::MAX,
            newest: i64::MIN,
            is_ascending: true,
        }
    }
}

impl Ages {
    fn add(&mut self, start: i64) {
        self.is_ascending &= start >= self.newest;
        self.oldest = self.oldest.min(start);
        self.newest = self.newest.max(start);
    }
}

impl StateLists {
    /// Has none of `new` begun so long before or after one of these times that it has expired?
    pub fn is_new_within(&self, within: u64, times: [i64; 2]) -> bool {
        let Ages { oldest, newest, .. } = self.ages;
        let is_within =
            |time: i64| oldest.abs_diff(time) <= within && newest.abs_diff(time) <= within;
        oldest > newest || times.into_iter().all(is_within)
    }
}

impl Lists {
    pub fn new(states: usize) -> Lists {
        let states = (0..states).map(|_| StateLists {
            pending: Queue::default(),
            index: Index::default(),
            new: Queue::default(),
            ages: Ages::default(),
            has_begun: false,
            is_active: true,
            last: 0,
            restarts: false,
        });
        Lists {
            states: states.collect(),
        }
    }

    pub fn bytes(&self) -> usize {
        let lists = self.states.iter();
        let queues: usize = lists
            .map(|s| s.pending.bytes() + s.new.bytes() + s.index.bytes())
            .sum();
        queues + self.states.len() * size_of::<StateLists>()
    }
}

/// Completed matches, until they become a batch for the selector.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// A slot per state and match.
    pub slots: Vec<EventId>,
    /// Row of the event that completed it, where there is one.
    pub rows: Vec<u32>,
    pub times: Vec<i64>,
    /// It had expired before it was completed: Siddhi's selector takes it for an EXPIRED event.
    pub expired: Vec<bool>,
    /// Ends of the chunks of delivery, in matches, and the clock of each.
    pub ends: Vec<u32>,
    pub clocks: Vec<i64>,
}

impl Matches {
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Every match not yet in a chunk is one.
    pub fn end_each(&mut self, clock: i64) {
        let from = self.ends.last().copied().unwrap_or(0);
        for end in from + 1..=self.len() as u32 {
            self.ends.push(end);
            self.clocks.push(clock);
        }
    }

    /// The matches not yet in a chunk are one.
    pub fn end_chunk(&mut self, clock: i64) {
        let len = self.len() as u32;
        if self.ends.last().copied().unwrap_or(0) < len {
            self.ends.push(len);
            self.clocks.push(clock);
        }
    }
}

/// State of the whole query beside the lists of its keys.
#[derive(Debug)]
pub(super) struct Store {
    pub partials: Partials,
    pub captures: Vec<Captures>,
    /// Of each state the equation by which its pending list is indexed.
    pub equations: Vec<Option<Equation>>,
    pub links: Links,
    /// Of each state: a match was completed and nobody has taken it yet (`isEventReturned`).
    pub returned: Vec<bool>,
    /// Of each state: the partial match just tried goes on (`stateChanged`).
    pub changed: Vec<bool>,
}

/// Puts everything that moves one key's partial matches in one place for a while.
pub(super) struct Machine<'a> {
    pub graph: &'a StateGraph,
    pub store: &'a mut Store,
    pub lists: &'a mut Lists,
    pub matches: &'a mut Matches,
    /// Deadlines set: of which state, for when.
    pub deadlines: &'a mut Vec<(StateId, i64)>,
    /// Defects of Siddhi that are fixed otherwise are kept.
    pub is_compat: bool,
}

impl<'a> Machine<'a> {
    pub fn state(&self, id: StateId) -> &'a State {
        &self.graph.states[id]
    }

    // ---- lists ----

    pub fn push_new(&mut self, id: StateId, partial: PartialId) {
        self.store.partials.own(partial);
        self.push_begun(id, partial);
    }

    /// As [`Machine::push_new`], of a partial match that belongs to the list already.
    pub fn push_begun(&mut self, id: StateId, partial: PartialId) {
        if let (Some(_), Some(start)) = (self.graph.within, self.graph.only_start)
            && let Some(time) = self.start_of(partial, start)
        {
            self.lists.states[id].ages.add(time);
        }
        self.lists.states[id].new.push(partial);
    }

    pub fn release(&mut self, partial: PartialId) {
        let store = &mut *self.store;
        store.partials.release(partial, &mut store.captures);
    }

    /// Takes a partial match out of a state's pending list.
    pub fn drop_pending(&mut self, id: StateId, place: usize) {
        if let Some(partial) = self.lists.states[id].pending.take(place) {
            self.release(partial);
        }
    }

    fn clear_pending(&mut self, id: StateId) {
        self.lists.states[id].index.clear();
        if self.lists.states[id].pending.is_empty() {
            return;
        }
        let all: Vec<PartialId> = self.lists.states[id].pending.drain().collect();
        for partial in all {
            self.release(partial);
        }
    }

    /// Gives back the gaps of a pending list.
    pub fn tidy(&mut self, id: StateId) {
        let StateLists { pending, .. } = &mut self.lists.states[id];
        if pending.tidy() && self.store.equations[id].is_some() {
            for (partial, place) in pending.iter().zip(pending.first_place()..) {
                self.store.links.move_to(partial, place);
            }
        }
    }

    /// What the lists of a state are known by, after they have been restored.
    pub fn settle(&mut self, id: StateId) {
        let mut ages = Ages::default();
        if let Some(start) = self.graph.only_start {
            let new = self.lists.states[id].new.iter();
            new.filter_map(|partial| self.start_of(partial, start))
                .for_each(|time| ages.add(time));
        }
        self.lists.states[id].ages = ages;
        let StateLists { pending, index, .. } = &mut self.lists.states[id];
        index.clear();
        let Some(equation) = self.store.equations[id] else {
            return;
        };
        let values = Values::new(equation, &self.store.partials, &self.store.captures);
        for (partial, place) in pending.iter().zip(pending.first_place()..) {
            index.push(partial, place, &values, &mut self.store.links);
        }
    }

    pub fn slot(&self, partial: PartialId, id: StateId) -> EventId {
        self.store.partials.slot(partial, id)
    }

    pub fn set_slot(&mut self, partial: PartialId, id: StateId, event: EventId) {
        let store = &mut *self.store;
        store
            .partials
            .set_slot(partial, id, event, &mut store.captures);
    }

    /// Everything of a key is given up.
    pub fn clear(&mut self) {
        for id in 0..self.graph.states.len() {
            self.clear_pending(id);
            let all: Vec<PartialId> = self.lists.states[id].new.drain().collect();
            for partial in all {
                self.release(partial);
            }
        }
    }

    // ---- beginnings ----

    /// The state of a key begins, at application clock `now`.
    pub fn begin(&mut self, now: i64) {
        for at in 0..self.graph.begins.len() {
            self.begin_state(self.graph.begins[at]);
        }
        for at in 0..self.graph.absent_timers.len() {
            let id = self.graph.absent_timers[at];
            let state = self.state(id);
            if let (true, Some(wait)) = (state.is_start, state.kind.wait()) {
                if let Kind::Absent { .. } = state.kind {
                    self.lists.states[id].last = now.saturating_add(wait);
                }
                self.notify(id, now.saturating_add(wait));
            }
        }
    }

    /// An empty partial match at a first state, if it may have one more
    /// (`StreamPreStateProcessor.init`).
    pub fn begin_state(&mut self, id: StateId) {
        let state = self.state(id);
        let precedes_absent = self.graph.is_sequence
            && state
                .next
                .is_some_and(|next| self.state(next).kind.is_absent());
        let may = !self.lists.states[id].has_begun || state.every.is_some() || precedes_absent;
        if state.is_start && may {
            let partial = self.fresh();
            self.add(id, partial);
            self.release(partial);
            self.lists.states[id].has_begun = true;
        }
    }

    /// A partial match held by the caller, who releases it.
    pub fn fresh(&mut self) -> PartialId {
        let partial = self.store.partials.fresh();
        self.store.partials.own(partial);
        partial
    }

    // ---- arrivals at a state ----

    /// A partial match arrives at a state from the one before (`addState`).
    pub fn add(&mut self, id: StateId, partial: PartialId) {
        let (kind, is_start) = (self.state(id).kind, self.state(id).is_start);
        match kind {
            Kind::Stream => self.add_one(id, partial),
            Kind::Count { min, .. } => {
                self.add_one(id, partial);
                if min == 0 && self.slot(partial, id) == NONE {
                    self.min_reached(id, partial);
                }
            }
            Kind::Side { partner, .. } => self.add_both(id, partner, partial),
            Kind::Absent { wait } => {
                if !self.lists.states[id].is_active {
                    return;
                }
                if self.graph.is_sequence {
                    let all: Vec<PartialId> = self.lists.states[id].new.drain().collect();
                    all.into_iter().for_each(|p| self.release(p));
                }
                self.push_new(id, partial);
                if !is_start {
                    self.wait_from(id, self.store.partials.time(partial), wait);
                }
            }
            Kind::AbsentSide { partner, wait, .. } => {
                if !self.lists.states[id].is_active {
                    return;
                }
                self.add_both(id, partner, partial);
                let time = self.store.partials.time(partial);
                if let (false, Some(wait)) = (is_start, wait) {
                    self.notify(id, time.saturating_add(wait));
                    if let Some(other) = self.absent_wait(partner) {
                        self.notify(partner, time.saturating_add(other));
                    }
                }
            }
        }
    }

    fn absent_wait(&self, id: StateId) -> Option<i64> {
        match self.state(id).kind {
            Kind::AbsentSide { wait, .. } => wait,
            _ => None,
        }
    }

    fn add_one(&mut self, id: StateId, partial: PartialId) {
        if !self.graph.is_sequence || self.lists.states[id].new.is_empty() {
            self.push_new(id, partial);
        }
    }

    fn add_both(&mut self, id: StateId, partner: StateId, partial: PartialId) {
        let only_one = self.state(id).is_start || self.graph.is_sequence;
        for side in [id, partner] {
            if !only_one || self.lists.states[side].new.is_empty() {
                self.push_new(side, partial);
            }
        }
    }

    /// A round of an `every` is over, or has expired: a copy without the events from its first
    /// state on begins there (`addEveryState`).
    pub fn add_every(&mut self, id: StateId, from: PartialId) {
        self.add_every_at(id, from, self.store.partials.time(from));
    }

    /// The same for a copy that begins at a time of its own.
    pub fn add_every_at(&mut self, id: StateId, from: PartialId, time: i64) {
        let kind = self.state(id).kind;
        let keeps_behind = matches!(kind, Kind::AbsentSide { .. });
        let partner = kind.partner();
        let keeps =
            |state: StateId| (state < id || keeps_behind) && state != id && partner != Some(state);
        let store = &mut *self.store;
        let copy = store.partials.copy(from, &mut store.captures, keeps);
        self.store.partials.own(copy);
        self.store.partials.set_time(copy, time);
        match kind {
            Kind::Stream | Kind::Count { .. } => self.push_new(id, copy),
            Kind::Side { partner, .. } => {
                self.push_new(id, copy);
                self.push_new(partner, copy);
            }
            Kind::Absent { wait } => {
                self.push_new(id, copy);
                self.wait_from(id, time, wait);
            }
            Kind::AbsentSide { partner, .. } => {
                let own = self.slot(from, id);
                if own != NONE {
                    let time = self.store.captures[id].time(own);
                    self.store.partials.set_time(copy, time);
                }
                self.push_new(id, copy);
                self.push_new(partner, copy);
            }
        }
        // A count that may stay empty has enough at once, also when it begins anew.
        let is_enough = matches!(kind, Kind::Count { min: 0, .. })
            && !self.is_compat
            && !self.graph.is_sequence
            && self.state(id).next.is_some();
        if is_enough {
            self.min_reached(id, copy);
        }
        self.release(copy);
    }

    /// A count has enough events: what comes next may take the partial match.
    pub fn min_reached(&mut self, id: StateId, partial: PartialId) {
        let state = self.state(id);
        let (next, mut every) = (state.next, state.every);
        if state.emits {
            self.store.changed[id] = true;
            self.store.returned[id] = true;
        }
        // A count that may stay empty would begin anew without end: it does when the state behind
        // it takes the partial match.
        if let (false, Kind::Count { min: 0, .. }) = (self.is_compat, state.kind)
            && every == Some(id)
            && !self.graph.is_sequence
            && next.is_some()
        {
            every = None;
        }
        // Nor does a round of several such counts that took nothing.
        if let (false, false, Some(first)) = (self.is_compat, self.graph.is_sequence, every)
            && first < id
            && (first..=id).all(|taken| self.slot(partial, taken) == NONE)
        {
            every = None;
        }
        if let Some(next) = next {
            self.add(next, partial);
        }
        if let Some(every) = every {
            self.add_every(every, partial);
        }
    }

    // ---- before an event ----

    /// Lets partial matches expire and brings the states of a stream up to date
    /// (`stabilizeStates`).
    pub fn stabilise(&mut self, reader: usize, time: i64) {
        if self.graph.within.is_some() {
            for id in 0..self.graph.states.len() {
                self.expire(id, time);
            }
        }
        if self.graph.is_sequence {
            for at in 0..self.graph.resets.len() {
                self.reset(self.graph.resets[at]);
            }
            for at in 0..self.graph.updates.len() {
                self.update(self.graph.updates[at]);
            }
        } else {
            for at in 0..self.graph.readers[reader].states.len() {
                self.update(self.graph.readers[reader].states[at]);
            }
        }
    }

    /// When the partial match began; `None` while it has taken nothing that counts.
    fn start_of(&self, partial: PartialId, id: StateId) -> Option<i64> {
        let event = self.slot(partial, id);
        if event == NONE || event == CURRENT {
            return None;
        }
        let captures = &self.store.captures[id];
        let time = captures.time(captures.first(event));
        // An event that stands for a time of quiet has no age; Siddhi takes it for ages old.
        (self.is_compat || time != UNTIMED).then_some(time)
    }

    pub fn has_expired(&self, partial: PartialId, now: i64) -> bool {
        let Some(within) = self.graph.within else {
            return false;
        };
        let is_old = |start: i64| start.abs_diff(now) > within.unsigned_abs();
        if let Some(start) = self.graph.only_start {
            return self.start_of(partial, start).is_some_and(is_old);
        }
        let mut starts_absent = false;
        for (id, state) in self.graph.states.iter().enumerate() {
            if !state.is_start {
                continue;
            }
            starts_absent |= state.kind.is_absent();
            if self.start_of(partial, id).is_some_and(is_old) {
                return true;
            }
        }
        if !starts_absent || self.is_compat {
            return false;
        }
        // Begun with an absence, a match is as old as the first event it has.
        let states = 0..self.graph.states.len();
        let first = states.filter_map(|id| self.start_of(partial, id)).min();
        first.is_some_and(is_old)
    }

    /// Of `pending` the leading ones, of `new` all that are too old. The last of them re-arms the
    /// `every` around (`expireEvents`).
    fn expire(&mut self, id: StateId, now: i64) {
        let mut last = None;
        while let Some(partial) = self.lists.states[id].pending.front()
            && self.has_expired(partial, now)
        {
            if self.store.equations[id].is_some() {
                self.lists.states[id].index.pop(partial, &self.store.links);
            }
            let _ = self.lists.states[id].pending.take(0);
            self.tidy(id);
            self.note_expired(id, partial, &mut last);
        }
        self.expire_new(id, now, &mut last);
        let Some(last) = last else {
            return;
        };
        if let Some(every) = self.state(id).within_every {
            self.add_every(every, last);
            self.update(every);
        }
        self.release(last);
    }

    fn expire_new(&mut self, id: StateId, now: i64, last: &mut Option<PartialId>) {
        let StateLists { new, ages, .. } = &self.lists.states[id];
        if new.is_empty() {
            return;
        }
        let is_old = |start: i64| {
            let within = self.graph.within.unwrap_or(i64::MAX);
            start.abs_diff(now) > within.unsigned_abs()
        };
        let knows_ages = self.graph.only_start.is_some();
        let is_any_old = ages.oldest <= ages.newest && (is_old(ages.oldest) || is_old(ages.newest));
        if knows_ages && !is_any_old {
            return;
        }
        if knows_ages && ages.is_ascending && !is_old(ages.newest) {
            return self.expire_leading(id, now, last);
        }
        let mut left = Ages::default();
        for place in 0..self.lists.states[id].new.places() {
            let Some(partial) = self.lists.states[id].new.at(place) else {
                continue;
            };
            if self.has_expired(partial, now) {
                let _ = self.lists.states[id].new.take(place);
                self.note_expired(id, partial, last);
            } else if let Some(start) = self.graph.only_start
                && let Some(time) = self.start_of(partial, start)
            {
                left.add(time);
            }
        }
        let lists = &mut self.lists.states[id];
        lists.ages = left;
        lists.new.tidy();
    }

    /// Those that have expired come before those that have not; one that has not begun may stand
    /// between them.
    fn expire_leading(&mut self, id: StateId, now: i64, last: &mut Option<PartialId>) {
        let start = self.graph.only_start.unwrap_or_default();
        let mut oldest = None;
        for place in 0..self.lists.states[id].new.places() {
            let Some(partial) = self.lists.states[id].new.at(place) else {
                continue;
            };
            if self.has_expired(partial, now) {
                let _ = self.lists.states[id].new.take(place);
                self.note_expired(id, partial, last);
            } else if let Some(time) = self.start_of(partial, start) {
                oldest = Some(time);
                break;
            }
        }
        let lists = &mut self.lists.states[id];
        match oldest {
            Some(oldest) => lists.ages.oldest = oldest,
            None => lists.ages = Ages::default(),
        }
        lists.new.tidy();
    }

    /// The caller's hold on `partial` goes over to `last`, or is given up.
    fn note_expired(&mut self, id: StateId, partial: PartialId, last: &mut Option<PartialId>) {
        // One side of `or` took its event: the match has gone on from there, and what is left
        // here would re-arm the `every` a second time.
        let has_gone_on = !self.is_compat
            && self.state(id).kind.is_or()
            && self
                .state(id)
                .kind
                .partner()
                .is_some_and(|partner| self.slot(partial, partner) != NONE);
        if has_gone_on || !self.store.partials.expire(partial) {
            return self.release(partial);
        }
        if let Some(before) = last.replace(partial) {
            self.release(before);
        }
    }

    /// `new` goes behind `pending`, by time; what has no time comes last (`updateState`).
    pub fn update(&mut self, id: StateId) {
        if std::mem::take(&mut self.lists.states[id].restarts) {
            self.begin_state(id);
        }
        self.promote(id);
        if let Some(partner) = self.state(id).kind.partner() {
            self.promote(partner);
        }
    }

    fn promote(&mut self, id: StateId) {
        let StateLists {
            pending,
            new,
            index,
            ages,
            ..
        } = &mut self.lists.states[id];
        if new.is_empty() {
            return;
        }
        *ages = Ages::default();
        let partials = &self.store.partials;
        let key = |partial: PartialId| match partials.time(partial) {
            UNTIMED => i64::MAX,
            time => time,
        };
        let mut last = i64::MIN;
        let is_sorted = new
            .iter()
            .all(|p| std::mem::replace(&mut last, key(p)) <= last);
        if !is_sorted {
            new.sort_by_key(key);
        }
        let equation = self.store.equations[id];
        let values = equation.map(|e| Values::new(e, partials, &self.store.captures));
        for partial in new.drain() {
            if let Some(values) = &values {
                let place = pending.first_place() + pending.places() as u64;
                index.push(partial, place, values, &mut self.store.links);
            }
            pending.push(partial);
        }
    }

    /// Before an event of a sequence: what did not match the one before is gone (`resetState`).
    pub fn reset(&mut self, id: StateId) {
        let state = self.state(id);
        let (kind, is_start) = (state.kind, state.is_start);
        if let (false, Some(partner)) = (kind.is_or(), kind.partner()) {
            let lists = &self.lists.states;
            if lists[id].pending.len() != lists[partner].pending.len() {
                return;
            }
        }
        self.clear_pending(id);
        if let Some(partner) = kind.partner() {
            self.clear_pending(partner);
        }
        let is_free = matches!(kind, Kind::Absent { .. }) || self.lists.states[id].new.is_empty();
        if !is_start || !is_free {
            return;
        }
        let state = self.state(id);
        let goes_on = state.every.is_none()
            && state
                .next
                .is_some_and(|next| !self.lists.states[next].pending.is_empty());
        if !(self.graph.is_sequence && goes_on) {
            self.begin_state(id);
        }
    }

    // ---- an event fits ----

    /// Keeps an event for a state's slot; what only the output needs is not kept.
    pub fn keep(&mut self, id: StateId, arrival: &Arrival<'_>) -> EventId {
        let state = self.state(id);
        let is_fleeting = state.kind == Kind::Stream
            && state.emits
            && state
                .every
                .is_none_or(|every| !matches!(self.state(every).kind, Kind::AbsentSide { .. }));
        if is_fleeting {
            CURRENT
        } else {
            self.store.captures[id].keep(arrival, NONE)
        }
    }

    /// The event in the slot of the state fits (`StreamPostStateProcessor.process`).
    pub fn took(&mut self, id: StateId, partial: PartialId, time: i64) {
        let state = self.state(id);
        let (next, every, emits) = (state.next, state.every, state.emits);
        let (restarts, rearms) = (state.restarts, state.rearms);
        self.store.changed[id] = true;
        self.store.partials.set_time(partial, time);
        if emits {
            self.store.returned[id] = true;
        }
        if let Some(next) = next {
            self.add(next, partial);
        }
        if let Some(every) = every {
            self.add_every(every, partial);
        }
        if let Some(count) = restarts {
            self.restart(count);
        }
        if let (Some(count), false) = (rearms, self.is_compat) {
            self.add_every(count, partial);
        }
    }

    pub fn restart(&mut self, count: StateId) {
        self.lists.states[count].restarts = true;
    }

    /// Takes the mark of a completed match that a state looks at.
    pub fn take_returned(&mut self, id: StateId) -> bool {
        let last = self.state(id).last;
        std::mem::take(&mut self.store.returned[last])
    }

    /// The event completes a match.
    pub fn complete(&mut self, partial: PartialId, arrival: &Arrival<'_>) {
        let time = self.store.partials.time(partial);
        self.complete_at(partial, arrival.row as u32, time);
    }

    /// A match is complete. Its events are held until the batch is made.
    pub fn complete_at(&mut self, partial: PartialId, row: u32, time: i64) {
        for id in 0..self.graph.states.len() {
            let event = self.slot(partial, id);
            self.store.captures[id].own(event);
            self.matches.slots.push(event);
        }
        self.matches.rows.push(row);
        self.matches.times.push(time);
        let is_expired = self.store.partials.is_expired(partial);
        self.matches.expired.push(is_expired);
    }

    pub fn notify(&mut self, id: StateId, time: i64) {
        self.deadlines.push((id, time));
    }

    pub fn wait_from(&mut self, id: StateId, time: i64, wait: i64) {
        let deadline = time.saturating_add(wait);
        self.lists.states[id].last = deadline;
        self.notify(id, deadline);
    }
}
