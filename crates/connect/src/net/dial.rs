//! Connections of clients to servers whose protocols keep one line open.
//!
//! Promises: a server that has gone without a word (its machine is off, the line is cut) is noticed
//! within five seconds, by keep-alives that the system asks for while nothing is sent, and by
//! unanswered data while something is.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::ClientTls;
use crate::error;

/// A silent server is asked for a sign of life, and is lost when three of them fail.
const QUIET: Duration = Duration::from_secs(1);
const PROBE: Duration = Duration::from_secs(1);

/// How long data may stay without the server's system having taken it.
const UNANSWERED: Duration = Duration::from_millis(3500);

/// Bytes that wait in the system to be sent: with more of them nobody could tell for a while whether a
/// slow server takes any, and questions for keep-alives would stand behind them all.
const UNSENT_BYTES: u32 = 64 << 10;

/// An open line, in the clear or not.
pub trait Line: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Line for T {}

/// Connects within `limit`, the TLS handshake included.
pub async fn dial(
    place: (&str, u16),
    limit: Duration,
    tls: Option<&ClientTls>,
) -> io::Result<Box<dyn Line>> {
    dial_to(place, limit, tls, Some(UNANSWERED)).await
}

/// As [`dial`], to a server that may leave data unread as long as it likes: the caller asks it for signs
/// of life of the protocol's own.
pub async fn dial_patient(
    place: (&str, u16),
    limit: Duration,
    tls: Option<&ClientTls>,
) -> io::Result<Box<dyn Line>> {
    dial_to(place, limit, tls, None).await
}

async fn dial_to(
    (host, port): (&str, u16),
    limit: Duration,
    tls: Option<&ClientTls>,
    unanswered: Option<Duration>,
) -> io::Result<Box<dyn Line>> {
    let connecting = async {
        let stream = TcpStream::connect((host, port)).await?;
        prepare(&stream, unanswered)?;
        Ok(match tls {
            None => Box::new(stream) as Box<dyn Line>,
            Some(tls) => Box::new(tls.connect(host, stream).await?),
        })
    };
    let connected = tokio::time::timeout(limit, connecting).await;
    connected.unwrap_or_else(|_| Err(error::unanswered(limit)))
}

/// Has the system watch the other side.
fn prepare(stream: &TcpStream, unanswered: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&signs_of_life())?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    socket.set_tcp_user_timeout(unanswered)
}

/// What the system asks for while nothing is sent.
pub fn signs_of_life() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(QUIET)
        .with_interval(PROBE)
        .with_retries(3)
}
