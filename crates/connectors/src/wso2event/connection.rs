//! Connections of the receiver: a request comes, its answer goes, and only then the next is read.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::deployed::Protocol;
use super::logins::is_user;
use super::receiver::Databridge;
use connect::arrivals::{Account, Arrivals};
use connect::net::{Clock, Crowd, Pace, ServerTls};
use databridge::binary;
use databridge::thrift::{Scan, Scanner};

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 64 << 10;

pub(super) const EXPIRED: &str = "the session has ended or never was: log in again";

/// What the connections of a port have in common.
pub(super) struct Server {
    pub databridge: Arc<Databridge>,
    pub arrivals: Arc<Arrivals>,
    pub protocol: Protocol,
    /// Where clients log in.
    pub tls: Option<ServerTls>,
    pub users: Arc<[(String, String)]>,
    /// An unused session, and a connection that nothing comes of, end after this time.
    pub session: Duration,
}

/// A request, with what its answer may need.
pub(super) struct Asked<'a> {
    pub bytes: &'a Bytes,
    pub peer: IpAddr,
    pub account: &'a mut Account,
    pub stopped: &'a mut watch::Receiver<bool>,
}

impl Server {
    pub async fn serve(&self, stream: TcpStream, stopped: watch::Receiver<bool>) {
        let _place = self.databridge.crowd.enter();
        let peer = stream.peer_addr();
        let address = peer
            .as_ref()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        let served = async {
            // Clients of the binary protocol take the end of a connection for the answer that all is well. They
            // keep what they have sent where it is reset, also by the system when this process is killed.
            if self.protocol == Protocol::Binary {
                stream.set_zero_linger()?;
            }
            match &self.tls {
                None => self.serve_line(stream, address, stopped).await,
                Some(tls) => {
                    let line = tls.accept(stream, &self.databridge.crowd).await?;
                    self.serve_line(line, address, stopped).await
                }
            }
        };
        if let Err(error) = served.await {
            let peer = peer.map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
            self.databridge.failed(&peer, &error, &self.arrivals);
        }
    }

    async fn serve_line(
        &self,
        mut line: impl AsyncRead + AsyncWrite + Unpin,
        peer: IpAddr,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let mut incoming = Incoming::default();
        let mut out = Vec::new();
        loop {
            let since = tokio::time::Instant::now();
            let begun = tokio::select! {
                biased;
                begun = incoming.begin(&mut line) => begun?,
                _ = stopped.wait_for(|is_stopped| *is_stopped) => false,
                () = self.databridge.crowd.gives_way(|| Some(since)) => false,
                () = tokio::time::sleep(self.session) => false,
            };
            if !begun {
                return Ok(());
            }
            let mut account = self.arrivals.open();
            let scanning = Scanning::new(self.protocol);
            let crowd = &self.databridge.crowd;
            let Some(bytes) = incoming
                .message(&mut line, scanning, crowd, &mut account)
                .await?
            else {
                return Ok(());
            };
            let asked = Asked {
                bytes: &bytes,
                peer,
                account: &mut account,
                stopped: &mut stopped,
            };
            out.clear();
            let is_answered = match self.protocol {
                Protocol::Thrift => self.answer_thrift(asked, &mut out).await,
                Protocol::Binary => self.answer_binary(asked, &mut out).await,
            };
            // Where nothing is said, the client sends it again.
            if !is_answered.map_err(wrong)? {
                return Ok(());
            }
            line.write_all(&out).await?;
            line.flush().await?;
        }
    }

    pub fn is_open(&self, session: &str) -> bool {
        self.databridge.logins.is_open(session, self.session)
    }

    /// The id of a new session.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub async fn log_in(
        &self,
        name: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<String, &'static str> {
        if self.tls.is_none() {
            return Err("log in on the port with TLS");
        }
        let logins = &self.databridge.logins;
        tokio::time::sleep(logins.pause(peer)).await;
        if !is_user(&self.users, name, password) {
            logins.note_wrong(peer);
            if let Some(times) = self.databridge.wrong.note() {
                tracing::warn!(%peer, times, "login to databridge refused: wrong user or password");
            }
            return Err("wrong user or password");
        }
        logins
            .open(self.session)
            .ok_or("no session can be made now")
    }
}

/// Finds the end of a message of either protocol.
enum Scanning {
    Thrift(Scanner),
    Binary,
}

impl Scanning {
    fn new(protocol: Protocol) -> Scanning {
        match protocol {
            Protocol::Thrift => Scanning::Thrift(Scanner::default()),
            Protocol::Binary => Scanning::Binary,
        }
    }

    fn scan(&mut self, bytes: &[u8]) -> Result<Scan, String> {
        match self {
            Scanning::Thrift(scanner) => scanner.scan(bytes),
            Scanning::Binary => binary::scan(bytes),
        }
    }
}

/// What has come of a connection and was not taken yet.
#[derive(Default)]
struct Incoming(BytesMut);

impl Incoming {
    /// Waits until something has come; false: the client has ended.
    async fn begin(&mut self, line: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        if !self.0.is_empty() {
            return Ok(true);
        }
        self.0.reserve(BLOCK_BYTES);
        let mut into = (&mut self.0).limit(BLOCK_BYTES);
        match line.read_buf(&mut into).await {
            Ok(count) => Ok(count > 0),
            // Clients end a TLS session without saying so; between two messages nothing is cut off.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A message that has begun; `None` where the end of the connection cuts it off, for the client sends it
    /// again. Its bytes are held by `account`.
    ///
    /// # Errors
    /// What is no message; [`io::ErrorKind::TimedOut`] with a `Late` for one that does not come.
    async fn message(
        &mut self,
        line: &mut (impl AsyncRead + Unpin),
        mut scanning: Scanning,
        crowd: &Crowd,
        account: &mut Account,
    ) -> io::Result<Option<Bytes>> {
        let buffer = &mut self.0;
        let mut clock = Clock::start(Pace::default());
        clock.stopped(account.hold(buffer.len())).await;
        loop {
            let end = match scanning.scan(buffer).map_err(wrong)? {
                Scan::Whole(end) => return Ok(Some(buffer.split_to(end).freeze())),
                Scan::More(end) => end,
            };
            if !account.fits(end) {
                return Err(wrong(format!(
                    "a message has {end} bytes or more, which is more than this server reads at once (a quarter of \
                     --memory-limit)"
                )));
            }
            // A length alone takes no memory: no more room than what has come, or a block.
            let piece = (end - buffer.len()).min(buffer.len()).max(BLOCK_BYTES);
            clock.stopped(account.hold(buffer.len() + piece)).await;
            buffer.reserve(piece);
            let mut into = (&mut *buffer).limit(piece);
            let read = clock.wait(crowd, line.read_buf(&mut into)).await;
            let late = |late| io::Error::new(io::ErrorKind::TimedOut, late);
            if read.map_err(late)?? == 0 {
                return Ok(None);
            }
        }
    }
}

fn wrong(cause: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}
