//! The own client for writing: whole record batches, made where records are published and sent as they
//! lie.
//!
//! ```text
//! Producer  the sink's handle: appends records, waits, takes back what came to nothing
//! state     topics, partitions, batches, numbers: shared by all
//! cluster   asks for leaders and producer ids, starts a sender per broker   ┐ tasks on the threads
//! sender    one broker: packs, sums up and sends batches, takes answers     ┘ that serve connections
//! ```
//!
//! Transactions are librdkafka's. Promises: the records of a partition lie in it in the order in which they
//! were published, and once, as long as a producer is idempotent and nothing is given up; what is held is
//! bounded; whatever is not confirmed is given back. Never: a lock held while something is waited for.

mod batch;
#[cfg(any(test, feature = "testing"))]
mod check;
mod cluster;
mod message;
mod options;
mod partitioner;
mod sender;
mod state;
#[cfg(test)]
mod tests;

pub(in crate::kafka) use batch::Outgoing;
pub(in crate::kafka) use options::Options;
pub(in crate::kafka) use state::{Appended, Failed, Why};

#[cfg(any(test, feature = "testing"))]
pub(super) use check::check;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::sender::Broker;
use self::state::State;
use super::state::Failing;
use connect::message::Sent;
use connect::net::Workers;

/// Tasks that are aborted give back what they have, which takes them no longer than this.
const ENDING: Duration = Duration::from_secs(2);

pub(super) struct Shared {
    options: Arc<Options>,
    /// Where senders run.
    worker: Handle,
    state: Mutex<State>,
    /// Told when something was confirmed or has failed, while somebody waits.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.notify_all();
    }
}

/// Writes records; its tasks end with it.
pub(in crate::kafka) struct Producer {
    shared: Arc<Shared>,
    cluster: AbortHandle,
    has_failed: Arc<AtomicBool>,
}

impl Producer {
    /// Begins to look for the cluster.
    pub fn start(options: &Arc<Options>, workers: &Workers) -> Producer {
        let has_failed = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared {
            options: Arc::clone(options),
            worker: workers.next().clone(),
            state: Mutex::new(State::new(options, &has_failed)),
            changed: Condvar::new(),
        });
        let task = workers.next().spawn(cluster::run(Arc::clone(&shared)));
        Producer {
            cluster: task.abort_handle(),
            has_failed,
            shared,
        }
    }

    /// Takes a record, or says why not now. Longer ones than the client sends are for the caller to refuse.
    #[inline]
    pub fn append(&self, topic: &str, partition: Option<i32>, record: &Outgoing<'_>) -> Appended {
        let mut state = self.shared.lock();
        state.append(topic, partition, record, Instant::now)
    }

    /// Longest key and value.
    pub fn record_bytes(&self) -> usize {
        self.shared.options.record_bytes
    }

    /// Have records come back since [`Producer::take_failed`]?
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Records that came back, with those that were tried for too long.
    pub fn take_failed(&self) -> Vec<Failed> {
        let mut state = self.shared.lock();
        state.expire(Instant::now());
        state.take_failed()
    }

    /// Records that are neither confirmed nor given back.
    pub fn held(&self) -> usize {
        self.shared.lock().records()
    }

    /// Waits until something was confirmed or has failed, or nothing is held; meanwhile nothing lingers.
    pub fn wait(&self, patience: Duration) {
        let mut state = self.shared.lock();
        if state.records() == 0 || self.has_failed() {
            return;
        }
        state.waiting += 1;
        state.hurry();
        let (mut state, _) = self
            .shared
            .changed
            .wait_timeout(state, patience)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
    }

    /// What has not been sent comes back.
    pub fn take_back(&self, cause: &str) {
        self.shared.lock().take_back(cause);
    }

    /// Why some of what is held cannot be written now.
    pub fn lost(&self) -> Option<String> {
        self.shared.lock().lost()
    }

    /// What went wrong last.
    pub fn cause(&self) -> Option<String> {
        self.shared.lock().cause()
    }

    /// Was there a broker at any time?
    pub fn was_there(&self) -> bool {
        self.shared.lock().was_there
    }

    /// Ends it: all that is not confirmed comes back.
    pub fn end(self, cause: &str) -> Vec<Failed> {
        self.stop();
        let since = Instant::now();
        let mut state = self.shared.lock();
        while state.on_way() > 0 && since.elapsed() < ENDING {
            let waited = self.shared.changed.wait_timeout(state, ENDING / 8);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.on_way() > 0 {
            let batches = state.on_way();
            tracing::error!(batches, "lost batches that were on their way to Kafka");
        }
        state.take_back(cause);
        state.take_failed()
    }

    fn stop(&self) {
        self.cluster.abort();
        let mut state = self.shared.lock();
        state.is_ended = true;
        for node in state.nodes.values_mut() {
            if let Some(task) = node.task.take() {
                task.abort();
            }
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Failed {
    /// Calls with number, message and size of each record.
    pub fn each(&self, call: impl FnMut(u64, Sent, usize)) {
        self.batch.each_sent(call);
    }
}

impl State {
    /// Says what is wrong with a broker; false where it is known no more.
    fn set_failing(&mut self, broker: Broker, failing: Option<&Failing>) -> bool {
        let node = self.nodes.get_mut(&broker.id);
        let node = node.filter(|node| node.version == broker.version);
        let Some(node) = node.filter(|_| !self.is_ended) else {
            return false;
        };
        node.failing = failing.cloned();
        true
    }

    /// A broker answers, and wants to be left alone until then.
    fn answers(&mut self, broker: Broker, not_before: Instant) {
        if let Some(node) = self.nodes.get_mut(&broker.id) {
            (node.failing, node.not_before) = (None, Some(not_before));
        }
    }
}
