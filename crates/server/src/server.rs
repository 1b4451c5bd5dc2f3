//! A running server: starts the threads of all groups, watches for the end, stops them in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use connect::component::Setting;
use connect::net::Network;
use connect::rdbms::Databases;
use connect::rdbms::functions::DATA_SOURCES;
use lang::plan::Plan;

use crate::ask::{AskedApp, Asker};
use crate::build::{Common, Group, build};
use crate::clock::Clock;
use crate::config::Config;
use crate::error::Error;
use crate::group::groups;
use crate::lane::{Inbox, LaneEnd, Letter, Probe};
use crate::lines::Lines;
use crate::metrics::Metrics;
use crate::process::Process;
use crate::pulse::Pulse;
use crate::source::Mailbox;
use crate::state::StateDir;
use crate::summary::Summary;

/// How long a lane may take to answer before it counts as busy.
const ANSWER: Duration = Duration::from_millis(100);

/// How apps are run.
pub struct RunOptions {
    pub until_done: bool,
    /// On-demand queries will come: stores answer on the lanes of their apps.
    pub is_asked: bool,
    pub state: Option<PathBuf>,
    pub state_interval: Duration,
    /// State that an edited app cannot take back may be dropped, not only named.
    pub drop_state: bool,
    /// Bytes that each app may hold in memory.
    pub memory_max: Option<u64>,
    /// IANA name of the zone of `time:*` functions; empty for UTC.
    pub zone: String,
    pub config: Config,
    pub lines: Arc<Lines>,
    pub process: Process,
    pub stop: StopHandle,
}

/// Stops a server from another thread, also one that is still starting.
#[derive(Clone, Default)]
pub struct StopHandle(pub(crate) Arc<Pulse>);

impl StopHandle {
    pub fn stop(&self) {
        self.0.stop();
    }

    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }
}

/// Where a run stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    Running,
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
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    process: Process,
    until_done: bool,
    inboxes: Vec<Arc<Inbox>>,
    asker: Asker,
    mailboxes: Vec<Arc<Mailbox>>,
    source_names: Vec<String>,
    sources: Vec<JoinHandle<()>>,
    lanes: Vec<JoinHandle<LaneEnd>>,
    /// Sinks, stores and keepers: they end when their lane does.
    followers: Vec<JoinHandle<()>>,
    _state: Option<StateDir>,
}

impl Server {
    /// Connects what the apps write to, takes back saved state, and starts everything.
    pub fn start(plans: Vec<Plan>, options: RunOptions) -> Result<Server, Error> {
        let state = options.state.as_deref().map(StateDir::open).transpose()?;
        let pulse = Arc::clone(&options.stop.0);
        let metrics = Arc::new(Metrics::default());
        let common = Common {
            metrics: Arc::clone(&metrics),
            pulse: Arc::clone(&pulse),
            lines: options.lines,
            databases: Arc::new(Databases::default()),
            network: Arc::new(Network::default()),
            settings: settings(&options.config),
            process: options.process,
            clock: Clock::start(),
            zone: options.zone,
            state_interval: options.state_interval,
            drop_state: options.drop_state,
            memory_max: options.memory_max,
            until_done: options.until_done,
            is_asked: options.is_asked,
        };
        let members = groups(&plans);
        let mut plans: Vec<Option<Plan>> = plans.into_iter().map(Some).collect();
        let built = members
            .into_iter()
            .map(|apps| {
                let group = apps.iter().filter_map(|&app| plans[app].take()).collect();
                build(group, &common, state.as_ref())
            })
            .collect::<Result<Vec<Group>, Error>>()?;
        let lanes = built.iter().map(|group| &group.lane);
        let asked = lanes.flat_map(|lane| {
            lane.apps.iter().enumerate().map(|(index, app)| AskedApp {
                name: app.name.clone(),
                plan: Arc::clone(&app.plan),
                inbox: Arc::clone(&lane.inbox),
                index,
            })
        });
        let mut server = Server {
            asker: Asker::new(asked.collect()),
            metrics,
            pulse,
            process: options.process,
            until_done: options.until_done,
            inboxes: Vec::new(),
            mailboxes: Vec::new(),
            source_names: Vec::new(),
            sources: Vec::new(),
            lanes: Vec::new(),
            followers: Vec::new(),
            _state: state,
        };
        built.into_iter().try_for_each(|g| server.launch(g))?;
        Ok(server)
    }

    /// Destinations first, then the lane, then the sources.
    fn launch(&mut self, group: Group) -> Result<(), Error> {
        for sink in group.sinks {
            let name = format!("sink {}", sink.name);
            self.followers.push(spawn(name, move || sink.run())?);
        }
        for store in group.stores {
            let handle = spawn("store".to_owned(), move || store.run())?;
            self.followers.push(handle);
        }
        let keeper = group.keeper;
        let handle = spawn("keeper".to_owned(), move || keeper.run())?;
        self.followers.push(handle);
        let lane = group.lane;
        self.inboxes.push(Arc::clone(&lane.inbox));
        let name = format!("lane {}", lane.name);
        self.lanes.push(spawn(name, move || lane.run())?);
        for source in group.sources {
            self.mailboxes.push(Arc::clone(&source.mailbox));
            self.source_names.push(source.name.clone());
            let name = format!("source {}", source.name);
            self.sources.push(spawn(name, move || source.run())?);
        }
        Ok(())
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
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
        self.pulse.wait_change(at_most);
        self.status()
    }

    fn status(&self) -> Status {
        if self.pulse.is_stopping() {
            return Status::Stopping;
        }
        if !self.until_done {
            return Status::Running;
        }
        if self.pulse.have_sources_settled() {
            let count = self.pulse.count();
            let is_done = self.are_lanes_quiet()
                && self.pulse.have_sources_settled()
                && self.pulse.count() == count;
            return if is_done {
                Status::Done
            } else {
                Status::Running
            };
        }
        if let Some(causes) = self.pulse.unreachable()
            && self.are_lanes_quiet()
            && self.pulse.unreachable().is_some()
        {
            let said: Vec<String> = causes
                .iter()
                .map(|(source, cause)| format!("source '{}': {cause}", self.source_names[*source]))
                .collect();
            return Status::Unreachable(said.join("; "));
        }
        Status::Running
    }

    fn are_lanes_quiet(&self) -> bool {
        let probes: Vec<Arc<Probe>> = self
            .inboxes
            .iter()
            .map(|inbox| {
                let probe = Arc::new(Probe::default());
                if inbox
                    .push_always(Letter::Probe(Arc::clone(&probe)))
                    .is_err()
                {
                    probe.answer(true);
                }
                probe
            })
            .collect();
        probes.iter().all(|p| p.wait(ANSWER) == Some(true))
    }

    /// Stops the sources, brings what is in flight to sinks and stores, saves the state.
    pub fn stop(self) -> End {
        let is_end = !self.pulse.is_stopping();
        for mailbox in &self.mailboxes {
            if is_end {
                mailbox.end();
            }
            mailbox.stop();
        }
        for source in self.sources {
            join(source);
        }
        for inbox in &self.inboxes {
            // A lane that has failed has closed its inbox.
            inbox.push_always(Letter::Finish).ok();
        }
        let ends: Vec<LaneEnd> = self.lanes.into_iter().filter_map(join).collect();
        for follower in self.followers {
            join(follower);
        }
        let failed = self.pulse.failed_sources();
        let failures = self.pulse.failures();
        let error = if failures.is_empty() {
            failed.first().map(|(source, cause)| Error::Connect {
                what: format!("source '{}'", self.source_names[*source]),
                message: cause.clone(),
            })
        } else {
            Some(Error::Stopped {
                message: failures.join("; "),
            })
        };
        End {
            summary: Summary::new(&self.metrics, self.process, ends),
            error,
        }
    }

    /// What has been counted so far.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.metrics, self.process, Vec::new())
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|cause| Error::Stopped {
            message: format!("a thread cannot be started: {cause}"),
        })
}

/// The work of every thread catches its own panics; a thread that broke nevertheless gives nothing.
fn join<T>(handle: JoinHandle<T>) -> Option<T> {
    handle.join().ok()
}

/// Settings of extensions, and the data sources, which `#rdbms:query` and `#rdbms:cud` find by name.
fn settings(config: &Config) -> Arc<[Setting]> {
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
