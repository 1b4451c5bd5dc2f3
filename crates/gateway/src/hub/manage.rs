//! What people see of the hub, and do by hand: subscriptions, attempts, replays, single deliveries.

use std::sync::Arc;

use super::schedule::{Outcome, Tries};
use super::state::{Subscription, Where};
use super::store::{self, Attempt, HubError};
use super::{Hub, lock, now};

/// A subscription as `headwater gateway` lists it. Times are milliseconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub id: String,
    pub api: String,
    pub topic: String,
    pub callback: String,
    pub application: Option<String>,
    pub ends: i64,
    /// The number of the event that it gets next, and that of the next one published.
    pub next: u64,
    pub head: u64,
    /// Attempts for the event that it gets next.
    pub attempts: u32,
    pub due: Option<i64>,
}

/// What became of a delivery that was asked for by hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resent {
    pub is_taken: bool,
    pub status: Option<u16>,
    pub cause: Option<String>,
}

impl Hub {
    /// All subscriptions.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn subscriptions(&self) -> Result<Vec<Listed>, HubError> {
        let all: Vec<Arc<Subscription>> = lock(&self.state).by_id.values().cloned().collect();
        let mut listed = Vec::with_capacity(all.len());
        for one in all {
            let head = store::head(&self.registry, &one.place)?;
            let live = lock(&one.live);
            listed.push(Listed {
                id: one.id.clone(),
                api: one.place.api.clone(),
                topic: one.place.topic.clone(),
                callback: live.saved.callback.clone(),
                application: live.saved.application.clone(),
                ends: live.saved.ends,
                next: live.saved.next,
                head,
                attempts: live.tries.count,
                due: match live.at {
                    Where::Waiting(due) => Some(due),
                    _ => None,
                },
            });
        }
        listed.sort_by(|one, other| {
            (&one.api, &one.topic, &one.callback).cmp(&(&other.api, &other.topic, &other.callback))
        });
        Ok(listed)
    }

    /// Attempts from the newest on.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn attempts(
        &self,
        subscription: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Attempt>, HubError> {
        self.flush();
        store::attempts(&self.registry, subscription, limit)
    }

    /// Delivers from an event of that time, in milliseconds since 1970, or from that number on, once more; from which
    /// number.
    ///
    /// # Errors
    /// There is no such subscription.
    pub fn replay(
        &self,
        id: &str,
        time: Option<i64>,
        number: Option<u64>,
    ) -> Result<u64, HubError> {
        let one = self.named(id)?;
        let from = match (time, number) {
            (Some(time), _) => store::first_since(&self.registry, &one.place, time)?,
            (None, Some(number)) => number,
            (None, None) => 1,
        };
        let due = {
            let mut live = lock(&one.live);
            live.saved.next = from;
            live.tries = Tries::default();
            match live.at {
                Where::Waiting(due) => Some(due),
                _ => None,
            }
        };
        let was_waiting = {
            let mut state = lock(&self.state);
            state.cursors.insert(one.id.clone(), from);
            due.is_some_and(|due| state.waits.remove(&(due, one.id.clone())))
        };
        if was_waiting {
            // Nobody else changes the place of one that has left the waits by this hand.
            lock(&one.live).at = Where::Idle;
        }
        self.flush();
        self.queue(&one);
        self.wake.notify_one();
        Ok(from)
    }

    /// Delivers the event of an attempt once more, now, whatever its subscription waits for.
    ///
    /// # Errors
    /// There is no such attempt, or what belongs to it is gone.
    pub async fn resend(&self, attempt: i64) -> Result<Resent, HubError> {
        self.flush();
        let attempt = store::attempt_of(&self.registry, attempt)?;
        let one = self.named(&attempt.subscription)?;
        let event = store::event(&self.registry, &one.place, attempt.number)?;
        let missing = || HubError::Missing("the event is no longer kept".to_owned());
        let event = event
            .filter(|event| event.number == attempt.number)
            .ok_or_else(missing)?;
        let rules = self.rules_of(&one.place.api);
        let (_, client) =
            rules.ok_or_else(|| HubError::Missing("its API is not served".to_owned()))?;
        let (outcome, status, cause) = self.attempt(&one, &event, &client).await;
        let status = status.map(|status| status.as_u16());
        let made = Attempt {
            id: 0,
            at: now(),
            attempt: attempt.attempt + 1,
            outcome: outcome.name().to_owned(),
            status,
            cause: cause.clone(),
            ..attempt
        };
        self.tell(&one, &made);
        lock(&self.state).attempts.push_back(made);
        self.flush();
        Ok(Resent {
            is_taken: outcome == Outcome::Taken,
            status,
            cause,
        })
    }

    fn named(&self, id: &str) -> Result<Arc<Subscription>, HubError> {
        let found = lock(&self.state).by_id.get(id).cloned();
        found.ok_or_else(|| HubError::Missing(format!("there is no subscription '{id}'")))
    }
}
