//! `distinctCount(x)`.

use std::ops::Range;

use event::ColumnBuilder;
use event::codec::{Error as StateError, Reader, Writer};

use super::generic::NEVER_CAME;
use super::params::*;
use super::states::{States, check_version, each_row};
use super::value_store::{Tally, Total};
use crate::component::{Aggregate, Aggregator, Argument, EvalContext, Group, Refused, Scan};
use crate::spec::*;

pub struct DistinctCount;

const COUNTABLE: Types = Types::of(&[
    Type::Int,
    Type::Long,
    Type::Double,
    Type::Float,
    Type::String,
]);

static SPEC: FunctionSpec = runs(
    aggregator(
        "distinctCount",
        "How many different values there are.",
        &[Overload::new(&[param("arg", COUNTABLE, "The value.")])],
        LONG,
    ),
    "distinctCount(symbol) as symbols",
);

impl Aggregator for DistinctCount {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, _args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Operator::default()))
    }
}

#[derive(Default)]
struct Operator {
    states: States<Tally>,
    total: Total,
}

impl Aggregate for Operator {
    /// Null is a value like any other. What was never added may leave: nothing happens (Siddhi fails
    /// there; an `expression` window can expire an event before it came, and a join can give more
    /// rows than it gave when it came).
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        let is_compat = context.environment.compat;
        let column = scan.args[0].slice(scan.start, scan.end - scan.start);
        each_row(scan, |group, row, is_expired| {
            let counts = self.states.at(group);
            let value = column.value(row);
            let before = counts.bytes();
            if is_expired && is_compat && !counts.contains_key(&value) {
                context.fail(scan.start + row, NEVER_CAME);
            } else if is_expired {
                counts.take(&value, 1);
            } else {
                counts.add(&value, 1);
            }
            self.total.change(before, counts.bytes());
            out.push_long(counts.len() as i64);
        });
    }

    fn clear(&mut self, group: Group) {
        let bytes = self.states.get(group).map_or(0, Tally::bytes);
        self.total.change(bytes, 0);
        self.states.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.states
            .get(group)
            .is_none_or(|counts| counts.is_empty())
    }

    fn release(&mut self, groups: Range<Group>) {
        self.states.release(groups);
    }

    fn bytes(&self) -> usize {
        self.states.bytes() + self.total.bytes()
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        let counts = self.states.get(group);
        // In the order of their bytes, since that of a hash map is nothing to rely on.
        let mut entries: Vec<Vec<u8>> = counts
            .into_iter()
            .flat_map(|counts| counts.iter())
            .map(|(value, &count)| {
                let mut entry = Writer::default();
                entry.value(value);
                entry.u64(count);
                entry.bytes
            })
            .collect();
        entries.sort_unstable();
        writer.u8(1);
        writer.count(entries.len());
        entries.iter().for_each(|entry| writer.blob(entry));
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        check_version(reader, 1)?;
        self.clear(group);
        let counts = self.states.at(group);
        for _ in 0..reader.count()? {
            let mut entry = reader.section()?;
            counts.add(&entry.value()?, entry.u64()?);
        }
        self.total.change(0, counts.bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn equal_values_count_once() {
        check(
            "distinctCount",
            Type::String,
            "x y x -x -x -y",
            "1L 2L 2L 2L 1L 0L",
        );
        check(
            "distinctCount",
            Type::Int,
            "1 null null -1 -2",
            "1L 2L 2L 1L 1L",
        );
        check(
            "distinctCount",
            Type::Double,
            "a:1.0 b:1.0 R a:2.0",
            "1L 1L 1L",
        );
    }
}
