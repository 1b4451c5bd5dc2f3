//! External tables of a test: stores in memory behind the interface of real ones, so that
//! conditions, writes and caches go the way they go in a server.
//!
//! They answer to the names of the stores of the reference's own test-suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use connect::cache::{CachedStore, Limits};
use connect::component::{Answer, Store};
use connect::memory::MemoryStore;
use engine::{Called, Found, Host, HostError, WriteCounts};
use event::{Batch, Chunks, Column, Times};
use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType, Status};
use plan::store::{Operation, OperationId};
use plan::{Plan, TableId};

/// What `check` knows about the stores of a test: they take any option.
pub const SPECS: [&ConnectorSpec; 3] = [
    &ConnectorSpec {
        aliases: &["test"],
        ..spec("testStoreContainingInMemoryTable")
    },
    &ConnectorSpec {
        selects: true,
        ..spec("testStoreDummyForCache")
    },
    &spec(BEHIND_THE_CACHE),
];

const ANY_OPTION: &[OptionSpec] = &[OptionSpec::new("*", OptionType::Text, "Passed over.")];

const fn spec(name: &'static str) -> ConnectorSpec {
    ConnectorSpec {
        status: Status::Runs,
        options: ANY_OPTION,
        ..ConnectorSpec::new(
            ConnectorKind::Store,
            name,
            "test",
            "Keeps the rows of a test in memory.",
        )
    }
}

/// The store of cases about what somebody else wrote: a delete with a whole row puts that row in.
const BEHIND_THE_CACHE: &str = "testStoreForCacheMiss";

/// The stores of one app, by table.
#[derive(Default)]
pub struct Stores {
    bindings: Vec<Option<Box<dyn Store>>>,
    operations: Vec<Operation>,
    /// The virtual clock, which the caches ask.
    clock: Arc<AtomicI64>,
}

impl Stores {
    /// # Errors
    /// What is wrong with a `@cache`, in words.
    pub fn new(plan: &Plan) -> Result<Stores, String> {
        let clock = Arc::new(AtomicI64::new(0));
        let mut bindings: Vec<Option<Box<dyn Store>>> = Vec::new();
        for table in &plan.tables {
            let Some(store) = &table.store else {
                bindings.push(None);
                continue;
            };
            let mut rows = MemoryStore::new(table);
            rows.deletes_insert = store.ty == BEHIND_THE_CACHE;
            let rows: Box<dyn Store> = Box::new(rows);
            bindings.push(Some(match &store.cache {
                None => rows,
                Some(options) => {
                    let limits = Limits::from_options(options)?;
                    let clock = clock.clone();
                    let now = Box::new(move || clock.load(Ordering::Relaxed));
                    Box::new(CachedStore::new(rows, table, limits, now))
                }
            }));
        }
        Ok(Stores {
            bindings,
            operations: Vec::new(),
            clock,
        })
    }

    /// Compiles what an app will ask; the rows stay.
    pub fn prepare(&mut self, operations: &[Operation]) -> Result<(), String> {
        self.operations.clear();
        for operation in operations {
            self.add(operation).map_err(|error| error.message)?;
        }
        Ok(())
    }

    fn add(&mut self, operation: &Operation) -> Result<OperationId, HostError> {
        let id = self.operations.len();
        let binding = self
            .bindings
            .get_mut(operation.table)
            .and_then(Option::as_mut);
        let binding = binding.ok_or_else(|| refused("no such external table"))?;
        binding
            .prepare(id, operation)
            .map_err(|error| refused(&error.to_string()))?;
        self.operations.push(operation.clone());
        Ok(id)
    }

    /// The time that caches go by.
    pub fn set_clock(&mut self, now: i64) {
        self.clock.store(now, Ordering::Relaxed);
    }

    /// A write that the app does not wait for.
    pub fn write_later(
        &mut self,
        table: TableId,
        operation: OperationId,
        batch: &Batch,
    ) -> Result<(), String> {
        let binding = self.bindings.get_mut(table).and_then(Option::as_mut);
        let binding = binding.ok_or("no such external table")?;
        let written = binding.execute(operation, batch);
        written.map(drop).map_err(|error| error.to_string())
    }

    fn execute(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Answer, HostError> {
        let table = self.operations.get(operation).map(|o| o.table);
        let binding = table.and_then(|table| self.bindings.get_mut(table)?.as_mut());
        let binding = binding.ok_or_else(|| refused("no such operation"))?;
        let batch = Batch::new(columns.to_vec(), rows, Times::Same(-1), Chunks::One, -1);
        binding
            .execute(operation, &batch)
            .map_err(|error| refused(&error.to_string()))
    }
}

impl Host for Stores {
    fn find(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Found, HostError> {
        let answer = self.execute(operation, columns, rows)?;
        let (columns, ends) = answer.into_rows().map_err(refused)?;
        Ok(Found { columns, ends })
    }

    fn contains(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Vec<bool>, HostError> {
        let answer = self.execute(operation, columns, rows)?;
        answer.into_contains().map_err(refused)
    }

    fn write(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<WriteCounts, HostError> {
        let answer = self.execute(operation, columns, rows)?;
        let written = answer.into_written().map_err(refused)?;
        Ok(WriteCounts {
            inserted: written.inserted,
            updated: written.updated,
            deleted: written.deleted,
        })
    }

    fn call(&mut self, function: &str, _: &[Column], _: usize) -> Result<Called, HostError> {
        Err(refused(&format!(
            "function '{function}' is not available here"
        )))
    }

    fn prepare(&mut self, operation: &Operation) -> Result<OperationId, HostError> {
        self.add(operation)
    }

    fn release(&mut self, operation: OperationId) {
        if operation + 1 == self.operations.len() {
            self.operations.pop();
        }
    }
}

fn refused(message: &str) -> HostError {
    HostError {
        row: 0,
        message: message.to_owned(),
    }
}
