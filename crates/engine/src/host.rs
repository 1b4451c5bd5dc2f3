//! What the engine asks of the outside while a step runs.
//!
//! The design parked an app on a store request and went on when the reply came. Here the step
//! calls the host instead, on the thread of the executor that runs it. The order that Siddhi's blocking
//! calls give is kept without a second copy of every operator that could be resumed; while one app
//! waits for its store, the other apps of its executor wait too. A store that no query of the app reads
//! is never waited for: its writes leave as [`crate::Output::Write`] and are done by another thread.

use event::{Column, Times};
use plan::store::{Operation, OperationId};

/// Answers what an app asks of external tables and of functions with effects.
///
/// A call that fails part of the way has done the rows before [`HostError::row`].
pub trait Host {
    /// For each row of parameters the rows of the table that satisfy the operation.
    fn find(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
    ) -> Result<Found, HostError>;

    /// For each row of parameters whether a row of the table satisfies the operation.
    fn contains(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
    ) -> Result<Vec<bool>, HostError>;

    /// Does a writing operation for each row of parameters, in order. `times` are those of the events that the rows
    /// are made of, 0 where there is none.
    fn write(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
        times: &Times,
    ) -> Result<WriteCounts, HostError>;

    /// Runs a function with effects (`file:move`, `file:isExist`) on each row of arguments.
    fn call(
        &mut self,
        function: &str,
        arguments: &[Column],
        rows: usize,
    ) -> Result<Called, HostError>;

    /// Compiles an operation that the app did not have when it was made: one of an on-demand query.
    /// The number is good until [`Host::release`].
    fn prepare(&mut self, _operation: &Operation) -> Result<OperationId, HostError> {
        Err(HostError {
            row: 0,
            message: "an external table cannot be queried here".to_owned(),
        })
    }

    /// A stopwatch, nanoseconds from any start: what is measured with it goes into counts of how long
    /// queries take and nowhere else.
    fn nanos(&mut self) -> u64 {
        0
    }

    /// The operation of [`Host::prepare`] is not asked for any more.
    fn release(&mut self, _operation: OperationId) {}
}

/// Rows found, those of each row of parameters together and in the order of the store.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All attributes of the table.
    pub columns: Vec<Column>,
    /// For each row of parameters the end of its rows in `columns`.
    pub ends: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCounts {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
}

/// Result of a function with effects.
#[derive(Clone, Debug, Default)]
pub struct Called {
    /// A scalar function: its value. A stream function: the attributes it adds.
    pub columns: Vec<Column>,
    /// Stream functions that drop or multiply rows: for each row of the result the row of the
    /// arguments it comes from, ascending. `None`: one result for each row.
    pub origins: Option<Vec<u32>>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// The row that failed.
    pub row: usize,
    pub message: String,
}

/// A host for apps that touch nothing outside; whatever is asked of it fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl NoHost {
    fn refuse<T>(what: &str) -> Result<T, HostError> {
        Err(HostError {
            row: 0,
            message: format!("{what} is not available here"),
        })
    }
}

impl Host for NoHost {
    fn find(&mut self, _: OperationId, _: &[Column], _: usize) -> Result<Found, HostError> {
        Self::refuse("an external table")
    }

    fn contains(&mut self, _: OperationId, _: &[Column], _: usize) -> Result<Vec<bool>, HostError> {
        Self::refuse("an external table")
    }

    fn write(
        &mut self,
        _: OperationId,
        _: &[Column],
        _: usize,
        _: &Times,
    ) -> Result<WriteCounts, HostError> {
        Self::refuse("an external table")
    }

    fn call(&mut self, function: &str, _: &[Column], _: usize) -> Result<Called, HostError> {
        Self::refuse(&format!("function '{function}'"))
    }
}
