//! Reads rejected events, also while a server continues to write them.
//!
//! One record of each log is in memory, however many there are.

use std::path::{Path, PathBuf};

use super::segments::{LogReader, Piece};
use super::{FILES, Rejection};
use crate::error::Error;

/// Why rejected events are not there any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Bytes have changed or are missing.
    Damaged,
    /// The same, found when a server started, which has set aside what was there.
    SetAside,
    /// They were beyond the bounds of the log.
    Dropped,
}

/// Rejected events of one log that are not there any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    pub log: PathBuf,
    pub why: Why,
    pub bytes: u64,
    /// How many there were, at least.
    pub events: u64,
    /// No more than that.
    pub is_exact: bool,
}

/// Every rejected event below a state directory, in the order of rejection.
#[derive(Debug)]
pub struct Kept {
    logs: Vec<KeptLog>,
    missing: Vec<Missing>,
}

#[derive(Debug)]
struct KeptLog {
    path: PathBuf,
    reader: LogReader,
    /// The next one; `None` at the end.
    next: Option<Rejection>,
}

impl Kept {
    /// # Errors
    /// A file cannot be read.
    pub fn open(root: &Path) -> Result<Kept, Error> {
        let mut kept = Kept {
            logs: Vec::new(),
            missing: Vec::new(),
        };
        for dir in crate::state::group_dirs(root)? {
            let durable = crate::state::durable_lengths(&dir);
            for (name, durable) in FILES.iter().zip(durable) {
                kept.add(dir.join(name), durable)?;
            }
        }
        Ok(kept)
    }

    fn add(&mut self, path: PathBuf, durable: u64) -> Result<(), Error> {
        let reader = LogReader::open(&path, durable, u64::MAX);
        let reader = reader.map_err(Error::file("read", &path))?;
        let mut log = KeptLog {
            path,
            reader,
            next: None,
        };
        let dropped = log.reader.at();
        log.advance(&mut self.missing)?;
        if dropped > 0 {
            let first = log
                .reader
                .segments
                .first()
                .and_then(|segment| segment.first);
            self.missing.push(Missing {
                log: log.path.clone(),
                why: Why::Dropped,
                bytes: dropped,
                events: u64::from(first.unwrap_or(1)),
                is_exact: first.is_some(),
            });
        }
        self.logs.push(log);
        Ok(())
    }

    /// The next event. Where the clock was set back, those of one log stay in their order.
    ///
    /// # Errors
    /// A file cannot be read, or was written by another version.
    pub fn next_event(&mut self) -> Result<Option<Rejection>, Error> {
        let waiting = self.logs.iter_mut().filter(|log| log.next.is_some());
        let first = waiting.min_by_key(|log| log.next.as_ref().map(|next| next.time));
        match first {
            Some(log) => log.advance(&mut self.missing),
            None => Ok(None),
        }
    }

    /// What is missing of what has been read so far.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }
}

/// How much a log of a group has.
#[derive(Clone, Debug)]
pub struct LogContent {
    pub path: PathBuf,
    pub events: u64,
    /// Of its files.
    pub bytes: u64,
    pub missing: Vec<Missing>,
}

/// Reads the logs of rejected and of undelivered events of a group, and counts.
///
/// # Errors
/// A file cannot be read, or was written by another version.
pub(crate) fn content_of(dir: &Path) -> Result<[LogContent; 2], Error> {
    let durable = crate::state::durable_lengths(dir);
    let count = |name: &str, durable: u64| {
        let path = dir.join(name);
        let mut kept = Kept {
            logs: Vec::new(),
            missing: Vec::new(),
        };
        kept.add(path.clone(), durable)?;
        let segments = kept.logs.iter().flat_map(|log| &log.reader.segments);
        let bytes = segments.map(|segment| segment.len).sum();
        let mut events = 0;
        while kept.next_event()?.is_some() {
            events += 1;
        }
        Ok(LogContent {
            path,
            events,
            bytes,
            missing: kept.missing,
        })
    };
    let [rejected, undelivered] = FILES;
    Ok([
        count(rejected, durable[0])?,
        count(undelivered, durable[1])?,
    ])
}

impl KeptLog {
    /// Gives the one that was the next.
    fn advance(&mut self, missing: &mut Vec<Missing>) -> Result<Option<Rejection>, Error> {
        let before = self.next.take();
        loop {
            let piece = self
                .reader
                .next()
                .map_err(Error::file("read", &self.path))?;
            let (why, bytes, records) = match piece {
                None => break,
                Some(Piece::Record) => {
                    let read = Rejection::read(&self.reader.record);
                    self.next = Some(read.map_err(|e| Error::State {
                        path: self.path.clone(),
                        message: e.to_string(),
                    })?);
                    break;
                }
                Some(Piece::Gap { bytes, records }) => (Why::SetAside, bytes, records),
                // A server is writing it, or was killed when it did.
                Some(Piece::Damage(damage)) if damage.end == Some(event::record::End::Torn) => {
                    continue;
                }
                Some(Piece::Damage(damage)) => (Why::Damaged, damage.bytes, damage.records),
            };
            self.note(missing, why, bytes, records);
        }
        Ok(before)
    }

    fn note(&self, missing: &mut Vec<Missing>, why: Why, bytes: u64, records: Option<u32>) {
        let events = u64::from(records.unwrap_or(1));
        let known = missing
            .iter_mut()
            .find(|m| m.log == self.path && m.why == why);
        match known {
            Some(known) => {
                known.bytes += bytes;
                known.events += events;
                known.is_exact &= records.is_some();
            }
            None => missing.push(Missing {
                log: self.path.clone(),
                why,
                bytes,
                events,
                is_exact: records.is_some(),
            }),
        }
    }
}

/// All of them at once, for few.
///
/// # Errors
/// As [`Kept::next_event`].
pub fn read_all(root: &Path) -> Result<Vec<Rejection>, Error> {
    let mut kept = Kept::open(root)?;
    let mut all = Vec::new();
    while let Some(rejection) = kept.next_event()? {
        all.push(rejection);
    }
    Ok(all)
}
