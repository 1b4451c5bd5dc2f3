//! A connection that reports its traffic.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Told what becomes of a line.
pub trait Observer: Send + Sync {
    /// Bytes have come; none: the other side has ended the line.
    fn read(&self, _bytes: usize) {}

    /// The other side has taken bytes: the system takes more, after it had to wait.
    fn moved(&self) {}

    /// All that was to be written so far has been taken by the system.
    fn flushed(&self) {}
}

pub struct Observed<S, O> {
    line: S,
    observer: Arc<O>,
    /// The system takes no more bytes before the other side has taken some.
    is_full: bool,
}

impl<S, O> Observed<S, O> {
    pub fn new(line: S, observer: Arc<O>) -> Observed<S, O> {
        Observed {
            line,
            observer,
            is_full: false,
        }
    }

    pub fn line(&self) -> &S {
        &self.line
    }

    /// Who is told.
    pub fn observer(&self) -> &Arc<O> {
        &self.observer
    }
}

impl<S, O: Observer> Observed<S, O> {
    fn note(&mut self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Pending => self.is_full = true,
            Poll::Ready(Ok(_)) if std::mem::take(&mut self.is_full) => self.observer.moved(),
            Poll::Ready(_) => {}
        }
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
        let written = Pin::new(&mut self.line).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.line).poll_write_vectored(context, parts);
        self.note(&written);
        written
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
pub struct LastHeard {
    begun: Instant,
    /// Milliseconds after `begun`.
    heard: AtomicU64,
    has_ended: AtomicBool,
}

impl Default for LastHeard {
    fn default() -> LastHeard {
        LastHeard {
            begun: Instant::now(),
            heard: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }
}

impl LastHeard {
    /// How long the other side has been silent; `None`: it has ended the line, as anybody may.
    pub fn silence(&self) -> Option<Duration> {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let silence = self.begun.elapsed().saturating_sub(heard);
        (!self.has_ended.load(Ordering::Relaxed)).then_some(silence)
    }
}

impl Observer for LastHeard {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[derive(Default)]
    struct Moves(AtomicU64);

    impl Observer for Moves {
        fn moved(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_only_waits_in_the_system_has_not_moved() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(4);
            let moves = Arc::<Moves>::default();
            let mut line = Observed::new(near, Arc::clone(&moves));
            line.write_all(b"full").await.unwrap();
            assert_eq!(moves.0.load(Ordering::Relaxed), 0);
            let mut read = [0; 8];
            let (written, _) = tokio::join!(line.write_all(b"more"), far.read_exact(&mut read));
            written.unwrap();
            assert_eq!(&read, b"fullmore");
            assert_eq!(moves.0.load(Ordering::Relaxed), 1);
            line.write_all(b"room").await.unwrap();
            assert_eq!(moves.0.load(Ordering::Relaxed), 1);
        });
    }
}
