//! A place where answers wait until the test lets them go.

use std::sync::{Arc, Condvar, Mutex};

#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Default)]
struct Waiting {
    is_open: bool,
    /// Times that those who waited were let go.
    let_go: u64,
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
        let let_go = waiting.let_go;
        let mut waiting = changed
            .wait_while(waiting, |waiting| {
                !waiting.is_open && waiting.let_go == let_go
            })
            .expect("no panic");
        waiting.now -= 1;
    }

    pub fn open(&self) {
        self.0.0.lock().expect("no panic").is_open = true;
        self.0.1.notify_all();
    }

    /// Lets those go that wait now.
    pub fn let_go(&self) {
        self.0.0.lock().expect("no panic").let_go += 1;
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
