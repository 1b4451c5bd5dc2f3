//! Numbered events and what has become of them. Each row carries the running sum of its key, so that
//! order and state are judged by each row.

use std::fmt;
use std::ops::Range;

/// So many that the state is saved by its changes, which are merged on the way.
pub const KEYS: u64 = 2_000;

/// The value of an event; its key is its number modulo [`KEYS`].
pub fn value(number: u64) -> u64 {
    (number * 7919 + 13) % 1000
}

/// A line of the event `number`, as sources read it.
pub fn line(number: u64) -> String {
    format!("{number},{},{}", number % KEYS, value(number))
}

/// What a sink has: number, key and running sum of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub number: u64,
    pub key: u64,
    pub sum: u64,
}

impl Row {
    /// `None`: the line is torn.
    pub fn parse(line: &str) -> Option<Row> {
        let mut fields = line.split([',', '|', '\t']).map(str::parse);
        let mut next = || fields.next()?.ok();
        let row = Row {
            number: next()?,
            key: next()?,
            sum: next()?,
        };
        fields.next().is_none().then_some(row)
    }
}

/// The events that were sent: the numbers from 0 on.
#[derive(Default, Debug)]
pub struct Sent {
    /// Of each, whether the source answers for it.
    is_taken: Vec<bool>,
}

impl Sent {
    #[cfg(test)]
    pub fn all(events: u64) -> Sent {
        let mut sent = Sent::default();
        sent.note(0..events, true);
        sent
    }

    /// Events that follow on those before; of some nobody knows whether they are in.
    pub fn note(&mut self, numbers: Range<u64>, is_taken: bool) {
        self.is_taken.resize(numbers.end as usize, is_taken);
    }
}

#[derive(Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub events: u64,
    /// Events of which nobody knows whether they are in, and that are not.
    pub unanswered: u64,
    pub lost: u64,
    pub doubled: u64,
    pub phantom: u64,
    /// Rows whose sum is not that of all events of their key so far.
    pub wrong: u64,
    /// Events that came behind a later one of their key, torn lines included.
    pub reordered: u64,
}

impl Tally {
    /// Judges lines in the order in which the sink has them.
    pub fn of<'a>(lines: impl Iterator<Item = &'a str>, sent: &Sent) -> Tally {
        let events = sent.is_taken.len();
        let mut tally = Tally {
            events: events as u64,
            ..Tally::default()
        };
        let mut seen = vec![false; events];
        let mut last: Vec<Option<u64>> = vec![None; KEYS as usize];
        let mut rows = Vec::new();
        for line in lines {
            let Some(row) = Row::parse(line) else {
                tally.reordered += 1;
                continue;
            };
            if row.number >= events as u64 || row.key != row.number % KEYS {
                tally.phantom += 1;
                continue;
            }
            rows.push(row);
            if std::mem::replace(&mut seen[row.number as usize], true) {
                tally.doubled += 1;
                continue;
            }
            let last = &mut last[row.key as usize];
            tally.reordered += u64::from(last.is_some_and(|last| last > row.number));
            *last = Some(row.number);
        }
        // What may have come and has not adds nothing.
        let mut sums: Vec<u64> = Vec::with_capacity(events);
        for (number, is_seen) in seen.iter().enumerate() {
            let before = number.checked_sub(KEYS as usize).map_or(0, |n| sums[n]);
            let is_in = *is_seen || sent.is_taken[number];
            sums.push(before + if is_in { value(number as u64) } else { 0 });
        }
        let is_wrong = |row: &&Row| row.sum != sums[row.number as usize];
        tally.wrong = rows.iter().filter(is_wrong).count() as u64;
        let missing = seen.iter().zip(&sent.is_taken).filter(|(seen, _)| !**seen);
        for (_, is_taken) in missing {
            let count = match is_taken {
                true => &mut tally.lost,
                false => &mut tally.unanswered,
            };
            *count += 1;
        }
        tally
    }

    pub fn is_kept(&self, exactly_once: bool) -> bool {
        let doubled = if exactly_once { self.doubled } else { 0 };
        self.lost + doubled + self.phantom + self.wrong + self.reordered == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "events {}, lost {}, doubled {}, phantom {}, wrong {}, torn or reordered {}",
            self.events, self.lost, self.doubled, self.phantom, self.wrong, self.reordered
        )?;
        match self.unanswered {
            0 => Ok(()),
            count => write!(f, " (not answered for and not there {count})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> Vec<String> {
        let mut sums = vec![0; KEYS as usize];
        (0..count)
            .map(|number| {
                let sum = &mut sums[(number % KEYS) as usize];
                *sum += value(number);
                format!("{number},{},{sum}", number % KEYS)
            })
            .collect()
    }

    fn tally(rows: &[String], events: u64) -> Tally {
        Tally::of(rows.iter().map(String::as_str), &Sent::all(events))
    }

    #[test]
    fn what_nobody_answered_for_may_be_missing_and_adds_nothing_then() {
        let mut sent = Sent::all(4_000);
        sent.note(4_000..4_002, false);
        sent.note(4_002..6_002, true);
        let mut sums = vec![0; KEYS as usize];
        let mut rows = Vec::new();
        for number in (0..6_002).filter(|number| *number != 4_001) {
            let sum = &mut sums[(number % KEYS) as usize];
            *sum += value(number);
            rows.push(format!("{number},{},{sum}", number % KEYS));
        }
        let tally = Tally::of(rows.iter().map(String::as_str), &sent);
        assert!(tally.is_kept(true), "{tally}");
        assert_eq!(tally.unanswered, 1);
        rows.remove(5_000);
        let tally = Tally::of(rows.iter().map(String::as_str), &sent);
        assert_eq!((tally.lost, tally.unanswered), (1, 1));
    }

    #[test]
    fn each_fault_of_a_sink_is_counted_as_what_it_is() {
        let good = rows(5_000);
        assert!(tally(&good, 5_000).is_kept(true));
        let mut bad = good.clone();
        bad.swap(10, 4_010);
        assert_eq!(tally(&bad, 5_000).reordered, 2);
        bad.clone_from(&good);
        bad.remove(7);
        assert_eq!(tally(&bad, 5_000).lost, 1);
        bad.push(good[8].clone());
        assert_eq!(tally(&bad, 5_000).doubled, 1);
        bad.push("9000,1,1".into());
        assert_eq!(tally(&bad, 5_000).phantom, 1);
        bad[3] = "3,3,1".into();
        assert_eq!(tally(&bad, 5_000).wrong, 1);
        bad[4] = "4,4,1234,4".into();
        assert_eq!(tally(&bad, 5_000).reordered, 1);
    }
}
