//! Goes through rejected events, of one log or of several by time.
//!
//! One record of each log is in memory, however many there are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::record::End;

use super::edits::{self, Edited};
use super::memory::MemoryLog;
use super::read::{Missing, Why};
use super::record::View;
use super::removal::{Run, Runs, noted};
use super::segments::{LogReader, Piece, Placed};
use super::shown::Entry;
use super::{Filter, Log, Rejection, SharedLog, number_of};
use crate::error::Error;

/// Goes through one log.
pub(super) struct Cursor {
    pub group: u64,
    /// 0 or 1, as in [`super::FILES`].
    pub log: usize,
    /// Empty for one in memory.
    pub path: PathBuf,
    /// Events with lower numbers are left out.
    from: u32,
    /// Behind the last event that was come to.
    next: u32,
    inner: Inner,
    edits: HashMap<u32, (i64, Edited)>,
    /// What is being written over at the moment is no damage.
    removing: Runs,
    current: Option<(Placed, i64)>,
    pub missing: Vec<Missing>,
}

enum Inner {
    File(Box<LogReader>),
    Memory {
        rest: std::vec::IntoIter<(u32, Arc<[u8]>)>,
        record: Option<Arc<[u8]>>,
    },
}

impl Cursor {
    /// Of a log in files. The reader stands before the first event that is wanted.
    pub fn of_file(group: u64, log: usize, path: &Path, from: u32, reader: LogReader) -> Cursor {
        Cursor {
            group,
            log,
            path: path.to_owned(),
            from,
            next: from,
            inner: Inner::File(Box::new(reader)),
            edits: edits::all(path),
            removing: noted(path),
            current: None,
            missing: Vec::new(),
        }
    }

    fn of_memory(group: u64, log: usize, from: u32, memory: &MemoryLog) -> Cursor {
        let events = memory.from(from);
        Cursor {
            group,
            log,
            path: PathBuf::new(),
            from,
            next: from,
            inner: Inner::Memory {
                rest: events.into_iter(),
                record: None,
            },
            edits: memory.edits.clone(),
            removing: Runs::default(),
            current: None,
            missing: Vec::new(),
        }
    }

    fn record(&self) -> &[u8] {
        match &self.inner {
            Inner::File(reader) => &reader.record,
            Inner::Memory { record, .. } => record.as_deref().unwrap_or_default(),
        }
    }

    /// Goes to the next event; false at the end.
    ///
    /// # Errors
    /// A file cannot be read, or was written by another version.
    pub fn advance(&mut self) -> Result<bool, Error> {
        self.current = None;
        loop {
            let placed = match &mut self.inner {
                Inner::Memory { rest, record } => {
                    let Some((number, bytes)) = rest.next() else {
                        return Ok(false);
                    };
                    *record = Some(bytes);
                    Placed {
                        at: u64::from(number),
                        bytes: 1,
                        number: Some(number),
                        segment: 0,
                        is_fixed: false,
                    }
                }
                Inner::File(reader) => match reader.next() {
                    Err(cause) => return Err(Error::file("read", &self.path)(cause)),
                    Ok(None) => return Ok(false),
                    Ok(Some(Piece::Record(placed))) => placed,
                    Ok(Some(piece)) => {
                        self.note(&piece);
                        continue;
                    }
                },
            };
            if let Some(number) = placed.number {
                if number < self.from {
                    continue;
                }
                self.next = number.wrapping_add(1);
            }
            let view = View::read(self.record()).map_err(|e| self.unreadable(&e))?;
            self.current = Some((placed, view.time));
            return Ok(true);
        }
    }

    fn unreadable(&self, cause: &event::codec::Error) -> Error {
        Error::State {
            path: self.path.clone(),
            message: cause.to_string(),
        }
    }

    fn note(&mut self, piece: &Piece) {
        let (why, bytes, records) = match piece {
            Piece::Record(_) => return,
            Piece::Gap { bytes, records } => (Why::SetAside, *bytes, *records),
            // A server is writing it, or was killed when it did.
            Piece::Damage(damage) if damage.end == Some(End::Torn) => return,
            Piece::Damage(damage) if self.removing.covers(damage.at, damage.bytes) => return,
            Piece::Damage(damage) => (Why::Damaged, damage.bytes, damage.records),
        };
        Missing::note(&mut self.missing, &self.path, why, bytes, records);
    }
}

/// An event that a walk has come to.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(super) cursor: &'a Cursor,
    pub(super) placed: Placed,
    /// As people see it; 0 where it is not known.
    pub number: u64,
    pub(super) view: View<'a>,
}

impl Step<'_> {
    pub fn is_taken_by(&self, filter: &Filter) -> bool {
        filter.takes(self.number, &self.view)
    }

    /// The log that it is in, as in [`super::FILES`].
    pub fn log(&self) -> usize {
        self.cursor.log
    }

    /// Its place in the log; `None` where a version before has written it in a form that cannot be
    /// written over.
    pub fn removable(&self) -> Option<Run> {
        if self.placed.is_fixed {
            return None;
        }
        Some(Run {
            at: self.placed.at,
            bytes: self.placed.bytes,
            number: self.placed.number?,
            count: 1,
        })
    }

    /// It is the first of its file.
    pub fn is_first(&self) -> bool {
        self.placed.at == self.placed.segment
    }

    /// The whole event, with the payload that somebody has given it.
    pub fn entry(&self) -> Result<Entry, Error> {
        let rejection = self.view.to_rejection();
        let rejection: Rejection = rejection.map_err(|e| self.cursor.unreadable(&e))?;
        let edit = self.placed.number.and_then(|n| self.cursor.edits.get(&n));
        let edit =
            edit.filter(|(time, edited)| *edited == Edited::Damaged || *time == rejection.time);
        Ok(Entry {
            number: self.number,
            is_edit_damaged: matches!(edit, Some((_, Edited::Damaged))),
            edited: match edit {
                Some((_, Edited::Payload(payload))) => Some(payload.clone()),
                _ => None,
            },
            rejection,
        })
    }
}

/// Goes through several logs, by the times of their events. Where the clock was set back, those of one
/// log stay in their order.
pub(crate) struct Walk {
    cursors: Vec<Cursor>,
    last: Option<usize>,
}

impl Walk {
    pub(super) fn new(mut cursors: Vec<Cursor>) -> Result<Walk, Error> {
        for cursor in &mut cursors {
            cursor.advance()?;
        }
        Ok(Walk {
            cursors,
            last: None,
        })
    }

    /// The next event.
    ///
    /// # Errors
    /// As [`Cursor::advance`].
    #[allow(clippy::should_implement_trait)] // What it gives lies in the cursors.
    pub fn next(&mut self) -> Result<Option<Step<'_>>, Error> {
        if let Some(last) = self.last.take() {
            self.cursors[last].advance()?;
        }
        let cursors = self.cursors.iter().enumerate();
        let waiting = cursors.filter_map(|(at, cursor)| Some((at, cursor.current?.1)));
        let Some((at, _)) = waiting.min_by_key(|(_, time)| *time) else {
            return Ok(None);
        };
        self.last = Some(at);
        let cursor = &self.cursors[at];
        let Some((placed, _)) = cursor.current else {
            return Ok(None);
        };
        let view = View::read(cursor.record()).map_err(|e| cursor.unreadable(&e))?;
        let number = placed.number;
        Ok(Some(Step {
            cursor,
            placed,
            number: number.map_or(0, |n| number_of(cursor.group, cursor.log, n)),
            view,
        }))
    }

    /// Where a walk goes on behind the event that it is at: a text for [`Walk::places`].
    pub fn position(&self) -> String {
        let cursors = self.cursors.iter().enumerate();
        let places = cursors.map(|(at, cursor)| {
            let current = cursor.current.and_then(|(placed, _)| placed.number);
            let next = match current {
                // The others have read one that was not come to yet.
                Some(number) if self.last != Some(at) => number,
                _ => cursor.next,
            };
            format!("{}.{}.{next}", cursor.group, cursor.log)
        });
        places.collect::<Vec<_>>().join("-")
    }

    /// Group, log and number of the next event of each log; `None` for what is no such text.
    pub fn places(position: &str) -> Option<Vec<(u64, usize, u32)>> {
        let places = position.split('-').filter(|place| !place.is_empty());
        places
            .map(|place| {
                let mut parts = place.split('.');
                let place = (
                    parts.next()?.parse().ok()?,
                    parts.next()?.parse().ok()?,
                    parts.next()?.parse().ok()?,
                );
                parts.next().is_none().then_some(place)
            })
            .collect()
    }

    /// What is missing of what has been read so far.
    pub fn missing(&self) -> impl Iterator<Item = &Missing> {
        self.cursors.iter().flat_map(|cursor| &cursor.missing)
    }
}

impl SharedLog {
    /// Goes through the events from a number on; with `covered` through those that can be removed.
    pub(super) fn cursor(
        &self,
        group: u64,
        log: usize,
        from: u32,
        covered: bool,
    ) -> Result<Option<Cursor>, Error> {
        match self.lock().as_mut() {
            None => Ok(None),
            Some(Log::Memory(memory)) => Ok(Some(Cursor::of_memory(group, log, from, memory))),
            Some(Log::File(file)) => {
                let stop = if covered { file.covered() } else { u64::MAX };
                let stop = stop.min(file.len());
                let path = file.path().to_owned();
                let reader = file.reader(stop, from);
                let reader = reader.map_err(Error::file("read", &path))?;
                Ok(Some(Cursor::of_file(group, log, &path, from, reader)))
            }
        }
    }
}
