//! `list:`, lists of values.

use event::Type;

use super::{BOOL, INT, NONE, OBJECT, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const LIST: Param = param("list", Types::OBJECT, "A list.");
const GIVEN: Param = param("given.list", Types::OBJECT, "Another list.");
const TO: Param = param("to.list", Types::OBJECT, "The list that is changed.");
const FROM: Param = param("from.list", Types::OBJECT, "The list that is read.");
const VALUE: Param = param("value", Types::ANY, "The value.");
const INDEX: Param = param("index", Types::INT, "Place, from 0.");
const DISTINCT: Param = param("is.distinct", Types::BOOL, "Takes each value once.");

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "list",
        name,
        "execution-list",
        summary,
        overloads,
        returns,
    )
}

const ONE: &[Overload] = &[Overload::new(&[LIST])];
const WITH_VALUE: &[Overload] = &[Overload::new(&[LIST, VALUE])];
const WITH_LIST: &[Overload] = &[Overload::new(&[LIST, GIVEN])];
const WITH_INDEX: &[Overload] = &[Overload::new(&[LIST, INDEX])];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar(
        "add",
        "Adds a value at the end or at a place.",
        &[
            Overload::new(&[LIST, VALUE]),
            Overload::new(&[LIST, VALUE, INDEX]),
        ],
        OBJECT,
    ),
    scalar(
        "addAll",
        "Adds all values of another list.",
        &[
            Overload::new(&[TO, FROM]),
            Overload::new(&[TO, FROM, DISTINCT]),
        ],
        OBJECT,
    ),
    scalar("clear", "Empties a list.", ONE, OBJECT),
    scalar("clone", "A copy of a list.", ONE, OBJECT),
    scalar("contains", "Whether a list has a value.", WITH_VALUE, BOOL),
    scalar(
        "containsAll",
        "Whether a list has all values of another.",
        WITH_LIST,
        BOOL,
    ),
    scalar(
        "containsAny",
        "Whether a list has any value of another.",
        WITH_LIST,
        BOOL,
    ),
    scalar(
        "create",
        "A list of the given values.",
        &[NONE, Overload::repeating(&[VALUE], 1)],
        OBJECT,
    ),
    scalar(
        "get",
        "The value at a place, null outside.",
        WITH_INDEX,
        OBJECT,
    ),
    scalar("indexOf", "First place of a value, or -1.", WITH_VALUE, INT),
    scalar("isEmpty", "Whether a list is empty.", ONE, BOOL),
    scalar(
        "isList",
        "Whether a value is a list.",
        &[Overload::new(&[param("arg", Types::ANY, "The value.")])],
        BOOL,
    ),
    scalar(
        "lastIndexOf",
        "Last place of a value, or -1.",
        WITH_VALUE,
        INT,
    ),
    scalar(
        "remove",
        "Takes the first such value out.",
        WITH_VALUE,
        OBJECT,
    ),
    scalar(
        "removeAll",
        "Takes all values of another list out.",
        WITH_LIST,
        OBJECT,
    ),
    scalar(
        "removeByIndex",
        "Takes the value at a place out.",
        WITH_INDEX,
        OBJECT,
    ),
    scalar(
        "retainAll",
        "Keeps only the values of another list.",
        WITH_LIST,
        OBJECT,
    ),
    scalar(
        "setValue",
        "Replaces the value at a place.",
        &[Overload::new(&[LIST, INDEX, VALUE])],
        OBJECT,
    ),
    scalar("size", "How many values there are.", ONE, INT),
    scalar(
        "sort",
        "Sorts a list, or turns it round.",
        &[
            Overload::new(&[LIST]),
            Overload::new(&[
                LIST,
                param("order", Types::STRING, "`ASC`, `DESC` or `REV`.").constant(),
            ]),
        ],
        OBJECT,
    ),
    known(
        FunctionKind::Aggregator,
        "list",
        "collect",
        "execution-list",
        "A list of all values.",
        &[Overload::new(&[VALUE]), Overload::new(&[VALUE, DISTINCT])],
        OBJECT,
    ),
    known(
        FunctionKind::Aggregator,
        "list",
        "merge",
        "execution-list",
        "All lists as one.",
        &[Overload::new(&[LIST]), Overload::new(&[LIST, DISTINCT])],
        OBJECT,
    ),
    FunctionSpec {
        adds: &[("index", Type::Int), ("value", Type::Object)],
        ..known(
            FunctionKind::StreamProcessor,
            "list",
            "tokenize",
            "execution-list",
            "One event for each value.",
            &[Overload::repeating(&[LIST], 1)],
            Returns::Nothing,
        )
    },
];
