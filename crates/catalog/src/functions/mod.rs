//! The functions, aggregators, windows and stream processors of SiddhiQL 5.1 and its extensions that
//! are known and do not run: one file a namespace.
//!
//! Promises: exact names, argument lists as Siddhi's own overload check has them, result types. What
//! runs has its spec beside its code, in `engine` and `connectors`.

pub mod archived;
pub mod env;
pub mod script;

use event::Type;

use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Status, Types};

/// Everything, by namespace.
pub const FUNCTIONS: &[&[FunctionSpec]] = &[env::FUNCTIONS, script::FUNCTIONS, archived::FUNCTIONS];

/// Every spec of [`FUNCTIONS`], in its order.
pub fn all() -> impl Iterator<Item = &'static FunctionSpec> {
    FUNCTIONS.iter().copied().flatten()
}

const DOUBLE: Returns = Returns::Type(Type::Double);
const STRING: Returns = Returns::Type(Type::String);

const fn param(name: &'static str, types: Types, doc: &'static str) -> Param {
    Param::new(name, types, doc)
}

const fn known(
    kind: FunctionKind,
    namespace: &'static str,
    name: &'static str,
    origin: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    FunctionSpec {
        overloads,
        returns,
        origin,
        status: Status::Known,
        ..FunctionSpec::new(kind, namespace, name, summary)
    }
}
