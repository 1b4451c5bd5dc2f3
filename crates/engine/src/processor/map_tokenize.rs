//! `#map:tokenize(map, …)`: a row for each key of the maps.

use event::value::Shared;
use event::{Object, Value};

use super::each::{EachRow, Rows};
use crate::function::java_map;
use crate::spec::*;

const MAP: Param = param("map", Types::OBJECT, "A map.");

static SPEC: FunctionSpec = runs(
    FunctionSpec {
        adds: &[("key", Type::Object), ("value", Type::Object)],
        ..function(
            FunctionKind::StreamProcessor,
            "map",
            "tokenize",
            "execution-map",
            "One event for each key.",
            &[Overload::repeating(&[MAP], 1)],
            Returns::Nothing,
        )
    },
    "define stream S (a string, n int);
from S select map:create('name', a, 'n', n) as m insert into Maps;
from Maps#map:tokenize(m) select key, value insert into Out;
---
send S A 1
expect Out [n 1; name A]
",
);

pub const TOKENIZE: EachRow = EachRow {
    spec: &SPEC,
    call: tokenize,
    check: None,
    is_chunk_per_event: false,
};

/// Several maps give the list of their values for each key, null where one has no such key; keys in
/// the order of the set in which Siddhi's `TokenizeStreamProcessor` gathers them.
fn tokenize(args: &[Value], rows: &mut Rows<'_>) -> Result<(), String> {
    let mut maps: Vec<java_map::Entries> = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            Value::Object(Object::Map(map)) => maps.push(map.copied()),
            _ => return Err("an argument of '#map:tokenize' is not a map".into()),
        }
    }
    if let [only] = maps.as_slice() {
        for (key, value) in only {
            rows.push(&[key.clone(), value.clone()]);
        }
        return Ok(());
    }
    let mut keys = java_map::Entries::new();
    for (key, _) in maps.iter().flatten() {
        if java_map::get(&keys, key).is_none() {
            keys.push((key.clone(), Value::Null));
        }
    }
    java_map::into_hash_order(&mut keys);
    for (key, _) in keys {
        let values = maps
            .iter()
            .map(|m| java_map::get(m, &key).cloned().unwrap_or_default());
        let values = Value::Object(Object::List(Shared::new(values.collect())));
        rows.push(&[key, values]);
    }
    Ok(())
}
