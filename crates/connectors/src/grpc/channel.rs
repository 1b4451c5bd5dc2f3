//! A connection of a sink to its server.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::wire::Raw;
use connect::mapper::protobuf::target::Target;
use connect::net::{ClientTls, dial};

/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a server is reached.
#[derive(Clone)]
pub(super) struct Server {
    /// App and stream.
    pub name: String,
    pub target: Target,
    pub path: PathAndQuery,
    pub tls: Option<ClientTls>,
    pub keep_alive: KeepAlive,
    pub message_bytes: usize,
    pub metadata_bytes: u32,
}

/// Questions for keep-alives of the protocol's own. Without, those of the system find out a server
/// whose machine is gone, but not one that stands still.
#[derive(Clone)]
pub(super) struct KeepAlive {
    /// `None`: none are asked.
    pub time: Option<Duration>,
    pub timeout: Duration,
    /// `None`: also without a call, as long as the server does not complain; many do (proposal A8 of
    /// gRPC: none more often than every five minutes).
    pub without_calls: Option<bool>,
    /// How often a server has closed a connection because it was asked too often; each time the
    /// questions become half as frequent, as that proposal wants it.
    pub complaints: Arc<AtomicU32>,
}

/// More complaints make no difference.
const COMPLAINTS_MAX: u32 = 10;

impl KeepAlive {
    fn interval(&self) -> Option<Duration> {
        let complaints = self.complaints.load(Ordering::Relaxed);
        // The first was about questions without a call, which have ended with it.
        let complaints = match self.without_calls {
            Some(_) => complaints,
            None => complaints.saturating_sub(1),
        };
        self.time.map(|time| time.saturating_mul(1 << complaints))
    }

    fn is_without_calls(&self) -> bool {
        let is_welcome = || self.complaints.load(Ordering::Relaxed) == 0;
        self.without_calls.unwrap_or_else(is_welcome)
    }

    /// Did the connection end because the server was asked too often?
    fn heed(&self, error: &hyper::Error) -> bool {
        let mut next = std::error::Error::source(error);
        while let Some(cause) = next {
            let said = cause
                .downcast_ref::<h2::Error>()
                .and_then(h2::Error::reason);
            if said == Some(h2::Reason::ENHANCE_YOUR_CALM) {
                let more = |n: u32| (n < COMPLAINTS_MAX).then_some(n + 1);
                // At the bound it stays there.
                self.complaints
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                    .ok();
                return true;
            }
            next = cause.source();
        }
        false
    }
}

/// An open connection; a handle of it.
#[derive(Clone)]
pub(super) struct Channel {
    sender: SendRequest<Body>,
    is_closing: Arc<AtomicBool>,
}

/// Why a call came to nothing.
#[derive(Debug)]
pub(super) enum Failed {
    /// The server was not there, or asks to come again.
    Unavailable(String),
    Refused(String),
}

/// What was answered.
pub(super) struct Answer {
    pub message: Bytes,
    pub metadata: MetadataMap,
}

impl Server {
    pub fn label(&self) -> String {
        format!("'grpc://{}'", self.target.authority())
    }

    pub async fn open(&self) -> Result<Channel, String> {
        let place = (self.target.host.as_str(), self.target.port);
        let line = dial(place, PATIENCE, self.tls.as_ref()).await;
        let line = line.map_err(|error| error.to_string())?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(self.keep_alive.interval())
            .keep_alive_timeout(self.keep_alive.timeout)
            .keep_alive_while_idle(self.keep_alive.is_without_calls())
            .max_header_list_size(self.metadata_bytes);
        let shaking = builder.handshake::<_, Body>(TokioIo::new(line));
        let shaken = tokio::time::timeout(PATIENCE, shaking).await;
        let shaken = shaken.map_err(|_| "no handshake in time".to_owned())?;
        let (sender, connection) = shaken.map_err(|error| chain(&error))?;
        let is_closing = Arc::new(AtomicBool::new(false));
        let (sink, closing) = (self.name.clone(), Arc::clone(&is_closing));
        let keep_alive = self.keep_alive.clone();
        tokio::spawn(async move {
            let cause = match connection.await {
                Ok(()) => "the server has closed the connection".to_owned(),
                // The server is there: the next call opens another connection.
                Err(error) if keep_alive.heed(&error) => {
                    tracing::warn!(
                        sink,
                        seconds = keep_alive.interval().map(|every| every.as_secs()),
                        without_calls = keep_alive.is_without_calls(),
                        "server rejects keep-alive pings as too frequent; lowering their rate"
                    );
                    return;
                }
                Err(error) => chain(&error),
            };
            if !closing.load(Ordering::Acquire) {
                tracing::error!(sink, cause, "sink lost its connection; reconnecting");
            }
        });
        Ok(Channel { sender, is_closing })
    }

    /// Calls the method with one message.
    pub async fn call(
        &self,
        channel: &Channel,
        message: Bytes,
        metadata: MetadataMap,
    ) -> Result<Answer, Failed> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let origin = Uri::from_str(&format!("{scheme}://{}", self.target.authority()));
        let origin = origin.map_err(|error| Failed::Refused(error.to_string()))?;
        let mut grpc = Grpc::with_origin(channel.clone(), origin)
            .max_decoding_message_size(self.message_bytes)
            .max_encoding_message_size(usize::MAX);
        let lost = |error: hyper::Error| Failed::Unavailable(chain(&error));
        grpc.ready().await.map_err(lost)?;
        let request = tonic::Request::from_parts(metadata, tonic::Extensions::default(), message);
        match grpc.unary(request, self.path.clone(), Raw).await {
            Ok(response) => {
                let (metadata, message, _) = response.into_parts();
                Ok(Answer { message, metadata })
            }
            Err(status) => Err(failed(&status)),
        }
    }
}

/// The metadata by which a server says that a call may come again.
const COME_AGAIN: &str = "grpc-retry-pushback-ms";

/// A status with a cause is ours: the answer never came.
fn failed(status: &Status) -> Failed {
    match std::error::Error::source(status) {
        Some(cause) => Failed::Unavailable(connect::error::chain(cause)),
        None => {
            let said = format!("it answers {:?}: {}", status.code(), status.message());
            // A negative number asks not to come again.
            let pause = status.metadata().get(COME_AGAIN);
            let pause = pause.and_then(|pause| pause.to_str().ok()?.parse::<u32>().ok());
            match status.code() {
                Code::Unavailable | Code::DeadlineExceeded | Code::Aborted => {
                    Failed::Unavailable(said)
                }
                _ if pause.is_some() => Failed::Unavailable(said),
                _ => Failed::Refused(said),
            }
        }
    }
}

fn chain(error: &hyper::Error) -> String {
    connect::error::chain(error)
}

impl Channel {
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Its end is no loss.
    pub fn close(self) {
        self.is_closing.store(true, Ordering::Release);
    }
}

impl GrpcService<Body> for Channel {
    type ResponseBody = Incoming;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
