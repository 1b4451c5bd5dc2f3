//! Where a query's rows go.

use event::{Batch, Chunks};
use plan::QueryId;

use crate::component::EvalContext;
use crate::emission::without_resets;
use crate::output::{Output, RejectedRows};
use crate::step::{Broken, Step};
use crate::table::{Duplicate, ExternalWrite, TableWrite};

/// What leaves a query as events: all CURRENT, chunks without rows gone.
#[inline]
pub(super) fn delivered(mut batch: Batch) -> Option<Batch> {
    batch.expired = None;
    batch.inner = None;
    without_resets(batch)
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
            .write(
                external.operation,
                &external.parameters,
                batch.len,
                &batch.times,
            )
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
