//! Events that were rejected, kept under `--state` until someone looks at them.
//!
//! Two logs per group of apps, each a row of files (`segments`) of records that prove themselves
//! ([`event::record`]). The length of a log is part of every snapshot: after a crash the log is cut
//! back to it, and what is then rejected again is in it once. What lies before that length was
//! durable and is never cut: if bytes of it have changed, they are set aside (`log`).
//!
//! A log has two bounds, [`LOG_BYTES_MAX`] and [`AGE_DAYS_MAX`]. Beyond them its oldest file is
//! removed, which is logged, counted, and shown by `headwater errors list`.

mod log;
mod read;
mod segments;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::codec::{Reader, Writer};

pub use log::RejectedLog;
pub(crate) use read::content_of;
pub use read::{Kept, LogContent, Missing, Why, read_all};

use crate::error::Error;

/// Bytes of a payload that are kept; of a longer one the rest is counted only.
pub const PAYLOAD_MAX: usize = 64 << 20;

/// Bytes of a log from which on its oldest file goes. There are two logs in a group of apps.
pub const LOG_BYTES_MAX: u64 = 512 << 20;

/// Days after which the oldest file of a log goes.
pub const AGE_DAYS_MAX: u64 = 30;

/// Begins a record that fills the place of damaged ones.
const GAP: u8 = 2;

/// Bytes of the shortest such record: the mark and a count.
const GAP_MIN: usize = 5;

/// One event, line or chunk that an app could not take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejection {
    /// Milliseconds since 1970.
    pub time: i64,
    pub app: String,
    pub stream: String,
    /// Where it came from or where it failed: `/data/in.csv, line 17`, query `totals`.
    pub place: String,
    pub cause: String,
    pub payload: Vec<u8>,
    /// Bytes of the payload before it was cut.
    pub payload_bytes: u64,
}

impl Rejection {
    /// Begins a record that holds one.
    const MARK: u8 = 1;

    /// A rejection of this payload, cut to what is kept.
    pub fn of_payload(payload: &[u8]) -> Rejection {
        Rejection {
            payload: payload[..payload.len().min(PAYLOAD_MAX)].to_vec(),
            payload_bytes: payload.len() as u64,
            ..Rejection::default()
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(Rejection::MARK);
        writer.i64(self.time);
        for text in [&self.app, &self.stream, &self.place, &self.cause] {
            writer.str(text);
        }
        writer.u64(self.payload_bytes);
        writer.blob(&self.payload);
        writer.bytes
    }

    fn read(bytes: &[u8]) -> Result<Rejection, event::codec::Error> {
        let mut reader = Reader::new(bytes);
        let mark = reader.u8()?;
        if mark != Rejection::MARK {
            return Err(event::codec::Error::Mark { mark, at: 0 });
        }
        Ok(Rejection {
            time: reader.i64()?,
            app: reader.str()?.to_owned(),
            stream: reader.str()?.to_owned(),
            place: reader.str()?.to_owned(),
            cause: reader.str()?.to_owned(),
            payload_bytes: reader.u64()?,
            payload: reader.blob()?.to_vec(),
        })
    }
}

/// The log of a group, written to by its executor or by the threads of its sinks and stores. Without
/// `--state` nothing is kept; the events are counted all the same.
#[derive(Clone, Default)]
pub(crate) struct SharedLog(Arc<Mutex<Option<RejectedLog>>>);

impl SharedLog {
    fn lock(&self) -> MutexGuard<'_, Option<RejectedLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, log: RejectedLog) {
        *self.lock() = Some(log);
    }

    /// A full disk must not stop the healthy events: it is said, and the rejection only counted.
    pub fn keep(&self, rejection: Rejection) {
        let mut log = self.lock();
        let Some(log) = log.as_mut() else { return };
        if let Err(error) = log.append(&rejection) {
            tracing::error!(
                cause = crate::report::chain(&error),
                "cannot store rejected event"
            );
        }
    }

    /// Length up to which the log is durable; 0 where nothing is kept.
    pub fn sync(&self) -> Result<u64, Error> {
        self.lock().as_mut().map_or(Ok(0), RejectedLog::sync)
    }

    /// Events that the bounds of the log have cost since this was asked last.
    pub fn take_dropped(&self) -> u64 {
        self.lock().as_mut().map_or(0, RejectedLog::take_dropped)
    }

    /// Length so far.
    pub fn len(&self) -> u64 {
        self.lock().as_ref().map_or(0, RejectedLog::len)
    }
}

/// Rejected by sources and queries, and by sinks and stores: two logs, because the second is
/// written while the snapshot that covers it is on its way.
pub(crate) const FILES: [&str; 2] = ["rejected", "undelivered"];

/// How many records a record stands for that fills their place; `None` inside where nobody knows.
/// `None` for any other record.
fn gap_records(record: &[u8]) -> Option<Option<u32>> {
    let (mark, rest) = record.split_first()?;
    let count = rest.get(..4).filter(|_| *mark == GAP)?;
    let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
    Some((count < u32::MAX).then_some(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_kept_whole_up_to_a_bound_and_its_size_is_kept() {
        let whole = Rejection::of_payload(&vec![b'x'; 200_004]);
        assert_eq!(
            (whole.payload.len(), whole.payload_bytes),
            (200_004, 200_004)
        );
        assert_eq!(Rejection::read(&whole.write()), Ok(whole));
        let cut = Rejection::of_payload(&vec![b'x'; PAYLOAD_MAX + 5]);
        assert_eq!(cut.payload.len(), PAYLOAD_MAX);
        assert_eq!(cut.payload_bytes, PAYLOAD_MAX as u64 + 5);
    }
}
