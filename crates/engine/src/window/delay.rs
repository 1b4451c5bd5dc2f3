//! `delay(T)`: each event comes out T milliseconds later.

use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule};
use super::slide::Slide;
use super::timed::TimedQueue;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::Batch;

pub struct Delay;

static SPEC: FunctionSpec = runs(
    window(
        "delay",
        "Holds each event for T.",
        &[Overload::new(&[TIME])],
    ),
    "define stream S (symbol string);
from S#window.delay(1 sec) select symbol insert into Out;
---
send S @0 A
expect Out nothing
advance @1000
expect Out @1000 A
",
);

impl Window for Delay {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let rule = Waiting {
            millis: super::millis(setup.args, 0, "delay")?,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Waiting {
    millis: i64,
}

impl Rule for Waiting {
    type State = TimedQueue;

    fn delay_min(&self) -> i64 {
        self.millis
    }

    /// `[C…]` of what is due, stamped with the clock, in place of the event that arrives. (Siddhi's
    /// `DelayWindowProcessor` never ends on a chunk of two or more events.)
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
            slide.release(slide.due(limit), clock, out);
            // As in a time window: nothing else is due until the clock moves or a late row is
            // followed by another.
            let is_late = slide.is_empty() && batch.times.at(row) <= limit;
            slide.wait(if is_late { 1 } else { rows }, out);
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
            out.push(source, rows, false, Some(context.now));
        });
        out.end_chunk(context.now);
    }

    fn content<'s>(&self, state: &'s TimedQueue) -> Option<Held<'s>> {
        Some(Held::from(&state.queue))
    }

    fn held(&self, state: &TimedQueue) -> usize {
        state.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    fn case() -> Case {
        Case::new("delay", &[long(100)])
    }

    #[test]
    fn events_come_out_later_with_the_time_of_that_moment() {
        check(
            &case(),
            "1@0 [2 3]@50 tick@120 4@160 tick@500",
            "C1@100 | C2@150 C3@150 | C4@260",
        );
    }

    #[test]
    fn in_playback_they_come_out_when_the_clock_jumps() {
        check(
            &case().in_playback(),
            "1@0 [2 3]@50 4@160",
            "C1@160 C2@160 C3@160",
        );
    }

    #[test]
    fn waiting_events_are_found_and_held() {
        check_content(&case(), "1@0 2@50 3@120", "2 3", 2);
    }
}
