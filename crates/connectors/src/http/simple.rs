//! Requests of the simplest kind, answered without the HTTP library.
//!
//! Most requests to a source are alike: POST, the path of a source, a short body with its length, on a
//! connection that stays open. Those that were read together are handed over together, and their
//! answers leave in one write. Promises: what is taken here is what the library would take, with the
//! same answer; at the first request that is anything else, the connection goes to the library for
//! good, with all that was read. Never: a guess about a request that is not whole.
//!
//! Twin: `listener.rs` and `request.rs` answer the same requests by the library; keep them in step.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt as _;
use httparse::{EMPTY_HEADER, Status};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::listener::{Port, Target, Waits};
use super::request::{self, Answer, Route};
use connect::net::{Delivery, Unpushed};

/// Longest request, and bytes that are read at once.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Most headers of a request.
const HEADERS_MAX: usize = 24;

/// Longest wait for the rest of a request. The library has limits of its own from then on.
const REST_MAX: Duration = Duration::from_millis(500);

/// The longest time that a timer can be set to, for a connection that may be idle for ever.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// How the simple requests of a connection ended.
pub(super) enum End {
    /// The connection is done.
    Closed,
    /// What was read and not answered. The library goes on.
    Library(Vec<u8>),
}

/// Serves a connection as long as its requests are simple.
///
/// # Errors
/// The connection is broken.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    port: &Port,
    waits: &Waits,
    stopped: &mut watch::Receiver<bool>,
) -> io::Result<End> {
    let idle = port.protocol.idle.unwrap_or(FOREVER);
    let mut gives_way = pin!(port.crowd.gives_way(|| waits.since()));
    let mut stops = pin!(stopped.wait_for(|is_stopped| *is_stopped));
    let mut turn = Turn::default();
    let mut until = Instant::now() + idle;
    let mut timer = pin!(sleep_until(until));
    loop {
        turn.unread.reserve(REQUEST_BYTES_MAX - turn.unread.len());
        let read = loop {
            tokio::select! {
                biased;
                read = stream.read_buf(&mut turn.unread) => break read?,
                _ = &mut stops => return Ok(End::Library(turn.unread)),
                () = &mut gives_way => return Ok(End::Closed),
                () = &mut timer => {}
            }
            // It is set anew only when it has run out, not with each request.
            if until <= Instant::now() {
                return Ok(match turn.unread.is_empty() {
                    true => End::Closed,
                    false => End::Library(turn.unread),
                });
            }
            timer.as_mut().reset(until);
        };
        if read == 0 {
            return Ok(match turn.unread.is_empty() {
                true => End::Closed,
                false => End::Library(turn.unread),
            });
        }
        waits.set(None);
        let next = turn.take(stream, port).await?;
        let now = Instant::now();
        waits.set(Some(now));
        match next {
            Next::Read => {}
            Next::Close => return Ok(End::Closed),
            Next::Library => return Ok(End::Library(turn.unread)),
        }
        if turn.unread.is_empty() {
            until = now + idle;
        } else {
            until = now + idle.min(REST_MAX);
            timer.as_mut().reset(until);
        }
    }
}

/// What was read at once, and what is answered together.
#[derive(Default)]
struct Turn {
    unread: Vec<u8>,
    answers: Vec<u8>,
    date: Date,
}

enum Next {
    Read,
    Close,
    Library,
}

impl Turn {
    /// Takes all requests that are whole.
    async fn take<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        port: &Port,
    ) -> io::Result<Next> {
        let mut at = 0;
        let next = loop {
            if at == self.unread.len() {
                break Next::Read;
            }
            let (route, body, end) = match parse(&self.unread[at..]) {
                Parsed::Partial => break Next::Read,
                Parsed::Other => break Next::Library,
                Parsed::Whole { path, body, end } => match port.route(path) {
                    Some(Target::Source(route)) if route.is_simple(body.len()) => {
                        (route, body, end)
                    }
                    _ => break Next::Library,
                },
            };
            let body = request::text(self.unread[at..][body].to_vec());
            at += end;
            if let Some(answer) = self.hand_over(stream, &route, body).await? {
                self.add(answer).await;
                break Next::Close;
            }
        };
        self.unread.drain(..at);
        self.write(stream).await?;
        Ok(next)
    }

    /// The last answer of the connection, if the source does not take the request.
    async fn hand_over<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        route: &Route,
        body: String,
    ) -> io::Result<Option<Answer>> {
        let delivery = Delivery::text(body, Vec::new());
        match route.ingress.try_push(delivery) {
            Ok(()) => {
                self.add_taken();
                return Ok(None);
            }
            Err(Unpushed::Closed) => return Ok(Some(request::stopped())),
            Err(Unpushed::Full(delivery)) => {
                // Those before have their answers while this one waits.
                self.write(stream).await?;
                let taken = async { route.ingress.push(delivery).await.is_ok() };
                let answer = request::taken(taken).await;
                if !answer.status().is_success() {
                    return Ok(Some(answer));
                }
            }
        }
        self.add_taken();
        Ok(None)
    }

    fn add_taken(&mut self) {
        self.answers
            .extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\ndate: ");
        self.answers.extend_from_slice(self.date.now());
        self.answers.extend_from_slice(b"\r\n\r\n");
    }

    async fn add(&mut self, answer: Answer) {
        let (head, body) = answer.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let status = head.status;
        let reason = status.canonical_reason().unwrap_or_default();
        let line = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16());
        self.answers.extend_from_slice(line.as_bytes());
        for (name, value) in &head.headers {
            self.answers.extend_from_slice(name.as_str().as_bytes());
            self.answers.extend_from_slice(b": ");
            self.answers.extend_from_slice(value.as_bytes());
            self.answers.extend_from_slice(b"\r\n");
        }
        let length = format!("content-length: {}\r\ndate: ", body.len());
        self.answers.extend_from_slice(length.as_bytes());
        self.answers.extend_from_slice(self.date.now());
        self.answers.extend_from_slice(b"\r\n\r\n");
        self.answers.extend_from_slice(&body);
    }

    async fn write<S: AsyncWrite + Unpin>(&mut self, stream: &mut S) -> io::Result<()> {
        if self.answers.is_empty() {
            return Ok(());
        }
        // Who reads no answers is given up with the connection, by the system's own time for it.
        let written = async {
            stream.write_all(&self.answers).await?;
            stream.flush().await
        };
        let written = tokio::time::timeout(request::ANSWER_MAX, written).await;
        self.answers.clear();
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The value of the header `Date`, made once a second.
#[derive(Default)]
struct Date {
    second: u64,
    text: String,
}

impl Date {
    fn now(&mut self) -> &[u8] {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = httpdate::fmt_http_date(now);
        }
        self.text.as_bytes()
    }
}

/// What stands at the begin of bytes.
#[derive(PartialEq, Eq, Debug)]
enum Parsed<'a> {
    /// The rest of it must be read.
    Partial,
    /// Something for the library.
    Other,
    Whole {
        path: &'a str,
        body: Range<usize>,
        /// Bytes of the whole request.
        end: usize,
    },
}

fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(Status::Complete(head)) => head,
        Ok(Status::Partial) if bytes.len() < REQUEST_BYTES_MAX => return Parsed::Partial,
        _ => return Parsed::Other,
    };
    let (Some("POST"), Some(1), Some(path)) = (request.method, request.version, request.path)
    else {
        return Parsed::Other;
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    if !path.starts_with('/') || !path.bytes().all(is_plain) {
        return Parsed::Other;
    }
    let Some(length) = framing(request.headers) else {
        return Parsed::Other;
    };
    let end = head + length;
    if length == 0 || end > REQUEST_BYTES_MAX {
        return Parsed::Other;
    }
    if bytes.len() < end {
        return Parsed::Partial;
    }
    Parsed::Whole {
        path,
        body: head..end,
        end,
    }
}

/// Length of the body, where the headers say nothing else of how request and connection end.
fn framing(headers: &[httparse::Header<'_>]) -> Option<usize> {
    let (mut hosts, mut length) = (0, None);
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            4 if is("host") => hosts += 1,
            14 if is("content-length") => {
                let digits = header.value;
                let is_number =
                    matches!(digits.len(), 1..=5) && digits.iter().all(u8::is_ascii_digit);
                if !is_number || length.is_some() {
                    return None;
                }
                length = Some(digits.iter().fold(0, |n, d| 10 * n + usize::from(d - b'0')));
            }
            10 if is("connection") && !header.value.eq_ignore_ascii_case(b"keep-alive") => {
                return None;
            }
            2 if is("te") => return None,
            6 if is("expect") => return None,
            7 if is("upgrade") || is("trailer") => return None,
            17 if is("transfer-encoding") => return None,
            _ => {}
        }
    }
    length.filter(|_| hosts == 1)
}

/// For fuzzing: whatever the bytes are, a request lies within them, and is not taken before it is whole.
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) fn check_requests(bytes: &[u8]) {
    let mut at = 0;
    while let Parsed::Whole { path, body, end } = parse(&bytes[at..]) {
        let rest = &bytes[at..];
        assert!(path.starts_with('/') && !rest[body.clone()].is_empty());
        assert!(body.end == end && end <= rest.len().min(REQUEST_BYTES_MAX));
        assert_eq!(parse(&rest[..end - 1]), Parsed::Partial);
        at += end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /in HTTP/1.1\r\nHost: h\r\n";

    #[test]
    fn simple_requests_are_taken_one_after_the_other() {
        let one = format!("{HEAD}Content-Length: 3\r\nConnection: Keep-Alive\r\n\r\nabc");
        let two = format!("{one}{one}");
        let Parsed::Whole { path, body, end } = parse(two.as_bytes()) else {
            panic!("{:?}", parse(two.as_bytes()));
        };
        assert_eq!((path, &two[body], end), ("/in", "abc", one.len()));
        check_requests(two.as_bytes());
        for length in 1..one.len() {
            assert_eq!(
                parse(&one.as_bytes()[..length]),
                Parsed::Partial,
                "{length}"
            );
        }
    }

    #[test]
    fn everything_else_is_left_to_the_library() {
        let of = |headers: &str| format!("{HEAD}{headers}\r\n\r\nabc");
        for request in [
            of("Content-Length: 3\r\nTransfer-Encoding: chunked"),
            of("Transfer-Encoding: chunked"),
            of("Content-Length: 3\r\nContent-Length: 3"),
            of("Content-Length: +3"),
            of("Content-Length: 3, 3"),
            of("Content-Length: 0"),
            of("Content-Length: 99999"),
            of("Content-Length: 3\r\nHost: h"),
            of("Content-Length: 3\r\nConnection: close"),
            of("Content-Length: 3\r\nExpect: 100-continue"),
            of("Content-Length: 3\r\nUpgrade: h2c"),
            of("Content-Length: 3\r\nTE: trailers"),
            of("X: y"),
            of("Content-Length: 3").replace("POST", "PUT"),
            of("Content-Length: 3").replace("1.1", "1.0"),
            of("Content-Length: 3").replace("/in", "/in?a=b"),
            of("Content-Length: 3").replace("/in", "http://h/in"),
            of("Content-Length: 3").replace("Host: h\r\n", ""),
            of(&format!(
                "{}Content-Length: 3",
                "X: y\r\n".repeat(HEADERS_MAX)
            )),
            format!("{HEAD}X: {}", "y".repeat(REQUEST_BYTES_MAX)),
            "\x16\x03\x01".to_owned(),
        ] {
            assert_eq!(parse(request.as_bytes()), Parsed::Other, "{request}");
        }
    }
}
