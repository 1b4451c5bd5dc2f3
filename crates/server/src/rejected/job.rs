//! A replay at work or done: how far it is, and how to end it early.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::sync::watch;

/// Causes that are told apart of what was not replayed.
const CAUSES_MAX: usize = 100;

/// A replay at work or done.
pub struct ReplayJob {
    progress: Mutex<Progress>,
    /// Counts the events that failed again.
    pub(crate) again: Arc<AtomicU64>,
    is_done: watch::Sender<bool>,
    is_cancelled: Mutex<bool>,
    cancelled: Condvar,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub number: u64,
    pub is_dry_run: bool,
    /// Events that are meant.
    pub total: u64,
    /// Handed over, or looked at in a dry run.
    pub sent: u64,
    /// Handed over and saved, and removed.
    pub replayed: u64,
    /// Not replayed, and why, with the number of one of them.
    pub skipped: BTreeMap<String, (u64, u64)>,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl ReplayJob {
    /// The replay of this number, which is about to begin.
    pub(crate) fn new(number: u64, is_dry_run: bool) -> ReplayJob {
        ReplayJob {
            progress: Mutex::new(Progress {
                number,
                is_dry_run,
                ..Progress::default()
            }),
            again: Arc::default(),
            is_done: watch::Sender::new(false),
            is_cancelled: Mutex::new(false),
            cancelled: Condvar::new(),
        }
    }

    pub(crate) fn finish(&self) {
        self.is_done.send_replace(true);
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_done(&self) -> bool {
        *self.is_done.borrow()
    }

    pub fn cancel(&self) {
        *self.cancel_lock() = true;
        self.cancelled.notify_all();
    }

    fn cancel_lock(&self) -> MutexGuard<'_, bool> {
        self.is_cancelled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.cancel_lock()
    }

    /// Waits for this long, unless it is cancelled.
    pub(crate) fn pause(&self, at_most: Duration) {
        let is_cancelled = self.cancel_lock();
        let waited = self
            .cancelled
            .wait_timeout_while(is_cancelled, at_most, |is_cancelled| !*is_cancelled);
        drop(waited);
    }

    /// Until it is done, or for this long.
    pub async fn wait(&self, at_most: Duration) {
        let mut done = self.is_done.subscribe();
        // The sender is this job itself, so it does not go.
        tokio::time::timeout(at_most, done.wait_for(|done| *done))
            .await
            .ok();
    }

    /// How far it is.
    pub fn json(&self) -> Json {
        let (is_done, is_cancelled) = (self.is_done(), self.is_cancelled());
        let progress = self.progress().clone();
        let state = match (is_done, &progress.failure, is_cancelled) {
            (false, ..) => "running",
            (_, Some(_), _) => "failed",
            (_, None, true) => "cancelled",
            (_, None, false) => "done",
        };
        let skipped: Vec<Json> = progress
            .skipped
            .iter()
            .map(|(cause, (count, example))| {
                json!({ "cause": cause, "count": count, "example": example })
            })
            .collect();
        json!({
            "id": progress.number,
            "state": state,
            "dry_run": progress.is_dry_run,
            "total": progress.total,
            "sent": progress.sent,
            "replayed": progress.replayed,
            "failed_again": self.again.load(Ordering::Relaxed),
            "skipped": skipped,
            "message": progress.failure,
        })
    }

    pub(crate) fn skip(&self, cause: &str, number: u64) {
        let mut progress = self.progress();
        let has_room = progress.skipped.len() < CAUSES_MAX;
        let cause = match has_room || progress.skipped.contains_key(cause) {
            true => cause,
            false => "other causes",
        };
        let entry = progress.skipped.entry(cause.to_owned());
        entry.or_insert((0, number)).0 += 1;
    }
}
