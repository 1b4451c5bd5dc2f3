//! `#json:tokenize(json, path)`: a row for each element at a path.

use event::{Object, Value};

use super::each::{EachRow, Rows};
use crate::function::json::{WriteStyle, document, path, to_json};
use crate::spec::*;

const JSON: Param = param("json", Types::STRING_OBJECT, "JSON as text or object.");
const PATH: Param = param("path", Types::STRING, "A JSONPath.");
const FAIL: Param = param(
    "fail.on.missing.attribute",
    Types::BOOL,
    "Drops an event that lacks it.",
);
const TOKENS: &[Overload] = &[
    Overload::new(&[JSON, PATH]),
    Overload::new(&[JSON, PATH, FAIL]),
];

static TEXTS_SPEC: FunctionSpec = runs(
    FunctionSpec {
        adds: &[("jsonElement", Type::String)],
        ..function(
            FunctionKind::StreamProcessor,
            "json",
            "tokenize",
            "execution-json",
            "One event for each element at a path, as text.",
            TOKENS,
            Returns::Nothing,
        )
    },
    "define stream S (json string);
from S#json:tokenize(json, '$.names') select jsonElement insert into Out;
---
send S '{\"names\":[\"A\",\"B\"]}'
expect Out [A; B]
",
);

static OBJECTS_SPEC: FunctionSpec = runs(
    FunctionSpec {
        adds: &[("jsonElement", Type::Object)],
        ..function(
            FunctionKind::StreamProcessor,
            "json",
            "tokenizeAsObject",
            "execution-json",
            "One event for each element at a path, as an object.",
            TOKENS,
            Returns::Nothing,
        )
    },
    "define stream S (json string);
from S#json:tokenizeAsObject(json, '$.orders')
select json:getInt(jsonElement, '$.n') as n insert into Out;
---
send S '{\"orders\":[{\"n\":1},{\"n\":2}]}'
expect Out [1; 2]
",
);

pub const TEXTS: EachRow = EachRow {
    spec: &TEXTS_SPEC,
    call: |args, rows| tokenize(args, rows, true),
    check: None,
    is_chunk_per_event: false,
};

pub const OBJECTS: EachRow = EachRow {
    spec: &OBJECTS_SPEC,
    call: |args, rows| tokenize(args, rows, false),
    check: None,
    is_chunk_per_event: false,
};

/// A list gives a row per element, an object or a text one row, a number or a bool none; what is
/// missing, or an empty list, gives none, or with `false` as last argument one row with null
/// (`JsonTokenizerStreamProcessorFunction`).
fn tokenize(args: &[Value], rows: &mut Rows<'_>, as_text: bool) -> Result<(), String> {
    let Some(place) = args.get(1).and_then(Value::as_str) else {
        return Err("the path of '#json:tokenize' is null".into());
    };
    let drops_missing = args.get(2).and_then(Value::as_bool) != Some(false);
    let document = document(args)?;
    let found = path::read(rows.memo.json().1.get(place)?, &document)?.unwrap_or(Value::Null);
    let elements = match found {
        Value::Object(Object::List(list)) => list.copied(),
        Value::Str(_) | Value::Object(_) => vec![found],
        Value::Null => Vec::new(),
        _ => return Ok(()),
    };
    if elements.is_empty() && !drops_missing {
        rows.push(&[Value::Null]);
    }
    for element in elements {
        rows.push(&[if as_text { text_of(element)? } else { element }]);
    }
    Ok(())
}

/// A text as it is, all else as JSON.
fn text_of(element: Value) -> Result<Value, String> {
    Ok(match element {
        Value::Str(_) => element,
        other => Value::Str(to_json(&other, WriteStyle::Gson)?.into()),
    })
}
