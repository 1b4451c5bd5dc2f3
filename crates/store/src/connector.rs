//! `@store(type='eventstore')`: a table of an app in the event store of its server.
//!
//! Promises: what was written between two checkpoints counts at once, with the number of the second,
//! and lasts then; an event sees the writes before it; the newest row of a primary key wins. Rows come in
//! the order of insertion. Never: a condition that calls a function of the table's attributes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connect::component::{
    Answer, Difference, Epochs, Refused, SETTING_DIR, Store, StoreSetup, StoreView, Written,
};
use connect::connector_def::ConnectorDef;
use connect::error::Error;
use event::{Batch, Value};
use plan::store::{Operation, OperationId, OperationKind};

use crate::change::{Change, changes_frame};
use crate::condition::Prepared;
use crate::definition::Definition;
use crate::error::Error as StoreError;
use crate::indexing::Indexing;
use crate::layout::Layout;
use crate::spec::{CLUSTER_BY, COMMIT_INTERVAL, CONNECTORS, RETENTION, SCHEMA, STORE_ROWS};
use crate::store::{EventStore, Session, Stores};
use crate::table::{Found, INTERVAL, Table, View, Writer, fit, joined};

/// `@store(type='eventstore')`.
pub const EVENT_STORE: ConnectorDef = ConnectorDef {
    store: Some(|setup| Ok(Box::new(TableStore::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};

/// One table of an app.
struct TableStore {
    app: String,
    /// Tables of the same group share a transaction.
    group: String,
    dir: PathBuf,
    definition: Definition,
    interval: Duration,
    retention: Option<Duration>,
    layout: Arc<Layout>,
    /// What the app says of its columns.
    indexing: Indexing,
    stores: Arc<Stores>,
    /// Open from `connect` to `close`.
    open: Option<Opened>,
    operations: Vec<Option<Prepared>>,
    refused: Vec<Refused>,
}

struct Opened {
    store: Arc<EventStore>,
    session: Arc<Mutex<Session>>,
    table: Arc<Table>,
}

impl Opened {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableStore {
    fn new(setup: &StoreSetup<'_>) -> Result<TableStore, Error> {
        let schema = &setup.table.schema;
        let component = format!("table '{}'", schema.name);
        let refused = |message: String| Error::refused(component.clone(), message);
        let Some(own) = &setup.table.store else {
            return Err(refused("it is kept in memory".into()));
        };
        let environment = setup.environment;
        let dir = environment.setting("store", "eventstore", SETTING_DIR);
        let dir = dir.ok_or_else(|| {
            refused("store 'eventstore' needs a directory: start with --store DIR".into())
        })?;
        let name = own.option("table.name").unwrap_or(&schema.name);
        let definition = Definition::new(name, schema.clone(), setup.table.primary_key.clone());
        let definition = definition.map_err(|error| refused(error.to_string()))?;
        let time = |option: &str, example: &str| {
            let time = own.option(option).map(|text| {
                let millis =
                    lang::quantity::time_text(text).and_then(|millis| u64::try_from(millis).ok());
                let millis = millis.filter(|millis| *millis > 0);
                millis.map(Duration::from_millis).ok_or_else(|| {
                    refused(format!(
                        "option '{option}' is not a time: '{text}'; write for example '{example}'"
                    ))
                })
            });
            time.transpose()
        };
        let interval = time(COMMIT_INTERVAL, "2 sec")?.unwrap_or(INTERVAL);
        let retention = time(RETENTION, "30 days")?;
        let indexed = setup.table.indexes.iter().flatten().copied();
        let layout = Layout::new(&definition, own.option(CLUSTER_BY), indexed);
        let layout = layout.map_err(|error| refused(error.to_string()))?;
        let indexing = Indexing::parse(own.option(SCHEMA).unwrap_or_default(), &definition);
        let mut indexing =
            indexing.map_err(|error| refused(format!("option '{SCHEMA}': {error}")))?;
        indexing.keeps_rows = own.option(STORE_ROWS) == Some("true");
        Ok(TableStore {
            app: environment.app.clone(),
            group: environment
                .state_id
                .clone()
                .unwrap_or_else(|| environment.app.clone()),
            dir: PathBuf::from(dir),
            definition,
            interval,
            retention,
            layout: Arc::new(layout),
            indexing,
            stores: environment.shared.get::<Stores>(),
            open: None,
            operations: Vec::new(),
            refused: Vec::new(),
        })
    }

    fn opened(&self) -> Result<&Opened, Error> {
        self.open.as_ref().ok_or_else(|| {
            Error::unavailable(
                format!("table '{}'", self.definition.name),
                "its event store is not open",
            )
        })
    }

    fn prepared(&self, id: OperationId) -> Result<&Prepared, Error> {
        let prepared = self.operations.get(id).and_then(Option::as_ref);
        prepared.ok_or_else(|| {
            let action = format!("operation {id} on table '{}'", self.definition.name);
            Error::failed(action, "it was not prepared")
        })
    }

    fn action(&self, what: &str) -> String {
        format!("{what} table '{}'", self.definition.name)
    }

    // ---- reading ----

    fn find(&self, prepared: &Prepared, parameters: &Batch) -> Result<Answer, StoreError> {
        let opened = self.open.as_ref().ok_or_else(closed)?;
        opened.session().check()?;
        let view = opened.table.view();
        find(&opened.table, &view, prepared, parameters, &|| true)
    }

    fn contains(&self, prepared: &Prepared, parameters: &Batch) -> Result<Answer, StoreError> {
        let opened = self.open.as_ref().ok_or_else(closed)?;
        opened.session().check()?;
        let table = &opened.table;
        let view = table.view();
        let mut answers = Vec::with_capacity(parameters.len);
        for row in 0..parameters.len {
            let values = parameters.row(row);
            let bounded = prepared.condition.with(&values, &table.definition);
            let mut has = false;
            table.search(&view, &bounded, &mut |_, _| {
                has = true;
                Ok(false)
            })?;
            answers.push(has);
        }
        Ok(Answer::Contains(answers))
    }

    // ---- writing ----

    /// Rows go into the log, and then into memory.
    fn append(&self, batch: Batch) -> Result<(), StoreError> {
        let opened = self.open.as_ref().ok_or_else(closed)?;
        let (shared, table) = (opened.store.shared(), &opened.table);
        let mut session = opened.session();
        session.check()?;
        shared.wait_for_room(table)?;
        let first = shared.log.take_rows(batch.len);
        let change = Change {
            deleted_ids: Vec::new(),
            deleted_keys: Vec::new(),
            ids: (first..first + batch.len as u64).collect(),
            rows: batch,
        };
        let changes = [change];
        let transaction = session.transaction(&shared.log);
        let types = table.definition.types();
        let frame = changes_frame(transaction, &table.definition.name, &types, &changes);
        // Held from the log to memory: whoever removes files of the log sees both or neither.
        let mut state = table.lock();
        let place = shared.log.append(&frame)?;
        session.touch(table);
        state.is_dirty = true;
        state.apply(&changes[0], place);
        drop(state);
        self.commit_alone(&mut session, opened)
    }

    /// Without epochs each call is a transaction.
    fn commit_alone(&self, session: &mut Session, opened: &Opened) -> Result<(), StoreError> {
        match session.in_epoch {
            true => Ok(()),
            false => session.commit(opened.store.shared(), 0, &[]),
        }
    }

    /// Runs a write event by event; the rows that it refuses are left out.
    fn write(
        &self,
        prepared: &Prepared,
        parameters: &Batch,
        refused: &mut Vec<Refused>,
    ) -> Result<Written, StoreError> {
        let opened = self.open.as_ref().ok_or_else(closed)?;
        let (shared, table) = (opened.store.shared(), &opened.table);
        let mut session = opened.session();
        session.check()?;
        shared.wait_for_room(table)?;
        let transaction = session.transaction(&shared.log);
        let mut state = table.lock();
        let place = shared.log.end();
        let mut writer = Writer {
            table,
            state: &mut state,
            log: &shared.log,
            changes: Vec::new(),
            place,
        };
        let mut written = Written::default();
        let mut failure = None;
        for row in 0..parameters.len {
            let values: Vec<Value> = parameters.row(row);
            match writer.run(prepared, &values, parameters.times.at(row), &mut written) {
                Ok(()) => {}
                Err(StoreError::Refused(message)) => {
                    let cause = Error::failed(self.action("writing to"), message);
                    refused.push(Refused { row, cause });
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let changes = joined(&table.definition, std::mem::take(&mut writer.changes));
        if changes.is_empty() {
            return failure.map_or(Ok(written), Err);
        }
        session.touch(table);
        let types = table.definition.types();
        let frame = changes_frame(transaction, &table.definition.name, &types, &changes);
        let logged = failure
            .map_or(Ok(()), Err)
            .and_then(|()| shared.log.append(&frame).map(drop));
        if let Err(error) = logged {
            // Memory has rows that the log has not.
            session.is_lost = true;
            return Err(error);
        }
        drop(state);
        self.commit_alone(&mut session, opened)?;
        Ok(written)
    }
}

/// For each event the rows that are meant.
fn find(
    table: &Table,
    view: &View,
    prepared: &Prepared,
    parameters: &Batch,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Answer, StoreError> {
    let mut found = Found::new(&table.definition);
    for row in 0..parameters.len {
        let values = parameters.row(row);
        let bounded = prepared.condition.with(&values, &table.definition);
        let bounded = bounded.while_wanted(is_wanted);
        table.search(view, &bounded, &mut |rows, at| {
            found.push(rows, at).map(|()| true)
        })?;
        found.end();
    }
    let (batch, ends) = found.finish();
    Ok(Answer::Rows { batch, ends })
}

/// What a question on another thread looks at.
struct TableView {
    table: Arc<Table>,
    view: View,
}

impl StoreView for TableView {
    fn find(
        &self,
        operation: &Operation,
        parameters: &Batch,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Answer, Error> {
        let name = &self.table.definition.name;
        let prepared = Prepared::new(operation, &self.table.definition);
        let prepared =
            prepared.map_err(|message| Error::refused(format!("table '{name}'"), message))?;
        let found = find(&self.table, &self.view, &prepared, parameters, is_wanted);
        found.map_err(|error| error.into_connect(&format!("reading table '{name}'")))
    }
}

fn closed() -> StoreError {
    StoreError::Refused("the event store is not open".into())
}

impl Store for TableStore {
    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        Ok(Vec::new())
    }

    fn connect(&mut self) -> Result<(), Error> {
        if self.open.is_some() {
            return Ok(());
        }
        let action = self.action("opening");
        let store = self
            .stores
            .open(&self.dir)
            .map_err(|error| error.into_connect(&action))?;
        let table = store.shared().table(&self.definition);
        let table = table.map_err(|error| error.into_connect(&action))?;
        let said = self.indexing.write_beside(&self.dir, &self.definition.name);
        said.map_err(|error| error.into_connect(&action))?;
        let session = store.shared().session(&self.group);
        {
            let mut state = table.lock();
            if !state.enter(&self.group) {
                return Err(Error::unavailable(
                    format!("table '{}' of the event store", self.definition.name),
                    "apps of another group write to it: it is opened when they have ended",
                ));
            }
            state.interval = self.interval;
            state.retention = self.retention;
            state.layout = Arc::clone(&self.layout);
        }
        let mut own = session.lock().unwrap_or_else(PoisonError::into_inner);
        own.apps.insert(self.app.clone());
        drop(own);
        self.open = Some(Opened {
            store,
            session,
            table,
        });
        Ok(())
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        let prepared = Prepared::new(operation, &self.definition);
        let prepared = prepared.map_err(|message| {
            Error::refused(format!("table '{}'", self.definition.name), message)
        })?;
        if self.operations.len() <= id {
            self.operations.resize_with(id + 1, || None);
        }
        self.operations[id] = Some(prepared);
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        self.opened()?;
        let (batch, refused) = fit(&self.definition, batch);
        self.refused = refused;
        if batch.len == 0 {
            return Ok(());
        }
        let appended = self.append(batch);
        appended.map_err(|error| error.into_connect(&self.action("writing to")))
    }

    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error> {
        self.opened()?;
        let prepared = self.prepared(id)?;
        let mut refused = Vec::new();
        let answer = match &prepared.kind {
            OperationKind::Find { .. } => self.find(prepared, parameters),
            OperationKind::Contains { .. } => self.contains(prepared, parameters),
            _ => self
                .write(prepared, parameters, &mut refused)
                .map(Answer::Written),
        };
        let answer = answer.map_err(|error| error.into_connect(&self.action("working on")));
        self.refused = refused;
        answer
    }

    fn view(&mut self) -> Option<Box<dyn StoreView>> {
        let opened = self.open.as_ref()?;
        // Writes that have to be done again are missing: the store answers when they are there.
        opened.session().check().ok()?;
        Some(Box::new(TableView {
            table: Arc::clone(&opened.table),
            view: opened.table.view(),
        }))
    }

    fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(opened) = self.open.take() else {
            return Ok(());
        };
        let aborted = opened.session().abort(opened.store.shared());
        opened.table.lock().leave();
        aborted.map_err(|error| error.into_connect(&self.action("closing")))
    }
}

impl Epochs for TableStore {
    fn begin(&mut self) -> Result<(), Error> {
        self.opened()?.session().in_epoch = true;
        Ok(())
    }

    fn commit(&mut self, epoch: u64, key: &[u8]) -> Result<(), Error> {
        let opened = self.opened()?;
        let committed = opened.session().commit(opened.store.shared(), epoch, key);
        committed.map_err(|error| error.into_connect(&self.action("committing to")))
    }

    fn abort(&mut self) -> Result<(), Error> {
        let opened = self.opened()?;
        let aborted = opened.session().abort(opened.store.shared());
        aborted.map_err(|error| error.into_connect(&self.action("undoing writes to")))
    }

    fn has_lost(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|opened| opened.session().is_lost)
    }

    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let noted = self.opened()?.store.shared().log.epoch(&self.app);
        Ok(noted.map(|noted| (noted.epoch, noted.key)))
    }
}

impl Drop for TableStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            let cause = connect::error::chain(&error);
            tracing::warn!(
                table = self.definition.name,
                cause,
                "cannot close a table of the event store"
            );
        }
    }
}
