//! Listening for requests: one listener for each host and port of a server, with a route for each
//! source.
//!
//! Promises: two sources on one route are refused when the app is made; when the last route has gone,
//! the port is free again before the source returns, and every request that came by then has its
//! answer. Never: a pattern in a path, or a path put right.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::request::{self, Peer, Route};
use super::sse::{Audience, Events};
use super::url::Url;
use crate::error::Error;
use crate::net::{Listening, STOP_GRACE, ServerTls, SharedListener, SocketOptions, Stay, Workers};

/// Connections of one port that are served at once; more wait to be accepted.
const CONNECTIONS_MAX: u32 = 8192;

/// Listeners of a server by host and port.
#[derive(Default)]
pub(crate) struct Listeners {
    ports: Mutex<HashMap<(String, u16), Arc<Port>>>,
}

/// Where several sources may listen together.
struct Port {
    host: String,
    number: u16,
    options: PortOptions,
    tls: Option<ServerTls>,
    routes: RwLock<HashMap<String, Target>>,
    listener: SharedListener,
}

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

/// A route that is held by a source until dropped.
pub(crate) struct Lease {
    listeners: Arc<Listeners>,
    port: Arc<Port>,
    path: String,
}

impl Listeners {
    /// Takes a route. The message of the error is for the person who wrote the app.
    pub fn reserve(
        self: &Arc<Listeners>,
        url: &Url,
        target: Target,
        options: PortOptions,
        tls: Option<ServerTls>,
    ) -> Result<Lease, String> {
        let key = (url.host.clone(), url.port);
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let port = Arc::clone(ports.entry(key).or_insert_with(|| {
            Arc::new(Port {
                host: url.host.clone(),
                number: url.port,
                options,
                tls: tls.clone(),
                routes: RwLock::default(),
                listener: SharedListener::default(),
            })
        }));
        if port.tls != tls {
            return Err(format!(
                "port {} is used by another source with other TLS settings; use one key store for \
                 both, or another port",
                url.port
            ));
        }
        let mut routes = port.routes.write().unwrap_or_else(PoisonError::into_inner);
        if routes.contains_key(&url.path) {
            return Err(format!(
                "another listens on port {} at path '{}'; give each its own path",
                url.port, url.path
            ));
        }
        routes.insert(url.path.clone(), target);
        drop(routes);
        Ok(Lease {
            listeners: Arc::clone(self),
            port,
            path: url.path.clone(),
        })
    }
}

impl Lease {
    /// Listens, unless another source of the port does already.
    pub fn open<'a>(&'a self, workers: &'a Workers) -> Result<Stay<'a>, Error> {
        let port = &self.port;
        let listening = port.listener.enter(workers, || port.listen(workers));
        let address = || format!("address {}:{}", port.host, port.number);
        listening.map_err(|e| Error::unavailable(address(), e))
    }

    /// As [`Lease::open`] for who has no thread that waits, until [`Lease::release`].
    pub fn hold(&self, workers: &Workers) -> Result<(), Error> {
        let port = &self.port;
        let held = port.listener.hold(|| port.listen(workers));
        held.map_err(|e| Error::unavailable(format!("address {}:{}", port.host, port.number), e))
    }

    /// The port is free when it returns, where nobody else listens on it.
    pub fn release(&self, workers: &Workers) {
        if !self.port.listener.release(workers, STOP_GRACE) {
            tracing::warn!(port = self.port.number, "connections were left");
        }
    }

    /// The source has stopped. The port is free when it returns, where it was the last.
    pub fn close(&self, stay: Stay<'_>) {
        if !stay.end(STOP_GRACE) {
            tracing::warn!(port = self.port.number, "requests were left without answer");
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut ports = self
            .listeners
            .ports
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut routes = self
            .port
            .routes
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        routes.remove(&self.path);
        if routes.is_empty() {
            ports.remove(&(self.port.host.clone(), self.port.number));
        }
    }
}

impl Port {
    fn route(&self, path: &str) -> Option<Target> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.get(path).cloned()
    }

    /// Is there a path whose answer has no end?
    fn has_audience(&self) -> bool {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes
            .values()
            .any(|target| matches!(target, Target::Events(_)))
    }

    fn listen(self: &Arc<Port>, workers: &Workers) -> std::io::Result<Listening> {
        let port = Arc::clone(self);
        let place = (self.host.as_str(), self.number);
        let serve = move |stream, stopped| {
            let port = Arc::clone(&port);
            async move {
                if let Err(error) = serve_stream(stream, port, stopped).await {
                    tracing::debug!(cause = %error, "a connection broke off");
                }
            }
        };
        Listening::start(workers, place, &self.options.socket, CONNECTIONS_MAX, serve)
    }
}

async fn serve_stream(
    stream: TcpStream,
    port: Arc<Port>,
    stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let peer = Arc::new(Peer {
        address: stream.peer_addr()?,
        local_port: stream.local_addr()?.port(),
        is_tls: port.tls.is_some(),
    });
    match port.tls.clone() {
        None => serve(stream, port, peer, stopped).await,
        Some(tls) => serve(tls.accept(stream).await?, port, peer, stopped).await,
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    port: Arc<Port>,
    peer: Arc<Peer>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new());
    // Also the longest wait for the next request of a connection.
    server.header_read_timeout(port.options.idle);
    // It also lifts the bound of what waits to be written, which an endless answer needs.
    server.pipeline_flush(!port.has_audience());
    let answer = service_fn(move |request: Request<Incoming>| {
        let (port, peer) = (Arc::clone(&port), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(respond(request, &port, &peer).await) }
    });
    let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        served = connection.as_mut() => return Ok(served?),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(tokio::time::timeout(STOP_GRACE, connection).await??)
}

async fn respond(request: Request<Incoming>, port: &Port, peer: &Peer) -> Response<AnswerBody> {
    let answer = match port.route(request.uri().path()) {
        Some(Target::Events(audience)) => return audience.answer(&request, peer),
        Some(Target::Source(route)) => request::answer(request, &route, peer).await,
        None => request::plain(StatusCode::NOT_FOUND, "nobody listens at this path\n"),
    };
    answer.map(Either::Left)
}
