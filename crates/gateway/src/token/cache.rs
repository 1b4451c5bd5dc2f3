//! Tokens that were checked, by their digest, so that a storm of reconnects costs no signatures.
//!
//! Bounded: when the younger half is full it becomes the older half, and what was in that is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::principal::Principal;

/// Tokens of each half.
const HALF_MAX: usize = 32 << 10;

/// Bytes of the tokens of each half; what is kept of one is some times its size.
const HALF_BYTES_MAX: usize = 16 << 20;

/// SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// A token that was valid under one version of its issuer's keys.
#[derive(Clone)]
pub(super) struct Checked {
    pub principal: Arc<Principal>,
    /// Index of the issuer.
    pub issuer: usize,
    pub keys_version: u64,
    /// Length of the token.
    pub bytes: usize,
}

#[derive(Default)]
pub(super) struct Cache {
    halves: Mutex<Halves>,
}

#[derive(Default)]
struct Halves {
    young: HashMap<Digest, Checked>,
    young_bytes: usize,
    old: HashMap<Digest, Checked>,
}

impl Cache {
    pub fn get(&self, digest: &Digest) -> Option<Checked> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = halves.young.get(digest) {
            return Some(found.clone());
        }
        let found = halves.old.remove(digest)?;
        halves.insert(*digest, found.clone());
        Some(found)
    }

    pub fn insert(&self, digest: Digest, checked: Checked) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.insert(digest, checked);
    }

    pub fn remove(&self, digest: &Digest) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gone) = halves.young.remove(digest) {
            halves.young_bytes -= gone.bytes;
        }
        halves.old.remove(digest);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.young.len() + halves.old.len()
    }
}

impl Halves {
    fn insert(&mut self, digest: Digest, checked: Checked) {
        if self.young.len() >= HALF_MAX || self.young_bytes + checked.bytes > HALF_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += checked.bytes;
        if let Some(before) = self.young.insert(digest, checked) {
            self.young_bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use std::time::SystemTime;

    fn checked(bytes: usize) -> Checked {
        let principal = Principal {
            subject: "s".to_owned(),
            application: None,
            scopes: Vec::new(),
            claims: Map::new(),
            expires: Some(SystemTime::UNIX_EPOCH),
            issued: None,
            id: None,
            client: None,
            is_api_key: false,
        };
        Checked {
            principal: Arc::new(principal),
            issuer: 0,
            keys_version: 1,
            bytes,
        }
    }

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        digest
    }

    #[test]
    fn it_is_bounded_and_what_is_used_stays() {
        let cache = Cache::default();
        for number in 0..5 * HALF_MAX {
            cache.insert(digest(number), checked(100));
            if number % 1000 == 0 {
                assert!(
                    cache.get(&digest(0)).is_some(),
                    "used all the time: {number}"
                );
            }
        }
        assert!(cache.len() <= 2 * HALF_MAX);
        assert!(cache.get(&digest(1)).is_none());
        let large = Cache::default();
        for number in 0..10_000 {
            large.insert(digest(number), checked(16 << 10));
        }
        assert!(large.len() <= 2 * HALF_BYTES_MAX / (16 << 10));
        large.remove(&digest(9_999));
        assert!(large.get(&digest(9_999)).is_none());
    }
}
