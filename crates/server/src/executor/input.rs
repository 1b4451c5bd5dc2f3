//! What arrives at an executor: rows of sources, questions, and the word that it is to end.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use event::Batch;
use plan::StreamId;

use crate::ask::{HeldAnswer, Injection, Question};
use crate::queue::{Queue, Weight};
use crate::rejected::replay::ReplayBatch;
use crate::source::SourceBatch;
use crate::tap::NewTap;

pub(crate) type InputQueue = Queue<ExecutorInput>;

/// Rows and bytes of input that may wait for an executor.
pub(crate) const INPUT_MAX: Weight = Weight {
    rows: 16 * 1024,
    bytes: 16 << 20,
};

/// What arrives at an executor.
pub(crate) enum ExecutorInput {
    SourceBatch(Box<SourceBatch>),
    /// A source waits for its last batch to be acknowledged.
    Acknowledge,
    /// Rows that a sink could not deliver, for a fault stream.
    Fault {
        app: usize,
        stream: StreamId,
        rows: Option<Batch>,
        cause: String,
    },
    /// The checkpoint on its way is finished.
    CheckpointDone {
        /// What it cost from when all sinks and stores had taken what was before it: a peer that was
        /// away is no reason to make the next one later.
        took: Duration,
    },
    Probe(Arc<Probe>),
    /// Nothing to do but to come round: somebody looks whether the executor moves.
    Wake,
    /// An on-demand query.
    Ask(Box<Question>),
    /// Rows that were sent by hand.
    Inject(Box<Injection>),
    /// Somebody wants to look at events of an app.
    Tap(Box<NewTap>),
    /// He has gone.
    Untap(u64),
    /// Rejected events that are replayed.
    Replay(Box<ReplayBatch>),
    /// A checkpoint is wanted; who wants it is told when it is durable.
    Save(HeldAnswer),
    /// The sources have gone: finish what is here, make a last checkpoint, end.
    Finish {
        /// The apps go on in another executor, which is given what is here.
        hands_over: bool,
    },
}

/// A question to an executor, answered when everything before it in the input queue is done.
#[derive(Default)]
pub(crate) struct Probe {
    answer: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Probe {
    pub fn answer(&self, is_quiet: bool) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(is_quiet);
        self.changed.notify_all();
    }

    /// Nothing is on its way and no timer holds an event; `None` when the executor took too long.
    pub fn wait(&self, at_most: Duration) -> Option<bool> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, _) = self
            .changed
            .wait_timeout_while(answer, at_most, |a| a.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        *answer
    }
}
