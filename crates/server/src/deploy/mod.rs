//! Changes of what runs, while it runs: apps are deployed, changed and undeployed.
//!
//! Anyone may ask ([`Deployer`]); the thread that owns the server carries requests out, one after the
//! other ([`Deployment`]). Promises: a request takes effect whole or not at all; what it has changed is
//! on the disk before the answer, and a crash at any moment leaves the old or the new apps (see
//! [`DeploymentFolder`]). Never: a running app stopped for one that has errors.

mod deployment;
mod folder;

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

pub use crate::activity::AppStatus;
use crate::reload::Change;
use crate::server::StopHandle;

pub use deployment::{Deployment, Written};
pub use folder::DeploymentFolder;

/// Requests that wait. One more is told to come again.
const REQUESTS_MAX: usize = 8;

/// How long whoever asks waits: apps may have to stop, and stores to connect.
const ANSWER_MAX: Duration = Duration::from_secs(55);

/// What is to become of the apps.
#[derive(Clone, Debug)]
pub struct Order {
    pub changes: Vec<AppChange>,
    /// None of the apps may exist already.
    pub is_new: bool,
    /// Looks what would happen, and changes nothing.
    pub is_dry_run: bool,
    /// State that an edited app cannot take back is dropped; otherwise the order is refused.
    pub drops_state: bool,
    /// Faults are shown in the colours of a terminal.
    pub is_coloured: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppChange {
    /// Runs this text, instead of the app of its name if there is one.
    Put {
        text: String,
        /// How whoever sends it calls its file, for what is said about it.
        file: Option<String>,
    },
    /// Ends the app of this name.
    Remove(String),
}

/// What an order has done, or would do.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub change: Change,
    /// The app of each [`AppChange::Put`], and whether it is new.
    pub put: Vec<(String, bool)>,
    /// What becomes of saved state, in lines, by app.
    pub state: Vec<(String, StateChange)>,
    /// What `check` warns of in the apps, as it shows it.
    pub warnings: String,
}

/// What becomes of the saved state of an edited app.
#[derive(Clone, Debug, Default)]
pub struct StateChange {
    pub survives: Vec<String>,
    pub begins_empty: Vec<String>,
    pub dropped: Vec<String>,
}

impl Report {
    pub fn to_json(&self) -> Json {
        let change = &self.change;
        let state = self.state.iter().map(|(app, state)| {
            json!({
                "app": app,
                "survives": state.survives,
                "beginsEmpty": state.begins_empty,
                "dropped": state.dropped,
            })
        });
        json!({
            "added": change.added,
            "changed": change.changed,
            "removed": change.removed,
            "restarted": change.renewed,
            "untouched": change.untouched,
            "state": state.collect::<Vec<Json>>(),
            "warnings": self.warnings,
        })
    }
}

/// Why nothing was changed.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub reason: Reason,
    pub message: String,
    /// Diagnostics as `check --json` has them, and as `check` shows them.
    pub diagnostics: Vec<Json>,
    pub rendered: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// An app has errors.
    Invalid,
    /// There is such an app already.
    Exists,
    /// There is no such app.
    Unknown,
    /// State would be lost.
    LosesState,
    /// The app is not one that may be changed from outside.
    Fixed,
    /// Somebody has edited its file since the server read it.
    Edited,
    /// There is no folder to keep apps in.
    NoFolder,
    /// The apps could not start; those before run on.
    CannotStart,
    /// The folder cannot be written; the apps before run on.
    CannotKeep,
    /// The server stops.
    Stopping,
    /// Too many wait.
    Busy,
    /// It is not known yet what comes of it.
    Late,
}

impl Refusal {
    pub fn new(reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal {
            reason,
            message: message.into(),
            diagnostics: Vec::new(),
            rendered: String::new(),
        }
    }
}

/// An app as it was deployed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeployedApp {
    pub name: String,
    pub file: String,
    pub text: String,
}

/// Asks for changes, from any thread.
#[derive(Clone)]
pub struct Deployer {
    requests: SyncSender<Request>,
    stop: StopHandle,
    apps: Arc<RwLock<Arc<[DeployedApp]>>>,
}

struct Request {
    order: Order,
    reply: oneshot::Sender<Result<Report, Refusal>>,
}

/// Where orders arrive.
pub struct Orders(Receiver<Request>);

impl Deployer {
    /// For the server that `stop` stops.
    pub fn new(stop: StopHandle) -> (Deployer, Orders) {
        let (requests, orders) = sync_channel(REQUESTS_MAX);
        let apps = Arc::new(RwLock::new(Arc::from([])));
        let deployer = Deployer {
            requests,
            stop,
            apps,
        };
        (deployer, Orders(orders))
    }

    /// What runs.
    pub fn apps(&self) -> Arc<[DeployedApp]> {
        Arc::clone(&self.apps.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How an app is that is listed.
    pub fn status(&self, app: &str) -> AppStatus {
        self.stop.0.status_of(app)
    }

    fn set_apps(&self, apps: Vec<DeployedApp>) {
        *self.apps.write().unwrap_or_else(PoisonError::into_inner) = apps.into();
    }

    /// Has an order carried out.
    ///
    /// # Errors
    /// Why nothing was changed; [`Reason::Late`]: it may still be.
    pub async fn ask(&self, order: Order) -> Result<Report, Refusal> {
        let stopping = || Refusal::new(Reason::Stopping, "the server is stopping");
        let (reply, answer) = oneshot::channel();
        match self.requests.try_send(Request { order, reply }) {
            Ok(()) => self.stop.0.nudge(),
            Err(TrySendError::Disconnected(_)) => return Err(stopping()),
            Err(TrySendError::Full(_)) => {
                let message = format!("{REQUESTS_MAX} deployments wait already; try again later");
                return Err(Refusal::new(Reason::Busy, message));
            }
        }
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(Refusal::new(
                Reason::Late,
                format!(
                    "not done after {} s: an app is still stopping, or waits for a store; look at \
                     GET /siddhi-apps what runs",
                    ANSWER_MAX.as_secs()
                ),
            )),
        }
    }
}

impl Orders {
    /// Carries out what waits, unless nobody waits for it any more.
    pub fn carry_out(&self, mut work: impl FnMut(Order) -> Result<Report, Refusal>) {
        while let Ok(Request { order, reply }) = self.0.try_recv() {
            if !reply.is_closed() {
                // Who has gone meanwhile is not told; it is in the log.
                reply.send(work(order)).ok();
            }
        }
    }
}
