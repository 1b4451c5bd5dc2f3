//! Connections to where requests go, kept open between requests.
//!
//! A pool belongs to one sink. Promises: a request goes by itself at most once to a peer that may have
//! seen it; one that met a connection closed before it was written gets another connection; whatever
//! takes longer than the limits is given up as unreachable. Never: redirects, cookies, HTTP/2, and
//! never a connection that another thread serves: request and answer would each wake that thread.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::egress_policy::{EgressDenied, EgressPolicy};
use crate::net::{ClientTls, signs_of_life};
use crate::url::Url;

/// Longest answer of a proxy to `CONNECT`, and of a token server.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The payload of a request.
pub struct RequestBody {
    bytes: Option<Bytes>,
    /// Sent with its length and not in chunks.
    has_length: bool,
}

impl RequestBody {
    pub fn new(bytes: Bytes, has_length: bool) -> RequestBody {
        RequestBody {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            has_length,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.bytes {
            None => SizeHint::with_exact(0),
            Some(bytes) if self.has_length => SizeHint::with_exact(bytes.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

/// How connections are made and how long they are kept.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub connect_timeout: Option<Duration>,
    /// Longest silence: from a written request to its answer, and within the answer.
    pub idle_timeout: Option<Duration>,
    pub no_delay: bool,
    pub keep_alive: bool,
    pub send_buffer: Option<usize>,
    pub receive_buffer: Option<usize>,
    pub idle_max: usize,
    /// Idle time after which a connection is closed.
    pub evict_after: Option<Duration>,
    pub proxy: Option<Proxy>,
    pub tls: Option<ClientTls>,
    /// Where it may connect to; `None`: everywhere.
    pub egress_policy: Option<EgressPolicy>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Some(Duration::from_secs(15)),
            idle_timeout: Some(Duration::from_secs(6)),
            no_delay: true,
            keep_alive: true,
            send_buffer: None,
            receive_buffer: None,
            idle_max: 100,
            evict_after: Some(Duration::from_secs(300)),
            proxy: None,
            tls: None,
            egress_policy: None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<String>,
}

/// How often connections that the other side has closed are sorted out.
const SWEEP: Duration = Duration::from_secs(1);

/// The connections of one sink.
pub struct Client {
    options: ClientOptions,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    idle: HashMap<Destination, Vec<Idle>>,
    /// All of them, closed ones included.
    count: usize,
    swept: Option<Instant>,
}

/// By TLS or not, host and port.
type Destination = (bool, String, u16);

struct Idle {
    sender: SendRequest<RequestBody>,
    since: Instant,
    /// The worker that serves the connection.
    thread: ThreadId,
}

impl Pool {
    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.idle.retain(|_, list| {
            list.retain(|one| !one.sender.is_closed());
            !list.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }
}

impl Client {
    pub fn new(options: ClientOptions) -> Client {
        Client {
            options,
            pool: Mutex::default(),
        }
    }

    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for the head of its answer. `make` is called again where a
    /// connection turned out to be closed before anything was written.
    pub async fn send(
        &self,
        url: &Url,
        make: impl Fn() -> Request<RequestBody>,
    ) -> io::Result<(Response<Incoming>, Used)> {
        while let Some(mut idle) = self.take_idle(url) {
            if idle.sender.ready().await.is_err() {
                continue;
            }
            match self.exchange(&mut idle.sender, make()).await {
                Err(Failed::BeforeWritten) => {}
                Err(Failed::Other(error)) => return Err(error),
                Ok(response) => return Ok((response, Used::new(url, idle.sender))),
            }
        }
        let mut sender = self.connect(url).await?;
        match self.exchange(&mut sender, make()).await {
            Err(Failed::BeforeWritten) => {
                Err(io::Error::other("the connection was closed at once"))
            }
            Err(Failed::Other(error)) => Err(error),
            Ok(response) => Ok((response, Used::new(url, sender))),
        }
    }

    async fn exchange(
        &self,
        sender: &mut SendRequest<RequestBody>,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Failed> {
        let answer = within(self.options.idle_timeout, sender.send_request(request)).await;
        match answer.map_err(Failed::Other)? {
            Ok(response) => Ok(response),
            Err(error) if error.is_canceled() => Err(Failed::BeforeWritten),
            Err(error) => Err(Failed::Other(broken(&error))),
        }
    }

    fn take_idle(&self, url: &Url) -> Option<Idle> {
        let here = thread::current().id();
        let mut pool = self.lock();
        loop {
            let list = pool.idle.get_mut(&destination(url))?;
            // The one used last is the least likely to have been closed by the other side.
            let at = list.iter().rposition(|one| one.thread == here)?;
            let found = list.remove(at);
            pool.count -= 1;
            let is_old = self
                .options
                .evict_after
                .is_some_and(|max| found.since.elapsed() > max);
            if !found.sender.is_closed() && !is_old {
                return Some(found);
            }
        }
    }

    /// The connection may serve again, on the thread that has read its answer.
    pub fn give_back(&self, used: Used) {
        if used.sender.is_closed() {
            return;
        }
        let now = Instant::now();
        let mut pool = self.lock();
        let is_due = |swept: Instant| now.duration_since(swept) >= SWEEP;
        if pool.count >= self.options.idle_max || pool.swept.is_none_or(is_due) {
            pool.sweep(now);
        }
        if pool.count < self.options.idle_max {
            pool.count += 1;
            pool.idle.entry(used.destination).or_default().push(Idle {
                sender: used.sender,
                since: now,
                thread: thread::current().id(),
            });
        }
    }

    /// Closes what is idle.
    pub fn close(&self) {
        *self.lock() = Pool::default();
    }

    async fn connect(&self, url: &Url) -> io::Result<SendRequest<RequestBody>> {
        within(self.options.connect_timeout, self.connect_now(url)).await?
    }

    /// Opens a connection and closes it: is anybody there?
    pub async fn probe(&self, url: &Url) -> io::Result<()> {
        let (host, port) = self.first_hop(url);
        let stream = within(
            self.options.connect_timeout,
            TcpStream::connect((host, port)),
        );
        stream.await?.map(drop)
    }

    fn first_hop<'a>(&'a self, url: &'a Url) -> (&'a str, u16) {
        match &self.options.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&url.host, url.port),
        }
    }

    async fn connect_now(&self, url: &Url) -> io::Result<SendRequest<RequestBody>> {
        let stream = self.dial(url).await?;
        stream.set_nodelay(self.options.no_delay)?;
        let socket = socket2::SockRef::from(&stream);
        if self.options.keep_alive {
            socket.set_tcp_keepalive(&signs_of_life())?;
        }
        if let Some(bytes) = self.options.send_buffer {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.options.receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        if !url.is_tls {
            return handshake(stream).await;
        }
        let Some(tls) = &self.options.tls else {
            return Err(io::Error::other("TLS is not set up for this sink"));
        };
        let stream = match &self.options.proxy {
            Some(proxy) => tunnel(stream, proxy, url).await?,
            None => stream,
        };
        handshake(tls.connect(&url.host, stream).await?).await
    }

    async fn dial(&self, url: &Url) -> io::Result<TcpStream> {
        let Some(egress_policy) = &self.options.egress_policy else {
            return TcpStream::connect(self.first_hop(url)).await;
        };
        let found = egress_policy.addresses(&url.host, url.port).await;
        match &self.options.proxy {
            None => TcpStream::connect(found?.as_slice()).await,
            // It may know names that are unknown here; where those lead is for it to judge.
            Some(proxy) => match found {
                Err(error) if EgressDenied::is_cause(&error) => Err(error),
                _ => TcpStream::connect((proxy.host.as_str(), proxy.port)).await,
            },
        }
    }

    /// Is this URL one that no connection may be made to, as far as that is known now?
    pub async fn is_egress_denied(&self, url: &Url) -> bool {
        let Some(egress_policy) = &self.options.egress_policy else {
            return false;
        };
        let asked = egress_policy.addresses(&url.host, url.port);
        let found = within(self.options.connect_timeout, asked).await;
        matches!(found, Ok(Err(error)) if EgressDenied::is_cause(&error))
    }

    /// What stands in the request line: the whole URL where a proxy is asked.
    pub fn request_target(&self, url: &Url) -> String {
        match &self.options.proxy {
            Some(_) if !url.is_tls => {
                format!("{}://{}{}", url.scheme(), url.authority(), url.target())
            }
            _ => url.target(),
        }
    }
}

enum Failed {
    BeforeWritten,
    Other(io::Error),
}

/// A connection whose answer is being read.
pub struct Used {
    destination: Destination,
    sender: SendRequest<RequestBody>,
}

impl Used {
    fn new(url: &Url, sender: SendRequest<RequestBody>) -> Used {
        Used {
            destination: destination(url),
            sender,
        }
    }
}

fn destination(url: &Url) -> Destination {
    (url.is_tls, url.host.clone(), url.port)
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> io::Result<SendRequest<RequestBody>> {
    let (sender, connection) = http1::Builder::new()
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(cause = %error, "connection failed");
        }
    });
    Ok(sender)
}

/// `CONNECT host:port`; behind the answer the connection belongs to the two ends.
async fn tunnel(mut stream: TcpStream, proxy: &Proxy, url: &Url) -> io::Result<TcpStream> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let authority = url.authority();
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = &proxy.authorization {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("the answer of the proxy is too long"));
        }
        // Not a byte further than the head: what follows belongs to the other end.
        answer.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&answer);
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(stream),
        _ => Err(io::Error::other(format!("the proxy answered '{line}'"))),
    }
}

/// The answer as a whole.
pub async fn read_body(
    body: Incoming,
    timeout: Option<Duration>,
    bytes_max: usize,
) -> io::Result<Bytes> {
    use http_body_util::BodyExt as _;
    let mut body = body;
    let mut whole = Vec::new();
    while let Some(frame) = within(timeout, body.frame()).await? {
        if let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() {
            if whole.len() + data.len() > bytes_max {
                return Err(io::Error::other(format!(
                    "the answer has more than {bytes_max} bytes"
                )));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.into())
}

pub async fn within<T>(timeout: Option<Duration>, work: impl Future<Output = T>) -> io::Result<T> {
    match timeout {
        None => Ok(work.await),
        Some(timeout) => tokio::time::timeout(timeout, work).await.map_err(|_| {
            let waited = format!("no answer within {} ms", timeout.as_millis());
            io::Error::new(io::ErrorKind::TimedOut, waited)
        }),
    }
}

/// A fault of the connection with its causes in one line.
pub fn broken(error: &hyper::Error) -> io::Error {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    io::Error::other(text)
}

/// Does a request of this method carry the payload? (`HttpSink` sends none with GET.)
pub fn has_body(method: &Method) -> bool {
    *method != Method::GET
}
