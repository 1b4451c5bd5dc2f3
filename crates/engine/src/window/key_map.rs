//! Values by the text of a key, with the order in which Java's hash maps iterate over them.

use std::hash::BuildHasher;

use event::codec::{Error as StateError, Reader, Writer};
use event::text;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::pool::{Slot, Visit};
use crate::emission::Emission;
use crate::hash_order::{BUCKETS, bucket, buckets_for};

/// Seed of the hash of key texts; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a map keeps of a key whose row lies in a pool.
pub trait Placed {
    fn slot(&self) -> Slot;
}

impl Placed for Slot {
    fn slot(&self) -> Slot {
        *self
    }
}

struct Entry<V> {
    text: Box<str>,
    value: V,
}

/// A map in the order of insertion; a value that takes the place of another keeps its place.
pub struct KeyMap<V> {
    table: HashTable<u32>,
    /// `None` where one was taken out.
    entries: Vec<Option<Entry<V>>>,
    /// As many as the map would have in Java; they never become fewer.
    buckets: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        KeyMap {
            table: HashTable::new(),
            entries: Vec::new(),
            buckets: BUCKETS,
        }
    }
}

fn hash(text: &str) -> u64 {
    FixedState::with_seed(SEED).hash_one(text)
}

impl<V: Placed> KeyMap<V> {
    /// Keys that are over leave with their rows, as EXPIRED, in the order of Java's map.
    pub fn expire(
        &mut self,
        is_over: impl Fn(&V) -> bool,
        visit: &mut Visit<'_>,
        clock: i64,
        out: &mut Emission,
    ) {
        let all = self.by_text_hash().into_iter();
        let over = all.filter(|(_, value)| is_over(value));
        let gone: Vec<(String, Slot)> = over
            .map(|(key, value)| (key.to_owned(), value.slot()))
            .collect();
        for (key, slot) in gone {
            self.remove(&key);
            visit.emit(slot, true, Some(clock), out);
            visit.remove(slot);
        }
    }
}

impl<V> KeyMap<V> {
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn find(&self, text: &str) -> Option<usize> {
        let is_it = |&at: &u32| self.text_at(at) == Some(text);
        self.table.find(hash(text), is_it).map(|&at| at as usize)
    }

    fn text_at(&self, at: u32) -> Option<&str> {
        self.entries[at as usize].as_ref().map(|e| &*e.text)
    }

    pub fn get(&self, text: &str) -> Option<&V> {
        let at = self.find(text)?;
        self.entries[at].as_ref().map(|e| &e.value)
    }

    pub fn get_mut(&mut self, text: &str) -> Option<&mut V> {
        let at = self.find(text)?;
        self.entries[at].as_mut().map(|e| &mut e.value)
    }

    /// Returns the value whose place it takes.
    pub fn insert(&mut self, text: &str, value: V) -> Option<V> {
        if let Some(old) = self.get_mut(text) {
            return Some(std::mem::replace(old, value));
        }
        if self.entries.len() > 2 * self.len() + BUCKETS {
            self.close_gaps();
        }
        let at = self.entries.len() as u32;
        self.entries.push(Some(Entry {
            text: Box::from(text),
            value,
        }));
        let entries = &self.entries;
        let rehash = |&at: &u32| entries[at as usize].as_ref().map_or(0, |e| hash(&e.text));
        self.table.insert_unique(hash(text), at, rehash);
        self.buckets = buckets_for(self.len(), self.buckets);
        None
    }

    /// The value of a key, begun where there is none.
    pub fn entry(&mut self, text: &str, begin: impl FnOnce() -> V) -> &mut V {
        let at = match self.find(text) {
            Some(at) => at,
            None => {
                self.insert(text, begin());
                self.entries.len() - 1
            }
        };
        let entry = self.entries[at].as_mut();
        &mut entry.expect("what was found or put in is there").value
    }

    /// Where a key stands in the order of a Java map: its bucket, and its place among those there.
    pub fn place(&self, text: &str) -> Option<(usize, usize)> {
        let bucket = bucket(text::java_hash(text), self.buckets);
        Some((bucket, self.find(text)?))
    }

    pub fn remove(&mut self, text: &str) -> Option<V> {
        let at = self.find(text)?;
        if let Ok(entry) = self.table.find_entry(hash(text), |&e| e as usize == at) {
            entry.remove();
        }
        self.entries[at].take().map(|e| e.value)
    }

    fn close_gaps(&mut self) {
        self.entries.retain(Option::is_some);
        self.table.clear();
        let entries = &self.entries;
        let of = |at: &u32| entries[*at as usize].as_ref().map_or(0, |e| hash(&e.text));
        for at in 0..entries.len() as u32 {
            self.table.insert_unique(of(&at), at, of);
        }
    }

    pub fn clear(&mut self) {
        self.table.clear();
        self.entries.clear();
    }

    /// In the order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        let entries = self.entries.iter().flatten();
        entries.map(|e| (&*e.text, &e.value))
    }

    pub fn for_each_mut(&mut self, mut visit: impl FnMut(&str, &mut V)) {
        let entries = self.entries.iter_mut().flatten();
        entries.for_each(|e| visit(&e.text, &mut e.value));
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().flatten().map(|e| &mut e.value)
    }

    /// In the order in which a Java `HashMap` iterates; `code` is `hashCode` of the key.
    pub fn in_hash_order(&self, code: impl Fn(&str, &V) -> i32) -> Vec<(&str, &V)> {
        let mut entries: Vec<_> = self.iter().collect();
        entries.sort_by_cached_key(|(text, v)| bucket(code(text, v), self.buckets));
        entries
    }

    /// As [`KeyMap::in_hash_order`] where keys are texts in Java too.
    pub fn by_text_hash(&self) -> Vec<(&str, &V)> {
        self.in_hash_order(|text, _| text::java_hash(text))
    }

    pub fn bytes(&self) -> usize {
        let texts: usize = self.iter().map(|(text, _)| text.len()).sum();
        texts
            + self.entries.capacity() * size_of::<Option<Entry<V>>>()
            + self.table.capacity() * size_of::<u32>()
    }

    pub fn save(&self, writer: &mut Writer, mut value: impl FnMut(&V, &mut Writer)) {
        writer.u64(self.buckets as u64);
        writer.count(self.len());
        for (text, v) in self.iter() {
            writer.str(text);
            value(v, writer);
        }
    }

    pub fn restore(
        reader: &mut Reader<'_>,
        mut value: impl FnMut(&mut Reader<'_>) -> Result<V, StateError>,
    ) -> Result<KeyMap<V>, StateError> {
        let buckets = usize::try_from(reader.u64()?).unwrap_or(0);
        let mut map = KeyMap::default();
        for _ in 0..reader.count()? {
            let text = reader.str()?;
            let value = value(reader)?;
            if map.insert(text, value).is_some() {
                return Err(StateError::Mismatch(format!("the key '{text}' twice")));
            }
        }
        if !buckets.is_power_of_two() || buckets < map.buckets {
            return Err(StateError::Mismatch(format!("{buckets} buckets")));
        }
        map.buckets = buckets;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_keep_their_order_when_others_leave() {
        let mut map = KeyMap::default();
        for i in 0..1000 {
            assert_eq!(
                map.insert(&format!("k{}", i % 150), i),
                (i >= 150).then(|| i - 150)
            );
            if i % 3 == 0 {
                map.remove(&format!("k{}", i % 150));
                map.insert(&format!("k{}", i % 150), i);
            }
        }
        map.remove("k7");
        let values: Vec<i32> = map.iter().map(|(_, v)| *v).collect();
        assert_eq!((map.len(), values.len()), (149, 149));
        assert!(map.iter().all(|(text, v)| *text == format!("k{}", v % 150)));
        assert_eq!((map.get("k8"), map.get("k7")), (Some(&908), None));
        let mut writer = Writer::default();
        map.save(&mut writer, |v, w| w.u32(*v as u32));
        let mut reader = Reader::new(&writer.bytes);
        let restored = KeyMap::restore(&mut reader, |r| r.u32()).expect("it was saved");
        assert!(restored.iter().map(|(_, v)| *v as i32).eq(values));
    }

    #[test]
    fn the_order_of_java() {
        let mut map = KeyMap::default();
        for text in ["name", "age", "citizen", "bar"] {
            map.insert(text, ());
        }
        let order: Vec<_> = map
            .by_text_hash()
            .into_iter()
            .map(|(text, ())| text)
            .collect();
        assert_eq!(order, ["citizen", "bar", "name", "age"]);
    }
}
