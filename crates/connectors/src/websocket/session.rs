//! One connection: read and written concurrently, with keep-alives, closed in order.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Reads;
use super::gauge::{Gauge, Gauged};
use connect::arrivals::Arrivals;
use connect::message::Sent;
use connect::net::websocket::{self, Close, Code, Event, Fault, Kind, Opened, Unread};
use connect::net::{Delivery, InFlight, Ingress, Line, Liveness, Number, Observed, QUIET};

/// Longest message that is read or written.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Frames that may wait to be written.
const WAITING_MAX: usize = 64;

/// A question for what was read stands behind so many frames, or so many bytes of them: a side that
/// reads slowly answers often enough to be known to live.
const UNASKED_FRAMES_MAX: usize = 32;
const UNASKED_BYTES_MAX: usize = 64 << 10;

/// How long the last words may take.
pub(super) const LEAVE: Duration = Duration::from_secs(2);

/// A connection whose handshake is done.
pub(super) type Socket = Opened<Heard>;

/// A line that is listened to.
pub(super) type Heard = Observed<Gauged, Liveness>;

pub(super) fn heard(line: Box<dyn Line>, arrivals: &Arc<Arrivals>) -> Heard {
    let liveness = Arc::<Liveness>::default();
    let gauge = Arc::new(Gauge::new(Arc::clone(arrivals), Arc::clone(&liveness)));
    Observed::new(Gauged::new(line, gauge), liveness)
}

/// What is to be written.
enum Frame {
    Message { kind: Kind, payload: Bytes },
    Ping(Bytes),
    Close(Close),
}

/// Frames on their way out.
type Out = mpsc::Sender<Frame>;

/// An open connection, taken apart.
pub(super) struct Session {
    reader: Reader,
    writer: Writer,
    out: Out,
    pulse: Pulse,
    gauge: Arc<Gauge>,
}

impl Session {
    /// `idle`: the connection ends when no message passed for so long.
    pub fn new(socket: Socket, idle: Option<Duration>) -> Session {
        let liveness = Arc::clone(socket.line.observer());
        let gauge = Arc::clone(socket.line.line().gauge());
        // The handshake is complete.
        gauge.done();
        let (from, to) = socket.split();
        let (out, frames) = mpsc::channel(WAITING_MAX);
        Session {
            reader: Reader {
                from,
                gauge: Arc::clone(&gauge),
                goodbye: None,
            },
            gauge,
            writer: Writer { to, frames },
            out,
            pulse: Pulse {
                liveness,
                passed: Mutex::new(Instant::now()),
                idle,
            },
        }
    }
}

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// We have nothing more to say.
    Done,
    /// No message passed for the time of `idle.timeout`.
    Idle(Duration),
    /// What is said of it, and how it is told to the other side where that still listens.
    Lost(String, Option<Code>),
}

impl End {
    pub fn cause(&self) -> String {
        match self {
            End::Done => "the connection was closed".to_owned(),
            End::Idle(time) => format!(
                "no message passed for {} ms (idle.timeout)",
                time.as_millis()
            ),
            End::Lost(cause, _) => cause.clone(),
        }
    }

    /// The frame that tells the other side, and the end of its connection.
    fn farewell(&self) -> Close {
        let code = match self {
            End::Done | End::Idle(_) | End::Lost(_, None) => Code::NORMAL,
            End::Lost(_, Some(code)) => *code,
        };
        close(code)
    }
}

fn close(code: Code) -> Close {
    Close::new(code, "")
}

/// When the other side was last heard, and when a message passed last.
struct Pulse {
    liveness: Arc<Liveness>,
    passed: Mutex<Instant>,
    idle: Option<Duration>,
}

impl Pulse {
    fn passed(&self) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The app is full: nothing is read until [`Pulse::heard`].
    fn deaf(&self) {
        self.liveness.deaf();
    }

    fn heard(&self) {
        self.liveness.heard();
    }

    /// Asks for keep-alives; returns when there is none, or no message.
    async fn watch(&self, out: &Out) -> End {
        let ask = || {
            // Where the queue is full, what waits in it is the sign of life.
            out.try_send(Frame::Ping(Bytes::new())).ok();
        };
        tokio::select! {
            cause = self.liveness.watch(QUIET, ask) => End::Lost(cause, None),
            end = self.idles() => end,
        }
    }

    async fn idles(&self) -> End {
        let Some(idle) = self.idle else {
            return std::future::pending().await;
        };
        loop {
            let passed = *self.passed.lock().unwrap_or_else(PoisonError::into_inner);
            let left = idle.saturating_sub(passed.elapsed());
            if left.is_zero() {
                return End::Idle(idle);
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// What the other side says.
enum Said {
    Message {
        bytes: Bytes,
        is_text: bool,
    },
    /// It has read all up to this message of ours.
    Confirmed(Number),
}

struct Reader {
    from: websocket::Reader<Heard>,
    gauge: Arc<Gauge>,
    /// Why the other side closes.
    goodbye: Option<String>,
}

impl Reader {
    /// What is said next; nothing is lost where the wait is given up.
    async fn next(&mut self, pulse: &Pulse) -> Result<Said, End> {
        loop {
            let event = match self.from.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Err(self.closed()),
                Err(unread) => return Err(self.ended(unread)),
            };
            match event {
                Event::Message { kind, payload } => {
                    pulse.passed();
                    return Ok(Said::Message {
                        bytes: payload,
                        is_text: kind.is_text(),
                    });
                }
                Event::Pong(number) => {
                    self.gauge.control(number.len());
                    if let Ok(number) = number.as_ref().try_into() {
                        return Ok(Said::Confirmed(Number::from_be_bytes(number)));
                    }
                }
                Event::Close(close) => {
                    let said = close.map(|close| format!("{} {}", close.code.0, close.reason));
                    self.goodbye = Some(said.unwrap_or_default());
                    // Whoever closes is answered; a server that was answered ends the line.
                    return Err(self.closed());
                }
                Event::Ping(said) => self.gauge.control(said.len()),
            }
        }
    }

    fn closed(&mut self) -> End {
        let closed = "the other side has closed the connection";
        let reason = self.goodbye.take().unwrap_or_default();
        match reason.trim_end() {
            "" => End::Lost(closed.to_owned(), None),
            reason => End::Lost(format!("{closed}: {reason}"), None),
        }
    }

    fn ended(&mut self, unread: Unread) -> End {
        match unread {
            Unread::Fault(fault @ Fault::TooLong { .. }) => {
                let said = format!("a message is longer than {MESSAGE_BYTES_MAX} bytes");
                End::Lost(said, Some(fault.code()))
            }
            Unread::Fault(fault) => End::Lost(fault.to_string(), Some(fault.code())),
            Unread::Gone => End::Lost("the connection has ended without a word".to_owned(), None),
            Unread::Io(error) => End::Lost(error.to_string(), None),
        }
    }
}

struct Writer {
    to: websocket::Writer<Heard>,
    frames: mpsc::Receiver<Frame>,
}

impl Writer {
    /// As [`Writer::write`]; where that came to its end, the reader knows why.
    async fn run(&mut self) -> End {
        match self.write().await {
            Ok(()) => std::future::pending().await,
            Err(error) => End::Lost(error.to_string(), None),
        }
    }

    /// Writes what comes until nobody sends any more, or a close was written.
    async fn write(&mut self) -> io::Result<()> {
        while let Some(frame) = self.frames.recv().await {
            let mut is_last = self.queue(frame);
            while !is_last && let Ok(more) = self.frames.try_recv() {
                is_last = self.queue(more);
            }
            self.to.flush().await?;
            if is_last {
                return Ok(());
            }
        }
        self.to.close(Some(&close(Code::NORMAL)));
        self.to.flush().await
    }

    /// Is it the last one?
    fn queue(&mut self, frame: Frame) -> bool {
        match frame {
            Frame::Message { kind, payload } => self.to.message(kind, &payload),
            Frame::Ping(payload) => self.to.ping(&payload),
            Frame::Close(close) => {
                self.to.close(Some(&close));
                return true;
            }
        }
        false
    }
}

impl Session {
    /// Says why it ends, and waits for the other side to end as well; in bounded time.
    pub async fn leave(self, end: &End) {
        let Session {
            reader,
            mut writer,
            out,
            ..
        } = self;
        drop(out);
        // What was queued before goes first.
        while let Ok(frame) = writer.frames.try_recv() {
            writer.queue(frame);
        }
        let farewell = end.farewell();
        let leaving = websocket::leave(reader.from, writer.to, Some(&farewell));
        tokio::time::timeout(LEAVE, leaving).await.ok();
    }

    /// Has the other side said that it closes?
    pub fn is_closed_in_order(&self) -> bool {
        self.reader.from.has_closed()
    }

    /// Hands over what the other side sends until the connection ends. When `leaving` has come the other
    /// side is told; what it has sent by then is handed over as well, for so long as `grace`.
    pub async fn receive(
        &mut self,
        ingress: &Ingress,
        reads: Reads,
        leaving: impl Future<Output = ()>,
        grace: Duration,
    ) -> End {
        let Session {
            reader,
            writer,
            out,
            pulse,
            gauge,
        } = self;
        let reading = async {
            loop {
                match reader.next(pulse).await {
                    Ok(Said::Message { bytes, is_text }) => {
                        let is_text = reads.as_text(is_text);
                        let delivery =
                            Delivery::payload(bytes, is_text, Vec::new()).holding(gauge.hand_on());
                        pulse.deaf();
                        if ingress.push(delivery).await.is_err() {
                            return End::Done;
                        }
                        gauge.done();
                        pulse.heard();
                    }
                    Ok(Said::Confirmed(_)) => {}
                    Err(end) => return end,
                }
            }
        };
        let going = async {
            leaving.await;
            out.try_send(Frame::Close(close(Code::AWAY))).ok();
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            end = reading => end,
            end = writer.run() => end,
            end = pulse.watch(out) => end,
            whole = gauge.late() => {
                let said = format!("a message was not complete after {} s", whole.as_secs());
                End::Lost(said, Some(Code::POLICY))
            }
            () = going => End::Done,
        }
    }

    /// What is told of the message that is read.
    pub fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// Sends what waits in flight, until it is closed and nothing is left, or the connection ends. The
    /// other side confirms by its pongs.
    pub async fn send_all(mut self, in_flight: &InFlight) {
        let Session {
            reader,
            writer,
            out,
            pulse,
            gauge,
        } = &mut self;
        let reading = async {
            loop {
                match reader.next(pulse).await {
                    Ok(Said::Confirmed(number)) => in_flight.confirm_through(number),
                    // It is a sink: what the other side tells is for nobody.
                    Ok(Said::Message { .. }) => gauge.done(),
                    Err(end) => return end,
                }
            }
        };
        let end = tokio::select! {
            () = send(in_flight, pulse, out) => End::Done,
            end = reading => end,
            end = writer.run() => end,
            end = pulse.watch(out) => end,
        };
        match &end {
            // Who closes the sink waits for the end of the connection.
            End::Done => {
                self.leave(&end).await;
                in_flight.ended(Ok(()));
            }
            // Who sends goes on elsewhere, and has not to wait for the farewell.
            End::Idle(_) => {
                in_flight.ended(Ok(()));
                self.leave(&end).await;
            }
            End::Lost(cause, _) => {
                in_flight.ended(Err(cause.clone()));
                self.leave(&end).await;
            }
        }
    }
}

async fn send(in_flight: &InFlight, pulse: &Pulse, out: &Out) {
    let (mut last, mut frames, mut bytes) = (0, 0, 0);
    while !in_flight.is_done() {
        let next = in_flight.try_next();
        let is_idle = next.is_none();
        if let Some((number, sent)) = next {
            (last, frames, bytes) = (number, frames + 1, bytes + sent.payload.len());
            pulse.passed();
            give(out, frame(&sent)).await;
        }
        let is_due = frames >= UNASKED_FRAMES_MAX || bytes >= UNASKED_BYTES_MAX;
        if is_due || is_idle && frames > 0 {
            (frames, bytes) = (0, 0);
            let number = Bytes::copy_from_slice(&last.to_be_bytes());
            give(out, Frame::Ping(number)).await;
        } else if is_idle {
            in_flight.changed().await;
        }
    }
}

async fn give(out: &Out, frame: Frame) {
    if out.send(frame).await.is_err() {
        // The writer has ended, and says why.
        std::future::pending::<()>().await;
    }
}

/// Text or binary, as the mapper gave it.
fn frame(sent: &Sent) -> Frame {
    let is_text = sent.is_text && std::str::from_utf8(&sent.payload).is_ok();
    Frame::Message {
        kind: Kind::of(is_text),
        payload: sent.payload.clone(),
    }
}

/// The other side was not there in time.
pub(super) fn late(limit: Duration) -> io::Error {
    let said = format!("no handshake within {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, said)
}
