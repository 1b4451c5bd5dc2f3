//! `regex:`, regular expressions; the pattern comes first.

use super::{BOOL, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const REGEX: Param = param("regex", Types::STRING, "A regular expression.");
const TEXT: Param = param("input.sequence", Types::STRING, "The text.");

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "regex",
        name,
        "execution-regex",
        summary,
        overloads,
        returns,
    )
}

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar(
        "find",
        "Whether the text holds a match.",
        &[
            Overload::new(&[REGEX, TEXT]),
            Overload::new(&[
                REGEX,
                TEXT,
                param("starting.index", Types::INT, "Where to begin, from 0."),
            ]),
        ],
        BOOL,
    ),
    scalar(
        "group",
        "A group of the first match.",
        &[Overload::new(&[
            REGEX,
            TEXT,
            param("group.id", Types::INT, "Which group."),
        ])],
        STRING,
    ),
    scalar(
        "lookingAt",
        "Whether the text begins with a match.",
        &[Overload::new(&[REGEX, TEXT])],
        BOOL,
    ),
    scalar(
        "matches",
        "Whether the whole text matches.",
        &[Overload::new(&[REGEX, TEXT])],
        BOOL,
    ),
];
