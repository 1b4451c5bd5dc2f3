//! Whether a group of apps can continue, and whether it is to stop. One that cannot continue stops
//! alone; the others keep running.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::activity::{ActivityTracker, Member};

/// How often one who waits looks whether the group is to stop.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Health {
    /// Names of the apps.
    name: String,
    activity: Arc<ActivityTracker>,
    member: Member,
    failure: Mutex<Option<String>>,
    /// Nobody waits for a destination or a store any more.
    is_cut_short: AtomicBool,
}

impl Health {
    pub fn new(name: String, activity: &Arc<ActivityTracker>) -> Health {
        Health {
            name,
            activity: Arc::clone(activity),
            member: Member::of(activity),
            failure: Mutex::new(None),
            is_cut_short: AtomicBool::new(false),
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

    /// The group cannot go on. The first reason counts: those that follow come of it.
    pub fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return;
        }
        *failure = Some(why.clone());
        drop(failure);
        tracing::error!(apps = self.name, cause = why, "apps stopped");
        self.member
            .failed(format!("'{}' has stopped: {why}", self.name));
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
