//! Runs a scenario: once to warm up, then as often as asked, each run a process of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::Value as Json;

use crate::profile::{Profile, Watch};
use crate::report::{Report, Run};
use crate::scenario::{Done, Scenario};
use crate::site::Site;

#[derive(Clone, Debug)]
pub struct Options {
    /// The `headwater` binary that is measured.
    pub binary: PathBuf,
    pub runs: usize,
    pub events: Option<u64>,
    /// Says where each run spends its CPU, by `perf`.
    pub is_profiled: bool,
    /// Where input and results lie; a temporary folder, removed at the end, where none is named.
    pub dir: Option<PathBuf>,
    /// Said after each run, for a person who waits.
    pub progress: fn(&str),
}

/// Generates, warms up, measures and verifies.
pub fn run(scenario: &dyn Scenario, options: &Options) -> anyhow::Result<Report> {
    let temporary;
    let dir = match &options.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            dir.canonicalize()?
        }
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path().to_owned()
        }
    };
    let site = Site::open(dir, options.binary.clone(), scenario.servers())?;
    let events = options.events.unwrap_or_else(|| scenario.events());
    (options.progress)(&format!("generating {events} events"));
    scenario.prepare(&site, events)?;
    let mut report = Report::new(scenario, events);
    for index in 0..=options.runs {
        let command = scenario.command(&site)?;
        let mut watching = Watching::new(options.is_profiled && index > 0);
        let (done, seconds) = match scenario.load() {
            None => execute(&site, &command.args, &mut watching)?,
            Some(load) => serve(&site, &command.args, &mut watching, || {
                load.send(&site, events)
            })?,
        };
        let verified = scenario.verify(&site, events, &done)?;
        report.app = command.app;
        let run = Run::new(events, seconds, &done.summary, verified);
        let name = if index == 0 {
            "warm-up".to_owned()
        } else {
            format!("run {index}")
        };
        (options.progress)(&format!("{name}: {}", run.in_words()));
        if let Watching::Done(profile) = watching {
            report.profile = Some(profile.in_words(events));
        }
        if index > 0 || !run.verified.is_right {
            report.runs.push(run);
        }
    }
    Ok(report)
}

/// Whether a run is watched, and what was seen.
enum Watching {
    No,
    Wanted,
    Done(Box<Profile>),
}

impl Watching {
    fn new(is_wanted: bool) -> Watching {
        match is_wanted {
            true => Watching::Wanted,
            false => Watching::No,
        }
    }

    fn begin(&self, site: &Site, child: &Child) -> anyhow::Result<Option<Watch>> {
        match self {
            Watching::Wanted => Watch::begin(child.id(), &site.path("")).map(Some),
            _ => Ok(None),
        }
    }

    fn end(&mut self, watch: Option<Watch>) -> anyhow::Result<()> {
        if let Some(watch) = watch {
            *self = Watching::Done(Box::new(watch.end()?));
        }
        Ok(())
    }
}

/// Runs the binary until its app is done and takes its output apart.
fn execute(site: &Site, args: &[String], watching: &mut Watching) -> anyhow::Result<(Done, f64)> {
    let started = Instant::now();
    let child = spawn(site, args, &["--until-done", "--json"])?;
    let watch = watching.begin(site, &child)?;
    let done = collect(site, child)?;
    let seconds = started.elapsed().as_secs_f64();
    watching.end(watch)?;
    Ok((done, seconds))
}

/// Runs the binary while `load` sends, then stops it. The time is that of the load.
fn serve(
    site: &Site,
    args: &[String],
    watching: &mut Watching,
    load: impl FnOnce() -> anyhow::Result<f64>,
) -> anyhow::Result<(Done, f64)> {
    let mut child = spawn(site, args, &["--json"])?;
    let watch = watching.begin(site, &child);
    let sent = load();
    let watched = watch.and_then(|watch| watching.end(watch));
    let stopped = Command::new("kill").arg(child.id().to_string()).status();
    if !stopped.is_ok_and(|status| status.success()) {
        child.kill()?;
    }
    let mut done = collect(site, child)?;
    watched?;
    // What windows held when it was stopped is not part of the time.
    done.summary["waited_seconds"] = 0.0.into();
    Ok((done, sent?))
}

/// What the run says to people is kept for when it fails.
const SAID: &str = "said.txt";

/// Lines of it that a failure shows.
const SAID_LINES: usize = 20;

fn spawn(site: &Site, args: &[String], more: &[&str]) -> anyhow::Result<Child> {
    Command::new(&site.binary)
        .arg("run")
        .args(args)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(site.path(SAID))?)
        .spawn()
        .with_context(|| format!("cannot start '{}'", site.binary.display()))
}

fn collect(site: &Site, mut child: Child) -> anyhow::Result<Done> {
    let stdout = child
        .stdout
        .take()
        .context("the child has no standard output")?;
    let mut lines = Vec::new();
    let mut summary = Json::Null;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        match serde_json::from_str::<Json>(&line) {
            Ok(json) if json["type"] == "summary" => summary = json,
            Ok(json) if json.get("text").is_some() => {
                lines.extend(json["text"].as_str().map(str::to_owned));
            }
            _ => lines.push(line),
        }
    }
    let status = child.wait()?;
    if summary.is_null() {
        let said = std::fs::read_to_string(site.path(SAID))?;
        let said: Vec<&str> = said.lines().collect();
        bail!(
            "the run ended with {status} and without a summary: {}",
            said[said.len().saturating_sub(SAID_LINES)..].join("\n")
        );
    }
    Ok(Done { lines, summary })
}
