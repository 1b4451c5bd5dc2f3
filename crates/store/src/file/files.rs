//! The files of a table, open for reading: what is known of each, and the rows that were looked up last.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Value;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::read::{bounds, may_have, metadata};
use super::{Part, Parts};
use crate::definition::Definition;
use crate::delta::Add;
use crate::error::Error;

/// Files of which the footer is kept.
const FOOTERS_MAX: usize = 256;

/// Bytes of decoded row groups that are kept for look-ups by key.
const DECODED_MAX: usize = 64 << 20;

/// Bytes read at once to check a file.
const BLOCK: usize = 256 << 10;

/// Rules out row groups that cannot hold what is looked for.
pub(crate) struct Prune<'a> {
    /// Asked with the bounds of the columns, by name.
    pub may_hold: &'a dyn Fn(&dyn Fn(&str) -> Option<(Value, Value)>) -> bool,
    /// Columns with the value that they have in each row that is looked for.
    pub equal: Vec<(usize, Value)>,
}

/// The files in the folder of a table.
pub(crate) struct Files {
    dir: PathBuf,
    definition: Arc<Definition>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    footers: HashMap<String, Arc<ArrowReaderMetadata>>,
    /// Files whose checksum was right.
    checked: HashSet<String>,
    decoded: HashMap<(String, usize), (Arc<Part>, u64)>,
    decoded_bytes: usize,
    /// Counts look-ups, so that the oldest goes first.
    tick: u64,
}

impl Files {
    pub fn new(dir: &Path, definition: &Arc<Definition>) -> Files {
        Files {
            dir: dir.to_owned(),
            definition: Arc::clone(definition),
            kept: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn footer(&self, add: &Add) -> Result<Arc<ArrowReaderMetadata>, Error> {
        if let Some(footer) = self.lock().footers.get(&add.path) {
            return Ok(Arc::clone(footer));
        }
        let path = self.dir.join(&add.path);
        let is_checked = self.lock().checked.contains(&add.path);
        if !is_checked {
            check(&path, add)?;
        }
        let footer = Arc::new(metadata(&path)?);
        let mut kept = self.lock();
        if kept.footers.len() >= FOOTERS_MAX {
            kept.footers.clear();
        }
        kept.footers.insert(add.path.clone(), Arc::clone(&footer));
        kept.checked.insert(add.path.clone());
        Ok(footer)
    }

    /// Fails if the bytes of a file are not as they were written.
    pub fn check(&self, add: &Add) -> Result<(), Error> {
        self.footer(add).map(|_| ())
    }

    /// Row groups that `prune` does not rule out.
    fn groups(
        &self,
        path: &Path,
        footer: &ArrowReaderMetadata,
        prune: Option<&Prune<'_>>,
    ) -> Result<Vec<usize>, Error> {
        let all = footer.metadata().row_groups();
        let Some(prune) = prune else {
            return Ok((0..all.len()).collect());
        };
        let mut groups: Vec<usize> = (0..all.len())
            .filter(|at| (prune.may_hold)(&|name| bounds(&all[*at], name)))
            .collect();
        if prune.equal.is_empty() || groups.is_empty() {
            return Ok(groups);
        }
        let file = File::open(path).map_err(Error::file("open", path))?;
        for (column, value) in &prune.equal {
            let name = &self.definition.schema.attributes[*column].name;
            let mut kept = Vec::with_capacity(groups.len());
            for at in groups {
                if may_have(path, &file, &all[at], name, value)? {
                    kept.push(at);
                }
            }
            groups = kept;
        }
        Ok(groups)
    }

    /// Reads a file part by part, until `each` says that it has enough; whether it has not.
    pub fn scan(
        &self,
        add: &Add,
        prune: Option<&Prune<'_>>,
        each: &mut dyn FnMut(&Part) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let mut parts = self.parts(add, prune)?;
        while let Some(part) = parts.next()? {
            if !each(&part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A file part by part.
    pub fn parts(&self, add: &Add, prune: Option<&Prune<'_>>) -> Result<Parts, Error> {
        let footer = self.footer(add)?;
        let path = self.dir.join(&add.path);
        let groups = self.groups(&path, &footer, prune)?;
        Parts::new(&path, &footer, groups, &self.definition)
    }

    /// Some columns of some rows of a file, by their places in it, which ascend; or of all rows.
    pub fn picked(
        &self,
        add: &Add,
        columns: &[usize],
        rows: Option<&[u32]>,
    ) -> Result<Parts, Error> {
        let footer = self.footer(add)?;
        let path = self.dir.join(&add.path);
        Parts::picked(&path, &footer, &self.definition, columns, rows)
    }

    /// Row groups that may hold a key, decoded; they are kept for the next look-up.
    pub fn look_up(&self, add: &Add, prune: &Prune<'_>) -> Result<Vec<Arc<Part>>, Error> {
        let footer = self.footer(add)?;
        let path = self.dir.join(&add.path);
        let mut found = Vec::new();
        for group in self.groups(&path, &footer, Some(prune))? {
            found.push(self.decoded(add, &footer, group)?);
        }
        Ok(found)
    }

    fn decoded(
        &self,
        add: &Add,
        footer: &ArrowReaderMetadata,
        group: usize,
    ) -> Result<Arc<Part>, Error> {
        let place = (add.path.clone(), group);
        {
            let mut kept = self.lock();
            kept.tick += 1;
            let tick = kept.tick;
            if let Some((part, used)) = kept.decoded.get_mut(&place) {
                *used = tick;
                return Ok(Arc::clone(part));
            }
        }
        let path = self.dir.join(&add.path);
        let parts = Parts::new(&path, footer, vec![group], &self.definition)?;
        let part = Arc::new(parts.whole()?);
        let mut kept = self.lock();
        kept.decoded_bytes += part.bytes();
        let tick = kept.tick;
        kept.decoded.insert(place, (Arc::clone(&part), tick));
        while kept.decoded_bytes > DECODED_MAX && kept.decoded.len() > 1 {
            let oldest = kept.decoded.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(place, _)| place.clone()) else {
                break;
            };
            if let Some((gone, _)) = kept.decoded.remove(&oldest) {
                kept.decoded_bytes -= gone.bytes();
            }
        }
        Ok(part)
    }

    /// Forgets what is known of files that the table no longer has.
    pub fn forget(&self, paths: &[String]) {
        let mut kept = self.lock();
        for path in paths {
            kept.footers.remove(path);
            kept.checked.remove(path);
        }
        kept.decoded.retain(|(path, _), _| !paths.contains(path));
        kept.decoded_bytes = kept.decoded.values().map(|(part, _)| part.bytes()).sum();
    }
}

/// Is a file as it was written?
fn check(path: &Path, add: &Add) -> Result<(), Error> {
    let mut file = File::open(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::damaged(
            path,
            format!(
                "the file is gone, with {} rows: restore it from a copy",
                add.stats.rows
            ),
        ),
        _ => Error::file("open", path)(cause),
    })?;
    let (mut len, mut crc) = (0, crc32fast::Hasher::new());
    let mut block = vec![0; BLOCK];
    loop {
        let count = file.read(&mut block).map_err(Error::file("read", path))?;
        if count == 0 {
            break;
        }
        len += count as u64;
        if add.crc.is_some() {
            crc.update(&block[..count]);
        }
    }
    let rows = add.stats.rows;
    if len != add.size {
        return Err(Error::damaged(
            path,
            format!(
                "it has {len} bytes, and had {} when it was written, with {rows} rows",
                add.size
            ),
        ));
    }
    match add.crc {
        Some(want) if crc.finalize() != want => Err(Error::damaged(
            path,
            format!(
                "its bytes have changed since it was written, with {rows} rows: restore it from a copy"
            ),
        )),
        _ => Ok(()),
    }
}
