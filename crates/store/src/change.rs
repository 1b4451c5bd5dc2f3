//! What a transaction does to a table, and its form in the log.

use event::codec::{Error as CodecError, Reader, Writer};
use event::{Batch, Type};

use crate::key::Key;

/// Version of the frames.
pub(crate) const VERSION: u32 = 1;

/// Rows that go and rows that come. Those that go go first: an update is both.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Of a table without a key.
    pub deleted_ids: Vec<u64>,
    /// Of a table with one.
    pub deleted_keys: Vec<Key>,
    /// Numbers of the rows that come.
    pub ids: Vec<u64>,
    pub rows: Batch,
}

/// The first record of each file of the log: what those before it have said, in short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Names the store that the log belongs to.
    pub store: String,
    /// Number of the next transaction or commit.
    pub sequence: u64,
    /// Number of the next row.
    pub row: u64,
    /// Where each app stands.
    pub epochs: Vec<Noted>,
}

/// The last epoch that an app has committed, and in which state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    pub app: String,
    pub epoch: u64,
    pub key: Vec<u8>,
}

/// All changes of a transaction count from here on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Commit {
    pub transaction: u64,
    /// Ascends from commit to commit; a table knows up to which one its files hold the rows.
    pub sequence: u64,
    pub epochs: Vec<Noted>,
}

/// A record of the log.
#[derive(Debug)]
pub(crate) enum Frame {
    Head(Head),
    Changes {
        transaction: u64,
        table: String,
        types: Vec<Type>,
        changes: Vec<Change>,
    },
    Commit(Commit),
    Abort {
        transaction: u64,
    },
}

const HEAD: u8 = 1;
const CHANGES: u8 = 2;
const COMMIT: u8 = 3;
const ABORT: u8 = 4;

fn write_epochs(epochs: &[Noted], out: &mut Writer) {
    out.count(epochs.len());
    for noted in epochs {
        out.str(&noted.app);
        out.u64(noted.epoch);
        out.blob(&noted.key);
    }
}

fn read_epochs(from: &mut Reader<'_>) -> Result<Vec<Noted>, CodecError> {
    let mut epochs = Vec::new();
    for _ in 0..from.count()? {
        epochs.push(Noted {
            app: from.str()?.to_owned(),
            epoch: from.u64()?,
            key: from.blob()?.to_vec(),
        });
    }
    Ok(epochs)
}

/// Numbers as runs of those that follow each other.
fn write_ids(ids: &[u64], out: &mut Writer) {
    let is_next = |a: &u64, b: &u64| a.checked_add(1) == Some(*b);
    let runs = || ids.chunk_by(is_next);
    out.count(runs().count());
    for run in runs() {
        out.varint(u128::from(run[0]));
        out.varint(run.len() as u128);
    }
}

fn read_ids(from: &mut Reader<'_>) -> Result<Vec<u64>, CodecError> {
    let mut ids = Vec::new();
    for _ in 0..from.count()? {
        let first = from.varint()? as u64;
        let len = from.varint()? as u64;
        // A frame has at most as many rows as a batch, whose number is 32 bits wide.
        if ids.len() as u64 + len > u64::from(u32::MAX) {
            return Err(CodecError::Mismatch("too many rows".into()));
        }
        ids.extend((0..len).map(|at| first.wrapping_add(at)));
    }
    Ok(ids)
}

impl Change {
    fn write(&self, out: &mut Writer) {
        write_ids(&self.deleted_ids, out);
        out.count(self.deleted_keys.len());
        self.deleted_keys.iter().for_each(|key| out.blob(key));
        write_ids(&self.ids, out);
        out.rows(&self.rows);
    }

    fn read(types: &[Type], from: &mut Reader<'_>) -> Result<Change, CodecError> {
        let deleted_ids = read_ids(from)?;
        let mut deleted_keys = Vec::new();
        for _ in 0..from.count()? {
            deleted_keys.push(from.blob()?.into());
        }
        let ids = read_ids(from)?;
        let rows = from.rows(types, 0)?;
        if rows.len != ids.len() {
            return Err(CodecError::Mismatch(format!(
                "{} rows and {} numbers",
                rows.len,
                ids.len()
            )));
        }
        Ok(Change {
            deleted_ids,
            deleted_keys,
            ids,
            rows,
        })
    }
}

/// The bytes of a frame of changes.
pub(crate) fn changes_frame(
    transaction: u64,
    table: &str,
    types: &[Type],
    changes: &[Change],
) -> Vec<u8> {
    let mut out = Writer::default();
    out.u8(CHANGES);
    out.u64(transaction);
    out.str(table);
    out.count(types.len());
    for ty in types {
        let at = Type::ALL.iter().position(|other| other == ty);
        out.u8(at.unwrap_or_default() as u8);
    }
    out.count(changes.len());
    changes.iter().for_each(|change| change.write(&mut out));
    out.bytes
}

impl Head {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(HEAD);
        out.u32(VERSION);
        out.str(&self.store);
        out.u64(self.sequence);
        out.u64(self.row);
        write_epochs(&self.epochs, &mut out);
        out.bytes
    }
}

impl Commit {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(COMMIT);
        out.u64(self.transaction);
        out.u64(self.sequence);
        write_epochs(&self.epochs, &mut out);
        out.bytes
    }
}

pub(crate) fn abort_frame(transaction: u64) -> Vec<u8> {
    let mut out = Writer::default();
    out.u8(ABORT);
    out.u64(transaction);
    out.bytes
}

/// Why a whole record is no frame of this version.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Version(u32),
    Codec(CodecError),
}

impl From<CodecError> for Unreadable {
    fn from(cause: CodecError) -> Unreadable {
        Unreadable::Codec(cause)
    }
}

impl Frame {
    pub fn read(bytes: &[u8]) -> Result<Frame, Unreadable> {
        let mut from = Reader::new(bytes);
        let frame = match from.u8()? {
            HEAD => {
                let version = from.u32()?;
                if version != VERSION {
                    return Err(Unreadable::Version(version));
                }
                Frame::Head(Head {
                    store: from.str()?.to_owned(),
                    sequence: from.u64()?,
                    row: from.u64()?,
                    epochs: read_epochs(&mut from)?,
                })
            }
            CHANGES => {
                let transaction = from.u64()?;
                let table = from.str()?.to_owned();
                let mut types = Vec::new();
                for _ in 0..from.count()? {
                    let at = from.u8()? as usize;
                    let ty = Type::ALL.get(at).copied();
                    types.push(ty.ok_or_else(|| CodecError::Mismatch("an unknown type".into()))?);
                }
                let mut changes = Vec::new();
                for _ in 0..from.count()? {
                    changes.push(Change::read(&types, &mut from)?);
                }
                Frame::Changes {
                    transaction,
                    table,
                    types,
                    changes,
                }
            }
            COMMIT => Frame::Commit(Commit {
                transaction: from.u64()?,
                sequence: from.u64()?,
                epochs: read_epochs(&mut from)?,
            }),
            ABORT => Frame::Abort {
                transaction: from.u64()?,
            },
            kind => {
                let message = format!("a record of kind {kind}");
                return Err(CodecError::Mismatch(message).into());
            }
        };
        match from.is_done() {
            true => Ok(frame),
            false => Err(CodecError::Mismatch("bytes behind the end".into()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Chunks, Column, Times};

    #[test]
    fn frames_come_back() {
        let rows = Batch::new(
            vec![Column::longs_from(vec![5, 6, 7])],
            3,
            Times::per_row(vec![10, 10, 12]),
            Chunks::One,
            0,
        );
        let change = Change {
            deleted_ids: vec![3, 4, 5, 9],
            deleted_keys: vec![std::sync::Arc::from(&b"key"[..])],
            ids: vec![100, 101, 7],
            rows,
        };
        let bytes = changes_frame(8, "t", &[Type::Long], std::slice::from_ref(&change));
        let Frame::Changes {
            transaction,
            table,
            types,
            changes,
        } = Frame::read(&bytes).expect("it was written")
        else {
            panic!("another frame");
        };
        assert_eq!(
            (transaction, table.as_str(), types),
            (8, "t", vec![Type::Long])
        );
        let [back] = &changes[..] else { panic!("one") };
        assert_eq!(back.deleted_ids, change.deleted_ids);
        assert_eq!(back.deleted_keys, change.deleted_keys);
        assert_eq!(back.ids, change.ids);
        let row = |batch: &Batch, at: usize| (batch.row(at), batch.times.at(at));
        assert!((0..3).all(|at| row(&back.rows, at) == row(&change.rows, at)));
        // No part of a frame is one.
        for end in 0..bytes.len() {
            assert!(Frame::read(&bytes[..end]).is_err(), "{end}");
        }
        let noted = vec![Noted {
            app: "A".into(),
            epoch: 7,
            key: vec![1, 2],
        }];
        let head = Head {
            store: "id".into(),
            sequence: 4,
            row: 5,
            epochs: noted.clone(),
        };
        assert!(matches!(Frame::read(&head.to_bytes()), Ok(Frame::Head(h)) if h == head));
        let commit = Commit {
            transaction: 1,
            sequence: 2,
            epochs: noted,
        };
        assert!(matches!(Frame::read(&commit.to_bytes()), Ok(Frame::Commit(c)) if c == commit));
        let abort = Frame::read(&abort_frame(3));
        assert!(matches!(abort, Ok(Frame::Abort { transaction: 3 })));
    }
}
