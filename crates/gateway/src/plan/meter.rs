//! Counts what is used, exactly.
//!
//! A counter belongs to a level, a thing and a window. It may use what the [`Ledger`] has noted as reserved; before it
//! uses more, it has a further block noted. Whoever uses something holds the locks of all its counters, in the order
//! of their names, from the check to the end: so a limit of one level never costs something on another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::limit::{Plan, Rate};
use super::window::{Unit, Window};

/// Counters that are held; beyond them nobody new is let through.
const COUNTERS_MAX: usize = 200_000;

/// What counts, on its way to one more level each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// An application and an API.
    Subscription,
    Api,
    Topic,
    User,
    Address,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Subscription => "subscription",
            Level::Api => "API",
            Level::Topic => "topic",
            Level::User => "user",
            Level::Address => "address",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metric {
    Events,
    Bytes,
    Attempts,
}

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Metric::Events => "events",
            Metric::Bytes => "bytes",
            Metric::Attempts => "attempts",
        }
    }
}

/// Who uses something, and of what.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// `None` where nobody has to show a token; all who do not share the limits of a subscription.
    pub application: Option<String>,
    /// Name and version.
    pub api: String,
    pub topic: String,
    /// `sub`.
    pub user: Option<String>,
    pub address: Option<IpAddr>,
}

impl Key {
    /// Whose counters those of a level are; `None`: it has none.
    fn of(&self, level: Level) -> Option<String> {
        // A character that no name has keeps two names apart.
        const BETWEEN: char = '\u{1f}';
        let api = &self.api;
        Some(match level {
            Level::Subscription => format!(
                "{}{BETWEEN}{api}",
                self.application.as_deref().unwrap_or_default()
            ),
            Level::Api => api.clone(),
            Level::Topic => format!("{api}{BETWEEN}{}", self.topic),
            Level::User => format!("{api}{BETWEEN}{}", self.user.as_deref()?),
            Level::Address => format!("{api}{BETWEEN}{}", network(self.address?)),
        })
    }
}

/// Of IPv6 the network of 64 bits, all of which belongs to one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

/// Knows which plan applies.
pub trait Plans: Send + Sync {
    /// `None`: nothing is limited.
    fn plan(&self, key: &Key) -> Option<Arc<Plan>>;
}

/// What is kept of a counter: in window `window` up to `reserved` may have been used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    pub counter: String,
    pub window: i64,
    pub reserved: u64,
}

/// Keeps reservations over a crash.
pub trait Ledger: Send + Sync {
    /// All that were noted.
    ///
    /// # Errors
    /// It cannot be read; in words.
    fn load(&self) -> Result<Vec<Reservation>, String>;

    /// Notes them, all or none, in the place of those before. `is_safe`: also over a failure of the machine.
    ///
    /// # Errors
    /// They are not noted; in words.
    fn reserve(&self, reservations: &[Reservation], is_safe: bool) -> Result<(), String>;

    /// Forgets counters whose window is over.
    ///
    /// # Errors
    /// They are not forgotten; in words.
    fn forget(&self, counters: &[String]) -> Result<(), String>;
}

/// What is used at once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Amount {
    pub events: u64,
    pub bytes: u64,
}

/// The limit that has no room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tripped {
    pub level: Level,
    /// `events`, `bytes`, `attempts` or `connections`.
    pub what: &'static str,
    /// As it was written: `50000/day`, `100`.
    pub limit: String,
    /// So many, in the window if there is one.
    pub count: u64,
}

impl std::fmt::Display for Tripped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tripped {
            level, what, limit, ..
        } = self;
        write!(
            f,
            "the limit of {limit} {what} for each {} is reached",
            level.name()
        )
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    pub limit: Tripped,
    /// When there is room again; for connections unknown, so soon.
    pub reset: SystemTime,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Allowed {
        /// Least of what is left, in the unit of its limit; `u64::MAX` without a limit.
        remaining: u64,
        /// When that limit begins anew.
        reset: Option<SystemTime>,
        /// That limit.
        limit: u64,
    },
    Denied(Denied),
}

impl Verdict {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allowed { .. })
    }

    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` (seconds), as the drafts of the IETF have had
    /// them.
    pub fn add_headers(&self, into: &mut HeaderMap, now: SystemTime) {
        match self {
            Verdict::Allowed {
                remaining,
                reset: Some(reset),
                limit,
            } => add_headers(into, (*limit, *remaining), seconds_to(*reset, now)),
            Verdict::Allowed { .. } => {}
            Verdict::Denied(denied) => denied.add_headers(into, now),
        }
    }
}

impl Denied {
    /// Whole seconds until there is room, at least one.
    pub fn retry_after(&self, now: SystemTime) -> u64 {
        seconds_to(self.reset, now)
    }

    /// As [`Verdict::add_headers`], and `Retry-After`.
    pub fn add_headers(&self, into: &mut HeaderMap, now: SystemTime) {
        let seconds = self.retry_after(now);
        add_headers(into, (self.limit.count, 0), seconds);
        into.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }

    /// The body of a 429, JSON: `code` as API Manager has it, `message`, `description`, `limit`, `reset`.
    pub fn body(&self, now: SystemTime) -> String {
        serde_json::json!({
            "code": 900_804,
            "message": "Message throttled out",
            "description": format!("{}; it begins anew in {} s", self.limit, self.retry_after(now)),
            "limit": self.limit.limit,
            "level": self.limit.level.name(),
            "reset": self.retry_after(now),
        })
        .to_string()
    }
}

fn seconds_to(time: SystemTime, now: SystemTime) -> u64 {
    let left = time.duration_since(now).unwrap_or_default();
    (left.as_millis().div_ceil(1000) as u64).max(1)
}

fn add_headers(into: &mut HeaderMap, (limit, remaining): (u64, u64), seconds: u64) {
    const NAMES: [HeaderName; 3] = [
        HeaderName::from_static("ratelimit-limit"),
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ];
    for (name, value) in NAMES.into_iter().zip([limit, remaining, seconds]) {
        into.insert(name, HeaderValue::from(value));
    }
}

/// What one counter has come to, for `headwater gateway quota`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// `subscription`, `API`, `topic`, `user` or `address`.
    pub level: String,
    /// Whose: the names of the level, with blanks between.
    pub of: String,
    /// `events`, `bytes` or `attempts`.
    pub what: String,
    /// `day`, `5 min`.
    pub window: String,
    pub used: u64,
    pub reserved: u64,
    pub reset: SystemTime,
}

/// One thing in one window of one level.
struct Counter {
    name: String,
    window: Window,
    count: Mutex<Count>,
}

impl Counter {
    /// Has its window ended?
    fn is_over(&self, now: SystemTime) -> bool {
        lock(&self.count).window < self.window.index(now)
    }
}

#[derive(Default)]
struct Count {
    /// The number of the window.
    window: i64,
    used: u64,
    /// What the ledger has noted for the window.
    reserved: u64,
}

impl Count {
    /// A window that has begun takes the place of the one before. A clock that was set back begins none: what was
    /// used stays used.
    fn turn(&mut self, window: i64) {
        if window > self.window {
            *self = Count {
                window,
                ..Count::default()
            };
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is reserved ahead of its use: a crash loses no more than that.
fn block_of(rate: Rate) -> u64 {
    let part = match rate.window.unit() {
        // Longer than a restart takes; and one note for each window is all that it costs.
        Unit::Second => 1,
        Unit::Minute => 4,
        Unit::Hour | Unit::Day | Unit::Month => 64,
    };
    (rate.count / part).max(1)
}

/// Counts for a server.
pub struct Meter {
    shared: Arc<Shared>,
}

struct Shared {
    plans: Arc<dyn Plans>,
    ledger: Arc<dyn Ledger>,
    counters: Mutex<HashMap<String, Arc<Counter>>>,
    /// Those of the last run that nobody has asked for yet.
    kept: Mutex<HashMap<String, Reservation>>,
    connections: Mutex<HashMap<String, u64>>,
}

impl Meter {
    /// Goes on from what the ledger has noted: all that was reserved counts as used.
    ///
    /// # Errors
    /// The ledger cannot be read; in words.
    pub fn new(plans: Arc<dyn Plans>, ledger: Arc<dyn Ledger>) -> Result<Meter, String> {
        let kept = ledger.load()?.into_iter();
        Ok(Meter {
            shared: Arc::new(Shared {
                plans,
                ledger,
                counters: Mutex::default(),
                kept: Mutex::new(kept.map(|one| (one.counter.clone(), one)).collect()),
                connections: Mutex::default(),
            }),
        })
    }

    /// As [`Account::take`], for who asks once.
    pub fn take(&self, key: &Key, amount: Amount, now: SystemTime) -> Verdict {
        self.account(key, now).take(amount, now)
    }

    /// What applies to a connection or a subscription, found out once. Ask again when plans have changed.
    pub fn account(&self, key: &Key, now: SystemTime) -> Account {
        let mut parts = Vec::new();
        let mut slots = Vec::new();
        let mut account = Account {
            meter: Arc::clone(&self.shared),
            parts: Vec::new(),
            slots: Vec::new(),
            message_max: None,
            duration: None,
            subscriptions: None,
            over: super::Over::Hold,
        };
        let plan = self.shared.plans.plan(key);
        for (level, limits) in plan.iter().flat_map(|plan| plan.levels()) {
            let Some(whose) = key.of(level) else { continue };
            for (metric, rates) in [
                (Metric::Events, &limits.events),
                (Metric::Bytes, &limits.bytes),
                (Metric::Attempts, &limits.attempts),
            ] {
                for rate in rates {
                    let between = '\u{1f}';
                    let (at, what, window) = (level.name(), metric.name(), rate.window);
                    let name = format!("{at}{between}{whose}{between}{what}{between}{window}");
                    let counter = self.shared.counter(name, rate.window, now);
                    parts.push(Part {
                        counter,
                        level,
                        metric,
                        rate: *rate,
                    });
                }
            }
            let message = account.message_max.into_iter().chain(limits.message);
            account.message_max = message.min();
            account.duration = account.duration.into_iter().chain(limits.duration).min();
            if let Some(count) = limits.connections {
                slots.push((format!("{}\u{1f}{whose}", level.name()), level, count));
            }
        }
        if let Some(plan) = &plan {
            account.subscriptions = plan.limits.subscriptions;
            account.over = plan.over;
        }
        // The order in which locks are taken.
        parts.sort_by(|one, other| {
            one.counter
                .as_ref()
                .map(|c| &c.name)
                .cmp(&other.counter.as_ref().map(|c| &c.name))
        });
        account.parts = parts;
        account.slots = slots;
        account
    }

    /// Gives back to the ledger what was reserved and not used: at the end, and from time to time.
    ///
    /// # Errors
    /// It cannot be noted; nothing has changed then.
    pub fn settle(&self) -> Result<(), String> {
        let all: Vec<Arc<Counter>> = lock(&self.shared.counters).values().cloned().collect();
        for counter in all {
            let mut count = lock(&counter.count);
            if count.reserved == count.used {
                continue;
            }
            let exact = Reservation {
                counter: counter.name.clone(),
                window: count.window,
                reserved: count.used,
            };
            self.shared.ledger.reserve(&[exact], true)?;
            count.reserved = count.used;
        }
        Ok(())
    }

    /// Forgets counters whose window is over and that nobody holds.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn sweep(&self, now: SystemTime) -> Result<(), String> {
        let gone = self.shared.sweep(now);
        match gone.is_empty() {
            true => Ok(()),
            false => self.shared.ledger.forget(&gone),
        }
    }

    /// What was used in the windows that run. Of a counter that nobody has asked for since the start that is all that
    /// was reserved before.
    pub fn usage(&self, now: SystemTime) -> Vec<Usage> {
        let counters: Vec<Arc<Counter>> = lock(&self.shared.counters).values().cloned().collect();
        let counted = counters.into_iter().map(|counter| {
            let count = lock(&counter.count);
            (
                counter.name.clone(),
                count.window,
                count.used,
                count.reserved,
            )
        });
        let mut all: Vec<(String, i64, u64, u64)> = counted.collect();
        let kept = lock(&self.shared.kept);
        all.extend(kept.values().map(|kept| {
            (
                kept.counter.clone(),
                kept.window,
                kept.reserved,
                kept.reserved,
            )
        }));
        drop(kept);
        let usage = all.into_iter().filter_map(|(name, index, used, reserved)| {
            let mut parts: Vec<&str> = name.split('\u{1f}').collect();
            let (text, what) = (parts.pop()?, parts.pop()?);
            let (level, of) = parts.split_first()?;
            let window = Window::parse(text)?;
            (index >= window.index(now)).then(|| Usage {
                level: (*level).to_owned(),
                of: of.join(" ").trim().to_owned(),
                what: what.to_owned(),
                window: text.to_owned(),
                used,
                reserved,
                reset: window.end(index),
            })
        });
        let mut usage: Vec<Usage> = usage.collect();
        usage.sort_by(|one, other| {
            (&one.level, &one.of, &one.what).cmp(&(&other.level, &other.of, &other.what))
        });
        usage
    }
}

impl Shared {
    /// The counter of a name; `None` if there are too many.
    fn counter(&self, name: String, window: Window, now: SystemTime) -> Option<Arc<Counter>> {
        let mut counters = lock(&self.counters);
        if let Some(known) = counters.get(&name) {
            return Some(Arc::clone(known));
        }
        if counters.len() >= COUNTERS_MAX {
            // What the ledger has of them is removed by the next sweep.
            counters.retain(|_, counter| Arc::strong_count(counter) > 1 || !counter.is_over(now));
            if counters.len() >= COUNTERS_MAX {
                tracing::error!(
                    counters = COUNTERS_MAX,
                    "too many quota counters; new clients are refused"
                );
                return None;
            }
        }
        let kept = lock(&self.kept).remove(&name);
        let count = kept.map_or_else(Count::default, |kept| Count {
            window: kept.window,
            used: kept.reserved,
            reserved: kept.reserved,
        });
        let counter = Arc::new(Counter {
            name: name.clone(),
            window,
            count: Mutex::new(count),
        });
        counters.insert(name, Arc::clone(&counter));
        Some(counter)
    }

    fn sweep(&self, now: SystemTime) -> Vec<String> {
        let mut gone = Vec::new();
        lock(&self.kept).retain(|name, kept| {
            let window = name.rsplit('\u{1f}').next().and_then(Window::parse);
            let is_gone = window.is_none_or(|window| kept.window < window.index(now));
            if is_gone {
                gone.push(name.clone());
            }
            !is_gone
        });
        lock(&self.counters).retain(|name, counter| {
            let is_gone = Arc::strong_count(counter) == 1 && counter.is_over(now);
            if is_gone {
                gone.push(name.clone());
            }
            !is_gone
        });
        gone
    }
}

/// One limit that applies.
struct Part {
    /// `None`: there was no room for it, so nothing is let through.
    counter: Option<Arc<Counter>>,
    level: Level,
    metric: Metric,
    rate: Rate,
}

impl Part {
    fn denied(&self, window: i64) -> Denied {
        Denied {
            limit: Tripped {
                level: self.level,
                what: self.metric.name(),
                limit: self.rate.to_string(),
                count: self.rate.count,
            },
            reset: self.rate.window.end(window),
        }
    }
}

/// The limits that apply to one connection or subscription.
pub struct Account {
    meter: Arc<Shared>,
    /// In the order of their counters' names.
    parts: Vec<Part>,
    /// Connections at a time: whose, on which level, how many.
    slots: Vec<(String, Level, u64)>,
    message_max: Option<u64>,
    duration: Option<std::time::Duration>,
    subscriptions: Option<u64>,
    over: super::Over,
}

impl Account {
    /// Does no limit count messages?
    pub fn is_unlimited(&self) -> bool {
        self.parts
            .iter()
            .all(|part| part.metric == Metric::Attempts)
    }

    /// Bytes of one message.
    pub fn message_max(&self) -> Option<u64> {
        self.message_max
    }

    /// How long a connection may last.
    pub fn duration(&self) -> Option<std::time::Duration> {
        self.duration
    }

    /// Active WebSub subscriptions of the application at the API.
    pub fn subscriptions(&self) -> Option<u64> {
        self.subscriptions
    }

    /// What becomes of a WebSub subscription's events beyond the limit.
    pub fn over(&self) -> super::Over {
        self.over
    }

    /// Uses so much, or nothing where there is no room for all of it.
    pub fn take(&self, amount: Amount, now: SystemTime) -> Verdict {
        self.take_all(now, |metric| match metric {
            Metric::Events => amount.events,
            Metric::Bytes => amount.bytes,
            Metric::Attempts => 0,
        })
    }

    /// Counts an attempt to connect, and a connection as long as the guard lives.
    ///
    /// # Errors
    /// The limit that has no room.
    pub fn connect(&self, now: SystemTime) -> Result<Slot, Denied> {
        let attempt = |metric| u64::from(metric == Metric::Attempts);
        if let Verdict::Denied(denied) = self.take_all(now, attempt) {
            return Err(denied);
        }
        let mut held = lock(&self.meter.connections);
        for (whose, level, count) in &self.slots {
            if held.get(whose).copied().unwrap_or_default() >= *count {
                let limit = Tripped {
                    level: *level,
                    what: "connections",
                    limit: count.to_string(),
                    count: *count,
                };
                let soon = std::time::Duration::from_secs(5);
                return Err(Denied {
                    limit,
                    reset: now + soon,
                });
            }
        }
        for (whose, ..) in &self.slots {
            *held.entry(whose.clone()).or_default() += 1;
        }
        Ok(Slot {
            meter: Arc::clone(&self.meter),
            whose: self.slots.iter().map(|(whose, ..)| whose.clone()).collect(),
        })
    }

    fn take_all(&self, now: SystemTime, needed: impl Fn(Metric) -> u64) -> Verdict {
        let mut held: Vec<(&Part, &Counter, u64, MutexGuard<'_, Count>)> =
            Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let need = needed(part.metric);
            if need == 0 {
                continue;
            }
            let Some(counter) = part.counter.as_deref() else {
                return Verdict::Denied(part.denied(part.rate.window.index(now)));
            };
            let mut count = lock(&counter.count);
            count.turn(part.rate.window.index(now));
            if count.used.saturating_add(need) > part.rate.count {
                return Verdict::Denied(part.denied(count.window));
            }
            held.push((part, counter, need, count));
        }
        if let Err(denied) = self.reserve(&mut held) {
            return Verdict::Denied(denied);
        }
        let mut least = Verdict::Allowed {
            remaining: u64::MAX,
            reset: None,
            limit: u64::MAX,
        };
        for (part, _, need, count) in &mut held {
            count.used += *need;
            let left = part.rate.count - count.used;
            if let Verdict::Allowed { remaining, .. } = least
                && left < remaining
            {
                least = Verdict::Allowed {
                    remaining: left,
                    reset: Some(part.rate.window.end(count.window)),
                    limit: part.rate.count,
                };
            }
        }
        least
    }

    /// Has further blocks noted where what is noted is not enough.
    fn reserve(
        &self,
        held: &mut [(&Part, &Counter, u64, MutexGuard<'_, Count>)],
    ) -> Result<(), Denied> {
        let mut wanted = Vec::new();
        let mut is_safe = false;
        for (part, counter, need, count) in held.iter() {
            let least = count.used + need;
            if least > count.reserved {
                let ahead = count.used.saturating_add(block_of(part.rate));
                is_safe |= !part.rate.window.is_short();
                wanted.push(Reservation {
                    counter: counter.name.clone(),
                    window: count.window,
                    reserved: ahead.max(least).min(part.rate.count),
                });
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        if let Err(cause) = self.meter.ledger.reserve(&wanted, is_safe) {
            tracing::error!(
                cause,
                "cannot note what a plan's limit has left; nothing more is let through"
            );
            let (part, _, _, count) = &held[0];
            return Err(part.denied(count.window));
        }
        for (_, counter, _, count) in held.iter_mut() {
            if let Some(noted) = wanted.iter().find(|noted| noted.counter == counter.name) {
                count.reserved = noted.reserved;
            }
        }
        Ok(())
    }
}

/// One connection, as long as it lives.
pub struct Slot {
    meter: Arc<Shared>,
    whose: Vec<String>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = lock(&self.meter.connections);
        for whose in &self.whose {
            if let Some(count) = held.get_mut(whose) {
                *count -= 1;
                if *count == 0 {
                    held.remove(whose);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
