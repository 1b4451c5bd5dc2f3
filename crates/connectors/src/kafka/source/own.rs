//! Reading by the own client: librdkafka's consumer is the member of the group beside it, with its
//! partitions paused, or only commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::topic_partition_list::TopicPartitionList;

use super::super::properties::Properties;
use super::super::record::Placed;
use super::super::wire::{Config, Spoilt, Start, Step, Wire};
use super::member::Member;
use super::reading::TURN;
use super::{KafkaSource, choice};
use connect::arrivals::Arrivals;
use connect::component::{Environment, Progress, Room, SourceLink};
use connect::error::Error;
use connect::net::Network;
use connect::option::Settings;
use connect::rows::Rejected;

/// How often it is told how far partitions are.
const PROGRESS: Duration = Duration::from_secs(1);

/// What a consumer may fetch before its partitions are paused: as little as it can.
const SPARE: &[(&str, &str)] = &[
    ("enable.partition.eof", "false"),
    ("fetch.message.max.bytes", "1024"),
    ("queued.min.messages", "1"),
];

/// How the own client reads.
pub(super) struct Own {
    config: Arc<Config>,
    network: Arc<Network>,
    arrivals: Arc<Arrivals>,
    told_at: Instant,
}

impl Own {
    /// `None`: the other client reads.
    pub fn new(
        settings: Settings<'_>,
        environment: &Environment,
        client: Option<&str>,
        optional: &str,
        properties: &Properties,
    ) -> Result<Option<Own>, Error> {
        let choice = choice::choose(choice::Side::Source, client, optional)
            .map_err(|why| settings.refused(why))?;
        if !choice.is_own {
            tracing::debug!(why = choice.why, "records are read by client 'rdkafka'");
            return Ok(None);
        }
        let config = match Config::new(&properties.config) {
            Ok(config) => config,
            Err(cause) if choice.is_auto => {
                tracing::warn!(cause, "records are read by client 'rdkafka'");
                return Ok(None);
            }
            Err(cause) => return Err(settings.refused(cause)),
        };
        Ok(Some(Own {
            config: Arc::new(config),
            network: environment.network(),
            arrivals: environment.shared.get(),
            told_at: Instant::now(),
        }))
    }
}

/// Configures a consumer that reads nothing.
pub(super) fn spare(config: &mut ClientConfig) {
    for (name, value) in SPARE {
        config.set(*name, *value);
    }
    config.remove("max.partition.fetch.bytes");
}

impl KafkaSource {
    /// The own client of a member, where that reads.
    pub(super) fn start_wire(&self, link: &dyn SourceLink) -> Result<Option<Wire>, Error> {
        let Some(own) = &self.own else {
            return Ok(None);
        };
        let workers = own.network.workers();
        let workers = workers.map_err(|error| Error::failed("starting network threads", error))?;
        Ok(Some(Wire::start(
            &own.config,
            workers,
            &own.arrivals,
            link.waker(),
        )))
    }

    /// Has partitions read from where [`KafkaSource::start_at`] has set them.
    pub(super) fn hand_to(&self, wire: &mut Wire, partitions: &TopicPartitionList) {
        for element in partitions.elements() {
            let Some(index) = self.partitions.find(element.topic(), element.partition()) else {
                continue;
            };
            let part = &self.partitions.all[index];
            let start = match part.next {
                next @ 0.. => Start::At(next),
                _ => Start::Reset,
            };
            wire.add(&part.topic, part.partition, index, start);
        }
    }

    pub(super) fn take_from(&self, wire: &mut Wire, partitions: &TopicPartitionList) {
        for element in partitions.elements() {
            if let Some(index) = self.partitions.find(element.topic(), element.partition()) {
                let part = &self.partitions.all[index];
                wire.remove(&part.topic, part.partition);
            }
        }
    }

    /// Maps what has been fetched, until a batch is full, nothing is left, or `taken` is a turn's worth.
    pub(super) fn take_own(
        &mut self,
        member: &mut Member,
        taken: &mut usize,
        link: &mut dyn SourceLink,
    ) -> Result<Room, Error> {
        // What the group says is noted by the poll.
        while let Some(event) = member.consumer.poll(Duration::ZERO) {
            if let Err(error) = event {
                self.judge(member, &error)?;
            }
        }
        let Some(wire) = &mut member.wire else {
            return Ok(Room::More);
        };
        if let Some(failure) = wire.failure() {
            return Err(Error::failed("reading from Kafka", failure));
        }
        while *taken < TURN {
            let Some((index, step)) = wire.next() else {
                break;
            };
            *taken += 1;
            let room = match step {
                Step::Record => {
                    let record = wire.record();
                    let part = self.partitions.read_at(index, record.offset);
                    link.set_input(&part.input, record.offset);
                    let (topic, partition) = wire.place();
                    self.map_facts(
                        &Placed {
                            topic,
                            partition,
                            record,
                        },
                        link,
                    )
                }
                Step::Spoilt(spoilt) => self.reject_spoilt(index, &spoilt, link),
                Step::End => Room::More,
            };
            if room == Room::Full {
                return Ok(Room::Full);
            }
        }
        Ok(Room::More)
    }

    fn reject_spoilt(&mut self, index: usize, spoilt: &Spoilt, link: &mut dyn SourceLink) -> Room {
        let Spoilt { first, last, cause } = spoilt;
        let part = self.partitions.read_at(index, *last);
        link.set_input(&part.input, *first);
        let cause = format!("records of offsets {first} to {last} cannot be read: {cause}");
        let remedy = "look at the log of the broker with kafka-dump-log, and have the records \
                      written again";
        link.reject(Rejected::new("", cause, remedy));
        Room::More
    }

    /// Adds how far the partitions of a client are, once in a while.
    pub(super) fn tell_progress(&mut self, wire: &Wire, progress: &mut Vec<Progress>) {
        let Some(own) = &mut self.own else { return };
        if own.told_at.elapsed() < PROGRESS {
            return;
        }
        progress.extend(wire.progress(|index| self.partitions.all[index].next));
    }

    /// It has been told how far they are.
    pub(super) fn progress_told(&mut self) {
        if let Some(own) = &mut self.own {
            own.told_at = Instant::now();
        }
    }
}
