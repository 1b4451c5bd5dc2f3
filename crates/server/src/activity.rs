//! Whether anything still happens in a server: how `--until-done` finds its end.
//!
//! A directory may be filled by another app of the same server, so that "nothing new" holds only
//! until the next thing happens anywhere. Each thing that happens (rows handed over, a file moved, a
//! function with effects called) moves a counter; a source has settled when it has looked again
//! since the counter last moved and found nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks in a row that must find nothing.
const LOOKS: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct ActivityTracker {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// By number.
    sources: BTreeMap<usize, SourceEntry>,
    /// By number.
    sinks: BTreeMap<usize, SinkEntry>,
    /// Groups of apps by number, and why one could not go on.
    groups: BTreeMap<usize, GroupEntry>,
    /// Of the next source or group.
    next_number: usize,
    is_stopping: bool,
    is_reload_asked: bool,
    /// How long a stop may take.
    grace: Duration,
}

#[derive(Debug)]
struct SourceEntry {
    group: usize,
    name: String,
    state: SourceState,
    /// It has been connected, or has said why it cannot be.
    has_begun: bool,
    /// It was connected at least once.
    was_connected: bool,
    /// It cannot listen on its address.
    has_no_port: bool,
}

#[derive(Debug)]
struct SinkEntry {
    group: usize,
    name: String,
    /// It was connected once, or has said why it cannot be.
    was_tried: bool,
    /// Why it cannot listen on its address.
    no_port: Option<String>,
}

#[derive(Debug)]
struct GroupEntry {
    apps: Vec<String>,
    failure: Option<String>,
}

/// How an app is, for who looks from outside. A peer that has gone since is told elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppStatus {
    Active,
    /// A source has not been connected yet; why, if that was said.
    Starting(Option<String>),
    /// It cannot go on, or a source of it cannot.
    Failed(String),
}

/// Is this the source or sink of an app? They are called `App/Stream[1]`.
fn is_of(name: &str, app: &str) -> bool {
    name.strip_prefix(app)
        .is_some_and(|rest| rest.starts_with('/'))
}

impl State {
    fn number(&mut self) -> usize {
        self.next_number += 1;
        self.next_number
    }
}

/// A group of apps that the activity tracker counts; dropped, it is forgotten together with its sources.
#[derive(Debug)]
pub(crate) struct Member {
    activity: Arc<ActivityTracker>,
    group: usize,
}

impl Member {
    pub fn of(activity: &Arc<ActivityTracker>, apps: Vec<String>) -> Member {
        let mut state = activity.lock();
        let group = state.number();
        let entry = GroupEntry {
            apps,
            failure: None,
        };
        state.groups.insert(group, entry);
        Member {
            activity: Arc::clone(activity),
            group,
        }
    }

    /// Another source of the group; its number.
    pub fn enlist(&self, name: &str) -> usize {
        let mut state = self.activity.lock();
        let number = state.number();
        let entry = SourceEntry {
            group: self.group,
            name: name.to_owned(),
            state: SourceState::Running,
            has_begun: false,
            was_connected: false,
            has_no_port: false,
        };
        state.sources.insert(number, entry);
        number
    }

    /// Another sink of the group; its number.
    pub fn enlist_sink(&self, name: &str) -> usize {
        let mut state = self.activity.lock();
        let number = state.number();
        let entry = SinkEntry {
            group: self.group,
            name: name.to_owned(),
            was_tried: false,
            no_port: None,
        };
        state.sinks.insert(number, entry);
        number
    }

    /// A sink was connected, or not; `no_port`: why it cannot listen on its address.
    pub fn tried_sink(&self, sink: usize, no_port: Option<String>) {
        if let Some(entry) = self.activity.lock().sinks.get_mut(&sink) {
            entry.was_tried = true;
            entry.no_port = no_port;
        }
        self.activity.changed.notify_all();
    }

    /// The group cannot go on; when none is left that can, the server stops, unless it is only a trial.
    pub fn failed(&self, why: String, is_on_trial: bool) {
        let mut state = self.activity.lock();
        if let Some(entry) = state.groups.get_mut(&self.group) {
            entry.failure = Some(why);
        }
        let mut groups = state.groups.values();
        state.is_stopping |= !is_on_trial && groups.all(|group| group.failure.is_some());
        drop(state);
        self.activity.changed.notify_all();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.groups.remove(&self.group);
        state.sources.retain(|_, source| source.group != self.group);
        state.sinks.retain(|_, sink| sink.group != self.group);
        drop(state);
        self.activity.changed.notify_all();
    }
}

/// Where a source stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SourceState {
    Running,
    /// It has looked this often in a row and found nothing; the first of these looks began when the
    /// counter stood at `since`.
    Idle {
        since: u64,
        looks: u32,
    },
    /// It has read all there is, or was stopped.
    Ended,
    /// It cannot be reached and tries again later; the last try began when the counter stood here.
    Retrying {
        cause: String,
        since: u64,
    },
    /// It will not run again.
    Failed {
        cause: String,
    },
}

impl ActivityTracker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened.
    pub fn record(&self) {
        self.lock().count += 1;
        self.changed.notify_all();
    }

    pub fn count(&self) -> u64 {
        self.lock().count
    }

    pub fn set(&self, source: usize, to: SourceState) {
        if let Some(entry) = self.lock().sources.get_mut(&source) {
            entry.has_begun |= to != SourceState::Running;
            entry.was_connected |= to == SourceState::Ended;
            entry.has_no_port = false;
            entry.state = to;
        }
        self.changed.notify_all();
    }

    /// A source is ready (one that listens: its port is bound).
    pub fn begun(&self, source: usize) {
        if let Some(entry) = self.lock().sources.get_mut(&source) {
            entry.has_begun = true;
            entry.was_connected = true;
        }
        self.changed.notify_all();
    }

    /// A source is tried again later; `has_no_port`: it cannot listen on its address.
    pub fn retrying(&self, source: usize, cause: String, since: u64, has_no_port: bool) {
        // Both at once: whoever sees that it has begun sees how.
        if let Some(entry) = self.lock().sources.get_mut(&source) {
            entry.has_begun = true;
            entry.has_no_port = has_no_port;
            entry.state = SourceState::Retrying { cause, since };
        }
        self.changed.notify_all();
    }

    /// Has every sink been tried once?
    pub fn were_sinks_tried(&self) -> bool {
        self.lock().sinks.values().all(|entry| entry.was_tried)
    }

    /// Parts of these apps that no peer keeps from starting: a source that has failed, and what cannot listen on its
    /// address; each with the cause.
    pub fn not_started(&self, apps: &[String]) -> Vec<(String, String)> {
        let state = self.lock();
        let is_one = |name: &str| apps.iter().any(|app| is_of(name, app));
        let sources = state.sources.values().filter_map(|entry| {
            let cause = match &entry.state {
                SourceState::Failed { cause } => cause,
                SourceState::Retrying { cause, .. } if entry.has_no_port => cause,
                _ => return None,
            };
            Some((format!("source '{}'", entry.name), &entry.name, cause))
        });
        let sinks = state.sinks.values().filter_map(|entry| {
            let cause = entry.no_port.as_ref()?;
            Some((format!("sink '{}'", entry.name), &entry.name, cause))
        });
        sources
            .chain(sinks)
            .filter(|(_, name, _)| is_one(name))
            .map(|(what, _, cause)| (what, cause.clone()))
            .collect()
    }

    /// How an app is; one that nobody runs has failed.
    pub fn status_of(&self, app: &str) -> AppStatus {
        let state = self.lock();
        let mut groups = state.groups.values();
        let Some(group) = groups.find(|group| group.apps.iter().any(|own| own == app)) else {
            return AppStatus::Failed("it does not run: see the log".to_owned());
        };
        if let Some(why) = &group.failure {
            return AppStatus::Failed(why.clone());
        }
        let said = |entry: &SourceEntry, cause: &str| format!("source '{}': {cause}", entry.name);
        let mut status = AppStatus::Active;
        for entry in state
            .sources
            .values()
            .filter(|entry| is_of(&entry.name, app))
        {
            match &entry.state {
                SourceState::Failed { cause } => return AppStatus::Failed(said(entry, cause)),
                SourceState::Retrying { cause, .. } if !entry.was_connected => {
                    status = AppStatus::Starting(Some(said(entry, cause)));
                }
                _ if !entry.has_begun && status == AppStatus::Active => {
                    status = AppStatus::Starting(None);
                }
                _ => {}
            }
        }
        status
    }

    /// Has every source been connected, or said why it cannot be?
    pub fn have_sources_begun(&self) -> bool {
        self.lock().sources.values().all(|entry| entry.has_begun)
    }

    /// A source looked, beginning when the counter stood at `since`, and found nothing.
    pub fn found_nothing(&self, source: usize, since: u64) {
        if let Some(entry) = self.lock().sources.get_mut(&source) {
            let looks = match entry.state {
                SourceState::Idle {
                    since: first,
                    looks,
                } if first == since => looks + 1,
                _ => 1,
            };
            entry.state = SourceState::Idle { since, looks };
            entry.has_begun = true;
            entry.was_connected = true;
        }
        self.changed.notify_all();
    }

    /// Waits for a change, at most this long.
    pub fn wait_change(&self, at_most: Duration) {
        let state = self.lock();
        drop(
            self.changed
                .wait_timeout(state, at_most)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Wakes whoever waits, to look again.
    pub fn nudge(&self) {
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        self.lock().is_stopping = true;
        self.changed.notify_all();
    }

    pub fn set_grace(&self, grace: Duration) {
        self.lock().grace = grace;
    }

    /// How long a stop may take.
    pub fn grace(&self) -> Duration {
        self.lock().grace
    }

    pub fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Somebody wants the apps to be read again.
    pub fn ask_for_reload(&self) {
        self.lock().is_reload_asked = true;
        self.changed.notify_all();
    }

    /// Does somebody want the apps to be read again? He is answered with this.
    pub fn take_reload(&self) -> bool {
        std::mem::take(&mut self.lock().is_reload_asked)
    }

    /// Why groups of apps could not go on.
    pub fn failures(&self) -> Vec<String> {
        let state = self.lock();
        let failures = state.groups.values().filter_map(|g| g.failure.clone());
        failures.collect()
    }

    /// Sources that will not run again, and why.
    pub fn failed_sources(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let failed = state.sources.values();
        failed
            .filter_map(|entry| match &entry.state {
                SourceState::Failed { cause } => Some((entry.name.clone(), cause.clone())),
                _ => None,
            })
            .collect()
    }

    /// Is a source reading, or waiting for something to read?
    pub fn is_any_source_running(&self) -> bool {
        let state = self.lock();
        let mut sources = state.sources.values();
        sources.any(|entry| entry.state == SourceState::Running)
    }

    /// Have all sources read all there is?
    pub fn have_sources_settled(&self) -> bool {
        let state = self.lock();
        state.sources.values().all(|entry| match &entry.state {
            SourceState::Idle { since, looks } => *looks >= LOOKS && *since == state.count,
            SourceState::Ended | SourceState::Failed { .. } => true,
            SourceState::Running | SourceState::Retrying { .. } => false,
        })
    }

    /// Sources that cannot be reached, where nothing else is left to wait for: nothing has happened
    /// since they last tried.
    pub fn unreachable(&self) -> Option<Vec<(String, String)>> {
        let state = self.lock();
        let mut causes = Vec::new();
        for entry in state.sources.values() {
            match &entry.state {
                SourceState::Running => return None,
                SourceState::Idle { since, looks } if *looks < LOOKS || *since != state.count => {
                    return None;
                }
                SourceState::Retrying { since, .. } if *since != state.count => return None,
                SourceState::Retrying { cause, .. } => {
                    causes.push((entry.name.clone(), cause.clone()));
                }
                SourceState::Idle { .. } | SourceState::Ended | SourceState::Failed { .. } => {}
            }
        }
        (!causes.is_empty()).then_some(causes)
    }

    /// Waits for `is_done`, at most until `deadline`; false when it was late.
    pub fn wait_until(&self, deadline: Instant, is_done: impl Fn() -> bool) -> bool {
        loop {
            if is_done() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.wait_change(left.min(Duration::from_millis(50)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_settles_after_two_looks_behind_the_last_event() {
        let activity = Arc::new(ActivityTracker::default());
        let group = Member::of(&activity, Vec::new());
        let (file, dir) = (group.enlist("file"), group.enlist("dir"));
        activity.set(file, SourceState::Ended);
        activity.found_nothing(dir, 0);
        assert!(!activity.have_sources_settled());
        activity.found_nothing(dir, 0);
        assert!(activity.have_sources_settled());
        activity.record();
        assert!(!activity.have_sources_settled());
        activity.found_nothing(dir, 0);
        activity.found_nothing(dir, 1);
        assert!(!activity.have_sources_settled());
        activity.found_nothing(dir, 1);
        assert!(activity.have_sources_settled());
    }

    #[test]
    fn what_cannot_be_reached_is_told_when_all_others_are_done() {
        let activity = Arc::new(ActivityTracker::default());
        let group = Member::of(&activity, Vec::new());
        let (a, b) = (group.enlist("a"), group.enlist("b"));
        let retrying = SourceState::Retrying {
            cause: "no such folder".into(),
            since: 0,
        };
        activity.set(a, retrying);
        assert_eq!(activity.unreachable(), None);
        activity.found_nothing(b, 0);
        activity.found_nothing(b, 0);
        assert_eq!(
            activity.unreachable(),
            Some(vec![("a".to_owned(), "no such folder".to_owned())])
        );
        assert!(!activity.have_sources_settled());
    }

    #[test]
    fn the_server_stops_when_no_group_is_left() {
        let activity = Arc::new(ActivityTracker::default());
        let (first, second) = (
            Member::of(&activity, Vec::new()),
            Member::of(&activity, Vec::new()),
        );
        first.failed("first".into(), false);
        assert!(!activity.is_stopping());
        second.failed("second".into(), false);
        assert!(activity.is_stopping());
        assert_eq!(activity.failures(), ["first", "second"]);
    }

    #[test]
    fn an_app_is_active_once_its_sources_were_connected_and_until_it_fails() {
        let activity = Arc::new(ActivityTracker::default());
        let group = Member::of(&activity, vec!["A".to_owned(), "AB".to_owned()]);
        let (own, other) = (group.enlist("A/S[1]"), group.enlist("AB/S[1]"));
        assert_eq!(activity.status_of("A"), AppStatus::Starting(None));
        let retrying = |cause: &str| SourceState::Retrying {
            cause: cause.to_owned(),
            since: 0,
        };
        activity.retrying(own, "address in use".to_owned(), 0, true);
        let why = "source 'A/S[1]': address in use".to_owned();
        assert_eq!(activity.status_of("A"), AppStatus::Starting(Some(why)));
        let apps = ["A".to_owned()];
        let cause = ("source 'A/S[1]'".to_owned(), "address in use".to_owned());
        assert_eq!(activity.not_started(&apps), [cause]);
        activity.set(own, SourceState::Running);
        activity.begun(own);
        assert_eq!(activity.status_of("A"), AppStatus::Active);
        // A peer that goes away later is no start that fails.
        activity.set(own, retrying("refused"));
        assert_eq!(activity.status_of("A"), AppStatus::Active);
        assert!(activity.not_started(&apps).is_empty());
        let cause = "gone".to_owned();
        activity.set(other, SourceState::Failed { cause });
        assert_eq!(activity.status_of("A"), AppStatus::Active);
        assert!(matches!(activity.status_of("AB"), AppStatus::Failed(why) if why.contains("gone")));
        group.failed("broken".into(), false);
        assert_eq!(activity.status_of("A"), AppStatus::Failed("broken".into()));
        assert!(matches!(activity.status_of("X"), AppStatus::Failed(_)));
    }

    #[test]
    fn a_group_that_goes_takes_its_sources_and_its_failure_along() {
        let activity = Arc::new(ActivityTracker::default());
        let (stays, goes) = (
            Member::of(&activity, Vec::new()),
            Member::of(&activity, Vec::new()),
        );
        let (done, lost) = (stays.enlist("done"), goes.enlist("lost"));
        activity.set(done, SourceState::Ended);
        let cause = "gone".to_owned();
        activity.set(lost, SourceState::Failed { cause });
        goes.failed("goes".into(), false);
        assert_eq!(activity.failed_sources().len(), 1);
        drop(goes);
        assert!(activity.failures().is_empty() && activity.failed_sources().is_empty());
        // What its threads still say is not heard.
        activity.set(lost, SourceState::Running);
        assert!(activity.have_sources_settled());
    }
}
