//! A snapshot on its way to the disk. A small one waits in memory; what is longer streams into the
//! temporary file that becomes the snapshot, so that a large state never lies in memory twice.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::{self, Fsync, Head};
use crate::error::Error;

/// Bytes that wait in memory.
const MEMORY_MAX: usize = 4 << 20;

/// Shared by the writer of the state and by who puts the file in place.
#[derive(Clone, Debug)]
pub(crate) struct Spool(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Length, CRC and the length of the log are known when it is sealed.
    head: Head,
    memory: Vec<u8>,
    file: Option<File>,
    /// The file has its name; whether that lasts is another question.
    is_named: bool,
    /// The system was asked to make it last and did not say that it has.
    is_doubtful: bool,
    crc: crc32fast::Hasher,
    len: u64,
}

impl Spool {
    pub(super) fn new(path: PathBuf, head: Head) -> Spool {
        Spool(Arc::new(Mutex::new(Inner {
            path,
            head,
            memory: Vec::new(),
            file: None,
            is_named: false,
            is_doubtful: false,
            crc: crc32fast::Hasher::new(),
            len: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the payload so far.
    pub fn len(&self) -> u64 {
        self.lock().len
    }

    /// Makes the snapshot durable; on a failure it can be tried again.
    pub fn seal(&self, undelivered: u64) -> Result<(), Error> {
        self.seal_by(undelivered, &mut File::sync_all)
    }

    fn seal_by(&self, undelivered: u64, sync: &mut Fsync<'_>) -> Result<(), Error> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let head = Head {
            len: inner.len,
            crc: inner.crc.clone().finalize(),
            undelivered,
            ..inner.head
        };
        let tmp = temporary(&inner.path);
        let Some(file) = &mut inner.file else {
            // Each try writes all of it anew.
            return file::write_whole_by(&inner.path, &[&head.to_bytes(), &inner.memory], sync);
        };
        if inner.is_doubtful {
            file::write_again(file, Head::LEN as u64, head.len, head.crc)
                .map_err(Error::file("write", &tmp))?;
        }
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&head.to_bytes()))
            .map_err(Error::file("write", &tmp))?;
        inner.is_doubtful = true;
        sync(file).map_err(Error::file("sync", &tmp))?;
        if !inner.is_named {
            fs::rename(&tmp, &inner.path).map_err(Error::file("rename", &tmp))?;
            inner.is_named = true;
        }
        file::sync_parent(&inner.path, sync)
    }
}

impl Spool {
    /// It will not be sealed: what was written of it makes room.
    pub fn discard(self) {
        let inner = self.lock();
        if !inner.is_named {
            // One that stays is removed at the next start.
            fs::remove_file(temporary(&inner.path)).ok();
        }
    }
}

impl Inner {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() > MEMORY_MAX {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            let mut file = super::private(&mut options).open(temporary(&self.path))?;
            // The head is written when all is known.
            file.write_all(&[0; Head::LEN])?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.crc.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().take(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{GroupState, StateDir};

    fn group() -> (tempfile::TempDir, GroupState) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::open(root.path()).expect("opens");
        let group = state.group(&["A".to_owned()]).expect("a new group");
        (root, group)
    }

    /// One that waits in memory, and one that has gone to the disk.
    fn payloads() -> [Vec<u8>; 2] {
        [1 << 10, MEMORY_MAX + 5].map(|len| (0..len).map(|i| (i % 251) as u8).collect())
    }

    fn failed() -> io::Error {
        io::Error::other("the disk has failed")
    }

    #[test]
    fn a_seal_that_fails_anywhere_is_tried_again() {
        for payload in payloads() {
            // The file and the directory: each fails at the first try, or at the first two.
            for fails in [&[0][..], &[1], &[0, 1], &[1, 2], &[0, 2]] {
                let (_root, group) = group();
                let mut spool = group.spool(1, None);
                spool.write_all(&payload).expect("writes");
                let mut syncs = 0..;
                let mut sync = |file: &File| -> io::Result<()> {
                    match fails.contains(&syncs.next().unwrap_or(0)) {
                        true => Err(failed()),
                        false => file.sync_all(),
                    }
                };
                let mut tries = 0;
                while let Err(error) = spool.seal_by(7, &mut sync) {
                    assert!(error.to_string().contains("cannot sync"), "{error}");
                    tries += 1;
                    assert!(tries <= fails.len(), "{fails:?}");
                }
                assert_eq!(tries, fails.len());
                assert!(group.read(1).expect("it is there") == (7, payload.clone()));
                assert!(!temporary(&group.path("snapshot-1")).exists());
            }
        }
    }

    #[test]
    fn what_cannot_be_written_again_is_not_said_to_be_durable() {
        let [_, payload] = payloads();
        let (_root, group) = group();
        let mut spool = group.spool(1, None);
        spool.write_all(&payload).expect("writes");
        // A page that was taken for written and then dropped.
        let mut sync = |mut file: &File| -> io::Result<()> {
            file.seek(SeekFrom::Start(1 << 20))?;
            file.write_all(b"what was there before")?;
            Err(failed())
        };
        assert!(spool.seal_by(7, &mut sync).is_err());
        let lost = spool.seal(7).expect_err("the payload is not what it was");
        let said = crate::report::chain(&lost);
        assert!(said.contains("cannot be read back"), "{said}");
        assert!(spool.seal(7).is_err());
        assert_eq!(group.find().expect("reads").epochs, [0; 0]);
    }

    /// `/dev/full` says what a disk without room says.
    #[test]
    fn without_room_nothing_is_put_in_place() {
        for payload in payloads() {
            let (_root, group) = group();
            let mut spool = group.spool(1, None);
            let tmp = temporary(&group.path("snapshot-1"));
            std::os::unix::fs::symlink("/dev/full", &tmp).expect("a link");
            let sealed = spool
                .write_all(&payload)
                .map_err(Error::file("write", &tmp));
            let error = sealed.and_then(|()| spool.seal(7)).expect_err("it is full");
            let said = crate::report::chain(&error);
            assert!(said.contains("No space left"), "{said}");
            spool.discard();
            assert!(!tmp.exists() && group.find().expect("reads").epochs.is_empty());
        }
    }
}
