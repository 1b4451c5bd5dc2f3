//! One connection to a broker: let in, asked, and watched for signs of life.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::wire::{self, Deliver, Frame, Method, Traits, parse};
use super::{Broker, PATIENCE};
use crate::net::{Line, Signs, dial};

/// Bytes that are read and written at once.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Blocks that may wait to be written.
const WAITING_MAX: usize = 256;

/// The longest frame that we agree to.
const FRAME_MAX: u32 = 128 << 10;

/// Seconds between the broker's signs of life, twice. A longer heartbeat would let a silent broker
/// pass for a living one.
const HEARTBEAT_MAX: u16 = 4;

/// How often we give a sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// The longest message; brokers allow an eighth of it.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;

/// What there is no exchange or queue of.
const NOT_FOUND: u16 = 404;

/// Blocks of whole frames on their way out.
pub(super) type Out = mpsc::Sender<Vec<u8>>;

pub(super) fn channel() -> (Out, mpsc::Receiver<Vec<u8>>) {
    mpsc::channel(WAITING_MAX)
}

pub(super) struct Session {
    pub reader: Reader,
    pub writer: Writer,
    /// Of the longest frame.
    pub frame_max: usize,
    /// Are there signs of life?
    pub beats: bool,
}

impl Session {
    /// Connects and is let in.
    pub async fn open(broker: &Broker) -> Result<Session, String> {
        let opening = Session::open_slowly(broker);
        let opened = tokio::time::timeout(PATIENCE, opening).await;
        opened.unwrap_or_else(|_| Err("the broker did not let us in in time".to_owned()))
    }

    async fn open_slowly(broker: &Broker) -> Result<Session, String> {
        let address = &broker.address;
        let to = (address.host.as_str(), address.port);
        let line = dial(to, PATIENCE, broker.tls.as_ref()).await;
        let (from, to) = tokio::io::split(line.map_err(|e| e.to_string())?);
        let mut session = Session {
            reader: Reader {
                from,
                buffer: BytesMut::new(),
            },
            writer: Writer { to },
            frame_max: FRAME_MAX as usize,
            beats: false,
        };
        session.writer.write(wire::GREETING).await?;
        match session.method().await? {
            Method::Start { mechanisms } if mechanisms.split(' ').any(|m| m == "PLAIN") => {}
            Method::Start { mechanisms } => {
                return Err(format!(
                    "the broker asks for one of {mechanisms}, we have a name and a password"
                ));
            }
            _ => return Err("the broker does not begin as AMQP does".to_owned()),
        }
        let (user, password) = (&address.user, &address.password);
        session
            .say(|out| wire::start_ok(out, &broker.name, user, password))
            .await?;
        let Method::Tune {
            frame_max,
            heartbeat,
        } = session.method().await?
        else {
            return Err("the broker says something else than it should".to_owned());
        };
        let frame_max = match frame_max {
            0 => FRAME_MAX,
            theirs => theirs.min(FRAME_MAX),
        };
        let beat = match (broker.heartbeat, heartbeat) {
            (0, _) => 0,
            (ours, 0) => ours.min(HEARTBEAT_MAX),
            (ours, theirs) => ours.min(theirs).min(HEARTBEAT_MAX),
        };
        session.frame_max = frame_max as usize;
        session.beats = beat > 0;
        session
            .say(|out| {
                wire::tune_ok(out, frame_max, beat);
                wire::open(out, &address.vhost);
            })
            .await?;
        match session.method().await? {
            Method::OpenOk => Ok(session),
            _ => Err("the broker says something else than it should".to_owned()),
        }
    }

    pub async fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let mut block = Vec::new();
        write(&mut block);
        self.writer.write(&block).await
    }

    /// The next method; the end of the connection is an error.
    async fn method(&mut self) -> Result<Method, String> {
        loop {
            match self.reader.frame().await? {
                Frame::Method {
                    channel: 0,
                    method: Method::Close { code, text },
                } => {
                    // It closes without that as well.
                    self.say(|out| wire::close_ok(out, 0)).await.ok();
                    return Err(format!("the broker says {code} {text}"));
                }
                Frame::Method { method, .. } => return Ok(method),
                Frame::Header { .. } | Frame::Body(_) | Frame::Heartbeat => {}
            }
        }
    }

    /// Says something that is answered, and gives the answer. A channel that ends by it is opened again:
    /// the inner error, with its code.
    pub async fn ask(
        &mut self,
        channel: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Result<Method, (u16, String)>, String> {
        let asking = async {
            self.say(write).await?;
            match self.method().await? {
                Method::Close { code, text } => {
                    self.say(|out| {
                        wire::close_ok(out, channel);
                        wire::channel_open(out, channel);
                    })
                    .await?;
                    self.method().await?;
                    Ok(Err((code, format!("the broker says {code} {text}"))))
                }
                method => Ok(Ok(method)),
            }
        };
        tokio::time::timeout(PATIENCE, asking)
            .await
            .unwrap_or_else(|_| Err("the broker does not answer".to_owned()))
    }

    /// As [`Session::ask`], where the end of the channel is the end.
    pub async fn must(
        &mut self,
        channel: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Method, String> {
        self.ask(channel, write).await?.map_err(|(_, text)| text)
    }

    /// Finds what `declare` declares, or makes it where it is not there.
    pub async fn ensure(
        &mut self,
        channel: u16,
        traits: Traits,
        declare: impl Fn(&mut Vec<u8>, Traits),
    ) -> Result<Method, String> {
        let asked = Traits {
            is_passive: true,
            ..traits
        };
        match self.ask(channel, |out| declare(out, asked)).await? {
            Ok(method) => Ok(method),
            Err((NOT_FOUND, _)) => self.must(channel, |out| declare(out, traits)).await,
            Err((_, text)) => Err(text),
        }
    }
}

pub(super) struct Reader {
    from: ReadHalf<Box<dyn Line>>,
    buffer: BytesMut,
}

impl Reader {
    /// The next frame; nothing is lost where the wait is given up.
    pub async fn frame(&mut self) -> Result<Frame, String> {
        loop {
            if let Some(frame) = parse(&mut self.buffer)? {
                return Ok(frame);
            }
            self.buffer.reserve(BLOCK_BYTES);
            match self.from.read_buf(&mut self.buffer).await {
                Ok(0) => return Err("the broker has closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
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

    /// Writes what comes until nobody sends any more, then takes leave.
    pub async fn run(&mut self, mut blocks: mpsc::Receiver<Vec<u8>>) -> Result<(), String> {
        while let Some(mut block) = blocks.recv().await {
            while block.len() < BLOCK_BYTES
                && let Ok(more) = blocks.try_recv()
            {
                block.extend_from_slice(&more);
            }
            self.write(&block).await?;
        }
        let mut block = Vec::new();
        wire::close(&mut block);
        self.write(&block).await?;
        self.to.shutdown().await.map_err(|e| e.to_string())
    }
}

/// Gives signs of life, and looks for those of the broker; returns when it is lost.
pub(super) async fn watch(signs: &Signs, beats: bool, out: &Out) -> String {
    if !beats {
        return std::future::pending().await;
    }
    let giving = async {
        let mut ticks = tokio::time::interval(BEAT);
        loop {
            ticks.tick().await;
            let mut block = Vec::new();
            wire::heartbeat(&mut block);
            // Where the queue is full, what waits in it is the sign of life.
            out.try_send(block).ok();
        }
    };
    tokio::select! {
        lost = signs.watch(BEAT, || {}) => lost,
        () = giving => String::new(),
    }
}

/// A message that comes in several frames.
pub(super) struct Incoming {
    pub deliver: Deliver,
    pub properties: Bytes,
    size: u64,
    body: BytesMut,
    /// The whole body, where it came in one frame.
    whole: Bytes,
}

impl Incoming {
    pub fn new(deliver: Deliver) -> Incoming {
        Incoming {
            deliver,
            properties: Bytes::new(),
            size: u64::MAX,
            body: BytesMut::new(),
            whole: Bytes::new(),
        }
    }

    pub fn header(&mut self, size: u64, properties: Bytes) -> Result<(), String> {
        if size > MESSAGE_BYTES_MAX {
            return Err(format!("a message has {size} bytes, too many"));
        }
        (self.size, self.properties) = (size, properties);
        Ok(())
    }

    pub fn part(&mut self, part: Bytes) {
        match self.body.is_empty() && part.len() as u64 == self.size {
            true => self.whole = part,
            false => self.body.extend_from_slice(&part),
        }
    }

    /// The body, once all of it is there.
    pub fn take_body(&mut self) -> Option<Bytes> {
        if self.whole.len() as u64 == self.size {
            return Some(std::mem::take(&mut self.whole));
        }
        match self.body.len() as u64 >= self.size {
            true => Some(std::mem::take(&mut self.body).freeze()),
            false => None,
        }
    }
}
