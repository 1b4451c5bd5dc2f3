//! A line with what waits to be written to it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use ::websocket::{Close, Encoder, Kind, Shared};
use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

/// Pieces that are written by one call.
const PIECES_MAX: usize = 64;

pub(super) struct Wire<S> {
    pub line: S,
    encoder: Encoder,
    /// Encoded frames, the first of which may be written in part.
    out: VecDeque<Bytes>,
    /// Bytes of pongs that were queued since all was written.
    pub pong_bytes: usize,
    is_flushed: bool,
    /// Our close is queued, or was written; or nothing can be written any more.
    is_closed: bool,
    failed: Option<io::ErrorKind>,
    /// Who waits until all is written.
    pub reading: Option<Waker>,
    pub writing: Option<Waker>,
}

impl<S> Wire<S> {
    pub fn new(line: S, encoder: Encoder) -> Wire<S> {
        Wire {
            line,
            encoder,
            out: VecDeque::new(),
            pong_bytes: 0,
            is_flushed: true,
            is_closed: false,
            failed: None,
            reading: None,
            writing: None,
        }
    }

    pub fn message(&mut self, kind: Kind, payload: &Bytes) {
        if !self.is_closed {
            let pieces = self.encoder.message(kind, payload);
            self.queue(pieces);
        }
    }

    pub fn shared(&mut self, message: &Shared) {
        if !self.is_closed {
            let pieces = self.encoder.shared(message);
            self.queue(pieces);
        }
    }

    pub fn ping(&mut self, payload: &[u8]) {
        if !self.is_closed {
            let piece = self.encoder.ping(payload);
            self.queue([piece]);
        }
    }

    pub fn pong(&mut self, payload: &[u8]) {
        if !self.is_closed {
            let piece = self.encoder.pong(payload);
            self.pong_bytes += piece.len();
            self.queue([piece]);
        }
    }

    pub fn close(&mut self, close: Option<&Close>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            let piece = self.encoder.close(close);
            self.queue([piece]);
        }
    }

    fn queue(&mut self, pieces: impl IntoIterator<Item = Bytes>) {
        self.out
            .extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Writes what waits, and has the line write it. Once that has failed, it fails for ever.
    pub fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = match self.failed {
            Some(kind) => return Poll::Ready(Err(kind.into())),
            None if self.out.is_empty() && self.is_flushed => return Poll::Ready(Ok(())),
            None => ready!(self.poll_all(context)),
        };
        if let Err(error) = &written {
            (self.failed, self.is_closed) = (Some(error.kind()), true);
            self.out = VecDeque::new();
        }
        self.pong_bytes = 0;
        [self.reading.take(), self.writing.take()]
            .into_iter()
            .flatten()
            .for_each(Waker::wake);
        Poll::Ready(written)
    }

    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            self.is_flushed = false;
            let count = ready!(self.poll_some(context))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(count);
        }
        ready!(Pin::new(&mut self.line).poll_flush(context))?;
        self.is_flushed = true;
        if self.out.capacity() > PIECES_MAX {
            self.out = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_some(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let line = Pin::new(&mut self.line);
        if self.out.len() == 1 || !line.is_write_vectored() {
            return line.poll_write(context, &self.out[0]);
        }
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.out) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        line.poll_write_vectored(context, &slices[..count])
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.out.front_mut() {
            if count < first.len() {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.out.pop_front();
        }
    }
}
