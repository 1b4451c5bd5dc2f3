//! A version of a table as Arrow sees it, for engines that read Parquet themselves.
//!
//! Promises: files and rows in memory are one version, in which no row is missing and none comes twice;
//! a file is given away after its checksum was right.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::condition::Condition;
use crate::error::Error;
use crate::file::{arrow_schema, record_batch};
use crate::layer::Layer;
use crate::rows::Rows;
use crate::table::{Found, Table, View};

/// Rows that are given away at once.
const BATCH_ROWS: usize = 8192;

/// Files that are remembered as right.
const CHECKED_MAX: usize = 100_000;

/// A table at one version.
#[derive(Clone)]
pub struct TableScan {
    table: Arc<Table>,
    view: View,
    schema: SchemaRef,
}

/// Files whose checksum was right: each is read through once, however many scans there are.
#[derive(Default, Debug)]
pub struct Checked(Mutex<HashSet<PathBuf>>);

/// A file of a table, for whoever reads Parquet.
#[derive(Clone, Debug)]
pub struct DataFile {
    pub path: PathBuf,
    pub bytes: u64,
    pub rows: u64,
}

impl Checked {
    fn lock(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, path: PathBuf) {
        let mut paths = self.lock();
        if paths.len() >= CHECKED_MAX {
            paths.clear();
        }
        paths.insert(path);
    }
}

impl TableScan {
    pub(crate) fn new(table: &Arc<Table>) -> TableScan {
        TableScan {
            view: table.view(),
            schema: arrow_schema(&table.definition),
            table: Arc::clone(table),
        }
    }

    /// `_id`, `_timestamp`, and the attributes.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        let frozen = self.view.frozen.as_ref().map(|frozen| &*frozen.layer);
        frozen.into_iter().chain([&*self.view.live])
    }

    /// The files, if all of their rows count; `None` if rows in memory take the place of some.
    ///
    /// # Errors
    /// A file is damaged or gone.
    pub fn files(&self, checked: &Checked) -> Result<Option<Vec<DataFile>>, Error> {
        let hides = |layer: &Layer| !layer.hidden().is_empty() || !layer.keys().is_empty();
        if !self.view.snapshot.files.is_empty() && self.layers().any(hides) {
            return Ok(None);
        }
        let mut files = Vec::with_capacity(self.view.snapshot.files.len());
        for add in self.view.snapshot.files.values() {
            let path = self.table.dir.join(&add.path);
            // Names of files are never used again.
            if !checked.lock().contains(&path) {
                self.table.files.check(add)?;
                checked.insert(path.clone());
            }
            files.push(DataFile {
                path,
                bytes: add.size,
                rows: add.stats.rows,
            });
        }
        Ok(Some(files))
    }

    /// The rows that no file holds.
    ///
    /// # Errors
    /// They do not fit their columns, which would be a fault of ours.
    pub fn rows_in_memory(&self) -> Result<Vec<RecordBatch>, Error> {
        let mut view = self.view.clone();
        view.snapshot = Arc::new(view.snapshot.without_files());
        let mut batches = Vec::new();
        self.each_batch(&view, &mut |batch| {
            batches.push(batch);
            Ok(true)
        })?;
        Ok(batches)
    }

    /// All rows, part by part, until `each` says that it has enough.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or what `each` gives.
    pub fn batches(
        &self,
        each: &mut dyn FnMut(RecordBatch) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.each_batch(&self.view, each)
    }

    fn each_batch(
        &self,
        view: &View,
        each: &mut dyn FnMut(RecordBatch) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let definition = &self.table.definition;
        let condition = Condition::new(None, definition);
        let bounded = condition.with(&[], definition);
        let mut found = Found::new(definition);
        let mut goes_on = true;
        self.table.search(view, &bounded, &mut |rows, row| {
            found.push(rows, row)?;
            if found.len() == BATCH_ROWS {
                let full = std::mem::replace(&mut found, Found::new(definition));
                goes_on = each(self.batch(&full)?)?;
            }
            Ok(goes_on)
        })?;
        if goes_on && found.len() > 0 {
            each(self.batch(&found)?)?;
        }
        Ok(())
    }

    fn batch(&self, found: &Found) -> Result<RecordBatch, Error> {
        let rows: Rows<'_> = found.rows();
        let batch = record_batch(&self.schema, &rows);
        batch.map_err(|message| Error::damaged(&self.table.dir, message))
    }
}
