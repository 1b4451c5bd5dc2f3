//! Parameters that several windows of `unique:` take, and the start of their specs.

use crate::spec::*;

pub(super) const KEY: Param = param("unique.key", Types::BASIC, "What must be unique.");

pub(super) const LENGTH: Param = param("window.length", Types::INT, "How many keys.").constant();

pub(super) const TIME: Param = param("window.time", Types::INT_LONG, "How long, in ms.").constant();

pub(super) const START: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
)
.constant();

pub(super) const fn window(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    function(
        FunctionKind::Window,
        "unique",
        name,
        "execution-unique",
        summary,
        overloads,
        Returns::Nothing,
    )
}

pub(super) const BY_LENGTH: &[Overload] = &[Overload::new(&[KEY, LENGTH])];
