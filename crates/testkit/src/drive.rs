//! Runs a recorded case on the engine with a virtual clock.
//!
//! The clock is set to the time of each step; timers due before it run first, each at its own
//! time. How chunks become batches is the mode's business; see [`crate::mode`].

use check::Catalog;
use connect::registry::Registry;
use engine::{App, AppEnvironment, Input, Output, Outputs, Setup, UNSTAMPED_SENT};
use event::codec::Writer;
use event::{Batch, Chunks, Clock, Column, ColumnBuilder, Schema, Times};
use plan::{Plan, QueryId, StreamId};

use crate::case::{Action, AppCase, Event};
use crate::mode::Mode;
use crate::outcome::{Answer, Callback, Chunk, Outcome, Row, Status};
use crate::stores::Stores;
use crate::topics::{Published, Topics};

/// Timers that may run at one instant before a case is given up as one that never ends.
const TIMERS_MAX: usize = 100_000;

/// Runs a case with the components of a catalog. `playback` puts `@app:playback` before it; `compat` asks for the reference's
/// defects.
pub fn run(case: &AppCase, catalog: &Catalog, mode: Mode, playback: bool, compat: bool) -> Status {
    let catalog = &crate::compile::with_stores(catalog);
    let playback = playback || case.playback;
    let mut text = String::new();
    if playback {
        text.push_str("@app:playback ");
    }
    if compat {
        text.push_str("@app:compat('siddhi-5.1') ");
    }
    text.push_str(&case.app);
    let plan = match crate::compile::plan(&text, case, catalog) {
        Ok(plan) => plan,
        Err(status) => return status,
    };
    let observed = match Observed::find(&plan, case) {
        Ok(observed) => observed,
        Err(name) => return Status::NothingToObserve(name),
    };
    let known = (catalog, Registry::EMPTY);
    let mut session = match Session::new(&plan, known, observed, mode, case.start) {
        Ok(session) => session,
        Err(error) => return refusal(&error),
    };
    for topic in &case.observe.topics {
        session.outcome.topics.insert(topic.clone(), Vec::new());
    }
    session.event_clock = playback;
    session.play(case);
    Status::Done(session.outcome)
}

/// Asks the parser alone, by one of its entry points.
pub fn parse_only(entry: &str, text: &str) -> Status {
    match crate::compile::parse_entry(entry, text) {
        faults if faults.is_empty() => Status::Done(Outcome::default()),
        faults => Status::Refused(faults),
    }
}

fn store_refused(reason: String) -> engine::Error {
    refused("store", "@store", reason)
}

fn topics_refused(error: connect::Error) -> engine::Error {
    refused("transport", "inMemory", error.to_string())
}

fn refused(kind: &'static str, name: &str, reason: String) -> engine::Error {
    engine::Error::Refused {
        kind,
        name: name.to_owned(),
        reason,
        span: lang::span::Span::default(),
    }
}

fn refusal(error: &engine::Error) -> Status {
    match error {
        engine::Error::Refused { .. } => Status::Refused(vec![error.to_string()]),
        _ => Status::NotThereYet(error.to_string()),
    }
}

/// What is watched.
#[derive(Clone, Default, Debug)]
pub struct Observed {
    pub streams: Vec<StreamId>,
    pub queries: Vec<QueryId>,
    pub topics: Vec<String>,
}

impl Observed {
    fn find(plan: &Plan, case: &AppCase) -> Result<Observed, String> {
        let mut found = Observed {
            topics: case.observe.topics.clone(),
            ..Observed::default()
        };
        for name in &case.observe.streams {
            if name == "*" {
                found.streams = (0..plan.streams.len()).collect();
                continue;
            }
            let id = plan.junction_named(name);
            found.streams.push(id.ok_or_else(|| name.clone())?);
        }
        for name in &case.observe.queries {
            if name == "*" {
                found.queries = (0..plan.queries.len()).collect();
                continue;
            }
            let id = plan.queries.iter().position(|q| q.name == *name);
            found.queries.push(id.ok_or_else(|| name.clone())?);
        }
        Ok(found)
    }
}

/// An app under a virtual clock, and all that came out of it.
pub struct Session<'a> {
    plan: &'a Plan,
    catalog: &'a Catalog,
    observed: Observed,
    mode: Mode,
    /// Without an app nothing is taken: before the start, after a shutdown.
    app: Option<App>,
    clock: i64,
    /// `advance` moves the app's own clock, as in a playback run of a live case.
    event_clock: bool,
    /// In [`Mode::Changes`]: the app's state as it was put together, and from how many saves.
    composed: Option<(Vec<u8>, usize)>,
    saved: Vec<Vec<u8>>,
    held: Option<Vec<u8>>,
    pending: Option<Pending>,
    topics: Topics,
    /// External tables, which outlive the app.
    stores: Stores,
    out: Outputs,
    pub outcome: Outcome,
}

/// Chunks of one stream that wait to become a batch.
struct Pending {
    stream: StreamId,
    chunks: Vec<(i64, Vec<Event>)>,
}

impl<'a> Session<'a> {
    /// Makes the app; it is started by the first step that needs it, or by [`Session::start`]. The registry
    /// has the event store, where a mode wants it.
    pub fn new(
        plan: &'a Plan,
        (catalog, registry): (&'a Catalog, Registry),
        observed: Observed,
        mode: Mode,
        clock: i64,
    ) -> Result<Session<'a>, engine::Error> {
        let mut session = Session {
            plan,
            catalog,
            observed,
            mode,
            app: None,
            clock,
            event_clock: false,
            composed: None,
            saved: Vec::new(),
            held: None,
            pending: None,
            topics: Topics::new(plan, catalog).map_err(topics_refused)?,
            stores: Stores::new(plan, registry).map_err(store_refused)?,
            out: Outputs::default(),
            outcome: Outcome::default(),
        };
        session.create()?;
        for &stream in &session.observed.streams {
            session
                .outcome
                .streams
                .insert(plan.junction_name(stream), Vec::new());
        }
        for &query in &session.observed.queries {
            session
                .outcome
                .queries
                .insert(plan.queries[query].name.clone(), Vec::new());
        }
        Ok(session)
    }

    fn fresh(&self) -> Result<App, engine::Error> {
        App::new(
            self.plan,
            Setup {
                environment: AppEnvironment {
                    app: self.plan.name.clone(),
                    compat: self.plan.options.compat,
                    scripts: Some(&script::JavaScript),
                    ..AppEnvironment::default()
                },
                observed_streams: self.observed.streams.clone(),
                observed_queries: self.observed.queries.clone(),
                lockstep: self.mode == Mode::Lockstep,
                seed: 1,
                links: engine::topic_links(self.plan),
                ..Setup::default()
            },
        )
    }

    fn create(&mut self) -> Result<(), engine::Error> {
        let app = self.fresh()?;
        self.stores
            .prepare(app.operations())
            .map_err(store_refused)?;
        self.app = Some(app);
        self.composed = None;
        Ok(())
    }

    /// Starts the app at the clock reached.
    pub fn start(&mut self) {
        let now = self.clock;
        if self.event_clock {
            self.step(now, Input::Tick);
        }
        self.step(now, Input::Start);
    }

    fn play(&mut self, case: &AppCase) {
        if case.autostart {
            self.start();
        }
        for (number, step) in case.steps.iter().enumerate() {
            match &step.action {
                Action::Query(text) => {
                    self.flush();
                    self.pass(step.at);
                    let rows = self.ask(text).map(|answer| answer.1);
                    self.outcome.answers.push(Answer { step: number, rows });
                }
                Action::Send { stream, events, .. } => {
                    if let Some(id) = self.stream(stream) {
                        self.gather(id, step.at, events.clone());
                    }
                }
                Action::Advance => {
                    self.flush();
                    self.advance(step.at);
                }
                action => {
                    self.flush();
                    self.pass(step.at);
                    self.act(action);
                }
            }
        }
        self.flush();
        // What the last step makes due at once.
        self.pass(self.clock);
    }

    /// Sends a chunk; it waits for others of its stream as long as the mode allows.
    pub fn gather(&mut self, stream: StreamId, at: i64, events: Vec<Event>) {
        // A message that goes round by a topic is stamped with the time of its delivery.
        let chunks_max = match self.topics.is_read() {
            true => 1,
            false => self.mode.chunks_max(),
        };
        let is_full = self
            .pending
            .as_ref()
            .is_some_and(|p| p.stream != stream || p.chunks.len() >= chunks_max);
        if is_full {
            self.flush();
        }
        self.pending
            .get_or_insert_with(|| Pending {
                stream,
                chunks: Vec::new(),
            })
            .chunks
            .push((at, events));
    }

    /// The id of a stream that may be sent to.
    pub fn stream(&self, name: &str) -> Option<StreamId> {
        let junction = self.plan.junction_named(name);
        junction.filter(|&stream| stream < self.plan.streams.len())
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Start => {
                if self.app.is_none() && self.create().is_err() {
                    return;
                }
                self.start();
            }
            Action::Shutdown => self.app = None,
            // An app that could be made once can be made again.
            Action::Create => drop(self.create()),
            Action::Persist => self.save(),
            Action::ClearRevisions => self.saved.clear(),
            Action::Snapshot => self.held = self.app.as_mut().map(|app| app.snapshot()),
            Action::Restore(_) => {
                let saved = self.saved.last().cloned();
                self.restore(saved);
            }
            Action::RestoreSnapshot => {
                let held = self.held.clone();
                self.restore(held);
            }
            Action::EnablePlayback { on, idle } => {
                let playback = on.then_some(plan::Playback { idle: *idle });
                self.step(self.clock, Input::Playback(playback));
            }
            Action::PublishPayload { topic, payload } => self.publish(topic, payload),
            Action::PublishEvents { topic, events } => {
                let Some(stream) = self.topics.stream_of(topic) else {
                    return;
                };
                let schema = &self.plan.streams[stream].schema;
                let events = batch(schema, &[(self.clock, events.clone())], true);
                let mut published = Published::default();
                self.topics
                    .publish_events(topic, &events, self.clock, &mut published);
                self.take_published(published);
            }
            Action::Advance | Action::Send { .. } | Action::Query(_) => {}
        }
    }

    /// Saves the state of the app.
    pub fn save(&mut self) {
        self.saved
            .extend(self.app.as_mut().map(|app| app.snapshot()));
    }

    /// Shuts the app down, makes it anew with the state saved last, and starts it.
    pub fn restart(&mut self) {
        self.app = None;
        if let Err(error) = self.stores.reopen() {
            self.outcome.failures.push(format!("reopen: {error}"));
        }
        if self.create().is_err() {
            return;
        }
        self.restore(self.saved.last().cloned());
        if self.app.as_ref().is_some_and(App::wants_start) {
            self.start();
        }
    }

    /// Publishes a message on a topic.
    pub fn publish(&mut self, topic: &str, payload: &event::Value) {
        let mut published = Published::default();
        self.topics
            .publish(topic, payload, self.clock, &mut published);
        self.take_published(published);
    }

    /// Answers an on-demand query: names and types of the attributes, and the rows; `None` where
    /// there are none.
    pub fn ask(&mut self, text: &str) -> Result<(Schema, Option<Vec<Row>>), String> {
        let query = crate::compile::on_demand(text, self.plan, self.catalog)?;
        let app = self.app.as_mut().ok_or("the app is not running")?;
        let answer = app
            .ask(
                self.plan,
                &query,
                self.clock,
                &mut self.stores,
                &mut self.out,
            )
            .map_err(|error| error.to_string())?;
        self.collect(self.clock);
        let rows = answer.rows.map(|batch| {
            let rows = 0..batch.len;
            rows.map(|row| row_of(&batch, row)).collect()
        });
        Ok((answer.schema, rows))
    }

    /// Hands on what arrived, and what came of that, until all is quiet.
    fn take_published(&mut self, mut published: Published) {
        for (topic, message) in published.messages.drain(..) {
            if let Some(messages) = self.outcome.topics.get_mut(&topic) {
                messages.push(message);
            }
        }
        self.outcome.failures.append(&mut published.rejected);
        for (stream, batch) in published.arrived {
            self.step(self.clock, Input::Batch(stream, batch));
        }
    }

    fn restore(&mut self, saved: Option<Vec<u8>>) {
        // Siddhi restores into an app that was shut down, too, and starts it again.
        if saved.is_some() && self.app.is_none() && self.create().is_err() {
            return;
        }
        self.composed = None;
        if let (Some(app), Some(saved)) = (&mut self.app, saved)
            && let Err(error) = app.restore(&saved)
        {
            self.outcome.failures.push(error.to_string());
        }
        // The saved state goes on now, however long ago it was saved.
        if self.app.as_ref().is_some_and(|app| !app.wants_start()) {
            self.step(self.clock, Input::Start);
        }
    }

    /// Lets time pass: timers due on the way run, each at its own time. Of an event clock nothing
    /// else moves.
    pub fn pass(&mut self, to: i64) {
        self.run_timers(to);
        self.clock = self.clock.max(to);
    }

    /// Lets time pass, also by the event clock.
    pub fn advance(&mut self, to: i64) {
        self.pass(to);
        if self.event_clock {
            self.step(to, Input::Tick);
        }
    }

    /// The time reached, counting what waits.
    pub fn clock(&self) -> i64 {
        let waiting = self
            .pending
            .as_ref()
            .and_then(|p| p.chunks.last())
            .map(|(at, _)| *at);
        waiting.unwrap_or(self.clock)
    }

    fn run_timers(&mut self, to: i64) {
        for _ in 0..TIMERS_MAX {
            let Some(due) = self
                .app
                .as_ref()
                .and_then(App::next_timer)
                .filter(|&due| due <= to)
            else {
                return;
            };
            self.clock = self.clock.max(due);
            self.step(self.clock, Input::Tick);
        }
        self.outcome
            .failures
            .push(format!("more than {TIMERS_MAX} timers before {to}"));
    }

    /// Hands over what waits.
    pub fn flush(&mut self) {
        let Some(Pending { stream, chunks }) = self.pending.take() else {
            return;
        };
        let first = chunks[0].0;
        self.run_timers(first);
        self.clock = self.clock.max(first);
        let schema = &self.plan.streams[stream].schema;
        // In an app with an event clock of its own an unstamped event does not move it.
        let stamps = self.plan.options.playback.is_none() || self.event_clock;
        let batch = batch(schema, &chunks, stamps);
        let last = chunks.last().map_or(first, |(at, _)| *at);
        self.step(first, Input::Batch(stream, batch));
        self.clock = self.clock.max(last);
    }

    fn step(&mut self, now: i64, input: Input) {
        let Some(app) = &mut self.app else { return };
        // An app with an event clock of its own keeps it; only the wall moves.
        let in_playback = self.plan.options.playback.is_some();
        let app_now = if in_playback && !self.event_clock {
            app.now()
        } else {
            now
        };
        self.stores.set_clock(now);
        app.step(app_now, now, input, &mut self.stores, &mut self.out);
        self.collect(now);
        let result = match self.mode {
            Mode::Snapshot => self.save_and_restore(),
            Mode::Changes => self.save_changes(),
            Mode::EventStore => self.stores.end_step(),
            Mode::One | Mode::Seven | Mode::Whole | Mode::Lockstep => Ok(()),
        };
        if let Err(error) = result {
            self.outcome.failures.push(format!("restore: {error}"));
        }
    }

    fn save_and_restore(&mut self) -> Result<(), String> {
        if let Some(app) = &self.app {
            self.app = Some(self.restored(&app.snapshot())?);
        }
        Ok(())
    }

    fn restored(&self, saved: &[u8]) -> Result<App, String> {
        let mut fresh = self.fresh().map_err(|e| e.to_string())?;
        fresh.restore(saved).map_err(|e| e.to_string())?;
        Ok(fresh)
    }

    /// Saves what has changed, over what was saved before; where there are changes enough the app
    /// goes on from that, which must be what it would have saved as a whole.
    fn save_changes(&mut self) -> Result<(), String> {
        const SAVES: usize = 3;
        let Some(app) = &mut self.app else {
            return Ok(());
        };
        let mut writer = Writer::default();
        let saves = match self.composed.take() {
            Some((before, saves)) if !app.must_be_saved_whole() => {
                let mut changes = Writer::default();
                app.save_changes(&mut changes);
                let mut layers = [before.as_slice(), &changes.bytes];
                engine::compose(&mut layers, &mut writer).map_err(|e| e.to_string())?;
                saves + 1
            }
            before => {
                app.save(&mut writer);
                before.map_or(0, |(_, saves)| saves) + 1
            }
        };
        app.mark_saved();
        if saves < SAVES {
            self.composed = Some((writer.bytes, saves));
            return Ok(());
        }
        let whole = app.snapshot();
        let goes_on = self.restored(&writer.bytes)?;
        if goes_on.snapshot() != self.restored(&whole)?.snapshot() {
            return Err("what has changed is not all that has".to_owned());
        }
        self.app = Some(goes_on);
        Ok(())
    }

    fn collect(&mut self, at: i64) {
        let mut published = Published::default();
        for item in std::mem::take(&mut self.out.items) {
            match item {
                Output::Tap { stream, batch } => {
                    let name = self.plan.junction_name(stream);
                    let chunks = self.outcome.streams.entry(name).or_default();
                    for chunk in 0..batch.chunk_count() {
                        let events: Vec<Row> =
                            batch.chunk(chunk).map(|row| row_of(&batch, row)).collect();
                        if !events.is_empty() {
                            chunks.push(Chunk { at, events });
                        }
                    }
                }
                Output::Callback { query, batch } => {
                    let name = self.plan.queries[query].name.clone();
                    let calls = self.outcome.queries.entry(name).or_default();
                    calls.extend((0..batch.chunk_count()).map(|c| callback(&batch, c, at)));
                }
                Output::Rejected(rejected) => {
                    self.outcome
                        .failures
                        .push(format!("{}: {}", rejected.place, rejected.cause));
                }
                Output::Sink { stream, batch } => {
                    self.topics.send(stream, &batch, at, &mut published);
                }
                Output::Write {
                    table,
                    operation,
                    batch,
                } => {
                    let written = self.stores.write_later(table, operation, &batch);
                    self.outcome.failures.extend(written.err());
                }
                Output::Log { .. } => {}
            }
        }
        self.take_published(published);
    }
}

fn row_of(batch: &Batch, row: usize) -> Row {
    Row {
        ts: batch.times.at(row),
        data: batch.row(row),
        expired: batch.is_expired(row),
    }
}

fn callback(batch: &Batch, chunk: usize, at: i64) -> Callback {
    let range = batch.chunk(chunk);
    let ts = range.clone().next().map_or(at, |row| batch.times.at(row));
    let pick = |expired: bool| {
        let rows: Vec<Row> = range
            .clone()
            .filter(|&row| batch.is_expired(row) == expired)
            .map(|row| row_of(batch, row))
            .collect();
        (!rows.is_empty()).then_some(rows)
    };
    Callback {
        at,
        ts,
        current: pick(false),
        expired: pick(true),
    }
}

/// Chunks, each with its clock, as one batch; `stamps`: events without a time take that clock.
fn batch(schema: &Schema, chunks: &[(i64, Vec<Event>)], stamps: bool) -> Batch {
    let events = || {
        chunks
            .iter()
            .flat_map(|(at, events)| events.iter().map(move |e| (*at, e)))
    };
    let columns: Vec<Column> = schema
        .attributes
        .iter()
        .enumerate()
        .map(|(i, attribute)| {
            let mut builder = ColumnBuilder::new(attribute.ty);
            for (_, event) in events() {
                builder.push(&event.value(i, attribute.ty));
            }
            builder.finish()
        })
        .collect();
    let times: Vec<i64> = events()
        .map(|(at, event)| event.ts.unwrap_or(if stamps { at } else { UNSTAMPED_SENT }))
        .collect();
    let expired: Vec<bool> = events().map(|(_, event)| event.expired).collect();
    let len = times.len();
    let mut end = 0;
    let ends: Vec<u32> = chunks
        .iter()
        .map(|(_, events)| {
            end += events.len() as u32;
            end
        })
        .collect();
    let ends = if ends.len() == 1 {
        Chunks::One
    } else {
        Chunks::Ends(ends.into())
    };
    let mut batch = Batch::new(columns, len, Times::per_row(times), ends, chunks[0].0);
    batch.clock = Clock::PerChunk(chunks.iter().map(|(at, _)| *at).collect());
    batch.expired = expired.contains(&true).then(|| expired.into());
    batch
}
