//! Parameters that several functions of `json:` take, and the start of their specs.

use crate::spec::*;

pub(super) const JSON: Param = param("json", Types::STRING_OBJECT, "JSON as text or object.");

pub(super) const PATH: Param = param("path", Types::STRING, "A JSONPath.");

pub(super) const ELEMENT: Param = param("json.element", Types::ANY, "What to put there.");

pub(super) const KEY: Param = param("key", Types::STRING, "Name of a new member.");

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "json",
        name,
        "execution-json",
        summary,
        overloads,
        returns,
    )
}

pub(super) const AT: &[Overload] = &[Overload::new(&[JSON, PATH])];
