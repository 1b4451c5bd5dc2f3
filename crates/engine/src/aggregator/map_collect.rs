//! `map:collect(k, v)` and `map:merge(m)`.

use event::codec::{Error as StateError, Reader, Writer};
use event::value::Shared;
use event::{Object, Value};

use super::generic::{GenericState, Values};
use super::states::GroupState;
use crate::component::{Aggregate, Aggregator, Argument, Refused};
use crate::function::java_map::{self, Entries};
use crate::spec::*;

pub struct Collect {
    merges: bool,
    spec: &'static FunctionSpec,
}

const MAP: Param = param("map", Types::OBJECT, "A map.");
const VALUE: Param = param("value", Types::ANY, "The value.");
const BASIC_KEY: Param = param("key", Types::BASIC, "The key.");
const ONE: &[Overload] = &[Overload::new(&[MAP])];

static COLLECT_SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "map",
        "collect",
        "execution-map",
        "A map of all pairs.",
        &[Overload::new(&[BASIC_KEY, VALUE])],
        OBJECT,
    ),
    "map:collect(symbol, price) as prices",
);
static MERGE_SPEC: FunctionSpec = runs(
    function(
        FunctionKind::Aggregator,
        "map",
        "merge",
        "execution-map",
        "All maps as one.",
        ONE,
        OBJECT,
    ),
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

    fn bind(&self, _args: &[Argument], _tracks: bool) -> Result<Box<dyn Aggregate>, Refused> {
        Ok(Box::new(Values::<Collected>::new(self.merges)))
    }
}

/// A row that leaves takes its keys with it, even if a newer row has set them since.
#[derive(Default)]
struct Collected {
    entries: Entries,
    /// Bytes of keys and values beside themselves.
    beside: usize,
}

impl Collected {
    fn put(&mut self, key: Value, value: Value) {
        let (key_bytes, new) = (key.heap_bytes(), value.heap_bytes());
        let old = java_map::put(&mut self.entries, key, value);
        let old = old.map_or(0, |old| key_bytes + old.heap_bytes());
        self.beside = self.beside + key_bytes + new - old;
    }
}

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

impl GenericState for Collected {
    /// The rows are maps.
    type Settings = bool;

    fn add(&mut self, args: &[Value], merges: &bool) -> Result<(), String> {
        for (key, value) in pairs(args, *merges)? {
            self.put(key, value);
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Value], merges: &bool) -> Result<(), String> {
        for (key, _) in pairs(args, *merges)? {
            if let Some(value) = java_map::remove(&mut self.entries, &key) {
                self.beside -= key.heap_bytes() + value.heap_bytes();
            }
        }
        Ok(())
    }

    fn value(&self, _: &[Value], _: &bool) -> Result<Value, String> {
        Ok(Value::Object(Object::Map(Shared::new(
            self.entries.clone(),
        ))))
    }
}

impl GroupState for Collected {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Value, Value)>() + self.beside
    }

    fn save(&self, writer: &mut Writer) {
        writer.count(self.entries.len());
        for (key, value) in &self.entries {
            writer.value(key);
            writer.value(value);
        }
    }

    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut collected = Collected::default();
        for _ in 0..reader.count()? {
            let entry = (reader.value()?, reader.value()?);
            collected.beside += entry.0.heap_bytes() + entry.1.heap_bytes();
            collected.entries.push(entry);
        }
        Ok(collected)
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
