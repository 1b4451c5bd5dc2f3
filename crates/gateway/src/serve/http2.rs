//! HTTP/2 (RFC 9113): many requests over one connection, each answered as if it came alone; and WebSocket in one of its
//! streams (RFC 8441).

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use connect::net::{Outgoing, STOP_GRACE, Served as ServedLine};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{HEAD_BYTES_MAX, Peer, Port, respond};

/// What a client begins with that knows that HTTP/2 is spoken.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Streams of one connection at once.
const STREAMS_MAX: u32 = 256;

/// Bytes of a stream that wait to be written.
const SEND_BYTES_MAX: usize = 16 << 10;

/// A client that says nothing is asked for a sign of life, and is gone without one.
const QUIET: Duration = Duration::from_secs(15);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The name of the protocol in a handshake of TLS.
pub(super) const ALPN: &[u8] = b"h2";

/// Does a client begin with the preface? With what was read to find out, which is still to be answered.
///
/// # Errors
/// The connection is broken.
pub(super) async fn begins<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<(bool, Vec<u8>)> {
    let mut read = Vec::with_capacity(PREFACE.len());
    loop {
        // No more than the preface has, so that most of a head is read where it is parsed.
        let rest = (PREFACE.len() - read.len()) as u64;
        let count = stream.take(rest).read_buf(&mut read).await?;
        if count == 0 || !PREFACE.starts_with(&read) {
            return Ok((false, read));
        }
        if read.len() == PREFACE.len() {
            return Ok((true, read));
        }
    }
}

/// Does a request open a WebSocket in its stream?
pub(super) fn is_websocket<B>(request: &Request<B>) -> bool {
    let protocol = request.extensions().get::<Protocol>();
    *request.method() == Method::CONNECT
        && protocol.is_some_and(|protocol| protocol.as_str().eq_ignore_ascii_case("websocket"))
}

/// Serves a connection to its end.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    line: S,
    port: &Arc<Port>,
    peer: &Arc<Peer>,
    mut stopped: watch::Receiver<bool>,
) -> ServedLine {
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(Some(QUIET))
        .keep_alive_timeout(ANSWER_MAX);
    let is_held = Arc::<AtomicBool>::default();
    let (own_port, own_peer, own_held) = (Arc::clone(port), Arc::clone(peer), Arc::clone(&is_held));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (port, peer, is_held) = (
            Arc::clone(&own_port),
            Arc::clone(&own_peer),
            Arc::clone(&own_held),
        );
        async move {
            peer.set_waits(None);
            named(&mut request);
            // Streams have windows of their own: none waits for what another one has to write.
            let outgoing = Arc::new(Outgoing::unmetered());
            let own = Arc::new(Peer::new(peer.socket, peer.has_tls, outgoing));
            let answer = respond(request, &port, &own).await;
            is_held.fetch_or(own.outgoing.has_events(), Ordering::Relaxed);
            peer.set_waits(Some(Instant::now()));
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = server.serve_connection(TokioIo::new(line), service);
    let mut connection = std::pin::pin!(connection);
    let waits = || peer.waits().filter(|_| !is_held.load(Ordering::Relaxed));
    tokio::select! {
        served = &mut connection => return Ok(served?),
        () = port.crowd.gives_way(waits) => return Ok(()),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(tokio::time::timeout(STOP_GRACE, connection).await??)
}

/// Names the host as HTTP/1 does.
fn named(request: &mut Request<Incoming>) {
    if request.headers().contains_key(HOST) {
        return;
    }
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    if let Some(Ok(host)) = authority.map(HeaderValue::from_str) {
        request.headers_mut().insert(HOST, host);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// What is found out of bytes that come one by one, and what was read for it.
    async fn judged(bytes: &[u8]) -> (bool, Vec<u8>) {
        let (mut near, mut far) = tokio::io::duplex(1);
        let told = async move {
            for byte in bytes {
                far.write_u8(*byte).await.ok();
            }
        };
        let (judged, ()) = tokio::join!(
            async move {
                let judged = begins(&mut near).await;
                drop(near);
                judged
            },
            told
        );
        judged.expect("the connection is sound")
    }

    #[tokio::test]
    async fn the_preface_is_known_by_its_last_byte_and_anything_else_by_its_first() {
        assert_eq!(judged(PREFACE).await, (true, PREFACE.to_vec()));
        assert_eq!(judged(b"GET / ").await, (false, b"G".to_vec()));
        assert_eq!(
            judged(b"PRI * HTTP/2.1").await,
            (false, b"PRI * HTTP/2.1".to_vec())
        );
        assert_eq!(judged(b"PRI *").await, (false, b"PRI *".to_vec()));
        let mut with_more = PREFACE.to_vec();
        with_more.extend_from_slice(b"frames");
        assert_eq!(judged(&with_more).await, (true, PREFACE.to_vec()));
    }
}
