//! WebSocket over a line: the handshakes, and the codec of the crate `websocket` with a line under it.
//!
//! Promises: a connection on which nothing passes holds no buffers; what is queued is written in as few calls as the
//! system allows, without copies; a ping is answered though nobody writes, and who takes no answers is read no
//! further; nothing follows our close; nothing is lost where a wait is given up. Never: a clock;
//! limits of time are the caller's.

mod handshake;
mod wire;

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use ::websocket::{
    Agreed, Close, Code, Decoder, Encoder, Event, Fault, Kind, Role, Shared, answer_to, offer,
};
pub use handshake::{Answered, Ask, Refusal, accept, is_asked, judge, shake};

use wire::Wire;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 16 << 10;

/// With more bytes than these waiting to be written, pongs are queued only as fast as they are taken.
const UNREAD_PONG_BYTES_MAX: usize = 16 << 10;

/// A line on which both sides speak WebSocket.
pub struct Opened<S> {
    pub line: S,
    /// Which side we are.
    pub role: Role,
    /// Longest message that is read, in bytes.
    pub message_max: usize,
    pub agreed: Option<Agreed>,
    /// What came behind the handshake.
    pub read: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Opened<S> {
    /// Its two directions, each for itself.
    pub fn split(self) -> (Reader<S>, Writer<S>) {
        let other = match self.role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        let encoder = Encoder::new(self.role, self.agreed);
        let wire = Arc::new(Mutex::new(Wire::new(self.line, encoder)));
        let reader = Reader {
            wire: Arc::clone(&wire),
            decoder: Decoder::new(other, self.message_max, self.agreed),
            rest: self.read,
            answer: None,
            has_failed: false,
        };
        (reader, Writer { wire })
    }
}

/// Why nothing more is read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The other side is to be told.
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("the connection has ended without a word")]
    Gone,
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn lock<S>(wire: &Mutex<Wire<S>>) -> MutexGuard<'_, Wire<S>> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the other side says.
pub struct Reader<S> {
    wire: Arc<Mutex<Wire<S>>>,
    decoder: Decoder,
    /// What was read behind the last event.
    rest: Bytes,
    /// The other side has closed; with this it is answered.
    answer: Option<Option<Close>>,
    has_failed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<S> {
    /// What comes next; `None`: the connection has ended behind a close. A ping is answered already; a close is by
    /// [`leave`], so that what is still to be said can be said before it.
    pub async fn next(&mut self) -> Result<Option<Event>, Unread> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Event>, Unread>> {
        let next = self.poll_event(context);
        self.has_failed |= matches!(next, Poll::Ready(Err(_)));
        next
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Event>, Unread>> {
        let mut wire = lock(&self.wire);
        loop {
            // Where that fails, what the other side has said before it went is still to be read.
            if wire.poll_out(context).is_pending() && wire.pong_bytes > UNREAD_PONG_BYTES_MAX {
                wire.reading = Some(context.waker().clone());
                return Poll::Pending;
            }
            let event = match self.rest.is_empty() {
                false => {
                    let (count, event) = self.decoder.decode(&self.rest)?;
                    self.rest.advance(count);
                    if self.rest.is_empty() {
                        self.rest = Bytes::new();
                    }
                    event
                }
                true => {
                    // On the stack: a connection that waits holds none of it.
                    let mut block = [MaybeUninit::uninit(); BLOCK_BYTES];
                    let mut block = ReadBuf::uninit(&mut block);
                    ready!(Pin::new(&mut wire.line).poll_read(context, &mut block))?;
                    let block = block.filled();
                    if block.is_empty() {
                        return Poll::Ready(match self.answer {
                            Some(_) => Ok(None),
                            None => Err(Unread::Gone),
                        });
                    }
                    let (count, event) = self.decoder.decode(block)?;
                    self.rest = Bytes::copy_from_slice(&block[count..]);
                    event
                }
            };
            match &event {
                None => continue,
                Some(Event::Ping(payload)) => wire.pong(payload),
                Some(Event::Close(close)) => {
                    self.answer = Some(close.clone());
                    return Poll::Ready(Ok(event));
                }
                Some(Event::Message { .. } | Event::Pong(_)) => return Poll::Ready(Ok(event)),
            }
            // What could not be written now is written by the next look, or by the writer, who also hears of it
            // where it failed.
            let _later = wire.poll_out(context);
            return Poll::Ready(Ok(event));
        }
    }

    /// Has the other side closed?
    pub fn has_closed(&self) -> bool {
        self.answer.is_some()
    }

    /// Reads and passes over what comes until the line ends: one that is closed with bytes unread is reset, and what
    /// was said last is lost with it.
    async fn discard(&mut self) {
        poll_fn(|context| {
            let mut wire = lock(&self.wire);
            let mut block = [MaybeUninit::uninit(); BLOCK_BYTES];
            loop {
                let mut block = ReadBuf::uninit(&mut block);
                let read = ready!(Pin::new(&mut wire.line).poll_read(context, &mut block));
                if read.is_err() || block.filled().is_empty() {
                    return Poll::Ready(());
                }
            }
        })
        .await;
    }
}

/// What is said to the other side: queued, then flushed.
pub struct Writer<S> {
    wire: Arc<Mutex<Wire<S>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Writer<S> {
    pub fn message(&mut self, kind: Kind, payload: &Bytes) {
        lock(&self.wire).message(kind, payload);
    }

    /// Messages that were encoded for many connections.
    pub fn shared<'m>(&mut self, messages: impl IntoIterator<Item = &'m Shared>) {
        let mut wire = lock(&self.wire);
        for message in messages {
            wire.shared(message);
        }
    }

    pub fn ping(&mut self, payload: &[u8]) {
        lock(&self.wire).ping(payload);
    }

    /// Nothing that is queued later is written.
    pub fn close(&mut self, close: Option<&Close>) {
        lock(&self.wire).close(close);
    }

    /// Waits until the system has taken all that is queued.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = lock(&self.wire);
        let written = wire.poll_out(context);
        if written.is_pending() {
            wire.writing = Some(context.waker().clone());
        }
        written
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        poll_fn(|context| Pin::new(&mut lock(&self.wire).line).poll_shutdown(context)).await
    }
}

/// Ends a connection: answers a close, or says why, unless that was said; waits until the other side has closed as
/// well, and for the end of the line. The caller limits the time.
pub async fn leave<S: AsyncRead + AsyncWrite + Unpin>(
    mut reader: Reader<S>,
    mut writer: Writer<S>,
    close: Option<&Close>,
) {
    match &reader.answer {
        Some(answer) => writer.close(answer.as_ref()),
        None => writer.close(close),
    }
    let answered = async {
        // Who has closed waits for us to end the line, and who broke the protocol says nothing that counts.
        while !reader.has_closed() && !reader.has_failed {
            match reader.next().await {
                // Each of them says that nothing more is to be waited for.
                Ok(None) | Err(_) => return,
                Ok(Some(_)) => {}
            }
        }
    };
    // Who reads nothing may still write, and the other way round.
    let (flushed, ()) = tokio::join!(writer.flush(), answered);
    // The answer to a close, which came meanwhile.
    if flushed.is_err() || writer.flush().await.is_err() || writer.shutdown().await.is_err() {
        return;
    }
    reader.discard().await;
}

#[cfg(test)]
mod tests;
