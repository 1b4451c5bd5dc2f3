//! New files from old ones and from rows in memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::search::key_of;
use crate::definition::Definition;
use crate::delta::Add;
use crate::error::Error;
use crate::file::{FileWriter, Files, Part, Parts};
use crate::key::{self, Key};
use crate::layer::{Layer, Which};
use crate::layout::Layout;
use crate::rows::Rows;

/// Bytes of a full file.
pub(super) const FILE_BYTES: u64 = 256 << 20;

/// Bytes of a full file of a table with a key: what one new key has written anew.
pub(super) const KEYED_FILE_BYTES: u64 = 16 << 20;

/// Rows of such a file: what merging holds in memory.
const KEYED_FILE_ROWS: u64 = 1 << 19;

/// Rows go into files, one after the other.
pub(super) struct Output {
    dir: PathBuf,
    definition: Arc<Definition>,
    layout: Arc<Layout>,
    /// Rows come in the order of the layout's columns, from here on.
    is_clustered: bool,
    writer: Option<FileWriter>,
    last: Option<Key>,
    adds: Vec<Add>,
}

impl Output {
    pub fn new(dir: &Path, definition: &Arc<Definition>, layout: &Arc<Layout>) -> Output {
        Output {
            dir: dir.to_owned(),
            definition: Arc::clone(definition),
            layout: Arc::clone(layout),
            is_clustered: false,
            writer: None,
            last: None,
            adds: Vec::new(),
        }
    }

    /// What comes now is in the order of these columns, or in that of insertion if there are none.
    pub fn begin(&mut self, cluster: &[usize]) -> Result<(), Error> {
        let is_clustered = !cluster.is_empty() && *cluster == self.layout.cluster;
        if is_clustered != self.is_clustered {
            self.end_file()?;
            self.is_clustered = is_clustered;
        }
        Ok(())
    }

    pub fn push(&mut self, rows: &Rows<'_>, row: usize) -> Result<(), Error> {
        if self.definition.is_keyed() {
            let key = key_of(&self.definition, rows, row);
            // A file is in the order of its keys, or a look-up would miss some.
            if self.last.as_ref().is_some_and(|last| *last >= key) {
                self.end_file()?;
            }
            self.last = Some(key);
        } else if self.is_clustered {
            let place = place_in(&self.layout.cluster, rows, row);
            if self.last.as_ref().is_some_and(|last| *last > place) {
                self.end_file()?;
            }
            self.last = Some(place);
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(FileWriter::create(
                &self.dir,
                &self.definition,
                &self.layout,
                self.is_clustered,
            )?),
        };
        writer.push(rows, row)?;
        let is_full = match self.definition.is_keyed() {
            true => writer.len() >= KEYED_FILE_ROWS || writer.bytes() >= KEYED_FILE_BYTES,
            false => writer.bytes() >= FILE_BYTES,
        };
        match is_full {
            true => self.end_file(),
            false => Ok(()),
        }
    }

    fn end_file(&mut self) -> Result<(), Error> {
        self.last = None;
        if let Some(writer) = self.writer.take() {
            self.adds.push(writer.finish()?);
        }
        Ok(())
    }

    /// The files; they last.
    pub fn finish(mut self) -> Result<Vec<Add>, Error> {
        match self.end_file() {
            Ok(()) => Ok(std::mem::take(&mut self.adds)),
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    /// Gives up what was written.
    pub fn discard(mut self) {
        if let Some(writer) = self.writer.take() {
            writer.discard();
        }
        discard(&self.dir, &self.adds);
    }
}

/// Removes files that no version names. What is left of them, the next vacuum removes.
pub(super) fn discard(dir: &Path, adds: &[Add]) {
    for add in adds {
        let path = dir.join(&add.path);
        if let Err(cause) = std::fs::remove_file(&path) {
            tracing::warn!(file = %path.display(), %cause, "cannot remove a file that no table names");
        }
    }
}

/// Where a row is in the order of some columns.
fn place_in(cluster: &[usize], rows: &Rows<'_>, row: usize) -> Key {
    key::of(cluster, |column| rows.columns[column].value(row))
}

/// The live rows of a layer in the order of some columns, and in that of their numbers.
pub(super) fn ordered(layer: &Layer, cluster: &[usize]) -> Vec<usize> {
    let rows = layer.rows();
    let mut order: Vec<usize> = (0..rows.len()).filter(|row| layer.is_live(*row)).collect();
    match cluster {
        [] => order.sort_by_key(|row| rows.ids[*row]),
        _ => order.sort_by_cached_key(|row| (place_in(cluster, &rows, *row), rows.ids[*row])),
    }
    order
}

/// The rows of files, each in the order of some columns, as one row after the other in that order.
pub(super) fn merge_clustered(
    files: &Files,
    small: &[Arc<Add>],
    cluster: &[usize],
    output: &mut Output,
) -> Result<(), Error> {
    let mut runs: Vec<Run> = Vec::new();
    for add in small {
        runs.extend(Run::begin(files.parts(add, None)?, cluster)?);
    }
    output.begin(cluster)?;
    loop {
        let next = (0..runs.len()).min_by(|a, b| runs[*a].place.cmp(&runs[*b].place));
        let Some(at) = next else { return Ok(()) };
        let mut run = runs.swap_remove(at);
        let until = runs.iter().map(|other| &other.place).min().cloned();
        if run.push_until(until.as_ref(), cluster, output)? {
            runs.push(run);
        }
    }
}

/// A file that is being merged: the part that is read and the row in it that is next.
struct Run {
    parts: Parts,
    part: Part,
    row: usize,
    place: Key,
}

impl Run {
    /// `None`: it has no rows.
    fn begin(mut parts: Parts, cluster: &[usize]) -> Result<Option<Run>, Error> {
        let Some(part) = parts.next()? else {
            return Ok(None);
        };
        let place = place_in(cluster, &part.rows(), 0);
        Ok(Some(Run {
            parts,
            part,
            row: 0,
            place,
        }))
    }

    /// Gives the rows that are not behind `until`; false when none is left.
    fn push_until(
        &mut self,
        until: Option<&Key>,
        cluster: &[usize],
        output: &mut Output,
    ) -> Result<bool, Error> {
        loop {
            let rows = self.part.rows();
            while self.row < rows.len() {
                self.place = place_in(cluster, &rows, self.row);
                if until.is_some_and(|until| self.place > *until) {
                    return Ok(true);
                }
                output.push(&rows, self.row)?;
                self.row += 1;
            }
            match self.parts.next()? {
                Some(part) => (self.part, self.row) = (part, 0),
                None => return Ok(false),
            }
        }
    }
}

/// Copies a file without the rows of these numbers; how many it had.
pub(super) fn copy_without(
    files: &Files,
    add: &Add,
    gone: &HashSet<u64>,
    output: &mut Output,
) -> Result<u64, Error> {
    let mut count = 0;
    output.begin(&add.cluster)?;
    files.scan(add, None, &mut |part| {
        let rows = part.rows();
        for row in 0..rows.len() {
            if gone.contains(&rows.ids[row]) {
                count += 1;
            } else {
                output.push(&rows, row)?;
            }
        }
        Ok(true)
    })?;
    Ok(count)
}

/// Does a file have a row of one of these numbers?
pub(super) fn has_any(files: &Files, add: &Add, ids: &HashSet<u64>) -> Result<bool, Error> {
    let range = add.stats.ids();
    let may = ids
        .iter()
        .any(|id| range.is_none_or(|(min, max)| (min..=max).contains(id)));
    if !may {
        return Ok(false);
    }
    let mut has = false;
    files.scan(add, None, &mut |part| {
        has = part.rows().ids.iter().any(|id| ids.contains(id));
        Ok(!has)
    })?;
    Ok(has)
}

/// Writes files anew with the rows of a layer among theirs, in the order of the keys. `touched` are in the
/// order of their first keys.
pub(super) fn merge(
    files: &Files,
    definition: &Definition,
    touched: &[&Arc<Add>],
    layer: &Layer,
    output: &mut Output,
) -> Result<(), Error> {
    let fresh = layer.rows();
    let mut keys: Vec<(&Key, usize)> = layer
        .keys()
        .iter()
        .filter_map(|(key, row)| Some((key, (*row)?)))
        .collect();
    keys.sort_unstable();
    let mut keys = keys.into_iter().peekable();
    for (at, add) in touched.iter().enumerate() {
        // Rows before the next file's go into this one.
        let next = touched
            .get(at + 1)
            .and_then(|next| next.range.as_ref())
            .map(|(first, _)| first);
        let mut file = files.parts(add, None)?;
        let mut parts = Vec::new();
        while let Some(part) = file.next()? {
            parts.push(part);
        }
        let views: Vec<Rows<'_>> = parts.iter().map(Part::rows).collect();
        for (key, part, row) in old_rows(definition, &views, layer, add.range.is_some()) {
            while let Some((_, fresh_row)) = keys.next_if(|(fresh_key, _)| **fresh_key < key) {
                output.push(&fresh, fresh_row)?;
            }
            output.push(&views[part], row)?;
        }
        let is_here = |key: &Key| next.is_some_and(|next| key < next);
        while let Some((_, fresh_row)) = keys.next_if(|(key, _)| is_here(key)) {
            output.push(&fresh, fresh_row)?;
        }
    }
    for (_, row) in keys {
        output.push(&fresh, row)?;
    }
    Ok(())
}

/// Rows of a file that a layer does not hide, in the order of their keys.
fn old_rows(
    definition: &Definition,
    parts: &[Rows<'_>],
    layer: &Layer,
    is_sorted: bool,
) -> Vec<(Key, usize, usize)> {
    let mut old = Vec::new();
    for (at, rows) in parts.iter().enumerate() {
        for row in 0..rows.len() {
            let key = key_of(definition, rows, row);
            if !layer.hides(&Which::Key(&key)) {
                old.push((key, at, row));
            }
        }
    }
    if !is_sorted {
        // Another program may have put in a key twice: its newest row counts.
        old.sort_by(|(a, ap, ar), (b, bp, br)| {
            let id = |part: usize, row: usize| parts[part].ids[row];
            a.cmp(b).then(id(*bp, *br).cmp(&id(*ap, *ar)))
        });
        old.dedup_by(|(a, ..), (b, ..)| a == b);
    }
    old
}

/// Writes the rows of a file that `stays` takes, in the order of the file; with a key in that of the keys.
pub(super) fn merge_where(
    files: &Files,
    definition: &Definition,
    add: &Add,
    output: &mut Output,
    stays: &mut dyn FnMut(&Rows<'_>, usize) -> bool,
) -> Result<(), Error> {
    let mut file = files.parts(add, None)?;
    if !definition.is_keyed() || add.range.is_some() {
        while let Some(part) = file.next()? {
            let rows = part.rows();
            for row in 0..rows.len() {
                if stays(&rows, row) {
                    output.push(&rows, row)?;
                }
            }
        }
        return Ok(());
    }
    // Another program has written it, in an order of its own.
    let mut parts = Vec::new();
    while let Some(part) = file.next()? {
        parts.push(part);
    }
    let views: Vec<Rows<'_>> = parts.iter().map(Part::rows).collect();
    let mut keys = Vec::new();
    for (part, rows) in views.iter().enumerate() {
        keys.extend((0..rows.len()).map(|row| (key_of(definition, rows, row), part, row)));
    }
    // A key may be in it twice: its newest row counts, and goes or stays.
    keys.sort_by(|(a, ap, ar), (b, bp, br)| {
        let id = |part: usize, row: usize| views[part].ids[row];
        a.cmp(b).then(id(*bp, *br).cmp(&id(*ap, *ar)))
    });
    keys.dedup_by(|(a, ..), (b, ..)| a == b);
    for (_, part, row) in keys {
        if stays(&views[part], row) {
            output.push(&views[part], row)?;
        }
    }
    Ok(())
}
