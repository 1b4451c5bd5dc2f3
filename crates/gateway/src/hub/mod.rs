//! The WebSub hub of the gateway (<https://www.w3.org/TR/websub/>): callbacks that get what is published.
//!
//! What is published to a topic with subscriptions is in the log of the topic before its publisher is answered. Each
//! subscription is a cursor into that log: a callback that is away costs a number, and gets what it has missed, in
//! order, when it is back. It is tried again over days with growing pauses; what it refuses for good, or has not taken
//! in that time, becomes a dead letter and the next event is tried.
//!
//! Promises: nothing goes to a callback that has not confirmed, nor to an address of our own networks that the operator
//! has not named; a confirmed subscription is durable; an event is delivered in order to each subscription, and again
//! only where no answer to it was kept, under the same id. A callback that is away or slow holds up nobody else. Never:
//! a redirect followed; a secret in a log, or in the clear in the database.

mod deliver;
mod manage;
pub(crate) mod receiver;
mod request;
mod rules;
mod schedule;
mod state;
mod store;
mod turns;
mod verify;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connect::net::http_client::{Client, ClientOptions};
use connect::net::{ClientTls, Network};
use tokio::sync::{Notify, watch};

use crate::access::Access;
use crate::registry::Registry;
use state::{State, Subscription, Where, key_of};
use store::{Place, Saved};

pub use manage::{Listed, Resent};
pub use receiver::Receiver;
pub use rules::Rules;
pub use store::{Attempt, HubError};
pub use verify::{Asking, Told};

/// Longest wait for a connection, and for an answer.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Connections that are kept for further requests.
const IDLE_MAX: usize = 4096;

/// How often cursors and attempts are written.
const FLUSH: Duration = Duration::from_millis(200);

/// How often what is over is removed.
const TIDY: Duration = Duration::from_secs(60);

/// Events are kept for a replay, if they are not too many, for as long as they may be tried.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The hub of a server.
pub struct Hub {
    own: Weak<Hub>,
    registry: Arc<Registry>,
    access: Arc<Access>,
    network: Arc<Network>,
    state: Mutex<State>,
    /// By API, with the client that asks within their networks.
    rules: RwLock<HashMap<String, (Arc<Rules>, Arc<Client>)>>,
    wake: Notify,
    /// Nothing more is delivered, and no callback is asked once more.
    stopping: watch::Sender<bool>,
    has_begun: AtomicBool,
    /// Attempts that have given their turn away.
    slow: AtomicUsize,
    /// So many at once, each with a descriptor.
    slow_max: usize,
    /// Verifications that may still begin.
    verifying: Arc<tokio::sync::Semaphore>,
    /// Held while a subscription is counted and then taken: a plan allows no more than it says.
    taking: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    millis(SystemTime::now())
}

/// Attempts that may take long: an eighth of the descriptors.
fn slow_max() -> usize {
    (crate::descriptors::limit() as usize / 8).clamp(128, 4096)
}

impl Hub {
    /// Takes up the subscriptions of the last run, and delivers as soon as [`Hub::begin`] is called.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn open(access: &Arc<Access>, network: &Arc<Network>) -> Result<Arc<Hub>, HubError> {
        let registry = Arc::clone(access.registry());
        let saved = store::subscriptions(&registry)?;
        let mut state = State::default();
        for one in saved.into_iter().filter_map(Subscription::new) {
            state.add(one);
        }
        Ok(Arc::new_cyclic(|own| Hub {
            own: Weak::clone(own),
            registry,
            access: Arc::clone(access),
            network: Arc::clone(network),
            state: Mutex::new(state),
            rules: RwLock::default(),
            wake: Notify::new(),
            stopping: watch::Sender::new(false),
            has_begun: AtomicBool::new(false),
            slow: AtomicUsize::new(0),
            slow_max: slow_max(),
            verifying: Arc::new(tokio::sync::Semaphore::new(verify::ASKED_MAX)),
            taking: Mutex::default(),
        }))
    }

    /// The rules of the APIs that are served. Subscriptions of others wait.
    ///
    /// # Errors
    /// What the system trusts cannot be read; in words.
    pub fn set_rules(&self, all: impl IntoIterator<Item = (String, Rules)>) -> Result<(), String> {
        let before = self
            .rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut rules = HashMap::new();
        for (api, own) in all {
            let known = before
                .get(&api)
                .filter(|(known, _)| **known == own)
                .cloned();
            let entry = match known {
                Some(known) => known,
                None => {
                    let client = Client::new(ClientOptions {
                        connect_timeout: Some(CONNECT_MAX),
                        idle_timeout: Some(ANSWER_MAX),
                        idle_max: IDLE_MAX,
                        tls: Some(ClientTls::of_trust(None)?),
                        egress_policy: Some(own.networks.clone()),
                        ..ClientOptions::default()
                    });
                    (Arc::new(own), Arc::new(client))
                }
            };
            rules.insert(api, entry);
        }
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        self.wake.notify_one();
        Ok(())
    }

    fn rules_of(&self, api: &str) -> Option<(Arc<Rules>, Arc<Client>)> {
        self.rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(api)
            .cloned()
    }

    /// Begins to deliver, once.
    ///
    /// # Errors
    /// The threads that serve connections cannot be started.
    pub fn begin(&self) -> io::Result<()> {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        // Those that had not got all before the last stop.
        let all: Vec<Arc<Subscription>> = lock(&self.state).by_id.values().cloned().collect();
        for one in &all {
            self.queue(one);
        }
        let workers = self.network.workers()?;
        let own = Weak::clone(&self.own);
        workers.next().spawn(async move {
            let mut tidied = now();
            while let Some(hub) = own.upgrade() {
                if *hub.stopping.borrow() {
                    return;
                }
                hub.pump();
                hub.flush();
                if now() - tidied >= i64::try_from(TIDY.as_millis()).unwrap_or_default() {
                    tidied = now();
                    hub.tidy();
                }
                let due = hub.next_due();
                let woken = async { hub.wake.notified().await };
                // An error is the timeout: something may be due.
                tokio::time::timeout(due, woken).await.ok();
            }
        });
        Ok(())
    }

    /// Delivers nothing more, and writes how far it has come.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        self.wake.notify_one();
        self.flush();
    }

    /// Has a topic subscriptions?
    pub fn is_subscribed(&self, api: &str, topic: &str) -> bool {
        let place = Place {
            api: api.to_owned(),
            topic: topic.to_owned(),
        };
        lock(&self.state).by_place.contains_key(&place)
    }

    /// Adds an event to the log of a topic with subscriptions, durable when this returns; `false`: it has none, and
    /// nothing is kept.
    ///
    /// # Errors
    /// It cannot be kept: the publisher must hear of it.
    pub fn publish(
        &self,
        api: &str,
        topic: &str,
        kind: &str,
        body: &[u8],
    ) -> Result<bool, HubError> {
        let place = Place {
            api: api.to_owned(),
            topic: topic.to_owned(),
        };
        let Some(all) = lock(&self.state).by_place.get(&place).cloned() else {
            return Ok(false);
        };
        store::publish(&self.registry, &place, kind, body, now())?;
        for one in &all {
            self.queue(one);
        }
        self.wake.notify_one();
        Ok(true)
    }

    /// Removes a subscription.
    fn end(&self, id: &str) -> bool {
        let removed = lock(&self.state).remove(id);
        let Some(one) = removed else { return false };
        lock(&one.live).is_gone = true;
        if let Err(error) = store::remove(&self.registry, id) {
            tracing::error!(cause = %error, "cannot remove a subscription that has ended; it comes back at the next start");
        }
        true
    }

    /// Takes a subscription that was confirmed, in the place of one of the same callback and topic; durable when it
    /// returns.
    fn confirm(&self, mut saved: Saved) -> Result<(), HubError> {
        let known = lock(&self.state).by_id.get(&saved.id).cloned();
        if let Some(known) = known {
            let mut live = lock(&known.live);
            saved.next = live.saved.next;
            store::save(&self.registry, &saved)?;
            live.key = key_of(&saved);
            live.saved = saved;
            live.account = None;
            return Ok(());
        }
        saved.next = store::head(&self.registry, &saved.place)?;
        store::save(&self.registry, &saved)?;
        if let Some(one) = Subscription::new(saved) {
            lock(&self.state).add(one);
        }
        Ok(())
    }

    /// Active subscriptions of an application at an API.
    fn count(&self, api: &str, application: Option<&str>) -> usize {
        let all: Vec<Arc<Subscription>> = lock(&self.state).by_id.values().cloned().collect();
        let is_its = |one: &&Arc<Subscription>| {
            one.place.api == api && lock(&one.live).saved.application.as_deref() == application
        };
        all.iter().filter(is_its).count()
    }

    fn has(&self, id: &str) -> bool {
        lock(&self.state).by_id.contains_key(id)
    }

    /// Writes cursors and attempts.
    fn flush(&self) {
        let (cursors, attempts) = {
            let mut state = lock(&self.state);
            let cursors: Vec<(String, u64)> = state.cursors.drain().collect();
            (cursors, std::mem::take(&mut state.attempts))
        };
        if cursors.is_empty() && attempts.is_empty() {
            return;
        }
        let attempts: Vec<Attempt> = attempts.into();
        if let Err(error) = store::flush(&self.registry, &cursors, &attempts) {
            tracing::error!(cause = %error, "cannot write how far deliveries have come; a crash would repeat them");
            let mut state = lock(&self.state);
            for (id, next) in cursors {
                state.cursors.entry(id).or_insert(next);
            }
        }
    }

    /// Removes subscriptions whose lease has ended, and old events.
    fn tidy(&self) {
        self.access.tidy(SystemTime::now());
        let now = now();
        let all: Vec<Arc<Subscription>> = lock(&self.state).by_id.values().cloned().collect();
        for one in all {
            let is_over = {
                let live = lock(&one.live);
                live.saved.ends <= now && live.at != Where::Busy
            };
            if is_over && self.end(&one.id) {
                tracing::info!(topic = one.place.topic, callback = %one.callback, "lease of a subscription has ended");
            }
        }
        let before = now - i64::try_from(KEPT.as_millis()).unwrap_or_default();
        if let Err(error) = store::prune(&self.registry, before) {
            tracing::warn!(cause = %error, "cannot remove old events of topics");
        }
    }
}

#[cfg(test)]
mod tests;
