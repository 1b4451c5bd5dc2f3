//! What lies in a saved state, without the app that saved it: names, sizes, and the rows of tables.

use event::codec::{Error as StateError, Reader};
use event::{Attribute, Batch, Schema, Type};

use super::state_matching::Saved;
use crate::error::RestoreError;
use crate::snapshot_format::{Entries, Field, Fields};
use crate::table::{PAGE_ROWS, Table};

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

/// A table as it was saved.
#[derive(Clone, Debug)]
pub struct SavedTable {
    pub schema: Schema,
    /// Indexes of the attributes of its primary key; empty without one.
    pub primary_key: Vec<usize>,
    pub rows: Batch,
}

/// The table of a name in a whole saved state, read without the app; `None` where there is none.
///
/// # Errors
/// These bytes are not a state that this build reads.
pub fn saved_table(bytes: &[u8], name: &str) -> Result<Option<SavedTable>, RestoreError> {
    let wanted = format!("table '{name}'");
    let mut saved = Saved::read_all(bytes)?.into_iter();
    let Some(piece) = saved.find(|piece| piece.name == wanted) else {
        return Ok(None);
    };
    let unreadable = |cause: StateError| RestoreError::Part {
        part: wanted.clone(),
        cause,
    };
    let shape = || StateError::Mismatch("its columns are not told as this build does".to_owned());
    let definition = definition(name, piece.shape).ok_or_else(|| unreadable(shape()))?;
    let table = Table::new(&definition).restored(&mut Fields::new(piece.fields));
    Ok(Some(SavedTable {
        rows: table.map_err(unreadable)?.content(0),
        schema: definition.schema,
        primary_key: definition.primary_key,
    }))
}

/// From what [`plan::state::table_state`] says of a table, a line for each thing.
fn definition(name: &str, shape: &str) -> Option<plan::Table> {
    let mut lines = shape.lines();
    (lines.next()? == "rows").then_some(())?;
    let (mut attributes, mut primary_key) = (Vec::new(), None);
    for line in lines {
        if let Some(key) = line.strip_prefix("primary key [") {
            let key = key
                .strip_suffix(']')?
                .split(", ")
                .filter(|one| !one.is_empty());
            primary_key = Some(
                key.map(|one| one.parse().ok())
                    .collect::<Option<Vec<usize>>>()?,
            );
            continue;
        }
        let (attribute, ty) = line.rsplit_once(' ')?;
        attributes.push(Attribute {
            name: attribute.into(),
            ty: Type::from_name(ty)?,
        });
    }
    let primary_key = primary_key?;
    primary_key
        .iter()
        .all(|at| *at < attributes.len())
        .then(|| plan::Table {
            schema: Schema {
                name: name.into(),
                attributes,
            },
            primary_key,
            indexes: Vec::new(),
            index_details: Vec::new(),
            store: None,
            span: lang::span::Span::default(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_known_from_its_shape() {
        let known = definition("T", "rows\nk string\nn long\nprimary key [0]\n").expect("a table");
        assert_eq!(known.primary_key, [0]);
        assert_eq!(known.schema.attributes[1].ty, Type::Long);
        assert!(definition("T", "rows\nk string\nprimary key []\n").is_some());
        for shape in [
            "",
            "rows\nk string\n",
            "rows\nk string\nprimary key [1]\n",
            "rows\nk strange\nprimary key []\n",
            "window length(5)\nk string\nprimary key []\n",
        ] {
            assert!(definition("T", shape).is_none(), "{shape}");
        }
    }
}
