//! What a sink and the tasks of its writer share: topics and partitions, the batches that wait, and what
//! came of those that were sent. It sends nothing and waits for nothing, so that tests can lead it anywhere.
//!
//! Each partition has its batches in order: one that grows, then those that are full or came back. While one is
//! to be sent again, the partition waits until all that were on their way are back, and goes on with the first.
//! Promises: with idempotence each batch keeps its place until the broker has said that it does not have it;
//! the first batch under a number has no other beside it on its way, because a broker that does not know the
//! number takes any place for the first. What is held is bounded in bytes and records.

mod metadata;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::super::connection::Pulse;
use super::super::message::{code, said};
use super::super::state::{Failing, LEADERLESS, SILENT};
use super::batch::{Outgoing, RECORD_OVERHEAD, RecordBatch, Share};
use super::message::Identity;
use super::options::Options;
use super::partitioner::partition_of;
use super::sender::Broker;

/// Topics that are known at a time. Where events name more, all that was sent is waited for, and they are
/// learnt anew.
const TOPICS_MAX: usize = 10_000;

/// A request ends behind the batch that makes it this long.
const REQUEST_BYTES: usize = 8 << 20;

/// Buffers that are kept for batches to come.
const SPARE_MAX: usize = 8;

/// For so long a topic may be unknown that was just made, as librdkafka has it
/// (`topic.metadata.propagation.max.ms`).
const UNKNOWN: Duration = Duration::from_secs(30);

/// The next batches are shorter by this factor where the broker finds them too long.
const SHORTER: usize = 4;

/// Number of the part of a topic whose partitions are not known yet.
const UNPLACED: i32 = -1;

/// What came of a record.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::kafka) enum Appended {
    Taken,
    /// There is no room now.
    Full,
    /// The topic has so many partitions, and not that one.
    NoPartition(usize),
}

/// Why records come back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) enum Why {
    /// The broker takes no record that long.
    TooLong,
    /// It would refuse them again.
    Refused(String),
    /// They did not arrive in time.
    Away(String),
}

/// Records that come back.
pub(in crate::kafka) struct Failed {
    pub topic: Arc<str>,
    pub why: Why,
    pub(super) batch: RecordBatch,
}

/// A broker that leads partitions.
pub(super) struct Node {
    pub host: Arc<str>,
    pub port: u16,
    /// Tells it from what had the same number before.
    pub version: u64,
    pub pulse: Arc<Pulse>,
    pub failing: Option<Failing>,
    /// It leads something, as the cluster last said.
    pub leads: bool,
    /// It wants to be left alone until then.
    pub not_before: Option<Instant>,
    pub wake: Arc<Notify>,
    pub task: Option<AbortHandle>,
}

struct Topic {
    name: Arc<str>,
    /// By their numbers, once they are known.
    parts: Vec<usize>,
    /// Those that were named before.
    early: BTreeMap<i32, usize>,
    /// Records that have no partition yet.
    unplaced: Option<usize>,
    /// Where records without a key go for now.
    sticky: Option<usize>,
    unknown_since: Option<Instant>,
}

struct Part {
    topic: usize,
    number: i32,
    leader: Option<i32>,
    epoch: i32,
    leaderless_since: Instant,
    open: Option<RecordBatch>,
    /// Full, or back from their way; in order.
    queue: VecDeque<RecordBatch>,
    /// Batches that are on their way, and to whom.
    on_way: usize,
    on_node: i32,
    /// What is on its way comes back before more is sent.
    is_retrying: bool,
    not_before: Option<Instant>,
    identity: Option<Identity>,
    /// Of the next batch.
    sequence: i32,
    /// The broker has taken something under this number.
    is_proven: bool,
    /// A record was refused: the place of its batch, which those behind it move up to.
    rewind: Option<(u64, i32)>,
    is_busy: bool,
}

impl Part {
    fn new(topic: usize, number: i32, now: Instant) -> Part {
        Part {
            topic,
            number,
            leader: None,
            epoch: -1,
            leaderless_since: now,
            open: None,
            queue: VecDeque::new(),
            on_way: 0,
            on_node: -1,
            is_retrying: false,
            not_before: None,
            identity: None,
            sequence: 0,
            is_proven: false,
            rewind: None,
            is_busy: false,
        }
    }

    fn has_unsent(&self) -> bool {
        self.open.is_some() || !self.queue.is_empty()
    }

    fn lose_leader(&mut self, now: Instant) {
        if self.leader.take().is_some() {
            self.leaderless_since = now;
        }
    }

    /// The oldest that waits.
    fn pop(&mut self) -> Option<RecordBatch> {
        self.queue.pop_front().or_else(|| self.open.take())
    }

    fn oldest(&self) -> Option<&RecordBatch> {
        self.queue.front().or(self.open.as_ref())
    }

    fn insert(&mut self, batch: RecordBatch) {
        let first = batch.first();
        let at = self.queue.partition_point(|other| other.first() < first);
        self.queue.insert(at, batch);
    }
}

/// What a broker is sent next.
pub(super) enum Next {
    /// Batches of parts.
    Send(Vec<(usize, RecordBatch)>),
    /// Nothing before that, or before it is woken.
    Wait(Option<Instant>),
    /// It leads nothing any more, or the writer ends.
    End,
}

/// What a task without a connection is to do.
pub(super) enum Work {
    /// There is something to be sent, or it is to be seen whether the broker is there again.
    Open((Arc<str>, u16, Arc<Pulse>)),
    None,
    End,
}

/// Where a batch goes, for its request.
pub(super) struct Target {
    pub topic: Arc<str>,
    pub partition: i32,
}

pub(in crate::kafka) struct State {
    options: Arc<Options>,
    topics: Vec<Topic>,
    by_name: HashMap<Arc<str>, usize>,
    /// The topic of the last record: mostly that of the next one as well.
    last: usize,
    parts: Vec<Part>,
    /// Parts that have something to be sent.
    busy: Vec<usize>,
    pub(super) nodes: BTreeMap<i32, Node>,
    versions: u64,
    /// For parts that have no number yet.
    pub(super) identity: Option<Identity>,
    pub(super) wants_identity: bool,
    pub(super) wants_metadata: bool,
    pub(super) metadata_failing: Option<Failing>,
    pub(super) metadata_pulse: Arc<Pulse>,
    pub(super) metadata_place: String,
    /// Woken when the cluster is to be asked.
    pub(super) cluster: Arc<Notify>,
    pub(super) was_there: bool,
    /// Records and bytes that are held, wherever they are, and batches that are on their way.
    records: usize,
    bytes: usize,
    on_way: usize,
    /// Where a batch of several records ends.
    batch_bytes: usize,
    /// Somebody waits for all of it, or for room: nothing lingers.
    pub(super) waiting: usize,
    failed: Vec<Failed>,
    has_failed: Arc<AtomicBool>,
    spare: Vec<RecordBatch>,
    chance: u64,
    pub(super) is_ended: bool,
}

fn earlier(until: &mut Option<Instant>, at: Instant) {
    *until = Some(until.map_or(at, |known| known.min(at)));
}

impl State {
    pub fn new(options: &Arc<Options>, has_failed: &Arc<AtomicBool>) -> State {
        State {
            options: Arc::clone(options),
            topics: Vec::new(),
            by_name: HashMap::new(),
            last: 0,
            parts: Vec::new(),
            busy: Vec::new(),
            nodes: BTreeMap::new(),
            versions: 0,
            identity: None,
            wants_identity: options.is_idempotent,
            wants_metadata: false,
            metadata_failing: None,
            metadata_pulse: Arc::default(),
            metadata_place: String::new(),
            cluster: Arc::default(),
            was_there: false,
            records: 0,
            bytes: 0,
            on_way: 0,
            batch_bytes: options.batch_bytes,
            waiting: 0,
            failed: Vec::new(),
            has_failed: Arc::clone(has_failed),
            spare: Vec::new(),
            chance: RandomState::new().hash_one(0) | 1,
            is_ended: false,
        }
    }

    /// Records that are neither confirmed nor given back.
    pub fn records(&self) -> usize {
        self.records
    }

    pub fn on_way(&self) -> usize {
        self.on_way
    }

    pub fn take_failed(&mut self) -> Vec<Failed> {
        self.has_failed.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.failed)
    }

    // ---- from the sink ----

    /// Takes a record into the batch of its partition; `now` is asked for where a batch begins.
    #[inline]
    pub fn append(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        record: &Outgoing<'_>,
        now: impl Fn() -> Instant,
    ) -> Appended {
        let need = record.bytes() + RECORD_OVERHEAD;
        let is_full = self.bytes + need > self.options.held_bytes
            || self.records >= self.options.held_records;
        if is_full && self.records > 0 {
            return Appended::Full;
        }
        let known = self.topics.get(self.last);
        if known.is_none_or(|known| *known.name != *topic) {
            match self.find_topic(topic) {
                Some(index) => self.last = index,
                None => return Appended::Full,
            }
        }
        let index = match self.choose(self.last, partition, record.key, &now) {
            Ok(index) => index,
            Err(count) => return Appended::NoPartition(count),
        };
        self.append_to(index, record, now);
        Appended::Taken
    }

    fn find_topic(&mut self, name: &str) -> Option<usize> {
        if let Some(index) = self.by_name.get(name) {
            return Some(*index);
        }
        if self.topics.len() >= TOPICS_MAX {
            if self.records > 0 {
                return None;
            }
            // Under the same number they would begin in the middle.
            self.topics.clear();
            self.by_name.clear();
            self.parts.clear();
            self.busy.clear();
            self.lose_identity();
        }
        let index = self.topics.len();
        let name: Arc<str> = Arc::from(name);
        self.topics.push(Topic {
            name: Arc::clone(&name),
            parts: Vec::new(),
            early: BTreeMap::new(),
            unplaced: None,
            sticky: None,
            unknown_since: None,
        });
        self.by_name.insert(name, index);
        self.wants_metadata = true;
        self.cluster.notify_one();
        Some(index)
    }

    /// The part that a record goes to; the number of partitions where it names none of them.
    #[inline]
    fn choose(
        &mut self,
        topic: usize,
        partition: Option<i32>,
        key: Option<&[u8]>,
        now: impl Fn() -> Instant,
    ) -> Result<usize, usize> {
        let known = &mut self.topics[topic];
        let count = known.parts.len();
        let parts = &mut self.parts;
        let mut make = |number: i32| {
            parts.push(Part::new(topic, number, now()));
            parts.len() - 1
        };
        match (partition, key) {
            (Some(number), _) if count == 0 => {
                Ok(*known.early.entry(number).or_insert_with(|| make(number)))
            }
            (Some(number), _) => {
                let found = usize::try_from(number).ok();
                let found = found.and_then(|number| known.parts.get(number).copied());
                found.ok_or(count)
            }
            (None, _) if count == 0 => Ok(*known.unplaced.get_or_insert_with(|| make(UNPLACED))),
            (None, Some(key)) => Ok(known.parts[partition_of(key, count)]),
            (None, None) => Ok(self.stick(topic)),
        }
    }

    /// Where a record without a key goes: with those before it until their batch is full or sent, then to a
    /// partition by chance, if it can be to one that has a leader.
    fn stick(&mut self, topic: usize) -> usize {
        let known = &mut self.topics[topic];
        if let Some(index) = known
            .sticky
            .filter(|index| self.parts[*index].open.is_some())
        {
            return index;
        }
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let (parts, count) = (&known.parts, known.parts.len());
        let first = self.chance as usize % count;
        let turn = (0..count).map(|step| parts[(first + step) % count]);
        let led = turn
            .clone()
            .find(|index| self.parts[*index].leader.is_some());
        let index = led.unwrap_or(parts[first]);
        known.sticky = Some(index);
        index
    }

    #[inline]
    fn append_to(&mut self, index: usize, record: &Outgoing<'_>, now: impl Fn() -> Instant) {
        let need = record.bytes() + RECORD_OVERHEAD;
        let part = &mut self.parts[index];
        let is_full = |open: &RecordBatch| {
            open.len() + need > self.batch_bytes || open.count() >= self.options.batch_records
        };
        if part.open.as_ref().is_some_and(is_full) {
            part.queue.extend(part.open.take());
        }
        let is_new = part.open.is_none();
        let spare = &mut self.spare;
        let open = part.open.get_or_insert_with(|| {
            RecordBatch::new(spare.pop().unwrap_or_else(RecordBatch::bare), now())
        });
        self.bytes += open.append(record);
        self.records += 1;
        if is_new {
            self.is_ready(index);
        }
    }

    /// A part has something to be sent: its leader is told, or asked for.
    fn is_ready(&mut self, index: usize) {
        let part = &mut self.parts[index];
        if !std::mem::replace(&mut part.is_busy, true) {
            self.busy.push(index);
        }
        let node = part.leader.and_then(|leader| self.nodes.get(&leader));
        match node {
            Some(node) => node.wake.notify_one(),
            None => {
                self.wants_metadata = true;
                self.cluster.notify_one();
            }
        }
    }

    /// Somebody waits: nothing lingers, and brokers are asked for what there is.
    pub fn hurry(&self) {
        for node in self.nodes.values() {
            node.wake.notify_one();
        }
    }

    /// All that has not been sent comes back, to be sent again behind what failed.
    pub fn take_back(&mut self, cause: &str) {
        for index in std::mem::take(&mut self.busy) {
            self.parts[index].is_busy = false;
            while let Some(batch) = self.parts[index].pop() {
                self.away(index, batch, cause);
            }
        }
    }

    /// Gives back what has been tried for too long.
    pub fn expire(&mut self, now: Instant) {
        let timeout = self.options.delivery;
        for at in (0..self.busy.len()).rev() {
            let index = self.busy[at];
            let part = &self.parts[index];
            let is_unknown = self.topics[part.topic]
                .unknown_since
                .is_some_and(|since| now.saturating_duration_since(since) >= UNKNOWN);
            while let Some(oldest) = self.parts[index].oldest() {
                if !is_unknown && !oldest.is_late(timeout, now) {
                    break;
                }
                let cause = match is_unknown {
                    true => said(code::UNKNOWN_TOPIC_OR_PARTITION),
                    false => self.lost().unwrap_or_else(|| {
                        format!(
                            "the broker has not taken it within {} s",
                            timeout.as_secs_f32()
                        )
                    }),
                };
                if let Some(batch) = self.parts[index].pop() {
                    self.away(index, batch, &cause);
                }
            }
            self.rest(at);
        }
    }

    /// Takes a part from those that are busy, where it has nothing to be sent.
    fn rest(&mut self, at: usize) -> bool {
        let part = &mut self.parts[self.busy[at]];
        let is_idle = !part.has_unsent();
        if is_idle {
            part.is_busy = false;
            self.busy.swap_remove(at);
        }
        is_idle
    }

    // ---- to and from a broker ----

    /// What a task is to do that has no connection to its broker.
    pub fn work(&self, broker: Broker, is_failing: bool) -> Work {
        let node = self.nodes.get(&broker.id);
        let node = node.filter(|node| node.version == broker.version);
        let Some(node) = node.filter(|_| !self.is_ended) else {
            return Work::End;
        };
        let mut busy = self.busy.iter().map(|index| &self.parts[*index]);
        let leads = |part: &Part| part.leader == Some(broker.id) && part.has_unsent();
        match busy.any(leads) || is_failing && node.leads {
            true => Work::Open((Arc::clone(&node.host), node.port, Arc::clone(&node.pulse))),
            false => Work::None,
        }
    }

    /// What a broker is sent next that has so many requests on their way.
    pub fn take(&mut self, broker: Broker, in_flight: usize, now: Instant) -> Next {
        let Broker { id, version } = broker;
        let node = self.nodes.get(&id).filter(|node| node.version == version);
        let Some(node) = node.filter(|_| !self.is_ended) else {
            return Next::End;
        };
        if let Some(at) = node.not_before.filter(|at| *at > now) {
            return Next::Wait(Some(at));
        }
        if in_flight >= self.options.in_flight {
            return Next::Wait(None);
        }
        let (mut batches, mut bytes, mut until) = (Vec::new(), 0, None);
        let mut at = 0;
        while at < self.busy.len() && bytes < REQUEST_BYTES {
            let index = self.busy[at];
            if let Some(batch) = self.take_of(index, id, now, &mut until) {
                bytes += batch.len();
                batches.push((index, batch));
            }
            at += usize::from(!self.rest(at));
        }
        if batches.is_empty() {
            return Next::Wait(until);
        }
        // Those that had no room in this request are the first in the next.
        let turn = at.min(self.busy.len());
        self.busy.rotate_left(turn);
        self.on_way += batches.len();
        let parts = &self.parts;
        batches.sort_unstable_by_key(|(index, _)| (parts[*index].topic, parts[*index].number));
        Next::Send(batches)
    }

    /// The next batch of a part, where it may be sent now.
    fn take_of(
        &mut self,
        index: usize,
        id: i32,
        now: Instant,
        until: &mut Option<Instant>,
    ) -> Option<RecordBatch> {
        let options = &self.options;
        let part = &mut self.parts[index];
        if part.leader != Some(id) {
            return None;
        }
        let is_alone =
            part.is_retrying || part.on_node != id || options.is_idempotent && !part.is_proven;
        if part.on_way > 0 && (is_alone || part.on_way >= options.in_flight) {
            return None;
        }
        if let Some(at) = part.not_before.filter(|at| *at > now) {
            earlier(until, at);
            return None;
        }
        if std::mem::take(&mut part.is_retrying)
            && let Some((first, sequence)) = part.rewind.take()
        {
            part.sequence = sequence;
            for batch in part.queue.iter_mut().filter(|batch| batch.first() > first) {
                batch.sequence = None;
            }
        }
        if options.is_idempotent && part.identity.is_none() {
            let Some(identity) = self.identity else {
                self.wants_identity = true;
                self.cluster.notify_one();
                return None;
            };
            part.identity = Some(identity);
            (part.sequence, part.is_proven) = (0, false);
        }
        if part.queue.is_empty() {
            let open = part.open.as_ref()?;
            if self.waiting == 0 && now.saturating_duration_since(open.since) < options.linger {
                if let Some(at) = open.since.checked_add(options.linger) {
                    earlier(until, at);
                }
                return None;
            }
        }
        let mut batch = part.pop()?;
        if let Some(identity) = part.identity
            && batch.sequence.is_none_or(|(of, _)| of != identity)
        {
            batch.sequence = Some((identity, part.sequence));
            part.sequence = behind(part.sequence, batch.count());
        }
        batch.attempts += 1;
        part.on_way += 1;
        part.on_node = id;
        Some(batch)
    }

    /// Where a batch of a part goes.
    pub fn target(&self, index: usize) -> Target {
        let part = &self.parts[index];
        Target {
            topic: Arc::clone(&self.topics[part.topic].name),
            partition: part.number,
        }
    }

    /// A batch is back from its way.
    fn arrived(&mut self, index: usize) {
        self.on_way -= 1;
        self.parts[index].on_way -= 1;
    }

    /// Nobody knows what became of a batch: it is sent again as it was.
    pub fn unanswered(&mut self, index: usize, batch: RecordBatch) {
        self.arrived(index);
        self.again(index, batch);
    }

    /// The broker has answered to a batch. `refused`: records that it says no to, and what it says of them.
    pub fn answered(
        &mut self,
        index: usize,
        batch: RecordBatch,
        error: i16,
        (refused, message): (&[i32], Option<&str>),
        now: Instant,
    ) {
        self.arrived(index);
        let reason = || message.map_or_else(|| said(error), str::to_owned);
        match error {
            // It was there before: its first answer was lost.
            code::NONE | code::DUPLICATE_SEQUENCE => {
                let part = &mut self.parts[index];
                part.is_proven |= part.identity == batch.sequence.map(|(identity, _)| identity);
                self.release(&batch);
                self.recycle(batch);
            }
            code::MESSAGE_TOO_LARGE | code::RECORD_LIST_TOO_LARGE => match batch.count() {
                0 | 1 => self.refuse(index, batch, Why::TooLong),
                _ => self.shorten(index, &batch),
            },
            code::INVALID_RECORD if batch.count() > 1 => {
                self.without(index, &batch, refused, &reason());
            }
            code::OUT_OF_ORDER_SEQUENCE
            | code::UNKNOWN_PRODUCER_ID
            | code::INVALID_PRODUCER_EPOCH => {
                let part = &self.parts[index];
                let before = part.queue.front();
                let is_behind = part.rewind.is_some()
                    || before.is_some_and(|before| before.first() < batch.first());
                if !is_behind && part.identity == batch.sequence.map(|(identity, _)| identity) {
                    let topic = &*self.topics[part.topic].name;
                    tracing::warn!(
                        topic,
                        partition = part.number,
                        cause = reason(),
                        "broker lost track of the producer; going on under another producer id"
                    );
                    self.renew(index);
                }
                self.again(index, batch);
            }
            code::NOT_LEADER
            | code::UNKNOWN_TOPIC_OR_PARTITION
            | code::LEADER_NOT_AVAILABLE
            | code::REPLICA_NOT_AVAILABLE
            | code::FENCED_LEADER_EPOCH
            | code::UNKNOWN_LEADER_EPOCH
            | code::STORAGE => {
                self.parts[index].lose_leader(now);
                self.retry(index, batch, &reason(), now);
            }
            code::REQUEST_TIMED_OUT
            | code::NETWORK
            | code::CORRUPT_MESSAGE
            | code::NOT_ENOUGH_REPLICAS
            | code::NOT_ENOUGH_REPLICAS_AFTER_APPEND => self.retry(index, batch, &reason(), now),
            code::TOPIC_AUTHORIZATION_FAILED | code::INVALID_TOPIC | code::INVALID_RECORD => {
                self.refuse(index, batch, Why::Refused(reason()));
            }
            _ => self.away(index, batch, &reason()),
        }
        if self.parts[index].has_unsent() {
            self.is_ready(index);
        }
    }

    /// It is sent again, before all behind it.
    fn again(&mut self, index: usize, batch: RecordBatch) {
        let part = &mut self.parts[index];
        part.is_retrying = true;
        part.insert(batch);
        self.is_ready(index);
    }

    fn retry(&mut self, index: usize, batch: RecordBatch, cause: &str, now: Instant) {
        tracing::debug!(
            topic = &*self.topics[self.parts[index].topic].name,
            partition = self.parts[index].number,
            cause,
            "batch is sent again"
        );
        if batch.attempts > self.options.retries {
            return self.away(index, batch, cause);
        }
        self.parts[index].not_before = now.checked_add(self.options.retry_pause);
        self.again(index, batch);
    }

    /// Those behind a batch that the broker does not have move up to its place.
    fn move_up(&mut self, index: usize, batch: &RecordBatch) {
        let part = &mut self.parts[index];
        let Some((identity, sequence)) = batch.sequence else {
            return;
        };
        if part.identity != Some(identity) {
            return;
        }
        part.is_retrying = true;
        let place = (batch.first(), sequence);
        if part.rewind.is_none_or(|(first, _)| place.0 < first) {
            part.rewind = Some(place);
        }
    }

    fn refuse(&mut self, index: usize, batch: RecordBatch, why: Why) {
        self.move_up(index, &batch);
        self.release(&batch);
        self.fail(index, batch, why);
    }

    /// Several records are too long together.
    fn shorten(&mut self, index: usize, batch: &RecordBatch) {
        let shorter = (batch.len() / SHORTER).max(1);
        if shorter < self.batch_bytes {
            self.batch_bytes = shorter;
            tracing::warn!(
                topic = &*self.topics[self.parts[index].topic].name,
                bytes = shorter,
                "broker rejects batches of several records as too large; making them smaller \
                 (property 'batch.size' of the sink sets their initial size)"
            );
        }
        let parted = batch.divide(|_, bytes| match bytes > shorter {
            true => Share::Next,
            false => Share::Same,
        });
        self.replace(index, batch, parted, "");
    }

    /// Some records are refused, the others are sent again.
    fn without(&mut self, index: usize, batch: &RecordBatch, refused: &[i32], cause: &str) {
        let half = batch.count() / 2;
        let parted = batch.divide(|at, _| match refused.contains(&(at as i32)) {
            true => Share::Apart,
            // A broker that does not say which: half of them have another try by themselves.
            false if refused.is_empty() && at == half => Share::Next,
            false => Share::Same,
        });
        self.replace(index, batch, parted, cause);
    }

    fn replace(
        &mut self,
        index: usize,
        batch: &RecordBatch,
        (parts, apart): (Vec<RecordBatch>, Option<RecordBatch>),
        cause: &str,
    ) {
        self.move_up(index, batch);
        self.release(batch);
        for piece in parts {
            self.hold(&piece);
            self.again(index, piece);
        }
        if let Some(apart) = apart {
            self.fail(index, apart, Why::Refused(cause.to_owned()));
        }
    }

    /// Gives up a batch. Where the broker may have it, what follows has another number.
    fn away(&mut self, index: usize, batch: RecordBatch, cause: &str) {
        let identity = self.parts[index].identity;
        if batch.sequence.is_some_and(|(of, _)| Some(of) == identity) {
            self.renew(index);
        }
        self.release(&batch);
        self.fail(index, batch, Why::Away(cause.to_owned()));
    }

    fn fail(&mut self, index: usize, batch: RecordBatch, why: Why) {
        self.has_failed.store(true, Ordering::Release);
        self.failed.push(Failed {
            topic: Arc::clone(&self.topics[self.parts[index].topic].name),
            why,
            batch,
        });
    }

    /// A part goes on under another number.
    fn renew(&mut self, index: usize) {
        let part = &mut self.parts[index];
        let spent = part.identity.take();
        (part.is_proven, part.rewind) = (false, None);
        part.is_retrying |= part.on_way > 0;
        if spent.is_some() && self.identity == spent {
            self.lose_identity();
        }
    }

    fn lose_identity(&mut self) {
        self.identity = None;
        self.wants_identity = self.options.is_idempotent;
        self.cluster.notify_one();
    }

    fn hold(&mut self, batch: &RecordBatch) {
        self.records += batch.count();
        self.bytes += batch.weight();
    }

    fn release(&mut self, batch: &RecordBatch) {
        self.records -= batch.count();
        self.bytes = self.bytes.saturating_sub(batch.weight());
    }

    /// Keeps the buffers of a batch for another, unless they were made for a record that was very long.
    pub fn recycle(&mut self, mut batch: RecordBatch) {
        let most = self.options.batch_bytes.saturating_mul(SHORTER);
        if self.spare.len() < SPARE_MAX && batch.capacity() <= most {
            batch.empty();
            self.spare.push(batch);
        }
    }

    // ---- for whom it may concern ----

    /// Why some of what is held cannot be written now.
    pub fn lost(&self) -> Option<String> {
        for node in self.nodes.values().filter(|node| node.leads) {
            let (host, port) = (&node.host, node.port);
            if let Some(cause) = Failing::said(node.failing.as_ref()) {
                return Some(format!("broker {host}:{port}: {cause}"));
            }
            if let Some(cause) = node.pulse.quiet(SILENT) {
                return Some(format!("broker {host}:{port} {cause}"));
            }
        }
        if let Some(cause) = Failing::said(self.metadata_failing.as_ref()) {
            return Some(cause);
        }
        if let Some(cause) = self.metadata_pulse.quiet(SILENT) {
            return Some(format!("broker {} {cause}", self.metadata_place));
        }
        let is_leaderless = |part: &Part| {
            let is_known = self.topics[part.topic].unknown_since.is_none() && part.number >= 0;
            is_known && part.leader.is_none() && part.leaderless_since.elapsed() >= LEADERLESS
        };
        let parts = self.busy.iter().map(|index| &self.parts[*index]);
        let part = parts.into_iter().find(|part| is_leaderless(part))?;
        let topic = &self.topics[part.topic].name;
        Some(format!(
            "topic '{topic}' partition {} has no leader",
            part.number
        ))
    }

    /// What went wrong last, for what came to nothing.
    pub fn cause(&self) -> Option<String> {
        let failing = self.nodes.values().find_map(|node| node.failing.as_ref());
        let failing = failing.or(self.metadata_failing.as_ref());
        self.lost()
            .or_else(|| failing.map(|failing| failing.cause.clone()))
    }
}

/// The place behind so many records.
fn behind(sequence: i32, count: usize) -> i32 {
    (i64::from(sequence) + count as i64) as i32 & i32::MAX
}
