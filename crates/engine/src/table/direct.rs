//! Updates found by primary key, a whole batch at once.
//!
//! Where the condition is the primary key and nothing else, and what is set depends on the event
//! alone and on no index, chunks need not be gone through one by one: an event finds its row or
//! makes it, and the last event of a row gives its values. Values are put into each column in one
//! loop over the events.

use event::column::View;
use event::{Batch, Cells, Column};

use super::index::hash_cells;
use super::write::Update;
use super::{PAGE_ROWS, Table};
use crate::component::EvalContext;
use crate::expr::{Inputs, ROW};

/// The event makes no row and updates none.
const NO_ROW: u32 = u32::MAX;

/// False where the batch has to go the long way; nothing is done then.
pub(super) fn apply(
    update: &mut Update,
    table: &mut Table,
    batch: &Batch,
    inserts: bool,
    context: &mut EvalContext<'_>,
) -> bool {
    let is_plain =
        |column: &Column| column.nulls().is_none() && !matches!(column.view(), View::Any(_));
    let touches_index = |column: &usize| {
        let mut indexes = table.indexes.iter();
        indexes.any(|index| index.columns.contains(column))
    };
    let is_direct = table.has_primary_key
        && update.set.iter().all(|(column, value)| {
            !touches_index(column)
                && !value.is_fallible()
                && value.uses.iter().all(|slot| slot.part == ROW)
        });
    let Some(keys) = update.on.key().filter(|_| is_direct) else {
        return false;
    };
    let inputs = Inputs::of(&batch.columns, batch.len);
    let keys: Vec<Column> = keys
        .iter_mut()
        .map(|k| k.column(&inputs, context))
        .collect();
    if !keys.iter().all(is_plain) {
        return false;
    }
    // What is inserted has the key of the event's row, not that of the condition.
    let own = table.indexes[0].columns.iter();
    if inserts
        && !own
            .zip(&keys)
            .all(|(&c, key)| batch.columns[c].is_same(key))
    {
        return false;
    }
    let mut values = Vec::with_capacity(update.set.len());
    for (column, value) in &mut update.set {
        values.push((*column, value.column(&inputs, context)));
    }
    let known = table.rows.count as u32;
    let mut rows = Vec::with_capacity(batch.len);
    let sought: Vec<Cells<'_>> = keys.iter().map(Cells::from).collect();
    // All hashes first, so that looking up one row does not wait for the one before.
    let hashes: Vec<u64> = (0..batch.len)
        .map(|event| hash_cells(&sought, event))
        .collect();
    for (event, hash) in hashes.into_iter().enumerate() {
        let found = table.indexes[0].find_one(&sought, event, hash, &table.rows);
        rows.push(match found {
            Some(row) => {
                table.assigned += u64::from(row < known);
                row
            }
            None if inserts => {
                table.insert_unique(&batch.columns, event);
                NO_ROW
            }
            None => NO_ROW,
        });
    }
    for (column, value) in &values {
        assign(table, *column, value, &rows);
    }
    true
}

/// Puts the values of a column into the rows, in the order of the events.
fn assign(table: &mut Table, column: usize, from: &Column, rows: &[u32]) {
    let (types, pages) = (&table.types, &mut table.rows.pages);
    // With more pages than events it does not pay to look at all of them first.
    if pages.len() <= rows.len() {
        macro_rules! scatter {
            ($values:ident, $slice:ident) => {{
                let slices = pages.iter_mut().map(|p| p.columns[column].$slice());
                if let Some(mut to) = slices.collect::<Option<Vec<_>>>() {
                    for (&row, &value) in rows.iter().zip($values) {
                        if row != NO_ROW {
                            to[row as usize / PAGE_ROWS][row as usize % PAGE_ROWS] = value;
                        }
                    }
                    return;
                }
            }};
        }
        if from.nulls().is_none() {
            match from.view() {
                View::Double(values) => scatter!(values, doubles_mut),
                View::Long(values) => scatter!(values, longs_mut),
                View::Int(values) => scatter!(values, ints_mut),
                _ => {}
            }
        }
    }
    for (event, &row) in rows.iter().enumerate() {
        if row != NO_ROW {
            let page = &mut pages[row as usize / PAGE_ROWS];
            page.columns[column].set_from(row as usize % PAGE_ROWS, from, event);
            page.overwrote(types);
        }
    }
}
