//! `timeLength(T, n)`: the events of the last T milliseconds, n at most.

use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule};
use super::slide::Slide;
use super::store::Queue;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::Batch;

pub struct TimeLength;

static SPEC: FunctionSpec = runs(
    window(
        "timeLength",
        "The events of the last T, n at most.",
        &[Overload::new(&[TIME, LENGTH])],
    ),
    "define stream S (symbol string, price double);
from S#window.timeLength(1 sec, 2) select symbol, sum(price) as total insert into Out;
---
send S @0 A 1.0
send S @100 B 2.0
send S @200 C 3.0
expect Out A 1.0
expect Out B 3.0
expect Out C 5.0
",
);

impl Window for TimeLength {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let rule = Newest {
            millis: super::millis(setup.args, 0, "timeLength")?,
            length: super::count(setup.args, 1, "timeLength")?,
            expired_wanted: setup.expired_wanted,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Newest {
    millis: i64,
    length: usize,
    expired_wanted: bool,
}

impl Rule for Newest {
    type State = Queue;

    fn is_fallible(&self) -> bool {
        false
    }

    fn delay_min(&self) -> i64 {
        self.millis
    }

    /// `[E…, C]` per event: first what is due, then the oldest if the window is still full
    /// (`TimeLengthWindowProcessor`). Its count lives in the queue, so it survives a restore.
    fn process(
        &mut self,
        queue: &mut Queue,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let mut slide = Slide::new(queue, batch, 0, out);
        while slide.next().is_some() {
            if self.length == 0 {
                slide.pass(out);
                continue;
            }
            let clock = slide.clock();
            let due = slide.due(clock.saturating_sub(self.millis));
            slide.expire(due, clock, out);
            if slide.len() < self.length {
                slide.arrive(1, out);
            } else {
                slide.displace(1, clock, out);
            }
        }
        slide.keep();
        if self.length > 0 {
            for (_, time) in batch.times.runs(0..batch.len) {
                context.notify(time.saturating_add(self.millis));
            }
        }
    }

    fn on_timer(
        &mut self,
        queue: &mut Queue,
        _due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let due = queue.due(context.now.saturating_sub(self.millis));
        queue.take(due, |segment, rows| {
            let source = out.source(segment);
            out.expired(source, rows, context.now);
        });
        out.end_chunk(context.now);
    }

    fn sliding_rows(&self, queue: Option<&Queue>) -> Option<usize> {
        (self.length > 0).then(|| queue.map_or(0, Queue::len))
    }

    fn content<'s>(&self, queue: &'s Queue) -> Option<Held<'s>> {
        Some(Held::from(queue))
    }

    /// Its timer emits EXPIRED rows only.
    fn held(&self, queue: &Queue) -> usize {
        if self.expired_wanted { queue.len() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn both_bounds_hold() {
        check(
            &Case::new("timeLength", &[long(100), int(2)]),
            "1@0 2@10 3@20 4@115 tick@500",
            "C1@0 | C2@10 | E1@20 C3@20 | E2@110 | C4@115 | E3@120 | E4@215",
        );
    }

    #[test]
    fn a_chunk_may_displace_its_own_events() {
        check(
            &Case::new("timeLength", &[long(100), int(2)]),
            "1@0 [2 3 4 5]@10",
            "C1@0 | C2@10 E1@10 C3@10 E2@10 C4@10 E3@10 C5@10",
        );
    }

    #[test]
    fn length_zero_keeps_nothing() {
        check(
            &Case::new("timeLength", &[long(100), int(0)]),
            "1@0 [2 3]@10 tick@500",
            "C1@0 | C2@10 C3@10",
        );
    }

    #[test]
    fn live_rows_are_found() {
        let case = Case::new("timeLength", &[long(100), int(2)]);
        check_content(&case, "1@0 2@10 3@20", "2 3", 2);
    }
}
