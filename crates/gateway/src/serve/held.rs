//! A connection whose answer is a stream of events: it is taken from hyper once its head was read, so that a client
//! who is only there costs neither its buffers nor its states, and an event is one write.
//!
//! The end of the connection is the end of the answer, as HTTP/1.0 had it: nothing follows such a stream, and an
//! event needs no frame of a chunk around it.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Buf as _, Bytes, BytesMut};
use connect::net::{Line, STOP_GRACE, Served};
use hyper::header::{CONNECTION, DATE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};

use super::Peer;
use super::answer::Answer;
use super::stream::Body;

/// What a client may say while it listens is read, this much at once, and passed over.
const IGNORED_BYTES: usize = 256;

/// A line that hyper reads and writes until it is taken back.
pub(super) struct Lent<S>(Arc<Mutex<Option<S>>>);

/// Takes the line back.
pub(super) struct Lender<S>(Arc<Mutex<Option<S>>>);

pub(super) fn lend<S>(line: S) -> (Lent<S>, Lender<S>) {
    let shared = Arc::new(Mutex::new(Some(line)));
    (Lent(Arc::clone(&shared)), Lender(shared))
}

impl<S> Lender<S> {
    pub fn take(self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Unpin> Lent<S> {
    fn with<T>(
        &self,
        use_it: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            Some(line) => use_it(Pin::new(line)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lent<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|line| line.poll_read(context, into))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|line| line.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|line| line.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|line| line.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|line| line.poll_shutdown(context))
    }
}

/// Where the answer to a request is left that is a stream.
#[derive(Default)]
pub(crate) struct Place {
    /// In a box: most of the time there is none.
    answer: Mutex<Option<Box<Answer>>>,
    told: Notify,
}

impl Place {
    /// Leaves the answer here; the connection is taken away from whoever waits for this.
    pub async fn leave(&self, answer: Answer) -> Answer {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(answer));
        self.told.notify_one();
        pending().await
    }

    pub async fn left(&self) -> Answer {
        loop {
            self.told.notified().await;
            let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(answer) = answer.take() {
                return *answer;
            }
        }
    }
}

/// A connection with its stream. It is small, as are the futures around it: that is what a client costs who is only
/// there.
pub(super) struct Held(Box<Writing>);

impl Held {
    pub fn new(line: impl Line + 'static, answer: Answer) -> Held {
        let (parts, body) = answer.into_parts();
        Held(Box::new(Writing {
            line: Box::new(line),
            body,
            unwritten: head(parts.status, parts.headers),
            is_flushed: true,
            is_done: false,
        }))
    }

    /// Writes the stream until it ends, the client goes, or the server stops.
    pub async fn run(mut self, peer: &Peer, mut stopped: watch::Receiver<bool>) -> Served {
        let writing = &mut self.0;
        tokio::select! {
            biased;
            served = poll_fn(|context| writing.poll(context)) => return Ok(served?),
            () = peer.outgoing.is_cut() => return Ok(()),
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
        let rest = poll_fn(|context| writing.poll(context));
        // Its timer is not there before it runs.
        Ok(Box::pin(tokio::time::timeout(STOP_GRACE, rest)).await??)
    }
}

fn head(status: StatusCode, mut headers: HeaderMap) -> Bytes {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut out = BytesMut::with_capacity(512);
    let mut line = |parts: [&[u8]; 4]| parts.iter().for_each(|part| out.extend_from_slice(part));
    let reason = status.canonical_reason().unwrap_or_default();
    line([
        b"HTTP/1.1 ",
        status.as_str().as_bytes(),
        b" ",
        reason.as_bytes(),
    ]);
    let date = httpdate::fmt_http_date(SystemTime::now());
    line([b"\r\n", DATE.as_str().as_bytes(), b": ", date.as_bytes()]);
    for (name, value) in &headers {
        line([b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()]);
    }
    line([b"\r\n\r\n", b"", b"", b""]);
    out.freeze()
}

struct Writing {
    line: Box<dyn Line>,
    body: Body,
    unwritten: Bytes,
    is_flushed: bool,
    is_done: bool,
}

impl Writing {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The client may go at any time, also while nothing is to be written.
        let mut ignored = [0; IGNORED_BYTES];
        loop {
            let mut into = ReadBuf::new(&mut ignored);
            match Pin::new(&mut self.line).poll_read(context, &mut into) {
                Poll::Ready(Ok(())) if into.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        loop {
            while !self.unwritten.is_empty() {
                let line = Pin::new(&mut self.line);
                let count = ready!(line.poll_write(context, &self.unwritten))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.unwritten.advance(count);
                self.is_flushed = false;
            }
            if !self.is_flushed {
                ready!(Pin::new(&mut self.line).poll_flush(context))?;
                self.is_flushed = true;
            }
            if self.is_done {
                return Pin::new(&mut self.line).poll_shutdown(context);
            }
            match ready!(self.body.poll_piece(context)) {
                Some(piece) => self.unwritten = piece,
                None => self.is_done = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_ends_with_the_connection() {
        let mut headers = HeaderMap::new();
        headers.insert("x-a", HeaderValue::from_static("b"));
        let head = head(StatusCode::OK, headers);
        let text = std::str::from_utf8(&head).expect("it is text");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\ndate: "), "{text}");
        assert!(
            text.ends_with(" GMT\r\nx-a: b\r\nconnection: close\r\n\r\n"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_line_that_was_taken_back_is_read_by_its_lender_alone() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (near, mut far) = tokio::io::duplex(64);
        let (mut lent, lender) = lend(near);
        far.write_all(b"ab").await.expect("it is open");
        assert_eq!(lent.read_u8().await.ok(), Some(b'a'));
        let mut line = lender.take().expect("it was not taken");
        let error = lent.read_u8().await.expect_err("it is not lent any more");
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        assert_eq!(line.read_u8().await.ok(), Some(b'b'));
    }
}
