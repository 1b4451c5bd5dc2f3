//! The `sqs` sink: payloads become messages, ten to a request.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value as Json, json};

use super::BATCH_MAX;
use super::queue::{Fault, Queue, outcome};
use connect::component::{Sink, SinkSetup};
use connect::error::Error;
use connect::message::{Message, Sent, Undelivered};
use connect::net::{InFlight, Network, Number};
use connect::option::Dynamic;
use connect::option::Settings;

/// Requests on their way at once, where the queue has no order.
const FLYING_MAX: usize = 8;

/// Bytes of one request; a longer message goes alone, and the queue says whether it takes it.
const BATCH_BYTES_MAX: usize = 200_000;

/// What a message has beside its payload.
const ENTRY_BYTES: usize = 500;

pub(super) struct SqsSink {
    network: Arc<Network>,
    shared: Arc<Shared>,
    connected: Option<Instant>,
}

struct Shared {
    queue: Queue,
    group: Dynamic,
    deduplication: Dynamic,
    /// Seconds; `None`: as the queue says.
    delay: Option<u64>,
    in_flight: InFlight,
}

type Batch = Vec<(Number, Arc<Sent>)>;

impl SqsSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<SqsSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::aws::sqs::CONNECTORS);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let queue = Queue::new(settings, setup.environment, "sink")?;
        let delay: i64 = settings.number("delay.interval")?;
        Ok(SqsSink {
            network: setup.environment.network(),
            shared: Arc::new(Shared {
                in_flight: InFlight::new(format!("{app}/{stream}"), queue.label(), setup.answers),
                queue,
                group: Dynamic::new(setup, settings, "message.group.id"),
                deduplication: Dynamic::new(setup, settings, "deduplication.id"),
                delay: u64::try_from(delay).ok(),
            }),
            connected: None,
        })
    }
}

impl Sink for SqsSink {
    fn connect(&mut self) -> Result<(), Error> {
        let (opening, serving) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let open = async move {
            let opened = opening.queue.open().await;
            opened.map(drop).map_err(|fault| fault.cause)
        };
        let serve = |()| {
            serving.in_flight.open();
            async move { serving.serve().await }
        };
        let in_flight = &self.shared.in_flight;
        in_flight.connect(&self.network, &mut self.connected, open, serve)
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if message.payload.text().is_none() {
            let cause = "the payload is not text, and a queue accepts only text";
            let action = format!("sending to {}", self.shared.queue.label());
            return Err(Error::failed(action, cause));
        }
        self.shared.in_flight.push(Sent::new(message))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.shared.in_flight.flush()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.shared.in_flight.close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.shared.in_flight.take_undelivered()
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        self.shared.in_flight.take_refused()
    }
}

impl Shared {
    /// Sends what waits until the sink is closed, or the queue is lost.
    async fn serve(&self) {
        let flying_max = if self.queue.is_ordered() {
            1
        } else {
            FLYING_MAX
        };
        let mut flying = FuturesUnordered::new();
        let mut held = None;
        let result = loop {
            let has_room = flying.len() < flying_max;
            if has_room && let Some(batch) = self.next_batch(&mut held) {
                flying.push(self.send(batch));
                continue;
            }
            if flying.is_empty() && self.in_flight.is_done() {
                break Ok(());
            }
            tokio::select! {
                Some(sent) = flying.next() => if let Err(cause) = sent {
                    break Err(cause);
                },
                () = self.in_flight.changed(), if has_room => {}
            }
        };
        self.in_flight.ended(result);
    }

    /// What fits into one request; `held` is what did not fit into the last one.
    fn next_batch(&self, held: &mut Option<(Number, Arc<Sent>)>) -> Option<Batch> {
        let mut batch = Batch::new();
        let mut bytes = 0;
        while batch.len() < BATCH_MAX {
            let Some((number, sent)) = held.take().or_else(|| self.in_flight.try_next()) else {
                break;
            };
            bytes += sent.payload.len() + ENTRY_BYTES;
            if !batch.is_empty() && bytes > BATCH_BYTES_MAX {
                *held = Some((number, sent));
                break;
            }
            batch.push((number, sent));
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Sends a batch; a queue that does not take it as a whole is asked for each message.
    async fn send(&self, batch: Batch) -> Result<(), String> {
        match self.send_at_once(&batch).await {
            Err(fault) if fault.is_of_message() => {}
            sent => return sent.map_err(|fault| fault.cause),
        }
        for one in batch {
            let (number, batch) = (one.0, [one]);
            match self.send_at_once(&batch).await {
                Err(fault) if fault.is_of_message() => self.in_flight.refuse(number, fault.cause),
                sent => sent.map_err(|fault| fault.cause)?,
            }
        }
        Ok(())
    }

    async fn send_at_once(&self, batch: &[(Number, Arc<Sent>)]) -> Result<(), Fault> {
        let entries = batch
            .iter()
            .enumerate()
            .map(|(index, (_, sent))| self.entry(index, sent));
        let entries: Vec<Json> = entries.collect();
        let body = json!({ "Entries": entries });
        let answer = self.queue.ask("SendMessageBatch", body).await?;
        let (taken, failed) = outcome(&answer);
        let number = |index: usize| batch.get(index).map(|(number, _)| *number);
        for number in taken.into_iter().filter_map(number) {
            self.in_flight.confirm(number);
        }
        let mut later = None;
        for (index, is_of_message, cause) in failed {
            match number(index) {
                Some(number) if is_of_message => self.in_flight.refuse(number, cause),
                _ => later = Some(cause),
            }
        }
        match later {
            None => Ok(()),
            Some(cause) => Err(Fault {
                code: String::new(),
                cause,
            }),
        }
    }

    fn entry(&self, index: usize, sent: &Sent) -> Json {
        let message = sent.message();
        let mut entry = json!({
            "Id": index.to_string(),
            "MessageBody": message.payload.text().unwrap_or_default(),
        });
        for (name, value) in [
            ("MessageGroupId", &self.group),
            ("MessageDeduplicationId", &self.deduplication),
        ] {
            let value = value.of(&message).trim();
            if !value.is_empty() {
                entry[name] = value.into();
            }
        }
        if let Some(delay) = self.delay {
            entry["DelaySeconds"] = delay.into();
        }
        entry
    }
}
