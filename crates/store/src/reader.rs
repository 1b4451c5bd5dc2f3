//! A store that is only read, whether a process writes to it meanwhile or not.

use std::path::Path;

use event::{Batch, Schema};

use crate::condition::Condition;
use crate::error::Error;
use crate::load::{Tables, load};
use crate::table::Found;

/// How often a store that changes meanwhile is read again.
const LOOKS_MAX: usize = 8;

/// What was committed when it was opened, of all tables.
pub struct Reader {
    tables: Tables,
}

impl Reader {
    /// Reads the log of a store, without a lock.
    ///
    /// # Errors
    /// The folder is no store, cannot be read, or is damaged.
    pub fn open(dir: &Path) -> Result<Reader, Error> {
        let mut looks = 0;
        loop {
            looks += 1;
            // Files of the log may go while it is read, when their rows are in files of tables.
            match (load(dir), looks < LOOKS_MAX) {
                (Err(Error::File { cause, .. }), true)
                    if cause.kind() == std::io::ErrorKind::NotFound => {}
                (Err(error), _) => return Err(error),
                (Ok(loaded), may_look) => {
                    let mut is_same = true;
                    for table in loaded.tables.values() {
                        let before = table.flushed(&loaded.id);
                        table.refresh()?;
                        is_same &= table.flushed(&loaded.id) == before;
                    }
                    if is_same || !may_look {
                        return Ok(Reader {
                            tables: loaded.tables,
                        });
                    }
                }
            }
        }
    }

    /// Names of the tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// The columns of a table.
    pub fn schema(&self, table: &str) -> Option<&Schema> {
        self.tables.get(table).map(|table| &table.definition.schema)
    }

    /// All rows of a table in the order of insertion.
    ///
    /// # Errors
    /// There is no such table, its files cannot be read, or its rows are too many for memory.
    pub fn rows(&self, table: &str) -> Result<Batch, Error> {
        let table = self.tables.get(table).ok_or_else(|| {
            Error::Refused(format!("there is no table '{table}' in the event store"))
        })?;
        let condition = Condition::new(None, &table.definition);
        let bounded = condition.with(&[], &table.definition);
        let mut found = Found::new(&table.definition);
        table.search(&table.view(), &bounded, &mut |rows, row| {
            found.push(rows, row).map(|()| true)
        })?;
        found.end();
        Ok(found.finish().0)
    }
}
