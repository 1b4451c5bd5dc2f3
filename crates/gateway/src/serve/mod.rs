//! The listener: connections, requests, and who answers them. hyper reads requests and writes their answers; what
//! becomes a stream of events is taken from it ([`held`]).
//!
//! Promises: heads, bodies, waits and connections are bounded; a request is refused with its cause and counted; a
//! connection that upgrades keeps its place until it ends; a stop tells all streams, so that clients come back.
//! Never: a token or key in an answer or a log line.

mod access;
mod answer;
mod backend;
mod client;
mod fetch;
mod follow;
mod held;
mod http2;
mod publish;
mod receiver;
mod shared;
mod sse;
mod stream;
mod webhook;
mod websocket;
mod websub;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connect::net::{
    Crowd, Listening, Observed, Outgoing, Rewound, STOP_GRACE, Served as ServedLine, SocketOptions,
};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::gateway::{Found, Gateway, Served};
use crate::model::Lifecycle;
use answer::{Answer, refused};
use client::Client;
use held::Held;

/// Longest head of a request, in bytes, and most headers in it.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 100;

/// Longest wait for the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// Longest silence of the system of a client that has something to take: then it is gone.
const GONE_MAX: Duration = Duration::from_secs(5);

/// Descriptors that the rest of the server needs.
const DESCRIPTORS_KEPT: u32 = 512;

/// Connections of one listener, however many descriptors there are.
const CONNECTIONS_MAX: u32 = 100_000;

/// A listener of a gateway. Dropped, it ends without waiting.
pub struct Listener {
    gateway: Arc<Gateway>,
    listening: Option<Listening>,
    address: SocketAddr,
}

impl Gateway {
    /// Listens at `address`, whose port may be 0.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub fn listen(self: &Arc<Gateway>, address: SocketAddr) -> io::Result<Listener> {
        let max = connections_max();
        let port = Arc::new(Port {
            gateway: Arc::clone(self),
            crowd: Crowd::new(max),
        });
        let serve = move |stream: TcpStream, stopped| {
            let port = Arc::clone(&port);
            async move {
                let own = Arc::clone(&port);
                let _place = own.crowd.enter();
                own.gateway.counts.connections.add(1);
                if let Err(error) = serve(stream, port, stopped).await {
                    tracing::debug!(cause = %error, "connection of the gateway failed");
                }
                own.gateway.counts.connections.sub(1);
            }
        };
        let options = SocketOptions {
            backlog: 4096,
            ..SocketOptions::default()
        };
        let host = address.ip().to_string();
        self.hub.begin()?;
        let workers = self.network.workers()?;
        let place = (host.as_str(), address.port());
        let listening = Listening::start(workers, place, &options, max, serve)?;
        let address = listening.address();
        self.listens(address);
        self.begin_following();
        tracing::info!(%address, connections_max = max, "gateway is listening");
        Ok(Listener {
            gateway: Arc::clone(self),
            listening: Some(listening),
            address,
        })
    }
}

impl Listener {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells all streams of the gateway that the server stops, and waits a moment for their connections.
    pub fn stop(mut self) {
        self.gateway.stop();
        let Some(listening) = self.listening.take() else {
            return;
        };
        let Ok(workers) = self.gateway.network.workers() else {
            return;
        };
        if !matches!(workers.wait_for(listening.ended(STOP_GRACE)), Ok(true)) {
            tracing::warn!(address = %self.address, "gateway stopped while connections were still open");
        }
    }
}

/// Connections that this process can hold: one may take a second descriptor for its backend.
fn connections_max() -> u32 {
    let left = crate::descriptors::limit().saturating_sub(DESCRIPTORS_KEPT);
    left.clamp(64, CONNECTIONS_MAX)
}

/// What the connections of a listener share.
pub(crate) struct Port {
    pub gateway: Arc<Gateway>,
    pub crowd: Crowd,
}

/// The other end of a connection.
pub(crate) struct Peer {
    socket: SocketAddr,
    has_tls: bool,
    /// Who has sent the request that is answered.
    client: Mutex<Client>,
    pub outgoing: Arc<Outgoing>,
    /// What goes on over the connection after an upgrade.
    pub session: Mutex<Option<JoinHandle<()>>>,
    /// For an answer that is a stream.
    held: held::Place,
    /// No request of the connection was answered yet.
    is_first: AtomicBool,
    /// Since when the connection waits for a head; `None` while a request is answered.
    waits: Mutex<Option<Instant>>,
}

impl Peer {
    fn new(address: SocketAddr, is_tls: bool, outgoing: Arc<Outgoing>) -> Peer {
        Peer {
            socket: address,
            has_tls: is_tls,
            client: Mutex::new(Client {
                address,
                is_tls,
                is_proxied: false,
            }),
            outgoing,
            session: Mutex::default(),
            held: held::Place::default(),
            is_first: AtomicBool::new(true),
            waits: Mutex::new(Some(Instant::now())),
        }
    }

    fn client(&self) -> Client {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where who has sent the request is.
    pub fn address(&self) -> SocketAddr {
        self.client().address
    }

    /// Does it come to us, or to the proxy in front of us, by TLS?
    pub fn is_tls(&self) -> bool {
        self.client().is_tls
    }

    /// Finds out who has sent a request to an API.
    fn identify(&self, headers: &HeaderMap, served: &Served) {
        let client = client::of(self.socket, self.has_tls, headers, &served.api.proxies);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    fn set_waits(&self, since: Option<Instant>) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn waits(&self) -> Option<Instant> {
        let waits = *self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.filter(|_| !self.outgoing.has_events())
    }
}

async fn serve(
    mut stream: TcpStream,
    port: Arc<Port>,
    stopped: watch::Receiver<bool>,
) -> ServedLine {
    let tls = port.gateway.tls();
    let peer = Arc::new(Peer::new(
        stream.peer_addr()?,
        tls.is_some(),
        Arc::default(),
    ));
    // One whose machine is gone takes nothing, and nobody would hear of it for many minutes.
    SockRef::from(&stream).set_tcp_user_timeout(Some(GONE_MAX))?;
    // In boxes, so that a held stream does not carry them along.
    let mut own = stopped.clone();
    let served = match tls {
        None => {
            let (port, peer) = (&port, &peer);
            let served = async move {
                let begun = tokio::select! {
                    begun = tokio::time::timeout(HEAD_MAX, http2::begins(&mut stream)) => begun??,
                    () = port.crowd.gives_way(|| peer.waits()) => return Ok(None),
                    _ = own.wait_for(|is_stopped| *is_stopped) => return Ok(None),
                };
                let (is_http2, read) = begun;
                let stream = Rewound::new(read, stream);
                match is_http2 {
                    true => http2::serve(stream, port, peer, own).await.map(|()| None),
                    false => serve_line(stream, port, peer, own).await,
                }
            };
            Box::pin(served).await
        }
        Some(tls) => {
            let (port, peer) = (&port, &peer);
            let served = async move {
                let line = tls.accept(stream, &port.crowd).await?;
                match line.get_ref().1.alpn_protocol() == Some(http2::ALPN) {
                    true => http2::serve(line, port, peer, own).await.map(|()| None),
                    false => serve_line(line, port, peer, own).await,
                }
            };
            Box::pin(served).await
        }
    };
    if let Some(held) = served? {
        return held.run(&peer, stopped).await;
    }
    let session = peer
        .session
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(session) = session {
        // A panic of it has ended it as well.
        session.await.ok();
    }
    Ok(())
}

/// Serves a connection to its end, or until it is a stream.
async fn serve_line<S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static>(
    line: S,
    port: &Arc<Port>,
    peer: &Arc<Peer>,
    mut stopped: watch::Receiver<bool>,
) -> Result<Option<Held>, Box<dyn StdError + Send + Sync>> {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let (own_port, own_peer) = (Arc::clone(port), Arc::clone(peer));
    let service = service_fn(move |request: Request<Incoming>| {
        let (port, peer) = (Arc::clone(&own_port), Arc::clone(&own_peer));
        async move {
            peer.set_waits(None);
            let mut answer = respond(request, &port, &peer).await;
            // Behind another answer, what hyper has not written of that one would be lost.
            if peer.is_first.swap(false, Ordering::Relaxed) && answer.body().is_stream() {
                answer = peer.held.leave(answer).await;
            }
            peer.set_waits(Some(Instant::now()));
            Ok::<_, Infallible>(answer)
        }
    });
    let (line, lender) = held::lend(Observed::new(line, Arc::clone(&peer.outgoing)));
    let connection = server
        .serve_connection(TokioIo::new(line), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        served = &mut connection => return Ok(served.map(|()| None)?),
        answer = peer.held.left() => {
            let line = lender.take();
            return Ok(line.map(|line| Held::new(line, answer)));
        }
        () = peer.outgoing.is_cut() => return Ok(None),
        // An answer without end is not waited for.
        () = port.crowd.gives_way(|| peer.waits()) => return Ok(None),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(STOP_GRACE, connection).await??;
    Ok(None)
}

/// Finds who answers a request.
async fn respond(request: Request<Incoming>, port: &Port, peer: &Arc<Peer>) -> Answer {
    let counts = &port.gateway.counts.refused;
    if request.headers().get_all(HOST).iter().count() > 1 {
        // Whoever stands in front may have read the other one.
        counts.method.add(1);
        return refused(StatusCode::BAD_REQUEST, "the request names two hosts");
    }
    let found = match port.gateway.table().find(request.uri().path()) {
        Ok(found) => found,
        Err(nearest) => {
            if let Some(served) = &nearest {
                peer.identify(request.headers(), served);
            }
            if let Some(served) = &nearest
                && websub::is_hub(served, request.uri().path())
            {
                return match life(served) {
                    Some(answer) => answer,
                    None => websub::answer(request, served, port, peer).await,
                };
            }
            if let Some(served) = &nearest
                && receiver::is_receiver(served, request.uri().path())
            {
                return match life(served) {
                    Some(answer) => answer,
                    None => receiver::answer(request, served, port, peer).await,
                };
            }
            match request.uri().path() {
                "/token" => return token(request, port).await,
                "/.well-known/jwks.json" => return access::token_keys(port),
                _ => {}
            }
            counts.unknown.add(1);
            return answer::unknown(nearest.as_deref());
        }
    };
    peer.identify(request.headers(), &found.served);
    if let Some(answer) = life(&found.served) {
        counts.unknown.add(1);
        return answer;
    }
    let is_deprecated = found.served.api.status == Lifecycle::Deprecated;
    let headers = request.headers();
    let origin = headers.get(ORIGIN).cloned();
    if let Some(origin) = &origin {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let text = origin.to_str().unwrap_or_default();
        if !found.served.api.origins.allow(text, host) {
            counts.origin.add(1);
            let why = "pages of this origin may not use the API: name it in 'origins'";
            return refused(StatusCode::FORBIDDEN, why);
        }
    }
    let links = websub::links(headers, &found, request.uri().path(), peer);
    let is_any = found.served.api.origins.is_any();
    let mut answer = dispatch(request, found, port, peer).await;
    if let Some((name, value)) = links {
        answer.headers_mut().append(name, value);
    }
    if is_deprecated {
        let name = HeaderName::from_static("deprecation");
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static("true"));
    }
    if let Some(origin) = origin {
        answer::allow_origin(answer.headers_mut(), origin, is_any);
    }
    answer
}

/// The answer where an API is not served, by where it is in its life.
fn life(served: &Served) -> Option<Answer> {
    let name = &served.api.name;
    let (status, why) = match served.api.status {
        Lifecycle::Published | Lifecycle::Prototyped | Lifecycle::Deprecated => return None,
        Lifecycle::Created => {
            return Some(refused(
                StatusCode::NOT_FOUND,
                "there is no API at this path",
            ));
        }
        Lifecycle::Blocked => (StatusCode::SERVICE_UNAVAILABLE, "is blocked for now"),
        Lifecycle::Retired => (StatusCode::GONE, "is served no more"),
    };
    Some(refused(status, &format!("API '{name}' {why}")))
}

/// A client of the own issuer asks for a token.
async fn token(request: Request<Incoming>, port: &Port) -> Answer {
    if *request.method() != Method::POST {
        port.gateway.counts.refused.method.add(1);
        return access::no_form();
    }
    let (head, body) = request.into_parts();
    let max = crate::token::FORM_BYTES_MAX;
    match publish::read(body, &head.headers, max, port).await {
        Ok((form, _)) => access::token(&head.headers, &form, port),
        Err(unread) => {
            port.gateway.counts.refused.payload.add(1);
            unread.answer(max)
        }
    }
}

async fn dispatch(
    request: Request<Incoming>,
    found: Found,
    port: &Port,
    peer: &Arc<Peer>,
) -> Answer {
    let protocols = found.served.api.protocols;
    let (topic, _) = &found.served.topics[found.topic];
    let can_hear = topic.subscribe.is_some() && protocols.sse;
    let can_publish = topic.publish.is_some() && protocols.http;
    if follow::is_meant(&request, topic) {
        return follow::answer(request, found, port, peer).await;
    }
    if websocket::is_asked(&request) || http2::is_websocket(&request) {
        if protocols.websocket {
            return websocket::answer(request, found, port, peer).await;
        }
        port.gateway.counts.refused.method.add(1);
        let why = "this API does not speak WebSocket: 'ws' is not among its protocols";
        return refused(StatusCode::METHOD_NOT_ALLOWED, why);
    }
    match *request.method() {
        Method::GET | Method::HEAD if can_hear => sse::answer(request, found, port, peer).await,
        Method::POST if can_publish => publish::answer(request, found, port, peer).await,
        Method::OPTIONS => match webhook::handshake(&request, topic) {
            Some(answer) => answer,
            None => answer::preflight(request.headers()),
        },
        Method::GET if protocols.websocket && !protocols.sse => {
            port.gateway.counts.refused.method.add(1);
            let why = "this topic speaks WebSocket: ask for an upgrade";
            let mut answer = refused(StatusCode::UPGRADE_REQUIRED, why);
            let upgrade = HeaderValue::from_static("websocket");
            answer.headers_mut().insert(hyper::header::UPGRADE, upgrade);
            answer
        }
        _ => {
            port.gateway.counts.refused.method.add(1);
            let (why, allow) = match (can_hear, can_publish) {
                (true, true) => (
                    "GET hears this topic, POST publishes to it",
                    "GET, HEAD, POST",
                ),
                (true, false) => (
                    "GET hears this topic; nobody may publish to it",
                    "GET, HEAD",
                ),
                (false, true) => ("POST publishes to this topic; nobody may hear it", "POST"),
                (false, false) => ("nobody may use this topic so", "OPTIONS"),
            };
            let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, why);
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static(allow));
            answer
        }
    }
}
