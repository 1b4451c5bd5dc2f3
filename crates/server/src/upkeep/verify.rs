//! Reads every byte of a state directory or of a backup, and says what is damaged.
//!
//! Promises: it changes nothing and takes no lock, so the directory may be that of a running server;
//! whatever would make a start lose something or refuse is found, with what to do. Never: a judgement
//! on databases, which know best what they have committed (`recovery`).

use std::io;
use std::path::{Path, PathBuf};

use connect::registry::Registry;
use event::codec::Writer;

use super::backup::Manifest;
use crate::error::Error;
use crate::rejected::{self, Missing, Why};
use crate::report::chain;
use crate::state::{
    Found, GroupState, ID, LOOKS_MAX, Watch, apps_of, group_dirs, length_of, read_id, refuse_half,
    saved,
};

/// What is wrong with a file, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    pub path: PathBuf,
    pub cause: String,
    pub help: String,
}

/// A group whose files were read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedGroup {
    /// Of its directory.
    pub name: String,
    pub apps: Vec<String>,
    /// Marked as the newest that every store has committed.
    pub current: Option<u64>,
    /// Epochs that a start can continue from, newest first.
    pub epochs: Vec<u64>,
    /// A start would be refused.
    pub is_refused: bool,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Of a backup.
    pub manifest: Option<Manifest>,
    pub files: u64,
    pub bytes: u64,
    pub groups: Vec<VerifiedGroup>,
    pub damage: Vec<Problem>,
}

impl Verified {
    /// The damage as one text, a line for each file with its remedy.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        for problem in &self.damage {
            text += &format!(
                "\n   --> {}: {}\n    = help: {}",
                problem.path.display(),
                problem.cause,
                problem.help
            );
        }
        text
    }
}

/// Reads all of it. `watch` is told of each file before it is read.
///
/// # Errors
/// There is no state, or a file cannot be opened. Damage is no error.
pub fn verify(root: &Path, registry: &Registry, watch: &mut Watch<'_>) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let mut watch = |path: &Path, bytes: u64| {
        verified.files += 1;
        verified.bytes += bytes;
        watch(path, bytes);
    };
    let mut damage = Vec::new();
    let manifest = Manifest::read(root).unwrap_or_else(|error| {
        damage.push(of_error(&root.join(super::backup::MANIFEST), &said(&error)));
        None
    });
    if let Some(manifest) = &manifest {
        damage.extend(manifest.changed_files(root, &mut watch)?);
    }
    let dirs = group_dirs(root)?;
    if dirs.is_empty() && damage.is_empty() {
        return Err(super::survey::nothing_here(root));
    }
    if let Err(error) = refuse_half(root) {
        damage.push(of_error(root, &said(&error)));
    }
    if let Err(error) = read_id(root) {
        damage.push(of_error(&root.join(ID), &said(&error)));
    }
    let mut groups = Vec::new();
    for dir in dirs {
        groups.push(group(&dir, registry, &mut watch, &mut damage)?);
    }
    // What the list of a backup has said of a file is not said again.
    let mut seen: Vec<PathBuf> = Vec::new();
    damage.retain(|problem| {
        let is_new = !seen.contains(&problem.path);
        seen.push(problem.path.clone());
        is_new
    });
    Ok(Verified {
        manifest,
        groups,
        damage,
        ..verified
    })
}

fn group(
    dir: &Path,
    registry: &Registry,
    watch: &mut Watch<'_>,
    damage: &mut Vec<Problem>,
) -> Result<VerifiedGroup, Error> {
    let group = GroupState::to_read(dir.to_owned());
    let apps = apps_of(dir).unwrap_or_else(|error| {
        damage.push(of_error(&dir.join("apps"), &said(&error)));
        Vec::new()
    });
    let found = steady(&group, watch)?;
    let refusal = found.refusal();
    for bad in &found.damage {
        damage.push(Problem {
            path: bad.path.clone(),
            cause: bad.cause.clone(),
            help: snapshot_help(&found, refusal.is_some(), bad.epoch),
        });
    }
    if let Some(&newest) = found.epochs.first()
        && let Err(error) = read_through(&group, newest)
    {
        damage.push(of_error(&group.snapshot_path(newest), &said(&error)));
    }
    for name in rejected::FILES {
        let path = dir.join(name);
        if path.exists() {
            watch(&path, length_of(&path));
        }
    }
    for log in rejected::content_of(dir)? {
        let is_damage = |missing: &&Missing| missing.why == Why::Damaged;
        damage.extend(log.missing.iter().filter(is_damage).map(of_log));
    }
    for functions in registry.effects {
        match functions.verify_journal(dir) {
            Ok(None) => {}
            Ok(Some((path, _))) => watch(&path, length_of(&path)),
            Err(error) => {
                damage.push(of_error(&dir.join("effects.journal"), &chain(&error)));
            }
        }
    }
    Ok(VerifiedGroup {
        name: dir.file_name().unwrap_or_default().to_string_lossy().into(),
        apps,
        current: found.current,
        epochs: found.epochs,
        is_refused: refusal.is_some(),
    })
}

/// What a group has, also where a server replaces its files meanwhile: what looks damaged is looked at
/// again where others have come.
fn steady(group: &GroupState, watch: &mut Watch<'_>) -> Result<Found, Error> {
    let mut before = group.snapshots()?;
    let mut found = group.find_by(watch)?;
    for _ in 1..LOOKS_MAX {
        let now = group.snapshots()?;
        if found.damage.is_empty() || now == before {
            break;
        }
        before = now;
        found = group.find()?;
    }
    Ok(found)
}

/// Puts the files of an epoch together as a start does, and keeps nothing.
fn read_through(group: &GroupState, epoch: u64) -> Result<(), Error> {
    let mut layers = match group.layers(epoch) {
        Ok(layers) => layers,
        // A server has made others current meanwhile.
        Err(_) if !group.snapshot_path(epoch).exists() => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut writer = Writer::streaming(Box::new(io::sink()));
    saved::compose(&mut layers, &mut writer).map_err(|cause| Error::State {
        path: group.snapshot_path(epoch),
        message: format!("its bytes are as written, and are not a state: {cause}"),
    })
}

fn snapshot_help(found: &Found, is_refused: bool, epoch: u64) -> String {
    let newest = found.epochs.first().copied().unwrap_or(0);
    if is_refused {
        return "a start is refused: restore a backup (headwater state restore), or start empty \
                with --drop-state"
            .to_owned();
    }
    match epoch {
        0 => format!(
            "the next start finds out what is current (epoch {newest} is the newest) and writes it \
             again"
        ),
        _ if epoch < newest => "nothing is lost: a newer one is sound".to_owned(),
        _ => format!(
            "a start continues from epoch {newest}, or is refused if a database has committed a \
             later one: restore a backup, or a copy of this file, to lose nothing"
        ),
    }
}

fn of_log(missing: &Missing) -> Problem {
    let least = if missing.is_exact { "" } else { "at least " };
    Problem {
        path: missing.log.clone(),
        cause: format!(
            "{} bytes have changed or are missing: {least}{} rejected events cannot be read",
            missing.bytes, missing.events
        ),
        help: "the next start sets them aside and keeps all others; restore a copy of the file \
               while the server is stopped to have them back"
            .to_owned(),
    }
}

/// What an error of this crate says, without the path that stands beside it anyway.
fn said(error: &Error) -> String {
    match error {
        Error::State { message, .. } => message.clone(),
        error => chain(error),
    }
}

/// From a text with its cause and, behind it, what to do.
fn of_error(path: &Path, text: &str) -> Problem {
    let at = ["restore a copy", "Restore a copy"];
    let help = at.iter().filter_map(|words| text.find(words)).min();
    let (cause, help) = match help {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, "restore a backup (headwater state restore)"),
    };
    Problem {
        path: path.to_owned(),
        cause: cause.trim_end_matches([' ', ':', ';', '.']).to_owned(),
        help: help.to_owned(),
    }
}
