//! Insert, delete, update and update-or-insert, from the output of a query.
//!
//! Events of a chunk are handled in order; each sees the writes of those before it, except that
//! rows which an update-or-insert is about to insert are kept apart until the end of the chunk and
//! merged among themselves (Siddhi's `InMemoryTable.updateOrAdd`).

use std::collections::BTreeMap;
use std::ops::Range;

use event::{Batch, Column, Type, Value};
use plan::store::{OperationId, OperationKind};
use plan::{Expr, ExprKind, OUTPUT, Output, TableId};

use super::{Condition, ConditionContext, Duplicate, Table, Terms, direct};
use crate::component::EvalContext;
use crate::error::Error;
use crate::expr::{Expression, Inputs, Layout, OTHER, ROW, Slot};
use crate::expr::{MemoryCondition, Prepared, Searched as _};

/// Conditions and set values see the output row as input 0 and the table's row as input 1.
const EVENT: u16 = 0;
const TABLE_ROW: u16 = 1;

pub(crate) struct TableWrite {
    pub table: TableId,
    kind: Kind,
}

enum Kind {
    Insert,
    Delete(MemoryCondition),
    Update(Update),
    UpdateOrInsert(Update),
    /// The event takes the place of the row with its own primary key, whatever key is asked for
    /// (Siddhi's `OverwriteTableIndexOperator`, which does so whatever is set).
    Overwrite,
    External {
        operation: OperationId,
        /// Of the event's row.
        parameters: Vec<Expression>,
    },
}

pub(super) struct Update {
    pub(super) on: MemoryCondition,
    /// By column: that is the order in which Siddhi sets them, and each sees those before it.
    pub(super) set: Vec<(usize, Expression)>,
    /// What is set does not see the row: Siddhi's `IndexOperator` does not hand it on.
    is_blind: bool,
    /// It can be done by [`direct::apply`].
    pub(super) is_direct: bool,
    pub(super) room: direct::Room,
}

/// What a write to an external table needs.
pub(crate) struct ExternalWrite {
    pub operation: OperationId,
    pub parameters: Vec<Column>,
}

impl TableWrite {
    /// `None` where the output is no table. `width` is the number of attributes of the output row.
    pub fn new(
        output: &Output,
        width: usize,
        context: &mut ConditionContext<'_>,
    ) -> Result<Option<TableWrite>, Error> {
        let event = Layout::whole(EVENT, ROW, width);
        let (table, kind) = match output {
            Output::Stream(_) | Output::Window(_) | Output::Return => return Ok(None),
            Output::Table(table) if context.is_external(*table) => {
                let kind = Self::external(*table, OperationKind::Insert, &[], width, context)?;
                (*table, kind)
            }
            Output::Table(table) => (*table, Kind::Insert),
            Output::Delete { table, on } if context.is_external(*table) => {
                let mut terms = Terms::new(event, TABLE_ROW, context);
                let on = terms.term(on)?;
                let parameters = terms.parameters;
                let kind = OperationKind::Delete { on };
                (*table, Self::registered(*table, kind, parameters, context))
            }
            Output::Delete { table, on } => {
                (*table, Kind::Delete(memory(on, &event, *table, context)?))
            }
            Output::Update { table, set, on } | Output::UpdateOrInsert { table, set, on } => {
                let inserts = matches!(output, Output::UpdateOrInsert { .. });
                let kind = if context.is_external(*table) {
                    Self::external_update(*table, set, on, inserts, width, context)?
                } else {
                    let both = event.clone().and_whole(
                        TABLE_ROW,
                        OTHER,
                        context.tables[*table].schema.attributes.len(),
                    );
                    let is_overwritten = context.is_compat || is_whole_row(set, width);
                    let mut by_column = BTreeMap::new();
                    for (column, value) in set {
                        by_column.insert(*column, context.expression(value, &both)?);
                    }
                    let set: Vec<_> = by_column.into_iter().collect();
                    let on = memory(on, &event, *table, context)?;
                    let is_direct = direct::is_direct(&on, &set, &context.tables[*table]);
                    let room = direct::Room::default();
                    let definition = &context.tables[*table];
                    let is_indexed =
                        !definition.primary_key.is_empty() || !definition.indexes.is_empty();
                    let update = Update {
                        on,
                        set,
                        is_blind: context.is_compat && is_indexed,
                        is_direct,
                        room,
                    };
                    match inserts {
                        true if is_overwritten && update.on.is_key() => Kind::Overwrite,
                        true => Kind::UpdateOrInsert(update),
                        false => Kind::Update(update),
                    }
                };
                (*table, kind)
            }
        };
        Ok(Some(TableWrite { table, kind }))
    }

    /// An operation whose first parameters are the whole output row.
    fn external(
        table: TableId,
        kind: OperationKind,
        more: &[Expr],
        width: usize,
        context: &mut ConditionContext<'_>,
    ) -> Result<Kind, Error> {
        let event = Layout::whole(EVENT, ROW, width);
        let mut parameters = row_parameters(table, context, &event)?;
        for expr in more {
            parameters.push(context.expression(expr, &event)?);
        }
        Ok(Self::registered(table, kind, parameters, context))
    }

    fn external_update(
        table: TableId,
        set: &[(usize, Expr)],
        on: &Expr,
        inserts: bool,
        width: usize,
        context: &mut ConditionContext<'_>,
    ) -> Result<Kind, Error> {
        let event = Layout::whole(EVENT, ROW, width);
        let row = if inserts {
            row_parameters(table, context, &event)?
        } else {
            Vec::new()
        };
        let mut terms = Terms::new(event, TABLE_ROW, context);
        terms.parameters = row;
        let on = terms.term(on)?;
        let set = set
            .iter()
            .map(|(column, value)| Ok((*column, terms.term(value)?)))
            .collect::<Result<_, Error>>()?;
        let parameters = terms.parameters;
        let kind = if inserts {
            OperationKind::UpdateOrInsert { set, on }
        } else {
            OperationKind::Update { set, on }
        };
        Ok(Self::registered(table, kind, parameters, context))
    }

    fn registered(
        table: TableId,
        kind: OperationKind,
        parameters: Vec<Expression>,
        context: &mut ConditionContext<'_>,
    ) -> Kind {
        let (operation, parameters) = context.external(table, kind, parameters);
        Kind::External {
            operation,
            parameters,
        }
    }

    /// May a row fail? An external table that is written in the step always may.
    pub fn is_fallible(&self) -> bool {
        match &self.kind {
            Kind::Insert | Kind::Overwrite => false,
            Kind::Delete(on) => on.is_fallible(),
            Kind::Update(update) | Kind::UpdateOrInsert(update) => {
                update.on.is_fallible() || update.set.iter().any(|(_, v)| v.is_fallible())
            }
            Kind::External { parameters, .. } => parameters.iter().any(Expression::is_fallible),
        }
    }

    /// Can neither the host nor what the table holds make it fail?
    pub fn is_sure(&self) -> bool {
        match &self.kind {
            Kind::Insert | Kind::Overwrite => true,
            Kind::Update(update) | Kind::UpdateOrInsert(update) => update.is_direct,
            Kind::Delete(_) | Kind::External { .. } => false,
        }
    }

    /// The parameters of a write to an external table; `None` for a table in memory.
    pub fn external_write(
        &mut self,
        batch: &Batch,
        context: &mut EvalContext<'_>,
    ) -> Option<ExternalWrite> {
        let Kind::External {
            operation,
            parameters,
        } = &mut self.kind
        else {
            return None;
        };
        let inputs = Inputs::of(&batch.columns, batch.len);
        Some(ExternalWrite {
            operation: *operation,
            parameters: parameters
                .iter_mut()
                .map(|p| p.column(&inputs, context))
                .collect(),
        })
    }

    /// Writes all chunks at once, where that is the same as one after the other: inserts, and
    /// updates of one row each, found by its primary key, to values of the event alone. False:
    /// nothing was done.
    pub fn apply_all(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        context: &mut EvalContext<'_>,
        duplicates: &mut Vec<Duplicate>,
    ) -> bool {
        match &mut self.kind {
            Kind::Insert => table.insert(&batch.columns, 0..batch.len, duplicates),
            Kind::Overwrite => table.overwrite(&batch.columns, 0..batch.len),
            Kind::Update(update) => return direct::apply(update, table, batch, false, context),
            Kind::UpdateOrInsert(update) => {
                return direct::apply(update, table, batch, true, context);
            }
            Kind::Delete(_) | Kind::External { .. } => return false,
        }
        true
    }

    /// Writes one chunk to a table in memory. Stops at the first row that fails; what was written
    /// before it stays.
    pub fn apply(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        chunk: Range<usize>,
        context: &mut EvalContext<'_>,
        duplicates: &mut Vec<Duplicate>,
    ) {
        let inputs = Inputs::of(&batch.columns, batch.len);
        match &mut self.kind {
            Kind::Insert => table.insert(&batch.columns, chunk, duplicates),
            Kind::Overwrite => table.overwrite(&batch.columns, chunk),
            Kind::Delete(on) => {
                let prepared = on.prepare(&inputs, context);
                let mut rows = Vec::new();
                for event in chunk {
                    rows.clear();
                    on.find(&prepared, table, &inputs, event, context, &mut rows);
                    if context.has_failed(event) {
                        return;
                    }
                    table.delete(&rows);
                }
            }
            Kind::Update(update) => {
                let prepared = update.on.prepare(&inputs, context);
                for event in chunk {
                    update.run(
                        &prepared,
                        (table, false),
                        &inputs,
                        event,
                        context,
                        duplicates,
                    );
                    if context.has_failed(event) {
                        return;
                    }
                }
            }
            Kind::UpdateOrInsert(update) => {
                let prepared = update.on.prepare(&inputs, context);
                let mut pending: Option<Table> = None;
                for event in chunk.clone() {
                    let known = update.run(
                        &prepared,
                        (table, false),
                        &inputs,
                        event,
                        context,
                        duplicates,
                    );
                    if context.has_failed(event) {
                        break;
                    }
                    if known {
                        continue;
                    }
                    if chunk.len() == 1 {
                        table.insert(&batch.columns, event..event + 1, duplicates);
                        return;
                    }
                    let pending = pending.get_or_insert_with(|| table.empty_like());
                    if !update.run(
                        &prepared,
                        (pending, true),
                        &inputs,
                        event,
                        context,
                        duplicates,
                    ) {
                        pending.insert(&batch.columns, event..event + 1, duplicates);
                    }
                }
                if let Some(pending) = pending {
                    let rows = pending.content(0);
                    let mut late = Vec::new();
                    table.insert(&rows.columns, 0..rows.len, &mut late);
                    // The row of the pending table is not a row of the batch any more.
                    duplicates.extend(late.into_iter().map(|d| Duplicate {
                        row: chunk.start,
                        key: d.key,
                    }));
                }
            }
            Kind::External { .. } => {
                unreachable!("a write to an external table goes to the host")
            }
        }
    }
}

impl Update {
    /// Updates the rows that satisfy the condition for an event, in the table or among the rows that
    /// wait for the end of their chunk; false if there are none.
    fn run(
        &mut self,
        prepared: &Prepared,
        (table, is_pending): (&mut Table, bool),
        inputs: &Inputs<'_>,
        event: usize,
        context: &mut EvalContext<'_>,
        duplicates: &mut Vec<Duplicate>,
    ) -> bool {
        let mut rows = Vec::new();
        self.on
            .find(prepared, table, inputs, event, context, &mut rows);
        if rows.is_empty() || context.has_failed(event) {
            return !rows.is_empty();
        }
        let seen = match self.is_blind && !is_pending {
            true => vec![Column::NO_ROW; rows.len()],
            false => rows.clone(),
        };
        let values = self.values(table, &seen, inputs, event, context);
        if context.has_failed(event) {
            return true;
        }
        let assigned: Vec<Vec<(usize, Value)>> = (0..rows.len())
            .map(|at| {
                let set = self.set.iter().zip(&values);
                set.map(|((column, _), values)| (*column, values.value(at)))
                    .collect()
            })
            .collect();
        // One colliding key refuses the whole event (Siddhi's `UpdateOrInsertReducer` and
        // `IndexOperator.update`).
        if let Some(key) = table.collision(&rows, &assigned) {
            duplicates.push(Duplicate { row: event, key });
            return true;
        }
        for (row, values) in rows.iter().zip(&assigned) {
            table.assign(*row, values);
        }
        table.assigned += rows.len() as u64;
        true
    }

    /// For each set item its value for each of the rows.
    fn values(
        &mut self,
        table: &Table,
        rows: &[u32],
        inputs: &Inputs<'_>,
        event: usize,
        context: &mut EvalContext<'_>,
    ) -> Vec<Column> {
        let event_row: Vec<Value> = match inputs.parts[usize::from(ROW)] {
            crate::expr::Part::Columns(columns) => columns.iter().map(|c| c.value(event)).collect(),
            crate::expr::Part::Values(values) => values.to_vec(),
        };
        let whole = vec![context.whole_row(event); rows.len()];
        let mut all: Vec<(usize, Column)> = Vec::with_capacity(self.set.len());
        for (column, value) in &mut self.set {
            let mut columns = table.gather(rows, &value.uses);
            let is_read = |column: usize| {
                let is_it = |slot: &Slot| slot.part == OTHER && usize::from(slot.index) == column;
                value.uses.iter().any(is_it)
            };
            for (earlier, new) in all.iter().filter(|(earlier, _)| is_read(*earlier)) {
                for row in (0..rows.len()).filter(|&row| rows[row] != Column::NO_ROW) {
                    columns[*earlier].set(row, &new.value(row));
                }
            }
            let inputs = Inputs::of(&[], rows.len())
                .with_values(ROW, &event_row)
                .with(OTHER, &columns);
            let new = value.column(&inputs, &mut context.narrowed(&whole));
            all.push((*column, new));
        }
        all.into_iter().map(|(_, new)| new).collect()
    }
}

/// Does every column take the attribute of the event in its place?
fn is_whole_row(set: &[(usize, Expr)], width: usize) -> bool {
    let is_own = |(column, value): &(usize, Expr)| match value.kind {
        ExprKind::Attribute {
            input, attribute, ..
        } => input == EVENT && attribute == *column,
        _ => false,
    };
    let is_set = |column: usize| set.iter().any(|(set, _)| *set == column);
    set.iter().all(is_own) && (0..width).all(is_set)
}

fn memory(
    on: &Expr,
    event: &Layout,
    table: TableId,
    context: &mut ConditionContext<'_>,
) -> Result<MemoryCondition, Error> {
    match context.memory(Some(on), event, table, TABLE_ROW)? {
        Condition::Memory(condition) => Ok(condition),
        Condition::External { .. } => unreachable!("the table is in memory"),
    }
}

/// The attributes of the output row as parameters, in order.
fn row_parameters(
    table: TableId,
    context: &mut ConditionContext<'_>,
    event: &Layout,
) -> Result<Vec<Expression>, Error> {
    let attributes: Vec<Type> = super::types(&context.tables[table].schema);
    attributes
        .into_iter()
        .enumerate()
        .map(|(attribute, ty)| {
            let expr = Expr {
                ty,
                kind: plan::ExprKind::Attribute {
                    input: EVENT,
                    index: None,
                    attribute,
                },
                span: lang::span::Span::default(),
            };
            context.expression(&expr, event)
        })
        .collect()
}

/// The output row is not an input of a write.
const _: () = assert!(OUTPUT != EVENT && OUTPUT != TABLE_ROW);
