//! Feeds of the event simulator: events that a running server sends to its own apps, by chance, from
//! CSV files or from tables of databases, one after the other by their timestamps.
//!
//! They are kept in memory: a server that is started again has none. At most [`FEEDS_MAX`] are known at
//! once. A feed ends with the server, in the middle of nothing: each event is sent whole.

mod config;
mod generator;
mod schema;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use check::Catalog;
use connect::registry::Registry;
use event::Schema;
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::ask::{Asker, Refusal};
use crate::clock;
use crate::inject::Target;
use config::Config;
use generator::{Generator, Inputs};
pub(crate) use schema::schema;

/// Feeds that are known at once.
const FEEDS_MAX: usize = 100;

/// Time for an app to take one event.
const SEND_MAX: Duration = Duration::from_secs(30);

/// The feeds of a server.
#[derive(Clone)]
pub struct Feeds(Arc<Inner>);

struct Inner {
    /// Where CSV files are.
    files: Option<PathBuf>,
    registry: Registry,
    feeds: Mutex<BTreeMap<String, Feed>>,
}

struct Feed {
    /// As it was sent, without the secrets in it.
    json: Json,
    config: Arc<Config>,
    /// Of the last run.
    state: Option<Arc<watch::Sender<State>>>,
}

/// What a feed does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Run,
    Pause,
    Stop,
}

/// Why a feed is not as it was wished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// There is none of that name.
    Unknown,
    /// There is one of that name.
    Known,
    /// It does something that this does not go with.
    Is(State),
    /// The configuration, or what it needs.
    Wrong(String),
    TooMany,
}

impl Feed {
    fn state(&self) -> State {
        self.state
            .as_ref()
            .map_or(State::Stop, |state| *state.borrow())
    }

    fn set(&self, to: State) {
        if let Some(state) = &self.state {
            state.send_replace(to);
        }
    }
}

impl Feeds {
    /// `files`: the folder of CSV files; without it, none can be read.
    pub fn new(files: Option<PathBuf>, registry: Registry) -> Feeds {
        Feeds(Arc::new(Inner {
            files,
            registry,
            feeds: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Feed>> {
        self.0.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a feed under its name, which is returned with it. `replaced` is one that it takes the
    /// place of.
    pub(crate) fn put(
        &self,
        mut json: Json,
        replaced: Option<&str>,
        catalog: &Catalog,
    ) -> Result<String, Fault> {
        let config = Config::parse(&json).map_err(Fault::Wrong)?;
        hide_secrets(&mut json, catalog);
        let mut feeds = self.lock();
        if replaced.is_some_and(|name| !feeds.contains_key(name)) {
            return Err(Fault::Unknown);
        }
        let name = config.name.clone();
        if replaced != Some(&name) && feeds.contains_key(&name) {
            return Err(Fault::Known);
        }
        if let Some(before) = replaced.and_then(|name| feeds.remove(name)) {
            before.set(State::Stop);
        }
        if feeds.len() >= FEEDS_MAX {
            return Err(Fault::TooMany);
        }
        let feed = Feed {
            json,
            config: Arc::new(config),
            state: None,
        };
        feeds.insert(name.clone(), feed);
        Ok(name)
    }

    pub(crate) fn delete(&self, name: &str) -> Result<(), Fault> {
        let feed = self.lock().remove(name).ok_or(Fault::Unknown)?;
        feed.set(State::Stop);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Result<Json, Fault> {
        let feeds = self.lock();
        feeds
            .get(name)
            .map(|feed| feed.json.clone())
            .ok_or(Fault::Unknown)
    }

    pub(crate) fn state(&self, name: &str) -> Result<State, Fault> {
        let feeds = self.lock();
        feeds.get(name).map(Feed::state).ok_or(Fault::Unknown)
    }

    /// All of them: those whose apps run, and the others with the reason.
    pub(crate) fn list(&self, asker: &Asker) -> Json {
        let (mut active, mut inactive) = (Vec::new(), Vec::new());
        for feed in self.lock().values() {
            let mut json = feed.json.clone();
            match feed.config.targets(asker) {
                Ok(_) => active.push(json),
                Err(reason) => {
                    json["exceptionReason"] = json!(reason);
                    inactive.push(json);
                }
            }
        }
        json!({ "activeSimulations": active, "inActiveSimulations": inactive })
    }

    /// The configuration of a feed that does nothing.
    fn stopped(&self, name: &str) -> Result<Arc<Config>, Fault> {
        let feeds = self.lock();
        let feed = feeds.get(name).ok_or(Fault::Unknown)?;
        match feed.state() {
            State::Stop => Ok(Arc::clone(&feed.config)),
            other => Err(Fault::Is(other)),
        }
    }

    /// Opens what the sources of a feed read, on a thread that may wait for it.
    async fn open(
        &self,
        config: &Arc<Config>,
        targets: &[Target],
    ) -> Result<Vec<Generator>, String> {
        let schemas: Vec<Schema> = targets.iter().map(|t| t.schema().clone()).collect();
        let (config, own) = (Arc::clone(config), self.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let from = Inputs {
                files: own.0.files.as_deref(),
                registry: own.0.registry,
                now: clock::wall_millis(),
            };
            let sources = config.sources.iter().zip(&schemas);
            sources
                .map(|(source, schema)| Generator::new(&config, source, schema, from))
                .collect::<Result<Vec<_>, String>>()
        });
        opened
            .await
            .unwrap_or_else(|_| Err("an internal error: see the log".to_owned()))
    }

    /// Starts a feed that is stopped, from its beginning, on the runtime that this is called on.
    pub(crate) async fn run(&self, name: &str, asker: &Asker) -> Result<(), Fault> {
        let config = self.stopped(name)?;
        let targets = config.targets(asker).map_err(Fault::Wrong)?;
        let generators = self.open(&config, &targets).await;
        let generators = generators.map_err(Fault::Wrong)?;
        let mut feeds = self.lock();
        let feed = feeds.get_mut(name).ok_or(Fault::Unknown)?;
        // Others may have been here meanwhile.
        match feed.state() {
            State::Stop if Arc::ptr_eq(&feed.config, &config) => {}
            State::Stop => {
                return Err(Fault::Wrong(
                    "the configuration was changed: run it again".to_owned(),
                ));
            }
            other => return Err(Fault::Is(other)),
        }
        let (state, seen) = watch::channel(State::Run);
        let state = Arc::new(state);
        feed.state = Some(Arc::clone(&state));
        let run = Run {
            name: name.to_owned(),
            asker: asker.clone(),
            generators,
            interval: config.interval,
            left: config.events.unwrap_or(u64::MAX),
        };
        tokio::spawn(async move {
            run.run(seen).await;
            state.send_replace(State::Stop);
        });
        Ok(())
    }

    /// Pauses, resumes or stops a feed, which must be in one of these states.
    pub(crate) fn change(&self, name: &str, from: &[State], to: State) -> Result<(), Fault> {
        let feeds = self.lock();
        let feed = feeds.get(name).ok_or(Fault::Unknown)?;
        let state = feed.state();
        if !from.contains(&state) {
            return Err(Fault::Is(state));
        }
        feed.set(to);
        Ok(())
    }
}

/// Does a configuration have the server read databases?
pub(crate) fn reads_databases(json: &Json) -> bool {
    let mut sources = json["sources"].as_array().into_iter().flatten();
    sources.any(|source| source["simulationType"] == "DATABASE_SIMULATION")
}

/// What is shown of the logins of databases.
fn hide_secrets(json: &mut Json, catalog: &Catalog) {
    let sources = json["sources"].as_array_mut().into_iter().flatten();
    for source in sources.filter_map(Json::as_object_mut) {
        if let Some(password) = source.get_mut("password").filter(|p| p.is_string()) {
            *password = json!("…");
        }
        if let Some(Json::String(url)) = source.get_mut("dataSourceLocation") {
            *url = check::secret::hidden(url, catalog);
        }
    }
}

impl Config {
    /// The streams of its sources, which their configurations fit.
    fn targets(&self, asker: &Asker) -> Result<Vec<Target>, String> {
        let target = |source: &config::SourceConfig| {
            let target = Target::find(asker, Some(&source.app), &source.stream);
            let target = target.map_err(|refusal| match refusal {
                Refusal::NoApp(message) | Refusal::Gone(message) => message,
                Refusal::Query(_) => "the stream cannot be asked for".to_owned(),
            })?;
            source.check(target.schema())?;
            Ok(target)
        };
        self.sources.iter().map(target).collect()
    }
}

/// A feed at work.
struct Run {
    name: String,
    asker: Asker,
    generators: Vec<Generator>,
    interval: Duration,
    left: u64,
}

impl Run {
    /// Until it is stopped, or has no more.
    async fn run(mut self, mut state: watch::Receiver<State>) {
        while self.left > 0 {
            // Whoever deletes the feed stops it first, so a sender that is gone is a stop too.
            match state.wait_for(|state| *state != State::Pause).await {
                Ok(now) if *now == State::Run => {}
                _ => return,
            }
            match self.send_next().await {
                Ok(true) => self.left -= 1,
                Ok(false) => return,
                Err(cause) => {
                    tracing::error!(
                        feed = self.name,
                        cause,
                        "feed stopped; run it again when this is mended"
                    );
                    return;
                }
            }
            let stopped = state.wait_for(|state| *state == State::Stop);
            if tokio::time::timeout(self.interval, stopped).await.is_ok() {
                return;
            }
        }
    }

    /// Sends the event with the least timestamp; false if there is none.
    async fn send_next(&mut self) -> Result<bool, String> {
        let mut least: Option<(i64, usize)> = None;
        for (at, generator) in self.generators.iter_mut().enumerate() {
            if let Some(time) = generator.peek()?
                && least.is_none_or(|(before, _)| time < before)
            {
                least = Some((time, at));
            }
        }
        let Some((_, at)) = least else {
            return Ok(false);
        };
        let generator = &mut self.generators[at];
        let Some((time, row)) = generator.take() else {
            return Ok(false);
        };
        // Looked for each time: the app may have been reloaded.
        let target = Target::find(&self.asker, Some(&generator.app), &generator.stream);
        let target = target.map_err(|_| {
            format!(
                "stream '{}' of app '{}' is gone",
                generator.stream, generator.app
            )
        })?;
        let mut rows = target.rows();
        if let Err(misfit) = rows.push(&row, Some(time)) {
            tracing::warn!(
                feed = self.name,
                app = generator.app,
                stream = generator.stream,
                cause = misfit.cause,
                expected = misfit.expected,
                "event of a feed left out"
            );
            return Ok(true);
        }
        let batches = rows.finish();
        match target.send(batches, Instant::now() + SEND_MAX).await {
            (_, None) => Ok(true),
            (_, Some(why)) => Err(format!(
                "app '{}' did not take an event in time: {why:?}",
                generator.app
            )),
        }
    }
}
