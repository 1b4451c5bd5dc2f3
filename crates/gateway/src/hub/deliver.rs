//! Brings events from the logs of topics to callbacks.
//!
//! A subscription is in one of four places: idle at the head of its log, queued for its turn, busy with an attempt, or
//! waiting for a time. Callbacks that are away have turns of their own, so that those that take long are never in the
//! way of those that answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use connect::net::gateway::News;
use connect::net::http_client::{Client, EgressDenied};
use connect::retry::jittered;
use hyper::{Method, StatusCode};
use serde_json::json;

use super::request::{ask, headers};
use super::rules::Rules;
use super::schedule::{Outcome, Step};
use super::state::{Subscription, Where};
use super::store::{self, Attempt, Event, HubError, Place};
use super::{FLUSH, Hub, TIDY, lock, millis, now};
use crate::news::Throttled;
use crate::plan::{Amount, Key, Verdict};

/// An attempt that takes longer gives its turn away, as long as not too many do.
const SLOW: Duration = Duration::from_millis(500);

/// Attempts that wait to be written.
const ATTEMPTS_MAX: usize = 20_000;

impl Hub {
    /// Puts one that is idle into the queue.
    pub(super) fn queue(&self, one: &Arc<Subscription>) {
        let mut live = lock(&one.live);
        if live.at != Where::Idle || live.is_gone {
            return;
        }
        live.at = Where::Queued;
        let is_away = live.tries.count > 0;
        drop(live);
        lock(&self.state).push(one, is_away);
    }

    /// Begins what has its turn.
    pub(super) fn pump(&self) {
        let Ok(workers) = self.network.workers() else {
            return;
        };
        let mut begun = Vec::new();
        {
            let now = now();
            let mut state = lock(&self.state);
            while let Some((due, id)) = state.waits.first().cloned()
                && due <= now
            {
                state.waits.pop_first();
                let Some(one) = state.by_id.get(&id).cloned() else {
                    continue;
                };
                lock(&one.live).at = Where::Queued;
                state.push(&one, true);
            }
            while let Some(one) = state.healthy.0.next() {
                begun.push((one, false));
            }
            while let Some(one) = state.away.0.next() {
                begun.push((one, true));
            }
        }
        for (one, is_away) in begun {
            let Some(hub) = self.own.upgrade() else {
                return;
            };
            lock(&one.live).at = Where::Busy;
            workers.next().spawn(async move {
                let mut work = std::pin::pin!(hub.turn(&one));
                let (place, has_turn) = match tokio::time::timeout(SLOW, &mut work).await {
                    Ok(place) => (place, true),
                    Err(_) => {
                        let has_turn = !hub.step_aside(&one, is_away);
                        (work.await, has_turn)
                    }
                };
                if !has_turn {
                    hub.slow.fetch_sub(1, Ordering::Relaxed);
                }
                hub.settle(&one, has_turn.then_some(is_away), place);
            });
        }
    }

    /// Gives the turn of an attempt that takes long to somebody else, unless too many take long; was it given away?
    fn step_aside(&self, one: &Subscription, is_away: bool) -> bool {
        let before = self.slow.fetch_add(1, Ordering::Relaxed);
        if before >= self.slow_max {
            self.slow.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        lock(&self.state).done(&one.origin, is_away);
        self.wake.notify_one();
        true
    }

    /// How long nothing is due.
    pub(super) fn next_due(&self) -> Duration {
        let state = lock(&self.state);
        if !state.attempts.is_empty() || !state.cursors.is_empty() {
            return FLUSH;
        }
        let due = state.waits.first().map_or(i64::MAX, |(due, _)| *due);
        let left =
            Duration::from_millis(u64::try_from(due.saturating_sub(now())).unwrap_or_default());
        left.clamp(Duration::from_millis(1), TIDY)
    }

    /// One attempt for the event at the cursor; where the subscription is then.
    async fn turn(&self, one: &Arc<Subscription>) -> Where {
        let Some((rules, client)) = self.rules_of(&one.place.api) else {
            // Its API is not served now.
            return Where::Waiting(now() + 60_000);
        };
        let next = {
            let live = lock(&one.live);
            if live.is_gone || live.saved.ends <= now() {
                return Where::Idle;
            }
            live.saved.next
        };
        let event = match self.event(&one.place, next) {
            Ok(Some(event)) => event,
            Ok(None) => return Where::Idle,
            Err(error) => {
                tracing::error!(cause = %error, "cannot read the log of a topic; deliveries wait");
                return Where::Waiting(now() + 10_000);
            }
        };
        if let Some(until) = self.is_over_plan(one, &event) {
            return Where::Waiting(until);
        }
        let (outcome, status, cause) = self.attempt(one, &event, &client).await;
        self.after(one, &rules, (next, &event), (outcome, status, cause))
    }

    /// Counts an event at its first attempt; until when it has to wait where the plan has no room.
    fn is_over_plan(&self, one: &Subscription, event: &Event) -> Option<i64> {
        let mut live = lock(&one.live);
        if live.tries.count > 0 {
            return None;
        }
        if live.account.is_none() {
            let key = Key {
                application: live.saved.application.clone(),
                api: one.place.api.clone(),
                topic: one.place.topic.clone(),
                user: live.saved.application.clone(),
                address: None,
            };
            live.account = Some(self.access.meter().account(&key, SystemTime::now()));
        }
        let amount = Amount {
            events: 1,
            bytes: event.body.len() as u64,
        };
        let taken = live
            .account
            .as_ref()
            .map(|account| account.take(amount, SystemTime::now()));
        match taken {
            Some(Verdict::Denied(denied)) => {
                let topic = &one.place.topic;
                tracing::info!(topic, limit = %denied.limit, "deliveries to a callback wait for its plan");
                // Its plan may be another by then.
                live.account = None;
                let whom = Throttled {
                    api: &one.place.api,
                    topic,
                    application: live.saved.application.as_deref(),
                    user: None,
                    peer: &live.saved.callback,
                };
                self.access.room().throttled(&whom, &denied);
                Some(millis(denied.reset).max(now() + 1000))
            }
            _ => None,
        }
    }

    pub(super) fn event(&self, place: &Place, from: u64) -> Result<Option<Event>, HubError> {
        {
            let state = lock(&self.state);
            let known = state
                .recent
                .iter()
                .find(|(own, event)| own == place && event.number == from);
            if let Some((_, event)) = known {
                return Ok(Some(event.clone()));
            }
        }
        let event = store::event(&self.registry, place, from)?;
        if let Some(event) = &event {
            lock(&self.state).remember(place, event);
        }
        Ok(event)
    }

    pub(super) async fn attempt(
        &self,
        one: &Subscription,
        event: &Event,
        client: &Client,
    ) -> (Outcome, Option<StatusCode>, Option<String>) {
        let headers = {
            let live = lock(&one.live);
            headers(&live, event)
        };
        match ask(client, &Method::POST, &one.callback, headers, &event.body).await {
            Ok((status, pause)) => {
                let outcome = Outcome::of_status(status.as_u16(), pause);
                let cause = (outcome != Outcome::Taken).then(|| format!("it answers {status}"));
                (outcome, Some(status), cause)
            }
            // It has moved to where nobody is called.
            Err(error) if EgressDenied::is_cause(&error) => {
                (Outcome::Refused, None, Some(error.to_string()))
            }
            Err(error) => (Outcome::Away(None), None, Some(error.to_string())),
        }
    }

    /// Tells apps what became of an attempt.
    pub(super) fn tell(&self, one: &Subscription, attempt: &Attempt) {
        self.access.room().tell(News::Deliveries, || {
            let live = lock(&one.live);
            json!({
                "subscription": attempt.subscription, "api": one.place.api, "topic": one.place.topic,
                "callback": live.saved.callback, "application": live.saved.application,
                "number": attempt.number, "attempt": attempt.attempt, "outcome": attempt.outcome,
                "status": attempt.status, "cause": attempt.cause,
            })
        });
    }

    /// Notes what became of an attempt; where the subscription is then.
    fn after(
        &self,
        one: &Subscription,
        rules: &Rules,
        (cursor, event): (u64, &Event),
        (outcome, status, cause): (Outcome, Option<StatusCode>, Option<String>),
    ) -> Where {
        let now = now();
        let mut live = lock(&one.live);
        let count = live.tries.count + 1;
        let step = live.tries.after(outcome, now, rules.over, jittered);
        let (callback, topic) = (&live.saved.callback, &one.place.topic);
        match step {
            Step::Again(_) if count == 1 => {
                tracing::warn!(
                    callback,
                    topic,
                    cause,
                    "callback has not taken an event; it is tried again"
                );
            }
            Step::Dead => {
                tracing::warn!(
                    callback,
                    topic,
                    id = event.id,
                    cause,
                    attempts = count,
                    "event for a callback is given up"
                );
            }
            Step::End => tracing::info!(callback, topic, "callback has ended its subscription"),
            Step::Next if count > 1 => tracing::info!(callback, topic, "callback is back"),
            _ => {}
        }
        let attempt = Attempt {
            id: 0,
            subscription: one.id.clone(),
            number: event.number,
            at: now,
            attempt: count,
            outcome: if step == Step::Dead {
                "dead"
            } else {
                outcome.name()
            }
            .to_owned(),
            status: status.map(|status| status.as_u16()),
            cause,
        };
        let place = match step {
            Step::Next | Step::Dead => {
                // A replay may have set it back meanwhile.
                if live.saved.next == cursor {
                    live.saved.next = event.number + 1;
                }
                Where::Queued
            }
            Step::Again(due) => Where::Waiting(due),
            Step::End => {
                live.is_gone = true;
                Where::Idle
            }
        };
        let next = live.saved.next;
        drop(live);
        self.tell(one, &attempt);
        let mut state = lock(&self.state);
        state.cursors.insert(one.id.clone(), next);
        if state.attempts.len() < ATTEMPTS_MAX {
            state.attempts.push_back(attempt);
        }
        place
    }

    /// Ends an attempt; `turn`: it still has its turn, and of which kind.
    fn settle(&self, one: &Arc<Subscription>, turn: Option<bool>, place: Where) {
        let (is_over, is_still_away) = {
            let mut live = lock(&one.live);
            live.at = place;
            (
                live.is_gone || live.saved.ends <= now(),
                live.tries.count > 0,
            )
        };
        {
            let mut state = lock(&self.state);
            if let Some(is_away) = turn {
                state.done(&one.origin, is_away);
            }
            if !is_over {
                match place {
                    Where::Waiting(due) => drop(state.waits.insert((due, one.id.clone()))),
                    Where::Queued => state.push(one, is_still_away),
                    Where::Idle | Where::Busy => {}
                }
            }
        }
        if is_over {
            self.end(&one.id);
        } else if place == Where::Idle
            && self
                .event(&one.place, self.next_of(one))
                .is_ok_and(|event| event.is_some())
        {
            // It was published while this one found nothing.
            self.queue(one);
        }
        self.wake.notify_one();
    }

    fn next_of(&self, one: &Subscription) -> u64 {
        lock(&one.live).saved.next
    }
}
