//! Parameters that several functions of `map:` take, and the start of their specs.

use crate::spec::*;

pub(super) const MAP: Param = param("map", Types::OBJECT, "A map.");

pub(super) const TO: Param = param("to.map", Types::OBJECT, "The map that is changed.");

pub(super) const FROM: Param = param("from.map", Types::OBJECT, "The map that is read.");

pub(super) const KEY: Param = param("key", Types::ANY, "The key.");

pub(super) const VALUE: Param = param("value", Types::ANY, "The value.");

pub(super) const BASIC_KEY: Param = param("key", Types::BASIC, "The key.");

pub(super) const BASIC_VALUE: Param = param("value", Types::BASIC, "The value.");

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "map",
        name,
        "execution-map",
        summary,
        overloads,
        returns,
    )
}

pub(super) const ONE: &[Overload] = &[Overload::new(&[MAP])];

pub(super) const TWO: &[Overload] = &[Overload::new(&[TO, FROM])];
