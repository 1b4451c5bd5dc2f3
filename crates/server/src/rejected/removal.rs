//! Removes events from a log: those that were replayed or purged.
//!
//! Their records are written over by one of the same length that says so, and its room on the disk is
//! given back: places and numbers of all others stay what they were, and the log still proves itself.
//! What is going to be written over is noted first, in a file beside the log: after a crash in between
//! the next start finishes it, and nothing of it is taken for damage.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use event::codec::{Error as CodecError, Reader, Writer};
use event::record::{Found, Records, put};
use rustix::fs::{FallocateFlags, fallocate};

use super::log::pieces;
use super::record::View;
use super::segments::{LogReader, Piece, Segment, segments};
use super::summary::{GroupHash, hash_of};
use super::{REMOVED, SharedLog};
use crate::error::Error;
use crate::state::{sync_parent_of, write_whole};

/// Runs of events that are removed at once, and that wait in a snapshot.
pub(crate) const RUNS_MAX: usize = 64 << 10;

/// Bytes of the longest record that fills the place of others: so much is in memory when it is read.
const FILLING_MAX: u64 = 1 << 20;

/// Events that lie behind one another, in one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub at: u64,
    pub bytes: u64,
    pub number: u32,
    pub count: u32,
}

/// Events of one log, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Runs(Vec<Run>);

/// How many events of which group are gone from each file, by the place of its first byte.
pub(super) type Removed = HashMap<u64, HashMap<GroupHash, u64>>;

impl Runs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn events(&self) -> u64 {
        self.0.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Appends what lies behind what is here. What begins a file (`is_first`) begins a run.
    pub fn add(&mut self, run: Run, is_first: bool) {
        if let Some(last) = self.0.last_mut()
            && !is_first
            && last.at + last.bytes == run.at
            && last.number.wrapping_add(last.count) == run.number
        {
            last.bytes += run.bytes;
            last.count += run.count;
            return;
        }
        self.0.push(run);
    }

    pub fn has_number(&self, number: u32) -> bool {
        let behind = self.0.partition_point(|run| run.number <= number);
        let run = behind.checked_sub(1).map(|at| self.0[at]);
        run.is_some_and(|run| number - run.number < run.count)
    }

    /// Is all of this inside of a run?
    pub fn covers(&self, at: u64, bytes: u64) -> bool {
        let behind = self.0.partition_point(|run| run.at <= at);
        let run = behind.checked_sub(1).map(|at| self.0[at]);
        run.is_some_and(|run| at + bytes <= run.at + run.bytes)
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.count(self.0.len());
        for run in &self.0 {
            writer.u64(run.at);
            writer.u64(run.bytes);
            writer.u32(run.number);
            writer.u32(run.count);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Runs, CodecError> {
        let count = reader.count()?;
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(Run {
                at: reader.u64()?,
                bytes: reader.u64()?,
                number: reader.u32()?,
                count: reader.u32()?,
            });
        }
        Ok(Runs(runs))
    }

    /// Runs of a log, by the place of the first byte of their file; those whose file has gone are left
    /// out.
    fn by_segment<'a>(&'a self, all: &'a [Segment]) -> impl Iterator<Item = (&'a Segment, Run)> {
        self.0.iter().filter_map(|&run| {
            let segment = all.iter().rfind(|s| s.start <= run.at)?;
            (run.at + run.bytes <= segment.end()).then_some((segment, run))
        })
    }

    #[cfg(test)]
    pub fn of(runs: &[Run]) -> Runs {
        Runs(runs.to_vec())
    }
}

/// The file that says what is being written over.
fn note_path(log: &Path) -> PathBuf {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    log.with_file_name(format!("{name}.removing"))
}

/// What is being written over in a log; nothing where that is not known.
pub(super) fn noted(log: &Path) -> Runs {
    let Ok(bytes) = fs::read(note_path(log)) else {
        return Runs::default();
    };
    let mut records = Records::new(bytes.as_slice(), 0, None);
    match records.next() {
        Ok(Some(Found::Record { record, .. })) => {
            Runs::read(&mut Reader::new(record)).unwrap_or_default()
        }
        _ => Runs::default(),
    }
}

pub(super) fn note(log: &Path, runs: &Runs) -> Result<(), Error> {
    let mut writer = Writer::default();
    runs.write(&mut writer);
    let mut bytes = Vec::new();
    put(0, 0, &writer.bytes, &mut bytes);
    write_whole(&note_path(log), &[&bytes])
}

/// Finishes what a crash has interrupted. A note that was damaged meanwhile says nothing; what it would
/// have said is then found as damage of the log, and said.
pub(super) fn finish(log: &Path) -> Result<(), Error> {
    let path = note_path(log);
    if !path.exists() {
        return Ok(());
    }
    write_over(log, &noted(log))?;
    fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    sync_parent_of(&path).map_err(Error::file("sync", &path))
}

/// Removes what a snapshot says was replayed: a crash may have come before that was done.
pub(crate) fn redo(log: &Path, runs: &Runs) -> Result<(), Error> {
    note(log, runs)?;
    finish(log)
}

fn write_over(log: &Path, runs: &Runs) -> Result<(), Error> {
    let all = segments(log).map_err(Error::file("read", log))?;
    let mut open: Option<(&Segment, File)> = None;
    for (segment, run) in runs.by_segment(&all) {
        let is_open = open.as_ref().is_some_and(|(s, _)| s.start == segment.start);
        if !is_open {
            sync(open.take())?;
            let file = File::options().write(true).open(&segment.path);
            open = Some((segment, file.map_err(Error::file("open", &segment.path))?));
        }
        let Some((_, file)) = &open else { continue };
        over(file, segment.start, run).map_err(Error::file("write", &segment.path))?;
    }
    sync(open)
}

fn sync(file: Option<(&Segment, File)>) -> Result<(), Error> {
    match file {
        Some((segment, file)) => file.sync_all().map_err(Error::file("sync", &segment.path)),
        None => Ok(()),
    }
}

fn over(file: &File, start: u64, run: Run) -> io::Result<()> {
    for piece in pieces(run.at, run.bytes, run.number, run.count, FILLING_MAX) {
        let mut record = Vec::new();
        piece.put(REMOVED, &mut record);
        let at = piece.at - start;
        let (head, zeros) = record.split_at(event::record::HEAD_LEN + super::GAP_MIN);
        file.write_all_at(head, at)?;
        let (at, len) = (at + head.len() as u64, zeros.len() as u64);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes keeps the zeros.
        if len > 0 && fallocate(file, hole, at, len).is_err() {
            file.write_all_at(zeros, at)?;
        }
    }
    Ok(())
}

/// How many events of which group lie in these runs.
fn tally(log: &Path, runs: &Runs) -> io::Result<Removed> {
    let mut removed = Removed::new();
    let mut room = String::new();
    let (Some(first), Some(last)) = (runs.0.first(), runs.0.last()) else {
        return Ok(removed);
    };
    let mut reader = LogReader::open(log, 0, last.at + last.bytes)?;
    reader.start_at(first.at, first.number)?;
    while let Some(piece) = reader.next()? {
        let Piece::Record(placed) = piece else {
            continue;
        };
        let Ok(view) = View::read(&reader.record) else {
            continue;
        };
        if placed.number.is_some_and(|number| runs.has_number(number)) {
            let groups = removed.entry(placed.segment).or_default();
            *groups.entry(hash_of(&view, &mut room)).or_default() += 1;
        }
    }
    Ok(removed)
}

impl SharedLog {
    /// Removes events for good. They are durable and covered by the current snapshot; one after the
    /// other removes. Events that are rejected meanwhile do not wait for it.
    ///
    /// # Errors
    /// A file cannot be read or written; what was not removed is removed at the next start.
    pub fn remove(&self, runs: &Runs) -> Result<(), Error> {
        use super::Log;
        if runs.is_empty() {
            return Ok(());
        }
        let _one = self
            .0
            .removal
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let path = match self.lock().as_mut() {
            None => return Ok(()),
            Some(Log::Memory(log)) => {
                log.remove(runs);
                return Ok(());
            }
            Some(Log::File(log)) => log.path().to_owned(),
        };
        let removed = tally(&path, runs).map_err(Error::file("read", &path))?;
        redo(&path, runs)?;
        super::edits::remove(&path, runs);
        self.with_file(|log| log.forget(runs, &removed));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64, bytes: u64, number: u32, count: u32) -> Run {
        Run {
            at,
            bytes,
            number,
            count,
        }
    }

    #[test]
    fn what_lies_behind_one_another_is_one_run() {
        let mut runs = Runs::default();
        runs.add(run(100, 10, 5, 1), true);
        runs.add(run(110, 20, 6, 1), false);
        runs.add(run(150, 20, 8, 1), false);
        runs.add(run(170, 20, 9, 1), true);
        assert_eq!(
            runs,
            Runs::of(&[run(100, 30, 5, 2), run(150, 20, 8, 1), run(170, 20, 9, 1)])
        );
        assert_eq!(runs.events(), 4);
        let has = |number| runs.has_number(number);
        assert_eq!(
            [4, 5, 6, 7, 8, 9, 10].map(has),
            [false, true, true, false, true, true, false]
        );
        assert!(runs.covers(105, 25) && !runs.covers(105, 26) && !runs.covers(99, 1));
        let mut writer = Writer::default();
        runs.write(&mut writer);
        assert_eq!(Runs::read(&mut Reader::new(&writer.bytes)), Ok(runs));
    }
}
