//! Every byte of a store is read, and what is damaged is named.
//!
//! Changes nothing, and goes on behind damage. A server may write to the store meanwhile.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Watch;
use crate::change::Head;
use crate::delta::{Add, DeltaLog};
use crate::error::Error;
use crate::indexing::Indexing;
use crate::load::{LOG, TABLES, id};
use crate::log::replay;
use crate::reader::Reader;
use crate::table::Table;

/// How often a log is read whose files go meanwhile.
const LOOKS_MAX: usize = 8;

/// What is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub path: PathBuf,
    pub table: Option<String>,
    /// Rows that the file held.
    pub rows: Option<u64>,
    /// First and last of their numbers.
    pub ids: Option<(u64, u64)>,
    /// First and last of their times, milliseconds since 1970.
    pub times: Option<(i64, i64)>,
    pub message: String,
}

/// What was read.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Verified {
    pub tables: u64,
    pub files: u64,
    /// In whole files.
    pub rows: u64,
    pub bytes: u64,
    pub log_bytes: u64,
    pub damage: Vec<Damage>,
}

impl Verified {
    fn add(&mut self, table: Option<&str>, error: &Error) {
        let path = match error {
            Error::File { path, .. }
            | Error::Damaged { path, .. }
            | Error::Foreign { path, .. } => path.clone(),
            Error::Refused(_) | Error::Conflict(_) => PathBuf::new(),
        };
        let message = match error {
            Error::Damaged { message, .. } => message.clone(),
            error => connect::error::chain(error),
        };
        self.damage.push(Damage {
            path,
            table: table.map(str::to_owned),
            rows: None,
            ids: None,
            times: None,
            message,
        });
    }
}

/// Reads all of a store.
///
/// # Errors
/// The folder is no store, cannot be read, or the work was stopped. Damage is none: it is in what is returned.
pub fn verify(dir: &Path, watch: &Watch<'_>) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let id = id(dir)?;
    let folder = dir.join(TABLES);
    let mut tables = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
        let path = entry.map_err(Error::file("read", &folder))?.path();
        if DeltaLog::is_table(&path) {
            tables.push(path);
        }
    }
    tables.sort();
    for path in &tables {
        verify_table(dir, path, watch, &mut verified)?;
    }
    if let Err(error) = crate::marks::read(dir) {
        verified.add(None, &error);
    }
    watch.check()?;
    if let Err(error) = verify_log(dir, &id, watch, &mut verified.log_bytes) {
        verified.add(None, &error);
    } else if verified.damage.is_empty()
        && let Err(error) = Reader::open(dir)
    {
        // Each for itself is right, and they do not fit each other.
        verified.add(None, &error);
    }
    Ok(verified)
}

fn verify_table(
    dir: &Path,
    path: &Path,
    watch: &Watch<'_>,
    verified: &mut Verified,
) -> Result<(), Error> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    verified.tables += 1;
    for error in DeltaLog::new(path).check()? {
        verified.add(Some(&name), &error);
    }
    if let Err(error) = Indexing::read(dir, &name) {
        verified.add(Some(&name), &error);
    }
    let table = match Table::open(path, None) {
        Ok(table) => table,
        Err(error) => {
            // A commit that is damaged is named above, too.
            let is_known = |damage: &Damage| {
                error
                    .to_string()
                    .contains(&damage.path.display().to_string())
            };
            if !verified.damage.iter().any(is_known) {
                verified.add(Some(&name), &error);
            }
            return Ok(());
        }
    };
    let snapshot = table.view().snapshot;
    for add in snapshot.files.values() {
        watch.check()?;
        (watch.note)(&path.join(&add.path), add.size);
        verified.files += 1;
        match verify_file(&table, add) {
            Ok(()) => {
                verified.rows += add.stats.rows;
                verified.bytes += add.size;
            }
            // A program that writes has taken it out, and the time of grace has passed, or it was vacuumed.
            Err(_) if !path.join(&add.path).exists() && !is_named(path, add) => verified.files -= 1,
            Err(error) => {
                verified.add(Some(&name), &error);
                if let Some(damage) = verified.damage.last_mut() {
                    damage.rows = Some(add.stats.rows);
                    damage.ids = add.stats.ids();
                    damage.times = add.stats.times();
                }
            }
        }
    }
    Ok(())
}

/// Does the newest version of the table still name a file?
fn is_named(table: &Path, add: &Add) -> bool {
    Table::open(table, None).is_ok_and(|table| table.view().snapshot.files.contains_key(&add.path))
}

/// The bytes of a file are as they were written, and its rows are those that the log of the table says.
fn verify_file(table: &Table, add: &Add) -> Result<(), Error> {
    table.files.check(add)?;
    let path = table.dir.join(&add.path);
    let (ids, times) = (add.stats.ids(), add.stats.times());
    let is_ours = add.crc.is_some();
    let mut count = 0;
    table.files.scan(add, None, &mut |part| {
        let rows = part.rows();
        count += rows.len() as u64;
        let is_in = |row: usize| {
            ids.is_none_or(|(first, last)| (first..=last).contains(&rows.ids[row]))
                && times.is_none_or(|(first, last)| (first..=last).contains(&rows.times[row]))
        };
        match !is_ours || (0..rows.len()).all(is_in) {
            true => Ok(true),
            false => Err(Error::damaged(
                &path,
                "it has rows outside of what the log of the table says",
            )),
        }
    })?;
    match !is_ours || count == add.stats.rows {
        true => Ok(()),
        false => Err(Error::damaged(
            &path,
            format!(
                "it has {count} rows, and the log of the table says {}",
                add.stats.rows
            ),
        )),
    }
}

/// Reads the log of a store from end to end.
fn verify_log(dir: &Path, id: &str, watch: &Watch<'_>, bytes: &mut u64) -> Result<(), Error> {
    let log = dir.join(LOG);
    let mut looks = 0;
    loop {
        *bytes = 0;
        for entry in fs::read_dir(&log).map_err(Error::file("read", &log))? {
            let entry = entry.map_err(Error::file("read", &log))?;
            let len = entry.metadata().map_or(0, |metadata| metadata.len());
            *bytes += len;
            (watch.note)(&entry.path(), len);
        }
        let begin = Head {
            store: id.to_owned(),
            sequence: 1,
            row: 1,
            epochs: Vec::new(),
        };
        looks += 1;
        match replay(&log, begin, |_, _| Ok(())) {
            Ok(_) => return Ok(()),
            // A server has removed the file after it was listed.
            Err(Error::File { ref cause, .. })
                if cause.kind() == ErrorKind::NotFound && looks < LOOKS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}
