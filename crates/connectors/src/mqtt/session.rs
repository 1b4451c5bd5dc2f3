//! One connection to a broker: its packets, and its keep-alives.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rumqttc::mqttbytes::Error as Malformed;
use rumqttc::{Connect, ConnectReturnCode, Packet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::Broker;
use connect::error::OpenError;
use connect::net::{InFlight, Line, Liveness, Observed, QUIET, dial};

/// The longest packet of the protocol.
pub(super) const PACKET_BYTES_MAX: usize = 268_435_455;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// Packets that may wait to be written.
const WAITING_MAX: usize = 256;

/// A packet on its way out; it may confirm a message when it is written.
pub(super) struct Outgoing {
    pub packet: Packet,
    pub confirms: Option<u64>,
}

impl From<Packet> for Outgoing {
    fn from(packet: Packet) -> Outgoing {
        Outgoing {
            packet,
            confirms: None,
        }
    }
}

pub(super) type Out = mpsc::Sender<Outgoing>;

pub(super) fn channel() -> (Out, mpsc::Receiver<Outgoing>) {
    mpsc::channel(WAITING_MAX)
}

pub(super) struct Session {
    pub reader: Reader,
    pub writer: Writer,
    /// The broker knows this client, and what was not acknowledged.
    pub is_resumed: bool,
    pub liveness: Arc<Liveness>,
}

impl Session {
    /// Connects and is let in.
    pub async fn open(broker: &Broker, is_clean: bool) -> Result<Session, OpenError> {
        let opening = async {
            let tls = broker.tls.as_ref();
            let line = dial((&broker.host, broker.port), broker.timeout, tls).await;
            let liveness = Arc::default();
            let line = Observed::new(line.map_err(|e| e.to_string())?, Arc::clone(&liveness));
            let (read, write) = tokio::io::split(Box::new(line) as Box<dyn Line>);
            let mut reader = Reader {
                from: read,
                buffer: BytesMut::new(),
            };
            let mut writer = Writer {
                to: write,
                buffer: BytesMut::new(),
            };
            let mut connect = Connect::new(&broker.client);
            connect.keep_alive = broker.keep_alive;
            connect.clean_session = is_clean;
            if let Some((user, password)) = &broker.login {
                connect.set_login(user, password);
            }
            writer.add(&Packet::Connect(connect))?;
            writer.write().await?;
            match reader.packet().await? {
                Packet::ConnAck(ack) if ack.code == ConnectReturnCode::Success => Ok(Session {
                    reader,
                    writer,
                    is_resumed: ack.session_present,
                    liveness,
                }),
                Packet::ConnAck(ack) => Err(refusal(&broker.client, ack.code)),
                _ => Err("the other side does not speak MQTT 3.1.1".to_owned().into()),
            }
        };
        let opened = tokio::time::timeout(broker.timeout, opening).await;
        opened.unwrap_or_else(|_| {
            Err("the broker did not complete the login in time"
                .to_owned()
                .into())
        })
    }
}

fn refusal(client: &str, code: ConnectReturnCode) -> OpenError {
    let reason = match code {
        ConnectReturnCode::Success => "accepted",
        ConnectReturnCode::RefusedProtocolVersion => "it does not speak MQTT 3.1.1",
        ConnectReturnCode::BadClientId => "it rejects the client.id",
        ConnectReturnCode::ServiceUnavailable => "it is not available",
        ConnectReturnCode::BadUserNamePassword => "wrong username or password",
        ConnectReturnCode::NotAuthorized => "not authorized",
    };
    let cause = format!("the broker does not let '{client}' in: {reason}");
    match code {
        ConnectReturnCode::BadUserNamePassword | ConnectReturnCode::NotAuthorized => {
            OpenError::Denied(cause)
        }
        _ => OpenError::Unavailable(cause),
    }
}

pub(super) struct Reader {
    from: ReadHalf<Box<dyn Line>>,
    buffer: BytesMut,
}

impl Reader {
    /// The next packet; nothing is lost where the wait is given up.
    pub async fn packet(&mut self) -> Result<Packet, String> {
        loop {
            match Packet::read(&mut self.buffer, PACKET_BYTES_MAX) {
                Ok(packet) => return Ok(packet),
                Err(Malformed::InsufficientBytes(_)) => {}
                Err(error) => return Err(format!("the broker sent no MQTT packet: {error}")),
            }
            // Grown by what arrives, whatever length a packet claims.
            self.buffer.reserve(WRITE_BYTES);
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
    buffer: BytesMut,
}

impl Writer {
    pub fn add(&mut self, packet: &Packet) -> Result<(), String> {
        let written = packet.write(&mut self.buffer, PACKET_BYTES_MAX);
        written.map(|_| ()).map_err(|e| e.to_string())
    }

    pub async fn write(&mut self) -> Result<(), String> {
        let written = async {
            self.to.write_all(&self.buffer).await?;
            self.to.flush().await
        };
        let result = written.await.map_err(|e| e.to_string());
        self.buffer.clear();
        result
    }

    /// Writes what comes until nobody sends any more, then takes leave.
    pub async fn run(
        &mut self,
        mut packets: mpsc::Receiver<Outgoing>,
        in_flight: Option<&InFlight>,
    ) -> Result<(), String> {
        let mut written = Vec::new();
        while let Some(first) = packets.recv().await {
            let mut next = Some(first);
            while let Some(outgoing) = next {
                self.add(&outgoing.packet)?;
                written.extend(outgoing.confirms);
                next = match self.buffer.len() < WRITE_BYTES {
                    true => packets.try_recv().ok(),
                    false => None,
                };
            }
            self.write().await?;
            for number in written.drain(..) {
                if let Some(in_flight) = in_flight {
                    in_flight.confirm(number);
                }
            }
        }
        self.add(&Packet::Disconnect)?;
        self.write().await?;
        self.to.shutdown().await.map_err(|e| e.to_string())
    }
}

/// Looks for keep-alives of a broker; returns when it is lost.
pub(super) async fn watch(liveness: &Liveness, broker: &Broker, out: Out) -> String {
    if broker.keep_alive == 0 {
        return std::future::pending().await;
    }
    let half = Duration::from_millis(u64::from(broker.keep_alive) * 500);
    let ask = || {
        // Where the queue is full, what waits in it is the sign of life.
        out.try_send(Packet::PingReq.into()).ok();
    };
    liveness.watch(QUIET.min(half), ask).await
}
