//! The `rabbitmq` source: a queue that is bound to an exchange, and its messages.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event::Value;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery as Message;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use tokio::sync::{mpsc, oneshot};

use super::property::{find, short, table};
use super::session::{LEAVE, Session, Wanted, answered, told};
use super::{Broker, check_exchange, check_short};
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::{Cause, Error, OpenError};
use connect::net::{Delivery, Ingress, Network, Receiver, reads_text};
use connect::option::Settings;
use connect::option::property_names;

/// Messages that the broker gives before the first of them is acknowledged.
const UNACKNOWLEDGED_MAX: u16 = 8192;

/// How often the broker is asked whether it has sent all.
const EMPTY_LOOK: Duration = Duration::from_millis(20);

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
    exchange_options: ExchangeDeclareOptions,
    queue: String,
    queue_options: QueueDeclareOptions,
    routing_key: String,
    arguments: Vec<(String, String)>,
    /// The broker forgets a message when it has sent it.
    acks_itself: bool,
    /// Transport properties that the mapping asks for.
    names: Vec<String>,
}

impl RabbitSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<RabbitSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::rabbitmq::CONNECTORS);
        let broker = Broker::new(settings, setup.environment, "source", &setup.schema.name)?;
        let of = |name, default: &str| settings.text(name).unwrap_or(default).trim().to_owned();
        let wish = Wish {
            exchange: of("exchange.name", ""),
            kind: of("exchange.type", "direct"),
            exchange_options: ExchangeDeclareOptions {
                durable: settings.flag("exchange.durable.enabled"),
                auto_delete: settings.flag("exchange.autodelete.enabled"),
                ..ExchangeDeclareOptions::default()
            },
            queue: of("queue.name", ""),
            queue_options: QueueDeclareOptions {
                durable: settings.flag("queue.durable.enabled"),
                exclusive: settings.flag("queue.exclusive.enabled"),
                auto_delete: settings.flag("queue.autodelete.enabled"),
                ..QueueDeclareOptions::default()
            },
            routing_key: of("routing.key", ""),
            arguments: settings.list("headers")?,
            acks_itself: settings.flag("auto.ack"),
            names: property_names(setup.transport),
        };
        check_exchange(&wish.exchange, &wish.kind)
            .and_then(|()| check_short("queue.name", &wish.queue))
            .and_then(|()| check_short("routing.key", &wish.routing_key))
            .and_then(|()| {
                let mut keys = wish.arguments.iter().map(|(key, _)| key);
                keys.try_for_each(|key| check_short("headers", key))
            })
            .map_err(|cause| settings.refused(cause))?;
        let names: Vec<&str> = wish.names.iter().map(String::as_str).collect();
        Ok(RabbitSource {
            network: setup.environment.network(),
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
        self.receiver.ingress.open();
        let serving = Serving {
            wish: Arc::clone(&self.wish),
            ingress: Arc::clone(&self.receiver.ingress),
            is_text: self.is_text,
            is_drained: Arc::default(),
            is_leaving: AtomicBool::new(false),
        };
        let is_drained = Arc::clone(&serving.is_drained);
        let broker = self.broker.clone();
        let (leave, leaving) = oneshot::channel();
        let started = workers.wait_for(async move {
            let session = Session::open(&broker).await?;
            let (channel, messages) = subscribe(&session, &serving.wish).await?;
            Ok::<_, OpenError>(tokio::spawn(
                serving.run(session, channel, messages, leaving),
            ))
        });
        let started = started.map_err(|e| self.unavailable(e))?;
        let task = started.map_err(|error| error.of(&self.broker.label))?;
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
async fn subscribe(session: &Session, wish: &Wish) -> Result<(Channel, Consumer), String> {
    if !wish.exchange.is_empty() {
        let wanted = Wanted::Exchange {
            name: &wish.exchange,
            kind: &wish.kind,
            options: wish.exchange_options,
        };
        session.ensure(&wanted).await?;
    }
    let queue = Wanted::Queue {
        name: &wish.queue,
        options: wish.queue_options,
    };
    if !wish.queue.is_empty() {
        session.ensure(&queue).await?;
    }
    let channel = session.channel().await?;
    let name = if wish.queue.is_empty() {
        let own = Wanted::Queue {
            name: "",
            options: QueueDeclareOptions {
                exclusive: true,
                auto_delete: true,
                ..QueueDeclareOptions::default()
            },
        };
        let declared = answered(own.declare(&channel, false)).await;
        declared.map_err(|cause| own.failed(cause))?
    } else {
        short(&wish.queue)
    };
    // To the default exchange each queue is bound by its name.
    if !wish.exchange.is_empty() {
        let (exchange, key) = (short(&wish.exchange), short(&wish.routing_key));
        let options = QueueBindOptions::default();
        let arguments = table(&wish.arguments);
        answered(channel.queue_bind(name.clone(), exchange, key, options, arguments)).await?;
    }
    if !wish.acks_itself {
        let options = BasicQosOptions::default();
        answered(channel.basic_qos(UNACKNOWLEDGED_MAX, options)).await?;
    }
    let options = BasicConsumeOptions {
        no_ack: wish.acks_itself,
        ..BasicConsumeOptions::default()
    };
    let none = FieldTable::default();
    let messages = answered(channel.basic_consume(name, TAG.into(), options, none)).await?;
    Ok((channel, messages))
}

/// Waits until the broker has sent what a queue has. The source's own queue goes with it, and what it has not
/// sent by then.
async fn empty(channel: &Channel, queue: &ShortString) {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    loop {
        let asked = channel.queue_declare(queue.clone(), passive, FieldTable::default());
        match asked.await {
            Ok(queue) if queue.message_count() > 0 => tokio::time::sleep(EMPTY_LOOK).await,
            // What cannot be asked for is not waited for.
            _ => return,
        }
    }
}

/// A message that is to be acknowledged once the app has it safe.
struct Unacknowledged {
    tag: u64,
    safe: oneshot::Receiver<()>,
}

/// What the session of a running source works with.
struct Serving {
    wish: Arc<Wish>,
    ingress: Arc<Ingress>,
    is_text: bool,
    /// All that the broker has sent is in the queue.
    is_drained: Arc<AtomicBool>,
    /// The broker is told that nothing more is wanted.
    is_leaving: AtomicBool,
}

impl Serving {
    async fn run(
        self,
        session: Session,
        channel: Channel,
        messages: Consumer,
        leaving: oneshot::Receiver<()>,
    ) {
        let (unacknowledged, to_do) = mpsc::channel(usize::from(UNACKNOWLEDGED_MAX));
        // It goes on when the connection has ended, until all have learnt what was safe.
        let acknowledging = tokio::spawn(acknowledge(to_do, channel.clone()));
        let queue = messages.queue();
        let taking_leave = async {
            // The other end is dropped only with its message sent.
            leaving.await.ok();
            if !self.wish.acks_itself {
                return;
            }
            if self.wish.queue.is_empty() {
                empty(&channel, &queue).await;
            }
            // What was sent before that is still taken, and then `read` ends. A broker that says no more is
            // noticed by its keep-alives, and a stop that takes too long ends with its grace.
            self.is_leaving.store(true, Ordering::Release);
            let cancelling = channel.basic_cancel(TAG.into(), BasicCancelOptions::default());
            cancelling.await.ok();
            std::future::pending().await
        };
        let lost = tokio::select! {
            cause = self.read(&session, messages, unacknowledged) => cause,
            cause = session.lost() => Some(cause),
            () = taking_leave => None,
        };
        if let Some(cause) = &lost {
            self.ingress.lose(cause.clone());
        }
        self.is_drained.store(true, Ordering::Release);
        match lost {
            Some(_) => {
                drop(session);
                acknowledging.await.ok();
            }
            None => {
                // The last acknowledgements, and good-bye; a broker that does not take them in time
                // gives those messages again.
                session.tap.open();
                tokio::time::timeout(LEAVE, acknowledging).await.ok();
                session.close().await;
            }
        }
    }

    /// Takes messages until the connection ends, and says why, or all have come after the farewell.
    async fn read(
        &self,
        session: &Session,
        mut messages: Consumer,
        unacknowledged: mpsc::Sender<Unacknowledged>,
    ) -> Option<String> {
        loop {
            // Where nothing is left of what was read, more is read.
            let next = poll_fn(|context| {
                let next = messages.poll_next_unpin(context);
                match next.is_pending() {
                    true => session.tap.open(),
                    false => session.tap.shut(),
                }
                next
            });
            match next.await {
                Some(Ok(message)) => self.take(message, &unacknowledged).await,
                Some(Err(error)) => return Some(told(error)),
                None if self.is_leaving.load(Ordering::Acquire) => return None,
                None => return Some("the queue no longer exists".to_owned()),
            }
        }
    }

    /// Hands a message over.
    async fn take(&self, message: Message, unacknowledged: &mpsc::Sender<Unacknowledged>) {
        let tag = message.delivery_tag;
        let properties = self.properties(&message);
        let delivery = Delivery::payload(message.data.into(), self.is_text, properties);
        let (delivery, safe) = match self.wish.acks_itself {
            true => (delivery, None),
            false => {
                let (delivery, safe) = delivery.with_receipt();
                (delivery, Some(safe))
            }
        };
        if let Some(safe) = safe {
            // Noted before it is handed over: the session may end at each wait, and what the app has must be
            // acknowledged. One that it does not get is forgotten with its receipt. The other end ends first
            // only where the source stops.
            unacknowledged.send(Unacknowledged { tag, safe }).await.ok();
        }
        if self.ingress.push(delivery).await.is_err() {
            // The source stops, and ends this session.
            std::future::pending::<()>().await;
        }
    }

    /// What the mapping asks for, in its order.
    fn properties(&self, message: &Message) -> Vec<Value> {
        let value = |name: &String| match name.as_str() {
            "exchange.name" => Value::str(message.exchange.as_str()),
            "routing.key" => Value::str(message.routing_key.as_str()),
            "redelivered" => Value::str(if message.redelivered { "true" } else { "false" }),
            name => find(&message.properties, name).map_or(Value::Null, |value| Value::str(&value)),
        };
        self.wish.names.iter().map(value).collect()
    }
}

/// Acknowledges messages in their order, each when it is safe and those that are safe by then with it;
/// ends when no more can come, or the source stops without one: the broker gives it again, and those
/// behind it.
async fn acknowledge(mut to_do: mpsc::Receiver<Unacknowledged>, channel: Channel) {
    let mut held = None;
    loop {
        let next = match held.take() {
            None => to_do.recv().await,
            held => held,
        };
        let Some(Unacknowledged { mut tag, safe }) = next else {
            return;
        };
        if safe.await.is_err() {
            return;
        }
        while let Ok(mut next) = to_do.try_recv() {
            match (&mut next.safe).now_or_never() {
                Some(Ok(())) => tag = next.tag,
                Some(Err(_)) => to_do.close(),
                None => {
                    held = Some(next);
                    break;
                }
            }
        }
        // Without a connection the broker gives them again.
        let options = BasicAckOptions { multiple: true };
        channel.basic_ack(tag, options).await.ok();
    }
}
