//! `min(x)` and `max(x)`.

use std::collections::VecDeque;

use event::codec::{Error as StateError, Reader, Writer};
use event::{ScalarRef, Type};

use super::numeric::{Number, Numbers, Running};
use super::params::*;
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

/// Which end of the order is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Smallest,
    Largest,
}

impl End {
    /// Is `a` worse than `b`, so that `b` takes its place?
    pub fn is_worse<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            End::Smallest => a > b,
            End::Largest => a < b,
        }
    }
}

pub struct Extreme {
    end: End,
    spec: &'static FunctionSpec,
}

static MIN_SPEC: FunctionSpec = runs(
    aggregator(
        "min",
        "The smallest value.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    "min(price) as lowest",
);
static MAX_SPEC: FunctionSpec = runs(
    aggregator(
        "max",
        "The largest value.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    "max(price) as highest",
);

pub static MIN: Extreme = Extreme {
    end: End::Smallest,
    spec: &MIN_SPEC,
};

pub static MAX: Extreme = Extreme {
    end: End::Largest,
    spec: &MAX_SPEC,
};

impl Aggregator for Extreme {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, args: &[Argument], tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        let settings = Settings {
            end: self.end,
            tracks,
        };
        let class = args.first().map(|a| a.ty);
        Ok(match class {
            Some(Type::Int) => Box::new(Numbers::<Best<i32>>::new(settings, class)),
            Some(Type::Long) => Box::new(Numbers::<Best<i64>>::new(settings, class)),
            Some(Type::Float) => Box::new(Numbers::<Best<f32>>::new(settings, class)),
            _ => Box::new(Numbers::<Best<f64>>::new(settings, class)),
        })
    }
}

#[derive(Clone, Copy)]
struct Settings {
    end: End,
    tracks: bool,
}

/// `MaxAttributeAggregatorExecutor`: values that a later one has overtaken can never be the answer
/// again and are dropped, so the first of the rest is the answer. Without removals only the best is
/// kept.
struct Best<T> {
    best: Option<T>,
    waiting: VecDeque<T>,
}

impl<T> Default for Best<T> {
    fn default() -> Self {
        Best {
            best: None,
            waiting: VecDeque::new(),
        }
    }
}

impl<T: Number> Running for Best<T> {
    type Input = T;
    type Settings = Settings;

    fn add(&mut self, value: T, settings: Settings) {
        if settings.tracks {
            while let Some(&last) = self.waiting.back()
                && settings.end.is_worse(last, value)
            {
                self.waiting.pop_back();
            }
            self.waiting.push_back(value);
        }
        if self
            .best
            .is_none_or(|best| settings.end.is_worse(best, value))
        {
            self.best = Some(value);
        }
    }

    fn remove(&mut self, value: T, settings: Settings) {
        if settings.tracks {
            if let Some(at) = self.waiting.iter().position(|v| v.equals(value)) {
                self.waiting.remove(at);
            }
            self.best = self.waiting.front().copied();
        } else if self.best.is_some_and(|best| best.equals(value)) {
            self.best = None;
        }
    }

    fn value(&self) -> ScalarRef<'static> {
        self.best.map_or(ScalarRef::Null, Number::single)
    }

    const KEEPS: bool = true;
}

impl<T: Number> GroupState for Best<T> {
    fn is_empty(&self) -> bool {
        self.best.is_none() && self.waiting.is_empty()
    }

    fn bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<T>()
    }

    fn save(&self, writer: &mut Writer) {
        let value = |v: &T| (*v).to_value();
        writer.value(&self.best.as_ref().map(value).unwrap_or_default());
        writer.count(self.waiting.len());
        self.waiting.iter().for_each(|v| writer.value(&value(v)));
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let best = reader.value()?;
        let count = reader.count()?;
        let waiting = (0..count).map(|_| {
            let value = reader.value()?;
            T::of_value(&value)
                .ok_or_else(|| StateError::Mismatch("a value is not a number".into()))
        });
        Ok(Best {
            waiting: waiting.collect::<Result<_, _>>()?,
            best: T::of_value(&best),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::Type;

    #[test]
    fn extremes_follow_a_sliding_window() {
        check(
            "max",
            Type::Int,
            "3 5 -3 1 -5 2 -1 -2",
            "3 5 5 5 1 2 2 null",
        );
        check(
            "min",
            Type::Long,
            "3 5 -3 1 -5 2 -1 -2",
            "3L 3L 5L 1L 1L 1L 2L null",
        );
        check(
            "max",
            Type::Double,
            "a:1.0 b:9.0 null a:2.0 R a:1.0",
            "1.0 9.0 null 2.0 1.0",
        );
        check("min", Type::Float, "1.5 0.5 -1.5", "1.5F 0.5F 0.5F");
    }

    #[test]
    fn equal_values_leave_one_by_one() {
        check("max", Type::Int, "4 4 -4 -4", "4 4 4 null");
    }

    #[test]
    fn without_expected_removals_the_best_goes_with_its_row() {
        check_without_removal("max", Type::Int, "3 5 4 -3 -5", "3 5 5 5 null");
    }

    #[test]
    fn only_the_own_class_is_taken() {
        check_failure("max", Type::Int, "3 x 4", &[1], "3 null 4");
    }
}
