//! The log of a table in a folder of this machine.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};

use super::snapshot::{Maker, add_action, metadata, protocol, remove_action, txn_action};
use super::{Add, Snapshot, TableLog, Txn, checkpoint};
use crate::definition::Definition;
use crate::error::Error;
use crate::paths::{create_dir, put_if_absent, replace, sync_dir, unique};

/// The folder of the log in that of a table.
const FOLDER: &str = "_delta_log";

/// Names the last checkpoint.
const LAST_CHECKPOINT: &str = "_last_checkpoint";

/// Commits between two checkpoints.
const CHECKPOINT_EVERY: u64 = 50;

/// How long commits before a checkpoint are kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a file that was taken out, or was never put in, is kept for those who read it.
pub(crate) const GRACE: Duration = Duration::from_secs(60 * 60);

/// Bytes of the longest commit that is read.
const COMMIT_MAX: u64 = 256 << 20;

/// In the parameters of a commit: the checksum of its actions.
const CRC: &str = "headwaterCrc32";

/// The log of one table.
pub(crate) struct DeltaLog {
    /// Of the table.
    pub(super) dir: PathBuf,
}

/// Files that no reader needs any more.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Vacuumed {
    /// Those that were removed, or would be.
    pub files: u64,
    pub bytes: u64,
    /// Those that readers may still be at.
    pub kept: u64,
}

impl DeltaLog {
    pub fn new(dir: &Path) -> DeltaLog {
        DeltaLog {
            dir: dir.to_owned(),
        }
    }

    /// Is there a table in this folder?
    pub fn is_table(dir: &Path) -> bool {
        dir.join(FOLDER).is_dir()
    }

    /// Makes an empty table.
    pub fn create(&self, definition: &Definition) -> Result<Arc<Snapshot>, Error> {
        create_dir(&self.folder())?;
        let now = crate::clock::millis();
        let actions = [protocol(), metadata(definition, &unique(), now)];
        // Whoever was faster has made it.
        put_if_absent(
            &self.commit_path(0),
            &commit_bytes("CREATE TABLE", None, &actions),
        )?;
        sync_dir(&self.dir)?;
        self.snapshot()
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.dir.join(FOLDER)
    }

    pub(super) fn commit_path(&self, version: u64) -> PathBuf {
        self.folder().join(format!("{version:020}.json"))
    }

    pub(super) fn checkpoint_path(&self, version: u64) -> PathBuf {
        self.folder()
            .join(format!("{version:020}.checkpoint.parquet"))
    }

    /// The actions of a version; `None` where there is no such version yet.
    pub(super) fn actions(&self, version: u64) -> Result<Option<Vec<Json>>, Error> {
        let path = self.commit_path(version);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::file("open", &path)(cause)),
        };
        let mut text = String::new();
        let read = file.take(COMMIT_MAX).read_to_string(&mut text);
        match read {
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                return Err(Error::damaged(&path, "it is not text"));
            }
            read => read.map_err(Error::file("read", &path))?,
        };
        parse_commit(&path, &text).map(Some)
    }

    /// Is there none behind a version? Commits that a checkpoint covers may be gone.
    pub fn is_newest(&self, version: u64) -> bool {
        !self.commit_path(version + 1).exists()
            && self.covered().is_some_and(|covered| covered <= version)
    }

    /// The version of the last checkpoint, 0 where there is none; `None` if it cannot be read.
    fn covered(&self) -> Option<u64> {
        let text = match fs::read_to_string(self.folder().join(LAST_CHECKPOINT)) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Some(0),
            Err(_) => return None,
        };
        let json: Json = serde_json::from_str(&text).ok()?;
        json["version"].as_u64()
    }

    /// The newest version from a known one on.
    pub fn newer(&self, known: &Arc<Snapshot>) -> Result<Arc<Snapshot>, Error> {
        let mut newest = Arc::clone(known);
        while let Some(actions) = self.actions(newest.version + 1)? {
            newest = Arc::new(newest.with(&actions, &self.dir)?);
        }
        Ok(newest)
    }

    /// The last checkpoint, where there is one that can be used.
    pub(super) fn last_checkpoint(&self) -> Result<Option<Snapshot>, Error> {
        let path = self.folder().join(LAST_CHECKPOINT);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::file("read", &path)(cause)),
        };
        let json: Json = serde_json::from_str(&text)
            .map_err(|cause| Error::damaged(&path, format!("it is not JSON: {cause}")))?;
        let version = json["version"].as_u64();
        let version = version.ok_or_else(|| Error::damaged(&path, "it names no version"))?;
        let parts = json["parts"].as_u64();
        let paths: Vec<PathBuf> = match parts {
            None => vec![self.checkpoint_path(version)],
            Some(parts) => (1..=parts)
                .map(|part| format!("{version:020}.checkpoint.{part:010}.{parts:010}.parquet"))
                .map(|name| self.folder().join(name))
                .collect(),
        };
        self.read_checkpoint(version, &paths, json[CRC].as_u64())
            .map(Some)
    }

    /// A checkpoint; `crc` is that of its bytes, where it is known.
    pub(super) fn read_checkpoint(
        &self,
        version: u64,
        paths: &[PathBuf],
        crc: Option<u64>,
    ) -> Result<Snapshot, Error> {
        let mut maker = Maker::default();
        let mut actions = Vec::new();
        for path in paths {
            let bytes = fs::read(path).map_err(Error::file("read", path))?;
            if crc.is_some_and(|crc| crc != u64::from(crc32fast::hash(&bytes))) {
                return Err(Error::damaged(
                    path,
                    "its bytes have changed since it was written",
                ));
            }
            actions.extend(checkpoint::read(path, bytes)?);
        }
        // What files hold is said before they are named.
        actions.sort_by_key(|action| action.get("metaData").is_none());
        actions
            .iter()
            .try_for_each(|action| maker.add(action, &self.dir))?;
        maker.finish(version, &self.dir)
    }

    /// The first version.
    pub(super) fn read_commits(&self) -> Result<Snapshot, Error> {
        let path = self.commit_path(0);
        let actions = self.actions(0)?;
        let actions = actions
            .ok_or_else(|| Error::damaged(&path, "the first commit of the table is gone"))?;
        let mut maker = Maker::default();
        actions
            .iter()
            .try_for_each(|action| maker.add(action, &self.dir))?;
        maker.finish(0, &self.dir)
    }

    fn write_checkpoint(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let bytes = checkpoint::write(&snapshot.actions());
        let path = self.checkpoint_path(snapshot.version);
        let bytes = bytes.map_err(|message| Error::damaged(&path, message))?;
        replace(&path, &bytes)?;
        let size = snapshot.actions().len();
        let last = json!({"version": snapshot.version, "size": size, CRC: crc32fast::hash(&bytes)});
        replace(
            &self.folder().join(LAST_CHECKPOINT),
            last.to_string().as_bytes(),
        )?;
        self.remove_old(snapshot.version)
    }

    /// Removes commits and checkpoints that a newer checkpoint stands for.
    fn remove_old(&self, checkpoint: u64) -> Result<(), Error> {
        let folder = self.folder();
        for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
            let entry = entry.map_err(Error::file("read", &folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name.get(..20).and_then(|digits| digits.parse::<u64>().ok());
            let is_old =
                version.is_some_and(|version| version < checkpoint) && is_older(&entry, KEPT);
            if is_old {
                let path = entry.path();
                fs::remove_file(&path).map_err(Error::file("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Removes files that the newest version does not name: those that were taken out longer ago than `grace`, and
    /// those that never were put in, an hour after they were written. With `is_dry` they are only counted.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn vacuum(
        &self,
        snapshot: &Snapshot,
        grace: Duration,
        is_dry: bool,
    ) -> Result<Vacuumed, Error> {
        let now = crate::clock::millis();
        let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let mut vacuumed = Vacuumed::default();
        for entry in fs::read_dir(&self.dir).map_err(Error::file("read", &self.dir))? {
            let entry = entry.map_err(Error::file("read", &self.dir))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_ours = name.starts_with("part-") && name.ends_with(".parquet");
            if !is_ours || snapshot.files.contains_key(&name) {
                continue;
            }
            let is_done = match snapshot.removed.get(&name) {
                Some(time) => now.saturating_sub(*time) >= grace,
                // It may be on its way into the table.
                None => is_older(&entry, GRACE),
            };
            if !is_done {
                vacuumed.kept += 1;
                continue;
            }
            let path = entry.path();
            vacuumed.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            if !is_dry {
                fs::remove_file(&path).map_err(Error::file("remove", &path))?;
            }
            vacuumed.files += 1;
        }
        Ok(vacuumed)
    }
}

fn is_older(entry: &fs::DirEntry, age: Duration) -> bool {
    let written = entry.metadata().and_then(|metadata| metadata.modified());
    let passed = written
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    passed.is_some_and(|passed| passed > age)
}

/// A commit: one action a line, the first about the commit itself.
fn commit_bytes(operation: &str, predicate: Option<&str>, actions: &[Json]) -> Vec<u8> {
    let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
    let mut parameters = json!({CRC: crc32fast::hash(lines.as_bytes()).to_string()});
    if let Some(predicate) = predicate {
        // As Spark writes it: a list in a text.
        parameters["predicate"] = json!([predicate]).to_string().into();
    }
    let info = json!({"commitInfo": {
        "timestamp": crate::clock::millis(),
        "operation": operation,
        "operationParameters": parameters,
        "engineInfo": concat!("Headwater/", env!("CARGO_PKG_VERSION")),
    }});
    format!("{info}\n{lines}").into_bytes()
}

fn parse_commit(path: &Path, text: &str) -> Result<Vec<Json>, Error> {
    let mut actions = Vec::new();
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let action: Json = serde_json::from_str(line).map_err(|cause| {
            Error::damaged(path, format!("line {} is not JSON: {cause}", at + 1))
        })?;
        actions.push(action);
    }
    let info = actions.first().map(|action| &action["commitInfo"]);
    let ours = info.filter(|info| {
        info["engineInfo"]
            .as_str()
            .is_some_and(|engine| engine.starts_with("Headwater/"))
    });
    if let Some(info) = ours {
        let lines = text.split_once('\n').map_or("", |(_, lines)| lines);
        let crc = crc32fast::hash(lines.as_bytes()).to_string();
        if info["operationParameters"][CRC].as_str() != Some(&crc) {
            return Err(Error::damaged(
                path,
                "its bytes have changed since it was written",
            ));
        }
    }
    Ok(actions)
}

impl TableLog for DeltaLog {
    fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let begin = match self.last_checkpoint() {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => self.read_commits()?,
            // All that it stands for may still be there.
            Err(error) => match self.read_commits() {
                Ok(snapshot) => {
                    tracing::warn!(%error, "a checkpoint of a table cannot be used; read its commits instead");
                    snapshot
                }
                Err(_) => return Err(error),
            },
        };
        self.newer(&Arc::new(begin))
    }

    fn overwrite(
        &self,
        base: &Snapshot,
        adds: &[Add],
        removes: &[String],
        txn: Option<&Txn>,
    ) -> Result<Arc<Snapshot>, Error> {
        let mut actions: Vec<Json> = txn.map(txn_action).into_iter().collect();
        actions.extend(file_actions(base, adds, removes, true));
        self.commit(base, ("WRITE", None), &actions)
    }

    fn delete(
        &self,
        base: &Snapshot,
        adds: &[Add],
        removes: &[String],
        predicate: &str,
    ) -> Result<Arc<Snapshot>, Error> {
        let actions: Vec<Json> = file_actions(base, adds, removes, true).collect();
        self.commit(base, ("DELETE", Some(predicate)), &actions)
    }

    fn rearrange(
        &self,
        base: &Snapshot,
        adds: &[Add],
        removes: &[String],
    ) -> Result<Arc<Snapshot>, Error> {
        let actions: Vec<Json> = file_actions(base, adds, removes, false).collect();
        self.commit(base, ("OPTIMIZE", None), &actions)
    }
}

/// `is_new`: the rows of the table are others then.
fn file_actions<'a>(
    base: &'a Snapshot,
    adds: &'a [Add],
    removes: &'a [String],
    is_new: bool,
) -> impl Iterator<Item = Json> + 'a {
    let now = crate::clock::millis();
    let removes = removes
        .iter()
        .map(move |path| remove_action(path, now, is_new));
    removes.chain(
        adds.iter()
            .map(move |add| add_action(add, &base.definition, is_new)),
    )
}

impl DeltaLog {
    /// Makes the version after `base`, unless there is one.
    fn commit(
        &self,
        base: &Snapshot,
        (operation, predicate): (&str, Option<&str>),
        actions: &[Json],
    ) -> Result<Arc<Snapshot>, Error> {
        let next = base.with(actions, &self.dir)?;
        sync_dir(&self.dir)?;
        let bytes = commit_bytes(operation, predicate, actions);
        if !put_if_absent(&self.commit_path(next.version), &bytes)? {
            return Err(Error::Conflict(base.definition.name.clone()));
        }
        if next.version.is_multiple_of(CHECKPOINT_EVERY)
            && let Err(error) = self.write_checkpoint(&next)
        {
            // The commit is there; the next one makes it good.
            tracing::warn!(table = base.definition.name, %error, "cannot write a checkpoint of a table");
        }
        Ok(Arc::new(next))
    }
}
