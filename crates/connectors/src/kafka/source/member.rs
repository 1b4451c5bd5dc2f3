//! The consumers of a source: how they come to their topics and partitions, and what librdkafka calls
//! while they are polled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaRespErr;

use super::super::watch::{self, Watch};
use super::super::wire::Wire;
use super::instance::Lease;
use super::{INSTANCE_ID, KafkaSource, Threading, own, said};
use connect::component::{Connection, Signal, SourceLink};
use connect::error::Error;

/// Time for a broker to answer before it is asked again.
const START: Duration = Duration::from_secs(5);

/// Time for a group's coordinator to load what it knows and to answer, and how soon it is asked again.
const COORDINATOR: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What a broker says while the coordinator of a group is new, or has moved.
pub(super) const COORDINATOR_LOADS: &[RDKafkaErrorCode] = &[
    RDKafkaErrorCode::NotCoordinator,
    RDKafkaErrorCode::CoordinatorNotAvailable,
    RDKafkaErrorCode::CoordinatorLoadInProgress,
];

/// What a client may have said in that time and is listened to.
const ASIDES_MAX: usize = 100;

/// One consumer, and the topics or partitions that are its own.
pub(in crate::kafka) struct Member {
    pub consumer: BaseConsumer<Context>,
    /// Partition numbers at whose end it is.
    pub ended: Vec<i32>,
    /// What reads instead of the consumer, whose partitions are paused then.
    pub wire: Option<Wire>,
}

/// What librdkafka calls while a consumer is polled.
pub(in crate::kafka) struct Context {
    pub watch: Watch,
    /// To be done when the poll has returned, in this order.
    pub rebalances: Mutex<Vec<Rebalance>>,
    /// The consumer leaves its group: nobody comes after the poll to do anything.
    is_leaving: AtomicBool,
}

impl Member {
    pub fn new(config: &ClientConfig, link: &dyn SourceLink) -> Result<Member, KafkaError> {
        let mut consumer: BaseConsumer<Context> = config.create_with_context(Context {
            watch: Watch::new(config),
            rebalances: Mutex::default(),
            is_leaving: AtomicBool::new(false),
        })?;
        let waker = link.waker();
        consumer.set_nonempty_callback(move || waker.wake());
        Ok(Member {
            consumer,
            ended: Vec::new(),
            wire: None,
        })
    }
}

impl Drop for Member {
    /// Leaving waits until all partitions have been given back.
    fn drop(&mut self) {
        let context = self.consumer.context();
        context.is_leaving.store(true, Ordering::SeqCst);
        // Of a consumer that has none there is nothing to give back.
        self.consumer.unassign().ok();
    }
}

pub(in crate::kafka) struct Rebalance {
    pub is_revoked: bool,
    pub partitions: TopicPartitionList,
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

impl ConsumerContext for Context {
    /// Only noted: what was read is posted and committed before a partition goes.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        if self.is_leaving.load(Ordering::SeqCst) {
            let is_cooperative = matches!(
                consumer.rebalance_protocol(),
                RebalanceProtocol::Cooperative
            );
            // The consumer ends whatever comes of it.
            match is_cooperative {
                true => consumer.incremental_unassign(partitions).ok(),
                false => consumer.unassign().ok(),
            };
            return;
        }
        let mut waiting = self
            .rebalances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        waiting.push(Rebalance {
            is_revoked: error != RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS,
            partitions: partitions.clone(),
        });
    }
}

pub(super) fn pause_all(members: &[Member]) -> Vec<TopicPartitionList> {
    members
        .iter()
        .map(|member| {
            if member.wire.is_some() {
                // Its consumer is paused for good.
                return TopicPartitionList::new();
            }
            let list = member.consumer.assignment().unwrap_or_default();
            // Without partitions there is nothing to pause.
            member.consumer.pause(&list).ok();
            list
        })
        .collect()
}

impl KafkaSource {
    /// Makes the consumers, sees that the broker and the topics are there, and subscribes or assigns.
    pub(super) fn join(
        &mut self,
        lease: Option<&Lease>,
        link: &mut dyn SourceLink,
    ) -> Result<Vec<Member>, Error> {
        let topics = self.topics.clone();
        let shares: Vec<Vec<String>> = match self.threading {
            Threading::Single => vec![topics],
            _ => topics.into_iter().map(|topic| vec![topic]).collect(),
        };
        let mut members = Vec::new();
        for topics in shares {
            let listed = match (self.threading, &self.listed) {
                (Threading::PartitionWise, Some(list)) => {
                    list.iter().map(|one| Some(vec![*one])).collect()
                }
                (_, list) => vec![list.clone()],
            };
            for list in listed {
                let name = lease.map(|lease| lease.of_member(members.len()));
                let mut member = self.member(name, link)?;
                if members.is_empty() {
                    self.look_for_topics(&member, link)?;
                }
                member.wire = self.start_wire(link)?;
                match list {
                    Some(list) => self.assign(&mut member, members.len(), &topics, &list, link)?,
                    None => {
                        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
                        member
                            .consumer
                            .subscribe(&names)
                            .map_err(|e| self.failed("subscribing to the topics", &e))?;
                    }
                }
                members.push(member);
            }
        }
        Ok(members)
    }

    /// `name`: by which the group knows it again.
    pub(super) fn member(
        &self,
        name: Option<String>,
        link: &dyn SourceLink,
    ) -> Result<Member, Error> {
        let mut config = self.config.clone();
        if let Some(name) = name {
            config.set(INSTANCE_ID, name);
        }
        if self.own.is_some() {
            own::spare(&mut config);
        }
        Member::new(&config, link).map_err(|error| self.failed("making a Kafka client", &error))
    }

    /// As `KafkaSource.checkTopicsAvailableInCluster`: a missing topic is made by the broker, unless
    /// partitions other than 0 are asked for.
    fn look_for_topics(&mut self, member: &Member, link: &mut dyn SourceLink) -> Result<(), Error> {
        for topic in self.topics.clone() {
            let found = self.metadata(member, &topic, link)?;
            let found = found.topics().iter().find(|t| t.name() == topic);
            let there: Vec<i32> = found
                .filter(|topic| topic.error().is_none())
                .map(|topic| topic.partitions().iter().map(|p| p.id()).collect())
                .unwrap_or_default();
            let wanted = self.listed.as_deref().unwrap_or_default();
            let missing = wanted.iter().find(|number| !there.contains(number));
            match missing {
                _ if there.is_empty() && wanted.iter().all(|number| *number == 0) => {
                    tracing::warn!(
                        topic,
                        "topic does not exist; asking the broker to create it"
                    );
                }
                Some(number) => {
                    let cause = match there.len() {
                        0 => format!("topic '{topic}' does not exist"),
                        count => {
                            format!(
                                "topic '{topic}' has {count} partitions, and no number {number}"
                            )
                        }
                    };
                    return Err(Error::failed("reading from Kafka", cause));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// What the broker says of a topic, however long it takes, as long as there is one. Whoever began anew
    /// would have more to ask of a slow one, and might never be done in time.
    pub(super) fn metadata(
        &mut self,
        member: &Member,
        topic: &str,
        link: &mut dyn SourceLink,
    ) -> Result<Metadata, Error> {
        let since = Instant::now();
        loop {
            let error = match member.consumer.fetch_metadata(Some(topic), START) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            // What lies behind it was said aside.
            for _ in 0..ASIDES_MAX {
                member.consumer.poll(Duration::ZERO);
            }
            let watch = &member.consumer.context().watch;
            if !watch.is_waiting() {
                let cause = watch.cause().unwrap_or_else(|| said(&error));
                return Err(self.unavailable(cause));
            }
            if !self.is_lost {
                self.is_lost = true;
                let (brokers, seconds) = (&self.brokers, since.elapsed().as_secs());
                let cause = format!("Kafka at '{brokers}' has not answered for {seconds} s");
                link.report(Connection::Lost { cause });
            }
            self.heed(link.wait(Duration::ZERO))?;
        }
    }

    /// Takes a signal that has come while a broker is waited for.
    fn heed(&mut self, signal: Signal) -> Result<(), Error> {
        match signal {
            Signal::Stop => return Err(Error::Stopped),
            Signal::Acked(sequence) => self.partitions.acknowledged(sequence),
            _ => {}
        }
        Ok(())
    }

    fn assign(
        &mut self,
        member: &mut Member,
        number: usize,
        topics: &[String],
        list: &[i32],
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let mut assigned = TopicPartitionList::new();
        for topic in topics {
            for partition in list {
                assigned.add_partition(topic, *partition);
            }
        }
        self.start_at(number, &member.consumer, &mut assigned, link)?;
        if let Some(wire) = &mut member.wire {
            self.hand_to(wire, &assigned);
            return Ok(());
        }
        // librdkafka asks for the offsets of assigned partitions only once, and gives up where the
        // coordinator of a new or moved group still loads.
        self.committed(&member.consumer, &assigned, link)?;
        member
            .consumer
            .assign(&assigned)
            .map_err(|error| self.failed("assigning the partitions", &error))
    }

    /// Where the group is. Its coordinator may be new, may have moved, or be slow to answer: whoever gave up
    /// would leave the group, and have it shared out twice more.
    fn committed(
        &mut self,
        consumer: &BaseConsumer<Context>,
        wanted: &TopicPartitionList,
        link: &mut dyn SourceLink,
    ) -> Result<TopicPartitionList, Error> {
        let since = Instant::now();
        loop {
            let error = match consumer.committed_offsets(wanted.clone(), START) {
                Ok(committed) => return Ok(committed),
                Err(error) => error,
            };
            let may_come = error.rdkafka_error_code().is_some_and(|code| {
                code == RDKafkaErrorCode::OperationTimedOut || COORDINATOR_LOADS.contains(&code)
            });
            if !may_come || since.elapsed() >= COORDINATOR {
                return Err(self.unavailable(said(&error)));
            }
            self.heed(link.wait(ASK_AGAIN))?;
        }
    }

    /// Sets where each partition begins: behind what is known of it, unless its group has gone on
    /// without us; else where the app says; else where the group is.
    pub(super) fn start_at(
        &mut self,
        number: usize,
        consumer: &BaseConsumer<Context>,
        assigned: &mut TopicPartitionList,
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let names: Vec<(String, i32)> = assigned
            .elements()
            .iter()
            .map(|e| (e.topic().to_owned(), e.partition()))
            .collect();
        let knows_some = names.iter().any(|(topic, partition)| {
            let found = self.partitions.find(topic, *partition);
            found.is_some_and(|index| self.partitions.all[index].next >= 0)
        });
        // Partitions that are assigned by the app are ours alone.
        // The own client asks for nothing of the group by itself.
        let asks_itself = self.own.is_none();
        let is_known = |topic: &str, partition| {
            let found = self.partitions.find(topic, partition);
            let is_saved = found.is_some_and(|index| self.partitions.all[index].next >= 0);
            is_saved || self.starts.contains_key(topic)
        };
        let lacks_some = names
            .iter()
            .any(|(topic, partition)| !is_known(topic, *partition));
        let of_group = match knows_some && self.listed.is_none() || lacks_some && !asks_itself {
            true => self.committed(consumer, assigned, link)?.to_topic_map(),
            false => HashMap::new(),
        };
        for (topic, partition) in names {
            let index = self.partitions.part(&topic, partition);
            let known = self.partitions.all[index].next;
            let committed = match of_group.get(&(topic.clone(), partition)) {
                Some(Offset::Offset(offset)) => *offset,
                _ => -1,
            };
            let start = match self.starts.get(&topic) {
                _ if known >= 0 && self.listed.is_some() => known,
                _ if known >= 0 => known.max(committed),
                Some(start) => *start,
                None if asks_itself => -1,
                None => committed,
            };
            self.partitions.give(index, Some(number), start);
            if start >= 0 {
                assigned
                    .set_partition_offset(&topic, partition, Offset::Offset(start))
                    .map_err(|error| self.failed("setting the start of a partition", &error))?;
            }
        }
        Ok(())
    }
}
