//! Kafka against a real broker, with `kcat` and Kafka's own console tools as independent clients.
//!
//! Most tests share a broker; those that kill theirs get another, one after the other. Without Java or Maven's
//! jars the tests say so and are skipped.

mod avro;
mod centres;
mod client;
mod clients;
mod exactly_once;
mod examples;
mod failures;
mod moves;
mod reading;
mod refused;
mod replay;
mod security;
mod writing;

use std::fs;
use std::process::Command;

use crate::kit::{Silent, Subject};
use crate::network::{Running, piped, text};
use testservers::{Lent, Order, Running as Server};

// row: sink kafka | kafka
// n/a bad: a sink reads no payload

// row: source kafka | kafka
// n/a error: `on.error` belongs to sinks

pub const KIT: Subject = Subject {
    name: "kafka",
    server: Some("kafka"),
    source: "type='kafka', client='{client}', bootstrap.servers='127.0.0.1:{port}', topic.list='{topic}', partition.no.list='0', group.id='{topic}', threading.option='single.thread'",
    sink: "type='kafka', client='{client}', bootstrap.servers='127.0.0.1:{port}', topic='{topic}', partition.no='0'",
    impatient: ", optional.configuration='delivery.timeout.ms:2000,request.timeout.ms:1000'",
    silent: Some(Silent {
        source: "",
        is_asked: false,
    }),
    ..Subject::PLAIN
};

/// The client that sources read and sinks write by, where they do not say: `./test` has both of them.
pub fn client() -> &'static str {
    match std::env::var_os(client::OTHER) {
        None => "headwater",
        Some(_) => "rdkafka",
    }
}

/// The broker that tests share. Their topics are their own, and have three partitions.
fn broker() -> Option<&'static Server> {
    is_kcat_there().then(|| testservers::shared("kafka"))?
}

/// The broker that one test at a time has, which may kill it. Its topics are its own too.
fn lent() -> Option<Lent> {
    is_kcat_there().then(|| testservers::lent("kafka"))?
}

/// A broker that has just started.
fn start() -> Option<Server> {
    is_kcat_there().then(|| Order::new().start_or_skip("kafka"))?
}

fn is_kcat_there() -> bool {
    let is_there = testservers::answers("kcat", &["-V"]);
    if !is_there {
        eprintln!("skipped: there is no 'kcat'; apt-get install kcat brings it");
    }
    is_there
}

/// `kcat` with these arguments and this input; what it writes.
#[track_caller]
fn kcat(broker: &Server, args: &[&str], input: &str) -> String {
    let mut command = Command::new("kcat");
    let command = command.args(["-b", &broker.endpoint(), "-q"]).args(args);
    let output = piped(command, input.as_bytes());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    text(&output.stdout)
}

/// What makes kcat keep the order of lines: of several requests on their way to a topic that has just
/// come into being, the first may be refused and repeated behind the others.
const IN_ORDER: [&str; 4] = ["-X", "enable.idempotence=true", "-X", "max.in.flight=1"];

/// Writes lines as records of a partition.
#[track_caller]
fn produce(broker: &Server, topic: &str, partition: u32, lines: impl IntoIterator<Item = String>) {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    let partition = partition.to_string();
    let args = [&["-P", "-t", topic, "-p", &partition], &IN_ORDER[..]].concat();
    kcat(broker, &args, &text);
}

/// All records of a topic from the beginning, each as `format`.
#[track_caller]
fn consume(broker: &Server, topic: &str, format: &str) -> Vec<String> {
    let text = kcat(
        broker,
        &["-C", "-t", topic, "-o", "beginning", "-e", "-f", format],
        "",
    );
    text.lines().map(str::to_owned).collect()
}

/// The lines of all records of a topic; none while nobody has written to it.
#[track_caller]
fn received(broker: &Server, topic: &str) -> Vec<String> {
    if !kcat(broker, &["-L"], "").contains(&format!("topic \"{topic}\"")) {
        return Vec::new();
    }
    let mut lines = consume(broker, topic, "%s\n");
    lines.retain(|line| !line.is_empty());
    lines
}

/// Records and marks of a topic's first partition, committed or not; 0 while nobody knows.
fn end_of(broker: &Server, topic: &str) -> u64 {
    end(broker, topic, "read_uncommitted").unwrap_or(0)
}

/// Is a transaction open in a topic's first partition: has it more than readers of committed records
/// come to? `None` while the broker does not say, which is neither.
fn has_open_transaction(broker: &Server, topic: &str) -> Option<bool> {
    let end_of_all = end(broker, topic, "read_uncommitted")?;
    Some(end_of_all > end(broker, topic, "read_committed")?)
}

fn end(broker: &Server, topic: &str, isolation: &str) -> Option<u64> {
    let output = Command::new("kcat")
        .args(["-q", "-b", &broker.endpoint()])
        .args(["-X", &format!("isolation.level={isolation}"), "-Q", "-t"])
        .arg(format!("{topic}:0:-1"))
        .output()
        .expect("kcat starts");
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().rsplit(' ').next()?.parse().ok()
}

fn events(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|i| format!("{{\"event\":{{\"n\":{i}}}}}"))
}

/// An app in a folder of its own; `{broker}` and `{dir}` in its text are filled in.
struct Case {
    dir: tempfile::TempDir,
    app: String,
}

impl Case {
    fn new(broker: &Server, text: &str) -> Case {
        let dir = tempfile::tempdir().expect("a folder");
        let source = format!("@source(type='kafka', client='{}',", client());
        let text = text.replace("@source(type='kafka',", &source);
        // Transactions are those of one client, which an app does not have to say.
        let text = match client() {
            "headwater" => text,
            other => text.replace(
                "@sink(type='kafka',",
                &format!("@sink(type='kafka', client='{other}',"),
            ),
        };
        let text = text
            .replace("{broker}", &broker.endpoint())
            .replace("{dir}", &dir.path().display().to_string());
        let path = dir.path().join("App.siddhi");
        fs::write(&path, text).expect("the folder can be written");
        Case {
            app: path.display().to_string(),
            dir,
        }
    }

    /// Runs to the end of the input.
    #[track_caller]
    fn run(&self) -> serde_json::Value {
        let (code, summary) = Running::start(&[&self.app, "--until-done"]).end();
        assert_eq!(code, Some(0), "{summary}");
        summary
    }

    fn start(&self) -> Running {
        Running::start(&[&self.app])
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn numbers(&self, name: &str) -> Vec<u32> {
        let first = |line: &String| line.split(',').next().and_then(|n| n.parse().ok());
        self.lines(name)
            .iter()
            .map(|line| first(line).expect("a number"))
            .collect()
    }
}

/// Reads numbers of a topic into `out.csv`; `{options}` are those of the source.
fn reader(broker: &Server, topic: &str, options: &str) -> Case {
    let text = "@app:name('Reader')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{topic}', {options}, @map(type='json', @attributes(n='$.event.n', t='trp:topic', p='trp:partition', o='trp:offset')))
define stream S (n int, t string, p int, o long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n int, t string, p int, o long);
from S select * insert into Out;
";

    let text = text.replace("{topic}", topic).replace("{options}", options);
    Case::new(broker, &text)
}

const SINGLE: &str = "threading.option='single.thread'";

const CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";

/// Java's client writes lines to a topic.
#[track_caller]
fn java_produce(broker: &Server, topic: &str, more: &[&str], lines: &str) {
    // By itself it waits for an answer four times 1.5 s, then drops the record, says so nowhere and ends well.
    let args = ["--request-timeout-ms=60000", "--topic", topic];
    let class = "kafka.tools.ConsoleProducer";
    tool(broker, class, &[&args[..], more].concat(), lines);
}

/// A tool of Kafka's own, which is Java's client: what it writes.
#[track_caller]
fn tool(broker: &Server, class: &str, args: &[&str], input: &str) -> String {
    let mut command = Command::new("java");
    let libraries = broker.place().installed().join("lib/*");
    command.arg("-Xmx128m").arg("-cp").arg(libraries).arg(class);
    command
        .args(["--bootstrap-server", &broker.endpoint()])
        .args(args);
    let output = piped(&mut command, input.as_bytes());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{class} {args:?}: {said}");
    text(&output.stdout)
}
