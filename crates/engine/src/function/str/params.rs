//! Parameters that several functions of `str:` take, and the start of their specs.

use crate::spec::*;

pub(super) const S: Param = param("input.string", Types::STRING, "The text.");

pub(super) const PART: Param = param("search.string", Types::STRING, "What to look for.");

pub(super) const REGEX: Param = param("regex", Types::STRING, "A regular expression.");

pub(super) const REPLACEMENT: Param = param(
    "replacement.string",
    Types::STRING,
    "The replacement; `$1` refers to a group.",
);

pub(super) const GROUP: Param = param("group.number", Types::INT, "Which group or part.");

pub(super) const VALUE: Param = param("arg", Types::BASIC, "The value.");

pub(super) const A: Param = param("arg1", Types::STRING, "The first text.");

pub(super) const B: Param = param("arg2", Types::STRING, "The second text.");

pub(super) const INDEX: Param = param("index", Types::INT, "Place, from 0.");

pub(super) const BEGIN: Param = param("begin.index", Types::INT, "First place, from 0.");

pub(super) const TEMPLATE: Param = param(
    "template",
    Types::STRING,
    "Text with `{{1}}`, `{{2}}` or `{{key}}`.",
);

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "str",
        name,
        "execution-string",
        summary,
        overloads,
        returns,
    )
}

pub(super) const ONE: &[Overload] = &[Overload::new(&[S])];
