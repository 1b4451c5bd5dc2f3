//! The catalog: all components that this project knows, put together in one place.
//!
//! What runs has its spec beside its code, in `engine`, `connect` and `connectors`. Here are the
//! functions of SiddhiQL 5.1 that are only known, as data, and the pages of the documentation that are
//! made from all specs.
//!
//! Promises: everything is here by its exact name, so that every app can be checked and nothing is
//! taken for a misspelling. It is the same in every build, whatever its features.
//!
//! Never: code of a component. A crate below the binary is handed the [`Catalog`] and does not need
//! this one.

mod functions;
pub mod pages;

use check::Catalog;
use plan::spec::{ConnectorSpec, FunctionSpec};

/// The functions, aggregators, windows and stream processors that are known and do not run.
pub fn known_functions() -> impl Iterator<Item = &'static FunctionSpec> {
    functions::all()
}

/// All functions, aggregators, windows and stream processors. A later one takes the place of an
/// earlier one of its name.
pub fn function_specs() -> impl Iterator<Item = &'static FunctionSpec> {
    known_functions()
        .chain(connectors::function_specs())
        .chain(engine::specs())
}

/// All sources, sinks, mappers, stores and their functions.
pub fn connector_specs() -> impl Iterator<Item = &'static ConnectorSpec> {
    connect::specs()
        .chain(connectors::specs())
        .chain(store::specs())
}

/// The catalog of all components.
pub fn full() -> Catalog {
    Catalog::new(function_specs(), connector_specs())
}

#[cfg(test)]
mod tests {
    use plan::spec::FunctionKind;

    use super::*;

    #[test]
    fn every_component_of_the_inventories_is_there_once() {
        let mut names: Vec<(&str, &str)> =
            connector_specs().map(|c| (c.kind.name(), c.name)).collect();
        let all = names.len();
        assert!(all >= 97, "{all}: some of Siddhi's are missing");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "no connector is listed twice");

        let catalog = full();
        let count = |kind| {
            catalog
                .functions(kind)
                .filter(|f| !["file", "rdbms", "s3"].contains(&f.namespace))
                .count()
        };
        assert_eq!(count(FunctionKind::Scalar), 208);
        assert_eq!(count(FunctionKind::Aggregator), 21);
        assert_eq!(count(FunctionKind::Window), 35);
        assert_eq!(count(FunctionKind::StreamProcessor), 41);
    }
}
