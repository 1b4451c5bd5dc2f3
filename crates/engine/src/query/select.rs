//! The selector: attributes, aggregates, groups, `having`, `order by`, `limit` and `offset`.
//!
//! Works on whole batches. Expressions that depend on rows alone are computed first: if one fails,
//! no aggregator has moved yet, and the chunk is gone through row by row up to the failing one, as
//! Siddhi's `QuerySelector` would have.

use std::borrow::Cow;
use std::ops::Range;

use event::{Batch, BatchParts, Chunks, Clock, Column, ColumnBuilder, Reset, Times, Type};
use lang::ast::EventType;
use lang::plan;

use super::group::{self, Interner};
use super::order;
use super::reduce::{OutChunks, Seen};
use super::site::{self, SiteRows};
use super::sliding::Sliding;
use super::{Broken, Step};
use crate::component::{Failure, Group, Groups, Key};
use crate::error::Error;
use crate::expr::{COMPUTED, Compiler, Expression, Inputs, Layout, OTHER, ROW, Site, Slot};
use crate::table::ConditionContext;
use crate::touched::Touched;

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
    pub touched: Touched,
    pub(super) having: Option<Having>,
    order_by: Vec<(Expression, bool)>,
    limit: Option<u64>,
    offset: Option<u64>,
    has_aggregator: bool,
    /// There is nothing but items, each of its row alone.
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
    /// For each row its group, where the query has groups and the caller asks for their texts.
    groups: Option<Vec<Group>>,
    /// Texts of those groups, where the rate limiter asks for them.
    pub names: Option<Vec<Box<str>>>,
}

impl Selector {
    /// `row` is the layout of the input rows; `removes`: EXPIRED rows will arrive.
    pub fn new(
        selector: &plan::Selector,
        row: &Layout,
        events: EventType,
        removes: bool,
        context: &mut ConditionContext<'_>,
    ) -> Result<Selector, Error> {
        let mut sites = Vec::new();
        let mut site_items = Vec::new();
        let mut items = Vec::new();
        for (at, (expr, _)) in selector.items.iter().enumerate() {
            let mut compiler = Compiler {
                layout: row.clone(),
                sites: &mut sites,
                removes,
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
                    removes,
                    tables: context,
                }
                .compile(expr)
            })
            .transpose()?;
        let mut no_sites = Vec::new();
        let mut compiler = Compiler {
            layout: row.clone().and_whole(plan::OUTPUT, OTHER, width),
            sites: &mut no_sites,
            removes,
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
            removes,
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
            touched: Touched::default(),
            having: having.map(|condition| Having {
                inputs,
                sites: having_sites,
                condition,
            }),
            order_by,
            limit: selector.limit,
            offset: selector.offset,
            has_aggregator: selector.has_aggregator,
            is_projection: false,
            is_identity,
            moved,
            slides_by_one: false,
            events,
            is_late_fallible,
            is_unreduced: false,
            is_compat: false,
            seen: Seen::default(),
            room: Room::default(),
            sliding: Sliding::default(),
        };
        selector.is_projection = selector.is_plain() && selector.sites.is_empty();
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

    /// Passes rows through unchanged but for the choice of attributes.
    fn is_plain(&self) -> bool {
        !self.has_aggregator
            && self.group_by.is_empty()
            && self.having.is_none()
            && self.order_by.is_empty()
            && self.limit.is_none()
            && self.offset.is_none()
    }

    /// Does every row leave, each item computed from it alone?
    #[inline]
    pub fn projects(&self, batch: &Batch) -> bool {
        self.is_projection && self.leaves_whole(batch)
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

    /// The same where results of aggregators have been computed. `columns` is empty; the columns that
    /// the rows had are left in it.
    pub(super) fn put_items(
        &mut self,
        batch: &mut Batch,
        computed: &mut [Column],
        columns: &mut Vec<Column>,
        step: &mut Step<'_>,
    ) -> Result<(), Broken> {
        let mut failures = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
        let mut context = step.evaluation(batch, &mut failures);
        let items = self.items.iter_mut().zip(&self.moved);
        columns.extend(items.map(|(item, moved)| match moved {
            Some(_) => Column::later(),
            None => item.column(&inputs, &mut context),
        }));
        for (column, moved) in columns.iter_mut().zip(&self.moved) {
            let from = match *moved {
                Some(Slot { part: ROW, index }) => &mut batch.columns[usize::from(index)],
                Some(Slot { index, .. }) => &mut computed[usize::from(index)],
                None => continue,
            };
            std::mem::swap(column, from);
        }
        std::mem::swap(&mut batch.columns, columns);
        match failures.iter().min_by_key(|f| f.row) {
            Some(first) => Err(self.broken(first)),
            None => Ok(()),
        }
    }

    pub fn select(
        &mut self,
        batch: Batch,
        key: Key,
        wants_names: bool,
        step: &mut Step<'_>,
    ) -> Result<Option<Selected>, Broken> {
        let mut columns = std::mem::take(&mut self.room.columns);
        let mut numbers = std::mem::take(&mut self.room.numbers);
        let is_grouped = self.group_numbers(&batch, key, step, &mut numbers);
        let groups = is_grouped.then_some(numbers.as_slice());
        let result = self.select_rows(batch, key, groups, wants_names, &mut columns, step);
        columns.clear();
        numbers.clear();
        self.room.columns = columns;
        self.room.numbers = numbers;
        result
    }

    fn select_rows(
        &mut self,
        batch: Batch,
        key: Key,
        groups: Option<&[Group]>,
        wants_names: bool,
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
            self.touched.mark_each(&reset_groups);
        }
        let rows = SiteRows {
            batch: &batch,
            groups: row_groups,
            reset_groups: &reset_groups,
        };
        self.attributes(&rows, step, columns)?;
        if self.leaves_whole(&batch) && !wants_names {
            self.give_back(&batch, groups, key);
            return Ok(Some(whole(batch, columns)));
        }
        let mut result = self.finish(&batch, columns, groups, &rows, step);
        if let (true, Ok(Some(selected))) = (wants_names, &mut result) {
            // Before the numbers of empty groups are given back.
            let name = |&g: &Group| {
                let name = self.groups.name(g);
                name.map_or_else(Box::default, |(_, text)| text.into())
            };
            let groups = selected.groups.as_deref();
            selected.names = groups.map(|groups| groups.iter().map(name).collect());
        }
        self.give_back(&batch, groups, key);
        result
    }

    /// Do all rows leave as they are, but for their columns?
    pub(super) fn leaves_whole(&self, batch: &Batch) -> bool {
        let takes_all = match self.events {
            EventType::All => true,
            EventType::Current => batch.expired.is_none(),
            EventType::Expired => false,
        };
        if self.is_plain() {
            return takes_all;
        }
        let is_one_each = match batch.chunks {
            Chunks::EachRow => true,
            Chunks::One => batch.len == 1,
            Chunks::Ends(_) => false,
        };
        takes_all
            && is_one_each
            && batch.resets.is_none()
            && batch.inner.is_none()
            && self.having.is_none()
            && self.limit.is_none()
            && self.offset.is_none()
            && !self.is_unreduced
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
            self.touched.mark_each(numbers);
            return true;
        }
        let mut ignored = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        let mut context = step.evaluation(batch, &mut ignored);
        let mut columns = std::mem::take(&mut self.room.computed);
        let group_by = self.group_by.iter_mut();
        columns.extend(group_by.map(|e| e.column(&inputs, &mut context)));
        group::intern_all(&mut self.groups, key, &columns, batch.len, numbers);
        self.touched.mark_each(numbers);
        columns.clear();
        self.room.computed = columns;
        true
    }

    /// The columns of the select clause, appended to an empty vector.
    pub(super) fn attributes(
        &mut self,
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
        columns: &mut Vec<Column>,
    ) -> Result<(), Broken> {
        let batch = rows.batch;
        if self.is_late_fallible && !self.sites.is_empty() {
            *columns = self.attributes_by_row(rows, step)?;
            return Ok(());
        }
        let mut failures = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        // First whatever sees rows alone; nothing has moved if it fails.
        for item in &mut self.items {
            let mut context = step.evaluation(batch, &mut failures);
            columns.push(if item.reads_computed() {
                Column::later()
            } else {
                item.column(&inputs, &mut context)
            });
        }
        if !self.sites.is_empty() {
            for site in &mut self.sites {
                if let Site::Aggregate(site) = site {
                    let mut context = step.evaluation(batch, &mut failures);
                    let row_only = site
                        .args
                        .iter_mut()
                        .filter(|a| a.is_fallible() && a.uses.iter().all(|s| s.part != COMPUTED));
                    for arg in row_only {
                        arg.evaluate(&inputs, &mut context);
                    }
                }
            }
        }
        if let Some(first) = failures.iter().min_by_key(|f| f.row) {
            if batch.chunk_count() > 1 || self.sites.is_empty() {
                return Err(self.broken(first));
            }
            *columns = self.attributes_by_row(rows, step)?;
            return Ok(());
        }
        if self.sites.is_empty() {
            return Ok(());
        }
        let mut computed = std::mem::take(&mut self.room.computed);
        let sites = &mut self.sites;
        site::compute_into(sites, rows, step, &mut failures, &mut computed);
        self.late_attributes(batch, &computed, step, &mut failures, columns);
        computed.clear();
        self.room.computed = computed;
        match failures.iter().min_by_key(|f| f.row) {
            Some(first) => Err(self.broken(first)),
            None => Ok(()),
        }
    }

    /// Those columns of the select clause that wait for aggregators and probes.
    pub(super) fn late_attributes(
        &mut self,
        batch: &Batch,
        computed: &[Column],
        step: &mut Step<'_>,
        failures: &mut Vec<Failure>,
        columns: &mut [Column],
    ) {
        let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
        for (item, column) in self.items.iter_mut().zip(columns) {
            if item.reads_computed() {
                *column = item.column(&inputs, &mut step.evaluation(batch, failures));
            }
        }
    }

    fn broken(&self, failure: &Failure) -> Broken {
        Broken::at("select".to_owned(), failure.message.clone())
    }

    /// One row after the other, one item after the other, up to the first that fails.
    fn attributes_by_row(
        &mut self,
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
    ) -> Result<Vec<Column>, Broken> {
        let whole = rows.batch;
        let mut builders: Vec<ColumnBuilder> = self
            .items
            .iter()
            .map(|i| ColumnBuilder::with_capacity(i.ty, whole.len))
            .collect();
        let resets: &[Reset] = whole.resets.as_deref().unwrap_or(&[]);
        let mut next_reset = 0;
        for row in 0..=whole.len {
            while next_reset < resets.len() && resets[next_reset].row as usize == row {
                next_reset += 1;
                self.clear(rows.reset_groups);
            }
            if row == whole.len {
                break;
            }
            let batch = one_row(whole, row);
            let one = SiteRows {
                batch: &batch,
                groups: match rows.groups {
                    Groups::One(group) => Groups::One(group),
                    Groups::PerRow(groups) => Groups::One(groups[row]),
                },
                reset_groups: &[],
            };
            let mut computed: Vec<Column> = Vec::with_capacity(self.sites.len());
            for (at, item) in self.items.iter_mut().enumerate() {
                let mut failures = Vec::new();
                while failures.is_empty()
                    && computed.len() < self.sites.len()
                    && self.site_items[computed.len()] == at
                {
                    let site = &mut self.sites[computed.len()];
                    let column = site::compute_one(site, &computed, &one, step, &mut failures);
                    computed.push(column);
                }
                if failures.is_empty() {
                    let inputs = Inputs::of(&batch.columns, 1).with(COMPUTED, &computed);
                    let mut context = step.evaluation(&batch, &mut failures);
                    builders[at].push(&item.evaluate(&inputs, &mut context).value(0));
                }
                if let Some(failure) = failures.into_iter().next() {
                    let place = format!("select item '{}'", self.names[at]);
                    return Err(Broken::at(place, failure.message));
                }
            }
        }
        Ok(builders.into_iter().map(ColumnBuilder::finish).collect())
    }

    fn clear(&mut self, groups: &[Group]) {
        if !self.group_by.is_empty() {
            self.touched.mark_each(groups);
        }
        for site in &mut self.sites {
            if let Site::Aggregate(site) = site {
                groups.iter().for_each(|&g| site.aggregate.clear(g));
            }
        }
    }

    pub(super) fn finish(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
    ) -> Result<Option<Selected>, Broken> {
        if let Some(last) = self.last_row(batch, groups) {
            return Ok(last.map(|row| only(batch, columns, row)));
        }
        if let Some(selected) = self.last_of_groups(batch, columns, groups) {
            return Ok(Some(selected));
        }
        let mut keep: Vec<bool> = match self.events {
            EventType::All => vec![true; batch.len],
            EventType::Current => match &batch.expired {
                Some(expired) => expired.iter().map(|e| !e).collect(),
                None => vec![true; batch.len],
            },
            EventType::Expired => match &batch.expired {
                Some(expired) => expired.to_vec(),
                None => vec![false; batch.len],
            },
        };
        if let Some(having) = &mut self.having {
            let mut failures = Vec::new();
            let mut row = batch.clone();
            row.columns.truncate(having.inputs);
            row.columns.extend_from_slice(columns);
            let rows = SiteRows {
                batch: &row,
                ..*rows
            };
            let computed = site::compute(&mut having.sites, &rows, step, &mut failures);
            let inputs = Inputs::of(&row.columns, row.len).with(COMPUTED, &computed);
            let mut context = step.evaluation(&row, &mut failures);
            let passes = having.condition.mask(&inputs, &mut context);
            if let Some(failure) = failures.into_iter().min_by_key(|f| f.row) {
                return Err(Broken::at("having".to_owned(), failure.message));
            }
            keep.iter_mut().zip(passes).for_each(|(k, p)| *k &= p);
        }
        let is_each_row = batch.chunks == Chunks::EachRow && batch.inner.is_none();
        if is_each_row && batch.resets.is_none() && !self.is_unreduced {
            return Ok(self.each_row(batch, columns, groups, &keep));
        }
        if let Some(selected) = self.one_a_chunk(batch, columns, groups, &keep) {
            return Ok(Some(selected));
        }
        let keys = self.order_keys(batch, columns, step);
        Ok(self.reduce(batch, columns, groups, &keep, &keys))
    }

    /// Of one chunk of an aggregate without groups the last row leaves, where no clause says
    /// otherwise: its number, if it is there. `None` where it is not so simple.
    fn last_row(&self, batch: &Batch, groups: Option<&[Group]>) -> Option<Option<usize>> {
        let is_simple = self.has_aggregator
            && groups.is_none()
            && self.having.is_none()
            && self.limit.is_none()
            && self.offset.is_none()
            && !self.is_unreduced
            && batch.chunks == Chunks::One
            && batch.inner.is_none();
        if !is_simple {
            return None;
        }
        let takes = |row: &usize| match self.events {
            EventType::All => true,
            EventType::Current => !batch.is_expired(*row),
            EventType::Expired => batch.is_expired(*row),
        };
        Some((0..batch.len).rev().find(takes))
    }

    /// Of one chunk of CURRENT rows the last of each group leaves, where no clause says otherwise.
    /// `None` where it is not so simple.
    fn last_of_groups(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
    ) -> Option<Selected> {
        let groups = groups?;
        let is_simple = self.having.is_none()
            && self.order_by.is_empty()
            && self.limit.is_none()
            && self.offset.is_none()
            && !self.is_unreduced
            && self.events != EventType::Expired
            && batch.chunks == Chunks::One
            && batch.len > 0
            && batch.expired.is_none()
            && batch.resets.is_none()
            && batch.inner.is_none();
        if !is_simple {
            return None;
        }
        let rows = &mut self.room.rows;
        rows.clear();
        self.seen.begin(self.groups.width());
        self.seen
            .last_rows(groups, 0..batch.len as u32, batch.len, rows);
        Some(Selected {
            batch: Batch::from(BatchParts {
                columns: columns.iter().map(|c| c.gather(rows)).collect(),
                len: rows.len(),
                times: batch.times.gather(rows),
                expired: None,
                resets: None,
                chunks: Chunks::One,
                inner: None,
                clock: batch.clock.clone(),
            }),
            groups: Some(rows.iter().map(|&row| groups[row as usize]).collect()),
            names: None,
        })
    }

    /// Where every row is a chunk there is nothing to reduce or to sort.
    fn each_row(
        &self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        keep: &[bool],
    ) -> Option<Selected> {
        if self.offset.unwrap_or(0) > 0 {
            return None;
        }
        let is_limited = self.limit == Some(0);
        let keep: Cow<'_, [bool]> = if is_limited {
            (0..batch.len)
                .map(|r| keep[r] && batch.is_expired(r))
                .collect()
        } else {
            Cow::Borrowed(keep)
        };
        let whole = batch.with_columns(columns.to_vec());
        let groups = groups.map(|groups| {
            let kept = groups.iter().zip(keep.iter()).filter(|(_, k)| **k);
            kept.map(|(&g, _)| g).collect()
        });
        let batch = whole.filter(&keep)?;
        Some(Selected {
            batch,
            groups,
            names: None,
        })
    }

    /// Where one row of each chunk passed, as behind a sliding window that is full, there is
    /// nothing to reduce or to sort either. `None` where it is not so.
    fn one_a_chunk(
        &self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        keep: &[bool],
    ) -> Option<Selected> {
        let (Chunks::Ends(ends), Clock::Same(_)) = (&batch.chunks, &batch.clock) else {
            return None;
        };
        let is_whole = self.offset.unwrap_or(0) == 0 && self.limit.is_none();
        if !is_whole || batch.inner.is_some() || batch.resets.is_some() {
            return None;
        }
        let picked = event::picked(keep);
        let mut start = 0;
        let mut is_one = picked.len() == ends.len();
        for (&row, &end) in picked.iter().zip(ends.iter()) {
            is_one &= start <= row && row < end;
            start = end;
        }
        if !is_one {
            return None;
        }
        let expired = match (&batch.expired, self.events) {
            (Some(expired), EventType::All | EventType::Expired) => {
                let marks: Vec<bool> = picked.iter().map(|&r| expired[r as usize]).collect();
                marks.contains(&true).then(|| marks.into())
            }
            _ => None,
        };
        Some(Selected {
            batch: Batch::from(BatchParts {
                columns: columns.iter().map(|c| c.gather(&picked)).collect(),
                len: picked.len(),
                times: batch.times.gather(&picked),
                expired,
                resets: None,
                chunks: if picked.len() == 1 {
                    Chunks::One
                } else {
                    Chunks::EachRow
                },
                inner: None,
                clock: batch.clock.clone(),
            }),
            groups: groups.map(|g| picked.iter().map(|&r| g[r as usize]).collect()),
            names: None,
        })
    }

    fn order_keys(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        step: &mut Step<'_>,
    ) -> Vec<(Column, bool)> {
        let mut ignored = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len).with(OTHER, columns);
        let mut context = step.evaluation(batch, &mut ignored);
        self.order_by
            .iter_mut()
            .map(|(e, descending)| (e.column(&inputs, &mut context), *descending))
            .collect()
    }

    /// From the rows that passed to those that leave, inner chunk by inner chunk.
    fn reduce(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        keep: &[bool],
        keys: &[(Column, bool)],
    ) -> Option<Selected> {
        let mut picked: Vec<u32> = Vec::with_capacity(batch.len);
        let mut out = OutChunks::default();
        let mut inner_end = 0;
        let mut rows = Vec::new();
        for chunk in 0..batch.chunk_count() {
            let range = batch.chunk(chunk);
            let mut start = range.start;
            let mut is_first = true;
            let mut is_lost = false;
            while start < range.end || is_first {
                is_first = false;
                let end = match &batch.inner {
                    None => range.end,
                    Some(inner) => {
                        while inner_end < inner.len() && inner[inner_end] as usize <= start {
                            inner_end += 1;
                        }
                        inner
                            .get(inner_end)
                            .map_or(range.end, |&e| (e as usize).min(range.end))
                    }
                };
                rows.clear();
                self.survivors(start..end, groups, keep, &mut rows);
                let passed = rows.last().copied();
                let is_rebuilt = !keys.is_empty()
                    || groups.is_some()
                    || self.has_aggregator && !self.is_unreduced;
                // Siddhi cuts the end of a chunk and still appends to what it has cut off
                // (`ComplexEventChunk.remove`): the results of the events after it are lost.
                let mut is_cut = !is_rebuilt && passed.is_some_and(|last| last as usize + 1 < end);
                if self.is_unreduced && groups.is_some() {
                    // Order and offset do not reach grouped rows (`QuerySelector.processGroupBy`).
                    let limit = self.limit.unwrap_or(u64::MAX);
                    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                } else {
                    if !keys.is_empty() {
                        order::sort(&mut rows, keys, batch);
                    }
                    let last = rows.last().copied();
                    order::offset_and_limit(&mut rows, self.offset, self.limit, batch);
                    is_cut |= !rows.is_empty() && rows.last().copied() != last;
                }
                if !is_lost {
                    picked.extend_from_slice(&rows);
                }
                is_lost |= self.is_compat && is_cut && batch.inner.is_some();
                start = end.max(start + 1);
            }
            let keeps_resets = (!self.has_aggregator || self.is_unreduced) && groups.is_none();
            out.end(batch, chunk, &picked, keeps_resets);
        }
        let batch = out.batch(batch, columns, &picked)?;
        let groups = groups.map(|g| picked.iter().map(|&r| g[r as usize]).collect());
        Some(Selected {
            batch,
            groups,
            names: None,
        })
    }

    /// All rows that passed; with an aggregator the last; with groups the last of each, in the
    /// order in which the groups first appear.
    fn survivors(
        &mut self,
        range: std::ops::Range<usize>,
        groups: Option<&[Group]>,
        keep: &[bool],
        rows: &mut Vec<u32>,
    ) {
        let len = range.len();
        let mut passed = range.filter(|&r| keep[r]).map(|r| r as u32);
        match groups {
            _ if self.is_unreduced => rows.extend(passed),
            None if self.has_aggregator => rows.extend(passed.next_back()),
            None => rows.extend(passed),
            Some(groups) => {
                self.seen.begin(self.groups.width());
                self.seen.last_rows(groups, passed, len, rows);
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

/// The rows of a batch with other columns; those that it had are left in the vector.
fn whole(mut batch: Batch, columns: &mut Vec<Column>) -> Selected {
    std::mem::swap(&mut batch.columns, columns);
    batch.inner = None;
    Selected {
        batch,
        groups: None,
        names: None,
    }
}

/// One row of a batch that is one chunk.
fn only(batch: &Batch, columns: &[Column], row: usize) -> Selected {
    let columns = columns.iter().map(|c| c.slice(row, 1)).collect();
    let times = Times::Same(batch.times.at(row));
    let mut one = Batch::new(columns, 1, times, Chunks::One, batch.clock_at(0));
    one.expired = batch.is_expired(row).then(|| [true].into());
    Selected {
        batch: one,
        groups: None,
        names: None,
    }
}

fn one_row(batch: &Batch, row: usize) -> Batch {
    let mut one = Batch::new(
        batch.columns.iter().map(|c| c.slice(row, 1)).collect(),
        1,
        event::Times::Same(batch.times.at(row)),
        Chunks::One,
        0,
    );
    one.clock = match &batch.clock {
        Clock::Same(t) => Clock::Same(*t),
        Clock::PerChunk(clocks) => Clock::Same(clocks[0]),
    };
    one.expired = batch.is_expired(row).then(|| [true].into());
    one
}
