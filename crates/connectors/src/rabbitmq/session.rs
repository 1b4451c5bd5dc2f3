//! One connection to a broker: login, requests, and keep-alives.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_rs::Runtime;
use futures_util::{Stream, StreamExt as _};
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{
    AsyncTcpStream, Channel, Connection, ConnectionProperties, ErrorKind, Event, ExchangeKind,
};
use tokio::runtime::Handle;

use super::line::{Kit, Tap, Tapped};
use super::property::short;
use super::{Broker, PATIENCE};
use connect::error::OpenError;
use connect::net::{QUIET, dial};

/// The longest frame that we agree to.
const FRAME_MAX: u32 = 128 << 10;

/// Seconds within which the broker gives a sign of life; it does so twice as often while nothing else
/// is said. A longer heartbeat would let a silent broker pass for a living one.
const HEARTBEAT_MAX: u16 = 3;

/// How long the last words may take.
pub(super) const LEAVE: Duration = Duration::from_secs(2);

/// The code of a connection that ends in order.
const GOOD_BYE: u16 = 200;

/// How a login is refused.
const ACCESS_REFUSED: u16 = 403;

/// What there is no exchange or queue of.
const NOT_FOUND: u16 = 404;

type Events = Mutex<Pin<Box<dyn Stream<Item = Event> + Send>>>;

pub(super) struct Session {
    connection: Connection,
    /// Never read: without a listener lapin would say nothing of what happens before [`Session::lost`].
    _events: Events,
    pub tap: Arc<Tap>,
    /// Whom we tell of.
    name: String,
    /// Are there keep-alives?
    beats: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tap.cut();
    }
}

impl Session {
    /// Connects and is let in.
    pub async fn open(broker: &Broker) -> Result<Session, OpenError> {
        let tap = Arc::<Tap>::default();
        let opening = Session::open_slowly(broker, Arc::clone(&tap));
        let opened = match tokio::time::timeout(PATIENCE, opening).await {
            Ok(opened) => opened,
            Err(_) => Err("the broker did not complete the login in time"
                .to_owned()
                .into()),
        };
        opened.inspect_err(|_| tap.cut())
    }

    async fn open_slowly(broker: &Broker, tap: Arc<Tap>) -> Result<Session, OpenError> {
        let address = &broker.address;
        let to = (address.host.as_str(), address.port);
        let line = dial(to, PATIENCE, broker.tls.as_ref()).await;
        let line = line.map_err(|e| e.to_string())?;
        let line = Mutex::new(Some(Tapped::new(line, Arc::clone(&tap))));
        let uri = AMQPUri {
            // TLS is on the line.
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: address.user.clone(),
                    password: address.password.clone(),
                },
                host: address.host.clone(),
                port: address.port,
            },
            vhost: address.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(FRAME_MAX),
                heartbeat: Some(broker.heartbeat.min(HEARTBEAT_MAX)),
                ..AMQPQueryString::default()
            },
        };
        let properties = ConnectionProperties::default()
            .with_connection_name(broker.name.as_str().into())
            .with_client_property("product".into(), "Headwater".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
        let connect = async move |_, _| {
            let line = line.lock().unwrap_or_else(PoisonError::into_inner).take();
            let line = line.ok_or(io::Error::from(io::ErrorKind::ConnectionAborted))?;
            Ok(AsyncTcpStream::Plain(line))
        };
        let runtime = Runtime::new(Kit {
            worker: Handle::current(),
            tap: Arc::clone(&tap),
        });
        let connected = Connection::connector(uri, runtime, connect, properties).await;
        let connection = connected.map_err(|error| match code(&error) {
            Some(ACCESS_REFUSED) => OpenError::Denied(told(error)),
            _ => OpenError::Unavailable(told(error)),
        })?;
        let beat = connection.configuration().heartbeat();
        if beat > 0 {
            tap.has_heartbeat(Duration::from_secs(beat.into()));
        }
        Ok(Session {
            _events: Mutex::new(Box::pin(connection.events_listener())),
            connection,
            tap,
            name: broker.name.clone(),
            beats: (1..=HEARTBEAT_MAX).contains(&beat),
        })
    }

    pub async fn channel(&self) -> Result<Channel, String> {
        answered(self.connection.create_channel()).await
    }

    /// Returns when the connection is lost: why it is.
    pub async fn lost(&self) -> String {
        let tap = &self.tap;
        let mut events = pin!(self.connection.events_listener());
        let silent = async {
            match self.beats {
                // The broker says something by itself.
                true => tap.liveness.watch(QUIET, || {}).await,
                false => std::future::pending().await,
            }
        };
        let name = &self.name;
        let ended = async {
            while let Some(event) = events.next().await {
                match event {
                    // That is the end of a channel, and whoever uses it is told.
                    Event::Error(error) if error.is_amqp_soft_error() => {}
                    Event::Error(error) => return told(error),
                    Event::ConnectionBlocked(reason) => {
                        tracing::warn!(
                            sink = name,
                            reason,
                            "broker is blocking publishers; waiting"
                        );
                    }
                    Event::ConnectionUnblocked => {
                        tracing::info!(sink = name, "broker accepts messages again");
                    }
                    _ => {}
                }
            }
            "the broker has closed the connection".to_owned()
        };
        tokio::select! {
            cause = silent => cause,
            cause = ended => cause,
        }
    }

    /// Says good-bye, unless the broker does not take it in time.
    pub async fn close(self) {
        self.tap.open();
        let closing = self.connection.close(GOOD_BYE, "good-bye".into());
        tokio::time::timeout(LEAVE, closing).await.ok();
    }

    /// Finds an exchange or queue, or makes it where there is none. It is asked for on a channel of its
    /// own, which ends where there is nothing of that name.
    pub async fn ensure(&self, wanted: &Wanted<'_>) -> Result<(), String> {
        for is_passive in [true, false] {
            let channel = self.channel().await?;
            let declaring = wanted.declare(&channel, is_passive);
            let declared = tokio::time::timeout(PATIENCE, declaring).await;
            match declared.map_err(|_| silent())? {
                Ok(_) => return answered(channel.close(GOOD_BYE, "found".into())).await,
                Err(error) if is_passive && code(&error) == Some(NOT_FOUND) => {}
                Err(error) => return Err(wanted.failed(told(error))),
            }
        }
        Ok(())
    }
}

/// What is to be found at the broker, or made.
pub(super) enum Wanted<'a> {
    Exchange {
        name: &'a str,
        kind: &'a str,
        options: ExchangeDeclareOptions,
    },
    Queue {
        name: &'a str,
        options: QueueDeclareOptions,
    },
}

impl Wanted<'_> {
    /// Asks whether it is there, or makes it; the name of a queue.
    pub async fn declare(&self, channel: &Channel, passive: bool) -> lapin::Result<ShortString> {
        let none = FieldTable::default();
        match *self {
            Wanted::Exchange {
                name,
                kind,
                options,
            } => {
                let kind = match kind {
                    "fanout" => ExchangeKind::Fanout,
                    "topic" => ExchangeKind::Topic,
                    "headers" => ExchangeKind::Headers,
                    _ => ExchangeKind::Direct,
                };
                let options = ExchangeDeclareOptions { passive, ..options };
                let declared = channel.exchange_declare(short(name), kind, options, none);
                declared.await.map(|()| short(name))
            }
            Wanted::Queue { name, options } => {
                let options = QueueDeclareOptions { passive, ..options };
                let declared = channel.queue_declare(short(name), options, none).await;
                declared.map(|queue| queue.name().clone())
            }
        }
    }

    pub fn failed(&self, cause: String) -> String {
        match self {
            Wanted::Exchange { name, .. } => format!("exchange '{name}': {cause}"),
            Wanted::Queue { name, .. } => format!("queue '{name}': {cause}"),
        }
    }
}

fn silent() -> String {
    "the broker does not answer".to_owned()
}

/// What the broker answers, in time.
pub(super) async fn answered<T>(
    asking: impl Future<Output = lapin::Result<T>>,
) -> Result<T, String> {
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.map_err(|_| silent())?.map_err(told)
}

fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// An error of lapin in our words.
pub(super) fn told(error: lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => {
            format!(
                "the broker answers {} {}",
                error.get_id(),
                error.get_message()
            )
        }
        ErrorKind::IOError(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
            "the broker has closed the connection".to_owned()
        }
        ErrorKind::IOError(error) => error.to_string(),
        ErrorKind::InvalidProtocolVersion(version) => {
            format!("the broker speaks another version of AMQP: {version}")
        }
        ErrorKind::ParsingError(error) => {
            format!("the other side does not speak AMQP 0-9-1: {error}")
        }
        _ => error.to_string(),
    }
}
