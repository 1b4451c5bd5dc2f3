//! `time(T)`: the events of the last T milliseconds.

use super::slide::Slide;
use super::store::{Queue, RowTypes, row_types};
use crate::component::*;
use crate::emission::Emission;
use crate::keyed::Keyed;
use crate::spec::runs;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};
use lang::catalog::functions::windows::FUNCTIONS as KNOWN;
use lang::spec::FunctionSpec;

pub struct Time;

static SPEC: FunctionSpec = runs(
    KNOWN,
    "time",
    "define stream S (symbol string, price double);
from S#window.time(1 sec) select symbol, sum(price) as total insert into Out;
---
send S @0 A 1.0
send S @500 B 2.0
send S @1200 C 3.0
expect Out A 1.0
expect Out B 3.0
expect Out C 5.0
",
);

impl Window for Time {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        Ok(Box::new(Operator {
            millis: super::millis(setup.args, 0, "time")?,
            types: row_types(setup.schema),
            expired_wanted: setup.expired_wanted,
            keys: Keyed::default(),
        }))
    }
}

struct Operator {
    millis: i64,
    types: RowTypes,
    expired_wanted: bool,
    keys: Keyed<State>,
}

struct State {
    queue: Queue,
    /// The largest timestamp so far: only a larger one sets a deadline.
    latest: i64,
}

impl State {
    fn new(types: &RowTypes) -> State {
        State {
            queue: Queue::new(types),
            latest: i64::MIN,
        }
    }
}

impl WindowOperator for Operator {
    /// `[E…, C]` per event. Rows leave in the order of arrival, up to the first that is not due
    /// (`TimeWindowProcessor`).
    fn process(
        &mut self,
        key: Key,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let state = self.keys.entry(key, || State::new(&self.types));
        let mut slide = Slide::new(&mut state.queue, batch, 0, out);
        while let Some(row) = slide.next() {
            let (clock, rows) = (slide.clock(), slide.rows_at_clock());
            let limit = clock.saturating_sub(self.millis);
            slide.expire(slide.due(limit), clock, out);
            // With an oldest row that is not due nothing leaves until the clock moves. A row that
            // is late on arrival leaves when the next one comes.
            let is_late = slide.is_empty() && batch.times.at(row) <= limit;
            slide.arrive(if is_late { 1 } else { rows }, out);
        }
        slide.keep();
        for (_, time) in batch.times.runs(0..batch.len) {
            if time > state.latest {
                state.latest = time;
                context.notify(time.saturating_add(self.millis));
            }
        }
    }

    fn alarm(&mut self, key: Key, _: i64, context: &mut WindowContext<'_>, out: &mut Emission) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        let due = state.queue.due(context.now.saturating_sub(self.millis));
        state.queue.take(due, |segment, rows| {
            let source = out.source(segment);
            out.expired(source, rows, context.now);
        });
        out.end_chunk(context.now);
    }

    fn content(&self, key: Key) -> Option<Batch> {
        self.keys.get(key).map(|s| s.queue.content())
    }

    /// Its timer emits EXPIRED rows only.
    fn held(&self, key: Key) -> usize {
        let wanted = self.keys.get(key).filter(|_| self.expired_wanted);
        wanted.map_or(0, |s| s.queue.len())
    }

    fn bytes(&self, key: Key) -> usize {
        self.keys.get(key).map_or(0, |s| s.queue.bytes())
    }

    fn remove(&mut self, key: Key) {
        self.keys.remove(key);
    }

    fn save(&self, key: Key, writer: &mut Writer) {
        let state = self.keys.get(key);
        super::save_queue(state.map(|s| &s.queue), writer);
        if let Some(state) = state {
            writer.i64(state.latest);
        }
    }

    fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        if let Some(queue) = super::restore_queue(&self.types, reader)? {
            let latest = reader.i64()?;
            self.keys.set(key, State { queue, latest });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    fn case() -> Case {
        Case::new("time", &[long(100)])
    }

    #[test]
    fn events_expire_by_timer_before_the_next_arrives() {
        check(
            &case(),
            "1@0 2@50 3@100 4@220 tick@400",
            "C1@0 | C2@50 | E1@100 | C3@100 | E2@150 | E3@200 | C4@220 | E4@320",
        );
    }

    #[test]
    fn in_playback_all_that_is_due_leaves_when_the_clock_jumps() {
        check(
            &case().in_playback(),
            "1@0 2@50 3@100 4@220 tick@400",
            "C1@0 | C2@50 | E1@100 | C3@100 | E2@220 E3@220 | C4@220 | E4@400",
        );
    }

    #[test]
    fn a_late_event_waits_behind_a_later_one() {
        check(
            &case(),
            "1@1000 2#950@1010 3@1060 tick@1100 tick@1200",
            "C1@1000 | C2@950 | C3@1060 | E1@1100 E2@1100 | E3@1160",
        );
    }

    #[test]
    fn an_event_late_on_arrival_leaves_before_the_next() {
        check(
            &case(),
            "[1#10 2#20 3]@1000 4@1000 tick@2000",
            "C1@10 E1@1000 C2@20 E2@1000 C3@1000 | C4@1000 | E3@1100 E4@1100",
        );
    }

    #[test]
    fn live_rows_are_found_and_held() {
        check_content(&case(), "1@0 2@50 3@120", "2 3", 2);
        check_content(&case().without_expired(), "1@0 2@50 3@120", "2 3", 0);
    }
}
