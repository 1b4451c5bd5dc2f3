//! Serves the taps of an executor. Where there are none, nothing here is called.

use std::time::Instant;

use event::Batch;
use plan::StreamId;

use super::Executor;
use crate::tap::{NewTap, OpenTap, TapPlace};

impl Executor {
    pub(super) fn open_tap(&mut self, new: NewTap) {
        let engine = &mut self.apps[new.app].engine;
        self.taps.push(OpenTap::new(new, engine, Instant::now()));
    }

    pub(super) fn close_tap(&mut self, id: u64) {
        let apps = &mut self.apps;
        self.taps.retain(|tap| {
            if tap.id == id {
                tap.remove_from(&mut apps[tap.app].engine);
            }
            tap.id != id
        });
    }

    /// A step is about to begin: what its taps may take.
    pub(super) fn refill_taps(&mut self, now: Instant) {
        for tap in &mut self.taps {
            tap.refill(&mut self.apps[tap.app].engine, now);
        }
    }

    /// Hands on what the taps have taken. One that nobody reads is closed.
    pub(super) fn hand_on_taps(&mut self) {
        let apps = &mut self.apps;
        self.taps.retain_mut(|tap| {
            let engine = &mut apps[tap.app].engine;
            let stays = tap.hand_on(engine);
            if !stays {
                tap.remove_from(engine);
            }
            stays
        });
    }

    /// Rows come from a source of an app.
    pub(super) fn pass_source_taps(
        &mut self,
        app: usize,
        (stream, number): (StreamId, usize),
        batch: &Batch,
    ) {
        self.pass(app, TapPlace::Source { stream, number }, batch);
    }

    /// Rows go to a sink of an app.
    pub(super) fn pass_sink_taps(
        &mut self,
        app: usize,
        (stream, number): (StreamId, usize),
        batch: &Batch,
    ) {
        self.pass(app, TapPlace::Sink { stream, number }, batch);
    }

    fn pass(&mut self, app: usize, place: TapPlace, batch: &Batch) {
        let (engine, wall) = (&self.apps[app].engine, self.clock.now());
        for tap in self.taps.iter_mut().filter(|tap| tap.app == app) {
            tap.look(place, batch, engine, wall);
        }
    }
}
