//! Whether anything still happens in a server: how `--until-done` finds its end.
//!
//! A directory may be filled by another app of the same server, so that "nothing new" holds only
//! until the next thing happens anywhere. Each thing that happens (rows handed over, a file moved, a
//! function with effects called) moves a counter; a source has settled when it has looked again
//! since the counter last moved and found nothing.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks in a row that must find nothing.
const LOOKS: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Pulse {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    sources: Vec<SourceState>,
    is_stopping: bool,
    groups: usize,
    /// Why groups of apps could not go on.
    failures: Vec<String>,
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

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another source; its number.
    pub fn enlist(&self) -> usize {
        let mut state = self.lock();
        state.sources.push(SourceState::Running);
        state.sources.len() - 1
    }

    /// Something happened.
    pub fn beat(&self) {
        self.lock().count += 1;
        self.changed.notify_all();
    }

    pub fn count(&self) -> u64 {
        self.lock().count
    }

    pub fn set(&self, source: usize, to: SourceState) {
        self.lock().sources[source] = to;
        self.changed.notify_all();
    }

    /// A source looked, beginning when the counter stood at `since`, and found nothing.
    pub fn found_nothing(&self, source: usize, since: u64) {
        let mut state = self.lock();
        let looks = match state.sources[source] {
            SourceState::Idle {
                since: first,
                looks,
            } if first == since => looks + 1,
            _ => 1,
        };
        state.sources[source] = SourceState::Idle { since, looks };
        drop(state);
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

    pub fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Another group of apps.
    pub fn enlist_group(&self) {
        self.lock().groups += 1;
    }

    /// A group cannot go on; when none is left the server stops.
    pub fn group_failed(&self, why: String) {
        let mut state = self.lock();
        state.failures.push(why);
        state.is_stopping |= state.failures.len() >= state.groups;
        drop(state);
        self.changed.notify_all();
    }

    pub fn failures(&self) -> Vec<String> {
        self.lock().failures.clone()
    }

    /// Sources that will not run again, and why.
    pub fn failed_sources(&self) -> Vec<(usize, String)> {
        let state = self.lock();
        let failed = state.sources.iter().enumerate();
        failed
            .filter_map(|(source, s)| match s {
                SourceState::Failed { cause } => Some((source, cause.clone())),
                _ => None,
            })
            .collect()
    }

    /// Is a source reading, or waiting for something to read?
    pub fn is_any_source_running(&self) -> bool {
        let state = self.lock();
        state.sources.contains(&SourceState::Running)
    }

    /// Have all sources read all there is?
    pub fn have_sources_settled(&self) -> bool {
        let state = self.lock();
        state.sources.iter().all(|s| match s {
            SourceState::Idle { since, looks } => *looks >= LOOKS && *since == state.count,
            SourceState::Ended | SourceState::Failed { .. } => true,
            SourceState::Running | SourceState::Retrying { .. } => false,
        })
    }

    /// Sources that cannot be reached, where nothing else is left to wait for: nothing has happened
    /// since they last tried.
    pub fn unreachable(&self) -> Option<Vec<(usize, String)>> {
        let state = self.lock();
        let mut causes = Vec::new();
        for (source, s) in state.sources.iter().enumerate() {
            match s {
                SourceState::Running => return None,
                SourceState::Idle { since, looks } if *looks < LOOKS || *since != state.count => {
                    return None;
                }
                SourceState::Retrying { since, .. } if *since != state.count => return None,
                SourceState::Retrying { cause, .. } => causes.push((source, cause.clone())),
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
        let pulse = Pulse::default();
        let (file, dir) = (pulse.enlist(), pulse.enlist());
        pulse.set(file, SourceState::Ended);
        pulse.found_nothing(dir, 0);
        assert!(!pulse.have_sources_settled());
        pulse.found_nothing(dir, 0);
        assert!(pulse.have_sources_settled());
        pulse.beat();
        assert!(!pulse.have_sources_settled());
        pulse.found_nothing(dir, 0);
        pulse.found_nothing(dir, 1);
        assert!(!pulse.have_sources_settled());
        pulse.found_nothing(dir, 1);
        assert!(pulse.have_sources_settled());
    }

    #[test]
    fn what_cannot_be_reached_is_told_when_all_others_are_done() {
        let pulse = Pulse::default();
        let (a, b) = (pulse.enlist(), pulse.enlist());
        let retrying = SourceState::Retrying {
            cause: "no such folder".into(),
            since: 0,
        };
        pulse.set(a, retrying);
        assert_eq!(pulse.unreachable(), None);
        pulse.found_nothing(b, 0);
        pulse.found_nothing(b, 0);
        assert_eq!(
            pulse.unreachable(),
            Some(vec![(a, "no such folder".to_owned())])
        );
        assert!(!pulse.have_sources_settled());
    }

    #[test]
    fn the_server_stops_when_no_group_is_left() {
        let pulse = Pulse::default();
        pulse.enlist_group();
        pulse.enlist_group();
        pulse.group_failed("first".into());
        assert!(!pulse.is_stopping());
        pulse.group_failed("second".into());
        assert!(pulse.is_stopping());
        assert_eq!(pulse.failures(), ["first", "second"]);
    }
}
