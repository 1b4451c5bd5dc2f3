//! Puts a backup into a state directory.
//!
//! All of it is copied beside what is there, and compared with the list of the backup, before anything
//! moves; then what was there is put aside and the copy takes its place, by renames. Between the first
//! and the last of these the file `restoring` says where it stands: a server does not start on such a
//! directory, and the same restore, done again, ends it.
//!
//! Never: a change of the backup, or of a directory that a server uses; removal of what was there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use connect::registry::Registry;

use super::backup::{Manifest, copy_state, remove_tree};
use super::verify::verify;
use crate::clock::{utc_text, wall_millis};
use crate::error::Error;
use crate::state::proof::{self, Text};
use crate::state::{
    ID, REPLACED, RESTORING, STAGE, USERS, Watch, create_dir, fresh_id, is_kept_below, lock,
    sync_dir, write_id,
};

/// How a backup is restored.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// What is there is put aside; otherwise that is refused.
    pub replaces: bool,
    /// The directory gets a name of its own: the one that the backup was made of goes on as well.
    pub has_new_id: bool,
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// As in the backup; of a plain copy of a directory, when it was restored.
    pub manifest: Manifest,
    /// Where what was there is now.
    pub replaced: Option<PathBuf>,
    /// The directory has users who may log in. A backup brings none along.
    pub has_users: bool,
}

/// Restores a backup, or a copy of a state directory made while no server used it.
///
/// # Errors
/// The backup is damaged; a server uses the directory; it has state and that may not be replaced; a file
/// cannot be written. Until renames begin nothing has changed.
pub fn restore(
    backup: &Path,
    root: &Path,
    options: RestoreOptions,
    registry: &Registry,
    watch: &mut Watch<'_>,
) -> Result<Restored, Error> {
    let verified = verify(backup, registry, watch)?;
    if !verified.damage.is_empty() {
        return Err(Error::State {
            path: backup.to_owned(),
            message: format!(
                "it is damaged, and nothing was restored{}",
                verified.in_words()
            ),
        });
    }
    create_dir(root)?;
    let _lock = lock(root)?;
    let half = Half::read(root)?;
    let entries = state_entries(root)?;
    if !entries.is_empty() && half.is_none() && !options.replaces {
        return Err(Error::State {
            path: root.to_owned(),
            message: "it has state: restore into an empty directory, or put that state aside with \
                      --replace"
                .to_owned(),
        });
    }
    let stage = root.join(STAGE);
    remove_tree(&stage)?;
    create_dir(&stage)?;
    let copied = stage_copy(backup, &stage, options, verified.manifest, watch);
    let manifest = match copied {
        Ok(manifest) => manifest,
        Err(error) => {
            // The first error says what went wrong.
            fs::remove_dir_all(&stage).ok();
            return Err(error);
        }
    };
    let replaced = put_in_place(root, &stage, half, !entries.is_empty())?;
    Ok(Restored {
        manifest,
        replaced,
        has_users: root.join(USERS).exists(),
    })
}

/// Copies the backup, compares it with its list, and gives it its name.
fn stage_copy(
    backup: &Path,
    stage: &Path,
    options: RestoreOptions,
    listed: Option<Manifest>,
    watch: &mut Watch<'_>,
) -> Result<Manifest, Error> {
    let copied = copy_state(backup, stage, None, watch)?;
    if let Some(listed) = &listed
        && let Some(problem) = listed.changed_files(stage, &mut |_, _| {})?.first()
    {
        return Err(Error::State {
            path: problem.path.clone(),
            message: format!("{} while it was restored", problem.cause),
        });
    }
    if options.has_new_id {
        write_id(stage, &fresh_id())?;
        sync_dir(stage)?;
    }
    Ok(listed.unwrap_or(copied))
}

/// Where a restore stands that has begun to rename.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Half {
    /// Where what was there goes; empty where nothing was.
    aside: String,
    /// All of that has gone there.
    is_aside: bool,
}

impl Half {
    fn read(root: &Path) -> Result<Option<Half>, Error> {
        let text = match proof::read(&root.join(RESTORING))? {
            None => return Ok(None),
            Some(Text::Proven(text)) => text,
            Some(_) => {
                return Err(Error::State {
                    path: root.join(RESTORING),
                    message: format!(
                        "the file is damaged: a restore was interrupted here. What was there before is \
                         in '{REPLACED}…' or still in its place: move all of it to another directory \
                         and restore again"
                    ),
                });
            }
        };
        let mut lines = text.lines();
        Ok(Some(Half {
            aside: lines.next().unwrap_or_default().to_owned(),
            is_aside: lines.next() == Some("aside"),
        }))
    }

    fn write(&self, root: &Path) -> Result<(), Error> {
        let stands = if self.is_aside { "aside" } else { "begun" };
        proof::write(
            &root.join(RESTORING),
            &format!("{}\n{stands}\n", self.aside),
        )
    }
}

/// Renames; what a restore before has left half done is finished first.
fn put_in_place(
    root: &Path,
    stage: &Path,
    half: Option<Half>,
    is_there: bool,
) -> Result<Option<PathBuf>, Error> {
    let mut half = half.unwrap_or_else(|| Half {
        aside: match is_there {
            true => free_name(root),
            false => String::new(),
        },
        is_aside: !is_there,
    });
    half.write(root)?;
    let aside = (!half.aside.is_empty()).then(|| root.join(&half.aside));
    if !half.is_aside {
        let aside = aside.as_deref().unwrap_or(root);
        create_dir(aside)?;
        for entry in state_entries(root)? {
            move_into(&entry, aside)?;
        }
        sync_dir(aside)?;
        sync_dir(root)?;
        half.is_aside = true;
        half.write(root)?;
    }
    // What a restore before has put in place, which was interrupted, comes from a backup.
    for entry in state_entries(root)? {
        match entry.is_dir() {
            true => remove_tree(&entry)?,
            false => fs::remove_file(&entry).map_err(Error::file("remove", &entry))?,
        }
    }
    for entry in fs::read_dir(stage).map_err(Error::file("read", stage))? {
        let entry = entry.map_err(Error::file("read", stage))?;
        move_into(&entry.path(), root)?;
    }
    sync_dir(root)?;
    let marker = root.join(RESTORING);
    fs::remove_file(&marker).map_err(Error::file("remove", &marker))?;
    remove_tree(stage)?;
    sync_dir(root)?;
    Ok(aside)
}

fn move_into(entry: &Path, dir: &Path) -> Result<(), Error> {
    let to = dir.join(entry.file_name().unwrap_or_default());
    fs::rename(entry, &to).map_err(Error::file("rename", entry))
}

/// A name that nothing has, made from the time.
fn free_name(root: &Path) -> String {
    let time = utc_text(wall_millis()).replace(':', "");
    let name = format!("{REPLACED}{time}");
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    let free = names.find(|name| !root.join(name).exists());
    free.unwrap_or(name)
}

/// What of a directory is saved state: its name, and the groups.
fn state_entries(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(root) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(Error::file("read", root))?,
    };
    for entry in entries {
        let path = entry.map_err(Error::file("read", root))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_group = !is_kept_below(&name)
            && ["apps", "current"]
                .iter()
                .any(|file| path.join(file).is_file());
        if name == ID || is_group {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
