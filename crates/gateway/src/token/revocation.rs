//! Tokens, keys, users and applications whose access was withdrawn before its time.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::principal::Principal;

/// What is revoked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Subject {
    /// One token, by `jti`.
    Token(String),
    /// One API key, by its id.
    ApiKey(String),
    /// All tokens of a user (`sub`) that were issued up to then.
    User(String),
    /// All tokens of a client or application, and its API keys, as far as they were issued up to then.
    Client(String),
}

/// One entry. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    pub subject: Subject,
    /// When; a token that was issued later counts again.
    pub at: i64,
    /// What is revoked has expired by then, so that the entry can go. `None`: never.
    pub until: Option<i64>,
}

/// All entries. Whoever holds a stream open is told of new ones.
pub struct Revocations {
    entries: RwLock<HashMap<Subject, Revocation>>,
    changes: watch::Sender<u64>,
}

impl Default for Revocations {
    fn default() -> Revocations {
        Revocations {
            entries: RwLock::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl Revocations {
    /// Takes effect at once: on every new request, and on the streams that live.
    pub fn add(&self, revocation: Revocation) {
        self.replace_by(|entries| {
            entries.insert(revocation.subject.clone(), revocation);
        });
    }

    /// Takes the place of all entries: those that were saved.
    pub fn set(&self, all: impl IntoIterator<Item = Revocation>) {
        let all = all.into_iter().map(|one| (one.subject.clone(), one));
        self.replace_by(|entries| *entries = all.collect());
    }

    /// Removes what has expired anyway.
    pub fn sweep(&self, now: SystemTime) {
        let now = seconds(now);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, one| one.until.is_none_or(|until| until > now));
    }

    fn replace_by(&self, change: impl FnOnce(&mut HashMap<Subject, Revocation>)) {
        change(&mut self.entries.write().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|version| *version += 1);
    }

    pub fn is_revoked(&self, principal: &Principal) -> bool {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if entries.is_empty() {
            return false;
        }
        if let Some(id) = &principal.id {
            let subject = match principal.is_api_key {
                true => Subject::ApiKey(id.clone()),
                false => Subject::Token(id.clone()),
            };
            if entries.contains_key(&subject) {
                return true;
            }
        }
        let is_covered = |subject: Subject| {
            let entry = entries.get(&subject);
            // What does not say when it was issued may be older.
            entry.is_some_and(|entry| principal.issued.is_none_or(|issued| issued <= entry.at))
        };
        let clients = [&principal.client, &principal.application];
        is_covered(Subject::User(principal.subject.clone()))
            || clients
                .into_iter()
                .flatten()
                .any(|client| is_covered(Subject::Client(client.clone())))
    }

    /// Returns when the principal is revoked.
    pub(super) async fn revoked(&self, principal: &Principal) {
        let mut changes = self.changes.subscribe();
        // The sender is part of `self`, so there is always a next change.
        while !self.is_revoked(principal) && changes.changed().await.is_ok() {}
    }
}

pub(super) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
