//! The `kafkaMultiDC` source: a partition in two clusters, read as one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::message::{Message as _, OwnedMessage};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::super::partitions::Partitions;
use super::super::properties::{Properties, Side, option};
use super::super::record::{Wanted, is_binary, payload_of};
use super::super::said;
use super::super::sequence::{Headed, parted};
use super::super::source::{DEFAULTS, Member};
use super::order::{GAP, Order, Turn};
use connect::component::{
    Connection, Finished, Payload, Room, Signal, Source, SourceLink, SourceSetup,
};
use connect::error::Error;
use connect::option::Settings;
use connect::rows::Rejected;

/// Longest wait for records, so that errors are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Both clusters are at their end for so long before the run is told.
const QUIET: Duration = Duration::from_millis(300);

/// Time for a cluster to answer when the source starts.
const START: Duration = Duration::from_secs(5);

/// Records that are taken of one cluster before the other has its turn.
const TURN: usize = 1024;

pub(in crate::kafka) struct MultiDcSource {
    clusters: [Cluster; 2],
    topic: String,
    partition: i32,
    is_binary: bool,
    wanted: Wanted,
    order: Order<Early>,
    /// The offsets that were read, by the brokers of the cluster, and the last number of each sender.
    read: Partitions,
    position: Vec<u8>,
    is_lost: bool,
}

struct Cluster {
    brokers: String,
    config: ClientConfig,
    /// As people know it, for what is rejected.
    input: Arc<str>,
    /// Offset of the record that is read next; -1 where nobody knows.
    next: i64,
    member: Option<Member>,
    is_ended: bool,
    is_lost: bool,
}

/// A record before which others are missing.
struct Early {
    cluster: usize,
    record: OwnedMessage,
}

impl MultiDcSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<MultiDcSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::kafka::CONNECTORS);
        let text = |name| option(settings, setup.environment, "source", name);
        let brokers = text("bootstrap.servers").unwrap_or_default();
        let topic = text("topic")
            .filter(|topic| !topic.is_empty())
            .ok_or_else(|| settings.refused("option 'topic' is missing"))?;
        let partition = settings.number("partition.no")?;
        let optional = text("optional.configuration").unwrap_or_default();
        let cluster = |brokers: String| {
            let mut properties =
                Properties::new(settings, Side::Consumer, DEFAULTS, &[], optional)?;
            let config = &mut properties.config;
            config.set("bootstrap.servers", &brokers);
            // A group of its own, in which nothing is committed.
            let name = format!("{}/{}", setup.environment.app, setup.schema.name);
            config.set("group.id", format!("{name}/{}", std::process::id()));
            config.set("enable.auto.commit", "false");
            Ok::<_, Error>(Cluster {
                input: Arc::from(format!(
                    "topic '{topic}' partition {partition} of '{brokers}'"
                )),
                brokers,
                config: properties.config,
                next: -1,
                member: None,
                is_ended: false,
                is_lost: false,
            })
        };
        let [one, two] = super::two(settings, brokers)?;
        Ok(MultiDcSource {
            clusters: [cluster(one)?, cluster(two)?],
            topic: topic.to_owned(),
            partition,
            is_binary: is_binary(settings),
            wanted: Wanted::new(&setup.transport.map),
            order: Order::default(),
            read: Partitions::default(),
            position: Vec::new(),
            is_lost: false,
        })
    }

    /// A consumer of each cluster, from where it was.
    fn join(&mut self, link: &dyn SourceLink) -> Result<(), Error> {
        for cluster in &mut self.clusters {
            let failed = |error: KafkaError| Error::failed("reading from Kafka", said(&error));
            let member = Member::new(&cluster.config, link).map_err(failed)?;
            let mut assigned = TopicPartitionList::new();
            // No group knows more.
            let start = match (cluster.next, cluster.config.get("auto.offset.reset")) {
                (-1, Some("latest" | "largest" | "end")) => Offset::End,
                (-1, _) => Offset::Beginning,
                (next, _) => Offset::Offset(next),
            };
            assigned
                .add_partition_offset(&self.topic, self.partition, start)
                .map_err(failed)?;
            member.consumer.assign(&assigned).map_err(failed)?;
            cluster.member = Some(member);
            (cluster.is_ended, cluster.is_lost) = (false, false);
        }
        Ok(())
    }

    /// Takes what one cluster has; how many records.
    fn take(&mut self, number: usize, link: &mut dyn SourceLink) -> usize {
        let Some(member) = self.clusters[number].member.take() else {
            return 0;
        };
        let (mut taken, mut is_empty) = (0, false);
        while taken < TURN {
            match member.consumer.poll(Duration::ZERO) {
                Some(Ok(record)) => {
                    (is_empty, self.clusters[number].is_ended) = (false, false);
                    self.clusters[number].next = record.offset() + 1;
                    taken += 1;
                    if self.judge(number, &record, link) == Room::Full {
                        break;
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => self.clusters[number].is_ended = true,
                // About brokers, which the watch has noted.
                Some(Err(_)) => {}
                None if is_empty => break,
                None => is_empty = true,
            }
        }
        self.clusters[number].member = Some(member);
        taken
    }

    fn judge(
        &mut self,
        cluster: usize,
        record: &rdkafka::message::BorrowedMessage<'_>,
        link: &mut dyn SourceLink,
    ) -> Room {
        let mut lossy = String::new();
        let value = record.payload().unwrap_or_default();
        let Some(Headed { id, number, .. }) = parted(payload_of(value, self.is_binary, &mut lossy))
        else {
            let cause = "the record has no sequence header";
            let remedy = "write it by a sink 'kafkaMultiDC', or one with 'sequence.id'";
            link.set_input(&self.clusters[cluster].input, record.offset());
            link.reject(Rejected::of(Payload::Bytes(value), cause, remedy));
            return Room::More;
        };
        match self.order.judge(id, number, cluster) {
            Turn::Now => self.give(cluster, record, link),
            Turn::Repeated => Room::More,
            Turn::Later => {
                let record = record.detach();
                let early = Early { cluster, record };
                self.order.hold(id, number, early, Instant::now());
                Room::More
            }
        }
    }

    /// Maps a record that has a header.
    fn give<M: rdkafka::Message>(
        &mut self,
        cluster: usize,
        record: &M,
        link: &mut dyn SourceLink,
    ) -> Room {
        link.set_input(&self.clusters[cluster].input, record.offset());
        if !self.wanted.is_empty() {
            self.wanted.take(record, link.now());
        }
        let mut lossy = String::new();
        let value = record.payload().unwrap_or_default();
        match parted(payload_of(value, self.is_binary, &mut lossy)) {
            Some(headed) => link.map(headed.body, &self.wanted.properties),
            None => Room::More,
        }
    }

    fn post(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        for (number, cluster) in self.clusters.iter().enumerate() {
            let held = self.order.held().filter(|early| early.cluster == number);
            let first = held.map(|early| early.record.offset()).min();
            let index = self.read.part(&cluster.brokers, self.partition);
            self.read.all[index].next = first.unwrap_or(cluster.next);
        }
        for (id, last) in self.order.last() {
            self.read.seen.set(id, self.partition, last);
        }
        self.read.save(&mut self.position);
        link.post(&self.position).map(drop)
    }

    /// One cluster that is away is said loudly; without both the source is lost.
    fn look_at_centres(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        let mut progress = Vec::new();
        let mut causes = Vec::new();
        for cluster in &mut self.clusters {
            let Some(member) = &cluster.member else {
                continue;
            };
            let watch = &member.consumer.context().watch;
            if let Some(cause) = watch.fatal() {
                return Err(Error::unavailable(
                    format!("Kafka at '{}'", cluster.brokers),
                    cause,
                ));
            }
            for mut one in watch.take_progress().into_iter().flatten() {
                one.input = format!("{}/{}", cluster.brokers, one.input);
                progress.push(one);
            }
            let lost = watch.lost();
            match &lost {
                Some(cause) if !cluster.is_lost => {
                    let brokers = &cluster.brokers;
                    tracing::error!(
                        brokers,
                        cause,
                        "lost connection to a data centre; reading \
                                                     from the other"
                    );
                }
                None if cluster.is_lost => {
                    tracing::info!(brokers = cluster.brokers, "reconnected to the data centre");
                }
                _ => {}
            }
            cluster.is_lost = lost.is_some();
            causes.extend(lost);
        }
        if !progress.is_empty() {
            link.set_progress(progress);
        }
        let is_lost = causes.len() == self.clusters.len();
        if is_lost != self.is_lost {
            self.is_lost = is_lost;
            link.report(match is_lost {
                true => Connection::Lost {
                    cause: causes.join("; "),
                },
                false => Connection::Connected,
            });
        }
        Ok(())
    }

    fn read_all(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let started = Instant::now();
        let mut quiet_since = Instant::now();
        let mut is_heard = false;
        loop {
            let mut taken = self.take(0, link) + self.take(1, link);
            while let Some(Early { cluster, record }) = self.order.next(Instant::now()) {
                self.give(cluster, &record, link);
                taken += 1;
            }
            if taken > 0 {
                self.post(link)?;
                quiet_since = Instant::now();
            }
            self.look_at_centres(link)?;
            is_heard |= taken > 0 || self.clusters.iter().any(|cluster| cluster.is_ended);
            if !is_heard && self.is_lost && started.elapsed() >= START {
                let brokers = self
                    .clusters
                    .each_ref()
                    .map(|cluster| cluster.brokers.as_str());
                let peer = format!("Kafka at '{}'", brokers.join("' and '"));
                return Err(Error::unavailable(peer, "no broker answers"));
            }
            let waits = self.order.held().next().is_some();
            let is_ended = |cluster: &Cluster| cluster.is_ended || cluster.is_lost;
            let is_at_end = is_heard && !waits && self.clusters.iter().all(is_ended);
            let signal = if taken > 0 {
                link.wait(Duration::ZERO)
            } else if is_at_end && quiet_since.elapsed() >= QUIET {
                link.idle(LOOK)
            } else {
                link.listen(if waits { GAP } else { LOOK }, false)
            };
            match signal {
                Signal::Stop => return Ok(Finished::Stopped),
                Signal::End => return Ok(Finished::Ended),
                Signal::Pause => while !matches!(link.wait(LOOK), Signal::Resume | Signal::Stop) {},
                Signal::Acked(_) | Signal::Timeout | Signal::Resume => {}
            }
        }
    }
}

impl Source for MultiDcSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.join(link)?;
        self.is_lost = false;
        link.report(Connection::Connected);
        let result = self.read_all(link);
        // What was held is read again: its offsets were not posted.
        self.order = Order::default();
        for cluster in &mut self.clusters {
            cluster.member = None;
        }
        if !self.position.is_empty() {
            let position = std::mem::take(&mut self.position);
            self.restore(&position)?;
        }
        result
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        if position.is_empty() {
            return Ok(());
        }
        self.read = Partitions::restore(position).ok_or_else(|| {
            Error::failed(
                "reading the saved position of source 'kafkaMultiDC'",
                "it was saved by another version or another source",
            )
        })?;
        for cluster in &mut self.clusters {
            let found = self.read.find(&cluster.brokers, self.partition);
            cluster.next = found.map_or(-1, |index| self.read.all[index].next);
        }
        for (id, _, last) in self.read.seen.entries() {
            self.order.restore(id, last);
        }
        Ok(())
    }

    /// With `--until-done` it reads what there is: up to the ends of its partition.
    fn ends(&self) -> bool {
        true
    }
}
