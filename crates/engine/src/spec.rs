//! The words that the specs of what runs here are written with.

pub use event::Type;
use plan::spec::Status;
pub use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

pub const BOOL: Returns = Returns::Type(Type::Bool);
pub const INT: Returns = Returns::Type(Type::Int);
pub const LONG: Returns = Returns::Type(Type::Long);
pub const FLOAT: Returns = Returns::Type(Type::Float);
pub const DOUBLE: Returns = Returns::Type(Type::Double);
pub const STRING: Returns = Returns::Type(Type::String);
pub const OBJECT: Returns = Returns::Type(Type::Object);

/// The call without arguments.
pub const NONE: Overload = Overload::new(&[]);

pub const fn param(name: &'static str, types: Types, doc: &'static str) -> Param {
    Param::new(name, types, doc)
}

/// A spec but for its example; `origin` is `core` or the extension it comes from.
pub const fn function(
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
        ..FunctionSpec::new(kind, namespace, name, summary)
    }
}

/// The spec of a component that runs: with an example, an app in the text-test format or the part of
/// one after `select`.
pub const fn runs(spec: FunctionSpec, example: &'static str) -> FunctionSpec {
    FunctionSpec {
        status: Status::Runs,
        example,
        ..spec
    }
}
