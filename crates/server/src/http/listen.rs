//! Accepts connections and serves their requests.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use connect::net::{Crowd, Idle};
use connect::retry::Burst;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tower_service::Service as _;

use super::gate::Peer;

/// Connections that are open at once. Another one is not accepted before one of them ends, so that it costs
/// no descriptor that a source or sink may need.
const CONNECTIONS_MAX: u32 = 256;

/// Time for a head, from the first byte that could come.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// Bytes of a head: the request line and the headers.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Time that requests have to end at a stop.
const GRACE: Duration = Duration::from_secs(5);

/// Time for which a client may leave an answer unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Pause after a connection that could not be accepted, mostly for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How the next connection is encrypted.
pub(super) type Tls = watch::Receiver<Arc<ServerConfig>>;

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections that are open at once.
    pub connections: u32,
    /// Time for a head.
    pub head: Duration,
    /// Bytes of a head, at least 8192.
    pub head_bytes: usize,
    /// Time that requests have to end at a stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: CONNECTIONS_MAX,
            head: HEAD_MAX,
            head_bytes: HEAD_BYTES_MAX,
            grace: GRACE,
        }
    }
}

/// Serves until told to stop; then what was asked is answered, within the grace.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Tls>,
    limits: Limits,
    stopped: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(limits.connections as usize));
    let mut until = stopped.clone();
    tokio::select! {
        biased;
        _ = until.wait_for(|is_stopped| *is_stopped) => {}
        () = accept_all(&listener, &router, tls.as_ref(), limits, &connections, &stopped) => {}
    }
    drop(listener);
    let all = connections.acquire_many(limits.connections);
    if tokio::time::timeout(limits.grace, all).await.is_err() {
        tracing::warn!(
            open = limits.connections as usize - connections.available_permits(),
            "closing HTTP connections: their requests did not finish during shutdown"
        );
    }
}

async fn accept_all(
    listener: &TcpListener,
    router: &Router,
    tls: Option<&Tls>,
    limits: Limits,
    connections: &Arc<Semaphore>,
    stopped: &watch::Receiver<bool>,
) {
    let failures = Burst::default();
    let crowd = Arc::new(Crowd::new(limits.connections));
    // Closed never, so this loop ends with the future alone.
    while let Ok(permit) = Arc::clone(connections).acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(times) = failures.note() {
                    let cause = &error;
                    tracing::warn!(
                        times,
                        %cause,
                        "cannot accept HTTP connections; they wait and are retried"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (router, stopped) = (router.clone(), stopped.clone());
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.borrow().clone()));
        let crowd = Arc::clone(&crowd);
        tokio::task::spawn(async move {
            let _place = crowd.enter();
            tune(&stream);
            let peer = Peer(peer);
            let served = match acceptor {
                None => serve_connection(stream, peer, router, limits, &crowd, stopped).await,
                Some(acceptor) => {
                    let accepting = tokio::time::timeout(limits.head, acceptor.accept(stream));
                    match accepting.await {
                        Ok(Ok(stream)) => {
                            serve_connection(stream, peer, router, limits, &crowd, stopped).await
                        }
                        Ok(Err(error)) => Err(error.to_string()),
                        Err(_) => Err("the TLS handshake took too long".to_owned()),
                    }
                }
            };
            if let Err(cause) = served {
                tracing::debug!(cause, "HTTP connection failed");
            }
            drop(permit);
        });
    }
}

fn tune(stream: &TcpStream) {
    stream.set_nodelay(true).ok();
    // A client that is gone, or reads nothing, must not hold its place for ever.
    SockRef::from(stream)
        .set_tcp_user_timeout(Some(UNREAD_MAX))
        .ok();
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    limits: Limits,
    crowd: &Crowd,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    let idle = Arc::new(Idle::default());
    let of_line = Arc::clone(&idle);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let has_come = Arc::new(AtomicBool::new(false));
        let request = request.map(|body| Arriving::new(body, &of_line, &has_come));
        let (answer, idle) = (router.clone().call(request), Arc::clone(&of_line));
        async move {
            let answer = answer.await;
            match has_come.load(Ordering::Relaxed) {
                true => idle.end(),
                false => idle.moved(),
            }
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    tokio::select! {
        served = connection.as_mut() => return served.map_err(|error| error.to_string()),
        () = crowd.gives_way(|| idle.since()) => return Ok(()),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await.map_err(|error| error.to_string())
}

/// A body that is read: until it has come, its connection waits for the client; from then on the request
/// is served.
struct Arriving {
    body: Incoming,
    idle: Arc<Idle>,
    has_come: Arc<AtomicBool>,
}

impl Arriving {
    fn new(body: Incoming, idle: &Arc<Idle>, has_come: &Arc<AtomicBool>) -> Arriving {
        let arriving = Arriving {
            body,
            idle: Arc::clone(idle),
            has_come: Arc::clone(has_come),
        };
        arriving.moved();
        arriving
    }

    fn moved(&self) {
        self.idle.moved();
        if self.body.is_end_stream() && !self.has_come.swap(true, Ordering::Relaxed) {
            self.idle.begin();
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.moved();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
