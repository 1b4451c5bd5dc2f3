//! Servers that tests of one process have in common, so that each kind is started once or twice and
//! not once a test.
//!
//! Promises: a shared server runs until the process ends and is never stopped, killed or frozen; one
//! that is lent out is with one test at a time and runs again when the next one gets it. The kernel
//! ends them with the process (see [`crate::running`]). Never: names that are free again. Who uses
//! them takes topics, queues, tables and buckets of his own.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{Order, Running, find};

/// Servers of one kind that are lent out at once. More would only compete for the processor.
const LENT_MAX: usize = 2;

/// One of these per kind of server; it lives as long as the process.
#[derive(Default)]
struct Kind {
    shared: OnceLock<Option<Running>>,
    lending: Mutex<Lending>,
    returned: Condvar,
}

#[derive(Default)]
struct Lending {
    /// Run, and nobody has them.
    idle: Vec<Running>,
    /// Tests that have one.
    lent: usize,
}

impl Kind {
    fn lending(&self) -> MutexGuard<'_, Lending> {
        self.lending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_back(&self, server: Option<Running>) {
        let mut lending = self.lending();
        lending.lent -= 1;
        lending.idle.extend(server);
        self.returned.notify_one();
    }
}

/// Kinds are locked one by one: a slow start holds up nobody who wants another server.
fn kind(name: &str) -> &'static Kind {
    static KINDS: Mutex<BTreeMap<String, &'static Kind>> = Mutex::new(BTreeMap::new());
    let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    kinds
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(Box::default()))
}

/// The order of the servers here, which all tests can work with.
fn order(name: &str) -> Order {
    let settings = find(name).map_or(&[][..], |recipe| recipe.for_tests());
    settings
        .iter()
        .fold(Order::new(), |order, (key, value)| order.with(key, value))
}

/// The server of this kind that tests share. `None` where the machine lacks something, which is
/// reported, as by [`Order::start_or_skip`].
///
/// # Panics
/// The server is there and does not start.
pub fn shared(name: &str) -> Option<&'static Running> {
    let start = || order(name).start_or_skip(name);
    kind(name).shared.get_or_init(start).as_ref()
}

/// A server for a test that stops, kills or freezes it, until the [`Lent`] is dropped. Waits while
/// other tests have all of [`LENT_MAX`]. `None` as by [`shared`].
///
/// # Panics
/// The server is there and does not start.
pub fn lent(name: &str) -> Option<Lent> {
    let kind = kind(name);
    let waiting = kind.lending();
    let mut lending = kind
        .returned
        .wait_while(waiting, |lending| lending.lent == LENT_MAX)
        .unwrap_or_else(PoisonError::into_inner);
    lending.lent += 1;
    let idle = lending.idle.pop();
    drop(lending);
    // Given back by its drop, also where the start fails.
    let mut lent = Lent { server: idle, kind };
    if lent.server.is_none() {
        lent.server = Some(order(name).start_or_skip(name)?);
    }
    Some(lent)
}

/// A server that one test has.
pub struct Lent {
    /// `None` while it starts and while it is dropped.
    server: Option<Running>,
    kind: &'static Kind,
}

impl Deref for Lent {
    type Target = Running;

    fn deref(&self) -> &Running {
        self.server.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Running {
        self.server.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let server = self.server.take();
        // A test that failed may have left it in any state; its log is kept.
        if std::thread::panicking() {
            return self.kind.take_back(None);
        }
        let runs_again = server.and_then(|mut server| {
            server.thaw();
            let runs = server.pid().is_some() || server.restart().is_ok();
            runs.then_some(server)
        });
        self.kind.take_back(runs_again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shared_by_all_and_a_lent_one_runs_again_for_the_next() {
        let [Some(one), Some(two)] = ["nats", "nats"].map(shared) else {
            return;
        };
        assert_eq!(one.port(), two.port());
        let mut first = lent("nats").expect("it can be had");
        let (port, pid) = (first.port(), first.pid());
        assert_ne!(port, one.port());
        first.kill();
        drop(first);
        let second = lent("nats").expect("it can be had");
        assert_eq!(second.port(), port);
        assert!(
            second.pid().is_some_and(|now| Some(now) != pid),
            "it runs again"
        );
    }
}
