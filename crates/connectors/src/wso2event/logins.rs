//! Who is logged in: sessions of the receiver, and addresses that try passwords.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Sessions that are known at once; beyond them the one that was unused for longest ends.
const SESSIONS_MAX: usize = 1 << 14;

/// Wrong passwords that an address may try in [`WINDOW`]; with more of them it waits for the next.
const WRONG_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1 << 14;

/// Bytes of an id that nobody guesses.
const ID_BYTES: usize = 16;

#[derive(Default)]
pub(super) struct Logins {
    /// When each was used last.
    sessions: Mutex<HashMap<String, Instant>>,
    /// Since when an address has tried so many wrong passwords.
    wrong: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl Logins {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> MutexGuard<'_, HashMap<IpAddr, (Instant, u32)>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an address waits before it is heard again.
    pub fn pause(&self, address: IpAddr) -> Duration {
        let wrong = self.wrong();
        let tried = wrong.get(&address).filter(|(_, count)| *count > WRONG_MAX);
        tried.map_or(Duration::ZERO, |(since, _)| {
            WINDOW.saturating_sub(since.elapsed())
        })
    }

    /// An address has given a wrong password.
    pub fn note_wrong(&self, address: IpAddr) {
        let mut wrong = self.wrong();
        wrong.retain(|_, (since, _)| since.elapsed() < WINDOW);
        if wrong.len() < ADDRESSES_MAX || wrong.contains_key(&address) {
            wrong.entry(address).or_insert((Instant::now(), 0)).1 += 1;
        }
    }

    /// A new session; `None`: the system has no random numbers.
    pub fn open(&self, idle: Duration) -> Option<String> {
        let mut bytes = [0; ID_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.sessions();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, used| used.elapsed() < idle);
        }
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) = sessions
                .iter()
                .min_by_key(|(_, used)| **used)
                .map(|(id, _)| id.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(id.clone(), Instant::now());
        Some(id)
    }

    /// Is there such a session? Then it has been used.
    pub fn is_open(&self, id: &str, idle: Duration) -> bool {
        let mut sessions = self.sessions();
        match sessions.get_mut(id) {
            Some(used) if used.elapsed() < idle => {
                *used = Instant::now();
                true
            }
            Some(_) => {
                sessions.remove(id);
                false
            }
            None => false,
        }
    }

    pub fn close(&self, id: &str) {
        self.sessions().remove(id);
    }
}

/// Has one of the users this name and password? How long the answer takes tells nothing about either.
pub(super) fn is_user(users: &[(String, String)], name: &str, password: &str) -> bool {
    let is_same = |a: &str, b: &str| {
        digest(&SHA256, a.as_bytes()).as_ref() == digest(&SHA256, b.as_bytes()).as_ref()
    };
    let found = users
        .iter()
        .map(|(user, secret)| is_same(user, name) & is_same(secret, password));
    found.fold(false, |any, found| any | found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn a_session_lasts_while_it_is_used() {
        let logins = Logins::default();
        let (a, b) = (logins.open(IDLE), logins.open(IDLE));
        let (a, b) = (a.expect("random numbers"), b.expect("random numbers"));
        assert_ne!(a, b);
        assert!(logins.is_open(&a, IDLE) && logins.is_open(&b, IDLE) && !logins.is_open("", IDLE));
        assert!(!logins.is_open(&a, Duration::ZERO), "its time is over");
        assert!(!logins.is_open(&a, IDLE), "for good");
        logins.close(&b);
        assert!(!logins.is_open(&b, IDLE));
    }

    #[test]
    fn sessions_are_bounded() {
        let logins = Logins::default();
        let first = logins.open(IDLE).expect("random numbers");
        (0..SESSIONS_MAX).for_each(|_| drop(logins.open(IDLE)));
        assert_eq!(logins.sessions().len(), SESSIONS_MAX);
        assert!(!logins.is_open(&first, IDLE), "it was unused for longest");
    }

    #[test]
    fn an_address_that_tries_passwords_waits() {
        let logins = Logins::default();
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        (0..WRONG_MAX).for_each(|_| logins.note_wrong(one));
        assert_eq!(logins.pause(one), Duration::ZERO);
        logins.note_wrong(one);
        assert!(logins.pause(one) > WINDOW / 2);
        assert_eq!(logins.pause(other), Duration::ZERO);
    }

    #[test]
    fn names_and_passwords_belong_together() {
        let users = [("a", "1"), ("b", "2")].map(|(n, p)| (n.to_owned(), p.to_owned()));
        assert!(is_user(&users, "a", "1") && is_user(&users, "b", "2"));
        for (name, password) in [("a", "2"), ("a", ""), ("c", "1"), ("", "")] {
            assert!(!is_user(&users, name, password));
        }
    }
}
