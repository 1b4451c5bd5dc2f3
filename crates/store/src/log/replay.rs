//! The log read from its first file to its end.
//!
//! Never: a decision on behalf of the operator. The end of a write that a crash has cut is left out and
//! said; any other damage is an error that names the file and the rows.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use event::record::{Damage, End, Found, Records};

use super::{place, segment_path};
use crate::change::{Change, Frame, Head, Unreadable};
use crate::error::Error;
use crate::paths::sync_dir;

/// What a log says from end to end.
pub(crate) struct Replayed {
    /// Numbers of the files there are.
    pub segments: Vec<u64>,
    /// What the next file begins with.
    pub head: Head,
    pub cut: Option<Cut>,
    /// Up to where it was read.
    pub tail: Option<Tail>,
}

/// The end of what was read of a log: whoever reads on begins there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    segment: u64,
    /// Place of the next record, and its number.
    at: u64,
    number: Option<u32>,
}

impl Tail {
    /// Does the last file of the folder end here, as it was listed?
    pub fn is_of(&self, last: &OsStr) -> bool {
        segment_path(Path::new(""), self.segment).as_os_str() == last
    }
}

/// The end of a write that was on its way.
pub(crate) struct Cut {
    path: PathBuf,
    /// Bytes that are whole; a file without any goes.
    keep: u64,
    bytes: u64,
}

impl Cut {
    /// Removes it from the file.
    pub fn carry_out(&self) -> Result<(), Error> {
        let file = self.path.display().to_string();
        if self.keep == 0 {
            fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))?;
            let dir = self.path.parent().unwrap_or(Path::new("."));
            sync_dir(dir)?;
        } else {
            let opened = File::options().write(true).open(&self.path);
            let cut = opened.and_then(|file| {
                file.set_len(self.keep)?;
                file.sync_all()
            });
            cut.map_err(Error::file("cut", &self.path))?;
        }
        tracing::warn!(
            file,
            bytes = self.bytes,
            "the last write to the log of the event store was cut off by a crash and nobody was told \
             that it is there; removed it"
        );
        Ok(())
    }
}

/// The number of the first file in the folder.
pub(crate) fn oldest(dir: &Path) -> Result<Option<u64>, Error> {
    Ok(numbers(dir)?.first().copied())
}

/// Numbers of the files in the folder, in order.
fn segments(dir: &Path) -> Result<Vec<u64>, Error> {
    let found = numbers(dir)?;
    if let Some(gap) = found.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        let missing = segment_path(dir, gap[0] + 1);
        let message = "this file of the log is missing between others";
        return Err(Error::damaged(&missing, message));
    }
    Ok(found)
}

fn numbers(dir: &Path) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let name = entry.map_err(Error::file("read", dir))?.file_name();
        let name = name.to_string_lossy();
        found.extend(
            name.strip_suffix(".log")
                .and_then(|n| n.parse::<u64>().ok()),
        );
    }
    found.sort_unstable();
    Ok(found)
}

/// Numbers of the rows around what is read.
#[derive(Default)]
struct Around {
    /// The last row that came before.
    before: Option<u64>,
    damage: Option<(PathBuf, Damage)>,
}

/// Goes through the log of a store. `begin` is the head of one that has no file yet.
///
/// # Errors
/// A file cannot be read, or is damaged before its end; and what `each` returns.
pub(crate) fn replay(
    dir: &Path,
    begin: Head,
    mut each: impl FnMut(u64, Frame) -> Result<(), Error>,
) -> Result<Replayed, Error> {
    let mut segments = segments(dir)?;
    let mut replayed = Replayed {
        segments: Vec::new(),
        head: begin,
        cut: None,
        tail: None,
    };
    let mut around = Around::default();
    let last = segments.last().copied();
    for &segment in &segments {
        let is_last = Some(segment) == last;
        read_segment(dir, segment, is_last, &mut replayed, &mut around, &mut each)?;
    }
    if let Some((path, damage)) = around.damage {
        return Err(damaged(&path, &damage, around.before, None));
    }
    if replayed.cut.as_ref().is_some_and(|cut| cut.keep == 0) {
        segments.pop();
    }
    replayed.segments = segments;
    Ok(replayed)
}

fn read_segment(
    dir: &Path,
    segment: u64,
    is_last: bool,
    replayed: &mut Replayed,
    around: &mut Around,
    each: &mut impl FnMut(u64, Frame) -> Result<(), Error>,
) -> Result<(), Error> {
    let path = segment_path(dir, segment);
    let read = |cause: io::Error| Error::file("read", &path)(cause);
    let file = File::open(&path).map_err(read)?;
    let begin = place(segment, 0);
    let mut records = Records::new(file, begin, None);
    records.expect(Some(0));
    let mut is_first = true;
    while let Some(found) = records.next().map_err(read)? {
        let (at, record) = match found {
            Found::Damage(damage) if is_last && damage.end == Some(End::Torn) => {
                replayed.cut = Some(Cut {
                    path: path.clone(),
                    keep: damage.at - begin,
                    bytes: damage.bytes,
                });
                return Ok(());
            }
            Found::Damage(damage) => {
                let damage = Damage {
                    at: damage.at - begin,
                    ..damage
                };
                around.damage.get_or_insert((path.clone(), damage));
                continue;
            }
            Found::Record { at, record, .. } => (at, record),
        };
        let frame = Frame::read(record).map_err(|cause| unreadable(&path, at - begin, &cause))?;
        match &frame {
            Frame::Head(head) if is_first => {
                let is_of_other =
                    !replayed.head.store.is_empty() && replayed.head.store != head.store;
                if is_of_other {
                    return Err(Error::foreign(
                        &path,
                        "this file is of the log of another store",
                    ));
                }
                let before = std::mem::replace(&mut replayed.head, head.clone());
                replayed.head.sequence = replayed.head.sequence.max(before.sequence);
                replayed.head.row = replayed.head.row.max(before.row);
            }
            Frame::Changes {
                changes,
                transaction,
                ..
            } => note_rows(changes, *transaction, replayed, around)?,
            Frame::Commit(commit) => {
                let head = &mut replayed.head;
                head.sequence = head.sequence.max(commit.sequence + 1);
                head.note(&commit.epochs);
            }
            Frame::Head(_) | Frame::Abort { .. } => {}
        }
        is_first = false;
        if around.damage.is_none() {
            each(at, frame)?;
        }
        replayed.tail = Some(Tail {
            segment,
            at: records.position(),
            number: records.next_number(),
        });
    }
    if is_first && around.damage.is_none() {
        // An empty file: a crash came before its first record.
        let cut = Cut {
            path: path.clone(),
            keep: 0,
            bytes: 0,
        };
        if !is_last {
            return Err(Error::damaged(
                &path,
                "this file of the log is empty, and others follow",
            ));
        }
        replayed.cut = Some(cut);
    }
    Ok(())
}

/// Goes on where a log was read to, in the same file; where that ends now. `None`: it has to be read from its beginning,
/// which says why.
///
/// # Errors
/// What `each` returns.
pub(crate) fn read_on(
    dir: &Path,
    tail: &Tail,
    mut each: impl FnMut(u64, Frame) -> Result<(), Error>,
) -> Result<Option<Tail>, Error> {
    let mut tail = *tail;
    let offset = tail.at - place(tail.segment, 0);
    let file = File::open(segment_path(dir, tail.segment)).and_then(|mut file| {
        file.seek(SeekFrom::Start(offset))?;
        Ok(file)
    });
    let Ok(file) = file else { return Ok(None) };
    let mut records = Records::new(file, tail.at, None);
    records.expect(tail.number);
    loop {
        let (at, frame) = match records.next() {
            Ok(None) => return Ok(Some(tail)),
            Ok(Some(Found::Damage(damage))) if damage.end == Some(End::Torn) => {
                return Ok(Some(tail));
            }
            Ok(Some(Found::Record { at, record, .. })) => (at, Frame::read(record)),
            Ok(Some(Found::Damage(_))) | Err(_) => return Ok(None),
        };
        let Ok(frame) = frame else { return Ok(None) };
        each(at, frame)?;
        tail.at = records.position();
        tail.number = records.next_number();
    }
}

/// Follows the numbers of rows, which tell what damage has cost.
fn note_rows(
    changes: &[Change],
    transaction: u64,
    replayed: &mut Replayed,
    around: &mut Around,
) -> Result<(), Error> {
    let ids = || changes.iter().flat_map(|change| &change.ids);
    if let (Some((path, damage)), Some(after)) = (&around.damage, ids().min()) {
        return Err(damaged(path, damage, around.before, Some(*after)));
    }
    around.before = ids().max().copied().or(around.before);
    let head = &mut replayed.head;
    head.sequence = head.sequence.max(transaction + 1);
    head.row = head.row.max(around.before.map_or(0, |id| id + 1));
    Ok(())
}

fn unreadable(path: &Path, at: u64, cause: &Unreadable) -> Error {
    match cause {
        Unreadable::Version(version) => Error::foreign(
            path,
            format!(
                "the log has version {version}, and this build reads version {}: use the build that wrote it",
                crate::change::VERSION
            ),
        ),
        Unreadable::Codec(cause) => Error::damaged(
            path,
            format!("the record at byte {at} cannot be read: {cause}"),
        ),
    }
}

fn damaged(path: &Path, damage: &Damage, before: Option<u64>, after: Option<u64>) -> Error {
    let rows = match (before, after) {
        (Some(before), Some(after)) if after > before => {
            format!("rows with an _id between {before} and {after}")
        }
        (Some(before), _) => format!("rows with an _id above {before}"),
        (None, Some(after)) => format!("rows with an _id below {after}"),
        (None, None) => "rows that cannot be told".to_owned(),
    };
    let records = damage
        .records
        .map_or(String::new(), |count| format!(", {count} records"));
    Error::damaged(
        path,
        format!(
            "{} bytes at byte {} have changed since they were written{records}; they hold {rows}. Nothing \
             was changed. Restore this file from a copy; or move the whole folder 'log' aside to go on with \
             what the tables' files hold, without the rows that lie in the log alone",
            damage.bytes, damage.at
        ),
    )
}
