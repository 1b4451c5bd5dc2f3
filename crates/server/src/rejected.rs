//! Events that were rejected, kept until someone looks at them, replays or purges them.
//!
//! Under `--state` two logs per group of apps, each a row of files (`segments`) of records that prove
//! themselves ([`event::record`]). The length of a log is part of every snapshot: after a crash the log
//! is cut back to it, and what is then rejected again is in it once. What lies before that length was
//! durable and is never cut: if bytes of it have changed, they are set aside (`log`). Without a state
//! directory the newest are held in memory (`memory`).
//!
//! What was replayed or purged is overwritten in its place (`removal`), so that places and numbers
//! stay what they were; its room on the disk is given back. A replayed event goes with the snapshot
//! that covers it (`replayed`).
//!
//! Never: which app an event belongs to, or how it gets back there. That is `crate::replay`, above.
//!
//! A log has two bounds, [`Limits`]. Beyond them its oldest file is removed, which is logged, counted,
//! and shown by `headwater errors list`.

mod cursor;
mod edits;
mod filter;
mod job;
mod log;
mod memory;
mod read;
mod record;
mod removal;
mod replayed;
mod segments;
mod shown;
mod store;
mod summary;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use filter::{Filter, NUMBERS_MAX};
pub use job::ReplayJob;
pub use log::RejectedLog;
pub(crate) use read::content_of;
pub use read::{Kept, LogContent, Missing, Why, read_all};
pub use record::{Rejection, Stage};
pub(crate) use record::{encoded_properties, rejected_rows};
pub(crate) use removal::{RUNS_MAX, Run, redo};
pub(crate) use replayed::{Attempt, POSITION, Replayed};
pub(crate) use shown::json_value;
pub use shown::{Entry, group_json, missing_json, put_payload, take_payload};
pub(crate) use store::Busy;
pub use store::{ErrorStore, Purged, Refusal};
pub use summary::{GroupKey, Summary, Tally};

use crate::error::Error;
use crate::secrets::Hidden;
use memory::MemoryLog;

/// Bytes of a payload that are kept; of a longer one the rest is counted only.
pub const PAYLOAD_MAX: usize = 64 << 20;

/// Bytes of the rejected events of a group of apps, unless something says otherwise. Each of its two
/// logs may take half of it.
pub const BYTES_MAX: u64 = 1 << 30;

/// How long rejected events are kept, unless something says otherwise.
pub const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Bytes of rejected events that are held in memory by a server without a state directory; of `Limits`
/// the smaller counts.
pub const MEMORY_MAX: u64 = 64 << 20;

/// The bounds of the rejected events of a group of apps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes on the disk.
    pub bytes_max: u64,
    pub age_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_max: BYTES_MAX,
            age_max: AGE_MAX,
        }
    }
}

/// Begins a record that fills the place of damaged ones.
const GAP: u8 = 2;

/// Begins a record that fills the place of replayed or purged ones.
const REMOVED: u8 = 4;

/// Bytes of the shortest such record: the mark and a count.
const GAP_MIN: usize = 5;

/// A log of a group, written to by its executor or by the threads of its sinks and stores.
#[derive(Clone, Default)]
pub(crate) struct SharedLog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Not to be in causes.
    hidden: Hidden,
    log: Mutex<Option<Log>>,
    /// Held by who removes events: one at a time, while others are kept.
    removal: Mutex<()>,
}

#[expect(clippy::large_enum_variant, reason = "there are two in a group")]
pub(crate) enum Log {
    File(Box<RejectedLog>),
    Memory(MemoryLog),
}

impl SharedLog {
    /// Keeps nothing until a file is set.
    pub fn closed(hidden: Hidden) -> SharedLog {
        SharedLog(Arc::new(Shared {
            hidden,
            ..Shared::default()
        }))
    }

    pub fn in_memory(limits: Limits, hidden: Hidden) -> SharedLog {
        let log = MemoryLog::new(limits.bytes_max.min(MEMORY_MAX) / 2);
        SharedLog(Arc::new(Shared {
            hidden,
            log: Mutex::new(Some(Log::Memory(log))),
            removal: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Log>> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in a file is there from now on. Whatever was open before is closed first.
    pub fn set(&self, log: RejectedLog) {
        *self.lock() = Some(Log::File(Box::new(log)));
    }

    /// Closes the file, so that another may open it.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// A full disk must not stop the healthy events: it is said, and the rejection only counted.
    pub fn keep(&self, mut rejection: Rejection) {
        // A peer may have told what it was given. The payload stays what it is: it may be sent again.
        if let Cow::Owned(cause) = self.0.hidden.hide(&rejection.cause) {
            rejection.cause = cause;
        }
        let mut log = self.lock();
        match log.as_mut() {
            None => {}
            Some(Log::Memory(log)) => log.append(&rejection),
            Some(Log::File(log)) => {
                if let Err(error) = log.append(&rejection) {
                    tracing::error!(
                        app = rejection.app,
                        cause = crate::report::chain(&error),
                        "cannot store rejected event; it is lost: free disk space"
                    );
                }
            }
        }
    }

    fn with_file<T>(&self, work: impl FnOnce(&mut RejectedLog) -> T) -> Option<T> {
        match self.lock().as_mut() {
            Some(Log::File(log)) => Some(work(log)),
            _ => None,
        }
    }

    /// Length up to which the log is durable; 0 where nothing is kept in files.
    pub fn sync(&self) -> Result<u64, Error> {
        self.with_file(RejectedLog::sync).unwrap_or(Ok(0))
    }

    /// The current snapshot has its length: what lies before can be replayed and purged.
    pub fn cover(&self, length: u64) {
        self.with_file(|log| log.cover(length));
    }

    /// Events that the bounds of the log have cost since this was asked last.
    pub fn take_dropped(&self) -> u64 {
        match self.lock().as_mut() {
            None => 0,
            Some(Log::Memory(log)) => log.take_dropped(),
            Some(Log::File(log)) => log.take_dropped(),
        }
    }

    /// Length so far; 0 where nothing is kept in files.
    pub fn len(&self) -> u64 {
        self.with_file(|log| log.len()).unwrap_or(0)
    }

    /// Events that are kept.
    pub fn count(&self) -> u64 {
        match self.lock().as_ref() {
            None => 0,
            Some(Log::Memory(log)) => log.summary().total(),
            Some(Log::File(log)) => log.total(),
        }
    }
}

/// Rejected by sources and queries, and by sinks and stores: two logs, because the second is
/// written while the snapshot that covers it is on its way.
pub(crate) const FILES: [&str; 2] = ["rejected", "undelivered"];

/// How many records a record stands for that fills their place; `None` inside where nobody knows.
/// `None` for any other record.
fn gap_records(record: &[u8]) -> Option<Option<u32>> {
    let (mark, rest) = record.split_first()?;
    let count = rest.get(..4).filter(|_| *mark == GAP || *mark == REMOVED)?;
    let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
    Some((count < u32::MAX).then_some(count))
}

/// Numbers of the events of a group begin at a multiple of this.
const NUMBERS_OF_GROUP: u64 = 10_000_000_000;

/// The number of an event, as people see it: of a group, a log and a record. The first of all is 1.
fn number_of(group: u64, log: usize, record: u32) -> u64 {
    group * NUMBERS_OF_GROUP + 2 * u64::from(record) + log as u64 + 1
}

/// Group, log and record of a number.
fn place_of(number: u64) -> Option<(u64, usize, u32)> {
    let number = number.checked_sub(1)?;
    let (group, rest) = (number / NUMBERS_OF_GROUP, number % NUMBERS_OF_GROUP);
    let record = u32::try_from(rest / 2).ok()?;
    Some((group, (rest % 2) as usize, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_where_an_event_is() {
        for (group, log, record) in [
            (0, 0, 0),
            (0, 1, 0),
            (0, 0, 7),
            (3, 1, u32::MAX),
            (12, 0, 5),
        ] {
            let number = number_of(group, log, record);
            assert_eq!(place_of(number), Some((group, log, record)), "{number}");
        }
        assert_eq!(
            [number_of(0, 0, 0), number_of(0, 1, 0), number_of(0, 0, 1)],
            [1, 2, 3]
        );
        assert_eq!(place_of(0), None);
    }
}
