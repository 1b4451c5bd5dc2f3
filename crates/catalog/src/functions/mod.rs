//! The data of all functions, aggregators, windows and stream processors of SiddhiQL 5.1: one file
//! a namespace.
//!
//! Promises: exact names, argument lists as Siddhi's own overload check has them, result types.
//! Everything here is `Known`; what runs has its spec beside its code, and replaces the one here.

pub mod archived;
pub mod core;
pub mod env;
pub mod json;
pub mod list;
pub mod map;
pub mod math;
pub mod regex;
pub mod reorder;
pub mod script;
pub mod string;
pub mod time;
pub mod unique;
pub mod unit_conversion;
pub mod windows;

use event::Type;

use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Status, Types};

/// Everything, by namespace.
pub const FUNCTIONS: &[&[FunctionSpec]] = &[
    core::FUNCTIONS,
    windows::FUNCTIONS,
    string::FUNCTIONS,
    time::FUNCTIONS,
    json::FUNCTIONS,
    map::FUNCTIONS,
    list::FUNCTIONS,
    math::FUNCTIONS,
    regex::FUNCTIONS,
    reorder::FUNCTIONS,
    unique::FUNCTIONS,
    unit_conversion::FUNCTIONS,
    env::FUNCTIONS,
    script::FUNCTIONS,
    archived::FUNCTIONS,
    super::connectors::log::FUNCTIONS,
    super::connectors::file_functions::FUNCTIONS,
    super::connectors::rdbms::FUNCTIONS,
    super::connectors::s3::FUNCTIONS,
];

/// Every spec of [`FUNCTIONS`], in its order.
pub fn all() -> impl Iterator<Item = &'static FunctionSpec> {
    FUNCTIONS.iter().copied().flatten()
}

const BOOL: Returns = Returns::Type(Type::Bool);
const INT: Returns = Returns::Type(Type::Int);
const LONG: Returns = Returns::Type(Type::Long);
const FLOAT: Returns = Returns::Type(Type::Float);
const DOUBLE: Returns = Returns::Type(Type::Double);
const STRING: Returns = Returns::Type(Type::String);
const OBJECT: Returns = Returns::Type(Type::Object);

const NONE: Overload = Overload::new(&[]);

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
