//! Where a query's rows go.

use event::{Batch, Chunks, Clock};
use plan::store::Operation;
use plan::{QueryId, TableId};

use super::{Broken, Step};
use crate::component::EvalContext;
use crate::output::{Output, RejectedRows};
use crate::table::{Duplicate, ExternalWrite, Table, TableWrite};

/// The tables of an app.
pub(crate) struct Tables {
    /// `None` for an external one.
    tables: Vec<Option<Table>>,
    pub operations: Vec<Operation>,
    /// A query reads the table, so that writes are done before the step goes on.
    is_read: Vec<bool>,
    /// Rows inserted, updated and deleted since the app was made.
    pub written: Vec<crate::host::WriteCounts>,
}

impl Tables {
    pub fn new(
        definitions: &[plan::Table],
        operations: Vec<Operation>,
        is_read: Vec<bool>,
    ) -> Tables {
        Tables {
            tables: definitions
                .iter()
                .map(|t| t.store.is_none().then(|| Table::new(t)))
                .collect(),
            written: vec![crate::host::WriteCounts::default(); definitions.len()],
            operations,
            is_read,
        }
    }

    /// The write is done by the host before the step goes on.
    pub fn is_waited_for(&self, write: &TableWrite) -> bool {
        self.tables[write.table].is_none() && self.is_read[write.table]
    }

    pub fn memory(&self, table: TableId) -> &Table {
        self.tables[table]
            .as_ref()
            .expect("conditions in memory are made for tables in memory alone")
    }

    fn memory_mut(&mut self, table: TableId) -> &mut Table {
        self.tables[table]
            .as_mut()
            .expect("writes in memory are made for tables in memory alone")
    }

    pub fn in_memory(&self) -> impl Iterator<Item = (TableId, &Table)> {
        let all = self.tables.iter().enumerate();
        all.filter_map(|(id, table)| Some((id, table.as_ref()?)))
    }

    /// Rows that a part of the app itself inserts into a table in memory; keys are new.
    pub fn insert(&mut self, table: TableId, columns: &[event::Column], rows: usize) {
        let mut known = Vec::new();
        self.memory_mut(table).insert(columns, 0..rows, &mut known);
        self.written[table].inserted += (rows - known.len()) as u64;
    }

    /// Deletes the rows of a table in memory that a test on the columns of a page picks.
    pub fn delete_where(
        &mut self,
        table: TableId,
        is_doomed: impl Fn(&[event::Column], usize) -> bool,
    ) {
        let deleted = self.memory_mut(table).delete_where(is_doomed);
        self.written[table].deleted += deleted as u64;
    }

    /// Counts what the host did to a table.
    pub fn count(&mut self, table: TableId, written: crate::host::WriteCounts) {
        let total = &mut self.written[table];
        total.inserted += written.inserted;
        total.updated += written.updated;
        total.deleted += written.deleted;
    }

    pub fn mark_saved(&mut self) {
        self.tables.iter_mut().flatten().for_each(Table::mark_saved);
    }

    pub fn replace(&mut self, table: TableId, with: Table) {
        self.tables[table] = Some(with);
    }
}

/// What leaves a query as events: all CURRENT, chunks without rows gone.
#[inline]
pub(super) fn delivered(mut batch: Batch) -> Option<Batch> {
    batch.expired = None;
    batch.inner = None;
    without_resets(batch)
}

/// The rows alone: a chunk that was nothing but a RESET is gone with it.
#[inline]
pub(crate) fn without_resets(batch: Batch) -> Option<Batch> {
    match batch.resets {
        None => (batch.len > 0).then_some(batch),
        Some(_) => without_its_resets(batch),
    }
}

fn without_its_resets(mut batch: Batch) -> Option<Batch> {
    batch.resets = None;
    if batch.len == 0 {
        return None;
    }
    if let Chunks::Ends(ends) = &batch.chunks {
        let mut kept = Vec::with_capacity(ends.len());
        let mut clocks = Vec::with_capacity(ends.len());
        let mut last = 0;
        for (chunk, &end) in ends.iter().enumerate() {
            if end > last {
                kept.push(end);
                clocks.push(batch.clock_at(chunk));
            }
            last = end;
        }
        if let Clock::PerChunk(_) = batch.clock {
            batch.clock = Clock::PerChunk(clocks.into());
        }
        batch.chunks = Chunks::Ends(kept.into());
    }
    Some(batch)
}

/// Writes what a query emits. Rows for a store that nobody reads leave with the outputs.
pub(super) fn write(
    write: &mut TableWrite,
    batch: &Batch,
    query: QueryId,
    step: &mut Step<'_>,
) -> Result<(), Broken> {
    let is_waited_for =
        step.tables.tables[write.table].is_some() || step.tables.is_read[write.table];
    if !is_waited_for {
        return hand_over(write, batch, step);
    }
    let done = write_now(write, batch, step)?;
    for duplicate in done.duplicates {
        let rows = batch
            .columns
            .iter()
            .map(|c| c.slice(duplicate.row, 1))
            .collect();
        let time = event::Times::Same(batch.times.at(duplicate.row));
        step.out.items.push(Output::Rejected(Box::new(RejectedRows {
            stream: None,
            query: Some(query),
            place: PLACE.to_owned(),
            cause: format!("a row with primary key '{}' already exists", duplicate.key),
            rows: Batch::new(rows, 1, time, Chunks::One, step.now),
            is_kept: false,
        })));
    }
    match done.failure {
        Some(failure) => Err(Broken::at(PLACE.to_owned(), failure)),
        None => Ok(()),
    }
}

const PLACE: &str = "output to a table";

/// What a write has done before it returned.
pub(crate) struct Done {
    pub written: crate::host::WriteCounts,
    /// Rows that were left out.
    pub duplicates: Vec<Duplicate>,
    /// Why a row failed; those before it are written.
    pub failure: Option<String>,
}

/// The parameters of a write to an external table.
fn parameters(
    write: &mut TableWrite,
    batch: &Batch,
    step: &mut Step<'_>,
) -> Result<Option<ExternalWrite>, Broken> {
    let mut failures = Vec::new();
    let external = write.external_write(batch, &mut step.evaluation(batch, &mut failures));
    match failures.into_iter().next() {
        Some(failure) if external.is_some() => Err(Broken::at(PLACE.to_owned(), failure.message)),
        _ => Ok(external),
    }
}

fn hand_over(write: &mut TableWrite, batch: &Batch, step: &mut Step<'_>) -> Result<(), Broken> {
    if let Some(external) = parameters(write, batch, step)? {
        step.out.items.push(Output::Write {
            operation: external.operation,
            table: write.table,
            batch: batch.with_columns(external.parameters),
        });
    }
    Ok(())
}

/// Writes to a table, chunk by chunk, before anything else goes on.
pub(crate) fn write_now(
    write: &mut TableWrite,
    batch: &Batch,
    step: &mut Step<'_>,
) -> Result<Done, Broken> {
    if let Some(external) = parameters(write, batch, step)? {
        let written = step
            .host
            .write(external.operation, &external.parameters, batch.len)
            .map_err(|error| Broken::at(PLACE.to_owned(), error.message))?;
        step.tables.count(write.table, written);
        return Ok(Done {
            written,
            duplicates: Vec::new(),
            failure: None,
        });
    }
    let (mut duplicates, mut failures) = (Vec::new(), Vec::new());
    let mut context = EvalContext::new(
        step.now,
        step.wall,
        &batch.times,
        step.environment,
        step.seed,
        &mut failures,
    );
    let table = step.tables.memory_mut(write.table);
    let (rows_before, assigned_before) = (table.len(), table.assigned);
    if !write.apply_all(table, batch, &mut context, &mut duplicates) {
        for chunk in 0..batch.chunk_count() {
            write.apply(
                table,
                batch,
                batch.chunk(chunk),
                &mut context,
                &mut duplicates,
            );
        }
    }
    let (rows, assigned) = (table.len(), table.assigned - assigned_before);
    let written = crate::host::WriteCounts {
        inserted: rows.saturating_sub(rows_before) as u64,
        deleted: rows_before.saturating_sub(rows) as u64,
        updated: assigned,
    };
    step.tables.count(write.table, written);
    Ok(Done {
        written,
        duplicates,
        failure: failures.into_iter().next().map(|f| f.message),
    })
}
