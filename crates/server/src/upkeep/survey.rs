//! What lies in a state directory or in a backup, told without changing it.
//!
//! It may be that of a running server. Nothing is proven here but what is read: `verify` reads all.

mod json;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use connect::registry::Registry;
use engine::SavedElement;

use super::backup::{Manifest, backups_of};
use super::contents::PositionText;
use crate::error::Error;
use crate::rejected::{self, LogContent, POSITION};
use crate::state::file::Head;
use crate::state::{Damage, Found, GroupState, Saved, apps_of, group_dirs, length_of, read_id};

/// Bytes of a saved state up to which it is read to tell what is in it.
pub const READ_MAX: u64 = 512 << 20;

/// What a directory has.
#[derive(Clone, Debug)]
pub struct Survey {
    pub root: PathBuf,
    /// Under which stores know it.
    pub id: Option<String>,
    /// Of a backup.
    pub manifest: Option<Manifest>,
    pub groups: Vec<GroupSurvey>,
    /// Its own backups; one whose list is damaged has none.
    pub backups: Vec<(String, Option<Manifest>)>,
}

/// Apps that are saved together.
#[derive(Clone, Debug)]
pub struct GroupSurvey {
    /// Of its directory.
    pub name: String,
    pub path: PathBuf,
    pub apps: Vec<String>,
    /// The newest epoch that every store has committed.
    pub current: Option<u64>,
    /// Newest first.
    pub snapshots: Vec<SnapshotSurvey>,
    pub rejected: LogContent,
    pub undelivered: LogContent,
    /// What the newest usable epoch holds; `None` where there is none, or it is longer than [`READ_MAX`].
    pub content: Option<Content>,
    pub damage: Vec<Damage>,
    /// Why a start would be refused.
    pub refusal: Option<String>,
}

/// A snapshot on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotSurvey {
    pub epoch: u64,
    /// It has the changes since that epoch; 0: it is whole.
    pub before: u64,
    pub bytes: u64,
    /// Milliseconds since 1970.
    pub saved_at: i64,
}

/// What an epoch holds.
#[derive(Clone, Debug)]
pub struct Content {
    pub epoch: u64,
    pub sources: Vec<SourceSurvey>,
    pub apps: Vec<AppContent>,
    /// Calls of file functions that wait for the epoch to be durable.
    pub pending_calls: usize,
}

/// How far a source has read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSurvey {
    pub app: String,
    /// `Stream[1]`.
    pub key: String,
    pub position: PositionText,
}

/// What is saved of an app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppContent {
    pub name: String,
    pub bytes: u64,
    /// Those that keep something.
    pub elements: Vec<SavedElement>,
}

pub(super) fn nothing_here(root: &Path) -> Error {
    Error::State {
        path: root.to_owned(),
        message:
            "no state is saved here: name the directory that a server was given with --state, or \
                  a backup of one"
                .to_owned(),
    }
}

/// Looks at a directory.
///
/// # Errors
/// There is no state, or a file cannot be opened.
pub fn survey(root: &Path, registry: &Registry) -> Result<Survey, Error> {
    if !root.is_dir() {
        return Err(nothing_here(root));
    }
    let groups = group_dirs(root)?;
    if groups.is_empty() {
        return Err(nothing_here(root));
    }
    Ok(Survey {
        root: root.to_owned(),
        id: read_id(root).ok().flatten().map(|(id, _)| id),
        manifest: Manifest::read(root).ok().flatten(),
        groups: groups
            .iter()
            .map(|dir| group(dir, registry))
            .collect::<Result<_, _>>()?,
        backups: backups_of(root)?,
    })
}

fn group(dir: &Path, registry: &Registry) -> Result<GroupSurvey, Error> {
    let group = GroupState::to_read(dir.to_owned());
    let found = group.find()?;
    let [rejected, undelivered] = rejected::content_of(dir)?;
    Ok(GroupSurvey {
        name: dir.file_name().unwrap_or_default().to_string_lossy().into(),
        path: dir.to_owned(),
        // `verify` says what is wrong with a list that cannot be read.
        apps: apps_of(dir).unwrap_or_default(),
        current: found.current.filter(|epoch| *epoch > 0),
        snapshots: snapshots(&group)?,
        rejected,
        undelivered,
        content: content(&group, &found, registry)?,
        refusal: found.refusal(),
        damage: found.damage,
    })
}

fn snapshots(group: &GroupState) -> Result<Vec<SnapshotSurvey>, Error> {
    let mut all = Vec::new();
    for (epoch, path) in group.snapshots()? {
        let saved_at = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let saved_at = saved_at
            .ok()
            .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        all.push(SnapshotSurvey {
            epoch,
            // One that cannot be read is among the damage.
            before: Head::of(&path, epoch).map_or(0, |head| head.before),
            bytes: length_of(&path),
            saved_at: saved_at.map_or(0, |age| age.as_millis() as i64),
        });
    }
    Ok(all)
}

/// What the current epoch holds, or the newest that can be read.
fn content(
    group: &GroupState,
    found: &Found,
    registry: &Registry,
) -> Result<Option<Content>, Error> {
    let current = found.current.filter(|epoch| found.epochs.contains(epoch));
    let Some(epoch) = current.or(found.epochs.first().copied()) else {
        return Ok(None);
    };
    let links = group.links(epoch).unwrap_or_default();
    let bytes: u64 = links.iter().map(|(_, head)| head.len).sum();
    if bytes > READ_MAX {
        return Ok(None);
    }
    // A server may have replaced it meanwhile.
    let Some((epoch, bytes)) = group.newest()? else {
        return Ok(None);
    };
    let unreadable = |message: String| Error::State {
        path: group.path(""),
        message,
    };
    let saved = Saved::read(bytes).map_err(|e| unreadable(crate::report::chain(&e)))?;
    let mut apps = Vec::new();
    for (name, bytes) in saved.apps() {
        let mut elements =
            engine::saved_elements(bytes).map_err(|e| unreadable(crate::report::chain(&e)))?;
        elements.retain(|element| !element.parts.is_empty());
        apps.push(AppContent {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
            elements,
        });
    }
    let positions = saved.positions.iter();
    let sources = positions.filter(|(_, key, _)| key != POSITION);
    let sources = sources.map(|(app, key, position)| SourceSurvey {
        app: app.clone(),
        key: key.clone(),
        position: PositionText::of(position.as_ref(), None, registry),
    });
    Ok(Some(Content {
        epoch,
        sources: sources.collect(),
        pending_calls: saved.effects.len(),
        apps,
    }))
}
