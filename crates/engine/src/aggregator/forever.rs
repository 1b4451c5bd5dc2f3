//! `minForever(x)` and `maxForever(x)`: extremes that no removal takes back.

use event::codec::{Error as StateError, Reader, Writer};
use event::{ScalarRef, Type};

use super::extreme::End;
use super::numeric::{Number, Numbers, Running};
use super::params::*;
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct Forever {
    end: End,
    spec: &'static FunctionSpec,
}

static MIN_SPEC: FunctionSpec = runs(
    aggregator(
        "minForever",
        "The smallest value so far, also of events that have left.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    "minForever(price) as lowest",
);
static MAX_SPEC: FunctionSpec = runs(
    aggregator(
        "maxForever",
        "The largest value so far, also of events that have left.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    "maxForever(price) as highest",
);

pub static MIN_FOREVER: Forever = Forever {
    end: End::Smallest,
    spec: &MIN_SPEC,
};

pub static MAX_FOREVER: Forever = Forever {
    end: End::Largest,
    spec: &MAX_SPEC,
};

impl Aggregator for Forever {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        let class = args.first().map(|a| a.ty);
        Ok(match class {
            Some(Type::Int) => Box::new(Numbers::<Best<i32>>::new(self.end, class)),
            Some(Type::Long) => Box::new(Numbers::<Best<i64>>::new(self.end, class)),
            Some(Type::Float) => Box::new(Numbers::<Best<f32>>::new(self.end, class)),
            _ => Box::new(Numbers::<Best<f64>>::new(self.end, class)),
        })
    }
}

/// The best so far. A removed value is looked at as well (`MaxForeverAttributeAggregatorExecutor`); a
/// RESET begins anew, so in a batch window the value is that of the batch.
struct Best<T>(Option<T>);

impl<T> Default for Best<T> {
    fn default() -> Self {
        Best(None)
    }
}

impl<T: Number> Running for Best<T> {
    type Input = T;
    type Settings = End;

    fn add(&mut self, value: T, end: End) {
        if self.0.is_none_or(|best| end.is_worse(best, value)) {
            self.0 = Some(value);
        }
    }

    fn remove(&mut self, value: T, end: End) {
        self.add(value, end);
    }

    fn value(&self) -> ScalarRef<'static> {
        self.0.map_or(ScalarRef::Null, Number::single)
    }
}

impl<T: Number> GroupState for Best<T> {
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn save(&self, writer: &mut Writer) {
        writer.value(&self.0.map(Number::to_value).unwrap_or_default());
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Best(T::of_value(&reader.value()?)))
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn removal_takes_nothing_back() {
        check("maxForever", Type::Int, "3 5 -5 4 null R 1", "3 5 5 5 5 1");
        check("minForever", Type::Double, "3.0 -2.0 5.0", "3.0 2.0 2.0");
    }
}
