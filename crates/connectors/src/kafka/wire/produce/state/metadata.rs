//! What the cluster says of brokers, topics and leaders, and what that changes for the batches that wait.

use std::sync::Arc;
use std::time::Instant;

use super::{LEADERLESS, Node, Part, State, Why};
use crate::kafka::wire::message::{self as wire, code, said};

impl State {
    /// Topics, for a question about their leaders.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.iter().map(|topic| &topic.name)
    }

    /// A broker, as the cluster names it.
    pub fn learn_broker(&mut self, broker: wire::Broker) {
        let wire::Broker { id, host, port } = broker;
        let known = self.nodes.get(&id);
        if known.is_some_and(|node| *node.host == *host && node.port == port) {
            return;
        }
        // What is on its way to the former address comes back when its task sees that it has gone.
        if let Some(node) = known {
            node.wake.notify_one();
        }
        self.versions += 1;
        let node = Node {
            host: Arc::from(host),
            port,
            version: self.versions,
            pulse: Arc::default(),
            failing: None,
            leads: false,
            not_before: None,
            wake: Arc::default(),
            task: None,
        };
        self.nodes.insert(id, node);
    }

    /// A topic has so many partitions: what waited for that has its place.
    pub fn learn_count(&mut self, name: &str, count: usize, now: Instant) {
        let Some(topic) = self.by_name.get(name).copied() else {
            return;
        };
        let known = &mut self.topics[topic];
        known.unknown_since = None;
        for number in known.parts.len()..count {
            let number = number as i32;
            let index = known.early.remove(&number).unwrap_or_else(|| {
                self.parts.push(Part::new(topic, number, now));
                self.parts.len() - 1
            });
            known.parts.push(index);
        }
        if count == 0 {
            return;
        }
        for (number, index) in std::mem::take(&mut known.early) {
            let why = Why::Refused(format!(
                "it has {count} partitions, and no partition {number}"
            ));
            self.refuse_all(index, &why);
        }
        let unplaced = self.topics[topic].unplaced.take();
        while let Some(index) = unplaced
            && let Some(batch) = self.parts[index].pop()
        {
            self.release(&batch);
            batch.each_outgoing(|_, record| {
                // A topic with partitions has one for each record.
                if let Ok(index) = self.choose(topic, None, record.key, || now) {
                    self.append_to(index, record, || batch.since);
                }
            });
            self.recycle(batch);
        }
    }

    fn refuse_all(&mut self, index: usize, why: &Why) {
        while let Some(batch) = self.parts[index].pop() {
            self.refuse(index, batch, why.clone());
        }
    }

    /// Who leads a partition; `None`: nobody now.
    pub fn learn_leader(
        &mut self,
        name: &str,
        partition: i32,
        (leader, epoch): (Option<i32>, i32),
        now: Instant,
    ) {
        let topic = self.by_name.get(name).map(|topic| &self.topics[*topic]);
        let index = topic.and_then(|topic| topic.parts.get(partition as usize).copied());
        let Some(part) = index.map(|index| &mut self.parts[index]) else {
            return;
        };
        let leader = leader.filter(|leader| self.nodes.contains_key(leader));
        // An older answer, of a broker that has not heard of the election yet, changes nothing; but a topic
        // that was made anew begins with small numbers again.
        let waited = now.saturating_duration_since(part.leaderless_since);
        let is_older = epoch < part.epoch && (part.leader.is_some() || waited < LEADERLESS);
        match leader {
            Some(leader) if !is_older => {
                (part.leader, part.epoch) = (Some(leader), epoch);
            }
            Some(_) => {}
            None => part.lose_leader(now),
        }
    }

    /// The cluster says no to a topic.
    pub fn learn_refused(&mut self, name: &str, error: i16, now: Instant) {
        let Some(topic) = self.by_name.get(name).copied() else {
            return;
        };
        let known = &self.topics[topic];
        let all = known.parts.iter().chain(known.early.values());
        let all: Vec<usize> = all.chain(&known.unplaced).copied().collect();
        match error {
            code::TOPIC_AUTHORIZATION_FAILED | code::INVALID_TOPIC => {
                let why = Why::Refused(said(error));
                for index in all {
                    self.refuse_all(index, &why);
                }
            }
            _ => {
                for index in all {
                    self.parts[index].lose_leader(now);
                }
                let known = &mut self.topics[topic];
                if error == code::UNKNOWN_TOPIC_OR_PARTITION && known.unknown_since.is_none() {
                    known.unknown_since = Some(now);
                    tracing::debug!(topic = name, cause = said(error), "kafka client");
                }
            }
        }
    }

    /// All that the cluster said is known: brokers go on. Is a leader missing?
    pub fn learnt(&mut self) -> bool {
        self.was_there = true;
        for node in self.nodes.values_mut() {
            node.leads = false;
        }
        for part in &self.parts {
            if let Some(node) = part.leader.and_then(|leader| self.nodes.get_mut(&leader)) {
                node.leads = true;
            }
        }
        self.hurry();
        let busy = self.busy.iter().map(|index| &self.parts[*index]);
        let is_missing = |part: &Part| part.leader.is_none() && part.has_unsent();
        self.wants_metadata = busy.into_iter().any(is_missing);
        self.wants_metadata
    }
}
