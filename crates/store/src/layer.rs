//! The rows of a table that no file holds yet, and which older rows they take the place of.
//!
//! A layer lies above the files, or above a layer that is being written to files. It knows what it
//! hides of those below it: rows by number where the table has no key, rows by key where it has one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use event::column::View;
use event::{Cells, ColumnBuilder, Object, Value};

use crate::change::Change;
use crate::definition::Definition;
use crate::key::{self, Key};
use crate::rows::Rows;

/// Bytes that a row takes beside its values: number, time, mark.
const ROW_BYTES: usize = 17;

/// Bytes of an entry of a map, about, beside what is in it.
const ENTRY_BYTES: usize = 48;

/// Rows in memory.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    definition: Arc<Definition>,
    ids: Vec<u64>,
    times: Vec<i64>,
    columns: Vec<ColumnBuilder>,
    /// Gone again, or replaced.
    dead: Vec<bool>,
    dead_count: usize,
    /// Rows with ascending numbers: the first number, its place, how many follow each other.
    runs: Vec<(u64, usize, usize)>,
    /// Rows with lower numbers than came before: those that were updated.
    moved: HashMap<u64, usize>,
    /// Without a key: rows below that are gone or replaced.
    hidden: HashSet<u64>,
    /// With a key: where the row is, or that it is gone. Either hides a row below.
    keys: HashMap<Key, Option<usize>>,
    /// Bytes of objects and keys.
    more_bytes: usize,
    /// Place in the log of the first change.
    first: Option<u64>,
}

/// Which row is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Which<'a> {
    Id(u64),
    Key(&'a [u8]),
}

impl Layer {
    pub fn new(definition: &Arc<Definition>) -> Layer {
        let attributes = definition.schema.attributes.iter();
        Layer {
            ids: Vec::new(),
            times: Vec::new(),
            columns: attributes.map(|a| ColumnBuilder::new(a.ty)).collect(),
            dead: Vec::new(),
            dead_count: 0,
            runs: Vec::new(),
            moved: HashMap::new(),
            hidden: HashSet::new(),
            keys: HashMap::new(),
            more_bytes: 0,
            first: None,
            definition: Arc::clone(definition),
        }
    }

    /// Nothing comes and nothing goes by it.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Place in the log of the first change.
    pub fn first(&self) -> Option<u64> {
        self.first
    }

    pub fn bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(ColumnBuilder::bytes).sum();
        let entries = self.moved.len() + self.hidden.len() + self.keys.len();
        columns + self.ids.len() * ROW_BYTES + entries * ENTRY_BYTES + self.more_bytes
    }

    pub fn live_count(&self) -> usize {
        self.ids.len() - self.dead_count
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows {
            columns: self.columns.iter().map(Cells::from).collect(),
            ids: &self.ids,
            times: &self.times,
        }
    }

    pub fn is_live(&self, row: usize) -> bool {
        !self.dead[row]
    }

    /// Is a row of what lies below gone or replaced?
    pub fn hides(&self, which: &Which<'_>) -> bool {
        match which {
            Which::Id(id) => self.hidden.contains(id),
            Which::Key(key) => self.keys.contains_key(*key),
        }
    }

    /// Numbers of the rows below that it hides.
    pub fn hidden(&self) -> &HashSet<u64> {
        &self.hidden
    }

    /// Keys of rows that it has or hides.
    pub fn keys(&self) -> &HashMap<Key, Option<usize>> {
        &self.keys
    }

    fn locate(&self, id: u64) -> Option<usize> {
        if let Some(row) = self.moved.get(&id) {
            return Some(*row);
        }
        let after = self.runs.partition_point(|(first, ..)| *first <= id);
        let (first, row, len) = *self.runs.get(after.checked_sub(1)?)?;
        let at = usize::try_from(id - first).ok()?;
        (at < len).then(|| row + at)
    }

    fn kill(&mut self, row: usize) {
        if !std::mem::replace(&mut self.dead[row], true) {
            self.dead_count += 1;
        }
    }

    /// `place` is that of the change in the log.
    pub fn apply(&mut self, change: &Change, place: u64) {
        self.first.get_or_insert(place);
        for id in &change.deleted_ids {
            match self.locate(*id) {
                Some(row) if !self.dead[row] => self.kill(row),
                // Its newer form in this layer may be gone already; what lies below is hidden once.
                _ => {
                    self.hidden.insert(*id);
                }
            }
        }
        for key in &change.deleted_keys {
            self.more_bytes += key.len();
            if let Some(Some(row)) = self.keys.insert(key.clone(), None) {
                self.kill(row);
            }
        }
        let begin = self.ids.len();
        let rows = &change.rows;
        for (builder, column) in self.columns.iter_mut().zip(&rows.columns) {
            builder.extend(column, 0..rows.len);
            if let View::Any(values) = column.view() {
                self.more_bytes += values.iter().map(object_bytes).sum::<usize>();
            }
        }
        self.times
            .extend((0..rows.len).map(|row| rows.times.at(row)));
        self.dead.resize(begin + rows.len, false);
        for (at, id) in change.ids.iter().enumerate() {
            self.ids.push(*id);
            if self.definition.is_keyed() {
                let key = key::of(&self.definition.key, |column| {
                    rows.columns[column].value(at)
                });
                self.more_bytes += key.len();
                if let Some(Some(row)) = self.keys.insert(key, Some(begin + at)) {
                    self.kill(row);
                }
                continue;
            }
            let end = self.runs.last().map(|(first, _, len)| first + *len as u64);
            match (self.runs.last_mut(), end) {
                (Some((_, row, len)), Some(end)) if end == *id && *row + *len == begin + at => {
                    *len += 1
                }
                (_, Some(end)) if end > *id => {
                    self.moved.insert(*id, begin + at);
                }
                _ => self.runs.push((*id, begin + at, 1)),
            }
        }
    }
}

/// Bytes of an object in memory, about: those that it is written as.
fn object_bytes(value: &Value) -> usize {
    match value {
        Value::Object(Object::Bytes(bytes)) => bytes.len(),
        Value::Object(object) => connect::object::to_json(object).len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Batch, Chunks, Schema, Type};

    fn definition(key: Vec<usize>) -> Arc<Definition> {
        let attributes = ["k", "v"].map(|name| Attribute {
            name: name.into(),
            ty: Type::Long,
        });
        let schema = Schema {
            name: "T".into(),
            attributes: attributes.into(),
        };
        Arc::new(Definition::new("T", schema, key).expect("plain names"))
    }

    fn change(definition: &Definition, gone: &[u64], rows: &[(u64, i64, i64)]) -> Change {
        let values: Vec<_> = rows
            .iter()
            .map(|(_, k, v)| (0, vec![Value::Long(*k), Value::Long(*v)]))
            .collect();
        Change {
            deleted_ids: if definition.is_keyed() {
                Vec::new()
            } else {
                gone.to_vec()
            },
            deleted_keys: if definition.is_keyed() {
                let of = |k: &u64| key::of(&[0], |_| Value::Long(*k as i64));
                gone.iter().map(of).collect()
            } else {
                Vec::new()
            },
            ids: rows.iter().map(|(id, ..)| *id).collect(),
            rows: Batch::from_rows(&definition.schema, &values, Chunks::One, 0),
        }
    }

    fn live(layer: &Layer) -> Vec<(u64, i64)> {
        let rows = layer.rows();
        let live = (0..rows.len()).filter(|row| layer.is_live(*row));
        let mut live: Vec<_> = live
            .map(|row| (rows.ids[row], rows.row(row)[1].to_long().unwrap()))
            .collect();
        live.sort_unstable();
        live
    }

    #[test]
    fn rows_are_found_by_their_numbers() {
        let definition = definition(vec![]);
        let mut layer = Layer::new(&definition);
        layer.apply(
            &change(&definition, &[], &[(10, 0, 1), (11, 0, 2), (20, 0, 3)]),
            100,
        );
        // An update of a row here, of one below, and again.
        layer.apply(&change(&definition, &[11], &[(11, 0, 5)]), 101);
        layer.apply(&change(&definition, &[3], &[(3, 0, 6)]), 102);
        layer.apply(&change(&definition, &[3], &[(3, 0, 7)]), 103);
        layer.apply(&change(&definition, &[20, 4], &[]), 104);
        assert_eq!(live(&layer), [(3, 7), (10, 1), (11, 5)]);
        assert!(layer.hides(&Which::Id(3)) && layer.hides(&Which::Id(4)));
        assert!(!layer.hides(&Which::Id(10)) && !layer.hides(&Which::Id(5)));
        assert_eq!((layer.first(), layer.live_count()), (Some(100), 3));
        layer.apply(&change(&definition, &[3], &[]), 105);
        assert_eq!(live(&layer), [(10, 1), (11, 5)]);
        assert!(layer.hides(&Which::Id(3)));
    }

    #[test]
    fn the_newest_row_of_a_key_wins() {
        let definition = definition(vec![0]);
        let mut layer = Layer::new(&definition);
        layer.apply(
            &change(&definition, &[], &[(1, 7, 1), (2, 8, 2), (3, 7, 3)]),
            0,
        );
        assert_eq!(live(&layer), [(2, 2), (3, 3)]);
        layer.apply(&change(&definition, &[8, 9], &[]), 1);
        assert_eq!(live(&layer), [(3, 3)]);
        let key = |k: i64| key::of(&[0], |_| Value::Long(k));
        assert!([7, 8, 9].iter().all(|k| layer.hides(&Which::Key(&key(*k)))));
        assert!(!layer.hides(&Which::Key(&key(1))));
    }
}
