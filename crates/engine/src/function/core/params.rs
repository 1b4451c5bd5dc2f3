//! Parameters that several functions of the core take, and the start of their specs.

use crate::spec::*;

pub(super) const ANY: Param = param("arg", Types::ANY, "The value.");

pub(super) const NUMBER: Param = param("arg", Types::NUMBER, "The value.");

pub(super) const CONDITION: Param = param("condition", Types::BOOL, "What decides.");

pub(super) const SET: Param = param("set", Types::OBJECT, "A set.");

pub(super) const TO: Param = param(
    "to",
    Types::STRING,
    "Name of the type: int, long, float, double, string or bool.",
)
.constant();

/// `ifThenElse` takes two values of one type, whatever it is.
pub(super) const fn choice(ty: Type) -> Overload {
    const fn branches(ty: Type) -> &'static [Param] {
        macro_rules! of {
            ($types:expr) => {
                const {
                    &[
                        CONDITION,
                        param(
                            "if.expression",
                            $types,
                            "The value where the condition is true.",
                        ),
                        param(
                            "else.expression",
                            $types,
                            "The value if it is false or null.",
                        ),
                    ]
                }
            };
        }
        match ty {
            Type::String => of!(Types::STRING),
            Type::Int => of!(Types::INT),
            Type::Long => of!(Types::LONG),
            Type::Float => of!(Types::FLOAT),
            Type::Double => of!(Types::DOUBLE),
            Type::Bool => of!(Types::BOOL),
            Type::Object => of!(Types::OBJECT),
        }
    }
    Overload::new(branches(ty))
}

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "",
        name,
        "core",
        summary,
        overloads,
        returns,
    )
}

pub(super) const ONE_ANY: &[Overload] = &[Overload::new(&[ANY])];

pub(super) const SAME_ANY: &[Overload] = &[Overload::repeating(&[ANY], 1).same_type()];

pub(super) const SAME_NUMBER: &[Overload] = &[Overload::repeating(&[NUMBER], 1).same_type()];
