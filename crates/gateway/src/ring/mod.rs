//! The events of one address: a ring that all readers share, each with a cursor into it.
//!
//! Promises: an event is encoded once, however many readers there are; what is held is bounded in events and bytes; a
//! reader gets each event after its cursor once and in order, or is told of the gap; an id of another ring, or of this
//! one before it lost its events, is never taken for one of its own. Never: a queue of one reader.

mod id;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use connect::net::events::write_data;
use connect::net::websocket::{Kind, Shared};
use tokio::sync::Notify;

pub(crate) use id::EventId;

use crate::model::{History, Slow};

/// Events that a ring holds at least for those who read right now, however short its history is.
const LIVE_EVENTS: usize = 1024;

/// Bytes that one ring holds; of a longer event it holds that one alone.
const RING_BYTES_MAX: usize = 16 << 20;

/// Longest wait for a reader that has read nothing: then it is disconnected.
pub(crate) const SLOW_MAX: Duration = Duration::from_secs(5);

/// An event, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// As server-sent event, with its id.
    pub sse: Bytes,
    /// As it was published, and as a message of WebSocket; empty where it says that events are missing.
    pub message: Arc<Shared>,
    /// It stands for events that nobody has seen.
    pub is_gap: bool,
    at: Instant,
}

/// Why a ring ends for its readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The server stops.
    Stopping,
    /// There is no such topic any more.
    Removed,
    /// The reader was too slow.
    Slow,
}

impl End {
    /// For clients.
    pub fn reason(self) -> &'static str {
        match self {
            End::Stopping => "restart",
            End::Removed => "removed",
            End::Slow => "slow",
        }
    }
}

/// Where a reader begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// With what comes next.
    Now,
    /// Behind the event of this id.
    After(String),
}

/// What a reader got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Events, which were handed over.
    Events,
    /// Events are missing: how many, where that is known, and the first one that comes now, where there is one.
    Gap {
        missed: Option<u64>,
        earliest: Option<EventId>,
    },
    End(End),
}

/// A reader that is waited for has not read what would have to go.
#[derive(Debug)]
pub(crate) struct Full;

pub(crate) struct Ring {
    epoch: u64,
    history: History,
    slow: Slow,
    /// Bytes of all rings of the topic.
    topic_bytes: Arc<AtomicUsize>,
    state: Mutex<State>,
    /// Told when a reader that is waited for has read.
    room: Notify,
    /// Told when the first reader has come, and when the last one has gone.
    audience: Notify,
}

struct State {
    entries: VecDeque<Entry>,
    /// The sequence number of the first entry.
    first: u64,
    bytes: usize,
    seats: Vec<Option<Seat>>,
    free: Vec<usize>,
    end: Option<End>,
    /// When something was published or read last.
    used: Instant,
    /// Its room is used again.
    woken: Vec<Waker>,
}

struct Seat {
    /// The sequence number of what it reads next.
    cursor: u64,
    waker: Option<Waker>,
    is_cut: bool,
}

impl State {
    fn head(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().flatten()
    }
}

/// Epochs of rings: no two of one process have the same, and those of the next process are later.
static EPOCHS: AtomicU64 = AtomicU64::new(0);

fn next_epoch() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let now = since.map_or(1, |since| since.as_micros() as u64);
    let before = EPOCHS.fetch_max(now, Ordering::Relaxed);
    match before < now {
        true => now,
        false => EPOCHS.fetch_add(1, Ordering::Relaxed) + 1,
    }
}

impl Ring {
    pub fn new(history: History, slow: Slow, topic_bytes: Arc<AtomicUsize>) -> Ring {
        Ring {
            epoch: next_epoch(),
            history,
            slow,
            topic_bytes,
            state: Mutex::new(State {
                entries: VecDeque::new(),
                first: 1,
                bytes: 0,
                seats: Vec::new(),
                free: Vec::new(),
                end: None,
                used: Instant::now(),
                woken: Vec::new(),
            }),
            room: Notify::new(),
            audience: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, sequence: u64) -> EventId {
        EventId {
            epoch: self.epoch,
            sequence,
        }
    }

    /// Appends an event and wakes those who wait for it.
    ///
    /// # Errors
    /// [`Full`] where a reader is waited for; nothing was appended.
    pub fn try_publish(&self, payload: &Bytes, is_text: bool, kind: &str) -> Result<(), Full> {
        self.append(payload, is_text, kind, false)
    }

    /// Notes that events are missing which nobody has seen: those of a backend while it was away.
    pub fn note_gap(&self) {
        // A reader that is slow is told of its own gap.
        self.append(&Bytes::new(), true, "gap", true).ok();
    }

    fn append(&self, payload: &Bytes, is_text: bool, kind: &str, is_gap: bool) -> Result<(), Full> {
        let now = Instant::now();
        let mut state = self.lock();
        let len = payload.len();
        let capacity = self.history.events.max(LIVE_EVENTS);
        while !state.entries.is_empty()
            && (state.entries.len() >= capacity || state.bytes + len > RING_BYTES_MAX)
        {
            if self.is_awaited(&state) {
                return Err(Full);
            }
            self.evict(&mut state);
        }
        while self.is_old(&state, now) && !self.is_awaited(&state) {
            self.evict(&mut state);
        }
        let id = self.id(state.head());
        let sse = encode(id, payload, kind, is_gap);
        let kind = Kind::of(is_text && std::str::from_utf8(payload).is_ok());
        let message = Arc::new(Shared::new(kind, payload.clone()));
        let bytes = sse.len() + message.held_max();
        state.bytes += bytes;
        self.topic_bytes.fetch_add(bytes, Ordering::Relaxed);
        state.entries.push_back(Entry {
            sse,
            message,
            is_gap,
            at: now,
        });
        state.used = now;
        self.wake(state);
        Ok(())
    }

    /// Would a reader that is waited for lose the first entry?
    fn is_awaited(&self, state: &State) -> bool {
        self.slow == Slow::Wait
            && state
                .seats()
                .any(|seat| seat.cursor <= state.first && !seat.is_cut)
    }

    fn is_old(&self, state: &State, now: Instant) -> bool {
        let first = state.entries.front();
        let age = first.map(|entry| now.saturating_duration_since(entry.at));
        age.zip(self.history.age)
            .is_some_and(|(age, max)| age > max)
    }

    fn evict(&self, state: &mut State) {
        if let Some(entry) = state.entries.pop_front() {
            let bytes = entry.sse.len() + entry.message.held_max();
            state.first += 1;
            state.bytes -= bytes;
            self.topic_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Gives up the older half of what is held, where nobody is waited for.
    pub fn shrink(&self) {
        let mut state = self.lock();
        let keep = state.entries.len() / 2;
        while state.entries.len() > keep && !self.is_awaited(&state) {
            self.evict(&mut state);
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let mut woken = std::mem::take(&mut state.woken);
        woken.extend(
            state
                .seats
                .iter_mut()
                .flatten()
                .filter_map(|seat| seat.waker.take()),
        );
        drop(state);
        woken.drain(..).for_each(Waker::wake);
        self.lock().woken = woken;
    }

    /// As [`Ring::try_publish`], but waits for readers that are waited for; who reads nothing for [`SLOW_MAX`] is
    /// disconnected.
    pub async fn publish(&self, payload: &Bytes, is_text: bool, kind: &str) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            if self.try_publish(payload, is_text, kind).is_ok() {
                return;
            }
            if tokio::time::timeout(SLOW_MAX, room).await.is_err() {
                self.cut_slowest();
            }
        }
    }

    /// Disconnects those who have not read the first entry.
    pub fn cut_slowest(&self) {
        let mut state = self.lock();
        let first = state.first;
        for seat in state.seats.iter_mut().flatten() {
            seat.is_cut |= seat.cursor <= first;
        }
        self.wake(state);
        self.room.notify_waiters();
    }

    /// Nothing follows: readers get what there is, and then the reason.
    pub fn end(&self, end: End) {
        let mut state = self.lock();
        state.end = Some(end);
        self.wake(state);
    }

    /// Takes back an [`Ring::end`].
    pub fn go_on(&self) {
        self.lock().end = None;
    }

    pub fn readers(&self) -> usize {
        self.lock().seats().count()
    }

    /// Returns when nobody has read for so long.
    pub async fn deserted(&self, linger: Duration) {
        loop {
            let mut changed = std::pin::pin!(self.audience.notified());
            changed.as_mut().enable();
            if self.readers() > 0 {
                changed.await;
            } else if tokio::time::timeout(linger, changed).await.is_err() {
                return;
            }
        }
    }

    /// Since when nobody reads, and nothing was published.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        let is_read = state.seats().next().is_some();
        (!is_read).then_some(state.used)
    }

    pub fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// The earliest sequence number that one who comes back may go on from.
    fn earliest(&self, state: &State, now: Instant) -> u64 {
        let kept = state.head().saturating_sub(self.history.events as u64);
        let mut earliest = state.first.max(kept);
        if let Some(max) = self.history.age {
            let is_old = |entry: &&Entry| now.saturating_duration_since(entry.at) > max;
            let old = state.entries.iter().take_while(is_old).count() as u64;
            earliest = earliest.max(state.first + old);
        }
        earliest
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.topic_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn encode(id: EventId, payload: &Bytes, kind: &str, is_gap: bool) -> Bytes {
    let mut text = String::with_capacity(payload.len() + kind.len() + 48);
    id.write(&mut text);
    if is_gap {
        text.push_str("event: gap\ndata: {\"missed\":null}\n\n");
        return text.into();
    }
    if !kind.is_empty() && kind != "message" {
        text.push_str("event: ");
        text.push_str(kind);
        text.push('\n');
    }
    write_data(&mut text, &String::from_utf8_lossy(payload));
    text.push('\n');
    text.into()
}

/// Who reads a ring, until dropped.
pub(crate) struct Reader {
    ring: Arc<Ring>,
    seat: usize,
    /// Told first.
    gap: Option<Step>,
}

impl Reader {
    pub fn new(ring: &Arc<Ring>, from: &From) -> Reader {
        let mut state = ring.lock();
        let (cursor, gap) = start(ring, &state, from);
        let seat = Seat {
            cursor,
            waker: None,
            is_cut: false,
        };
        let number = match state.free.pop() {
            Some(free) => {
                state.seats[free] = Some(seat);
                free
            }
            None => {
                state.seats.push(Some(seat));
                state.seats.len() - 1
            }
        };
        let is_first = state.seats().nth(1).is_none();
        drop(state);
        if is_first {
            ring.audience.notify_waiters();
        }
        Reader {
            ring: Arc::clone(ring),
            seat: number,
            gap,
        }
    }

    /// Hands over the events behind the cursor, up to so many bytes and at least one, or waits for one.
    pub fn poll_step(
        &mut self,
        context: &mut Context<'_>,
        bytes_max: usize,
        mut take: impl FnMut(&Entry),
    ) -> Poll<Step> {
        if let Some(gap) = self.gap.take() {
            return Poll::Ready(gap);
        }
        let ring = &*self.ring;
        let mut state = ring.lock();
        let (first, head, end) = (state.first, state.head(), state.end);
        let Some(seat) = state.seats[self.seat].as_mut() else {
            return Poll::Ready(Step::End(End::Removed));
        };
        if seat.is_cut {
            return Poll::Ready(Step::End(End::Slow));
        }
        if seat.cursor < first {
            let to = match ring.slow {
                Slow::Disconnect => return Poll::Ready(Step::End(End::Slow)),
                Slow::Latest => head.saturating_sub(1).max(first),
                Slow::DropOldest | Slow::Wait => first,
            };
            let missed = Some(to - seat.cursor);
            seat.cursor = to;
            let earliest = (to < head).then(|| ring.id(to));
            return Poll::Ready(Step::Gap { missed, earliest });
        }
        let from = seat.cursor;
        if from == head {
            if let Some(end) = end {
                return Poll::Ready(Step::End(end));
            }
            if !seat
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(context.waker()))
            {
                seat.waker = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        let (mut bytes, mut taken) = (0, 0);
        for entry in state.entries.iter().skip((from - first) as usize) {
            if taken > 0 && bytes + entry.sse.len() > bytes_max {
                break;
            }
            bytes += entry.sse.len();
            taken += 1;
            take(entry);
        }
        if let Some(seat) = state.seats[self.seat].as_mut() {
            seat.cursor = from + taken;
        }
        drop(state);
        if ring.slow == Slow::Wait && from == first {
            ring.room.notify_waiters();
        }
        Poll::Ready(Step::Events)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.ring.lock();
        state.seats[self.seat] = None;
        state.free.push(self.seat);
        state.used = Instant::now();
        let is_last = state.seats().next().is_none();
        drop(state);
        self.ring.room.notify_waiters();
        if is_last {
            self.ring.audience.notify_waiters();
        }
    }
}

/// The cursor of a reader that begins, and the gap that it has to be told of.
fn start(ring: &Ring, state: &State, from: &From) -> (u64, Option<Step>) {
    let head = state.head();
    let From::After(text) = from else {
        return (head, None);
    };
    let earliest = ring.earliest(state, Instant::now());
    let known = EventId::parse(text).filter(|id| id.epoch == ring.epoch && id.sequence < head);
    let missed = match known {
        Some(id) if id.sequence + 1 >= earliest => return (id.sequence + 1, None),
        Some(id) => Some(earliest - id.sequence - 1),
        None => None,
    };
    let gap = Step::Gap {
        missed,
        earliest: (earliest < head).then(|| ring.id(earliest)),
    };
    (earliest, Some(gap))
}

#[cfg(test)]
mod tests;
