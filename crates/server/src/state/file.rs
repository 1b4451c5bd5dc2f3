//! The envelope of a snapshot: mark, version, epochs, lengths and CRC in front of the payload.

use std::fs::{self, File};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::private;
use crate::error::Error;

const MARK: &[u8; 8] = b"HWSNAP\r\n";
const VERSION: u32 = 3;

/// Bytes read at once.
const BLOCK: usize = 256 << 10;

/// What stands in front of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    pub epoch: u64,
    /// Length of the payload and its CRC.
    pub len: u64,
    pub crc: u32,
    /// Length of the log of undelivered events that belongs to the epoch.
    pub undelivered: u64,
    /// The epoch whose state the payload says the changes from; 0 where it is whole.
    pub before: u64,
    /// The run of an executor that wrote it: changes only fit a state of the same run.
    pub run: u64,
}

/// Why a file is not a snapshot to go on from.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// Torn or changed since it was written, or gone.
    Damaged(String),
    /// Written by another version; it is whole, and passing over it would lose what it holds.
    Foreign(String),
    /// It may not be opened, or no more files can be: which says nothing of what it holds.
    Closed(io::Error),
}

impl Head {
    /// Mark, version, epoch, length and CRC of the payload, undelivered, before, run, CRC of all these.
    pub const LEN: usize = 8 + 4 + 8 + 8 + 4 + 8 + 8 + 8 + 4;

    pub fn to_bytes(self) -> [u8; Head::LEN] {
        let mut head = [0; Head::LEN];
        head[..8].copy_from_slice(MARK);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[12..20].copy_from_slice(&self.epoch.to_le_bytes());
        head[20..28].copy_from_slice(&self.len.to_le_bytes());
        head[28..32].copy_from_slice(&self.crc.to_le_bytes());
        head[32..40].copy_from_slice(&self.undelivered.to_le_bytes());
        head[40..48].copy_from_slice(&self.before.to_le_bytes());
        head[48..56].copy_from_slice(&self.run.to_le_bytes());
        let crc = crc32fast::hash(&head[..56]);
        head[56..].copy_from_slice(&crc.to_le_bytes());
        head
    }

    fn read(from: &mut impl Read) -> Result<Head, Unusable> {
        let damaged = |text: &str| Unusable::Damaged(text.to_owned());
        let mut head = [0; Head::LEN];
        let torn = || damaged("it is not a snapshot, or its header is incomplete");
        from.read_exact(&mut head[..12]).map_err(|_| torn())?;
        if &head[..8] != MARK {
            return Err(torn());
        }
        let number = |at: usize, head: &[u8; Head::LEN]| {
            u32::from_le_bytes([0, 1, 2, 3].map(|i| head[at + i]))
        };
        let version = number(8, &head);
        if version != VERSION {
            return Err(Unusable::Foreign(format!(
                "it has version {version}; this build reads version {VERSION}"
            )));
        }
        from.read_exact(&mut head[12..]).map_err(|_| torn())?;
        if crc32fast::hash(&head[..56]) != number(56, &head) {
            return Err(damaged("the checksum of its header is wrong"));
        }
        let long = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| head[at + i]));
        Ok(Head {
            epoch: long(12),
            len: long(20),
            crc: number(28, &head),
            undelivered: long(32),
            before: long(40),
            run: long(48),
        })
    }

    /// The head of the snapshot of an epoch; of the payload nothing is known then.
    pub fn of(path: &Path, epoch: u64) -> Result<Head, Unusable> {
        Layer::open(path, epoch).map(|layer| layer.head)
    }
}

/// Can the file be used as the snapshot of this epoch? Reads it piece by piece.
pub(super) fn check(path: &Path, epoch: u64) -> Result<Head, Unusable> {
    Layer::open(path, epoch)?.finish()
}

/// A snapshot that is read once from front to back, and checked on the way.
pub(crate) struct Layer {
    pub head: Head,
    file: File,
    block: Vec<u8>,
    /// What of the block is still to be read.
    at: usize,
    end: usize,
    /// Of what has been read.
    crc: crc32fast::Hasher,
    len: u64,
    /// Nobody wants it any more.
    stop: Option<Arc<AtomicBool>>,
}

impl Layer {
    pub fn open(path: &Path, epoch: u64) -> Result<Layer, Unusable> {
        let mut file = File::open(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => Unusable::Damaged("it does not exist".to_owned()),
            _ => Unusable::Closed(cause),
        })?;
        let head = Head::read(&mut file)?;
        if head.epoch != epoch {
            return Err(Unusable::Damaged(format!("it holds epoch {}", head.epoch)));
        }
        Ok(Layer {
            head,
            file,
            block: Vec::new(),
            at: 0,
            end: 0,
            crc: crc32fast::Hasher::new(),
            len: 0,
            stop: None,
        })
    }

    /// Reading fails from when this is set.
    pub fn until(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = Some(Arc::clone(stop));
    }

    /// Reads what is left. Was all as it had been written?
    pub fn finish(mut self) -> Result<Head, Unusable> {
        loop {
            let count = self.fill_buf().map_err(unreadable)?.len();
            if count == 0 {
                break;
            }
            self.consume(count);
        }
        if self.len != self.head.len {
            return Err(Unusable::Damaged(format!(
                "it is incomplete: {} bytes of state remain of {}",
                self.len, self.head.len
            )));
        }
        if self.crc.finalize() != self.head.crc {
            return Err(Unusable::Damaged(
                "the checksum of its state is wrong: bytes have changed since it was written"
                    .to_owned(),
            ));
        }
        Ok(self.head)
    }
}

fn unreadable(error: io::Error) -> Unusable {
    Unusable::Damaged(format!("it cannot be read: {error}"))
}

impl Read for Layer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let block = self.fill_buf()?;
        let count = block.len().min(into.len());
        into[..count].copy_from_slice(&block[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Layer {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.end {
            if self
                .stop
                .as_ref()
                .is_some_and(|stop| stop.load(Ordering::Relaxed))
            {
                return Err(io::Error::other("it is no longer needed"));
            }
            // Of many small ones no more lies in memory than there is.
            let room = usize::try_from(self.head.len).map_or(BLOCK, |len| len.clamp(1, BLOCK));
            self.block.resize(room, 0);
            (self.at, self.end) = (0, 0);
            self.end = loop {
                match self.file.read(&mut self.block) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    result => break result?,
                }
            };
            self.crc.update(&self.block[..self.end]);
            self.len += self.end as u64;
        }
        Ok(&self.block[self.at..self.end])
    }

    fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.end);
    }
}

/// Makes what was written to a file or directory last.
pub(crate) type Fsync<'a> = dyn FnMut(&File) -> io::Result<()> + 'a;

/// Puts a file in place whole or not at all: temporary file, fsync, rename, fsync of the directory.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<(), Error> {
    write_whole_by(path, parts, &mut File::sync_all)
}

pub(super) fn write_whole_by(
    path: &Path,
    parts: &[&[u8]],
    sync: &mut Fsync<'_>,
) -> Result<(), Error> {
    // Behind the whole name: files that differ in their extension alone may be written at a time.
    let mut tmp = path.as_os_str().to_owned();
    tmp.push(".tmp");
    let tmp = std::path::PathBuf::from(tmp);
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    let file = private(&mut options).open(&tmp);
    let mut file = file.map_err(Error::file("create", &tmp))?;
    for part in parts {
        file.write_all(part).map_err(Error::file("write", &tmp))?;
    }
    sync(&file).map_err(Error::file("sync", &tmp))?;
    fs::rename(&tmp, path).map_err(Error::file("rename", &tmp))?;
    sync_parent(path, sync)
}

/// Writes a part of a file over itself. After a failed fsync the system may take pages for written
/// that are not on the disk, and the next fsync says that all is well; these it has to write.
pub(crate) fn write_again(file: &mut File, from: u64, len: u64, crc: u32) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut seen = crc32fast::Hasher::new();
    let mut at = 0;
    while at < len {
        let count = (len - at).min(BLOCK as u64) as usize;
        let part = &mut block[..count];
        file.seek(SeekFrom::Start(from + at))?;
        file.read_exact(part)?;
        seen.update(part);
        file.seek(SeekFrom::Start(from + at))?;
        file.write_all(part)?;
        at += count as u64;
    }
    if seen.finalize() != crc {
        return Err(io::Error::other("it cannot be read back after writing"));
    }
    Ok(())
}

/// The directory of a file; that of a bare name is the one of the process.
fn parent_of(path: &Path) -> Option<&Path> {
    let dir = path.parent()?;
    Some(if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    })
}

/// What was renamed in the directory of a file so far stays so.
pub(super) fn sync_parent(path: &Path, sync: &mut Fsync<'_>) -> Result<(), Error> {
    let Some(dir) = parent_of(path) else {
        return Ok(());
    };
    let synced = File::open(dir).and_then(|dir| sync(&dir));
    synced.map_err(Error::file("sync", dir))
}

/// What was created or renamed in the directory of a file so far stays so.
pub(crate) fn sync_parent_of(path: &Path) -> io::Result<()> {
    match parent_of(path) {
        Some(dir) => File::open(dir).and_then(|dir| dir.sync_all()),
        None => Ok(()),
    }
}

/// What was renamed in a directory so far stays so.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    connect::folder::sync(dir).map_err(Error::file("sync", dir))
}
