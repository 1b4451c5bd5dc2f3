//! What components exist, as data: connectors with their options, functions with their arguments.
//!
//! Promises: everything of SiddhiQL 5.1 and of the connectors is here by its exact name, whether it
//! runs or is only known, so that every app can be judged and nothing is taken for a misspelling.
//!
//! Never: code of a component. Which functions run is told by the engine's specs, which replace the
//! known ones of the same name.

pub mod connectors;
pub mod functions;
pub mod judge;
mod overload;
pub mod pages;

pub use overload::{Mismatch, Resolved, resolve_overload};

use std::collections::HashMap;

use crate::spec::{ConnectorKind, ConnectorSpec, FunctionKind, FunctionSpec};
use crate::suggest::nearest;

/// All components by name.
pub struct Catalog {
    functions: HashMap<FunctionKind, Functions>,
    connectors: HashMap<ConnectorKind, Vec<&'static ConnectorSpec>>,
}

/// The functions of one kind: in the order of the documentation, and by namespace and name.
#[derive(Default)]
struct Functions {
    order: Vec<&'static FunctionSpec>,
    by_name: HashMap<(&'static str, &'static str), usize>,
}

impl Functions {
    fn insert(&mut self, spec: &'static FunctionSpec) {
        let key = (spec.namespace, spec.name);
        match self.by_name.get(&key) {
            Some(&at) => self.order[at] = spec,
            None => {
                self.by_name.insert(key, self.order.len());
                self.order.push(spec);
            }
        }
    }
}

impl Catalog {
    /// The known components of this crate, where `running` takes the place of known functions of
    /// the same kind, namespace and name.
    pub fn new(running: impl IntoIterator<Item = &'static FunctionSpec>) -> Catalog {
        let mut functions: HashMap<FunctionKind, Functions> = HashMap::new();
        for spec in functions::all().chain(running) {
            functions.entry(spec.kind).or_default().insert(spec);
        }
        let mut connectors: HashMap<ConnectorKind, Vec<&'static ConnectorSpec>> = HashMap::new();
        for spec in connectors::all() {
            connectors.entry(spec.kind).or_default().push(spec);
        }
        Catalog {
            functions,
            connectors,
        }
    }

    /// With one component more: that of a test.
    pub fn with_connector(mut self, spec: &'static ConnectorSpec) -> Catalog {
        self.connectors.entry(spec.kind).or_default().push(spec);
        self
    }

    /// Names are case-sensitive; an empty namespace is core.
    pub fn function(
        &self,
        kind: FunctionKind,
        namespace: &str,
        name: &str,
    ) -> Option<&'static FunctionSpec> {
        let functions = self.functions.get(&kind)?;
        functions
            .by_name
            .get(&(namespace, name))
            .map(|&at| functions.order[at])
    }

    /// All functions of one kind, in the order of the documentation.
    pub fn functions(&self, kind: FunctionKind) -> impl Iterator<Item = &'static FunctionSpec> {
        self.functions
            .get(&kind)
            .into_iter()
            .flat_map(|f| f.order.iter().copied())
    }

    /// The component that `type='name'` means.
    pub fn connector(&self, kind: ConnectorKind, name: &str) -> Option<&'static ConnectorSpec> {
        self.connectors(kind)
            .find(|c| c.name == name || c.aliases.contains(&name))
    }

    /// All components of one kind, by technology.
    pub fn connectors(&self, kind: ConnectorKind) -> impl Iterator<Item = &'static ConnectorSpec> {
        self.connectors
            .get(&kind)
            .into_iter()
            .flat_map(|c| c.iter().copied())
    }

    /// The name that was probably meant, with its namespace (`str:upper`).
    pub fn suggest_function(&self, kind: FunctionKind, full_name: &str) -> Option<String> {
        let names: Vec<String> = self.functions(kind).map(FunctionSpec::full_name).collect();
        nearest(full_name, names.iter().map(String::as_str)).map(str::to_owned)
    }

    /// The component that was probably meant.
    pub fn suggest_connector(&self, kind: ConnectorKind, name: &str) -> Option<&'static str> {
        nearest(name, self.connectors(kind).map(|c| c.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_of_the_inventories_is_there_once() {
        let mut names: Vec<(&str, &str)> =
            connectors::all().map(|c| (c.kind.name(), c.name)).collect();
        assert_eq!(names.len(), 97);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 97, "no connector is listed twice");

        let catalog = Catalog::new([]);
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
        let listed = functions::all().count();
        let kept: usize = catalog.functions.values().map(|f| f.order.len()).sum();
        assert_eq!(listed, kept, "no function is listed twice");
    }

    #[test]
    fn a_running_function_replaces_the_known_one() {
        static UPPER: FunctionSpec = FunctionSpec::new(
            FunctionKind::Scalar,
            "str",
            "upper",
            "The text in capitals.",
        );
        let catalog = Catalog::new([&UPPER]);
        let found = catalog
            .function(FunctionKind::Scalar, "str", "upper")
            .expect("it is there");
        assert_eq!(found.summary, "The text in capitals.");
        assert_eq!(catalog.functions(FunctionKind::Scalar).count(), 208 + 5);
    }

    #[test]
    fn near_names_are_suggested() {
        let catalog = Catalog::new([]);
        let check = |kind, name: &str, expect: Option<&str>| {
            assert_eq!(
                catalog.suggest_function(kind, name).as_deref(),
                expect,
                "{name}"
            );
        };
        check(FunctionKind::Scalar, "str:uper", Some("str:upper"));
        check(FunctionKind::Scalar, "strupper", Some("str:upper"));
        check(FunctionKind::Aggregator, "summ", Some("sum"));
        check(FunctionKind::Window, "lenghtBatch", Some("lengthBatch"));
        check(FunctionKind::Window, "LengthBatch", Some("lengthBatch"));
        check(FunctionKind::Scalar, "frobnicate", None);
        assert_eq!(
            catalog.suggest_connector(ConnectorKind::Source, "kafak"),
            Some("kafka")
        );
        assert_eq!(
            catalog.suggest_connector(ConnectorKind::Source, "inmemory"),
            Some("inMemory")
        );
    }
}
