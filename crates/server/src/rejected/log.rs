//! A log of rejected events that is written to.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use event::record::{Damage, End, HEAD_LEN, RECORD_MAX, put};

use super::read::Dropped;
use super::record::View;
use super::removal::{Removed, Runs};
use super::segments::{LogReader, Piece, Segment, disk_bytes, segment_path};
use super::summary::Summary;
use super::{GAP, GAP_MIN, Limits, Rejection};
use crate::error::Error;
use crate::state::{Fsync, private, sync_parent_of, write_again};

/// Bytes that wait to be written.
const PENDING_MAX: usize = 8 << 10;

/// Bytes from which on a file is full. The last record of one may be longer.
const SEGMENT_MAX: u64 = 64 << 20;

/// A log has so many files at least before its oldest goes, and before they are too old.
const SEGMENTS_MIN: u32 = 8;

/// A file is written to for no longer than this, so that few events hold up no older ones.
const SEGMENT_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often the age of the oldest file is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);

/// Records between two places that are held in memory.
const MARK_EVERY: u32 = 256;

/// Bytes of the longest record that fills the place of damaged ones.
const GAP_MAX: u64 = 32 << 20;

/// The log, open for appending.
#[derive(Debug)]
pub struct RejectedLog {
    path: PathBuf,
    file: File,
    /// The files, oldest first; the last one is written to, and its length is not kept up to date.
    segments: Vec<Segment>,
    /// When the first record of the last file was written.
    begun: Option<SystemTime>,
    /// When the age of the oldest was looked at last.
    looked: Option<SystemTime>,
    /// Number of the next record.
    next: u32,
    /// Whole records behind what was written. They are written at its end, also where a try before
    /// has written a part of them: what follows is never behind half a record.
    pending: Vec<u8>,
    /// Places in the log, not in the file.
    written: u64,
    /// Up to where it is known to last, and the CRC of what was written behind that.
    durable: u64,
    crc: crc32fast::Hasher,
    /// The system was asked to make it last and did not say that it has.
    is_doubtful: bool,
    /// Records that the bounds have cost, not told yet.
    dropped: u64,
    /// What each file holds, by the place of its first byte.
    contents: BTreeMap<u64, Contents>,
    /// Length that the current snapshot has: what lies before it can be removed.
    covered: u64,
    limits: Limits,
    /// Bytes of a full file: smaller in tests.
    segment_max: u64,
}

/// What a file holds, in short.
#[derive(Debug, Default)]
struct Contents {
    /// Numbers in it are those of records.
    summary: Summary,
    /// Number and place of a record here and there.
    marks: Vec<(u32, u64)>,
}

impl Contents {
    fn add(&mut self, number: u32, place: u64, view: &View<'_>) {
        let last = self.marks.last();
        if last.is_none_or(|(last, _)| number.wrapping_sub(*last) >= MARK_EVERY) {
            self.marks.push((number, place));
        }
        self.summary.add(example(number), view);
    }
}

/// How a summary calls a record: 0 is none.
pub(super) fn example(number: u32) -> u64 {
    u64::from(number) + 1
}

impl RejectedLog {
    /// Opens or creates the log and cuts it to `keep` bytes, which were durable; with `u64::MAX`
    /// nobody knows how many were, and only the torn end of a write is cut.
    ///
    /// Damage before that is copied into a file `NAME.damaged-N` and logged; a record that says so
    /// takes its place, so that places and lengths stay what they were.
    ///
    /// # Errors
    /// A file cannot be opened, read or written.
    pub fn open(path: &Path, keep: u64, limits: Limits) -> Result<RejectedLog, Error> {
        let stop = keep;
        let durable = if keep == u64::MAX { 0 } else { keep };
        let read = |cause| Error::file("read", path)(cause);
        let mut reader = LogReader::open(path, durable, stop).map_err(read)?;
        super::removal::finish(path)?;
        let (mut seen, mut damages) = (0u32, Vec::new());
        let mut contents = BTreeMap::<u64, Contents>::new();
        let mut end = reader.at();
        let mut before = reader.next;
        while let Some(piece) = reader.next().map_err(read)? {
            match piece {
                Piece::Record(placed) => {
                    seen = seen.wrapping_add(1);
                    // One that cannot be read is said where it is read.
                    if let (Some(number), Ok(view)) = (placed.number, View::read(&reader.record)) {
                        let contents = contents.entry(placed.segment).or_default();
                        contents.add(number, placed.at, &view);
                    }
                }
                Piece::Gap { .. } => seen = seen.wrapping_add(1),
                Piece::Damage(damage) if damage.end == Some(End::Torn) => {
                    end = damage.at;
                    break;
                }
                Piece::Damage(damage) => damages.push((damage, before.unwrap_or(seen))),
            }
            end = reader.at();
            before = reader.next;
        }
        let next = reader.next.unwrap_or(seen);
        let mut segments = std::mem::take(&mut reader.segments);
        for segment in segments.iter().filter(|s| s.start > 0 && s.start >= end) {
            fs::remove_file(&segment.path).map_err(Error::file("remove", &segment.path))?;
        }
        segments.retain(|segment| segment.start == 0 || segment.start < end);
        remove_beyond(path, end)?;
        if segments.is_empty() {
            let start = damages.first().map_or(end, |(damage, _)| damage.at);
            segments.push(Segment {
                path: segment_path(path, start),
                start,
                len: 0,
                disk: 0,
                first: None,
            });
        }
        if !damages.is_empty() {
            set_aside(path, &mut segments, &damages)?;
        }
        let Some(last) = segments.last_mut() else {
            unreachable!("there is one at least");
        };
        let file = open_file(&last.path).map_err(Error::file("open", &last.path))?;
        file.set_len(end - last.start)
            .map_err(Error::file("cut", &last.path))?;
        let begun = file.metadata().and_then(|m| m.created()).ok();
        Ok(RejectedLog {
            path: path.to_owned(),
            file,
            begun: begun.filter(|_| end > last.start),
            segments,
            looked: None,
            next,
            pending: Vec::new(),
            written: end,
            durable: end,
            crc: crc32fast::Hasher::new(),
            is_doubtful: false,
            dropped: 0,
            contents,
            covered: if keep == u64::MAX { end } else { keep },
            limits,
            segment_max: SEGMENT_MAX.min(limits.bytes_max / 2 / u64::from(SEGMENTS_MIN)),
        })
    }

    /// After a failure the rejection is not kept, and what was before it is.
    ///
    /// # Errors
    /// The disk has no room or has failed.
    pub fn append(&mut self, rejection: &Rejection) -> Result<(), Error> {
        let record = rejection.write();
        if self.pending.is_empty() {
            self.rotate().map_err(Error::file("write", &self.path))?;
        }
        let (before, place) = (self.pending.len(), self.len());
        put(place, self.next, &record, &mut self.pending);
        if self.pending.len() >= PENDING_MAX {
            self.write().map_err(|cause| {
                self.pending.truncate(before);
                Error::file("write", &self.path)(cause)
            })?;
        }
        let view = View::read(&record).expect("it was just written");
        let contents = self.contents.entry(self.start()).or_default();
        contents.add(self.next, place, &view);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Bytes of all records there ever were: the place of the next one.
    pub(super) fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Records that the bounds have cost since this was asked last.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Makes what was appended durable; the length belongs into the snapshot.
    ///
    /// # Errors
    /// It is not known to be durable; it can be tried again.
    pub fn sync(&mut self) -> Result<u64, Error> {
        self.sync_by(&mut File::sync_data)
    }

    fn sync_by(&mut self, sync: &mut Fsync<'_>) -> Result<u64, Error> {
        self.write()
            .and_then(|()| self.make_durable(sync))
            .map_err(Error::file("sync", &self.path))?;
        let now = SystemTime::now();
        let is_time = |looked: SystemTime| now.duration_since(looked).is_ok_and(|d| d > LOOK_EVERY);
        if self.looked.is_none_or(is_time) {
            self.looked = Some(now);
            self.drop_oldest(now);
        }
        Ok(self.durable)
    }

    fn make_durable(&mut self, sync: &mut Fsync<'_>) -> io::Result<()> {
        if self.is_doubtful {
            let len = self.written - self.durable;
            let from = self.durable - self.start();
            write_again(&mut self.file, from, len, self.crc.clone().finalize())?;
        }
        self.is_doubtful = true;
        sync(&self.file)?;
        self.is_doubtful = false;
        self.durable = self.written;
        self.crc = crc32fast::Hasher::new();
        Ok(())
    }

    /// Place of the first byte of the file that is written to.
    fn start(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.start)
    }

    /// Begins another file where this one is full or old. Nothing waits to be written.
    fn rotate(&mut self) -> io::Result<()> {
        let now = SystemTime::now();
        let age_max = SEGMENT_AGE_MAX.min(self.limits.age_max / SEGMENTS_MIN);
        let is_old = |begun: SystemTime| now.duration_since(begun).is_ok_and(|age| age > age_max);
        let len = self.written - self.start();
        if len >= self.segment_max || len > 0 && self.begun.is_some_and(is_old) {
            self.begin_segment()?;
            self.drop_oldest(now);
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.file
            .seek(SeekFrom::Start(self.written - self.start()))?;
        self.file.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.crc.update(&self.pending);
        self.pending.clear();
        self.begun.get_or_insert_with(SystemTime::now);
        Ok(())
    }

    /// What was written is made durable, and what comes goes into another file.
    fn begin_segment(&mut self) -> io::Result<()> {
        self.make_durable(&mut File::sync_data)?;
        let path = segment_path(&self.path, self.written);
        let file = open_file(&path)?;
        file.set_len(0)?;
        sync_parent_of(&path)?;
        if let Some(full) = self.segments.last_mut() {
            full.len = self.written - full.start;
            full.disk = self.file.metadata().map_or(full.len, |m| disk_bytes(&m));
        }
        self.segments.push(Segment {
            path,
            start: self.written,
            len: 0,
            disk: 0,
            first: Some(self.next),
        });
        self.file = file;
        self.begun = None;
        Ok(())
    }

    /// Removes the oldest files while the log takes too much room or they are too old; never the last
    /// one.
    fn drop_oldest(&mut self, now: SystemTime) {
        while let [oldest, _, ..] = self.segments.as_slice() {
            let written = fs::metadata(&oldest.path).and_then(|m| m.modified());
            let age = written.ok().and_then(|at| now.duration_since(at).ok());
            let is_old = age.is_some_and(|age| age > self.limits.age_max);
            if self.disk_bytes() <= self.limits.bytes_max / 2 && !is_old {
                return;
            }
            let events = (self.contents.get(&oldest.start)).map_or(0, |c| c.summary.total());
            let (file, bytes) = (oldest.path.display().to_string(), oldest.len);
            if !self.remove_oldest(events, bytes) {
                return;
            }
            let limits = (self.limits.bytes_max >> 20, self.limits.age_max.as_secs());
            tracing::warn!(
                file,
                events,
                bytes,
                "dropped the oldest rejected events: the store is full, or they are too old (limits: \
                 {} MB, {} days); replay, export or purge them in time, or raise --errors-max or \
                 --errors-age",
                limits.0,
                limits.1 / (24 * 60 * 60)
            );
            self.dropped += events;
        }
    }

    /// Bytes that the log takes on the disk.
    fn disk_bytes(&self) -> u64 {
        let (_, full) = self.segments.split_last().unzip();
        let full = full.unwrap_or_default().iter();
        full.map(|segment| segment.disk).sum::<u64>() + self.written - self.start()
    }

    /// Removes the oldest file, which has cost so many events; false: it could not be removed.
    fn remove_oldest(&mut self, events: u64, bytes: u64) -> bool {
        let oldest = &self.segments[0];
        let noted = Dropped::add(&self.path, events, bytes);
        let removed = noted.and_then(|()| {
            fs::remove_file(&oldest.path).map_err(Error::file("remove", &oldest.path))
        });
        if let Err(error) = removed {
            let cause = crate::report::chain(&error);
            tracing::warn!(cause, "cannot remove old rejected events");
            return false;
        }
        self.contents.remove(&oldest.start);
        self.segments.remove(0);
        true
    }

    // ---- for who looks at the events, and removes them ----

    /// Events that are kept.
    pub(super) fn total(&self) -> u64 {
        self.contents.values().map(|c| c.summary.total()).sum()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The current snapshot has this length.
    pub(super) fn cover(&mut self, length: u64) {
        self.covered = length;
    }

    /// Length up to which events can be removed.
    pub(super) fn covered(&self) -> u64 {
        self.covered.min(self.durable)
    }

    /// All groups of events; their examples are numbers of records, as [`example`] says them.
    pub(super) fn summary(&self) -> Summary {
        let mut all = Summary::default();
        self.contents.values().for_each(|c| all.join(&c.summary));
        all
    }

    /// Reads the events up to `stop`, from the one of this number on.
    ///
    /// # Errors
    /// What waits cannot be written, or a file cannot be read.
    pub(super) fn reader(&mut self, stop: u64, from: u32) -> io::Result<LogReader> {
        self.write()?;
        let mut reader = LogReader::open(&self.path, self.durable, stop.min(self.written))?;
        let marks = self.contents.values().flat_map(|c| &c.marks);
        let mark = marks.take_while(|(number, _)| *number <= from).last();
        if let Some((number, place)) = mark {
            reader.start_at(*place, *number)?;
        }
        Ok(reader)
    }

    /// These are gone from the files: they count no more. Files that hold nothing else go.
    pub(super) fn forget(&mut self, runs: &Runs, removed: &Removed) {
        for (segment, groups) in removed {
            let Some(contents) = self.contents.get_mut(segment) else {
                continue;
            };
            for (group, count) in groups {
                contents.summary.take(*group, *count);
            }
            let is_gone = |number: u64| number > 0 && runs.has_number((number - 1) as u32);
            contents.summary.forget(is_gone);
        }
        for segment in &mut self.segments {
            if let Ok(metadata) = fs::metadata(&segment.path) {
                segment.disk = disk_bytes(&metadata);
            }
        }
        while let [oldest, _, ..] = self.segments.as_slice() {
            let has_any = |c: &Contents| c.summary.total() > 0;
            if self.contents.get(&oldest.start).is_some_and(has_any) || !self.remove_oldest(0, 0) {
                break;
            }
        }
    }
}

impl Drop for RejectedLog {
    /// What no snapshot covers is there to be looked at until the next start.
    fn drop(&mut self) {
        self.write().ok();
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    private(&mut options).open(path)
}

/// Files that begin behind what is kept.
fn remove_beyond(log: &Path, end: u64) -> Result<(), Error> {
    let found = super::segments::segments(log).map_err(Error::file("read", log))?;
    for segment in found.iter().filter(|s| s.start > 0 && s.start >= end) {
        fs::remove_file(&segment.path).map_err(Error::file("remove", &segment.path))?;
    }
    Ok(())
}

/// Copies damaged bytes into a file of their own, says so, and puts records in their place that
/// stand for them. Each damage comes with the number of its first record.
fn set_aside(log: &Path, segments: &mut [Segment], damages: &[(Damage, u32)]) -> Result<(), Error> {
    let mut aside = None;
    let mut bytes = 0;
    let mut records = Some(0);
    for (damage, _) in damages {
        bytes += damage.bytes;
        records = records.zip(damage.records).map(|(all, more)| all + more);
        copy_out(log, segments, damage, &mut aside)?;
    }
    if let Some((path, file)) = &aside {
        file.sync_all().map_err(Error::file("sync", path))?;
        sync_parent_of(path).map_err(Error::file("sync", path))?;
    }
    let (at_least, count) = match records {
        Some(count) => ("", count),
        None => ("at least ", damages.len() as u32),
    };
    let copy = aside.map(|(path, _)| path.display().to_string());
    tracing::error!(
        file = log.display().to_string(),
        bytes,
        set_aside = copy,
        "stored rejected events are damaged or missing: {at_least}{count} of them are lost, the \
         others are intact. Restore a copy of the file while the server is stopped, or inspect \
         what was set aside"
    );
    for (damage, number) in damages {
        let Some(segment) = segments.iter().rfind(|s| s.start <= damage.at) else {
            continue;
        };
        let fill = fill(damage, *number, GAP, GAP_MAX);
        let written = open_file(&segment.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(damage.at - segment.start))?;
            file.write_all(&fill)?;
            file.sync_all()
        });
        written.map_err(Error::file("write", &segment.path))?;
    }
    Ok(())
}

fn copy_out(
    log: &Path,
    segments: &[Segment],
    damage: &Damage,
    aside: &mut Option<(PathBuf, File)>,
) -> Result<(), Error> {
    let Some(segment) = segments.iter().rfind(|s| s.start <= damage.at) else {
        return Ok(());
    };
    let there = segment.end().saturating_sub(damage.at).min(damage.bytes);
    if there == 0 {
        return Ok(());
    }
    if aside.is_none() {
        *aside = Some(create_aside(log)?);
    }
    let Some((path, out)) = aside else {
        return Ok(());
    };
    let copied = File::open(&segment.path).and_then(|mut file| {
        file.seek(SeekFrom::Start(damage.at - segment.start))?;
        io::copy(&mut file.take(there), out)
    });
    copied.map_err(Error::file("write", &*path))?;
    Ok(())
}

/// `rejected.damaged-1`, or the first number that is free.
fn create_aside(log: &Path) -> Result<(PathBuf, File), Error> {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let mut number = 1;
    loop {
        let path = log.with_file_name(format!("{name}.damaged-{number}"));
        let mut options = File::options();
        match private(options.write(true).create_new(true)).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(Error::file("create", path)(e)),
        }
    }
}

/// Records of exactly as many bytes as are damaged. Too few bytes for one cannot hold a record
/// either and stay as they are.
fn fill(damage: &Damage, number: u32, mark: u8, bytes_max: u64) -> Vec<u8> {
    let mut filled = Vec::new();
    let records = damage.records.unwrap_or(u32::MAX);
    for piece in pieces(damage.at, damage.bytes, number, records, bytes_max) {
        piece.put(mark, &mut filled);
    }
    filled
}

/// A record that fills the place of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Filling {
    pub at: u64,
    /// With its head.
    pub bytes: u64,
    number: u32,
    /// Records that it stands for; `u32::MAX` where nobody knows.
    count: u32,
}

impl Filling {
    pub fn put(&self, mark: u8, into: &mut Vec<u8>) {
        let mut record = vec![0; self.bytes as usize - HEAD_LEN];
        record[0] = mark;
        record[1..GAP_MIN].copy_from_slice(&self.count.to_le_bytes());
        put(self.at, self.number, &record, into);
    }
}

/// Records that fill so many bytes; the first one stands for all that were there.
pub(super) fn pieces(
    at: u64,
    bytes: u64,
    number: u32,
    records: u32,
    bytes_max: u64,
) -> Vec<Filling> {
    let least = (HEAD_LEN + GAP_MIN) as u64;
    let mut all = Vec::new();
    let (mut at, mut left, mut number, mut count) = (at, bytes, number, records);
    while left >= least {
        let mut bytes = left.min(bytes_max);
        if left - bytes > 0 && left - bytes < least {
            bytes -= least;
        }
        all.push(Filling {
            at,
            bytes,
            number,
            count,
        });
        at += bytes;
        left -= bytes;
        if count != u32::MAX {
            number = number.wrapping_add(count);
            count = 0;
        }
    }
    all
}

const _: () = assert!(super::PAYLOAD_MAX + (1 << 20) < RECORD_MAX);

#[cfg(test)]
mod tests;
