//! All rejected events of a running server: looked at, edited, purged and replayed.
//!
//! What is removed lies before the length that the current snapshot has; so before that a save is asked
//! for, and what it does not cover in time is left and said. One thing at a time removes: a replay or a
//! purge.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::cursor::Walk;
use super::edits::{self, EDITS_MAX, Edited};
use super::job::ReplayJob;
use super::removal::{RUNS_MAX, Runs};
use super::shown::Entry;
use super::summary::Summary;
use super::{FILES, Filter, Limits, Log, Missing, SharedLog, place_of};
use crate::error::Error;
use crate::secrets::Hidden;

/// How long a save may take that is asked for before events are removed.
const SAVE_MAX: Duration = Duration::from_secs(3);

/// Bytes of payloads from which on a page is full.
const PAGE_BYTES: usize = 8 << 20;

/// The rejected events of a server; a handle.
#[derive(Clone)]
pub struct ErrorStore(Arc<Inner>);

struct Inner {
    limits: Limits,
    hidden: Hidden,
    /// Of a server without a state directory.
    memory: Option<[SharedLog; 2]>,
    groups: Mutex<Vec<Group>>,
    /// A replay or a purge is at work.
    is_busy: AtomicBool,
    /// The last replay.
    job: Mutex<Option<Arc<ReplayJob>>>,
}

#[derive(Clone)]
pub(super) struct Group {
    pub number: u64,
    dir: PathBuf,
    pub logs: [SharedLog; 2],
}

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such event.
    NoEvent(u64),
    /// The payload does not fit.
    Payload(String),
    /// A replay or a purge is at work.
    Busy,
    /// The files cannot be read or written.
    Failed(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Failed(crate::report::chain(&error))
    }
}

/// What a purge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Purged {
    pub events: u64,
    /// Events that are meant and cannot be removed yet: no save covers them.
    pub uncovered: u64,
    /// Events that a version before has written in a form that cannot be written over.
    pub fixed: u64,
}

/// While it lives nobody else removes.
pub(crate) struct Busy(Arc<Inner>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Release);
    }
}

impl ErrorStore {
    pub(crate) fn new(limits: Limits, has_state: bool, hidden: Hidden) -> ErrorStore {
        let in_memory = || SharedLog::in_memory(limits, hidden.clone());
        let memory = (!has_state).then(|| [in_memory(), in_memory()]);
        let groups = memory.iter().map(|logs| Group {
            number: 0,
            dir: PathBuf::new(),
            logs: logs.clone(),
        });
        ErrorStore(Arc::new(Inner {
            limits,
            hidden,
            groups: Mutex::new(groups.collect()),
            memory,
            is_busy: AtomicBool::new(false),
            job: Mutex::default(),
        }))
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.limits
    }

    /// The logs of a server without a state directory, or new ones for files.
    pub(crate) fn logs(&self) -> [SharedLog; 2] {
        let closed = || SharedLog::closed(self.0.hidden.clone());
        let memory = self.0.memory.clone();
        memory.unwrap_or_else(|| [closed(), closed()])
    }

    fn groups_lock(&self) -> MutexGuard<'_, Vec<Group>> {
        self.0.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn groups(&self) -> Vec<Group> {
        self.groups_lock().clone()
    }

    /// Closes the logs of a group, so that they may be opened anew.
    pub(crate) fn close(&self, dir: &std::path::Path) {
        let groups = self.groups_lock();
        let old = groups.iter().filter(|group| group.dir == dir);
        old.for_each(|group| group.logs.iter().for_each(SharedLog::close));
    }

    /// These are the logs of a group from now on.
    pub(crate) fn enlist(&self, number: u64, dir: PathBuf, logs: [SharedLog; 2]) {
        let mut groups = self.groups_lock();
        groups.retain(|group| group.dir != dir);
        groups.push(Group { number, dir, logs });
        groups.sort_by_key(|group| group.number);
    }

    /// Events that are kept.
    pub fn count(&self) -> u64 {
        let groups = self.groups();
        groups
            .iter()
            .flat_map(|g| &g.logs)
            .map(SharedLog::count)
            .sum()
    }

    /// All that a walk comes to; with `covered` alone what can be removed.
    pub(crate) fn walk(&self, covered: bool) -> Result<Walk, Error> {
        self.walk_from(&[], covered)
    }

    /// As [`ErrorStore::walk`], from these numbers of records on.
    fn walk_from(&self, places: &[(u64, usize, u32)], covered: bool) -> Result<Walk, Error> {
        let mut cursors = Vec::new();
        for group in self.groups() {
            for (log, shared) in group.logs.iter().enumerate() {
                let mut known = places.iter();
                let own = known.find(|(g, l, _)| (*g, *l) == (group.number, log));
                let from = own.map_or(0, |(.., from)| *from);
                cursors.extend(shared.cursor(group.number, log, from, covered)?);
            }
        }
        Walk::new(cursors)
    }

    /// Counts the events that a filter takes, by group.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn summary(&self, filter: &Filter) -> Result<(Summary, Vec<Missing>), Error> {
        let mut summary = Summary::default();
        if !filter.is_all() {
            let mut walk = self.walk(false)?;
            while let Some(step) = walk.next()? {
                if step.is_taken_by(filter) {
                    summary.add(step.number, &step.view);
                }
            }
            return Ok((summary, walk.missing().cloned().collect()));
        }
        for group in self.groups() {
            for (log, shared) in group.logs.iter().enumerate() {
                let own = match shared.lock().as_ref() {
                    None => continue,
                    Some(Log::Memory(log)) => log.summary().clone(),
                    Some(Log::File(log)) => log.summary(),
                };
                summary.join(&own.numbered(|record| super::number_of(group.number, log, record)));
            }
        }
        if summary.lacks_example() {
            let mut walk = self.walk(false)?;
            while let Some(step) = walk.next()? {
                if !summary.find_example(step.number, &step.view) {
                    break;
                }
            }
        }
        Ok((summary, self.missing()))
    }

    /// What is known to be missing without reading everything.
    fn missing(&self) -> Vec<Missing> {
        let groups = self.groups();
        let paths = groups.iter().filter(|group| group.dir != PathBuf::new());
        let paths = paths.flat_map(|group| FILES.map(|name| group.dir.join(name)));
        paths
            .filter_map(|path| super::read::dropped_so_far(&path))
            .collect()
    }

    /// Events that a filter takes, in the order of rejection, with `skip` left out first: of a page that
    /// begins at a position (empty for the first one), of so many events and bytes of payload. With the
    /// position of the next page, if there may be more.
    ///
    /// # Errors
    /// A file cannot be read; [`Refusal::Payload`] where the position is none.
    pub fn list(
        &self,
        filter: &Filter,
        from: &str,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<Entry>, Option<String>), Refusal> {
        let wrong = || Refusal::Payload(format!("'{from}' is no position in the list"));
        let places = Walk::places(from).ok_or_else(wrong)?;
        let mut walk = self.walk_from(&places, false)?;
        let (mut entries, mut skipped, mut bytes) = (Vec::new(), 0, 0);
        while let Some(step) = walk.next()? {
            if !step.is_taken_by(filter) {
                continue;
            }
            if skipped < skip {
                skipped += 1;
                continue;
            }
            let entry = step.entry()?;
            bytes += entry.rejection.payload.len();
            entries.push(entry);
            if entries.len() >= limit || bytes >= PAGE_BYTES {
                return Ok((entries, Some(walk.position())));
            }
        }
        Ok((entries, None))
    }

    /// The newest events that a filter takes, the newest last, and how many there are in all.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn newest(&self, filter: &Filter, limit: usize) -> Result<(Vec<Entry>, u64), Error> {
        let mut walk = self.walk(false)?;
        let mut total = 0;
        let mut entries = std::collections::VecDeque::new();
        let all = match filter.is_all() {
            true => self.count(),
            false => 0,
        };
        while let Some(step) = walk.next()? {
            if !step.is_taken_by(filter) {
                continue;
            }
            total += 1;
            // Where it is known how many there are, those before the last are not taken apart.
            if all > 0 && total + (limit as u64) <= all {
                continue;
            }
            entries.push_back(step.entry()?);
            if entries.len() > limit {
                entries.pop_front();
            }
        }
        Ok((entries.into(), total))
    }

    /// The event of a number.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn find(&self, number: u64) -> Result<Option<Entry>, Error> {
        let Some((group, log, record)) = place_of(number) else {
            return Ok(None);
        };
        let groups = self.groups();
        let Some(group) = groups.iter().find(|g| g.number == group) else {
            return Ok(None);
        };
        let cursor = group.logs[log].cursor(group.number, log, record, false)?;
        let mut walk = Walk::new(cursor.into_iter().collect())?;
        while let Some(step) = walk.next()? {
            match step.placed.number {
                Some(n) if n == record => return Ok(Some(step.entry()?)),
                Some(n) if n > record => break,
                _ => {}
            }
        }
        Ok(None)
    }

    /// Gives an event another payload, whatever its app makes of it.
    ///
    /// # Errors
    /// There is no such event, or too many have other payloads.
    pub fn edit(&self, number: u64, payload: &[u8]) -> Result<Entry, Refusal> {
        let mut entry = self.find(number)?.ok_or(Refusal::NoEvent(number))?;
        entry.edited = Some(payload.to_vec());
        entry.is_edit_damaged = false;
        let (log, record) = self.log_of(number)?;
        let time = entry.rejection.time;
        let path = match log.lock().as_mut() {
            Some(Log::File(log)) => log.path().to_owned(),
            Some(Log::Memory(log)) => {
                if log.edits.len() >= EDITS_MAX {
                    return Err(too_many());
                }
                let edited = Edited::Payload(payload.to_vec());
                log.edits.insert(record, (time, edited));
                return Ok(entry);
            }
            None => return Err(Refusal::NoEvent(number)),
        };
        if edits::numbers(&path).len() >= EDITS_MAX {
            return Err(too_many());
        }
        edits::keep(&path, record, time, payload)?;
        Ok(entry)
    }

    /// Gives an event back the payload that it came with; false: it had no other.
    ///
    /// # Errors
    /// There is no such event.
    pub fn discard_edit(&self, number: u64) -> Result<bool, Refusal> {
        let (log, record) = self.log_of(number)?;
        let path = match log.lock().as_mut() {
            Some(Log::File(log)) => log.path().to_owned(),
            Some(Log::Memory(log)) => return Ok(log.edits.remove(&record).is_some()),
            None => return Err(Refusal::NoEvent(number)),
        };
        Ok(edits::discard(&path, record)?)
    }

    fn log_of(&self, number: u64) -> Result<(SharedLog, u32), Refusal> {
        let none = || Refusal::NoEvent(number);
        let (group, log, record) = place_of(number).ok_or_else(none)?;
        let groups = self.groups();
        let group = groups.iter().find(|g| g.number == group).ok_or_else(none)?;
        Ok((group.logs[log].clone(), record))
    }

    pub(crate) fn begin(&self) -> Result<Busy, Refusal> {
        match self.0.is_busy.swap(true, Ordering::AcqRel) {
            true => Err(Refusal::Busy),
            false => Ok(Busy(Arc::clone(&self.0))),
        }
    }

    /// Has all that has been rejected so far covered by a checkpoint, as far as that is possible in time.
    /// `save` makes checkpoints until then; it is not called where nothing is kept in files.
    pub(crate) fn save(&self, save: impl FnOnce(Instant)) {
        if self.0.memory.is_none() {
            save(Instant::now() + SAVE_MAX);
        }
    }

    /// Removes the events that a filter takes, for good. `save` makes checkpoints until a moment: only what
    /// a checkpoint covers can be removed.
    ///
    /// # Errors
    /// [`Refusal::Busy`], or a file cannot be read or written.
    pub fn purge(&self, filter: &Filter, save: impl FnOnce(Instant)) -> Result<Purged, Refusal> {
        let _busy = self.begin()?;
        self.save(save);
        let mut purged = Purged::default();
        let mut meant = 0;
        let mut walk = self.walk(false)?;
        while let Some(step) = walk.next()? {
            meant += u64::from(step.is_taken_by(filter));
        }
        for group in self.groups() {
            for (log, shared) in group.logs.iter().enumerate() {
                let cursor = shared.cursor(group.number, log, 0, true)?;
                let mut walk = Walk::new(cursor.into_iter().collect())?;
                let mut runs = Runs::default();
                while let Some(step) = walk.next()? {
                    if !step.is_taken_by(filter) {
                        continue;
                    }
                    let Some(run) = step.removable() else {
                        purged.fixed += 1;
                        continue;
                    };
                    runs.add(run, step.is_first());
                    if runs.len() == RUNS_MAX {
                        purged.events += remove(shared, &mut runs)?;
                    }
                }
                purged.events += remove(shared, &mut runs)?;
            }
        }
        purged.uncovered = meant.saturating_sub(purged.events + purged.fixed);
        Ok(purged)
    }

    /// The last replay, if there was one.
    pub fn job(&self) -> Option<Arc<ReplayJob>> {
        let job = self.0.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.clone()
    }

    pub(crate) fn set_job(&self, job: Arc<ReplayJob>) {
        *self.0.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
    }
}

fn too_many() -> Refusal {
    Refusal::Payload(format!(
        "{EDITS_MAX} events have edited payloads already: replay or purge some of them"
    ))
}

fn remove(log: &SharedLog, runs: &mut Runs) -> Result<u64, Error> {
    let runs = std::mem::take(runs);
    log.remove(&runs)?;
    Ok(runs.events())
}
