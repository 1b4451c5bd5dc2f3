//! How far a file source has come, as bytes in a checkpoint.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use event::codec::{Error, Reader, Writer};

use connect::component::PositionText;

use super::effects::hash;

/// Version of the bytes.
const VERSION: u8 = 1;

/// What tells a file from another that stands under its name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// Nanoseconds since 1970; 0 where the file system does not keep it.
    born: i64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
}

impl Identity {
    pub fn of(found: &Metadata) -> Identity {
        let born = found
            .created()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Identity {
            device: found.dev(),
            inode: found.ino(),
            born: born.map_or(0, |age| age.as_nanos() as i64),
            size: found.len(),
            modified: found
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(found.mtime_nsec()),
        }
    }

    /// The same file, which may have grown; or a copy of it in every detail that a copy keeps.
    pub fn is_same_file(&self, other: &Identity) -> bool {
        let same_place =
            (self.device, self.inode, self.born) == (other.device, other.inode, other.born);
        same_place || (self.size, self.modified) == (other.size, other.modified)
    }

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.device);
        writer.u64(self.inode);
        writer.i64(self.born);
        writer.u64(self.size);
        writer.i64(self.modified);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Identity, Error> {
        Ok(Identity {
            device: reader.u64()?,
            inode: reader.u64()?,
            born: reader.i64()?,
            size: reader.u64()?,
            modified: reader.i64()?,
        })
    }
}

/// A file of the input. Its path is what `trp:file.path` says; it may have been moved since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    pub path: PathBuf,
    pub place: PathBuf,
    pub identity: Identity,
}

impl InputFile {
    fn write(&self, writer: &mut Writer) {
        writer.blob(self.path.as_os_str().as_bytes());
        writer.blob(self.place.as_os_str().as_bytes());
        self.identity.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<InputFile, Error> {
        Ok(InputFile {
            path: OsStr::from_bytes(reader.blob()?).into(),
            place: OsStr::from_bytes(reader.blob()?).into(),
            identity: Identity::read(reader)?,
        })
    }
}

/// The file being read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    pub file: InputFile,
    /// Everything before this byte has been posted.
    pub offset: u64,
    /// Number of the line at `offset`, from 1.
    pub line: u64,
    /// Header lines still to be left out.
    pub header_left: u32,
    /// Messages posted so far, in mode `binary.chunked`.
    pub pieces: u64,
}

impl Current {
    /// Nothing of the file has been read.
    pub fn start(file: InputFile, header_lines: u32) -> Current {
        Current {
            file,
            offset: 0,
            line: 1,
            header_left: header_lines,
            pieces: 0,
        }
    }
}

/// Everything a source must know to go on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Position {
    /// Files that stay where they are and are not read again, by hashes of path and identity; the
    /// second is 0 where any file of that path counts.
    pub done: BTreeMap<u64, u64>,
    /// Read to the end, after-action not done yet.
    pub pending: Vec<InputFile>,
    pub current: Option<Current>,
    /// At least one file has been read to its end.
    pub has_read: bool,
}

impl Position {
    /// For a person.
    pub fn text(&self) -> PositionText {
        let mut text = Vec::new();
        let mut say = |name: &str, value: String| text.push((name.to_owned(), value));
        if let Some(current) = &self.current {
            say("file", current.file.path.display().to_string());
            say("byte", current.offset.to_string());
            say("line", current.line.to_string());
        }
        for file in &self.pending {
            say("read to its end", file.path.display().to_string());
        }
        say("files done", self.done.len().to_string());
        text
    }
}

/// Identifies a path in [`Position::done`].
pub fn path_hash(path: &Path) -> u64 {
    hash(path.as_os_str().as_encoded_bytes())
}

/// Identifies a file of that path in [`Position::done`].
pub fn identity_hash(identity: &Identity) -> u64 {
    let mut writer = Writer::default();
    identity.write(&mut writer);
    hash(&writer.bytes).max(1)
}

impl Position {
    /// Is this file, found under this path, one that was read and stays?
    pub fn is_done(&self, path: &Path, identity: &Identity) -> bool {
        let done = self.done.get(&path_hash(path));
        done.is_some_and(|&done| done == 0 || done == identity_hash(identity))
    }

    pub fn write(&self, bytes: &mut Vec<u8>) {
        let mut writer = Writer::behind(std::mem::take(bytes));
        writer.u8(VERSION);
        writer.count(self.done.len());
        for (path, identity) in &self.done {
            writer.u64(*path);
            writer.u64(*identity);
        }
        writer.count(self.pending.len());
        self.pending.iter().for_each(|file| file.write(&mut writer));
        writer.bool(self.has_read);
        writer.bool(self.current.is_some());
        if let Some(current) = &self.current {
            current.file.write(&mut writer);
            writer.u64(current.offset);
            writer.u64(current.line);
            writer.u32(current.header_left);
            writer.u64(current.pieces);
        }
        *bytes = writer.bytes;
    }

    pub fn read(bytes: &[u8]) -> Result<Position, Error> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(Error::Mark {
                mark: version,
                at: 0,
            });
        }
        let done = reader.count()?;
        let done = (0..done)
            .map(|_| Ok((reader.u64()?, reader.u64()?)))
            .collect::<Result<_, Error>>()?;
        let pending = reader.count()?;
        let pending = (0..pending)
            .map(|_| InputFile::read(&mut reader))
            .collect::<Result<_, _>>()?;
        let has_read = reader.bool()?;
        let current = if reader.bool()? {
            Some(Current {
                file: InputFile::read(&mut reader)?,
                offset: reader.u64()?,
                line: reader.u64()?,
                header_left: reader.u32()?,
                pieces: reader.u64()?,
            })
        } else {
            None
        };
        Ok(Position {
            done,
            pending,
            current,
            has_read,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_and_a_torn_one_is_refused() {
        let file = InputFile {
            path: "/in/a b.csv".into(),
            place: "/moved/a b.csv".into(),
            identity: Identity {
                device: 1,
                inode: 2,
                born: 3,
                size: 4,
                modified: 5,
            },
        };
        let position = Position {
            done: [(1, 0), (2, 3)].into(),
            pending: vec![file.clone()],
            current: Some(Current {
                file,
                offset: 9,
                line: 3,
                header_left: 1,
                pieces: 7,
            }),
            has_read: true,
        };
        let mut bytes = Vec::new();
        position.write(&mut bytes);
        assert_eq!(Position::read(&bytes), Ok(position));
        for cut in 0..bytes.len() {
            assert!(Position::read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        bytes[0] = 99;
        assert!(Position::read(&bytes).is_err());
    }
}
