//! The partitions that a source reads: what was read, what is done, what is committed, and the
//! position that is saved with the app.

use std::collections::HashMap;
use std::sync::Arc;

use super::sequence::Seen;
use connect::component::{PositionText, Sequence};

/// First byte of a saved position.
const VERSION: u8 = 1;

/// One partition of a topic. Offsets are those of the record that is next.
#[derive(Debug)]
pub(super) struct Part {
    pub topic: Arc<str>,
    pub partition: i32,
    /// As people know it, for what is rejected.
    pub input: Arc<str>,
    /// Number of the consumer that owns it now.
    pub owner: Option<usize>,
    pub next: i64,
    /// All before it is where the delivery label says.
    done: i64,
    committed: i64,
}

/// Offsets that were read with a post.
#[derive(Debug)]
struct Posted {
    sequence: Sequence,
    /// Index of the part, and its `next`.
    offsets: Vec<(usize, i64)>,
}

#[derive(Default, Debug)]
pub(super) struct Partitions {
    pub all: Vec<Part>,
    /// The part of the last record: mostly that of the next one as well.
    last: usize,
    posted: std::collections::VecDeque<Posted>,
    /// Parts that were read since the last post.
    touched: Vec<usize>,
    pub seen: Seen,
}

impl Partitions {
    pub fn find(&self, topic: &str, partition: i32) -> Option<usize> {
        self.all
            .iter()
            .position(|part| part.partition == partition && *part.topic == *topic)
    }

    /// Those that a consumer owns now.
    pub fn of(&self, member: usize) -> impl Iterator<Item = &Part> {
        let owned = move |part: &&Part| part.owner == Some(member);
        self.all.iter().filter(owned)
    }

    /// The part, made where it is not known. `next` is where a new one begins, -1 where nobody knows.
    pub fn part(&mut self, topic: &str, partition: i32) -> usize {
        self.find(topic, partition).unwrap_or_else(|| {
            self.all.push(Part {
                topic: Arc::from(topic),
                partition,
                input: Arc::from(format!("topic '{topic}' partition {partition}")),
                owner: None,
                next: -1,
                done: -1,
                committed: -1,
            });
            self.all.len() - 1
        })
    }

    /// A record was read.
    #[inline]
    pub fn read(&mut self, topic: &str, partition: i32, offset: i64) -> &Part {
        let is_last = self
            .all
            .get(self.last)
            .is_some_and(|part| part.partition == partition && *part.topic == *topic);
        if !is_last {
            self.last = self.part(topic, partition);
        }
        self.read_at(self.last, offset)
    }

    /// A record of a part was read.
    #[inline]
    pub fn read_at(&mut self, index: usize, offset: i64) -> &Part {
        self.all[index].next = offset + 1;
        if self.touched.last() != Some(&index) && !self.touched.contains(&index) {
            self.touched.push(index);
        }
        &self.all[index]
    }

    pub fn has_read(&self) -> bool {
        !self.touched.is_empty()
    }

    /// What was read has been posted.
    pub fn posted(&mut self, sequence: Sequence) {
        let offsets = self
            .touched
            .drain(..)
            .map(|index| (index, self.all[index].next))
            .collect();
        self.posted.push_back(Posted { sequence, offsets });
    }

    /// Everything up to this post is done.
    pub fn acknowledged(&mut self, sequence: Sequence) {
        while let Some(posted) = self.posted.front()
            && posted.sequence <= sequence
        {
            for (index, next) in &posted.offsets {
                let part = &mut self.all[*index];
                part.done = part.done.max(*next);
            }
            self.posted.pop_front();
        }
    }

    pub fn is_all_done(&self) -> bool {
        self.posted.is_empty()
    }

    /// What this consumer may commit now: topic, partition, offset.
    pub fn to_commit(&self, owner: usize) -> Vec<(Arc<str>, i32, i64)> {
        self.all
            .iter()
            .filter(|part| part.owner == Some(owner) && part.done > part.committed)
            .map(|part| (Arc::clone(&part.topic), part.partition, part.done))
            .collect()
    }

    pub fn committed(&mut self, commits: &[(Arc<str>, i32, i64)]) {
        for (topic, partition, offset) in commits {
            let index = self.part(topic, *partition);
            self.all[index].committed = *offset;
        }
    }

    /// Another consumer, or none, owns it now, and reads on from `next` (-1: wherever it finds).
    pub fn give(&mut self, index: usize, owner: Option<usize>, next: i64) {
        let part = &mut self.all[index];
        part.owner = owner;
        part.next = next;
        part.done = next;
        part.committed = next;
        for posted in &mut self.posted {
            posted.offsets.retain(|(of, _)| *of != index);
        }
        self.touched.retain(|of| *of != index);
    }

    /// For a person: the offset that is read next, of each partition.
    pub fn text(&self) -> PositionText {
        let known = self.all.iter().filter(|part| part.next >= 0);
        let text = known.map(|part| (part.input.to_string(), format!("offset {}", part.next)));
        text.collect()
    }

    // ---- the saved form ----

    pub fn save(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(VERSION);
        let known = || self.all.iter().filter(|part| part.next >= 0);
        put_count(out, known().count());
        for part in known() {
            put_text(out, &part.topic);
            out.extend_from_slice(&part.partition.to_le_bytes());
            out.extend_from_slice(&part.next.to_le_bytes());
        }
        put_count(out, self.seen.entries().count());
        for (id, partition, last) in self.seen.entries() {
            put_text(out, id);
            out.extend_from_slice(&partition.to_le_bytes());
            out.extend_from_slice(&last.to_le_bytes());
        }
    }

    /// `None`: this is no such position.
    pub fn restore(saved: &[u8]) -> Option<Partitions> {
        let mut partitions = Partitions::default();
        let (version, mut rest) = saved.split_first()?;
        if *version != VERSION {
            return None;
        }
        let offsets = get_entries(&mut rest)?;
        for ((topic, partition), next) in offsets {
            let index = partitions.part(&topic, partition);
            let part = &mut partitions.all[index];
            (part.next, part.done) = (next, next);
        }
        for ((id, partition), last) in get_entries(&mut rest)? {
            partitions.seen.set(&id, partition, last);
        }
        rest.is_empty().then_some(partitions)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*bytes)
}

fn get_entries(rest: &mut &[u8]) -> Option<HashMap<(String, i32), i64>> {
    let count = u32::from_le_bytes(take(rest)?);
    let mut entries = HashMap::new();
    for _ in 0..count {
        let length = u32::from_le_bytes(take(rest)?) as usize;
        let (text, behind) = rest.split_at_checked(length)?;
        *rest = behind;
        let text = std::str::from_utf8(text).ok()?.to_owned();
        let partition = i32::from_le_bytes(take(rest)?);
        entries.insert((text, partition), i64::from_le_bytes(take(rest)?));
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_done_is_committed_and_only_once() {
        let mut partitions = Partitions::default();
        for partition in 0..2 {
            let index = partitions.part("t", partition);
            partitions.give(index, Some(0), -1);
        }
        partitions.read("t", 0, 4);
        partitions.read("t", 1, 9);
        partitions.posted(1);
        partitions.read("t", 0, 5);
        partitions.posted(2);
        assert!(partitions.to_commit(0).is_empty());
        partitions.acknowledged(1);
        let commits = partitions.to_commit(0);
        let offsets: Vec<(i32, i64)> = commits.iter().map(|(_, p, o)| (*p, *o)).collect();
        assert_eq!(offsets, [(0, 5), (1, 10)]);
        partitions.committed(&commits);
        assert!(partitions.to_commit(0).is_empty());
        assert!(!partitions.is_all_done());
        // Taken away with a post on its way: nothing of it is committed any more.
        partitions.give(0, None, -1);
        partitions.acknowledged(2);
        assert!(partitions.to_commit(0).is_empty() && partitions.is_all_done());
    }

    #[test]
    fn a_position_comes_back_as_it_was_saved() {
        let mut partitions = Partitions::default();
        partitions.read("a", 0, 41);
        partitions.read("böse", 7, i64::MAX - 1);
        partitions.part("unread", 0);
        partitions.seen.set("id", 3, 12);
        let mut saved = Vec::new();
        partitions.save(&mut saved);
        let back = Partitions::restore(&saved).expect("a position");
        let next = |topic, partition| back.find(topic, partition).map(|i| back.all[i].next);
        assert_eq!(next("a", 0), Some(42));
        assert_eq!(next("böse", 7), Some(i64::MAX));
        assert_eq!(next("unread", 0), None);
        assert_eq!(back.seen.entries().collect::<Vec<_>>(), [("id", 3, 12)]);
        for cut in 0..saved.len() {
            assert!(Partitions::restore(&saved[..cut]).is_none(), "{cut}");
        }
    }
}
