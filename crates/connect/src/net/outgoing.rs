//! What a connection with an endless answer has still to write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use super::Observer;

/// Bytes of events that may wait to be written. Whatever is written next, no more are asked for before
/// all of them are.
const UNWRITTEN_MAX: usize = 16 << 10;

/// Of one connection.
#[derive(Default)]
pub struct Outgoing {
    state: Mutex<State>,
    is_unmetered: bool,
    has_events: AtomicBool,
    cut: Notify,
}

#[derive(Default)]
struct State {
    /// Bytes that were given since the line was last written empty.
    unwritten: usize,
    waker: Option<Waker>,
}

impl Outgoing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where somebody else sees to it that not too much waits.
    pub fn unmetered() -> Outgoing {
        Outgoing {
            is_unmetered: true,
            ..Outgoing::default()
        }
    }

    /// Waits until more may be given.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_unmetered {
            return Poll::Ready(());
        }
        let mut state = self.lock();
        if state.unwritten < UNWRITTEN_MAX {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    pub fn give(&self, bytes: usize) {
        self.lock().unwritten += bytes;
    }

    /// The answer of this connection has no end.
    pub fn begin(&self) {
        self.has_events.store(true, Ordering::Relaxed);
    }

    pub fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Relaxed)
    }

    /// The connection is to end now, whatever it has still to write.
    pub fn cut(&self) {
        self.cut.notify_one();
    }

    pub async fn is_cut(&self) {
        self.cut.notified().await;
    }
}

impl Observer for Outgoing {
    fn flushed(&self) {
        let mut state = self.lock();
        state.unwritten = 0;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_asked_for_until_all_is_written() {
        let outgoing = Outgoing::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(outgoing.poll_room(&mut context).is_ready());
        outgoing.give(UNWRITTEN_MAX - 1);
        assert!(outgoing.poll_room(&mut context).is_ready());
        outgoing.give(1);
        assert!(outgoing.poll_room(&mut context).is_pending());
        outgoing.flushed();
        assert!(outgoing.poll_room(&mut context).is_ready());
    }
}
