//! Reloads apps while others keep running: which groups stay, which end, which start.
//!
//! Promises: an unchanged group keeps running; a reloaded app continues from its state and its
//! sources from their positions, with or without a state directory; if one of the new groups cannot
//! be built, all are restored; if the deployment is unchanged, clients that send to a reloaded app
//! without getting answers stay connected; a reload that is reported has its sources connected,
//! their ports bound, or the reason logged. One that has to start ([`Reload::must_start`]) is undone if a
//! listener has no port or a source fails: until that is known, new groups save and commit nothing. Never: an
//! answer before that is settled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::model::Api;
use plan::Plan;

use crate::build::engine_of;
use crate::config::Config;
use crate::deployment::ReadyApp;
use crate::error::Error;
use crate::group::groups;
use crate::report::chain;
use crate::running::Running;
use crate::server::{Server, settings};
use crate::state::Saved;

/// How long a reload waits for sources that neither connect nor say why. They go on trying.
const BEGUN_MAX: Duration = Duration::from_secs(5);

/// What a reload does to the apps, by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
    /// As they were, but begun anew with others or with another configuration.
    pub renewed: Vec<String>,
    pub untouched: Vec<String>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        let parts = [&self.added, &self.changed, &self.removed, &self.renewed];
        parts.into_iter().all(Vec::is_empty)
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
            ("begun anew", &self.renewed),
            ("untouched", &self.untouched),
        ];
        let parts = parts.iter().filter(|(_, apps)| !apps.is_empty());
        let said: Vec<String> = parts
            .map(|(what, apps)| format!("{what}: {}", apps.join(", ")))
            .collect();
        f.write_str(&said.join("; "))
    }
}

/// What is to be done.
pub struct Reload {
    pub change: Change,
    /// Numbers of the running groups that end.
    leaving: Vec<usize>,
    coming: Vec<Vec<ReadyApp>>,
    config: Config,
    is_same_config: bool,
    /// Apps of all that will run whose state may be dropped where they cannot take it back.
    pub may_drop: BTreeSet<String>,
    /// New apps whose listeners have no port, or whose sources fail, are not kept.
    pub must_start: bool,
    /// What documents say from now on; `None`: what they say already.
    pub apis: Option<Vec<Api>>,
}

impl Server {
    /// What a reload to these apps would do. An error says why it cannot be done; nothing has changed.
    pub fn plan_reload(&self, apps: Vec<ReadyApp>, config: Config) -> Result<Reload, Error> {
        let is_same_config = config == self.config;
        let plans: Vec<Arc<Plan>> = apps.iter().map(|app| Arc::clone(&app.plan)).collect();
        let (mut stays, mut coming) = (Vec::new(), Vec::new());
        for members in groups(&plans, &self.common.registry) {
            let group: Vec<ReadyApp> = members.into_iter().map(|app| apps[app].clone()).collect();
            let is_it = |running: &Running| is_same_config && running.apps == group;
            match self.running.iter().position(is_it) {
                Some(at) => stays.push(at),
                None => coming.push(group),
            }
        }
        for group in &coming {
            for app in group {
                engine_of(&app.plan, &self.common)?;
            }
            if let Some(state) = &self.state {
                state.fits(&names(group))?;
            }
        }
        let all = 0..self.running.len();
        let leaving: Vec<usize> = all.filter(|at| !stays.contains(at)).collect();
        let before: Vec<&ReadyApp> = self.running.iter().flat_map(|r| &r.apps).collect();
        let mut change = Change::default();
        for app in &apps {
            let list = match before.iter().find(|old| old.name() == app.name()) {
                None => &mut change.added,
                Some(old) if *old != app => &mut change.changed,
                Some(_) if coming.iter().flatten().any(|c| c == app) => &mut change.renewed,
                Some(_) => &mut change.untouched,
            };
            list.push(app.name().to_owned());
        }
        let is_gone = |old: &&&ReadyApp| apps.iter().all(|app| app.name() != old.name());
        let gone = before.iter().filter(is_gone);
        change.removed = gone.map(|old| old.name().to_owned()).collect();
        Ok(Reload {
            change,
            leaving,
            coming,
            config,
            is_same_config,
            may_drop: BTreeSet::new(),
            must_start: false,
            apis: None,
        })
    }

    /// Does it. After an error everything runs as it did before, but for apps that the error names as
    /// stopped.
    pub fn reload(&mut self, reload: Reload) -> Result<(), Error> {
        let mut span = self.common.tracer.as_ref().map(|t| t.span("reload"));
        if let Some(span) = &mut span {
            span.set("change", &reload.change.to_string());
        }
        let done = self.replace(reload);
        if let (Some(span), Err(error)) = (&mut span, &done) {
            span.fail(&chain(error));
        }
        done
    }

    fn replace(&mut self, reload: Reload) -> Result<(), Error> {
        let renewal = reload.is_same_config.then(|| {
            let coming = reload.coming.iter().flatten();
            let names: Vec<String> = coming.map(|app| app.name().to_owned()).collect();
            self.common.shared.renew(&names)
        });
        let (old, handed) = self.end_groups(&reload.leaving);
        let gateway = self.gateway.clone();
        let old_apis = gateway
            .as_ref()
            .zip(reload.apis)
            .map(|(gateway, apis)| gateway.set_documents(apis));
        let old_config = std::mem::replace(&mut self.config, reload.config);
        self.common.settings = settings(&self.config);
        self.common.waits_for_stores = false;
        let drops_state = !reload.may_drop.is_empty();
        let old_drops = std::mem::replace(&mut self.common.drop_state_of, reload.may_drop);
        let stays = self.running.len();
        self.common.is_on_trial = reload.must_start;
        let begun = self.begin(reload.coming, Some(&handed), None);
        self.common.is_on_trial = false;
        let begun = begun.and_then(|()| match reload.must_start {
            true => self.on_trial(stays),
            false => Ok(()),
        });
        self.common.waits_for_stores = true;
        if let Err(error) = begun {
            tracing::error!(
                cause = chain(&error),
                "reload failed; restoring the previous apps"
            );
            self.config = old_config;
            if let Some((gateway, apis)) = gateway.zip(old_apis) {
                gateway.set_documents(apis);
            }
            self.common.settings = settings(&self.config);
            self.common.drop_state_of = old_drops;
            self.begin(old, Some(&handed), None)
                .map_err(|again| Error::Stopped {
                    message: format!(
                        "{}; and cannot restart the previous apps: {}",
                        chain(&error),
                        chain(&again)
                    ),
                })?;
            self.list_asked();
            self.wait_for_sources();
            return Err(error);
        }
        let removed: Vec<&str> = reload.change.removed.iter().map(String::as_str).collect();
        self.common.metrics.retire(&removed);
        self.list_asked();
        // Senders wait for what is made anew; for a source that dials nobody waits.
        drop(renewal);
        if drops_state {
            // So that the next start need not drop it once more.
            self.running.iter().for_each(Running::save_soon);
        }
        self.wait_for_sources();
        Ok(())
    }

    /// Lets the groups from this one on run for good, if each has started; else they end as if they had never run.
    fn on_trial(&mut self, from: usize) -> Result<(), Error> {
        let activity = Arc::clone(&self.common.activity);
        let until = Instant::now() + BEGUN_MAX;
        let new = &self.running[from..];
        for group in new {
            group.has_begun(until.saturating_duration_since(Instant::now()));
        }
        activity.wait_until(until, || {
            activity.is_stopping() || activity.have_sources_begun() && activity.were_sinks_tried()
        });
        let apps = new.iter().flat_map(|group| &group.apps);
        let apps: Vec<String> = apps.map(|app| app.name().to_owned()).collect();
        let mut faults: Vec<(String, String)> = new.iter().filter_map(Running::failure).collect();
        faults.extend(activity.not_started(&apps));
        if faults.is_empty() {
            new.iter().for_each(Running::confirm);
            return Ok(());
        }
        for group in self.running.drain(from..) {
            group.give_up(&activity);
        }
        Err(Error::NotStarted(faults))
    }

    /// Waits until each source is ready or has said why it is not: whoever reads that the apps were
    /// reloaded finds their ports open.
    pub(crate) fn wait_for_sources(&self) {
        let activity = &self.common.activity;
        activity.wait_until(Instant::now() + BEGUN_MAX, || {
            activity.is_stopping() || activity.have_sources_begun()
        });
    }

    /// Ends groups; their apps, and what they hand over where no state directory holds it.
    pub(crate) fn end_groups(&mut self, leaving: &[usize]) -> (Vec<Vec<ReadyApp>>, Saved) {
        let (mut apps, mut handed) = (Vec::new(), Saved::default());
        // From the last, so that the numbers before it stay right.
        for &at in leaving.iter().rev() {
            let mut running = self.running.remove(at);
            let end = running.end(&self.common.activity, self.state.is_some());
            if let Some(saved) = end.and_then(|end| end.handed) {
                handed.join(saved);
            }
            apps.insert(0, std::mem::take(&mut running.apps));
        }
        (apps, handed)
    }
}

fn names(apps: &[ReadyApp]) -> Vec<String> {
    apps.iter().map(|app| app.name().to_owned()).collect()
}
