//! Puts records that come from two clusters into the order of their numbers, each once.
//!
//! As `SourceSynchronizer`, but for each `sequence.id` of its own, and no record is held for longer
//! than it has to be: what lies before it is waited for until both clusters have passed it, its time is
//! over, or too much is held.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How long a gap is waited for.
pub(super) const GAP: Duration = Duration::from_millis(10);

/// Records of one sender that are held at once.
const HELD_MAX: usize = 1000;

pub(super) struct Order<T> {
    senders: HashMap<String, Sender<T>>,
}

struct Sender<T> {
    /// The number that was given last.
    last: Option<i64>,
    /// The highest number of each cluster.
    heard: [i64; 2],
    held: BTreeMap<i64, T>,
    /// Since when the first of them is held.
    since: Option<Instant>,
}

/// What is to be done with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    Now,
    /// The other cluster was faster.
    Repeated,
    /// Others come before it: it is to be held.
    Later,
}

impl<T> Default for Sender<T> {
    fn default() -> Self {
        Sender {
            last: None,
            heard: [-1; 2],
            held: BTreeMap::new(),
            since: None,
        }
    }
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Order {
            senders: HashMap::new(),
        }
    }
}

impl<T> Order<T> {
    fn sender(&mut self, id: &str) -> &mut Sender<T> {
        if !self.senders.contains_key(id) {
            self.senders.insert(id.to_owned(), Sender::default());
        }
        self.senders.get_mut(id).expect("it was just put there")
    }

    /// A record has come from a cluster (0 or 1).
    pub fn judge(&mut self, id: &str, number: i64, cluster: usize) -> Turn {
        let sender = self.sender(id);
        sender.heard[cluster] = sender.heard[cluster].max(number);
        let last = sender.last.unwrap_or(-1);
        if number <= last || sender.held.contains_key(&number) {
            return Turn::Repeated;
        }
        if number != last.wrapping_add(1) {
            return Turn::Later;
        }
        sender.last = Some(number);
        Turn::Now
    }

    pub fn hold(&mut self, id: &str, number: i64, record: T, now: Instant) {
        let sender = self.sender(id);
        sender.held.insert(number, record);
        sender.since.get_or_insert(now);
    }

    /// A record that is held no longer.
    pub fn next(&mut self, now: Instant) -> Option<T> {
        self.senders
            .iter_mut()
            .find_map(|(id, sender)| sender.next(id, now))
    }

    pub fn held(&self) -> impl Iterator<Item = &T> {
        self.senders.values().flat_map(|s| s.held.values())
    }

    pub fn last(&self) -> impl Iterator<Item = (&str, i64)> {
        self.senders
            .iter()
            .filter_map(|(id, sender)| Some((id.as_str(), sender.last?)))
    }

    pub fn restore(&mut self, id: &str, last: i64) {
        self.sender(id).last = Some(last);
    }
}

impl<T> Sender<T> {
    fn next(&mut self, id: &str, now: Instant) -> Option<T> {
        let (&number, _) = self.held.first_key_value()?;
        let is_next = self.last.is_some_and(|last| number == last + 1);
        let is_passed = self.heard.iter().all(|heard| *heard >= number);
        let is_late = self.since.is_none_or(|since| now >= since + GAP);
        if !(is_next || is_passed || is_late || self.held.len() >= HELD_MAX) {
            return None;
        }
        if let Some(last) = self.last
            && !is_next
        {
            let (from, to) = (last + 1, number - 1);
            tracing::warn!(
                id,
                from,
                to,
                "records are late or missing in both data centres"
            );
        }
        self.last = Some(number);
        let record = self.held.remove(&number);
        if self.held.is_empty() {
            self.since = None;
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers as they come from clusters; what is given at once, and what after the time of a gap.
    fn check(came: &[(i64, usize)], at_once: &[i64], later: &[i64]) {
        let mut order = Order::default();
        let begin = Instant::now();
        let mut given = Vec::new();
        for (number, cluster) in came {
            match order.judge("id", *number, *cluster) {
                Turn::Now => given.push(*number),
                Turn::Later => order.hold("id", *number, *number, begin),
                Turn::Repeated => {}
            }
            while let Some(number) = order.next(begin) {
                given.push(number);
            }
        }
        assert_eq!(given, at_once, "{came:?}");
        let mut after = Vec::new();
        while let Some(number) = order.next(begin + GAP) {
            after.push(number);
        }
        assert_eq!(after, later, "{came:?}");
        assert_eq!(order.held().count(), 0);
    }

    #[test]
    fn each_number_is_given_once_and_in_order() {
        check(&[(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)], &[0, 1, 2], &[]);
        // One is behind: what it still has is waited for.
        check(&[(0, 0), (2, 0), (1, 1), (2, 1)], &[0, 1, 2], &[]);
        // Both have passed the gap: it will not be filled.
        check(&[(0, 0), (2, 0), (2, 1), (3, 0)], &[0, 2, 3], &[]);
        // Nobody knows what comes from the other.
        check(&[(0, 0), (3, 0), (2, 0)], &[0], &[2, 3]);
        // The first numbers that are seen.
        check(&[(7, 0), (8, 0)], &[], &[7, 8]);
        check(&[(7, 0), (7, 1), (8, 1)], &[7, 8], &[]);
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let mut order = Order::default();
        let now = Instant::now();
        for number in 1..=HELD_MAX as i64 {
            assert_eq!(order.judge("id", number, 0), Turn::Later);
            order.hold("id", number, number, now);
        }
        assert_eq!(order.next(now), Some(1));
        assert_eq!(order.last().collect::<Vec<_>>(), [("id", 1)]);
    }
}
