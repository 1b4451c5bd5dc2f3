//! `length(n)`: the last n events.

use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule};
use super::slide::Slide;
use super::store::Queue;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::Batch;

pub struct Length;

static SPEC: FunctionSpec = runs(
    window("length", "The last n events.", &[Overload::new(&[LENGTH])]),
    "define stream S (symbol string, price double);
from S#window.length(2) select symbol, sum(price) as total insert into Out;
---
send S @0 A 1.0
send S @100 B 2.0
send S @200 C 3.0
expect Out A 1.0
expect Out B 3.0
expect Out C 5.0
",
);

impl Window for Length {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let length = super::count(setup.args, 0, "length")?;
        Ok(PerKey::operator(setup, Last { length }))
    }
}

struct Last {
    length: usize,
}

impl Rule for Last {
    type State = Queue;

    fn is_fallible(&self) -> bool {
        false
    }

    fn delay_min(&self) -> i64 {
        i64::MAX
    }

    /// `[E, C]` per event of a full window: the displaced event leaves the aggregates before the new
    /// one enters (`LengthWindowProcessor`).
    fn process(
        &mut self,
        queue: &mut Queue,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let mut slide = Slide::new(queue, batch, 0, out);
        if self.length == 0 {
            while slide.next().is_some() {
                let clock = slide.clock();
                slide.appear(clock, out);
            }
            return;
        }
        let free = (self.length - slide.len()).min(batch.len);
        slide.arrive(free, out);
        while slide.next().is_some() {
            let (clock, rows) = (slide.clock(), slide.rows_at_clock());
            slide.displace(rows, clock, out);
        }
        slide.keep();
    }

    fn sliding_rows(&self, queue: Option<&Queue>) -> Option<usize> {
        (self.length > 0).then(|| queue.map_or(0, Queue::len))
    }

    // Twin: `process` above; keep both in step.
    fn slide_one(
        &mut self,
        queue: &mut Queue,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
    ) -> Option<bool> {
        if self.length == 0 || !queue.is_typed(batch) {
            return None;
        }
        let is_full = queue.len() == self.length;
        if is_full && !queue.take_one() {
            return None;
        }
        queue.append_only(batch);
        Some(is_full)
    }

    fn content<'s>(&self, queue: &'s Queue) -> Option<Held<'s>> {
        Some(Held::from(queue))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn the_displaced_event_comes_first() {
        check(
            &Case::new("length", &[int(2)]),
            "1@0 2@5 3@7 4@9",
            "C1@0 | C2@5 | E1@7 C3@7 | E2@9 C4@9",
        );
    }

    #[test]
    fn a_chunk_stays_one_chunk() {
        check(
            &Case::new("length", &[int(2)]),
            "1@0 [2 3 4]@5 5@6",
            "C1@0 | C2@5 E1@5 C3@5 E2@5 C4@5 | E3@6 C5@6",
        );
    }

    #[test]
    fn length_zero_expires_and_resets_at_once() {
        check(
            &Case::new("length", &[int(0)]),
            "1@0 [2 3]@5",
            "C1@0 E1@0 R | C2@5 E2@5 R C3@5 E3@5 R",
        );
    }

    #[test]
    fn an_event_keeps_its_timestamp_and_expires_at_the_clock() {
        check(
            &Case::new("length", &[int(1)]),
            "1#900@1000 2#950@1010",
            "C1@900 | E1@1010 C2@950",
        );
    }
}
