//! `map:collect(k, v)` and `map:merge(m)`.

use event::codec::{Error as StateError, Reader, Writer};
use event::value::Shared;
use event::{Object, Value};
use lang::catalog::functions::map::FUNCTIONS as KNOWN;
use lang::spec::FunctionSpec;

use super::folded::{Folded, Values};
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::function::java_map::{self, Entries};
use crate::spec::runs;

pub struct Collect {
    merges: bool,
    spec: &'static FunctionSpec,
}

static COLLECT_SPEC: FunctionSpec = runs(KNOWN, "collect", "map:collect(symbol, price) as prices");
static MERGE_SPEC: FunctionSpec = runs(
    KNOWN,
    "merge",
    "map:merge(map:create(symbol, price)) as prices",
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

    fn bind(&self, _args: &[Argument], _removes: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Values::<Collected>::new(self.merges)))
    }
}

/// A row that leaves takes its keys with it, even if a newer row has set them since.
#[derive(Default)]
struct Collected(Entries);

/// The pairs of a row.
fn pairs(args: &[Value], merges: bool) -> Result<Entries, String> {
    if !merges {
        return Ok(vec![(args[0].clone(), args[1].clone())]);
    }
    match &args[0] {
        Value::Object(Object::Map(map)) => Ok(map.copied()),
        _ => Err("only maps can be merged".into()),
    }
}

impl Folded for Collected {
    /// The rows are maps.
    type Settings = bool;

    fn add(&mut self, args: &[Value], merges: &bool) -> Result<(), String> {
        for (key, value) in pairs(args, *merges)? {
            java_map::put(&mut self.0, key, value);
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Value], merges: &bool) -> Result<(), String> {
        for (key, _) in pairs(args, *merges)? {
            java_map::remove(&mut self.0, &key);
        }
        Ok(())
    }

    fn value(&self, _: &[Value], _: &bool) -> Result<Value, String> {
        Ok(Value::Object(Object::Map(Shared::new(self.0.clone()))))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn save(&self, writer: &mut Writer) {
        writer.count(self.0.len());
        for (key, value) in &self.0 {
            writer.value(key);
            writer.value(value);
        }
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let count = reader.count()?;
        let entries = (0..count).map(|_| Ok((reader.value()?, reader.value()?)));
        Ok(Collected(entries.collect::<Result<_, StateError>>()?))
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregator::testing::*;
    use event::{Type, Value};

    #[test]
    fn pairs_are_collected() {
        let one = [Value::Int(1)];
        check_with(
            "map:collect",
            Type::String,
            &one,
            "x y x -x",
            "{x=1} {x=1,y=1} {x=1,y=1} {y=1}",
        );
        check_failure("map:merge", Type::String, "x", &[0], "null");
    }
}
