//! Hash indexes over a table's rows.
//!
//! A lookup is the language's `==`: numbers of different types that are equal are found, null is
//! not. Uniqueness of a primary key is Java's `equals`, under which null is a value.

use event::column::View;
use event::{Cells, ShortText, Value};
use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table};
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;

use super::Rows;
use crate::key_text::hash_words;

/// Seed of the hash; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(super) struct Index {
    /// Attributes, in the order of the annotation.
    pub columns: Vec<usize>,
    /// One row of each tag.
    rows: HashTable<Entry>,
    /// All others of a tag. They are not in the table of hashes: a value that many rows have would
    /// fill it for a long way, and each further row would go all of it.
    more: HashMap<u32, BTreeSet<u32>, FixedState>,
    more_rows: usize,
}

/// A row and the tag of its key: rows with other keys are told apart without a look at them, and
/// a table of hashes that grows looks at none.
#[derive(Clone, Copy, Debug)]
struct Entry {
    row: u32,
    tag: u32,
}

/// Where rows with this tag lie in the table of hashes.
#[inline]
fn place(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(SEED)
}

#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    pub fn new(columns: Vec<usize>) -> Index {
        Index {
            columns,
            rows: HashTable::new(),
            more: HashMap::with_hasher(FixedState::with_seed(SEED)),
            more_rows: 0,
        }
    }

    pub fn insert(&mut self, row: u32, rows: &Rows) {
        self.insert_tagged(row, tag_row(rows, &self.columns, row));
    }

    /// A row that may still be to come, whose tag is one of [`tag_all`].
    pub fn insert_tagged(&mut self, row: u32, tag: u32) {
        let is_same = |entry: &Entry| entry.tag == tag;
        match self.rows.entry(place(tag), is_same, |e| place(e.tag)) {
            hash_table::Entry::Vacant(place) => {
                place.insert(Entry { row, tag });
            }
            hash_table::Entry::Occupied(_) => {
                let is_new = self.more.entry(tag).or_default().insert(row);
                self.more_rows += usize::from(is_new);
            }
        }
    }

    /// Must be called while the row still has the values it was inserted with.
    pub fn remove(&mut self, row: u32, rows: &Rows) {
        let tag = tag_row(rows, &self.columns, row);
        let Ok(mut entry) = self.rows.find_entry(place(tag), |e| e.tag == tag) else {
            return;
        };
        let Some(more) = self.more.get_mut(&tag) else {
            if entry.get().row == row {
                entry.remove();
            }
            return;
        };
        let is_gone = if entry.get().row == row {
            let first = more.pop_first();
            entry.get_mut().row = first.unwrap_or(row);
            first.is_some()
        } else {
            more.remove(&row)
        };
        self.more_rows -= usize::from(is_gone);
        if more.is_empty() {
            self.more.remove(&tag);
        }
    }

    /// Appends the rows whose attributes equal the keys, in the order of insertion.
    pub fn find(&self, keys: &[Value], rows: &Rows, out: &mut Vec<u32>) {
        if keys.iter().any(Value::is_null) {
            return;
        }
        let start = out.len();
        let tag = tag_values(keys.iter());
        let found = self.of_tag(tag).filter(|&row| {
            let (page, at) = rows.place(row);
            let mut columns = self.columns.iter().zip(keys);
            columns.all(|(&column, key)| equals(&Cells::from(&page[column]), at, key))
        });
        out.extend(found);
        // The row beside the others may be any of them; row numbers ascend with insertion.
        out[start..].sort_unstable();
    }

    /// Are a row's attributes equal to those of an event: typed columns without nulls, in the order of
    /// the index?
    #[inline]
    pub fn is_row(&self, row: u32, keys: &[Cells<'_>], event: usize, rows: &Rows) -> bool {
        let (page, at) = rows.place(row);
        let mut cells = self.columns.iter().zip(keys);
        cells.all(|(&column, key)| cells_equal(&Cells::from(&page[column]), at, key, event))
    }

    /// The first row with this tag that satisfies a test.
    #[inline]
    pub fn find_by(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let entry = self.rows.find(place(tag), |entry| entry.tag == tag)?;
        if is_it(entry.row) {
            return Some(entry.row);
        }
        if self.more.is_empty() {
            return None;
        }
        self.of_tag(tag).find(|&row| is_it(row))
    }

    fn of_tag(&self, tag: u32) -> impl Iterator<Item = u32> {
        let one = self.rows.find(place(tag), |entry| entry.tag == tag);
        let others = self.more.get(&tag).into_iter().flatten();
        one.map(|entry| entry.row)
            .into_iter()
            .chain(others.copied())
    }

    /// A row with the same key, null being a key like any other.
    pub fn same_key(&self, keys: &[Value], rows: &Rows) -> Option<u32> {
        self.find_by(tag_values(keys.iter()), |row| {
            let (page, at) = rows.place(row);
            self.columns.iter().zip(keys).all(|(&column, key)| {
                if key.is_null() {
                    page[column].is_null(at)
                } else {
                    equals(&Cells::from(&page[column]), at, key)
                }
            })
        })
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.more.clear();
        self.more_rows = 0;
    }

    /// On the heap; the nodes of trees are taken to be two thirds full.
    pub fn bytes(&self) -> usize {
        let more = self.more.capacity() * (size_of::<(u32, BTreeSet<u32>)>() + 1);
        let rows = self.more_rows * size_of::<u32>() * 3 / 2;
        self.rows.capacity() * (size_of::<Entry>() + 1) + more + rows
    }
}

/// `==` between a row's value and a key that is not null.
fn equals(cells: &Cells<'_>, row: usize, key: &Value) -> bool {
    if cells.is_null(row) {
        return false;
    }
    match (cells.view(), key) {
        (View::Str(v), Value::Str(key)) => v.get(row) == &**key,
        (View::Int(v), Value::Int(key)) => v[row] == *key,
        (View::Long(v), Value::Long(key)) => v[row] == *key,
        _ => {
            let value = cells.value(row);
            match (number(&value), number(key)) {
                (Some(a), Some(b)) => a == b,
                _ => value == *key,
            }
        }
    }
}

/// Numbers that compare equal, whatever their types, are one of these.
#[derive(PartialEq)]
enum Canonical {
    Whole(i64),
    Real(f64),
}

fn number(value: &Value) -> Option<Canonical> {
    let real = |v: f64| {
        if v.fract() == 0.0 && v.abs() < 9.0e18 {
            Canonical::Whole(v as i64)
        } else {
            Canonical::Real(v)
        }
    };
    Some(match value {
        Value::Int(v) => Canonical::Whole(i64::from(*v)),
        Value::Long(v) => Canonical::Whole(*v),
        Value::Float(v) => real(f64::from(*v)),
        Value::Double(v) => real(*v),
        _ => return None,
    })
}

fn tag_row(rows: &Rows, columns: &[usize], row: u32) -> u32 {
    let (page, at) = rows.place(row);
    tag(columns.iter().fold(SEED, |hash, &column| {
        mix(hash, hash_cell(&Cells::from(&page[column]), at))
    }))
}

/// Appends the tag of each of so many rows of keys.
pub(super) fn tag_all(keys: &[Cells<'_>], rows: usize, tags: &mut Vec<u32>) {
    if let [key] = keys
        && let View::Str(texts) = key.view()
        && key.is_plain()
    {
        tags.extend((0..rows).map(|row| {
            let hash = match texts.short_words(row) {
                Some(words) => hash_words(0, words),
                None => hash_text(texts.get(row)),
            };
            tag(mix(SEED, hash))
        }));
        return;
    }
    let mixed = |row| keys.iter().fold(SEED, |h, key| mix(h, hash_cell(key, row)));
    tags.extend((0..rows).map(|row| tag(mixed(row))));
}

#[inline]
fn hash_cell(cells: &Cells<'_>, row: usize) -> u64 {
    match cells.view() {
        View::Str(v) if !cells.is_null(row) => match v.short_words(row) {
            Some(words) => hash_words(0, words),
            None => hash_text(v.get(row)),
        },
        _ => hash_value(&cells.value(row)),
    }
}

/// `==` between two cells that are not null.
#[inline]
pub(super) fn cells_equal(
    cells: &Cells<'_>,
    row: usize,
    other: &Cells<'_>,
    other_row: usize,
) -> bool {
    if cells.is_null(row) {
        return false;
    }
    match (cells.view(), other.view()) {
        (View::Str(a), View::Str(b)) => a.rows_equal(row, &b, other_row),
        (View::Int(a), View::Int(b)) => a[row] == b[other_row],
        (View::Long(a), View::Long(b)) => a[row] == b[other_row],
        _ => equals(cells, row, &other.value(other_row)),
    }
}

fn tag_values<'a>(values: impl Iterator<Item = &'a Value>) -> u32 {
    tag(values.fold(SEED, |hash, value| mix(hash, hash_value(value))))
}

fn mix(hash: u64, one: u64) -> u64 {
    (hash.rotate_left(23) ^ one).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

fn hash_text(text: &str) -> u64 {
    match ShortText::new(text) {
        Some(short) => hash_words(0, short.words()),
        None => FixedState::with_seed(SEED).hash_one(text),
    }
}

fn hash_value(value: &Value) -> u64 {
    let state = FixedState::with_seed(SEED);
    match number(value) {
        Some(Canonical::Whole(v)) => state.hash_one(v),
        Some(Canonical::Real(v)) => state.hash_one(v.to_bits()),
        None => match value {
            Value::Str(text) => hash_text(text),
            Value::Bool(b) => state.hash_one(b),
            _ => 0,
        },
    }
}
