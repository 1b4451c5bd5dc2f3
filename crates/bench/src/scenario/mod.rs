//! The scenarios: what is generated, what runs, and how the result is verified.

mod cdc;
mod etl;
mod http;
mod http_request;
mod kafka;
mod kafka_http;
mod lines;
mod rdbms;
mod types;
mod xml;
mod xml_kafka;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value as Json};

use crate::receiver::Receiver;
use crate::site::{Lines, Site};

/// One workload.
pub trait Scenario: Sync {
    fn name(&self) -> &'static str;

    /// One sentence.
    fn about(&self) -> &'static str;

    /// Events of a run unless `--events` says otherwise.
    fn events(&self) -> u64;

    /// The figure that the systems we follow published: value, unit, source.
    fn published(&self) -> Option<(f64, &'static str, &'static str)>;

    /// Servers that run beside the app for as long as the scenario does.
    fn servers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Generates the input below the site's folder (kept from run to run).
    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()>;

    /// Lays the site out for one more run and says what to run.
    fn command(&self, site: &Site) -> anyhow::Result<Command>;

    /// Where the input does not lie in files but is sent to the running app.
    fn load(&self) -> Option<&dyn Load> {
        None
    }

    /// Checks what a run left behind.
    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified>;
}

/// Input that is sent to an app while it runs.
pub trait Load {
    /// Waits until the app listens, sends all events, and gives the seconds from the first to the last
    /// answer.
    fn send(&self, site: &Site, events: u64) -> anyhow::Result<f64>;
}

/// Arguments of `headwater`.
pub struct Command {
    pub args: Vec<String>,
    /// The app that runs, published or our own of the same shape.
    pub app: String,
}

/// A process that has ended.
pub struct Done {
    /// What it wrote to its standard output but for the JSON lines.
    pub lines: Vec<String>,
    /// The last JSON line.
    pub summary: Json,
}

impl Done {
    /// A figure of the source of a stream, in whichever app it is.
    pub fn source(&self, stream: &str, figure: &str) -> u64 {
        let apps = self.summary["apps"].as_array().into_iter().flatten();
        let sources = apps.flat_map(|app| app["sources"].as_array().into_iter().flatten());
        sources
            .filter(|source| source["stream"] == stream)
            .filter_map(|source| source[figure].as_u64())
            .sum()
    }
}

/// What was found, by name; a run with a `false` has no rate.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    pub facts: Map<String, Json>,
    pub is_right: bool,
}

impl Verified {
    pub fn new() -> Verified {
        Verified {
            facts: Map::new(),
            is_right: true,
        }
    }

    /// Notes what was expected and found; unequal makes the run wrong.
    pub fn equal(&mut self, name: &str, expected: u64, found: u64) {
        self.is_right &= expected == found;
        self.facts.insert(name.to_owned(), found.into());
        if expected != found {
            self.facts
                .insert(format!("{name}_expected"), expected.into());
        }
    }

    /// Compares every line of a client's result with what was expected, in order; only those that are
    /// the same are counted, and the first that is not is noted.
    pub fn same_lines(
        &mut self,
        name: &str,
        mut found: Lines,
        mut expected: impl Iterator<Item = String>,
    ) -> anyhow::Result<()> {
        let (mut wanted, mut same) = (0, 0);
        let mut first_other = None;
        loop {
            let found = found.next_line()?;
            let expected = expected.next();
            if found.is_none() && expected.is_none() {
                break;
            }
            wanted += u64::from(expected.is_some());
            let is_same = found == expected.as_deref();
            same += u64::from(is_same);
            if !is_same && first_other.is_none() {
                first_other = Some(format!("found {found:?}, expected {expected:?}"));
            }
        }
        self.equal(name, wanted, same);
        if let Some(other) = first_other {
            self.is_right = false;
            self.note(&format!("{name}_first_other"), other);
        }
        Ok(())
    }

    /// Each event in a request of its own: none missing, none twice, none wrong.
    pub fn received(&mut self, events: u64, receiver: Option<Receiver>) {
        let seen = receiver.map(|receiver| receiver.seen()).unwrap_or_default();
        self.equal("requests", events, seen.requests);
        self.equal("requests_of_different_events", events, seen.events());
        if let Some(why) = seen.wrong {
            self.is_right = false;
            self.note("first_wrong_request", why);
        }
    }

    pub fn note(&mut self, name: &str, value: impl Into<Json>) {
        self.facts.insert(name.to_owned(), value.into());
    }
}

/// Sorted by name.
pub const SCENARIOS: &[&dyn Scenario] = &[
    &cdc::Cdc,
    &etl::ETL,
    &etl::ETL_MARIADB,
    &etl::ETL_MEMORY,
    &etl::ETL_POSTGRES,
    &http::Http,
    &http_request::HTTP_REQUEST,
    &http_request::HTTP_REQUEST_PIPELINED,
    &kafka::KAFKA,
    &kafka_http::KAFKA_HTTP,
    &kafka::KAFKA_RDKAFKA,
    &lines::Lines,
    &rdbms::Rdbms,
    &types::Types,
    &xml::Xml,
    &xml_kafka::XML_KAFKA,
];

pub fn find(name: &str) -> Option<&'static dyn Scenario> {
    SCENARIOS.iter().copied().find(|s| s.name() == name)
}

/// The published app where the reference material lies beside the checkout, else our own of the
/// same shape, written to the site.
fn app(site: &Site, published: &str, own: &str) -> anyhow::Result<(PathBuf, String)> {
    let shared = std::env::var_os("HEADWATER_SHARED").map_or("../shared".into(), PathBuf::from);
    let path = shared.join("apps").join(published);
    if path.is_file() {
        return Ok((path, format!("{published}, as published")));
    }
    let path = site.path(published);
    std::fs::write(&path, own)?;
    Ok((path, format!("an app of the shape of {published}")))
}

/// The receiver of the run that is on.
fn current(receiver: &Mutex<Option<Receiver>>) -> MutexGuard<'_, Option<Receiver>> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sum of the numbers at the end of the lines with this prefix: what `count()` logged.
fn logged_total(lines: &[String], prefix: &str) -> u64 {
    lines
        .iter()
        .filter(|l| l.contains(prefix))
        .filter_map(|l| {
            // `… data=[12], …` of a log sink, `… outputData=[12], …` of `#log`.
            let at = l.find("ata=[")? + 5;
            l[at..].split([']', ',']).next()?.trim().parse::<u64>().ok()
        })
        .sum()
}
