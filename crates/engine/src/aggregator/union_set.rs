//! `unionSet(s)`.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::value::Shared;
use event::{ColumnBuilder, Object, Value};

use super::params::*;
use super::states::{States, check_version, each_row};
use super::value_store::{Tally, Total, ValueStore};
use crate::component::{Aggregate, Aggregator, Argument, EvalContext, Group, Refused, Scan};
use crate::spec::*;

pub struct UnionSet;

const SET: Param = param("set", Types::OBJECT, "A set.");

static SPEC: FunctionSpec = runs(
    aggregator(
        "unionSet",
        "Union of the sets.",
        &[Overload::new(&[SET])],
        OBJECT,
    ),
    "sizeOfSet(unionSet(createSet(symbol))) as n",
);

impl Aggregator for UnionSet {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, _args: &[Argument], tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Operator {
            tracks,
            forgets: false,
            states: States::default(),
            total: Total::default(),
        }))
    }
}

struct Operator {
    tracks: bool,
    /// Nothing stays of a group that is empty, its counters neither.
    forgets: bool,
    states: States<Union>,
    total: Total,
}

/// `UnionSetAttributeAggregatorExecutor`, with its quirk: the counter of an element that leaves the
/// set stays at one, so an element that comes back must leave twice; not where a state is given up
/// with its last element.
#[derive(Default)]
struct Union {
    /// The elements, in the order in which they came.
    set: ValueStore,
    counters: Tally,
}

impl Union {
    fn add(&mut self, element: &Value, counts: bool) {
        if !self.contains(element, counts) {
            self.set.push(element.clone());
        }
        if counts {
            self.counters.add(element, 1);
        }
    }

    fn contains(&self, element: &Value, counts: bool) -> bool {
        match self.counters.get(element) {
            None if counts => false,
            Some(&count) if count > 1 => true,
            _ => self.set.contains(element),
        }
    }

    fn remove(&mut self, element: &Value, counts: bool) {
        if counts {
            match self.counters.get(element) {
                None => return,
                Some(&count) if count > 1 => return self.counters.take(element, 1),
                Some(_) => {}
            }
        }
        self.set.retain(|e| e != element);
    }

    fn bytes(&self) -> usize {
        self.set.bytes() + self.counters.bytes()
    }
}

impl Aggregate for Operator {
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        let column = scan.args[0].slice(scan.start, scan.end - scan.start);
        each_row(scan, |group, row, is_expired| {
            let Value::Object(Object::Set(elements)) = column.value(row) else {
                context.fail(
                    scan.start + row,
                    "cannot aggregate a value that is not a set",
                );
                return out.push_null();
            };
            let union = self.states.at(group);
            let before = union.bytes();
            for element in elements.lock().iter() {
                if is_expired {
                    union.remove(element, self.tracks);
                } else {
                    union.add(element, self.tracks);
                }
            }
            if self.forgets && union.set.is_empty() {
                *union = Union::default();
            }
            self.total.change(before, union.bytes());
            // A copy: what was given out must not change later.
            let copy = Shared::new(union.set.to_vec());
            out.push(&Value::Object(Object::Set(copy)));
        });
    }

    fn forget_empty(&mut self) {
        self.forgets = true;
    }

    fn clear(&mut self, group: Group) {
        let bytes = self.states.get(group).map_or(0, Union::bytes);
        self.total.change(bytes, 0);
        self.states.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.states.get(group).is_none_or(|u| u.set.is_empty())
    }

    fn release(&mut self, groups: Range<Group>) {
        self.states.release(groups);
    }

    fn bytes(&self) -> usize {
        self.states.bytes() + self.total.bytes()
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        writer.u8(1);
        let Some(union) = self.states.get(group) else {
            writer.count(0);
            return writer.count(0);
        };
        writer.count(union.set.len());
        union.set.iter().for_each(|v| writer.value(v));
        let mut counters: Vec<Vec<u8>> = union
            .counters
            .iter()
            .map(|(value, &count)| {
                let mut entry = Writer::default();
                entry.value(value);
                entry.u64(count);
                entry.bytes
            })
            .collect();
        counters.sort_unstable();
        writer.count(counters.len());
        counters.iter().for_each(|entry| writer.blob(entry));
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        check_version(reader, 1)?;
        self.clear(group);
        let union = self.states.at(group);
        for _ in 0..reader.count()? {
            union.set.push(reader.value()?);
        }
        for _ in 0..reader.count()? {
            let mut entry = reader.section()?;
            union.counters.add(&entry.value()?, entry.u64()?);
        }
        self.total.change(0, union.bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn the_union_follows_the_content() {
        check(
            "unionSet",
            Type::Object,
            "{x} {y} {x} -{x} -{x}",
            "[x] [x,y] [x,y] [x,y] [y]",
        );
        check_failure("unionSet", Type::Object, "{x} null", &[1], "[x] null");
    }

    #[test]
    fn an_element_that_comes_back_leaves_only_the_second_time() {
        check(
            "unionSet",
            Type::Object,
            "{x} -{x} {x} -{x} -{x}",
            "[x] [] [x] [x] []",
        );
        check_without_removal(
            "unionSet",
            Type::Object,
            "{x} -{x} {x} -{x}",
            "[x] [] [x] []",
        );
    }
}
