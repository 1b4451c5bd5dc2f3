//! What lies in a saved state, without the app that saved it: names, sizes, and the rows of tables.

use event::codec::{Error as StateError, Reader};

use super::format::{Entries, Field};
use super::state_matching::Saved;
use crate::error::RestoreError;
use crate::table::PAGE_ROWS;

/// An element with what is saved of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedElement {
    /// `table 'T'`, `query 'q'`.
    pub name: String,
    /// What is kept: `rows`, `window length(5)`; empty where it is nothing that anybody would miss.
    pub parts: Vec<String>,
    /// Of its saved form.
    pub bytes: u64,
    /// Of a table; of others the saved form does not tell.
    pub rows: Option<u64>,
}

/// The elements of a whole saved state, in its order.
///
/// # Errors
/// These bytes are not a state that this build reads.
pub fn saved_elements(bytes: &[u8]) -> Result<Vec<SavedElement>, RestoreError> {
    let saved = Saved::read_all(bytes)?;
    let elements = saved.into_iter().map(|piece| {
        let bytes = piece.fields.iter().map(|field| match field {
            Field::Blob(bytes) | Field::List(bytes) => bytes.len() as u64,
        });
        let rows = match piece.fields.as_slice() {
            [Field::List(pages), Field::List(over)] if piece.name.starts_with("table '") => {
                Some(table_rows(pages, over)?)
            }
            _ => None,
        };
        Ok(SavedElement {
            name: piece.name.to_owned(),
            bytes: bytes.sum(),
            rows,
            parts: piece.parts,
        })
    });
    elements.collect()
}

/// Rows of a table: those of its pages, with the rows that lie over them.
fn table_rows(pages: &[u8], over: &[u8]) -> Result<u64, StateError> {
    let (mut pages, mut over) = (Entries::of(pages), Entries::of(over));
    let mut next = over.next()?;
    let mut rows = 0;
    while let Some((page, mut entry)) = pages.next()? {
        let alive = alive_rows(&mut entry)?;
        rows += alive.iter().filter(|alive| **alive).count() as u64;
        let first = page.saturating_mul(PAGE_ROWS as u128);
        while let Some((row, entry)) = &mut next
            && *row < first.saturating_add(PAGE_ROWS as u128)
        {
            let slot = row
                .checked_sub(first)
                .and_then(|at| usize::try_from(at).ok());
            let was_alive = slot.is_some_and(|slot| alive.get(slot).is_some_and(|a| *a));
            rows += u64::from(entry.bool()?);
            rows -= u64::from(was_alive);
            next = over.next()?;
        }
    }
    while let Some((_, entry)) = &mut next {
        rows += u64::from(entry.bool()?);
        next = over.next()?;
    }
    Ok(rows)
}

fn alive_rows(entry: &mut Reader<'_>) -> Result<Vec<bool>, StateError> {
    let count = entry.count()?;
    if count > PAGE_ROWS {
        return Err(StateError::Mismatch(format!("a page of {count} rows")));
    }
    (0..count).map(|_| entry.bool()).collect()
}
