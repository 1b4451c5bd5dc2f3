//! Group keys to dense numbers.
//!
//! Two keys are one group if their text forms, joined by `:-:`, are equal (Siddhi's
//! `GroupByKeyGenerator`): null is 'null', 0.0 differs from -0.0, NaN equals NaN. Numbers are dense
//! over all partition keys of a query and are reused once a group is given back.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::ops::Range;

use event::column::View;
use event::{Column, ShortText};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::component::{Group, Key};
use crate::key_text::{SEED, fold_words, for_each_key, hash_folded, hash_words};
use crate::keyed::{PAGE, Pages, page_range};

/// No group: the end of a list of groups.
const NONE: Group = Group::MAX;

/// Low half of the first word where it is no length of a text that lies in the words themselves.
const LONG: u32 = u32::MAX;
const FREE: u32 = u32::MAX - 1;

/// Keys that are remembered beside the table: a power of two.
const RECENT: usize = 512;

/// Texts of keys, by number. A short text lies in its name, so that a key of a dozen bytes costs 20
/// bytes and what the table of numbers takes.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    table: HashTable<Group>,
    /// Short keys met lately, by bits of their hash: most rows are of one of few keys, and
    /// looking here costs a third of looking into the table. Empty until there is a key.
    recent: Box<[Recent]>,
    names: Pages<Name>,
    pages: Vec<PageUse>,
    /// Pages that may have a free number, each once.
    open: Vec<u32>,
    longs: Vec<Box<str>>,
    longs_free: Vec<u32>,
    /// Of partition keys but 0, which has all the rest: their groups as lists in both directions.
    heads: Pages<Head>,
    links: Pages<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    words: [u64; 2],
    key: Key,
    group: Group,
}

impl Recent {
    /// No short text has such words.
    const NOTHING: Recent = Recent {
        words: [u64::MAX; 2],
        key: 0,
        group: NONE,
    };
}

#[derive(Debug)]
struct PageUse {
    /// Numbers in use.
    used: u32,
    /// The first free one.
    free: Group,
    is_open: bool,
}

/// Partition key and text of a number. Packed, since millions of them lie in memory: alignment to a
/// word would add a fifth.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Name {
    /// The words of a short text; [`LONG`] with the place of the text, and its hash; or [`FREE`]
    /// with the next free number.
    words: [u64; 2],
    key: Key,
}

impl Default for Name {
    fn default() -> Self {
        Name::free(NONE)
    }
}

impl Name {
    fn free(next: Group) -> Name {
        Name {
            words: [u64::from(FREE) | u64::from(next) << 32, 0],
            key: 0,
        }
    }

    fn mark(&self) -> u32 {
        self.words[0] as u32
    }

    /// Place of a long text, or the next free number.
    fn place(&self) -> u32 {
        (self.words[0] >> 32) as u32
    }

    fn hash(&self) -> u64 {
        if self.mark() == LONG {
            self.words[1]
        } else {
            hash_words(self.key, self.words)
        }
    }
}

#[derive(Debug)]
struct Head(Group);

impl Default for Head {
    fn default() -> Self {
        Head(NONE)
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: Group,
    behind: Group,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            before: NONE,
            behind: NONE,
        }
    }
}

impl Interner {
    #[inline]
    pub fn intern(&mut self, key: Key, text: &str) -> Group {
        match ShortText::new(text) {
            Some(short) => self.intern_words(key, short.words()),
            None => self.intern_long(key, text),
        }
    }

    /// As [`Interner::intern`], of a short text by its words.
    #[inline(always)]
    fn intern_words(&mut self, key: Key, words: [u64; 2]) -> Group {
        let folded = fold_words(key, words);
        if let Some(recent) = self.recent.get(recent_place(folded))
            && recent.words == words
            && recent.key == key
        {
            return recent.group;
        }
        self.intern_folded(key, words, folded)
    }

    #[inline(never)]
    fn intern_folded(&mut self, key: Key, words: [u64; 2], folded: u64) -> Group {
        let hash = hash_folded(folded, words);
        let names = &self.names;
        let is_it = |&group: &Group| {
            names
                .get(group)
                .is_some_and(|n| { n.words } == words && { n.key } == key)
        };
        let group = match self.table.find(hash, is_it) {
            Some(&group) => group,
            None => self.add(Name { words, key }, hash),
        };
        if self.recent.is_empty() {
            self.recent = vec![Recent::NOTHING; RECENT].into();
        }
        self.recent[recent_place(folded)] = Recent { words, key, group };
        group
    }

    /// The number is not that of the key any more.
    fn forget_recent(&mut self, group: Group, name: Name) {
        let place = recent_place(fold_words(name.key, name.words));
        if let Some(recent) = self.recent.get_mut(place)
            && recent.group == group
        {
            *recent = Recent::NOTHING;
        }
    }

    fn intern_long(&mut self, key: Key, text: &str) -> Group {
        let hash = hash_long(key, text);
        if let Some(group) = self.find_long(key, text, hash) {
            return group;
        }
        let place = match self.longs_free.pop() {
            Some(place) => {
                self.longs[place as usize] = text.into();
                place
            }
            None => {
                self.longs.push(text.into());
                self.longs.len() as u32 - 1
            }
        };
        let words = [u64::from(LONG) | u64::from(place) << 32, hash];
        self.add(Name { words, key }, hash)
    }

    fn find_long(&self, key: Key, text: &str, hash: u64) -> Option<Group> {
        let is_it = |&group: &Group| {
            self.names.get(group).is_some_and(|n| {
                n.mark() == LONG
                    && n.words[1] == hash
                    && { n.key } == key
                    && *self.longs[n.place() as usize] == *text
            })
        };
        self.table.find(hash, is_it).copied()
    }

    /// The number of a key that is known.
    pub fn find(&self, key: Key, text: &str) -> Option<Group> {
        let Some(short) = ShortText::new(text) else {
            return self.find_long(key, text, hash_long(key, text));
        };
        let words = short.words();
        let is_it = |&group: &Group| {
            self.names
                .get(group)
                .is_some_and(|n| { n.words } == words && { n.key } == key)
        };
        self.table.find(hash_words(key, words), is_it).copied()
    }

    #[cold]
    fn add(&mut self, name: Name, hash: u64) -> Group {
        let group = self.take_free();
        *self.names.at(group) = name;
        let names = &self.names;
        self.table
            .insert_unique(hash, group, |&g| names.get(g).map_or(0, Name::hash));
        if name.key != 0 {
            let head = self.heads.at(name.key);
            let behind = std::mem::replace(&mut head.0, group);
            *self.links.at(group) = Link {
                before: NONE,
                behind,
            };
            if behind != NONE {
                self.links.at(behind).before = group;
            }
        }
        group
    }

    /// A number that is not in use: the last given back of an open page, else the next.
    fn take_free(&mut self) -> Group {
        while let Some(&page) = self.open.last() {
            let page = &mut self.pages[page as usize];
            let group = page.free;
            if group == NONE {
                page.is_open = false;
                self.open.pop();
                continue;
            }
            page.used += 1;
            page.free = match self.names.get(group) {
                Some(name) => name.place(),
                // Never touched, like all behind it in its page.
                None if !(group as usize + 1).is_multiple_of(PAGE) => group + 1,
                None => NONE,
            };
            return group;
        }
        let page = self.pages.len() as u32;
        let start = page * PAGE as u32;
        self.pages.push(PageUse {
            used: 1,
            free: start + 1,
            is_open: true,
        });
        self.open.push(page);
        start
    }

    /// The number may be given to another group from now on. Where a whole page of numbers is free
    /// now, its range: whatever is kept by them needs no memory any more.
    pub fn give_back(&mut self, group: Group) -> Option<Range<Group>> {
        let name = *self.names.get(group).filter(|n| n.mark() != FREE)?;
        if let Ok(entry) = self.table.find_entry(name.hash(), |&g| g == group) {
            entry.remove();
        }
        self.forget_recent(group, name);
        if name.mark() == LONG {
            self.longs[name.place() as usize] = Box::default();
            self.longs_free.push(name.place());
        }
        if name.key != 0 {
            self.unlink(name.key, group);
        }
        let page = group as usize / PAGE;
        let is_only = self.pages.len() == 1;
        let page_use = &mut self.pages[page];
        page_use.used -= 1;
        if !std::mem::replace(&mut page_use.is_open, true) {
            self.open.push(page as u32);
        }
        let next = std::mem::replace(&mut page_use.free, group);
        *self.names.at(group) = Name::free(next);
        if page_use.used > 0 || is_only {
            return None;
        }
        let range = page_range(page);
        page_use.free = range.start;
        self.names.release(range.clone());
        self.links.release(range.clone());
        self.shrink();
        Some(range)
    }

    /// The table of numbers follows, at an eighth of what it was, and pages at the end that nobody uses.
    fn shrink(&mut self) {
        let unused = self.pages.iter().rev().take_while(|p| p.used == 0).count();
        let pages = (self.pages.len() - unused).max(1);
        if pages < self.pages.len() {
            self.pages.truncate(pages);
            self.open.retain(|&page| (page as usize) < pages);
        }
        let names = &self.names;
        if self.table.capacity() > 8 * self.table.len().max(PAGE) {
            let room = 2 * self.table.len();
            self.table
                .shrink_to(room, |&g| names.get(g).map_or(0, Name::hash));
        }
        if self.longs_free.len() == self.longs.len() {
            (self.longs, self.longs_free) = (Vec::new(), Vec::new());
        }
    }

    fn unlink(&mut self, key: Key, group: Group) {
        let Link { before, behind } = *self.links.at(group);
        match before {
            NONE => self.heads.at(key).0 = behind,
            before => self.links.at(before).behind = behind,
        }
        if behind != NONE {
            self.links.at(behind).before = before;
        }
    }

    pub fn name(&self, group: Group) -> Option<(Key, Cow<'_, str>)> {
        let name = self.names.get(group).filter(|n| n.mark() != FREE)?;
        let text = match name.mark() {
            LONG => Cow::Borrowed(&*self.longs[name.place() as usize]),
            _ => Cow::Owned(ShortText::text_of(name.words)?),
        };
        Some((name.key, text))
    }

    /// Groups of a partition key. Their order is of no meaning.
    pub fn of_key(&self, key: Key) -> Vec<Group> {
        if key == 0 {
            let all = self.all_numbers();
            return all
                .filter(|&g| self.names.get(g).is_some_and(|n| n.key == 0))
                .collect();
        }
        let mut groups = Vec::new();
        let mut at = self.heads.get(key).map_or(NONE, |h| h.0);
        while at != NONE {
            groups.push(at);
            at = self.links.get(at).map_or(NONE, |l| l.behind);
        }
        groups
    }

    /// Numbers in use, ascending.
    fn all_numbers(&self) -> impl Iterator<Item = Group> + '_ {
        let pages = self.pages.iter().enumerate().filter(|(_, p)| p.used > 0);
        pages
            .flat_map(|(page, _)| page_range(page))
            .filter(|&g| self.names.get(g).is_some_and(|n| n.mark() != FREE))
    }

    /// All groups with their partition key and text, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = (Group, Key, Cow<'_, str>)> {
        self.all_numbers().filter_map(|group| {
            let (key, text) = self.name(group)?;
            Some((group, key, text))
        })
    }

    /// Whole pages of partition keys are not in use any more.
    pub fn release_keys(&mut self, keys: Range<Key>) {
        self.heads.release(keys);
    }

    pub fn clear(&mut self) {
        if !self.table.is_empty() {
            *self = Interner::default();
        }
    }

    /// One past the largest number in use.
    pub fn width(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        let longs: usize = self
            .longs
            .iter()
            .map(|t| t.len() + size_of::<Box<str>>())
            .sum();
        self.table.allocation_size()
            + size_of_val(&self.recent[..])
            + self.names.bytes()
            + self.heads.bytes()
            + self.links.bytes()
            + size_of_val(&self.pages[..])
            + longs
    }
}

fn recent_place(folded: u64) -> usize {
    folded as usize & (RECENT - 1)
}

fn hash_long(key: Key, text: &str) -> u64 {
    FixedState::with_seed(SEED ^ u64::from(key)).hash_one(text)
}

/// Appends the number of the group of each row.
pub(crate) fn intern_all(
    interner: &mut Interner,
    key: Key,
    columns: &[Column],
    rows: usize,
    numbers: &mut Vec<Group>,
) {
    if let ([column], 1) = (columns, rows)
        && let Some(text) = column.only_text()
    {
        return numbers.push(interner.intern_words(key, text.words()));
    }
    if let [column] = columns
        && let (View::Str(texts), None) = (column.view(), column.nulls())
    {
        numbers.extend((0..rows).map(|row| match texts.short_words(row) {
            Some(words) => interner.intern_words(key, words),
            None => interner.intern_long(key, texts.get(row)),
        }));
        return;
    }
    for_each_key(columns, rows, |_, text| {
        numbers.push(interner.intern(key, text));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Type, Value};

    fn check(rows: &[[Value; 2]], expect: &[Group]) {
        let columns: Vec<Column> = (0..2)
            .map(|at| {
                let mut builder = event::ColumnBuilder::new(Type::Object);
                rows.iter().for_each(|row| builder.push(&row[at]));
                builder.finish()
            })
            .collect();
        let mut interner = Interner::default();
        let mut groups = Vec::new();
        for_each_key(&columns, rows.len(), |_, key| {
            groups.push(interner.intern(0, key));
        });
        assert_eq!(groups, expect);
    }

    #[test]
    fn keys_are_equal_as_texts() {
        let text = Value::str;
        check(
            &[
                [text("x:-:y"), text("z")],
                [text("x"), text("y:-:z")],
                [Value::Null, Value::Int(5)],
                [text("null"), text("5")],
                [Value::Double(0.0), Value::Null],
                [Value::Double(-0.0), Value::Null],
                [Value::Double(f64::NAN), Value::Null],
                [Value::Float(f32::NAN), Value::Null],
            ],
            &[0, 0, 1, 1, 2, 3, 4, 4],
        );
    }

    #[test]
    fn numbers_are_given_again() {
        let mut interner = Interner::default();
        assert_eq!((interner.intern(0, "a"), interner.intern(1, "a")), (0, 1));
        interner.give_back(0);
        assert_eq!(interner.name(0), None);
        assert_eq!(interner.find(1, "a"), Some(1));
        assert_eq!((interner.intern(0, "b"), interner.intern(1, "a")), (0, 1));
        assert_eq!(interner.of_key(0), [0]);
    }

    /// Numbers stay dense and texts right, whatever comes and goes, and memory follows.
    #[test]
    fn keys_come_and_go() {
        let mut interner = Interner::default();
        let text = |n: u32| match n % 3 {
            0 => format!("k{n}"),
            1 => format!("a key that is a long one, {n}"),
            _ => n.to_string(),
        };
        let count = 20_000;
        let numbers: Vec<Group> = (0..count)
            .map(|n| interner.intern(n % 7, &text(n)))
            .collect();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        let full = interner.bytes();
        for n in 0..count {
            if n % 7 != 3 || n >= 700 {
                interner.give_back(numbers[n as usize]);
            }
        }
        assert_eq!((interner.table.len(), interner.of_key(3).len()), (100, 100));
        assert!(
            interner.bytes() < full / 5,
            "{} of {full}",
            interner.bytes()
        );
        for (group, key, text_found) in interner.all() {
            assert_eq!((key, text_found.into_owned()), (3, text(group)));
        }
        let again: Vec<Group> = (0..count)
            .map(|n| interner.intern(n % 7, &text(n)))
            .collect();
        let mut sorted = again.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count).collect::<Vec<_>>());
        for (n, &group) in again.iter().enumerate() {
            let n = n as u32;
            assert_eq!(interner.name(group), Some((n % 7, text(n).into())));
            assert_eq!(interner.intern(n % 7, &text(n)), group);
        }
    }
}
