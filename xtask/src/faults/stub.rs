//! The HTTP server that a sink writes to: it keeps what it has taken, and may refuse some requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::chance::Chance;

/// Of 100 requests, those that are answered 500, those that are answered 429, and those whose connection
/// ends without an answer: every other one of these was taken.
const FAILED: u64 = 7;
const TOO_MANY: u64 = 3;
const RESET: u64 = 2;

#[derive(Default)]
struct Taken {
    /// Of the requests that are refused; without it, none is.
    seed: Option<u64>,
    lines: Mutex<String>,
    requests: AtomicU64,
    count: AtomicU64,
    is_over: AtomicBool,
}

pub struct Stub {
    pub port: u16,
    taken: Arc<Taken>,
    thread: Option<JoinHandle<()>>,
}

impl Stub {
    /// One that refuses some requests.
    pub fn start(seed: u64) -> anyhow::Result<Stub> {
        Stub::listen(0, Some(seed))
    }

    /// One that takes all of them, on this port.
    pub fn taking(port: u16) -> anyhow::Result<Stub> {
        Stub::listen(port, None)
    }

    fn listen(port: u16, seed: Option<u64>) -> anyhow::Result<Stub> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let taken = Arc::new(Taken {
            seed,
            ..Taken::default()
        });
        let own = Arc::clone(&taken);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if own.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let own = Arc::clone(&own);
                std::thread::spawn(move || own.serve(stream));
            }
        });
        Ok(Stub {
            port,
            taken,
            thread: Some(thread),
        })
    }

    /// Requests that were taken.
    pub fn count(&self) -> u64 {
        self.taken.count.load(Ordering::Relaxed)
    }

    /// Ends, with the bodies of all that it has taken.
    pub fn end(self) -> String {
        self.taken.end()
    }

    /// Their bodies, in the order in which they were taken.
    pub fn lines(&self) -> String {
        let lines = self.taken.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.taken.end();
        // It waits for a connection; where that fails, the listener is gone already.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Taken {
    /// Until the client or the server has gone, or its connection is reset.
    fn serve(&self, stream: TcpStream) {
        let Ok(write) = stream.try_clone() else {
            return;
        };
        let mut from = BufReader::new(stream);
        while let Some(body) = request(&mut from) {
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let roll = self.seed.map_or(u64::MAX, |seed| {
                Chance(seed ^ number.wrapping_mul(0x9e37)).below(100)
            });
            let is_reset = (FAILED + TOO_MANY..FAILED + TOO_MANY + RESET).contains(&roll);
            let is_taken = roll >= FAILED + TOO_MANY && (!is_reset || number.is_multiple_of(2));
            let is_over = is_taken && !self.take(&body);
            if is_reset || is_over {
                write.shutdown(Shutdown::Both).ok();
                return;
            }
            let status = match roll {
                0..FAILED => "500 Internal Server Error",
                roll if roll < FAILED + TOO_MANY => "429 Too Many Requests",
                _ => "200 OK",
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if (&write).write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    /// False: it is over.
    fn take(&self, body: &str) -> bool {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        lines.push_str(body.trim_end());
        lines.push('\n');
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes nothing from now on; what was taken.
    fn end(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_over.store(true, Ordering::Relaxed);
        lines.clone()
    }
}

/// The body of the next request; `None` where the client has gone, in the middle of one too.
fn request(from: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let line = line(from)?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        is_chunked |= line.starts_with("transfer-encoding:");
    }
    let mut body = Vec::new();
    while is_chunked {
        let size = usize::from_str_radix(&line(from)?, 16).ok()?;
        piece(from, size, &mut body)?;
        line(from)?;
        is_chunked = size > 0;
    }
    piece(from, length, &mut body)?;
    String::from_utf8(body).ok()
}

fn line(from: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = from.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

fn piece(from: &mut BufReader<TcpStream>, length: usize, into: &mut Vec<u8>) -> Option<()> {
    let start = into.len();
    into.resize(start + length, 0);
    from.read_exact(&mut into[start..]).ok()
}
