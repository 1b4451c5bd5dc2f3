//! On-demand queries: what is asked of a running app between two steps.
//!
//! Rows of a table, a named window or an aggregation are found by a condition and go through a
//! selector of their own as one chunk; a write takes one row of constants. Nothing of a question is
//! left in the app but what a write has written (Siddhi's `OnDemandQueryRuntime`).
//!
//! External tables are asked through the [`Host`], which compiles an operation that the app did not
//! have at its start by [`Host::prepare`].

use event::{Batch, Chunks, Column, Schema, Times};
use lang::ast::EventType;
use lang::span::Span;
use plan::store::{Operation, OperationId};
use plan::{AggregationId, Expr, Find, From, OnDemand, Plan, Selector as SelectorPlan, Write};

use crate::aggregation::{Contents, RangeOf};
use crate::app::{App, Outside};
use crate::component::{EvalContext, Failure};
use crate::error::Error;
use crate::expr::{Inputs, Layout, ROW};
use crate::host::{Called, Found, Host, HostError, WriteCounts};
use crate::output::Outputs;
use crate::query::{Selector, write_now};
use crate::step::Broken;
use crate::table::{Condition, ConditionContext, TableWrite};

/// The searched row, and for a write the row of constants, is input 0 of every expression.
const INPUT: u16 = 0;

/// Timestamp of the rows of an answer, as in Siddhi.
const NO_TIME: i64 = -1;

/// What an on-demand query gives.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Names and types of the attributes; empty for a write.
    pub schema: Schema,
    /// `None` where no row was found (Siddhi answers null), and for a write.
    pub rows: Option<Batch>,
    /// What a write did to a table.
    pub written: WriteCounts,
}

/// Why an on-demand query has no answer.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct AskError {
    pub message: String,
    /// In the text of the query.
    pub span: Span,
}

impl AskError {
    pub(crate) fn new(message: impl Into<String>, span: Span) -> AskError {
        AskError {
            message: message.into(),
            span,
        }
    }

    fn broken(broken: &Broken, span: Span) -> AskError {
        AskError::new(format!("{}: {}", broken.place, broken.cause), span)
    }
}

impl std::convert::From<Error> for AskError {
    fn from(error: Error) -> AskError {
        AskError::new(error.to_string(), error.span())
    }
}

impl App {
    /// Answers a query that was checked against `plan`, the plan of this app. `wall` is the wall
    /// clock in milliseconds since 1970. It is the application clock as well, but in playback.
    pub fn ask(
        &mut self,
        plan: &Plan,
        query: &OnDemand,
        wall: i64,
        host: &mut dyn Host,
        out: &mut Outputs,
    ) -> Result<Answer, AskError> {
        if !self.core.is_started {
            let message = "the app is not running, so there is nothing to ask";
            return Err(AskError::new(message, Span::default()));
        }
        self.core.wall = self.core.wall.max(wall);
        if self.core.playback.is_none() {
            self.core.clock = self.core.clock.max(wall);
        }
        match query {
            OnDemand::Find(find) => self.find(plan, find, host, out),
            OnDemand::Write(write) => {
                self.may_have_room();
                self.write(plan, write, host, out)
            }
        }
    }

    fn find(
        &mut self,
        plan: &Plan,
        find: &Find,
        host: &mut dyn Host,
        out: &mut Outputs,
    ) -> Result<Answer, AskError> {
        let mut context = ConditionContext::new(&plan.tables);
        context.functions = &plan.functions;
        context.scripts = self.core.environment.scripts;
        let row = |schema: &Schema| Layout::whole(INPUT, ROW, schema.attributes.len());
        let (schema, mut on) = match find.from {
            From::Table(table) => {
                let nothing = Layout::default();
                let on = context.find(find.on.as_ref(), &nothing, table, INPUT)?;
                (&plan.tables[table].schema, on)
            }
            From::Window(window) => {
                let schema = &plan.windows[window].schema;
                (schema, content_condition(&mut context, find, schema)?)
            }
            From::Aggregation(aggregation) => {
                let schema = &plan.aggregations[aggregation].schema;
                (schema, content_condition(&mut context, find, schema)?)
            }
            From::Stream(_) => {
                let message = "a stream keeps no events to ask for";
                return Err(AskError::new(message, selector_span(&find.selector)));
            }
        };
        let mut selector = Selector::new(
            &find.selector,
            &row(schema),
            EventType::Current,
            false,
            &mut context,
        )?;
        let (within, per) = (find.within.as_ref(), find.per.as_ref());
        let mut range = RangeOf::new(within, per, false, &Layout::default(), &mut context)?;
        let on_span = find.on.as_ref().map_or(Span::default(), |on| on.span);
        let content = match (find.from, &mut range) {
            (From::Aggregation(aggregation), Some(range)) => {
                // Its tables are asked by operations of the app.
                let outside = &mut Outside {
                    host: &mut *host,
                    out: &mut *out,
                };
                let span = within.map_or(on_span, |(start, _)| start.span);
                let content = self.read(aggregation, range, outside);
                Some(content.map_err(|message| AskError::new(message, span))?)
            }
            _ => None,
        };
        let mut host = Prepared::new(host, &context.operations)
            .map_err(|e| AskError::new(e.message, on_span))?;
        let rows = self
            .rows_of(find.from, content.as_ref(), &mut on, &mut host)
            .map_err(|message| AskError::new(message, on_span))?;
        let outside = &mut Outside {
            host: &mut host,
            out,
        };
        let selected = match rows {
            None => None,
            Some(rows) => selector
                .select(rows, 0, &mut self.core.step(outside))
                .map_err(|b| AskError::broken(&b, selector_span(&find.selector)))?,
        };
        Ok(Answer {
            schema: find.selector.schema.clone(),
            rows: selected.map(|s| s.batch).filter(|b| b.len > 0),
            written: WriteCounts::default(),
        })
    }

    /// What an aggregation holds for a range.
    fn read(
        &mut self,
        aggregation: AggregationId,
        range: &mut RangeOf,
        outside: &mut Outside<'_>,
    ) -> Result<Batch, String> {
        let mut failures = Vec::new();
        let one = Batch::new(Vec::new(), 1, Times::Same(NO_TIME), Chunks::One, NO_TIME);
        let mut step = self.core.step(outside);
        let inputs = Inputs::of(&[], 1);
        // The step is lent to the evaluation as a whole, so the aggregations wait aside.
        let aggregations = step.take_aggregations();
        let mut context = step.evaluation(&one, &mut failures);
        let ranges = range.ranges((&*aggregations, aggregation), &inputs, &mut context);
        step.aggregations = Some(aggregations);
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure.message);
        }
        let contents = Contents::read(aggregation, &ranges, &mut step)?;
        let part = contents.parts.into_iter().next();
        part.ok_or_else(|| "there is no range to read".to_owned())
    }

    /// The rows of a table that satisfy a condition, or those of what else is kept, as one chunk;
    /// `None` where there are none.
    fn rows_of(
        &mut self,
        from: From,
        content: Option<&Batch>,
        on: &mut Condition,
        host: &mut dyn Host,
    ) -> Result<Option<Batch>, String> {
        let now = self.core.clock;
        let times = Times::Same(NO_TIME);
        let mut failures: Vec<Failure> = Vec::new();
        let mut seed = self.core.seed;
        let mut context = EvalContext::new(
            now,
            self.core.wall,
            &times,
            &self.core.environment,
            &mut seed,
            &mut failures,
        );
        let inputs = Inputs::of(&[], 1);
        let mut rows = Vec::new();
        let columns: Vec<Column> = match (on, from) {
            (
                Condition::External {
                    operation,
                    parameters,
                },
                _,
            ) => {
                let parameters: Vec<Column> = parameters
                    .iter_mut()
                    .map(|p| p.column(&inputs, &mut context))
                    .collect();
                let found = host.find(*operation, &parameters, 1);
                let found = found.map_err(|e| e.message)?;
                rows.extend(0..found.ends.last().copied().unwrap_or(0));
                found.columns
            }
            (Condition::Memory(on), From::Table(table)) => {
                let table = self.core.tables.memory(table);
                let prepared = on.prepare(&inputs, &mut context);
                on.find(&prepared, table, &inputs, 0, &mut context, &mut rows);
                let width = 0..table.width();
                width.map(|c| table.gather_column(c, &rows)).collect()
            }
            (Condition::Memory(on), From::Window(window)) => {
                // Before its first event a window has no content.
                let Some(content) = self.core.windows.get(window).content() else {
                    return Ok(None);
                };
                let content = content.into_batch();
                let prepared = on.prepare(&inputs, &mut context);
                on.find_in(&prepared, &content, &inputs, 0, &mut context, &mut rows);
                content.columns.iter().map(|c| c.gather(&rows)).collect()
            }
            (Condition::Memory(on), _) => {
                let content = content.ok_or("nothing is kept there")?;
                let prepared = on.prepare(&inputs, &mut context);
                on.find_in(&prepared, content, &inputs, 0, &mut context, &mut rows);
                content.columns.iter().map(|c| c.gather(&rows)).collect()
            }
        };
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure.message);
        }
        let len = rows.len();
        Ok((len > 0).then(|| Batch::new(columns, len, times, Chunks::One, now)))
    }

    fn write(
        &mut self,
        plan: &Plan,
        write: &Write,
        host: &mut dyn Host,
        out: &mut Outputs,
    ) -> Result<Answer, AskError> {
        let mut context = ConditionContext::new(&plan.tables);
        context.functions = &plan.functions;
        context.scripts = self.core.environment.scripts;
        context.is_compat = self.core.environment.compat;
        let nothing = Layout::default();
        let mut selector = Selector::new(
            &write.selector,
            &nothing,
            EventType::Current,
            false,
            &mut context,
        )?;
        let width = write.selector.items.len();
        let span = selector_span(&write.selector);
        let Some(mut output) = TableWrite::new(&write.output, width, &mut context)? else {
            let message = "an on-demand query writes to tables only";
            return Err(AskError::new(message, span));
        };
        let mut host =
            Prepared::new(host, &context.operations).map_err(|e| AskError::new(e.message, span))?;
        let outside = &mut Outside {
            host: &mut host,
            out,
        };
        let now = self.core.clock;
        let step = &mut self.core.step(outside);
        let one = Batch::new(Vec::new(), 1, Times::Same(now), Chunks::One, now);
        let selected = selector
            .select(one, 0, step)
            .map_err(|b| AskError::broken(&b, span))?;
        let mut written = WriteCounts::default();
        if let Some(selected) = selected {
            let done = write_now(&mut output, &selected.batch, step);
            let done = done.map_err(|b| AskError::broken(&b, span))?;
            if let Some(failure) = done.failure {
                return Err(AskError::new(failure, span));
            }
            written = done.written;
        }
        Ok(Answer {
            schema: Schema {
                name: String::new(),
                attributes: Vec::new(),
            },
            rows: None,
            written,
        })
    }
}

fn content_condition(
    context: &mut ConditionContext<'_>,
    find: &Find,
    schema: &Schema,
) -> Result<Condition, Error> {
    let row = Layout::whole(INPUT, crate::expr::OTHER, schema.attributes.len());
    context.on_content(find.on.as_ref(), &row)
}

/// Where a select clause stands: from its first item to its last.
fn selector_span(selector: &SelectorPlan) -> Span {
    let spans = selector.items.iter().map(|(e, _): &(Expr, String)| e.span);
    let spans = spans.filter(|s| *s != Span::default());
    spans.reduce(Span::to).unwrap_or_default()
}

/// A host to which the operations of one question are known by their own numbers.
struct Prepared<'a> {
    host: &'a mut dyn Host,
    numbers: Vec<OperationId>,
}

impl<'a> Prepared<'a> {
    fn new(host: &'a mut dyn Host, operations: &[Operation]) -> Result<Prepared<'a>, HostError> {
        let mut prepared = Prepared {
            host,
            numbers: Vec::with_capacity(operations.len()),
        };
        for operation in operations {
            let number = prepared.host.prepare(operation)?;
            prepared.numbers.push(number);
        }
        Ok(prepared)
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        for &number in &self.numbers {
            self.host.release(number);
        }
    }
}

impl Host for Prepared<'_> {
    fn find(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
    ) -> Result<Found, HostError> {
        self.host.find(self.numbers[operation], parameters, rows)
    }

    fn contains(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
    ) -> Result<Vec<bool>, HostError> {
        self.host
            .contains(self.numbers[operation], parameters, rows)
    }

    fn write(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
        times: &Times,
    ) -> Result<WriteCounts, HostError> {
        self.host
            .write(self.numbers[operation], parameters, rows, times)
    }

    fn call(
        &mut self,
        function: &str,
        arguments: &[Column],
        rows: usize,
    ) -> Result<Called, HostError> {
        self.host.call(function, arguments, rows)
    }
}
