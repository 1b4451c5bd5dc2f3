//! Backups of a running server and revisions of its apps, for who asks over HTTP.
//!
//! A backup is made of a checkpoint that is made for it (`upkeep::backup`). A revision is a backup of one
//! group, named as Streaming Integrator names it: `1499179260517_Shop`. At most [`BACKUPS_MAX`] backups
//! lie below a state directory, and [`REVISIONS_MAX`] revisions of an app: the oldest goes then.
//!
//! To restore an app its group ends and begins again with the state of the revision ([`Server::restore_asked`]);
//! that becomes durable as any checkpoint does, so a crash on the way leaves the one state or the other.
//! Never: two of these at once.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use connect::registry::Registry;
use engine::App;
use tokio::sync::oneshot;

use crate::activity::ActivityTracker;
use crate::ask::{Asker, Refusal};
use crate::build::engine_of;
use crate::clock::{utc_text, wall_millis};
use crate::deployment::ReadyApp;
use crate::error::Error;
use crate::preview::has_source;
use crate::report::chain;
use crate::server::Server;
use crate::state::{BACKUPS, Saved, saved_group};
use crate::upkeep::backup::{BACKUPS_MAX, Backup, Manifest, back_up, backups_of, checked_name};
use crate::upkeep::survey::{Survey, survey};

/// Revisions of an app that are kept.
pub const REVISIONS_MAX: usize = 10;

/// Restores that wait for the server.
const WAITING_MAX: usize = 16;

/// An app that somebody wants to have as it was.
struct Request {
    app: String,
    /// A backup that has its group.
    revision: PathBuf,
    /// Told which apps of its group stay as they are.
    reply: oneshot::Sender<Result<Vec<String>, Error>>,
}

/// Restores that somebody has asked for.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<VecDeque<Request>>>);

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    fn take(&self) -> Option<Request> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }

    /// Who waits is told that nothing comes of it.
    pub fn clear(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clear();
    }

    fn push(&self, request: Request) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = waiting.len() < WAITING_MAX;
        if has_room {
            waiting.push_back(request);
        }
        has_room
    }
}

/// The backups of a server; without a state directory it has none.
#[derive(Clone, Default)]
pub struct Backups(Option<Arc<Inner>>);

struct Inner {
    root: PathBuf,
    registry: Registry,
    requests: Requests,
    activity: Arc<ActivityTracker>,
    /// Held while one is made, removed or restored.
    busy: tokio::sync::Mutex<()>,
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server has no state directory.
    NoState,
    /// There is no such app, or it has ended.
    App(Refusal),
    /// There is no such backup or revision.
    Unknown(String),
    /// It cannot be done as things are.
    Refused(String),
    Failed(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Usage(message) | Error::Refused(message) => Fault::Refused(message),
            error => Fault::Failed(error),
        }
    }
}

impl Backups {
    pub(crate) fn new(
        root: &Path,
        registry: Registry,
        requests: Requests,
        activity: Arc<ActivityTracker>,
    ) -> Backups {
        Backups(Some(Arc::new(Inner {
            root: root.to_owned(),
            registry,
            requests,
            activity,
            busy: tokio::sync::Mutex::default(),
        })))
    }

    fn inner(&self) -> Result<Arc<Inner>, Fault> {
        self.0.clone().ok_or(Fault::NoState)
    }

    /// What is saved.
    pub(crate) async fn survey(&self) -> Result<Survey, Fault> {
        let inner = self.inner()?;
        on_thread(move || survey(&inner.root, &inner.registry)).await
    }

    /// Every backup, with the revisions of apps.
    pub(crate) async fn list(&self) -> Result<Vec<(String, Option<Manifest>)>, Fault> {
        let inner = self.inner()?;
        on_thread(move || backups_of(&inner.root)).await
    }

    /// Makes a checkpoint of all apps and copies it. Without a name that is the time.
    pub(crate) async fn make(
        &self,
        name: Option<&str>,
        asker: &Asker,
    ) -> Result<(String, Backup), Fault> {
        let inner = self.inner()?;
        let name = match name {
            Some(name) => checked_name(name)?.to_owned(),
            None => utc_text(wall_millis()).replace(':', ""),
        };
        let _busy = inner.busy.lock().await;
        let count = backups_of(&inner.root)?.len();
        if count >= BACKUPS_MAX {
            return Err(Fault::Refused(format!(
                "there are {count} backups in '{}', and no more are kept: remove some",
                inner.root.join(BACKUPS).display()
            )));
        }
        let to = inner.root.join(BACKUPS).join(&name);
        if to.exists() {
            let message = format!("there is a backup '{name}' already: choose another name");
            return Err(Fault::Refused(message));
        }
        asker.save(None).await.map_err(Fault::App)?;
        let made = inner.copy(to, None).await?;
        Ok((name, made))
    }

    /// The directory of a backup.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, Fault> {
        let inner = self.inner()?;
        let path = inner.root.join(BACKUPS).join(checked_name(name)?);
        match path.is_dir() {
            true => Ok(path),
            false => Err(Fault::Unknown(format!("there is no backup '{name}'"))),
        }
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), Fault> {
        let inner = self.inner()?;
        let path = self.find(name)?;
        let _busy = inner.busy.lock().await;
        on_thread(move || fs::remove_dir_all(&path).map_err(Error::file("remove", path))).await
    }

    /// Makes a checkpoint of an app and keeps it as a revision; its name.
    pub(crate) async fn make_revision(&self, app: &str, asker: &Asker) -> Result<String, Fault> {
        let inner = self.inner()?;
        asker.app(Some(app)).map_err(Fault::App)?;
        let _busy = inner.busy.lock().await;
        asker.save(Some(app)).await.map_err(Fault::App)?;
        let group = saved_group(&inner.root, app)?.map(|group| group.path(""));
        let group = group.as_deref().and_then(Path::file_name);
        let group = group.map(|name| name.to_string_lossy().into_owned());
        let revision = format!("{}_{}", wall_millis(), crate::state::safe_name(app));
        let to = inner.root.join(BACKUPS).join(checked_name(&revision)?);
        inner.copy(to, group).await?;
        let all = inner.revisions(app)?;
        for (old, _) in all.iter().rev().skip(REVISIONS_MAX) {
            let path = inner.root.join(BACKUPS).join(old);
            fs::remove_dir_all(&path).map_err(Error::file("remove", path))?;
        }
        Ok(revision)
    }

    /// The revisions of an app, oldest first.
    pub(crate) async fn revisions(
        &self,
        app: &str,
    ) -> Result<Vec<(String, Option<Manifest>)>, Fault> {
        let inner = self.inner()?;
        let app = app.to_owned();
        on_thread(move || inner.revisions(&app)).await
    }

    /// Has the server restore an app to a revision, or to the newest, and waits until that is durable: the
    /// revision, and the apps linked with it, which stay as they are.
    pub(crate) async fn restore(
        &self,
        app: &str,
        revision: Option<&str>,
        asker: &Asker,
    ) -> Result<(String, Vec<String>), Fault> {
        let inner = self.inner()?;
        asker.app(Some(app)).map_err(Fault::App)?;
        let _busy = inner.busy.lock().await;
        let revisions = inner.revisions(app)?;
        let found = match revision {
            Some(name) => revisions.iter().find(|(own, _)| own == name),
            None => revisions.last(),
        };
        let Some((name, _)) = found else {
            let message = match revision {
                Some(name) => format!("app '{app}' has no revision '{name}'"),
                None => format!("app '{app}' has no revision: make one with POST …/backup"),
            };
            return Err(Fault::Unknown(message));
        };
        let (reply, answer) = oneshot::channel();
        let request = Request {
            app: app.to_owned(),
            revision: inner.root.join(BACKUPS).join(name),
            reply,
        };
        if !inner.requests.push(request) {
            return Err(Fault::Refused("too many restores are waiting".to_owned()));
        }
        inner.activity.nudge();
        let gone = || Fault::App(Refusal::Gone("the server is stopping".to_owned()));
        let linked = answer.await.map_err(|_| gone())??;
        asker.save(Some(app)).await.map_err(Fault::App)?;
        Ok((name.clone(), linked))
    }
}

impl Inner {
    async fn copy(self: &Arc<Inner>, to: PathBuf, group: Option<String>) -> Result<Backup, Fault> {
        let inner = Arc::clone(self);
        on_thread(move || {
            let group = group.as_deref();
            back_up(&inner.root, &to, group, &inner.registry, &mut |_, _| {})
        })
        .await
    }

    fn revisions(&self, app: &str) -> Result<Vec<(String, Option<Manifest>)>, Error> {
        let ending = format!("_{}", crate::state::safe_name(app));
        let mut all = backups_of(&self.root)?;
        all.retain(|(name, _)| {
            let time = name.strip_suffix(&ending);
            time.is_some_and(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))
        });
        // As many digits for the next 250 years, so that names are in the order of time.
        Ok(all)
    }
}

/// Work that reads and writes files, beside what is served meanwhile.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(panic) => Err(Fault::Failed(Error::Stopped {
            message: format!("internal error: {panic}"),
        })),
    }
}

impl Server {
    /// Its backups, for who asks over HTTP.
    pub fn backups(&self) -> Backups {
        match &self.state {
            None => Backups::default(),
            Some(state) => Backups::new(
                state.root(),
                self.common.registry,
                self.requests.clone(),
                Arc::clone(&self.common.activity),
            ),
        }
    }

    /// Restores the apps that somebody has asked for, one after the other; each is told how it went.
    pub fn restore_asked(&mut self) {
        while let Some(request) = self.requests.take() {
            let restored = self.restore_app(&request.app, &request.revision);
            if let Err(error) = &restored {
                let (app, cause) = (&request.app, chain(error));
                tracing::error!(app, cause, "cannot restore app");
            }
            // Who does not wait any more needs no answer.
            request.reply.send(restored).ok();
        }
    }

    /// Ends the group of an app and begins it with the app as in a backup; the others of the group, whose
    /// names it gives, stay as they are. After an error all of it runs as before.
    fn restore_app(&mut self, app: &str, revision: &Path) -> Result<Vec<String>, Error> {
        let has_it = |apps: &[ReadyApp]| apps.iter().any(|ready| ready.name() == app);
        let at = self
            .running
            .iter()
            .position(|running| has_it(&running.apps));
        let Some(at) = at else {
            return Err(Error::Refused(format!("there is no app '{app}'")));
        };
        let apps = &self.running[at].apps;
        let names: Vec<String> = apps.iter().map(|ready| ready.name().to_owned()).collect();
        let saved = self.fitting(app, &apps.clone(), revision)?;
        tracing::info!(app, revision = %revision.display(), "restoring app");
        let renewal = self.common.shared.renew(&names);
        let (old, handed) = self.end_groups(&[at]);
        self.common.waits_for_stores = false;
        let begun = self.begin(old.clone(), Some(&handed), Some(&saved));
        self.common.waits_for_stores = true;
        if let Err(error) = begun {
            let again = self.begin(old, Some(&handed), None);
            self.list_asked();
            again.map_err(|again| Error::Stopped {
                message: format!(
                    "{}; and cannot restart what ran before: {}",
                    chain(&error),
                    chain(&again)
                ),
            })?;
            return Err(error);
        }
        self.list_asked();
        drop(renewal);
        self.wait_for_sources();
        tracing::info!(app, "app restored");
        Ok(names.into_iter().filter(|name| name != app).collect())
    }

    /// What a backup has of an app, if the app that runs can take all of it back.
    fn fitting(&self, app: &str, apps: &[ReadyApp], revision: &Path) -> Result<Saved, Error> {
        let unusable = |message: String| Error::State {
            path: revision.to_owned(),
            message,
        };
        let newest = saved_group(revision, app)?.map(|group| group.newest());
        let Some((_, bytes)) = newest.transpose()?.flatten() else {
            return Err(unusable(format!("it has no state of app '{app}'")));
        };
        let saved = Saved::read(bytes).map_err(|e| unusable(chain(&e)))?;
        let saved = saved.part(|name| name == app);
        let mut dropped = Vec::new();
        for ready in apps.iter().filter(|ready| ready.name() == app) {
            let engine: App = engine_of(&ready.plan, &self.common)?;
            for (_, bytes) in saved.apps() {
                let matching = engine.match_state(bytes).map_err(|e| unusable(chain(&e)))?;
                dropped.extend(matching.dropped.iter().map(ToString::to_string));
            }
            let lost = saved
                .positions
                .iter()
                .filter(|(_, key, position)| position.is_some() && !has_source(&ready.plan, key));
            dropped.extend(lost.map(|(_, key, _)| format!("source '{key}' (its read position)")));
        }
        match dropped.is_empty() {
            true => Ok(saved),
            false => Err(Error::Refused(format!(
                "app '{app}' was edited since the revision was made, and would lose of it: {}; deploy the \
                 app as it was, then restore it",
                dropped.join("; ")
            ))),
        }
    }
}
