//! The `nats` source: a subscription, or the reader of a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use event::Value;
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot};

use super::jetstream::{Place, Reading, Wish, consumer_of, sequence, stream_of};
use super::protocol::{Message, Said, publish};
use super::session::{Out, Pings, Reader, Session, answer, channel};
use super::{Server, check_pattern, check_subject};
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::{Cause, Error, OpenError};
use connect::net::{Delivery, Ingress, Liveness, Network, Receiver, place_of, reads_text};
use connect::option::Settings;

/// How long the last words may take when the source stops.
const LEAVE: Duration = Duration::from_secs(2);

/// Messages that are asked for at once. The queue of a source holds a few times as many.
const PULL: usize = 1024;

/// How long the stream waits for messages to give before it says that there are none.
const PULL_WAIT: Duration = Duration::from_secs(30);

const ACKNOWLEDGED: &[u8] = b"+ACK";

/// A status: there is nobody of that subject, and so no such consumer.
const NO_RESPONDERS: u16 = 503;

/// What is said to those who wait for messages of a consumer when it goes.
const DELETED: &str = "Consumer Deleted";

/// Acknowledgements that may wait: more than a consumer lets be unacknowledged.
const UNACKNOWLEDGED_MAX: usize = 65_536;

pub(super) struct NatsSource {
    network: Arc<Network>,
    server: Server,
    subject: String,
    group: Option<String>,
    reading: Reading,
    /// `subscription.sequence`.
    from: Option<u64>,
    receiver: Receiver,
    counts: Arc<Counts>,
    is_text: bool,
}

#[derive(Default)]
struct Counts {
    /// Of messages of core NATS so far.
    received: AtomicU64,
    /// Number in the stream of the last message that was taken; 0 for none.
    last: AtomicU64,
}

impl NatsSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<NatsSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::nats::CONNECTORS);
        let stream = &setup.schema.name;
        let server = Server::new(settings, setup.environment, "source", stream)?;
        let subject = settings.text_or_default("destination").trim();
        let checked = match server.is_streaming {
            // What keeps them may have more than one subject; a channel was one.
            true => check_subject(subject),
            false => check_pattern(subject),
        };
        checked.map_err(|cause| settings.refused(format!("option 'destination': {cause}")))?;
        let group = settings.text("queue.group.name");
        if let Some(group) = group {
            check_subject(group)
                .map_err(|cause| settings.refused(format!("option 'queue.group.name': {cause}")))?;
        }
        let durable = settings.text("durable.name");
        let from = settings.optional("subscription.sequence")?;
        if !server.is_streaming && (durable.is_some() || from.is_some()) {
            tracing::warn!(
                stream,
                "ignoring options 'durable.name' and 'subscription.sequence': they need \
                 'streaming.cluster.id'"
            );
        }
        Ok(NatsSource {
            network: setup.environment.network(),
            receiver: Receiver::of_server(&server.label, &["sequenceNumber"]),
            reading: Reading::new(settings.text("client.id"), durable, group),
            server,
            subject: subject.to_owned(),
            group: group.map(str::to_owned),
            from,
            counts: Arc::default(),
            is_text: reads_text(setup.transport),
        })
    }

    fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.server.label.clone(), cause)
    }

    fn wish(&self) -> Wish {
        let last = self.counts.last.load(Ordering::Relaxed);
        Wish {
            subject: self.subject.clone(),
            reading: self.reading.clone(),
            last: Some(last).filter(|last| *last > 0),
            from: self.from,
            ack_wait: self.server.ack_wait,
        }
    }
}

impl Source for NatsSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let network = Arc::clone(&self.network);
        let workers = network.workers().map_err(|e| self.unavailable(e))?;
        self.receiver.ingress.open();
        let serving = Serving {
            server: self.server.clone(),
            ingress: Arc::clone(&self.receiver.ingress),
            counts: Arc::clone(&self.counts),
            is_text: self.is_text,
            wish: self.wish(),
            is_drained: Arc::default(),
            farewell: Notify::new(),
        };
        let is_drained = Arc::clone(&serving.is_drained);
        let (leave, leaving) = oneshot::channel();
        let group = self.group.clone();
        let started = workers.wait_for(async move {
            let mut session = Session::open(&serving.server).await?;
            let pull = match serving.server.is_streaming {
                true => Some(attach(&mut session, &serving.wish).await?),
                false => {
                    let group = group.map_or_else(String::new, |group| format!("{group} "));
                    let subscribe = format!("SUB {} {group}1\r\n", serving.wish.subject);
                    session.command(&subscribe).await?;
                    session.settle().await?;
                    None
                }
            };
            Ok::<_, OpenError>(tokio::spawn(serving.run(session, pull, leaving)))
        });
        let started = started.map_err(|e| self.unavailable(e))?;
        let task = started.map_err(|error| error.of(&self.server.label))?;
        link.report(Connection::Connected);
        let result = if self.server.is_streaming {
            let result = self.receiver.run(link);
            // Where the session has ended by itself, nobody listens.
            leave.send(()).ok();
            result
        } else {
            // What the server has sent by then still comes in.
            let mut leave = Some(leave);
            self.receiver.run_until(link, || {
                if let Some(leave) = leave.take() {
                    leave.send(()).ok();
                }
                is_drained.load(Ordering::Acquire)
            })
        };
        workers.wait_for(task).ok();
        result
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        let place = place_of(position).unwrap_or_default();
        self.counts.last.store(place, Ordering::Relaxed);
        Ok(())
    }
}

/// Finds the stream, makes the consumer, and subscribes to its answers.
async fn attach(session: &mut Session, wish: &Wish) -> Result<Pull, String> {
    let inbox = session.inbox.clone();
    session.command(&format!("SUB {inbox}.* 1\r\n")).await?;
    let stream = stream_of(session, &wish.subject).await?;
    let place = consumer_of(session, &stream, wish).await?;
    Ok(Pull {
        subject: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", place.consumer),
        place,
        inbox,
        left: 0,
        heard: Instant::now(),
    })
}

/// Why a session ends by itself.
enum End {
    Lost(String),
    /// The consumer has gone; the connection is as it was.
    Deleted(String),
}

/// What was asked of a stream, and how much of it is still to come.
struct Pull {
    subject: String,
    place: Place,
    inbox: String,
    left: usize,
    /// When it was asked, or gave something.
    heard: Instant,
}

impl Pull {
    /// Asks for more where all has come.
    async fn again(&mut self, out: &Out) -> Result<(), ()> {
        if self.left > 0 {
            return Ok(());
        }
        let question = json!({ "batch": PULL, "expires": PULL_WAIT.as_nanos() as u64 });
        let mut block = Vec::new();
        let reply = format!("{}.pull", self.inbox);
        let body = question.to_string();
        publish(&mut block, &self.subject, Some(&reply), "", body.as_bytes());
        self.left = PULL;
        self.heard = Instant::now();
        out.send(block).await.map_err(|_| ())
    }

    /// A message that carries no event but a state.
    fn status(&mut self, (code, words): (u16, String)) -> Result<(), End> {
        match code {
            100 => Ok(()),
            // None there, or none in time.
            404 | 408 => {
                self.left = 0;
                Ok(())
            }
            NO_RESPONDERS => Err(End::Deleted("the consumer no longer exists".to_owned())),
            409 if words == DELETED => Err(End::Deleted("the consumer was deleted".to_owned())),
            _ => Err(End::Lost(format!("JetStream answers {code} {words}"))),
        }
    }

    /// Has it not answered for longer than it may wait?
    fn is_overdue(&self) -> bool {
        self.heard.elapsed() > PULL_WAIT + super::PATIENCE
    }
}

/// A message that is to be acknowledged once the app has it safe.
struct Unacknowledged {
    reply: String,
    safe: oneshot::Receiver<()>,
}

/// What the session of a running source works with.
struct Serving {
    server: Server,
    ingress: Arc<Ingress>,
    counts: Arc<Counts>,
    is_text: bool,
    wish: Wish,
    /// All that the server has sent is in the queue.
    is_drained: Arc<AtomicBool>,
    /// The server has heard that nothing more is wanted, and has sent all before that.
    farewell: Notify,
}

impl Serving {
    async fn run(self, session: Session, mut pull: Option<Pull>, leaving: oneshot::Receiver<()>) {
        let Session {
            mut reader,
            mut writer,
            liveness,
            ..
        } = session;
        let (out, blocks) = channel();
        let (unacknowledged, to_do) = mpsc::channel(UNACKNOWLEDGED_MAX);
        let acknowledging = tokio::spawn(acknowledge(to_do, out.clone()));
        liveness.heard();
        let pings = Pings::default();
        let is_core = pull.is_none();
        let mut writing = Box::pin(writer.run(blocks));
        let end = {
            let watched = out.clone();
            let reading = self.read(
                &mut reader,
                pull.as_mut(),
                &liveness,
                &pings,
                out.clone(),
                unacknowledged,
            );
            let taking_leave = async {
                // The other end is dropped only with its message sent.
                leaving.await.ok();
                if is_core {
                    // Its answer is told from those of other pings by what it gives.
                    let unsubscribe = b"UNSUB 1\r\n".to_vec();
                    let said = pings.send(&out, unsubscribe, Some(0)).await;
                    if said.is_ok() {
                        let told = self.farewell.notified();
                        tokio::time::timeout(LEAVE, told).await.ok();
                    }
                }
            };
            tokio::select! {
                end = reading => Some(end),
                result = &mut writing => result.err().map(End::Lost),
                cause = pings.watch(&liveness, self.server.quiet, &watched) => Some(End::Lost(cause)),
                () = taking_leave => None,
            }
        };
        self.is_drained.store(true, Ordering::Release);
        let is_kept = match end {
            Some(End::Lost(cause)) => {
                // Nobody takes acknowledgements any more, so that none of them is waited for.
                drop(writing);
                self.ingress.lose(cause);
                acknowledging.await.ok();
                return;
            }
            Some(End::Deleted(cause)) => {
                self.ingress.lose(cause);
                false
            }
            None => true,
        };
        // The last acknowledgements; what is not acknowledged in time is given again.
        let settling = async {
            let last = acknowledging.await.ok().flatten();
            if let Some(pull) = &mut pull {
                self.settle(&mut reader, &out, pull, last, is_kept).await;
            }
            drop(out);
        };
        let all = async { tokio::join!(settling, writing) };
        tokio::time::timeout(LEAVE, all).await.ok();
    }

    /// Sees to it that the stream has all acknowledgements: whoever asks for its place next would get messages
    /// again that the stream was told of and had not looked at. And that it keeps the place: a consumer that
    /// was deleted is made again, as it was left by the `last` of them. A server that was stalled deletes one
    /// long after it was asked to, when its successor of the same name is there already.
    async fn settle(
        &self,
        reader: &mut Reader,
        out: &Out,
        pull: &mut Pull,
        last: Option<String>,
        is_kept: bool,
    ) {
        let is_kept = is_kept
            && match &last {
                Some(last) => has_settled(reader, out, &pull.inbox, last).await,
                None => true,
            };
        if is_kept {
            return;
        }
        if let Some(last) = last.as_deref().and_then(sequence) {
            pull.place.next = Some(last + 1);
        }
        let Some((api, question)) = self.wish.again(&pull.place) else {
            return;
        };
        let consumer = &pull.place.consumer;
        let reply = format!("{}.again", pull.inbox);
        let subject = format!("$JS.API.{api}");
        let body = question.to_string();
        let made = match request(reader, out, &subject, &reply, body.as_bytes()).await {
            Some(message) => answer(message.status(), &message.payload).map_err(|r| r.text),
            None => Err("the connection is lost".to_owned()),
        };
        match made {
            Ok(_) => tracing::warn!(
                consumer,
                next = pull.place.next,
                "durable consumer was deleted; created it again after the last acknowledged message"
            ),
            Err(cause) => tracing::warn!(
                consumer,
                cause,
                "durable consumer was deleted and cannot be created again; messages may be read again"
            ),
        }
    }

    /// Takes what comes until the connection ends; why it does.
    async fn read(
        &self,
        reader: &mut Reader,
        mut pull: Option<&mut Pull>,
        liveness: &Liveness,
        pings: &Pings,
        out: Out,
        unacknowledged: mpsc::Sender<Unacknowledged>,
    ) -> End {
        // Why the writer has ended is said by itself.
        let ended = std::future::pending::<End>;
        loop {
            if let Some(pull) = &mut pull {
                if pull.again(&out).await.is_err() {
                    return ended().await;
                }
                if pull.is_overdue() {
                    let cause = "JetStream sends neither messages nor heartbeats";
                    return End::Lost(cause.to_owned());
                }
            }
            let said = match reader.next().await {
                Ok(said) => said,
                Err(cause) => return End::Lost(cause),
            };
            liveness.heard();
            match said {
                Said::Message(message) => match &mut pull {
                    None => {
                        liveness.deaf();
                        self.take(message).await;
                        liveness.heard();
                    }
                    Some(pull) if message.subject.starts_with(&pull.inbox) => {
                        if let Some(status) = message.status()
                            && let Err(end) = pull.status(status)
                        {
                            return end;
                        }
                    }
                    Some(pull) => {
                        pull.left = pull.left.saturating_sub(1);
                        liveness.deaf();
                        self.take_kept(message, &unacknowledged).await;
                        liveness.heard();
                        pull.heard = Instant::now();
                    }
                },
                Said::Ping => {
                    if out.send(b"PONG\r\n".to_vec()).await.is_err() {
                        return ended().await;
                    }
                }
                Said::Pong => {
                    if pings.answered().is_some() {
                        self.farewell.notify_one();
                    }
                }
                Said::Error(cause) => return End::Lost(format!("the server refuses: {cause}")),
                Said::Info(_) | Said::Ok => {}
            }
        }
    }

    async fn push(&self, delivery: Delivery) {
        if self.ingress.push(delivery).await.is_err() {
            // The source stops, and ends this session.
            std::future::pending::<()>().await;
        }
    }

    fn delivery(&self, message: &Message, number: u64) -> Delivery {
        let number = vec![Value::str(&number.to_string())];
        Delivery::payload(message.payload.clone(), self.is_text, number)
    }

    async fn take(&self, message: Message) {
        let number = 1 + self.counts.received.fetch_add(1, Ordering::Relaxed);
        self.push(self.delivery(&message, number)).await;
    }

    /// A message of a stream.
    async fn take_kept(&self, message: Message, unacknowledged: &mpsc::Sender<Unacknowledged>) {
        let Some(number) = sequence(&message.reply) else {
            tracing::warn!(
                subject = message.subject,
                "dropping message: it has no sequence number"
            );
            return;
        };
        // One that was not acknowledged in time comes again; its first copy is underway.
        if !self.wish.reading.is_shared() && number <= self.counts.last.load(Ordering::Relaxed) {
            return;
        }
        let mut delivery = self.delivery(&message, number);
        if !self.wish.reading.is_shared() {
            delivery = delivery.at(number);
        }
        let (delivery, safe) = match self.wish.reading.acknowledges() {
            true => {
                let (delivery, safe) = delivery.with_receipt();
                (delivery, Some(safe))
            }
            false => (delivery, None),
        };
        if let Some(safe) = safe {
            let reply = message.reply;
            // Noted before it is handed over: the session may end at each wait, and what the app has must be
            // acknowledged. The other end outlives this one.
            unacknowledged
                .send(Unacknowledged { reply, safe })
                .await
                .ok();
        }
        self.push(delivery).await;
        if !self.wish.reading.is_shared() {
            self.counts.last.store(number, Ordering::Relaxed);
        }
    }
}

/// Acknowledges messages in their order, each when it is safe; ends when no more can come, and gives the
/// subject of the last that was.
async fn acknowledge(mut to_do: mpsc::Receiver<Unacknowledged>, out: Out) -> Option<String> {
    let mut last = None;
    while let Some(Unacknowledged { reply, safe }) = to_do.recv().await {
        let is_safe = safe.await.is_ok();
        // Where the source has stopped without it, the stream gives it again at once.
        let word = if is_safe { ACKNOWLEDGED } else { b"-NAK" };
        let mut block = Vec::new();
        publish(&mut block, &reply, None, "", word);
        // Without a connection the stream gives it again.
        out.send(block).await.ok();
        if is_safe {
            last = Some(reply);
        }
    }
    last
}

/// Waits until the stream has all acknowledgements, and tells whether the consumer is there. It answers one of
/// them, which is repeated for that, when it has those before it.
async fn has_settled(reader: &mut Reader, out: &Out, inbox: &str, last: &str) -> bool {
    let reply = format!("{inbox}.settled");
    let answer = request(reader, out, last, &reply, ACKNOWLEDGED).await;
    let status = answer.and_then(|answer| answer.status());
    status.is_none_or(|(code, _)| code != NO_RESPONDERS)
}

/// Publishes and waits for what comes to `reply`; messages that come meanwhile stay with the stream. `None`:
/// the connection has ended.
async fn request(
    reader: &mut Reader,
    out: &Out,
    subject: &str,
    reply: &str,
    body: &[u8],
) -> Option<Message> {
    let mut block = Vec::new();
    publish(&mut block, subject, Some(reply), "", body);
    out.send(block).await.ok()?;
    loop {
        match reader.next().await.ok()? {
            Said::Message(message) if message.subject == reply => return Some(message),
            Said::Ping => out.send(b"PONG\r\n".to_vec()).await.ok()?,
            _ => {}
        }
    }
}
