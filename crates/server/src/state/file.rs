//! The envelope of a snapshot: mark, version, epoch, length and CRC in front of the payload.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::Error;

const MARK: &[u8; 8] = b"HWSNAP\r\n";
const VERSION: u32 = 1;
/// Mark, version, epoch, length of the payload, CRC of the payload, CRC of what stands before it.
const HEAD: usize = 8 + 4 + 8 + 8 + 4 + 4;

pub(super) fn head(epoch: u64, payload: &[&[u8]]) -> [u8; HEAD] {
    let mut crc = crc32fast::Hasher::new();
    payload.iter().for_each(|part| crc.update(part));
    let len: usize = payload.iter().map(|part| part.len()).sum();
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MARK);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..20].copy_from_slice(&epoch.to_le_bytes());
    head[20..28].copy_from_slice(&(len as u64).to_le_bytes());
    head[28..32].copy_from_slice(&crc.finalize().to_le_bytes());
    let crc = crc32fast::hash(&head[..32]);
    head[32..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// Can the file be used as the snapshot of this epoch?
pub(super) fn check(path: &Path, epoch: u64) -> Result<(), String> {
    read(path, epoch).map(|_| ())
}

pub(super) fn read(path: &Path, epoch: u64) -> Result<Vec<u8>, String> {
    let mut bytes = fs::read(path).map_err(|e| e.to_string())?;
    if bytes.len() < HEAD || &bytes[..8] != MARK {
        return Err("it is no snapshot, or its head is torn".to_owned());
    }
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
    if crc32fast::hash(&bytes[..32]) != number(32) {
        return Err("the checksum of its head is wrong".to_owned());
    }
    let version = number(8);
    if version != VERSION {
        return Err(format!(
            "it has version {version}; this build reads version {VERSION}"
        ));
    }
    let long = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[at + i]));
    if long(12) != epoch {
        return Err(format!("it holds epoch {}", long(12)));
    }
    if long(20) != (bytes.len() - HEAD) as u64 {
        return Err("it is torn".to_owned());
    }
    if crc32fast::hash(&bytes[HEAD..]) != number(28) {
        return Err("its checksum is wrong".to_owned());
    }
    bytes.drain(..HEAD);
    Ok(bytes)
}

/// Puts a file in place whole or not at all: temporary file, fsync, rename, fsync of the directory.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<(), Error> {
    let tmp = path.with_extension("tmp");
    let mut file = File::create(&tmp).map_err(Error::file("create", &tmp))?;
    for part in parts {
        file.write_all(part).map_err(Error::file("write", &tmp))?;
    }
    file.sync_all().map_err(Error::file("sync", &tmp))?;
    fs::rename(&tmp, path).map_err(Error::file("rename", &tmp))?;
    if let Some(dir) = path.parent() {
        File::open(dir)
            .and_then(|d| d.sync_all())
            .map_err(Error::file("sync", dir))?;
    }
    Ok(())
}
