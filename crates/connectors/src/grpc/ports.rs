//! Listening for calls: one listener for each host and port of a server, and a route for each source.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use event::Value;
use futures_util::stream::{self, Stream};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};

use super::body::{self, Complete};
use super::service::Reply;
use super::wire::{Event, Raw};
use connect::arrivals::Arrivals;
use connect::mapper::protobuf::target::EVENT_SERVICE_PATH;
use connect::net;
use connect::net::request_reply::Service;
use connect::net::{
    Delivery, Idle, Ingress, LastHeard, Line, Observed, Protocol, QUIET, STOP_GRACE, Served,
    SocketOptions,
};
use connect::retry::Burst;

/// The header that names the stream of an event.
const STREAM_ID: &str = "stream.id";

/// The property by which a request is answered.
pub(super) const MESSAGE_ID: &str = "message.id";

/// Messages of one call that may wait to be saved.
const UNSAVED_MAX: usize = 1024;

/// How long a client may take to answer a question for a sign of life.
const UNANSWERED: Duration = Duration::from_millis(2500);

/// Listeners of a server by host and port.
pub(crate) type Ports = net::Ports<Limits>;

pub(super) type Lease = net::Lease<Limits>;

pub(super) type Port = net::Port<Limits>;

/// Limits of a port; those of its first source hold.
pub(crate) struct Limits {
    pub message_bytes: usize,
    pub metadata_bytes: u32,
    /// Calls of one connection at once.
    pub calls: u32,
    pub arrivals: Arc<Arrivals>,
    /// Messages that did not come in their time.
    pub late: Burst,
    /// Clients that answered no ping.
    pub silent: Burst,
}

/// What a source takes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// Events of Siddhi's own service, by method and stream.
    Events { is_answered: bool, stream: String },
    /// `/service/method` of another.
    Own(String),
}

/// Where the messages of a source go.
pub(crate) struct Route {
    /// `app/stream`, for messages.
    pub name: String,
    pub ingress: Arc<Ingress>,
    /// Transport properties that the mapping asks for.
    pub names: Vec<String>,
    /// Answer when what a message brought is saved.
    pub is_durable: bool,
    /// Requests are held for a response sink.
    pub service: Option<Arc<Service<Reply>>>,
}

impl Protocol for Limits {
    type Key = Key;
    type Route = Arc<Route>;

    const CONNECTIONS_MAX: u32 = 4096;

    fn socket(&self) -> SocketOptions {
        SocketOptions::default()
    }

    fn taken(number: u16, key: &Key) -> String {
        let taken = match key {
            Key::Events { stream, .. } => format!("events of stream '{stream}'"),
            Key::Own(path) => format!("calls of '{path}'"),
        };
        format!("another source of port {number} takes {taken}")
    }

    async fn serve(port: Arc<Port>, stream: TcpStream, stopped: watch::Receiver<bool>) -> Served {
        let last_heard = Arc::new(LastHeard::default());
        let peer = stream.peer_addr().ok();
        let is_stopping = stopped.clone();
        let served = serve(Arc::clone(&port), stream, &last_heard, stopped).await;
        // The protocol's library ends such a connection without a word.
        let silence = last_heard
            .silence()
            .filter(|silence| *silence >= UNANSWERED);
        if let (Some(silence), false) = (silence, *is_stopping.borrow())
            && let Some(times) = port.protocol.silent.note()
        {
            tracing::warn!(
                times,
                peer = peer.map(|peer| peer.to_string()),
                silent_ms = silence.as_millis() as u64,
                "disconnecting client: it does not answer keep-alive pings"
            );
        }
        served
    }
}

async fn serve(
    port: Arc<Port>,
    stream: TcpStream,
    last_heard: &Arc<LastHeard>,
    mut stopped: watch::Receiver<bool>,
) -> Served {
    let line: Box<dyn Line> = match &port.tls {
        None => Box::new(Observed::new(stream, Arc::clone(last_heard))),
        Some(tls) => Box::new(Observed::new(
            tls.accept(stream, &port.crowd).await?,
            Arc::clone(last_heard),
        )),
    };
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .keep_alive_interval(QUIET)
        .keep_alive_timeout(UNANSWERED)
        .max_concurrent_streams(port.protocol.calls)
        .max_header_list_size(port.protocol.metadata_bytes);
    let idle = Arc::new(Idle::default());
    let (own, of_line) = (Arc::clone(&port), Arc::clone(&idle));
    let answer = service_fn(move |request: Request<Incoming>| {
        let (port, idle) = (Arc::clone(&port), Arc::clone(&of_line));
        async move {
            let _busy = idle.serve();
            Ok::<_, Infallible>(answer(port, request, &idle).await)
        }
    });
    let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(line), answer));
    tokio::select! {
        served = connection.as_mut() => return Ok(served?),
        // A client opens another connection for its next call.
        () = own.crowd.gives_way(|| idle.since()) => {}
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(tokio::time::timeout(STOP_GRACE, connection).await??)
}

async fn answer(
    port: Arc<Port>,
    request: Request<Incoming>,
    idle: &Arc<Idle>,
) -> Response<tonic::body::Body> {
    let path = request.uri().path();
    let way = match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some((EVENT_SERVICE_PATH, "consume")) => Way::Events { is_answered: false },
        Some((EVENT_SERVICE_PATH, "process")) => Way::Events { is_answered: true },
        _ => match port.route(&Key::Own(path.to_owned())) {
            Some(route) => Way::Own(route),
            None => {
                let said = format!("no source takes calls of '{path}'");
                return Status::unimplemented(said).into_http();
            }
        },
    };
    let complete = Complete::default();
    let timed = |body| body::timed(body, Arc::clone(&port), Arc::clone(idle), &complete);
    let request = request.map(timed);
    let mut grpc = Grpc::new(Raw).max_decoding_message_size(port.protocol.message_bytes);
    let exchange = Exchange {
        port,
        way,
        complete,
    };
    grpc.streaming(exchange, request).await
}

enum Way {
    Events { is_answered: bool },
    Own(Arc<Route>),
}

/// One call: as many messages as its method has.
struct Exchange {
    port: Arc<Port>,
    way: Way,
    complete: Complete,
}

impl Clone for Exchange {
    fn clone(&self) -> Exchange {
        Exchange {
            port: Arc::clone(&self.port),
            complete: self.complete.clone(),
            way: match &self.way {
                Way::Events { is_answered } => Way::Events {
                    is_answered: *is_answered,
                },
                Way::Own(route) => Way::Own(Arc::clone(route)),
            },
        }
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl StreamingService<Bytes> for Exchange {
    type Response = Bytes;
    type ResponseStream = Answers;
    type Future = Ready<Result<tonic::Response<Answers>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let (metadata, _, messages) = request.into_parts();
        let exchange = self.clone();
        let answers: Answers = match exchange.is_answered() {
            true => Box::pin(stream::try_unfold(
                (exchange, metadata, messages),
                |(exchange, metadata, mut messages)| async move {
                    let Some(message) = messages.message().await? else {
                        return Ok(None);
                    };
                    let answer = exchange.ask(message, &metadata).await?;
                    Ok(Some((answer, (exchange, metadata, messages))))
                },
            )),
            // Answered once, behind the last message, by a message without a field.
            false => Box::pin(stream::once(async move {
                let mut messages = messages;
                let mut unsaved = VecDeque::new();
                while let Some(message) = messages.message().await? {
                    unsaved.extend(exchange.take(message, &metadata).await?);
                    if unsaved.len() > UNSAVED_MAX {
                        saved(unsaved.pop_front()).await?;
                    }
                }
                while !unsaved.is_empty() {
                    saved(unsaved.pop_front()).await?;
                }
                Ok(Bytes::new())
            })),
        };
        ready(Ok(tonic::Response::new(answers)))
    }
}

impl Exchange {
    fn is_answered(&self) -> bool {
        match &self.way {
            Way::Events { is_answered } => *is_answered,
            Way::Own(route) => route.service.is_some(),
        }
    }

    /// The source of a message, and what it gets.
    fn delivery(
        &self,
        message: Bytes,
        metadata: &MetadataMap,
        id: impl FnOnce(&Route) -> Option<String>,
    ) -> Result<(Arc<Route>, Delivery, Option<String>), Status> {
        let (route, headers, text) = match &self.way {
            Way::Own(route) => (Arc::clone(route), BTreeMap::new(), None),
            Way::Events { is_answered } => {
                let event = Event::decode(message.clone());
                let event =
                    event.map_err(|e| lost(&format!("the message is not an event: {e}")))?;
                let stream = event.headers.get(STREAM_ID);
                let stream = stream.ok_or_else(|| lost("the event has no header 'stream.id'"))?;
                let key = Key::Events {
                    is_answered: *is_answered,
                    stream: stream.clone(),
                };
                let route = self.port.route(&key);
                let route = route.ok_or_else(|| {
                    lost(&format!(
                        "no source of this port takes events of stream '{stream}'"
                    ))
                })?;
                (route, event.headers, Some(event.payload))
            }
        };
        let id = id(&route);
        let property = |name: &String| match (name.as_str(), &id) {
            (MESSAGE_ID, Some(id)) => Value::str(id),
            // The metadata of the call wins.
            (name, _) => match metadata.get(name).map(|value| value.to_str()) {
                Some(Ok(value)) => Value::str(value),
                _ => headers
                    .get(name)
                    .map_or(Value::Null, |value| Value::str(value)),
            },
        };
        let properties = route.names.iter().map(property).collect();
        let delivery = match text {
            Some(text) => Delivery::text(text, properties),
            None => Delivery::payload(message, false, properties),
        };
        let delivery = match self.complete.take() {
            Some(held) => delivery.holding(held),
            None => delivery,
        };
        Ok((route, delivery, id))
    }

    /// Hands a message over. With state, what is told when what it brought is saved.
    async fn take(
        &self,
        message: Bytes,
        metadata: &MetadataMap,
    ) -> Result<Option<Unsaved>, Status> {
        let (route, delivery, _) = self.delivery(message, metadata, |_| None)?;
        let (delivery, told) = match route.is_durable {
            true => {
                let (delivery, told) = delivery.with_receipt();
                (delivery, Some(told))
            }
            false => (delivery, None),
        };
        match route.ingress.push(delivery).await {
            Ok(()) => Ok(told.map(|told| Unsaved { route, told })),
            Err(_) => Err(stopped(&route)),
        }
    }

    /// Hands a message over and waits for the response sink.
    async fn ask(&self, message: Bytes, metadata: &MetadataMap) -> Result<Bytes, Status> {
        let new_id = |route: &Route| route.service.as_ref().map(|service| service.new_id());
        let (route, delivery, id) = self.delivery(message, metadata, new_id)?;
        let (Some(service), Some(id)) = (&route.service, id) else {
            return Err(lost("the source of the stream gives no answers"));
        };
        let mut pending = service.wait_for(&id);
        if route.ingress.push(delivery).await.is_err() {
            return Err(stopped(&route));
        }
        let timeout = service.timeout.unwrap_or(Duration::MAX);
        match tokio::time::timeout(timeout, &mut pending.answer).await {
            Ok(Ok(reply)) => self.encoded(reply),
            Ok(Err(_)) => Err(stopped(&route)),
            Err(_) => {
                let said = format!(
                    "no answer within {} ms (service.timeout)",
                    timeout.as_millis()
                );
                Err(Status::deadline_exceeded(said))
            }
        }
    }

    fn encoded(&self, reply: Reply) -> Result<Bytes, Status> {
        let payload = match (&self.way, reply) {
            (Way::Own(_), Reply::Bytes(bytes)) => return Ok(bytes),
            (Way::Own(_), Reply::Text(_)) => {
                let said = "the response is text: its sink needs the mapper 'protobuf'";
                tracing::error!("{said}");
                return Err(Status::internal(said));
            }
            (Way::Events { .. }, Reply::Text(text)) => text,
            (Way::Events { .. }, Reply::Bytes(bytes)) => {
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let event = Event {
            payload,
            headers: BTreeMap::new(),
        };
        Ok(event.encode_to_vec().into())
    }
}

/// A message that its source has taken and that is not saved yet.
struct Unsaved {
    route: Arc<Route>,
    told: oneshot::Receiver<()>,
}

async fn saved(unsaved: Option<Unsaved>) -> Result<(), Status> {
    match unsaved {
        None => Ok(()),
        Some(Unsaved { route, told }) => told.await.map_err(|_| stopped(&route)),
    }
}

/// What Siddhi answers for a message that it cannot give to a source; and an error in the log.
fn lost(cause: &str) -> Status {
    tracing::error!(cause, "dropping gRPC message");
    Status::data_loss(cause)
}

/// The source takes nothing: it has stopped, or has not begun. A client may try again.
fn stopped(route: &Route) -> Status {
    Status::unavailable(format!("the source '{}' is not running", route.name))
}
