//! SQL over the event store by the protocol of PostgreSQL, for `psql` and what else speaks it.
//!
//! The protocol is our own: a library that handles one message after the other does not see that a client has gone
//! while its statement runs, and believes the lengths that it is sent. What answers statements is handed in by the
//! binary, as for `POST /sql`, and shares its turns.
//!
//! Promises: statements read only; a session belongs to a user with the role `read`, by password or token; beyond
//! loopback there are users and TLS, unless the operator allows otherwise; where there is TLS nothing else is spoken.
//! Connections before their login, and sessions, are bounded; a message is at most [`message::MESSAGE_MAX`] long; a
//! statement whose client goes away or cancels it ends. Never: a password that is kept; a row that is held back for a
//! client that does not read.

mod message;
mod own;
mod session;
mod settings;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use connect::net::{Accepts, Clock, Crowd, Pace};
use hyper::body::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::access::Door;
use crate::error::Error;
use crate::http::sql::SqlRefusal;
use crate::http::{HttpOptions, beyond_loopback};
use crate::secrets::Hidden;
use crate::tls::TlsFiles;
use message::{Begin, Fault, Out, Reader, Said, Severity};
use session::Session;
pub use settings::SERVER_VERSION;

/// Connections that have not logged in yet. Another one is not accepted before one of them has, or has ended.
const BEGINNING_MAX: u32 = 64;

/// Sessions that are open at once.
const SESSIONS_MAX: usize = 100;

/// Time for a login, from the connection on.
const LOGIN_MAX: Duration = Duration::from_secs(15);

/// Time for which a client may leave an answer unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// An idle client is asked whether it is alive, and so often again.
const ALIVE_AFTER: Duration = Duration::from_secs(60);
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// Time that statements have to end at a stop.
const GRACE: Duration = Duration::from_secs(5);

/// A column of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: String,
    /// The type, by PostgreSQL's number.
    pub oid: u32,
    /// Bytes of a value; -1 where they differ.
    pub size: i16,
}

/// What a statement takes and gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Description {
    /// Types of `$1`, `$2` and so on.
    pub parameters: Vec<u32>,
    pub columns: Vec<Column>,
}

/// A value for a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    pub oid: u32,
    pub is_binary: bool,
    /// `None` is null.
    pub bytes: Option<Vec<u8>>,
}

/// Who asks, for functions such as `current_user`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    pub user: String,
    /// Names and values, as `SHOW` has them.
    pub settings: Vec<(String, String)>,
}

/// What is asked.
#[derive(Clone)]
pub struct Question {
    /// Places in it are those that a client is told.
    pub sql: String,
    pub parameters: Vec<Parameter>,
    /// The columns as they were described, where they were.
    pub columns: Option<Vec<Column>>,
    /// Whether columns are binary: none, one for all, or one for each.
    pub formats: Vec<bool>,
    pub asker: Asker,
    /// Where it is to end sooner than others.
    pub time: Option<Duration>,
    /// What texts do not show.
    pub hidden: Hidden,
}

/// A part of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The first.
    Columns(Vec<Column>),
    /// So many messages `DataRow`.
    Rows { bytes: Bytes, count: u64 },
}

/// A description that is being made. It ends when it is dropped.
pub type Describing = Pin<Box<dyn Future<Output = Result<Description, SqlRefusal>> + Send>>;

/// Answers statements.
pub trait RowsEngine: Send + Sync {
    /// `types`: of the parameters, as far as the client says them; 0 is unknown.
    fn describe(&self, sql: String, types: Vec<u32>, asker: Asker) -> Describing;

    /// Begins to answer one in the background; it ends when the answer is dropped.
    fn rows(&self, question: Question) -> Box<dyn Rows>;
}

/// An answer as it comes.
pub trait Rows: Send {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part, SqlRefusal>>>;
}

/// What sessions work with.
#[derive(Clone)]
pub struct Services {
    pub engine: Arc<dyn RowsEngine>,
    /// Statements that are answered at a time, with those of `POST /sql`.
    pub turns: Arc<Semaphore>,
    pub hidden: Hidden,
}

/// What all connections share.
struct Shared {
    services: Services,
    door: Door,
    sessions: Arc<Semaphore>,
    running: Mutex<HashMap<u32, Running>>,
}

/// A session, for who wants to end its statement.
struct Running {
    key: u32,
    cancel: Arc<Notify>,
}

/// Serves until dropped.
pub struct Postgres {
    address: SocketAddr,
    tls: Option<(TlsFiles, watch::Sender<Arc<ServerConfig>>)>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Postgres {
    /// Where it listens; with port 0 the system has chosen one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As [`crate::http::Http::reload_tls`].
    ///
    /// # Errors
    /// As there.
    pub fn reload_tls(&self) -> Result<(), Error> {
        if let Some((files, current)) = &self.tls {
            current.send_replace(files.server()?);
        }
        Ok(())
    }
}

impl Drop for Postgres {
    /// Accepts no more, and waits until what is asked is answered, [`GRACE`] at most.
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // The thread has nothing to lose that a join could save.
            thread.join().ok();
        }
    }
}

/// Refuses an address beyond loopback, as [`HttpOptions::check`].
///
/// # Errors
/// As there.
pub fn check(options: &HttpOptions) -> Result<(), Error> {
    beyond_loopback(options, "--sql-postgres", "read tables")
}

/// Listens and serves; users, TLS and the address are those of `options`.
///
/// # Errors
/// As [`check`]; [`Error::Listen`] if it cannot listen on the address.
pub fn serve(options: &HttpOptions, door: Door, services: Services) -> Result<Postgres, Error> {
    check(options)?;
    let address = options.address;
    let refused = |cause: io::Error| Error::Listen {
        address,
        message: cause.to_string(),
    };
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(refused)?;
    let (tls, encrypted) = match &options.tls {
        None => (None, None),
        Some(files) => {
            let (current, encrypted) = watch::channel(files.server()?);
            (Some((files.clone(), current)), Some(encrypted))
        }
    };
    let shared = Arc::new(Shared {
        services,
        door,
        sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
        running: Mutex::default(),
    });
    let (stop, stopped) = watch::channel(false);
    let thread = std::thread::Builder::new()
        .name("postgres".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                match TcpListener::from_std(listener) {
                    Ok(listener) => listen(listener, shared, encrypted, stopped).await,
                    Err(error) => {
                        tracing::error!(cause = %error, "cannot serve the protocol of PostgreSQL");
                    }
                }
            });
        })
        .map_err(refused)?;
    Ok(Postgres {
        address: bound,
        tls,
        stop,
        thread: Some(thread),
    })
}

async fn listen(
    listener: TcpListener,
    shared: Arc<Shared>,
    tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    stopped: watch::Receiver<bool>,
) {
    let mut until = stopped.clone();
    tokio::select! {
        biased;
        _ = until.wait_for(|is_stopped| *is_stopped) => {}
        () = accept_all(&listener, &shared, tls.as_ref(), &stopped) => {}
    }
    drop(listener);
    let all = shared.sessions.acquire_many(SESSIONS_MAX as u32);
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!(
            "closing sessions of PostgreSQL: their statements did not end during shutdown"
        );
    }
}

async fn accept_all(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    tls: Option<&watch::Receiver<Arc<ServerConfig>>>,
    stopped: &watch::Receiver<bool>,
) {
    let beginning = Arc::new(Semaphore::new(BEGINNING_MAX as usize));
    let crowd = Arc::new(Crowd::new(BEGINNING_MAX));
    let mut accepts = Accepts::default();
    // Closed never, so this loop ends with the future alone.
    while let Ok(place) = Arc::clone(&beginning).acquire_owned().await {
        let say = |times: u64, cause: &io::Error| {
            tracing::warn!(times, %cause, "cannot accept connections of PostgreSQL; they wait and are retried");
        };
        let (stream, peer) = accepts.next(listener, say).await;
        tune(&stream);
        let connection = Connection {
            shared: Arc::clone(shared),
            peer,
            tls: tls.map(|tls| TlsAcceptor::from(tls.borrow().clone())),
            crowd: Arc::clone(&crowd),
            stopped: stopped.clone(),
        };
        tokio::task::spawn(async move {
            if let Err(fault) = connection.serve(stream, place).await {
                tracing::debug!(%fault, %peer, "a connection of PostgreSQL has ended");
            }
        });
    }
}

fn tune(stream: &TcpStream) {
    stream.set_nodelay(true).ok();
    let socket = SockRef::from(stream);
    // A client that is gone, or reads nothing, must not hold its place for ever.
    socket.set_tcp_user_timeout(Some(UNREAD_MAX)).ok();
    let alive = TcpKeepalive::new()
        .with_time(ALIVE_AFTER)
        .with_interval(ALIVE_EVERY);
    socket.set_tcp_keepalive(&alive).ok();
}

/// A connection that has not become a session yet.
struct Connection {
    shared: Arc<Shared>,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    crowd: Arc<Crowd>,
    stopped: watch::Receiver<bool>,
}

/// How a session begins.
struct Opening {
    minor: u16,
    parameters: Vec<(String, String)>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, place: OwnedSemaphorePermit) -> Result<(), Fault> {
        let crowd = Arc::clone(&self.crowd);
        let waiting = crowd.enter();
        let mut clock = Clock::start(Pace {
            gap: None,
            whole: Some(LOGIN_MAX),
        });
        let mut reader = Reader::new(stream);
        // A request for encryption by Kerberos may come before one for TLS.
        for _ in 0..2 {
            match self.begin(&mut clock, &mut reader).await? {
                Begin::Cancel { process, key } => {
                    self.cancel(process, key);
                    return Ok(());
                }
                Begin::Gss => answer(&mut reader, b"N").await?,
                Begin::Tls => {
                    let Some(acceptor) = self.tls.clone() else {
                        answer(&mut reader, b"N").await?;
                        continue;
                    };
                    answer(&mut reader, b"S").await?;
                    let accepted = acceptor.accept(reader.into_inner()?);
                    let accepted = clock.wait(&crowd, accepted).await;
                    let stream =
                        accepted.map_err(|late| Fault::Protocol(format!("TLS: {late}")))??;
                    let mut reader = Reader::new(stream);
                    return match self.begin(&mut clock, &mut reader).await? {
                        Begin::Cancel { process, key } => {
                            self.cancel(process, key);
                            Ok(())
                        }
                        Begin::Session { minor, parameters } => {
                            let opening = Opening { minor, parameters };
                            let session = Session::new(&self, reader);
                            session.run(opening, clock, (waiting, place)).await
                        }
                        Begin::Tls | Begin::Gss => {
                            Err(Fault::Protocol("encryption is asked for twice".to_owned()))
                        }
                    };
                }
                Begin::Session { minor, parameters } => {
                    let opening = Opening { minor, parameters };
                    let session = Session::new(&self, reader);
                    if self.tls.is_some() {
                        let message = "this server speaks TLS alone: connect with sslmode=require";
                        return session.refuse("28000", message).await;
                    }
                    return session.run(opening, clock, (waiting, place)).await;
                }
            }
        }
        let Begin::Session { minor, parameters } = self.begin(&mut clock, &mut reader).await?
        else {
            return Err(Fault::Protocol(
                "encryption is asked for again and again".to_owned(),
            ));
        };
        let opening = Opening { minor, parameters };
        let session = Session::new(&self, reader);
        match self.tls.is_some() {
            true => {
                let message = "this server speaks TLS alone: connect with sslmode=require";
                session.refuse("28000", message).await
            }
            false => session.run(opening, clock, (waiting, place)).await,
        }
    }

    /// The first message. What is none is answered before the connection ends, so that whoever has come to the wrong
    /// door sees where he is.
    async fn begin<S>(&self, clock: &mut Clock, reader: &mut Reader<S>) -> Result<Begin, Fault>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let begun = clock.wait(&self.crowd, reader.begin()).await;
        let begun = begun.map_err(|late| Fault::Protocol(format!("the login: {late}")))?;
        if let Err(Fault::Protocol(message)) = &begun {
            let mut out = Out::default();
            out.said(&Said {
                severity: Severity::Fatal,
                code: "08P01",
                message: message.clone(),
                hint: None,
                position: None,
            });
            answer(reader, &out.0).await.ok();
        }
        begun
    }

    /// Ends the statement of another session, if the client knows its key.
    fn cancel(&self, process: u32, key: u32) {
        let running = self.shared.running.lock();
        let running = running.unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = running.get(&process).filter(|found| found.key == key) {
            found.cancel.notify_waiters();
        }
    }
}

/// Writes an answer of the beginning.
async fn answer<S>(reader: &mut Reader<S>, bytes: &[u8]) -> Result<(), Fault>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let stream = reader.stream();
    stream.write_all(bytes).await?;
    Ok(stream.flush().await?)
}

/// A session among those that can be cancelled, until dropped.
struct Enrolled {
    shared: Arc<Shared>,
    process: u32,
    key: u32,
    cancel: Arc<Notify>,
}

impl Enrolled {
    /// `None`: the system gives no random numbers.
    fn new(shared: &Arc<Shared>) -> Option<Enrolled> {
        let mut running = shared
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut bytes = [0; 8];
            SystemRandom::new().fill(&mut bytes).ok()?;
            let [a, b, c, d, e, f, g, h] = bytes;
            // Some clients take it for a number with a sign.
            let process = u32::from_be_bytes([a & 0x7f, b, c, d]);
            let key = u32::from_be_bytes([e, f, g, h]);
            if running.contains_key(&process) {
                continue;
            }
            let cancel = Arc::new(Notify::new());
            let entry = Running {
                key,
                cancel: Arc::clone(&cancel),
            };
            running.insert(process, entry);
            return Some(Enrolled {
                shared: Arc::clone(shared),
                process,
                key,
                cancel,
            });
        }
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        let running = self.shared.running.lock();
        running
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.process);
    }
}

#[cfg(test)]
mod tests;
