//! An HTTP server that looks at everything an app sends it.
//!
//! It shares the machine with what is measured, so it is lean: one thread, and the requests that are read
//! together are answered by one write.

use std::borrow::Cow;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use httparse::{EMPTY_HEADER, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::Server;

/// Most headers of a request.
const HEADERS_MAX: usize = 32;

/// The number of the event that a body carries; an error says what is wrong with the body.
pub type Judge = fn(u64, &[u8]) -> anyhow::Result<u64>;

/// Answers each request with its own body once it was looked at.
pub struct Receiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _server: Server,
}

struct Shared {
    judge: Judge,
    seen: Mutex<Seen>,
    changed: Condvar,
}

/// What has come so far.
#[derive(Default, Clone, Debug)]
pub struct Seen {
    pub requests: u64,
    /// How many somebody waits for.
    awaited: Option<u64>,
    /// By number.
    numbers: Vec<bool>,
    /// The first body that was wrong, and why.
    pub wrong: Option<String>,
}

impl Seen {
    /// Events that came at least once.
    pub fn events(&self) -> u64 {
        self.numbers.iter().filter(|came| **came).count() as u64
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, body: &[u8]) {
        let mut seen = self.seen();
        let judged = (self.judge)(seen.requests, body);
        seen.requests += 1;
        match judged {
            Ok(number) => {
                let number = number as usize;
                if seen.numbers.len() <= number {
                    seen.numbers.resize(number + 1, false);
                }
                seen.numbers[number] = true;
            }
            Err(why) => {
                let body = String::from_utf8_lossy(body);
                seen.wrong.get_or_insert_with(|| format!("{why}: {body}"));
            }
        }
        if seen.awaited.is_some_and(|awaited| seen.requests >= awaited) {
            self.changed.notify_all();
        }
    }
}

impl Receiver {
    /// Listens on a free port of this machine. `judge` gets the number of requests so far and a body.
    pub fn start(judge: Judge) -> anyhow::Result<Receiver> {
        let shared = Arc::new(Shared {
            judge,
            seen: Mutex::default(),
            changed: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let server = Server::start("receiver", Ipv4Addr::LOCALHOST, move |stream| {
            let shared = Arc::clone(&served);
            // A client that goes away sends again what was not answered.
            async move { answer_all(stream, &shared).await.ok() }
        })?;
        Ok(Receiver {
            address: server.address,
            shared,
            _server: server,
        })
    }

    /// Until so many requests have come.
    ///
    /// # Errors
    /// None came for a minute.
    pub fn wait_for(&self, requests: u64) -> anyhow::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(60);
        const LOOK: Duration = Duration::from_secs(1);
        let mut seen = self.shared.seen();
        seen.awaited = Some(requests);
        let mut last = (seen.requests, Instant::now());
        while seen.requests < requests {
            if seen.requests > last.0 {
                last = (seen.requests, Instant::now());
            }
            if last.1.elapsed() > PATIENCE {
                bail!(
                    "{} of {requests} requests came, and none for a minute",
                    seen.requests
                );
            }
            let waited = self.shared.changed.wait_timeout(seen, LOOK);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    pub fn seen(&self) -> Seen {
        self.shared.seen().clone()
    }
}

async fn answer_all(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let (mut unread, mut answers) = (Vec::new(), Vec::new());
    loop {
        let (mut at, mut is_last) = (0, false);
        while let Some(request) = Posted::parse(&unread[at..])? {
            shared.take(&request.body);
            request.answer(&mut answers);
            at += request.end;
            is_last |= request.is_last;
        }
        unread.drain(..at);
        stream.write_all(&answers).await?;
        answers.clear();
        if is_last || stream.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
    }
}

/// A whole request.
struct Posted<'a> {
    content_type: Option<&'a [u8]>,
    body: Cow<'a, [u8]>,
    /// Bytes of all of it.
    end: usize,
    /// None follows on its connection.
    is_last: bool,
}

impl<'a> Posted<'a> {
    /// The request at the start of these bytes, if all of it is there.
    fn parse(bytes: &'a [u8]) -> io::Result<Option<Posted<'a>>> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(bytes).map_err(io::Error::other)?;
        let Status::Complete(head) = parsed else {
            return Ok(None);
        };
        let of = |name: &str| {
            let mut headers = request.headers.iter();
            let found = headers.find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value)
        };
        let rest = &bytes[head..];
        let (body, length) = match of("content-length") {
            Some(length) => {
                let length = std::str::from_utf8(length).map_err(io::Error::other)?;
                let length = length.parse().map_err(io::Error::other)?;
                if rest.len() < length {
                    return Ok(None);
                }
                (Cow::Borrowed(&rest[..length]), length)
            }
            None if of("transfer-encoding").is_some() => match of_chunks(rest)? {
                None => return Ok(None),
                Some((body, length)) => (Cow::Owned(body), length),
            },
            None => (Cow::Borrowed(&rest[..0]), 0),
        };
        Ok(Some(Posted {
            content_type: of("content-type"),
            body,
            end: head + length,
            is_last: of("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close")),
        }))
    }

    /// Its own body.
    fn answer(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        if let Some(kind) = self.content_type {
            out.extend_from_slice(b"content-type: ");
            out.extend_from_slice(kind);
            out.extend_from_slice(b"\r\n");
        }
        let length = format!("content-length: {}\r\n\r\n", self.body.len());
        out.extend_from_slice(length.as_bytes());
        out.extend_from_slice(&self.body);
    }
}

/// A body of chunks without trailers, and how many bytes it took, if all of it is there.
fn of_chunks(bytes: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let size = httparse::parse_chunk_size(&bytes[at..]);
        let size = size.map_err(|_| io::Error::other("the size of a chunk"))?;
        let Status::Complete((line, size)) = size else {
            return Ok(None);
        };
        let end = at + line + size as usize + 2;
        let Some(chunk) = bytes.get(at + line..end) else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some((body, end)));
        }
        body.extend_from_slice(&chunk[..size as usize]);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn every_request_is_counted_once() {
        let receiver = Receiver::start(|_, body| {
            let text = std::str::from_utf8(body)?;
            Ok(text.parse()?)
        })
        .expect("it starts");
        for (body, chunked) in [("0", false), ("2", true), ("2", false), ("x", false)] {
            let mut stream = TcpStream::connect(receiver.address).expect("it listens");
            write!(
                stream,
                "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{}",
                match chunked {
                    true => format!("Transfer-Encoding: chunked\r\n\r\n1\r\n{body}\r\n0\r\n\r\n"),
                    false => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
                }
            )
            .expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
        }
        receiver.wait_for(4).expect("they came");
        let seen = receiver.seen();
        assert_eq!((seen.requests, seen.events()), (4, 2));
        assert!(seen.wrong.is_some_and(|why| why.ends_with(": x")));
    }
}
