//! Numbered events and what has become of them. Each row carries the running sum of its key, so that
//! order and state are judged by each row.

use std::fmt;

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

#[derive(Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub events: u64,
    pub lost: u64,
    pub doubled: u64,
    pub phantom: u64,
    /// Rows whose sum is not that of all events of their key so far.
    pub wrong: u64,
    /// Events that came behind a later one of their key, torn lines included.
    pub reordered: u64,
}

impl Tally {
    /// Judges lines in the order in which the sink has them; the events `0..events` were sent.
    pub fn of<'a>(lines: impl Iterator<Item = &'a str>, events: u64) -> Tally {
        let mut tally = Tally {
            events,
            ..Tally::default()
        };
        let mut sums = vec![0; events as usize];
        for number in 0..events {
            let before = number.checked_sub(KEYS).map_or(0, |n| sums[n as usize]);
            sums[number as usize] = before + value(number);
        }
        let mut seen = vec![false; events as usize];
        let mut last: Vec<Option<u64>> = vec![None; KEYS as usize];
        for line in lines {
            let Some(row) = Row::parse(line) else {
                tally.reordered += 1;
                continue;
            };
            if row.number >= events || row.key != row.number % KEYS {
                tally.phantom += 1;
                continue;
            }
            tally.wrong += u64::from(row.sum != sums[row.number as usize]);
            if std::mem::replace(&mut seen[row.number as usize], true) {
                tally.doubled += 1;
                continue;
            }
            let last = &mut last[row.key as usize];
            tally.reordered += u64::from(last.is_some_and(|last| last > row.number));
            *last = Some(row.number);
        }
        tally.lost = seen.iter().filter(|seen| !**seen).count() as u64;
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
        )
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
        Tally::of(rows.iter().map(String::as_str), events)
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
