//! A store that is only read, whether a process writes to it meanwhile or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use event::{Batch, Schema};

use crate::condition::Condition;
use crate::definition::Definition;
use crate::error::Error;
use crate::load::{LOG, Loaded, Open, TABLES, Tables, load, open_tables};
use crate::log::{Tail, oldest, read_on};
use crate::scan::TableScan;
use crate::table::Found;

/// How often a store is read whose log loses files meanwhile.
const LOOKS_MAX: usize = 8;

/// What was committed when it was opened, of all tables.
pub struct Reader {
    pub(crate) tables: Tables,
    /// What the folder looked like before it was read.
    seen: Option<Seen>,
    /// Where its log ends, and transactions that are open there.
    end: Option<(Tail, Open)>,
}

/// Files of the log with their lengths, and names of tables.
#[derive(PartialEq, Eq)]
struct Seen {
    log: BTreeMap<OsString, u64>,
    tables: Vec<OsString>,
}

impl Seen {
    /// `None` where it cannot be read: whoever reads on says why.
    fn of(dir: &Path) -> Option<Seen> {
        let mut log = BTreeMap::new();
        for entry in std::fs::read_dir(dir.join(LOG)).ok()? {
            let entry = entry.ok()?;
            log.insert(entry.file_name(), entry.metadata().ok()?.len());
        }
        let tables = std::fs::read_dir(dir.join(TABLES)).ok()?;
        let tables = tables.map(|entry| entry.ok().map(|entry| entry.file_name()));
        let mut tables: Vec<OsString> = tables.collect::<Option<_>>()?;
        tables.sort_unstable();
        Some(Seen { log, tables })
    }
}

impl Reader {
    /// Reads the log of a store, without a lock.
    ///
    /// # Errors
    /// The folder is no store, cannot be read, or is damaged.
    pub fn open(dir: &Path) -> Result<Reader, Error> {
        Reader::open_beside(dir, None, &mut || {})
    }

    /// The same, without reading again what `before` knows: of files, of the logs of tables, and of the store's log as
    /// long as no table has new files.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_after(dir: &Path, before: &Reader) -> Result<Reader, Error> {
        match before.read_on(dir)? {
            Some(reader) => Ok(reader),
            None => Reader::open_beside(dir, Some(before), &mut || {}),
        }
    }

    /// These tables with what has been committed to the log since; `None` where more than that has changed.
    fn read_on(&self, dir: &Path) -> Result<Option<Reader>, Error> {
        let (Some(before), Some((tail, open)), Some(seen)) = (&self.seen, &self.end, Seen::of(dir))
        else {
            return Ok(None);
        };
        let last = seen.log.keys().next_back();
        let is_longer = seen.tables == before.tables
            && seen.log.keys().eq(before.log.keys())
            && last.is_some_and(|last| tail.is_of(last))
            && self.tables.values().all(|table| table.is_newest());
        if !is_longer {
            return Ok(None);
        }
        let (mut tables, mut open) = (self.tables.clone(), open.clone());
        let mut copied = BTreeSet::new();
        let tail = read_on(&dir.join(LOG), tail, |place, frame| {
            let Some((commit, changed)) = open.take(place, frame) else {
                return Ok(());
            };
            for changed in changed {
                let Some(table) = tables.get_mut(changed.table()) else {
                    continue;
                };
                // Whoever looks at the table as it was goes on doing so.
                if copied.insert(changed.table().to_owned()) {
                    *table = Arc::new(table.copied());
                }
                changed.apply(table, &commit)?;
            }
            Ok(())
        })?;
        Ok(tail.map(|tail| Reader {
            tables,
            seen: Some(seen),
            end: Some((tail, open)),
        }))
    }

    /// The tables as their files have them, without the rows of the log; what `before` knows is not read again.
    ///
    /// # Errors
    /// A table cannot be read, or is damaged.
    pub fn files(dir: &Path, before: Option<&Reader>) -> Result<Reader, Error> {
        let tables = open_tables(dir, before.map(|reader| &reader.tables))?;
        Ok(Reader {
            tables,
            seen: None,
            end: None,
        })
    }

    /// Has nothing been written to the store since it was opened?
    pub fn is_current(&self, dir: &Path) -> bool {
        self.seen.is_some()
            && self.seen == Seen::of(dir)
            && self.tables.values().all(|table| table.is_newest())
    }

    /// `between` is what a test has happen after the log was read.
    pub(crate) fn open_beside(
        dir: &Path,
        known: Option<&Reader>,
        between: &mut dyn FnMut(),
    ) -> Result<Reader, Error> {
        let log = dir.join(LOG);
        let known = known.map(|reader| &reader.tables);
        let mut gone = None;
        for _ in 0..LOOKS_MAX {
            // Looked up before the tables are: as long as this file is the first, the log has all rows that the
            // files of these tables do not, whatever is written to newer ones meanwhile.
            let before = oldest(&log).ok();
            let seen = Seen::of(dir);
            let loaded = load(dir, known);
            between();
            let is_whole = oldest(&log).ok() == before;
            match loaded {
                // Was removed after it was listed.
                Err(Error::File { ref cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                    gone = loaded.err();
                }
                Ok(Loaded {
                    tables,
                    replayed,
                    open,
                    ..
                }) if is_whole => {
                    let end = replayed.tail.map(|tail| (tail, open));
                    return Ok(Reader { tables, seen, end });
                }
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
