//! A log of rejected events that is written to.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use event::record::{Damage, End, HEAD_LEN, RECORD_MAX, put};

use super::segments::{LogReader, Piece, Segment, segment_path};
use super::{AGE_DAYS_MAX, GAP, GAP_MIN, LOG_BYTES_MAX, Rejection};
use crate::error::Error;
use crate::state::{Fsync, private, sync_parent_of, write_again};

/// Bytes that wait to be written.
const PENDING_MAX: usize = 8 << 10;

/// Bytes from which on a file is full. The last record of one may be longer.
const SEGMENT_MAX: u64 = 64 << 20;

const AGE_MAX: Duration = Duration::from_secs(AGE_DAYS_MAX * 24 * 60 * 60);

/// A file is written to for no longer than this, so that few events hold up no older ones.
const SEGMENT_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often the age of the oldest file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);

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
    /// Bytes of a full file, and of the log: smaller in tests.
    segment_max: u64,
    bytes_max: u64,
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
    pub fn open(path: &Path, keep: u64) -> Result<RejectedLog, Error> {
        let stop = keep;
        let durable = if keep == u64::MAX { 0 } else { keep };
        let read = |cause| Error::file("read", path)(cause);
        let mut reader = LogReader::open(path, durable, stop).map_err(read)?;
        let (mut seen, mut damages) = (0u32, Vec::new());
        let mut end = reader.at();
        let mut before = reader.next;
        while let Some(piece) = reader.next().map_err(read)? {
            match piece {
                Piece::Record | Piece::Gap { .. } => seen = seen.wrapping_add(1),
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
            segment_max: SEGMENT_MAX,
            bytes_max: LOG_BYTES_MAX,
        })
    }

    /// After a failure the rejection is not kept, and what was before it is.
    ///
    /// # Errors
    /// The disk has no room or has failed.
    pub fn append(&mut self, rejection: &Rejection) -> Result<(), Error> {
        let record = rejection.write();
        let before = self.pending.len();
        put(self.len(), self.next, &record, &mut self.pending);
        self.next = self.next.wrapping_add(1);
        if self.pending.len() < PENDING_MAX {
            return Ok(());
        }
        self.write().map_err(|cause| {
            self.pending.truncate(before);
            self.next = self.next.wrapping_sub(1);
            Error::file("write", &self.path)(cause)
        })
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

    fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let now = SystemTime::now();
        let is_old = |begun: SystemTime| {
            let age = now.duration_since(begun);
            age.is_ok_and(|age| age > SEGMENT_AGE_MAX)
        };
        let len = self.written - self.start();
        if len >= self.segment_max || len > 0 && self.begun.is_some_and(is_old) {
            self.begin_segment()?;
            self.drop_oldest(now);
        }
        self.file
            .seek(SeekFrom::Start(self.written - self.start()))?;
        self.file.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.crc.update(&self.pending);
        self.pending.clear();
        self.begun.get_or_insert(now);
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
        }
        self.segments.push(Segment {
            path,
            start: self.written,
            len: 0,
            first: first_number(&self.pending),
        });
        self.file = file;
        self.begun = None;
        Ok(())
    }

    /// Removes the oldest files while the log is too long or they are too old; never the last one.
    fn drop_oldest(&mut self, now: SystemTime) {
        while let [oldest, next, ..] = self.segments.as_slice() {
            let bytes = self.written - oldest.start;
            let written = fs::metadata(&oldest.path).and_then(|m| m.modified());
            let age = written.ok().and_then(|at| now.duration_since(at).ok());
            let is_old = age.is_some_and(|age| age > AGE_MAX);
            if bytes <= self.bytes_max && !is_old {
                return;
            }
            let records = next.first.zip(oldest.first).map(|(n, o)| n.wrapping_sub(o));
            let file = oldest.path.display().to_string();
            if let Err(cause) = fs::remove_file(&oldest.path) {
                tracing::warn!(file, %cause, "cannot remove old rejected events");
                return;
            }
            tracing::warn!(
                file,
                events = records,
                bytes = oldest.len,
                "dropped the oldest rejected events (limits: {} MB, {AGE_DAYS_MAX} days)",
                LOG_BYTES_MAX >> 20
            );
            self.dropped += u64::from(records.unwrap_or(1));
            self.segments.remove(0);
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

/// The number in the head of the first of these records.
fn first_number(records: &[u8]) -> Option<u32> {
    let number = records.get(8..12)?;
    Some(u32::from_le_bytes([
        number[0], number[1], number[2], number[3],
    ]))
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
        let fill = gaps(damage, *number);
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
fn gaps(damage: &Damage, number: u32) -> Vec<u8> {
    let least = (HEAD_LEN + GAP_MIN) as u64;
    let mut fill = Vec::new();
    let (mut left, mut count) = (damage.bytes, damage.records.unwrap_or(u32::MAX));
    let mut number = number;
    while left >= least {
        let mut bytes = left.min(GAP_MAX);
        if left - bytes > 0 && left - bytes < least {
            bytes -= least;
        }
        let mut record = vec![0; bytes as usize - HEAD_LEN];
        record[0] = GAP;
        record[1..GAP_MIN].copy_from_slice(&count.to_le_bytes());
        put(damage.at + fill.len() as u64, number, &record, &mut fill);
        left -= bytes;
        // The first one stands for all records.
        if count != u32::MAX {
            number = number.wrapping_add(count);
            count = 0;
        }
    }
    fill
}

const _: () = assert!(super::PAYLOAD_MAX + (1 << 20) < RECORD_MAX);

#[cfg(test)]
mod tests {
    use super::super::segments::segments;
    use super::super::{Kept, read_all};
    use super::*;

    fn sample(n: i64) -> Rejection {
        Rejection {
            time: n,
            app: "A".into(),
            stream: "S".into(),
            place: format!("in.csv:{n}"),
            cause: "column 2 is not a double".into(),
            ..Rejection::of_payload(b"P|x|y")
        }
    }

    #[test]
    fn records_come_back_and_a_torn_tail_is_cut_off() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let group = root.path().join("A");
        std::fs::create_dir(&group).expect("creates");
        std::fs::write(group.join("apps"), "A").expect("writes");
        let path = group.join("rejected");
        let mut log = RejectedLog::open(&path, u64::MAX).expect("opens");
        let mut ends = vec![0];
        for n in 0..3 {
            log.append(&sample(n)).expect("appends");
            ends.push(log.sync().expect("syncs"));
        }
        assert_eq!(
            read_all(root.path()).expect("reads"),
            [0, 1, 2].map(sample).to_vec()
        );
        let whole = std::fs::read(&path).expect("reads");
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("writes");
            let log = RejectedLog::open(&path, u64::MAX).expect("opens");
            assert_eq!(
                log.len(),
                *ends.iter().filter(|e| **e <= cut as u64).max().expect("0")
            );
        }
        std::fs::write(&path, &whole).expect("writes");
        let mut log = RejectedLog::open(&path, ends[1]).expect("opens");
        log.append(&sample(9)).expect("appends");
        log.sync().expect("syncs");
        let times: Vec<i64> = read_all(root.path())
            .expect("reads")
            .iter()
            .map(|r| r.time)
            .collect();
        assert_eq!(times, [0, 9]);
    }

    fn failed() -> io::Error {
        io::Error::other("the disk has failed")
    }

    /// `/dev/full` says what a disk without room says.
    #[test]
    fn what_has_no_room_is_left_out_whole() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let group = root.path().join("A");
        std::fs::create_dir(&group).expect("creates");
        std::fs::write(group.join("apps"), "A").expect("writes");
        let mut log = RejectedLog::open(&group.join("rejected"), 0).expect("opens");
        log.append(&sample(0)).expect("it waits");
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("opens");
        let file = std::mem::replace(&mut log.file, full);
        let before = log.len();
        let large = Rejection::of_payload(&[b'x'; PENDING_MAX]);
        log.append(&large).expect_err("there is no room for it");
        assert_eq!(log.len(), before);
        assert!(log.sync().is_err());
        log.file = file;
        log.append(&sample(1)).expect("there is room again");
        let length = log.sync().expect("syncs");
        assert_eq!(length, log.len());
        let kept = read_all(root.path()).expect("reads");
        assert_eq!(kept, [sample(0), sample(1)]);
    }

    #[test]
    fn what_a_failed_sync_may_have_dropped_is_written_again() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("rejected");
        let mut log = RejectedLog::open(&path, 0).expect("opens");
        for n in 0..3 {
            log.append(&sample(n)).expect("appends");
            let mut fails = |_: &File| -> io::Result<()> { Err(failed()) };
            assert!(log.sync_by(&mut fails).is_err());
            let length = log.sync().expect("syncs");
            assert_eq!((length, log.durable), (log.len(), log.len()));
        }
        // What cannot be read back is not said to last.
        log.append(&sample(3)).expect("appends");
        let at = log.durable;
        let mut drops = |mut file: &File| -> io::Result<()> {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(b"what was there before")?;
            Err(failed())
        };
        assert!(log.sync_by(&mut drops).is_err());
        assert!(log.sync().is_err() && log.sync().is_err());
        drop(log);
        let log = RejectedLog::open(&path, at).expect("opens");
        assert_eq!(log.len(), at);
    }

    #[test]
    fn zeros_behind_the_last_record_are_cut_off() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("rejected");
        let mut log = RejectedLog::open(&path, 0).expect("opens");
        log.append(&sample(0)).expect("appends");
        let length = log.sync().expect("syncs");
        drop(log);
        let grown = File::options().write(true).open(&path).expect("opens");
        grown.set_len(length + 4096).expect("grows");
        let log = RejectedLog::open(&path, u64::MAX).expect("opens");
        assert_eq!(log.len(), length);
    }

    /// A log of so many events, its path and where each ends.
    fn written(count: i64) -> (tempfile::TempDir, PathBuf, Vec<u64>) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let group = root.path().join("A");
        fs::create_dir(&group).expect("creates");
        fs::write(group.join("apps"), "A").expect("writes");
        let path = group.join("rejected");
        let mut log = RejectedLog::open(&path, 0).expect("opens");
        let mut ends = vec![0];
        for n in 0..count {
            log.append(&sample(n)).expect("appends");
            ends.push(log.sync().expect("syncs"));
        }
        (root, path, ends)
    }

    /// Times of the events that are there, and how many are said to be missing, exactly or at least.
    fn listed(root: &Path) -> (Vec<i64>, u64, bool) {
        let mut kept = Kept::open(root).expect("opens");
        let mut times = Vec::new();
        while let Some(rejection) = kept.next_event().expect("reads") {
            assert_eq!(rejection, sample(rejection.time));
            times.push(rejection.time);
        }
        let missing = kept.missing().iter();
        let missing = missing.fold((0, true), |(all, is_exact), m| {
            (all + m.events, is_exact && m.is_exact)
        });
        (times, missing.0, missing.1)
    }

    /// After a change of the file: what is listed before a start and after it, and after one more.
    /// Each time what is there and what is said to be missing is all there was.
    fn check(root: &Path, path: &Path, keep: u64, all: u64, what: &str) {
        for start in 0..3 {
            let (times, missing, is_exact) = listed(root);
            let there = times.len() as u64;
            assert!(there < all && times.is_sorted(), "{what}: {times:?}");
            // Before the start nobody has told the list how long the log was.
            if start > 0 || missing > 0 {
                assert!(missing > 0 && there + missing <= all, "{what}: {missing}");
                assert!(!is_exact || there + missing == all, "{what}: {missing}");
            }
            let log = RejectedLog::open(path, keep).expect("opens");
            assert_eq!(log.len(), keep, "{what}");
        }
        let mut log = RejectedLog::open(path, keep).expect("opens");
        log.append(&sample(99)).expect("appends");
        let keep = log.sync().expect("syncs");
        drop(log);
        assert_eq!(listed(root).0.last(), Some(&99), "{what}");
        RejectedLog::open(path, keep).expect("opens");
        assert_eq!(listed(root).0.last(), Some(&99), "{what}");
    }

    #[test]
    fn a_flip_of_any_byte_costs_one_event_which_is_said() {
        let (root, path, ends) = written(4);
        let whole = fs::read(&path).expect("reads");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).expect("writes");
            assert_eq!(listed(root.path()).0.len(), 3, "{at}");
            // Each start waits for the disk.
            if at % 5 == 0 {
                check(root.path(), &path, ends[4], 4, &format!("byte {at}"));
            }
        }
        let aside = path.with_file_name("rejected.damaged-1");
        let record = &whole[..ends[1] as usize];
        let flipped = fs::read(aside).expect("it is set aside");
        assert_eq!(flipped.len(), record.len());
    }

    #[test]
    fn a_cut_of_what_was_durable_is_said() {
        let (root, path, ends) = written(3);
        let whole = fs::read(&path).expect("reads");
        for cut in (0..whole.len()).step_by(7) {
            fs::write(&path, &whole[..cut]).expect("writes");
            check(root.path(), &path, ends[3], 3, &format!("cut at {cut}"));
        }
        fs::remove_file(&path).expect("removes");
        check(root.path(), &path, ends[3], 3, "no file");
    }

    #[test]
    fn what_a_crash_left_behind_what_was_durable_goes_without_a_word() {
        let (root, path, ends) = written(3);
        let whole = fs::read(&path).expect("reads");
        for cut in ends[2] as usize..whole.len() {
            fs::write(&path, &whole[..cut]).expect("writes");
            drop(RejectedLog::open(&path, ends[2]).expect("opens"));
            assert_eq!(listed(root.path()), (vec![0, 1], 0, true));
        }
    }

    /// As versions before have written them: a length, a CRC, the record.
    fn older(times: std::ops::Range<i64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in times {
            let record = sample(n).write();
            bytes.extend((record.len() as u32).to_le_bytes());
            bytes.extend(crc32fast::hash(&record).to_le_bytes());
            bytes.extend(record);
        }
        bytes
    }

    #[test]
    fn a_log_of_a_version_before_is_read_and_gone_on_with() {
        let (root, path, _) = written(0);
        let whole = older(0..4);
        let keep = whole.len() as u64;
        fs::write(&path, &whole).expect("writes");
        let mut log = RejectedLog::open(&path, keep).expect("opens");
        log.append(&sample(4)).expect("appends");
        let end = log.sync().expect("syncs");
        drop(log);
        assert_eq!(listed(root.path()), ((0..5).collect(), 0, true));
        let both = fs::read(&path).expect("reads");
        for at in 0..both.len() {
            let mut bytes = both.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).expect("writes");
            assert_eq!(listed(root.path()).0.len(), 4, "{at}");
            if at % 7 == 0 {
                check(root.path(), &path, end, 5, &format!("byte {at}"));
            }
        }
    }

    /// A log whose files are full after two events, and which keeps so many bytes.
    fn small(path: &Path, keep: u64, bytes_max: u64) -> RejectedLog {
        let mut log = RejectedLog::open(path, keep).expect("opens");
        (log.segment_max, log.bytes_max) = (100, bytes_max);
        log
    }

    #[test]
    fn a_full_log_drops_its_oldest_file_and_says_so() {
        let (root, path, _) = written(0);
        let mut log = small(&path, 0, 500);
        let mut keep = 0;
        for n in 0..20 {
            log.append(&sample(n)).expect("appends");
            keep = log.sync().expect("syncs");
        }
        let dropped = log.take_dropped();
        assert!(dropped > 5 && log.take_dropped() == 0, "{dropped}");
        drop(log);
        let there: Vec<i64> = (dropped as i64..20).collect();
        assert_eq!(listed(root.path()), (there.clone(), dropped, true));
        // Nothing of this is damage at a start, and places stay what they were.
        let mut log = small(&path, keep, 500);
        assert_eq!(log.len(), keep);
        log.append(&sample(20)).expect("appends");
        log.sync().expect("syncs");
        drop(log);
        assert!(!path.with_file_name("rejected.damaged-1").exists());
        // An epoch before that is gone on from: later files go.
        let found = segments(&path).expect("reads");
        let back = found[1].start + found[1].len / 2;
        let at = found[1].start;
        drop(small(&path, at, 500));
        assert_eq!(segments(&path).expect("reads").len(), 1, "{back}");
        // It is older than all that is left.
        drop(small(&path, 20, 500));
        assert_eq!(listed(root.path()).0, [0; 0]);
    }

    #[test]
    fn a_file_in_the_middle_that_is_gone_is_said() {
        let (root, path, _) = written(0);
        let mut log = small(&path, 0, 1 << 20);
        let mut keep = 0;
        for n in 0..9 {
            log.append(&sample(n)).expect("appends");
            keep = log.sync().expect("syncs");
        }
        drop(log);
        let found = segments(&path).expect("reads");
        assert!(found.len() >= 4, "{found:?}");
        fs::remove_file(&found[2].path).expect("removes");
        let (times, missing, is_exact) = listed(root.path());
        assert!(missing > 0 && times.len() as u64 + missing <= 9 && !is_exact);
        let log = RejectedLog::open(&path, keep).expect("opens");
        assert_eq!(log.len(), keep);
        drop(log);
        assert_eq!(listed(root.path()).0, times);
    }

    #[test]
    fn old_files_go() {
        let (root, path, _) = written(0);
        let mut log = small(&path, 0, 1 << 20);
        for n in 0..6 {
            log.append(&sample(n)).expect("appends");
            log.sync().expect("syncs");
        }
        let later = SystemTime::now() + AGE_MAX + Duration::from_secs(60);
        log.drop_oldest(later);
        assert_eq!(log.segments.len(), 1);
        let (times, dropped, _) = listed(root.path());
        assert_eq!(
            (times.len() as u64 + dropped, log.take_dropped()),
            (6, dropped)
        );
    }
}
