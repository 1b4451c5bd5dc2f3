//! Messages that a sink has taken and that its server has not confirmed yet.
//!
//! A worker takes them in order, as fast as the server lets it, and says which are confirmed. What is
//! not when the connection ends is taken again on the next one, in the same order. Promises: no more
//! messages and bytes than the limits wait; nothing leaves but by a confirmation, or for `on.error`.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::{Network, is_again_too_soon};
use crate::Error;
use crate::answer::{AnswerClass, AnswerCounts};
use crate::error::{Cause, OpenError};
use crate::message::{Sent, Undelivered};

/// Messages that may wait to be confirmed.
pub const WAITING_MAX: usize = 1024;

/// Bytes of messages that may wait to be confirmed; a longer one goes in alone.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Counts the messages of a sink from 0.
pub type Number = u64;

pub struct InFlight {
    /// App and stream.
    name: String,
    /// The server, for errors.
    peer: String,
    answers: Arc<AnswerCounts>,
    state: Mutex<State>,
    changed: Condvar,
    filled: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Entry>,
    /// Number of the first that waits.
    first: Number,
    /// Number of the next that was not taken on this connection.
    next: Number,
    bytes: usize,
    is_connected: bool,
    is_closing: bool,
    /// The last connection ended in order.
    is_resting: bool,
    /// Why the last connection ended.
    cause: String,
    /// What the server said no to.
    refused: Vec<Undelivered>,
}

struct Entry {
    sent: Arc<Sent>,
    is_confirmed: bool,
}

impl State {
    fn is_full(&self, len: usize) -> bool {
        self.waiting.len() >= WAITING_MAX || self.bytes > 0 && self.bytes + len > WAITING_BYTES_MAX
    }
}

impl InFlight {
    /// `answers` counts each message once: confirmed, refused, or lost with its connection.
    pub fn new(name: String, peer: String, answers: &Arc<AnswerCounts>) -> InFlight {
        InFlight {
            name,
            peer,
            answers: Arc::clone(answers),
            state: Mutex::default(),
            changed: Condvar::new(),
            filled: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.peer.clone(), cause)
    }

    // ---- the thread of the sink ----

    /// Unless there is a connection: opens one on a worker, which then serves it. `serve` opens the
    /// buffer first. `connected`: when the last was opened.
    pub fn connect<S, E, F>(
        &self,
        network: &Network,
        connected: &mut Option<Instant>,
        open: impl Future<Output = Result<S, E>> + Send + 'static,
        serve: impl FnOnce(S) -> F + Send + 'static,
    ) -> Result<(), Error>
    where
        S: Send + 'static,
        E: Into<OpenError> + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        if self.is_connected() {
            return Ok(());
        }
        if is_again_too_soon(*connected) {
            return Err(self.unavailable("the connection was lost again at once"));
        }
        let unavailable = |e: std::io::Error| self.unavailable(e);
        let workers = network.workers().map_err(unavailable)?;
        let opened = workers.wait_for(async move {
            tokio::spawn(serve(open.await?));
            Ok::<_, E>(())
        });
        let opened = opened.map_err(unavailable)?;
        opened.map_err(|error| error.into().of(&self.peer))?;
        *connected = Some(Instant::now());
        Ok(())
    }

    pub fn is_connected(&self) -> bool {
        self.lock().is_connected
    }

    /// Was the connection closed in order, so that the next message opens another?
    pub fn is_at_rest(&self) -> bool {
        let state = self.lock();
        !state.is_connected && state.is_resting
    }

    /// A connection is there: all that waits is taken from the front.
    pub fn open(&self) {
        let mut state = self.lock();
        state.is_connected = true;
        state.is_closing = false;
        state.next = state.first;
        drop(state);
        self.filled.notify_one();
    }

    /// Waits for room, then appends.
    pub fn push(&self, sent: Sent) -> Result<(), Error> {
        let len = sent.payload.len();
        let mut state = self.lock();
        while state.is_connected && state.is_full(len) {
            state = self.wait(state);
        }
        if !state.is_connected {
            return Err(self.unavailable(state.cause.clone()));
        }
        state.bytes += len;
        state.waiting.push_back(Entry {
            sent: Arc::new(sent),
            is_confirmed: false,
        });
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits until everything is confirmed.
    pub fn flush(&self) -> Result<(), Error> {
        let mut state = self.lock();
        while state.is_connected && !state.waiting.is_empty() {
            state = self.wait(state);
        }
        match state.waiting.is_empty() {
            true => Ok(()),
            false => Err(self.unavailable(state.cause.clone())),
        }
    }

    /// As [`InFlight::flush`]; then the worker ends the connection.
    pub fn close(&self) -> Result<(), Error> {
        let flushed = self.flush();
        let mut state = self.lock();
        state.is_closing = true;
        self.filled.notify_one();
        while state.is_connected {
            state = self.wait(state);
        }
        flushed
    }

    /// What waits while there is no connection, for `on.error`.
    pub fn take_undelivered(&self) -> Vec<Undelivered> {
        let mut state = self.lock();
        if state.is_connected {
            return Vec::new();
        }
        state.bytes = 0;
        state.first += state.waiting.len() as Number;
        state.next = state.first;
        let cause = state.cause.clone();
        let left = std::mem::take(&mut state.waiting);
        left.into_iter()
            .filter(|entry| !entry.is_confirmed)
            .map(|entry| Undelivered {
                message: Arc::unwrap_or_clone(entry.sent),
                error: self.unavailable(cause.clone()),
            })
            .collect()
    }

    /// What the server said no to since this was asked last.
    pub fn take_refused(&self) -> Vec<Undelivered> {
        std::mem::take(&mut self.lock().refused)
    }

    // ---- the worker ----

    /// The next message of this connection; `None` where there is none now.
    pub fn try_next(&self) -> Option<(Number, Arc<Sent>)> {
        let mut state = self.lock();
        loop {
            let number = state.next;
            let entry = state.waiting.get((number - state.first) as usize)?;
            let (sent, is_confirmed) = (Arc::clone(&entry.sent), entry.is_confirmed);
            state.next += 1;
            if !is_confirmed {
                return Some((number, sent));
            }
        }
    }

    /// Is the sink closed, and nothing waits any more?
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        state.is_closing && state.waiting.is_empty()
    }

    /// Waits until there may be a next message, or the sink may be closed.
    pub async fn changed(&self) {
        self.filled.notified().await;
    }

    /// The server has taken a message.
    pub fn confirm(&self, number: Number) {
        self.done(number, AnswerClass::Accepted);
    }

    fn done(&self, number: Number, class: AnswerClass) {
        let mut state = self.lock();
        let Some(index) = number.checked_sub(state.first) else {
            return;
        };
        let Some(entry) = state.waiting.get_mut(index as usize) else {
            return;
        };
        if !std::mem::replace(&mut entry.is_confirmed, true) {
            self.answers.add(class, 1);
        }
        while state.waiting.front().is_some_and(|e| e.is_confirmed) {
            let entry = state.waiting.pop_front();
            state.bytes -= entry.map_or(0, |e| e.sent.payload.len());
            state.first += 1;
        }
        let is_last = state.is_closing && state.waiting.is_empty();
        drop(state);
        self.changed.notify_all();
        if is_last {
            self.filled.notify_one();
        }
    }

    /// The server will never take a message.
    pub fn refuse(&self, number: Number, cause: String) {
        let mut state = self.lock();
        let index = number.checked_sub(state.first);
        let entry = index.and_then(|index| state.waiting.get(index as usize));
        if let Some(entry) = entry {
            let message = Sent::clone(&entry.sent);
            let error = Error::failed(format!("sending to {}", self.peer), cause);
            state.refused.push(Undelivered { message, error });
        }
        drop(state);
        self.done(number, AnswerClass::Refused);
    }

    /// The server has taken all messages up to this one.
    pub fn confirm_through(&self, number: Number) {
        let mut state = self.lock();
        while state.first <= number
            && let Some(entry) = state.waiting.pop_front()
        {
            state.bytes -= entry.sent.payload.len();
            state.first += 1;
            if !entry.is_confirmed {
                self.answers.add(AnswerClass::Accepted, 1);
            }
        }
        state.next = state.next.max(state.first);
        let is_last = state.is_closing && state.waiting.is_empty();
        drop(state);
        self.changed.notify_all();
        if is_last {
            self.filled.notify_one();
        }
    }

    /// The first message that waits to be confirmed, and was taken on this connection.
    pub fn oldest(&self) -> Option<Number> {
        let state = self.lock();
        (state.first < state.next).then_some(state.first)
    }

    /// The connection has ended: in order, or for a cause that is said.
    pub fn ended(&self, result: Result<(), String>) {
        let mut state = self.lock();
        state.is_connected = false;
        state.is_resting = result.is_ok();
        match result {
            Ok(()) => "the connection was closed".clone_into(&mut state.cause),
            Err(cause) => {
                let taken = (state.next - state.first) as usize;
                let lost = state.waiting.iter().take(taken);
                let lost = lost.filter(|entry| !entry.is_confirmed).count();
                self.answers.add(AnswerClass::Retry, lost as u64);
                tracing::error!(
                    sink = self.name,
                    cause,
                    waiting = state.waiting.len(),
                    "sink lost its connection; reconnecting"
                );
                state.cause = cause;
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::Payload;
    use crate::message::Message;

    fn text(sent: &Sent) -> &str {
        std::str::from_utf8(&sent.payload).unwrap()
    }

    fn push(in_flight: &InFlight, payload: &str) -> Result<(), Error> {
        in_flight.push(Sent::new(&Message::of(Payload::Text(payload))))
    }

    #[test]
    fn what_was_not_confirmed_comes_again_in_order() {
        let in_flight = InFlight::new("A/S".into(), "'x'".into(), &Arc::default());
        assert!(push(&in_flight, "a").is_err(), "there is no connection");
        in_flight.open();
        for payload in ["a", "b", "c"] {
            push(&in_flight, payload).unwrap();
        }
        let taken: Vec<Number> = std::iter::from_fn(|| in_flight.try_next())
            .map(|(number, _)| number)
            .collect();
        assert_eq!(taken, [0, 1, 2]);
        // Out of order: the second stays in its place until the first is confirmed.
        in_flight.confirm(1);
        in_flight.ended(Err("gone".into()));
        assert!(in_flight.flush().is_err());
        in_flight.open();
        let again: Vec<String> = std::iter::from_fn(|| in_flight.try_next())
            .map(|(_, sent)| text(&sent).to_owned())
            .collect();
        assert_eq!(again, ["a", "c"]);
        in_flight.confirm(0);
        in_flight.ended(Err("gone".into()));
        let left = in_flight.take_undelivered();
        assert_eq!(left.len(), 1);
        assert_eq!(text(&left[0].message), "c");
        assert!(in_flight.flush().is_ok());
        in_flight.open();
        push(&in_flight, "d").unwrap();
        let (number, _) = in_flight.try_next().unwrap();
        in_flight.confirm(number);
        in_flight.confirm(number);
        assert!(in_flight.flush().is_ok());
    }

    #[test]
    fn what_the_server_refuses_is_given_back_and_its_neighbours_go_on() {
        let in_flight = InFlight::new("A/S".into(), "'x'".into(), &Arc::default());
        in_flight.open();
        for payload in ["a", "b"] {
            push(&in_flight, payload).unwrap();
        }
        let (number, _) = in_flight.try_next().unwrap();
        in_flight.refuse(number, "no".into());
        let (number, _) = in_flight.try_next().unwrap();
        in_flight.confirm(number);
        assert!(in_flight.flush().is_ok());
        let refused = in_flight.take_refused();
        assert_eq!(refused.len(), 1);
        assert_eq!(text(&refused[0].message), "a");
        assert!(!refused[0].error.is_unavailable());
        assert!(in_flight.take_refused().is_empty());
    }

    #[test]
    fn one_word_confirms_all_before_it() {
        let in_flight = InFlight::new("A/S".into(), "'x'".into(), &Arc::default());
        in_flight.open();
        for payload in ["a", "b", "c"] {
            push(&in_flight, payload).unwrap();
        }
        assert_eq!(in_flight.oldest(), None, "nothing was taken yet");
        let numbers: Vec<Number> = (0..2).map(|_| in_flight.try_next().unwrap().0).collect();
        assert_eq!((numbers[1], in_flight.oldest()), (1, Some(0)));
        in_flight.confirm_through(1);
        assert_eq!(in_flight.oldest(), None);
        assert_eq!(in_flight.try_next().map(|(number, _)| number), Some(2));
        in_flight.confirm_through(7);
        assert!(in_flight.flush().is_ok());
        push(&in_flight, "d").unwrap();
        assert_eq!(in_flight.try_next().map(|(number, _)| number), Some(3));
    }
}
