//! Connections to where requests go, kept open between requests.
//!
//! A pool belongs to one sink. Promises: a request goes by itself at most once to a peer that may have
//! seen it; one that met a connection closed before it was written gets another connection; whatever
//! takes longer than the limits is given up as unreachable; an idle connection that the other side has
//! closed, or one more than may be idle, is closed within a second: a sink that has all its requests
//! answered at once sends the next ones at once, and would open again what it had just closed. Never: redirects, cookies, HTTP/2, and never a connection that
//! another thread serves: request and answer would each wake that thread.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};
use tokio::net::TcpStream;

use super::connection::{AnswerBody, Connection, Failed, OutgoingRequest};
use super::deadline::{Deadline, late};
use super::egress_policy::{EgressDenied, EgressPolicy};
use super::pipeline::{Pipeline, WholeAnswer};
use crate::net::{ClientTls, Line, signs_of_life};
use crate::url::Url;

/// Longest answer of a proxy to `CONNECT`, and of a token server.
const ANSWER_BYTES_MAX: usize = 1 << 20;

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

/// So many times `idle_max` connections may be idle until they are looked at.
const EXCESS_MAX: usize = 2;

/// How often idle connections are looked at: the other side may have closed them, and they grow old.
const SWEEP: Duration = Duration::from_secs(1);

/// The connections of one sink.
pub struct Client {
    options: ClientOptions,
    pool: Arc<Mutex<Pool>>,
}

#[derive(Default)]
struct Pool {
    idle: HashMap<Destination, Vec<Idle>>,
    /// All of them.
    count: usize,
    /// [`sweep`] runs.
    is_swept: bool,
}

/// By TLS or not, host and port.
type Destination = (bool, String, u16);

struct Idle {
    connection: Connection,
    since: Instant,
    /// The worker that serves the connection.
    thread: ThreadId,
}

/// The answer to a request, with the connection that it comes by.
pub struct Answer {
    pub response: Response<AnswerBody>,
    destination: Destination,
}

impl Idle {
    fn is_good(&mut self, age_max: Option<Duration>) -> bool {
        age_max.is_none_or(|max| self.since.elapsed() <= max) && !self.connection.is_closed()
    }
}

impl Pool {
    /// Closes what is of no more use, and of what is idle the oldest but for `idle_max`.
    fn sweep(&mut self, age_max: Option<Duration>, idle_max: usize) {
        self.retain(|one| one.is_good(age_max));
        let excess = self.count.saturating_sub(idle_max);
        if excess == 0 {
            return;
        }
        let mut ages: Vec<Instant> = self.idle.values().flatten().map(|one| one.since).collect();
        ages.sort_unstable();
        let newest = ages[excess - 1];
        // Of those that are as old as each other, as many as have to go.
        let mut equal = excess - ages.partition_point(|since| *since < newest);
        self.retain(|one| {
            let is_excess = one.since < newest || one.since == newest && equal > 0;
            equal -= usize::from(is_excess && one.since == newest);
            !is_excess
        });
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut Idle) -> bool) {
        self.idle.retain(|_, list| {
            list.retain_mut(&mut keep);
            !list.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }
}

fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes idle connections that are of no more use, as long as there are any.
async fn sweep(pool: Weak<Mutex<Pool>>, age_max: Option<Duration>, idle_max: usize) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut pool = lock(&pool);
        pool.sweep(age_max, idle_max);
        if pool.count == 0 {
            pool.is_swept = false;
            return;
        }
    }
}

impl Client {
    pub fn new(options: ClientOptions) -> Client {
        Client {
            options,
            pool: Arc::default(),
        }
    }

    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Sends a request and waits for the head of its answer; by another connection where one turned out
    /// to be closed before anything was written.
    ///
    /// # Errors
    /// No connection, no answer in its time, or none that is HTTP.
    pub async fn send(&self, url: &Url, request: &OutgoingRequest<'_>) -> io::Result<Answer> {
        self.send_by(&mut self.deadline(), url, request).await
    }

    /// As [`Client::send`], by whoever sends many.
    pub async fn send_by(
        &self,
        deadline: &mut Deadline,
        url: &Url,
        request: &OutgoingRequest<'_>,
    ) -> io::Result<Answer> {
        let destination = (url.is_tls, url.host.clone(), url.port);
        loop {
            let idle = self.take_idle(&destination);
            let is_new = idle.is_none();
            let connection = match idle {
                Some(connection) => connection,
                None => self.connect(url).await?,
            };
            let exchange = connection.exchange(request);
            match deadline.limit(exchange).await? {
                Ok(response) => {
                    return Ok(Answer {
                        response,
                        destination,
                    });
                }
                Err(Failed::BeforeWritten(_)) if !is_new => {}
                Err(Failed::BeforeWritten(error) | Failed::Other(error)) => return Err(error),
            }
        }
    }

    /// Sends requests together, by one connection. `answered` is called for the first of them, in their order,
    /// with the whole answer or why there is none; those behind were not looked at. How many were the first?
    /// At least one. An answer may have `bytes_max` bytes.
    pub async fn send_together(
        &self,
        deadline: &mut Deadline,
        url: &Url,
        requests: &[OutgoingRequest<'_>],
        bytes_max: usize,
        mut answered: impl FnMut(usize, io::Result<WholeAnswer>),
    ) -> usize {
        let destination = (url.is_tls, url.host.clone(), url.port);
        loop {
            let idle = self.take_idle(&destination);
            let is_new = idle.is_none();
            let connected = match idle {
                Some(connection) => Ok(connection),
                None => self.connect(url).await,
            };
            let connection = match connected {
                Ok(connection) => connection,
                Err(error) => {
                    fail(0..requests.len(), &error, answered);
                    return requests.len();
                }
            };
            let mut pipeline = Pipeline::new(connection, requests);
            let mut count = 0;
            let error = loop {
                let Some(request) = requests.get(count) else {
                    if let Some(connection) = pipeline.into_connection() {
                        self.keep(connection, destination);
                    }
                    return count;
                };
                let answer = deadline
                    .limit(pipeline.next(request.method, bytes_max))
                    .await;
                let answer = match answer.flatten() {
                    Ok(answer) => answer,
                    Err(error) => break error,
                };
                let (keeps_open, says_close) = (answer.keeps_open, answer.says_close);
                answered(count, Ok(answer));
                count += 1;
                if !keeps_open && (says_close || count == requests.len()) {
                    return count;
                }
                if !keeps_open {
                    let text = "the connection was closed behind an earlier answer";
                    break io::Error::new(io::ErrorKind::UnexpectedEof, text);
                }
            };
            let seen = pipeline.first_unwritten().max(count);
            if seen == 0 && !is_new {
                continue;
            }
            let failed = match seen {
                0 => requests.len(),
                seen => seen,
            };
            fail(count..failed, &error, answered);
            return failed;
        }
    }

    /// The limit for the silence of a peer.
    pub fn deadline(&self) -> Deadline {
        Deadline::new(self.options.idle_timeout)
    }

    fn take_idle(&self, destination: &Destination) -> Option<Connection> {
        let here = thread::current().id();
        let mut pool = lock(&self.pool);
        loop {
            let list = pool.idle.get_mut(destination)?;
            // The one used last is the least likely to have been closed by the other side.
            let at = list.iter().rposition(|one| one.thread == here)?;
            let mut found = list.remove(at);
            pool.count -= 1;
            if found.is_good(self.options.evict_after) {
                return Some(found.connection);
            }
        }
    }

    /// Reads what is left of an answer, at most so many bytes, each piece in its time.
    ///
    /// # Errors
    /// It is longer, takes longer, or is cut off.
    pub async fn read_body(&self, answer: Answer, bytes_max: usize) -> io::Result<Bytes> {
        let mut deadline = self.deadline();
        let whole = self.read_whole(&mut deadline, answer, bytes_max);
        Ok(whole.await?.1.into())
    }

    /// As [`Client::read_body`], by whoever sends many, and with the headers.
    pub async fn read_whole(
        &self,
        deadline: &mut Deadline,
        answer: Answer,
        bytes_max: usize,
    ) -> io::Result<(HeaderMap, Vec<u8>)> {
        let (head, mut body) = answer.response.into_parts();
        let mut whole = Vec::new();
        while !body.take_into(&mut whole, bytes_max)? {
            deadline.limit(body.read_more()).await??;
        }
        self.give_back(body, answer.destination);
        Ok((head.headers, whole))
    }

    /// The next piece of an answer; at its end the connection may serve again.
    ///
    /// # Errors
    /// It does not come in its time, or is cut off.
    pub async fn read_piece(&self, answer: &mut Answer) -> io::Result<Option<Bytes>> {
        within(
            self.options.idle_timeout,
            answer.response.body_mut().piece(),
        )
        .await?
    }

    /// The connection may serve again, on the thread that has read its answer.
    fn give_back(&self, body: AnswerBody, destination: Destination) {
        if let Some(connection) = body.into_connection() {
            self.keep(connection, destination);
        }
    }

    fn keep(&self, connection: Connection, destination: Destination) {
        let (age_max, idle_max) = (self.options.evict_after, self.options.idle_max);
        let count_max = idle_max.saturating_mul(EXCESS_MAX);
        let mut pool = lock(&self.pool);
        if pool.count >= count_max {
            pool.sweep(age_max, idle_max);
        }
        if pool.count >= count_max {
            return;
        }
        pool.count += 1;
        pool.idle.entry(destination).or_default().push(Idle {
            connection,
            since: Instant::now(),
            thread: thread::current().id(),
        });
        if !std::mem::replace(&mut pool.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.pool), age_max, idle_max));
        }
    }

    /// Closes what is idle.
    pub fn close(&self) {
        let mut pool = lock(&self.pool);
        pool.idle.clear();
        pool.count = 0;
    }

    async fn connect(&self, url: &Url) -> io::Result<Connection> {
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

    async fn connect_now(&self, url: &Url) -> io::Result<Connection> {
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
            return Ok(Connection::new(Box::new(stream)));
        }
        let Some(tls) = &self.options.tls else {
            return Err(io::Error::other("TLS is not set up for this sink"));
        };
        let stream = match &self.options.proxy {
            Some(proxy) => tunnel(stream, proxy, url).await?,
            None => stream,
        };
        let line: Box<dyn Line> = Box::new(tls.connect(&url.host, stream).await?);
        Ok(Connection::new(line))
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
    ///
    /// # Errors
    /// The URL has characters that cannot be sent.
    pub fn request_target(&self, url: &Url) -> io::Result<String> {
        let target = match &self.options.proxy {
            Some(_) if !url.is_tls => {
                format!("{}://{}{}", url.scheme(), url.authority(), url.target())
            }
            _ => url.target(),
        };
        let is_sendable = target.parse::<Uri>();
        is_sendable.map_err(io::Error::other)?;
        Ok(target)
    }
}

/// An error for each of these requests.
fn fail(
    requests: Range<usize>,
    error: &io::Error,
    mut answered: impl FnMut(usize, io::Result<WholeAnswer>),
) {
    for request in requests {
        // An error cannot be cloned.
        answered(
            request,
            Err(io::Error::new(error.kind(), error.to_string())),
        );
    }
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

pub async fn within<T>(timeout: Option<Duration>, work: impl Future<Output = T>) -> io::Result<T> {
    match timeout {
        None => Ok(work.await),
        Some(timeout) => {
            let done = tokio::time::timeout(timeout, work).await;
            done.map_err(|_| late(timeout))
        }
    }
}

/// Does a request of this method carry the payload? (`HttpSink` sends none with GET.)
pub fn has_body(method: &Method) -> bool {
    *method != Method::GET
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that nobody has closed, idle since.
    fn idle(since: Instant, kept: &mut Vec<tokio::io::DuplexStream>) -> Idle {
        let (ours, theirs) = tokio::io::duplex(16);
        kept.push(theirs);
        Idle {
            connection: Connection::new(Box::new(ours)),
            since,
            thread: thread::current().id(),
        }
    }

    #[test]
    fn of_too_many_idle_connections_the_oldest_are_closed() {
        let (mut pool, mut theirs) = (Pool::default(), Vec::new());
        let begun = Instant::now();
        for second in [3, 0, 2, 1, 1] {
            let destination = (false, format!("h{}", second % 2), 80);
            let since = begun + Duration::from_secs(second);
            let list = pool.idle.entry(destination).or_default();
            list.push(idle(since, &mut theirs));
            pool.count += 1;
        }
        let left = |pool: &mut Pool, idle_max| {
            pool.sweep(None, idle_max);
            let all = pool.idle.values().flatten();
            let mut ages: Vec<u64> = all.map(|one| (one.since - begun).as_secs()).collect();
            ages.sort_unstable();
            assert_eq!(pool.count, ages.len());
            ages
        };
        assert_eq!(left(&mut pool, 5), [0, 1, 1, 2, 3]);
        assert_eq!(left(&mut pool, 3), [1, 2, 3]);
        assert_eq!(left(&mut pool, 1), [3]);
        theirs.clear();
        assert!(left(&mut pool, 1).is_empty());
        assert!(pool.idle.is_empty());
    }
}
