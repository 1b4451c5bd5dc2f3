//! The opening handshake, of a client and of a server (RFC 6455, 4).

use std::io;

use ::websocket::{Role, accept_key, answer_to, confirmed, is_key, new_key, offer};
use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Opened;
use crate::url::Url;

/// Longest head, in bytes, and most headers in it.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 100;

/// Bytes of a refusal's text that are read for a message.
const SHOWN_BYTES_MAX: usize = 512;

/// Do the headers ask for an upgrade to WebSocket?
pub fn is_asked(headers: &HeaderMap) -> bool {
    has_token(headers, &UPGRADE, "websocket")
}

fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    values(headers, name)
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

/// The values of a header that are text.
fn values<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter();
    values.filter_map(|value| value.to_str().ok())
}

/// Why a client is not let in.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub why: String,
}

impl Refusal {
    pub fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal {
            status,
            why: why.into(),
        }
    }
}

/// `Sec-WebSocket-Accept`, where the headers of a GET are a handshake (RFC 6455, 4.2.1).
///
/// # Errors
/// What is missing; to status 426 belongs `Sec-WebSocket-Version: 13`.
pub fn judge(headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
    let bad = |why: &str| Err(Refusal::new(StatusCode::BAD_REQUEST, why));
    if !is_asked(headers) {
        return bad("the header 'Upgrade' does not name WebSocket");
    }
    if !has_token(headers, &CONNECTION, "upgrade") {
        return bad("the header 'Connection' does not name the upgrade");
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        let why = "version 13 of WebSocket is spoken";
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, why));
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return bad("one header 'Sec-WebSocket-Key' is needed");
    };
    match key.to_str() {
        Ok(text) if is_key(key.as_bytes()) => {
            let accepted = HeaderValue::from_str(&accept_key(text));
            accepted.or_else(|_| bad("'Sec-WebSocket-Key' is not 16 bytes in base64"))
        }
        _ => bad("'Sec-WebSocket-Key' is not 16 bytes in base64"),
    }
}

/// Reads a head up to its empty line; what has come behind it stays.
async fn read_head(line: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> io::Result<Bytes> {
    let mut looked = 0;
    loop {
        // The end may have begun with what was there before.
        let from = looked.min(into.len()).saturating_sub(3);
        if let Some(end) = memchr::memmem::find(&into[from..], b"\r\n\r\n") {
            return Ok(into.split_to(from + end + 4).freeze());
        }
        looked = into.len();
        if looked >= HEAD_BYTES_MAX {
            let why = format!("the head of the handshake has more than {HEAD_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        into.reserve(1024);
        let mut room = bytes::BufMut::limit(&mut *into, HEAD_BYTES_MAX - looked);
        if line.read_buf(&mut room).await? == 0 {
            let why = "the connection ended within the handshake";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
    }
}

fn collected(headers: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut all = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        all.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(all)
}

/// Lets a client in. `choose` looks at the headers, and gives the sub-protocol. `deflate`: messages may be compressed.
///
/// # Errors
/// It was refused, which it was told, or has gone.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    mut line: S,
    message_max: usize,
    deflate: bool,
    choose: impl FnOnce(&HeaderMap) -> Result<Option<HeaderValue>, Refusal>,
) -> io::Result<Opened<S>> {
    let mut read = BytesMut::new();
    let head = read_head(&mut line, &mut read).await?;
    let judged = requested(&head).and_then(|headers| {
        let accepted = judge(&headers)?;
        let protocol = choose(&headers)?;
        Ok((headers, accepted, protocol))
    });
    let (headers, accepted, protocol) = match judged {
        Ok(judged) => judged,
        Err(refusal) => {
            refuse(&mut line, &refusal).await?;
            let Refusal { status, why } = refusal;
            let why = format!("refused with {}: {}", status.as_u16(), why.trim_end());
            return Err(io::Error::other(why));
        }
    };
    let offers = values(&headers, &SEC_WEBSOCKET_EXTENSIONS);
    let agreed = deflate.then(|| answer_to(offers, false)).flatten();
    let mut answer = Vec::with_capacity(256);
    answer.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n",
    );
    let mut header = |name: &HeaderName, value: &[u8]| {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value);
        answer.extend_from_slice(b"\r\n");
    };
    header(&SEC_WEBSOCKET_ACCEPT, accepted.as_bytes());
    if let Some(protocol) = protocol {
        header(&SEC_WEBSOCKET_PROTOCOL, protocol.as_bytes());
    }
    if let Some((_, extension)) = &agreed {
        header(&SEC_WEBSOCKET_EXTENSIONS, extension.as_bytes());
    }
    answer.extend_from_slice(b"\r\n");
    line.write_all(&answer).await?;
    line.flush().await?;
    Ok(Opened {
        line,
        role: Role::Server,
        message_max,
        agreed: agreed.map(|(agreed, _)| agreed),
        read: read.freeze(),
    })
}

/// The headers of a GET.
fn requested(head: &[u8]) -> Result<HeaderMap, Refusal> {
    let bad = |why: &str| Refusal::new(StatusCode::BAD_REQUEST, why);
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(bad("too many headers")),
        _ => return Err(bad("this is no request of HTTP")),
    }
    if request.method != Some("GET") || request.version != Some(1) {
        return Err(bad(
            "an upgrade to WebSocket is asked for with GET and HTTP/1.1",
        ));
    }
    collected(request.headers).ok_or_else(|| bad("a header cannot be"))
}

async fn refuse(line: &mut (impl AsyncWrite + Unpin), refusal: &Refusal) -> io::Result<()> {
    let status = refusal.status;
    let more = match status {
        StatusCode::UPGRADE_REQUIRED => "sec-websocket-version: 13\r\nupgrade: websocket\r\n",
        _ => "",
    };
    let body = format!("{}\n", refusal.why.trim_end());
    let answer = format!(
        "HTTP/1.1 {} {}\r\n{more}connection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\r\n{body}",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        body.len(),
    );
    line.write_all(answer.as_bytes()).await?;
    line.flush().await?;
    line.shutdown().await
}

/// What a client asks a server for.
pub struct Ask<'a> {
    pub url: &'a Url,
    /// Beside those of the handshake.
    pub headers: &'a HeaderMap,
    pub message_max: usize,
    /// Offers to compress messages.
    pub deflate: bool,
}

/// What a server has answered, beside the line.
pub struct Answered {
    /// The sub-protocol that it has chosen.
    pub protocol: Option<HeaderValue>,
}

/// Asks a server for WebSocket.
///
/// # Errors
/// What it answered instead, or why the line has ended.
pub async fn shake<S: AsyncRead + AsyncWrite + Unpin>(
    mut line: S,
    ask: &Ask<'_>,
) -> Result<(Opened<S>, Answered), String> {
    let said = |error: io::Error| error.to_string();
    let key = new_key().map_err(|_| "the system has no randomness")?;
    line.write_all(&request(ask, &key)).await.map_err(said)?;
    line.flush().await.map_err(said)?;
    let mut read = BytesMut::new();
    let head = read_head(&mut line, &mut read).await.map_err(said)?;
    let (status, headers) = responded(&head)?;
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!(
            "the handshake was answered {status}{}",
            shown(&read)
        ));
    }
    let wrong = |why: &str| Err(format!("the answer to the handshake is wrong: {why}"));
    if !is_asked(&headers) {
        return wrong("the header 'Upgrade' does not name WebSocket");
    }
    if !has_token(&headers, &CONNECTION, "upgrade") {
        return wrong("the header 'Connection' does not name the upgrade");
    }
    if !values(&headers, &SEC_WEBSOCKET_ACCEPT).eq([accept_key(&key)]) {
        return wrong("'Sec-WebSocket-Accept' does not fit to the key");
    }
    let protocol = headers.get(SEC_WEBSOCKET_PROTOCOL).cloned();
    if let Some(chosen) = protocol.as_ref().map(HeaderValue::as_bytes) {
        let mut offered =
            values(ask.headers, &SEC_WEBSOCKET_PROTOCOL).flat_map(|value| value.split(','));
        if !offered.any(|one| one.trim().as_bytes() == chosen) {
            return wrong("it names a sub-protocol that was not offered");
        }
    }
    let extensions = values(&headers, &SEC_WEBSOCKET_EXTENSIONS);
    let agreed = confirmed(extensions, ask.deflate, false)?;
    let opened = Opened {
        line,
        role: Role::Client,
        message_max: ask.message_max,
        agreed,
        read: read.freeze(),
    };
    Ok((opened, Answered { protocol }))
}

fn request(ask: &Ask<'_>, key: &str) -> Vec<u8> {
    let mut request = format!(
        "GET {} HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: {key}\r\n",
        ask.url.target(),
    )
    .into_bytes();
    if !ask.headers.contains_key(HOST) {
        let host = format!("host: {}\r\n", ask.url.host_header());
        request.extend_from_slice(host.as_bytes());
    }
    if ask.deflate {
        let extension = format!("{SEC_WEBSOCKET_EXTENSIONS}: {}\r\n", offer(false));
        request.extend_from_slice(extension.as_bytes());
    }
    for (name, value) in ask.headers {
        request.extend_from_slice(name.as_str().as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

fn responded(head: &[u8]) -> Result<(StatusCode, HeaderMap), String> {
    let wrong = || "the answer to the handshake is no answer of HTTP".to_owned();
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        _ => return Err(wrong()),
    }
    let status = response
        .code
        .and_then(|code| StatusCode::from_u16(code).ok());
    let headers = collected(response.headers);
    status.zip(headers).ok_or_else(wrong)
}

/// The text of a refusal, as far as it has come with its head.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]);
    let line = text.lines().next().unwrap_or_default().trim();
    match line.is_empty() || line.chars().any(char::is_control) {
        true => String::new(),
        false => format!(": {line}"),
    }
}
