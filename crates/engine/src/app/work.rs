//! What the queries of an app have done, and how long it took.
//!
//! The engine has no clock: the host's stopwatch is read before and behind a query, and nothing but
//! these counts depends on it. Its cost is bounded by sampling: a call with many events is timed
//! always, and so is a deadline; one with few events only once in a while. Where nobody wants to know,
//! nothing is counted and the stopwatch is not read.

use plan::QueryId;

use crate::app::App;
use crate::host::Host;

/// Upper bounds of the buckets of times, nanoseconds; one more bucket takes what is longer.
pub const BOUNDS: [u64; 13] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
];

/// Events from which on every call is timed, and how seldom a smaller one is.
const MANY: usize = 64;
const ONE_IN: u64 = 16;

/// What one query has done since the app was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueryWork {
    /// Times at which it was handed events, or a deadline of it was served.
    pub calls: u64,
    pub events: u64,
    /// Calls that were timed, and how long they took together.
    pub timed: u64,
    pub nanos: u64,
    /// Timed calls by [`BOUNDS`].
    pub buckets: [u64; BOUNDS.len() + 1],
}

impl QueryWork {
    fn took(&mut self, nanos: u64) {
        self.timed += 1;
        self.nanos = self.nanos.saturating_add(nanos);
        self.buckets[BOUNDS.partition_point(|&bound| bound < nanos)] += 1;
    }
}

/// A call that has begun; with the time if it is timed.
pub(crate) struct Begun(Option<u64>);

/// The work of all queries, counted while somebody wants to know.
#[derive(Default)]
pub(crate) struct WorkLog {
    is_on: bool,
    queries: Vec<QueryWork>,
}

impl WorkLog {
    pub fn new(queries: usize) -> WorkLog {
        WorkLog {
            is_on: false,
            queries: vec![QueryWork::default(); queries],
        }
    }

    #[inline]
    pub fn begin(&self, query: QueryId, events: usize, host: &mut dyn Host) -> Begun {
        let work = self.queries.get(query).filter(|_| self.is_on);
        let is_timed = work.is_some_and(|w| events >= MANY || w.calls.is_multiple_of(ONE_IN));
        Begun(is_timed.then(|| host.nanos()))
    }

    /// A deadline is about to be served: it may let out much, and is always timed.
    pub fn begin_timer(&self, query: QueryId, host: &mut dyn Host) -> Begun {
        let work = self.queries.get(query).filter(|_| self.is_on);
        Begun(work.map(|_| host.nanos()))
    }

    #[inline]
    pub fn end(&mut self, query: QueryId, events: usize, begun: Begun, host: &mut dyn Host) {
        let Some(work) = self.queries.get_mut(query).filter(|_| self.is_on) else {
            return;
        };
        work.calls += 1;
        work.events += events as u64;
        if let Begun(Some(begun)) = begun {
            work.took(host.nanos().saturating_sub(begun));
        }
    }
}

impl App {
    /// Has the work of the queries counted and timed, by the host's stopwatch, from the next step on, or
    /// not any more. An app begins without.
    pub fn measure(&mut self, is_on: bool) {
        self.work.is_on = is_on;
    }

    /// The work of each query while it was measured, in the order of the plan.
    pub fn work(&self) -> &[QueryWork] {
        &self.work.queries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_their_buckets() {
        let mut work = QueryWork::default();
        for nanos in [1, 1_000, 1_001, 5_000_000_000] {
            work.took(nanos);
        }
        assert_eq!((work.timed, work.nanos), (4, 5_000_002_002));
        assert_eq!((work.buckets[0], work.buckets[1]), (2, 1));
        assert_eq!(work.buckets[BOUNDS.len()], 1);
    }

    #[test]
    fn few_calls_with_few_events_are_timed() {
        let mut log = WorkLog::new(1);
        let begun = log.begin(0, 500, &mut crate::NoHost);
        log.end(0, 500, begun, &mut crate::NoHost);
        assert_eq!(log.queries[0], QueryWork::default());
        log.is_on = true;
        for _ in 0..32 {
            let begun = log.begin(0, 1, &mut crate::NoHost);
            log.end(0, 1, begun, &mut crate::NoHost);
        }
        let begun = log.begin(0, 500, &mut crate::NoHost);
        log.end(0, 500, begun, &mut crate::NoHost);
        let work = log.queries[0];
        assert_eq!((work.calls, work.events, work.timed), (33, 532, 3));
        let begun = log.begin_timer(0, &mut crate::NoHost);
        log.end(0, 0, begun, &mut crate::NoHost);
        let work = log.queries[0];
        assert_eq!((work.calls, work.events, work.timed), (34, 532, 4));
        log.is_on = false;
        assert!(log.begin_timer(0, &mut crate::NoHost).0.is_none());
        assert!(log.begin(0, 500, &mut crate::NoHost).0.is_none());
    }
}
