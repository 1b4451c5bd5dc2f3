//! What lasts: the directory behind `--state`.
//!
//! ```text
//! DIR/lock                          held while a server runs on the directory
//! DIR/id                            names the directory to the stores that take part in epochs
//! DIR/GROUP/apps                    names of the apps saved together
//! DIR/GROUP/snapshot-EPOCH          two newest epochs, and those they say the changes from
//! DIR/GROUP/current                 newest epoch that every store has committed
//! DIR/GROUP/rejected                events that were rejected
//! ```
//!
//! A group is the apps that share one cut: those linked by in-memory topics or by a database.
//! Promises: a snapshot is there whole or not at all (temporary file, fsync, rename, fsync of the
//! directory, CRC); the one before it is kept until the next is current. Never: a guess. A damaged
//! or foreign file is an error that names it, or is passed over for the one before with a warning.
//!
//! A snapshot is whole, or it has what has changed since the one before it; then it is good for
//! nothing without that one (`chain`).

mod chain;
mod epoch;
mod file;
mod spool;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(crate) use chain::Composer;
pub use epoch::{Choice, choose};
pub(crate) use file::write_whole;
use file::{Head, Unusable, sync_dir};
pub(crate) use spool::Spool;

use crate::error::Error;

/// An open state directory; no other server can open it meanwhile.
#[derive(Debug)]
pub struct StateDir {
    root: PathBuf,
    id: String,
    _lock: File,
}

/// The part of a state directory that belongs to one group of apps.
#[derive(Clone, Debug)]
pub struct GroupState {
    dir: PathBuf,
    /// Under this name transactional stores remember the epoch they have committed.
    pub store_key: String,
    /// Names what is written from now on: changes never fit what was written before.
    run: u64,
    /// The newest epoch that was made whole after it was written.
    composed: Arc<AtomicU64>,
}

/// What a group finds when it starts.
#[derive(Debug, Default)]
pub struct Found {
    /// Epochs of the snapshots that can be read, newest first.
    pub epochs: Vec<u64>,
    /// Newest epoch known to be committed everywhere.
    pub current: Option<u64>,
    /// Files that are there but cannot be used, and why.
    pub damaged: Vec<String>,
}

impl StateDir {
    /// Opens or creates the directory and locks it.
    pub fn open(root: &Path) -> Result<StateDir, Error> {
        fs::create_dir_all(root).map_err(Error::file("create state directory", root))?;
        let lock_path = root.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(Error::file("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::State {
                    path: root.to_owned(),
                    message: "another server runs on it: stop that one, or give another directory"
                        .to_owned(),
                });
            }
            Err(TryLockError::Error(cause)) => return Err(Error::file("lock", lock_path)(cause)),
        }
        let id = read_or_make_id(root)?;
        Ok(StateDir {
            root: root.to_owned(),
            id,
            _lock: lock,
        })
    }

    /// May these apps be saved together? An app saved with others may not come back without them:
    /// its part of their cut would not fit.
    pub fn fits(&self, apps: &[String]) -> Result<(), Error> {
        let mut names = apps.to_vec();
        names.sort();
        for (other, saved) in self.groups()? {
            let shared = saved.iter().find(|name| names.contains(name));
            if let Some(app) = shared
                && saved != names
            {
                return Err(Error::State {
                    path: other,
                    message: format!(
                        "app '{app}' was saved together with {}: run the same apps again, or \
                         delete this directory to start afresh",
                        quoted(saved.iter().filter(|name| *name != app))
                    ),
                });
            }
        }
        Ok(())
    }

    /// The place of the group that holds these apps, if they fit.
    pub fn group(&self, apps: &[String]) -> Result<GroupState, Error> {
        self.fits(apps)?;
        let mut names = apps.to_vec();
        names.sort();
        let dir = self.root.join(group_name(&names));
        let list_path = dir.join("apps");
        let list = names.join("\n");
        if !list_path.exists() {
            fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
            write_whole(&list_path, &[list.as_bytes()])?;
        }
        remove_unfinished(&dir)?;
        let store_key = format!(
            "{}/{}",
            self.id,
            dir.file_name().unwrap_or_default().to_string_lossy()
        );
        Ok(GroupState {
            dir,
            store_key,
            run: noise(),
            composed: Arc::default(),
        })
    }

    fn groups(&self) -> Result<Vec<(PathBuf, Vec<String>)>, Error> {
        groups_in(&self.root)
    }
}

/// Every group directory below `root` with the names of its apps, in the order of their names.
pub(crate) fn groups_in(root: &Path) -> Result<Vec<(PathBuf, Vec<String>)>, Error> {
    let mut groups = Vec::new();
    for entry in fs::read_dir(root).map_err(Error::file("read state directory", root))? {
        let dir = entry
            .map_err(Error::file("read state directory", root))?
            .path();
        let list = dir.join("apps");
        if !list.is_file() {
            continue;
        }
        let text = fs::read_to_string(&list).map_err(Error::file("read", &list))?;
        groups.push((dir, text.lines().map(str::to_owned).collect()));
    }
    groups.sort();
    Ok(groups)
}

/// What a server that was killed was writing when it was.
fn remove_unfinished(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let path = entry.map_err(Error::file("read", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("snapshot-") && name.ends_with(".tmp") {
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        }
    }
    Ok(())
}

/// The group that an app was saved in, to be read only.
pub(crate) fn saved_group(root: &Path, app: &str) -> Result<Option<GroupState>, Error> {
    let groups = groups_in(root)?;
    let mut own = groups
        .into_iter()
        .filter(|(_, apps)| apps.iter().any(|a| a == app));
    Ok(own.next().map(|(dir, _)| GroupState {
        dir,
        store_key: String::new(),
        run: 0,
        composed: Arc::default(),
    }))
}

impl GroupState {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Looks at the snapshots without judging which one fits the stores.
    pub fn find(&self) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut heads = BTreeMap::new();
        for (epoch, path) in self.snapshots()? {
            match file::check(&path, epoch) {
                Ok(head) => {
                    heads.insert(epoch, head);
                }
                Err(Unusable::Damaged(message)) => {
                    found.damaged.push(format!("{}: {message}", path.display()));
                }
                Err(Unusable::Foreign(message)) => return Err(Error::State { path, message }),
            }
        }
        for &epoch in heads.keys().rev() {
            match chain::of(epoch, |epoch| heads.get(&epoch).copied()) {
                Ok(_) => found.epochs.push(epoch),
                Err(message) => {
                    let path = self.snapshot_path(epoch);
                    found.damaged.push(format!("{}: {message}", path.display()));
                }
            }
        }
        let current = self.dir.join("current");
        if let Ok(text) = fs::read_to_string(&current) {
            found.current = text.trim().parse().ok();
        }
        Ok(found)
    }

    /// Epoch and path of every snapshot that is in place.
    fn snapshots(&self) -> Result<Vec<(u64, PathBuf)>, Error> {
        let mut snapshots = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(Error::file("read", &self.dir))? {
            let path = entry.map_err(Error::file("read", &self.dir))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let epoch = name.strip_prefix("snapshot-").and_then(|e| e.parse().ok());
            snapshots.extend(epoch.map(|epoch| (epoch, path)));
        }
        Ok(snapshots)
    }

    /// Takes the payload of a snapshot; it is durable once it is sealed, and not current yet. With
    /// `before` the payload is what has changed since that epoch, which this run has written.
    pub(crate) fn spool(&self, epoch: u64, before: Option<u64>) -> Spool {
        let head = Head {
            epoch,
            before: before.unwrap_or(0),
            run: self.run,
            ..Head::default()
        };
        Spool::new(self.snapshot_path(epoch), head)
    }

    /// Every store has committed the epoch: it is what a restart goes on from. Snapshots that
    /// neither it nor the one before it needs are removed, and so are newer ones that were given up.
    pub fn mark_current(&self, epoch: u64) -> Result<(), Error> {
        write_whole(
            &self.dir.join("current"),
            &[format!("{epoch}\n").as_bytes()],
        )?;
        let needed = self.oldest_needed(epoch);
        // A snapshot that was just made whole stands on the disk before what it replaces goes.
        sync_dir(&self.dir)?;
        for (old, path) in self.snapshots()? {
            if old < needed || old > epoch {
                fs::remove_file(&path).map_err(Error::file("remove", path))?;
            }
        }
        Ok(())
    }

    fn snapshot_path(&self, epoch: u64) -> PathBuf {
        self.dir.join(format!("snapshot-{epoch}"))
    }
}

/// Letters that are safe in a file name, and a hash where something had to be left out.
fn group_name(names: &[String]) -> String {
    const LENGTH_MAX: usize = 80;
    let whole = names.join("+");
    let safe: String = whole
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '+' => c,
            _ => '_',
        })
        .take(LENGTH_MAX)
        .collect();
    if safe == whole {
        return safe;
    }
    format!("{safe}-{:08x}", crc32fast::hash(whole.as_bytes()))
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let all: Vec<String> = names.map(|n| format!("'{n}'")).collect();
    if all.is_empty() {
        "no other app".to_owned()
    } else {
        all.join(", ")
    }
}

fn read_or_make_id(root: &Path) -> Result<String, Error> {
    let path = root.join("id");
    if let Ok(text) = fs::read_to_string(&path)
        && !text.trim().is_empty()
    {
        return Ok(text.trim().to_owned());
    }
    let id = fresh_id();
    write_whole(&path, &[id.as_bytes(), b"\n"])?;
    Ok(id)
}

fn fresh_id() -> String {
    format!("{:016x}", noise())
}

/// Unlikely to occur twice: the clock, the process and the seeds of the standard hasher.
fn noise() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = crate::clock::wall_millis();
    RandomState::new().hash_one((now, std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    fn write(group: &GroupState, epoch: u64, payload: &[u8]) {
        use std::io::Write;
        let mut spool = group.spool(epoch, None);
        spool.write_all(payload).expect("writes");
        spool.seal(10 * epoch).expect("seals");
    }

    #[test]
    fn a_large_snapshot_streams_into_its_file() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::open(root.path()).expect("opens");
        let group = state.group(&names(&["A"])).expect("a new group");
        let payload: Vec<u8> = (0..9_000_000u32).map(|i| (i % 251) as u8).collect();
        write(&group, 1, &payload);
        assert_eq!(group.find().expect("reads").epochs, [1]);
        assert!(group.read(1).expect("reads") == (10, payload));
        assert!(!group.path("snapshot-1.tmp").exists());
    }

    #[test]
    fn a_snapshot_of_another_version_is_refused() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::open(root.path()).expect("opens");
        let group = state.group(&names(&["A"])).expect("a new group");
        write(&group, 1, b"good");
        let path = group.path("snapshot-1");
        let mut bytes = fs::read(&path).expect("reads");
        bytes[8] = 99;
        fs::write(&path, bytes).expect("writes");
        let refused = group.find().expect_err("it is foreign");
        assert!(refused.to_string().contains("version 99"), "{refused}");
    }

    #[test]
    fn the_two_newest_epochs_are_kept() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::open(root.path()).expect("opens");
        let group = state.group(&names(&["A"])).expect("a new group");
        for epoch in 1..=4 {
            write(&group, epoch, format!("state {epoch}").as_bytes());
            group.mark_current(epoch).expect("marks");
        }
        let found = group.find().expect("reads");
        assert_eq!((found.epochs, found.current), (vec![4, 3], Some(4)));
        assert_eq!(group.read(3).expect("kept"), (30, b"state 3".to_vec()));
    }

    #[test]
    fn a_damaged_snapshot_is_named_and_passed_over() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::open(root.path()).expect("opens");
        let group = state.group(&names(&["A"])).expect("a new group");
        write(&group, 1, b"good");
        write(&group, 2, b"bad later");
        let path = group.path("snapshot-2");
        let mut bytes = fs::read(&path).expect("reads");
        for cut in 0..bytes.len() {
            fs::write(&path, &bytes[..cut]).expect("writes");
            let found = group.find().expect("reads");
            assert_eq!((found.epochs, found.damaged.len()), (vec![1], 1), "{cut}");
        }
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).expect("writes");
        let found = group.find().expect("reads");
        assert!(found.damaged[0].contains("checksum"), "{found:?}");
    }

    #[test]
    fn one_server_at_a_time_and_one_group_per_app() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::open(root.path()).expect("opens");
        let second = StateDir::open(root.path()).expect_err("locked");
        assert!(second.to_string().contains("another server"), "{second}");
        state.group(&names(&["B", "A"])).expect("a new group");
        state
            .group(&names(&["A", "B"]))
            .expect("the same in any order");
        let other = state.group(&names(&["A"])).expect_err("saved with B");
        assert!(other.to_string().contains("'B'"), "{other}");
        drop(state);
        StateDir::open(root.path()).expect("the lock goes with its holder");
    }

    #[test]
    fn names_of_groups_are_safe_and_distinct() {
        let odd = group_name(&names(&["a/b"]));
        assert!(!odd.contains('/') && odd != group_name(&names(&["a_b"])));
        assert_ne!(odd, group_name(&names(&["a:b"])));
        assert_eq!(group_name(&names(&["A", "B"])), "A+B");
    }
}
