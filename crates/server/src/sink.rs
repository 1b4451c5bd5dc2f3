//! The thread of a destination: everything that goes to one file, topic or address, in order.
//!
//! Two sinks on the same destination share the thread, so that what they write interleaves as the
//! events did. Its queue is bounded: when the destination is slow the executor waits, and with it the
//! sources.

mod epochs;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use connect::component::Sink;
use connect::message::{Message, Messages};
use connect::row_encoder::RowEncoder;
use connect::rows::Rejected;
use event::{Batch, Schema};
use plan::StreamId;

use crate::backoff::{Backoff, LogThrottle, Reminder, seconds};
use crate::checkpoint::{Checkpoint, Phase};
use crate::executor::{ExecutorInput, InputQueue};
use crate::health::Health;
use crate::metrics::SinkMetrics;
use crate::otlp::Span;
use crate::queue::{Queue, Taken};
use crate::rejected::{Attempt, Rejection, SharedLog, Stage, rejected_rows};
use crate::report::{chain, panic_text};
use crate::rows::{payload_text, rows_picked};
use crate::statistics::MapperMetrics;
use crate::store::Uncommitted;

/// Rows that may wait for a destination.
pub(crate) const ROWS_MAX: usize = 64 * 1024;
/// Bytes that may wait for a destination, as far as they are known.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// Between two looks whether the server stops while a sink flushes.
const FLUSH_LOOK: Duration = Duration::from_millis(500);

/// How long a sink that stops tries on for what a destination that is there does not take yet.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What travels down to a destination or store.
pub(crate) enum OutputItem<T> {
    Rows(T),
    /// Everything before it belongs to the checkpoint.
    Barrier(Arc<Checkpoint>),
}

pub(crate) type OutputQueue<T> = Queue<OutputItem<T>>;

impl<T> OutputQueue<T> {
    /// Nobody takes from it any more: checkpoints whose barriers wait in it are aborted, so that nobody waits
    /// for them.
    pub fn give_up(&self) {
        self.close();
        while let Some(item) = self.take_now() {
            if let OutputItem::Barrier(checkpoint) = item {
                checkpoint.set_phase(Phase::Aborted);
            }
        }
    }
}

/// Rows for one of the sinks of a destination.
pub(crate) struct SinkRows {
    pub slot: usize,
    pub batch: Batch,
    /// They are all rows of the table that the sink works from, not events.
    pub is_table: bool,
    /// A rejected event that is replayed.
    pub attempt: Option<Attempt>,
    /// They are followed: from here on until they are published.
    pub span: Option<Span>,
}

/// Events that were not delivered.
enum Undeliverable<'a> {
    Rows(&'a Batch, &'a [u32]),
    /// Only the message is there that was made of them.
    Message(&'a [u8]),
    /// The mapper could not make one.
    Unwritten(&'a Batch, &'a Rejected),
}

/// Replayed events whose fate is not known that a sink remembers.
const ATTEMPTS_MAX: usize = 16 << 10;

/// What becomes of an event while the destination cannot be reached (`connectors.md` 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnUnreachable {
    Log,
    Wait,
    /// To the fault stream, by its app within the executor.
    Stream {
        app: usize,
        fault: StreamId,
    },
    Store,
}

/// One `@sink` of a destination.
pub(crate) struct SinkSlot {
    /// Its stream and its number there.
    pub key: String,
    /// In the activity tracker.
    pub number: usize,
    pub schema: Schema,
    pub encoder: RowEncoder,
    pub sink: Box<dyn Sink>,
    pub on_unreachable: OnUnreachable,
    pub metrics: Arc<SinkMetrics>,
    pub mapper: Arc<MapperMetrics>,
    /// In the epochs of its group.
    pub takes_part: bool,
    pub is_connected: bool,
    /// It was said since the last failure that it is connected.
    pub is_said_ready: bool,
    /// The mapper has what it needs.
    pub is_ready: bool,
    pub backoff: Backoff,
    pub next_try: Option<Instant>,
    /// When the sink wants to look after its connection.
    pub next_look: Option<Instant>,
    /// When it is said again that the destination is away.
    pub reminder: Reminder,
    pub warn_throttle: LogThrottle,
    /// Of flushes and commits that do not work, since the last that did.
    pub flush_throttle: LogThrottle,
}

impl SinkSlot {
    pub fn new(
        (key, schema): (String, Schema),
        number: usize,
        encoder: RowEncoder,
        mut sink: Box<dyn Sink>,
        on_unreachable: OnUnreachable,
        metrics: Arc<SinkMetrics>,
        mapper: Arc<MapperMetrics>,
    ) -> SinkSlot {
        let takes_part = sink.epochs().is_some();
        // What is given up for a destination that is away would be missing in its transaction.
        let on_unreachable = match takes_part {
            true => OnUnreachable::Wait,
            false => on_unreachable,
        };
        SinkSlot {
            key,
            number,
            schema,
            encoder,
            sink,
            on_unreachable,
            metrics,
            mapper,
            takes_part,
            is_connected: false,
            is_said_ready: false,
            is_ready: false,
            backoff: Backoff::default(),
            next_try: None,
            next_look: Some(Instant::now()),
            reminder: Reminder::default(),
            warn_throttle: LogThrottle::default(),
            flush_throttle: LogThrottle::default(),
        }
    }

    /// Not connected, also for who looks from outside.
    fn set_away(&mut self, cause: &str, pause: Option<Duration>) {
        self.is_connected = false;
        self.metrics.is_connected.store(false, Ordering::Relaxed);
        self.metrics.presence.lost(cause, pause);
    }

    /// Tells those who look from outside whether the destination is there, of a sink that is connected
    /// as far as the server knows.
    fn show_connected(&mut self) {
        let is_there = !self.sink.is_away();
        self.metrics.is_connected.store(is_there, Ordering::Relaxed);
        match is_there {
            true => self.metrics.presence.back(),
            false => self.metrics.presence.lost("", None),
        }
        if is_there && !std::mem::replace(&mut self.is_said_ready, true) {
            self.reminder = Reminder::default();
            let (label, sink) = (&self.metrics.label, self.name());
            let (app, stream) = (&label.app, &label.element);
            tracing::info!(app, stream, sink, "sink is ready");
        }
    }

    /// As it is called in what is said.
    pub fn name(&self) -> String {
        let label = &self.metrics.label;
        format!("{} of stream '{}'", label.ty, label.element)
    }
}

pub(crate) struct SinkThread {
    /// That of the first sink.
    pub name: String,
    pub slots: Vec<SinkSlot>,
    pub output_queue: Arc<OutputQueue<SinkRows>>,
    /// For rows that go to a fault stream.
    pub input_queue: Arc<InputQueue>,
    pub rejected: SharedLog,
    pub health: Arc<Health>,
    /// With state, what could not be delivered is read again after the next start.
    pub has_state: bool,
    /// The group stops while a sink waits for its destination: nothing more is delivered, and no
    /// checkpoint may say that it was.
    pub is_cut_off: bool,
    /// Names the state directory to sinks that take part in epochs.
    pub store_key: String,
    /// What those keep until their commit, as the executor sees it.
    pub uncommitted: Arc<Uncommitted>,
    /// Reused from batch to batch.
    pub messages: Messages,
    /// Replayed events since the last checkpoint, by the text of their rows: those that are not delivered
    /// are known by it.
    pub attempts: HashMap<u64, Attempt>,
}

impl SinkThread {
    /// The app and the stream of what is logged on the thread, as far as its sinks have them in
    /// common.
    pub fn span(&self) -> tracing::Span {
        let labels = || self.slots.iter().map(|slot| &slot.metrics.label);
        let first = labels().next().cloned().unwrap_or_default();
        let is_one_app = labels().all(|label| label.app == first.app);
        if is_one_app && labels().all(|label| label.element == first.element) {
            return tracing::error_span!("sink", app = first.app, stream = first.element);
        }
        match is_one_app {
            true => tracing::error_span!("sink", app = first.app),
            false => tracing::error_span!("sink"),
        }
    }

    pub fn run(mut self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_inner()));
        if let Err(panic) = outcome {
            self.health.fail(format!(
                "sink '{}' stopped by an internal error: {}",
                self.name,
                panic_text(panic.as_ref())
            ));
            self.output_queue.give_up();
        }
    }

    fn run_inner(&mut self) {
        for slot in 0..self.slots.len() {
            self.try_connect(slot);
        }
        loop {
            let due = |slot: &SinkSlot| slot.next_try.into_iter().chain(slot.next_look).min();
            match self
                .output_queue
                .take(self.slots.iter().filter_map(due).min())
            {
                Taken::Item(OutputItem::Rows(rows)) => {
                    if rows.is_table {
                        self.slots[rows.slot].sink.update_table(&rows.batch);
                    } else if !self.is_cut_off {
                        self.note_attempt(&rows);
                        self.publish(rows.slot, &rows.batch);
                    }
                    // The way of a followed batch ends here.
                    drop(rows.span);
                }
                Taken::Item(OutputItem::Barrier(checkpoint)) => self.reach(&checkpoint),
                Taken::Late => {
                    self.retry_due();
                    self.look_due();
                }
                Taken::Closed => break,
            }
            self.say_uncommitted();
        }
        self.flush();
        for slot in 0..self.slots.len() {
            if let Err(error) = self.slots[slot].sink.close() {
                tracing::warn!(
                    sink = self.slots[slot].name(),
                    cause = chain(&error),
                    "cannot close sink"
                );
            }
            self.give_back(slot);
        }
    }

    /// Reconnecting does not depend on anything being published.
    fn retry_due(&mut self) {
        let now = Instant::now();
        for slot in 0..self.slots.len() {
            if self.slots[slot].next_try.is_some_and(|at| at <= now) {
                self.try_connect(slot);
            }
        }
    }

    /// Neither does noticing that the destination has gone.
    fn look_due(&mut self) {
        let now = Instant::now();
        for slot in &mut self.slots {
            if slot.next_look.is_some_and(|at| at <= now) {
                slot.next_look = slot.sink.look().map(|pause| now + pause);
                if slot.is_connected {
                    slot.show_connected();
                }
            }
        }
    }

    fn try_connect(&mut self, slot_number: usize) -> bool {
        let slot = &mut self.slots[slot_number];
        let ready = slot.encoder.ready();
        slot.is_ready |= ready.is_ok();
        let Err(error) = ready.and_then(|()| slot.sink.connect()) else {
            slot.is_connected = true;
            slot.next_try = None;
            slot.show_connected();
            self.health.member().tried_sink(slot.number, None);
            return true;
        };
        let no_port = matches!(error, connect::Error::Listen { .. }).then(|| chain(&error));
        self.health.member().tried_sink(slot.number, no_port);
        // Where events wait, a refusal is looked at again soon, unless that may cost the account.
        let is_denied = matches!(error, connect::Error::Denied { .. });
        let pause = match slot.on_unreachable {
            OnUnreachable::Wait if !is_denied => slot.backoff.away(),
            _ => slot.backoff.after(&error),
        };
        slot.next_try = Some(Instant::now() + pause);
        let cause = chain(&error);
        slot.set_away(&cause, Some(pause));
        slot.is_said_ready = false;
        slot.metrics.retries.add(1);
        if slot.has_lost() {
            self.end(slot_number, cause);
            return false;
        }
        if !slot.reminder.is_due(&cause) {
            return false;
        }
        let (label, sink) = (&slot.metrics.label, slot.name());
        let (app, stream) = (&label.app, &label.element);
        let again_in_seconds = seconds(pause);
        tracing::error!(
            app,
            stream,
            sink,
            cause,
            again_in_seconds,
            "cannot connect sink"
        );
        false
    }

    fn publish(&mut self, slot: usize, batch: &Batch) {
        if !self.slots[slot].is_ready && !self.has_mapper(slot, batch) {
            return;
        }
        let mut messages = std::mem::take(&mut self.messages);
        let SinkSlot {
            encoder, mapper, ..
        } = &mut self.slots[slot];
        mapper.time(|| encoder.encode(batch, &mut messages));
        for rejected in messages.take_rejected() {
            let what = Undeliverable::Unwritten(batch, &rejected);
            self.give_up(slot, &rejected.cause, &what, 1);
        }
        for message in messages.iter() {
            if self.is_cut_off {
                break;
            }
            self.publish_one(slot, batch, &message.with_events(batch));
            self.give_back(slot);
        }
        self.messages = messages;
    }

    /// The mapper lacks what it needs from elsewhere, which is as if the destination were not there.
    /// False: the events have gone to `on.error`.
    fn has_mapper(&mut self, slot: usize, batch: &Batch) -> bool {
        if self.slots[slot].next_try.is_none() {
            self.try_connect(slot);
        }
        while !self.slots[slot].is_ready {
            match self.slots[slot].on_unreachable {
                OnUnreachable::Wait if !self.health.is_stopping() => self.wait_for(slot),
                OnUnreachable::Wait if self.has_state => {
                    self.cut_off(slot);
                    return false;
                }
                _ => {
                    let rows: Vec<u32> = (0..batch.len as u32).collect();
                    let mut messages = Messages::default();
                    messages.push_events(batch.clone(), &rows);
                    let cause = "a service that its mapper needs is unreachable".to_owned();
                    self.unreachable(slot, batch, &messages.get(0), cause);
                    return false;
                }
            }
        }
        true
    }

    /// What the sink took and could not deliver after all goes to `on.error`; was there any? One that
    /// waits for its destination keeps it.
    fn give_back(&mut self, slot: usize) -> bool {
        self.give_up_refused(slot);
        let waits = self.slots[slot].on_unreachable == OnUnreachable::Wait;
        if waits && (self.has_state || !self.health.is_stopping()) {
            return false;
        }
        let all = self.slots[slot].sink.take_undelivered();
        let has_any = !all.is_empty();
        for undelivered in all {
            let message = undelivered.message.message();
            let rows = message.rows.len().max(1) as u64;
            // It was counted when it was taken.
            let events = &self.slots[slot].metrics.events;
            events.set(events.get().saturating_sub(rows));
            let cause = chain(&undelivered.error);
            match message.events {
                Some(batch) if undelivered.error.is_unavailable() => {
                    self.unreachable(slot, batch, &message, cause);
                }
                _ => self.give_up(
                    slot,
                    &cause,
                    &of_message(&message, &undelivered.message),
                    rows,
                ),
            }
        }
        has_any
    }

    /// What the other side said no to after the sink had taken it is not sent again.
    fn give_up_refused(&mut self, slot: usize) {
        for refused in self.slots[slot].sink.take_refused() {
            let rows = refused.message.rows.len().max(1) as u64;
            // It was counted when it was taken.
            let events = &self.slots[slot].metrics.events;
            events.set(events.get().saturating_sub(rows));
            let message = refused.message.message();
            let what = of_message(&message, &refused.message);
            self.give_up(slot, &chain(&refused.error), &what, rows);
        }
    }

    fn publish_one(&mut self, slot: usize, batch: &Batch, message: &Message<'_>) {
        let rows = message.rows.len().max(1) as u64;
        // One try of its own: a connection may just have been dropped.
        if !self.slots[slot].is_connected && self.slots[slot].next_try.is_none() {
            self.try_connect(slot);
        }
        let mut has_retried = false;
        while !self.is_cut_off {
            let cause = if self.slots[slot].is_connected {
                match self.slots[slot].sink.publish(message) {
                    Ok(()) => {
                        self.slots[slot].backoff.succeeded();
                        if has_retried {
                            self.slots[slot].flush_throttle = LogThrottle::default();
                        }
                        return self.slots[slot].metrics.events.add(rows);
                    }
                    Err(error) if error.is_unavailable() => {
                        self.slots[slot].set_away(&chain(&error), None);
                        if !has_retried {
                            has_retried = true;
                            self.try_connect(slot);
                            continue;
                        }
                        if self.slots[slot].on_unreachable == OnUnreachable::Wait {
                            // It can be connected to, so nobody else says what is amiss.
                            self.stumble(slot, &error, "write to sink failed");
                        }
                        chain(&error)
                    }
                    Err(error) if self.slots[slot].has_lost() => {
                        return self.end(slot, chain(&error));
                    }
                    Err(error) => {
                        let what = Undeliverable::Rows(batch, message.rows);
                        return self.give_up(slot, &chain(&error), &what, rows);
                    }
                }
            } else {
                "the destination is unreachable".to_owned()
            };
            match self.slots[slot].on_unreachable {
                OnUnreachable::Wait if !self.health.is_stopping() => self.wait_for(slot),
                OnUnreachable::Wait if self.has_state => return self.cut_off(slot),
                _ => return self.unreachable(slot, batch, message, cause),
            }
        }
    }

    /// One event of a destination that is not there, where nobody waits for it.
    fn unreachable(&mut self, slot: usize, batch: &Batch, message: &Message<'_>, cause: String) {
        if let OnUnreachable::Stream { app, fault } = self.slots[slot].on_unreachable {
            let input = ExecutorInput::Fault {
                app,
                stream: fault,
                rows: rows_picked(batch, message.rows),
                cause,
            };
            // The executor has gone only when the server ends without waiting.
            if self.input_queue.push_always(input).is_err() {
                let sink = self.slots[slot].name();
                tracing::error!(sink, "lost rows for the fault stream");
            }
            return;
        }
        let rows = message.rows.len().max(1) as u64;
        let what = Undeliverable::Rows(batch, message.rows);
        self.give_up(slot, &cause, &what, rows);
    }

    /// A replayed event may come back as undelivered later, among others.
    fn note_attempt(&mut self, rows: &SinkRows) {
        if let Some(attempt) = &rows.attempt
            && self.attempts.len() < ATTEMPTS_MAX
        {
            let all: Vec<u32> = (0..rows.batch.len as u32).collect();
            let hash = hash_of(rows.slot, &rows.batch, &all);
            self.attempts.insert(hash, attempt.clone());
        }
    }

    /// Blocks until the destination is there or the group is to stop. There is a pause before each
    /// try, also where the last one only connected: what can be reached need not take anything.
    fn wait_for(&mut self, slot: usize) {
        while !self.is_cut_off {
            let until = self.slots[slot].next_try.take();
            let pause = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => self.slots[slot].backoff.away(),
            };
            if self.health.pause(pause) || self.try_connect(slot) {
                return;
            }
        }
    }

    /// What the sink has taken does not arrive. Of many reports in a row few are logged.
    fn stumble(&mut self, slot: usize, error: &connect::Error, what: &str) {
        let slot = &mut self.slots[slot];
        slot.set_away(&chain(error), None);
        if let Some(count) = slot.flush_throttle.admit() {
            let (label, sink) = (&slot.metrics.label, slot.name());
            let (app, stream) = (&label.app, &label.element);
            tracing::error!(app, stream, sink, cause = chain(error), count, "{what}");
        }
    }

    fn cut_off(&mut self, slot: usize) {
        self.is_cut_off = true;
        let slot = &self.slots[slot];
        let (app, sink) = (&slot.metrics.label.app, slot.name());
        self.health
            .leave(format!("sink '{sink}' of app '{app}' is unreachable"));
    }

    fn give_up(&mut self, slot: usize, cause: &str, what: &Undeliverable<'_>, rows: u64) {
        let remedy = match self.has_state {
            true => {
                "they are kept: list them with 'headwater errors list', and replay them when the cause \
                 is gone"
            }
            false => {
                "they are held in memory until the server stops: replay them with 'headwater errors \
                 replay'; --state keeps such events, on.error='WAIT' waits instead"
            }
        };
        let attempt = self.attempt_of(slot, what);
        let slot = &mut self.slots[slot];
        slot.metrics.failed.add(rows);
        if let Some(count) = slot.warn_throttle.admit() {
            let (label, sink) = (&slot.metrics.label, slot.name());
            let (app, stream) = (&label.app, &label.element);
            tracing::error!(
                app,
                stream,
                sink,
                cause,
                remedy,
                count,
                "events were not delivered"
            );
        }
        let (stage, rejection) = match what {
            Undeliverable::Rows(batch, rows) => (Stage::Sink, rows_rejected(batch, rows, slot)),
            Undeliverable::Message(payload) => (Stage::Sink, Rejection::of_payload(payload)),
            Undeliverable::Unwritten(batch, rejected) => {
                let rejection = rejected_rows(rejected, batch, &slot.schema);
                (Stage::SinkMapper, rejection)
            }
        };
        let rejection = Rejection {
            time: crate::clock::wall_millis(),
            app: slot.metrics.label.app.clone(),
            stream: slot.metrics.label.element.clone(),
            stage,
            origin: slot.key.clone(),
            transport: slot.metrics.label.ty.clone(),
            place: format!("sink '{}'", slot.name()),
            cause: cause.to_owned(),
            ..rejection
        };
        self.rejected.keep(match attempt {
            Some(attempt) => attempt.mark(rejection),
            None => rejection,
        });
    }

    /// What is known of the replay of events, if they are being replayed.
    fn attempt_of(&mut self, slot: usize, what: &Undeliverable<'_>) -> Option<Attempt> {
        if self.attempts.is_empty() {
            return None;
        }
        let hash = match what {
            Undeliverable::Rows(batch, rows) => hash_of(slot, batch, rows),
            Undeliverable::Unwritten(batch, rejected) => hash_of(slot, batch, &rejected.rows),
            Undeliverable::Message(_) => return None,
        };
        self.attempts.remove(&hash)
    }

    /// Waits for as long as the sink does, but while the server stops no longer than it takes to close:
    /// what has not arrived by then is given back.
    fn flush_one(&mut self, slot: usize) -> Result<(), connect::Error> {
        let grace = self.health.patience(STOP_GRACE);
        let slot = &mut self.slots[slot];
        let mut deadline = None;
        while !slot.sink.flush_within(FLUSH_LOOK)? {
            if !self.health.is_stopping() {
                continue;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + grace);
            if Instant::now() >= deadline {
                return slot.sink.close();
            }
        }
        // That nothing is on its way to a destination that is away says nothing of what it takes.
        if slot.is_connected {
            slot.backoff.succeeded();
            slot.flush_throttle = LogThrottle::default();
        }
        Ok(())
    }

    /// Everything that the sinks have taken has arrived, or has gone to `on.error`; or the group is cut off.
    fn flush(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].takes_part {
                continue;
            }
            let waits = self.slots[slot].on_unreachable == OnUnreachable::Wait;
            // Of a destination that is known to be away nothing more is said; but what it was sent before
            // may be on its way yet, and no checkpoint passes that.
            let is_said = !self.slots[slot].is_connected && !waits;
            let mut is_lost = false;
            while let Err(error) = self.flush_one(slot) {
                if !is_said {
                    self.stumble(slot, &error, "write to sink failed");
                }
                match (waits, self.health.is_stopping()) {
                    (true, false) => self.wait_for(slot),
                    (true, true) if self.has_state => {
                        self.cut_off(slot);
                        break;
                    }
                    // Others that are on their way may arrive, or come back in their turn.
                    _ if self.give_back(slot) => {}
                    _ => {
                        is_lost = !is_said;
                        break;
                    }
                }
            }
            // A sink that gives nothing back has lost what it gathered.
            if !self.give_back(slot) && is_lost {
                self.slots[slot].metrics.failed.add(1);
            }
        }
    }
}

/// What became of a message: the rows that it was made of, or itself.
fn of_message<'a>(message: &Message<'a>, sent: &'a connect::message::Sent) -> Undeliverable<'a> {
    match message.events {
        Some(batch) if !message.rows.is_empty() => Undeliverable::Rows(batch, message.rows),
        _ => Undeliverable::Message(&sent.payload),
    }
}

fn rows_rejected(batch: &Batch, rows: &[u32], slot: &SinkSlot) -> Rejection {
    match rows_picked(batch, rows) {
        Some(rows) => Rejection::of_rows(&rows, &slot.schema),
        None => Rejection::default(),
    }
}

/// Names rows on their way to a sink by their text.
fn hash_of(slot: usize, batch: &Batch, rows: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (slot, payload_text(batch, rows)).hash(&mut hasher);
    hasher.finish()
}
