//! What the hub holds of its subscriptions, and where each of them is.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use connect::url::Url;

use super::schedule::Tries;
use super::store::{Attempt, Event, Place, Saved};
use super::turns::{Origin, Turns};
use crate::plan::Account;

/// Attempts at once to callbacks that answer, and to those that were away the last time.
const IN_FLIGHT_MAX: usize = 192;
const AWAY_MAX: usize = 64;

/// Of one origin.
const ORIGIN_MAX: usize = 32;
const ORIGIN_AWAY_MAX: usize = 4;

/// Events of all topics in memory, and their bytes.
const RECENT_MAX: usize = 64;
const RECENT_BYTES_MAX: usize = 8 << 20;

/// Those of a hub.
#[derive(Default)]
pub(super) struct State {
    pub by_place: HashMap<Place, Vec<Arc<Subscription>>>,
    pub by_id: HashMap<String, Arc<Subscription>>,
    pub healthy: Healthy,
    pub away: Away,
    /// By when they are due, in milliseconds since 1970.
    pub waits: BTreeSet<(i64, String)>,
    pub cursors: HashMap<String, u64>,
    pub attempts: VecDeque<Attempt>,
    pub recent: VecDeque<(Place, Event)>,
    recent_bytes: usize,
}

/// Whose turn it is of those that answer.
pub(super) struct Healthy(pub Turns<Arc<Subscription>>);

/// Whose turn it is of those that were away the last time.
pub(super) struct Away(pub Turns<Arc<Subscription>>);

impl Default for Healthy {
    fn default() -> Healthy {
        Healthy(Turns::new(IN_FLIGHT_MAX, ORIGIN_MAX))
    }
}

impl Default for Away {
    fn default() -> Away {
        Away(Turns::new(AWAY_MAX, ORIGIN_AWAY_MAX))
    }
}

/// One subscription.
pub(super) struct Subscription {
    pub id: String,
    pub place: Place,
    pub callback: Url,
    pub origin: Origin,
    pub live: Mutex<Live>,
}

/// What changes of a subscription. Whoever holds this lock and that of the hub's state has taken the latter first.
pub(super) struct Live {
    pub saved: Saved,
    pub key: Option<ring::hmac::Key>,
    pub account: Option<Account>,
    pub tries: Tries,
    pub at: Where,
    pub is_gone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    Idle,
    Queued,
    Busy,
    Waiting(i64),
}

impl Subscription {
    pub fn new(saved: Saved) -> Option<Arc<Subscription>> {
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

pub(super) fn key_of(saved: &Saved) -> Option<ring::hmac::Key> {
    (!saved.secret.is_empty()).then(|| saved.digest.key(&saved.secret))
}

impl State {
    pub fn add(&mut self, one: Arc<Subscription>) {
        self.by_place
            .entry(one.place.clone())
            .or_default()
            .push(Arc::clone(&one));
        self.by_id.insert(one.id.clone(), one);
    }

    pub fn remove(&mut self, id: &str) -> Option<Arc<Subscription>> {
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

    pub fn push(&mut self, one: &Arc<Subscription>, is_away: bool) {
        match is_away {
            false => self.healthy.0.push(&one.origin, Arc::clone(one)),
            true => self.away.0.push(&one.origin, Arc::clone(one)),
        }
    }

    pub fn done(&mut self, origin: &Origin, is_away: bool) {
        match is_away {
            false => self.healthy.0.done(origin),
            true => self.away.0.done(origin),
        }
    }

    pub fn remember(&mut self, place: &Place, event: &Event) {
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
