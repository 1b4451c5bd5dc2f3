//! A group of apps whose threads run: how they are started and how they end.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::ask::AskedApp;
use crate::build::Group;
use crate::deployment::ReadyApp;
use crate::error::Error;
use crate::health::Health;
use crate::lane::{Inbox, LaneEnd, Letter};
use crate::pulse::Pulse;
use crate::source::Mailbox;

/// With a state directory: how long a group that is made anew may take to bring what is in flight
/// to sinks and stores. What has not arrived by then is read again.
const GRACE: Duration = Duration::from_secs(10);

/// How often it is said that a group still waits for its sinks and stores.
const SAY_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct Running {
    pub apps: Vec<ReadyApp>,
    pub inbox: Arc<Inbox>,
    health: Arc<Health>,
    asked: Vec<AskedApp>,
    mailboxes: Vec<Arc<Mailbox>>,
    sources: Vec<JoinHandle<()>>,
    lane: Option<JoinHandle<LaneEnd>>,
    /// Sinks, stores and the keeper: they end when the lane does.
    followers: Vec<JoinHandle<()>>,
}

impl Running {
    /// Destinations first, then the lane, then the sources.
    pub fn launch(apps: Vec<ReadyApp>, group: Group) -> Result<Running, Error> {
        let inbox = Arc::clone(&group.lane.inbox);
        let asked = group.lane.apps.iter().enumerate();
        let asked = asked.map(|(index, app)| AskedApp {
            name: app.name.clone(),
            plan: Arc::clone(&app.plan),
            inbox: Arc::clone(&inbox),
            index,
        });
        let mut running = Running {
            apps,
            asked: asked.collect(),
            inbox,
            health: group.health,
            mailboxes: Vec::new(),
            sources: Vec::new(),
            lane: None,
            followers: Vec::new(),
        };
        for sink in group.sinks {
            let name = format!("sink {}", sink.name);
            running.followers.push(spawn(name, move || sink.run())?);
        }
        for store in group.stores {
            let handle = spawn("store".to_owned(), move || store.run())?;
            running.followers.push(handle);
        }
        let keeper = group.keeper;
        let handle = spawn("keeper".to_owned(), move || keeper.run())?;
        running.followers.push(handle);
        let lane = group.lane;
        let name = format!("lane {}", lane.name);
        running.lane = Some(spawn(name, move || lane.run())?);
        for source in group.sources {
            running.mailboxes.push(Arc::clone(&source.mailbox));
            let name = format!("source {}", source.name);
            running.sources.push(spawn(name, move || source.run())?);
        }
        Ok(running)
    }

    /// Its apps, for those who ask them.
    pub fn asked(&self) -> impl Iterator<Item = AskedApp> {
        self.asked.iter().cloned()
    }

    /// `is_end`: the input of the whole run has ended.
    pub fn stop_sources(&self, is_end: bool) {
        for mailbox in &self.mailboxes {
            if is_end {
                mailbox.end();
            }
            mailbox.stop();
        }
    }

    pub fn join_sources(&mut self) {
        self.sources.drain(..).for_each(|source| {
            join(source);
        });
    }

    /// Once the sources have gone.
    pub fn finish(&self, hands_over: bool) {
        // A lane that has failed has closed its inbox.
        self.inbox.push_always(Letter::Finish { hands_over }).ok();
    }

    /// Once it was told to finish.
    pub fn join(&mut self) -> Option<LaneEnd> {
        let end = self.lane.take().and_then(join);
        self.followers.drain(..).for_each(|follower| {
            join(follower);
        });
        end
    }

    /// Ends the group while the server runs on. Everything taken is brought to sinks and stores:
    /// where a state directory can give it back later, not for longer than a grace.
    pub fn end(&mut self, pulse: &Pulse, has_state: bool) -> Option<LaneEnd> {
        self.stop_sources(false);
        let until = has_state.then(|| Instant::now() + GRACE);
        self.wait(pulse, until, |r| {
            r.sources.iter().all(JoinHandle::is_finished)
        });
        self.join_sources();
        self.finish(!has_state);
        self.wait(pulse, until, |r| {
            r.lane.as_ref().is_none_or(JoinHandle::is_finished)
        });
        self.join()
    }

    fn wait(&self, pulse: &Pulse, until: Option<Instant>, is_done: impl Fn(&Running) -> bool) {
        loop {
            let say = Instant::now() + SAY_EVERY;
            let look = until.map_or(say, |until| until.min(say));
            if pulse.wait_until(look, || is_done(self) || self.health.is_stopping()) {
                return;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                tracing::warn!(
                    apps = self.health.name(),
                    "a sink or store does not take what is in flight; it is read again"
                );
                return self.health.cut_short();
            }
            tracing::warn!(
                apps = self.health.name(),
                "waiting until sinks and stores have taken what is in flight"
            );
        }
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|cause| Error::Stopped {
            message: format!("a thread cannot be started: {cause}"),
        })
}

/// The work of every thread catches its own panics; a thread that broke nevertheless gives nothing.
fn join<T>(handle: JoinHandle<T>) -> Option<T> {
    handle.join().ok()
}
