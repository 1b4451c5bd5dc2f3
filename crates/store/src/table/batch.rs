//! Rows that come as a whole: they go to files at once, and count with one commit of the table.
//!
//! Until then the files have no name in the table: a crash leaves them to the next vacuum. Rows of a table with
//! a key are put in the order of their keys, part by part, the newest of each key alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Batch as Events, Cells, Chunks, Column, ColumnBuilder, Times};

use super::Table;
use super::merge::{Output, discard};
use crate::change::Change;
use crate::definition::Definition;
use crate::delta::{Add, GRACE, TableLog};
use crate::error::Error;
use crate::file::Part;
use crate::layer::Layer;
use crate::rows::Rows;

/// Bytes of rows with a key that are put in order at once.
const LAYER_MAX: usize = 32 << 20;

/// How often a commit is tried when others commit meanwhile.
const TRIES: usize = 20;

/// What a batch does to the rows that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They stay; those with a key of a new row are replaced.
    Append,
    /// They go.
    Overwrite,
}

/// Rows on their way into a table.
pub(crate) struct Batch {
    table: Arc<Table>,
    begun: Instant,
    rows: u64,
    /// Of a table without a key.
    output: Option<Output>,
    /// Of one with a key: rows that are not in files yet, and files that are.
    layer: Layer,
    staged: Files,
}

/// Files that become those of a table.
#[derive(Default)]
struct Files {
    all: BTreeMap<String, Arc<Add>>,
    /// Those that were written for it.
    own: BTreeMap<String, Add>,
}

impl Files {
    /// Puts rows among those of the files.
    fn merge(&mut self, table: &Table, layer: &Layer) -> Result<(), Error> {
        let layout = Arc::clone(&table.lock().layout);
        let mut output = Output::new(&table.dir, &table.definition, &layout);
        let removes = match table.rewrite_keyed(&self.all, layer, &mut output) {
            Ok(removes) => removes,
            Err(error) => {
                output.discard();
                return Err(error);
            }
        };
        for add in output.finish()? {
            self.all.insert(add.path.clone(), Arc::new(add.clone()));
            self.own.insert(add.path.clone(), add);
        }
        for path in &removes {
            self.all.remove(path);
            if let Some(add) = self.own.remove(path) {
                table.files.forget(std::slice::from_ref(path));
                discard(&table.dir, &[add]);
            }
        }
        Ok(())
    }

    fn discard(&self, table: &Table) {
        let own: Vec<Add> = self.own.values().cloned().collect();
        let paths: Vec<String> = self.own.keys().cloned().collect();
        table.files.forget(&paths);
        discard(&table.dir, &own);
    }
}

impl Batch {
    pub fn new(table: &Arc<Table>) -> Batch {
        let layout = Arc::clone(&table.lock().layout);
        let output = Output::new(&table.dir, &table.definition, &layout);
        Batch {
            begun: Instant::now(),
            rows: 0,
            output: (!table.definition.is_keyed()).then_some(output),
            layer: Layer::new(&table.definition),
            staged: Files::default(),
            table: Arc::clone(table),
        }
    }

    pub fn definition(&self) -> &Arc<Definition> {
        &self.table.definition
    }

    /// Rows with ascending numbers from `first` on.
    pub fn push(
        &mut self,
        columns: Vec<ColumnBuilder>,
        times: Vec<i64>,
        first: u64,
    ) -> Result<(), Error> {
        let ids: Vec<u64> = (first..first + times.len() as u64).collect();
        self.rows += ids.len() as u64;
        let Some(output) = &mut self.output else {
            let columns = columns.into_iter().map(ColumnBuilder::finish).collect();
            apply(&mut self.layer, columns, ids, times);
            return match self.layer.bytes() >= LAYER_MAX {
                true => self.stage(),
                false => Ok(()),
            };
        };
        let rows = Rows {
            columns: columns.iter().map(Cells::from).collect(),
            ids: &ids,
            times: &times,
        };
        (0..ids.len()).try_for_each(|row| output.push(&rows, row))
    }

    /// Rows in memory become files.
    fn stage(&mut self) -> Result<(), Error> {
        if self.layer.is_empty() {
            return Ok(());
        }
        let layer = std::mem::replace(&mut self.layer, Layer::new(&self.table.definition));
        self.staged.merge(&self.table, &layer)
    }

    /// Gives up the rows.
    pub fn discard(self) {
        if let Some(output) = self.output {
            output.discard();
        }
        self.staged.discard(&self.table);
    }

    /// Makes the rows count; how many came. `quiet` writes what an app has written to files, and says whether
    /// there is nothing left.
    pub fn commit(
        mut self,
        mode: Mode,
        store: &str,
        quiet: &dyn Fn(&Table) -> Result<bool, Error>,
    ) -> Result<u64, Error> {
        let committed = self.try_commit(mode, store, quiet);
        match committed {
            Ok(()) => Ok(self.rows),
            // Whether the commit happened is not known where the disk failed: its files stay.
            Err(error @ Error::File { .. }) => Err(error),
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    fn try_commit(
        &mut self,
        mode: Mode,
        store: &str,
        quiet: &dyn Fn(&Table) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        if let Some(output) = self.output.take() {
            for add in output.finish()? {
                self.staged.own.insert(add.path.clone(), add);
            }
        }
        let is_merged = mode == Mode::Append && self.table.definition.is_keyed();
        if !is_merged || !self.staged.own.is_empty() {
            self.stage()?;
        }
        let table = Arc::clone(&self.table);
        let mut tries = 0;
        while tries < TRIES {
            if self.begun.elapsed() > GRACE - Duration::from_secs(60) {
                return Err(Error::Refused(format!(
                    "the rows for table '{}' took longer than {} minutes: select fewer at once",
                    table.definition.name,
                    GRACE.as_secs() / 60 - 1
                )));
            }
            let _alone = table.files_alone();
            table.flush_alone(store)?;
            // It says when it has waited for too long.
            if !quiet(&table)? {
                continue;
            }
            tries += 1;
            table.flush_alone(store)?;
            table.refresh()?;
            let base = Arc::clone(&table.lock().view.snapshot);
            let merged = is_merged.then(|| self.merged(&base.files)).transpose()?;
            let own = merged.as_ref().map_or(&self.staged.own, |files| &files.own);
            let adds: Vec<Add> = own.values().cloned().collect();
            let removes: Vec<String> = match (&merged, mode) {
                (Some(files), _) => {
                    let gone = base
                        .files
                        .keys()
                        .filter(|path| !files.all.contains_key(*path));
                    gone.cloned().collect()
                }
                (None, Mode::Append) => Vec::new(),
                (None, Mode::Overwrite) => base.files.keys().cloned().collect(),
            };
            if adds.is_empty() && removes.is_empty() {
                return Ok(());
            }
            // Held, so that no app writes a row between the look and the commit.
            let mut state = table.lock();
            let is_quiet = state.view.frozen.is_none() && state.view.live.is_empty();
            let committed = match is_quiet {
                true => table.delta.overwrite(&base, &adds, &removes, None),
                false => Err(Error::Conflict(table.definition.name.clone())),
            };
            match committed {
                Ok(snapshot) => {
                    state.view.snapshot = snapshot;
                    drop(state);
                    table.files.forget(&removes);
                    if merged.is_some() {
                        self.staged.discard(&table);
                    }
                    return Ok(());
                }
                Err(Error::Conflict(_)) => {
                    drop(state);
                    merged.iter().for_each(|files| files.discard(&table));
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict(table.definition.name.clone()))
    }

    /// The files of a table with the rows of the batch among theirs.
    fn merged(&self, base: &BTreeMap<String, Arc<Add>>) -> Result<Files, Error> {
        let mut files = Files {
            all: base.clone(),
            own: BTreeMap::new(),
        };
        let merged = self.merge_into(&mut files);
        match merged {
            Ok(()) => Ok(files),
            Err(error) => {
                files.discard(&self.table);
                Err(error)
            }
        }
    }

    fn merge_into(&self, files: &mut Files) -> Result<(), Error> {
        let table = &self.table;
        let mut layer = Layer::new(&table.definition);
        for add in self.staged.own.values() {
            let mut parts = table.files.parts(add, None)?;
            while let Some(part) = parts.next()? {
                put(&mut layer, &part, &table.definition);
                if layer.bytes() >= LAYER_MAX {
                    let full = std::mem::replace(&mut layer, Layer::new(&table.definition));
                    files.merge(table, &full)?;
                }
            }
        }
        for layer in [&layer, &self.layer] {
            if !layer.is_empty() {
                files.merge(table, layer)?;
            }
        }
        Ok(())
    }
}

/// Rows of a file go on top of a layer.
fn put(layer: &mut Layer, part: &Part, definition: &Definition) {
    let rows = part.rows();
    let columns = definition.schema.attributes.iter().zip(&rows.columns);
    let columns = columns.map(|(attribute, cells)| {
        let mut builder = ColumnBuilder::new(attribute.ty);
        (0..rows.len()).for_each(|row| builder.push_cell(cells, row));
        builder.finish()
    });
    apply(
        layer,
        columns.collect(),
        rows.ids.to_vec(),
        rows.times.to_vec(),
    );
}

fn apply(layer: &mut Layer, columns: Vec<Column>, ids: Vec<u64>, times: Vec<i64>) {
    let change = Change {
        deleted_ids: Vec::new(),
        deleted_keys: Vec::new(),
        rows: Events::new(columns, ids.len(), Times::per_row(times), Chunks::One, 0),
        ids,
    };
    layer.apply(&change, 0);
}
