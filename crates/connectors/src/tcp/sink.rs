//! The `tcp` sink: frames in the order of events, written by a worker as fast as the peer takes them.
//!
//! Messages wait in a bounded queue; those that were not written whole when the connection broke
//! are written first on the next one. A sink that closes signals it, and waits for the peer to
//! close in turn: our source does so when it has read everything, so that what the next run of the
//! app sends over another connection arrives after it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::frame::{self, FRAME_BYTES_MAX};
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::ids::Ids;
use connect::message::{Message, Sent, Undelivered};
use connect::net::{Network, is_again_too_soon};
use connect::option::Dynamic;
use connect::option::Settings;
use connect::url::split_port;

/// Bytes of messages that wait to be written; a longer one goes in alone.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a sink that closes waits for its peer to have read everything.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// A silent peer is asked for a sign of life, and is lost when three of them fail.
const QUIET: Duration = Duration::from_secs(2);
const PROBE: Duration = Duration::from_secs(1);

pub(super) struct TcpSink {
    name: String,
    network: Arc<Network>,
    host: String,
    port: u16,
    no_delay: bool,
    keep_alive: bool,
    is_sync: Dynamic,
    line: Arc<Line>,
    connected: Option<Instant>,
}

/// What the sink and its writer share.
struct Line {
    name: String,
    session: String,
    context: String,
    state: Mutex<State>,
    changed: Condvar,
    filled: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Sent>,
    bytes: usize,
    /// Taken by the writer and not written yet.
    writing: usize,
    is_connected: bool,
    is_closing: bool,
    /// Why the last connection ended.
    cause: String,
}

impl TcpSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<TcpSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::tcp::CONNECTORS);
        let url = settings.text_or_default("url");
        let (host, port, context) = parse(url).ok_or_else(|| {
            settings.refused(format!(
                "option 'url' is '{url}': write tcp://host:port/context"
            ))
        })?;
        Ok(TcpSink {
            name: format!("'tcp://{host}:{port}'"),
            network: setup.environment.network(),
            host,
            port,
            no_delay: settings.flag("tcp.no.delay"),
            keep_alive: settings.flag("keep.alive"),
            is_sync: Dynamic::new(setup, settings, "sync"),
            line: Arc::new(Line {
                name: format!("{}/{}", setup.environment.app, setup.schema.name),
                session: Ids::default().next(),
                context,
                state: Mutex::default(),
                changed: Condvar::new(),
                filled: Notify::new(),
            }),
            connected: None,
        })
    }

    fn unavailable(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::unavailable(self.name.clone(), cause)
    }
}

/// Host, port and context of `tcp://host:port/context`.
fn parse(url: &str) -> Option<(String, u16, String)> {
    let rest = url.trim().strip_prefix("tcp://")?;
    let (authority, context) = rest.split_once('/')?;
    let (host, port) = split_port(authority)?;
    let is_whole = !host.is_empty() && !context.is_empty();
    is_whole.then(|| (host.to_owned(), port.unwrap_or(9892), context.to_owned()))
}

impl Sink for TcpSink {
    fn connect(&mut self) -> Result<(), Error> {
        if self.line.lock().is_connected {
            return Ok(());
        }
        if is_again_too_soon(self.connected) {
            return Err(self.unavailable("the connection was lost again at once"));
        }
        let workers = match self.network.workers() {
            Ok(workers) => workers,
            Err(error) => return Err(self.unavailable(error)),
        };
        let (host, port) = (self.host.clone(), self.port);
        let (no_delay, keep_alive) = (self.no_delay, self.keep_alive);
        let line = Arc::clone(&self.line);
        let connected = workers.wait_for(async move {
            let stream = connect(&host, port, no_delay, keep_alive).await?;
            line.lock().is_connected = true;
            tokio::spawn(async move { line.serve(stream).await });
            Ok(())
        });
        connected
            .and_then(|connected| connected)
            .map_err(|error| self.unavailable(error))?;
        self.connected = Some(Instant::now());
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let sent = match message.payload {
            Payload::Text(_) | Payload::Bytes(_) => Sent::new(message),
            _ => {
                return Err(Error::failed(
                    format!("sending to {}", self.name),
                    "the payload is neither text nor bytes: use the mapper 'binary'",
                ));
            }
        };
        let len = sent.payload.len();
        if len + self.line.context.len() + 64 > FRAME_BYTES_MAX {
            let cause = format!("the payload has {len} bytes: send smaller chunks");
            return Err(Error::failed(format!("sending to {}", self.name), cause));
        }
        let mut state = self.line.lock();
        while state.is_connected && state.bytes > 0 && state.bytes + len > WAITING_BYTES_MAX {
            state = self.line.wait(state);
        }
        if !state.is_connected {
            return Err(self.unavailable(state.cause.clone()));
        }
        state.bytes += len;
        state.waiting.push_back(sent);
        self.line.filled.notify_one();
        if self.is_sync.of(message).trim().eq_ignore_ascii_case("true") {
            // A message that is left when the connection breaks stays in the queue.
            while state.is_connected && state.is_busy() {
                state = self.line.wait(state);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let mut state = self.line.lock();
        while state.is_connected && state.is_busy() {
            state = self.line.wait(state);
        }
        if state.is_busy() {
            return Err(self.unavailable(state.cause.clone()));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let flushed = self.flush();
        let mut state = self.line.lock();
        state.is_closing = true;
        self.line.filled.notify_one();
        while state.is_connected {
            state = self.line.wait(state);
        }
        state.is_closing = false;
        flushed
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        let mut state = self.line.lock();
        if state.is_connected {
            return Vec::new();
        }
        state.bytes = 0;
        let cause = state.cause.clone();
        let left = std::mem::take(&mut state.waiting);
        left.into_iter()
            .map(|message| Undelivered {
                message,
                error: self.unavailable(cause.clone()),
            })
            .collect()
    }
}

async fn connect(host: &str, port: u16, no_delay: bool, keep_alive: bool) -> io::Result<TcpStream> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port)));
    let stream = connecting.await.map_err(|_| {
        let waited = format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, waited)
    })??;
    stream.set_nodelay(no_delay)?;
    if keep_alive {
        let liveness = socket2::TcpKeepalive::new()
            .with_time(QUIET)
            .with_interval(PROBE)
            .with_retries(3);
        socket2::SockRef::from(&stream).set_tcp_keepalive(&liveness)?;
    }
    Ok(stream)
}

impl State {
    fn is_busy(&self) -> bool {
        self.writing > 0 || !self.waiting.is_empty()
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes until the connection ends or the sink is closed.
    async fn serve(&self, stream: TcpStream) {
        let (mut read, mut write) = stream.into_split();
        let ended = self.write_all(&mut read, &mut write).await;
        // What was written is on its way; the peer reads it up to this end.
        let shut = match write.shutdown().await {
            Ok(()) if ended.is_ok() => has_read_all(&mut read).await,
            shut => shut,
        };
        let mut state = self.lock();
        state.is_connected = false;
        if let Err(error) = ended {
            state.cause = error.to_string();
            tracing::error!(
                sink = self.name,
                cause = state.cause,
                waiting = state.waiting.len(),
                "sink lost its connection; reconnecting"
            );
        } else if let Err(error) = shut {
            tracing::warn!(
                sink = self.name,
                cause = %error,
                "the server may not have received the last rows that were written"
            );
        }
        drop(state);
        self.changed.notify_all();
    }

    async fn write_all(
        &self,
        read: &mut OwnedReadHalf,
        write: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let flying = self.take(&mut buffer);
            if flying.is_empty() {
                if self.lock().is_closing {
                    return Ok(());
                }
                tokio::select! {
                    () = self.filled.notified() => continue,
                    end = peer_ends(read) => return Err(end),
                }
            }
            let mut written = 0;
            let result = tokio::select! {
                result = write_counting(write, &buffer, &mut written) => result,
                end = peer_ends(read) => Err(end),
            };
            self.written(flying, written);
            result?;
        }
    }

    /// Takes messages off the queue as frames, each with the byte behind its frame.
    fn take(&self, buffer: &mut Vec<u8>) -> Vec<(usize, Sent)> {
        buffer.clear();
        let mut flying = Vec::new();
        let mut state = self.lock();
        while buffer.len() < WRITE_BYTES
            && let Some(sent) = state.waiting.pop_front()
        {
            frame::write(buffer, &self.session, &self.context, &sent.payload);
            flying.push((buffer.len(), sent));
        }
        state.writing = flying.len();
        flying
    }

    /// Frames that were not written whole go back to the front of the queue.
    fn written(&self, flying: Vec<(usize, Sent)>, written: usize) {
        let mut state = self.lock();
        state.writing = 0;
        for (end, sent) in flying.into_iter().rev() {
            if end <= written {
                state.bytes -= sent.payload.len();
            } else {
                state.waiting.push_front(sent);
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Returns when the peer has closed its half or cannot be reached any more.
async fn peer_ends(read: &mut OwnedReadHalf) -> io::Error {
    match end_of(read).await {
        Ok(()) => io::Error::other("the other side has closed the connection"),
        Err(error) => error,
    }
}

/// Once it was told that nothing follows: waits until the peer, who reads up to there, has ended as well.
async fn has_read_all(read: &mut OwnedReadHalf) -> io::Result<()> {
    let ended = tokio::time::timeout(CLOSE_GRACE, end_of(read)).await;
    ended.unwrap_or_else(|_| {
        let waited = format!("it has not closed within {} s", CLOSE_GRACE.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, waited))
    })
}

async fn end_of(read: &mut OwnedReadHalf) -> io::Result<()> {
    let mut ignored = [0; 256];
    // The protocol has no answers.
    while read.read(&mut ignored).await? > 0 {}
    Ok(())
}

async fn write_counting(
    write: &mut OwnedWriteHalf,
    bytes: &[u8],
    written: &mut usize,
) -> io::Result<()> {
    while *written < bytes.len() {
        match write.write(&bytes[*written..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => *written += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_as_the_options_say() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (no_delay, keep_alive) in [(true, false), (false, true)] {
            let connecting = connect("127.0.0.1", port, no_delay, keep_alive);
            let stream = runtime.block_on(connecting).unwrap();
            assert_eq!(stream.nodelay().unwrap(), no_delay);
            let socket = socket2::SockRef::from(&stream);
            assert_eq!(socket.keepalive().unwrap(), keep_alive);
        }
    }

    #[test]
    fn a_sink_that_closes_waits_until_its_peer_has_read_everything() {
        use std::io::Read as _;
        use std::sync::atomic::{AtomicBool, Ordering};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let has_read = AtomicBool::new(false);
        let line = Line {
            name: "A/S".to_owned(),
            session: "s".to_owned(),
            context: "c".to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
            filled: Notify::new(),
        };
        let message = Message::of(Payload::Text("row"));
        line.lock().waiting.push_back(Sent::new(&message));
        line.lock().bytes = 3;
        line.lock().is_closing = true;
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                assert!(bytes.ends_with(b"row"));
                has_read.store(true, Ordering::SeqCst);
            });
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let stream = TcpStream::connect(address).await.unwrap();
                line.serve(stream).await;
            });
            assert!(has_read.load(Ordering::SeqCst));
        });
        assert!(!line.lock().is_busy());
    }

    #[test]
    fn urls_name_host_port_and_context() {
        let found = |url| parse(url).map(|(h, p, c)| format!("{h} {p} {c}"));
        assert_eq!(found("tcp://h:1/a/b").as_deref(), Some("h 1 a/b"));
        assert_eq!(found("tcp://h/a").as_deref(), Some("h 9892 a"));
        assert_eq!(found("tcp://[::1]:9/a").as_deref(), Some("::1 9 a"));
        for bad in ["", "h:1/a", "tcp://h:1", "tcp://h:1/", "tcp://h:x/a"] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }
}
