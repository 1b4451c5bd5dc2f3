//! Events that were rejected, kept under `--state` until someone looks at them.
//!
//! An append-only file per group of apps; each record has a length and a CRC, so that a torn tail
//! is found and cut off. Its length is part of every snapshot: after a crash the file is cut back
//! to it, and what is then rejected again stands in it once.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::codec::{Reader, Writer};

use crate::error::Error;
use crate::state::{Fsync, write_again};

/// Bytes of a payload that are kept; of a longer one the rest is counted only.
const PAYLOAD_MAX: usize = 64 * 1024;

/// A record longer than this is damage.
const RECORD_MAX: usize = 1 << 20;

/// Bytes that wait to be written.
const PENDING_MAX: usize = 8 << 10;

/// One event, line or chunk that an app could not take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejection {
    /// Milliseconds since 1970.
    pub time: i64,
    pub app: String,
    pub stream: String,
    /// Where it came from or where it failed: `/data/in.csv, line 17`, query `totals`.
    pub place: String,
    pub cause: String,
    pub payload: Vec<u8>,
    /// Bytes of the payload before it was cut.
    pub payload_bytes: u64,
}

impl Rejection {
    /// A rejection of this payload, cut to what is kept.
    pub fn of_payload(payload: &[u8]) -> Rejection {
        Rejection {
            payload: payload[..payload.len().min(PAYLOAD_MAX)].to_vec(),
            payload_bytes: payload.len() as u64,
            ..Rejection::default()
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(1);
        writer.i64(self.time);
        for text in [&self.app, &self.stream, &self.place, &self.cause] {
            writer.str(text);
        }
        writer.u64(self.payload_bytes);
        writer.blob(&self.payload);
        writer.bytes
    }

    fn read(bytes: &[u8]) -> Result<Rejection, event::codec::Error> {
        let mut reader = Reader::new(bytes);
        let mark = reader.u8()?;
        if mark != 1 {
            return Err(event::codec::Error::Mark { mark, at: 0 });
        }
        Ok(Rejection {
            time: reader.i64()?,
            app: reader.str()?.to_owned(),
            stream: reader.str()?.to_owned(),
            place: reader.str()?.to_owned(),
            cause: reader.str()?.to_owned(),
            payload_bytes: reader.u64()?,
            payload: reader.blob()?.to_vec(),
        })
    }
}

/// The file, open for appending.
#[derive(Debug)]
pub struct RejectedLog {
    path: PathBuf,
    file: File,
    /// Whole records behind what was written. They are written at its end, also where a try before
    /// has written a part of them: what follows is never behind half a record.
    pending: Vec<u8>,
    written: u64,
    /// Up to where it is known to last, and the CRC of what was written behind that.
    durable: u64,
    crc: crc32fast::Hasher,
    /// The system was asked to make it last and did not say that it has.
    is_doubtful: bool,
}

impl RejectedLog {
    /// Opens or creates the file and cuts it to `keep` bytes, or to its last whole record.
    pub fn open(path: &Path, keep: u64) -> Result<RejectedLog, Error> {
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(Error::file("open", path))?;
        let whole = whole_records(&mut file).map_err(Error::file("read", path))?;
        let len = keep.min(whole);
        file.set_len(len)
            .and_then(|()| file.seek(SeekFrom::Start(len)))
            .map_err(Error::file("cut", path))?;
        Ok(RejectedLog {
            path: path.to_owned(),
            file,
            pending: Vec::new(),
            written: len,
            durable: len,
            crc: crc32fast::Hasher::new(),
            is_doubtful: false,
        })
    }

    /// After a failure the rejection is not kept, and what was before it is.
    pub fn append(&mut self, rejection: &Rejection) -> Result<(), Error> {
        let record = rejection.write();
        let before = self.pending.len();
        self.pending.extend_from_slice(&record_head(&record));
        self.pending.extend_from_slice(&record);
        if self.pending.len() < PENDING_MAX {
            return Ok(());
        }
        self.write().map_err(|cause| {
            self.pending.truncate(before);
            Error::file("write", &self.path)(cause)
        })
    }

    /// Bytes of all records.
    fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Makes what was appended durable; the length belongs into the snapshot.
    pub fn sync(&mut self) -> Result<u64, Error> {
        self.sync_by(&mut File::sync_data)
    }

    fn sync_by(&mut self, sync: &mut Fsync<'_>) -> Result<u64, Error> {
        self.make_durable(sync)
            .map_err(Error::file("sync", &self.path))?;
        Ok(self.durable)
    }

    fn make_durable(&mut self, sync: &mut Fsync<'_>) -> io::Result<()> {
        self.write()?;
        if self.is_doubtful {
            let len = self.written - self.durable;
            write_again(
                &mut self.file,
                self.durable,
                len,
                self.crc.clone().finalize(),
            )?;
        }
        self.is_doubtful = true;
        sync(&self.file)?;
        self.is_doubtful = false;
        self.durable = self.written;
        self.crc = crc32fast::Hasher::new();
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.crc.update(&self.pending);
        self.pending.clear();
        Ok(())
    }
}

impl Drop for RejectedLog {
    /// What no snapshot covers is there to be looked at until the next start.
    fn drop(&mut self) {
        self.write().ok();
    }
}

/// The log of a group, written to by its lane or by the threads of its sinks and stores. Without
/// `--state` nothing is kept; the events are counted all the same.
#[derive(Clone, Default)]
pub(crate) struct SharedLog(Arc<Mutex<Option<RejectedLog>>>);

impl SharedLog {
    fn lock(&self) -> MutexGuard<'_, Option<RejectedLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, log: RejectedLog) {
        *self.lock() = Some(log);
    }

    /// A full disk must not stop the healthy events: it is said, and the rejection only counted.
    pub fn keep(&self, rejection: Rejection) {
        let mut log = self.lock();
        let Some(log) = log.as_mut() else { return };
        if let Err(error) = log.append(&rejection) {
            tracing::error!(
                cause = crate::report::chain(&error),
                "a rejected event cannot be kept"
            );
        }
    }

    /// Length up to which the log is durable; 0 where nothing is kept.
    pub fn sync(&self) -> Result<u64, Error> {
        self.lock().as_mut().map_or(Ok(0), RejectedLog::sync)
    }

    /// Length so far.
    pub fn len(&self) -> u64 {
        self.lock().as_ref().map_or(0, RejectedLog::len)
    }
}

fn record_head(record: &[u8]) -> [u8; 8] {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&(record.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(record).to_le_bytes());
    head
}

/// Bytes up to the end of the last whole record.
fn whole_records(file: &mut File) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let mut records = Records {
        file: BufReader::new(file),
    };
    let mut whole = 0;
    while let Some(record) = records.next_record()? {
        whole += (8 + record.len()) as u64;
    }
    Ok(whole)
}

struct Records<R> {
    file: R,
}

impl<R: Read> Records<R> {
    /// `None` at the end and at damage.
    fn next_record(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut head = [0; 8];
        if !read_whole(&mut self.file, &mut head)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        // No record is empty, but zeros that a crash has left behind the last would read as such.
        if length == 0 || length > RECORD_MAX {
            return Ok(None);
        }
        let mut record = vec![0; length];
        let is_whole = read_whole(&mut self.file, &mut record)?;
        Ok((is_whole && record_head(&record) == head).then_some(record))
    }
}

fn read_whole(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// Rejected by sources and queries, and by sinks and stores: two files, because the second is
/// written while the snapshot that covers it is on its way.
pub(crate) const FILES: [&str; 2] = ["rejected", "undelivered"];

/// Every rejected event below a state directory, in the order of rejection.
pub fn read_all(root: &Path) -> Result<Vec<Rejection>, Error> {
    let mut all = Vec::new();
    let groups = crate::state::groups_in(root)?;
    let files = groups
        .iter()
        .flat_map(|(dir, _)| FILES.iter().map(|name| dir.join(name)));
    for path in files {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::file("open", path)(e)),
        };
        let mut records = Records {
            file: BufReader::new(file),
        };
        while let Some(record) = records.next_record().map_err(Error::file("read", &path))? {
            all.push(Rejection::read(&record).map_err(|e| Error::State {
                path: path.clone(),
                message: e.to_string(),
            })?);
        }
    }
    all.sort_by_key(|r: &Rejection| r.time);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: i64) -> Rejection {
        Rejection {
            time: n,
            app: "A".into(),
            stream: "S".into(),
            place: format!("in.csv:{n}"),
            cause: "column 2 is no double".into(),
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
        let log = RejectedLog::open(&path, u64::MAX).expect("opens");
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

    #[test]
    fn a_huge_payload_is_cut_and_its_size_kept() {
        let rejection = Rejection::of_payload(&vec![b'x'; PAYLOAD_MAX + 5]);
        assert_eq!(rejection.payload.len(), PAYLOAD_MAX);
        assert_eq!(rejection.payload_bytes, PAYLOAD_MAX as u64 + 5);
    }
}
