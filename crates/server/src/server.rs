//! A running server: makes all groups and launches them, watches for the end, stops them in order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use check::Catalog;
use connect::arrivals::Arrivals;
use connect::component::{DATA_SOURCES, Setting};
use connect::net::gateway::GatewaySlot;
use connect::registry::Registry;
use connect::shared::Shared;
use gateway::Gateway;
use gateway::access::Access;
use gateway::model::Api;
use plan::Plan;

use crate::activity::ActivityTracker;
use crate::ask::Asker;
use crate::backups::Requests;
use crate::build::{Common, Group, build};
use crate::clock::Clock;
use crate::config::Config;
use crate::deployment::ReadyApp;
use crate::error::Error;
use crate::executor::{ExecutorEnd, ExecutorInput, Probe};
use crate::group::groups;
use crate::lines::Lines;
use crate::liveness::Liveness;
use crate::metrics::Metrics;
use crate::otlp::Tracer;
use crate::process::Process;
use crate::rejected::{ErrorStore, Limits};
use crate::running::Running;
use crate::secrets::Hidden;
use crate::state::Saved;
use crate::state::StateDir;
use crate::summary::Summary;

/// How long an executor may take to answer before it counts as busy.
const ANSWER: Duration = Duration::from_millis(100);

/// How apps are run.
pub struct RunOptions {
    /// The technologies of the binary.
    pub registry: Registry,
    /// What on-demand queries may be made of.
    pub catalog: Catalog,
    pub until_done: bool,
    /// On-demand queries will come: stores answer on the executors of their apps.
    pub is_asked: bool,
    pub state: Option<PathBuf>,
    pub state_interval: Duration,
    /// State that an edited app cannot take back, or that is damaged, may be dropped, not only named.
    pub drop_state: bool,
    /// The same for these apps alone.
    pub drop_state_of: BTreeSet<String>,
    /// Bytes that each app may hold in memory.
    pub memory_max: Option<u64>,
    /// IANA name of the zone of `time:*` functions; empty for UTC.
    pub zone: String,
    pub config: Config,
    pub lines: Arc<Lines>,
    /// Makes spans of what the server does.
    pub tracer: Option<Tracer>,
    pub process: Process,
    pub stop: StopHandle,
    /// How long a stop that somebody has asked for may take.
    pub grace: Duration,
    /// Bounds of the rejected events of a group of apps.
    pub error_limits: Limits,
    /// Secrets, which what is kept of rejected events shows only in payloads.
    pub hidden: Hidden,
    /// APIs of documents that the gateway serves; `None`: there is no gateway.
    pub apis: Option<Vec<Api>>,
}

/// What the gateway manages, kept beside the state of the apps.
fn open_access(dir: Option<&Path>) -> Result<Arc<Access>, Error> {
    Access::open(dir, SystemTime::now()).map_err(|error| {
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            message.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        match dir {
            Some(dir) => Error::State {
                path: dir.to_owned(),
                message,
            },
            None => Error::Refused(message),
        }
    })
}

/// Stops a server, or has it read its apps again, from another thread; also one that is still starting.
#[derive(Clone, Default)]
pub struct StopHandle(pub(crate) Arc<ActivityTracker>);

impl StopHandle {
    pub fn stop(&self) {
        self.0.stop();
    }

    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    /// Asks for the apps to be read again: [`Server::wait`] answers with [`Status::Reload`].
    pub fn reload(&self) {
        self.0.ask_for_reload();
    }
}

/// Where a run stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    Running,
    /// Somebody wants the apps to be read again; said once.
    Reload,
    /// Somebody wants an app as it was: [`Server::restore_asked`].
    Restore,
    /// All input has been read and nothing is on its way (`--until-done`).
    Done,
    /// Somebody has asked it to stop, or no app can go on.
    Stopping,
    /// With `--until-done`: these sources cannot be reached, and nothing else is left to do.
    Unreachable(String),
}

/// How a run ended.
#[derive(Debug)]
pub struct End {
    pub summary: Summary,
    /// Apps or sources that could not go on.
    pub error: Option<Error>,
}

/// Apps that run.
pub struct Server {
    pub(crate) common: Common,
    pub(crate) state: Option<StateDir>,
    pub(crate) config: Config,
    pub(crate) running: Vec<Running>,
    /// Apps that somebody wants to have as they were.
    pub(crate) requests: Requests,
    asker: Asker,
    liveness: Liveness,
    pub(crate) gateway: Option<Arc<Gateway>>,
}

impl Server {
    /// Connects what the apps write to, takes back saved state, and starts everything.
    pub fn start(apps: Vec<ReadyApp>, options: RunOptions) -> Result<Server, Error> {
        let state = options.state.as_deref().map(StateDir::open).transpose()?;
        options.stop.0.set_grace(options.grace);
        let common = Common {
            metrics: Arc::new(Metrics::default()),
            activity: options.stop.0,
            lines: options.lines,
            tracer: options.tracer.clone(),
            registry: options.registry,
            shared: Arc::new(Shared::default()),
            settings: settings(&options.config),
            process: options.process,
            clock: Clock::start(),
            zone: options.zone,
            state_interval: options.state_interval,
            drop_state: options.drop_state,
            drop_state_of: options.drop_state_of,
            is_on_trial: false,
            memory_max: options.memory_max,
            until_done: options.until_done,
            is_asked: options.is_asked,
            waits_for_stores: true,
            errors: ErrorStore::new(options.error_limits, state.is_some(), options.hidden),
        };
        let arrivals = common.shared.get::<Arrivals>();
        if let Some(max) = common.memory_max {
            arrivals.limit(max);
        }
        common.metrics.arrivals.set(arrivals).ok();
        let access = match &options.apis {
            None => None,
            Some(_) => Some(open_access(options.state.as_deref())?),
        };
        let gateway = match access {
            None => None,
            Some(access) => Some(Gateway::new(&common.shared, access).map_err(|error| {
                Error::Refused(format!("the gateway cannot read its callbacks: {error}"))
            })?),
        };
        let gateway = options.apis.zip(gateway).map(|(apis, gateway)| {
            gateway.set_documents(apis);
            common
                .shared
                .get::<GatewaySlot>()
                .set(Arc::clone(&gateway) as _);
            common.metrics.gateway.set(Arc::clone(&gateway)).ok();
            gateway
        });
        let mut server = Server {
            gateway,
            common,
            state,
            config: options.config,
            running: Vec::new(),
            requests: Requests::default(),
            asker: Asker::new(options.catalog, options.tracer),
            liveness: Liveness::default(),
        };
        let plans: Vec<Arc<Plan>> = apps.iter().map(|app| Arc::clone(&app.plan)).collect();
        let groups = groups(&plans, &options.registry).into_iter();
        let groups = groups.map(|members| members.iter().map(|&app| apps[app].clone()).collect());
        server.begin(groups.collect(), None, None)?;
        server.list_asked();
        Ok(server)
    }

    /// Makes all groups, then launches all. `handed`: what apps have handed over that ran before.
    /// `restored`: what an app goes on from instead of its own state.
    pub(crate) fn begin(
        &mut self,
        groups: Vec<Vec<ReadyApp>>,
        handed: Option<&Saved>,
        restored: Option<&Saved>,
    ) -> Result<(), Error> {
        let made = groups
            .into_iter()
            .map(|apps| {
                let is_own = |name: &str| apps.iter().any(|app| app.name() == name);
                let handed = handed.map(|all| all.part(is_own));
                let restored = restored.map(|all| all.part(is_own));
                let plans = apps.iter().map(|app| Arc::clone(&app.plan)).collect();
                let group = build(plans, &self.common, self.state.as_ref(), handed, restored)?;
                Ok((apps, group))
            })
            .collect::<Result<Vec<(Vec<ReadyApp>, Group)>, Error>>()?;
        for (apps, group) in made {
            let running = Running::launch(apps, group)?;
            running.watched_by(&self.liveness);
            self.running.push(running);
        }
        Ok(())
    }

    /// Tells those who ask what runs now.
    pub(crate) fn list_asked(&self) {
        self.asker
            .set(self.running.iter().flat_map(Running::asked).collect());
    }

    /// The gateway, where this server has one.
    pub fn gateway(&self) -> Option<&Arc<Gateway>> {
        self.gateway.as_ref()
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.common.metrics
    }

    /// How many apps run.
    pub fn apps(&self) -> usize {
        self.running.iter().map(|group| group.apps.len()).sum()
    }

    /// Tells whether the apps move, also to other threads.
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// The rejected events, also for other threads.
    pub fn errors(&self) -> ErrorStore {
        self.common.errors.clone()
    }

    /// The technologies of the binary.
    pub fn registry(&self) -> Registry {
        self.common.registry
    }

    /// What the connectors of all apps share.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.common.shared)
    }

    /// Asks the apps, also from other threads.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Where the run stands, after waiting for a change for at most this long.
    pub fn wait(&self, at_most: Duration) -> Status {
        let status = self.status();
        if status != Status::Running {
            return status;
        }
        self.common.activity.wait_change(at_most);
        self.status()
    }

    fn status(&self) -> Status {
        if self.common.activity.is_stopping() {
            return Status::Stopping;
        }
        if self.common.activity.take_reload() {
            return Status::Reload;
        }
        if !self.requests.is_empty() {
            return Status::Restore;
        }
        if !self.common.until_done {
            return Status::Running;
        }
        if self.common.activity.have_sources_settled() {
            let count = self.common.activity.count();
            let is_done = self.are_executors_quiet()
                && self.common.activity.have_sources_settled()
                && self.common.activity.count() == count;
            return if is_done {
                Status::Done
            } else {
                Status::Running
            };
        }
        if let Some(causes) = self.common.activity.unreachable()
            && self.are_executors_quiet()
            && self.common.activity.unreachable().is_some()
        {
            let said: Vec<String> = causes
                .iter()
                .map(|(source, cause)| format!("source '{source}': {cause}"))
                .collect();
            return Status::Unreachable(said.join("; "));
        }
        Status::Running
    }

    fn are_executors_quiet(&self) -> bool {
        let probes: Vec<Arc<Probe>> = self
            .running
            .iter()
            .map(|group| {
                let probe = Arc::new(Probe::default());
                if group
                    .input_queue
                    .push_always(ExecutorInput::Probe(Arc::clone(&probe)))
                    .is_err()
                {
                    probe.answer(true);
                }
                probe
            })
            .collect();
        probes.iter().all(|p| p.wait(ANSWER) == Some(true))
    }

    /// Have all sources been connected, or said why they cannot be?
    pub fn has_begun(&self) -> bool {
        self.common.activity.have_sources_begun()
    }

    /// Stops the sources, brings what is in flight to sinks and stores, saves the state. Where somebody
    /// has asked for the stop, that takes no longer than the grace: what has not ended by then is left
    /// alone, and said.
    pub fn stop(mut self) -> End {
        self.requests.clear();
        let is_end = !self.common.activity.is_stopping();
        let until = (!is_end).then(|| Instant::now() + self.common.activity.grace());
        self.running.iter().for_each(|g| g.stop_sources(is_end));
        self.wait_until(until, Running::have_sources_ended);
        // A source that has not ended has nothing that an executor could still finish for it.
        for group in &mut self.running {
            if until.is_none() || group.have_sources_ended() {
                group.join_sources();
            }
        }
        self.running.iter().for_each(|g| g.finish(false));
        self.wait_until(until, Running::has_ended);
        let mut ends: Vec<ExecutorEnd> = Vec::new();
        for group in &mut self.running {
            match until.is_none() || group.has_ended() {
                true => ends.extend(group.join()),
                false => group.abandon(),
            }
        }
        let failed = self.common.activity.failed_sources();
        let failures = self.common.activity.failures();
        let error = if failures.is_empty() {
            failed.first().map(|(source, cause)| Error::Connect {
                what: format!("source '{source}'"),
                message: cause.clone(),
            })
        } else {
            Some(Error::Stopped {
                message: failures.join("; "),
            })
        };
        End {
            summary: Summary::new(&self.common.metrics, self.common.process, ends),
            error,
        }
    }

    /// Waits for all groups; without `until` whoever joins them does.
    fn wait_until(&self, until: Option<Instant>, is_done: impl Fn(&Running) -> bool) {
        let Some(until) = until else { return };
        let activity = &self.common.activity;
        activity.wait_until(until, || self.running.iter().all(&is_done));
    }

    /// What has been counted so far.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.common.metrics, self.common.process, Vec::new())
    }
}

/// Settings of extensions, and the data sources, which `#rdbms:query` and `#rdbms:cud` find by name.
pub(crate) fn settings(config: &Config) -> Arc<[Setting]> {
    let extensions = config.extensions.iter().flat_map(|e| {
        e.properties.iter().map(|(key, value)| Setting {
            namespace: e.namespace.clone(),
            name: e.name.clone(),
            key: key.clone(),
            value: value.clone(),
        })
    });
    let sources = config.data_sources.iter().flat_map(|source| {
        let names = std::iter::once(&source.name).chain(&source.jndi);
        names.flat_map(|name| {
            let options = source.store_options().into_iter();
            options.map(|(key, value)| Setting {
                namespace: DATA_SOURCES.to_owned(),
                name: name.clone(),
                key,
                value,
            })
        })
    });
    extensions.chain(sources).collect()
}
