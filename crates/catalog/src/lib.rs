//! The components of SiddhiQL 5.1 and of its connectors that are only known, as data, and the pages
//! of the documentation that are made from all specs.
//!
//! Promises: everything is here by its exact name, so that every app can be checked and nothing is
//! taken for a misspelling.
//!
//! Never: code of a component.

pub mod connectors;
pub mod functions;
pub mod pages;

use check::Catalog;
use plan::spec::{ConnectorSpec, FunctionSpec};

/// The functions, aggregators, windows and stream processors that are known and do not run in the
/// engine.
pub fn known_functions() -> impl Iterator<Item = &'static FunctionSpec> {
    functions::all()
}

/// The sources, sinks, mappers and stores.
pub fn known_connectors() -> impl Iterator<Item = &'static ConnectorSpec> {
    connectors::all()
}

/// The catalog of all components, where those of the engine run.
pub fn full(running: impl IntoIterator<Item = &'static FunctionSpec>) -> Catalog {
    Catalog::new(known_functions().chain(running), known_connectors())
}

#[cfg(test)]
mod tests {
    use plan::spec::FunctionKind;

    use super::*;

    #[test]
    fn every_component_of_the_inventories_is_there_once() {
        let mut names: Vec<(&str, &str)> = known_connectors()
            .map(|c| (c.kind.name(), c.name))
            .collect();
        assert_eq!(names.len(), 97);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 97, "no connector is listed twice");

        let catalog = full(engine::specs());
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
