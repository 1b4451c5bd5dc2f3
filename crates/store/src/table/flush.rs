//! Rows in memory become files, and small files become large ones.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::merge::{
    FILE_BYTES, KEYED_FILE_BYTES, Output, copy_without, discard, has_any, merge, merge_clustered,
    ordered,
};
use super::{Frozen, Table};
use crate::delta::{Add, Snapshot, TableLog, Txn};
use crate::error::Error;
use crate::layer::Layer;
use crate::layout::Layout;

/// Files of about the same size that become one.
const SMALL_FILES: usize = 10;

/// Each size of small files is so many times the one before.
const SIZE_STEP: u64 = 8;

/// Small files of a table with a key that a flush may leave.
const KEYED_SMALL_FILES: usize = 4;

/// How often a commit is tried when other programs commit to the same table meanwhile.
const TRIES: usize = 20;

/// Files that take the place of others.
struct Rewritten {
    adds: Vec<Add>,
    removes: Vec<String>,
}

impl Table {
    /// Writes the frozen rows to files in one commit; true where there were some.
    ///
    /// # Errors
    /// The rows stay frozen, and it can be tried again.
    pub fn flush(&self, store: &str) -> Result<bool, Error> {
        let _alone = self.files_alone();
        self.flush_alone(store)
    }

    /// The same for who has the files to himself.
    pub(super) fn flush_alone(&self, store: &str) -> Result<bool, Error> {
        let frozen = match &self.lock().view.frozen {
            Some(frozen) => Arc::clone(frozen),
            None => return Ok(false),
        };
        for _ in 0..TRIES {
            self.refresh()?;
            let base = Arc::clone(&self.lock().view.snapshot);
            let sequence = i64::try_from(frozen.sequence).unwrap_or(i64::MAX);
            if base.txn(store).is_some_and(|version| version >= sequence) {
                // A commit whose outcome was not known has happened.
                self.flushed_to(base, &[]);
                return Ok(true);
            }
            let rewritten = self.rewrite(&base, &frozen)?;
            let txn = Txn {
                app: store.to_owned(),
                version: sequence,
            };
            let Rewritten { adds, removes } = &rewritten;
            match self.delta.overwrite(&base, adds, removes, Some(&txn)) {
                Ok(snapshot) => {
                    self.flushed_to(snapshot, removes);
                    return Ok(true);
                }
                Err(Error::Conflict(_)) => {
                    let newest = self.delta.newer(&base)?;
                    if newest.txn(store).is_none_or(|version| version < sequence) {
                        discard(&self.dir, adds);
                    }
                }
                // Whether it happened is not known: the next try looks.
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict(self.definition.name.clone()))
    }

    fn flushed_to(&self, snapshot: Arc<Snapshot>, removes: &[String]) {
        self.files.forget(removes);
        let mut state = self.lock();
        state.view.snapshot = snapshot;
        state.view.frozen = None;
    }

    fn rewrite(&self, base: &Snapshot, frozen: &Frozen) -> Result<Rewritten, Error> {
        let layout = Arc::clone(&self.lock().layout);
        let mut output = Output::new(&self.dir, &self.definition, &layout);
        let written = match self.definition.is_keyed() {
            true => self.rewrite_keyed(&base.files, &frozen.layer, &mut output),
            false => self.rewrite_plain(base, frozen, &layout, &mut output),
        };
        match written {
            Ok(removes) => Ok(Rewritten {
                adds: output.finish()?,
                removes,
            }),
            Err(error) => {
                output.discard();
                Err(error)
            }
        }
    }

    /// New rows are a new file; files with rows that are gone are written without them.
    fn rewrite_plain(
        &self,
        base: &Snapshot,
        frozen: &Frozen,
        layout: &Layout,
        output: &mut Output,
    ) -> Result<Vec<String>, Error> {
        let hidden = frozen.layer.hidden();
        let mut removes = Vec::new();
        if !hidden.is_empty() {
            for add in base.files.values() {
                if has_any(&self.files, add, hidden)? {
                    copy_without(&self.files, add, hidden, output)?;
                    removes.push(add.path.clone());
                }
            }
        }
        output.begin(&layout.cluster)?;
        let rows = frozen.layer.rows();
        for row in ordered(&frozen.layer, &layout.cluster) {
            output.push(&rows, row)?;
        }
        Ok(removes)
    }

    /// Files that may hold a key that is new or gone are written anew, with small ones if there are many.
    pub(super) fn rewrite_keyed(
        &self,
        files: &BTreeMap<String, Arc<Add>>,
        layer: &Layer,
        output: &mut Output,
    ) -> Result<Vec<String>, Error> {
        let mut keys: Vec<_> = layer.keys().keys().collect();
        keys.sort_unstable();
        let may_hold = |add: &Add| {
            add.range.as_ref().is_none_or(|(first, last)| {
                let at = keys.partition_point(|key| *key < first);
                keys.get(at).is_some_and(|key| *key <= last)
            })
        };
        let is_small = |add: &Add| add.size < KEYED_FILE_BYTES / 4;
        let small = files.values().filter(|add| is_small(add)).count();
        let with_small = small > KEYED_SMALL_FILES;
        let mut touched: Vec<&Arc<Add>> = files
            .values()
            .filter(|add| may_hold(add) || with_small && is_small(add))
            .collect();
        touched.sort_by(|a, b| a.range.cmp(&b.range));
        merge(&self.files, &self.definition, &touched, layer, output)?;
        Ok(touched.into_iter().map(|add| add.path.clone()).collect())
    }

    /// Makes one file of small ones that are about the same size; true where there were enough.
    ///
    /// # Errors
    /// Nothing has changed, and it can be tried again.
    pub fn compact(&self) -> Result<bool, Error> {
        if self.definition.is_keyed() {
            return Ok(false);
        }
        let _alone = self.files_alone();
        let base = Arc::clone(&self.lock().view.snapshot);
        let Some(small) = small_files(&base) else {
            return Ok(false);
        };
        let mut layout = Layout::clone(&self.lock().layout);
        // Files that are in another order than new ones keep it.
        layout.cluster.clone_from(&small[0].cluster);
        let mut output = Output::new(&self.dir, &self.definition, &Arc::new(layout));
        let copied = match small[0].cluster.as_slice() {
            [] => {
                let nothing = HashSet::new();
                let mut small = small.iter();
                small.try_for_each(|add| {
                    copy_without(&self.files, add, &nothing, &mut output).map(drop)
                })
            }
            cluster => merge_clustered(&self.files, &small, cluster, &mut output),
        };
        if let Err(error) = copied {
            output.discard();
            return Err(error);
        }
        let adds = output.finish()?;
        let removes: Vec<String> = small.iter().map(|add| add.path.clone()).collect();
        match self.delta.rearrange(&base, &adds, &removes) {
            Ok(snapshot) => {
                self.files.forget(&removes);
                self.lock().view.snapshot = snapshot;
                Ok(true)
            }
            Err(Error::Conflict(_)) => {
                discard(&self.dir, &adds);
                self.refresh()?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Files of one size and one order that are enough to become one, oldest rows first.
fn small_files(base: &Snapshot) -> Option<Vec<Arc<Add>>> {
    let orders: BTreeSet<&[usize]> = base
        .files
        .values()
        .map(|add| add.cluster.as_slice())
        .collect();
    for order in orders {
        let mut below = FILE_BYTES / 2;
        while below > 0 {
            let is_it = |add: &&Arc<Add>| {
                add.cluster == order && add.size < below && add.size >= below / SIZE_STEP
            };
            let mut files: Vec<Arc<Add>> = base.files.values().filter(is_it).cloned().collect();
            if files.len() >= SMALL_FILES {
                files.sort_by_key(|add| add.stats.ids());
                if !order.is_empty() {
                    // Those that are merged are read at the same time.
                    files.truncate(SMALL_FILES);
                }
                let mut sum = 0;
                files.retain(|add| {
                    sum += add.size;
                    sum <= FILE_BYTES
                });
                return Some(files);
            }
            below /= SIZE_STEP;
        }
    }
    None
}
