//! The `kafka` sink by librdkafka: one record for each payload, repeated by librdkafka until the broker has
//! confirmed it or its time (`delivery.timeout.ms`) is over; that of a sink that waits for its
//! destination (`on.error='WAIT'`) never is.
//!
//! Promises: the records of a partition lie in it in the order in which they were published, whatever
//! becomes of the broker, unless the app allows several requests on their way
//! (`max.in.flight.requests.per.connection`), does without idempotence or gives records a time. A record
//! that the broker will not take is kept apart, and its neighbours arrive ([`super::division`]).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use event::Batch;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig};
use rdkafka::statistics::Statistics;

use super::epochs::Part;
use super::oversized::{self, Told, Verdict};
use super::properties::{Properties, Side, option};
use super::said;
use super::sequence;
use super::watch::{self, STATISTICS_MILLIS, Watch};
use connect::component::{Environment, Epochs, Payload, Sink, SinkSetup};
use connect::error::{Cause, Error, chain};
use connect::event_text::write_events;
use connect::message::{Message, Sent, Undelivered};
use connect::net::is_again_too_soon;
use connect::option::Dynamic;
use connect::option::{Settings, number};
use connect::retry::Reminder;

/// What Siddhi sets, and what differs between the defaults of Java's client and of librdkafka. Ours is
/// idempotence: what is repeated is neither doubled nor out of order (Siddhi sets `retries` to 0, and
/// loses what a broker that restarts has not confirmed).
///
/// Idempotence alone keeps no order at the beginning of a partition: a broker that knows nothing of a
/// producer takes any number of it for the first (`ProducerAppendInfo.checkSequence`), so that the second
/// request on its way is taken where the first met a partition that was not ready yet, and the first
/// comes behind it. Hence one request at a time; what gathers meanwhile is the next one, which is why a
/// batch may be larger than Siddhi's 16 KB.
const DEFAULTS: &[(&str, &str)] = &[
    ("acks", "all"),
    ("batch.size", "1000000"),
    ("max.in.flight.requests.per.connection", "1"),
    ("linger.ms", "1"),
    ("queue.buffering.max.kbytes", "32768"),
    ("delivery.timeout.ms", "120000"),
    ("partitioner", "murmur2_random"),
    ("client.id", "headwater"),
    ("log.connection.close", "false"),
    ("reconnect.backoff.max.ms", RECONNECT_MAX),
    ("statistics.interval.ms", STATISTICS_MILLIS),
    // A client that has nothing to send lets a lost connection be: asking for its topics it misses it.
    ("topic.metadata.refresh.interval.ms", "1000"),
];

/// Properties that idempotence cannot be had with, at some value.
const INSTEAD_OF_IDEMPOTENCE: &[&str] = &["acks", "enable.idempotence", "retries"];

/// Most requests on their way that idempotence can be had with.
const IN_FLIGHT: &str = "max.in.flight.requests.per.connection";
const IDEMPOTENT_IN_FLIGHT_MAX: u32 = 5;

/// For as long as librdkafka can count, in milliseconds: some 24 days.
const ENDLESS_MILLIS: &str = "2147483647";

/// Wait for room, and between two looks at what was confirmed, at first and at most. The client's poll
/// spins through its last millisecond, so that short ones in a row would keep a core busy.
pub(super) const LOOK: Duration = Duration::from_millis(1);
pub(super) const LOOK_MAX: Duration = Duration::from_millis(200);

/// What is waited for comes later than it did by no more than this part of the wait.
const LOOK_PART: u32 = 8;

/// The next wait for what has not come for so long.
pub(super) fn look_after(waited: Duration) -> Duration {
    (waited / LOOK_PART).clamp(LOOK, LOOK_MAX)
}

/// How long a transaction may last where the app does not say, in milliseconds.
pub(super) const TRANSACTION_MILLIS: u32 = 60_000;

/// Time for the broker to answer about a transaction; asked again, the client goes on where it was.
pub(super) const TRANSACTION: Duration = Duration::from_secs(30);
pub(super) const TRANSACTION_LOOK: Duration = Duration::from_millis(500);

/// A sink that closes waits for a broker that is there no longer than this, and for a transaction not
/// that long.
pub(super) const CLOSE: Duration = Duration::from_secs(3);
pub(super) const CLOSE_TRANSACTION: Duration = Duration::from_secs(2);

/// Longest pause between two tries of the client to reach a broker, in milliseconds; and as it is
/// logged.
const RECONNECT_MAX: &str = "4000";
const RECONNECT_SECONDS: u32 = 4;

/// For so long a full queue of a broker that is away is waited for before the server is asked whether
/// it is to stop, and what is on its way before records that failed are sent again.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// What the client has to say comes one by one: confirmations of many records, errors, statistics.
const EVENTS_PER_LOOK: u32 = 16;

/// Between two looks at the connection while nothing is sent, and the wait for the answer of a broker
/// that is asked only whether it answers.
pub(super) const IDLE_LOOK: Duration = Duration::from_millis(400);

/// No topic can have this name: a broker that is asked about it answers, and makes none.
pub(super) const NO_TOPIC: &str = "?";

/// Records between two looks at what was confirmed.
pub(super) const POLL_EVERY: u32 = 256;

pub(super) struct KafkaSink {
    pub(super) name: String,
    pub(super) config: ClientConfig,
    pub(super) topic: Dynamic,
    pub(super) partition: Dynamic,
    pub(super) key: Dynamic,
    pub(super) sequence: Option<Sequence>,
    pub(super) is_binary: bool,
    pub(super) is_synchronous: bool,
    pub(super) is_transactional: bool,
    is_one_of_several: bool,
    /// Requests have several records, and are divided where one of those is refused.
    pub(super) divides: bool,
    /// What failed is sent again at once, and by ourselves.
    pub(super) is_to_divide: bool,
    /// Its destination is waited for (`on.error='WAIT'`), record by record.
    pub(super) waits: bool,
    /// Nothing was sent yet: librdkafka has no topic to ask the broker about.
    has_sent: bool,
    pub(super) producer: Option<BaseProducer<Context>>,
    connected: Option<Instant>,
    /// Records of the open transaction, by their numbers.
    transaction: Vec<(u64, Sent)>,
    pub(super) is_begun: bool,
    /// With state: in the epochs of its group.
    pub(super) part: Part,
    /// The broker knows the transactional id.
    is_introduced: bool,
    /// What did not arrive, in the order in which it was published, by its numbers; in an epoch, what
    /// the broker will never take.
    pub(super) failed: Vec<(u64, Undelivered)>,
    /// What the broker will never take; not of an epoch.
    pub(super) refused: Vec<(u64, Undelivered)>,
    /// Of the last record.
    last_number: u64,
    unpolled: u32,
    /// Records that were waited for when they were last looked at, and since when there are so many.
    waiting: Option<(i32, Instant)>,
    is_lost: bool,
    /// When it is said again that the broker is away.
    reminder: Reminder,
    buffer: Vec<u8>,
}

/// `sequence.id`, and the number that comes next.
pub(super) struct Sequence {
    pub id: String,
    pub next: i64,
}

/// What librdkafka calls while the producer is polled.
pub(super) struct Context {
    pub(super) watch: Watch,
    told: Mutex<Told>,
    /// Failures of a transaction's records are those of the transaction, but for those that last.
    is_transactional: bool,
    /// Records that are longer have a request of their own; 0: all have.
    request_bytes: usize,
}

/// What is needed of a message beside what librdkafka keeps.
pub(super) struct Kept {
    number: u64,
    is_text: bool,
    rows: Box<[u32]>,
    events: Option<Batch>,
    options: Box<[String]>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        watch::log(level, facility, text);
    }

    fn stats(&self, statistics: Statistics) {
        self.watch.statistics(&statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.watch.error(&error, reason);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Kept>;

    fn delivery(&self, result: &DeliveryResult<'_>, kept: Box<Kept>) {
        let Err((error, record)) = result else {
            return;
        };
        let bytes = record.payload_len() + record.key_len();
        let verdict = oversized::verdict(error, bytes, self.request_bytes);
        let mut told = self.told();
        if self.request_bytes > 0 {
            told.is_too_long |= verdict == Verdict::TooLongTogether;
            told.is_again |= matches!(verdict, Verdict::TooLongTogether | Verdict::Innocent);
        }
        if self.is_transactional && verdict != Verdict::Refused {
            return;
        }
        let message = Sent {
            payload: Bytes::copy_from_slice(record.payload().unwrap_or_default()),
            is_text: kept.is_text,
            rows: kept.rows,
            events: kept.events,
            options: kept.options,
        };
        let action = format!("writing to topic '{}'", record.topic());
        let error = match verdict {
            Verdict::Refused => Error::failed(action, oversized::refusal(error, bytes)),
            _ => {
                let cause = self.watch.cause().unwrap_or_else(|| said(error));
                Error::unavailable("Kafka", format!("{action}: {cause}"))
            }
        };
        told.failed
            .push((kept.number, Undelivered { message, error }));
    }
}

impl Context {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_told(&self) -> Told {
        std::mem::take(&mut *self.told())
    }
}

/// Would the same record fail again?
pub(super) fn is_permanent(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::MessageSizeTooLarge
                | Code::UnknownPartition
                | Code::TopicAuthorizationFailed
                | Code::InvalidMessage
                | Code::InvalidRecord
                | Code::InvalidTopic
        )
    )
}

/// Is the client still at it?
pub(super) fn is_retriable(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_retriable(),
        KafkaError::Flush(code) => *code == Code::OperationTimedOut,
        _ => false,
    }
}

impl KafkaSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<KafkaSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::kafka::CONNECTORS);
        let brokers = option(settings, setup.environment, "sink", "bootstrap.servers")
            .filter(|text| !text.is_empty())
            .ok_or_else(|| settings.refused("option 'bootstrap.servers' is missing"))?;
        let mut sink = KafkaSink::at(setup, brokers)?;
        // Where each record is waited for, it has a request of its own.
        sink.divides = !sink.is_synchronous || sink.is_transactional;
        if sink.divides && !sink.is_transactional {
            oversized::keep_order(&mut sink.config);
        }
        Ok(sink)
    }

    /// One of several to which the same records go; what waits for a cluster that is away has a bound.
    pub fn of_centre(setup: &SinkSetup<'_>, brokers: &str) -> Result<KafkaSink, Error> {
        let mut sink = KafkaSink::at(setup, brokers)?;
        sink.is_one_of_several = true;
        sink.waits = false;
        sink.part = Part::default();
        // The header is that of all, and each record has its partition.
        sink.sequence = None;
        if matches!(&sink.partition, Dynamic::Constant(text) if text.is_empty()) {
            sink.partition = Dynamic::Constant("0".to_owned());
        }
        Ok(sink)
    }

    fn at(setup: &SinkSetup<'_>, brokers: &str) -> Result<KafkaSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::kafka::CONNECTORS);
        let text = |name| option(settings, setup.environment, "sink", name);
        let optional = text("optional.configuration").unwrap_or_default();
        let mut properties = Properties::new(settings, Side::Producer, DEFAULTS, &[], optional)?;
        properties.config.set("bootstrap.servers", brokers);
        let chosen: Vec<&str> = super::items(optional)
            .filter_map(|entry| entry.split_once(':'))
            .map(|(name, _)| name.trim())
            .collect();
        let in_flight: Option<u32> = properties.config.get(IN_FLIGHT).and_then(number);
        if in_flight.is_some_and(|max| max <= IDEMPOTENT_IN_FLIGHT_MAX)
            && !chosen
                .iter()
                .any(|name| INSTEAD_OF_IDEMPOTENCE.contains(name))
        {
            properties.config.set("enable.idempotence", "true");
        }
        let is_synchronous = settings.is_set_to("is.synchronous", true);
        let on_error = settings.text_or_default("on.error").trim();
        let is_transactional = properties.config.get("transactional.id").is_some();
        let takes_part = is_transactional && setup.environment.state.is_some();
        let waits = on_error.eq_ignore_ascii_case("WAIT") && !is_synchronous || takes_part;
        if waits && !chosen.contains(&"delivery.timeout.ms") {
            properties.config.set("delivery.timeout.ms", ENDLESS_MILLIS);
        }
        if is_transactional {
            fit_into_transaction(&mut properties.config);
        }
        let topic = dynamic(setup, settings, "topic");
        let part = match takes_part {
            true => {
                let is_chosen = chosen.contains(&"transaction.timeout.ms");
                Part::of(&properties.config, &topic, is_chosen)
            }
            false => Part::default(),
        };
        Ok(KafkaSink {
            name: format!("Kafka at '{brokers}'"),
            topic,
            part,
            partition: dynamic(setup, settings, "partition.no"),
            key: dynamic(setup, settings, "key"),
            sequence: text("sequence.id").map(Sequence::new),
            is_binary: settings.flag("is.binary.message"),
            is_synchronous,
            is_transactional,
            is_one_of_several: false,
            divides: false,
            is_to_divide: false,
            waits,
            has_sent: false,
            config: properties.config,
            producer: None,
            connected: None,
            transaction: Vec::new(),
            is_begun: false,
            is_introduced: false,
            failed: Vec::new(),
            refused: Vec::new(),
            last_number: 0,
            unpolled: 0,
            waiting: None,
            is_lost: false,
            reminder: Reminder::default(),
            buffer: Vec::new(),
        })
    }

    pub(super) fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.name.clone(), cause)
    }
}

/// Java's client lets a record be tried for longer than its transaction may last; librdkafka refuses
/// that.
pub(super) fn fit_into_transaction(config: &mut ClientConfig) {
    let millis = |name| config.get(name).and_then(number::<u32>);
    let transaction = millis("transaction.timeout.ms").unwrap_or(TRANSACTION_MILLIS);
    if millis("delivery.timeout.ms").is_some_and(|delivery| delivery > transaction) {
        config.set("delivery.timeout.ms", transaction.to_string());
    }
}

/// An option that may depend on the event, or stand in the deployment file.
fn dynamic(setup: &SinkSetup<'_>, settings: Settings<'_>, name: &str) -> Dynamic {
    let environment: &Environment = setup.environment;
    let default = option(settings, environment, "sink", name).unwrap_or_default();
    match Dynamic::or_else(setup, name, || default) {
        Dynamic::Constant(text) if text.trim() == "null" => Dynamic::Constant(String::new()),
        other => other,
    }
}

impl Sequence {
    /// Begins at the clock, in microseconds: a source that knows the numbers of an earlier run takes
    /// those of the next one for new (Siddhi begins at 0 when it has no state).
    pub fn new(id: &str) -> Sequence {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        Sequence {
            id: id.to_owned(),
            next: i64::try_from(micros).unwrap_or(0),
        }
    }
}

impl Sink for KafkaSink {
    /// Asks the broker for nothing: records wait for it, each for its time. What did not arrive is
    /// sent again, in order.
    fn connect(&mut self) -> Result<(), Error> {
        self.collect();
        let has_refused = self.part.takes_part && self.set_refused_apart()?;
        self.divide()?;
        if self.producer.is_none() {
            if !has_refused && is_again_too_soon(self.connected) {
                return Err(self.unavailable("the client failed again at once"));
            }
            self.make_client()?;
        }
        self.introduce()?;
        if self.part.takes_part {
            return self.rejoin();
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
        self.divide()?;
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let mut text = String::new();
        let payload = KafkaSink::payload_of(message, &mut text)?;
        let Some(sequence) = &mut self.sequence else {
            self.send(message, payload)?;
            return self.settle_if_synchronous();
        };
        let is_binary = self.is_binary || matches!(message.payload, Payload::Bytes(_));
        let mut buffer = std::mem::take(&mut self.buffer);
        sequence::write(&sequence.id, sequence.next, payload, is_binary, &mut buffer);
        let sent = self.send(message, &buffer);
        self.buffer = buffer;
        sent?;
        if let Some(sequence) = &mut self.sequence {
            sequence.next += 1;
        }
        self.settle_if_synchronous()
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.is_transactional {
            return self.commit();
        }
        self.settle(None);
        self.undelivered().map_or(Ok(()), Err)
    }

    fn look(&mut self) -> Option<Duration> {
        if let Some(producer) = &self.producer
            && !self.has_sent
        {
            // What comes of it is in the statistics, as is what comes of nothing.
            producer
                .client()
                .fetch_metadata(Some(NO_TOPIC), IDLE_LOOK)
                .ok();
        }
        self.collect();
        // What cannot be sent again now is among those that failed.
        self.divide().ok();
        Some(IDLE_LOOK)
    }

    fn is_away(&self) -> bool {
        let was_there = |producer: &BaseProducer<Context>| producer.context().watch.was_there();
        self.is_lost || !self.producer.as_ref().is_some_and(was_there)
    }

    fn flush_within(&mut self, patience: Duration) -> Result<bool, Error> {
        if self.is_transactional {
            return self.commit_within(patience);
        }
        let is_settled = self.settle(Some(patience));
        self.undelivered().map_or(Ok(is_settled), Err)
    }

    fn close(&mut self) -> Result<(), Error> {
        if self.part.takes_part {
            // What no checkpoint has covered is read again.
            let aborted = self.abort();
            self.producer = None;
            return aborted;
        }
        if self.is_transactional {
            let committed = match self.commit_within(CLOSE_TRANSACTION) {
                Ok(false) => self.abandon("the transaction was not committed in time"),
                other => other.map(|_| ()),
            };
            self.producer = None;
            return committed;
        }
        if !self.is_lost {
            self.settle(Some(CLOSE));
        }
        self.give_up();
        self.undelivered().map_or(Ok(()), Err)
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        let mut all = self.part.take_refused();
        all.extend(self.refused.drain(..).map(|(_, refused)| refused));
        all
    }

    fn epochs(&mut self) -> Option<&mut dyn Epochs> {
        self.part.takes_part.then_some(self as &mut dyn Epochs)
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        if self.part.takes_part {
            return Vec::new();
        }
        self.collect();
        self.divide().ok();
        let mut failed = std::mem::take(&mut self.failed);
        if self.is_one_of_several {
            // Another cluster may have it.
            failed.append(&mut self.refused);
        }
        failed.into_iter().map(|(_, failed)| failed).collect()
    }
}

impl KafkaSink {
    /// The bytes of a payload; events become their text.
    pub(super) fn payload_of<'a>(
        message: &Message<'a>,
        text: &'a mut String,
    ) -> Result<&'a [u8], Error> {
        match message.payload {
            Payload::Text(text) => Ok(text.as_bytes()),
            Payload::Bytes(bytes) => Ok(bytes),
            Payload::Events(batch) => {
                for chunk in 0..batch.chunk_count() {
                    write_events(text, batch, chunk);
                }
                Ok(text.as_bytes())
            }
            _ => Err(Error::failed(
                "sending to Kafka",
                "the payload is neither text nor bytes: use another mapper",
            )),
        }
    }

    /// Everything that was sent is confirmed or given up.
    pub(super) fn is_settled(&self) -> bool {
        self.producer
            .as_ref()
            .is_none_or(|p| p.in_flight_count() == 0)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Gives the client a moment.
    pub(super) fn poll(&self) {
        if let Some(producer) = &self.producer {
            producer.poll(LOOK);
        }
    }

    /// Takes what librdkafka has to say.
    pub(super) fn collect(&mut self) {
        let Some(producer) = &self.producer else {
            return;
        };
        for _ in 0..EVENTS_PER_LOOK {
            producer.poll(Duration::ZERO);
        }
        let context = producer.context();
        let (told, request_bytes) = (context.take_told(), context.request_bytes);
        let lost = context.watch.lost();
        // Asked for: what is told of records comes before it, or instead.
        let fatal = producer.client().fatal_error();
        let has_gap = matches!(fatal, Some((Code::GaplessGuarantee, _)));
        match lost {
            Some(cause) => {
                let waiting = producer.in_flight_count();
                let what = match (self.is_lost, context.watch.was_there()) {
                    (true, _) => "sink is still without a connection; reconnecting",
                    (false, true) => "sink lost its connection; reconnecting",
                    (false, false) => "cannot connect sink",
                };
                self.is_lost = true;
                if self.reminder.is_due(&cause) {
                    let sink = &self.name;
                    let again_in_seconds = RECONNECT_SECONDS;
                    tracing::error!(sink, cause, waiting, again_in_seconds, "{what}");
                }
            }
            None if self.is_lost => {
                self.is_lost = false;
                self.reminder = Reminder::default();
                tracing::info!(sink = self.name, "sink reconnected");
            }
            None => {}
        }
        self.take_in(told, request_bytes);
        self.is_to_divide |= has_gap && !self.part.takes_part;
        if self.is_to_divide && self.is_begun && !self.part.takes_part {
            // Its records are sent again, in another transaction.
            self.abandon("the broker will not take one of its records")
                .ok();
        }
        if let Some((_, cause)) = fatal.filter(|_| !has_gap) {
            tracing::error!(sink = self.name, cause, "Kafka client failed");
            match self.part.takes_part {
                true => self.client_failed(&cause),
                false => self.give_up(),
            }
        }
    }

    /// Ends the client; what it has not delivered is told as such.
    pub(super) fn give_up(&mut self) {
        let Some(producer) = self.producer.take() else {
            return;
        };
        producer.purge(PurgeConfig::default().queue().inflight());
        let since = Instant::now();
        while producer.in_flight_count() > 0 && since.elapsed() < CLOSE {
            producer.poll(LOOK);
        }
        let context = producer.context();
        let (told, request_bytes) = (context.take_told(), context.request_bytes);
        self.take_in(told, request_bytes);
    }

    pub(super) fn make_client(&mut self) -> Result<(), Error> {
        self.connected = Some(Instant::now());
        let context = Context {
            watch: Watch::new(&self.config),
            told: Mutex::default(),
            is_transactional: self.is_transactional,
            request_bytes: match self.divides {
                true => oversized::request_bytes(&self.config),
                false => 0,
            },
        };
        let producer: BaseProducer<Context> = self
            .config
            .create_with_context(context)
            .map_err(|error| Error::failed("making a Kafka client", said(&error)))?;
        self.producer = Some(producer);
        self.has_sent = false;
        self.is_introduced = false;
        Ok(())
    }

    /// Tells the broker the transactional id. A broker that is there may take its time, one that is not
    /// is not waited for; asked again, the client goes on where it was.
    pub(super) fn introduce(&mut self) -> Result<(), Error> {
        let Some(producer) = self.producer.as_ref().filter(|_| self.is_transactional) else {
            return Ok(());
        };
        if self.is_introduced {
            return Ok(());
        }
        let since = Instant::now();
        loop {
            let Err(error) = producer.init_transactions(TRANSACTION_LOOK) else {
                self.is_introduced = true;
                return Ok(());
            };
            producer.poll(Duration::ZERO);
            let watch = &producer.context().watch;
            let goes_on = is_retriable(&error);
            if goes_on && watch.lost().is_none() && since.elapsed() < TRANSACTION {
                continue;
            }
            let cause = watch.cause().unwrap_or_else(|| error.to_string());
            if !goes_on {
                self.producer = None;
            }
            if error.rdkafka_error_code() == Some(Code::InvalidTransactionTimeout) {
                return Err(Error::failed(
                    "beginning a transaction",
                    format!(
                        "{cause}: lower property 'transaction.timeout.ms' of the sink, or save \
                             state more often (--state-interval)"
                    ),
                ));
            }
            return Err(self.unavailable(cause));
        }
    }

    /// What is still to be sent behind records that did not arrive must not overtake them: it is taken
    /// back, to be sent again behind them.
    fn call_back(&mut self) -> Result<(), Error> {
        let Some(producer) = self.producer.as_ref().filter(|_| !self.failed.is_empty()) else {
            return Ok(());
        };
        if producer.in_flight_count() > 0 && !self.is_transactional {
            producer.purge(PurgeConfig::default().queue());
            if !self.settle(Some(PATIENCE)) {
                return Err(self.unavailable("records are still on their way"));
            }
        }
        Ok(())
    }

    /// What did not arrive, in the order in which it was published.
    pub(super) fn send_again(&mut self) -> Result<(), Error> {
        let mut failed = std::mem::take(&mut self.failed).into_iter();
        while let Some((number, Undelivered { message, .. })) = failed.next() {
            let payload = message.payload.clone();
            match self.put(Some(number), &message.message(), &payload) {
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

    /// Why the next record cannot be taken: those before it did not arrive.
    pub(super) fn failure(&self) -> Option<Error> {
        if let Some(failure) = self.part_failure() {
            return Some(failure);
        }
        if self.producer.is_none() {
            return Some(self.unavailable("there is no connection"));
        }
        self.undelivered()
    }

    fn undelivered(&self) -> Option<Error> {
        let (_, first) = self.failed.first()?;
        Some(self.unavailable(chain(&first.error)))
    }

    pub(super) fn send(&mut self, message: &Message<'_>, payload: &[u8]) -> Result<(), Error> {
        loop {
            match self.put(None, message, payload) {
                // Others were refused, not this one.
                Err(error)
                    if error.is_unavailable() && self.is_to_divide && !self.part.takes_part =>
                {
                    self.divide()?;
                }
                put => return put,
            }
        }
    }

    /// `number`: that of a record which had one before.
    fn put(
        &mut self,
        number: Option<u64>,
        message: &Message<'_>,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = self.hand_over(number, message, payload)?;
        if self.part.takes_part {
            self.part.keep(number, message, payload);
        } else if self.is_transactional {
            let mut sent = Sent::new(message);
            sent.payload = Bytes::copy_from_slice(payload);
            self.transaction.push((number, sent));
        }
        Ok(())
    }

    /// Begins a transaction where none is open.
    pub(super) fn open_transaction(&mut self) -> Result<(), Error> {
        if !self.is_transactional || self.is_begun {
            return Ok(());
        }
        let Some(producer) = &self.producer else {
            return Err(self.unavailable("there is no connection"));
        };
        match producer.begin_transaction() {
            Ok(()) => {
                self.is_begun = true;
                self.part.begun();
                Ok(())
            }
            Err(error) if self.part.takes_part => {
                self.judge(&error, Instant::now())?;
                Err(self.unavailable(said(&error)))
            }
            Err(error) => Err(self.unavailable(said(&error))),
        }
    }

    /// Gives a record to the client, under its number or the next.
    pub(super) fn hand_over(
        &mut self,
        number_before: Option<u64>,
        message: &Message<'_>,
        payload: &[u8],
    ) -> Result<u64, Error> {
        self.open_transaction()?;
        let topic = self.topic.of(message).trim();
        let action = || format!("writing to topic '{topic}'");
        let partition = match self.partition.of(message).trim() {
            "" | "null" => None,
            text => Some(number::<i32>(text).filter(|n| *n >= 0).ok_or_else(|| {
                let cause = format!("option 'partition.no' is '{text}' and no partition");
                Error::failed(action(), cause)
            })?),
        };
        let key = Some(self.key.of(message)).filter(|key| !key.is_empty() && *key != "null");
        let Some(producer) = &self.producer else {
            return Err(self.unavailable("there is no connection"));
        };
        let number = number_before.unwrap_or(self.last_number + 1);
        self.last_number = self.last_number.max(number);
        let kept = Kept {
            number,
            is_text: matches!(message.payload, Payload::Text(_)),
            rows: message.rows.into(),
            events: message.events.cloned(),
            options: message.options().into(),
        };
        let mut record = BaseRecord::with_opaque_to(topic, Box::new(kept)).payload(payload);
        record.partition = partition;
        record.key = key.map(str::as_bytes);
        let since = Instant::now();
        loop {
            match producer.send(record) {
                Ok(()) => break,
                // The queue is full: what the broker confirms makes room, and the app waits.
                Err((error, back))
                    if error.rdkafka_error_code() == Some(Code::QueueFull)
                        && !(self.is_one_of_several && self.is_lost)
                        && !((self.waits || self.is_transactional)
                            && since.elapsed() > PATIENCE) =>
                {
                    producer.poll(look_after(since.elapsed()));
                    record = back;
                }
                Err((error, _)) if is_permanent(&error) => {
                    let bytes = payload.len() + key.map_or(0, str::len);
                    return Err(Error::failed(
                        action(),
                        oversized::refusal_here(&error, bytes),
                    ));
                }
                Err((error, _)) if error.rdkafka_error_code() == Some(Code::QueueFull) => {
                    return Err(self.unavailable(said(&error)));
                }
                Err((error, _)) => {
                    let cause = said(&error);
                    self.collect();
                    // The client takes no record into a transaction that has failed.
                    if self.part.takes_part && self.producer.is_some() {
                        self.client_failed(&cause);
                    }
                    return Err(self.unavailable(cause));
                }
            }
        }
        self.has_sent = true;
        Ok(number)
    }

    fn settle_if_synchronous(&mut self) -> Result<(), Error> {
        if !self.is_synchronous || self.is_transactional {
            return Ok(());
        }
        self.settle(None);
        // Who has called keeps the record.
        let last = self.refused.pop().or_else(|| self.failed.pop());
        last.map_or(Ok(()), |(_, last)| Err(last.error))
    }

    /// Waits until every record is confirmed or given up; librdkafka gives each up after its time.
    /// False: some are still waited for.
    fn settle(&mut self, patience: Option<Duration>) -> bool {
        let since = Instant::now();
        loop {
            self.collect();
            if self.divide().is_err() {
                return false;
            }
            let waiting = self.producer.as_ref().map_or(0, |p| p.in_flight_count());
            if waiting == 0 || patience.is_some_and(|patience| since.elapsed() >= patience) {
                return waiting == 0;
            }
            // Calls follow each other while a broker is away: the wait of all of them counts.
            let (_, waited_since) =
                *self
                    .waiting
                    .insert(match self.waiting.filter(|(count, _)| *count == waiting) {
                        Some(known) => known,
                        None => (waiting, Instant::now()),
                    });
            let left = patience.map_or(LOOK_MAX, |all| all.saturating_sub(since.elapsed()));
            if let Some(producer) = &self.producer {
                producer.poll(look_after(waited_since.elapsed()).min(left.max(LOOK)));
            }
        }
    }

    // ---- transactions ----

    /// Commits the open transaction; when that cannot be, none of its records has arrived for readers
    /// of committed ones, and all of them are given back.
    fn commit(&mut self) -> Result<(), Error> {
        match self.commit_within(TRANSACTION)? {
            true => Ok(()),
            false => self.abandon("the transaction was not committed in time"),
        }
    }

    /// False: the broker has not answered yet, and is to be asked again.
    fn commit_within(&mut self, patience: Duration) -> Result<bool, Error> {
        let since = Instant::now();
        loop {
            self.collect();
            self.divide()?;
            if !self.is_begun {
                return self.undelivered().map_or(Ok(true), Err);
            }
            let Some(producer) = &self.producer else {
                return self.abandon("Kafka client failed").map(|()| true);
            };
            let Err(error) = producer.commit_transaction(TRANSACTION_LOOK.min(patience)) else {
                self.is_begun = false;
                self.transaction.clear();
                return Ok(true);
            };
            let watch = &producer.context().watch;
            // A broker that is away is not waited for: who reads it has seen nothing.
            if is_retriable(&error) && watch.lost().is_none() {
                if since.elapsed() >= patience {
                    return Ok(false);
                }
                continue;
            }
            let cause = watch.cause().unwrap_or_else(|| error.to_string());
            // What was said of its records comes before what is said of it.
            self.collect();
            if !self.is_to_divide {
                return self.abandon(&cause).map(|()| true);
            }
        }
    }

    /// Gives the records of the open transaction back. A producer that cannot abort is made anew: its
    /// successor with the same id fences it off.
    fn abandon(&mut self, cause: &str) -> Result<(), Error> {
        self.is_begun = false;
        if let Some(producer) = &self.producer {
            let is_lost = producer.context().watch.lost().is_some();
            if is_lost || producer.abort_transaction(CLOSE_TRANSACTION).is_err() {
                self.producer = None;
            }
        }
        let name = self.name.clone();
        let given_back = self.transaction.drain(..).map(|(number, message)| {
            let error = Error::unavailable(name.clone(), cause.to_owned());
            (number, Undelivered { message, error })
        });
        self.failed.extend(given_back);
        self.set_apart();
        Err(self.unavailable(cause.to_owned()))
    }
}
