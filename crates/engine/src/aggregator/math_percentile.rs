//! `math:percentile(x, p)`.

use event::Value;
use event::codec::{Error as StateError, Reader, Writer};

use super::generic::{GenericState, Values};
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct Percentile;

static SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "math",
        "percentile",
        "execution-math",
        "The value below which a share of all values lies.",
        &[Overload::new(&[
            param("arg", Types::NUMBER, "The value."),
            param("p", Types::DOUBLE, "The share, above 0 and up to 100.").constant(),
        ])],
        DOUBLE,
    ),
    "math:percentile(price, 97.0) as p",
);

impl Aggregator for Percentile {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        match args.get(1).and_then(|a| a.constant.as_ref()) {
            Some(Value::Double(share)) if *share > 0.0 && *share <= 100.0 => {
                Ok(Box::new(Values::<Sorted>::new(*share)))
            }
            _ => Err(Refused(
                "the share of 'math:percentile' must be a constant double above 0 and up to 100"
                    .into(),
            )),
        }
    }
}

/// All values in order. (Siddhi keeps one list for all groups, and sends whole numbers through a
/// float, so that large ones cannot be removed again.)
#[derive(Default)]
struct Sorted(Vec<f64>);

fn number(args: &[Value]) -> Result<f64, String> {
    args[0]
        .to_double()
        .ok_or_else(|| "a percentile needs numbers".into())
}

impl GenericState for Sorted {
    /// The share, above 0 and up to 100.
    type Settings = f64;
    const FAILS_EMPTY: bool = true;

    fn add(&mut self, args: &[Value], _: &f64) -> Result<(), String> {
        let value = number(args)?;
        let at = self.0.partition_point(|v| v.total_cmp(&value).is_le());
        self.0.insert(at, value);
        Ok(())
    }

    fn remove(&mut self, args: &[Value], _: &f64) -> Result<(), String> {
        let value = number(args)?;
        if let Ok(at) = self.0.binary_search_by(|v| v.total_cmp(&value)) {
            self.0.remove(at);
        }
        Ok(())
    }

    /// The value at the share of the count; between two where that is whole.
    fn value(&self, _: &[Value], share: &f64) -> Result<Value, String> {
        let values = &self.0;
        if values.is_empty() {
            return Ok(Value::Null);
        }
        let place = share * values.len() as f64 / 100.0;
        let value = if place.fract() == 0.0 {
            let at = place as usize;
            if at == values.len() {
                values[at - 1]
            } else {
                (values[at - 1] + values[at]) / 2.0
            }
        } else {
            let at = (place + 0.5).floor() as usize;
            values[at.saturating_sub(1)]
        };
        Ok(Value::Double(value))
    }
}

impl GroupState for Sorted {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<f64>()
    }

    fn save(&self, writer: &mut Writer) {
        writer.count(self.0.len());
        self.0.iter().for_each(|v| writer.f64(*v));
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let count = reader.count()?;
        Ok(Sorted(
            (0..count).map(|_| reader.f64()).collect::<Result<_, _>>()?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::{Type, Value};

    #[test]
    fn shares_of_the_content() {
        let half = [Value::Double(50.0)];
        check_with(
            "math:percentile",
            Type::Int,
            &half,
            "4 2 9 -4 -2 -9",
            "4.0 3.0 4.0 5.5 9.0 null",
        );
        check_with(
            "math:percentile",
            Type::Double,
            &[Value::Double(97.0)],
            "1.0 2.0 3.0",
            "1.0 2.0 3.0",
        );
    }
}
