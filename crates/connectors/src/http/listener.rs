//! Listening for requests: one listener for each host and port of a server, with a route for each
//! source.
//!
//! Promises: two sources on one route are refused when the app is made; when the last route has gone,
//! the port is free again before the source returns, and every request that came by then has its
//! answer. Never: a pattern in a path, or a path put right.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::simple::{self, End};
use super::sse::{Audience, Events, SLOW_MAX};
use crate::http::request;
use crate::http::request::{Peer, Route};
use connect::net;
use connect::net::{Observed, Protocol, Rewound, STOP_GRACE, Served, SocketOptions};

/// How long, and how far, a line is read on after its request was refused.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Listeners of a server by host and port.
pub(crate) type Listeners = net::Ports<PortOptions>;

pub(crate) type Lease = net::Lease<PortOptions>;

pub(super) type Port = net::Port<PortOptions>;

/// Who has a path.
#[derive(Clone)]
pub(crate) enum Target {
    /// A source: it takes requests.
    Source(Arc<Route>),
    /// A sink that those who ask hear.
    Events(Arc<Audience>),
}

/// The body of an answer.
type AnswerBody = Either<Full<Bytes>, Events>;

/// Settings of a port (`server.bootstrap.configurations`, `socket.idle.timeout`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PortOptions {
    pub socket: SocketOptions,
    /// Closes a connection without requests.
    pub idle: Option<Duration>,
}

impl Protocol for PortOptions {
    type Key = String;
    type Route = Target;

    const CONNECTIONS_MAX: u32 = 8192;

    fn socket(&self) -> SocketOptions {
        self.socket.clone()
    }

    fn taken(number: u16, path: &String) -> String {
        format!("another listens on port {number} at path '{path}'; give each its own path")
    }

    async fn serve(port: Arc<Port>, stream: TcpStream, stopped: watch::Receiver<bool>) -> Served {
        serve_stream(stream, port, stopped).await
    }
}

/// Is there a path whose answer has no end?
fn has_audience(port: &Port) -> bool {
    port.has_route(|target| matches!(target, Target::Events(_)))
}

async fn serve_stream(
    stream: TcpStream,
    port: Arc<Port>,
    stopped: watch::Receiver<bool>,
) -> Served {
    let peer = Arc::new(Peer {
        address: stream.peer_addr()?,
        local_port: stream.local_addr()?.port(),
        is_tls: port.tls.is_some(),
        outgoing: Arc::default(),
    });
    if has_audience(&port) {
        // One whose machine is gone takes nothing, and nobody would hear of it for many minutes.
        SockRef::from(&stream).set_tcp_user_timeout(Some(SLOW_MAX))?;
    }
    let (address, outgoing) = (peer.address, Arc::clone(&peer.outgoing));
    let served = match port.tls.clone() {
        None => serve(stream, port, peer, stopped).await,
        Some(tls) => {
            let line = tls.accept(stream, &port.crowd).await?;
            serve(line, port, peer, stopped).await
        }
    };
    if let Err(error) = &served
        && outgoing.has_events()
        && is_silent(error.as_ref())
    {
        // The words of the sink, which would have found it out a moment later.
        tracing::warn!(peer = %address, "disconnecting client: it has read nothing for 5 s");
    }
    served
}

/// Has the system given the other side up?
fn is_silent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        let kind = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::TimedOut) {
            return true;
        }
        next = cause.source();
    }
    false
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    mut stream: S,
    port: Arc<Port>,
    peer: Arc<Peer>,
    mut stopped: watch::Receiver<bool>,
) -> Served {
    let waits = Arc::new(Waits::default());
    let mut read = Vec::new();
    if !has_audience(&port) {
        match simple::serve(&mut stream, &port, &waits, &mut stopped).await? {
            End::Closed => return Ok(()),
            End::Library(unread) => read = unread,
        }
    }
    let stream = Rewound::new(read, stream);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new());
    // Also the longest wait for the next request of a connection.
    server.header_read_timeout(port.protocol.idle);
    // Never `pipeline_flush`: it holds back what is written while a byte is unread, and with it the
    // refusal of a request that cannot be read.
    let outgoing = Arc::clone(&peer.outgoing);
    let (own, line_waits) = (Arc::clone(&port), Arc::clone(&waits));
    let answer = service_fn(move |request: Request<Incoming>| {
        let (port, peer) = (Arc::clone(&port), Arc::clone(&peer));
        let waits = Arc::clone(&line_waits);
        async move {
            waits.set(None);
            let answer = respond(request, &port, &peer).await;
            waits.set(Some(Instant::now()));
            Ok::<_, Infallible>(answer)
        }
    });
    let line = Observed::new(stream, Arc::clone(&outgoing));
    let mut connection = server.serve_connection(TokioIo::new(line), answer);
    let served = tokio::select! {
        served = &mut connection => Some(served),
        () = outgoing.is_cut() => return Ok(()),
        // An answer without end is not waited for.
        () = own.crowd.gives_way(|| waits.since().filter(|_| !outgoing.has_events())) => {
            return Ok(());
        }
        _ = stopped.wait_for(|is_stopped| *is_stopped) => None,
    };
    if let Some(served) = served {
        if served.as_ref().is_err_and(hyper::Error::is_parse) {
            linger(connection.into_parts().io.into_inner()).await;
        }
        return Ok(served?);
    }
    std::pin::Pin::new(&mut connection).graceful_shutdown();
    Ok(tokio::time::timeout(STOP_GRACE, connection).await??)
}

/// Since when a connection is waited for: for its first head, or the next one.
pub(super) struct Waits(Mutex<Option<Instant>>);

impl Default for Waits {
    fn default() -> Waits {
        Waits(Mutex::new(Some(Instant::now())))
    }
}

impl Waits {
    pub fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// Reads on for a while after a request was refused: a line that is closed with bytes unread is reset,
/// and the refusal may be lost with it.
async fn linger<S: AsyncRead + Unpin>(mut line: S) {
    let mut rest = [0; 4096];
    let mut left = LINGER_BYTES_MAX;
    let read = async {
        while let Ok(count @ 1..) = line.read(&mut rest).await {
            left = left.saturating_sub(count);
            if left == 0 {
                return;
            }
        }
    };
    // Who does not close in that time has had his answer.
    tokio::time::timeout(LINGER, read).await.ok();
}

async fn respond(request: Request<Incoming>, port: &Port, peer: &Peer) -> Response<AnswerBody> {
    if request.headers().get_all(HOST).iter().count() > 1 {
        // Whoever stands in front may have read the other one.
        let refused = request::plain(StatusCode::BAD_REQUEST, "the request names two hosts\n");
        return refused.map(Either::Left);
    }
    let answer = match port.route(request.uri().path()) {
        Some(Target::Events(audience)) => return audience.answer(&request, peer),
        Some(Target::Source(route)) => request::answer(request, &route, peer, &port.crowd).await,
        None => request::plain(StatusCode::NOT_FOUND, &unknown_path(port)),
    };
    answer.map(Either::Left)
}

/// Names the paths that there are, to who has misspelt one.
fn unknown_path(port: &Port) -> String {
    const SHOWN: usize = 20;
    let mut paths = port.keys();
    paths.sort();
    let left = paths.len().saturating_sub(SHOWN);
    paths.truncate(SHOWN);
    let more = match left {
        0 => String::new(),
        left => format!(" and {left} more"),
    };
    format!(
        "no source listens on this path; there is {}{more}\n",
        paths.join(", ")
    )
}
