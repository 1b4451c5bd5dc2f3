//! The log: what was written since the tables' files were.
//!
//! Files `00000001.log`, `00000002.log`, … of 64 MB hold the records of [`event::record`]; the first of
//! each file says what those before it have said, so that any file may be the oldest. Whoever commits
//! waits for an fsync, and one fsync serves all who wait ([`Log::sync`]).
//!
//! Promises: what [`Log::sync`] has returned for is found after a crash. After an fsync that failed the
//! bytes are written again before they are synced: the system may take pages for written that are not.
//! Never: a record of which a part is in the file and after which others follow.

mod replay;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use event::record::{Found, RECORD_MAX, Records, put};

use crate::change::{Commit, Head, Noted};
use crate::error::Error;
use crate::paths::{create_private, sync_dir};

pub(crate) use replay::{Replayed, Tail, oldest, read_on, replay};

/// Bytes from which on a file is full. The last record of one may be longer.
const SEGMENT_MAX: u64 = 64 << 20;

/// Bytes that wait to be written.
const PENDING_MAX: usize = 1 << 20;

/// Bits of a place that say where in its file it is.
const OFFSET_BITS: u32 = 32;

/// Makes what was written to a file last.
type Fsync = dyn Fn(&File) -> io::Result<()> + Send + Sync;

/// Place in the log: the number of a file, and an offset there.
pub(crate) fn place(segment: u64, offset: u64) -> u64 {
    segment << OFFSET_BITS | offset
}

/// The file of a place.
pub(crate) fn segment_of(place: u64) -> u64 {
    place >> OFFSET_BITS
}

pub(crate) fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    dir.join(format!("{segment:08}.log"))
}

/// The log, open for appending.
pub(crate) struct Log {
    dir: PathBuf,
    inner: Mutex<Inner>,
    /// An fsync has ended.
    synced: Condvar,
    fsync: Box<Fsync>,
    segment_max: u64,
}

struct Inner {
    /// What a new file begins with.
    head: Head,
    /// Numbers of the files there are; the last one is written to.
    segments: Vec<u64>,
    file: Arc<File>,
    /// Number of the next record in the file.
    number: u32,
    /// Whole records behind what was written.
    pending: Vec<u8>,
    /// Offsets in the file.
    written: u64,
    durable: u64,
    is_syncing: bool,
    /// The system was asked to make it last and did not say that it has.
    is_doubtful: bool,
}

impl Log {
    /// Goes on behind what was replayed, in a file of its own.
    pub fn open(dir: &Path, replayed: Replayed) -> Result<Log, Error> {
        Log::open_by(dir, replayed, Box::new(File::sync_data), SEGMENT_MAX)
    }

    fn open_by(
        dir: &Path,
        replayed: Replayed,
        fsync: Box<Fsync>,
        segment_max: u64,
    ) -> Result<Log, Error> {
        if let Some(cut) = &replayed.cut {
            cut.carry_out()?;
        }
        let mut segments = replayed.segments;
        let segment = segments.last().map_or(1, |last| last + 1);
        let (file, written) = create_segment(dir, segment, &replayed.head)?;
        segments.push(segment);
        Ok(Log {
            dir: dir.to_owned(),
            inner: Mutex::new(Inner {
                head: replayed.head,
                segments,
                file: Arc::new(file),
                number: 1,
                pending: Vec::new(),
                written,
                durable: written,
                is_syncing: false,
                is_doubtful: false,
            }),
            synced: Condvar::new(),
            fsync,
            segment_max,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers for so many rows; the first of them.
    pub fn take_rows(&self, count: usize) -> u64 {
        let mut inner = self.lock();
        let first = inner.head.row;
        inner.head.row += count as u64;
        first
    }

    /// The number of a transaction that begins.
    pub fn take_sequence(&self) -> u64 {
        let mut inner = self.lock();
        inner.head.sequence += 1;
        inner.head.sequence - 1
    }

    /// Appends a record; its place. After a failure it is not there.
    ///
    /// # Errors
    /// The disk has no room or has failed, or the record is too long.
    pub fn append(&self, record: &[u8]) -> Result<u64, Error> {
        let mut inner = self.lock();
        self.append_to(&mut inner, record)
    }

    fn append_to(&self, inner: &mut MutexGuard<'_, Inner>, record: &[u8]) -> Result<u64, Error> {
        if record.len() > RECORD_MAX {
            return Err(Error::Refused(format!(
                "{} bytes of rows come at once, and the log takes {RECORD_MAX} at most",
                record.len()
            )));
        }
        if inner.pending.is_empty() && inner.written >= self.segment_max && !inner.is_syncing {
            self.rotate(inner)?;
        }
        let before = inner.pending.len();
        let at = place(inner.segment(), inner.written + before as u64);
        let number = inner.number;
        put(at, number, record, &mut inner.pending);
        inner.number += 1;
        if inner.pending.len() >= PENDING_MAX
            && let Err(cause) = inner.write()
        {
            inner.pending.truncate(before);
            inner.number = number;
            return Err(Error::file("write", &self.path(inner))(cause));
        }
        Ok(at)
    }

    /// Appends that a transaction counts; the number of the commit and the place behind it.
    pub fn commit(&self, transaction: u64, epochs: Vec<Noted>) -> Result<(u64, u64), Error> {
        let mut inner = self.lock();
        let sequence = inner.head.sequence;
        let commit = Commit {
            transaction,
            sequence,
            epochs,
        };
        let record = commit.to_bytes();
        self.append_to(&mut inner, &record)?;
        inner.head.sequence += 1;
        inner.head.note(&commit.epochs);
        let end = place(inner.segment(), inner.written + inner.pending.len() as u64);
        Ok((sequence, end))
    }

    /// The place behind what was appended.
    pub fn end(&self) -> u64 {
        let inner = self.lock();
        place(inner.segment(), inner.written + inner.pending.len() as u64)
    }

    pub fn epoch(&self, app: &str) -> Option<Noted> {
        let inner = self.lock();
        inner
            .head
            .epochs
            .iter()
            .find(|noted| noted.app == app)
            .cloned()
    }

    /// Returns when all that lies before a place lasts.
    ///
    /// # Errors
    /// It is not known to last; it can be tried again.
    pub fn sync(&self, end: u64) -> Result<(), Error> {
        let mut inner = self.lock();
        loop {
            if place(inner.segment(), inner.durable) >= end {
                return Ok(());
            }
            if inner.is_syncing {
                inner = self
                    .synced
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let path = self.path(&inner);
            inner.write().map_err(Error::file("write", &path))?;
            let file = Arc::clone(&inner.file);
            let (from, to, segment) = (inner.durable, inner.written, inner.segment());
            if inner.is_doubtful {
                write_again(&file, segment, from, to).map_err(Error::file("write", &path))?;
            }
            (inner.is_syncing, inner.is_doubtful) = (true, true);
            drop(inner);
            let synced = (self.fsync)(&file);
            inner = self.lock();
            inner.is_syncing = false;
            self.synced.notify_all();
            synced.map_err(Error::file("sync", &path))?;
            inner.durable = to;
            inner.is_doubtful = false;
        }
    }

    fn path(&self, inner: &Inner) -> PathBuf {
        segment_path(&self.dir, inner.segment())
    }

    /// Begins another file. What is in this one lasts before.
    fn rotate(&self, inner: &mut Inner) -> Result<(), Error> {
        let path = self.path(inner);
        if inner.is_doubtful {
            write_again(&inner.file, inner.segment(), inner.durable, inner.written)
                .map_err(Error::file("write", &path))?;
        }
        inner.is_doubtful = true;
        (self.fsync)(&inner.file).map_err(Error::file("sync", &path))?;
        inner.durable = inner.written;
        inner.is_doubtful = false;
        let segment = inner.segment() + 1;
        let (file, written) = create_segment(&self.dir, segment, &inner.head)?;
        inner.segments.push(segment);
        inner.file = Arc::new(file);
        inner.number = 1;
        (inner.written, inner.durable) = (written, written);
        Ok(())
    }

    /// Removes the files of which nothing at or behind a place is needed.
    pub fn remove_before(&self, place: Option<u64>) -> Result<(), Error> {
        let mut inner = self.lock();
        let current = inner.segment();
        let needed = place.map_or(current, segment_of).min(current);
        while let [oldest, ..] = inner.segments[..]
            && oldest < needed
        {
            let path = segment_path(&self.dir, oldest);
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
            inner.segments.remove(0);
        }
        Ok(())
    }

    /// Writes what waits, so that a reader of the files finds it.
    pub fn write(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        let path = self.path(&inner);
        inner.write().map_err(Error::file("write", &path))
    }
}

impl Inner {
    fn segment(&self) -> u64 {
        self.segments.last().copied().unwrap_or_default()
    }

    fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.written))?;
        file.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

impl Head {
    pub(crate) fn note(&mut self, epochs: &[Noted]) {
        for noted in epochs {
            match self.epochs.iter_mut().find(|known| known.app == noted.app) {
                Some(known) => known.clone_from(noted),
                None => self.epochs.push(noted.clone()),
            }
        }
    }
}

/// A new file with its first record, which lasts; and how long it is.
fn create_segment(dir: &Path, segment: u64, head: &Head) -> Result<(File, u64), Error> {
    let path = segment_path(dir, segment);
    let mut record = Vec::new();
    put(place(segment, 0), 0, &head.to_bytes(), &mut record);
    let mut file = create_private(&path)?;
    let written = file.write_all(&record).and_then(|()| file.sync_all());
    if let Err(cause) = written {
        // One without its first record would stop the next start no less than a part of it.
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        return Err(Error::file("write", &path)(cause));
    }
    sync_dir(dir)?;
    Ok((file, record.len() as u64))
}

/// Writes a part of a file over itself, where it is whole.
fn write_again(file: &File, segment: u64, from: u64, to: u64) -> io::Result<()> {
    let mut file = file;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(to - from).read_to_end(&mut bytes)?;
    let mut records = Records::new(&bytes[..], place(segment, from), None);
    let mut end = from;
    while let Some(found) = records.next()? {
        match found {
            Found::Record { record, .. } => end += (event::record::HEAD_LEN + record.len()) as u64,
            Found::Damage(_) => break,
        }
    }
    if end != to {
        return Err(io::Error::other("it cannot be read back after writing"));
    }
    file.seek(SeekFrom::Start(from))?;
    file.write_all(&bytes)
}

#[cfg(test)]
mod tests;
