//! What the options of a sink mean to the writer.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::ClientConfig;

use super::super::codec::{Codec, Packer};
use super::super::config::Config;
use connect::option::number;

/// As librdkafka has them, where the app does not say.
const BATCH_BYTES: usize = 1_000_000;
const RECORD_BYTES: usize = 1_000_000;
const BATCH_RECORDS: usize = 10_000;
const HELD_RECORDS: usize = 100_000;

/// So many batches of a producer a broker remembers.
const IDEMPOTENT_IN_FLIGHT: usize = 5;

/// How a writer writes.
pub(in crate::kafka) struct Options {
    /// Of its connections.
    pub(super) config: Arc<Config>,
    /// -1 for all replicas that are in sync, 1 for the leader.
    pub(super) acks: i16,
    pub(super) is_idempotent: bool,
    pub(super) packer: Packer,
    /// How long a batch waits for more.
    pub(super) linger: Duration,
    /// Where a batch of several records ends.
    pub(super) batch_bytes: usize,
    pub(super) batch_records: usize,
    /// Longest key and value.
    pub(super) record_bytes: usize,
    /// Most that is held until it is confirmed.
    pub(super) held_bytes: usize,
    pub(super) held_records: usize,
    /// Most requests on their way over a connection.
    pub(super) in_flight: usize,
    /// For how long a record is tried, and how often.
    pub(super) delivery: Duration,
    pub(super) retries: u32,
    pub(super) retry_pause: Duration,
    /// Time for an answer.
    pub(super) request: Duration,
    /// Between two questions for the leaders.
    pub(super) refresh: Duration,
}

impl Options {
    /// From properties as librdkafka names them, with its defaults.
    ///
    /// # Errors
    /// What cannot be used, without its value.
    pub fn new(config: &ClientConfig) -> Result<Options, String> {
        // A name that is librdkafka's alone is not among our defaults: whoever writes it means it.
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| config.get(name));
            values.find(|value| !value.trim().is_empty()).map(str::trim)
        };
        let whole = |names: &[&str], usual: usize| first(names).and_then(number).unwrap_or(usual);
        let millis = |names: &[&str], usual: f64| {
            let millis: f64 = first(names).and_then(number).unwrap_or(usual);
            Duration::try_from_secs_f64(millis.max(0.0) / 1000.0).unwrap_or(Duration::MAX)
        };
        let is_idempotent = first(&["enable.idempotence"]) == Some("true");
        let codec = first(&["compression.codec", "compression.type"]).unwrap_or("none");
        let codec = Codec::named(codec).ok_or("property 'compression.type' is no codec")?;
        let level = first(&["compression.level"]).and_then(number);
        let acks = match first(&["acks"]) {
            None | Some("all" | "-1") => -1,
            Some("1") => 1,
            Some(_) => return Err("property 'acks' is neither all nor 1".to_owned()),
        };
        let record_bytes = whole(&["message.max.bytes"], RECORD_BYTES);
        let in_flight = whole(
            &["max.in.flight", "max.in.flight.requests.per.connection"],
            1,
        );
        if is_idempotent && (acks != -1 || in_flight > IDEMPOTENT_IN_FLIGHT) {
            return Err(format!(
                "property 'enable.idempotence' needs acks:all, and no more than \
                 {IDEMPOTENT_IN_FLIGHT} requests in flight"
            ));
        }
        let request = millis(&["request.timeout.ms"], 30_000.0).max(Duration::from_millis(1));
        let mut connections = Config::new(config)?;
        connections.answer = request;
        Ok(Options {
            config: Arc::new(connections),
            acks,
            is_idempotent,
            packer: Packer::new(codec, level.filter(|level| *level >= 0)),
            linger: millis(&["queue.buffering.max.ms", "linger.ms"], 1.0),
            batch_bytes: whole(&["batch.size"], BATCH_BYTES).min(record_bytes),
            batch_records: whole(&["batch.num.messages"], BATCH_RECORDS).max(1),
            record_bytes,
            held_bytes: whole(&["queue.buffering.max.kbytes"], 32 << 10).saturating_mul(1 << 10),
            held_records: whole(&["queue.buffering.max.messages"], HELD_RECORDS).max(1),
            in_flight: in_flight.max(1),
            delivery: match millis(&["message.timeout.ms", "delivery.timeout.ms"], 300_000.0) {
                Duration::ZERO => Duration::MAX,
                other => other,
            },
            retries: first(&["retries"]).and_then(number).unwrap_or(u32::MAX),
            retry_pause: millis(&["retry.backoff.ms"], 100.0),
            request,
            refresh: millis(&["topic.metadata.refresh.interval.ms"], 1000.0)
                .max(Duration::from_millis(100)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_those_of_librdkafka() {
        let made = |properties: &[(&str, &str)]| {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", "one:1");
            for (name, value) in properties {
                config.set(*name, *value);
            }
            Options::new(&config)
        };
        let usual = made(&[]).expect("it can be");
        assert_eq!(
            (usual.acks, usual.in_flight, usual.is_idempotent),
            (-1, 1, false)
        );
        assert_eq!(usual.linger, Duration::from_millis(1));
        let set = made(&[
            ("acks", "1"),
            ("batch.size", "70000"),
            ("message.max.bytes", "2000"),
            ("linger.ms", "0.5"),
            ("delivery.timeout.ms", "0"),
            ("compression.type", "zstd"),
            ("queue.buffering.max.kbytes", "64"),
            ("retries", "0"),
        ]);
        let set = set.expect("it can be");
        assert_eq!((set.acks, set.batch_bytes, set.retries), (1, 2000, 0));
        assert_eq!(set.linger, Duration::from_micros(500));
        assert_eq!((set.delivery, set.held_bytes), (Duration::MAX, 64 << 10));
        assert_eq!(set.packer.attributes(), 4);
        let one = [("enable.idempotence", "true"), ("acks", "1")];
        let many = [one[0], ("max.in.flight", "6")];
        for bad in [
            &[("acks", "0")][..],
            &[("compression.type", "planted")],
            &one,
            &many,
        ] {
            let error = made(bad).err().expect("it cannot be");
            assert!(!error.contains("planted"), "{error}");
        }
    }
}
