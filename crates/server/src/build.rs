//! Makes the lane of one group: apps, components, queues, and what a saved state says about them.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use connect::cache::{CachedStore, Limits};
use connect::component::{
    Environment, PayloadKind, Setting, SinkSetup, Source, SourceSetup, Store, StoreSetup,
};
use connect::distribution::Share;
use connect::effect::{EffectCalls, EffectJournal};
use connect::inlet::Inlet;
use connect::message::Messages;
use connect::outlet::Outlet;
use connect::registry::Registry;
use connect::shared::Shared;
use engine::{App, Outputs, Setup};
use plan::spec::ConnectorKind;
use plan::{Plan, StreamId, TableId, Transport};

use crate::backoff::Sparse;
use crate::clock::Clock;
use crate::edit::Edit;
use crate::error::Error;
use crate::group::is_topic;
use crate::health::Health;
use crate::keeper::Keeper;
use crate::lane::{
    AskedOperations, Chain, Cutter, INBOX, Lane, LaneApp, LaneSource, OperationSeat, Saved,
    ShownTable, SinkSeat, Subscriber, Topic, fault_stream,
};
use crate::lines::Lines;
use crate::metrics::{
    AppMetrics, Label, MEMORY, Metrics, SinkMetrics, SourceMetrics, StreamMetrics, TableMetrics,
};
use crate::preview::has_source;
use crate::probe::bytes_waiting;
use crate::process::Process;
use crate::pulse::Pulse;
use crate::queue::{Queue, Weight};
use crate::recovery::{self, Recovered};
use crate::rejected::{FILES, RejectedLog, SharedLog};
use crate::report::chain;
use crate::sink::{self, Outbox, SinkSlot, SinkThread};
use crate::source::{Mailbox, SourceThread};
use crate::state::{Composer, GroupState, StateDir};
use crate::statistics::{MapperMetrics, PartMetrics, QueryMetrics, Reporter, SourceMapping};
use crate::store::{self, StoreContext, StoreSeat, StoreThread, Uncommitted};

/// What is the same for all groups of a server.
pub(crate) struct Common {
    pub metrics: Arc<Metrics>,
    pub pulse: Arc<Pulse>,
    pub lines: Arc<Lines>,
    /// The technologies of the binary.
    pub registry: Registry,
    /// What connectors share: listeners, connections, open databases.
    pub shared: Arc<Shared>,
    pub settings: Arc<[Setting]>,
    pub process: Process,
    pub clock: Clock,
    pub zone: String,
    pub state_interval: Duration,
    /// State that an edited app cannot take back, or that is damaged, may be dropped.
    pub drop_state: bool,
    /// Bytes that each app may hold.
    pub memory_max: Option<u64>,
    pub until_done: bool,
    /// On-demand queries will come.
    pub is_asked: bool,
    /// A group waits at its start for a store that is away; else that is an error.
    pub waits_for_stores: bool,
}

/// A group ready to run: its threads, not started yet.
pub(crate) struct Group {
    pub health: Arc<Health>,
    pub lane: Lane,
    pub keeper: Keeper,
    pub sources: Vec<SourceThread>,
    pub sinks: Vec<SinkThread>,
    pub stores: Vec<StoreThread>,
}

/// Builds a group. What it finds in the state directory is taken back; without one, what the apps
/// have handed over (see [`crate::reload`]).
pub(crate) fn build(
    plans: Vec<Arc<Plan>>,
    common: &Common,
    state: Option<&StateDir>,
    handed: Option<Saved>,
) -> Result<Group, Error> {
    Builder::new(plans, common, state)?.build(handed)
}

/// The engine of one app; an error says why it cannot run.
pub(crate) fn engine_of(plan: &Plan, common: &Common) -> Result<App, Error> {
    let setup = Setup {
        environment: engine::Environment {
            app: plan.name.clone(),
            zone: common.zone.clone(),
            compat: plan.options.compat,
            scripts: Some(&script::JavaScript),
            ..engine::Environment::default()
        },
        seed: crate::clock::wall_millis() as u64,
        links: engine::topic_links(plan),
        is_asked: common.is_asked,
        memory_max: (common.memory_max).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        ..Setup::default()
    };
    App::new(plan, setup)
        .map_err(|e| Error::Refused(format!("app '{}' cannot run: {}", plan.name, chain(&e))))
}

/// What technologies note durably about the effects of a group.
pub(crate) type Journals = Arc<[Arc<dyn EffectJournal>]>;

/// Opens the journals of a group, next to its state.
fn journals(common: &Common, directory: Option<&Path>, shared: &Shared) -> Result<Journals, Error> {
    let effects = common.registry.effects.iter();
    let opened = effects.map(|functions| functions.journal(directory, shared));
    let opened = opened
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>();
    opened.map_err(|e| Error::State {
        path: directory.unwrap_or(Path::new("")).to_owned(),
        message: chain(&e),
    })
}

/// What the calls of one app keep, by technology.
fn effect_calls(registry: &Registry) -> Vec<Box<dyn EffectCalls>> {
    let effects = registry.effects.iter();
    effects.map(|functions| functions.begin()).collect()
}

struct Builder<'a> {
    common: &'a Common,
    plans: Vec<Arc<Plan>>,
    environments: Vec<Environment>,
    metrics: Vec<Arc<AppMetrics>>,
    state: Option<GroupState>,
    rejected: SharedLog,
    undelivered: SharedLog,
    health: Arc<Health>,
    inbox: Arc<Queue<crate::lane::Letter>>,
    journals: Journals,
}

impl<'a> Builder<'a> {
    fn new(
        plans: Vec<Arc<Plan>>,
        common: &'a Common,
        state: Option<&StateDir>,
    ) -> Result<Builder<'a>, Error> {
        let names: Vec<String> = plans.iter().map(|p| p.name.clone()).collect();
        let state = state.map(|dir| dir.group(&names)).transpose()?;
        let directory: Option<PathBuf> = state.as_ref().map(|s| s.path(""));
        let shared = Arc::new(Shared::below(&common.shared));
        let journals = journals(common, directory.as_deref(), &shared)?;
        let environments = names
            .iter()
            .map(|app| {
                let lines = Arc::clone(&common.lines);
                Environment {
                    app: app.clone(),
                    state: directory.clone(),
                    settings: Arc::clone(&common.settings),
                    lines: Arc::new(move |line: &str| lines.put(line)),
                    shared: Arc::clone(&shared),
                }
            })
            .collect();
        let metrics = plans
            .iter()
            .map(|plan| app_metrics(plan, &common.metrics))
            .collect();
        let health = Arc::new(Health::new(names.join("+"), &common.pulse));
        Ok(Builder {
            common,
            plans,
            environments,
            metrics,
            state,
            rejected: SharedLog::default(),
            undelivered: SharedLog::default(),
            health,
            inbox: Arc::new(Queue::new(INBOX)),
            journals,
        })
    }

    fn build(self, handed: Option<Saved>) -> Result<Group, Error> {
        let mut engines = self.engines()?;
        let mut stores = self.stores(&engines)?;
        let store_context = StoreContext {
            health: Arc::clone(&self.health),
            rejected: self.undelivered.clone(),
            store_key: self.store_key(),
            second: Duration::from_secs(1),
            gives_up: false,
        };
        let opening = StoreContext {
            gives_up: !self.common.waits_for_stores,
            ..store_context.clone()
        };
        let (seats, mut sinks) = self.sinks()?;
        let mut parts: Vec<&mut StoreSeat> = stores.seats().collect();
        let may_drop = self.common.drop_state;
        let found = self.state.as_ref();
        let found = found
            .map(|state| recovery::look(state, may_drop))
            .transpose()?;
        recovery::open(&mut parts, &mut sinks, &opening)?;
        let recovered = match (&self.state, &found) {
            (Some(state), Some(found)) => {
                recovery::recover(state, found, may_drop, &mut parts, &mut sinks, &opening)?
            }
            _ => Recovered::default(),
        };
        self.open_logs(recovered.saved.as_ref())?;
        for journal in self.journals.iter() {
            let restored = journal.restored(recovered.epoch);
            restored.map_err(|e| self.state_error(chain(&e)))?;
        }
        for (engine, i) in engines.iter().zip(0..) {
            self.enlist_parts(i, engine);
        }
        let saved = recovered.saved.map(|(_, saved)| saved).or(handed);
        if let Some(saved) = &saved {
            self.restore(&mut engines, saved)?;
        }
        let saved = saved.unwrap_or_default();
        let (sources, lane_sources, subscribers) = self.sources(&saved)?;
        let place_of_tables = stores.inline_places(&self.plans);
        let first_asked = engines.iter().map(|e| e.operations().len()).max();
        let (operations, store_threads, databases) = stores.seated(&engines, &store_context);
        let in_memory = stores.in_memory;
        let (jobs, job_queue) = sync_channel(1);
        let apps: Vec<LaneApp> = engines
            .into_iter()
            .zip(seats)
            .zip(operations)
            .enumerate()
            .map(|(i, ((engine, sinks), operations))| LaneApp {
                name: self.plans[i].name.clone(),
                plan: Arc::clone(&self.plans[i]),
                engine,
                shown: shown_tables(&self.plans[i], &sinks),
                sinks,
                shares: self.plans[i]
                    .streams
                    .iter()
                    .map(|stream| stream.sinks.iter().map(Share::of).collect())
                    .collect(),
                links: engine::topic_links(&self.plans[i]),
                tables: in_memory
                    .iter()
                    .filter(|(app, ..)| *app == i)
                    .map(|(_, table, metrics)| (*table, Arc::clone(metrics)))
                    .collect(),
                streams: self.metrics[i].streams.all(),
                operations,
                table_seats: place_of_tables[i].clone(),
                environment: self.environments[i].clone(),
                calls: effect_calls(&self.common.registry),
                metrics: Arc::clone(&self.metrics[i]),
                queries: self.metrics[i].queries.all(),
                parts: self.metrics[i].parts.all(),
                reporter: Reporter::of(&self.plans[i], Instant::now()),
                is_high: false,
                said_of_budget: Sparse::default(),
                said: Sparse::default(),
            })
            .collect();
        let keeper = Keeper {
            jobs: job_queue,
            inbox: Arc::clone(&self.inbox),
            state: self.state.clone(),
            rejected: self.rejected.clone(),
            undelivered: self.undelivered.clone(),
            environment: self.environments[0].clone(),
            registry: self.common.registry,
            journals: Arc::clone(&self.journals),
            apps: self.metrics.clone(),
            pulse: Arc::clone(&self.common.pulse),
            health: Arc::clone(&self.health),
            current: None,
            unfinished: saved.effects,
            composer: Composer::default(),
        };
        let names: Vec<&str> = self.plans.iter().map(|p| p.name.as_str()).collect();
        let lane = Lane {
            name: names.join("+"),
            apps,
            sources: lane_sources,
            subscribers,
            inbox: self.inbox,
            sink_boxes: sinks.iter().map(|s| Arc::clone(&s.outbox)).collect(),
            sinks_that_commit: sinks.iter().filter(|s| s.takes_part()).count(),
            store_boxes: store_threads
                .iter()
                .map(|s| Arc::clone(&s.outbox))
                .collect(),
            databases,
            asked: AskedOperations::new(first_asked.unwrap_or(0)),
            pulse: Arc::clone(&self.common.pulse),
            health: Arc::clone(&self.health),
            lines: Arc::clone(&self.common.lines),
            rejected: self.rejected,
            registry: self.common.registry,
            journals: self.journals,
            clock: self.common.clock,
            cutter: Cutter {
                jobs,
                state: self.state.clone(),
                interval: self.common.state_interval,
                epoch: recovered.highest,
                last: Instant::now(),
                took: Duration::ZERO,
                counted: Instant::now(),
                count_took: Duration::ZERO,
                is_counted: true,
                in_flight: false,
                is_wanted: false,
                is_dirty: false,
                written: 0,
                effects: Vec::new(),
                chain: Chain::default(),
            },
            carried: VecDeque::new(),
            outputs: Outputs::default(),
            messages: Messages::default(),
            waited: Duration::ZERO,
            handed: None,
        };
        Ok(Group {
            health: self.health,
            lane,
            keeper,
            sources,
            sinks,
            stores: store_threads,
        })
    }

    /// Names the state directory to what takes part in epochs.
    fn store_key(&self) -> String {
        let state = self.state.as_ref();
        state.map_or_else(String::new, |state| state.store_key.clone())
    }

    fn state_error(&self, message: String) -> Error {
        Error::State {
            path: self.state.as_ref().map(|s| s.path("")).unwrap_or_default(),
            message,
        }
    }

    fn engines(&self) -> Result<Vec<App>, Error> {
        let plans = self.plans.iter();
        plans.map(|plan| engine_of(plan, self.common)).collect()
    }

    /// Counters of the queries and parts of an app.
    fn enlist_parts(&self, app: usize, engine: &App) {
        let (plan, metrics) = (&self.plans[app], &self.metrics[app]);
        for query in &plan.queries {
            let label = self.label(app, &query.name, "query");
            let query = QueryMetrics {
                label,
                ..QueryMetrics::default()
            };
            metrics.queries.enlist(query);
        }
        for (holder, _) in engine.held() {
            let label = self.label(app, holder.name(plan), holder.kind());
            let part = PartMetrics {
                label,
                ..PartMetrics::default()
            };
            metrics.parts.enlist(part);
        }
        let limit = engine.budget().map_or(0, |b| b.limit as u64);
        metrics.memory_limit.set(limit);
    }

    /// Gives the apps their saved state. Before that it is said what of it an edited app cannot take
    /// back; dropping it has to be allowed.
    fn restore(&self, engines: &mut [App], saved: &Saved) -> Result<(), Error> {
        let mut edit = Edit::default();
        let mut places = Vec::new();
        for (name, bytes) in saved.apps() {
            let app = self.plans.iter().position(|p| p.name == name);
            let app = app.ok_or_else(|| self.state_error(format!("there is no app '{name}'")))?;
            let fit = engines[app]
                .fit(bytes)
                .map_err(|e| self.unreadable(name, &e))?;
            edit.add(name, fit);
            places.push((app, name, bytes));
        }
        for (app, key, _) in saved.positions.iter().filter(|(.., p)| p.is_some()) {
            let plans = self.plans.iter();
            if !plans.filter(|p| p.name == *app).any(|p| has_source(p, key)) {
                edit.lost_position(app, key);
            }
        }
        edit.say();
        if !edit.is_lossless() && !self.common.drop_state {
            return Err(self.state_error(edit.refusal()));
        }
        for (app, name, bytes) in places {
            engines[app]
                .restore_what_fits(bytes)
                .map_err(|e| self.unreadable(name, &e))?;
        }
        Ok(())
    }

    fn unreadable(&self, app: &str, error: &engine::RestoreError) -> Error {
        self.state_error(format!(
            "the state of app '{app}' cannot be taken back: {}; give another directory to start \
             afresh",
            chain(error)
        ))
    }

    fn open_logs(&self, saved: Option<&(u64, Saved)>) -> Result<(), Error> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let open = |name: &str, keep: u64| RejectedLog::open(&state.path(name), keep);
        let (rejected, undelivered) = saved.map_or((0, 0), |(u, saved)| (saved.rejected, *u));
        self.rejected.set(open(FILES[0], rejected)?);
        self.undelivered.set(open(FILES[1], undelivered)?);
        Ok(())
    }

    fn mapper(&self, app: usize, stream: &str, transport: &Transport) -> MapperMetrics {
        let ty = format!("{}.{}", transport.ty, transport.map.ty);
        let label = self.label(app, stream, &ty);
        MapperMetrics::new(label, &self.metrics[app].level)
    }

    fn label(&self, app: usize, element: &str, ty: &str) -> Label {
        Label {
            app: self.plans[app].name.clone(),
            element: element.to_owned(),
            ty: ty.to_owned(),
        }
    }

    // ---- sources ----

    fn sources(
        &self,
        saved: &Saved,
    ) -> Result<(Vec<SourceThread>, Vec<LaneSource>, Vec<Subscriber>), Error> {
        let (mut threads, mut seats, mut subscribers) = (Vec::new(), Vec::new(), Vec::new());
        for (app, plan) in self.plans.iter().enumerate() {
            for (stream, definition) in plan.streams.iter().enumerate() {
                for (i, transport) in definition.sources.iter().enumerate() {
                    let name = definition.display_name();
                    let metrics = SourceMetrics {
                        label: self.label(app, &name, &transport.ty),
                        ..SourceMetrics::default()
                    };
                    let metrics = self.metrics[app].sources.enlist(metrics);
                    metrics.bytes_expected.set(bytes_waiting(transport));
                    let mapper = self.mapper(app, &name, transport);
                    let mapper = self.metrics[app].source_mappers.enlist(mapper);
                    let mapping = SourceMapping::new(mapper);
                    if is_topic(transport) {
                        let reader = self.subscriber(app, stream, transport, metrics, mapping)?;
                        subscribers.push(reader);
                        continue;
                    }
                    let key = format!("{name}[{}]", i + 1);
                    let number = seats.len();
                    let (thread, seat) =
                        self.source(app, stream, transport, key, number, metrics, mapping, saved)?;
                    threads.push(thread);
                    seats.push(seat);
                }
            }
        }
        Ok((threads, seats, subscribers))
    }

    fn subscriber(
        &self,
        app: usize,
        stream: StreamId,
        transport: &Transport,
        metrics: Arc<SourceMetrics>,
        mapping: SourceMapping,
    ) -> Result<Subscriber, Error> {
        let schema = &self.plans[app].streams[stream].schema;
        let inlet = Inlet::new(transport, schema, &[PayloadKind::Any])
            .map_err(|e| self.refused(app, &e))?;
        Ok(Subscriber {
            topic: transport.option("topic").unwrap_or_default().to_owned(),
            app,
            stream,
            inlet,
            metrics,
            mapping,
        })
    }

    fn source(
        &self,
        app: usize,
        stream: StreamId,
        transport: &Transport,
        key: String,
        number: usize,
        metrics: Arc<SourceMetrics>,
        mapping: SourceMapping,
        saved: &Saved,
    ) -> Result<(SourceThread, LaneSource), Error> {
        let plan = &self.plans[app];
        let schema = &plan.streams[stream].schema;
        let setup = SourceSetup {
            transport,
            schema,
            environment: &self.environments[app],
        };
        let connector = self
            .common
            .registry
            .find(ConnectorKind::Source, &transport.ty)
            .ok_or_else(|| self.not_there(app, "source", &transport.ty))?;
        let mut source = connector
            .source(&setup)
            .map_err(|e| self.refused(app, &e))?;
        self.must_end(source.as_ref(), app, &key, transport)?;
        let mut inlet =
            Inlet::new(transport, schema, connector.gives()).map_err(|e| self.refused(app, &e))?;
        let position = saved
            .positions
            .iter()
            .find(|(name, saved_key, _)| *name == plan.name && *saved_key == key)
            .and_then(|(_, _, position)| position.clone());
        if let Some(position) = &position {
            source
                .restore(&position.source)
                .map_err(|e| self.state_error(format!("source '{key}': {}", chain(&e))))?;
            inlet.restore(&position.mapper);
        }
        let mailbox = Arc::new(Mailbox::default());
        let name = format!("{}/{key}", plan.name);
        let thread = SourceThread {
            seat: self.health.member().enlist(&name),
            name,
            number,
            source,
            inlet,
            inbox: Arc::clone(&self.inbox),
            mailbox: Arc::clone(&mailbox),
            pulse: Arc::clone(&self.common.pulse),
            metrics,
            mapping,
            server_metrics: Arc::clone(&self.common.metrics),
            process: self.common.process,
            clock: self.common.clock,
            until_done: self.common.until_done,
            message_key: self.common.registry.message_key(&transport.ty),
        };
        let seat = LaneSource {
            app,
            stream,
            key,
            mailbox,
            position,
            sequence: 0,
            covered: 0,
            said: Sparse::default(),
        };
        Ok((thread, seat))
    }

    /// With `--until-done` a source that never ends would keep the run from ending.
    fn must_end(
        &self,
        source: &dyn Source,
        app: usize,
        key: &str,
        transport: &Transport,
    ) -> Result<(), Error> {
        if !self.common.until_done || source.ends() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "--until-done: source '{key}' (type '{}') of app '{}' never ends; leave the flag out, \
             or make the source end (a file source with tailing='false')",
            transport.ty, self.plans[app].name
        )))
    }

    fn not_there(&self, app: usize, kind: &str, ty: &str) -> Error {
        Error::Refused(format!(
            "app '{}' cannot run: {kind} '{ty}' does not run yet",
            self.plans[app].name
        ))
    }

    fn refused(&self, app: usize, error: &connect::Error) -> Error {
        Error::Refused(format!(
            "app '{}' cannot run: {}",
            self.plans[app].name,
            chain(error)
        ))
    }

    // ---- sinks ----

    #[allow(clippy::type_complexity)]
    fn sinks(&self) -> Result<(Vec<Vec<Vec<SinkSeat>>>, Vec<SinkThread>), Error> {
        let mut threads: Vec<SinkThread> = Vec::new();
        let mut by_destination: HashMap<String, usize> = HashMap::new();
        let mut apps = Vec::new();
        for (app, plan) in self.plans.iter().enumerate() {
            let mut streams = Vec::new();
            for stream in 0..plan.streams.len() {
                let mut seats = Vec::new();
                for transport in &plan.streams[stream].sinks {
                    let key = self.common.registry.destination(transport);
                    let next = threads.len();
                    let thread = *by_destination.entry(key).or_insert(next);
                    let seat = self.sink(app, stream, transport, &mut threads, thread)?;
                    seats.push(seat);
                }
                streams.push(seats);
            }
            apps.push(streams);
        }
        threads.retain(|t| !t.slots.is_empty());
        Ok((apps, threads))
    }

    fn sink(
        &self,
        app: usize,
        stream: StreamId,
        transport: &Transport,
        threads: &mut Vec<SinkThread>,
        thread: usize,
    ) -> Result<SinkSeat, Error> {
        let plan = &self.plans[app];
        let definition = &plan.streams[stream];
        let name = definition.display_name();
        let metrics = SinkMetrics {
            label: self.label(app, &name, &transport.ty),
            ..SinkMetrics::default()
        };
        let metrics = self.metrics[app].sinks.enlist(metrics);
        let mapper = self.mapper(app, &name, transport);
        let mapper = self.metrics[app].sink_mappers.enlist(mapper);
        while threads.len() <= thread {
            threads.push(SinkThread {
                name: format!("{} of stream '{name}'", transport.ty),
                slots: Vec::new(),
                outbox: Arc::new(Outbox::new(Weight {
                    rows: sink::ROWS_MAX,
                    bytes: sink::BYTES_MAX,
                })),
                inbox: Arc::clone(&self.inbox),
                rejected: self.undelivered.clone(),
                health: Arc::clone(&self.health),
                has_state: self.state.is_some(),
                is_cut_off: false,
                store_key: self.store_key(),
                uncommitted: Arc::default(),
                messages: Messages::default(),
            });
        }
        let catalog_spec = catalog::connectors::all()
            .find(|s| s.kind == ConnectorKind::Sink && s.name == transport.ty)
            .ok_or_else(|| self.not_there(app, "sink", &transport.ty))?;
        if is_topic(transport) {
            let takes = [PayloadKind::Any];
            let outlet = Outlet::new(transport, &definition.schema, catalog_spec, &takes)
                .map_err(|e| self.refused(app, &e))?;
            let topic = match outlet.dynamic().iter().position(|n| n == "topic") {
                Some(index) => Topic::Dynamic(index),
                None => Topic::Named(transport.option("topic").unwrap_or_default().to_owned()),
            };
            return Ok(SinkSeat::Topic {
                outlet,
                topic,
                on_unheard: on_unreachable(plan, app, stream, transport),
                metrics,
                mapper,
                said: Sparse::default(),
            });
        }
        let connector = self
            .common
            .registry
            .find(ConnectorKind::Sink, &transport.ty)
            .ok_or_else(|| self.not_there(app, "sink", &transport.ty))?;
        let outlet = Outlet::new(
            transport,
            &definition.schema,
            catalog_spec,
            connector.takes(),
        )
        .map_err(|e| self.refused(app, &e))?;
        let table = table_read(plan, transport);
        let setup = SinkSetup {
            transport,
            schema: &definition.schema,
            dynamic: outlet.dynamic(),
            table: table.map(|table| &plan.tables[table]),
            environment: &self.environments[app],
        };
        let mut made = connector.sink(&setup).map_err(|e| self.refused(app, &e))?;
        if transport.ty == "log" {
            made.connect().map_err(|e| self.refused(app, &e))?;
            return Ok(SinkSeat::Inline {
                outlet,
                sink: made,
                metrics,
                mapper,
            });
        }
        if let Some(epochs) = made.epochs() {
            epochs
                .fit(self.common.state_interval)
                .map_err(|e| self.refused(app, &e))?;
        }
        let on_unreachable = on_unreachable(plan, app, stream, transport);
        let uncommitted = Arc::clone(&threads[thread].uncommitted);
        let slots = &mut threads[thread].slots;
        slots.push(SinkSlot::new(
            outlet,
            made,
            on_unreachable,
            Arc::clone(&metrics),
            mapper,
        ));
        Ok(SinkSeat::Thread {
            slot: slots.len() - 1,
            outbox: Arc::clone(&threads[thread].outbox),
            uncommitted,
            metrics,
        })
    }

    // ---- stores ----

    fn stores(&self, engines: &[App]) -> Result<Stores, Error> {
        let mut stores = Stores::default();
        for (app, plan) in self.plans.iter().enumerate() {
            for (table, definition) in plan.tables.iter().enumerate() {
                let metrics = TableMetrics {
                    label: self.label(
                        app,
                        &definition.schema.name,
                        definition.store.as_ref().map_or(MEMORY, |s| &s.ty),
                    ),
                    ..TableMetrics::default()
                };
                let metrics = self.metrics[app].tables.enlist(metrics);
                let Some(store) = &definition.store else {
                    stores.in_memory.push((app, table, metrics));
                    continue;
                };
                let connector = self
                    .common
                    .registry
                    .find(ConnectorKind::Store, &store.ty)
                    .ok_or_else(|| self.not_there(app, "store", &store.ty))?;
                let setup = StoreSetup {
                    table: definition,
                    environment: &self.environments[app],
                };
                let made = connector.store(&setup).map_err(|e| self.refused(app, &e))?;
                let made = cached(made, definition, store).map_err(|e| self.refused(app, &e))?;
                let operations: Vec<_> = engines[app]
                    .operations()
                    .iter()
                    .enumerate()
                    .filter(|(_, o)| o.table == table)
                    .map(|(id, o)| (id, o.clone()))
                    .collect();
                let is_shown = plan
                    .streams
                    .iter()
                    .flat_map(|stream| &stream.sinks)
                    .any(|sink| table_read(plan, sink) == Some(table));
                let is_read = self.common.is_asked
                    || is_shown
                    || operations.iter().any(|(_, o)| !o.kind.is_write());
                let policy = store.option("on.error").unwrap_or_default();
                let seat = StoreSeat {
                    app: plan.name.clone(),
                    table: definition.schema.name.clone(),
                    store: made,
                    operations,
                    on_unreachable: store::OnUnreachable::from_name(policy),
                    metrics,
                    has_epochs: self.state.is_some(),
                    in_transaction: false,
                    counts_at_begin: [0; 4],
                    said: Sparse::default(),
                };
                stores.add(
                    self.common.registry.database(store),
                    app,
                    table,
                    is_read,
                    seat,
                );
            }
        }
        Ok(stores)
    }
}

/// With what `@cache` asks for before it.
fn cached(
    inner: Box<dyn Store>,
    table: &plan::Table,
    store: &plan::Store,
) -> Result<Box<dyn Store>, connect::Error> {
    let Some(options) = &store.cache else {
        return Ok(inner);
    };
    let limits = Limits::from_options(options).map_err(|message| {
        connect::Error::refused(format!("table '{}'", table.schema.name), message)
    })?;
    let start = Instant::now();
    let clock = Box::new(move || i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX));
    Ok(Box::new(CachedStore::new(inner, table, limits, clock)))
}

/// Stores by database.
#[derive(Default)]
struct Stores {
    databases: Vec<Database>,
    /// App, table and counters of the tables in memory.
    in_memory: Vec<(usize, TableId, Arc<TableMetrics>)>,
}

struct Database {
    name: String,
    is_read: bool,
    seats: Vec<StoreSeat>,
    /// App and table of each seat.
    places: Vec<(usize, usize)>,
}

impl Stores {
    fn seats(&mut self) -> impl Iterator<Item = &mut StoreSeat> {
        self.databases.iter_mut().flat_map(|d| &mut d.seats)
    }

    fn add(&mut self, name: String, app: usize, table: usize, is_read: bool, seat: StoreSeat) {
        let found = self.databases.iter().position(|d| d.name == name);
        let database = found.unwrap_or_else(|| {
            self.databases.push(Database {
                name,
                is_read: false,
                seats: Vec::new(),
                places: Vec::new(),
            });
            self.databases.len() - 1
        });
        let database = &mut self.databases[database];
        database.is_read |= is_read;
        database.seats.push(seat);
        database.places.push((app, table));
    }

    /// For each app and table the database of the lane that holds it, and its slot there, in the
    /// order in which [`Stores::seated`] places them.
    fn inline_places(&self, plans: &[Arc<Plan>]) -> Vec<Vec<Option<(usize, usize)>>> {
        let mut places: Vec<Vec<_>> = plans.iter().map(|p| vec![None; p.tables.len()]).collect();
        let inline = self.databases.iter().filter(|d| d.is_read);
        for (at, database) in inline.enumerate() {
            for (slot, &(app, table)) in database.places.iter().enumerate() {
                places[app][table] = Some((at, slot));
            }
        }
        places
    }

    /// Tables of a database that some query reads work on the lane, all others behind it.
    #[allow(clippy::type_complexity)]
    fn seated(
        &mut self,
        engines: &[App],
        context: &StoreContext,
    ) -> (
        Vec<Vec<OperationSeat>>,
        Vec<StoreThread>,
        Vec<store::Database>,
    ) {
        let mut by_table: HashMap<(usize, usize), OperationSeat> = HashMap::new();
        let (mut threads, mut inline) = (Vec::new(), Vec::new());
        for database in self.databases.drain(..) {
            if database.is_read {
                for (slot, place) in database.places.into_iter().enumerate() {
                    let seat = OperationSeat::Inline {
                        database: inline.len(),
                        slot,
                    };
                    by_table.insert(place, seat);
                }
                inline.push(store::Database::new(database.seats, context.clone()));
                continue;
            }
            let outbox = Arc::new(Outbox::new(Weight {
                rows: sink::ROWS_MAX,
                bytes: sink::BYTES_MAX,
            }));
            let uncommitted = Arc::new(Uncommitted::default());
            for (slot, place) in database.places.into_iter().enumerate() {
                let seat = OperationSeat::Thread {
                    outbox: Arc::clone(&outbox),
                    slot,
                    uncommitted: Arc::clone(&uncommitted),
                };
                by_table.insert(place, seat);
            }
            threads.push(StoreThread {
                database: store::Database::new(database.seats, context.clone()),
                outbox,
                uncommitted,
            });
        }
        let operations = engines
            .iter()
            .enumerate()
            .map(|(app, engine)| {
                engine
                    .operations()
                    .iter()
                    .map(|o| by_table[&(app, o.table)].clone())
                    .collect()
            })
            .collect();
        (operations, threads, inline)
    }
}

/// The numbers of an app and its streams.
fn app_metrics(plan: &Plan, metrics: &Metrics) -> Arc<AppMetrics> {
    let app = metrics.enlist(&plan.name);
    app.level.begin(plan);
    for stream in &plan.streams {
        let label = Label {
            app: plan.name.clone(),
            element: stream.display_name(),
            ty: "stream".to_owned(),
        };
        app.streams.enlist(StreamMetrics {
            label,
            is_async: stream.deferred.is_some(),
            ..StreamMetrics::default()
        });
    }
    app
}

/// The table that a sink works from, where its spec says that there is one.
fn table_read(plan: &Plan, transport: &Transport) -> Option<TableId> {
    let mut all = catalog::connectors::all();
    let spec = all.find(|s| s.kind == ConnectorKind::Sink && s.name == transport.ty)?;
    let name = transport.option(spec.reads_table?)?;
    let mut tables = plan.tables.iter();
    tables.position(|table| table.schema.name == name)
}

/// The tables that sinks of an app work from.
fn shown_tables(plan: &Plan, sinks: &[Vec<SinkSeat>]) -> Vec<ShownTable> {
    let mut shown = Vec::new();
    for (stream, seats) in sinks.iter().enumerate() {
        for (sink, seat) in seats.iter().enumerate() {
            let table = table_read(plan, &plan.streams[stream].sinks[sink]);
            if let (Some(table), SinkSeat::Thread { outbox, slot, .. }) = (table, seat) {
                shown.push(ShownTable {
                    table,
                    stream,
                    sink,
                    outbox: Arc::clone(outbox),
                    slot: *slot,
                    written: None,
                    read: None,
                    find: None,
                });
            }
        }
    }
    shown
}

fn on_unreachable(
    plan: &Plan,
    app: usize,
    stream: StreamId,
    transport: &Transport,
) -> sink::OnUnreachable {
    let policy = transport.option("on.error").unwrap_or("LOG");
    match policy.to_ascii_uppercase().as_str() {
        "WAIT" => sink::OnUnreachable::Wait,
        "STORE" => sink::OnUnreachable::Store,
        "STREAM" => match fault_stream(plan, stream) {
            Some(fault) => sink::OnUnreachable::Stream { app, fault },
            None => sink::OnUnreachable::Log,
        },
        _ => sink::OnUnreachable::Log,
    }
}
