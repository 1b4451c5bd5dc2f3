//! External tables: those that queries read work on the executor, those that are only written have a
//! thread per database.
//!
//! In both places the writes between two checkpoints are one transaction, committed with the
//! checkpoint, so that a store which participates in epochs holds every row once, whatever happens
//! to the process.

mod database;

pub(crate) use database::{Database, Failure};

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use connect::component::{Answer, Refused, Store, Written};
use event::{Batch, Schema};
use plan::store::{Operation, OperationId, OperationKind};

use crate::backoff::{Backoff, LogThrottle, Reminder, seconds};
use crate::checkpoint::{Checkpoint, Phase};
use crate::health::Health;
use crate::metrics::{Counter, TableMetrics};
use crate::queue::Taken;
use crate::rejected::{Attempt, Rejection, SharedLog, Stage};
use crate::report::{chain, panic_text};
use crate::sink::{OutputItem, OutputQueue};

/// What becomes of a write while the store cannot be reached (`connectors.md` 2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnUnreachable {
    Retry,
    Log,
    Store,
}

impl OnUnreachable {
    /// By the text of `on.error`; retrying is the default.
    pub fn from_name(name: &str) -> OnUnreachable {
        match name.to_ascii_uppercase().as_str() {
            "LOG" => OnUnreachable::Log,
            "STORE" => OnUnreachable::Store,
            _ => OnUnreachable::Retry,
        }
    }
}

/// One table that is kept outside.
pub(crate) struct StoreBinding {
    pub app: String,
    pub table: String,
    pub schema: Schema,
    /// A rejected row that is replayed.
    pub attempt: Option<Attempt>,
    pub store: Box<dyn Store>,
    pub operations: Vec<(OperationId, Operation)>,
    pub on_unreachable: OnUnreachable,
    pub metrics: Arc<TableMetrics>,
    /// Notes epochs: the server keeps state.
    pub has_epochs: bool,
    pub in_transaction: bool,
    /// Inserted, updated, deleted and failed when the open transaction began.
    pub counts_at_begin: [u64; 4],
    pub warn_throttle: LogThrottle,
}

/// Why a write or commit did not happen.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store has undone the whole transaction.
    Lost(Loss),
    /// The apps cannot go on.
    Fatal(String),
}

/// Why a store has undone a transaction.
#[derive(Debug)]
pub(crate) struct Loss {
    pub cause: String,
    /// It cannot be reached, which is tried more often than what it refuses.
    pub is_away: bool,
}

impl Loss {
    fn of(error: &connect::Error) -> Loss {
        Loss {
            cause: chain(error),
            is_away: error.is_unavailable(),
        }
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> String {
        match trouble {
            Trouble::Lost(Loss { cause, .. }) | Trouble::Fatal(cause) => cause,
        }
    }
}

/// A write on its way to a store.
pub(crate) struct StoreRows {
    pub slot: usize,
    pub operation: OperationId,
    pub batch: Batch,
    /// A rejected row that is replayed.
    pub attempt: Option<Attempt>,
}

/// What stores need of their surroundings.
#[derive(Clone)]
pub(crate) struct StoreContext {
    pub health: Arc<Health>,
    pub rejected: SharedLog,
    /// Kept beside the epoch in the store, so that another state directory is recognised.
    pub store_key: String,
    /// How long a second of the back-off is.
    pub second: Duration,
    /// A store that is away is an error at once.
    pub gives_up: bool,
}

impl StoreBinding {
    /// Connects and compiles the operations; tries again while the database cannot be reached.
    pub fn open(&mut self, context: &StoreContext) -> Result<(), String> {
        let (name, metrics) = (self.name(), Arc::clone(&self.metrics));
        // This may be the thread that starts all apps.
        let _span = tracing::error_span!("store", app = self.app).entered();
        retry(&name, Some(&metrics), context, || self.store.connect())?;
        tracing::info!(
            app = self.app,
            store = name,
            kind = metrics.label.ty,
            "store is ready"
        );
        for (id, operation) in &self.operations {
            self.store
                .prepare(*id, operation)
                .map_err(|e| format!("{name}: {}", chain(&e)))?;
        }
        Ok(())
    }

    pub fn name(&self) -> String {
        format!("table '{}'", self.table)
    }

    pub fn operation(&self, id: OperationId) -> Option<&Operation> {
        self.operations
            .iter()
            .find(|(other, _)| *other == id)
            .map(|(_, operation)| operation)
    }

    pub fn begin(&mut self, context: &StoreContext) -> Result<(), Trouble> {
        if self.in_transaction {
            return Ok(());
        }
        let (name, metrics) = (self.name(), Arc::clone(&self.metrics));
        retry(&name, Some(&metrics), context, || self.store.begin()).map_err(Trouble::Fatal)?;
        self.in_transaction = true;
        self.counts_at_begin = self.counts();
        Ok(())
    }

    /// Does a write. What the store refuses is rejected chunk by chunk, as Siddhi's own chunks
    /// would be.
    pub fn write(
        &mut self,
        id: OperationId,
        batch: &Batch,
        context: &StoreContext,
    ) -> Result<(), Trouble> {
        self.begin(context)?;
        match self.apply(id, batch, context) {
            Ok(()) => Ok(()),
            Err(error) if self.store.has_lost() => Err(Trouble::Lost(Loss::of(&error))),
            Err(error) if error.is_unavailable() => self.unreachable(id, batch, &error, context),
            Err(error) if batch.chunk_count() <= 1 => {
                self.reject(id, batch, &chain(&error), context);
                Ok(())
            }
            Err(_) => self.write_halves(id, batch, context),
        }
    }

    /// Halves what was refused again and again, down to single chunks: few statements store all others,
    /// in their order.
    fn write_halves(
        &mut self,
        id: OperationId,
        batch: &Batch,
        context: &StoreContext,
    ) -> Result<(), Trouble> {
        let halves = |chunks: &Range<usize>| {
            let middle = chunks.start + chunks.len() / 2;
            [middle..chunks.end, chunks.start..middle]
        };
        // What comes first lies on top.
        let mut left = Vec::from(halves(&(0..batch.chunk_count())));
        while let Some(chunks) = left.pop() {
            let part = batch.slice_chunks(chunks.clone());
            match self.apply(id, &part, context) {
                Ok(()) => {}
                Err(error) if self.store.has_lost() => return Err(Trouble::Lost(Loss::of(&error))),
                Err(error) if error.is_unavailable() => {
                    self.unreachable(id, &part, &error, context)?;
                }
                Err(error) if chunks.len() == 1 => self.reject(id, &part, &chain(&error), context),
                Err(_) => left.extend(halves(&chunks)),
            }
        }
        Ok(())
    }

    fn unreachable(
        &mut self,
        id: OperationId,
        batch: &Batch,
        error: &connect::Error,
        context: &StoreContext,
    ) -> Result<(), Trouble> {
        if self.on_unreachable != OnUnreachable::Retry {
            self.reject(id, batch, &chain(error), context);
            return Ok(());
        }
        let (name, metrics) = (self.name(), Arc::clone(&self.metrics));
        tracing::error!(store = name, cause = chain(error), "cannot connect store");
        retry(&name, Some(&metrics), context, || {
            self.store.connect()?;
            self.apply(id, batch, context)
        })
        .map_err(|cause| match self.store.has_lost() {
            // It was reached, or would still be tried.
            true => Trouble::Lost(Loss {
                cause,
                is_away: false,
            }),
            false => Trouble::Fatal(cause),
        })
    }

    fn apply(
        &mut self,
        id: OperationId,
        batch: &Batch,
        context: &StoreContext,
    ) -> Result<(), connect::Error> {
        self.answer(id, batch, context).map(drop)
    }

    /// Asks the store, or writes to it and counts what was written; rows that it refuses one by one are
    /// rejected.
    fn answer(
        &mut self,
        id: OperationId,
        batch: &Batch,
        context: &StoreContext,
    ) -> Result<Answer, connect::Error> {
        let kind = self.operation(id).map(|o| &o.kind);
        let answer = if matches!(kind, Some(OperationKind::Insert)) {
            self.store.insert(batch)?;
            None
        } else {
            Some(self.store.execute(id, batch)?)
        };
        let refused = self.store.take_refused();
        let inserted = batch.len.saturating_sub(refused.len()) as u64;
        for Refused { row, cause } in refused {
            if let Some(row) = batch.clone().retain_rows(&[row as u32]) {
                self.reject(id, &row, &chain(&cause), context);
            }
        }
        let answer = answer.unwrap_or(Answer::Written(Written {
            inserted,
            ..Written::default()
        }));
        if let Answer::Written(written) = answer {
            self.count(written);
        }
        Ok(answer)
    }

    fn count(&self, written: Written) {
        self.metrics.inserted.add(written.inserted);
        self.metrics.updated.add(written.updated);
        self.metrics.deleted.add(written.deleted);
    }

    fn reject(&mut self, id: OperationId, batch: &Batch, cause: &str, context: &StoreContext) {
        self.metrics.failed.add(batch.len as u64);
        if let Some(count) = self.warn_throttle.admit() {
            tracing::error!(table = self.table, cause, count, "rows were not stored");
        }
        // Only an insert can be done again: its parameters are the row.
        let kind = self.operation(id).map(|operation| &operation.kind);
        let (origin, schema) = match kind {
            Some(OperationKind::Insert) => ("insert", &self.schema),
            _ => ("write", &Schema::default()),
        };
        let rejection = Rejection {
            time: crate::clock::wall_millis(),
            app: self.app.clone(),
            stream: self.table.clone(),
            stage: Stage::Store,
            origin: origin.to_owned(),
            transport: self.metrics.label.ty.clone(),
            place: self.name(),
            cause: cause.to_owned(),
            ..Rejection::of_rows(batch, schema)
        };
        context.rejected.keep(match &self.attempt {
            Some(attempt) => attempt.mark(rejection),
            None => rejection,
        });
    }

    /// Ends the transaction; without epochs the number is not noted.
    pub fn commit(&mut self, epoch: u64, context: &StoreContext) -> Result<(), Trouble> {
        if !self.in_transaction && !self.has_epochs {
            return Ok(());
        }
        self.begin(context)?;
        let name = self.name();
        let key = context.store_key.as_bytes();
        let epoch = if self.has_epochs { epoch } else { 0 };
        let mut loss = None;
        let metrics = Arc::clone(&self.metrics);
        let committed = retry(&name, Some(&metrics), context, || {
            let result = self.store.commit(epoch, key);
            match result {
                // Trying again would only be told the same.
                Err(error) if self.store.has_lost() => {
                    loss = Some(Loss::of(&error));
                    Err(connect::Error::failed("committing", error))
                }
                result => result,
            }
        });
        match committed {
            Ok(()) => {
                self.in_transaction = false;
                Ok(())
            }
            Err(cause) => Err(match loss {
                Some(loss) => Trouble::Lost(Loss { cause, ..loss }),
                None => Trouble::Fatal(cause),
            }),
        }
    }

    fn counts(&self) -> [u64; 4] {
        let m = &self.metrics;
        [&m.inserted, &m.updated, &m.deleted, &m.failed].map(Counter::get)
    }

    /// Back to before the transaction, which the store has undone.
    fn forget(&mut self) {
        if !self.in_transaction {
            return;
        }
        self.abort();
        let [inserted, updated, deleted, failed] = self.counts_at_begin;
        self.metrics.inserted.set(inserted);
        self.metrics.updated.set(updated);
        self.metrics.deleted.set(deleted);
        self.metrics.failed.set(failed);
    }

    /// Gives up what has not been committed.
    pub fn abort(&mut self) {
        if std::mem::take(&mut self.in_transaction)
            && let Err(error) = self.store.abort()
        {
            tracing::warn!(table = self.table, cause = chain(&error), "rollback failed");
        }
    }
}

/// Tries until it works, the server stops, or the fault is one that trying does not mend. `metrics`:
/// of the table that is away meanwhile.
pub(crate) fn retry<T>(
    name: &str,
    metrics: Option<&TableMetrics>,
    context: &StoreContext,
    mut work: impl FnMut() -> Result<T, connect::Error>,
) -> Result<T, String> {
    let mut outage = Outage::new(context.second);
    let mut is_again = false;
    loop {
        match work() {
            Ok(done) => {
                if let Some(metrics) = metrics {
                    metrics.presence.back();
                }
                if is_again {
                    tracing::info!(store = name, "store is connected again");
                }
                return Ok(done);
            }
            Err(error) if error.is_unavailable() && !context.gives_up => {
                is_again = true;
                outage.wait(&error, name, metrics, context)?;
            }
            Err(error) => return Err(format!("{name}: {}", chain(&error))),
        }
    }
}

/// The time in which a store cannot be reached.
pub(crate) struct Outage {
    backoff: Backoff,
    reminder: Reminder,
}

impl Outage {
    /// `second`: as in [`StoreContext`].
    pub fn new(second: Duration) -> Outage {
        Outage {
            backoff: Backoff::with_second(second),
            reminder: Reminder::default(),
        }
    }

    /// After this failure: waits until the next try. An error: the server stops before.
    pub fn wait(
        &mut self,
        error: &connect::Error,
        name: &str,
        metrics: Option<&TableMetrics>,
        context: &StoreContext,
    ) -> Result<(), String> {
        let (cause, pause) = (chain(error), self.backoff.away());
        if let Some(metrics) = metrics {
            metrics.presence.lost(&cause, Some(pause));
        }
        if self.reminder.is_due(&cause) {
            let again_in_seconds = seconds(pause);
            tracing::error!(
                store = name,
                cause,
                again_in_seconds,
                "cannot connect store"
            );
        }
        if context.health.pause(pause) {
            let why = format!("{name}: {cause}");
            context.health.leave(why.clone());
            return Err(why);
        }
        Ok(())
    }
}

/// A database that no query reads: written behind the executor's back, in order.
pub(crate) struct StoreThread {
    pub database: Database,
    pub output_queue: Arc<OutputQueue<StoreRows>>,
    pub uncommitted: Arc<Uncommitted>,
}

/// Bytes of writes that wait for a commit, as an executor sees those of a thread.
#[derive(Default, Debug)]
pub(crate) struct Uncommitted(AtomicUsize);

impl Uncommitted {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl StoreThread {
    pub fn run(mut self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        let failure = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(message)) => message,
            Err(panic) => format!(
                "a store stopped by an internal error: {}",
                panic_text(panic.as_ref())
            ),
        };
        self.database.context.health.fail(failure);
        self.output_queue.give_up();
    }

    fn run_inner(&mut self) -> Result<(), String> {
        loop {
            match self.output_queue.take(None) {
                Taken::Item(OutputItem::Rows(rows)) => self.database.write(rows)?,
                Taken::Item(OutputItem::Barrier(checkpoint)) => self.commit(&checkpoint)?,
                Taken::Late => {}
                Taken::Closed => break,
            }
            self.uncommitted.set(self.database.uncommitted());
        }
        self.database.close();
        Ok(())
    }

    fn commit(&mut self, checkpoint: &Checkpoint) -> Result<(), String> {
        let _held = checkpoint.abort_on_panic();
        checkpoint.flushed();
        let result = match checkpoint.wait_durable() {
            Phase::Durable => self.database.commit(checkpoint.epoch),
            _ => Err("its snapshot could not be written".to_owned()),
        };
        match &result {
            Ok(()) => checkpoint.committed(),
            Err(_) => {
                self.database.abort();
                checkpoint.set_phase(Phase::Aborted);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Weight;
    use connect::Error;
    use connect::component::Epochs;
    use event::{Chunks, Column, Times};
    use std::sync::Mutex;

    /// A store that undoes its transaction at given calls, and refuses the row 13.
    #[derive(Default)]
    struct Forgetful {
        calls: usize,
        loses_at: Vec<usize>,
        /// Calls at which the store cannot be reached, and loses nothing.
        is_away_at: Vec<usize>,
        is_lost: bool,
        open: Vec<i64>,
        kept: Arc<Mutex<Vec<(u64, Vec<i64>)>>>,
    }

    impl Forgetful {
        fn call(&mut self) -> Result<(), Error> {
            self.calls += 1;
            if self.loses_at.contains(&self.calls) {
                self.is_lost = true;
                self.open.clear();
            }
            if self.is_lost || self.is_away_at.contains(&self.calls) {
                return Err(Error::unavailable("the disk", "it is full"));
            }
            Ok(())
        }
    }

    impl Store for Forgetful {
        fn connect(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn prepare(&mut self, _: OperationId, _: &Operation) -> Result<(), Error> {
            Ok(())
        }

        fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
            self.call()?;
            let rows: Vec<i64> = (0..batch.len)
                .filter_map(|row| batch.columns[0].value(row).to_long())
                .collect();
            if rows.contains(&13) {
                return Err(Error::failed("inserting", "13 is refused"));
            }
            self.open.extend(rows);
            Ok(())
        }

        /// Finds every row of the open transaction.
        fn execute(&mut self, _: OperationId, _: &Batch) -> Result<Answer, Error> {
            self.call()?;
            Ok(Answer::Contains(vec![true; self.open.len()]))
        }

        fn close(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    impl Epochs for Forgetful {
        fn begin(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn commit(&mut self, epoch: u64, _: &[u8]) -> Result<(), Error> {
            self.call()?;
            let rows = std::mem::take(&mut self.open);
            self.kept.lock().expect("one thread").push((epoch, rows));
            Ok(())
        }

        fn abort(&mut self) -> Result<(), Error> {
            self.is_lost = false;
            self.open.clear();
            Ok(())
        }

        fn held(&self) -> usize {
            self.open.len() * 1000
        }

        fn has_lost(&self) -> bool {
            self.is_lost
        }

        fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
            Ok(None)
        }
    }

    const INSERT: OperationId = 0;
    const FIND: OperationId = 1;

    /// A database of one table that behaves like `store`, and what it keeps.
    fn database(
        store: Forgetful,
        on_unreachable: OnUnreachable,
    ) -> (Database, Arc<TableMetrics>, Arc<Health>) {
        let metrics = Arc::new(TableMetrics::default());
        let activity = Arc::new(crate::activity::ActivityTracker::default());
        let health = Arc::new(Health::new(&["A".to_owned()], &activity, false));
        let operation = |kind| Operation {
            table: 0,
            kind,
            parameters: vec![event::Type::Long],
        };
        let find = OperationKind::Find { on: None };
        let binding = StoreBinding {
            schema: Schema::default(),
            attempt: None,
            app: "A".into(),
            table: "T".into(),
            store: Box::new(store),
            operations: vec![
                (INSERT, operation(OperationKind::Insert)),
                (FIND, operation(find)),
            ],
            on_unreachable,
            metrics: Arc::clone(&metrics),
            has_epochs: true,
            in_transaction: false,
            counts_at_begin: [0; 4],
            warn_throttle: LogThrottle::default(),
        };
        let context = StoreContext {
            health: Arc::clone(&health),
            rejected: SharedLog::default(),
            store_key: "key".into(),
            second: Duration::ZERO,
            gives_up: false,
        };
        (Database::new(vec![binding], context), metrics, health)
    }

    /// Rows that are a chunk each.
    fn rows(values: &[i64]) -> Batch {
        let column = Column::longs_from(values.to_vec());
        Batch::new(
            vec![column],
            values.len(),
            Times::Same(0),
            Chunks::EachRow,
            0,
        )
    }

    /// Each inner list is a batch.
    #[track_caller]
    fn check(loses_at: &[usize], batches: &[&[i64]], expect: &[i64], refused: u64) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let store = Forgetful {
            loses_at: loses_at.to_vec(),
            kept: Arc::clone(&kept),
            ..Forgetful::default()
        };
        let (database, metrics, health) = database(store, OnUnreachable::Retry);
        let output_queue = Arc::new(OutputQueue::new(Weight {
            rows: 1000,
            bytes: 1 << 20,
        }));
        for values in batches {
            let rows = StoreRows {
                slot: 0,
                operation: INSERT,
                batch: rows(values),
                attempt: None,
            };
            output_queue
                .push_always(OutputItem::Rows(rows))
                .expect("open");
        }
        let checkpoint = Arc::new(Checkpoint::new(7, 0, 1));
        checkpoint.set_phase(Phase::Durable);
        output_queue
            .push_always(OutputItem::Barrier(Arc::clone(&checkpoint)))
            .expect("open");
        output_queue.close();
        let thread = StoreThread {
            database,
            output_queue,
            uncommitted: Arc::default(),
        };
        thread.run();
        assert_eq!(health.failure(), None);
        assert_eq!(checkpoint.wait_committed(), Phase::Durable);
        assert_eq!(*kept.lock().expect("one thread"), [(7, expect.to_vec())]);
        let counts = (metrics.inserted.get(), metrics.failed.get());
        assert_eq!(counts, (expect.len() as u64, refused));
    }

    #[test]
    fn what_the_store_has_undone_is_done_again() {
        check(&[], &[&[1, 2], &[3]], &[1, 2, 3], 0);
        check(&[1], &[&[1, 2], &[3]], &[1, 2, 3], 0);
        check(&[2], &[&[1, 2], &[3]], &[1, 2, 3], 0);
        // At the commit, and once more while it is done again.
        check(&[3, 5], &[&[1, 2], &[3]], &[1, 2, 3], 0);
    }

    #[test]
    fn an_executor_sees_what_a_store_holds_until_its_commit() {
        for (is_committed, expect) in [(false, 3000), (true, 0)] {
            let (database, ..) = database(Forgetful::default(), OnUnreachable::Retry);
            let output_queue = Arc::new(OutputQueue::new(Weight {
                rows: 1000,
                bytes: 1 << 20,
            }));
            let rows = StoreRows {
                slot: 0,
                operation: INSERT,
                batch: rows(&[1, 2, 3]),
                attempt: None,
            };
            output_queue
                .push_always(OutputItem::Rows(rows))
                .expect("open");
            if is_committed {
                let checkpoint = Arc::new(Checkpoint::new(7, 0, 1));
                checkpoint.set_phase(Phase::Durable);
                output_queue
                    .push_always(OutputItem::Barrier(checkpoint))
                    .expect("open");
            }
            output_queue.close();
            let uncommitted = Arc::<Uncommitted>::default();
            let thread = StoreThread {
                database,
                output_queue,
                uncommitted: Arc::clone(&uncommitted),
            };
            thread.run();
            assert_eq!(uncommitted.get(), expect);
        }
    }

    #[test]
    fn a_chunk_that_is_refused_goes_alone() {
        check(&[], &[&[1, 13, 2], &[3]], &[1, 2, 3], 1);
        check(&[3], &[&[1, 13, 2], &[3]], &[1, 2, 3], 1);
    }

    /// Inserts 1, 2 and 3 one by one, asking behind each how many there are.
    #[track_caller]
    fn check_asked(loses_at: &[usize], is_away_at: &[usize]) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let store = Forgetful {
            loses_at: loses_at.to_vec(),
            is_away_at: is_away_at.to_vec(),
            kept: Arc::clone(&kept),
            ..Forgetful::default()
        };
        let (mut database, metrics, _) = database(store, OnUnreachable::Retry);
        for value in 1..=3 {
            let written = database.execute(0, INSERT, rows(&[value]));
            assert!(
                matches!(written, Ok(Answer::Written(w)) if w.inserted == 1),
                "{written:?}"
            );
            let found = database.execute(0, FIND, rows(&[0]));
            let Ok(Answer::Contains(found)) = found else {
                panic!("{found:?}");
            };
            assert_eq!(found.len() as i64, value);
        }
        assert!(database.uncommitted() > 0);
        database.commit(7).expect("commits");
        assert_eq!(database.uncommitted(), 0);
        assert_eq!(*kept.lock().expect("one thread"), [(7, vec![1, 2, 3])]);
        assert_eq!(metrics.inserted.get(), 3);
    }

    #[test]
    fn what_queries_read_is_done_again_too() {
        check_asked(&[], &[]);
        // While writing, while asking, while doing again, at the commit.
        check_asked(&[3], &[]);
        check_asked(&[4], &[]);
        check_asked(&[5, 6], &[]);
        check_asked(&[7], &[]);
        check_asked(&[], &[1, 4, 5]);
    }

    #[test]
    fn what_is_refused_or_not_to_be_waited_for_is_the_querys_to_reject() {
        let (mut database, ..) = database(Forgetful::default(), OnUnreachable::Retry);
        let refused = database.execute(0, INSERT, rows(&[13]));
        assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
        for policy in [OnUnreachable::Log, OnUnreachable::Store] {
            let store = Forgetful {
                is_away_at: vec![1],
                ..Forgetful::default()
            };
            let (mut database, ..) = super::tests::database(store, policy);
            let refused = database.execute(0, INSERT, rows(&[1]));
            assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
            assert!(database.execute(0, INSERT, rows(&[2])).is_ok());
        }
    }

    /// What becomes of the second of three rows while the store is away: rows stored, rows counted as
    /// failed and whether they are kept with the rejected events, as with every policy that gives up.
    #[track_caller]
    fn check_away(policy: &str, stored: &[i64], failed: u64, is_kept: bool) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let store = Forgetful {
            is_away_at: vec![2],
            kept: Arc::clone(&kept),
            ..Forgetful::default()
        };
        let (mut database, metrics, _) = database(store, OnUnreachable::from_name(policy));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let log = dir.path().join("undelivered");
        let log = crate::rejected::RejectedLog::open(&log, 0, Default::default()).expect("a log");
        database.context.rejected.set(log);
        for value in 1..=3 {
            let rows = StoreRows {
                slot: 0,
                operation: INSERT,
                batch: rows(&[value]),
                attempt: None,
            };
            database.write(rows).expect("goes on");
        }
        database.commit(1).expect("commits");
        assert_eq!(
            *kept.lock().expect("one thread"),
            [(1, stored.to_vec())],
            "{policy}"
        );
        assert_eq!(metrics.failed.get(), failed, "{policy}");
        assert_eq!(database.context.rejected.len() > 0, is_kept, "{policy}");
    }

    // covers: 248, 249, 250
    // shows: store rdbms@sqlite error
    #[test]
    fn a_store_that_is_away_is_waited_for_or_its_rows_are_kept() {
        check_away("RETRY", &[1, 2, 3], 0, false);
        check_away("", &[1, 2, 3], 0, false);
        check_away("LOG", &[1, 3], 1, true);
        check_away("STORE", &[1, 3], 1, true);
    }
}
