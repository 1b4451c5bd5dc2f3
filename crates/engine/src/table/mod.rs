//! Tables in memory: rows in pages of columns, in the order of insertion.
//!
//! A row keeps its number until the table is compacted; a deleted row is only marked, and its page
//! is squeezed out when more rows are dead than alive. Indexes hold row numbers. Whatever is asked
//! of a table comes back in the order of insertion.
//!
//! Never here: I/O. External tables are asked through [`crate::Host`]; only their conditions are
//! made here.

mod direct;
mod index;
mod saved;
mod tables;
mod write;

pub(crate) use crate::expr::{Condition, ConditionContext, MemoryCondition, Terms, types};
pub(crate) use tables::Tables;
pub(crate) use write::{ExternalWrite, TableWrite};

use event::{Batch, Chunks, Column, ColumnBuilder, Times, Type, Value};

use crate::expr::{OTHER, Searched, Slot};
use crate::order::compare;
use index::Index;
use saved::Changes;

/// Rows of a page; a power of two.
pub(crate) const PAGE_ROWS: usize = 1024;

/// Dead rows below which a table is not compacted.
const DEAD_ROWS_MIN: usize = 2 * PAGE_ROWS;

/// Fewer are enough where the table takes more bytes than this.
const DEAD_ROWS_HEAVY: usize = 64;
const HEAVY_BYTES: usize = 1 << 20;

pub(crate) struct Table {
    types: Vec<Type>,
    rows: Rows,
    has_primary_key: bool,
    /// The primary key first, where there is one.
    indexes: Vec<Index>,
    live: usize,
    /// The attribute in whose order rows are found, where Siddhi keeps them in a sorted map: a single
    /// numeric primary key, or without one a single index of a number (`IndexEventHolder`).
    sorted_by: Option<usize>,
    /// Rows changed in place since the table was made; for counts, not part of its state.
    pub assigned: u64,
    changes: Changes,
}

/// The pages, apart from the indexes that look into them.
#[derive(Debug, Default)]
struct Rows {
    pages: Vec<Page>,
    count: usize,
}

#[derive(Debug)]
struct Page {
    columns: Vec<Column>,
    alive: Vec<bool>,
    /// Values overwritten since the size of the columns was looked at.
    overwritten: u32,
    /// Bytes at which the columns are written anew: overwritten long texts stay until then.
    bytes_max: usize,
}

/// Overwritten values after which the size of a page is looked at, and the least size from which on
/// it is written anew.
const OVERWRITTEN_MAX: u32 = 256;
const TEXTS_MIN: usize = 64 << 10;

impl Page {
    fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum::<usize>() + self.alive.capacity()
    }

    /// A value was overwritten: from time to time the texts that nothing shows any more are dropped.
    fn overwrote(&mut self, types: &[Type]) {
        self.overwritten += 1;
        if self.overwritten < OVERWRITTEN_MAX {
            return;
        }
        self.overwritten = 0;
        if self.bytes() <= self.bytes_max {
            return;
        }
        for (column, &ty) in self.columns.iter_mut().zip(types) {
            let mut fresh = ColumnBuilder::new(ty).finish();
            fresh.append(column, 0..column.len());
            *column = fresh;
        }
        self.bytes_max = TEXTS_MIN.max(2 * self.bytes());
    }
}

impl Rows {
    fn place(&self, row: u32) -> (&[Column], usize) {
        let page = &self.pages[row as usize / PAGE_ROWS];
        (&page.columns, row as usize % PAGE_ROWS)
    }
}

/// A row whose primary key is in the table already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Duplicate {
    /// Row of the batch.
    pub row: usize,
    /// Text of the key.
    pub key: String,
}

fn sorted_by(definition: &plan::Table) -> Option<usize> {
    let attributes = match (
        definition.primary_key.as_slice(),
        definition.indexes.as_slice(),
    ) {
        ([], [index]) => index,
        (key, _) => key,
    };
    let [attribute] = attributes else {
        return None;
    };
    let ty = definition.schema.attributes[*attribute].ty;
    ty.is_numeric().then_some(*attribute)
}

impl Table {
    pub fn new(definition: &plan::Table) -> Table {
        let key = &definition.primary_key;
        let keys = (!key.is_empty()).then(|| Index::new(key.clone()));
        let others = definition.indexes.iter().map(|i| Index::new(i.clone()));
        Table {
            types: types(&definition.schema),
            rows: Rows::default(),
            has_primary_key: !key.is_empty(),
            indexes: keys.into_iter().chain(others).collect(),
            live: 0,
            sorted_by: sorted_by(definition),
            assigned: 0,
            changes: Changes::default(),
        }
    }

    /// An empty table of the same shape.
    fn empty_like(&self) -> Table {
        Table {
            types: self.types.clone(),
            rows: Rows::default(),
            has_primary_key: self.has_primary_key,
            indexes: self
                .indexes
                .iter()
                .map(|i| Index::new(i.columns.clone()))
                .collect(),
            live: 0,
            sorted_by: self.sorted_by,
            assigned: 0,
            changes: Changes::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.live
    }

    /// Number of attributes.
    pub fn width(&self) -> usize {
        self.types.len()
    }

    /// Inserts rows of columns; those whose primary key exists are left out and reported.
    pub fn insert(
        &mut self,
        columns: &[Column],
        range: std::ops::Range<usize>,
        duplicates: &mut Vec<Duplicate>,
    ) {
        if self.indexes.is_empty() {
            return self.append(columns, range);
        }
        for row in range {
            if self.has_primary_key {
                let keys: Vec<Value> = self.indexes[0]
                    .columns
                    .iter()
                    .map(|&c| columns[c].value(row))
                    .collect();
                if self.indexes[0].same_key(&keys, &self.rows).is_some() {
                    duplicates.push(Duplicate {
                        row,
                        key: key_text(&keys),
                    });
                    continue;
                }
            }
            self.insert_unique(columns, row);
        }
    }

    /// Puts rows of columns in place of those with the same primary key, which the table has.
    fn overwrite(&mut self, columns: &[Column], range: std::ops::Range<usize>) {
        for row in range {
            let key = self.indexes[0]
                .columns
                .iter()
                .map(|&c| columns[c].value(row));
            let key: Vec<Value> = key.collect();
            let Some(old) = self.indexes[0].same_key(&key, &self.rows) else {
                self.insert_unique(columns, row);
                continue;
            };
            let values = columns.iter().map(|column| column.value(row));
            let values: Vec<(usize, Value)> = values.enumerate().collect();
            self.assign(old, &values);
            self.assigned += 1;
        }
    }

    /// Inserts a row whose primary key is known to be new.
    fn insert_unique(&mut self, columns: &[Column], row: usize) {
        let number = self.rows.count as u32;
        self.append(columns, row..row + 1);
        for index in &mut self.indexes {
            index.insert(number, &self.rows);
        }
    }

    fn append(&mut self, columns: &[Column], range: std::ops::Range<usize>) {
        let mut start = range.start;
        while start < range.end {
            let used = self.rows.count % PAGE_ROWS;
            if used == 0 {
                self.rows.pages.push(Page {
                    columns: self
                        .types
                        .iter()
                        .map(|&ty| ColumnBuilder::new(ty).finish())
                        .collect(),
                    alive: Vec::new(),
                    overwritten: 0,
                    bytes_max: TEXTS_MIN,
                });
            }
            let take = (range.end - start).min(PAGE_ROWS - used);
            let page = self.rows.pages.last_mut().expect("a page was just made");
            for (to, from) in page.columns.iter_mut().zip(columns) {
                to.append(from, start..start + take);
            }
            page.alive.resize(used + take, true);
            let first = self.rows.count as u32;
            self.changes.rows.mark_range(first..first + take as u32);
            self.rows.count += take;
            self.live += take;
            start += take;
        }
    }
}

impl Searched for Table {
    /// Rows of an index (the primary key first) whose attributes equal the keys.
    fn lookup(&self, number: usize, keys: &[Value], out: &mut Vec<u32>) {
        self.indexes[number].find(keys, &self.rows, out);
    }

    fn all_rows(&self, out: &mut Vec<u32>) {
        for (first, _, alive) in self.pages() {
            out.extend(
                (0..alive.len() as u32)
                    .filter(|&r| alive[r as usize])
                    .map(|r| first + r),
            );
        }
    }

    /// Each page: number of its first row, columns, and which rows are alive.
    fn pages(&self) -> impl Iterator<Item = (u32, &[Column], &[bool])> {
        self.rows.pages.iter().enumerate().map(|(at, page)| {
            (
                (at * PAGE_ROWS) as u32,
                page.columns.as_slice(),
                page.alive.as_slice(),
            )
        })
    }

    /// Columns of some rows; those that are not used are left empty.
    fn gather(&self, rows: &[u32], uses: &[Slot]) -> Vec<Column> {
        (0..self.types.len())
            .map(|index| {
                let slot = Slot {
                    part: OTHER,
                    index: index as u16,
                };
                if uses.contains(&slot) {
                    self.gather_column(index, rows)
                } else {
                    ColumnBuilder::new(self.types[index]).finish()
                }
            })
            .collect()
    }

    /// Puts rows that were found into the order in which Siddhi finds them; rows of equal values
    /// remain in the order of insertion.
    fn sort_found(&self, rows: &mut [u32]) {
        let Some(column) = self.sorted_by.filter(|_| rows.len() > 1) else {
            return;
        };
        let keys = self.gather_column(column, rows);
        let mut sorted: Vec<(Value, u32)> =
            (0..rows.len()).map(|i| (keys.value(i), rows[i])).collect();
        sorted.sort_by(|(a, _), (b, _)| compare(a, b));
        rows.iter_mut()
            .zip(sorted)
            .for_each(|(row, (_, found))| *row = found);
    }
}

impl Table {
    /// One attribute of some rows; [`Column::NO_ROW`] gives null.
    pub fn gather_column(&self, column: usize, rows: &[u32]) -> Column {
        if let [page] = self.rows.pages.as_slice() {
            return page.columns[column].gather_padded(rows);
        }
        let mut builder = ColumnBuilder::with_capacity(self.types[column], rows.len());
        for &row in rows {
            if row == Column::NO_ROW {
                builder.push_null();
                continue;
            }
            let (page, at) = self.rows.place(row);
            builder.extend(&page[column], at..at + 1);
        }
        builder.finish()
    }

    /// Deletes the rows that a test on the columns of a page picks; their number.
    pub fn delete_where(&mut self, is_doomed: impl Fn(&[Column], usize) -> bool) -> usize {
        let mut doomed = Vec::new();
        for (first, columns, alive) in self.pages() {
            let rows = (0..alive.len()).filter(|&row| alive[row] && is_doomed(columns, row));
            doomed.extend(rows.map(|row| first + row as u32));
        }
        self.delete(&doomed);
        doomed.len()
    }

    fn delete(&mut self, rows: &[u32]) {
        for &row in rows {
            let (page, at) = (row as usize / PAGE_ROWS, row as usize % PAGE_ROWS);
            if !self.rows.pages[page].alive[at] {
                continue;
            }
            for index in &mut self.indexes {
                index.remove(row, &self.rows);
            }
            self.rows.pages[page].alive[at] = false;
            self.changes.rows.mark(row);
            self.live -= 1;
        }
        let dead = self.rows.count - self.live;
        if self.live == 0 {
            self.clear();
        } else if dead > self.live && (dead > DEAD_ROWS_MIN || self.is_heavy(dead)) {
            self.compact();
        }
    }

    /// Not many rows are dead, but they may have long texts.
    fn is_heavy(&self, dead: usize) -> bool {
        dead > DEAD_ROWS_HEAVY && self.bytes() > HEAVY_BYTES
    }

    fn clear(&mut self) {
        self.rows = Rows::default();
        self.changes.are_numbers_new = true;
        self.indexes.iter_mut().for_each(Index::clear);
    }

    /// Rows get new numbers; their order stays.
    fn compact(&mut self) {
        let old = std::mem::take(&mut self.rows);
        self.changes.are_numbers_new = true;
        self.live = 0;
        for index in &mut self.indexes {
            index.clear();
        }
        for page in old.pages {
            let mut start = 0;
            while start < page.alive.len() {
                let run = page.alive[start..]
                    .iter()
                    .take_while(|&&a| a == page.alive[start])
                    .count();
                if page.alive[start] {
                    self.append(&page.columns, start..start + run);
                }
                start += run;
            }
        }
        for row in 0..self.rows.count as u32 {
            for index in &mut self.indexes {
                index.insert(row, &self.rows);
            }
        }
    }

    /// The text of a primary key that an assignment to these rows would give to two of them, or to
    /// one while another row has it. Rows are gone through in order.
    fn collision(&self, rows: &[u32], assigned: &[Vec<(usize, Value)>]) -> Option<String> {
        let index = self.indexes.first().filter(|_| self.has_primary_key)?;
        let mut left: Vec<u32> = Vec::new();
        let mut taken: Vec<Vec<Value>> = Vec::new();
        for (&row, values) in rows.iter().zip(assigned) {
            let (page, at) = self.rows.place(row);
            let mut is_moved = false;
            let key: Vec<Value> = index
                .columns
                .iter()
                .map(|&column| {
                    let old = page[column].value(at);
                    let new = values.iter().find(|(c, _)| *c == column);
                    let new = new.map_or_else(|| old.clone(), |(_, v)| v.clone());
                    is_moved |= new != old;
                    new
                })
                .collect();
            if !is_moved {
                continue;
            }
            left.push(row);
            let holder = index.same_key(&key, &self.rows);
            if holder.is_some_and(|h| !left.contains(&h)) || taken.contains(&key) {
                return Some(key_text(&key));
            }
            taken.push(key);
        }
        None
    }

    /// Assigns values to a row.
    fn assign(&mut self, row: u32, values: &[(usize, Value)]) {
        let is_dirty = |index: &Index| {
            let mut columns = values.iter().map(|(c, _)| c);
            columns.any(|c| index.columns.contains(c))
        };
        let dirty: Vec<bool> = self.indexes.iter().map(is_dirty).collect();
        for (index, &is_dirty) in self.indexes.iter_mut().zip(&dirty) {
            if is_dirty {
                index.remove(row, &self.rows);
            }
        }
        self.changes.rows.mark(row);
        let page = &mut self.rows.pages[row as usize / PAGE_ROWS];
        for (column, value) in values {
            page.columns[*column].set(row as usize % PAGE_ROWS, value);
            page.overwrote(&self.types);
        }
        for (index, &is_dirty) in self.indexes.iter_mut().zip(&dirty) {
            if is_dirty {
                index.insert(row, &self.rows);
            }
        }
    }

    pub fn content(&self, now: i64) -> Batch {
        let mut rows = Vec::with_capacity(self.live);
        self.all_rows(&mut rows);
        let columns = (0..self.types.len())
            .map(|c| self.gather_column(c, &rows))
            .collect();
        Batch::new(columns, rows.len(), Times::Same(now), Chunks::One, now)
    }

    pub fn bytes(&self) -> usize {
        let pages = self.rows.pages.iter().map(Page::bytes);
        pages.sum::<usize>() + self.indexes.iter().map(Index::bytes).sum::<usize>()
    }
}

/// A key as Siddhi prints it.
fn key_text(keys: &[Value]) -> String {
    let texts: Vec<String> = keys.iter().map(event::text::to_text).collect();
    texts.join(":-:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Schema};

    fn table(primary_key: Vec<usize>, indexes: Vec<Vec<usize>>) -> Table {
        let attribute = |name: &str, ty| Attribute {
            name: name.into(),
            ty,
        };
        Table::new(&plan::Table {
            schema: Schema {
                name: "T".into(),
                attributes: vec![attribute("k", Type::String), attribute("v", Type::Long)],
            },
            primary_key,
            indexes,
            index_details: Vec::new(),
            store: None,
            span: lang::span::Span::default(),
        })
    }

    fn columns(rows: &[(&str, i64)]) -> Vec<Column> {
        let mut keys = ColumnBuilder::new(Type::String);
        rows.iter().for_each(|(k, _)| keys.push_str(k));
        vec![
            keys.finish(),
            Column::longs_from(rows.iter().map(|(_, v)| *v).collect()),
        ]
    }

    fn content(table: &Table) -> Vec<(String, i64)> {
        let batch = table.content(0);
        (0..batch.len)
            .map(|r| {
                let row = batch.row(r);
                (
                    row[0].as_str().unwrap_or("").to_owned(),
                    row[1].to_long().unwrap_or(-1),
                )
            })
            .collect()
    }

    #[test]
    fn a_second_row_of_a_primary_key_is_left_out_and_reported() {
        let mut table = table(vec![0], vec![]);
        let mut duplicates = Vec::new();
        table.insert(
            &columns(&[("a", 1), ("b", 2), ("a", 3)]),
            0..3,
            &mut duplicates,
        );
        assert_eq!(content(&table), [("a".into(), 1), ("b".into(), 2)]);
        assert_eq!(
            duplicates,
            [Duplicate {
                row: 2,
                key: "a".into()
            }]
        );
        let set = |key: &str| vec![(0, Value::str(key))];
        assert_eq!(table.collision(&[1], &[set("a")]), Some("a".into()));
        assert_eq!(
            table.collision(&[0, 1], &[set("b"), set("a")]),
            Some("b".into())
        );
        assert_eq!(table.collision(&[1], &[set("c")]), None);
        table.assign(1, &set("c"));
        let mut found = Vec::new();
        table.lookup(0, &[Value::str("c")], &mut found);
        assert_eq!(found, [1]);
    }

    #[test]
    fn deleted_rows_are_squeezed_out_and_order_stays() {
        let mut table = table(vec![], vec![vec![1]]);
        let rows: Vec<(&str, i64)> = (0..10_000).map(|v| ("k", v)).collect();
        table.insert(&columns(&rows), 0..rows.len(), &mut Vec::new());
        let doomed: Vec<u32> = (0..10_000).filter(|r| r % 4 != 3).collect();
        table.delete(&doomed);
        assert_eq!((table.len(), table.rows.count), (2_500, 2_500));
        let mut found = Vec::new();
        table.lookup(0, &[Value::Int(7)], &mut found);
        assert_eq!(found, [1]);
        assert_eq!(content(&table)[2], ("k".into(), 11));
    }

    #[test]
    fn an_index_finds_all_rows_of_a_value_that_many_have() {
        let mut table = table(vec![], vec![vec![1]]);
        let rows: Vec<(&str, i64)> = (0..300).map(|v| ("k", v % 3)).collect();
        table.insert(&columns(&rows), 0..rows.len(), &mut Vec::new());
        let mut values: Vec<Option<i64>> = rows.iter().map(|(_, v)| Some(*v)).collect();
        // The first row of a value, those behind it, and one that is alone.
        for step in 0..140_u32 {
            let row = step * 7 % 300;
            if step % 2 == 0 {
                table.delete(&[row]);
                values[row as usize] = None;
            } else if let Some(value) = &mut values[row as usize] {
                *value = i64::from(step % 5);
                table.assign(row, &[(1, Value::Long(*value))]);
            }
            for value in 0..5 {
                let rows = (0..300).filter(|&row| values[row as usize] == Some(value));
                let mut found = Vec::new();
                table.lookup(0, &[Value::Long(value)], &mut found);
                assert_eq!(found, rows.collect::<Vec<u32>>(), "{value} in step {step}");
            }
        }
        table.delete_where(|_, _| true);
        let mut found = Vec::new();
        table.lookup(0, &[Value::Long(0)], &mut found);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn texts_that_were_overwritten_or_deleted_do_not_stay() {
        let mut t = table(Vec::new(), Vec::new());
        let long = "x".repeat(1_000);
        t.insert(&columns(&[("a", 1), (&long, 2)]), 0..2, &mut Vec::new());
        for n in 0..20_000 {
            let text = Value::str(&format!("{long}{n}"));
            t.assign(0, &[(0, text)]);
        }
        assert!(t.bytes() < 1 << 20, "{}", t.bytes());
        let row = t.content(0).row(0);
        assert_eq!(row, [Value::str(&format!("{long}19999")), Value::Long(1)]);
        for _ in 0..5_000 {
            t.insert(&columns(&[(&long, 3)]), 0..1, &mut Vec::new());
            t.delete_where(|columns, row| columns[1].value(row) == Value::Long(3));
        }
        assert!(t.bytes() < 2 << 20, "{}", t.bytes());
        t.delete_where(|_, _| true);
        assert!(t.bytes() < 1_000, "{}", t.bytes());
    }
}
