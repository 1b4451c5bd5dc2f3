//! `time(T)`: the events of the last T milliseconds.

use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule};
use super::slide::Slide;
use super::timed::TimedQueue;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::Batch;

pub struct Time;

static SPEC: FunctionSpec = runs(
    window(
        "time",
        "The events of the last T.",
        &[Overload::new(&[TIME])],
    ),
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
        let rule = Live {
            millis: super::millis(setup.args, 0, "time")?,
            expired_wanted: setup.expired_wanted,
            forgets: setup.is_partitioned,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Live {
    millis: i64,
    expired_wanted: bool,
    /// See [`TimedQueue::forget`].
    forgets: bool,
}

impl Rule for Live {
    type State = TimedQueue;

    fn is_fallible(&self) -> bool {
        false
    }

    fn delay_min(&self) -> i64 {
        self.millis
    }

    /// `[E…, C]` per event. Rows leave in the order of arrival, up to the first that is not due
    /// (`TimeWindowProcessor`).
    fn process(
        &mut self,
        state: &mut TimedQueue,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
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
        state.notify_later(batch, self.millis, context);
    }

    fn on_timer(
        &mut self,
        state: &mut TimedQueue,
        _due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let due = state.queue.due(context.now.saturating_sub(self.millis));
        state.queue.take(due, |segment, rows| {
            let source = out.source(segment);
            out.expired(source, rows, context.now);
        });
        out.end_chunk(context.now);
        if self.forgets {
            state.forget();
        }
    }

    fn sliding_rows(&self, state: Option<&TimedQueue>) -> Option<usize> {
        Some(state.map_or(0, |state| state.queue.len()))
    }

    // Twin: `process` above; keep both in step.
    fn slide_one(
        &mut self,
        state: &mut TimedQueue,
        batch: &Batch,
        context: &mut WindowContext<'_>,
    ) -> Option<bool> {
        let limit = batch.clock_at(0).saturating_sub(self.millis);
        if state.queue.due(limit) > 0 || !state.queue.is_typed(batch) {
            return None;
        }
        state.queue.append_only(batch);
        state.notify_later(batch, self.millis, context);
        Some(false)
    }

    fn content<'s>(&self, state: &'s TimedQueue) -> Option<Held<'s>> {
        Some(Held::from(&state.queue))
    }

    /// Its timer emits EXPIRED rows only.
    fn held(&self, state: &TimedQueue) -> usize {
        if self.expired_wanted {
            state.queue.len()
        } else {
            0
        }
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
