//! Makes the executor of one group: apps, components, queues, and what a saved state says about them.

mod assemble;
mod sinks;
mod sources;
mod stores;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use connect::component::{Environment, Setting};
use connect::effect::EffectCalls;
use connect::registry::Registry;
use connect::shared::Shared;
use engine::{App, Setup};
use plan::{Plan, Transport};

use crate::activity::ActivityTracker;
use crate::checkpoint::coordinator::CheckpointCoordinator;
use crate::clock::Clock;
use crate::error::Error;
use crate::executor::{Executor, INPUT_MAX};
use crate::health::Health;
use crate::lines::Lines;
use crate::metrics::{AppMetrics, Label, Metrics, StreamMetrics};
use crate::otlp::Tracer;
use crate::process::Process;
use crate::queue::Queue;
use crate::rejected::{ErrorStore, SharedLog};
use crate::report::chain;
use crate::sink::SinkThread;
use crate::source::SourceThread;
use crate::state::{GroupState, Journals, Saved, StateDir};
use crate::statistics::MapperMetrics;
use crate::store::StoreThread;

/// What is the same for all groups of a server.
pub(crate) struct Common {
    pub metrics: Arc<Metrics>,
    pub activity: Arc<ActivityTracker>,
    pub lines: Arc<Lines>,
    /// Makes spans of what the server does.
    pub tracer: Option<Tracer>,
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
    /// The same for these apps alone.
    pub drop_state_of: BTreeSet<String>,
    /// What is begun now saves and commits nothing before that is allowed.
    pub is_on_trial: bool,
    /// Bytes that each app may hold.
    pub memory_max: Option<u64>,
    pub until_done: bool,
    /// On-demand queries will come.
    pub is_asked: bool,
    /// A group waits at its start for a store that is away; else that is an error.
    pub waits_for_stores: bool,
    /// Where rejected events go.
    pub errors: ErrorStore,
}

impl Common {
    /// May state of this app be dropped?
    pub fn may_drop(&self, app: &str) -> bool {
        self.drop_state || self.drop_state_of.contains(app)
    }
}

/// A group ready to run: its threads, not started yet.
pub(crate) struct Group {
    pub health: Arc<Health>,
    pub executor: Executor,
    pub coordinator: CheckpointCoordinator,
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
    restored: Option<Saved>,
) -> Result<Group, Error> {
    Builder::new(plans, common, state)?.build(handed, restored)
}

/// The engine of one app; an error says why it cannot run.
pub(crate) fn engine_of(plan: &Plan, common: &Common) -> Result<App, Error> {
    let setup = Setup {
        environment: engine::AppEnvironment {
            app: plan.name.clone(),
            zone: common.zone.clone(),
            compat: plan.options.compat,
            scripts: Some(&script::JavaScript),
            ..engine::AppEnvironment::default()
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
    input_queue: Arc<Queue<crate::executor::ExecutorInput>>,
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
        let state_id = state.as_ref().map(|state| state.store_key.clone());
        let shared = Arc::new(Shared::below(&common.shared));
        let journals = journals(common, directory.as_deref(), &shared)?;
        let environments = plans
            .iter()
            .map(|plan| {
                let lines = Arc::clone(&common.lines);
                Environment {
                    app: plan.name.clone(),
                    state: directory.clone(),
                    state_id: state_id.clone(),
                    is_compat: plan.options.compat,
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
        let health = Health::new(&names, &common.activity, state.is_some());
        health.set_on_trial(common.is_on_trial);
        let health = Arc::new(health);
        let [rejected, undelivered] = common.errors.logs();
        Ok(Builder {
            common,
            plans,
            environments,
            metrics,
            state,
            rejected,
            undelivered,
            health,
            input_queue: Arc::new(Queue::new(INPUT_MAX)),
            journals,
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

    /// Of the mapper of a source or sink with this label.
    fn mapper(&self, app: usize, of: &Label, transport: &Transport) -> MapperMetrics {
        let label = Label {
            ty: format!("{}.{}", transport.ty, transport.map.ty),
            ..of.clone()
        };
        MapperMetrics::new(label, &self.metrics[app].level)
    }

    fn label(&self, app: usize, element: &str, ty: &str) -> Label {
        Label {
            app: self.plans[app].name.clone(),
            element: element.to_owned(),
            ty: ty.to_owned(),
            ..Label::default()
        }
    }

    /// Of one of the sources, or of the sinks, of a stream.
    fn transport_label(&self, app: usize, stream: &str, all: &[Transport], place: usize) -> Label {
        let ty = &all[place].ty;
        Label {
            number: place + 1,
            is_twin: all[..place].iter().any(|before| before.ty == *ty),
            ..self.label(app, stream, ty)
        }
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
            ..Label::default()
        };
        app.streams.enlist(StreamMetrics {
            label,
            is_async: stream.deferred.is_some(),
            ..StreamMetrics::default()
        });
    }
    app
}
