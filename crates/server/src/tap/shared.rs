//! A tap on its way to its executor, and what it has in common with its client afterwards.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Tap, TapCounts};
use event::Batch;
use tokio::sync::mpsc;

use super::place::TapPlace;

/// Taps that are open at once on a server.
pub(crate) const TAPS_MAX: usize = 16;

/// The taps of a server, as numbers.
#[derive(Default)]
pub(super) struct Known {
    open: AtomicUsize,
    last_id: AtomicU64,
}

impl Known {
    /// Lets another tap be opened; an error has how many are open, which is as many as may be.
    pub fn permit(self: &Arc<Self>) -> Result<Permit, usize> {
        self.open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < TAPS_MAX).then_some(open + 1)
            })
            .map(|_| Permit(Arc::clone(self)))
    }

    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// One of the taps that may be open, until it is dropped.
pub(crate) struct Permit(Arc<Known>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a tap has in common with its client.
pub(crate) struct TapShared {
    seen: AtomicU64,
    unexamined: AtomicU64,
    matched: AtomicU64,
    picked: AtomicU64,
    failed: AtomicU64,
    /// Rows that were picked and for which the queue had no room.
    pub(super) unsent: AtomicU64,
    /// Bytes in the queue.
    pub(super) queued: AtomicUsize,
    /// Why it was closed.
    end: Mutex<Option<String>>,
}

/// What has passed a tap, in rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Passed {
    pub counts: TapCounts,
    /// Picked, but the client did not take them in time.
    pub unsent: u64,
}

impl TapShared {
    pub(super) fn new() -> TapShared {
        TapShared {
            seen: AtomicU64::new(0),
            unexamined: AtomicU64::new(0),
            matched: AtomicU64::new(0),
            picked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
            end: Mutex::default(),
        }
    }

    pub(super) fn set(&self, counts: TapCounts) {
        self.seen.store(counts.seen, Ordering::Relaxed);
        self.unexamined.store(counts.unexamined, Ordering::Relaxed);
        self.matched.store(counts.matched, Ordering::Relaxed);
        self.picked.store(counts.picked, Ordering::Relaxed);
        self.failed.store(counts.failed, Ordering::Relaxed);
    }

    pub fn passed(&self) -> Passed {
        Passed {
            counts: TapCounts {
                seen: self.seen.load(Ordering::Relaxed),
                unexamined: self.unexamined.load(Ordering::Relaxed),
                matched: self.matched.load(Ordering::Relaxed),
                picked: self.picked.load(Ordering::Relaxed),
                failed: self.failed.load(Ordering::Relaxed),
            },
            unsent: self.unsent.load(Ordering::Relaxed),
        }
    }

    pub(super) fn close(&self, why: String) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the executor has closed it; `None`: the app has ended.
    pub fn end(&self) -> Option<String> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.clone()
    }
}

/// A tap on its way to the executor.
pub(crate) struct NewTap {
    pub id: u64,
    /// Index of the app on its executor.
    pub app: usize,
    pub place: TapPlace,
    pub tap: Tap,
    pub rate: f64,
    pub out: mpsc::Sender<Batch>,
    pub shared: Arc<TapShared>,
    pub permit: Permit,
}
