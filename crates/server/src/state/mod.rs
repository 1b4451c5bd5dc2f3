//! The directory of `--state`.
//!
//! ```text
//! DIR/lock                          held while a server runs on the directory
//! DIR/id                            names the directory to the stores that take part in epochs
//! DIR/GROUP/apps                    names of the apps saved together
//! DIR/GROUP/snapshot-EPOCH          two newest epochs, and those they say the changes from
//! DIR/GROUP/current                 newest epoch that every store has committed
//! DIR/GROUP/rejected                events that sources and queries rejected
//! DIR/GROUP/undelivered             events that sinks and stores rejected
//! DIR/GROUP/rejected-PLACE          the same from that byte on, where the file before is full
//! DIR/GROUP/rejected.damaged-N      bytes of it that had changed, copied at a start
//! DIR/GROUP/rejected.edited-NUMBER  payload that somebody has edited
//! DIR/GROUP/rejected.removing       what is being removed from it at the moment
//! DIR/GROUP/rejected.dropped        what the bounds have cost
//! DIR/GROUP/number                  part of the numbers of the rejected events of the group
//! DIR/backups/NAME                  a copy of all of this, with a list of its files (`upkeep`)
//! DIR/replaced-TIME                 what was here before a backup was restored
//! ```
//!
//! All of it is for its owner alone: directories have mode 0700, files 0600 (`mode`).
//!
//! A group is the apps that share one checkpoint: those linked by in-memory topics or by a
//! database. Promises: a snapshot exists completely or not at all (temporary file, fsync, rename,
//! fsync of the directory, CRC); the one before it is kept until the next is current. Never: a
//! guess. If a file is damaged, the previous snapshot is used, which is logged; if there is none,
//! if a store has committed what the file held, or if it is of another version, the start is
//! refused (`damage`).
//!
//! A snapshot is whole, or it has the changes since the previous one; then it is useless without
//! that one (`chain`).

mod damage;
mod epoch;
pub(crate) mod file;
mod mode;
pub(crate) mod proof;
pub(crate) mod saved;
mod snapshot_log;
mod spool;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use connect::effect::EffectJournal;

pub use damage::Damage;
pub use epoch::{Choice, choose};
pub(crate) use file::{Fsync, sync_parent_of, write_again};
use file::{Head, Layer, Unusable};
pub(crate) use file::{sync_dir, write_whole};
pub(crate) use mode::private;
use proof::Text;
pub(crate) use snapshot_log::Compactor;
use snapshot_log::Length;
pub(crate) use spool::Spool;

pub(crate) use saved::Saved;

use crate::error::Error;

/// What technologies note durably about the effects of a group.
pub(crate) type Journals = Arc<[Arc<dyn EffectJournal>]>;

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
    pub(crate) dir: PathBuf,
    /// Under this name transactional stores remember the epoch they have committed.
    pub store_key: String,
    /// Names what is written from now on: changes never fit what was written before.
    run: u64,
    /// The newest epoch that was made whole after it was written.
    composed: Arc<AtomicU64>,
}

/// Is told of each file before it is read, with its bytes.
pub type Watch<'a> = dyn FnMut(&Path, u64) + 'a;

/// Held by a server.
const LOCK: &str = "lock";

/// Names the directory to stores.
pub(crate) const ID: &str = "id";

/// Says that a restore is replacing what is there.
pub(crate) const RESTORING: &str = "restoring";

/// Below a state directory: its backups.
pub(crate) const BACKUPS: &str = "backups";

/// Below a state directory: a backup that is being restored, before it takes its place.
pub(crate) const STAGE: &str = "restore.unfinished";

/// Begins the name of what a restore has put aside.
pub(crate) const REPLACED: &str = "replaced-";

/// Below a state directory: users and their tokens (see `access`).
pub(crate) const USERS: &str = "users";

/// Below a state directory: the key store (see `secrets`).
pub(crate) const SECRETS: &str = "secrets";

/// Below a state directory: the audit log.
pub(crate) const AUDIT: &str = "audit.jsonl";

/// Below a state directory: the apps that were deployed to a running server.
pub const DEPLOYED: &str = "deployed";

/// May a directory of this name stand in a state directory beside its groups?
pub(crate) fn is_kept_below(name: &str) -> bool {
    name == BACKUPS || name == DEPLOYED || name == STAGE || name.starts_with(REPLACED)
}

/// How often a directory that changes meanwhile is looked at before that is an error.
pub(crate) const LOOKS_MAX: usize = 8;

/// Names the epoch that is current.
pub(crate) const CURRENT: &str = "current";

/// Names the number of a group, which is part of the numbers of its rejected events.
const NUMBER: &str = "number";

/// Why it is not known which epoch is current.
pub(crate) enum Unreadable {
    Number(&'static str),
    File(Error),
}

/// What a group finds when it starts.
#[derive(Debug, Default)]
pub struct Found {
    /// Epochs of the snapshots that can be read, newest first.
    pub epochs: Vec<u64>,
    /// Newest epoch known to be committed everywhere; 0 is the empty beginning, where state was dropped.
    pub current: Option<u64>,
    /// The highest number of an epoch that anything here has, whether it can be used or not.
    pub highest: u64,
    /// What should be there and cannot be used.
    pub damage: Vec<Damage>,
}

impl StateDir {
    /// Opens or creates the directory and locks it.
    pub fn open(root: &Path) -> Result<StateDir, Error> {
        create_dir(root)?;
        let lock = lock(root)?;
        refuse_half(root)?;
        mode::make_private(root);
        let id = read_or_make_id(root)?;
        Ok(StateDir {
            root: root.to_owned(),
            id,
            _lock: lock,
        })
    }

    /// May these apps be saved together? An app saved with others may not come back without them:
    /// its part of their checkpoint would not fit.
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
                         delete this directory to start empty",
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
        if !list_path.exists() {
            create_dir(&dir)?;
        }
        // One of a version before has no checksum yet.
        if !matches!(proof::read(&list_path)?, Some(Text::Proven(_))) {
            proof::write(&list_path, &(names.join("\n") + "\n"))?;
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

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn groups(&self) -> Result<Vec<(PathBuf, Vec<String>)>, Error> {
        groups_in(&self.root)
    }
}

/// Refuses a directory in which a restore was interrupted (`upkeep::restore`).
pub(crate) fn refuse_half(root: &Path) -> Result<(), Error> {
    if !root.join(RESTORING).exists() {
        return Ok(());
    }
    Err(Error::State {
        path: root.to_owned(),
        message:
            "a restore into it was interrupted, so that it has parts of two states: do the same \
                  restore again (headwater state restore BACKUP DIR)"
                .to_owned(),
    })
}

/// Keeps every server from a directory, as long as what it gives lives.
pub(crate) fn lock(root: &Path) -> Result<File, Error> {
    let path = root.join(LOCK);
    let lock = private(&mut File::options())
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::file("open", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::State {
            path: root.to_owned(),
            message: "another server is using it: stop that server, or use another directory"
                .to_owned(),
        }),
        Err(TryLockError::Error(cause)) => Err(Error::file("lock", path)(cause)),
    }
}

/// Every group directory below `root`, in the order of their names.
pub(crate) fn group_dirs(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut dirs = Vec::new();
    for entry in fs::read_dir(root).map_err(Error::file("read state directory", root))? {
        let dir = entry
            .map_err(Error::file("read state directory", root))?
            .path();
        if dir.join("apps").is_file() {
            dirs.push(dir);
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// Every group directory below `root` with the number that names its rejected events. One that has none
/// yet gets the next that is free, in the order of their names.
pub(crate) fn numbered_groups(root: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let dirs = group_dirs(root)?;
    let known: Vec<Option<u64>> = dirs.iter().map(|dir| group_number(dir)).collect();
    let mut next = known.iter().flatten().max().map_or(0, |max| max + 1);
    let numbers = known.into_iter().map(|known| {
        known.unwrap_or_else(|| {
            next += 1;
            next - 1
        })
    });
    Ok(numbers.zip(dirs).collect())
}

/// The number of a group, where it is noted and the note is whole.
fn group_number(dir: &Path) -> Option<u64> {
    match proof::read(&dir.join(NUMBER)) {
        Ok(Some(Text::Proven(text))) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Every group directory below `root` with the names of its apps, in the order of their names.
pub(crate) fn groups_in(root: &Path) -> Result<Vec<(PathBuf, Vec<String>)>, Error> {
    let dirs = group_dirs(root)?.into_iter();
    dirs.map(|dir| apps_of(&dir).map(|apps| (dir, apps)))
        .collect()
}

/// Names of the apps that a directory belongs to. A list without a checksum is proven by the name of
/// the directory, which is made from the list.
pub(crate) fn apps_of(dir: &Path) -> Result<Vec<String>, Error> {
    let path = dir.join("apps");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    let dir_name = dir.file_name().unwrap_or_default().to_string_lossy();
    match proof::read(&path)? {
        Some(Text::Proven(text)) => Ok(lines(&text)),
        Some(Text::Unproven(text)) if group_name(&lines(&text)) == dir_name => Ok(lines(&text)),
        _ => Err(Error::State {
            message: format!(
                "'{}' is damaged: it listed the apps saved here, and '{dir_name}' was made from \
                 them. Restore a copy, or write each name on its own line, in alphabetical order",
                path.display()
            ),
            path: dir.to_owned(),
        }),
    }
}

/// Bytes of the logs of rejected and of undelivered events that the current snapshot of a group
/// knows to be durable; 0 where that is not known.
pub(crate) fn durable_lengths(dir: &Path) -> [u64; 2] {
    let group = GroupState::to_read(dir.to_owned());
    let Ok(Some(epoch)) = group.current() else {
        return [0, 0];
    };
    let lengths = || {
        use io::Read;
        let mut layer = Layer::open(&group.snapshot_path(epoch), epoch).ok()?;
        let mut head = [0; Saved::HEAD_LEN];
        layer.read_exact(&mut head).ok()?;
        let rejected = Saved::rejected_in(&head)?;
        let head = layer.finish().ok()?;
        Some([rejected, head.undelivered])
    };
    lengths().unwrap_or_default()
}

/// Creates a directory with those above it, so that they last.
pub(crate) fn create_dir(dir: &Path) -> Result<(), Error> {
    connect::folder::create(dir).map_err(Error::file("create state directory", dir))
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
    Ok(own.next().map(|(dir, _)| GroupState::to_read(dir)))
}

impl Found {
    fn add_damage(&mut self, path: &Path, epoch: u64, cause: String, bars: bool) {
        self.damage.push(Damage {
            path: path.to_owned(),
            epoch,
            cause,
            bars,
        });
    }
}

impl GroupState {
    /// To be read only.
    pub(crate) fn to_read(dir: PathBuf) -> GroupState {
        GroupState {
            dir,
            store_key: String::new(),
            run: 0,
            composed: Arc::default(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The number that names the rejected events of the group, noted when it is asked for first.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub(crate) fn number(&self) -> Result<u64, Error> {
        let root = self.dir.parent().unwrap_or(Path::new("."));
        let numbers = numbered_groups(root)?;
        let own = numbers.into_iter().find(|(_, dir)| *dir == self.dir);
        let number = own.map_or(0, |(number, _)| number);
        let path = self.dir.join(NUMBER);
        if group_number(&self.dir).is_none() {
            if path.exists() {
                tracing::error!(
                    file = %path.display(),
                    number,
                    "the number of a group of apps is damaged: its rejected events are listed under \
                     other numbers from now on"
                );
            }
            proof::write(&path, &format!("{number}\n"))?;
        }
        Ok(number)
    }

    /// Looks at the snapshots without judging which one fits the stores.
    pub fn find(&self) -> Result<Found, Error> {
        self.find_by(&mut |_, _| {})
    }

    /// The same; `watch` is told of each file before it is read.
    pub(crate) fn find_by(&self, watch: &mut Watch<'_>) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut heads = BTreeMap::new();
        let snapshots = self.snapshots()?;
        for (epoch, path) in &snapshots {
            watch(path, length_of(path));
            match file::check(path, *epoch) {
                Ok(head) => {
                    heads.insert(*epoch, head);
                }
                Err(Unusable::Damaged(cause)) => found.add_damage(path, *epoch, cause, false),
                Err(Unusable::Foreign(cause)) => found.add_damage(path, *epoch, cause, true),
                Err(Unusable::Closed(cause)) => return Err(Error::file("open", path)(cause)),
            }
        }
        for &epoch in heads.keys().rev() {
            match snapshot_log::of(epoch, |epoch| heads.get(&epoch).copied()) {
                Ok(_) => found.epochs.push(epoch),
                Err(cause) => found.add_damage(&self.snapshot_path(epoch), epoch, cause, false),
            }
        }
        match self.current() {
            Ok(current) => found.current = current,
            Err(Unreadable::Number(cause)) => {
                found.add_damage(&self.path(CURRENT), 0, cause.to_owned(), true);
            }
            Err(Unreadable::File(error)) => return Err(error),
        }
        let current = found.current.unwrap_or(0);
        if current > 0 && snapshots.iter().all(|(epoch, _)| *epoch != current) {
            let cause = "it is missing, and it was saved last".to_owned();
            found.add_damage(&self.snapshot_path(current), current, cause, false);
        }
        let newest = snapshots.first().map_or(0, |(epoch, _)| *epoch);
        found.highest = newest.max(current);
        Ok(found)
    }

    /// Number and payload of the epoch that is current, `None` before the first. The server that writes
    /// the directory may be running and remove files that were just there; so where something is
    /// missing and others have come meanwhile, the newest is looked for again.
    pub(crate) fn newest(&self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        for _ in 1..LOOKS_MAX {
            let before = self.snapshots()?;
            let looked = self.look();
            if matches!(looked, Ok(Some(_))) || self.snapshots()? == before {
                return looked;
            }
        }
        self.look()
    }

    fn look(&self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        // Its files are opened one right after the other, and an open one stays while it is read.
        if let Ok(Some(current)) = self.current()
            && current > 0
            && let Ok((_, bytes)) = self.read(current)
        {
            return Ok(Some((current, bytes)));
        }
        let found = self.find()?;
        if let Some(message) = found.refusal() {
            return Err(Error::State {
                path: self.path(""),
                message,
            });
        }
        let current = found.current.filter(|epoch| found.epochs.contains(epoch));
        let Some(epoch) = current.or(found.epochs.first().copied()) else {
            return Ok(None);
        };
        let (_, bytes) = self.read(epoch)?;
        Ok(Some((epoch, bytes)))
    }

    /// What is marked current.
    pub(crate) fn current(&self) -> Result<Option<u64>, Unreadable> {
        let text = match proof::read(&self.path(CURRENT)) {
            Ok(None) => return Ok(None),
            Ok(Some(Text::Proven(text) | Text::Unproven(text))) => text,
            Ok(Some(Text::Damaged)) => {
                return Err(Unreadable::Number(
                    "it does not contain an epoch number: it is damaged",
                ));
            }
            Err(error) => return Err(Unreadable::File(error)),
        };
        // A part of a number is another one, so that the end of its line is wanted too.
        let number = text.strip_suffix('\n').and_then(|line| {
            let is_number = line.bytes().all(|b| b.is_ascii_digit());
            line.parse().ok().filter(|_| is_number)
        });
        number
            .map(Some)
            .ok_or(Unreadable::Number("it does not contain an epoch number"))
    }

    /// Epoch and path of every snapshot that is in place, newest first.
    pub(crate) fn snapshots(&self) -> Result<Vec<(u64, PathBuf)>, Error> {
        let mut snapshots = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(Error::file("read", &self.dir))? {
            let path = entry.map_err(Error::file("read", &self.dir))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let epoch = name.strip_prefix("snapshot-").and_then(|e| e.parse().ok());
            snapshots.extend(epoch.map(|epoch| (epoch, path)));
        }
        snapshots.sort_unstable_by(|a, b| b.cmp(a));
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
    /// neither it nor the one before it needs are removed, and so are newer ones that were aborted.
    /// Epoch 0 is the empty beginning: nothing that was saved before is gone on from.
    ///
    /// Says how long what a restart would read is. After a failure it can be done again.
    pub(crate) fn mark_current(&self, epoch: u64) -> Result<Length, Error> {
        proof::write(&self.path(CURRENT), &format!("{epoch}\n"))?;
        let links = self.links(epoch);
        let needed = links
            .as_ref()
            .map_or(0, |links| self.oldest_needed(epoch, links));
        // A snapshot that was just made whole stands on the disk before what it replaces goes.
        sync_dir(&self.dir)?;
        for (old, path) in self.snapshots()? {
            if old < needed || old > epoch {
                fs::remove_file(&path).map_err(Error::file("remove", path))?;
            }
        }
        Ok(Length::of(&links.unwrap_or_default()))
    }

    pub(crate) fn snapshot_path(&self, epoch: u64) -> PathBuf {
        self.dir.join(format!("snapshot-{epoch}"))
    }
}

/// Name of an app in the name of a file.
pub(crate) fn safe_name(app: &str) -> String {
    group_name(&[app.to_owned()])
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
    let id = match read_id(root)? {
        Some((id, true)) => return Ok(id),
        Some((id, false)) => id,
        None => fresh_id(),
    };
    write_id(root, &id)?;
    Ok(id)
}

pub(crate) fn write_id(root: &Path, id: &str) -> Result<(), Error> {
    proof::write(&root.join(ID), &format!("{id}\n"))
}

/// The name of a directory, and whether it has a checksum; `None` where there is none yet.
pub(crate) fn read_id(root: &Path) -> Result<Option<(String, bool)>, Error> {
    let path = root.join(ID);
    match proof::read(&path)? {
        None => Ok(None),
        Some(Text::Proven(text)) => Ok(Some((text.trim_end().to_owned(), true))),
        // As versions before have written it.
        Some(Text::Unproven(text)) if is_id(text.trim_end()) => {
            Ok(Some((text.trim_end().to_owned(), false)))
        }
        // Another name would make stores forget what they have committed.
        Some(_) => Err(Error::State {
            path,
            message: "the file is damaged, and the stores need it to tell which rows they have \
                      committed: restore a copy; without one, delete it and start once with \
                      --drop-state: rows of the last interval may be written twice"
                .to_owned(),
        }),
    }
}

/// 0 of a file that cannot be looked at.
pub(crate) fn length_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn is_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

pub(crate) fn fresh_id() -> String {
    format!("{:016x}", noise())
}

/// Unlikely to occur twice: the clock, the process and the seeds of the standard hasher.
fn noise() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = crate::clock::wall_millis();
    RandomState::new().hash_one((now, std::process::id()))
}

#[cfg(test)]
mod tests;
