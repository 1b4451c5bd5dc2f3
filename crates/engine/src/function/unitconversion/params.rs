//! Parameters that several functions of `unitconversion:` take, and the start of their specs.

use crate::spec::*;

pub(super) const ONE: &[Overload] = &[Overload::new(&[param("p1", Types::NUMBER, "The number.")])];

pub(super) const fn unit(name: &'static str, summary: &'static str) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "unitconversion",
        name,
        "execution-unitconversion",
        summary,
        ONE,
        DOUBLE,
    )
}
