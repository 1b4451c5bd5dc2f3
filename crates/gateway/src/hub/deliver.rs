//! Brings events from the logs of topics to callbacks.
//!
//! A subscription is in one of four places: idle at the head of its log, queued for its turn, busy with an attempt, or
//! waiting for a time. Callbacks that are away have turns of their own, so that those that take long are never in the
//! way of those that answer.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connect::net::http_client::{Client, ClientOptions, EgressDenied, OutgoingRequest};
use connect::net::{ClientTls, Network, websub};
use connect::retry::jittered;
use connect::url::Url;
use hyper::header::{
    CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LINK, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, StatusCode};
use tokio::sync::Notify;

use super::rules::Rules;
use super::schedule::{Outcome, Step, Tries};
use super::store::{self, Attempt, Event, HubError, Place, Saved};
use super::turns::{Origin, Turns};
use crate::access::Access;
use crate::plan::{Account, Amount, Key, Verdict};
use crate::registry::Registry;

/// Attempts at once to callbacks that answer, and to those that were away the last time.
const IN_FLIGHT_MAX: usize = 192;
const AWAY_MAX: usize = 64;

/// Of one origin.
const ORIGIN_MAX: usize = 32;

/// An attempt that takes longer gives its turn away, as long as not too many do.
const SLOW: Duration = Duration::from_secs(2);
const SLOW_MAX: usize = 512;

/// Longest wait for a connection, and for an answer.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Bytes of an answer that are read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Connections that are kept for further requests.
const IDLE_MAX: usize = 4096;

/// How often cursors and attempts are written.
const FLUSH: Duration = Duration::from_millis(200);

/// Attempts that wait to be written.
const ATTEMPTS_MAX: usize = 20_000;

/// How often what is over is removed.
const TIDY: Duration = Duration::from_secs(60);

/// Events are kept for a replay, if they are not too many, for as long as they may be tried.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Events of all topics in memory, and their bytes.
const RECENT_MAX: usize = 64;
const RECENT_BYTES_MAX: usize = 8 << 20;

/// Longest value of an option of `Retry-After`, in seconds, that is read.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3600;

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature");

/// Stable over all attempts, as Standard Webhooks have it.
const EVENT_ID: HeaderName = HeaderName::from_static("webhook-id");

/// The hub of a server.
pub struct Hub {
    own: Weak<Hub>,
    pub(super) registry: Arc<Registry>,
    pub(super) access: Arc<Access>,
    network: Arc<Network>,
    state: Mutex<State>,
    /// By API, with the client that asks within their networks.
    rules: RwLock<HashMap<String, (Arc<Rules>, Arc<Client>)>>,
    wake: Notify,
    is_stopping: AtomicBool,
    has_begun: AtomicBool,
    /// Attempts that have given their turn away.
    slow: AtomicUsize,
    /// Verifications that may still begin.
    pub(super) verifying: Arc<tokio::sync::Semaphore>,
}

#[derive(Default)]
struct State {
    by_place: HashMap<Place, Vec<Arc<Subscription>>>,
    by_id: HashMap<String, Arc<Subscription>>,
    healthy: Line,
    away: AwayLine,
    /// By when they are due, in milliseconds since 1970.
    waits: BTreeSet<(i64, String)>,
    cursors: HashMap<String, u64>,
    attempts: VecDeque<Attempt>,
    recent: VecDeque<(Place, Event)>,
    recent_bytes: usize,
}

struct Line(Turns<Arc<Subscription>>);
struct AwayLine(Turns<Arc<Subscription>>);

impl Default for Line {
    fn default() -> Line {
        Line(Turns::new(IN_FLIGHT_MAX, ORIGIN_MAX))
    }
}

impl Default for AwayLine {
    fn default() -> AwayLine {
        AwayLine(Turns::new(AWAY_MAX, 4))
    }
}

/// One subscription.
pub(super) struct Subscription {
    pub id: String,
    pub place: Place,
    pub callback: Url,
    origin: Origin,
    live: Mutex<Live>,
}

/// What changes of a subscription. Whoever holds this lock and that of the hub's state has taken the latter first.
struct Live {
    saved: Saved,
    key: Option<ring::hmac::Key>,
    account: Option<Account>,
    tries: Tries,
    at: Where,
    is_gone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Idle,
    Queued,
    Busy,
    Waiting(i64),
}

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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn millis(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    millis(SystemTime::now())
}

impl Subscription {
    fn new(saved: Saved) -> Option<Arc<Subscription>> {
        let callback = Url::parse(&saved.callback)?;
        Some(Arc::new(Subscription {
            id: saved.id.clone(),
            place: saved.place.clone(),
            origin: (callback.is_tls, callback.host.clone(), callback.port),
            callback,
            live: Mutex::new(Live {
                key: key_of(&saved),
                saved,
                account: None,
                tries: Tries::default(),
                at: Where::Idle,
                is_gone: false,
            }),
        }))
    }
}

fn key_of(saved: &Saved) -> Option<ring::hmac::Key> {
    (!saved.secret.is_empty()).then(|| saved.digest.key(&saved.secret))
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
            is_stopping: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            slow: AtomicUsize::new(0),
            verifying: Arc::new(tokio::sync::Semaphore::new(super::verify::ASKED_MAX)),
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

    pub(super) fn rules_of(&self, api: &str) -> Option<(Arc<Rules>, Arc<Client>)> {
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
                if hub.is_stopping.load(Ordering::Relaxed) {
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
        self.is_stopping.store(true, Ordering::Relaxed);
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

    /// Puts one that is idle into the queue.
    fn queue(&self, one: &Arc<Subscription>) {
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
    fn pump(&self) {
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
        if before >= SLOW_MAX {
            self.slow.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        lock(&self.state).done(&one.origin, is_away);
        self.wake.notify_one();
        true
    }

    /// How long nothing is due.
    fn next_due(&self) -> Duration {
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
                Some(millis(denied.reset).max(now() + 1000))
            }
            _ => None,
        }
    }

    fn event(&self, place: &Place, from: u64) -> Result<Option<Event>, HubError> {
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

    async fn attempt(
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

    /// Removes a subscription.
    pub(super) fn end(&self, id: &str) -> bool {
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
    pub(super) fn confirm(&self, mut saved: Saved) -> Result<(), HubError> {
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
    pub(super) fn count(&self, api: &str, application: Option<&str>) -> usize {
        let all: Vec<Arc<Subscription>> = lock(&self.state).by_id.values().cloned().collect();
        let is_its = |one: &&Arc<Subscription>| {
            one.place.api == api && lock(&one.live).saved.application.as_deref() == application
        };
        all.iter().filter(is_its).count()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        lock(&self.state).by_id.contains_key(id)
    }

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
        lock(&self.state).attempts.push_back(Attempt {
            id: 0,
            at: now(),
            attempt: attempt.attempt + 1,
            outcome: outcome.name().to_owned(),
            status,
            cause: cause.clone(),
            ..attempt
        });
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

impl State {
    fn add(&mut self, one: Arc<Subscription>) {
        self.by_place
            .entry(one.place.clone())
            .or_default()
            .push(Arc::clone(&one));
        self.by_id.insert(one.id.clone(), one);
    }

    fn remove(&mut self, id: &str) -> Option<Arc<Subscription>> {
        let one = self.by_id.remove(id)?;
        if let Some(all) = self.by_place.get_mut(&one.place) {
            all.retain(|other| other.id != id);
            if all.is_empty() {
                self.by_place.remove(&one.place);
            }
        }
        self.cursors.remove(id);
        Some(one)
    }

    fn push(&mut self, one: &Arc<Subscription>, is_away: bool) {
        match is_away {
            false => self.healthy.0.push(&one.origin, Arc::clone(one)),
            true => self.away.0.push(&one.origin, Arc::clone(one)),
        }
    }

    fn done(&mut self, origin: &Origin, is_away: bool) {
        match is_away {
            false => self.healthy.0.done(origin),
            true => self.away.0.done(origin),
        }
    }

    fn remember(&mut self, place: &Place, event: &Event) {
        self.recent_bytes += event.body.len();
        self.recent.push_back((place.clone(), event.clone()));
        while self.recent.len() > RECENT_MAX || self.recent_bytes > RECENT_BYTES_MAX {
            let Some((_, oldest)) = self.recent.pop_front() else {
                break;
            };
            self.recent_bytes -= oldest.body.len();
        }
    }
}

/// The headers of a delivery.
fn headers(live: &Live, event: &Event) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let saved = &live.saved;
    if let Ok(kind) = HeaderValue::from_str(&event.kind) {
        headers.insert(CONTENT_TYPE, kind);
    }
    if let Ok(id) = HeaderValue::from_str(&event.id) {
        headers.insert(EVENT_ID, id);
    }
    let hub = (!saved.hub.is_empty()).then_some(saved.hub.as_str());
    if let Some(links) = websub::links(hub, &saved.named) {
        headers.insert(LINK, links);
    }
    let signature = live
        .key
        .as_ref()
        .and_then(|key| saved.digest.signature(key, &event.body));
    if let Some(signature) = signature {
        headers.insert(SIGNATURE, signature);
    }
    headers
}

/// Asks a callback; its status, and the pause that it asks for. What else it answers is of no interest.
pub(super) async fn ask(
    client: &Client,
    method: &Method,
    url: &Url,
    mut headers: HeaderMap,
    body: &[u8],
) -> io::Result<(StatusCode, Option<Duration>)> {
    let answer = send(client, method, url, &mut headers, body).await?;
    let status = answer.response.status();
    let pause = answer.response.headers().get(RETRY_AFTER);
    let pause = pause.and_then(|pause| pause.to_str().ok()?.trim().parse::<u64>().ok());
    // Read so that its connection may serve again; where that fails it is closed, and the status counts.
    client.read_body(answer, ANSWER_BYTES_MAX).await.ok();
    Ok((
        status,
        pause.map(|seconds| Duration::from_secs(seconds.min(SECONDS_MAX))),
    ))
}

pub(super) async fn send(
    client: &Client,
    method: &Method,
    url: &Url,
    headers: &mut HeaderMap,
    body: &[u8],
) -> io::Result<connect::net::http_client::Answer> {
    let host = HeaderValue::from_str(&url.host_header()).map_err(io::Error::other)?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static("headwater"));
    let request = OutgoingRequest {
        method,
        target: &client.request_target(url)?,
        headers,
        extra: None,
        body,
        has_length: *method != Method::GET,
    };
    client.send(url, &request).await
}
