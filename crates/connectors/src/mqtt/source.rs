//! The `mqtt` source: a session whose messages are acknowledged when the app has them safe.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::Value;
use rumqttc::{
    Packet, PubAck, PubComp, PubRec, Publish, QoS, Subscribe, SubscribeFilter, SubscribeReasonCode,
    valid_filter,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::session::{Out, Reader, Session, channel, watch};
use super::{Broker, bad_quality, quality};
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::{Error, OpenError};
use connect::net::{Delivery, Ingress, Liveness, Network, Receiver, reads_text};
use connect::option::Settings;

/// How long the last acknowledgements may take when the source stops.
const LEAVE: Duration = Duration::from_secs(5);

/// Acknowledgements that may wait: as many as there are packet numbers.
const UNACKNOWLEDGED_MAX: usize = 65_535;

pub(super) struct MqttSource {
    network: Arc<Network>,
    broker: Broker,
    filters: Vec<SubscribeFilter>,
    receiver: Receiver,
    taken: Arc<Taken>,
    is_text: bool,
}

/// Messages of quality 2 that are not released yet, by packet number: is the message safe in the app?
#[derive(Default)]
struct Taken(Mutex<HashMap<u16, bool>>);

impl Taken {
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MqttSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<MqttSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::mqtt::CONNECTORS);
        let broker = Broker::new(settings, setup.environment, "source", &setup.schema.name)?;
        let text = settings.text_or_default("quality.of.service");
        let qos = quality(text).ok_or_else(|| settings.refused(bad_quality(text)))?;
        let topics = settings.text_or_default("topic");
        let mut filters = Vec::new();
        for topic in topics.split(',').map(str::trim) {
            if !valid_filter(topic) {
                return Err(settings.refused(format!(
                    "option 'topic' has '{topic}', which is not a topic filter: '#' must be alone \
                     at the end, '+' alone between slashes"
                )));
            }
            filters.push(SubscribeFilter::new(topic.to_owned(), qos));
        }
        Ok(MqttSource {
            network: setup.environment.network(),
            receiver: Receiver::of_server(&broker.url, &["topic"]),
            broker,
            filters,
            taken: Arc::default(),
            is_text: reads_text(setup.transport),
        })
    }

    fn unavailable(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::unavailable(self.broker.url.clone(), cause)
    }
}

impl Source for MqttSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let network = Arc::clone(&self.network);
        let workers = network.workers().map_err(|e| self.unavailable(e))?;
        self.receiver.ingress.open();
        let (broker, filters) = (self.broker.clone(), self.filters.clone());
        let ingress = Arc::clone(&self.receiver.ingress);
        let taken = Arc::clone(&self.taken);
        let is_text = self.is_text;
        let (leave, leaving) = oneshot::channel();
        let started = workers.wait_for(async move {
            let mut session = Session::open(&broker, broker.is_clean).await?;
            if !session.is_resumed {
                taken.lock().clear();
            }
            let early = subscribe(&mut session, filters).await?;
            let serving = Serving {
                broker,
                ingress,
                taken,
                is_text,
            };
            Ok::<_, OpenError>(tokio::spawn(serving.run(session, early, leaving)))
        });
        let started = started.map_err(|e| self.unavailable(e))?;
        let task = started.map_err(|error| error.of(&self.broker.url))?;
        link.report(Connection::Connected);
        let result = self.receiver.run(link);
        // Where the session has ended by itself, nobody listens.
        leave.send(()).ok();
        workers.wait_for(task).ok();
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// Subscribes; a resumed session may bring messages before the answer.
async fn subscribe(
    session: &mut Session,
    filters: Vec<SubscribeFilter>,
) -> Result<Vec<Packet>, String> {
    let mut packet = Subscribe::new_many(filters.clone());
    packet.pkid = 1;
    session.writer.add(&Packet::Subscribe(packet))?;
    session.writer.write().await?;
    let mut early = Vec::new();
    loop {
        match session.reader.packet().await? {
            Packet::SubAck(ack) => {
                let refused = filters
                    .iter()
                    .zip(&ack.return_codes)
                    .find(|(_, code)| **code == SubscribeReasonCode::Failure);
                return match refused {
                    None => Ok(early),
                    Some((filter, _)) => Err(format!(
                        "the broker does not let us subscribe to '{}'",
                        filter.path
                    )),
                };
            }
            packet => early.push(packet),
        }
    }
}

/// A message that is to be acknowledged once the app has it safe.
struct Unacknowledged {
    number: u16,
    quality: QoS,
    safe: oneshot::Receiver<()>,
}

/// What the session of a running source works with.
struct Serving {
    broker: Broker,
    ingress: Arc<Ingress>,
    taken: Arc<Taken>,
    is_text: bool,
}

impl Serving {
    async fn run(self, session: Session, early: Vec<Packet>, leaving: oneshot::Receiver<()>) {
        let Session {
            mut reader,
            mut writer,
            liveness,
            ..
        } = session;
        let (out, packets) = channel();
        let (unacknowledged, to_do) = mpsc::channel(UNACKNOWLEDGED_MAX);
        // It goes on when the connection has ended: what is safe must be known on the next one.
        let acknowledging = tokio::spawn(acknowledge(to_do, out.clone(), Arc::clone(&self.taken)));
        let answers = out.clone();
        liveness.heard();
        let mut writing = Box::pin(writer.run(packets, None));
        let lost = {
            let watched = out.clone();
            let reading = self.read(&mut reader, early, &liveness, out, unacknowledged);
            tokio::select! {
                cause = reading => Some(cause),
                result = &mut writing => result.err(),
                cause = watch(&liveness, &self.broker, watched) => Some(cause),
                _ = leaving => None,
            }
        };
        match lost {
            Some(cause) => {
                // Nobody takes acknowledgements any more, so that none of them is waited for.
                drop(writing);
                self.ingress.lose(cause);
                acknowledging.await.ok();
            }
            None => {
                // A broker that does not finish in time sends those messages again.
                let settling = async {
                    self.settle(&mut reader, answers, acknowledging).await;
                    while reader.packet().await.is_ok() {}
                };
                let all = async { tokio::join!(settling, writing) };
                tokio::time::timeout(LEAVE, all).await.ok();
            }
        }
    }

    /// Takes packets until the connection ends; why it does.
    async fn read(
        &self,
        reader: &mut Reader,
        early: Vec<Packet>,
        liveness: &Liveness,
        out: Out,
        unacknowledged: mpsc::Sender<Unacknowledged>,
    ) -> String {
        let mut early = early.into_iter();
        loop {
            let packet = match early.next() {
                Some(packet) => packet,
                None => match reader.packet().await {
                    Ok(packet) => packet,
                    Err(cause) => return cause,
                },
            };
            liveness.heard();
            let answer = match packet {
                Packet::Publish(publish) => {
                    liveness.deaf();
                    let answer = self.take(publish, &unacknowledged).await;
                    liveness.heard();
                    answer
                }
                Packet::PubRel(release) => {
                    self.taken.lock().remove(&release.pkid);
                    Some(Packet::PubComp(PubComp::new(release.pkid)))
                }
                _ => None,
            };
            if let Some(packet) = answer
                && out.send(packet.into()).await.is_err()
            {
                // The writer has ended, and says why.
                return std::future::pending().await;
            }
        }
    }

    /// Reads on until what is safe is acknowledged and released. A broker that cannot write to us
    /// does not read our acknowledgements either. Messages that come meanwhile stay with the broker.
    async fn settle(&self, reader: &mut Reader, answers: Out, mut acknowledging: JoinHandle<()>) {
        let mut is_acknowledged = false;
        while !is_acknowledged || self.taken.lock().values().any(|is_safe| *is_safe) {
            tokio::select! {
                _ = &mut acknowledging, if !is_acknowledged => is_acknowledged = true,
                packet = reader.packet() => match packet {
                    Ok(Packet::PubRel(release)) => {
                        self.taken.lock().remove(&release.pkid);
                        let complete = Packet::PubComp(PubComp::new(release.pkid));
                        if answers.send(complete.into()).await.is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(_) => return,
                },
            }
        }
    }

    /// Hands a message over; what is to be answered at once.
    async fn take(
        &self,
        publish: Publish,
        unacknowledged: &mpsc::Sender<Unacknowledged>,
    ) -> Option<Packet> {
        let Publish {
            qos, pkid, topic, ..
        } = publish;
        if qos == QoS::ExactlyOnce {
            let known = self.taken.lock().get(&pkid).copied();
            match known {
                Some(true) => return Some(Packet::PubRec(PubRec::new(pkid))),
                // Answered when it is safe.
                Some(false) => return None,
                None => {}
            }
        }
        let delivery = Delivery::payload(publish.payload, self.is_text, vec![Value::str(&topic)]);
        if qos == QoS::AtMostOnce {
            if self.ingress.push(delivery).await.is_err() {
                // The source stops, and ends this session.
                std::future::pending::<()>().await;
            }
            return None;
        }
        let (delivery, safe) = delivery.with_receipt();
        let waits = Unacknowledged {
            number: pkid,
            quality: qos,
            safe,
        };
        // Noted before it is handed over: the session may end at each wait, and what the app has must be
        // acknowledged. One that it does not get is forgotten with its receipt.
        unacknowledged.send(waits).await.ok();
        if qos == QoS::ExactlyOnce {
            self.taken.lock().insert(pkid, false);
        }
        if self.ingress.push(delivery).await.is_err() {
            std::future::pending::<()>().await;
        }
        None
    }
}

/// Acknowledges messages in their order, each when it is safe; ends when no more can come.
async fn acknowledge(mut to_do: mpsc::Receiver<Unacknowledged>, out: Out, taken: Arc<Taken>) {
    while let Some(Unacknowledged {
        number,
        quality,
        safe,
    }) = to_do.recv().await
    {
        if safe.await.is_err() {
            // The source has stopped without it: the broker gives it again.
            taken.lock().remove(&number);
            continue;
        }
        let packet = if quality == QoS::ExactlyOnce {
            taken.lock().insert(number, true);
            Packet::PubRec(PubRec::new(number))
        } else {
            Packet::PubAck(PubAck::new(number))
        };
        // Without a connection the broker gives it again.
        out.send(packet.into()).await.ok();
    }
}
