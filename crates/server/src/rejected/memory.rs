//! The newest rejected events, in memory: of a server without a state directory.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::edits::Edited;
use super::log::example;
use super::record::View;
use super::removal::Runs;
use super::summary::{Summary, hash_of};
use super::{PAYLOAD_MAX, Rejection};
use crate::backoff::LogThrottle;

/// Bytes that an event takes beside its record.
const EVENT_BYTES: u64 = 64;

pub(crate) struct MemoryLog {
    /// Numbers and records, in order.
    events: VecDeque<(u32, Arc<[u8]>)>,
    next: u32,
    bytes: u64,
    bytes_max: u64,
    summary: Summary,
    /// Events that the bound has cost, not told yet, and all of them.
    dropped: u64,
    dropped_total: u64,
    throttle: LogThrottle,
    room: String,
    /// Payloads that somebody has edited, with the times of their events.
    pub(super) edits: HashMap<u32, (i64, Edited)>,
}

impl MemoryLog {
    pub fn new(bytes_max: u64) -> MemoryLog {
        MemoryLog {
            events: VecDeque::new(),
            next: 0,
            bytes: 0,
            bytes_max,
            summary: Summary::default(),
            dropped: 0,
            dropped_total: 0,
            throttle: LogThrottle::default(),
            room: String::new(),
            edits: HashMap::new(),
        }
    }

    pub fn append(&mut self, rejection: &Rejection) {
        // A payload may take the half of it: what is longer can only be looked at.
        let most = (self.bytes_max / 2).min(PAYLOAD_MAX as u64) as usize;
        let record: Arc<[u8]> = match rejection.payload.len() > most {
            true => {
                let cut = Rejection::of_payload(&rejection.payload[..most]);
                let cut = Rejection {
                    payload: cut.payload,
                    kind: cut.kind,
                    attributes: Vec::new(),
                    ..rejection.clone()
                };
                cut.write().into()
            }
            false => rejection.write().into(),
        };
        let view = View::read(&record).expect("it was just written");
        self.summary.add(example(self.next), &view);
        self.bytes += record.len() as u64 + EVENT_BYTES;
        self.events.push_back((self.next, record));
        self.next = self.next.wrapping_add(1);
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        let before = self.dropped;
        while self.bytes > self.bytes_max
            && self.events.len() > 1
            && let Some((number, record)) = self.events.pop_front()
        {
            self.uncount(number, &record);
            self.dropped += 1;
        }
        self.dropped_total += self.dropped - before;
        if self.dropped > before
            && let Some(count) = self.throttle.admit()
        {
            tracing::warn!(
                count,
                events = self.dropped_total,
                "dropped the oldest rejected events: without --state only {} MB are held in memory; \
                 replay, export or purge them in time, or run with --state",
                self.bytes_max >> 20
            );
        }
    }

    fn uncount(&mut self, number: u32, record: &[u8]) {
        self.bytes -= record.len() as u64 + EVENT_BYTES;
        self.edits.remove(&number);
        if let Ok(view) = View::read(record) {
            self.summary.take(hash_of(&view, &mut self.room), 1);
            self.summary.forget(|known| known == example(number));
        }
    }

    pub fn remove(&mut self, runs: &Runs) {
        let events = std::mem::take(&mut self.events);
        let (gone, left) = events
            .into_iter()
            .partition(|(number, _)| runs.has_number(*number));
        self.events = left;
        let gone: VecDeque<_> = gone;
        for (number, record) in &gone {
            self.uncount(*number, record);
        }
    }

    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The events from a number on.
    pub fn from(&self, number: u32) -> Vec<(u32, Arc<[u8]>)> {
        let at = self.events.partition_point(|(known, _)| *known < number);
        self.events.range(at..).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejected::removal::Run;

    fn sample(n: i64) -> Rejection {
        Rejection {
            time: n,
            cause: "bad".into(),
            ..Rejection::of_payload(&[b'x'; 100])
        }
    }

    fn numbers(log: &MemoryLog) -> Vec<u32> {
        log.from(0).iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_newest_are_held_within_the_bound() {
        let mut log = MemoryLog::new(2000);
        (0..20).for_each(|n| log.append(&sample(n)));
        let held = numbers(&log);
        assert!(held.len() > 4 && held.last() == Some(&19), "{held:?}");
        assert_eq!(log.take_dropped(), 20 - held.len() as u64);
        assert_eq!(log.summary().total(), held.len() as u64);
        log.append(&Rejection::of_payload(&[b'x'; 5000]));
        let last = log.from(20).pop().expect("the last one");
        let last = Rejection::read(&last.1).expect("reads");
        assert!(last.is_cut() && last.payload_bytes == 5000);
    }

    #[test]
    fn what_is_removed_is_gone_and_not_dropped() {
        let mut log = MemoryLog::new(1 << 20);
        (0..6).for_each(|n| log.append(&sample(n)));
        let run = Run {
            at: 1,
            bytes: 3,
            number: 1,
            count: 3,
        };
        log.remove(&Runs::of(&[run]));
        assert_eq!(numbers(&log), [0, 4, 5]);
        assert_eq!((log.summary().total(), log.take_dropped()), (3, 0));
    }
}
