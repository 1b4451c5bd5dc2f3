//! The saved state of a table: its pages, and over them the rows that have changed since.
//!
//! A page of which more than a share has changed is written anew; of the others the rows that have.
//! So a save costs what has changed, and a page and the rows over it never take much more than the
//! page does.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, ColumnBuilder, Times};

use super::{PAGE_ROWS, Page, Table};
use crate::dirty::DirtyBits;
use crate::snapshot_format::{Entries, Extent, Fields, Id, List};

/// Changed rows beyond which a page is written anew.
const CHANGED_MAX: u32 = PAGE_ROWS as u32 / 4;

/// What has changed since the table was saved.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub rows: DirtyBits,
    /// Rows that are saved over their page.
    over: DirtyBits,
    /// Rows have got new numbers: what was saved says nothing any more.
    pub are_numbers_new: bool,
}

impl Changes {
    /// Is the page to be written anew?
    fn is_page_new(&self, page: usize) -> bool {
        self.are_numbers_new || self.rows.count_with(&self.over, rows_of(page)) > CHANGED_MAX
    }
}

/// Numbers of the rows of a page.
fn rows_of(page: usize) -> Range<u32> {
    (page * PAGE_ROWS) as u32..((page + 1) * PAGE_ROWS) as u32
}

impl Table {
    pub fn is_dirty(&self) -> bool {
        self.changes.are_numbers_new || self.changes.rows.is_any()
    }

    pub fn mark_saved(&mut self) {
        let Changes {
            over,
            are_numbers_new,
            ..
        } = &mut self.changes;
        if std::mem::take(are_numbers_new) || over.is_off() {
            over.begin();
        } else {
            for page in 0..self.rows.pages.len() {
                let rows = rows_of(page);
                if !self.changes.rows.is_any_in(rows.clone()) {
                    continue;
                }
                if self.changes.is_page_new(page) {
                    self.changes.over.clear(rows);
                } else {
                    self.changes.over.add(&self.changes.rows, rows);
                }
            }
        }
        self.changes.rows.begin();
    }

    /// A list of pages, and one of rows over them.
    pub fn save(&self, writer: &mut Writer, extent: Extent) {
        let all = extent == Extent::All || self.changes.are_numbers_new;
        let pages = || {
            let pages = self.rows.pages.iter().enumerate();
            pages.filter(|(at, _)| all || self.changes.rows.is_any_in(rows_of(*at)))
        };
        let is_new = |page: usize| all || self.changes.is_page_new(page);
        let mut list = List::new(writer, extent);
        if all {
            list.gone(0..Id::MAX);
        }
        for (at, page) in pages().filter(|(at, _)| is_new(*at)) {
            list.entry(at as Id, |w| page.save(w));
        }
        list.end();
        let mut list = List::new(writer, extent);
        if all {
            list.gone(0..Id::MAX);
        }
        for (at, page) in pages() {
            let rows = rows_of(at);
            if is_new(at) {
                list.gone(Id::from(rows.start)..Id::from(rows.end));
                continue;
            }
            for row in self.changes.rows.iter_in(rows) {
                list.entry(Id::from(row), |w| {
                    page.save_row(row as usize % PAGE_ROWS, w)
                });
            }
        }
        list.end();
    }

    /// Reads a table of the same shape.
    pub fn restored(&self, fields: &mut Fields<'_>) -> Result<Table, StateError> {
        let mut table = self.empty_like();
        let (mut pages, rows) = (fields.list()?, fields.list()?);
        let mut over = Over::new(rows)?;
        while let Some((page, mut entry)) = pages.next()? {
            let first = page.checked_mul(PAGE_ROWS as Id);
            let first = first.ok_or_else(|| StateError::Mismatch("a page too far".into()))?;
            // Rows of pages that are not there by themselves.
            while over.is_before(first) {
                over.take_into(&mut table)?;
            }
            let mut alive = Vec::new();
            for _ in 0..entry.count()? {
                alive.push(entry.bool()?);
            }
            let batch = entry.rows(&self.types, 0)?;
            if alive.len() > PAGE_ROWS || alive.iter().filter(|a| **a).count() != batch.len {
                let what = format!("a page of {} rows", batch.len);
                return Err(StateError::Mismatch(what));
            }
            let (mut slot, mut at) = (0, 0);
            while over.is_before(first.saturating_add(PAGE_ROWS as Id)) {
                let next = over.slot(first).min(alive.len());
                let until = at + alive[slot..next].iter().filter(|a| **a).count();
                table.insert(&batch.columns, at..until, &mut Vec::new());
                // What lies over a row takes its place.
                let is_covered = alive.get(next).is_some_and(|a| *a);
                (slot, at) = ((next + 1).min(alive.len()), until + usize::from(is_covered));
                over.take_into(&mut table)?;
            }
            table.insert(&batch.columns, at..batch.len, &mut Vec::new());
        }
        while over.is_before(Id::MAX) {
            over.take_into(&mut table)?;
        }
        Ok(table)
    }
}

/// The rows that lie over pages, in the order of their numbers.
struct Over<'a> {
    rows: Entries<'a>,
    next: Option<(Id, Reader<'a>)>,
}

impl<'a> Over<'a> {
    fn new(mut rows: Entries<'a>) -> Result<Over<'a>, StateError> {
        let next = rows.next()?;
        Ok(Over { rows, next })
    }

    fn is_before(&self, row: Id) -> bool {
        self.next.as_ref().is_some_and(|(next, _)| *next < row)
    }

    /// Place of the next row in the page whose first row is `first`.
    fn slot(&self, first: Id) -> usize {
        let next = self.next.as_ref().map_or(Id::MAX, |(next, _)| *next);
        usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX)
    }

    /// Puts the next row behind those of the table, if it is alive.
    fn take_into(&mut self, table: &mut Table) -> Result<(), StateError> {
        let Some((_, mut entry)) = std::mem::replace(&mut self.next, self.rows.next()?) else {
            return Ok(());
        };
        if !entry.bool()? {
            return Ok(());
        }
        let columns = table.types.iter().map(|&ty| {
            let mut column = ColumnBuilder::with_capacity(ty, 1);
            column.push(&entry.value()?);
            Ok(column.finish())
        });
        let columns = columns.collect::<Result<Vec<Column>, StateError>>()?;
        table.insert(&columns, 0..1, &mut Vec::new());
        Ok(())
    }
}

impl Page {
    /// Which rows are alive, and these.
    fn save(&self, writer: &mut Writer) {
        writer.count(self.alive.len());
        self.alive.iter().for_each(|&alive| writer.bool(alive));
        let alive = self.alive.iter().zip(0u32..).filter(|(alive, _)| **alive);
        let alive: Vec<u32> = alive.map(|(_, row)| row).collect();
        let columns = match alive.len() == self.alive.len() {
            true => self.columns.clone(),
            false => self.columns.iter().map(|c| c.gather(&alive)).collect(),
        };
        let times = Times::Same(0);
        writer.rows(&Batch::new(
            columns,
            alive.len(),
            times,
            event::Chunks::One,
            0,
        ));
    }

    fn save_row(&self, row: usize, writer: &mut Writer) {
        let is_alive = self.alive.get(row).is_some_and(|alive| *alive);
        writer.bool(is_alive);
        if is_alive {
            let columns = self.columns.iter();
            columns.for_each(|column| writer.value(&column.value(row)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot_format::{self as format, compose};
    use event::{Attribute, Schema, Type, Value};

    fn table() -> Table {
        let attribute = |name: &str, ty| Attribute {
            name: name.into(),
            ty,
        };
        Table::new(&plan::Table {
            schema: Schema {
                name: "T".into(),
                attributes: vec![attribute("k", Type::Long), attribute("v", Type::String)],
            },
            primary_key: vec![0],
            indexes: Vec::new(),
            index_details: Vec::new(),
            store: None,
            span: lang::span::Span::default(),
        })
    }

    fn insert(table: &mut Table, keys: Range<i64>) {
        let mut texts = ColumnBuilder::new(Type::String);
        keys.clone().for_each(|k| texts.push_str(&format!("v{k}")));
        let columns = [Column::longs_from(keys.clone().collect()), texts.finish()];
        table.insert(&columns, 0..keys.count(), &mut Vec::new());
    }

    fn content(table: &Table) -> Vec<Vec<Value>> {
        let all = table.content(0);
        (0..all.len).map(|row| all.row(row)).collect()
    }

    /// A table, and the state of it that was put together.
    struct Run {
        table: Table,
        composed: Vec<u8>,
    }

    impl Run {
        fn tape(&self, extent: Extent) -> Vec<u8> {
            let mut writer = Writer::default();
            format::begin(&mut writer);
            match extent {
                Extent::All => format::whole_piece(&mut writer, "T", &Default::default()),
                Extent::Changes => format::changed_piece(&mut writer, "T"),
            }
            self.table.save(&mut writer, extent);
            format::end(&mut writer);
            writer.bytes
        }

        /// Saves what has changed; its length.
        fn save(&mut self) -> usize {
            let increment = self.tape(Extent::Changes);
            let mut writer = Writer::default();
            compose(&mut [&self.composed[..], &increment], &mut writer).expect("they fit");
            self.composed = writer.bytes;
            self.table.mark_saved();
            let found = restored(&self.composed);
            assert_eq!(content(&found), content(&self.table));
            assert_eq!(
                content(&restored(&self.tape(Extent::All))),
                content(&self.table)
            );
            increment.len()
        }
    }

    fn restored(bytes: &[u8]) -> Table {
        let mut reader = Reader::new(bytes);
        reader.u32().expect("a version");
        reader.u8().expect("a piece");
        reader.str().expect("a name");
        reader.str().expect("a shape");
        reader.u64().expect("no parts");
        let fields = format::read_fields(&mut reader, bytes).expect("fields").0;
        let table = table().restored(&mut Fields::new(fields));
        table.expect("what was saved is restored")
    }

    #[test]
    fn pages_and_the_rows_over_them_are_the_table() {
        let table = table();
        let mut run = Run {
            composed: Vec::new(),
            table,
        };
        insert(&mut run.table, 0..5_000);
        run.composed = run.tape(Extent::All);
        run.table.mark_saved();
        let set = |run: &mut Run, row: u32, text: &str| {
            run.table.assign(row, &[(1, Value::str(text))]);
        };
        assert!(run.save() < 40, "nothing has changed");
        for row in (0..5_000).step_by(50) {
            set(&mut run, row, "x");
        }
        assert!(run.save() < 30 * 100, "one row of fifty");
        run.table.delete(&[7, 50, 1_024, 4_999]);
        run.save();
        insert(&mut run.table, 7..8);
        insert(&mut run.table, 6_000..6_010);
        assert!(run.save() < 400, "a few rows");
        (0..400).for_each(|row| set(&mut run, row, "a page that is written anew"));
        run.save();
        set(&mut run, 3, "over it");
        run.table.delete(&[5]);
        assert!(run.save() < 120, "two rows");
        let many: Vec<u32> = (0..4_000).collect();
        run.table.delete(&many);
        run.save();
        set(&mut run, 1, "behind the compaction");
        run.save();
        run.table.delete_where(|_, _| true);
        run.save();
        insert(&mut run.table, 0..3);
        run.save();
    }
}
