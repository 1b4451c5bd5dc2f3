//! Whether a group of apps can continue, and whether it is to stop. One that cannot continue stops
//! alone; the others keep running.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::activity::{ActivityTracker, Member};
use crate::pulse::Pulse;

/// How often one who waits looks whether the group is to stop.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Health {
    /// Names of the apps.
    name: String,
    activity: Arc<ActivityTracker>,
    member: Member,
    failure: Mutex<Option<String>>,
    /// What was not delivered is read again after the next start.
    has_state: bool,
    /// Nobody waits for a destination or a store any more.
    is_cut_short: AtomicBool,
    /// It may still be given up as if it had never run: nothing is saved or committed until it has started.
    is_on_trial: AtomicBool,
    /// Of its executor.
    pub pulse: Pulse,
}

impl Health {
    pub fn new(apps: &[String], activity: &Arc<ActivityTracker>, has_state: bool) -> Health {
        Health {
            name: apps.join("+"),
            activity: Arc::clone(activity),
            member: Member::of(activity, apps.to_vec()),
            failure: Mutex::new(None),
            has_state,
            is_cut_short: AtomicBool::new(false),
            is_on_trial: AtomicBool::new(false),
            pulse: Pulse::default(),
        }
    }

    /// Names of the apps.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its sources and it itself, as the server counts them.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Is this the first reason? Those that follow come of it.
    fn is_first(&self, why: &str) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = failure.is_none();
        failure.get_or_insert_with(|| why.to_owned());
        is_first
    }

    /// The group ends at a stop while something is away that takes what it has. With state that is no
    /// failure: what was not taken is read again after the next start.
    pub fn leave(&self, why: String) {
        if !self.has_state {
            return self.fail(why);
        }
        if self.is_first(&why) {
            tracing::warn!(
                app = self.name,
                cause = why,
                "stopped before everything was delivered; it is read again after the next start"
            );
        }
    }

    /// How long what is stopping may still take for one of its steps, where it would like so much:
    /// two steps (sources, then sinks and stores) fit into the grace of the server.
    pub fn patience(&self, wanted: Duration) -> Duration {
        wanted.min(self.activity.grace() * 2 / 5)
    }

    /// The group cannot go on. The first reason counts.
    pub fn fail(&self, why: String) {
        if !self.is_first(&why) {
            return;
        }
        tracing::error!(apps = self.name, cause = why, "apps stopped");
        self.member.failed(
            format!("'{}' has stopped: {why}", self.name),
            self.is_on_trial(),
        );
    }

    pub fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The group ends without waiting for what is away.
    pub fn cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
        self.activity.nudge();
    }

    /// Saves and commits nothing until the trial is over.
    pub fn set_on_trial(&self, is_on_trial: bool) {
        self.is_on_trial.store(is_on_trial, Ordering::Release);
    }

    pub fn is_on_trial(&self) -> bool {
        self.is_on_trial.load(Ordering::Acquire)
    }

    /// Is nobody to wait any more for what is away: does the server stop, or this group?
    pub fn is_stopping(&self) -> bool {
        self.is_cut_short.load(Ordering::Relaxed) || self.activity.is_stopping()
    }

    /// Lets this much time pass, unless the group is to stop; is it?
    pub fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while !self.is_stopping() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            self.activity.wait_change(left.min(LOOK));
        }
        self.is_stopping()
    }
}
