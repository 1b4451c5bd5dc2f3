//! `#str:tokenize(s, regex, distinct)`: a row for each part of a text.

use event::Value;
use javatext::regex::Regex;

use super::each::{EachRow, Rows};
use crate::spec::*;

const S: Param = param("input.string", Types::STRING, "The text.");
const DISTINCT: Param = param(
    "distinct",
    Types::BOOL,
    "Takes each value once; default false.",
)
.constant();
const SPLIT: Param = param("regex", Types::STRING, "The text between parts.").constant();

static SPEC: FunctionSpec = runs(
    FunctionSpec {
        adds: &[("token", Type::String)],
        ..function(
            FunctionKind::StreamProcessor,
            "str",
            "tokenize",
            "execution-string",
            "One event for each part of a text.",
            &[
                Overload::new(&[S, SPLIT]),
                Overload::new(&[S, SPLIT, DISTINCT]),
            ],
            Returns::Nothing,
        )
    },
    "define stream S (words string);
from S#str:tokenize(words, ' ') select token insert into Out;
---
send S 'to be'
expect Out to
expect Out be
",
);

/// All parts of an event are one chunk, by ruling 84; no case replayed here shows it. (Release
/// 5.0.5 sends the whole chunk again for each part, and of a chunk of several events splits only the
/// first: the old form with compat, a chunk for each part.)
pub const TOKENIZE: EachRow = EachRow {
    spec: &SPEC,
    call: tokenize,
    check: Some(|args| {
        let pattern = args.get(1).and_then(|a| a.constant.as_ref());
        match pattern.and_then(Value::as_str) {
            Some(pattern) => Regex::new(pattern)
                .map(drop)
                .map_err(|error| crate::component::Refused(error.to_string())),
            None => Ok(()),
        }
    }),
    is_chunk_per_event: true,
};

fn tokenize(args: &[Value], rows: &mut Rows<'_>) -> Result<(), String> {
    let [Value::Str(text), Value::Str(pattern), rest @ ..] = args else {
        return Err("'#str:tokenize' needs a text and a regular expression, one is null".into());
    };
    let is_distinct = matches!(rest, [Value::Bool(true)]);
    let parts: Vec<String> = {
        let mut parts = rows.memo.regex(pattern)?.split(text)?;
        if is_distinct {
            let mut seen = std::collections::HashSet::new();
            parts.retain(|part| seen.insert(*part));
        }
        parts.into_iter().map(str::to_owned).collect()
    };
    for part in parts {
        rows.push(&[Value::Str(part.into())]);
    }
    Ok(())
}
