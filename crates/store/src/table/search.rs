//! Rows of a table that a condition means.

use event::{Batch, Cells, Chunks, Column, ColumnBuilder, Times, Value};

use super::{Table, View};
use crate::condition::Bounded;
use crate::definition::Definition;
use crate::error::Error;
use crate::file::Prune;
use crate::key::{self, Key};
use crate::layer::{Layer, Which};
use crate::layout::asked;
use crate::rows::Rows;

/// Bytes of the rows that one question finds.
const FOUND_MAX: usize = 256 << 20;

/// Is told of each row that is meant; false ends the search.
pub(crate) type Each<'a> = dyn FnMut(&Rows<'_>, usize) -> Result<bool, Error> + 'a;

impl Table {
    /// Goes through the rows that are meant, in no order.
    pub fn search(
        &self,
        view: &View,
        bounded: &Bounded<'_>,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        if bounded.is_never {
            return Ok(());
        }
        if let Some(key) = &bounded.key {
            return self.look_up(view, key, bounded, each);
        }
        if !self.search_files(view, bounded, each)? {
            return Ok(());
        }
        let frozen = view.frozen.as_ref().map(|frozen| &*frozen.layer);
        let live = &*view.live;
        let layers = [(frozen, Some(live)), (Some(live), None)];
        for (layer, above) in layers {
            let Some(layer) = layer else { continue };
            let rows = layer.rows();
            let is_visible = |row: usize| {
                layer.is_live(row) && above.is_none_or(|above| !self.hides(above, &rows, row))
            };
            let mut found = Vec::new();
            bounded.select(&rows, &is_visible, &mut found);
            for row in found {
                if !each(&rows, row)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Does a layer take the place of a row below it?
    pub fn hides(&self, layer: &Layer, rows: &Rows<'_>, row: usize) -> bool {
        if self.definition.is_keyed() {
            !layer.keys().is_empty()
                && layer.hides(&Which::Key(&key_of(&self.definition, rows, row)))
        } else {
            layer.hides(&Which::Id(rows.ids[row]))
        }
    }

    fn search_files(
        &self,
        view: &View,
        bounded: &Bounded<'_>,
        each: &mut Each<'_>,
    ) -> Result<bool, Error> {
        let frozen = view.frozen.as_ref().map(|frozen| &*frozen.layer);
        let layers = || frozen.into_iter().chain([&*view.live]);
        let may_hold = |of: &dyn Fn(&str) -> Option<(Value, Value)>| {
            bounded.may_hold(&|column| of(&self.definition.schema.attributes[column].name))
        };
        let prune = Prune {
            may_hold: &may_hold,
            equal: asked(bounded, &self.definition),
        };
        for add in view.snapshot.files.values() {
            let stats = &add.stats;
            let of_file = |column: usize| stats.bounds(column).map(|(a, b)| (a.clone(), b.clone()));
            if !bounded.may_hold(&of_file) {
                continue;
            }
            let goes_on = self.files.scan(add, Some(&prune), &mut |part| {
                bounded.check_wanted()?;
                let rows = part.rows();
                let is_visible = |row: usize| layers().all(|layer| !self.hides(layer, &rows, row));
                let mut found = Vec::new();
                bounded.select(&rows, &is_visible, &mut found);
                for row in found {
                    if !each(&rows, row)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            })?;
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The only row of a key, from top to bottom.
    pub fn look_up(
        &self,
        view: &View,
        key: &Key,
        bounded: &Bounded<'_>,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        let frozen = view.frozen.as_ref().map(|frozen| &*frozen.layer);
        for layer in [Some(&*view.live), frozen].into_iter().flatten() {
            if let Some(place) = layer.keys().get(key) {
                let rows = layer.rows();
                if let Some(row) = place.filter(|row| bounded.takes(&rows, *row)) {
                    each(&rows, row)?;
                }
                return Ok(());
            }
        }
        let may_hold = |of: &dyn Fn(&str) -> Option<(Value, Value)>| {
            bounded.may_hold(&|column| of(&self.definition.schema.attributes[column].name))
        };
        // Row groups are small and in the order of the keys: to read one costs less than to ask it.
        let prune = Prune {
            may_hold: &may_hold,
            equal: Vec::new(),
        };
        for add in view.snapshot.files.values() {
            let may = add
                .range
                .as_ref()
                .is_none_or(|(first, last)| first <= key && key <= last);
            if !may {
                continue;
            }
            for part in self.files.look_up(add, &prune)? {
                let rows = part.rows();
                let Some(row) = place_of(&self.definition, &rows, key, add.range.is_some()) else {
                    continue;
                };
                if bounded.takes(&rows, row) {
                    each(&rows, row)?;
                }
                return Ok(());
            }
        }
        Ok(())
    }
}

pub(crate) fn key_of(definition: &Definition, rows: &Rows<'_>, row: usize) -> Key {
    key::of(&definition.key, |column| rows.columns[column].value(row))
}

/// Where a key is, in rows that may be in the order of their keys.
fn place_of(definition: &Definition, rows: &Rows<'_>, key: &Key, is_sorted: bool) -> Option<usize> {
    if !is_sorted {
        return (0..rows.len()).find(|row| key_of(definition, rows, *row) == *key);
    }
    let (mut low, mut high) = (0, rows.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match key_of(definition, rows, middle).cmp(key) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

/// Rows that were found, for one event after the other.
pub(crate) struct Found {
    columns: Vec<ColumnBuilder>,
    ids: Vec<u64>,
    times: Vec<i64>,
    ends: Vec<u32>,
    bytes: usize,
    is_ordered: bool,
}

impl Found {
    pub fn new(definition: &Definition) -> Found {
        let attributes = definition.schema.attributes.iter();
        Found {
            columns: attributes.map(|a| ColumnBuilder::new(a.ty)).collect(),
            ids: Vec::new(),
            times: Vec::new(),
            ends: Vec::new(),
            bytes: 0,
            is_ordered: true,
        }
    }

    pub fn push(&mut self, rows: &Rows<'_>, row: usize) -> Result<(), Error> {
        for (builder, cells) in self.columns.iter_mut().zip(&rows.columns) {
            builder.push_cell(cells, row);
            self.bytes += 8 + cells.heap_bytes(row);
        }
        let begin = self.ends.last().copied().unwrap_or(0) as usize;
        let before = self.ids.last().filter(|_| self.ids.len() > begin);
        self.is_ordered &= before.is_none_or(|before| *before <= rows.ids[row]);
        self.ids.push(rows.ids[row]);
        self.times.push(rows.times[row]);
        if self.bytes > FOUND_MAX || self.ids.len() > u32::MAX as usize {
            return Err(Error::Refused(format!(
                "the condition means more than {} rows, which would take more than {} MB of memory: narrow it",
                self.ids.len(),
                FOUND_MAX >> 20
            )));
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// In the order in which they were found.
    pub fn rows(&self) -> Rows<'_> {
        Rows {
            columns: self.columns.iter().map(Cells::from).collect(),
            ids: &self.ids,
            times: &self.times,
        }
    }

    /// The next event.
    pub fn end(&mut self) {
        self.ends.push(self.ids.len() as u32);
    }

    /// In the order of insertion for each event.
    pub fn finish(self) -> (Batch, Vec<u32>) {
        let len = self.ids.len();
        let mut columns: Vec<Column> = self
            .columns
            .into_iter()
            .map(ColumnBuilder::finish)
            .collect();
        if !self.is_ordered {
            let mut order: Vec<u32> = (0..len as u32).collect();
            let mut begin = 0;
            for end in &self.ends {
                order[begin..*end as usize].sort_by_key(|row| self.ids[*row as usize]);
                begin = *end as usize;
            }
            columns = columns.iter().map(|column| column.gather(&order)).collect();
        }
        (
            Batch::new(columns, len, Times::Same(-1), Chunks::One, -1),
            self.ends,
        )
    }
}
