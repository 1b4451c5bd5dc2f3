//! A time of quiet has passed at an absent state.

use super::machine::Machine;
use super::partials::{NONE, PartialId, UNTIMED};
use super::states::{Kind, StateId};

/// No event completes what a timer completes.
const NO_ROW: u32 = u32::MAX;

/// Rounds of quiet that an `every` makes up for at once where its partial match is of the past.
/// Siddhi makes up for them all, one timer after the other: behind an element that may stay empty
/// that is every round since 1970, and it comes to no end.
const ROUNDS_MAX: i64 = 10_000;

impl Machine<'_> {
    /// A deadline is served; `now` is the application clock.
    pub fn timer(&mut self, id: StateId, deadline: i64, now: i64) {
        match self.state(id).kind {
            Kind::Absent { wait } => self.quiet(id, wait, deadline, now),
            Kind::AbsentSide {
                wait: Some(wait), ..
            } => self.quiet_side(id, wait, deadline, now),
            _ => {}
        }
    }

    /// `not S for t` (`AbsentStreamPreStateProcessor.process`).
    fn quiet(&mut self, id: StateId, wait: i64, deadline: i64, now: i64) {
        let lists = &self.lists.states[id];
        if !lists.is_active {
            return;
        }
        let state = self.state(id);
        let (every, within_every) = (state.every, state.within_every);
        let is_sequence = self.graph.is_sequence;
        let was_broken = is_sequence && every.is_none() && lists.last > 0;
        if state.is_start && lists.new.is_empty() && lists.pending.is_empty() {
            if !was_broken {
                let partial = self.fresh();
                self.add(id, partial);
                self.release(partial);
            }
        } else if is_sequence && !lists.new.is_empty() {
            self.reset(id);
        }
        self.update(id);
        let mut through = Vec::new();
        for place in 0..self.lists.states[id].pending.places() {
            let Some(partial) = self.lists.states[id].pending.at(place) else {
                continue;
            };
            if self.has_expired(partial, deadline) {
                if let (Some(_), Some(every)) = (within_every, every)
                    && every != id
                {
                    self.add_every(every, partial);
                }
                self.drop_pending(id, place);
                continue;
            }
            let due = match self.store.partials.time(partial) {
                UNTIMED => self.lists.states[id].last,
                time => time.saturating_add(wait),
            };
            if deadline >= due {
                through.extend(self.lists.states[id].pending.take(place));
                self.store.partials.set_time(partial, deadline);
            }
        }
        self.tidy(id);
        if let Some(every) = within_every {
            self.update(every);
        }
        let is_idle = through.is_empty();
        for partial in through {
            self.send(id, partial, now);
            self.release(partial);
        }
        let lists = &mut self.lists.states[id];
        if now > deadline.saturating_add(wait) {
            lists.last = now.saturating_add(wait);
        }
        if is_idle && lists.last < deadline {
            self.wait_from(id, deadline, wait);
        }
    }

    /// A partial match goes on from an absent state.
    fn send(&mut self, id: StateId, partial: PartialId, now: i64) {
        let state = self.state(id);
        let (next, every, is_start) = (state.next, state.every, state.is_start);
        if state.emits {
            let time = self.store.partials.time(partial);
            self.complete_at(partial, NO_ROW, time);
            self.matches.end_chunk(now);
        }
        if let Some(next) = next {
            self.add(next, partial);
        }
        if let Some(every) = every {
            let time = self.store.partials.time(partial);
            let wait = self.state(id).kind.wait().unwrap_or_default().max(1);
            let is_ages_old = now.saturating_sub(time) / wait > ROUNDS_MAX;
            self.add_every_at(every, partial, if is_ages_old { now } else { time });
        } else if is_start {
            self.lists.states[id].is_active = false;
            if let Kind::AbsentSide {
                is_or: true,
                partner,
                ..
            } = self.state(id).kind
                && self.state(partner).kind.is_absent()
            {
                self.lists.states[partner].is_active = false;
            }
        }
        if let Some(count) = self.state(id).restarts {
            self.restart(count);
        }
        if let (Some(count), false) = (self.state(id).rearms, self.is_compat) {
            // Quiet before anything happened is counted from the beginning of all time: what
            // begins anew does not make up for the years since.
            let wait = self.state(id).kind.wait().unwrap_or_default();
            let time = self.store.partials.time(partial);
            let is_late = now > time.saturating_add(wait);
            self.add_every_at(count, partial, if is_late { now } else { time });
        }
    }

    /// `not S for t` beside `and` or `or` (`AbsentLogicalPreStateProcessor.process`).
    fn quiet_side(&mut self, id: StateId, wait: i64, deadline: i64, now: i64) {
        if !self.lists.states[id].is_active {
            return;
        }
        let state = self.state(id);
        let (is_start, every) = (state.is_start, state.every);
        let mut is_idle = true;
        if deadline >= self.lists.states[id].last.saturating_add(wait) {
            is_idle = !self.quiet_passed(id, wait, deadline, now);
            self.lists.states[id].last = 0;
        }
        if every.is_some() || is_idle && is_start {
            let from = match self.lists.states[id].last {
                0 => now,
                last => last,
            };
            self.notify(id, from.saturating_add(wait));
        }
    }

    /// True if a partial match went on.
    fn quiet_passed(&mut self, id: StateId, wait: i64, deadline: i64, now: i64) -> bool {
        let state = self.state(id);
        let within_every = state.within_every;
        let Some(partner) = state.kind.partner() else {
            return false;
        };
        let is_or = state.kind.is_or();
        let lists = &self.lists.states[id];
        if self.graph.is_sequence {
            if state.is_start && lists.new.is_empty() && lists.pending.is_empty() {
                let partial = self.fresh();
                self.add(id, partial);
                self.release(partial);
            } else if !lists.new.is_empty() {
                self.reset(id);
            }
        }
        self.update(id);
        let (mut through, mut expired) = (Vec::new(), None);
        for place in 0..self.lists.states[id].pending.places() {
            let Some(partial) = self.lists.states[id].pending.at(place) else {
                continue;
            };
            if self.has_expired(partial, deadline) {
                let _ = self.lists.states[id].pending.take(place);
                if let Some(before) = expired.replace(partial) {
                    self.release(before);
                }
                continue;
            }
            let own = self.slot(partial, id);
            let from = match own {
                NONE => self.store.partials.time(partial),
                // It has been through already and came back by `every`.
                own => self.store.captures[id].time(own),
            };
            if deadline < from.saturating_add(wait) {
                continue;
            }
            let _ = self.lists.states[id].pending.take(place);
            let is_met = self.slot(partial, partner) != NONE;
            if is_or != is_met {
                if is_or {
                    self.fill_blank(id, partial);
                }
                through.push(partial);
                continue;
            }
            if !is_or {
                // The other side goes on by itself when its event comes.
                self.fill_blank(id, partial);
            }
            self.release(partial);
        }
        self.tidy(id);
        if let Some(partial) = expired {
            if let Some(every) = within_every {
                self.add_every(every, partial);
                self.update(every);
            }
            self.release(partial);
        }
        let has_sent = !through.is_empty();
        for partial in through {
            self.store.partials.set_time(partial, deadline);
            self.send(id, partial, now);
            self.release(partial);
        }
        has_sent
    }

    fn fill_blank(&mut self, id: StateId, partial: PartialId) {
        let before = self.slot(partial, id);
        let blank = self.store.captures[id].keep_blank(before);
        self.set_slot(partial, id, blank);
    }
}
