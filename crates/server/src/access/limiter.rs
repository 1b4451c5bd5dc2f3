//! Slows down whoever guesses passwords or tokens.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Failures that cost nothing: people mistype.
const FREE: u32 = 5;

/// The longest wait. It doubles from a second with each failure.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// After this time without a failure all is forgotten.
const FORGET: Duration = Duration::from_secs(15 * 60);

/// Addresses and names that are remembered.
const KNOWN_MAX: usize = 4096;

/// What failures are counted by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    /// Of IPv6 the network of 64 bits, all of which belongs to one.
    Address(IpAddr),
    User(String),
}

impl Key {
    pub fn address(address: IpAddr) -> Key {
        Key::Address(match address {
            IpAddr::V6(address) => {
                let bits = address.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(bits.into())
            }
            address => address,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Limiter {
    known: HashMap<Key, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn wait(self) -> Duration {
        match self.count.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(over) => Duration::from_secs(1 << over.min(6)).min(WAIT_MAX),
        }
    }
}

impl Limiter {
    /// How long one of these must wait before it may try again.
    pub fn wait(&self, keys: &[Key], now: Instant) -> Option<Duration> {
        let waits = keys.iter().filter_map(|key| self.known.get(key));
        waits
            .map(|f| f.wait().saturating_sub(now.duration_since(f.last)))
            .max()
            .filter(|wait| !wait.is_zero())
    }

    pub fn failed(&mut self, keys: Vec<Key>, now: Instant) {
        for key in keys {
            if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&key) {
                self.make_room(now);
            }
            let failures = self.known.entry(key).or_insert(Failures {
                count: 0,
                last: now,
            });
            if now.duration_since(failures.last) > FORGET {
                failures.count = 0;
            }
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    pub fn succeeded(&mut self, keys: &[Key]) {
        for key in keys {
            self.known.remove(key);
        }
    }

    /// Forgets what is old, or else the oldest of those with the fewest failures: who has many names
    /// cannot have himself forgotten by them.
    fn make_room(&mut self, now: Instant) {
        self.known
            .retain(|_, failures| now.duration_since(failures.last) <= FORGET);
        if self.known.len() >= KNOWN_MAX {
            let least = self.known.iter().min_by_key(|(_, f)| (f.count, f.last));
            if let Some(key) = least.map(|(key, _)| key.clone()) {
                self.known.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_failure_costs_time_and_each_more_costs_twice_as_much() {
        let mut limiter = Limiter::default();
        let key = Key::address(IpAddr::from([10, 0, 0, 1]));
        let keys = [key.clone()];
        let now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..13 {
            limiter.failed(keys.to_vec(), now);
            waits.push(limiter.wait(&keys, now).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(limiter.wait(&keys, now + WAIT_MAX), None);
        let other = [Key::address(IpAddr::from([10, 0, 0, 2]))];
        assert_eq!(limiter.wait(&other, now), None);
        let both = [other[0].clone(), key.clone()];
        assert_eq!(limiter.wait(&both, now), Some(WAIT_MAX));
        limiter.failed(keys.to_vec(), now + FORGET + Duration::from_secs(1));
        assert_eq!(limiter.known[&key].count, 1, "the others are forgotten");
        limiter.succeeded(&keys);
        assert!(limiter.known.is_empty());
    }

    #[test]
    fn many_names_take_no_memory_and_hide_nobody() {
        let mut limiter = Limiter::default();
        let guesser = Key::address("2001:db8::1".parse().expect("an address"));
        assert_eq!(
            guesser,
            Key::address("2001:db8::2".parse().expect("an address"))
        );
        let now = Instant::now();
        for n in 0..3 * KNOWN_MAX {
            let keys = vec![guesser.clone(), Key::User(format!("user{n}"))];
            limiter.failed(keys, now);
        }
        assert_eq!(limiter.known.len(), KNOWN_MAX);
        assert_eq!(limiter.wait(&[guesser], now), Some(WAIT_MAX));
    }
}
