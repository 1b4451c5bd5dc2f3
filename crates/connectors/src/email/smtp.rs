//! The dialogue with a mail server: lettre's, over a line of ours, each answer within its time.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset, Starttls};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use lettre::transport::smtp::response::Severity;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::slow_server;
use connect::net::{ClientTls, Line, dial};

/// What lettre wants of each connection, and a server says once.
const GREETING: &[u8] = b"220 \r\n";

/// The code of a server that takes leave.
const LEAVES: &str = "421";

/// When a connection is one of TLS.
#[derive(Clone)]
pub(super) enum Secured {
    Never,
    /// From the first byte.
    First(ClientTls),
    /// After an upgrade, where the server can.
    Offered(ClientTls),
    /// After an upgrade, or there is none.
    Required(ClientTls),
}

#[derive(Clone)]
pub(super) struct Server {
    pub host: String,
    pub port: u16,
    pub secured: Secured,
    pub login: Option<(String, String)>,
    /// What we call ourselves.
    pub name: String,
    pub connect_timeout: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
}

/// Why a mail was not taken.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no connection any more.
    Lost(String),
    /// The server says that it may take it later.
    Later(String),
    /// The server will not take it.
    Never(String),
}

impl Fault {
    /// What the code of an answer decides, or the end of a connection.
    fn of(error: SmtpError) -> Fault {
        let Some(code) = error.status() else {
            return Fault::Lost(error.to_string());
        };
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        let said = format!("the server answers {code} {text}");
        match code.severity {
            _ if code.to_string() == LEAVES => Fault::Lost(said),
            Severity::TransientNegativeCompletion => Fault::Later(said),
            _ => Fault::Never(said),
        }
    }

    fn map(self, said: impl FnOnce(String) -> String) -> Fault {
        match self {
            Fault::Later(cause) => Fault::Later(said(cause)),
            Fault::Never(cause) => Fault::Never(said(cause)),
            lost => lost,
        }
    }
}

pub(super) struct Session {
    connection: AsyncSmtpConnection,
    patience: SlowServer,
}

/// How long whose answer is waited for.
#[derive(Clone)]
struct SlowServer {
    peer: Arc<str>,
    timeout: Duration,
}

impl SlowServer {
    fn with(server: &Server) -> SlowServer {
        SlowServer {
            peer: format!("{}:{}", server.host, server.port).into(),
            timeout: server.timeout,
        }
    }

    /// What the server answers, in time.
    async fn wait<T>(
        &self,
        asking: impl Future<Output = Result<T, SmtpError>>,
    ) -> Result<T, Fault> {
        match slow_server::wait(&self.peer, self.timeout, asking).await {
            Some(answered) => answered.map_err(Fault::of),
            None => Err(Fault::Lost(format!(
                "no answer within {} ms",
                self.timeout.as_millis()
            ))),
        }
    }
}

impl Session {
    /// Connects and logs in.
    pub async fn open(server: &Server) -> Result<Session, Fault> {
        let opening = Session::open_slowly(server);
        let opened = tokio::time::timeout(server.connect_timeout + server.timeout, opening).await;
        opened.unwrap_or_else(|_| {
            Err(Fault::Lost(
                "the server did not let us in in time".to_owned(),
            ))
        })
    }

    async fn open_slowly(server: &Server) -> Result<Session, Fault> {
        let said = |error: io::Error| Fault::Lost(error.to_string());
        let first = match &server.secured {
            Secured::First(tls) => Some(tls),
            _ => None,
        };
        let address = (server.host.as_str(), server.port);
        let line = dial(address, server.connect_timeout, first).await;
        let wire = Wire::new(line.map_err(said)?, b"");
        let mut session = Session::greet(server, wire.clone()).await?;
        if let Secured::Offered(tls) | Secured::Required(tls) = &server.secured {
            if session.connection.can_starttls() {
                session.ask(Starttls).await?;
                // What the server said before the handshake was not protected: lettre, which may have
                // read of it already, begins anew.
                drop(session);
                let line = wire.take().map_err(said)?;
                let line = tls.connect(&server.host, line).await.map_err(said)?;
                session = Session::greet(server, Wire::new(Box::new(line), GREETING)).await?;
            } else if matches!(server.secured, Secured::Required(_)) {
                return Err(Fault::Never("the server offers no STARTTLS".to_owned()));
            }
        }
        if let Some((user, password)) = &server.login {
            let login = Credentials::new(user.clone(), password.clone());
            let ways = [Mechanism::Plain, Mechanism::Login];
            let asking = session.connection.auth(&ways, &login);
            session.patience.wait(asking).await?;
        }
        Ok(session)
    }

    async fn greet(server: &Server, wire: Wire) -> Result<Session, Fault> {
        let name = ClientId::Domain(server.name.clone());
        let greeting = AsyncSmtpConnection::connect_with_transport(Box::new(wire), &name);
        let patience = SlowServer::with(server);
        Ok(Session {
            connection: patience.wait(greeting).await?,
            patience,
        })
    }

    /// Sends a mail to all its recipients, or to none.
    pub async fn send(&mut self, envelope: &Envelope, mail: &[u8]) -> Result<(), Fault> {
        let result = self.try_send(envelope, mail).await;
        if matches!(result, Err(Fault::Later(_) | Fault::Never(_))) {
            // The next mail begins anew.
            self.ask(Rset).await?;
        }
        result
    }

    async fn try_send(&mut self, envelope: &Envelope, mail: &[u8]) -> Result<(), Fault> {
        let mut parameters = Vec::new();
        let mut addresses = envelope.from().into_iter().chain(envelope.to());
        if !addresses.all(|address| AsRef::<str>::as_ref(address).is_ascii()) {
            let known = self.connection.server_info();
            if !known.supports_feature(Extension::SmtpUtfEight) {
                let cause = "an address has letters that the server does not know";
                return Err(Fault::Never(cause.to_owned()));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        let from = Mail::new(envelope.from().cloned(), parameters);
        self.ask(from).await?;
        for to in envelope.to() {
            let asked = self.ask(Rcpt::new(to.clone(), Vec::new())).await;
            asked.map_err(|fault| fault.map(|cause| format!("recipient '{to}': {cause}")))?;
        }
        self.ask(Data).await?;
        let asking = self.connection.message(mail);
        self.patience.wait(asking).await?;
        Ok(())
    }

    /// Takes leave.
    pub async fn quit(mut self) {
        // A server that has gone is left as well.
        self.patience.wait(self.connection.quit()).await.ok();
    }

    async fn ask(&mut self, command: impl fmt::Display) -> Result<(), Fault> {
        let asking = self.connection.command(command);
        self.patience.wait(asking).await?;
        Ok(())
    }
}

/// A line that lettre speaks over until it is taken back.
#[derive(Clone)]
struct Wire {
    /// Read before what comes by the line.
    ahead: &'static [u8],
    line: Arc<Mutex<Option<Box<dyn Line>>>>,
}

impl Wire {
    fn new(line: Box<dyn Line>, ahead: &'static [u8]) -> Wire {
        Wire {
            ahead,
            line: Arc::new(Mutex::new(Some(line))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Line>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> io::Result<Box<dyn Line>> {
        self.lock().take().ok_or(io::ErrorKind::NotConnected.into())
    }

    fn with<T>(
        &self,
        work: impl FnOnce(Pin<&mut dyn Line>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.lock().as_deref_mut() {
            Some(line) => work(Pin::new(line)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl AsyncTokioStream for Wire {
    /// Nobody asks.
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let (now, later) = self.ahead.split_at(self.ahead.len().min(into.remaining()));
            into.put_slice(now);
            self.ahead = later;
            return Poll::Ready(Ok(()));
        }
        self.with(|line| line.poll_read(context, into))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|line| line.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|line| line.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|line| line.poll_shutdown(context))
    }
}
