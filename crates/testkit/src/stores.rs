//! External tables of a test: stores in memory behind the interface of real ones, so that
//! conditions, writes and caches go the way they go in a server.
//!
//! They answer to the names of the stores of the reference's own test-suite. In the mode that is about the
//! event store, that store itself is here, in a folder of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use connect::cache::{CachedStore, Limits};
use connect::component::{Answer, Store, Written};
use connect::memory::MemoryStore;
use connect::registry::Registry;
use engine::{Called, Found, Host, HostError, WriteCounts};
use event::{Batch, Chunks, Column, Times};
use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType, Status};
use plan::store::{Operation, OperationId, OperationKind};
use plan::{Plan, TableId};

use crate::event_store::{EVENT_STORE, Place};

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

/// Is it a store of tests?
pub(crate) fn is_of_tests(ty: &str) -> bool {
    SPECS.iter().any(|spec| spec.name == ty)
}

/// The stores of one app, by table.
#[derive(Default)]
pub struct Stores {
    bindings: Vec<Option<Box<dyn Store>>>,
    /// Where the tables of the event store are, if there are some.
    place: Option<Place>,
    operations: Vec<Operation>,
    /// The virtual clock, which the caches ask.
    clock: Arc<AtomicI64>,
}

impl Stores {
    /// # Errors
    /// What is wrong with a `@cache`, or that a store cannot be opened, in words.
    pub fn new(plan: &Plan, registry: Registry) -> Result<Stores, String> {
        let clock = Arc::new(AtomicI64::new(0));
        let mut bindings: Vec<Option<Box<dyn Store>>> = Vec::new();
        let mut place = None;
        for table in &plan.tables {
            let Some(store) = &table.store else {
                bindings.push(None);
                continue;
            };
            let rows: Box<dyn Store> = if store.ty == EVENT_STORE {
                let place = match &mut place {
                    Some(place) => place,
                    none => none.insert(Place::new(plan)?),
                };
                place.open(table, registry)?
            } else {
                let mut rows = MemoryStore::new(table);
                rows.deletes_insert = store.ty == BEHIND_THE_CACHE;
                Box::new(rows)
            };
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
            place,
            operations: Vec::new(),
            clock,
        })
    }

    /// What was written in a step lasts, as after a checkpoint; after some steps the event store is opened
    /// again.
    ///
    /// # Errors
    /// The event store cannot be written or opened, in words.
    pub fn end_step(&mut self) -> Result<(), String> {
        match &mut self.place {
            Some(place) => place.end_step(&mut self.bindings),
            None => Ok(()),
        }
    }

    /// Closes the event store and opens it again, as a server that starts.
    ///
    /// # Errors
    /// As [`Stores::end_step`].
    pub fn reopen(&mut self) -> Result<(), String> {
        match &mut self.place {
            Some(place) => place.reopen(&mut self.bindings),
            None => Ok(()),
        }
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
        self.answer(table, operation, batch).map(drop)
    }

    /// Asks or writes as a server does; a row that the store refuses is an error of its event.
    fn answer(
        &mut self,
        table: TableId,
        operation: OperationId,
        batch: &Batch,
    ) -> Result<Answer, String> {
        let binding = self.bindings.get_mut(table).and_then(Option::as_mut);
        let binding = binding.ok_or("no such external table")?;
        let kind = self.operations.get(operation).map(|known| &known.kind);
        let answer = match kind {
            Some(OperationKind::Insert) => binding.insert(batch).map(|()| {
                Answer::Written(Written {
                    inserted: batch.len as u64,
                    ..Written::default()
                })
            }),
            _ => binding.execute(operation, batch),
        };
        let answer = answer.map_err(|error| connect::error::chain(&error))?;
        match binding.take_refused().first() {
            None => Ok(answer),
            Some(refused) => Err(connect::error::chain(&refused.cause)),
        }
    }

    fn execute(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Answer, HostError> {
        let table = self.operations.get(operation).map(|o| o.table);
        let table = table.ok_or_else(|| refused("no such operation"))?;
        let batch = Batch::new(columns.to_vec(), rows, Times::Same(-1), Chunks::One, -1);
        let answer = self.answer(table, operation, &batch);
        answer.map_err(|message| refused(&message))
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
        _: &Times,
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
