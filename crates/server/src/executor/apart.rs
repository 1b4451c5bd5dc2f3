//! Questions about tables of a store that are answered beside the executor, on a thread of who asks: the
//! executor gives away what the rows are at that moment, and goes on.

use std::sync::Arc;

use connect::component::StoreView;
use engine::{Answer, Apart, AskError, Called, Found, Host, HostError, WriteCounts};
use event::{Column, Times};
use lang::span::Span;
use plan::store::{Operation, OperationId};
use plan::{OnDemand, Plan};

use crate::report::chain;
use crate::rows::parameters;

/// Rows of an answer; a query that finds more is told to ask for fewer.
const ROWS_MAX: usize = 100_000;

/// A question with all that its answer needs.
pub(crate) struct ApartQuestion {
    pub apart: Apart,
    pub plan: Arc<Plan>,
    pub query: Arc<OnDemand>,
    pub view: Box<dyn StoreView>,
}

impl ApartQuestion {
    /// Takes as long as the rows do; given up when nobody wants the answer.
    pub fn answer(self, is_wanted: &dyn Fn() -> bool) -> Result<Answer, AskError> {
        let mut host = ViewHost {
            view: self.view.as_ref(),
            operations: Vec::new(),
            is_wanted,
        };
        let seed = crate::clock::wall_millis() as u64;
        let answer = self.apart.answer(&self.plan, &self.query, seed, &mut host);
        bounded(answer)
    }
}

/// An answer has no more rows than [`ROWS_MAX`].
pub(super) fn bounded(answer: Result<Answer, AskError>) -> Result<Answer, AskError> {
    let answer = answer?;
    let rows = answer.rows.as_ref().map_or(0, |rows| rows.len);
    if rows <= ROWS_MAX {
        return Ok(answer);
    }
    Err(AskError {
        message: format!(
            "the query finds {rows} rows, but an answer has at most {ROWS_MAX}: select fewer with 'on' or \
             'limit'"
        ),
        span: Span::default(),
    })
}

/// Answers from a view of the one table that the question is about.
struct ViewHost<'a> {
    view: &'a dyn StoreView,
    operations: Vec<Operation>,
    is_wanted: &'a dyn Fn() -> bool,
}

fn refused<T>(message: impl Into<String>) -> Result<T, HostError> {
    Err(HostError {
        row: 0,
        message: message.into(),
    })
}

impl Host for ViewHost<'_> {
    fn find(
        &mut self,
        operation: OperationId,
        columns: &[Column],
        rows: usize,
    ) -> Result<Found, HostError> {
        let Some(operation) = self.operations.get(operation) else {
            return refused(format!("operation {operation} was not prepared"));
        };
        let batch = parameters(columns, rows);
        let answer = self.view.find(operation, &batch, self.is_wanted);
        match answer.map(connect::component::Answer::into_rows) {
            Ok(Ok((columns, ends))) => Ok(Found { columns, ends }),
            Ok(Err(message)) => refused(message),
            Err(error) => refused(chain(&error)),
        }
    }

    fn prepare(&mut self, operation: &Operation) -> Result<OperationId, HostError> {
        self.operations.push(operation.clone());
        Ok(self.operations.len() - 1)
    }

    fn contains(&mut self, _: OperationId, _: &[Column], _: usize) -> Result<Vec<bool>, HostError> {
        refused("another table is asked by the app alone")
    }

    fn write(
        &mut self,
        _: OperationId,
        _: &[Column],
        _: usize,
        _: &Times,
    ) -> Result<WriteCounts, HostError> {
        refused("a question changes nothing")
    }

    fn call(&mut self, function: &str, _: &[Column], _: usize) -> Result<Called, HostError> {
        refused(format!("function '{function}' is called by the app alone"))
    }
}
