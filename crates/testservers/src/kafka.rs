//! Apache Kafka as one process that is broker and controller, from the jars on Maven Central.
//!
//! Settings of an order are lines of `server.properties`; `heap` is the size of the JVM's.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Error, Place, Recipe, answers, run};

pub(crate) const KAFKA: Kafka = Kafka;

pub(crate) struct Kafka;

const VERSION: &str = "3.9.1";

/// Made once by `StorageTool random-uuid`; every cluster of one node may have it.
const CLUSTER: &str = "hWa7er0000000000000001";

const HEAP: &str = "512m";

/// A broker for tests: one node, small parts, no waiting for members of a group that may come.
const PROPERTIES: &str = "process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
num.network.threads=2
num.io.threads=2
log.segment.bytes=268435456
";

impl Recipe for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn about(&self) -> &'static str {
        "Apache Kafka 3.9.1, one node in KRaft mode, from Maven Central"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["default-jre-headless", "maven", "kcat"]
    }

    fn edition(&self) -> &'static str {
        "3.9.1-a"
    }

    fn install(&self, into: &Path) -> Result<(), Error> {
        needs_java()?;
        if !answers("mvn", &["--version"]) {
            return Err(Error::missing(
                "there is no 'mvn'",
                "apt-get install maven brings it",
            ));
        }
        let said = |e| Error::failed("the installation cannot be written", e);
        fs::write(into.join("pom.xml"), pom()).map_err(said)?;
        fs::write(into.join("log4j.properties"), LOG4J).map_err(said)?;
        run(Command::new("mvn")
            .args([
                "-q",
                "-B",
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
            ])
            .arg(format!("-DoutputDirectory={}", into.join("lib").display()))
            .current_dir(into))
        .map_err(|error| {
            let what = format!("Kafka cannot be fetched from Maven Central: {error}");
            Error::missing(what, "connect this machine to it")
        })?;
        Ok(())
    }

    fn version(&self, installed: &Path) -> Result<String, Error> {
        needs_java()?;
        let jar = format!("lib/kafka_2.13-{VERSION}.jar");
        match installed.join(&jar).is_file() {
            true => Ok(format!("Apache Kafka {VERSION}")),
            false => Err(Error::failed("the installation of Kafka is not whole", jar)),
        }
    }

    /// Topics that come into being by being written to have several partitions.
    fn for_tests(&self) -> &'static [(&'static str, &'static str)] {
        &[("num.partitions", "3")]
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let properties = place.write("server.properties", &properties(place))?;
        if !place.data().join("meta.properties").is_file() {
            run(java(place, "128m")
                .arg("kafka.tools.StorageTool")
                .args(["format", "--cluster-id", CLUSTER, "--config"])
                .arg(&properties))?;
        }
        let heap = place.setting("heap").unwrap_or(HEAP);
        let mut command = java(place, heap);
        command.arg("kafka.Kafka").arg(properties);
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        ask_for_brokers(place.port()).map_err(|error| error.to_string())
    }
}

fn needs_java() -> Result<(), Error> {
    if answers("java", &["-version"]) {
        return Ok(());
    }
    Err(Error::missing(
        "there is no 'java'",
        "apt-get install default-jre-headless brings it",
    ))
}

/// A JVM with Kafka's jars: for the broker, and for the tools that come with it.
pub(crate) fn java(place: &Place, heap: &str) -> Command {
    let installed = place.installed();
    let mut command = Command::new("java");
    command
        .arg(format!("-Xmx{heap}"))
        // Compiled by the first compiler only: a test's broker lives for seconds.
        .args([
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
        ])
        .arg(format!(
            "-Dlog4j.configuration=file:{}",
            installed.join("log4j.properties").display()
        ))
        .arg("-cp")
        .arg(class_path(installed));
    command
}

fn class_path(installed: &Path) -> PathBuf {
    installed.join("lib").join("*")
}

fn properties(place: &Place) -> String {
    let (port, inner) = (place.port(), place.inner_port());
    let mut text = PROPERTIES.to_owned();
    // Writing to a string cannot fail.
    write!(
        text,
        "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{inner}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n\
         controller.quorum.voters=1@127.0.0.1:{inner}\n\
         log.dirs={}\n",
        place.data().display()
    )
    .ok();
    for (key, value) in place.settings().iter().filter(|(key, _)| key != "heap") {
        let value = value.replace("{port}", &port.to_string());
        let value = value.replace("{inner}", &inner.to_string());
        writeln!(text, "{key}={value}").ok();
    }
    text
}

/// A metadata request for no topic, version 1: it is answered with the brokers, of which there is one
/// as soon as this one has registered itself.
fn ask_for_brokers(port: u16) -> std::io::Result<()> {
    const REQUEST: &[u8] = &[
        0, 0, 0, 15, // length
        0, 3, 0, 1, // metadata, version 1
        0, 0, 0, 1, // correlation
        0, 1, b'r', // client
        0, 0, 0, 0, // no topics
    ];
    /// Where the count of brokers lies in the answer: behind its length and correlation.
    const BROKERS: usize = 8;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(REQUEST)?;
    let mut answer = [0; BROKERS + 4];
    stream.read_exact(&mut answer)?;
    match answer[BROKERS + 3] {
        0 => Err(std::io::Error::other("the broker is not registered yet")),
        _ => Ok(()),
    }
}

fn pom() -> String {
    let dependency = |artifact: &str| {
        format!(
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>\
             <version>{VERSION}</version></dependency>"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>headwater</groupId><artifactId>test-server-kafka</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{}{}</dependencies></project>",
        dependency("kafka_2.13"),
        dependency("kafka-tools"),
    )
}

/// What the broker says goes to its standard output, which is the log.
const LOG4J: &str = "log4j.rootLogger=WARN, out
log4j.logger.kafka.server=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
";

#[cfg(test)]
mod tests {
    use crate::Order;

    #[test]
    fn a_broker_starts_is_killed_and_starts_again() {
        let Some(mut kafka) = Order::new().start_or_skip("kafka") else {
            return;
        };
        let (port, first) = (kafka.port(), kafka.pid());
        kafka.kill();
        assert_eq!(kafka.pid(), None);
        kafka.restart().expect("it starts with what it has");
        assert_eq!(kafka.port(), port);
        assert_ne!(kafka.pid(), first);
        let folder = kafka.place().folder().to_owned();
        kafka.stop();
        drop(kafka);
        assert!(!folder.exists(), "nothing is left");
    }
}
