//! `sum(x)`.

use event::codec::{Error as StateError, Reader, Writer};
use event::{ScalarRef, Type};

use super::numeric::{Number, Numbers, Running};
use super::params::*;
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct Sum;

static SPEC: FunctionSpec = runs(
    aggregator("sum", "Sum of the values.", ONE_NUMBER, Returns::Widened(0)),
    "sum(price) as total",
);

impl Aggregator for Sum {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(match args.first().map(|a| a.ty) {
            Some(Type::Float | Type::Double) => Box::new(Numbers::<Total<f64>>::new((), None)),
            _ => Box::new(Numbers::<Total<i64>>::new((), None)),
        })
    }
}

/// `SumAttributeAggregatorExecutor`: the rest that float rounding leaves in an empty sum stays. Unlike
/// Siddhi's, which takes a LONG out through a double, sums of LONG are exact.
#[derive(Default)]
struct Total<T> {
    sum: T,
    count: i64,
}

/// Java's addition: wraps.
pub trait Add: Number + Default {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn save(self, writer: &mut Writer);
    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError>;
}

impl Add for i64 {
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    fn minus(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }

    fn save(self, writer: &mut Writer) {
        writer.i64(self);
    }

    fn restore(reader: &mut Reader<'_>) -> Result<i64, StateError> {
        reader.i64()
    }
}

impl Add for f64 {
    fn plus(self, other: f64) -> f64 {
        self + other
    }

    fn minus(self, other: f64) -> f64 {
        self - other
    }

    fn save(self, writer: &mut Writer) {
        writer.f64(self);
    }

    fn restore(reader: &mut Reader<'_>) -> Result<f64, StateError> {
        reader.f64()
    }
}

impl<T: Add> Running for Total<T> {
    type Input = T;
    type Settings = ();
    const COUNTS: bool = true;

    #[inline(always)]
    fn add(&mut self, value: T, (): ()) {
        self.sum = self.sum.plus(value);
        self.count += 1;
    }

    #[inline(always)]
    fn remove(&mut self, value: T, (): ()) {
        self.sum = self.sum.minus(value);
        self.count -= 1;
    }

    #[inline(always)]
    fn value(&self) -> ScalarRef<'static> {
        if self.count == 0 {
            ScalarRef::Null
        } else {
            self.sum.single()
        }
    }

    /// A value that makes up for one that left before it gives a sum, if of nothing.
    #[inline(always)]
    fn value_added(&self) -> ScalarRef<'static> {
        self.sum.single()
    }
}

impl<T: Add> GroupState for Total<T> {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.sum == T::default()
    }

    fn save(&self, writer: &mut Writer) {
        self.sum.save(writer);
        writer.i64(self.count);
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Total {
            sum: T::restore(reader)?,
            count: reader.i64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn values_enter_and_leave() {
        check("sum", Type::Int, "1 2 -1 3 -2 -3", "1L 3L 2L 5L 3L null");
        check("sum", Type::Double, "1.5 2.5 -1.5", "1.5 4.0 2.5");
        check("sum", Type::Float, "0.5 0.25", "0.5 0.75");
    }

    #[test]
    fn a_null_leaves_the_sum_alone() {
        check(
            "sum",
            Type::Long,
            "null 1 null -null -1",
            "null 1L 1L 1L null",
        );
    }

    #[test]
    fn groups_are_kept_apart_and_a_reset_drops_them() {
        check(
            "sum",
            Type::Long,
            "a:1 b:2 a:3 -b:2 R a:5",
            "1L 2L 4L null 5L",
        );
    }

    #[test]
    fn sums_of_long_are_exact_and_wrap() {
        check(
            "sum",
            Type::Long,
            "9007199254740993 1 -9007199254740993",
            "9007199254740993L 9007199254740994L 1L",
        );
        check(
            "sum",
            Type::Long,
            "9223372036854775807 1",
            "9223372036854775807L -9223372036854775808L",
        );
    }

    #[test]
    fn the_rest_of_rounding_keeps_a_group_alive() {
        check(
            "sum",
            Type::Double,
            "0.1 0.2 -0.1 -0.2 1.0",
            "0.1 0.30000000000000004 0.20000000000000004 null 1.0",
        );
        assert!(!is_empty_after("sum", Type::Double, "0.1 0.2 -0.1 -0.2"));
        assert!(is_empty_after("sum", Type::Double, "0.5 0.25 -0.5 -0.25"));
    }

    #[test]
    fn what_is_no_number_fails_its_row() {
        check_failure("sum", Type::Long, "1 x 2", &[1], "1L null 3L");
    }
}
