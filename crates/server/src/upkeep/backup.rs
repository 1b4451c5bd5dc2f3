//! Copies a state directory, also one that a server is writing.
//!
//! ```text
//! BACKUP/id, BACKUP/GROUP/…   what a state directory holds, as one moment left it
//! BACKUP/backup               the list of these files: length, CRC-32, path
//! ```
//!
//! Promises: a backup is there whole or not at all (another name until all of it is synced); its files
//! are copies, so that damage to the one is none to the other; each group is as a crash would have left
//! it, so that a start treats it as such; what was copied is read again and compared. Never: a lock on
//! what is copied, or a wait of the server that writes it.
//!
//! A server replaces the files of a group when it makes the next epoch current. So what may go is opened
//! first, all of a group at once; if another epoch has become current meanwhile, it is done again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use connect::registry::Registry;

use super::verify::{Problem, verify};
use crate::clock::wall_millis;
use crate::error::Error;
use crate::rejected;
use crate::state::proof::{self, Text};
use crate::state::{
    BACKUPS, CURRENT, GroupState, ID, LOOKS_MAX, Watch, create_dir, group_dirs, private, read_id,
    sync_dir,
};

/// Backups below a state directory, with the revisions of apps.
pub const BACKUPS_MAX: usize = 100;

/// The list of files.
pub(super) const MANIFEST: &str = "backup";

/// Its first line.
const FORM: &str = "headwater backup 1";

/// Ends the name of a backup that is being made.
const UNFINISHED: &str = ".unfinished";

/// Bytes of a file that is read at once to be the same twice.
const SMALL_MAX: u64 = 256 << 20;

/// Bytes copied at once.
const BLOCK: usize = 256 << 10;

/// Characters of the name of a backup.
const NAME_MAX: usize = 128;

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Listed {
    path: PathBuf,
    len: u64,
    crc: u32,
}

/// What a backup says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// Milliseconds since 1970.
    pub taken: i64,
    /// Of the Headwater that made it.
    pub version: String,
    /// Directory and current epoch of each group; 0 before the first.
    pub groups: Vec<(String, u64)>,
    files: Vec<Listed>,
}

impl Manifest {
    /// `None`: it is no backup.
    ///
    /// # Errors
    /// The list is damaged, or of another version.
    pub fn read(root: &Path) -> Result<Option<Manifest>, Error> {
        let path = root.join(MANIFEST);
        let text = match proof::read(&path)? {
            None => return Ok(None),
            Some(Text::Proven(text)) => text,
            Some(_) => return Err(damaged_list(path)),
        };
        match text.lines().next() {
            Some(FORM) => {}
            Some(other) if other.starts_with("headwater backup ") => {
                return Err(Error::State {
                    message: format!("'{other}' is of another version; this build reads '{FORM}'"),
                    path,
                });
            }
            _ => return Err(damaged_list(path)),
        }
        let manifest = Manifest::of_lines(text.lines().skip(1));
        manifest.map(Some).ok_or_else(|| damaged_list(path))
    }

    fn of_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Manifest> {
        let mut manifest = Manifest::default();
        for line in lines {
            let (what, rest) = line.split_once(' ')?;
            match what {
                "time" => manifest.taken = rest.parse().ok()?,
                "version" => rest.clone_into(&mut manifest.version),
                "group" => {
                    let (epoch, name) = rest.split_once(' ')?;
                    manifest.groups.push((name.to_owned(), epoch.parse().ok()?));
                }
                "file" => {
                    let (crc, rest) = rest.split_once(' ')?;
                    let (len, path) = rest.split_once(' ')?;
                    let path = PathBuf::from(path);
                    // It leads nowhere else.
                    let is_plain = |part| matches!(part, Component::Normal(_));
                    path.components().all(is_plain).then_some(())?;
                    manifest.files.push(Listed {
                        path,
                        len: len.parse().ok()?,
                        crc: u32::from_str_radix(crc, 16).ok()?,
                    });
                }
                _ => return None,
            }
        }
        Some(manifest)
    }

    fn write(&self, root: &Path) -> Result<(), Error> {
        let mut text = format!("{FORM}\ntime {}\nversion {}\n", self.taken, self.version);
        for (name, epoch) in &self.groups {
            text += &format!("group {epoch} {name}\n");
        }
        for file in &self.files {
            let path = file.path.display();
            text += &format!("file {:08x} {} {path}\n", file.crc, file.len);
        }
        proof::write(&root.join(MANIFEST), &text)
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Files that are not as they were copied.
    pub(super) fn changed_files(
        &self,
        root: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Problem>, Error> {
        let mut problems = Vec::new();
        for listed in &self.files {
            let path = root.join(&listed.path);
            watch(&path, listed.len);
            let cause = match File::open(&path) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                    Some("it is missing".to_owned())
                }
                Err(cause) => return Err(Error::file("open", path)(cause)),
                Ok(mut file) => match copy(&mut file, &mut io::sink()) {
                    Err(cause) => Some(format!("it cannot be read: {cause}")),
                    Ok(found) if found == (listed.len, listed.crc) => None,
                    Ok((len, _)) if len != listed.len => Some(format!(
                        "it has {len} bytes and had {} when the backup was made",
                        listed.len
                    )),
                    Ok(_) => Some("bytes have changed since the backup was made".to_owned()),
                },
            };
            problems.extend(cause.map(|cause| Problem {
                path,
                cause,
                help: "use another backup, or another copy of this one".to_owned(),
            }));
        }
        Ok(problems)
    }
}

fn damaged_list(path: PathBuf) -> Error {
    Error::State {
        message: format!(
            "'{}' is damaged: it lists the files of this backup. Restore a copy of it, or use another \
             backup",
            path.display()
        ),
        path,
    }
}

/// What was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    pub path: PathBuf,
    pub manifest: Manifest,
}

/// Copies a state directory to a place where nothing is yet. `group`: only that directory of it.
///
/// # Errors
/// There is no state; something is at that place; a file cannot be read or written; what was copied is
/// damaged. Then there is no backup.
pub fn back_up(
    from: &Path,
    to: &Path,
    group: Option<&str>,
    registry: &Registry,
    watch: &mut Watch<'_>,
) -> Result<Backup, Error> {
    if to.exists() {
        return Err(Error::State {
            path: to.to_owned(),
            message: "it exists already: a backup is made in a directory of its own; name another"
                .to_owned(),
        });
    }
    let stage = stage_of(to);
    remove_tree(&stage)?;
    create_dir(&stage)?;
    let made = copy_state(from, &stage, group, watch).and_then(|manifest| {
        let verified = verify(&stage, registry, &mut |_, _| {})?;
        if !verified.damage.is_empty() {
            return Err(Error::State {
                path: from.to_owned(),
                message: format!(
                    "it is damaged, so that a backup of it would be of no use{}",
                    verified.in_words()
                ),
            });
        }
        manifest.write(&stage)?;
        fs::rename(&stage, to).map_err(Error::file("rename", &stage))?;
        let above = to.parent().filter(|above| !above.as_os_str().is_empty());
        sync_dir(above.unwrap_or(Path::new(".")))?;
        Ok(manifest)
    });
    if made.is_err() {
        // The first error says what went wrong.
        fs::remove_dir_all(&stage).ok();
    }
    made.map(|manifest| Backup {
        path: to.to_owned(),
        manifest,
    })
}

/// A name for a backup below a state directory: letters, digits, and a few signs that no shell minds.
///
/// # Errors
/// It is not one; the message says what is.
pub fn checked_name(name: &str) -> Result<&str, Error> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    let is_name = !name.is_empty()
        && name.len() <= NAME_MAX
        && name.chars().all(is_fine)
        && !name.starts_with(['.', '-'])
        && !name.ends_with(UNFINISHED);
    if is_name {
        return Ok(name);
    }
    Err(Error::Usage(format!(
        "'{name}' is no name for a backup: write letters, digits and - _ . + ({NAME_MAX} at most), with a \
         letter or digit first, such as before-upgrade"
    )))
}

/// Every backup below a state directory, by name. One that is damaged has no list.
///
/// # Errors
/// The directory cannot be read.
pub fn backups_of(root: &Path) -> Result<Vec<(String, Option<Manifest>)>, Error> {
    let dir = root.join(BACKUPS);
    let entries = match fs::read_dir(&dir) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::file("read", &dir))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::file("read", &dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && checked_name(&name).is_ok() {
            found.push((name, Manifest::read(&entry.path()).ok().flatten()));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn stage_of(to: &Path) -> PathBuf {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!("{name}{UNFINISHED}"))
}

/// What a copy that was interrupted has left.
pub(super) fn remove_tree(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::file("remove", dir)),
    }
}

/// Copies what a state directory holds into an empty directory, and syncs all of it.
pub(super) fn copy_state(
    from: &Path,
    into: &Path,
    group: Option<&str>,
    watch: &mut Watch<'_>,
) -> Result<Manifest, Error> {
    let mut manifest = Manifest {
        taken: wall_millis(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Manifest::default()
    };
    let is_wanted = |dir: &PathBuf| group.is_none_or(|g| dir.file_name().is_some_and(|d| d == g));
    let dirs: Vec<PathBuf> = group_dirs(from)?.into_iter().filter(is_wanted).collect();
    if dirs.is_empty() {
        return Err(super::survey::nothing_here(from));
    }
    if let Some((id, _)) = read_id(from)? {
        let whole = OpenFile::of_bytes(ID.into(), proof::sealed(&format!("{id}\n")));
        manifest.files.push(whole.copy_into(into, watch)?);
    }
    for dir in dirs {
        let name = dir.file_name().unwrap_or_default().to_owned();
        let target = into.join(&name);
        create_dir(&target)?;
        let (epoch, files) = open_group(&GroupState::to_read(dir))?;
        for file in files {
            let path = PathBuf::from(&name).join(&file.name);
            let listed = file.copy_into(&target, watch)?;
            manifest.files.push(Listed { path, ..listed });
        }
        sync_dir(&target)?;
        let name = name.to_string_lossy().into_owned();
        manifest.groups.push((name, epoch));
    }
    sync_dir(into)?;
    Ok(manifest)
}

/// A file that is copied: it can be read whatever becomes of its name.
struct OpenFile {
    name: PathBuf,
    from: Box<dyn Read>,
    /// No more is copied: what comes behind was written since.
    len: u64,
}

impl OpenFile {
    fn of_bytes(name: PathBuf, bytes: Vec<u8>) -> OpenFile {
        OpenFile {
            name,
            len: bytes.len() as u64,
            from: Box::new(io::Cursor::new(bytes)),
        }
    }

    fn copy_into(self, dir: &Path, watch: &mut Watch<'_>) -> Result<Listed, Error> {
        let target = dir.join(&self.name);
        watch(&target, self.len);
        let mut options = File::options();
        let file = private(options.write(true).create_new(true)).open(&target);
        let mut file = file.map_err(Error::file("create", &target))?;
        let copied = copy(&mut self.from.take(self.len), &mut file);
        let (len, crc) = copied.map_err(Error::file("write", &target))?;
        file.sync_all().map_err(Error::file("sync", &target))?;
        Ok(Listed {
            path: self.name,
            len,
            crc,
        })
    }
}

/// Bytes and their CRC-32.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<(u64, u32)> {
    let mut block = vec![0; BLOCK];
    let (mut len, mut crc) = (0, crc32fast::Hasher::new());
    loop {
        let count = match from.read(&mut block) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            return Ok((len, crc.finalize()));
        }
        to.write_all(&block[..count])?;
        crc.update(&block[..count]);
        len += count as u64;
    }
}

/// Every file of a group as one moment left them: which epoch is current, and the files.
fn open_group(group: &GroupState) -> Result<(u64, Vec<OpenFile>), Error> {
    let current = group.path(CURRENT);
    for _ in 0..LOOKS_MAX {
        let before = read_all(&current)?;
        let Some(mut files) = open_files(group)? else {
            continue;
        };
        // The journal of effects is cut when the next epoch is current, not before.
        if read_all(&current)? != before {
            continue;
        }
        let Some(bytes) = before else {
            return Ok((0, files));
        };
        // One that is damaged is copied as it is; whoever verifies the copy finds it.
        let text = String::from_utf8_lossy(&bytes);
        let epoch = text.lines().next().and_then(|line| line.parse().ok());
        let epoch = epoch.unwrap_or(0);
        files.push(OpenFile::of_bytes(CURRENT.into(), bytes));
        return Ok((epoch, files));
    }
    Err(Error::State {
        path: group.path(""),
        message: format!(
            "its files have changed {LOOKS_MAX} times while they were opened: try again, or stop the \
             server"
        ),
    })
}

/// `None`: one has gone meanwhile.
fn open_files(group: &GroupState) -> Result<Option<Vec<OpenFile>>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&group.dir).map_err(Error::file("read", &group.dir))? {
        let entry = entry.map_err(Error::file("read", &group.dir))?;
        let (path, name) = (entry.path(), entry.file_name());
        let text = name.to_string_lossy();
        let is_passing = text.ends_with(".tmp") || text.ends_with(".part");
        if text == CURRENT || is_passing || !path.is_file() {
            continue;
        }
        let is_log = rejected::FILES.iter().any(|log| text.starts_with(log));
        if !is_log && !text.starts_with("snapshot-") {
            let Some(bytes) = read_twice(&path)? else {
                return Ok(None);
            };
            files.push(OpenFile::of_bytes(name.into(), bytes));
            continue;
        }
        let file = match File::open(&path) {
            // The oldest file of a log is dropped when there are too many.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && is_log => continue,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(Error::file("open", &path))?,
        };
        let len = file.metadata().map_err(Error::file("open", &path))?.len();
        files.push(OpenFile {
            name: name.into(),
            from: Box::new(file),
            len,
        });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(files))
}

/// The bytes of a short file that a server may be writing: they were the same twice. `None` where they
/// were not, or it has gone.
fn read_twice(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let first = read_all(path)?;
    Ok(first.filter(|first| matches!(read_all(path), Ok(Some(again)) if again == *first)))
}

fn read_all(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let file = match File::open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Error::file("open", path))?,
    };
    let mut bytes = Vec::new();
    let read = file.take(SMALL_MAX + 1).read_to_end(&mut bytes);
    read.map_err(Error::file("read", path))?;
    if bytes.len() as u64 > SMALL_MAX {
        return Err(Error::State {
            path: path.to_owned(),
            message: format!("it is longer than {} MB", SMALL_MAX >> 20),
        });
    }
    Ok(Some(bytes))
}

#[cfg(test)]
pub(super) mod tests;
