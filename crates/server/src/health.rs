//! Whether a group of apps can go on. One that cannot stops alone; the others run on.

use std::sync::{Arc, Mutex, PoisonError};

use crate::pulse::Pulse;

pub(crate) struct Health {
    /// Names of the apps.
    name: String,
    pulse: Arc<Pulse>,
    failure: Mutex<Option<String>>,
}

impl Health {
    pub fn new(name: String, pulse: Arc<Pulse>) -> Health {
        Health {
            name,
            pulse,
            failure: Mutex::new(None),
        }
    }

    /// The group cannot go on. The first reason counts: those that follow come of it.
    pub fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return;
        }
        *failure = Some(why.clone());
        drop(failure);
        tracing::error!(apps = self.name, cause = why, "apps have stopped");
        self.pulse
            .group_failed(format!("'{}' has stopped: {why}", self.name));
    }

    pub fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
