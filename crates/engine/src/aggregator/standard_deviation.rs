//! `stdDev(x)`: population standard deviation.

use event::ScalarRef;
use event::codec::{Error as StateError, Reader, Writer};

use super::numeric::{Numbers, Running};
use super::params::*;
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct StandardDeviation;

static SPEC: FunctionSpec = runs(
    aggregator(
        "stdDev",
        "Standard deviation of the values.",
        ONE_NUMBER,
        DOUBLE,
    ),
    "stdDev(price) as spread",
);

impl Aggregator for StandardDeviation {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        let class = args.first().map(|a| a.ty);
        Ok(Box::new(Numbers::<Spread>::new((), class)))
    }
}

/// Welford's update, with the operations in the order of `StdDevAttributeAggregatorExecutor`.
#[derive(Default)]
struct Spread {
    sum: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
    count: i64,
}

impl Running for Spread {
    type Input = f64;
    type Settings = ();
    const COUNTS: bool = true;

    fn add(&mut self, value: f64, (): ()) {
        self.count += 1;
        if self.count == 1 {
            *self = Spread {
                sum: value,
                mean: value,
                squares: 0.0,
                count: 1,
            };
        } else if self.count != 0 {
            let before = self.mean;
            self.sum += value;
            self.mean = self.sum / self.count as f64;
            self.squares += (value - before) * (value - self.mean);
        }
    }

    fn remove(&mut self, value: f64, (): ()) {
        self.count -= 1;
        if self.count == 0 {
            *self = Spread::default();
        } else {
            let before = self.mean;
            self.sum -= value;
            self.mean = self.sum / self.count as f64;
            self.squares -= (value - before) * (value - self.mean);
        }
    }

    fn value(&self) -> ScalarRef<'static> {
        match self.count {
            0 => ScalarRef::Null,
            1 => ScalarRef::Double(0.0),
            count => ScalarRef::Double((self.squares / count as f64).sqrt()),
        }
    }
}

impl GroupState for Spread {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.sum == 0.0 && self.mean == 0.0 && self.squares == 0.0
    }

    fn save(&self, writer: &mut Writer) {
        [self.sum, self.mean, self.squares]
            .into_iter()
            .for_each(|v| writer.f64(v));
        writer.i64(self.count);
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Spread {
            sum: reader.f64()?,
            mean: reader.f64()?,
            squares: reader.f64()?,
            count: reader.i64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn the_spread_follows_the_content() {
        check(
            "stdDev",
            Type::Int,
            "1 3 null -1 -3",
            "0.0 1.0 1.0 0.0 null",
        );
        check(
            "stdDev",
            Type::Double,
            "2.0 4.0 4.0 4.0",
            "0.0 1.0 0.9428090415820634 0.8660254037844386",
        );
    }
}
