//! How many rejected events there are, by app, stream, stage, source or sink, and cause.
//!
//! Causes that differ in their numbers and quoted texts alone are one: `'x' is no double` and `'y' is
//! no double`. Held in memory; the groups of a file are bounded, beyond that causes are counted
//! together.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::record::{Stage, View};

/// Causes of a file that are told apart.
const GROUPS_MAX: usize = 1000;

/// Bytes of a cause that are held.
const CAUSE_MAX: usize = 1000;

const OTHERS: &str = "other causes";

/// In front of a quoted text that is the name of a thing, and the same for all events of a group.
const NAMED: [&str; 8] = [
    "attribute ",
    "column ",
    "element ",
    "field ",
    "property ",
    "function ",
    "stream ",
    "table ",
];

/// What events of a group have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    pub app: String,
    pub stream: String,
    pub stage: Stage,
    pub origin: String,
    /// The cause, with `N` for numbers and `'…'` for quoted texts.
    pub pattern: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    pub count: u64,
    /// Milliseconds since 1970 of the first and the last one.
    pub first: i64,
    pub last: i64,
    /// One of them; 0 where the one that was known is gone.
    pub example: u64,
    pub transport: String,
    /// The cause of that one and what to do about it.
    pub cause: String,
    pub remedy: String,
    /// Not all have the very same cause.
    pub is_varied: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Summary {
    groups: Vec<(GroupKey, Tally)>,
    by_hash: HashMap<u64, usize>,
    total: u64,
    pattern: String,
}

impl Summary {
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Groups that have events, in the order in which they came.
    pub fn groups(&self) -> impl Iterator<Item = &(GroupKey, Tally)> {
        self.groups.iter().filter(|(_, tally)| tally.count > 0)
    }

    pub(super) fn add(&mut self, number: u64, view: &View<'_>) {
        self.total += 1;
        let at = self.group(view, number);
        let (_, tally) = &mut self.groups[at];
        tally.count += 1;
        tally.first = tally.first.min(view.time);
        tally.last = tally.last.max(view.time);
        if tally.example == 0 {
            tally.example = number;
        }
        tally.is_varied |= tally.cause != cut(view.cause);
    }

    /// These numbers are gone: they stand for no group any more.
    pub(super) fn forget(&mut self, is_gone: impl Fn(u64) -> bool) {
        for (_, tally) in &mut self.groups {
            if is_gone(tally.example) {
                tally.example = 0;
            }
        }
    }

    /// Is it an example for a group that has none? False once all have one.
    pub(super) fn find_example(&mut self, number: u64, view: &View<'_>) -> bool {
        let mut pattern = std::mem::take(&mut self.pattern);
        let group = hash_of(view, &mut pattern);
        self.pattern = pattern;
        if let Some(at) = self.find(group)
            && self.groups[at].1.example == 0
        {
            let tally = &mut self.groups[at].1;
            tally.example = number;
            tally.cause = cut(view.cause).to_owned();
        }
        self.lacks_example()
    }

    pub(super) fn lacks_example(&self) -> bool {
        self.groups().any(|(_, tally)| tally.example == 0)
    }

    /// So many events of a group are gone.
    pub(super) fn take(&mut self, group: GroupHash, count: u64) {
        self.total = self.total.saturating_sub(count);
        if let Some(at) = self.find(group) {
            let tally = &mut self.groups[at].1;
            tally.count = tally.count.saturating_sub(count);
        }
    }

    fn find(&self, group: GroupHash) -> Option<usize> {
        let own = self.by_hash.get(&group.own);
        own.or_else(|| self.by_hash.get(&group.others)).copied()
    }

    /// With the numbers that people see as examples, instead of those of records.
    pub(super) fn numbered(mut self, number: impl Fn(u32) -> u64) -> Summary {
        for (_, tally) in &mut self.groups {
            if let Some(record) = tally.example.checked_sub(1) {
                tally.example = number(record as u32);
            }
        }
        self
    }

    /// Takes in what another has counted.
    pub fn join(&mut self, other: &Summary) {
        for (key, tally) in other.groups() {
            self.total += tally.count;
            let hash = hash(&key.app, &key.stream, key.stage, &key.origin, &key.pattern);
            let Some(&at) = self.by_hash.get(&hash) else {
                self.by_hash.insert(hash, self.groups.len());
                self.groups.push((key.clone(), tally.clone()));
                continue;
            };
            let known = &mut self.groups[at].1;
            known.is_varied |= tally.is_varied || known.cause != tally.cause;
            known.count += tally.count;
            if known.example == 0 {
                known.example = tally.example;
            }
            known.first = known.first.min(tally.first);
            known.last = known.last.max(tally.last);
        }
    }

    fn group(&mut self, view: &View<'_>, number: u64) -> usize {
        let mut pattern = std::mem::take(&mut self.pattern);
        let group = hash_of(view, &mut pattern);
        let has_room = self.groups.len() < GROUPS_MAX;
        let found = match has_room {
            true => self.by_hash.get(&group.own).copied(),
            false => self.find(group),
        };
        let at = found.unwrap_or_else(|| match has_room {
            true => self.begin_group(group.own, &pattern, view.cause, view, number),
            false => self.begin_group(group.others, OTHERS, OTHERS, view, number),
        });
        self.pattern = pattern;
        at
    }

    fn begin_group(
        &mut self,
        hash: u64,
        pattern: &str,
        cause: &str,
        view: &View<'_>,
        number: u64,
    ) -> usize {
        let key = GroupKey {
            app: view.app.to_owned(),
            stream: view.stream.to_owned(),
            stage: view.stage,
            origin: view.origin.to_owned(),
            pattern: pattern.to_owned(),
        };
        let tally = Tally {
            count: 0,
            first: view.time,
            last: view.time,
            example: number,
            transport: view.transport.to_owned(),
            cause: cut(cause).to_owned(),
            remedy: view.remedy.to_owned(),
            is_varied: false,
        };
        self.by_hash.insert(hash, self.groups.len());
        self.groups.push((key, tally));
        self.groups.len() - 1
    }
}

/// Names the group of an event, and the one that it is counted in where there are too many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct GroupHash {
    own: u64,
    others: u64,
}

pub(super) fn hash_of(view: &View<'_>, room: &mut String) -> GroupHash {
    pattern(view.cause, room);
    let hash = |pattern: &str| hash(view.app, view.stream, view.stage, view.origin, pattern);
    GroupHash {
        own: hash(room),
        others: hash(OTHERS),
    }
}

fn hash(app: &str, stream: &str, stage: Stage, origin: &str, pattern: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (app, stream, stage, origin, pattern).hash(&mut hasher);
    hasher.finish()
}

fn cut(cause: &str) -> &str {
    &cause[..cause.floor_char_boundary(CAUSE_MAX)]
}

/// A cause with `N` for each number, and `'…'` or `"…"` for what stands in quotes.
fn pattern(cause: &str, into: &mut String) {
    into.clear();
    let mut rest = cut(cause);
    while let Some(first) = rest.chars().next() {
        let is_quote = first == '\'' || first == '"';
        let quoted = is_quote.then(|| rest[1..].find(first)).flatten();
        if let Some(len) = quoted {
            let is_name = NAMED.iter().any(|word| into.ends_with(word));
            match is_name {
                true => into.push_str(&rest[..len + 2]),
                false => into.extend([first, '…', first]),
            }
            rest = &rest[len + 2..];
        } else if first.is_ascii_digit() {
            into.push('N');
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            // One with a fraction is one number.
            let fraction = rest.strip_prefix('.').unwrap_or_default();
            if fraction.starts_with(|c: char| c.is_ascii_digit()) {
                rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            }
        } else {
            into.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejected::Rejection;

    fn add(summary: &mut Summary, number: u64, stream: &str, cause: &str) -> GroupHash {
        let rejection = Rejection {
            time: number as i64,
            app: "A".into(),
            stream: stream.into(),
            cause: cause.into(),
            ..Rejection::default()
        };
        let record = rejection.write();
        let view = View::read(&record).expect("reads");
        summary.add(number, &view);
        hash_of(&view, &mut String::new())
    }

    #[test]
    fn causes_that_differ_in_numbers_and_quoted_texts_are_one() {
        for (cause, expect) in [
            (
                "attribute 'a': 'x7' is no double",
                "attribute 'a': '…' is no double",
            ),
            (
                "no valid JSON at byte 17: a name",
                "no valid JSON at byte N: a name",
            ),
            ("it's 5 o'clock", "it'…'clock"),
            ("a lone ' and é", "a lone ' and é"),
            ("2.5 and 3. of 10", "N and N. of N"),
            ("", ""),
        ] {
            let mut found = String::new();
            pattern(cause, &mut found);
            assert_eq!(found, expect);
        }
    }

    #[test]
    fn events_are_counted_by_group_and_taken_away() {
        let mut summary = Summary::default();
        let hash = add(&mut summary, 1, "S", "'x' is no double");
        add(&mut summary, 5, "S", "'y' is no double");
        add(&mut summary, 3, "T", "'x' is no double");
        let seen = |summary: &Summary| -> Vec<(String, u64, i64, i64, bool)> {
            let groups = summary.groups();
            groups
                .map(|(key, t)| (key.stream.clone(), t.count, t.first, t.last, t.is_varied))
                .collect()
        };
        let (s, t) = ("S".to_owned(), "T".to_owned());
        assert_eq!(
            seen(&summary),
            [(s.clone(), 2, 1, 5, true), (t.clone(), 1, 3, 3, false)]
        );
        let mut both = summary.clone();
        both.join(&summary);
        assert_eq!((both.total(), seen(&both)[0].1), (6, 4));
        summary.take(hash, 2);
        assert_eq!(seen(&summary), [(t, 1, 3, 3, false)]);
        assert_eq!(summary.total(), 1);
    }

    #[test]
    fn causes_without_end_are_counted_together() {
        let mut summary = Summary::default();
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        let words = |n: usize| format!("cause {}{}{}", letter(n), letter(n / 26), letter(n / 676));
        for n in 0..GROUPS_MAX + 50 {
            add(&mut summary, n as u64, "S", &words(n));
        }
        assert_eq!(summary.groups().count(), GROUPS_MAX + 1);
        let last = summary.groups().last().expect("a group");
        assert_eq!((last.0.pattern.as_str(), last.1.count), (OTHERS, 50));
        let hash = add(&mut summary, 9, "S", &words(GROUPS_MAX + 7));
        summary.take(hash, 51);
        assert_eq!(summary.groups().count(), GROUPS_MAX);
    }
}
