//! The `mqtt` sink: messages in order, many on their way, each kept until the broker has it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rumqttc::{Packet, PubRel, Publish, QoS};
use tokio::sync::Notify;

use super::session::{Out, Outgoing, PACKET_BYTES_MAX, Reader, Session, channel, watch};
use super::{Broker, bad_quality, quality};
use connect::component::SinkSetup;
use connect::error::{Error, OpenError};
use connect::message::{Message, Sent};
use connect::net::{BrokerSink, InFlight, Producer};
use connect::option::Dynamic;
use connect::option::Settings;

/// Messages of quality 2 that are on their way at once. Brokers close the connection of whoever sends
/// more than they allow without saying how many that is; Mosquitto allows 20, Paho sends 10.
const EXACT_MAX: usize = 10;

/// How long the good-bye may take.
const LEAVE: Duration = Duration::from_secs(2);

pub(super) struct MqttProducer {
    broker: Broker,
    topic: Dynamic,
    quality: Dynamic,
    retain: Dynamic,
    in_flight: InFlight,
    handshakes: Mutex<Handshakes>,
    /// One message of quality 2 less is on its way.
    fewer: Notify,
}

/// How far messages of quality 1 and 2 have come.
#[derive(Default)]
struct Handshakes {
    /// Packet numbers of messages that were sent on this connection.
    sent: HashMap<u16, u64>,
    /// Those of them with quality 2.
    exact: HashSet<u16>,
    /// Messages of quality 2 that the broker has, and that it is to release.
    released: HashSet<u64>,
    /// The number behind the last that was ever sent.
    sent_before: u64,
    /// What a process before this one has left at the broker is gone.
    is_fresh: bool,
}

impl MqttProducer {
    pub fn sink(setup: &SinkSetup<'_>) -> Result<BrokerSink<MqttProducer>, Error> {
        let settings = Settings::of_sink(setup.transport, crate::mqtt::CONNECTORS);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let broker = Broker::new(settings, setup.environment, "sink", stream)?;
        let qos = Dynamic::new(setup, settings, "quality.of.service");
        if let Dynamic::Constant(text) = &qos
            && quality(text).is_none()
        {
            return Err(settings.refused(bad_quality(text)));
        }
        let topic = Dynamic::new(setup, settings, "topic");
        if let Dynamic::Constant(text) = &topic {
            check_topic(text)
                .map_err(|cause| settings.refused(format!("option 'topic': {cause}")))?;
        }
        let producer = MqttProducer {
            in_flight: InFlight::new(format!("{app}/{stream}"), broker.url.clone(), setup.answers),
            broker,
            topic,
            quality: qos,
            retain: Dynamic::new(setup, settings, "message.retain"),
            handshakes: Mutex::default(),
            fewer: Notify::new(),
        };
        Ok(BrokerSink::new(setup, producer))
    }
}

fn check_topic(topic: &str) -> Result<(), String> {
    let is_good = !topic.is_empty() && topic.len() < 65_536 && !topic.contains(['+', '#', '\0']);
    match is_good {
        true => Ok(()),
        false => Err(format!(
            "'{topic}' is not a topic to publish to: it must not be empty or contain wildcards"
        )),
    }
}

impl Producer for MqttProducer {
    type Session = Session;

    fn label(&self) -> &str {
        &self.broker.url
    }

    fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    fn check(&self, message: &Message<'_>, payload: &[u8]) -> Result<(), String> {
        let topic = self.topic.of(message);
        check_topic(topic)?;
        let qos = self.quality.of(message);
        if quality(qos).is_none() {
            return Err(bad_quality(qos));
        }
        match payload.len() + topic.len() + 16 > PACKET_BYTES_MAX {
            true => Err(format!("the payload has {} bytes, too many", payload.len())),
            false => Ok(()),
        }
    }

    async fn open(&self) -> Result<Session, OpenError> {
        if !self.broker.is_clean && !self.handshakes().is_fresh {
            // Numbers of packets that a process before this one has left there would hide our own.
            let mut session = Session::open(&self.broker, true).await?;
            let (out, none) = channel();
            drop(out);
            session.writer.run(none, None).await?;
        }
        let session = Session::open(&self.broker, self.broker.is_clean).await?;
        let mut handshakes = self.handshakes();
        handshakes.is_fresh = true;
        handshakes.sent.clear();
        handshakes.exact.clear();
        if !session.is_resumed {
            handshakes.released.clear();
        }
        drop(handshakes);
        Ok(session)
    }

    async fn serve(&self, session: Session) {
        let Session {
            mut reader,
            mut writer,
            liveness,
            ..
        } = session;
        let (out, packets) = channel();
        liveness.heard();
        let mut writing = std::pin::pin!(writer.run(packets, Some(&self.in_flight)));
        let lost = {
            let (watched, answers) = (out.clone(), out.clone());
            tokio::select! {
                () = self.send(out) => None,
                cause = self.read(&mut reader, answers) => Some(cause),
                result = &mut writing => result.err(),
                cause = watch(&liveness, &self.broker, watched) => Some(cause),
            }
        };
        let result = match lost {
            Some(cause) => Err(cause),
            // All is confirmed: only the good-bye is left.
            None => tokio::time::timeout(LEAVE, writing).await.unwrap_or(Ok(())),
        };
        self.in_flight.ended(result);
    }
}

/// Numbers of packets go round; no more messages are on their way than there are numbers.
fn packet_number(number: u64) -> u16 {
    (number % 65_535 + 1) as u16
}

impl MqttProducer {
    fn handshakes(&self) -> MutexGuard<'_, Handshakes> {
        self.handshakes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what waits, until the sink is closed and nothing waits.
    async fn send(&self, out: Out) {
        while !self.in_flight.is_done() {
            while let Some((number, sent)) = self.in_flight.try_next() {
                while self.is_full_for(&sent) {
                    self.fewer.notified().await;
                }
                let outgoing = self.outgoing(number, &sent);
                if out.send(outgoing).await.is_err() {
                    // The writer has ended, and says why.
                    return std::future::pending().await;
                }
            }
            self.in_flight.changed().await;
        }
    }

    fn is_full_for(&self, sent: &Sent) -> bool {
        let is_exact = quality(self.quality.of(&sent.message())) == Some(QoS::ExactlyOnce);
        is_exact && self.handshakes().exact.len() >= EXACT_MAX
    }

    fn outgoing(&self, number: u64, sent: &Sent) -> Outgoing {
        let message = sent.message();
        // Checked when it was published.
        let qos = quality(self.quality.of(&message)).unwrap_or(QoS::AtLeastOnce);
        let mut handshakes = self.handshakes();
        let pkid = packet_number(number);
        let is_again = number < handshakes.sent_before;
        handshakes.sent_before = handshakes.sent_before.max(number + 1);
        if qos != QoS::AtMostOnce {
            handshakes.sent.insert(pkid, number);
        }
        if qos == QoS::ExactlyOnce {
            handshakes.exact.insert(pkid);
        }
        if handshakes.released.contains(&number) {
            return Packet::PubRel(PubRel::new(pkid)).into();
        }
        drop(handshakes);
        let publish = Publish {
            dup: is_again && qos != QoS::AtMostOnce,
            qos,
            retain: connect::scalar::parse_bool(self.retain.of(&message).trim()),
            topic: self.topic.of(&message).to_owned(),
            pkid: if qos == QoS::AtMostOnce { 0 } else { pkid },
            payload: Bytes::clone(&sent.payload),
        };
        Outgoing {
            packet: Packet::Publish(publish),
            confirms: (qos == QoS::AtMostOnce).then_some(number),
        }
    }

    /// Takes answers until the connection ends; why it does.
    async fn read(&self, reader: &mut Reader, out: Out) -> String {
        loop {
            let packet = match reader.packet().await {
                Ok(packet) => packet,
                Err(cause) => return cause,
            };
            match packet {
                Packet::PubAck(ack) => self.confirm(ack.pkid),
                Packet::PubComp(ack) => self.confirm(ack.pkid),
                Packet::PubRec(ack) => {
                    self.has_arrived(ack.pkid);
                    let release = Packet::PubRel(PubRel::new(ack.pkid));
                    if out.send(release.into()).await.is_err() {
                        return std::future::pending().await;
                    }
                }
                _ => {}
            }
        }
    }

    /// The broker has a message of quality 2: it is not sent again, only released.
    fn has_arrived(&self, pkid: u16) {
        let mut handshakes = self.handshakes();
        if let Some(number) = handshakes.sent.get(&pkid).copied() {
            handshakes.released.insert(number);
        }
    }

    fn confirm(&self, pkid: u16) {
        let mut handshakes = self.handshakes();
        let Some(number) = handshakes.sent.remove(&pkid) else {
            return;
        };
        handshakes.released.remove(&number);
        if handshakes.exact.remove(&pkid) {
            self.fewer.notify_one();
        }
        drop(handshakes);
        self.in_flight.confirm(number);
    }
}
