//! The taps of an app: which rows pass which of them.

use event::Batch;
use plan::StreamId;

use super::App;
use crate::host::Host;
use crate::tap::{Moment, Tap, TapPoint, look_all};

impl App {
    /// Rows that a stream takes pass its taps.
    #[cold]
    pub(crate) fn pass_taps(&mut self, stream: StreamId, batch: &Batch, host: &mut dyn Host) {
        let moment = Moment {
            now: self.core.clock,
            wall: self.core.wall(),
            environment: &self.core.environment,
        };
        let taps = &mut self.streams[stream].taps;
        look_all(taps, batch, &moment, &mut || host.nanos());
    }

    fn taps_at(&mut self, point: TapPoint) -> &mut Vec<Tap> {
        match point {
            TapPoint::Stream(stream) => &mut self.streams[stream].taps,
            TapPoint::Query(query) => &mut self.queries[query].taps,
        }
    }

    /// Has a tap look at a place of this app from the next step on.
    pub fn add_tap(&mut self, point: TapPoint, tap: Tap) {
        self.taps_at(point).push(tap);
        self.taps_changed(point);
    }

    /// The tap is gone, and all that it has cost with it.
    pub fn remove_tap(&mut self, point: TapPoint, id: u64) {
        self.taps_at(point).retain(|tap| tap.id != id);
        self.taps_changed(point);
    }

    /// A tap that looks at a place.
    pub fn tap_mut(&mut self, point: TapPoint, id: u64) -> Option<&mut Tap> {
        self.taps_at(point).iter_mut().find(|tap| tap.id == id)
    }

    fn taps_changed(&mut self, point: TapPoint) {
        match point {
            TapPoint::Stream(_) => self.find_fast_paths(),
            TapPoint::Query(query) => self.queries[query].taps_changed(),
        }
    }

    /// Has a tap look at rows outside of the app, with its clock and environment: those that a source
    /// brings or a sink is given. `wall` is the wall clock, and `nanos` a stopwatch, as [`Host::nanos`].
    pub fn look(&self, tap: &mut Tap, batch: &Batch, wall: i64, nanos: &mut dyn FnMut() -> u64) {
        let is_playback = self.core.playback.is_some();
        let moment = Moment {
            now: if is_playback { self.core.clock } else { wall },
            wall,
            environment: &self.core.environment,
        };
        tap.look(batch, &moment, nanos);
    }
}
