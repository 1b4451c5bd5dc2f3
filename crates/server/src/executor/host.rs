//! What an app requests from outside while it steps: external tables that its queries read, and
//! functions with effects.

use std::time::Instant;

use connect::component::Answer;
use connect::component::Environment;
use connect::effect::{Call, EffectCalls, PendingEffect};
use connect::registry::Registry;
use engine::{Called, Found, Host, HostError, WriteCounts};
use event::{Column, Times};
use plan::store::{Operation, OperationId};

use super::{AskedOperations, OperationTarget};
use crate::activity::ActivityTracker;
use crate::pulse::Pulse;
use crate::rows::parameters;
use crate::store::{Database, Failure};

pub(super) struct ExecutorHost<'a> {
    pub operations: &'a [OperationTarget],
    pub databases: &'a mut Vec<Database>,
    /// By table of the app, as [`super::RunningApp::table_bindings`].
    pub tables: &'a [Option<(usize, usize)>],
    pub asked: &'a mut AskedOperations,
    pub environment: &'a Environment,
    pub registry: Registry,
    pub pulse: &'a Pulse,
    /// As [`super::RunningApp::calls`].
    pub calls: &'a mut [Box<dyn EffectCalls>],
    /// `None` without state: calls act at once.
    pub pending: Option<&'a mut Vec<PendingEffect>>,
    pub is_checkpoint_requested: &'a mut bool,
    pub activity: &'a ActivityTracker,
    /// When the step began.
    pub begun: Instant,
    /// Why the executor cannot go on after this step.
    pub failure: Option<String>,
}

impl ExecutorHost<'_> {
    /// Runs an operation inside the transaction of the checkpoint to come.
    fn execute(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
        times: &Times,
    ) -> Result<Answer, HostError> {
        let place = match self.operations.get(operation) {
            Some(OperationTarget::Inline { database, slot }) => Some((*database, *slot)),
            Some(OperationTarget::Thread { .. }) => None,
            None => self.asked.place(operation),
        };
        let Some((database, slot)) = place else {
            return Err(refused(format!(
                "operation {operation} has no store on this executor"
            )));
        };
        let mut batch = parameters(columns, rows);
        batch.times = times.clone();
        let database = &mut self.databases[database];
        let execute = || database.execute(slot, operation, batch);
        let answer = self.pulse.waiting(execute);
        answer.map_err(|failure| match failure {
            Failure::Refused(cause) => refused(cause),
            // An error of one event would hide that all writes since the last checkpoint are gone.
            Failure::Fatal(cause) => {
                self.failure = Some(cause.clone());
                refused(cause)
            }
        })
    }
}

impl Host for ExecutorHost<'_> {
    fn find(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Found, HostError> {
        let answer = self.execute(operation, columns, rows, &Times::Same(0))?;
        let (columns, ends) = answer.into_rows().map_err(refused)?;
        Ok(Found { columns, ends })
    }

    fn contains(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Vec<bool>, HostError> {
        let answer = self.execute(operation, columns, rows, &Times::Same(0))?;
        answer.into_contains().map_err(refused)
    }

    fn write(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
        times: &Times,
    ) -> Result<WriteCounts, HostError> {
        let answer = self.execute(operation, columns, rows, times)?;
        let written = answer.into_written().map_err(refused)?;
        Ok(WriteCounts {
            inserted: written.inserted,
            updated: written.updated,
            deleted: written.deleted,
        })
    }

    fn prepare(&mut self, operation: &Operation) -> Result<OperationId, HostError> {
        let place = self.tables.get(operation.table).copied().flatten();
        let place = place.ok_or_else(|| {
            refused("the table is written by another thread and cannot be queried here")
        })?;
        self.asked.prepare(operation, place, self.databases)
    }

    fn nanos(&mut self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn release(&mut self, operation: OperationId) {
        self.asked.release(operation);
    }

    fn call(&mut self, name: &str, arguments: &[Column], rows: usize) -> Result<Called, HostError> {
        let Some((at, functions)) = self.registry.effect(name) else {
            return Err(refused(format!("function '{name}' does not run")));
        };
        if functions.acts(name) {
            self.activity.record();
        }
        let put_off = self.pending.as_ref().map_or(0, |pending| pending.len());
        let mut call = Call {
            environment: self.environment,
            function: name,
            arguments,
            rows,
            pending: self.pending.as_deref_mut(),
        };
        let calls = &mut self.calls[at];
        let called = self.pulse.waiting(|| calls.call(&mut call));
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.len() > put_off)
        {
            *self.is_checkpoint_requested = true;
        }
        let called = called.map_err(|(row, message)| HostError { row, message })?;
        Ok(Called {
            columns: called.columns,
            origins: called.origins,
        })
    }
}

fn refused(message: impl Into<String>) -> HostError {
    HostError {
        row: 0,
        message: message.into(),
    }
}
