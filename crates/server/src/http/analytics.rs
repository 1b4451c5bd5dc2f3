//! What WSO2 DAS answers at `/analytics`. What answers it is handed in by the binary: the server knows no engine.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Requests that are answered at a time; the others wait for their turn.
const AT_ONCE: usize = 8;

/// Blocks of an answer that wait to be sent.
const BLOCKS_MAX: usize = 4;

/// A request, by the route that it came to.
#[derive(Clone, Debug)]
pub struct AnalyticsCall {
    /// `GET`, `POST` or `DELETE`.
    pub verb: &'static str,
    /// The path of the route, with its parameters in braces.
    pub route: &'static str,
    /// Values of the path's parameters, by name.
    pub path: Vec<(String, String)>,
    /// What stands behind the question mark.
    pub query: Vec<(String, String)>,
    pub body: Bytes,
}

/// The end of an answer, or all of it.
#[derive(Clone, Debug)]
pub struct AnalyticsReply {
    pub status: u16,
    pub body: Bytes,
}

/// Answers requests.
pub trait AnalyticsEngine: Send + Sync {
    /// Answers one on the thread that calls. `out` takes blocks of an answer whose status is 200; with `false` nobody
    /// reads on. Another status behind a block breaks the answer off.
    fn answer(&self, call: AnalyticsCall, out: &mut dyn FnMut(Bytes) -> bool) -> AnalyticsReply;
}

/// What answers `/analytics`, if anything does.
#[derive(Clone)]
pub struct Analytics {
    engine: Result<Arc<dyn AnalyticsEngine>, &'static str>,
    turns: Arc<Semaphore>,
}

enum Part {
    Block(Bytes),
    End(AnalyticsReply),
}

/// What there is of an answer when its status is known.
pub(super) enum Begun {
    Whole(AnalyticsReply),
    Streamed(AnalyticsBody),
}

/// An answer that is sent as it comes.
pub(super) struct AnalyticsBody {
    first: Option<Bytes>,
    parts: mpsc::Receiver<Part>,
    is_ended: bool,
    _turn: OwnedSemaphorePermit,
}

impl Analytics {
    pub fn new(engine: Arc<dyn AnalyticsEngine>) -> Analytics {
        Analytics {
            engine: Ok(engine),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// `why` says what to do to have it.
    pub fn absent(why: &'static str) -> Analytics {
        Analytics {
            engine: Err(why),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    pub(super) fn engine(&self) -> Result<Arc<dyn AnalyticsEngine>, &'static str> {
        self.engine.clone()
    }

    /// Waits for the turn of a request and has it answered beside the threads that serve connections.
    pub(super) async fn begin(
        &self,
        engine: Arc<dyn AnalyticsEngine>,
        call: AnalyticsCall,
    ) -> Begun {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.expect("nothing closes it");
        let (sender, mut parts) = mpsc::channel(BLOCKS_MAX);
        // It ends by itself when nobody reads on.
        drop(tokio::task::spawn_blocking(move || {
            let reply = engine.answer(call, &mut |block| {
                sender.blocking_send(Part::Block(block)).is_ok()
            });
            // Nobody is left to tell if it was dropped.
            sender.blocking_send(Part::End(reply)).ok();
        }));
        match parts.recv().await {
            Some(Part::End(reply)) => Begun::Whole(reply),
            Some(Part::Block(first)) => Begun::Streamed(AnalyticsBody {
                first: Some(first),
                parts,
                is_ended: false,
                _turn: turn,
            }),
            None => Begun::Whole(AnalyticsReply {
                status: 500,
                body: Bytes::from_static(
                    br#"{"status":"failed","message":"internal error: the request was not answered; please report it"}"#,
                ),
            }),
        }
    }
}

impl Body for AnalyticsBody {
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
        if body.is_ended {
            return Poll::Ready(None);
        }
        body.parts.poll_recv(context).map(|part| {
            let broken = |cause: String| {
                tracing::warn!(cause, "an answer of /analytics was broken off");
                // The client sees a body that ends too early.
                Some(Err(io::Error::other(cause)))
            };
            match part {
                Some(Part::Block(block)) => Some(Ok(Frame::data(block))),
                Some(Part::End(reply)) if reply.status == 200 => {
                    body.is_ended = true;
                    Some(Ok(Frame::data(reply.body)))
                }
                Some(Part::End(reply)) => broken(String::from_utf8_lossy(&reply.body).into_owned()),
                None => broken("internal error".to_owned()),
            }
        })
    }
}
