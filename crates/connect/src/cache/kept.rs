//! The rows that a cache keeps, and which of them goes first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::Value;

/// Which row goes when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The one that came first.
    Fifo,
    /// The one that was not asked for the longest.
    Lru,
    /// The one that was asked for least often; of several, the one not asked for the longest.
    Lfu,
}

impl Policy {
    pub fn from_name(name: &str) -> Option<Policy> {
        match name.to_ascii_uppercase().as_str() {
            "FIFO" => Some(Policy::Fifo),
            "LRU" => Some(Policy::Lru),
            "LFU" => Some(Policy::Lfu),
            _ => None,
        }
    }
}

/// Rows by number, in the order in which they came.
pub struct Kept {
    size: usize,
    policy: Policy,
    rows: BTreeMap<u64, Entry>,
    by_key: HashMap<String, u64>,
    /// Rank and number; the first goes first.
    ranks: BTreeSet<(u64, u64, u64)>,
    next: u64,
    /// Counts uses.
    tick: u64,
}

struct Entry {
    row: Vec<Value>,
    key: Option<String>,
    /// Since when it is known, in milliseconds.
    since: i64,
    rank: (u64, u64),
}

impl Kept {
    pub fn new(size: usize, policy: Policy) -> Kept {
        Kept {
            size,
            policy,
            rows: BTreeMap::new(),
            by_key: HashMap::new(),
            ranks: BTreeSet::new(),
            next: 0,
            tick: 0,
        }
    }

    /// Most rows kept.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.by_key.clear();
        self.ranks.clear();
    }

    pub fn rows(&self) -> impl Iterator<Item = &[Value]> {
        self.rows.values().map(|entry| entry.row.as_slice())
    }

    /// The row of a key, which counts as a use of it.
    pub fn by_key(&mut self, key: &str) -> Option<&[Value]> {
        let id = *self.by_key.get(key)?;
        self.tick += 1;
        let entry = self.rows.get_mut(&id)?;
        let rank = match self.policy {
            Policy::Fifo => entry.rank,
            Policy::Lru => (0, self.tick),
            Policy::Lfu => (entry.rank.0 + 1, self.tick),
        };
        self.ranks.remove(&(entry.rank.0, entry.rank.1, id));
        self.ranks.insert((rank.0, rank.1, id));
        entry.rank = rank;
        Some(&entry.row)
    }

    /// Keeps a row, in place of the one of its key. True if another row had to go.
    pub fn put(&mut self, key: Option<String>, row: Vec<Value>, now: i64) -> bool {
        if let Some(key) = &key {
            self.remove_key(key);
        }
        let goes = self.rows.len() >= self.size;
        if goes && let Some((.., first)) = self.ranks.first().copied() {
            self.remove(first);
        }
        let id = self.next;
        self.next += 1;
        self.insert(id, key, row, now);
        goes
    }

    fn insert(&mut self, id: u64, key: Option<String>, row: Vec<Value>, now: i64) {
        self.tick += 1;
        let rank = match self.policy {
            Policy::Fifo | Policy::Lru => (0, self.tick),
            Policy::Lfu => (1, self.tick),
        };
        if let Some(key) = &key {
            self.by_key.insert(key.clone(), id);
        }
        self.ranks.insert((rank.0, rank.1, id));
        self.rows.insert(
            id,
            Entry {
                row,
                key,
                since: now,
                rank,
            },
        );
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(entry) = self.rows.remove(&id) else {
            return false;
        };
        if let Some(key) = &entry.key {
            self.by_key.remove(key);
        }
        self.ranks.remove(&(entry.rank.0, entry.rank.1, id));
        true
    }

    pub fn remove_key(&mut self, key: &str) -> bool {
        self.by_key
            .get(key)
            .copied()
            .is_some_and(|id| self.remove(id))
    }

    pub fn remove_where(&mut self, goes: impl Fn(&[Value]) -> bool) {
        let ids: Vec<u64> = self
            .rows
            .iter()
            .filter(|(_, e)| goes(&e.row))
            .map(|(id, _)| *id)
            .collect();
        ids.into_iter().for_each(|id| {
            self.remove(id);
        });
    }

    /// Puts `new` in the place of `old`; false if its key is that of another row.
    pub fn replace(
        &mut self,
        old: &[Value],
        key: Option<String>,
        new: Vec<Value>,
        now: i64,
    ) -> bool {
        let Some((&id, _)) = self.rows.iter().find(|(_, entry)| entry.row == old) else {
            return false;
        };
        let taken = key
            .as_ref()
            .and_then(|key| self.by_key.get(key))
            .is_some_and(|other| *other != id);
        if taken {
            return false;
        }
        self.remove(id);
        self.insert(id, key, new, now);
        true
    }

    /// Drops what is known since `before` or longer; true if anything was.
    pub fn expire(&mut self, before: i64) -> bool {
        let old: Vec<u64> = self
            .rows
            .iter()
            .filter(|(_, e)| e.since <= before)
            .map(|(id, _)| *id)
            .collect();
        let any = !old.is_empty();
        old.into_iter().for_each(|id| {
            self.remove(id);
        });
        any
    }
}
