//! A store as it is on disk: tables with the rows of the log above their files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::Type;
use serde_json::{Value as Json, json};

use crate::change::{Change, Commit, Frame, Head};
use crate::delta::DeltaLog;
use crate::error::Error;
use crate::log::{Replayed, replay};
use crate::paths::{create_dir, replace, unique};
use crate::table::Table;

/// Says what a folder is.
const ABOUT: &str = "store.json";

/// Version of the layout of a store.
const VERSION: u64 = 1;

pub(crate) const LOG: &str = "log";
pub(crate) const TABLES: &str = "tables";

/// Tables by name.
pub(crate) type Tables = BTreeMap<String, Arc<Table>>;

/// What a folder holds.
pub(crate) struct Loaded {
    pub id: String,
    pub tables: Tables,
    pub replayed: Replayed,
    pub open: Open,
}

/// Makes the folders of a store where they are missing.
pub(crate) fn create(dir: &Path) -> Result<(), Error> {
    create_dir(&dir.join(LOG))?;
    create_dir(&dir.join(TABLES))?;
    let about = dir.join(ABOUT);
    if !about.exists() {
        let json = json!({"version": VERSION, "id": unique()});
        replace(&about, json.to_string().as_bytes())?;
    }
    Ok(())
}

/// The id of a store.
pub(crate) fn id(dir: &Path) -> Result<String, Error> {
    let path = dir.join(ABOUT);
    let text = fs::read_to_string(&path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::foreign(
            dir,
            "this is not a folder of an event store: it has no file 'store.json'",
        ),
        _ => Error::file("read", &path)(cause),
    })?;
    let json: Json = serde_json::from_str(&text).unwrap_or_default();
    match (json["version"].as_u64(), json["id"].as_str()) {
        (Some(VERSION), Some(id)) => Ok(id.to_owned()),
        (Some(version), _) if version != VERSION => Err(Error::foreign(
            &path,
            format!(
                "the store has version {version}, and this build reads version {VERSION}: use the build that wrote it"
            ),
        )),
        _ => Err(Error::damaged(
            &path,
            "it names neither version nor id: restore it from a copy",
        )),
    }
}

/// The tables of a store, without the rows of its log. What is known from `before` is not read again.
pub(crate) fn open_tables(dir: &Path, before: Option<&Tables>) -> Result<Tables, Error> {
    let mut tables = Tables::new();
    let folder = dir.join(TABLES);
    for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
        let path = entry.map_err(Error::file("read", &folder))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // A crash between folder and first commit leaves one without; its table was never said to be there.
        let is_table = DeltaLog::is_table(&path)
            && path
                .join("_delta_log")
                .join(format!("{:020}.json", 0))
                .exists()
            || path.join("_delta_log").join("_last_checkpoint").exists();
        if is_table {
            let known = before.and_then(|tables| tables.get(&name));
            let table = Table::open(&path, known.map(|table| &**table))?;
            tables.insert(name, Arc::new(table));
        }
    }
    Ok(tables)
}

/// Changes of transactions that are not committed yet.
#[derive(Clone, Default)]
pub(crate) struct Open(HashMap<u64, Vec<Changed>>);

/// What a transaction does to a table, with its place in the log.
#[derive(Clone)]
pub(crate) struct Changed {
    place: u64,
    table: String,
    types: Vec<Type>,
    changes: Vec<Change>,
}

impl Open {
    /// Takes what the log says; what counts with it, if it is a commit.
    pub fn take(&mut self, place: u64, frame: Frame) -> Option<(Commit, Vec<Changed>)> {
        match frame {
            Frame::Changes {
                transaction,
                table,
                types,
                changes,
            } => {
                self.0.entry(transaction).or_default().push(Changed {
                    place,
                    table,
                    types,
                    changes,
                });
                None
            }
            Frame::Commit(commit) => {
                let changed = self.0.remove(&commit.transaction).unwrap_or_default();
                Some((commit, changed))
            }
            Frame::Abort { transaction } => {
                self.0.remove(&transaction);
                None
            }
            Frame::Head(_) => None,
        }
    }
}

impl Changed {
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Does it to its table.
    pub fn apply(&self, table: &Table, commit: &Commit) -> Result<(), Error> {
        if table.definition.types() != self.types {
            return Err(Error::damaged(
                &table.dir,
                "the log has rows of this table with other columns: another program has changed the table, or it \
                 was put in the place of another",
            ));
        }
        let mut state = table.lock();
        let changes = self.changes.iter();
        changes.for_each(|change| state.apply(change, self.place));
        state.committed(commit.sequence);
        Ok(())
    }
}

/// Reads a store; nothing is changed. What is known of its files from `before` is not read again.
pub(crate) fn load(dir: &Path, before: Option<&Tables>) -> Result<Loaded, Error> {
    let id = id(dir)?;
    let tables = open_tables(dir, before)?;
    let (mut replayed, open) = replay_into(dir, &id, &tables)?;
    // Rows of a batch are in files alone: the log does not know their numbers.
    let last = tables.values().map(|table| table.last_row()).max();
    replayed.head.row = replayed.head.row.max(last.unwrap_or(0) + 1);
    let known = replayed.head.sequence;
    for table in tables.values() {
        let flushed = table.flushed(&id);
        if flushed >= known {
            return Err(Error::damaged(
                &dir.join(LOG),
                format!(
                    "the files of table '{}' hold rows up to commit {flushed}, and the log ends before {known}: \
                     files of the log are missing, or are of an older copy. Restore the whole folder from one \
                     copy",
                    table.definition.name
                ),
            ));
        }
    }
    Ok(Loaded {
        id,
        tables,
        replayed,
        open,
    })
}

/// Puts what the log holds and the tables' files do not above these.
pub(crate) fn replay_into(
    dir: &Path,
    id: &str,
    tables: &Tables,
) -> Result<(Replayed, Open), Error> {
    let flushed: HashMap<&String, u64> = tables
        .iter()
        .map(|(name, table)| (name, table.covered(id)))
        .collect();
    let begin = Head {
        store: id.to_owned(),
        sequence: 1,
        row: 1,
        epochs: Vec::new(),
    };
    let mut open = Open::default();
    let log: PathBuf = dir.join(LOG);
    let replayed = replay(&log, begin, |place, frame| {
        let Some((commit, changed)) = open.take(place, frame) else {
            return Ok(());
        };
        for changed in changed {
            let name = changed.table().to_owned();
            // Without it the rows are nowhere else, unless the table is of no interest here.
            let Some(table) = tables.get(&name) else {
                if dir.join(TABLES).join(&name).exists() {
                    continue;
                }
                return Err(Error::damaged(
                    &dir.join(TABLES).join(&name),
                    "the log has rows of this table, whose folder is gone: restore it from a copy; or \
                     move the folder 'log' aside to go on without these rows",
                ));
            };
            if commit.sequence > flushed[&name] {
                changed.apply(table, &commit)?;
            }
        }
        Ok(())
    })?;
    Ok((replayed, open))
}
