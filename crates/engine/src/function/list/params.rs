//! Parameters that several functions of `list:` take, and the start of their specs.

use crate::spec::*;

pub(super) const LIST: Param = param("list", Types::OBJECT, "A list.");

pub(super) const GIVEN: Param = param("given.list", Types::OBJECT, "Another list.");

pub(super) const TO: Param = param("to.list", Types::OBJECT, "The list that is changed.");

pub(super) const FROM: Param = param("from.list", Types::OBJECT, "The list that is read.");

pub(super) const VALUE: Param = param("value", Types::ANY, "The value.");

pub(super) const INDEX: Param = param("index", Types::INT, "Place, from 0.");

pub(super) const DISTINCT: Param = param("is.distinct", Types::BOOL, "Takes each value once.");

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "list",
        name,
        "execution-list",
        summary,
        overloads,
        returns,
    )
}

pub(super) const ONE: &[Overload] = &[Overload::new(&[LIST])];

pub(super) const WITH_VALUE: &[Overload] = &[Overload::new(&[LIST, VALUE])];

pub(super) const WITH_LIST: &[Overload] = &[Overload::new(&[LIST, GIVEN])];

pub(super) const WITH_INDEX: &[Overload] = &[Overload::new(&[LIST, INDEX])];
