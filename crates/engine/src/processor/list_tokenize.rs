//! `#list:tokenize(list, …)`: a row for each place of the lists.

use event::value::Shared;
use event::{Object, Value};

use super::each::{EachRow, Rows};
use crate::spec::*;

const LIST: Param = param("list", Types::OBJECT, "A list.");

static SPEC: FunctionSpec = runs(
    FunctionSpec {
        adds: &[("index", Type::Int), ("value", Type::Object)],
        ..function(
            FunctionKind::StreamProcessor,
            "list",
            "tokenize",
            "execution-list",
            "One event for each value.",
            &[Overload::repeating(&[LIST], 1)],
            Returns::Nothing,
        )
    },
    "define stream S (a string, b string);
from S select list:create(a, b) as l insert into Lists;
from Lists#list:tokenize(l) select index, value insert into Out;
---
send S A B
expect Out [0 A; 1 B]
",
);

pub const TOKENIZE: EachRow = EachRow {
    spec: &SPEC,
    call: tokenize,
    check: None,
    is_chunk_per_event: false,
};

/// Several lists give the list of their values at each place, null where one is shorter.
fn tokenize(args: &[Value], rows: &mut Rows<'_>) -> Result<(), String> {
    let mut lists: Vec<Vec<Value>> = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            Value::Object(Object::List(list)) => lists.push(list.copied()),
            _ => return Err("an argument of '#list:tokenize' is not a list".into()),
        }
    }
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    for place in 0..longest {
        let at = |list: &Vec<Value>| list.get(place).cloned().unwrap_or_default();
        let value = match lists.as_slice() {
            [only] => at(only),
            all => Value::Object(Object::List(Shared::new(all.iter().map(at).collect()))),
        };
        rows.push(&[Value::Int(place as i32), value]);
    }
    Ok(())
}
