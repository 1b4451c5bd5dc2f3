//! `js:`, scripts inside expressions.

use super::{known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Returns, Types};

pub const FUNCTIONS: &[FunctionSpec] = &[known(
    FunctionKind::Scalar,
    "js",
    "eval",
    "script-js",
    "The value of a JavaScript expression.",
    &[Overload::new(&[
        param("expression", Types::STRING, "The expression."),
        param("return.type", Types::STRING, "Type of the result.").constant(),
    ])],
    Returns::Named(1),
)];
