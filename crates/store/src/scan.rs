//! A version of a table as Arrow sees it, for engines that read Parquet themselves.
//!
//! Promises: files and rows in memory are one version, in which no row is missing and none comes twice;
//! a file is given away after its checksum was right.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use event::Value;

use crate::condition::Condition;
use crate::definition::Definition;
use crate::delta::Add;
use crate::error::Error;
use crate::file::{arrow_schema, record_batch};
use crate::key;
use crate::layer::Layer;
use crate::rows::Rows;
use crate::table::{Found, Table, View, key_of};

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

/// Is told of a row: the rows that it is among, its place there, and its place in its file.
pub type EachRow<'a> = dyn FnMut(&Rows<'_>, usize, u32) -> Result<bool, Error> + 'a;

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

/// Rows that are picked one by one, and become a batch of Arrow.
pub struct Picked {
    scan: TableScan,
    found: Found,
}

impl Picked {
    pub fn new(scan: &TableScan) -> Picked {
        Picked {
            found: Found::new(&scan.table.definition),
            scan: scan.clone(),
        }
    }

    /// # Errors
    /// The rows are too many for memory.
    pub fn push(&mut self, rows: &Rows<'_>, row: usize) -> Result<(), Error> {
        self.found.push(rows, row)
    }

    /// Are there as many as are given away at once?
    pub fn is_full(&self) -> bool {
        self.found.len() >= BATCH_ROWS
    }

    /// The rows so far; the next come after them.
    ///
    /// # Errors
    /// They do not fit their columns, which would be a fault of ours.
    pub fn take(&mut self) -> Result<RecordBatch, Error> {
        let fresh = Found::new(&self.scan.table.definition);
        let full = std::mem::replace(&mut self.found, fresh);
        self.scan.batch(&full)
    }
}

/// FNV-1a, which stays the same from build to build.
fn mark_of(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
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

    /// What the rows look like.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.table.definition
    }

    /// The rows of the table's files at another version, without those of the log.
    ///
    /// # Errors
    /// There is no such version, or it can no longer be read.
    pub fn at(&self, version: u64) -> Result<TableScan, Error> {
        Table::at(&self.table.dir, version).map(|table| TableScan::new(&Arc::new(table)))
    }

    /// Version of the files.
    pub fn version(&self) -> u64 {
        self.view.snapshot.version
    }

    /// Names of the files with the number of their rows. A name is never used again for other rows.
    pub fn file_names(&self) -> impl Iterator<Item = (&str, u64)> {
        let files = self.view.snapshot.files.iter();
        files.map(|(name, add)| (name.as_str(), add.stats.rows))
    }

    /// Names of the files that may have rows of these times (the second is not), those with the oldest rows first.
    pub fn files_between(&self, from: i64, to: i64) -> Vec<&str> {
        let time = self.table.definition.width() + 1;
        let has = |add: &Add| {
            let bounds = add.stats.bounds(time);
            let bounds = bounds.and_then(|(min, max)| Some((min.to_long()?, max.to_long()?)));
            bounds.is_none_or(|(min, max)| min < to && max >= from)
        };
        let files = self.view.snapshot.files.iter().filter(|(_, add)| has(add));
        let mut files: Vec<_> = files.collect();
        files.sort_by_key(|(_, add)| add.stats.ids());
        files.into_iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The row of a primary key, if there is one: the values are those of the columns of the key, in their types.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn look_up(
        &self,
        key: &[Value],
        each: &mut dyn FnMut(&Rows<'_>, usize),
    ) -> Result<(), Error> {
        let definition = &self.table.definition;
        let places: Vec<usize> = (0..key.len()).collect();
        let key = key::of(&places, |at| key[at].clone());
        let condition = Condition::new(None, definition);
        let bounded = condition.with(&[], definition);
        self.table
            .look_up(&self.view, &key, &bounded, &mut |rows, row| {
                each(rows, row);
                Ok(false)
            })
    }

    /// Number of the rows, where it is known without reading: no row in memory takes the place of one in a file.
    pub fn count(&self) -> Option<u64> {
        let hides = |layer: &Layer| !layer.hidden().is_empty() || !layer.keys().is_empty();
        let files: u64 = self.file_names().map(|(_, rows)| rows).sum();
        let is_plain = files == 0 || !self.layers().any(hides);
        // A layer may hide rows of the one below it.
        let is_plain = is_plain && (self.view.frozen.is_none() || !hides(&self.view.live));
        let fresh: usize = self.layers().map(Layer::live_count).sum();
        is_plain.then_some(files + fresh as u64)
    }

    /// A number by which rows are told apart: that of the row, or one made of its key, which two keys may share.
    pub fn mark(&self, rows: &Rows<'_>, row: usize) -> u64 {
        match self.table.definition.is_keyed() {
            true => mark_of(&key_of(&self.table.definition, rows, row)),
            false => rows.ids[row],
        }
    }

    /// Marks of the rows in files that rows in memory take the place of. Where the table has a key, others may have
    /// the same mark.
    pub fn hidden_marks(&self) -> HashSet<u64> {
        let mut marks = HashSet::new();
        for layer in self.layers() {
            marks.extend(layer.hidden());
            marks.extend(layer.keys().keys().map(|key| mark_of(key)));
        }
        marks
    }

    /// Goes through the rows of a file that count, with some of their columns; others are null. `places` are those of
    /// the rows that are wanted, and ascend; without them all are. Whether it came to the end.
    ///
    /// # Errors
    /// The file is not in this version, cannot be read or is damaged, or what `each` gives.
    pub fn visit_file(
        &self,
        name: &str,
        columns: &[usize],
        places: Option<&[u32]>,
        each: &mut EachRow<'_>,
    ) -> Result<bool, Error> {
        let add = self.view.snapshot.files.get(name);
        let add = add.ok_or_else(|| {
            let path = self.table.dir.join(name);
            Error::damaged(&path, "the table does not name this file at this version")
        })?;
        let hides = |layer: &&Layer| !layer.hidden().is_empty() || !layer.keys().is_empty();
        let hiding: Vec<&Layer> = self.layers().filter(hides).collect();
        self.visit(add, columns, places, &hiding, each)
    }

    fn visit(
        &self,
        add: &Add,
        columns: &[usize],
        places: Option<&[u32]>,
        hiding: &[&Layer],
        each: &mut EachRow<'_>,
    ) -> Result<bool, Error> {
        let mut read = columns.to_vec();
        if !hiding.is_empty() {
            read.extend(&self.table.definition.key);
        }
        let mut parts = self.table.files.picked(add, &read, places)?;
        let mut before = 0;
        while let Some(part) = parts.next()? {
            let rows = part.rows();
            for row in 0..rows.len() {
                if hiding
                    .iter()
                    .any(|layer| self.table.hides(layer, &rows, row))
                {
                    continue;
                }
                let place = match places {
                    Some(places) => places.get(before + row).copied(),
                    None => u32::try_from(before + row).ok(),
                };
                let place = place.ok_or_else(|| {
                    let path = self.table.dir.join(&add.path);
                    Error::damaged(&path, "it has more rows than were asked for")
                })?;
                if !each(&rows, row, place)? {
                    return Ok(false);
                }
            }
            before += rows.len();
        }
        Ok(true)
    }

    /// The same for all rows of a file, whatever takes their place: what an index of the file is made from.
    ///
    /// # Errors
    /// As [`TableScan::visit_file`].
    pub fn visit_whole_file(&self, name: &str, each: &mut EachRow<'_>) -> Result<bool, Error> {
        let add = self.view.snapshot.files.get(name);
        let add = add.ok_or_else(|| {
            let path = self.table.dir.join(name);
            Error::damaged(&path, "the table does not name this file at this version")
        })?;
        let all: Vec<usize> = (0..self.table.definition.width()).collect();
        self.visit(add, &all, None, &[], each)
    }

    /// Goes through the rows that no file holds; each has its place among them. Whether it came to the end.
    ///
    /// # Errors
    /// What `each` gives.
    pub fn visit_memory(&self, each: &mut EachRow<'_>) -> Result<bool, Error> {
        let live = &*self.view.live;
        let frozen = self.view.frozen.as_ref().map(|frozen| &*frozen.layer);
        let mut place = 0;
        for (layer, above) in [(frozen, Some(live)), (Some(live), None)] {
            let Some(layer) = layer else { continue };
            let rows = layer.rows();
            for row in 0..rows.len() {
                let is_visible = layer.is_live(row)
                    && above.is_none_or(|above| !self.table.hides(above, &rows, row));
                if is_visible && !each(&rows, row, place)? {
                    return Ok(false);
                }
                place += 1;
            }
        }
        Ok(true)
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
