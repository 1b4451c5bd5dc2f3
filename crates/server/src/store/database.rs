//! The tables of one database: they share its transaction, so what it has undone is done again for
//! all of them, in the order in which it was done.

use std::sync::Arc;

use connect::component::{Answer, KEPT_BYTES_MAX};
use event::Batch;
use plan::store::{OperationId, OperationKind};

use super::{Loss, OnUnreachable, Outage, StoreBinding, StoreContext, StoreRows, Trouble, retry};
use crate::backoff::{Backoff, Reminder, seconds};
use crate::rejected::SharedLog;
use crate::report::chain;
use crate::rows::weight_of;

/// Where tables of one database are written to and asked.
pub(crate) struct Database {
    pub bindings: Vec<StoreBinding>,
    pub context: StoreContext,
    redo: Redo,
}

/// The writes of the open transaction, to do them again when the store has undone it. They are
/// shared with nobody, so there is a bound; beyond it a restart goes on from the last snapshot.
#[derive(Default)]
struct Redo {
    rows: Vec<StoreRows>,
    bytes: usize,
    is_too_long: bool,
}

impl Redo {
    fn keep(&mut self, rows: StoreRows) {
        if self.is_too_long {
            return;
        }
        self.bytes += weight_of(&rows.batch).bytes;
        self.rows.push(rows);
        if self.bytes > KEPT_BYTES_MAX {
            self.rows = Vec::new();
            self.is_too_long = true;
        }
    }
}

/// Why an operation gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The rows are refused; everything else goes on.
    Refused(String),
    /// The apps cannot go on.
    Fatal(String),
}

impl Database {
    pub fn new(bindings: Vec<StoreBinding>, context: StoreContext) -> Database {
        Database {
            bindings,
            context,
            redo: Redo::default(),
        }
    }

    /// Bytes of writes that wait for a commit, here or in a store.
    pub fn uncommitted(&self) -> usize {
        let held = self.bindings.iter().map(|binding| binding.store.held());
        self.redo.bytes.max(held.max().unwrap_or(0))
    }

    pub fn is_in_transaction(&self) -> bool {
        self.bindings.iter().any(|binding| binding.in_transaction)
    }

    /// Does a write whose outcome no query asks for; what the store refuses is rejected.
    pub fn write(&mut self, rows: StoreRows) -> Result<(), String> {
        let binding = &mut self.bindings[rows.slot];
        binding.attempt.clone_from(&rows.attempt);
        let written = binding.write(rows.operation, &rows.batch, &self.context);
        binding.attempt = None;
        self.redo.keep(rows);
        match written {
            Ok(()) => Ok(()),
            Err(Trouble::Fatal(message)) => Err(message),
            Err(Trouble::Lost(loss)) => self.do_again(loss),
        }
    }

    /// Asks or writes for a query that waits for the answer, inside the transaction of the checkpoint to
    /// come. A refused write has not been done.
    pub fn execute(
        &mut self,
        slot: usize,
        operation: OperationId,
        batch: Batch,
    ) -> Result<Answer, Failure> {
        let mut outage = Outage::new(self.context.second);
        loop {
            let binding = &mut self.bindings[slot];
            binding
                .begin(&self.context)
                .map_err(|trouble| Failure::Fatal(trouble.into()))?;
            let kind = binding.operation(operation).map(|o| &o.kind);
            let is_write = kind.is_some_and(OperationKind::is_write);
            let error = match binding.answer(operation, &batch, &self.context) {
                Ok(answer) => {
                    if is_write {
                        self.redo.keep(StoreRows {
                            slot,
                            operation,
                            batch,
                            attempt: None,
                        });
                    }
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let cause = chain(&error);
            if binding.store.has_lost() {
                let is_away = error.is_unavailable();
                self.do_again(Loss { cause, is_away })
                    .map_err(Failure::Fatal)?;
                continue;
            }
            if !error.is_unavailable() || binding.on_unreachable != OnUnreachable::Retry {
                return Err(Failure::Refused(cause));
            }
            let (name, metrics) = (binding.name(), Arc::clone(&binding.metrics));
            outage
                .wait(&error, &name, Some(&metrics), &self.context)
                .map_err(Failure::Fatal)?;
            let connect = || binding.store.connect();
            retry(&name, Some(&metrics), &self.context, connect).map_err(Failure::Fatal)?;
        }
    }

    /// The store has undone the transaction: waits, and does its writes again from the first.
    fn do_again(&mut self, mut loss: Loss) -> Result<(), String> {
        let (mut backoff, mut reminder) = (
            Backoff::with_second(self.context.second),
            Reminder::default(),
        );
        loop {
            let Loss { cause, is_away } = loss;
            if self.redo.is_too_long {
                return Err(format!(
                    "{cause}; all writes since the last checkpoint were rolled back and are too \
                     many to repeat here: fix the database, then start again with the same --state"
                ));
            }
            self.bindings.iter_mut().for_each(StoreBinding::forget);
            let pause = match is_away {
                true => backoff.away(),
                false => backoff.refused(),
            };
            if reminder.is_due(&cause) {
                tracing::error!(
                    cause,
                    again_in_seconds = seconds(pause),
                    "store rolled back its writes; retrying them"
                );
            }
            if self.context.health.pause(pause) {
                self.context.health.leave(cause.clone());
                return Err(cause);
            }
            match self.write_all_again() {
                Ok(()) => return Ok(()),
                Err(Trouble::Fatal(message)) => return Err(message),
                Err(Trouble::Lost(again)) => loss = again,
            }
        }
    }

    fn write_all_again(&mut self) -> Result<(), Trouble> {
        for rows in &self.redo.rows {
            // What was rejected the first time is kept already.
            let context = StoreContext {
                rejected: SharedLog::default(),
                ..self.context.clone()
            };
            self.bindings[rows.slot].write(rows.operation, &rows.batch, &context)?;
        }
        Ok(())
    }

    pub fn commit(&mut self, epoch: u64) -> Result<(), String> {
        loop {
            let committed = self
                .bindings
                .iter_mut()
                .try_for_each(|binding| binding.commit(epoch, &self.context));
            match committed {
                Ok(()) => {
                    self.redo = Redo::default();
                    return Ok(());
                }
                Err(Trouble::Fatal(message)) => return Err(message),
                Err(Trouble::Lost(loss)) => self.do_again(loss)?,
            }
        }
    }

    pub fn abort(&mut self) {
        self.bindings.iter_mut().for_each(StoreBinding::abort);
    }

    /// Gives up what has not been committed and closes the stores.
    pub fn close(&mut self) {
        self.abort();
        for binding in &mut self.bindings {
            if let Err(error) = binding.store.close() {
                tracing::warn!(
                    table = binding.table,
                    cause = chain(&error),
                    "cannot close store"
                );
            }
        }
    }
}
