//! What the tasks of a client and its source share: the partitions, what was fetched of them and waits,
//! and what is wrong with whom.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::config::{Config, Reset};
use super::connection::Pulse;
use super::message::Bounds;
use connect::arrivals::{Account, Arrivals};
use connect::component::Waker;
use connect::retry::jittered;

/// Topic and partition.
pub(super) type Key = (Arc<str>, i32);

/// How long a broker may be away, and an answer be owed, before that is said. A leader that moves takes less.
pub(super) const AWAY: Duration = Duration::from_millis(1000);
pub(super) const SILENT: Duration = Duration::from_secs(3);

/// How long a partition may be without a leader before that is said.
pub(super) const LEADERLESS: Duration = Duration::from_secs(3);

/// Fetches that may wait for each other per broker: what is over the limit of a response.
const WAITING_FACTOR: usize = 2;

/// Part of the server's budget of bytes that one fetch may take.
const BUDGET_PART: u64 = 4;

/// Where a partition begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kafka) enum Start {
    At(i64),
    /// As `auto.offset.reset` says.
    Reset,
}

/// Where a partition is read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    At(i64),
    /// Asked for by its time: -2 for the first offset, -1 for the end.
    Timed(i64),
}

#[derive(Debug)]
pub(super) struct Part {
    /// Tells it from what the same partition was before.
    pub version: u64,
    pub index: usize,
    pub place: Place,
    pub leader: Option<i32>,
    pub epoch: i32,
    /// Bytes that wait for the source.
    pub queued: usize,
    /// Offset of its end; -1 where nobody knows.
    pub end: i64,
    /// What its broker was told of it in a fetch session: which one, the offset and the leader's epoch.
    pub told: Option<(u64, i64, i32)>,
    /// It is not asked for before.
    pub not_before: Option<Instant>,
    pub leaderless_since: Instant,
    /// Its topic or partition is not known to the brokers, and that was said.
    pub is_unknown: bool,
}

/// What was fetched of a partition.
pub(super) struct Waiting {
    pub index: usize,
    pub batches: Bytes,
    pub from: i64,
    pub aborted: Vec<(i64, i64)>,
    pub account: Arc<Account>,
}

/// A broker that leads partitions.
pub(super) struct Node {
    pub host: Arc<str>,
    pub port: u16,
    pub pulse: Arc<Pulse>,
    pub failing: Option<Failing>,
    pub task: Option<AbortHandle>,
}

/// Since when something does not work, why, and when it is tried again.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    pub since: Instant,
    pub cause: String,
    pub pause: Duration,
}

impl Failing {
    /// It did not work, once more or for the first time; how long to wait before the next time.
    pub fn again(
        failing: &mut Option<Failing>,
        cause: String,
        (first, longest): (Duration, Duration),
    ) -> Duration {
        let known = failing.as_ref();
        let pause = known.map_or(first, |known| (known.pause * 2).min(longest));
        let since = known.map_or_else(Instant::now, |known| known.since);
        tracing::debug!(cause, "kafka client");
        *failing = Some(Failing {
            since,
            cause,
            pause,
        });
        jittered(pause)
    }

    /// For how it is said, once it lasts for too long.
    pub fn said(failing: Option<&Failing>) -> Option<String> {
        let known = failing.filter(|known| known.since.elapsed() >= AWAY)?;
        let seconds = known.pause.as_secs_f32();
        Some(format!("{}; asking again in {seconds:.1} s", known.cause))
    }
}

#[derive(Default)]
pub(super) struct State {
    pub parts: BTreeMap<Key, Part>,
    queue: VecDeque<(Key, Waiting)>,
    pub queued: usize,
    pub nodes: HashMap<i32, Node>,
    /// What ends the source: asking again would not help.
    pub failure: Option<String>,
    /// The leaders that are known are to be asked for again.
    pub wants_metadata: bool,
    pub metadata_failing: Option<Failing>,
    pub metadata_pulse: Arc<Pulse>,
    versions: u64,
    is_ended: bool,
}

impl State {
    /// A number that nothing has had before.
    pub fn number(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }
}

pub(super) struct Shared {
    pub config: Arc<Config>,
    pub arrivals: Arc<Arrivals>,
    pub waker: Arc<dyn Waker>,
    /// Where fetchers run.
    pub worker: Handle,
    pub changed: watch::Sender<u64>,
    pub state: Mutex<State>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all tasks look at the state again.
    pub fn tell(&self) {
        self.changed
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Why some partition cannot be read now.
    pub fn lost(&self) -> Option<String> {
        let longer = u64::try_from(self.config.bounds.wait_millis - 500).unwrap_or(0);
        self.lock().lost(SILENT + Duration::from_millis(longer))
    }

    /// It did not work: says why, and how long to wait before the next time.
    pub fn failed(&self, failing: &mut Option<Failing>, cause: String) -> Duration {
        Failing::again(failing, cause, self.config.pauses)
    }

    /// What a fetch may bring: no more than a part of the server's budget.
    pub fn bounds(&self) -> Bounds {
        let part = i32::try_from(self.arrivals.max() / BUDGET_PART).unwrap_or(i32::MAX);
        let bounds = self.config.bounds;
        let bytes_max = bounds.bytes_max.min(part);
        let partition_bytes_max = bounds.partition_bytes_max.min(bytes_max);
        Bounds {
            bytes_max,
            partition_bytes_max,
            ..bounds
        }
    }
}

impl State {
    pub fn add(&mut self, key: Key, index: usize, start: Start, reset: Reset) {
        let version = self.number();
        let place = match start {
            Start::At(offset) => Place::At(offset),
            Start::Reset => match self.reset(&key, reset, "the group has no offset of it") {
                Some(place) => place,
                None => return,
            },
        };
        let part = Part {
            version,
            index,
            place,
            leader: None,
            epoch: -1,
            queued: 0,
            end: -1,
            told: None,
            not_before: None,
            leaderless_since: Instant::now(),
            is_unknown: false,
        };
        self.parts.insert(key, part);
        self.wants_metadata = true;
    }

    /// Where a partition goes on of which nobody knows where.
    pub fn reset(&mut self, (topic, partition): &Key, reset: Reset, cause: &str) -> Option<Place> {
        match reset {
            Reset::Earliest => Some(Place::Timed(-2)),
            Reset::Latest => Some(Place::Timed(-1)),
            Reset::Refuse => {
                self.failure = Some(format!(
                    "topic '{topic}' partition {partition}: {cause}, and property \
                     'auto.offset.reset' is none"
                ));
                None
            }
        }
    }

    pub fn remove(&mut self, key: &Key) {
        if self.parts.remove(key).is_none() {
            return;
        }
        let gone = self.queue.iter().filter(|(of, _)| of == key);
        self.queued -= gone
            .map(|(_, waiting)| waiting.batches.len())
            .sum::<usize>();
        self.queue.retain(|(of, _)| of != key);
    }

    pub fn push(&mut self, key: Key, waiting: Waiting) {
        let bytes = waiting.batches.len();
        if let Some(part) = self.parts.get_mut(&key) {
            part.queued += bytes;
            self.queued += bytes;
            self.queue.push_back((key, waiting));
        }
    }

    pub fn pop(&mut self) -> Option<(Key, Waiting)> {
        let (key, waiting) = self.queue.pop_front()?;
        let bytes = waiting.batches.len();
        self.queued -= bytes;
        if let Some(part) = self.parts.get_mut(&key) {
            part.queued -= bytes;
        }
        Some((key, waiting))
    }

    /// Does more wait of a partition, or in all, than what another fetch should add to?
    pub fn is_full(&self, part: &Part, bounds: Bounds) -> bool {
        let (of_part, of_all) = (bounds.partition_bytes_max, bounds.bytes_max);
        part.queued > of_part as usize || self.queued >= of_all as usize * WAITING_FACTOR
    }

    pub fn is_at_end(&self) -> bool {
        let is_read = |part: &Part| match part.place {
            Place::At(offset) => part.end >= 0 && offset >= part.end,
            Place::Timed(_) => false,
        };
        self.queue.is_empty() && !self.parts.is_empty() && self.parts.values().all(is_read)
    }

    fn lost(&self, silent: Duration) -> Option<String> {
        let failing = |failing: &Option<Failing>| Failing::said(failing.as_ref());
        let quiet = |pulse: &Pulse| pulse.quiet(silent);
        for node in self.leading() {
            let place = || format!("broker {}:{}", node.host, node.port);
            if let Some(cause) = failing(&node.failing) {
                return Some(format!("{}: {cause}", place()));
            }
            if let Some(cause) = quiet(&node.pulse) {
                return Some(format!("{} {cause}", place()));
            }
        }
        let is_waiting = |part: &Part| {
            part.leader.is_none() && !part.is_unknown && part.leaderless_since.elapsed() >= AWAY
        };
        let (key, part) = self.parts.iter().find(|(_, part)| is_waiting(part))?;
        if let Some(cause) = failing(&self.metadata_failing) {
            return Some(cause);
        }
        if let Some(cause) = quiet(&self.metadata_pulse) {
            return Some(format!("the cluster {cause}"));
        }
        let is_long = part.leaderless_since.elapsed() >= LEADERLESS
            && self.metadata_pulse.silence().is_none();
        is_long.then(|| format!("topic '{}' partition {} has no leader", key.0, key.1))
    }

    /// Brokers that lead something.
    fn leading(&self) -> impl Iterator<Item = &Node> {
        let leads = |id: &i32| self.parts.values().any(|part| part.leader == Some(*id));
        self.nodes
            .iter()
            .filter(move |(id, _)| leads(id))
            .map(|(_, node)| node)
    }

    /// No task goes on.
    pub fn end(&mut self) {
        self.is_ended = true;
        for node in self.nodes.values_mut() {
            if let Some(task) = node.task.take() {
                task.abort();
            }
        }
        self.queue.clear();
        self.parts.clear();
    }

    pub fn is_ended(&self) -> bool {
        self.is_ended
    }
}
