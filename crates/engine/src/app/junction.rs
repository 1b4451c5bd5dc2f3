//! Streams and what flows between them: the work stack.
//!
//! A chunk goes to all receivers of a stream in the order of the text, and everything downstream of
//! one receiver is done before the next sees it. That order is kept by an explicit stack, so its
//! depth is no matter of the machine's stack. A batch goes whole where [`crate::graph`] says that
//! nothing can tell the difference, else chunk by chunk.

// Twin: fast_path.rs; keep both in step.

use std::sync::Arc;

use event::{Batch, Chunks, Column, Object, Times, Value, Values};
use plan::{AggregationId, OnError, Output as PlanOutput, QueryId, StreamId, WindowId};

use crate::app::{App, Outside};
use crate::component::Key;
use crate::graph::Receiver;
use crate::output::{Output, RejectedRows};
use crate::partition::{entrance_of, has_key_of};
use crate::query::Query;
use crate::step::{Broken, Fault};

/// Inserts that may follow from one another before a chunk is given up: a loop of streams without
/// an end (Siddhi's ends in a stack overflow).
pub(crate) const DEPTH_MAX: u32 = 100_000;

/// Which delivery a task belongs to, so that a failure can stop what is left of it.
#[derive(Clone)]
pub(crate) struct Origin {
    /// Number of the chunk, or chunks, handed to the receivers of a stream.
    delivery: u64,
    /// Inserts between the chunk from outside and this one.
    depth: u32,
    /// Inside a partition: the chunk as it stands outside, where it is known to be but one.
    outer: Option<Arc<Batch>>,
}

/// What is still to be done, on an explicit stack: the last comes first, so that everything
/// downstream of a chunk is done before the next receiver sees it.
pub(crate) enum Task {
    Stream {
        stream: StreamId,
        key: Key,
        batch: Batch,
        depth: u32,
    },
    /// The same, chunk by chunk from `next` on.
    StreamChunks {
        stream: StreamId,
        key: Key,
        batch: Batch,
        next: usize,
        depth: u32,
    },
    Query {
        reader: Reader,
        batch: Batch,
    },
    QueryChunks {
        reader: Reader,
        batch: Batch,
        next: usize,
    },
    Aggregation {
        aggregation: AggregationId,
        stream: StreamId,
        batch: Batch,
        delivery: u64,
        depth: u32,
    },
    Partition {
        partition: usize,
        entrance: usize,
        batch: Batch,
        delivery: u64,
        depth: u32,
    },
    /// Rows go into a named window.
    Window {
        window: WindowId,
        batch: Batch,
        /// Who is to blame if the window refuses a chunk.
        writer: Option<Writer>,
        depth: u32,
    },
    /// One run inside a partition.
    Run {
        partition: usize,
        entrance: usize,
        key: Key,
        batch: Batch,
        origin: Origin,
    },
    /// Sinks and taps come after all queries.
    Leave {
        stream: StreamId,
        batch: Batch,
        delivery: u64,
        depth: u32,
    },
}

/// A query about to read.
#[derive(Clone)]
pub(crate) struct Reader {
    query: QueryId,
    /// 1 for the right side of a join.
    side: u16,
    /// The stream it reads, whose `@OnError` settles a failure.
    stream: StreamId,
    key: Key,
    origin: Origin,
}

/// A query that read one chunk, and what it read.
#[derive(Clone)]
pub(crate) struct Writer(Arc<(Reader, Batch)>);

impl Task {
    pub(crate) fn delivery(&self) -> Option<u64> {
        match self {
            Task::Stream { .. } | Task::StreamChunks { .. } | Task::Window { .. } => None,
            Task::Query { reader, .. } | Task::QueryChunks { reader, .. } => {
                Some(reader.origin.delivery)
            }
            Task::Run { origin, .. } => Some(origin.delivery),
            Task::Aggregation { delivery, .. }
            | Task::Partition { delivery, .. }
            | Task::Leave { delivery, .. } => Some(*delivery),
        }
    }
}

impl App {
    pub(crate) fn drain(&mut self, outside: &mut Outside<'_>) {
        while let Some(task) = self.stack.pop() {
            self.run(task, outside);
        }
    }

    fn run(&mut self, task: Task, outside: &mut Outside<'_>) {
        match task {
            Task::Stream {
                stream,
                key,
                batch,
                depth,
            } => {
                if self.streams[stream].deferred.is_some() {
                    self.deferred.push_back((stream, batch));
                } else {
                    self.hand_out(stream, key, batch, depth, outside);
                }
            }
            Task::StreamChunks {
                stream,
                key,
                batch,
                next,
                depth,
            } => {
                let one = batch.slice_chunks(next..next + 1);
                if next + 1 < batch.chunk_count() {
                    self.stack.push(Task::StreamChunks {
                        stream,
                        key,
                        batch,
                        next: next + 1,
                        depth,
                    });
                }
                self.deliver(stream, key, one, depth, outside);
            }
            Task::Query { reader, batch } => self.run_query(reader, batch, outside),
            Task::QueryChunks {
                reader,
                batch,
                next,
            } => {
                let one = batch.slice_chunks(next..next + 1);
                if next + 1 < batch.chunk_count() {
                    self.stack.push(Task::QueryChunks {
                        reader: reader.clone(),
                        batch,
                        next: next + 1,
                    });
                }
                self.run_chunk(reader, one, outside);
            }
            Task::Window {
                window,
                batch,
                writer,
                depth,
            } => self.run_window(window, batch, writer, depth, outside),
            Task::Aggregation {
                aggregation,
                stream,
                batch,
                delivery,
                depth,
            } => self.run_aggregation(aggregation, stream, batch, (delivery, depth), outside),
            Task::Partition {
                partition,
                entrance,
                batch,
                delivery,
                depth,
            } => self.run_partition(partition, entrance, batch, (delivery, depth), outside),
            Task::Run {
                partition,
                entrance,
                key,
                batch,
                origin,
            } => self.run_inside(partition, entrance, key, batch, origin, outside),
            Task::Leave {
                stream,
                batch,
                depth,
                ..
            } => self.leave(stream, batch, depth, outside),
        }
    }

    /// To sinks, to streams that read an in-memory topic the stream writes, to taps.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        stream: StreamId,
        batch: Batch,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        let junction = &self.streams[stream];
        for &to in junction.linked.iter().rev() {
            self.stack.push(Task::Stream {
                stream: to,
                key: 0,
                batch: batch.clone(),
                depth: depth + 1,
            });
        }
        let items = &mut outside.out.items;
        match (junction.has_sinks, junction.is_observed) {
            (true, true) => {
                let sunk = batch.clone();
                items.push(Output::Sink {
                    stream,
                    batch: sunk,
                });
                items.push(Output::Tap { stream, batch });
            }
            (true, false) => items.push(Output::Sink { stream, batch }),
            (false, true) => items.push(Output::Tap { stream, batch }),
            (false, false) => {}
        }
    }

    /// Gives rows to all who read the stream. Nothing may be pushed on the stack behind it: a lone
    /// receiver runs at once.
    #[inline]
    pub(crate) fn hand_out(
        &mut self,
        stream: StreamId,
        key: Key,
        batch: Batch,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        // A forged state may stand at the end of the count; it stays there.
        self.rows_in[stream] = self.rows_in[stream].saturating_add(batch.len as u64);
        if let Some(budget) = &mut self.budget {
            budget.pass(stream, &batch);
        }
        if !self.streams[stream].taps.is_empty() {
            self.pass_taps(stream, &batch, outside.host);
        }
        let is_lockstep = self.forced_lockstep || self.streams[stream].lockstep.is_some();
        if is_lockstep && batch.chunk_count() > 1 {
            self.stack.push(Task::StreamChunks {
                stream,
                key,
                batch,
                next: 0,
                depth,
            });
        } else {
            self.deliver(stream, key, batch, depth, outside);
        }
    }

    fn deliver(
        &mut self,
        stream: StreamId,
        key: Key,
        batch: Batch,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        self.delivery += 1;
        let delivery = self.delivery;
        let junction = &self.streams[stream];
        let leaves = junction.has_sinks || junction.is_observed;
        match junction.receivers.as_slice() {
            [] if leaves => return self.leave(stream, batch, depth, outside),
            [] => return,
            &[Receiver::Query { query, side }] if !leaves => {
                let origin = Origin {
                    delivery,
                    depth,
                    outer: None,
                };
                let reader = Reader {
                    query,
                    side,
                    stream,
                    key,
                    origin,
                };
                return self.run_query(reader, batch, outside);
            }
            _ => {}
        }
        let cut = self.cut_by_partition(stream, &batch, depth);
        // The last task pushed takes the batch, those before it a copy.
        let mut batch = Some(batch);
        let mut next = |place: usize, is_last: bool| match &cut {
            Some((behind, first)) if place >= *behind => Some(first.clone()),
            _ if is_last => batch.take(),
            _ => batch.clone(),
        };
        let receivers = junction.receivers.len();
        if leaves && let Some(batch) = next(receivers, receivers == 0) {
            self.stack.push(Task::Leave {
                stream,
                batch,
                delivery,
                depth,
            });
        }
        for (at, &receiver) in junction.receivers.iter().enumerate().rev() {
            let Some(batch) = next(at, at == 0) else {
                return;
            };
            let task = match receiver {
                Receiver::Query { query, side } => Task::Query {
                    reader: Reader {
                        query,
                        side,
                        stream,
                        key,
                        origin: Origin {
                            delivery,
                            depth,
                            outer: None,
                        },
                    },
                    batch,
                },
                Receiver::Aggregation(aggregation) => Task::Aggregation {
                    aggregation,
                    stream,
                    batch,
                    delivery,
                    depth,
                },
                Receiver::Partition(partition) => Task::Partition {
                    partition,
                    entrance: entrance_of(&self.partitions[partition], stream)
                        .expect("a partition that receives a stream has an entrance for it"),
                    batch,
                    delivery,
                    depth,
                },
            };
            self.stack.push(task);
        }
    }

    /// With compat: the receivers from this place on, and sinks and taps, see only this of a chunk
    /// that a query wrote. A partition takes the chunk apart while it looks for its keys, and in
    /// Siddhi those behind read the same list (`PartitionStreamReceiver`).
    fn cut_by_partition(
        &self,
        stream: StreamId,
        batch: &Batch,
        depth: u32,
    ) -> Option<(usize, Batch)> {
        if !self.core.environment.compat || depth == 0 || batch.len < 2 {
            return None;
        }
        let receivers = self.streams[stream].receivers.iter();
        let place = receivers.clone().position(|receiver| match receiver {
            Receiver::Partition(partition) => has_key_of(&self.partitions[*partition], stream),
            _ => false,
        })?;
        let keep: Vec<bool> = (0..batch.len).map(|row| row == 0).collect();
        Some((place + 1, batch.filter(&keep)?))
    }

    #[inline]
    fn run_query(&mut self, reader: Reader, batch: Batch, outside: &mut Outside<'_>) {
        if batch.chunk_count() == 1 {
            return self.run_chunk(reader, batch, outside);
        }
        let schema = &self.streams[reader.stream].schema;
        let query = &mut self.queries[reader.query];
        let wants_chunks =
            query.is_self_join() || query.wants_chunks(&batch, schema, &self.core.tables);
        let mut rest = Some(batch);
        if !wants_chunks && let Some(batch) = rest.take() {
            let events = batch.len;
            let begun = self.work.begin(reader.query, events, outside.host);
            rest = spare_copy(&batch, query);
            let step = &mut self.core.step(outside);
            let result = query.process(batch, reader.side, reader.key, step);
            if let Ok(rows) = result {
                self.work.end(reader.query, events, begun, outside.host);
                return self.route(reader.query, reader.key, rows, reader.origin.depth);
            }
        }
        if let Some(batch) = rest {
            self.stack.push(Task::QueryChunks {
                reader,
                batch,
                next: 0,
            });
        }
    }

    fn run_chunk(&mut self, reader: Reader, batch: Batch, outside: &mut Outside<'_>) {
        if reader.origin.depth > DEPTH_MAX {
            let cause = format!("streams feed back into each other more than {DEPTH_MAX} times");
            let broken = Broken::at("insert".to_owned(), cause);
            return self.chunk_failed(reader, broken, batch, outside);
        }
        let query = &mut self.queries[reader.query];
        if query.is_self_join() {
            return self.run_self_join(reader, batch, outside);
        }
        query.notice(&batch, &self.streams[reader.stream].schema);
        let events = batch.len;
        let begun = self.work.begin(reader.query, events, outside.host);
        let copy = spare_copy(&batch, query);
        let step = &mut self.core.step(outside);
        let result = query.process(batch, reader.side, reader.key, step);
        self.work.end(reader.query, events, begun, outside.host);
        match result {
            Ok(rows) => {
                let writer = copy.and_then(|batch| self.writer(&reader, &batch));
                let depth = reader.origin.depth;
                self.route_from(writer, reader.query, reader.key, rows, depth);
                self.route_delivered(reader.query, reader.key, depth);
            }
            Err(broken) => {
                let (query, key, depth) = (reader.query, reader.key, reader.origin.depth);
                debug_assert!(
                    copy.is_some(),
                    "the query was held for one that cannot fail: {broken:?}"
                );
                let batch = copy.unwrap_or_else(Batch::empty);
                self.chunk_failed(reader, broken, batch, outside);
                self.route_delivered(query, key, depth);
            }
        }
    }

    /// Row by row, the left side first (Siddhi's `MultiProcessStreamReceiver`). Of a named window
    /// joined with itself only the left side triggers.
    fn run_self_join(&mut self, reader: Reader, batch: Batch, outside: &mut Outside<'_>) {
        let clock = batch.clock_at(0);
        let sides = self.queries[reader.query].self_join_triggers();
        let mut results = Vec::new();
        let mut failed = None;
        let begun = self.work.begin(reader.query, batch.len, outside.host);
        'rows: for row in 0..batch.len {
            for side in 0..sides {
                let mut one = Batch::new(
                    batch.columns.iter().map(|c| c.slice(row, 1)).collect(),
                    1,
                    Times::Same(batch.times.at(row)),
                    Chunks::One,
                    clock,
                );
                one.expired = batch.is_expired(row).then(|| [true].into());
                let step = &mut self.core.step(outside);
                match self.queries[reader.query].process(one, side, reader.key, step) {
                    Ok(rows) => results.push(rows),
                    Err(broken) => {
                        failed = Some(broken);
                        break 'rows;
                    }
                }
            }
        }
        let (query, key, depth) = (reader.query, reader.key, reader.origin.depth);
        self.work.end(query, batch.len, begun, outside.host);
        let writer = self.writer(&reader, &batch);
        if let Some(broken) = failed {
            self.chunk_failed(reader, broken, batch, outside);
        }
        // Pushed last to first, so that they are delivered in order.
        for rows in results.into_iter().rev() {
            self.route_from(writer.clone(), query, key, rows, depth);
        }
    }

    /// Who is to blame for what the query emits, where a window that it fills may refuse it.
    fn writer(&self, reader: &Reader, batch: &Batch) -> Option<Writer> {
        let may_be_refused = self.queries[reader.query].fills_fallible_window;
        may_be_refused.then(|| Writer(Arc::new((reader.clone(), batch.clone()))))
    }

    /// Sends matches that were emitted one by one on their way, the first first.
    #[inline]
    fn route_delivered(&mut self, query: QueryId, key: Key, depth: u32) {
        if !self.queries[query].has_delivered() {
            return;
        }
        for rows in self.queries[query].take_delivered().into_iter().rev() {
            self.route(query, key, Some(rows), depth);
        }
    }

    /// Sends what a query emits on its way; `depth` is that of what it read.
    pub(crate) fn route(&mut self, query: QueryId, key: Key, rows: Option<Batch>, depth: u32) {
        self.route_from(None, query, key, rows, depth);
    }

    #[inline]
    fn route_from(
        &mut self,
        writer: Option<Writer>,
        query: QueryId,
        key: Key,
        rows: Option<Batch>,
        depth: u32,
    ) {
        let Some(batch) = rows else {
            return;
        };
        let depth = depth + 1;
        match self.queries[query].output {
            PlanOutput::Stream(stream) => {
                // Outside a partition there is but one key.
                let key = if self.streams[stream].is_inner {
                    key
                } else {
                    0
                };
                self.stack.push(Task::Stream {
                    stream,
                    key,
                    batch,
                    depth,
                });
            }
            PlanOutput::Window(window) => self.stack.push(Task::Window {
                window,
                batch,
                writer,
                depth,
            }),
            _ => {}
        }
    }

    fn run_partition(
        &mut self,
        partition: usize,
        entrance: usize,
        batch: Batch,
        (delivery, depth): (u64, u32),
        outside: &mut Outside<'_>,
    ) {
        let is_one = batch.chunk_count() == 1;
        let this = &self.partitions[partition];
        let stream = this.entrances[entrance].stream;
        let schema = &self.streams[stream].schema;
        let is_sure = this
            .queries
            .iter()
            .all(|&q| self.queries[q].is_sure(&batch, schema));
        let mut result = None;
        if is_one || is_sure {
            let whole = !self.forced_lockstep;
            let step = &mut self.core.step(outside);
            result = Some(self.partitions[partition].runs(entrance, &batch, whole, step));
        }
        match result {
            Some(Ok(runs)) => {
                let outer = is_one.then(|| Arc::new(batch));
                for (key, batch) in runs.into_iter().rev() {
                    let origin = Origin {
                        delivery,
                        depth,
                        outer: outer.clone(),
                    };
                    self.stack.push(Task::Run {
                        partition,
                        entrance,
                        key,
                        batch,
                        origin,
                    });
                }
            }
            Some(Err(cause)) if is_one => {
                let this = &self.partitions[partition];
                let place = format!("key of partition '{}'", this.name);
                if let Some(&query) = this.queries.first() {
                    let broken = Broken::at(place, cause);
                    self.report(query, Some(stream), broken, Some(batch), depth, outside);
                }
            }
            _ => {
                for chunk in (0..batch.chunk_count()).rev() {
                    self.stack.push(Task::Partition {
                        partition,
                        entrance,
                        batch: batch.slice_chunks(chunk..chunk + 1),
                        delivery,
                        depth,
                    });
                }
            }
        }
    }

    fn run_inside(
        &mut self,
        partition: usize,
        entrance: usize,
        key: Key,
        batch: Batch,
        origin: Origin,
        outside: &mut Outside<'_>,
    ) {
        if self.partitions[partition].touch(key, self.core.clock) {
            for query in self.partitions[partition].queries.clone() {
                self.queries[query].start(key, &mut self.core.step(outside));
            }
        }
        self.arm_purge(partition);
        let entrance = &self.partitions[partition].entrances[entrance];
        for &receiver in entrance.receivers.iter().rev() {
            if let Receiver::Query { query, side } = receiver {
                self.stack.push(Task::Query {
                    reader: Reader {
                        query,
                        side,
                        stream: entrance.stream,
                        key,
                        origin: origin.clone(),
                    },
                    batch: batch.clone(),
                });
            }
        }
    }

    // ---- failures ----

    /// A query failed on a chunk. Inside a partition the runs behind are not run and the outer
    /// chunk is reported. The receivers behind get the chunk all the same, but with compat.
    fn chunk_failed(
        &mut self,
        reader: Reader,
        broken: Broken,
        batch: Batch,
        outside: &mut Outside<'_>,
    ) {
        let Origin {
            delivery,
            depth,
            outer,
        } = reader.origin;
        if self.core.environment.compat {
            self.stack.retain(|task| task.delivery() != Some(delivery));
        } else if let Some(outer) = &outer {
            self.stack.retain(|task| {
                !matches!(task, Task::Run { origin, .. } if origin.delivery == delivery
                    && origin.outer.as_ref().is_some_and(|o| Arc::ptr_eq(o, outer)))
            });
        }
        let rows = outer.map_or(batch, Arc::unwrap_or_clone);
        self.report(
            reader.query,
            Some(reader.stream),
            broken,
            Some(rows),
            depth,
            outside,
        );
    }

    /// A named window refused a chunk: the chunk that its writer read has failed, and what else the
    /// writer made of it is not written.
    pub(crate) fn writer_failed(
        &mut self,
        window: WindowId,
        writer: Option<Writer>,
        broken: Broken,
        outside: &mut Outside<'_>,
    ) {
        if let Some(Writer(writer)) = writer {
            self.stack.retain(|task| {
                !matches!(task, Task::Window { writer: Some(other), .. }
                    if Arc::ptr_eq(&other.0, &writer))
            });
            let (reader, batch) = Arc::unwrap_or_clone(writer);
            return self.chunk_failed(reader, broken, batch, outside);
        }
        let mut queries = self.queries.iter();
        let query = queries.position(|q| matches!(q.output, PlanOutput::Window(w) if w == window));
        // A window that no query fills has nothing to fail on.
        if let Some(query) = query {
            self.report(query, None, broken, None, 0, outside);
        }
    }

    /// A chunk failed: to the log, the fault stream or the error store, as its stream says.
    pub(crate) fn report(
        &mut self,
        query: QueryId,
        stream: Option<StreamId>,
        broken: Broken,
        batch: Option<Batch>,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        let place = format!("query '{}', {}", self.queries[query].name, broken.place);
        let broken = Broken::at(place, broken.into_fault().cause);
        self.report_at(Some(query), stream, broken, batch, depth, outside);
    }

    /// The same, where the place is said in full.
    pub(crate) fn report_at(
        &mut self,
        query: Option<QueryId>,
        stream: Option<StreamId>,
        broken: Broken,
        batch: Option<Batch>,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        let on_error = stream.map_or(OnError::Log, |s| self.streams[s].on_error);
        let rows = batch.unwrap_or_else(|| {
            Batch::new(
                Vec::new(),
                0,
                Times::Same(self.core.clock),
                Chunks::One,
                self.core.clock,
            )
        });
        if let OnError::Stream(fault) = on_error {
            let error = Value::Object(Object::Error(java_text(&broken.cause).into()));
            let mut batch = rows;
            let errors = vec![error; batch.len];
            batch.columns.push(Column::new(Values::Any(errors), None));
            return self.stack.push(Task::Stream {
                stream: fault,
                key: 0,
                batch,
                depth: depth + 1,
            });
        }
        let Fault { place, cause } = broken.into_fault();
        outside
            .out
            .items
            .push(Output::Rejected(Box::new(RejectedRows {
                stream,
                query,
                place,
                cause,
                rows,
                is_kept: on_error == OnError::Store,
            })));
    }
}

/// A copy of what a query is given, where it may fail and the rows are needed again.
fn spare_copy(batch: &Batch, query: &Query) -> Option<Batch> {
    (!query.may_keep()).then(|| batch.clone())
}

/// The text of the exception that Siddhi puts into `_error`.
fn java_text(cause: &str) -> String {
    let class = if cause.starts_with("class ") && cause.ends_with("'bootstrap')") {
        "java.lang.ClassCastException"
    } else {
        "io.siddhi.core.exception.SiddhiAppRuntimeException"
    };
    format!("{class}: {cause}")
}
