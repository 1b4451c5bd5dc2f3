//! All tables of an app: those in memory, and what is known of those in stores.

use plan::TableId;
use plan::store::Operation;

use super::{Table, TableWrite};
use crate::host::WriteCounts;

/// The tables of an app.
pub(crate) struct Tables {
    /// `None` for an external one.
    pub(crate) tables: Vec<Option<Table>>,
    pub operations: Vec<Operation>,
    /// A query reads the table, so that writes are done before the step goes on.
    pub(crate) is_read: Vec<bool>,
    /// Rows inserted, updated and deleted since the app was made.
    pub written: Vec<WriteCounts>,
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
            written: vec![WriteCounts::default(); definitions.len()],
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

    pub fn memory_mut(&mut self, table: TableId) -> &mut Table {
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
    pub fn count(&mut self, table: TableId, written: WriteCounts) {
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
