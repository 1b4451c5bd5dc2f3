//! Several requests that leave a connection together, whose answers come in their order (RFC 9112, 9.3.2).
//!
//! Promises: each request is answered or has failed once; what was not written, and what stands behind an answer
//! that says `Connection: close`, was not looked at and may be sent by another connection. Answers are read while
//! requests are written. Never: for a server of which nobody has said that it takes requests so.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use super::answer::{Head, Rest};
use super::connection::{Connection, OutgoingRequest, READ_BYTES, take_into};

/// A whole answer.
#[derive(Debug)]
pub struct WholeAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub(super) keeps_open: bool,
    pub(super) says_close: bool,
}

/// A connection with requests on their way.
pub(super) struct Pipeline {
    connection: Connection,
    /// All requests.
    bytes: Vec<u8>,
    /// Where each of them begins.
    starts: Vec<usize>,
    written: usize,
    is_flushed: bool,
    /// Why no more can be written. What was answered before can still be read.
    broken: Option<io::Error>,
    searched: usize,
}

impl Pipeline {
    pub fn new(mut connection: Connection, requests: &[OutgoingRequest<'_>]) -> Pipeline {
        let mut bytes = std::mem::take(&mut connection.unwritten);
        bytes.clear();
        let mut starts = Vec::with_capacity(requests.len());
        for request in requests {
            starts.push(bytes.len());
            request.write_head(&mut bytes);
            bytes.extend_from_slice(request.body);
            bytes.extend_from_slice(request.end());
        }
        Pipeline {
            connection,
            bytes,
            starts,
            written: 0,
            is_flushed: false,
            broken: None,
            searched: 0,
        }
    }

    /// The first request of which the server can have seen nothing.
    pub fn first_unwritten(&self) -> usize {
        self.starts.partition_point(|&start| start < self.written)
    }

    /// The next answer, to a request of this method.
    ///
    /// # Errors
    /// The connection has ended before it was whole, or what came is no answer.
    pub async fn next(&mut self, method: &Method, bytes_max: usize) -> io::Result<WholeAnswer> {
        let head = loop {
            let unread = &mut self.connection.unread;
            if let Some(head) = Head::take(unread, &mut self.searched, method)? {
                break head;
            }
            if self.turn().await? == 0 {
                return Err(self.cut_off("the connection was closed before the answer came"));
            }
        };
        let (mut rest, mut body) = (head.rest, Vec::new());
        while !take_into(&mut rest, &mut self.connection.unread, &mut body, bytes_max)? {
            if self.turn().await? > 0 {
                continue;
            }
            if rest == Rest::UntilClosed {
                break;
            }
            return Err(self.cut_off("the connection was closed before the answer was whole"));
        }
        Ok(WholeAnswer {
            status: head.status,
            headers: head.headers,
            body,
            keeps_open: head.keeps_open,
            says_close: head.says_close,
        })
    }

    fn cut_off(&mut self, why: &str) -> io::Error {
        let broken = self.broken.take();
        broken.unwrap_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, why))
    }

    /// Writes what is left, as far as it goes, and reads: how many bytes?
    async fn turn(&mut self) -> io::Result<usize> {
        let Connection { line, unread, .. } = &mut self.connection;
        if unread.capacity() - unread.len() < READ_BYTES.div_ceil(2) {
            unread.reserve(READ_BYTES);
        }
        poll_fn(|context| {
            while self.broken.is_none() && !self.is_flushed {
                let left = &self.bytes[self.written..];
                let line = Pin::new(&mut *line);
                let written = match left.is_empty() {
                    true => line.poll_flush(context).map_ok(|()| None),
                    false => line.poll_write(context, left).map_ok(Some),
                };
                match written {
                    Poll::Pending => break,
                    Poll::Ready(Ok(None)) => self.is_flushed = true,
                    Poll::Ready(Ok(Some(0))) => {
                        self.broken = Some(io::ErrorKind::WriteZero.into());
                    }
                    Poll::Ready(Ok(Some(count))) => self.written += count,
                    Poll::Ready(Err(error)) => self.broken = Some(error),
                }
            }
            pin!(line.read_buf(unread)).poll(context)
        })
        .await
    }

    /// The connection, all of whose requests are answered, if it may serve again.
    pub fn into_connection(self) -> Option<Connection> {
        let mut connection = self.connection;
        connection.unwritten = self.bytes;
        (self.is_flushed && connection.unread.is_empty()).then_some(connection)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const METHOD: &Method = &Method::POST;

    /// What comes of three requests when the server answers so, and closes where `is_closed`: statuses with their
    /// bodies, or the kinds of errors; and whether the connection may serve again, where all are answered.
    fn check(answers: &'static str, is_closed: bool, expect: &[&str], serves_again: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1 << 10);
            let headers = HeaderMap::new();
            let request = |body| OutgoingRequest {
                method: METHOD,
                target: "/",
                headers: &headers,
                extra: None,
                body,
                has_length: true,
            };
            let requests = [request(b"a"), request(b"bb"), request(b"ccc")];
            let mut pipeline = Pipeline::new(Connection::new(Box::new(ours)), &requests);
            assert_eq!(pipeline.first_unwritten(), 0);
            let serving = async {
                let mut read = vec![0; pipeline_len()];
                theirs.read_exact(&mut read).await.unwrap();
                // In two pieces.
                let (first, rest) = answers.as_bytes().split_at(answers.len() / 2);
                theirs.write_all(first).await.unwrap();
                tokio::task::yield_now().await;
                theirs.write_all(rest).await.unwrap();
                let kept = (!is_closed).then_some(theirs);
                std::future::pending::<()>().await;
                drop(kept);
            };
            let asking = async {
                let mut found = Vec::new();
                for _ in 0..3 {
                    let answer = pipeline.next(METHOD, 100).await;
                    found.push(match &answer {
                        Ok(answer) => {
                            let body = String::from_utf8_lossy(&answer.body);
                            let close = if answer.says_close { " close" } else { "" };
                            format!("{}{body}{close}", answer.status.as_u16())
                        }
                        Err(error) => error.kind().to_string(),
                    });
                    if answer.is_err() {
                        break;
                    }
                }
                found
            };
            tokio::select! {
                found = asking => assert_eq!(found, expect, "{answers}"),
                () = serving => panic!("{answers}"),
            }
            assert_eq!(pipeline.first_unwritten(), 3);
            let is_answered = expect
                .iter()
                .all(|one| one.starts_with("200") || one.starts_with("503"));
            let serves = is_answered && pipeline.into_connection().is_some();
            assert_eq!(serves, serves_again, "{answers}");
        });
    }

    /// Bytes of the three requests.
    fn pipeline_len() -> usize {
        let head = "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n".len();
        3 * head + 6
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";
        let of = |parts: &[&str]| -> &'static str { Box::leak(parts.concat().into_boxed_str()) };
        let busy = "HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n";
        check(of(&[OK, busy, OK]), false, &["200x", "503no", "200x"], true);
        check(
            of(&[OK, OK, OK, "H"]),
            false,
            &["200x", "200x", "200x"],
            false,
        );
        check(
            of(&[OK, OK]),
            true,
            &["200x", "200x", "unexpected end of file"],
            false,
        );
        check(
            of(&[OK, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"]),
            true,
            &["200x", "unexpected end of file"],
            false,
        );
        let close = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\ny";
        check(
            of(&[OK, close]),
            true,
            &["200x", "200y close", "unexpected end of file"],
            false,
        );
        check(
            of(&[OK, "nonsense\r\n\r\n"]),
            false,
            &["200x", "invalid data"],
            false,
        );
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n";
        check(
            of(&[long, &"x".repeat(101)]),
            false,
            &["other error"],
            false,
        );
    }

    #[test]
    fn what_was_not_written_is_known() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1 << 10);
            let (headers, body) = (HeaderMap::new(), vec![b'x'; 900]);
            let request = || OutgoingRequest {
                method: METHOD,
                target: "/",
                headers: &headers,
                extra: None,
                body: &body,
                has_length: true,
            };
            let requests = [request(), request(), request()];
            let mut pipeline = Pipeline::new(Connection::new(Box::new(ours)), &requests);
            let cut = async {
                theirs.read_u8().await.unwrap();
                drop(theirs);
            };
            let (answer, ()) = tokio::join!(pipeline.next(METHOD, 100), cut);
            assert!(answer.is_err());
            assert_eq!(pipeline.first_unwritten(), 2);
        });
    }
}
