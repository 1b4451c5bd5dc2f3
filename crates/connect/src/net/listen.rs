//! Accepting connections on a port.
//!
//! Connections are spread over the workers in turn and stay where they are. Promises: no more of them
//! than the limit are served at once, the others wait to be accepted; when [`Listening::ended`]
//! returns, the port is free again.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::{Workers, signs_of_life};

/// Pause after a connection that could not be accepted, for want of open files as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Least time between two warnings of that.
const WARNING_PAUSE: Duration = Duration::from_secs(1);

/// Settings of a listening socket and of its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SocketOptions {
    pub no_delay: bool,
    pub keep_alive: bool,
    pub send_buffer: Option<usize>,
    pub receive_buffer: Option<usize>,
    /// Connections that the system holds until they are accepted.
    pub backlog: i32,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            no_delay: true,
            keep_alive: true,
            send_buffer: None,
            receive_buffer: None,
            backlog: 1024,
        }
    }
}

/// A port that is listened on, until it is told to stop.
pub(crate) struct Listening {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// Held by every connection; all of them together mean that none is left.
    connections: Arc<Semaphore>,
    connections_max: u32,
}

impl Listening {
    /// Listens on the first address of a host that can be. `serve` gets each connection and the sign
    /// to stop; a connection counts as served until its future ends.
    pub fn start<F: Future<Output = ()> + Send + 'static>(
        workers: &Workers,
        (host, port): (&str, u16),
        options: &SocketOptions,
        connections_max: u32,
        serve: impl Fn(TcpStream, watch::Receiver<bool>) -> F + Clone + Send + 'static,
    ) -> io::Result<Listening> {
        let accepting = Accepting {
            listener: bind(host, port, options)?,
            options: options.clone(),
            handles: workers.handles().to_vec(),
            connections: Arc::new(Semaphore::new(connections_max as usize)),
        };
        let connections = Arc::clone(&accepting.connections);
        let (stop, stopped) = watch::channel(false);
        let mut until = stopped.clone();
        let task = workers.next().spawn(async move {
            tokio::select! {
                () = accepting.run(serve, stopped) => {}
                _ = until.wait_for(|is_stopped| *is_stopped) => {}
            }
        });
        Ok(Listening {
            stop,
            task,
            connections,
            connections_max,
        })
    }

    /// Accepts no more, and gives the connections the sign to stop.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Has every connection ended?
    pub fn is_drained(&self) -> bool {
        self.connections.available_permits() == self.connections_max as usize
    }

    /// Stops, and waits until the port is free and the connections have ended; false where some have
    /// not after `grace`.
    pub async fn ended(self, grace: Duration) -> bool {
        self.stop();
        // It ends by the stop; a panic of it has left nothing open either.
        self.task.await.ok();
        let all = self.connections.acquire_many(self.connections_max);
        tokio::time::timeout(grace, all).await.is_ok()
    }
}

struct Accepting {
    listener: std::net::TcpListener,
    options: SocketOptions,
    handles: Vec<tokio::runtime::Handle>,
    connections: Arc<Semaphore>,
}

impl Accepting {
    async fn run<F: Future<Output = ()> + Send + 'static>(
        self,
        serve: impl Fn(TcpStream, watch::Receiver<bool>) -> F + Clone + Send + 'static,
        stopped: watch::Receiver<bool>,
    ) {
        let listener = match TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(cause = %error, "the listener cannot be used");
                return;
            }
        };
        let mut failures = Failures::default();
        for turn in 0.. {
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    failures.say(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Back to the system, so that the worker that serves it also waits for it.
            let Ok(stream) = stream.into_std() else {
                continue;
            };
            let (serve, stopped, options) = (serve.clone(), stopped.clone(), self.options.clone());
            self.handles[turn % self.handles.len()].spawn(async move {
                match prepare(stream, &options) {
                    Ok(stream) => serve(stream, stopped).await,
                    Err(error) => tracing::debug!(cause = %error, "a connection was gone at once"),
                }
                drop(permit);
            });
        }
    }
}

/// Connections that could not be accepted, said once a second.
#[derive(Default)]
struct Failures {
    count: u64,
    said: Option<Instant>,
}

impl Failures {
    fn say(&mut self, cause: &io::Error) {
        self.count += 1;
        if self.said.is_none_or(|at| at.elapsed() >= WARNING_PAUSE) {
            tracing::warn!(
                times = self.count,
                %cause,
                "connections were not accepted; they are tried again"
            );
            self.count = 0;
            self.said = Some(Instant::now());
        }
    }
}

fn prepare(stream: std::net::TcpStream, options: &SocketOptions) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(options.no_delay)?;
    if options.keep_alive {
        // A client whose machine is gone must not hold its place for hours.
        SockRef::from(&stream).set_tcp_keepalive(&signs_of_life())?;
    }
    Ok(stream)
}

fn bind(host: &str, port: u16, options: &SocketOptions) -> io::Result<std::net::TcpListener> {
    let mut last = io::Error::other(format!("host '{host}' has no address"));
    for address in (host, port).to_socket_addrs()? {
        match bind_address(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_address(address: SocketAddr, options: &SocketOptions) -> io::Result<std::net::TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
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
