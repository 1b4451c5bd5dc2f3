//! A line whose traffic somebody is told of.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Told what becomes of a line.
pub(crate) trait Observer: Send + Sync {
    /// Bytes have come; none: the other side has ended the line.
    fn read(&self, _bytes: usize) {}

    /// All that was to be written so far has been taken by the system.
    fn flushed(&self) {}
}

pub(crate) struct Observed<S, O> {
    line: S,
    observer: Arc<O>,
}

impl<S, O> Observed<S, O> {
    pub fn new(line: S, observer: Arc<O>) -> Observed<S, O> {
        Observed { line, observer }
    }

    /// Who is told.
    pub fn observer(&self) -> &Arc<O> {
        &self.observer
    }
}

impl<S: AsyncRead + Unpin, O: Observer> AsyncRead for Observed<S, O> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.line).poll_read(context, into);
        if let Poll::Ready(Ok(())) = &read {
            self.observer.read(into.filled().len() - before);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, O: Observer> AsyncWrite for Observed<S, O> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.line).poll_flush(context);
        if let Poll::Ready(Ok(())) = &flushed {
            self.observer.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }
}

/// When something was last heard of the other side.
pub(crate) struct Ear {
    begun: Instant,
    /// Milliseconds after `begun`.
    heard: AtomicU64,
    has_ended: AtomicBool,
}

impl Default for Ear {
    fn default() -> Ear {
        Ear {
            begun: Instant::now(),
            heard: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }
}

impl Ear {
    /// How long the other side has been silent; `None`: it has ended the line, as anybody may.
    pub fn silence(&self) -> Option<Duration> {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let silence = self.begun.elapsed().saturating_sub(heard);
        (!self.has_ended.load(Ordering::Relaxed)).then_some(silence)
    }
}

impl Observer for Ear {
    fn read(&self, bytes: usize) {
        match bytes {
            0 => self.has_ended.store(true, Ordering::Relaxed),
            _ => {
                let now = self.begun.elapsed().as_millis() as u64;
                self.heard.store(now, Ordering::Relaxed);
            }
        }
    }
}
