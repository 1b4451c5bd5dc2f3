//! Reads rejected events of a state directory, also while a server continues to write them.

use std::path::{Path, PathBuf};

use super::cursor::{Cursor, Walk};
use super::segments::LogReader;
use super::shown::Entry;
use super::summary::Summary;
use super::{FILES, Filter, Rejection, place_of};
use crate::error::Error;
use crate::state::proof::{self, Text};

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

impl Missing {
    pub(super) fn note(
        all: &mut Vec<Missing>,
        log: &Path,
        why: Why,
        bytes: u64,
        records: Option<u32>,
    ) {
        let events = u64::from(records.unwrap_or(1));
        let known = all.iter_mut().find(|m| m.log == log && m.why == why);
        match known {
            Some(known) => {
                known.bytes += bytes;
                known.events += events;
                known.is_exact &= records.is_some();
            }
            None => all.push(Missing {
                log: log.to_owned(),
                why,
                bytes,
                events,
                is_exact: records.is_some(),
            }),
        }
    }
}

/// What the bounds of a log have cost so far. Noted in a file beside it, because files also go when all
/// their events were replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Dropped {
    pub events: u64,
    pub bytes: u64,
}

impl Dropped {
    fn path(log: &Path) -> PathBuf {
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        log.with_file_name(format!("{name}.dropped"))
    }

    /// `None` where it is not noted, or the note is damaged.
    pub fn of(log: &Path) -> Option<Dropped> {
        let Ok(Some(Text::Proven(text))) = proof::read(&Dropped::path(log)) else {
            return None;
        };
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(events)), Some(Ok(bytes))) => Some(Dropped { events, bytes }),
            _ => None,
        }
    }

    /// So many more.
    pub fn add(log: &Path, events: u64, bytes: u64) -> Result<(), Error> {
        let so_far = Dropped::of(log);
        let new = so_far.unwrap_or_default();
        if so_far.is_some() && events == 0 {
            return Ok(());
        }
        let (events, bytes) = (new.events + events, new.bytes + bytes);
        proof::write(&Dropped::path(log), &format!("{events} {bytes}\n"))
    }
}

/// Every rejected event below a state directory, in the order of rejection.
pub struct Kept {
    walk: Walk,
    dropped: Vec<Missing>,
}

impl Kept {
    /// # Errors
    /// A file cannot be read.
    pub fn open(root: &Path) -> Result<Kept, Error> {
        Kept::open_some(root, |_, _| true)
    }

    fn open_some(root: &Path, is_wanted: impl Fn(u64, usize) -> bool) -> Result<Kept, Error> {
        let (mut cursors, mut dropped) = (Vec::new(), Vec::new());
        for (group, dir) in crate::state::numbered_groups(root)? {
            let durable = crate::state::durable_lengths(&dir);
            for (log, (name, durable)) in FILES.iter().zip(durable).enumerate() {
                if !is_wanted(group, log) {
                    continue;
                }
                let path = dir.join(name);
                let reader = LogReader::open(&path, durable, u64::MAX);
                let reader = reader.map_err(Error::file("read", &path))?;
                dropped.extend(dropped_of(&path, &reader)?);
                cursors.push(Cursor::of_file(group, log, &path, 0, reader));
            }
        }
        Ok(Kept {
            walk: Walk::new(cursors)?,
            dropped,
        })
    }

    /// The next event that a filter takes. Where the clock was set back, those of one log stay in their
    /// order.
    ///
    /// # Errors
    /// A file cannot be read, or was written by another version.
    pub fn next_event(&mut self, filter: &Filter) -> Result<Option<Entry>, Error> {
        while let Some(step) = self.walk.next()? {
            if filter.takes(step.number, &step.view) {
                return Ok(Some(step.entry()?));
            }
        }
        Ok(None)
    }

    /// The newest events that a filter takes, the newest last, and how many there are in all.
    ///
    /// # Errors
    /// As [`Kept::next_event`].
    pub fn newest(&mut self, filter: &Filter, limit: usize) -> Result<(Vec<Entry>, u64), Error> {
        let (mut entries, mut total) = (std::collections::VecDeque::new(), 0);
        while let Some(entry) = self.next_event(filter)? {
            total += 1;
            entries.push_back(entry);
            if entries.len() > limit {
                entries.pop_front();
            }
        }
        Ok((entries.into(), total))
    }

    /// Counts the events that a filter takes, by group.
    ///
    /// # Errors
    /// As [`Kept::next_event`].
    pub fn summary(&mut self, filter: &Filter) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        while let Some(step) = self.walk.next()? {
            if filter.takes(step.number, &step.view) {
                summary.add(step.number, &step.view);
            }
        }
        Ok(summary)
    }

    /// The event of a number. Files before it are not read.
    ///
    /// # Errors
    /// As [`Kept::next_event`].
    pub fn find(root: &Path, number: u64) -> Result<Option<Entry>, Error> {
        let Some((group, log, record)) = place_of(number) else {
            return Ok(None);
        };
        for (other, dir) in crate::state::numbered_groups(root)? {
            if other != group {
                continue;
            }
            let path = dir.join(FILES[log]);
            let read = |cause| Error::file("read", &path)(cause);
            let mut reader = LogReader::open(&path, 0, u64::MAX).map_err(read)?;
            reader.seek_number(record).map_err(read)?;
            let mut walk = Walk::new(vec![Cursor::of_file(group, log, &path, record, reader)])?;
            while let Some(step) = walk.next()? {
                match step.placed.number {
                    Some(n) if n == record => return Ok(Some(step.entry()?)),
                    Some(n) if n > record => break,
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    /// What is missing of what has been read so far.
    pub fn missing(&self) -> Vec<Missing> {
        let dropped = self.dropped.iter();
        self.walk.missing().chain(dropped).cloned().collect()
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
        let reader = LogReader::open(&path, durable, u64::MAX);
        let reader = reader.map_err(Error::file("read", &path))?;
        let bytes = reader.segments.iter().map(|segment| segment.len).sum();
        let mut missing: Vec<Missing> = dropped_of(&path, &reader)?.into_iter().collect();
        let mut cursor = Cursor::of_file(0, 0, &path, 0, reader);
        let mut events = 0;
        while cursor.advance()? {
            events += 1;
        }
        missing.append(&mut cursor.missing);
        Ok(LogContent {
            path,
            events,
            bytes,
            missing,
        })
    };
    let [rejected, undelivered] = FILES;
    Ok([
        count(rejected, durable[0])?,
        count(undelivered, durable[1])?,
    ])
}

/// What the bounds of a log have cost, where it is noted.
pub(super) fn dropped_so_far(log: &Path) -> Option<Missing> {
    let dropped = Dropped::of(log).filter(|dropped| dropped.events > 0)?;
    Some(missing(log, dropped.events, dropped.bytes, true))
}

fn missing(log: &Path, events: u64, bytes: u64, is_exact: bool) -> Missing {
    Missing {
        log: log.to_owned(),
        why: Why::Dropped,
        bytes,
        events,
        is_exact,
    }
}

/// What the bounds of a log have cost.
fn dropped_of(log: &Path, reader: &LogReader) -> Result<Option<Missing>, Error> {
    if Dropped::of(log).is_some() {
        return Ok(dropped_so_far(log));
    }
    let bytes = reader.at();
    if bytes == 0 {
        return Ok(None);
    }
    let first = reader.first_number(0);
    let first = first.map_err(Error::file("read", log))?;
    let events = u64::from(first.unwrap_or(1));
    Ok(Some(missing(log, events, bytes, first.is_some())))
}

/// All of them at once, for few.
///
/// # Errors
/// As [`Kept::next_event`].
pub fn read_all(root: &Path) -> Result<Vec<Rejection>, Error> {
    let mut kept = Kept::open(root)?;
    let mut all = Vec::new();
    while let Some(entry) = kept.next_event(&Filter::default())? {
        all.push(entry.rejection);
    }
    Ok(all)
}
