//! `list:collect(v [, distinct])` and `list:merge(l [, distinct])`.

use event::codec::{Error as StateError, Reader, Writer};
use event::value::Shared;
use event::{Object, Value};

use super::generic::{GenericState, Values};
use super::states::GroupState;
use super::value_store::ValueStore;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::spec::*;

pub struct Collect {
    merges: bool,
    spec: &'static FunctionSpec,
}

const LIST: Param = param("list", Types::OBJECT, "A list.");
const VALUE: Param = param("value", Types::ANY, "The value.");
const DISTINCT: Param = param("is.distinct", Types::BOOL, "Takes each value once.");

static COLLECT_SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "list",
        "collect",
        "execution-list",
        "A list of all values.",
        &[Overload::new(&[VALUE]), Overload::new(&[VALUE, DISTINCT])],
        OBJECT,
    ),
    "list:collect(symbol) as symbols",
);
static MERGE_SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "list",
        "merge",
        "execution-list",
        "All lists as one.",
        &[Overload::new(&[LIST]), Overload::new(&[LIST, DISTINCT])],
        OBJECT,
    ),
    "list:merge(list:create(symbol)) as symbols",
);

pub static COLLECT: Collect = Collect {
    merges: false,
    spec: &COLLECT_SPEC,
};

pub static MERGE: Collect = Collect {
    merges: true,
    spec: &MERGE_SPEC,
};

impl Aggregator for Collect {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, _args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Values::<Collected>::new(self.merges)))
    }
}

/// With `distinct` there is one copy, which the first of its rows to leave takes along; a merged list
/// that leaves takes all values equal to its own.
#[derive(Default)]
struct Collected(ValueStore);

fn merged(args: &[Value]) -> Result<Vec<Value>, String> {
    match &args[0] {
        Value::Object(Object::List(list)) => Ok(list.copied()),
        _ => Err("only lists can be merged".into()),
    }
}

impl GenericState for Collected {
    /// The rows are lists.
    type Settings = bool;

    fn add(&mut self, args: &[Value], merges: &bool) -> Result<(), String> {
        let distinct = args.get(1).and_then(Value::as_bool).unwrap_or(false);
        let values = if *merges {
            merged(args)?
        } else {
            vec![args[0].clone()]
        };
        for value in values {
            if !distinct || !self.0.contains(&value) {
                self.0.push(value);
            }
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Value], merges: &bool) -> Result<(), String> {
        if *merges {
            let values = merged(args)?;
            self.0.retain(|v| !values.contains(v));
        } else if let Some(at) = self.0.iter().position(|v| *v == args[0]) {
            self.0.remove(at);
        }
        Ok(())
    }

    fn value(&self, _: &[Value], _: &bool) -> Result<Value, String> {
        Ok(Value::Object(Object::List(Shared::new(self.0.to_vec()))))
    }
}

impl GroupState for Collected {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn save(&self, writer: &mut Writer) {
        writer.count(self.0.len());
        self.0.iter().for_each(|v| writer.value(v));
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut kept = ValueStore::default();
        for _ in 0..reader.count()? {
            kept.push(reader.value()?);
        }
        Ok(Collected(kept))
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::{Type, Value};

    #[test]
    fn values_are_collected() {
        check(
            "list:collect",
            Type::String,
            "x y x -x",
            "[x] [x,y] [x,y,x] [y,x]",
        );
        check_with(
            "list:collect",
            Type::String,
            &[Value::Bool(true)],
            "x y x -x",
            "[x] [x,y] [x,y] [y]",
        );
        check_failure("list:merge", Type::String, "x", &[0], "null");
    }
}
