//! Parameters that several functions of `regex:` take, and the start of their specs.

use crate::spec::*;

pub(super) const REGEX: Param = param("regex", Types::STRING, "A regular expression.");

pub(super) const TEXT: Param = param("input.sequence", Types::STRING, "The text.");

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "regex",
        name,
        "execution-regex",
        summary,
        overloads,
        returns,
    )
}
