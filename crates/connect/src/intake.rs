//! What comes in on all ports of a server, in numbers.
//!
//! One value per server, in [`crate::shared::Shared`]. Never: a wait; that is done by those who read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a server's ports.
#[derive(Debug, Default)]
pub struct Intake {
    late: AtomicU64,
}

impl Intake {
    /// Something that a client had begun did not come in its time.
    pub fn count_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    /// Bodies, frames and messages that did not come in their time.
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
}
