//! Who leads which partition: asked for when a partition has no leader, when a leader says that it is
//! none or goes away, and from time to time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::fetch;
use super::message::{self, Api, Broker, Leader, Malformed, Metadata, code, said};
use super::state::{Failing, Node, Shared, State};

/// Pause before leaders are asked for that were just missing, and of a topic that is not there.
const MISSING: Duration = Duration::from_millis(100);
const UNKNOWN: Duration = Duration::from_secs(1);

/// Runs until the client is dropped.
pub(super) async fn run(shared: Arc<Shared>, mut changes: watch::Receiver<u64>) {
    let mut turn = 0;
    let mut failing: Option<Failing> = None;
    let mut asked_at: Option<Instant> = None;
    loop {
        changes.mark_unchanged();
        let topics = {
            let state = shared.lock();
            if state.is_ended() {
                return;
            }
            let is_old = asked_at.is_none_or(|at| at.elapsed() >= shared.config.metadata_age);
            let is_due = state.wants_metadata || is_old;
            let mut topics: Vec<Arc<str>> = Vec::new();
            for (topic, _) in state.parts.keys().filter(|_| is_due) {
                if topics.last() != Some(topic) {
                    topics.push(Arc::clone(topic));
                }
            }
            topics
        };
        if topics.is_empty() {
            let is_over = timeout(shared.config.metadata_age, changes.changed()).await;
            if matches!(is_over, Ok(Err(_))) {
                return;
            }
            continue;
        }
        let places = places(&shared);
        let place = &places[turn % places.len().max(1)];
        turn += 1;
        let pause = match ask(&shared, place, &topics).await {
            Ok(metadata) => {
                failing = None;
                asked_at = Some(Instant::now());
                let pause = shared.lock().learn(metadata);
                start_fetchers(&shared);
                shared.tell();
                pause
            }
            Err(cause) => {
                let (host, port) = place;
                let pause = shared.failed(&mut failing, format!("broker {host}:{port}: {cause}"));
                // Each of several has its turn before there is a pause.
                Some(pause).filter(|_| turn.is_multiple_of(places.len().max(1)))
            }
        };
        shared.lock().metadata_failing.clone_from(&failing);
        shared.waker.wake();
        if let Some(pause) = pause {
            sleep(pause).await;
        }
    }
}

/// Brokers to ask: those that are known, then those that the app names.
fn places(shared: &Shared) -> Vec<(String, u16)> {
    let state = shared.lock();
    let known = state.nodes.values().filter(|node| node.failing.is_none());
    let known = known.map(|node| (node.host.to_string(), node.port));
    known.chain(shared.config.brokers.iter().cloned()).collect()
}

async fn ask(
    shared: &Shared,
    (host, port): &(String, u16),
    topics: &[Arc<str>],
) -> Result<Metadata, String> {
    let pulse = Arc::clone(&shared.lock().metadata_pulse);
    let mut connection = Connection::open(&shared.config, (host, *port), &pulse).await?;
    let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
    let put = |out: &mut Vec<u8>, version| message::metadata(out, version, &names, false);
    let (body, version) = connection.ask(Api::Metadata, put, None).await?;
    Metadata::decode(&body, version).map_err(|Malformed(cause)| cause.to_owned())
}

/// Each broker that leads something has a task.
fn start_fetchers(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    if state.is_ended() {
        return;
    }
    let State { parts, nodes, .. } = &mut *state;
    for (id, node) in nodes.iter_mut() {
        let is_leader = parts.values().any(|part| part.leader == Some(*id));
        let is_running = node.task.as_ref().is_some_and(|task| !task.is_finished());
        if is_leader && !is_running {
            let changes = shared.changed.subscribe();
            let task = shared
                .worker
                .spawn(fetch::run(Arc::clone(shared), *id, changes));
            node.task = Some(task.abort_handle());
        }
    }
}

impl State {
    /// Takes over what the brokers say; how long to wait where something is missing.
    fn learn(&mut self, metadata: Metadata) -> Option<Duration> {
        for broker in metadata.brokers {
            self.learn_broker(broker);
        }
        for (topic, error) in metadata.refused {
            match error {
                code::TOPIC_AUTHORIZATION_FAILED | code::CLUSTER_AUTHORIZATION_FAILED => {
                    self.failure = Some(format!("topic '{topic}': {}", said(error)));
                }
                _ => {
                    let of_topic = self
                        .parts
                        .iter_mut()
                        .filter(|((name, _), _)| **name == topic);
                    for (_, part) in of_topic {
                        part.leader = None;
                        if !part.is_unknown && error == code::UNKNOWN_TOPIC_OR_PARTITION {
                            part.is_unknown = true;
                            tracing::warn!(
                                topic,
                                cause = said(error),
                                "topic or partition does not exist"
                            );
                        }
                    }
                }
            }
        }
        for leader in metadata.leaders {
            self.learn_leader(leader);
        }
        self.wants_metadata = false;
        let missing = || self.parts.values().filter(|part| part.leader.is_none());
        let pause = match missing().next() {
            None => None,
            Some(_) if missing().all(|part| part.is_unknown) => Some(UNKNOWN),
            Some(_) => Some(MISSING),
        };
        self.wants_metadata = pause.is_some();
        pause
    }

    fn learn_broker(&mut self, broker: Broker) {
        let Broker { id, host, port } = broker;
        let known = self.nodes.get_mut(&id);
        if known
            .as_ref()
            .is_some_and(|node| *node.host == *host && node.port == port)
        {
            return;
        }
        // What it has asked for at the former address is asked for again.
        if let Some(task) = known.and_then(|node| node.task.take()) {
            task.abort();
        }
        let node = Node {
            host: Arc::from(host),
            port,
            pulse: Arc::default(),
            failing: None,
            task: None,
        };
        self.nodes.insert(id, node);
    }

    fn learn_leader(&mut self, leader: Leader) {
        let mut parts = self.parts.iter_mut();
        let found = parts
            .find(|((topic, number), _)| *number == leader.partition && **topic == *leader.topic);
        let Some((_, part)) = found else { return };
        part.is_unknown = false;
        let is_there = leader.leader >= 0 && self.nodes.contains_key(&leader.leader);
        // An older answer, of a broker that has not heard of the election yet, changes nothing.
        if !is_there || leader.epoch < part.epoch || leader.error == code::LEADER_NOT_AVAILABLE {
            if part.leader.take().is_some() {
                part.leaderless_since = Instant::now();
            }
            return;
        }
        part.leader = Some(leader.leader);
        part.epoch = leader.epoch;
    }
}
