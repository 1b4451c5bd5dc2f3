//! A copy of tables, as they are or as they were at a version, into a store of its own.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use super::{Names, Watch};
use crate::definition::Definition;
use crate::delta::{Add, DeltaLog, TableLog};
use crate::error::Error;
use crate::indexing::Indexing;
use crate::load::{LOG, TABLES, create};
use crate::paths::{create_dir, create_private};
use crate::reader::Reader;
use crate::table::Table;

/// Bytes that are copied at once.
const BLOCK: usize = 256 << 10;

/// In whose name rows of the log become files of the copy, which has a log of its own.
const NAME: &str = "headwater-copy";

/// What was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    pub table: String,
    /// That of the table it was copied from.
    pub version: u64,
    pub files: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// Copies tables into a new store, each file after its checksum was right. Without a version that is what is committed
/// now, rows of the log included; the same moment for all tables.
///
/// # Errors
/// `to` is there and not empty; no table has one of the names; the version can no longer be read; a file is damaged.
/// What is in `to` then is no store.
pub fn copy(
    dir: &Path,
    names: &Names,
    version: Option<u64>,
    to: &Path,
    watch: &Watch<'_>,
    each: &mut dyn FnMut(&Copied),
) -> Result<(), Error> {
    let is_free = match fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_none(),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => true,
        Err(cause) => return Err(Error::file("read", to)(cause)),
    };
    if !is_free {
        return Err(Error::Refused(format!(
            "'{}' is not empty: name a folder that is not there yet",
            to.display()
        )));
    }
    let reader = Reader::open(dir)?;
    names.check(reader.tables())?;
    create_dir(&to.join(LOG))?;
    create_dir(&to.join(TABLES))?;
    for (name, table) in reader.tables.iter().filter(|(name, _)| names.has(name)) {
        let copied = match version {
            None => copy_table(table, to, watch)?,
            Some(version) => copy_table(&Table::at(&table.dir, version)?, to, watch)?,
        };
        let indexing = Indexing::read(dir, name)?;
        if !indexing.is_empty() {
            indexing.write(to, name)?;
        }
        each(&copied);
    }
    // From here on it is a store.
    create(to)
}

fn copy_table(table: &Table, to: &Path, watch: &Watch<'_>) -> Result<Copied, Error> {
    let definition: &Arc<Definition> = &table.definition;
    let view = table.view();
    let dir = to.join(TABLES).join(&definition.name);
    let made = Table::create(&dir, definition)?;
    let adds: Vec<Add> = view
        .snapshot
        .files
        .values()
        .map(|add| Add::clone(add))
        .collect();
    for add in &adds {
        watch.check()?;
        (watch.note)(&table.dir.join(&add.path), add.size);
        copy_file(table, add, &dir)?;
    }
    if !adds.is_empty() {
        let base = made.view().snapshot;
        DeltaLog::new(&dir).overwrite(&base, &adds, &[], None)?;
        made.refresh()?;
    }
    made.take_layer(&view.live);
    made.flush(NAME)?;
    let files = made.view().snapshot;
    let files = files.files.values();
    Ok(Copied {
        table: definition.name.clone(),
        version: view.snapshot.version,
        files: files.len() as u64,
        rows: files.clone().map(|add| add.stats.rows).sum(),
        bytes: files.map(|add| add.size).sum(),
    })
}

fn copy_file(table: &Table, add: &Add, to: &Path) -> Result<(), Error> {
    let (from, path) = (table.dir.join(&add.path), to.join(&add.path));
    // A version that is not the newest may have lost files to a vacuum.
    let mut source = File::open(&from).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::damaged(
            &from,
            format!(
                "the file is gone, with {} rows: a vacuum has removed it, or it is lost",
                add.stats.rows
            ),
        ),
        _ => Error::file("open", &from)(cause),
    })?;
    if let Some(folder) = path.parent() {
        create_dir(folder)?;
    }
    let mut target = create_private(&path)?;
    let (mut len, mut crc) = (0, crc32fast::Hasher::new());
    let mut block = vec![0; BLOCK];
    loop {
        let count = source
            .read(&mut block)
            .map_err(Error::file("read", &from))?;
        if count == 0 {
            break;
        }
        len += count as u64;
        crc.update(&block[..count]);
        target
            .write_all(&block[..count])
            .map_err(Error::file("write", &path))?;
    }
    let crc = crc.finalize();
    if len != add.size || add.crc.is_some_and(|want| want != crc) {
        return Err(Error::damaged(
            &from,
            format!(
                "its bytes have changed since it was written, with {} rows",
                add.stats.rows
            ),
        ));
    }
    target.sync_all().map_err(Error::file("sync", &path))
}
