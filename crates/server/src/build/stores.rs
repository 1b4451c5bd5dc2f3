//! Tables of a group that are kept outside: one thread or one place on the executor for each database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use connect::cache::{CachedStore, Limits};
use connect::component::{Store, StoreSetup};
use engine::App;
use plan::spec::ConnectorKind;
use plan::{Plan, TableId};

use super::Builder;
use super::sinks::table_read;
use crate::backoff::LogThrottle;
use crate::error::Error;
use crate::executor::OperationTarget;
use crate::metrics::{MEMORY, TableMetrics};
use crate::queue::Weight;
use crate::sink::{self, OutputQueue};
use crate::store::{self, StoreBinding, StoreContext, StoreThread, Uncommitted};

impl Builder<'_> {
    pub(super) fn stores(&self, engines: &[App]) -> Result<Stores, Error> {
        let mut stores = Stores::default();
        for (app, plan) in self.plans.iter().enumerate() {
            for (table, definition) in plan.tables.iter().enumerate() {
                let metrics = TableMetrics {
                    label: self.label(
                        app,
                        &definition.schema.name,
                        definition.store.as_ref().map_or(MEMORY, |s| &s.ty),
                    ),
                    ..TableMetrics::default()
                };
                let metrics = self.metrics[app].tables.enlist(metrics);
                let Some(store) = &definition.store else {
                    stores.in_memory.push((app, table, metrics));
                    continue;
                };
                let connector = self
                    .common
                    .registry
                    .find(ConnectorKind::Store, &store.ty)
                    .ok_or_else(|| self.not_there(app, "store", &store.ty))?;
                let setup = StoreSetup {
                    table: definition,
                    environment: &self.environments[app],
                };
                let made = connector.store(&setup).map_err(|e| self.refused(app, &e))?;
                let made = cached(made, definition, store).map_err(|e| self.refused(app, &e))?;
                let operations: Vec<_> = engines[app]
                    .operations()
                    .iter()
                    .enumerate()
                    .filter(|(_, o)| o.table == table)
                    .map(|(id, o)| (id, o.clone()))
                    .collect();
                let is_shown = plan
                    .streams
                    .iter()
                    .flat_map(|stream| &stream.sinks)
                    .any(|sink| table_read(plan, sink, &self.common.registry) == Some(table));
                let is_read = self.common.is_asked
                    || is_shown
                    || operations.iter().any(|(_, o)| !o.kind.is_write());
                let policy = store.option("on.error").unwrap_or_default();
                let seat = StoreBinding {
                    app: plan.name.clone(),
                    table: definition.schema.name.clone(),
                    schema: definition.schema.clone(),
                    attempt: None,
                    store: made,
                    operations,
                    on_unreachable: store::OnUnreachable::from_name(policy),
                    metrics,
                    has_epochs: self.state.is_some(),
                    in_transaction: false,
                    counts_at_begin: [0; 4],
                    warn_throttle: LogThrottle::default(),
                };
                stores.add(
                    self.common.registry.database(store),
                    app,
                    table,
                    is_read,
                    seat,
                );
            }
        }
        Ok(stores)
    }
}

/// With what `@cache` asks for before it.
fn cached(
    inner: Box<dyn Store>,
    table: &plan::Table,
    store: &plan::Store,
) -> Result<Box<dyn Store>, connect::Error> {
    let Some(options) = &store.cache else {
        return Ok(inner);
    };
    let limits = Limits::from_options(options).map_err(|message| {
        connect::Error::refused(format!("table '{}'", table.schema.name), message)
    })?;
    let start = Instant::now();
    let clock = Box::new(move || i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX));
    Ok(Box::new(CachedStore::new(inner, table, limits, clock)))
}

/// Stores by database.
#[derive(Default)]
pub(super) struct Stores {
    databases: Vec<Database>,
    /// App, table and counters of the tables in memory.
    pub(super) in_memory: Vec<(usize, TableId, Arc<TableMetrics>)>,
}

struct Database {
    name: String,
    is_read: bool,
    bindings: Vec<StoreBinding>,
    /// App and table of each binding.
    places: Vec<(usize, usize)>,
}

impl Stores {
    pub(super) fn bindings(&mut self) -> impl Iterator<Item = &mut StoreBinding> {
        self.databases.iter_mut().flat_map(|d| &mut d.bindings)
    }

    fn add(&mut self, name: String, app: usize, table: usize, is_read: bool, seat: StoreBinding) {
        let found = self.databases.iter().position(|d| d.name == name);
        let database = found.unwrap_or_else(|| {
            self.databases.push(Database {
                name,
                is_read: false,
                bindings: Vec::new(),
                places: Vec::new(),
            });
            self.databases.len() - 1
        });
        let database = &mut self.databases[database];
        database.is_read |= is_read;
        database.bindings.push(seat);
        database.places.push((app, table));
    }

    /// For each app and table the database of the executor that holds it, and its slot there, in the
    /// order in which [`Stores::bound`] places them.
    pub(super) fn inline_places(&self, plans: &[Arc<Plan>]) -> Vec<Vec<Option<(usize, usize)>>> {
        let mut places: Vec<Vec<_>> = plans.iter().map(|p| vec![None; p.tables.len()]).collect();
        let inline = self.databases.iter().filter(|d| d.is_read);
        for (at, database) in inline.enumerate() {
            for (slot, &(app, table)) in database.places.iter().enumerate() {
                places[app][table] = Some((at, slot));
            }
        }
        places
    }

    /// Tables of a database that some query reads work on the executor, all others behind it.
    #[allow(clippy::type_complexity)]
    pub(super) fn bound(
        &mut self,
        engines: &[App],
        context: &StoreContext,
    ) -> (
        Vec<Vec<OperationTarget>>,
        Vec<StoreThread>,
        Vec<store::Database>,
    ) {
        let mut by_table: HashMap<(usize, usize), OperationTarget> = HashMap::new();
        let (mut threads, mut inline) = (Vec::new(), Vec::new());
        for database in self.databases.drain(..) {
            if database.is_read {
                for (slot, place) in database.places.into_iter().enumerate() {
                    let seat = OperationTarget::Inline {
                        database: inline.len(),
                        slot,
                    };
                    by_table.insert(place, seat);
                }
                inline.push(store::Database::new(database.bindings, context.clone()));
                continue;
            }
            let output_queue = Arc::new(OutputQueue::new(Weight {
                rows: sink::ROWS_MAX,
                bytes: sink::BYTES_MAX,
            }));
            let uncommitted = Arc::new(Uncommitted::default());
            for (slot, place) in database.places.into_iter().enumerate() {
                let seat = OperationTarget::Thread {
                    output_queue: Arc::clone(&output_queue),
                    slot,
                    uncommitted: Arc::clone(&uncommitted),
                };
                by_table.insert(place, seat);
            }
            threads.push(StoreThread {
                database: store::Database::new(database.bindings, context.clone()),
                output_queue,
                uncommitted,
            });
        }
        let operations = engines
            .iter()
            .enumerate()
            .map(|(app, engine)| {
                engine
                    .operations()
                    .iter()
                    .map(|o| by_table[&(app, o.table)].clone())
                    .collect()
            })
            .collect();
        (operations, threads, inline)
    }
}
