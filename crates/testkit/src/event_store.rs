//! Apps with their tables in the event store, in a folder of the test.
//!
//! Promises: every table and aggregation of an app is there but those with a cache; what a step wrote is
//! committed behind it, and read back from files after some steps.

use std::sync::Arc;

use connect::component::{Environment, SETTING_DIR, Setting, Store, StoreSetup};
use connect::error::chain;
use connect::registry::Registry;
use lang::ast::{Annotation, App, Element};
use plan::spec::ConnectorKind;
use plan::{Plan, Table};
use tempfile::TempDir;

/// The store's type.
pub const EVENT_STORE: &str = "eventstore";

/// Steps between which the store is closed and opened again.
const STEPS: u64 = 3;

/// Has a table nothing of its own that the event store lacks?
fn is_kept(annotations: &[Annotation]) -> bool {
    let store = annotations.iter().find(|a| a.is("store"));
    store.is_none_or(|store| !store.annotations.iter().any(|a| a.is("cache")))
}

/// Puts the tables and aggregations of an app into the event store; false where it has none.
pub fn keep_all(app: &mut App) -> bool {
    let mut has_some = false;
    for element in &mut app.elements {
        let annotations = match element {
            Element::Table(table) => &mut table.annotations,
            Element::Aggregation(aggregation) => &mut aggregation.annotations,
            _ => continue,
        };
        if is_kept(annotations) {
            annotations.retain(|annotation| !annotation.is("store"));
            annotations.extend(annotation());
            has_some = true;
        }
    }
    has_some
}

/// Rows are written to files as soon as they are committed.
fn annotation() -> Option<Annotation> {
    let text = format!(
        "@store(type='{EVENT_STORE}', commit.interval='1 millisec') define table T (a int);"
    );
    let parsed = lang::parse(&text).app.elements.into_iter().next();
    match parsed {
        Some(Element::Table(table)) => table.annotations.into_iter().next(),
        _ => None,
    }
}

/// The folder of a test's event store, and how far its commits are.
pub(crate) struct Place {
    environment: Environment,
    epoch: u64,
    /// Gone with the test.
    _dir: TempDir,
}

type Bindings = [Option<Box<dyn Store>>];

impl Place {
    pub fn new(plan: &Plan) -> Result<Place, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
        let directory = Setting {
            namespace: "store".to_owned(),
            name: EVENT_STORE.to_owned(),
            key: SETTING_DIR.to_owned(),
            value: dir.path().display().to_string(),
        };
        Ok(Place {
            environment: Environment {
                settings: Arc::from([directory]),
                ..Environment::new(&plan.name)
            },
            epoch: 0,
            _dir: dir,
        })
    }

    pub fn open(&self, table: &Table, registry: Registry) -> Result<Box<dyn Store>, String> {
        let connector = registry.find(ConnectorKind::Store, EVENT_STORE);
        let connector = connector.ok_or("this build has no event store")?;
        let environment = &self.environment;
        let made = connector.store(&StoreSetup { table, environment });
        let mut store = made.map_err(|error| chain(&error))?;
        begin(store.as_mut())?;
        Ok(store)
    }

    pub fn end_step(&mut self, bindings: &mut Bindings) -> Result<(), String> {
        self.commit(bindings)?;
        match self.epoch.is_multiple_of(STEPS) {
            true => self.reopen(bindings),
            false => Ok(()),
        }
    }

    fn commit(&mut self, bindings: &mut Bindings) -> Result<(), String> {
        self.epoch += 1;
        for store in bindings.iter_mut().flatten() {
            let committed = store.commit(self.epoch, b"test");
            committed.map_err(|error| chain(&error))?;
        }
        Ok(())
    }

    pub fn reopen(&mut self, bindings: &mut Bindings) -> Result<(), String> {
        self.commit(bindings)?;
        for store in bindings.iter_mut().flatten() {
            store.close().map_err(|error| chain(&error))?;
        }
        for store in bindings.iter_mut().flatten() {
            begin(store.as_mut())?;
            let last = store.last_epoch().map_err(|error| chain(&error))?;
            if last.is_some_and(|(epoch, _)| epoch != self.epoch) {
                return Err(format!("the store is not at epoch {}", self.epoch));
            }
        }
        Ok(())
    }
}

fn begin(store: &mut dyn Store) -> Result<(), String> {
    let begun = store.connect().and_then(|()| store.begin());
    begun.map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_aggregations_without_a_cache_are_kept() {
        let text = "define stream S (k string, n int);
            @PrimaryKey('k') define table A (k string, n int);
            @store(type='rdbms', jdbc.url='jdbc:sqlite:x') define table B (k string);
            @store(type='rdbms', @cache(size='10')) define table C (k string);
            define aggregation D from S select k, sum(n) as s group by k aggregate every sec ... min;";
        let mut app = lang::parse(text).app;
        assert!(keep_all(&mut app));
        let kept = app.elements.iter().filter_map(|element| match element {
            Element::Table(table) => Some(&table.annotations),
            Element::Aggregation(aggregation) => Some(&aggregation.annotations),
            _ => None,
        });
        let types = kept.map(|annotations| {
            let stores = annotations.iter().filter(|a| a.is("store"));
            let types: Vec<&str> = stores
                .filter_map(|store| Some(store.value("type")?.text.as_str()))
                .collect();
            types.join("+")
        });
        let types: Vec<String> = types.collect();
        assert_eq!(types, ["eventstore", "eventstore", "rdbms", "eventstore"]);
        let mut none = lang::parse("define stream S (k string);").app;
        assert!(!keep_all(&mut none));
    }
}
