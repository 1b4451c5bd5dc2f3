//! Puts the parts of a group together, and gives them what a saved state says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use connect::distribution::Share;
use connect::message::Messages;
use engine::{App, Outputs};
use plan::TableId;

use super::sinks::table_feeds;
use super::{Builder, Group, effect_calls, engine_of};
use crate::backoff::LogThrottle;
use crate::checkpoint::coordinator::{CheckpointCoordinator, PendingCheckpoint};
use crate::edit::Edit;
use crate::error::Error;
use crate::executor::{
    AskedOperations, Checkpointer, Executor, OperationTarget, RunningApp, SinkBinding, SnapshotLog,
    SourceBinding, Subscriber,
};
use crate::metrics::TableMetrics;
use crate::preview::has_source;
use crate::recovery::{self, Recovered};
use crate::rejected::{FILES, POSITION, RejectedLog, Replayed, redo};
use crate::report::chain;
use crate::sink::SinkThread;
use crate::state::Compactor;
use crate::state::Saved;
use crate::statistics::{PartMetrics, QueryMetrics, Reporter};
use crate::store::{StoreBinding, StoreContext, StoreThread};

impl Builder<'_> {
    /// `handed`: from the executor before, without a state directory. `restored`: takes the place of what is
    /// saved of its apps.
    pub(super) fn build(
        self,
        handed: Option<Saved>,
        restored: Option<Saved>,
    ) -> Result<Group, Error> {
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
        let (bindings, mut sinks) = self.sinks()?;
        let mut parts: Vec<&mut StoreBinding> = stores.bindings().collect();
        let mut plans = self.plans.iter();
        let may_drop = plans.all(|plan| self.common.may_drop(&plan.name));
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
        let is_restored = restored.is_some();
        let saved = match restored {
            Some(restored) => Some(saved.unwrap_or_default().with(restored)),
            None => saved,
        };
        if let Some(saved) = &saved {
            self.restore(&mut engines, saved)?;
        }
        let saved = saved.unwrap_or_default();
        let (sources, source_bindings, subscribers) = self.sources(&saved)?;
        let place_of_tables = stores.inline_places(&self.plans);
        let first_asked = engines.iter().map(|e| e.operations().len()).max();
        let (operations, store_threads, databases) = stores.bound(&engines, &store_context);
        let in_memory = stores.in_memory;
        let (pending, job_queue) = sync_channel(1);
        let apps = self.apps(engines, bindings, operations, &place_of_tables, &in_memory);
        let mut coordinator = self.coordinator(job_queue);
        coordinator.unfinished = saved.effects;
        let mut checkpointer = self.checkpointer(pending, recovered.highest);
        // What was restored is durable with the first checkpoint.
        checkpointer.is_dirty = is_restored;
        checkpointer.is_requested = is_restored;
        let health = Arc::clone(&self.health);
        let asked = AskedOperations::new(first_asked.unwrap_or(0));
        let executor = self.executor(
            apps,
            (source_bindings, subscribers),
            &sinks,
            (databases, &store_threads),
            asked,
            checkpointer,
        );
        Ok(Group {
            health,
            executor,
            coordinator,
            sources,
            sinks,
            stores: store_threads,
        })
    }

    /// The apps with all that their executor keeps of each.
    fn apps(
        &self,
        engines: Vec<App>,
        bindings: Vec<Vec<Vec<SinkBinding>>>,
        operations: Vec<Vec<OperationTarget>>,
        place_of_tables: &[Vec<Option<(usize, usize)>>],
        in_memory: &[(usize, TableId, Arc<TableMetrics>)],
    ) -> Vec<RunningApp> {
        engines
            .into_iter()
            .zip(bindings)
            .zip(operations)
            .enumerate()
            .map(|(i, ((engine, sinks), operations))| RunningApp {
                name: self.plans[i].name.clone(),
                plan: Arc::clone(&self.plans[i]),
                engine,
                table_feeds: table_feeds(&self.plans[i], &sinks, &self.common.registry),
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
                table_bindings: place_of_tables[i].clone(),
                environment: self.environments[i].clone(),
                calls: effect_calls(&self.common.registry),
                metrics: Arc::clone(&self.metrics[i]),
                queries: self.metrics[i].queries.all(),
                parts: self.metrics[i].parts.all(),
                reporter: Reporter::of(&self.plans[i], Instant::now()),
                is_high: false,
                budget_throttle: LogThrottle::default(),
                warn_throttle: LogThrottle::default(),
            })
            .collect()
    }

    /// What writes the state of the group, without effects that an earlier run has left unfinished.
    fn coordinator(&self, pending: Receiver<PendingCheckpoint>) -> CheckpointCoordinator {
        CheckpointCoordinator {
            pending,
            input_queue: Arc::clone(&self.input_queue),
            state: self.state.clone(),
            rejected: self.rejected.clone(),
            undelivered: self.undelivered.clone(),
            environment: self.environments[0].clone(),
            registry: self.common.registry,
            journals: Arc::clone(&self.journals),
            apps: self.metrics.clone(),
            tracer: self.common.tracer.clone(),
            activity: Arc::clone(&self.common.activity),
            health: Arc::clone(&self.health),
            current: None,
            unfinished: Vec::new(),
            compactor: Compactor::default(),
        }
    }

    /// Cuts nothing yet; the epochs go on behind `highest`.
    fn checkpointer(&self, pending: SyncSender<PendingCheckpoint>, highest: u64) -> Checkpointer {
        Checkpointer {
            pending,
            state: self.state.clone(),
            interval: self.common.state_interval,
            epoch: highest,
            last: Instant::now(),
            took: Duration::ZERO,
            counted: Instant::now(),
            count_took: Duration::ZERO,
            is_counted: true,
            in_flight: false,
            is_requested: false,
            is_dirty: false,
            written: 0,
            effects: Vec::new(),
            snapshot_log: SnapshotLog::default(),
        }
    }

    /// The executor itself, which takes over what the builder has made.
    fn executor(
        self,
        apps: Vec<RunningApp>,
        (sources, subscribers): (Vec<SourceBinding>, Vec<Subscriber>),
        sinks: &[SinkThread],
        (databases, stores): (Vec<crate::store::Database>, &[StoreThread]),
        asked: AskedOperations,
        checkpointer: Checkpointer,
    ) -> Executor {
        let names: Vec<&str> = self.plans.iter().map(|p| p.name.as_str()).collect();
        Executor {
            name: names.join("+"),
            apps,
            sources,
            subscribers,
            input_queue: self.input_queue,
            sink_queues: sinks.iter().map(|s| Arc::clone(&s.output_queue)).collect(),
            sinks_that_commit: sinks.iter().filter(|s| s.takes_part()).count(),
            store_queues: stores.iter().map(|s| Arc::clone(&s.output_queue)).collect(),
            databases,
            asked,
            activity: Arc::clone(&self.common.activity),
            health: Arc::clone(&self.health),
            lines: Arc::clone(&self.common.lines),
            rejected: self.rejected,
            registry: self.common.registry,
            journals: self.journals,
            clock: self.common.clock,
            checkpointer,
            carried: VecDeque::new(),
            outputs: Outputs::default(),
            taps: Vec::new(),
            span: None,
            messages: Messages::default(),
            waited: Duration::ZERO,
            handed: None,
            attempt: None,
            replayed: Replayed::default(),
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
    pub(super) fn restore(&self, engines: &mut [App], saved: &Saved) -> Result<(), Error> {
        let mut edit = Edit::default();
        let mut places = Vec::new();
        for (name, bytes) in saved.apps() {
            let app = self.plans.iter().position(|p| p.name == name);
            let app = app.ok_or_else(|| self.state_error(format!("there is no app '{name}'")))?;
            let matching = engines[app]
                .match_state(bytes)
                .map_err(|e| self.unreadable(name, &e))?;
            edit.add(name, matching);
            places.push((app, name, bytes));
        }
        for (app, key, _) in saved.positions.iter().filter(|(.., p)| p.is_some()) {
            let plans = self.plans.iter();
            let is_replay = key == POSITION;
            if !is_replay && !plans.filter(|p| p.name == *app).any(|p| has_source(p, key)) {
                edit.lost_position(app, key);
            }
        }
        edit.say();
        if !edit.is_allowed(|app| self.common.may_drop(app)) {
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
            "cannot restore the state of app '{app}': {}; use another directory to start empty",
            chain(error)
        ))
    }

    fn open_logs(&self, saved: Option<&(u64, Saved)>) -> Result<(), Error> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let errors = &self.common.errors;
        let dir = state.path("");
        // Those of a group that ran before the reload.
        errors.close(&dir);
        let lengths = saved.map_or([0, 0], |(u, saved)| [saved.rejected, *u]);
        let replayed = match saved.and_then(|(_, saved)| saved.position(POSITION)) {
            Some(position) => Replayed::read(&position.source)
                .map_err(|e| self.state_error(format!("{POSITION}: {e}")))?,
            None => Replayed::default(),
        };
        let logs = [&self.rejected, &self.undelivered];
        for (at, log) in logs.into_iter().enumerate() {
            let path = state.path(FILES[at]);
            if !replayed.0[at].is_empty() {
                redo(&path, &replayed.0[at])?;
            }
            log.set(RejectedLog::open(&path, lengths[at], errors.limits())?);
        }
        errors.enlist(
            state.number()?,
            dir,
            [self.rejected.clone(), self.undelivered.clone()],
        );
        Ok(())
    }
}
