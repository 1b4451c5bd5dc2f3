//! Reading: records are mapped where they lie in librdkafka's memory, and posted while the group is
//! answered.

use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;

use super::super::partitions::Part;
use super::super::record::{Facts, payload_of};
use super::super::sequence::Judged;
use super::group::HAND_OVER;
use super::member::{COORDINATOR_LOADS, Member, pause_all};
use super::{KafkaSource, said};
use connect::component::{Connection, Finished, Room, Signal, SourceLink};
use connect::error::Error;
use connect::rows::Rejected;

/// Longest wait for records, so that errors are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// All partitions are at their end for so long before the run is told.
const QUIET: Duration = Duration::from_millis(300);

/// Records that are mapped before signals are looked at again, where they make no rows.
pub(super) const TURN: usize = 4096;

/// A full app is waited for so long before its partitions are paused.
const FULL: Duration = Duration::from_secs(1);

impl KafkaSource {
    pub(super) fn read_all(
        &mut self,
        members: &mut [Member],
        link: &mut dyn SourceLink,
    ) -> Result<Finished, Error> {
        let mut quiet_since = Instant::now();
        loop {
            let taken = self.take(members, link)?;
            if taken > 0 {
                self.post(members, link)?;
                quiet_since = Instant::now();
            }
            for number in 0..members.len() {
                self.rebalance(members, number, link, HAND_OVER)?;
            }
            self.look_at_brokers(members, link)?;
            self.commit_when_due(members);
            let signal = if taken > 0 {
                link.wait(Duration::ZERO)
            } else if quiet_since.elapsed() >= QUIET && self.is_at_end(members) {
                link.idle(LOOK)
            } else {
                link.listen(LOOK, false)
            };
            match signal {
                Signal::Acked(sequence) => self.acknowledged(members, sequence),
                Signal::Stop => {
                    self.finish(members, link)?;
                    return Ok(Finished::Stopped);
                }
                Signal::End => {
                    self.finish(members, link)?;
                    return Ok(Finished::Ended);
                }
                Signal::Pause => self.pause(members, link)?,
                Signal::Timeout | Signal::Resume => {}
            }
        }
    }

    /// Maps what has been fetched, until a batch is full or nothing is left; how many records.
    fn take(&mut self, members: &mut [Member], link: &mut dyn SourceLink) -> Result<usize, Error> {
        let mut taken = 0;
        for member in members.iter_mut() {
            if member.wire.is_some() {
                if self.take_own(member, &mut taken, link)? == Room::Full {
                    return Ok(taken);
                }
                continue;
            }
            let mut is_empty = false;
            while taken < TURN {
                match member.consumer.poll(Duration::ZERO) {
                    Some(Ok(record)) => {
                        is_empty = false;
                        taken += 1;
                        if !member.ended.is_empty() {
                            let partition = record.partition();
                            member.ended.retain(|ended| *ended != partition);
                        }
                        if self.map(&record, link) == Room::Full {
                            return Ok(taken);
                        }
                    }
                    Some(Err(KafkaError::PartitionEOF(partition))) => {
                        if !member.ended.contains(&partition) {
                            member.ended.push(partition);
                        }
                    }
                    Some(Err(error)) => self.judge(member, &error)?,
                    // Nothing, or something that was no record: only the second time it is empty.
                    None if is_empty => break,
                    None => is_empty = true,
                }
            }
        }
        Ok(taken)
    }

    pub(super) fn map(&mut self, record: &BorrowedMessage<'_>, link: &mut dyn SourceLink) -> Room {
        let (partition, offset) = (record.partition(), record.offset());
        let part = self.partitions.read(record.topic(), partition, offset);
        link.set_input(&part.input, offset);
        self.map_facts(record, link)
    }

    /// Maps a record whose place is known.
    #[inline]
    pub(super) fn map_facts(&mut self, record: &impl Facts, link: &mut dyn SourceLink) -> Room {
        if !self.wanted.is_empty() {
            self.wanted.take(record, link.now());
        }
        let Some(value) = record.value() else {
            let remedy = "filter out records without a value before they get here";
            let cause = "the record has no value (a tombstone)";
            link.reject(Rejected::new("", cause, remedy));
            return Room::More;
        };
        let mut lossy = String::new();
        let payload = payload_of(value, self.is_binary, &mut lossy);
        if !self.is_sequenced {
            return link.map(payload, &self.wanted.properties);
        }
        match self.partitions.seen.judge(payload, record.partition()) {
            Judged::New(body) => link.map(body, &self.wanted.properties),
            Judged::Repeated => Room::More,
            Judged::Bare => {
                let cause = "the record has no sequence header";
                let remedy = "set 'sequence.id' at the sink that writes it, or take 'seq.enabled' \
                              off";
                link.reject(Rejected::of(payload, cause, remedy));
                Room::More
            }
        }
    }

    /// An error that came instead of a record.
    pub(super) fn judge(&self, member: &Member, error: &KafkaError) -> Result<(), Error> {
        let action = "reading from Kafka";
        if let KafkaError::MessageConsumptionFatal(_) = error {
            return Err(self.ended(member, said(error)));
        }
        match error.rdkafka_error_code() {
            Some(
                Code::AutoOffsetReset
                | Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::ClusterAuthorizationFailed,
            ) => Err(self.failed(action, error)),
            // It moved right after it was asked: see [`KafkaSource::committed`].
            Some(code) if COORDINATOR_LOADS.contains(&code) => Err(self.unavailable(said(error))),
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
                tracing::warn!(cause = said(error), "topic or partition does not exist");
                Ok(())
            }
            // All others are about brokers, which the watch has noted.
            _ => Ok(()),
        }
    }

    /// Hands over what was read, once the app has room. A group is kept waiting no longer than it
    /// has to: its events are served meanwhile, and no more records fetched.
    fn post(&mut self, members: &mut [Member], link: &mut dyn SourceLink) -> Result<(), Error> {
        let since = Instant::now();
        let mut paused: Vec<TopicPartitionList> = Vec::new();
        while !link.has_room(LOOK) {
            match link.wait(Duration::ZERO) {
                Signal::Acked(sequence) => self.acknowledged(members, sequence),
                Signal::Stop => break,
                _ => {}
            }
            if since.elapsed() < FULL {
                continue;
            }
            if paused.is_empty() {
                paused = pause_all(members);
                tracing::debug!("input queue is full; pausing fetches");
            }
            for number in 0..members.len() {
                self.serve(members, number, link)?;
            }
        }
        for (member, list) in members.iter().zip(&paused) {
            // A partition that has gone since needs no resuming.
            member.consumer.resume(list).ok();
        }
        self.partitions.save(&mut self.position);
        let sequence = link.post(&self.position)?;
        self.partitions.posted(sequence);
        Ok(())
    }

    /// Polls a paused consumer: its broker is answered, and what was on its way is still taken.
    fn serve(
        &mut self,
        members: &mut [Member],
        number: usize,
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let is_own = members[number].wire.is_some();
        while let Some(event) = members[number].consumer.poll(Duration::ZERO) {
            match event {
                // Fetched before its partition was paused; the own client reads it.
                Ok(_) if is_own => {}
                Ok(record) => {
                    self.map(&record, link);
                }
                Err(KafkaError::PartitionEOF(_)) => {}
                Err(error) => self.judge(&members[number], &error)?,
            }
        }
        self.look_at_brokers(members, link)?;
        self.rebalance(members, number, link, Duration::ZERO)
    }

    /// Siddhi's pause: nothing is fetched, the group goes on.
    fn pause(&mut self, members: &mut [Member], link: &mut dyn SourceLink) -> Result<(), Error> {
        let lists = pause_all(members);
        loop {
            for number in 0..members.len() {
                self.serve(members, number, link)?;
            }
            match link.listen(LOOK, false) {
                Signal::Acked(sequence) => self.acknowledged(members, sequence),
                Signal::Resume | Signal::Stop | Signal::End => break,
                Signal::Timeout | Signal::Pause => {}
            }
        }
        for (member, list) in members.iter().zip(&lists) {
            member.consumer.resume(list).ok();
        }
        Ok(())
    }

    /// Are all partitions read to their ends? Ends are told by the number of the partition alone: of
    /// several topics, the statistics say which it is.
    fn is_at_end(&self, members: &[Member]) -> bool {
        let has_ended = |number: usize, member: &Member| {
            let owned: Vec<&Part> = self.partitions.of(number).collect();
            let has_several_topics = owned.iter().any(|part| part.topic != owned[0].topic);
            if let Some(wire) = &member.wire {
                return wire.is_at_end();
            }
            let watch = &member.consumer.context().watch;
            let is_read = |part: &&Part| {
                member.ended.contains(&part.partition)
                    && (!has_several_topics || watch.has_ended(&part.topic, part.partition))
            };
            !owned.is_empty() && owned.iter().all(is_read)
        };
        let mut members = members.iter().enumerate();
        !self.is_lost && members.all(|(number, member)| has_ended(number, member))
    }

    pub(super) fn look_at_brokers(
        &mut self,
        members: &[Member],
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let mut lost = None;
        let mut progress = Vec::new();
        for member in members {
            let watch = &member.consumer.context().watch;
            if let Some(cause) = watch.fatal() {
                return Err(self.ended(member, cause));
            }
            if let Some(wire) = member.wire.as_ref().filter(|wire| wire.is_used()) {
                lost = lost.or_else(|| wire.lost());
                self.tell_progress(wire, &mut progress);
                continue;
            }
            lost = lost.or_else(|| watch.lost());
            if let Some(of_member) = watch.take_progress() {
                progress.extend(of_member);
            }
        }
        if !progress.is_empty() {
            link.set_progress(progress);
            self.progress_told();
        }
        match lost {
            Some(cause) if !self.is_lost => {
                self.is_lost = true;
                let cause = format!("Kafka at '{}': {cause}", self.brokers);
                link.report(Connection::Lost { cause });
            }
            None if self.is_lost => {
                self.is_lost = false;
                link.report(Connection::Connected);
            }
            _ => {}
        }
        Ok(())
    }
}
