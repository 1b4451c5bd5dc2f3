//! Parameters that several aggregators of the core take, and the start of their specs.

use crate::spec::*;

pub(super) const NUMBER: Param = param("arg", Types::NUMBER, "The value.");

pub(super) const fn aggregator(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Aggregator,
        "",
        name,
        "core",
        summary,
        overloads,
        returns,
    )
}

pub(super) const ONE_NUMBER: &[Overload] = &[Overload::new(&[NUMBER])];
