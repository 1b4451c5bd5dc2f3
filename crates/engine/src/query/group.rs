//! Group keys to dense numbers.
//!
//! Two keys are one group if their text forms, joined by `:-:`, are equal (Siddhi's
//! `GroupByKeyGenerator`): null is 'null', 0.0 differs from -0.0, NaN equals NaN. Numbers are dense
//! over all partition keys of a query and are reused once a group is given back.

use std::hash::BuildHasher;

use event::column::View;
use event::{Column, text};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::component::{Group, Key};

/// Seed of the hash of key texts; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x517c_c1b7_2722_0a95;

/// What joins the parts of a key.
const SEPARATOR: &str = ":-:";

#[derive(Debug, Default)]
pub(crate) struct Interner {
    table: HashTable<Group>,
    /// Of each number: its partition key and text; `None` once given back.
    names: Vec<Option<(Key, Box<str>)>>,
    free: Vec<Group>,
}

impl Interner {
    /// The number of a key that is known.
    pub fn find(&self, key: Key, text: &str) -> Option<Group> {
        let is_it = |&group: &Group| {
            let name = self.names[group as usize].as_ref();
            name.is_some_and(|(k, t)| *k == key && **t == *text)
        };
        self.table.find(hash(key, text), is_it).copied()
    }

    pub fn intern(&mut self, key: Key, text: &str) -> Group {
        if let Some(group) = self.find(key, text) {
            return group;
        }
        let hash = hash(key, text);
        let group = self.free.pop().unwrap_or(self.names.len() as Group);
        let name = Some((key, Box::from(text)));
        match self.names.get_mut(group as usize) {
            Some(slot) => *slot = name,
            None => self.names.push(name),
        }
        let names = &self.names;
        self.table.insert_unique(hash, group, |&g| {
            names[g as usize]
                .as_ref()
                .map_or(0, |(k, t)| self::hash(*k, t))
        });
        group
    }

    /// The number may be given to another group from now on.
    pub fn give_back(&mut self, group: Group) {
        let Some((key, text)) = self.names[group as usize].take() else {
            return;
        };
        if let Ok(entry) = self.table.find_entry(hash(key, &text), |&g| g == group) {
            entry.remove();
        }
        self.free.push(group);
    }

    pub fn name(&self, group: Group) -> Option<(Key, &str)> {
        let name = self.names.get(group as usize)?.as_ref();
        name.map(|(key, text)| (*key, &**text))
    }

    /// Groups of a partition key, in the order of their numbers.
    pub fn of_key(&self, key: Key) -> impl Iterator<Item = Group> + '_ {
        let named = self.names.iter().enumerate();
        named
            .filter(move |(_, name)| name.as_ref().is_some_and(|(k, _)| *k == key))
            .map(|(group, _)| group as Group)
    }

    /// All groups with their partition key and text.
    pub fn all(&self) -> impl Iterator<Item = (Group, Key, &str)> {
        let named = self.names.iter().enumerate();
        named.filter_map(|(group, name)| {
            let (key, text) = name.as_ref()?;
            Some((group as Group, *key, &**text))
        })
    }

    pub fn clear(&mut self) {
        self.table.clear();
        self.names.clear();
        self.free.clear();
    }

    /// One past the largest number in use.
    pub fn width(&self) -> usize {
        self.names.len()
    }
}

fn hash(key: Key, text: &str) -> u64 {
    FixedState::with_seed(SEED ^ u64::from(key)).hash_one(text)
}

/// Calls `visit` with each row and the text of its key, in order.
pub(crate) fn for_each_key(columns: &[Column], rows: usize, mut visit: impl FnMut(usize, &str)) {
    if let [column] = columns
        && let View::Str(texts) = column.view()
    {
        for row in 0..rows {
            let is_null = column.is_null(row);
            visit(row, if is_null { "null" } else { texts.get(row) });
        }
        return;
    }
    let mut key = String::new();
    for row in 0..rows {
        key.clear();
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                key.push_str(SEPARATOR);
            }
            write_part(&mut key, column, row);
        }
        visit(row, &key);
    }
}

fn write_part(key: &mut String, column: &Column, row: usize) {
    if column.is_null(row) {
        return key.push_str("null");
    }
    match column.view() {
        View::Str(texts) => key.push_str(texts.get(row)),
        _ => text::write_value(key, &column.value(row)),
    }
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
        assert_eq!((interner.intern(0, "b"), interner.intern(1, "a")), (0, 1));
        assert_eq!(interner.of_key(0).collect::<Vec<_>>(), [0]);
    }
}
