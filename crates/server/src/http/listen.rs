//! Accepts connections and serves their requests.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use connect::net::{Accepts, Clock, Crowd, Idle, Pace};
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
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

/// Requests of a connection at once, and how often an idle one is asked whether it is there, where HTTP/2 is spoken.
const STREAMS_MAX: u32 = 32;
const ALIVE_EVERY: Duration = Duration::from_secs(60);

/// Time for which a client may leave an answer unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// How the next connection is encrypted.
pub(super) type Tls = watch::Receiver<Arc<ServerConfig>>;

/// How clients ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte, as gRPC has it.
    Http2,
}

impl Protocol {
    /// The protocol as TLS agrees on it.
    pub fn of_tls(self, config: Arc<ServerConfig>) -> Arc<ServerConfig> {
        match self {
            Protocol::Http1 => config,
            Protocol::Http2 => {
                let mut config = Arc::unwrap_or_clone(config);
                config.alpn_protocols = vec![b"h2".to_vec()];
                Arc::new(config)
            }
        }
    }
}

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub protocol: Protocol,
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
            protocol: Protocol::Http1,
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
    let mut accepts = Accepts::default();
    let crowd = Arc::new(Crowd::new(limits.connections));
    // Closed never, so this loop ends with the future alone.
    while let Ok(permit) = Arc::clone(connections).acquire_owned().await {
        let say = |times: u64, cause: &io::Error| {
            tracing::warn!(
                times,
                %cause,
                "cannot accept HTTP connections; they wait and are retried"
            );
        };
        let (stream, peer) = accepts.next(listener, say).await;
        let (router, stopped) = (router.clone(), stopped.clone());
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.borrow().clone()));
        let crowd = Arc::clone(&crowd);
        tokio::task::spawn(async move {
            let _place = crowd.enter();
            tune(&stream);
            let peer = Peer(peer);
            let served = match acceptor {
                None => serve_connection(stream, peer, router, limits, &crowd, stopped).await,
                Some(acceptor) => match shake_hands(&acceptor, stream, limits, &crowd).await {
                    Ok(stream) => {
                        serve_connection(stream, peer, router, limits, &crowd, stopped).await
                    }
                    Err(cause) => Err(cause),
                },
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

async fn shake_hands(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    limits: Limits,
    crowd: &Crowd,
) -> Result<TlsStream<TcpStream>, String> {
    let mut clock = Clock::start(Pace {
        gap: None,
        whole: Some(limits.head),
    });
    let accepted = clock.wait(crowd, acceptor.accept(stream)).await;
    let accepted = accepted.map_err(|late| format!("TLS handshake: {late}"))?;
    accepted.map_err(|error| error.to_string())
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    limits: Limits,
    crowd: &Crowd,
    stopped: watch::Receiver<bool>,
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
            if !has_come.swap(true, Ordering::Relaxed) {
                idle.begin();
            }
            let served = Served(idle);
            answer.map(|answer| {
                answer.map(|body| Answer {
                    body,
                    _served: served,
                })
            })
        }
    });
    let stream = TokioIo::new(stream);
    match limits.protocol {
        Protocol::Http1 => {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                .max_buf_size(limits.head_bytes)
                .serve_connection(stream, answer);
            drive(connection, &idle, crowd, stopped).await
        }
        Protocol::Http2 => {
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
                .keep_alive_interval(ALIVE_EVERY)
                .keep_alive_timeout(limits.head)
                .serve_connection(stream, answer);
            drive(connection, &idle, crowd, stopped).await
        }
    }
}

/// Has a connection served until it ends, gives way, or is stopped.
async fn drive(
    connection: impl GracefulConnection<Error = hyper::Error>,
    idle: &Idle,
    crowd: &Crowd,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
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

/// A request that is served, until its answer has been written: one that never ends, such as a tap's,
/// lets nobody wait.
struct Served(Arc<Idle>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The body of an answer.
struct Answer {
    body: axum::body::Body,
    _served: Served,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;

    use super::*;

    /// An answer that is written as it comes.
    struct Growing(mpsc::Receiver<&'static str>);

    impl Body for Growing {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            let piece = self.0.poll_recv(context);
            piece.map(|piece| piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
        }
    }

    async fn read_until(stream: &mut TcpStream, end: &str) {
        let mut answer = String::new();
        while !answer.ends_with(end) {
            let mut piece = [0; 256];
            let count = stream.read(&mut piece).await.expect("it is open");
            assert_ne!(count, 0, "closed after {answer:?}");
            answer.push_str(std::str::from_utf8(&piece[..count]).expect("a text"));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_being_written_keeps_its_place_on_a_full_listener() {
        let (pieces, growing) = mpsc::channel(1);
        let growing = Arc::new(std::sync::Mutex::new(Some(growing)));
        let rows = get(move || async move {
            let growing = growing.lock().expect("it is whole").take();
            axum::body::Body::new(Growing(growing.expect("it is asked for once")))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let limits = Limits {
            connections: 2,
            ..Limits::default()
        };
        let (stop, stopped) = watch::channel(false);
        let router = Router::new().route("/rows", rows);
        let served = tokio::task::spawn(serve(listener, router, None, limits, stopped));

        let mut reader = TcpStream::connect(address).await.expect("it listens");
        let head = b"GET /rows HTTP/1.1\r\nHost: localhost\r\n\r\n";
        reader.write_all(head).await.expect("it is taken");
        pieces.send("one\n").await.expect("it is read");
        read_until(&mut reader, "one\n\r\n").await;
        // Who came later and asks nothing gives way; the reader, who has had no row since before, does not.
        // The second of them comes when the reader has been without a row for longer than it may be silent.
        for _ in 0..2 {
            let mut silent = TcpStream::connect(address).await.expect("it listens");
            assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or(0), 0);
        }
        pieces.send("two\n").await.expect("it is read");
        read_until(&mut reader, "two\n\r\n").await;

        drop((pieces, reader));
        stop.send_replace(true);
        served.await.expect("it ends");
    }
}
