//! What components exist, by name: connectors with their options, functions with their arguments.
//!
//! Promises: only what it was made from; of two functions of the same kind, namespace and name the
//! later one counts, so that what runs takes the place of what is only known.
//!
//! Never: data or code of a component. Specs are handed in by whoever knows what there is.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use lang::suggest::nearest;
use plan::spec::{ConnectorKind, ConnectorSpec, FunctionKind, FunctionSpec};

use crate::secret;

/// All components by name. A clone is cheap.
#[derive(Clone)]
pub struct Catalog {
    functions: Arc<HashMap<FunctionKind, Functions>>,
    connectors: Arc<Vec<&'static ConnectorSpec>>,
    /// Functions with arguments that are secrets: the name as apps write it, and which arguments.
    secrets: Arc<OnceLock<Vec<(String, Vec<usize>)>>>,
}

/// The functions of one kind: in the order they were given, and by namespace and name.
#[derive(Clone, Default)]
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
    /// Of functions of the same kind, namespace and name the last one counts.
    pub fn new(
        functions: impl IntoIterator<Item = &'static FunctionSpec>,
        connectors: impl IntoIterator<Item = &'static ConnectorSpec>,
    ) -> Catalog {
        let mut by_kind: HashMap<FunctionKind, Functions> = HashMap::new();
        for spec in functions {
            by_kind.entry(spec.kind).or_default().insert(spec);
        }
        Catalog {
            functions: Arc::new(by_kind),
            connectors: Arc::new(connectors.into_iter().collect()),
            secrets: Arc::default(),
        }
    }

    /// With one component more: that of a test.
    pub fn with_connector(mut self, spec: &'static ConnectorSpec) -> Catalog {
        Arc::make_mut(&mut self.connectors).push(spec);
        self
    }

    /// All components, in the order of the documentation.
    pub fn all_connectors(&self) -> impl Iterator<Item = &'static ConnectorSpec> {
        self.connectors.iter().copied()
    }

    /// Which arguments of a function are secrets; `name` as apps write it.
    pub(crate) fn secret_arguments(&self, name: &str) -> &[usize] {
        let all = self.secrets.get_or_init(|| {
            let kinds = self.functions.values();
            let specs = kinds.flat_map(|functions| functions.order.iter());
            let found = specs.map(|spec| (spec.full_name(), secret::arguments_of(spec)));
            found.filter(|(_, secrets)| !secrets.is_empty()).collect()
        });
        let call = all.iter().find(|(known, _)| known == name);
        call.map_or(&[], |(_, secrets)| secrets)
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

    /// All functions of one kind, in the order they were given.
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
        self.all_connectors().filter(move |spec| spec.kind == kind)
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
    use crate::testing::catalog;

    #[test]
    fn the_later_of_two_functions_counts() {
        const fn upper(summary: &'static str) -> FunctionSpec {
            FunctionSpec::new(FunctionKind::Scalar, "str", "upper", summary)
        }
        static KNOWN: FunctionSpec = upper("Known.");
        static RUNS: FunctionSpec = upper("The text in capitals.");
        let catalog = Catalog::new([&KNOWN, &RUNS], []);
        let found = catalog.function(FunctionKind::Scalar, "str", "upper");
        assert_eq!(found.expect("it is there").summary, "The text in capitals.");
        assert_eq!(catalog.functions(FunctionKind::Scalar).count(), 1);
    }

    #[test]
    fn near_names_are_suggested() {
        let catalog = catalog();
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
