//! Updates found by primary key, a whole batch at once.
//!
//! Where the condition is the primary key and nothing else, and what is set depends on the event
//! alone and on no index, chunks need not be gone through one by one: an event finds its row or
//! makes it, and the last event of a row gives its values. Values are put into each column in one
//! loop over the events.

use event::column::{StrView, View};
use event::{Batch, Cells, Column};

use super::index::{cells_equal, tag_all};
use super::write::Update;
use super::{MemoryCondition, PAGE_ROWS, Page, Table};
use crate::component::EvalContext;
use crate::expr::{Expression, Inputs, ROW};

/// The event makes no row and updates none.
const NO_ROW: u32 = u32::MAX;

/// So many pages are looked at before the events are.
const PAGES_FEW: usize = 16;

/// Vectors that are filled for each batch, kept for the room they have taken.
#[derive(Default)]
pub(super) struct Room {
    keys: Vec<Column>,
    tags: Vec<u32>,
    /// The row of each event.
    rows: Vec<u32>,
    /// The events that make rows.
    made: Vec<u32>,
}

/// Can updates by this condition and to these values be done so, whatever the rows?
pub(super) fn is_direct(
    on: &MemoryCondition,
    set: &[(usize, Expression)],
    table: &plan::Table,
) -> bool {
    let is_in_index = |column: &usize| {
        let mut indexes = table.indexes.iter();
        table.primary_key.contains(column) || indexes.any(|index| index.contains(column))
    };
    !table.primary_key.is_empty()
        && on.is_key()
        && !on.is_fallible()
        && set.iter().all(|(column, value)| {
            !is_in_index(column)
                && !value.is_fallible()
                && value.uses.iter().all(|slot| slot.part == ROW)
        })
}

/// False where the batch has to go the long way; nothing is done then.
pub(super) fn apply(
    update: &mut Update,
    table: &mut Table,
    batch: &Batch,
    inserts: bool,
    context: &mut EvalContext<'_>,
) -> bool {
    let Some(keys) = update.on.key().filter(|_| update.is_direct) else {
        return false;
    };
    let inputs = Inputs::of(&batch.columns, batch.len);
    let Room {
        keys: sought,
        tags,
        rows,
        made,
    } = &mut update.room;
    sought.clear();
    sought.extend(keys.iter_mut().map(|k| k.column(&inputs, context)));
    let is_plain = |column: &Column| column.nulls().is_none() && !column.is_any();
    // What is inserted has the key of the event's row, not that of the condition.
    let own = table.indexes[0].columns.iter();
    let mut own = own.zip(&*sought);
    let is_own = !inserts || own.all(|(&c, key)| batch.columns[c].is_same(key));
    if !is_own || !sought.iter().all(is_plain) {
        return false;
    }
    find_rows(table, batch, sought, inserts, (tags, rows, made));
    if !table.changes.rows.is_off() {
        let changed = rows.iter().filter(|&&row| row != NO_ROW);
        changed.for_each(|&row| table.changes.rows.mark(row));
    }
    for (column, value) in &mut update.set {
        assign(table, *column, &value.column(&inputs, context), rows);
    }
    sought.clear();
    true
}

/// The row of each event, which is inserted where there is none.
fn find_rows(
    table: &mut Table,
    batch: &Batch,
    sought: &[Column],
    inserts: bool,
    (tags, rows, made): (&mut Vec<u32>, &mut Vec<u32>, &mut Vec<u32>),
) {
    let (one, many): (Cells<'_>, Vec<Cells<'_>>);
    let sought = match sought {
        [key] => {
            one = Cells::from(key);
            std::slice::from_ref(&one)
        }
        keys => {
            many = keys.iter().map(Cells::from).collect();
            &many
        }
    };
    // All tags first, so that looking up one row does not wait for the one before.
    tags.clear();
    tag_all(sought, batch.len, tags);
    rows.clear();
    let known = table.rows.count as u32;
    table.find_known(sought, tags, rows);
    made.clear();
    let of_table = &table.rows;
    let index = &mut table.indexes[0];
    for (event, row) in rows.iter_mut().enumerate() {
        if *row != NO_ROW {
            continue;
        }
        // An event before may have made the row.
        let is_it = |row: u32| match row.checked_sub(known) {
            Some(new) => {
                let maker = made[new as usize] as usize;
                let mut keys = sought.iter();
                keys.all(|key| cells_equal(key, maker, key, event))
            }
            None => index.is_row(row, sought, event, of_table),
        };
        match index.find_by(tags[event], is_it) {
            Some(found) => *row = found,
            None if inserts => {
                index.insert_tagged(known + made.len() as u32, tags[event]);
                made.push(event as u32);
            }
            None => {}
        }
    }
    if !made.is_empty() {
        let columns: Vec<Column> = batch.columns.iter().map(|c| c.gather(made)).collect();
        table.append(&columns, 0..made.len());
        for index in &mut table.indexes[1..] {
            (known..table.rows.count as u32).for_each(|row| index.insert(row, &table.rows));
        }
    }
    table.assigned += rows.iter().filter(|&&row| row < known).count() as u64;
}

impl Table {
    /// Appends the row of each event, or [`NO_ROW`] where it has none that is known yet; with few
    /// pages, of which it is found out once where the keys lie.
    fn find_known(&self, sought: &[Cells<'_>], tags: &[u32], rows: &mut Vec<u32>) {
        let index = &self.indexes[0];
        let has_few_pages = self.rows.pages.len() <= PAGES_FEW.min(tags.len());
        let ([column], [key], true) = (index.columns.as_slice(), sought, has_few_pages) else {
            return rows.resize(tags.len(), NO_ROW);
        };
        if let (Some(pages), View::Str(sought)) = (self.texts(*column), key.view()) {
            // First what has such a tag, then whether that is it: the memory that one event waits
            // for is asked for while others wait.
            let of_tag = |&tag| index.find_by(tag, |_| true).unwrap_or(NO_ROW);
            rows.extend(tags.iter().map(of_tag));
            for (event, row) in rows.iter_mut().enumerate() {
                let Some(page) = pages.get(*row as usize / PAGE_ROWS) else {
                    continue;
                };
                let at = *row as usize % PAGE_ROWS;
                let is_it = match sought.short_words(event) {
                    Some(words) => page.is_short(at, words),
                    None => page.rows_equal(at, &sought, event),
                };
                if !is_it {
                    *row = NO_ROW;
                }
            }
            return;
        }
        let mut pages = [None; PAGES_FEW];
        for (cells, page) in pages.iter_mut().zip(&self.rows.pages) {
            *cells = Some(Cells::from(&page.columns[*column]));
        }
        rows.extend(tags.iter().enumerate().map(|(event, &tag)| {
            let is_it = |row: u32| {
                let (cells, at) = (&pages[row as usize / PAGE_ROWS], row as usize % PAGE_ROWS);
                let cells = cells.as_ref();
                cells.is_some_and(|cells| cells_equal(cells, at, key, event))
            };
            index.find_by(tag, is_it).unwrap_or(NO_ROW)
        }));
    }

    /// A column of texts without nulls, page by page, of which there are few; behind the last stands
    /// the first.
    fn texts(&self, column: usize) -> Option<[StrView<'_>; PAGES_FEW]> {
        fn texts(page: &Page, column: usize) -> Option<StrView<'_>> {
            match page.columns[column].view() {
                View::Str(texts) if page.columns[column].nulls().is_none() => Some(texts),
                _ => None,
            }
        }
        let pages = &self.rows.pages;
        let mut all = [texts(pages.first()?, column)?; PAGES_FEW];
        for (of_page, page) in all.iter_mut().zip(pages) {
            *of_page = texts(page, column)?;
        }
        Some(all)
    }
}

/// Puts the values of a column into the rows, in the order of the events.
fn assign(table: &mut Table, column: usize, from: &Column, rows: &[u32]) {
    let (types, pages) = (&table.types, &mut table.rows.pages);
    // With more pages than events it does not pay to look at all of them first.
    if rows.len() > 1 && pages.len() <= rows.len() {
        macro_rules! scatter {
            ($values:ident, $slice:ident) => {{
                let slices = pages.iter_mut().map(|p| p.columns[column].$slice());
                if let Some(mut to) = slices.collect::<Option<Vec<_>>>() {
                    for (&row, &value) in rows.iter().zip($values) {
                        if row != NO_ROW {
                            to[row as usize / PAGE_ROWS][row as usize % PAGE_ROWS] = value;
                        }
                    }
                    return;
                }
            }};
        }
        if from.nulls().is_none() {
            match from.view() {
                View::Double(values) => scatter!(values, doubles_mut),
                View::Long(values) => scatter!(values, longs_mut),
                View::Int(values) => scatter!(values, ints_mut),
                _ => {}
            }
        }
    }
    for (event, &row) in rows.iter().enumerate() {
        if row != NO_ROW {
            let page = &mut pages[row as usize / PAGE_ROWS];
            page.columns[column].set_from(row as usize % PAGE_ROWS, from, event);
            page.overwrote(types);
        }
    }
}
