//! `avg(x)`.

use event::ScalarRef;
use event::codec::{Error as StateError, Reader, Writer};

use super::numeric::{Numbers, Running};
use super::params::*;
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct Average;

static SPEC: FunctionSpec = runs(
    aggregator("avg", "Mean of the values.", ONE_NUMBER, DOUBLE),
    "avg(price) as mean",
);

impl Aggregator for Average {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        let class = args.first().map(|a| a.ty);
        Ok(Box::new(Numbers::<Mean>::new((), class)))
    }
}

/// `AvgAttributeAggregatorExecutor`: a sum in double and a count.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: i64,
}

impl Running for Mean {
    type Input = f64;
    type Settings = ();
    const COUNTS: bool = true;

    #[inline(always)]
    fn add(&mut self, value: f64, (): ()) {
        self.sum += value;
        self.count += 1;
    }

    #[inline(always)]
    fn remove(&mut self, value: f64, (): ()) {
        self.sum -= value;
        self.count -= 1;
    }

    #[inline(always)]
    fn value(&self) -> ScalarRef<'static> {
        if self.count == 0 {
            ScalarRef::Null
        } else {
            ScalarRef::Double(self.sum / self.count as f64)
        }
    }
}

impl GroupState for Mean {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.sum == 0.0
    }

    fn save(&self, writer: &mut Writer) {
        writer.f64(self.sum);
        writer.i64(self.count);
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Mean {
            sum: reader.f64()?,
            count: reader.i64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn the_mean_follows_the_content() {
        check("avg", Type::Int, "1 2 -1 null -2", "1.0 1.5 2.0 2.0 null");
        check("avg", Type::Float, "0.5 1.5", "0.5 1.0");
        check("avg", Type::Double, "a:1.0 b:2.0 a:3.0", "1.0 2.0 2.0");
    }
}
