//! A store that is only read, whether a process writes to it meanwhile or not.

use std::io::ErrorKind;
use std::path::Path;

use event::{Batch, Schema};

use crate::condition::Condition;
use crate::definition::Definition;
use crate::error::Error;
use crate::load::{LOG, Loaded, Tables, load};
use crate::log::oldest;
use crate::scan::TableScan;
use crate::table::Found;

/// How often a store is read whose log loses files meanwhile.
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
        Reader::open_beside(dir, &mut || {})
    }

    /// `between` is what a test has happen after the log was read.
    pub(crate) fn open_beside(dir: &Path, between: &mut dyn FnMut()) -> Result<Reader, Error> {
        let log = dir.join(LOG);
        let mut gone = None;
        for _ in 0..LOOKS_MAX {
            // Looked up before the tables are: as long as this file is the first, the log has all rows that the
            // files of these tables do not, whatever is written to newer ones meanwhile.
            let before = oldest(&log).ok();
            let loaded = load(dir);
            between();
            let is_whole = oldest(&log).ok() == before;
            match loaded {
                // Was removed after it was listed.
                Err(Error::File { ref cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                    gone = loaded.err();
                }
                Ok(Loaded { tables, .. }) if is_whole => return Ok(Reader { tables }),
                Err(error) if is_whole => return Err(error),
                _ => {}
            }
        }
        Err(gone.unwrap_or_else(|| {
            Error::Refused(format!(
                "the event store in '{}' is written faster than its log can be read: try again",
                dir.display()
            ))
        }))
    }

    /// Names of the tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// The columns of a table.
    pub fn schema(&self, table: &str) -> Option<&Schema> {
        self.tables.get(table).map(|table| &table.definition.schema)
    }

    /// What the rows of a table look like.
    pub fn definition(&self, table: &str) -> Option<&Definition> {
        self.tables.get(table).map(|table| &*table.definition)
    }

    /// A table as engines that read Parquet see it.
    pub fn scan(&self, table: &str) -> Option<TableScan> {
        self.tables.get(table).map(TableScan::new)
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
