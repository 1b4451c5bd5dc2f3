//! One connection to a server: login, writes in order, and keep-alives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::protocol::{Incoming, Said, publish};
use super::{Address, Login, PATIENCE, Server};
use connect::error::OpenError;
use connect::ids::Ids;
use connect::net::{Line, Liveness, Observed, dial};

/// Bytes that are read and written at once.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Blocks that may wait to be written.
const WAITING_MAX: usize = 256;

/// How a server calls a login that it refuses.
const DENIED: &str = "Authorization Violation";

/// Blocks of whole commands on their way out.
pub(super) type Out = mpsc::Sender<Vec<u8>>;

pub(super) fn channel() -> (Out, mpsc::Receiver<Vec<u8>>) {
    mpsc::channel(WAITING_MAX)
}

pub(super) struct Session {
    pub reader: Reader,
    pub writer: Writer,
    /// Of the longest message that the server takes.
    pub payload_bytes_max: usize,
    /// Begins the subjects of answers to this connection alone, without the dot behind it.
    pub inbox: String,
    pub liveness: Arc<Liveness>,
}

/// Why a connection, or a question to JetStream, came to nothing.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The number of the error where JetStream gave one.
    pub code: u64,
    pub text: String,
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal { code: 0, text }
    }
}

impl Session {
    /// Connects to the first address that lets us in.
    pub async fn open(server: &Server) -> Result<Session, OpenError> {
        let (mut causes, mut are_denied) = (Vec::new(), true);
        for address in &server.addresses {
            let opening = Session::open_at(server, address);
            let opened = tokio::time::timeout(server.timeout, opening).await;
            let late = || {
                Err("the server did not complete the login in time"
                    .to_owned()
                    .into())
            };
            let cause = match opened.unwrap_or_else(|_| late()) {
                Ok(session) => return Ok(session),
                Err(error) if server.addresses.len() == 1 => return Err(error),
                Err(OpenError::Denied(cause)) => cause,
                Err(OpenError::Unavailable(cause)) => {
                    are_denied = false;
                    cause
                }
            };
            causes.push(format!("{}:{}: {cause}", address.host, address.port));
        }
        let causes = causes.join("; ");
        Err(match are_denied {
            true => OpenError::Denied(causes),
            false => OpenError::Unavailable(causes),
        })
    }

    async fn open_at(server: &Server, address: &Address) -> Result<Session, OpenError> {
        let said = |e: std::io::Error| e.to_string();
        let (host, port) = (address.host.as_str(), address.port);
        let mut line = dial((host, port), server.timeout, None)
            .await
            .map_err(said)?;
        // The greeting comes in the clear, and nothing behind it before we have answered.
        let mut incoming = Incoming::default();
        let greeting = loop {
            match incoming.take()? {
                Some(Said::Info(json)) => break json,
                Some(_) => {
                    return Err("the other side does not speak NATS".to_owned().into());
                }
                None => fill(&mut line, &mut incoming.bytes).await?,
            }
        };
        let info: Json = serde_json::from_slice(&greeting)
            .map_err(|error| format!("the greeting of the server cannot be read: {error}"))?;
        let needs_tls = info["tls_required"].as_bool().unwrap_or(false);
        let line: Box<dyn Line> = match &server.tls {
            Some(tls) => Box::new(tls.connect(host, line).await.map_err(said)?),
            None if needs_tls => {
                return Err("the server asks for TLS: set auth.type='tls' or write \
                            tls://host:port"
                    .to_owned()
                    .into());
            }
            None => line,
        };
        let liveness = Arc::default();
        let line: Box<dyn Line> = Box::new(Observed::new(line, Arc::clone(&liveness)));
        let (from, to) = tokio::io::split(line);
        let mut session = Session {
            reader: Reader { from, incoming },
            writer: Writer { to },
            payload_bytes_max: info["max_payload"].as_u64().unwrap_or(1 << 20) as usize,
            inbox: format!("_INBOX.{}", Ids::default().next()),
            liveness,
        };
        let hello = hello(server, address);
        session.command(&format!("CONNECT {hello}\r\n")).await?;
        session.settle().await.map_err(|cause| match cause {
            cause if cause.contains(DENIED) => OpenError::Denied(cause),
            cause => OpenError::Unavailable(cause),
        })?;
        Ok(session)
    }

    /// Writes commands.
    pub async fn command(&mut self, commands: &str) -> Result<(), String> {
        self.writer.write(commands.as_bytes()).await
    }

    /// Waits until the server has taken all that was written; its refusal is the error.
    pub async fn settle(&mut self) -> Result<(), String> {
        self.command("PING\r\n").await?;
        loop {
            match self.reader.next().await? {
                Said::Pong => return Ok(()),
                Said::Ping => self.command("PONG\r\n").await?,
                Said::Error(cause) => return Err(format!("the server refuses: {cause}")),
                Said::Message(_) | Said::Info(_) | Said::Ok => {}
            }
        }
    }

    /// Asks JetStream before anything else is subscribed to but the inbox.
    pub async fn ask(&mut self, what: &str, question: &Json) -> Result<Json, Refusal> {
        let asking = async {
            let reply = format!("{}.ask", self.inbox);
            let mut block = Vec::new();
            let body = question.to_string();
            let subject = format!("$JS.API.{what}");
            publish(&mut block, &subject, Some(&reply), "", body.as_bytes());
            self.writer.write(&block).await?;
            loop {
                match self.reader.next().await? {
                    Said::Message(message) if message.subject == reply => {
                        return answer(message.status(), &message.payload);
                    }
                    Said::Ping => self.command("PONG\r\n").await?,
                    Said::Error(cause) => {
                        return Err(format!("the server refuses: {cause}").into());
                    }
                    _ => {}
                }
            }
        };
        let late = |_| Err("JetStream does not answer".to_owned().into());
        tokio::time::timeout(PATIENCE, asking)
            .await
            .unwrap_or_else(late)
    }
}

/// What JetStream has answered.
pub(super) fn answer(status: Option<(u16, String)>, payload: &[u8]) -> Result<Json, Refusal> {
    match status {
        Some((503, _)) => {
            return Err("the server has no JetStream: start it with -js"
                .to_owned()
                .into());
        }
        Some((code, words)) => return Err(format!("JetStream answers {code} {words}").into()),
        None => {}
    }
    let json: Json = serde_json::from_slice(payload)
        .map_err(|error| format!("an answer of JetStream cannot be read: {error}"))?;
    match json.get("error") {
        None => Ok(json),
        Some(error) => Err(Refusal {
            code: error["err_code"].as_u64().unwrap_or_default(),
            text: error["description"]
                .as_str()
                .unwrap_or("JetStream refuses")
                .to_owned(),
        }),
    }
}

fn hello(server: &Server, address: &Address) -> Json {
    let mut hello = json!({
        "verbose": false,
        "pedantic": false,
        "tls_required": server.tls.is_some(),
        "name": server.client,
        "lang": "headwater",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": 1,
        "headers": true,
        "no_responders": true,
    });
    let login = match &address.login {
        Login::Nobody => &server.login,
        login => login,
    };
    match login {
        Login::Nobody => {}
        Login::User(user, password) => {
            hello["user"] = user.as_str().into();
            hello["pass"] = password.as_str().into();
        }
        Login::Token(token) => hello["auth_token"] = token.as_str().into(),
    }
    hello
}

pub(super) struct Reader {
    from: ReadHalf<Box<dyn Line>>,
    incoming: Incoming,
}

impl Reader {
    /// What the server says next; nothing is lost where the wait is given up.
    pub async fn next(&mut self) -> Result<Said, String> {
        loop {
            if let Some(said) = self.incoming.take()? {
                return Ok(said);
            }
            fill(&mut self.from, &mut self.incoming.bytes).await?;
        }
    }
}

/// Reads what is there, or waits for it.
async fn fill(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<(), String> {
    buffer.reserve(BLOCK_BYTES);
    match from.read_buf(buffer).await {
        Ok(0) => Err("the server has closed the connection".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) struct Writer {
    to: WriteHalf<Box<dyn Line>>,
}

impl Writer {
    async fn write(&mut self, block: &[u8]) -> Result<(), String> {
        let written = async {
            self.to.write_all(block).await?;
            self.to.flush().await
        };
        written.await.map_err(|e| e.to_string())
    }

    /// Writes what comes until nobody sends any more, then closes its half.
    pub async fn run(&mut self, mut blocks: mpsc::Receiver<Vec<u8>>) -> Result<(), String> {
        while let Some(mut block) = blocks.recv().await {
            while block.len() < BLOCK_BYTES
                && let Ok(more) = blocks.try_recv()
            {
                block.extend_from_slice(&more);
            }
            self.write(&block).await?;
        }
        self.to.shutdown().await.map_err(|e| e.to_string())
    }
}

/// Questions for keep-alives, each with what its answer confirms. Answers come in the order of the
/// questions: behind a pong, the server has all that was written before its ping.
#[derive(Default)]
pub(super) struct Pings(Mutex<VecDeque<Option<u64>>>);

impl Pings {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a block with a ping behind it, whose answer gives `confirms`.
    pub async fn send(
        &self,
        out: &Out,
        mut block: Vec<u8>,
        confirms: Option<u64>,
    ) -> Result<(), ()> {
        // The place first, so that pings are noted in the order in which they are written.
        let place = out.reserve().await.map_err(|_| ())?;
        block.extend_from_slice(b"PING\r\n");
        self.lock().push_back(confirms);
        place.send(block);
        Ok(())
    }

    /// The oldest question was answered; what that confirms.
    pub fn answered(&self) -> Option<u64> {
        self.lock().pop_front().flatten()
    }

    /// Looks for keep-alives; returns when the server is lost.
    pub async fn watch(&self, liveness: &Liveness, quiet: Duration, out: &Out) -> String {
        let ask = || {
            // Where the queue is full, what waits in it is the sign of life.
            if let Ok(place) = out.try_reserve() {
                self.lock().push_back(None);
                place.send(b"PING\r\n".to_vec());
            }
        };
        liveness.watch(quiet, ask).await
    }
}
