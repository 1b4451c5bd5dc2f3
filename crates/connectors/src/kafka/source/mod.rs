//! The `kafka` source: records of one or more consumers.
//!
//! [`member`] has the consumers, [`reading`] what is done with their records, [`group`] what the broker
//! hears of it, [`own`] what is other where the own client reads.

mod group;
mod instance;
mod member;
mod own;
mod reading;
mod replay;

pub(super) use member::Member;
pub(super) use replay::{ReplayRequest, ReplayResponse};

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use self::instance::InstanceName;
use super::partitions::Partitions;
use super::properties::{Properties, Side, option};
use super::record::{Wanted, is_binary};
use super::watch::STATISTICS_MILLIS;
use super::{REPLAY_RESPONSE, said};
use crate::spec::kafka_choice as choice;
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::Error;
use connect::option::{Settings, number};

/// What Siddhi sets, and what differs between the defaults of Java's client and of librdkafka.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("session.timeout.ms", "30000"),
    // With a heartbeat a member hears that its group is rebalanced. Who joins, or comes back after a crash
    // meanwhile, waits for the last one to hear: 3 s by default.
    ("heartbeat.interval.ms", "1000"),
    ("auto.offset.reset", "earliest"),
    ("isolation.level", "read_uncommitted"),
    ("allow.auto.create.topics", "true"),
    ("check.crcs", "true"),
    ("client.id", "headwater"),
    ("log.connection.close", "false"),
    // Ours: offsets are committed when they are done, and the end of a partition is told.
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("statistics.interval.ms", STATISTICS_MILLIS),
    // librdkafka looks only once a second whether a full queue has room again: a source that is at
    // times slower than its broker would get two queues' worth of records a second and no more.
    ("fetch.queue.backoff.ms", "2"),
];

/// Properties that say when we commit.
const OWN: &[&str] = &["enable.auto.commit", "auto.commit.interval.ms"];

/// The property by which a broker knows a member again.
const INSTANCE_ID: &str = "group.instance.id";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Threading {
    Single,
    TopicWise,
    PartitionWise,
}

/// When what is done is committed to the group.
#[derive(Clone, Copy, Debug)]
enum Commits {
    Never,
    /// At most that often.
    Every(Duration),
    /// At each acknowledgement.
    AtOnce(CommitMode),
}

pub(in crate::kafka) struct KafkaSource {
    brokers: String,
    config: ClientConfig,
    topics: Vec<String>,
    /// Partitions of every topic, where they are assigned.
    listed: Option<Vec<i32>>,
    threading: Threading,
    /// `topic.offsets.map`.
    starts: HashMap<String, i64>,
    commits: Commits,
    is_binary: bool,
    is_sequenced: bool,
    wanted: Wanted,
    partitions: Partitions,
    /// By which it is known again after a crash, where the group shares partitions out.
    instance: Option<InstanceName>,
    position: Vec<u8>,
    last_commit: Instant,
    is_lost: bool,
    /// How the own client reads, where it does.
    own: Option<own::Own>,
}

impl KafkaSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<KafkaSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::kafka::CONNECTORS);
        let text = |name| option(settings, setup.environment, "source", name);
        let needed = |name| {
            text(name)
                .filter(|text| !text.is_empty())
                .ok_or_else(|| settings.refused(format!("option '{name}' is missing")))
        };
        let brokers = needed("bootstrap.servers")?;
        let optional = text("optional.configuration").unwrap_or_default();
        let mut properties = Properties::new(settings, Side::Consumer, DEFAULTS, OWN, optional)?;
        properties.config.set("bootstrap.servers", brokers);
        properties.config.set("group.id", needed("group.id")?);
        let listed = text("partition.no.list")
            .map(|list| {
                let numbers = super::items(list).map(|item| {
                    number(item).ok_or_else(|| {
                        settings.refused(format!(
                            "option 'partition.no.list' has the entry '{item}': write whole \
                             numbers, as in '0,1'"
                        ))
                    })
                });
                numbers.collect::<Result<Vec<i32>, Error>>()
            })
            .transpose()?
            .filter(|list| !list.is_empty());
        let threading = match needed("threading.option")? {
            "single.thread" => Threading::Single,
            "topic.wise" => Threading::TopicWise,
            "partition.wise" => Threading::PartitionWise,
            other => {
                return Err(settings.refused(format!(
                    "option 'threading.option' is '{other}': write single.thread, topic.wise or \
                     partition.wise"
                )));
            }
        };
        let is_replay = setup.transport.ty == REPLAY_RESPONSE;
        if threading == Threading::PartitionWise && listed.is_none() && !is_replay {
            return Err(settings
                .refused("threading option 'partition.wise' needs option 'partition.no.list'"));
        }
        let is_named = properties.config.get(INSTANCE_ID).is_some();
        let instance = match is_named || is_replay || listed.is_some() {
            true => None,
            false => InstanceName::new(setup),
        };
        let client = settings.text(choice::OPTION);
        let own = match is_replay {
            true => None,
            false => own::Own::new(settings, setup.environment, client, optional, &properties)?,
        };
        Ok(KafkaSource {
            own,
            brokers: brokers.to_owned(),
            topics: super::items(match is_replay {
                // What is replayed is named by each request.
                true => text("topic.list").unwrap_or_default(),
                false => needed("topic.list")?,
            })
            .map(str::to_owned)
            .collect(),
            listed,
            threading,
            starts: starts(settings, text("topic.offsets.map").unwrap_or_default())?,
            commits: commits(settings, &properties)?,
            config: properties.config,
            is_binary: is_binary(settings),
            is_sequenced: settings.flag("seq.enabled"),
            wanted: Wanted::new(&setup.transport.map),
            partitions: Partitions::default(),
            instance,
            position: Vec::new(),
            last_commit: Instant::now(),
            is_lost: false,
        })
    }

    fn unavailable(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::unavailable(format!("Kafka at '{}'", self.brokers), cause)
    }

    /// A client is of no more use. One that was fenced stays away: else it and its successor would
    /// fence each other in turn.
    fn ended(&self, member: &Member, cause: String) -> Error {
        match member.consumer.client().fatal_error() {
            Some((RDKafkaErrorCode::FencedInstanceId, _)) => Error::failed(
                "reading from Kafka",
                format!(
                    "another process has joined the group as this member ({cause}): it runs on this \
                     state directory or a copy of it. Stop one of the two; for a second member of \
                     the group, give it a state directory of its own"
                ),
            ),
            _ => self.unavailable(cause),
        }
    }

    fn failed(&self, action: impl Into<String>, cause: &KafkaError) -> Error {
        Error::failed(action, said(cause))
    }
}

/// `topic=offset,topic=offset`.
fn starts(settings: Settings<'_>, text: &str) -> Result<HashMap<String, i64>, Error> {
    super::items(text)
        .map(|entry| {
            let parts = entry.split_once('=');
            let parsed = parts.and_then(|(topic, offset)| {
                let offset: i64 = number(offset)?;
                (offset >= 0).then(|| (topic.trim().to_owned(), offset))
            });
            parsed.ok_or_else(|| {
                settings.refused(format!(
                    "option 'topic.offsets.map' has the entry '{entry}': write topic=offset"
                ))
            })
        })
        .collect()
}

fn commits(settings: Settings<'_>, properties: &Properties) -> Result<Commits, Error> {
    if !settings.flag("enable.offsets.commit") {
        return Ok(Commits::Never);
    }
    let by_hand = properties
        .own("enable.auto.commit")
        .is_some_and(|text| text.eq_ignore_ascii_case("false"));
    if by_hand {
        return Ok(Commits::AtOnce(
            match settings.flag("enable.async.commit") {
                true => CommitMode::Async,
                false => CommitMode::Sync,
            },
        ));
    }
    let interval = properties.own("auto.commit.interval.ms").unwrap_or("5000");
    number(interval)
        .map(|millis| Commits::Every(Duration::from_millis(millis)))
        .ok_or_else(|| {
            settings.refused(
                "property 'auto.commit.interval.ms' of option 'optional.configuration' is not a \
                 number of milliseconds",
            )
        })
}

impl Source for KafkaSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        // Given back after the members have gone.
        let lease = self.instance.as_ref().map(InstanceName::lease);
        self.is_lost = false;
        let mut members = self.join(lease.as_ref(), link)?;
        self.is_lost = false;
        link.report(Connection::Connected);
        let result = self.read_all(&mut members, link);
        for index in 0..self.partitions.all.len() {
            self.partitions.all[index].owner = None;
        }
        result
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        if position.is_empty() {
            return Ok(());
        }
        self.partitions = Partitions::restore(position).ok_or_else(|| {
            Error::failed(
                "reading the saved position of source 'kafka'",
                "it was saved by another version or another source",
            )
        })?;
        Ok(())
    }

    /// With `--until-done` it reads what there is: up to the ends of its partitions.
    fn ends(&self) -> bool {
        true
    }
}
