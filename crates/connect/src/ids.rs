//! Unique ids of messages, clients and requests.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Random (version 4) UUIDs: a keyed hash, with keys from the system, of a counter.
#[derive(Default)]
pub struct Ids {
    keys: [RandomState; 2],
    count: AtomicU64,
}

impl Ids {
    pub fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [&self.keys[0], &self.keys[1]].map(|key| key.hash_one(count));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_four() {
        let ids = Ids::default();
        let (a, b) = (ids.next(), ids.next());
        assert_ne!(a, b);
        let parts: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{a}");
        assert_eq!(a.as_bytes()[14], b'4');
        assert!(matches!(a.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{a}");
    }
}
