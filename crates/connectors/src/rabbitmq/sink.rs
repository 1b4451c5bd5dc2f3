//! The `rabbitmq` sink: messages in order, many on their way, each kept until the broker confirms it.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::{MaybeDone, maybe_done};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::mpsc;

use super::property::{SETTABLE, set, short, table};
use super::session::{Session, Wanted, answered, told};
use super::{Broker, KINDS, check_exchange, check_short};
use connect::component::{Payload, SinkSetup};
use connect::error::{Error, OpenError};
use connect::message::{Message, Sent};
use connect::net::{BrokerSink, InFlight, Producer};
use connect::option::Dynamic;
use connect::option::{Settings, list, number};
use connect::scalar::parse_bool;

/// Messages that may be on their way to the broker's confirmation.
const FLYING_MAX: usize = connect::net::WAITING_MAX;

/// A message on its way; done when the broker confirms it.
type Publishing = MaybeDone<Pin<Box<dyn Future<Output = lapin::Result<Confirmation>> + Send>>>;

pub(super) struct RabbitProducer {
    broker: Broker,
    exchange: Dynamic,
    kind: Dynamic,
    is_durable: Dynamic,
    is_auto_delete: Dynamic,
    routing_key: Dynamic,
    headers: Dynamic,
    /// Properties by name; those without a value are left out.
    properties: Vec<(&'static str, Dynamic)>,
    in_flight: InFlight,
}

impl RabbitProducer {
    pub fn sink(setup: &SinkSetup<'_>) -> Result<BrokerSink<RabbitProducer>, Error> {
        let settings = Settings::of_sink(setup.transport, crate::rabbitmq::CONNECTORS);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let broker = Broker::new(settings, setup.environment, "sink", stream)?;
        let exchange = Dynamic::new(setup, settings, "exchange.name");
        let kind = Dynamic::new(setup, settings, "exchange.type");
        let name = match &exchange {
            Dynamic::Constant(name) => name,
            Dynamic::Event(_) => "",
        };
        let fixed = match &kind {
            Dynamic::Constant(kind) => kind.trim(),
            Dynamic::Event(_) => KINDS[0],
        };
        check_exchange(name, fixed).map_err(|cause| settings.refused(cause))?;
        let producer = RabbitProducer {
            in_flight: InFlight::new(
                format!("{app}/{stream}"),
                broker.label.clone(),
                setup.answers,
            ),
            broker,
            exchange,
            kind,
            is_durable: Dynamic::new(setup, settings, "exchange.durable.enabled"),
            is_auto_delete: Dynamic::new(setup, settings, "exchange.autodelete.enabled"),
            routing_key: Dynamic::new(setup, settings, "routing.key"),
            headers: Dynamic::new(setup, settings, "headers"),
            properties: properties(setup, settings)?,
        };
        let constants = Message::with_options(Payload::Text(""), &[]);
        let checked = producer.check_values(&constants, true);
        checked.map_err(|cause| settings.refused(cause))?;
        Ok(BrokerSink::new(setup, producer))
    }
}

/// The properties that are set; `timestamp` is a day, as Siddhi reads it.
fn properties(
    setup: &SinkSetup<'_>,
    settings: Settings<'_>,
) -> Result<Vec<(&'static str, Dynamic)>, Error> {
    let mut found = Vec::new();
    for name in SETTABLE {
        let value = match (name, settings.text(name)) {
            // The annotation has an element of that name, so that it is never anything else.
            ("type", _) => Dynamic::Constant(setup.transport.ty.clone()),
            ("timestamp", Some(text)) => {
                let day = jiff::civil::Date::strptime("%d/%m/%Y", text.trim()).ok();
                let at = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::system()).ok());
                let at = at.ok_or_else(|| {
                    settings.refused(format!("option 'timestamp' is '{text}': write dd/MM/yyyy"))
                })?;
                Dynamic::Constant(at.timestamp().as_second().to_string())
            }
            (_, None) if settings.text_or_default(name).is_empty() => continue,
            _ => Dynamic::new(setup, settings, name),
        };
        found.push((name, value));
    }
    Ok(found)
}

impl Producer for RabbitProducer {
    type Session = (Session, Channel);

    fn label(&self) -> &str {
        &self.broker.label
    }

    fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    fn check(&self, message: &Message<'_>, _payload: &[u8]) -> Result<(), String> {
        self.check_values(message, false)
    }

    /// A connection, and the channel that messages go by.
    async fn open(&self) -> Result<(Session, Channel), OpenError> {
        let session = Session::open(&self.broker).await?;
        let messages = session.channel().await?;
        answered(messages.confirm_select(ConfirmSelectOptions::default())).await?;
        if self.is_fixed() {
            let message = Message::with_options(Payload::Text(""), &[]);
            self.ensure(&session, &message).await?;
        }
        Ok((session, messages))
    }

    async fn serve(&self, (session, messages): (Session, Channel)) {
        let (flying, flown) = mpsc::channel(FLYING_MAX);
        let lost = tokio::select! {
            ended = self.send(&session, &messages, flying) => ended.err(),
            cause = self.confirm(flown) => Some(cause),
            cause = session.lost() => Some(cause),
        };
        let result = match lost {
            Some(cause) => Err(cause),
            None => {
                session.close().await;
                Ok(())
            }
        };
        self.in_flight.ended(result);
    }
}

impl RabbitProducer {
    /// Can a message be written? Before the first event only what does not depend on one is judged.
    fn check_values(&self, message: &Message<'_>, only_constant: bool) -> Result<(), String> {
        let value = |dynamic: &Dynamic| match dynamic {
            Dynamic::Event(_) if only_constant => None,
            dynamic => Some(dynamic.of(message).to_owned()),
        };
        if let (Some(exchange), Some(kind)) = (value(&self.exchange), value(&self.kind)) {
            check_exchange(&exchange, kind.trim())?;
        }
        if let Some(key) = value(&self.routing_key) {
            check_short("routing.key", &key)?;
        }
        if let Some(headers) = value(&self.headers) {
            for (key, _) in list(&headers).map_err(|entry| {
                format!("option 'headers' has the entry '{entry}': write 'key:value','key:value'")
            })? {
                check_short("headers", &key)?;
            }
        }
        for (name, property) in &self.properties {
            let Some(text) = value(property) else {
                continue;
            };
            check_short(name, &text)?;
            if matches!(*name, "priority" | "delivery.mode") && number::<u8>(&text).is_none() {
                return Err(format!(
                    "option '{name}' is '{text}': write a number up to 255"
                ));
            }
        }
        Ok(())
    }

    /// Does no event say what the exchange is? Then it is found or made with the connection.
    fn is_fixed(&self) -> bool {
        let all = [
            &self.exchange,
            &self.kind,
            &self.is_durable,
            &self.is_auto_delete,
        ];
        all.iter().all(|d| matches!(d, Dynamic::Constant(_)))
    }

    /// Finds or makes the exchange of a message.
    async fn ensure(&self, session: &Session, message: &Message<'_>) -> Result<(), String> {
        let name = self.exchange.of(message);
        if name.is_empty() {
            return Ok(());
        }
        let wanted = Wanted::Exchange {
            name,
            kind: self.kind.of(message).trim(),
            options: ExchangeDeclareOptions {
                durable: parse_bool(self.is_durable.of(message).trim()),
                auto_delete: parse_bool(self.is_auto_delete.of(message).trim()),
                ..ExchangeDeclareOptions::default()
            },
        };
        session.ensure(&wanted).await
    }

    /// Sends what waits, until the sink is closed and nothing waits.
    async fn send(
        &self,
        session: &Session,
        messages: &Channel,
        flying: mpsc::Sender<(u64, Publishing)>,
    ) -> Result<(), String> {
        let mut known = HashSet::new();
        if let Dynamic::Constant(exchange) = &self.exchange
            && self.is_fixed()
        {
            known.insert(exchange.clone());
        }
        while !self.in_flight.is_done() {
            while let Some((number, sent)) = self.in_flight.try_next() {
                let message = sent.message();
                let exchange = self.exchange.of(&message);
                if !known.contains(exchange) {
                    self.ensure(session, &message).await?;
                    known.insert(exchange.to_owned());
                }
                let publishing = self.publishing(messages.clone(), Arc::clone(&sent));
                let mut publishing = maybe_done(publishing);
                // lapin puts a message into its queue when it is first asked how far that is: the order
                // of these first questions is that of the messages.
                poll_fn(|context| {
                    let asked = Pin::new(&mut publishing).poll(context);
                    Poll::Ready(asked.is_ready())
                })
                .await;
                if flying.send((number, publishing)).await.is_err() {
                    // Who confirms has ended, and says why.
                    return std::future::pending().await;
                }
            }
            self.in_flight.changed().await;
        }
        Ok(())
    }

    fn publishing(
        &self,
        messages: Channel,
        sent: Arc<Sent>,
    ) -> Pin<Box<dyn Future<Output = lapin::Result<Confirmation>> + Send>> {
        let (exchange, key, properties) = {
            let message = sent.message();
            let exchange = short(self.exchange.of(&message));
            let key = short(self.routing_key.of(&message));
            (exchange, key, self.filled(&message))
        };
        Box::pin(async move {
            let options = BasicPublishOptions::default();
            let publishing =
                messages.basic_publish(exchange, key, options, &sent.payload, properties);
            publishing.await?.await
        })
    }

    fn filled(&self, message: &Message<'_>) -> BasicProperties {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut filled = BasicProperties::default()
            // An option counts more.
            .with_timestamp(now.map_or(0, |since| since.as_secs()));
        for (name, value) in &self.properties {
            let value = value.of(message).trim();
            if !value.is_empty() {
                filled = set(filled, name, value);
            }
        }
        // Checked when it was published.
        let headers = list(self.headers.of(message)).unwrap_or_default();
        match headers.is_empty() {
            true => filled,
            false => filled.with_headers(table(&headers)),
        }
    }

    /// Takes what the broker says of each message, in their order; why it takes no more.
    async fn confirm(&self, mut flown: mpsc::Receiver<(u64, Publishing)>) -> String {
        while let Some((number, mut publishing)) = flown.recv().await {
            (&mut publishing).await;
            match Pin::new(&mut publishing).take_output() {
                Some(Err(error)) => return told(error),
                Some(Ok(Confirmation::Nack(_))) => {
                    return "the broker could not keep a message".to_owned();
                }
                _ => self.in_flight.confirm(number),
            }
        }
        // Who sends has ended, and says why.
        std::future::pending().await
    }
}
