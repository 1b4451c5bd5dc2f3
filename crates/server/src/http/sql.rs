//! SQL over the event store at `POST /sql`. What answers it is handed in by the binary: the server knows no engine.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use lang::diagnostic::Diagnostic;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

/// Answers statements.
pub trait SqlEngine: Send + Sync {
    /// Begins to answer one in the background; it ends when the answer is dropped.
    fn ask(&self, sql: &str, format: SqlFormat) -> Box<dyn SqlAnswer>;
}

/// An answer as it comes. A block ends with a row where the format has lines.
pub trait SqlAnswer: Send {
    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SqlRefusal>>>;
}

/// The SQL of a server, if it has any.
#[derive(Clone)]
pub struct Sql {
    engine: Result<Arc<dyn SqlEngine>, &'static str>,
    turns: Arc<Semaphore>,
}

impl Sql {
    pub fn new(engine: Arc<dyn SqlEngine>) -> Sql {
        Sql {
            engine: Ok(engine),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// `why` says what to do to have it.
    pub fn absent(why: &'static str) -> Sql {
        Sql {
            engine: Err(why),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    pub(super) fn engine(&self) -> Result<&dyn SqlEngine, &'static str> {
        match &self.engine {
            Ok(engine) => Ok(&**engine),
            Err(why) => Err(*why),
        }
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
            first: first.transpose()?,
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
            Some(block.map(Frame::data).map_err(|refusal| {
                let cause = refusal.message();
                tracing::warn!(cause, "an answer in SQL was broken off");
                // The client sees a body that ends too early.
                io::Error::other(cause)
            }))
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
