//! `@app:playback(idle.time = …, increment = …)`: the events' clock goes on when no event comes.
//!
//! When the clock has stood still for the idle time, measured on the wall, it moves by the increment,
//! with all that this makes due, and again after each further idle time (Siddhi's
//! `TimestampGeneratorImpl.TimeInjector`). Before the first event it does not move.

use crate::app::{App, Outside};
use crate::timers::Owner;

impl App {
    /// Playback with an idle time needs a timer.
    pub(crate) fn add_idle_timer(&mut self) {
        if self.idle().is_some() && self.core.timers.find(Owner::Idle).is_none() {
            self.core.timers.add_operator(Owner::Idle);
        }
    }

    fn idle(&self) -> Option<(i64, i64)> {
        let playback = self.core.playback?;
        playback.idle.filter(|(idle, _)| *idle > 0)
    }

    /// The events' clock was set: the idle time begins anew.
    pub(crate) fn clock_was_set(&mut self) {
        let Some((idle, _)) = self.idle() else {
            return;
        };
        let wall = self.core.wall;
        self.core.clock_set_at = wall;
        if let Some(operator) = self.core.timers.find(Owner::Idle)
            && !self.core.timers.has_deadline(operator, 0)
        {
            let due = wall.saturating_add(idle);
            self.core.timers.notify(operator, 0, due, wall);
        }
    }

    /// The idle time may be over.
    pub(crate) fn idle_timer(&mut self, deadline: i64, outside: &mut Outside<'_>) {
        let Some((idle, increment)) = self.idle() else {
            return;
        };
        let stood_still = deadline.saturating_sub(self.core.clock_set_at);
        let wait = if stood_still >= idle {
            let clock = self.core.clock.saturating_add(increment);
            self.advance_playback(clock, outside);
            self.core.clock_set_at = deadline;
            idle
        } else {
            idle - stood_still
        };
        if let Some(operator) = self.core.timers.find(Owner::Idle) {
            let due = deadline.saturating_add(wait);
            self.core.timers.notify(operator, 0, due, deadline);
        }
    }
}
