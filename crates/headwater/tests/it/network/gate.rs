//! A place where answers wait until the test lets them go.

use std::sync::{Arc, Condvar, Mutex};

#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Default)]
struct Waiting {
    is_open: bool,
    now: usize,
    most: usize,
}

impl Gate {
    /// Waits until the gate is open.
    pub fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut waiting = state.lock().expect("no panic");
        waiting.now += 1;
        waiting.most = waiting.most.max(waiting.now);
        let mut waiting = changed
            .wait_while(waiting, |waiting| !waiting.is_open)
            .expect("no panic");
        waiting.now -= 1;
    }

    pub fn open(&self) {
        self.0.0.lock().expect("no panic").is_open = true;
        self.0.1.notify_all();
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.0.0.lock().expect("no panic").now
    }

    /// How many waited at once at most.
    pub fn most(&self) -> usize {
        self.0.0.lock().expect("no panic").most
    }
}
