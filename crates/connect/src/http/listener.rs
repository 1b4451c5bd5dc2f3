//! Listening for requests: one listener for each host and port of a server, with a route for each
//! source.
//!
//! Connections are spread over the workers in turn and stay where they are. Promises: two sources on
//! one route are refused when the app is made; when the last route has gone, the port is free again
//! before the source returns. Never: a pattern in a path, or a path put right.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::request::{self, Peer, Route};
use super::url::Url;
use crate::error::Error;
use crate::net::ServerTls;
use crate::net::Workers;

/// Connections of one port that are served at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 8192;

/// How long requests that are being answered may take when the listener stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Listeners of a server by host and port.
#[derive(Default)]
pub(crate) struct Listeners {
    ports: Mutex<HashMap<(String, u16), Arc<Port>>>,
}

/// Where several sources may listen together.
struct Port {
    host: String,
    number: u16,
    socket: SocketOptions,
    tls: Option<ServerTls>,
    routes: RwLock<HashMap<String, Arc<Route>>>,
    listening: Mutex<Listening>,
}

#[derive(Default)]
struct Listening {
    /// Sources that run.
    sources: usize,
    accepting: Option<Accepting>,
}

struct Accepting {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// Held by every connection; all of them together mean that none is left.
    connections: Arc<Semaphore>,
}

/// Settings of the socket and its connections (`server.bootstrap.configurations`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SocketOptions {
    pub no_delay: bool,
    pub keep_alive: bool,
    pub send_buffer: Option<usize>,
    pub receive_buffer: Option<usize>,
    pub backlog: i32,
    /// Closes a connection without requests.
    pub idle: Option<Duration>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            no_delay: true,
            keep_alive: true,
            send_buffer: None,
            receive_buffer: None,
            backlog: 1024,
            idle: Some(Duration::from_millis(120_000)),
        }
    }
}

/// A route that is held by a source until dropped.
pub(crate) struct Lease {
    listeners: Arc<Listeners>,
    port: Arc<Port>,
    path: String,
    is_running: bool,
}

impl Listeners {
    /// Takes a route. The message of the error is for the person who wrote the app.
    pub fn reserve(
        self: &Arc<Listeners>,
        url: &Url,
        route: Route,
        socket: SocketOptions,
        tls: Option<ServerTls>,
    ) -> Result<Lease, String> {
        let key = (url.host.clone(), url.port);
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let port = Arc::clone(ports.entry(key).or_insert_with(|| {
            Arc::new(Port {
                host: url.host.clone(),
                number: url.port,
                socket,
                tls: tls.clone(),
                routes: RwLock::default(),
                listening: Mutex::default(),
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
                "another source listens on port {} at path '{}'; give each its own path",
                url.port, url.path
            ));
        }
        routes.insert(url.path.clone(), Arc::new(route));
        drop(routes);
        Ok(Lease {
            listeners: Arc::clone(self),
            port,
            path: url.path.clone(),
            is_running: false,
        })
    }
}

impl Lease {
    /// Listens, unless another source of the port does already.
    pub fn open(&mut self, workers: &Workers) -> Result<(), Error> {
        let mut listening = self.port.lock();
        if listening.accepting.is_none() {
            let address = format!("address {}:{}", self.port.host, self.port.number);
            let accepting = self.port.accept(workers);
            listening.accepting = Some(accepting.map_err(|e| Error::unavailable(address, e))?);
        }
        listening.sources += 1;
        drop(listening);
        self.is_running = true;
        Ok(())
    }

    /// Stops listening where no other source of the port runs. The port is free when it returns.
    pub fn close(&mut self, workers: &Workers) {
        if !std::mem::take(&mut self.is_running) {
            return;
        }
        let mut listening = self.port.lock();
        listening.sources -= 1;
        if listening.sources > 0 {
            return;
        }
        let Some(accepting) = listening.accepting.take() else {
            return;
        };
        drop(listening);
        accepting.stop.send_replace(true);
        let ended = workers.wait_for(async move {
            // It ends by the stop; a panic of it has left nothing open either.
            accepting.task.await.ok();
            let all = accepting.connections.acquire_many(CONNECTIONS_MAX as u32);
            tokio::time::timeout(STOP_GRACE, all).await.is_ok()
        });
        if !matches!(ended, Ok(true)) {
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
    fn lock(&self) -> std::sync::MutexGuard<'_, Listening> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn route(&self, path: &str) -> Option<Arc<Route>> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.get(path).cloned()
    }

    fn accept(self: &Arc<Port>, workers: &Workers) -> std::io::Result<Accepting> {
        let listener = bind(&self.host, self.number, &self.socket)?;
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let handles = workers.handles().to_vec();
        let port = Arc::clone(self);
        let held = Arc::clone(&connections);
        let task = workers.next().spawn(async move {
            let mut until = stopped.clone();
            tokio::select! {
                () = accept(listener, port, handles, held, stopped) => {}
                _ = until.wait_for(|is_stopped| *is_stopped) => {}
            }
        });
        Ok(Accepting {
            stop,
            task,
            connections,
        })
    }
}

fn bind(host: &str, port: u16, options: &SocketOptions) -> std::io::Result<std::net::TcpListener> {
    let mut last = std::io::Error::other(format!("host '{host}' has no address"));
    for address in (host, port).to_socket_addrs()? {
        match bind_address(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_address(
    address: SocketAddr,
    options: &SocketOptions,
) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A port whose last connections still linger can be listened on again at once.
    socket.set_reuse_address(true)?;
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

async fn accept(
    listener: std::net::TcpListener,
    port: Arc<Port>,
    handles: Vec<tokio::runtime::Handle>,
    connections: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(cause = %error, "the listener cannot be used");
            return;
        }
    };
    for turn in 0.. {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files: the next connection may find room.
                tracing::warn!(cause = %error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        // Back to the system, so that the worker that serves it also waits for it.
        let Ok(stream) = stream.into_std() else {
            continue;
        };
        let (port, stopped) = (Arc::clone(&port), stopped.clone());
        handles[turn % handles.len()].spawn(async move {
            if let Err(error) = serve_stream(stream, port, stopped).await {
                tracing::debug!(cause = %error, "a connection broke off");
            }
            drop(permit);
        });
    }
}

async fn serve_stream(
    stream: std::net::TcpStream,
    port: Arc<Port>,
    stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(port.socket.no_delay)?;
    if port.socket.keep_alive {
        socket2::SockRef::from(&stream).set_keepalive(true)?;
    }
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
    server.header_read_timeout(port.socket.idle);
    server.pipeline_flush(true);
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

async fn respond(
    request: Request<Incoming>,
    port: &Port,
    peer: &Peer,
) -> Response<http_body_util::Full<hyper::body::Bytes>> {
    match port.route(request.uri().path()) {
        Some(route) => request::answer(request, &route, peer).await,
        None => request::plain(StatusCode::NOT_FOUND, "no source listens at this path\n"),
    }
}
