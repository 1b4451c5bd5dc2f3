//! The fast path: a chunk that meets one receiver after the other.
//!
//! Most streams have one reader, and most queries cannot fail. A chunk that such a stream takes goes
//! through its query to the next stream, and so on, in one loop, without the work stack of
//! [`crate::app::junction`]; where the way forks or may fail it is handed to that. The order of things is
//! the same, for there is nothing else to be done.

// Twin: junction.rs; keep both in step.

use event::Batch;
use plan::{Output as PlanOutput, QueryId, StreamId};

use crate::app::junction::DEPTH_MAX;
use crate::app::{App, Outside};
use crate::graph::Receiver;

/// How a chunk goes on from a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FastPath {
    /// Into this query, and from there to a stream, if it does not write into a table.
    Query {
        query: QueryId,
        side: u16,
        to: Option<StreamId>,
    },
    /// To sinks and to whoever observes the stream.
    Leave,
    /// As [`App::hand_out`] finds it.
    Fork,
}

impl App {
    /// The fast path from each stream, for an app that is made but for this.
    pub(crate) fn find_fast_paths(&mut self) {
        let ways: Vec<FastPath> = (0..self.streams.len()).map(|id| self.way(id)).collect();
        for (stream, way) in self.streams.iter_mut().zip(ways) {
            stream.way = way;
        }
    }

    fn way(&self, stream: StreamId) -> FastPath {
        let from = &self.streams[stream];
        let is_watched = !from.taps.is_empty();
        if self.budget.is_some() || from.deferred.is_some() || from.is_inner || is_watched {
            return FastPath::Fork;
        }
        let leaves = from.has_sinks || from.is_observed;
        match from.receivers.as_slice() {
            [] if leaves => FastPath::Leave,
            &[Receiver::Query { query, side }] if !leaves => {
                let reader = &self.queries[query];
                let to = match reader.output {
                    PlanOutput::Stream(to) if self.streams[to].is_inner => return FastPath::Fork,
                    PlanOutput::Stream(to) => Some(to),
                    PlanOutput::Window(_) => return FastPath::Fork,
                    _ => None,
                };
                if !reader.may_keep() || reader.partition.is_some() {
                    return FastPath::Fork;
                }
                FastPath::Query { query, side, to }
            }
            _ => FastPath::Fork,
        }
    }

    /// Takes a chunk as far as its fast path leads.
    #[inline]
    pub(crate) fn take_fast_path(
        &mut self,
        mut stream: StreamId,
        mut batch: Batch,
        outside: &mut Outside<'_>,
    ) {
        let mut depth = 0;
        while let FastPath::Query { query, side, to } = self.streams[stream].way
            && depth < DEPTH_MAX
        {
            let reader = &mut self.queries[query];
            reader.notice(&batch, &self.streams[stream].schema);
            if !reader.may_keep() {
                // It has seen values that may fail, now or before.
                break;
            }
            let rows_in = &mut self.rows_in[stream];
            *rows_in = rows_in.saturating_add(batch.len as u64);
            let events = batch.len;
            let begun = self.work.begin(query, events, outside.host);
            let step = &mut self.core.step(outside);
            let result = reader.process(batch, side, 0, step);
            self.work.end(query, events, begun, outside.host);
            (stream, batch) = match (result, to) {
                (Ok(Some(rows)), Some(to)) => (to, rows),
                (Ok(_), _) => return,
                (Err(broken), _) => {
                    return self.report(query, Some(stream), broken, None, 0, outside);
                }
            };
            depth += 1;
            if batch.chunk_count() != 1 {
                break;
            }
        }
        if self.streams[stream].way == FastPath::Leave && batch.chunk_count() == 1 {
            let rows_in = &mut self.rows_in[stream];
            *rows_in = rows_in.saturating_add(batch.len as u64);
            self.leave(stream, batch, depth, outside);
        } else if self.streams[stream].deferred.is_some() && depth > 0 {
            self.deferred.push_back((stream, batch));
        } else {
            self.hand_out(stream, 0, batch, depth, outside);
        }
    }
}
