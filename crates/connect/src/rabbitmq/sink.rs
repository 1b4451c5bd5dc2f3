//! The `rabbitmq` sink: messages in order, many on their way, each kept until the broker confirms it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;

use super::session::{BLOCK_BYTES, Out, Reader, Session, channel, watch};
use super::wire::{self, Frame, Method, Traits};
use super::{Broker, KINDS, PATIENCE, check_exchange, check_short};
use crate::component::{Payload, Sink, SinkSetup};
use crate::error::Error;
use crate::http::Dynamic;
use crate::mapper::scalar::parse_bool;
use crate::message::{Message, Sent, Undelivered};
use crate::net::{Network, Outflow, Settings, Signs, list, number};

/// How long the last words may take.
const LEAVE: Duration = Duration::from_secs(2);

/// Messages go by this channel.
const MESSAGES: u16 = 1;

/// Exchanges are asked for by this one: it ends where there is none.
const QUESTIONS: u16 = 2;

pub(super) struct RabbitSink {
    network: Arc<Network>,
    shared: Arc<Shared>,
    connected: Option<Instant>,
}

struct Shared {
    broker: Broker,
    exchange: Dynamic,
    kind: Dynamic,
    is_durable: Dynamic,
    is_auto_delete: Dynamic,
    routing_key: Dynamic,
    headers: Dynamic,
    /// Properties by name; those without a value are left out.
    properties: Vec<(&'static str, Dynamic)>,
    outflow: Outflow,
    /// Messages on their way on this connection, by the number that the channel has for them.
    flying: Mutex<BTreeMap<u64, u64>>,
}

impl RabbitSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<RabbitSink, Error> {
        let settings = Settings::of_sink(setup.transport);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let broker = Broker::new(settings, setup.environment, "sink", stream)?;
        let exchange = Dynamic::new(setup, "exchange.name", "");
        let kind = Dynamic::new(setup, "exchange.type", "direct");
        let name = match &exchange {
            Dynamic::Constant(name) => name,
            Dynamic::Event(_) => "",
        };
        let fixed = match &kind {
            Dynamic::Constant(kind) => kind.trim(),
            Dynamic::Event(_) => KINDS[0],
        };
        check_exchange(name, fixed).map_err(|cause| settings.refused(cause))?;
        let shared = Shared {
            outflow: Outflow::new(format!("{app}/{stream}"), broker.label.clone()),
            broker,
            exchange,
            kind,
            is_durable: Dynamic::new(setup, "exchange.durable.enabled", "false"),
            is_auto_delete: Dynamic::new(setup, "exchange.autodelete.enabled", "false"),
            routing_key: Dynamic::new(setup, "routing.key", ""),
            headers: Dynamic::new(setup, "headers", ""),
            properties: properties(setup, settings)?,
            flying: Mutex::default(),
        };
        let constants = Message::with_options(Payload::Text(""), &[]);
        let checked = shared.check(&constants, true);
        checked.map_err(|cause| settings.refused(cause))?;
        Ok(RabbitSink {
            network: Arc::clone(&setup.environment.network),
            shared: Arc::new(shared),
            connected: None,
        })
    }

    fn failed(&self, cause: impl Into<crate::error::Cause>) -> Error {
        Error::failed(format!("sending to {}", self.shared.broker.label), cause)
    }
}

/// The properties that are set; `timestamp` is a day, as Siddhi reads it.
fn properties(
    setup: &SinkSetup<'_>,
    settings: Settings<'_>,
) -> Result<Vec<(&'static str, Dynamic)>, Error> {
    let mut found = Vec::new();
    for (name, form) in wire::PROPERTIES {
        let default = match name {
            "delivery.mode" => "1",
            "priority" => "0",
            _ => "",
        };
        let value = match (name, settings.text(name)) {
            ("headers" | "cluster.id", _) => continue,
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
            (_, None) if default.is_empty() => continue,
            _ => Dynamic::new(setup, name, default),
        };
        debug_assert!(form != 'F', "headers have an option of their own");
        found.push((name, value));
    }
    Ok(found)
}

impl Sink for RabbitSink {
    fn connect(&mut self) -> Result<(), Error> {
        let (opening, serving) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let open = async move { opening.open().await };
        let serve = |session| {
            serving.outflow.open();
            async move { serving.serve(session).await }
        };
        let outflow = &self.shared.outflow;
        outflow.connect(&self.network, &mut self.connected, open, serve)
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let (Payload::Text(_) | Payload::Bytes(_)) = message.payload else {
            return Err(self.failed("the payload is neither text nor bytes"));
        };
        self.shared
            .check(message, false)
            .map_err(|cause| self.failed(cause))?;
        self.shared.outflow.push(Sent::new(message))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.shared.outflow.flush()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.shared.outflow.close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.shared.outflow.take_undelivered()
    }
}

impl Shared {
    fn flying(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.flying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Can a message be written? Before the first event only what does not depend on one is judged.
    fn check(&self, message: &Message<'_>, only_constant: bool) -> Result<(), String> {
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

    async fn open(&self) -> Result<Session, String> {
        let mut session = Session::open(&self.broker).await?;
        for channel in [MESSAGES, QUESTIONS] {
            session
                .must(channel, |out| wire::channel_open(out, channel))
                .await?;
        }
        session
            .must(MESSAGES, |out| wire::confirm_select(out, MESSAGES))
            .await?;
        if let (Dynamic::Constant(name), Dynamic::Constant(kind)) = (&self.exchange, &self.kind)
            && let (Dynamic::Constant(_), Dynamic::Constant(_)) =
                (&self.is_durable, &self.is_auto_delete)
            && !name.is_empty()
        {
            let traits = self.traits(&Message::with_options(Payload::Text(""), &[]));
            session
                .ensure(QUESTIONS, traits, |out, traits| {
                    wire::exchange_declare(out, QUESTIONS, name, kind.trim(), traits);
                })
                .await
                .map_err(|cause| format!("exchange '{name}': {cause}"))?;
        }
        self.flying().clear();
        Ok(session)
    }

    fn traits(&self, message: &Message<'_>) -> Traits {
        Traits {
            is_passive: false,
            is_durable: parse_bool(self.is_durable.of(message).trim()),
            is_exclusive: false,
            is_auto_delete: parse_bool(self.is_auto_delete.of(message).trim()),
        }
    }

    async fn serve(&self, session: Session) {
        let Session {
            mut reader,
            mut writer,
            frame_max,
            beats,
        } = session;
        let (out, blocks) = channel();
        let (tell, answers) = mpsc::channel(8);
        let signs = Signs::default();
        let mut writing = std::pin::pin!(writer.run(blocks));
        let lost = {
            let (watched, words) = (out.clone(), out.clone());
            tokio::select! {
                ended = self.send(out, answers, frame_max) => ended.err(),
                cause = self.read(&mut reader, &signs, words, tell) => Some(cause),
                result = &mut writing => result.err(),
                cause = watch(&signs, beats, &watched) => Some(cause),
            }
        };
        let result = match lost {
            Some(cause) => Err(cause),
            // All is confirmed: only the good-bye is left.
            None => tokio::time::timeout(LEAVE, writing).await.unwrap_or(Ok(())),
        };
        self.outflow.ended(result);
    }

    /// Sends what waits, until the sink is closed and nothing waits.
    async fn send(
        &self,
        out: Out,
        mut answers: mpsc::Receiver<Method>,
        frame_max: usize,
    ) -> Result<(), String> {
        let mut known = HashSet::new();
        let mut tag = 0;
        while !self.outflow.is_done() {
            let mut block = Vec::new();
            while block.len() < BLOCK_BYTES
                && let Some((number, sent)) = self.outflow.try_next()
            {
                let message = sent.message();
                let exchange = self.exchange.of(&message);
                if !known.contains(exchange) {
                    self.ensure(&message, &out, &mut answers).await?;
                    known.insert(exchange.to_owned());
                }
                tag += 1;
                self.flying().insert(tag, number);
                self.write(&mut block, &message, &sent.payload, frame_max);
            }
            if block.is_empty() {
                self.outflow.changed().await;
            } else if out.send(block).await.is_err() {
                // The writer has ended, and says why.
                return std::future::pending().await;
            }
        }
        Ok(())
    }

    fn write(&self, block: &mut Vec<u8>, message: &Message<'_>, body: &[u8], frame_max: usize) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs()).to_string();
        let own = self
            .properties
            .iter()
            .map(|(name, value)| (*name, value.of(message).trim()));
        // The first of a name counts.
        let properties: Vec<(&str, &str)> = own
            .filter(|(_, value)| !value.is_empty())
            .chain([("timestamp", now.as_str())])
            .collect();
        // Checked when it was published.
        let headers = list(self.headers.of(message)).unwrap_or_default();
        let (exchange, key) = (self.exchange.of(message), self.routing_key.of(message));
        wire::publish(block, MESSAGES, exchange, key);
        wire::write_content(block, MESSAGES, &properties, &headers, body, frame_max);
    }

    /// Finds or makes the exchange of a message while others are on their way.
    async fn ensure(
        &self,
        message: &Message<'_>,
        out: &Out,
        answers: &mut mpsc::Receiver<Method>,
    ) -> Result<(), String> {
        let (name, kind) = (self.exchange.of(message), self.kind.of(message).trim());
        if name.is_empty() || matches!(self.exchange, Dynamic::Constant(_)) && self.is_fixed() {
            return Ok(());
        }
        let traits = self.traits(message);
        for is_passive in [true, false] {
            let traits = Traits {
                is_passive,
                ..traits
            };
            let mut block = Vec::new();
            wire::exchange_declare(&mut block, QUESTIONS, name, kind, traits);
            match ask(block, out, answers).await? {
                Method::ExchangeDeclareOk => return Ok(()),
                Method::Close { code: 404, .. } if is_passive => {
                    let mut block = Vec::new();
                    wire::close_ok(&mut block, QUESTIONS);
                    wire::channel_open(&mut block, QUESTIONS);
                    ask(block, out, answers).await?;
                }
                Method::Close { code, text } => {
                    return Err(format!("exchange '{name}': the broker says {code} {text}"));
                }
                _ => return Err("the broker says something else than it should".to_owned()),
            }
        }
        Ok(())
    }

    /// Was the exchange found or made when the connection was?
    fn is_fixed(&self) -> bool {
        let all = [&self.kind, &self.is_durable, &self.is_auto_delete];
        all.iter().all(|d| matches!(d, Dynamic::Constant(_)))
    }

    /// Takes answers until the connection ends; why it does.
    async fn read(
        &self,
        reader: &mut Reader,
        signs: &Signs,
        out: Out,
        tell: mpsc::Sender<Method>,
    ) -> String {
        loop {
            let frame = match reader.frame().await {
                Ok(frame) => frame,
                Err(cause) => return cause,
            };
            signs.heard();
            let Frame::Method { channel, method } = frame else {
                continue;
            };
            match method {
                Method::Ack { tag, is_multiple } => self.confirm(tag, is_multiple),
                Method::Nack { .. } => return "the broker could not keep a message".to_owned(),
                Method::Blocked { reason } => {
                    tracing::warn!(
                        sink = self.broker.name,
                        reason,
                        "the broker takes no messages now"
                    );
                }
                Method::Unblocked => {
                    tracing::info!(sink = self.broker.name, "the broker takes messages again");
                }
                method if channel == QUESTIONS => {
                    // Who has asked waits, or has gone with this connection.
                    tell.send(method).await.ok();
                }
                Method::Close { code, text } => {
                    let mut block = Vec::new();
                    wire::close_ok(&mut block, channel);
                    out.send(block).await.ok();
                    return format!("the broker says {code} {text}");
                }
                Method::Flow { is_active } => {
                    let mut block = Vec::new();
                    wire::flow_ok(&mut block, channel, is_active);
                    out.send(block).await.ok();
                }
                _ => {}
            }
        }
    }

    fn confirm(&self, tag: u64, is_multiple: bool) {
        let mut flying = self.flying();
        let confirmed: Vec<u64> = if is_multiple {
            let later = flying.split_off(&(tag + 1));
            std::mem::replace(&mut *flying, later)
                .into_values()
                .collect()
        } else {
            flying.remove(&tag).into_iter().collect()
        };
        drop(flying);
        for number in confirmed {
            self.outflow.confirm(number);
        }
    }
}

async fn ask(
    block: Vec<u8>,
    out: &Out,
    answers: &mut mpsc::Receiver<Method>,
) -> Result<Method, String> {
    if out.send(block).await.is_err() {
        // The writer has ended, and says why.
        return std::future::pending().await;
    }
    match tokio::time::timeout(PATIENCE, answers.recv()).await {
        Ok(Some(method)) => Ok(method),
        _ => Err("the broker does not answer".to_owned()),
    }
}
