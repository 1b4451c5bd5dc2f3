//! A snapshot on its way to the disk. A small one waits in memory; what is longer streams into the
//! temporary file that becomes the snapshot, so that a large state never lies in memory twice.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::{Head, put_in_place, write_whole};
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
        let mut inner = self.lock();
        let inner = &mut *inner;
        let head = Head {
            len: inner.len,
            crc: inner.crc.clone().finalize(),
            undelivered,
            ..inner.head
        };
        let tmp = temporary(&inner.path);
        match &mut inner.file {
            None => write_whole(&inner.path, &[&head.to_bytes(), &inner.memory]),
            Some(file) => {
                file.seek(SeekFrom::Start(0))
                    .and_then(|_| file.write_all(&head.to_bytes()))
                    .map_err(Error::file("write", &tmp))?;
                put_in_place(file, &tmp, &inner.path)
            }
        }
    }
}

impl Spool {
    /// It will not be sealed.
    pub(super) fn discard(self) {
        let mut inner = self.lock();
        if inner.file.take().is_some() {
            // What is left of it is written over.
            std::fs::remove_file(temporary(&inner.path)).ok();
        }
    }
}

impl Inner {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() > MEMORY_MAX {
            let mut file = File::create(temporary(&self.path))?;
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
