//! The thread that runs a group of apps: takes what waits, reads the clock once, steps, hands on
//! what came out, fires alarms, parks until the next deadline.
//!
//! A group is the apps linked by in-memory topics or by a database; mostly it is one app. One
//! thread for all of them makes a topic a plain queue and every moment between two steps a
//! consistent cut of the whole group. Promises: what leaves an app leaves in the order in which it
//! came about; when a queue behind the lane is full the lane stops, and with it the sources. Never:
//! work on a destination that may block for long while it could be done by another thread.

mod ask;
mod cut;
mod host;
mod output;
mod saved;
mod shown;
mod watch;

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use connect::component::{Environment, Sequence, Sink};
use connect::distribution::Share;
use connect::effect::{EffectCalls, PendingEffect};
use connect::inlet::Inlet;
use connect::message::Messages;
use connect::outlet::Outlet;
use connect::registry::Registry;
use connect::rows::Rejected;
use engine::{App, Input, Outputs};
use event::{Batch, Column, Value};
use plan::{Plan, StatisticsLevel, StreamId, StreamKind, TableId};

use crate::ask::Question;
use crate::backoff::Sparse;
use crate::build::Journals;
use crate::clock::Clock;
use crate::health::Health;
use crate::keeper::Job;
use crate::lines::Lines;
use crate::metrics::{AppMetrics, SinkMetrics, StreamMetrics, TableMetrics};
use crate::pulse::Pulse;
use crate::queue::{Queue, Taken, Weight};
use crate::rejected::{Rejection, SharedLog};
use crate::report::panic_text;
use crate::sink::{OnUnreachable, Outbox, SinkRows, payload_text};
use crate::source::{Mailbox, PlacedRejected, Position, Post};
use crate::state::GroupState;
use crate::statistics::{MapperMetrics, PartMetrics, QueryMetrics, Reporter, SourceMapping};
use crate::store::{Database, StoreRows, Uncommitted};

pub(crate) use ask::AskedOperations;
pub(crate) use cut::Chain;
use cut::WRITTEN_MAX;
pub(crate) use saved::{Saved, compose};
pub(crate) use shown::ShownTable;

pub(crate) type Inbox = Queue<Letter>;

/// Rows and bytes of input that may wait for a lane.
pub(crate) const INBOX: Weight = Weight {
    rows: 16 * 1024,
    bytes: 16 << 20,
};

/// What arrives at a lane.
pub(crate) enum Letter {
    Post(Box<Post>),
    /// A source waits for its last post to be acknowledged.
    Acknowledge,
    /// Rows that a sink could not deliver, for a fault stream.
    Fault {
        app: usize,
        stream: StreamId,
        rows: Option<Batch>,
        cause: String,
    },
    /// The cut on its way is finished.
    CutDone,
    Probe(Arc<Probe>),
    /// An on-demand query.
    Ask(Box<Question>),
    /// The sources have gone: finish what is here, make a last cut, end.
    Finish {
        /// The apps go on in another lane, which is given what is here.
        hands_over: bool,
    },
}

/// A question to a lane, answered when everything before it in the inbox is done.
#[derive(Default)]
pub(crate) struct Probe {
    answer: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Probe {
    pub fn answer(&self, is_quiet: bool) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(is_quiet);
        self.changed.notify_all();
    }

    /// Nothing is on its way and no timer holds an event; `None` when the lane took too long.
    pub fn wait(&self, at_most: Duration) -> Option<bool> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, _) = self
            .changed
            .wait_timeout_while(answer, at_most, |a| a.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        *answer
    }
}

/// One app of a lane.
pub(crate) struct LaneApp {
    pub name: String,
    pub plan: Arc<Plan>,
    pub engine: App,
    /// By stream.
    pub sinks: Vec<Vec<SinkSeat>>,
    /// What each of them takes of the stream's rows; `None`: all.
    pub shares: Vec<Vec<Option<Share>>>,
    /// Streams that an in-memory topic links inside the engine, depth first as in Siddhi.
    pub links: Vec<(StreamId, StreamId)>,
    /// Its tables in memory, with their counters.
    pub tables: Vec<(TableId, Arc<TableMetrics>)>,
    /// Tables that sinks of it work from.
    pub shown: Vec<ShownTable>,
    /// Counters of its streams, by stream.
    pub streams: Vec<Arc<StreamMetrics>>,
    /// By operation of the app: where it is done.
    pub operations: Vec<OperationSeat>,
    /// By table: the database of this lane that holds it, and its slot there.
    pub table_seats: Vec<Option<(usize, usize)>>,
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
    pub said_of_budget: Sparse,
    pub said: Sparse,
}

/// Where the rows of one `@sink` go.
pub(crate) enum SinkSeat {
    /// Lines on standard output, written in the order of events.
    Inline {
        outlet: Outlet,
        sink: Box<dyn Sink>,
        metrics: Arc<SinkMetrics>,
        mapper: Arc<MapperMetrics>,
    },
    Topic {
        outlet: Outlet,
        topic: Topic,
        /// What becomes of an event that nobody reads.
        on_unheard: OnUnreachable,
        metrics: Arc<SinkMetrics>,
        mapper: Arc<MapperMetrics>,
        said: Sparse,
    },
    Thread {
        outbox: Arc<Outbox<SinkRows>>,
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
    pub app: usize,
    pub stream: StreamId,
    pub inlet: Inlet,
    pub metrics: Arc<crate::metrics::SourceMetrics>,
    pub mapping: SourceMapping,
}

#[derive(Clone)]
pub(crate) enum OperationSeat {
    /// By a database on this lane.
    Inline { database: usize, slot: usize },
    /// By the thread of a database.
    Thread {
        outbox: Arc<Outbox<StoreRows>>,
        slot: usize,
        uncommitted: Arc<Uncommitted>,
    },
}

/// One source as the lane sees it.
pub(crate) struct LaneSource {
    pub app: usize,
    pub stream: StreamId,
    /// Names it in the snapshot: the stream and its number there.
    pub key: String,
    pub mailbox: Arc<Mailbox>,
    /// Behind the last post that was stepped.
    pub position: Option<Position>,
    pub sequence: Sequence,
    /// Up to here a cut is on its way or done.
    pub covered: Sequence,
    pub said: Sparse,
}

pub(crate) struct Lane {
    pub name: String,
    pub apps: Vec<LaneApp>,
    pub sources: Vec<LaneSource>,
    pub subscribers: Vec<Subscriber>,
    pub inbox: Arc<Inbox>,
    pub sink_boxes: Vec<Arc<Outbox<SinkRows>>>,
    /// So many of them commit with a cut, as stores do.
    pub sinks_that_commit: usize,
    pub store_boxes: Vec<Arc<Outbox<StoreRows>>>,
    /// Those that queries read.
    pub databases: Vec<Database>,
    pub asked: AskedOperations,
    pub pulse: Arc<Pulse>,
    pub health: Arc<Health>,
    pub lines: Arc<Lines>,
    pub rejected: SharedLog,
    pub registry: Registry,
    pub journals: Journals,
    pub clock: Clock,
    pub cutter: Cutter,
    /// What in-memory topics carried and the subscribers have not stepped yet.
    pub carried: VecDeque<(usize, StreamId, Batch)>,
    pub outputs: Outputs,
    pub messages: Messages,
    /// Time since the last input in which only windows were waited for.
    pub waited: Duration,
    /// What the apps take along into another lane.
    pub handed: Option<Saved>,
}

/// What the lane knows of its cuts.
pub(crate) struct Cutter {
    pub jobs: SyncSender<Job>,
    /// Where snapshots go; `None` without state.
    pub state: Option<GroupState>,
    pub interval: Duration,
    /// Of the last cut begun.
    pub epoch: u64,
    /// When the last cut began, or was done if it is.
    pub last: Instant,
    /// How long it took until it was durable.
    pub took: Duration,
    /// When what the app holds was counted last, and whether nothing happened since.
    pub counted: Instant,
    pub count_took: Duration,
    pub is_counted: bool,
    pub in_flight: bool,
    /// Somebody waits for it.
    pub is_wanted: bool,
    /// Something happened since the last cut.
    pub is_dirty: bool,
    /// Bytes handed to stores since the last cut.
    pub written: usize,
    pub effects: Vec<PendingEffect>,
    pub chain: Chain,
}

/// What a lane leaves behind.
#[derive(Default)]
pub(crate) struct LaneEnd {
    /// App and rows its windows still hold.
    pub held: Vec<(String, u64)>,
    /// Time at the end in which only windows were waited for.
    pub waited: Duration,
    /// For the lane that the apps go on in, where it was asked for and no state directory holds it.
    pub handed: Option<Saved>,
}

/// An app at work: see [`Lane::hosted`].
struct Hosted<'a> {
    engine: &'a mut App,
    plan: &'a Plan,
    level: StatisticsLevel,
    host: host::LaneHost<'a>,
}

impl Lane {
    /// Runs until [`Letter::Finish`].
    pub fn run(mut self) -> LaneEnd {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        let failure = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(message)) => Some(message),
            Err(panic) => Some(format!(
                "a fault of Headwater: {}",
                panic_text(panic.as_ref())
            )),
        };
        if let Some(message) = failure {
            self.health.fail(message);
            self.sources.iter().for_each(|s| s.mailbox.abandon());
        }
        self.inbox.close();
        self.sink_boxes.iter().for_each(|b| b.close());
        self.store_boxes.iter().for_each(|b| b.close());
        while let Some(letter) = self.inbox.take_now() {
            if let Letter::Probe(probe) = letter {
                probe.answer(true);
            }
        }
        self.lines.flush();
        let held = self.apps.iter().map(|app| {
            let rows = app.metrics.held_in_windows.get();
            (app.name.clone(), rows)
        });
        LaneEnd {
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
            self.fire_due()?;
            self.report();
            if self.is_cut_due() {
                self.cut()?;
            }
            let letter = match self.inbox.take_now() {
                Some(letter) => letter,
                None => match self.park() {
                    Taken::Item(letter) => letter,
                    Taken::Late => continue,
                    Taken::Closed => return Ok(()),
                },
            };
            if let Letter::Finish { hands_over } = letter {
                self.finish()?;
                if hands_over {
                    self.handed = self.hand_over();
                }
                return Ok(());
            }
            self.handle(letter)?;
        }
    }

    /// Waits for a letter or the next deadline. Time in which windows held rows, and nothing else was
    /// left to do, is noted.
    fn park(&mut self) -> Taken<Letter> {
        self.lines.flush();
        if !self.cutter.is_counted && self.cutter.next_count() <= Instant::now() {
            self.count();
        }
        let begun = self.holds_rows().then(Instant::now);
        // Whoever is about to bring something does so first, and need not wake this thread for it.
        std::thread::yield_now();
        let taken = self.inbox.take(self.next_deadline());
        if let Some(begun) = begun {
            self.waited += begun.elapsed();
        }
        taken
    }

    fn handle(&mut self, letter: Letter) -> Result<(), String> {
        match letter {
            Letter::Post(post) => self.take_post(*post),
            Letter::Acknowledge => {
                self.cutter.is_wanted = true;
                Ok(())
            }
            Letter::Fault {
                app,
                stream,
                rows,
                cause,
            } => match rows {
                Some(rows) => self.take_fault(app, stream, rows, &cause),
                None => Ok(()),
            },
            Letter::CutDone => {
                self.cutter.in_flight = false;
                self.cutter.took = self.cutter.last.elapsed();
                self.cutter.last = Instant::now();
                self.pulse.nudge();
                self.health.failure().map_or(Ok(()), Err)
            }
            Letter::Probe(probe) => {
                let is_quiet = self.is_quiet();
                self.cutter.is_wanted |= !is_quiet;
                probe.answer(is_quiet);
                Ok(())
            }
            Letter::Ask(question) => self.answer(*question),
            Letter::Finish { .. } => Ok(()),
        }
    }

    fn take_post(&mut self, post: Post) -> Result<(), String> {
        let source = &self.sources[post.source];
        let (app, stream) = (source.app, source.stream);
        for rejected in post.rejected {
            self.reject_at_source(post.source, rejected);
        }
        self.cutter.is_dirty = true;
        // What was waited before more input came was no waiting for windows alone.
        self.waited = Duration::ZERO;
        if let Some(batch) = post.batch {
            self.step(app, Input::Batch(stream, batch))?;
        }
        let source = &mut self.sources[post.source];
        source.position = Some(post.position);
        source.sequence = post.sequence;
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
        let seat = &mut self.apps[app];
        Hosted {
            engine: &mut seat.engine,
            plan: &seat.plan,
            level: seat.metrics.level.get(),
            host: host::LaneHost {
                operations: &seat.operations,
                databases: &mut self.databases,
                tables: &seat.table_seats,
                asked: &mut self.asked,
                environment: &seat.environment,
                registry: self.registry,
                calls: &mut seat.calls,
                pending: self
                    .cutter
                    .state
                    .is_some()
                    .then_some(&mut self.cutter.effects),
                is_cut_wanted: &mut self.cutter.is_wanted,
                pulse: &self.pulse,
                begun,
                failure: None,
            },
        }
    }

    fn step_one(&mut self, app: usize, input: Input) -> Result<(), String> {
        let wall = self.clock.now();
        let begun = Instant::now();
        // A tick that gave nothing is no reason for a cut: its alarm is in the one before, and would
        // fire again.
        self.cutter.is_dirty |= !matches!(input, Input::Tick);
        self.cutter.is_counted = false;
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
        let seat = &mut self.apps[app];
        seat.metrics.steps.add(1);
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        seat.metrics.step_nanos.add(nanos);
        seat.watch_budget();
        for (table, metrics) in &seat.tables {
            let written = seat.engine.written()[*table];
            metrics.inserted.set(written.inserted);
            metrics.updated.set(written.updated);
            metrics.deleted.set(written.deleted);
        }
        self.cutter.is_dirty |=
            !outputs.items.is_empty() || self.databases.iter().any(Database::is_in_transaction);
        let posted = self.post_outputs(app, &mut outputs);
        let uncommitted = self.databases.iter().map(Database::uncommitted);
        self.cutter.is_wanted |= uncommitted.sum::<usize>() >= WRITTEN_MAX;
        outputs.clear();
        self.outputs = outputs;
        match failure {
            Some(failure) => Err(failure),
            None => posted,
        }
    }

    /// Ticks every app with an alarm that is due.
    fn fire_due(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        for app in 0..self.apps.len() {
            let due = self.apps[app].engine.next_alarm();
            if due.is_some_and(|at| at <= now) {
                self.step(app, Input::Tick)?;
            }
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let alarms = self.apps.iter().filter_map(|app| app.engine.next_alarm());
        let alarm = alarms.min().map(|at| self.clock.instant_of(at));
        let count = (!self.cutter.is_counted).then(|| self.cutter.next_count());
        let all = [alarm, self.next_cut(), count, self.next_report()];
        all.into_iter().flatten().min()
    }

    /// Nothing is on its way, everything is acknowledged, and no timer holds an event.
    fn is_quiet(&self) -> bool {
        !self.holds_rows()
            && !self.cutter.in_flight
            && !self.cutter.is_dirty
            && self.cutter.effects.is_empty()
    }

    /// A timer that is due later would emit rows.
    fn holds_rows(&self) -> bool {
        self.apps
            .iter()
            .any(|app| app.engine.next_alarm().is_some() && app.engine.held_in_windows() > 0)
    }

    fn reject_at_source(&mut self, source: usize, placed: PlacedRejected) {
        let seat = &mut self.sources[source];
        let plan = &self.apps[seat.app].plan;
        let stream = plan.streams[seat.stream].display_name();
        let place = match (placed.rejected.place.line, placed.input.as_str()) {
            (Some(line), "") => format!("line {line}"),
            (Some(line), input) => format!("{input}, line {line}"),
            (None, "") => format!("source '{}'", seat.key),
            (None, input) => input.to_owned(),
        };
        if let Some(count) = seat.said.say() {
            tracing::warn!(
                place,
                cause = placed.rejected.cause,
                remedy = placed.rejected.remedy,
                count,
                "event rejected"
            );
        }
        let app = seat.app;
        self.keep_rejected(app, stream, place, placed.rejected);
    }

    /// What a sink's mapper could not write, or a reader of a topic could not take.
    fn reject_message(&mut self, app: usize, stream: StreamId, place: &str, rejected: Rejected) {
        let seat = &mut self.apps[app];
        let stream = seat.plan.streams[stream].display_name();
        if let Some(count) = seat.said.say() {
            tracing::warn!(
                app = seat.name,
                stream,
                place,
                cause = rejected.cause,
                remedy = rejected.remedy,
                count,
                "event rejected"
            );
        }
        self.keep_rejected(app, stream, place.to_owned(), rejected);
    }

    fn keep_rejected(&self, app: usize, stream: String, place: String, rejected: Rejected) {
        self.rejected.keep(Rejection {
            time: self.clock.now(),
            app: self.apps[app].name.clone(),
            stream,
            place,
            cause: rejected.cause,
            ..Rejection::of_payload(rejected.payload.as_bytes())
        });
    }

    fn reject_in_query(&mut self, app: usize, rejected: &engine::Rejected) {
        let seat = &mut self.apps[app];
        let rows = rejected.rows.len;
        seat.metrics.rejected.add(rows.max(1) as u64);
        let stream = rejected
            .stream
            .map_or_else(String::new, |s| seat.plan.streams[s].display_name());
        if let Some(count) = seat.said.say() {
            tracing::error!(
                app = seat.name,
                stream,
                place = rejected.place,
                cause = rejected.cause,
                count,
                "events rejected"
            );
        }
        let all: Vec<u32> = (0..rows as u32).collect();
        let payload = payload_text(&rejected.rows, &all);
        self.rejected.keep(Rejection {
            time: self.clock.now(),
            app: seat.name.clone(),
            stream,
            place: rejected.place.clone(),
            cause: rejected.cause.clone(),
            ..Rejection::of_payload(payload.as_bytes())
        });
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
