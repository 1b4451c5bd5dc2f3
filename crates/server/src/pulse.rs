//! The signs of life of an executor, which [`crate::liveness`] reads from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What an executor shows of itself.
#[derive(Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    is_waiting: AtomicBool,
    has_ended: AtomicBool,
}

impl Pulse {
    /// The executor has come round to look for its next input.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Does what may wait for somebody outside, who has time limits of his own.
    pub fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.is_waiting.store(true, Ordering::Relaxed);
        let waited = wait();
        self.is_waiting.store(false, Ordering::Relaxed);
        self.beat();
        waited
    }

    /// The executor has gone: nothing is expected of it any more.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}
