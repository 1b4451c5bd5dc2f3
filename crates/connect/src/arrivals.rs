//! What comes in on all ports of a server: the bytes that are being read, against one budget.
//!
//! Whoever reads a body, a frame or a message takes its bytes from the budget before it has room made for
//! them. They travel on with the message and with its rows, and are given back when the executor has taken
//! those. Promises: beyond the budget nobody reads on, but for one reader, who always may, so that half-read
//! bodies cannot keep each other waiting; no body is larger than the budget. One value per server, in
//! [`crate::shared::Shared`].

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes in flight where nobody limits memory.
const BYTES_MAX: u64 = 256 << 20;

/// Part of `--memory-limit` that is for bytes in flight. A body is held twice while its buffer grows, and
/// its rows beside it while it is mapped.
const PART: u64 = 4;

/// The least budget: no limit of memory keeps small requests out.
const BYTES_MIN: u64 = 1 << 20;

/// The budget of a server, and counts of its ports.
#[derive(Debug)]
pub struct Arrivals {
    state: Mutex<State>,
    /// Of the next account.
    number: AtomicU64,
    late: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct State {
    max: u64,
    held: u64,
    /// Somebody reads beyond the budget.
    has_finisher: bool,
    /// Who waits for bytes, the oldest first.
    waiting: BTreeMap<u64, Waker>,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals {
            state: Mutex::new(State {
                max: BYTES_MAX,
                held: 0,
                has_finisher: false,
                waiting: BTreeMap::new(),
            }),
            number: AtomicU64::new(0),
            late: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl Arrivals {
    /// The budget that is part of a limit of memory, in bytes.
    pub fn limit(&self, memory_max: u64) {
        self.lock().max = (memory_max / PART).max(BYTES_MIN);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that a client had begun did not come in its time.
    pub fn count_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    /// Bodies, frames and messages that did not come in their time.
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Something is larger than the budget.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Bodies, frames and messages that were larger than the budget.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes that are being read, or wait for their source or executor.
    pub fn held(&self) -> u64 {
        self.lock().held
    }

    /// The budget, in bytes.
    pub fn max(&self) -> u64 {
        self.lock().max
    }

    /// Those who wait for bytes of the budget.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// For what is read next.
    pub fn open(self: &Arc<Arrivals>) -> Account {
        Account {
            arrivals: Arc::clone(self),
            number: self.number.fetch_add(1, Ordering::Relaxed),
            held: 0,
            is_finisher: false,
            has_waited: false,
        }
    }
}

impl State {
    /// The oldest of those who wait looks again, and has the next one look where there is still room.
    fn wake(&mut self) {
        if (self.held < self.max || !self.has_finisher)
            && let Some((_, waker)) = self.waiting.pop_first()
        {
            waker.wake();
        }
    }
}

/// The bytes of one body, frame or message, or of the rows of some, given back when dropped.
#[derive(Debug)]
pub struct Account {
    arrivals: Arc<Arrivals>,
    number: u64,
    held: u64,
    /// It may read beyond the budget, until it has given everything back.
    is_finisher: bool,
    /// It may be among those who wait.
    has_waited: bool,
}

impl Account {
    /// Can so many bytes be held at all?
    pub fn fits(&self, bytes: usize) -> bool {
        bytes as u64 <= self.arrivals.max()
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.held as usize
    }

    /// Holds at least so many bytes in all, as soon as there is room.
    pub fn poll_hold(&mut self, context: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let more = (bytes as u64).saturating_sub(self.held);
        if more == 0 {
            return Poll::Ready(());
        }
        let mut state = self.arrivals.lock();
        let fits = state.held + more <= state.max;
        if !fits && !self.is_finisher && state.has_finisher {
            state.waiting.insert(self.number, context.waker().clone());
            self.has_waited = true;
            return Poll::Pending;
        }
        if !fits {
            state.has_finisher = true;
            self.is_finisher = true;
        }
        state.held += more;
        self.held += more;
        if std::mem::take(&mut self.has_waited) {
            state.waiting.remove(&self.number);
        }
        state.wake();
        Poll::Ready(())
    }

    /// All that it holds, for what was read with it; it goes on with nothing.
    pub fn hand_on(&mut self) -> Account {
        let mut of_message = self.arrivals.open();
        of_message.held = std::mem::take(&mut self.held);
        of_message.is_finisher = std::mem::take(&mut self.is_finisher);
        of_message
    }

    /// Takes over what another account of the same server holds, which reads no more.
    pub fn absorb(&mut self, mut other: Account) {
        self.held += std::mem::take(&mut other.held);
        self.is_finisher |= std::mem::take(&mut other.is_finisher);
    }

    /// As [`Account::poll_hold`].
    pub async fn hold(&mut self, bytes: usize) {
        poll_fn(|context| self.poll_hold(context, bytes)).await;
    }

    /// Holds so many bytes at most from now on.
    pub fn keep(&mut self, bytes: usize) {
        let less = self.held.saturating_sub(bytes as u64);
        if less > 0 || bytes == 0 {
            self.give_back(less);
        }
    }

    fn give_back(&mut self, bytes: u64) {
        let mut state = self.arrivals.lock();
        self.held -= bytes;
        state.held -= bytes;
        if self.held == 0 {
            if std::mem::take(&mut self.is_finisher) {
                state.has_finisher = false;
            }
            if std::mem::take(&mut self.has_waited) {
                state.waiting.remove(&self.number);
            }
        }
        state.wake();
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // One that was absorbed, or never read anything, has nothing to give.
        if self.held > 0 || self.is_finisher || self.has_waited {
            self.give_back(self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(account: &mut Account, bytes: usize) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        account.poll_hold(&mut context, bytes).is_ready()
    }

    #[test]
    fn beyond_the_budget_one_reader_goes_on_and_the_others_wait() {
        let arrivals = Arc::new(Arrivals::default());
        arrivals.limit(4 * BYTES_MIN);
        let all = BYTES_MIN as usize;
        let (mut a, mut b, mut c) = (arrivals.open(), arrivals.open(), arrivals.open());
        assert!(a.fits(all) && !a.fits(all + 1));
        assert!(holds(&mut a, all / 2) && holds(&mut b, all / 2));
        assert!(holds(&mut b, all), "one may go on");
        assert!(!holds(&mut a, all) && !holds(&mut c, 1));
        assert!(holds(&mut a, all / 2), "it has those");
        assert_eq!(
            (arrivals.waiting(), arrivals.held()),
            (2, 3 * all as u64 / 2)
        );
        drop(b);
        assert!(holds(&mut a, all - 1) && holds(&mut c, 1));
        assert_eq!((arrivals.waiting(), arrivals.held()), (0, all as u64));
        a.keep(1);
        drop(c);
        assert_eq!(arrivals.held(), 1);
        drop(a);
        assert_eq!(arrivals.held(), 0);
    }

    #[test]
    fn what_was_read_is_held_as_one_until_its_rows_have_been_taken() {
        let arrivals = Arc::new(Arrivals::default());
        arrivals.limit(0);
        let all = BYTES_MIN as usize;
        let (mut rows, mut finisher) = (arrivals.open(), arrivals.open());
        assert!(holds(&mut rows, all) && holds(&mut finisher, all));
        rows.absorb(finisher.hand_on());
        drop(finisher);
        let mut next = arrivals.open();
        assert!(!holds(&mut next, 1), "the finisher's rows are still there");
        assert_eq!(arrivals.held(), 2 * all as u64);
        drop(rows);
        assert_eq!(arrivals.waiting(), 0, "it was woken");
        assert!(holds(&mut next, all));
        assert_eq!(arrivals.held(), all as u64);
    }

    #[test]
    fn who_waits_and_goes_away_leaves_no_trace_and_the_next_is_woken() {
        let arrivals = Arc::new(Arrivals::default());
        arrivals.limit(0);
        let all = BYTES_MIN as usize;
        let mut full = arrivals.open();
        let mut finisher = arrivals.open();
        assert!(holds(&mut full, all) && holds(&mut finisher, 1));
        let (mut gone, mut next) = (arrivals.open(), arrivals.open());
        assert!(!holds(&mut gone, 1) && !holds(&mut next, 1));
        drop(gone);
        assert_eq!(arrivals.waiting(), 1);
        drop(finisher);
        assert_eq!(arrivals.waiting(), 0, "it was woken");
        assert!(holds(&mut next, 1));
    }
}
