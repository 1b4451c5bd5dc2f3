//! `str:groupConcat(x [, separator [, distinct [, order]]])`.

use event::Value;
use event::codec::{Error as StateError, Reader, Writer};
use event::text::to_text;

use super::generic::{Counted, GenericState, Values};
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct GroupConcat;

const KEY: Param = param("key", Types::ANY, "The value.");
const SEPARATOR: Param = param(
    "separator",
    Types::STRING,
    "Text between values; default `,`.",
);
const DISTINCT: Param = param(
    "distinct",
    Types::BOOL,
    "Takes each value once; default false.",
)
.constant();
const ORDER: Param = param("order", Types::STRING, "`ASC` or `DESC`.").constant();

static SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "str",
        "groupConcat",
        "execution-string",
        "The values as one text.",
        &[
            Overload::new(&[KEY]),
            Overload::new(&[KEY, SEPARATOR]),
            Overload::new(&[KEY, SEPARATOR, DISTINCT]),
            Overload::new(&[KEY, SEPARATOR, DISTINCT, ORDER]),
        ],
        STRING,
    ),
    "str:groupConcat(symbol, '-') as symbols",
);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Arrival,
    Ascending,
    Descending,
}

struct Settings {
    distinct: bool,
    order: Order,
}

impl Aggregator for GroupConcat {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        let constant = |index: usize| args.get(index).and_then(|a| a.constant.as_ref());
        let order = match constant(3)
            .and_then(Value::as_str)
            .map(str::to_uppercase)
            .as_deref()
        {
            None => Order::Arrival,
            Some("ASC") => Order::Ascending,
            Some("DESC") => Order::Descending,
            Some(other) => {
                return Err(Refused(format!(
                    "'{other}' is not an order of 'str:groupConcat': write ASC or DESC"
                )));
            }
        };
        let distinct = constant(2).and_then(Value::as_bool).unwrap_or(false);
        Ok(Box::new(Values::<Joined>::new(Settings {
            distinct,
            order,
        })))
    }
}

/// Equal values stand together, where the first of them came.
#[derive(Default)]
struct Joined(Counted);

/// With one argument a null is left out; with more it is the text `null`.
fn text_of(args: &[Value]) -> Option<Value> {
    let is_left_out = args.len() == 1 && args[0].is_null();
    (!is_left_out).then(|| Value::str(&to_text(&args[0])))
}

impl GenericState for Joined {
    type Settings = Settings;

    fn add(&mut self, args: &[Value], _: &Settings) -> Result<(), String> {
        if let Some(text) = text_of(args) {
            self.0.add(text);
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Value], _: &Settings) -> Result<(), String> {
        if let Some(text) = text_of(args) {
            self.0.remove(&text);
        }
        Ok(())
    }

    fn value(&self, args: &[Value], settings: &Settings) -> Result<Value, String> {
        let separator = args.get(1).map_or_else(|| ",".to_owned(), to_text);
        let mut texts: Vec<&str> = self
            .0
            .iter(settings.distinct)
            .filter_map(Value::as_str)
            .collect();
        match settings.order {
            Order::Arrival => {}
            Order::Ascending => texts.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16())),
            Order::Descending => texts.sort_by(|a, b| b.encode_utf16().cmp(a.encode_utf16())),
        }
        Ok(Value::str(&texts.join(&separator)))
    }

    fn lacks(&self, args: &[Value]) -> bool {
        text_of(args).is_some_and(|text| self.0.lacks(&text))
    }
}

impl GroupState for Joined {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn save(&self, writer: &mut Writer) {
        self.0.save(writer);
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Counted::restore(reader).map(Joined)
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::{Type, Value};

    #[test]
    fn equal_values_stand_together() {
        check(
            "str:groupConcat",
            Type::String,
            "a b a -a -b -a",
            "a a,b a,a,b a,b a ",
        );
        let more = [Value::str("-"), Value::Bool(true), Value::str("desc")];
        check_with(
            "str:groupConcat",
            Type::String,
            &more,
            "a c b c null",
            "a c-a c-b-a c-b-a null-c-b-a",
        );
        check_with(
            "str:groupConcat",
            Type::String,
            &[Value::str("|")],
            "a c a",
            "a a|c a|a|c",
        );
    }
}
