//! The bounded queue from connections to the thread of their source, and the loop of that thread.
//!
//! Connections push messages; the source takes all that wait at once, so that under load many
//! requests become one batch (each still a chunk of its own) and an idle source costs no delay. A
//! connection whose source has no room waits, and is read no further.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::Value;
use plan::Transport;
use tokio::sync::{Notify, oneshot};

use crate::arrivals::Account;
use crate::component::{
    Connection, Finished, Payload, PayloadKind, Room, Sequence, Signal, SourceLink, Waker,
};
use crate::error::Error;
use crate::mapper;
use crate::rows::{Properties, Rejected};

/// Messages that may wait for a source.
const MESSAGES_MAX: usize = 4096;

/// Bytes of messages that may wait for a source. A longer message is let in alone.
const BYTES_MAX: usize = 16 << 20;

/// Payloads shorter than this are copied out of the block that they were read with.
const SHORT_BYTES: usize = 8 << 10;

/// How often a source that nothing happens to looks around.
const LOOK: Duration = Duration::from_secs(1);

/// A source that finds so many messages at once is busy: it lets more come together before it looks again.
/// What each of them waits is less than what a wake-up of the executor for every few of them costs all.
const BUSY_MESSAGES: usize = 8;
const GATHER: Duration = Duration::from_micros(200);

/// How often a source that stops looks for what is still on its way.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// One message for a source.
pub struct Delivery {
    pub body: Body,
    /// In the order of the names that the source asked for.
    pub properties: Vec<Value>,
    /// Told when what the message brought is safe; dropped unused when it never will be.
    pub receipt: Option<oneshot::Sender<()>>,
    /// Told what is wrong with the message, or that nothing is, once it has been mapped.
    pub verdict: Option<oneshot::Sender<Option<String>>>,
    /// Where the server can give what follows it once more: the source goes on behind it.
    pub place: Option<Place>,
    /// Why it is kept among the rejected events instead of being mapped.
    dead: Option<String>,
    /// The bytes of the body in the budget of the server, until the executor has taken its rows.
    held: Option<Account>,
}

/// What to do about a message that was rejected before it came to the mapper.
const UNFIT: &str = "send what the document of the API describes, or change the document";

/// What the server calls a message.
pub enum Place {
    Number(u64),
    Name(Arc<str>),
}

impl Place {
    /// As a position of the source.
    fn with_bytes<T>(&self, work: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Place::Number(number) => work(&number.to_le_bytes()),
            Place::Name(name) => work(name.as_bytes()),
        }
    }
}

/// What a message carries.
#[derive(Clone)]
pub enum Body {
    Text(String),
    Bytes(bytes::Bytes),
    /// Bytes that are text, unless they are not: then the mapper says so.
    Utf8(bytes::Bytes),
    /// Keys and values.
    Map(Vec<(Value, Value)>),
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Body::Text(text) => text.len(),
            Body::Bytes(bytes) | Body::Utf8(bytes) => bytes.len(),
            Body::Map(entries) => {
                let values = entries.iter().flat_map(|(key, value)| [key, value]);
                values
                    .map(|value| size_of::<Value>() + value.heap_bytes())
                    .sum()
            }
        }
    }

    fn payload(&self) -> Payload<'_> {
        match self {
            Body::Text(text) => Payload::Text(text),
            Body::Bytes(bytes) => Payload::Bytes(bytes),
            Body::Map(entries) => Payload::Map(entries),
            Body::Utf8(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Payload::Text(text),
                Err(_) => Payload::Bytes(bytes),
            },
        }
    }
}

impl Delivery {
    pub fn of(body: Body, properties: Vec<Value>) -> Delivery {
        Delivery {
            body,
            properties,
            receipt: None,
            verdict: None,
            place: None,
            dead: None,
            held: None,
        }
    }

    /// It is not mapped, but kept among the rejected events of the app with this cause. Whoever waits for a verdict
    /// hears of none.
    pub fn dead(mut self, cause: String) -> Delivery {
        self.dead = Some(cause);
        self
    }

    /// The bytes of the body are of the budget until the executor has taken its rows.
    pub fn holding(mut self, account: Account) -> Delivery {
        self.held = Some(account);
        self
    }

    pub fn text(text: String, properties: Vec<Value>) -> Delivery {
        Delivery::of(Body::Text(text), properties)
    }

    pub fn bytes(bytes: bytes::Bytes, properties: Vec<Value>) -> Delivery {
        Delivery::of(Body::Bytes(bytes), properties)
    }

    /// A payload of which only the mapper knows what it is. A short one does not hold the whole block
    /// that it was read with.
    pub fn payload(bytes: bytes::Bytes, is_text: bool, properties: Vec<Value>) -> Delivery {
        let bytes = match bytes.len() < SHORT_BYTES {
            true => bytes::Bytes::copy_from_slice(&bytes),
            false => bytes,
        };
        let body = match is_text {
            true => Body::Utf8(bytes),
            false => Body::Bytes(bytes),
        };
        Delivery::of(body, properties)
    }

    /// The number of the message at a server that can give those behind it again.
    pub fn at(mut self, place: u64) -> Delivery {
        self.place = Some(Place::Number(place));
        self
    }

    /// As [`Delivery::at`], where the server has names for messages.
    pub fn behind(mut self, name: Option<Arc<str>>) -> Delivery {
        self.place = name.map(Place::Name);
        self
    }

    /// Asks to be told when the message is safe.
    pub fn with_receipt(mut self) -> (Delivery, oneshot::Receiver<()>) {
        let (receipt, told) = oneshot::channel();
        self.receipt = Some(receipt);
        (self, told)
    }
}

impl Delivery {
    /// Asks to be told whether the message fits.
    pub fn with_verdict(mut self) -> (Delivery, oneshot::Receiver<Option<String>>) {
        let (verdict, told) = oneshot::channel();
        self.verdict = Some(verdict);
        (self, told)
    }
}

/// Does the mapper of a transport read text?
pub fn reads_text(transport: &Transport) -> bool {
    mapper::find(&transport.map.ty)
        .is_some_and(|format| PayloadKind::overlap(&[PayloadKind::Text], format.takes()))
}

/// The source takes nothing any more.
#[derive(Debug)]
pub struct Closed;

/// Why a message was not appended.
pub enum Unpushed {
    Closed,
    /// There is no room: here it is again.
    Full(Delivery),
}

/// The queue of one source.
pub struct Ingress {
    state: Mutex<State>,
    room: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<Delivery>,
    bytes: usize,
    /// Messages that were let in so far.
    count: u64,
    is_closed: bool,
    /// Why the connection that fed it is no more.
    lost: Option<String>,
    /// The source waits to be woken.
    asleep: Option<Arc<dyn Waker>>,
}

impl Default for Ingress {
    /// Closed: the source opens it when it runs.
    fn default() -> Ingress {
        Ingress {
            state: Mutex::new(State {
                is_closed: true,
                ..State::default()
            }),
            room: Notify::new(),
        }
    }
}

impl Ingress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(&self) {
        let mut state = self.lock();
        state.is_closed = false;
        state.lost = None;
    }

    /// The one connection that fed it has ended: the source takes what is there and returns.
    pub fn lose(&self, cause: String) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.is_closed = true;
        state.lost = Some(cause);
        let asleep = state.asleep.take();
        drop(state);
        if let Some(waker) = asleep {
            waker.wake();
        }
    }

    fn lost(&self) -> Option<String> {
        self.lock().lost.clone()
    }

    /// Lets nothing more in; what waits can still be taken.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.room.notify_waiters();
    }

    /// Messages that were let in since it was made.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Appends whatever waits: for answers, of which there are no more than requests on their way.
    pub fn push_past(&self, delivery: Delivery) -> Result<(), Closed> {
        match self.lock() {
            state if state.is_closed => Err(Closed),
            state => {
                append(state, delivery);
                Ok(())
            }
        }
    }

    /// Waits for room, then appends.
    pub async fn push(&self, delivery: Delivery) -> Result<(), Closed> {
        let mut delivery = delivery;
        loop {
            // Made before the look, so that room made in between is not missed.
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            match self.try_push(delivery) {
                Ok(()) => return Ok(()),
                Err(Unpushed::Closed) => return Err(Closed),
                Err(Unpushed::Full(back)) => delivery = back,
            }
            room.await;
        }
    }

    /// Appends, if there is room now.
    ///
    /// # Errors
    /// The message again if there is none; or the source takes nothing any more.
    #[expect(clippy::result_large_err, reason = "the message itself goes back")]
    pub fn try_push(&self, delivery: Delivery) -> Result<(), Unpushed> {
        let state = self.lock();
        if state.is_closed {
            return Err(Unpushed::Closed);
        }
        let len = delivery.body.len();
        let is_full = state.waiting.len() >= MESSAGES_MAX
            || !state.waiting.is_empty() && state.bytes + len > BYTES_MAX;
        if is_full {
            return Err(Unpushed::Full(delivery));
        }
        append(state, delivery);
        Ok(())
    }

    /// Moves all that waits behind `into`, which is empty. Where nothing waits, the next push wakes it.
    fn take(&self, into: &mut Vec<Delivery>, waker: &Arc<dyn Waker>) {
        let mut state = self.lock();
        if state.waiting.is_empty() && state.lost.is_none() {
            state.asleep = Some(Arc::clone(waker));
            return;
        }
        std::mem::swap(&mut state.waiting, into);
        state.bytes = 0;
        drop(state);
        self.room.notify_waiters();
    }
}

fn append(mut state: MutexGuard<'_, State>, delivery: Delivery) {
    state.bytes += delivery.body.len();
    state.count += 1;
    state.waiting.push(delivery);
    let asleep = state.asleep.take();
    drop(state);
    if let Some(waker) = asleep {
        waker.wake();
    }
}

/// The thread of a source that is fed by connections.
pub struct Receiver {
    pub ingress: Arc<Ingress>,
    /// Names of the transport properties that come with each message.
    pub names: Vec<String>,
    /// The server that it is connected to, where it is a client.
    peer: String,
}

/// Who waits for a batch to be safe.
type Waiting = VecDeque<(Sequence, Vec<oneshot::Sender<()>>)>;

impl Receiver {
    pub fn new(names: Vec<String>) -> Receiver {
        Receiver {
            ingress: Arc::new(Ingress::default()),
            names,
            peer: String::new(),
        }
    }

    /// A source that is fed by its one connection to a server.
    pub fn of_server(peer: &str, names: &[&str]) -> Receiver {
        Receiver {
            peer: peer.to_owned(),
            ..Receiver::new(names.iter().map(|name| (*name).to_owned()).collect())
        }
    }

    /// Hands over what comes in until the server stops. What was let in by then is handed over first.
    pub fn run(&self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.run_until(link, || true)
    }

    /// As [`Receiver::run`]; when the server stops, `is_drained` is asked again and again, and only
    /// when it says so nothing more is let in.
    pub fn run_until(
        &self,
        link: &mut dyn SourceLink,
        is_drained: impl FnMut() -> bool,
    ) -> Result<Finished, Error> {
        let result = self.run_until_stopped(link, is_drained);
        self.ingress.close();
        // Whoever still waits for a receipt learns by its end that none will come.
        let mut left = Vec::new();
        self.ingress.take(&mut left, &link.waker());
        result
    }

    fn run_until_stopped(
        &self,
        link: &mut dyn SourceLink,
        mut is_drained: impl FnMut() -> bool,
    ) -> Result<Finished, Error> {
        let waker = link.waker();
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut properties = Properties::new(&names);
        let mut batch = Vec::new();
        let mut waiting = Waiting::new();
        let mut is_busy = false;
        loop {
            if !is_busy {
                // Connections that have something to say say it first: what comes singly travels on in
                // fewer batches, each of which wakes the executor. A machine that has time does not wait here.
                std::thread::yield_now();
            }
            self.ingress.take(&mut batch, &waker);
            let is_told = |delivery: &Delivery| delivery.verdict.is_some();
            is_busy = batch.len() >= BUSY_MESSAGES && !batch.iter().any(is_told);
            let pause = if batch.is_empty() {
                if let Some(cause) = self.ingress.lost() {
                    return Err(self.lost(link, waiting, cause));
                }
                LOOK
            } else {
                hand_over(link, &mut batch, &mut properties, &mut waiting)?;
                // Who waits to be told that a message is safe waits for nothing else.
                is_busy &= waiting.is_empty();
                if is_busy { GATHER } else { Duration::ZERO }
            };
            match link.listen(pause, !waiting.is_empty()) {
                Signal::Acked(sequence) => tell(&mut waiting, sequence),
                Signal::Stop => break,
                Signal::Pause => self.pause(link, &mut waiting),
                Signal::Timeout | Signal::Resume | Signal::End => {}
            }
        }
        loop {
            // The server says nothing new any more: what comes is looked for.
            let is_last = is_drained();
            if is_last {
                self.ingress.close();
            }
            // All of a lost connection is there to be taken before it is said to be lost.
            let lost = self.ingress.lost();
            self.ingress.take(&mut batch, &waker);
            hand_over(link, &mut batch, &mut properties, &mut waiting)?;
            if let Some(cause) = lost {
                return Err(self.lost(link, waiting, cause));
            }
            if is_last {
                break;
            }
            match link.listen(DRAIN_LOOK, !waiting.is_empty()) {
                Signal::Acked(sequence) => tell(&mut waiting, sequence),
                _ => std::thread::park_timeout(DRAIN_LOOK),
            }
        }
        while !waiting.is_empty() {
            match link.listen(LOOK, true) {
                Signal::Acked(sequence) => tell(&mut waiting, sequence),
                Signal::Stop => break,
                _ => {}
            }
        }
        Ok(Finished::Stopped)
    }

    /// Says so, then waits for what was posted: whoever gave it may still be told, or asked not to give
    /// it again.
    fn lost(&self, link: &mut dyn SourceLink, mut waiting: Waiting, cause: String) -> Error {
        link.report(Connection::Lost {
            cause: cause.clone(),
        });
        while !waiting.is_empty() {
            match link.listen(LOOK, true) {
                Signal::Acked(sequence) => tell(&mut waiting, sequence),
                Signal::Stop => return Error::Stopped,
                _ => {}
            }
        }
        Error::unavailable(self.peer.clone(), cause)
    }

    /// Nothing is taken: the queue fills and connections wait.
    fn pause(&self, link: &mut dyn SourceLink, waiting: &mut Waiting) {
        loop {
            match link.listen(LOOK, false) {
                Signal::Resume | Signal::Stop => return,
                Signal::Acked(sequence) => tell(waiting, sequence),
                _ => {}
            }
        }
    }
}

/// Maps and posts messages; whoever waits for one is noted with the batch that it is in.
fn hand_over(
    link: &mut dyn SourceLink,
    batch: &mut Vec<Delivery>,
    properties: &mut Properties,
    waiting: &mut Waiting,
) -> Result<(), Error> {
    let mut receipts = Vec::new();
    let mut is_posted = true;
    let mut place = None;
    for mut delivery in batch.drain(..) {
        for (index, value) in delivery.properties.drain(..).enumerate() {
            properties.set(index, value);
        }
        let payload = delivery.body.payload();
        let is_dead = delivery.dead.is_some();
        let room = match delivery.dead.take() {
            Some(cause) => {
                link.reject(Rejected::of(payload, cause, UNFIT));
                Room::More
            }
            None => link.map(payload, properties),
        };
        // Its rows may have to wait for the executor: the body need not, but its bytes are theirs now.
        drop(delivery.body);
        if let Some(held) = delivery.held {
            link.hold(held);
        }
        if let Some(verdict) = delivery.verdict {
            // Who no longer waits is not told.
            let refusal = link.take_refusal().filter(|_| !is_dead);
            verdict.send(refusal).ok();
        }
        receipts.extend(delivery.receipt);
        place = delivery.place;
        is_posted = room == Room::Full;
        if is_posted {
            post(link, place.take(), &mut receipts, waiting)?;
        }
    }
    if is_posted {
        return Ok(());
    }
    post(link, place, &mut receipts, waiting)
}

fn post(
    link: &mut dyn SourceLink,
    place: Option<Place>,
    receipts: &mut Vec<oneshot::Sender<()>>,
    waiting: &mut Waiting,
) -> Result<(), Error> {
    // Most servers give nothing twice: there is no position to go on from.
    let sequence = match place {
        Some(place) => place.with_bytes(|position| link.post(position))?,
        None => link.post(&[])?,
    };
    if !receipts.is_empty() {
        waiting.push_back((sequence, std::mem::take(receipts)));
    }
    Ok(())
}

/// The place in a position that [`Receiver`] has posted.
pub fn place_of(position: &[u8]) -> Option<u64> {
    position.try_into().ok().map(u64::from_le_bytes)
}

fn tell(waiting: &mut Waiting, acked: Sequence) {
    while waiting.front().is_some_and(|(s, _)| *s <= acked) {
        for receipt in waiting.pop_front().into_iter().flat_map(|(_, all)| all) {
            // A client that has gone needs no answer.
            receipt.send(()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Quiet;

    impl Waker for Quiet {
        fn wake(&self) {}
    }

    fn delivery(bytes: usize) -> Delivery {
        Delivery::text("x".repeat(bytes), Vec::new())
    }

    #[test]
    fn a_connection_waits_for_room_and_a_long_message_goes_in_alone() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let ingress = Arc::new(Ingress::default());
        assert!(runtime.block_on(ingress.push(delivery(1))).is_err());
        ingress.open();
        runtime.block_on(async {
            ingress.push(delivery(BYTES_MAX + 1)).await.unwrap();
            let second = tokio::spawn({
                let ingress = Arc::clone(&ingress);
                async move { ingress.push(delivery(1)).await }
            });
            tokio::task::yield_now().await;
            assert!(!second.is_finished());
            let waker: Arc<dyn Waker> = Arc::new(Quiet);
            let mut taken = Vec::new();
            ingress.take(&mut taken, &waker);
            assert_eq!(taken.len(), 1);
            second.await.unwrap().unwrap();
            for _ in 1..MESSAGES_MAX {
                ingress.push(delivery(1)).await.unwrap();
            }
            assert!(ingress.try_push(delivery(1)).is_err());
            let late = tokio::spawn({
                let ingress = Arc::clone(&ingress);
                async move { ingress.push(delivery(1)).await }
            });
            tokio::task::yield_now().await;
            ingress.close();
            assert!(late.await.unwrap().is_err());
        });
    }
}
