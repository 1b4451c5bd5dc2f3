//! Keeping house: old rows go, disk space comes back, damage is found, versions are copied.
//!
//! What changes a store works on one that is open ([`EventStore`]); what only looks ([`about`], [`verify`], [`copy`],
//! a dry run) reads the folder beside whoever writes to it. All of it goes table by table and can be stopped between
//! two files ([`Watch`]).
//!
//! Never: a table that is half purged; a file that is removed while a reader within the time of grace may have it.

mod copy;
mod names;
mod purge_file;
mod verify;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::copy::{Copied, copy};
pub use self::names::Names;
pub use self::purge_file::PurgeFile;
pub use self::verify::{Damage, Verified, verify};
pub use crate::delta::{Vacuumed, Version};
pub use crate::table::Purged;

use crate::error::Error;
use crate::reader::Reader;
use crate::store::EventStore;
use crate::table::Table;

/// How long files that are out of a table are kept for those who read them, unless somebody says otherwise.
pub const GRACE: Duration = crate::delta::GRACE;

/// Whoever has asked for work that takes long.
pub struct Watch<'a> {
    /// Is it to end?
    pub is_stopped: &'a dyn Fn() -> bool,
    /// A file of so many bytes is begun.
    pub note: &'a dyn Fn(&Path, u64),
}

impl Watch<'_> {
    /// For work that nobody watches.
    pub const NONE: Watch<'static> = Watch {
        is_stopped: &|| false,
        note: &|_, _| {},
    };

    pub(crate) fn check(&self) -> Result<(), Error> {
        match (self.is_stopped)() {
            true => Err(Error::Refused("it was stopped".into())),
            false => Ok(()),
        }
    }
}

/// What a table is and holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    pub name: String,
    /// With their types.
    pub columns: Vec<(String, String)>,
    pub key: Vec<String>,
    pub version: u64,
    pub files: u64,
    pub bytes: u64,
    /// In files.
    pub rows: u64,
    /// In the log alone.
    pub rows_of_log: u64,
    /// First and last time of rows in files, milliseconds since 1970, where all files say them.
    pub times: Option<(i64, i64)>,
}

/// The tables of a store.
///
/// # Errors
/// The store cannot be read, or is damaged.
pub fn about(dir: &Path) -> Result<Vec<About>, Error> {
    let reader = Reader::open(dir)?;
    Ok(reader
        .tables
        .values()
        .map(|table| of_table(table))
        .collect())
}

fn of_table(table: &Table) -> About {
    let definition = &table.definition;
    let attributes = &definition.schema.attributes;
    let view = table.view();
    let files = || view.snapshot.files.values();
    let times: Option<Vec<(i64, i64)>> = files().map(|add| add.stats.times()).collect();
    let times = times.filter(|times| !times.is_empty()).map(|times| {
        let first = times.iter().map(|(first, _)| *first).min();
        let last = times.iter().map(|(_, last)| *last).max();
        (first.unwrap_or_default(), last.unwrap_or_default())
    });
    About {
        name: definition.name.clone(),
        columns: attributes
            .iter()
            .map(|a| (a.name.clone(), a.ty.to_string()))
            .collect(),
        key: definition
            .key
            .iter()
            .map(|at| attributes[*at].name.clone())
            .collect(),
        version: view.snapshot.version,
        files: files().count() as u64,
        bytes: files().map(|add| add.size).sum(),
        rows: files().map(|add| add.stats.rows).sum(),
        rows_of_log: view.live.live_count() as u64,
        times,
    }
}

/// The versions of a table that its log still has, oldest first.
///
/// # Errors
/// There is no such table, or its log cannot be read.
pub fn versions(dir: &Path, table: &str) -> Result<Vec<Version>, Error> {
    let reader = Reader::files(dir, None)?;
    let name = table.replace('.', "_").to_ascii_lowercase();
    let found = reader.tables.get(&name);
    let found = found
        .ok_or_else(|| Error::Refused(format!("there is no table '{table}' in the event store")))?;
    found.versions()
}

/// What [`EventStore::purge`] would take out now.
///
/// # Errors
/// The store cannot be read, or is damaged; no table has one of the names.
pub fn purgeable(
    dir: &Path,
    names: &Names,
    before: i64,
    watch: &Watch<'_>,
    each: &mut dyn FnMut(&str, &Purged),
) -> Result<(), Error> {
    let reader = Reader::open(dir)?;
    names.check(reader.tables())?;
    for (name, table) in reader.tables.iter().filter(|(name, _)| names.has(name)) {
        each(name, &table.purgeable(before, watch)?);
    }
    Ok(())
}

impl EventStore {
    /// Takes rows older than `before`, milliseconds since 1970, out of tables, each by one commit. What is committed
    /// and lies in memory goes too, unless an app has written to the table and does not commit for half a minute.
    ///
    /// # Errors
    /// No table has one of the names, a file cannot be read or written, or it was stopped; tables that `each` was told
    /// of are purged.
    pub fn purge(
        &self,
        names: &Names,
        before: i64,
        watch: &Watch<'_>,
        each: &mut dyn FnMut(&str, &Purged),
    ) -> Result<(), Error> {
        let shared = self.shared();
        let tables = shared.tables();
        names.check(tables.keys().map(String::as_str))?;
        for (name, table) in tables.iter().filter(|(name, _)| names.has(name)) {
            watch.check()?;
            let begun = Instant::now();
            loop {
                table.flush(shared.id())?;
                match shared.quiet(table, begun) {
                    Ok(true) => break,
                    Ok(false) => watch.check()?,
                    // It is said how many rows that leaves.
                    Err(Error::Conflict(_)) => break,
                    Err(error) => return Err(error),
                }
            }
            table.flush(shared.id())?;
            let purged = table.purge(before, before, watch)?;
            if purged.rows > 0 {
                said(name, before, &purged, "purged a table of the event store");
            }
            each(name, &purged);
        }
        Ok(())
    }

    /// Removes files that tables no longer name, those that were taken out at least `grace` ago; or counts them.
    ///
    /// # Errors
    /// No table has one of the names, a folder cannot be read, or a file not be removed.
    pub fn vacuum(
        &self,
        names: &Names,
        grace: Duration,
        is_dry: bool,
        each: &mut dyn FnMut(&str, &Vacuumed),
    ) -> Result<(), Error> {
        let tables = self.shared().tables();
        names.check(tables.keys().map(String::as_str))?;
        for (name, table) in tables.iter().filter(|(name, _)| names.has(name)) {
            // Another program may have put in files since.
            table.refresh()?;
            each(name, &table.vacuum(grace, is_dry)?);
        }
        Ok(())
    }
}

/// How often a table with a retention is looked at.
pub(crate) fn look_every(retention: Duration) -> Duration {
    (crate::table::slack(retention) / 2).clamp(Duration::from_secs(1), Duration::from_secs(60 * 60))
}

/// Takes rows that are older than its retention out of a table, if it has one.
pub(crate) fn retain(table: &Arc<Table>) -> Result<(), Error> {
    let now = crate::clock::millis();
    if let Some(purged) = table.retain(now)? {
        let name = &table.definition.name;
        said(
            name,
            now,
            &purged,
            "rows older than the retention of their table went",
        );
    }
    Ok(())
}

fn said(table: &str, before: i64, purged: &Purged, what: &'static str) {
    let Purged {
        files,
        rewritten,
        rows,
        bytes,
        version,
        ..
    } = purged;
    tracing::info!(
        table, before, files, rewritten, rows, bytes, version, "{what}"
    );
}

#[cfg(test)]
mod tests;
