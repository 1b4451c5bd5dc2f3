//! Accepting connections on a port.
//!
//! Connections are spread over the workers in turn and stay where they are. Promises: no more of
//! them than the limit are served at once, the others wait to be accepted; on request, those that
//! still wait at a stop are served as well; when [`Listening::ended`] returns, the port is free
//! again.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::{Workers, signs_of_life};
use crate::retry::Burst;

/// Pauses after a connection that could not be accepted, for want of open files as a rule: the first one,
/// and the longest. A client waits no longer than that once there is a file for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Accepts the connections of a listener, and rests while none can be accepted: a descriptor comes free
/// without a sign of it, and looking for one costs as much as serving somebody.
#[derive(Default)]
pub struct Accepts {
    failures: Burst,
    /// That of the next failure; none after a success.
    pause: Duration,
}

impl Accepts {
    /// The next connection. `say` says that none could be accepted so many times, at most once a second.
    pub async fn next(
        &mut self,
        listener: &TcpListener,
        say: impl Fn(u64, &io::Error),
    ) -> (TcpStream, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok(accepted) => {
                    self.pause = Duration::ZERO;
                    return accepted;
                }
                Err(error) => {
                    if let Some(times) = self.failures.note() {
                        say(times, &error);
                    }
                    self.pause = (self.pause * 2).clamp(ACCEPT_PAUSE, ACCEPT_PAUSE_MAX);
                    tokio::time::sleep(self.pause).await;
                }
            }
        }
    }
}

/// Settings of a listening socket and of its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketOptions {
    pub no_delay: bool,
    pub keep_alive: bool,
    pub send_buffer: Option<usize>,
    pub receive_buffer: Option<usize>,
    /// Connections that the system holds until they are accepted.
    pub backlog: i32,
    /// Connections that the system holds when the listener stops are served as well, one after the other
    /// and after those before them. Without it they are reset: right where clients get answers and try
    /// again, a loss where they take as sent what they have written.
    pub drains_backlog: bool,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            no_delay: true,
            keep_alive: true,
            send_buffer: None,
            receive_buffer: None,
            backlog: 1024,
            drains_backlog: false,
        }
    }
}

/// Names a listener that everybody can reach and that asks nobody who he is; `confine` says what to do.
pub fn tell_if_open(source: &str, (host, port): (&str, u16), confine: &str) {
    let is_any = |host: &str| (host.parse::<IpAddr>()).is_ok_and(|ip| ip.is_unspecified());
    if is_any(host.trim_start_matches('[').trim_end_matches(']')) {
        tracing::warn!(
            source,
            address = format!("{host}:{port}"),
            confine,
            "listening on all addresses without authentication"
        );
    }
}

/// A port that is listened on, until it is told to stop.
pub struct Listening {
    address: SocketAddr,
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
        serve: impl Fn(TcpStream, watch::Receiver<bool>) -> F + Clone + Send + Sync + 'static,
    ) -> io::Result<Listening> {
        let accepting = Accepting {
            listener: bind(host, port, options)?,
            options: Arc::new(options.clone()),
            handles: workers.handles().to_vec(),
            connections: Arc::new(Semaphore::new(connections_max as usize)),
            connections_max,
        };
        let connections = Arc::clone(&accepting.connections);
        let address = accepting.listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let task = workers.next().spawn(accepting.run(serve, stopped));
        Ok(Listening {
            address,
            stop,
            task,
            connections,
            connections_max,
        })
    }

    /// Where it listens; with a port also where none was named.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more, and gives the connections the sign to stop.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Once it was told to stop: has every connection ended?
    pub fn is_drained(&self) -> bool {
        self.task.is_finished()
            && self.connections.available_permits() == self.connections_max as usize
    }

    /// Stops, and waits until the port is free and the connections have ended; false where some have
    /// not after `grace`.
    pub async fn ended(mut self, grace: Duration) -> bool {
        self.stop();
        // It ends by the stop, unless it drains the backlog; a panic of it has left nothing open either.
        if tokio::time::timeout(grace, &mut self.task).await.is_err() {
            self.task.abort();
            self.task.await.ok();
        }
        let all = self.connections.acquire_many(self.connections_max);
        tokio::time::timeout(grace, all).await.is_ok()
    }
}

struct Accepting {
    listener: std::net::TcpListener,
    options: Arc<SocketOptions>,
    handles: Vec<tokio::runtime::Handle>,
    connections: Arc<Semaphore>,
    connections_max: u32,
}

impl Accepting {
    async fn run<F: Future<Output = ()> + Send + 'static>(
        self,
        serve: impl Fn(TcpStream, watch::Receiver<bool>) -> F + Clone + Send + Sync + 'static,
        stopped: watch::Receiver<bool>,
    ) {
        let listener = match self.listener.try_clone().and_then(TcpListener::from_std) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(cause = %error, "cannot accept connections on the listener");
                return;
            }
        };
        let mut until = stopped.clone();
        tokio::select! {
            biased;
            _ = until.wait_for(|is_stopped| *is_stopped) => {}
            () = self.accept_all(&listener, &serve, &stopped) => {}
        }
        if self.options.drains_backlog {
            self.drain_backlog(&serve, &stopped).await;
        }
    }

    async fn accept_all<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: &TcpListener,
        serve: &(impl Fn(TcpStream, watch::Receiver<bool>) -> F + Clone + Send + Sync + 'static),
        stopped: &watch::Receiver<bool>,
    ) {
        let mut accepts = Accepts::default();
        for turn in 0.. {
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else {
                return;
            };
            let say = |times: u64, cause: &io::Error| {
                tracing::warn!(times, %cause, "cannot accept connections; retrying");
            };
            let (stream, _) = accepts.next(listener, say).await;
            // Back to the system, so that the worker that serves it also waits for it.
            let Ok(stream) = stream.into_std() else {
                continue;
            };
            let (serve, stopped) = (serve.clone(), stopped.clone());
            let options = Arc::clone(&self.options);
            self.handles[turn % self.handles.len()].spawn(async move {
                match prepare(stream, &options) {
                    Ok(stream) => serve(stream, stopped).await,
                    Err(error) => tracing::debug!(cause = %error, "connection closed before it \
                                                                   could be served"),
                }
                drop(permit);
            });
        }
    }

    /// What a client sends over one connection after the other keeps its order: each is served when those
    /// before it have ended.
    async fn drain_backlog<F: Future<Output = ()> + Send + 'static>(
        &self,
        serve: &(impl Fn(TcpStream, watch::Receiver<bool>) -> F + Sync),
        stopped: &watch::Receiver<bool>,
    ) {
        let Ok(_all) = self.connections.acquire_many(self.connections_max).await else {
            return;
        };
        // The system is asked, not the runtime, which may not know yet of who has just come.
        while let Ok((stream, _)) = self.listener.accept() {
            let nonblocking = stream.set_nonblocking(true);
            match nonblocking.and_then(|()| prepare(stream, &self.options)) {
                Ok(stream) => serve(stream, stopped.clone()).await,
                Err(error) => tracing::debug!(cause = %error, "connection closed before it could \
                                                               be served"),
            }
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Mutex;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// What clients sent over one connection after the other; only the first was accepted at the stop.
    fn read_until_the_end(drains_backlog: bool) -> Vec<String> {
        let workers = Workers::start().unwrap();
        let texts: Arc<Mutex<Vec<String>>> = Arc::default();
        let (first, accepted) = std::sync::mpsc::sync_channel(3);
        let taken = Arc::clone(&texts);
        let serve = move |mut stream: TcpStream, _stopped| {
            let (taken, first) = (Arc::clone(&taken), first.clone());
            async move {
                first.send(()).ok();
                let mut text = String::new();
                stream.read_to_string(&mut text).await.ok();
                taken.lock().unwrap().push(text);
            }
        };
        let options = SocketOptions {
            drains_backlog,
            ..SocketOptions::default()
        };
        let socket = bind("127.0.0.1", 0, &options).unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let listening = Listening::start(&workers, ("127.0.0.1", port), &options, 1, serve);
        let listening = listening.unwrap();
        let connect = || std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut clients: Vec<_> = (0..3).map(|_| connect()).collect();
        accepted.recv().unwrap();
        for (n, client) in clients.iter_mut().enumerate().rev() {
            write!(client, "client {n}").unwrap();
        }
        listening.stop();
        assert!(!listening.is_drained(), "the first is still open");
        drop(clients);
        assert!(workers.wait_for(listening.ended(Duration::MAX)).unwrap());
        let texts = texts.lock().unwrap();
        texts.clone()
    }

    #[test]
    fn what_waits_to_be_accepted_at_a_stop_is_read_in_its_order_where_it_is_asked_for() {
        let all = ["client 0", "client 1", "client 2"];
        assert_eq!(read_until_the_end(true), all);
        assert_eq!(read_until_the_end(false), all[..1]);
    }
}
