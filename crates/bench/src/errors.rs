//! `headwater bench errors`: what a million rejected events cost, from the first to none.
//!
//! An app rejects every row of a file, because its prices are whole numbers and those of the file are
//! not. Then the app is corrected and a server started on the same state: the rejected events are
//! listed by cause and replayed, and what the app writes is compared with the file, by count and sum.
//! All of it by the commands that an operator types.

use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value as Json, json};

use crate::machine;
use crate::process::Process;
use crate::report::thousands;

/// One sentence for the list of scenarios.
pub const ABOUT: &str = "a million rejected events: kept, listed by cause, replayed, and gone";

/// Rejected events unless told otherwise.
pub const EVENTS: u64 = 1_000_000;

/// What has to hold: seconds of a list by cause, events that are replayed in a second.
const LIST_SECONDS_MAX: f64 = 1.0;
const REPLAY_RATE_MIN: f64 = 100_000.0;

/// How long the server may take to listen.
const START_MAX: Duration = Duration::from_secs(60);

const LISTS: usize = 5;

/// Exit code of a run that has rejected events.
const SOME_REJECTED: i32 = 4;

pub struct ErrorsOptions {
    /// The `headwater` binary that is measured.
    pub binary: PathBuf,
    pub events: u64,
    /// Runs, each on a new state.
    pub runs: usize,
    pub progress: fn(&str),
}

/// One run.
struct Measured {
    /// Seconds in which the events were rejected and kept.
    reject: f64,
    /// Median of several `errors list`.
    list: f64,
    /// From the start of `errors replay` to its end.
    replay: f64,
    /// CPU seconds of the server in that time.
    replay_cpu: f64,
    /// The state directory when all are rejected, and when all are replayed.
    disk: [u64; 2],
    /// The most that the server had resident.
    peak_rss: u64,
}

pub struct ErrorsReport {
    machine: Json,
    events: u64,
    runs: Vec<Measured>,
}

/// Rejects, lists and replays so many events, several times.
///
/// # Errors
/// A command fails, or what is replayed is not what was rejected.
pub fn run(options: &ErrorsOptions) -> anyhow::Result<ErrorsReport> {
    let machine = machine::describe();
    let mut runs = Vec::new();
    for index in 1..=options.runs {
        let dir = tempfile::tempdir()?;
        let measured = Trial::new(dir.path(), options)?.measure()?;
        (options.progress)(&format!(
            "run {index}: {}",
            measured.in_words(options.events)
        ));
        runs.push(measured);
    }
    Ok(ErrorsReport {
        machine,
        events: options.events,
        runs,
    })
}

/// An app, its input and its state in one folder.
struct Trial<'a> {
    dir: &'a Path,
    binary: &'a Path,
    events: u64,
}

impl<'a> Trial<'a> {
    fn new(dir: &'a Path, options: &'a ErrorsOptions) -> anyhow::Result<Trial<'a>> {
        let mut file = BufWriter::new(fs::File::create(dir.join("orders.csv"))?);
        for number in 0..options.events {
            writeln!(file, "item-{},{number}.5", number % 1000)?;
        }
        file.flush()?;
        Ok(Trial {
            dir,
            binary: &options.binary,
            events: options.events,
        })
    }

    fn measure(&self) -> anyhow::Result<Measured> {
        self.write_app("int")?;
        let begun = Instant::now();
        let rejects = self
            .command(&["run", "shop.siddhi", "--state", "state", "--until-done"])
            .output()?;
        let reject = begun.elapsed().as_secs_f64();
        if rejects.status.code() != Some(SOME_REJECTED) {
            bail!("the app did not reject its input: {}", said(&rejects));
        }
        let full = bytes_of(&self.dir.join("state"))?;
        self.write_app("double")?;
        let server = Server::start(self)?;
        let list = self.list(&server)?;
        let cpu = server.process.cpu_seconds()?;
        let begun = Instant::now();
        let replayed = self.ask(&server, &["errors", "replay", "--app", "Shop", "--json"])?;
        let replay = begun.elapsed().as_secs_f64();
        let replay_cpu = server.process.cpu_seconds()? - cpu;
        ensure!(
            replayed["replayed"] == self.events && replayed["failed_again"] == 0,
            "{replayed}"
        );
        let left = self.ask(&server, &["errors", "list", "--json"])?;
        ensure!(
            left["groups"].as_array().is_some_and(Vec::is_empty),
            "{left}"
        );
        let peak_rss = server.process.peak_rss()?;
        server.process.stop()?;
        self.verify()?;
        Ok(Measured {
            reject,
            list,
            replay,
            replay_cpu,
            disk: [full, bytes_of(&self.dir.join("state"))?],
            peak_rss,
        })
    }

    fn write_app(&self, price: &str) -> anyhow::Result<()> {
        let (input, output) = (self.dir.join("orders.csv"), self.dir.join("sold.csv"));
        let app = format!(
            "@app:name('Shop')\n\
             @source(type='file', mode='line', file.uri='file:{}', tailing='false', \
             action.after.process='keep', @map(type='csv'))\n\
             define stream Orders (item string, price {price});\n\
             @sink(type='file', file.uri='{}', @map(type='csv'))\n\
             define stream Sold (item string, price {price});\n\
             from Orders select item, price insert into Sold;\n",
            input.display(),
            output.display()
        );
        Ok(fs::write(self.dir.join("shop.siddhi"), app)?)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.binary);
        command
            .args(args)
            .current_dir(self.dir)
            .stdin(Stdio::null());
        command
    }

    /// What a command that asks the server prints.
    fn ask(&self, server: &Server, args: &[&str]) -> anyhow::Result<Json> {
        let output = self.command(args).args(["--url", &server.url()]).output()?;
        ensure!(
            output.status.success(),
            "'{}' failed: {}",
            args.join(" "),
            said(&output)
        );
        serde_json::from_slice(&output.stdout).context("the command prints JSON")
    }

    /// Median seconds of a list by cause.
    fn list(&self, server: &Server) -> anyhow::Result<f64> {
        let mut seconds = Vec::new();
        for _ in 0..LISTS {
            let begun = Instant::now();
            let listed = self.ask(server, &["errors", "list", "--json"])?;
            seconds.push(begun.elapsed().as_secs_f64());
            let groups = listed["groups"].as_array().context("groups are listed")?;
            let counted: u64 = groups
                .iter()
                .filter_map(|group| group["count"].as_u64())
                .sum();
            ensure!(counted == self.events, "{counted} events are listed");
        }
        Ok(median(seconds))
    }

    /// Every row is there once.
    fn verify(&self) -> anyhow::Result<()> {
        let (mut rows, mut sum) = (0, 0.0);
        for line in BufReader::new(fs::File::open(self.dir.join("sold.csv"))?).lines() {
            let line = line?;
            let (_, price) = line.rsplit_once(',').context("a row has a price")?;
            rows += 1;
            sum += price.parse::<f64>()?;
        }
        // Prices are 0.5, 1.5, …: their sum is a half of the square of their number.
        let expected = (self.events as f64).powi(2) / 2.0;
        ensure!(
            rows == self.events && sum == expected,
            "{rows} rows with sum {sum}"
        );
        Ok(())
    }
}

/// A server on the state of a [`Trial`].
struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn start(trial: &Trial<'_>) -> anyhow::Result<Server> {
        let port = testservers::free_port()?;
        let address = format!("127.0.0.1:{port}");
        let said = fs::File::create(trial.dir.join("said.txt"))?;
        let process = Process::start(
            trial
                .command(&["run", "shop.siddhi", "--state", "state", "--http", &address])
                .stdout(Stdio::null())
                .stderr(said),
        )?;
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(&address).is_err() {
            ensure!(
                Instant::now() < deadline,
                "the server does not listen at {address}"
            );
            std::thread::yield_now();
        }
        Ok(Server { process, port })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Bytes of all files below a folder.
fn bytes_of(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += match found.is_dir() {
            true => bytes_of(&entry.path())?,
            false => found.len(),
        };
    }
    Ok(bytes)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Measured {
    fn is_right(&self, events: u64) -> bool {
        self.list < LIST_SECONDS_MAX && events as f64 / self.replay >= REPLAY_RATE_MIN
    }

    fn in_words(&self, events: u64) -> String {
        let events = events as f64;
        format!(
            "rejected at {}/s, {:.0} bytes each on disk; listed in {:.3} s; replayed at {}/s, {:.1} us of CPU each; \
             {:.1} MB on disk afterwards, peak {:.0} MB",
            thousands(events / self.reject),
            self.disk[0] as f64 / events,
            self.list,
            thousands(events / self.replay),
            self.replay_cpu * 1e6 / events,
            self.disk[1] as f64 / 1e6,
            self.peak_rss as f64 / 1e6,
        )
    }

    fn to_json(&self) -> Json {
        json!({
            "reject_seconds": self.reject,
            "list_seconds": self.list,
            "replay_seconds": self.replay,
            "replay_cpu_seconds": self.replay_cpu,
            "disk_bytes_rejected": self.disk[0],
            "disk_bytes_replayed": self.disk[1],
            "peak_rss_bytes": self.peak_rss,
        })
    }
}

impl ErrorsReport {
    /// Every run keeps what is promised.
    pub fn is_right(&self) -> bool {
        self.runs.iter().all(|run| run.is_right(self.events))
    }

    pub fn to_json(&self, commit: &str) -> Json {
        json!({
            "version": 1,
            "scenario": "errors",
            "commit": commit,
            "machine": self.machine,
            "events": self.events,
            "is_right": self.is_right(),
            "runs": self.runs.iter().map(Measured::to_json).collect::<Vec<_>>(),
        })
    }

    pub fn in_words(&self) -> String {
        let verdict = match self.is_right() {
            true => "all runs keep",
            false => "NOT all runs keep",
        };
        let mut out = format!(
            "errors: {} rejected events; {verdict} a list by cause under {LIST_SECONDS_MAX} s and a replay of \
             {}/s\n\n{:>12}{:>10}{:>12}{:>14}{:>12}{:>10}\n",
            thousands(self.events as f64),
            thousands(REPLAY_RATE_MIN),
            "rejected/s",
            "list, s",
            "replayed/s",
            "CPU each, us",
            "bytes each",
            "peak, MB",
        );
        let events = self.events as f64;
        for run in &self.runs {
            out += &format!(
                "{:>12}{:>10.3}{:>12}{:>14.2}{:>12.0}{:>10.0}\n",
                thousands(events / run.reject),
                run.list,
                thousands(events / run.replay),
                run.replay_cpu * 1e6 / events,
                run.disk[0] as f64 / events,
                run.peak_rss as f64 / 1e6,
            );
        }
        out
    }
}
