//! The thread that runs a group of apps: takes waiting inputs, reads the clock once, steps, passes
//! on the output, fires timers, parks until the next deadline.
//!
//! A group is the apps linked by in-memory topics or by a database; mostly it is one app. One
//! thread for all of them makes a topic a plain queue and every moment between two steps a
//! consistent checkpoint of the whole group. Promises: output leaves an app in the order in which
//! it was produced; if a queue after the executor is full, the executor stops, and with it the
//! sources. Never: work on a destination that may block for long while it could be done by another
//! thread.

mod apart;
mod ask;
mod checkpointer;
mod host;
mod inject;
mod input;
mod output;
mod replay;
mod saved;
mod table_feed;
mod tap;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use connect::component::{Environment, Sequence, Sink};
use connect::distribution::Share;
use connect::effect::{EffectCalls, PendingEffect};
use connect::message::Messages;
use connect::registry::Registry;
use connect::row_decoder::RowDecoder;
use connect::row_encoder::RowEncoder;
use connect::rows::Rejected;
use engine::{App, Input, Outputs};
use event::{Batch, Column, Value};
use plan::{Plan, StatisticsLevel, StreamId, StreamKind, TableId};

use crate::activity::ActivityTracker;
use crate::backoff::LogThrottle;
use crate::checkpoint::coordinator::PendingCheckpoint;
use crate::clock::Clock;
use crate::health::Health;
use crate::lines::Lines;
use crate::metrics::{AppMetrics, SinkMetrics, StreamMetrics, TableMetrics};
use crate::otlp::Span;
use crate::queue::Taken;
use crate::rejected::{Attempt, Rejection, Replayed, SharedLog, Stage, rejected_rows};
use crate::report::panic_text;
use crate::sink::{OnUnreachable, OutputQueue, SinkRows};
use crate::source::{PlacedRejected, Position, SourceBatch, SourceHandle};
use crate::state::{GroupState, Journals, Saved};
use crate::statistics::{MapperMetrics, PartMetrics, QueryMetrics, Reporter, SourceMapping};
use crate::store::{Database, StoreRows, Uncommitted};
use crate::tap::OpenTap;

pub(crate) use apart::ApartQuestion;
pub(crate) use ask::AskedOperations;
pub(crate) use checkpointer::SnapshotLog;
use checkpointer::WRITTEN_MAX;
pub(crate) use input::{
    ExecutorInput, HeldAnswer, INPUT_MAX, Injection, InputQueue, Probe, Question, ReplayBatch,
    ReplayItem, ReplayTo, Reply,
};
pub(crate) use table_feed::TableFeed;

/// One app of an executor.
pub(crate) struct RunningApp {
    pub name: String,
    pub plan: Arc<Plan>,
    pub engine: App,
    /// By stream.
    pub sinks: Vec<Vec<SinkBinding>>,
    /// What each of them takes of the stream's rows; `None`: all.
    pub shares: Vec<Vec<Option<Share>>>,
    /// Streams that an in-memory topic links inside the engine, depth first as in Siddhi.
    pub links: Vec<(StreamId, StreamId)>,
    /// Its tables in memory, with their counters.
    pub tables: Vec<(TableId, Arc<TableMetrics>)>,
    /// Tables that sinks of it work from.
    pub table_feeds: Vec<TableFeed>,
    /// Counters of its streams, by stream.
    pub streams: Vec<Arc<StreamMetrics>>,
    /// By operation of the app: where it is done.
    pub operations: Vec<OperationTarget>,
    /// By table: the database of this executor that holds it, and its slot there.
    pub table_bindings: Vec<Option<(usize, usize)>>,
    pub environment: Environment,
    /// What calls of functions with effects keep (connections, statements), by technology.
    pub calls: Vec<Box<dyn EffectCalls>>,
    pub metrics: Arc<AppMetrics>,
    /// Its queries, and its parts in the order in which the engine counts them.
    pub queries: Vec<Arc<QueryMetrics>>,
    pub parts: Vec<Arc<PartMetrics>>,
    /// `@app:statistics` with a console.
    pub reporter: Option<Reporter>,
    /// It is near its memory budget, and that has been said.
    pub is_high: bool,
    pub budget_throttle: LogThrottle,
    pub warn_throttle: LogThrottle,
}

/// Where the rows of one `@sink` go.
pub(crate) enum SinkBinding {
    /// Lines on standard output, written in the order of events.
    Inline {
        encoder: RowEncoder,
        sink: Box<dyn Sink>,
        metrics: Arc<SinkMetrics>,
        mapper: Arc<MapperMetrics>,
    },
    Topic {
        encoder: RowEncoder,
        topic: Topic,
        /// What becomes of an event that nobody reads.
        on_unheard: OnUnreachable,
        metrics: Arc<SinkMetrics>,
        mapper: Arc<MapperMetrics>,
        warn_throttle: LogThrottle,
    },
    Thread {
        output_queue: Arc<OutputQueue<SinkRows>>,
        slot: usize,
        uncommitted: Arc<Uncommitted>,
        metrics: Arc<SinkMetrics>,
    },
}

pub(crate) enum Topic {
    Named(String),
    /// Index of the option that depends on the event.
    Dynamic(usize),
}

/// Who reads an in-memory topic.
pub(crate) struct Subscriber {
    pub topic: String,
    /// As of a source: the stream and its number there.
    pub key: String,
    pub app: usize,
    pub stream: StreamId,
    /// Which of the sources of its stream it is, from 0.
    pub number: usize,
    pub decoder: RowDecoder,
    pub metrics: Arc<crate::metrics::SourceMetrics>,
    pub mapping: SourceMapping,
}

#[derive(Clone)]
pub(crate) enum OperationTarget {
    /// By a database on this executor.
    Inline { database: usize, slot: usize },
    /// By the thread of a database.
    Thread {
        output_queue: Arc<OutputQueue<StoreRows>>,
        slot: usize,
        uncommitted: Arc<Uncommitted>,
    },
}

/// One source as the executor sees it.
pub(crate) struct SourceBinding {
    pub app: usize,
    pub stream: StreamId,
    /// Which of the sources of its stream it is, from 0.
    pub number: usize,
    /// Names it in the snapshot: the stream and its number there.
    pub key: String,
    /// Its type.
    pub transport: String,
    pub source_handle: Arc<SourceHandle>,
    /// Behind the last batch that was stepped.
    pub position: Option<Position>,
    pub sequence: Sequence,
    /// Up to here a checkpoint is on its way or done.
    pub covered: Sequence,
    pub warn_throttle: LogThrottle,
}

pub(crate) struct Executor {
    pub name: String,
    pub apps: Vec<RunningApp>,
    pub sources: Vec<SourceBinding>,
    pub subscribers: Vec<Subscriber>,
    pub input_queue: Arc<InputQueue>,
    pub sink_queues: Vec<Arc<OutputQueue<SinkRows>>>,
    /// So many of them commit with a checkpoint, as stores do.
    pub sinks_that_commit: usize,
    pub store_queues: Vec<Arc<OutputQueue<StoreRows>>>,
    /// Those that queries read.
    pub databases: Vec<Database>,
    pub asked: AskedOperations,
    pub activity: Arc<ActivityTracker>,
    pub health: Arc<Health>,
    pub lines: Arc<Lines>,
    pub rejected: SharedLog,
    pub registry: Registry,
    pub journals: Journals,
    pub clock: Clock,
    pub checkpointer: Checkpointer,
    /// What in-memory topics carried and the subscribers have not stepped yet.
    pub carried: VecDeque<(usize, StreamId, Batch)>,
    pub outputs: Outputs,
    /// Those who look at events; mostly nobody.
    pub taps: Vec<OpenTap>,
    /// The batch that is being stepped is followed.
    pub span: Option<Span>,
    pub messages: Messages,
    /// Time since the last input in which only windows were waited for.
    pub waited: Duration,
    /// What the apps take along into another executor.
    pub handed: Option<Saved>,
    /// The rejected event that is being replayed.
    pub attempt: Option<Attempt>,
    /// Those that were replayed since the last checkpoint.
    pub replayed: Replayed,
}

/// What the executor knows of its checkpoints.
pub(crate) struct Checkpointer {
    pub pending: SyncSender<PendingCheckpoint>,
    /// Where snapshots go; `None` without state.
    pub state: Option<GroupState>,
    pub interval: Duration,
    /// Of the last checkpoint begun.
    pub epoch: u64,
    /// When the last checkpoint began, or was done if it is.
    pub last: Instant,
    /// How long it took to make it durable, once sinks and stores had taken what was before it.
    pub took: Duration,
    /// When what the app holds was counted last, and whether nothing happened since.
    pub counted: Instant,
    pub count_took: Duration,
    pub is_counted: bool,
    pub in_flight: bool,
    /// Somebody waits for it.
    pub is_requested: bool,
    /// Something happened since the last checkpoint.
    pub is_dirty: bool,
    /// Bytes handed to stores since the last checkpoint.
    pub written: usize,
    pub effects: Vec<PendingEffect>,
    pub snapshot_log: SnapshotLog,
}

/// What an executor leaves behind.
#[derive(Default)]
pub(crate) struct ExecutorEnd {
    /// App and rows its windows still hold.
    pub held: Vec<(String, u64)>,
    /// Time at the end in which only windows were waited for.
    pub waited: Duration,
    /// For the executor that the apps go on in, where it was asked for and no state directory holds it.
    pub handed: Option<Saved>,
}

/// An app at work: see [`Executor::hosted`].
struct Hosted<'a> {
    engine: &'a mut App,
    plan: &'a Plan,
    level: StatisticsLevel,
    host: host::ExecutorHost<'a>,
}

impl Executor {
    /// Runs until [`ExecutorInput::Finish`].
    pub fn run(mut self) -> ExecutorEnd {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        let failure = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(message)) => Some(message),
            Err(panic) => Some(format!("internal error: {}", panic_text(panic.as_ref()))),
        };
        if let Some(message) = failure {
            self.health.fail(message);
            self.sources.iter().for_each(|s| s.source_handle.abandon());
        }
        self.health.pulse.end();
        self.input_queue.close();
        self.sink_queues.iter().for_each(|b| b.close());
        self.store_queues.iter().for_each(|b| b.close());
        while let Some(input) = self.input_queue.take_now() {
            if let ExecutorInput::Probe(probe) = input {
                probe.answer(true);
            }
        }
        self.lines.flush();
        let held = self.apps.iter().map(|app| {
            let rows = app.metrics.held_in_windows.get();
            (app.name.clone(), rows)
        });
        ExecutorEnd {
            held: held.collect(),
            waited: self.waited,
            handed: self.handed,
        }
    }

    fn run_inner(&mut self) -> Result<(), String> {
        // After a restore only what is new begins, and the clock is that of today.
        for app in 0..self.apps.len() {
            self.step(app, Input::Start)?;
        }
        loop {
            self.health.pulse.beat();
            self.fire_due()?;
            self.report();
            if self.is_checkpoint_due() {
                self.checkpoint()?;
            }
            let input = match self.input_queue.take_now() {
                Some(input) => input,
                None => match self.park() {
                    Taken::Item(input) => input,
                    Taken::Late => continue,
                    Taken::Closed => return Ok(()),
                },
            };
            if let ExecutorInput::Finish { hands_over } = input {
                if self.health.is_on_trial() {
                    self.give_up();
                    return Ok(());
                }
                self.finish()?;
                if hands_over {
                    self.handed = self.hand_over();
                }
                return Ok(());
            }
            self.handle(input)?;
        }
    }

    /// Waits for an input or the next deadline. Time in which windows held rows, and nothing else was
    /// left to do, is noted.
    fn park(&mut self) -> Taken<ExecutorInput> {
        self.lines.flush();
        if !self.checkpointer.is_counted && self.checkpointer.next_count() <= Instant::now() {
            self.count();
        }
        let begun = self.holds_rows().then(Instant::now);
        // Whoever is about to bring something does so first, and need not wake this thread for it.
        std::thread::yield_now();
        let taken = self.input_queue.take(self.next_deadline());
        if let Some(begun) = begun {
            self.waited += begun.elapsed();
        }
        taken
    }

    fn handle(&mut self, input: ExecutorInput) -> Result<(), String> {
        match input {
            ExecutorInput::SourceBatch(source_batch) => self.take_source_batch(*source_batch),
            ExecutorInput::Acknowledge => {
                self.checkpointer.is_requested = true;
                Ok(())
            }
            ExecutorInput::Fault {
                app,
                stream,
                rows,
                cause,
            } => match rows {
                Some(rows) => self.take_fault(app, stream, rows, &cause),
                None => Ok(()),
            },
            ExecutorInput::CheckpointDone { took } => {
                self.checkpointer.in_flight = false;
                self.checkpointer.took = took;
                self.checkpointer.last = Instant::now();
                self.activity.nudge();
                self.health.failure().map_or(Ok(()), Err)
            }
            ExecutorInput::Probe(probe) => {
                let is_quiet = self.is_quiet();
                self.checkpointer.is_requested |= !is_quiet;
                probe.answer(is_quiet);
                Ok(())
            }
            ExecutorInput::Ask(question) => self.answer(*question),
            ExecutorInput::Inject(injection) => self.take_injection(*injection),
            ExecutorInput::Tap(new) => {
                self.open_tap(*new);
                Ok(())
            }
            ExecutorInput::Untap(id) => {
                self.close_tap(id);
                Ok(())
            }
            ExecutorInput::Replay(batch) => self.take_replay(*batch),
            ExecutorInput::Save(reply) => {
                self.take_save(reply);
                Ok(())
            }
            ExecutorInput::Wake | ExecutorInput::Finish { .. } => Ok(()),
        }
    }

    fn take_source_batch(&mut self, source_batch: SourceBatch) -> Result<(), String> {
        let source = &self.sources[source_batch.source];
        let (app, stream, number) = (source.app, source.stream, source.number);
        for rejected in source_batch.rejected {
            self.reject_at_source(source_batch.source, rejected);
        }
        self.checkpointer.is_dirty = true;
        // What was waited before more input came was no waiting for windows alone.
        self.waited = Duration::ZERO;
        if let Some(batch) = source_batch.batch {
            if !self.taps.is_empty() {
                self.pass_source_taps(app, (stream, number), &batch);
            }
            self.span = source_batch.span;
            let process = self.span.as_ref().map(|span| span.part("process"));
            self.step(app, Input::Batch(stream, batch))?;
            drop(process);
            self.span = None;
        }
        // Its rows are where windows, tables and sinks count them, or gone.
        drop(source_batch.held);
        let source = &mut self.sources[source_batch.source];
        source.position = Some(source_batch.position);
        source.sequence = source_batch.sequence;
        Ok(())
    }

    /// Rows go into the fault stream with the cause as their last attribute.
    fn take_fault(
        &mut self,
        app: usize,
        stream: StreamId,
        rows: Batch,
        cause: &str,
    ) -> Result<(), String> {
        self.step(app, Input::Batch(stream, with_cause(rows, cause)))
    }

    /// One input to one app, and everything that follows from it inside the group.
    fn step(&mut self, app: usize, input: Input) -> Result<(), String> {
        self.step_one(app, input)?;
        while let Some((app, stream, batch)) = self.carried.pop_front() {
            self.step_one(app, Input::Batch(stream, batch))?;
        }
        Ok(())
    }

    /// An app that is about to work, and what answers what it asks outside meanwhile.
    fn hosted(&mut self, app: usize, begun: Instant) -> Hosted<'_> {
        let running = &mut self.apps[app];
        Hosted {
            engine: &mut running.engine,
            plan: &running.plan,
            level: running.metrics.level.get(),
            host: host::ExecutorHost {
                operations: &running.operations,
                databases: &mut self.databases,
                tables: &running.table_bindings,
                asked: &mut self.asked,
                environment: &running.environment,
                registry: self.registry,
                pulse: &self.health.pulse,
                calls: &mut running.calls,
                pending: self
                    .checkpointer
                    .state
                    .is_some()
                    .then_some(&mut self.checkpointer.effects),
                is_checkpoint_requested: &mut self.checkpointer.is_requested,
                activity: &self.activity,
                begun,
                failure: None,
            },
        }
    }

    fn step_one(&mut self, app: usize, input: Input) -> Result<(), String> {
        let wall = self.clock.now();
        let begun = Instant::now();
        // A tick that gave nothing is no reason for a checkpoint: its timer is in the one before, and would
        // fire again.
        self.checkpointer.is_dirty |= !matches!(input, Input::Tick);
        self.checkpointer.is_counted = false;
        if !self.taps.is_empty() {
            self.refill_taps(begun);
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        let hosted = self.hosted(app, begun);
        let (engine, mut host) = (hosted.engine, hosted.host);
        let now = match hosted.plan.options.playback {
            Some(_) => engine.now(),
            None => wall,
        };
        engine.measure(hosted.level >= StatisticsLevel::Basic);
        engine.step(now, wall, input, &mut host, &mut outputs);
        let failure = host.failure.take();
        let running = &mut self.apps[app];
        running.metrics.steps.add(1);
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        running.metrics.step_nanos.add(nanos);
        running.watch_budget();
        for (table, metrics) in &running.tables {
            let written = running.engine.written()[*table];
            metrics.inserted.set(written.inserted);
            metrics.updated.set(written.updated);
            metrics.deleted.set(written.deleted);
        }
        self.checkpointer.is_dirty |=
            !outputs.items.is_empty() || self.databases.iter().any(Database::is_in_transaction);
        let posted = self.post_outputs(app, &mut outputs);
        let uncommitted = self.databases.iter().map(Database::uncommitted);
        self.checkpointer.is_requested |= uncommitted.sum::<usize>() >= WRITTEN_MAX;
        outputs.clear();
        self.outputs = outputs;
        if !self.taps.is_empty() {
            self.hand_on_taps();
        }
        match failure {
            Some(failure) => Err(failure),
            None => posted,
        }
    }

    /// Ticks every app with a timer that is due.
    fn fire_due(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        for app in 0..self.apps.len() {
            let due = self.apps[app].engine.next_timer();
            if due.is_some_and(|at| at <= now) {
                self.step(app, Input::Tick)?;
            }
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timers = self.apps.iter().filter_map(|app| app.engine.next_timer());
        let timer = timers.min().map(|at| self.clock.instant_of(at));
        let count = (!self.checkpointer.is_counted).then(|| self.checkpointer.next_count());
        let all = [timer, self.next_checkpoint(), count, self.next_report()];
        all.into_iter().flatten().min()
    }

    /// Nothing is on its way, everything is acknowledged, and no timer holds an event.
    fn is_quiet(&self) -> bool {
        !self.holds_rows()
            && !self.checkpointer.in_flight
            && !self.checkpointer.is_dirty
            && self.checkpointer.effects.is_empty()
    }

    /// A timer that is due later would emit rows.
    fn holds_rows(&self) -> bool {
        self.apps
            .iter()
            .any(|app| app.engine.next_timer().is_some() && app.engine.held_in_windows() > 0)
    }

    fn reject_at_source(&mut self, source: usize, placed: PlacedRejected) {
        let binding = &mut self.sources[source];
        let plan = &self.apps[binding.app].plan;
        let stream = plan.streams[binding.stream].display_name();
        let place = match (placed.rejected.place.line, placed.input.as_str()) {
            (Some(line), "") => format!("line {line}"),
            (Some(line), input) => format!("{input}, line {line}"),
            (None, "") => format!("source '{}'", binding.key),
            (None, input) => input.to_owned(),
        };
        if let Some(count) = binding.warn_throttle.admit() {
            tracing::warn!(
                app = plan.name,
                stream,
                place,
                cause = placed.rejected.cause,
                remedy = placed.rejected.remedy,
                count,
                "event rejected"
            );
        }
        let app = binding.app;
        let rejection = Rejection {
            stage: Stage::Source,
            origin: binding.key.clone(),
            transport: binding.transport.clone(),
            properties: placed.properties,
            ..Rejection::of_rejected(placed.rejected)
        };
        self.keep_rejected(app, stream, place, rejection);
    }

    /// What the mapper of a sink on this thread could not write.
    fn reject_unwritten(
        &mut self,
        app: usize,
        (stream, sink): (StreamId, usize),
        batch: &Batch,
        rejected: &Rejected,
    ) {
        let definition = &self.apps[app].plan.streams[stream];
        let transport = definition.sinks[sink].ty.clone();
        let place = format!("sink '{transport}'");
        let rejection = Rejection {
            stage: Stage::SinkMapper,
            origin: format!("{}[{}]", definition.display_name(), sink + 1),
            transport,
            ..rejected_rows(rejected, batch, &definition.schema)
        };
        self.reject_message(app, stream, &place, rejection);
    }

    /// What a sink's mapper could not write, or a reader of a topic could not take.
    fn reject_message(&mut self, app: usize, stream: StreamId, place: &str, rejection: Rejection) {
        let running = &mut self.apps[app];
        let stream = running.plan.streams[stream].display_name();
        if let Some(count) = running.warn_throttle.admit() {
            tracing::warn!(
                app = running.name,
                stream,
                place,
                cause = rejection.cause,
                remedy = rejection.remedy,
                count,
                "event rejected"
            );
        }
        self.keep_rejected(app, stream, place.to_owned(), rejection);
    }

    fn keep_rejected(&self, app: usize, stream: String, place: String, rejection: Rejection) {
        let rejection = Rejection {
            time: self.clock.now(),
            app: self.apps[app].name.clone(),
            stream,
            place,
            ..rejection
        };
        self.rejected.keep(match &self.attempt {
            Some(attempt) => attempt.mark(rejection),
            None => rejection,
        });
    }

    fn reject_in_query(&mut self, app: usize, rejected: &engine::RejectedRows) {
        let running = &mut self.apps[app];
        let rows = rejected.rows.len;
        running.metrics.rejected.add(rows.max(1) as u64);
        let plan = Arc::clone(&running.plan);
        let stream = rejected.stream;
        let name = stream.map_or_else(String::new, |s| plan.streams[s].display_name());
        if let Some(count) = running.warn_throttle.admit() {
            tracing::error!(
                app = running.name,
                stream = name,
                place = rejected.place,
                cause = rejected.cause,
                count,
                "events rejected"
            );
        }
        let empty = event::Schema::default();
        let schema = stream.map_or(&empty, |stream| &plan.streams[stream].schema);
        let rejection = Rejection {
            stage: Stage::Query,
            cause: rejected.cause.clone(),
            ..Rejection::of_rows(&rejected.rows, schema)
        };
        self.keep_rejected(app, name, rejected.place.clone(), rejection);
    }
}

/// Rows for a fault stream: the cause is their last attribute.
fn with_cause(mut rows: Batch, cause: &str) -> Batch {
    let error = Value::Object(event::Object::Error(Arc::from(cause)));
    let column = Column::constant(event::Type::Object, &error, rows.len);
    rows.columns.push(column);
    rows
}

/// The fault stream of a stream, if it has one.
pub(crate) fn fault_stream(plan: &Plan, of: StreamId) -> Option<StreamId> {
    plan.streams
        .iter()
        .position(|s| s.kind == StreamKind::Fault(of))
}
