//! One consistent cut through a group of apps, on its way to being durable.
//!
//! The lane makes the cut between two steps and sends a mark down each queue to a sink or store.
//! Each of them says when all that stood before the mark has been taken. Then the snapshot is
//! written, then the stores and transactional sinks commit, then the sources are told what they may let go of.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Cut {
    pub epoch: u64,
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Sinks and stores that have not taken everything before the mark.
    unflushed: usize,
    /// Stores, and sinks that take part in epochs, that have not committed.
    uncommitted: usize,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Flushing,
    /// The snapshot is durable: stores and sinks commit.
    Durable,
    /// The cut is given up; they abort what belongs to it.
    GivenUp,
}

impl Cut {
    /// `stores`: with the sinks that commit.
    pub fn new(epoch: u64, sinks: usize, stores: usize) -> Cut {
        Cut {
            epoch,
            state: Mutex::new(Progress {
                unflushed: sinks + stores,
                uncommitted: stores,
                phase: Phase::Flushing,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, pending: impl Fn(&Progress) -> bool) -> Phase {
        let mut state = self.lock();
        while pending(&state) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.phase
    }

    /// For a thread that has the mark in hand: should it panic, nobody waits for it.
    pub fn held(&self) -> Held<'_> {
        Held(self)
    }

    /// A sink or store has taken everything before the mark.
    pub fn flushed(&self) {
        self.lock().unflushed -= 1;
        self.changed.notify_all();
    }

    pub fn committed(&self) {
        self.lock().uncommitted -= 1;
        self.changed.notify_all();
    }

    pub fn set_phase(&self, phase: Phase) {
        self.lock().phase = phase;
        self.changed.notify_all();
    }

    /// Until all is flushed, or the cut is given up.
    pub fn wait_flushed(&self) -> Phase {
        self.wait_while(|p| p.unflushed > 0 && p.phase != Phase::GivenUp)
    }

    /// For who commits: until the snapshot is durable, or the cut is given up.
    pub fn wait_durable(&self) -> Phase {
        self.wait_while(|p| p.phase == Phase::Flushing)
    }

    /// Until all have committed, or the cut is given up.
    pub fn wait_committed(&self) -> Phase {
        self.wait_while(|p| p.uncommitted > 0 && p.phase != Phase::GivenUp)
    }
}

pub(crate) struct Held<'a>(&'a Cut);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_phase(Phase::GivenUp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_store_commits_between_durable_and_committed() {
        let cut = Arc::new(Cut::new(3, 1, 1));
        let store = std::thread::spawn({
            let cut = Arc::clone(&cut);
            move || {
                cut.flushed();
                let phase = cut.wait_durable();
                cut.committed();
                phase
            }
        });
        cut.flushed();
        assert_eq!(cut.wait_flushed(), Phase::Flushing);
        cut.set_phase(Phase::Durable);
        assert_eq!(cut.wait_committed(), Phase::Durable);
        assert_eq!(store.join().expect("no panic"), Phase::Durable);
    }

    #[test]
    fn a_thread_that_panics_with_the_mark_in_hand_lets_everybody_go() {
        let cut = Arc::new(Cut::new(1, 1, 1));
        let sink = std::thread::spawn({
            let cut = Arc::clone(&cut);
            move || {
                let _held = cut.held();
                panic!("by a fault");
            }
        });
        assert_eq!(cut.wait_flushed(), Phase::GivenUp);
        assert!(sink.join().is_err());
        // One that is well gives nothing up.
        let cut = Cut::new(2, 0, 0);
        drop(cut.held());
        assert_eq!(cut.wait_flushed(), Phase::Flushing);
    }

    #[test]
    fn a_cut_that_is_given_up_lets_everybody_go() {
        let cut = Cut::new(1, 1, 1);
        cut.set_phase(Phase::GivenUp);
        assert_eq!(cut.wait_flushed(), Phase::GivenUp);
        assert_eq!(cut.wait_durable(), Phase::GivenUp);
        assert_eq!(cut.wait_committed(), Phase::GivenUp);
    }
}
