//! The versions of a table before the newest, as far as its log still has them.

use std::fs;
use std::sync::Arc;

use super::{DeltaLog, Snapshot, TableLog};
use crate::error::Error;

/// What a commit did to a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    pub version: u64,
    /// Milliseconds since 1970; `None` where its writer did not say.
    pub time: Option<i64>,
    /// As Delta names it: `WRITE`, `DELETE`, `OPTIMIZE`, `CREATE TABLE`.
    pub operation: String,
    /// The program that made it.
    pub engine: String,
    pub added: u64,
    pub removed: u64,
}

impl DeltaLog {
    /// The versions whose commits are there, oldest first.
    ///
    /// # Errors
    /// A commit cannot be read, or is damaged.
    pub fn versions(&self) -> Result<Vec<Version>, Error> {
        let mut versions = Vec::new();
        for version in self.numbers(".json")? {
            // Between the list and now a newer checkpoint may have taken its place.
            let Some(actions) = self.actions(version)? else {
                continue;
            };
            let count =
                |kind: &str| actions.iter().filter(|a| a.get(kind).is_some()).count() as u64;
            let info = actions.iter().find_map(|action| action.get("commitInfo"));
            let text = |name: &str| {
                let text = info.and_then(|info| info[name].as_str());
                text.unwrap_or_default().to_owned()
            };
            versions.push(Version {
                version,
                time: info.and_then(|info| info["timestamp"].as_i64()),
                operation: text("operation"),
                engine: text("engineInfo"),
                added: count("add"),
                removed: count("remove"),
            });
        }
        Ok(versions)
    }

    /// The files of a version that is not the newest.
    ///
    /// # Errors
    /// There is no such version, or its commits are gone or damaged.
    pub fn snapshot_at(&self, version: u64) -> Result<Arc<Snapshot>, Error> {
        let newest = self.snapshot()?;
        if version == newest.version {
            return Ok(newest);
        }
        if version > newest.version {
            return Err(Error::Refused(format!(
                "table '{}' has no version {version}: the newest is {}",
                newest.definition.name, newest.version
            )));
        }
        let mut at = self.base_of(version, &newest)?;
        while at.version < version {
            let next = at.version + 1;
            let actions = self
                .actions(next)?
                .ok_or_else(|| self.gone(version, &newest))?;
            at = at.with(&actions, &self.dir)?;
        }
        Ok(Arc::new(at))
    }

    /// Where to read on from: a checkpoint at or before a version, or the first commit.
    fn base_of(&self, version: u64, newest: &Snapshot) -> Result<Snapshot, Error> {
        let checkpoints = self.numbers(".checkpoint.parquet")?;
        let before = checkpoints.into_iter().rev().find(|at| *at <= version);
        let Some(before) = before else {
            return match self.commit_path(0).exists() {
                true => self.read_commits(),
                false => Err(self.gone(version, newest)),
            };
        };
        let path = self.checkpoint_path(before);
        // Only of the last one the checksum is known; another has to lead to what is known to be right.
        match self.last_checkpoint() {
            Ok(Some(last)) if last.version == before => return Ok(last),
            _ => {}
        }
        let begin = self.read_checkpoint(before, std::slice::from_ref(&path), None)?;
        let mut end = begin.clone();
        while end.version < newest.version {
            let actions = self.actions(end.version + 1)?;
            let actions = actions.ok_or_else(|| self.gone(version, newest))?;
            end = end.with(&actions, &self.dir)?;
        }
        match end.files == newest.files && end.definition == newest.definition {
            true => Ok(begin),
            false => Err(Error::damaged(
                &path,
                "with the commits behind it, it does not lead to the newest version",
            )),
        }
    }

    fn gone(&self, version: u64, newest: &Snapshot) -> Error {
        let oldest = self
            .numbers(".json")
            .ok()
            .and_then(|all| all.first().copied());
        Error::Refused(format!(
            "version {version} of table '{}' can no longer be read: its log is kept for a day and now begins with \
             version {}",
            newest.definition.name,
            oldest.unwrap_or(newest.version)
        ))
    }

    /// All that is wrong with the log, beside what stops [`TableLog::snapshot`].
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn check(&self) -> Result<Vec<Error>, Error> {
        let mut wrong = Vec::new();
        for version in self.numbers(".json")? {
            wrong.extend(self.actions(version).err());
        }
        wrong.extend(self.last_checkpoint().err());
        Ok(wrong)
    }

    /// Versions that files of the log are named after, in order.
    fn numbers(&self, ending: &str) -> Result<Vec<u64>, Error> {
        let folder = self.folder();
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
            let name = entry.map_err(Error::file("read", &folder))?.file_name();
            let name = name.to_string_lossy();
            let digits = name
                .strip_suffix(ending)
                .filter(|digits| digits.len() == 20);
            found.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
        }
        found.sort_unstable();
        Ok(found)
    }
}
