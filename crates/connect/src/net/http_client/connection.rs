//! One connection to a server: a request is written, and its answer read, by the task that asks.
//!
//! Promises: an answer that comes before the request is written ends the writing; a connection serves
//! again only when its answer was read to the end and nothing came behind it. Never: a second request
//! before the first is answered, or a task of its own.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{Method, Response};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};

use super::answer::{Head, Rest};
use crate::net::Line;

/// Bytes that are read at once: of a head, and of a long body.
pub(super) const READ_BYTES: usize = 8 << 10;
const BODY_READ_BYTES: usize = 64 << 10;

/// A body up to this length leaves in one write with its head.
pub const COPIED_BYTES_MAX: usize = 16 << 10;

/// A request as it is written.
pub struct OutgoingRequest<'a> {
    pub method: &'a Method,
    /// What stands in the request line.
    pub target: &'a str,
    /// With `Host`. What they say of the length of the body is left out.
    pub headers: &'a HeaderMap,
    /// One more.
    pub extra: Option<(HeaderName, &'a HeaderValue)>,
    pub body: &'a [u8],
    /// The body is sent with its length and not in chunks.
    pub has_length: bool,
}

/// Why there is no answer.
pub(super) enum Failed {
    /// The server can have seen nothing.
    BeforeWritten(io::Error),
    Other(io::Error),
}

pub(super) struct Connection {
    pub line: Box<dyn Line>,
    pub unread: BytesMut,
    /// Room for what is written.
    pub unwritten: Vec<u8>,
}

/// The body of an answer, with its connection.
pub struct AnswerBody {
    connection: Connection,
    rest: Rest,
    keeps_open: bool,
}

impl OutgoingRequest<'_> {
    /// The head, and the start of a body in chunks.
    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        for part in [self.method.as_str(), " ", self.target, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        let mut names_length = false;
        for (name, value) in self.headers {
            if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
                names_length |= name == CONTENT_LENGTH;
                continue;
            }
            if self.extra.as_ref().is_none_or(|(extra, _)| extra != name) {
                add(out, name, value.as_bytes());
            }
        }
        if let Some((name, value)) = &self.extra {
            add(out, name, value.as_bytes());
        }
        let length = self.body.len();
        if self.is_chunked() {
            add(out, &TRANSFER_ENCODING, b"chunked");
            out.extend_from_slice(format!("\r\n{length:x}\r\n").as_bytes());
            return;
        }
        let has_none = *self.method == Method::GET || *self.method == Method::HEAD;
        if length > 0 || names_length || !has_none {
            add(out, &CONTENT_LENGTH, length.to_string().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    fn is_chunked(&self) -> bool {
        !self.has_length && !self.body.is_empty()
    }

    /// What stands behind the body.
    pub(super) fn end(&self) -> &'static [u8] {
        match self.is_chunked() {
            true => b"\r\n0\r\n\r\n",
            false => b"",
        }
    }
}

fn add(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

impl Connection {
    pub fn new(line: Box<dyn Line>) -> Connection {
        Connection {
            line,
            unread: BytesMut::new(),
            unwritten: Vec::new(),
        }
    }

    /// Of a connection without a request: has the other side closed it, or sent what nobody asked for?
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.line).poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        read.is_ready()
    }

    /// Sends a request and reads the head of its answer.
    pub async fn exchange(
        mut self,
        request: &OutgoingRequest<'_>,
    ) -> Result<Response<AnswerBody>, Failed> {
        let mut first = std::mem::take(&mut self.unwritten);
        first.clear();
        request.write_head(&mut first);
        let is_copied = request.body.len() <= COPIED_BYTES_MAX;
        let parts: [&[u8]; 2] = match is_copied {
            true => {
                first.extend_from_slice(request.body);
                first.extend_from_slice(request.end());
                [b"", b""]
            }
            false => [request.body, request.end()],
        };
        let (written, result) = self.write([&first, parts[0], parts[1]]).await;
        let (is_whole, broken) = match result {
            Err(error) if written == 0 => return Err(Failed::BeforeWritten(error)),
            // It may have been answered before it was cut off.
            Err(error) => (false, Some(error)),
            Ok(is_whole) => (is_whole, None),
        };
        self.unwritten = first;
        let head = self.read_head(request.method).await;
        let head = head.map_err(|error| Failed::Other(broken.unwrap_or(error)))?;
        let mut response = Response::new(AnswerBody {
            keeps_open: head.keeps_open && is_whole,
            connection: self,
            rest: head.rest,
        });
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }

    /// Writes until all is written or something is to be read: how many bytes, and whether all.
    async fn write(&mut self, parts: [&[u8]; 3]) -> (usize, io::Result<bool>) {
        let (line, unread) = (&mut self.line, &mut self.unread);
        let mut written = 0;
        let mut parts = parts.into_iter();
        let mut rest: &[u8] = &[];
        let result = poll_fn(|context| {
            loop {
                if rest.is_empty() {
                    match parts.next() {
                        Some(part) => rest = part,
                        None => return Pin::new(&mut *line).poll_flush(context).map_ok(|()| true),
                    }
                    continue;
                }
                match Pin::new(&mut *line).poll_write(context, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => {
                        written += count;
                        rest = &rest[count..];
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
            unread.reserve(READ_BYTES);
            let reading = pin!(line.read_buf(unread));
            reading.poll(context).map_ok(|_| false)
        });
        let result = result.await;
        (written, result)
    }

    async fn read_head(&mut self, method: &Method) -> io::Result<Head> {
        let mut searched = 0;
        loop {
            if let Some(head) = Head::take(&mut self.unread, &mut searched, method)? {
                return Ok(head);
            }
            if self.read(READ_BYTES).await? == 0 {
                let text = "the connection was closed before the answer came";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
    }

    async fn read(&mut self, at_most: usize) -> io::Result<usize> {
        if self.unread.capacity() - self.unread.len() < at_most.div_ceil(2) {
            self.unread.reserve(at_most);
        }
        self.line.read_buf(&mut self.unread).await
    }
}

/// Appends what of a body has been read; is it whole?
///
/// # Errors
/// It is longer than so many bytes, or not HTTP.
pub(super) fn take_into(
    rest: &mut Rest,
    unread: &mut BytesMut,
    whole: &mut Vec<u8>,
    bytes_max: usize,
) -> io::Result<bool> {
    loop {
        if let Rest::Length(length) = *rest
            && let Some(bytes) = usize::try_from(length).ok().and_then(|n| unread.get(..n))
            && whole.len() + bytes.len() <= bytes_max
        {
            // Most bodies are here with their head.
            whole.extend_from_slice(bytes);
            unread.advance(length as usize);
            *rest = Rest::Done;
        } else if let Some(piece) = rest.take(unread)? {
            if whole.len() + piece.len() > bytes_max {
                return Err(io::Error::other(format!(
                    "the answer has more than {bytes_max} bytes"
                )));
            }
            whole.extend_from_slice(&piece);
        } else {
            return Ok(*rest == Rest::Done);
        }
    }
}

impl AnswerBody {
    /// Appends what of the body has been read; is it whole?
    ///
    /// # Errors
    /// It is longer than so many bytes, or not HTTP.
    pub(super) fn take_into(&mut self, whole: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
        take_into(
            &mut self.rest,
            &mut self.connection.unread,
            whole,
            bytes_max,
        )
    }

    /// The next piece; `None` at the end. Nothing is lost where the wait for it is given up.
    ///
    /// # Errors
    /// The connection was closed before the end, or what came is not HTTP.
    pub async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(piece) = self.rest.take(&mut self.connection.unread)? {
                return Ok(Some(piece));
            }
            if self.rest == Rest::Done {
                return Ok(None);
            }
            self.read_more().await?;
        }
    }

    /// Reads on in a body that is not whole.
    ///
    /// # Errors
    /// The connection was closed before the end.
    pub(super) async fn read_more(&mut self) -> io::Result<()> {
        let at_most = match self.rest {
            Rest::Done => return Ok(()),
            Rest::Length(left) => left.min(BODY_READ_BYTES as u64) as usize,
            Rest::Chunks(_) | Rest::UntilClosed => READ_BYTES,
        };
        if self.connection.read(at_most).await? > 0 {
            return Ok(());
        }
        if self.rest == Rest::UntilClosed {
            self.rest = Rest::Done;
            return Ok(());
        }
        let text = "the connection was closed before the answer was whole";
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
    }

    /// The connection, if it may serve again.
    pub(super) fn into_connection(self) -> Option<Connection> {
        let is_free =
            self.rest == Rest::Done && self.keeps_open && self.connection.unread.is_empty();
        is_free.then_some(self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(work)
    }

    fn request<'a>(
        headers: &'a HeaderMap,
        body: &'a [u8],
        has_length: bool,
    ) -> OutgoingRequest<'a> {
        OutgoingRequest {
            method: &Method::POST,
            target: "/x",
            headers,
            extra: None,
            body,
            has_length,
        }
    }

    #[test]
    fn a_request_is_written_with_its_length_or_in_chunks() {
        fn check(request: &OutgoingRequest<'_>, expect: &str) {
            let mut out = Vec::new();
            request.write_head(&mut out);
            out.extend_from_slice(request.body);
            out.extend_from_slice(request.end());
            assert_eq!(String::from_utf8_lossy(&out), expect);
        }
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("h"));
        headers.insert("content-length", HeaderValue::from_static("9"));
        let head = "POST /x HTTP/1.1\r\nhost: h\r\n";
        check(
            &request(&headers, b"abc", true),
            &format!("{head}content-length: 3\r\n\r\nabc"),
        );
        check(
            &request(&headers, b"abc", false),
            &format!("{head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        );
        check(
            &request(&headers, b"", false),
            &format!("{head}content-length: 0\r\n\r\n"),
        );
        headers.remove("content-length");
        let extra = HeaderValue::from_static("other");
        let get = OutgoingRequest {
            method: &Method::GET,
            extra: Some((hyper::header::HOST, &extra)),
            ..request(&headers, b"", true)
        };
        check(&get, "GET /x HTTP/1.1\r\nhost: other\r\n\r\n");
    }

    #[test]
    fn a_connection_serves_again_when_its_answer_is_whole_and_nothing_follows() {
        let check = |answer: &'static str, serves_again: bool| {
            block_on(async {
                let (ours, mut theirs) = tokio::io::duplex(1 << 16);
                theirs.write_all(answer.as_bytes()).await.unwrap();
                let headers = HeaderMap::new();
                let asked = Connection::new(Box::new(ours));
                let asked = asked.exchange(&request(&headers, b"abc", true)).await;
                let mut body = asked.ok().expect(answer).into_body();
                while body.piece().await.unwrap().is_some() {}
                let free = body.into_connection();
                assert_eq!(free.is_some(), serves_again, "{answer}");
                if let Some(mut connection) = free {
                    assert!(!connection.is_closed());
                    drop(theirs);
                    assert!(connection.is_closed());
                }
            });
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na", true);
        check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab", false);
        check(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            false,
        );
    }

    #[test]
    fn an_answer_before_the_request_is_written_is_taken() {
        block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1 << 10);
            let answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n";
            theirs.write_all(answer).await.unwrap();
            let (headers, body) = (HeaderMap::new(), vec![b'x'; 1 << 20]);
            let asked = Connection::new(Box::new(ours));
            let asked = asked.exchange(&request(&headers, &body, true)).await;
            let response = asked.ok().expect("it is answered");
            assert_eq!(response.status(), 413);
            assert!(response.into_body().into_connection().is_none());
        });
    }

    #[test]
    fn a_connection_that_is_closed_was_not_written_to_or_has_no_answer() {
        block_on(async {
            let (ours, theirs) = tokio::io::duplex(1 << 10);
            drop(theirs);
            let headers = HeaderMap::new();
            let asked = Connection::new(Box::new(ours));
            let asked = asked.exchange(&request(&headers, b"abc", true)).await;
            assert!(matches!(asked.err(), Some(Failed::BeforeWritten(_))));
            let (ours, mut theirs) = tokio::io::duplex(1 << 10);
            let cut = async {
                theirs.read_u8().await.unwrap();
                drop(theirs);
            };
            let asked = Connection::new(Box::new(ours));
            let request = request(&headers, b"abc", true);
            let (asked, ()) = tokio::join!(asked.exchange(&request), cut);
            assert!(matches!(asked.err(), Some(Failed::Other(_))));
        });
    }
}
