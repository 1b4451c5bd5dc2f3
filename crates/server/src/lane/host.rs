//! What an app asks of the outside while it steps: external tables that its queries read, and
//! functions with effects.

use std::time::Instant;

use connect::component::Answer;
use connect::component::Environment;
use connect::file::effects::Effects;
use connect::file::functions::{self, Effect};
use connect::{rdbms, s3};
use engine::{Called, Found, Host, HostError, Written};
use event::{Column, ColumnBuilder, Value};
use plan::store::{Operation, OperationId};

use super::{AskedOperations, OperationSeat};
use crate::pulse::Pulse;
use crate::store::{Database, Failure, parameters};

/// A file function that waits for the checkpoint that covers its call.
///
/// With `--state` a file leaves its place only when the step that took it away can no longer be
/// undone: else a restart would have to read a file that is gone. The call is answered at once by
/// what will happen, the snapshot holds it, and doing it twice is doing it once.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PendingEffect {
    pub app: String,
    pub function: String,
    pub arguments: Vec<Value>,
}

pub(super) struct LaneHost<'a> {
    pub app: &'a str,
    pub operations: &'a [OperationSeat],
    pub databases: &'a mut Vec<Database>,
    /// By table of the app, as [`super::LaneApp::table_seats`].
    pub tables: &'a [Option<(usize, usize)>],
    pub asked: &'a mut AskedOperations,
    pub effects: &'a Effects,
    pub environment: &'a Environment,
    /// SQL of the app's own, with its connections.
    pub sql: &'a mut rdbms::functions::Functions,
    /// `None` without state: calls act at once.
    pub pending: Option<&'a mut Vec<PendingEffect>>,
    pub is_cut_wanted: &'a mut bool,
    pub pulse: &'a Pulse,
    /// When the step began.
    pub begun: Instant,
    /// Why the lane cannot go on after this step.
    pub failure: Option<String>,
}

impl LaneHost<'_> {
    /// Runs an operation inside the transaction of the cut to come.
    fn execute(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Answer, HostError> {
        let place = match self.operations.get(operation) {
            Some(OperationSeat::Inline { database, slot }) => Some((*database, *slot)),
            Some(OperationSeat::Thread { .. }) => None,
            None => self.asked.place(operation),
        };
        let Some((database, slot)) = place else {
            return Err(refused(format!(
                "operation {operation} has no store on this lane"
            )));
        };
        let batch = parameters(columns, rows);
        let answer = self.databases[database].execute(slot, operation, batch);
        answer.map_err(|failure| match failure {
            Failure::Refused(cause) => refused(cause),
            // An error of one event would hide that all writes since the last checkpoint are gone.
            Failure::Fatal(cause) => {
                self.failure = Some(cause.clone());
                refused(cause)
            }
        })
    }

    /// Keeps a call that takes files away for after the checkpoint; `None` if it is none.
    fn defer(&mut self, name: &str, arguments: &[Value]) -> Option<Vec<Value>> {
        let pending = self.pending.as_deref_mut()?;
        let function = functions::find(name)?;
        let is_deferred = function.effect == Effect::Moves || name == "file:delete";
        if !is_deferred {
            return None;
        }
        let is_there = |from: &std::path::Path| {
            from.exists()
                && !pending.iter().any(|p| {
                    functions::find(&p.function)
                        .and_then(|f| f.ends(&p.arguments))
                        .is_some_and(|(gone, _)| gone == from)
                })
        };
        let result = match function.ends(arguments) {
            Some((from, _)) => vec![Value::Bool(is_there(&from))],
            // Arguments of no use: the call itself says why.
            None if function.effect == Effect::Moves => return None,
            None => Vec::new(),
        };
        pending.push(PendingEffect {
            app: self.app.to_owned(),
            function: name.to_owned(),
            arguments: arguments.to_vec(),
        });
        *self.is_cut_wanted = true;
        Some(result)
    }
}

impl Host for LaneHost<'_> {
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
    ) -> Result<Written, HostError> {
        let answer = self.execute(operation, columns, rows)?;
        let written = answer.into_written().map_err(refused)?;
        Ok(Written {
            inserted: written.inserted,
            updated: written.updated,
            deleted: written.deleted,
        })
    }

    fn prepare(&mut self, operation: &Operation) -> Result<OperationId, HostError> {
        let place = self.tables.get(operation.table).copied().flatten();
        let place = place.ok_or_else(|| {
            refused("the table is written by a thread of its own and cannot be asked here")
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
        if rdbms::functions::is_function(name) {
            self.pulse.beat();
            let called = self.sql.call(self.environment, name, arguments, rows);
            let results = called.map_err(|(row, message)| HostError { row, message })?;
            return Ok(Called {
                columns: results.columns,
                origins: results.origins,
            });
        }
        if s3::functions::is_function(name) {
            self.pulse.beat();
            let called = s3::functions::call(self.environment, name, arguments, rows);
            return match called {
                Ok(()) => Ok(Called::default()),
                Err((row, message)) => Err(HostError { row, message }),
            };
        }
        let Some(function) = functions::find(name) else {
            return Err(refused(format!("function '{name}' does not run")));
        };
        if function.effect != Effect::None {
            self.pulse.beat();
        }
        let mut columns: Vec<ColumnBuilder> = function
            .results
            .iter()
            .map(|ty| ColumnBuilder::with_capacity(*ty, rows))
            .collect();
        for row in 0..rows {
            let values: Vec<Value> = arguments.iter().map(|c| c.value(row)).collect();
            let results = match self.defer(name, &values) {
                Some(results) => results,
                None => self
                    .effects
                    .call(self.app, function, &values)
                    .map_err(|message| HostError { row, message })?,
            };
            for (column, value) in columns.iter_mut().zip(&results) {
                column.push(value);
            }
        }
        Ok(Called {
            columns: columns.into_iter().map(ColumnBuilder::finish).collect(),
            origins: None,
        })
    }
}

fn refused(message: impl Into<String>) -> HostError {
    HostError {
        row: 0,
        message: message.into(),
    }
}
