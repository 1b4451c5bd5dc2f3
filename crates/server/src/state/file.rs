//! The envelope of a snapshot: mark, version, epoch, lengths and CRC in front of the payload.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use crate::error::Error;

const MARK: &[u8; 8] = b"HWSNAP\r\n";
const VERSION: u32 = 2;

/// What stands in front of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Head {
    pub epoch: u64,
    /// Length of the payload and its CRC.
    pub len: u64,
    pub crc: u32,
    /// Length of the log of undelivered events that belongs to the epoch.
    pub undelivered: u64,
}

/// Why a file is no snapshot to go on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unusable {
    /// Torn or changed since it was written.
    Damaged(String),
    /// Written by another version; it is whole, and passing over it would lose what it holds.
    Foreign(String),
}

impl Head {
    /// Mark, version, epoch, length and CRC of the payload, undelivered, CRC of all these.
    pub const LEN: usize = 8 + 4 + 8 + 8 + 4 + 8 + 4;

    pub fn to_bytes(self) -> [u8; Head::LEN] {
        let mut head = [0; Head::LEN];
        head[..8].copy_from_slice(MARK);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[12..20].copy_from_slice(&self.epoch.to_le_bytes());
        head[20..28].copy_from_slice(&self.len.to_le_bytes());
        head[28..32].copy_from_slice(&self.crc.to_le_bytes());
        head[32..40].copy_from_slice(&self.undelivered.to_le_bytes());
        let crc = crc32fast::hash(&head[..40]);
        head[40..].copy_from_slice(&crc.to_le_bytes());
        head
    }

    fn read(from: &mut impl Read) -> Result<Head, Unusable> {
        let damaged = |text: &str| Unusable::Damaged(text.to_owned());
        let mut head = [0; Head::LEN];
        let torn = || damaged("it is no snapshot, or its head is torn");
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
        if crc32fast::hash(&head[..40]) != number(40, &head) {
            return Err(damaged("the checksum of its head is wrong"));
        }
        let long = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| head[at + i]));
        Ok(Head {
            epoch: long(12),
            len: long(20),
            crc: number(28, &head),
            undelivered: long(32),
        })
    }
}

/// Can the file be used as the snapshot of this epoch? Reads it piece by piece.
pub(super) fn check(path: &Path, epoch: u64) -> Result<(), Unusable> {
    visit(path, epoch, |_| ()).map(|_| ())
}

pub(super) fn read(path: &Path, epoch: u64) -> Result<(Head, Vec<u8>), Unusable> {
    let mut bytes = Vec::new();
    let head = visit(path, epoch, |piece| bytes.extend_from_slice(piece))?;
    Ok((head, bytes))
}

fn visit(path: &Path, epoch: u64, mut each: impl FnMut(&[u8])) -> Result<Head, Unusable> {
    const PIECE: usize = 256 << 10;
    let unreadable = |e: std::io::Error| Unusable::Damaged(e.to_string());
    let mut file = File::open(path).map_err(unreadable)?;
    let head = Head::read(&mut file)?;
    if head.epoch != epoch {
        return Err(Unusable::Damaged(format!("it holds epoch {}", head.epoch)));
    }
    let mut crc = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE];
    let mut len = 0;
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(unreadable(e)),
        };
        len += count as u64;
        crc.update(&piece[..count]);
        each(&piece[..count]);
    }
    if len != head.len {
        return Err(Unusable::Damaged("it is torn".to_owned()));
    }
    if crc.finalize() != head.crc {
        return Err(Unusable::Damaged("its checksum is wrong".to_owned()));
    }
    Ok(head)
}

/// Puts a file in place whole or not at all: temporary file, fsync, rename, fsync of the directory.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<(), Error> {
    let tmp = path.with_extension("tmp");
    let mut file = File::create(&tmp).map_err(Error::file("create", &tmp))?;
    for part in parts {
        file.write_all(part).map_err(Error::file("write", &tmp))?;
    }
    put_in_place(&file, &tmp, path)
}

/// Makes a finished temporary file the file of this name.
pub(super) fn put_in_place(file: &File, tmp: &Path, path: &Path) -> Result<(), Error> {
    file.sync_all().map_err(Error::file("sync", tmp))?;
    fs::rename(tmp, path).map_err(Error::file("rename", tmp))?;
    if let Some(dir) = path.parent() {
        File::open(dir)
            .and_then(|d| d.sync_all())
            .map_err(Error::file("sync", dir))?;
    }
    Ok(())
}
