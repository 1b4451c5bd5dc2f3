//! What the group sees of a source: what is done is committed, and partitions come and go.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer as _, RebalanceProtocol};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::member::Member;
use super::{Commits, KafkaSource, said};
use connect::component::{Signal, SourceLink};
use connect::error::Error;

/// How long a partition that goes to another member is kept until what was read of it is done.
pub(super) const HAND_OVER: Duration = Duration::from_secs(5);

/// Wait for the last acknowledgement when the source stops.
const STOP: Duration = Duration::from_secs(10);

impl KafkaSource {
    pub(super) fn acknowledged(&mut self, members: &[Member], sequence: u64) {
        self.partitions.acknowledged(sequence);
        if let Commits::AtOnce(mode) = self.commits {
            self.commit_all(members, mode);
        }
    }

    pub(super) fn commit_when_due(&mut self, members: &[Member]) {
        if let Commits::Every(interval) = self.commits
            && self.last_commit.elapsed() >= interval
        {
            self.commit_all(members, CommitMode::Async);
        }
    }

    fn commit_all(&mut self, members: &[Member], mode: CommitMode) {
        for number in 0..members.len() {
            self.commit(members, number, mode);
        }
        self.last_commit = Instant::now();
    }

    fn commit(&mut self, members: &[Member], number: usize, mode: CommitMode) {
        let commits = self.partitions.to_commit(number);
        if commits.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::with_capacity(commits.len());
        for (topic, partition, offset) in &commits {
            // An offset that was read is a valid one.
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
                .ok();
        }
        match members[number].consumer.commit(&list, mode) {
            Ok(()) => self.partitions.committed(&commits),
            // They are committed with the next ones; records may be read twice by another member.
            Err(error) => tracing::warn!(cause = said(&error), "cannot commit offsets"),
        }
    }

    /// Posts what is left, waits until all of it is done, and commits.
    pub(super) fn finish(
        &mut self,
        members: &mut [Member],
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        if self.partitions.has_read() {
            self.partitions.save(&mut self.position);
            let sequence = link.post(&self.position)?;
            self.partitions.posted(sequence);
        }
        self.settle(members, link, STOP);
        if !matches!(self.commits, Commits::Never) {
            self.commit_all(members, CommitMode::Sync);
        }
        Ok(())
    }

    /// Waits until everything that was posted is done.
    fn settle(&mut self, members: &[Member], link: &mut dyn SourceLink, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.partitions.is_all_done() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match link.wait(left) {
                Signal::Acked(sequence) => self.acknowledged(members, sequence),
                Signal::Stop => return,
                _ => {}
            }
        }
    }

    /// Does what the group has asked for. Before a partition goes, what was read of it is done and
    /// committed, so that its next owner repeats nothing, as long as that takes no longer than
    /// `patience`.
    pub(super) fn rebalance(
        &mut self,
        members: &mut [Member],
        number: usize,
        link: &mut dyn SourceLink,
        patience: Duration,
    ) -> Result<(), Error> {
        let waiting = {
            let context = members[number].consumer.context();
            let mut waiting = context
                .rebalances
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        };
        for mut rebalance in waiting {
            members[number].ended.clear();
            let is_cooperative = matches!(
                members[number].consumer.rebalance_protocol(),
                RebalanceProtocol::Cooperative
            );
            if rebalance.is_revoked {
                let is_lost = members[number].consumer.assignment_lost();
                if !is_lost && !matches!(self.commits, Commits::Never) {
                    self.settle(members, link, patience);
                    self.commit(members, number, CommitMode::Sync);
                }
                self.let_go(&rebalance.partitions);
                if let Some(wire) = &mut members[number].wire {
                    self.take_from(wire, &rebalance.partitions);
                }
                let consumer = &members[number].consumer;
                let done = match is_cooperative {
                    true => consumer.incremental_unassign(&rebalance.partitions),
                    false => consumer.unassign(),
                };
                done.map_err(|error| self.failed("giving partitions back", &error))?;
            } else {
                let consumer = &members[number].consumer;
                self.start_at(number, consumer, &mut rebalance.partitions, link)?;
                let done = match is_cooperative {
                    true => consumer.incremental_assign(&rebalance.partitions),
                    false => consumer.assign(&rebalance.partitions),
                };
                done.map_err(|error| self.failed("taking partitions", &error))?;
                if let Some(wire) = &mut members[number].wire {
                    // The group knows that they are ours; they are read by the other client.
                    let paused = members[number].consumer.pause(&rebalance.partitions);
                    paused.map_err(|error| self.failed("pausing partitions", &error))?;
                    self.hand_to(wire, &rebalance.partitions);
                }
            }
            tracing::info!(
                revoked = rebalance.is_revoked,
                partitions = names(&rebalance.partitions),
                "consumer group was rebalanced"
            );
        }
        Ok(())
    }

    fn let_go(&mut self, partitions: &TopicPartitionList) {
        for element in partitions.elements() {
            if let Some(index) = self.partitions.find(element.topic(), element.partition()) {
                let next = self.partitions.all[index].next;
                self.partitions.give(index, None, next);
            }
        }
    }
}

fn names(partitions: &TopicPartitionList) -> String {
    let names: Vec<String> = partitions
        .elements()
        .iter()
        .map(|e| format!("{}/{}", e.topic(), e.partition()))
        .collect();
    names.join(", ")
}
