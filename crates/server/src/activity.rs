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
    /// Groups of apps by number, and why one could not go on.
    groups: BTreeMap<usize, Option<String>>,
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
    pub fn of(activity: &Arc<ActivityTracker>) -> Member {
        let mut state = activity.lock();
        let group = state.number();
        state.groups.insert(group, None);
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
        };
        state.sources.insert(number, entry);
        number
    }

    /// The group cannot go on; when none is left that can, the server stops.
    pub fn failed(&self, why: String) {
        let mut state = self.activity.lock();
        state.groups.insert(self.group, Some(why));
        state.is_stopping |= state.groups.values().all(Option::is_some);
        drop(state);
        self.activity.changed.notify_all();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.groups.remove(&self.group);
        state.sources.retain(|_, source| source.group != self.group);
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
            entry.state = to;
        }
        self.changed.notify_all();
    }

    /// A source is ready (one that listens: its port is bound), or has said why it is not.
    pub fn begun(&self, source: usize) {
        if let Some(entry) = self.lock().sources.get_mut(&source) {
            entry.has_begun = true;
        }
        self.changed.notify_all();
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
        self.lock().groups.values().flatten().cloned().collect()
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
        let group = Member::of(&activity);
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
        let group = Member::of(&activity);
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
        let (first, second) = (Member::of(&activity), Member::of(&activity));
        first.failed("first".into());
        assert!(!activity.is_stopping());
        second.failed("second".into());
        assert!(activity.is_stopping());
        assert_eq!(activity.failures(), ["first", "second"]);
    }

    #[test]
    fn a_group_that_goes_takes_its_sources_and_its_failure_along() {
        let activity = Arc::new(ActivityTracker::default());
        let (stays, goes) = (Member::of(&activity), Member::of(&activity));
        let (done, lost) = (stays.enlist("done"), goes.enlist("lost"));
        activity.set(done, SourceState::Ended);
        let cause = "gone".to_owned();
        activity.set(lost, SourceState::Failed { cause });
        goes.failed("goes".into());
        assert_eq!(activity.failed_sources().len(), 1);
        drop(goes);
        assert!(activity.failures().is_empty() && activity.failed_sources().is_empty());
        // What its threads still say is not heard.
        activity.set(lost, SourceState::Running);
        assert!(activity.have_sources_settled());
    }
}
