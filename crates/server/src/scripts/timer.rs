//! The thread that begins scripts at their times.

use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Refused, Scripts};
use crate::clock;

/// The clock may be set: it is looked at again after so long at most.
const LOOK_MAX: Duration = Duration::from_secs(10);

pub(super) fn start(scripts: Scripts) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("scripts".to_owned())
        .spawn(move || run(&scripts))
}

/// Until the server stops and no script runs any more.
fn run(scripts: &Scripts) {
    loop {
        let now = clock::wall_millis();
        due(scripts, now)
            .iter()
            .for_each(|name| begin(scripts, name));
        let entries = scripts.lock();
        let is_stopping = *scripts.0.stop.borrow();
        if is_stopping && entries.values().all(|entry| entry.running.is_none()) {
            return;
        }
        let next = entries.values().filter_map(|entry| entry.next).min();
        let wait = match next {
            Some(next) if !is_stopping => {
                let millis = u64::try_from(next - now).unwrap_or(0);
                Duration::from_millis(millis).min(LOOK_MAX)
            }
            _ => LOOK_MAX,
        };
        // All that notifies has changed something under the lock.
        let woken = scripts.0.changed.wait_timeout(entries, wait);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The scripts whose time has come; they get their next.
fn due(scripts: &Scripts, now: i64) -> Vec<String> {
    let mut entries = scripts.lock();
    let mut due = Vec::new();
    for entry in entries.values_mut().filter(|entry| !entry.is_gone) {
        if entry.next.is_some_and(|next| next <= now) {
            entry.next = scripts.next(&entry.definition, now);
            due.push(entry.definition.name.clone());
        }
    }
    due
}

fn begin(scripts: &Scripts, name: &str) {
    if scripts.begin(name, None) != Err(Refused::Busy) {
        return;
    }
    let mut entries = scripts.lock();
    if let Some(entry) = entries.get_mut(name) {
        entry.late += 1;
        let since = entry
            .running
            .as_ref()
            .map(|run| clock::utc_text(run.started));
        tracing::warn!(
            script = name,
            since,
            "script is still running: the run that is due now is left out"
        );
    }
}
