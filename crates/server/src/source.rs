//! The thread of a source: runs it, hands its rows to the executor, tries again when the other side has
//! gone, and says so loudly.

mod batch;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use connect::arrivals::Account;
use connect::component::{
    Connection, Finished, Payload, Progress, Room, Sequence, Signal, Source, SourceLink, Waker,
};
use connect::row_decoder::RowDecoder;
use connect::rows::{Lines, Properties, Rejected};

use crate::activity::{ActivityTracker, SourceState};
use crate::backoff::{Backoff, Reminder, RetrySchedule, seconds};
use crate::clock::Clock;
use crate::executor::{ExecutorInput, InputQueue};
use crate::health::Health;
use crate::metrics::{Metrics, SourceMetrics};
use crate::otlp::{Span, Tracer};
use crate::process::Process;
use crate::queue::{Unpushed, Weight};
use crate::rejected::encoded_properties;
use crate::report::{chain, panic_text};
use crate::statistics::SourceMapping;
pub(crate) use batch::{PlacedRejected, Position, SourceBatch};

/// How long a source that has read everything may wait for its last acknowledgement while the
/// server stops, so that it can still move or delete its file.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Between two looks with `--until-done` while no source reads anything.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// How often a source that waits to try again looks whether something has happened.
const RETRY_LOOK: Duration = Duration::from_millis(500);

/// The way back to a source: stop, and what has been acknowledged.
pub(crate) struct SourceHandle {
    /// As long as a stop lets the source wait for its last acknowledgement.
    stop_grace: Duration,
    state: Mutex<HandleState>,
    changed: Condvar,
}

#[derive(Default)]
struct HandleState {
    acked: Sequence,
    /// Up to here the source knows.
    told: Sequence,
    stop_since: Option<Instant>,
    /// Nothing will be acknowledged any more.
    is_abandoned: bool,
    /// The input of the whole run has ended.
    is_end: bool,
    /// A connection of the source has something for it.
    is_woken: bool,
    /// The source waits. To notify costs a system call, even if nobody waits.
    is_waiting: bool,
}

/// What ends a wait beside the signals of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Signal,
    End,
    Wake,
}

impl Waker for SourceHandle {
    fn wake(&self) {
        self.change(|state| state.is_woken = true);
    }
}

impl SourceHandle {
    /// Of a source of this group.
    pub fn new(health: &Health) -> SourceHandle {
        SourceHandle::within(health.patience(STOP_GRACE))
    }

    fn within(stop_grace: Duration) -> SourceHandle {
        SourceHandle {
            stop_grace,
            state: Mutex::default(),
            changed: Condvar::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut HandleState)) {
        let mut state = self.lock();
        change(&mut state);
        let is_awaited = state.is_waiting;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    pub fn ack(&self, sequence: Sequence) {
        self.change(|state| state.acked = state.acked.max(sequence));
    }

    pub fn stop(&self) {
        self.change(|state| _ = state.stop_since.get_or_insert_with(Instant::now));
    }

    /// The executor has gone: the source stops without waiting for it.
    pub fn abandon(&self) {
        self.change(|state| state.is_abandoned = true);
    }

    pub fn end(&self) {
        self.change(|state| state.is_end = true);
    }

    /// As [`SourceHandle::wait`], and also until the input of the run has ended, or it is woken.
    fn idle(&self, posted: Sequence, timeout: Duration) -> Signal {
        self.wait_for(posted, timeout, Until::End)
    }

    /// Waits for a stop alone: what is acknowledged meanwhile is told later.
    fn stops_within(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        let stops = |state: &HandleState| state.stop_since.is_some() || state.is_abandoned;
        state.is_waiting = true;
        let waited = self
            .changed
            .wait_timeout_while(state, timeout, |state| !stops(state));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_waiting = false;
        stops(&state)
    }

    /// `posted`: the last batch that the source wants to see acknowledged.
    fn wait(&self, posted: Sequence, timeout: Duration) -> Signal {
        self.wait_for(posted, timeout, Until::Signal)
    }

    /// As [`SourceHandle::wait`], and also until it is woken.
    fn listen(&self, posted: Sequence, timeout: Duration) -> Signal {
        self.wait_for(posted, timeout, Until::Wake)
    }

    fn wait_for(&self, posted: Sequence, timeout: Duration, until_also: Until) -> Signal {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            if state.acked > state.told {
                state.told = state.acked;
                return Signal::Acked(state.told);
            }
            if state.is_abandoned {
                return Signal::Stop;
            }
            if until_also == Until::End && state.is_end {
                return Signal::End;
            }
            let is_woken = until_also != Until::Signal && std::mem::take(&mut state.is_woken);
            let now = Instant::now();
            let mut until = deadline;
            if let Some(since) = state.stop_since {
                // A source that only waits for its last acknowledgement gets it before it stops.
                let grace_ends = since + self.stop_grace;
                if timeout.is_zero() || state.acked >= posted || now >= grace_ends {
                    return Signal::Stop;
                }
                until = Some(until.map_or(grace_ends, |d| d.min(grace_ends)));
            }
            if is_woken || deadline.is_some_and(|d| now >= d) {
                return Signal::Timeout;
            }
            state.is_waiting = true;
            state = match until {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    self.changed
                        .wait_timeout(state, until.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
            state.is_waiting = false;
        }
    }
}

/// Everything the thread of a source works with.
pub(crate) struct SourceThread {
    pub name: String,
    pub number: usize,
    /// Its number in the [`ActivityTracker`].
    pub activity_id: usize,
    pub source: Box<dyn Source>,
    pub decoder: RowDecoder,
    pub input_queue: Arc<InputQueue>,
    pub source_handle: Arc<SourceHandle>,
    pub activity: Arc<ActivityTracker>,
    pub metrics: Arc<SourceMetrics>,
    pub mapping: SourceMapping,
    pub server_metrics: Arc<Metrics>,
    pub tracer: Option<Tracer>,
    pub process: Process,
    pub clock: Clock,
    pub until_done: bool,
    /// Transport properties by which a message is found again where it came from.
    pub message_key: &'static [&'static str],
}

impl SourceThread {
    /// Runs until the source has ended for good, or the server stops.
    pub fn run(self) {
        let (name, activity_id, activity) = (
            self.name.clone(),
            self.activity_id,
            Arc::clone(&self.activity),
        );
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        if let Err(panic) = outcome {
            let cause = panic_text(panic.as_ref());
            tracing::error!(source = name, cause, "source stopped by an internal error");
            activity.set(activity_id, SourceState::Failed { cause });
        }
    }

    fn run_inner(self) {
        let SourceThread {
            name,
            number,
            activity_id,
            mut source,
            decoder,
            input_queue,
            source_handle,
            activity,
            metrics,
            mapping,
            server_metrics,
            tracer,
            process,
            clock,
            until_done,
            message_key,
        } = self;
        let mut link = Link {
            name: &name,
            number,
            activity_id,
            look_since: 0,
            decoder,
            input_queue: &input_queue,
            source_handle: &source_handle,
            activity: &activity,
            metrics: &metrics,
            mapping,
            server_metrics: &server_metrics,
            tracer,
            process,
            clock,
            until_done,
            message_key,
            is_reply: source.is_reply(),
            sequence: 0,
            asked_for: 0,
            bytes_counted: 0,
            bytes_between: 0,
            input: String::new(),
            record: None,
            rejected: Vec::new(),
            held: None,
            refusal: None,
            was_busy: false,
            was_connected: false,
            address: String::new(),
            has_begun: false,
            is_given_up: false,
        };
        let (mut backoff, mut reminder) = (Backoff::default(), Reminder::default());
        loop {
            let (since, begun) = (activity.count(), Instant::now());
            link.was_busy = false;
            link.was_connected = false;
            link.look_since = since;
            activity.set(activity_id, SourceState::Running);
            metrics.has_ended.store(false, Ordering::Relaxed);
            let result = match link.decoder.ready(None) {
                Ok(()) => source.run(&mut link),
                Err(error) => Err(error),
            };
            metrics.is_connected.store(false, Ordering::Relaxed);
            if link.was_connected {
                // Each loss is said.
                reminder = Reminder::default();
                // One that is let in and thrown out again is tried at growing intervals all the same.
                if begun.elapsed() >= RetrySchedule::MAX {
                    backoff.succeeded();
                }
            }
            match result {
                Ok(Finished::Ended | Finished::Stopped) | Err(connect::Error::Stopped) => {
                    if link.was_busy {
                        activity.record();
                    }
                    metrics.has_ended.store(true, Ordering::Relaxed);
                    activity.set(activity_id, SourceState::Ended);
                    return;
                }
                Err(error) if error.is_unavailable() => {
                    let cause = chain(&error);
                    let pause = backoff.after(&error);
                    metrics.retries.add(1);
                    if reminder.is_due(&cause) {
                        tracing::error!(
                            source = name,
                            cause,
                            again_in_seconds = seconds(pause),
                            "cannot connect source"
                        );
                    }
                    metrics.presence.lost(&cause, Some(pause));
                    let has_no_port = matches!(error, connect::Error::Listen { .. });
                    activity.retrying(activity_id, cause, since, has_no_port);
                    if !wait_to_retry(&source_handle, &activity, since, pause, until_done) {
                        return;
                    }
                }
                Err(error) => {
                    let cause = chain(&error);
                    tracing::error!(source = name, cause, "source failed");
                    metrics.presence.lost(&cause, None);
                    activity.set(activity_id, SourceState::Failed { cause });
                    return;
                }
            }
        }
    }
}

/// False: the server stops. With `--until-done` a try is made early when something has happened in
/// the server, because that may be what the source lacked (a folder made by another app).
fn wait_to_retry(
    source_handle: &SourceHandle,
    activity: &ActivityTracker,
    since: u64,
    pause: Duration,
    until_done: bool,
) -> bool {
    let end = Instant::now() + pause;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        let slice = if until_done {
            left.min(RETRY_LOOK)
        } else {
            left
        };
        if matches!(source_handle.wait(0, slice), Signal::Stop) {
            return false;
        }
        if until_done && activity.count() != since {
            return true;
        }
    }
}

struct Link<'a> {
    name: &'a str,
    number: usize,
    activity_id: usize,
    /// Where the counter of the activity tracker stood when the present look at the input began.
    look_since: u64,
    decoder: RowDecoder,
    input_queue: &'a InputQueue,
    source_handle: &'a Arc<SourceHandle>,
    activity: &'a ActivityTracker,
    metrics: &'a SourceMetrics,
    mapping: SourceMapping,
    server_metrics: &'a Metrics,
    tracer: Option<Tracer>,
    process: Process,
    clock: Clock,
    until_done: bool,
    message_key: &'static [&'static str],
    is_reply: bool,
    sequence: Sequence,
    /// The executor was asked to acknowledge up to here.
    asked_for: Sequence,
    bytes_counted: u64,
    /// Line ends and empty lines since the last batch: read, but part of no message.
    bytes_between: u64,
    /// File that is being read or message that is mapped, for the place of what is rejected.
    input: String,
    /// Input and number of the record that is read, where the source counts records.
    record: Option<(Arc<str>, i64)>,
    rejected: Vec<PlacedRejected>,
    /// Bytes of the server's budget that the next batch holds.
    held: Option<Account>,
    /// Why something of the last message was rejected.
    refusal: Option<String>,
    /// Rows were posted, or something was acknowledged, in this run.
    was_busy: bool,
    was_connected: bool,
    /// Where it is listened for input.
    address: String,
    /// The pulse knows that it reads.
    has_begun: bool,
    /// A message could not be mapped before the stop: nothing more is posted.
    is_given_up: bool,
}

impl Link<'_> {
    /// Some of the batches are followed from here on.
    fn span(&self, rows: usize) -> Option<Span> {
        let mut span = self.tracer.as_ref()?.batch("batch")?;
        let label = &self.metrics.label;
        span.set("app", &label.app);
        span.set("stream", &label.element);
        span.set("source", &label.ty);
        span.set_count("events", rows);
        Some(span)
    }

    /// Waits for room, and counts how long: for so long the app holds the source back.
    fn push(&self, input: ExecutorInput, weight: Weight) -> Result<(), connect::Error> {
        if self.is_reply {
            let pushed = self.input_queue.push_past(input, weight);
            return pushed.map_err(|_| connect::Error::Stopped);
        }
        let begun = Instant::now();
        let input = match self.input_queue.push_until(input, weight, begun) {
            Ok(()) => return Ok(()),
            Err(Unpushed::Closed) => return Err(connect::Error::Stopped),
            Err(Unpushed::Late(input)) => input,
        };
        let pushed = self.input_queue.push(input, weight);
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.metrics.held_back_nanos.add(nanos);
        pushed.map_err(|_| connect::Error::Stopped)
    }

    /// Waits until the mapper has what it needs for the message. False: the source stops before.
    fn is_mappable(&mut self, payload: Payload<'_>) -> bool {
        let (mut backoff, mut reminder) = (Backoff::default(), Reminder::default());
        while let Err(error) = self.decoder.ready(Some(payload)) {
            if !error.is_unavailable() {
                // The mapper rejects the message in its own words.
                break;
            }
            let (pause, cause) = (backoff.away(), chain(&error));
            self.metrics.retries.add(1);
            if reminder.is_due(&cause) {
                tracing::error!(
                    source = self.name,
                    cause,
                    again_in_seconds = seconds(pause),
                    "source is waiting for its mapper"
                );
            }
            if self.source_handle.stops_within(pause) {
                self.is_given_up = true;
                return false;
            }
        }
        !self.is_given_up
    }

    fn note_input(&mut self, properties: &Properties) {
        if let Some(path) = properties.get("file.path").as_str()
            && path != self.input
        {
            self.input = path.to_owned();
        }
    }

    /// Something is being done that may bring others more to do.
    fn is_busy(&mut self) {
        if !self.was_busy {
            self.was_busy = true;
            self.activity.set(self.activity_id, SourceState::Running);
        }
    }

    /// It reads, connected or not: a file that has nothing new has nobody to connect to.
    fn begun(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.activity.begun(self.activity_id);
        }
    }

    fn ask_for_acknowledgement(&mut self) {
        if self.sequence > self.asked_for {
            self.asked_for = self.sequence;
            // An executor that has gone acknowledges nothing; the stop arrives by its handle.
            self.input_queue
                .push_always(ExecutorInput::Acknowledge)
                .ok();
        }
    }

    fn keep_rejected(&mut self) {
        for rejected in self.decoder.take_rejected() {
            self.reject(rejected);
        }
    }

    /// As [`Link::keep_rejected`], of lines with these properties.
    fn keep_rejected_lines(&mut self, properties: &Properties) {
        let before = self.rejected.len();
        self.keep_rejected();
        self.note_properties(before, properties);
    }

    /// What was rejected since has these transport properties.
    fn note_properties(&mut self, since: usize, properties: &Properties) {
        if self.rejected.len() > since {
            let encoded = encoded_properties(properties);
            for placed in &mut self.rejected[since..] {
                placed.properties.clone_from(&encoded);
            }
        }
    }

    /// As [`Link::keep_rejected`], of a message that knows where it came from.
    fn keep_rejected_of(&mut self, properties: &Properties) {
        let all = self.decoder.take_rejected();
        if all.is_empty() {
            return;
        }
        let places = self
            .message_key
            .iter()
            .filter_map(|name| match properties.get(name) {
                event::Value::Null => None,
                value => {
                    let mut text = format!("{name} ");
                    event::text::write_value(&mut text, value);
                    Some(text)
                }
            });
        let place: Vec<String> = places.collect();
        if !place.is_empty() {
            self.input = place.join(", ");
        }
        let before = self.rejected.len();
        for rejected in all {
            self.reject(rejected);
        }
        self.note_properties(before, properties);
    }
}

impl SourceLink for Link<'_> {
    fn map(&mut self, payload: Payload<'_>, properties: &Properties) -> Room {
        self.refusal = None;
        self.note_input(properties);
        if !self.is_mappable(payload) {
            return Room::Full;
        }
        let room = self.mapping.time(|| self.decoder.map(payload, properties));
        self.keep_rejected_of(properties);
        room
    }

    fn map_lines(&mut self, lines: &mut Lines<'_>, properties: &Properties) -> Room {
        self.note_input(properties);
        let (start, mapped) = (lines.position(), self.decoder.bytes_total());
        let room = self
            .mapping
            .time(|| self.decoder.map_lines(lines, properties));
        let mapped = self.decoder.bytes_total() - mapped;
        self.bytes_between += (lines.position() - start).saturating_sub(mapped);
        self.keep_rejected_lines(properties);
        room
    }

    fn end_of_input(&mut self) {
        self.decoder.end_of_input();
        self.keep_rejected();
    }

    fn post(&mut self, position: &[u8]) -> Result<Sequence, connect::Error> {
        if self.is_given_up {
            return Err(connect::Error::Stopped);
        }
        let batch = self.decoder.take();
        self.begun();
        self.mapping.next_batch();
        let bytes_total = self.decoder.bytes_total();
        let between = std::mem::take(&mut self.bytes_between);
        let bytes = bytes_total - self.bytes_counted + between;
        self.bytes_counted = bytes_total;
        self.metrics.bytes.add(bytes);
        let rows = batch.as_ref().map_or(0, |b| b.len);
        if rows > 0 {
            self.is_busy();
            let process = self.process;
            self.server_metrics.event_seen(|| process.millis());
            self.metrics.events.add(rows as u64);
        }
        self.sequence += 1;
        let mut mapper = Vec::new();
        self.decoder.save(&mut mapper);
        let post = SourceBatch {
            source: self.number,
            sequence: self.sequence,
            batch,
            position: Position {
                source: position.to_vec(),
                mapper,
            },
            rejected: std::mem::take(&mut self.rejected),
            held: self.held.take(),
            span: self.span(rows),
        };
        let weight = Weight {
            rows: rows.max(1),
            bytes: bytes as usize,
        };
        let input = ExecutorInput::SourceBatch(Box::new(post));
        self.push(input, weight)?;
        Ok(self.sequence)
    }

    fn hold(&mut self, bytes: Account) {
        match &mut self.held {
            Some(held) => held.absorb(bytes),
            none => *none = Some(bytes),
        }
    }

    fn wait(&mut self, timeout: Duration) -> Signal {
        if !timeout.is_zero() {
            // It waits for acknowledgements, so it has read.
            self.begun();
            self.is_busy();
            self.ask_for_acknowledgement();
        }
        let signal = self.source_handle.wait(self.sequence, timeout);
        if matches!(signal, Signal::Acked(_)) {
            self.is_busy();
        }
        signal
    }

    fn idle(&mut self, pause: Duration) -> Signal {
        if std::mem::take(&mut self.was_busy) {
            self.activity.record();
        }
        self.ask_for_acknowledgement();
        self.activity
            .found_nothing(self.activity_id, self.look_since);
        // When all have read what there is, the second look need not be a whole pause later.
        let pause = if self.until_done && !self.activity.is_any_source_running() {
            pause.min(LAST_LOOK)
        } else {
            pause
        };
        let signal = self.source_handle.idle(self.sequence, pause);
        self.look_since = self.activity.count();
        if matches!(signal, Signal::Acked(_)) {
            self.is_busy();
        }
        signal
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::<SourceHandle>::clone(self.source_handle)
    }

    fn listen(&mut self, timeout: Duration, asks: bool) -> Signal {
        if asks {
            self.ask_for_acknowledgement();
        }
        let wanted = if asks { self.sequence } else { 0 };
        self.source_handle.listen(wanted, timeout)
    }

    fn has_room(&mut self, timeout: Duration) -> bool {
        let bytes = self.decoder.bytes_total() - self.bytes_counted + self.bytes_between;
        let weight = Weight {
            rows: self.decoder.rows_waiting().max(1),
            bytes: bytes as usize,
        };
        self.input_queue
            .wait_for_room(weight, Instant::now() + timeout)
    }

    fn set_input(&mut self, input: &Arc<str>, record: i64) {
        match &mut self.record {
            Some((known, number)) if Arc::ptr_eq(known, input) => *number = record,
            other => *other = Some((Arc::clone(input), record)),
        }
    }

    fn set_progress(&mut self, progress: Vec<Progress>) {
        let mut known = self
            .metrics
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *known = progress;
    }

    fn report(&mut self, state: Connection) {
        match state {
            Connection::Connected => {
                self.was_connected = true;
                self.metrics.is_connected.store(true, Ordering::Relaxed);
                self.metrics.presence.back();
                match self.address.as_str() {
                    "" => tracing::info!(source = self.name, "source is ready"),
                    url => tracing::info!(source = self.name, url, "source is ready"),
                }
            }
            Connection::Retrying { cause } => {
                self.metrics.is_connected.store(false, Ordering::Relaxed);
                self.metrics.retries.add(1);
                tracing::warn!(source = self.name, cause, "source is reconnecting");
            }
            Connection::Lost { cause } => {
                self.metrics.is_connected.store(false, Ordering::Relaxed);
                self.metrics.presence.lost(&cause, None);
                tracing::error!(source = self.name, cause, "source lost its connection");
            }
        }
        self.activity.begun(self.activity_id);
    }

    fn set_address(&mut self, url: &str) {
        url.clone_into(&mut self.address);
    }

    fn take_refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    fn reject(&mut self, rejected: Rejected) {
        self.metrics.rejected.add(1);
        if self.refusal.is_none() {
            let line = rejected.place.line.map(|line| format!("line {line}: "));
            let (cause, remedy) = (&rejected.cause, &rejected.remedy);
            self.refusal = Some(format!("{}{cause}; {remedy}", line.unwrap_or_default()));
        }
        let input = match &self.record {
            Some((input, record)) => format!("{input} offset {record}"),
            None => self.input.clone(),
        };
        self.rejected.push(PlacedRejected {
            input,
            properties: Vec::new(),
            rejected,
        });
    }

    fn now(&self) -> i64 {
        self.clock.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_told_once_and_together() {
        let source_handle = SourceHandle::within(STOP_GRACE);
        source_handle.ack(3);
        source_handle.ack(5);
        assert_eq!(source_handle.wait(5, Duration::ZERO), Signal::Acked(5));
        assert_eq!(source_handle.wait(5, Duration::ZERO), Signal::Timeout);
    }

    #[test]
    fn a_ring_ends_a_wait_for_it_once_also_when_it_came_before() {
        let source_handle = SourceHandle::within(STOP_GRACE);
        source_handle.wake();
        assert_eq!(source_handle.wait(0, Duration::ZERO), Signal::Timeout);
        assert_eq!(
            source_handle.listen(0, Duration::from_secs(3600)),
            Signal::Timeout
        );
        source_handle.wake();
        source_handle.stop();
        assert_eq!(
            source_handle.listen(0, Duration::from_secs(3600)),
            Signal::Stop
        );
    }

    #[test]
    fn a_source_that_waits_for_its_last_acknowledgement_gets_it_before_it_stops() {
        let source_handle = Arc::new(SourceHandle::within(STOP_GRACE));
        source_handle.stop();
        // While it reads, it stops at once.
        assert_eq!(source_handle.wait(2, Duration::ZERO), Signal::Stop);
        let waiter = std::thread::spawn({
            let source_handle = Arc::clone(&source_handle);
            move || source_handle.wait(2, Duration::from_secs(60))
        });
        source_handle.ack(2);
        assert_eq!(waiter.join().expect("no panic"), Signal::Acked(2));
        assert_eq!(source_handle.wait(2, Duration::from_secs(60)), Signal::Stop);
    }
}
