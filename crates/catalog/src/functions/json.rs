//! `json:`, JSON as text and as objects.

use event::Type;

use super::{BOOL, DOUBLE, FLOAT, INT, LONG, OBJECT, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const JSON: Param = param("json", Types::STRING_OBJECT, "JSON as text or object.");
const PATH: Param = param("path", Types::STRING, "A JSONPath.");
const ELEMENT: Param = param("json.element", Types::ANY, "What to put there.");
const KEY: Param = param("key", Types::STRING, "Name of a new member.");
const ENCLOSING: Param = param(
    "enclosing.element",
    Types::STRING,
    "Name of the object around the list.",
);
const DISTINCT: Param = param("distinct", Types::BOOL, "Takes each element once.");
const FAIL: Param = param(
    "fail.on.missing.attribute",
    Types::BOOL,
    "Drops an event that lacks it.",
);

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "json",
        name,
        "execution-json",
        summary,
        overloads,
        returns,
    )
}

const AT: &[Overload] = &[Overload::new(&[JSON, PATH])];
const GROUP: &[Overload] = &[
    Overload::new(&[JSON]),
    Overload::new(&[JSON, ENCLOSING]),
    Overload::new(&[JSON, DISTINCT]),
    Overload::new(&[JSON, ENCLOSING, DISTINCT]),
];
const TOKENS: &[Overload] = &[
    Overload::new(&[JSON, PATH]),
    Overload::new(&[JSON, PATH, FAIL]),
];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar("getBool", "The BOOL at a path.", AT, BOOL),
    scalar("getDouble", "The DOUBLE at a path.", AT, DOUBLE),
    scalar("getFloat", "The FLOAT at a path.", AT, FLOAT),
    scalar("getInt", "The INT at a path.", AT, INT),
    scalar("getLong", "The LONG at a path.", AT, LONG),
    scalar("getObject", "The object at a path.", AT, OBJECT),
    scalar("getString", "The text at a path.", AT, STRING),
    scalar(
        "isExists",
        "Whether there is something at a path.",
        AT,
        BOOL,
    ),
    scalar(
        "setElement",
        "The document with something put at a path.",
        &[
            Overload::new(&[JSON, PATH, ELEMENT]),
            Overload::new(&[JSON, PATH, ELEMENT, KEY]),
        ],
        OBJECT,
    ),
    scalar(
        "toObject",
        "The object of a JSON text.",
        &[Overload::new(&[param(
            "json",
            Types::STRING,
            "JSON as text.",
        )])],
        OBJECT,
    ),
    scalar(
        "toString",
        "The text of an object.",
        &[
            Overload::new(&[JSON]),
            Overload::new(&[JSON, param("allow.escape", Types::BOOL, "Encodes twice.")]),
        ],
        STRING,
    ),
    known(
        FunctionKind::Aggregator,
        "json",
        "group",
        "execution-json",
        "The documents as one JSON list.",
        GROUP,
        STRING,
    ),
    known(
        FunctionKind::Aggregator,
        "json",
        "groupAsObject",
        "execution-json",
        "The documents as one list.",
        GROUP,
        OBJECT,
    ),
    FunctionSpec {
        adds: &[("jsonElement", Type::String)],
        ..known(
            FunctionKind::StreamProcessor,
            "json",
            "tokenize",
            "execution-json",
            "One event for each element at a path, as text.",
            TOKENS,
            Returns::Nothing,
        )
    },
    FunctionSpec {
        adds: &[("jsonElement", Type::Object)],
        ..known(
            FunctionKind::StreamProcessor,
            "json",
            "tokenizeAsObject",
            "execution-json",
            "One event for each element at a path, as an object.",
            TOKENS,
            Returns::Nothing,
        )
    },
];
