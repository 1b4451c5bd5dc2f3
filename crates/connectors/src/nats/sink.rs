//! The `nats` sink: messages in order, many on their way, each kept until the server has it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tokio::sync::oneshot;

use super::jetstream::{first_name, names_question, new_stream};
use super::protocol::{Message as Received, Said, publish};
use super::session::{BLOCK_BYTES, Out, Pings, Reader, Refusal, Session, answer, channel};
use super::{PATIENCE, Server, check_subject};
use connect::component::SinkSetup;
use connect::error::{Error, OpenError};
use connect::ids::Ids;
use connect::message::Message;
use connect::net::{BrokerSink, InFlight, Producer};
use connect::option::Dynamic;
use connect::option::Settings;

/// How long the last words may take.
const LEAVE: Duration = Duration::from_secs(2);

/// How often it is looked whether an acknowledgement is overdue.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct NatsProducer {
    server: Server,
    subject: Dynamic,
    in_flight: InFlight,
    /// Of the longest message that the server takes.
    payload_bytes_max: AtomicUsize,
    /// Begins the names by which a stream knows a message that comes twice.
    id: String,
    /// Questions to JetStream, by the last part of the subject of their answer.
    asked: Mutex<HashMap<String, oneshot::Sender<Received>>>,
}

impl NatsProducer {
    pub fn sink(setup: &SinkSetup<'_>) -> Result<BrokerSink<NatsProducer>, Error> {
        let settings = Settings::of_sink(setup.transport, crate::nats::CONNECTORS);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let server = Server::new(settings, setup.environment, "sink", stream)?;
        let subject = Dynamic::new(setup, settings, "destination");
        if let Dynamic::Constant(text) = &subject {
            check_subject(text)
                .map_err(|cause| settings.refused(format!("option 'destination': {cause}")))?;
        }
        let producer = NatsProducer {
            in_flight: InFlight::new(
                format!("{app}/{stream}"),
                server.label.clone(),
                setup.answers,
            ),
            server,
            subject,
            payload_bytes_max: AtomicUsize::new(1 << 20),
            id: Ids::default().next(),
            asked: Mutex::default(),
        };
        Ok(BrokerSink::new(setup, producer))
    }
}

impl Producer for NatsProducer {
    type Session = Session;

    fn label(&self) -> &str {
        &self.server.label
    }

    fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    fn check(&self, message: &Message<'_>, payload: &[u8]) -> Result<(), String> {
        check_subject(self.subject.of(message))?;
        let (bytes, max) = (
            payload.len(),
            self.payload_bytes_max.load(Ordering::Relaxed),
        );
        match bytes > max {
            true => Err(format!(
                "the payload has {bytes} bytes, the server takes {max}"
            )),
            false => Ok(()),
        }
    }

    async fn open(&self) -> Result<Session, OpenError> {
        let mut session = Session::open(&self.server).await?;
        let max = session.payload_bytes_max;
        self.payload_bytes_max.store(max, Ordering::Relaxed);
        if self.server.is_streaming {
            let inbox = session.inbox.clone();
            session.command(&format!("SUB {inbox}.* 1\r\n")).await?;
            session.settle().await?;
        }
        Ok(session)
    }

    async fn serve(&self, session: Session) {
        let Session {
            mut reader,
            mut writer,
            inbox,
            liveness,
            ..
        } = session;
        let (out, blocks) = channel();
        let pings = Pings::default();
        liveness.heard();
        let mut writing = std::pin::pin!(writer.run(blocks));
        let lost = {
            let (watched, answers) = (out.clone(), out.clone());
            let sending = async {
                match self.server.is_streaming {
                    true => self.send_to_streams(&inbox, out).await,
                    false => self.send(&pings, out).await,
                }
            };
            tokio::select! {
                ended = sending => ended.err(),
                cause = self.read(&mut reader, &inbox, &pings, answers) => Some(cause),
                result = &mut writing => result.err(),
                cause = pings.watch(&liveness, self.server.quiet, &watched) => Some(cause),
                cause = self.overdue() => Some(cause),
            }
        };
        self.asked().clear();
        let result = match lost {
            Some(cause) => Err(cause),
            // All is confirmed: only the end is left to be written.
            None => tokio::time::timeout(LEAVE, writing).await.unwrap_or(Ok(())),
        };
        self.in_flight.ended(result);
    }
}

impl NatsProducer {
    fn asked(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Received>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what waits, until the sink is closed and nothing waits. The pong behind a block confirms
    /// what stands in it.
    async fn send(&self, pings: &Pings, out: Out) -> Result<(), String> {
        while !self.in_flight.is_done() {
            let (mut block, mut last) = (Vec::new(), None);
            while block.len() < BLOCK_BYTES
                && let Some((number, sent)) = self.in_flight.try_next()
            {
                let subject = self.subject.of(&sent.message()).to_owned();
                publish(&mut block, &subject, None, "", &sent.payload);
                last = Some(number);
            }
            if last.is_none() {
                self.in_flight.changed().await;
            } else if pings.send(&out, block, last).await.is_err() {
                // The writer has ended, and says why.
                return std::future::pending().await;
            }
        }
        Ok(())
    }

    /// As [`NatsProducer::send`]; each message is acknowledged by the stream that keeps its subject.
    async fn send_to_streams(&self, inbox: &str, out: Out) -> Result<(), String> {
        let mut kept = HashSet::new();
        while !self.in_flight.is_done() {
            let mut block = Vec::new();
            while block.len() < BLOCK_BYTES
                && let Some((number, sent)) = self.in_flight.try_next()
            {
                let message = sent.message();
                let subject = self.subject.of(&message);
                if !kept.contains(subject) {
                    self.keep(subject, inbox, &out).await?;
                    kept.insert(subject.to_owned());
                }
                let reply = format!("{inbox}.{number}");
                let headers = format!("NATS/1.0\r\nNats-Msg-Id: {}-{number}\r\n\r\n", self.id);
                publish(&mut block, subject, Some(&reply), &headers, &sent.payload);
            }
            if block.is_empty() {
                self.in_flight.changed().await;
            } else if out.send(block).await.is_err() {
                return std::future::pending().await;
            }
        }
        Ok(())
    }

    /// Makes a stream for a subject that none keeps.
    async fn keep(&self, subject: &str, inbox: &str, out: &Out) -> Result<(), String> {
        let said = |refusal: Refusal| format!("stream of subject '{subject}': {}", refusal.text);
        let question = names_question(subject);
        let names = self.ask("STREAM.NAMES", &question, inbox, out).await;
        if first_name(&names.map_err(said)?).is_some() {
            return Ok(());
        }
        let (name, configuration) = new_stream(subject);
        let what = format!("STREAM.CREATE.{name}");
        let made = self.ask(&what, &configuration, inbox, out).await;
        made.map_err(said)?;
        tracing::info!(stream = name, subject, "created a stream for the subject");
        Ok(())
    }

    async fn ask(
        &self,
        what: &str,
        question: &Json,
        inbox: &str,
        out: &Out,
    ) -> Result<Json, Refusal> {
        let (tell, told) = oneshot::channel();
        self.asked().insert("ask".to_owned(), tell);
        let mut block = Vec::new();
        let (subject, reply) = (format!("$JS.API.{what}"), format!("{inbox}.ask"));
        let body = question.to_string();
        publish(&mut block, &subject, Some(&reply), "", body.as_bytes());
        if out.send(block).await.is_err() {
            return std::future::pending().await;
        }
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(message)) => answer(message.status(), &message.payload),
            _ => Err("JetStream does not answer".to_owned().into()),
        }
    }

    /// Takes answers until the connection ends; why it does.
    async fn read(&self, reader: &mut Reader, inbox: &str, pings: &Pings, out: Out) -> String {
        loop {
            let said = match reader.next().await {
                Ok(said) => said,
                Err(cause) => return cause,
            };
            match said {
                Said::Pong => {
                    if let Some(number) = pings.answered() {
                        self.in_flight.confirm_through(number);
                    }
                }
                Said::Ping => {
                    if out.send(b"PONG\r\n".to_vec()).await.is_err() {
                        // The writer has ended, and says why.
                        return std::future::pending().await;
                    }
                }
                Said::Message(message) => {
                    if let Err(cause) = self.answered(inbox, message) {
                        return cause;
                    }
                }
                // It has thrown a message away that no pong may confirm.
                Said::Error(cause) => return format!("the server refuses: {cause}"),
                Said::Info(_) | Said::Ok => {}
            }
        }
    }

    /// A stream has taken a message, or says why not; or JetStream answers a question.
    fn answered(&self, inbox: &str, message: Received) -> Result<(), String> {
        let token = message.subject.strip_prefix(inbox).unwrap_or_default();
        let token = token.trim_start_matches('.');
        let Ok(number) = token.parse() else {
            if let Some(tell) = self.asked().remove(token) {
                tell.send(message).ok();
            }
            return Ok(());
        };
        match message.status() {
            Some((503, _)) => return Err("no stream keeps the subject any more".to_owned()),
            status => answer(status, &message.payload).map_err(|refusal| refusal.text)?,
        };
        self.in_flight.confirm(number);
        Ok(())
    }

    /// Returns when a message has not been confirmed for too long.
    async fn overdue(&self) -> String {
        let mut oldest = (None, Instant::now());
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.in_flight.oldest();
            if now.is_none() || now != oldest.0 {
                oldest = (now, Instant::now());
            } else if oldest.1.elapsed() >= self.server.ack_wait {
                let seconds = self.server.ack_wait.as_secs();
                return format!("a message was not acknowledged within {seconds} s");
            }
        }
    }
}
