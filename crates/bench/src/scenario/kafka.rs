//! `bench kafka`: a topic that lies in a real broker on the same machine, read from its beginning.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Command, Done, Scenario, Verified, app, logged_total};
use crate::site::Site;

pub(super) static KAFKA: Kafka = Kafka {
    name: "kafka",
    client: "auto",
    runs: AtomicU32::new(0),
};

pub(super) static KAFKA_RDKAFKA: Kafka = Kafka {
    name: "kafka-rdkafka",
    client: "rdkafka",
    runs: AtomicU32::new(0),
};

pub(super) struct Kafka {
    name: &'static str,
    /// By which the source reads.
    client: &'static str,
    runs: AtomicU32,
}

const TOPIC: &str = "kafka_topic";

/// Of the shape of the published app.
const APP: &str = "@App:name('HelloKafka')
@source(type='kafka', topic.list='kafka_topic', partition.no.list='0', threading.option='single.thread', group.id='group', bootstrap.servers='127.0.0.1:9092', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='log')
define stream KafkaSourceThroughputStream(count long);
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into KafkaSourceThroughputStream;
";

impl Scenario for Kafka {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        match self.client {
            "rdkafka" => "the same as kafka, read by client 'rdkafka'",
            _ => "JSON events of 60 bytes from one partition of a broker on the same machine",
        }
    }

    fn events(&self) -> u64 {
        5_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            180_000.0,
            "events/s",
            "HelloKafka, broker on another host of 4 cores",
        ))
    }

    fn servers(&self) -> &'static [&'static str] {
        &["kafka"]
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        site.topic(TOPIC).fill((0..events).map(event))
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let (path, app) = app(site, "HelloKafka.siddhi", APP)?;
        // Each run is a group of its own, and so begins at the beginning.
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut args = vec![path.display().to_string()];
        for (option, value) in [
            ("bootstrap.servers", site.server("kafka").endpoint()),
            ("group.id", format!("bench-{}-{run}", self.client)),
            ("client", self.client.to_owned()),
        ] {
            let set = format!("SweetProductionStream.source.{option}={value}");
            args.extend(["--set".to_owned(), set]);
        }
        Ok(Command { args, app })
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let source = &done.summary["apps"][0]["sources"][0];
        let of = |key: &str| source[key].as_u64().unwrap_or_default();
        verified.equal("events", events, of("events"));
        verified.equal("bytes", events * event(0).len() as u64, of("bytes"));
        verified.equal("rejected", 0, of("rejected"));
        // The app logs a fifth of each count, without its fraction.
        verified.note("logged_fifths", logged_total(&done.lines, ""));
        verified.note("server", site.server("kafka").version());
        Ok(verified)
    }
}

/// 60 bytes, whatever the number.
fn event(number: u64) -> String {
    format!("{{\"name\":\"chocolate-cake-{number:010}\",\"amount\":1234567890.250}}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_event_has_sixty_bytes() {
        for number in [0, 4_999_999] {
            assert_eq!(super::event(number).len(), 60);
        }
    }
}
