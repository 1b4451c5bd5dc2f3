//! Stream processors that look at one row at a time.

use event::{Batch, Column, ColumnBuilder, Type, Value};
use plan::spec::FunctionSpec;

use super::{SpreadChunks, spread};
use crate::component::{
    Argument, Failure, Key, Processor, ProcessorOperator, ProcessorSetup, Refused, WindowContext,
};
use crate::function::Memo;

/// The rows that one row becomes: the values added to each. An error fails the row.
pub type Call = fn(&[Value], &mut Rows<'_>) -> Result<(), String>;

/// A stream processor that is a plain function.
pub struct EachRow {
    pub spec: &'static FunctionSpec,
    pub call: Call,
    /// Looks at the arguments when the plan is made.
    pub check: Option<fn(&[Argument]) -> Result<(), Refused>>,
    /// The rows of one event are a chunk of their own; with compat each row is.
    pub is_chunk_per_event: bool,
}

/// Where the rows go that a row becomes.
pub struct Rows<'a> {
    columns: &'a mut [ColumnBuilder],
    count: usize,
    /// What the call site has compiled.
    pub memo: &'a mut Memo,
}

impl Rows<'_> {
    /// One more row with these values behind its own.
    pub fn push(&mut self, added: &[Value]) {
        for (column, value) in self.columns.iter_mut().zip(added) {
            column.push(value);
        }
        self.count += 1;
    }
}

impl Processor for EachRow {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, setup: &ProcessorSetup<'_>) -> Result<Box<dyn ProcessorOperator>, Refused> {
        if let Some(check) = self.check {
            check(setup.args)?;
        }
        Ok(Box::new(CallSite {
            call: self.call,
            chunks: match (self.is_chunk_per_event, setup.environment.compat) {
                (true, true) => SpreadChunks::PerRow,
                (true, false) => SpreadChunks::PerEvent,
                (false, _) => SpreadChunks::Kept,
            },
            adds: setup.adds.to_vec(),
            memo: Memo::default(),
            values: Vec::new(),
        }))
    }
}

struct CallSite {
    call: Call,
    chunks: SpreadChunks,
    adds: Vec<Type>,
    memo: Memo,
    values: Vec<Value>,
}

impl ProcessorOperator for CallSite {
    fn process(
        &mut self,
        _key: Key,
        mut batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let mut columns: Vec<ColumnBuilder> =
            self.adds.iter().map(|&ty| ColumnBuilder::new(ty)).collect();
        let mut origins: Vec<u32> = Vec::with_capacity(batch.len);
        for row in 0..batch.len {
            self.values.clear();
            self.values.extend(args.iter().map(|a| a.value(row)));
            let mut rows = Rows {
                columns: &mut columns,
                count: 0,
                memo: &mut self.memo,
            };
            if let Err(message) = (self.call)(&self.values, &mut rows) {
                context.failures.push(Failure {
                    row: row as u32,
                    message,
                });
                return None;
            }
            origins.extend(std::iter::repeat_n(row as u32, rows.count));
        }
        let is_one_to_one =
            origins.len() == batch.len && origins.iter().zip(0..).all(|(&o, row)| o == row);
        if self.chunks != SpreadChunks::Kept || !is_one_to_one {
            batch = spread(&batch, &origins, self.chunks)?;
        }
        batch
            .columns
            .extend(columns.into_iter().map(ColumnBuilder::finish));
        Some(batch)
    }
}
