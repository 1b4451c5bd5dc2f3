//! `json:group` and `json:groupAsObject`.

use event::codec::{Error as StateError, Reader, Writer};
use event::value::Shared;
use event::{Object, Value};

use super::generic::{Counted, GenericState, Values};
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::function::json::{ReadStyle, WriteStyle, parse, to_json};
use crate::spec::*;

pub struct Group {
    as_object: bool,
    spec: &'static FunctionSpec,
}

const JSON: Param = param("json", Types::STRING_OBJECT, "JSON as text or object.");
const ENCLOSING: Param = param(
    "enclosing.element",
    Types::STRING,
    "Name of the object around the list.",
);
const DISTINCT: Param = param("distinct", Types::BOOL, "Takes each element once.");
const ARGUMENTS: &[Overload] = &[
    Overload::new(&[JSON]),
    Overload::new(&[JSON, ENCLOSING]),
    Overload::new(&[JSON, DISTINCT]),
    Overload::new(&[JSON, ENCLOSING, DISTINCT]),
];

static TEXT_SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "json",
        "group",
        "execution-json",
        "The documents as one JSON list.",
        ARGUMENTS,
        STRING,
    ),
    "json:group('{\"a\":1}') as s",
);
static OBJECT_SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "json",
        "groupAsObject",
        "execution-json",
        "The documents as one list.",
        ARGUMENTS,
        OBJECT,
    ),
    "json:groupAsObject('{\"a\":1}') as o",
);

pub static GROUP: Group = Group {
    as_object: false,
    spec: &TEXT_SPEC,
};

pub static GROUP_AS_OBJECT: Group = Group {
    as_object: true,
    spec: &OBJECT_SPEC,
};

impl Aggregator for Group {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, _args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Values::<Documents>::new(self.as_object)))
    }
}

/// Equal documents stand together. (Siddhi's `groupAsObject` mixes those of all groups.)
#[derive(Default)]
struct Documents(Counted);

/// The document of the first argument: an object, or null.
fn document(args: &[Value]) -> Result<Value, String> {
    let parsed = match &args[0] {
        Value::Null => return Ok(Value::Null),
        Value::Str(text) => parse(text, ReadStyle::HashedLongs)?,
        other => parse(&to_json(other, WriteStyle::Gson)?, ReadStyle::HashedLongs)?,
    };
    match parsed {
        Value::Object(Object::Map(_)) => Ok(parsed),
        _ => Err("only JSON objects can be grouped".into()),
    }
}

impl GenericState for Documents {
    /// The result is an object, not its text.
    type Settings = bool;

    fn add(&mut self, args: &[Value], _: &bool) -> Result<(), String> {
        self.0.add(document(args)?);
        Ok(())
    }

    fn remove(&mut self, args: &[Value], _: &bool) -> Result<(), String> {
        self.0.remove(&document(args)?);
        Ok(())
    }

    fn value(&self, args: &[Value], as_object: &bool) -> Result<Value, String> {
        let (enclosing, distinct) = match &args[1..] {
            [Value::Bool(distinct)] => (None, *distinct),
            [name] => (Some(name), false),
            [name, distinct] => (Some(name), distinct.as_bool().unwrap_or(false)),
            _ => (None, false),
        };
        let all = self.0.iter(distinct).cloned().collect();
        let list = Value::Object(Object::List(Shared::new(all)));
        let result = match enclosing {
            Some(name) => {
                let entry = (Value::str(&event::text::to_text(name)), list);
                Value::Object(Object::Map(Shared::new(vec![entry])))
            }
            None => list,
        };
        if *as_object {
            return Ok(result);
        }
        to_json(&result, WriteStyle::Smart).map(|text| Value::str(&text))
    }
}

impl GroupState for Documents {
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
        Counted::restore(reader).map(Documents)
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::{Type, Value};

    #[test]
    fn documents_are_gathered() {
        check(
            "json:group",
            Type::String,
            "null {a:1} {a:1} -null",
            "[null] [null,{\"a\":1}] [null,{\"a\":1},{\"a\":1}] [{\"a\":1},{\"a\":1}]",
        );
        let more = [Value::str("r"), Value::Bool(true)];
        check_with(
            "json:group",
            Type::String,
            &more,
            "{a:'x/y'} {a:'x/y'}",
            "{\"r\":[{\"a\":\"x\\/y\"}]} {\"r\":[{\"a\":\"x\\/y\"}]}",
        );
        check("json:groupAsObject", Type::String, "{a:1}", "[{a=1}]");
        check_failure(
            "json:group",
            Type::String,
            "[1] {a:1}",
            &[0],
            "null [{\"a\":1}]",
        );
    }
}
