//! `bench xml-kafka`: OSM-shaped nodes through the published NodesConvertor-kafka into a topic.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Command, Done, Scenario, Verified, app, logged_total};
use crate::data::{self, Node};
use crate::site::Site;

pub(super) static XML_KAFKA: XmlKafka = XmlKafka {
    written: AtomicU64::new(0),
};

pub(super) struct XmlKafka {
    /// Records that runs before this one have left in the topic.
    written: AtomicU64,
}

const TOPIC: &str = "kafka_result_topic";

const APP: &str = r#"@App:name("NodesConvertor")
@source(type = 'file', file.uri = "file:input.xml", mode = "line", tailing = "false", action.after.process = 'keep',
    @map(type = 'xml', enclosing.element = "/osm/node", enable.streaming.xml.content = "true", fail.on.missing.attribute = "false",
        @attributes(id = "/node/@id", lat = "/node/@lat", lon = "/node/@lon", version = "/node/@version", timestamp = "/node/@timestamp", changeset = "/node/@changeset")))
define stream FooStream (id string, lat string, lon string, version string, timestamp string, changeset string);

@sink(type='kafka', topic='kafka_result_topic', bootstrap.servers='localhost:9092', partition.no='0', @map(type='xml'))
define stream kafkaStream (id string, lat string, lon string, version string, timestamp string, changeset string);

from FooStream#window.timeBatch(1 sec) select count() as throughput insert into OutputStream;

from OutputStream#log('TPS: ') insert into TempStream;

from FooStream select * insert into kafkaStream;
"#;

impl Scenario for XmlKafka {
    fn name(&self) -> &'static str {
        "xml-kafka"
    }

    fn about(&self) -> &'static str {
        "NodesConvertor-kafka: nodes of 350 bytes from a file, as XML into a topic, each compared"
    }

    fn events(&self) -> u64 {
        1_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            38_000.0,
            "events/s",
            "WSO2 Streaming Integrator 4.0 performance report, 4 cores",
        ))
    }

    fn servers(&self) -> &'static [&'static str] {
        &["kafka"]
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        data::osm_nodes(&site.path("input.xml"), events)?;
        Ok(())
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let (path, app) = app(site, "NodesConvertor-kafka.siddhi", APP)?;
        let mut args = vec![path.display().to_string()];
        for (option, value) in [
            ("FooStream.source.file.uri", site.uri("input.xml")),
            (
                "kafkaStream.sink.bootstrap.servers",
                site.server("kafka").endpoint(),
            ),
        ] {
            args.extend(["--set".to_owned(), format!("{option}={value}")]);
        }
        Ok(Command { args, app })
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        verified.equal("nodes_counted", events, logged_total(&done.lines, "TPS: "));
        let records = site
            .topic(TOPIC)
            .records(self.written.fetch_add(events, Ordering::Relaxed))?;
        verified.same_lines("records_same", records, data::nodes(events).map(record))?;
        verified.note("server", site.server("kafka").version());
        Ok(verified)
    }
}

/// What the app writes for a node.
fn record(node: Node) -> String {
    let Node {
        id,
        lat,
        lon,
        version,
        timestamp,
        changeset,
        ..
    } = node;
    format!(
        "<events><event><id>{id}</id><lat>{lat}</lat><lon>{lon}</lon><version>{version}</version>\
         <timestamp>{timestamp}</timestamp><changeset>{changeset}</changeset></event></events>"
    )
}
