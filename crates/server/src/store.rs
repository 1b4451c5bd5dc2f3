//! External tables: those that queries read work on the lane, those that are only written have a
//! thread per database.
//!
//! In both places the writes between two cuts are one transaction, committed with the cut, so that
//! a store which takes part in epochs holds every row once, whatever happens to the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use connect::component::{Answer, Store, Written};
use event::{Batch, Chunks};
use lang::store::{Operation, OperationId, OperationKind};

use crate::backoff::{Backoff, Sparse};
use crate::cut::{Cut, Phase};
use crate::health::Health;
use crate::metrics::TableMetrics;
use crate::pulse::Pulse;
use crate::queue::Taken;
use crate::rejected::{Rejection, SharedLog};
use crate::report::{chain, panic_text};
use crate::sink::{Outbox, Parcel, payload_text};

/// Slice in which a store that waits looks whether the server stops.
const STOP_LOOK: Duration = Duration::from_millis(100);

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
pub(crate) struct StoreSeat {
    pub app: String,
    pub table: String,
    pub store: Box<dyn Store>,
    pub operations: Vec<(OperationId, Operation)>,
    pub on_unreachable: OnUnreachable,
    pub metrics: Arc<TableMetrics>,
    /// Notes epochs: the server keeps state.
    pub has_epochs: bool,
    pub in_transaction: bool,
    pub said: Sparse,
}

/// A write on its way to a store.
pub(crate) struct StoreRows {
    pub slot: usize,
    pub operation: OperationId,
    pub batch: Batch,
}

/// What stores need of their surroundings.
#[derive(Clone)]
pub(crate) struct StoreContext {
    pub pulse: Arc<Pulse>,
    pub health: Arc<Health>,
    pub rejected: SharedLog,
    /// Kept beside the epoch in the store, so that another state directory is recognised.
    pub store_key: String,
}

impl StoreSeat {
    /// Connects and compiles the operations; tries again while the database cannot be reached.
    pub fn open(&mut self, context: &StoreContext) -> Result<(), String> {
        let name = self.name();
        retry(&name, &context.pulse, || self.store.connect())?;
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

    pub fn begin(&mut self, context: &StoreContext) -> Result<(), String> {
        if self.in_transaction {
            return Ok(());
        }
        let name = self.name();
        retry(&name, &context.pulse, || self.store.begin())?;
        self.in_transaction = true;
        Ok(())
    }

    /// Does a write. What the store refuses is rejected chunk by chunk, as Siddhi's own chunks
    /// would be; an error is returned only when the server cannot go on.
    pub fn write(
        &mut self,
        id: OperationId,
        batch: &Batch,
        context: &StoreContext,
    ) -> Result<(), String> {
        self.begin(context)?;
        match self.apply(id, batch) {
            Ok(()) => Ok(()),
            Err(error) if error.is_unavailable() => self.unreachable(id, batch, &error, context),
            Err(error) if batch.chunk_count() <= 1 => {
                self.reject(batch, &chain(&error), context);
                Ok(())
            }
            Err(_) => {
                for chunk in 0..batch.chunk_count() {
                    let one = batch.slice_chunks(chunk..chunk + 1);
                    match self.apply(id, &one) {
                        Ok(()) => {}
                        Err(error) if error.is_unavailable() => {
                            self.unreachable(id, &one, &error, context)?;
                        }
                        Err(error) => self.reject(&one, &chain(&error), context),
                    }
                }
                Ok(())
            }
        }
    }

    fn unreachable(
        &mut self,
        id: OperationId,
        batch: &Batch,
        error: &connect::Error,
        context: &StoreContext,
    ) -> Result<(), String> {
        if self.on_unreachable == OnUnreachable::Retry {
            let name = self.name();
            tracing::error!(
                store = name,
                cause = chain(error),
                "store cannot be reached"
            );
            return retry(&name, &context.pulse, || {
                self.store.connect()?;
                self.apply(id, batch)
            });
        }
        self.reject(batch, &chain(error), context);
        Ok(())
    }

    fn apply(&mut self, id: OperationId, batch: &Batch) -> Result<(), connect::Error> {
        let kind = self.operation(id).map(|o| &o.kind);
        if matches!(kind, Some(OperationKind::Insert)) {
            self.store.insert(batch)?;
            self.metrics.inserted.add(batch.len as u64);
            return Ok(());
        }
        if let Answer::Written(written) = self.store.execute(id, batch)? {
            self.count(written);
        }
        Ok(())
    }

    pub fn count(&self, written: Written) {
        self.metrics.inserted.add(written.inserted);
        self.metrics.updated.add(written.updated);
        self.metrics.deleted.add(written.deleted);
    }

    fn reject(&mut self, batch: &Batch, cause: &str, context: &StoreContext) {
        self.metrics.failed.add(batch.len as u64);
        if let Some(count) = self.said.say() {
            tracing::error!(table = self.table, cause, count, "rows were not stored");
        }
        let rows: Vec<u32> = (0..batch.len as u32).collect();
        context.rejected.keep(Rejection {
            time: crate::clock::wall_millis(),
            app: self.app.clone(),
            stream: self.table.clone(),
            place: self.name(),
            cause: cause.to_owned(),
            ..Rejection::of_payload(payload_text(batch, &rows).as_bytes())
        });
    }

    /// Ends the transaction; without epochs the number is not noted.
    pub fn commit(&mut self, epoch: u64, context: &StoreContext) -> Result<(), String> {
        if !self.in_transaction && !self.has_epochs {
            return Ok(());
        }
        self.begin(context)?;
        let name = self.name();
        let key = context.store_key.as_bytes();
        let epoch = if self.has_epochs { epoch } else { 0 };
        retry(&name, &context.pulse, || self.store.commit(epoch, key))?;
        self.in_transaction = false;
        Ok(())
    }

    /// Gives up what has not been committed.
    pub fn abort(&mut self) {
        if std::mem::take(&mut self.in_transaction)
            && let Err(error) = self.store.abort()
        {
            tracing::warn!(table = self.table, cause = chain(&error), "abort failed");
        }
    }

    /// The epoch committed under this state directory; 0 for none.
    pub fn last_epoch(&mut self, context: &StoreContext) -> Result<u64, String> {
        let name = self.name();
        let found = retry(&name, &context.pulse, || self.store.last_epoch())?;
        Ok(match found {
            Some((epoch, key)) if key == context.store_key.as_bytes() => epoch,
            _ => 0,
        })
    }
}

/// Tries until it works, the server stops, or the fault is one that trying does not mend.
pub(crate) fn retry<T>(
    name: &str,
    pulse: &Pulse,
    mut work: impl FnMut() -> Result<T, connect::Error>,
) -> Result<T, String> {
    let mut backoff = Backoff::default();
    loop {
        match work() {
            Ok(done) => return Ok(done),
            Err(error) if error.is_unavailable() => {
                let cause = chain(&error);
                let pause = backoff.next_pause();
                tracing::error!(
                    store = name,
                    cause,
                    again_in_seconds = pause.as_secs(),
                    "store cannot be reached"
                );
                let until = Instant::now() + pause;
                while !pulse.is_stopping() && Instant::now() < until {
                    pulse.wait_change(STOP_LOOK);
                }
                if pulse.is_stopping() {
                    return Err(format!("{name}: {cause}"));
                }
            }
            Err(error) => return Err(format!("{name}: {}", chain(&error))),
        }
    }
}

/// A database that no query reads: written behind the lane's back, in order.
pub(crate) struct StoreThread {
    pub seats: Vec<StoreSeat>,
    pub outbox: Arc<Outbox<StoreRows>>,
    pub context: StoreContext,
}

impl StoreThread {
    pub fn run(mut self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        let failure = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(message)) => message,
            Err(panic) => format!(
                "a store stopped by a fault of Headwater: {}",
                panic_text(panic.as_ref())
            ),
        };
        self.context.health.fail(failure);
        // Whoever waits for this thread is let go: marks still in the queue are given up.
        self.outbox.close();
        while let Some(parcel) = self.outbox.take_now() {
            if let Parcel::Mark(cut) = parcel {
                cut.set_phase(Phase::GivenUp);
            }
        }
    }

    fn run_inner(&mut self) -> Result<(), String> {
        loop {
            match self.outbox.take(None) {
                Taken::Item(Parcel::Rows(rows)) => {
                    let seat = &mut self.seats[rows.slot];
                    seat.write(rows.operation, &rows.batch, &self.context)?;
                    self.context.pulse.nudge();
                }
                Taken::Item(Parcel::Mark(cut)) => self.commit(&cut)?,
                Taken::Late => {}
                Taken::Closed => break,
            }
        }
        for seat in &mut self.seats {
            seat.abort();
            if let Err(error) = seat.store.close() {
                tracing::warn!(
                    table = seat.table,
                    cause = chain(&error),
                    "store did not close"
                );
            }
        }
        Ok(())
    }

    fn commit(&mut self, cut: &Cut) -> Result<(), String> {
        cut.flushed();
        let result = match cut.wait_durable() {
            Phase::Durable => self
                .seats
                .iter_mut()
                .try_for_each(|seat| seat.commit(cut.epoch, &self.context)),
            _ => Err("its snapshot could not be written".to_owned()),
        };
        match &result {
            Ok(()) => cut.committed(),
            Err(_) => {
                self.seats.iter_mut().for_each(StoreSeat::abort);
                cut.set_phase(Phase::GivenUp);
            }
        }
        result
    }
}

/// Rows of parameters as a batch for a store.
pub(crate) fn parameters(columns: &[event::Column], rows: usize) -> Batch {
    Batch::new(
        columns.to_vec(),
        rows,
        event::Times::Same(0),
        Chunks::One,
        0,
    )
}
