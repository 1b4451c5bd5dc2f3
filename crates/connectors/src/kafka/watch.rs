//! Turns what librdkafka reports about brokers into: connected, or lost and why.
//!
//! librdkafka retries by itself, with growing pauses; its reports arrive while the client is
//! polled.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::{Broker, Statistics};

use connect::component::Progress;
use connect::option::number;

/// A broker that owes an answer and has been silent for so long, in microseconds, is lost, where
/// fetches are answered within half a second. With the statistics and a look of the sink, that is less
/// than five seconds.
const SILENCE_MICROS: i64 = 3_000_000;

/// How long a broker may wait for records before it answers, where the app does not say.
const FETCH_WAIT_MILLIS: i64 = 500;

/// Interval of the statistics by which silence is noticed and lag is known.
pub(super) const STATISTICS_MILLIS: &str = "1000";

/// The state of a client, shared with the calls that librdkafka makes.
pub(super) struct Watch {
    silence_micros: i64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was said last about a broker.
    cause: String,
    lost: Option<String>,
    /// That it is lost is told by its silence alone.
    is_silent: bool,
    /// There was a broker at some time.
    was_there: bool,
    /// The client is of no more use.
    fatal: Option<String>,
    progress: Option<Vec<Progress>>,
    /// Topics and partitions that are read to their ends.
    ended: HashSet<(Arc<str>, i32)>,
}

impl Watch {
    /// Of a client that is configured like that.
    pub fn new(config: &ClientConfig) -> Watch {
        let wait: Option<i64> = config.get("fetch.wait.max.ms").and_then(number);
        let longer = wait.map_or(0, |wait| (wait - FETCH_WAIT_MILLIS).clamp(0, 3_600_000));
        Watch {
            silence_micros: SILENCE_MICROS + longer * 1000,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no broker now.
    pub fn lost(&self) -> Option<String> {
        self.lock().lost.clone()
    }

    /// Was there a broker at any time?
    pub fn was_there(&self) -> bool {
        self.lock().was_there
    }

    pub fn fatal(&self) -> Option<String> {
        self.lock().fatal.clone()
    }

    /// What was said last, for an attempt that came to nothing.
    pub fn cause(&self) -> Option<String> {
        let state = self.lock();
        let cause = state.lost.as_ref().unwrap_or(&state.cause);
        (!cause.is_empty()).then(|| cause.clone())
    }

    /// Is a broker waited for of which nothing bad is known but that it is slow?
    pub fn is_waiting(&self) -> bool {
        let state = self.lock();
        state.cause.is_empty() && (state.lost.is_none() || state.is_silent)
    }

    /// Positions and lag, when there are newer ones.
    pub fn take_progress(&self) -> Option<Vec<Progress>> {
        self.lock().progress.take()
    }

    /// Was the partition read to its end when the last statistics were made?
    pub fn has_ended(&self, topic: &Arc<str>, partition: i32) -> bool {
        let part = (Arc::clone(topic), partition);
        self.lock().ended.contains(&part)
    }

    pub fn error(&self, error: &KafkaError, reason: &str) {
        use RDKafkaErrorCode as Code;
        let mut state = self.lock();
        match error.rdkafka_error_code() {
            Some(Code::Fatal) => state.fatal = Some(reason.to_owned()),
            // The reason only counts the brokers; why they are down was said before.
            Some(Code::AllBrokersDown) => {
                let cause = match state.cause.is_empty() {
                    true => reason,
                    false => &state.cause,
                };
                (state.lost, state.is_silent) = (Some(cause.to_owned()), false);
            }
            Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL) => {
                state.cause = reason.to_owned();
                (state.lost, state.is_silent) = (Some(reason.to_owned()), false);
            }
            Some(Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut) => {
                state.cause = reason.to_owned();
            }
            // No fault: the poll that brought it says so as well.
            Some(Code::PartitionEOF) => {}
            // The sink asks for it.
            Some(Code::GaplessGuarantee) => {}
            _ => tracing::warn!(cause = reason, "kafka client"),
        }
    }

    pub fn statistics(&self, statistics: &Statistics) {
        let brokers = of_interest(statistics);
        let silent = |broker: &&Broker| silence(broker) > self.silence_micros;
        let is_there = |broker: &Broker| is_up(broker) && !silent(&broker);
        let mut state = self.lock();
        if brokers.iter().any(|broker| is_there(broker)) {
            state.lost = None;
            state.was_there = true;
            state.cause.clear();
        } else if let Some(broker) = brokers.iter().copied().find(silent) {
            state.lost = Some(format!(
                "broker {} has not answered for {} s",
                broker.nodename,
                silence(broker) / 1_000_000
            ));
            state.is_silent = true;
        }
        state.progress = Some(progress(statistics));
        state.ended = ended(statistics);
    }
}

/// The brokers of the cluster, once it has named them, else those of the configuration; of both, those
/// with which something was begun. (The coordinator of a group is one of them, met again.)
fn of_interest(statistics: &Statistics) -> Vec<&Broker> {
    let of_source = |source: &str| -> Vec<&Broker> {
        let all = statistics.brokers.values();
        all.filter(|broker| broker.source == source && broker.state != "INIT")
            .collect()
    };
    let learned = of_source("learned");
    match learned.is_empty() {
        true => of_source("configured"),
        false => learned,
    }
}

fn is_up(broker: &Broker) -> bool {
    matches!(broker.state.as_str(), "UP" | "UPDATE")
}

/// For how long a broker owes an answer, in microseconds: one to a request, or to who wants to be
/// connected.
fn silence(broker: &Broker) -> i64 {
    match is_up(broker) {
        true if broker.waitresp_cnt == 0 => 0,
        true => broker.rxidle.min(broker.stateage),
        false => broker.stateage,
    }
}

/// Of all partitions that are read.
fn progress(statistics: &Statistics) -> Vec<Progress> {
    let mut all: Vec<Progress> = statistics
        .topics
        .values()
        .flat_map(|topic| topic.partitions.values().map(move |part| (topic, part)))
        .filter(|(_, part)| part.partition >= 0 && part.app_offset >= 0)
        .map(|(topic, part)| Progress {
            input: format!("{}/{}", topic.topic, part.partition),
            position: part.app_offset,
            lag: (part.consumer_lag >= 0).then_some(part.consumer_lag),
        })
        .collect();
    all.sort_by(|a, b| a.input.cmp(&b.input));
    all
}

/// The partitions whose end was told and behind which nothing has been fetched since.
fn ended(statistics: &Statistics) -> HashSet<(Arc<str>, i32)> {
    let topics = statistics.topics.values();
    topics
        .flat_map(|topic| topic.partitions.values().map(move |part| (topic, part)))
        .filter(|(_, part)| part.eof_offset >= 0 && part.eof_offset == part.next_offset)
        .map(|(topic, part)| (Arc::from(&*topic.topic), part.partition))
        .collect()
}

/// What librdkafka logs: what matters comes as an error as well, or is told by the caller.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    match level {
        // The sink goes on by itself, and says what it does.
        _ if is_of_gaps(text) => tracing::debug!(facility, text, "kafka client"),
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::error!(facility, text, "kafka client");
        }
        _ if facility == "CONFWARN" => tracing::warn!(text, "kafka client"),
        _ => tracing::debug!(facility, text, "kafka client"),
    }
}

/// That a client ended so that nothing overtakes what it could not send; and that the property which
/// asks for it is experimental, which is for who updates librdkafka.
fn is_of_gaps(text: &str) -> bool {
    text.contains(super::oversized::GAPLESS) || text.contains("gap-less guarantee")
}

#[cfg(test)]
mod tests {
    use rdkafka::statistics::{Partition, Topic};

    use super::*;

    fn broker(source: &str, state: &str, waits: i64, age: i64, idle: i64) -> Broker {
        Broker {
            nodename: format!("{source}:9092"),
            source: source.into(),
            state: state.into(),
            waitresp_cnt: waits,
            stateage: age,
            rxidle: idle,
            ..Broker::default()
        }
    }

    #[test]
    fn an_end_is_that_of_a_partition_of_a_topic() {
        let partition = |next_offset, eof_offset| Partition {
            partition: 0,
            next_offset,
            eof_offset,
            ..Partition::default()
        };
        let topic = |name: &str, part: Partition| Topic {
            topic: name.into(),
            partitions: [(0, part)].into(),
            ..Topic::default()
        };
        let parts = [
            ("read", partition(7, 7)),
            ("empty", partition(0, 0)),
            ("grown since", partition(9, 7)),
            ("unread", partition(0, -1001)),
            ("not begun", partition(-1001, -1001)),
        ];
        let watch = Watch::new(&ClientConfig::new());
        watch.statistics(&Statistics {
            topics: parts
                .map(|(name, part)| (name.into(), topic(name, part)))
                .into(),
            ..Statistics::default()
        });
        let names = ["read", "empty", "grown since", "unread", "not begun"];
        let ended = names.map(|name| watch.has_ended(&Arc::from(name), 0));
        assert_eq!(ended, [true, true, false, false, false]);
        assert!(!watch.has_ended(&Arc::from("read"), 1));
    }

    #[test]
    fn silent_brokers_are_lost() {
        const LONG: i64 = 4_000_000;
        let check = |brokers: &[Broker], expect: Option<&str>| {
            let watch = Watch::new(ClientConfig::new().set("fetch.wait.max.ms", "700"));
            let brokers = brokers.iter().enumerate();
            watch.statistics(&Statistics {
                brokers: brokers.map(|(n, b)| (n.to_string(), b.clone())).collect(),
                ..Statistics::default()
            });
            assert_eq!(watch.lost().as_deref(), expect);
        };
        let silent = Some("broker learned:9092 has not answered for 4 s");
        check(&[broker("learned", "UP", 1, 9 * LONG, LONG)], silent);
        // Nothing was asked, it has just come back, or a fetch may take that long.
        check(&[broker("learned", "UP", 0, 9 * LONG, LONG)], None);
        check(&[broker("learned", "UP", 1, 0, LONG)], None);
        check(&[broker("learned", "UP", 1, 9 * LONG, 3_100_000)], None);
        // It takes connections and says nothing on them.
        let mute = broker("learned", "APIVERSION_QUERY", 1, LONG, -1);
        check(std::slice::from_ref(&mute), silent);
        // The broker that was asked first is of no use when the others are silent.
        let first = broker("configured", "UP", 0, LONG, LONG);
        check(&[first.clone(), mute.clone()], silent);
        check(&[first], None);
        // One of several is enough.
        check(&[mute, broker("learned", "UP", 0, 0, 0)], None);
    }
}
