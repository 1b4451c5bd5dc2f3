//! What of a message has come: its bytes are of the server's budget, and it has its time.
//!
//! A message is gathered before it is shown, so its line is watched. Bytes of the block in which the last message
//! ended are not counted: fewer than are read at once.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use connect::arrivals::{Account, Arrivals};
use connect::net::{Line, Liveness, Pace};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes of a control frame of a client around what it carries: two, and the mask.
const CONTROL_BYTES: usize = 6;

/// The message that a connection is reading.
pub(super) struct Gauge {
    arrivals: Arc<Arrivals>,
    liveness: Arc<Liveness>,
    unfinished: Mutex<Unfinished>,
}

struct Unfinished {
    account: Account,
    bytes: usize,
    begun: Option<Instant>,
    /// It is read no further, for want of room in the budget.
    waits: bool,
}

impl Unfinished {
    /// Since when the client lets a message wait.
    fn since(&self) -> Option<Instant> {
        self.begun.filter(|_| !self.waits)
    }
}

impl Gauge {
    pub fn new(arrivals: Arc<Arrivals>, liveness: Arc<Liveness>) -> Gauge {
        Gauge {
            unfinished: Mutex::new(Unfinished {
                account: arrivals.open(),
                bytes: 0,
                begun: None,
                waits: false,
            }),
            arrivals,
            liveness,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A message is complete: what it holds of the budget goes on with it.
    pub fn hand_on(&self) -> Account {
        self.lock().account.hand_on()
    }

    /// A message is complete, and has been handed over.
    pub fn done(&self) {
        let mut unfinished = self.lock();
        (unfinished.bytes, unfinished.begun) = (0, None);
        if unfinished.account.held() > 0 {
            unfinished.account.keep(0);
        }
    }

    /// A control frame came, which may stand between the parts of a message.
    pub fn control(&self, bytes: usize) {
        let mut unfinished = self.lock();
        unfinished.bytes = unfinished.bytes.saturating_sub(bytes + CONTROL_BYTES);
        if unfinished.bytes == 0 {
            unfinished.begun = None;
        }
    }

    /// Since when the client lets a message wait that it has begun.
    pub fn since(&self) -> Option<Instant> {
        self.lock().since()
    }

    /// Returns when a message does not come in its time.
    pub async fn late(&self) -> Duration {
        let Some(whole) = Pace::default().whole else {
            return std::future::pending().await;
        };
        loop {
            let now = Instant::now();
            let end = self.lock().since().unwrap_or(now) + whole;
            if end <= now {
                self.arrivals.count_late();
                return whole;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut unfinished = self.lock();
        let bytes = unfinished.bytes;
        if bytes == 0 {
            return Poll::Ready(Ok(()));
        }
        if !unfinished.account.fits(bytes) {
            self.arrivals.count_refused();
            return Poll::Ready(Err(io::Error::other(format!(
                "a message is longer than the {} bytes that this server reads at once (a quarter of \
                 --memory-limit)",
                self.arrivals.max()
            ))));
        }
        if unfinished.account.poll_hold(context, bytes).is_pending() {
            unfinished.waits = true;
            self.liveness.deaf();
            return Poll::Pending;
        }
        if std::mem::take(&mut unfinished.waits) {
            // The wait was ours.
            unfinished.begun = Some(Instant::now());
            self.liveness.heard();
        }
        Poll::Ready(Ok(()))
    }

    fn read(&self, bytes: usize) {
        if bytes > 0 {
            let mut unfinished = self.lock();
            unfinished.bytes += bytes;
            unfinished.begun.get_or_insert_with(Instant::now);
        }
    }
}

/// A line that is read as far as the budget allows.
pub(super) struct Gauged {
    line: Box<dyn Line>,
    gauge: Arc<Gauge>,
}

impl Gauged {
    pub fn new(line: Box<dyn Line>, gauge: Arc<Gauge>) -> Gauged {
        Gauged { line, gauge }
    }

    pub fn gauge(&self) -> &Arc<Gauge> {
        &self.gauge
    }
}

impl AsyncRead for Gauged {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.gauge.poll_room(context))?;
        let before = into.filled().len();
        ready!(Pin::new(&mut self.line).poll_read(context, into))?;
        self.gauge.read(into.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gauged {
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
        Pin::new(&mut self.line).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a message late that began so long ago, and is read no further where it `waits` for room?
    fn is_late(begun: Option<Duration>, waits: bool) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        let _time = runtime.enter();
        let gauge = Gauge::new(Arc::default(), Arc::default());
        gauge.lock().begun = begun.map(|ago| Instant::now() - ago);
        gauge.lock().waits = waits;
        let late = std::pin::pin!(gauge.late());
        let answer = late.poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert_eq!(gauge.arrivals.late(), u64::from(answer.is_ready()));
        answer.is_ready()
    }

    #[test]
    fn a_message_is_late_after_its_whole_time_unless_the_wait_is_ours() {
        let whole = Pace::default().whole.unwrap();
        assert!(is_late(Some(whole), false));
        assert!(!is_late(Some(whole), true));
        assert!(!is_late(Some(whole / 2), false));
        assert!(!is_late(None, false));
    }
}
