//! Clients that hold a connection each: one thread and epoll, so that the load takes little of the machine.
//!
//! Every message carries its number and when it was sent ([`message`]). They are found in what comes whatever
//! frames them, and each client must get each number once and in order.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{ClockId, clock_gettime};

const BEFORE_NUMBER: &[u8] = br#""seq":""#;
const NUMBER_DIGITS: usize = 10;
const BEFORE_TIME: &[u8] = br#"","at":""#;
const TIME_DIGITS: usize = 16;

/// From the first to the last byte that a client looks at.
const MARK_BYTES: usize = BEFORE_NUMBER.len() + NUMBER_DIGITS + BEFORE_TIME.len() + TIME_DIGITS;

/// A JSON object of so many bytes.
pub(super) fn message(number: u64, at: u64, bytes: usize) -> String {
    let mut text = format!(r#"{{"seq":"{number:010}","at":"{at:016}","pad":""#);
    let pad = bytes.saturating_sub(text.len() + 2);
    text.extend(std::iter::repeat_n('x', pad));
    text + "\"}"
}

/// How long the head of an answer may take.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// The longest head that is read.
const HEAD_BYTES: usize = 16 << 10;

/// Events of epoll that are taken at once.
const EVENTS: usize = 512;

/// When a message was first and last heard, microseconds since the crowd began.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrival {
    pub clients: u32,
    pub last: u64,
}

struct Client {
    stream: mio::net::TcpStream,
    /// The head of the answer while it comes, then the begin of a mark that is not whole.
    held: Vec<u8>,
    is_open: bool,
    /// Number of the message that comes next, once one has come.
    next: Option<u64>,
    /// The latest `id:` of server-sent events, where it is looked for.
    id: Vec<u8>,
}

pub(super) struct Crowd {
    poll: Poll,
    begun: Instant,
    clients: Vec<Client>,
    ready: Events,
    buffer: Vec<u8>,
    open: usize,
    /// By the number of the message.
    arrivals: Vec<Arrival>,
    pub heard: u64,
    /// Microseconds from the sending of each message to each client, summed up.
    pub late: u64,
    keeps_ids: bool,
}

impl Crowd {
    pub fn new() -> anyhow::Result<Crowd> {
        Ok(Crowd {
            poll: Poll::new()?,
            begun: Instant::now(),
            clients: Vec::new(),
            ready: Events::with_capacity(EVENTS),
            buffer: vec![0; 256 << 10],
            open: 0,
            arrivals: Vec::new(),
            heard: 0,
            late: 0,
            keeps_ids: false,
        })
    }

    /// Remembers the id of the latest event of each client from now on.
    pub fn keep_ids(&mut self) {
        self.keeps_ids = true;
    }

    /// Microseconds since the crowd began.
    pub fn now(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Connects so many clients more; each sends its request, and all have a good answer at the end.
    ///
    /// # Errors
    /// One is refused, or has no answer within 30 seconds.
    pub fn connect(
        &mut self,
        address: SocketAddr,
        count: usize,
        request: impl Fn(usize) -> String,
    ) -> anyhow::Result<()> {
        for index in self.clients.len()..self.clients.len() + count {
            let mut stream = TcpStream::connect(address).context("cannot connect")?;
            stream.set_nodelay(true)?;
            stream.write_all(request(index).as_bytes())?;
            stream.set_nonblocking(true)?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            let registry = self.poll.registry();
            registry.register(&mut stream, Token(index), Interest::READABLE)?;
            self.clients.push(Client {
                stream,
                held: Vec::new(),
                is_open: false,
                next: None,
                id: Vec::new(),
            });
            // Heads that have come are taken now: a server with many answers to give is not kept waiting.
            if index % 64 == 0 {
                self.turn(Instant::now())?;
            }
        }
        let deadline = Instant::now() + HEAD_MAX;
        while self.open < self.clients.len() {
            ensure!(
                Instant::now() < deadline,
                "{} of {} clients have an answer",
                self.open,
                self.clients.len()
            );
            self.turn(Instant::now() + Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// Takes what comes until then; once at least.
    ///
    /// # Errors
    /// A connection has ended, or a message did not come once and in order.
    pub fn turn(&mut self, until: Instant) -> anyhow::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.poll.poll(&mut self.ready, Some(left))?;
            let ready: Vec<Token> = self.ready.iter().map(|event| event.token()).collect();
            for token in &ready {
                // A read that fills the buffer may have left something; no event says so again.
                while self.read(token.0)? {}
            }
            if Instant::now() >= until && (ready.is_empty() || left.is_zero()) {
                return Ok(());
            }
        }
    }

    /// Takes what a client's socket holds, as much as the buffer takes; whether there may be more.
    fn read(&mut self, index: usize) -> anyhow::Result<bool> {
        let now = self.now();
        let client = &mut self.clients[index];
        let held = client.held.len();
        self.buffer[..held].copy_from_slice(&client.held);
        let count = match client.stream.read(&mut self.buffer[held..]) {
            Ok(0) => bail!("the server has ended the connection of client {index}"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context(format!("client {index}")),
        };
        client.held.clear();
        let is_full = held + count == self.buffer.len();
        let mut bytes = &self.buffer[..held + count];
        if !client.is_open {
            let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
                ensure!(
                    bytes.len() < HEAD_BYTES,
                    "client {index}: a head without an end"
                );
                client.held.extend_from_slice(bytes);
                return Ok(is_full);
            };
            let head = String::from_utf8_lossy(&bytes[..end]);
            let status = head.split(' ').nth(1).unwrap_or_default();
            ensure!(
                matches!(status, "200" | "101"),
                "client {index} was answered: {}",
                String::from_utf8_lossy(bytes)
            );
            client.is_open = true;
            self.open += 1;
            bytes = &bytes[end + 4..];
        }
        if self.keeps_ids
            && let Some(at) = memmem::rfind(bytes, b"id: ")
            && let Some(end) = memchr::memchr(b'\n', &bytes[at..])
        {
            client.id = bytes[at + 4..at + end].trim_ascii().to_vec();
        }
        while let Some(at) = memmem::find(bytes, BEFORE_NUMBER) {
            let Some(mark) = bytes.get(at..at + MARK_BYTES) else {
                bytes = &bytes[at..];
                break;
            };
            bytes = &bytes[at + MARK_BYTES..];
            let digits = &mark[BEFORE_NUMBER.len()..];
            let number = whole(&digits[..NUMBER_DIGITS])?;
            let sent = whole(&digits[NUMBER_DIGITS + BEFORE_TIME.len()..])?;
            if let Some(next) = client.next {
                ensure!(
                    number == next,
                    "client {index} has got message {number} where {next} was due"
                );
            }
            client.next = Some(number + 1);
            let number = number as usize;
            if self.arrivals.len() <= number {
                self.arrivals.resize(number + 1, Arrival::default());
            }
            let arrival = &mut self.arrivals[number];
            arrival.clients += 1;
            arrival.last = now;
            self.heard += 1;
            self.late += now.saturating_sub(sent);
        }
        // A mark may go on in what comes next.
        let tail = bytes.len().min(MARK_BYTES - 1);
        let tail = &bytes[bytes.len() - tail..];
        let begin = match memmem::find(tail, BEFORE_NUMBER) {
            Some(at) => at,
            None => tail.len() - tail.len().min(BEFORE_NUMBER.len() - 1),
        };
        client.held.extend_from_slice(&tail[begin..]);
        Ok(is_full)
    }

    /// Writes to a client's connection, whatever its socket holds already.
    ///
    /// # Errors
    /// The connection has ended, or takes nothing for a second.
    pub fn send(&mut self, index: usize, bytes: &[u8]) -> anyhow::Result<()> {
        let mut rest = bytes;
        let deadline = Instant::now() + Duration::from_secs(1);
        while !rest.is_empty() {
            match self.clients[index].stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline =>
                {
                    self.turn(Instant::now())?;
                }
                Err(error) => return Err(error).context(format!("client {index} cannot send")),
            }
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// When the message was heard by how many.
    pub fn arrival(&self, number: u64) -> Arrival {
        let arrival = self.arrivals.get(number as usize);
        arrival.copied().unwrap_or_default()
    }

    /// Takes what comes until so many messages were heard in all.
    ///
    /// # Errors
    /// They did not come within this time, or as [`Crowd::turn`].
    pub fn wait_for(&mut self, heard: u64, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        while self.heard < heard {
            ensure!(
                Instant::now() < deadline,
                "{} of {heard} messages came",
                self.heard
            );
            self.turn(Instant::now() + Duration::from_millis(2))?;
        }
        Ok(())
    }

    /// The ids of the latest events of all clients.
    pub fn ids(&self) -> Vec<String> {
        let id = |client: &Client| String::from_utf8_lossy(&client.id).into_owned();
        self.clients.iter().map(id).collect()
    }
}

fn whole(digits: &[u8]) -> anyhow::Result<u64> {
    let text = std::str::from_utf8(digits).context("a number")?;
    text.parse().context("a number")
}

/// CPU seconds of this process.
pub(super) fn own_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Posts messages over a connection that is kept open.
pub(super) struct Publisher {
    stream: TcpStream,
    head: String,
    answers: Vec<u8>,
    unanswered: usize,
}

impl Publisher {
    /// `path` of the server at `address`; `headers` end with CR LF each.
    pub fn connect(address: SocketAddr, path: &str, headers: &str) -> anyhow::Result<Publisher> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Publisher {
            stream,
            head: format!(
                "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{headers}"
            ),
            answers: Vec::new(),
            unanswered: 0,
        })
    }

    pub fn post(&mut self, body: &str) -> io::Result<()> {
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.unanswered += 1;
        self.stream.write_all(request.as_bytes())
    }

    /// Reads the answers to all that was posted.
    ///
    /// # Errors
    /// One is no success, or none comes for 30 seconds.
    pub fn answered(&mut self) -> anyhow::Result<()> {
        self.stream.set_read_timeout(Some(HEAD_MAX))?;
        let mut buffer = [0; 16 << 10];
        while self.unanswered > 0 {
            let count = self.stream.read(&mut buffer).context("an answer")?;
            ensure!(count > 0, "the server has ended the publisher's connection");
            self.answers.extend_from_slice(&buffer[..count]);
            while let Some(at) = memmem::find(&self.answers, b"HTTP/1.1 ") {
                let Some(status) = self.answers.get(at + 9..at + 12) else {
                    break;
                };
                if !status.starts_with(b"2") {
                    bail!(
                        "published, and answered: {}",
                        String::from_utf8_lossy(&self.answers)
                    );
                }
                self.answers.drain(..at + 12);
                self.unanswered -= 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_message_has_its_bytes() {
        let text = message(7, 1_234, 82);
        assert_eq!(text.len(), 82);
        assert!(text.contains(r#""seq":"0000000007","at":"0000000000001234""#));
    }

    /// Whatever pieces the bytes come in.
    #[test]
    fn each_message_is_heard_once_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        for piece in [1, 7, 50, 1000] {
            let served = listener.try_clone().expect("a handle");
            let server = std::thread::spawn(move || {
                let (mut stream, _) = served.accept().expect("a client");
                let mut text = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
                for number in 1..=20 {
                    text += &format!("id: a-{number}\ndata: {}\n\n", message(number, 0, 82));
                }
                for part in text.as_bytes().chunks(piece) {
                    stream.write_all(part).expect("it reads");
                }
                stream.write_all(message(30, 0, 82).as_bytes()).ok();
                stream
            });
            let mut crowd = Crowd::new().expect("epoll");
            let request = |_| "GET / HTTP/1.1\r\n\r\n".into();
            let heard = crowd.connect(address, 1, request);
            let heard = heard.and_then(|()| crowd.wait_for(21, Duration::from_secs(10)));
            let error = heard.expect_err("21 is due");
            assert!(
                error.to_string().contains("message 30 where 21 was due"),
                "{error}"
            );
            assert_eq!(crowd.heard, 20);
            drop(server.join());
        }
    }
}
