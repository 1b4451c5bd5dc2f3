//! SQL over the event store at `POST /sql`. What answers it is handed in by the binary: the server knows no engine.
//!
//! A statement whose client goes away ends. One that nobody is to wait for is a job (see [`jobs`]).

mod jobs;
mod kept;

use std::future::poll_fn;
use std::io;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use lang::diagnostic::Diagnostic;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use jobs::JobLimits;
pub(super) use jobs::{Asked, Job, Jobs, NotBegun, Result as JobResult};

/// Statements that are answered at a time; the others wait for their turn.
const AT_ONCE: usize = 4;

/// What an answer is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SqlFormat {
    Json,
    Ndjson,
    Csv,
    Arrow,
    Parquet,
}

/// Why a statement has no answer.
#[derive(Clone, Debug)]
pub enum SqlRefusal {
    /// The text is wrong, at a place in it.
    Statement(Box<Diagnostic>),
    /// Its rows cannot be computed, or it came to a limit.
    Rows(String),
    /// The store cannot be read.
    Failed(String),
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct SqlQuestion {
    pub sql: String,
    pub format: SqlFormat,
    /// So many rows are a document of their own; without it all are one.
    pub page_rows: Option<NonZero<usize>>,
    /// It may take the time of a job, not that of a statement that somebody waits for.
    pub is_job: bool,
}

/// Answers statements.
pub trait SqlEngine: Send + Sync {
    /// Begins to answer one in the background; it ends when the answer is dropped.
    fn ask(&self, question: SqlQuestion) -> Box<dyn SqlAnswer>;
}

/// A part of an answer. It ends with a row where the format has lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlBlock {
    pub bytes: Bytes,
    /// Rows that are written since the block before.
    pub rows: u64,
    /// A document ends with it: the whole answer, or a page.
    pub ends_page: bool,
}

/// An answer as it comes.
pub trait SqlAnswer: Send {
    fn poll_block(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<SqlBlock, SqlRefusal>>>;

    /// How far it is, also after it was dropped.
    fn progress(&self) -> Arc<dyn SqlProgress>;
}

/// How far a statement is.
pub trait SqlProgress: Send + Sync {
    fn rows_read(&self) -> u64;

    /// Rows that there are to read, where that is known; it may be done before.
    fn rows_to_read(&self) -> Option<u64>;
}

/// The SQL of a server, if it has any.
#[derive(Clone)]
pub struct Sql {
    engine: Result<Arc<dyn SqlEngine>, &'static str>,
    turns: Arc<Semaphore>,
    pub(super) jobs: Jobs,
}

impl Sql {
    pub fn new(engine: Arc<dyn SqlEngine>, jobs: JobLimits) -> Sql {
        Sql {
            engine: Ok(engine),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            jobs: Jobs::new(jobs),
        }
    }

    /// `why` says what to do to have it.
    pub fn absent(why: &'static str) -> Sql {
        Sql {
            engine: Err(why),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            jobs: Jobs::new(JobLimits::default()),
        }
    }

    pub(super) fn engine(&self) -> Result<Arc<dyn SqlEngine>, &'static str> {
        self.engine.clone()
    }

    /// Statements that are answered at a time, by whatever door they come.
    pub fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }

    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.expect("nothing closes it")
    }
}

/// An answer that is sent as it comes.
pub(super) struct AnswerBody {
    /// It came before the status was known.
    first: Option<Bytes>,
    rest: Box<dyn SqlAnswer>,
    _turn: OwnedSemaphorePermit,
}

impl AnswerBody {
    /// Waits until there is something of the answer, or the reason why there is none.
    pub async fn begin(
        mut answer: Box<dyn SqlAnswer>,
        turn: OwnedSemaphorePermit,
    ) -> Result<AnswerBody, SqlRefusal> {
        let first = poll_fn(|context| answer.poll_block(context)).await;
        Ok(AnswerBody {
            first: first.transpose()?.map(|block| block.bytes),
            rest: answer,
            _turn: turn,
        })
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        if let Some(first) = body.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        body.rest.poll_block(context).map(|block| {
            let block = block?;
            Some(
                block
                    .map(|block| Frame::data(block.bytes))
                    .map_err(|refusal| {
                        let cause = refusal.message();
                        tracing::warn!(cause, "an answer in SQL was broken off");
                        // The client sees a body that ends too early.
                        io::Error::other(cause)
                    }),
            )
        })
    }
}

impl SqlRefusal {
    pub fn message(&self) -> String {
        match self {
            SqlRefusal::Statement(fault) => fault.message.clone(),
            SqlRefusal::Rows(message) | SqlRefusal::Failed(message) => message.clone(),
        }
    }
}
