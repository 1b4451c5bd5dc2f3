//! `count()`, `count(x)`.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::{ColumnBuilder, ScalarRef};

use super::params::*;
use super::states::{Follow, Slots, States, check_version, each_row, each_step};
use crate::component::{
    Aggregate, Aggregator, Argument, EvalContext, Group, Groups, Refused, Scan, SlideRow, SlideScan,
};
use crate::spec::*;

pub struct Count;

const ANY: Param = param("arg", Types::ANY, "The value.");

static SPEC: FunctionSpec = runs(
    aggregator(
        "count",
        "How many events there are.",
        &[NONE, Overload::new(&[ANY])],
        LONG,
    ),
    "count() as n",
);

impl Aggregator for Count {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, _args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Counts::default()))
    }
}

/// Rows per group; an argument is not looked at, so nulls count (`CountAttributeAggregatorExecutor`).
#[derive(Default)]
struct Counts {
    states: States<i64>,
}

/// A row leaves its group: is nothing left of that?
#[inline(always)]
fn leave(count: &mut i64) -> bool {
    *count -= 1;
    *count == 0
}

/// Counts that follow a sliding window.
struct Followed<'a, A: ?Sized> {
    states: &'a mut A,
    out: &'a mut ColumnBuilder,
    emptied: &'a mut Vec<Group>,
}

impl<A: Slots<i64> + ?Sized> Follow for Followed<'_, A> {
    #[inline(always)]
    fn leave(&mut self, group: Group, _row: usize) {
        if leave(self.states.slot(group)) {
            self.emptied.push(group);
        }
    }

    #[inline(always)]
    fn arrive(&mut self, group: Group, _row: usize) {
        let count = self.states.slot(group);
        *count += 1;
        self.out.push_long(*count);
    }
}

impl Aggregate for Counts {
    fn scan(&mut self, scan: &Scan<'_>, _context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        if let Groups::One(group) = scan.groups {
            let state = self.states.at(group);
            if scan.expired.is_none() {
                let (rows, before) = (scan.end - scan.start, *state);
                *state += rows as i64;
                // A range of `usize` knows its length, which one of `i64` does not.
                return out.extend_long((0..rows).map(|row| before + 1 + row as i64));
            }
            let mut count = *state;
            each_row(scan, |_, _, is_expired| {
                count += if is_expired { -1 } else { 1 };
                out.push_long(count);
            });
            *state = count;
            return;
        }
        each_row(scan, |group, _, is_expired| {
            let count = self.states.at(group);
            *count += if is_expired { -1 } else { 1 };
            out.push_long(*count);
        });
    }

    fn slides(&self) -> bool {
        true
    }

    fn slide(&mut self, scan: &SlideScan<'_>, out: &mut ColumnBuilder, emptied: &mut Vec<Group>) {
        let states = &mut self.states;
        match states.side_by_side(scan) {
            Some(states) => each_step(
                scan,
                Followed {
                    states,
                    out,
                    emptied,
                },
            ),
            None => each_step(
                scan,
                Followed {
                    states,
                    out,
                    emptied,
                },
            ),
        }
    }

    // Twin: `slide` above; keep both in step.
    fn slide_one(
        &mut self,
        left: Option<&SlideRow<'_>>,
        arrived: &SlideRow<'_>,
        emptied: &mut Vec<Group>,
    ) -> ScalarRef<'static> {
        if let Some(left) = left
            && leave(self.states.at(left.group))
        {
            emptied.push(left.group);
        }
        let count = self.states.at(arrived.group);
        *count += 1;
        ScalarRef::Long(*count)
    }

    fn clear(&mut self, group: Group) {
        self.states.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.states.get(group).is_none_or(|&count| count == 0)
    }

    fn release(&mut self, groups: Range<Group>) {
        self.states.release(groups);
    }

    fn bytes(&self) -> usize {
        self.states.bytes()
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        writer.u8(1);
        writer.i64(self.states.get(group).copied().unwrap_or(0));
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        check_version(reader, 1)?;
        *self.states.at(group) = reader.i64()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn every_event_counts() {
        check("count", Type::Int, "1 null -1 -null R 2", "1L 2L 1L 0L 1L");
        check("count", Type::Int, "a:1 b:1 a:1 -b:1", "1L 1L 2L 0L");
        assert!(is_empty_after("count", Type::Int, "1 -1"));
    }
}
