//! A sink's part in the epochs of its group: all records between two checkpoints are one transaction, and the
//! number of the epoch is committed with them.
//!
//! The number is an offset, of a consumer group without members that is named after the
//! `transactional.id`: offsets are the one thing beside records that a transaction of Kafka can hold.
//! What a broker has given up (a transaction that was open for too long, one with a record that it will
//! not take) is written again into another one, because its records are kept until the commit. A
//! commit whose answer was lost is looked up by its number.
//!
//! Never: two producers that fence each other off in turn. One that was fenced ends its apps.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::Producer as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::said;
use super::sink::{
    CLOSE_TRANSACTION, KafkaSink, LOOK, POLL_EVERY, TRANSACTION, TRANSACTION_LOOK,
    TRANSACTION_MILLIS, is_retriable, look_after,
};
use super::watch;
use connect::component::{Epochs, KEPT_BYTES_MAX, Payload};
use connect::error::Error;
use connect::message::{Message, Sent, Undelivered};
use connect::option::Dynamic;
use connect::option::number;

/// Where the number of a sink lies whose topic depends on the event: every cluster with a group has it.
const ANY_TOPIC: &str = "__consumer_offsets";

/// Every topic has it.
const PARTITION: i32 = 0;

const TIMEOUT: &str = "transaction.timeout.ms";

/// As long as a broker lets a transaction last, where it is not told otherwise
/// (`transaction.max.timeout.ms`).
const TIMEOUT_MAX: Duration = Duration::from_secs(15 * 60);

/// A transaction lasts for one interval; so many of them leave room for a broker that is slow.
const INTERVALS: u32 = 3;

/// Time for one answer about offsets.
const OFFSETS: Duration = Duration::from_secs(5);

/// A topic that is written to for the first time comes into being meanwhile.
const TOPIC: Duration = Duration::from_secs(5);

/// What a record takes beside its payload.
const RECORD_BYTES: usize = size_of::<(u64, Sent)>();

/// Beginnings of the properties that a client which reads the number has in common with the producer.
const OF_CONNECTION: &[&str] = &[
    "api.version.",
    "bootstrap.",
    "broker.",
    "client.id",
    "enable.ssl.",
    "log.",
    "reconnect.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
];

/// An epoch, and whose.
type Note = (u64, Vec<u8>);

#[derive(Default)]
pub(super) struct Part {
    pub takes_part: bool,
    id: String,
    /// Where the number lies.
    topic: String,
    is_topic_there: bool,
    /// How long a transaction may last.
    timeout: Duration,
    is_timeout_chosen: bool,
    group: Option<ConsumerGroupMetadata>,
    /// Records of the open transaction by their numbers, to write them again into another one.
    kept: Vec<(u64, Sent)>,
    bytes: usize,
    is_too_long: bool,
    /// So many of them stand in the transaction of this client.
    sent: usize,
    begun: Option<Instant>,
    is_precommitted: bool,
    /// Its commit was asked for and not answered.
    in_doubt: Option<Note>,
    committed: Option<u64>,
    refused: Vec<Undelivered>,
    /// Why nothing will work any more.
    over: Option<String>,
}

impl Part {
    /// The part of a transactional sink. `is_timeout_chosen`: by the app.
    pub fn of(config: &ClientConfig, topic: &Dynamic, is_timeout_chosen: bool) -> Part {
        let millis: Option<u32> = config.get(TIMEOUT).and_then(number);
        let (topic, is_topic_there) = match topic {
            Dynamic::Constant(topic) => (topic.trim().to_owned(), false),
            Dynamic::Event(_) => (ANY_TOPIC.to_owned(), true),
        };
        Part {
            takes_part: true,
            id: config
                .get("transactional.id")
                .unwrap_or_default()
                .to_owned(),
            topic,
            is_topic_there,
            timeout: Duration::from_millis(millis.unwrap_or(TRANSACTION_MILLIS).into()),
            is_timeout_chosen,
            ..Part::default()
        }
    }

    pub fn begun(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// Keeps a record that has gone into the transaction.
    pub fn keep(&mut self, number: u64, message: &Message<'_>, payload: &[u8]) {
        let options: Box<[String]> = message.options().into();
        let rows: Box<[u32]> = message.rows.into();
        let of_options: usize = options.iter().map(String::len).sum();
        self.bytes += RECORD_BYTES + payload.len() + size_of_val(&*rows) + of_options;
        if self.bytes > KEPT_BYTES_MAX {
            self.is_too_long = true;
            self.kept = Vec::new();
            self.sent = 0;
            return;
        }
        let sent = Sent {
            payload: Bytes::copy_from_slice(payload),
            is_text: matches!(message.payload, Payload::Text(_)),
            rows,
            events: None,
            options,
        };
        self.kept.push((number, sent));
        self.sent = self.kept.len();
    }

    /// What the broker will never take, taken out of the transaction.
    pub fn take_refused(&mut self) -> Vec<Undelivered> {
        std::mem::take(&mut self.refused)
    }

    /// Nothing is written or kept.
    fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
        self.is_too_long = false;
        self.unsent();
    }

    /// Nothing is written.
    fn unsent(&mut self) {
        self.sent = 0;
        self.begun = None;
        self.is_precommitted = false;
    }

    fn is_committed(&self, epoch: u64) -> bool {
        self.committed == Some(epoch)
    }

    /// Open for longer than the broker lets it be.
    fn is_overdue(&self) -> bool {
        self.begun.is_some_and(|at| at.elapsed() >= self.timeout)
    }
}

/// Another producer with the same id has begun, or the broker has ended a transaction by itself.
fn is_fenced(code: Option<Code>) -> bool {
    matches!(
        code,
        Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
    )
}

impl KafkaSink {
    fn over(&self) -> Option<Error> {
        let cause = self.part.over.clone()?;
        Some(Error::failed("writing in transactions to Kafka", cause))
    }

    fn ends(&mut self, cause: String) -> Error {
        let first = self.part.over.get_or_insert(cause).clone();
        Error::failed("writing in transactions to Kafka", first)
    }

    /// Why no record can be taken into the transaction now.
    pub(super) fn part_failure(&self) -> Option<Error> {
        let is_whole = self.part.sent == self.part.kept.len();
        self.over().or_else(|| {
            (!is_whole || self.part.takes_part && self.is_to_divide)
                .then(|| self.unavailable("its transaction is still to be written again"))
        })
    }

    /// Nothing of the transaction counts: a client that follows has the broker abort it, and writes its
    /// records again.
    pub(super) fn lose(&mut self, cause: &str) {
        tracing::error!(
            sink = self.name,
            cause,
            records = self.part.kept.len(),
            "transaction lost; writing its records again in a new one"
        );
        if self.part.is_too_long {
            self.ends(format!(
                "{cause}; what was written since the last checkpoint is too long to be written \
                 again here: start again with the same --state"
            ));
        }
        self.give_up();
        self.is_begun = false;
        self.part.unsent();
    }

    /// The client is of no more use.
    pub(super) fn client_failed(&mut self, cause: &str) {
        let fatal = self
            .producer
            .as_ref()
            .and_then(|p| p.client().fatal_error());
        if is_fenced(fatal.map(|(code, _)| code)) {
            self.fenced();
        } else {
            self.lose(cause);
        }
    }

    fn fenced(&mut self) -> Error {
        if self.part.is_overdue() {
            let cause = format!(
                "it was open for longer than {TIMEOUT} ({} ms)",
                self.part.timeout.as_millis()
            );
            self.lose(&cause);
            return self.unavailable(cause);
        }
        let error = self.ends(format!(
            "another producer has taken over transactional.id '{}': give each sink, and each \
             running copy of the app, its own id, then start again with the same --state",
            self.part.id
        ));
        self.give_up();
        self.is_begun = false;
        self.part.unsent();
        error
    }

    /// What an error about a transaction comes to. `Ok`: it is to be asked again at once.
    pub(super) fn judge(&mut self, error: &KafkaError, since: Instant) -> Result<(), Error> {
        if is_fenced(error.rdkafka_error_code()) {
            return Err(self.fenced());
        }
        if is_retriable(error) {
            let producer = self.producer.as_ref();
            let lost = producer.and_then(|p| p.context().watch.lost());
            return match lost {
                None if since.elapsed() < TRANSACTION => Ok(()),
                lost => Err(self.unavailable(lost.unwrap_or_else(|| said(error)))),
            };
        }
        let cause = error.to_string();
        self.lose(&cause);
        Err(self.unavailable(cause))
    }

    /// The broker said no to records: they are taken out, and the others are written again. Were there
    /// any?
    pub(super) fn set_refused_apart(&mut self) -> Result<bool, Error> {
        if let Some(over) = self.over() {
            return Err(over);
        }
        if self.failed.is_empty() && !self.is_to_divide {
            return Ok(false);
        }
        if self.producer.is_some() {
            self.lose("the broker will not take one of its records");
        }
        self.is_to_divide = false;
        let numbers: HashSet<u64> = self.failed.iter().map(|(number, _)| *number).collect();
        self.part
            .kept
            .retain(|(number, _)| !numbers.contains(number));
        let refused = std::mem::take(&mut self.failed).into_iter();
        self.part
            .refused
            .extend(refused.map(|(_, refused)| refused));
        Ok(true)
    }

    /// Of a client that has its transactional id: finds out what became of a commit that was not
    /// answered, and writes again what the transaction before it was to bring.
    pub(super) fn rejoin(&mut self) -> Result<(), Error> {
        if let Some(over) = self.over() {
            return Err(over);
        }
        self.wait_until_there()?;
        self.find_topic()?;
        if let Some(note) = self.part.in_doubt.clone()
            && self.part.begun.is_none()
        {
            if self.noted()?.as_ref() == Some(&note) {
                self.part.clear();
                self.part.committed = Some(note.0);
            }
            self.part.in_doubt = None;
        }
        let mut kept = std::mem::take(&mut self.part.kept);
        let written = self.write_again(&mut kept);
        self.part.kept = kept;
        written
    }

    /// A broker that was seen to be away is looked for in vain soon enough to say so, and not at once:
    /// who asks for the connection asks again.
    fn wait_until_there(&self) -> Result<(), Error> {
        let since = Instant::now();
        while let Some(producer) = &self.producer
            && let Some(lost) = producer.context().watch.lost()
        {
            if since.elapsed() >= TRANSACTION_LOOK {
                return Err(self.unavailable(lost));
            }
            producer.poll(look_after(since.elapsed()));
        }
        Ok(())
    }

    fn write_again(&mut self, kept: &mut Vec<(u64, Sent)>) -> Result<(), Error> {
        while self.part.sent < kept.len() {
            let (number, sent) = &mut kept[self.part.sent];
            match self.hand_over(None, &sent.message(), &sent.payload) {
                Ok(new) => {
                    *number = new;
                    self.part.sent += 1;
                }
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => {
                    let (_, message) = kept.remove(self.part.sent);
                    self.part.refused.push(Undelivered { message, error });
                }
            }
            if self.part.sent.is_multiple_of(POLL_EVERY as usize) {
                self.collect();
                if self.producer.is_none() {
                    return Err(self.unavailable("the transaction was lost again"));
                }
            }
        }
        Ok(())
    }

    /// An offset can only be of a partition that is there; asking for its topic may make it.
    fn find_topic(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        while !self.part.is_topic_there {
            let Some(producer) = &self.producer else {
                return Err(self.unavailable("there is no connection"));
            };
            let name = self.part.topic.as_str();
            let found = producer.client().fetch_metadata(Some(name), OFFSETS);
            producer.poll(LOOK);
            let lost = producer.context().watch.lost();
            let cause = match found {
                Ok(found) => {
                    let topics = found.topics();
                    let topic = topics.iter().find(|topic| topic.name() == name);
                    if topic.is_some_and(|t| t.error().is_none() && !t.partitions().is_empty()) {
                        self.part.is_topic_there = true;
                        break;
                    }
                    format!("topic '{name}' does not exist and is not created automatically")
                }
                Err(error) => said(&error),
            };
            if lost.is_some() || since.elapsed() >= TOPIC {
                return Err(self.unavailable(lost.unwrap_or(cause)));
            }
        }
        Ok(())
    }

    /// The number that lies in Kafka. Asked by a client of its own, because a producer reads nothing.
    fn noted(&mut self) -> Result<Option<Note>, Error> {
        let mut config = ClientConfig::new();
        for (name, value) in self.config.config_map() {
            if OF_CONNECTION.iter().any(|of| name.starts_with(of)) {
                config.set(name, value);
            }
        }
        config
            .set("group.id", format!("headwater-{}", self.part.id))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false");
        let reader: BaseConsumer<Reader> = config
            .create_with_context(Reader)
            .map_err(|error| Error::failed("making a Kafka client", said(&error)))?;
        self.part.group = reader.group_metadata();
        let since = Instant::now();
        loop {
            let mut asked = TopicPartitionList::new();
            asked.add_partition(&self.part.topic, PARTITION);
            let answer = reader.committed_offsets(asked, OFFSETS).and_then(|answer| {
                let all = answer.elements();
                let note = all.first().map(|element| {
                    element.error()?;
                    let Offset::Offset(epoch) = element.offset() else {
                        return Ok(None);
                    };
                    let epoch = u64::try_from(epoch).unwrap_or(0);
                    Ok(Some((epoch, element.metadata().as_bytes().to_vec())))
                });
                note.unwrap_or(Ok(None))
            });
            let error = match answer {
                Ok(note) => return Ok(note),
                Err(error) => error,
            };
            let producer = self.producer.as_ref();
            let lost = producer.and_then(|producer| {
                producer.poll(LOOK);
                producer.context().watch.lost()
            });
            if lost.is_some() || since.elapsed() >= TRANSACTION {
                return Err(self.unavailable(lost.unwrap_or_else(|| said(&error))));
            }
        }
    }

    /// Waits until every record of the transaction is at the broker.
    fn settle_transaction(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        loop {
            self.collect();
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            let Some(producer) = &self.producer else {
                return Err(self.unavailable("there is no connection"));
            };
            if producer.in_flight_count() == 0 {
                return Ok(());
            }
            let lost = producer.context().watch.lost();
            if lost.is_some() || since.elapsed() >= TRANSACTION {
                let cause = lost.unwrap_or_else(|| "records are not confirmed".to_owned());
                return Err(self.unavailable(cause));
            }
            producer.poll(look_after(since.elapsed()));
        }
    }
}

impl Epochs for KafkaSink {
    /// The first record begins it.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn precommit(&mut self, epoch: u64, key: &[u8]) -> Result<(), Error> {
        if self.part.is_committed(epoch) || self.part.is_precommitted {
            return Ok(());
        }
        self.settle_transaction()?;
        self.open_transaction()?;
        let mut offsets = TopicPartitionList::new();
        let mut number = offsets.add_partition(&self.part.topic, PARTITION);
        let offset = i64::try_from(epoch).unwrap_or(i64::MAX);
        number
            .set_offset(Offset::Offset(offset))
            .map_err(|error| Error::failed("noting an epoch", said(&error)))?;
        number.set_metadata(String::from_utf8_lossy(key));
        let since = Instant::now();
        loop {
            let (Some(producer), Some(group)) = (&self.producer, &self.part.group) else {
                return Err(self.unavailable("there is no connection"));
            };
            match producer.send_offsets_to_transaction(&offsets, group, OFFSETS) {
                Ok(()) => break,
                Err(error) => self.judge(&error, since)?,
            }
        }
        self.part.is_precommitted = true;
        Ok(())
    }

    fn commit(&mut self, epoch: u64, key: &[u8]) -> Result<(), Error> {
        self.precommit(epoch, key)?;
        let since = Instant::now();
        while !self.part.is_committed(epoch) {
            let Some(producer) = &self.producer else {
                return Err(self.unavailable("there is no connection"));
            };
            self.part.in_doubt = Some((epoch, key.to_vec()));
            match producer.commit_transaction(TRANSACTION_LOOK) {
                Ok(()) => {
                    self.is_begun = false;
                    self.part.clear();
                    self.part.in_doubt = None;
                    self.part.committed = Some(epoch);
                }
                Err(error) => self.judge(&error, since)?,
            }
        }
        Ok(())
    }

    fn abort(&mut self) -> Result<(), Error> {
        self.part.clear();
        if !std::mem::take(&mut self.is_begun) {
            return Ok(());
        }
        let aborted = self.producer.as_ref().is_some_and(|producer| {
            let is_there = producer.context().watch.lost().is_none();
            is_there && producer.abort_transaction(CLOSE_TRANSACTION).is_ok()
        });
        if !aborted {
            // The next one with the same id has it aborted.
            self.give_up();
        }
        self.failed.clear();
        self.is_to_divide = false;
        Ok(())
    }

    fn held(&self) -> usize {
        self.part.bytes
    }

    fn has_lost(&self) -> bool {
        self.part.over.is_some()
    }

    fn last_epoch(&mut self) -> Result<Option<Note>, Error> {
        self.noted()
    }

    fn fit(&mut self, interval: Duration) -> Result<(), Error> {
        let part = &mut self.part;
        if !part.is_timeout_chosen {
            let wanted = (interval * INTERVALS).min(TIMEOUT_MAX);
            part.timeout = part.timeout.max(wanted);
            self.config
                .set(TIMEOUT, part.timeout.as_millis().to_string());
        }
        if part.timeout <= interval {
            return Err(Error::refused(
                "sink 'kafka'",
                format!(
                    "a checkpoint is taken every {} s, but a transaction may last at most {} s: \
                     shorten the interval (--state-interval), or set property '{TIMEOUT}' of \
                     option 'optional.configuration' to several times the interval (the broker \
                     limits it by transaction.max.timeout.ms)",
                    interval.as_secs_f32(),
                    part.timeout.as_secs_f32(),
                ),
            ));
        }
        super::sink::fit_into_transaction(&mut self.config);
        Ok(())
    }
}

/// Of the client that reads the number. What is wrong with its broker, the producer says.
struct Reader;

impl ClientContext for Reader {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        watch::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(cause = reason, code = said(&error), "kafka client");
    }
}

impl ConsumerContext for Reader {}
