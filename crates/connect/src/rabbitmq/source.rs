//! The `rabbitmq` source: a queue that is bound to an exchange, and its messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use event::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use super::session::{Incoming, Out, Reader, Session, channel, watch};
use super::wire::{self, Frame, Method, Traits};
use super::{Broker, check_exchange, check_short};
use crate::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use crate::error::{Cause, Error};
use crate::http::property_names;
use crate::net::{Delivery, Intake, Network, Receiver, Settings, Signs, reads_text};

/// How long the last words may take when the source stops.
const LEAVE: Duration = Duration::from_secs(2);

/// Messages that the broker gives before the first of them is acknowledged.
const UNACKNOWLEDGED_MAX: u16 = 8192;

/// The one channel.
const CHANNEL: u16 = 1;

/// What the consumer is called on its channel.
const TAG: &str = "headwater";

pub(super) struct RabbitSource {
    network: Arc<Network>,
    broker: Broker,
    wish: Arc<Wish>,
    receiver: Receiver,
    is_text: bool,
}

/// What is to be found or made at the broker.
struct Wish {
    exchange: String,
    kind: String,
    exchange_traits: Traits,
    queue: String,
    queue_traits: Traits,
    routing_key: String,
    arguments: Vec<(String, String)>,
    /// The broker forgets a message when it has sent it.
    acks_itself: bool,
    /// Transport properties that the mapping asks for.
    names: Vec<String>,
}

impl RabbitSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<RabbitSource, Error> {
        let settings = Settings::of_source(setup.transport);
        let broker = Broker::new(settings, setup.environment, "source", &setup.schema.name)?;
        let of = |name, default: &str| settings.text(name).unwrap_or(default).trim().to_owned();
        let wish = Wish {
            exchange: of("exchange.name", ""),
            kind: of("exchange.type", "direct"),
            exchange_traits: Traits {
                is_passive: false,
                is_durable: settings.flag("exchange.durable.enabled", false),
                is_exclusive: false,
                is_auto_delete: settings.flag("exchange.autodelete.enabled", false),
            },
            queue: of("queue.name", ""),
            queue_traits: Traits {
                is_passive: false,
                is_durable: settings.flag("queue.durable.enabled", false),
                is_exclusive: settings.flag("queue.exclusive.enabled", false),
                is_auto_delete: settings.flag("queue.autodelete.enabled", false),
            },
            routing_key: of("routing.key", ""),
            arguments: settings.list("headers")?,
            acks_itself: settings.flag("auto.ack", true),
            names: property_names(setup.transport),
        };
        check_exchange(&wish.exchange, &wish.kind)
            .and_then(|()| check_short("queue.name", &wish.queue))
            .and_then(|()| check_short("routing.key", &wish.routing_key))
            .map_err(|cause| settings.refused(cause))?;
        let names: Vec<&str> = wish.names.iter().map(String::as_str).collect();
        Ok(RabbitSource {
            network: Arc::clone(&setup.environment.network),
            receiver: Receiver::of_server(&broker.label, &names),
            broker,
            wish: Arc::new(wish),
            is_text: reads_text(setup.transport),
        })
    }

    fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.broker.label.clone(), cause)
    }
}

impl Source for RabbitSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let network = Arc::clone(&self.network);
        let workers = network.workers().map_err(|e| self.unavailable(e))?;
        self.receiver.intake.open();
        let serving = Serving {
            wish: Arc::clone(&self.wish),
            intake: Arc::clone(&self.receiver.intake),
            is_text: self.is_text,
            is_drained: Arc::default(),
            farewell: Notify::new(),
        };
        let is_drained = Arc::clone(&serving.is_drained);
        let broker = self.broker.clone();
        let (leave, leaving) = oneshot::channel();
        let started = workers.wait_for(async move {
            let mut session = Session::open(&broker).await?;
            subscribe(&mut session, &serving.wish).await?;
            Ok::<_, String>(tokio::spawn(serving.run(session, leaving)))
        });
        let started = started.map_err(|e| self.unavailable(e))?;
        let task = started.map_err(|cause| self.unavailable(cause))?;
        link.report(Connection::Connected);
        let result = if self.wish.acks_itself {
            // What the broker has forgotten by then still comes in.
            let mut leave = Some(leave);
            self.receiver.run_until(link, || {
                if let Some(leave) = leave.take() {
                    leave.send(()).ok();
                }
                is_drained.load(Ordering::Acquire)
            })
        } else {
            let result = self.receiver.run(link);
            // Where the session has ended by itself, nobody listens.
            leave.send(()).ok();
            result
        };
        workers.wait_for(task).ok();
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// Finds or makes exchange and queue, binds them, and asks for messages.
async fn subscribe(session: &mut Session, wish: &Wish) -> Result<(), String> {
    session
        .must(CHANNEL, |out| wire::channel_open(out, CHANNEL))
        .await?;
    if !wish.exchange.is_empty() {
        session
            .ensure(CHANNEL, wish.exchange_traits, |out, traits| {
                wire::exchange_declare(out, CHANNEL, &wish.exchange, &wish.kind, traits);
            })
            .await
            .map_err(|cause| format!("exchange '{}': {cause}", wish.exchange))?;
    }
    let declared = if wish.queue.is_empty() {
        let own = Traits {
            is_passive: false,
            is_durable: false,
            is_exclusive: true,
            is_auto_delete: true,
        };
        let declare = |out: &mut Vec<u8>| wire::queue_declare(out, CHANNEL, "", own);
        session.must(CHANNEL, declare).await
    } else {
        session
            .ensure(CHANNEL, wish.queue_traits, |out, traits| {
                wire::queue_declare(out, CHANNEL, &wish.queue, traits);
            })
            .await
    };
    let queue = match declared.map_err(|cause| format!("queue '{}': {cause}", wish.queue))? {
        Method::QueueDeclareOk { queue } => queue,
        _ => return Err("the broker says something else than it should".to_owned()),
    };
    // To the default exchange each queue is bound by its name.
    if !wish.exchange.is_empty() {
        session
            .must(CHANNEL, |out| {
                let (exchange, key) = (&wish.exchange, &wish.routing_key);
                wire::queue_bind(out, CHANNEL, &queue, exchange, key, &wish.arguments);
            })
            .await?;
    }
    if !wish.acks_itself {
        session
            .must(CHANNEL, |out| wire::qos(out, CHANNEL, UNACKNOWLEDGED_MAX))
            .await?;
    }
    // Messages may come with the answer, so that it is not waited for.
    session
        .say(|out| wire::consume(out, CHANNEL, &queue, TAG, wish.acks_itself))
        .await
}

/// A message that is to be acknowledged once the app has it safe.
struct Unacknowledged {
    tag: u64,
    safe: oneshot::Receiver<()>,
}

/// What the session of a running source works with.
struct Serving {
    wish: Arc<Wish>,
    intake: Arc<Intake>,
    is_text: bool,
    /// All that the broker has sent is in the queue.
    is_drained: Arc<AtomicBool>,
    /// The broker has heard that nothing more is wanted, and has sent all before that.
    farewell: Notify,
}

impl Serving {
    async fn run(self, session: Session, leaving: oneshot::Receiver<()>) {
        let Session {
            mut reader,
            mut writer,
            beats,
            ..
        } = session;
        let (out, blocks) = channel();
        let (unacknowledged, to_do) = mpsc::channel(usize::from(UNACKNOWLEDGED_MAX));
        let acknowledging = tokio::spawn(acknowledge(to_do, out.clone()));
        let signs = Signs::default();
        let mut writing = Box::pin(writer.run(blocks));
        let lost = {
            let watched = out.clone();
            let reading = self.read(&mut reader, &signs, out.clone(), unacknowledged);
            let taking_leave = async {
                // The other end is dropped only with its message sent.
                leaving.await.ok();
                if self.wish.acks_itself {
                    let mut block = Vec::new();
                    wire::cancel(&mut block, CHANNEL, TAG);
                    if out.send(block).await.is_ok() {
                        let told = self.farewell.notified();
                        tokio::time::timeout(LEAVE, told).await.ok();
                    }
                }
            };
            tokio::select! {
                cause = reading => Some(cause),
                result = &mut writing => result.err(),
                cause = watch(&signs, beats, &watched) => Some(cause),
                () = taking_leave => None,
            }
        };
        self.is_drained.store(true, Ordering::Release);
        match lost {
            Some(cause) => {
                // Nobody takes acknowledgements any more, so that none of them is waited for.
                drop(writing);
                self.intake.lose(cause);
                acknowledging.await.ok();
            }
            None => {
                drop(out);
                // The last acknowledgements, and good-bye; a broker that does not take them in time
                // gives those messages again.
                let all = async { tokio::join!(acknowledging, writing) };
                tokio::time::timeout(LEAVE, all).await.ok();
            }
        }
    }

    /// Takes frames until the connection ends; why it does.
    async fn read(
        &self,
        reader: &mut Reader,
        signs: &Signs,
        out: Out,
        unacknowledged: mpsc::Sender<Unacknowledged>,
    ) -> String {
        let mut incoming: Option<Incoming> = None;
        loop {
            let frame = match reader.frame().await {
                Ok(frame) => frame,
                Err(cause) => return cause,
            };
            signs.heard();
            match frame {
                Frame::Method { channel, method } => match method {
                    Method::Deliver(deliver) => incoming = Some(Incoming::new(deliver)),
                    Method::Close { code, text } => {
                        let mut block = Vec::new();
                        wire::close_ok(&mut block, channel);
                        out.send(block).await.ok();
                        return format!("the broker says {code} {text}");
                    }
                    Method::Cancel => return "the queue is no more".to_owned(),
                    Method::CancelOk => self.farewell.notify_one(),
                    Method::Flow { is_active } => {
                        let mut block = Vec::new();
                        wire::flow_ok(&mut block, channel, is_active);
                        out.send(block).await.ok();
                    }
                    _ => {}
                },
                Frame::Header { size, properties } => {
                    if let Some(incoming) = &mut incoming
                        && let Err(cause) = incoming.header(size, properties)
                    {
                        return cause;
                    }
                }
                Frame::Body(part) => {
                    if let Some(incoming) = &mut incoming {
                        incoming.part(part);
                    }
                }
                Frame::Heartbeat => {}
            }
            if let Some(whole) = &mut incoming
                && let Some(body) = whole.take_body()
                && let Some(message) = incoming.take()
            {
                signs.deaf();
                if let Err(cause) = self.take(message, body, &unacknowledged).await {
                    return cause;
                }
                signs.heard();
            }
        }
    }

    /// Hands a message over.
    async fn take(
        &self,
        message: Incoming,
        body: Bytes,
        unacknowledged: &mpsc::Sender<Unacknowledged>,
    ) -> Result<(), String> {
        let tag = message.deliver.tag;
        let properties = self.properties(message)?;
        let delivery = Delivery::payload(body, self.is_text, properties);
        let (delivery, safe) = match self.wish.acks_itself {
            true => (delivery, None),
            false => {
                let (delivery, safe) = delivery.with_receipt();
                (delivery, Some(safe))
            }
        };
        if self.intake.push(delivery).await.is_err() {
            // The source stops, and ends this session.
            std::future::pending::<()>().await;
        }
        if let Some(safe) = safe {
            // The other end outlives this one.
            unacknowledged.send(Unacknowledged { tag, safe }).await.ok();
        }
        Ok(())
    }

    /// What the mapping asks for, in its order.
    fn properties(&self, message: Incoming) -> Result<Vec<Value>, String> {
        if self.wish.names.is_empty() {
            return Ok(Vec::new());
        }
        let found = wire::read_properties(message.properties)?;
        let deliver = &message.deliver;
        let value = |name: &String| match name.as_str() {
            "exchange.name" => Value::str(&deliver.exchange),
            "routing.key" => Value::str(&deliver.routing_key),
            "redelivered" => Value::str(if deliver.is_redelivered {
                "true"
            } else {
                "false"
            }),
            name => {
                let value = found.iter().find(|(key, _)| key == name);
                value.map_or(Value::Null, |(_, value)| Value::str(value))
            }
        };
        Ok(self.wish.names.iter().map(value).collect())
    }
}

/// Acknowledges messages in their order, each when it is safe; ends when no more can come.
async fn acknowledge(mut to_do: mpsc::Receiver<Unacknowledged>, out: Out) {
    while let Some(Unacknowledged { tag, safe }) = to_do.recv().await {
        // Where the source has stopped without it, the broker gives it again.
        if safe.await.is_ok() {
            let mut block = Vec::new();
            wire::ack(&mut block, CHANNEL, tag);
            out.send(block).await.ok();
        }
    }
}
