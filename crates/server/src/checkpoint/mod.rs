//! One consistent checkpoint of a group of apps, on its way to being durable.
//!
//! The executor makes the checkpoint between two steps and sends a barrier down each queue to a sink or store.
//! Each of them says when everything before the barrier has been taken. Then the snapshot is
//! written, then the stores and transactional sinks commit, then the sources are told what they may let go of.

pub(crate) mod coordinator;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub epoch: u64,
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Sinks and stores that have not taken everything before the barrier.
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
    /// The checkpoint is aborted; they abort what belongs to it.
    Aborted,
}

impl Checkpoint {
    /// `stores`: with the sinks that commit.
    pub fn new(epoch: u64, sinks: usize, stores: usize) -> Checkpoint {
        Checkpoint {
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

    /// For a thread that has the barrier in hand: should it panic, nobody waits for it.
    pub fn abort_on_panic(&self) -> AbortOnPanic<'_> {
        AbortOnPanic(self)
    }

    /// A sink or store has taken everything before the barrier.
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

    /// Until all is flushed, or the checkpoint is aborted.
    pub fn wait_flushed(&self) -> Phase {
        self.wait_while(|p| p.unflushed > 0 && p.phase != Phase::Aborted)
    }

    /// For who commits: until the snapshot is durable, or the checkpoint is aborted.
    pub fn wait_durable(&self) -> Phase {
        self.wait_while(|p| p.phase == Phase::Flushing)
    }

    /// Until all have committed, or the checkpoint is aborted.
    pub fn wait_committed(&self) -> Phase {
        self.wait_while(|p| p.uncommitted > 0 && p.phase != Phase::Aborted)
    }
}

pub(crate) struct AbortOnPanic<'a>(&'a Checkpoint);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_phase(Phase::Aborted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_store_commits_between_durable_and_committed() {
        let checkpoint = Arc::new(Checkpoint::new(3, 1, 1));
        let store = std::thread::spawn({
            let checkpoint = Arc::clone(&checkpoint);
            move || {
                checkpoint.flushed();
                let phase = checkpoint.wait_durable();
                checkpoint.committed();
                phase
            }
        });
        checkpoint.flushed();
        assert_eq!(checkpoint.wait_flushed(), Phase::Flushing);
        checkpoint.set_phase(Phase::Durable);
        assert_eq!(checkpoint.wait_committed(), Phase::Durable);
        assert_eq!(store.join().expect("no panic"), Phase::Durable);
    }

    #[test]
    fn a_thread_that_panics_with_the_barrier_in_hand_lets_everybody_go() {
        let checkpoint = Arc::new(Checkpoint::new(1, 1, 1));
        let sink = std::thread::spawn({
            let checkpoint = Arc::clone(&checkpoint);
            move || {
                let _held = checkpoint.abort_on_panic();
                panic!("by a fault");
            }
        });
        assert_eq!(checkpoint.wait_flushed(), Phase::Aborted);
        assert!(sink.join().is_err());
        // One that is well gives nothing up.
        let checkpoint = Checkpoint::new(2, 0, 0);
        drop(checkpoint.abort_on_panic());
        assert_eq!(checkpoint.wait_flushed(), Phase::Flushing);
    }

    #[test]
    fn an_aborted_checkpoint_lets_everybody_go() {
        let checkpoint = Checkpoint::new(1, 1, 1);
        checkpoint.set_phase(Phase::Aborted);
        assert_eq!(checkpoint.wait_flushed(), Phase::Aborted);
        assert_eq!(checkpoint.wait_durable(), Phase::Aborted);
        assert_eq!(checkpoint.wait_committed(), Phase::Aborted);
    }
}
