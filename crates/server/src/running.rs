//! A group of apps whose threads run: how they are started and how they end.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::activity::ActivityTracker;
use crate::ask::AskedApp;
use crate::build::Group;
use crate::deployment::ReadyApp;
use crate::error::Error;
use crate::executor::{ExecutorEnd, ExecutorInput, InputQueue, Probe};
use crate::health::Health;
use crate::liveness::Liveness;
use crate::source::SourceHandle;

/// With a state directory: how long a group that is made anew may take to bring what is in flight
/// to sinks and stores. What has not arrived by then is read again.
const GRACE: Duration = Duration::from_secs(10);

/// How often it is said that a group still waits for its sinks and stores.
const SAY_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct Running {
    pub apps: Vec<ReadyApp>,
    pub input_queue: Arc<InputQueue>,
    health: Arc<Health>,
    asked: Vec<AskedApp>,
    source_handles: Vec<Arc<SourceHandle>>,
    sources: Vec<JoinHandle<()>>,
    executor: Option<JoinHandle<ExecutorEnd>>,
    /// Sinks, stores and the checkpoint coordinator: they end when the executor does.
    followers: Vec<JoinHandle<()>>,
}

impl Running {
    /// Has its apps saved before long.
    pub fn save_soon(&self) {
        // An executor that has ended saves nothing any more.
        self.input_queue
            .push_always(ExecutorInput::Acknowledge)
            .ok();
    }

    /// Destinations first, then the executor, then the sources.
    pub fn launch(apps: Vec<ReadyApp>, group: Group) -> Result<Running, Error> {
        let input_queue = Arc::clone(&group.executor.input_queue);
        let asked = group.executor.apps.iter().enumerate();
        let asked = asked.map(|(index, app)| AskedApp {
            name: app.name.clone(),
            plan: Arc::clone(&app.plan),
            input_queue: Arc::clone(&input_queue),
            index,
        });
        let mut running = Running {
            apps,
            asked: asked.collect(),
            input_queue,
            health: group.health,
            source_handles: Vec::new(),
            sources: Vec::new(),
            executor: None,
            followers: Vec::new(),
        };
        // What is logged on a thread carries the app and the stream that it works for.
        let of_group = || tracing::error_span!("apps", app = running.health.name());
        let mut followers = Vec::new();
        for sink in group.sinks {
            let (name, span) = (format!("sink {}", sink.name), sink.span());
            followers.push(spawn(name, span, move || sink.run())?);
        }
        for store in group.stores {
            followers.push(spawn("store".to_owned(), of_group(), move || store.run())?);
        }
        let coordinator = group.coordinator;
        let handle = spawn("keeper".to_owned(), of_group(), move || coordinator.run())?;
        followers.push(handle);
        let executor = group.executor;
        let name = format!("lane {}", executor.name);
        let handle = spawn(name, of_group(), move || executor.run())?;
        running.followers = followers;
        running.executor = Some(handle);
        for source in group.sources {
            running
                .source_handles
                .push(Arc::clone(&source.source_handle));
            let label = &source.metrics.label;
            let span = tracing::error_span!("source", app = label.app, stream = label.element);
            let name = format!("source {}", source.name);
            running
                .sources
                .push(spawn(name, span, move || source.run())?);
        }
        Ok(running)
    }

    /// Has the executor begun its work, or failed at it? Waits for that, at most so long.
    pub fn has_begun(&self, at_most: Duration) -> bool {
        let probe = Arc::new(Probe::default());
        let input = ExecutorInput::Probe(Arc::clone(&probe));
        self.input_queue.push_always(input).is_err() || probe.wait(at_most).is_some()
    }

    /// Why it cannot go on.
    pub fn failure(&self) -> Option<(String, String)> {
        let cause = self.health.failure()?;
        Some((format!("'{}'", self.health.name()), cause))
    }

    /// The trial is over: it saves and commits from now on.
    pub fn confirm(&self) {
        self.health.set_on_trial(false);
        self.input_queue.push_always(ExecutorInput::Wake).ok();
    }

    /// Ends what is on trial as if it had never run.
    pub fn give_up(mut self, activity: &ActivityTracker) {
        self.health.cut_short();
        self.stop_sources(false);
        let until = Instant::now() + GRACE;
        activity.wait_until(until, || self.have_sources_ended());
        match self.have_sources_ended() {
            true => self.join_sources(),
            // It has nothing that could still be saved.
            false => self.sources.clear(),
        }
        self.finish(false);
        activity.wait_until(until, || self.has_ended());
        match self.has_ended() {
            true => _ = self.join(),
            false => self.abandon(),
        }
    }

    pub fn watched_by(&self, liveness: &Liveness) {
        liveness.watch(&self.health, &self.input_queue);
    }

    /// Its apps, for those who ask them.
    pub fn asked(&self) -> impl Iterator<Item = AskedApp> {
        self.asked.iter().cloned()
    }

    /// `is_end`: the input of the whole run has ended.
    pub fn stop_sources(&self, is_end: bool) {
        for source_handle in &self.source_handles {
            if is_end {
                source_handle.end();
            }
            source_handle.stop();
        }
    }

    pub fn join_sources(&mut self) {
        self.sources.drain(..).for_each(|source| {
            join(source);
        });
    }

    /// Once the sources have gone.
    pub fn finish(&self, hands_over: bool) {
        // An executor that has failed has closed its input queue.
        self.input_queue
            .push_always(ExecutorInput::Finish { hands_over })
            .ok();
    }

    /// Are all of its threads done?
    pub fn has_ended(&self) -> bool {
        let executor = self.executor.iter().all(JoinHandle::is_finished);
        executor && self.have_sources_ended() && self.followers.iter().all(JoinHandle::is_finished)
    }

    pub fn have_sources_ended(&self) -> bool {
        self.sources.iter().all(JoinHandle::is_finished)
    }

    /// Leaves threads alone that have not ended by now, and says what of theirs is not delivered.
    pub fn abandon(&mut self) {
        let sources = self
            .sources
            .drain(..)
            .map(|handle| (handle.is_finished(), name_of(&handle)));
        let followers = self.followers.drain(..);
        let followers = followers.map(|handle| (handle.is_finished(), name_of(&handle)));
        let left: Vec<String> = sources
            .chain(followers)
            .filter(|(is_finished, _)| !is_finished)
            .map(|(_, name)| name)
            .collect();
        self.executor = None;
        self.health.leave(format!(
            "the time that a stop may take (--grace) is over: {} did not end",
            match left.is_empty() {
                true => "its executor".to_owned(),
                false => left.join(", "),
            }
        ));
    }

    /// Once it was told to finish.
    pub fn join(&mut self) -> Option<ExecutorEnd> {
        let end = self.executor.take().and_then(join);
        self.followers.drain(..).for_each(|follower| {
            join(follower);
        });
        end
    }

    /// Ends the group while the server runs on. Everything taken is brought to sinks and stores:
    /// where a state directory can give it back later, not for longer than a grace.
    pub fn end(&mut self, activity: &ActivityTracker, has_state: bool) -> Option<ExecutorEnd> {
        self.stop_sources(false);
        let until = has_state.then(|| Instant::now() + GRACE);
        self.wait(activity, until, |r| {
            r.sources.iter().all(JoinHandle::is_finished)
        });
        self.join_sources();
        self.finish(!has_state);
        self.wait(activity, until, |r| {
            r.executor.as_ref().is_none_or(JoinHandle::is_finished)
        });
        self.join()
    }

    fn wait(
        &self,
        activity: &ActivityTracker,
        until: Option<Instant>,
        is_done: impl Fn(&Running) -> bool,
    ) {
        loop {
            let say = Instant::now() + SAY_EVERY;
            let look = until.map_or(say, |until| until.min(say));
            if activity.wait_until(look, || is_done(self) || self.health.is_stopping()) {
                return;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                tracing::warn!(
                    apps = self.health.name(),
                    "shutdown grace period is over: a sink or store has not accepted in-flight \
                     data; it will be read again at the next start"
                );
                return self.health.cut_short();
            }
            tracing::warn!(
                apps = self.health.name(),
                "waiting for sinks and stores to accept in-flight data"
            );
        }
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    span: tracing::Span,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    std::thread::Builder::new()
        .name(name)
        .spawn(move || span.in_scope(work))
        .map_err(|cause| Error::Stopped {
            message: format!("cannot start a thread: {cause}"),
        })
}

fn name_of<T>(handle: &JoinHandle<T>) -> String {
    handle.thread().name().unwrap_or("a thread").to_owned()
}

/// The work of every thread catches its own panics; a thread that broke nevertheless gives nothing.
fn join<T>(handle: JoinHandle<T>) -> Option<T> {
    handle.join().ok()
}
