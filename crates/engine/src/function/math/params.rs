//! Parameters that several functions of `math:` take, and the start of their specs.

use crate::spec::*;

pub(super) const X: Param = param("p1", Types::NUMBER, "The number.");

pub(super) const Y: Param = param("p2", Types::NUMBER, "The second number.");

pub(super) const REAL: Param = param("p1", Types::REAL, "The number, FLOAT or DOUBLE.");

pub(super) const WHOLE: Param = param("p1", Types::INT_LONG, "The number, INT or LONG.");

pub(super) const TEXT: Param = param("p1", Types::STRING, "The number as text.");

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "math",
        name,
        "execution-math",
        summary,
        overloads,
        returns,
    )
}

pub(super) const ONE: &[Overload] = &[Overload::new(&[X])];

pub(super) const TWO: &[Overload] = &[Overload::new(&[X, Y])];

pub(super) const ONE_REAL: &[Overload] = &[Overload::new(&[REAL])];

pub(super) const ONE_WHOLE: &[Overload] = &[Overload::new(&[WHOLE])];

pub(super) const ONE_TEXT: &[Overload] = &[Overload::new(&[TEXT])];
