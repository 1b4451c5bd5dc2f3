//! A connection of a sink to its server.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

use super::target::Target;
use super::wire::Raw;
use crate::net::{ClientTls, dial};

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

/// Questions for signs of life of the protocol's own. Without, those of the system find out a server
/// whose machine is gone: many servers close a connection that asks oftener than they like.
#[derive(Clone, Copy)]
pub(super) struct KeepAlive {
    pub time: Option<Duration>,
    pub timeout: Duration,
    pub without_calls: bool,
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
            .keep_alive_interval(self.keep_alive.time)
            .keep_alive_timeout(self.keep_alive.timeout)
            .keep_alive_while_idle(self.keep_alive.without_calls)
            .max_header_list_size(self.metadata_bytes);
        let shaking = builder.handshake::<_, Body>(TokioIo::new(line));
        let shaken = tokio::time::timeout(PATIENCE, shaking).await;
        let shaken = shaken.map_err(|_| "no handshake in time".to_owned())?;
        let (sender, connection) = shaken.map_err(|error| chain(&error))?;
        let is_closing = Arc::new(AtomicBool::new(false));
        let (sink, closing) = (self.name.clone(), Arc::clone(&is_closing));
        tokio::spawn(async move {
            let cause = match connection.await {
                Ok(()) => "the server has closed the connection".to_owned(),
                Err(error) => chain(&error),
            };
            if !closing.load(Ordering::Acquire) {
                tracing::error!(sink, cause, "sink has lost its connection");
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

/// A status with a cause is ours: the answer never came.
fn failed(status: &Status) -> Failed {
    match std::error::Error::source(status) {
        Some(cause) => Failed::Unavailable(crate::error::chain(cause)),
        None => {
            let said = format!("it answers {:?}: {}", status.code(), status.message());
            match status.code() {
                Code::Unavailable => Failed::Unavailable(said),
                _ => Failed::Refused(said),
            }
        }
    }
}

fn chain(error: &hyper::Error) -> String {
    crate::error::chain(error)
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
