//! Batch scripts over the event store, run at their times and on demand.
//!
//! What runs a script is handed in by the binary: the server knows no SQL. Each run has a thread of its own, and a
//! script has one run at a time: what comes due meanwhile is left out, said and counted. Whoever stops the server
//! stops the runs in the middle of a statement, which then has changed nothing.
//!
//! Never here: HTTP (see [`crate::http`]).

mod streams;
mod timer;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use lang::cron::Cron;
use serde_json::{Value as Json, json};
use tokio::sync::{oneshot, watch};

use crate::ask::Asker;
use crate::clock;
use crate::families::{Families, Labels};
pub use streams::{OpenStreams, Streams};

/// Bytes of what the statements of a run came to that are kept.
const OUTCOMES_MAX: usize = 1 << 20;

/// Set when a run is to end.
pub type Stop = watch::Receiver<bool>;

/// A script that can be run.
pub trait BatchScript: Send + Sync {
    /// Runs it to its end. Must end soon after `stop` is set, and is then as good as one that fails.
    ///
    /// # Errors
    /// A statement fails: what is wrong, as `POST /sql` says it.
    fn run(
        &self,
        streams: &Streams,
        stop: &Stop,
        each: &mut dyn FnMut(ScriptOutcome),
    ) -> Result<(), Json>;
}

/// What a statement came to.
pub struct ScriptOutcome {
    /// Rows that were written to a table or sent to a stream.
    pub rows: u64,
    /// As it is shown.
    pub json: Json,
}

/// A script and its times.
#[derive(Clone)]
pub struct ScriptDefinition {
    pub name: String,
    /// As it is written, and what it means. `None`: on demand.
    pub cron: Option<(String, Cron)>,
    pub script: Arc<dyn BatchScript>,
}

/// The scripts of a server. The last clone that is dropped does not end them: that is [`RunningScripts`].
#[derive(Clone)]
pub struct Scripts(Arc<Inner>);

struct Inner {
    streams: Streams,
    zone: TimeZone,
    stop: watch::Sender<bool>,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// The times of the scripts have changed, or the server stops.
    changed: Condvar,
}

/// A script, and what has become of it.
struct Entry {
    definition: ScriptDefinition,
    /// Milliseconds since 1970.
    next: Option<i64>,
    running: Option<Running>,
    /// Its last run as it is shown.
    last: Option<Json>,
    last_seconds: f64,
    succeeded: u64,
    failed: u64,
    late: u64,
    /// It is known no more when its run has ended.
    is_gone: bool,
}

struct Running {
    started: i64,
    /// Who wait for its end.
    waiting: Vec<oneshot::Sender<Json>>,
}

/// Why a script is not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Unknown,
    /// It runs.
    Busy,
    /// The server is being stopped, or has no thread left.
    Stopping,
}

/// Ends the scripts when it is dropped.
pub struct RunningScripts {
    scripts: Scripts,
    timer: Option<JoinHandle<()>>,
}

impl Scripts {
    /// None. `zone` is that in which their times are.
    pub fn new(asker: Asker, zone: &str) -> Scripts {
        Scripts(Arc::new(Inner {
            streams: Streams::new(asker),
            zone: match zone {
                "" => TimeZone::UTC,
                // An unknown zone is refused before a server starts.
                zone => TimeZone::get(zone).unwrap_or(TimeZone::UTC),
            },
            stop: watch::Sender::new(false),
            entries: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// From here on they run at their times, until what is returned is dropped.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(&self) -> std::io::Result<RunningScripts> {
        Ok(RunningScripts {
            scripts: self.clone(),
            timer: Some(timer::start(self.clone())?),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        let entries = self.0.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the scripts from here on. One that was there before keeps what it has counted; one that runs
    /// runs to its end.
    pub fn set(&self, definitions: Vec<ScriptDefinition>) {
        let mut entries = self.lock();
        for entry in entries.values_mut() {
            entry.is_gone = true;
        }
        for definition in definitions {
            let next = self.next(&definition, clock::wall_millis());
            match entries.get_mut(&definition.name) {
                Some(entry) => {
                    entry.definition = definition;
                    entry.next = next;
                    entry.is_gone = false;
                }
                None => {
                    let entry = Entry {
                        next,
                        running: None,
                        last: None,
                        last_seconds: 0.0,
                        succeeded: 0,
                        failed: 0,
                        late: 0,
                        is_gone: false,
                        definition,
                    };
                    entries.insert(entry.definition.name.clone(), entry);
                }
            }
        }
        entries.retain(|_, entry| !entry.is_gone || entry.running.is_some());
        drop(entries);
        self.0.changed.notify_all();
    }

    fn next(&self, definition: &ScriptDefinition, after: i64) -> Option<i64> {
        let (_, cron) = definition.cron.as_ref()?;
        cron.next(after, &self.0.zone)
    }

    /// All of them, without what their statements came to.
    pub(crate) fn list(&self) -> Json {
        let entries = self.lock();
        let known = entries.values().filter(|entry| !entry.is_gone);
        known.map(|entry| entry.show(false)).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.lock();
        let known = entries.iter().filter(|(_, entry)| !entry.is_gone);
        known.map(|(name, _)| name.clone()).collect()
    }

    /// One, with all of its last run.
    pub(crate) fn show(&self, name: &str) -> Option<Json> {
        let entries = self.lock();
        let entry = entries.get(name).filter(|entry| !entry.is_gone)?;
        Some(entry.show(true))
    }

    /// Runs a script now; at its end comes what [`Scripts::show`] gives of its last run.
    pub(crate) fn run(&self, name: &str) -> Result<oneshot::Receiver<Json>, Refused> {
        let (end, ended) = oneshot::channel();
        self.begin(name, Some(end))?;
        Ok(ended)
    }

    /// Begins a run on a thread of its own.
    fn begin(&self, name: &str, end: Option<oneshot::Sender<Json>>) -> Result<(), Refused> {
        let mut entries = self.lock();
        if *self.0.stop.borrow() {
            return Err(Refused::Stopping);
        }
        let entry = entries.get_mut(name).filter(|entry| !entry.is_gone);
        let entry = entry.ok_or(Refused::Unknown)?;
        if entry.running.is_some() {
            return Err(Refused::Busy);
        }
        let (scripts, definition) = (self.clone(), entry.definition.clone());
        let started = clock::wall_millis();
        let thread = std::thread::Builder::new().name("script".to_owned());
        let spawned = thread.spawn(move || {
            let (json, took) = run_once(&definition, &scripts, started);
            scripts.ended(&definition.name, json, took);
        });
        match spawned {
            Ok(_) => {
                entry.running = Some(Running {
                    started,
                    waiting: end.into_iter().collect(),
                });
                Ok(())
            }
            Err(cause) => {
                tracing::error!(script = name, %cause, "cannot start a thread for a script");
                Err(Refused::Stopping)
            }
        }
    }

    fn ended(&self, name: &str, json: Json, took: Duration) {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(name) {
            match json.get("error") {
                None => entry.succeeded += 1,
                Some(_) => entry.failed += 1,
            }
            entry.last_seconds = took.as_secs_f64();
            for waiting in entry.running.take().into_iter().flat_map(|run| run.waiting) {
                // Who does not wait any more finds it as the last run.
                waiting.send(json.clone()).ok();
            }
            entry.last = Some(json);
            if entry.is_gone {
                entries.remove(name);
            }
        }
        drop(entries);
        self.0.changed.notify_all();
    }

    /// Adds what was counted to a reading of all metrics.
    pub(crate) fn read(&self, page: &mut Families) {
        let entries = self.lock();
        let labels = |entry: &Entry| vec![("script", entry.definition.name.clone())];
        page.begin(
            "headwater_script_runs_total",
            "Runs of a batch script that have ended",
        );
        for entry in entries.values() {
            for (result, count) in [("succeeded", entry.succeeded), ("failed", entry.failed)] {
                let mut labels: Labels = labels(entry);
                labels.push(("result", result.to_owned()));
                page.put(labels, count as f64);
            }
        }
        page.begin(
            "headwater_script_late_total",
            "Runs of a batch script that were left out because the one before had not ended",
        );
        for entry in entries.values() {
            page.put(labels(entry), entry.late as f64);
        }
        page.begin(
            "headwater_script_last_run_seconds",
            "Time that the last run of a batch script took",
        );
        for entry in entries.values().filter(|entry| entry.last.is_some()) {
            page.put(labels(entry), entry.last_seconds);
        }
    }
}

impl std::fmt::Debug for Scripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl Drop for RunningScripts {
    fn drop(&mut self) {
        let entries = self.scripts.lock();
        self.scripts.0.stop.send_replace(true);
        drop(entries);
        self.scripts.0.changed.notify_all();
        if let Some(timer) = self.timer.take()
            && timer.join().is_err()
        {
            tracing::error!("the timer of scripts has failed");
        }
    }
}

impl Entry {
    fn show(&self, is_whole: bool) -> Json {
        let mut last = self.last.clone();
        if let Some(Json::Object(last)) = last.as_mut().filter(|_| !is_whole) {
            last.remove("outcomes");
        }
        json!({
            "name": self.definition.name,
            "cron": self.definition.cron.as_ref().map(|(text, _)| text),
            "next": self.next.map(clock::utc_text),
            "running": self.running.as_ref().map(|run| clock::utc_text(run.started)),
            "succeeded": self.succeeded,
            "failed": self.failed,
            "late": self.late,
            "last": last,
        })
    }
}

/// Runs it; what is shown of the run, and the time that it took.
fn run_once(definition: &ScriptDefinition, scripts: &Scripts, started: i64) -> (Json, Duration) {
    let begun = Instant::now();
    let (mut outcomes, mut bytes, mut rows) = (Vec::new(), 0, 0);
    let mut is_cut = false;
    let stop = scripts.0.stop.subscribe();
    let ran = definition
        .script
        .run(&scripts.0.streams, &stop, &mut |outcome| {
            rows += outcome.rows;
            bytes += outcome.json.to_string().len();
            match bytes <= OUTCOMES_MAX {
                true => outcomes.push(outcome.json),
                false => is_cut = true,
            }
        });
    let took = begun.elapsed();
    let mut json = json!({
        "started": clock::utc_text(started),
        "millis": took.as_millis() as u64,
        "rows": rows,
        "outcomes": outcomes,
    });
    if is_cut {
        json["cut"] = true.into();
    }
    let (script, millis) = (&definition.name, took.as_millis() as u64);
    match ran {
        Ok(()) => tracing::info!(script, rows, millis, "script has run"),
        Err(error) => {
            match *stop.borrow() {
                true => tracing::warn!(script, "script was stopped with the server"),
                false => tracing::error!(
                    script,
                    cause = error["message"].as_str().unwrap_or_default(),
                    "script has failed; what its statements before did stays"
                ),
            }
            json["error"] = error;
        }
    }
    (json, took)
}
