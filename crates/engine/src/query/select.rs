//! The selector: the select clause and all that stands behind it, on whole batches.
//!
//! A batch gets the numbers of its groups, then the columns of the select clause (`attributes`), and
//! then loses the rows that do not leave (`clauses`). Here is what the selector is made of, what of it
//! is known before any row comes, and how long its groups live.

mod attributes;
mod clauses;

// Twin: sliding.rs; keep both in step.

use std::ops::Range;

use event::{Batch, Chunks, Column, Times, Type};
use lang::ast::EventType;

use super::group::{self, Interner};
use super::reduce::Seen;
use super::site::{self, SiteRows};
use super::sliding::Sliding;
use crate::component::{Group, Groups, Key};
use crate::dirty::DirtyBits;
use crate::error::Error;
use crate::expr::{Compiler, Expression, Inputs, Layout, OTHER, ROW, Site, Slot};
use crate::step::{Broken, Step};
use crate::table::ConditionContext;
pub(super) use clauses::FastPath;

pub(crate) struct Selector {
    pub sites: Vec<Site>,
    /// For each site the item that holds it.
    site_items: Vec<usize>,
    pub items: Vec<Expression>,
    names: Vec<String>,
    pub(super) group_by: Vec<Expression>,
    pub groups: Interner,
    /// Groups whose state or text has changed since it was saved; without `group by` the keys of the
    /// query say so.
    pub dirty: DirtyBits,
    pub(super) having: Option<Having>,
    order_by: Vec<(Expression, bool)>,
    limit: Option<u64>,
    offset: Option<u64>,
    has_aggregator: bool,
    /// Neither `having` nor `limit` nor `offset` keeps a row back.
    passes_all: bool,
    /// There is nothing but items: rows pass through but for the choice of attributes.
    is_plain: bool,
    /// The same, and each item is of its row alone.
    is_projection: bool,
    /// These are the columns that come, in their order.
    is_identity: bool,
    /// For each item the column that it is, of the row or of what is computed, where no other item is
    /// that too: it is not shared, but handed on.
    moved: Vec<Option<Slot>>,
    /// Rows that arrive alone in a sliding window are followed one by one.
    pub slides_by_one: bool,
    pub(super) events: EventType,
    /// An item may fail after its aggregator has moved.
    is_late_fallible: bool,
    /// Every row of a chunk leaves, also of aggregates and groups (Siddhi's `setBatchingEnabled`).
    pub is_unreduced: bool,
    /// The rate limiter asks for the texts of groups.
    pub wants_names: bool,
    /// `@app:compat('siddhi-5.1')`: what a join finds behind a cut end is lost.
    is_compat: bool,
    seen: Seen,
    pub(super) room: Room,
    pub(super) sliding: Sliding,
}

/// Vectors that are filled anew for each batch, kept for the room they have taken. The columns that
/// leave with a batch are replaced by the vector of those that came with it.
#[derive(Default)]
pub(super) struct Room {
    pub columns: Vec<Column>,
    pub computed: Vec<Column>,
    pub numbers: Vec<Group>,
    /// The rows that leave.
    rows: Vec<u32>,
}

pub(super) struct Having {
    /// Columns of the input; those of the output follow.
    inputs: usize,
    pub sites: Vec<Site>,
    condition: Expression,
}

/// What a query emits for a batch.
pub(crate) struct Selected {
    /// Chunks are those of delivery; RESETs remain in chunks whose rows left.
    pub batch: Batch,
    /// For each row its group, where the names of groups are asked for and not all rows leave.
    groups: Option<Vec<Group>>,
    /// Texts of those groups, where the rate limiter asks for them.
    pub names: Option<Vec<Box<str>>>,
}

impl Selector {
    /// `row` is the layout of the input rows; `tracks` as in [`Aggregator::bind`](crate::component::Aggregator::bind).
    pub fn new(
        selector: &plan::Selector,
        row: &Layout,
        events: EventType,
        tracks: bool,
        context: &mut ConditionContext<'_>,
    ) -> Result<Selector, Error> {
        let mut sites = Vec::new();
        let mut site_items = Vec::new();
        let mut items = Vec::new();
        for (at, (expr, _)) in selector.items.iter().enumerate() {
            let mut compiler = Compiler {
                layout: row.clone(),
                sites: &mut sites,
                tracks,
                tables: context,
            };
            items.push(compiler.compile(expr)?);
            site_items.resize(sites.len(), at);
        }
        let width = items.len();
        // `having` sees the output behind the input as one row, so that it can look into tables.
        let inputs = row.width(ROW);
        let all: Vec<usize> = (0..width).collect();
        let mut having_sites = Vec::new();
        let having = selector
            .having
            .as_ref()
            .map(|expr| {
                Compiler {
                    layout: row
                        .clone()
                        .and_picked(plan::OUTPUT, ROW, inputs, width, &all),
                    sites: &mut having_sites,
                    tracks,
                    tables: context,
                }
                .compile(expr)
            })
            .transpose()?;
        let mut no_sites = Vec::new();
        let mut compiler = Compiler {
            layout: row.clone().and_whole(plan::OUTPUT, OTHER, width),
            sites: &mut no_sites,
            tracks,
            tables: context,
        };
        let order_by = selector
            .order_by
            .iter()
            .map(|(expr, descending)| Ok((compiler.compile(expr)?, *descending)))
            .collect::<Result<Vec<_>, Error>>()?;
        let group_by = Compiler {
            layout: row.clone(),
            sites: &mut Vec::new(),
            tracks,
            tables: context,
        }
        .expressions(&selector.group_by)?;
        let is_late = |e: &Expression| e.is_fallible() && e.reads_computed();
        let is_late_fallible = items.iter().any(is_late)
            || sites
                .iter()
                .any(|site| matches!(site, Site::Aggregate(a) if a.args.iter().any(is_late)))
            || selector
                .items
                .iter()
                .any(|(expr, _)| site::has_aggregator_beside(expr, &site::SURE));
        let is_column = |(at, item): (usize, &Expression)| item.as_column(ROW) == Some(at);
        let is_identity = items.len() == inputs && items.iter().enumerate().all(is_column);
        let plain: Vec<Option<Slot>> = items.iter().map(Expression::as_slot).collect();
        let is_only = |slot: &Slot| {
            let others = plain.iter().filter(|p| **p == Some(*slot));
            slot.part != OTHER && others.count() == 1
        };
        let moved = plain.iter().map(|p| p.filter(is_only)).collect();
        let passes_all = selector.limit.is_none() && selector.offset.is_none() && having.is_none();
        let is_plain =
            passes_all && !selector.has_aggregator && group_by.is_empty() && order_by.is_empty();
        let is_projection = is_plain && sites.is_empty();
        let mut selector = Selector {
            sites,
            site_items,
            items,
            names: selector
                .items
                .iter()
                .map(|(_, name)| name.clone())
                .collect(),
            group_by,
            groups: Interner::default(),
            dirty: DirtyBits::default(),
            having: having.map(|condition| Having {
                inputs,
                sites: having_sites,
                condition,
            }),
            order_by,
            limit: selector.limit,
            offset: selector.offset,
            has_aggregator: selector.has_aggregator,
            passes_all,
            is_plain,
            is_projection,
            is_identity,
            moved,
            slides_by_one: false,
            events,
            is_late_fallible,
            is_unreduced: false,
            wants_names: false,
            is_compat: false,
            seen: Seen::default(),
            room: Room::default(),
            sliding: Sliding::default(),
        };
        if !selector.group_by.is_empty() {
            selector.keep_by_group();
        }
        Ok(selector)
    }

    pub fn is_fallible(&self) -> bool {
        self.is_late_fallible
            || self.items.iter().any(Expression::is_fallible)
            || self.sites.iter().any(|s| match s {
                Site::Aggregate(a) => a.args.iter().any(Expression::is_fallible),
                Site::Probe(_) | Site::Effect(_) => true,
            })
            || self
                .having
                .as_ref()
                .is_some_and(|h| h.condition.is_fallible())
    }

    /// Aggregates have a state for each group, or for each key of a partition.
    pub fn keep_by_group(&mut self) {
        for site in self.all_sites_mut() {
            if let Site::Aggregate(site) = site {
                site.aggregate.forget_empty();
            }
        }
    }

    /// `@app:compat('siddhi-5.1')`.
    pub fn be_compat(&mut self, selector: &plan::Selector) {
        self.is_compat = true;
        let mut items = selector.items.iter();
        self.is_late_fallible |=
            items.any(|(e, _)| site::has_aggregator_beside(e, &site::SURE[..8]));
    }

    pub fn has_aggregator(&self) -> bool {
        self.has_aggregator
    }

    /// A failure would find aggregators moved too far: such a batch comes chunk by chunk.
    pub fn is_late_fallible(&self) -> bool {
        self.is_late_fallible
            || self
                .having
                .as_ref()
                .is_some_and(|h| h.condition.is_fallible() || !h.sites.is_empty())
                && self.has_aggregator
            || self.sites.iter().any(|s| matches!(s, Site::Effect(_)))
    }

    pub fn all_sites(&self) -> impl Iterator<Item = &Site> {
        let having = self.having.iter().flat_map(|h| h.sites.iter());
        self.sites.iter().chain(having)
    }

    pub fn all_sites_mut(&mut self) -> impl Iterator<Item = &mut Site> {
        let having = self.having.iter_mut().flat_map(|h| h.sites.iter_mut());
        self.sites.iter_mut().chain(having)
    }

    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.items
            .iter()
            .chain(self.group_by.iter())
            .chain(self.having.iter().map(|h| &h.condition))
            .chain(self.order_by.iter().map(|(e, _)| e))
    }

    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        self.items
            .iter_mut()
            .chain(self.group_by.iter_mut())
            .chain(self.having.iter_mut().map(|h| &mut h.condition))
            .chain(self.order_by.iter_mut().map(|(e, _)| e))
    }

    /// Does every row leave, each item computed from it alone?
    #[inline]
    pub fn projects(&self, batch: &Batch) -> bool {
        self.is_projection && self.takes_all(batch)
    }

    /// Puts the columns of the items in place of those of the rows.
    pub fn project(&mut self, batch: &mut Batch, step: &mut Step<'_>) -> Result<(), Broken> {
        batch.inner = None;
        if self.is_identity && batch.columns.len() == self.items.len() {
            return Ok(());
        }
        let mut columns = std::mem::take(&mut self.room.columns);
        let result = self.put_items(batch, &mut [], &mut columns, step);
        columns.clear();
        self.room.columns = columns;
        result
    }

    pub fn select(
        &mut self,
        batch: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Selected>, Broken> {
        let mut columns = std::mem::take(&mut self.room.columns);
        let mut numbers = std::mem::take(&mut self.room.numbers);
        let is_grouped = self.group_numbers(&batch, key, step, &mut numbers);
        let groups = is_grouped.then_some(numbers.as_slice());
        let result = self.select_rows(batch, key, groups, &mut columns, step);
        columns.clear();
        numbers.clear();
        self.room.columns = columns;
        self.room.numbers = numbers;
        result
    }

    fn select_rows(
        &mut self,
        mut batch: Batch,
        key: Key,
        groups: Option<&[Group]>,
        columns: &mut Vec<Column>,
        step: &mut Step<'_>,
    ) -> Result<Option<Selected>, Broken> {
        let row_groups = match groups {
            Some(groups) => Groups::PerRow(groups),
            // Without `group by` all rows of a partition key are one group, numbered by the key.
            None => Groups::One(key),
        };
        let reset_groups: Vec<Group> = match &batch.resets {
            Some(_) if !self.sites.is_empty() => self.groups_of(key),
            _ => Vec::new(),
        };
        if groups.is_some() {
            self.dirty.mark_each(&reset_groups);
        }
        let rows = SiteRows {
            batch: &batch,
            groups: row_groups,
            reset_groups: &reset_groups,
        };
        self.attributes(&rows, step, columns)?;
        // Names are looked up before the numbers of empty groups are given back.
        let mut result = match self.way(&batch) {
            FastPath::Whole => {
                let names = groups
                    .filter(|_| self.wants_names)
                    .map(|g| self.names_of(g));
                self.give_back(&batch, groups, key);
                std::mem::swap(&mut batch.columns, columns);
                batch.inner = None;
                return Ok(Some(Selected {
                    batch,
                    groups: None,
                    names,
                }));
            }
            FastPath::Fewer(fewer) => self.leaving(fewer, columns, groups, &rows, step),
        };
        if let Ok(Some(selected)) = &mut result {
            selected.names = selected.groups.as_deref().map(|g| self.names_of(g));
        }
        self.give_back(&batch, groups, key);
        result
    }

    fn names_of(&self, groups: &[Group]) -> Vec<Box<str>> {
        let name = |&g: &Group| {
            let name = self.groups.name(g);
            name.map_or_else(Box::default, |(_, text)| text.into())
        };
        groups.iter().map(name).collect()
    }

    fn groups_of(&self, key: Key) -> Vec<Group> {
        if self.group_by.is_empty() {
            return vec![key];
        }
        self.groups.of_key(key)
    }

    pub(super) fn group_numbers(
        &mut self,
        batch: &Batch,
        key: Key,
        step: &mut Step<'_>,
        numbers: &mut Vec<Group>,
    ) -> bool {
        if self.group_by.is_empty() {
            return false;
        }
        if let [attribute] = self.group_by.as_slice()
            && let Some(column) = attribute.as_column(ROW)
        {
            let column = std::slice::from_ref(&batch.columns[column]);
            group::intern_all(&mut self.groups, key, column, batch.len, numbers);
            self.dirty.mark_each(numbers);
            return true;
        }
        let mut ignored = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        let mut context = step.evaluation(batch, &mut ignored);
        let mut columns = std::mem::take(&mut self.room.computed);
        let group_by = self.group_by.iter_mut();
        columns.extend(group_by.map(|e| e.column(&inputs, &mut context)));
        group::intern_all(&mut self.groups, key, &columns, batch.len, numbers);
        self.dirty.mark_each(numbers);
        columns.clear();
        self.room.computed = columns;
        true
    }

    fn clear(&mut self, groups: &[Group]) {
        if !self.group_by.is_empty() {
            self.dirty.mark_each(groups);
        }
        for site in &mut self.sites {
            if let Site::Aggregate(site) = site {
                groups.iter().for_each(|&g| site.aggregate.clear(g));
            }
        }
    }

    /// Numbers of groups of which nothing is left.
    fn give_back(&mut self, batch: &Batch, groups: Option<&[Group]>, key: Key) {
        let Some(numbers) = groups else {
            return;
        };
        if !self.sites.iter().any(|s| matches!(s, Site::Aggregate(_))) {
            // Without aggregators a group lives for one chunk.
            return self.groups.clear();
        }
        if batch.resets.is_some() {
            let all = self.groups_of(key);
            all.into_iter().for_each(|g| self.forget_empty(g));
        } else if let Some(expired) = &batch.expired {
            // A group that stands here more than once is gone the second time.
            for (&group, _) in numbers.iter().zip(expired.iter()).filter(|(_, e)| **e) {
                self.forget_empty(group);
            }
        }
    }

    pub(super) fn forget_empty(&mut self, group: Group) {
        let is_empty = self.sites.iter().all(|site| match site {
            Site::Aggregate(site) => site.aggregate.is_empty(group),
            Site::Probe(_) | Site::Effect(_) => true,
        });
        if is_empty {
            self.forget(group);
        }
    }

    fn forget(&mut self, group: Group) {
        self.clear(&[group]);
        if let Some(numbers) = self.groups.give_back(group) {
            self.release(numbers);
        }
    }

    /// Whole pages of group numbers are free.
    fn release(&mut self, groups: Range<Group>) {
        for site in self.all_sites_mut() {
            if let Site::Aggregate(site) = site {
                site.aggregate.release(groups.clone());
            }
        }
        self.seen.shrink(self.groups.width());
    }

    /// A partition key is gone.
    pub fn remove(&mut self, key: Key) {
        self.sliding.remove(key);
        if self.group_by.is_empty() {
            return self.clear(&[key]);
        }
        let all = self.groups.of_key(key);
        all.into_iter().for_each(|g| self.forget(g));
    }

    /// Whole pages of partition keys are gone.
    pub fn release_keys(&mut self, keys: Range<Key>) {
        if self.group_by.is_empty() {
            self.release(keys);
        } else {
            self.groups.release_keys(keys);
        }
    }

    /// Heap bytes of groups and aggregators.
    pub fn bytes(&self) -> usize {
        let sites = self.all_sites().map(|site| match site {
            Site::Aggregate(site) => site.aggregate.bytes(),
            Site::Probe(_) | Site::Effect(_) => 0,
        });
        sites.sum::<usize>() + self.groups.bytes() + self.seen.bytes() + self.sliding.bytes()
    }

    pub fn types(&self) -> Vec<Type> {
        self.items.iter().map(|i| i.ty).collect()
    }
}

/// One row of a batch with other columns, a chunk by itself.
fn one_row(batch: &Batch, columns: &[Column], row: usize) -> Batch {
    let columns = columns.iter().map(|c| c.slice(row, 1)).collect();
    let times = Times::Same(batch.times.at(row));
    let mut one = Batch::new(columns, 1, times, Chunks::One, batch.clock_at(0));
    one.expired = batch.is_expired(row).then(|| [true].into());
    one
}
