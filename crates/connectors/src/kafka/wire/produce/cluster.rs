//! What a writer asks the cluster: brokers, leaders and partitions of its topics, and numbers to be known by.
//!
//! One connection is kept for that, and is asked every second, so that a broker that goes away is noticed
//! also where nothing is written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::super::connection::Connection;
use super::super::message::{self as wire, Api, Malformed, Metadata, code, said};
use super::super::state::Failing;
use super::Shared;
use super::message;
use super::sender;
use super::state::State;

/// First pause before leaders are asked for that were just missing.
const MISSING: Duration = Duration::from_millis(50);

/// The pause grows no more behind so many times.
const DOUBLINGS: u32 = 4;

/// All topics are asked for each time, where they are no more.
const TOPICS: usize = 64;

/// Runs until the writer is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let cluster = Arc::clone(&shared.lock().cluster);
    let mut connection: Option<Connection> = None;
    let mut failing: Option<Failing> = None;
    let mut all_at: Option<Instant> = None;
    let (mut turn, mut missing) = (0, 0);
    loop {
        let places = places(&shared);
        let place = &places[turn % places.len().max(1)];
        let pause = match ask(&shared, &mut connection, place, &mut all_at).await {
            Ok(is_missing) => {
                failing = None;
                start_senders(&shared);
                missing = if is_missing { missing + 1 } else { 0 };
                match missing {
                    0 => shared.options.refresh,
                    times => (MISSING * (1 << times.min(DOUBLINGS))).min(shared.options.refresh),
                }
            }
            Err(cause) => {
                connection = None;
                turn += 1;
                let (host, port) = place;
                let cause = format!("broker {host}:{port}: {cause}");
                let pause = Failing::again(&mut failing, cause, shared.options.config.pauses);
                // Each of several has its turn before there is a pause.
                match turn.is_multiple_of(places.len().max(1)) {
                    true => pause,
                    false => Duration::ZERO,
                }
            }
        };
        let waits_on = failing.is_some() || missing > 0;
        shared.lock().metadata_failing.clone_from(&failing);
        shared.tell();
        match waits_on {
            true => tokio::time::sleep(pause).await,
            // Before its time only where something is asked for.
            false => {
                timeout(pause, cluster.notified()).await.ok();
            }
        }
    }
}

/// Brokers to ask: those that the app names and those that are known.
fn places(shared: &Shared) -> Vec<(String, u16)> {
    let state = shared.lock();
    let known = state.nodes.values().filter(|node| node.failing.is_none());
    let known = known.map(|node| (node.host.to_string(), node.port));
    let mut all = shared.options.config.brokers.clone();
    all.extend(known.filter(|place| !shared.options.config.brokers.contains(place)));
    all
}

/// Asks for what is wanted; is a leader missing?
async fn ask(
    shared: &Shared,
    connection: &mut Option<Connection>,
    place: &(String, u16),
    all_at: &mut Option<Instant>,
) -> Result<bool, String> {
    let (topics, pulse) = {
        let mut state = shared.lock();
        state.metadata_place = format!("{}:{}", place.0, place.1);
        let age = shared.options.config.metadata_age;
        let is_due = state.wants_metadata
            || state.topics().count() <= TOPICS
            || all_at.is_none_or(|at| at.elapsed() >= age);
        let topics: Vec<Arc<str>> = match is_due {
            true => state.topics().cloned().collect(),
            false => Vec::new(),
        };
        if is_due {
            *all_at = Some(Instant::now());
        }
        (topics, Arc::clone(&state.metadata_pulse))
    };
    let connection = match connection {
        Some(connection) => connection,
        none => {
            let place = (&*place.0, place.1);
            none.insert(Connection::open(&shared.options.config, place, &pulse).await?)
        }
    };
    let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
    let put = |out: &mut Vec<u8>, version| wire::metadata(out, version, &names, true);
    let (body, version) = connection.ask(Api::Metadata, put, None).await?;
    let metadata = Metadata::decode(&body, version).map_err(|Malformed(cause)| cause.to_owned())?;
    let (is_missing, wants_identity) = {
        let mut state = shared.lock();
        let is_missing = state.learn(metadata, Instant::now());
        (is_missing, state.wants_identity)
    };
    if wants_identity {
        let put = |out: &mut Vec<u8>, _| message::init_producer_id(out);
        let (body, _) = connection.ask(Api::InitProducerId, put, None).await?;
        match message::identity(&body).map_err(|Malformed(cause)| cause)? {
            Ok(identity) => {
                let mut state = shared.lock();
                state.identity = Some(identity);
                state.wants_identity = false;
                state.hurry();
            }
            Err(error) => return Err(format!("it gives no producer id: {}", refused(error))),
        }
    }
    Ok(is_missing)
}

fn refused(error: i16) -> String {
    match error {
        code::CLUSTER_AUTHORIZATION_FAILED => {
            "not authorized for IdempotentWrite on the cluster (enable.idempotence:false does without)"
                .to_owned()
        }
        error => said(error),
    }
}

/// Each broker that leads something has a task.
fn start_senders(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    if state.is_ended {
        return;
    }
    for (id, node) in &mut state.nodes {
        let is_running = node.task.as_ref().is_some_and(|task| !task.is_finished());
        if node.leads && !is_running {
            let broker = sender::Broker {
                id: *id,
                version: node.version,
            };
            let sending = sender::run(Arc::clone(shared), broker, Arc::clone(&node.wake));
            node.task = Some(shared.worker.spawn(sending).abort_handle());
        }
    }
}

impl State {
    /// Takes over what the brokers say; is a leader missing?
    fn learn(&mut self, metadata: Metadata, now: Instant) -> bool {
        for broker in metadata.brokers {
            self.learn_broker(broker);
        }
        for of_topic in metadata.leaders.chunk_by(|a, b| a.topic == b.topic) {
            let topic = &of_topic[0].topic;
            let is_refused = metadata.refused.iter().any(|(name, _)| name == topic);
            if !is_refused {
                self.learn_count(topic, of_topic.len(), now);
            }
            for leader in of_topic {
                let is_there = leader.leader >= 0 && leader.error != code::LEADER_NOT_AVAILABLE;
                let of_part = (Some(leader.leader).filter(|_| is_there), leader.epoch);
                self.learn_leader(topic, leader.partition, of_part, now);
            }
        }
        for (topic, error) in metadata.refused {
            self.learn_refused(&topic, error, now);
        }
        self.learnt()
    }
}
