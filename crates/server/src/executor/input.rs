//! What arrives at an executor: rows of sources and rows sent by hand, on-demand queries, taps, events that
//! are replayed, requests for checkpoints, and the end.
//!
//! Data only. Whoever sends one (`source`, `ask`, `inject`, `tap`, `replay`) uses this file and not the
//! executor; this file uses none of them.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use connect::effect::PendingEffect;
use engine::{Answer, AskError};
use event::Batch;
use plan::{OnDemand, StreamId, TableId};
use tokio::sync::oneshot;

use super::apart::ApartQuestion;
use crate::queue::{Queue, Weight};
use crate::rejected::{Attempt, Rejection, Run};
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

/// A question on its way to an executor.
pub(crate) struct Question {
    /// Index of the app on its executor.
    pub app: usize,
    pub query: Arc<OnDemand>,
    pub reply: oneshot::Sender<Reply>,
}

/// What an executor says to a question.
pub(crate) enum Reply {
    Answered(Result<Answer, AskError>),
    /// Who asks is to look for himself.
    Apart(Box<ApartQuestion>),
}

/// Rows that were sent by hand, on their way to an executor.
pub(crate) struct Injection {
    /// Index of the app on its executor.
    pub app: usize,
    pub stream: StreamId,
    pub batch: Batch,
    /// Told when the app has them, and they are saved if there is a state directory.
    pub reply: oneshot::Sender<()>,
}

/// The answer to a write, held until a save has what was written.
pub(crate) enum HeldAnswer {
    Asked {
        reply: oneshot::Sender<Reply>,
        answer: Answer,
    },
    /// To rows that were sent by hand, or to who wanted a checkpoint.
    Sent(oneshot::Sender<()>),
    /// To so many events that were replayed; to nobody's, where a save is asked for.
    Replayed(Sender<u64>, u64),
}

impl HeldAnswer {
    /// Who does not wait any more needs no answer.
    pub fn send(self) {
        match self {
            HeldAnswer::Asked { reply, answer } => {
                _ = reply.send(Reply::Answered(Ok(answer))).ok();
            }
            HeldAnswer::Sent(reply) => _ = reply.send(()).ok(),
            HeldAnswer::Replayed(reply, count) => _ = reply.send(count).ok(),
        }
    }
}

/// Where an event goes.
pub(crate) enum ReplayTo {
    /// Its mapper made nothing of it.
    Nowhere,
    Stream {
        stream: StreamId,
        rows: Batch,
    },
    /// To one sink of a stream alone.
    Sink {
        stream: StreamId,
        sink: usize,
        rows: Batch,
    },
    /// Rows are inserted into a table in a store.
    Table {
        table: TableId,
        rows: Batch,
    },
    Function(PendingEffect),
}

/// One event on its way back.
pub(crate) struct ReplayItem {
    /// The log that it is in, and its place there.
    pub log: usize,
    pub run: Run,
    pub is_first: bool,
    pub attempt: Attempt,
    pub to: ReplayTo,
    /// What its mapper has rejected again.
    pub rejected: Vec<Rejection>,
}

/// Events on their way to an executor.
pub(crate) struct ReplayBatch {
    /// Index of the app on its executor.
    pub app: usize,
    pub items: Vec<ReplayItem>,
    /// A checkpoint is to be made soon.
    pub is_waited_for: bool,
    /// Told when they are saved.
    pub reply: Sender<u64>,
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
