//! `externalTime(t, T)`: the events of the last T milliseconds by an attribute.

use super::held::Held;
use super::params::*;
use crate::spec::*;
use std::collections::VecDeque;

use super::per_key::{PerKey, Rule, Stored};
use super::slide::Slide;
use super::store::{Queue, RowTypes};
use crate::component::*;
use crate::emission::Emission;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct ExternalTime;

static SPEC: FunctionSpec = runs(
    window(
        "externalTime",
        "The events of the last T by an attribute.",
        &[Overload::new(&[TIMESTAMP, TIME])],
    ),
    "define stream S (t long, price double);
from S#window.externalTime(t, 1 sec) select t, sum(price) as total insert into Out;
---
send S 0 1.0
send S 500 2.0
send S 1000 3.0
expect Out 0 1.0
expect Out 500 3.0
expect Out 1000 5.0
",
);

impl Window for ExternalTime {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let attribute = super::long_attribute(setup.args, 0, "externalTime")?;
        let rule = ByAttribute {
            attribute,
            needed: [attribute],
            millis: super::millis(setup.args, 1, "externalTime")?,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct ByAttribute {
    attribute: usize,
    needed: [usize; 1],
    millis: i64,
}

struct State {
    queue: Queue,
    stamps: Stamps,
}

/// The attribute of each row in the window, as runs of equal values.
#[derive(Default)]
struct Stamps {
    runs: VecDeque<(usize, i64)>,
}

impl Stamps {
    fn push(&mut self, stamp: i64) {
        match self.runs.back_mut() {
            Some((count, last)) if *last == stamp => *count += 1,
            _ => self.runs.push_back((1, stamp)),
        }
    }

    /// Takes the rows from the oldest on with a stamp of `limit` or before, up to the first that
    /// has not.
    fn take_due(&mut self, limit: i64) -> usize {
        let mut due = 0;
        while let Some(&(count, stamp)) = self.runs.front()
            && stamp <= limit
        {
            due += count;
            self.runs.pop_front();
        }
        due
    }
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            queue: Queue::new(types),
            stamps: Stamps::default(),
        }
    }

    fn bytes(&self) -> usize {
        self.queue.bytes() + self.stamps.runs.len() * size_of::<(usize, i64)>()
    }

    fn queue(&self) -> Option<&Queue> {
        Some(&self.queue)
    }

    fn queue_mut(&mut self) -> Option<&mut Queue> {
        Some(&mut self.queue)
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        self.queue.save(writer);
        writer.count(self.stamps.runs.len());
        for &(count, stamp) in &self.stamps.runs {
            writer.count(count);
            writer.i64(stamp);
        }
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let queue = Queue::restore(types, reader)?;
        let mut stamps = Stamps::default();
        let mut left = queue.len_saved();
        for _ in 0..reader.count()? {
            let count = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
            let known = left.checked_sub(count);
            left = known.ok_or_else(|| StateError::Mismatch("more times than rows".into()))?;
            stamps.runs.push_back((count, reader.i64()?));
        }
        match left {
            0 => Ok(State { queue, stamps }),
            _ => Err(StateError::Mismatch("a row without time".into())),
        }
    }
}

impl Rule for ByAttribute {
    type State = State;

    /// `[E…, C]` per event; the arriving value is "now" and the timestamp of what expires
    /// (`ExternalTimeWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State { queue, stamps } = state;
        let column = &batch.columns[self.attribute];
        let mut slide = Slide::new(queue, batch, 0, out);
        // Rows in front of which nothing expires arrive together.
        let mut waiting = 0;
        while let Some(row) = slide.next().map(|row| row + waiting) {
            if row == batch.len {
                slide.arrive(waiting, out);
                break;
            }
            let Some(now) = super::stamp_of(column, row) else {
                slide.arrive(waiting, out);
                waiting = 0;
                context.failures.push(Failure {
                    row: row as u32,
                    message: "the time attribute of window 'externalTime' is null".into(),
                });
                let chunk = slide.fail(out);
                slide = Slide::new(queue, batch, chunk, out);
                continue;
            };
            let due = stamps.take_due(now.saturating_sub(self.millis));
            if due > 0 {
                slide.arrive(waiting, out);
                waiting = 0;
                slide.expire(due, now, out);
            }
            stamps.push(now);
            waiting += 1;
        }
        slide.keep();
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        Some(Held::from(&state.queue))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    fn case() -> Case {
        Case::new("externalTime", &[t(), long(100)])
    }

    #[test]
    fn the_attribute_is_the_clock() {
        check(
            &case(),
            "1~0@5 2~50@6 3~100@7 [4~120 5~160 6~400]@8",
            "C1@5 | C2@6 | E1@100 C3@7 | C4@8 E2@160 C5@8 E3@400 E4@400 E5@400 C6@8",
        );
    }

    #[test]
    fn nothing_expires_without_an_arrival() {
        check(&case(), "1~0@5 tick@5000 2~50@6000", "C1@5 | C2@6000");
        check_content(&case(), "1~0@5 2~50@6 3~100@7", "2 3", 0);
    }

    #[test]
    fn a_null_fails_its_chunk_but_rows_before_it_stay() {
        check_failure(
            &case(),
            "1~0@5 [2~60 3~- 4~70]@6 5~160@7",
            "the time attribute of window 'externalTime' is null",
            "C1@5 | E1@160 E2@160 C5@7",
        );
    }
}
