//! The `kafka` sink by the own client ([`super::wire::Producer`]): records go from the mapper's bytes into the batch
//! that is sent.
//!
//! Promises: as [`super::sink`], and the order of a partition also where several requests are on their way.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::oversized;
use super::properties::option;
use super::sequence;
use super::sink::{CLOSE, IDLE_LOOK, KafkaSink, LOOK_MAX, PATIENCE, POLL_EVERY, Sequence};
use super::wire::{Appended, Failed, Options, Outgoing, Producer, Why};
use crate::spec::kafka_choice as choice;
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::{Cause, Error, chain};
use connect::message::{Message, Undelivered};
use connect::net::Network;
use connect::option::{Dynamic, Settings, number};
use connect::retry::Reminder;

/// For what is given back when a sink ends.
const ENDED: &str = "the sink was closed before the broker had confirmed it";

/// Where records go.
enum Partition {
    /// By their key or by chance.
    Chosen,
    Fixed(i32),
    /// As an option says, of the event or wrong.
    Said(Dynamic),
}

pub(super) struct OwnSink {
    name: String,
    options: Arc<Options>,
    network: Arc<Network>,
    topic: Dynamic,
    partition: Partition,
    key: Dynamic,
    sequence: Option<Sequence>,
    is_binary: bool,
    is_synchronous: bool,
    /// Its destination is waited for (`on.error='WAIT'`), record by record.
    waits: bool,
    producer: Option<Producer>,
    /// What did not arrive, in the order in which it was published, by its numbers.
    failed: Vec<(u64, Undelivered)>,
    /// What the broker will never take.
    refused: Vec<(u64, Undelivered)>,
    last_number: u64,
    unpolled: u32,
    is_lost: bool,
    /// When it is said again that the broker is away.
    reminder: Reminder,
    header: Vec<u8>,
}

/// The sink of the client that the options choose.
pub(super) fn chosen(setup: &SinkSetup<'_>, sink: KafkaSink) -> Result<Box<dyn Sink>, Error> {
    let settings = Settings::of_sink(setup.transport, crate::kafka::CONNECTORS);
    let properties = option(
        settings,
        setup.environment,
        "sink",
        "optional.configuration",
    );
    let client = settings.text(choice::OPTION);
    let choice = choice::choose(choice::Side::Sink, client, properties.unwrap_or_default())
        .map_err(|why| settings.refused(why))?;
    if !choice.is_own {
        tracing::debug!(why = choice.why, "records are written by client 'rdkafka'");
        return Ok(Box::new(sink));
    }
    match Options::new(&sink.config) {
        Ok(options) => Ok(Box::new(OwnSink::new(setup, sink, options))),
        Err(cause) if choice.is_auto => {
            tracing::warn!(cause, "records are written by client 'rdkafka'");
            Ok(Box::new(sink))
        }
        Err(cause) => Err(settings.refused(cause)),
    }
}

impl OwnSink {
    fn new(setup: &SinkSetup<'_>, sink: KafkaSink, options: Options) -> OwnSink {
        let partition = match sink.partition {
            Dynamic::Constant(text) if text.trim().is_empty() => Partition::Chosen,
            Dynamic::Constant(text) => match partition_number(&text) {
                Some(number) => Partition::Fixed(number),
                None => Partition::Said(Dynamic::Constant(text)),
            },
            dynamic => Partition::Said(dynamic),
        };
        OwnSink {
            name: sink.name,
            options: Arc::new(options),
            network: setup.environment.network(),
            topic: sink.topic,
            partition,
            key: sink.key,
            sequence: sink.sequence,
            is_binary: sink.is_binary,
            is_synchronous: sink.is_synchronous,
            waits: sink.waits,
            producer: None,
            failed: Vec::new(),
            refused: Vec::new(),
            last_number: 0,
            unpolled: 0,
            is_lost: false,
            reminder: Reminder::default(),
            header: Vec::new(),
        }
    }

    fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.name.clone(), cause)
    }

    /// Takes what has come back, and says what is to be said of the connection.
    fn collect(&mut self) {
        let Some(producer) = &self.producer else {
            return;
        };
        let failed = producer.take_failed();
        match producer.lost() {
            Some(cause) => {
                let waiting = producer.held();
                let what = match (self.is_lost, producer.was_there()) {
                    (true, _) => "sink is still without a connection; reconnecting",
                    (false, true) => "sink lost its connection; reconnecting",
                    (false, false) => "cannot connect sink",
                };
                self.is_lost = true;
                if self.reminder.is_due(&cause) {
                    tracing::error!(sink = self.name, cause, waiting, "{what}");
                }
            }
            None if self.is_lost => {
                self.is_lost = false;
                self.reminder = Reminder::default();
                tracing::info!(sink = self.name, "sink reconnected");
            }
            None => {}
        }
        self.take_in(&failed);
    }

    fn take_in(&mut self, failed: &[Failed]) {
        for batch in failed {
            let action = format!("writing to topic '{}'", batch.topic);
            batch.each(|number, message, bytes| {
                let error = match &batch.why {
                    Why::TooLong => Error::failed(action.clone(), oversized::too_long_there(bytes)),
                    Why::Refused(cause) => Error::failed(action.clone(), cause.clone()),
                    Why::Away(cause) => Error::unavailable("Kafka", format!("{action}: {cause}")),
                };
                let all = match batch.why {
                    Why::Away(_) => &mut self.failed,
                    _ => &mut self.refused,
                };
                all.push((number, Undelivered { message, error }));
            });
        }
        if !failed.is_empty() {
            self.failed.sort_by_key(|(number, _)| *number);
            self.refused.sort_by_key(|(number, _)| *number);
        }
    }

    /// What is still to be sent behind records that did not arrive must not overtake them: it is taken
    /// back, to be sent again behind them.
    fn call_back(&mut self) -> Result<(), Error> {
        let Some(producer) = self.producer.as_ref().filter(|_| !self.failed.is_empty()) else {
            return Ok(());
        };
        producer.take_back("records before it did not arrive");
        match self.settle(Some(PATIENCE)) {
            true => Ok(()),
            false => Err(self.unavailable("records are still on their way")),
        }
    }

    /// What did not arrive, in the order in which it was published.
    fn send_again(&mut self) -> Result<(), Error> {
        let mut failed = std::mem::take(&mut self.failed).into_iter();
        while let Some((number, Undelivered { message, .. })) = failed.next() {
            match self.put(number, &message.message(), [&[], &message.payload]) {
                Ok(()) => {}
                Err(error) if error.is_unavailable() => {
                    self.failed.push((number, Undelivered { message, error }));
                    self.failed.extend(failed);
                    self.failed.sort_by_key(|(number, _)| *number);
                    return Err(self.unavailable("the remaining records will be sent again"));
                }
                Err(error) => self.refused.push((number, Undelivered { message, error })),
            }
        }
        Ok(())
    }

    fn undelivered(&self) -> Option<Error> {
        let (_, first) = self.failed.first()?;
        Some(self.unavailable(chain(&first.error)))
    }

    /// Gives a record to the client; while that is full, what the broker confirms makes room, and the app
    /// waits.
    fn put(&mut self, number: u64, message: &Message<'_>, value: [&[u8]; 2]) -> Result<(), Error> {
        let mut full_since: Option<Instant> = None;
        while !self.offer(number, message, value)? {
            let since = *full_since.get_or_insert_with(Instant::now);
            if self.waits && since.elapsed() > PATIENCE {
                return Err(self.unavailable("as many records wait for the broker as may"));
            }
            if let Some(producer) = &self.producer {
                producer.wait(LOOK_MAX);
            }
            // What has been tried for too long makes room as well.
            self.collect();
        }
        Ok(())
    }

    /// False: the client is full.
    fn offer(&self, number: u64, message: &Message<'_>, value: [&[u8]; 2]) -> Result<bool, Error> {
        let topic = self.topic.of(message).trim();
        let action = || format!("writing to topic '{topic}'");
        let partition = match &self.partition {
            Partition::Chosen => None,
            Partition::Fixed(number) => Some(*number),
            Partition::Said(said) => match said.of(message).trim() {
                "" | "null" => None,
                text => Some(partition_number(text).ok_or_else(|| {
                    let cause = format!("option 'partition.no' is '{text}' and no partition");
                    Error::failed(action(), cause)
                })?),
            },
        };
        let key = Some(self.key.of(message)).filter(|key| !key.is_empty() && *key != "null");
        let Some(producer) = &self.producer else {
            return Err(self.unavailable("there is no connection"));
        };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let record = Outgoing {
            key: key.map(str::as_bytes),
            value,
            number,
            time: since_epoch.map_or(0, |since| since.as_millis() as i64),
            message,
        };
        if record.bytes() > producer.record_bytes() {
            let cause = oversized::too_long_here(record.bytes());
            return Err(Error::failed(action(), cause));
        }
        match producer.append(topic, partition, &record) {
            Appended::Taken => Ok(true),
            Appended::Full => Ok(false),
            Appended::NoPartition(count) => {
                let partition = partition.unwrap_or_default();
                let cause = format!("it has {count} partitions, and no partition {partition}");
                Err(Error::failed(action(), cause))
            }
        }
    }

    fn settle_if_synchronous(&mut self) -> Result<(), Error> {
        if !self.is_synchronous {
            return Ok(());
        }
        self.settle(None);
        // Who has called keeps the record.
        let last = self.refused.pop().or_else(|| self.failed.pop());
        last.map_or(Ok(()), |(_, last)| Err(last.error))
    }

    /// Waits until every record is confirmed or given up. False: some are still waited for.
    fn settle(&mut self, patience: Option<Duration>) -> bool {
        let since = Instant::now();
        loop {
            self.collect();
            let Some(producer) = self
                .producer
                .as_ref()
                .filter(|producer| producer.held() > 0)
            else {
                return true;
            };
            let left = patience.map_or(LOOK_MAX, |all| all.saturating_sub(since.elapsed()));
            if left.is_zero() {
                return false;
            }
            producer.wait(left.min(LOOK_MAX));
        }
    }

    fn make_client(&mut self) -> Result<(), Error> {
        let workers = self.network.workers();
        let workers = workers.map_err(|error| Error::failed("starting network threads", error))?;
        self.producer = Some(Producer::start(&self.options, workers));
        Ok(())
    }
}

fn partition_number(text: &str) -> Option<i32> {
    number::<i32>(text.trim()).filter(|number| *number >= 0)
}

impl Sink for OwnSink {
    /// Asks the broker for nothing: records wait for it, each for its time. What did not arrive is
    /// sent again, in order.
    fn connect(&mut self) -> Result<(), Error> {
        self.collect();
        if self.producer.is_none() {
            self.make_client()?;
        }
        self.call_back()?;
        self.send_again()
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        self.unpolled += 1;
        if self.unpolled >= POLL_EVERY {
            self.unpolled = 0;
            self.collect();
        }
        if let Some(error) = self.undelivered() {
            return Err(error);
        }
        let mut text = String::new();
        let payload = KafkaSink::payload_of(message, &mut text)?;
        let number = self.last_number + 1;
        let mut header = std::mem::take(&mut self.header);
        header.clear();
        if let Some(sequence) = &self.sequence {
            let is_binary = self.is_binary || matches!(message.payload, Payload::Bytes(_));
            sequence::write_header(&sequence.id, sequence.next, is_binary, &mut header);
        }
        let put = self.put(number, message, [&header, payload]);
        self.header = header;
        put?;
        self.last_number = number;
        if let Some(sequence) = &mut self.sequence {
            sequence.next += 1;
        }
        self.settle_if_synchronous()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.settle(None);
        self.undelivered().map_or(Ok(()), Err)
    }

    fn flush_within(&mut self, patience: Duration) -> Result<bool, Error> {
        let is_settled = self.settle(Some(patience));
        self.undelivered().map_or(Ok(is_settled), Err)
    }

    /// The client asks for its brokers by itself.
    fn look(&mut self) -> Option<Duration> {
        self.collect();
        Some(IDLE_LOOK)
    }

    fn is_away(&self) -> bool {
        self.is_lost || !self.producer.as_ref().is_some_and(Producer::was_there)
    }

    fn close(&mut self) -> Result<(), Error> {
        if !self.is_lost {
            self.settle(Some(CLOSE));
        }
        if let Some(producer) = self.producer.take() {
            let cause = producer.cause();
            let failed = producer.end(cause.as_deref().unwrap_or(ENDED));
            self.take_in(&failed);
        }
        self.undelivered().map_or(Ok(()), Err)
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        self.look_for_failed();
        self.refused.drain(..).map(|(_, refused)| refused).collect()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.look_for_failed();
        self.failed.drain(..).map(|(_, failed)| failed).collect()
    }
}

impl OwnSink {
    /// Asked behind each record.
    #[inline]
    fn look_for_failed(&mut self) {
        if self.producer.as_ref().is_some_and(Producer::has_failed) {
            self.collect();
        }
    }
}
