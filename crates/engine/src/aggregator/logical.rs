//! `and(b)` and `or(b)`.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::{ColumnBuilder, Value};

use super::params::*;
use super::states::{States, check_version, each_row};
use crate::component::{Aggregate, Aggregator, Argument, EvalContext, Group, Refused, Scan};
use crate::spec::*;

pub struct Logical {
    is_and: bool,
    spec: &'static FunctionSpec,
}

const ONE_BOOL: &[Overload] = &[Overload::new(&[param("arg", Types::BOOL, "The value.")])];

static AND_SPEC: FunctionSpec = runs(
    aggregator("and", "True when all values are.", ONE_BOOL, BOOL),
    "and(price > 10.0) as allHigh",
);
static OR_SPEC: FunctionSpec = runs(
    aggregator("or", "True when any value is.", ONE_BOOL, BOOL),
    "or(price > 10.0) as anyHigh",
);

pub static AND: Logical = Logical {
    is_and: true,
    spec: &AND_SPEC,
};

pub static OR: Logical = Logical {
    is_and: false,
    spec: &OR_SPEC,
};

impl Aggregator for Logical {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, _args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Operator {
            is_and: self.is_and,
            states: States::default(),
        }))
    }
}

struct Operator {
    is_and: bool,
    states: States<Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    yes: i64,
    no: i64,
}

impl Aggregate for Operator {
    /// A null fails its row, as unboxing it does in Java (`AndAttributeAggregatorExecutor`).
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        let column = scan.args[0].slice(scan.start, scan.end - scan.start);
        each_row(scan, |group, row, is_expired| {
            let Value::Bool(value) = column.value(row) else {
                context.fail(
                    scan.start + row,
                    "cannot aggregate a value that is not a bool",
                );
                return out.push_null();
            };
            let counts = self.states.at(group);
            let side = if value {
                &mut counts.yes
            } else {
                &mut counts.no
            };
            *side += if is_expired { -1 } else { 1 };
            out.push_bool(counts.yes > 0 && (!self.is_and || counts.no == 0));
        });
    }

    fn clear(&mut self, group: Group) {
        self.states.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.states
            .get(group)
            .is_none_or(|c| c.yes == 0 && c.no == 0)
    }

    fn release(&mut self, groups: Range<Group>) {
        self.states.release(groups);
    }

    fn bytes(&self) -> usize {
        self.states.bytes()
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        let counts = self.states.get(group).copied().unwrap_or_default();
        writer.u8(1);
        writer.i64(counts.yes);
        writer.i64(counts.no);
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        check_version(reader, 1)?;
        *self.states.at(group) = Counts {
            yes: reader.i64()?,
            no: reader.i64()?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn conjunction_and_disjunction_over_the_content() {
        let input = "true false -false -true false";
        check("and", Type::Bool, input, "true false true false false");
        check("or", Type::Bool, input, "true true true false false");
        check_failure("and", Type::Bool, "true null true", &[1], "true null true");
    }
}
