//! What reading any log has in common: which changes are requested, which of them the position
//! already covers, and passing on the others in batches.

use std::time::Duration;

use event::Value;

use super::{Change, Options};
use connect::component::{Finished, Payload, Room, Sequence, Signal, SourceLink};
use connect::error::Error;
use connect::rows::Properties;

/// Longest time for which changes wait to be handed on together.
const LINGER_MS: i64 = 10;

pub(super) struct Delivery {
    wanted: Vec<Change>,
    properties: Properties,
    /// Changes of this transaction so far, of those that are wanted.
    seen: u64,
    posted_at: i64,
    has_unposted: bool,
}

impl Delivery {
    pub fn new(options: &Options) -> Result<Delivery, Error> {
        let operation = options.transport.option("operation").unwrap_or_default();
        Ok(Delivery {
            wanted: Change::list(operation).map_err(|cause| options.refused(cause))?,
            properties: Properties::new(&["operation", "source.ts_ms", "ts_ms"]),
            seen: 0,
            posted_at: 0,
            has_unposted: false,
        })
    }

    /// Several operations are reported: then every map has every key.
    pub fn is_complete(&self) -> bool {
        self.wanted.len() > 1
    }

    /// Rows before their change are reported.
    pub fn wants_old(&self) -> bool {
        self.wanted.iter().any(|change| *change != Change::Insert)
    }

    pub fn has_unposted(&self) -> bool {
        self.has_unposted
    }

    /// A transaction begins, perhaps one that was read before.
    pub fn begin(&mut self) {
        self.seen = 0;
    }

    /// Counts a change of the open transaction. Its number, from 1, unless it is not wanted or among
    /// the first `covered`, which were handed on before.
    pub fn count(&mut self, change: Change, covered: u64) -> Option<u64> {
        if !self.wanted.contains(&change) {
            return None;
        }
        self.seen += 1;
        (self.seen > covered).then_some(self.seen)
    }

    /// `at` is when it was logged, in milliseconds since 1970.
    pub fn hand_on(
        &mut self,
        change: Change,
        at: i64,
        map: &[(Value, Value)],
        link: &mut dyn SourceLink,
    ) -> Room {
        self.properties.set(0, Value::str(change.name()));
        self.properties.set(1, Value::Long(at));
        self.properties.set(2, Value::Long(link.now()));
        self.has_unposted = true;
        link.map(Payload::Map(map), &self.properties)
    }

    /// What was handed on has waited for long enough.
    pub fn is_due(&self, link: &dyn SourceLink) -> bool {
        self.has_unposted && link.now() - self.posted_at >= LINGER_MS
    }

    /// The last position was posted longer ago.
    pub fn is_older(&self, ms: i64, link: &dyn SourceLink) -> bool {
        link.now() - self.posted_at >= ms
    }

    /// All that was handed on lies before this position.
    pub fn post(&mut self, position: &[u8], link: &mut dyn SourceLink) -> Result<Sequence, Error> {
        self.has_unposted = false;
        self.posted_at = link.now();
        link.post(position)
    }
}

/// Whether a signal ends the source; a pause is waited for.
pub(super) fn heeded(signal: Signal, link: &mut dyn SourceLink) -> Option<Finished> {
    match signal {
        Signal::Stop => Some(Finished::Stopped),
        Signal::End => Some(Finished::Ended),
        Signal::Pause => loop {
            match link.wait(Duration::from_secs(1)) {
                Signal::Stop => return Some(Finished::Stopped),
                Signal::Resume => return None,
                _ => {}
            }
        },
        Signal::Acked(_) | Signal::Timeout | Signal::Resume => None,
    }
}
